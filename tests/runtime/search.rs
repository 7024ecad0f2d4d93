//! Several runtimes on one machine: the first that counts a device is used, and the others are told of.

use super::process::File::{self, Devices, LinkTo, Text};
use super::*;

pub(super) const NEWER_WITHOUT: &[(&str, File)] = &[("libamdhip64.so.7", Devices("0")), ("libamdhip64.so.6", Devices("1"))];
pub(super) const NEWER_BROKEN: &[(&str, File)] = &[("libamdhip64.so.7", Text), ("libamdhip64.so.6", Devices("1"))];
pub(super) const ALL_WITHOUT: &[(&str, File)] =
    &[("libamdhip64.so.7", Devices("0")), ("libamdhip64.so.6", Devices("0")), ("libamdhip64.so", LinkTo("libamdhip64.so.7"))];
pub(super) const BOTH_WITH: &[(&str, File)] = &[("libamdhip64.so.7", Devices("1")), ("libamdhip64.so.6", Devices("2"))];

/// A library of the folder that is searched first.
fn library(name: &str) -> Result<String> {
    let root = std::env::var_os("ROCM_PATH").context("not set")?;
    Ok(PathBuf::from(root).join("lib").join(name).display().to_string())
}

pub(super) fn a_newer_runtime_without_a_device(standin: &StandIn) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.kind(), DeviceKind::Amd);
    assert_eq!(device.runtime().as_deref(), Some("libamdhip64.so.6 (HIP 6.2)"));
    let tried = format!("also tried {}: it has no device (hipErrorNoDevice)", library("libamdhip64.so.7")?);
    assert_eq!(device.why(), format!("the first GPU; {tried}"));
    assert_eq!(gpu()?.why(), format!("asked for; {tried}"));
    let x = DeviceMem::from_slice(&device, &ramp(9))?;
    assert_eq!(x.to_vec()?, ramp(9));
    drop(x);
    standin.expect_clean();
    Ok(())
}

pub(super) fn a_newer_runtime_that_does_not_load(_: &StandIn) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.runtime().as_deref(), Some("libamdhip64.so.6 (HIP 6.2)"));
    let tried = format!("the first GPU; also tried {}: ", library("libamdhip64.so.7")?);
    assert!(device.why().starts_with(&tried), "{device}");
    Ok(())
}

/// The first one says why there is none. A link to it is not tried again.
pub(super) fn no_runtime_with_a_device(_: &StandIn) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.kind(), DeviceKind::Host);
    let first = "HIP runtime libamdhip64.so.7 (HIP 6.2) found, but it has no device (hipErrorNoDevice)";
    let tried = format!("{first}; also tried {}: it has no device (hipErrorNoDevice)", library("libamdhip64.so.6")?);
    assert!(device.why().starts_with(&tried), "{device}");
    assert!(!device.why().contains("libamdhip64.so:"), "{device}");
    let error = gpu().unwrap_err().to_string();
    assert!(error.starts_with(&format!("no gpu:0 device: {tried}")), "{error}");
    Ok(())
}

/// A count that fails is no device. Here both do once, so that the first library is used, and counts at the next call.
pub(super) fn a_count_that_fails(_: &StandIn) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.runtime().as_deref(), Some("libamdhip64.so.7 (HIP 6.2)"));
    let failed = format!("also tried {}: hipGetDeviceCount failed: hipErrorLaunchFailure (719)", library("libamdhip64.so.6")?);
    assert!(device.why().starts_with(&format!("the first GPU; {failed}")), "{device}");
    assert_eq!(Device::all().len(), 2);
    Ok(())
}
