//! Mistakes with scales as the cause of a failure: for some of the elements beyond their bounds, what a kernel with each mistake would give, from their own products.
//!
//! A mistake explains an element as in the other [hypotheses](super), against the exact result of the operands with their scales.
//! The first one that explains 95 % of the sample is the cause; one that too many of the first elements are against is not computed for the others.

use super::sample::{LEAST, SAMPLE, Sample};
use super::{CheckCause, of_scales};
use crate::check::problem::Product;
use crate::check::scales::Blocks;
use crate::check::{Check, Checked};
use crate::error::Result;
use crate::parallel;
use crate::verify::bound::some_mismatches;

/// Elements that are looked at first.
const FIRST: usize = 32;

/// What is taken in the place of an operand's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Right,
    /// 1.
    One,
    /// Its square.
    Square,
    /// Its inverse.
    Inverse,
    /// That of the first block of k.
    First,
    /// That of the next block of k; of the last block its own.
    Next,
    /// That of the block before; of the first block its own.
    Before,
    /// That of the next block of k, and of the block before; around the end of k.
    NextAround,
    BeforeAround,
    /// What lies behind it and before it in memory, so that an end of k has the scale of other rows or columns.
    NextInMemory,
    BeforeInMemory,
    /// That of the next block of rows (of B of columns), and of the block before; around the end.
    NextBeside,
    BeforeBeside,
    /// That of the first block of rows (of B of columns).
    FirstBeside,
    /// What lies there if rows and columns of the scales are exchanged in memory.
    Transposed,
    /// What lies there if the scales were stored with rows and columns exchanged, and are read as they should have been.
    StoredTransposed,
    /// What lies there of the other operand's scales.
    Other,
}

/// The mistakes of one operand, and the words before and after its name.
const MISTAKES: [(Taken, &str, &str); 16] = [
    (Taken::One, "the scale of ", " is missing"),
    (Taken::Square, "the scale of ", " is applied twice"),
    (Taken::Inverse, "", " is divided by its scale"),
    (Taken::First, "all of k is scaled by the first scale along k of ", ""),
    (Taken::Next, "each block of k has the scale of the next one, of ", ""),
    (Taken::Before, "each block of k has the scale of the one before, of ", ""),
    (Taken::NextAround, "each block of k has the scale of the next one, the last that of the first, of ", ""),
    (Taken::BeforeAround, "each block of k has the scale of the one before, the first that of the last, of ", ""),
    (Taken::NextInMemory, "each block has the scale that is the next in memory, of ", ""),
    (Taken::BeforeInMemory, "each block has the scale that is the one before in memory, of ", ""),
    (Taken::NextBeside, "each block has the scale of the next one beside k, of ", ""),
    (Taken::BeforeBeside, "each block has the scale of the one before beside k, of ", ""),
    (Taken::FirstBeside, "each block has the scale of the first one beside k, of ", ""),
    (Taken::Transposed, "rows and columns are exchanged of the scales of ", ""),
    (Taken::StoredTransposed, "rows and columns are exchanged where the scales are stored, of ", ""),
    (Taken::Other, "", " has the scales of the other operand"),
];

/// The scales of an operand.
struct Scales {
    blocks: Blocks,
    values: Vec<f64>,
}

impl Scales {
    /// The factor of the element of a logical index.
    fn factor(&self, element: usize, k_axis: usize, taken: Taken, other: Option<&Scales>) -> f64 {
        let (at, all, last) = (self.blocks.index(element), self.values.len(), self.blocks.along(k_axis) - 1);
        let along = |axis: usize, block: &dyn Fn(usize) -> usize| {
            self.values[self.blocks.index_by(element, |other, own| if other == axis { block(own) } else { own })]
        };
        let along_k = |block: &dyn Fn(usize) -> usize| along(k_axis, block);
        // Around the end of k, or of the other axis of a matrix.
        let around = |axis: usize, steps: usize| along(axis, &|own| (own + steps) % self.blocks.along(axis));
        let (beside, rows_by_columns) = (3 - k_axis, [self.blocks.along(2), self.blocks.along(1)]);
        match taken {
            Taken::Right => self.values[at],
            Taken::One => 1.0,
            Taken::Square => self.values[at] * self.values[at],
            Taken::Inverse => 1.0 / self.values[at],
            Taken::First => along_k(&|_| 0),
            Taken::Next => along_k(&|own| (own + 1).min(last)),
            Taken::Before => along_k(&|own: usize| own.saturating_sub(1)),
            Taken::NextAround => around(k_axis, 1),
            Taken::BeforeAround => around(k_axis, last),
            Taken::NextInMemory => self.values[(at + 1) % all],
            Taken::BeforeInMemory => self.values[(at + all - 1) % all],
            Taken::NextBeside => around(beside, 1),
            Taken::BeforeBeside => around(beside, self.blocks.along(beside) - 1),
            Taken::FirstBeside => along(beside, &|_| 0),
            Taken::Transposed => self.exchanged(at, rows_by_columns),
            Taken::StoredTransposed => self.exchanged(at, [rows_by_columns[1], rows_by_columns[0]]),
            Taken::Other => other.and_then(|other| other.values.get(at)).copied().unwrap_or(f64::NAN),
        }
    }

    /// The scale at a place of its matrix, of so many rows and columns, in the order of columns.
    fn exchanged(&self, at: usize, [rows, columns]: [usize; 2]) -> f64 {
        let (matrix, at) = (at / (rows * columns), at % (rows * columns));
        self.values[matrix * rows * columns + at % columns * rows + at / columns]
    }
}

/// What a failure of scaled operands is held against.
struct Scaled<'a> {
    sample: Sample<'a>,
    product: &'a Product<'a>,
    shape: &'a [usize],
    scales: [Option<Scales>; 2],
}

/// The mistake with scales that explains a failure, of a kernel that takes subnormal operands as zeros or not; `None` if none does.
pub(in crate::check) fn find(check: &Check<'_>, checked: &Checked, flush: bool) -> Result<Option<CheckCause>> {
    let Some(s) = Scaled::of(check, checked, flush)? else { return Ok(None) };
    let all = s.sample.elements.len();
    for (taken, words) in mistakes([s.scales[0].is_some(), s.scales[1].is_some()]) {
        let explained =
            |from: usize, to: usize| parallel::map(to - from, |i| s.explains(from + i, taken)).into_iter().filter(|yes| *yes).count();
        let first = all.min(FIRST);
        let in_first = explained(0, first);
        if 20 * (first - in_first) > all {
            continue;
        }
        let explained = in_first + explained(first, all);
        if 20 * explained >= 19 * all {
            return Ok(Some(of_scales(&words, explained, all)));
        }
    }
    Ok(None)
}

/// What is taken of either operand in each mistake, of operands that have scales, and its words.
fn mistakes(scaled: [bool; 2]) -> Vec<([Taken; 2], String)> {
    let mut mistakes = Vec::new();
    for (taken, before, after) in MISTAKES {
        let words = |name: &str| format!("{before}{name}{after}");
        if scaled[0] {
            mistakes.push(([taken, Taken::Right], words("A")));
        }
        if scaled[1] {
            mistakes.push(([Taken::Right, taken], words("B")));
        }
        if scaled == [true; 2] && matches!(taken, Taken::One | Taken::Inverse) {
            let words = if taken == Taken::One { "the scales of A and B are missing" } else { "A and B are divided by their scales" };
            mistakes.push(([taken; 2], words.to_owned()));
        }
    }
    mistakes
}

impl<'a> Scaled<'a> {
    /// Some of the elements beyond their bounds; `None` where there are too few.
    fn of(check: &'a Check<'_>, checked: &Checked, flush: bool) -> Result<Option<Scaled<'a>>> {
        let (problem, shape) = (&check.problem, check.result.shape());
        let Some(product) = problem.product() else { return Ok(None) };
        let against = [&check.result, &checked.exact().tensor(shape)?, &checked.magnitudes.tensor(shape)?];
        let report = &checked.report.report;
        let found = some_mismatches(against, (&report.bound, check.overflow), SAMPLE)?;
        let share = report.mismatches as f64 / report.elements as f64;
        let sample = Sample::of(problem, shape, flush, (report.bound, check.overflow), (&found, LEAST), share)?;
        let Some(mut sample) = sample else { return Ok(None) };
        // Operands are read as they are, without their scales: what elements should be was computed of copies that are multiplied by them.
        let exact = checked.exact().to_vec()?;
        sample.elements.iter_mut().for_each(|e| e.reference = exact[e.index]);
        let mut scales = [None, None];
        for (which, scales) in scales.iter_mut().enumerate() {
            let values = product.scales[which].values()?;
            *scales = product.blocks(which, problem.operands[which].shape())?.map(|blocks| Scales { blocks, values });
        }
        Ok(Some(Scaled { sample, product, shape, scales }))
    }

    /// Whether a kernel that takes these for scales gives the element of a number, nearly.
    fn explains(&self, number: usize, taken: [Taken; 2]) -> bool {
        let e = &self.sample.elements[number];
        let factors = [0, 1].map(|which| self.factors(which, e.index, taken[which]));
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for (k, (a, b)) in e.products.a.iter().zip(&e.products.b).enumerate() {
            let product = a * factors[0][k] * b * factors[1][k];
            sum += product;
            magnitude += product.abs();
        }
        self.sample.explains(e, (self.sample.follows(e, sum), magnitude), false)
    }

    /// The factors of an operand along k, for an element of the result.
    fn factors(&self, which: usize, index: usize, taken: Taken) -> Vec<f64> {
        let k = self.sample.problem.terms();
        let (Some(scales), [.., m, n]) = (&self.scales[which], self.shape) else { return vec![1.0; k] };
        let (number, k_axis) = ([index / n % m, index % n][which], self.product.k_axis(which));
        let operand = &self.sample.problem.operands[which];
        let columns = operand.shape().last().copied().unwrap_or(1);
        // A matrix without a batch serves all.
        let matrix = index / (m * n) * [m, n][which] * k % operand.elements().max(1);
        let at = |x: usize| matrix + if k_axis == 1 { number * columns + x } else { x * columns + number };
        (0..k).map(|x| scales.factor(at(x), k_axis, taken, self.scales[1 - which].as_ref())).collect()
    }
}
