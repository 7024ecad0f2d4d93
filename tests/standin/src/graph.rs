//! Graphs: operations that were recorded from a stream.

use crate::state::{CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, SUCCESS, push, state};
use crate::{current, export, fail, known_stream, note, put};
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
    fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) {
        put(status, c_int::from(state().captures.contains_key(&(stream as usize))))
    }
    fn hipGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) {
        let s = state();
        let Some(ops) = s.graphs.get(&graph) else { return INVALID_HANDLE };
        // Nodes have no handles here: they can be counted.
        if nodes.is_null() { put(count, ops.len()) } else { INVALID_VALUE }
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
        drop(s);
        ops.into_iter().for_each(|op| push(stream, op));
        SUCCESS
    }
    fn hipGraphDestroy(graph: usize) { if state().graphs.remove(&graph).is_some() { SUCCESS } else { INVALID_HANDLE } }
    fn hipGraphExecDestroy(exec: usize) { if state().execs.remove(&exec).is_some() { SUCCESS } else { INVALID_HANDLE } }
}

/// `hipStreamEndCapture`. The capture ends also when the call is told to fail; there is no graph then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamEndCapture(stream: *mut c_void, graph: *mut usize) -> c_int {
    let mut s = state();
    let recorded = s.captures.remove(&(stream as usize));
    let code = match (s.called("hipStreamEndCapture", current()), recorded) {
        (Some(code), _) => code,
        (None, None) => CAPTURE_UNSUPPORTED,
        (None, Some(ops)) => {
            let handle = s.handle();
            s.graphs.insert(handle, ops);
            put(graph, handle)
        }
    };
    drop(s);
    note("hipStreamEndCapture", fail(code))
}
