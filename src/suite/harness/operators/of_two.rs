//! Operators of two tensors along an axis: vectors x and u of n numbers.
//!
//! As in [`along_axis`](super::along_axis) g is the gradient of the result and m the largest x. L = log Σ e^(x-m) is log(1 + Σ of the others), without the term of the largest x, which is 1: where
//! that is nearly all of the sum, its logarithm has the digits of the others.
//!
//! | operator | second input | y | dx | du |
//! |---|---|---|---|---|
//! | softmax_with_cross_entropy | label, u | Σ u (L - (x - m)) = -Σ u log softmax(x) | g Σ over j of (p u\[j\] - u p\[j\]), p = softmax(x), which is g (p Σ u - u) | g (L - (x - m)) |
//! | softmax_mask | mask, u | softmax(x + u) | that of softmax | the same |
//!
//! Labels are numbers ("soft"): a class is a vector with one 1. The gradient's sum goes over all j but the element's own, whose term is 0, so that p - 1 of a class that is nearly certain is the sum of
//! the other probabilities. It is taken from both ends.

use super::along_axis::{Length, exponentials, first_largest, softmax, softmax_gradient};
use super::steps::{Fault, Steps};

/// Writes y from x and u.
type Forward = fn(&Steps, [&[f64]; 2], &mut [f64]);

/// Writes a gradient from x, u and g.
type Backward = fn(&Steps, [&[f64]; 2], &[f64], &mut [f64]);

/// An operator of two tensors along an axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfTwo {
    /// Names of the inputs.
    pub inputs: &'static [&'static str],
    pub length: Length,
    pub value: Forward,
    pub gradients: [Backward; 2],
}

pub(super) const CROSS_ENTROPY: OfTwo =
    OfTwo { inputs: &["x", "label"], length: Length::One, value: cross_entropy, gradients: [cross_entropy_of_x, cross_entropy_of_label] };

pub(super) const SOFTMAX_MASK: OfTwo = OfTwo {
    inputs: &["x", "mask"],
    length: Length::Same,
    value: |s, [x, mask], y| softmax(s, &masked(s, x, mask), y),
    gradients: [softmax_mask_gradient, softmax_mask_gradient],
};

/// -log softmax(x) of each element.
fn losses(s: &Steps, x: &[f64]) -> Vec<f64> {
    let (shift, exponentials, sum) = exponentials(s, x);
    let largest = first_largest(x);
    let of_others = || {
        let others: Vec<f64> = exponentials.iter().enumerate().filter(|(i, _)| *i != largest).map(|(_, e)| *e).collect();
        s.sum(others.iter().copied())
    };
    // Without a shift the largest term is not 1.
    let log = if s.has(Fault::Unshifted) || !x[largest].is_finite() { s.log(sum) } else { s.log1p(of_others()) };
    x.iter().map(|&x| s.sub(log, s.sub(x, shift))).collect()
}

fn cross_entropy(s: &Steps, [x, label]: [&[f64]; 2], y: &mut [f64]) {
    // A class of probability 0 without a share in the labels adds nothing.
    let term = |(loss, &u): (f64, &f64)| if u == 0.0 { 0.0 } else { s.mul(u, loss) };
    let terms: Vec<f64> = losses(s, x).into_iter().zip(label).map(term).collect();
    y[0] = s.sum(terms.iter().copied());
}

fn cross_entropy_of_x(s: &Steps, [x, label]: [&[f64]; 2], g: &[f64], dx: &mut [f64]) {
    let mut p = vec![0.0; x.len()];
    softmax(s, x, &mut p);
    let [of_p, of_label] = [&p, label].map(|terms| sums_of_others(s, terms));
    for (i, dx) in dx.iter_mut().enumerate() {
        let own = s.mul(label[i], of_p[i]);
        *dx = match s.has(Fault::Detached) {
            true => s.mul(g[0], -label[i]),
            false => s.mul(g[0], s.sub(s.mul(p[i], of_label[i]), own)),
        };
    }
}

/// The sum of all terms but each one: those before it and those behind it.
fn sums_of_others(s: &Steps, terms: &[f64]) -> Vec<f64> {
    let mut others = vec![0.0; terms.len()];
    let mut behind = 0.0;
    for (i, &term) in terms.iter().enumerate().rev() {
        others[i] = behind;
        behind = s.add(behind, term);
    }
    let mut before = 0.0;
    for (other, &term) in others.iter_mut().zip(terms) {
        *other = s.add(before, *other);
        before = s.add(before, term);
    }
    others
}

fn cross_entropy_of_label(s: &Steps, [x, _]: [&[f64]; 2], g: &[f64], du: &mut [f64]) {
    du.iter_mut().zip(losses(s, x)).for_each(|(du, loss)| *du = s.mul(g[0], loss));
}

fn masked(s: &Steps, x: &[f64], mask: &[f64]) -> Vec<f64> {
    x.iter().zip(mask).map(|(&x, &u)| s.add(x, u)).collect()
}

fn softmax_mask_gradient(s: &Steps, [x, mask]: [&[f64]; 2], g: &[f64], dx: &mut [f64]) {
    softmax_gradient(s, &masked(s, x, mask), g, dx);
}
