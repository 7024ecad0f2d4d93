//! Layer, RMS and batch normalisation.
//!
//! With μ and σ² the mean and the variance (divided by n, not n - 1) of the n elements of a set, ε = 1e-5, and w and b of the extent of the axis:
//!
//! * layer: x̂ = (x - μ) / sqrt(σ² + ε), y = x̂ w + b; a set is a vector along the axis (Ba et al., arXiv 1607.06450);
//! * batch: the same; a set is all elements with one index of the axis, the axis of channels (Ioffe and Szegedy, arXiv 1502.03167, in training);
//! * RMS: x̂ = x / sqrt(mean x² + ε), y = x̂ w; a set is a vector along the axis (Zhang and Sennrich, arXiv 1910.07467).
//!
//! With r = 1 / sqrt(...) and h = g w the gradients are dx = r ((h - mean h) - x̂ mean(h x̂)), without `mean h` for RMS, dw = Σ g x̂ and db = Σ g over all elements with that
//! index of the axis. Sums run in the order of the memory.

use super::shape::Strided;
use super::steps::{Fault, Steps};

/// What is added to a variance.
const EPSILON: f64 = 1e-5;

/// A normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Norm {
    Layer,
    Rms,
    Batch,
}

/// The normalised elements, and what each set was multiplied by.
struct Normalised {
    elements: Vec<f64>,
    scales: Vec<f64>,
}

impl Norm {
    fn centred(self) -> bool {
        self != Norm::Rms
    }

    /// The sets whose elements share a mean.
    fn sets(self, shape: &Strided) -> Vec<Vec<usize>> {
        if self == Norm::Batch { shape.slices().collect() } else { shape.vectors().collect() }
    }

    /// Elements of a set.
    pub(super) fn terms(self, shape: &Strided) -> usize {
        if self == Norm::Batch { shape.outer * shape.inner } else { shape.n }
    }

    fn normalised(self, s: &Steps, x: &[f64], sets: &[Vec<usize>]) -> Normalised {
        let mut out = Normalised { elements: vec![0.0; x.len()], scales: Vec::with_capacity(sets.len()) };
        for set in sets {
            let mean = if self.centred() { s.mean(set.iter().map(|&i| x[i])) } else { 0.0 };
            let square = |&i: &usize| {
                let centred = s.sub(x[i], mean);
                s.mul(centred, centred)
            };
            let variance = s.mean(set.iter().map(square));
            let scale = s.div(1.0, s.sqrt(s.add(variance, s.round(EPSILON))));
            set.iter().for_each(|&i| out.elements[i] = s.mul(s.sub(x[i], mean), scale));
            out.scales.push(scale);
        }
        out
    }

    /// y of x, w and b; RMS has no b.
    pub(super) fn value(self, s: &Steps, shape: &Strided, inputs: &[Vec<f64>]) -> Vec<f64> {
        let (x, w) = (&inputs[0], &inputs[1]);
        let mut y = self.normalised(s, x, &self.sets(shape)).elements;
        for (i, y) in y.iter_mut().enumerate() {
            let k = shape.index(i);
            *y = s.mul(*y, w[k]);
            if self.centred() {
                *y = s.add(*y, inputs[2][k]);
            }
        }
        y
    }

    /// The gradient with respect to x, w or b; the gradient of y is the last input.
    pub(super) fn gradient(self, s: &Steps, shape: &Strided, of: usize, inputs: &[Vec<f64>]) -> Vec<f64> {
        let (x, g) = (&inputs[0], &inputs[inputs.len() - 1]);
        let sets = self.sets(shape);
        match of {
            0 => self.of_x(s, shape, &sets, inputs),
            1 => {
                let normalised = self.normalised(s, x, &sets).elements;
                shape.slices().map(|slice| s.sum(slice.iter().map(|&i| s.mul(g[i], normalised[i])))).collect()
            }
            _ => shape.slices().map(|slice| s.sum(slice.iter().map(|&i| g[i]))).collect(),
        }
    }

    fn of_x(self, s: &Steps, shape: &Strided, sets: &[Vec<usize>], inputs: &[Vec<f64>]) -> Vec<f64> {
        let (x, w, g) = (&inputs[0], &inputs[1], &inputs[inputs.len() - 1]);
        let Normalised { elements, scales } = self.normalised(s, x, sets);
        let mut dx = vec![0.0; x.len()];
        for (set, &scale) in sets.iter().zip(&scales) {
            let h = |i: usize| s.mul(g[i], w[shape.index(i)]);
            let constant = s.has(Fault::Detached);
            let mean = if self.centred() && !constant { s.mean(set.iter().map(|&i| h(i))) } else { 0.0 };
            let product = if constant { 0.0 } else { s.mean(set.iter().map(|&i| s.mul(h(i), elements[i]))) };
            for &i in set {
                dx[i] = s.mul(scale, s.sub(s.sub(h(i), mean), s.mul(elements[i], product)));
            }
        }
        dx
    }
}
