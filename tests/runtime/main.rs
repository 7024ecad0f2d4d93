//! The HIP backend without a GPU: every scenario runs in a process of its own over a stand-in runtime in host memory, which
//! does work only when somebody waits for it, injects failures, and counts what is alive.
//!
//! A scenario is a function of [`SCENARIOS`]; the trial of the same name starts it. The last trial meets the real runtime.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![cfg(unix)]

mod basics;
mod faults;
mod plans;
mod process;
mod search;
mod soak;
mod versions;

use anyhow::{Context, Result, bail, ensure};
use hipverify::device::{DeviceBytes, DeviceKind, DeviceSlice, Grid, Module, PinnedMem};
use hipverify::{Device, DeviceMem, Error, Event, Stream};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use process::{ROCM_5, ROCM_6, ROCM_7, Setup, run};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::process::ExitCode;

/// The stand-in's own functions, of the library that the scenario uses.
struct StandIn(libloading::Library);

impl StandIn {
    fn open() -> Result<StandIn> {
        let path = match std::env::var_os("HIPVERIFY_HIP_LIBRARY") {
            Some(named) => PathBuf::from(named),
            None => hipverify_sys::amd()?.path().to_owned(),
        };
        // SAFETY: our own library, without initialisers.
        Ok(StandIn(unsafe { libloading::Library::new(path)? }))
    }

    fn count(&self, what: &str) -> usize {
        let what = CString::new(what).unwrap();
        // SAFETY: the function has this type in tests/standin/src/lib.rs.
        unsafe { self.0.get::<unsafe extern "C" fn(*const c_char) -> usize>(b"standin_count\0").unwrap()(what.as_ptr()) }
    }

    /// The `nth` call of `name` from now on returns `code`.
    fn fail(&self, name: &str, nth: usize, code: c_int) {
        let name = CString::new(name).unwrap();
        // SAFETY: tests/standin/src/lib.rs defines `standin_fail` with this type.
        unsafe { self.0.get::<unsafe extern "C" fn(*const c_char, usize, c_int)>(b"standin_fail\0").unwrap()(name.as_ptr(), nth, code) }
    }

    /// As [`fail`](StandIn::fail), and every later call on that device fails as well.
    fn lose(&self, name: &str, nth: usize, code: c_int) {
        let name = CString::new(name).unwrap();
        // SAFETY: tests/standin/src/lib.rs defines `standin_lose` with this type.
        unsafe { self.0.get::<unsafe extern "C" fn(*const c_char, usize, c_int)>(b"standin_lose\0").unwrap()(name.as_ptr(), nth, code) }
    }

    /// No call fails any more.
    fn restore(&self) {
        // SAFETY: tests/standin/src/lib.rs defines `standin_restore` with this type.
        unsafe { self.0.get::<unsafe extern "C" fn()>(b"standin_restore\0").unwrap()() }
    }

    /// Makes a device the current one of this thread, as the program's other code may.
    fn set_device(&self, device: usize) {
        // SAFETY: the stand-in's function has this type and takes any number.
        unsafe { self.0.get::<unsafe extern "C" fn(c_int) -> c_int>(b"hipSetDevice\0").unwrap()(device as c_int) };
    }

    /// How often each function was called.
    fn calls(&self) -> BTreeMap<String, usize> {
        let mut text = vec![0; 1 << 16];
        // SAFETY: tests/standin/src/lib.rs defines `standin_text` with this type; the buffer has this size.
        let length = unsafe {
            let tell = self.0.get::<unsafe extern "C" fn(*const c_char, *mut u8, usize) -> usize>(b"standin_text\0").unwrap();
            tell(c"calls".as_ptr(), text.as_mut_ptr(), text.len())
        };
        let text = std::str::from_utf8(&text[..length]).unwrap();
        text.lines().filter_map(|line| line.split_once(' ')).map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
    }

    /// Nothing is alive but the device's own queue and its modules, and nothing went wrong.
    fn expect_clean(&self) {
        for (what, most) in [
            ("device", 0),
            ("pinned", 0),
            ("streams", 1),
            ("events", 0),
            ("programs", 0),
            ("violations", 0),
            ("findings", 0),
            ("pending", 0),
            ("last error", 0),
        ] {
            let count = self.count(what);
            assert!(count <= most, "{count} {what}");
        }
    }
}

fn main() -> ExitCode {
    if let Ok(name) = std::env::var("HIPVERIFY_SCENARIO") {
        return scenario(&name).map_or_else(|error| failure(&error), |()| ExitCode::SUCCESS);
    }
    let mut trials = trials();
    trials.push(trial("soak::a_step_that_hangs_is_named", soak::a_step_that_hangs_is_named));
    trials.push(trial("the_runtime_of_this_machine", the_runtime_of_this_machine));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn failure(error: &anyhow::Error) -> ExitCode {
    eprintln!("Error: {error:?}");
    ExitCode::FAILURE
}

fn trial(name: &str, run: impl FnOnce() -> Result<Completion> + Send + 'static) -> Trial {
    Trial::ignorable_test(name, move || run().map_err(|error| Failed::from(format!("{error:?}"))))
}

/// Runs in the scenario's process.
fn scenario(name: &str) -> Result<()> {
    let (_, scenario) = SCENARIOS.iter().find(|(n, _)| *n == name).context("no such scenario")?;
    scenario(&StandIn::open()?)?;
    println!("scenario {name} done");
    Ok(())
}

macro_rules! scenarios {
    ($($module:ident::$name:ident($setup:expr);)*) => {
        const SCENARIOS: &[(&str, fn(&StandIn) -> Result<()>)] = &[$((stringify!($name), $module::$name)),*];
        /// A trial for each scenario.
        fn trials() -> Vec<Trial> {
            vec![$(trial(stringify!($name), || run(stringify!($name), &$setup))),*]
        }
    };
}

scenarios! {
    basics::copies_both_ways(Setup::default());
    basics::properties_of_rocm_6_and_later(Setup { without: &["hipGetDeviceProperties"], ..Setup::default() });
    basics::properties_of_rocm_5(Setup { without: &["hipGetDevicePropertiesR0600"], ..Setup::default() });
    basics::no_properties_at_all(Setup { without: &["hipGetDeviceProperties", "hipGetDevicePropertiesR0600"], ..Setup::default() });
    basics::without_optional_functions(Setup { without: &["hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"], ..Setup::default() });
    basics::without_a_required_function(Setup { without: &["hipMalloc", "hipEventQuery"], ..Setup::default() });
    basics::without_hiprtc(Setup { without: &["hiprtcCompileProgram"], ..Setup::default() });
    basics::no_device(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "0")], ..Setup::default() });
    basics::invalid_device(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipGetDeviceCount:0:101")], ..Setup::default() });
    basics::a_count_of_none(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipGetDeviceCount:0:0")], ..Setup::default() });
    basics::no_count(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipGetDeviceCount:0:719")], ..Setup::default() });
    basics::a_gpu_that_does_not_start(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipSetDevice:1:719")], ..Setup::default() });
    basics::two_devices(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..Setup::default() });
    basics::modules_of_another_device(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..Setup::default() });
    basics::images_live_as_long_as_their_modules(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..Setup::default() });
    basics::an_image_compiled_ahead_of_time(Setup { env: &[("HIPVERIFY_STANDIN_ARCH", "gfx90a:sramecc+:xnack-")], ..Setup::default() });
    basics::an_image_that_does_not_load(Setup { env: &[("HIPVERIFY_STANDIN_ARCH", "gfx90a:sramecc+:xnack-")], ..Setup::default() });
    basics::out_of_memory(Setup::default());
    basics::launch_failure(Setup::default());
    basics::asynchronous_errors(Setup::default());
    basics::errors_in_drop(Setup::default());
    basics::every_call_may_fail(Setup::default());
    basics::streams_are_ordered(Setup::default());
    basics::events(Setup::default());
    basics::transfers(Setup::default());
    basics::scopes(Setup::default());
    basics::foreign_handles(Setup::default());
    basics::own_kernels(Setup::default());
    basics::compiled_kernels_are_kept(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "7")], ..Setup::default() });
    basics::nothing_is_kept(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2"), ("HIPVERIFY_CACHE_DIR", "off")], ..Setup::default() });
    basics::memory_in_the_order_of_a_stream(Setup::default());
    basics::memory_without_streams(Setup { without: &["hipFreeAsync"], ..Setup::default() });
    basics::pinned_memory_is_coherent_for_answers_only(Setup::default());
    versions::rocm_5(ROCM_5.setup());
    versions::rocm_6(ROCM_6.setup());
    versions::rocm_7(ROCM_7.setup());
    versions::an_attribute_that_is_not_known(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipDeviceGetAttribute:4:1")], ..Setup::default() });
    versions::an_attribute_that_fails(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipDeviceGetAttribute:4:719")], ..Setup::default() });
    search::a_newer_runtime_without_a_device(Setup::search(search::NEWER_WITHOUT));
    search::a_newer_runtime_that_does_not_load(Setup::search(search::NEWER_BROKEN));
    search::no_runtime_with_a_device(Setup::search(search::ALL_WITHOUT));
    search::a_count_that_fails(Setup { env: &[("HIPVERIFY_STANDIN_FAIL", "hipGetDeviceCount:1:719")], ..Setup::search(search::BOTH_WITH) });
    faults::faults_in_loading_and_own_kernels(faults::setup());
    faults::faults_in_fill_and_comparison(faults::setup());
    faults::faults_in_plans_and_graphs(faults::setup());
    faults::faults_in_reductions(faults::setup());
    faults::faults_in_references(faults::setup());
    faults::faults_in_copies_and_streams(faults::setup());
    soak::soak_on_rocm_5(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..ROCM_5.setup() });
    soak::soak_on_rocm_6(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..ROCM_6.setup() });
    soak::soak_on_rocm_7(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..ROCM_7.setup() });
    plans::comparisons_only_enqueue(Setup::default());
    plans::batches_use_two_streams(Setup::default());
    plans::repeated_comparisons_allocate_nothing(Setup::default());
    plans::comparisons_on_foreign_streams(Setup::default());
    plans::faults_show_in_the_verdict(Setup::default());
    plans::comparisons_stay_on_one_device(Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "2")], ..Setup::default() });
    plans::workspaces_are_counted(Setup::default());
    // Few blocks fit, so that not all small tensors have the kernels for small ones.
    plans::workspaces_for_every_size(Setup { without: &["hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"], ..Setup::default() });
    plans::waits_that_a_capture_refuses(Setup::default());
    plans::abandoned_comparisons(Setup::default());
    plans::graphs_replay(Setup::default());
    plans::recordings_refuse_what_they_cannot_keep(Setup::default());
    plans::recordings_end_whatever_happens(Setup::default());
    plans::every_call_of_a_plan_may_fail(Setup::default());
    plans::short_comparisons_are_noticed(Setup { env: &[("HIPVERIFY_STANDIN_EAGER", "1")], ..Setup::default() });
    plans::without_counting_nodes(Setup { without: &["hipGraphGetNodes"], ..Setup::default() });
    plans::without_graphs(Setup { without: &["hipGraphInstantiate"], ..Setup::default() });
}

/// The stand-in's GPU.
fn gpu() -> Result<Device> {
    Ok(Device::open("gpu")?)
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

/// Debian's libamdhip64 on a machine without a GPU, and whatever else this machine has: the host device says why it was chosen.
fn the_runtime_of_this_machine() -> Result<Completion> {
    let device = Device::best()?;
    println!("{device}");
    match (device.kind(), hipverify_sys::amd()) {
        (DeviceKind::Host, Ok(runtime)) => {
            let expected = format!("HIP runtime {} found, but it has no device (hipErrorNoDevice)", runtime.describe());
            ensure!(device.why().starts_with(&expected), "{device}");
        }
        (DeviceKind::Host, Err(error)) => {
            println!("skipped: {error}");
            ensure!(device.why().starts_with(&error.to_string()), "{device}");
        }
        _ => {
            let x = DeviceMem::from_slice(&device, &ramp(1000))?;
            ensure!(x.to_vec()? == ramp(1000));
        }
    }
    Ok(Completion::Completed)
}
