//! A suite as a test of `cargo test`: a trial a case, by libtest-mimic (feature `suite-tests`).
//!
//! Cases run in this process, several at a time: a kernel that crashes or hangs takes the whole test with it. `hipverify suite run` gives each a process of its own.

use super::case_text;
use super::cases::{Suite, quoted};
use super::execute::Computed;
use super::file::SuiteFile;
use super::kernel::Kernels;
use crate::device::{Device, DeviceKind};
use crate::error::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// The group whose cases run only with `--ignored` or `--include-ignored`.
const IGNORED: &str = "ignored";

/// The variable that names the device, as [`Device::open`] takes it.
const DEVICE: &str = "HIPVERIFY_DEVICE";

/// Runs the cases of a suite as the trials of a test with `harness = false`, whose `main` this is: filters, `--list`, `--exact`, `--ignored`, `--test-threads` and the
/// output are those of `cargo test`. `file` is a path from the package's folder, or the name of a suite that comes with this crate.
///
/// ```no_run
/// use hipverify::suite::{Kernels, run_tests};
/// fn main() -> std::process::ExitCode {
///     // A kernel that writes zeros: its cases fail.
///     let kernels = Kernels::default().with("mine", |launch, _stream| {
///         let elements = launch.output_shape().iter().product();
///         Ok(launch.write(&vec![0.0f32; elements])?)
///     });
///     run_tests("tests/gemm.toml", kernels)
/// }
/// ```
///
/// The variable `HIPVERIFY_DEVICE` names the device (`best` if it is not set); standard error has its name. Cases of the group `ignored` are ignored unless asked
/// for, and those of GPU code are on a machine without a GPU. A case's `timeout` does not count here.
///
/// The exit code is 0 when every trial passed, 101 when one failed, 2 when the suite cannot be read.
#[must_use]
pub fn run_tests(file: &str, kernels: Kernels) -> ExitCode {
    let arguments = Arguments::from_args();
    match trials(file, kernels, std::env::var(DEVICE).ok()) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

/// What all trials share.
struct Shared {
    suite: Suite,
    asked: Option<String>,
    /// Opened by the first trial that runs.
    device: OnceLock<Result<Device, String>>,
}

fn trials(file: &str, kernels: Kernels, asked: Option<String>) -> Result<Vec<Trial>> {
    let suite = Suite::new(&SuiteFile::find(file)?, file, kernels)?;
    let shared = Arc::new(Shared { suite, asked, device: OnceLock::new() });
    let trial = |number: usize| {
        let case = &shared.suite.cases[number];
        let (name, ignored) = (case.name.clone(), case.groups.iter().any(|group| group == IGNORED));
        let shared = Arc::clone(&shared);
        Trial::ignorable_test(name, move || shared.run(number)).with_ignored_flag(ignored)
    };
    Ok((0..shared.suite.cases.len()).map(trial).collect())
}

impl Shared {
    fn run(&self, number: usize) -> std::result::Result<Completion, Failed> {
        let (case, device) = (&self.suite.cases[number], self.device()?);
        if device.kind() == DeviceKind::Host && case.needs_gpu() {
            return Ok(Completion::ignored_with(format!("its kernel needs a GPU, and this is {device}")));
        }
        let Computed { result, report, .. } = self.suite.compute(case, &device);
        if result.ok {
            return Ok(Completion::Completed);
        }
        Err(case_text::text(&result, report.as_ref(), &command(&case.name)).into())
    }

    fn device(&self) -> std::result::Result<Device, Failed> {
        let open = || {
            let device = match &self.asked {
                Some(name) => Device::open(name).map_err(|e| format!("{DEVICE}={name}: {e}")),
                None => Device::best().map_err(|e| e.to_string()),
            }?;
            eprintln!("device: {device}");
            Ok(device)
        };
        self.device.get_or_init(open).clone().map_err(Failed::from)
    }
}

/// The command that runs a trial alone: of the test whose program this is.
fn command(trial: &str) -> String {
    let program = std::env::current_exe().ok();
    let stem = program.as_deref().and_then(|path| path.file_stem()).and_then(|stem| stem.to_str()).unwrap_or("NAME");
    // Cargo adds a hash of 16 digits.
    let test = match stem.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()) => name,
        _ => stem,
    };
    format!("cargo test --test {test} -- --exact {}", quoted(trial))
}
