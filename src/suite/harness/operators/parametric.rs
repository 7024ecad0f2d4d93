//! Functions of single elements that have numbers of their own: y = f(x; p), with their derivatives.
//!
//! A case gives the numbers by `parameters = "slope=0.1"`; those that it does not name are the ones that Paddle has where nothing is said, and `clip` has none.
//!
//! | operator | parameters | y | dx |
//! |---|---|---|---|
//! | leaky_relu | slope = 0.01 | x where x > 0, else slope x | g where x > 0, else slope g |
//! | elu | alpha = 1 | x where x > 0, else alpha (e^x - 1) | g where x > 0, else g alpha e^x |
//! | swish | beta = 1 | x σ(beta x) | g σ(beta x) (1 + beta x σ(-beta x)) |
//! | stanh | scale_a = 0.67, scale_b = 1.7159 | scale_b tanh(scale_a x) | g scale_a scale_b / cosh²(scale_a x) |
//! | clip | min, max | min where x < min, max where x > max, else x | g where min <= x <= max, else 0 |
//!
//! e^x - 1 is one function, whose digits near 0 a difference would lose.

use super::elementwise::{sigmoid, silu_slope, square};
use super::parameters::Parameters;
use super::steps::Steps;

/// y of x and g of x and grad, each with the parameters before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parametric {
    pub parameters: Parameters,
    pub value: fn(&Steps, &[f64], f64) -> f64,
    pub gradient: fn(&Steps, &[f64], f64, f64) -> f64,
}

pub(super) const LEAKY_RELU: Parametric = Parametric {
    parameters: Parameters(&[("slope", Some(0.01))]),
    value: |s, p, x| if x > 0.0 { x } else { s.mul(p[0], x) },
    gradient: |s, p, x, g| if x > 0.0 { g } else { s.mul(p[0], g) },
};

pub(super) const ELU: Parametric = Parametric {
    parameters: Parameters(&[("alpha", Some(1.0))]),
    value: |s, p, x| if x > 0.0 { x } else { s.mul(p[0], s.expm1(x)) },
    gradient: |s, p, x, g| if x > 0.0 { g } else { s.mul(g, s.mul(p[0], s.exp(x))) },
};

pub(super) const SWISH: Parametric = Parametric {
    parameters: Parameters(&[("beta", Some(1.0))]),
    value: |s, p, x| s.mul(x, sigmoid(s, s.mul(p[0], x))),
    gradient: |s, p, x, g| s.mul(g, silu_slope(s, s.mul(p[0], x))),
};

pub(super) const STANH: Parametric = Parametric {
    parameters: Parameters(&[("scale_a", Some(0.67)), ("scale_b", Some(1.7159))]),
    value: |s, p, x| s.mul(p[1], s.tanh(s.mul(p[0], x))),
    gradient: |s, p, x, g| s.mul(g, s.mul(s.mul(p[0], p[1]), square(s, s.div(1.0, s.cosh(s.mul(p[0], x)))))),
};

pub(super) const CLIP: Parametric = Parametric {
    parameters: Parameters(&[("min", None), ("max", None)]),
    value: |_, p, x| {
        if x < p[0] {
            p[0]
        } else if x > p[1] {
            p[1]
        } else {
            x
        }
    },
    gradient: |_, p, x, g| if p[0] <= x && x <= p[1] { g } else { 0.0 },
};
