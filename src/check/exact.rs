//! Whether a result is bit-exact for the matrix cores of a chip, and in which order of products.

use super::epilogue::{After, Operands};
use super::order::Order;
use super::problem::{Problem, on_host};
use crate::device::TensorRef;
use crate::dtype::{Overflow, Rounding};
use crate::error::{Error, Result};
use crate::matrix_core::{Arch, Model};
use std::borrow::Cow;

/// Rows and columns of the corner on which models and orders are tried first.
const CORNER: [usize; 2] = [16, 64];

/// What the models of an architecture make of the operands, held against the result.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Exactness {
    /// The architecture.
    #[cfg_attr(feature = "serde", serde(serialize_with = "name"))]
    pub arch: Arch,
    /// How many models, orders of products and orders of what follows the sum were tried.
    pub tried: usize,
    /// The model that comes nearest, such as `gfx90a f16`; exact where nothing differs.
    pub model: Option<String>,
    /// The order of products with which it does.
    pub order: Option<String>,
    /// Elements whose bits differ from that model's.
    pub differing: usize,
    /// The first of them.
    pub first: Option<Vec<usize>>,
}

#[cfg(feature = "serde")]
fn name<S: serde::Serializer>(arch: &Arch, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.collect_str(arch)
}

/// Tries models and orders, with each order of what follows the sum: on a corner first, then on all of it those that agree there.
pub(super) fn search(problem: &Problem<'_>, result: &TensorRef<'_>, arch: Arch, models: &[Model], parts: usize) -> Result<Exactness> {
    let mut found = Exactness { arch, tried: 0, model: None, order: None, differing: 0, first: None };
    let (orders, shape) = (problem.orders(parts), result.shape().to_vec());
    let found_values = Found::of(result)?;
    let operands = Operands::of(problem.product())?;
    let (corner, all) = (problem.corner(&shape, CORNER)?, shape.last().copied().unwrap_or(1));
    let mut candidates = Vec::new();
    for (order, &model) in orders.iter().flat_map(|order| models.iter().map(move |model| (order, model))) {
        let (part, part_shape) = corner.as_ref().map_or((problem, &shape), |(problem, shape)| (problem, shape));
        match part.sums(model, order, part_shape) {
            Ok(sums) => {
                for after in operands.orders() {
                    let own = started(part, (model, order), part_shape, &operands, (after, all))?;
                    let differing = found_values.differing(own.as_ref().unwrap_or(&sums), part_shape, &operands, after).len();
                    candidates.push((differing, model, *order, after));
                }
            }
            // Variants that the device code lacks.
            Err(Error::Unsupported { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    found.tried = candidates.len();
    // Stable: what was tried first stands first among equals.
    candidates.sort_by_key(|candidate| candidate.0);
    let exact = candidates.iter().take_while(|c| c.0 == 0).count();
    for &(_, model, order, after) in candidates.iter().take(exact.max(1)) {
        let own = started(problem, (model, &order), &shape, &operands, (after, all))?;
        let sums = own.map_or_else(|| problem.sums(model, &order, &shape), Ok)?;
        let different = found_values.differing(&sums, &shape, &operands, after);
        if found.model.is_none() || different.len() < found.differing {
            (found.model, found.order) = (Some(model.to_string()), Some(format!("{order}{after}")));
            (found.differing, found.first) = (different.len(), different.first().map(|&i| result.layout().coordinates(i)));
        }
        if found.differing == 0 {
            break;
        }
    }
    Ok(found)
}

/// The sums of accumulators that start with C, where that is what follows is about; of the leading part of this shape of a result with `all` columns.
fn started(
    problem: &Problem<'_>,
    (model, order): (Model, &Order),
    shape: &[usize],
    operands: &Operands,
    (after, all): (After, usize),
) -> Result<Option<Vec<f32>>> {
    let sums = || problem.sums_from(model, order, shape, operands.start(shape, all));
    (after == After::Started).then(sums).transpose()
}

/// A result, on the host.
struct Found<'a> {
    bytes: Cow<'a, [u8]>,
    result: &'a TensorRef<'a>,
}

impl<'a> Found<'a> {
    fn of(result: &'a TensorRef<'a>) -> Result<Found<'a>> {
        Ok(Found { bytes: on_host(result)?, result })
    }

    /// The elements of the leading part of this shape whose bits are not those of the sums with what follows them, rounded once. NaN is NaN, whatever its bits.
    fn differing(&self, sums: &[f32], shape: &[usize], operands: &Operands, after: After) -> Vec<usize> {
        let (dtype, layout) = (self.result.dtype(), self.result.layout());
        let (columns, all) = (shape.last().copied().unwrap_or(1), self.result.shape().last().copied().unwrap_or(1));
        let differs = |(i, &sum): (usize, &f32)| {
            let index = i / columns * all + i % columns;
            let value = operands.apply(after, sum, index, all);
            let found = dtype.load_bits(&self.bytes, layout.index(index));
            let expected = dtype.encode(f64::from(value), Rounding::NearestEven, Overflow::Ieee);
            let nan = value.is_nan() && dtype.decode(found).is_nan();
            (found != expected && !nan).then_some(index)
        };
        sums.iter().enumerate().filter_map(differs).collect()
    }
}
