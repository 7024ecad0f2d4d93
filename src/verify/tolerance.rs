//! Tolerances: given, or derived from number formats and the number of accumulations.

use crate::dtype::{DType, Element};
use crate::error::{Error, Result};

/// How far a result may be from its reference: element i passes when `|a - r| <= fma(rtol, |r|, atol)`.
///
/// The derived form follows Composable Kernel's rule for its `gpu_verify`, extended to every format:
/// with u(T) = 2^-(mantissa bits + 1) the unit roundoff,
///
/// * rtol = max(u(compute), u(output), n · u(accumulator)) for n accumulations;
/// * atol = max|reference| · rtol, one number for the whole tensor;
/// * both are 0 as soon as one of the three formats is an integer.
///
/// With many accumulations in a small format this becomes so loose that a comparison can hardly fail (f16 accumulators,
/// n = 1000: rtol 0.49); the report then says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance(Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Given { rtol: f64, atol: f64 },
    Derived { rtol: f64 },
}

impl Tolerance {
    /// Explicit tolerances.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when either is negative, infinite or NaN.
    pub fn new(rtol: f64, atol: f64) -> Result<Tolerance> {
        for (what, value) in [("rtol", rtol), ("atol", atol)] {
            if !(0.0..f64::INFINITY).contains(&value) {
                let limit = "a tolerance is a finite number, 0 or larger".to_owned();
                return Err(Error::InvalidArgument { what, value: value.to_string(), limit });
            }
        }
        Ok(Tolerance(Kind::Given { rtol, atol }))
    }

    /// Nothing but equality passes (zeros of both signs are equal).
    pub fn exact() -> Tolerance {
        Tolerance(Kind::Given { rtol: 0.0, atol: 0.0 })
    }

    /// Derived from the formats of a product's inputs, output and accumulator, and its number of accumulations
    /// (K of a GEMM, C·Y·X of a convolution).
    ///
    /// ```
    /// use hipverify::{dtype::F16, verify::Tolerance};
    /// assert_eq!(Tolerance::gemm::<F16, F16, f32>(256).rtol(), 2f64.powi(-11));
    /// ```
    pub fn gemm<Compute: Element, Output: Element, Accumulator: Element>(accumulations: usize) -> Tolerance {
        Tolerance::derived(Compute::DTYPE, Output::DTYPE, Accumulator::DTYPE, accumulations)
    }

    /// [`Tolerance::gemm`] for formats known at run time.
    pub fn derived(compute: DType, output: DType, accumulator: DType, accumulations: usize) -> Tolerance {
        Tolerance(Kind::Derived { rtol: relative_threshold(compute, output, accumulator, accumulations) })
    }

    /// The relative tolerance.
    pub fn rtol(&self) -> f64 {
        match self.0 {
            Kind::Given { rtol, .. } | Kind::Derived { rtol } => rtol,
        }
    }

    /// The absolute tolerance for a reference whose largest finite magnitude is `max_abs`.
    pub fn atol(&self, max_abs: f64) -> f64 {
        match self.0 {
            Kind::Given { atol, .. } => atol,
            Kind::Derived { rtol } => absolute_threshold(max_abs, rtol),
        }
    }

    /// Whether [`atol`](Tolerance::atol) depends on the reference.
    pub(crate) fn needs_max(&self) -> bool {
        matches!(self.0, Kind::Derived { .. })
    }
}

/// max(u(compute), u(output), n · u(accumulator)); 0 when any of the three is an integer format.
/// Source: Composable Kernel, `get_relative_threshold`.
pub fn relative_threshold(compute: DType, output: DType, accumulator: DType, accumulations: usize) -> f64 {
    match (compute.float_format(), output.float_format(), accumulator.float_format()) {
        (Some(c), Some(o), Some(a)) => c.unit_roundoff().max(o.unit_roundoff()).max(accumulations as f64 * a.unit_roundoff()),
        _ => 0.0,
    }
}

/// max|reference| · rtol, saturated to a finite number. Source: Composable Kernel, `get_absolute_threshold`, where
/// 2^log2(max) is computed without rounding the logarithm down.
pub fn absolute_threshold(max_abs: f64, relative: f64) -> f64 {
    (max_abs * relative).min(f64::MAX)
}
