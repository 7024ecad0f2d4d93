//! Tolerances: given, or derived from number formats and the number of accumulations.

use super::rule::Real;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};

/// How far a result may be from its reference: element i passes when `|a - r| <= fma(rtol, |r|, atol)`, or, [by binade](Tolerance::by_binade), with the binade of |r| in its
/// place.
///
/// The derived form follows Composable Kernel's rule for its `gpu_verify`, extended to every format:
/// with u(T) = 2^-(mantissa bits + 1) the unit roundoff,
///
/// * rtol = max(u(compute), u(output), n · u(accumulator)) for n accumulations;
/// * atol = max|reference| · rtol, one number for the whole tensor;
/// * both are 0 as soon as one of the three formats is an integer.
///
/// With many accumulations in a small format this becomes so loose that a comparison can hardly fail (f16 accumulators,
/// n = 1000: rtol 0.49); the report then says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    kind: Kind,
    by_binade: bool,
    /// Whether formats decided, and not the caller.
    derived: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Given {
        rtol: f64,
        atol: f64,
    },
    /// The absolute tolerance is `atol` times a scale of the reference.
    Scaled {
        rtol: f64,
        atol: f64,
        scale: Scale,
        /// What is added to that.
        floor: f64,
    },
}

/// A magnitude of the reference's finite elements, by which an absolute tolerance may be scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scale {
    /// max|r|: one outlier decides.
    Largest,
    /// 2^floor(log2 max|r|).
    LargestBinade,
    /// Mean of |r|.
    Mean,
    /// Root mean square of r.
    Rms,
}

impl Tolerance {
    /// Explicit tolerances.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when either is negative, infinite or NaN.
    pub fn new(rtol: f64, atol: f64) -> Result<Tolerance> {
        for (what, value) in [("rtol", rtol), ("atol", atol)] {
            if !(0.0..f64::INFINITY).contains(&value) {
                let limit = "a tolerance is a finite number, 0 or larger".to_owned();
                return Err(Error::InvalidArgument { what, value: value.to_string(), limit });
            }
        }
        // -0.0 + 0.0 is +0.0, which reports print without a sign.
        Ok(Tolerance::of(Kind::Given { rtol: rtol + 0.0, atol: atol + 0.0 }))
    }

    /// Nothing but equality passes (zeros of both signs are equal).
    pub fn exact() -> Tolerance {
        Tolerance::of(Kind::Given { rtol: 0.0, atol: 0.0 })
    }

    fn of(kind: Kind) -> Tolerance {
        Tolerance { kind, by_binade: false, derived: false }
    }

    /// The same numbers, where rtol multiplies the binade of |r| and not |r|: 2^e of the spacing 2^(e - p) that the result's format with p fraction bits has at |r|, e held within the
    /// exponents of its normal numbers. With the unit roundoff for rtol it allows half a spacing, which is what rounding to nearest takes; of |r| it would be up to twice that at
    /// the upper end of a binade. For results of integer formats, whose spacing is 1, it is 1 everywhere.
    ///
    /// ```
    /// use hipverify::verify::{Tolerance, gpu_verify};
    /// use hipverify::{Device, DeviceMem};
    /// let device = Device::host();
    /// let result = DeviceMem::from_slice(&device, &[1.0f32, 1.75])?;
    /// let reference = DeviceMem::from_slice(&device, &[1.25f32, 1.5])?;
    /// let quarter = Tolerance::new(0.25, 0.0)?;
    /// assert!(gpu_verify(&result, &reference, &quarter)?.passed() && gpu_verify(&result, &reference, &quarter.by_binade())?.passed());
    /// let fifth = Tolerance::new(0.2, 0.0)?;
    /// assert_eq!(gpu_verify(&result, &reference, &fifth)?.mismatches, 0);
    /// assert_eq!(gpu_verify(&result, &reference, &fifth.by_binade())?.mismatches, 2);
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    pub fn by_binade(self) -> Tolerance {
        Tolerance { by_binade: true, ..self }
    }

    /// Whether rtol multiplies the [binade](Tolerance::by_binade) of |r|.
    pub fn is_by_binade(&self) -> bool {
        self.by_binade
    }

    /// The same with its absolute tolerance as a number, for a reference whose [scale](Tolerance::scale) is `magnitude`: what a plan takes, which measures nothing. A derived tolerance
    /// stays one for [`Strict`](super::Strict).
    ///
    /// A magnitude below 0 or NaN counts as 0. A product beyond f64, as that of an infinite magnitude, is the largest f64, with which every finite element
    /// passes: check a magnitude that is measured.
    pub fn at(&self, magnitude: f64) -> Tolerance {
        Tolerance { kind: Kind::Given { rtol: self.rtol(), atol: self.atol(magnitude) }, ..*self }
    }

    /// Derived from the formats of a product's inputs, output and accumulator, and its number of accumulations
    /// (K of a GEMM, C·Y·X of a convolution).
    ///
    /// ```
    /// use hipverify::{dtype::F16, verify::Tolerance};
    /// assert_eq!(Tolerance::gemm::<F16, F16, f32>(256).rtol(), 2f64.powi(-11));
    /// ```
    pub fn gemm<Compute: Element, Output: Element, Accumulator: Element>(accumulations: usize) -> Tolerance {
        Tolerance::derived(Compute::DTYPE, Output::DTYPE, Accumulator::DTYPE, accumulations)
    }

    /// [`Tolerance::gemm`] for formats known at run time.
    pub fn derived(compute: DType, output: DType, accumulator: DType, accumulations: usize) -> Tolerance {
        let rtol = relative_threshold(compute, output, accumulator, accumulations);
        Tolerance { derived: true, ..Tolerance::of(Kind::Scaled { rtol, atol: rtol, scale: Scale::Largest, floor: 0.0 }) }
    }

    /// A relative tolerance, and an absolute one of `atol` times a scale of the reference, which is measured before the comparison.
    ///
    /// # Errors
    /// As [`Tolerance::new`].
    pub fn scaled(rtol: f64, atol: f64, scale: Scale) -> Result<Tolerance> {
        let given = Tolerance::new(rtol, atol)?;
        Ok(Tolerance::of(Kind::Scaled { rtol: given.rtol(), atol: given.atol(0.0), scale, floor: 0.0 }))
    }

    /// What the rounding of a correct kernel explains, whatever its order of additions, and no more. With u(T) the unit roundoff, A an
    /// accumulator of f32 (f64 for results of f64) and n accumulations:
    ///
    /// * rtol, where the result's format is coarser than A, [by binade](Tolerance::by_binade): u(result) + u(reference) + 16 u(A), half a spacing on each side, and a few steps after the sum,
    ///   which are relative to |r|, up to twice its binade;
    /// * rtol for other results: u(result) + u(reference) + 8 u(A), of |r|: most of that are the steps;
    /// * atol = max(n, 1024) u(A) mean|r|, plus half the least positive number of the reference's format, and of the result's where rtol is not by binade, by which subnormal results are rounded.
    ///
    /// It is for sums that do not cancel nearly everywhere. The error of a sum scales with Σ|a||b| of its products, and atol with mean|r|: where all of them cancel, as of data with an offset
    /// and columns that add up to 0, right results are beyond it. `check::Check` judges those, as it knows the operands; else give atol as a number.
    ///
    /// An outlier of the reference changes the mean by its share of the sum, where [`derived`](Tolerance::derived) takes all of it. The 1024 stands
    /// for sums of unknown length, and for inputs that matrix cores flush (2^-14, the least normal number of f16). Accumulators of a smaller format
    /// do not pass, and are not meant to. With an integer format nothing but equality does, nor where both formats are f8e8m0: scales of MX blocks are not sums. `docs/tolerances.md` has what it catches.
    ///
    /// ```
    /// use hipverify::{DType, verify::Tolerance};
    /// let t = Tolerance::rounding(DType::F16, DType::F32, 4096);
    /// assert_eq!((t.rtol(), t.is_by_binade()), (2f64.powi(-11) + 17.0 * 2f64.powi(-24), true));
    /// assert_eq!(t.atol(3.0), 3.0 * 2f64.powi(-12) + 2f64.powi(-150));
    /// ```
    pub fn rounding(result: DType, reference: DType, accumulations: usize) -> Tolerance {
        let exact = Tolerance { derived: true, ..Tolerance::exact() };
        // Powers of two are scales of blocks: half a spacing would let each be twice or half what it should be, which no sum rounds away.
        if (result, reference) == (DType::F8E8M0, DType::F8E8M0) {
            return exact;
        }
        let accumulator = accumulator(result);
        let (Some(a), Some(r), Some(sum)) = (result.float_format(), reference.float_format(), accumulator.float_format()) else {
            return exact;
        };
        let by_binade = a.unit_roundoff() > sum.unit_roundoff();
        let (steps, least) = if by_binade { (16.0, 0.0) } else { (8.0, a.min_positive()) };
        let rtol = a.unit_roundoff() + r.unit_roundoff() + steps * sum.unit_roundoff();
        let atol = accumulations.max(1024) as f64 * sum.unit_roundoff();
        let floor = (least + r.min_positive()) / 2.0;
        Tolerance { kind: Kind::Scaled { rtol, atol, scale: Scale::Mean, floor }, by_binade, derived: true }
    }

    /// [`rounding`](Tolerance::rounding) of products of `factors` numbers in any order. Each product rounds, to A in the kernel and to f64 in its reference, and none loses the errors of those before it: both together are at
    /// most (1 + u)^k - 1 <= e^(k u) - 1 of |r|, k = factors - 1, u = u(A) + u(f64) (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, lemma 3.1), where no partial product underflows or
    /// overflows. rtol grows by that; by binade by twice that, as |r| is up to twice its binade. It is at most the largest f64.
    ///
    /// ```
    /// use hipverify::{DType, verify::Tolerance};
    /// let [one, many] = [1, 1025].map(|factors| Tolerance::rounding_of_products(DType::F32, DType::F64, 1, factors));
    /// assert_eq!(one, Tolerance::rounding(DType::F32, DType::F64, 1));
    /// assert!((many.rtol() - one.rtol() - 2f64.powi(-14)).abs() < 1e-8, "1024 times 2^-24");
    /// ```
    pub fn rounding_of_products(result: DType, reference: DType, accumulations: usize, factors: usize) -> Tolerance {
        let tolerance = Tolerance::rounding(result, reference, accumulations);
        let unit = accumulator(result).unit_roundoff() + DType::F64.unit_roundoff();
        let more = libm::expm1(factors.saturating_sub(1) as f64 * unit) * if tolerance.by_binade { 2.0 } else { 1.0 };
        match tolerance.kind {
            Kind::Given { .. } => tolerance,
            Kind::Scaled { rtol, atol, scale, floor } => {
                // So many factors that the exponential overflows have any product.
                Tolerance { kind: Kind::Scaled { rtol: (rtol + more).min(f64::MAX), atol, scale, floor }, ..tolerance }
            }
        }
    }

    /// The relative tolerance.
    pub fn rtol(&self) -> f64 {
        match self.kind {
            Kind::Given { rtol, .. } | Kind::Scaled { rtol, .. } => rtol,
        }
    }

    /// The absolute tolerance for a reference whose [scale](Tolerance::scale) is `magnitude`: max|r|, its mean or its root mean square; for magnitudes that none has see
    /// [`at`](Tolerance::at).
    pub fn atol(&self, magnitude: f64) -> f64 {
        match self.kind {
            Kind::Given { atol, .. } => atol,
            Kind::Scaled { atol, scale, floor, .. } => {
                let magnitude = if scale == Scale::LargestBinade { Real::binade(magnitude) } else { magnitude };
                absolute_threshold(magnitude, atol) + floor
            }
        }
    }

    /// What of the reference [`atol`](Tolerance::atol) depends on; `None` when it depends on nothing.
    pub fn scale(&self) -> Option<Scale> {
        match self.kind {
            // No multiple of a scale is none.
            Kind::Given { .. } | Kind::Scaled { atol: 0.0, .. } => None,
            Kind::Scaled { scale, .. } => Some(scale),
        }
    }

    /// Whether it was derived from formats, and not given.
    pub(crate) fn is_derived(&self) -> bool {
        self.derived
    }
}

/// The format that sums and products are taken to be rounded to where nothing is known but the result's.
fn accumulator(result: DType) -> DType {
    if result == DType::F64 { DType::F64 } else { DType::F32 }
}

/// max(u(compute), u(output), n · u(accumulator)); 0 when any of the three is an integer format.
/// Source: Composable Kernel, `get_relative_threshold`.
pub fn relative_threshold(compute: DType, output: DType, accumulator: DType, accumulations: usize) -> f64 {
    match (compute.float_format(), output.float_format(), accumulator.float_format()) {
        (Some(c), Some(o), Some(a)) => c.unit_roundoff().max(o.unit_roundoff()).max(accumulations as f64 * a.unit_roundoff()),
        _ => 0.0,
    }
}

/// max|reference| · rtol, saturated to a finite number; 0 where one of both is NaN. Source: Composable Kernel, `get_absolute_threshold`, where
/// 2^log2(max) is computed without rounding the logarithm down.
pub fn absolute_threshold(max_abs: f64, relative: f64) -> f64 {
    let threshold = max_abs * relative;
    if threshold > 0.0 { threshold.min(f64::MAX) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceMem};
    use crate::verify::gpu_verify;

    /// Rounding to nearest, by the definition of the format, against what is next to it.
    #[test]
    fn half_a_spacing_is_what_rounding_takes() {
        use crate::dtype::{Overflow, Rounding, next_down, next_up};
        use DType::{Bf16, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F16};
        for dtype in [F16, Bf16, F8E4M3, F8E5M2, F8E4M3Fnuz, F8E5M2Fnuz] {
            let format = dtype.float_format().unwrap();
            let (mut right, mut wrong, mut reference) = (Vec::new(), Vec::new(), Vec::new());
            // Binades of the format, subnormal numbers among them, by places between two numbers of it.
            for exponent in format.min_exponent() - 2..=format.max_exponent() {
                for part in [0.0, 0.003, 0.26, 0.43, 0.5, 0.517, 0.74, 0.93, 0.999] {
                    let r = f64::from((crate::dtype::exp2(exponent) * (1.0 + part)) as f32);
                    let bits = dtype.encode(r, Rounding::NearestEven, Overflow::Saturate);
                    let other = if dtype.decode(bits) > r { next_down(dtype, bits) } else { next_up(dtype, bits) };
                    let [near, far] = [bits, other].map(|bits| (dtype.decode(bits) - r).abs());
                    // Not the numbers between which a sum may fall on either side, nor what is beyond the largest.
                    if r.abs() < format.max_finite() && far - near > 1e-3 * (far + near) {
                        right.push(bits);
                        wrong.push(other);
                        reference.push(r as f32);
                    }
                }
            }
            assert!(reference.len() > 100, "{dtype}: {}", reference.len());
            let device = Device::host();
            let reference = DeviceMem::from_slice(&device, &reference).unwrap();
            let tolerance = Tolerance::rounding(dtype, DType::F32, 1).at(0.0);
            let compare = |patterns: &[u64]| {
                let mut bytes = vec![0; patterns.len() * dtype.unit_bytes()];
                patterns.iter().enumerate().for_each(|(i, &bits)| dtype.store_bits(&mut bytes, i, bits));
                let layout = crate::device::Layout::contiguous(&[patterns.len()]).unwrap();
                gpu_verify(&crate::device::TensorRef::from_host_bytes(&bytes, dtype, layout).unwrap(), &reference, &tolerance)
                    .unwrap()
                    .mismatches
            };
            assert_eq!((compare(&right), compare(&wrong)), (0, wrong.len() as u64), "{dtype}: the nearest number, and the next");
        }
    }

    #[test]
    fn a_tolerance_of_zero_has_no_sign() {
        for tolerance in [Tolerance::new(-0.0, -0.0).unwrap(), Tolerance::scaled(-0.0, -0.0, Scale::Rms).unwrap()] {
            assert_eq!([tolerance.rtol(), tolerance.atol(1.0)].map(f64::to_bits), [0; 2], "{tolerance:?}");
        }
    }

    /// Scales of MX blocks: a spacing of their format is a factor of two.
    #[test]
    fn scales_of_blocks_have_to_be_equal() {
        let scales =
            |bits: [u8; 4]| DeviceMem::<crate::dtype::F8E8M0>::from_slice(&Device::host(), &bits.map(crate::dtype::F8E8M0)).unwrap();
        let tolerance = Tolerance::rounding(DType::F8E8M0, DType::F8E8M0, 4096);
        assert_eq!((tolerance.rtol(), tolerance.atol(9.0), tolerance.is_derived()), (0.0, 0.0, true));
        let reference = scales([127, 120, 130, 1]);
        for (result, mismatches, reason) in
            [([127, 120, 130, 1], 0, "the same"), ([127, 121, 130, 1], 1, "one is doubled"), ([126, 119, 129, 0], 4, "all are halved")]
        {
            let report = gpu_verify(&scales(result), &reference, &tolerance).unwrap();
            assert_eq!((report.mismatches, report.passed()), (mismatches, mismatches == 0), "{reason}");
        }
        let same = gpu_verify(&reference, &reference, &tolerance).unwrap();
        assert_eq!(same.verdict, crate::verify::Verdict::Pass, "and a pass is one to trust");
        assert!(Tolerance::rounding(DType::F8E8M0, DType::F32, 1).rtol() >= 0.5, "against wider numbers a result is rounded");
        assert_eq!(Tolerance::rounding_of_products(DType::F8E8M0, DType::F8E8M0, 1, 9).rtol(), 0.0);
    }

    #[test]
    fn products_round_once_a_factor() {
        for (dtype, more) in
            [(DType::F16, 1024.0 * 2f64.powi(-24)), (DType::F32, 512.0 * 2f64.powi(-24)), (DType::F64, 1024.0 * 2f64.powi(-53))]
        {
            let [sum, product] = [Tolerance::rounding(dtype, DType::F64, 9), Tolerance::rounding_of_products(dtype, DType::F64, 9, 513)];
            let found = (product.rtol() - sum.rtol()) / more;
            assert!((1.0..1.0001).contains(&found), "{dtype}: {found}");
            assert_eq!(Tolerance::rounding_of_products(dtype, DType::F64, 9, 1), sum, "{dtype}: one factor");
        }
        assert_eq!(Tolerance::rounding_of_products(DType::I32, DType::F64, 9, 9), Tolerance::rounding(DType::I32, DType::F64, 9));
        for (factors, reason) in [(1 << 28, "of the longest vectors"), (usize::MAX, "of more than the exponential of f64 holds")] {
            for dtype in [DType::F16, DType::F32] {
                let rtol = Tolerance::rounding_of_products(dtype, DType::F64, 9, factors).rtol();
                assert!(Tolerance::new(rtol, 0.0).is_ok(), "{dtype}: {rtol} {reason}");
            }
        }
    }

    #[test]
    fn absolute_tolerances_scale_with_the_reference() {
        let device = Device::host();
        let reference = [1.0f32, -7.0, 0.0, f32::NAN, 4.0];
        let reference = DeviceMem::from_slice(&device, &reference).unwrap();
        for (scale, atol, reason) in [
            (Scale::Largest, 3.5, "half of 7"),
            (Scale::LargestBinade, 2.0, "half of 4"),
            (Scale::Mean, 1.5, "half of 12 over 4 elements: NaN is none"),
            (Scale::Rms, 66f64.sqrt() / 4.0, "half of the root of 66 / 4"),
        ] {
            let tolerance = Tolerance::scaled(0.25, 0.5, scale).unwrap();
            let report = gpu_verify(&reference, &reference, &tolerance).unwrap();
            assert_eq!((report.rtol, report.atol), (0.25, atol), "{reason}");
        }
        let exact = Tolerance::rounding(DType::I8, DType::F32, 9);
        assert_eq!((exact.rtol(), exact.atol(9.0), exact.scale(), exact.is_derived()), (0.0, 0.0, None, true), "an integer format");
        let wide = Tolerance::rounding(DType::F64, DType::F64, 9);
        assert_eq!((wide.rtol(), wide.atol(1.0)), (5.0 * f64::EPSILON, 512.0 * f64::EPSILON), "f64 is summed in f64; 1024 terms at least");
        let nothing = DeviceMem::from_slice(&device, &[f32::NAN]).unwrap();
        let tolerance = Tolerance::scaled(0.0, 1.0, Scale::Mean).unwrap();
        assert_eq!(gpu_verify(&nothing, &nothing, &tolerance).unwrap().atol, 0.0, "no finite element");
        let tolerance = Tolerance::scaled(0.0, 0.5, Scale::Largest).unwrap();
        for (magnitude, atol) in [(f64::NAN, 0.0), (-3.0, 0.0), (f64::NEG_INFINITY, 0.0), (f64::INFINITY, f64::MAX), (3.0, 1.5)] {
            assert_eq!(tolerance.at(magnitude).atol(7.0), atol, "{magnitude}");
        }
        assert!(Tolerance::scaled(0.0, f64::NAN, Scale::Mean).is_err() && Tolerance::scaled(-1.0, 0.0, Scale::Rms).is_err());
    }
}
