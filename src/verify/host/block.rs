//! The inner loop: one block of elements, as vectors where the processor has them.
//!
//! Counting is done for whole vectors. The extremes are screened: an element is looked at by the very rule of
//! [`rule`](super::super::rule) only when it could change an extreme or is not finite. Each screen is a
//! condition that every such element meets; most are exact, since `fl(x / y) > best` implies `x - best·y > 0`, whose sign one
//! fma gives without error while the difference is at least [`Limits::tiny`].

use super::super::histogram::{self, Counters};
use super::super::rule::{Real, Rule};
use super::super::stats::Stats;
use super::super::values::Metric;
#[cfg(target_arch = "x86_64")]
use super::lanes::Lanes;

/// Elements that are decoded and scanned at a time: whole rows for every format, small enough for the L1 cache.
pub(super) const BLOCK: usize = 1024;

/// One block of both tensors, as numbers.
pub(super) struct Block<'a, T, I> {
    /// Logical index of the first element.
    pub start: u64,
    pub result: &'a [T],
    pub reference: &'a [T],
    pub ordinals: Ordinals<'a, T, I>,
}

/// Where the ordinals of both sides in the result's format come from.
#[derive(Clone, Copy)]
pub(super) enum Ordinals<'a, T, I> {
    /// Both sides have one format, and a number times `scale` (a power of two) has the format's pattern in its own, `shift` bits up:
    /// the scale moves the least normal number to that of `T`.
    Numbers { scale: T, shift: u32 },
    /// They were computed before: those of the result, those of the reference.
    Given(&'a [I], &'a [I]),
}

/// What becomes of a block: |a - r| and |r| for the sums, and what the scan found so far.
pub(super) struct Sink<'a, T> {
    pub stats: &'a mut Stats,
    pub histograms: Option<&'a mut Counters>,
    pub differences: &'a mut [T],
    pub magnitudes: &'a mut [T],
}

/// Numbers whose bits are their own ordinals.
pub(super) trait Bits: Real + Default {
    type Ordinal: Copy + Into<i64>;
    fn own_ordinal(self) -> i64;
    fn times(self, scale: Self) -> Self;
    /// Differences below this are always looked at one by one.
    const TINY: Self;
    /// Exponents of the least normal number and of the largest number.
    const MIN_EXPONENT: i32;
    const MAX_EXPONENT: i32;
    /// More than the relative error of a dozen roundings.
    const AIR: f64;
    /// The largest number not above `x`.
    fn floor_of(x: f64) -> Self;
    fn from_f64(x: f64) -> Self;
    /// The next number up.
    fn above(self) -> Self;
    /// The next number down.
    fn below(self) -> Self;
}

impl Bits for f32 {
    type Ordinal = i32;
    fn own_ordinal(self) -> i64 {
        let magnitude = i64::from(self.to_bits() & 0x7fff_ffff);
        if self.is_sign_negative() { -magnitude } else { magnitude }
    }
    fn times(self, scale: f32) -> f32 {
        self * scale
    }
    const TINY: f32 = 7.888_609e-31; // 2^-100
    const MIN_EXPONENT: i32 = -126;
    const MAX_EXPONENT: i32 = 127;
    const AIR: f64 = 1e-6;
    fn floor_of(x: f64) -> f32 {
        let near = x as f32;
        if f64::from(near) > x { near.next_down() } else { near }
    }
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    fn above(self) -> f32 {
        self.next_up()
    }
    fn below(self) -> f32 {
        self.next_down()
    }
}

impl Bits for f64 {
    type Ordinal = i64;
    fn own_ordinal(self) -> i64 {
        let magnitude = (self.to_bits() & i64::MAX as u64) as i64;
        if self.is_sign_negative() { -magnitude } else { magnitude }
    }
    fn times(self, scale: f64) -> f64 {
        self * scale
    }
    const TINY: f64 = 1e-270;
    const MIN_EXPONENT: i32 = -1022;
    const MAX_EXPONENT: i32 = 1023;
    const AIR: f64 = 1e-14;
    fn floor_of(x: f64) -> f64 {
        x
    }
    fn from_f64(x: f64) -> f64 {
        x
    }
    fn above(self) -> f64 {
        self.next_up()
    }
    fn below(self) -> f64 {
        self.next_down()
    }
}

impl<T: Bits> Block<'_, T, T::Ordinal> {
    /// Visits one element by the rule.
    fn observe(&self, i: usize, rule: &Rule<T>, sink: &mut Sink<'_, T>) {
        let (a, r) = (self.result[i], self.reference[i]);
        let ulps = || match self.ordinals {
            Ordinals::Numbers { scale, shift } => a.times(scale).own_ordinal().abs_diff(r.times(scale).own_ordinal()) >> shift,
            Ordinals::Given(x, y) => Into::<i64>::into(x[i]).abs_diff(y[i].into()),
        };
        let (d, m) = sink.stats.observe(rule, self.start + i as u64, a, r, ulps);
        sink.differences[i] = d;
        sink.magnitudes[i] = m;
    }

    /// Bins one element if its sides are finite and differ.
    fn bin(&self, i: usize, rule: &Rule<T>, sink: &mut Sink<'_, T>) {
        let (d, m) = (sink.differences[i], sink.magnitudes[i]);
        if let Some(counters) = &mut sink.histograms
            && d > T::ZERO
        {
            let relative = (m > T::SMALL).then(|| (d / m).wide());
            let ratio = d / rule.bound(rule.rtol, m, rule.atol);
            histogram::count(counters, relative, d.epsilons(m, &rule.grid), ratio.wide());
        }
    }

    /// The naive twin: every element by the rule.
    pub(super) fn scan_scalar(&self, rule: &Rule<T>, sink: &mut Sink<'_, T>) {
        for i in 0..self.result.len() {
            self.observe(i, rule, sink);
            self.bin(i, rule, sink);
        }
    }
}

/// The screens, as numbers to be compared with.
#[cfg(target_arch = "x86_64")]
struct Limits<L: Lanes> {
    absolute: L,
    relative: L,
    relative_old: L,
    epsilon: L,
    ratio: L,
    rtol: L,
    atol: L,
    ulp: L::Integers,
}

#[cfg(target_arch = "x86_64")]
impl<L: Lanes<Number: Bits>> Limits<L> {
    /// # Safety
    /// As for [`Lanes`].
    #[inline(always)]
    unsafe fn of(stats: &Stats, rule: &Rule<L::Number>) -> Limits<L> {
        let best = |m: Metric| stats.worst[m as usize].value;
        let number = <L::Number as Bits>::from_f64;
        // A finite limit, so that what is not finite always exceeds it.
        let finite = |x: f64| if x < L::Number::MAX.wide() { number(x) } else { L::Number::MAX };
        let scaled = best(Metric::Epsilon) * super::super::rule::pow2(-rule.grid.mantissa_bits);
        let epsilon = if scaled < L::Number::MAX.wide() { <L::Number as Bits>::floor_of(scaled) } else { L::Number::MAX };
        // SAFETY: the caller's promise.
        unsafe {
            Limits {
                absolute: L::splat(finite(best(Metric::Absolute))),
                relative: L::splat(number(best(Metric::Relative))),
                relative_old: L::splat(number(best(Metric::RelativeOld))),
                epsilon: L::splat(epsilon),
                ratio: L::splat(number(best(Metric::Ratio))),
                rtol: L::splat(number(stats.passing_rtol)),
                atol: L::splat(number(stats.passing_atol)),
                ulp: L::splat_limit(best(Metric::Ulp) as u64),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl<T: Bits> Block<'_, T, T::Ordinal> {
    /// Scans the block in vectors; `ALL` is `rule.all`.
    ///
    /// # Safety
    /// The instruction set of `L` is enabled where this is inlined.
    #[inline(always)]
    pub(super) unsafe fn scan_vectors<L, const ALL: bool>(&self, rule: &Rule<T>, sink: &mut Sink<'_, T>)
    where
        L: Lanes<Number = T, Integer = T::Ordinal>,
    {
        let n = self.result.len();
        let whole = n - n % L::N;
        // One check for all the unchecked accesses below.
        assert!(self.reference.len() == n && sink.differences.len() >= n && sink.magnitudes.len() >= n);
        assert!(!matches!(self.ordinals, Ordinals::Given(x, y) if x.len() < n || y.len() < n));
        assert!(n <= BLOCK && L::N >= 4);
        // Which elements of each vector ask for a closer look. They get it after the loop, which therefore calls nothing and keeps
        // its counters in registers; that the screens lag a block behind costs a few looks more.
        let mut rare_lanes = [0u32; BLOCK / 4];
        let (mut any, mut looks) = (0, 0);
        // SAFETY: the caller enables the instruction set; every pointer is offset by i <= n - L::N into slices of at least n.
        unsafe {
            let limits = Limits::<L>::of(sink.stats, rule);
            // Where ordinals are shifted up, so is their limit, and every distance is a multiple of 2^shift.
            let ulp_limit = match self.ordinals {
                Ordinals::Numbers { shift, .. } if shift > 0 => {
                    L::splat_limit((sink.stats.worst[Metric::Ulp as usize].value as u64) << shift)
                }
                _ => limits.ulp,
            };
            let (rtol, atol, max) = (L::splat(rule.rtol), L::splat(rule.atol), L::splat(T::MAX));
            let (tiny, small, zero) = (L::splat(T::TINY), L::splat(T::SMALL), L::splat(T::ZERO));
            let binades = |e: i32| L::splat(T::from_f64(super::super::rule::pow2(e)));
            let (lowest, highest) = (binades(rule.grid.min_exponent), binades(rule.grid.max_exponent));
            let (mut failed, mut caught) = (L::no_counts(), L::no_counts());
            let (mut zeros_a, mut zeros_r) = (L::no_counts(), L::no_counts());
            let (mut largest_a, mut largest_r) = (zero, zero);
            let (result, reference) = (self.result.as_ptr(), self.reference.as_ptr());
            let (differences, magnitudes) = (sink.differences.as_mut_ptr(), sink.magnitudes.as_mut_ptr());
            for (k, lanes) in rare_lanes[..whole / L::N].iter_mut().enumerate() {
                let i = k * L::N;
                let a = L::load(result.add(i));
                let r = L::load(reference.add(i));
                let (d, m) = (a.sub(r).magnitude(), r.magnitude());
                let bound = rtol.fused(m, atol).at_most(max);
                let mut rare = d.exceeds(limits.absolute);
                if ALL {
                    let positive = |limit: L, of: L| limit.negated_fused(of, d).above(zero);
                    // A zero reference has no relative difference.
                    rare = L::or(rare, L::and(positive(limits.relative, m), m.above(zero)));
                    rare = L::or(rare, L::and(positive(limits.relative_old, m), m.above(small)));
                    rare = L::or(rare, positive(limits.ratio, bound));
                    rare = L::or(rare, d.exceeds(limits.epsilon.mul(m.binade().at_least(lowest).at_most(highest))));
                    rare = L::or(rare, d.exceeds(limits.rtol.fused(m, atol).at_most(max)));
                    rare = L::or(rare, d.exceeds(rtol.fused(m, limits.atol).at_most(max)));
                    rare = L::or(rare, L::and(d.above(zero), tiny.above(d)));
                    let (x, y) = match self.ordinals {
                        Ordinals::Numbers { scale, .. } => (a.mul(L::splat(scale)).ordinals(), r.mul(L::splat(scale)).ordinals()),
                        Ordinals::Given(x, y) => (L::load_ordinals(x.as_ptr().add(i)), L::load_ordinals(y.as_ptr().add(i))),
                    };
                    rare = L::or(rare, L::apart(x, y, ulp_limit));
                }
                *lanes = L::bits(rare);
                any |= *lanes;
                failed = L::count(failed, L::except(d.above(bound), rare));
                largest_a = a.magnitude().zeroed(rare).at_least(largest_a);
                largest_r = m.zeroed(rare).at_least(largest_r);
                if ALL {
                    caught = L::count(caught, L::except(m.above(bound), rare));
                    zeros_a = L::count(zeros_a, L::except(a.is_zero(), rare));
                    zeros_r = L::count(zeros_r, L::except(r.is_zero(), rare));
                    d.store(differences.add(i));
                    m.store(magnitudes.add(i));
                }
            }
            sink.stats.mismatches += L::total(failed);
            for (side, (zeros, largest)) in [(zeros_a, largest_a), (zeros_r, largest_r)].into_iter().enumerate() {
                sink.stats.zeros[side] += L::total(zeros);
                sink.stats.max_magnitude[side] = sink.stats.max_magnitude[side].max(largest.largest().wide());
            }
            if ALL {
                // Those that were looked at one by one are counted there.
                sink.stats.zero_passes += whole as u64 - L::total(caught);
            }
        }
        if any != 0 {
            for (k, &lanes) in rare_lanes[..whole / L::N].iter().enumerate() {
                let mut lanes = lanes;
                while lanes != 0 {
                    self.observe(k * L::N + lanes.trailing_zeros() as usize, rule, sink);
                    lanes &= lanes - 1;
                    looks += 1;
                }
            }
        }
        if ALL {
            sink.stats.zero_passes -= looks;
        }
        for j in whole..n {
            self.observe(j, rule, sink);
        }
        if sink.histograms.is_some() {
            (0..n).for_each(|j| self.bin(j, rule, sink));
        }
    }
}

macro_rules! entry_points {
    ($($name:ident, $number:ty, $lanes:ty, $features:literal;)*) => {$(
        /// Scans a block with the instruction set of its name.
        ///
        /// # Safety
        /// The processor has that instruction set.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(
            block: &Block<'_, $number, <$number as Bits>::Ordinal>,
            rule: &Rule<$number>,
            sink: &mut Sink<'_, $number>,
        ) {
            // SAFETY: the features of `$lanes` are enabled on this function.
            unsafe {
                if rule.all {
                    block.scan_vectors::<$lanes, true>(rule, sink)
                } else {
                    block.scan_vectors::<$lanes, false>(rule, sink)
                }
            }
        }
    )*};
}

entry_points! {
    scan_f32_avx2, f32, super::lanes::avx2::F32x8, "avx2,fma";
    scan_f64_avx2, f64, super::lanes::avx2::F64x4, "avx2,fma";
    scan_f32_avx512, f32, super::lanes::avx512::F32x16, "avx512f,avx512bw,avx512dq,avx512vl";
    scan_f64_avx512, f64, super::lanes::avx512::F64x8, "avx512f,avx512bw,avx512dq,avx512vl";
}
