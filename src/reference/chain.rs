//! The inner loop of every reference: `C += A·B` for one tile, each output element in its own fixed order.
//!
//! A [`Chain`] says how one product is added to the accumulator. K ascends; different outputs sit in different SIMD lanes,
//! so no sum is ever split and the bits do not depend on the tile, the CPU or the thread. [`naive`] is the definition.

use crate::matrix_core::{self, Model};
use crate::simd::{InLanes, InstructionSet, Lanes, LanesTask, Plain, array, each};

/// An element type of a chain: `f32` or `f64`.
pub(crate) trait Number: InLanes + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// `|self|`.
    fn magnitude(self) -> Self;
    /// The value as f64, exactly.
    fn widened(self) -> f64;
}

impl Number for f32 {
    fn magnitude(self) -> f32 {
        self.abs()
    }
    fn widened(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    fn magnitude(self) -> f64 {
        self.abs()
    }
    fn widened(self) -> f64 {
        self
    }
}

/// A tile of the operands: `m × k` times `k × n`, row-major with leading dimensions.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub lda: usize,
    pub ldb: usize,
    pub ldc: usize,
}

/// A rule of accumulation that works on tiles.
pub(crate) trait Chain: Copy + Sync {
    /// The type of the widened inputs and of the accumulator.
    type Element: Number;
    /// `C += A·B`, K ascending. When K is cut into several calls, all but the last have a multiple of 32, the largest group.
    fn tile(self, shape: Shape, a: &[Self::Element], b: &[Self::Element], c: &mut [Self::Element]);
}

/// How one product is added to the accumulator.
pub(crate) trait Step: Copy + Sync {
    type Element: Number;
    /// Whether [`fourth`](Step::fourth) acts.
    const FOURTH: bool = false;
    /// Whether every four products (and the rest at the end) are summed separately, from zero, and then [`join`](Step::join).
    const GROUPED: bool = false;
    /// One product.
    fn step<L: Lanes<Number = Self::Element>>(acc: L, a: L, b: L) -> L;
    /// After every fourth product.
    #[inline(always)]
    fn fourth<L: Lanes<Number = Self::Element>>(acc: L) -> L {
        acc
    }
    /// Adds the sum of a group to the accumulator.
    #[inline(always)]
    fn join<L: Lanes<Number = Self::Element>>(_acc: L, group: L) -> L {
        group
    }
}

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident($element:ty), |$acc:ident, $a:ident, $b:ident| $step:expr $(, fourth |$f:ident| $fourth:expr)? $(, join |$j:ident, $g:ident| $join:expr)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl Step for $name {
            type Element = $element;
            #[inline(always)]
            fn step<L: Lanes<Number = $element>>($acc: L, $a: L, $b: L) -> L {
                $step
            }
            $(
                const FOURTH: bool = true;
                #[inline(always)]
                fn fourth<L: Lanes<Number = $element>>($f: L) -> L {
                    $fourth
                }
            )?
            $(
                const GROUPED: bool = true;
                #[inline(always)]
                fn join<L: Lanes<Number = $element>>($j: L, $g: L) -> L {
                    $join
                }
            )?
        }
    )*};
}

steps! {
    /// f64, one fused operation per product (for inputs of at most 26 bits the product is exact anyway).
    F64(f64), |acc, a, b| L::fused(a, b, acc);
    /// f64, rounded to f32 after every product.
    Rounded(f64), |acc, a, b| L::to_f32(L::fused(a, b, acc));
    /// f64, rounded to f32 after every fourth product.
    Four(f64), |acc, a, b| L::fused(a, b, acc), fourth |acc| L::to_f32(acc);
    /// Every four products summed in f64, rounded to f32 and added in f32. (Both roundings of a sum of two f32 numbers,
    /// to f64 and to f32, give the f32 sum.)
    FourApart(f64), |acc, a, b| L::fused(a, b, acc), join |acc, group| L::to_f32(L::add(acc, L::to_f32(group)));
    /// f32, product and sum rounded separately.
    F32(f32), |acc, a, b| L::add(acc, L::mul(a, b));
    /// f32, one fused operation per product.
    F32Fma(f32), |acc, a, b| L::fused(a, b, acc);
}

/// The vectorised chain of a [`Step`].
#[derive(Clone, Copy)]
pub(crate) struct Vectorised<S: Step>(pub S);

impl<S: Step> Chain for Vectorised<S> {
    type Element = S::Element;

    fn tile(self, shape: Shape, a: &[S::Element], b: &[S::Element], c: &mut [S::Element]) {
        if shape.k > 0 {
            InstructionSet::best().run_lanes(Tile::<S> { shape, a, b, c });
        }
    }
}

/// Covers a tile with blocks of rows and vectors, then single vectors, then single elements.
struct Tile<'a, S: Step> {
    shape: Shape,
    a: &'a [S::Element],
    b: &'a [S::Element],
    c: &'a mut [S::Element],
}

impl<S: Step> LanesTask<S::Element> for Tile<'_, S> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes<Number = S::Element>>(mut self, set: L::Set) {
        if L::REGISTERS == 32 {
            // 24 accumulators, 3 vectors of B and one of A: 28 of 32 registers.
            self.sweep::<L, 8, 3>(set);
        } else {
            // 12 accumulators, 3 vectors of B and one of A: all 16 registers.
            self.sweep::<L, 4, 3>(set);
        }
    }
}

impl<S: Step> Tile<'_, S> {
    #[inline(always)]
    fn sweep<L: Lanes<Number = S::Element>, const MR: usize, const NV: usize>(&mut self, set: L::Set) {
        let Shape { m, n, .. } = self.shape;
        let mut j = 0;
        while j < n {
            let left = n - j;
            let width = if left >= NV * L::N {
                NV * L::N
            } else if left >= L::N {
                L::N
            } else {
                1
            };
            let mut i = 0;
            while i < m {
                let rows = if m - i >= MR { MR } else { 1 };
                match (rows == MR, width == NV * L::N, width == L::N) {
                    (true, true, _) => self.block::<L, MR, NV>(set, i, j),
                    (true, _, true) => self.block::<L, MR, 1>(set, i, j),
                    (true, ..) => self.block::<One<S>, MR, 1>(Plain, i, j),
                    (_, true, _) => self.block::<L, 1, NV>(set, i, j),
                    (_, _, true) => self.block::<L, 1, 1>(set, i, j),
                    _ => self.block::<One<S>, 1, 1>(Plain, i, j),
                }
                i += rows;
            }
            j += width;
        }
    }

    /// `MR` rows and `NV` vectors of C from row `i` and column `j`, held in registers over all of K.
    #[inline(always)]
    fn block<L: Lanes<Number = S::Element>, const MR: usize, const NV: usize>(&mut self, set: L::Set, i: usize, j: usize) {
        let Shape { k, lda, ldb, ldc, .. } = self.shape;
        let zeros = [[L::splat(set, S::Element::default()); NV]; MR];
        let a: [&[S::Element]; MR] = array(|row| &self.a[(i + row) * lda..][..k]);
        let mut acc = zeros;
        for (row, acc) in acc.iter_mut().enumerate() {
            let c = &self.c[(i + row) * ldc + j..];
            *acc = array(|v| L::load(set, &c[v * L::N..]));
        }
        let mut groups = zeros;
        for p in 0..k {
            let b = &self.b[p * ldb + j..][..NV * L::N];
            let b: [L; NV] = array(|v| L::load(set, &b[v * L::N..]));
            let sums = if S::GROUPED { &mut groups } else { &mut acc };
            for row in 0..MR {
                let a = L::splat(set, a[row][p]);
                each(&mut sums[row], &b, |sum, b| *sum = S::step(*sum, a, *b));
            }
            if S::FOURTH && p % 4 == 3 {
                for row in &mut acc {
                    *row = array(|v| S::fourth(row[v]));
                }
            }
            if S::GROUPED && (p % 4 == 3 || p + 1 == k) {
                for row in 0..MR {
                    each(&mut acc[row], &groups[row], |sum, group| *sum = S::join(*sum, *group));
                }
                groups = zeros;
            }
        }
        for (row, acc) in acc.into_iter().enumerate() {
            let c = &mut self.c[(i + row) * ldc + j..];
            for (v, x) in acc.into_iter().enumerate() {
                L::store(x, &mut c[v * L::N..]);
            }
        }
    }
}

/// The vectors of one element.
type One<S> = <<S as Step>::Element as InLanes>::One;

/// A matrix core: the rule of an architecture, whose accumulators are numbers of f32.
#[derive(Clone, Copy)]
pub(crate) struct MatrixCore(pub Model);

impl Chain for MatrixCore {
    type Element = f32;

    fn tile(self, shape: Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
        let Shape { m, n, k, lda, ldb, ldc } = shape;
        // From +0, which no instruction makes anything else of.
        matrix_core::gemm_tile_onward(self.0, m, n, k, a, lda, b, ldb, c, ldc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose sums round, cancel and underflow in f32.
    fn values<T: Number>(len: usize, seed: u64, from: impl Fn(f32) -> T) -> Vec<T> {
        let value = |i: usize| {
            let h = (i as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let scale = [1.0, 1e-3, 1e4, 1e-20][(h >> 60 & 3) as usize];
            ((h >> 40) as f32 / 8_388_608.0 - 1.0) * scale
        };
        (0..len).map(|i| from(value(i))).collect()
    }

    /// Single elements against every instruction set that this CPU has, over tiles with all kinds of edges.
    fn agree<S: Step>(_: S, name: &str, from: impl Fn(f32) -> S::Element + Copy) {
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (8, 48, 9), (9, 49, 16), (13, 107, 31), (4, 24, 0)] {
            let (lda, ldb, ldc) = (k + 1, n + 3, n + 2);
            let shape = Shape { m, n, k, lda, ldb, ldc };
            let (a, b) = (values(m * lda, 1, from), values((k + 1) * ldb, 2, from));
            let start = values(m * ldc, 3, from);
            let bits = |v: &[S::Element]| v.iter().map(|x| x.widened().to_bits()).collect::<Vec<_>>();
            let mut expected = start.clone();
            Tile::<S> { shape, a: &a, b: &b, c: &mut expected }.sweep::<One<S>, 4, 3>(Plain);
            for set in InstructionSet::all() {
                let mut c = start.clone();
                set.run_lanes(Tile::<S> { shape, a: &a, b: &b, c: &mut c });
                assert_eq!(bits(&c), bits(&expected), "{name} {m}x{n}x{k} {set:?}");
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        agree(F64, "f64", f64::from);
        agree(Rounded, "f64-rounded", f64::from);
        agree(Four, "every4", f64::from);
        agree(FourApart, "groups4", f64::from);
        agree(F32, "f32", |v| v);
        agree(F32Fma, "f32-fma", |v| v);
    }
}
