//! Lines of a report's screen, whatever they say.

use super::*;
use crate::dtype::F16;

#[test]
fn lines_begin_in_one_column() {
    let device = Device::host();
    let result = DeviceMem::<F16>::from_slice(&device, &[1.0, 2.5, f32::NAN, 4.0].map(F16::from_f32)).unwrap();
    let reference = DeviceMem::<f32>::from_slice(&device, &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let text = gpu_verify(&result, &reference, &Tolerance::new(0.01, 0.0).unwrap()).unwrap().to_string();
    assert!(text.lines().next().unwrap().contains("f16[4] against f32"), "{text}");
    let column = |label: &str, word: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(label));
        line.and_then(|line| line.find(word)).unwrap_or_else(|| panic!("no {label} {word} in\n{text}"))
    };
    for (label, word) in [
        ("max abs", "[1]   result 2.5   reference 2   0.5"),
        ("max rel", "[1]"),
        ("max eps", "[1]"),
        ("max ulp", "[1]"),
        ("metrics", "RMS"),
        ("norms", "relative L1"),
        ("would pass", "with"),
        ("non-finite", "result: 1 NaN"),
    ] {
        assert_eq!(column(label, word), column("worst", "[1]"), "{label} in\n{text}");
    }
}

#[test]
fn tensors_that_agree_have_a_margin_and_no_worst_element() {
    let options = Options::default().explain(Explain::Always);
    let on_host = |x: f32| DeviceMem::from_slice(&Device::host(), &[x]).unwrap();
    for (result, worst) in [(1.0, false), (1.0 + 1.0 / 512.0, true)] {
        let report = gpu_verify_with(&on_host(result), &on_host(1.0), &Tolerance::new(0.01, 0.0).unwrap(), &options).unwrap();
        let text = report.to_string();
        assert_eq!(Metric::ALL.map(|metric| report.worst(metric).is_some()), [worst; 6], "{text}");
        assert!(report.passed() && text.contains("\n  margin") && !text.contains("would pass"), "{text}");
        assert!(!text.contains(" against "), "{text}");
    }
}
