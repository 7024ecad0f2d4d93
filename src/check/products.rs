//! The products of single elements, read from the operands in the host's memory: as they should be, or as a kernel reads them that takes one for another.

use super::problem::{Kind, Problem};
use crate::device::{Layout, TensorRef};
use crate::dtype::DType;
use crate::error::Result;
use crate::reference::{Direction, Lattice, Strides};
use std::borrow::Cow;

/// How a kernel reads an operand of a matrix product, by the place of its elements in dense memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Right,
    /// As a matrix with rows and columns exchanged: the flag of the transposition is wrong.
    AsTransposed,
    /// The matrix was transposed in memory, and is read as it was.
    Transposed,
    /// The first matrix of a batch, for all of them.
    FirstMatrix,
    /// The next matrix of a batch; for the last one the first.
    NextMatrix,
    /// The matrix before it in a batch; for the first one the last.
    MatrixBefore,
}

/// The factors of the products of an element, in ascending k: of a convolution channels first, padding as zeros.
pub(super) struct Products {
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

/// A tensor's values.
pub(super) struct Values<'a> {
    bytes: Cow<'a, [u8]>,
    dtype: DType,
    layout: &'a Layout,
    /// What is below it counts as zero.
    least: f64,
}

impl<'a> Values<'a> {
    pub(super) fn of(tensor: &'a TensorRef<'a>, flush: bool) -> Result<Values<'a>> {
        let least = tensor.dtype().float_format().filter(|_| flush).map_or(0.0, |f| f.min_normal());
        Ok(Values { bytes: tensor.fetch()?, dtype: tensor.dtype(), layout: tensor.layout(), least })
    }

    /// The words of a tensor read as ones of another format of the same width.
    pub(super) fn read_as(tensor: &'a TensorRef<'a>, dtype: DType) -> Result<Values<'a>> {
        Ok(Values { dtype, ..Values::of(tensor, false)? })
    }

    /// The element at a logical index.
    pub(super) fn at(&self, index: usize) -> f64 {
        let x = self.dtype.decode(self.dtype.load_bits(&self.bytes, self.layout.index(index)));
        if x.abs() < self.least { 0.0 } else { x }
    }
}

/// The operands of a problem, and what is added.
pub(super) struct Source<'a> {
    problem: &'a Problem<'a>,
    operands: [Values<'a>; 2],
    c: Option<Values<'a>>,
    bias: Option<Values<'a>>,
    shape: &'a [usize],
}

impl<'a> Source<'a> {
    /// With subnormal operands as zeros, where a chip takes them so.
    pub(super) fn of(problem: &'a Problem<'a>, shape: &'a [usize], flush: bool) -> Result<Source<'a>> {
        let [a, b] = &problem.operands;
        let product = problem.product();
        let added = |tensor: Option<&'a TensorRef<'a>>| tensor.map(|t| Values::of(t, false)).transpose();
        Ok(Source {
            problem,
            operands: [Values::of(a, flush)?, Values::of(b, flush)?],
            c: added(product.and_then(|p| p.c.as_ref()))?,
            bias: added(product.and_then(|p| p.bias.as_ref()))?,
            shape,
        })
    }

    /// Row and column of an element of a matrix product.
    pub(super) fn row_and_column(&self, index: usize) -> (usize, usize) {
        match self.shape {
            [.., m, n] => (index / n % m, index % n),
            _ => (0, index),
        }
    }

    /// C at an element; 0 where there is none.
    pub(super) fn c(&self, index: usize) -> f64 {
        self.c.as_ref().map_or(0.0, |c| c.at(index % c.layout.elements()))
    }

    /// The bias at this number; 0 where there is none, or it has no such element.
    pub(super) fn bias(&self, number: usize) -> f64 {
        self.bias.as_ref().filter(|bias| number < bias.layout.elements()).map_or(0.0, |bias| bias.at(number))
    }

    /// The products of an element of a matrix product, its operands read so.
    pub(super) fn of_gemm(&self, index: usize, reads: [Read; 2]) -> Products {
        let Kind::Gemm(product) = &self.problem.kind else { return Products { a: Vec::new(), b: Vec::new() } };
        let k = self.problem.terms();
        let (row, column) = self.row_and_column(index);
        let area = self.shape.iter().rev().take(2).product::<usize>();
        let factors = |which: usize, number: usize, k_first: bool| -> Vec<f64> {
            let values = &self.operands[which];
            let [.., rows, columns] = *values.layout.shape() else { return Vec::new() };
            // A matrix without a batch serves all.
            let matrices = (values.layout.elements() / (rows * columns).max(1)).max(1);
            let own = index / area;
            let matrix = rows
                * columns
                * match reads[which] {
                    Read::Right | Read::AsTransposed | Read::Transposed => own % matrices,
                    Read::FirstMatrix => 0,
                    Read::NextMatrix => (own + 1) % matrices,
                    Read::MatrixBefore => (own + matrices - 1) % matrices,
                };
            let at = |x: usize| {
                let stored = if k_first { x * columns + number } else { number * columns + x };
                matrix
                    + match reads[which] {
                        Read::Right | Read::FirstMatrix | Read::NextMatrix | Read::MatrixBefore => stored,
                        Read::AsTransposed => stored % columns * rows + stored / columns,
                        Read::Transposed => stored % rows * columns + stored / rows,
                    }
            };
            (0..k).map(|x| values.at(at(x))).collect()
        };
        Products { a: factors(0, row, product.transposed[0]), b: factors(1, column, !product.transposed[1]) }
    }

    /// The products of an element of a convolution with this lattice.
    pub(super) fn of_conv(&self, index: usize, l: &Lattice, direction: Direction) -> Products {
        let at = |strides: &Strides, outer: usize, group: usize, channel: usize, p: [usize; 3]| {
            outer * strides.outer
                + group * strides.group
                + channel * strides.channel
                + (0..3).map(|d| p[d] * strides.space[d]).sum::<usize>()
        };
        let digit = |stride: usize, extent: usize| index / stride.max(1) % extent;
        let coordinates = |s: &Strides, outer: usize, channels: usize, space: [usize; 3]| {
            let p: [usize; 3] = std::array::from_fn(|d| digit(s.space[d], space[d]));
            (digit(s.outer, outer), digit(s.group, l.groups), digit(s.channel, channels), p)
        };
        let positions = |space: [usize; 3]| {
            let [_, y, x] = space;
            (0..space.iter().product()).map(move |i: usize| [i / (y * x), i / x % y, i % x])
        };
        let input = |o: [usize; 3], t: [usize; 3]| -> Option<[usize; 3]> {
            let mut i = [0; 3];
            for d in 0..3 {
                i[d] = (o[d] * l.stride[d] + t[d] * l.dilation[d]).checked_sub(l.padding[d]).filter(|&i| i < l.input[d])?;
            }
            Some(i)
        };
        let output = |i: [usize; 3], t: [usize; 3]| -> Option<[usize; 3]> {
            let mut o = [0; 3];
            for d in 0..3 {
                let steps = (i[d] + l.padding[d]).checked_sub(t[d] * l.dilation[d])?;
                o[d] = Some(steps / l.stride[d]).filter(|&o| steps.is_multiple_of(l.stride[d]) && o < l.output[d])?;
            }
            Some(o)
        };
        let [first, second] = &self.operands;
        let value = |values: &Values<'_>, index: Option<usize>| index.map_or(0.0, |index| values.at(index));
        let products: Vec<(f64, f64)> = match direction {
            Direction::Forward => {
                let (n, g, k, o) = coordinates(&l.output_at, l.images, l.k, l.output);
                let taps = (0..l.c).flat_map(|c| positions(l.filter).map(move |t| (c, t)));
                taps.map(|(c, t)| (value(first, input(o, t).map(|i| at(&l.input_at, n, g, c, i))), second.at(at(&l.filter_at, k, g, c, t))))
                    .collect()
            }
            Direction::BackwardData => {
                let (n, g, c, i) = coordinates(&l.input_at, l.images, l.c, l.input);
                let taps = (0..l.k).flat_map(|k| positions(l.filter).map(move |t| (k, t)));
                taps.map(|(k, t)| {
                    (value(first, output(i, t).map(|o| at(&l.output_at, n, g, k, o))), second.at(at(&l.filter_at, k, g, c, t)))
                })
                .collect()
            }
            Direction::BackwardWeight => {
                let (k, g, c, t) = coordinates(&l.filter_at, l.k, l.c, l.filter);
                let all = (0..l.images).flat_map(|n| positions(l.output).map(move |o| (n, o)));
                all.map(|(n, o)| (value(first, input(o, t).map(|i| at(&l.input_at, n, g, c, i))), second.at(at(&l.output_at, n, g, k, o))))
                    .collect()
            }
        };
        let (a, b) = products.into_iter().unzip();
        Products { a, b }
    }

    /// The products of an element as they should be.
    pub(super) fn right(&self, index: usize) -> Products {
        match &self.problem.kind {
            Kind::Gemm(_) => self.of_gemm(index, [Read::Right; 2]),
            Kind::Conv(param, direction) => self.of_conv(index, &param.lattice(), *direction),
        }
    }
}
