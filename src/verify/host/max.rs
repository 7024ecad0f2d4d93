//! The largest magnitude of a tensor on the host device.

use super::gather::Reader;
use crate::device::TensorRef;
use crate::dtype::{DType, convert};
use crate::verify::MaxAbs;
use rayon::prelude::*;

/// Elements of one task.
const TASK: usize = 1 << 18;
/// Elements decoded at a time.
const BLOCK: usize = 4096;

/// max |x| and the non-finite counts. Maxima and counts do not depend on the order of elements.
pub(crate) fn reduce_max(tensor: &TensorRef<'_>) -> MaxAbs {
    let n = tensor.elements();
    let tasks = (0..n.div_ceil(TASK)).into_par_iter().map(|t| {
        let mut reader = Reader::new(tensor);
        let mut found = MaxAbs::default();
        let mut numbers = vec![0f64; BLOCK];
        let mut narrow = vec![0f32; BLOCK];
        for start in (t * TASK..n.min((t + 1) * TASK)).step_by(BLOCK) {
            let count = BLOCK.min(n.min((t + 1) * TASK) - start);
            let bytes = reader.read(start, count);
            if exact_in_f32(tensor.dtype()) {
                convert::decode_f32(tensor.dtype(), bytes, &mut narrow[..count]);
                let patterns = narrow[..count].iter().map(|x| x.to_bits() & 0x7fff_ffff);
                // Magnitudes of finite numbers are ordered as their patterns, below those of infinity and NaN.
                let top = patterns.fold(0, u32::max);
                if top < f32::INFINITY.to_bits() {
                    found.value = found.value.max(f64::from(f32::from_bits(top)));
                } else {
                    narrow[..count].iter().for_each(|&x| found.visit(f64::from(x)));
                }
            } else {
                convert::decode_f64(tensor.dtype(), bytes, &mut numbers[..count]);
                numbers[..count].iter().for_each(|&x| found.visit(x));
            }
        }
        found
    });
    tasks.reduce(MaxAbs::default, MaxAbs::joined)
}

fn exact_in_f32(dtype: DType) -> bool {
    !matches!(dtype, DType::F64 | DType::I32 | DType::I64)
}
