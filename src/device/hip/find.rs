//! Which GPUs there are, and the reasons if there is none.

use super::{HipDevice, check, lock};
use crate::error::{Error, Result};
use hipverify_sys::{LoadError, Runtime, no_device};
use std::ffi::c_int;
use std::sync::Mutex;

/// What the search for GPUs found.
struct Found<R = &'static Runtime> {
    /// Runtime and ordinal of every GPU: AMD's first, then NVIDIA's.
    gpus: Vec<(R, c_int)>,
    /// For each runtime without a GPU, why: `no HIP runtime found: ...`.
    reasons: Vec<String>,
}

/// How many GPUs a platform has.
enum Count<R> {
    Gpus(R, usize),
    /// None, with the reason.
    None(String),
    /// The count failed.
    Failed(Error),
}

impl<R: Copy> Found<R> {
    /// A count that fails is an error only if there is no GPU of another platform: it must not hide such a GPU.
    fn of(counts: impl IntoIterator<Item = Count<R>>) -> Result<Found<R>> {
        let (mut found, mut failed) = (Found { gpus: Vec::new(), reasons: Vec::new() }, None);
        for count in counts {
            match count {
                Count::Gpus(runtime, count) => found.gpus.extend((0..count).filter_map(|i| Some((runtime, c_int::try_from(i).ok()?)))),
                Count::None(reason) => found.reasons.push(reason),
                Count::Failed(error) => {
                    found.reasons.push(error.to_string());
                    failed.get_or_insert(error);
                }
            }
        }
        failed.filter(|_| found.gpus.is_empty()).map_or(Ok(found), Err)
    }
}

/// The runtimes that this crate knows: each is loaded on first use.
fn platforms() -> [(&'static str, std::result::Result<&'static Runtime, LoadError>); 2] {
    [("HIP", hipverify_sys::amd()), ("CUDA", hipverify_sys::nvidia())]
}

fn find() -> Result<Found> {
    Found::of(platforms().into_iter().filter_map(|(kind, runtime)| match runtime {
        Ok(runtime) => Some(count(kind, runtime)),
        // A build without the shim was never meant for NVIDIA: nothing to tell.
        Err(LoadError::NoShim { .. }) if !cfg!(feature = "nvidia") => None,
        Err(error) => Some(Count::None(error.to_string())),
    }))
}

fn count(kind: &str, runtime: &'static Runtime) -> Count<&'static Runtime> {
    let counted = match runtime.device_count() {
        Ok(count) if count > 0 => return Count::Gpus(runtime, count),
        Err(error) if !no_device(error) => match check(runtime, "hipGetDeviceCount", error) {
            Err(error) => return Count::Failed(error),
            Ok(()) => Err(error),
        },
        counted => counted,
    };
    let (name, why) = (runtime.describe(), runtime.no_device_reason(counted));
    Count::None(format!("{kind} runtime {name} found, but {why}{}", also_tried(runtime)))
}

/// Which other libraries were found, for the end of a sentence: `; also tried /opt/rocm/lib/libamdhip64.so.7: it has no device (...)`.
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
    // Not by the index: NVIDIA's GPUs move when a runtime of AMD's can be loaded later.
    if let Some(device) = opened.iter().find(|d| d.platform() == runtime.platform() && d.ordinal == ordinal) {
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

/// A runtime that this build was made for, as a list of devices shows it.
#[cfg(feature = "cli")]
pub(crate) struct RuntimeState {
    pub name: &'static str,
    /// Path and version of the library that was loaded, or everything that was tried.
    pub library: std::result::Result<String, String>,
    /// Other libraries that are there and were not used, and why.
    pub tried: Vec<String>,
}

/// Every runtime that this build was made for.
#[cfg(feature = "cli")]
pub(crate) fn runtimes() -> impl Iterator<Item = RuntimeState> {
    let found = platforms().into_iter().filter(|(name, _)| *name == "HIP" || cfg!(feature = "nvidia"));
    found.map(|(name, found)| {
        let tried = found.as_ref().map(|r| r.tried().iter().map(ToString::to_string).collect()).unwrap_or_default();
        let library = found.map_err(|error| format!("{error:#}")).map(|runtime| {
            let version = runtime.version().map_or("unknown".to_owned(), |(major, minor)| format!("{major}.{minor}"));
            format!("{}, version {version}", runtime.path().display())
        });
        RuntimeState { name, library, tried }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_fails_withholds_no_gpu_of_another_platform() {
        let failed = |call| Count::Failed(Error::Hip { call, name: "hipErrorUnknown".to_owned(), code: 999 });
        let none = |reason: &str| Count::None(reason.to_owned());
        let told = "hipGetDeviceCount failed: hipErrorUnknown (999)";
        for (counts, expected, reason) in [
            (vec![], Ok((vec![], vec![])), "no platform"),
            (vec![Count::Gpus("amd", 2), Count::Gpus("nvidia", 1)], Ok((vec![("amd", 0), ("amd", 1), ("nvidia", 0)], vec![])), "both"),
            (vec![none("no driver"), Count::Gpus("nvidia", 1)], Ok((vec![("nvidia", 0)], vec!["no driver"])), "one of them"),
            (vec![failed("hipGetDeviceCount"), Count::Gpus("nvidia", 1)], Ok((vec![("nvidia", 0)], vec![told])), "one, the other fails"),
            (vec![Count::Gpus("amd", 1), failed("hipGetDeviceCount")], Ok((vec![("amd", 0)], vec![told])), "the other way round"),
            (vec![failed("hipGetDeviceCount"), none("no driver")], Err(told), "none, and one fails"),
            (vec![failed("hipGetDeviceCount"), failed("hipInit")], Err(told), "both fail: the first is told"),
        ] {
            let found = Found::of(counts).map_err(|error| error.to_string());
            let owned = |reasons: Vec<&str>| reasons.into_iter().map(str::to_owned).collect();
            let expected = expected.map(|(gpus, reasons)| (gpus, owned(reasons))).map_err(str::to_owned);
            assert_eq!(found.map(|found| (found.gpus, found.reasons)), expected, "{reason}");
        }
    }
}
