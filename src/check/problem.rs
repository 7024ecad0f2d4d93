//! What is computed: a GEMM or a convolution, its exact result, its magnitudes, and what the models of matrix cores make of it.

use super::copied::Copied;
use super::dequantised::Applied;
use super::order::Order;
use super::scales::{Blocks, Scale};
use crate::device::{Device, DeviceKind, DeviceMem, TensorMut, TensorRef, reader};
use crate::dtype::{DType, convert};
use crate::error::{Error, Result};
use crate::matrix_core::{Model, gemm_tile};
use crate::parallel;
use crate::reference::{Accumulate, Arithmetic, Conv, ConvParam, Direction, Epilogue, Gemm, KOrder, has_device_code};

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

/// A GEMM: D = epilogue(alpha·A·B + beta·C + bias), where A and B may have scales.
#[derive(Clone, Debug)]
pub(super) struct Product<'a> {
    pub transposed: [bool; 2],
    pub alpha: f64,
    pub beta: f64,
    pub c: Option<TensorRef<'a>>,
    pub bias: Option<TensorRef<'a>>,
    pub epilogue: Epilogue,
    /// In a box, as most products have none.
    pub scales: Box<[Scale<'a>; 2]>,
    /// Where the operands are multiplied by their scales already, what the bound has to know of that.
    pub applied: Option<Applied>,
}

impl<'a> Product<'a> {
    /// A·B.
    pub(super) fn new() -> Product<'a> {
        Product {
            transposed: [false; 2],
            alpha: 1.0,
            beta: 0.0,
            c: None,
            bias: None,
            epilogue: Epilogue::None,
            scales: Default::default(),
            applied: None,
        }
    }

    /// Whether operands are still to be multiplied by scales.
    pub(super) fn is_scaled(&self) -> bool {
        self.applied.is_none() && self.scales.iter().any(|scale| scale.tensor.is_some() || scale.block.is_some())
    }

    /// The blocks of A (0) or B (1), of this shape, that have scales of their own.
    pub(super) fn blocks(&self, which: usize, operand: &[usize]) -> Result<Option<Blocks>> {
        self.scales[which].blocks(which, operand, self.k_axis(which))
    }

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

    /// That scales lie on the operands' device, and that their shapes say which elements they are of.
    fn expect_scales(&self, operands: [&TensorRef<'_>; 2]) -> Result<()> {
        if self.applied.is_some() {
            return Ok(());
        }
        for ((which, operand), name) in operands.into_iter().enumerate().zip(["the scale of A", "the scale of B"]) {
            self.scales[which].tensor.as_ref().map_or(Ok(()), |scale| operand.device().expect_same(scale.device(), name))?;
            self.blocks(which, operand.shape())?;
        }
        Ok(())
    }

    /// The axis of k of A (0) or B (1), counted from the last axis, which is 1.
    pub(super) fn k_axis(&self, which: usize) -> usize {
        if (which == 0) != self.transposed[which] { 1 } else { 2 }
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

    /// The formats of the operands as the kernel has them.
    pub(super) fn dtypes(&self) -> [DType; 2] {
        self.applied().map_or([self.operands[0].dtype(), self.operands[1].dtype()], |applied| applied.stored)
    }

    /// Where operands are multiplied by their scales already, what the bound has to know of that.
    pub(super) fn applied(&self) -> Option<&Applied> {
        self.product().and_then(|product| product.applied.as_ref())
    }

    /// `, scales of A f32 1x128, of B f8e8m0 32x1`; nothing where there are none, or they do not fit.
    pub(super) fn scales_in_words(&self) -> String {
        let Some(product) = self.product() else { return String::new() };
        let of = |(which, name): (usize, &str)| {
            let blocks = product.blocks(which, self.operands[which].shape()).ok()??;
            Some(format!("of {name} {} {}", product.scales[which].format()?, blocks.words()))
        };
        let words: Vec<String> = [(0, "A"), (1, "B")].into_iter().filter_map(of).collect();
        if words.is_empty() { String::new() } else { format!(", scales {}", words.join(", ")) }
    }

    /// The format in which floats are added where nothing is said: f64 where an operand is, else f32.
    pub(super) fn accumulator(&self) -> DType {
        if self.dtypes().contains(&DType::F64) { DType::F64 } else { DType::F32 }
    }

    /// alpha and beta; 1 and 0 of a convolution.
    pub(super) fn scalars(&self) -> (f64, f64) {
        self.product().map_or((1.0, 0.0), |product| (product.alpha, product.beta))
    }

    /// Whether operands are still to be multiplied by scales.
    pub(super) fn is_scaled(&self) -> bool {
        self.product().is_some_and(Product::is_scaled)
    }

    /// Products of one element, padding of a convolution included.
    pub(super) fn terms(&self) -> usize {
        match &self.kind {
            Kind::Gemm(product) => match (self.operands[0].shape(), product.transposed[0]) {
                ([.., k, _], true) | ([.., k], false) => *k,
                _ => 0,
            },
            Kind::Conv(param, direction) => param.terms(*direction),
        }
    }

    /// Products of one element where instructions take so many at once: of a convolution a kernel may fill up the channels of each position of the filter with zeros.
    /// Sums over images and positions are one row of products.
    pub(super) fn padded_terms(&self, group: usize) -> usize {
        let channels = match &self.kind {
            Kind::Conv(param, Direction::Forward) => param.in_channels(),
            Kind::Conv(param, Direction::BackwardData) => param.out_channels(),
            Kind::Gemm(_) | Kind::Conv(_, Direction::BackwardWeight) => return self.terms(),
        };
        self.terms() / channels * channels.next_multiple_of(group.max(1))
    }

    /// Roundings between the sum and the result: alpha, which is itself rounded where the accumulator's format does not have it, beta C and its addition, the bias.
    pub(super) fn roundings_after(&self, accumulator: DType) -> usize {
        match &self.kind {
            Kind::Gemm(p) => {
                let alpha = if p.alpha == 1.0 { 0 } else { 2 - usize::from(accumulator.holds(p.alpha)) };
                alpha + 2 * usize::from(p.c.is_some()) + usize::from(p.bias.is_some())
            }
            Kind::Conv(..) => 0,
        }
    }

    /// What counts in full, relative to S: by how much more than its unit roundoff the accumulator's format misses alpha or beta where they are beyond its normal numbers; and scales.
    pub(super) fn scalar_error(&self, accumulator: DType) -> f64 {
        let (Kind::Gemm(p), Some(format)) = (&self.kind, accumulator.float_format()) else { return 0.0 };
        let error = |x: f64| {
            let rounded = accumulator.rounded(x);
            if x == 0.0 { 0.0 } else { ((rounded - x) / x).abs() - format.unit_roundoff() }
        };
        let scalars = error(p.alpha).max(p.c.as_ref().map_or(0.0, |_| error(p.beta))).max(0.0);
        let scales = p.applied.as_ref().map_or(0.0, |applied| applied.error(accumulator));
        scalars + scales + scalars * scales
    }

    /// `gemm of 64 x 128 by 128 x 32`, or the convolution.
    pub(super) fn name(&self, result: &[usize]) -> String {
        match &self.kind {
            Kind::Gemm(_) => {
                let extents: Vec<String> = result.iter().map(usize::to_string).collect();
                format!("gemm of {}, k {}", extents.join(" x "), self.terms())
            }
            Kind::Conv(param, direction) => format!("convolution {param}, {}", direction.name()),
        }
    }

    /// That there is a result, and that operands, C and the bias have the shapes that it asks for, and lie on its device.
    pub(super) fn expect_shapes(&self, result: &TensorRef<'_>) -> Result<()> {
        if result.elements() == 0 {
            let limit = "a check of nothing is not a pass; give a result with at least one element".to_owned();
            return Err(Error::InvalidArgument { what: "elements", value: "0".to_owned(), limit });
        }
        let [a, b] = &self.operands;
        match &self.kind {
            Kind::Gemm(product) => {
                product.gemm(Accumulate::F64.into()).expect_shapes(a, b, result)?;
                product.expect_scales([a, b])
            }
            Kind::Conv(param, direction) => Conv::new(param.clone(), *direction, Accumulate::F64).expect_shapes(a, b, result),
        }
    }

    /// The shape of a result with the axes of space as one: of a convolution, whose channels and positions are rows and columns then.
    pub(super) fn matrices(&self, result: &[usize]) -> Vec<usize> {
        let Kind::Conv(param, direction) = &self.kind else { return result.to_vec() };
        let role = direction.roles()[2];
        let name = param.layout(role).to_string();
        let mut shape: Vec<usize> = Vec::new();
        let mut after_space = false;
        for (axis, extent) in name.chars().zip(param.shape(role)) {
            let space = !"ngkc".contains(axis);
            match shape.last_mut() {
                Some(last) if space && after_space => *last *= extent,
                _ => shape.push(extent),
            }
            after_space = space;
        }
        shape
    }

    /// The exact result in f64, of the operands as `arithmetic` reads them.
    pub(super) fn exact(&self, arithmetic: Arithmetic, shape: &[usize]) -> Result<DeviceMem<f64>> {
        let [a, b] = &self.operands;
        self.filled(shape, |to| match &self.kind {
            Kind::Gemm(product) => product.gemm(arithmetic.exact()).run(a, b, to),
            Kind::Conv(param, direction) => Conv::new(param.clone(), *direction, arithmetic.exact()).run(a, b, to),
        })
    }

    /// What the bound of each element scales with.
    pub(super) fn magnitudes(&self, arithmetic: Arithmetic, shape: &[usize]) -> Result<DeviceMem<f64>> {
        let [a, b] = &self.operands;
        self.filled(shape, |to| match &self.kind {
            Kind::Gemm(product) => product.gemm(arithmetic).magnitudes(a, b, to),
            Kind::Conv(param, direction) => Conv::new(param.clone(), *direction, arithmetic).magnitudes(a, b, to),
        })
    }

    pub(super) fn filled(&self, shape: &[usize], fill: impl FnOnce(&mut TensorMut<'_>) -> Result<()>) -> Result<DeviceMem<f64>> {
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

    /// The problem without one limit of its clamp, for each that is a number other than 0.
    pub(super) fn without_limits(&self) -> Vec<Problem<'a>> {
        let Some(Product { epilogue: Epilogue::Clamp { low, high }, .. }) = self.product() else { return Vec::new() };
        let (low, high) = (*low, *high);
        let open = [(low, Epilogue::Clamp { low: f64::NEG_INFINITY, high }), (high, Epilogue::Clamp { low, high: f64::INFINITY })];
        let counts = open.into_iter().filter(|(limit, _)| limit.is_finite() && *limit != 0.0);
        counts.filter_map(|(_, epilogue)| Some(self.with(Product { epilogue, ..self.product()?.clone() }))).collect()
    }

    /// The problem with another product of the same operands.
    pub(super) fn with(&self, product: Product<'a>) -> Problem<'a> {
        Problem { operands: self.operands.clone(), kind: Kind::Gemm(product) }
    }

    /// The orders of products in which a model's result may be bit-exact.
    pub(super) fn orders(&self, parts: usize) -> Vec<Order> {
        match &self.kind {
            Kind::Gemm(_) => Order::of_gemm(self.terms(), parts),
            Kind::Conv(_, Direction::BackwardWeight) => vec![Order::Conv(KOrder::ChannelsFirst)],
            Kind::Conv(..) => vec![Order::Conv(KOrder::ChannelsFirst), Order::Conv(KOrder::ChannelsLast)],
        }
    }

    /// The sums of products of a model in this order, in f32, of accumulators that start with these values, the first part's where there are several. On the host.
    pub(super) fn sums_from(&self, model: Model, order: &Order, shape: &[usize], start: Vec<f32>) -> Result<Vec<f32>> {
        let (Kind::Gemm(product), [batch @ .., m, n]) = (&self.kind, shape) else {
            return Err(Error::Unsupported { what: "accumulators that start with C".to_owned(), by: "convolutions".to_owned() });
        };
        let (m, n, k) = (*m, *n, self.terms());
        let [a, b] = [values(&self.operands[0])?, values(&self.operands[1])?];
        // Where element (row, k) of A and (k, column) of B lie; a matrix without a batch serves every one.
        let [ta, tb] = product.transposed;
        let at_a = |i: usize, x: usize| if ta { x * m + i } else { i * k + x };
        let at_b = |x: usize, j: usize| if tb { j * k + x } else { x * n + j };
        let matrix = |all: &[f32], size: usize, number: usize| number * size % all.len().max(1);
        let mut sums = start;
        for (part, ks) in order.parts(k).into_iter().enumerate() {
            for number in 0..batch.iter().product() {
                let (a, b) = (&a[matrix(&a, m * k, number)..], &b[matrix(&b, k * n, number)..]);
                let left: Vec<f32> = (0..m).flat_map(|i| ks.iter().map(move |&x| at_a(i, x))).map(|at| a[at]).collect();
                let right: Vec<f32> = ks.iter().flat_map(|&x| (0..n).map(move |j| at_b(x, j))).map(|at| b[at]).collect();
                let out = &mut sums[number * m * n..][..m * n];
                if part == 0 {
                    tiles(model, [m, n, ks.len()], &left, &right, out);
                } else {
                    let mut own = vec![0.0; m * n];
                    tiles(model, [m, n, ks.len()], &left, &right, &mut own);
                    out.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
                }
            }
        }
        Ok(sums)
    }

    /// The sums of products of a model in this order, in f32, of each part of k: on the host where GPUs have no code of the model.
    pub(super) fn parts_of_sums(&self, model: Model, order: &Order, shape: &[usize]) -> Result<Vec<Vec<f32>>> {
        if self.device().kind() == DeviceKind::Host || has_device_code(model) {
            return self.parts_on_device(model, order, shape);
        }
        let [a, b] = &self.operands;
        let bytes = [a.fetch()?, b.fetch()?];
        let copy = |bytes, t: &TensorRef<'_>| TensorRef::from_host_bytes(bytes, t.dtype(), t.layout().clone());
        let operands = [copy(&bytes[0], a)?, copy(&bytes[1], b)?];
        Problem { operands, kind: self.kind.clone() }.parts_on_device(model, order, shape)
    }

    /// The same on the device of the operands.
    fn parts_on_device(&self, model: Model, order: &Order, shape: &[usize]) -> Result<Vec<Vec<f32>>> {
        let [a, b] = &self.operands;
        let mut to = DeviceMem::<f32>::new(self.device(), shape.iter().product())?;
        match (&self.kind, order) {
            (Kind::Conv(param, direction), Order::Conv(order)) => {
                Conv::new(param.clone(), *direction, model).order(*order).run(a, b, &mut to.tensor_mut(shape)?)?;
                Ok(vec![to.to_vec()?])
            }
            (Kind::Gemm(product), Order::Ascending) => {
                product.sums(model).run(a, b, &mut to.tensor_mut(shape)?)?;
                Ok(vec![to.to_vec()?])
            }
            (Kind::Gemm(product), order) => {
                let mut of_part = |part: &Vec<usize>| {
                    let [a, b] = [0, 1].map(|which| Copied::gathered(&self.operands[which], product.k_axis(which), part));
                    product.sums(model).run(&a?.tensor()?, &b?.tensor()?, &mut to.tensor_mut(shape)?)?;
                    to.to_vec()
                };
                order.parts(self.terms()).iter().map(&mut of_part).collect()
            }
            (Kind::Conv(..), _) => Err(Error::Unsupported { what: format!("the order {order}"), by: "convolutions".to_owned() }),
        }
    }
}

/// C += A·B through a model, on all cores.
fn tiles(model: Model, [m, n, k]: [usize; 3], a: &[f32], b: &[f32], c: &mut [f32]) {
    const ROWS: usize = 16;
    debug_assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    parallel::chunks_mut(c, (ROWS * n).max(1), |tile, c| {
        let rows = c.len() / n.max(1);
        gemm_tile(model, rows, n, k, &a[tile * ROWS * k..][..rows * k], k, b, n, c, n);
    });
}

/// The values of a tensor in logical order, as f32.
pub(super) fn values(tensor: &TensorRef<'_>) -> Result<Vec<f32>> {
    let (bytes, mut values) = (reader::dense(tensor)?, vec![0.0; tensor.elements()]);
    convert::decode_f64(tensor.dtype(), &bytes, &mut values);
    Ok(values.into_iter().map(|x| x as f32).collect())
}
