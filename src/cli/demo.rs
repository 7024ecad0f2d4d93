//! `hipverify demo`: two comparisons on files that it makes, to see what a verdict looks like.

use super::{Outcome, Program, screen};
use crate::device::{Layout, TensorMut};
use crate::dtype::{DType, Overflow, Rounding, convert};
use crate::files::{Format, Output, write};
use crate::fill::{FillUniformRand, fill};
use anyhow::{Context, Result, bail};
use clap::Parser;
use std::path::{Path, PathBuf};

/// The flags of `demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify demo a-folder")]
pub(super) struct Args {
    /// Where the files go; they stay, to be played with. None that is there is written over
    #[arg(default_value = "hipverify-demo")]
    folder: PathBuf,
}

/// The files: the reference, a right result and a wrong one.
const FILES: [&str; 3] = ["reference.npy", "right.npy", "wrong.npy"];

const SHAPE: [usize; 2] = [256, 384];

/// Three elements in a row that the wrong result leaves unwritten: (row, first column).
const UNWRITTEN: (usize, usize) = (17, 381);

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        if let Some(there) = FILES.iter().map(|name| folder.join(name)).find(|path| path.exists()) {
            bail!("{}: is there already, and the demo writes over no file: name another folder", there.display());
        }
        let elements = SHAPE[0] * SHAPE[1];
        let mut reference = vec![0f32; elements];
        let layout = Layout::contiguous(&SHAPE)?;
        let mut tensor = TensorMut::from_host_bytes(bytemuck::cast_slice_mut(&mut reference), DType::F32, layout)?;
        fill(&mut tensor, &FillUniformRand::new(-1.0, 1.0).seed(1))?;
        let mut result = vec![0u8; 2 * elements];
        convert::encode_from_f32(DType::F16, &reference, Rounding::NearestEven, Overflow::Ieee, &mut result);
        save(&folder.join("reference.npy"), DType::F32, bytemuck::cast_slice(&reference))?;
        save(&folder.join("right.npy"), DType::F16, &result)?;
        let start = 2 * (UNWRITTEN.0 * SHAPE[1] + UNWRITTEN.1);
        result[start..start + 6].fill(0);
        save(&folder.join("wrong.npy"), DType::F16, &result)?;
        screen::print("A reference in f32, a result that is the reference rounded to f16, and one with three elements unwritten:\n")?;
        for (result, expected) in [("right.npy", Outcome::Pass), ("wrong.npy", Outcome::Mismatch)] {
            let [result, reference] = [result, "reference.npy"].map(|name| folder.join(name));
            screen::print(&format!("\n$ hipverify compare {} {}\n", result.display(), reference.display()))?;
            let program = Program::try_parse_from(["hipverify".as_ref(), "compare".as_ref(), result.as_os_str(), reference.as_os_str()])?;
            let outcome = program.command.run()?;
            if outcome != expected {
                bail!("{}: expected {expected:?}, found {outcome:?}", result.display());
            }
        }
        Ok(Outcome::Pass)
    }
}

fn save(path: &Path, dtype: DType, bytes: &[u8]) -> Result<()> {
    Ok(write(path, Format::Npy, &Output { name: "tensor", dtype, shape: &SHAPE, bytes })?)
}
