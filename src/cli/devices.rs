//! `hipverify devices`: every device that opens, and why others do not.

use super::Outcome;
use super::screen::{self, DIM, Table};
use crate::build_info;
use crate::device::{Device, DeviceKind, hip};
use anyhow::Result;
use serde::Serialize;

/// The flags of `devices`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify devices --json")]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    devices: Vec<Line>,
    /// Why no GPU opens, where none does.
    no_gpu: Option<String>,
    runtimes: Vec<Runtime>,
    build: Build,
}

#[derive(Serialize)]
struct Line {
    open: String,
    kind: &'static str,
    name: String,
    free_bytes: Option<usize>,
    total_bytes: Option<usize>,
}

#[derive(Serialize)]
struct Runtime {
    name: &'static str,
    loaded: Option<String>,
    /// Everything that was tried, where nothing was loaded.
    problem: Option<String>,
    /// Other libraries that are there and were not used, and why.
    tried: Vec<String>,
}

#[derive(Serialize)]
struct Build {
    version: &'static str,
    target: String,
    profile: &'static str,
    features: Vec<&'static str>,
    hipcc: &'static str,
    amd_targets: Vec<&'static str>,
    cuda_targets: Vec<&'static str>,
    kernels: Vec<&'static str>,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let document = Document::new();
        if self.json {
            screen::print_json(&document)?;
        } else {
            screen::print(&document.screen())?;
        }
        Ok(Outcome::Pass)
    }
}

impl Document {
    fn new() -> Document {
        let mut gpus = 0;
        let line = |device: &Device| {
            let open = if device.kind() == DeviceKind::Host { "host".to_owned() } else { format!("gpu:{gpus}") };
            gpus += usize::from(device.kind() != DeviceKind::Host);
            let memory = device.memory_info().ok();
            Line {
                open,
                kind: device.kind().name(),
                name: device.name(),
                free_bytes: memory.map(|m| m.0),
                total_bytes: memory.map(|m| m.1),
            }
        };
        let devices = Device::all().iter().map(line).collect();
        let no_gpu = Device::open("gpu").err().map(|e| e.to_string());
        let runtimes = hip::runtimes().map(|runtime| {
            let (loaded, problem) = match runtime.library {
                Ok(library) => (Some(library), None),
                Err(problem) => (None, Some(problem)),
            };
            Runtime { name: runtime.name, loaded, problem, tried: runtime.tried }
        });
        let runtimes = runtimes.collect();
        Document { devices, no_gpu, runtimes, build: Build::new() }
    }

    fn screen(&self) -> String {
        let mut table = Table::new(&["device", "kind", "name", ">memory free", ">total"]);
        for line in &self.devices {
            let size = |n: Option<usize>| n.map_or("?".to_owned(), |n| screen::bytes(n as u64));
            table.row(vec![line.open.clone(), line.kind.to_owned(), line.name.clone(), size(line.free_bytes), size(line.total_bytes)]);
        }
        let mut out = String::new();
        for (i, line) in table.lines().iter().enumerate() {
            out += &if i == 0 { format!("{DIM}{line}{DIM:#}\n") } else { format!("{line}\n") };
        }
        out += "\n";
        let mut line = |label: &str, text: &str| {
            let text = text.replace('\n', &format!("\n{:9}", ""));
            out += &format!("{DIM}{label:<9}{DIM:#}{text}\n");
        };
        if let Some(reason) = &self.no_gpu {
            line("no GPU", reason);
        }
        for runtime in &self.runtimes {
            if let Some(text) = runtime.loaded.as_ref().or(runtime.problem.as_ref()) {
                line(runtime.name, text);
            }
            for attempt in &runtime.tried {
                line("", &format!("not used: {attempt}"));
            }
        }
        let b = &self.build;
        line("build", &format!("hipverify {}, {}, {}, features: {}", b.version, b.target, b.profile, b.features.join(" ")));
        let list = |targets: &[&str]| if targets.is_empty() { "none".to_owned() } else { targets.join(" ") };
        line("kernels", &format!("ahead of time for {} ({})", list(&b.amd_targets), b.hipcc));
        if cfg!(feature = "nvidia") {
            line("", &format!("ahead of time for CUDA {}", list(&b.cuda_targets)));
        }
        out
    }
}

impl Build {
    fn new() -> Build {
        let info = build_info();
        let features = [
            ("cli", cfg!(feature = "cli")),
            ("files", cfg!(feature = "files")),
            ("torch", cfg!(feature = "torch")),
            ("suite", cfg!(feature = "suite")),
            ("suite-tests", cfg!(feature = "suite-tests")),
            ("serde", cfg!(feature = "serde")),
            ("nvidia", cfg!(feature = "nvidia")),
        ];
        Build {
            version: info.version,
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            features: features.iter().filter(|f| f.1).map(|f| f.0).collect(),
            hipcc: info.hipcc,
            amd_targets: info.targets,
            cuda_targets: info.cuda_targets,
            kernels: info.kernels,
        }
    }
}
