//! Operators of the vectors along an axis: a vector of n numbers becomes one of 1, n, or any number of elements.
//!
//! x has n elements, y is the result, g the gradient of the result, dx that of x. Sums run from the first to the last term unless a definition says otherwise. m is the
//! largest x, and 0 where that is no finite number.
//!
//! | operator | y | dx |
//! |---|---|---|
//! | sum | Σ x | g |
//! | mean | Σ x / n | g / n |
//! | max, min | the largest, smallest x | g at the first of them, else 0 |
//! | argmax, argmin | the index of the first of them | |
//! | prod | Π x | g times the product of those before and that of those behind: no division, so zeros do no harm |
//! | l2_norm | sqrt Σ x² | g x / y; 0 where y is 0 |
//! | p_norm | M (Σ (\|x\| / M)^p)^(1/p), M the largest \|x\|: no power overflows; 0 where M is 0 | g (\|x\| / y)^(p-1) with the sign of x; 0 where x or y is 0 |
//! | logsumexp | m + log Σ e^(x-m) | g e^(x-y) |
//! | softmax | e^(x-m) / Σ e^(x-m) | y (g - Σ g y) |
//! | log_softmax | (x - m) - log Σ e^(x-m) | g - e^y Σ g |
//! | flip | x in the opposite order | g in the opposite order |
//! | cumsum | y\[i\] = Σ of x\[0\] to x\[i\] | Σ of g\[n-1\] down to g\[i\] |
//! | cumprod | y\[i\] = Π of x\[0\] to x\[i\] | Σ over i >= k of g\[i\] times the product of x\[0\] to x\[i\] without x\[k\]: no division, so zeros do no harm |
//! | logcumsumexp | y\[i\] = log Σ of e^x\[0\] to e^x\[i\], as max + log(1 + e^(min - max)) of y\[i-1\] and x\[i\] | Σ over i >= k of g\[i\] e^(x\[k\] - y\[i\]) |
//! | nearest | y\[i\] = x\[floor(i n / r)\], r the new extent | Σ of the g that took it, ascending |
//! | linear | (1 - t) x\[j\] + t x\[j+1\], j + t = max((i + 1/2) n / r - 1/2, 0), both indices at most n - 1 | Σ of weights times g, ascending |
//! | cubic | Σ of w\[o\] x\[j-1+o\] for o = 0 to 3, j + t = (i + 1/2) n / r - 1/2, indices within 0 and n - 1 | Σ of weights times g, ascending |
//!
//! The weights of cubic are those of Keys (1981) with a = -3/4 at the distances d = 1 + t, t, 1 - t and 2 - t: ((a + 2) d - (a + 3)) d² + 1 up to a distance of 1, a (((d - 5) d + 8) d - 4) beyond.
//! All interpolations are those of pixels as areas ("half pixel", `align_corners=False` in PyTorch and Paddle). j and t are exact fractions, t is rounded once.

use super::steps::{Fault, Steps};

/// The length of y.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// 1: a reduction.
    One,
    /// As x.
    Same,
    /// As the case says.
    Resized,
}

/// Writes y from x.
type Forward = fn(&Steps, &[f64], &mut [f64]);

/// Writes dx from x and g.
type Backward = fn(&Steps, &[f64], &[f64], &mut [f64]);

/// An operator along an axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AlongAxis {
    pub length: Length,
    pub value: Forward,
    /// None where y is an index.
    pub gradient: Option<Backward>,
}

const fn operator(length: Length, value: Forward, gradient: Backward) -> AlongAxis {
    AlongAxis { length, value, gradient: Some(gradient) }
}

const fn index(value: Forward) -> AlongAxis {
    AlongAxis { length: Length::One, value, gradient: None }
}

/// Names and definitions.
pub(super) const SUM: AlongAxis = operator(Length::One, |s, x, y| y[0] = s.sum(x.iter().copied()), |_, _, g, dx| dx.fill(g[0]));
pub(super) const MEAN: AlongAxis =
    operator(Length::One, |s, x, y| y[0] = s.mean(x.iter().copied()), |s, x, g, dx| dx.fill(s.div(g[0], x.len() as f64)));
pub(super) const MAX: AlongAxis =
    operator(Length::One, |_, x, y| y[0] = x[first_largest(x)], |_, x, g, dx| only_at(first_largest(x), g, dx));
pub(super) const MIN: AlongAxis =
    operator(Length::One, |_, x, y| y[0] = x[first_smallest(x)], |_, x, g, dx| only_at(first_smallest(x), g, dx));
pub(super) const ARGMAX: AlongAxis = index(|_, x, y| y[0] = first_largest(x) as f64);
pub(super) const ARGMIN: AlongAxis = index(|_, x, y| y[0] = first_smallest(x) as f64);
pub(super) const PROD: AlongAxis = operator(Length::One, prod, prod_gradient);
pub(super) const L2_NORM: AlongAxis = operator(Length::One, |s, x, y| y[0] = l2_norm(s, x), l2_norm_gradient);
pub(super) const LOG_SUM_EXP: AlongAxis = operator(Length::One, |s, x, y| y[0] = log_sum_exp(s, x), log_sum_exp_gradient);
pub(super) const SOFTMAX: AlongAxis = operator(Length::Same, softmax, softmax_gradient);
pub(super) const LOG_SOFTMAX: AlongAxis = operator(Length::Same, log_softmax, log_softmax_gradient);
pub(super) const FLIP: AlongAxis = operator(Length::Same, |_, x, y| reverse(x, y), |_, _, g, dx| reverse(g, dx));
pub(super) const CUMSUM: AlongAxis = operator(Length::Same, cumsum, cumsum_gradient);
pub(super) const CUMPROD: AlongAxis = operator(Length::Same, cumprod, cumprod_gradient);
pub(super) const LOG_CUM_SUM_EXP: AlongAxis = operator(Length::Same, log_cum_sum_exp, log_cum_sum_exp_gradient);
pub(super) const NEAREST: AlongAxis = operator(Length::Resized, nearest, nearest_gradient);
pub(super) const LINEAR: AlongAxis = operator(Length::Resized, linear, linear_gradient);
pub(super) const CUBIC: AlongAxis = operator(Length::Resized, cubic, cubic_gradient);

/// The index of the largest element; of a NaN where there is one.
pub(super) fn first_largest(x: &[f64]) -> usize {
    (1..x.len()).fold(0, |best, i| if x[i] > x[best] || x[i].is_nan() && !x[best].is_nan() { i } else { best })
}

/// The index of the smallest element; of a NaN where there is one.
fn first_smallest(x: &[f64]) -> usize {
    (1..x.len()).fold(0, |best, i| if x[i] < x[best] || x[i].is_nan() && !x[best].is_nan() { i } else { best })
}

fn only_at(index: usize, g: &[f64], dx: &mut [f64]) {
    dx.fill(0.0);
    dx[index] = g[0];
}

fn prod(s: &Steps, x: &[f64], y: &mut [f64]) {
    y[0] = x.iter().fold(1.0, |product, &x| s.mul(product, x));
}

fn prod_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let mut behind = 1.0;
    for (dx, &x) in dx.iter_mut().zip(x).rev() {
        *dx = behind;
        behind = s.mul(x, behind);
    }
    let mut before = 1.0;
    for (dx, &x) in dx.iter_mut().zip(x) {
        *dx = s.mul(g[0], s.mul(before, *dx));
        before = s.mul(before, x);
    }
}

fn l2_norm(s: &Steps, x: &[f64]) -> f64 {
    s.sqrt(s.sum(x.iter().map(|&x| s.mul(x, x))))
}

fn l2_norm_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let norm = l2_norm(s, x);
    for (dx, &x) in dx.iter_mut().zip(x) {
        *dx = if norm == 0.0 { 0.0 } else { s.mul(g[0], s.div(x, norm)) };
    }
}

pub(super) fn p_norm(s: &Steps, p: f64, x: &[f64]) -> f64 {
    let largest = x.iter().fold(0.0, |largest, x| if x.abs() > largest || x.is_nan() { x.abs() } else { largest });
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let sum = s.sum(x.iter().map(|x| s.pow(s.div(x.abs(), largest), p)));
    s.mul(largest, s.pow(sum, s.div(1.0, p)))
}

pub(super) fn p_norm_gradient(s: &Steps, p: f64, x: &[f64], g: f64, dx: &mut [f64]) {
    let norm = p_norm(s, p, x);
    for (dx, &x) in dx.iter_mut().zip(x) {
        *dx = if x == 0.0 || norm == 0.0 { 0.0 } else { s.mul(g, s.pow(s.div(x.abs(), norm), s.sub(p, 1.0)).copysign(x)) };
    }
}

/// What exponents are taken relative to.
fn shift(s: &Steps, x: &[f64]) -> f64 {
    let largest = x[first_largest(x)];
    if largest.is_finite() && !s.has(Fault::Unshifted) { largest } else { 0.0 }
}

/// m, the exponentials e^(x-m), and their sum.
pub(super) fn exponentials(s: &Steps, x: &[f64]) -> (f64, Vec<f64>, f64) {
    let shift = shift(s, x);
    let exponentials: Vec<f64> = x.iter().map(|&x| s.exp(s.sub(x, shift))).collect();
    let sum = s.sum(exponentials.iter().copied());
    (shift, exponentials, sum)
}

fn log_sum_exp(s: &Steps, x: &[f64]) -> f64 {
    let (shift, _, sum) = exponentials(s, x);
    s.add(shift, s.log(sum))
}

fn log_sum_exp_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let y = log_sum_exp(s, x);
    for (dx, &x) in dx.iter_mut().zip(x) {
        *dx = s.mul(g[0], s.exp(s.sub(x, y)));
    }
}

pub(super) fn softmax(s: &Steps, x: &[f64], y: &mut [f64]) {
    let (_, exponentials, sum) = exponentials(s, x);
    for (y, e) in y.iter_mut().zip(exponentials) {
        *y = s.div(e, sum);
    }
}

pub(super) fn softmax_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let mut y = vec![0.0; x.len()];
    softmax(s, x, &mut y);
    let inner = if s.has(Fault::Detached) { 0.0 } else { s.sum(g.iter().zip(&y).map(|(&g, &y)| s.mul(g, y))) };
    for ((dx, &g), &y) in dx.iter_mut().zip(g).zip(&y) {
        *dx = s.mul(y, s.sub(g, inner));
    }
}

fn log_softmax(s: &Steps, x: &[f64], y: &mut [f64]) {
    let (shift, _, sum) = exponentials(s, x);
    let log = s.log(sum);
    for (y, &x) in y.iter_mut().zip(x) {
        *y = s.sub(s.sub(x, shift), log);
    }
}

fn log_softmax_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let mut y = vec![0.0; x.len()];
    log_softmax(s, x, &mut y);
    let sum = if s.has(Fault::Detached) { 0.0 } else { s.sum(g.iter().copied()) };
    for ((dx, &g), &y) in dx.iter_mut().zip(g).zip(&y) {
        *dx = s.sub(g, s.mul(s.exp(y), sum));
    }
}

fn reverse(x: &[f64], y: &mut [f64]) {
    y.iter_mut().zip(x.iter().rev()).for_each(|(y, &x)| *y = x);
}

/// Each place gets the sum of the terms up to its own, in the order of the iterator.
fn running_sums<'a>(s: &Steps, places: impl Iterator<Item = (&'a mut f64, &'a f64)>) {
    let mut sum = 0.0;
    for (place, &term) in places {
        sum = s.add(sum, term);
        *place = sum;
    }
}

fn cumsum(s: &Steps, x: &[f64], y: &mut [f64]) {
    running_sums(s, y.iter_mut().zip(x));
}

fn cumsum_gradient(s: &Steps, _: &[f64], g: &[f64], dx: &mut [f64]) {
    running_sums(s, dx.iter_mut().zip(g).rev());
}

fn cumprod(s: &Steps, x: &[f64], y: &mut [f64]) {
    let mut product = 1.0;
    for (y, &x) in y.iter_mut().zip(x) {
        product = s.mul(product, x);
        *y = product;
    }
}

fn cumprod_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let mut before = 1.0;
    for k in 0..x.len() {
        // The product without x[k] of what goes into y[i].
        let (mut without, mut sum) = (before, 0.0);
        for i in k..x.len() {
            if i > k {
                without = s.mul(without, x[i]);
            }
            sum = s.add(sum, s.mul(g[i], without));
        }
        dx[k] = sum;
        before = s.mul(before, x[k]);
    }
}

/// log(e^a + e^b).
fn log_add_exp(s: &Steps, a: f64, b: f64) -> f64 {
    if s.has(Fault::Unshifted) {
        return s.log(s.add(s.exp(a), s.exp(b)));
    }
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high.is_infinite() {
        return high;
    }
    s.add(high, s.round(libm::log1p(s.exp(s.sub(low, high)))))
}

fn log_cum_sum_exp(s: &Steps, x: &[f64], y: &mut [f64]) {
    let mut log = f64::NEG_INFINITY;
    for (y, &x) in y.iter_mut().zip(x) {
        log = if log == f64::NEG_INFINITY { x } else { log_add_exp(s, log, x) };
        *y = log;
    }
}

fn log_cum_sum_exp_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    let mut y = vec![0.0; x.len()];
    log_cum_sum_exp(s, x, &mut y);
    for (k, dx) in dx.iter_mut().enumerate() {
        *dx = (k..x.len()).fold(0.0, |sum, i| s.add(sum, s.mul(g[i], s.exp(s.sub(x[k], y[i])))));
    }
}

/// The element of n that element `i` of `resized` takes.
fn nearest_of(i: usize, n: usize, resized: usize) -> usize {
    i * n / resized
}

fn nearest(_: &Steps, x: &[f64], y: &mut [f64]) {
    let resized = y.len();
    y.iter_mut().enumerate().for_each(|(i, y)| *y = x[nearest_of(i, x.len(), resized)]);
}

fn nearest_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    dx.fill(0.0);
    for (i, &gi) in g.iter().enumerate() {
        let dx = &mut dx[nearest_of(i, x.len(), g.len())];
        *dx = s.add(*dx, gi);
    }
}

/// The two elements of n that element `i` of `resized` lies between, with their weights.
fn linear_of(s: &Steps, i: usize, n: usize, resized: usize) -> [(usize, f64); 2] {
    // (i + 1/2) n / resized - 1/2 over the denominator 2 resized.
    let (numerator, denominator) = (((2 * i + 1) * n).saturating_sub(resized), 2 * resized);
    let (j, t) = (numerator / denominator, s.round((numerator % denominator) as f64 / denominator as f64));
    [(j.min(n - 1), s.sub(1.0, t)), ((j + 1).min(n - 1), t)]
}

/// The four elements of n that element `i` of `resized` lies between, with their weights; at the edges one of them several times.
fn cubic_of(s: &Steps, i: usize, n: usize, resized: usize) -> [(usize, f64); 4] {
    const A: f64 = -0.75;
    let near = |d: f64| s.add(s.mul(s.sub(s.mul(A + 2.0, d), A + 3.0), s.mul(d, d)), 1.0);
    let far = |d: f64| s.mul(A, s.sub(s.mul(s.add(s.mul(s.sub(d, 5.0), d), 8.0), d), 4.0));
    // One more than (i + 1/2) n / resized - 1/2, which is above -1/2, over the denominator 2 resized.
    let (numerator, denominator) = ((2 * i + 1) * n + resized, 2 * resized);
    let (j, t) = (numerator / denominator, s.round((numerator % denominator) as f64 / denominator as f64));
    let weights = [far(s.add(1.0, t)), near(t), near(s.sub(1.0, t)), far(s.sub(2.0, t))];
    [0, 1, 2, 3].map(|o| ((j + o).saturating_sub(2).min(n - 1), weights[o]))
}

fn cubic(s: &Steps, x: &[f64], y: &mut [f64]) {
    let resized = y.len();
    for (i, y) in y.iter_mut().enumerate() {
        let terms = cubic_of(s, i, x.len(), resized).map(|(j, weight)| s.mul(weight, x[j]));
        *y = terms.into_iter().fold(0.0, |sum, term| s.add(sum, term));
    }
}

fn cubic_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    dx.fill(0.0);
    for (i, &gi) in g.iter().enumerate() {
        for (j, weight) in cubic_of(s, i, x.len(), g.len()) {
            dx[j] = s.add(dx[j], s.mul(weight, gi));
        }
    }
}

fn linear(s: &Steps, x: &[f64], y: &mut [f64]) {
    let resized = y.len();
    for (i, y) in y.iter_mut().enumerate() {
        let [(j, low), (k, high)] = linear_of(s, i, x.len(), resized);
        *y = s.add(s.mul(low, x[j]), s.mul(high, x[k]));
    }
}

fn linear_gradient(s: &Steps, x: &[f64], g: &[f64], dx: &mut [f64]) {
    dx.fill(0.0);
    for (i, &gi) in g.iter().enumerate() {
        for (j, weight) in linear_of(s, i, x.len(), g.len()) {
            dx[j] = s.add(dx[j], s.mul(weight, gi));
        }
    }
}
