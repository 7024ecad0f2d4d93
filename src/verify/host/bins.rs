//! Histograms of a block. The work does not depend on the data.
//!
//! A pair has three quotients. Without tables, those at or above the begin of each bin are counted, by comparisons. AVX-512 looks up tables in its registers:
//!
//! ```text
//! q = pattern of the quotient, held within 16 exponents        those outside belong to the same bins as the ends of this range
//! bin = (q + offset[exponent of q]) >> fraction bits           offsets turn exponents into bins: an exponent has the end of one bin at most, and its offset takes numbers from there on to the next bin
//! counters += 16^bin                                           eight fields of 4 bits; these are added to fields of 8 bits before they overflow
//! ```
//!
//! The device multiplies where this divides (`hip/verify/histograms.h`). Vector units divide beside their other work, and quotients need no exceptions near the ends of the range.

use super::filter::floor;
use super::number::{BinadeLanes, BoundLanes, Number};
use super::side::BLOCK;
use crate::dtype::exp2;
use crate::simd::{Lanes, LanesTask, array};
use crate::verify::histogram::{Counters, EPSILON, EPSILON_ENDS, RATIO_ENDS, RELATIVE, RELATIVE_ENDS};
use crate::verify::rule::Rule;

const BY_RELATIVE: usize = 0;
const BY_EPSILON: usize = 1;
const BY_RATIO: usize = 2;
const KINDS: usize = 3;

/// The bin of ratios that are 0.
const ZERO_RATIO: usize = RELATIVE.len() + EPSILON.len();
/// The first bin of each kind that has quotients above 0.
const FIRST: [usize; KINDS] = [1, RELATIVE.len() + 1, ZERO_RATIO + 1];
/// The most such bins of a kind.
const MOST: usize = 8;

/// Elements in the bins from [`FIRST`] on; 0 after the last.
type Found = [[u64; MOST]; KINDS];

/// The ends of all bins.
pub(super) struct Ends<T> {
    /// The least number of each bin but the first; NaN after the last.
    least: [[T; MOST - 1]; KINDS],
    tables: [Table<T>; KINDS],
}

impl<T: Number> Ends<T> {
    pub(super) fn new(rule: &Rule<T>) -> Ends<T> {
        let mut least = [[T::from_f64(f64::NAN); MOST - 1]; KINDS];
        for (least, end) in least[BY_RELATIVE].iter_mut().zip(RELATIVE_ENDS) {
            let near = T::from_f64(end);
            *least = if near.wide() < end { near.next_up() } else { near };
        }
        // Of d / 2^e, which is exact where it is not far below these.
        for (least, end) in least[BY_EPSILON].iter_mut().zip(&EPSILON_ENDS[1..]) {
            *least = T::from_f64(end * exp2(-rule.grid.mantissa_bits));
        }
        for (least, end) in least[BY_RATIO].iter_mut().zip(RATIO_ENDS) {
            *least = floor::<T>(end).next_up();
        }
        Ends { tables: array(|kind| Table::new(&least[kind], shift::<T>(kind))), least }
    }
}

/// How far a pattern is shifted for its entry, and for its bin. Relative differences have too many binades for a table, but their ends are further apart, and
/// two binades share an entry.
#[inline(always)]
const fn shift<T: Number>(kind: usize) -> u32 {
    T::FRACTION_BITS + if kind == BY_RELATIVE { 1 } else { 0 }
}

/// How quotients of a kind become bins.
#[derive(Clone, Copy)]
struct Table<T> {
    /// What is added to a pattern, by its exponent modulo 16.
    offsets: [T; 16],
    /// The numbers with the least and the largest pattern that the table is for.
    range: [T; 2],
}

impl<T: Number> Table<T> {
    fn new(least: &[T; MOST - 1], shift: u32) -> Table<T> {
        let ends: [u64; MOST - 1] = array(|k| least[k].bits().into());
        let begin = ends[0] >> shift;
        let mut offsets = [T::ZERO; 16];
        for exponent in begin..begin + 16 {
            let bin = ends.iter().filter(|end| **end < exponent << shift).count();
            // Where the next bin begins, or the next exponent.
            let next = ends.get(bin).map_or(u64::MAX, |end| *end).min((exponent + 1) << shift);
            offsets[exponent as usize % 16] = T::at(((bin as u64 + 1) << shift).wrapping_sub(next));
        }
        Table { offsets, range: [begin << shift, ((begin + 16) << shift) - 1].map(T::at) }
    }
}

/// Adds the pairs of a block that differ.
pub(super) struct Bins<'a, T> {
    pub to: &'a mut Counters,
    pub d: &'a [T; BLOCK],
    pub m: &'a [T; BLOCK],
    pub rule: Rule<T>,
    pub ends: &'a Ends<T>,
}

impl<T: Number> LanesTask<T> for Bins<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(self, set: L::Set) {
        let found = if L::LOOKUPS { self.by_tables::<L>(set) } else { self.by_comparisons() };
        for (first, found) in FIRST.into_iter().zip(&found) {
            self.to[first..].iter_mut().zip(found).for_each(|(to, n)| *to += n);
        }
        // Only ratios may underflow: different numbers are at least half a spacing apart.
        let [_, differing, ratios] = found.map(|bins| bins.iter().sum::<u64>());
        self.to[ZERO_RATIO] += differing - ratios;
    }
}

/// What a counter of 4 bits holds, and how many of these one of 8 bits.
const NARROW: usize = 15;
const WIDE: usize = 255 / NARROW;

impl<T: Number> Bins<'_, T> {
    #[inline(always)]
    fn by_tables<L: Lanes<Number = T>>(&self, set: L::Set) -> Found {
        let (zero, small, every_other) = (L::splat(set, T::ZERO), L::splat(set, T::SMALL), L::splat(set, T::at(0x0f0f_0f0f)));
        let (binades, bounds) = (BinadeLanes::new(set, self.rule.binades()), BoundLanes::new(set, &self.rule));
        let tables = &self.ends.tables;
        let least: [L; KINDS] = array(|kind| L::splat(set, tables[kind].range[0]));
        let most: [L; KINDS] = array(|kind| L::splat(set, tables[kind].range[1]));
        let ones: [T; 16] = array(|bin| T::at(1 << (4 * (bin % MOST))));
        let mut found = [[0; MOST]; KINDS];
        for begin in (0..BLOCK).step_by(WIDE * NARROW * L::N) {
            let mut wide = [[zero; 2]; KINDS];
            for begin in (begin..BLOCK.min(begin + WIDE * NARROW * L::N)).step_by(NARROW * L::N) {
                let mut narrow = [zero; KINDS];
                for at in (begin..BLOCK.min(begin + NARROW * L::N)).step_by(L::N) {
                    let (d, m) = (L::load(set, &self.d[at..]), L::load(set, &self.m[at..]));
                    let relative = L::keep(L::less(small, m), L::div(d, m));
                    let quotients = [relative, L::div(d, binades.of(m)), L::div(d, bounds.of(m))];
                    for kind in 0..KINDS {
                        let held = L::smaller(L::larger(quotients[kind], least[kind]), most[kind]);
                        let offset = L::lookup(&tables[kind].offsets, L::shift_bits(held, shift::<T>(kind)));
                        let bin = L::shift_bits(L::add_bits(held, offset), shift::<T>(kind));
                        let one = L::keep(L::less(zero, quotients[kind]), L::lookup(&ones, bin));
                        narrow[kind] = L::add_bits(narrow[kind], one);
                    }
                }
                for kind in 0..KINDS {
                    let [even, odd] = &mut wide[kind];
                    *even = L::add_bits(*even, L::and(narrow[kind], every_other));
                    *odd = L::add_bits(*odd, L::and(L::shift_bits(narrow[kind], 4), every_other));
                }
            }
            for kind in 0..KINDS {
                let [even, odd] = wide[kind];
                add_bytes(&mut found[kind], 0, even);
                add_bytes(&mut found[kind], 1, odd);
            }
        }
        found
    }

    #[inline(always)]
    fn by_comparisons(&self) -> Found {
        [
            self.beyond::<BY_RELATIVE, { RELATIVE_ENDS.len() }>(),
            self.beyond::<BY_EPSILON, { EPSILON_ENDS.len() - 1 }>(),
            self.beyond::<BY_RATIO, { RATIO_ENDS.len() }>(),
        ]
    }

    #[inline(always)]
    fn beyond<const KIND: usize, const ENDS: usize>(&self) -> [u64; MOST] {
        let (rule, binades) = (self.rule, self.rule.binades());
        let least: [T; ENDS] = array(|k| self.ends.least[KIND][k]);
        let (none, one) = (T::Bits::default(), T::Bits::from(true));
        // Those in bin k or a later one.
        let mut beyond = [none; MOST];
        for i in 0..BLOCK {
            let (d, m) = (self.d[i], self.m[i]);
            let quotient = match KIND {
                BY_RELATIVE if m > T::SMALL => d / m,
                BY_RELATIVE => T::ZERO,
                BY_EPSILON => d / rule.clamped_binade(m, binades),
                _ => d / rule.bound(rule.rtol, m, rule.atol),
            };
            beyond[0] += if quotient > T::ZERO { one } else { none };
            for k in 0..ENDS {
                beyond[k + 1] += if quotient >= least[k] { one } else { none };
            }
        }
        let beyond: [u64; MOST] = array(|k| beyond[k].into());
        array(|k| if k < ENDS { beyond[k] - beyond[k + 1] } else { beyond[k] })
    }
}

/// Adds the four counters of 8 bits of each lane, which are of every other bin from `first` on.
#[inline(always)]
fn add_bytes<T: Number, L: Lanes<Number = T>>(found: &mut [u64; MOST], first: usize, counters: L) {
    let mut lanes = [T::ZERO; 16];
    L::store(counters, &mut lanes);
    let mut sums = [0u32; MOST / 2];
    for lane in &lanes[..L::N] {
        let pattern: u64 = lane.bits().into();
        let bytes = pattern.to_le_bytes();
        for k in 0..sums.len() {
            sums[k] += u32::from(bytes[k]);
        }
    }
    for k in 0..sums.len() {
        found[first + 2 * k] += u64::from(sums[k]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::simd::InstructionSet;
    use crate::verify::histogram::{BINS, count};
    use crate::verify::options::Request;
    use crate::verify::tests::REQUEST;
    use crate::verify::values::Metric;

    /// Tables, whether or not the set is fast with them.
    struct Tables<'a, T>(&'a Bins<'a, T>);

    impl<T: Number> LanesTask<T> for Tables<'_, T> {
        type Output = Found;
        #[inline(always)]
        fn run<L: Lanes<Number = T>>(self, set: L::Set) -> Found {
            self.0.by_tables::<L>(set)
        }
    }

    /// The counters of these pairs, d and m, one after the other.
    fn naive<T: Number>(rule: &Rule<T>, pairs: &[[T; 2]]) -> Counters {
        let mut counters = [0; BINS];
        for &[d, m] in pairs.iter().filter(|[d, _]| *d > T::ZERO) {
            let metrics = rule.metrics(d, m);
            let of = |metric: Metric| metrics[metric as usize];
            count(&mut counters, (m > T::SMALL).then(|| of(Metric::RelativeOld)), of(Metric::Epsilon), of(Metric::Ratio));
        }
        counters
    }

    /// Blocks of these pairs, by all sets, both ways.
    fn check<T: Number>(rule: &Rule<T>, pairs: &[[T; 2]], what: &str) {
        let ends = Ends::new(rule);
        for pairs in pairs.chunks(BLOCK) {
            let (mut d, mut m) = ([T::ZERO; BLOCK], [T::ZERO; BLOCK]);
            pairs.iter().enumerate().for_each(|(i, pair)| [d[i], m[i]] = *pair);
            let expected = naive(rule, pairs);
            for set in InstructionSet::all() {
                let mut counters = [0; BINS];
                set.run_lanes(Bins { to: &mut counters, d: &d, m: &m, rule: *rule, ends: &ends });
                assert_eq!(counters, expected, "{set:?}, {what}, {} pairs", pairs.len());
                let bins = Bins { to: &mut counters, d: &d, m: &m, rule: *rule, ends: &ends };
                assert_eq!(set.run_lanes(Tables(&bins)), bins.by_comparisons(), "{set:?}, {what}, {} pairs", pairs.len());
            }
        }
    }

    /// d at and next to every end of every kind, and with quotients in every binade around them, for references of every kind.
    fn edges<T: Number>(rule: &Rule<T>) -> Vec<[T; 2]> {
        let references = [0.0, 1e-40, 1e-30, 2e-7, 1e-3, 1.1e-3, 0.01, 0.3, 1.0, 1.7, 448.0, 65504.0, 1e30, 3e38].map(T::from_f64);
        let mut pairs = Vec::new();
        for m in references.into_iter().chain([T::SMALL.next_up(), T::at(1), T::MAX]) {
            let binade = rule.clamped_binade(m, rule.binades()).wide();
            let bound = rule.bound(rule.rtol, m, rule.atol).wide();
            let relative = RELATIVE_ENDS.map(|end| end * m.wide());
            let epsilon = EPSILON_ENDS.map(|end| end * exp2(-rule.grid.mantissa_bits) * binade);
            let ratio = RATIO_ENDS.map(|end| end * bound);
            let powers = (-60..20).map(exp2).flat_map(|power| [m.wide(), binade, bound].map(|x| power * x));
            let ends = relative.into_iter().chain(epsilon).chain(ratio).chain(powers).map(T::from_f64);
            for d in ends.chain([T::ZERO, T::at(1), T::MAX]).filter(|d| d.finite()) {
                let below = if d > T::ZERO { d.next_down() } else { d };
                pairs.extend([below, d, d.next_up(), d.next_up().next_up()].map(|d| [d, m]));
            }
        }
        // The ratio is the only quotient that underflows.
        pairs.retain(|[d, m]| *d == T::ZERO || (*d / *m > T::ZERO && *d / rule.clamped_binade(*m, rule.binades()) > T::ZERO));
        pairs
    }

    fn check_edges<T: Number>() {
        let tolerances = [[1e-3, 1e-3], [0.0, 0.0], [1e-3, 0.0], [0.0, 1e-42], [1e30, 1e38]];
        for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E8M0, DType::I8] {
            for ([rtol, atol], by_binade) in tolerances.into_iter().flat_map(|t| [(t, false), (t, true)]) {
                let rule = Rule::<T>::new(&Request { rtol, atol, by_binade, ..REQUEST }, dtype);
                check(&rule, &edges(&rule), &format!("{dtype}, {rtol}, {atol}, {by_binade}"));
            }
        }
    }

    #[test]
    fn quotients_at_every_end_are_in_the_bins_of_the_rule() {
        check_edges::<f32>();
        check_edges::<f64>();
    }

    /// All pairs of a block in one bin, which is more than counters of 8 bits hold where vectors are short.
    #[test]
    fn no_counter_overflows() {
        let rule = Rule::<f32>::new(&Request { rtol: 0.0, atol: 1e-3, ..REQUEST }, DType::F16);
        for d in (-30..10).map(|e| 1.5 * 2f32.powi(e)) {
            check(&rule, &[[d, 1.0]; BLOCK], &format!("{d:e}"));
        }
    }
}
