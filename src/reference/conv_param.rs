//! The parameters of a convolution: sizes, layouts, and what follows from them.

use super::conv_layout::{ConvLayout, Role};
use super::lattice::{Direction, Lattice};
use crate::error::{Error, Result};

/// A convolution of 1 to 3 spatial dimensions, with groups, strides, dilations and padding that may differ on both sides.
///
/// Channels are counted per group. Spatial vectors go from the slowest axis to the fastest. The text form has the order of
/// Composable Kernel's command lines:
///
/// ```
/// use hipverify::reference::ConvParam;
/// //               dims G N   K   C   Y X H  W  strides dilations left pads right pads
/// let p: ConvParam = "2 1 128 256 192 3 3 71 71 2 2 1 1 1 1 1 1".parse()?;
/// assert_eq!(p.output_space(), [36, 36]);
/// assert_eq!(p.to_string(), "2 1 128 256 192 3 3 71 71 2 2 1 1 1 1 1 1");
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvParam {
    sizes: ConvSizes,
    output: Vec<usize>,
    layouts: [ConvLayout; 3],
}

/// The sizes that make a [`ConvParam`]; channels are counted per group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvSizes {
    /// Groups.
    pub groups: usize,
    /// Images.
    pub batch: usize,
    /// Output channels of a group.
    pub out_channels: usize,
    /// Input channels of a group.
    pub in_channels: usize,
    /// Extents of the filter.
    pub filter: Vec<usize>,
    /// Extents of the input.
    pub input: Vec<usize>,
    /// Strides of the window.
    pub strides: Vec<usize>,
    /// Distances of the filter's elements.
    pub dilations: Vec<usize>,
    /// Zeros before the image.
    pub left_pads: Vec<usize>,
    /// Zeros after the image.
    pub right_pads: Vec<usize>,
}

impl ConvParam {
    /// Checks the sizes; layouts are `gnhwc`, `gkyxc`, `gnhwk` (in 1 and 3 dimensions accordingly) until
    /// [`with_layouts`](ConvParam::with_layouts).
    ///
    /// # Errors
    /// When a size is zero, vectors differ in length, a window is larger than the padded input, or a tensor does not fit memory.
    pub fn new(sizes: ConvSizes) -> Result<ConvParam> {
        let ConvSizes { groups, batch, out_channels, in_channels, .. } = sizes;
        let ConvSizes { filter, input, strides, dilations, left_pads, right_pads, .. } = &sizes;
        let dims = filter.len();
        if !(1..=3).contains(&dims) {
            return Err(invalid("spatial dimensions", dims, "1, 2 or 3"));
        }
        let vectors: [(&'static str, &Vec<usize>); 5] = [
            ("spatial extents of the input", input),
            ("strides", strides),
            ("dilations", dilations),
            ("left pads", left_pads),
            ("right pads", right_pads),
        ];
        for (what, vector) in vectors {
            if vector.len() != dims {
                return Err(Error::Length { what, expected: dims, found: vector.len() });
            }
        }
        for (what, value) in [("groups", groups), ("batch", batch), ("output channels", out_channels), ("input channels", in_channels)] {
            if value == 0 {
                return Err(invalid(what, value, "at least 1"));
            }
        }
        for (what, vector) in [("filter extent", filter), ("input extent", input), ("stride", strides), ("dilation", dilations)] {
            if vector.contains(&0) {
                return Err(invalid(what, 0, "at least 1"));
            }
        }
        let mut output = Vec::new();
        for d in 0..dims {
            let window = (filter[d] - 1).checked_mul(dilations[d]).and_then(|w| w.checked_add(1));
            let padded = input[d].checked_add(left_pads[d]).and_then(|p| p.checked_add(right_pads[d]));
            let (Some(window), Some(padded)) = (window, padded) else {
                return Err(invalid("padded input or window extent", "more than the address space", "smaller sizes"));
            };
            if window > padded {
                return Err(Error::InvalidArgument {
                    what: "window extent",
                    value: format!("{window} in spatial dimension {d} (filter {}, dilation {})", filter[d], dilations[d]),
                    limit: format!("it must not exceed the padded input, {padded}"),
                });
            }
            output.push((padded - window) / strides[d] + 1);
        }
        let layouts = [Role::Input, Role::Filter, Role::Output].map(|role| ConvLayout::channels_last(role, dims));
        for (what, a, b, space) in
            [("input", batch, in_channels, input), ("filter", out_channels, in_channels, filter), ("output", batch, out_channels, &output)]
        {
            let elements = space.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            let elements = elements.and_then(|n| n.checked_mul(a)?.checked_mul(b)?.checked_mul(groups));
            if elements.is_none_or(|n| n > isize::MAX as usize / 8) {
                return Err(invalid(what, "more elements than memory can hold", "smaller sizes"));
            }
        }
        Ok(ConvParam { sizes, output, layouts })
    }

    /// The same convolution with other layouts.
    ///
    /// # Errors
    /// When a name is not a layout of its tensor or has another number of spatial dimensions.
    pub fn with_layouts(mut self, input: &str, filter: &str, output: &str) -> Result<ConvParam> {
        for (own, (role, name)) in self.layouts.iter_mut().zip([(Role::Input, input), (Role::Filter, filter), (Role::Output, output)]) {
            let layout = ConvLayout::parse(role, name)?;
            if layout.spatial_dims() != self.sizes.filter.len() {
                return Err(Error::Length {
                    what: "spatial dimensions of a layout",
                    expected: self.sizes.filter.len(),
                    found: layout.spatial_dims(),
                });
            }
            *own = layout;
        }
        Ok(self)
    }

    /// The same convolution with another number of images.
    ///
    /// # Errors
    /// As [`new`](ConvParam::new).
    pub fn with_batch(&self, batch: usize) -> Result<ConvParam> {
        self.with_sizes(ConvSizes { batch, ..self.sizes() })
    }

    /// All sizes.
    pub(crate) fn sizes(&self) -> ConvSizes {
        self.sizes.clone()
    }

    /// Other sizes, of as many spatial dimensions, in the same layouts.
    pub(crate) fn with_sizes(&self, sizes: ConvSizes) -> Result<ConvParam> {
        Ok(ConvParam { layouts: self.layouts.clone(), ..ConvParam::new(sizes)? })
    }

    /// Groups.
    pub fn groups(&self) -> usize {
        self.sizes.groups
    }

    /// Images.
    pub fn batch(&self) -> usize {
        self.sizes.batch
    }

    /// Output channels of a group.
    pub fn out_channels(&self) -> usize {
        self.sizes.out_channels
    }

    /// Input channels of a group.
    pub fn in_channels(&self) -> usize {
        self.sizes.in_channels
    }

    /// Spatial extents of the filter.
    pub fn filter_space(&self) -> &[usize] {
        &self.sizes.filter
    }

    /// Spatial extents of the input.
    pub fn input_space(&self) -> &[usize] {
        &self.sizes.input
    }

    /// Spatial extents of the output: `(input + pads - window) / stride + 1`, with `window = (filter - 1) · dilation + 1`.
    pub fn output_space(&self) -> &[usize] {
        &self.output
    }

    /// Strides of the window.
    pub fn strides(&self) -> &[usize] {
        &self.sizes.strides
    }

    /// Distances of the filter's elements.
    pub fn dilations(&self) -> &[usize] {
        &self.sizes.dilations
    }

    /// Zeros before the image.
    pub fn left_pads(&self) -> &[usize] {
        &self.sizes.left_pads
    }

    /// Zeros after the image.
    pub fn right_pads(&self) -> &[usize] {
        &self.sizes.right_pads
    }

    /// The layout of the tensor of that role.
    pub fn layout(&self, role: Role) -> &ConvLayout {
        match role {
            Role::Input => &self.layouts[0],
            Role::Filter => &self.layouts[1],
            Role::Output => &self.layouts[2],
        }
    }

    /// The extents of a tensor in memory order.
    pub fn shape(&self, role: Role) -> Vec<usize> {
        let (outer, channels, space) = self.extents(role);
        self.layout(role).shape(outer, self.sizes.groups, channels, space)
    }

    /// The same as the layout's name has it: without the axis of one group where the name has no `g`.
    ///
    /// ```
    /// use hipverify::reference::{ConvParam, Role};
    /// let param: ConvParam = "2,1,4,8,3,3,3,16,16,1,1,1,1,1,1,1,1".parse()?;
    /// let param = param.with_layouts("nchw", "kcyx", "nkhw")?;
    /// assert_eq!((param.named_shape(Role::Output), param.shape(Role::Output)), (vec![4, 8, 16, 16], vec![4, 1, 8, 16, 16]));
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    pub fn named_shape(&self, role: Role) -> Vec<usize> {
        let (outer, channels, space) = self.extents(role);
        self.layout(role).named_shape(outer, self.sizes.groups, channels, space)
    }

    /// Elements of a tensor.
    pub fn elements(&self, role: Role) -> usize {
        self.shape(role).iter().product()
    }

    /// Floating-point operations: two for each product, padding included.
    pub fn flops(&self) -> u128 {
        2 * self.macs()
    }

    /// Products, padding included: G·N·K·C times the output's and the filter's positions.
    pub fn macs(&self) -> u128 {
        let ConvSizes { groups, batch, out_channels, in_channels, filter, .. } = &self.sizes;
        let positions = self.output.iter().chain(filter);
        [groups, batch, out_channels, in_channels].into_iter().chain(positions).map(|&n| n as u128).product()
    }

    /// Products of one element of the result, padding included.
    pub fn terms(&self, direction: Direction) -> usize {
        let positions = |space: &[usize]| space.iter().product::<usize>();
        match direction {
            Direction::Forward => self.sizes.in_channels * positions(&self.sizes.filter),
            Direction::BackwardData => self.sizes.out_channels * positions(&self.sizes.filter),
            Direction::BackwardWeight => self.sizes.batch * positions(&self.output),
        }
    }

    /// Bytes of input, filter and output together, for elements of the given sizes.
    pub fn bytes(&self, input: usize, filter: usize, output: usize) -> u128 {
        let of = |role, size: usize| self.elements(role) as u128 * size as u128;
        of(Role::Input, input) + of(Role::Filter, filter) + of(Role::Output, output)
    }

    /// Elements from one image to the next in memory; of a filter, from one output channel to the next.
    pub fn image_stride(&self, role: Role) -> usize {
        let (outer, channels, space) = self.extents(role);
        self.layout(role).strides(outer, self.sizes.groups, channels, space).outer
    }

    fn extents(&self, role: Role) -> (usize, usize, [usize; 3]) {
        match role {
            Role::Input => (self.sizes.batch, self.sizes.in_channels, three(&self.sizes.input, 1)),
            Role::Filter => (self.sizes.out_channels, self.sizes.in_channels, three(&self.sizes.filter, 1)),
            Role::Output => (self.sizes.batch, self.sizes.out_channels, three(&self.output, 1)),
        }
    }

    pub(crate) fn lattice(&self) -> Lattice {
        let strides = |role| {
            let (outer, channels, space) = self.extents(role);
            self.layout(role).strides(outer, self.sizes.groups, channels, space)
        };
        let sizes = &self.sizes;
        Lattice {
            images: sizes.batch,
            groups: sizes.groups,
            c: sizes.in_channels,
            k: sizes.out_channels,
            input: three(&sizes.input, 1),
            filter: three(&sizes.filter, 1),
            output: three(&self.output, 1),
            stride: three(&sizes.strides, 1),
            dilation: three(&sizes.dilations, 1),
            padding: three(&sizes.left_pads, 0),
            input_at: strides(Role::Input),
            filter_at: strides(Role::Filter),
            output_at: strides(Role::Output),
        }
    }
}

/// Three dimensions, the missing slow ones filled.
fn three(space: &[usize], fill: usize) -> [usize; 3] {
    let missing = 3 - space.len();
    std::array::from_fn(|d| if d < missing { fill } else { space[d - missing] })
}

fn invalid(what: &'static str, value: impl ToString, limit: &str) -> Error {
    Error::InvalidArgument { what, value: value.to_string(), limit: limit.to_owned() }
}

impl std::fmt::Display for ConvParam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ConvSizes { groups, batch, out_channels, in_channels, filter, input, strides, dilations, left_pads, right_pads } = &self.sizes;
        write!(f, "{} {groups} {batch} {out_channels} {in_channels}", filter.len())?;
        let vectors = [filter, input, strides, dilations, left_pads, right_pads];
        vectors.into_iter().flatten().try_for_each(|n| write!(f, " {n}"))
    }
}

impl std::str::FromStr for ConvParam {
    type Err = Error;

    /// Reads `dims G N K C`, then filter, input, strides, dilations, left pads and right pads, `dims` numbers each.
    fn from_str(s: &str) -> Result<ConvParam> {
        let mut numbers = Vec::new();
        for word in s.split([' ', ',', '\t', '\n']).filter(|w| !w.is_empty()) {
            let number = word.parse::<usize>();
            numbers.push(number.map_err(|_| invalid("convolution parameter", word, "a number that is not negative"))?);
        }
        let dims = *numbers.first().ok_or_else(|| invalid("convolution parameters", "none", "dims G N K C and six vectors"))?;
        if !(1..=3).contains(&dims) {
            return Err(invalid("spatial dimensions", dims, "1, 2 or 3"));
        }
        if numbers.len() != 5 + 6 * dims {
            return Err(Error::Length { what: "convolution parameters", expected: 5 + 6 * dims, found: numbers.len() });
        }
        let vector = |i: usize| numbers[5 + i * dims..5 + (i + 1) * dims].to_vec();
        ConvParam::new(ConvSizes {
            groups: numbers[1],
            batch: numbers[2],
            out_channels: numbers[3],
            in_channels: numbers[4],
            filter: vector(0),
            input: vector(1),
            strides: vector(2),
            dilations: vector(3),
            left_pads: vector(4),
            right_pads: vector(5),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_flops_and_bytes() {
        let p: ConvParam = "2 2 3 5 4 3 2 10 9 2 1 2 3 1 0 2 1".parse().unwrap();
        // (10 + 3 - 5) / 2 + 1 and (9 + 1 - 4) / 1 + 1.
        assert_eq!(p.output_space(), [5, 7]);
        assert_eq!(p.flops(), 2 * 2 * 3 * 5 * 4 * 5 * 7 * 3 * 2);
        assert_eq!(p.bytes(2, 2, 4), 2 * (2 * 3 * 4 * 90) + 2 * (2 * 5 * 4 * 6) + 4 * (2 * 3 * 5 * 35));
        assert_eq!(p.shape(Role::Output), [2, 3, 5, 7, 5]);
        let p = p.with_layouts("ngchw", "gkcyx", "nhwgk").unwrap();
        assert_eq!(p.shape(Role::Output), [3, 5, 7, 2, 5]);
        assert_eq!([Role::Input, Role::Filter, Role::Output].map(|r| p.image_stride(r)), [2 * 4 * 90, 4 * 6, 35 * 10]);
        let two = p.with_batch(2).unwrap();
        assert_eq!((two.shape(Role::Output), two.shape(Role::Filter)), (vec![2, 5, 7, 2, 5], p.shape(Role::Filter)));
        assert!(p.with_batch(0).is_err());
        assert_eq!(p.shape(Role::Filter), [2, 5, 4, 3, 2]);
        assert_eq!("1 1 2 4 3 3 8 1 1 0 0".parse::<ConvParam>().unwrap().output_space(), [6]);
        assert_eq!("3 1 2 4 3 1 2 3 4 5 6 1 1 1 1 1 1 0 0 0 0 0 0".parse::<ConvParam>().unwrap().output_space(), [4, 4, 4]);
    }

    #[test]
    fn impossible_parameters_are_errors() {
        for (text, part) in [
            ("", "none"),
            ("4 1 1 1 1", "1, 2 or 3"),
            ("2 1 1 1 1 3 3", "expected 17, found 7"),
            ("1 1 2 4 3 9 8 1 1 0 0", "must not exceed the padded input, 8"),
            ("1 1 2 4 3 3 8 0 1 0 0", "stride cannot be 0"),
            ("1 1 2 4 3 3 8 1 0 0 0", "dilation cannot be 0"),
            ("1 0 2 4 3 3 8 1 1 0 0", "groups cannot be 0"),
            ("1 1 2 4 3 3 -8 1 1 0 0", "-8"),
            ("1 1 2 4 3 3 99999999999999999999 1 1 0 0", "99999999999999999999"),
            ("1 1 2 4000000000 4000000000 3 8 1 1 0 0", "more elements than memory"),
            ("1 1 2 4 3 9 8 1 18446744073709551615 0 0", "address space"),
        ] {
            let error = text.parse::<ConvParam>().expect_err(text).to_string();
            assert!(error.contains(part), "`{text}`: {error}");
        }
        let p: ConvParam = "1 1 2 4 3 3 8 1 1 0 0".parse().unwrap();
        assert!(p.with_layouts("nchw", "kcyx", "nkhw").unwrap_err().to_string().contains("expected 1, found 2"));
    }
}
