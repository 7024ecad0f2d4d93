//! The exact result of a problem without the last products of each sum: what a kernel delivers that stops its loop over k too early.
//!
//! A GEMM takes views of its operands. A convolution takes its second operand with zeros in the places of these products: k in the order of
//! [`KOrder::ChannelsFirst`](crate::reference::KOrder), which ends with the last channel (backward weight: the last image).

use super::copied::Copied;
use super::problem::{Kind, Problem};
use crate::device::{DeviceMem, Layout, TensorRef};
use crate::error::Result;
use crate::reference::{Arithmetic, ConvParam, Direction};

/// The result in f64 without the last `by` products; `None` where there are no more.
pub(super) fn exact(problem: &Problem<'_>, by: usize, arithmetic: Arithmetic, shape: &[usize]) -> Result<Option<DeviceMem<f64>>> {
    if problem.terms() <= by {
        return Ok(None);
    }
    let [first, second] = &problem.operands;
    let kind = problem.kind.clone();
    let exact = match &problem.kind {
        Kind::Gemm(product) => {
            let operands = [fewer(first, product.k_axis(0), by)?, fewer(second, product.k_axis(1), by)?];
            Problem { operands, kind }.exact(arithmetic, shape)
        }
        Kind::Conv(param, direction) => {
            let product = last_products(param, *direction);
            let zeros = Copied::with_zeros(second, |index| product(index) >= problem.terms() - by)?;
            Problem { operands: [first.clone(), zeros.tensor()?], kind }.exact(arithmetic, shape)
        }
    };
    exact.map(Some)
}

/// A view without the last positions of one axis, counted from the last axis, which is 1.
pub(super) fn fewer<'a>(tensor: &TensorRef<'a>, from_last: usize, by: usize) -> Result<TensorRef<'a>> {
    let mut shape = tensor.shape().to_vec();
    let axis = shape.len() - from_last;
    shape[axis] -= by;
    tensor.view(Layout::strided(&shape, tensor.layout().strides(), tensor.layout().offset())?)
}

/// The number in the sum of the products that an element of the second operand is in, by its index in memory order.
fn last_products(param: &ConvParam, direction: Direction) -> impl Fn(usize) -> usize {
    let lattice = param.lattice();
    // The axis that the sum runs over before space, its extent and stride, and those of space.
    let (strides, extents) = match direction {
        Direction::Forward => ((lattice.filter_at.channel, lattice.filter_at.space), (lattice.c, lattice.filter)),
        Direction::BackwardData => ((lattice.filter_at.outer, lattice.filter_at.space), (lattice.k, lattice.filter)),
        Direction::BackwardWeight => ((lattice.output_at.outer, lattice.output_at.space), (lattice.images, lattice.output)),
    };
    move |index| {
        let ((stride, strides), (extent, extents)) = (strides, extents);
        let at = |stride: usize, extent: usize| index / stride.max(1) % extent;
        let space = strides.into_iter().zip(extents).fold(0, |sum, (stride, extent)| sum * extent + at(stride, extent));
        at(stride, extent) * extents.iter().product::<usize>() + space
    }
}
