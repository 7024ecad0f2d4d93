//! Operators as cases of a suite: whole numbers as results, parameters, and what is refused.

use super::super::Steps;
use super::{operators, suite};
use crate::device::Device;
use crate::suite::record::CaseOutcome;

/// As `numpy.less` and the others have it.
#[test]
fn questions_are_answered_by_one_and_zero() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let (a, b) = (vec![1.0, 2.0, 0.0, nan, inf], vec![2.0, 1.0, -0.0, nan, inf]);
    for (name, expected) in [
        ("less_than", [1.0, 0.0, 0.0, 0.0, 0.0]),
        ("less_equal", [1.0, 0.0, 1.0, 0.0, 1.0]),
        ("greater_than", [0.0, 1.0, 0.0, 0.0, 0.0]),
        ("greater_equal", [0.0, 1.0, 1.0, 0.0, 1.0]),
        ("equal", [0.0, 0.0, 1.0, 0.0, 1.0]),
        ("not_equal", [1.0, 1.0, 0.0, 1.0, 0.0]),
        ("isnan", [0.0, 0.0, 0.0, 1.0, 0.0]),
        ("isinf", [0.0, 0.0, 0.0, 0.0, 1.0]),
        ("isfinite", [1.0, 1.0, 1.0, 0.0, 0.0]),
    ] {
        let operator = &operators(&format!("operator = '{name}'\nshape = '5'"))[0];
        assert_eq!(operator.compute(&Steps::F64, &[a.clone(), b.clone()]), expected, "{name}");
    }
}

/// From the text of a suite to the verdict, on the host.
#[test]
fn whole_numbers_have_to_be_equal() {
    let run = |text: &str| {
        let suite = suite(&format!("[[operator]]\n{text}")).unwrap();
        let result = suite.execute(&suite.cases[0], &Device::host());
        (result.outcome, result.report.unwrap()["result_dtype"].as_str().unwrap().to_owned())
    };
    for (text, outcome, dtype) in [
        ("operator = 'argmax'\nshape = '8x300'", CaseOutcome::Pass, "i64"),
        ("operator = 'argmin'\nshape = '8x300'\naxis = 0\noutput = 'u8'", CaseOutcome::Pass, "u8"),
        ("operator = 'argmax'\nshape = '8x300'\nkernel = 'f32+neighbour'\nexpected = 'fail'", CaseOutcome::Fail, "i64"),
        ("operator = 'less_than'\nshape = '8x30'\ntype = 'bf16'", CaseOutcome::Pass, "u8"),
        ("operator = 'equal'\nshape = '8x30'\noutput = 'i32'\ndata = 'int:0,3'", CaseOutcome::Pass, "i32"),
        ("operator = 'less_than'\nshape = '8x30'\nkernel = 'f32+zeros'", CaseOutcome::Fail, "u8"),
        ("operator = 'attention'\nshape = '2x2x16x8'\ncausal = true", CaseOutcome::Pass, "f16"),
        ("operator = 'attention'\nshape = '2x2x16x8'\npass = 'gradient'\ngradient_of = 'k'\ntype = 'f32'", CaseOutcome::Pass, "f32"),
        ("operator = 'attention'\nshape = '2x2x16x8'\npass = 'gradient'\nkernel = 'f32+detached'", CaseOutcome::Fail, "f16"),
        ("operator = 'attention'\nshape = '2x2x16x8'\nkernel = 'f32+unshifted'\ndata = 'uniform:8,16'", CaseOutcome::Fail, "f16"),
    ] {
        assert_eq!(run(text), (outcome, dtype.to_owned()), "{text}");
    }
}

#[test]
fn what_operators_lack_is_refused() {
    for (text, words) in [
        (
            "operator = 'argmax'\nshape = '4'\npass = 'gradient'",
            "s.toml:4: case `operator`: argmax has no gradient: its results are whole numbers",
        ),
        ("operator = 'isnan'\nshape = '4'\npass = 'gradient'\ngradient_of = 'x'", "isnan has no gradient"),
        (
            "operator = 'argmax'\nshape = '4'\noutput = 'f32'",
            "s.toml:4: case `operator`: the format f32 of the result is not supported by argmax",
        ),
        ("operator = 'argmax'\nshape = '300'\noutput = 'u8'", "whose results are whole numbers up to 299"),
        ("operator = 'argmax'\nshape = '300'\noutput = 'i8'", "the format i8 of the result"),
        ("operator = 'matmul'\nshape = '20000x20000x1'", "A, B and their product have at most 268435456 elements each"),
        ("operator = 'attention'\nshape = '4x4x4'", "shape of attention cannot be 4x4x4: it must be BATCHxHEADSxSEQxDIM"),
        ("operator = 'attention'\nshape = '1x1x8193x1'", "seq of attention cannot be 8193: SEQ is at most 8192"),
        ("operator = 'softmax'\nshape = '4'\ncausal = true", "`causal` is not for softmax"),
        ("operator = 'attention'\nshape = '1x1x1x1'\ncausal = 'yes'", "`causal` = yes"),
        ("operator = 'relu'\nshape = '4'\nparameters = 'slope=1'", "`parameters` is not for relu"),
        ("operator = 'leaky_relu'\nshape = '4'\nparameters = 'slop=1'", "`slop` is none of its parameters: slope"),
        ("operator = 'leaky_relu'\nshape = '4'\nparameters = 'slope=inf'", "slope: a finite number is wanted, not inf"),
        ("operator = 'leaky_relu'\nshape = '4'\nparameters = 'slope=x'", "slope: a finite number is wanted"),
        ("operator = 'tril'\nshape = '4'", "tril is of matrices: shape takes at least two extents"),
        ("operator = 'triu'\nshape = '4x4'\nparameters = 'diagonal=0.5'", "diagonal must be a whole number"),
        ("operator = 'p_norm'\nshape = '4'\nparameters = 'p=0.5'", "p must be 1 to 16"),
        ("operator = 'clip'\nshape = '4'", "parameters of an operator cannot be none: `min` is missing; it takes min max"),
        ("operator = 'clip'\nshape = '4'\nparameters = 'min=2,max=1'", "min must not be above max"),
        ("operator = 'clip'\nshape = '4'\nparameters = 'min=-1e5,max=1'", "-1e5 is beyond the numbers of f16"),
    ] {
        let error = suite(&format!("[[operator]]\n{text}")).map(drop).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// 0.1 is above f16's nearest number, which the gradient lets through, and below bf16's.
#[test]
fn ends_of_clip_are_numbers_of_the_type() {
    for (dtype, end) in [("f16", 0.099_975_585_937_5), ("bf16", 0.100_097_656_25), ("f32", f64::from(0.1f32)), ("f64", 0.1)] {
        let of = |pass: &str| {
            operators(&format!("operator = 'clip'\npass = '{pass}'\nshape = '3'\ntype = '{dtype}'\nparameters = 'min=0.1,max=1'")).remove(0)
        };
        assert_eq!(of("forward").parameters().collect::<Vec<_>>(), [("min", end), ("max", 1.0)], "{dtype}");
        assert_eq!(of("forward").compute(&Steps::F64, &[vec![-1.0, end, 2.0]]), [end, end, 1.0], "{dtype}");
        assert_eq!(of("gradient").compute(&Steps::F64, &[vec![-1.0, end, 2.0], vec![3.0; 3]]), [0.0, 3.0, 0.0], "{dtype}");
    }
}

/// A program and a launch line are told the numbers of an operator.
#[test]
fn parameters_are_part_of_a_case() {
    let [elu, attention] =
        ["operator = 'elu'\nshape = '4'\nparameters = 'alpha=1.5'", "operator = 'attention'\nshape = '2x3x4x5'\ncausal = true"]
            .map(|text| operators(text).remove(0));
    assert_eq!(elu.about(), "elu of x[4], alpha 1.5");
    assert_eq!(elu.described(), serde_json::json!({ "name": "elu", "gradient_of": null, "axis": null, "parameters": { "alpha": 1.5 } }));
    assert_eq!(attention.about(), "attention of q[2, 3, 4, 5], k[2, 3, 4, 5], v[2, 3, 4, 5], causal");
    assert_eq!(attention.described(), serde_json::json!({ "name": "attention", "gradient_of": null, "axis": null, "causal": true }));
    assert_eq!(attention.numbers(), [("batch", 2), ("heads", 3), ("seq", 4), ("dim", 5), ("causal", 1)]);
    for (text, numbers) in [
        ("operator = 'tril'\nshape = '2x3x4x5'", &[("m", 4), ("n", 5), ("batch", 6)][..]),
        ("operator = 'triu'\npass = 'gradient'\nshape = '4x5'", &[("m", 4), ("n", 5), ("batch", 1)]),
        ("operator = 'matmul'\nshape = '2x3x4x5'", &[("m", 3), ("n", 4), ("k", 5), ("batch", 2)]),
        ("operator = 'softmax'\nshape = '2x3x4'\naxis = 1", &[("outer", 2), ("n", 3), ("inner", 4), ("resized", 3)]),
        ("operator = 'relu'\nshape = '2x3'", &[]),
    ] {
        assert_eq!(operators(text)[0].numbers(), numbers, "{text}");
    }
    let line = |argument: &str| {
        suite(&format!(
            "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = ['x', 'result', '{argument}']\n\
            [[operator]]\noperator = 'elu'\nshape = '4'\nkernel = 'k'"
        ))
    };
    assert!(line("f32:alpha").is_ok());
    assert!(line("f32:slope").is_err());
    assert!(line("alpha").unwrap_err().to_string().contains("it takes a format, such as f32:alpha"));
}
