//! Tests and the devices they run on, as trials.

use crate::target::{Machine, Target};
use anyhow::Result;
use libtest_mimic::{Completion, Failed, Trial};
use std::sync::Arc;

/// A test of kernels.
pub struct Test {
    pub name: &'static str,
    pub on: On,
    pub run: fn(&Target) -> Result<()>,
}

/// On which devices a test runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// GPUs. It compares them with the host.
    Gpus,
    /// GPUs, of the stand-in's only the one whose wavefronts have 64 lanes: the size of a wavefront has no part in it, and it takes the stand-in long.
    Sweeps,
    /// GPUs for which kernels can be compiled at run time: not those of NVIDIA.
    Compiling,
    /// NVIDIA's GPUs, for which nothing is compiled at run time: code objects are made by nvcc.
    Nvidia,
    /// GPUs and the host: it compares each with a definition.
    All,
    /// GPUs with the matrix cores of AMD, of the stand-in's all of them.
    MatrixCores,
    /// The host, and GPUs without.
    NoMatrixCores,
    /// Real GPUs: it needs sizes that take the stand-in too long.
    RealGpus,
    /// The stand-in's GPUs that are kept for kernels that are broken on purpose.
    StandIn,
    /// The one of them whose wavefronts have 64 lanes.
    StandIn64,
    /// The one of them whose wavefronts have 32 lanes.
    StandIn32,
    /// As [`StandIn64`](On::StandIn64), in runs with `--ignored` or `--include-ignored`.
    Asked,
    /// The same, in a run whose kernels AddressSanitizer checks. It is all of the [`StandIn`](On::StandIn)'s in such a run: what others find has other words.
    AddressSanitizer,
    /// As [`MatrixCores`](On::MatrixCores), of the stand-in only.
    StandInMatrixCores,
    /// Once, for the machine: it is told the host.
    Host,
}

/// Why a test cannot run on this machine, as an error of it: its trial is ignored.
#[derive(Debug)]
pub struct CannotRun(pub String);

impl std::fmt::Display for CannotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotRun {}

/// The tests of a module, by where they run.
macro_rules! tests {
    ($($on:ident: $($name:ident),+ $(,)?;)+) => {
        pub const TESTS: &[crate::suite::Test] =
            &[$($(crate::suite::Test { name: stringify!($name), on: crate::suite::On::$on, run: $name }),+),+];
    };
}
pub(crate) use tests;

/// Every test on every device that it is for.
pub fn trials(machine: &Machine, modules: &[(&str, &'static [Test])]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (module, tests) in modules {
        for test in *tests {
            for target in machine.targets.iter().filter(|target| target.runs(test.on)) {
                let name = format!("{module}::{} [{}]", test.name, target.label());
                let on_demand = test.on == On::Asked;
                trials.push(trial(name, test.run, target.clone(), machine.ignored.clone()).with_ignored_flag(on_demand));
            }
        }
    }
    trials
}

/// A test on a device. On the stand-in, when it cannot execute kernels, the trial is ignored with the reason.
fn trial(name: String, run: fn(&Target) -> Result<()>, target: Target, ignored: Option<Arc<str>>) -> Trial {
    Trial::ignorable_test(name, move || match ignored.filter(|_| target.is_standin()) {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => match run(&target) {
            Ok(()) => Ok(Completion::Completed),
            Err(error) if error.is::<CannotRun>() => Ok(Completion::ignored_with(error.to_string())),
            Err(error) => Err(Failed::from(format!("on {}: {error:#}", target.device))),
        },
    })
}
