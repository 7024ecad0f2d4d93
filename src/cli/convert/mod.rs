//! `hipverify convert`: tensors in another format, another container, or into and out of MX blocks.

mod blocks;
mod values;

use super::Outcome;
use super::apart::expect_apart;
use super::input::{InputArgs, file_and_tensor, only};
use super::output::OutputArgs;
use super::screen::{self, count, counted};
use crate::dtype::mx::{BLOCK, MxFormat, ScaleRule};
use crate::dtype::{DType, Overflow};
use crate::files::{Format, Heading, Loaded, Tensor, check_each, write_each};
use anyhow::{Context, Result, bail, ensure};
use blocks::Quantisation;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use values::{Conversion, Counts};

/// The flags of `convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// The file to read; `-` is standard input
    #[arg(value_name = "IN")]
    from: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    /// The format to write, rounded to nearest even; each tensor's own if nothing is said, f32 with --scales
    #[arg(long, value_name = "DTYPE")]
    to: Option<DType>,
    /// Beyond the largest number, and of infinities, the largest number is made; otherwise infinity, or NaN in formats without
    #[arg(long)]
    saturate: bool,
    /// The e8m0 scales of an MX tensor, one to 32 elements along the last dimension: what is written are the products
    #[arg(long, value_name = "FILE[:TENSOR]")]
    scales: Option<String>,
    /// Quantise to MX blocks of 32 elements along the last dimension: OUT has the elements, in the format of --to, and this file the e8m0 scales, each under its tensor's name; .npy and .npz
    /// have them as u8
    #[arg(long, value_name = "FILE", requires = "to", conflicts_with_all = ["scales", "saturate"])]
    write_scales: Option<PathBuf>,
    /// How a block's scale follows from its largest magnitude: floor (the specification's), rceil (rounded up, so that nothing saturates: cuBLAS, Transformer Engine) or even (of the rounded
    /// magnitude: AITER, Quark)
    #[arg(long, value_name = "RULE", default_value_t = ScaleRule::Floor, requires = "write_scales")]
    scale_rule: ScaleRule,
    /// The tensor's name in formats that have names, in place of its own (`tensor` if it has none)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    input: InputArgs,
}

const AFTER: &str = "\
All tensors of IN are written, or those that --tensor, --include and --exclude choose; .npy and raw files hold one. What the format cannot hold is counted on \
stderr: overflowed (beyond the largest number), became 0, became NaN (infinities; of MX blocks all that is beside one, or beside NaN), have no counterpart (NaN, 0 or a sign that the format \
lacks).

Exit codes: 0 the file is written, 2 it is not.

Example: hipverify convert weights.safetensors fp8.safetensors --to f8e4m3 --saturate
Example: hipverify convert weights.safetensors mx.safetensors --to f4e2m1 --write-scales scales.safetensors
Example: hipverify convert mx.safetensors w.npy --tensor w --scales scales.safetensors:w";

/// Tensors that are told of, one a line.
const TOLD: usize = 20;

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let scales = self.scales.as_deref().map(file_and_tensor);
        let files = 1 + usize::from(scales.is_some());
        let reads = [Some(&*self.from), scales.map(|(path, _)| path)];
        let scales_out = self.write_scales.as_deref().map(|path| ("--write-scales", path));
        ensure!(
            scales_out.is_none_or(|(_, path)| [path, &*self.output.out].iter().any(|path| path.as_os_str() != "-")),
            "OUT and --write-scales are both standard output; give a file for one"
        );
        expect_apart([("OUT", &*self.output.out)].into_iter().chain(scales_out), reads.into_iter().flatten())?;
        let from = self.input.open(&self.from, 0, files)?;
        let scales = scales.map(|(path, tensor)| self.input.open_beside(path, tensor)).transpose()?;
        self.input.check_used(&[&from].into_iter().chain(&scales).collect::<Vec<_>>())?;
        ensure!(!from.tensors().is_empty(), "{}: no tensor to convert", from.path().display());
        let progress = screen::spinner("convert");
        let counts = match (&scales, &self.write_scales) {
            (None, None) => self.write(from.tensors(), None)?,
            (None, Some(path)) => self.write_blocks(from.tensors(), path)?,
            (Some(scales), _) => {
                let (tensor, scales) = (only(&from)?, only(scales)?);
                let loaded = scales.load()?;
                let codes = codes(tensor, scales, &loaded)?;
                self.write(std::slice::from_ref(tensor), Some(&codes))?
            }
        };
        progress.finish_and_clear();
        tell(from.tensors(), &counts);
        Ok(Outcome::Pass)
    }

    /// Writes the tensors, and says what became of the elements of each.
    fn write(&self, tensors: &[Tensor], scales: Option<&[u8]>) -> Result<Vec<Counts>> {
        let headings = self.headings(tensors, self.to.or(scales.map(|_| DType::F32)))?;
        let overflow = if self.saturate { Overflow::Saturate } else { Overflow::Ieee };
        let mut counts = Vec::new();
        write_each(&self.output.out, self.output.format()?, &headings, &mut |i| {
            let conversion = Conversion { scales, to: headings[i].dtype, overflow };
            let (bytes, found) = conversion.run(&tensors[i].load()?)?;
            counts.push(found);
            Ok(Cow::Owned(bytes))
        })?;
        Ok(counts)
    }

    /// Names and shapes of the tensors, and their formats, or the one that all are to have.
    fn headings<'t>(&'t self, tensors: &'t [Tensor], to: Option<DType>) -> Result<Vec<Heading<'t>>> {
        ensure!(self.name.is_none() || tensors.len() == 1, "--name is for one tensor, not {}: choose one with --tensor", tensors.len());
        let heading = |tensor: &'t Tensor| {
            let own = if tensor.name().is_empty() { "tensor" } else { tensor.name() };
            let (Some(dtype), Some(layout)) = (tensor.dtype(), tensor.layout()) else {
                tensor.load()?;
                bail!("{}: it cannot be read", tensor.label());
            };
            Ok(Heading { name: self.name.as_deref().unwrap_or(own), dtype: to.unwrap_or(dtype), shape: layout.shape() })
        };
        tensors.iter().map(heading).collect()
    }

    /// Writes the tensors as MX blocks, with their scales in a file of their own, and says what became of the elements of each.
    fn write_blocks(&self, tensors: &[Tensor], scales_file: &Path) -> Result<Vec<Counts>> {
        let to = self.to.context("--write-scales: --to says the format of the elements")?;
        let quantisation = Quantisation { format: MxFormat::new(to).context("--write-scales")?, rule: self.scale_rule };
        let headings = self.headings(tensors, Some(to))?;
        let scales_format = Format::of(scales_file)?;
        let codes = if matches!(scales_format, Format::Npy | Format::Npz) { DType::U8 } else { DType::F8E8M0 };
        let shapes = tensors.iter().map(scales_shape).collect::<Result<Vec<_>>>()?;
        let of_scales: Vec<Heading<'_>> =
            headings.iter().zip(&shapes).map(|(heading, shape)| Heading { dtype: codes, shape, ..*heading }).collect();
        check_each(scales_file, scales_format, &of_scales)?;
        let (mut scales, mut counts) = (Vec::new(), Vec::new());
        write_each(&self.output.out, self.output.format()?, &headings, &mut |i| {
            let blocks = quantisation.run(&tensors[i].load()?)?;
            scales.push(blocks.scales);
            counts.push(blocks.counts);
            Ok(Cow::Owned(blocks.elements))
        })?;
        write_each(scales_file, scales_format, &of_scales, &mut |i| Ok(Cow::Borrowed(&scales[i])))?;
        Ok(counts)
    }
}

/// The shape of the scales of an MX tensor with these elements, one to each block.
fn scales_shape(elements: &Tensor) -> Result<Vec<usize>> {
    let mut shape = elements.layout().map_or(Vec::new(), |layout| layout.shape().to_vec());
    match shape.last_mut() {
        Some(last) if last.is_multiple_of(BLOCK) => *last /= BLOCK,
        _ => bail!("{}: shape {shape:?}: the last dimension of an MX tensor is a multiple of {BLOCK}", elements.label()),
    }
    Ok(shape)
}

/// The scales of an MX tensor in row-major order, one to each block.
fn codes(elements: &Tensor, scales: &Tensor, loaded: &Loaded<'_>) -> Result<Vec<u8>> {
    let (dtype, layout) = (loaded.dtype(), loaded.layout());
    // NumPy has no e8m0: its files hold the codes.
    ensure!(
        matches!(dtype, DType::F8E8M0 | DType::U8),
        "{}: scales are f8e8m0, or u8 that holds the codes of it, not {dtype}",
        scales.label()
    );
    let wanted = scales_shape(elements)?;
    ensure!(
        layout.shape() == wanted,
        "{}: shape {:?} does not match {wanted:?}, a scale for {BLOCK} elements of the last dimension",
        scales.label(),
        layout.shape()
    );
    Ok((0..layout.elements()).map(|i| loaded.bytes()[layout.index(i)]).collect())
}

/// Says what the format could not hold, of each tensor and in all.
fn tell(tensors: &[Tensor], counts: &[Counts]) {
    let harmed: Vec<(&Tensor, &Counts)> = tensors.iter().zip(counts).filter(|(_, counts)| !counts.harmless()).collect();
    if tensors.len() > 1 {
        for (tensor, counts) in harmed.iter().take(TOLD) {
            screen::note(&format!("{}: {}", screen::plain(tensor.name()), sentence(counts)));
        }
        if harmed.len() > TOLD {
            screen::note(&format!("... and {} more tensors", count((harmed.len() - TOLD) as u64)));
        }
    }
    let mut total = Counts::default();
    counts.iter().for_each(|counts| total.add(*counts));
    screen::note(&sentence(&total));
}

/// `64 elements: 50 rounded, 3 overflowed`.
fn sentence(counts: &Counts) -> String {
    let parts = [
        (counts.rounded, "rounded"),
        (counts.overflowed, "overflowed"),
        (counts.zero, "became 0"),
        (counts.nan, "became NaN"),
        (counts.lost, "have no counterpart"),
    ];
    let told: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))).collect();
    let told = if told.is_empty() { "none changed".to_owned() } else { told.join(", ") };
    format!("{}: {told}", counted(counts.elements, "element"))
}
