//! Operators of single elements: y = f(x) and y = f(a, b), with their derivatives.
//!
//! A gradient is grad f', one product after f'. Where it is grad or 0 by a comparison (relu, maximum), one of the two is chosen: a product would make NaN of 0 times an infinite
//! grad. At a corner it is 0 (relu and abs at 0), that of what lies outside (at the ends of hardsigmoid, hardswish, relu6), or that of the first input (maximum of equal numbers);
//! where a >= b does not hold, as beside a NaN, the second input has all of it.
//!
//! Where a formula would lose digits, the result as the small difference of two numbers near 1, another form of it stands here:
//! 1 - y of a sigmoid is σ(-x), 1 + erf(x) is erfc(-x), 1 + tanh(x) is 2 σ(2 x), 1 - tanh² is 1 / cosh², and tanh(log(1 + e^x)) a quotient of sums of positive powers of e^-|x|.

use super::steps::Steps;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LN_10};

/// f of x, and the gradient of x and grad.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unary {
    pub value: fn(&Steps, f64) -> f64,
    pub gradient: fn(&Steps, f64, f64) -> f64,
}

/// A gradient of a, b and grad.
type OfPair = fn(&Steps, f64, f64, f64) -> f64;

/// f of a and b, and the gradients with respect to both, each of a, b and grad.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binary {
    pub value: fn(&Steps, f64, f64) -> f64,
    pub gradients: [OfPair; 2],
}

/// Names and definitions of activations.
pub(super) const ACTIVATIONS: [(&str, Unary); 14] = [
    // max(x, 0); a NaN stays one.
    ("relu", Unary { value: |_, x| if x <= 0.0 { 0.0 } else { x }, gradient: |_, x, g| if x > 0.0 { g } else { 0.0 } }),
    ("sigmoid", Unary { value: sigmoid, gradient: |s, x, g| s.mul(g, s.mul(sigmoid(s, x), sigmoid(s, -x))) }),
    ("tanh", Unary { value: |s, x| s.tanh(x), gradient: |s, x, g| s.mul(g, square(s, s.div(1.0, s.cosh(x)))) }),
    // x sigmoid(x), also called swish.
    ("silu", Unary { value: |s, x| s.mul(x, sigmoid(s, x)), gradient: |s, x, g| s.mul(g, silu_slope(s, x)) }),
    // x Φ(x), Φ the distribution of the normal numbers (Hendrycks and Gimpel, arXiv 1606.08415).
    ("gelu", Unary { value: |s, x| s.mul(x, normal(s, x)), gradient: |s, x, g| s.mul(g, gelu_slope(s, x)) }),
    // The approximation of the same paper, x/2 (1 + tanh(v)), v = sqrt(2/π) (x + 0.044715 x³), as x σ(2 v).
    ("gelu_tanh", Unary { value: |s, x| s.mul(x, sigmoid(s, twice_inner(s, x))), gradient: |s, x, g| s.mul(g, gelu_tanh_slope(s, x)) }),
    // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
    ("softplus", Unary { value: |s, x| s.add(x.max(0.0), s.log1p(s.exp(-x.abs()))), gradient: |s, x, g| s.mul(g, sigmoid(s, x)) }),
    // log σ(x) = -softplus(-x).
    ("log_sigmoid", Unary { value: |s, x| s.sub(x.min(0.0), s.log1p(s.exp(-x.abs()))), gradient: |s, x, g| s.mul(g, sigmoid(s, -x)) }),
    // min(max(x, 0), 6) (Howard et al., arXiv 1704.04861); hardsigmoid is relu6(x + 3) / 6, hardswish x times that (arXiv 1905.02244).
    ("relu6", Unary { value: |_, x| of_ramp(x, 0.0, [0.0, 6.0], |x| x), gradient: |_, x, g| of_ramp(x, 0.0, [0.0, 0.0], |_| g) }),
    ("hardsigmoid", Unary { value: hardsigmoid, gradient: |s, x, g| of_ramp(x, -3.0, [0.0, 0.0], |_| s.div(g, 6.0)) }),
    ("hardswish", Unary { value: hardswish, gradient: |s, x, g| of_ramp(x, -3.0, [0.0, g], |x| s.mul(g, hardswish_slope(s, x))) }),
    // Klambauer et al., arXiv 1706.02515, with both numbers to 16 digits.
    (
        "selu",
        Unary {
            value: |s, x| s.mul(s.round(SELU.0), if x > 0.0 { x } else { s.mul(s.round(SELU.1), s.expm1(x)) }),
            gradient: |s, x, g| s.mul(g, s.mul(s.round(SELU.0), if x > 0.0 { 1.0 } else { s.mul(s.round(SELU.1), s.exp(x)) })),
        },
    ),
    ("softsign", Unary { value: |s, x| s.div(x, s.add(1.0, x.abs())), gradient: |s, x, g| s.div(g, square(s, s.add(1.0, x.abs()))) }),
    // x tanh(log(1 + e^x)) (Misra, arXiv 1908.08681).
    ("mish", Unary { value: |s, x| s.mul(x, mish_factor(s, x)), gradient: |s, x, g| s.mul(g, mish_slope(s, x)) }),
];

/// Names and definitions of functions whose gradients are not steep.
pub(super) const FUNCTIONS: [(&str, Unary); 12] = [
    ("log", Unary { value: |s, x| s.log(x), gradient: |s, x, g| s.mul(g, s.div(1.0, x)) }),
    ("sqrt", Unary { value: |s, x| s.sqrt(x), gradient: |s, x, g| s.mul(g, s.div(0.5, s.sqrt(x))) }),
    ("rsqrt", Unary { value: |s, x| s.div(1.0, s.sqrt(x)), gradient: |s, x, g| s.mul(g, s.div(s.div(-0.5, s.sqrt(x)), x)) }),
    ("sin", Unary { value: |s, x| s.round(libm::sin(x)), gradient: |s, x, g| s.mul(g, s.round(libm::cos(x))) }),
    ("cos", Unary { value: |s, x| s.round(libm::cos(x)), gradient: |s, x, g| s.mul(g, -s.round(libm::sin(x))) }),
    (
        "abs",
        Unary {
            value: |_, x| x.abs(),
            gradient: |_, x, g| {
                if x > 0.0 {
                    g
                } else if x < 0.0 {
                    -g
                } else {
                    0.0
                }
            },
        },
    ),
    ("log1p", Unary { value: |s, x| s.log1p(x), gradient: |s, x, g| s.div(g, s.add(1.0, x)) }),
    ("log2", Unary { value: |s, x| s.round(libm::log2(x)), gradient: |s, x, g| s.div(g, s.mul(x, s.round(LN_2))) }),
    ("log10", Unary { value: |s, x| s.round(libm::log10(x)), gradient: |s, x, g| s.div(g, s.mul(x, s.round(LN_10))) }),
    (
        "erf",
        Unary { value: |s, x| s.round(libm::erf(x)), gradient: |s, x, g| s.mul(g, s.mul(s.round(FRAC_2_SQRT_PI), s.exp(-square(s, x)))) },
    ),
    ("atan", Unary { value: |s, x| s.round(libm::atan(x)), gradient: |s, x, g| s.div(g, s.add(1.0, square(s, x))) }),
    ("asinh", Unary { value: |s, x| s.round(libm::asinh(x)), gradient: |s, x, g| s.div(g, s.sqrt(s.add(1.0, square(s, x)))) }),
];

/// Names and definitions of functions with steep gradients.
pub(super) const STEEP_FUNCTIONS: [(&str, Unary); 7] = [
    ("exp", Unary { value: |s, x| s.exp(x), gradient: |s, x, g| s.mul(g, s.exp(x)) }),
    ("expm1", Unary { value: |s, x| s.expm1(x), gradient: |s, x, g| s.mul(g, s.exp(x)) }),
    ("square", Unary { value: square, gradient: |s, x, g| s.mul(g, s.mul(2.0, x)) }),
    ("reciprocal", Unary { value: |s, x| s.div(1.0, x), gradient: |s, x, g| s.mul(g, -square(s, s.div(1.0, x))) }),
    ("tan", Unary { value: |s, x| s.round(libm::tan(x)), gradient: |s, x, g| s.mul(g, s.add(1.0, square(s, s.round(libm::tan(x))))) }),
    ("sinh", Unary { value: |s, x| s.round(libm::sinh(x)), gradient: |s, x, g| s.mul(g, s.cosh(x)) }),
    ("cosh", Unary { value: |s, x| s.cosh(x), gradient: |s, x, g| s.mul(g, s.round(libm::sinh(x))) }),
];

/// Names and definitions of operators of two tensors.
pub(super) const BINARY: [(&str, Binary); 6] = [
    ("add", Binary { value: |s, a, b| s.add(a, b), gradients: [|_, _, _, g| g, |_, _, _, g| g] }),
    ("sub", Binary { value: |s, a, b| s.sub(a, b), gradients: [|_, _, _, g| g, |_, _, _, g| -g] }),
    ("mul", Binary { value: |s, a, b| s.mul(a, b), gradients: [|s, _, b, g| s.mul(g, b), |s, a, _, g| s.mul(g, a)] }),
    ("div", Binary { value: |s, a, b| s.div(a, b), gradients: [|s, _, b, g| s.div(g, b), |s, a, b, g| s.mul(g, -s.div(s.div(a, b), b))] }),
    (
        "maximum",
        Binary {
            value: |_, a, b| if a >= b || a.is_nan() { a } else { b },
            gradients: [|_, a, b, g| if a >= b { g } else { 0.0 }, |_, a, b, g| if a >= b { 0.0 } else { g }],
        },
    ),
    (
        "minimum",
        Binary {
            value: |_, a, b| if a <= b || a.is_nan() { a } else { b },
            gradients: [|_, a, b, g| if a <= b { g } else { 0.0 }, |_, a, b, g| if a <= b { 0.0 } else { g }],
        },
    ),
];

/// a^b.
pub(super) const POW: Binary = Binary {
    value: |s, a, b| s.pow(a, b),
    gradients: [|s, a, b, g| s.mul(g, pow_of_base(s, a, b)), |s, a, b, g| s.mul(g, pow_of_exponent(s, a, b))],
};

/// b a^(b-1), the slope of a constant where b is 0.
fn pow_of_base(s: &Steps, a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { s.mul(b, s.pow(a, s.sub(b, 1.0))) }
}

/// a^b log a, which goes to 0 with a where b is positive.
fn pow_of_exponent(s: &Steps, a: f64, b: f64) -> f64 {
    if a == 0.0 && b > 0.0 { 0.0 } else { s.mul(s.pow(a, b), s.log(a)) }
}

pub(super) fn square(s: &Steps, x: f64) -> f64 {
    s.mul(x, x)
}

pub(super) fn sigmoid(s: &Steps, x: f64) -> f64 {
    s.div(1.0, s.add(1.0, s.exp(-x)))
}

/// y (1 + x (1 - y)), y = sigmoid(x).
pub(super) fn silu_slope(s: &Steps, x: f64) -> f64 {
    s.mul(sigmoid(s, x), s.add(1.0, s.mul(x, sigmoid(s, -x))))
}

/// Below a ramp of length 6, above it, and what `inside` gives; a NaN is inside.
fn of_ramp(x: f64, start: f64, [below, above]: [f64; 2], inside: impl Fn(f64) -> f64) -> f64 {
    if x <= start {
        below
    } else if x >= start + 6.0 {
        above
    } else {
        inside(x)
    }
}

fn hardsigmoid(s: &Steps, x: f64) -> f64 {
    of_ramp(x, -3.0, [0.0, 1.0], |x| s.div(s.add(x, 3.0), 6.0))
}

/// x (x + 3) / 6.
fn hardswish(s: &Steps, x: f64) -> f64 {
    of_ramp(x, -3.0, [0.0, x], |x| s.div(s.mul(x, s.add(x, 3.0)), 6.0))
}

/// (2 x + 3) / 6.
fn hardswish_slope(s: &Steps, x: f64) -> f64 {
    s.div(s.add(s.mul(2.0, x), 3.0), 6.0)
}

/// Scale, and the factor of e^x - 1.
const SELU: (f64, f64) = (1.050_700_987_355_480_5, 1.673_263_242_354_377_2);

/// The numerator and the denominator of tanh(log(1 + e^x)), with e = e^-|x|: e (e + 2) and that plus 2 for x <= 0, else 1 + 2 e and that plus 2 e².
fn mish_quotient(s: &Steps, x: f64) -> (f64, f64) {
    let e = s.exp(-x.abs());
    let (numerator, more) = if x <= 0.0 { (s.mul(e, s.add(e, 2.0)), 2.0) } else { (s.add(1.0, s.mul(2.0, e)), s.mul(2.0, square(s, e))) };
    (numerator, s.add(numerator, more))
}

fn mish_factor(s: &Steps, x: f64) -> f64 {
    let (numerator, denominator) = mish_quotient(s, x);
    s.div(numerator, denominator)
}

/// t + x (1 - t²) σ(x), t = tanh(log(1 + e^x)): the root of 1 - t² is 2 (1 + e) over the denominator, times e for x > 0.
fn mish_slope(s: &Steps, x: f64) -> f64 {
    let (numerator, denominator) = mish_quotient(s, x);
    let e = s.exp(-x.abs());
    let root = s.div(s.mul(2.0, s.add(1.0, e)), denominator);
    let root = if x <= 0.0 { root } else { s.mul(e, root) };
    s.add(s.div(numerator, denominator), s.mul(s.mul(x, square(s, root)), sigmoid(s, x)))
}

/// Φ(x) = erfc(-x / sqrt 2) / 2.
fn normal(s: &Steps, x: f64) -> f64 {
    s.mul(0.5, s.round(libm::erfc(s.mul(-x, s.round(FRAC_1_SQRT_2)))))
}

/// Φ(x) + x φ(x), φ(x) = e^(-x²/2) / sqrt(2π).
fn gelu_slope(s: &Steps, x: f64) -> f64 {
    let density = s.mul(s.round(FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0), s.exp(s.mul(-0.5, square(s, x))));
    s.add(normal(s, x), s.mul(x, density))
}

/// sqrt(2/π), and the coefficient of the cube.
const TANH: (f64, f64) = (FRAC_2_SQRT_PI * FRAC_1_SQRT_2, 0.044_715);

/// 2 v, v = sqrt(2/π) (x + 0.044715 x³).
fn twice_inner(s: &Steps, x: f64) -> f64 {
    let cube = s.mul(s.round(TANH.1), s.mul(x, square(s, x)));
    s.mul(s.round(2.0 * TANH.0), s.add(x, cube))
}

/// σ(2 v) (1 + x σ(-2 v) 2 v'), 2 v' = 2 sqrt(2/π) (1 + 3 · 0.044715 x²).
fn gelu_tanh_slope(s: &Steps, x: f64) -> f64 {
    let twice = twice_inner(s, x);
    let of_twice = s.mul(s.round(2.0 * TANH.0), s.add(1.0, s.mul(s.round(3.0 * TANH.1), square(s, x))));
    s.mul(sigmoid(s, twice), s.add(1.0, s.mul(s.mul(x, sigmoid(s, -twice)), of_twice)))
}
