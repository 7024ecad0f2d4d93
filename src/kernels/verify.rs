//! Launches of hip/verify/: the two passes of a comparison. The question, and the meaning of the results, belong to `verify`.
//!
//! A comparison needs scratch memory: 36 bytes for each tile of the sums, 16 for each block of threads, and 512 KiB for large tensors of two formats of 8 bits. Idle workspaces belong to the
//! device, so that repeated comparisons allocate nothing. The result lies in pinned host memory, which the kernels write themselves: one
//! launch and one wait for the values, one more of each for an explanation, no copy.

mod names;
mod pack;
mod workspace;

pub(crate) use names::FirstPass;
pub(crate) use workspace::Workspace;

use self::pack::{Packing, Ranges};
use super::{Merged, expect_on};
use crate::device::TensorRef;
use crate::device::hip::{HipDevice, HipStream, Kernel, Loaded, Queues};
use crate::dtype::DType;
use crate::error::Result;
use hipverify_sys::abi::{
    MAX_LISTED, PARTIAL_TILES, SUMS, TILE_LANES, TILE_ROWS, VerifyExplain, VerifyFarthest, VerifyOperand, VerifyPack, VerifyParams,
    VerifyResult,
};

/// Threads of a block.
const BLOCK: u32 = 256;
/// A tensor is large from this many elements for each thread that fits the device: on an H200 and an MI250X from 2^20 elements and more.
const MANY: u64 = 16;
/// Elements of a launch. Blocks count in 32 bits, also zeros that stand for absent elements, and one block may take nearly all elements.
const MOST_IN_A_LAUNCH: u64 = 1 << 31;
/// Pairs of patterns of two formats of 8 bits.
const PAIRS_OF_BYTES: usize = 1 << 16;
/// Threads that take a tile together.
const SUBGROUP: u64 = TILE_LANES as u64;

/// A pair of tensors, and what is to be computed for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub result: &'a TensorRef<'a>,
    pub reference: &'a TensorRef<'a>,
    pub first_pass: FirstPass,
    /// The parameters that do not depend on the tensors' addresses and the launch; the rest is filled in here.
    pub params: VerifyParams,
}

impl<'a> Question<'a> {
    /// Result and reference as a kernel's operands: the narrower format first.
    fn operands(&self) -> [&'a TensorRef<'a>; 2] {
        if self.swapped() { [self.reference, self.result] } else { [self.result, self.reference] }
    }

    /// That kernels can be asked: both tensors lie on `gpu`, have the same shape and at least one element, and at most `MAX_LISTED` mismatches are to be
    /// listed.
    ///
    /// # Panics
    /// When that is not so: callers have turned such pairs away.
    fn expect_valid(&self, gpu: &HipDevice) {
        let Question { result, reference, params, .. } = self;
        expect_on(gpu, &[result, reference]);
        assert!(result.shape() == reference.shape() && result.elements() > 0, "both tensors have one shape, with elements");
        assert!(params.listed <= MAX_LISTED, "{} mismatches to list, {MAX_LISTED} at most", params.listed);
    }

    /// Whether the reference is the first operand.
    fn swapped(&self) -> bool {
        names::swapped([self.result.dtype(), self.reference.dtype()])
    }
}

/// The kernels of both passes and how they are launched: once, or, if tensors are packed, once for each range of elements.
struct Launch {
    values: Pass,
    explain: Pass,
    /// Whether the second pass needs a last launch that takes no elements.
    ends_apart: bool,
    /// The largest grid of a second pass of these formats, whatever their size.
    explain_blocks: u32,
    elements: u64,
    /// Elements of a row of a tile.
    row: u64,
    /// How the operands are packed, if they are.
    packings: [Option<Packing>; 2],
    /// Elements of a range: whole runs of both passes, for whole blocks.
    range: u64,
}

/// A pass over both tensors. Different numbers of blocks of the two kernels may fit the device, so each pass has its own grid, its own tiles and its own runs.
struct Pass {
    kernel: Loaded<VerifyParams>,
    grid: u32,
    /// A tile has `1 << rows_log` rows.
    rows_log: u32,
    /// A subgroup takes `1 << run_log` tiles in a row.
    run_log: u32,
    /// Elements of these.
    run: u64,
}

impl Pass {
    /// The first pass over `elements` elements, or over ranges of so many; `row`: elements of a row of a tile. It takes long runs, which leave few sums to join. Counts have no sums and take short runs, so that the elements
    /// that all subgroups read at a time are near each other, and subgroups end together. With runs of two tiles instead of sixteen, an H200 counts 2^28 elements of f16 at 0.91 instead of 0.79 of its read
    /// ceiling, and of f32 at 0.95 instead of 0.87.
    fn values(kernel: Loaded<VerifyParams>, elements: u64, row: u64, first_pass: FirstPass) -> Pass {
        let counts = first_pass == FirstPass::Counts;
        let rows_log = if counts { rows_log(elements.div_ceil(row), kernel.multiprocessors()) } else { TILE_ROWS.ilog2() };
        let subgroups = kernel.grid_for(u64::MAX) * BLOCK / TILE_LANES;
        let most = if counts { 2 } else { PARTIAL_TILES };
        let run_log = run_log(elements.div_ceil(row << rows_log) as usize, subgroups as usize, most.ilog2());
        Pass::new(kernel, elements, row, rows_log, run_log)
    }

    /// The second pass, tile by tile: any subgroup may take any tile, so none is idle for long.
    fn explain(kernel: Loaded<VerifyParams>, elements: u64, row: u64) -> Pass {
        let rows_log = rows_log(elements.div_ceil(row), kernel.multiprocessors());
        Pass::new(kernel, elements, row, rows_log, 0)
    }

    fn new(kernel: Loaded<VerifyParams>, elements: u64, row: u64, rows_log: u32, run_log: u32) -> Pass {
        let run = row << (rows_log + run_log);
        Pass { grid: kernel.grid_for(elements.div_ceil(run) * SUBGROUP), kernel, rows_log, run_log, run }
    }
}

/// One launch of a pass: kernel, grid, parameters.
enum Step<'a> {
    Pack(&'a Loaded<VerifyPack>, u32, Box<VerifyPack>),
    Compare(&'a Loaded<VerifyParams>, u32, Box<VerifyParams>),
}

impl Step<'_> {
    /// # Safety
    /// As [`Loaded::launch`].
    unsafe fn launch(&self, stream: &HipStream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Step::Pack(kernel, grid, params) => kernel.launch(stream, *grid, params),
                Step::Compare(kernel, grid, params) => kernel.launch(stream, *grid, params),
            }
        }
    }
}

impl Launch {
    /// Compares tensors in place, without packing.
    fn in_place(gpu: &'static HipDevice, question: &Question<'_>) -> Result<Launch> {
        let Question { result, reference, first_pass, .. } = question;
        Launch::of(gpu, [result.dtype(), reference.dtype()], result.elements(), *first_pass)
    }

    /// Packs tensors first if that is faster.
    fn packing(gpu: &'static HipDevice, question: &Question<'_>) -> Result<Launch> {
        let [x, y] = question.operands();
        let packings = [Packing::of(gpu, x)?, Packing::of(gpu, y)?];
        let mut launch = Launch::in_place(gpu, question)?;
        if let Some(most) = packings.iter().flatten().map(Packing::most).min() {
            let elements = most.min(launch.elements);
            launch.values = Pass::values(launch.values.kernel, elements, launch.row, question.first_pass);
            launch.explain = Pass::explain(launch.explain.kernel, elements, launch.row);
            launch.range = launch.whole_runs(most.min(MOST_IN_A_LAUNCH));
        }
        launch.packings = packings;
        Ok(launch)
    }

    /// The launch for dense tensors of these formats.
    fn of(gpu: &'static HipDevice, dtypes: [DType; 2], elements: usize, first_pass: FirstPass) -> Result<Launch> {
        let load = |(file, name)| Kernel::<VerifyParams>::new(file, name, BLOCK).shared_on_nvidia(names::ring_bytes(name)).load(gpu);
        let (row, elements) = (row(dtypes), elements as u64);
        // Both are loaded whatever the size, so that a workspace that is prepared for a large comparison, or a small one, serves both.
        let by_size = |name, of_many: Option<names::Name>| -> Result<_> {
            let (kernel, of_many) = (load(name)?, of_many.map(load).transpose()?);
            let blocks = of_many.as_ref().map_or(0, |k| k.grid_for(u64::MAX)).max(kernel.grid_for(u64::MAX));
            let large = of_many.filter(|k| elements >= u64::from(k.grid_for(u64::MAX)) * u64::from(BLOCK) * MANY);
            Ok((large.is_some(), large.unwrap_or(kernel), blocks))
        };
        let (_, values, _) = by_size(names::values(dtypes, first_pass), names::values_of_many(dtypes, first_pass))?;
        let (ends_apart, explain, explain_blocks) = by_size(names::explanation(dtypes), names::explanation_of_many(dtypes))?;
        let (values, explain) = (Pass::values(values, elements, row, first_pass), Pass::explain(explain, elements, row));
        let mut launch = Launch { values, explain, ends_apart, explain_blocks, elements, row, packings: [None, None], range: elements };
        if elements > MOST_IN_A_LAUNCH {
            launch.range = launch.whole_runs(MOST_IN_A_LAUNCH);
        }
        Ok(launch)
    }

    /// The largest range up to `most` elements, but at least one, that consists of as many runs of either pass as a block has subgroups: powers of two of rows. Two launches must not share such a part.
    fn whole_runs(&self, most: u64) -> u64 {
        let part = self.values.run.max(self.explain.run) * (u64::from(BLOCK) / SUBGROUP);
        (most / part).max(1) * part
    }

    /// The number of the queue for this comparison, which has `number` in its batch. Those that pack share the ranges, so they run one after the other.
    fn queue(&self, number: usize) -> usize {
        if self.packings.iter().any(Option::is_some) { 0 } else { number }
    }

    /// Bytes of the packed ranges of both operands.
    fn packed_bytes(&self) -> [usize; 2] {
        self.packings.each_ref().map(|p| p.as_ref().map_or(0, |p| p.bytes(self.range.min(self.elements))))
    }

    /// The launches of the first pass in their order, given the parameters of one that takes all elements where they lie; `to`: as many bytes as
    /// [`packed_bytes`](Self::packed_bytes) says.
    fn values_steps(&self, params: VerifyParams, to: [*mut u8; 2]) -> impl Iterator<Item = Step<'_>> {
        self.steps(&self.values, params, to, false)
    }

    /// The same for the second pass. The elements that it has found may be anywhere: if tensors are packed, a launch that takes no run reads these elements in the original tensors.
    fn explain_steps(&self, params: VerifyParams, to: [*mut u8; 2]) -> impl Iterator<Item = Step<'_>> {
        self.steps(&self.explain, params, to, self.ends_apart || self.packings.iter().any(Option::is_some))
    }

    /// One launch for each range; with `reads`, also one that takes no elements.
    fn steps<'a>(&'a self, pass: &'a Pass, params: VerifyParams, to: [*mut u8; 2], reads: bool) -> impl Iterator<Item = Step<'a>> {
        let run = pass.run;
        let last = VerifyParams { first_run: self.elements.div_ceil(run), ..params };
        let of_range = move |first: u64| {
            let range = first..(first + self.range).min(self.elements);
            let more = u32::from(reads || range.end < self.elements);
            let mut part = VerifyParams { n: range.end, first_run: first / run, more, ..params };
            let mut steps = Vec::with_capacity(3);
            for ((packing, operand), to) in self.packings.iter().zip(&mut part.operands).zip(to) {
                let Some(packing) = packing else { continue };
                let (kernel, grid, pack) = packing.launch(&range, to);
                steps.push(Step::Pack(kernel, grid, Box::new(pack)));
                *operand = packing.packed(&range, to);
            }
            steps.push(Step::Compare(&pass.kernel, pass.grid, Box::new(part)));
            steps
        };
        let ranges = (0..self.elements).step_by(self.range as usize).flat_map(of_range);
        ranges.chain(reads.then(|| Step::Compare(&pass.kernel, pass.grid, Box::new(last))))
    }

    /// Bytes of partials, mismatches, farthest and firsts.
    fn needs(&self) -> [usize; 4] {
        // For runs of one tile, for as many tiles as `rows_log` makes of a small tensor, and for the largest grid: a smaller comparison may have more of them than a larger one.
        let tiles = self.elements.div_ceil(self.row * u64::from(TILE_ROWS)) as usize;
        let searched = self.elements.div_ceil(self.explain.run).max(subgroups_for_all(self.explain.kernel.multiprocessors())) as usize;
        let firsts = if self.ends_apart { PAIRS_OF_BYTES * size_of::<u64>() } else { 0 };
        let farthest = self.explain_blocks as usize * size_of::<VerifyFarthest>();
        [tiles * SUMS as usize * size_of::<f64>(), searched * size_of::<u32>(), farthest, firsts]
    }
}

/// Elements of a row of a tile.
fn row(dtypes: [DType; 2]) -> u64 {
    SUBGROUP * (128 / dtypes[0].bits().min(dtypes[1].bits())) as u64
}

/// Subgroups of one block on each multiprocessor.
fn subgroups_for_all(multiprocessors: u32) -> u64 {
    u64::from(multiprocessors * BLOCK) / SUBGROUP
}

/// The number of rows of a tile of a pass without sums, as a power of two: the fewest with which there are not more tiles than [`subgroups_for_all`], but 2 at least, which some kernels load at once. A subgroup waits for
/// one load after the other, so small tensors take less time with small tiles. It does not change any result.
fn rows_log(rows: u64, multiprocessors: u32) -> u32 {
    let all = TILE_ROWS.ilog2();
    (1..all).find(|log| rows.div_ceil(1 << log) <= subgroups_for_all(multiprocessors)).unwrap_or(all)
}

/// The number of tiles that a subgroup takes in a row in the first pass, a power of two up to `most`: the largest that leaves at most a tenth of the subgroups idle.
/// It does not change any result.
fn run_log(tiles: usize, subgroups: usize, most: u32) -> u32 {
    let idle = |log: &u32| {
        let runs = tiles.div_ceil(1 << log);
        (runs.next_multiple_of(subgroups) - runs) * 10 <= runs
    };
    (1..=most).rev().find(idle).unwrap_or(0)
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
        unused: 0,
    })
}

fn larger(a: [usize; 2], b: [usize; 2]) -> [usize; 2] {
    [a[0].max(b[0]), a[1].max(b[1])]
}

/// 2^64 over a divisor, rounded up, as kernels divide by it.
fn reciprocal(divisor: u64) -> u64 {
    if divisor < 2 { 0 } else { u64::MAX / divisor + 1 }
}

/// Comparisons on one device whose first passes are done.
pub(crate) struct Batch<'a> {
    gpu: &'static HipDevice,
    comparisons: Vec<(Question<'a>, Workspace)>,
    /// All comparisons that pack are enqueued on one stream, so that they can share it.
    ranges: Ranges,
}

impl<'a> Batch<'a> {
    /// Computes the values of all questions: enqueues all first passes, in turn on two streams, then waits once.
    ///
    /// # Panics
    /// When a question is not [valid](Question::expect_valid) for `gpu`.
    pub(crate) fn values(gpu: &'static HipDevice, questions: impl ExactSizeIterator<Item = Question<'a>>) -> Result<Batch<'a>> {
        let ranges = gpu.workspaces().take().map_or_else(|| Ranges::new(gpu), Ok)?;
        let mut batch = Batch { gpu, comparisons: Vec::with_capacity(questions.len()), ranges };
        let launch = |question: Question<'a>| {
            question.expect_valid(gpu);
            Ok((Launch::packing(gpu, &question)?, question))
        };
        let launches = questions.map(launch).collect::<Result<Vec<_>>>()?;
        batch.ranges.reserve(gpu, launches.iter().map(|(launch, _)| launch.packed_bytes()).fold([0; 2], larger))?;
        let enqueue = |batch: &mut Batch<'a>, queues: &mut Queues| {
            for (number, (launch, question)) in launches.into_iter().enumerate() {
                let mut workspace = gpu.workspaces().take().map_or_else(|| Workspace::new(gpu), Ok)?;
                workspace.reserve(gpu, &launch)?;
                let params = workspace.params(&question, &launch.values)?;
                workspace.mark_unwritten();
                // Kept before the launch: whatever fails later, `blocking_until` waits before the memory can go.
                batch.comparisons.push((question, workspace));
                for step in launch.values_steps(params, batch.ranges.addresses()) {
                    // SAFETY: the question is valid, and its tensors are borrowed for longer than `blocking_until` takes, which waits; workspace and
                    // ranges are large enough for this launch, no other uses the workspace, and those that use the ranges are on the same stream.
                    queues.enqueue(launch.queue(number), |queue| unsafe { step.launch(queue) })?;
                }
            }
            Ok(())
        };
        gpu.blocking_until(&mut batch, enqueue, |batch| batch.comparisons.iter().all(|(_, workspace)| workspace.has_values()))?;
        Ok(batch)
    }

    /// Explains the selected ones, regardless of what their questions say: enqueues the second passes, then waits once.
    pub(crate) fn explain(&mut self, wanted: &[bool]) -> Result<()> {
        if !wanted.contains(&true) {
            return Ok(());
        }
        let gpu = self.gpu;
        let enqueue = |batch: &mut Batch<'a>, queues: &mut Queues| {
            for (number, ((question, workspace), _)) in batch.comparisons.iter_mut().zip(wanted).filter(|(_, wanted)| **wanted).enumerate()
            {
                let launch = Launch::packing(gpu, question)?;
                let params = VerifyParams { explain: VerifyExplain::EXPLAIN_ALWAYS, ..workspace.params(question, &launch.explain)? };
                for step in launch.explain_steps(params, batch.ranges.addresses()) {
                    // SAFETY: `values` has found the question valid, whose tensors are borrowed for longer than `blocking_until` takes, which waits;
                    // workspace and ranges are large enough for both passes since then, no other launch uses the workspace, and those that use the
                    // ranges are on the same stream.
                    queues.enqueue(launch.queue(number), |queue| unsafe { step.launch(queue) })?;
                }
            }
            Ok(())
        };
        gpu.blocking_until(self, enqueue, |batch| {
            batch.comparisons.iter().zip(wanted).all(|((_, workspace), wanted)| !wanted || workspace.has_explanation())
        })
    }

    /// The outcomes, in the order of the questions. Only explanations that were [made](Self::explain) are included.
    pub(crate) fn results(&self) -> impl Iterator<Item = &VerifyResult> {
        // SAFETY: `values` and `explain` have waited for the passes that they launched, and need the batch exclusively for others.
        self.comparisons.iter().map(|(_, workspace)| unsafe { workspace.result() })
    }

    /// Leaves the workspaces for others. A batch that is dropped frees them instead: after a failure they may not be zeroed.
    pub(crate) fn recycle(self) {
        self.comparisons.into_iter().for_each(|(_, workspace)| self.gpu.workspaces().put(workspace));
        if !self.ranges.is_empty() {
            self.gpu.workspaces().put(self.ranges);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{rows_log, run_log};

    #[test]
    fn small_tensors_have_small_tiles() {
        // 132 multiprocessors have 1,056 subgroups.
        assert_eq!([1, 2112, 2113, 8448, 8449, 1 << 40].map(|rows| rows_log(rows, 132)), [1, 1, 2, 3, 4, 4]);
        assert_eq!([16, 17, 64, 65].map(|rows| rows_log(rows, 1)), [1, 2, 3, 4]);
    }

    #[test]
    fn runs_leave_few_subgroups_idle() {
        // As few tiles as subgroups: one each. Twice as many: two.
        assert_eq!([1, 2112, 2 * 2112].map(|tiles| run_log(tiles, 2112, 4)), [0, 0, 1]);
        assert_eq!([16 * 2112, 1000 * 2112].map(|tiles| run_log(tiles, 2112, 4)), [4, 4]);
        assert_eq!([1, 16 * 2112, 1000 * 2112].map(|tiles| run_log(tiles, 2112, 1)), [0, 1, 1]);
        for tiles in (1..100_000).step_by(37) {
            for subgroups in [1, 7, 640, 2112] {
                let log = run_log(tiles, subgroups, 4);
                let runs = tiles.div_ceil(1 << log);
                assert!(log == 0 || (runs.next_multiple_of(subgroups) - runs) * 10 <= runs, "{tiles} tiles, {subgroups} subgroups: {log}");
            }
        }
    }
}
