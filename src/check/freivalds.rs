//! Freivalds' check of products that are too large to be made again: D·X against alpha·A·(B·X) + beta·C·X + bias·X for a few random vectors X, and what that is of a
//! [convolution](super::contraction).
//!
//! It costs as much as reading the matrices a few times (Freivalds, 1977; with Gaussian vectors, Ji and others, arXiv 1705.10449). X is normally distributed and knows nothing of the errors e
//! of a row, so that Σ e_j x_j is normal with the standard deviation ‖e‖:
//!
//! * where every |e_j| is within its bound b_j, it exceeds T = λ ‖b‖ with a probability of at most 2 exp(-λ² / 2). λ is such that the sum of these over rows and vectors is what a caller
//!   allows. ‖b‖ needs one more vector only: the root of Σ_j S_ij² is at most Σ_k |a_ik| ‖B_k‖, so that ‖b‖ <= γ (|alpha| Σ_k |a_ik| ‖B_k‖ + |beta| ‖C_i‖ + ‖bias‖) + relative ‖D_i‖ + floor √n,
//!   over 1 - relative since D stands for the reference;
//! * an error of a row with ‖e‖ = s T is missed by one vector with the probability erf(1 / (s √2)), and by all of them with its power.

use super::Check;
use super::contraction::{Contraction, Vectors};
use crate::device::{DeviceMem, Layout, TensorRef};
use crate::error::Result;
use crate::fill::FillNormalRand;
use crate::reference::Arithmetic;
use crate::verify::bound::{Bound, Confidence};
use crate::verify::{Verdict, expect_earlier, grouped, short};
use std::fmt;

/// The seed of the vectors: the same on every device, and nothing that a kernel could know of.
const SEED: u64 = 0x0046_7265_6976_616c;

/// What Freivalds' check found. `Display` draws it on one screen.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FreivaldsReport {
    /// What was computed.
    pub problem: String,
    /// What was taken for granted of the kernel.
    pub arithmetic: String,
    /// The verdict. A pass is untrusted where rows of zeros would pass in the place of half of those that are not zero, and where an earlier output would pass
    /// that was given.
    pub verdict: Verdict,
    /// After a pass, where an earlier output was given: whether that would pass as well.
    pub earlier_passes: Option<bool>,
    /// Rows of the result: of a convolution what differs in one kind of channels, or in images, alone.
    pub rows: usize,
    /// What a row has: `columns`, `output channels`, `input channels` or `images`.
    pub of: &'static str,
    /// How many of these.
    pub extent: usize,
    /// Rows that do not pass.
    pub failing: u64,
    /// The row with the largest ratio of difference to threshold, the first of them.
    pub worst_row: usize,
    /// Where it is: `row 7`, or the other axes of a convolution's result with their numbers.
    pub worst_place: String,
    /// That ratio; infinite where something is not finite.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub worst_ratio: f64,
    /// Its threshold.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub threshold: f64,
    /// The norm of its elements.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub norm: f64,
    /// Random vectors.
    pub vectors: usize,
    /// Probability that a correct result fails, at most; that bounds are exceeded by chance included.
    pub false_alarm: f64,
    /// The device that computed.
    pub device: String,
}

impl FreivaldsReport {
    /// Whether no row shows an error; also where that could hardly have been otherwise.
    pub fn passed(&self) -> bool {
        self.verdict != Verdict::Fail
    }

    /// The probability that an error of one row is missed, its root of the sum of squares so many times the row's threshold.
    pub fn missed(&self, times: f64) -> f64 {
        libm::pow(libm::erf(1.0 / (times * std::f64::consts::SQRT_2)), self.vectors as f64)
    }
}

impl Check<'_> {
    /// Checks a matrix product, or a batch of them, or a convolution with so many random vectors instead of making it again.
    ///
    /// Vectors run over the columns of a product. Of a convolution they run over the longer one of two axes: output channels or images (forward), input channels or
    /// images (backward data), output or input channels (backward weight). With as many vectors as that has elements, nothing is saved.
    ///
    /// # Errors
    /// As [`run`](Check::run); also for an epilogue, which is not linear.
    pub fn freivalds(&self, vectors: usize) -> Result<FreivaldsReport> {
        let models = self.models()?;
        let contraction = Contraction::of(&self.problem, &self.result)?;
        let (rows, n) = (contraction.rows(), contraction.extent());
        let exceeded = match self.confidence {
            Confidence::WorstCase => 0.0,
            Confidence::Exceeded(probability) => probability,
        };
        let allowed = if exceeded > 0.0 { exceeded } else { 1e-6 };
        let vectors = vectors.max(1);
        let lambda = (2.0 * libm::log(2.0 * (rows * vectors) as f64 / allowed)).sqrt();
        let reads = self.reads(&models);
        let bound = self.bound_of(&models, self.confidence)?;
        let norms = self.norms(&contraction, reads)?;
        let (difference, largest) = self.differences(&contraction, reads, vectors)?;
        let rounding = (n + self.problem.terms() + 8) as f64 * f64::EPSILON * largest;
        let thresholds: Vec<f64> = (0..rows).map(|row| norms.threshold(row, n, &bound, lambda, rounding)).collect();
        let ratio = |row: usize| {
            let worst =
                difference[row * vectors..][..vectors].iter().fold(0.0, |worst: f64, d| if d.abs() <= worst { worst } else { d.abs() });
            let ratio = if worst == 0.0 { 0.0 } else { worst / thresholds[row] };
            if ratio.is_finite() && thresholds[row].is_finite() { ratio } else { f64::INFINITY }
        };
        let ratios: Vec<f64> = (0..rows).map(ratio).collect();
        let worst_row = (0..rows).fold(0, |worst, row| if ratios[row] > ratios[worst] { row } else { worst });
        let failing = ratios.iter().filter(|r| **r > 1.0).count() as u64;
        let nonzero = (0..rows).filter(|&row| norms.d[row] > 0.0);
        let (all, zeros) = nonzero.fold((0, 0), |(all, zeros), row| (all + 1, zeros + usize::from(norms.d[row] <= thresholds[row])));
        let verdict = match failing {
            0 if 2 * zeros >= all => Verdict::Untrusted,
            0 => Verdict::Pass,
            _ => Verdict::Fail,
        };
        let earlier_passes = match &self.earlier {
            Some(earlier) if verdict != Verdict::Fail => {
                expect_earlier(&self.result, earlier)?;
                Some(Check { result: earlier.clone(), earlier: None, ..self.clone() }.freivalds(vectors)?.passed())
            }
            _ => None,
        };
        Ok(FreivaldsReport {
            problem: self.problem.name(self.result.shape()),
            arithmetic: self.arithmetic(),
            verdict: if earlier_passes == Some(true) { Verdict::Untrusted } else { verdict },
            earlier_passes,
            rows,
            of: contraction.vectors().words(),
            extent: n,
            failing,
            worst_row,
            worst_place: contraction.place(worst_row),
            worst_ratio: ratios[worst_row],
            threshold: thresholds[worst_row],
            norm: norms.d[worst_row],
            vectors,
            false_alarm: allowed + exceeded,
            device: self.result.device().name(),
        })
    }

    /// Multiply-adds that [`freivalds`](Check::freivalds) takes with so many vectors, to be held against those of [`run`](Check::run), [`work`](Check::work); `None` where it is not possible.
    pub fn sampled_work(&self, vectors: usize) -> Option<u128> {
        Contraction::of(&self.problem, &self.result).ok().map(|contraction| contraction.work(vectors))
    }

    /// D·X - alpha·A·(B·X) - beta·C·X - bias·X, rows first, and the largest norm of a vector.
    fn differences(&self, contraction: &Contraction<'_, '_>, reads: Arithmetic, vectors: usize) -> Result<(Vec<f64>, f64)> {
        let n = contraction.extent();
        let mut memory = DeviceMem::<f64>::new(self.problem.device(), n * vectors)?;
        memory.fill(&FillNormalRand::new(0.0, 1.0).seed(SEED))?;
        let x = memory.tensor(&[n, vectors])?;
        let mut difference = contraction.of_result(&self.result, &x)?;
        let alpha = self.problem.product().map_or(1.0, |product| product.alpha);
        let exact = contraction.of_exact(reads, &x)?;
        difference.iter_mut().zip(exact).for_each(|(d, e)| *d -= alpha * e);
        for (tensor, factor) in self.added()? {
            let more = contraction.of_result(&tensor, &x)?;
            // A matrix serves every one of a batch, and a bias every row.
            difference.iter_mut().enumerate().for_each(|(i, d)| *d -= factor * more[i % more.len()]);
        }
        let x = memory.to_vec()?;
        let norm = |v: usize| x.iter().skip(v).step_by(vectors).map(|x| x * x).sum::<f64>().sqrt();
        Ok((difference, (0..vectors).map(norm).fold(0.0, f64::max)))
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

    /// Norms of the rows of what is added, and of the result.
    fn norms(&self, contraction: &Contraction<'_, '_>, reads: Arithmetic) -> Result<Norms> {
        let alpha = self.problem.product().map_or(1.0, |product| product.alpha);
        let mut added: Vec<f64> = contraction.magnitudes(reads)?.into_iter().map(|x| alpha.abs() * x).collect();
        for (tensor, factor) in self.added()? {
            let more = contraction.norms(&tensor)?;
            added.iter_mut().enumerate().for_each(|(i, x)| *x += factor.abs() * more[i % more.len()]);
        }
        Ok(Norms { added, d: contraction.norms(&self.result)? })
    }
}

/// Norms of rows.
struct Norms {
    /// Of the magnitudes of what is added, at most.
    added: Vec<f64>,
    /// Of the result.
    d: Vec<f64>,
}

impl Norms {
    /// What the difference of a row may be. `rounding` is what f64 loses of the difference itself, a magnitude.
    fn threshold(&self, row: usize, n: usize, bound: &Bound, lambda: f64, rounding: f64) -> f64 {
        let (added, d) = (self.added[row], self.d[row]);
        if bound.relative >= 1.0 {
            return f64::INFINITY;
        }
        let norm = (bound.gamma * added + bound.relative * d + bound.floor * (n as f64).sqrt()) / (1.0 - bound.relative);
        lambda * norm + rounding * (added + d)
    }
}

/// Width of a label, as in other reports.
const LABEL: usize = 11;

impl fmt::Display for FreivaldsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let mut rows = format!("{} row{}", grouped(self.rows as u64), plural(self.rows));
        if self.of != Vectors::Columns.words() {
            let of = if self.extent == 1 { self.of.trim_end_matches('s') } else { self.of };
            rows += &format!(" of {} {of}", grouped(self.extent as u64));
        }
        write!(f, "{}  ", self.verdict.word())?;
        match self.failing {
            0 => write!(f, "{rows} agree")?,
            n => write!(f, "{} of {rows} differ", grouped(n))?,
        }
        write!(f, "   by Freivalds' check with {} vector{}", self.vectors, plural(self.vectors))?;
        if self.earlier_passes == Some(true) {
            write!(
                f,
                "\n  {:<LABEL$}the earlier output would have passed as well: a kernel that writes nothing would not be found",
                "warning"
            )?;
        } else if self.verdict == Verdict::Untrusted {
            write!(f, "\n  {:<LABEL$}zeros would have passed in half of the rows: thresholds are too loose to trust", "warning")?;
        }
        let [ratio, threshold, norm] = [self.worst_ratio, self.threshold, self.norm].map(|x| short(x, 3));
        write!(f, "\n  {:<LABEL$}{}   {ratio} x threshold   threshold {threshold}   norm of the row {norm}", "worst", self.worst_place)?;
        write!(
            f,
            "\n  {:<LABEL$}an error of a row of 4 thresholds is missed with a probability of {}",
            "power",
            short(self.missed(4.0), 2)
        )?;
        write!(f, ", a correct result fails with at most {}", short(self.false_alarm, 2))?;
        write!(f, "\n  {:<LABEL$}{}; {}", "checked", self.problem, self.arithmetic)?;
        write!(f, "\n  {:<LABEL$}{}", "device", self.device)
    }
}
