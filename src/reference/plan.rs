//! The same sums for the device code: which product meets which, as strides.

use super::accumulate::Accumulate;
use super::lattice::{Direction, KOrder, Lattice};
use crate::error::Result;
use crate::kernels::extent;
use crate::kernels::model_gemm::ModelKernel;
use crate::kernels::reference::SumKernels;
use crate::matrix_core::{Accumulator, Arch, Input, KEEP, Model, Rule};
use bytemuck::Zeroable;
use hipverify_sys::abi::{Prepare, ReferenceSums, TensorCoreRule};

/// How the device code computes an accumulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    pub kernels: SumKernels,
    /// Whether operands are f64 rather than f32.
    pub double: bool,
    /// One of [`Prepare`].
    pub prepare: u32,
    /// Zeros, except for tensor cores.
    pub rule: TensorCoreRule,
}

/// Kernels of other rules ignore these.
const NO_RULE: TensorCoreRule = TensorCoreRule { bits: 0, zero: 0, fraction: 0 };

macro_rules! sum {
    ($name:literal, $several:literal, $double:literal, $prepare:ident) => {
        Sum {
            kernels: SumKernels {
                one: concat!("reference_", $name, "_one"),
                rows: concat!("reference_", $name, "_rows"),
                several: $several,
            },
            double: $double,
            prepare: Prepare::$prepare,
            rule: NO_RULE,
        }
    };
}

/// The device code of an accumulation; `None` where there is none.
pub(crate) fn sum(accumulate: Accumulate) -> Option<Sum> {
    Some(match accumulate {
        Accumulate::F64 => sum!("f64", 8, true, AS_IT_IS),
        Accumulate::F64Rounded => sum!("rounded", 8, true, AS_IT_IS),
        Accumulate::Every4 => sum!("every4", 8, true, AS_IT_IS),
        Accumulate::Groups4 => sum!("groups4", 8, true, AS_IT_IS),
        Accumulate::F32 => sum!("f32", 8, false, AS_IT_IS),
        Accumulate::F32Fma => sum!("f32_fma", 8, false, AS_IT_IS),
        Accumulate::MatrixCore(of) => return model(of).map(|(sum, _)| sum),
    })
}

/// The device code of a model: of sums in any order, and of a GEMM; `None` where there is none.
pub(crate) fn model(model: Model) -> Option<(Sum, ModelKernel)> {
    let gemm = |name, tile| ModelKernel { name, tile, rule: NO_RULE };
    Some(match (model.arch(), model.input(), model.rule()) {
        (_, Input::F32, _) => (sum!("f32_fma", 8, false, AS_IT_IS), gemm("model_gemm_f32", 128)),
        (Arch::Gfx908, Input::F16, _) => (sum!("gfx908_f16", 4, false, AS_IT_IS), gemm("model_gemm_gfx908_f16", 128)),
        (Arch::Gfx908, Input::Bf16, _) => (sum!("gfx908_bf16", 4, false, AS_IT_IS), gemm("model_gemm_gfx908_bf16", 128)),
        (Arch::Gfx90a, Input::F16, _) => (sum!("gfx90a_f16", 4, false, AS_GFX90A_F16), gemm("model_gemm_gfx90a_f16", 128)),
        (Arch::Gfx90a, Input::Bf16, _) => (sum!("gfx90a_bf16", 4, false, AS_GFX90A_BF16), gemm("model_gemm_gfx90a_bf16", 128)),
        (Arch::Gfx90a, Input::Bf16K, _) => (sum!("gfx90a_bf16_1k", 4, false, AS_GFX90A_BF16), gemm("model_gemm_gfx90a_bf16_1k", 128)),
        (Arch::Gfx90a, Input::F16AsBf16, _) => (sum!("gfx90a_bf16_1k", 4, false, AS_BF16_NEAREST), gemm("model_gemm_gfx90a_bf16_1k", 128)),
        (Arch::Gfx90a, Input::F16AsBf16Truncated, _) => {
            (sum!("gfx90a_bf16_1k", 4, false, AS_BF16_CUT), gemm("model_gemm_gfx90a_bf16_1k", 128))
        }
        // xf32.
        (Arch::Gfx942, _, Rule::Fused { group: 4, keep: KEEP }) => {
            (sum!("gfx942_groups4", 4, false, AS_WORDS), gemm("model_gemm_gfx942_groups4", 64))
        }
        // f16, bf16.
        (Arch::Gfx942, _, Rule::Fused { group: 8, keep: KEEP }) => {
            (sum!("gfx942_groups8", 4, false, AS_WORDS), gemm("model_gemm_gfx942_groups8", 64))
        }
        // fp8, bf8.
        (Arch::Gfx942, _, Rule::FusedHalves { keep: KEEP }) => {
            (sum!("gfx942_halves", 4, false, AS_WORDS), gemm("model_gemm_gfx942_halves", 64))
        }
        (_, _, rule @ (Rule::Truncated { .. } | Rule::Emulated { .. })) => return tensor_core(rule),
        _ => return None,
    })
}

/// Whether GPUs have code of a model.
pub(crate) fn has_device_code(of: Model) -> bool {
    model(of).is_some()
}

/// The device code of a rule of tensor cores: one kernel for each size of groups, with one element per thread.
fn tensor_core(rule: Rule) -> Option<(Sum, ModelKernel)> {
    macro_rules! of {
        ($name:literal, $tile:literal, $rule:expr) => {{
            let (one, rule) = (concat!("reference_tensor_core_", $name, "_one"), $rule);
            let kernels = SumKernels { one, rows: one, several: 1 };
            let gemm = ModelKernel { name: concat!("model_gemm_tensor_core_", $name), tile: $tile, rule };
            Some((Sum { kernels, double: false, prepare: Prepare::AS_WORDS, rule }, gemm))
        }};
    }
    match rule {
        Rule::Truncated { group, bits, zero, accumulator } => {
            let rule = TensorCoreRule { bits: bits as i32, zero, fraction: accumulator.fraction() };
            match group {
                4 => of!("groups4", 64, rule),
                8 => of!("groups8", 64, rule),
                16 => of!("groups16", 32, rule),
                32 => of!("groups32", 16, rule),
                _ => None,
            }
        }
        // Of f16 products, as Hopper's instructions for f16 add them.
        Rule::Emulated { accumulator } => {
            let zero = if accumulator == Accumulator::F16 { -21 } else { -133 };
            of!("emulated_fp8", 16, TensorCoreRule { bits: 25, zero, fraction: accumulator.fraction() })
        }
        _ => None,
    }
}

/// Whether every index that a plan gives is below these numbers of elements: of the source, of the other operand and of the result.
pub(crate) fn stays_inside(p: &ReferenceSums, elements: [usize; 3]) -> bool {
    let last = |strides: &[u64], extents: &[u32]| -> u128 {
        strides.iter().zip(extents).map(|(&stride, &extent)| u128::from(stride) * u128::from(extent.saturating_sub(1))).sum()
    };
    let channels = [p.channels];
    let products = p.channels > 0 && !p.window.contains(&0);
    let source = last(&p.source_at, &p.extent) + last(&p.source_space, &p.positions) + last(&[p.source_channel], &channels);
    let other = last(&p.other_at, &p.extent) + last(&p.other_space, &p.window) + last(&[p.other_channel], &channels);
    let [in_source, in_other, in_result] = elements.map(|n| move |last: u128| last < n as u128);
    // Without elements there is no launch, and without products nothing is read.
    p.extent.contains(&0) || (in_result(last(&p.to_at, &p.extent)) && (!products || (in_source(source) && in_other(other))))
}

fn wide<const N: usize>(strides: [usize; N]) -> [u64; N] {
    strides.map(|s| s as u64)
}

fn extents<const N: usize>(what: &'static str, sizes: [usize; N]) -> Result<[u32; N]> {
    let mut out = [0; N];
    for (o, n) in out.iter_mut().zip(sizes) {
        *o = extent(what, n, 0)?;
    }
    Ok(out)
}

fn signed(what: &'static str, sizes: [usize; 3]) -> Result<[i32; 3]> {
    Ok(extents(what, sizes)?.map(|n| n as i32))
}

/// Outermost three dimensions and space.
fn strides(head: [usize; 3], space: [usize; 3]) -> [u64; 6] {
    wide([head[0], head[1], head[2], space[0], space[1], space[2]])
}

fn result(head: [usize; 3], space: [usize; 3]) -> Result<[u32; 6]> {
    extents("an extent of the result", [head[0], head[1], head[2], space[0], space[1], space[2]])
}

/// What positions of the filter and of the result are multiplied by, and what is subtracted.
struct Steps {
    stride: [i32; 3],
    dilation: [i32; 3],
    padding: [i32; 3],
}

/// Strides of no dimensions of space.
const NO_SPACE: [usize; 3] = [0; 3];

impl Lattice {
    /// The sums of a convolution. The source is the operand that padding surrounds: the input, or for backward data the output.
    pub(crate) fn plan(&self, direction: Direction, order: KOrder, inside: bool) -> Result<ReferenceSums> {
        self.positions_fit()?;
        let steps = Steps {
            stride: signed("stride", self.stride)?,
            dilation: signed("dilation", self.dilation)?,
            padding: signed("padding", self.padding)?,
        };
        let common = ReferenceSums {
            window: extents("an extent of the filter", self.filter)?,
            divide: [1; 3],
            channels_last: u32::from(order == KOrder::ChannelsLast),
            inside: u32::from(inside),
            // The channels of the filter that become those of the result: no position of the source depends on them.
            rows: 2,
            ..Zeroable::zeroed()
        };
        match direction {
            Direction::Forward => self.plan_forward(steps, common),
            Direction::BackwardData => self.plan_backward_data(steps, common),
            Direction::BackwardWeight => self.plan_backward_weight(steps, common),
        }
    }

    /// The device code's positions are 32-bit; the largest is the end of the last window.
    fn positions_fit(&self) -> Result<()> {
        for d in 0..3 {
            let last =
                (self.output[d] - 1).saturating_mul(self.stride[d]).saturating_add((self.filter[d] - 1).saturating_mul(self.dilation[d]));
            extent("an extent of the padded input", last.saturating_add(self.input[d]).saturating_add(self.padding[d]), 0)?;
        }
        Ok(())
    }

    fn plan_forward(&self, Steps { stride, dilation, padding }: Steps, common: ReferenceSums) -> Result<ReferenceSums> {
        let (i, f, o) = (&self.input_at, &self.filter_at, &self.output_at);
        Ok(ReferenceSums {
            extent: result([self.images, self.groups, self.k], self.output)?,
            to_at: strides([o.outer, o.group, o.channel], o.space),
            source_at: strides([i.outer, i.group, 0], NO_SPACE),
            other_at: strides([0, f.group, f.outer], NO_SPACE),
            base_step: stride,
            base_add: padding.map(|p| -p),
            step: dilation,
            positions: extents("an extent of the input", self.input)?,
            source_space: wide(i.space),
            other_space: wide(f.space),
            channels: extent("channels", self.c, 0)?,
            source_channel: i.channel as u64,
            other_channel: f.channel as u64,
            ..common
        })
    }

    fn plan_backward_data(&self, Steps { stride, dilation, padding }: Steps, common: ReferenceSums) -> Result<ReferenceSums> {
        let (i, f, o) = (&self.input_at, &self.filter_at, &self.output_at);
        Ok(ReferenceSums {
            extent: result([self.images, self.groups, self.c], self.input)?,
            to_at: strides([i.outer, i.group, i.channel], i.space),
            source_at: strides([o.outer, o.group, 0], NO_SPACE),
            other_at: strides([0, f.group, f.channel], NO_SPACE),
            base_step: [1; 3],
            base_add: padding,
            step: dilation.map(|d| -d),
            divide: stride.map(|s| s as u32),
            positions: extents("an extent of the output", self.output)?,
            source_space: wide(o.space),
            other_space: wide(f.space),
            channels: extent("channels", self.k, 0)?,
            source_channel: o.channel as u64,
            other_channel: f.outer as u64,
            ..common
        })
    }

    fn plan_backward_weight(&self, Steps { stride, dilation, padding }: Steps, common: ReferenceSums) -> Result<ReferenceSums> {
        let (i, f, o) = (&self.input_at, &self.filter_at, &self.output_at);
        Ok(ReferenceSums {
            extent: result([self.groups, self.k, self.c], self.filter)?,
            to_at: strides([f.group, f.outer, f.channel], f.space),
            source_at: strides([i.group, 0, i.channel], NO_SPACE),
            other_at: strides([o.group, o.channel, 0], NO_SPACE),
            base_step: dilation,
            base_add: padding.map(|p| -p),
            step: stride,
            window: extents("an extent of the output", self.output)?,
            positions: extents("an extent of the input", self.input)?,
            source_space: wide(i.space),
            other_space: wide(o.space),
            channels: extent("images", self.images, 0)?,
            source_channel: i.outer as u64,
            other_channel: o.outer as u64,
            channels_last: 0,
            rows: 1,
            ..common
        })
    }
}

/// The sums of a batch of matrix products: strides of A (batch, row, k) and of B (batch, k, column).
pub(crate) fn matrices([batch, m, n, k]: [usize; 4], a: [usize; 3], b: [usize; 3]) -> Result<ReferenceSums> {
    Ok(ReferenceSums {
        extent: extents("an extent of a matrix", [batch, m, n, 1, 1, 1])?,
        to_at: wide([m * n, n, 1, 0, 0, 0]),
        source_at: wide([b[0], 0, b[2], 0, 0, 0]),
        other_at: wide([a[0], a[1], 0, 0, 0, 0]),
        window: [1; 3],
        divide: [1; 3],
        positions: [1; 3],
        channels: extent("k", k, 0)?,
        // There is one position only: either order is ascending k.
        channels_last: 1,
        source_channel: b[1] as u64,
        other_channel: a[2] as u64,
        rows: 1,
        ..Zeroable::zeroed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_stay_inside_what_they_were_made_for() {
        let product = |k| matrices([2, 3, 4, k], [3 * k, k, 1], [k * 4, 4, 1]).unwrap();
        for (plan, elements, expected, reason) in [
            (product(5), [40, 30, 24], true, "B, A and the result"),
            (product(5), [39, 30, 24], false, "too small a source"),
            (product(5), [40, 29, 24], false, "too small an other operand"),
            (product(5), [40, 30, 23], false, "too small a result"),
            (product(0), [0, 0, 24], true, "no products"),
            (product(0), [0, 0, 23], false, "no products, too small a result"),
            (matrices([2, 0, 4, 5], [0, 5, 1], [20, 4, 1]).unwrap(), [40, 0, 0], true, "no elements"),
        ] {
            assert_eq!(stays_inside(&plan, elements), expected, "{reason}");
        }
    }
}
