//! Scaled dot-product attention (Vaswani et al., arXiv 1706.03762): q, k and v of `[batch, heads, seq, dim]`, a result of the same extents.
//!
//! For each head, with i and j from the sequence and d from the dimensions, and P the softmax of each row of S:
//!
//! ```text
//! S[i,j] = (Σ over d of q[i,d] k[j,d]) / √dim       y[i,d]  = Σ over j of P[i,j] v[j,d]
//! D[i,j] = Σ over d of g[i,d] v[j,d]                dv[j,d] = Σ over i of P[i,j] g[i,d]
//! E[i,j] = P[i,j] (D[i,j] - Σ over j of P[i,j] D[i,j])
//! dq[i,d] = (Σ over j of E[i,j] k[j,d]) / √dim      dk[j,d] = (Σ over i of E[i,j] q[i,d]) / √dim
//! ```
//!
//! Where it is causal, j goes up to i and i begins with j: what is masked is left out of all sums. The softmax subtracts the largest score of a row. 1 / √dim is a quotient, and the sum is multiplied by it.

use super::along_axis::softmax;
use super::steps::{Fault, Steps};
use crate::error::{Error, Result};

/// Extents, and whether an element attends to those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attention {
    pub batch: usize,
    pub heads: usize,
    pub seq: usize,
    pub dim: usize,
    pub causal: bool,
}

/// The longest sequence.
const LONGEST: usize = 1 << 13;

/// The names of the inputs.
pub(super) const INPUTS: [&str; 3] = ["q", "k", "v"];

impl Attention {
    /// Reads extents that were found to be ones.
    pub(super) fn new(extents: &[usize], causal: bool) -> Result<Attention> {
        let &[batch, heads, seq, dim] = extents else {
            let value = extents.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
            let limit = "it must be BATCHxHEADSxSEQxDIM, such as 2x4x64x32".to_owned();
            return Err(Error::InvalidArgument { what: "shape of attention", value, limit });
        };
        if seq > LONGEST {
            let limit = format!("SEQ is at most {LONGEST}: a reference holds SEQ x SEQ numbers in memory");
            return Err(Error::InvalidArgument { what: "seq of attention", value: seq.to_string(), limit });
        }
        Ok(Attention { batch, heads, seq, dim, causal })
    }

    /// The length of the two sums behind an element, one of the other's terms.
    pub(super) fn terms(&self) -> usize {
        self.dim + self.seq
    }

    /// Products in all.
    pub(super) fn products(&self) -> u128 {
        [self.batch, self.heads, self.seq, self.seq, self.dim].iter().map(|&x| x as u128).product::<u128>() * 2
    }

    /// The result, or the gradient with respect to q, k or v, head by head.
    pub(super) fn compute(&self, s: &Steps, gradient_of: Option<usize>, inputs: &[Vec<f64>]) -> Vec<f64> {
        let elements = self.seq * self.dim;
        let head = |number: usize| {
            let of: Vec<&[f64]> = inputs.iter().map(|input| &input[number * elements..][..elements]).collect();
            self.head(s, gradient_of, &of)
        };
        (0..self.batch * self.heads).flat_map(head).collect()
    }

    fn head(&self, s: &Steps, gradient_of: Option<usize>, inputs: &[&[f64]]) -> Vec<f64> {
        let (seq, dim) = (self.seq, self.dim);
        let [q, k, v] = [0, 1, 2].map(|input| move |row: usize, d: usize| inputs[input][row * dim + d]);
        let scale = s.div(1.0, s.sqrt(dim as f64));
        let rows = |of: &dyn Fn(usize) -> Vec<f64>| (0..seq).map(of).collect::<Vec<Vec<f64>>>();
        let dot = |a: &dyn Fn(usize) -> f64, b: &dyn Fn(usize) -> f64| s.sum((0..dim).map(|d| s.mul(a(d), b(d))));
        // The row of an element has those that it attends to.
        let p = rows(&|i| {
            let scores: Vec<f64> = (0..self.row(i)).map(|j| s.mul(dot(&|d| q(i, d), &|d| k(j, d)), scale)).collect();
            let mut p = vec![0.0; scores.len()];
            softmax(s, &scores, &mut p);
            p
        });
        let Some(of) = gradient_of else {
            let element = |i: usize, d: usize| s.sum((0..p[i].len()).map(|j| s.mul(p[i][j], v(j, d))));
            return self.matrix(&element);
        };
        let g = |row: usize, d: usize| inputs[3][row * dim + d];
        if of == 2 {
            return self.matrix(&|j, d| s.sum((self.column(j)..seq).map(|i| s.mul(p[i][j], g(i, d)))));
        }
        let e = rows(&|i| {
            let of_p: Vec<f64> = (0..p[i].len()).map(|j| dot(&|d| g(i, d), &|d| v(j, d))).collect();
            let inner = if s.has(Fault::Detached) { 0.0 } else { s.sum(p[i].iter().zip(&of_p).map(|(&p, &x)| s.mul(p, x))) };
            p[i].iter().zip(&of_p).map(|(&p, &x)| s.mul(p, s.sub(x, inner))).collect()
        });
        match of {
            0 => self.matrix(&|i, d| s.mul(s.sum((0..e[i].len()).map(|j| s.mul(e[i][j], k(j, d)))), scale)),
            _ => self.matrix(&|j, d| s.mul(s.sum((self.column(j)..seq).map(|i| s.mul(e[i][j], q(i, d)))), scale)),
        }
    }

    /// How many elements one attends to.
    fn row(&self, i: usize) -> usize {
        if self.causal { i + 1 } else { self.seq }
    }

    /// The first element that attends to one.
    fn column(&self, j: usize) -> usize {
        if self.causal { j } else { 0 }
    }

    fn matrix(&self, element: &dyn Fn(usize, usize) -> f64) -> Vec<f64> {
        (0..self.seq).flat_map(|row| (0..self.dim).map(move |d| element(row, d))).collect()
    }
}
