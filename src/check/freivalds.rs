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
//!
//! Elements that may have overflowed have no such e: they are [judged one by one](super::one_by_one), and their exact results stand in their places in D.

use super::Check;
use super::contraction::{Contraction, Vectors};
use super::one_by_one;
use super::rows::{self, Found};
use crate::dtype::Overflow;
use crate::error::{Error, Result};
use crate::verify::bound::Confidence;
use crate::verify::{LABEL, Verdict, grouped, report_as_error, short};
use std::fmt;

/// What Freivalds' check found. `Display` draws it on one screen.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct FreivaldsReport {
    /// What was computed.
    pub problem: String,
    /// What was taken for granted of the kernel.
    pub arithmetic: String,
    /// The verdict. A pass is untrusted where rows of zeros would pass in the place of half of those that are not zero, where an earlier output would pass
    /// that was given, where rows were left out, and where half of the elements may overflow or have an exact result that is not finite.
    pub verdict: Verdict,
    /// After a pass, where an earlier output was given: whether that would pass as well.
    pub earlier_passes: Option<bool>,
    /// After a failure: whether all of it is that the largest number stands where the exact result overflows, so that the result would pass of a kernel that saturates, see
    /// [`Check::saturates`].
    pub would_saturate: bool,
    /// Rows of the result: of a convolution what differs in one kind of channels, or in images, alone.
    pub rows: usize,
    /// What a row has: `columns`, `output channels`, `input channels` or `images`.
    pub of: &'static str,
    /// How many of these.
    pub extent: usize,
    /// Rows that do not pass.
    pub failing: u64,
    /// Elements that were judged one by one, by their own bounds: infinities, NaN, the largest number of a format without infinity, and rows whose operands are not finite.
    pub one_by_one: u64,
    /// Of these, elements that pass since they stand for numbers beyond their format, whatever these are: at half of all elements a pass is untrusted.
    pub undecided: u64,
    /// Of those judged one by one, elements whose exact result is NaN or infinite: these have no size that could be wrong, and count as undecided ones do.
    pub not_finite: u64,
    /// Rows that were not judged, since they have more of these than there is time for.
    pub left_out: u64,
    /// The row with the largest ratio of difference to threshold, the first of them.
    pub worst_row: usize,
    /// Where it is: `row 7`, or the other axes of a convolution's result with their numbers.
    pub worst_place: String,
    /// That ratio; infinite where something is not finite.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub worst_ratio: f64,
    /// Its threshold; NaN where the operands of the row are not finite, so that it has no sums.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub threshold: f64,
    /// The norm of its elements, without those that were judged one by one.
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

    /// The report when it passes and that means something, else an error that prints as the report.
    ///
    /// # Errors
    /// [`FreivaldsFailed`].
    pub fn into_result(self) -> Result<FreivaldsReport, FreivaldsFailed> {
        if self.verdict == Verdict::Pass { Ok(self) } else { Err(FreivaldsFailed(Box::new(self))) }
    }

    /// The probability that an error of one row is missed, its root of the sum of squares so many times the row's threshold.
    pub fn missed(&self, times: f64) -> f64 {
        libm::pow(libm::erf(1.0 / (times * std::f64::consts::SQRT_2)), self.vectors as f64)
    }
}

report_as_error! {
    /// The report of a Freivalds' check that failed, or whose pass is not to be trusted. `Debug` prints the report as well: a `main` or a `#[test]` prints an error by it.
    FreivaldsFailed, FreivaldsReport
}

impl Check<'_> {
    /// Checks a matrix product, or a batch of them, or a convolution with so many random vectors instead of making it again; 0 counts as 1.
    ///
    /// Vectors run over the columns of a product. Of a convolution they run over the longer one of two axes: output channels or images (forward), input channels or
    /// images (backward data), output or input channels (backward weight). With as many vectors as that has elements, nothing is saved.
    ///
    /// Infinities, NaN and, in formats without infinity or of kernels that saturate, the largest number are judged one by one, as are all elements of rows whose operands are not finite. Rows with more of them than
    /// a few seconds allow are [left out](FreivaldsReport::left_out): a pass is untrusted then.
    ///
    /// # Errors
    /// As [`run`](Check::run); also for an epilogue, which is not linear, and when the vectors would not fit the address space.
    pub fn freivalds(&self, vectors: usize) -> Result<FreivaldsReport> {
        let report = self.freivalds_within(vectors, one_by_one::MOST)?;
        match self.without_matrix_cores() {
            // As `checked`.
            Some(other) if report.verdict == Verdict::Fail => {
                let other = other.freivalds_within(vectors, one_by_one::MOST)?;
                Ok(if other.verdict == Verdict::Fail { report } else { other })
            }
            _ => Ok(report),
        }
    }

    /// The same, with so many products for elements that are judged one by one.
    pub(super) fn freivalds_within(&self, vectors: usize, products: usize) -> Result<FreivaldsReport> {
        let models = self.models()?;
        self.expect_earlier()?;
        let contraction = Contraction::of(&self.problem, &self.result)?;
        let (rows, n, vectors) = (contraction.rows(), contraction.extent(), vectors.max(1));
        let bytes = rows.max(n).saturating_mul(size_of::<f64>());
        if bytes.checked_mul(vectors).is_none() {
            return Err(Error::SizeOverflow { what: "random vectors", elements: vectors, unit_bytes: bytes });
        }
        let exceeded = match self.confidence {
            Confidence::WorstCase => 0.0,
            Confidence::Exceeded(probability) => probability,
        };
        let allowed = if exceeded > 0.0 { exceeded } else { 1e-6 };
        let lambda = (2.0 * libm::log(2.0 * (rows * vectors) as f64 / allowed)).sqrt();
        let found = self.rows(&contraction, &models, (vectors, lambda), products)?;
        let verdict = found.verdict(n);
        let Found { rows: all, singles, undecided, not_finite } = found;
        let worst_row = (0..rows).fold(0, |worst, row| if all[row].ratio > all[worst].ratio { row } else { worst });
        let earlier_passes = match &self.earlier {
            Some(earlier) if verdict != Verdict::Fail => {
                Some(Check { result: earlier.clone(), earlier: None, ..self.clone() }.freivalds_within(vectors, products)?.passed())
            }
            _ => None,
        };
        let infinite = self.overflow == Overflow::Ieee && self.result.dtype().float_format().is_some_and(|format| format.has_infinity());
        let would_saturate = verdict == Verdict::Fail
            && infinite
            && Check { overflow: Overflow::Saturate, earlier: None, ..self.clone() }.freivalds_within(vectors, products)?.passed();
        Ok(FreivaldsReport {
            problem: self.problem.name(self.result.shape()),
            arithmetic: self.arithmetic(),
            verdict: if earlier_passes == Some(true) { Verdict::Untrusted } else { verdict },
            earlier_passes,
            would_saturate,
            rows,
            of: contraction.vectors().words(),
            extent: n,
            failing: all.iter().filter(|row| row.fails()).count() as u64,
            one_by_one: singles,
            undecided,
            not_finite,
            left_out: all.iter().filter(|row| row.left_out).count() as u64,
            worst_row,
            worst_place: contraction.coordinates(worst_row),
            worst_ratio: all[worst_row].ratio,
            threshold: all[worst_row].threshold,
            norm: all[worst_row].norm,
            vectors,
            false_alarm: allowed + exceeded,
            device: self.result.device().name(),
        })
    }

    /// Multiply-adds that [`freivalds`](Check::freivalds) takes with so many vectors, to be held against those of [`run`](Check::run), [`work`](Check::work); `None` where it is not possible.
    pub fn sampled_work(&self, vectors: usize) -> Option<u128> {
        Contraction::of(&self.problem, &self.result).ok().map(|contraction| contraction.work(vectors))
    }
}

impl fmt::Display for FreivaldsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let mut rows = format!("{} row{}", grouped(self.rows as u64), plural(self.rows));
        if self.of != Vectors::Columns.words() {
            let of = if self.extent == 1 { self.of.trim_end_matches('s') } else { self.of };
            rows += &format!(" of {} {of}", grouped(self.extent as u64));
        }
        write!(f, "{}  ", self.verdict.word())?;
        match (self.failing, self.left_out) {
            (0, 0) => write!(f, "{rows} agree")?,
            (0, n) => write!(f, "{} of {rows} agree, {} are not judged", grouped(self.rows as u64 - n), grouped(n))?,
            (n, _) => write!(f, "{} of {rows} differ", grouped(n))?,
        }
        write!(f, "   by Freivalds' check with {} vector{}", self.vectors, plural(self.vectors))?;
        self.warnings(f)?;
        let [ratio, threshold, norm] = [self.worst_ratio, self.threshold, self.norm].map(|x| short(x, 3));
        write!(f, "\n  {:<LABEL$}{}   {ratio} x ", "worst", self.worst_place)?;
        match self.threshold.is_nan() {
            true => write!(f, "bound, by element: operands of this row are not finite")?,
            false => write!(f, "threshold   threshold {threshold}   norm of the row {norm}")?,
        }
        write!(
            f,
            "\n  {:<LABEL$}an error of a row of 4 thresholds is missed with a probability of {}",
            "power",
            short(self.missed(4.0), 2)
        )?;
        write!(f, ", a correct result fails with at most {}", short(self.false_alarm, 2))?;
        if self.would_saturate {
            let words = "the largest number stands where the exact result overflows: it would pass of a kernel that saturates";
            write!(f, "\n  {:<LABEL$}{words} (--saturate, `Check::saturates`)", "cause")?;
        }
        if self.one_by_one > 0 {
            let elements = grouped(self.one_by_one);
            write!(f, "\n  {:<LABEL$}{elements} elements judged by their own bounds: infinities, NaN, saturated ones", "one by one")?;
        }
        write!(f, "\n  {:<LABEL$}{}; {}", "checked", self.problem, self.arithmetic)?;
        write!(f, "\n  {:<LABEL$}{}", "device", self.device)
    }
}

impl FreivaldsReport {
    /// Why the verdict may say less than it seems to.
    fn warnings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.earlier_passes == Some(true) {
            write!(
                f,
                "\n  {:<LABEL$}the earlier output would have passed as well: a kernel that writes nothing would not be found",
                "warning"
            )?;
        } else if rows::blind(self.undecided + self.not_finite, self.rows * self.extent) && self.failing == 0 {
            for (elements, words) in [
                (self.undecided, "overflow, as they should: nothing is known of how large they would be"),
                (self.not_finite, "are NaN or infinite in the exact result: there is no size to check there"),
            ] {
                if elements > 0 {
                    write!(f, "\n  {:<LABEL$}{} elements {words}", "warning", grouped(elements))?;
                }
            }
        } else if self.verdict == Verdict::Untrusted && self.left_out == 0 {
            write!(
                f,
                "\n  {:<LABEL$}zeros would have passed in half of the rows, but for elements that overflow or are not finite: thresholds are too loose to trust",
                "warning"
            )?;
        }
        if self.left_out > 0 {
            let rows = if self.left_out == 1 { "1 row has".to_owned() } else { format!("{} rows have", grouped(self.left_out)) };
            write!(f, "\n  {:<LABEL$}{rows} too many infinities, NaN or saturated elements to be judged one by one", "warning")?;
            write!(f, ": only a check without vectors (`Check::run`, a larger --max-work) judges them")?;
        }
        Ok(())
    }
}
