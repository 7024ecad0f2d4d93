//! Scales of the operands of a GEMM: what `scale_a` and `scale_b` say, the inputs that they add to a case, and operands times their scales.
//!
//! ```text
//! scales = "none" | FORMAT ":" blocks
//! blocks = ROWS "x" COLUMNS      a scale for each block of so many rows and columns of the operand as it is stored
//!        | "k" LENGTH            for each of so many elements along k, whichever axis of the operand that is
//!        | "row" | "column"      for each row or column of the operand as it is stored
//!        | "tensor"              for all of it, matrices of a batch included
//! ```
//!
//! Blocks begin anew in each matrix of a batch, and may be cut off at the end of a row or column. Scales lie as their operand does, one for each block: `[blocks down, blocks across]`, behind the batch
//! where there is one.

use super::cases::Values;
use super::guard::Guard;
use super::problem::Input;
use crate::dtype::{DType, FloatFormat};
use crate::error::{Error, Result};
use crate::reference::{Accumulate, Arithmetic};
use std::fmt;

/// The inputs that scales are, and the keys that say so, by operand.
pub(crate) const NAMES: [&str; 2] = ["scale_a", "scale_b"];

/// The numbers that launch lines have of them: blocks down and across, rows and columns of a block.
const NUMBERS: [[&str; 4]; 2] = [
    ["scale_a_rows", "scale_a_columns", "scale_a_block_rows", "scale_a_block_columns"],
    ["scale_b_rows", "scale_b_columns", "scale_b_block_rows", "scale_b_block_columns"],
];

/// What a text of scales may be.
const WANTED: &str =
    "none, or a format and blocks: f8e8m0:1x32 (rows and columns as stored), f8e8m0:k32 (along k), f32:row, f32:column or f32:tensor";

/// The scales of one operand: a format, and the block of the operand that each is for.
///
/// ```
/// use hipverify::suite::Kernels;
/// let kernels = Kernels::default().with("mine", |launch, _stream| {
///     let [Some(blocks), None] = launch.scales() else { return Err("scales of A are wanted, and none of B".into()) };
///     let (a, scales) = (launch.input(0), launch.input_named("scale_a").ok_or("no scales")?.to_vec::<f32>()?);
///     let scaled = a.to_vec::<f32>()?.into_iter().enumerate().map(|(i, x)| x * scales[blocks.index(a.shape(), i)]);
///     let _a: Vec<f32> = scaled.collect();
///     // ... the product of this and B ...
///     Ok(())
/// });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockScales {
    dtype: DType,
    blocks: Blocks,
    block: [usize; 2],
}

/// Blocks as a text says them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blocks {
    Tensor,
    Row,
    Column,
    Of([usize; 2]),
    AlongK(usize),
}

impl BlockScales {
    /// The format of the scales.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Rows and columns, as the operand is stored, of a block that has one scale; the last ones of a row or column may be shorter.
    #[must_use]
    pub fn block(&self) -> [usize; 2] {
        self.block
    }

    /// The index of the scale of an element of an operand of these extents, both in row-major order: of row r and column c of a matrix that in row r / rows and column c / columns of its scales.
    #[must_use]
    pub fn index(&self, operand: &[usize], element: usize) -> usize {
        let (&[.., rows, columns], false) = (operand, self.blocks == Blocks::Tensor) else { return 0 };
        let [down, across] = [rows.div_ceil(self.block[0]), columns.div_ceil(self.block[1])];
        let (row_of_all, column) = (element / columns.max(1), element % columns.max(1));
        let (matrix, row) = (row_of_all / rows.max(1), row_of_all % rows.max(1));
        (matrix * down + row / self.block[0]) * across + column / self.block[1]
    }

    /// Reads `f8e8m0:1x32` for an operand of these extents, whose rows (0) or columns (1) are k; `None` for `none`.
    fn parse(text: &str, operand: &[usize], k_axis: usize) -> Result<Option<BlockScales>, String> {
        if text == "none" {
            return Ok(None);
        }
        let (format, blocks) = text.split_once(':').map(|(format, blocks)| (format.trim(), blocks.trim())).ok_or(WANTED)?;
        let dtype: DType = format.parse().map_err(|e: Error| e.to_string())?;
        if dtype.float_format().is_none() {
            return Err(format!("scales of {dtype}; they have a floating-point format"));
        }
        let length = |text: &str| text.trim().parse::<usize>().ok().filter(|&length| length > 0).ok_or_else(|| beside(blocks));
        let blocks = match (blocks, blocks.split_once('x'), blocks.strip_prefix('k')) {
            ("tensor", ..) => Blocks::Tensor,
            ("row", ..) => Blocks::Row,
            ("column", ..) => Blocks::Column,
            (_, Some((rows, columns)), _) => Blocks::Of([length(rows)?, length(columns)?]),
            (.., Some(along)) => Blocks::AlongK(length(along)?),
            _ => return Err(beside(blocks)),
        };
        let &[.., rows, columns] = operand else { return Err(WANTED.to_owned()) };
        let block = match blocks {
            Blocks::Tensor => [rows, columns],
            Blocks::Row => [1, columns],
            Blocks::Column => [rows, 1],
            Blocks::Of(block) => block,
            Blocks::AlongK(length) => [0, 1].map(|axis| if axis == k_axis { length } else { 1 }),
        };
        Ok(Some(BlockScales { dtype, blocks, block }))
    }

    /// The extents of the scales of an operand of these extents.
    fn shape(&self, operand: &[usize]) -> Vec<usize> {
        let mut shape = operand.to_vec();
        if self.blocks == Blocks::Tensor {
            shape.fill(1);
        }
        for (extent, block) in shape.iter_mut().rev().zip(self.block.iter().rev()) {
            *extent = extent.div_ceil(*block);
        }
        shape
    }
}

fn beside(blocks: &str) -> String {
    format!("blocks cannot be `{blocks}`: they are {WANTED}, with lengths from 1")
}

impl fmt::Display for BlockScales {
    /// As a suite has it: `f8e8m0:1x32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.dtype)?;
        match self.blocks {
            Blocks::Tensor => f.write_str("tensor"),
            Blocks::Row => f.write_str("row"),
            Blocks::Column => f.write_str("column"),
            Blocks::Of([rows, columns]) => write!(f, "{rows}x{columns}"),
            Blocks::AlongK(length) => write!(f, "k{length}"),
        }
    }
}

/// The scales of A and B.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GemmScales {
    of: [Option<BlockScales>; 2],
    /// Whether the table has the key, whatever its value.
    given: [bool; 2],
}

impl GemmScales {
    /// Reads the keys of a `[[gemm]]` table for operands of these extents, each with its axis of k: 0 for rows as stored, 1 for columns.
    pub(crate) fn new<'c>(of: &impl Fn(&str) -> Values<'c>, operands: [(Vec<usize>, usize); 2]) -> Result<GemmScales> {
        let mut scales = GemmScales::default();
        for (which, (extents, k_axis)) in operands.iter().enumerate() {
            let key = of(NAMES[which]);
            let text = key.text("");
            scales.given[which] = !text.is_empty();
            let text = if text.is_empty() { "none" } else { text };
            let read = BlockScales::parse(text.trim(), extents, *k_axis);
            scales.of[which] = read.map_err(|reason| key.error(format!("`{}` = {text}: {reason}", NAMES[which])))?;
        }
        Ok(scales)
    }

    /// Those of A and of B.
    pub(crate) fn of(&self) -> [Option<BlockScales>; 2] {
        self.of
    }

    /// Whether an operand has scales.
    pub(crate) fn any(&self) -> bool {
        self.of.iter().any(Option::is_some)
    }

    /// Names and extents of the inputs that scales are, of operands of these extents.
    pub(crate) fn inputs(&self, operands: [Vec<usize>; 2]) -> impl Iterator<Item = (&'static str, Vec<usize>)> {
        let input = |((name, scales), operand): ((&'static str, Option<BlockScales>), Vec<usize>)| Some((name, scales?.shape(&operand)));
        NAMES.into_iter().zip(self.of).zip(operands).filter_map(input)
    }

    /// The format of the scales of that name, where a case has them.
    pub(crate) fn dtype(&self, name: &str) -> Option<DType> {
        NAMES.into_iter().zip(self.of).find(|(own, _)| *own == name)?.1.map(|scales| scales.dtype)
    }

    /// Whether a table speaks of the input of that name, which need not be there in each case of it.
    pub(crate) fn may_have(&self, input: &str) -> bool {
        NAMES.into_iter().zip(self.given).any(|(name, given)| given && name == input)
    }

    /// The numbers of scales that a table speaks of, by name; zeros where a case has none.
    pub(crate) fn numbers(&self, operands: [Vec<usize>; 2]) -> Vec<(&'static str, usize)> {
        let mut out = Vec::new();
        for (which, operand) in operands.iter().enumerate().filter(|(which, _)| self.given[*which]) {
            let numbers = self.of[which].map_or([0; 4], |scales| match scales.shape(operand).as_slice() {
                &[.., down, across] => [down, across, scales.block[0], scales.block[1]],
                _ => [0; 4],
            });
            out.extend(NUMBERS[which].into_iter().zip(numbers));
        }
        out
    }

    /// For `case.json`: format and block of each operand's scales by the name of their input, null where it has none.
    pub(crate) fn described(&self) -> [(&'static str, serde_json::Value); 2] {
        let one = |scales: BlockScales| serde_json::json!({ "dtype": scales.dtype.name(), "block": scales.block });
        [0, 1].map(|which| (NAMES[which], self.of[which].map_or(serde_json::Value::Null, one)))
    }

    /// That the arithmetic which a key names takes scaled operands.
    pub(crate) fn expect(&self, key: &'static str, arithmetic: Arithmetic) -> Result<()> {
        match arithmetic.accumulate {
            Accumulate::MatrixCore(_) if self.any() => Err(Error::InvalidArgument {
                what: key,
                value: arithmetic.to_string(),
                limit: "the models of matrix cores take no scales; fma, f32, f64, f64-rounded, every4 and groups4 do".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Both operands times their scales, in the format in which the arithmetic multiplies: f64, in which the products of operands and scales of up to f32 are exact, or f32, to which each is rounded. `None` where neither has scales.
    /// Subnormal numbers that the arithmetic takes for zeros are so already.
    pub(crate) fn multiplied(&self, arithmetic: Arithmetic, inputs: &[Input]) -> Result<Option<[Guard; 2]>> {
        let [(_, a), (_, b), ..] = inputs else { return Ok(None) };
        if !self.any() {
            return Ok(None);
        }
        let copy = |which: usize, operand: &Guard| -> Result<Guard> {
            let mut values = operand.values()?;
            let least = operand.dtype().float_format().filter(|_| arithmetic.flush_subnormals).map_or(0.0, FloatFormat::min_normal);
            values.iter_mut().filter(|x| x.abs() < least).for_each(|x| *x = 0.0);
            let given = inputs.iter().find(|(name, _)| *name == NAMES[which]);
            if let (Some(scales), Some((_, guard))) = (self.of[which], given) {
                let factors = guard.values()?;
                values.iter_mut().enumerate().for_each(|(i, x)| *x *= factors[scales.index(operand.shape(), i)]);
            }
            if arithmetic.accumulate.in_f32() {
                let mut to = Guard::new(operand.device(), DType::F32, operand.shape())?;
                to.copy_from_slice(&values.into_iter().map(|x| x as f32).collect::<Vec<f32>>())?;
                return Ok(to);
            }
            let mut to = Guard::new(operand.device(), DType::F64, operand.shape())?;
            to.copy_from_slice(&values)?;
            Ok(to)
        };
        Ok(Some([copy(0, a)?, copy(1, b)?]))
    }
}

impl fmt::Display for GemmScales {
    /// `, scales of A f8e8m0:1x32, of B f32:tensor`; nothing where there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = ", scales of";
        for (name, scales) in ["A", "B"].into_iter().zip(self.of) {
            let Some(scales) = scales else { continue };
            write!(f, "{before} {name} {scales}")?;
            before = ", of";
        }
        Ok(())
    }
}
