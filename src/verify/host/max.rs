//! The largest magnitude of a tensor on the host device.

use super::number::Number;
use super::side::{BLOCK, Side};
use crate::device::TensorRef;
use crate::parallel;
use crate::simd::{InstructionSet, Task, each};
use crate::verify::MaxAbs;

/// Elements of one task, whole blocks.
const TASK: usize = 1 << 18;

/// Elements of which one maximum tells whether they are looked at one by one.
const RUN: usize = 32;

/// max |x| and the non-finite counts. Maxima and counts do not depend on the order of elements.
pub(crate) fn reduce_max(tensor: &TensorRef<'_>) -> MaxAbs {
    if tensor.dtype().fits_f32() { all_cores::<f32>(tensor) } else { all_cores::<f64>(tensor) }
}

/// By numbers of T, which hold those of the tensor.
fn all_cores<T: Number>(tensor: &TensorRef<'_>) -> MaxAbs {
    let n = tensor.elements();
    let task = |t: usize| {
        let set = InstructionSet::best();
        let mut side = Side::<T>::new(tensor);
        let end = n.min((t + 1) * TASK);
        let mut found = MaxAbs::default();
        for start in (t * TASK..end).step_by(BLOCK) {
            let block = side.block(start, BLOCK.min(end - start));
            let largest = set.run(Largest(block));
            if largest < T::INFINITE {
                found.value = found.value.max(T::from_bits(largest).wide());
            } else {
                one_by_one(set, block, &mut found);
            }
        }
        found
    };
    parallel::map(n.div_ceil(TASK), task).into_iter().fold(MaxAbs::default(), MaxAbs::joined)
}

/// A block that is not finite: only the runs that are not are taken element by element.
fn one_by_one<T: Number>(set: InstructionSet, block: &[T; BLOCK], found: &mut MaxAbs) {
    let runs = block.as_chunks::<RUN>().0;
    for (run, largest) in runs.iter().zip(set.run(LargestOfRuns(runs))) {
        if largest < T::INFINITE {
            found.value = found.value.max(T::from_bits(largest).wide());
        } else {
            run.iter().for_each(|x| found.observe(x.wide()));
        }
    }
}

/// [`Largest`] of each run of a block.
struct LargestOfRuns<'a, T>(&'a [[T; RUN]]);

impl<T: Number> Task for LargestOfRuns<'_, T> {
    type Output = [T::Bits; BLOCK / RUN];
    #[inline(always)]
    fn run(self) -> Self::Output {
        let mut largest = [T::Bits::default(); BLOCK / RUN];
        each(&mut largest, self.0, |largest, run| {
            *largest = run.iter().fold(T::Bits::default(), |most, x| most.max(x.magnitude().bits()));
        });
        largest
    }
}

/// The pattern of the largest magnitude, NaN and infinity included: patterns of finite numbers are below theirs.
struct Largest<'a, T>(&'a [T; BLOCK]);

impl<T: Number> Task for Largest<'_, T> {
    type Output = T::Bits;
    #[inline(always)]
    fn run(self) -> T::Bits {
        self.0.iter().fold(T::Bits::default(), |most, x| most.max(x.magnitude().bits()))
    }
}
