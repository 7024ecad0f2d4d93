//! Which kernels of hip/verify/ compare a pair of formats.

use crate::dtype::{DType, PairArithmetic};

/// A kernel: its file, its name.
pub(super) type Name = (&'static str, &'static str);

/// What the first pass makes; each is a kernel of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstPass {
    /// Counts, largest magnitudes and the largest absolute difference.
    Counts,
    /// All metrics.
    All,
    /// All metrics, and histograms.
    Histograms,
}

/// The kernel of the first pass; `common` allows those for common pairs of formats.
pub(super) fn values(dtypes: [DType; 2], first_pass: FirstPass, common: bool) -> Name {
    // One kernel makes all there is of formats of 4 bits: it takes no longer than less.
    if dtypes.map(DType::bits) == [4; 2] {
        return ("verify/f32_4.hip", "verify_values_f32_4_4");
    }
    let Names { file, counts, all, histograms, .. } = names(dtypes);
    let general = match first_pass {
        FirstPass::Counts => counts,
        FirstPass::All => all,
        FirstPass::Histograms => histograms,
    };
    match (common_names(dtypes).filter(|_| common), first_pass) {
        (Some([counts, _]), FirstPass::Counts) => ("verify/common.hip", counts),
        (Some([_, all]), FirstPass::All) => ("verify/common.hip", all),
        _ => (file, general),
    }
}

/// The kernel of the second pass.
pub(super) fn explanation(dtypes: [DType; 2]) -> Name {
    let Names { file, explain, .. } = names(dtypes);
    (file, explain)
}

/// The kernels for any pair of formats.
struct Names {
    file: &'static str,
    counts: &'static str,
    all: &'static str,
    histograms: &'static str,
    explain: &'static str,
}

macro_rules! names {
    ($file:literal, $name:literal) => {
        Names {
            file: $file,
            counts: concat!("verify_counts_", $name),
            all: concat!("verify_all_", $name),
            histograms: concat!("verify_histograms_", $name),
            explain: concat!("verify_explain_", $name),
        }
    };
}

/// Formats that f32 holds have kernels by their widths, of which all up to 8 bits are one; of the others those of two 64-bit formats.
fn names([result, reference]: [DType; 2]) -> Names {
    let bits = [result, reference].map(|d| d.bits().max(8));
    match (PairArithmetic::of(result, reference), bits) {
        (PairArithmetic::F32, [8, 8]) => names!("verify/f32_8.hip", "f32_8_8"),
        (PairArithmetic::F32, [8, 16]) => names!("verify/f32_8.hip", "f32_8_16"),
        (PairArithmetic::F32, [16, 8]) => names!("verify/f32_16.hip", "f32_16_8"),
        (PairArithmetic::F32, [8, _]) => names!("verify/f32_8.hip", "f32_8_32"),
        (PairArithmetic::F32, [_, 8]) => names!("verify/f32_32.hip", "f32_32_8"),
        (PairArithmetic::F32, [16, 16]) => names!("verify/f32_16.hip", "f32_16_16"),
        (PairArithmetic::F32, [16, _]) => names!("verify/f32_16.hip", "f32_16_32"),
        (PairArithmetic::F32, [_, 16]) => names!("verify/f32_32.hip", "f32_32_16"),
        (PairArithmetic::F32, _) => names!("verify/f32_32.hip", "f32_32_32"),
        (PairArithmetic::I64, [64, 64]) if [result, reference] == [DType::I64; 2] => names!("verify/integers.hip", "i64_64_64"),
        (PairArithmetic::I64, [64, 64]) => names!("verify/integers.hip", "whole_64_64"),
        (PairArithmetic::I64, bits) if bits.contains(&64) => names!("verify/integers.hip", "whole_any"),
        // Differences of integers of up to 32 bits are exact in f64.
        (_, [64, 64]) => names!("verify/f64.hip", "f64_64_64"),
        _ => names!("verify/f64_any.hip", "f64_any"),
    }
}

/// Common pairs of formats have kernels of their own: counts, all metrics.
fn common_names(dtypes: [DType; 2]) -> Option<[&'static str; 2]> {
    Some(match dtypes {
        [DType::F32, DType::F32] => ["verify_counts_f32", "verify_all_f32"],
        [DType::F16, DType::F16] => ["verify_counts_f16", "verify_all_f16"],
        [DType::Bf16, DType::Bf16] => ["verify_counts_bf16", "verify_all_bf16"],
        [DType::F16, DType::F32] => ["verify_counts_f16_f32", "verify_all_f16_f32"],
        [DType::Bf16, DType::F32] => ["verify_counts_bf16_f32", "verify_all_bf16_f32"],
        [DType::F8E4M3, DType::F8E4M3] => ["verify_counts_f8e4m3", "verify_all_f8e4m3"],
        [DType::F8E4M3Fnuz, DType::F8E4M3Fnuz] => ["verify_counts_f8e4m3fnuz", "verify_all_f8e4m3fnuz"],
        [DType::I8, DType::I8] => ["verify_counts_i8", "verify_all_i8"],
        _ => return None,
    })
}
