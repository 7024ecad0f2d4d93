//! Launches of hip/verify/: the two passes of a comparison. What is asked, and what the results mean, belongs to `verify`.
//!
//! A comparison needs scratch memory: 36 bytes for each tile of the sums, and 16 for each block of threads. Idle workspaces belong to the
//! device, so that repeated comparisons allocate nothing. The result lies in pinned host memory, which the kernels write themselves: one
//! launch and one wait for the values, one more of each for an explanation, no copy.

mod names;
mod workspace;

pub(crate) use names::FirstPass;
pub(crate) use workspace::Workspace;

use super::Merged;
use crate::device::TensorRef;
use crate::device::hip::{HipDevice, HipStream, Kernel, Loaded};
use crate::dtype::DType;
use crate::error::Result;
use hipverify_sys::abi::{
    PARTIAL_TILES, SUMS, TILE_LANES, TILE_ROWS, VerifyExplain, VerifyFarthest, VerifyOperand, VerifyParams, VerifyResult,
};
use std::sync::Arc;

/// Threads of a block.
const BLOCK: u32 = 256;
/// Threads that take a tile together.
const SUBGROUP: u64 = TILE_LANES as u64;

/// A pair of tensors, and what is to be found of it.
///
/// It is *valid* for a device when both tensors lie there, have the same shape and at least one element, and at most `MAX_LISTED` mismatches
/// are to be listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub result: &'a TensorRef<'a>,
    pub reference: &'a TensorRef<'a>,
    pub first_pass: FirstPass,
    /// All that does not depend on the tensors' places and the launch; the rest is filled in here.
    pub params: VerifyParams,
}

/// The kernels of both passes and how they are laid out.
struct Launch {
    values: Loaded<VerifyParams>,
    explain: Loaded<VerifyParams>,
    grid: u32,
    explain_grid: u32,
    tiles: usize,
    /// A subgroup takes `1 << run_log` tiles in a row.
    run_log: u32,
    /// Runs of a row that are taken beside those of the next rows, if not 0.
    abreast: u64,
    /// Which of both are loaded by windows of eight rows: `VerifyParams::columns`.
    columns: u32,
}

impl Launch {
    fn for_question(gpu: &'static HipDevice, question: &Question<'_>) -> Result<Launch> {
        let Question { result, reference, first_pass, params } = question;
        let (dtypes, elements) = ([result.dtype(), reference.dtype()], result.elements());
        let tile = tile(dtypes);
        let abreast = [result, reference].into_iter().find_map(|t| tiles_of_a_row(t, tile).transpose()).transpose()?.unwrap_or(0);
        let columns = if abreast > 0 { columns([result, reference], tile as u64, abreast)? } else { 0 };
        // The kernels for common pairs do not expect that a bound overflows, and have no windows.
        let mut launch = Launch::of(gpu, dtypes, elements, params.clamp == 0 && columns == 0, *first_pass)?;
        (launch.abreast, launch.columns) = (abreast, columns);
        if launch.abreast > 0 {
            // Runs of a row that is a whole number of tiles may have several.
            launch.run_log = if launch.columns == 0 { 0 } else { launch.run_log.min(launch.abreast.trailing_zeros()) };
            launch.abreast >>= launch.run_log;
        }
        Ok(launch)
    }

    /// The launch for dense tensors of these formats; `common` allows kernels of common pairs.
    fn of(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, common: bool, first_pass: FirstPass) -> Result<Launch> {
        let load = |(file, name)| {
            // SAFETY: every kernel of hip/verify/ is `extern "C" __global__ void NAME(VerifyParams)` for blocks of so many threads.
            unsafe { Kernel::<VerifyParams>::new(file, name, BLOCK) }.load(gpu)
        };
        let values = load(names::values(dtypes, first_pass, common))?;
        let explain = load(names::explanation(dtypes))?;
        let tiles = elements.div_ceil(tile(dtypes));
        let run_log = run_log(tiles, (values.grid_for(u64::MAX) * BLOCK / TILE_LANES) as usize);
        let threads = tiles.div_ceil(1 << run_log) as u64 * SUBGROUP;
        Ok(Launch {
            grid: values.grid_for(threads),
            explain_grid: explain.grid_for(threads),
            values,
            explain,
            tiles,
            run_log,
            abreast: 0,
            columns: 0,
        })
    }

    /// Bytes of partials, mismatches and farthest.
    fn needs(&self) -> [usize; 3] {
        // For runs of one tile, and for the largest grid: a smaller comparison may have more of them than a larger one.
        let most = self.explain.grid_for(u64::MAX) as usize;
        [self.tiles * SUMS as usize * size_of::<f64>(), self.tiles * size_of::<u32>(), most * size_of::<VerifyFarthest>()]
    }
}

/// Elements of a tile.
fn tile(dtypes: [DType; 2]) -> usize {
    (TILE_ROWS * TILE_LANES) as usize * (128 / dtypes[0].bits().min(dtypes[1].bits()))
}

/// How many tiles a subgroup takes in a row, as a power of two: as many as leave no more than a tenth of the subgroups idle. Long runs
/// leave few sums to join at the end; which it is changes no result.
fn run_log(tiles: usize, subgroups: usize) -> u32 {
    let idle = |log: &u32| {
        let runs = tiles.div_ceil(1 << log);
        (runs.next_multiple_of(subgroups) - runs) * 10 <= runs
    };
    (1..=PARTIAL_TILES.ilog2()).rev().find(idle).unwrap_or(0)
}

/// How many tiles a row has, where neighbours in memory are a row apart; `None` where it has none.
fn tiles_of_a_row(tensor: &TensorRef<'_>, tile: usize) -> Result<Option<u64>> {
    let Merged { rank, extents, strides } = Merged::of(tensor.layout())?;
    let inner = (rank as usize).checked_sub(1).filter(|&i| strides[i] != 1);
    let tiles = inner.map_or(0, |i| (extents[i] + tile as u64 / 2) / tile as u64);
    Ok((tiles > 0).then_some(tiles))
}

/// Rows of a window of hip/verify/layout.h.
const WINDOW_ROWS: u64 = 8;

/// Which of result (1) and reference (2) go by windows; 0 unless the other one does, too, or goes by whole words.
fn columns(pair: [&TensorRef<'_>; 2], tile: u64, abreast: u64) -> Result<u32> {
    let mut columns = 0;
    for (tensor, bit) in pair.into_iter().zip([1, 2]) {
        if has_windows(tensor, tile, abreast)? {
            columns |= bit;
        } else {
            // Kernels don't look there for the ends of rows: a tile lies in one, and nothing beyond it is read.
            let VerifyOperand { rank, extents, inner, align, .. } = operand(tensor)?;
            let whole = rank == 0 || extents[rank as usize - 1].is_multiple_of(tile);
            if inner != 1 || align < 4 || !whole {
                return Ok(0);
            }
        }
    }
    Ok(columns)
}

/// Whether rows are `abreast` whole tiles, neighbours down a column are neighbours in memory, and eight of them are aligned to as many bytes, at
/// most 16.
fn has_windows(tensor: &TensorRef<'_>, tile: u64, abreast: u64) -> Result<bool> {
    let (bits, layout) = (tensor.dtype().bits() as u64, tensor.layout());
    let Merged { rank, extents, strides } = Merged::of(layout)?;
    let Some(column) = (rank as usize).checked_sub(2).filter(|_| bits >= 8) else { return Ok(false) };
    let inner = column + 1;
    let aligned = |bytes: u64| bytes.is_multiple_of(bits.min(16));
    let others = strides[..=inner].iter().enumerate().filter(|&(i, _)| i != column);
    Ok(extents[inner] == abreast * tile
        && strides[inner] != 1
        && strides[column] == 1
        && extents[column].is_multiple_of(WINDOW_ROWS)
        && aligned(tensor.as_ptr().addr() as u64 + layout.offset() as u64 * (bits / 8))
        && others.map(|(_, stride)| stride.unsigned_abs() * (bits / 8)).all(aligned))
}

/// A tensor for the kernels.
fn operand(tensor: &TensorRef<'_>) -> Result<VerifyOperand> {
    let (bits, layout) = (tensor.dtype().bits(), tensor.layout());
    let Merged { rank, extents, strides } = Merged::of(layout)?;
    let first = layout.offset() * bits;
    // A dense tensor begins at its first element, unless that begins inside a byte.
    let moved = rank == 0 && first.is_multiple_of(8);
    let base = if moved { tensor.as_ptr().wrapping_add(first / 8) } else { tensor.as_ptr() };
    let offset = if moved { 0 } else { layout.offset() as i64 };
    // Every row begins a whole number of outer strides and of row lengths after the first element. An offset inside a byte gives 1.
    let inner = (rank as usize).checked_sub(1);
    let distances = strides[..inner.unwrap_or(0)].iter().map(|s| s.unsigned_abs()).chain(inner.map(|i| extents[i]));
    let zeros = distances.chain([offset.unsigned_abs()]).map(|elements| (elements * bits as u64).trailing_zeros().saturating_sub(3));
    let align_log = zeros.chain([base.addr().trailing_zeros(), 4]).min().unwrap_or(0);
    // How far elements lie behind the first one, at most.
    let last: u64 = extents.iter().zip(strides).take(rank as usize).map(|(e, s)| (e - 1) * s.max(0) as u64).sum();
    let last = if rank == 0 { tensor.elements() as u64 - 1 } else { last };
    let bytes = ((offset as u64 + last + 1) * bits as u64).div_ceil(8);
    Ok(VerifyOperand {
        base,
        extents,
        reciprocals: extents.map(reciprocal),
        strides,
        inner: inner.map_or(1, |i| strides[i]),
        offset,
        end: base.wrapping_add(bytes as usize),
        dtype: tensor.dtype() as u32,
        rank,
        align: 1 << align_log,
        padding: 0,
    })
}

/// 2^64 over a divisor, rounded up, as kernels divide by it.
fn reciprocal(divisor: u64) -> u64 {
    if divisor < 2 { 0 } else { u64::MAX / divisor + 1 }
}

/// Comparisons on one device whose first passes are done.
pub(crate) struct Batch<'a> {
    gpu: &'static HipDevice,
    comparisons: Vec<(Question<'a>, Workspace)>,
}

impl<'a> Batch<'a> {
    /// Makes the values of all questions: their first passes are enqueued, then waited for once.
    ///
    /// # Safety
    /// Each question is [valid](Question) for `gpu`.
    pub(crate) unsafe fn values(gpu: &'static HipDevice, questions: impl ExactSizeIterator<Item = Question<'a>>) -> Result<Batch<'a>> {
        let mut batch = Batch { gpu, comparisons: Vec::with_capacity(questions.len()) };
        let enqueue = |batch: &mut Batch<'a>, queue: &Arc<HipStream>| {
            let mut last = None;
            for question in questions {
                let launch = Launch::for_question(gpu, &question)?;
                let mut workspace = gpu.workspaces().take().map_or_else(|| Workspace::new(gpu), Ok)?;
                workspace.reserve(gpu, &launch)?;
                let params = workspace.params(&question, &launch)?;
                workspace.mark_unwritten();
                // Kept before the launch: whatever fails later, `blocking_until` waits before the memory can go.
                batch.comparisons.push((question, workspace));
                // SAFETY: the tensors are borrowed for longer than `blocking_until` takes, which waits; the workspace is large enough for this
                // launch and no other launch uses it.
                let (launched, here) = queue.enqueue_last(|| unsafe { launch.values.launch(queue, launch.grid, &params) });
                launched?;
                last = here;
            }
            Ok(last)
        };
        gpu.blocking_until(&mut batch, enqueue, |batch| batch.comparisons.iter().all(|(_, workspace)| workspace.has_values()))?;
        Ok(batch)
    }

    /// Explains those that are wanted, whatever their questions say: the second passes are enqueued, then waited for once.
    pub(crate) fn explain(&mut self, wanted: &[bool]) -> Result<()> {
        if !wanted.contains(&true) {
            return Ok(());
        }
        let gpu = self.gpu;
        let enqueue = |batch: &mut Batch<'a>, queue: &Arc<HipStream>| {
            let mut last = None;
            for ((question, workspace), _) in batch.comparisons.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted) {
                let launch = Launch::for_question(gpu, question)?;
                let params = VerifyParams { explain: VerifyExplain::EXPLAIN_ALWAYS, ..workspace.params(question, &launch)? };
                // SAFETY: `values` was promised a valid question, whose tensors are borrowed for longer than `blocking_until` takes, which waits;
                // the workspace is large enough for both passes since then, and no other launch uses it.
                let (launched, here) = queue.enqueue_last(|| unsafe { launch.explain.launch(queue, launch.explain_grid, &params) });
                launched?;
                last = here;
            }
            Ok(last)
        };
        gpu.blocking_until(self, enqueue, |batch| {
            batch.comparisons.iter().zip(wanted).all(|((_, workspace), wanted)| !wanted || workspace.has_explanation())
        })
    }

    /// What was found, in the order of the questions. Of explanations only those are there that were [made](Self::explain).
    pub(crate) fn results(&self) -> impl Iterator<Item = &VerifyResult> {
        // SAFETY: `values` and `explain` have waited for the passes that they launched, and need the batch exclusively for others.
        self.comparisons.iter().map(|(_, workspace)| unsafe { workspace.result() })
    }

    /// Leaves the workspaces for others. A batch that is dropped frees them instead: after a failure they may not be zeroed.
    pub(crate) fn recycle(self) {
        self.comparisons.into_iter().for_each(|(_, workspace)| self.gpu.workspaces().put(workspace));
    }
}

#[cfg(test)]
mod tests {
    use super::run_log;

    #[test]
    fn runs_leave_few_subgroups_idle() {
        // As few tiles as subgroups: one each. Twice as many: two.
        assert_eq!([1, 2112, 2 * 2112].map(|tiles| run_log(tiles, 2112)), [0, 0, 1]);
        assert_eq!([16 * 2112, 1000 * 2112].map(|tiles| run_log(tiles, 2112)), [4, 4]);
        for tiles in (1..100_000).step_by(37) {
            for subgroups in [1, 7, 640, 2112] {
                let log = run_log(tiles, subgroups);
                let runs = tiles.div_ceil(1 << log);
                assert!(log == 0 || (runs.next_multiple_of(subgroups) - runs) * 10 <= runs, "{tiles} tiles, {subgroups} subgroups: {log}");
            }
        }
    }
}
