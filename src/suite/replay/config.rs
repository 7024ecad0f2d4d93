//! One convolution of the study, and the grid of its settings.

use crate::error::{Error, Result};
use crate::reference::{ConvParam, ConvSizes, Direction, KOrder, Role};

/// A convolution as the study's generator takes it: channels are totals over all groups, padding is equal on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The name of the test.
    pub name: String,
    /// What is computed.
    pub direction: Direction,
    /// Layouts of filter, input and output.
    pub layouts: [String; 3],
    /// Images.
    pub batch: usize,
    /// Groups.
    pub groups: usize,
    /// Input channels, over all groups.
    pub in_channels: usize,
    /// Output channels, over all groups.
    pub out_channels: usize,
    /// Height and width of the input.
    pub input: [usize; 2],
    /// Height and width of the filter.
    pub filter: [usize; 2],
    /// Rows and columns of zeros on each side.
    pub padding: [usize; 2],
    /// Strides of the window.
    pub stride: [usize; 2],
    /// Distances of the filter's elements.
    pub dilation: [usize; 2],
}

impl Configuration {
    /// One of the study's 107 configurations.
    ///
    /// # Errors
    /// When there is no such name; the message has the names that look like it.
    pub fn named(name: &str) -> Result<Configuration> {
        super::configurations().find(|c| c.name == name).ok_or_else(|| {
            let wanted = name.to_ascii_lowercase();
            let near: Vec<String> =
                super::configurations().map(|c| c.name).filter(|n| n.to_ascii_lowercase().contains(&wanted)).take(8).collect();
            let limit = match near.is_empty() || wanted.is_empty() {
                true => "it must be one of the 107 names of `hipverify replay --list`".to_owned(),
                false => format!("it must be a whole name; {} look like it: {}", near.len(), near.join(" ")),
            };
            Error::InvalidArgument { what: "configuration", value: name.to_owned(), limit }
        })
    }

    /// The parameters of the convolution. Padding after the image grows where the window would not fit otherwise.
    ///
    /// # Errors
    /// When the sizes are impossible.
    pub fn param(&self) -> Result<ConvParam> {
        for (what, channels) in [("input channels", self.in_channels), ("output channels", self.out_channels)] {
            if self.groups == 0 || !channels.is_multiple_of(self.groups) {
                return Err(Error::InvalidArgument {
                    what,
                    value: channels.to_string(),
                    limit: format!("a multiple of the {} groups", self.groups),
                });
            }
        }
        let grown = |d: usize| {
            let window = self.filter[d].saturating_sub(1).saturating_mul(self.dilation[d]).saturating_add(1);
            self.padding[d].max(window.saturating_sub(self.input[d].saturating_add(self.padding[d])))
        };
        ConvParam::new(ConvSizes {
            groups: self.groups,
            batch: self.batch,
            out_channels: self.out_channels / self.groups,
            in_channels: self.in_channels / self.groups,
            filter: self.filter.to_vec(),
            input: self.input.to_vec(),
            strides: self.stride.to_vec(),
            dilations: self.dilation.to_vec(),
            left_pads: self.padding.to_vec(),
            right_pads: vec![grown(0), grown(1)],
        })?
        .with_layouts(&self.layouts[1], &self.layouts[0], &self.layouts[2])
    }

    /// The order of the kernels' products: that of the filter's memory.
    pub(crate) fn kernel_order(&self, param: &ConvParam) -> KOrder {
        if param.layout(Role::Filter).channel_after_space() { KOrder::ChannelsLast } else { KOrder::ChannelsFirst }
    }

    /// Parts into which a matrix-core kernel cuts the sum of a backward-weight convolution, added with float atomics in any
    /// order. 1 for everything else, and where the matrices had to be padded.
    pub fn split(&self) -> usize {
        let rows = self.out_channels / self.groups.max(1);
        let columns = self.in_channels / self.groups.max(1) * self.filter[0] * self.filter[1];
        let Ok(param) = self.param() else { return 1 };
        if self.direction != Direction::BackwardWeight || !rows.is_multiple_of(32) || !columns.is_multiple_of(32) {
            return 1;
        }
        let depth = self.batch * param.output_space().iter().product::<usize>();
        (1..=self.batch).rev().find(|&kb| self.batch.is_multiple_of(kb) && depth.is_multiple_of(8 * kb)).unwrap_or(1)
    }
}

macro_rules! setting {
    ($(#[$doc:meta])* $name:ident, $what:literal, $limit:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The name, as flags and file names have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(s: &str) -> Result<$name> {
                $name::ALL.iter().copied().find(|v| v.name() == s).ok_or_else(|| Error::InvalidArgument {
                    what: $what,
                    value: s.to_owned(),
                    limit: $limit.to_owned(),
                })
            }
        }
    };
}

setting! {
    /// The kernel under test.
    Kernel, "kernel", "it must be xdlops (matrix cores) or nonxdlops (plain f32 FMA)" {
        /// With matrix-core instructions.
        Xdlops = "xdlops",
        /// Without: one f32 FMA a product.
        NonXdlops = "nonxdlops",
    }
}

setting! {
    /// What the kernel is held against.
    Validator, "validator", "it must be pv (on the CPU) or pv-with-gpu (the f32 kernel without matrix cores)" {
        /// Loops on the CPU with an f64 accumulator.
        Cpu = "pv",
        /// The kernel without matrix cores, in f32.
        Gpu = "pv-with-gpu",
    }
}

setting! {
    /// Which version of the CPU validator and of the metrics.
    Variant, "variant", "it must be first, second, accumulate4 or later" {
        /// As in the study's runs.
        First = "first",
        /// The study's second set of runs: the validator and spacings of the first. `maxRelOld` takes |val| > 0.001 and both signs, and its
        /// two values follow it.
        Second = "second",
        /// "Accumulate 4" of the study's section 3: every four products are summed in f64, rounded to f32 and added in f32.
        /// Metrics of the later version. Backward data keeps the first validator.
        Accumulate4 = "accumulate4",
        /// "Flush subnormals" of section 3, the version that stayed: an f64 accumulator, rounded to f32 after every fourth product,
        /// and on gfx90a subnormal inputs count as zero. Backward data keeps the first validator.
        Later = "later",
    }
}

/// An interval of random inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Least input.
    pub min: f64,
    /// Largest input.
    pub max: f64,
}

impl Range {
    /// The study's ranges by name: `r0` [-1, 1], `r1` [-10, 10], `r4` [1, 5], `r5` [5, 10].
    pub const NAMED: [(&'static str, Range); 4] = [
        ("r0", Range { min: -1.0, max: 1.0 }),
        ("r1", Range { min: -10.0, max: 10.0 }),
        ("r4", Range { min: 1.0, max: 5.0 }),
        ("r5", Range { min: 5.0, max: 10.0 }),
    ];
}

impl std::str::FromStr for Range {
    type Err = Error;

    fn from_str(s: &str) -> Result<Range> {
        Self::NAMED.iter().find(|(name, _)| *name == s).map(|&(_, range)| range).ok_or_else(|| Error::InvalidArgument {
            what: "range",
            value: s.to_owned(),
            limit: "it must be r0 [-1, 1], r1 [-10, 10], r4 [1, 5] or r5 [5, 10]".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::configurations;
    use super::*;

    #[test]
    fn the_table_has_the_studys_configurations() {
        let all: Vec<Configuration> = configurations().collect();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|c| c.name.as_str()).collect();
        assert_eq!((all.len(), names.len()), (107, 107));
        let count = |d: Direction| all.iter().filter(|c| c.direction == d).count();
        assert_eq!(Direction::ALL.map(count), [77, 3, 27]);
        assert_eq!(all.iter().filter(|c| c.split() > 1).count(), 23);
        for (name, role, elements) in [
            ("padding_kernel_gemmK_CHECK_RESNET50_F16_CONFIG1", Role::Output, 205_520_896),
            ("padding_kernel_all_wrw_CHECK_RESNET50_CONFIG4_f16", Role::Filter, 882),
            ("conv2d_host_validation_f16_CHECK_RESNET101_NHWC_CONFIG8_BWD_f16", Role::Input, 25_690_112),
            ("conv2d_host_validation_f16_fwd_CHECK_ISSUE_40_5_f16", Role::Output, 6_881_280),
        ] {
            assert_eq!(Configuration::named(name).unwrap().param().unwrap().elements(role), elements, "{name}");
        }
    }

    #[test]
    fn padding_grows_until_the_window_fits() {
        let c = Configuration::named("conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16").unwrap();
        let c = Configuration { filter: [7, 3], ..c };
        // Four rows and one of padding above: the window of seven needs two below.
        assert_eq!(c.param().unwrap().output_space(), [1, 4]);
        let c = Configuration { filter: [9, 3], ..c };
        assert_eq!(c.param().unwrap().output_space(), [1, 4]);
    }

    #[test]
    fn slices_of_the_batch() {
        for (name, parts) in [
            ("conv2d_host_validation_f16_bwd_CHECK_BWD_WEIGHT1", 8),
            ("conv2d_host_validation_f16_bwd_CHECK_ISSUE_71_1", 4),
            ("conv2d_host_validation_f16_bwd_CHECK_ISSUE_71_4", 64),
            ("padding_kernel_all_wrw_CHECK_RESNET50_CONFIG4_f16", 1),
            ("conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16", 1),
        ] {
            assert_eq!(Configuration::named(name).unwrap().split(), parts, "{name}");
        }
    }
}
