//! The references in their most readable form: one result, one product at a time.
//!
//! Slow, and the definition of the fast paths, which the tests compare with it bit by bit.

use super::accumulate::Accumulate;
use super::conv_layout::Role;
use super::conv_param::ConvParam;
use super::lattice::{Direction, KOrder, Lattice, Strides};
use crate::matrix_core;

/// The sum of `products` in their order, from zero. The factors are exact values of the input formats.
pub fn sum(accumulate: Accumulate, products: &[(f64, f64)]) -> f64 {
    let single = |v: f64| f64::from(v as f32);
    match accumulate {
        Accumulate::F64 => products.iter().fold(0.0, |acc, &(a, b)| a.mul_add(b, acc)),
        Accumulate::F64Rounded => products.iter().fold(0.0, |acc, &(a, b)| single(a.mul_add(b, acc))),
        Accumulate::Every4 => {
            let mut acc = 0.0;
            for (i, &(a, b)) in products.iter().enumerate() {
                acc = a.mul_add(b, acc);
                if i % 4 == 3 {
                    acc = single(acc);
                }
            }
            acc
        }
        Accumulate::Groups4 => {
            let mut acc = 0.0f32;
            for group in products.chunks(4) {
                acc += group.iter().fold(0.0, |sum, &(a, b)| a.mul_add(b, sum)) as f32;
            }
            f64::from(acc)
        }
        Accumulate::F32 => f64::from(products.iter().fold(0.0f32, |acc, &(a, b)| acc + a as f32 * b as f32)),
        Accumulate::F32Fma => f64::from(products.iter().fold(0.0f32, |acc, &(a, b)| (a as f32).mul_add(b as f32, acc))),
        Accumulate::MatrixCore(model) => {
            let (a, b): (Vec<f32>, Vec<f32>) = products.iter().map(|&(a, b)| (a as f32, b as f32)).unzip();
            f64::from(matrix_core::naive::dot(model, 0.0, &a, &b))
        }
    }
}

/// The products of every element of the result of a convolution, in memory order of the result and in the order of K.
/// Products with padding are zeros; with `inside` they are left out.
pub fn conv_products(
    param: &ConvParam,
    direction: Direction,
    order: KOrder,
    inside: bool,
    operands: (&[f64], &[f64]),
) -> Vec<Vec<(f64, f64)>> {
    let l = &param.lattice();
    let sequence = |channels: usize| -> Vec<(usize, Position)> {
        match order {
            KOrder::ChannelsFirst => channels_and_positions(channels, l.filter).collect(),
            KOrder::ChannelsLast => positions(l.filter).flat_map(|t| (0..channels).map(move |c| (c, t))).collect(),
        }
    };
    let (a, b) = operands;
    let role = match direction {
        Direction::Forward => Role::Output,
        Direction::BackwardData => Role::Input,
        Direction::BackwardWeight => Role::Filter,
    };
    let mut out = vec![Vec::new(); param.elements(role)];
    for g in 0..l.groups {
        match direction {
            Direction::Forward => {
                for (n, k, o) in elements(l.images, l.k, l.output) {
                    let products = sequence(l.c).into_iter().filter_map(|(c, t)| {
                        let x = input_position(l, o, t).map(|i| a[index(&l.input_at, n, g, c, i)]);
                        (x.is_some() || !inside).then(|| (b[index(&l.filter_at, k, g, c, t)], x.unwrap_or(0.0)))
                    });
                    out[index(&l.output_at, n, g, k, o)] = products.collect();
                }
            }
            Direction::BackwardData => {
                for (n, c, i) in elements(l.images, l.c, l.input) {
                    let products = sequence(l.k).into_iter().filter_map(|(k, t)| {
                        let y = output_position(l, i, t).map(|o| a[index(&l.output_at, n, g, k, o)]);
                        (y.is_some() || !inside).then(|| (b[index(&l.filter_at, k, g, c, t)], y.unwrap_or(0.0)))
                    });
                    out[index(&l.input_at, n, g, c, i)] = products.collect();
                }
            }
            Direction::BackwardWeight => {
                for (k, c, t) in elements(l.k, l.c, l.filter) {
                    let products = channels_and_positions(l.images, l.output).filter_map(|(n, o)| {
                        let x = input_position(l, o, t).map(|i| a[index(&l.input_at, n, g, c, i)]);
                        (x.is_some() || !inside).then(|| (b[index(&l.output_at, n, g, k, o)], x.unwrap_or(0.0)))
                    });
                    out[index(&l.filter_at, k, g, c, t)] = products.collect();
                }
            }
        }
    }
    out
}

/// z, y, x.
type Position = [usize; 3];

fn positions(space: [usize; 3]) -> impl Iterator<Item = Position> {
    (0..space[0]).flat_map(move |z| (0..space[1]).flat_map(move |y| (0..space[2]).map(move |x| [z, y, x])))
}

/// Of each channel, or each image, all positions.
fn channels_and_positions(channels: usize, space: [usize; 3]) -> impl Iterator<Item = (usize, Position)> {
    (0..channels).flat_map(move |c| positions(space).map(move |p| (c, p)))
}

/// The elements of a group of a tensor.
fn elements(outer: usize, channels: usize, space: [usize; 3]) -> impl Iterator<Item = (usize, usize, Position)> {
    (0..outer).flat_map(move |n| channels_and_positions(channels, space).map(move |(c, p)| (n, c, p)))
}

fn index(at: &Strides, outer: usize, group: usize, channel: usize, p: Position) -> usize {
    outer * at.outer + group * at.group + channel * at.channel + (0..3).map(|d| p[d] * at.space[d]).sum::<usize>()
}

/// Input position = output position · stride + filter position · dilation - padding.
fn input_position(l: &Lattice, o: Position, t: Position) -> Option<Position> {
    let mut i = [0; 3];
    for d in 0..3 {
        i[d] = (o[d] * l.stride[d] + t[d] * l.dilation[d]).checked_sub(l.padding[d]).filter(|&i| i < l.input[d])?;
    }
    Some(i)
}

/// The inverse, where there is one.
fn output_position(l: &Lattice, i: Position, t: Position) -> Option<Position> {
    let mut o = [0; 3];
    for d in 0..3 {
        let steps = (i[d] + l.padding[d]).checked_sub(t[d] * l.dilation[d])?;
        o[d] = Some(steps / l.stride[d]).filter(|&o| steps.is_multiple_of(l.stride[d]) && o < l.output[d])?;
    }
    Some(o)
}
