//! Freivalds' check of products that are too large to be made again: D·X against alpha·A·(B·X) + beta·C·X + bias·X for a few random vectors X.
//!
//! It costs as much as reading the matrices a few times (Freivalds, 1977; with Gaussian vectors, Ji and others, arXiv 1705.10449). X is normally distributed and knows nothing of the errors e
//! of a row, so that Σ e_j x_j is normal with the standard deviation ‖e‖:
//!
//! * where every |e_j| is within its bound b_j, it exceeds T = λ ‖b‖ with a probability of at most 2 exp(-λ² / 2). λ is such that the sum of these over rows and vectors is what a caller
//!   allows. ‖b‖ needs no product: S_ij <= ‖A_i‖ ‖B_j‖, so that ‖b‖ <= γ (|alpha| ‖A_i‖ ‖B‖ + |beta| ‖C_i‖ + ‖bias‖) + relative ‖D_i‖ + floor √n, over 1 - relative since D stands for the reference;
//! * an error of a row with ‖e‖ = s T is missed by one vector with the probability erf(1 / (s √2)), and by all of them with its power.

use super::problem::{Kind, Problem, on_host};
use super::{Check, arithmetic};
use crate::device::{DeviceMem, Layout, TensorRef};
use crate::error::{Error, Result};
use crate::fill::FillNormalRand;
use crate::reference::{Arithmetic, Gemm};
use crate::verify::bound::{Bound, Confidence};
use crate::verify::{Verdict, expect_earlier, grouped, short};
use rayon::prelude::*;
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
    /// Rows of the result.
    pub rows: usize,
    /// Rows that do not pass.
    pub failing: u64,
    /// The row with the largest ratio of difference to threshold, the first of them.
    pub worst_row: usize,
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
    /// Checks a matrix product with so many random vectors instead of making it again.
    ///
    /// # Errors
    /// As [`run`](Check::run); also for convolutions, batches and epilogues.
    pub fn freivalds(&self, vectors: usize) -> Result<FreivaldsReport> {
        let models = match self.arch {
            Some(arch) => arithmetic::models(arch, self.problem.dtypes())?,
            None => Vec::new(),
        };
        let [m, n] = self.matrix()?;
        let exceeded = match self.confidence {
            Confidence::WorstCase => 0.0,
            Confidence::Exceeded(probability) => probability,
        };
        let allowed = if exceeded > 0.0 { exceeded } else { 1e-6 };
        let vectors = vectors.max(1);
        let lambda = (2.0 * libm::log(2.0 * (m * vectors) as f64 / allowed)).sqrt();
        let reads = self.reads(&models);
        let norms = Norms::of(&self.problem, &self.result, reads)?;
        let bound = self.bound(&models, self.confidence)?;
        let (difference, largest) = differences(&self.problem, &self.result, reads.exact(), [m, n], vectors)?;
        let rounding = (n + self.problem.terms() + 8) as f64 * f64::EPSILON * largest;
        let thresholds: Vec<f64> = (0..m).map(|row| norms.threshold(row, n, &bound, lambda, rounding)).collect();
        let ratio = |row: usize| {
            let worst =
                difference[row * vectors..][..vectors].iter().fold(0.0, |worst: f64, d| if d.abs() <= worst { worst } else { d.abs() });
            let ratio = if worst == 0.0 { 0.0 } else { worst / thresholds[row] };
            if ratio.is_finite() && thresholds[row].is_finite() { ratio } else { f64::INFINITY }
        };
        let ratios: Vec<f64> = (0..m).map(ratio).collect();
        let worst_row = (0..m).fold(0, |worst, row| if ratios[row] > ratios[worst] { row } else { worst });
        let failing = ratios.iter().filter(|r| **r > 1.0).count() as u64;
        let nonzero = (0..m).filter(|&row| norms.d[row] > 0.0);
        let (rows, zeros) = nonzero.fold((0, 0), |(all, zeros), row| (all + 1, zeros + usize::from(norms.d[row] <= thresholds[row])));
        let verdict = match failing {
            0 if 2 * zeros >= rows => Verdict::Untrusted,
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
            rows: m,
            failing,
            worst_row,
            worst_ratio: ratios[worst_row],
            threshold: thresholds[worst_row],
            norm: norms.d[worst_row],
            vectors,
            false_alarm: allowed + exceeded,
            device: self.result.device().name(),
        })
    }

    /// The extents of a plain matrix product.
    fn matrix(&self) -> Result<[usize; 2]> {
        let plain = matches!(&self.problem.kind, Kind::Gemm(product) if product.epilogue == crate::reference::Epilogue::None);
        match self.result.shape() {
            [m, n] if plain && m * n > 0 => Ok([*m, *n]),
            _ => Err(Error::Unsupported {
                what: format!("{}, with what follows it,", self.problem.name(self.result.shape())),
                by: "Freivalds' check, which takes one matrix product with elements and no epilogue".to_owned(),
            }),
        }
    }
}

/// D·X - alpha·A·(B·X) - beta·C·X - bias·X, rows first, and the largest norm of a vector.
fn differences(problem: &Problem<'_>, d: &TensorRef<'_>, exact: Arithmetic, [m, n]: [usize; 2], vectors: usize) -> Result<(Vec<f64>, f64)> {
    let Kind::Gemm(product) = &problem.kind else { return Ok((Vec::new(), 0.0)) };
    let (device, k) = (problem.device(), problem.terms());
    let mut x = DeviceMem::<f64>::new(device, n * vectors)?;
    x.fill(&FillNormalRand::new(0.0, 1.0).seed(SEED))?;
    let columns = x.tensor(&[n, vectors])?;
    let [a, b] = &problem.operands;
    let times = |gemm: Gemm<'_>, left: &TensorRef<'_>, right: &TensorRef<'_>, rows: usize| -> Result<DeviceMem<f64>> {
        let mut to = DeviceMem::new(device, rows * vectors)?;
        gemm.run(left, right, &mut to.tensor_mut(&[rows, vectors])?)?;
        Ok(to)
    };
    let plain = || Gemm::new(crate::reference::Accumulate::F64);
    let inner = times(Gemm::new(exact).transpose_a(product.transposed[1]), b, &columns, k)?;
    let expected = times(Gemm::new(exact).transpose_a(product.transposed[0]), a, &inner.tensor(&[k, vectors])?, m)?.to_vec()?;
    let mut difference = times(plain(), d, &columns, m)?.to_vec()?;
    difference.iter_mut().zip(expected).for_each(|(d, e)| *d -= product.alpha * e);
    if let Some(c) = &product.c {
        let more = times(plain().alpha(product.beta), c, &columns, m)?.to_vec()?;
        difference.iter_mut().zip(more).for_each(|(d, c)| *d -= c);
    }
    if let Some(bias) = &product.bias {
        let row = bias.view(Layout::strided(&[1, n], &[0, bias.layout().strides()[0]], bias.layout().offset())?)?;
        let more = times(plain(), &row, &columns, 1)?.to_vec()?;
        difference.iter_mut().enumerate().for_each(|(i, d)| *d -= more[i % vectors]);
    }
    let x = x.to_vec()?;
    let norm = |v: usize| x.iter().skip(v).step_by(vectors).map(|x| x * x).sum::<f64>().sqrt();
    Ok((difference, (0..vectors).map(norm).fold(0.0, f64::max)))
}

/// Norms of what is added: of the rows of A, D and C, and of all of B and the bias.
struct Norms {
    a: Vec<f64>,
    b: f64,
    c: Option<Vec<f64>>,
    bias: f64,
    d: Vec<f64>,
    factors: [f64; 2],
}

impl Norms {
    fn of(problem: &Problem<'_>, d: &TensorRef<'_>, reads: Arithmetic) -> Result<Norms> {
        let Kind::Gemm(product) = &problem.kind else {
            return Err(Error::Unsupported { what: "a convolution".to_owned(), by: "Freivalds' check".to_owned() });
        };
        let [a, b] = &problem.operands;
        let a = if product.transposed[0] { exchanged(a)? } else { a.clone() };
        let whole = |rows: Vec<f64>| rows.into_iter().map(|x| x * x).sum::<f64>().sqrt();
        let plain = |t: &Option<TensorRef<'_>>| t.as_ref().map(|t| rows(t, 0.0)).transpose();
        Ok(Norms {
            a: rows(&a, reads.least_magnitude(a.dtype()))?,
            b: whole(rows(b, reads.least_magnitude(b.dtype()))?),
            c: plain(&product.c)?,
            bias: plain(&product.bias)?.map_or(0.0, whole),
            d: rows(d, 0.0)?,
            factors: [product.alpha.abs(), product.beta.abs()],
        })
    }

    /// What the difference of a row may be. `rounding` is what f64 loses of the difference itself, a magnitude.
    fn threshold(&self, row: usize, n: usize, bound: &Bound, lambda: f64, rounding: f64) -> f64 {
        let [alpha, beta] = self.factors;
        let added = alpha * self.a[row] * self.b + self.c.as_ref().map_or(0.0, |c| beta * c[row]) + self.bias;
        if bound.relative >= 1.0 {
            return f64::INFINITY;
        }
        let norm = (bound.gamma * added + bound.relative * self.d[row] + bound.floor * (n as f64).sqrt()) / (1.0 - bound.relative);
        lambda * norm + rounding * (added + self.d[row])
    }
}

/// A matrix with its dimensions exchanged.
fn exchanged<'a>(t: &TensorRef<'a>) -> Result<TensorRef<'a>> {
    let (mut shape, mut strides) = (t.shape().to_vec(), t.layout().strides().to_vec());
    shape.reverse();
    strides.reverse();
    t.view(Layout::strided(&shape, &strides, t.layout().offset())?)
}

/// The norm of each row, or of a vector's elements; what is not 0 counts at least so much.
fn rows(t: &TensorRef<'_>, least: f64) -> Result<Vec<f64>> {
    let (bytes, dtype, layout) = (on_host(t)?, t.dtype(), t.layout());
    let columns = t.shape().last().copied().unwrap_or(1).max(1);
    let square = |i: usize| {
        let x = dtype.decode(dtype.load_bits(&bytes, layout.index(i))).abs();
        let x = if x > 0.0 && x < least { least } else { x };
        x * x
    };
    let norm = |row: usize| (row * columns..(row + 1) * columns).map(square).sum::<f64>().sqrt();
    Ok((0..t.elements() / columns).into_par_iter().map(norm).collect())
}

/// Width of a label, as in other reports.
const LABEL: usize = 11;

impl fmt::Display for FreivaldsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = grouped(self.rows as u64);
        write!(f, "{}  ", self.verdict.word())?;
        match self.failing {
            0 => write!(f, "{rows} rows agree")?,
            n => write!(f, "{} of {rows} rows differ", grouped(n))?,
        }
        write!(f, "   by Freivalds' check with {} vectors", self.vectors)?;
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
        write!(f, "\n  {:<LABEL$}row {}   {ratio} x threshold   threshold {threshold}   norm of the row {norm}", "worst", self.worst_row)?;
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
