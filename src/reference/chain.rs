//! The inner loop of every reference: `C += A·B` for one tile, each output element in its own fixed order.
//!
//! A [`Chain`] says how one product is added to the accumulator. K ascends; different outputs sit in different SIMD lanes,
//! so no sum is ever split and the bits do not depend on the tile, the CPU or the thread. [`naive`] is the definition.

use super::lanes::{Lanes, Number};
use crate::matrix_core::{self, Model};
use crate::simd::each;

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
    ///
    /// # Safety
    /// As for [`Lanes`].
    unsafe fn step<V: Lanes<Element = Self::Element>>(acc: V, a: V, b: V) -> V;
    /// After every fourth product.
    ///
    /// # Safety
    /// As for [`Lanes`].
    #[inline(always)]
    unsafe fn fourth<V: Lanes<Element = Self::Element>>(acc: V) -> V {
        acc
    }
    /// Adds the sum of a group to the accumulator.
    ///
    /// # Safety
    /// As for [`Lanes`].
    #[inline(always)]
    unsafe fn join<V: Lanes<Element = Self::Element>>(_acc: V, group: V) -> V {
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
            unsafe fn step<V: Lanes<Element = $element>>($acc: V, $a: V, $b: V) -> V {
                // SAFETY: the caller's promise is that of Lanes.
                unsafe { $step }
            }
            $(
                const FOURTH: bool = true;
                #[inline(always)]
                unsafe fn fourth<V: Lanes<Element = $element>>($f: V) -> V {
                    // SAFETY: the caller's promise is that of Lanes.
                    unsafe { $fourth }
                }
            )?
            $(
                const GROUPED: bool = true;
                #[inline(always)]
                unsafe fn join<V: Lanes<Element = $element>>($j: V, $g: V) -> V {
                    // SAFETY: the caller's promise is that of Lanes.
                    unsafe { $join }
                }
            )?
        }
    )*};
}

steps! {
    /// f64, one fused operation per product (for inputs of at most 26 bits the product is exact anyway).
    F64(f64), |acc, a, b| a.fma(b, acc);
    /// f64, rounded to f32 after every product.
    Rounded(f64), |acc, a, b| a.fma(b, acc).to_single();
    /// f64, rounded to f32 after every fourth product.
    Four(f64), |acc, a, b| a.fma(b, acc), fourth |acc| acc.to_single();
    /// Every four products summed in f64, rounded to f32 and added in f32. (Both roundings of a sum of two f32 numbers,
    /// to f64 and to f32, give the f32 sum.)
    FourApart(f64), |acc, a, b| a.fma(b, acc), join |acc, group| acc.add(group.to_single()).to_single();
    /// f32, product and sum rounded separately.
    F32(f32), |acc, a, b| acc.add(a.mul(b));
    /// f32, one fused operation per product.
    F32Fma(f32), |acc, a, b| a.fma(b, acc);
}

/// The vectorised chain of a [`Step`].
#[derive(Clone, Copy)]
pub(crate) struct Vectorised<S: Step>(pub S);

impl<S: Step> Chain for Vectorised<S> {
    type Element = S::Element;

    fn tile(self, shape: Shape, a: &[S::Element], b: &[S::Element], c: &mut [S::Element]) {
        let Shape { m, n, k, lda, ldb, ldc } = shape;
        if m == 0 || n == 0 || k == 0 {
            return;
        }
        assert!(k <= lda && (m - 1) * lda + k <= a.len(), "A holds the tile");
        assert!(n <= ldb && (k - 1) * ldb + n <= b.len(), "B holds the tile");
        assert!(n <= ldc && (m - 1) * ldc + n <= c.len(), "C holds the tile");
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: the CPU has AVX-512F, and the assertions above bound every access.
                return unsafe { avx512::<S>(shape, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the CPU has AVX2 and FMA, and the assertions above bound every access.
                return unsafe { avx2::<S>(shape, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
            }
        }
        // SAFETY: scalar code needs no instruction set, and the assertions above bound every access.
        unsafe { sweep::<S, S::Element, 4, 3>(shape, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<S: Step>(shape: Shape, a: *const S::Element, b: *const S::Element, c: *mut S::Element) {
    // 24 accumulators, 3 vectors of B and one of A: 28 of 32 registers.
    // SAFETY: this function's promise is that of `sweep`, and AVX-512F is enabled.
    unsafe { sweep::<S, <S::Element as Number>::Avx512, 8, 3>(shape, a, b, c) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<S: Step>(shape: Shape, a: *const S::Element, b: *const S::Element, c: *mut S::Element) {
    // 12 accumulators, 3 vectors of B and one of A: all 16 registers.
    // SAFETY: this function's promise is that of `sweep`, and AVX2 and FMA are enabled.
    unsafe { sweep::<S, <S::Element as Number>::Avx2, 4, 3>(shape, a, b, c) }
}

/// Covers the tile with blocks of `MR` rows and `NV` vectors, then single vectors, then single elements.
///
/// # Safety
/// The CPU has the instructions of `V`; `a`, `b` and `c` are valid for the tile that `shape` describes.
#[inline(always)]
unsafe fn sweep<S: Step, V: Lanes<Element = S::Element>, const MR: usize, const NV: usize>(
    s: Shape,
    a: *const S::Element,
    b: *const S::Element,
    c: *mut S::Element,
) {
    let mut j = 0;
    // SAFETY: every block starts inside the tile and ends inside it: `i + rows <= m`, `j + columns <= n`.
    unsafe {
        while j < s.n {
            let left = s.n - j;
            let (bj, width) = (
                b.add(j),
                if left >= NV * V::LANES {
                    NV * V::LANES
                } else if left >= V::LANES {
                    V::LANES
                } else {
                    1
                },
            );
            let mut i = 0;
            while i < s.m {
                let (ai, cij) = (a.add(i * s.lda), c.add(i * s.ldc + j));
                let rows = if s.m - i >= MR { MR } else { 1 };
                match (rows == MR, width == NV * V::LANES, width == V::LANES) {
                    (true, true, _) => block::<S, V, MR, NV>(s, ai, bj, cij),
                    (true, _, true) => block::<S, V, MR, 1>(s, ai, bj, cij),
                    (true, ..) => block::<S, S::Element, MR, 1>(s, ai, bj, cij),
                    (_, true, _) => block::<S, V, 1, NV>(s, ai, bj, cij),
                    (_, _, true) => block::<S, V, 1, 1>(s, ai, bj, cij),
                    _ => block::<S, S::Element, 1, 1>(s, ai, bj, cij),
                }
                i += rows;
            }
            j += width;
        }
    }
}

/// `MR` rows and `NV` vectors of C, held in registers over all of K.
///
/// # Safety
/// As for [`sweep`], with the block inside the tile.
#[inline(always)]
unsafe fn block<S: Step, V: Lanes<Element = S::Element>, const MR: usize, const NV: usize>(
    s: Shape,
    a: *const S::Element,
    b: *const S::Element,
    c: *mut S::Element,
) {
    // SAFETY: the caller promises that rows 0..MR and columns 0..NV·LANES lie inside the tile.
    unsafe {
        let zeros = [[V::splat(S::Element::default()); NV]; MR];
        let mut acc = zeros;
        for (i, row) in acc.iter_mut().enumerate() {
            for (j, v) in row.iter_mut().enumerate() {
                *v = V::load(c.add(i * s.ldc + j * V::LANES));
            }
        }
        let mut groups = zeros;
        for p in 0..s.k {
            let mut bv = [V::splat(S::Element::default()); NV];
            for (j, v) in bv.iter_mut().enumerate() {
                *v = V::load(b.add(p * s.ldb + j * V::LANES));
            }
            let sums = if S::GROUPED { &mut groups } else { &mut acc };
            for (i, row) in sums.iter_mut().enumerate() {
                let av = V::splat(*a.add(i * s.lda + p));
                each(row, &bv, |v, bj| *v = S::step(*v, av, *bj));
            }
            if S::FOURTH && p % 4 == 3 {
                for v in acc.iter_mut().flatten() {
                    *v = S::fourth(*v);
                }
            }
            if S::GROUPED && (p % 4 == 3 || p + 1 == s.k) {
                each(acc.as_flattened_mut(), groups.as_flattened(), |v, group| *v = S::join(*v, *group));
                groups = zeros;
            }
        }
        for (i, row) in acc.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                v.store(c.add(i * s.ldc + j * V::LANES));
            }
        }
    }
}

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

    /// The scalar sweep against every instruction set that this CPU has, over tiles with all kinds of edges.
    fn agree<S: Step>(step: S, name: &str, from: impl Fn(f32) -> S::Element + Copy) {
        for (m, n, k) in [(1, 1, 1), (3, 5, 2), (8, 48, 9), (9, 49, 16), (13, 107, 31), (4, 24, 0)] {
            let (lda, ldb, ldc) = (k + 1, n + 3, n + 2);
            let shape = Shape { m, n, k, lda, ldb, ldc };
            let (a, b) = (values(m * lda, 1, from), values((k + 1) * ldb, 2, from));
            let start = values(m * ldc, 3, from);
            let mut expected = start.clone();
            // SAFETY: scalar code; all three slices hold the tile.
            unsafe { sweep::<S, S::Element, 4, 3>(shape, a.as_ptr(), b.as_ptr(), expected.as_mut_ptr()) };
            let same = |c: &[S::Element], isa: &str| {
                let bits = |v: &[S::Element]| v.iter().map(|x| x.widened().to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(c), bits(&expected), "{name} {m}x{n}x{k} {isa}");
            };
            let mut c = start.clone();
            Vectorised(step).tile(shape, &a, &b, &mut c);
            same(&c, "dispatched");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                let mut c = start.clone();
                // SAFETY: the CPU has AVX2 and FMA; all three slices hold the tile.
                unsafe { avx2::<S>(shape, a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
                same(&c, "AVX2");
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
