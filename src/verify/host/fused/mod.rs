//! The fast path of the comparison: one pass over whole segments, decoded in registers, with AVX-512.
//!
//! Counts, largest magnitudes and sums of a segment come from one loop without branches. It also tells which parts of the segment hold
//! an element that could change an extreme ([`screens`]); the caller visits those by the rule itself. A segment with
//! something that is not finite is given up and scanned the careful way.
//!
//! Limits: both sides have one format of [`formats`], histograms are not made, and a segment is complete.

mod formats;
mod screens;
mod vectors;

use super::super::rule::{Real, Rule};
use super::super::stats::Stats;
use super::super::sums::{Accumulators, ROWS};
use super::block::Bits;
use super::lanes::Lanes;
use crate::dtype::{DType, Overflow, Rounding};
use formats::Format;
use screens::Screens;
use std::arch::x86_64::*;
use vectors::{Codes, Numbers};

/// Bytes of a line: four columns of a row.
const LINE: usize = 64;
/// Lines of a row, and parts of a segment.
const PARTS: usize = 8;
/// Bytes of a segment of one side.
pub(super) const SEGMENT: usize = LINE * PARTS * ROWS;

/// What the loop found in a segment.
#[derive(Default)]
pub(super) struct Found {
    mismatches: u64,
    zero_passes: u64,
    zeros: [u64; 2],
    /// Patterns of the largest magnitudes.
    largest: [u64; 2],
    /// A bit for each part with an element to be looked at.
    hot: u8,
}

/// Magnitudes as patterns: the largest of both sides that the loop takes, and for formats of a byte the largest reference for which zero
/// would pass.
pub(super) type Takes = [u64; 3];
pub(super) type Segment<T> = unsafe fn(*const u8, *const u8, &Screens<T>, Takes, &mut Accumulators<T>) -> Option<Found>;

/// The fast path for one format.
pub(super) struct Fused<T> {
    dtype: DType,
    segment: Segment<T>,
    /// The last of [`Takes`].
    zero_passes: u64,
    /// Of an earlier state of the extremes, with that state.
    screens: Option<(Screens<T>, Takes, Stats)>,
}

/// The parts of a segment that are to be looked at, as runs of bytes in ascending order.
pub(super) struct Hot {
    parts: u8,
    all: bool,
}

impl Hot {
    /// Offsets and lengths in bytes.
    pub(super) fn runs(self) -> impl Iterator<Item = (usize, usize)> {
        // With all metrics a part is a line of every row; else it is as many lines that follow each other.
        let (outer, length) = if self.all { (ROWS, LINE) } else { (1, LINE * ROWS) };
        (0..outer * PARTS).filter(move |i| self.parts >> (i % PARTS) & 1 == 1).map(move |i| (i * length, length))
    }
}

impl<T: Bits + Segments> Fused<T> {
    /// The fast path for a pair of formats, if there is one. The caller found AVX-512 F, BW, DQ and VL.
    pub(super) fn new(result: DType, reference: DType, rule: &Rule<T>) -> Option<Fused<T>> {
        let segment = T::segment(result, rule.all).filter(|_| result == reference)?;
        let mut zero_passes = 0;
        if result.bits() == 8 {
            let codes = match result {
                DType::I8 => 129,
                DType::U8 => 256,
                _ => 128,
            };
            let passes = |code: &u64| {
                let m = T::from_f64(result.decode(*code).abs());
                m <= rule.bound(rule.rtol, m, rule.atol)
            };
            // Zero always passes; that all that pass come first is so but for a pathological rounding.
            zero_passes = (0..codes).take_while(passes).count() as u64 - 1;
            if (zero_passes + 1..codes).any(|code| passes(&code)) {
                return None;
            }
        }
        Some(Fused { dtype: result, segment, zero_passes, screens: None })
    }

    /// Adds a segment to `stats` and `acc`, or gives it up and changes nothing. Both slices have [`SEGMENT`] bytes.
    ///
    /// `stats` must be of elements that come before this segment.
    pub(super) fn scan(&mut self, a: &[u8], r: &[u8], rule: &Rule<T>, stats: &mut Stats, acc: &mut Accumulators<T>) -> Option<Hot> {
        assert!(a.len() == SEGMENT && r.len() == SEGMENT);
        if self.screens.as_ref().is_none_or(|(.., of)| of.worst != stats.worst || outgrown(of, stats)) {
            let least = self.dtype.float_format().map_or(0, |f| f.min_exponent() - f.mantissa_bits as i32);
            // Of a byte's few magnitudes per binade the lowest tells enough.
            let screens = Screens::new(stats, rule, least, self.dtype.bits() > 8);
            let takes = [self.below(T::MAX_EXPONENT), self.below(screens.top), self.zero_passes];
            self.screens = Some((screens, takes, *stats));
        }
        let (screens, takes, _) = self.screens.as_ref()?;
        // Bounds are not capped in the loop.
        if !rule.rtol.fused(T::from_f64(crate::dtype::exp2(screens.top)), rule.atol).finite() {
            return None;
        }
        // SAFETY: both slices have the length of a segment, and the instruction set was found.
        let found = unsafe { (self.segment)(a.as_ptr(), r.as_ptr(), screens, *takes, acc) }?;
        stats.mismatches += found.mismatches;
        stats.zero_passes += found.zero_passes;
        for side in 0..2 {
            stats.zeros[side] += found.zeros[side];
            stats.max_magnitude[side] = stats.max_magnitude[side].max(self.dtype.decode(found.largest[side]).abs());
        }
        Some(Hot { parts: found.hot, all: rule.all })
    }

    /// The largest finite pattern below 2^e.
    fn below(&self, e: i32) -> u64 {
        let Some(f) = self.dtype.float_format() else { return u64::MAX };
        let largest = self.dtype.encode(f.max_finite(), Rounding::NearestEven, Overflow::Saturate);
        if e > f.max_exponent() {
            return largest;
        }
        self.dtype.encode(crate::dtype::exp2(e), Rounding::NearestEven, Overflow::Saturate) - 1
    }
}

/// Whether the hints changed, or the largest reference has left the binade for which the screens were made.
fn outgrown(old: &Stats, new: &Stats) -> bool {
    let binade = |x: f64| x.to_bits() >> 52;
    (old.passing_rtol, old.passing_atol) != (new.passing_rtol, new.passing_atol)
        || binade(old.max_magnitude[1]) != binade(new.max_magnitude[1])
}

/// The arithmetic's loops.
pub(super) trait Segments: Sized {
    /// The loop for a format of both sides, with all metrics or with counts.
    fn segment(dtype: DType, all: bool) -> Option<Segment<Self>>;
}

macro_rules! segments {
    ($number:ty: $($dtype:ident)*) => {
        impl Segments for $number {
            fn segment(dtype: DType, all: bool) -> Option<Segment<$number>> {
                match dtype {
                    $(DType::$dtype if all => Some(segment::<formats::$dtype, true>),
                    DType::$dtype => Some(segment::<formats::$dtype, false>),)*
                    _ => None,
                }
            }
        }
    };
}
segments!(f64: F64);
segments!(f32: F32 F16 Bf16 F8E4M3 F8E5M2 F8E4M3Fnuz I8 U8);

/// Scans one segment; `None` when an element is beyond what the loop takes.
///
/// # Safety
/// `a` and `r` have [`SEGMENT`] readable bytes, of any alignment; the processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
unsafe fn segment<F: Format, const ALL: bool>(
    a: *const u8,
    r: *const u8,
    screens: &Screens<<F::Vector as Lanes>::Number>,
    takes: Takes,
    acc: &mut Accumulators<<F::Vector as Lanes>::Number>,
) -> Option<Found> {
    type Of<F> = <F as Format>::Vector;
    type Code<F> = <F as Format>::Codes;
    let mut found = Found::default();
    let byte = F::VECTORS == 4;
    // SAFETY: the features are enabled here; lines are at multiples of 64 below SEGMENT; prefetches may be of any address.
    unsafe {
        let (rtol, atol, absolute) = (Of::<F>::splat(screens.rtol), Of::<F>::splat(screens.atol), Of::<F>::splat(screens.absolute));
        let floor = Of::<F>::splat(screens.floor);
        let (base, slope) = (Of::<F>::table(&screens.base), Of::<F>::table(&screens.slope));
        let (ratio, half_step) = (Of::<F>::splat(screens.ratio), Of::<F>::splat(screens.half_step));
        let ratio_limit = Of::<F>::splat(screens.ratio_limit);
        let farthest = Code::<F>::splat(screens.ulps.min(Code::<F>::MAX));
        let takes = takes.map(|code| Code::<F>::splat(code.min(Code::<F>::MAX)));
        let minus_zero = Code::<F>::splat(Code::<F>::MAX / 2 + 1);
        let none = _mm512_setzero_si512();
        let (mut largest_a, mut largest_r) = (none, none);
        let (mut mismatches, mut zero_passes) = (Of::<F>::no_counts(), Of::<F>::no_counts());
        for part in 0..PARTS {
            let mut sums = [Of::<F>::splat(Real::ZERO); 4];
            let mut harmless = Of::<F>::all();
            let mut far = none;
            let mut odd = false;
            for i in 0..ROWS {
                let next = LINE * (ROWS * part + i);
                _mm_prefetch::<_MM_HINT_T0>(a.wrapping_add(SEGMENT + next).cast());
                _mm_prefetch::<_MM_HINT_T0>(r.wrapping_add(SEGMENT + next).cast());
                let at = if ALL { LINE * (part + PARTS * i) } else { next };
                let (mut x, mut y) = (_mm512_loadu_si512(a.add(at).cast()), _mm512_loadu_si512(r.add(at).cast()));
                if ALL {
                    (x, y) = (F::arranged(x), F::arranged(y));
                }
                let (mx, my) = (Code::<F>::magnitude(x), Code::<F>::magnitude(y));
                (largest_a, largest_r) = (Code::<F>::max(largest_a, mx), Code::<F>::max(largest_r, my));
                if F::MINUS_ZERO_IS_NAN {
                    odd |= Code::<F>::any_equal(x, minus_zero) | Code::<F>::any_equal(y, minus_zero);
                }
                if ALL {
                    found.zeros[0] += Code::<F>::zeros(mx);
                    found.zeros[1] += Code::<F>::zeros(my);
                    if byte {
                        found.zero_passes += Code::<F>::up_to(my, takes[2]);
                    }
                    if F::ULPS {
                        far = Code::<F>::max(far, Code::<F>::distance(x, y, [mx, my]));
                    }
                }
                let (va, vr) = (F::decode(x), F::decode(y));
                for v in 0..F::VECTORS {
                    let (d, m) = (va[v].sub(vr[v]).magnitude(), vr[v].magnitude());
                    let bound = rtol.fused(m, atol);
                    mismatches = Of::<F>::count(mismatches, d.above(bound));
                    if ALL {
                        let bin = m.at_least(floor).exponents();
                        let mut rest = d;
                        if !byte {
                            zero_passes = Of::<F>::count(zero_passes, m.within(bound, Of::<F>::all()));
                            rest = Of::<F>::look_up(slope, bin).negated_fused(m, d);
                        }
                        harmless = rest.within(Of::<F>::look_up(base, bin), harmless);
                        let rest = half_step.negated_fused(bound, ratio.negated_fused(bound, d));
                        harmless = rest.within(ratio_limit, harmless);
                    } else {
                        harmless = d.within(absolute, harmless);
                    }
                    if ALL {
                        sums = [sums[0].plus(d), d.fused(d, sums[1]), sums[2].plus(m), m.fused(m, sums[3])];
                    }
                }
            }
            if odd || Code::<F>::any_above(largest_a, takes[0]) || Code::<F>::any_above(largest_r, takes[1]) {
                return None;
            }
            let hot = !Of::<F>::complete(harmless) || ALL && F::ULPS && Code::<F>::any_above(far, farthest);
            found.hot |= u8::from(hot) << part;
            if ALL {
                for (sum, acc) in sums.into_iter().zip(acc.iter_mut()) {
                    sum.put(&mut acc[4 * part..4 * part + 4]);
                }
            }
        }
        found.mismatches = Of::<F>::total(mismatches);
        found.zero_passes += Of::<F>::total(zero_passes);
        found.largest = [Code::<F>::largest(largest_a), Code::<F>::largest(largest_r)];
    }
    Some(found)
}
