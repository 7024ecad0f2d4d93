//! Causes that lie in the terms of sums of products.
//!
//! An element of a product is a sum over k of a(i, k)·b(k, j). If some k are left out, added twice or taken from elsewhere, the *errors* are a
//! product of so few terms: a matrix of low rank, which chance is not. Where too many terms are wrong for that, their statistics remain: what is
//! missing from independent terms is not correlated with what is there.

use super::even::is_even;
use super::sample::Sample;
use super::{Cause, Hit, most};
use crate::dtype::spacing;
use std::collections::BTreeSet;

/// Rows and columns of the errors of which the rank is taken.
const SIDE: usize = 64;
/// Fewest rows and columns.
const LEAST: usize = 8;
/// How far the singular values of wrong terms lie above the next one, and those of rounding.
const GAP: f64 = 8.0;

/// The errors are a matrix of low rank, which the mismatches are made of.
pub(super) fn low_rank(s: &Sample) -> Option<Hit> {
    if !s.varies() {
        return None;
    }
    let block = block(s)?;
    let (rows, columns) = (block.len(), block[0].len());
    let errors: Vec<Vec<f64>> = block.iter().map(|row| row.iter().map(|&i| s.result[i] - s.reference[i]).collect()).collect();
    if errors.iter().flatten().any(|e| !e.is_finite()) {
        return None;
    }
    if !is_nearly_low(errors.clone()) {
        return None;
    }
    let noise = noise(s, &block);
    let axes = principal_axes(errors.clone());
    let values: Vec<f64> = axes.iter().map(|axis| norm(axis)).collect();
    let rank = values.iter().filter(|&&v| v > noise).count();
    let next = values.get(rank).copied().unwrap_or(0.0);
    // That of no more rows, or columns, than are wrong at all says nothing.
    let clear = rank > 0 && rank <= rows.min(columns) / 2 && rank < lines(s, &block) && values[rank - 1] > GAP * next.max(noise / 2.0);
    (clear && leaves_little(s, &block, &errors, &axes[..rank])).then_some(Hit::of_all(Cause::Terms { rank }))
}

/// The largest singular value that rounding alone may give the errors of a block.
fn noise(s: &Sample, block: &[Vec<usize>]) -> f64 {
    let (rows, columns) = (block.len() as f64, block[0].len() as f64);
    let squares = block.iter().flatten().map(|&i| {
        let r = s.reference[i];
        let half = [s.dtypes[0], s.dtypes[1]].map(|d| if d.is_int() { 0.0 } else { spacing(d, r) });
        (half[0] * half[0] + half[1] * half[1]) / 12.0
    });
    let rounding = (squares.sum::<f64>() / (rows * columns)).sqrt();
    // The largest singular value of rows x columns independent numbers is their deviation times this, or little more.
    rounding * (rows.sqrt() + columns.sqrt()) * roundings(s)
}

/// How much larger than one rounding of the result errors may be. Sums in f32 are rounded more often than once, which only shows in results that have as
/// many digits.
fn roundings(s: &Sample) -> f64 {
    if s.dtypes[0].float_format().is_some_and(|f| f.mantissa_bits > 10) { 32.0 } else { 3.0 }
}

/// Whether the part of the errors along these axes, which are orthogonal, is what most mismatches of a block are: without it they would be right, or
/// half as wrong at least. A few large errors give any matrix a low rank beside which all others are small.
fn leaves_little(s: &Sample, block: &[Vec<usize>], errors: &[Vec<f64>], axes: &[Vec<f64>]) -> bool {
    let wrong: BTreeSet<usize> = s.wrong.iter().copied().collect();
    let (mut mismatches, mut explained) = (0, 0);
    for (positions, errors) in block.iter().zip(errors) {
        let mut left = errors.clone();
        for axis in axes {
            let along = dot(errors, axis) / dot(axis, axis);
            left.iter_mut().zip(axis).for_each(|(x, a)| *x -= along * a);
        }
        for ((i, e), left) in positions.iter().zip(errors).zip(left).filter(|((i, _), _)| wrong.contains(i)) {
            let near = roundings(s) * s.slack(*i, s.reference[*i]);
            mismatches += 1;
            explained += usize::from(left.abs() <= near && left.abs() <= e.abs() / 2.0);
        }
    }
    most(explained, mismatches)
}

/// Rows of a matrix that have mismatches, or columns, whichever are fewer.
fn lines(s: &Sample, block: &[Vec<usize>]) -> usize {
    let wrong: BTreeSet<usize> = s.wrong.iter().copied().collect();
    let rows = block.iter().filter(|row| row.iter().any(|i| wrong.contains(i))).count();
    let columns = (0..block[0].len()).filter(|&j| block.iter().any(|row| wrong.contains(&row[j]))).count();
    rows.min(columns)
}

/// Positions of a matrix: of the one that holds the first mismatch, rows and columns in equal steps. `None` where it is too small, or mismatches are
/// few in it, which a few rows or columns explain as well.
fn block(s: &Sample) -> Option<Vec<Vec<usize>>> {
    let first = s.index(*s.wrong.first()?);
    // Dimensions of extent 1 are none; of more than two the leading ones count matrices, if that leaves rows enough.
    let extents: Vec<usize> = s.shape.iter().copied().filter(|&n| n > 1).collect();
    let (&columns, outer) = extents.split_last()?;
    let (&rows, _) = outer.split_last()?;
    let matrix = first - first % (rows * columns);
    let steps = |extent: usize| (0..extent.min(SIDE)).map(move |k| k * extent / extent.min(SIDE));
    let row = |i: usize| steps(columns).map(|j| s.position(matrix + i * columns + j)).collect::<Option<Vec<usize>>>();
    let block: Vec<Vec<usize>> = steps(rows).filter_map(row).collect();
    let wrong: BTreeSet<usize> = s.wrong.iter().copied().collect();
    let held = block.iter().flatten().filter(|i| wrong.contains(i)).count();
    (block.len() >= LEAST && columns >= LEAST && 4 * held >= block.len() * block[0].len()).then_some(block)
}

/// Whether Gaussian elimination with complete pivoting leaves little after half of its steps: what singular values, which cost far more, may confirm.
fn is_nearly_low(mut a: Vec<Vec<f64>>) -> bool {
    let largest = |a: &[Vec<f64>], from: usize| {
        let all = (from..a.len()).flat_map(|i| (from..a[0].len()).map(move |j| (i, j)));
        all.fold((from, from), |(p, q), (i, j)| if a[i][j].abs() > a[p][q].abs() { (i, j) } else { (p, q) })
    };
    let (p, q) = largest(&a, 0);
    let first = a[p][q].abs();
    let half = a.len().min(a[0].len()) / 2;
    for k in 0..half {
        let (p, q) = largest(&a, k);
        a.swap(k, p);
        a.iter_mut().for_each(|row| row.swap(k, q));
        let (done, rest) = a.split_at_mut(k + 1);
        let pivot = &done[k];
        if pivot[k] == 0.0 {
            return true;
        }
        for row in rest {
            let factor = row[k] / pivot[k];
            row[k..].iter_mut().zip(&pivot[k..]).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let (p, q) = largest(&a, half);
    8.0 * a[p][q].abs() < first
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// The right singular vectors of a matrix, each times its singular value, the largest first: its rows after Jacobi rotations until they are orthogonal.
fn principal_axes(mut rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for _ in 0..30 {
        let mut turned = false;
        for p in 0..rows.len() {
            for q in p + 1..rows.len() {
                let (pp, qq, pq) = (dot(&rows[p], &rows[p]), dot(&rows[q], &rows[q]), dot(&rows[p], &rows[q]));
                if pq.abs() <= 1e-12 * (pp * qq).sqrt() {
                    continue;
                }
                turned = true;
                let zeta = (qq - pp) / (2.0 * pq);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let (head, tail) = rows.split_at_mut(q);
                for (x, y) in head[p].iter_mut().zip(&mut tail[0]) {
                    (*x, *y) = (c * *x - c * t * *y, c * t * *x + c * *y);
                }
            }
        }
        if !turned {
            break;
        }
    }
    rows.sort_by(|a, b| norm(b).total_cmp(&norm(a)));
    rows
}

/// A share of the terms is missing or added twice, too many for [`low_rank`].
pub(super) fn share(s: &Sample) -> Option<Hit> {
    // Where a function follows the sums, such as a ReLU, the variances are not those of sums.
    let zeros = (0..s.len()).filter(|&i| s.reference[i] == 0.0).count();
    let all: Vec<usize> = (0..s.len()).filter(|&i| (s.result[i] - s.reference[i]).is_finite() && s.reference[i].is_finite()).collect();
    if all.len() < 256 || 2 * s.wrong.len() < all.len() || s.dtypes[0].is_int() || 20 * zeros > all.len() {
        return None;
    }
    let moments = Moments::of(s, &all);
    let (share, chance) = (moments.share(), moments.chance());
    let clear = share > 1.0 / 64.0 && share < 0.95 && chance < 1.0 / 16.0;
    let right = moments.are_of_terms(0.15) && (moments.of_means() - 1.0).abs() < 0.15;
    (clear && right && moments.hold_without_outliers(s, &all) && is_even(s))
        .then_some(Hit::of_all(Cause::Share { share, twice: moments.common < 0.0 }))
}

/// Means, variances and the covariance of what is missing from results, and of their references.
struct Moments {
    elements: f64,
    mean: f64,
    mean_reference: f64,
    variance: f64,
    variance_reference: f64,
    common: f64,
}

impl Moments {
    fn of(s: &Sample, positions: &[usize]) -> Moments {
        let elements = positions.len() as f64;
        let mean = |of: &dyn Fn(usize) -> f64| positions.iter().map(|&i| of(i)).sum::<f64>() / elements;
        let error = |i: usize| s.reference[i] - s.result[i];
        let (e, r) = (mean(&error), mean(&|i| s.reference[i]));
        Moments {
            elements,
            mean: e,
            mean_reference: r,
            variance: mean(&|i| (error(i) - e) * (error(i) - e)),
            variance_reference: mean(&|i| (s.reference[i] - r) * (s.reference[i] - r)),
            common: mean(&|i| (error(i) - e) * (s.reference[i] - r)),
        }
    }

    fn share(&self) -> f64 {
        self.variance / self.variance_reference
    }

    /// How far chance moves the ratio of covariance and variance.
    fn chance(&self) -> f64 {
        (1.0 / (self.share() * self.elements)).sqrt()
    }

    /// Whether errors have the variance that they have in common with the whole, as independent terms have, within at most this.
    fn are_of_terms(&self, within: f64) -> bool {
        (self.common.abs() / self.variance - 1.0).abs() < (4.0 * self.chance()).clamp(0.05, within)
    }

    /// The share by the means over that by the variances, where references have a mean to speak of.
    fn of_means(&self) -> f64 {
        let tells = self.mean_reference * self.mean_reference > self.variance_reference;
        if tells { (self.mean / self.mean_reference).abs() / self.share() } else { 1.0 }
    }

    /// Whether the same is true of the nine tenths with the smaller errors. Of independent terms the mean of the whole is what is missing, plus a
    /// constant, however much is missing; where a few large references were clamped, it is that of those alone.
    fn hold_without_outliers(&self, s: &Sample, positions: &[usize]) -> bool {
        let off = |i: &usize| (s.reference[*i] - s.result[*i] - self.mean).abs();
        let mut inner = positions.to_vec();
        let kept = inner.len() - inner.len() / 10;
        inner.select_nth_unstable_by(kept - 1, |i, j| off(i).total_cmp(&off(j)));
        inner.truncate(kept);
        let inner = Moments::of(s, &inner);
        inner.chance() < 1.0 / 8.0 && (inner.common < 0.0) == (self.common < 0.0) && inner.are_of_terms(0.3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_values_of_matrices_that_have_known_ones() {
        for (rows, expected, reason) in [
            (vec![vec![3.0, 0.0], vec![0.0, -5.0]], vec![5.0, 3.0], "diagonal"),
            (vec![vec![1.0, 1.0], vec![1.0, 1.0]], vec![2.0, 0.0], "rank 1"),
            (vec![vec![2.0, 2.0, 1.0], vec![-2.0, 1.0, 2.0]], vec![3.0, 3.0], "orthogonal rows"),
            (vec![vec![0.0; 3]; 2], vec![0.0, 0.0], "zeros"),
            (
                vec![vec![4.0, 0.0], vec![3.0, -5.0]],
                vec![40f64.sqrt(), 10f64.sqrt()],
                "by hand: A times its transpose has eigenvalues 40 and 10",
            ),
        ] {
            let found: Vec<f64> = principal_axes(rows).iter().map(|axis| norm(axis)).collect();
            assert!(found.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-9), "{reason}: {found:?}");
        }
    }
}
