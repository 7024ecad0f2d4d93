//! Whether a result is bit-exact for the matrix or tensor cores of a chip, and in which order of products.

use super::copied::Copied;
use super::epilogue::{After, Operands};
use super::order::Order;
use super::piece::Piece;
use super::problem::Problem;
use crate::device::TensorRef;
use crate::dtype::{Overflow, Rounding};
use crate::error::Result;
use crate::matrix_core::{Arch, Model};
use crate::parallel;
use std::borrow::Cow;

/// Rows and columns of the piece on which models and orders are tried first, at most; of a convolution channels and positions.
const FIRST: [usize; 2] = [16, 64];
/// Products of that piece, unless it has few elements: some twenty orders are tried, and a core adds a few billion products a second.
const PRODUCTS: usize = 1 << 25;
const FEWEST_ELEMENTS: usize = 32;
/// Products of a larger piece in all models and orders that are left, which are no more than those of all of the result in one.
const MORE_PRODUCTS: usize = 1 << 30;

/// Elements at which the others are tried where a model and an order differ from the result, at most, and the piece around each.
const TRIED_AT: usize = 16;
const AROUND: [usize; 2] = [1, 16];

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

/// Tries models and orders, with each order of what follows the sum, as [`of_products`] says. An alpha of 0 comes before all that.
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
    let (found_values, operands, whole) =
        (Found::of(result, overflow)?, Operands::of(problem.product())?, Piece::whole(problem, result.shape()));
    let zeros = vec![0.0; result.elements()];
    for after in operands.orders(false, result.dtype()) {
        found.tried += 1;
        let different = found_values.differing(&zeros, &whole, &operands, after);
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

/// The size of the first piece for sums of so many products.
fn first_piece(terms: usize) -> [usize; 2] {
    let [mut rows, mut columns] = FIRST;
    while rows * columns > FEWEST_ELEMENTS && (rows * columns).saturating_mul(terms) > PRODUCTS {
        if rows > 2 { rows /= 2 } else { columns /= 2 }
    }
    [rows, columns]
}

/// Models and orders of products, each with what follows the sum.
///
/// ```text
/// left = those that come nearest on pieces of the result, of which each is larger
/// for the first of those that are left, on all of the result:
///     it differs nowhere: exact
///     left = the others that are right at elements where it differs
/// ```
///
/// So one that is exact is found, for it is right everywhere, and what makes the same of nearly all elements is not computed in full. Else the nearest of those that were is named.
fn of_products(
    problem: &Problem<'_>,
    (result, overflow): (&TensorRef<'_>, Overflow),
    models: &[Model],
    parts: usize,
    mut found: Exactness,
) -> Result<Exactness> {
    let search = Search { problem, ways: Way::all(problem)?, found: Found::of(result, overflow)?, shape: result.shape() };
    let candidates = search.candidates(models, parts);
    found.tried = candidates.len();
    let whole = Piece::whole(problem, search.shape);
    let mut left = search.nearest(candidates)?;
    while let Some((first, others)) = left.split_first() {
        let different = search.differing(problem, &whole, &[*first])?.concat();
        if found.model.is_none() || different.len() < found.differing {
            let way = search.ways[first.way].words();
            (found.model, found.order) = (Some(first.model.to_string()), Some(format!("{way}{}{}", first.order, first.after)));
            (found.differing, found.first) = (different.len(), different.first().map(|&i| result.layout().coordinates(i)));
        }
        if found.differing == 0 {
            break;
        }
        left = search.right_at(&different, others.to_vec())?;
    }
    Ok(found)
}

/// One thing that a chip may have done.
#[derive(Clone, Copy)]
struct Candidate {
    model: Model,
    order: Order,
    /// The number of the way in which alpha is applied.
    way: usize,
    after: After,
}

/// A result, and what it is held against.
struct Search<'p, 'a> {
    problem: &'p Problem<'a>,
    ways: Vec<Way>,
    found: Found<'p>,
    shape: &'p [usize],
}

impl<'a> Search<'_, 'a> {
    /// All that are tried, in the order of preference.
    fn candidates(&self, models: &[Model], parts: usize) -> Vec<Candidate> {
        let several = |order: &Order| order.parts(self.problem.terms()).len() > 1;
        let orders: Vec<(Order, bool)> = self.problem.orders(parts).into_iter().map(|order| (order, several(&order))).collect();
        let mut candidates = Vec::new();
        for (way, of) in self.ways.iter().enumerate() {
            for &(order, several) in &orders {
                let afters = of.operands.orders(several, self.found.result.dtype());
                candidates.extend(models.iter().flat_map(|&model| afters.iter().map(move |&after| Candidate { model, order, way, after })));
            }
        }
        candidates
    }

    /// Those that come nearest on pieces that grow, each elsewhere in the result, as long as several are left and that is less work than all of the result. Where none is right, the first of the nearest.
    fn nearest(&self, mut left: Vec<Candidate>) -> Result<Vec<Candidate>> {
        let (elements, terms) = (self.shape.iter().product::<usize>(), self.problem.terms());
        let mut most = first_piece(terms);
        for number in 0u64.. {
            let piece = Piece::with(self.problem, self.shape, most, spread(number, elements))?;
            let counts: Vec<usize> = self.on(piece.as_ref(), &left)?.iter().map(Vec::len).collect();
            let least = counts.iter().copied().min().unwrap_or(0);
            left = left.into_iter().zip(counts).filter(|(_, count)| *count == least).map(|(candidate, _)| candidate).collect();
            left.truncate(if least > 0 { 1 } else { left.len() });
            let Some(piece) = piece else { break };
            most = most.map(|extent| 2 * extent);
            // Of a convolution a piece has more positions, of a batch of small matrices it stops growing.
            let next = (most[0] * most[1]).max(4 * piece.elements()).saturating_mul(left.len());
            if left.len() < 2 || next > elements || next.saturating_mul(terms) > MORE_PRODUCTS {
                break;
            }
        }
        Ok(left)
    }

    /// Those that give the result's bits at some of these elements, and around them.
    fn right_at(&self, different: &[usize], mut left: Vec<Candidate>) -> Result<Vec<Candidate>> {
        for &element in different.iter().step_by(different.len().div_ceil(TRIED_AT).max(1)) {
            if left.is_empty() {
                break;
            }
            let piece = Piece::with(self.problem, self.shape, AROUND, element)?;
            let differing = self.on(piece.as_ref(), &left)?;
            left = left.into_iter().zip(differing).filter(|(_, differing)| differing.is_empty()).map(|(candidate, _)| candidate).collect();
        }
        Ok(left)
    }

    /// What differs on a piece, or on all of the result.
    fn on(&self, piece: Option<&Piece<'a>>, candidates: &[Candidate]) -> Result<Vec<Vec<usize>>> {
        let Some(piece) = piece else { return self.differing(self.problem, &Piece::whole(self.problem, self.shape), candidates) };
        let [a, b] = piece.operands()?;
        let problem = Problem { operands: [a.tensor()?, b.tensor()?], kind: piece.problem.kind.clone() };
        self.differing(&problem, piece, candidates)
    }

    /// The indices of the elements of a piece that differ from what each of these gives, of the piece's problem. Neighbours that differ in what follows the sum alone share the sums.
    fn differing(&self, problem: &Problem<'_>, piece: &Piece<'_>, candidates: &[Candidate]) -> Result<Vec<Vec<usize>>> {
        let mut differing = Vec::new();
        for of_way in candidates.chunk_by(|one, next| one.way == next.way) {
            let way = &self.ways[of_way[0].way];
            let copy = way.copy(problem)?;
            let problem = &way.problem(problem, copy.as_ref())?;
            for alike in of_way.chunk_by(|one, next| (one.model, one.order) == (next.model, next.order)) {
                let parts = problem.parts_of_sums(alike[0].model, &alike[0].order, &piece.shape)?;
                for candidate in alike {
                    let sums = way.sums(problem, candidate, piece, &parts)?;
                    differing.push(self.found.differing(&sums, piece, &way.operands, candidate.after));
                }
            }
        }
        Ok(differing)
    }
}

/// An element for each number: the first one, then others far from those before them, by multiples of the golden ratio.
fn spread(number: u64, elements: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((u128::from(number.wrapping_mul(GOLDEN)) * elements as u128) >> 64) as usize
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

    /// The sums of a piece to which what follows is applied, of the sums of each part.
    fn sums(&self, problem: &Problem<'_>, candidate: &Candidate, piece: &Piece<'_>, parts: &[Vec<f32>]) -> Result<Vec<f32>> {
        let &Candidate { model, order, after, .. } = candidate;
        let start = || self.operands.start(after, piece);
        let add = |mut sum: Vec<f32>, part: &Vec<f32>, of: &dyn Fn(f32) -> f32| {
            sum.iter_mut().zip(part).for_each(|(sum, &x)| *sum += of(x));
            sum
        };
        Ok(match (after, parts) {
            (After::Started { .. }, _) => problem.sums_from(model, &order, &piece.shape, start())?,
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

    /// The indices of the elements of a piece whose bits are not those of the sums with what follows them, rounded once. NaN is NaN, whatever its bits.
    fn differing(&self, sums: &[f32], piece: &Piece<'_>, operands: &Operands, after: After) -> Vec<usize> {
        let (dtype, layout) = (self.result.dtype(), self.result.layout());
        let differs = |i: usize| {
            let index = piece.index_of(i);
            let value = operands.apply(after, sums[i], index, piece.columns());
            let found = dtype.load_bits(&self.bytes, layout.index(index));
            let expected = dtype.encode(f64::from(value), Rounding::NearestEven, self.overflow);
            let nan = value.is_nan() && dtype.decode(found).is_nan();
            (found != expected && !nan).then_some(index)
        };
        let tasks = sums.len().div_ceil(TASK);
        parallel::map(tasks, |task| (task * TASK..sums.len().min((task + 1) * TASK)).filter_map(differs).collect::<Vec<_>>()).concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;
    use crate::device::{Device, DeviceMem};
    use crate::dtype::Bf16;
    use crate::fill::FillNormalRand;
    use crate::matrix_core::Input;
    use crate::reference::Gemm;

    const SHAPE: [usize; 3] = [96, 160, 256];
    /// The first rows of A are whole numbers, as all of B is: sums of these are the same in each order.
    const WHOLE_ROWS: usize = 80;

    /// A and B.
    fn operands() -> [DeviceMem<Bf16>; 2] {
        let [m, n, k] = SHAPE;
        let made = |elements: usize, seed, of: &dyn Fn(usize, f32) -> f32| {
            let mut x = DeviceMem::<f32>::new(&Device::host(), elements).unwrap();
            x.fill(&FillNormalRand::new(0.0, 1.0).seed(seed)).unwrap();
            let x: Vec<Bf16> = x.to_vec().unwrap().iter().enumerate().map(|(i, &x)| Bf16::from_f32(of(i, x))).collect();
            DeviceMem::from_slice(&Device::host(), &x).unwrap()
        };
        let of_a = |i: usize, x: f32| if i / k < WHOLE_ROWS { (2.0 * x).round() } else { x * 2f32.powi((i % 16) as i32) };
        [made(m * k, 1, &of_a), made(k * n, 2, &|_, x| (2.0 * x).round())]
    }

    /// Sums in an order that is not among those tried are the same as all of these in most rows.
    #[test]
    fn what_is_alike_at_most_elements_is_computed_in_full_once() {
        let [m, n, k] = SHAPE;
        let [a, b] = operands();
        let [x, y] = [&a, &b].map(|t| t.to_vec().unwrap().iter().map(|x| x.to_f32()).collect::<Vec<f32>>());
        let part = |i: usize, from: usize| (from..k).step_by(7).fold(0.0f32, |sum, l| x[i / n * k + l].mul_add(y[l * n + i % n], sum));
        let d: Vec<f32> = (0..m * n).map(|i| (0..7).fold(0.0, |sum, from| sum + part(i, from))).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
        let check = Check::gemm(&a, &b, &d).arch(Arch::Gfx942);
        let (problem, models) = (&check.problem, check.models().unwrap());
        let search = Search { problem, ways: Way::all(problem).unwrap(), found: Found::of(&d, Overflow::Ieee).unwrap(), shape: d.shape() };
        let all = search.candidates(&models, 1);
        let left = search.nearest(all.clone()).unwrap();
        assert!(left.len() == all.len() && left.len() > 20, "{} of {} give the first piece", left.len(), all.len());
        let different = search.differing(problem, &Piece::whole(problem, d.shape()), &left[..1]).unwrap().concat();
        assert!(different.len() > 100 && different[0] >= WHOLE_ROWS * n, "{} differ", different.len());
        assert!(search.right_at(&different, left[1..].to_vec()).unwrap().is_empty());
        let found = check.run().unwrap().exactness.unwrap();
        assert_eq!((found.tried, found.differing), (all.len(), different.len()));
    }

    /// One that is right everywhere is found behind others that are right on all of the first pieces.
    #[test]
    fn what_is_exact_is_found_behind_what_is_nearly() {
        let [m, n, k] = SHAPE;
        let [a, b] = operands();
        let model = Model::new(Arch::Gfx942, Input::Bf16).unwrap();
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let reversed = |t, from_last| Copied::gathered(t, from_last, &(0..k).rev().collect::<Vec<usize>>()).unwrap();
        let (x, y) = (reversed(&a, 1), reversed(&b, 2));
        let mut d = DeviceMem::<f32>::new(&Device::host(), m * n).unwrap();
        Gemm::new(model).run(&x.tensor().unwrap(), &y.tensor().unwrap(), &mut d.tensor_mut(&[m, n]).unwrap()).unwrap();
        let found = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).arch(Arch::Gfx942).run().unwrap().exactness.unwrap();
        assert!(found.is_exact() && found.order.as_deref() == Some("k descending"), "{found:?}");
    }

    #[test]
    fn pieces_are_spread_over_the_result() {
        for elements in [1, 7, 1 << 20, usize::MAX] {
            let indices: Vec<usize> = (0..8).map(|number| spread(number, elements)).collect();
            assert!(indices[0] == 0 && indices.iter().all(|index| *index < elements), "{elements}: {indices:?}");
            let near = |i: usize| indices[..i].iter().any(|index| index.abs_diff(indices[i]) < elements / 16);
            assert!(elements < 16 || (1..8).all(|i| !near(i)), "{elements}: {indices:?}");
        }
    }
}
