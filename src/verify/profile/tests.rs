use super::*;
use DType::*;

const E16: f64 = 1.0 / 1024.0;
const E32: f64 = f32::EPSILON as f64;
const E64: f64 = f64::EPSILON;

/// A profile, formats of result and reference, the length of sums, rtol, atol where the largest reference is 10, and why.
type Row = (Profile, DType, DType, Option<usize>, f64, f64, &'static str);

fn hold(rows: &[Row]) {
    for &(profile, result, reference, n, rtol, atol, why) in rows {
        let t = profile.limits(result, reference, n).unwrap().tolerance;
        let found = (t.rtol(), t.atol(10.0));
        assert!(
            (found.0 - rtol).abs() <= 1e-15 * rtol && (found.1 - atol).abs() <= 1e-15 * atol,
            "{profile} {result} {reference} {n:?}: {found:?} {why}"
        );
    }
}

#[test]
fn the_tables_hold_the_published_numbers() {
    hold(&[
        (Profile::Ck, F32, F32, None, 1e-5, 3e-6, "check_err"),
        (Profile::Ck2026, F16, F32, None, E16 / 2.0, E16 * 8.0, "a whole ulp of f16, of the binade of the largest reference (10)"),
        (Profile::Ck2026, I8, I32, None, 0.0, 0.0, "integers are exact"),
        (Profile::Triton, F16, F32, None, 1e-2, 0.1, "half of each, of the root mean square (10)"),
        (Profile::KernelBench, F16, F32, None, 1e-2 / 1.01, 1e-2 / 1.01, "relative to the reference"),
        (Profile::KernelBench, F32, F32, None, 1e-4 / 1.0001, 1e-4 / 1.0001, ""),
        (Profile::Geak, F32, F32, None, 1e-1, 1e-3, "the same for all"),
        (Profile::Aiter, F8E4M3, F32, None, 1e-2, 1e-2, "the same for all"),
        (Profile::FlashInfer, F16, F32, None, 5e-3, 5e-3, "half of each"),
        (Profile::Ck, I8, I32, None, 0.0, 0.0, "integers are exact"),
        (Profile::Ck, Tf32, F32, None, 5e-4, 5e-4, ""),
        (Profile::Ck, Bf16, F32, None, 1e-1, 1e-3, ""),
        (Profile::Ck, F8E5M2, F16, None, 1e-3, 1e-3, ""),
        (Profile::Ck, F4E2M1, F32, None, 0.5, 0.5, ""),
        (Profile::Torch, F32, F32, None, 1.3e-6, 1e-5, "assert_close"),
        (Profile::Torch, F64, F64, None, 1e-7, 1e-7, ""),
        (Profile::Torch, F32, F64, None, 1.3e-6, 1e-5, "the coarser side decides"),
        (Profile::Torch, F16, Tf32, None, 1e-3, 1e-5, "of equally fine formats the result's decides"),
        (Profile::Torch, I32, F16, None, 1e-3, 1e-5, "the float of a mixed pair decides"),
        (Profile::Torch, F32, Bf16, None, 1.6e-2, 1e-5, "the coarser side decides"),
        (Profile::Torch, F16, I32, None, 1e-3, 1e-5, "the float of a mixed pair decides"),
        (Profile::Torch, F8E4M3, F8E4M3, None, 0.0, 0.0, "fp8 has no row there: exact"),
        (Profile::Numpy, F16, F16, None, 1e-7, 0.0, "the same for all"),
        (Profile::Jax, F8E5M2, F32, None, 0.1, 0.1, "one number for both"),
        (Profile::Jax, F64, F64, None, 1e-15, 1e-15, ""),
        (Profile::Jax, F32, F32, None, 1e-6, 1e-6, ""),
        (Profile::Jax, F16, F32, None, 1e-3, 1e-3, ""),
        (Profile::Jax, Bf16, F32, None, 1e-2, 1e-2, ""),
        (Profile::Jax, F4E2M1, F32, None, 1.0, 1.0, ""),
        (Profile::RocBlas, F32, F32, None, 0.0, E32, "K = 1"),
        (Profile::Miopen, F16, F32, None, 80.0 * E16, 0.0, "80 epsilons of the coarser side"),
        (Profile::Paddle, F64, F64, None, 1e-5, 0.0, ""),
        (Profile::Paddle, F32, F32, None, 1e-5, 1e-5, ""),
        (Profile::Paddle, F16, F32, None, 1e-3, 1e-3, ""),
        (Profile::Paddle, I32, I32, None, 1e-5, 1e-5, "integers as f32"),
        (Profile::BenchDnn, F16, F32, None, E16, E16 * 1e-5, "one epsilon"),
        (Profile::RocMlir, F32, F32, None, 1.3e-6, 1e-5, "the baseline"),
        (Profile::Paddle, Bf16, Bf16, None, 1e-2, 1e-2, ""),
    ]);
}

#[test]
fn tolerances_grow_with_the_length_of_sums_as_published() {
    hold(&[
        (Profile::Ck2026, F16, F32, Some(1 << 20), E32 / 2.0 * 1048576.0, E32 / 2.0 * 1048576.0 * 8.0, "the sum's term is larger"),
        (Profile::HipDnn, F16, F32, Some(64), 0.0, 64.0 * (E32 * 128.0 / (1.0 - E32 * 128.0) + E16), "inputs from [-1, 1)"),
        (Profile::HipDnn, F16, F32, Some(1 << 17), 0.0, 131072.0 * (6.0 * 512.0 * E32 + E16), "long sums: in the root of their length"),
        (Profile::HipDnn, I32, I32, Some(64), 0.0, 0.0, "integers are exact"),
        (Profile::Ck, F16, F32, Some(1), E16 / 2.0, E16 / 2.0 * 10.0, "derived: half an ulp of f16, of the largest reference (10)"),
        (Profile::Ck, F32, F32, Some(1 << 20), E32 / 2.0 * 1048576.0, E32 / 2.0 * 10485760.0, "derived: n times f32's"),
        (Profile::Ck, F64, F64, Some(4), E64 * 2.0, E64 * 20.0, "derived: f64 is summed in f64"),
        (Profile::Ck, F8E4M3, F32, Some(64), 1e-1, 0.0, "nothing is derived for 8 bits"),
        (Profile::Torch, I8, I32, Some(7), 0.0, 0.0, "integers are exact"),
        (Profile::RocBlas, F16, F16, Some(90), 0.0, 0.1, "K/900"),
        (Profile::RocBlas, F64, F64, Some(3), 0.0, 3.0 * E64, "K epsilons"),
        (Profile::RocBlas, Bf16, Bf16, Some(7), 0.0, 0.07, "K/100"),
        (Profile::RocBlas, F8E4M3Fnuz, F32, Some(4), 0.0, 0.25, "K/16"),
        (Profile::RocBlas, F8E5M2, F32, Some(4), 0.0, 0.5, "K/8"),
        (Profile::RocMlir, F64, F64, Some(100), 1e-7, 1e-7 + 1e-13, "plus K 1e-15"),
        (Profile::RocMlir, F32, F32, Some(100), 1.3e-6, 1e-5 + 1e-3, "plus K 1e-5"),
        (Profile::RocMlir, F16, F32, Some(90), 1e-3, 1e-5 + 0.1, "plus K/900"),
        (Profile::RocMlir, F8E4M3, F32, Some(4), 0.125, 0.1 + 0.5, "plus K/8"),
        (Profile::RocMlir, F8E5M2Fnuz, F32, Some(4), 0.25, 0.1 + 1.0, "plus K/4"),
        (Profile::RocMlir, F4E2M1, F32, Some(4), 0.5, 1.0 + 2.0, "plus K/2"),
        (Profile::RocMlirLegacy, F32, F32, Some(9), 80.0 * E32, 0.0, "80 epsilons, whatever K is"),
        (Profile::RocMlir, Bf16, F32, Some(100), 1.6e-2, 1e-5 + 1.0, "plus K/100"),
        (Profile::BenchDnn, F32, F32, Some(4), 4.0 * E32, 4.0 * E32 * 1e-5, "n epsilons"),
        (Profile::BenchDnn, I32, I32, Some(4), 0.0, 0.0, "integers are exact"),
    ]);
}

#[test]
fn profiles_that_judge_by_metrics_have_thresholds() {
    let off = Thresholds::OFF;
    for (profile, dtype, n, expected, judge) in [
        (Profile::Miopen, F32, None, Thresholds { rms: 1.5e-6, ..off }, Judge::Thresholds),
        (Profile::Miopen, F16, None, Thresholds { rms: 8.2e-3, ..off }, Judge::Thresholds),
        (Profile::Miopen, Bf16, None, Thresholds { rms: 6.56e-2, ..off }, Judge::Thresholds),
        (Profile::Miopen, F8E4M3, None, Thresholds { rms: 0.3034, ..off }, Judge::Thresholds),
        (Profile::Miopen, I32, None, Thresholds { rms: 1.5e-6, ..off }, Judge::Thresholds),
        (Profile::RocMlirLegacy, I32, None, Thresholds { rms: 3e-5, absolute: 100.0, relative: 1e-6, ..off }, Judge::Thresholds),
        (Profile::RocMlirLegacy, F32, None, Thresholds { rms: 3e-5, absolute: 100.0, relative: 1e-6, ..off }, Judge::Thresholds),
        (Profile::RocMlirLegacy, F16, None, Thresholds { rms: 3e-5, absolute: 100.0, relative: 100.0, ..off }, Judge::Thresholds),
        (Profile::Triton, F16, None, Thresholds { relative_l2: 4e-3, ..off }, Judge::Both),
        (Profile::LlamaCpp, F16, Some(9), Thresholds { relative_l2: 5e-4f64.sqrt(), ..off }, Judge::Thresholds),
        (Profile::LlamaCpp, F16, None, Thresholds { relative_l2: 1e-7f64.sqrt(), ..off }, Judge::Thresholds),
        (Profile::DeepGemm, F16, None, Thresholds { relative_l2: 0.04375393, ..off }, Judge::Thresholds),
        (Profile::Inductor, F16, None, Thresholds { relative_l2: 0.14106736, ..off }, Judge::Thresholds),
    ] {
        let limits = profile.limits(dtype, dtype, n).unwrap();
        let (found, near) = (limits.thresholds.unwrap(), |x: f64, y: f64| x == y || (x - y).abs() <= 1e-7 * y);
        let same = near(found.rms, expected.rms) && near(found.relative_l2, expected.relative_l2);
        assert!(same && found.relative == expected.relative && found.absolute == expected.absolute, "{profile} {dtype}: {found:?}");
        assert_eq!((found.relative_l1, limits.judge), (expected.relative_l1, judge), "{profile} {dtype}");
    }
    let torch = Profile::Torch.limits(F32, F32, None).unwrap();
    assert_eq!((torch.thresholds, torch.judge), (None, Judge::Elements));
}

#[test]
fn profiles_let_a_share_of_the_elements_fail() {
    for (profile, dtype, elements, expected) in [
        (Profile::Aiter, F32, 1000, 50),
        (Profile::Aiter, F16, 19, 0),
        (Profile::FlashInfer, F8E4M3, 1000, 50),
        (Profile::FlashInfer, F16, 1000, 0),
        (Profile::Torch, F16, 1000, 0),
    ] {
        assert_eq!(profile.limits(dtype, F32, None).unwrap().allowed.of(elements), expected, "{profile} {dtype}");
    }
}

#[test]
fn forms_that_are_nearest_are_nowhere_looser() {
    let l2 = |p: Profile| p.limits(F16, F32, None).unwrap().thresholds.unwrap().relative_l2;
    let r = [3.0f64, 4.0];
    for k in 0..360 {
        let turned = |x: f64| {
            let angle = f64::from(k).to_radians();
            [r[0] + 5.0 * x * angle.cos(), r[1] + 5.0 * x * angle.sin()]
        };
        let sums = |a: [f64; 2]| (a[0] * r[0] + a[1] * r[1], a[0] * a[0] + a[1] * a[1]);
        let (dot, aa) = sums(turned(0.999999 * l2(Profile::DeepGemm)));
        assert!(1.0 - 2.0 * dot / (aa + 25.0) < 1e-3, "DeepGEMM's rule, {k} degrees");
        let (dot, aa) = sums(turned(0.999999 * l2(Profile::Inductor)));
        assert!(dot / (aa.sqrt() * 5.0) > 0.99, "inductor's rule, {k} degrees");
    }
    let t = Profile::KernelBench.limits(F16, F32, None).unwrap().tolerance;
    for r in [1e-6f64, 1e-3, 0.5, 1.0, 70.0] {
        let d = t.rtol() * r + t.atol(0.0);
        assert!(d <= (1e-2 + 1e-2 * (r - d).abs()) * (1.0 + 1e-12), "KernelBench's rule below {r}");
    }
}

#[test]
fn flash_attention_needs_a_baseline() {
    let limits = |baseline_error| Profile::FlashAttention.limits_for(F16, F32, &Computation { baseline_error, ..Computation::default() });
    let absolute = limits(Some(1e-3)).unwrap().thresholds.unwrap().absolute;
    assert_eq!(absolute, 2e-3 + 2f64.powi(-12), "twice the baseline's error, twice half the spacing of [1/4, 1/2)");
    assert!(limits(None).unwrap_err().to_string().contains("`--baseline FILE`"));
    assert!(limits(Some(-1.0)).is_err(), "no error is negative");
}

#[test]
fn paddle_judges_by_range_count_and_operation() {
    use Operation::*;
    for (dtype, operation, n, range, gradient, rtol, atol, why) in [
        (F16, Sum, Some(1000), Some([0.0, 0.1]), false, 1e-3, 0.03125, "the example of its rules: E = 50"),
        (Bf16, Sum, Some(1000), Some([0.0, 0.1]), false, 1e-2, 0.125, "two bits fewer"),
        (F16, Mean, Some(1000), Some([60.0, 68.0]), false, 1e-3, 0.0625, "E = 64, whatever the count"),
        (F16, Sum, Some(1000), Some([-1.0, 1.0]), false, 1e-3, 1e-3, "E = 0: the floor"),
        (F16, Sum, Some(1000), Some([-0.1, 0.0]), false, 1e-3, 0.03125, "a negative sum"),
        (F16, Sum, Some(1000), None, false, 1e-3, 1e-3, "no range: the floor"),
        (F16, Matmul, Some(1000), Some([0.0, 0.1]), false, 1e-3, 1e-3, "no formula: the floor"),
        (F16, Sum, None, None, true, 0.75 * 5e-3, 0.25 * 5e-3 * 1e-3, "gradients, by class"),
        (F16, SteepFunction, None, None, true, 0.75 * 0.1, 0.25 * 0.1 * 1e-3, ""),
        (F16, CumulativeLogSum, None, None, true, 0.75 * 0.5, 0.25 * 0.5 * 1e-3, ""),
        (F16, Copy, None, None, true, 0.75 * 1e-3, 0.25 * 1e-3 * 1e-3, ""),
        (Bf16, SteepFunction, None, None, true, 0.75 * 1e-2, 0.25 * 1e-2 * 1e-2, "one for all of bf16"),
    ] {
        let computation = Computation { accumulations: n, range, operation: Some(operation), gradient, baseline_error: None };
        let t = Profile::Paddle.limits_for(dtype, F32, &computation).unwrap().tolerance;
        assert_eq!((t.rtol(), t.atol(0.0)), (rtol, atol), "{dtype} {operation:?} {why}");
    }
    let gradient = |dtype, operation| {
        Profile::Paddle
            .limits_for(dtype, dtype, &Computation { operation, gradient: true, ..Computation::default() })
            .unwrap_err()
            .to_string()
    };
    assert!(gradient(F16, None).contains("kind of operation"));
    assert!(gradient(F32, Some(Sum)).contains("not supported"));
    assert!("sums".parse::<Operation>().unwrap_err().to_string().contains("known: copy arithmetic"));
    assert_eq!("log-sum".parse::<Operation>().unwrap(), LogSum);
}

#[test]
fn formats_that_a_source_does_not_know_are_errors() {
    let e = Profile::Torch.limits(F6E2M3, F6E2M3, None).unwrap_err().to_string();
    assert_eq!(e, "dtype f6e2m3 is not supported by profile torch");
    assert!(Profile::Miopen.limits(F4E2M1, F4E2M1, None).is_err());
    assert!("pytorch".parse::<Profile>().unwrap_err().to_string().contains("known: ck ck-2026 torch"));
    for p in Profile::ALL {
        assert_eq!((p.name().parse::<Profile>().unwrap(), p.to_string()), (p, p.name().to_owned()));
        let baseline = Computation { accumulations: Some(64), baseline_error: Some(1e-3), ..Computation::default() };
        let limits = p.limits_for(F16, F32, &baseline).unwrap();
        assert!(!limits.derivation.is_empty() && !p.source().is_empty(), "{p}");
    }
}

#[test]
fn names_of_operations_are_shown_and_read() {
    for name in ["copy", "steep-function", "cumulative-log-sum"] {
        assert_eq!(name.parse::<Operation>().unwrap().to_string(), name);
    }
}
