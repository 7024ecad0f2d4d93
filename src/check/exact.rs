//! Whether a result is bit-exact for the matrix or tensor cores of a chip, and in which order of products.

use super::copied::Copied;
use super::corner::{Corner, index_of};
use super::epilogue::{After, Operands};
use super::order::Order;
use super::problem::Problem;
use crate::device::TensorRef;
use crate::dtype::{Overflow, Rounding};
use crate::error::Result;
use crate::matrix_core::{Arch, Model};
use crate::parallel;
use std::borrow::Cow;

/// Rows and columns of the corner on which models and orders are tried first, at most; of a convolution channels and positions.
const CORNER: [usize; 2] = [16, 64];
/// Products of the corner, unless it has few elements: some twenty orders are tried, and a core adds a few billion products a second.
const PRODUCTS: usize = 1 << 25;
const FEW: usize = 32;

/// Elements that are held against the result in one task.
const TASK: usize = 1 << 14;

/// In the place of a model where alpha is 0.
const NO_PRODUCT: &str = "alpha is 0: nothing is taken of A and B";

/// What the models of an architecture make of the operands, held against the result.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Exactness {
    /// The architecture.
    #[cfg_attr(feature = "serde", serde(serialize_with = "name"))]
    pub arch: Arch,
    /// How many models, orders of products and orders of what follows the sum were tried.
    pub tried: usize,
    /// The model that comes nearest, such as `gfx90a f16`; exact where nothing differs. Where alpha is 0 it may be that nothing is taken of A and B: words that say so.
    pub model: Option<String>,
    /// The order of products with which it does.
    pub order: Option<String>,
    /// Why no model was tried, where that is not for want of one that could run.
    pub not_tried: Option<String>,
    /// Elements whose bits differ from that model's.
    pub differing: usize,
    /// The first of them.
    pub first: Option<Vec<usize>>,
}

impl Exactness {
    /// Whether the result is what a model gives, bit for bit.
    pub fn is_exact(&self) -> bool {
        self.model.is_some() && self.differing == 0
    }
}

#[cfg(feature = "serde")]
fn name<S: serde::Serializer>(arch: &Arch, s: S) -> std::result::Result<S::Ok, S::Error> {
    s.collect_str(arch)
}

fn none(arch: Arch) -> Exactness {
    Exactness { arch, tried: 0, model: None, order: None, not_tried: None, differing: 0, first: None }
}

/// What is said where models are not tried, and why.
pub(super) fn not_tried(arch: Arch, why: &str) -> Exactness {
    Exactness { not_tried: Some(why.to_owned()), ..none(arch) }
}

/// Tries models and orders, with each order of what follows the sum: on a corner first, then on all of it those that agree there. An alpha of 0 comes before all that.
pub(super) fn search(
    problem: &Problem<'_>,
    result: (&TensorRef<'_>, Overflow),
    arch: Arch,
    models: &[Model],
    parts: usize,
) -> Result<Exactness> {
    let none = none(arch);
    if problem.product().is_none_or(|product| product.alpha != 0.0) {
        return of_products(problem, result, models, parts, none);
    }
    let skipped = without_products(problem, result, none.clone())?;
    // 0 times infinity is NaN in every model: no order of products gives numbers there.
    if skipped.is_exact() || !all_finite(problem)? {
        return Ok(skipped);
    }
    let found = of_products(problem, result, models, parts, none)?;
    let tried = skipped.tried + found.tried;
    let nearest = if found.model.is_some() && found.differing < skipped.differing { found } else { skipped };
    Ok(Exactness { tried, ..nearest })
}

/// What a kernel gives that takes nothing of the operands where alpha is 0, as BLAS has it: each order of what follows, of sums of 0.
fn without_products(problem: &Problem<'_>, (result, overflow): (&TensorRef<'_>, Overflow), mut found: Exactness) -> Result<Exactness> {
    let (found_values, operands, shape) = (Found::of(result, overflow)?, Operands::of(problem.product())?, result.shape());
    let zeros = vec![0.0; result.elements()];
    for after in operands.orders(false, result.dtype()) {
        found.tried += 1;
        let different = found_values.differing(&zeros, [shape, shape], &operands, after);
        if found.model.is_none() || different.len() < found.differing {
            (found.model, found.order) = (Some(NO_PRODUCT.to_owned()), Some(after.to_string().trim_start_matches(", ").to_owned()));
            (found.differing, found.first) = (different.len(), different.first().map(|&i| result.layout().coordinates(i)));
        }
        if found.differing == 0 {
            break;
        }
    }
    Ok(found)
}

/// Whether A and B hold numbers alone.
fn all_finite(problem: &Problem<'_>) -> Result<bool> {
    for operand in &problem.operands {
        let (bytes, dtype, layout) = (operand.fetch()?, operand.dtype(), operand.layout());
        if !(0..operand.elements()).all(|i| dtype.decode(dtype.load_bits(&bytes, layout.index(i))).is_finite()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The corner's size for sums of so many products.
fn corner_of(terms: usize) -> [usize; 2] {
    let [mut rows, mut columns] = CORNER;
    while rows * columns > FEW && (rows * columns).saturating_mul(terms) > PRODUCTS {
        if rows > 2 { rows /= 2 } else { columns /= 2 }
    }
    [rows, columns]
}

/// Models and orders of products, each with what follows the sum.
fn of_products(
    problem: &Problem<'_>,
    (result, overflow): (&TensorRef<'_>, Overflow),
    models: &[Model],
    parts: usize,
    mut found: Exactness,
) -> Result<Exactness> {
    let (orders, shape) = (problem.orders(parts), result.shape().to_vec());
    let found_values = Found::of(result, overflow)?;
    let (corner, all) = (Corner::of(problem, &shape, corner_of(problem.terms()))?, shape.last().copied().unwrap_or(1));
    let copies = corner.as_ref().map(Corner::operands).transpose()?;
    let (part, part_shape, whole) = match (&corner, &copies) {
        (Some(corner), Some([a, b])) => {
            let operands = [a.tensor()?, b.tensor()?];
            (&Problem { operands, kind: corner.problem.kind.clone() }, &corner.shape, &corner.whole)
        }
        _ => (problem, &shape, &shape),
    };
    let ways = Way::all(problem)?;
    let mut candidates = Vec::new();
    for (number, way) in ways.iter().enumerate() {
        let copy = way.copy(part)?;
        let part = &way.problem(part, copy.as_ref())?;
        for (order, &model) in orders.iter().flat_map(|order| models.iter().map(move |model| (order, model))) {
            let sums = part.parts_of_sums(model, order, part_shape)?;
            for after in way.operands.orders(sums.len() > 1, result.dtype()) {
                let sums = way.sums(part, (model, order), part_shape, (after, all), &sums)?;
                let differing = found_values.differing(&sums, [part_shape, whole], &way.operands, after).len();
                candidates.push((differing, model, *order, number, after));
            }
        }
    }
    found.tried = candidates.len();
    // Stable: what was tried first stands first among equals.
    candidates.sort_by_key(|candidate| candidate.0);
    let exact = candidates.iter().take_while(|c| c.0 == 0).count();
    for &(_, model, order, number, after) in candidates.iter().take(exact.max(1)) {
        let way = &ways[number];
        let copy = way.copy(problem)?;
        let problem = &way.problem(problem, copy.as_ref())?;
        let sums = problem.parts_of_sums(model, &order, &shape)?;
        let sums = way.sums(problem, (model, &order), &shape, (after, all), &sums)?;
        let different = found_values.differing(&sums, [&shape, &shape], &way.operands, after);
        if found.model.is_none() || different.len() < found.differing {
            (found.model, found.order) = (Some(model.to_string()), Some(format!("{}{order}{after}", way.words())));
            (found.differing, found.first) = (different.len(), different.first().map(|&i| result.layout().coordinates(i)));
        }
        if found.differing == 0 {
            break;
        }
    }
    Ok(found)
}

/// Where alpha is: with what follows the sum, or in an operand.
struct Way {
    /// The operand that is multiplied by alpha, and alpha.
    scaled: Option<(usize, f32)>,
    operands: Operands,
}

impl Way {
    fn all(problem: &Problem<'_>) -> Result<Vec<Way>> {
        let operands = || Operands::of(problem.product());
        let mut ways = vec![Way { scaled: None, operands: operands()? }];
        if let Some(alpha) = ways[0].operands.scale() {
            for which in [0, 1] {
                ways.push(Way { scaled: Some((which, alpha)), operands: operands()?.without_alpha() });
            }
        }
        Ok(ways)
    }

    /// The operand as it is multiplied.
    fn copy(&self, problem: &Problem<'_>) -> Result<Option<Copied>> {
        self.scaled.map(|(which, alpha)| Copied::scaled(&problem.operands[which], alpha)).transpose()
    }

    /// The problem with it.
    fn problem<'a>(&self, problem: &Problem<'a>, copy: Option<&'a Copied>) -> Result<Problem<'a>> {
        let mut problem = problem.clone();
        if let (Some((which, _)), Some(copy)) = (self.scaled, copy) {
            problem.operands[which] = copy.tensor()?;
        }
        Ok(problem)
    }

    /// The sums to which `after` is applied, of the sums of each part; of the leading part of this shape of a result with `all` columns.
    fn sums(
        &self,
        problem: &Problem<'_>,
        (model, order): (Model, &Order),
        shape: &[usize],
        (after, all): (After, usize),
        parts: &[Vec<f32>],
    ) -> Result<Vec<f32>> {
        let start = || self.operands.start(after, shape, all);
        let add = |mut sum: Vec<f32>, part: &Vec<f32>, of: &dyn Fn(f32) -> f32| {
            sum.iter_mut().zip(part).for_each(|(sum, &x)| *sum += of(x));
            sum
        };
        Ok(match (after, parts) {
            (After::Started { .. }, _) => problem.sums_from(model, order, shape, start())?,
            (After::Added, _) => parts.iter().fold(start(), |sum, part| add(sum, part, &|x| self.operands.times_alpha(x))),
            (_, []) => Vec::new(),
            (_, [first, rest @ ..]) => rest.iter().fold(first.clone(), |sum, part| add(sum, part, &|x| x)),
        })
    }

    fn words(&self) -> &'static str {
        match self.scaled {
            None => "",
            Some((0, _)) => "A times alpha rounded to its format, ",
            Some(_) => "B times alpha rounded to its format, ",
        }
    }
}

/// A result, on the host.
struct Found<'a> {
    bytes: Cow<'a, [u8]>,
    result: &'a TensorRef<'a>,
    /// What its kernel makes of what is beyond its format.
    overflow: Overflow,
}

impl<'a> Found<'a> {
    fn of(result: &'a TensorRef<'a>, overflow: Overflow) -> Result<Found<'a>> {
        Ok(Found { bytes: result.fetch()?, result, overflow })
    }

    /// The elements of a leading part whose bits are not those of the sums with what follows them, rounded once; shapes are those of the part and of all of the
    /// result. NaN is NaN, whatever its bits.
    fn differing(&self, sums: &[f32], [part, whole]: [&[usize]; 2], operands: &Operands, after: After) -> Vec<usize> {
        let (dtype, layout) = (self.result.dtype(), self.result.layout());
        let all = whole.last().copied().unwrap_or(1);
        let differs = |i: usize| {
            let index = index_of(i, part, whole);
            let value = operands.apply(after, sums[i], index, all);
            let found = dtype.load_bits(&self.bytes, layout.index(index));
            let expected = dtype.encode(f64::from(value), Rounding::NearestEven, self.overflow);
            let nan = value.is_nan() && dtype.decode(found).is_nan();
            (found != expected && !nan).then_some(index)
        };
        let tasks = sums.len().div_ceil(TASK);
        parallel::map(tasks, |task| (task * TASK..sums.len().min((task + 1) * TASK)).filter_map(differs).collect::<Vec<_>>()).concat()
    }
}
