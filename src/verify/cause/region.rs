//! Where mismatches lie: a box of coordinates, or the same lanes of each group.

use super::sample::Sample;
use std::fmt;

/// Coordinates that all mismatches share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Region {
    /// From a first to a last coordinate in each dimension; `elements` of them in all.
    Box {
        /// First and last coordinate of each dimension.
        ranges: Vec<[usize; 2]>,
        /// Extents of the tensor.
        shape: Vec<usize>,
    },
    /// The coordinates of one dimension that are `first..=last` of each group of `period`.
    Periodic {
        /// The dimension; `None` for the row-major index.
        dimension: Option<usize>,
        /// Coordinates of a group.
        period: usize,
        /// The first of them.
        first: usize,
        /// The last of them.
        last: usize,
        /// Dimensions of the tensor.
        rank: usize,
    },
}

/// Group sizes that hardware and tiles have.
const GROUPS: [usize; 8] = [4, 8, 16, 32, 64, 128, 256, 512];
/// A region holds at most this share of the elements looked at.
const SMALL: f64 = 0.5;
/// At least this share of its elements are mismatches, where there are more than a few.
const DENSE: f64 = 0.25;

impl Region {
    /// The region of the mismatches; `None` where they are spread over the tensor.
    pub(super) fn of(s: &Sample) -> Option<Region> {
        if s.wrong.is_empty() || s.wrong.len() as f64 > SMALL * s.len() as f64 {
            return None;
        }
        let fits = |(region, inside): &(Region, usize), least: usize| {
            let (inside, wrong) = (*inside as f64, s.wrong.len());
            (inside <= SMALL * s.len() as f64 && wrong as f64 >= DENSE * inside && wrong >= least).then(|| region.clone())
        };
        fits(&Region::boxed(s), 1).or_else(|| lanes(s).iter().find_map(|found| fits(found, 4)))
    }

    /// The least box that holds the mismatches, and how many elements it holds.
    fn boxed(s: &Sample) -> (Region, usize) {
        let whole = |positions: &mut dyn Iterator<Item = usize>| {
            let mut ranges = vec![[usize::MAX, 0]; s.shape.len()];
            let mut at = vec![0; s.shape.len()];
            for i in positions {
                s.coordinates(s.index(i), &mut at);
                ranges.iter_mut().zip(&at).for_each(|([low, high], &c)| (*low, *high) = ((*low).min(c), (*high).max(c)));
            }
            ranges
        };
        let mut ranges = whole(&mut s.wrong.iter().copied());
        // What was not looked at may hold mismatches as well.
        let seen = if s.is_whole() { s.shape.iter().map(|n| [0, n - 1]).collect() } else { whole(&mut (0..s.len())) };
        for ((range, seen), &extent) in ranges.iter_mut().zip(&seen).zip(&s.shape) {
            *range = [if range[0] == seen[0] { 0 } else { range[0] }, if range[1] == seen[1] { extent - 1 } else { range[1] }];
        }
        let region = Region::Box { ranges, shape: s.shape.clone() };
        let mut at = vec![0; s.shape.len()];
        let inside = (0..s.len()).filter(|&i| region.holds(s, i, &mut at)).count();
        (region, inside)
    }

    /// Where the mismatches lie, however large that is: the box or the lanes that hold fewest other elements.
    pub(super) fn around(s: &Sample) -> Region {
        let (region, inside) = Region::boxed(s);
        let fewer = lanes(s).into_iter().filter(|(_, of_lanes)| *of_lanes < inside).min_by_key(|(_, inside)| *inside);
        fewer.map_or(region, |(lanes, _)| lanes)
    }

    /// Whether an element lies in it; `at` takes its coordinates.
    pub(super) fn holds(&self, s: &Sample, position: usize, at: &mut [usize]) -> bool {
        let index = s.index(position);
        s.coordinates(index, at);
        match self {
            Region::Box { ranges, .. } => ranges.iter().zip(&*at).all(|([low, high], c)| (low..=high).contains(&c)),
            Region::Periodic { dimension, period, first, last, .. } => {
                let c = dimension.map_or(index, |d| at[d]);
                (*first..=*last).contains(&(c % period))
            }
        }
    }
}

/// The runs of lanes that hold all mismatches and the fewest other elements, of columns and of all elements, and how many they hold.
fn lanes(s: &Sample) -> Vec<(Region, usize)> {
    let columns = s.columns();
    let mut at = vec![0; s.shape.len()];
    let coordinates: Vec<usize> = (0..s.len())
        .map(|i| {
            s.coordinates(s.index(i), &mut at);
            at.last().copied().unwrap_or(0)
        })
        .collect();
    let index: Vec<usize> = (0..s.len()).map(|i| s.index(i)).collect();
    let dimension = (s.shape.len() > 1).then(|| s.shape.len() - 1);
    let found = |coordinates: &[usize], extent: usize, dimension: Option<usize>| {
        let wrong: Vec<usize> = s.wrong.iter().map(|&i| coordinates[i]).collect();
        let step = wrong.iter().fold(0, |g, c| gcd(g, c.abs_diff(wrong[0])));
        let periods = std::iter::once(step).chain(GROUPS).filter(|&p| p > 1 && 2 * p <= extent);
        let lanes = |period: usize| {
            let lanes = wrong.iter().map(|c| c % period);
            let (first, last) = (lanes.clone().min()?, lanes.max()?);
            let inside = coordinates.iter().filter(|&c| (first..=last).contains(&(c % period))).count();
            Some((Region::Periodic { dimension, period, first, last, rank: s.shape.len() }, inside))
        };
        // The fewest elements, and of groups that hold as many the smallest.
        periods.filter_map(lanes).min_by_key(|(_, inside)| *inside)
    };
    [found(&coordinates, columns, dimension), found(&index, s.elements(), None)].into_iter().flatten().collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What a dimension is called: rows and columns where there are two.
pub(super) fn dimension_name(rank: usize, dimension: usize, plural: bool) -> String {
    let s = if plural { "s" } else { "" };
    match (rank, dimension) {
        (2, 0) => format!("row{s}"),
        (2, 1) => format!("column{s}"),
        (1, _) => format!("element{s}"),
        (_, d) => format!("dimension {d} at"),
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Region::Box { ranges, shape } => {
                let restricted = ranges.iter().zip(shape).enumerate().filter(|(_, (r, n))| **r != [0, **n - 1]);
                for (k, (d, (&[low, high], &extent))) in restricted.enumerate() {
                    let name = dimension_name(shape.len(), d, high > low);
                    let comma = if k > 0 { ", " } else { "" };
                    match high - low + 1 {
                        1 => write!(f, "{comma}{name} {low}")?,
                        n if high + 1 == extent => write!(f, "{comma}{name} {low} to {high}, the last {n} of {extent}")?,
                        _ => write!(f, "{comma}{name} {low} to {high}")?,
                    }
                }
                Ok(())
            }
            Region::Periodic { dimension, period, first, last, rank } => {
                // Without a dimension the row-major index is meant, as of one dimension.
                let (rank, dimension) = dimension.map_or((1, 0), |d| (*rank, d));
                let name = dimension_name(rank, dimension, first < last);
                match (first, last) {
                    (a, b) if a == b && rank > 2 => write!(f, "{name} {a} of each {period}"),
                    (a, b) if a == b => write!(f, "one {name} in {period}, from {a} on"),
                    (a, b) => write!(f, "{name} {a} to {b} of each {period}"),
                }
            }
        }
    }
}
