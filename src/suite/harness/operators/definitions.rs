//! The operators by name: form, inputs, and the kind of operation that rules ask for.

use super::along_axis::{self, AlongAxis};
use super::attention;
use super::elementwise::{ACTIVATIONS, BINARY, Binary, FUNCTIONS, POW, STEEP_FUNCTIONS, Unary};
use super::norm::Norm;
use super::of_two::{self, OfTwo};
use super::parameters::Parameters;
use super::parametric::{self, Parametric};
use super::predicates::{PREDICATES, Predicate};
use super::steps::Fault;
use crate::verify::profile::Operation;

/// How an operator computes its result.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Unary(Unary),
    Parametric(Parametric),
    Binary(Binary),
    Predicate(Predicate),
    AlongAxis(AlongAxis),
    PNorm,
    /// Below the diagonal, or above.
    Triangle(Triangle),
    OfTwo(OfTwo),
    Norm(Norm),
    Matmul,
    Attention,
}

/// What is kept of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Triangle {
    Lower,
    Upper,
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

const fn parametric(name: &'static str, form: Parametric, operation: Operation) -> Definition {
    Definition { name, form: Form::Parametric(form), operation, sums: NEITHER }
}

const fn of_two(name: &'static str, form: OfTwo) -> Definition {
    Definition { name, form: Form::OfTwo(form), operation: Operation::Softmax, sums: BOTH }
}

/// Operators of single elements beside those that a table of their kind has.
const OF_SINGLE: [Definition; 6] = [
    Definition { name: "pow", form: Form::Binary(POW), operation: Operation::Function, sums: NEITHER },
    parametric("leaky_relu", parametric::LEAKY_RELU, Operation::Function),
    parametric("elu", parametric::ELU, Operation::Function),
    parametric("swish", parametric::SWISH, Operation::Function),
    parametric("stanh", parametric::STANH, Operation::SteepFunction),
    parametric("clip", parametric::CLIP, Operation::Copy),
];

/// Operators other than those of single elements.
const OF_SEVERAL: [Definition; 28] = [
    along("sum", along_axis::SUM, Operation::Sum, FORWARD),
    along("mean", along_axis::MEAN, Operation::Mean, FORWARD),
    along("max", along_axis::MAX, Operation::Copy, NEITHER),
    along("min", along_axis::MIN, Operation::Copy, NEITHER),
    along("argmax", along_axis::ARGMAX, Operation::Copy, NEITHER),
    along("argmin", along_axis::ARGMIN, Operation::Copy, NEITHER),
    // Its rules have no kind for products of all inputs either.
    along("prod", along_axis::PROD, Operation::CumulativeSum, NEITHER),
    along("flip", along_axis::FLIP, Operation::Copy, NEITHER),
    along("l2_norm", along_axis::L2_NORM, Operation::Norm, BOTH),
    Definition { name: "p_norm", form: Form::PNorm, operation: Operation::Norm, sums: BOTH },
    Definition { name: "tril", form: Form::Triangle(Triangle::Lower), operation: Operation::Copy, sums: NEITHER },
    Definition { name: "triu", form: Form::Triangle(Triangle::Upper), operation: Operation::Copy, sums: NEITHER },
    along("logsumexp", along_axis::LOG_SUM_EXP, Operation::LogSum, BOTH),
    along("softmax", along_axis::SOFTMAX, Operation::Softmax, BOTH),
    along("log_softmax", along_axis::LOG_SOFTMAX, Operation::Softmax, BOTH),
    of_two("softmax_with_cross_entropy", of_two::CROSS_ENTROPY),
    of_two("softmax_mask", of_two::SOFTMAX_MASK),
    norm("layer_norm", Norm::Layer),
    norm("rms_norm", Norm::Rms),
    norm("batch_norm", Norm::Batch),
    Definition { name: "matmul", form: Form::Matmul, operation: Operation::Matmul, sums: BOTH },
    Definition { name: "attention", form: Form::Attention, operation: Operation::Matmul, sums: BOTH },
    along("nearest", along_axis::NEAREST, Operation::Interpolation, NEITHER),
    along("linear", along_axis::LINEAR, Operation::Interpolation, NEITHER),
    along("cubic", along_axis::CUBIC, Operation::Interpolation, NEITHER),
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
    let predicate = |&(name, predicate): &(&'static str, Predicate)| Definition {
        name,
        form: Form::Predicate(predicate),
        operation: Operation::Copy,
        sums: NEITHER,
    };
    let elementwise = BINARY.iter().map(binary).chain(functions).chain(steep).chain(OF_SINGLE);
    elementwise.chain(PREDICATES.iter().map(predicate)).chain(OF_SEVERAL)
}

impl Definition {
    /// The names of the inputs of the forward pass.
    pub(super) fn inputs(&self) -> &'static [&'static str] {
        match self.form {
            Form::Unary(_)
            | Form::Parametric(_)
            | Form::AlongAxis(_)
            | Form::PNorm
            | Form::Triangle(_)
            | Form::Predicate(Predicate::One(_)) => &["x"],
            Form::Binary(_) | Form::Matmul | Form::Predicate(Predicate::Two(_)) => &["a", "b"],
            Form::OfTwo(two) => two.inputs,
            Form::Attention => &attention::INPUTS,
            Form::Norm(Norm::Rms) => &["x", "weight"],
            Form::Norm(_) => &["x", "weight", "bias"],
        }
    }

    /// Whether it works along an axis.
    pub(super) fn has_axis(&self) -> bool {
        matches!(self.form, Form::AlongAxis(_) | Form::PNorm | Form::OfTwo(_) | Form::Norm(_))
    }

    /// Numbers of its own.
    pub(super) fn parameters(&self) -> Parameters {
        match self.form {
            Form::Parametric(form) => form.parameters,
            Form::PNorm => Parameters(&[("p", Some(2.0))]),
            Form::Triangle(_) => Parameters(&[("diagonal", Some(0.0))]),
            _ => Parameters(&[]),
        }
    }

    /// Whether its result is a whole number: an index, or 1 for yes and 0 for no. It has no gradient then.
    pub(super) fn counts(&self) -> bool {
        match self.form {
            Form::AlongAxis(along) => along.gradient.is_none(),
            Form::Predicate(_) => true,
            _ => false,
        }
    }

    /// Whether an element of the result is one of an input, or one times a number: no sum is behind it.
    pub(super) fn moves(&self, gradient: bool) -> bool {
        matches!((self.name, gradient), ("max" | "min" | "argmax" | "argmin" | "flip", _) | ("sum" | "mean", true) | ("nearest", false))
    }

    /// Whether a kernel can be broken in this way, with respect to the input `of` for gradients.
    pub(super) fn can_have(&self, fault: Fault, gradient_of: Option<usize>) -> bool {
        match (fault, self.name, gradient_of) {
            (Fault::Neighbour | Fault::Zeros, ..) => true,
            (Fault::Short, _, of) => self.sums[usize::from(of.is_some())],
            (Fault::Unshifted, "logsumexp" | "logcumsumexp" | "softmax" | "log_softmax" | "attention", _) => true,
            (Fault::Unshifted, "softmax_with_cross_entropy" | "softmax_mask", _) => true,
            (Fault::Detached, "softmax" | "log_softmax" | "layer_norm" | "rms_norm" | "batch_norm", Some(0)) => true,
            (Fault::Detached, "softmax_with_cross_entropy", Some(0)) | (Fault::Detached, "softmax_mask" | "attention", Some(0 | 1)) => true,
            (Fault::Unshifted | Fault::Detached, ..) => false,
        }
    }
}
