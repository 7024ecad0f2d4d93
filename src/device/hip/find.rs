//! Which GPUs there are, and in words why there is none.

use super::{HipDevice, check, lock};
use crate::error::{Error, Result};
use hipverify_sys::{LoadError, Runtime, no_device};
use std::ffi::c_int;
use std::sync::Mutex;

/// What the search for GPUs found.
struct Found {
    /// Runtime and ordinal of every GPU: AMD's first, then NVIDIA's.
    gpus: Vec<(&'static Runtime, c_int)>,
    /// For each runtime without a GPU, why: `no HIP runtime found: ...`.
    reasons: Vec<String>,
}

fn find() -> Result<Found> {
    let mut found = Found { gpus: Vec::new(), reasons: Vec::new() };
    for (kind, runtime) in [("HIP", hipverify_sys::amd()), ("CUDA", hipverify_sys::nvidia())] {
        let runtime = match runtime {
            Ok(runtime) => runtime,
            // A build without the shim was never meant for NVIDIA: nothing to tell.
            Err(LoadError::NoShim { .. }) if !cfg!(feature = "nvidia") => continue,
            Err(error) => {
                found.reasons.push(error.to_string());
                continue;
            }
        };
        match runtime.device_count() {
            Ok(count) if count > 0 => found.gpus.extend((0..count).filter_map(|i| Some((runtime, c_int::try_from(i).ok()?)))),
            Err(error) if !no_device(error) => check(runtime, "hipGetDeviceCount", error)?,
            counted => {
                let (name, why) = (runtime.describe(), runtime.no_device_reason(counted));
                found.reasons.push(format!("{kind} runtime {name} found, but {why}{}", also_tried(runtime)));
            }
        }
    }
    Ok(found)
}

/// Which other libraries were there, for the end of a sentence: `; also tried /opt/rocm/lib/libamdhip64.so.7: it has no device (...)`.
pub(crate) fn also_tried(runtime: &Runtime) -> String {
    runtime.tried().iter().map(|attempt| format!("; also tried {attempt}")).collect()
}

/// Opens a GPU, or returns it when it is open. Each is opened once and stays open.
fn get(found: &Found, index: usize) -> Result<&'static HipDevice> {
    static OPENED: Mutex<Vec<&'static HipDevice>> = Mutex::new(Vec::new());
    let &(runtime, ordinal) = found.gpus.get(index).ok_or_else(|| {
        let reason = match found.gpus.len() {
            0 => found.reasons.join("; "),
            1 => "there is 1 GPU, gpu:0".to_owned(),
            n => format!("there are {n} GPUs, gpu:0 to gpu:{}", n - 1),
        };
        Error::NoDevice { wanted: format!("gpu:{index}"), reason }
    })?;
    let mut opened = lock(&OPENED);
    if let Some(device) = opened.iter().find(|d| d.index == index) {
        return Ok(device);
    }
    let device: &'static HipDevice = Box::leak(Box::new(HipDevice::new(runtime, ordinal, index)?));
    opened.push(device);
    Ok(device)
}

/// The first GPU, or why there is none.
///
/// # Errors
/// A GPU that is there but does not start.
pub(crate) fn best() -> Result<std::result::Result<&'static HipDevice, String>> {
    let found = find()?;
    if found.gpus.is_empty() { Ok(Err(found.reasons.join("; "))) } else { get(&found, 0).map(Ok) }
}

/// GPU number `index`.
pub(crate) fn open(index: usize) -> Result<&'static HipDevice> {
    get(&find()?, index)
}

/// Every GPU that opens.
pub(crate) fn all() -> Vec<&'static HipDevice> {
    let Ok(found) = find() else { return Vec::new() };
    (0..found.gpus.len()).filter_map(|i| get(&found, i).ok()).collect()
}
