//! The workspace of the kernels of one comparison, and the result that they write for the host.

use super::{Launch, Pass, Question, operand};
use crate::device::hip::{CoherentAlloc, HipAlloc, HipDevice, HipStream};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernels::verify::FirstPass;
use hipverify_sys::abi::{VerifyExplain, VerifyParams, VerifyResult, VerifyWorkspace};
use std::mem::offset_of;

/// The scratch memory of one comparison.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Zeroed before the first comparison; each pass leaves it zeroed, except for the values.
    scratch: HipAlloc,
    partials: HipAlloc,
    mismatches: HipAlloc,
    farthest: HipAlloc,
    /// Zeroed likewise.
    firsts: HipAlloc,
    result: CoherentAlloc,
}

/// The word in which a result states its progress.
const VALUED: usize = offset_of!(VerifyResult, valued);
const EXPLAINED: usize = offset_of!(VerifyResult, explained);

impl Workspace {
    pub(super) fn new(gpu: &'static HipDevice) -> Result<Workspace> {
        let mut scratch = HipAlloc::new(gpu, size_of::<VerifyWorkspace>())?;
        scratch.set_zero()?;
        let none = || HipAlloc::new(gpu, 0);
        let result = CoherentAlloc::new(gpu, size_of::<VerifyResult>())?;
        Ok(Workspace { scratch, partials: none()?, mismatches: none()?, farthest: none()?, firsts: none()?, result })
    }

    /// A workspace for comparisons of these formats with up to `elements` elements, and their kernels loaded: [`launch`](Self::launch)
    /// allocates nothing then.
    pub(crate) fn prepared(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, first_pass: FirstPass) -> Result<Self> {
        let mut workspace = Workspace::new(gpu)?;
        workspace.reserve(gpu, &Launch::of(gpu, dtypes, elements, first_pass)?)?;
        Ok(workspace)
    }

    /// Allocates what both passes of a launch need.
    pub(super) fn reserve(&mut self, gpu: &'static HipDevice, launch: &Launch) -> Result<()> {
        let [partials, mismatches, farthest, firsts] = launch.needs();
        for (block, bytes) in [(&mut self.partials, partials), (&mut self.mismatches, mismatches), (&mut self.farthest, farthest)] {
            grow(gpu, block, bytes.next_power_of_two())?;
        }
        if self.firsts.bytes() < firsts {
            let mut zeroed = HipAlloc::new(gpu, firsts)?;
            zeroed.set_zero()?;
            self.firsts = zeroed;
        }
        Ok(())
    }

    fn is_large_enough(&self, launch: &Launch) -> bool {
        let sizes = [&self.partials, &self.mismatches, &self.farthest, &self.firsts].map(HipAlloc::bytes);
        sizes.iter().zip(launch.needs()).all(|(size, need)| *size >= need)
    }

    /// The parameters of the kernel of a pass.
    pub(super) fn params(&self, question: &Question<'_>, pass: &Pass) -> Result<VerifyParams> {
        let [x, y] = question.operands();
        Ok(VerifyParams {
            operands: [operand(x)?, operand(y)?],
            swapped: u32::from(question.swapped()),
            n: question.result.elements() as u64,
            all: u32::from(question.first_pass != FirstPass::Counts),
            rows_log: pass.rows_log,
            run_log: pass.run_log,
            blocks: pass.grid,
            partials: self.partials.ptr().cast(),
            mismatches: self.mismatches.ptr().cast(),
            farthest: self.farthest.ptr().cast(),
            firsts: self.firsts.ptr().cast(),
            workspace: self.scratch.ptr().cast(),
            result: self.result.ptr().cast(),
            ..question.params
        })
    }

    /// Enqueues both passes, the second unless the question never asks for it. Their result is there once the work is done.
    ///
    /// # Safety
    /// The tensors stay valid and unwritten, and the workspace stays alive and unused by others, until the stream has been waited for; if
    /// it is being captured, as long as the graph may run.
    ///
    /// # Panics
    /// When the question is not [valid](Question::expect_valid) for the stream's device.
    pub(crate) unsafe fn launch(&mut self, stream: &HipStream, question: &Question<'_>) -> Result<()> {
        question.expect_valid(stream.device());
        let launch = Launch::in_place(stream.device(), question)?;
        if !self.is_large_enough(&launch) {
            let limit = "more than the plan has reserved memory for".to_owned();
            return Err(Error::InvalidArgument { what: "elements", value: question.result.elements().to_string(), limit });
        }
        let values = self.params(question, &launch.values)?;
        stream.device().wait_for_allocations(stream)?;
        self.mark_unwritten();
        let in_place = [std::ptr::null_mut(); 2];
        let explain = self.params(question, &launch.explain)?;
        let explain = (values.explain != VerifyExplain::EXPLAIN_NEVER).then(|| launch.explain_steps(explain, in_place));
        let mut steps = launch.values_steps(values, in_place).chain(explain.into_iter().flatten());
        // SAFETY: the question is valid, the workspace has what these launches need, and nothing is packed; the tensors are the caller's promise. The
        // first pass comes before on the stream; the second asks its values whether it is wanted.
        steps.try_for_each(|step| unsafe { step.launch(stream) })
    }

    /// Reads what the last launch found, once the work is done; `None` if nothing ran since the last call. `explain` is the question's.
    pub(crate) fn take_result<T>(&mut self, explain: u32, read: impl FnOnce(&VerifyResult) -> T) -> Option<T> {
        let done = self.has_values() && (explain == VerifyExplain::EXPLAIN_NEVER || self.result.word(EXPLAINED) != 0);
        // SAFETY: the last pass that was launched has said that its result is written, and `&mut self` excludes other readers and writers.
        let found = done.then(|| read(unsafe { self.result() }));
        self.mark_unwritten();
        found
    }

    /// Called before a launch: marks its result as absent.
    pub(super) fn mark_unwritten(&mut self) {
        [VALUED, EXPLAINED].into_iter().for_each(|word| self.result.set_word(word, 0));
    }

    /// Whether the first pass has written its values since the result was marked.
    pub(super) fn has_values(&self) -> bool {
        self.result.word(VALUED) == 1
    }

    /// Whether the second pass has written an explanation since then.
    pub(super) fn has_explanation(&self) -> bool {
        self.result.word(EXPLAINED) == 1
    }

    /// Not copied: most of it is for mismatches that few comparisons have.
    ///
    /// # Safety
    /// The pass that was launched last has said that it is written, or has been waited for, and no other is launched as long as the borrow
    /// lives.
    pub(super) unsafe fn result(&self) -> &VerifyResult {
        // SAFETY: the caller promises that no kernel writes it.
        let result = unsafe { self.result.as_slice() };
        bytemuck::from_bytes(&result[..size_of::<VerifyResult>()])
    }
}

/// Replaces memory by more, where it is less than this.
pub(super) fn grow(gpu: &'static HipDevice, block: &mut HipAlloc, bytes: usize) -> Result<()> {
    if block.bytes() < bytes {
        // Freed first: a workspace should not need twice its memory.
        *block = HipAlloc::new(gpu, 0)?;
        *block = HipAlloc::new(gpu, bytes)?;
    }
    Ok(())
}
