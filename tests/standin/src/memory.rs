//! Memory and copies.

use crate::memory_map::{self, Place};
use crate::state::{Block, INVALID_VALUE, OUT_OF_MEMORY, Op, SUCCESS, state};
use crate::version::version;
use crate::{current, enqueue, export, put};
use std::ffi::{c_int, c_uint, c_void};

/// `hipHostMallocCoherent`.
const COHERENT: c_uint = 0x4000_0000;

/// What all devices together have, in bytes.
const TOTAL: usize = 1 << 30;

fn allocate(size: usize, place: Place) -> Option<usize> {
    if size == 0 || size > TOTAL { None } else { memory_map::allocate(size, place) }
}

export! {
    fn hipMalloc(ptr: *mut usize, size: usize) {
        let Some(block) = allocate(size, Place::Device) else { return OUT_OF_MEMORY };
        state().device.insert(block, Block { size, device: current() });
        put(ptr, block)
    }
    fn hipFree(ptr: usize) {
        let mut s = state();
        let Some(block) = s.device.remove(&ptr) else {
            s.violation("hipFree of an unknown address");
            return INVALID_VALUE;
        };
        if s.in_use(ptr, block.size) {
            s.violation("hipFree with work pending on the block");
        } else {
            memory_map::free(ptr);
        }
        SUCCESS
    }
    fn hipMallocAsync(ptr: *mut usize, size: usize, stream: *mut c_void) {
        let Some(block) = allocate(size, Place::Device) else { return OUT_OF_MEMORY };
        let mut s = state();
        s.device.insert(block, Block { size, device: current() });
        if !version().has_memory_pools() {
            s.allocated_on.insert(stream as usize);
        }
        put(ptr, block)
    }
    fn hipFreeAsync(ptr: usize, stream: *mut c_void) {
        if !state().device.contains_key(&ptr) {
            state().violation("hipFreeAsync of an unknown address");
            return INVALID_VALUE;
        }
        enqueue(stream, Op::Free { ptr })
    }
    fn hipHostMalloc(ptr: *mut usize, size: usize, flags: c_uint) {
        let Some(block) = allocate(size, Place::Pinned) else { return OUT_OF_MEMORY };
        let mut s = state();
        s.pinned.insert(block, size);
        if flags & COHERENT != 0 {
            s.coherent.insert(block);
        }
        put(ptr, block)
    }
    fn hipHostFree(ptr: usize) {
        let mut s = state();
        let Some(size) = s.pinned.remove(&ptr) else {
            s.violation("hipHostFree of an unknown address");
            return INVALID_VALUE;
        };
        s.coherent.remove(&ptr);
        if s.in_use(ptr, size) {
            s.violation("hipHostFree with work pending on the block");
        } else {
            memory_map::free(ptr);
        }
        SUCCESS
    }
    fn hipHostGetDevicePointer(device: *mut usize, host: usize, _flags: c_uint) { put(device, host) }
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) {
        let used: usize = state().device.values().map(|b| b.size).sum();
        put(free, TOTAL - used.min(TOTAL));
        put(total, TOTAL)
    }
    fn hipMemcpyAsync(to: usize, from: usize, size: usize, kind: c_int, stream: *mut c_void) {
        // 1: host to device, 2: device to host, 3: device to device.
        let inside = |at: usize| state().device.iter().any(|(p, b)| *p <= at && at + size <= p + b.size);
        if (kind != 2 && !inside(to)) || (kind != 1 && !inside(from)) || size == 0 {
            state().violation("a copy outside of device memory");
            return INVALID_VALUE;
        }
        enqueue(stream, Op::Copy { to, from, size })
    }
    fn hipMemcpyPeerAsync(to: usize, to_device: c_int, from: usize, from_device: c_int, size: usize, stream: *mut c_void) {
        let lives_on = |ptr: usize, device: c_int| state().device.get(&ptr).is_some_and(|b| b.device == device && b.size >= size);
        if !lives_on(to, to_device) || !lives_on(from, from_device) {
            state().violation("a peer copy between the wrong devices");
            return INVALID_VALUE;
        }
        enqueue(stream, Op::Copy { to, from, size })
    }
    fn hipMemsetAsync(to: usize, value: c_int, size: usize, stream: *mut c_void) {
        enqueue(stream, Op::Set { to, value: value as u8, size })
    }
}
