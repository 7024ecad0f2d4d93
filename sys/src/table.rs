//! The table of functions: what must be there, what may be absent, all of it checked against the bindings.
//!
//! A row that disagrees with HIP's declaration is a type error of this file. The declarations themselves are never linked.
//!
//! A row is `required`, `optional` or `safe`: a required function that any arguments suit, because they are numbers and addresses that it writes
//! one value to. Such a row has `&mut` where C has a pointer, and its function is called without `unsafe`.

use crate::bindings::*;
use crate::library::Library;
use core::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ushort, c_void};

/// An argument of a safe row, and what it is in C.
pub(crate) trait Argument {
    type C;
}

impl<T> Argument for &mut T {
    type C = *mut T;
}

macro_rules! the_same_in_c {
    ($($ty:ty),*) => { $(impl Argument for $ty { type C = $ty; })* };
}
the_same_in_c!(c_int, c_uint, usize, hipDeviceAttribute_t, hipError_t, hiprtcResult);

macro_rules! pointer {
    (safe ($($ty:ty),*) -> $ret:ty) => { extern "C" fn($($ty),*) -> $ret };
    ($kind:ident ($($ty:ty),*) -> $ret:ty) => { unsafe extern "C" fn($($ty),*) -> $ret };
}

macro_rules! field {
    (optional $f:ty) => { Option<$f> };
    ($kind:ident $f:ty) => { $f };
}

/// HIP's declaration of a function, as a row says it is.
macro_rules! declared {
    (safe ($($ty:ty),*) -> $ret:ty) => { unsafe extern "C" fn($(<$ty as $crate::table::Argument>::C),*) -> $ret };
    ($kind:ident ($($ty:ty),*) -> $ret:ty) => { unsafe extern "C" fn($($ty),*) -> $ret };
}

macro_rules! value {
    (optional $f:expr, $missing:ident) => {
        $f
    };
    ($kind:ident $f:expr, $missing:ident) => {
        match $f {
            Some(f) => f,
            None => return Err($missing),
        }
    };
}

macro_rules! note {
    (optional $name:ident, $missing:ident, $absent:ident) => {
        $absent.push(stringify!($name))
    };
    ($kind:ident $name:ident, $missing:ident, $absent:ident) => {
        $missing.push(stringify!($name))
    };
}

/// Declares a struct of function pointers and how it is filled.
macro_rules! table {
    ($(#[$doc:meta])* pub struct $Api:ident { $($kind:ident fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case)]
        pub struct $Api {
            $(
                #[doc = concat!("`", stringify!($name), "(", $(stringify!($arg), ", ",)* ")`")]
                pub $name: field!($kind pointer!($kind ($($ty),*) -> $ret)),
            )*
        }

        $(const _: () = { let _: declared!($kind ($($ty),*) -> $ret) = $name; };)*

        impl $Api {
            /// Fills the table; also gives the names of the optional functions that are absent.
            ///
            /// # Errors
            /// The names of all required functions that are missing.
            #[allow(non_snake_case)]
            pub(crate) fn fill(library: $crate::library::Library) -> Result<($Api, Vec<&'static str>), Vec<&'static str>> {
                let (mut missing, mut absent) = (Vec::<&'static str>::new(), Vec::<&'static str>::new());
                $(
                    let address = $crate::table::look_up(library, concat!(stringify!($name), "\0"));
                    // SAFETY: null becomes None; anything else is HIP's function of this name, as a `Library` promises, and stays loaded. The
                    // compiler has compared the row's type with HIP's declaration, of which a safe row has references for pointers.
                    let $name = unsafe {
                        core::mem::transmute::<*const c_void, Option<pointer!($kind ($($ty),*) -> $ret)>>(address)
                    };
                    if $name.is_none() {
                        note!($kind $name, missing, absent);
                    }
                )*
                if !missing.is_empty() {
                    return Err(missing);
                }
                Ok(($Api { $($name: value!($kind $name, missing),)* }, absent))
            }
        }
    };
}
pub(crate) use {declared, field, note, pointer, table, value};

/// Looks up a name that ends in a zero byte.
pub(crate) fn look_up(library: Library, name: &str) -> *const c_void {
    CStr::from_bytes_with_nul(name.as_bytes()).map_or(core::ptr::null(), |name| library.symbol(name))
}

// The property function of ROCm 6 and later, which HIP 5's headers do not declare: it fills the 1472-byte layout.
// The unversioned symbol still fills the 792-byte one there.
#[allow(non_snake_case)]
unsafe extern "C" {
    fn hipGetDevicePropertiesR0600(props: *mut c_void, device: c_int) -> hipError_t;
}

table! {
    /// The functions of the HIP runtime, 5.x to 7.x.
    ///
    /// ```
    /// # fn show(api: &hipverify_sys::Api) {
    /// let mut count = 0;
    /// let error = (api.hipGetDeviceCount)(&mut count);
    /// # let _ = error;
    /// # }
    /// ```
    pub struct Api {
        safe fn hipInit(flags: c_uint) -> hipError_t;
        safe fn hipDriverGetVersion(version: &mut c_int) -> hipError_t;
        safe fn hipRuntimeGetVersion(version: &mut c_int) -> hipError_t;
        safe fn hipGetDeviceCount(count: &mut c_int) -> hipError_t;
        safe fn hipGetDevice(device: &mut c_int) -> hipError_t;
        safe fn hipSetDevice(device: c_int) -> hipError_t;
        safe fn hipDeviceGetAttribute(value: &mut c_int, attribute: hipDeviceAttribute_t, device: c_int) -> hipError_t;
        optional fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> hipError_t;
        optional fn hipGetDeviceProperties(props: *mut hipDeviceProp_t, device: c_int) -> hipError_t;
        optional fn hipGetDevicePropertiesR0600(props: *mut c_void, device: c_int) -> hipError_t;
        optional fn hipDeviceSynchronize() -> hipError_t;
        optional fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> hipError_t;
        optional fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> hipError_t;
        optional fn hipDeviceDisablePeerAccess(peer: c_int) -> hipError_t;
        safe fn hipGetErrorName(error: hipError_t) -> *const c_char;
        optional fn hipGetErrorString(error: hipError_t) -> *const c_char;
        safe fn hipGetLastError() -> hipError_t;
        optional fn hipPeekAtLastError() -> hipError_t;

        safe fn hipMalloc(ptr: &mut *mut c_void, size: usize) -> hipError_t;
        required fn hipFree(ptr: *mut c_void) -> hipError_t;
        optional fn hipMallocAsync(ptr: *mut *mut c_void, size: usize, stream: hipStream_t) -> hipError_t;
        optional fn hipFreeAsync(ptr: *mut c_void, stream: hipStream_t) -> hipError_t;
        safe fn hipHostMalloc(ptr: &mut *mut c_void, size: usize, flags: c_uint) -> hipError_t;
        required fn hipHostFree(ptr: *mut c_void) -> hipError_t;
        optional fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) -> hipError_t;
        optional fn hipHostRegister(ptr: *mut c_void, size: usize, flags: c_uint) -> hipError_t;
        optional fn hipHostUnregister(ptr: *mut c_void) -> hipError_t;
        safe fn hipMemGetInfo(free: &mut usize, total: &mut usize) -> hipError_t;
        optional fn hipMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind) -> hipError_t;
        required fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, size: usize, kind: hipMemcpyKind, stream: hipStream_t) -> hipError_t;
        optional fn hipMemcpyPeer(to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, size: usize) -> hipError_t;
        required fn hipMemcpyPeerAsync(to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, size: usize, stream: hipStream_t) -> hipError_t;
        optional fn hipMemset(to: *mut c_void, value: c_int, size: usize) -> hipError_t;
        required fn hipMemsetAsync(to: *mut c_void, value: c_int, size: usize, stream: hipStream_t) -> hipError_t;
        optional fn hipMemsetD8Async(to: hipDeviceptr_t, value: c_uchar, count: usize, stream: hipStream_t) -> hipError_t;
        optional fn hipMemsetD16Async(to: hipDeviceptr_t, value: c_ushort, count: usize, stream: hipStream_t) -> hipError_t;
        optional fn hipMemsetD32Async(to: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) -> hipError_t;
        optional fn hipPointerGetAttributes(attributes: *mut hipPointerAttribute_t, ptr: *const c_void) -> hipError_t;

        safe fn hipStreamCreateWithFlags(stream: &mut hipStream_t, flags: c_uint) -> hipError_t;
        optional fn hipStreamCreateWithPriority(stream: *mut hipStream_t, flags: c_uint, priority: c_int) -> hipError_t;
        required fn hipStreamDestroy(stream: hipStream_t) -> hipError_t;
        required fn hipStreamQuery(stream: hipStream_t) -> hipError_t;
        required fn hipStreamSynchronize(stream: hipStream_t) -> hipError_t;
        required fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t;
        optional fn hipStreamGetFlags(stream: hipStream_t, flags: *mut c_uint) -> hipError_t;
        optional fn hipLaunchHostFunc(stream: hipStream_t, f: hipHostFn_t, data: *mut c_void) -> hipError_t;

        optional fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t;
        optional fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) -> hipError_t;
        optional fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) -> hipError_t;
        optional fn hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) -> hipError_t;
        optional fn hipGraphDestroy(graph: hipGraph_t) -> hipError_t;
        optional fn hipGraphInstantiate(exec: *mut hipGraphExec_t, graph: hipGraph_t, node: *mut hipGraphNode_t, log: *mut c_char, log_size: usize) -> hipError_t;
        optional fn hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t;
        optional fn hipGraphExecDestroy(exec: hipGraphExec_t) -> hipError_t;

        safe fn hipEventCreateWithFlags(event: &mut hipEvent_t, flags: c_uint) -> hipError_t;
        required fn hipEventDestroy(event: hipEvent_t) -> hipError_t;
        required fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> hipError_t;
        required fn hipEventSynchronize(event: hipEvent_t) -> hipError_t;
        required fn hipEventQuery(event: hipEvent_t) -> hipError_t;
        required fn hipEventElapsedTime(ms: *mut f32, start: hipEvent_t, stop: hipEvent_t) -> hipError_t;

        required fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> hipError_t;
        required fn hipModuleUnload(module: hipModule_t) -> hipError_t;
        required fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) -> hipError_t;
        optional fn hipModuleGetGlobal(ptr: *mut hipDeviceptr_t, bytes: *mut usize, module: hipModule_t, name: *const c_char) -> hipError_t;
        required fn hipModuleLaunchKernel(f: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: hipStream_t, params: *mut *mut c_void, extra: *mut *mut c_void) -> hipError_t;
        optional fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, f: hipFunction_t, block: c_int, shared: usize) -> hipError_t;
        optional fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, f: hipFunction_t) -> hipError_t;
    }
}
