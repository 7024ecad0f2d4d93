//! How far a comparison is: what a progress bar shows.
//!
//! A comparison plans its passes over the data before the first one, and counts what each has read: by the host's workers after each run of partial sums, by
//! a GPU, which is not asked while it works, at the end. Invariant: [`Progress::done`] never exceeds [`Progress::planned`], and is equal to it after a
//! comparison without an error. No number of a report depends on it.

use crate::device::TensorRef;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what comparisons have read, see [`Options::progress`](super::Options::progress). Clones count together, so that one of them can be read by
/// another thread; the numbers of several comparisons add up.
///
/// What is read beside the passes that are known from the start is not counted: samples for a [cause](super::Cause), and displaced references of
/// [`Options::power`](super::Options::power). A pass that only a failure needs is planned when the failure is known.
///
/// ```
/// use hipverify::verify::{Explain, Options, Progress, Tolerance, gpu_verify_with};
/// use hipverify::{Device, DeviceMem};
/// let x = DeviceMem::from_slice(&Device::host(), &[1.0f32; 1000])?;
/// let progress = Progress::new();
/// let options = Options::default().explain(Explain::Always).progress(&progress);
/// gpu_verify_with(&x, &x, &Tolerance::exact(), &options)?;
/// // Two passes over two tensors of 4,000 bytes.
/// assert_eq!((progress.done(), progress.planned()), (16_000, 16_000));
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Bits>);

#[derive(Debug, Default)]
struct Bits {
    done: AtomicU64,
    planned: AtomicU64,
}

/// Two are equal when they count together.
impl PartialEq for Progress {
    fn eq(&self, other: &Progress) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Progress {
    /// Nothing is planned.
    #[must_use]
    pub fn new() -> Progress {
        Progress::default()
    }

    /// Bytes of the tensors that were read so far, once a pass.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed) / 8
    }

    /// Bytes that will have been read, as far as is known.
    #[must_use]
    pub fn planned(&self) -> u64 {
        self.0.planned.load(Ordering::Relaxed) / 8
    }
}

/// What counts the passes of one comparison.
#[derive(Clone, Copy)]
pub(crate) struct Meter<'a> {
    progress: Option<&'a Progress>,
    /// Bits that a pass reads for each element.
    bits: u64,
}

impl<'a> Meter<'a> {
    /// Counts nothing.
    pub(crate) const OFF: Meter<'static> = Meter { progress: None, bits: 0 };

    /// For passes over these tensors.
    pub(super) fn new(progress: Option<&'a Progress>, tensors: &[&TensorRef<'_>]) -> Meter<'a> {
        Meter { progress, bits: tensors.iter().map(|tensor| tensor.dtype().bits() as u64).sum() }
    }

    /// Plans to read so many elements.
    pub(super) fn plan(&self, elements: usize) {
        if let Some(Progress(counted)) = self.progress {
            counted.planned.fetch_add(self.bits * elements as u64, Ordering::Relaxed);
        }
    }

    /// Counts elements that were read.
    pub(super) fn add(&self, elements: usize) {
        if let Some(Progress(counted)) = self.progress {
            counted.done.fetch_add(self.bits * elements as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Explain, Options, Scale, Tolerance, gpu_verify_with};
    use super::*;
    use crate::{Device, DeviceMem};

    #[test]
    fn what_was_planned_is_done_at_the_end() {
        let n = 300_000;
        let x = DeviceMem::<f32>::from_slice(&Device::host(), &vec![1.0; n]).unwrap();
        let y = DeviceMem::<f64>::from_slice(&Device::host(), &vec![1.5; n]).unwrap();
        let mean = Tolerance::scaled(0.0, 1.0, Scale::Mean).unwrap();
        let largest = Tolerance::scaled(0.0, 1.0, Scale::Largest).unwrap();
        for (tolerance, explain, cosine, passes, of_reference, reason) in [
            (Tolerance::exact(), Explain::Never, false, 1, 0, "the verdict alone"),
            (Tolerance::exact(), Explain::OnFailure, false, 2, 0, "a failure is explained"),
            (mean, Explain::OnFailure, false, 1, 1, "a pass is not; the mean of the reference takes a pass over it"),
            (largest, Explain::Always, false, 2, 1, "so does its largest element"),
            (mean, Explain::Always, true, 3, 1, "cosine similarity takes one more"),
        ] {
            let progress = Progress::new();
            let options = Options::default().explain(explain).cosine(cosine).power(true).progress(&progress);
            gpu_verify_with(&x, &y, &tolerance, &options).unwrap();
            let bytes = (n * (12 * passes + 8 * of_reference)) as u64;
            assert_eq!((progress.done(), progress.planned()), (bytes, bytes), "{reason}");
            gpu_verify_with(&x, &y, &tolerance, &options).unwrap();
            assert_eq!((progress.done(), progress.planned()), (2 * bytes, 2 * bytes), "comparisons add up: {reason}");
        }
    }

    #[test]
    fn what_was_not_compared_is_not_done() {
        let x = DeviceMem::<f32>::from_slice(&Device::host(), &[1.0; 4]).unwrap();
        let y = DeviceMem::<f32>::from_slice(&Device::host(), &[1.0; 5]).unwrap();
        let progress = Progress::new();
        gpu_verify_with(&x, &y, &Tolerance::exact(), &Options::default().progress(&progress)).unwrap_err();
        assert_eq!(progress.done(), 0);
        assert!(progress == progress.clone() && progress != Progress::new());
    }
}
