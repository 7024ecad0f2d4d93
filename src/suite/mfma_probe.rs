//! Targeted data that tell the arithmetics of matrix instructions apart, on the models and on the hardware.

use crate::device::Device;
use crate::dtype::{DType, Overflow, Rounding};
use crate::error::Result;
use crate::matrix_core::{Input, InstructionKind, Mfma, Model, Modifiers, gemm_tile};
use crate::reference::mfma_issue;

/// One output element: c plus the products of `a` and `b` (zeros where they are shorter than K).
#[derive(Clone, Debug)]
pub struct ProbeCase {
    /// What it examines.
    pub why: &'static str,
    /// The accumulator.
    pub c: f64,
    /// The factors in A.
    pub a: Vec<f64>,
    /// The factors in B.
    pub b: Vec<f64>,
    /// Whether the result is zero exactly where something subnormal was flushed.
    pub flush: bool,
}

/// D as one machine delivers it.
#[derive(Clone, Debug)]
pub struct ProbeAnswer {
    /// The model, or the device.
    pub name: String,
    /// D, blocks x M x N, in the instruction's format.
    pub d: Vec<u8>,
}

/// An instruction with probing data. Case `x` lies in row and column `x % M` of block `x / M`, so that the diagonals hold the
/// results of the cases; all other elements mix two cases and are compared too. What the cases leave free holds random numbers.
#[derive(Debug)]
pub struct MfmaProbe {
    mfma: Mfma,
    cases: Vec<ProbeCase>,
    a: Vec<u8>,
    b: Vec<u8>,
    c: Vec<u8>,
}

impl MfmaProbe {
    /// The data for an instruction.
    ///
    /// # Errors
    /// When its architecture lacks it.
    pub fn new(mfma: Mfma) -> Result<MfmaProbe> {
        Mfma::by_name(mfma.arch(), &mfma.name())?;
        let (m, n, k, blocks) = (mfma.m(), mfma.n(), mfma.k(), mfma.blocks());
        let (ta, tb, tc) = mfma.dtypes();
        let mut cases = cases(mfma);
        cases.truncate(m * blocks);
        let mut state = 1u64;
        // splitmix64; numbers of a few binades around one.
        let mut random = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z >> 40) as f64 / (1u64 << 23) as f64 - 1.0) * f64::from(1u32 << (z & 7))
        };
        let (mut a, mut b, mut c) = (zeros(ta, blocks * m * k), zeros(tb, blocks * k * n), zeros(tc, blocks * m * n));
        for block in 0..blocks {
            for i in 0..m {
                let case = cases.get(block * m + i);
                for x in 0..k {
                    let factor = |of: fn(&ProbeCase) -> &Vec<f64>, other: f64| match case {
                        Some(case) => of(case).get(x).copied().unwrap_or(0.0),
                        None => other,
                    };
                    put(ta, &mut a, (block * m + i) * k + x, factor(|c| &c.a, random()));
                    put(tb, &mut b, (block * k + x) * n + i, factor(|c| &c.b, random()));
                }
                for j in 0..n {
                    put(tc, &mut c, (block * m + i) * n + j, case.map_or_else(&mut random, |case| case.c));
                }
            }
        }
        Ok(MfmaProbe { mfma, cases, a, b, c })
    }

    /// The instruction.
    pub fn mfma(&self) -> Mfma {
        self.mfma
    }

    /// The cases, in the order of the diagonals.
    pub fn cases(&self) -> &[ProbeCase] {
        &self.cases
    }

    /// What each model says that takes these formats: those of the other generations and every variant, the architecture's own
    /// default first.
    ///
    /// # Errors
    /// None are known; a model's refusal would be handed on.
    pub fn models(&self) -> Result<Vec<ProbeAnswer>> {
        let mfma = self.mfma;
        let (ta, tb, tc) = mfma.dtypes();
        let mut d = vec![0u8; self.c.len()];
        mfma.run_bytes(Modifiers::default(), (ta, &self.a), (tb, &self.b), (tc, &self.c), &mut d)?;
        let (own, input) = match (mfma.model(), mfma.arithmetic()) {
            (Some(model), InstructionKind::F32(input)) => (model, input),
            (_, InstructionKind::F64) => return Ok(vec![ProbeAnswer { name: "f64 fma, ascending k".to_owned(), d }]),
            _ => return Ok(vec![ProbeAnswer { name: "i32, exact modulo 2^32".to_owned(), d }]),
        };
        let mut answers = vec![ProbeAnswer { name: own.to_string(), d }];
        let read = |t: DType| if t == DType::Tf32 { DType::F32 } else { t };
        let floats = |t: DType, bytes: &[u8]| -> Vec<f32> {
            (0..bytes.len() / t.unit_bytes()).map(|i| read(t).decode(read(t).load_bits(bytes, i)) as f32).collect()
        };
        let (a, b, c) = (floats(ta, &self.a), floats(tb, &self.b), floats(tc, &self.c));
        let chain = Model::new(mfma.arch(), Input::F32).ok();
        let converts = |i: Input| matches!(i, Input::F16AsBf16 | Input::F16AsBf16Truncated);
        for model in Model::all().filter(|o| o.input().dtypes() == input.dtypes() && !converts(o.input())).chain(chain) {
            if model == own || model.accumulator() != tc || model.input() == Input::F32 && model.arch() != mfma.arch() {
                continue;
            }
            let (m, n, k) = (mfma.m(), mfma.n(), mfma.k());
            let mut d = c.clone();
            for (block, d) in d.chunks_exact_mut(m * n).enumerate() {
                gemm_tile(model, m, n, k, &a[block * m * k..][..m * k], k, &b[block * k * n..][..k * n], n, d, n);
            }
            let name = if model.input() == Input::F32 { "f32 fma, ascending k".to_owned() } else { model.to_string() };
            answers.push(ProbeAnswer { name, d: bytemuck::cast_slice(&d).to_vec() });
        }
        Ok(answers)
    }

    /// What the hardware delivers.
    ///
    /// # Errors
    /// When the device is no GPU of the instruction's architecture, or the launch fails.
    pub fn measure(&self, device: &Device) -> Result<ProbeAnswer> {
        let d = mfma_issue(device, self.mfma, &self.a, &self.b, &self.c)?;
        Ok(ProbeAnswer { name: device.name(), d })
    }

    /// The result of case `index`.
    pub fn value(&self, answer: &ProbeAnswer, index: usize) -> f64 {
        let (m, n) = (self.mfma.m(), self.mfma.n());
        let tc = self.mfma.dtypes().2;
        tc.decode(tc.load_bits(&answer.d, (index / m * m + index % m) * n + index % m))
    }

    /// How many elements of two answers differ, NaN being one value.
    pub fn differences(&self, x: &ProbeAnswer, y: &ProbeAnswer) -> usize {
        let tc = self.mfma.dtypes().2;
        let nan = |bits| tc.decode(bits).is_nan();
        let unequal = |i: &usize| {
            let (x, y) = (tc.load_bits(&x.d, *i), tc.load_bits(&y.d, *i));
            x != y && !(nan(x) && nan(y))
        };
        (0..self.c.len() / tc.unit_bytes()).filter(unequal).count()
    }
}

fn zeros(t: DType, elements: usize) -> Vec<u8> {
    vec![0; elements * t.unit_bytes()]
}

fn put(t: DType, bytes: &mut [u8], index: usize, x: f64) {
    t.store_bits(bytes, index, t.encode(x, Rounding::NearestEven, Overflow::Ieee));
}

/// The cases for an instruction, the most telling first.
fn cases(mfma: Mfma) -> Vec<ProbeCase> {
    let (ta, tb, tc) = mfma.dtypes();
    let case = |why, c: f64, a: &[f64], b: &[f64]| ProbeCase { why, c, a: a.to_vec(), b: b.to_vec(), flush: false };
    let flush = |why, c: f64, a: &[f64], b: &[f64]| ProbeCase { flush: true, ..case(why, c, a, b) };
    let (Some(fa), Some(fb), Some(fc)) = (ta.float_format(), tb.float_format(), tc.float_format()) else {
        return vec![
            case("wraps around", 2147483647.0, &[1.0], &[1.0]),
            case("the least product", 0.0, &[-128.0, -128.0], &[-128.0, 127.0]),
        ];
    };
    // The unit that vanishes beside c: half a spacing of `big`.
    let big = 2f64.powi(fc.mantissa_bits as i32 + 1);
    let one = [1.0; 4];
    let mut cases = vec![
        flush("a subnormal in A", 0.0, &[fa.min_positive()], &[1.0]),
        flush("a subnormal in B", 0.0, &[1.0], &[fb.min_positive()]),
        flush("a subnormal C", fc.min_positive() * 3.0, &[], &[]),
        case("four halves of a spacing", big, &one, &[0.5; 4]),
        case("a tie with a sticky bit in another product", big, &[1.0, 0.0625], &[1.0, 0.0625]),
        case("a tie with a sticky bit, across pairs", big, &[1.0, 0.0, 0.0, 0.0625], &[1.0, 0.0, 0.0, 0.0625]),
        case("a tie and a bit in one pair, minus two in the next", big, &one, &[1.0, 0.25, -0.75, -0.25]),
        case("products cancel across pairs, c is small", 2f64.powi(-30), &[16.0, 0.0, -16.0, 0.0], &[16.0, 0.0, 16.0, 0.0]),
        case("a tiny negative c beside a product: rounded down or to nearest", -(2f64.powi(-30)), &[1.0], &[1.0]),
        case("a tiny negative product beside another", 0.0, &[1.0, -1.0 / 8192.0], &[1.0, 1.0 / 8192.0]),
        case("ties in k 0 and k 4: one group or two", big, &[1.0, 0.0, 0.0, 0.0, 1.0], &[1.0; 5]),
        // 4096 + -1.5 * 2^-12 ties between two f32; 2^-20 more is 32 bits below c.
        case("a tie, and a bit 32 below c", 4096.0, &[-1.5 / 64.0, 1.0 / 1024.0], &[1.0 / 64.0, 1.0 / 1024.0]),
        case("infinity in C", f64::INFINITY, &[1.0], &[1.0]),
        case("infinities that cancel", f64::NEG_INFINITY, &[f64::INFINITY], &[1.0]),
    ];
    if fa.max_finite() >= 8192.0 && fb.max_finite() >= 1024.0 {
        // Xie et al., "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate Units", table 8.
        cases
            .insert(4, case("the published example, exactly -0.875", 8388608.0, &[-8192.0, -0.5, -0.25, -0.125], &[1024.0, 1.0, 1.0, 1.0]));
    }
    if fa.min_normal() < 2f64.powi(-100) {
        let (x, y) = (2f64.powi(-90), 2f64.powi(-39));
        cases.insert(3, flush("a subnormal product", 0.0, &[x], &[y]));
        cases.insert(4, flush("normal products with a subnormal sum", 0.0, &[x, x], &[1.5 * 2f64.powi(-36), -(2f64.powi(-36))]));
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix_core::Arch;

    #[test]
    fn the_data_tell_the_models_apart() {
        for (mfma, equal) in [
            (Mfma::f32_32x32x8f16(Arch::Gfx908), 0),
            (Mfma::f32_32x32x8f16(Arch::Gfx90a), 0),
            (Mfma::f32_16x16x16f16(Arch::Gfx942), 1),
            (Mfma::f32_16x16x16bf16_1k(Arch::Gfx90a), 0),
            (Mfma::f32_16x16x8bf16(Arch::Gfx908), 0),
        ] {
            let probe = MfmaProbe::new(mfma).unwrap();
            let answers = probe.models().unwrap();
            let same = answers[1..].iter().filter(|o| probe.differences(&answers[0], o) == 0).count();
            // Of gfx942's variants, 32 and 52 kept bits give the same while C is normal.
            assert!(same <= equal, "{mfma}: {same} of {} give the same", answers.len() - 1);
            assert!(answers.len() > 2, "{mfma}");
        }
    }

    #[test]
    fn flushes_show() {
        for (mfma, flushes) in [
            (Mfma::f32_32x32x8f16(Arch::Gfx908), false),
            (Mfma::f32_32x32x8f16(Arch::Gfx90a), true),
            (Mfma::f32_32x32x4bf16(Arch::Gfx90a), true),
            (Mfma::f32_32x32x8bf16_1k(Arch::Gfx90a), true),
            (Mfma::f32_32x32x2f32(Arch::Gfx90a), false),
            (Mfma::f32_32x32x8bf16_1k(Arch::Gfx942), false),
        ] {
            let probe = MfmaProbe::new(mfma).unwrap();
            let own = probe.models().unwrap().remove(0);
            for (x, case) in probe.cases().iter().enumerate().filter(|c| c.1.flush) {
                assert_eq!(probe.value(&own, x) == 0.0, flushes, "{mfma}: {}", case.why);
            }
        }
    }

    #[test]
    fn only_the_right_gpu_measures() {
        let probe = MfmaProbe::new(Mfma::f32_32x32x8f16(Arch::Gfx90a)).unwrap();
        let error = probe.measure(&Device::host()).unwrap_err().to_string();
        assert!(error.contains("v_mfma_f32_32x32x8f16 of gfx90a"), "{error}");
        assert!(MfmaProbe::new(Mfma::f64_4x4x4f64(Arch::Gfx908)).is_err());
    }
}
