//! The device suite: every test that launches kernels, once for each device.
//!
//! A trial is a test on a device, `same_bits::every_pair_of_formats [gfx90a, wavefront 64]`; filters, `--list` and `--ignored` are those of
//! `cargo test`. The devices, chosen in [`target`], are real GPUs where there are some, else the stand-in GPU of `tests/standin`, which
//! executes the kernels of `hip/` in wavefronts of 64 and of 32; an NVIDIA GPU comes on top with the feature `nvidia`, and the host where a test
//! means it as well. Without a C++ compiler the stand-in's trials are ignored and say so.
//!
//! A run without a filter ends with a table of the kernels that the stand-in has launched, and fails when one of them was never launched at a
//! wavefront size that it is made for; so does one with filters where `HIPVERIFY_REQUIRE` names `kernels`,
//! but for a size that `--skip 'wavefront 32]'` leaves out.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod async_verify;
mod bandwidth;
mod bound;
mod checks;
mod compare;
mod compat;
mod devices;
mod fill;
mod hash;
mod launches;
mod layouts;
mod memory;
mod mfma;
mod model_gemm;
mod net;
mod numerics;
mod own_kernel;
mod ranges;
mod reduce_max;
mod references;
mod same_bits;
mod standin;
mod suite;
#[cfg(feature = "suite")]
mod suite_kernels;
mod suite_launches;
mod target;
mod tensor_cores;
mod tensors;

use libtest_mimic::Arguments;
use std::process::ExitCode;
use target::Machine;

const MODULES: &[(&str, &[suite::Test])] = &[
    ("async_verify", async_verify::TESTS),
    ("bandwidth", bandwidth::TESTS),
    ("bound", bound::TESTS),
    ("checks", checks::TESTS),
    ("compat", compat::TESTS),
    ("devices", devices::TESTS),
    ("fill", fill::TESTS),
    ("hash", hash::TESTS),
    ("layouts", layouts::TESTS),
    ("memory", memory::TESTS),
    ("mfma", mfma::TESTS),
    ("model_gemm", model_gemm::TESTS),
    ("net", net::TESTS),
    ("net::comparison", net::comparison::TESTS),
    ("net::matrix", net::matrix::TESTS),
    ("net::mutants", net::mutants::TESTS),
    ("numerics", numerics::TESTS),
    ("ranges", ranges::TESTS),
    ("reduce_max", reduce_max::TESTS),
    ("references", references::TESTS),
    ("same_bits", same_bits::TESTS),
    #[cfg(feature = "suite")]
    ("suite_kernels", suite_kernels::TESTS),
    ("suite_launches", suite_launches::TESTS),
    ("tensor_cores", tensor_cores::TESTS),
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // SAFETY: no thread has been started yet.
    let machine = match unsafe { Machine::choose() } {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let conclusion = libtest_mimic::run(&arguments, suite::trials(&machine, MODULES));
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.ignored || target::requires("kernels");
    // Machine code is that of chips with wavefronts of 64 lanes.
    let mut sizes = if standin::StandIn::runs_machine_code() { vec![64] } else { vec![64, 32] };
    sizes.retain(|size| !arguments.skip.iter().any(|skipped| *skipped == format!("wavefront {size}]")));
    let cores: Vec<_> = machine.targets.iter().filter_map(target::Target::matrix_cores).collect();
    match machine.standin() {
        Some(standin) if whole && !arguments.list && !conclusion.has_failed() => launches::report(standin, &sizes, &cores),
        _ => conclusion.exit_code(),
    }
}
