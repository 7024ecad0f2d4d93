//! The devices of this run.

use crate::standin::StandIn;
use crate::suite::On;
use anyhow::{Context, Result, ensure};
use hipverify::Device;
use hipverify::device::DeviceKind;
use hipverify::matrix_core::Arch;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// The stand-in's GPUs. The first two execute all tests, one for each wavefront size; the next two those of the matrix cores. The last two
/// repeat an architecture: they execute kernels that are broken on purpose, whose errors other tests on the device would see.
const STANDIN_DEVICES: &str = "gfx90a,gfx1100,gfx908,gfx942,gfx90a,gfx1100";

/// Those whose kernels AddressSanitizer checks, likewise.
const SANITIZED_DEVICES: &str = "gfx942,gfx1100,gfx908,gfx90a,gfx942,gfx1100";

/// Those whose machine code is run, with `HIPVERIFY_STANDIN_EXECUTE=machine-code`: gfx90a all tests, gfx908 those of the matrix cores.
const MACHINE_CODE_DEVICES: &str = "gfx90a,gfx908";

/// Set in the process that [`real_gpu_opens`] starts.
const PROBE: &str = "HIPVERIFY_TEST_PROBE";

/// A device under test.
#[derive(Clone)]
pub struct Target {
    pub device: Device,
    /// It is the stand-in's.
    standin: bool,
    /// It is the first of its wavefront size.
    first: bool,
    /// The machine code that AMD's compiler made of the kernels is run.
    machine_code: bool,
    /// There is one of its architecture before it.
    repeated: bool,
    /// AddressSanitizer checks its kernels.
    sanitized: bool,
}

impl Target {
    /// `host`, or the architecture and the wavefront size.
    pub fn label(&self) -> String {
        match self.device.arch() {
            None => "host".to_owned(),
            Some(arch) => {
                let how = if self.machine_code { ", machine code" } else { "" };
                format!("{}, wavefront {}{how}", arch.split(':').next().unwrap_or(arch), self.device.wavefront())
            }
        }
    }

    pub fn is_standin(&self) -> bool {
        self.standin
    }

    pub fn is_gpu(&self) -> bool {
        self.device.kind() != DeviceKind::Host
    }

    /// Whether kernels that are given as source can run.
    pub fn compiles(&self) -> bool {
        !self.machine_code
    }

    /// The matrix cores that the device has.
    pub fn matrix_cores(&self) -> Option<Arch> {
        self.device.arch().filter(|_| self.device.kind() == DeviceKind::Amd).and_then(|name| name.parse().ok())
    }

    /// Whether a test runs here.
    pub fn runs(&self, on: On) -> bool {
        match on {
            On::Gpus => self.is_gpu() && self.first,
            On::Sweeps => self.runs(On::Gpus) && (!self.standin || self.device.wavefront() == 64),
            On::Compiling => self.runs(On::Gpus) && self.device.kind() == DeviceKind::Amd && !self.machine_code,
            On::Nvidia => self.device.kind() == DeviceKind::Nvidia,
            On::All => self.first,
            On::MatrixCores => self.matrix_cores().is_some() && !self.repeated,
            On::NoMatrixCores => self.first && self.matrix_cores().is_none(),
            On::RealGpus => self.is_gpu() && !self.standin,
            On::StandIn => self.repeated && !self.sanitized,
            On::StandIn64 | On::Asked => self.runs(On::StandIn) && self.device.wavefront() == 64,
            On::StandIn32 => self.runs(On::StandIn) && self.device.wavefront() == 32,
            On::AddressSanitizer => self.repeated && self.sanitized,
            On::StandInMatrixCores => self.standin && !self.sanitized && !self.machine_code && self.runs(On::MatrixCores),
            On::Host => !self.is_gpu(),
        }
    }

    /// Whether this device takes the case with this number, of many that run the same kernels on other formats or data: the stand-in's two
    /// sizes of wavefronts take turns, real hardware takes all.
    pub fn takes(&self, case: usize) -> bool {
        !self.standin || case.is_multiple_of(2) == (self.device.wavefront() == 64)
    }

    /// A size for the stand-in, and the larger one for real hardware.
    pub fn size(&self, standin: usize, real: usize) -> usize {
        if self.standin { standin } else { real }
    }
}

/// Whether `HIPVERIFY_REQUIRE` has this word.
pub fn requires(name: &str) -> bool {
    std::env::var("HIPVERIFY_REQUIRE").unwrap_or_default().split(',').any(|word| word.trim() == name)
}

/// What this machine, with the environment as it is, can test.
pub struct Machine {
    pub targets: Vec<Target>,
    /// Why the stand-in executes no kernels.
    pub ignored: Option<Arc<str>>,
    standin: Option<StandIn>,
}

impl Machine {
    /// Chooses the HIP runtime and opens the devices.
    ///
    /// `HIPVERIFY_HIP_LIBRARY` decides if it is set. Else a real GPU is used when `HIPVERIFY_REQUIRE` names `amd` or when one opens, and the
    /// stand-in otherwise.
    ///
    /// # Safety
    /// The process has one thread: this sets environment variables.
    pub unsafe fn choose() -> Result<Machine> {
        if std::env::var_os(PROBE).is_some() {
            let found = Device::all().iter().any(|d| d.kind() == DeviceKind::Amd);
            std::process::exit(i32::from(!found));
        }
        let chosen = std::env::var_os("HIPVERIFY_HIP_LIBRARY").is_some();
        let standin = match chosen || requires("amd") || real_gpu_opens()? {
            true => None,
            // SAFETY: the caller promises that the process has one thread.
            false => Some(unsafe { StandIn::choose(STANDIN_DEVICES, SANITIZED_DEVICES, MACHINE_CODE_DEVICES)? }),
        };
        let ignored = standin.as_ref().and_then(StandIn::obstacle).map(Arc::from);
        if let Some(reason) = ignored.as_ref().filter(|_| requires("standin")) {
            anyhow::bail!("HIPVERIFY_REQUIRE has standin, but the stand-in GPU executes no kernels: {reason}");
        }
        ensure!(standin.is_some() || !requires("standin"), "HIPVERIFY_REQUIRE has standin, but the stand-in GPU is not what this run uses");
        let targets = targets(Device::all(), standin.as_ref());
        Ok(Machine { targets, ignored, standin })
    }

    /// The stand-in, if its GPUs are tested and execute kernels.
    pub fn standin(&self) -> Option<&StandIn> {
        self.standin.as_ref().filter(|_| self.ignored.is_none())
    }
}

fn targets(devices: Vec<Device>, standin: Option<&StandIn>) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for device in devices {
        let sanitized = standin.is_some_and(StandIn::sanitized);
        let machine_code = standin.is_some() && device.kind() == DeviceKind::Amd && StandIn::runs_machine_code();
        let standin = standin.is_some() && device.kind() == DeviceKind::Amd;
        let before: Vec<&Target> = targets.iter().filter(|t| standin && t.standin).collect();
        let first = before.iter().all(|t| t.device.wavefront() != device.wavefront());
        let repeated = before.iter().any(|t| t.device.arch() == device.arch());
        targets.push(Target { device, standin, first, repeated, sanitized, machine_code });
    }
    targets
}

/// Whether the machine's own runtime opens an AMD GPU. Another process asks, since a process opens one runtime only.
fn real_gpu_opens() -> Result<bool> {
    if !Path::new("/dev/kfd").exists() {
        return Ok(false);
    }
    let program = std::env::current_exe().context("the name of this program")?;
    Ok(Command::new(program).env(PROBE, "1").output().context("looking for a GPU")?.status.success())
}
