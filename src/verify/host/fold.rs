//! Sums of a block, in the order of [`sums`](super::super::sums).

use super::super::rule::Real;
use super::super::sums::{self, Accumulators, COLUMNS};
use super::Vectors;

/// Adds a block's differences and magnitudes to the accumulators of its segment. The block starts `offset` elements into the
/// segment, at a row; the tail of an unfinished row counts as zeros.
pub(super) fn block<T: Real + Default>(
    acc: &mut Accumulators<T>,
    vector: usize,
    offset: usize,
    d: &mut [T],
    m: &mut [T],
    n: usize,
    vectors: Vectors,
) {
    let end = n.next_multiple_of(vector);
    d[n..end].fill(T::default());
    m[n..end].fill(T::default());
    let column = offset / vector % COLUMNS;
    let (d, m) = (&d[..end], &m[..end]);
    match vectors {
        // SAFETY: this level is given only where the instruction set was detected.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { columns_avx512(acc, vector, column, d, m) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { columns_avx2(acc, vector, column, d, m) },
        Vectors::None => columns(acc, vector, column, d, m),
    }
}

/// [`columns`] compiled for AVX2; the same operations in the same order.
///
/// # Safety
/// The processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn columns_avx2<T: Real>(acc: &mut Accumulators<T>, vector: usize, column: usize, d: &[T], m: &[T]) {
    columns(acc, vector, column, d, m)
}

/// [`columns`] compiled for AVX-512.
///
/// # Safety
/// The processor has AVX-512 F, DQ and VL, and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,fma")]
unsafe fn columns_avx512<T: Real>(acc: &mut Accumulators<T>, vector: usize, column: usize, d: &[T], m: &[T]) {
    columns(acc, vector, column, d, m)
}

#[inline(always)]
fn columns<T: Real>(acc: &mut Accumulators<T>, vector: usize, column: usize, d: &[T], m: &[T]) {
    match vector {
        2 => chunks::<T, 2>(acc, column, d, m),
        4 => chunks::<T, 4>(acc, column, d, m),
        8 => chunks::<T, 8>(acc, column, d, m),
        16 => chunks::<T, 16>(acc, column, d, m),
        _ => chunks::<T, 32>(acc, column, d, m),
    }
}

/// Step 1 for whole columns of `V` elements.
#[inline(always)]
fn chunks<T: Real, const V: usize>(acc: &mut Accumulators<T>, mut column: usize, d: &[T], m: &[T]) {
    for (d, m) in d.as_chunks::<V>().0.iter().zip(m.as_chunks::<V>().0) {
        sums::take(acc, column, d, m);
        column = (column + 1) % COLUMNS;
    }
}
