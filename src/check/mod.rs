//! A verdict without a reference: the result of a GEMM or a convolution is checked against its operands.
//!
//! [`Check`] makes the exact result and the bound of each element itself ([`verify::bound`](crate::verify::bound)), on the device of the tensors, and says for a chip
//! whether the result is what its matrix or tensor cores give, bit for bit, in an order of products that is known here.
//!
//! ```
//! use hipverify::check::Check;
//! use hipverify::dtype::F16;
//! use hipverify::{Device, DeviceMem};
//! let device = Device::host();
//! let a = DeviceMem::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0].map(F16::from_f32))?;
//! let result = DeviceMem::from_slice(&device, &[7.0f32, 10.0, 15.0, 22.0].map(F16::from_f32))?;
//! let (a, result) = (a.tensor(&[2, 2])?, result.tensor(&[2, 2])?);
//! let report = Check::gemm(&a, &a, &result).run()?;
//! assert!(report.passed(), "{report}");
//! # Ok::<(), hipverify::Error>(())
//! ```
//!
//! Limits: floating-point results, and products of integers in 32 bits, which have to be equal modulo 2^32; operands are widened and the exact result is held in f64, so that both have to fit the memory of the device. For products too large to be made
//! again there is [`Check::freivalds`].

mod arithmetic;
mod cause;
mod contraction;
mod copied;
mod dequantised;
mod epilogue;
mod exact;
mod failure;
mod freivalds;
mod integer;
mod one_by_one;
mod order;
mod piece;
mod problem;
mod products;
mod report;
mod rows;
mod scales;
mod shortened;
mod worth;

#[cfg(test)]
mod tests;

pub use cause::CheckCause;
pub use exact::Exactness;
pub use freivalds::{FreivaldsFailed, FreivaldsReport};
pub use report::{CheckFailed, CheckReport};

use crate::device::{AsTensor, DeviceMem, IntoTensor, TensorRef};
use crate::dtype::{DType, Overflow};
use crate::error::{Error, Result};
use crate::matrix_core::{Arch, Model};
use crate::reference::{Accumulate, Arithmetic, ConvParam, Direction, Epilogue};
use crate::verify::bound::{Bound, BoundReport, Confidence, Sum, Unit, each_mismatch, gpu_verify_bound_with};
use crate::verify::{Verdict, expect_earlier};
use dequantised::Dequantised;
use problem::{Kind, Problem, Product};

/// A result held against its bounds.
struct Compared {
    report: BoundReport,
    bound: Bound,
    confidence: Confidence,
    within_worst_case: Option<bool>,
    beyond_probable: Option<u64>,
    /// Whether rounding alone explains a failure: the worst case does, and means something.
    explained: bool,
}

/// A report, and what the result was held against, for a look at single elements.
#[derive(Debug)]
pub struct Checked {
    /// What the check found.
    pub report: CheckReport,
    exact: DeviceMem<f64>,
    /// What the bounds scale with.
    magnitudes: DeviceMem<f64>,
    /// How the result was to be rounded.
    overflow: Overflow,
}

impl Checked {
    /// The exact result, dense; of integers modulo 2^32.
    pub fn exact(&self) -> &DeviceMem<f64> {
        &self.exact
    }

    /// Which elements of the result that was checked are beyond their bounds, in logical order.
    ///
    /// # Errors
    /// When it has another shape or lies on another device, or the device reports an error.
    pub fn beyond(&self, result: &impl AsTensor) -> Result<Vec<bool>> {
        let result = result.as_tensor();
        let (shape, mut beyond) = (result.shape(), vec![false; result.elements()]);
        let (exact, magnitudes) = (self.exact.tensor(shape)?, self.magnitudes.tensor(shape)?);
        each_mismatch([&result, &exact, &magnitudes], (&self.report.report.bound, self.overflow), |i| beyond[i] = true)?;
        Ok(beyond)
    }
}

/// A result to be checked, and what is known of the kernel that made it.
///
/// Bounds are those of direct sums: an element is made of its own products, in any order and any parts. Winograd's convolution, Strassen's product and FFTs have errors that scale with the norms of
/// tiles, so that a right result of theirs may fail, for example beside zeros of an image. Compare it with a reference by a tolerance that is made of the tensor's norm, such as
/// [`Tolerance::rounding`](crate::verify::Tolerance::rounding).
#[derive(Clone, Debug)]
pub struct Check<'a> {
    problem: Problem<'a>,
    result: TensorRef<'a>,
    arch: Option<Arch>,
    accumulator: Option<DType>,
    parts: usize,
    parts_dtype: Option<DType>,
    confidence: Confidence,
    bit_exact: bool,
    cause: bool,
    earlier: Option<TensorRef<'a>>,
    overflow: Overflow,
    /// The first thing that was asked for and that a convolution has not.
    refused: Option<&'static str>,
}

impl<'a> Check<'a> {
    /// D = A·B: shapes are those of [`reference::Gemm`](crate::reference::Gemm).
    pub fn gemm(a: impl IntoTensor<'a>, b: impl IntoTensor<'a>, result: impl IntoTensor<'a>) -> Check<'a> {
        Check::of(Problem { operands: [a.into_tensor(), b.into_tensor()], kind: Kind::Gemm(Product::new()) }, result.into_tensor())
    }

    /// A convolution; operands and result have the roles of [`reference::Conv`](crate::reference::Conv), one dimension or the shapes of the parameters.
    pub fn conv(
        param: ConvParam,
        direction: Direction,
        first: impl IntoTensor<'a>,
        second: impl IntoTensor<'a>,
        result: impl IntoTensor<'a>,
    ) -> Check<'a> {
        Check::of(
            Problem { operands: [first.into_tensor(), second.into_tensor()], kind: Kind::Conv(param, direction) },
            result.into_tensor(),
        )
    }

    fn of(problem: Problem<'a>, result: TensorRef<'a>) -> Check<'a> {
        Check {
            problem,
            result,
            arch: None,
            accumulator: None,
            parts: 1,
            parts_dtype: None,
            confidence: Confidence::default(),
            bit_exact: true,
            cause: true,
            earlier: None,
            overflow: Overflow::Ieee,
            refused: None,
        }
    }

    /// Sets something of a GEMM. Convolutions have none of it: anything but `nothing` is an error of the check then.
    fn with_product(mut self, what: &'static str, nothing: bool, set: impl FnOnce(&mut Product<'a>)) -> Check<'a> {
        match &mut self.problem.kind {
            Kind::Gemm(product) => set(product),
            Kind::Conv(..) if nothing => {}
            Kind::Conv(..) => self.refused = self.refused.or(Some(what)),
        }
        self
    }

    /// A is given as `[k, m]`. Of a GEMM only, as what follows up to `epilogue`: the check of a convolution refuses it.
    pub fn transpose_a(self, yes: bool) -> Check<'a> {
        self.with_product("a transposed operand", !yes, |p| p.transposed[0] = yes)
    }

    /// B is given as `[n, k]`.
    pub fn transpose_b(self, yes: bool) -> Check<'a> {
        self.with_product("a transposed operand", !yes, |p| p.transposed[1] = yes)
    }

    /// The factor of A·B.
    pub fn alpha(self, alpha: f64) -> Check<'a> {
        self.with_product("alpha", alpha == 1.0, |p| p.alpha = alpha)
    }

    /// Adds beta times C, which is not read where beta is 0.
    pub fn beta(self, beta: f64, c: impl IntoTensor<'a>) -> Check<'a> {
        self.with_product("beta and C", beta == 0.0, |p| (p.beta, p.c) = (beta, (beta != 0.0).then(|| c.into_tensor())))
    }

    /// Adds a vector to every row.
    pub fn bias(self, bias: impl IntoTensor<'a>) -> Check<'a> {
        self.with_product("a bias", false, |p| p.bias = Some(bias.into_tensor()))
    }

    /// A is multiplied by these scales, element by element: one scale is of a block of A. The tensor has A's dimensions, in the order in which A is given, and along each of them 1 scale, one for each
    /// element, or one for each block; `[1]` has the scale of all. Lengths of blocks that the extents do not say are those of [`scale_block_a`](Check::scale_block_a). `u8` holds the codes of `f8e8m0`.
    ///
    /// The bound is for kernels that multiply in f32 (or the accumulator's format, if that has more digits) anywhere between operands and result: operands, products, the sums of blocks, or whole sums.
    pub fn scale_a(self, scales: impl IntoTensor<'a>) -> Check<'a> {
        self.with_product("scales", false, |p| p.scales[0].tensor = Some(scales.into_tensor()))
    }

    /// The same of B.
    pub fn scale_b(self, scales: impl IntoTensor<'a>) -> Check<'a> {
        self.with_product("scales", false, |p| p.scales[1].tensor = Some(scales.into_tensor()))
    }

    /// Rows and columns, as A is given, of a block that has one scale; the last ones of a row or column may be shorter.
    pub fn scale_block_a(self, block: [usize; 2]) -> Check<'a> {
        self.with_product("scales", false, |p| p.scales[0].block = Some(block))
    }

    /// The same of B.
    pub fn scale_block_b(self, block: [usize; 2]) -> Check<'a> {
        self.with_product("scales", false, |p| p.scales[1].block = Some(block))
    }

    /// What happens last.
    pub fn epilogue(self, epilogue: Epilogue) -> Check<'a> {
        self.with_product("an epilogue", epilogue == Epilogue::None, |p| p.epilogue = epilogue)
    }

    /// It ran on the matrix cores (of NVIDIA: the tensor cores) of this chip: inputs count as these read them, the bound is theirs, and the report says whether the result is bit-exact.
    pub fn arch(mut self, arch: Arch) -> Check<'a> {
        self.arch = Some(arch);
        self
    }

    /// The accumulator is of this format and takes one product at a time, in any order. If nothing is said: f32, f64 where an operand is f64, or i32 where both are integers of 8 bits
    /// and fewer. In i32 sums are exact; they are rounded as they become f32, and by what follows: the bound scales with |alpha Σab| + |beta C| + |bias| then, or with Σ|a||b| for
    /// parts that are [stored as floats](Check::split_k). With a
    /// [chip](Check::arch) either may have been at work: the looser bound counts. Tensor cores that accumulate in f16 are among the chip's where this is f16.
    pub fn accumulator(mut self, dtype: DType) -> Check<'a> {
        self.accumulator = Some(dtype);
        self
    }

    /// K was cut into so many parts (0 counts as 1), summed apart and then added: in the accumulator's format, or in the one that is given, as where parts are added in the result's memory.
    /// Of one part that is the format to which the sum is rounded before alpha, C, the bias and the last function.
    pub fn split_k(mut self, parts: usize, stored: Option<DType>) -> Check<'a> {
        (self.parts, self.parts_dtype) = (parts.max(1), stored);
        self
    }

    /// How sure the bound is.
    pub fn confidence(mut self, confidence: Confidence) -> Check<'a> {
        self.confidence = confidence;
        self
    }

    /// Whether the report on a [chip](Check::arch) says if the result is bit-exact, which tries many models and orders; it does if nothing is said.
    pub fn bit_exact(mut self, yes: bool) -> Check<'a> {
        self.bit_exact = yes;
        self
    }

    /// Whether the report of a failure looks for the likely cause, which reads operands and result on the host; it does if nothing is said.
    pub fn cause(mut self, yes: bool) -> Check<'a> {
        self.cause = yes;
        self
    }

    /// An earlier output of the kernel, of other operands, or what lay in its memory, in the result's shape and format. A pass is untrusted where that output
    /// would pass as well; of a failure the report says how many of the elements beyond their bounds hold it.
    pub fn earlier(mut self, earlier: impl IntoTensor<'a>) -> Check<'a> {
        self.earlier = Some(earlier.into_tensor());
        self
    }

    /// The kernel saturates: it gives the largest number of the result's format, with its sign, for what is beyond that, as conversions with `__HIP_SATFINITE` and Composable Kernel's saturating
    /// ones do. Infinities and NaN are wrong there, but for an exact result that is infinite. If nothing is said, results are infinite there, and saturate or are NaN in formats without infinity.
    pub fn saturates(mut self, yes: bool) -> Check<'a> {
        self.overflow = if yes { Overflow::Saturate } else { Overflow::Ieee };
        self
    }

    /// Multiply-adds that making the product again takes.
    pub fn work(&self) -> u128 {
        self.problem.terms() as u128 * self.result.elements() as u128
    }

    /// The bound that [`run`](Check::run) judges each element by, for comparisons of one's own with [`gpu_verify_bound`](crate::verify::bound::gpu_verify_bound).
    ///
    /// # Errors
    /// When shapes do not fit each other, or formats the chip, or these are not floating-point formats (nor integers with a result of 32 bits).
    pub fn bound(&self) -> Result<Bound> {
        if integer::applies(&self.problem, &self.result) {
            self.expect_fit()?;
            return integer::expect_exact(&self.problem, self.result.dtype(), self.overflow).map(|()| Bound::EXACT);
        }
        let models = self.models()?;
        if self.problem.is_scaled() {
            let copies = Dequantised::of(&self.problem, self.reads(&models))?;
            return copies.check(self)?.bound_of(&models, self.confidence);
        }
        self.bound_of(&models, self.confidence)
    }

    /// Checks.
    ///
    /// # Errors
    /// When shapes or formats do not fit each other or the chip, tensors are on different devices, there are no elements, or memory does not suffice.
    pub fn run(&self) -> Result<CheckReport> {
        self.checked().map(|checked| checked.report)
    }

    /// As [`run`](Check::run), with what the result was held against.
    ///
    /// # Errors
    /// As there.
    pub fn checked(&self) -> Result<Checked> {
        let checked = self.checked_as_asked()?;
        match self.without_matrix_cores() {
            // Matrix cores may read operands as others (subnormal numbers as zeros): the exact result of other sums is another one.
            Some(other) if checked.report.verdict() == Verdict::Fail => {
                let other = Check { cause: false, ..other }.checked_as_asked()?;
                let exactness = checked.report.exactness.clone();
                Ok(match other.report.verdict() {
                    Verdict::Fail => checked,
                    _ => Checked { report: CheckReport { exactness, ..other.report }, ..other },
                })
            }
            _ => Ok(checked),
        }
    }

    /// The check of sums in the format that is named beside a chip, without the chip's matrix cores; `None` unless both are named and read operands differently.
    fn without_matrix_cores(&self) -> Option<Check<'a>> {
        let both = self.arch.is_some() && self.accumulator.is_some() && !integer::applies(&self.problem, &self.result);
        let prepares = || self.models().is_ok_and(|models| arithmetic::unconverted(&models).any(Model::prepares));
        (both && prepares()).then(|| Check { arch: None, ..self.clone() })
    }

    fn checked_as_asked(&self) -> Result<Checked> {
        if integer::applies(&self.problem, &self.result) {
            self.expect_fit()?;
            self.expect_earlier()?;
            return integer::run(self);
        }
        let models = self.models()?;
        self.expect_earlier()?;
        let reads = self.reads(&models);
        if self.problem.is_scaled() {
            return self.checked_with_scales(&models, reads);
        }
        self.held_against(&models, reads, self.magnitudes(reads)?)
    }

    /// What bounds scale with.
    fn magnitudes(&self, reads: Arithmetic) -> Result<DeviceMem<f64>> {
        let shape = self.result.shape();
        // Parts that are added as floats may be larger than the sum.
        match self.sums_in_i32() && self.parts_dtype.is_none() {
            true => integer::magnitudes_of_sums(&self.problem, shape),
            false => self.problem.magnitudes(reads, shape),
        }
    }

    /// Checks against the exact result of operands that are read so, by bounds of these magnitudes.
    fn held_against(&self, models: &[Model], reads: Arithmetic, magnitudes: DeviceMem<f64>) -> Result<Checked> {
        let shape = self.result.shape();
        let reference = self.problem.exact(reads, shape)?;
        let exact = [&reference.tensor(shape)?, &magnitudes.tensor(shape)?];
        let exactness = match self.arch.filter(|_| self.bit_exact) {
            Some(arch) if self.problem.applied().is_some() => Some(exact::not_tried(arch, "the models here take no scales")),
            Some(arch) => Some(exact::search(&self.problem, (&self.result, self.overflow), arch, models, self.parts)?),
            None => None,
        };
        let bit_exact = exactness.as_ref().is_some_and(Exactness::is_exact);
        let compared = self.compare(models, exact, bit_exact)?;
        let Compared { report, bound, confidence, within_worst_case, beyond_probable, explained } = compared;
        let report = self.with_clamped(report, exact[0], reads)?;
        let report = self.with_shortened(report, exact, reads, &bound)?;
        let (report, stale) = self.with_earlier(report, exact, &bound)?;
        let cause = match (report.verdict, &exactness) {
            (Verdict::Fail, Some(exactness)) if self.cause && bit_exact && self.chip_differs(&report, exact, &bound)? => {
                Some(cause::of_chip(exactness, report.mismatches))
            }
            (Verdict::Fail, _) if self.cause => self.as_multiplied().find_cause(&report, exact, reads, &bound, explained)?,
            _ => None,
        };
        let report = CheckReport {
            problem: self.problem.name(shape),
            arithmetic: self.arithmetic(),
            confidence,
            report,
            within_worst_case,
            beyond_probable,
            stale,
            cause,
            exactness,
        };
        Ok(Checked { report, exact: reference, magnitudes, overflow: self.overflow })
    }

    /// Compares the result with exact result and magnitudes. What is beyond a bound with a confidence is judged by the worst case where it is what the chip gives, bit for bit.
    fn compare(&self, models: &[Model], exact: [&TensorRef<'_>; 2], bit_exact: bool) -> Result<Compared> {
        let by = |confidence| {
            let bound = self.bound_of(models, confidence)?;
            let report = self.judged(&self.result, exact, &bound)?;
            Ok(Compared { report, bound, confidence, within_worst_case: None, beyond_probable: None, explained: false })
        };
        let probable = by(self.confidence)?;
        if self.confidence == Confidence::WorstCase || probable.report.passed() {
            return Ok(probable);
        }
        let worst = by(Confidence::WorstCase)?;
        Ok(match worst.report.passed() {
            true if bit_exact => Compared { beyond_probable: Some(probable.report.mismatches), ..worst },
            within => Compared { within_worst_case: Some(within), explained: worst.report.verdict == Verdict::Pass, ..probable },
        })
    }

    /// A result held against exact result and magnitudes.
    fn judged(&self, result: &TensorRef<'_>, [reference, magnitudes]: [&TensorRef<'_>; 2], bound: &Bound) -> Result<BoundReport> {
        gpu_verify_bound_with(result, reference, magnitudes, bound, self.overflow)
    }

    fn expect_earlier(&self) -> Result<()> {
        self.earlier.as_ref().map_or(Ok(()), |earlier| expect_earlier(&self.result, earlier))
    }

    /// That shapes fit each other, factors are numbers, and k has as many products as parts.
    fn expect_fit(&self) -> Result<()> {
        if let Some(what) = self.refused {
            return Err(Error::Unsupported { what: what.to_owned(), by: "the check of a convolution".to_owned() });
        }
        self.confidence.expect_valid()?;
        self.problem.expect_shapes(&self.result)?;
        let (alpha, beta) = self.problem.scalars();
        if let Some((what, value)) = [("alpha", alpha), ("beta", beta)].into_iter().find(|(_, value)| !value.is_finite()) {
            return Err(Error::InvalidArgument { what, value: value.to_string(), limit: "it has to be finite".to_owned() });
        }
        self.problem.product().map_or(Ok(()), |product| product.epilogue.expect_valid())?;
        let integers = self.problem.dtypes().iter().all(|dtype| dtype.int_format().is_some());
        if integers && self.result.dtype().int_format().is_some() && !integer::applies(&self.problem, &self.result) {
            let (what, expected) = ("the result of a product of integers".to_owned(), "i32 or u32".to_owned());
            return Err(Error::WrongDType { what, expected, found: self.result.dtype().to_string() });
        }
        if self.problem.is_scaled() && (self.sums_in_i32() || integers && self.result.dtype().int_format().is_some()) {
            let what = "scales of operands that are summed in integers".to_owned();
            let by = "a check; --accumulate f32 (`Check::accumulator`) judges a result in floats by sums in f32, whose bound is looser"
                .to_owned();
            return Err(Error::Unsupported { what, by });
        }
        let most = self.problem.terms().max(1);
        if self.parts > most {
            let limit = format!("at most {most}, the products of a sum");
            return Err(Error::InvalidArgument { what: "split-k", value: self.parts.to_string(), limit });
        }
        Ok(())
    }

    /// Whether sums are exact in an accumulator of i32, and become f32 for what follows them.
    fn sums_in_i32(&self) -> bool {
        let bits = self.problem.dtypes().map(|dtype| dtype.int_format().map(|format| format.bits));
        let up_to = |most: u32| bits.iter().all(|bits| bits.is_some_and(|bits| bits <= most));
        let floats = self.result.dtype().float_format().is_some();
        floats && (self.accumulator.is_none() && up_to(8) || self.accumulator == Some(DType::I32) && up_to(16))
    }

    /// The models that may have been at work, of a problem that can be checked.
    fn models(&self) -> Result<Vec<Model>> {
        self.expect_fit()?;
        if self.sums_in_i32() {
            // Matrix cores add integers exactly: a chip tells nothing more.
            return Ok(Vec::new());
        }
        self.arch.map_or(Ok(Vec::new()), |arch| arithmetic::models(arch, self.problem.dtypes(), self.accumulator))
    }

    /// How inputs are read: models of one chip and format agree on that.
    fn reads(&self, models: &[Model]) -> Arithmetic {
        arithmetic::unconverted(models).next().map_or(Accumulate::F64.into(), Arithmetic::from)
    }

    /// The loosest bound of the units that may have been at work.
    fn bound_of(&self, models: &[Model], confidence: Confidence) -> Result<Bound> {
        let mut loosest = Bound::EXACT;
        for (unit, accumulator) in self.units(models)? {
            let after = self.problem.roundings_after(accumulator);
            // Sums in i32 are exact, and so are those of their parts, unless these are stored as floats: one rounding makes them f32.
            let (terms, parts) = match self.sums_in_i32() {
                true => (1, if self.parts_dtype.is_some() { self.parts } else { 1 }),
                false => (self.problem.padded_terms(unit.group), self.parts),
            };
            let mut sum = Sum { parts, after, ..Sum::new(unit, terms) };
            if let Some(stored) = self.parts_dtype {
                let stored = arithmetic::of_format(stored)?;
                (sum.parts_roundoff, sum.parts_underflow) = (stored.roundoff, stored.underflow / 2.0);
            }
            let elements = self.result.elements();
            let applied = self.problem.applied();
            // Scales may be applied to the sum of each run of k in which they are constant, or anywhere else.
            let by_runs = applied.map_or(Bound::EXACT, |applied| applied.by_runs(sum).bound(confidence, elements));
            let mut bound = looser(sum.bound(confidence, elements), by_runs);
            let scalar = self.problem.scalar_error(accumulator);
            bound.gamma += if scalar > 0.0 { scalar * (1.0 + bound.gamma) } else { 0.0 };
            // What underflow has lost is multiplied by alpha, and by scales; what it loses after that is within the slack of the first product.
            bound.floor *= self.problem.scalars().0.abs().max(1.0);
            bound.floor *= applied.map_or(1.0, |applied| applied.largest);
            if !arithmetic::holds(self.result.dtype(), accumulator) {
                bound = bound.rounded_to(self.result.dtype())?;
            }
            loosest = looser(bound.against(DType::F64, terms)?, loosest);
        }
        Ok(loosest)
    }

    /// The units that may have been at work, each with the format of its accumulator.
    fn units(&self, models: &[Model]) -> Result<Vec<(Unit, DType)>> {
        if self.sums_in_i32() {
            return Ok(vec![(Unit::F32, DType::F32)]);
        }
        let mut units: Vec<_> = arithmetic::unconverted(models).map(|model| (arithmetic::of_model(model), model.accumulator())).collect();
        let unsaid = units.is_empty().then(|| self.problem.accumulator());
        if let Some(dtype) = self.accumulator.or(unsaid) {
            units.push((arithmetic::of_format(dtype)?, dtype));
        }
        Ok(units)
    }

    /// What is taken for granted of the kernel, in words.
    pub fn arithmetic(&self) -> String {
        let [a, b] = self.problem.dtypes();
        if integer::applies(&self.problem, &self.result) {
            return integer::arithmetic(&self.problem);
        }
        let adds = match (self.arch, self.accumulator) {
            (Some(arch), None) => format!("the {} of {arch}", arch.units()),
            (Some(arch), Some(dtype)) => format!("the {} of {arch} or sums in {dtype}", arch.units()),
            (None, Some(dtype)) => format!("sums in {dtype}"),
            (None, None) => format!("sums in {}", self.problem.accumulator()),
        };
        let adds = if self.sums_in_i32() { "sums in i32, exact, then f32".to_owned() } else { adds };
        let parts = match (self.parts, self.parts_dtype) {
            (1, None) => String::new(),
            (1, Some(dtype)) => format!(", stored in {dtype}"),
            (parts, None) => format!(", {parts} parts of k"),
            (parts, Some(dtype)) => format!(", {parts} parts of k added in {dtype}"),
        };
        let beyond = if self.overflow == Overflow::Saturate { ", saturating" } else { "" };
        let scales = self.problem.scales_in_words();
        format!("{a} by {b}{scales}, {adds}{parts}{beyond}")
    }
}

/// The larger of two coefficients each.
fn looser(one: Bound, other: Bound) -> Bound {
    Bound {
        gamma: one.gamma.max(other.gamma),
        relative: one.relative.max(other.relative),
        floor: one.floor.max(other.floor),
        rounding: one.rounding.or(other.rounding),
    }
}
