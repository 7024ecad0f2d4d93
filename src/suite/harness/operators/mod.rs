//! Operators of neural networks with their gradients: what the cases of `[[operator]]` tables compute.
//!
//! An [`Operator`] is an operator of [`definitions`] with a pass, extents and an axis. In: tensors of a 16- or 32-bit format, dense, in row-major order. Out: the result of the
//! forward pass, or the gradient with respect to one input: Σ grad ∂y/∂input, where `grad`, the gradient of the result, is the last input. A gradient is a function of the
//! inputs and `grad` alone; what a forward pass would have kept is computed again.
//!
//! Invariant: each operator has one definition, in terms of [`Steps`]. The reference takes it in f64 without any rounding in between, a kernel under test in a format of its
//! own, and neither depends on devices or threads.
//!
//! | definitions in words, with their sources | file |
//! |---|---|
//! | elementwise arithmetic, functions, activations | [`elementwise`] |
//! | functions with numbers of their own | [`parametric`] |
//! | comparisons, questions to single elements | [`predicates`] |
//! | reductions, softmax, cumulative operators, interpolation | [`along_axis`] |
//! | cross entropy, softmax with a mask | [`of_two`] |
//! | attention | [`attention`] |
//! | layer, RMS and batch normalisation | [`norm`] |
//! | C = A B, dA = grad Bᵀ, dB = Aᵀ grad, batch by batch; a sum begins at 0 and takes product after product | here |

mod along_axis;
mod attention;
mod definitions;
mod elementwise;
mod norm;
mod of_two;
mod parameters;
mod parametric;
mod predicates;
mod shape;
mod steps;
#[cfg(test)]
mod tests;

pub(crate) use steps::Steps;

use super::cases::Values;
use super::formats::of_operator;
use super::keys::suggestion;
use super::problem::Product;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::verify::profile::Operation;
use along_axis::{AlongAxis, Length};
use attention::Attention;
use definitions::{Definition, Form, Triangle, definitions};
use norm::Norm;
use of_two::OfTwo;
use predicates::Predicate;
use shape::Strided;
use steps::Fault;

/// The formats that operators compute on.
const FORMATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// What is computed of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Its result.
    Forward,
    /// The gradient with respect to one input.
    Gradient,
}

/// An operator on tensors of certain extents.
#[derive(Debug, Clone)]
pub struct Operator {
    definition: Definition,
    /// For a gradient the input that it is with respect to.
    gradient_of: Option<usize>,
    /// Extents of the first input of the forward pass; for matmul none.
    extents: Vec<usize>,
    axis: usize,
    resized: usize,
    product: Option<Product>,
    attention: Option<Attention>,
    /// Numbers of its own, in the order of the definition.
    parameters: Vec<f64>,
}

impl Operator {
    /// Reads the keys of an `[[operator]]` table.
    pub(crate) fn new<'c>(of: &impl Fn(&str) -> Values<'c>) -> Result<Operator> {
        let needed = |key: &str| match of(key).text("") {
            "" => Err(of(key).error(format!("`{key}` is missing"))),
            text => Ok(text.to_owned()),
        };
        let name = needed("operator")?;
        let Some(definition) = definitions().find(|d| d.name == name) else {
            let near = suggestion(&name, definitions().map(|d| d.name));
            return Err(of("operator").error(format!("unknown operator `{name}`; {near}")));
        };
        let input = of_operator(of)?;
        Operator::expect_format(input).map_err(|e| of("type").error(e))?;
        let gradient_of = gradient_of(&definition, of)?;
        let shape = needed("shape")?;
        let (extents, product) = match definition.form {
            Form::Matmul => (Vec::new(), Some(product(&shape).map_err(|e| of("shape").error(e))?)),
            _ => (shape::extents(&shape).map_err(|e| of("shape").error(e))?, None),
        };
        let only = |key: &str, allowed: bool| match allowed || of(key).text("").is_empty() {
            true => Ok(()),
            false => Err(of(key).error(format!("`{key}` is not for {name}"))),
        };
        let has_axis = definition.has_axis();
        only("axis", has_axis)?;
        let axis = if has_axis { shape::axis(of("axis").text("-1"), &extents).map_err(|e| of("axis").error(e))? } else { 0 };
        let has_resized = matches!(definition.form, Form::AlongAxis(along) if along.length == Length::Resized);
        only("resized", has_resized)?;
        let resized = if has_resized { resized(&needed("resized")?, &extents, axis).map_err(|e| of("resized").error(e))? } else { 0 };
        let attention = match definition.form {
            Form::Attention => {
                let causal = of("causal").parsed("false")?;
                Some(Attention::new(&extents, causal).map_err(|e| of("shape").error(e))?)
            }
            _ => only("causal", false).map(|()| None)?,
        };
        only("parameters", definition.parameters().names().next().is_some())?;
        let parameters = definition.parameters().read(of("parameters").text(""), input).map_err(|e| of("parameters").error(e))?;
        if matches!(definition.form, Form::Triangle(_)) && extents.len() < 2 {
            return Err(of("shape").error(format!("{name} is of matrices: shape takes at least two extents")));
        }
        Ok(Operator { definition, gradient_of, extents, axis, resized, product, attention, parameters })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.definition.name
    }

    /// What is computed of it.
    #[must_use]
    pub fn pass(&self) -> Pass {
        if self.gradient_of.is_some() { Pass::Gradient } else { Pass::Forward }
    }

    /// For a gradient the name of the input that it is with respect to.
    #[must_use]
    pub fn gradient_of(&self) -> Option<&'static str> {
        self.gradient_of.map(|input| self.definition.inputs()[input])
    }

    /// The axis of reductions, softmax, normalisations, cumulative operators and interpolations, from 0.
    #[must_use]
    pub fn axis(&self) -> Option<usize> {
        self.definition.has_axis().then_some(self.axis)
    }

    /// Names and extents of the inputs: those of the forward pass, then `grad` for a gradient.
    #[must_use]
    pub fn inputs(&self) -> Vec<(&'static str, Vec<usize>)> {
        let mut inputs: Vec<_> = self.definition.inputs().iter().enumerate().map(|(i, name)| (*name, self.input(i))).collect();
        if self.gradient_of.is_some() {
            inputs.push(("grad", self.forward()));
        }
        inputs
    }

    /// The extents of what is computed.
    #[must_use]
    pub fn output(&self) -> Vec<usize> {
        self.gradient_of.map_or_else(|| self.forward(), |input| self.input(input))
    }

    fn input(&self, number: usize) -> Vec<usize> {
        match (&self.product, self.definition.form) {
            (Some(product), _) => product.operand(number),
            (None, Form::Norm(_)) if number > 0 => vec![self.extents[self.axis]],
            _ => self.extents.clone(),
        }
    }

    /// The extents of the forward pass's result. A reduced axis stays, with extent 1.
    fn forward(&self) -> Vec<usize> {
        let mut extents = self.extents.clone();
        match (&self.product, self.definition.form) {
            (Some(product), _) => return product.result(),
            (None, Form::AlongAxis(AlongAxis { length, .. }) | Form::OfTwo(OfTwo { length, .. })) => match length {
                Length::One => extents[self.axis] = 1,
                Length::Resized => extents[self.axis] = self.resized,
                Length::Same => {}
            },
            (None, Form::PNorm) => extents[self.axis] = 1,
            _ => {}
        }
        extents
    }

    fn strided(&self) -> Strided {
        Strided::new(&self.extents, self.axis)
    }

    /// The kind of operation, for rules.
    pub(crate) fn operation(&self) -> Operation {
        self.definition.operation
    }

    /// The length of the longest sum behind an element; 1 where there is none.
    pub(crate) fn terms(&self) -> usize {
        match (self.definition.form, self.gradient_of) {
            (Form::Unary(_) | Form::Parametric(_) | Form::Binary(_) | Form::Predicate(_) | Form::Triangle(_), _) => 1,
            (Form::Attention, _) => self.attention.map_or(1, |attention| attention.terms()),
            (Form::AlongAxis(_), of) if self.definition.moves(of.is_some()) => 1,
            (Form::AlongAxis(along), of) if along.length == Length::Resized => {
                let neighbours = if self.name() == "cubic" { 4 } else { 2 };
                neighbours * of.map_or(1, |_| self.resized.div_ceil(self.extents[self.axis]))
            }
            (Form::AlongAxis(_) | Form::PNorm | Form::OfTwo(_), _) => self.extents[self.axis],
            (Form::Norm(norm), None | Some(0)) => norm.terms(&self.strided()),
            (Form::Norm(_), Some(_)) => Norm::Batch.terms(&self.strided()),
            (Form::Matmul, of) => self.product.map_or(1, |p| [p.n, p.m].get(of.unwrap_or(2)).copied().unwrap_or(p.k)),
        }
    }

    /// The most factors of a product behind an element, grad among them; 1 where none grows with the shape.
    pub(crate) fn factors(&self) -> usize {
        if matches!(self.name(), "prod" | "cumprod") { self.extents[self.axis] } else { 1 }
    }

    /// Steps in all, about.
    pub(crate) fn steps(&self) -> u128 {
        let elements = |extents: Vec<usize>| extents.iter().map(|&n| n as u128).product::<u128>();
        if let Some(attention) = self.attention {
            return attention.products();
        }
        match (self.product, self.definition.name, self.gradient_of) {
            (Some(p), ..) => [p.batch.unwrap_or(1), p.m, p.n, p.k].iter().map(|&x| x as u128).product(),
            (None, "cumprod" | "logcumsumexp", Some(_)) => elements(self.input(0)) * self.extents[self.axis] as u128,
            _ => 8 * (elements(self.input(0)) + elements(self.forward())),
        }
    }

    /// What it is, for people.
    pub(crate) fn about(&self) -> String {
        let inputs: Vec<String> = self.inputs().iter().map(|(name, extents)| format!("{name}{extents:?}")).collect();
        let axis = self.axis().map_or(String::new(), |axis| format!(" along axis {axis}"));
        let causal = if self.causal() { ", causal" } else { "" };
        let parameters: String = self.parameters().map(|(name, x)| format!(", {name} {x}")).collect();
        let what = match self.gradient_of() {
            None => self.name().to_owned(),
            Some(of) => format!("gradient of {} with respect to {of}", self.name()),
        };
        format!("{what} of {}{axis}{causal}{parameters}", inputs.join(", "))
    }

    /// Numbers of its own by name, such as `slope` of `leaky_relu`.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.definition.parameters().names().zip(self.parameters.iter().copied())
    }

    /// Whether it is an attention whose elements attend to none behind them.
    #[must_use]
    pub fn causal(&self) -> bool {
        self.attention.is_some_and(|attention| attention.causal)
    }

    /// The format of its result where a case says nothing and its inputs have this one: of indices and answers the one that NumPy has for these, an answer being a byte.
    pub(crate) fn output_format(&self, input: DType) -> DType {
        match self.definition.form {
            Form::Predicate(_) => DType::U8,
            _ if self.definition.counts() => DType::I64,
            _ => input,
        }
    }

    /// The numbers that launch lines may use, by name.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, usize)> {
        if let Some(Attention { batch, heads, seq, dim, causal }) = self.attention {
            return vec![("batch", batch), ("heads", heads), ("seq", seq), ("dim", dim), ("causal", usize::from(causal))];
        }
        match (&self.product, self.definition.form, self.extents.as_slice()) {
            (Some(p), ..) => vec![("m", p.m), ("n", p.n), ("k", p.k), ("batch", p.batch.unwrap_or(1))],
            (None, Form::Triangle(_), [batch @ .., m, n]) => vec![("m", *m), ("n", *n), ("batch", batch.iter().product())],
            _ if self.definition.has_axis() => {
                let Strided { outer, n, inner } = self.strided();
                vec![("outer", outer), ("n", n), ("inner", inner), ("resized", self.forward()[self.axis])]
            }
            _ => Vec::new(),
        }
    }

    /// What a program under test is told of it.
    pub(crate) fn described(&self) -> serde_json::Value {
        let mut out = serde_json::json!({ "name": self.name(), "gradient_of": self.gradient_of(), "axis": self.axis() });
        if self.attention.is_some() {
            out["causal"] = self.causal().into();
        }
        if !self.parameters.is_empty() {
            out["parameters"] = self.parameters().map(|(name, x)| (name.to_owned(), x.into())).collect::<serde_json::Map<_, _>>().into();
        }
        out
    }

    /// Reads a kernel under test: an arithmetic for results of this format.
    pub(crate) fn kernel(&self, text: &str, result: DType) -> Result<Steps> {
        let steps = Steps::parse(text, result)?;
        let alone = self.output().iter().product::<usize>() < 2;
        let impossible = |fault| !self.definition.can_have(fault, self.gradient_of) || fault == Fault::Neighbour && alone;
        match steps.fault {
            Some(fault) if impossible(fault) => Err(Error::InvalidArgument {
                what: "kernel of an operator",
                value: text.to_owned(),
                limit: format!("{} cannot be broken in that way", self.about()),
            }),
            _ => Ok(steps),
        }
    }

    /// That its result may have a format: a whole number one that holds all of them.
    pub(crate) fn expect_output(&self, dtype: DType) -> Result<()> {
        if !self.definition.counts() {
            return Operator::expect_format(dtype);
        }
        let largest = self.axis().map_or(1, |axis| self.extents[axis] - 1);
        match dtype.int_format() {
            Some(format) if largest as f64 <= 2f64.powi(format.bits as i32 - i32::from(format.signed)) - 1.0 => Ok(()),
            _ => Err(Error::Unsupported {
                what: format!("the format {dtype} of the result"),
                by: format!("{}, whose results are whole numbers up to {largest}", self.name()),
            }),
        }
    }

    /// That it computes on a format.
    fn expect_format(dtype: DType) -> Result<()> {
        if FORMATS.contains(&dtype) {
            return Ok(());
        }
        let by = format!("operators (they have {})", FORMATS.map(DType::name).join(" "));
        Err(Error::Unsupported { what: format!("the format {dtype}"), by })
    }

    /// Computes the result from the elements of [`inputs`](Self::inputs) in row-major order.
    pub(crate) fn compute(&self, s: &Steps, inputs: &[Vec<f64>]) -> Vec<f64> {
        let p: Vec<f64> = self.parameters.iter().map(|&x| s.round(x)).collect();
        let mut out = match (self.definition.form, self.gradient_of) {
            (Form::Unary(unary), None) => inputs[0].iter().map(|&x| (unary.value)(s, x)).collect(),
            (Form::Unary(unary), Some(_)) => inputs[0].iter().zip(&inputs[1]).map(|(&x, &g)| (unary.gradient)(s, x, g)).collect(),
            (Form::Binary(binary), None) => inputs[0].iter().zip(&inputs[1]).map(|(&a, &b)| (binary.value)(s, a, b)).collect(),
            (Form::Binary(binary), Some(of)) => {
                let pairs = inputs[0].iter().zip(&inputs[1]).zip(&inputs[2]);
                pairs.map(|((&a, &b), &g)| (binary.gradients[of])(s, a, b, g)).collect()
            }
            (Form::Parametric(form), None) => inputs[0].iter().map(|&x| (form.value)(s, &p, x)).collect(),
            (Form::Parametric(form), Some(_)) => inputs[0].iter().zip(&inputs[1]).map(|(&x, &g)| (form.gradient)(s, &p, x, g)).collect(),
            (Form::Triangle(triangle), of) => self.triangle(triangle, &inputs[usize::from(of.is_some())]),
            (Form::Predicate(Predicate::One(holds)), _) => inputs[0].iter().map(|&x| f64::from(u8::from(holds(x)))).collect(),
            (Form::Predicate(Predicate::Two(holds)), _) => {
                inputs[0].iter().zip(&inputs[1]).map(|(&a, &b)| f64::from(u8::from(holds(a, b)))).collect()
            }
            (Form::AlongAxis(_) | Form::PNorm | Form::OfTwo(_), _) => self.along_axis(s, &p, inputs),
            (Form::Attention, of) => self.attention.map_or(Vec::new(), |attention| attention.compute(s, of, inputs)),
            (Form::Norm(norm), None) => norm.value(s, &self.strided(), inputs),
            (Form::Norm(norm), Some(of)) => norm.gradient(s, &self.strided(), of, inputs),
            (Form::Matmul, of) => self.product.map_or(Vec::new(), |p| matmul(s, &p, of, inputs)),
        };
        match s.fault {
            Some(Fault::Neighbour) => out.rotate_left(1),
            Some(Fault::Zeros) => out.fill(0.0),
            _ => {}
        }
        out
    }

    /// The elements of each matrix that are on the diagonal of that number or on its side, and zeros: element (i, j) is on diagonal j - i.
    fn triangle(&self, triangle: Triangle, x: &[f64]) -> Vec<f64> {
        let &[.., rows, columns] = self.extents.as_slice() else { return Vec::new() };
        let kept = |i: usize| {
            let on = (i % columns) as f64 - (i / columns % rows) as f64;
            if triangle == Triangle::Lower { on <= self.parameters[0] } else { on >= self.parameters[0] }
        };
        x.iter().enumerate().map(|(i, &x)| if kept(i) { x } else { 0.0 }).collect()
    }

    /// Vector by vector; `p` are the parameters as steps take them.
    fn along_axis(&self, s: &Steps, p: &[f64], inputs: &[Vec<f64>]) -> Vec<f64> {
        let (from, to) = (self.strided(), Strided::new(&self.forward(), self.axis));
        let take = |tensor: &[f64], at: &[usize]| at.iter().map(|&i| tensor[i]).collect::<Vec<f64>>();
        let mut out = vec![0.0; self.output().iter().product()];
        for (x_at, y_at) in from.vectors().zip(to.vectors()) {
            let x = take(&inputs[0], &x_at);
            let (at, mut values) = if self.gradient_of.is_none() { (&y_at, vec![0.0; to.n]) } else { (&x_at, vec![0.0; from.n]) };
            let grad = || inputs.last().map_or(Vec::new(), |grad| take(grad, &y_at));
            match (self.definition.form, self.gradient_of) {
                (Form::AlongAxis(along), None) => (along.value)(s, &x, &mut values),
                (Form::AlongAxis(AlongAxis { gradient: Some(gradient), .. }), Some(_)) => gradient(s, &x, &grad(), &mut values),
                (Form::PNorm, None) => values[0] = along_axis::p_norm(s, p[0], &x),
                (Form::PNorm, Some(_)) => along_axis::p_norm_gradient(s, p[0], &x, grad()[0], &mut values),
                (Form::OfTwo(two), None) => (two.value)(s, [&x, &take(&inputs[1], &x_at)], &mut values),
                (Form::OfTwo(two), Some(of)) => (two.gradients[of])(s, [&x, &take(&inputs[1], &x_at)], &grad(), &mut values),
                _ => {}
            }
            at.iter().zip(values).for_each(|(&i, value)| out[i] = value);
        }
        out
    }
}

impl PartialEq for Operator {
    fn eq(&self, other: &Operator) -> bool {
        let parts = |o: &Operator| {
            (o.definition.name, o.gradient_of, o.extents.clone(), o.axis, o.resized, o.product, o.attention, o.parameters.clone())
        };
        parts(self) == parts(other)
    }
}

/// The input that a gradient is with respect to; none for a forward pass.
fn gradient_of<'c>(definition: &Definition, of: &impl Fn(&str) -> Values<'c>) -> Result<Option<usize>> {
    let inputs = definition.inputs();
    match (of("pass").text("forward"), of("gradient_of").text("")) {
        ("forward", "") => Ok(None),
        ("forward", _) => Err(of("gradient_of").error("`gradient_of` is for pass = \"gradient\"")),
        ("gradient", _) if definition.counts() => {
            Err(of("pass").error(format!("{} has no gradient: its results are whole numbers", definition.name)))
        }
        ("gradient", "") => Ok(Some(0)),
        ("gradient", name) => match inputs.iter().position(|input| *input == name) {
            None => Err(of("gradient_of").error(format!("{} has no input `{name}`; it has {}", definition.name, inputs.join(" ")))),
            some => Ok(some),
        },
        (other, _) => Err(of("pass").error(format!("pass cannot be {other}: it must be forward or gradient"))),
    }
}

/// The product of a `matmul`, whose matrices are not larger than other tensors.
fn product(text: &str) -> Result<Product> {
    let product = Product::parse(text, "nn")?;
    let matrices = [product.operand(0), product.operand(1), product.result()];
    match matrices.iter().all(|extents| extents.iter().product::<usize>() <= shape::MOST) {
        true => Ok(product),
        false => Err(Error::InvalidArgument {
            what: "shape of matmul",
            value: text.to_owned(),
            limit: format!("A, B and their product have at most {} elements each", shape::MOST),
        }),
    }
}

/// The new extent of an interpolation.
fn resized(text: &str, extents: &[usize], axis: usize) -> Result<usize> {
    let wrong = || Error::InvalidArgument { what: "resized", value: text.to_owned(), limit: "it must be an extent, at least 1".to_owned() };
    let resized: usize = text.parse().map_err(|_| wrong())?;
    let mut to = extents.to_vec();
    to[axis] = resized;
    // The same bounds as for any other shape.
    shape::extents(&to.iter().map(ToString::to_string).collect::<Vec<_>>().join("x"))?;
    Ok(resized)
}

/// C = A B for each matrix of the batch, or dA = G Bᵀ, or dB = Aᵀ G.
fn matmul(s: &Steps, p: &Product, gradient_of: Option<usize>, inputs: &[Vec<f64>]) -> Vec<f64> {
    let Product { m, n, k, .. } = *p;
    let mut out = Vec::new();
    for batch in 0..p.batch.unwrap_or(1) {
        let matrix = |input: usize, elements: usize| &inputs[input][batch * elements..][..elements];
        let (a, b) = (matrix(0, m * k), matrix(1, k * n));
        let mut product = |rows: usize, columns: usize, terms: usize, term: &dyn Fn(usize, usize, usize) -> f64| {
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                out.push(s.sum((0..terms).map(|t| term(i, j, t))));
            }
        };
        match gradient_of {
            None => product(m, n, k, &|i, j, t| s.mul(a[i * k + t], b[t * n + j])),
            Some(of) => {
                let g = matrix(2, m * n);
                match of {
                    0 => product(m, k, n, &|i, j, t| s.mul(g[i * n + t], b[j * n + t])),
                    _ => product(k, n, m, &|i, j, t| s.mul(a[t * k + i], g[t * n + j])),
                }
            }
        }
    }
    out
}
