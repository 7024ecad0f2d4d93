//! Whether a result is bit-exact for the matrix cores of a chip, and in which order of products.

use super::problem::{Problem, on_host};
use crate::device::TensorRef;
use crate::dtype::{Overflow, Rounding};
use crate::error::{Error, Result};
use crate::matrix_core::{Arch, Model};

/// Rows and columns of the corner on which models and orders are tried first.
const CORNER: [usize; 2] = [16, 64];

/// What the models of an architecture make of the operands, held against the result.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Exactness {
    /// The architecture.
    #[cfg_attr(feature = "serde", serde(serialize_with = "name"))]
    pub arch: Arch,
    /// How many pairs of a model and an order were tried. None where alpha, C, a bias or an epilogue follow the sum: their arithmetic is not known.
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

/// Tries models and orders: on a corner first, then on all of it those that agree there.
pub(super) fn search(problem: &Problem<'_>, result: &TensorRef<'_>, arch: Arch, models: &[Model], parts: usize) -> Result<Exactness> {
    let mut found = Exactness { arch, tried: 0, model: None, order: None, differing: 0, first: None };
    let orders = problem.orders(parts);
    let shape = result.shape().to_vec();
    let corner = problem.corner(&shape, CORNER)?;
    let mut candidates = Vec::new();
    for (order, &model) in orders.iter().flat_map(|order| models.iter().map(move |model| (order, model))) {
        let (part, part_shape) = corner.as_ref().map_or((problem, &shape), |(problem, shape)| (problem, shape));
        match part.sums(model, order, part_shape) {
            Ok(sums) => candidates.push((differing(&sums, result, part_shape)?.len(), model, *order)),
            // Variants that the device code lacks.
            Err(Error::Unsupported { .. }) => {}
            Err(e) => return Err(e),
        }
    }
    found.tried = candidates.len();
    // Stable: what was tried first stands first among equals.
    candidates.sort_by_key(|candidate| candidate.0);
    let exact = candidates.iter().take_while(|c| c.0 == 0).count();
    for &(_, model, order) in candidates.iter().take(exact.max(1)) {
        let different = differing(&problem.sums(model, &order, &shape)?, result, &shape)?;
        if found.model.is_none() || different.len() < found.differing {
            (found.model, found.order) = (Some(model.to_string()), Some(order.to_string()));
            (found.differing, found.first) = (different.len(), different.first().map(|&i| result.layout().coordinates(i)));
        }
        if found.differing == 0 {
            break;
        }
    }
    Ok(found)
}

/// The elements of the leading part of a result of this shape whose bits are not those of the sums, rounded once. NaN is NaN, whatever its bits.
fn differing(sums: &[f32], result: &TensorRef<'_>, shape: &[usize]) -> Result<Vec<usize>> {
    let (bytes, dtype, layout) = (on_host(result)?, result.dtype(), result.layout());
    let (columns, all) = (shape.last().copied().unwrap_or(1), result.shape().last().copied().unwrap_or(1));
    let differs = |(i, &sum): (usize, &f32)| {
        let index = i / columns * all + i % columns;
        let found = dtype.load_bits(&bytes, layout.index(index));
        let expected = dtype.encode(f64::from(sum), Rounding::NearestEven, Overflow::Ieee);
        let nan = sum.is_nan() && dtype.decode(found).is_nan();
        (found != expected && !nan).then_some(index)
    };
    Ok(sums.iter().enumerate().filter_map(differs).collect())
}
