//! The comparison on a GPU: which kernels of `hip/verify/`, with which memory, and what their results say.
//!
//! A comparison needs scratch memory: 36 bytes for each segment, and 16 for each block of threads. Workspaces are kept per device and
//! reused, so that repeated comparisons allocate nothing. The result lies in pinned host memory, which the kernels write themselves: one
//! launch and one wait for the values, one more of each for an explanation, no copy.

use super::MaxAbs;
use super::options::{Explain, Judge, Options, Request};
use super::rule::{Arithmetic, Grid, NonFinite};
use super::sums;
use super::values::{Explanation, Found, Metric, Outcome, Values};
use crate::device::hip::{HipAlloc, HipDevice, HipStream, Kernel, Loaded, PinnedAlloc};
use crate::device::{Layout, TensorRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use hipverify_sys::abi::{
    self, AnyTensor, MaxParams, MaxResult, MaxWorkspace, VerifyElement, VerifyFarthest, VerifyOperand, VerifyParams, VerifyResult,
    VerifyWorkspace,
};
use std::sync::Arc;

/// Dimensions of a layout that a kernel takes, after merging.
const RANK: usize = abi::MAX_RANK as usize;
/// Index of "no element".
const NOWHERE: u64 = u64::MAX;
/// Threads of a block.
const BLOCK: u32 = 256;

const _: () = assert!(Options::MAX_FIRST == abi::MAX_LISTED as usize && Metric::MAXIMA == abi::VerifyMetric::MAXIMA as usize);
const _: () = assert!(size_of::<MaxWorkspace>() <= size_of::<VerifyWorkspace>() && size_of::<MaxResult>() <= size_of::<VerifyResult>());

/// The scratch memory of one comparison.
#[derive(Debug)]
pub(super) struct Workspace {
    /// Zeroed before the first comparison; each pass leaves it zeroed, but for the values.
    scratch: HipAlloc,
    partials: HipAlloc,
    mismatches: HipAlloc,
    farthest: HipAlloc,
    answer: PinnedAlloc,
}

impl Workspace {
    fn new(gpu: &'static HipDevice) -> Result<Workspace> {
        let mut scratch = HipAlloc::new(gpu, size_of::<VerifyWorkspace>())?;
        scratch.set_zero()?;
        let none = || HipAlloc::new(gpu, 0);
        let answer = PinnedAlloc::coherent(gpu, size_of::<VerifyResult>())?;
        Ok(Workspace { scratch, partials: none()?, mismatches: none()?, farthest: none()?, answer })
    }

    /// Makes room for both passes.
    fn reserve(&mut self, gpu: &'static HipDevice, launch: &Launch) -> Result<()> {
        let [partials, mismatches, farthest] = launch.needs();
        grow(gpu, &mut self.partials, partials)?;
        grow(gpu, &mut self.mismatches, mismatches)?;
        grow(gpu, &mut self.farthest, farthest)
    }

    fn has_room_for(&self, launch: &Launch) -> bool {
        let sizes = [&self.partials, &self.mismatches, &self.farthest].map(HipAlloc::bytes);
        sizes.iter().zip(launch.needs()).all(|(size, need)| *size >= need)
    }

    /// A workspace for comparisons of these formats with up to `elements` elements, and their kernels loaded: [`launch`](Self::launch)
    /// allocates nothing then.
    pub(super) fn prepared(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, request: &Request) -> Result<Self> {
        let mut workspace = Workspace::new(gpu)?;
        for dense in [false, true] {
            workspace.reserve(gpu, &Launch::of(gpu, dtypes, elements, dense, request)?)?;
        }
        Ok(workspace)
    }

    /// Enqueues a comparison. Its outcome is there once the work is done.
    ///
    /// # Safety
    /// Both tensors stay valid and unwritten, and the workspace stays alive and unused by others, until the stream has been waited
    /// for; if it is being captured, as long as the graph may run.
    pub(super) unsafe fn launch(
        &mut self,
        stream: &HipStream,
        result: &TensorRef<'_>,
        reference: &TensorRef<'_>,
        request: &Request,
    ) -> Result<()> {
        let launch = Launch::for_tensors(stream.device(), result, reference, request)?;
        if !self.has_room_for(&launch) {
            let limit = "more than the plan has reserved room for".to_owned();
            return Err(Error::InvalidArgument { what: "elements", value: result.elements().to_string(), limit });
        }
        let params = params(result, reference, request, &launch, self)?;
        stream.device().wait_for_allocations(stream)?;
        self.mark_unwritten();
        // SAFETY: both layouts lie within their tensors' memory; the rest is the caller's promise.
        unsafe { launch.values.launch(stream, launch.grid, &params) }?;
        if request.explain == Explain::Never {
            return Ok(());
        }
        // SAFETY: as for the first pass, which comes before on the stream; the second asks its values whether it is wanted.
        unsafe { launch.explain.launch(stream, launch.explain_grid, &params) }
    }

    /// What the last launch found, once the work is done; `None` if nothing ran since the last call.
    pub(super) fn take_outcome(&mut self, request: &Request) -> Option<Outcome> {
        let explained = self.answer.word(EXPLAINED);
        let done = self.has_values() && (request.explain == Explain::Never || explained != 0);
        let outcome = done.then(|| Outcome { values: self.values(request), explanation: (explained == 1).then(|| self.explanation()) });
        self.mark_unwritten();
        outcome
    }

    fn mark_unwritten(&mut self) {
        // SAFETY: whoever may change the workspace has it alone, and no kernel writes it: it has not been launched, or has been waited for.
        let answer = unsafe { self.answer.as_mut_slice() };
        answer[VALUED..size_of::<VerifyResult>()].fill(0);
    }

    /// Whether the first pass has written its values since the answer was marked.
    fn has_values(&self) -> bool {
        self.answer.word(VALUED) == 1
    }

    fn is_explained(&self) -> bool {
        self.answer.word(EXPLAINED) == 1
    }

    /// Not copied: most of it is room for mismatches that few comparisons have.
    fn answer(&self) -> &VerifyResult {
        // SAFETY: the kernel that wrote it has said so or has been waited for, and no other is launched before the workspace is taken again.
        let answer = unsafe { self.answer.as_slice() };
        bytemuck::from_bytes(&answer[..size_of::<VerifyResult>()])
    }

    /// What the first pass wrote, as the host's loops would have it.
    fn values(&self, request: &Request) -> Values {
        let values = &self.answer().values;
        let [mismatches, zero_passes, zeros_a, zeros_r, nans_a, nans_r, plus_a, plus_r, minus_a, minus_r, nonfinite_pairs] = values.counts;
        let some = |x: u64| if request.all { x } else { 0 };
        Values {
            mismatches,
            zero_passes: some(zero_passes),
            zeros: [some(zeros_a), some(zeros_r)],
            nans: [nans_a, nans_r],
            positive_infinities: [plus_a, plus_r],
            negative_infinities: [minus_a, minus_r],
            nonfinite_pairs,
            max_magnitude: values.magnitudes,
            maxima: values.maxima,
            sums: values.sums,
            histograms: request.histograms.then_some(values.histograms),
        }
    }

    /// What the second pass wrote.
    fn explanation(&self) -> Explanation {
        let found = |e: &VerifyElement| (e.index != NOWHERE).then_some(Found { index: e.index, bits: [e.bits_a, e.bits_r] });
        let explanation = &self.answer().explanation;
        let [passing_rtol, passing_atol] = explanation.passing;
        Explanation {
            worst: explanation.worst.each_ref().map(found),
            ulps: explanation.ulps,
            passing_rtol,
            passing_atol,
            first: explanation.first[..explanation.listed as usize].iter().filter_map(found).collect(),
        }
    }
}

/// Where an answer says how far it is.
const VALUED: usize = std::mem::offset_of!(VerifyResult, valued);
const EXPLAINED: usize = std::mem::offset_of!(VerifyResult, explained);

fn grow(gpu: &'static HipDevice, block: &mut HipAlloc, bytes: usize) -> Result<()> {
    if block.bytes() < bytes {
        // Freed first: a workspace should not need twice its memory.
        *block = HipAlloc::new(gpu, 0)?;
        *block = HipAlloc::new(gpu, bytes.next_power_of_two())?;
    }
    Ok(())
}

fn take(gpu: &'static HipDevice) -> Result<Workspace> {
    gpu.workspaces().take().map_or_else(|| Workspace::new(gpu), Ok)
}

/// The kernels of both passes and how they are laid out.
struct Launch {
    values: VerifyKernel,
    explain: VerifyKernel,
    grid: u32,
    explain_grid: u32,
    segments: usize,
    /// A subgroup takes `1 << chunk_log` segments in a row.
    chunk_log: u32,
}

type VerifyKernel = Loaded<VerifyParams>;

/// The kernels of a pair of formats: file, and names for counts, all metrics, histograms and the explanation.
struct Names(&'static str, [&'static str; 4]);

macro_rules! names {
    ($file:literal, $name:literal) => {
        Names(
            $file,
            [
                concat!("verify_counts_", $name),
                concat!("verify_all_", $name),
                concat!("verify_histograms_", $name),
                concat!("verify_explain_", $name),
            ],
        )
    };
}

/// Formats that f32 holds have kernels by their widths, of which all up to 8 bits are one; of the others those of two 64-bit formats.
fn names(result: DType, reference: DType) -> Names {
    let bits = [result, reference].map(|d| d.bits().max(8));
    match (Arithmetic::of(result, reference), bits) {
        (Arithmetic::F32, [8, 8]) => names!("verify/f32.hip", "f32_8_8"),
        (Arithmetic::F32, [8, 16]) => names!("verify/f32.hip", "f32_8_16"),
        (Arithmetic::F32, [16, 8]) => names!("verify/f32.hip", "f32_16_8"),
        (Arithmetic::F32, [8, _]) => names!("verify/f32.hip", "f32_8_32"),
        (Arithmetic::F32, [_, 8]) => names!("verify/f32.hip", "f32_32_8"),
        (Arithmetic::F32, [16, 16]) => names!("verify/f32.hip", "f32_16_16"),
        (Arithmetic::F32, [16, _]) => names!("verify/f32.hip", "f32_16_32"),
        (Arithmetic::F32, [_, 16]) => names!("verify/f32.hip", "f32_32_16"),
        (Arithmetic::F32, _) => names!("verify/f32.hip", "f32_32_32"),
        (Arithmetic::I64, [64, 64]) => names!("verify/f64.hip", "i64_64_64"),
        (Arithmetic::I64, bits) if bits.contains(&64) => names!("verify/f64.hip", "i64_any"),
        // Differences of integers of up to 32 bits are exact in f64.
        (_, [64, 64]) => names!("verify/f64.hip", "f64_64_64"),
        _ => names!("verify/f64.hip", "f64_any"),
    }
}

/// The kernels for values of common pairs of formats that are dense and aligned: counts, all metrics.
fn dense_names(dtypes: [DType; 2]) -> Option<[&'static str; 2]> {
    Some(match dtypes {
        [DType::F32, DType::F32] => ["verify_counts_f32", "verify_all_f32"],
        [DType::F16, DType::F16] => ["verify_counts_f16", "verify_all_f16"],
        [DType::Bf16, DType::Bf16] => ["verify_counts_bf16", "verify_all_bf16"],
        [DType::F16, DType::F32] => ["verify_counts_f16_f32", "verify_all_f16_f32"],
        [DType::Bf16, DType::F32] => ["verify_counts_bf16_f32", "verify_all_bf16_f32"],
        [DType::F8E4M3, DType::F8E4M3] => ["verify_counts_f8e4m3", "verify_all_f8e4m3"],
        [DType::F8E4M3Fnuz, DType::F8E4M3Fnuz] => ["verify_counts_f8e4m3fnuz", "verify_all_f8e4m3fnuz"],
        [DType::I8, DType::I8] => ["verify_counts_i8", "verify_all_i8"],
        _ => return None,
    })
}

/// How many segments a subgroup takes in a row, as a power of two: as many as leave no more than a tenth of the subgroups idle. Long runs
/// leave few sums to join at the end; which it is changes no result.
fn chunk_log(segments: usize, groups: usize) -> u32 {
    let idle = |log: &u32| {
        let chunks = segments.div_ceil(1 << log);
        (chunks.next_multiple_of(groups) - chunks) * 10 <= chunks
    };
    (1..=sums::SEGMENTS_PER_ITEM.ilog2()).rev().find(idle).unwrap_or(0)
}

impl Launch {
    /// The launch for two tensors.
    fn for_tensors(gpu: &'static HipDevice, result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Result<Launch> {
        let dense = dense_address(result).is_some() && dense_address(reference).is_some();
        Launch::of(gpu, [result.dtype(), reference.dtype()], result.elements(), dense, request)
    }

    /// The launch for tensors of these formats, dense and aligned or not.
    fn of(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, dense: bool, request: &Request) -> Result<Launch> {
        let Names(file, [counts, all, histograms, explain]) = names(dtypes[0], dtypes[1]);
        let load = |file, name| {
            // SAFETY: every kernel of hip/verify/ is `extern "C" __global__ void NAME(VerifyParams)` for blocks of so many threads.
            unsafe { Kernel::new(file, name, BLOCK) }.load(gpu)
        };
        let values: VerifyKernel = match dense_names(dtypes).filter(|_| dense) {
            _ if request.histograms => load(file, histograms)?,
            Some([_, all]) if request.all => load("verify/dense.hip", all)?,
            Some([counts, _]) => load("verify/dense.hip", counts)?,
            None => load(file, if request.all { all } else { counts })?,
        };
        let explain: VerifyKernel = load(file, explain)?;
        let vector = sums::vector_width(dtypes[0], dtypes[1]);
        let segments = elements.div_ceil(sums::segment_elements(vector));
        let groups = BLOCK as usize / sums::COLUMNS;
        let chunk_log = chunk_log(segments, values.grid_for(u64::MAX) as usize * groups);
        let threads = (segments.div_ceil(1 << chunk_log) * sums::COLUMNS) as u64;
        Ok(Launch { grid: values.grid_for(threads), explain_grid: explain.grid_for(threads), values, explain, segments, chunk_log })
    }

    /// Bytes of partials, mismatches and farthest.
    fn needs(&self) -> [usize; 3] {
        // Room for runs of one segment, and for the largest grid: a smaller comparison may have more of them than a larger one.
        let most = self.explain.grid_for(u64::MAX) as usize;
        [self.segments * size_of::<sums::Sums>(), self.segments * size_of::<u32>(), most * size_of::<VerifyFarthest>()]
    }
}

/// A tensor for the kernels.
fn operand(tensor: &TensorRef<'_>) -> Result<VerifyOperand> {
    let (bits, layout) = (tensor.dtype().bits(), tensor.layout());
    let (rank, extents, strides) = dims(layout)?;
    let rank = rank as usize;
    let first = layout.offset() * bits;
    // A dense tensor begins at its first element, unless that begins inside a byte.
    let moved = rank == 0 && first.is_multiple_of(8);
    let base = if moved { tensor.as_ptr().wrapping_add(first / 8) } else { tensor.as_ptr() };
    let offset = if moved { 0 } else { layout.offset() as i64 };
    // Every row begins a whole number of outer strides and of row lengths after the first element.
    let distances = strides[..rank.saturating_sub(1)].iter().map(|s| s.unsigned_abs()).chain(rank.checked_sub(1).map(|i| extents[i]));
    let places = distances.chain([offset.unsigned_abs()]).map(|elements| (elements * bits as u64).trailing_zeros().saturating_sub(3));
    let bytes = places.chain([base.addr().trailing_zeros(), 4]).min().unwrap_or(0);
    let reciprocal = |extent: u64| if extent < 2 { 0 } else { u64::MAX / extent + 1 };
    let inside_a_byte = !(offset.unsigned_abs() * bits as u64).is_multiple_of(8);
    Ok(VerifyOperand {
        base,
        extents,
        reciprocals: extents.map(reciprocal),
        strides,
        offset,
        dtype: tensor.dtype() as u32,
        rank: rank as u32,
        align: if inside_a_byte { 1 } else { 1 << bytes },
        unused: 0,
    })
}

/// The merged dimensions of a layout for a kernel; none when dense.
fn dims(layout: &Layout) -> Result<(u32, [u64; RANK], [i64; RANK])> {
    let (mut extents, mut strides) = ([0; RANK], [0; RANK]);
    if layout.is_contiguous() {
        return Ok((0, extents, strides));
    }
    let dims = layout.collapsed();
    if let [(_, 1)] = dims[..] {
        return Ok((0, extents, strides));
    }
    if dims.len() > RANK {
        let limit = format!("at most {RANK} dimensions that do not merge, on a GPU");
        return Err(Error::InvalidArgument { what: "strides", value: format!("{:?}", layout.strides()), limit });
    }
    for (i, (extent, stride)) in dims.iter().enumerate() {
        (extents[i], strides[i]) = (*extent as u64, *stride as i64);
    }
    Ok((dims.len() as u32, extents, strides))
}

/// Whether a bound may exceed the largest finite number, in the arithmetic of a pair.
fn may_overflow(arithmetic: Arithmetic, request: &Request) -> bool {
    match arithmetic {
        Arithmetic::F32 => f64::from(request.rtol as f32) * f64::from(f32::MAX) + f64::from(request.atol as f32) > f64::from(f32::MAX),
        Arithmetic::F64 => request.rtol.mul_add(f64::MAX, request.atol).is_infinite(),
        // Bounds of integers are infinite then.
        Arithmetic::I64 => false,
    }
}

fn params(result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request, launch: &Launch, w: &Workspace) -> Result<VerifyParams> {
    let grid = Grid::of(result.dtype());
    let arithmetic = Arithmetic::of(result.dtype(), reference.dtype());
    let thresholds = request.thresholds;
    Ok(VerifyParams {
        a: operand(result)?,
        r: operand(reference)?,
        n: result.elements() as u64,
        rtol: request.rtol,
        atol: request.atol,
        thresholds: [thresholds.rms, thresholds.absolute, thresholds.relative],
        min_exponent: grid.min_exponent,
        max_exponent: grid.max_exponent,
        mantissa_bits: grid.mantissa_bits,
        clamp: u32::from(may_overflow(arithmetic, request)),
        nonfinite_equal: u32::from(request.nonfinite == NonFinite::EqualWhenSame),
        all: u32::from(request.all),
        judge: match request.judge {
            Judge::Elements => abi::VerifyJudge::JUDGE_ELEMENTS,
            Judge::Thresholds => abi::VerifyJudge::JUDGE_THRESHOLDS,
            Judge::Both => abi::VerifyJudge::JUDGE_ELEMENTS | abi::VerifyJudge::JUDGE_THRESHOLDS,
        },
        explain: match request.explain {
            Explain::Never => abi::VerifyExplain::EXPLAIN_NEVER,
            Explain::OnFailure => abi::VerifyExplain::EXPLAIN_ON_FAILURE,
            Explain::Always => abi::VerifyExplain::EXPLAIN_ALWAYS,
        },
        listed: request.first as u32,
        chunk_log: launch.chunk_log,
        partials: w.partials.ptr().cast(),
        mismatches: w.mismatches.ptr().cast(),
        farthest: w.farthest.ptr().cast(),
        workspace: w.scratch.ptr().cast(),
        result: w.answer.ptr().cast(),
    })
}

/// Compares pairs of tensors on one GPU: all first passes are enqueued, then waited for once, and the same for the second passes that are
/// wanted.
pub(super) fn compare<'a>(
    gpu: &'static HipDevice,
    pairs: impl Iterator<Item = ((&'a TensorRef<'a>, &'a TensorRef<'a>), &'a Request)> + Clone,
) -> Result<Vec<Outcome>> {
    let mut workspaces: Vec<Workspace> = Vec::with_capacity(pairs.size_hint().0);
    let enqueue = |workspaces: &mut Vec<Workspace>, queue: &Arc<HipStream>| {
        let mut last = None;
        for ((result, reference), request) in pairs.clone() {
            let launch = Launch::for_tensors(gpu, result, reference, request)?;
            let mut workspace = take(gpu)?;
            workspace.reserve(gpu, &launch)?;
            let params = params(result, reference, request, &launch, &workspace)?;
            workspace.mark_unwritten();
            // Kept before the launch: whatever fails later, `blocking_until` waits before the memory can go.
            workspaces.push(workspace);
            // SAFETY: both layouts lie within their tensors' memory, which is borrowed until `blocking_until` has waited; the workspace has
            // room for this launch and no other launch uses it.
            let (launched, here) = queue.enqueue_last(|| unsafe { launch.values.launch(queue, launch.grid, &params) });
            launched?;
            last = here;
        }
        Ok(last)
    };
    gpu.blocking_until(&mut workspaces, enqueue, |workspaces| workspaces.iter().all(Workspace::has_values))?;
    let values: Vec<Values> = pairs.clone().zip(&workspaces).map(|((_, request), w)| w.values(request)).collect();
    let wanted: Vec<bool> = pairs.clone().zip(&values).map(|(((result, _), request), v)| request.explains(v, result)).collect();
    if wanted.contains(&true) {
        let explain = |workspaces: &mut Vec<Workspace>, queue: &Arc<HipStream>| {
            let mut last = None;
            for ((((result, reference), request), workspace), _) in
                pairs.clone().zip(workspaces).zip(&wanted).filter(|(_, wanted)| **wanted)
            {
                let launch = Launch::for_tensors(gpu, result, reference, request)?;
                let params = params(result, reference, &Request { explain: Explain::Always, ..*request }, &launch, workspace)?;
                // SAFETY: both layouts lie within their tensors' memory, which is borrowed until `blocking_until` has waited; the workspace
                // had room for both passes from the beginning and no other launch uses it.
                let (launched, here) = queue.enqueue_last(|| unsafe { launch.explain.launch(queue, launch.explain_grid, &params) });
                launched?;
                last = here;
            }
            Ok(last)
        };
        let ready = |workspaces: &Vec<Workspace>| workspaces.iter().zip(&wanted).all(|(w, wanted)| !wanted || w.is_explained());
        gpu.blocking_until(&mut workspaces, explain, ready)?;
    }
    let outcomes = values.into_iter().zip(&wanted).zip(&workspaces);
    let outcomes = outcomes.map(|((values, wanted), w)| Outcome { values, explanation: wanted.then(|| w.explanation()) }).collect();
    // Only now: after a failure a workspace may not be zeroed, and is dropped instead.
    workspaces.into_iter().for_each(|workspace| gpu.workspaces().put(workspace));
    Ok(outcomes)
}

/// Where a tensor begins, if it is contiguous and aligned to 16 bytes.
fn dense_address(t: &TensorRef<'_>) -> Option<*const u8> {
    let bits = t.layout().offset() * t.dtype().bits();
    let first = t.as_ptr().wrapping_add(bits / 8);
    (t.layout().is_contiguous() && bits.is_multiple_of(8) && first.addr().is_multiple_of(16)).then_some(first)
}

/// The largest magnitude of a tensor on a GPU.
pub(super) fn reduce_max(gpu: &'static HipDevice, tensor: &TensorRef<'_>) -> Result<MaxAbs> {
    if tensor.elements() == 0 {
        return Ok(MaxAbs::default());
    }
    let dense = dense_address(tensor);
    let name = match (dense.is_some(), tensor.dtype().bits()) {
        (true, 8) => "reduce_max_8",
        (true, 16) => "reduce_max_16",
        (true, 32) => "reduce_max_32",
        (true, 64) => "reduce_max_64",
        _ => "reduce_max_any",
    };
    // SAFETY: every kernel of hip/reduce_max.hip is `extern "C" __global__ void NAME(MaxParams)` for blocks of 512 threads.
    let kernel: Kernel<MaxParams> = unsafe { Kernel::new("reduce_max.hip", name, 512) };
    let (rank, extents, strides) = dims(tensor.layout())?;
    let workspace = take(gpu)?;
    let params = MaxParams {
        tensor: AnyTensor { extents, strides, offset: tensor.layout().offset() as i64, rank, dtype: tensor.dtype() as u32 },
        x: dense.unwrap_or(tensor.as_ptr()),
        n: tensor.elements() as u64,
        workspace: workspace.scratch.ptr().cast(),
        result: workspace.answer.ptr().cast(),
    };
    let per_thread = if dense.is_some() { 128 / tensor.dtype().bits() as u64 * 4 } else { 1 };
    gpu.blocking(|queue| {
        let grid = kernel.grid_for(gpu, params.n.div_ceil(per_thread))?;
        // SAFETY: the layout lies within the tensor's memory, which is borrowed until `blocking` has waited; nobody else uses the
        // workspace.
        unsafe { kernel.launch(queue, grid, &params) }
    })?;
    // SAFETY: `blocking` has waited for the only kernel that writes it.
    let answer = unsafe { workspace.answer.as_slice() };
    let MaxResult { largest, nans, infinities } = bytemuck::pod_read_unaligned(&answer[..size_of::<MaxResult>()]);
    gpu.workspaces().put(workspace);
    Ok(MaxAbs { value: largest, nans, infinities })
}

#[cfg(test)]
mod tests {
    use super::chunk_log;

    #[test]
    fn runs_leave_few_subgroups_idle() {
        // As few segments as subgroups: one each. Twice as many: two.
        assert_eq!([1, 2112, 2 * 2112].map(|segments| chunk_log(segments, 2112)), [0, 0, 1]);
        assert_eq!([16 * 2112, 1000 * 2112].map(|segments| chunk_log(segments, 2112)), [4, 4]);
        for segments in (1..100_000).step_by(37) {
            for groups in [1, 7, 640, 2112] {
                let log = chunk_log(segments, groups);
                let runs = segments.div_ceil(1 << log);
                assert!(log == 0 || (runs.next_multiple_of(groups) - runs) * 10 <= runs, "{segments} segments, {groups} subgroups: {log}");
            }
        }
    }
}
