//! Which kernels of hip/verify/ compare a pair of formats.

use hipverify_sys::abi::RING_BYTES;

use crate::dtype::{DType, PairArithmetic};

/// A kernel: its file, its name.
pub(super) type Name = (&'static str, &'static str);

/// What the first pass computes; each has its own kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstPass {
    /// Counts, largest magnitudes and the largest absolute difference.
    Counts,
    /// All metrics.
    All,
    /// All metrics, and histograms.
    Histograms,
}

/// The kernel of the first pass.
pub(super) fn values(dtypes: [DType; 2], first_pass: FirstPass) -> Name {
    // One kernel makes all there is of formats of 4 bits: it takes no longer than less.
    if dtypes.map(DType::bits) == [4; 2] {
        return ("verify/f32_8.hip", "verify_values_f32_4_4");
    }
    let Names { file, counts, all, histograms, .. } = names(dtypes);
    match first_pass {
        FirstPass::Counts => (file, counts),
        FirstPass::All => (file, all),
        FirstPass::Histograms => (file, histograms),
    }
}

/// The kernel of the first pass for large tensors, if it is a different one: `make_values_of_bytes` is faster if a block meets the same pairs again and again.
pub(super) fn values_of_many(dtypes: [DType; 2], first_pass: FirstPass) -> Option<Name> {
    let file = "verify/f32_8.hip";
    match first_pass {
        _ if dtypes.map(is_byte) != [true; 2] => None,
        FirstPass::Counts => Some((file, "verify_counts_f32_byte_byte")),
        FirstPass::All => Some((file, "verify_all_f32_byte_byte")),
        FirstPass::Histograms => None,
    }
}

/// The kernel of the second pass for large tensors, if it is a different one: the time of `explain_bytes` depends on the data only by how many different pairs there are. Its last launch takes no elements.
pub(super) fn explanation_of_many(dtypes: [DType; 2]) -> Option<Name> {
    (dtypes.map(is_byte) == [true; 2]).then_some(("verify/f32_8.hip", "verify_explain_f32_byte_byte"))
}

/// The shared memory, in bytes, that a kernel of this module needs for outstanding loads: see `hip/verify/ring.h`. The others load to registers.
pub(super) fn ring_bytes(name: &str) -> u32 {
    let some = ["verify_values_f32_4_4", "verify_explain_f32_byte_byte", "verify_histograms_f32_8_8", "verify_histograms_f32_8_16"];
    let in_registers = some.contains(&name) || name.starts_with("verify_counts_f32_");
    if in_registers { 0 } else { RING_BYTES }
}

/// Of 8 bits, with a zero: what `BYTE` stands for in hip/verify/decode.h.
fn is_byte(dtype: DType) -> bool {
    dtype.bits() == 8 && dtype != DType::F8E8M0
}

/// The kernel of the second pass.
pub(super) fn explanation(dtypes: [DType; 2]) -> Name {
    let Names { file, explain, .. } = names(dtypes);
    (file, explain)
}

/// The kernels of a pair of formats.
struct Names {
    file: &'static str,
    counts: &'static str,
    all: &'static str,
    histograms: &'static str,
    explain: &'static str,
}

macro_rules! names {
    ($file:literal, $name:literal) => {
        names!($file, $name, $name)
    };
    // Histograms and explanations by kernels of another name.
    ($file:literal, $name:literal, $others:literal) => {
        Names {
            file: $file,
            counts: concat!("verify_counts_", $name),
            all: concat!("verify_all_", $name),
            histograms: concat!("verify_histograms_", $others),
            explain: concat!("verify_explain_", $others),
        }
    };
}

macro_rules! all_by_histograms {
    ($file:literal, $name:literal) => {{
        let names = names!($file, $name);
        Names { counts: names.histograms, all: names.histograms, ..names }
    }};
}

/// Kernels are by the widths of both formats, where all formats of up to 8 bits count as one width. A kernel takes the narrower format first.
fn names(dtypes: [DType; 2]) -> Names {
    let [x, y] = in_order(dtypes);
    match (PairArithmetic::of(x, y), [x, y].map(width)) {
        // Formats without special cases are faster.
        (PairArithmetic::F32, [8, 16]) if is_byte(x) => names!("verify/f32_8.hip", "f32_byte_16", "f32_8_16"),
        (PairArithmetic::F32, [8, 8]) => names!("verify/f32_8.hip", "f32_8_8"),
        (PairArithmetic::F32, [8, 16]) => names!("verify/f32_8.hip", "f32_8_16"),
        (PairArithmetic::F32, [8, _]) => names!("verify/f32_8.hip", "f32_8_32"),
        (PairArithmetic::F32, [16, 16]) => names!("verify/f32_16.hip", "f32_16_16"),
        (PairArithmetic::F32, [16, _]) => names!("verify/f32_16.hip", "f32_16_32"),
        (PairArithmetic::F32, _) => names!("verify/f32_16.hip", "f32_32_32"),
        // The kernels of histograms make everything: for pairs that are too rare for their own ones.
        (PairArithmetic::I64, [8, 64]) if !is_byte(x) => all_by_histograms!("verify/integers.hip", "whole_any"),
        (_, [8, _]) if !is_byte(x) => all_by_histograms!("verify/f64.hip", "f64_any"),
        (PairArithmetic::I64, [8, 64]) => names!("verify/integers.hip", "whole_byte_64", "whole_any"),
        (PairArithmetic::I64, [16, 64]) => names!("verify/integers.hip", "whole_16_64", "whole_any"),
        (PairArithmetic::I64, [32, 64]) => names!("verify/integers.hip", "whole_32_64", "whole_any"),
        (PairArithmetic::I64, [64, _]) => names!("verify/integers.hip", "whole_64_64"),
        // Differences of integers of up to 32 bits are exact in f64.
        (_, [8, 32]) => names!("verify/f64.hip", "f64_byte_32", "f64_any"),
        (_, [16, 32]) => names!("verify/f64.hip", "f64_16_32", "f64_any"),
        (_, [32, 32]) => names!("verify/f64.hip", "f64_32_32"),
        (_, [8, _]) => names!("verify/f64.hip", "f64_byte_64", "f64_any"),
        (_, [16, _]) => names!("verify/f64.hip", "f64_16_64", "f64_any"),
        (_, [32, _]) => names!("verify/f64.hip", "f64_32_64", "f64_any"),
        _ => names!("verify/f64.hip", "f64_64_64"),
    }
}

/// Whether the reference is a kernel's first operand.
pub(super) fn swapped([result, reference]: [DType; 2]) -> bool {
    width(result) > width(reference)
}

/// The formats in the order of a kernel's operands.
fn in_order(mut dtypes: [DType; 2]) -> [DType; 2] {
    if swapped(dtypes) {
        dtypes.reverse();
    }
    dtypes
}

/// By which kernels are chosen.
fn width(dtype: DType) -> usize {
    dtype.bits().max(8)
}
