//! Graphs: operations that were recorded from a stream.

use crate::state::{CAPTURE_UNSUPPORTED, INVALID_HANDLE, SUCCESS, state};
use crate::{export, known_stream, put};
use std::ffi::{c_char, c_int, c_uint, c_void};

export! {
    fn hipStreamBeginCapture(stream: *mut c_void, _mode: c_uint) {
        let mut s = state();
        let Ok(stream) = known_stream(&mut s, stream) else { return INVALID_HANDLE };
        if s.captures.insert(stream, Vec::new()).is_some() {
            s.violation("a stream is captured twice");
            return CAPTURE_UNSUPPORTED;
        }
        SUCCESS
    }
    fn hipStreamEndCapture(stream: *mut c_void, graph: *mut usize) {
        let mut s = state();
        let Some(ops) = s.captures.remove(&(stream as usize)) else { return CAPTURE_UNSUPPORTED };
        let handle = s.handle();
        s.graphs.insert(handle, ops);
        put(graph, handle)
    }
    fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) {
        put(status, c_int::from(state().captures.contains_key(&(stream as usize))))
    }
    fn hipGraphInstantiate(exec: *mut usize, graph: usize, _node: *mut usize, _log: *mut c_char, _size: usize) {
        let mut s = state();
        let Some(ops) = s.graphs.get(&graph).cloned() else { return INVALID_HANDLE };
        let handle = s.handle();
        s.execs.insert(handle, ops);
        put(exec, handle)
    }
    fn hipGraphLaunch(exec: usize, stream: *mut c_void) {
        let mut s = state();
        let Ok(stream) = known_stream(&mut s, stream) else { return INVALID_HANDLE };
        let Some(ops) = s.execs.get(&exec).cloned() else {
            s.violation("a launch of a graph that is gone");
            return INVALID_HANDLE;
        };
        ops.into_iter().for_each(|op| s.push(stream, op));
        SUCCESS
    }
    fn hipGraphDestroy(graph: usize) { if state().graphs.remove(&graph).is_some() { SUCCESS } else { INVALID_HANDLE } }
    fn hipGraphExecDestroy(exec: usize) { if state().execs.remove(&exec).is_some() { SUCCESS } else { INVALID_HANDLE } }
}
