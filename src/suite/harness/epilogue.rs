//! What a GEMM of a suite does with its sums of products: `result = activation(alpha·A·B + beta·C + bias)`.

use super::cases::Values;
use crate::error::{Error, Result};
use crate::reference::Epilogue;
use std::fmt;

/// The scalars, the operands beside A and B, and the activation of a GEMM.
///
/// The inputs of a case are A and B, `c` where beta is not 0, `bias` where there is one, and `scale_a` and `scale_b` of [operands with scales](super::BlockScales), in this order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GemmEpilogue {
    alpha: f64,
    /// `None` where the table has no such key.
    beta: Option<f64>,
    bias: Option<bool>,
    activation: Epilogue,
}

impl Default for GemmEpilogue {
    fn default() -> GemmEpilogue {
        GemmEpilogue { alpha: 1.0, beta: None, bias: None, activation: Epilogue::None }
    }
}

impl GemmEpilogue {
    /// Reads the keys of a `[[gemm]]` table.
    pub(crate) fn new<'c>(of: &impl Fn(&str) -> Values<'c>) -> Result<GemmEpilogue> {
        let given = |key: &str| !of(key).text("").is_empty();
        let scalar = |key: &str, default: &str| match of(key).number::<f64>(default, "a number")? {
            x if x.is_finite() => Ok(x),
            x => Err(of(key).error(format!("{key} cannot be {x}: it must be a finite number"))),
        };
        let beta = scalar("beta", "0")?;
        let bias: bool = of("bias").parsed("false")?;
        let activation = match of("activation").text("none") {
            "none" => Epilogue::None,
            "relu" => Epilogue::Relu,
            other => return Err(of("activation").error(format!("activation cannot be {other}: it must be none or relu"))),
        };
        let (beta, bias) = (given("beta").then_some(beta), given("bias").then_some(bias));
        Ok(GemmEpilogue { alpha: scalar("alpha", "1")?, beta, bias, activation })
    }

    /// The factor of A·B.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The factor of C; where it is 0, there is no C.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta.unwrap_or(0.0)
    }

    /// Whether a vector is added to every row.
    #[must_use]
    pub fn bias(&self) -> bool {
        self.bias == Some(true)
    }

    /// What happens last.
    #[must_use]
    pub fn activation(&self) -> Epilogue {
        self.activation
    }

    /// Whether the result is a multiple of A·B.
    pub(crate) fn is_multiple(&self) -> bool {
        self.beta() == 0.0 && !self.bias() && self.activation == Epilogue::None
    }

    /// Numbers that are added to a sum of products.
    pub(crate) fn additions(&self) -> usize {
        usize::from(self.beta() != 0.0) + usize::from(self.bias())
    }

    /// The inputs beside A and B, of a result of `m` x `n` with these extents.
    pub(crate) fn inputs(&self, result: Vec<usize>, n: usize) -> Vec<(&'static str, Vec<usize>)> {
        let c = (self.beta() != 0.0).then_some(("c", result));
        c.into_iter().chain(self.bias().then_some(("bias", vec![n]))).collect()
    }

    /// Whether a table speaks of the input of that name, which need not be there in each case of it.
    pub(crate) fn may_have(&self, input: &str) -> bool {
        input == "c" && self.beta.is_some() || input == "bias" && self.bias.is_some()
    }

    /// The scalars by name.
    pub(crate) fn scalars(&self) -> [(&'static str, f64); 2] {
        [("alpha", self.alpha), ("beta", self.beta())]
    }

    /// Whether the activation is a ReLU, as a number.
    pub(crate) fn relu(&self) -> usize {
        usize::from(self.activation == Epilogue::Relu)
    }

    /// For `case.json`.
    pub(crate) fn described(&self) -> serde_json::Value {
        let activation = if self.relu() == 1 { "relu" } else { "none" };
        serde_json::json!({ "alpha": self.alpha, "beta": self.beta(), "bias": self.bias(), "activation": activation })
    }

    /// The mean of |alpha A B| + |beta C| + |bias|, by which rounding is judged: where terms cancel, or the activation leaves zeros, the result's own mean says nothing of how large
    /// the numbers were that were rounded. `mean` gives the mean magnitude of A·B without a name, and of an input by its own.
    pub(crate) fn magnitude(&self, mut mean: impl FnMut(Option<&str>) -> Result<f64>) -> Result<f64> {
        let mut sum = self.alpha.abs() * mean(None)?;
        if self.beta() != 0.0 {
            sum += self.beta().abs() * mean(Some("c"))?;
        }
        if self.bias() {
            sum += mean(Some("bias"))?;
        }
        if sum < f64::INFINITY {
            return Ok(sum);
        }
        // Saturated it would pass whatever is finite.
        let limit = "the rule rounding needs a number of f64; give atol".to_owned();
        Err(Error::InvalidArgument { what: TERMS, value: sum.to_string(), limit })
    }
}

impl fmt::Display for GemmEpilogue {
    /// What is not there by default, each after a comma.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, x) in self.scalars().into_iter().zip([1.0, 0.0]).filter(|((_, x), default)| x != default).map(|(scalar, _)| scalar) {
            write!(f, ", {name} {x}")?;
        }
        f.write_str(if self.bias() { ", bias" } else { "" })?;
        f.write_str(if self.relu() == 1 { ", relu" } else { "" })
    }
}

/// What rounding is judged by.
pub(crate) const TERMS: &str = "mean of |alpha A B| + |beta C| + |bias|";

/// The same of a GEMM whose operands have scales: the mean of A B is as much larger as the largest sum of its magnitudes is than the mean one.
pub(crate) const SCALED_TERMS: &str = "mean of |alpha A B| (times the largest sum |a||b| over the mean one) + |beta C| + |bias|";
