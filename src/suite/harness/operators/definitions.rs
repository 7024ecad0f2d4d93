//! The operators by name: form, inputs, and the kind of operation that rules ask for.

use super::along_axis::{self, AlongAxis};
use super::elementwise::{ACTIVATIONS, BINARY, Binary, FUNCTIONS, STEEP_FUNCTIONS, Unary};
use super::norm::Norm;
use super::steps::Fault;
use crate::verify::profile::Operation;

/// How an operator computes its result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Unary(Unary),
    Binary(Binary),
    AlongAxis(AlongAxis),
    Norm(Norm),
    Matmul,
}

/// An operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition {
    pub name: &'static str,
    pub form: Form,
    pub operation: Operation,
    /// Whether forward and gradient sum over the axis.
    sums: [bool; 2],
}

const NEITHER: [bool; 2] = [false, false];
const FORWARD: [bool; 2] = [true, false];
const BOTH: [bool; 2] = [true, true];

const fn along(name: &'static str, form: AlongAxis, operation: Operation, sums: [bool; 2]) -> Definition {
    Definition { name, form: Form::AlongAxis(form), operation, sums }
}

const fn norm(name: &'static str, norm: Norm) -> Definition {
    Definition { name, form: Form::Norm(norm), operation: Operation::Norm, sums: BOTH }
}

/// Operators other than those of single elements.
const OF_SEVERAL: [Definition; 17] = [
    along("sum", along_axis::SUM, Operation::Sum, FORWARD),
    along("mean", along_axis::MEAN, Operation::Mean, FORWARD),
    along("max", along_axis::MAX, Operation::Copy, NEITHER),
    along("flip", along_axis::FLIP, Operation::Copy, NEITHER),
    along("l2_norm", along_axis::L2_NORM, Operation::Norm, BOTH),
    along("logsumexp", along_axis::LOG_SUM_EXP, Operation::LogSum, BOTH),
    along("softmax", along_axis::SOFTMAX, Operation::Softmax, BOTH),
    along("log_softmax", along_axis::LOG_SOFTMAX, Operation::Softmax, BOTH),
    norm("layer_norm", Norm::Layer),
    norm("rms_norm", Norm::Rms),
    norm("batch_norm", Norm::Batch),
    Definition { name: "matmul", form: Form::Matmul, operation: Operation::Matmul, sums: BOTH },
    along("nearest", along_axis::NEAREST, Operation::Interpolation, NEITHER),
    along("linear", along_axis::LINEAR, Operation::Interpolation, NEITHER),
    along("cumsum", along_axis::CUMSUM, Operation::CumulativeSum, NEITHER),
    // Its rules have no kind for products of prefixes; this is the nearest.
    along("cumprod", along_axis::CUMPROD, Operation::CumulativeSum, NEITHER),
    along("logcumsumexp", along_axis::LOG_CUM_SUM_EXP, Operation::CumulativeLogSum, NEITHER),
];

/// Every operator.
pub(crate) fn definitions() -> impl Iterator<Item = Definition> {
    let unary =
        |operation| move |&(name, unary): &(&'static str, Unary)| Definition { name, form: Form::Unary(unary), operation, sums: NEITHER };
    let binary = |&(name, binary): &(&'static str, Binary)| Definition {
        name,
        form: Form::Binary(binary),
        operation: Operation::Arithmetic,
        sums: NEITHER,
    };
    let functions = ACTIVATIONS.iter().chain(&FUNCTIONS).map(unary(Operation::Function));
    let steep = STEEP_FUNCTIONS.iter().map(unary(Operation::SteepFunction));
    BINARY.iter().map(binary).chain(functions).chain(steep).chain(OF_SEVERAL)
}

impl Definition {
    /// The names of the inputs of the forward pass.
    pub(super) fn inputs(&self) -> &'static [&'static str] {
        match self.form {
            Form::Unary(_) | Form::AlongAxis(_) => &["x"],
            Form::Binary(_) | Form::Matmul => &["a", "b"],
            Form::Norm(Norm::Rms) => &["x", "weight"],
            Form::Norm(_) => &["x", "weight", "bias"],
        }
    }

    /// Whether an element of the result is one of an input, or one times a number: no sum is behind it.
    pub(super) fn moves(&self, gradient: bool) -> bool {
        matches!((self.name, gradient), ("max" | "flip", _) | ("sum" | "mean", true) | ("nearest", false))
    }

    /// Whether a kernel can be broken in this way, with respect to the input `of` for gradients.
    pub(super) fn can_have(&self, fault: Fault, gradient_of: Option<usize>) -> bool {
        match (fault, self.name, gradient_of) {
            (Fault::Neighbour | Fault::Zeros, ..) => true,
            (Fault::Short, _, of) => self.sums[usize::from(of.is_some())],
            (Fault::Unshifted, "logsumexp" | "logcumsumexp" | "softmax" | "log_softmax", _) => true,
            (Fault::Detached, "softmax" | "log_softmax" | "layer_norm" | "rms_norm" | "batch_norm", Some(0)) => true,
            (Fault::Unshifted | Fault::Detached, ..) => false,
        }
    }
}
