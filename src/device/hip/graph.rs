//! Graphs of the runtime: recorded from a stream, launched again and again.

use super::{HipDevice, HipStream};
use crate::device::Address;
use crate::device::graph::Kept;
use crate::device::stream::captured;
use crate::error::{Error, Result};
use hipverify_sys::bindings::{hipGraphExec, hipStreamCaptureMode, ihipGraph};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A graph, ready to be launched.
///
/// The runtime's functions on a graph may be called from any thread, but one at a time: they are called where the graph is borrowed exclusively.
#[derive(Debug)]
pub(crate) struct HipGraph {
    device: &'static HipDevice,
    graph: Address<ihipGraph>,
    /// Null until it can be launched.
    exec: Address<hipGraphExec>,
    /// The stream of the last launch.
    last: Option<Arc<HipStream>>,
    /// What its launches use.
    kept: Vec<Kept>,
    /// Whether a wait for a launch has failed: what launches use may then not be in the state in which they leave it.
    failed: AtomicBool,
}

/// A recording in progress. If it is dropped before its end, it is discarded.
pub(crate) struct Recording<'a> {
    stream: &'a Arc<HipStream>,
    /// What the stream had [accepted](HipStream::accepted) before.
    before: u64,
}

/// The functions that graphs need, of which old runtimes may lack some.
macro_rules! function {
    ($device:expr, $name:ident) => {
        $device.api().$name.ok_or_else(|| Error::Unsupported {
            what: concat!("graph capture (", stringify!($name), ")").to_owned(),
            by: $device.runtime().describe(),
        })
    };
}

impl HipStream {
    /// Begins to record. What was enqueued before is waited for first, because nothing can wait for it during the recording.
    pub(crate) fn begin_capture(self: &Arc<Self>) -> Result<Recording<'_>> {
        let device = self.device();
        let begin = function!(device, hipStreamBeginCapture)?;
        function!(device, hipGraphInstantiate)?;
        function!(device, hipGraphLaunch)?;
        function!(device, hipStreamEndCapture)?;
        function!(device, hipGraphGetNodes)?;
        let begun = self.recording.begin(|| {
            if self.is_captured_by_others() {
                return Err(captured("capture"));
            }
            device.enter()?;
            self.synchronize_entered()?;
            // Relaxed: allocations and waits of this crate never touch the stream, so that they need not be forbidden meanwhile.
            let mode = hipStreamCaptureMode::hipStreamCaptureModeRelaxed;
            // SAFETY: the stream is alive.
            device.check("hipStreamBeginCapture", unsafe { begin(self.handle(), mode) })
        });
        begun.unwrap_or_else(|| Err(captured("capture")))?;
        Ok(Recording { stream: self, before: self.accepted() })
    }
}

impl Recording<'_> {
    /// Ends the recording and makes the graph, which keeps what its launches use.
    pub(crate) fn finish(self, kept: Vec<Kept>) -> Result<HipGraph> {
        let device = self.stream.device();
        let instantiate = function!(device, hipGraphInstantiate)?;
        let enqueued = self.stream.accepted() - self.before;
        let graph = self.end();
        std::mem::forget(self);
        let mut graph = graph?;
        graph.kept = kept;
        graph.expect_nodes(enqueued)?;
        let mut exec = ptr::null_mut();
        // SAFETY: the graph was just recorded and is ours alone; the first pointer is valid for a write, no log is asked for.
        let error = unsafe { instantiate(&mut exec, graph.graph.get(), ptr::null_mut(), ptr::null_mut(), 0) };
        graph.exec = Address::new(exec);
        device.check("hipGraphInstantiate", error)?;
        Ok(graph)
    }

    fn end(&self) -> Result<HipGraph> {
        self.stream.recording.end(|| {
            let device = self.stream.device();
            let current = device.make_current();
            let mut graph = ptr::null_mut();
            // SAFETY: the stream is alive and the pointer valid for a write.
            let error = unsafe { function!(device, hipStreamEndCapture)?(self.stream.handle(), &mut graph) };
            // From here on dropping it destroys the graph.
            let (graph, exec) = (Address::new(graph), Address::new(ptr::null_mut()));
            let graph = HipGraph { device, graph, exec, last: None, kept: Vec::new(), failed: AtomicBool::new(false) };
            let ended = device.check("hipStreamEndCapture", error);
            // What was recorded has not run, and there is nothing to wait for; what the runtime did not record runs already.
            let waited = self.stream.synchronize_entered();
            current.and(ended).and(waited).map(|()| graph)
        })
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.stream.device().defer(|| self.end().map(drop));
    }
}

impl HipGraph {
    /// Refuses a graph that holds less than was enqueued. HIP 5.2 records no launch by hipModuleLaunchKernel: the kernel runs at once, every
    /// call succeeds, and the graph would do nothing.
    fn expect_nodes(&mut self, enqueued: u64) -> Result<()> {
        let count = function!(self.device, hipGraphGetNodes)?;
        let mut nodes = 0;
        // SAFETY: the graph is alive and borrowed exclusively; without a list of nodes the function writes their number, for which the pointer is valid.
        self.device.check("hipGraphGetNodes", unsafe { count(self.graph.get(), ptr::null_mut(), &mut nodes) })?;
        if nodes as u64 >= enqueued {
            return Ok(());
        }
        let what = format!("graph capture (of {enqueued} kernels that were launched, {nodes} were recorded; the others ran at once)");
        Err(Error::Unsupported { what, by: self.device.runtime().describe() })
    }

    /// Enqueues everything that was recorded.
    pub(crate) fn launch(&mut self, stream: &Arc<HipStream>) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| !Arc::ptr_eq(last, stream)) {
            // Its nodes write the same memory in each launch.
            self.wait()?;
        }
        let _open = stream.not_recording("a launch of a graph")?;
        let launch = function!(self.device, hipGraphLaunch)?;
        self.device.enter()?;
        self.last = Some(Arc::clone(stream));
        // SAFETY: the graph is whole and borrowed exclusively, and the stream alive and of the same device; what the nodes touch is alive as long as
        // the graph.
        self.device.check("hipGraphLaunch", stream.enqueue(|stream| unsafe { launch(self.exec.get(), stream) }))
    }

    /// Waits for the last launch.
    pub(crate) fn wait(&self) -> Result<()> {
        self.device.enter()?;
        let waited = self.last.as_ref().filter(|stream| stream.is_busy()).map_or(Ok(()), |stream| stream.fence());
        self.failed.fetch_or(waited.is_err(), Ordering::Relaxed);
        waited
    }
}

impl Drop for HipGraph {
    fn drop(&mut self) {
        self.device.defer(|| {
            let waited = self.last.take().filter(|stream| stream.is_busy()).map_or(Ok(()), |stream| stream.fence());
            if waited.is_err() || *self.failed.get_mut() {
                // Nobody knows whether the last launch is over, nor what it has left.
                std::mem::forget(std::mem::take(&mut self.kept));
            }
            let mut destroyed = Ok(());
            // SAFETY: both are ours and destroyed only here, first what was instantiated from the other, with no launch left.
            unsafe {
                if !self.exec.get().is_null() {
                    let error = function!(self.device, hipGraphExecDestroy)?(self.exec.get());
                    destroyed = self.device.check("hipGraphExecDestroy", error);
                }
                if !self.graph.get().is_null() {
                    let error = function!(self.device, hipGraphDestroy)?(self.graph.get());
                    destroyed = destroyed.and(self.device.check("hipGraphDestroy", error));
                }
            }
            waited.and(destroyed)
        });
    }
}
