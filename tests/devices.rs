//! The devices that open on this machine.
//!
//! A test of this suite that finds no GPU runs on the host alone and passes. On a machine that has one, set
//! `HIPVERIFY_REQUIRE` to `amd` or `nvidia` (or `amd,nvidia`): then a GPU that does not open is a failure, here.

use hipverify::Device;
use hipverify::device::DeviceKind;

#[test]
fn required_devices_open() {
    let devices = Device::all();
    for device in &devices {
        println!("{:?}: {device}", device.kind());
    }
    let wanted = std::env::var("HIPVERIFY_REQUIRE").unwrap_or_default();
    for name in wanted.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let kind = match name {
            "host" => DeviceKind::Host,
            "amd" => DeviceKind::Amd,
            "nvidia" => DeviceKind::Nvidia,
            other => panic!("HIPVERIFY_REQUIRE={wanted}: {other} is none of host, amd, nvidia"),
        };
        let reason = Device::open("gpu").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(devices.iter().any(|d| d.kind() == kind), "HIPVERIFY_REQUIRE={wanted}, but there is no {name} device: {reason}");
    }
}

#[test]
fn every_device_says_what_it_is() {
    let devices = Device::all();
    assert_eq!(devices[0].kind(), DeviceKind::Host);
    for device in &devices {
        assert!(!device.name().is_empty() && !device.why().is_empty(), "{device:?}");
        let (free, total) = device.memory_info().unwrap();
        assert!(0 < free && free <= total, "{device}: {free} of {total}");
    }
    let best = Device::best().unwrap();
    assert_eq!(best.same_as(&devices[0]), devices.len() == 1, "a GPU comes before the host: {best}");
}
