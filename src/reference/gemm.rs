//! Matrix products: `D = epilogue(alpha·A·B + beta·C + bias)`.

use super::accumulate::Arithmetic;
use super::chain::Chain;
use super::chain::Number;
use super::gpu::{self, Family};
use super::operand::{self, Evaluation, First, Operands};
use super::plan;
use super::tiles::{self, Products};
use crate::device::hip::HipDevice;
use crate::device::host::zeros;
use crate::device::{AsTensor, Backend, IntoTensor, TensorMut, TensorRef};
use crate::error::{Error, Result};
use crate::kernels::reference::{Finishing, finish};
use hipverify_sys::abi;
use std::ops::Range;

/// What happens to a result before it is rounded to the output's format.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Epilogue {
    /// Nothing.
    #[default]
    None,
    /// Negative numbers become +0; NaN stays.
    Relu,
    /// Numbers below `low` become `low`, those above `high` become `high`; NaN stays.
    Clamp {
        /// The least result.
        low: f64,
        /// The largest result.
        high: f64,
    },
}

impl Epilogue {
    /// Checks that there are numbers between the limits of a clamp.
    pub(crate) fn expect_valid(self) -> Result<()> {
        match self {
            Epilogue::Clamp { low, high } if low.is_nan() || high.is_nan() || low > high => {
                let limit = "its limits are numbers, the lower one first".to_owned();
                Err(Error::InvalidArgument { what: "clamp", value: format!("from {low} to {high}"), limit })
            }
            _ => Ok(()),
        }
    }

    /// What becomes of a result.
    pub(crate) fn apply(self, x: f64) -> f64 {
        match self {
            Epilogue::None => x,
            Epilogue::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Epilogue::Clamp { low, .. } if x < low => low,
            Epilogue::Clamp { high, .. } if x > high => high,
            Epilogue::Clamp { .. } => x,
        }
    }
}

/// A reference GEMM.
///
/// A is `[m, k]`, B `[k, n]`, C and D `[m, n]`, the bias `[n]`. Dimensions of D in front of these are a batch; A, B and C have the same ones, or none, or ones of
/// extent 1, and are then one matrix for the whole batch. A transposed operand is `[k, m]` or `[n, k]`.
///
/// Each element is accumulated over ascending k by the [`Arithmetic`], from zero. What follows is done in f64, each operation
/// rounded: times alpha (if it is not 1), plus beta times C (if beta is not 0), plus the bias, then the epilogue; then one
/// rounding to the format of D. The bits depend neither on threads nor on the CPU.
///
/// ```
/// use hipverify::reference::{Accumulate, Gemm};
/// use hipverify::{Device, DeviceMem};
/// let host = Device::host();
/// let a = DeviceMem::<f32>::from_slice(&host, &[1.0, 2.0, 3.0, 4.0])?;
/// let mut d = DeviceMem::<f32>::new(&host, 4)?;
/// Gemm::new(Accumulate::F64).transpose_b(true).run(&a.tensor(&[2, 2])?, &a.tensor(&[2, 2])?, &mut d.tensor_mut(&[2, 2])?)?;
/// assert_eq!(d.to_vec()?, [5.0, 11.0, 11.0, 25.0]);
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gemm<'a> {
    arithmetic: Arithmetic,
    transposed: (bool, bool),
    alpha: f64,
    beta: f64,
    c: Option<TensorRef<'a>>,
    bias: Option<TensorRef<'a>>,
    epilogue: Epilogue,
}

impl<'a> Gemm<'a> {
    /// `D = A·B` with this arithmetic.
    pub fn new(arithmetic: impl Into<Arithmetic>) -> Gemm<'a> {
        Gemm {
            arithmetic: arithmetic.into(),
            transposed: (false, false),
            alpha: 1.0,
            beta: 0.0,
            c: None,
            bias: None,
            epilogue: Epilogue::None,
        }
    }

    /// A is given as `[k, m]`.
    pub fn transpose_a(mut self, yes: bool) -> Gemm<'a> {
        self.transposed.0 = yes;
        self
    }

    /// B is given as `[n, k]`.
    pub fn transpose_b(mut self, yes: bool) -> Gemm<'a> {
        self.transposed.1 = yes;
        self
    }

    /// The factor of A·B.
    pub fn alpha(mut self, alpha: f64) -> Gemm<'a> {
        self.alpha = alpha;
        self
    }

    /// Adds beta times C.
    pub fn beta(mut self, beta: f64, c: impl IntoTensor<'a>) -> Gemm<'a> {
        (self.beta, self.c) = (beta, Some(c.into_tensor()));
        self
    }

    /// Adds a vector to every row.
    pub fn bias(mut self, bias: impl IntoTensor<'a>) -> Gemm<'a> {
        self.bias = Some(bias.into_tensor());
        self
    }

    /// The last operation.
    pub fn epilogue(mut self, epilogue: Epilogue) -> Gemm<'a> {
        self.epilogue = epilogue;
        self
    }

    /// Computes D.
    ///
    /// # Errors
    /// When shapes or formats do not fit each other or the arithmetic, tensors are on different devices, elements of D overlap, or the limits of a clamp are NaN or exchanged.
    pub fn run(&self, a: &impl AsTensor, b: &impl AsTensor, d: &mut TensorMut<'_>) -> Result<()> {
        self.compute(&a.as_tensor(), &b.as_tensor(), d, false)
    }

    /// Computes |alpha| Σ|a||b| + |beta C| + |bias| for each element, accumulated in f64: a bound of the element's error is a small multiple of it. The epilogue is not included.
    ///
    /// Operands are read as the arithmetic reads them ([`Arithmetic::exact`]). For gfx942's matrix cores and for tensor cores, which align products by exponents, subnormal operands count as the
    /// least normal number of their format.
    ///
    /// # Errors
    /// As for [`run`](Gemm::run).
    pub fn magnitudes(&self, a: &impl AsTensor, b: &impl AsTensor, to: &mut TensorMut<'_>) -> Result<()> {
        let unsigned = Gemm { alpha: self.alpha.abs(), beta: self.beta.abs(), epilogue: Epilogue::None, ..self.clone() };
        unsigned.compute(&a.as_tensor(), &b.as_tensor(), to, true)
    }

    fn compute(&self, a: &TensorRef<'_>, b: &TensorRef<'_>, d: &mut TensorMut<'_>, magnitudes: bool) -> Result<()> {
        let (product, c) = self.shapes(a, b, d.as_ref())?;
        self.epilogue.expect_valid()?;
        d.as_ref().layout().expect_distinct()?;
        let arithmetic = if magnitudes { self.arithmetic.exact() } else { self.arithmetic };
        arithmetic.accepts(a.dtype(), b.dtype())?;
        let least = magnitudes.then(|| [a, b].map(|t| self.arithmetic.least_magnitude(t.dtype())));
        let device = d.as_ref().device().clone();
        if let Backend::Hip(gpu) = device.backend() {
            let plan = plan::matrices([product.batch, product.m, product.n, product.k], product.a_at, product.b_at)?;
            let family =
                Family { arithmetic, magnitudes: least, plan, first: First::Other, operands: [a, b], elements: product.elements() };
            let sums = family.sums(gpu)?;
            if finish(gpu, &sums, &self.finishing(gpu, c.map(|(c, _)| c), magnitudes)?, d)? {
                return Ok(());
            }
            return self.finish(&product, c, gpu::fetch(&sums)?, magnitudes, d);
        }
        let operands = Operands::read(arithmetic, a, b)?;
        let operands = match least {
            Some(least) => operands.magnitudes(least),
            None => operands,
        };
        let values = operands.run(arithmetic.accumulate, &product)?;
        self.finish(&product, c, values, magnitudes, d)
    }

    /// Checks that operands, C and the bias have the shapes that D requires, and are on its device.
    pub(crate) fn expect_shapes(&self, a: &TensorRef<'_>, b: &TensorRef<'_>, d: &TensorRef<'_>) -> Result<()> {
        self.shapes(a, b, d).map(drop)
    }

    /// The product; and C, if it is added, with whether the batch shares it.
    fn shapes(&self, a: &TensorRef<'_>, b: &TensorRef<'_>, d: &TensorRef<'_>) -> Result<(Product, Option<(&TensorRef<'a>, bool)>)> {
        let product = self.product(a, b, d)?;
        for (tensor, name) in [(&self.c, "C"), (&self.bias, "the bias")] {
            tensor.as_ref().map_or(Ok(()), |t| d.device().expect_same(t.device(), name))?;
        }
        let c = match &self.c {
            Some(c) if self.beta != 0.0 => Some((c, matrix(c, "C", d, (product.m, product.n))?)),
            _ => None,
        };
        if let Some(bias) = self.bias.as_ref().filter(|b| b.shape() != [product.n]) {
            return Err(Error::Shape { what: "bias".to_owned(), expected: vec![product.n], found: bias.shape().to_vec() });
        }
        Ok((product, c))
    }

    /// What follows the accumulation, for the device code.
    fn finishing(&self, gpu: &'static HipDevice, c: Option<&TensorRef<'_>>, magnitudes: bool) -> Result<Finishing> {
        let epilogue = match self.epilogue {
            Epilogue::None => (abi::Epilogue::NO_EPILOGUE, 0.0, 0.0),
            Epilogue::Relu => (abi::Epilogue::RELU, 0.0, 0.0),
            Epilogue::Clamp { low, high } => (abi::Epilogue::CLAMP, low, high),
        };
        let values = |t: Option<&TensorRef<'_>>| t.map(|t| gpu::doubles(gpu, t, magnitudes)).transpose();
        Ok(Finishing { alpha: self.alpha, beta: self.beta, c: values(c)?, bias: values(self.bias.as_ref())?, epilogue, single: false })
    }

    /// What follows the accumulation, on the host. C comes with whether the batch shares it.
    fn finish(
        &self,
        product: &Product,
        c: Option<(&TensorRef<'_>, bool)>,
        mut values: Vec<f64>,
        magnitudes: bool,
        d: &mut TensorMut<'_>,
    ) -> Result<()> {
        let read = |t: &TensorRef<'_>| -> Result<Vec<f64>> {
            let values = operand::read_f64(t)?;
            Ok(if magnitudes { values.into_iter().map(f64::abs).collect() } else { values })
        };
        // As in BLAS an alpha of 0 takes nothing of A and B, infinities included.
        if self.alpha == 0.0 {
            values.fill(0.0);
        } else if self.alpha != 1.0 {
            values.iter_mut().for_each(|v| *v *= self.alpha);
        }
        if let Some((c, shared)) = c {
            let c = read(c)?;
            let area = product.m * product.n;
            for (i, v) in values.iter_mut().enumerate() {
                *v += self.beta * c[if shared { i % area } else { i }];
            }
        }
        if let Some(bias) = &self.bias {
            let bias = read(bias)?;
            for row in values.chunks_exact_mut(product.n.max(1)) {
                row.iter_mut().zip(&bias).for_each(|(v, b)| *v += b);
            }
        }
        if self.epilogue != Epilogue::None {
            values.iter_mut().for_each(|v| *v = self.epilogue.apply(*v));
        }
        operand::write(d, &values)
    }

    fn product(&self, a: &TensorRef<'_>, b: &TensorRef<'_>, d: &TensorRef<'_>) -> Result<Product> {
        d.device().expect_same(a.device(), "A")?;
        d.device().expect_same(b.device(), "B")?;
        let [ref batch @ .., m, n] = *d.shape() else { return Err(no_matrix("D", d)) };
        self.expect_product(a.shape(), b.shape(), d.shape())?;
        let k = match (a.shape(), self.transposed.0) {
            ([.., _, k], false) | ([.., k, _], true) => *k,
            _ => return Err(no_matrix("operand A", a)),
        };
        let a_rows = if self.transposed.0 { (k, m) } else { (m, k) };
        let b_rows = if self.transposed.1 { (n, k) } else { (k, n) };
        let shared = (matrix(a, "A", d, a_rows)?, matrix(b, "B", d, b_rows)?);
        let strides = |transposed: bool, shared: bool, rows: (usize, usize)| {
            let outer = if shared { 0 } else { rows.0 * rows.1 };
            if transposed { [outer, 1, rows.1] } else { [outer, rows.1, 1] }
        };
        let (a_at, b_at) = (strides(self.transposed.0, shared.0, a_rows), strides(self.transposed.1, shared.1, b_rows));
        // Other extents of a result without elements may have no product.
        let batch = if d.elements() == 0 { 0 } else { batch.iter().product() };
        Ok(Product { batch, m, n, k, a_at, b_at })
    }

    /// That D has the rows of A and the columns of B, where both fit each other: then it is D that does not fit.
    fn expect_product(&self, a: &[usize], b: &[usize], d: &[usize]) -> Result<()> {
        let rows_and_columns = |shape: &[usize], transposed: bool| match *shape {
            [.., rows, columns] => Some(if transposed { (columns, rows) } else { (rows, columns) }),
            _ => None,
        };
        let operands = (rows_and_columns(a, self.transposed.0), rows_and_columns(b, self.transposed.1));
        let (Some((m, k)), Some((rows, n))) = operands else { return Ok(()) };
        if k != rows || d.ends_with(&[m, n]) {
            return Ok(());
        }
        let transposed = |is: bool| if is { "transposed " } else { "" };
        let what = format!("the result of A, {}{a:?}, by B, {}{b:?}", transposed(self.transposed.0), transposed(self.transposed.1));
        Err(Error::Shape { what, expected: [&d[..d.len() - 2], &[m, n]].concat(), found: d.to_vec() })
    }
}

/// The error of a tensor that is neither a matrix nor a batch of them.
fn no_matrix(what: &'static str, t: &TensorRef<'_>) -> Error {
    let limit = "a matrix has two dimensions, a batch of them more".to_owned();
    Error::InvalidArgument { what, value: format!("of shape {:?}", t.shape()), limit }
}

/// Checks the shape of an operand of D; whether the batch shares one matrix.
fn matrix(t: &TensorRef<'_>, name: &str, d: &TensorRef<'_>, rows: (usize, usize)) -> Result<bool> {
    let batch = &d.shape()[..d.shape().len() - 2];
    let own = [batch, &[rows.0, rows.1]].concat();
    if let [of_own @ .., m, n] = t.shape()
        && (*m, *n) == rows
    {
        if of_own.iter().all(|&extent| extent == 1) {
            return Ok(true);
        }
        if of_own == batch {
            return Ok(false);
        }
    }
    let expected = if batch.iter().all(|&extent| extent == 1) { vec![rows.0, rows.1] } else { own };
    Err(Error::Shape { what: format!("operand {name}"), expected, found: t.shape().to_vec() })
}

/// Sizes, and strides of A (batch, m, k) and B (batch, k, n).
struct Product {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a_at: [usize; 3],
    b_at: [usize; 3],
}

struct Matrices<'a, S> {
    product: &'a Product,
    a: &'a [S],
    b: &'a [S],
}

/// Copies a block of a strided matrix, rows first.
fn pack<T, S: Copy + Into<T>>(from: &[S], base: usize, at: [usize; 3], rows: Range<usize>, columns: Range<usize>, to: &mut [T], ld: usize) {
    for (row, line) in rows.zip(to.chunks_mut(ld)) {
        let start = base + row * at[1] + columns.start * at[2];
        let source = &from[start..];
        if at[2] == 1 {
            line.iter_mut().zip(&source[..columns.len()]).for_each(|(t, &s)| *t = s.into());
        } else {
            line.iter_mut().zip(source.iter().step_by(at[2])).take(columns.len()).for_each(|(t, &s)| *t = s.into());
        }
    }
}

impl<T: Number, S: Number + Into<T>> Products<T> for Matrices<'_, S> {
    fn members(&self) -> usize {
        self.product.batch
    }

    fn extent(&self) -> (usize, usize) {
        (self.product.m, self.product.n)
    }

    fn depth(&self, _: usize) -> usize {
        self.product.k
    }

    fn pack_a(&self, f: usize, rows: Range<usize>, ks: Range<usize>, to: &mut [T], ld: usize) {
        pack(self.a, f * self.product.a_at[0], self.product.a_at, rows, ks, to, ld);
    }

    fn pack_b(&self, f: usize, ks: Range<usize>, columns: Range<usize>, to: &mut [T], ld: usize) {
        pack(self.b, f * self.product.b_at[0], self.product.b_at, ks, columns, to, ld);
    }
}

impl Evaluation for Product {
    fn elements(&self) -> usize {
        self.batch * self.m * self.n
    }

    fn run<S: Number + Into<C::Element>, C: Chain>(&self, chain: C, a: &[S], b: &[S]) -> Result<Vec<f64>> {
        let (m, n) = (self.m, self.n);
        let mut out = zeros::<f64>(self.elements())?;
        let finish = |acc: &[C::Element]| acc.iter().map(|v| v.widened()).collect();
        tiles::run(&Matrices { product: self, a, b }, chain, finish, |tile: tiles::Tile<f64>| {
            for (row, values) in tile.rows.clone().zip(tile.values.chunks_exact(tile.columns.len())) {
                let start = (tile.member * m + row) * n + tile.columns.start;
                out[start..start + values.len()].copy_from_slice(values);
            }
        });
        Ok(out)
    }
}
