//! The later validator of the fp16 study (`--variant later`) on gfx908, where it adds as that chip does: four products and the
//! accumulator, rounded once.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use hipverify::Device;
use hipverify::matrix_core::Arch;
use hipverify::suite::replay::{Configuration, Kernel, Replay, StudyMetrics, Validator, Variant};

fn run(name: &str, range: &str, validator: Validator, variant: Variant) -> StudyMetrics {
    let configuration = Configuration::named(&format!("conv2d_host_validation_f16_fwd_CHECK_{name}_f16")).unwrap();
    let (range, device) = (range.parse().unwrap(), Device::host());
    Replay { configuration, range, seed: 1, arch: Arch::Gfx908, kernel: Kernel::Xdlops, validator, variant, device }.run().unwrap().metrics
}

#[test]
fn it_agrees_with_the_matrix_cores_where_both_take_the_same_order() {
    let mut told = 0;
    for (name, same, why) in [
        ("KCYX_NCHW_NKHW5", true, "(c, y, x) in both"),
        ("PADDING1", true, "(c, y, x) in both, with products in the padding"),
        ("PADDING3", true, "(c, y, x) in both, with products in the padding"),
        ("PADDING2", false, "the kernel takes (y, x, c)"),
        ("KYXC_NHWC_NHWK5", false, "the kernel takes (y, x, c)"),
    ] {
        for range in ["r0", "r4"] {
            let m = run(name, range, Validator::Cpu, Variant::Later);
            assert_eq!(m.exact == m.elements, same, "{name} {range}, {why}: {m}");
            // The first validator, which rounds at the end only, does not.
            told += u32::from(same && run(name, range, Validator::Cpu, Variant::First).exact < m.exact);
        }
    }
    assert!(told > 0, "the first validator never differs");
}

#[test]
fn beside_spacings_it_changes_nothing_about_the_f32_kernel() {
    for name in ["KCYX_NCHW_NKHW5", "PADDING2"] {
        let [first, later] = [Variant::First, Variant::Later].map(|v| run(name, "r0", Validator::Gpu, v));
        let fixed =
            |m: &StudyMetrics| (m.elements, m.exact, m.one + m.more, m.unknown, m.max_abs, m.mean_abs, m.max_rel, m.mean_rel, m.rms);
        assert_eq!(fixed(&first), fixed(&later), "{name}");
        assert!(later.exact < later.elements, "{name}");
    }
}

/// The later versions changed forward and backward weight: on MI200 the first validator's line comes out but for the spacings.
#[test]
fn backward_data_keeps_the_first_validator() {
    let configuration = Configuration::named("conv2d_host_validation_f16_bwd_CHECK_BWD_DATA1").unwrap();
    let run = |variant| {
        let (range, device) = ("r0".parse().unwrap(), Device::host());
        let (kernel, validator) = (Kernel::Xdlops, Validator::Cpu);
        let replay =
            Replay { configuration: configuration.clone(), range, seed: 1, arch: Arch::Gfx90a, kernel, validator, variant, device };
        replay.run().unwrap().metrics
    };
    let first = run(Variant::First);
    assert!(first.exact < first.elements, "{first}");
    for variant in [Variant::Second, Variant::Accumulate4, Variant::Later] {
        let other = run(variant);
        assert_eq!(
            (other.exact, other.max_abs, other.mean_abs, other.rms),
            (first.exact, first.max_abs, first.mean_abs, first.rms),
            "{variant:?}"
        );
    }
}
