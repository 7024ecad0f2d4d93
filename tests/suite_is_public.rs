//! A suite as a test of `cargo test`: this program is such a test where its trials start it again, as the tests of a project with kernels of its own are.
//!
//! And `suite` uses what is public and nothing else: clippy, which generates no code and so takes a sixth of the time, checks it as a module of this program, where nothing else can be named.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[cfg(clippy)]
use hipverify::{check, device, dtype, fill, matrix_core, reference};
#[cfg(all(clippy, feature = "suite"))]
use hipverify::{files, verify};

#[cfg(clippy)]
mod error {
    pub use hipverify::{Error, Result};
}

#[cfg(clippy)]
#[path = "../src/suite/mod.rs"]
#[allow(dead_code, unused_imports)]
mod suite;

#[cfg(all(not(clippy), feature = "suite-tests"))]
use hipverify::suite;

#[cfg(not(feature = "suite-tests"))]
fn main() {
    println!("suites need the feature suite-tests");
}

#[cfg(feature = "suite-tests")]
fn main() -> std::process::ExitCode {
    match std::env::var(trials::SUITE) {
        Ok(file) => suite::run_tests(&file, trials::kernels()),
        Err(_) => trials::run(),
    }
}

#[cfg(feature = "suite-tests")]
mod trials {
    use super::suite::{Kernels, Launch};
    use libtest_mimic::{Arguments, Failed, Trial};
    use std::process::{Command, ExitCode};

    /// The variable by which this program is told to be the test of a suite.
    pub const SUITE: &str = "HIPVERIFY_TEST_SUITE";

    const TEXT: &str = "[defaults]\ntype = 'f32'\n\
        [[gemm]]\nsize = ['8x8x8', '9x7x5']\nkernel = ['mine', 'wrong']\n\
        [[gemm]]\nname = 'slow'\nsize = '4x4x4'\nkernel = 'mine'\ngroups = ['ignored']\n\
        [[gemm]]\nname = 'on a gpu'\nsize = '4x4x4'\nkernel = 'own'\n\
        [kernels.own]\nsource = 'own.hip'\nfunction = 'own'\ngrid = 1\nblock = 64\n";

    /// A product of matrices on the host; the wrong one leaves out the last term.
    pub fn kernels() -> Kernels {
        let product = |terms_left_out: usize| {
            move |launch: &mut Launch<'_>, _: &hipverify::Stream| {
                let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
                let &[m, n] = launch.output_shape() else { return Err("matrices only".into()) };
                let k = a.len() / m;
                let element = |i: usize| (0..k - terms_left_out).map(|p| a[i / n * k + p] * b[p * n + i % n]).sum();
                Ok(launch.write((0..m * n).map(element).collect::<Vec<f32>>().as_slice())?)
            }
        };
        Kernels::default().with("mine", product(0)).with("wrong", product(1))
    }

    pub fn run() -> ExitCode {
        let trials = vec![
            Trial::test("cases_are_trials", cases_are_trials),
            Trial::test("what_keeps_a_suite_from_running_is_told", what_keeps_a_suite_from_running_is_told),
        ];
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    /// Code and output of the test with these arguments.
    fn test(suite: &str, arguments: &[&str], device: Option<&str>) -> (Option<i32>, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        std::fs::write(&file, suite).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(arguments).env(SUITE, &file).env("HIPVERIFY_HIP_LIBRARY", "off").env_remove("HIPVERIFY_DEVICE");
        command.envs(device.map(|name| ("HIPVERIFY_DEVICE", name)));
        let output = command.output().unwrap();
        (output.status.code(), format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    }

    fn cases_are_trials() -> Result<(), Failed> {
        let table: [(&[&str], i32, &[&str]); 6] = [
            (
                &[],
                101,
                &[
                    "running 6 tests",
                    "test gemm/8x8x8/mine  ... ok",
                    "test gemm/9x7x5/wrong ... FAILED",
                    "test slow             ... ignored",
                    "test on_a_gpu         ... ignored (its kernel needs a GPU, and this is host",
                    "2 passed; 2 failed; 2 ignored",
                    "fail  gemm/9x7x5/wrong   expected: pass",
                    "elements differ",
                    "to repeat it: cargo test --test suite_is_public -- --exact gemm/9x7x5/wrong",
                    "device: host",
                ],
            ),
            (&["mine"], 0, &["2 passed; 0 failed; 0 ignored", "4 filtered out"]),
            (&["--exact", "gemm/8x8x8/mine"], 0, &["1 passed"]),
            (&["--ignored"], 0, &["test slow ... ok"]),
            (&["--list"], 0, &["gemm/9x7x5/mine: test", "slow: test"]),
            (&["--skip", "wrong", "--skip", "gpu", "--include-ignored"], 0, &["3 passed; 0 failed; 0 ignored"]),
        ];
        for (arguments, code, all) in table {
            let (found, said) = test(TEXT, arguments, None);
            assert_eq!(found, Some(code), "{arguments:?}: {said}");
            for words in all {
                assert!(said.contains(words), "{arguments:?}, {words}: {said}");
            }
        }
        Ok(())
    }

    fn what_keeps_a_suite_from_running_is_told() -> Result<(), Failed> {
        for (suite, device, code, words) in [
            ("[[gemm]]\nsice = '4x4x4'\n", None, 2, "mine.toml:2: unknown key `sice`; did you mean `size`?"),
            ("[[gemm]]\nsize = '4x4x4'\nkernel = 'yours'\n", None, 2, "fma, mine, wrong, an arithmetic"),
            (TEXT, Some("gpu"), 101, "HIPVERIFY_DEVICE=gpu: no"),
        ] {
            let (found, said) = test(suite, &["mine"], device);
            assert!(found == Some(code) && said.contains(words), "{words}: {found:?} {said}");
        }
        Ok(())
    }
}
