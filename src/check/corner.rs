//! A leading part of a result as a problem of its own, for what is tried many times: of a matrix product some rows and columns of the first matrix, of a convolution some channels of
//! the first group at all positions of the first images.

use super::copied::Copied;
use super::problem::{Kind, Problem, Product};
use crate::device::{Layout, TensorRef};
use crate::error::Result;
use crate::reference::{Accumulate, Conv, ConvParam, ConvSizes, Direction};

/// The part.
pub(super) struct Corner<'a> {
    pub problem: Problem<'a>,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The shape of all of the result, with as many axes.
    pub whole: Vec<usize>,
}

impl<'a> Corner<'a> {
    /// The corner of a result of this shape, of up to so many rows and columns (channels and positions of a convolution); `None` where nothing is left out.
    pub(super) fn of(problem: &Problem<'a>, shape: &[usize], most: [usize; 2]) -> Result<Option<Corner<'a>>> {
        let corner = match &problem.kind {
            Kind::Gemm(product) => of_product(problem, product, shape, most)?,
            Kind::Conv(param, direction) => of_convolution(problem, param, *direction, most)?,
        };
        Ok(Some(corner).filter(|corner| corner.shape != corner.whole))
    }

    /// Copies of the operands, which lie among all of the others' elements: each order of products reads them anew.
    pub(super) fn operands(&self) -> Result<[Copied; 2]> {
        let [a, b] = &self.problem.operands;
        Ok([Copied::whole(a)?, Copied::whole(b)?])
    }
}

/// The index in all of a result of an element of its leading part.
pub(super) fn index_of(element: usize, part: &[usize], whole: &[usize]) -> usize {
    let (mut rest, mut index, mut step) = (element, 0, 1);
    for (&part, &whole) in part.iter().zip(whole).rev() {
        index += rest % part * step;
        rest /= part;
        step *= whole;
    }
    index
}

fn of_product<'a>(problem: &Problem<'a>, product: &Product<'a>, whole: &[usize], most: [usize; 2]) -> Result<Corner<'a>> {
    let mut shape = whole.to_vec();
    let matrix = shape.len().saturating_sub(2);
    shape[..matrix].fill(1);
    shape[matrix..].iter_mut().zip(most).for_each(|(extent, most)| *extent = (*extent).min(most));
    let leading = |which: usize| {
        let t = &problem.operands[which];
        let mut part = t.shape().to_vec();
        let matrix = part.len() - 2;
        part[..matrix].fill(1);
        // The axis that is not k's: of A the rows of the result, of B its columns.
        part[matrix + product.k_axis(which) - 1] = shape[shape.len() - 2 + which];
        t.view(Layout::strided(&part, t.layout().strides(), t.layout().offset())?)
    };
    let operands = [leading(0)?, leading(1)?];
    Ok(Corner { problem: Problem { operands, kind: problem.kind.clone() }, shape, whole: whole.to_vec() })
}

fn of_convolution<'a>(
    problem: &Problem<'a>,
    param: &ConvParam,
    direction: Direction,
    [channels, positions]: [usize; 2],
) -> Result<Corner<'a>> {
    let (c, k) = (param.in_channels().min(channels), param.out_channels().min(channels));
    // As many images as there are positions to be compared, where the sum does not run over images.
    let images = |space: &[usize]| positions.div_ceil(space.iter().product::<usize>().max(1)).min(param.batch());
    let (batch, in_channels, out_channels) = match direction {
        Direction::Forward => (images(param.output_space()), param.in_channels(), k),
        Direction::BackwardData => (images(param.input_space()), c, param.out_channels()),
        Direction::BackwardWeight => (param.batch(), c, k),
    };
    let part = param.with_sizes(ConvSizes { groups: 1, batch, out_channels, in_channels, ..param.sizes() })?;
    let [first, second, result] = Conv::new(param.clone(), direction, Accumulate::F64).roles();
    let leading = |which: usize, role| leading(&problem.operands[which], &param.shape(role), &part.shape(role));
    let operands = [leading(0, first)?, leading(1, second)?];
    let (shape, whole) = (part.shape(result), param.shape(result));
    Ok(Corner { problem: Problem { operands, kind: Kind::Conv(part, direction) }, shape, whole })
}

/// The leading part of a tensor that may lack axes of extent 1, or have one dimension.
fn leading<'a>(tensor: &TensorRef<'a>, whole: &[usize], part: &[usize]) -> Result<TensorRef<'a>> {
    let layout = tensor.layout();
    let strides: Vec<isize> = match *tensor.shape() {
        [_] => Layout::contiguous(whole)?.strides().iter().map(|stride| stride * layout.strides()[0]).collect(),
        _ => {
            let mut longer = tensor.shape().iter().zip(layout.strides()).filter(|(extent, _)| **extent != 1).map(|(_, stride)| *stride);
            whole.iter().map(|&extent| if extent == 1 { 0 } else { longer.next().unwrap_or(0) }).collect()
        }
    };
    tensor.view(Layout::strided(part, &strides, layout.offset())?)
}
