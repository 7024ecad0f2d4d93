//! A repeated list of numbers. The parameters of kernels cannot hold a list: the host writes the elements, and a GPU gets a copy of the memory.

use super::element::overlaid;
use super::params::FillParams;
use crate::device::{Layout, TensorMut};
use crate::dtype::{DType, Overflow, Rounding};
use crate::error::Result;
use crate::parallel;

/// Elements of one task.
const TASK: usize = 1 << 16;

/// Fills a tensor whose format and layout `p` was checked for; only the special values and sparsity of `p` count.
pub(super) fn fill(p: &FillParams, values: &[f64], tensor: &mut TensorMut<'_>) -> Result<()> {
    let (dtype, layout) = (tensor.as_ref().dtype(), tensor.as_ref().layout().clone());
    // They were checked: none but infinities is beyond the format.
    let patterns: Vec<u64> = values.iter().map(|v| dtype.encode(*v, Rounding::NearestEven, Overflow::Ieee)).collect();
    let elements = Elements { p, patterns: &patterns, dtype };
    tensor.change(|memory| elements.write(&layout, memory))
}

/// The elements: pattern i mod n, unless a special value or sparsity replaces it.
struct Elements<'a> {
    p: &'a FillParams,
    patterns: &'a [u64],
    dtype: DType,
}

impl Elements<'_> {
    fn bits(&self, index: usize) -> u64 {
        overlaid(self.p, self.dtype, index as u64).unwrap_or_else(|| self.patterns[index % self.patterns.len()])
    }

    fn write(&self, layout: &Layout, memory: &mut [u8]) {
        let (dtype, unit) = (self.dtype, self.dtype.unit_bytes());
        if !layout.is_contiguous() || dtype.per_unit() > 1 {
            return (0..layout.elements()).for_each(|i| dtype.store_bits(memory, layout.index(i), self.bits(i)));
        }
        let memory = &mut memory[layout.offset() * unit..][..layout.elements() * unit];
        parallel::chunks_mut(memory, TASK * unit, |task, out| {
            for (i, element) in out.chunks_exact_mut(unit).enumerate() {
                element.copy_from_slice(&self.bits(task * TASK + i).to_le_bytes()[..unit]);
            }
        });
    }
}
