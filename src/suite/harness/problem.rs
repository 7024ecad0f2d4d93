//! What the kernels of a suite compute, and how large it is: shapes of inputs and result, length of the sums, the same thing in any arithmetic.

use super::epilogue::GemmEpilogue;
use super::formats::Formats;
use super::guard::Guard;
use super::module::Buffer;
use super::operators::{Operator, Pass, Steps};
use super::scales::{self, GemmScales};
use crate::device::TensorRef;
use crate::dtype::{DType, Overflow, Rounding};
use crate::error::{Error, Result};
use crate::reference::{Arithmetic, Conv, ConvParam, Direction, Gemm, KOrder, Role};
use crate::verify::{Computation, Explain, Options, Scale, Tolerance, gpu_verify_with, profile::Operation};

/// A computation on tensors.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// A matrix product, and what follows it.
    Gemm(Product, GemmEpilogue),
    /// A convolution or a gradient of one.
    Conv(Box<ConvParam>, Direction),
    /// An operator or a gradient of one.
    Operator(Box<Operator>),
}

/// In which arithmetic a problem is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Method {
    /// Sums of products.
    Products(Arithmetic),
    /// Operators, on the host whatever the device.
    Steps(Steps),
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Method::Products(arithmetic) => arithmetic.fmt(f),
            Method::Steps(steps) => steps.fmt(f),
        }
    }
}

/// An input with its name.
pub(crate) type Input = (&'static str, Guard);

/// A matrix product, of a batch where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Matrices; `None` for one without a dimension of its own.
    pub batch: Option<usize>,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Whether A is `[k, m]`, and B `[n, k]`.
    pub transposed: [bool; 2],
    /// What A and B are multiplied by, element by element.
    pub(crate) scales: GemmScales,
}

/// Who computes: what the two need not share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Kernel,
    Reference,
}

impl Product {
    /// Reads `64x64x256`, with a batch in front or not, and `nt` for the operands.
    pub(crate) fn parse(size: &str, layout: &str) -> Result<Product> {
        let wrong = |what, value: &str, limit: &str| Error::InvalidArgument { what, value: value.to_owned(), limit: limit.to_owned() };
        // An offset in bytes of the widest format is an isize.
        const MOST: usize = isize::MAX as usize / 8;
        let limit = format!("it must be MxNxK or BATCHxMxNxK, such as 64x64x256, each at least 1, with at most {MOST} elements a tensor");
        let bad = || wrong("size of a gemm", size, &limit);
        let numbers: Vec<usize> = size.split('x').map(|n| n.trim().parse()).collect::<Result<_, _>>().map_err(|_| bad())?;
        let transposed = match layout {
            "nn" => [false, false],
            "nt" => [false, true],
            "tn" => [true, false],
            "tt" => [true, true],
            _ => return Err(wrong("layout of a gemm", layout, "it must be nn, nt, tn or tt")),
        };
        let (batch, [m, n, k]) = match *numbers.as_slice() {
            [m, n, k] => (None, [m, n, k]),
            [batch, m, n, k] => (Some(batch), [m, n, k]),
            _ => return Err(bad()),
        };
        let batches = batch.unwrap_or(1);
        let fits = |a: usize, b: usize| a.checked_mul(b)?.checked_mul(batches).filter(|&e| e <= MOST);
        if batches * m.min(1) * n.min(1) * k.min(1) == 0 || [(m, n), (m, k), (k, n)].iter().any(|&(a, b)| fits(a, b).is_none()) {
            return Err(bad());
        }
        Ok(Product { batch, m, n, k, transposed, scales: GemmScales::default() })
    }

    /// The extents of A or B.
    pub(crate) fn operand(&self, number: usize) -> Vec<usize> {
        if number == 0 { self.shape(self.m, self.k, self.transposed[0]) } else { self.shape(self.k, self.n, self.transposed[1]) }
    }

    /// The extents of A and of B, each with its axis of k: 0 for rows as stored, 1 for columns.
    pub(crate) fn operands_along_k(&self) -> [(Vec<usize>, usize); 2] {
        [0, 1].map(|which| (self.operand(which), usize::from((which == 0) != self.transposed[which])))
    }

    fn operands(&self) -> [Vec<usize>; 2] {
        [0, 1].map(|which| self.operand(which))
    }

    /// The extents of C.
    pub(crate) fn result(&self) -> Vec<usize> {
        self.shape(self.m, self.n, false)
    }

    /// The product alone.
    fn gemm<'a>(&self, arithmetic: Arithmetic) -> Gemm<'a> {
        Gemm::new(arithmetic).transpose_a(self.transposed[0]).transpose_b(self.transposed[1])
    }

    fn shape(&self, rows: usize, columns: usize, transposed: bool) -> Vec<usize> {
        let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
        self.batch.into_iter().chain([rows, columns]).collect()
    }
}

impl Problem {
    /// Names and shapes of the inputs.
    #[must_use]
    pub fn inputs(&self) -> Vec<(&'static str, Vec<usize>)> {
        match self {
            Problem::Gemm(p, epilogue) => {
                let operands = [("a", p.operand(0)), ("b", p.operand(1))];
                operands.into_iter().chain(epilogue.inputs(p.result(), p.n)).chain(p.scales.inputs(p.operands())).collect()
            }
            Problem::Conv(param, direction) => {
                let [first, second, _] = direction.roles();
                [first, second].map(|role| (role_name(role), param.shape(role))).to_vec()
            }
            Problem::Operator(operator) => operator.inputs(),
        }
    }

    /// The shape of the result.
    #[must_use]
    pub fn output(&self) -> Vec<usize> {
        match self {
            Problem::Gemm(p, _) => p.result(),
            Problem::Conv(param, direction) => param.shape(direction.roles()[2]),
            Problem::Operator(operator) => operator.output(),
        }
    }

    /// The input or the result of that name: `result`, and the names that the problem's formula has.
    pub(crate) fn buffer(&self, name: &str) -> Option<Buffer> {
        let role = || match self {
            Problem::Gemm(..) | Problem::Operator(_) => None,
            Problem::Conv(_, direction) => Some(role_name(direction.roles()[2])),
        };
        match self.inputs().iter().position(|(input, _)| *input == name) {
            Some(number) => Some(Buffer::Input(number)),
            None if self.may_have(name) => Some(Buffer::Absent),
            None => (name == "result" || role() == Some(name)).then_some(Buffer::Result),
        }
    }

    /// Whether a table speaks of the input of that name, which need not be there in each case of it.
    fn may_have(&self, input: &str) -> bool {
        matches!(self, Problem::Gemm(p, epilogue) if epilogue.may_have(input) || p.scales.may_have(input))
    }

    /// Scales of the operands of a GEMM.
    pub(crate) fn scales(&self) -> GemmScales {
        match self {
            Problem::Gemm(p, _) => p.scales,
            Problem::Conv(..) | Problem::Operator(_) => GemmScales::default(),
        }
    }

    /// What follows the sums of products of a GEMM.
    pub(crate) fn epilogue(&self) -> Option<&GemmEpilogue> {
        match self {
            Problem::Gemm(_, epilogue) => Some(epilogue),
            Problem::Conv(..) | Problem::Operator(_) => None,
        }
    }

    /// The format of an input: C and the bias have that of the result, and scales their own.
    pub(crate) fn input_dtype(&self, name: &str, formats: Formats) -> DType {
        let Formats { operands: [first, second], output } = formats;
        match self {
            Problem::Gemm(p, _) => p.scales.dtype(name).unwrap_or(match name {
                "c" | "bias" => output,
                "b" => second,
                _ => first,
            }),
            Problem::Conv(_, direction) if name == role_name(direction.roles()[1]) => second,
            Problem::Conv(..) | Problem::Operator(_) => first,
        }
    }

    /// The format of a result where a case says nothing and the inputs have this one.
    pub(crate) fn output_format(&self, input: DType) -> DType {
        match self {
            Problem::Gemm(..) | Problem::Conv(..) => input,
            Problem::Operator(operator) => operator.output_format(input),
        }
    }

    /// Scalars by name, beside the whole numbers: of a GEMM, or the parameters of an operator.
    pub(crate) fn scalars(&self) -> Vec<(&'static str, f64)> {
        match self {
            Problem::Gemm(_, epilogue) => epilogue.scalars().to_vec(),
            Problem::Conv(..) => Vec::new(),
            Problem::Operator(operator) => operator.parameters().collect(),
        }
    }

    /// The names of inputs and result.
    pub(crate) fn buffer_names(&self) -> Vec<&'static str> {
        self.inputs().iter().map(|(name, _)| *name).chain(["result"]).collect()
    }

    /// Tensors whose files are a program's own where a case has them; another case of a GEMM has C, a bias and scales.
    pub(crate) fn names_of_files(&self) -> Vec<&'static str> {
        let beside = self.epilogue().is_some().then(|| ["c", "bias"].into_iter().chain(scales::NAMES));
        self.buffer_names().into_iter().chain(beside.into_iter().flatten()).collect()
    }

    /// The numbers that launch lines may use, by name: extents and what else a kernel has to be told, `elements` of the result, and `terms` of each.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut out = match self {
            Problem::Gemm(p, epilogue) => {
                let own = [("m", p.m), ("n", p.n), ("k", p.k), ("batch", p.batch.unwrap_or(1)), ("relu", epilogue.relu())];
                own.into_iter().chain(p.scales.numbers(p.operands())).collect()
            }
            Problem::Conv(param, _) => conv_numbers(param),
            Problem::Operator(operator) => operator.numbers(),
        };
        out.extend([("elements", self.output().iter().product()), ("terms", self.terms())]);
        out.into_iter().map(|(name, number)| (name, number as u64)).collect()
    }

    /// What a program under test is told of it: its kind, its numbers, and what else decides what is computed.
    pub(crate) fn described(&self) -> serde_json::Value {
        let mut out = serde_json::Map::new();
        match self {
            Problem::Gemm(p, _) => {
                let letter = |transposed| if transposed { 't' } else { 'n' };
                out.insert("kind".to_owned(), "gemm".into());
                out.insert("layout".to_owned(), p.transposed.map(letter).iter().collect::<String>().into());
            }
            Problem::Conv(param, direction) => {
                let layouts = [Role::Input, Role::Filter, Role::Output].map(|role| param.layout(role).to_string());
                out.insert("kind".to_owned(), "conv".into());
                out.insert("direction".to_owned(), direction.name().into());
                out.insert("layout".to_owned(), layouts.join(",").into());
            }
            Problem::Operator(_) => drop(out.insert("kind".to_owned(), "operator".into())),
        }
        out.extend(self.numbers().into_iter().map(|(name, number)| (name.to_owned(), number.into())));
        out.into()
    }

    /// Terms of the sum behind one element of the result.
    #[must_use]
    pub fn terms(&self) -> usize {
        match self {
            Problem::Gemm(p, _) => p.k,
            Problem::Conv(param, direction) => param.terms(*direction),
            Problem::Operator(operator) => operator.terms(),
        }
    }

    /// Factors of the product that an element is; 1 where it is none.
    pub(crate) fn factors(&self) -> usize {
        match self {
            Problem::Gemm(..) | Problem::Conv(..) => 1,
            Problem::Operator(operator) => operator.factors(),
        }
    }

    /// What rules ask about the computation, for inputs from this range.
    pub(crate) fn computation(&self, range: Option<[f64; 2]>) -> Computation {
        let operation = match self {
            Problem::Gemm(..) | Problem::Conv(..) => Operation::Matmul,
            Problem::Operator(operator) => operator.operation(),
        };
        let gradient = matches!(self, Problem::Operator(operator) if operator.pass() == Pass::Gradient);
        let accumulations = self.terms() + self.epilogue().map_or(0, GemmEpilogue::additions);
        Computation { accumulations: Some(accumulations), range, operation: Some(operation), gradient, baseline_error: None }
    }

    /// Products, or steps, in all.
    #[must_use]
    pub fn products(&self) -> u128 {
        match self {
            Problem::Gemm(p, _) => [p.batch.unwrap_or(1), p.m, p.n, p.k].iter().map(|&x| x as u128).product(),
            Problem::Conv(param, _) => param.macs(),
            Problem::Operator(operator) => operator.steps(),
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Problem::Gemm(p, epilogue) => format!("gemm of {:?} by {:?}{}{epilogue}", p.operand(0), p.operand(1), p.scales),
            Problem::Conv(param, direction) => format!("convolution {param}, {}", direction.name()),
            Problem::Operator(operator) => operator.about(),
        }
    }

    /// Computes the result on the device of the inputs. A kernel takes the products of a convolution in the order of its filter's memory, a reference channels first.
    pub(crate) fn compute(&self, method: Method, who: Party, inputs: &[Input], output: &mut Guard) -> Result<()> {
        let (Method::Products(arithmetic), [(_, a), (_, b), ..]) = (method, inputs) else {
            return match (method, self) {
                (Method::Steps(steps), Problem::Operator(operator)) => compute_operator(operator, &steps, inputs, output),
                _ => Err(self.lacks(method)),
            };
        };
        match self {
            Problem::Gemm(p, epilogue) => p.compute(epilogue, arithmetic, inputs, output),
            Problem::Conv(param, direction) => {
                let last = who == Party::Kernel && param.layout(Role::Filter).channel_after_space();
                let order = if last { KOrder::ChannelsLast } else { KOrder::ChannelsFirst };
                Conv::new((**param).clone(), *direction, arithmetic).order(order).run(&a.tensor()?, &b.tensor()?, &mut output.tensor_mut()?)
            }
            Problem::Operator(_) => Err(self.lacks(method)),
        }
    }

    /// That a problem is none for this arithmetic.
    fn lacks(&self, method: Method) -> Error {
        Error::Unsupported { what: self.name(), by: method.to_string() }
    }

    /// The magnitude that the tolerance of what rounding explains is a multiple of, where that is another one than the mean of the reference.
    pub(crate) fn rounding_scale(&self, method: Method, inputs: &[Input]) -> Result<Option<f64>> {
        let (Problem::Gemm(p, epilogue), Method::Products(arithmetic)) = (self, method) else { return Ok(None) };
        if epilogue.is_multiple() && !p.scales.any() {
            return Ok(None);
        }
        let mean_of = |name: Option<&str>| match name {
            Some(name) => named(inputs, name)?.map_or(Ok(0.0), |tensor| magnitude(&tensor, Scale::Mean)),
            None => p.mean_product(arithmetic, inputs),
        };
        epilogue.magnitude(mean_of).map(Some)
    }
}

impl Product {
    /// The whole GEMM, of operands times their scales.
    fn compute(&self, epilogue: &GemmEpilogue, arithmetic: Arithmetic, inputs: &[Input], output: &mut Guard) -> Result<()> {
        let (c, bias) = (named(inputs, "c")?, named(inputs, "bias")?);
        self.with_operands(arithmetic, inputs, |gemm, a, b| {
            let mut gemm = gemm.alpha(epilogue.alpha()).epilogue(epilogue.activation());
            if let Some(c) = &c {
                gemm = gemm.beta(epilogue.beta(), c);
            }
            if let Some(bias) = &bias {
                gemm = gemm.bias(bias);
            }
            gemm.run(a, b, &mut output.tensor_mut()?)
        })
    }

    /// Does something with the product of this arithmetic, and with the operands that it is of: times their scales where they have some.
    fn with_operands<'a, T>(
        &self,
        arithmetic: Arithmetic,
        inputs: &[Input],
        with: impl FnOnce(Gemm<'a>, &TensorRef<'_>, &TensorRef<'_>) -> Result<T>,
    ) -> Result<T> {
        let [(_, a), (_, b), ..] = inputs else {
            return Err(Error::Unsupported { what: "a product without two operands".to_owned(), by: arithmetic.to_string() });
        };
        match self.scales.multiplied(arithmetic, inputs)? {
            Some([a, b]) => with(self.gemm(Arithmetic { flush_subnormals: false, ..arithmetic }), &a.tensor()?, &b.tensor()?),
            None => with(self.gemm(arithmetic), &a.tensor()?, &b.tensor()?),
        }
    }

    /// The mean magnitude of A B, by which what rounding explains is judged. Scales may differ from row to row, so that the mean of all says too little of the rows of the largest ones, whose errors are
    /// of the size of their own products: with scales it grows by as much as the largest sum of magnitudes is beyond the mean one.
    fn mean_product(&self, arithmetic: Arithmetic, inputs: &[Input]) -> Result<f64> {
        self.with_operands(arithmetic, inputs, |gemm, a, b| {
            let mut product = Guard::new(a.device(), DType::F64, &self.result())?;
            gemm.run(a, b, &mut product.tensor_mut()?)?;
            let mean = magnitude(&product.tensor()?, Scale::Mean)?;
            if !self.scales.any() {
                return Ok(mean);
            }
            gemm.magnitudes(a, b, &mut product.tensor_mut()?)?;
            let [largest, usual] = [Scale::Largest, Scale::Mean].map(|scale| magnitude(&product.tensor()?, scale));
            let (largest, usual) = (largest?, usual?);
            Ok(if usual > 0.0 { mean * (largest / usual) } else { mean })
        })
    }
}

/// The input of that name.
fn named<'a>(inputs: &'a [Input], name: &str) -> Result<Option<TensorRef<'a>>> {
    inputs.iter().find(|(input, _)| *input == name).map(|(_, guard)| guard.tensor()).transpose()
}

/// The magnitude of the finite elements of a tensor, on its device: the absolute tolerance of one such scale.
fn magnitude(tensor: &TensorRef<'_>, scale: Scale) -> Result<f64> {
    let tolerance = Tolerance::scaled(0.0, 1.0, scale)?;
    Ok(gpu_verify_with(tensor, tensor, &tolerance, &Options::counts().explain(Explain::Never))?.atol)
}

/// The numbers of a convolution, as [`ConvParam`] has them; those of its spatial axes end in the letter of the axis, the fastest is `w`.
fn conv_numbers(param: &ConvParam) -> Vec<(&'static str, usize)> {
    let mut out = vec![("g", param.groups()), ("n", param.batch()), ("k", param.out_channels()), ("c", param.in_channels())];
    for (names, extents) in [
        (["z", "y", "x"], param.filter_space()),
        (["di", "hi", "wi"], param.input_space()),
        (["do", "ho", "wo"], param.output_space()),
        (["stride_d", "stride_h", "stride_w"], param.strides()),
        (["dilation_d", "dilation_h", "dilation_w"], param.dilations()),
        (["pad_d", "pad_h", "pad_w"], param.left_pads()),
        (["pad_right_d", "pad_right_h", "pad_right_w"], param.right_pads()),
    ] {
        out.extend(names[names.len() - extents.len()..].iter().copied().zip(extents.iter().copied()));
    }
    out
}

/// Computes an operator on the host, and writes its result rounded to the output's format, to nearest even.
fn compute_operator(operator: &Operator, steps: &Steps, inputs: &[Input], output: &mut Guard) -> Result<()> {
    let inputs: Vec<Vec<f64>> = inputs.iter().map(|(_, guard)| guard.values()).collect::<Result<_>>()?;
    let (result, dtype) = (operator.compute(steps, &inputs), output.dtype());
    let mut bytes = output.to_bytes()?;
    for (i, &x) in result.iter().enumerate() {
        dtype.store_bits(&mut bytes, i, dtype.encode(x, Rounding::NearestEven, Overflow::Ieee));
    }
    output.copy_from_bytes(&bytes)
}

/// The tensors of a convolution, in the order in which its layouts are named.
pub(crate) const ROLES: [Role; 3] = [Role::Input, Role::Filter, Role::Output];

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Filter => "filter",
        Role::Output => "output",
    }
}
