//! Causes that put right values at wrong indices.
//!
//! Each is a map from the index of a result to the index of the reference that it should be compared with. A few mismatches choose the map, all of them
//! confirm it. A map is believed only if it explains far more than a map that nobody would write does: where a tensor repeats itself,
//! or a tolerance is wide, any map explains something.

use super::sample::Sample;
use super::{Cause, Hit, beyond_chance, most, most_of};

/// Mismatches that choose a map.
const CHOOSING: usize = 64;
/// Shifts that are tried, in rows and in columns.
const REACH: isize = 64;
/// Fewest mismatches that tell a displacement.
const LEAST: usize = 4;

/// A map that explains the mismatches.
pub(super) fn displaced(s: &Sample) -> Option<Hit> {
    if s.wrong.len() < LEAST {
        return None;
    }
    // An odd step, so that not all of them lie in one column.
    let step = s.wrong.len().div_ceil(CHOOSING) | 1;
    let choosing: Vec<usize> = s.wrong.iter().copied().step_by(step).collect();
    let maps = maps(s).into_iter().enumerate();
    maps.filter(|(_, map)| judged(s, &choosing, map).is_some()).find_map(|(before, map)| confirmed(s, &map, before + 1))
}

/// How many mismatches a map explains, and of how many, if most of those whose source it knows: shifted columns have no source beyond the row, and the
/// source may not have been looked at.
fn judged(s: &Sample, positions: &[usize], map: &Map) -> Option<(usize, usize)> {
    let source = |i: usize| map.source(s, s.index(i)).and_then(|index| s.position(index));
    let sources: Vec<(usize, usize)> = positions.iter().filter_map(|&i| Some((i, source(i)?))).collect();
    let order: Vec<usize> = (0..sources.len()).collect();
    let explained = most_of(&order, |k| s.explains(sources[k].0, s.reference[sources[k].1]))?;
    Some((explained, sources.len()))
}

/// The map as a cause, the last of so many that were tried, where it explains the mismatches and chance does not.
fn confirmed(s: &Sample, map: &Map, tried: usize) -> Option<Hit> {
    let all = s.wrong.len();
    let (explained, of) = judged(s, &s.wrong, map)?;
    let outside = s.wrong.iter().filter(|&&i| map.source(s, s.index(i)).is_none());
    let (further, anything): (Vec<usize>, Vec<usize>) = outside.partition(|&&i| map.is_further_on(s, i));
    let (explained, of) = (explained + further.len(), of + further.len());
    // What lies at an edge, and may be anything, is the smaller part.
    let enough = 2 * of >= all && 4 * anything.len() <= all;
    let chance = s.chance(|i, other| s.explains(i, s.reference[other]));
    let enough = enough && (!matches!(map, Map::Reverse { .. }) || holds_everywhere(s, map));
    (enough && beyond_chance((explained, of), chance, tried)).then(|| Hit { cause: map.cause(s), explained })
}

/// Whether a map agrees with most elements, mismatches or not.
fn holds_everywhere(s: &Sample, map: &Map) -> bool {
    let source = |i: usize| map.source(s, s.index(i)).and_then(|index| s.position(index)).map(|j| s.reference[j]);
    let elements: Vec<usize> = (0..s.len()).collect();
    most_of(&elements, |i| source(i).is_none_or(|r| (s.result[i] - r).abs() <= s.slack(i, r))).is_some()
}

/// Where a result's value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Map {
    /// So many elements further on: within the row, or by whole rows and around the end.
    Shift(isize),
    /// From the last two dimensions exchanged, written as if they were not.
    Transpose,
    /// The inverse.
    TransposeBack,
    /// The column with these bits of its number turned round.
    Exchange(usize),
    /// The opposite order, of the tensor or of each row.
    Reverse { rows: bool },
    /// The first row, or the first column, everywhere.
    Repeat { rows: bool },
}

/// Every map that the shape has, the likely ones first.
fn maps(s: &Sample) -> Vec<Map> {
    let (columns, elements) = (s.columns(), s.elements());
    let rows = elements / columns;
    let mut maps = Vec::new();
    if columns > 1 && rows > 1 {
        maps.extend([Map::Transpose, Map::TransposeBack, Map::Repeat { rows: true }, Map::Repeat { rows: false }]);
    }
    let planes = s.shape.iter().rev().scan(1, |stride, extent| {
        *stride *= extent;
        Some(*stride as isize)
    });
    let steps: Vec<isize> = std::iter::once(1).chain(planes).collect();
    let shifts = (1..=REACH).flat_map(|k| steps.iter().flat_map(move |step| [k * step, -k * step]));
    maps.extend(shifts.filter(|by| by.unsigned_abs() < elements).map(Map::Shift));
    maps.extend([Map::Reverse { rows: false }, Map::Reverse { rows: true }]);
    maps.extend([1, 2, 4, 8, 16, 32, 3, 7, 15, 31, 63].into_iter().filter(|&bits| bits < columns).map(Map::Exchange));
    maps
}

impl Map {
    fn source(self, s: &Sample, index: usize) -> Option<usize> {
        let (columns, elements) = (s.columns(), s.elements());
        let (row, column) = (index / columns, index % columns);
        let rows = s.shape.iter().rev().nth(1).copied().unwrap_or(1);
        let (matrix, within) = (index - index % (rows * columns), index % (rows * columns));
        let source = match self {
            // Of a shift by less than a row the last columns may be anything.
            Map::Shift(by) if by.unsigned_abs() < columns => column.checked_add_signed(by).filter(|c| *c < columns)? + row * columns,
            Map::Shift(by) => (index as isize + by).rem_euclid(elements as isize) as usize,
            // The last columns may have no partner.
            Map::Exchange(bits) => Some(column ^ bits).filter(|c| *c < columns)? + row * columns,
            Map::Transpose => matrix + within % rows * columns + within / rows,
            Map::TransposeBack => matrix + within % columns * rows + within / columns,
            Map::Reverse { rows: false } => elements - 1 - index,
            Map::Reverse { rows: true } => row * columns + columns - 1 - column,
            Map::Repeat { rows: true } => matrix + column,
            Map::Repeat { rows: false } => index - column,
        };
        Some(source)
    }

    /// Whether what a shift has no source for within the row comes from the next one, as it does where an address is wrong.
    fn is_further_on(self, s: &Sample, position: usize) -> bool {
        let Map::Shift(by) = self else { return false };
        let index = (s.index(position) as isize + by).rem_euclid(s.elements() as isize);
        s.position(index as usize).is_some_and(|source| s.explains(position, s.reference[source]))
    }

    fn cause(self, s: &Sample) -> Cause {
        match self {
            Map::Shift(by) => {
                let (dimension, by) = along(&s.shape, by);
                Cause::Shifted { dimension, by }
            }
            Map::Transpose | Map::TransposeBack => Cause::Transposed,
            Map::Exchange(mask) => Cause::Exchanged { mask },
            Map::Reverse { rows } => Cause::Reversed { rows },
            Map::Repeat { rows } => Cause::Repeated { rows },
        }
    }
}

/// A shift by so many elements as one along the outermost dimension that can be meant.
pub(super) fn along(shape: &[usize], by: isize) -> (usize, isize) {
    let mut stride = shape.iter().product::<usize>() as isize;
    for (dimension, &extent) in shape.iter().enumerate() {
        stride /= extent as isize;
        if extent > 1 && by % stride == 0 && by != 0 {
            return (dimension, by / stride);
        }
    }
    (shape.len() - 1, by)
}

/// The mismatches hold the values of their references, in an order that no map has.
pub(super) fn permuted(s: &Sample) -> Option<Hit> {
    if s.wrong.len() < 8 * LEAST {
        return None;
    }
    most_of(&s.wrong, |i| (s.result[i] - s.reference[i]).abs() > 4.0 * s.slack(i, s.reference[i]))?;
    let sorted = |of: &[f64]| {
        let mut positions = s.wrong.clone();
        positions.sort_unstable_by(|&i, &j| of[i].total_cmp(&of[j]));
        positions
    };
    let (a, r) = (sorted(&s.result), sorted(&s.reference));
    let near = |(&i, &j): (&usize, &usize)| (s.result[i] - s.reference[j]).abs() <= s.slack(j, s.reference[j]);
    let explained = a.iter().zip(&r).filter(|&pair| near(pair)).count();
    // Numbers as dense as the slack is wide fit any others.
    let by_chance = a.iter().zip(r.iter().skip(1)).filter(|&pair| near(pair)).count();
    (most(explained, a.len()) && 2 * by_chance < explained).then_some(Hit { cause: Cause::Permuted, explained })
}
