//! Elements that Freivalds' check judges one by one, since sums over their rows say nothing of them.
//!
//! An infinity, NaN and, in a format without infinity or of a kernel that saturates, the largest number may stand for any number beyond the format: such a result is right however far it lies from the exact one
//! ([the rule](crate::verify::bound)). Rows with operands that are not finite have no sums at all. The exact result of these elements is made from their own products, on the host; where that
//! would take more than [`MOST`] products, some of the rows are left out.

use super::contraction::Contraction;
use super::problem::Problem;
use super::products::{Source, Values};
use crate::device::TensorRef;
use crate::error::Result;
use crate::parallel;
use crate::reference::Arithmetic;
use crate::verify::bound::ElementRule;

/// Products that are made for single elements, at most: about two seconds on two cores.
pub(super) const MOST: usize = 1 << 25;

/// An element that was judged by itself.
pub(super) struct Single {
    pub row: usize,
    /// Its place in the row.
    pub position: usize,
    /// Its exact result.
    pub reference: f64,
    /// Error over bound.
    pub ratio: f64,
    /// Whether zero would pass in its place.
    pub zero_passes: bool,
    /// Whether it stands for a finite number beyond its format, as it may: whatever that number is.
    pub undecided: bool,
}

/// How many elements of each row of the result may stand for numbers beyond its format; `norms` are those of its rows.
pub(super) fn overflowed(
    contraction: &Contraction<'_, '_>,
    result: &TensorRef<'_>,
    rule: &ElementRule,
    norms: &[f64],
) -> Result<Vec<usize>> {
    let values = Values::of(result, false)?;
    let count = |row: usize| match !rule.saturates() && norms[row].is_finite() {
        // Nothing else would do where the largest number does not.
        true => 0,
        false => (0..contraction.extent()).filter(|&j| rule.overflowed(values.at(contraction.element(row, j)))).count(),
    };
    Ok(parallel::map(contraction.rows(), count))
}

/// The rows whose elements can be judged, of rows that need so many of them, `most` in all: every row, or some spread over the result.
pub(super) fn affordable(needed: &[usize], most: usize) -> Vec<usize> {
    let mut left = most;
    let rows: Vec<usize> = (0..needed.len()).filter(|&row| needed[row] > 0).collect();
    let all = rows.iter().fold(0usize, |all, &row| all.saturating_add(needed[row]));
    let step = all.div_ceil(left.max(1)).max(1);
    let mut taken = Vec::new();
    for row in (0..step.min(rows.len())).flat_map(|first| rows.iter().skip(first).step_by(step)) {
        if needed[*row] <= left {
            left -= needed[*row];
            taken.push(*row);
        }
    }
    taken.sort_unstable();
    taken
}

/// Judges elements of some rows: all of those that `whole` names, else those that may stand for numbers beyond the format.
pub(super) fn judged(
    problem: &Problem<'_>,
    contraction: &Contraction<'_, '_>,
    result: &TensorRef<'_>,
    (reads, rule): (Arithmetic, &ElementRule),
    rows: &[usize],
    whole: impl Fn(usize) -> bool,
) -> Result<Vec<Single>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let values = Values::of(result, false)?;
    let source = Source::of(problem, result.shape(), reads.exact().flush_subnormals)?;
    let least = problem.dtypes().map(|dtype| reads.least_magnitude(dtype));
    let (alpha, beta) = problem.scalars();
    let at = |row: usize, position: usize| values.at(contraction.element(row, position));
    let elements: Vec<(usize, usize)> = rows
        .iter()
        .flat_map(|&row| (0..contraction.extent()).map(move |position| (row, position)))
        .filter(|&(row, position)| whole(row) || rule.overflowed(at(row, position)))
        .collect();
    let single = |i: usize| {
        let (row, position) = elements[i];
        let index = contraction.element(row, position);
        let (sum, magnitude) = if alpha == 0.0 { (0.0, 0.0) } else { sums(&source, index, least) };
        let (c, bias) = (beta * source.c(index), source.bias(source.row_and_column(index).1));
        let (reference, s) = (alpha * sum + c + bias, alpha.abs() * magnitude + c.abs() + bias.abs());
        let (a, judge) = (at(row, position), |a: f64| rule.ratio(a, reference, s));
        let (ratio, zero_passes) = (judge(a), judge(0.0) <= 1.0);
        let undecided = ratio <= 1.0 && rule.overflowed(a) && rule.may_overflow(reference, s);
        Single { row, position, reference, ratio, zero_passes, undecided }
    };
    Ok(parallel::map(elements.len(), single))
}

/// Σab and Σ|a||b| of an element; factors that are not 0 count at least so much in the latter.
fn sums(source: &Source<'_>, index: usize, [least_a, least_b]: [f64; 2]) -> (f64, f64) {
    let products = source.right(index);
    let at_least = |x: f64, least: f64| if x == 0.0 { 0.0 } else { x.abs().max(least) };
    products
        .a
        .iter()
        .zip(&products.b)
        .fold((0.0, 0.0), |(sum, magnitude), (&a, &b)| (a.mul_add(b, sum), magnitude + at_least(a, least_a) * at_least(b, least_b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_judged_as_far_as_the_work_goes() {
        assert_eq!(affordable(&[0, 3, 0, 5], 8), [1, 3], "all");
        assert_eq!(affordable(&[8; 4], 16), [0, 2], "half of what there is: every second row");
        assert_eq!(affordable(&[17, 2, 0, 9], 16), [1, 3], "what does not fit is left out");
        assert_eq!(affordable(&[1, usize::MAX], 0), [0; 0], "nothing");
        assert_eq!(affordable(&[0, 0], 8), [0; 0], "no row has any");
    }
}
