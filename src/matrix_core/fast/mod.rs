//! The vectorised GEMM.
//!
//! One blocked loop serves all models: a panel of B and a few rows of A are copied to the stack (prepared, padded with
//! zeros, widened), so that the inner loop has only full groups. A [`Lane`] is the rule for a row of output elements; the
//! loop over the columns of a panel becomes vector code if the rule has no branches. It is compiled for every instruction set; all give the
//! same bits, those of [`naive`](super::naive).

mod exact;
mod fused;
mod rounded;
mod scaled;
mod truncated;

use super::{Input, Model, Rule};
use crate::simd::{InstructionSet, Task, array, each};

/// Columns of a panel of B.
const COLUMNS: usize = 32;
/// Rows of A that share a pass over a panel.
const ROWS: usize = 4;
/// Products of one pass: a multiple of every group.
const DEPTH: usize = 128;

/// A GEMM: see [`gemm_tile`](super::gemm_tile).
pub(super) struct Problem<'a> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: &'a [f32],
    pub lda: usize,
    pub b: &'a [f32],
    pub ldb: usize,
    pub c: &'a mut [f32],
    pub ldc: usize,
    /// Whether C is what the first instruction of a chain is given.
    pub first: bool,
}

/// Runs `p`, whose k is not zero.
pub(super) fn gemm(model: Model, p: &mut Problem, set: InstructionSet) {
    let f16 = model.input() == Input::F16;
    match model.rule() {
        Rule::Fma => dispatch(&rounded::Chain, model, p, set),
        Rule::Tree { group: 4 } => dispatch(&rounded::Tree::<4> { f16 }, model, p, set),
        Rule::Tree { .. } => dispatch(&rounded::Tree::<2> { f16 }, model, p, set),
        Rule::Exact { group: 4 } => dispatch(&exact::Exact::<4>, model, p, set),
        Rule::Exact { .. } => dispatch(&exact::Exact::<2>, model, p, set),
        Rule::Fused { group: 4, keep } => dispatch(&fused::Fused::<4, 1>::new(model, keep), model, p, set),
        Rule::Fused { keep, .. } => dispatch(&fused::Fused::<8, 1>::new(model, keep), model, p, set),
        Rule::FusedHalves { keep } => dispatch(&fused::Fused::<8, 2>::new(model, keep), model, p, set),
        Rule::Truncated { group, bits, zero, accumulator } => match group {
            4 => dispatch(&truncated::Truncated::<4>::new(model, bits, zero, accumulator), model, p, set),
            8 => dispatch(&truncated::Truncated::<8>::new(model, bits, zero, accumulator), model, p, set),
            16 => dispatch(&truncated::Truncated::<16>::new(model, bits, zero, accumulator), model, p, set),
            _ => dispatch(&truncated::Truncated::<32>::new(model, bits, zero, accumulator), model, p, set),
        },
        Rule::Emulated { accumulator } => dispatch(&truncated::Emulated::new(accumulator), model, p, set),
    }
}

/// The rule for a row of output elements.
trait Lane {
    /// Products of a group.
    const GROUP: usize;
    /// Whether a row takes long. Short ones are faster if their number is a constant, even if some of them are not needed.
    const LONG: bool = false;
    /// An input of A as the rule computes with it.
    type A: Copy;
    /// A row of a panel of B, likewise.
    type B: Copy;
    fn a(&self, x: f32) -> Self::A;
    fn b(&self, x: &[f32; COLUMNS]) -> Self::B;
    /// Whether [`Lane::tame`] depends on the data.
    fn watches(&self) -> bool {
        false
    }
    /// Whether a pass over inputs of these spans, from accumulators `acc`, may take the short form of this rule.
    fn tame(&self, _a: Span, _b: Span, _acc: &[[f32; COLUMNS]]) -> bool {
        true
    }
    /// Adds one group of products `a[k] * b[k]` to `c`. `FMA`: whether the machine has fused multiply-adds, on which the result does not
    /// depend. `TAME`: what [`Lane::tame`] said. No input of the pass gives a larger product than `most`, where the rule
    /// [watches](Lane::watches).
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[Self::A], b: &[Self::B], most: f64);
}

/// The smallest non-zero and the largest magnitude of some inputs.
#[derive(Clone, Copy)]
struct Span {
    least: f32,
    most: f32,
}

impl Span {
    #[inline(always)]
    fn of<'a>(rows: impl Iterator<Item = &'a [f32]>) -> Span {
        // Magnitudes order as their bits do. One less than zero is the largest number, so that zeros never are the least.
        let (mut least, mut most) = (u32::MAX, 0);
        for row in rows {
            for x in row {
                let bits = x.to_bits() & 0x7fff_ffff;
                least = least.min(bits.wrapping_sub(1));
                most = most.max(bits);
            }
        }
        Span { least: f32::from_bits(least.min(f32::INFINITY.to_bits() - 1) + 1), most: f32::from_bits(most) }
    }
}

fn dispatch<L: Lane>(lane: &L, model: Model, p: &mut Problem, set: InstructionSet) {
    if set.has_fma() {
        set.run(Blocked::<L, true> { lane, model, p });
    } else {
        set.run(Blocked::<L, false> { lane, model, p });
    }
}

/// The whole GEMM. `FMA` as for [`Lane::row`].
struct Blocked<'a, 'p, L, const FMA: bool> {
    lane: &'a L,
    model: Model,
    p: &'a mut Problem<'p>,
}

impl<L: Lane, const FMA: bool> Task for Blocked<'_, '_, L, FMA> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        blocked::<L, FMA>(self.lane, self.model, self.p);
    }
}

#[inline(always)]
fn blocked<L: Lane, const FMA: bool>(lane: &L, model: Model, p: &mut Problem) {
    let nothing = Span { least: 0.0, most: 0.0 };
    let mut panel = [lane.b(&[0.0; COLUMNS]); DEPTH];
    let mut rows = [[lane.a(0.0); DEPTH]; ROWS];
    for k0 in (0..p.k).step_by(DEPTH) {
        let depth = DEPTH.min(p.k - k0);
        let padded = depth.next_multiple_of(L::GROUP);
        for j0 in (0..p.n).step_by(COLUMNS) {
            let columns = COLUMNS.min(p.n - j0);
            let from_b = |k: usize| if k < depth { &p.b[(k0 + k) * p.ldb + j0..][..columns] } else { &[] };
            for (k, row) in panel[..padded].iter_mut().enumerate() {
                let mut prepared = [0.0; COLUMNS];
                each(&mut prepared, from_b(k), |to, x| *to = model.prepare_one(*x));
                *row = lane.b(&prepared);
            }
            let span_b = if lane.watches() { Span::of((0..depth).map(from_b)) } else { nothing };
            for i0 in (0..p.m).step_by(ROWS) {
                let height = ROWS.min(p.m - i0);
                let mut acc = [[0.0f32; COLUMNS]; ROWS];
                for r in 0..height {
                    let (head, tail) = rows[r][..padded].split_at_mut(depth);
                    each(head, &p.a[(i0 + r) * p.lda + k0..][..depth], |to, x| *to = lane.a(model.prepare_one(*x)));
                    tail.fill(lane.a(0.0));
                    acc[r][..columns].copy_from_slice(&p.c[(i0 + r) * p.ldc + j0..][..columns]);
                    acc[r] = accepted(model, acc[r], p.first && k0 == 0);
                }
                let from_a = |r: usize| &p.a[(i0 + r) * p.lda + k0..][..depth];
                let span_a = if lane.watches() { Span::of((0..height).map(from_a)) } else { nothing };
                let most = f64::from(span_a.most) * f64::from(span_b.most);
                if lane.tame(span_a, span_b, &acc) {
                    pass::<L, FMA, true>(lane, &mut acc, &rows, height, &panel[..padded], most);
                } else {
                    pass::<L, FMA, false>(lane, &mut acc, &rows, height, &panel[..padded], most);
                }
                for r in 0..height {
                    let c = &mut p.c[(i0 + r) * p.ldc + j0..][..columns];
                    each(c, &acc[r], |c, acc| *c = model.with_its_nan(*acc));
                }
            }
        }
    }
}

/// A row of C as the first instruction of a chain takes it; others take what that gave.
#[inline(always)]
fn accepted(model: Model, row: [f32; COLUMNS], first: bool) -> [f32; COLUMNS] {
    if first { array(|j| model.accept_c(row[j])) } else { row }
}

/// All groups of a panel, for `height` rows at least.
#[inline(always)]
fn pass<L: Lane, const FMA: bool, const TAME: bool>(
    lane: &L,
    acc: &mut [[f32; COLUMNS]; ROWS],
    rows: &[[L::A; DEPTH]; ROWS],
    height: usize,
    panel: &[L::B],
    most: f64,
) {
    for (g, b) in panel.chunks_exact(L::GROUP).enumerate() {
        for r in 0..if L::LONG { height } else { ROWS } {
            lane.row::<FMA, TAME>(&mut acc[r], &rows[r][g * L::GROUP..][..L::GROUP], b, most);
        }
    }
}

#[cfg(test)]
mod tests;
