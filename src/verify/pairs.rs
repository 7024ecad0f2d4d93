//! The pairs of a comparison one by one, in row-major order: for lists and pictures of what a report counts.
//!
//! By the rule of one element, on the host, one after the other. Verdicts are not made this way: it is some hundred times slower.

use super::options::{Options, Request};
use super::report::{Report, Value};
use super::rule::{AnyRule, NonFinite};
use super::{Tolerance, expect_shape};
use crate::device::{DeviceKind, TensorRef};
use crate::error::{Error, Result};

/// A result and its reference, with what the comparison makes of them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pair {
    /// Logical row-major index.
    pub index: usize,
    /// The result's value.
    pub result: Value,
    /// The reference's value.
    pub reference: Value,
    /// a - r, in the arithmetic of the pair.
    pub difference: f64,
    /// |a - r| / (rtol·|r| + atol), 0 where both are equal; infinite for a pair that is not finite and does not pass.
    pub ratio: f64,
    /// Whether the pair does not pass.
    pub mismatch: bool,
}

/// Shows every pair to `take`, with the tolerance of a report on the same tensors. `take` says whether it wants more.
///
/// # Errors
/// [`Error::Shape`] when the shapes differ, [`Error::WrongDevice`] for tensors that are not on the host, and what `take` returns.
pub fn each_pair<E: From<Error>>(
    result: &TensorRef<'_>,
    reference: &TensorRef<'_>,
    report: &Report,
    nonfinite: NonFinite,
    mut take: impl FnMut(Pair) -> Result<(), E>,
) -> Result<(), E> {
    expect_shape(reference, result, "the result")?;
    for tensor in [result, reference] {
        if tensor.device().kind() != DeviceKind::Host {
            return Err(Error::WrongDevice { what: "a tensor", expected: "the host".to_owned(), found: tensor.device().name() }.into());
        }
    }
    let &Report { rtol, atol, by_binade, .. } = report;
    let defaults = Request::new(&Options::default(), result.dtype(), &Tolerance::exact(), 0.0);
    let rule = AnyRule::new([result.dtype(), reference.dtype()], &Request { rtol, atol, by_binade, nonfinite, ..defaults });
    for index in 0..result.elements() {
        let [a, r] = [result, reference].map(|t| value(t, index));
        let (difference, ratio, mismatch) = rule.judge(a, r);
        take(Pair { index, result: a, reference: r, difference, ratio, mismatch })?;
    }
    Ok(())
}

/// An element of a tensor on the host.
fn value(tensor: &TensorRef<'_>, index: usize) -> Value {
    Value::of(tensor.dtype(), tensor.dtype().load_bits(tensor.host_bytes(), tensor.layout().index(index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceMem, Layout};
    use crate::dtype::{F16, Scalar};
    use crate::verify::{Metric, gpu_verify_with};

    /// The elements of a strided pair, held against its report.
    fn agree<A: Scalar, R: Scalar>(values: &[(f64, f64)], nonfinite: NonFinite) {
        let device = Device::host();
        let a: Vec<A> = values.iter().map(|v| A::from_f64(v.0)).collect();
        let r: Vec<R> = values.iter().map(|v| R::from_f64(v.1)).collect();
        let (a, r) = (DeviceMem::from_slice(&device, &a).unwrap(), DeviceMem::from_slice(&device, &r).unwrap());
        let columns = || Layout::strided(&[values.len() / 2, 2], &[1, values.len() as isize / 2], 0).unwrap();
        let (a, r) = (a.strided(columns()).unwrap(), r.strided(columns()).unwrap());
        let options = Options::default().nonfinite(nonfinite).first(64);
        let report = gpu_verify_with(&a, &r, &Tolerance::new(1e-2, 1e-3).unwrap(), &options).unwrap();
        let mut all = Vec::new();
        each_pair(&a, &r, &report, nonfinite, |pair| -> Result<()> {
            all.push(pair);
            Ok(())
        })
        .unwrap();
        let found: Vec<(usize, Value, Value)> = all.iter().filter(|e| e.mismatch).map(|e| (e.index, e.result, e.reference)).collect();
        let expected: Vec<(usize, Value, Value)> = report.first.iter().map(|at| (at.index, at.result, at.reference)).collect();
        // As text, where a NaN equals itself.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{} against {}", A::DTYPE, R::DTYPE);
        assert_eq!((found.len() as u64, all.len()), (report.mismatches, values.len()));
        let worst = all.iter().map(|e| e.ratio).filter(|ratio| ratio.is_finite()).fold(0.0, f64::max);
        assert_eq!(worst, report.worst(Metric::Ratio).map_or(0.0, |w| w.value));
        let largest = all.iter().map(|e| e.difference.abs()).filter(|d| d.is_finite()).fold(0.0, f64::max);
        assert_eq!(largest, report.worst_absolute.map_or(0.0, |w| w.value));
    }

    #[test]
    fn elements_are_those_that_the_report_counts() {
        let finite = [(1.0, 1.0), (1.5, 1.0), (-3.0, -2.0), (0.0, 0.0), (100.0, 101.0), (7.0, 7.0), (0.0, 5.0), (64.0, 63.0)];
        let special = [
            (f64::NAN, f64::NAN),
            (f64::INFINITY, f64::INFINITY),
            (f64::INFINITY, f64::NEG_INFINITY),
            (1.0, f64::NAN),
            (2.0, 2.0),
            (3.0, 4.0),
        ];
        for nonfinite in [NonFinite::Fail, NonFinite::EqualWhenSame] {
            agree::<F16, f32>(&finite, nonfinite);
            agree::<f32, f64>(&finite, nonfinite);
            agree::<i64, i32>(&finite, nonfinite);
            agree::<i8, f32>(&finite, nonfinite);
            agree::<F16, f32>(&special, nonfinite);
            agree::<f64, f64>(&special, nonfinite);
        }
    }
}
