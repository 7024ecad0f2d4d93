//! The devices that open on this machine.
//!
//! `HIPVERIFY_REQUIRE` names those that must: `amd`, `nvidia`, `standin` or `host`, separated by commas.

use crate::suite::tests;
use crate::target::Target;
use anyhow::{Result, bail, ensure};
use hipverify::Device;
use hipverify::device::DeviceKind;

tests! {
    Host: required_devices_open, a_gpu_comes_before_the_host;
    All: every_device_says_what_it_is;
}

fn required_devices_open(_: &Target) -> Result<()> {
    let devices = Device::all();
    let wanted = std::env::var("HIPVERIFY_REQUIRE").unwrap_or_default();
    for name in wanted.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let kind = match name {
            "host" => DeviceKind::Host,
            // What stands in is an AMD GPU to the library; that this run uses it was made sure of at its start.
            "amd" | "standin" => DeviceKind::Amd,
            "nvidia" => DeviceKind::Nvidia,
            other => bail!("HIPVERIFY_REQUIRE={wanted}: {other} is none of host, amd, nvidia, standin"),
        };
        let reason = Device::open("gpu").err().map(|e| e.to_string()).unwrap_or_default();
        ensure!(devices.iter().any(|d| d.kind() == kind), "HIPVERIFY_REQUIRE={wanted}, but there is no {name} device: {reason}");
    }
    Ok(())
}

fn a_gpu_comes_before_the_host(host: &Target) -> Result<()> {
    let (best, devices) = (Device::best()?, Device::all());
    ensure!(devices[0].same_as(&host.device), "the list begins with {}", devices[0]);
    ensure!(best.same_as(&devices[0]) == (devices.len() == 1), "the best of {} devices is {best}", devices.len());
    Ok(())
}

fn every_device_says_what_it_is(Target { device, .. }: &Target) -> Result<()> {
    ensure!(!device.name().is_empty() && !device.why().is_empty(), "{device:?}");
    let (free, total) = device.memory_info()?;
    ensure!(0 < free && free <= total, "{free} of {total} bytes are free");
    Ok(())
}
