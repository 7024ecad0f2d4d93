//! What is computed: a GEMM or a convolution, its exact result, its magnitudes, and what the models of matrix cores make of it.

use super::order::Order;
use crate::device::hip::download;
use crate::device::{Backend, Device, DeviceBytes, DeviceMem, Layout, TensorMut, TensorRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix_core::Model;
use crate::reference::{Arithmetic, Conv, ConvParam, Direction, Epilogue, Gemm, KOrder};
use std::borrow::Cow;

/// The operands, and how the result follows from them.
#[derive(Clone, Debug)]
pub(super) struct Problem<'a> {
    pub operands: [TensorRef<'a>; 2],
    pub kind: Kind<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind<'a> {
    Gemm(Product<'a>),
    Conv(ConvParam, Direction),
}

/// A GEMM: D = epilogue(alpha·A·B + beta·C + bias).
#[derive(Clone, Debug)]
pub(super) struct Product<'a> {
    pub transposed: [bool; 2],
    pub alpha: f64,
    pub beta: f64,
    pub c: Option<TensorRef<'a>>,
    pub bias: Option<TensorRef<'a>>,
    pub epilogue: Epilogue,
}

impl Product<'_> {
    /// The reference of this arithmetic.
    fn gemm(&self, arithmetic: Arithmetic) -> Gemm<'_> {
        let mut gemm = Gemm::new(arithmetic).transpose_a(self.transposed[0]).transpose_b(self.transposed[1]).alpha(self.alpha);
        if let Some(c) = &self.c {
            gemm = gemm.beta(self.beta, c);
        }
        if let Some(bias) = &self.bias {
            gemm = gemm.bias(bias);
        }
        gemm.epilogue(self.epilogue)
    }

    /// Whether k is the last axis of A (0) or B (1), rather than the one before it.
    fn sums_over_last(&self, which: usize) -> bool {
        (which == 0) != self.transposed[which]
    }

    /// The sums of products alone.
    fn sums(&self, model: Model) -> Gemm<'_> {
        Gemm::new(model).transpose_a(self.transposed[0]).transpose_b(self.transposed[1])
    }
}

impl<'a> Problem<'a> {
    pub(super) fn device(&self) -> &Device {
        self.operands[0].device()
    }

    pub(super) fn dtypes(&self) -> [DType; 2] {
        [self.operands[0].dtype(), self.operands[1].dtype()]
    }

    /// Products of one element, padding of a convolution included.
    pub(super) fn terms(&self) -> usize {
        match &self.kind {
            Kind::Gemm(product) => match (self.operands[0].shape(), product.transposed[0]) {
                ([.., k, _], true) | ([.., k], false) => *k,
                _ => 0,
            },
            Kind::Conv(param, direction) => {
                let filter: usize = param.filter_space().iter().product();
                match direction {
                    Direction::Forward => param.in_channels() * filter,
                    Direction::BackwardData => param.out_channels() * filter,
                    Direction::BackwardWeight => param.batch() * param.output_space().iter().product::<usize>(),
                }
            }
        }
    }

    /// Roundings between the sum and the result: alpha, beta C and its addition, the bias.
    pub(super) fn roundings_after(&self) -> usize {
        match &self.kind {
            Kind::Gemm(p) => usize::from(p.alpha != 1.0) + 2 * usize::from(p.c.is_some()) + usize::from(p.bias.is_some()),
            Kind::Conv(..) => 0,
        }
    }

    /// `gemm of 64 x 128 by 128 x 32`, or the convolution.
    pub(super) fn name(&self, result: &[usize]) -> String {
        match &self.kind {
            Kind::Gemm(_) => {
                let extents: Vec<String> = result.iter().map(usize::to_string).collect();
                format!("gemm of {}, k {}", extents.join(" x "), self.terms())
            }
            Kind::Conv(param, direction) => format!("convolution {param}, {direction:?}"),
        }
    }

    /// The exact result in f64, of the operands as `arithmetic` reads them.
    pub(super) fn exact(&self, arithmetic: Arithmetic, shape: &[usize]) -> Result<DeviceMem<f64>> {
        self.filled(shape, |to| self.run(arithmetic.exact(), to))
    }

    /// What the bound of each element scales with.
    pub(super) fn magnitudes(&self, arithmetic: Arithmetic, shape: &[usize]) -> Result<DeviceMem<f64>> {
        let [a, b] = &self.operands;
        self.filled(shape, |to| match &self.kind {
            Kind::Gemm(product) => product.gemm(arithmetic).magnitudes(a, b, to),
            Kind::Conv(param, direction) => Conv::new(param.clone(), *direction, arithmetic).magnitudes(a, b, to),
        })
    }

    fn run(&self, arithmetic: Arithmetic, to: &mut TensorMut<'_>) -> Result<()> {
        let [a, b] = &self.operands;
        match &self.kind {
            Kind::Gemm(product) => product.gemm(arithmetic).run(a, b, to),
            Kind::Conv(param, direction) => Conv::new(param.clone(), *direction, arithmetic).run(a, b, to),
        }
    }

    fn filled(&self, shape: &[usize], fill: impl FnOnce(&mut TensorMut<'_>) -> Result<()>) -> Result<DeviceMem<f64>> {
        let mut memory = DeviceMem::new(self.device(), shape.iter().product())?;
        fill(&mut memory.tensor_mut(shape)?)?;
        Ok(memory)
    }

    /// The matrix product, where it is one.
    pub(super) fn product(&self) -> Option<&Product<'a>> {
        match &self.kind {
            Kind::Gemm(product) => Some(product),
            Kind::Conv(..) => None,
        }
    }

    /// The orders of products in which a model's result may be bit-exact.
    pub(super) fn orders(&self, parts: usize) -> Vec<Order> {
        match &self.kind {
            Kind::Gemm(_) => Order::of_gemm(self.terms(), parts),
            Kind::Conv(_, Direction::BackwardWeight) => vec![Order::Conv(KOrder::ChannelsFirst)],
            Kind::Conv(..) => vec![Order::Conv(KOrder::ChannelsFirst), Order::Conv(KOrder::ChannelsLast)],
        }
    }

    /// A corner of the result as a problem of its own, where that is less work: a matrix of up to so many rows and columns.
    pub(super) fn corner(&self, shape: &[usize], most: [usize; 2]) -> Result<Option<(Problem<'a>, Vec<usize>)>> {
        let (Kind::Gemm(product), [m, n]) = (&self.kind, shape) else { return Ok(None) };
        let (rows, columns) = ((*m).min(most[0]), (*n).min(most[1]));
        let first = |which: usize, extent: usize| {
            let t = &self.operands[which];
            let mut shape = t.shape().to_vec();
            // The axis that is not k's.
            shape[usize::from((which == 1) != product.transposed[which])] = extent;
            t.view(Layout::strided(&shape, t.layout().strides(), t.layout().offset())?)
        };
        let operands = [first(0, rows)?, first(1, columns)?];
        Ok(Some((Problem { operands, kind: self.kind.clone() }, vec![rows, columns])))
    }

    /// The GEMM without its last products, so many; `None` where there are no more, or it is none.
    pub(super) fn shortened(&self, by: usize) -> Result<Option<Problem<'a>>> {
        let (Kind::Gemm(product), true) = (&self.kind, self.terms() > by) else { return Ok(None) };
        let fewer = |which: usize| {
            let t = &self.operands[which];
            let mut shape = t.shape().to_vec();
            let axis = shape.len() - if product.sums_over_last(which) { 1 } else { 2 };
            shape[axis] -= by;
            t.view(Layout::strided(&shape, t.layout().strides(), t.layout().offset())?)
        };
        Ok(Some(Problem { operands: [fewer(0)?, fewer(1)?], kind: self.kind.clone() }))
    }

    /// The sums of products of a model in this order, in f32.
    pub(super) fn sums(&self, model: Model, order: &Order, shape: &[usize]) -> Result<Vec<f32>> {
        let [a, b] = &self.operands;
        let mut to = DeviceMem::<f32>::new(self.device(), shape.iter().product())?;
        match (&self.kind, order) {
            (Kind::Conv(param, direction), Order::Conv(order)) => {
                Conv::new(param.clone(), *direction, model).order(*order).run(a, b, &mut to.tensor_mut(shape)?)?;
                to.to_vec()
            }
            (Kind::Gemm(product), Order::Ascending) => {
                product.sums(model).run(a, b, &mut to.tensor_mut(shape)?)?;
                to.to_vec()
            }
            (Kind::Gemm(product), order) => {
                let mut sum: Option<Vec<f32>> = None;
                for part in order.parts(self.terms()) {
                    let [a, b] =
                        [0, 1].map(|which| Gathered::of(&self.operands[which], if product.sums_over_last(which) { 1 } else { 2 }, &part));
                    product.sums(model).run(&a?.tensor()?, &b?.tensor()?, &mut to.tensor_mut(shape)?)?;
                    let one = to.to_vec()?;
                    sum = Some(match sum {
                        None => one,
                        Some(sum) => sum.iter().zip(one).map(|(s, x)| s + x).collect(),
                    });
                }
                Ok(sum.unwrap_or_default())
            }
            (Kind::Conv(..), _) => Err(Error::Unsupported { what: format!("the order {order}"), by: "convolutions".to_owned() }),
        }
    }
}

/// The elements of a tensor at some positions of one axis, dense and in the order of these positions.
struct Gathered {
    bytes: DeviceBytes,
    dtype: DType,
    shape: Vec<usize>,
}

impl Gathered {
    fn of(tensor: &TensorRef<'_>, from_last: usize, positions: &[usize]) -> Result<Gathered> {
        let (dtype, layout) = (tensor.dtype(), tensor.layout());
        let axis = tensor.shape().len() - from_last;
        let mut shape = tensor.shape().to_vec();
        let extent = std::mem::replace(&mut shape[axis], positions.len());
        let inner: usize = shape[axis + 1..].iter().product();
        let from = on_host(tensor)?;
        let elements = shape.iter().product();
        let size = dtype.bytes_for(elements).ok_or(Error::SizeOverflow { what: "an operand", elements, unit_bytes: dtype.unit_bytes() })?;
        let mut bytes = vec![0; size];
        for i in 0..elements {
            let (outer, at) = (i / (inner * positions.len()), i / inner % positions.len());
            let index = (outer * extent + positions[at]) * inner + i % inner;
            dtype.store_bits(&mut bytes, i, dtype.load_bits(&from, layout.index(index)));
        }
        let mut memory = DeviceBytes::new(tensor.device(), size)?;
        memory.copy_from_slice(&bytes)?;
        Ok(Gathered { bytes: memory, dtype, shape })
    }

    fn tensor(&self) -> Result<TensorRef<'_>> {
        let layout = Layout::contiguous(&self.shape)?;
        // SAFETY: the block has this size, was filled, and is borrowed for as long as the tensor lives.
        unsafe { TensorRef::from_raw(self.bytes.device(), self.bytes.ptr(), self.bytes.byte_size(), self.dtype, layout) }
    }
}

/// The memory of a tensor, on the host.
pub(super) fn on_host<'a>(tensor: &TensorRef<'a>) -> Result<Cow<'a, [u8]>> {
    match tensor.device().backend() {
        Backend::Host => Ok(Cow::Borrowed(tensor.host_bytes())),
        Backend::Hip(gpu) => {
            let mut bytes = vec![0; tensor.byte_size()];
            // SAFETY: a tensor's memory is readable by its device.
            unsafe { download(gpu, tensor.as_ptr(), &mut bytes)? };
            Ok(Cow::Owned(bytes))
        }
    }
}
