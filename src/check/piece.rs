//! A piece of a result as a problem of its own, for what is tried many times: of a matrix product some neighbouring rows and columns of one matrix, of a convolution some channels of
//! one group at all positions of some images.

use super::copied::Copied;
use super::problem::{Kind, Problem, Product};
use crate::device::{Layout, TensorRef, coordinates_from_last};
use crate::error::Result;
use crate::reference::{ConvParam, ConvSizes, Direction};

/// The piece.
pub(super) struct Piece<'a> {
    pub problem: Problem<'a>,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where it begins in the result, along each axis.
    pub start: Vec<usize>,
    /// The shape of all of the result, with as many axes.
    pub whole: Vec<usize>,
}

impl<'a> Piece<'a> {
    /// A piece of up to so many rows and columns (channels and positions of a convolution) of a result of this shape, with the element of this index in it; `None` where that leaves nothing out.
    pub(super) fn with(problem: &Problem<'a>, shape: &[usize], most: [usize; 2], element: usize) -> Result<Option<Piece<'a>>> {
        let piece = match &problem.kind {
            Kind::Gemm(product) => of_product(problem, product, shape, most, element)?,
            Kind::Conv(param, direction) => of_convolution(problem, param, *direction, most, element)?,
        };
        Ok(Some(piece).filter(|piece| piece.shape != piece.whole))
    }

    /// All of a result.
    pub(super) fn whole(problem: &Problem<'a>, shape: &[usize]) -> Piece<'a> {
        Piece { problem: problem.clone(), shape: shape.to_vec(), start: vec![0; shape.len()], whole: shape.to_vec() }
    }

    /// Copies of the operands, which lie among all of the others' elements: each order of products reads them anew.
    pub(super) fn operands(&self) -> Result<[Copied; 2]> {
        let [a, b] = &self.problem.operands;
        Ok([Copied::whole(a)?, Copied::whole(b)?])
    }

    /// Elements.
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Columns of all of the result.
    pub(super) fn columns(&self) -> usize {
        self.whole.last().copied().unwrap_or(1)
    }

    /// The index in all of the result of an element of the piece.
    pub(super) fn index_of(&self, element: usize) -> usize {
        let coordinates = coordinates_from_last(element, self.shape.iter().rev().copied());
        let (mut index, mut step) = (0, 1);
        for ((coordinate, start), whole) in coordinates.zip(self.start.iter().rev()).zip(self.whole.iter().rev()) {
            index += (start + coordinate) * step;
            step *= whole;
        }
        index
    }
}

/// Where a part of this shape begins so that it holds an element, or the last of those that fit.
fn start_of(element: usize, part: &[usize], whole: &[usize]) -> Result<Vec<usize>> {
    let at = Layout::contiguous(whole)?.coordinates(element);
    Ok(at.into_iter().zip(part).zip(whole).map(|((at, part), whole)| at.min(whole - part)).collect())
}

/// The view of a part of a tensor's axes of these strides.
fn part_of<'a>(tensor: &TensorRef<'a>, shape: &[usize], strides: &[isize], start: &[usize]) -> Result<TensorRef<'a>> {
    let before: isize = start.iter().zip(strides).map(|(&start, stride)| start as isize * stride).sum();
    tensor.view(Layout::strided(shape, strides, tensor.layout().offset().saturating_add_signed(before))?)
}

fn of_product<'a>(problem: &Problem<'a>, product: &Product<'a>, whole: &[usize], most: [usize; 2], element: usize) -> Result<Piece<'a>> {
    let mut shape = whole.to_vec();
    let matrix = shape.len().saturating_sub(2);
    shape[..matrix].fill(1);
    shape[matrix..].iter_mut().zip(most).for_each(|(extent, most)| *extent = (*extent).min(most));
    let start = start_of(element, &shape, whole)?;
    let part = |which: usize| {
        let t = &problem.operands[which];
        let (mut part, mut from) = (t.shape().to_vec(), vec![0; t.shape().len()]);
        let batch = part.len() - 2;
        // The axis that is not k's: of A the rows of the result, of B its columns.
        let axis = batch + product.k_axis(which) - 1;
        (part[axis], from[axis]) = (shape[matrix + which], start[matrix + which]);
        // A matrix without a batch serves all.
        for (i, extent) in part[..batch].iter_mut().enumerate().filter(|(_, extent)| **extent > 1) {
            (*extent, from[i]) = (1, (matrix + i).checked_sub(batch).map_or(0, |at| start[at]));
        }
        part_of(t, &part, t.layout().strides(), &from)
    };
    let operands = [part(0)?, part(1)?];
    Ok(Piece { problem: Problem { operands, kind: problem.kind.clone() }, shape, start, whole: whole.to_vec() })
}

fn of_convolution<'a>(
    problem: &Problem<'a>,
    param: &ConvParam,
    direction: Direction,
    [channels, positions]: [usize; 2],
    element: usize,
) -> Result<Piece<'a>> {
    let (c, k) = (param.in_channels().min(channels), param.out_channels().min(channels));
    // As many images as there are positions to be compared, where the sum does not run over images.
    let images = |space: &[usize]| positions.div_ceil(space.iter().product::<usize>().max(1)).min(param.batch());
    let (batch, in_channels, out_channels) = match direction {
        Direction::Forward => (images(param.output_space()), param.in_channels(), k),
        Direction::BackwardData => (images(param.input_space()), c, param.out_channels()),
        Direction::BackwardWeight => (param.batch(), c, k),
    };
    let part = param.with_sizes(ConvSizes { groups: 1, batch, out_channels, in_channels, ..param.sizes() })?;
    let [first, second, result] = direction.roles();
    let (shape, whole) = (part.shape(result), param.shape(result));
    let start = start_of(element, &shape, &whole)?;
    let axes = param.layout(result).to_string();
    let operand = |which: usize, role| {
        // Along axes that the result has as well, but for those of space, which are whole: there both begin at 0.
        let from = |axis: char| axes.chars().position(|own| own == axis).map_or(0, |at| start[at]);
        let from: Vec<usize> = param.layout(role).to_string().chars().map(from).collect();
        let tensor = &problem.operands[which];
        part_of(tensor, &part.shape(role), &strides_of(tensor, &param.shape(role))?, &from)
    };
    let operands = [operand(0, first)?, operand(1, second)?];
    Ok(Piece { problem: Problem { operands, kind: Kind::Conv(part, direction) }, shape, start, whole })
}

/// The strides along these axes of a tensor that may lack axes of extent 1, or have one dimension.
fn strides_of(tensor: &TensorRef<'_>, whole: &[usize]) -> Result<Vec<isize>> {
    let layout = tensor.layout();
    Ok(match *tensor.shape() {
        [_] => Layout::contiguous(whole)?.strides().iter().map(|stride| stride * layout.strides()[0]).collect(),
        _ => {
            let mut longer = tensor.shape().iter().zip(layout.strides()).filter(|(extent, _)| **extent != 1).map(|(_, stride)| *stride);
            whole.iter().map(|&extent| if extent == 1 { 0 } else { longer.next().unwrap_or(0) }).collect()
        }
    })
}
