//! One description of a fill that the host loops and the device kernels both read.
//!
//! [`kernel_params`] checks a generator against a format and a layout and reduces it to [`FillParams`] of `hip/abi.h`.

use super::crand;
use super::spec::{FillSpec, Pattern, ProductOperand};
use crate::device::Layout;
use crate::dtype::{DType, Overflow, Rounding, Specials, next_down, next_up};
use crate::error::{Error, Result};
use bytemuck::Zeroable;
pub(crate) use hipverify_sys::abi::{self, FillFlag as flag, FillKind as kind, FillParams};

/// The largest number of dimensions of a tensor that can be filled.
pub(crate) const MAX_RANK: usize = abi::MAX_RANK as usize;

/// The C library's state for CRAND.
pub(crate) fn crand_state(p: &FillParams) -> crand::State {
    crand::State::seeded(p.key[0])
}

/// The flags to add for each launch that the fill takes: one launch, or two where packed elements are written singly.
pub(crate) fn passes(p: &FillParams, dtype: DType) -> &'static [u32] {
    let packed = dtype.per_unit() == 2;
    let singly = p.flags & flag::CONTIGUOUS == 0 || p.kind == kind::CRAND;
    if packed && singly { &[flag::EVEN, flag::ODD] } else { &[0] }
}

/// Whether arithmetic on this format is done in f64; else it is f32.
pub(super) const fn is_wide(dtype: DType) -> bool {
    !dtype.fits_f32()
}

/// Checks `spec` against a format and a layout and reduces it to what host loops and kernels read.
///
/// # Errors
/// [`Error::InvalidArgument`] when the generator's parameters do not fit the format or the layout.
pub(crate) fn kernel_params(spec: &FillSpec, dtype: DType, layout: &Layout) -> Result<FillParams> {
    let mut p = FillParams {
        count: layout.elements() as u64,
        offset: layout.offset() as u64,
        key: [spec.seed as u32, (spec.seed >> 32) as u32],
        stream: spec.stream,
        dtype: dtype as u32,
        ..FillParams::zeroed()
    };
    set_layout(&mut p, spec, layout)?;
    pattern(&mut p, spec, Format::of(dtype))?;
    overlay(&mut p, spec, dtype, layout)?;
    Ok(p)
}

/// What parameters are checked against: the numbers that a format holds.
struct Format {
    dtype: DType,
    least: f64,
    largest: f64,
    has_zero: bool,
}

impl Format {
    fn of(dtype: DType) -> Format {
        let (least, largest) = match (dtype.float_format(), dtype.int_format()) {
            (Some(f), _) if dtype == DType::F8E8M0 => (f.min_positive(), f.max_finite()),
            (Some(f), _) => (-f.max_finite(), f.max_finite()),
            (None, Some(i)) => (i.min() as f64, i.max() as f64),
            (None, None) => (0.0, 0.0),
        };
        Format { dtype, least, largest, has_zero: dtype != DType::F8E8M0 }
    }

    fn holds(&self, what: &'static str, value: f64) -> Result<f64> {
        // -0.0 + 0.0 is +0.0: no sign sneaks in through a bound.
        if value >= self.least && value <= self.largest {
            return Ok(value + 0.0);
        }
        // f64 has no number for the largest one of 64 bits.
        let whole = self.dtype.int_format().map(|int| [int.min(), int.max()].map(|end| end.to_string()));
        let [least, largest] = whole.unwrap_or_else(|| [self.least, self.largest].map(plain));
        Err(invalid(what, value, format!("{} holds numbers from {least} to {largest}", self.dtype)))
    }

    fn negatives(&self, what: &'static str) -> Result<()> {
        if self.least < 0.0 {
            return Ok(());
        }
        Err(invalid(what, self.dtype, "it makes negative numbers and needs a format that has them".to_owned()))
    }

    fn zero(&self, what: &'static str) -> Result<()> {
        if self.has_zero { Ok(()) } else { Err(invalid(what, self.dtype, "it needs a format that has a zero".to_owned())) }
    }

    /// The range of whole numbers that the format represents exactly.
    fn whole(&self) -> (i128, i128) {
        match (self.dtype.float_format(), self.dtype.int_format()) {
            (_, Some(i)) => (i.min(), i.max()),
            _ if self.dtype == DType::F8E8M0 => (1, 2),
            (Some(f), _) => {
                let most = (1i128 << (f.mantissa_bits + 1)).min(f.max_finite() as i128);
                (-most, most)
            }
            (None, None) => (0, 0),
        }
    }

    /// The least and the largest number of a float format within [min, max].
    fn snap(&self, min: f64, max: f64) -> Result<(f64, f64)> {
        let d = self.dtype;
        let encode = |v| d.encode(v, Rounding::NearestEven, Overflow::Saturate);
        let (mut low, mut high) = (encode(min), encode(max));
        if d.decode(low) < min {
            low = next_up(d, low);
        }
        if d.decode(high) > max {
            high = next_down(d, high);
        }
        // A small negative number rounds to -0.0 as the low end; as the high end it is stepped over.
        let (low, high) = (d.decode(low) + 0.0, d.decode(high));
        if low <= high && low >= min && high <= max {
            return Ok((low, high));
        }
        Err(invalid("range", format!("[{min}, {max}]"), format!("it must contain a number of {d}")))
    }
}

/// A number without an exponent, unless it has many digits.
fn plain(value: f64) -> String {
    if value == 0.0 || (1e-6..1e20).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

fn invalid(what: &'static str, value: impl ToString, limit: String) -> Error {
    Error::InvalidArgument { what, value: value.to_string(), limit }
}

/// Count, offset, shape and strides.
fn set_layout(p: &mut FillParams, spec: &FillSpec, layout: &Layout) -> Result<()> {
    // Neighbouring dimensions may merge unless the generator reads coordinates.
    let by_coordinates = matches!(
        spec.pattern,
        Pattern::Sequential { .. } | Pattern::Diagonal { .. } | Pattern::Checkerboard { .. } | Pattern::Exact { .. }
    );
    let dims: Vec<(usize, isize)> =
        if by_coordinates { layout.shape().iter().copied().zip(layout.strides().iter().copied()).collect() } else { layout.collapsed() };
    if dims.len() > MAX_RANK {
        return Err(invalid("rank", dims.len(), format!("at most {MAX_RANK} dimensions can be filled")));
    }
    p.rank = dims.len() as u32;
    for (i, &(extent, stride)) in dims.iter().enumerate() {
        p.shape[i] = extent as u64;
        p.strides[i] = stride as i64;
    }
    if layout.is_contiguous() {
        p.flags |= flag::CONTIGUOUS;
    }
    layout.expect_distinct()
}

fn pattern(p: &mut FillParams, spec: &FillSpec, format: Format) -> Result<()> {
    match spec.pattern {
        Pattern::Uniform { min, max } => {
            ordered(min, max)?;
            let (min, max) = (format.holds("min", min)?, format.holds("max", max)?);
            if format.dtype.is_int() { integers(p, format.whole(), min, max) } else { uniform(p, &format, min, max) }
        }
        Pattern::Bounce { near, far } => bounce(p, &format, near, far),
        Pattern::Integers { min, max } => whole_numbers(p, &format, min, max),
        Pattern::Normal { mean, sigma } => normal(p, &format, mean, sigma),
        Pattern::Constant { value } => {
            p.kind = kind::CONSTANT;
            p.a = constant(&format, value)?;
            Ok(())
        }
        // Kernels have no place for them: see `values.rs`.
        Pattern::Values { ref values } if values.is_empty() => {
            Err(invalid("values", "an empty list", "at least one number is needed".to_owned()))
        }
        Pattern::Values { ref values } => values.iter().try_for_each(|&value| constant(&format, value).map(drop)),
        Pattern::Sequential { dim } => sequential(p, &format, dim),
        Pattern::Diagonal { value } => diagonal(p, &format, value),
        Pattern::Checkerboard { value } => {
            format.negatives("checkerboard")?;
            p.kind = kind::CHECKERBOARD;
            p.a = constant(&format, value)?;
            constant(&format, -value).map(drop)
        }
        Pattern::Monotonic { init, step } => monotonic(p, &format, init, step),
        Pattern::Sin | Pattern::Cos => {
            format.negatives("sin or cos")?;
            p.kind = if spec.pattern == Pattern::Sin { kind::SIN } else { kind::COS };
            Ok(())
        }
        Pattern::Subnormal => subnormal(p, format.dtype),
        Pattern::Exact { k, max_a, max_b, accumulator, operand } => exact(p, &format, k, [max_a, max_b], accumulator, operand),
        Pattern::CRand { min, max } => crand(p, &format, spec.seed, min, max),
    }
}

fn bounce(p: &mut FillParams, format: &Format, near: f64, far: f64) -> Result<()> {
    format.negatives("bounce")?;
    ordered(near, far)?;
    if near <= 0.0 {
        return Err(invalid("near", near, "it must be above 0".to_owned()));
    }
    let far = format.holds("far", far)?;
    p.flags |= flag::SIGNED;
    if !format.dtype.is_int() {
        return uniform(p, format, near, far);
    }
    integers(p, format.whole(), near, far)?;
    p.int_count *= 2;
    Ok(())
}

/// In any format that holds each whole number up to the ends.
fn whole_numbers(p: &mut FillParams, format: &Format, min: i64, max: i64) -> Result<()> {
    let (least, most) = format.whole();
    if min > max {
        return Err(swapped(min, max));
    }
    if i128::from(min) < least || i128::from(max) > most {
        let limit = format!("{} holds every whole number only from {least} to {most}", format.dtype);
        return Err(invalid("range", format!("[{min}, {max}]"), limit));
    }
    p.kind = kind::INTEGERS;
    p.int_low = min;
    p.int_count = max.abs_diff(min).wrapping_add(1);
    Ok(())
}

fn normal(p: &mut FillParams, format: &Format, mean: f64, sigma: f64) -> Result<()> {
    format.negatives("normal")?;
    if !sigma.is_finite() || sigma < 0.0 {
        return Err(invalid("sigma", sigma, "it must be finite and not negative".to_owned()));
    }
    let round = |v: f64| if is_wide(format.dtype) { v } else { f64::from(v as f32) };
    p.kind = kind::NORMAL;
    (p.a, p.b) = (round(format.holds("mean", mean)?), round(format.holds("sigma", sigma)?));
    (p.low, p.high) = (format.least, format.largest);
    Ok(())
}

fn sequential(p: &mut FillParams, format: &Format, dim: usize) -> Result<()> {
    format.zero("sequential")?;
    if dim as u64 >= u64::from(p.rank) {
        return Err(invalid("dim", dim, format!("the tensor has {} dimensions, counted from 0", p.rank)));
    }
    p.kind = kind::SEQUENTIAL;
    p.dim = dim as u32;
    Ok(())
}

fn diagonal(p: &mut FillParams, format: &Format, value: f64) -> Result<()> {
    format.zero("diagonal")?;
    if p.rank < 2 {
        return Err(invalid("rank", p.rank, "a diagonal needs at least 2 dimensions".to_owned()));
    }
    p.kind = kind::DIAGONAL;
    p.a = constant(format, value)?;
    Ok(())
}

fn monotonic(p: &mut FillParams, format: &Format, init: f64, step: f64) -> Result<()> {
    let init = format.holds("init", init)?;
    if !step.is_finite() {
        return Err(invalid("step", step, "it must be finite".to_owned()));
    }
    if !format.has_zero && step < 0.0 {
        format.negatives("monotonic")?;
    }
    p.kind = kind::MONOTONIC;
    (p.a, p.b) = (init, step);
    Ok(())
}

fn crand(p: &mut FillParams, format: &Format, seed: u64, min: f64, max: f64) -> Result<()> {
    ordered(min, max)?;
    format.zero("crand")?;
    let (min, max) = (format.holds("min", min)?, format.holds("max", max)?);
    if max > f64::from(f32::MAX) || min < -f64::from(f32::MAX) {
        return Err(invalid("range", format!("[{min}, {max}]"), format!("crand computes in f32, up to {:e}", f32::MAX)));
    }
    if seed > u64::from(u32::MAX) {
        return Err(invalid("seed", seed, format!("srand takes at most {}", u32::MAX)));
    }
    p.kind = kind::CRAND;
    (p.a, p.b) = (f64::from(min as f32), max - min);
    Ok(())
}

fn ordered(min: f64, max: f64) -> Result<()> {
    for (what, end) in [("min", min), ("max", max)] {
        if !end.is_finite() {
            return Err(invalid(what, end, "it must be finite".to_owned()));
        }
    }
    if min <= max { Ok(()) } else { Err(swapped(min, max)) }
}

fn swapped(min: impl std::fmt::Display, max: impl std::fmt::Display) -> Error {
    invalid("range", format!("[{min}, {max}]"), "its first end must not exceed its second".to_owned())
}

fn constant(format: &Format, value: f64) -> Result<f64> {
    let float = format.dtype.float_format();
    if value.is_nan() && float.is_some_and(|f| f.has_nan()) {
        return Ok(value);
    }
    if value.is_infinite() && float.is_some_and(|f| f.has_infinity()) {
        return Ok(value);
    }
    // -0.0 is a value of its own here.
    format.holds("value", value).map(|_| value)
}

fn uniform(p: &mut FillParams, format: &Format, min: f64, max: f64) -> Result<()> {
    p.kind = kind::UNIFORM;
    (p.low, p.high) = format.snap(min, max)?;
    let (span, most) = if is_wide(format.dtype) {
        p.a = min;
        (max - min, f64::MAX)
    } else {
        p.a = f64::from(min as f32);
        (f64::from((max - min) as f32), f64::from(f32::MAX))
    };
    if span > most {
        return Err(invalid("range", format!("[{min}, {max}]"), format!("max - min must not exceed {most:e}")));
    }
    p.b = span;
    Ok(())
}

fn integers(p: &mut FillParams, (least, most): (i128, i128), min: f64, max: f64) -> Result<()> {
    // 2^63 is no i64, and 2^64 no u64.
    let (low, high) = ((min.ceil() as i128).max(least), (max.floor() as i128).min(most));
    if low > high {
        return Err(invalid("range", format!("[{min}, {max}]"), "it must contain a whole number".to_owned()));
    }
    p.kind = kind::INTEGERS;
    // Modulo 2^64, as sums with draws are.
    p.int_low = low as i64;
    p.int_count = (high.abs_diff(low) as u64).wrapping_add(1);
    Ok(())
}

fn subnormal(p: &mut FillParams, dtype: DType) -> Result<()> {
    let fractions = dtype.float_format().map_or(0, |f| (1u64 << f.mantissa_bits) - 1);
    if fractions == 0 {
        return Err(invalid("subnormal", dtype, "it needs a format that has subnormal numbers".to_owned()));
    }
    p.kind = kind::SUBNORMAL;
    p.int_low = 1;
    p.int_count = 2 * fractions;
    Ok(())
}

fn exact(p: &mut FillParams, format: &Format, k: u64, max: [u64; 2], accumulator: DType, operand: ProductOperand) -> Result<()> {
    let limit = u64::try_from(Format::of(accumulator).whole().1).unwrap_or(0).min(1 << 24);
    let overflows = max[0].checked_mul(max[1]).is_none_or(|m| m > limit);
    if k == 0 || max.contains(&0) || overflows {
        let value = format!("K {k}, up to {} and {}", max[0], max[1]);
        return Err(invalid(
            "exact product",
            value,
            format!("K and both maxima must be at least 1 and one product at most {limit}, up to which {accumulator} sums are exact"),
        ));
    }
    let safe = limit / (max[0] * max[1]);
    let (largest, period) = if operand == ProductOperand::A { (max[0], k.div_ceil(safe)) } else { (max[1], 1) };
    let (least, most) = format.whole();
    if i128::from(largest) > most {
        return Err(invalid("largest value", largest, format!("{} holds every whole number only up to {most}", format.dtype)));
    }
    if period > 1 {
        format.zero("exact product")?;
    }
    p.kind = kind::INTEGERS;
    p.int_low = 1;
    p.int_count = largest;
    p.period = period;
    if least < 0 {
        p.flags |= flag::SIGNED;
        p.int_count *= 2;
    }
    Ok(())
}

/// Special values and sparsity.
fn overlay(p: &mut FillParams, spec: &FillSpec, dtype: DType, layout: &Layout) -> Result<()> {
    let rate = spec.special_rate;
    if !(0.0..=1.0).contains(&rate) {
        return Err(invalid("special", rate, "a rate lies between 0 and 1".to_owned()));
    }
    if rate > 0.0 {
        p.special_below = (rate * (1u64 << 32) as f64) as u64;
        let Some(f) = dtype.float_format() else {
            return Err(invalid("special", dtype, "integers have no special values".to_owned()));
        };
        for (has, bit) in
            [(f.specials != Specials::E8m0, flag::HAS_ZERO), (f.has_infinity(), flag::HAS_INFINITE), (f.has_nan(), flag::HAS_NAN)]
        {
            p.flags |= if has { bit } else { 0 };
        }
    }
    if spec.sparse {
        Format::of(dtype).zero("sparse24")?;
        let last = layout.shape().last().copied().unwrap_or(1);
        if !last.is_multiple_of(4) {
            return Err(invalid("last dimension", last, "2:4 sparsity needs a multiple of 4".to_owned()));
        }
        p.flags |= flag::SPARSE;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
