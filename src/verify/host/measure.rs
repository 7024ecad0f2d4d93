//! The loops of the first pass over one block, as [`Task`]s.

use super::filter::{Filter, Signs};
use super::number::Number;
use super::side::BLOCK;
use crate::simd::{Task, array, each, pairs};
use crate::verify::rule::Rule;
use crate::verify::sums::{self, ACCUMULATORS, Accumulators, LANES, LINE, Sums};
use crate::verify::values::Maxima;

/// Counts and largest magnitudes of a block, and whether a quotient may exceed its maximum. Pairs whose difference is not finite are left out: a side
/// that is not finite, and finite numbers whose difference overflows. Without `LEAVE_OUT` nothing but `difference` is right where there are such pairs.
pub(super) struct Classify<'a, T, const ALL: bool, const LEAVE_OUT: bool> {
    pub result: &'a [T; BLOCK],
    pub reference: &'a [T; BLOCK],
    pub rule: Rule<T>,
    pub filter: Filter<T>,
    /// |a - r| and |r|, when `ALL`; zeros for pairs that are left out.
    pub d: &'a mut [T; BLOCK],
    pub m: &'a mut [T; BLOCK],
}

/// What [`Classify`] found. Counts are in the type that vector loops count in; patterns are those of magnitudes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Classified<B> {
    /// Pairs that were not left out, with `LEAVE_OUT`.
    pub taken: B,
    pub mismatches: B,
    /// Elements at which a result of zero would not pass.
    pub zeros_fail: B,
    pub nonzero: [B; 2],
    pub largest: [B; 2],
    pub difference: B,
    /// Of the tests against the maxima.
    pub signs: Signs<B>,
}

impl<T: Number, const ALL: bool, const LEAVE_OUT: bool> Task for Classify<'_, T, ALL, LEAVE_OUT> {
    type Output = Classified<T::Bits>;
    #[inline(always)]
    fn run(self) -> Classified<T::Bits> {
        self.count::<false>()
    }
    #[inline(always)]
    fn run_avx512(self) -> Classified<T::Bits> {
        self.count::<true>()
    }
}

impl<T: Number, const ALL: bool, const LEAVE_OUT: bool> Classify<'_, T, ALL, LEAVE_OUT> {
    #[inline(always)]
    fn count<const AVX512: bool>(self) -> Classified<T::Bits> {
        let (rule, filter) = (self.rule, self.filter);
        let (none, one) = (T::Bits::default(), T::one::<AVX512>());
        // Separate variables, which the compiler keeps in registers.
        let (mut taken, mut mismatches, mut zeros_fail, mut nonzero_a, mut nonzero_r) = (none, none, none, none, none);
        let (mut difference, mut largest_a, mut largest_r) = (none, none, none);
        let mut signs = Signs::default();
        for i in 0..BLOCK {
            let (a, r) = (self.result[i], self.reference[i]);
            let d = (a - r).magnitude();
            let finite = !LEAVE_OUT || d.bits() < T::INFINITE;
            let d = if finite { d } else { T::ZERO };
            let n = if finite { a.magnitude() } else { T::ZERO };
            let m = if finite { r.magnitude() } else { T::ZERO };
            let bound = rule.bound(rule.rtol, m, rule.atol);
            taken += if finite { one } else { none };
            mismatches += if d > bound { one } else { none };
            difference = T::larger_bits(difference, d.bits());
            largest_a = T::larger_bits(largest_a, n.bits());
            largest_r = T::larger_bits(largest_r, m.bits());
            if ALL {
                zeros_fail += if m > bound { one } else { none };
                nonzero_a += if n > T::ZERO { one } else { none };
                nonzero_r += if m > T::ZERO { one } else { none };
                filter.test(&mut signs, d, m, bound);
                self.d[i] = d;
                self.m[i] = m;
            }
        }
        Classified { taken, mismatches, zeros_fail, nonzero: [nonzero_a, nonzero_r], largest: [largest_a, largest_r], difference, signs }
    }
}

/// The maxima of a block of finite pairs by their definition, with divisions; d / 2^e in the place of the epsilon difference.
pub(super) struct Quotients<'a, T> {
    pub d: &'a [T; BLOCK],
    pub m: &'a [T; BLOCK],
    pub rule: Rule<T>,
}

impl<T: Number> Task for Quotients<'_, T> {
    type Output = Maxima;
    #[inline(always)]
    fn run(self) -> Maxima {
        let rule = self.rule;
        let binades = rule.binades();
        let none = T::Bits::default();
        let (mut relative, mut relative_old, mut ratio, mut epsilon) = (none, none, none, 0u64);
        pairs(self.d, self.m, |d, m| {
            // As patterns, which order numbers that are not negative. 0 / 0 is in none.
            let quotient = (d / m).bits();
            let by_bound = (d / rule.bound(rule.rtol, m, rule.atol)).bits();
            relative = relative.max(if m > T::ZERO { quotient } else { none });
            relative_old = relative_old.max(if m > T::SMALL { quotient } else { none });
            ratio = ratio.max(if d > T::ZERO { by_bound } else { none });
            epsilon = epsilon.max(rule.binades_apart(d, m, binades).to_bits());
        });
        let wide = |bits: T::Bits| T::from_bits(bits).wide();
        [0.0, wide(relative), wide(relative_old), f64::from_bits(epsilon), wide(ratio)]
    }
}

/// Adds a block to the accumulators of its tile; those are f64 for f32 whose squares leave the range.
pub(super) struct Add<'a, T, W> {
    pub to: &'a mut Accumulators<W>,
    pub d: &'a [T; BLOCK],
    pub m: &'a [T; BLOCK],
    /// V, the elements of a lane in a row of the tile.
    pub vector: usize,
}

impl<T: Number, W: Number> Task for Add<'_, T, W> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [sum_d, squares_d, sum_m, squares_m] = self.to;
        add_rows(self.vector, sum_d, squares_d, self.d);
        add_rows(self.vector, sum_m, squares_m, self.m);
    }
}

/// Steps 2 and 3 of the sums, with `accumulators` accumulators a lane.
pub(super) struct TileSums<'a, T> {
    pub of: &'a Accumulators<T>,
    pub accumulators: usize,
}

impl<T: Number> Task for TileSums<'_, T> {
    type Output = Option<Sums>;
    #[inline(always)]
    fn run(self) -> Option<Sums> {
        sums::tile_sums(self.of, self.accumulators)
    }
}

/// Elements of which one maximum tells whether they are looked at one by one.
pub(super) const RUN: usize = 32;

/// The largest pattern of |a - r| of every 32nd element, from each of the first 32 on. Those that are not finite have the largest.
pub(super) struct Differences<'a, T> {
    pub result: &'a [T; BLOCK],
    pub reference: &'a [T; BLOCK],
}

impl<T: Number> Task for Differences<'_, T> {
    type Output = [T::Bits; RUN];
    #[inline(always)]
    fn run(self) -> [T::Bits; RUN] {
        let mut largest = [T::Bits::default(); RUN];
        let (result, reference) = (self.result.as_chunks::<RUN>().0, self.reference.as_chunks::<RUN>().0);
        for row in 0..BLOCK / RUN {
            let (a, r) = (&result[row], &reference[row]);
            for column in 0..RUN {
                largest[column] = T::larger_bits(largest[column], (a[column] - r[column]).magnitude().bits());
            }
        }
        largest
    }
}

/// Step 1 of the sums: each accumulator takes its numbers, one after the other, of lanes of `vector` elements a row.
#[inline(always)]
fn add_rows<T: Number, W: Number>(vector: usize, sums: &mut [W; LINE], squares: &mut [W; LINE], x: &[T; BLOCK]) {
    match vector {
        2 => add::<T, W, 2, 1>(sums, squares, x),
        4 => add::<T, W, ACCUMULATORS, 1>(sums, squares, x),
        8 => add::<T, W, ACCUMULATORS, 2>(sums, squares, x),
        16 => add::<T, W, ACCUMULATORS, 4>(sums, squares, x),
        _ => add::<T, W, ACCUMULATORS, 8>(sums, squares, x),
    }
}

/// Lanes whose accumulators are in vectors together: of f32, a vector of AVX-512.
const TOGETHER: usize = 4;

/// L accumulators a lane, which take `TURNS` numbers each in a row.
#[inline(always)]
fn add<T: Number, W: Number, const L: usize, const TURNS: usize>(sums: &mut [W; LINE], squares: &mut [W; LINE], x: &[T; BLOCK]) {
    let (sums, squares, x) = (sums.as_chunks_mut::<L>().0, squares.as_chunks_mut::<L>().0, x.as_chunks::<L>().0);
    for lane in (0..LANES).step_by(TOGETHER) {
        let mut s: [[W; L]; TOGETHER] = array(|k| sums[lane + k]);
        let mut q: [[W; L]; TOGETHER] = array(|k| squares[lane + k]);
        for row in 0..BLOCK / (LANES * L * TURNS) {
            for turn in 0..TURNS {
                let numbers: [[T; L]; TOGETHER] = array(|k| x[(row * LANES + lane + k) * TURNS + turn]);
                for k in 0..TOGETHER {
                    add_numbers(&mut s[k], &mut q[k], &numbers[k]);
                }
            }
        }
        each(&mut sums[lane..lane + TOGETHER], &s, |to, s| *to = *s);
        each(&mut squares[lane..lane + TOGETHER], &q, |to, q| *to = *q);
    }
}

/// A number to each accumulator.
#[inline(always)]
fn add_numbers<T: Number, W: Number, const L: usize>(sums: &mut [W; L], squares: &mut [W; L], numbers: &[T; L]) {
    for j in 0..L {
        // Exact: W is T, or f64.
        let x = W::from_f64(numbers[j].wide());
        sums[j] = sums[j].plus(x);
        squares[j] = x.fused(x, squares[j]);
    }
}
