//! Layouts of convolution tensors, named by their axes from the slowest to the fastest.

use super::lattice::Strides;
use crate::error::{Error, Result};

/// The role of a tensor in a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Axes n, g, c and space (d, h, w).
    Input,
    /// Axes k, g, c and space (z, y, x).
    Filter,
    /// Axes n, g, k and space (d, h, w).
    Output,
}

impl Role {
    /// The letters of (outer, group, channel) and of three spatial axes.
    const fn letters(self) -> ([char; 3], [char; 3]) {
        match self {
            Role::Input => (['n', 'g', 'c'], ['d', 'h', 'w']),
            Role::Filter => (['k', 'g', 'c'], ['z', 'y', 'x']),
            Role::Output => (['n', 'g', 'k'], ['d', 'h', 'w']),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Role::Input => "input layout",
            Role::Filter => "filter layout",
            Role::Output => "output layout",
        }
    }
}

/// One axis of a convolution tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Axis {
    Outer,
    Group,
    Channel,
    /// 0 is the slowest of three; tensors of fewer dimensions use the last ones.
    Space(usize),
}

/// The order of a tensor's axes in memory, without gaps: `ngchw`, `nhwgc`, `gkyxc`, CK's `GNDHWC` and so on.
///
/// Any order is allowed. A name without a group axis (`nchw`, `kyxc`, CK's `NWC`) gets one: before the channels of an image,
/// first in a filter. If there is only one group, the axis changes no address, and such a tensor does not have it ([`ConvParam::named_shape`](super::ConvParam::named_shape)).
#[derive(Clone, Debug)]
pub struct ConvLayout {
    role: Role,
    axes: Vec<Axis>,
    /// Whether its name has the group axis.
    names_group: bool,
}

impl ConvLayout {
    /// Reads a layout for a tensor of that role.
    ///
    /// # Errors
    /// When an axis is missing, doubled or foreign, or the spatial axes are not `w`, `hw` or `dhw` (filter: `x`, `yx`, `zyx`).
    pub fn parse(role: Role, name: &str) -> Result<ConvLayout> {
        let (plain, space) = role.letters();
        let fail = || Error::InvalidArgument {
            what: role.name(),
            value: name.to_owned(),
            limit: format!(
                "each of `{}{}{}` once, `{}` where there are groups, and the spatial axes `{2}`, `{4}{2}` or `{5}{4}{2}`, in any order",
                plain[0], plain[2], space[2], plain[1], space[1], space[0]
            ),
        };
        let mut axes = Vec::new();
        for letter in name.chars() {
            let letter = letter.to_ascii_lowercase();
            let axis = match plain.iter().position(|&l| l == letter) {
                Some(0) => Axis::Outer,
                Some(1) => Axis::Group,
                Some(_) => Axis::Channel,
                None => Axis::Space(space.iter().position(|&l| l == letter).ok_or_else(fail)?),
            };
            if axes.contains(&axis) {
                return Err(fail());
            }
            axes.push(axis);
        }
        let names_group = axes.contains(&Axis::Group);
        if !names_group {
            let channel = axes.iter().position(|&a| a == Axis::Channel).ok_or_else(fail)?;
            axes.insert(if role == Role::Filter { 0 } else { channel }, Axis::Group);
        }
        let dims = axes.iter().filter(|axis| matches!(axis, Axis::Space(_))).count();
        let complete = axes.contains(&Axis::Outer) && axes.contains(&Axis::Channel);
        let last_ones = (3 - dims..3).all(|d| axes.contains(&Axis::Space(d)));
        if complete && dims > 0 && last_ones { Ok(ConvLayout { role, axes, names_group }) } else { Err(fail()) }
    }

    /// The layout with the group first and the channels last (`gnhwc`, `gkyxc`), CK's default; `dims` from 1 to 3.
    pub(crate) fn channels_last(role: Role, dims: usize) -> ConvLayout {
        let space = (3 - dims.clamp(1, 3)..3).map(Axis::Space);
        let axes = [Axis::Group, Axis::Outer].into_iter().chain(space).chain([Axis::Channel]).collect();
        ConvLayout { role, axes, names_group: true }
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Number of spatial axes: 1, 2 or 3.
    pub fn spatial_dims(&self) -> usize {
        self.axes.len() - 3
    }

    /// Whether the channels vary faster than every spatial axis.
    pub fn channel_after_space(&self) -> bool {
        let at = |axis| self.axes.iter().position(|&a| a == axis);
        at(Axis::Channel) > at(Axis::Space(2))
    }

    /// The extents in memory order.
    pub(crate) fn shape(&self, outer: usize, groups: usize, channels: usize, space: [usize; 3]) -> Vec<usize> {
        self.axes.iter().map(|&axis| extent(axis, outer, groups, channels, space)).collect()
    }

    /// The same without the group axis if the name lacks it and there is one group.
    pub(crate) fn named_shape(&self, outer: usize, groups: usize, channels: usize, space: [usize; 3]) -> Vec<usize> {
        let named = |axis: &&Axis| **axis != Axis::Group || self.names_group || groups != 1;
        self.axes.iter().filter(named).map(|&axis| extent(axis, outer, groups, channels, space)).collect()
    }

    /// The strides of the tensor without gaps.
    pub(crate) fn strides(&self, outer: usize, groups: usize, channels: usize, space: [usize; 3]) -> Strides {
        let mut strides = Strides::default();
        let mut step = 1usize;
        for &axis in self.axes.iter().rev() {
            match axis {
                Axis::Outer => strides.outer = step,
                Axis::Group => strides.group = step,
                Axis::Channel => strides.channel = step,
                Axis::Space(d) => strides.space[d] = step,
            }
            step = step.saturating_mul(extent(axis, outer, groups, channels, space));
        }
        strides
    }
}

fn extent(axis: Axis, outer: usize, groups: usize, channels: usize, space: [usize; 3]) -> usize {
    match axis {
        Axis::Outer => outer,
        Axis::Group => groups,
        Axis::Channel => channels,
        Axis::Space(d) => space[d],
    }
}

/// Layouts are equal if elements have the same addresses, whatever the names: `nchw` is `ngchw`.
impl PartialEq for ConvLayout {
    fn eq(&self, other: &ConvLayout) -> bool {
        (self.role, &self.axes) == (other.role, &other.axes)
    }
}

impl Eq for ConvLayout {}

impl std::hash::Hash for ConvLayout {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.role, &self.axes).hash(state);
    }
}

impl std::fmt::Display for ConvLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (plain, space) = self.role.letters();
        let letter = |axis: &Axis| match *axis {
            Axis::Outer => plain[0],
            Axis::Group => plain[1],
            Axis::Channel => plain[2],
            Axis::Space(d) => space[d],
        };
        f.pad(&self.axes.iter().map(letter).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_study_and_of_ck_are_read() {
        let cases = [
            (Role::Input, "ngchw", "ngchw", 2),
            (Role::Input, "nhwc", "nhwgc", 2),
            (Role::Input, "NCHW", "ngchw", 2),
            (Role::Filter, "kcyx", "gkcyx", 2),
            (Role::Filter, "gyxck", "gyxck", 2),
            (Role::Output, "nhwk", "nhwgk", 2),
            (Role::Input, "NWC", "nwgc", 1),
            (Role::Input, "GNDHWC", "gndhwc", 3),
            (Role::Filter, "KZYXGC", "kzyxgc", 3),
            (Role::Output, "NGKW", "ngkw", 1),
        ];
        for (role, name, full, dims) in cases {
            let layout = ConvLayout::parse(role, name).unwrap();
            assert_eq!((layout.to_string().as_str(), layout.spatial_dims()), (full, dims), "{name}");
        }
    }

    #[test]
    fn tensors_lack_one_group_that_the_name_lacks() {
        for (role, name, groups, shape) in [
            (Role::Input, "nchw", 1, &[2, 5, 7, 11][..]),
            (Role::Input, "ngchw", 1, &[2, 1, 5, 7, 11]),
            (Role::Input, "nchw", 3, &[2, 3, 5, 7, 11]),
            (Role::Output, "nhwk", 1, &[2, 7, 11, 5]),
            (Role::Filter, "kcyx", 1, &[2, 5, 7, 11]),
        ] {
            let layout = ConvLayout::parse(role, name).unwrap();
            assert_eq!(layout.named_shape(2, groups, 5, [1, 7, 11]), shape, "{name}, {groups} groups");
        }
        let [short, long] = ["nchw", "ngchw"].map(|name| ConvLayout::parse(Role::Input, name).unwrap());
        assert_eq!(short, long);
    }

    #[test]
    fn bad_names_say_what_would_fit() {
        for (role, name, why) in [
            (Role::Input, "nchh", "an axis twice"),
            (Role::Input, "nhw", "no channels"),
            (Role::Input, "nc", "no space"),
            (Role::Input, "nchd", "w is missing"),
            (Role::Input, "nkhw", "k belongs to the output"),
            (Role::Filter, "nchw", "letters of an image"),
            (Role::Filter, "", "empty"),
            (Role::Filter, "c", "one axis"),
            (Role::Input, "gc", "two axes"),
        ] {
            let error = ConvLayout::parse(role, name).expect_err(why).to_string();
            assert!(error.contains("each of `"), "{error}");
        }
    }

    #[test]
    fn strides_follow_the_order_of_the_axes() {
        let s = ConvLayout::parse(Role::Input, "nhwgc").unwrap().strides(2, 3, 5, [1, 7, 11]);
        assert_eq!((s.outer, s.group, s.channel, s.space), (7 * 11 * 15, 5, 1, [0, 11 * 15, 15]));
        assert!(ConvLayout::parse(Role::Input, "nhwgc").unwrap().channel_after_space());
        assert!(!ConvLayout::parse(Role::Filter, "gkcyx").unwrap().channel_after_space());
    }
}
