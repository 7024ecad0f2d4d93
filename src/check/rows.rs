//! What Freivalds' check finds of each row of a result.

use super::Check;
use super::contraction::Contraction;
use super::copied::Copied;
use super::one_by_one::{self, Single};
use crate::device::{DeviceMem, Layout, TensorRef};
use crate::error::Result;
use crate::fill::FillNormalRand;
use crate::matrix_core::Model;
use crate::reference::Arithmetic;
use crate::verify::Verdict;
use crate::verify::bound::{Bound, ElementRule};

/// The seed of the vectors: the same on every device, and nothing that a kernel could know of.
const SEED: u64 = 0x0046_7265_6976_616c;

/// A row of the result.
pub(super) struct Row {
    /// The largest ratio of difference to threshold, and of error to bound of elements that were judged one by one; up to 1 passes.
    pub ratio: f64,
    /// What its difference may be; NaN where operands that are not finite leave no sums.
    pub threshold: f64,
    /// The norm of its elements, without those that were judged one by one.
    pub norm: f64,
    /// Whether it was not judged.
    pub left_out: bool,
    /// Whether its sums say anything.
    linear: bool,
    /// Elements that are to be judged one by one.
    needed: usize,
    /// Whether it is not zero.
    nonzero: bool,
    /// Whether zeros would pass in its place.
    zeros_pass: bool,
}

impl Row {
    pub(super) fn fails(&self) -> bool {
        self.ratio > 1.0
    }

    /// Takes an element that was judged by itself. What it shows is not shown of the others of its row: where sums say something of these, they alone say whether zeros would pass there.
    fn add(&mut self, single: &Single) {
        self.left_out = false;
        self.ratio = self.ratio.max(single.ratio);
        self.nonzero |= single.reference.is_finite() && single.reference != 0.0;
        if !self.linear {
            self.zeros_pass &= single.zero_passes || single.undecided || !single.reference.is_finite();
        }
    }
}

/// What was found of a result.
pub(super) struct Found {
    pub rows: Vec<Row>,
    /// Elements that were judged one by one.
    pub singles: u64,
    /// Of these, those that pass whatever the exact number is.
    pub undecided: u64,
    /// Of these, those whose exact result is not finite: they have no size that could be wrong.
    pub not_finite: u64,
}

impl Found {
    /// The verdict on a result of rows of so many elements.
    pub(super) fn verdict(&self, extent: usize) -> Verdict {
        let count = |of: &dyn Fn(&Row) -> bool| self.rows.iter().filter(|row| of(row)).count();
        let nonzero = |row: &Row| row.nonzero && !row.left_out;
        let zeros_pass = 2 * count(&|row| nonzero(row) && row.zeros_pass) >= count(&nonzero);
        if self.rows.iter().any(Row::fails) {
            Verdict::Fail
        } else if zeros_pass || count(&|row| row.left_out) > 0 || blind(self.undecided + self.not_finite, self.rows.len() * extent) {
            Verdict::Untrusted
        } else {
            Verdict::Pass
        }
    }
}

/// Whether so many elements pass whatever the exact number is, or have none, that a pass says nothing.
pub(super) fn blind(blind: u64, elements: usize) -> bool {
    blind > 0 && 2 * blind >= elements as u64
}

impl Check<'_> {
    /// What is found by so many vectors, and with so many products for elements that are judged one by one.
    pub(super) fn rows(
        &self,
        contraction: &Contraction<'_, '_>,
        models: &[Model],
        (vectors, lambda): (usize, f64),
        products: usize,
    ) -> Result<Found> {
        let (n, terms) = (contraction.extent(), self.problem.terms());
        let (reads, bound) = (self.reads(models), self.bound_of(models, self.confidence)?);
        let rule = ElementRule::new(&bound, self.result.dtype(), self.overflow)?;
        // Of norms, which say nothing of single elements' binades.
        let bound = bound.by_coefficients();
        let mut norms = contraction.norms(&self.result)?;
        let overflowed = one_by_one::overflowed(contraction, &self.result, &rule, &norms)?;
        let mut result = self.result.clone();
        let copy;
        if overflowed.iter().any(|n| *n > 0) {
            copy = Copied::without(&self.result, |x| rule.overflowed(x))?;
            result = copy.tensor()?;
            norms = contraction.norms(&result)?;
        }
        let added = self.magnitudes_of_rows(contraction, reads)?;
        let mut sums = self.sums(contraction, &result, reads, vectors)?;
        let rounding = (n + terms + 8) as f64 * f64::EPSILON * sums.largest_norm();
        let bounded = bound.relative < 1.0 && [bound.gamma, bound.floor].iter().all(|x| *x < f64::INFINITY);
        let row = |row: usize| {
            let (norm, threshold) = (norms[row], threshold(&bound, [added[row], norms[row]], n, lambda, rounding));
            // Operands that are not finite leave neither.
            let linear = sums.of(row).iter().all(|d| d.is_finite()) && (threshold.is_finite() || !bounded);
            let needed = if linear { overflowed[row] } else { n };
            // Of the exact row as well: a wrong result may be larger than what zeros are judged by.
            let size = norm.min(sums.norm_of_exact(row));
            let (nonzero, zeros_pass) = (linear && norm > 0.0, !linear || size <= threshold);
            let threshold = if linear { threshold } else { f64::NAN };
            Row { ratio: 0.0, threshold, norm, left_out: needed > 0, linear, needed, nonzero, zeros_pass }
        };
        let mut rows: Vec<Row> = (0..contraction.rows()).map(row).collect();
        let needed: Vec<usize> = rows.iter().map(|row| row.needed).collect();
        let affordable = one_by_one::affordable(&needed, products / terms.max(1));
        let whole = |row: usize| !rows[row].linear;
        let singles = one_by_one::judged(&self.problem, contraction, &self.result, (reads, &rule), &affordable, whole)?;
        for single in &singles {
            rows[single.row].add(single);
            sums.replace(single);
        }
        for (number, row) in rows.iter_mut().enumerate().filter(|(_, row)| row.linear && !row.left_out) {
            row.ratio = row.ratio.max(sums.ratio(number, row.threshold));
        }
        let count = |of: fn(&Single) -> bool| singles.iter().filter(|single| of(single)).count() as u64;
        let (undecided, not_finite) = (count(|single| single.undecided), count(|single| !single.reference.is_finite()));
        Ok(Found { rows, singles: singles.len() as u64, undecided, not_finite })
    }

    /// D·X, and alpha·A·(B·X) + beta·C·X + bias·X.
    fn sums(&self, contraction: &Contraction<'_, '_>, result: &TensorRef<'_>, reads: Arithmetic, vectors: usize) -> Result<Sums> {
        let n = contraction.extent();
        let mut memory = DeviceMem::<f64>::new(self.problem.device(), n * vectors)?;
        memory.fill(&FillNormalRand::new(0.0, 1.0).seed(SEED))?;
        let x = memory.tensor(&[n, vectors])?;
        let of_result = contraction.of_result(result, &x)?;
        let mut exact = vec![0.0; of_result.len()];
        let (alpha, _) = self.problem.scalars();
        // An alpha of 0 takes nothing of the operands, infinities included.
        if alpha != 0.0 {
            exact.iter_mut().zip(contraction.of_exact(reads, &x)?).for_each(|(exact, e)| *exact = alpha * e);
        }
        for (tensor, factor) in self.added()? {
            let more = contraction.of_result(&tensor, &x)?;
            // A matrix serves every one of a batch, and a bias every row.
            exact.iter_mut().enumerate().for_each(|(i, e)| *e += factor * more[i % more.len()]);
        }
        let differences = of_result.iter().zip(&exact).map(|(d, e)| d - e).collect();
        Ok(Sums { differences, exact, x: memory.to_vec()?, vectors })
    }

    /// C and the bias, as a matrix of one row, with their factors.
    fn added(&self) -> Result<Vec<(TensorRef<'_>, f64)>> {
        let mut added = Vec::new();
        if let Some(product) = self.problem.product() {
            added.extend(product.c.as_ref().map(|c| (c.clone(), product.beta)));
            if let Some(bias) = &product.bias {
                let layout = Layout::strided(&[1, bias.elements()], &[0, bias.layout().strides()[0]], bias.layout().offset())?;
                added.push((bias.view(layout)?, 1.0));
            }
        }
        Ok(added)
    }

    /// For each row a bound of the norm of the magnitudes of what is added.
    fn magnitudes_of_rows(&self, contraction: &Contraction<'_, '_>, reads: Arithmetic) -> Result<Vec<f64>> {
        let (alpha, _) = self.problem.scalars();
        let mut added: Vec<f64> = match alpha {
            0.0 => vec![0.0; contraction.rows()],
            _ => contraction.magnitudes(reads)?.into_iter().map(|x| alpha.abs() * x).collect(),
        };
        for (tensor, factor) in self.added()? {
            let more = contraction.norms(&tensor)?;
            added.iter_mut().enumerate().for_each(|(i, x)| *x += factor.abs() * more[i % more.len()]);
        }
        Ok(added)
    }
}

/// What the difference of a row may be, whose magnitudes and elements have these norms. `rounding` is what f64 loses of the difference itself, a magnitude.
fn threshold(bound: &Bound, [added, d]: [f64; 2], n: usize, lambda: f64, rounding: f64) -> f64 {
    if bound.relative >= 1.0 {
        return f64::INFINITY;
    }
    let norm = (bound.gamma * added + bound.relative * d + bound.floor * (n as f64).sqrt()) / (1.0 - bound.relative);
    lambda * norm + rounding * (added + d)
}

/// Sums of rows with random vectors.
struct Sums {
    /// What is left of each row and vector, rows first.
    differences: Vec<f64>,
    /// What was to be expected of them, with 0 for elements that are not finite.
    exact: Vec<f64>,
    /// The vectors, elements first.
    x: Vec<f64>,
    vectors: usize,
}

impl Sums {
    fn of(&self, row: usize) -> &[f64] {
        &self.differences[row * self.vectors..][..self.vectors]
    }

    /// The norm of the exact row, estimated: its products with normal numbers have its square as their mean square.
    fn norm_of_exact(&self, row: usize) -> f64 {
        let exact = &self.exact[row * self.vectors..][..self.vectors];
        (exact.iter().map(|e| e * e).sum::<f64>() / self.vectors as f64).sqrt()
    }

    /// The largest norm of a vector.
    fn largest_norm(&self) -> f64 {
        let norm = |v: usize| self.x.iter().skip(v).step_by(self.vectors).map(|x| x * x).sum::<f64>().sqrt();
        (0..self.vectors).map(norm).fold(0.0, f64::max)
    }

    /// Puts the exact result of an element in the place of a zero.
    fn replace(&mut self, single: &Single) {
        let x = &self.x[single.position * self.vectors..][..self.vectors];
        let row = &mut self.differences[single.row * self.vectors..][..self.vectors];
        row.iter_mut().zip(x).for_each(|(d, x)| *d += single.reference * x);
    }

    /// The largest difference of a row over its threshold; infinite where that is no number.
    fn ratio(&self, row: usize, threshold: f64) -> f64 {
        let worst = self.of(row).iter().fold(0.0, |worst: f64, d| if d.abs() <= worst { worst } else { d.abs() });
        let ratio = if worst == 0.0 { 0.0 } else { worst / threshold };
        if ratio.is_finite() { ratio } else { f64::INFINITY }
    }
}
