//! Libraries of kernels, as `compile` makes them: loaded once and never unloaded.

use crate::exec::{Entry, Lane, table};
use crate::machine::Object;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A kernel of a library.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) entry: Entry,
    /// Sizes of its parameters.
    pub(crate) sizes: Vec<usize>,
    /// The code object whose machine code is run in place of `entry`.
    pub(crate) object: Option<&'static Object>,
}

pub(crate) struct Library {
    pub(crate) path: PathBuf,
    pub(crate) kernels: Vec<Kernel>,
    /// The memory of the library itself.
    pub(crate) own: (usize, usize),
    pub(crate) lane: unsafe extern "C" fn() -> *mut *mut Lane,
}

/// A kernel, and where it is.
pub(crate) type Found = (&'static Library, &'static Kernel);

/// As in `cpp/hip/hip_runtime.h`.
#[repr(C)]
struct RawEntry {
    name: *const c_char,
    run: Option<Entry>,
    sizes: *const usize,
    count: usize,
}

impl Library {
    /// Loads a library that `compile` has made.
    pub(crate) fn open(path: &Path) -> Result<&'static Library, String> {
        static OPEN: Mutex<Option<HashMap<PathBuf, &'static Library>>> = Mutex::new(None);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.get_or_insert_default();
        if let Some(library) = open.get(path) {
            return Ok(library);
        }
        let library: &'static Library = Box::leak(Box::new(Library::load(path).map_err(|e| format!("{}: {e:?}", path.display()))?));
        open.insert(path.to_owned(), library);
        Ok(library)
    }

    fn load(path: &Path) -> Result<Library, libloading::Error> {
        // SAFETY: made by `compile`: its initialisers are those of the kernels' variables.
        let library: &'static libloading::Library = Box::leak(Box::new(unsafe { libloading::Library::new(path)? }));
        let (mut from, mut to) = (0, 0);
        // SAFETY: the functions and the table have these types in `cpp/glue.cpp` and `cpp/hip/hip_runtime.h`; the table ends with an entry
        // without a name, and names, sizes and entries live as long as the library.
        unsafe {
            library.get::<unsafe extern "C" fn(*const c_void, *mut usize, *mut usize)>(b"standin_attach\0")?(table(), &mut from, &mut to);
            let lane = *library.get::<unsafe extern "C" fn() -> *mut *mut Lane>(b"standin_lane\0")?;
            let mut entry = *library.get::<*const RawEntry>(b"standin_kernels\0")?;
            let mut kernels = Vec::new();
            while let (false, Some(run)) = ((*entry).name.is_null(), (*entry).run) {
                let name = CStr::from_ptr((*entry).name).to_string_lossy().into_owned();
                let sizes = std::slice::from_raw_parts((*entry).sizes, (*entry).count).to_vec();
                kernels.push(Kernel { name, entry: run, sizes, object: None });
                entry = entry.add(1);
            }
            Ok(Library { path: path.to_owned(), kernels, own: (from, to), lane })
        }
    }

    pub(crate) fn kernel(&'static self, name: &str) -> Option<&'static Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}
