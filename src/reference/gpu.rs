//! The references on a GPU: operands are widened, summed and rounded there.

use super::accumulate::Arithmetic;
use super::operand::First;
use super::plan;
use crate::device::hip::{HipAlloc, HipDevice};
use crate::device::host::zeros;
use crate::device::{Backend, TensorMut, TensorRef};
use crate::error::{Error, Result};
use crate::kernels::reference::{Finishing, Widening, finish, sums, widen};
use hipverify_sys::abi::{Epilogue, Prepare, ReferenceSums};

/// Sums to be formed on a GPU from two operands that live there.
pub(crate) struct Family<'a> {
    pub arithmetic: Arithmetic,
    /// The magnitudes of the operands instead of the operands, each at least this much if it is not 0.
    pub magnitudes: Option<[f64; 2]>,
    pub plan: ReferenceSums,
    pub first: First,
    pub operands: [&'a TensorRef<'a>; 2],
    /// Elements of the result.
    pub elements: usize,
}

impl Family<'_> {
    /// The sums, as f64 in the order of the result.
    ///
    /// # Errors
    /// An accumulation that the device code lacks, too little memory, a failed launch.
    ///
    /// # Panics
    /// When the plan is none of operands and of a result with so many elements, or they lie elsewhere: callers make it of their shapes.
    pub(crate) fn sums(&self, gpu: &'static HipDevice) -> Result<HipAlloc> {
        let accumulate = self.arithmetic.accumulate;
        let sum = plan::sum(accumulate).ok_or_else(|| Error::Unsupported {
            what: format!("accumulation {accumulate}"),
            by: format!("the device code on {} (it lacks the variants of gfx942 that keep 52 or 31 bits)", gpu.name()),
        })?;
        let widened = |which: usize| {
            let t = self.operands[which];
            let format = t.dtype().float_format().filter(|_| self.arithmetic.flush_subnormals);
            let least = format.map_or(0.0, |f| f.min_normal());
            widen(
                gpu,
                t,
                Widening { double: sum.double, least, magnitude: self.magnitudes.map(|least| least[which]), prepare: sum.prepare },
            )
        };
        let [a, b] = [widened(0)?, widened(1)?];
        let (source, other) = if self.first == First::Source { (0, 1) } else { (1, 0) };
        let (blocks, tensors) = ([&a, &b], self.operands);
        let plan = ReferenceSums { source_dtype: tensors[source].dtype() as u32, rule: sum.rule, ..self.plan };
        let elements = [tensors[source].elements(), tensors[other].elements(), self.elements];
        assert!(plan::stays_inside(&plan, elements), "the plan is that of the operands and the result");
        // SAFETY: both operands are what the kernels of this sum take, and the plan stays inside them and the result.
        unsafe { sums(gpu, sum.kernels, &plan, [blocks[source], blocks[other]], self.elements) }
    }
}

/// The elements of any tensor, or their magnitudes, as f64 on the GPU.
pub(crate) fn doubles(gpu: &'static HipDevice, t: &TensorRef<'_>, magnitudes: bool) -> Result<HipAlloc> {
    if let Backend::Hip(own) = t.device().backend()
        && std::ptr::eq(*own, gpu)
    {
        return widen(gpu, t, Widening { double: true, least: 0.0, magnitude: magnitudes.then_some(0.0), prepare: Prepare::AS_IT_IS });
    }
    let mut values = super::operand::read_f64(t)?;
    if magnitudes {
        values.iter_mut().for_each(|v| *v = v.abs());
    }
    let mut block = HipAlloc::new(gpu, values.len() * 8)?;
    block.write(bytemuck::cast_slice(&values))?;
    Ok(block)
}

/// Sums on the host.
pub(crate) fn fetch(sums: &HipAlloc) -> Result<Vec<f64>> {
    let mut values = zeros::<f64>(sums.bytes() / 8)?;
    sums.read(bytemuck::cast_slice_mut(&mut values))?;
    Ok(values)
}

/// Rounds sums to the format of the result and writes them, `single` ones through f32; on the host if elements share a byte.
pub(crate) fn write(gpu: &'static HipDevice, sums: &HipAlloc, single: bool, to: &mut TensorMut<'_>) -> Result<()> {
    let finishing = Finishing { alpha: 1.0, beta: 0.0, c: None, bias: None, epilogue: (Epilogue::NO_EPILOGUE, 0.0, 0.0), single };
    if finish(gpu, sums, &finishing, to)? {
        return Ok(());
    }
    let mut values = fetch(sums)?;
    if single {
        super::operand::round_to_f32(&mut values);
    }
    super::operand::write(to, &values)
}
