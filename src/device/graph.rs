//! Graphs: work that is recorded once from a stream and launched again and again.
//!
//! Everything that a graph uses is borrowed for as long as the graph lives: a recording takes references that outlive the closure in which it is
//! made. The caller's kernels ([`Module::launch_raw`](super::Module::launch_raw)) and comparisons
//! ([`VerifyPlan::record`](crate::verify::VerifyPlan::record)) can be recorded. Copies, events and waits cannot: they
//! return an error on a stream that is being captured, on every device. On the host device the recorded comparisons run when the graph is launched.

use super::hip::HipGraph;
use super::{Device, Stream};
use crate::error::Result;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Something that a graph does on the host device.
type Step<'env> = Box<dyn Fn() + Send + Sync + 'env>;

/// Something that a graph keeps until it is gone and its last launch is over.
pub(super) type Kept = Box<dyn fmt::Debug + Send + Sync>;

/// Distinguishes the recording of one graph from the recordings of others.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordingId(Arc<()>);

impl PartialEq for RecordingId {
    fn eq(&self, other: &RecordingId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A recording under way; see [`Stream::capture`].
pub struct Capture<'c, 'env> {
    stream: &'c Stream,
    id: RecordingId,
    steps: RefCell<Vec<Step<'env>>>,
    kept: RefCell<Vec<Kept>>,
    // Invariant: a recording that takes shorter borrows would outlive them.
    env: PhantomData<&'env mut &'env ()>,
}

/// Recorded work; see [`Stream::capture`].
pub struct Graph<'env> {
    device: Device,
    id: RecordingId,
    hip: Option<HipGraph>,
    steps: Vec<Step<'env>>,
    /// On the host, where no launch outlives its call; on a GPU the runtime's graph keeps these.
    _kept: Vec<Kept>,
}

impl fmt::Debug for Capture<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("stream", self.stream).finish_non_exhaustive()
    }
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("device", &self.device).field("hip", &self.hip).finish_non_exhaustive()
    }
}

impl Stream {
    /// Records what `f` enqueues on this stream, without running it, as a graph. Also returns what `f` returns.
    ///
    /// Waits for earlier work of the stream first. Other streams are not part of the recording and work as usual. Allocate the memory and load the
    /// kernels that the recorded work needs before the recording.
    ///
    /// ```
    /// use hipverify::verify::{Options, Tolerance, VerifyPlan};
    /// use hipverify::{DType, Device, DeviceMem, Stream};
    /// let device = Device::host();
    /// let x = DeviceMem::from_slice(&device, &[1.0f32, 2.0])?;
    /// let y = DeviceMem::from_slice(&device, &[1.0f32, 2.5])?;
    /// let mut plan = VerifyPlan::new(&device, &Options::default())?;
    /// plan.reserve(DType::F32, DType::F32, 2)?;
    /// let stream = Stream::new(&device)?;
    /// let (mut graph, verdict) = stream.capture(|capture| plan.record(capture, &x, &y, &Tolerance::exact()))?;
    /// for _ in 0..3 {
    ///     graph.launch(&stream)?;
    ///     assert_eq!(verdict.report(&graph)?.mismatches, 1);
    /// }
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `f` returns; [`Error::Unsupported`](crate::Error::Unsupported) when the runtime has no graphs, when it ran kernels instead of
    /// recording them (HIP 5.2 does), or when the stream is being captured already; a failed call.
    pub fn capture<'env, R>(&self, f: impl FnOnce(&Capture<'_, 'env>) -> Result<R>) -> Result<(Graph<'env>, R)> {
        let id = RecordingId::default();
        // Before the recording, and so dropped after it: what was to be kept is in use until then.
        let capture = Capture { stream: self, id: id.clone(), steps: RefCell::default(), kept: RefCell::default(), env: PhantomData };
        let recording = self.hip().map(|stream| stream.begin_capture()).transpose()?;
        // Ends on return, also when `f` fails or panics.
        let _recording_on_host = self.record_on_host()?;
        let result = f(&capture)?;
        let Capture { steps, kept, .. } = capture;
        let (steps, kept) = (steps.into_inner(), kept.into_inner());
        let (hip, kept) = match recording {
            Some(recording) => (Some(recording.finish(kept)?), Vec::new()),
            None => (None, kept),
        };
        Ok((Graph { device: self.device().clone(), id, hip, steps, _kept: kept }, result))
    }
}

impl<'env> Capture<'_, 'env> {
    /// The stream that is being captured.
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// Which graph this will be.
    pub(crate) fn id(&self) -> &RecordingId {
        &self.id
    }

    /// Keeps something until the graph is gone and its last launch is over or, if the recording gives no graph, until the recording is gone.
    pub(crate) fn keep(&self, kept: impl fmt::Debug + Send + Sync + 'static) {
        self.kept.borrow_mut().push(Box::new(kept));
    }

    /// Records something to be done on the host device.
    pub(crate) fn step(&self, step: impl Fn() + Send + Sync + 'env) {
        self.steps.borrow_mut().push(Box::new(step));
    }
}

impl Graph<'_> {
    /// The device that the graph was recorded for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Which recording this was.
    pub(crate) fn id(&self) -> &RecordingId {
        &self.id
    }

    /// Waits for the last launch.
    pub(crate) fn wait(&self) -> Result<()> {
        self.hip.as_ref().map_or(Ok(()), HipGraph::wait)
    }

    /// Enqueues everything that was recorded on `stream`, which need not be the stream that it was recorded from. Launches of one graph
    /// never overlap: if the last one was on another stream, this call waits for it. The graph is borrowed exclusively, since a launch
    /// writes what [`Recorded::report`](crate::verify::Recorded::report) reads.
    ///
    /// # Errors
    /// [`Error::WrongDevice`](crate::Error::WrongDevice); [`Error::Unsupported`](crate::Error::Unsupported) on a stream that is being captured; a failed launch. Errors of the work itself come from the next wait.
    pub fn launch(&mut self, stream: &Stream) -> Result<()> {
        self.device.expect_same(stream.device(), "the stream")?;
        match (&mut self.hip, stream.hip()) {
            (Some(graph), Some(stream)) => graph.launch(stream),
            _ => {
                let _open = stream.not_recording("a launch of a graph")?;
                self.steps.iter().for_each(|step| step());
                Ok(())
            }
        }
    }
}
