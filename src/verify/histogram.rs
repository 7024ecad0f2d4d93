//! Histograms with the bins of the 2022 study of fp16 errors.

use std::fmt;

/// A histogram with fixed bins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Histogram {
    /// What is binned.
    pub measure: &'static str,
    /// Names of the bins, in ascending order.
    pub bins: &'static [&'static str],
    /// Elements in each bin.
    pub counts: Vec<u64>,
    /// Finite pairs in none of the bins: those that differ where |r| <= 1e-3, of the relative difference.
    pub left_out: u64,
}

/// The three histograms of a report. Pairs that are not finite are in none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Histograms {
    /// |a - r| / |r| where |r| > 1e-3; equal pairs are in the first bin whatever r is.
    pub relative: Histogram,
    /// |a - r| / spacing of the result's format at |r|, rounded to the nearest integer (ties up), but at least 1 when the pair differs.
    pub epsilon: Histogram,
    /// |a - r| / fma(rtol, |r|, atol).
    pub ratio: Histogram,
}

/// Bins of the relative difference.
pub(crate) const RELATIVE: [&str; 9] =
    ["0", "(0, 1e-6)", "[1e-6, 1e-5)", "[1e-5, 1e-4)", "[1e-4, 1e-3)", "[1e-3, 1e-2)", "[1e-2, 0.1)", "[0.1, 1)", ">= 1"];
/// Bins of the epsilon difference.
pub(crate) const EPSILON: [&str; 6] = ["0", "1", "2", "[3, 10]", "[11, 100]", "> 100"];
/// Bins of the ratio to the tolerance; everything up to 1 passes.
pub(crate) const RATIO: [&str; 8] = ["0", "(0, 0.1]", "(0.1, 0.5]", "(0.5, 1]", "(1, 2]", "(2, 10]", "(10, 100]", "> 100"];
/// Bins of all three, one after the other: the layout that backends fill.
pub(crate) const BINS: usize = RELATIVE.len() + EPSILON.len() + RATIO.len();

/// What is in none of the relative bins.
const LEFT_OUT: &str = "|r| <= 1e-3";

/// Counters of all bins.
pub(crate) type Counters = [u64; BINS];

/// The lower ends of the relative bins 2 to 8, as f64 literals.
pub(crate) const RELATIVE_ENDS: [f64; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];
/// The lower ends of the epsilon bins 1 to 5: above 0, then half an epsilon below the first whole number in each.
pub(crate) const EPSILON_ENDS: [f64; 5] = [0.0, 1.5, 2.5, 10.5, 100.5];
/// The upper ends of the ratio bins 1 to 6.
pub(crate) const RATIO_ENDS: [f64; 6] = [0.1, 0.5, 1.0, 2.0, 10.0, 100.0];

/// Counts one finite pair that differs. `relative` is `None` where |r| <= 1e-3. The quotients come in the pair's arithmetic,
/// widened to f64; one that underflowed to 0 is counted in the first bin.
pub(crate) fn count(counters: &mut Counters, relative: Option<f64>, epsilon: f64, ratio: f64) {
    if let Some(x) = relative {
        counters[if x == 0.0 { 0 } else { 1 + RELATIVE_ENDS.iter().filter(|&&end| x >= end).count() }] += 1;
    }
    counters[RELATIVE.len() + EPSILON_ENDS.iter().filter(|&&end| epsilon >= end).count()] += 1;
    let bin = if ratio == 0.0 { 0 } else { 1 + RATIO_ENDS.iter().filter(|&&end| ratio > end).count() };
    counters[RELATIVE.len() + EPSILON.len() + bin] += 1;
}

/// Counts the equal pairs: the finite ones that [`count`] has not seen. Every differing pair is in one epsilon bin.
fn count_equal(counters: &mut Counters, finite: u64) {
    let differing: u64 = counters[RELATIVE.len()..RELATIVE.len() + EPSILON.len()].iter().sum();
    for first_bin in [0, RELATIVE.len(), RELATIVE.len() + EPSILON.len()] {
        counters[first_bin] += finite - differing;
    }
}

impl Histograms {
    /// From the counters of the pairs that differ, and the number of finite pairs.
    pub(crate) fn of(mut c: Counters, finite: u64) -> Histograms {
        count_equal(&mut c, finite);
        let (relative, rest) = c.split_at(RELATIVE.len());
        let (epsilon, ratio) = rest.split_at(EPSILON.len());
        let histogram = |measure, bins, counts: &[u64]| {
            let left_out = finite - counts.iter().sum::<u64>();
            Histogram { measure, bins, counts: counts.to_vec(), left_out }
        };
        Histograms {
            relative: histogram("relative difference (|r| > 1e-3)", &RELATIVE, relative),
            epsilon: histogram("epsilon difference", &EPSILON, epsilon),
            ratio: histogram("ratio to tolerance", &RATIO, ratio),
        }
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.bins.iter().copied().zip(self.counts.iter().copied());
        let rows: Vec<(&str, u64)> = rows.chain((self.left_out > 0).then_some((LEFT_OUT, self.left_out))).collect();
        let total: u64 = rows.iter().map(|(_, n)| n).sum();
        let width = rows.iter().map(|(_, n)| super::render::grouped(*n).len()).max().unwrap_or(1);
        write!(f, "  {}", self.measure)?;
        for (name, n) in rows {
            let share = if total == 0 { 0.0 } else { n as f64 / total as f64 };
            // One mark for any count above zero, the rest on a logarithmic scale: tails are what one looks for.
            let marks = if n == 0 { 0 } else { 1 + (f64::log10(n as f64) * 4.0) as usize };
            write!(f, "\n    {name:<13} {:>width$} {:>11.6} %  {}", super::render::grouped(n), share * 100.0, "#".repeat(marks))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the bins that count one pair that differs: relative, epsilon, ratio.
    fn bins_of(relative: Option<f64>, epsilon: f64, ratio: f64) -> [Vec<&'static str>; 3] {
        let mut counters = [0; BINS];
        count(&mut counters, relative, epsilon, ratio);
        let histograms = Histograms::of(counters, 1);
        [histograms.relative, histograms.epsilon, histograms.ratio].map(|h| {
            assert!(h.counts.iter().all(|&n| n <= 1), "{h:?}");
            h.bins.iter().zip(&h.counts).filter(|&(_, &n)| n == 1).map(|(&bin, _)| bin).collect()
        })
    }

    #[test]
    fn bins_hold_the_ends_that_their_names_say() {
        let before = f64::next_down;
        for (x, bin) in [
            (0.0, "0"),
            (f64::MIN_POSITIVE, "(0, 1e-6)"),
            (before(1e-6), "(0, 1e-6)"),
            (1e-6, "[1e-6, 1e-5)"),
            (before(1e-5), "[1e-6, 1e-5)"),
            (1e-5, "[1e-5, 1e-4)"),
            (before(1e-4), "[1e-5, 1e-4)"),
            (1e-4, "[1e-4, 1e-3)"),
            (before(1e-3), "[1e-4, 1e-3)"),
            (1e-3, "[1e-3, 1e-2)"),
            (before(1e-2), "[1e-3, 1e-2)"),
            (1e-2, "[1e-2, 0.1)"),
            (before(0.1), "[1e-2, 0.1)"),
            (0.1, "[0.1, 1)"),
            (before(1.0), "[0.1, 1)"),
            (1.0, ">= 1"),
            (f64::INFINITY, ">= 1"),
        ] {
            assert_eq!(bins_of(Some(x), 1.0, 1.0), [vec![bin], vec!["1"], vec!["(0.5, 1]"]], "relative difference {x:e}");
        }
        assert_eq!(bins_of(None, 1.0, 1.0), [vec![], vec!["1"], vec!["(0.5, 1]"]], "a reference too small for a relative difference");
        for (x, bin) in [
            (0.0, "1"),
            (0.25, "1"),
            (before(1.5), "1"),
            (1.5, "2"),
            (before(2.5), "2"),
            (2.5, "[3, 10]"),
            (before(10.5), "[3, 10]"),
            (10.5, "[11, 100]"),
            (before(100.5), "[11, 100]"),
            (100.5, "> 100"),
            (f64::INFINITY, "> 100"),
        ] {
            assert_eq!(bins_of(Some(1.0), x, 1.0), [vec![">= 1"], vec![bin], vec!["(0.5, 1]"]], "epsilon difference {x:e}");
        }
        for (x, bin) in [
            (0.0, "0"),
            (f64::MIN_POSITIVE, "(0, 0.1]"),
            (0.1, "(0, 0.1]"),
            (0.1f64.next_up(), "(0.1, 0.5]"),
            (0.5, "(0.1, 0.5]"),
            (0.5f64.next_up(), "(0.5, 1]"),
            (1.0, "(0.5, 1]"),
            (1f64.next_up(), "(1, 2]"),
            (2.0, "(1, 2]"),
            (2f64.next_up(), "(2, 10]"),
            (10.0, "(2, 10]"),
            (10f64.next_up(), "(10, 100]"),
            (100.0, "(10, 100]"),
            (100f64.next_up(), "> 100"),
            (f64::INFINITY, "> 100"),
        ] {
            assert_eq!(bins_of(Some(1.0), 1.0, x), [vec![">= 1"], vec!["1"], vec![bin]], "ratio {x:e}");
        }
    }

    #[test]
    fn equal_pairs_are_in_the_first_bins() {
        let mut counters = [0; BINS];
        count(&mut counters, Some(0.5), 3.0, 0.2);
        count(&mut counters, None, 1.0, 0.0);
        let h = Histograms::of(counters, 10);
        assert_eq!(h.relative.counts, [8, 0, 0, 0, 0, 0, 0, 1, 0], "one pair has no relative difference");
        assert_eq!([h.relative.left_out, h.epsilon.left_out, h.ratio.left_out], [1, 0, 0], "and is counted all the same");
        assert_eq!(h.epsilon.counts, [8, 1, 0, 1, 0, 0]);
        assert_eq!(h.ratio.counts, [9, 0, 1, 0, 0, 0, 0, 0], "a ratio that underflowed is beside the equal pairs");
    }

    #[test]
    fn bars_are_logarithmic_and_numbers_line_up() {
        let histogram =
            |counts: &[u64], left_out| Histogram { measure: "numbers", bins: &["0", "1", "2", "3"], counts: counts.to_vec(), left_out };
        for (counts, left_out, expected, reason) in [
            (
                [0, 1, 56, 1000],
                0,
                "  numbers\n    0                 0    0.000000 %  \n    1                 1    0.094607 %  #\n    \
                 2                56    5.298013 %  #######\n    3             1,000   94.607379 %  #############",
                "one mark for any count above zero, then four a power of ten, rounded down",
            ),
            (
                [1, 0, 0, 0],
                3,
                "  numbers\n    0             1   25.000000 %  #\n    1             0    0.000000 %  \n    \
                 2             0    0.000000 %  \n    3             0    0.000000 %  \n    |r| <= 1e-3   3   75.000000 %  ##",
                "percentages are of all pairs, those in no bin included",
            ),
            (
                [0; 4],
                0,
                "  numbers\n    0             0    0.000000 %  \n    1             0    0.000000 %  \n    \
                 2             0    0.000000 %  \n    3             0    0.000000 %  ",
                "nothing counted is 0 %",
            ),
        ] {
            assert_eq!(histogram(&counts, left_out).to_string(), expected, "{reason}");
        }
    }
}
