//! A problem, its result contracted with vectors along one of its axes: sums over that axis cost one operand's worth of work each.
//!
//! A product is linear in each operand. Where an operand P has an axis that the result D has as well, and that the sum does not run over,
//!
//! ```text
//! Σ_j D[.., j, ..] x_j  =  the same product with Σ_j P[.., j, ..] x_j in the place of P
//! ```
//!
//! for each vector x, so that an axis of extent n is exchanged for one of as many as there are vectors. Of a GEMM that is the axis of columns, and P is B. Convolutions have two such axes, of which the
//! longer one is taken:
//!
//! | | axis | of |
//! |---|---|---|
//! | forward | output channels, or images | the filter, or the input |
//! | backward data | input channels, or images | the filter, or the output's gradient |
//! | backward weight | output channels, or input channels | the output's gradient, or the input |
//!
//! Tensors count as `[outer, extent, inner]`, dense, with the axis in the middle; what has vectors in its place as `[outer, inner, vectors]`. A *row* is what differs in the axis alone.

use super::copied::Copied;
use super::integer;
use super::problem::{Kind, Problem};
use crate::device::host::zeros;
use crate::device::reader::{self, Reader};
use crate::device::{DeviceMem, Layout, TensorRef};
use crate::dtype::{DType, convert};
use crate::error::{Error, Result};
use crate::parallel;
use crate::reference::{Accumulate, Arithmetic, Conv, ConvParam, Direction, Epilogue, Gemm, Role};

/// A place among the axes of a dense tensor: the elements before it, of it, and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    outer: usize,
    extent: usize,
    inner: usize,
}

impl Axis {
    fn of(shape: &[usize], at: usize) -> Axis {
        let product = |extents: &[usize]| extents.iter().product();
        Axis { outer: product(&shape[..at]), extent: shape[at], inner: product(&shape[at + 1..]) }
    }

    fn rows(self) -> usize {
        self.outer * self.inner
    }
}

/// How a problem is contracted.
#[derive(Debug)]
pub(super) struct Contraction<'p, 'a> {
    problem: &'p Problem<'a>,
    result: &'p TensorRef<'a>,
    /// The operand that has the axis.
    which: usize,
    of_operand: Axis,
    of_result: Axis,
    axis: Vectors,
}

/// What vectors run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vectors {
    /// Columns of a matrix product.
    Columns,
    /// k of a convolution.
    OutChannels,
    /// c.
    InChannels,
    /// n.
    Images,
}

impl Vectors {
    /// The name of the axis in layouts of convolutions.
    fn letter(self) -> char {
        match self {
            Vectors::Columns => '-',
            Vectors::OutChannels => 'k',
            Vectors::InChannels => 'c',
            Vectors::Images => 'n',
        }
    }

    /// What a row of the result has.
    pub(super) fn words(self) -> &'static str {
        match self {
            Vectors::Columns => "columns",
            Vectors::OutChannels => "output channels",
            Vectors::InChannels => "input channels",
            Vectors::Images => "images",
        }
    }

    fn extent(self, param: &ConvParam) -> usize {
        match self {
            Vectors::Columns => 1,
            Vectors::OutChannels => param.out_channels(),
            Vectors::InChannels => param.in_channels(),
            Vectors::Images => param.batch(),
        }
    }

    /// The axis of a convolution, and the operand that has it.
    fn of(param: &ConvParam, direction: Direction) -> (Vectors, usize) {
        let (first, second) = match direction {
            Direction::Forward => ((Vectors::OutChannels, 1), (Vectors::Images, 0)),
            Direction::BackwardData => ((Vectors::InChannels, 1), (Vectors::Images, 0)),
            Direction::BackwardWeight => ((Vectors::OutChannels, 1), (Vectors::InChannels, 0)),
        };
        if second.0.extent(param) > first.0.extent(param) { second } else { first }
    }
}

impl<'p, 'a> Contraction<'p, 'a> {
    /// The contraction of a problem with this result.
    ///
    /// # Errors
    /// When shapes do not fit, a function follows the sum, which is not linear, or there are no elements.
    pub(super) fn of(problem: &'p Problem<'a>, result: &'p TensorRef<'a>) -> Result<Contraction<'p, 'a>> {
        problem.expect_shapes(result)?;
        if integer::applies(problem, result) {
            let what = format!("{}, of integers modulo 2^32", problem.name(result.shape()));
            return Err(Error::Unsupported { what, by: "Freivalds' check: what wraps around is not linear".to_owned() });
        }
        let (axis, which, of_operand, of_result) = match &problem.kind {
            Kind::Gemm(product) => {
                if product.is_scaled() {
                    let what = format!("{}, with scales of the operands", problem.name(result.shape()));
                    return Err(Error::Unsupported { what, by: "Freivalds' check; the check without vectors takes them".to_owned() });
                }
                if product.epilogue != Epilogue::None {
                    return Err(Error::Unsupported {
                        what: format!("{}, with an epilogue", problem.name(result.shape())),
                        by: "Freivalds' check: what follows the sums has to be linear".to_owned(),
                    });
                }
                let shape = problem.operands[1].shape();
                let columns = shape.len() - if product.transposed[1] { 2 } else { 1 };
                (Vectors::Columns, 1, Axis::of(shape, columns), Axis::of(result.shape(), result.shape().len() - 1))
            }
            Kind::Conv(param, direction) => {
                let (axis, which) = Vectors::of(param, *direction);
                let roles = direction.roles();
                let of = |role: Role| Ok(Axis::of(&param.shape(role), position(param, role, axis)?));
                (axis, which, of(roles[which])?, of(roles[2])?)
            }
        };
        Ok(Contraction { problem, result, which, of_operand, of_result, axis })
    }

    /// What vectors run over.
    pub(super) fn vectors(&self) -> Vectors {
        self.axis
    }

    /// Rows of the result.
    pub(super) fn rows(&self) -> usize {
        self.of_result.rows()
    }

    /// Elements of a row.
    pub(super) fn extent(&self) -> usize {
        self.of_result.extent
    }

    /// The logical index in the result of an element of a row.
    pub(super) fn element(&self, row: usize, position: usize) -> usize {
        let Axis { extent, inner, .. } = self.of_result;
        (row / inner * extent + position) * inner + row % inner
    }

    /// Multiply-adds that so many vectors take.
    pub(super) fn work(&self, vectors: usize) -> u128 {
        let of = |axis: Axis| axis.rows() as u128 * axis.extent as u128;
        let sums = self.rows() as u128 * self.problem.terms() as u128;
        (of(self.of_operand) + of(self.of_result) + sums).saturating_mul(vectors as u128)
    }

    /// The coordinates of a row in words: `row 7`, or the axes of a convolution with their numbers.
    pub(super) fn coordinates(&self, row: usize) -> String {
        match &self.problem.kind {
            Kind::Gemm(_) => match self.result.shape() {
                [batch @ .., m, _] if !batch.is_empty() => {
                    let at = Layout::contiguous(batch).map(|batch| batch.coordinates(row / m)).unwrap_or_default();
                    let at: Vec<String> = at.iter().map(usize::to_string).collect();
                    format!("matrix {}, row {}", at.join(", "), row % m)
                }
                _ => format!("row {row}"),
            },
            Kind::Conv(param, direction) => {
                let role = direction.roles()[2];
                let names = param.layout(role).to_string();
                let (letters, extents): (Vec<char>, Vec<usize>) =
                    names.chars().zip(param.shape(role)).filter(|(letter, _)| *letter != self.axis.letter()).unzip();
                let at = Layout::contiguous(&extents).map(|rows| rows.coordinates(row)).unwrap_or_default();
                let at: Vec<String> = letters.iter().zip(at).map(|(letter, coordinate)| format!("{letter} {coordinate}")).collect();
                at.join(", ")
            }
        }
    }

    /// Σ_j D[.., j, ..] x_j of a tensor in the result's shape, or in that of one of a batch's matrices, for each vector, which are the columns of `x`: rows first.
    pub(super) fn of_result(&self, tensor: &TensorRef<'_>, x: &TensorRef<'_>) -> Result<Vec<f64>> {
        contracted(tensor, self.axis_of(tensor), x, Accumulate::F64.into())?.to_vec()
    }

    /// The same of the exact result.
    pub(super) fn of_exact(&self, arithmetic: Arithmetic, x: &TensorRef<'_>) -> Result<Vec<f64>> {
        let narrow = contracted(&self.problem.operands[self.which], self.of_operand, x, arithmetic.exact())?;
        self.product(&narrow, x.shape()[1], arithmetic.exact(), Made::Sums)
    }

    /// For each row a bound of the root of Σ_j S_j², with S_j = Σ|a||b| of its elements, as error bounds of this arithmetic count them.
    ///
    /// S is Σ_t |q_t| P_t, a sum of vectors P_t over the axis, so that its norm is at most Σ_t |q_t| ‖P_t‖ (Minkowski): the problem with norms in the place of an operand.
    pub(super) fn magnitudes(&self, arithmetic: Arithmetic) -> Result<Vec<f64>> {
        let operand = &self.problem.operands[self.which];
        let norms = norms(operand, self.of_operand, arithmetic.least_magnitude(operand.dtype()))?;
        let narrow = DeviceMem::from_slice(self.problem.device(), &norms)?;
        self.product(&narrow, 1, arithmetic, Made::Magnitudes)
    }

    /// The norm of each row of the result, or of a tensor of its shape or that of one of a batch's matrices.
    pub(super) fn norms(&self, tensor: &TensorRef<'_>) -> Result<Vec<f64>> {
        norms(tensor, self.axis_of(tensor), 0.0)
    }

    /// Where the axis is of a tensor with elements like the result's.
    fn axis_of(&self, tensor: &TensorRef<'_>) -> Axis {
        Axis { outer: tensor.elements() / (self.of_result.extent * self.of_result.inner), ..self.of_result }
    }

    /// The problem with `narrow` in the place of the operand: so many columns, rows first.
    fn product(&self, narrow: &DeviceMem<f64>, width: usize, arithmetic: Arithmetic, made: Made) -> Result<Vec<f64>> {
        let mut to = DeviceMem::<f64>::new(self.problem.device(), self.rows() * width)?;
        let [first, second] = &self.problem.operands;
        match &self.problem.kind {
            Kind::Gemm(product) => {
                let [batch @ .., _] = self.result.shape() else { return Ok(Vec::new()) };
                let narrow = narrow.tensor(&[&second.shape()[..second.shape().len() - 2], &[self.problem.terms(), width]].concat())?;
                let gemm = Gemm::new(arithmetic).transpose_a(product.transposed[0]);
                let mut to = to.tensor_mut(&[batch, &[width]].concat())?;
                match made {
                    Made::Sums => gemm.run(first, &narrow, &mut to)?,
                    Made::Magnitudes => gemm.magnitudes(first, &narrow, &mut to)?,
                }
            }
            Kind::Conv(param, direction) => {
                let conv = Conv::new(with_last(param, *direction, self.axis, width)?, *direction, arithmetic);
                let (narrow, elements) = (narrow.tensor(&[narrow.len()])?, [self.rows() * width]);
                let (first, second) = if self.which == 0 { (&narrow, second) } else { (first, &narrow) };
                let mut to = to.tensor_mut(&elements)?;
                match made {
                    Made::Sums => conv.run(first, second, &mut to)?,
                    Made::Magnitudes => conv.magnitudes(first, second, &mut to)?,
                }
            }
        }
        to.to_vec()
    }
}

/// What a product is made for.
#[derive(Clone, Copy, Debug)]
enum Made {
    Sums,
    Magnitudes,
}

/// Where an axis is in the layout of a role.
fn position(param: &ConvParam, role: Role, axis: Vectors) -> Result<usize> {
    let name = param.layout(role).to_string();
    name.chars().position(|letter| letter == axis.letter()).ok_or_else(|| Error::InvalidArgument {
        what: "layout",
        value: name.clone(),
        limit: format!("it has to have the axis {}", axis.letter()),
    })
}

/// The convolution with another extent of this axis, which is the last one in the tensors that have it: its operand and the result.
fn with_last(param: &ConvParam, direction: Direction, axis: Vectors, extent: usize) -> Result<ConvParam> {
    let mut sizes = param.sizes();
    match axis {
        Vectors::Columns => {}
        Vectors::OutChannels => sizes.out_channels = extent,
        Vectors::InChannels => sizes.in_channels = extent,
        Vectors::Images => sizes.batch = extent,
    }
    let result = direction.roles()[2];
    let layout = |role: Role| {
        let name = param.layout(role).to_string();
        // The axis is one of the result and of one operand.
        if role == result || name.contains(axis.letter()) {
            let rest: String = name.chars().filter(|letter| *letter != axis.letter()).collect();
            format!("{rest}{}", axis.letter())
        } else {
            name
        }
    };
    let [input, filter, output] = [Role::Input, Role::Filter, Role::Output].map(layout);
    ConvParam::new(sizes)?.with_layouts(&input, &filter, &output)
}

/// Σ_j T[.., j, ..] x_j for each column x of a matrix, as `[outer, inner, columns]`.
fn contracted(tensor: &TensorRef<'_>, axis: Axis, x: &TensorRef<'_>, arithmetic: Arithmetic) -> Result<DeviceMem<f64>> {
    let Axis { outer, extent, inner } = axis;
    let copy;
    let dense = if tensor.layout().is_contiguous() {
        tensor
    } else {
        copy = Copied::whole(tensor)?;
        &copy.tensor()?
    };
    let view = |shape: &[usize]| {
        let strides = Layout::contiguous(shape)?.strides().to_vec();
        dense.view(Layout::strided(shape, &strides, dense.layout().offset())?)
    };
    let vectors = x.shape()[1];
    let mut to = DeviceMem::new(tensor.device(), outer * inner * vectors)?;
    if inner == 1 {
        Gemm::new(arithmetic).run(&view(&[outer, extent])?, x, &mut to.tensor_mut(&[outer, vectors])?)?;
    } else {
        let batch = view(&[outer, extent, inner])?;
        Gemm::new(arithmetic).transpose_a(true).run(&batch, x, &mut to.tensor_mut(&[outer, inner, vectors])?)?;
    }
    Ok(to)
}

/// Elements that are decoded at once.
const BLOCK: usize = 1 << 12;
/// In how many tasks the norms of dense rows are made, at most.
const TASKS: usize = 1024;

/// The norm of each row, on the host; what is not 0 counts at least so much. Squares are added in ascending order.
fn norms(tensor: &TensorRef<'_>, axis: Axis, least: f64) -> Result<Vec<f64>> {
    let bytes = reader::dense(tensor)?;
    let dense = TensorRef::from_host_bytes(&bytes, tensor.dtype(), Layout::contiguous(&[tensor.elements()])?)?;
    let squares = || Squares { reader: Reader::new(&dense), dtype: tensor.dtype(), least, numbers: [0.0; BLOCK] };
    let Axis { outer, extent, inner } = axis;
    let mut norms = zeros(axis.rows())?;
    if inner == 1 {
        let rows = outer.div_ceil(TASKS).max(1);
        parallel::chunks_mut(&mut norms, rows, |task, part| {
            let mut squares = squares();
            for (row, norm) in (task * rows..).zip(part) {
                for first in (0..extent).step_by(BLOCK) {
                    squares.of(row * extent + first, BLOCK.min(extent - first)).iter().for_each(|x| *norm += x);
                }
            }
        });
    } else {
        // Rows that lie side by side: each task adds up a block of them.
        let blocks = inner.div_ceil(BLOCK);
        let block = |number: usize| {
            let (outer, first) = (number / blocks, number % blocks * BLOCK);
            let (mut squares, mut sums) = (squares(), vec![0.0; BLOCK.min(inner - first)]);
            for j in 0..extent {
                let more = squares.of((outer * extent + j) * inner + first, sums.len());
                sums.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
            }
            sums
        };
        norms = parallel::map(outer * blocks, block).concat();
    }
    norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
    Ok(norms)
}

/// Squares of a tensor's elements.
struct Squares<'a> {
    reader: Reader<'a>,
    dtype: DType,
    least: f64,
    numbers: [f64; BLOCK],
}

impl Squares<'_> {
    /// Those of `count` elements, at most [`BLOCK`], from element `first`.
    fn of(&mut self, first: usize, count: usize) -> &[f64] {
        let (numbers, least) = (&mut self.numbers[..count], self.least);
        convert::decode_f64(self.dtype, self.reader.read(first, count), numbers);
        for x in &mut *numbers {
            let magnitude = if *x != 0.0 && x.abs() < least { least } else { x.abs() };
            *x = magnitude * magnitude;
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceBytes};

    #[test]
    fn norms_are_those_of_the_elements() {
        let host = Device::host();
        for (outer, extent, inner) in [(3, 10_001, 1), (2, 3, 5), (1, 3, 9001), (4, 0, 1), (2, 0, 3)] {
            let elements = outer * extent * inner;
            for dtype in [DType::F4E2M1, DType::F8E4M3, DType::F16, DType::F32] {
                let bytes: Vec<u8> = (0..dtype.bytes_for(elements).unwrap()).map(|i| (i * 37 % 59) as u8).collect();
                let bytes = DeviceBytes::from_slice(&host, &bytes).unwrap();
                let tensor = bytes.tensor(dtype, Layout::contiguous(&[elements]).unwrap()).unwrap();
                let least = 0.75;
                let found = norms(&tensor, Axis { outer, extent, inner }, least).unwrap();
                assert_eq!(found.len(), outer * inner);
                let square = |index: usize| {
                    let x = dtype.decode(dtype.load_bits(tensor.host_bytes(), index)).abs();
                    if x == 0.0 { 0.0 } else { x.max(least).powi(2) }
                };
                for (row, norm) in found.iter().enumerate() {
                    let sum = (0..extent).fold(0.0, |sum, j| sum + square((row / inner * extent + j) * inner + row % inner));
                    assert_eq!(*norm, sum.sqrt(), "{dtype}, [{outer}, {extent}, {inner}], row {row}");
                }
            }
        }
    }
}
