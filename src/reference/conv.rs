//! Convolutions over tensors of a device.

use super::accumulate::{Accumulate, Arithmetic};
use super::chain::Chain;
use super::chain::Number;
use super::conv_layout::Role;
use super::conv_param::ConvParam;
use super::engine::{Convolution, convolve};
use super::gpu::{self, Family};
use super::lattice::{Direction, KOrder, Lattice};
use super::operand::{self, Evaluation, First, Operands};
use crate::device::host::zeros;
use crate::device::{AsTensor, Backend, TensorMut, TensorRef};
use crate::error::{Error, Result};
use hipverify_sys::abi::ReferenceSums;

/// A reference convolution.
///
/// Tensors have the shape that [`ConvParam::shape`] gives for their role, in the order of their layout. Each element is
/// accumulated from zero by the [`Arithmetic`], over the products in the stated [`KOrder`], padding included as zeros; the
/// accumulator is rounded once to the format of the result. The bits depend neither on threads nor on the CPU.
///
/// ```
/// use hipverify::reference::{Accumulate, Conv, Direction};
/// use hipverify::{Device, DeviceMem};
/// let host = Device::host();
/// // One image of four pixels, a filter of two, one channel.
/// let conv = Conv::new("1 1 1 1 1 2 4 1 1 0 0".parse()?, Direction::Forward, Accumulate::F64);
/// let x = DeviceMem::<f32>::from_slice(&host, &[1.0, 2.0, 3.0, 4.0])?;
/// let w = DeviceMem::<f32>::from_slice(&host, &[10.0, 1.0])?;
/// let mut y = DeviceMem::<f32>::new(&host, 3)?;
/// conv.run(&x, &w, &mut y.tensor_mut(&[3])?)?;
/// assert_eq!(y.to_vec()?, [12.0, 23.0, 34.0]);
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv {
    param: ConvParam,
    direction: Direction,
    arithmetic: Arithmetic,
    order: KOrder,
    through_f32: bool,
}

impl Conv {
    /// A convolution whose products are taken in the order with channels first.
    pub fn new(param: ConvParam, direction: Direction, arithmetic: impl Into<Arithmetic>) -> Conv {
        Conv { param, direction, arithmetic: arithmetic.into(), order: KOrder::ChannelsFirst, through_f32: false }
    }

    /// Takes the products in this order.
    pub fn order(mut self, order: KOrder) -> Conv {
        self.order = order;
        self
    }

    /// Rounds accumulators to f32 before they are rounded to the format of the result, like programs that keep them in f32.
    pub fn through_f32(mut self) -> Conv {
        self.through_f32 = true;
        self
    }

    /// The parameters.
    pub fn param(&self) -> &ConvParam {
        &self.param
    }

    /// The roles of the two operands and of the result: those of its [direction](Direction::roles).
    pub fn roles(&self) -> [Role; 3] {
        self.direction.roles()
    }

    /// Computes the result from both operands, in the order of [`roles`](Conv::roles). Axes of extent 1 may be missing, such as the
    /// only group of an image of `[n, c, h, w]`, and a tensor of one dimension with the right number of elements will do as well.
    ///
    /// # Errors
    /// When shapes or formats do not fit, or tensors are on different devices.
    pub fn run(&self, first: &impl AsTensor, second: &impl AsTensor, to: &mut TensorMut<'_>) -> Result<()> {
        self.compute(&first.as_tensor(), &second.as_tensor(), to, false)
    }

    /// Computes Σ|a||b| for every element of the result, accumulated in f64, as error bounds of this arithmetic need it: see [`Gemm::magnitudes`](super::Gemm::magnitudes).
    ///
    /// # Errors
    /// As for [`run`](Conv::run).
    pub fn magnitudes(&self, first: &impl AsTensor, second: &impl AsTensor, to: &mut TensorMut<'_>) -> Result<()> {
        self.compute(&first.as_tensor(), &second.as_tensor(), to, true)
    }

    fn compute(&self, first: &TensorRef<'_>, second: &TensorRef<'_>, to: &mut TensorMut<'_>, magnitudes: bool) -> Result<()> {
        self.expect_shapes(first, second, to.as_ref())?;
        to.as_ref().layout().expect_distinct()?;
        let arithmetic = if magnitudes { self.arithmetic.exact() } else { self.arithmetic };
        arithmetic.accepts(first.dtype(), second.dtype())?;
        let accumulate = arithmetic.accumulate;
        let least = magnitudes.then(|| [first, second].map(|t| self.arithmetic.least_magnitude(t.dtype())));
        let single = self.through_f32 && !magnitudes;
        let device = to.as_ref().device().clone();
        if let Backend::Hip(gpu) = device.backend() {
            let (plan, first_is) = self.plan(accumulate)?;
            let family =
                Family { arithmetic, magnitudes: least, plan, first: first_is, operands: [first, second], elements: self.elements() };
            let sums = family.sums(gpu)?;
            return gpu::write(gpu, &sums, single, to);
        }
        let values = Operands::read(arithmetic, first, second)?;
        let values = match least {
            Some(least) => values.magnitudes(least),
            None => values,
        };
        // On the host the second operand is the left one of the matrix products.
        let accumulate = match accumulate {
            Accumulate::MatrixCore(model) => Accumulate::MatrixCore(model.exchanged()),
            other => other,
        };
        let mut sums = values.run(accumulate, self)?;
        if single {
            operand::round_to_f32(&mut sums);
        }
        operand::write(to, &sums)
    }

    /// Checks that tensors have the shapes of this convolution, and are on one device.
    pub(crate) fn expect_shapes(&self, first: &TensorRef<'_>, second: &TensorRef<'_>, to: &TensorRef<'_>) -> Result<()> {
        to.device().expect_same(first.device(), "the first operand")?;
        to.device().expect_same(second.device(), "the second operand")?;
        for (tensor, role) in [first, second, to].into_iter().zip(self.roles()) {
            let expected = self.param.shape(role);
            let longer = |shape: &[usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
            if longer(tensor.shape()) != longer(&expected) && tensor.shape() != [self.param.elements(role)] {
                return Err(Error::Shape {
                    what: format!("{role:?} in layout {}", self.param.layout(role)),
                    expected,
                    found: tensor.shape().to_vec(),
                });
            }
        }
        Ok(())
    }

    /// The same sums for the device code.
    fn plan(&self, accumulate: Accumulate) -> Result<(ReferenceSums, First)> {
        let inside = accumulate == Accumulate::Every4 && self.direction == Direction::BackwardWeight;
        Ok((self.param.lattice().plan(self.direction, self.order, inside)?, First::Source))
    }
}

impl Evaluation for Conv {
    fn elements(&self) -> usize {
        self.param.elements(self.roles()[2])
    }

    fn run<S: Number + Into<C::Element>, C: Chain>(&self, chain: C, a: &[S], b: &[S]) -> Result<Vec<f64>> {
        let lattice: Lattice = self.param.lattice();
        let inside = self.arithmetic.accumulate == Accumulate::Every4;
        let what = Convolution { lattice: &lattice, direction: self.direction, order: self.order, inside };
        let mut out = zeros::<f64>(self.elements())?;
        convolve(what, chain, (a, b), |acc: &[C::Element]| acc.iter().map(|v| v.widened()).collect(), &mut out);
        Ok(out)
    }
}
