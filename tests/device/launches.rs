//! Which kernels a whole run has launched on the stand-in.

use crate::standin::StandIn;
use hipverify::matrix_core::{Arch, Mfma};
use std::process::ExitCode;

/// Whether a kernel is made for wavefronts of this size on these matrix cores: they have 64 lanes, and each the instructions of its chip.
fn made_for(kernel: &str, wavefront: usize, cores: &[Arch]) -> bool {
    let Some(instruction) = kernel.strip_prefix("mfma_") else { return true };
    let on = |cores: &[Arch]| cores.iter().any(|arch| Mfma::by_name(*arch, instruction).is_ok());
    wavefront == 64 && (on(cores) || !on(&Arch::AMD))
}

/// Prints the launches of each kernel by the size of a wavefront. A failure when there is one of these sizes that a kernel is made for and was never
/// launched at, or no kernel at all. `cores`: those of the devices.
pub fn report(standin: &StandIn, sizes: &[usize], cores: &[Arch]) -> ExitCode {
    let (kernels, launches) = (standin.kernels(), standin.launches());
    let count = |kernel: &str, wavefront: usize| launches.get(&(kernel.to_owned(), wavefront)).copied().unwrap_or(0);
    println!("{:<44} {:>14} {:>14}", "launches on the stand-in GPU", "wavefront 64", "wavefront 32");
    let mut missing = Vec::new();
    for kernel in &kernels {
        let column = |wavefront| if made_for(kernel, wavefront, cores) { count(kernel, wavefront).to_string() } else { "-".to_owned() };
        println!("  {kernel:<42} {:>14} {:>14}", column(64), column(32));
        let never = sizes.iter().filter(|wavefront| made_for(kernel, **wavefront, cores) && count(kernel, **wavefront) == 0);
        missing.extend(never.map(|wavefront| format!("{kernel} at {wavefront}")));
    }
    println!();
    if missing.is_empty() && !kernels.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: of {} kernels, never launched: {}", kernels.len(), missing.join(", "));
    ExitCode::FAILURE
}
