//! Scales of the operands of a matrix product: which element of a tensor of scales multiplies which element of an operand.
//!
//! A tensor of scales lies as its operand does: it has the operand's dimensions in the order in which the operand is stored, transposed or not, and along each of them one scale for a block of so many
//! elements. The extents say how long blocks are where they can mean one thing only:
//!
//! ```text
//! 1 scale along n elements              one block of n
//! n                                     blocks of 1, but not along k
//! s                                     blocks of b >= 16, the only one of
//!                                           n / s, if s divides n
//!                                           a power of two b with ceil(n / b) = s
//! ```
//!
//! Otherwise the caller says it. A tensor of one element is the scale of all. What is multiplied is in [`dequantised`](super::dequantised).

use super::products::Values;
use crate::device::{TensorRef, coordinates_from_last};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// The shortest block of several elements that extents say: shorter ones are not in use, and scales that lie as a transposed operand may look like them.
const SHORTEST: usize = 16;

/// What the tensors are called in errors, by operand.
const NAMES: [(&str, &str); 2] = [("scale of A", "A"), ("scale of B", "B")];

/// Where the length of blocks is said, by operand.
const FLAGS: [&str; 2] = ["--scale-block-a, `Check::scale_block_a`", "--scale-block-b, `Check::scale_block_b`"];

/// The scales of one operand, as they are given.
#[derive(Clone, Debug, Default)]
pub(super) struct Scale<'a> {
    pub tensor: Option<TensorRef<'a>>,
    /// Rows and columns of a block, where the caller says them.
    pub block: Option<[usize; 2]>,
}

impl Scale<'_> {
    /// The blocks of operand 0 or 1 of this shape, whose axis of k is this one, counted from the last axis, which is 1; `None` where it has no scales.
    ///
    /// # Errors
    /// When the scales have no float format, or their shape does not say one length of blocks.
    pub(super) fn blocks(&self, which: usize, operand: &[usize], k_axis: usize) -> Result<Option<Blocks>> {
        let (what, _) = NAMES[which];
        match (&self.tensor, self.block) {
            (None, None) => Ok(None),
            (None, Some([rows, columns])) => {
                let limit = "blocks are those of scales, and there are none".to_owned();
                Err(Error::InvalidArgument { what, value: format!("by blocks of {rows}x{columns}"), limit })
            }
            (Some(tensor), block) => {
                if self.format().and_then(DType::float_format).is_none() {
                    let expected = "a floating-point format, or u8 that holds the codes of f8e8m0".to_owned();
                    return Err(Error::WrongDType { what: what.to_owned(), expected, found: tensor.dtype().to_string() });
                }
                Blocks::of(which, (operand, k_axis), tensor.shape(), block).map(Some)
            }
        }
    }

    /// The format of the scales: u8 holds codes of e8m0, which NumPy has not.
    pub(super) fn format(&self) -> Option<DType> {
        self.tensor.as_ref().map(|tensor| if tensor.dtype() == DType::U8 { DType::F8E8M0 } else { tensor.dtype() })
    }

    /// The scales in logical order.
    pub(super) fn values(&self) -> Result<Vec<f64>> {
        let (Some(tensor), Some(format)) = (&self.tensor, self.format()) else { return Ok(Vec::new()) };
        let values = Values::read_as(tensor, format)?;
        Ok((0..tensor.elements()).map(|i| values.at(i)).collect())
    }
}

/// The blocks of an operand, each with a scale of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Extents of the operand.
    operand: Vec<usize>,
    /// Extents of the scales.
    scales: Vec<usize>,
    /// Elements of a block along each axis.
    lengths: Vec<usize>,
}

impl Blocks {
    fn of(which: usize, (operand, k_axis): (&[usize], usize), found: &[usize], block: Option<[usize; 2]>) -> Result<Blocks> {
        let (what, name) = NAMES[which];
        let fail = |limit: String| Err(Error::InvalidArgument { what, value: format!("of shape {found:?}"), limit });
        let misfit = || fail(format!("{name} of shape {operand:?} has scales of shape {}", usual(operand, k_axis)));
        let scales = if found.iter().product::<usize>() == 1 { vec![1; operand.len()] } else { found.to_vec() };
        if scales.len() != operand.len() {
            return misfit();
        }
        let mut lengths = Vec::new();
        for (axis, (&n, &s)) in operand.iter().zip(&scales).enumerate() {
            let from_last = operand.len() - axis;
            let of_matrix = from_last <= 2;
            let said = block.filter(|_| of_matrix).map(|block| block[2 - from_last]);
            match (lengths_of(n, s, said).as_slice(), said) {
                // Not in use, and what scales of rows look like that lie as the transposed operand.
                (&[1], None) if from_last == k_axis && n > 1 => {
                    let limit = format!("{s} scales along k, one for each of {n} elements of {name}, have to be said");
                    return fail(format!("{limit} ({})", FLAGS[which]));
                }
                // A batch has one matrix of scales, or one for each of its own.
                (&[length], _) if of_matrix || s == 1 || s == n => lengths.push(length),
                (&[one, other], _) if of_matrix => {
                    let limit = format!("{s} scales along {n} elements of {name} may be of blocks of {one} or of {other}: say which");
                    return fail(format!("{limit} ({})", FLAGS[which]));
                }
                (_, Some(length)) if length > 0 => {
                    let needed = n.div_ceil(length);
                    return fail(format!("blocks of {length} along {n} elements of {name} have {needed} scales, not {s}"));
                }
                _ => return misfit(),
            }
        }
        Ok(Blocks { operand: operand.to_vec(), scales, lengths })
    }

    /// The logical index of the scale of an element with this one.
    pub(super) fn index(&self, element: usize) -> usize {
        self.index_by(element, |_, block| block)
    }

    /// The same where another block is taken along an axis, counted from the last axis, which is 1.
    pub(super) fn index_by(&self, element: usize, other: impl Fn(usize, usize) -> usize) -> usize {
        let coordinates = coordinates_from_last(element, self.operand.iter().rev().copied());
        let blocks = coordinates.zip(self.lengths.iter().rev()).map(|(coordinate, length)| coordinate / length);
        let (mut index, mut step) = (0, 1);
        for (from_last, (block, scales)) in (1..).zip(blocks.zip(self.scales.iter().rev())) {
            index += other(from_last, block) * step;
            step *= scales;
        }
        index
    }

    /// Scales along an axis, counted from the last axis, which is 1.
    pub(super) fn along(&self, from_last: usize) -> usize {
        self.scales[self.scales.len() - from_last]
    }

    /// Elements of a block along an axis, counted from the last axis, which is 1.
    pub(super) fn length(&self, from_last: usize) -> usize {
        self.lengths[self.lengths.len() - from_last]
    }

    /// `all`, or the last two extents of a block, as `1x128`.
    pub(super) fn words(&self) -> String {
        match self.scales.iter().all(|s| *s == 1) {
            true => "all".to_owned(),
            false => format!("{}x{}", self.length(2), self.length(1)),
        }
    }
}

/// Lengths of blocks of which s cover n elements: the one that is said if it does, else those that the extents may mean.
fn lengths_of(n: usize, s: usize, said: Option<usize>) -> Vec<usize> {
    if let Some(length) = said {
        return if length > 0 && n.div_ceil(length) == s { vec![length] } else { Vec::new() };
    }
    if s == 1 || s == n {
        return vec![if s == 1 { n.max(1) } else { 1 }];
    }
    let quotient = Some(n).filter(|n| s > 0 && n.is_multiple_of(s)).map(|n| n / s);
    let power = (0..usize::BITS).map(|bit| 1 << bit).find(|&b: &usize| b >= SHORTEST && n.div_ceil(b) == s);
    let mut lengths: Vec<usize> = quotient.into_iter().filter(|length| *length >= SHORTEST).chain(power).collect();
    lengths.dedup();
    lengths
}

/// The shapes of scales that are usual for an operand, in words.
fn usual(operand: &[usize], k_axis: usize) -> String {
    let [batch @ .., rows, columns] = operand else { return "[1]".to_owned() };
    let along_k = |k: usize, other: usize| if k_axis == 1 { [other, k] } else { [k, other] };
    let shape = |block: [usize; 2]| format!("{:?}", [batch, &[rows.div_ceil(block[0].max(1)), columns.div_ceil(block[1].max(1))]].concat());
    let whole = rows.max(columns);
    let mut words = vec!["[1]".to_owned(), shape(along_k(*whole, 1))];
    for block in [(128, 1), (128, 128), (32, 1), (16, 1)].map(|(k, other)| along_k(k, other)) {
        words.push(format!("{} (blocks of {}x{})", shape(block), block[0], block[1]));
    }
    let last = words.pop().unwrap_or_default();
    format!("{} or {last}", words.join(", "))
}
