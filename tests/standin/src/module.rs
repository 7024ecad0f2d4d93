//! Modules, launches and hipRTC, whose code objects hold the source text.

use crate::state::{INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, Op, SUCCESS, state};
use crate::{enqueue, export, put, text};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The first bytes of a code object of this runtime.
const MAGIC: &[u8; 8] = b"STANDIN1";

export! {
    fn hipModuleLoadData(module: *mut usize, image: *const u8) {
        // SAFETY: every image has at least 16 bytes: ours, and those of hipcc.
        let head = unsafe { std::slice::from_raw_parts(image, 16) };
        let names = if head.starts_with(MAGIC) {
            let size = u64::from_le_bytes(head[8..16].try_into().unwrap_or_default()) as usize;
            // SAFETY: `hiprtcGetCode` wrote as many bytes after the head.
            let source = unsafe { std::slice::from_raw_parts(image.add(16), size) };
            Some(String::from_utf8_lossy(source).into_owned())
        } else if head.starts_with(b"\x7fELF") || head.starts_with(b"__CLANG_OFFLOAD_") {
            None
        } else {
            return 200; // hipErrorInvalidImage
        };
        let mut s = state();
        let handle = s.handle();
        s.modules.insert(handle, names);
        put(module, handle)
    }
    fn hipModuleUnload(module: usize) {
        let mut s = state();
        if s.modules.remove(&module).is_none() {
            s.violation("a module was unloaded twice");
            return INVALID_HANDLE;
        }
        SUCCESS
    }
    fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        let (mut s, name) = (state(), text(name));
        match s.modules.get(&module) {
            None => return INVALID_HANDLE,
            // Kernels for pairs of formats are made by a macro.
            Some(Some(source)) if !source.contains(&format!(" {name}(")) && !name.starts_with("verify_") => return NOT_FOUND,
            Some(_) => {}
        }
        let handle = s.handle();
        s.functions.insert(handle, name);
        put(function, handle)
    }
    fn hipModuleLaunchKernel(
        f: usize, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, _shared: c_uint, stream: *mut c_void,
        params: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        let name = {
            let mut s = state();
            s.launches += 1;
            let Some(name) = s.functions.get(&f).cloned() else { return INVALID_HANDLE };
            name
        };
        if gx * gy * gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024 {
            return INVALID_VALUE;
        }
        if name.starts_with("verify_") {
            // SAFETY: VerifyParams begins with the addresses of both tensors and has at least this size; the answer's address is the only
            // one in pinned memory.
            let words = unsafe { (*params).cast::<[u64; 50]>().read_unaligned() };
            let mut s = state();
            let Some(answer) = words.iter().map(|w| *w as usize).find(|w| s.pinned.contains_key(w)) else {
                s.violation("a comparison without an answer");
                return INVALID_VALUE;
            };
            drop(s);
            return enqueue(stream, Op::Compare { reads: [words[0] as usize, words[1] as usize], answer });
        }
        if name != "set_value" {
            return SUCCESS;
        }
        // SAFETY: set_value takes one struct of 32 bytes: address, size, pattern.
        let words = unsafe { (*params).cast::<[u64; 4]>().read_unaligned() };
        let mut pattern = [0; 16];
        pattern[..8].copy_from_slice(&words[2].to_le_bytes());
        pattern[8..].copy_from_slice(&words[3].to_le_bytes());
        enqueue(stream, Op::SetValue { to: words[0] as usize, size: words[1] as usize, pattern })
    }
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, _f: usize, _block: c_int, _shared: usize) { put(blocks, 8) }

    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) { put(major, 6); put(minor, 2) }
    fn hiprtcCreateProgram(
        program: *mut usize, source: *const c_char, _name: *const c_char, _count: c_int, _headers: *mut *const c_char,
        _names: *mut *const c_char
    ) {
        let mut s = state();
        let handle = s.handle();
        s.programs.insert(handle, (text(source), String::new()));
        put(program, handle)
    }
    fn hiprtcDestroyProgram(program: *mut usize) {
        // SAFETY: the caller passes the address of a handle.
        let handle = unsafe { *program };
        if state().programs.remove(&handle).is_none() {
            state().violation("a program was destroyed twice");
        }
        put(program, 0)
    }
    fn hiprtcCompileProgram(program: usize, _count: c_int, _options: *mut *const c_char) {
        let mut s = state();
        let Some((source, log)) = s.programs.get_mut(&program) else { return 4 };
        if source.contains("#error") {
            "standin.hip:1: error: as asked\n".clone_into(log);
            return 6;
        }
        SUCCESS
    }
    fn hiprtcGetProgramLogSize(program: usize, size: *mut usize) {
        let length = state().programs.get(&program).map_or(0, |p| p.1.len() + 1);
        put(size, length)
    }
    fn hiprtcGetProgramLog(program: usize, log: *mut u8) {
        let words = state().programs.get(&program).map(|p| p.1.clone()).unwrap_or_default();
        // SAFETY: the caller has asked for the size, which counts the final zero.
        unsafe {
            log.copy_from(words.as_ptr(), words.len());
            log.add(words.len()).write(0);
        }
        SUCCESS
    }
    fn hiprtcGetCodeSize(program: usize, size: *mut usize) {
        let length = state().programs.get(&program).map_or(0, |p| p.0.len());
        put(size, 16 + length)
    }
    fn hiprtcGetCode(program: usize, code: *mut u8) {
        let source = state().programs.get(&program).map(|p| p.0.clone()).unwrap_or_default();
        // SAFETY: the caller has asked for the size: a head of 16 bytes and the source.
        unsafe {
            code.copy_from(MAGIC.as_ptr(), 8);
            code.add(8).copy_from((source.len() as u64).to_le_bytes().as_ptr(), 8);
            code.add(16).copy_from(source.as_ptr(), source.len());
        }
        SUCCESS
    }
}

/// `hiprtcGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetErrorString(code: c_int) -> *const c_char {
    let name = if code == 6 { c"HIPRTC_ERROR_COMPILATION" } else { c"HIPRTC_ERROR" };
    name.as_ptr()
}
