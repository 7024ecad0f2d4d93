//! The figures that the fp16 study of 2022 publishes in its sections 2.5 and 3, digit for digit.
//!
//! Section 2.5 has 205,520,896 elements: it runs when `HIPVERIFY_LONG_TESTS` is 1 (in release mode, a minute).
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use hipverify::Device;
use hipverify::matrix_core::Arch;
use hipverify::suite::replay::{Configuration, Kernel, Range, Replay, StudyHistograms, StudyMetrics, Validator, Variant};

/// The first layer of ResNet-50, a 7x7 filter with stride 2, as the study has it.
const CONFIGURATION: &str = "padding_kernel_gemmK_CHECK_RESNET50_F16_CONFIG1";

/// The host, or what `HIPVERIFY_REPLAY_DEVICE` names.
fn device() -> Device {
    Device::open(&std::env::var("HIPVERIFY_REPLAY_DEVICE").unwrap_or("host".to_owned())).unwrap()
}

fn run(batch: usize, variant: Variant) -> StudyMetrics {
    let configuration = Configuration { batch, ..Configuration::named(CONFIGURATION).unwrap() };
    let range: Range = "r0".parse().unwrap();
    let (arch, kernel, validator) = (Arch::Gfx90a, Kernel::Xdlops, Validator::Cpu);
    let device = device();
    Replay { configuration, range, seed: 1, arch, kernel, validator, variant, device }.run().unwrap().metrics
}

/// A published histogram: counts, and the largest differences as they are printed.
struct Published {
    relative: [u64; 9],
    max_relative: [&'static str; 3],
    epsilon: [u64; 6],
    max_epsilon: [&'static str; 3],
    /// Unequal elements whose reference is zero; section 2.5 does not count them.
    zero: Option<u64>,
}

/// Whether `value` prints as the text does, to the text's last digit.
fn prints_as(value: f64, text: &str) -> bool {
    let (mantissa, _) = text.split_once('E').unwrap_or((text, ""));
    let digits = mantissa.trim_start_matches('-').replace('.', "").trim_start_matches('0').len();
    let scientific = |v: f64| format!("{v:.*e}", digits - 1);
    scientific(value) == scientific(text.parse().unwrap())
}

fn check(found: &StudyHistograms, published: &Published) {
    assert_eq!(found.relative, published.relative);
    assert_eq!(found.epsilon, published.epsilon);
    assert!(published.zero.is_none_or(|zero| zero == found.zero), "{} zero references", found.zero);
    let (relative, epsilon) = (found.max_relative, found.max_epsilon);
    let wide = |x: f64, val: f32, kern: f32| [x, f64::from(val), f64::from(kern)];
    let relative = wide(relative.0, relative.1, relative.2);
    let epsilon = wide(f64::from(epsilon.0), epsilon.1, epsilon.2);
    for (found, texts) in [(relative, published.max_relative), (epsilon, published.max_epsilon)] {
        for (value, text) in found.into_iter().zip(texts) {
            assert!(prints_as(value, text), "{value} does not print as {text}");
        }
    }
}

#[test]
fn section_3_original() {
    let m = run(1, Variant::First);
    assert_eq!((m.elements, m.exact, m.one, m.more, m.unknown), (802816, 801676, 1047, 93, 0));
    check(
        &m.histograms,
        &Published {
            relative: [801676, 0, 0, 0, 970, 60, 3, 0, 0],
            max_relative: ["0.027", "-0.001073837", "-0.001045227"],
            epsilon: [801676, 1047, 46, 39, 8, 0],
            max_epsilon: ["35", "-0.001625061", "-0.00165844"],
            zero: Some(0),
        },
    );
}

#[test]
fn section_3_accumulate_4() {
    let m = run(1, Variant::Accumulate4);
    assert_eq!((m.exact, m.one, m.more), (802015, 722, 79));
    check(
        &m.histograms,
        &Published {
            relative: [802015, 0, 0, 0, 704, 60, 3, 0, 0],
            max_relative: ["0.028", "-0.001074791", "-0.001045227"],
            epsilon: [802015, 722, 40, 32, 7, 0],
            max_epsilon: ["35", "-0.001625061", "-0.00165844"],
            zero: Some(0),
        },
    );
}

#[test]
fn section_3_flush_subnormals() {
    let m = run(1, Variant::Later);
    assert_eq!((m.exact, m.one, m.more), (802369, 413, 34));
    check(
        &m.histograms,
        &Published {
            relative: [802369, 0, 0, 0, 364, 0, 0, 0, 0],
            max_relative: ["0.00097", "0.125244141", "0.125366211"],
            epsilon: [802369, 413, 19, 15, 0, 0],
            max_epsilon: ["8", "9.07E-05", "9.02E-05"],
            zero: Some(0),
        },
    );
}

#[test]
fn section_2_5_the_worst_test() {
    if !std::env::var("HIPVERIFY_LONG_TESTS").is_ok_and(|v| v == "1") {
        println!("skipped: 205,520,896 elements; HIPVERIFY_LONG_TESTS=1 runs it");
        return;
    }
    let m = run(256, Variant::First);
    assert_eq!((m.elements, m.exact), (205_520_896, 205_235_692));
    check(
        &m.histograms,
        &Published {
            relative: [205_235_692, 0, 0, 0, 244_810, 15_725, 925, 0, 0],
            max_relative: ["0.055", "0.00101471", "0.001070023"],
            epsilon: [205_235_692, 259_106, 11_473, 12_039, 2_331, 255],
            max_epsilon: ["850", "3.50475E-05", "8.57115E-05"],
            zero: None,
        },
    );
}
