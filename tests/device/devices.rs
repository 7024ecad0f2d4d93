//! The devices that open on this machine.
//!
//! `HIPVERIFY_REQUIRE` names those that must: `amd`, `nvidia`, `standin` or `host`, separated by commas; `kernels` stands for all kernels, see
//! [`launches`](crate::launches).

use crate::suite::tests;
use crate::target::Target;
use anyhow::{Context, Result, anyhow, bail, ensure};
use hipverify::device::DeviceKind;
use hipverify::fill::FillUniformRand;
use hipverify::verify::{Tolerance, gpu_verify};
use hipverify::{Device, DeviceMem};
use std::sync::Barrier;

tests! {
    Host: required_devices_open, a_gpu_comes_before_the_host;
    All: every_device_says_what_it_is;
    Gpus: another_device_works_at_the_same_time;
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
            "kernels" => continue,
            other => bail!("HIPVERIFY_REQUIRE={wanted}: {other} is none of host, amd, nvidia, standin, kernels"),
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

fn every_device_says_what_it_is(target: &Target) -> Result<()> {
    let device = &target.device;
    ensure!(!device.name().is_empty() && !device.why().is_empty(), "{device:?}");
    let (free, total) = device.memory_info()?;
    ensure!(0 < free && free <= total, "{free} of {total} bytes are free");
    if !target.is_gpu() {
        let text = std::fs::read_to_string("/proc/meminfo")?;
        ensure!(text.contains(&format!(" {} kB\n", total / 1024)), "{total} bytes are not those of {text}");
    }
    Ok(())
}

/// Each thread has a device of its own. What one of them makes current is nothing to the other.
fn another_device_works_at_the_same_time(Target { device, .. }: &Target) -> Result<()> {
    let other = Device::all().into_iter().find(|d| !d.same_as(device)).context("the host is a device")?;
    let start = Barrier::new(2);
    let work = |device: &Device| -> Result<()> {
        start.wait();
        for seed in 0..8 {
            let (mut x, mut expected) = (DeviceMem::<f32>::new(device, 5000)?, DeviceMem::<f32>::new(&Device::host(), 5000)?);
            let values = FillUniformRand::new(-1.0, 1.0).seed(seed);
            x.fill(&values)?;
            expected.fill(&values)?;
            let expected = expected.to_vec()?;
            ensure!(x.to_vec()? == expected, "seed {seed} on {device}");
            let y = DeviceMem::from_slice(device, &expected)?;
            ensure!(gpu_verify(&x, &y, &Tolerance::new(0.0, 0.0)?)?.passed(), "the comparison of seed {seed} on {device}");
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| work(&other));
        work(device)?;
        thread.join().map_err(|_| anyhow!("a thread panicked"))?
    })
}
