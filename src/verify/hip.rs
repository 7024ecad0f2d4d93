//! The comparison on a GPU: which kernel of `hip/verify*.hip`, with which memory, and what its result says.
//!
//! A comparison needs scratch memory: 36 bytes for each segment (a small one 32, and 4 for every 32 elements), and 96 for each block of
//! threads. Workspaces are kept per device and reused, so that repeated comparisons allocate nothing. The result lies in pinned host memory,
//! which the kernel writes itself: one launch, one wait, no copy.

use super::MaxAbs;
use super::options::{Options, Request};
use super::rule::{Arithmetic, Grid, NonFinite};
use super::sums;
use super::values::{Explanation, Found, Metric, Outcome, Values};
use super::workspaces::Idle;
use crate::device::hip::{HipAlloc, HipDevice, HipStream, Kernel, Loaded, PinnedAlloc};
use crate::device::{Layout, TensorRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use hipverify_sys::abi::{
    self, AnyTensor, MaxParams, MaxResult, MaxWorkspace, VerifyBest, VerifyParams, VerifyPlace, VerifyResult, VerifyWorkspace,
};
use std::sync::{Arc, LazyLock};

/// Dimensions of a layout that a kernel takes, after merging.
const RANK: usize = abi::MAX_RANK as usize;

const _: () = assert!(Options::MAX_FIRST == abi::MAX_LISTED as usize);
const _: () = assert!(size_of::<MaxWorkspace>() <= size_of::<VerifyWorkspace>() && size_of::<MaxResult>() <= size_of::<VerifyResult>());

/// The scratch memory of one comparison.
#[derive(Debug)]
pub(super) struct Workspace {
    /// Zeroed before the first comparison; each leaves it zeroed.
    scratch: HipAlloc,
    bests: HipAlloc,
    partials: HipAlloc,
    mismatches: HipAlloc,
    answer: PinnedAlloc,
}

impl Workspace {
    fn new(gpu: &'static HipDevice) -> Result<Workspace> {
        let mut scratch = HipAlloc::new(gpu, size_of::<VerifyWorkspace>())?;
        scratch.set_zero()?;
        let none = || HipAlloc::new(gpu, 0);
        Ok(Workspace {
            scratch,
            bests: none()?,
            partials: none()?,
            mismatches: none()?,
            answer: PinnedAlloc::coherent(gpu, size_of::<VerifyResult>())?,
        })
    }

    /// Makes room for a launch.
    fn reserve(&mut self, gpu: &'static HipDevice, launch: &Launch) -> Result<()> {
        let [bests, partials, mismatches] = launch.needs();
        grow(gpu, &mut self.bests, bests)?;
        grow(gpu, &mut self.partials, partials)?;
        grow(gpu, &mut self.mismatches, mismatches)
    }

    fn has_room_for(&self, launch: &Launch) -> bool {
        let sizes = [&self.bests, &self.partials, &self.mismatches].map(HipAlloc::bytes);
        sizes.iter().zip(launch.needs()).all(|(size, need)| *size >= need)
    }

    /// A workspace for comparisons of these formats with up to `elements` elements, and their kernels loaded: [`launch`](Self::launch)
    /// allocates nothing then.
    pub(super) fn prepared(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, request: &Request) -> Result<Self> {
        let mut workspace = Workspace::new(gpu)?;
        // The kernels for aligned memory, where small tensors count their mismatches by more parts than large ones, and the one for every
        // layout.
        let mut reserve = |dense: Option<&Dense>, elements: usize| -> Result<()> {
            let launch = Launch::of(gpu, dtypes, elements, dense, request)?;
            workspace.reserve(gpu, &launch)
        };
        reserve(None, elements)?;
        if let Some(dense) = dense_of(dtypes, request) {
            reserve(Some(dense), elements)?;
            reserve(Some(dense), elements.min(few(gpu, dense, request)?.2))?;
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
        unsafe { launch.kernel.launch(stream, launch.grid, &params) }
    }

    /// What the last launch found, once the work is done; `None` if nothing ran since the last call.
    pub(super) fn take_outcome(&mut self, result: &TensorRef<'_>, request: &Request) -> Option<Outcome> {
        let outcome = self.is_done().then(|| outcome(result, request, self));
        self.mark_unwritten();
        outcome
    }

    fn mark_unwritten(&mut self) {
        // SAFETY: whoever may change the workspace has it alone, and no kernel writes it: it has not been launched, or has been waited for.
        let answer = unsafe { self.answer.as_mut_slice() };
        answer[DONE..DONE + 8].fill(0);
    }

    /// Whether a kernel has written the answer since it was marked.
    fn is_done(&self) -> bool {
        self.answer.word(DONE) == 1
    }
}

/// Where `done` lies in an answer.
const DONE: usize = std::mem::offset_of!(VerifyResult, done);

fn grow(gpu: &'static HipDevice, block: &mut HipAlloc, bytes: usize) -> Result<()> {
    if block.bytes() < bytes {
        // Freed first: a workspace should not need twice its memory.
        *block = HipAlloc::new(gpu, 0)?;
        *block = HipAlloc::new(gpu, bytes.next_power_of_two())?;
    }
    Ok(())
}

/// Workspaces are kept until the program ends.
static IDLE: LazyLock<Idle<Workspace>> = LazyLock::new(Idle::new);

fn take(gpu: &'static HipDevice) -> Result<Workspace> {
    IDLE.take(gpu.index()).map_or_else(|| Workspace::new(gpu), Ok)
}

/// A kernel and how it is laid out.
struct Launch {
    kernel: VerifyKernel,
    /// Whether the kernel is one for dense tensors of these formats.
    dense: bool,
    grid: u32,
    /// The largest grid that this kernel has for any size.
    most: u32,
    segments: usize,
    /// Mismatches are counted by so many parts.
    parts: usize,
    /// A group of threads takes `1 << chunk_log` segments in a row.
    chunk_log: u32,
}

/// Pairs that have kernels of their own: formats, file, and the kernels' names for all metrics and for counts, and the same for small tensors.
struct Dense(DType, DType, &'static str, [&'static str; 4]);

macro_rules! dense {
    ($($file:literal: $($a:ident $r:ident $name:literal),*;)*) => {
        &[$($(Dense(DType::$a, DType::$r, $file, [
            concat!("verify_", $name, "_all"),
            concat!("verify_", $name, "_counts"),
            concat!("verify_", $name, "_few_all"),
            concat!("verify_", $name, "_few_counts"),
        ])),*),*]
    };
}

const DENSE: &[Dense] = dense! {
    "verify.hip": F64 F64 "f64_f64", F32 F32 "f32_f32", F16 F16 "f16_f16", Bf16 Bf16 "bf16_bf16", F16 F32 "f16_f32", Bf16 F32 "bf16_f32";
    "verify_bytes.hip": F8E4M3 F8E4M3 "f8e4m3_f8e4m3", F8E5M2 F8E5M2 "f8e5m2_f8e5m2", F8E4M3Fnuz F8E4M3Fnuz "f8e4m3fnuz_f8e4m3fnuz",
        F8E5M2Fnuz F8E5M2Fnuz "f8e5m2fnuz_f8e5m2fnuz", I8 I8 "i8_i8", U8 U8 "u8_u8";
};

/// The file for every pair.
const ANY: &str = "verify_any.hip";

/// The kernels of their own that a pair of formats has, if no histograms are wanted.
fn dense_of(dtypes: [DType; 2], request: &Request) -> Option<&'static Dense> {
    DENSE.iter().find(|d| !request.histograms && [d.0, d.1] == dtypes)
}

/// Where a tensor begins, if it is contiguous and aligned to 16 bytes.
fn dense_address(t: &TensorRef<'_>) -> Option<*const u8> {
    let bits = t.layout().offset() * t.dtype().bits();
    let first = t.as_ptr().wrapping_add(bits / 8);
    (t.layout().is_contiguous() && bits.is_multiple_of(8) && first.addr().is_multiple_of(16)).then_some(first)
}

type VerifyKernel = Loaded<VerifyParams>;

/// A kernel and its largest grid.
fn kernel(gpu: &'static HipDevice, file: &'static str, name: &'static str, threads: u32) -> Result<(VerifyKernel, u32)> {
    // SAFETY: every kernel of hip/verify*.hip is `extern "C" __global__ void NAME(VerifyParams)` for blocks of so many threads.
    let kernel = unsafe { Kernel::new(file, name, threads) }.load(gpu)?;
    let most = kernel.grid_for(u64::MAX);
    Ok((kernel, most))
}

/// The kernel for small tensors of a pair, its largest grid, and up to how many elements a tensor is small: a GPU that gives each thread one
/// element or two is done with it sooner than screens pay; and every segment needs a block.
fn few(gpu: &'static HipDevice, dense: &Dense, request: &Request) -> Result<(VerifyKernel, u32, usize)> {
    let Dense(result, reference, file, [.., all, counts]) = dense;
    // Sixteen groups of a block measure; for all metrics four more add.
    let (kernel, most) = if request.all { kernel(gpu, file, all, 640)? } else { kernel(gpu, file, counts, 512)? };
    let segment = sums::segment_elements(sums::vector_width(*result, *reference));
    Ok((kernel, most, (gpu.multiprocessors() as usize * 2048).min(most as usize * segment)))
}

/// How many segments a group takes in a row, as a power of two: as many as leave no more than a sixteenth of the groups idle. Long chunks
/// leave few sums to join at the end; which it is changes no result.
fn chunk_log(segments: usize, groups: usize) -> u32 {
    let idle = |log: &u32| {
        let chunks = segments.div_ceil(1 << log);
        (chunks.next_multiple_of(groups) - chunks) * 16 <= chunks
    };
    (1..=sums::SEGMENTS_PER_ITEM.ilog2()).rev().find(idle).unwrap_or(0)
}

impl Launch {
    /// The launch for two tensors.
    fn for_tensors(gpu: &'static HipDevice, result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Result<Launch> {
        let dtypes = [result.dtype(), reference.dtype()];
        let dense = dense_of(dtypes, request).filter(|_| dense_address(result).is_some() && dense_address(reference).is_some());
        Launch::of(gpu, dtypes, result.elements(), dense, request)
    }

    /// The launch for tensors of these formats, by the kernels for `dense` ones or by the one for every layout.
    fn of(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, dense: Option<&Dense>, request: &Request) -> Result<Launch> {
        let vector = sums::vector_width(dtypes[0], dtypes[1]);
        let segments = elements.div_ceil(sums::segment_elements(vector));
        if let Some(dense) = dense {
            let (kernel, most, small) = few(gpu, dense, request)?;
            if elements <= small {
                let grid = (elements.div_ceil(16 * sums::COLUMNS) as u32).min(most);
                return Ok(Launch { kernel, dense: true, grid, most, segments, parts: elements.div_ceil(sums::COLUMNS), chunk_log: 0 });
            }
        }
        let (kernel, most) = match dense {
            Some(Dense(_, _, file, [all, counts, ..])) => kernel(gpu, file, if request.all { all } else { counts }, 128)?,
            None => {
                let name = match Arithmetic::of(dtypes[0], dtypes[1]) {
                    Arithmetic::F32 => "verify_any_f32",
                    Arithmetic::F64 => "verify_any_f64",
                    Arithmetic::I64 => "verify_any_i64",
                };
                kernel(gpu, ANY, name, 512)?
            }
        };
        let groups = kernel.block() as usize / sums::COLUMNS;
        let chunk_log = if request.all || dense.is_none() { chunk_log(segments, most as usize * groups) } else { 0 };
        let grid = kernel.grid_for((segments.div_ceil(1 << chunk_log) * sums::COLUMNS) as u64);
        Ok(Launch { kernel, dense: dense.is_some(), grid, most, segments, parts: segments, chunk_log })
    }
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

fn params(result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request, launch: &Launch, w: &Workspace) -> Result<VerifyParams> {
    let grid = Grid::of(result.dtype());
    let start = |t: &TensorRef<'_>| if launch.dense { dense_address(t) } else { None }.unwrap_or(t.as_ptr());
    let (rank_a, extents_a, strides_a) = dims(result.layout())?;
    let (rank_r, extents_r, strides_r) = dims(reference.layout())?;
    Ok(VerifyParams {
        a: start(result),
        r: start(reference),
        n: result.elements() as u64,
        rtol: request.rtol,
        atol: request.atol,
        dtype_a: result.dtype() as u32,
        dtype_r: reference.dtype() as u32,
        nonfinite_equal: u32::from(request.nonfinite == NonFinite::EqualWhenSame),
        first: request.first as u32,
        min_exponent: grid.min_exponent,
        max_exponent: grid.max_exponent,
        mantissa_bits: grid.mantissa_bits,
        histograms: u32::from(request.histograms),
        rank_a,
        rank_r,
        chunk_log: launch.chunk_log,
        unused: 0,
        offset_a: result.layout().offset() as i64,
        offset_r: reference.layout().offset() as i64,
        extents_a,
        extents_r,
        strides_a,
        strides_r,
        partials: w.partials.ptr().cast(),
        mismatches: w.mismatches.ptr().cast(),
        workspace: w.scratch.ptr().cast(),
        bests: w.bests.ptr().cast(),
        result: w.answer.ptr().cast(),
    })
}

impl Launch {
    /// Bytes of bests, partials and mismatches.
    fn needs(&self) -> [usize; 3] {
        // Room for chunks of one: a smaller comparison may have more chunks than a larger one.
        [self.most as usize * size_of::<VerifyBest>(), self.segments * size_of::<sums::Sums>(), self.parts * size_of::<u32>()]
    }
}

/// Compares pairs of tensors on one GPU: all are enqueued, then waited for once.
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
            let (launched, here) = queue.enqueue_last(|| unsafe { launch.kernel.launch(queue, launch.grid, &params) });
            launched?;
            last = here;
        }
        Ok(last)
    };
    gpu.blocking_until(&mut workspaces, enqueue, |workspaces| workspaces.iter().all(Workspace::is_done))?;
    let outcomes = pairs.zip(&workspaces).map(|(((result, _), request), w)| outcome(result, request, w)).collect();
    // Only now: after a failure a workspace may not be zeroed, and is dropped instead.
    IDLE.give_back(gpu.index(), workspaces);
    Ok(outcomes)
}

/// Index of "no element".
const NOWHERE: u64 = u64::MAX;

/// Where a kernel has each metric of [`Metric::ALL`].
const AT: [usize; 6] = [0, 1, 2, 3, 5, 4];

/// What a kernel wrote, as the host's loops would have it. It explains always; what was not asked for is dropped.
fn outcome(result: &TensorRef<'_>, request: &Request, workspace: &Workspace) -> Outcome {
    // SAFETY: the kernel that wrote it has said so or has been waited for, and no other is launched before the workspace is taken again.
    let answer = unsafe { workspace.answer.as_slice() };
    // Not copied: most of it is room for mismatches that few comparisons have.
    let answer: &VerifyResult = bytemuck::from_bytes(&answer[..size_of::<VerifyResult>()]);
    let [mismatches, zero_passes, zeros_a, zeros_r, nans_a, nans_r, plus_a, plus_r, minus_a, minus_r, nonfinite_pairs] = answer.counts;
    let mut values = Values {
        mismatches,
        zero_passes,
        zeros: [zeros_a, zeros_r],
        nans: [nans_a, nans_r],
        positive_infinities: [plus_a, plus_r],
        negative_infinities: [minus_a, minus_r],
        nonfinite_pairs,
        max_magnitude: answer.magnitudes,
        maxima: std::array::from_fn(|k| answer.values[AT[k]]),
        sums: answer.sums,
        histograms: request.histograms.then_some(answer.histograms),
    };
    if !request.all {
        // The kernel for all pairs and layouts measures everything.
        values = Values { zero_passes: 0, zeros: [0; 2], sums: [0.0; sums::SUMS], ..values };
        values.maxima[1..].fill(0.0);
    }
    let explanation = request.explains(&values, result).then(|| explanation(request, answer));
    Outcome { values, explanation }
}

fn explanation(request: &Request, answer: &VerifyResult) -> Explanation {
    let found = |p: &VerifyPlace| (p.index != NOWHERE).then_some(Found { index: p.index, bits: [p.bits_a, p.bits_r] });
    let mut worst = AT.map(|k| found(&answer.places[k]));
    let (mut ulps, [mut passing_rtol, mut passing_atol]) = (answer.values[AT[Metric::Ulp as usize]], answer.hints);
    if !request.all {
        worst[1..].fill(None);
        (ulps, passing_rtol, passing_atol) = (0.0, 0.0, 0.0);
    }
    Explanation {
        worst,
        ulps,
        passing_rtol,
        passing_atol,
        first: answer.first[..answer.listed as usize].iter().filter_map(found).collect(),
    }
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
    IDLE.give_back(gpu.index(), [workspace]);
    Ok(MaxAbs { value: largest, nans, infinities })
}

#[cfg(test)]
mod tests {
    use super::chunk_log;

    #[test]
    fn chunks_leave_few_groups_idle() {
        // As few segments as groups: one each. Twice as many: two.
        assert_eq!([1, 2112, 2 * 2112].map(|segments| chunk_log(segments, 2112)), [0, 0, 1]);
        assert_eq!([16 * 2112, 1000 * 2112].map(|segments| chunk_log(segments, 2112)), [4, 4]);
        for segments in (1..100_000).step_by(37) {
            for groups in [1, 7, 640, 2112] {
                let log = chunk_log(segments, groups);
                let chunks = segments.div_ceil(1 << log);
                assert!(
                    log == 0 || (chunks.next_multiple_of(groups) - chunks) * 16 <= chunks,
                    "{segments} segments, {groups} groups: {log}"
                );
            }
        }
    }
}
