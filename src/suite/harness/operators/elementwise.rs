//! Operators of single elements: y = f(x) and y = f(a, b), with their derivatives.
//!
//! The gradient with respect to an input is grad f', one product after f'. Where f has a corner the derivative is 0 (relu at 0), or that of the first input (maximum of
//! equal numbers).

use super::steps::Steps;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// f and f'.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unary {
    pub value: fn(&Steps, f64) -> f64,
    pub slope: fn(&Steps, f64) -> f64,
}

/// f and its derivatives with respect to both inputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binary {
    pub value: fn(&Steps, f64, f64) -> f64,
    pub slopes: [fn(&Steps, f64, f64) -> f64; 2],
}

/// Names and definitions of activations.
pub(super) const ACTIVATIONS: [(&str, Unary); 7] = [
    // max(x, 0); a NaN stays one.
    ("relu", Unary { value: |_, x| if x <= 0.0 { 0.0 } else { x }, slope: |_, x| if x <= 0.0 { 0.0 } else { 1.0 } }),
    ("sigmoid", Unary { value: sigmoid, slope: sigmoid_slope }),
    ("tanh", Unary { value: |s, x| s.tanh(x), slope: |s, x| s.sub(1.0, square(s, s.tanh(x))) }),
    // x sigmoid(x), also called swish.
    ("silu", Unary { value: |s, x| s.mul(x, sigmoid(s, x)), slope: silu_slope }),
    // x Φ(x), Φ the distribution of the normal numbers (Hendrycks and Gimpel, arXiv 1606.08415).
    ("gelu", Unary { value: |s, x| s.mul(x, normal(s, x)), slope: gelu_slope }),
    // The approximation of the same paper: x/2 (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).
    ("gelu_tanh", Unary { value: |s, x| s.mul(s.mul(0.5, x), s.add(1.0, s.tanh(inner(s, x)))), slope: gelu_tanh_slope }),
    // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
    ("softplus", Unary { value: |s, x| s.add(x.max(0.0), s.round(libm::log1p(s.exp(-x.abs())))), slope: sigmoid }),
];

/// Names and definitions of functions whose gradients are not steep.
pub(super) const FUNCTIONS: [(&str, Unary); 5] = [
    ("log", Unary { value: |s, x| s.log(x), slope: |s, x| s.div(1.0, x) }),
    ("sqrt", Unary { value: |s, x| s.sqrt(x), slope: |s, x| s.div(0.5, s.sqrt(x)) }),
    ("rsqrt", Unary { value: |s, x| s.div(1.0, s.sqrt(x)), slope: |s, x| s.div(s.div(-0.5, s.sqrt(x)), x) }),
    ("sin", Unary { value: |s, x| s.round(libm::sin(x)), slope: |s, x| s.round(libm::cos(x)) }),
    ("cos", Unary { value: |s, x| s.round(libm::cos(x)), slope: |s, x| -s.round(libm::sin(x)) }),
];

/// Names and definitions of functions with steep gradients.
pub(super) const STEEP_FUNCTIONS: [(&str, Unary); 7] = [
    ("exp", Unary { value: |s, x| s.exp(x), slope: |s, x| s.exp(x) }),
    ("expm1", Unary { value: |s, x| s.round(libm::expm1(x)), slope: |s, x| s.exp(x) }),
    ("square", Unary { value: square, slope: |s, x| s.mul(2.0, x) }),
    ("reciprocal", Unary { value: |s, x| s.div(1.0, x), slope: |s, x| -square(s, s.div(1.0, x)) }),
    ("tan", Unary { value: |s, x| s.round(libm::tan(x)), slope: |s, x| s.add(1.0, square(s, s.round(libm::tan(x)))) }),
    ("sinh", Unary { value: |s, x| s.round(libm::sinh(x)), slope: |s, x| s.round(libm::cosh(x)) }),
    ("cosh", Unary { value: |s, x| s.round(libm::cosh(x)), slope: |s, x| s.round(libm::sinh(x)) }),
];

/// Names and definitions of operators of two tensors.
pub(super) const BINARY: [(&str, Binary); 5] = [
    ("add", Binary { value: |s, a, b| s.add(a, b), slopes: [|_, _, _| 1.0, |_, _, _| 1.0] }),
    ("sub", Binary { value: |s, a, b| s.sub(a, b), slopes: [|_, _, _| 1.0, |_, _, _| -1.0] }),
    ("mul", Binary { value: |s, a, b| s.mul(a, b), slopes: [|_, _, b| b, |_, a, _| a] }),
    ("div", Binary { value: |s, a, b| s.div(a, b), slopes: [|s, _, b| s.div(1.0, b), |s, a, b| -s.div(s.div(a, b), b)] }),
    (
        "maximum",
        Binary {
            value: |_, a, b| if a >= b || a.is_nan() { a } else { b },
            slopes: [|_, a, b| f64::from(u8::from(a >= b)), |_, a, b| f64::from(u8::from(a < b))],
        },
    ),
];

fn square(s: &Steps, x: f64) -> f64 {
    s.mul(x, x)
}

fn sigmoid(s: &Steps, x: f64) -> f64 {
    s.div(1.0, s.add(1.0, s.exp(-x)))
}

/// y (1 - y).
fn sigmoid_slope(s: &Steps, x: f64) -> f64 {
    let y = sigmoid(s, x);
    s.mul(y, s.sub(1.0, y))
}

/// y (1 + x (1 - y)), y = sigmoid(x).
fn silu_slope(s: &Steps, x: f64) -> f64 {
    let y = sigmoid(s, x);
    s.mul(y, s.add(1.0, s.mul(x, s.sub(1.0, y))))
}

/// Φ(x) = (1 + erf(x / sqrt 2)) / 2.
fn normal(s: &Steps, x: f64) -> f64 {
    let erf = s.round(libm::erf(s.mul(x, s.round(FRAC_1_SQRT_2))));
    s.mul(0.5, s.add(1.0, erf))
}

/// Φ(x) + x φ(x), φ(x) = e^(-x²/2) / sqrt(2π).
fn gelu_slope(s: &Steps, x: f64) -> f64 {
    let density = s.mul(s.round(FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0), s.exp(s.mul(-0.5, square(s, x))));
    s.add(normal(s, x), s.mul(x, density))
}

/// sqrt(2/π), and the coefficient of the cube.
const TANH: (f64, f64) = (FRAC_2_SQRT_PI * FRAC_1_SQRT_2, 0.044_715);

fn inner(s: &Steps, x: f64) -> f64 {
    let cube = s.mul(s.round(TANH.1), s.mul(x, square(s, x)));
    s.mul(s.round(TANH.0), s.add(x, cube))
}

/// (1 + t) / 2 + x/2 (1 - t²) sqrt(2/π) (1 + 3 · 0.044715 x²), t = tanh of the inner function.
fn gelu_tanh_slope(s: &Steps, x: f64) -> f64 {
    let t = s.tanh(inner(s, x));
    let of_inner = s.mul(s.round(TANH.0), s.add(1.0, s.mul(s.round(3.0 * TANH.1), square(s, x))));
    let curved = s.mul(s.mul(s.mul(0.5, x), s.sub(1.0, square(s, t))), of_inner);
    s.add(s.mul(0.5, s.add(1.0, t)), curved)
}
