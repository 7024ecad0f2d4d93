//! The pairs of a comparison one by one, in row-major order, on the host: for lists and pictures of what a report counts.

use super::options::{Options, Request};
use super::report::{Report, Value};
use super::rule::NonFinite;
use super::{Tolerance, expect_shape, host};
use crate::device::{DeviceKind, TensorRef};
use crate::error::{Error, Result};
use crate::parallel;

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

/// Elements of a part of [`fold_pairs`].
const PART: usize = 1 << 16;

/// Shows every pair to `take`, in ascending order, with the tolerance of a report on the same tensors. `take` says whether it wants more.
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
    let join = |pairs: Vec<Pair>| pairs.into_iter().try_for_each(&mut take);
    fold_pairs(result, reference, report, nonfinite, |_| Vec::with_capacity(PART), Vec::push, join)
}

/// Shows every pair of a result and its reference to `take`, with the tolerance of a report on the same tensors: on all cores, in parts of 2^16 elements, in ascending order
/// within a part. A part has a state, which `begin` makes of the index of the part's first element; `join` gets the states in ascending order, and says whether it wants
/// more. So what comes out does not depend on the number of cores.
///
/// # Errors
/// [`Error::Shape`] when the shapes differ, [`Error::WrongDevice`] for tensors that are not on the host, and what `join` returns.
pub fn fold_pairs<S: Send, E: From<Error>>(
    result: &TensorRef<'_>,
    reference: &TensorRef<'_>,
    report: &Report,
    nonfinite: NonFinite,
    begin: impl Fn(usize) -> S + Sync,
    take: impl Fn(&mut S, Pair) + Sync,
    mut join: impl FnMut(S) -> Result<(), E>,
) -> Result<(), E> {
    expect_shape(reference, result, "the result")?;
    for tensor in [result, reference] {
        if tensor.device().kind() != DeviceKind::Host {
            return Err(Error::WrongDevice { what: "a tensor", expected: "the host".to_owned(), found: tensor.device().name() }.into());
        }
    }
    let &Report { rtol, atol, by_binade, .. } = report;
    let defaults = Request::new(&Options::default(), result.dtype(), &Tolerance::exact(), 0.0);
    let request = Request { rtol, atol, by_binade, nonfinite, ..defaults };
    let elements = result.elements();
    let part = |number: usize| {
        let start = number * PART;
        let mut state = begin(start);
        host::each_pair([result, reference], &request, start..elements.min(start + PART), |pair| take(&mut state, pair));
        state
    };
    // Few states at a time: those of a list may be large.
    let (parts, together) = (elements.div_ceil(PART), 2 * parallel::threads());
    for first in (0..parts).step_by(together) {
        parallel::map(together.min(parts - first), |k| part(first + k)).into_iter().try_for_each(&mut join)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{AsTensor, Device, DeviceMem, Layout};
    use crate::dtype::{DType, F16, Scalar};
    use crate::verify::rule::AnyRule;
    use crate::verify::{Metric, gpu_verify, gpu_verify_with};

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

    /// Of a strided pair, by the rule of one element.
    fn check(dtypes: [DType; 2], patterns: [Vec<u64>; 2], nonfinite: NonFinite, tolerance: Tolerance) {
        let n = patterns[0].len();
        let bytes = [0, 1].map(|side| {
            let mut bytes = vec![0; dtypes[side].bytes_for(n).unwrap()];
            patterns[side].iter().enumerate().for_each(|(i, bits)| dtypes[side].store_bits(&mut bytes, i, *bits));
            bytes
        });
        let columns = || Layout::strided(&[n / 3, 3], &[1, n as isize / 3], 0).unwrap();
        let [a, r] = [0, 1].map(|side| TensorRef::from_host_bytes(&bytes[side], dtypes[side], columns()).unwrap());
        let report = gpu_verify(&a, &r, &tolerance).unwrap();
        let (mut next, mut starts) = (0, Vec::new());
        let rule = AnyRule::new(dtypes, &Request { rtol: report.rtol, atol: report.atol, nonfinite, ..crate::verify::tests::REQUEST });
        let join = |(start, pairs): (usize, Vec<Pair>)| -> Result<()> {
            starts.push(start);
            for pair in pairs {
                let at = columns().index(next);
                let values = [0, 1].map(|side| Value::of(dtypes[side], patterns[side][at]));
                let (difference, ratio, mismatch) = rule.judge(values[0], values[1]);
                let expected = Pair { index: next, result: values[0], reference: values[1], difference, ratio, mismatch };
                // As text, where a NaN equals itself and zeros have their signs.
                assert_eq!(format!("{pair:?}"), format!("{expected:?}"), "{dtypes:?}, {nonfinite:?}");
                next += 1;
            }
            Ok(())
        };
        fold_pairs(&a, &r, &report, nonfinite, |start| (start, Vec::new()), |state, pair| state.1.push(pair), join).unwrap();
        assert_eq!((next, starts), (n, (0..n).step_by(PART).collect()), "{dtypes:?}");
    }

    #[test]
    fn pairs_are_judged_by_the_rule_of_one_element() {
        use DType::*;
        for (da, dr, n) in [
            (F16, F32, 2 * PART + 1),
            (F32, F32, 4500),
            (F64, F32, 4500),
            (F8E4M3, Bf16, 4500),
            (F8E8M0, F4E2M1, 4500),
            (I4, Bool, 4500),
            (I16, F32, 4500),
            (I64, F64, 4500),
            (F64, U64, 4500),
            (U64, I64, 4500),
            (I32, U8, 4500),
        ] {
            let mut state = 1u64;
            let mut random = |dtype: DType| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Half of the elements have few different patterns: some of these are equal.
                (if state >> 63 == 0 { state >> 40 & 3 } else { state ^ state >> 31 }) & (u64::MAX >> (64 - dtype.bits()))
            };
            let patterns = [da, dr].map(|dtype| (0..n / 3 * 3).map(|_| random(dtype)).collect::<Vec<u64>>());
            for (nonfinite, rtol, atol) in
                [(NonFinite::Fail, 0.5, 1.0), (NonFinite::EqualWhenSame, 0.0, 0.0), (NonFinite::Fail, 1e300, 1e300)]
            {
                check([da, dr], patterns.clone(), nonfinite, Tolerance::new(rtol, atol).unwrap());
            }
        }
    }

    #[test]
    fn who_wants_no_more_gets_no_more() {
        let device = Device::host();
        let zeros = DeviceMem::<f32>::from_slice(&device, &vec![0.0; 1000]).unwrap();
        let report = gpu_verify(&zeros, &zeros, &Tolerance::exact()).unwrap();
        let view = zeros.as_tensor();
        let mut taken = 0;
        let stop = |_| {
            taken += 1;
            if taken < 10 { Ok(()) } else { Err(Error::Shape { what: "enough".to_owned(), expected: Vec::new(), found: Vec::new() }) }
        };
        assert!(each_pair(&view, &view, &report, NonFinite::Fail, stop).is_err());
        assert_eq!(taken, 10);
    }
}
