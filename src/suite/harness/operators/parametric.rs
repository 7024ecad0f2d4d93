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
//! A parameter is rounded to the format of the steps, as a kernel holds it. e^x - 1 is one function, whose digits near 0 a difference would lose.

use super::elementwise::{sigmoid, silu_slope, square};
use super::steps::Steps;
use crate::error::{Error, Result};
use crate::suite::harness::rule::pairs;

/// y of x and g of x and grad, each with the parameters before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parametric {
    /// Names, and what holds where a case says nothing.
    parameters: &'static [(&'static str, Option<f64>)],
    pub value: fn(&Steps, &[f64], f64) -> f64,
    pub gradient: fn(&Steps, &[f64], f64, f64) -> f64,
}

pub(super) const LEAKY_RELU: Parametric = Parametric {
    parameters: &[("slope", Some(0.01))],
    value: |s, p, x| if x > 0.0 { x } else { s.mul(p[0], x) },
    gradient: |s, p, x, g| if x > 0.0 { g } else { s.mul(p[0], g) },
};

pub(super) const ELU: Parametric = Parametric {
    parameters: &[("alpha", Some(1.0))],
    value: |s, p, x| if x > 0.0 { x } else { s.mul(p[0], s.expm1(x)) },
    gradient: |s, p, x, g| if x > 0.0 { g } else { s.mul(g, s.mul(p[0], s.exp(x))) },
};

pub(super) const SWISH: Parametric = Parametric {
    parameters: &[("beta", Some(1.0))],
    value: |s, p, x| s.mul(x, sigmoid(s, s.mul(p[0], x))),
    gradient: |s, p, x, g| s.mul(g, silu_slope(s, s.mul(p[0], x))),
};

pub(super) const STANH: Parametric = Parametric {
    parameters: &[("scale_a", Some(0.67)), ("scale_b", Some(1.7159))],
    value: |s, p, x| s.mul(p[1], s.tanh(s.mul(p[0], x))),
    gradient: |s, p, x, g| s.mul(g, s.mul(s.mul(p[0], p[1]), square(s, s.div(1.0, s.cosh(s.mul(p[0], x)))))),
};

pub(super) const CLIP: Parametric = Parametric {
    parameters: &[("min", None), ("max", None)],
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

impl Parametric {
    /// The names of the parameters.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.parameters.iter().map(|(name, _)| *name)
    }

    /// Reads `slope=0.1`, `min=-1,max=1`, in the order of the names.
    ///
    /// # Errors
    /// When a name is none of the operator's, a value is no finite number, one is missing that has no default, or `min` is above `max`.
    pub(super) fn read(&self, text: &str) -> Result<Vec<f64>> {
        let wrong = |limit: String| Error::InvalidArgument { what: "parameters of an operator", value: text.to_owned(), limit };
        let given = if text.is_empty() { Vec::new() } else { pairs(text).map_err(wrong)? };
        let names = || self.names().collect::<Vec<_>>().join(" ");
        if let Some((name, _)) = given.iter().find(|(name, _)| self.names().all(|known| known != *name)) {
            return Err(wrong(format!("`{name}` is none of its parameters: {}", names())));
        }
        let number = |(name, default): &(&str, Option<f64>)| match given.iter().find(|(given, _)| given == name) {
            None => default.ok_or_else(|| wrong(format!("`{name}` is missing; it takes {}", names()))),
            Some((_, value)) => value
                .as_float()
                .or(value.as_integer().map(|x| x as f64))
                .filter(|x| x.is_finite())
                .ok_or_else(|| wrong(format!("{name}: a finite number is wanted, not {value}"))),
        };
        let values = self.parameters.iter().map(number).collect::<Result<Vec<f64>>>()?;
        match (self.parameters, values.as_slice()) {
            ([("min", _), ("max", _)], [min, max]) if min > max => Err(wrong("min must not be above max".to_owned())),
            _ => Ok(values),
        }
    }
}
