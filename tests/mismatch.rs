//! What a test prints that ends with a mismatch: the report's screen. Each case runs in a process of its own, since it fails on purpose.

use hipverify::verify::{Mismatch, Report, Tolerance, gpu_verify};
use hipverify::{Device, DeviceMem, Error};
use std::process::Command;

/// Set in the process of a case; without it the cases do nothing.
const CASE: &str = "HIPVERIFY_TEST_MISMATCH";

fn comparison() -> Result<Report, Error> {
    let device = Device::host();
    let result = DeviceMem::<f32>::from_slice(&device, &[1.0, 2.5, 4.0])?;
    gpu_verify(&result, &DeviceMem::<f32>::from_slice(&device, &[1.0, 2.0, 4.0])?, &Tolerance::exact())
}

#[test]
fn as_itself() -> Result<(), Mismatch> {
    if std::env::var_os(CASE).is_some() {
        comparison().unwrap().into_result()?;
    }
    Ok(())
}

#[test]
fn in_a_box() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os(CASE).is_some() {
        comparison()?.into_result()?;
    }
    Ok(())
}

#[test]
fn in_anyhow() -> anyhow::Result<()> {
    if std::env::var_os(CASE).is_some() {
        comparison()?.into_result()?;
    }
    Ok(())
}

#[test]
fn a_test_prints_the_screen() {
    let screen = comparison().unwrap().to_string();
    assert!(screen.starts_with("FAIL  1 of 3 elements differ"), "{screen}");
    for case in ["as_itself", "in_a_box", "in_anyhow"] {
        let output = Command::new(std::env::current_exe().unwrap()).args(["--exact", case]).env(CASE, "1").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(101), "{case}: {printed}");
        assert!(printed.contains(&format!("\nError: {screen}\n")), "{case} prints\n{printed}\ninstead of\n{screen}");
    }
}
