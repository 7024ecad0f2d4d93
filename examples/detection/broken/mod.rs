//! The zoo: kernels that are broken as kernels have been, each with its public source.

mod output;
mod products;
mod rows;

pub use products::accumulated_in;

use super::correct::{Order, in_order};
use super::problem::{Input, Operation, Problem};
use hipverify::Result;
use hipverify::dtype::Rounding;

/// Indices off by one or exchanged, bounds moved, barriers and operands removed.
const MUTATION: &str = "GPU mutation operators, Zhu and Zaidman, ICST 2020";

/// A broken kernel.
pub struct Defect {
    pub name: &'static str,
    /// Where such a kernel was reported or described.
    pub source: &'static str,
    pub operations: &'static [Operation],
    pub kernel: Kernel,
}

/// How the result comes about.
pub enum Kernel {
    /// From the operands.
    Operands(fn(&Problem) -> Result<Vec<f32>>),
    /// From a correct result, before it is rounded.
    Result(fn(&Problem, &mut Vec<f32>)),
    /// From a correct result, rounded toward zero.
    Truncated,
}

/// A kernel that computes from the operands.
const fn defect(
    name: &'static str,
    source: &'static str,
    operations: &'static [Operation],
    kernel: fn(&Problem) -> Result<Vec<f32>>,
) -> Defect {
    Defect { name, source, operations, kernel: Kernel::Operands(kernel) }
}

/// The defects by class: of any output, of sums of products, of softmax, norms and elementwise kernels.
pub const CLASSES: [(&str, &[Defect]); 3] =
    [("any output", output::DEFECTS), ("sums of products", products::DEFECTS), ("softmax, norms, elementwise", rows::DEFECTS)];

/// Every defect.
pub fn all() -> impl Iterator<Item = &'static Defect> {
    CLASSES.iter().flat_map(|(_, defects)| defects.iter())
}

/// Why a result of a defect may be hard to tell from correct ones.
pub fn reason(p: &Problem) -> &'static str {
    match (p.operation, p.input) {
        _ if p.formats.output.bits() <= 8 => "what is wrong is less than a rounding to 8 bits explains",
        (Operation::Softmax, Input::Small | Input::Subnormal) => "softmax of inputs near 0: every element is 1/n, up to rounding",
        (Operation::Softmax, _) => "the element is far below the mean of its tensor",
        (Operation::Elementwise, Input::Small | Input::Subnormal) => "inputs near 0: every form of GELU is x/2, up to rounding",
        (Operation::Norm, Input::Small | Input::Subnormal) => "the variance is far below epsilon, which decides alone",
        (Operation::Norm, _) => "the variance is far above epsilon, which changes less than rounding does",
        _ => "what is wrong is less than the roundings of a long sum, or of the result",
    }
}

/// The zoo: name and source of each defect.
pub fn listed() -> String {
    let rows = all().map(|d| format!("| {} | {} |\n", d.name, d.source));
    format!("| broken kernel | after |\n|---|---|\n{}", rows.collect::<String>())
}

impl Defect {
    /// The result in the output's format; `None` where the operation has no such defect.
    pub fn run(&self, p: &Problem) -> Result<Option<Vec<u8>>> {
        if !self.operations.contains(&p.operation) {
            return Ok(None);
        }
        let correct = || in_order(p, Order::Sequential);
        let (values, rounding) = match self.kernel {
            Kernel::Operands(f) => (f(p)?, Rounding::NearestEven),
            Kernel::Result(f) => {
                let mut values = correct();
                f(p, &mut values);
                (values, Rounding::NearestEven)
            }
            Kernel::Truncated => (correct(), Rounding::TowardZero),
        };
        Ok(Some(p.store(&values, rounding)))
    }
}
