//! The loops of the first pass over one block, as [`Task`]s and a [`LanesTask`].

use super::filter::{Filter, Signs};
use super::number::{BoundLanes, Number};
use super::plain;
use super::side::{BLOCK, Source};
use crate::simd::{InstructionSet, Lanes, LanesTask, Task, array, each, pairs};
use crate::verify::rule::Rule;
use crate::verify::sums::{self, ACCUMULATORS, Accumulators, LANES, LINE, Sums};
use crate::verify::values::Maxima;

/// Counts and largest magnitudes of a block, and whether a quotient may exceed its maximum. Pairs whose difference is not finite are left out: a side
/// that is not finite, and finite numbers whose difference overflows. Without `LEAVE_OUT` nothing but `difference` is right where there are such pairs.
pub(super) struct Classify<'a, T, const ALL: bool, const LEAVE_OUT: bool> {
    pub result: Source<'a, T>,
    pub reference: Source<'a, T>,
    pub rule: Rule<T>,
    pub filter: Filter<T>,
    /// |a - r| and |r|, when `ALL`; zeros for pairs that are left out.
    pub d: &'a mut [T; BLOCK],
    pub m: &'a mut [T; BLOCK],
    /// Gets the indices of the pairs that are left out.
    pub left_out: &'a mut Vec<usize>,
}

/// What [`Classify`] found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classified<T> {
    pub mismatches: u64,
    /// Elements at which a result of zero would not pass.
    pub zeros_fail: u64,
    pub nonzero: [u64; 2],
    pub largest: [T; 2],
    pub difference: T,
    /// Of the tests against the maxima.
    pub signs: Signs<T>,
}

impl<T: Number, const ALL: bool, const LEAVE_OUT: bool> Classify<'_, T, ALL, LEAVE_OUT> {
    /// With these instructions.
    pub(super) fn by(self, set: InstructionSet) -> Classified<T> {
        match (self.result, self.reference) {
            (Source::Numbers(a), Source::Numbers(r)) if set.is_plain() => plain::classify(self, a, r),
            _ => set.run_lanes(self),
        }
    }
}

impl<T: Number, const ALL: bool, const LEAVE_OUT: bool> LanesTask<T> for Classify<'_, T, ALL, LEAVE_OUT> {
    type Output = Classified<T>;
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(self, set: L::Set) -> Classified<T> {
        let none = L::no_counts(set);
        let (zero, infinity) = (L::splat(set, T::ZERO), L::splat(set, T::from_bits(T::INFINITE)));
        let bounds = BoundLanes::new(set, &self.rule);
        let mut filter = self.filter.lanes::<L>(set);
        let (mut mismatches, mut zeros_fail, mut nonzero_a, mut nonzero_r) = (none, none, none, none);
        let (mut difference, mut largest_a, mut largest_r) = (zero, zero, zero);
        // Which pairs are left out, a bit each.
        let (mut others, all) = ([0u16; BLOCK / 4], ((1u32 << L::N) - 1) as u16);
        // A vector is read while the one before is tested. With the conditions of `LEAVE_OUT` so many operations depend on each other that processors do not look far enough
        // ahead to find independent ones. Before the first vector there are zeros then, and the last one is read twice.
        let ahead = if ALL && LEAVE_OUT { L::N } else { 0 };
        let mut read = (zero, zero, zero, bounds.of(zero));
        for next in (0..BLOCK + ahead).step_by(L::N) {
            let before = read;
            let at = next.min(BLOCK - L::N);
            let (a, r) = (self.result.lanes::<L>(set, at), self.reference.lanes::<L>(set, at));
            let (mut of_d, mut of_n, mut of_m) = (L::magnitude(L::sub(a, r)), L::magnitude(a), L::magnitude(r));
            if LEAVE_OUT {
                let finite = L::less(of_d, infinity);
                others[at / L::N] = !L::bits(finite) as u16 & all;
                (of_d, of_n, of_m) = (L::keep(finite, of_d), L::keep(finite, of_n), L::keep(finite, of_m));
            }
            read = (of_d, of_n, of_m, bounds.of(of_m));
            let (d, n, m, bound) = if ahead > 0 { before } else { read };
            mismatches = L::count(mismatches, L::less(bound, d));
            difference = L::larger_bits(difference, d);
            largest_a = L::larger_bits(largest_a, n);
            largest_r = L::larger_bits(largest_r, m);
            if ALL {
                let nonzero = L::less(zero, m);
                zeros_fail = L::count(zeros_fail, L::less(bound, m));
                nonzero_a = L::count(nonzero_a, L::less(zero, n));
                nonzero_r = L::count(nonzero_r, nonzero);
                filter.test(d, m, bound, nonzero);
                let at = next.saturating_sub(ahead);
                L::store(d, &mut self.d[at..]);
                L::store(m, &mut self.m[at..]);
            }
        }
        let found = Classified {
            mismatches: L::total(mismatches),
            zeros_fail: L::total(zeros_fail),
            nonzero: [L::total(nonzero_a), L::total(nonzero_r)],
            largest: [L::largest(largest_a), L::largest(largest_r)],
            difference: L::largest(difference),
            signs: filter.signs(),
        };
        // Last, since what it calls would take the registers of all vectors in use.
        if LEAVE_OUT {
            indices::<L>(&others, self.left_out);
        }
        found
    }
}

/// The indices of the bits that are set, of vectors of L.
#[inline(always)]
fn indices<L: Lanes>(vectors: &[u16], out: &mut Vec<usize>) {
    for (four, vectors) in vectors[..BLOCK / L::N].as_chunks::<4>().0.iter().enumerate() {
        // Hardly any of four vectors has one.
        if *vectors == [0; 4] {
            continue;
        }
        for (k, &vector) in vectors.iter().enumerate() {
            let mut bits = vector;
            while bits != 0 {
                out.push((4 * four + k) * L::N + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
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

/// The same by vectors, for lanes of more than [`ACCUMULATORS`] elements: an accumulator takes every fourth of them.
pub(super) struct AddTurns<'a, T> {
    pub to: &'a mut Accumulators<T>,
    pub d: &'a [T; BLOCK],
    pub m: &'a [T; BLOCK],
    pub vector: usize,
}

impl<T: Number> LanesTask<T> for AddTurns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(self, set: L::Set) {
        let [sum_d, squares_d, sum_m, squares_m] = self.to;
        match self.vector {
            8 => (add_turns::<L, 2>(set, sum_d, squares_d, self.d), add_turns::<L, 2>(set, sum_m, squares_m, self.m)),
            16 => (add_turns::<L, 4>(set, sum_d, squares_d, self.d), add_turns::<L, 4>(set, sum_m, squares_m, self.m)),
            _ => (add_turns::<L, 8>(set, sum_d, squares_d, self.d), add_turns::<L, 8>(set, sum_m, squares_m, self.m)),
        };
    }
}

/// Each vector of accumulators takes `TURNS` vectors of numbers in a row of the tile.
#[inline(always)]
fn add_turns<L: Lanes, const TURNS: usize>(
    set: L::Set,
    sums: &mut [L::Number; LINE],
    squares: &mut [L::Number; LINE],
    x: &[L::Number; BLOCK],
) {
    for at in (0..LINE).step_by(L::N) {
        let (mut s, mut q) = (L::load(set, &sums[at..]), L::load(set, &squares[at..]));
        for row in (0..BLOCK).step_by(LINE * TURNS) {
            let mut numbers = [s; TURNS];
            for (turn, vector) in numbers.iter_mut().enumerate() {
                *vector = L::load(set, &x[row + at * TURNS + turn * L::N..]);
            }
            // Lane by lane, groups of four of all turns follow each other. A step moves those at even places before those at odd ones, which rotates the bits of a place by one: after all
            // steps its lowest bits, the turn, are the highest ones.
            let mut step = 1;
            while step < TURNS {
                let before = numbers;
                for i in 0..TURNS / 2 {
                    (numbers[i], numbers[TURNS / 2 + i]) = L::unzip_fours(before[2 * i], before[2 * i + 1]);
                }
                step *= 2;
            }
            for &x in &numbers {
                s = L::add(s, x);
                q = L::fused(x, x, q);
            }
        }
        L::store(s, &mut sums[at..]);
        L::store(q, &mut squares[at..]);
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
