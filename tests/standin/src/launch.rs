//! A launch of a kernel, from the call to its end.

use crate::devices::{self, Device};
use crate::exec::{self, Launch};
use crate::finding::{self, Finding, Kind};
use crate::library::{Found, Kernel, Library};
use crate::machine;
use crate::state::{SUCCESS, state};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

thread_local! {
    /// The order in which the threads of launches run that this thread of the host waits for, where a test has set one.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Launches that the calling thread waits for from now on run in another order.
#[unsafe(no_mangle)]
pub extern "C" fn standin_seed(seed: u64) {
    SEED.set(Some(seed));
}

/// What was launched.
pub(crate) struct Launched {
    library: &'static Library,
    kernel: &'static Kernel,
    device: &'static Device,
    blocks: [u32; 3],
    threads: [u32; 3],
    dynamic_shared: usize,
    arguments: Vec<Vec<u128>>,
}

impl std::fmt::Debug for Launched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {:?}", self.kernel.name, self.blocks, self.threads)
    }
}

impl Launched {
    /// Copies the arguments.
    ///
    /// # Safety
    /// `arguments` has the address of a value for each parameter of the kernel.
    pub(crate) unsafe fn new(
        (library, kernel): Found,
        device: &'static Device,
        (blocks, threads, dynamic_shared): ([u32; 3], [u32; 3], usize),
        arguments: *const *const c_void,
    ) -> Launched {
        let copy = |(i, size): (usize, &usize)| {
            let mut words = vec![0u128; size.div_ceil(16)];
            // SAFETY: the caller promises an address with so many bytes for each parameter; the words have room for them.
            unsafe { words.as_mut_ptr().cast::<u8>().copy_from((*arguments.add(i)).cast(), *size) };
            words
        };
        let arguments = kernel.sizes.iter().enumerate().map(copy).collect();
        Launched { library, kernel, device, blocks, threads, dynamic_shared, arguments }
    }

    /// Everything in the arguments that may be an address.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        self.arguments.iter().flatten().flat_map(|word| [*word as usize, (*word >> 64) as usize])
    }

    /// Runs the kernel, and says how it failed.
    pub(crate) fn run(&self) -> c_int {
        *state().kernels.entry((self.kernel.name.clone(), self.device.wavefront)).or_default() += 1;
        let launch = Launch {
            name: &self.kernel.name,
            entry: self.kernel.entry,
            lane: self.library.lane,
            own: self.library.own,
            path: &self.library.path,
            arguments: &self.arguments,
            sizes: &self.kernel.sizes,
            blocks: self.blocks,
            threads: self.threads,
            dynamic_shared: self.dynamic_shared,
            wavefront: self.device.wavefront,
            arch: self.device.base_arch(),
            resident: (devices::multiprocessors() * devices::occupancy()) as usize,
            seed: SEED.get().unwrap_or_else(|| devices::number("HIPVERIFY_STANDIN_SEED", 1)),
            steps: devices::number("HIPVERIFY_STANDIN_STEPS", 2_000_000_000),
        };
        let result = match self.kernel.object {
            None if machine::is_asked() => {
                Err(Finding::launch(format!("kernel {}, there is no machine code of it for {}", launch.name, launch.arch)))
            }
            None => exec::run(&launch),
            Some(object) => machine::run(object, &launch).map_err(|reason| Finding::launch(format!("kernel {}, {reason}", launch.name))),
        };
        let Err(found) = result else { return SUCCESS };
        let mut all = finding::all();
        // The first of each kernel.
        if !all.iter().any(|line| line.starts_with(&format!("kernel {},", self.kernel.name))) {
            eprintln!("standin: {}", found.text);
        }
        all.push(found.text);
        drop(all);
        match found.kind {
            Kind::Memory => 700,
            Kind::Launch => 719,
        }
    }
}
