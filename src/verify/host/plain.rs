//! [`Classify`] as a loop that compilers vectorize by themselves, for processors that have no vectors of [`lanes`](crate::simd): arrays in the place of
//! vectors took two to four times as long (on x86-64, compiled for Haswell). It takes numbers, so every format is decoded before.

use super::filter::Filter;
use super::measure::{Classified, Classify};
use super::number::Number;
use super::side::BLOCK;

/// Both sides of a block are `a` and `r`.
pub(super) fn classify<T: Number, const ALL: bool, const LEAVE_OUT: bool>(
    to: Classify<'_, T, ALL, LEAVE_OUT>,
    a: &[T; BLOCK],
    r: &[T; BLOCK],
) -> Classified<T> {
    let (rule, filter) = (to.rule, to.filter);
    let (none, one) = (T::Bits::default(), T::Bits::from(true));
    // Separate variables, which the compiler keeps in registers.
    let (mut mismatches, mut zeros_fail, mut nonzero_a, mut nonzero_r) = (none, none, none, none);
    let (mut difference, mut largest_a, mut largest_r) = (none, none, none);
    let (mut others, mut ratio) = (none, none);
    for i in 0..BLOCK {
        let (a, r) = (a[i], r[i]);
        let d = (a - r).magnitude();
        let finite = !LEAVE_OUT || d.bits() < T::INFINITE;
        let d = if finite { d } else { T::ZERO };
        let n = if finite { a.magnitude() } else { T::ZERO };
        let m = if finite { r.magnitude() } else { T::ZERO };
        let bound = rule.bound(rule.rtol, m, rule.atol);
        mismatches += if d > bound { one } else { none };
        difference = difference.max(d.bits());
        largest_a = largest_a.max(n.bits());
        largest_r = largest_r.max(m.bits());
        if ALL {
            zeros_fail += if m > bound { one } else { none };
            nonzero_a += if n > T::ZERO { one } else { none };
            nonzero_r += if m > T::ZERO { one } else { none };
            let [of_others, of_ratio] = filter.test(&rule, d, m, bound);
            others |= of_others;
            ratio |= of_ratio;
            to.d[i] = d;
            to.m[i] = m;
        }
    }
    if LEAVE_OUT {
        note_nonfinite(a, r, to.left_out);
    }
    Classified {
        mismatches: mismatches.into(),
        zeros_fail: zeros_fail.into(),
        nonzero: [nonzero_a.into(), nonzero_r.into()],
        largest: [T::from_bits(largest_a), T::from_bits(largest_r)],
        difference: T::from_bits(difference),
        signs: Filter::signs(others, ratio),
    }
}

/// Elements of which one maximum tells whether they are tested one by one.
const RUN: usize = 32;

/// The indices of the pairs whose difference is not finite.
fn note_nonfinite<T: Number>(a: &[T; BLOCK], r: &[T; BLOCK], indices: &mut Vec<usize>) {
    for start in (0..BLOCK).step_by(RUN) {
        let mut largest = T::Bits::default();
        for i in start..start + RUN {
            largest = largest.max((a[i] - r[i]).magnitude().bits());
        }
        if largest >= T::INFINITE {
            indices.extend((start..start + RUN).filter(|&i| !(a[i] - r[i]).finite()));
        }
    }
}
