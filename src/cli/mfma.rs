//! `hipverify mfma`: what a matrix instruction delivers.

use super::Outcome;
use super::apart::expect_apart;
use super::input::{InputArgs, only};
use super::screen::{self, DIM, Table};
use crate::dtype::DType;
use crate::files::{Format, Output, TensorFile, check, write};
use crate::matrix_core::{Arch, Mfma, Modifiers, Operand};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// The flags of `mfma`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// A, blocks x M x K (or M x K of a single block), K any multiple of the instruction's
    #[arg(required_unless_present = "list")]
    a: Option<PathBuf>,
    /// B, blocks x K x N (or K x N)
    #[arg(required_unless_present = "list")]
    b: Option<PathBuf>,
    /// C, blocks x M x N (or M x N); zeros when absent
    c: Option<PathBuf>,
    /// Lists the instructions, of one architecture with --arch
    #[arg(long)]
    list: bool,
    /// The architecture: gfx908 (MI100), gfx90a (MI200) or gfx942 (MI300)
    #[arg(long, required_unless_present = "list", value_parser = clap::value_parser!(Arch))]
    arch: Option<Arch>,
    /// The instruction, in the spelling of any architecture, with or without `v_mfma_`
    #[arg(long, value_name = "NAME", required_unless_present = "list")]
    instr: Option<String>,
    /// The file to write D to; `-` is standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// One block of A serves 2^N blocks
    #[arg(long, value_name = "N", default_value_t = 0)]
    cbsz: u32,
    /// Which of these blocks of A that is
    #[arg(long, value_name = "N", default_value_t = 0)]
    abid: u32,
    /// The pattern of lanes of B; for f64, 1 negates A, 2 B, 4 C
    #[arg(long, value_name = "N", default_value_t = 0)]
    blgp: u32,
    /// gfx942: fraction bits that a sum of products keeps beside a larger C: 32 (the default), 52 or 31
    #[arg(long, value_name = "BITS")]
    keep: Option<u32>,
    #[command(flatten)]
    input: InputArgs,
}

const AFTER: &str = "\
A K larger than the instruction's is a chain of instructions, each D the next C.
--dtype and --shape take one value for all of A, B and C, or one for each: --dtype f8e4m3fnuz,f8e5m2fnuz,- --shape 32,64 --shape 64,32 --shape -

Example: hipverify mfma --arch gfx90a --instr v_mfma_f32_32x32x8f16 a.npy b.npy -o d.npy";

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        if self.list {
            screen::print(&list(self.arch))?;
            return Ok(Outcome::Pass);
        }
        let (Some(a), Some(b), Some(arch), Some(name), Some(out)) = (&self.a, &self.b, self.arch, &self.instr, &self.out) else {
            bail!("A, B, --arch, --instr and --out are needed");
        };
        let mut mfma = Mfma::by_name(arch, name)?;
        if let Some(keep) = self.keep {
            mfma = mfma.with_kept_bits(keep)?;
        }
        let modifiers = mfma.check_modifiers(Modifiers { cbsz: self.cbsz, abid: self.abid, blgp: self.blgp })?;
        let (_, _, tc) = mfma.dtypes();
        let paths: Vec<&Path> = [a, b].into_iter().chain(&self.c).map(PathBuf::as_path).collect();
        expect_apart([("--out", out.as_path())], paths.iter().copied())?;
        let files = self.input.open_each(&paths)?;
        let [a, b, c @ ..] = &*files else { bail!("A and B are needed") };
        let a = operand(mfma, Operand::A, a)?;
        let b = operand(mfma, Operand::B, b)?;
        ensure!(
            a.k == b.k,
            "{}: K is {}, but the rows of B in {} are {}",
            self.a.as_deref().unwrap_or(Path::new("A")).display(),
            a.k,
            self.b.as_deref().unwrap_or(Path::new("B")).display(),
            b.k
        );
        let elements = mfma.blocks() * mfma.m() * mfma.n();
        let c = match c.first() {
            Some(file) => operand(mfma, Operand::C, file)?,
            None => Data { dtype: tc, bytes: vec![0; elements * tc.unit_bytes()], k: 0 },
        };
        let mut shape = vec![mfma.m(), mfma.n()];
        if mfma.blocks() > 1 {
            shape.insert(0, mfma.blocks());
        }
        let format = Format::of(out)?;
        check(out, format, tc, &shape)?;
        let mut d = vec![0u8; c.bytes.len()];
        mfma.run_bytes(modifiers, (a.dtype, &a.bytes), (b.dtype, &b.bytes), (c.dtype, &c.bytes), &mut d)?;
        write(out, format, &Output { name: "d", dtype: tc, shape: &shape, bytes: &d })?;
        Ok(Outcome::Pass)
    }
}

/// Reads an operand and checks its shape.
fn operand(mfma: Mfma, operand: Operand, file: &TensorFile) -> Result<Data> {
    let tensor = only(file)?;
    let (rows, columns) = mfma.shape(operand);
    let loaded = tensor.load()?;
    let found = loaded.layout().shape();
    let blocks = mfma.blocks();
    // A single block needs no extent of its own.
    let (ok, r, c) = match *found {
        [r, c] => (blocks == 1, r, c),
        [b, r, c] => (b == blocks, r, c),
        _ => (false, 0, 0),
    };
    let multiple = |n: usize, k: usize| n > 0 && n.is_multiple_of(k);
    let (fits, k) = match operand {
        Operand::A => (r == rows && multiple(c, columns), c),
        Operand::B => (c == columns && multiple(r, rows), r),
        Operand::C | Operand::D => (r == rows && c == columns, 0),
    };
    let lead = if blocks > 1 { format!("{blocks} x ") } else { String::new() };
    let wanted = match operand {
        Operand::A => format!("{rows} x K with K a multiple of {columns}"),
        Operand::B => format!("K x {columns} with K a multiple of {rows}"),
        Operand::C | Operand::D => format!("{rows} x {columns}"),
    };
    ensure!(ok && fits, "{}: shape {found:?} is no {operand:?} of {mfma}, which takes {lead}{wanted}", tensor.label());
    let (dtype, layout) = (loaded.dtype(), loaded.layout());
    if layout.is_contiguous() {
        return Ok(Data { dtype, bytes: loaded.bytes().to_vec(), k });
    }
    let size = dtype.bytes_for(layout.elements()).context("the size of the tensor")?;
    let mut bytes = vec![0; size];
    for i in 0..layout.elements() {
        dtype.store_bits(&mut bytes, i, dtype.load_bits(loaded.bytes(), layout.index(i)));
    }
    Ok(Data { dtype, bytes, k })
}

/// An operand in row-major order.
struct Data {
    dtype: DType,
    bytes: Vec<u8>,
    k: usize,
}

/// The table of instructions.
fn list(arch: Option<Arch>) -> String {
    let mut out = String::new();
    for arch in Arch::ALL.into_iter().filter(|a| arch.is_none_or(|wanted| wanted == *a)) {
        let mut table = Table::new(&["instruction", ">M", ">N", ">K", ">blocks", "A", "B", "C, D", ">registers A", ">B", ">C, D"]);
        for mfma in Mfma::all(arch) {
            let (a, b, c) = mfma.dtypes();
            table.row(vec![
                mfma.name(),
                mfma.m().to_string(),
                mfma.n().to_string(),
                mfma.k().to_string(),
                mfma.blocks().to_string(),
                a.to_string(),
                b.to_string(),
                c.to_string(),
                mfma.registers(Operand::A).to_string(),
                mfma.registers(Operand::B).to_string(),
                mfma.registers(Operand::C).to_string(),
            ]);
        }
        out += &format!("{arch}  {}  {} instructions\n", arch.product(), screen::count(Mfma::all(arch).count() as u64));
        for (i, line) in table.lines().iter().enumerate() {
            out += &if i == 0 { format!("  {DIM}{line}{DIM:#}\n") } else { format!("  {line}\n") };
        }
    }
    out
}
