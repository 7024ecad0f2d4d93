//! Tensors in and out of a reference: widened once, in logical order; results rounded once.

use super::accumulate::{Accumulate, Arithmetic};
use super::chain::Number;
use super::chain::{Chain, F32, F32Fma, F64, Four, FourApart, MatrixCore, Rounded, Vectorised};
use crate::device::host::zeros;
use crate::device::{Layout, TensorMut, TensorRef, reader};
use crate::dtype::{DType, Overflow, Rounding, convert};
use crate::error::{Error, Result};
use crate::parallel;
use bytemuck::Zeroable;

/// Elements of one task; even, so that packed elements do not share a byte between tasks.
const TASK: usize = 1 << 14;

/// Two operands, widened exactly: to f32 where both formats allow it, else to f64.
pub(crate) enum Operands {
    Single(Vec<f32>, Vec<f32>),
    Double(Vec<f64>, Vec<f64>),
}

/// What runs once the types are known.
pub(crate) trait Evaluation {
    /// Elements of the result.
    fn elements(&self) -> usize;
    /// Accumulates; the result in its own order.
    fn run<S: Number + Into<C::Element>, C: Chain>(&self, chain: C, a: &[S], b: &[S]) -> Result<Vec<f64>>;
}

/// Which operand of the device code the first one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Source,
    Other,
}

impl Operands {
    /// Reads both tensors.
    pub(crate) fn read(arithmetic: Arithmetic, a: &TensorRef<'_>, b: &TensorRef<'_>) -> Result<Operands> {
        arithmetic.accepts(a.dtype(), b.dtype())?;
        let flush = arithmetic.flush_subnormals;
        if a.dtype().fits_f32() && b.dtype().fits_f32() {
            let one = |t| operand(t, flush, convert::decode_f32, |v| v as f32);
            return Ok(Operands::Single(one(a)?, one(b)?));
        }
        let one = |t| operand(t, flush, convert::decode_f64, |v| v);
        Ok(Operands::Double(one(a)?, one(b)?))
    }

    /// The operands without signs; a magnitude that is not 0 counts as at least the given number.
    pub(crate) fn magnitudes(self, least: [f64; 2]) -> Operands {
        fn absolute<T: Number + PartialOrd>(mut v: Vec<T>, least: T) -> Vec<T> {
            let raised = |x: T| if x > T::default() && x < least { least } else { x };
            change(&mut v, |x| raised(x.magnitude()));
            v
        }
        let [a_least, b_least] = least;
        match self {
            Operands::Single(a, b) => Operands::Single(absolute(a, a_least as f32), absolute(b, b_least as f32)),
            Operands::Double(a, b) => Operands::Double(absolute(a, a_least), absolute(b, b_least)),
        }
    }

    /// Runs `evaluation` on the host with the chain of `accumulate`; [`Arithmetic::accepts`] has checked that the operands fit.
    pub(crate) fn run(&self, accumulate: Accumulate, evaluation: &impl Evaluation) -> Result<Vec<f64>> {
        match (self, accumulate) {
            (Operands::Single(a, b), Accumulate::F64) => evaluation.run(Vectorised(F64), a, b),
            (Operands::Single(a, b), Accumulate::F64Rounded) => evaluation.run(Vectorised(Rounded), a, b),
            (Operands::Single(a, b), Accumulate::Every4) => evaluation.run(Vectorised(Four), a, b),
            (Operands::Single(a, b), Accumulate::Groups4) => evaluation.run(Vectorised(FourApart), a, b),
            (Operands::Single(a, b), Accumulate::F32) => evaluation.run(Vectorised(F32), a, b),
            (Operands::Single(a, b), Accumulate::F32Fma) => evaluation.run(Vectorised(F32Fma), a, b),
            (Operands::Single(a, b), Accumulate::MatrixCore(model)) => evaluation.run(MatrixCore(model), a, b),
            (Operands::Double(a, b), Accumulate::F64) => evaluation.run(Vectorised(F64), a, b),
            (Operands::Double(a, b), Accumulate::F64Rounded) => evaluation.run(Vectorised(Rounded), a, b),
            (Operands::Double(a, b), Accumulate::Every4) => evaluation.run(Vectorised(Four), a, b),
            (Operands::Double(a, b), Accumulate::Groups4) => evaluation.run(Vectorised(FourApart), a, b),
            (Operands::Double(..), _) => {
                Err(Error::Unsupported { what: "an operand of more than 24 significant bits".to_owned(), by: accumulate.to_string() })
            }
        }
    }
}

/// Puts `to` of each value in its place.
fn change<T: Copy + Send>(values: &mut [T], to: impl Fn(T) -> T + Sync) {
    parallel::chunks_mut(values, TASK, |_, part| part.iter_mut().for_each(|v| *v = to(*v)));
}

/// The elements in logical order, subnormal ones as 0 where they are to be flushed.
fn operand<T: Number + PartialOrd + Zeroable>(
    t: &TensorRef<'_>,
    flush: bool,
    decode: impl Fn(DType, &[u8], &mut [T]) + Sync,
    from: impl Fn(f64) -> T,
) -> Result<Vec<T>> {
    let mut values = read(t, decode)?;
    if let (true, Some(format)) = (flush, t.dtype().float_format()) {
        let least = from(format.min_normal());
        change(&mut values, |v| if v.magnitude() < least { T::default() } else { v });
    }
    Ok(values)
}

/// The elements in logical order.
fn read<T: Number + Zeroable>(t: &TensorRef<'_>, decode: impl Fn(DType, &[u8], &mut [T]) + Sync) -> Result<Vec<T>> {
    let bytes = t.fetch()?;
    let host = TensorRef::from_host_bytes(&bytes, t.dtype(), t.layout().clone())?;
    let mut out = zeros::<T>(t.elements())?;
    reader::blocks(&host, &mut out, |bytes, part| decode(t.dtype(), bytes, part));
    Ok(out)
}

/// The values of a tensor as f64, in logical order.
pub(crate) fn read_f64(t: &TensorRef<'_>) -> Result<Vec<f64>> {
    read(t, convert::decode_f64)
}

/// Rounds f64 values to f32, nearest even.
pub(crate) fn round_to_f32(values: &mut [f64]) {
    change(values, |v| f64::from(v as f32));
}

/// Writes `values` in logical order, rounded once, nearest even, IEEE overflow. NaN is written as one pattern, since the one that arithmetic gives
/// depends on the machine.
pub(crate) fn write(t: &mut TensorMut<'_>, values: &[f64]) -> Result<()> {
    let dtype = t.as_ref().dtype();
    let layout: Layout = t.as_ref().layout().clone();
    if layout.elements() != values.len() {
        return Err(Error::Length { what: "elements of the result", expected: values.len(), found: layout.elements() });
    }
    t.change(|bytes| encode(dtype, &layout, values, bytes))
}

fn encode(dtype: DType, layout: &Layout, values: &[f64], bytes: &mut [u8]) {
    if layout.is_contiguous() && layout.offset() == 0 && values.len().is_multiple_of(dtype.per_unit()) {
        let size = dtype.bytes_for(TASK).unwrap_or(usize::MAX);
        let needed = dtype.bytes_for(values.len()).unwrap_or(usize::MAX);
        parallel::chunks_mut(&mut bytes[..needed], size, |i, to| {
            let from = &values[i * TASK..values.len().min((i + 1) * TASK)];
            let one_nan = |v: &f64| if v.is_nan() { f64::NAN } else { *v };
            if from.iter().any(|v| v.is_nan()) {
                let from: Vec<f64> = from.iter().map(one_nan).collect();
                convert::encode_from_f64(dtype, &from, Rounding::NearestEven, Overflow::Ieee, to);
            } else {
                convert::encode_from_f64(dtype, from, Rounding::NearestEven, Overflow::Ieee, to);
            }
        });
    } else {
        for (i, &v) in values.iter().enumerate() {
            let v = if v.is_nan() { f64::NAN } else { v };
            dtype.store_bits(bytes, layout.index(i), dtype.encode(v, Rounding::NearestEven, Overflow::Ieee));
        }
    }
}
