//! `hipverify mfma`: what a matrix instruction delivers.

use super::Outcome;
use super::apart::expect_apart;
use super::input::{InputArgs, only};
use super::screen::{self, DIM, Table};
use crate::dtype::DType;
use crate::files::{Format, Output, TensorFile, check, write};
use crate::matrix_core::{Arch, Mfma, Mma, Modifiers, Operand, Vendor};
use anyhow::{Result, bail, ensure};
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
    /// The architecture: gfx908 (MI100), gfx90a (MI200), gfx942 (MI300), or of NVIDIA sm_75, sm_80, sm_89, sm_90 or sm_100
    #[arg(long, required_unless_present = "list", value_parser = clap::value_parser!(Arch))]
    arch: Option<Arch>,
    /// The instruction, in the spelling of any architecture, with or without `v_mfma_`; of NVIDIA with or without `mma.sync.aligned.` and `row.col.`
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

Examples:
  hipverify mfma --arch sm_90 --instr m16n8k16.f32.f16.f16.f32 a.npy b.npy -o d.npy
  hipverify mfma --arch gfx90a --instr v_mfma_f32_32x32x8f16 a.npy b.npy -o d.npy";

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        if self.list {
            let list = list(self.arch);
            ensure!(
                !list.is_empty(),
                "no instruction of {} is modelled by itself: check and reference take its arithmetic",
                self.arch.map_or("it", Arch::name)
            );
            screen::print(&list)?;
            return Ok(Outcome::Pass);
        }
        let (Some(a), Some(b), Some(arch), Some(name), Some(out)) = (&self.a, &self.b, self.arch, &self.instr, &self.out) else {
            bail!("A, B, --arch, --instr and --out are needed");
        };
        let modifiers = Modifiers { cbsz: self.cbsz, abid: self.abid, blgp: self.blgp };
        let instruction = Instruction::of(arch, name, self.keep, modifiers)?;
        let tc = instruction.dtypes().2;
        let paths: Vec<&Path> = [a, b].into_iter().chain(&self.c).map(PathBuf::as_path).collect();
        expect_apart([("--out", out.as_path())], paths.iter().copied())?;
        let files = self.input.open_each(&paths)?;
        let [a, b, c @ ..] = &*files else { bail!("A and B are needed") };
        let a = operand(instruction, Operand::A, a)?;
        let b = operand(instruction, Operand::B, b)?;
        ensure!(
            a.k == b.k,
            "{}: K is {}, but the rows of B in {} are {}",
            self.a.as_deref().unwrap_or(Path::new("A")).display(),
            a.k,
            self.b.as_deref().unwrap_or(Path::new("B")).display(),
            b.k
        );
        let ((rows, columns), blocks) = (instruction.shape(Operand::C), instruction.blocks());
        let elements = blocks * rows * columns;
        let c = match c.first() {
            Some(file) => operand(instruction, Operand::C, file)?,
            None => Data { dtype: tc, bytes: vec![0; elements * tc.unit_bytes()], k: 0 },
        };
        let mut shape = vec![rows, columns];
        if blocks > 1 {
            shape.insert(0, blocks);
        }
        let format = Format::of(out)?;
        check(out, format, tc, &shape)?;
        let d = instruction.run(&a, &b, &c)?;
        write(out, format, &Output { name: "d", dtype: tc, shape: &shape, bytes: &d })?;
        Ok(Outcome::Pass)
    }
}

/// An instruction of either maker.
#[derive(Clone, Copy)]
enum Instruction {
    Mfma(Mfma, Modifiers),
    Mma(Mma),
}

impl Instruction {
    fn of(arch: Arch, name: &str, keep: Option<u32>, modifiers: Modifiers) -> Result<Instruction> {
        if arch.vendor() == Vendor::Nvidia {
            let mma = Mma::by_name(arch, name)?;
            ensure!(
                keep.is_none() && modifiers == Modifiers::default(),
                "--keep, --cbsz, --abid and --blgp are for mfma instructions: {mma} takes none"
            );
            return Ok(Instruction::Mma(mma));
        }
        let mut mfma = Mfma::by_name(arch, name)?;
        if let Some(keep) = keep {
            mfma = mfma.with_kept_bits(keep)?;
        }
        Ok(Instruction::Mfma(mfma, mfma.check_modifiers(modifiers)?))
    }

    /// The instructions of an architecture.
    fn all(arch: Arch) -> Vec<Instruction> {
        let none = Modifiers::default();
        Mfma::all(arch).map(|mfma| Instruction::Mfma(mfma, none)).chain(Mma::all(arch).map(Instruction::Mma)).collect()
    }

    fn name(self) -> String {
        match self {
            Instruction::Mfma(mfma, _) => mfma.name(),
            Instruction::Mma(mma) => mma.name(),
        }
    }

    fn blocks(self) -> usize {
        match self {
            Instruction::Mfma(mfma, _) => mfma.blocks(),
            Instruction::Mma(_) => 1,
        }
    }

    fn dtypes(self) -> (DType, DType, DType) {
        match self {
            Instruction::Mfma(mfma, _) => mfma.dtypes(),
            Instruction::Mma(mma) => mma.dtypes(),
        }
    }

    fn shape(self, operand: Operand) -> (usize, usize) {
        match self {
            Instruction::Mfma(mfma, _) => mfma.shape(operand),
            Instruction::Mma(mma) => mma.shape(operand),
        }
    }

    fn registers(self, operand: Operand) -> usize {
        match self {
            Instruction::Mfma(mfma, _) => mfma.registers(operand),
            Instruction::Mma(mma) => mma.registers(operand),
        }
    }

    /// D of a chain.
    fn run(self, a: &Data, b: &Data, c: &Data) -> Result<Vec<u8>> {
        match self {
            Instruction::Mfma(mfma, modifiers) => {
                let mut d = vec![0u8; c.bytes.len()];
                mfma.run_bytes(modifiers, (a.dtype, &a.bytes), (b.dtype, &b.bytes), (c.dtype, &c.bytes), &mut d)?;
                Ok(d)
            }
            Instruction::Mma(mma) => {
                let (ta, tb, tc) = mma.dtypes();
                for (operand, expected, found) in [("A", ta, a.dtype), ("B", tb, b.dtype), ("C", tc, c.dtype)] {
                    // tf32 instructions take f32 words.
                    let fits = found == expected || (expected, found) == (DType::Tf32, DType::F32);
                    ensure!(fits, "{operand} of {mma}: expected dtype {expected}, found {found}");
                }
                Ok(mma.run_chain(&a.bytes, &b.bytes, &c.bytes)?)
            }
        }
    }
}

/// Reads an operand and checks its shape.
fn operand(instruction: Instruction, operand: Operand, file: &TensorFile) -> Result<Data> {
    let tensor = only(file)?;
    let (rows, columns) = instruction.shape(operand);
    let loaded = tensor.load()?;
    let found = loaded.layout().shape();
    let blocks = instruction.blocks();
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
    ensure!(ok && fits, "{}: shape {found:?} is no {operand:?} of {}, which takes {lead}{wanted}", tensor.label(), instruction.name());
    let bytes = loaded.dense(0..loaded.layout().elements()).into_owned();
    Ok(Data { dtype: loaded.dtype(), bytes, k })
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
        let all = Instruction::all(arch);
        for instruction in &all {
            let ((a, b, c), (m, k), (_, n)) = (instruction.dtypes(), instruction.shape(Operand::A), instruction.shape(Operand::B));
            table.row(vec![
                instruction.name(),
                m.to_string(),
                n.to_string(),
                k.to_string(),
                instruction.blocks().to_string(),
                a.to_string(),
                b.to_string(),
                c.to_string(),
                instruction.registers(Operand::A).to_string(),
                instruction.registers(Operand::B).to_string(),
                instruction.registers(Operand::C).to_string(),
            ]);
        }
        if all.is_empty() {
            continue;
        }
        out += &format!("{arch}  {}  {} instructions\n", arch.product(), screen::count(all.len() as u64));
        for (i, line) in table.lines().iter().enumerate() {
            out += &if i == 0 { format!("  {DIM}{line}{DIM:#}\n") } else { format!("  {line}\n") };
        }
    }
    out
}
