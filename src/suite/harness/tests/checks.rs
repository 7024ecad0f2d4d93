//! The rule `check`.

use super::*;

/// What each of these kernels does wrong is a hundred bounds or more, and none has a reference to be near to.
#[test]
fn checks_judge_by_bounds_and_name_causes() {
    let gemm = "[[gemm]]\nsize = '8x8x64'\ntype = 'f32'\nkernel = 'mine'\nrule = 'check'\n";
    let whole = "alpha = 0.5\nbeta = -2\nbias = true\nactivation = 'relu'";
    for (leave_out, outcome) in [
        ("", CaseOutcome::Pass),
        ("alpha", CaseOutcome::Fail),
        ("c", CaseOutcome::Fail),
        ("bias", CaseOutcome::Fail),
        ("relu", CaseOutcome::Fail),
    ] {
        let suite = suite(&format!("{gemm}{whole}"), linear(leave_out)).unwrap();
        let result = suite.execute(&suite.cases[0], &Device::host());
        assert_eq!(result.outcome, outcome, "without {leave_out}: {result:?}");
        let report = result.report.unwrap();
        let places = ["/report/bound/gamma", "/confidence", "/arithmetic"];
        assert!(places.iter().all(|place| report.pointer(place).is_some()), "{report}");
        if outcome == CaseOutcome::Fail {
            assert!(result.reasons[0].ends_with("of 64 elements are beyond their bounds"), "{:?}", result.reasons);
            let map = result.details.unwrap().map.unwrap();
            let wrong: f32 = map.shares.iter().sum();
            assert_eq!(f64::from(wrong), report["report"]["mismatches"].as_f64().unwrap(), "an element a block");
            assert!(result.metrics.iter().any(|m| m.name == "max_ratio" && m.value > 100.0), "{:?}", result.metrics);
        }
    }
    // Without the last terms: the operands tell what is missing.
    let short = Kernels::default().with("mine", |launch, _| {
        let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
        let element = |i: usize| (0..60).map(|p| a[i / 8 * 64 + p] * b[p * 8 + i % 8]).sum::<f32>();
        Ok(launch.write(&(0..64).map(element).collect::<Vec<f32>>())?)
    });
    let suite = suite(gemm, short).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    let [beyond, cause] = result.reasons.as_slice() else { panic!("{result:?}") };
    assert!(
        beyond.contains("beyond their bounds") && cause.contains("the last 4 products of each sum are missing"),
        "{:?}",
        result.reasons
    );
    assert_eq!(result.report.unwrap()["cause"]["evidence"], serde_json::json!(cause));
}

#[test]
fn metrics_of_a_check_are_those_of_the_errors() {
    // 1 1 times 1 1: 2 is exact.
    let kernels = |x: f32| Kernels::default().with("mine", move |launch, _| Ok(launch.write(&[x])?));
    let text = "[[gemm]]\nsize = '1x1x2'\ntype = 'f32'\nkernel = 'mine'\nrule = 'check'\ndata = 'constant:1'\n";
    let metric = |x: f32, name: &str| {
        let suite = suite(text, kernels(x)).unwrap();
        let result = suite.execute(&suite.cases[0], &Device::host());
        result.metrics.iter().find(|m| m.name == name).unwrap().value
    };
    assert_eq!(
        ["mismatches", "max_abs", "max_rel", "rms"].map(|name| metric(2.5, name)),
        [1.0, 0.5, 0.25, 0.2],
        "an RMS is relative to the largest magnitude"
    );
    assert_eq!(["mismatches", "max_abs", "max_ratio"].map(|name| metric(2.0, name)), [0.0; 3]);
    let limited = |limits: &str| {
        let suite = suite(&format!("{text}limits = {{ {limits} }}"), kernels(2.0f32.next_up())).unwrap();
        suite.execute(&suite.cases[0], &Device::host())
    };
    // An error of 2^-22, where 2 products of 1 may be off by two units in the last place of 2.
    assert_eq!(limited("max_abs = 3e-7, max_ulp = 1, max_ratio = 1").outcome, CaseOutcome::Pass);
    for (limits, reason) in [
        ("max_abs = 2e-7", "max_abs is 2.384185791015625e-7, beyond its limit 2e-7"),
        ("max_ulp = 0.5", "max_ulp is 1e0, beyond its limit 5e-1"),
        ("mismatches = 0, max_ratio = 0.1", "max_ratio is "),
    ] {
        let found = limited(limits);
        assert!(found.outcome == CaseOutcome::Fail && found.reasons[0].starts_with(reason), "{limits}: {found:?}");
    }
}

#[test]
fn what_can_be_checked_ends_so() {
    let conv = "[[conv]]\nsize = '2 1 2 4 3 3 3 6 6 1 1 1 1 1 1 1 1'\nrule = 'check'\ndirection = ";
    let gemm = "[[gemm]]\nsize = '16x16x64'\nrule = 'check'\n";
    for (text, outcome) in [
        (format!("{conv}'fwd'"), CaseOutcome::Pass),
        (format!("{conv}'bwd_data'\ntype = 'bf16'\noutput = 'f32'"), CaseOutcome::Pass),
        (format!("{conv}'bwd_weight'\nkernel = 'gfx90a'\nlayout = 'nhwgc,gkyxc,nhwgk'"), CaseOutcome::Pass),
        (format!("{conv}'fwd'\nkernel = 'fma@gpu:99'\nexpected = 'fail'"), CaseOutcome::Error),
        (format!("{gemm}layout = 'tt'"), CaseOutcome::Pass),
        (format!("{gemm}kernel = 'gfx942'\ntype = 'f8e4m3fnuz'\noutput = 'f32'"), CaseOutcome::Pass),
        (format!("{gemm}kernel = 'gfx908'\noutput = 'f32'\nbeta = 1\nbias = true"), CaseOutcome::Pass),
        (format!("{gemm}type = 'i8'\noutput = 'i32'\nkernel = 'f64'\ndata = 'int:-100,100'\nalpha = 2\nbeta = -1"), CaseOutcome::Pass),
        (gemm.replace("64'", "512'") + "kernel = 'sm_80:f16:in_f16'\ndata = 'uniform:0,0.1'", CaseOutcome::Pass),
        // An f16 of 65504 where the product is 8 x 256 x 256: right if the kernel saturates, but there is nothing finite to see errors in.
        (gemm.replace("64'", "8'") + "kernel = 'saturating'\ndata = 'constant:256'", CaseOutcome::Fail),
        (
            gemm.replace("64'", "8'").replace("'check'", "{ check = true, saturate = true }")
                + "kernel = 'saturating'\ndata = 'constant:256'",
            CaseOutcome::Untrusted,
        ),
        (format!("{gemm}data = 'constant:0'"), CaseOutcome::Untrusted),
        (format!("{gemm}data = 'constant:0'\nexpected = 'untrusted'"), CaseOutcome::Untrusted),
        // Errors of equal terms all point one way, as no bound with a confidence allows.
        (format!("{}kernel = 'fma'\ntype = 'f32'\ndata = 'constant:0.1'", gemm.replace("16x16x64", "4x4x65536")), CaseOutcome::Fail),
        (
            format!(
                "{}kernel = 'fma'\ntype = 'f32'\ndata = 'constant:0.1'",
                gemm.replace("16x16x64", "4x4x65536").replace("'check'", "{ check = true, worst_case = true }")
            ),
            CaseOutcome::Pass,
        ),
        // Sums of 512 positive numbers, rounded to f16 every time, are no sums in f32; said so they are within what that loses.
        (gemm.replace("64'", "512'") + "kernel = 'coarse'\ndata = 'uniform:0,0.1'", CaseOutcome::Fail),
        (
            gemm.replace("64'", "512'").replace("'check'", "{ check = true, accumulate = 'f16' }")
                + "kernel = 'coarse'\ndata = 'uniform:0,0.1'",
            CaseOutcome::Pass,
        ),
    ] {
        let coarse = Kernels::default().with("coarse", |launch, _| {
            use crate::dtype::F16;
            let (a, b) = (launch.input(0).to_vec::<F16>()?, launch.input(1).to_vec::<F16>()?);
            let add = |sum: F16, product: f32| F16::from_f32(sum.to_f32() + product);
            let element =
                |i: usize| (0..512).fold(F16::from_f32(0.0), |sum, p| add(sum, a[i / 16 * 512 + p].to_f32() * b[p * 16 + i % 16].to_f32()));
            Ok(launch.write(&(0..256).map(element).collect::<Vec<F16>>())?)
        });
        let kernels = coarse.with("saturating", |launch, _| Ok(launch.write(&[crate::dtype::F16::MAX; 256])?));
        let suite = suite(&text, kernels).unwrap();
        let result = suite.execute(&suite.cases[0], &Device::host());
        assert_eq!(result.outcome, outcome, "{text}: {result:?}");
        let systematic = text.contains("65536") && outcome == CaseOutcome::Fail;
        assert_eq!(result.reasons.iter().any(|r| r.contains("which worst_case = true allows")), systematic, "{text}: {result:?}");
        assert_eq!(result.warnings.is_empty(), outcome != CaseOutcome::Untrusted, "{text}: {result:?}");
    }
}

/// Of equal terms all errors point one way: beyond the probable bound, and right for a chip that gives them bit for bit.
#[test]
fn models_are_asked_for_their_bits_where_that_decides() {
    let exactness = |kernel: &str, rule: &str, data: &str| {
        let text = format!("[[gemm]]\nsize = '4x4x65536'\nkernel = '{kernel}'\nrule = {rule}\noutput = 'f32'\ndata = '{data}'");
        let suite = suite(&text, Kernels::default()).unwrap();
        let result = suite.execute(&suite.cases[0], &Device::host());
        let report = result.report.unwrap();
        (result.outcome, report["exactness"].is_object(), report["beyond_probable"].is_number())
    };
    let [plain, asked] = ["'check'", "{ check = true, arch = 'gfx90a' }"];
    assert_eq!(exactness("gfx90a", plain, "uniform:-1,1"), (CaseOutcome::Pass, false, false));
    assert_eq!(exactness("gfx90a", asked, "uniform:-1,1"), (CaseOutcome::Pass, true, false));
    assert_eq!(exactness("gfx90a", plain, "constant:0.1"), (CaseOutcome::Pass, true, true));
    assert_eq!(exactness("fma", asked, "constant:0.1"), (CaseOutcome::Fail, true, false));
}

#[test]
fn what_cannot_be_checked_is_refused_when_it_is_read() {
    let gemm = "[[gemm]]\nsize = '4x4x4'\n";
    for (text, words) in [
        (
            "[[operator]]\noperator = 'relu'\nshape = '4'\nrule = 'check'".to_owned(),
            "s.toml:4: case `operator`: relu of x[4] is not supported by the rule check",
        ),
        (format!("{gemm}rule = 'check'\nreference = 'f32'"), "s.toml:4: case `gemm`: `reference` has no say by the rule check"),
        (format!("{gemm}rule = ['check', 'exact']\nreference_type = 'f32'"), "s.toml:4: case `gemm/check`: `reference_type` has no say"),
        (format!("{gemm}rule = 'check'\noutput = 'i32'"), "s.toml:3: case `gemm`: "),
        (format!("{gemm}rule = 'check'\ntype = 'i8'\nkernel = 'f64'"), "s.toml:3: case `gemm`: "),
        (format!("{gemm}rule = 'check'\ntype = 'i8'\noutput = 'i32'\nalpha = 0.5\nkernel = 'f64'"), "alpha of integers cannot be 0.5"),
        (
            format!("{gemm}rule = 'check'\ntype = 'i8'\noutput = 'u32'\nactivation = 'relu'\nkernel = 'f64'"),
            "an epilogue of integers that may be beyond 32 bits",
        ),
        (
            format!("{gemm}rule = {{ check = true, arch = 'gfx90a' }}\ntype = 'f8e4m3'"),
            "a check of f8e4m3 by f8e4m3 on the matrix cores of gfx90a",
        ),
        (format!("{gemm}rule = {{ check = true, arch = 'gfx9' }}"), "arch: "),
        (format!("{gemm}rule = {{ check = true, accumulate = 'i8' }}"), "an accumulator whose error is bounded"),
        (format!("{gemm}rule = {{ check = true, split_k = 5 }}"), "split-k cannot be 5: at most 4"),
        (format!("{gemm}rule = {{ check = true, split_k = 0 }}"), "split_k: a whole number from 1 is wanted, not 0"),
        (format!("{gemm}rule = {{ check = true, confidence = 1 }}"), "confidence cannot be 1"),
        (format!("{gemm}rule = {{ check = true, confidence = 0.5, worst_case = true }}"), "confidence cannot be used with worst_case"),
        (format!("{gemm}rule = {{ check = false }}"), "check: true is wanted, not false"),
        (format!("{gemm}rule = {{ check = true, rtol = 1 }}"), "unknown key `rtol`"),
    ] {
        let message = suite(&text, Kernels::default()).map(drop).unwrap_err().to_string();
        assert!(message.contains(words), "{text}: {message}");
    }
}
