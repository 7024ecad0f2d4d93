//! The computation: kernel and validator side by side, a slab of images at a time.

use super::config::{Configuration, Kernel, Range, Validator, Variant};
use super::metrics::{Accumulator, StudyMetrics};
use super::shared::{Computed, Shared, Source};
use super::split;
use crate::device::{Device, DeviceMem, Layout, TensorRef};
use crate::dtype::F16;
use crate::error::{Error, Result};
use crate::fill::FillCRand;
use crate::matrix_core::{Arch, Input, Model};
use crate::reference::{Accumulate, Arithmetic, Conv, ConvParam, Direction, KOrder, Role};
use std::sync::Arc;

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
    pub metrics: StudyMetrics,
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
    pub nearest: StudyMetrics,
    /// Every element as far from it as it can get.
    pub farthest: StudyMetrics,
}

/// Output elements that are computed before they are compared.
const SLAB: usize = 1 << 22;

/// A tensor of a convolution on the device, dense.
#[derive(Debug)]
pub(super) struct Side {
    role: Role,
    values: DeviceMem<F16>,
    param: ConvParam,
}

impl Side {
    /// The study's inputs: the C library's generator, scaled in f32, truncated to f16. Every tensor starts the generator anew.
    fn new(device: &Device, param: &ConvParam, role: Role, range: Range, seed: u32) -> Result<Side> {
        let mut values = DeviceMem::new(device, param.elements(role))?;
        values.fill(&FillCRand::new(range.min, range.max).seed(u64::from(seed)))?;
        Ok(Side { role, values, param: param.clone() })
    }

    /// The part that belongs to the images of `part`, from image `start` on; all of a filter.
    pub(super) fn images(&self, part: &ConvParam, start: usize) -> Result<TensorRef<'_>> {
        let whole = Layout::contiguous(&self.param.shape(self.role))?;
        let offset = if self.role == Role::Filter { 0 } else { start * self.param.image_stride(self.role) };
        self.values.strided(Layout::strided(&part.shape(self.role), whole.strides(), offset)?)
    }
}

/// Some of a run's images.
struct Part<'a> {
    param: &'a ConvParam,
    /// The first image.
    start: usize,
    sides: [&'a Side; 2],
    /// Elements of the whole run's result.
    of: usize,
    shared: &'a Shared,
}

impl Replay {
    /// Runs kernel and validator and compares them.
    ///
    /// # Errors
    /// When the configuration is impossible, or its order of accumulation is not known.
    pub fn run(&self) -> Result<Outcome> {
        self.run_with(&Shared::nothing())
    }

    /// As [`run`](Replay::run), with what earlier runs have computed, for later ones.
    pub(crate) fn run_with(&self, shared: &Shared) -> Result<Outcome> {
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
        let source = self.source();
        let bytes = roles.map(|role| 2 * param.elements(role));
        let side = |role| {
            let sizes = [2 * param.elements(role), bytes[0] + bytes[1]];
            shared.inputs.get((source.clone(), role), sizes, || Side::new(&self.device, &param, role, self.range, self.seed))
        };
        let [first, second] = [side(roles[0])?, side(roles[1])?];
        let operands = [&*first, &*second];
        let parts = if self.kernel == Kernel::Xdlops { c.split() } else { 1 };
        match c.direction {
            Direction::BackwardWeight => self.weights(&param, operands, model, parts, shared),
            _ => self.images(&param, operands, model, shared),
        }
    }

    fn source(&self) -> Source {
        Source { configuration: self.configuration.clone(), range: self.range, seed: self.seed, device: self.device.clone() }
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
    fn images(&self, param: &ConvParam, sides: [&Side; 2], model: Model, shared: &Shared) -> Result<Outcome> {
        let (from, to) = match self.configuration.direction {
            Direction::BackwardData => (Role::Output, Role::Input),
            _ => (Role::Input, Role::Output),
        };
        let images = param.batch();
        // Where images are not the slowest axis, there is one slab.
        let outermost = [from, to].iter().all(|&role| param.image_stride(role) * images == param.elements(role));
        let slab = if outermost { (SLAB / param.image_stride(to)).clamp(1, images) } else { images };
        let mut accumulator = self.accumulator();
        for start in (0..images).step_by(slab) {
            let part = Part { param: &param.with_batch(slab.min(images - start))?, start, sides, of: param.elements(to), shared };
            let kern = self.kernel(model, &part)?;
            let val = self.validator(&part)?;
            accumulator.add(&val, &kern);
        }
        Ok(Outcome { metrics: accumulator.finish(), orders: None })
    }

    /// Backward weight: one result over all images.
    fn weights(&self, param: &ConvParam, sides: [&Side; 2], model: Model, parts: usize, shared: &Shared) -> Result<Outcome> {
        let elements = param.elements(Role::Filter);
        let all = Part { param, start: 0, sides, of: elements, shared };
        let val = self.validator(&all)?;
        if parts == 1 {
            let mut accumulator = self.accumulator();
            accumulator.add(&val, &self.kernel(model, &all)?);
            return Ok(Outcome { metrics: accumulator.finish(), orders: None });
        }
        let (accumulate, bytes) = (Accumulate::MatrixCore(model), 4 * elements * parts);
        let sums = shared
            .sums
            .get((self.source(), accumulate.into()), [bytes, bytes], || split::Sums::new(&self.device, param, accumulate, sides, parts))?;
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

    fn kernel(&self, model: Model, part: &Part<'_>) -> Result<Arc<Vec<F16>>> {
        let accumulate = match self.kernel {
            Kernel::Xdlops => Accumulate::MatrixCore(model),
            Kernel::NonXdlops => Accumulate::F32Fma,
        };
        self.convolve(part, self.configuration.kernel_order(part.param), accumulate.into())
    }

    fn validator(&self, part: &Part<'_>) -> Result<Arc<Vec<F16>>> {
        // The later versions left the validator of backward data as it was.
        let backward_data = self.configuration.direction == Direction::BackwardData;
        let variant = if backward_data { Variant::First } else { self.variant };
        let accumulate = match (self.validator, variant, self.kernel) {
            (Validator::Gpu, ..) => {
                return self.convolve(part, self.configuration.kernel_order(part.param), Accumulate::F32Fma.into());
            }
            (_, Variant::Accumulate4, _) => Accumulate::Groups4,
            (_, Variant::Later, _) => Accumulate::Every4,
            (.., Kernel::Xdlops) => Accumulate::F64,
            (.., Kernel::NonXdlops) => Accumulate::F64Rounded,
        };
        // The order of the CPU's loops.
        self.convolve(part, KOrder::ChannelsFirst, Arithmetic { accumulate, flush_subnormals: self.flushes() })
    }

    /// The results, by way of f32.
    fn convolve(&self, part: &Part<'_>, order: KOrder, arithmetic: Arithmetic) -> Result<Arc<Vec<F16>>> {
        let conv = Conv::new(part.param.clone(), self.configuration.direction, arithmetic).order(order).through_f32();
        let len = part.param.elements(conv.roles()[2]);
        let key = Computed { source: self.source(), arithmetic, order, images: (part.start, part.param.batch()) };
        part.shared.results.get(key, [2 * len, 2 * part.of], || {
            let [a, b] = part.sides.map(|side| side.images(part.param, part.start));
            let mut result = DeviceMem::<F16>::new(&self.device, len)?;
            conv.run(&a?, &b?, &mut result.tensor_mut(&[len])?)?;
            result.to_vec()
        })
    }
}
