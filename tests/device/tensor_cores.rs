//! What the tensor cores of a real NVIDIA GPU deliver is what their models say, bit for bit.

use crate::suite::{CannotRun, tests};
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use hipverify::matrix_core::{Arch, Mma};
use hipverify::suite::MmaProbe;

tests! {
    Nvidia: every_instruction_gives_its_models_bits;
}

/// Tiles of each kind of data and each length of chain.
const TILES: usize = 128;

fn every_instruction_gives_its_models_bits(target: &Target) -> Result<()> {
    let name = target.device.arch().context("an architecture")?;
    let Ok(arch) = name.parse::<Arch>() else { return Err(CannotRun(format!("no models of {name}")).into()) };
    let (mut elements, mut differing) = (0, Vec::new());
    for mma in Mma::all(arch) {
        for steps in [1, 2, 5] {
            let probe = MmaProbe::new(mma, steps, TILES);
            let found = probe.measure(&target.device).with_context(|| mma.to_string())?;
            let differences = probe.differences(&found)?;
            elements += differences.elements;
            if differences.count() > 0 {
                differing.push(differences.to_string());
            }
        }
    }
    ensure!(elements > 0, "no instructions of {arch}");
    ensure!(
        differing.is_empty(),
        "{} instructions and lengths of chains differ from their models:\n{}",
        differing.len(),
        differing.join("\n")
    );
    Ok(())
}
