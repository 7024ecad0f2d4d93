//! The computation: kernel and validator side by side, a slab of images at a time.

use super::config::{Configuration, Kernel, Range, Validator, Variant};
use super::inputs::inputs;
use super::metrics::{Accumulator, Metrics};
use super::split;
use crate::device::{AsTensor, Device, DeviceKind, DeviceMem};
use crate::dtype::F16;
use crate::error::{Error, Result};
use crate::matrix_core::{Arch, Input, Model};
use crate::reference::{
    Accumulate, Arithmetic, ConvParam, Convolution, Direction, KOrder, Lattice, Role, convolve_on, convolve_through_f32,
};
use half::slice::HalfFloatSliceExt;

/// One run of the study.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The convolution.
    pub configuration: Configuration,
    /// The inputs.
    pub range: Range,
    /// The seed of the generator; the study's is 1.
    pub seed: u32,
    /// The GPU: gfx908 or gfx90a.
    pub arch: Arch,
    /// The kernel under test.
    pub kernel: Kernel,
    /// What it is held against.
    pub validator: Validator,
    /// Version of validator and metrics.
    pub variant: Variant,
    /// Where to compute; the result is the same everywhere.
    pub device: Device,
}

/// The result of a [`Replay`].
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The metrics; where the order is not fixed, those of partial sums added in ascending order.
    pub metrics: Metrics,
    /// Where partial sums are added in any order: the metrics with every element as near to the validator, and as far from
    /// it, as the orders allow.
    pub orders: Option<Orders>,
}

/// What the possible orders of partial sums allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// Partial sums.
    pub parts: usize,
    /// Every element as near to the validator's as it can get.
    pub nearest: Metrics,
    /// Every element as far from it as it can get.
    pub farthest: Metrics,
}

/// Output elements that are computed before they are compared.
const SLAB: usize = 1 << 22;

/// The operands of a run, in memory order.
struct Operands {
    first: Vec<F16>,
    second: Vec<F16>,
}

impl Replay {
    /// Runs kernel and validator and compares them.
    ///
    /// # Errors
    /// When the configuration is impossible, or its order of accumulation is not known.
    pub fn run(&self) -> Result<Outcome> {
        let c = &self.configuration;
        let param = c.param()?;
        let model = self.model()?;
        if c.direction == Direction::BackwardData && (c.filter != [1, 1] || c.stride != [1, 1]) {
            return Err(Error::Unsupported {
                what: format!("backward data with filter {:?} and stride {:?}", c.filter, c.stride),
                by: "the replay: the order of such kernels is not known; 1x1 filters with stride 1 are".to_owned(),
            });
        }
        if !(self.range.min.is_finite() && self.range.max.is_finite() && self.range.min <= self.range.max) {
            return Err(Error::InvalidArgument {
                what: "range",
                value: format!("[{}, {}]", self.range.min, self.range.max),
                limit: "finite numbers in ascending order".to_owned(),
            });
        }
        let roles = match c.direction {
            Direction::Forward => [Role::Input, Role::Filter],
            Direction::BackwardData => [Role::Output, Role::Filter],
            Direction::BackwardWeight => [Role::Input, Role::Output],
        };
        let [first, second] = roles.map(|role| inputs(param.elements(role), self.range, self.seed));
        let parts = if self.kernel == Kernel::Xdlops { c.split() } else { 1 };
        let operands = Operands { first, second };
        let outcome = match c.direction {
            Direction::BackwardWeight => self.weights(&param, &operands, model, parts)?,
            _ => self.images(&param, &operands, model)?,
        };
        Ok(outcome)
    }

    /// The arithmetic of the chip's f16 instructions.
    fn model(&self) -> Result<Model> {
        if ![Arch::Gfx908, Arch::Gfx90a].contains(&self.arch) {
            return Err(Error::InvalidArgument {
                what: "architecture",
                value: self.arch.to_string(),
                limit: "the study measured gfx908 and gfx90a".to_owned(),
            });
        }
        Model::new(self.arch, Input::F16)
    }

    fn accumulator(&self) -> Accumulator {
        Accumulator::new(self.variant)
    }

    /// Forward and backward data: images are independent.
    fn images(&self, param: &ConvParam, operands: &Operands, model: Model) -> Result<Outcome> {
        let lattice = param.lattice();
        let (from, to, elements) = match self.configuration.direction {
            Direction::BackwardData => (lattice.output_at.outer, lattice.input_at.outer, param.elements(Role::Input)),
            _ => (lattice.input_at.outer, lattice.output_at.outer, param.elements(Role::Output)),
        };
        // Where images are not the slowest axis, there is one slab.
        let outermost = from * lattice.images == operands.first.len() && to * lattice.images == elements;
        let slab = if outermost { (SLAB / to).clamp(1, lattice.images) } else { lattice.images };
        let second = self.side(&operands.second)?;
        let mut accumulator = self.accumulator();
        for start in (0..lattice.images).step_by(slab) {
            let images = slab.min(lattice.images - start);
            let part = Lattice { images, ..lattice.clone() };
            let (source, len) = match images == lattice.images {
                true => (&operands.first[..], elements),
                false => (&operands.first[start * from..(start + images) * from], images * to),
            };
            let first = self.side(source)?;
            let kern = self.kernel(model, param, &part, (&first, &second), len)?;
            let val = self.validator(param, &part, (&first, &second), len)?;
            accumulator.add(&val, &kern);
        }
        Ok(Outcome { metrics: accumulator.finish(), orders: None })
    }

    /// Backward weight: one result over all images.
    fn weights(&self, param: &ConvParam, operands: &Operands, model: Model, parts: usize) -> Result<Outcome> {
        let lattice = param.lattice();
        let len = param.elements(Role::Filter);
        let sides = (self.side(&operands.first)?, self.side(&operands.second)?);
        let sides = (&sides.0, &sides.1);
        let val = self.validator(param, &lattice, sides, len)?;
        if parts == 1 {
            let mut accumulator = self.accumulator();
            accumulator.add(&val, &self.kernel(model, param, &lattice, sides, len)?);
            return Ok(Outcome { metrics: accumulator.finish(), orders: None });
        }
        let wide = (widen(&operands.first, false), widen(&operands.second, false));
        let sums = split::Sums::new(&self.device, &lattice, Accumulate::MatrixCore(model), (&wide.0, &wide.1), parts, len)?;
        let metrics = |kern: Vec<F16>| {
            let mut accumulator = self.accumulator();
            accumulator.add(&val, &kern);
            accumulator.finish()
        };
        let (nearest, farthest) = sums.extremes(&val);
        let orders = Orders { parts, nearest: metrics(nearest), farthest: metrics(farthest) };
        Ok(Outcome { metrics: metrics(sums.ascending()), orders: Some(orders) })
    }

    /// Whether the validator takes subnormal inputs as zero.
    fn flushes(&self) -> bool {
        let backward_data = self.configuration.direction == Direction::BackwardData;
        self.variant == Variant::Later && self.arch == Arch::Gfx90a && self.validator == Validator::Cpu && !backward_data
    }

    /// A tensor of inputs, ready for the device.
    fn side(&self, values: &[F16]) -> Result<Side> {
        Ok(match self.device.kind() {
            DeviceKind::Host => Side::Host { plain: widen(values, false), flushed: self.flushes().then(|| widen(values, true)) },
            _ => Side::Gpu(DeviceMem::from_slice(&self.device, values)?),
        })
    }

    fn kernel(&self, model: Model, param: &ConvParam, lattice: &Lattice, sides: (&Side, &Side), len: usize) -> Result<Vec<F16>> {
        let accumulate = match self.kernel {
            Kernel::Xdlops => Accumulate::MatrixCore(model),
            Kernel::NonXdlops => Accumulate::F32Fma,
        };
        self.convolve(lattice, self.configuration.kernel_order(param), accumulate.into(), sides, len)
    }

    fn validator(&self, param: &ConvParam, lattice: &Lattice, sides: (&Side, &Side), len: usize) -> Result<Vec<F16>> {
        // The later versions left the validator of backward data as it was.
        let backward_data = self.configuration.direction == Direction::BackwardData;
        let variant = if backward_data { Variant::First } else { self.variant };
        let accumulate = match (self.validator, variant, self.kernel) {
            (Validator::Gpu, ..) => {
                return self.convolve(lattice, self.configuration.kernel_order(param), Accumulate::F32Fma.into(), sides, len);
            }
            (_, Variant::Accumulate4, _) => Accumulate::Groups4,
            (_, Variant::Later, _) => Accumulate::Every4,
            (.., Kernel::Xdlops) => Accumulate::F64,
            (.., Kernel::NonXdlops) => Accumulate::F64Rounded,
        };
        // The order of the CPU's loops.
        self.convolve(lattice, KOrder::ChannelsFirst, Arithmetic { accumulate, flush_subnormals: self.flushes() }, sides, len)
    }

    /// The results, by way of f32.
    fn convolve(&self, lattice: &Lattice, order: KOrder, arithmetic: Arithmetic, sides: (&Side, &Side), len: usize) -> Result<Vec<F16>> {
        let (accumulate, direction) = (arithmetic.accumulate, self.configuration.direction);
        let inside = accumulate == Accumulate::Every4 && direction == Direction::BackwardWeight;
        let what = Convolution { lattice, direction, order, inside };
        let mut out = vec![F16::ZERO; len];
        match sides {
            (Side::Gpu(a), Side::Gpu(b)) => {
                let mut result = DeviceMem::<F16>::new(&self.device, len)?;
                convolve_through_f32(what, arithmetic, [&a.as_tensor(), &b.as_tensor()], &mut result.tensor_mut(&[len])?)?;
                result.copy_to_slice(&mut out)?;
            }
            (a, b) => {
                let operands = (a.on_host(arithmetic.flush_subnormals), b.on_host(arithmetic.flush_subnormals));
                let finish = |acc: &[f64]| narrow(&acc.iter().map(|&v| v as f32).collect::<Vec<_>>());
                convolve_on(&Device::host(), what, accumulate, operands, finish, &mut out)?;
            }
        }
        Ok(out)
    }
}

/// A tensor of inputs where it is computed with.
enum Side {
    /// Widened; and with subnormal numbers flushed, where a validator does that.
    Host { plain: Vec<f32>, flushed: Option<Vec<f32>> },
    /// As it is: the device widens and flushes.
    Gpu(DeviceMem<F16>),
}

impl Side {
    /// The numbers of a side on the host.
    fn on_host(&self, flush: bool) -> &[f32] {
        match self {
            Side::Host { flushed: Some(flushed), .. } if flush => flushed,
            Side::Host { plain, .. } => plain,
            Side::Gpu(_) => &[],
        }
    }
}

/// f16 to f32; with `flush`, magnitudes below 2^-14 become +0.
fn widen(from: &[F16], flush: bool) -> Vec<f32> {
    let mut to = vec![0.0; from.len()];
    from.convert_to_f32_slice(&mut to);
    if flush {
        let least = F16::MIN_POSITIVE.to_f32();
        to.iter_mut().filter(|v| v.abs() < least).for_each(|v| *v = 0.0);
    }
    to
}

/// f32 to f16, nearest even.
pub(super) fn narrow(from: &[f32]) -> Vec<F16> {
    let mut to = vec![F16::ZERO; from.len()];
    to.convert_from_f32_slice(from);
    to
}
