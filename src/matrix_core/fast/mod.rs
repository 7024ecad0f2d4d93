//! The vectorised GEMM.
//!
//! One blocked loop serves all models: a panel of B and a few rows of A are copied to the stack (prepared, padded with
//! zeros, widened), so that the inner loop sees nothing but full groups. A [`Lane`] is the rule for one output element; the
//! loop over the columns of a panel becomes vector code where the rule has no branches. It is compiled for AVX-512, for AVX2
//! with FMA and for what every machine of the target has; all give the same bits, those of [`naive`](super::naive).

mod exact;
mod fused;
mod rounded;

use super::{Input, Model, Rule};

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
}

/// The machine code to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Level {
    /// What every machine of the target has.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, DQ, VL, BW.
    Avx512,
}

impl Level {
    /// The levels that this machine has, best first.
    pub(super) fn available() -> impl Iterator<Item = Level> {
        #[cfg(target_arch = "x86_64")]
        let has = {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            (avx2 && has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw"), avx2)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let has = (false, false);
        [(Level::Avx512, has.0), (Level::Avx2, has.1), (Level::Baseline, true)].into_iter().filter(|l| l.1).map(|l| l.0)
    }
}

/// Runs `p`, whose k is not zero, at `level` or, where this machine lacks it, at the baseline.
pub(super) fn gemm(model: Model, p: &mut Problem, level: Level) {
    let f16 = model.input() == Input::F16;
    match model.rule() {
        Rule::Fma => dispatch(&rounded::Chain, model, p, level),
        Rule::Tree { group: 4 } => dispatch(&rounded::Tree::<4> { f16 }, model, p, level),
        Rule::Tree { .. } => dispatch(&rounded::Tree::<2> { f16 }, model, p, level),
        Rule::Exact { group: 4 } => dispatch(&exact::Exact::<4>, model, p, level),
        Rule::Exact { .. } => dispatch(&exact::Exact::<2>, model, p, level),
        Rule::Fused { group: 4, keep } => dispatch(&fused::Fused::<4>::new(model, keep), model, p, level),
        Rule::Fused { keep, .. } => dispatch(&fused::Fused::<8>::new(model, keep), model, p, level),
        Rule::FusedHalves { keep } => dispatch(&fused::Halves::new(model, keep), model, p, level),
    }
}

/// The rule for one output element.
trait Lane {
    /// Products of a group.
    const GROUP: usize;
    /// What inputs are computed with.
    type Wide: Copy + Default;
    /// Widens a prepared input.
    fn widen(x: f32) -> Self::Wide;
    /// Whether [`Lane::tame`] depends on the data.
    fn watches(&self) -> bool {
        false
    }
    /// Whether a pass over inputs of these spans, from accumulators `acc`, may take the short cut of this rule.
    fn tame(&self, _a: Span, _b: Span, _acc: &[[f32; COLUMNS]]) -> bool {
        true
    }
    /// One group of products `a[k] * b(k)`. `FMA`: whether the machine has fused multiply-adds, on which the result does not
    /// depend. `TAME`: what [`Lane::tame`] said.
    fn step<const FMA: bool, const TAME: bool>(&self, c: f32, a: &[Self::Wide], b: impl Fn(usize) -> Self::Wide) -> f32;
    /// [`Lane::step`] for a row of output elements. No input of the pass gives a larger product than `most`, where the rule
    /// [watches](Lane::watches).
    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[Self::Wide], b: &[[Self::Wide; COLUMNS]], _most: f64) {
        for (j, c) in c.iter_mut().enumerate() {
            *c = self.step::<FMA, TAME>(*c, a, |k| b[k][j]);
        }
    }
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

fn dispatch<L: Lane>(lane: &L, model: Model, p: &mut Problem, level: Level) {
    #[cfg(target_arch = "x86_64")]
    if Level::available().any(|l| l == level) {
        match level {
            // SAFETY: the features that the function is compiled for were just found on this machine.
            Level::Avx512 => return unsafe { avx512(lane, model, p) },
            // SAFETY: the features that the function is compiled for were just found on this machine.
            Level::Avx2 => return unsafe { avx2(lane, model, p) },
            Level::Baseline => {}
        }
    }
    blocked::<L, { cfg!(target_arch = "aarch64") }>(lane, model, p);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
fn avx512<L: Lane>(lane: &L, model: Model, p: &mut Problem) {
    blocked::<L, true>(lane, model, p);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<L: Lane>(lane: &L, model: Model, p: &mut Problem) {
    blocked::<L, true>(lane, model, p);
}

#[inline(always)]
fn blocked<L: Lane, const FMA: bool>(lane: &L, model: Model, p: &mut Problem) {
    let nothing = Span { least: 0.0, most: 0.0 };
    let mut panel = [[L::Wide::default(); COLUMNS]; DEPTH];
    let mut rows = [[L::Wide::default(); DEPTH]; ROWS];
    for k0 in (0..p.k).step_by(DEPTH) {
        let depth = DEPTH.min(p.k - k0);
        let padded = depth.next_multiple_of(L::GROUP);
        for j0 in (0..p.n).step_by(COLUMNS) {
            let columns = COLUMNS.min(p.n - j0);
            let from_b = |k: usize| if k < depth { &p.b[(k0 + k) * p.ldb + j0..][..columns] } else { &[] };
            for (k, row) in panel[..padded].iter_mut().enumerate() {
                pack::<L>(model, from_b(k), row);
            }
            let span_b = if lane.watches() { Span::of((0..depth).map(from_b)) } else { nothing };
            for i0 in (0..p.m).step_by(ROWS) {
                let height = ROWS.min(p.m - i0);
                let mut acc = [[0.0f32; COLUMNS]; ROWS];
                for r in 0..height {
                    pack::<L>(model, &p.a[(i0 + r) * p.lda + k0..][..depth], &mut rows[r][..padded]);
                    acc[r][..columns].copy_from_slice(&p.c[(i0 + r) * p.ldc + j0..][..columns]);
                    if k0 == 0 {
                        acc[r] = acc[r].map(|c| model.accept_c(c));
                    }
                }
                let from_a = |r: usize| &p.a[(i0 + r) * p.lda + k0..][..depth];
                let span_a = if lane.watches() { Span::of((0..height).map(from_a)) } else { nothing };
                let most = f64::from(span_a.most) * f64::from(span_b.most);
                if lane.tame(span_a, span_b, &acc) {
                    pass::<L, FMA, true>(lane, &mut acc, &rows, &panel[..padded], most);
                } else {
                    pass::<L, FMA, false>(lane, &mut acc, &rows, &panel[..padded], most);
                }
                for r in 0..height {
                    let c = &mut p.c[(i0 + r) * p.ldc + j0..][..columns];
                    for (c, acc) in c.iter_mut().zip(acc[r]) {
                        *c = if acc.is_nan() { f32::NAN } else { acc };
                    }
                }
            }
        }
    }
}

/// All groups of a panel.
#[inline(always)]
fn pass<L: Lane, const FMA: bool, const TAME: bool>(
    lane: &L,
    acc: &mut [[f32; COLUMNS]; ROWS],
    rows: &[[L::Wide; DEPTH]; ROWS],
    panel: &[[L::Wide; COLUMNS]],
    most: f64,
) {
    for (g, b) in panel.chunks_exact(L::GROUP).enumerate() {
        for (acc, row) in acc.iter_mut().zip(rows) {
            let a = &row[g * L::GROUP..][..L::GROUP];
            lane.row::<FMA, TAME>(acc, a, b, most);
        }
    }
}

/// Prepares and widens `from` into `to`, the rest of which becomes zero.
#[inline(always)]
fn pack<L: Lane>(model: Model, from: &[f32], to: &mut [L::Wide]) {
    let (head, tail) = to.split_at_mut(from.len());
    for (to, x) in head.iter_mut().zip(from) {
        *to = L::widen(model.prepare_one(*x));
    }
    tail.fill(L::Wide::default());
}

#[cfg(test)]
mod tests;
