//! What a `main` prints that ends with a mismatch: the report's screen. It has no harness, so that this `main` is the process's own; the
//! process starts itself to see what it prints.

use hipverify::verify::{Report, Tolerance, gpu_verify};
use hipverify::{Device, DeviceMem, Error};
use std::process::Command;

/// Set in the process that fails on purpose.
const CASE: &str = "HIPVERIFY_TEST_MISMATCH";

fn comparison() -> Result<Report, Error> {
    let device = Device::host();
    let result = DeviceMem::<f32>::from_slice(&device, &[1.0, 2.5, 4.0])?;
    gpu_verify(&result, &DeviceMem::<f32>::from_slice(&device, &[1.0, 2.0, 4.0])?, &Tolerance::exact())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let report = comparison()?;
    if std::env::var_os(CASE).is_some() {
        report.into_result()?;
        return Ok(());
    }
    let output = Command::new(std::env::current_exe()?).env(CASE, "1").output()?;
    assert_eq!(String::from_utf8(output.stderr)?, format!("Error: {report}\n"));
    assert_eq!(output.status.code(), Some(1));
    println!("a main prints the screen: ok");
    Ok(())
}
