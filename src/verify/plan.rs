//! Comparisons that only enqueue: for streams that must not stop, and for graphs.
//!
//! [`gpu_verify`](super::gpu_verify) waits for its verdict. A [`VerifyPlan`] does in advance whatever allocates memory, loads kernels
//! or waits: [`reserve`](VerifyPlan::reserve) allocates a workspace for one comparison at a time. Then
//! [`enqueue`](VerifyPlan::enqueue) launches one kernel on a stream, ours or a framework's, and
//! [`record`](VerifyPlan::record) puts that launch into a graph. Reports are the same, bit for bit.
//!
//! Limits: a workspace is for one pair of formats; a derived tolerance needs a maximum that is known. Transposed tensors are read where they lie, element
//! after element: on a GPU `gpu_verify` is faster, which packs them first, in memory that a plan does not reserve.

use super::options::Request;
use super::values::Outcome;
use super::workspaces::{Held, Reserved};
use super::{Options, Report, Tolerance, cause, hip, host, request};
use crate::device::{Backend, Capture, Device, Graph, IntoTensor, RecordingId, Stream, TensorRef, captured};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernels::verify::Workspace;
use std::sync::Arc;

/// Memory and kernels for comparisons under way, made before the first of them: what is enqueued later only launches.
///
/// ```
/// use hipverify::verify::{Options, Pending, Tolerance, VerifyPlan};
/// use hipverify::{DType, Device, DeviceMem, Stream};
/// let device = Device::host();
/// let x = DeviceMem::from_slice(&device, &[1.0f32, 2.0])?;
/// let y = DeviceMem::from_slice(&device, &[1.0f32, 2.5])?;
/// let mut plan = VerifyPlan::new(&device, &Options::default())?;
/// plan.reserve(DType::F32, DType::F32, 2)?;
/// plan.reserve(DType::F32, DType::F32, 2)?;
/// let stream = Stream::new(&device)?;
/// let first = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
/// // ... kernels ...
/// let second = plan.enqueue(&stream, &y, &y, &Tolerance::exact())?;
/// let reports = Pending::wait_all(vec![first, second])?;
/// assert_eq!((reports[0].mismatches, reports[1].mismatches), (1, 0));
/// # Ok::<(), hipverify::Error>(())
/// ```
///
/// A tolerance that is derived from the reference's maximum needs a measurement first, which a plan does not make; say
/// [`t.at(max)`](Tolerance::at) with a maximum that is known.
#[derive(Debug)]
pub struct VerifyPlan {
    device: Device,
    options: Options,
    reservations: Vec<Reservation>,
}

/// The workspace of one comparison at a time.
#[derive(Debug)]
struct Reservation {
    dtypes: [DType; 2],
    elements: usize,
    workspace: Reserved<PlanWorkspace>,
}

/// Where an outcome will lie.
#[derive(Debug)]
enum PlanWorkspace {
    Host(Option<Box<Outcome>>),
    Hip(Workspace),
}

/// What is compared in a reserved workspace, and how.
#[derive(Debug)]
struct Comparison<'a> {
    reservation: &'a Reservation,
    result: TensorRef<'a>,
    reference: TensorRef<'a>,
    request: Request,
}

/// A comparison under way; see [`VerifyPlan::enqueue`]. Dropping it waits for it, leaking it leaks its workspace.
#[derive(Debug)]
#[must_use = "the report comes from `wait`"]
pub struct Pending<'a> {
    comparison: Comparison<'a>,
    stream: Stream,
    /// Whether `drop` has to wait.
    open: bool,
}

/// A comparison that is part of a graph; see [`VerifyPlan::record`].
#[derive(Debug)]
pub struct Recorded<'a> {
    comparison: Comparison<'a>,
    /// The graph that launches it; `None` when other code makes that.
    graph: Option<RecordingId>,
    /// The workspace, which the graph has as well; that of a graph that other code makes never comes back.
    _held: Option<Arc<Held>>,
}

impl VerifyPlan {
    /// A plan without workspaces yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when more mismatches are to be listed than [`Options::MAX_FIRST`]; [`Error::Unsupported`] for
    /// [`Options::cosine`] and [`Options::power`], which take passes of their own.
    pub fn new(device: &Device, options: &Options) -> Result<VerifyPlan> {
        options.check()?;
        for (asked, what) in [(options.cosine, "cosine similarity"), (options.power, "displaced references")] {
            if asked {
                return Err(Error::Unsupported { what: what.to_owned(), by: "a plan: it launches one comparison".to_owned() });
            }
        }
        Ok(VerifyPlan { device: device.clone(), options: options.clone(), reservations: Vec::new() })
    }

    /// Allocates the workspace of one more comparison at a time, of tensors of these formats with up to `elements` elements, in any layout and at any
    /// address, and loads its kernels. The only part of a plan that allocates.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Compile`], or a failed call.
    pub fn reserve(&mut self, result: DType, reference: DType, elements: usize) -> Result<()> {
        let dtypes = [result, reference];
        let workspace = match self.device.backend() {
            Backend::Host => PlanWorkspace::Host(None),
            Backend::Hip(gpu) => {
                let request = Request::new(&self.options, result, &Tolerance::exact(), 0.0);
                PlanWorkspace::Hip(Workspace::prepared(gpu, dtypes, elements.max(1), hip::first_pass(&request))?)
            }
        };
        self.reservations.push(Reservation { dtypes, elements, workspace: Reserved::new(workspace) });
        Ok(())
    }

    /// The device that the plan was made for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many comparisons there are workspaces for, under way or not.
    pub fn capacity(&self) -> usize {
        self.reservations.len()
    }

    /// Enqueues a comparison on `stream` and returns at once: no allocation on the device, no wait, no callback. The stream may be
    /// somebody else's, see [`Stream::from_raw`]. Both tensors stay borrowed until [`Pending::wait`] has the report. On the host device
    /// the comparison is made before this returns.
    ///
    /// # Errors
    /// As [`gpu_verify_with`](super::gpu_verify_with); also [`Error::InvalidArgument`] when the plan has no free workspace for such tensors, or
    /// the tolerance needs the reference's maximum; [`Error::Unsupported`] on a stream that is being captured.
    pub fn enqueue<'a>(
        &'a self,
        stream: &Stream,
        result: impl IntoTensor<'a>,
        reference: impl IntoTensor<'a>,
        tolerance: &Tolerance,
    ) -> Result<Pending<'a>> {
        // Before the stream is kept from being captured: these are calls of other people's code.
        let (result, reference) = (result.into_tensor(), reference.into_tensor());
        let operation = "a comparison that can be waited for";
        let _open = stream.not_recording(operation)?;
        if stream.hip().is_some_and(|s| s.is_captured_by_others()) {
            return Err(captured(operation));
        }
        let comparison = self.comparison(stream, result, reference, tolerance)?;
        // Open before the launch: should that fail half-way, the drop waits.
        let pending = Pending { comparison, stream: stream.clone(), open: true };
        // SAFETY: the tensors are borrowed for as long as `pending`, whose drop waits. A leaked one keeps its workspace for ever, and memory that is
        // freed or written later waits for the stream.
        unsafe { pending.comparison.launch(stream)? };
        Ok(pending)
    }

    /// Records a comparison into a graph; see the example of [`Stream::capture`]. Its workspace is taken as long as the graph or what this returns lives; when the recording
    /// fails, it is free again. It is not used again after an error of the graph's work.
    ///
    /// # Errors
    /// As [`enqueue`](VerifyPlan::enqueue).
    pub fn record<'env>(
        &'env self,
        capture: &Capture<'_, 'env>,
        result: impl IntoTensor<'env>,
        reference: impl IntoTensor<'env>,
        tolerance: &Tolerance,
    ) -> Result<Recorded<'env>> {
        let comparison = self.comparison(capture.stream(), result.into_tensor(), reference.into_tensor(), tolerance)?;
        let held = Arc::new(comparison.reservation.workspace.hold());
        // Before the launch: of one that fails half-way the graph may have a part.
        capture.keep(Arc::clone(&held));
        match self.device.backend() {
            Backend::Host => {
                let (reservation, result, reference, request) =
                    (comparison.reservation, comparison.result.clone(), comparison.reference.clone(), comparison.request);
                // An outcome that nobody asked for, of a graph that had the workspace before, is none of this one.
                *reservation.workspace.lock() = PlanWorkspace::Host(None);
                capture.step(move || reservation.compare_on_host(&result, &reference, &request));
            }
            // SAFETY: plan and tensors are borrowed for 'env, which the graph cannot outlive; the workspace is taken until the last launch of the graph is over, or until the
            // recording is where there will be none.
            Backend::Hip(_) => unsafe { comparison.launch(capture.stream())? },
        }
        Ok(Recorded { comparison, graph: Some(capture.id().clone()), _held: Some(held) })
    }

    /// As [`record`](VerifyPlan::record), for a stream that other code is capturing; the workspace is that graph's for good. There is no such stream on the host device, where this
    /// compares at once. The report comes from [`Recorded::report_raw`].
    ///
    /// # Errors
    /// As [`enqueue`](VerifyPlan::enqueue).
    ///
    /// # Safety
    /// * Other code has begun to capture `stream`, a GPU's;
    /// * this plan and both tensors outlive every launch of the graph, and nothing writes the tensors while it runs;
    /// * launches of the graph do not overlap each other.
    pub unsafe fn record_raw<'a>(
        &'a self,
        stream: &Stream,
        result: impl IntoTensor<'a>,
        reference: impl IntoTensor<'a>,
        tolerance: &Tolerance,
    ) -> Result<Recorded<'a>> {
        let comparison = self.comparison(stream, result.into_tensor(), reference.into_tensor(), tolerance)?;
        // SAFETY: the caller promises that tensors and plan outlive the graph; a workspace in a graph of other code is never given back.
        unsafe { comparison.launch(stream)? };
        Ok(Recorded { comparison, graph: None, _held: None })
    }

    /// Checks a comparison and takes a workspace for it.
    fn comparison<'a>(
        &'a self,
        stream: &Stream,
        result: TensorRef<'a>,
        reference: TensorRef<'a>,
        tolerance: &Tolerance,
    ) -> Result<Comparison<'a>> {
        self.device.expect_same(stream.device(), "the stream")?;
        self.device.expect_same(result.device(), "a result")?;
        let request = request(&result, &reference, tolerance, &self.options, |scale| {
            let limit = "a plan cannot measure the reference; give its magnitude: t.at(magnitude)".to_owned();
            Err(Error::InvalidArgument { what: "tolerance", value: format!("derived from the reference ({scale:?})"), limit })
        })?;
        let reservation = self.take(&result, &reference)?;
        Ok(Comparison { reservation, result, reference, request })
    }

    /// The smallest free workspace that is large enough.
    fn take(&self, result: &TensorRef<'_>, reference: &TensorRef<'_>) -> Result<&Reservation> {
        let dtypes = [result.dtype(), reference.dtype()];
        let fits = |r: &&Reservation| r.dtypes == dtypes && r.elements >= result.elements();
        let mut reservations: Vec<&Reservation> = self.reservations.iter().filter(fits).collect();
        reservations.sort_by_key(|r| r.elements);
        reservations.iter().find(|r| r.workspace.take()).copied().ok_or_else(|| Error::InvalidArgument {
            what: "comparison",
            value: format!("{} elements of {} against {}", result.elements(), dtypes[0], dtypes[1]),
            limit: match reservations.len() {
                0 => format!("the plan has reserved {}", self.reserved_for(dtypes)),
                1 => "the workspace for it is in use".to_owned(),
                n => format!("the workspaces for it are in use, all {n} of them"),
            },
        })
    }

    /// What is reserved for a pair of formats, or for which pairs there is something.
    fn reserved_for(&self, dtypes: [DType; 2]) -> String {
        let pair = |[result, reference]: [DType; 2]| format!("{result} against {reference}");
        let largest = self.reservations.iter().filter(|r| r.dtypes == dtypes).map(|r| r.elements).max();
        if let Some(elements) = largest {
            return format!("workspaces of at most {elements} elements for {}", pair(dtypes));
        }
        let mut pairs: Vec<String> = Vec::new();
        for reservation in &self.reservations {
            let name = pair(reservation.dtypes);
            if !pairs.contains(&name) {
                pairs.push(name);
            }
        }
        if pairs.is_empty() { "no workspace yet".to_owned() } else { format!("workspaces for {} only", pairs.join(", ")) }
    }
}

impl Reservation {
    fn compare_on_host(&self, result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) {
        let outcome = host::compare(result, reference, request);
        *self.workspace.lock() = PlanWorkspace::Host(Some(Box::new(outcome)));
    }
}

impl Comparison<'_> {
    /// Enqueues the comparison, or makes it on the host device.
    ///
    /// # Safety
    /// On a GPU: tensors and plan stay valid and unwritten until the stream has been waited for, or as long as the graph may run that is
    /// being captured; the workspace is taken for this comparison alone.
    unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        if let (PlanWorkspace::Hip(workspace), Some(stream)) = (&mut *self.reservation.workspace.lock(), stream.hip()) {
            // SAFETY: the caller's promise for the tensors and the plan, which owns the workspace.
            return unsafe { workspace.launch(stream, &hip::question(&self.result, &self.reference, &self.request)) };
        }
        self.reservation.compare_on_host(&self.result, &self.reference, &self.request);
        Ok(())
    }

    /// The report of work that is done.
    fn report(&self) -> Result<Report> {
        let outcome = match &mut *self.reservation.workspace.lock() {
            PlanWorkspace::Host(outcome) => outcome.take().map(|outcome| *outcome),
            PlanWorkspace::Hip(workspace) => hip::take_outcome(workspace, &self.request, &self.result),
        };
        let outcome = outcome.ok_or_else(|| Error::InvalidArgument {
            what: "report",
            value: "none".to_owned(),
            limit: "the comparison has not run since the last report".to_owned(),
        })?;
        Ok(Report::new(&self.result, &self.reference, &self.request, outcome, None))
    }
}

impl Pending<'_> {
    /// Waits for the stream and gives the report. Faults of the comparison, and of the work before it on the stream, show here.
    ///
    /// # Errors
    /// An error of that work; the workspace is not used again then.
    pub fn wait(mut self) -> Result<Report> {
        self.synchronize()?;
        self.take_report()
    }

    /// Waits for several comparisons, once for each stream. The reports come in their order.
    ///
    /// # Errors
    /// As [`wait`](Pending::wait), for the first that has one.
    pub fn wait_all(mut pending: Vec<Pending<'_>>) -> Result<Vec<Report>> {
        for i in 0..pending.len() {
            let (waited, rest) = pending.split_at_mut(i);
            // Of each stream the last wait counts for all: nothing was enqueued meanwhile.
            if waited.iter().any(|p| p.same_stream(&rest[0])) {
                rest[0].open = false;
            } else {
                rest[0].synchronize()?;
            }
        }
        pending.iter_mut().map(Pending::take_report).collect()
    }

    fn same_stream(&self, other: &Pending<'_>) -> bool {
        match (self.stream.hip(), other.stream.hip()) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    fn synchronize(&mut self) -> Result<()> {
        // Whatever comes of it, another wait would not help.
        self.open = false;
        // Not `synchronize`: an older error must not keep this from waiting.
        self.stream.hip().map_or(Ok(()), |stream| stream.fence())
    }

    /// The report after a wait that went well, and the workspace for others.
    fn take_report(&mut self) -> Result<Report> {
        let Comparison { result, reference, request, .. } = &self.comparison;
        let report = self.take_values()?;
        // The tensors are as they were: borrowed until now. Those of a graph may have been written since, so its reports have no cause.
        let cause = cause::diagnose([result, reference], None, request, &report)?;
        Ok(Report { cause, ..report })
    }

    /// The report without a cause, and the workspace for others.
    fn take_values(&self) -> Result<Report> {
        let report = self.comparison.report();
        self.comparison.reservation.workspace.give_back();
        report
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let waited = self.synchronize();
        match (&waited, self.stream.hip()) {
            (Err(_), Some(stream)) => stream.device().defer(|| waited),
            // The outcome is nobody's; taken, so that it cannot be mistaken for a later one.
            _ => drop(self.take_values()),
        }
    }
}

impl Recorded<'_> {
    /// The report of the last launch of `graph`, which is waited for. Each launch is told once at most. The graph is borrowed, so that nothing
    /// launches it meanwhile: a launch writes what is read here.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when this comparison is no part of `graph`, or the graph has not run since the last report; an error of
    /// the work on the stream of the last launch.
    pub fn report(&self, graph: &Graph<'_>) -> Result<Report> {
        if self.graph.as_ref() != Some(graph.id()) {
            let limit = "the graph that this comparison was recorded into".to_owned();
            return Err(Error::InvalidArgument { what: "graph", value: "another one".to_owned(), limit });
        }
        graph.wait()?;
        self.comparison.report()
    }

    /// The report of the last launch of a graph that other code made, see [`VerifyPlan::record_raw`]. Each launch is told once at most.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the graph has not run since the last report.
    ///
    /// # Safety
    /// No launch of the graph is under way, on any stream: it would write what is read here.
    pub unsafe fn report_raw(&self) -> Result<Report> {
        self.comparison.report()
    }
}
