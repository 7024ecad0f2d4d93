//! `hipverify devices`: every device that opens, and why others do not.

use super::Outcome;
use super::screen::{self, DIM, Table};
use crate::device::{Device, DeviceKind};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;

/// The flags of `devices`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    devices: Vec<Line>,
    no_gpu: Option<String>,
    version: &'static str,
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
struct Build {
    target: String,
    profile: &'static str,
    features: Vec<&'static str>,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let document = Document::new();
        let mut out = anstream::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        } else {
            out.write_all(document.screen().as_bytes())?;
        }
        Ok(Outcome::Pass)
    }
}

impl Document {
    fn new() -> Document {
        let mut gpus = 0;
        let line = |device: &Device| {
            let (open, kind) = match device.kind() {
                DeviceKind::Host => ("host".to_owned(), "host"),
                DeviceKind::Amd => (format!("gpu:{gpus}"), "amd"),
                DeviceKind::Nvidia => (format!("gpu:{gpus}"), "nvidia"),
            };
            gpus += usize::from(device.kind() != DeviceKind::Host);
            let memory = device.memory_info().ok();
            Line { open, kind, name: device.name(), free_bytes: memory.map(|m| m.0), total_bytes: memory.map(|m| m.1) }
        };
        let devices = Device::all().iter().map(line).collect();
        let no_gpu = Device::open("gpu").err().map(|e| e.to_string());
        let features = [("cli", cfg!(feature = "cli")), ("serde", cfg!(feature = "serde")), ("nvidia", cfg!(feature = "nvidia"))];
        Document {
            devices,
            no_gpu,
            version: env!("CARGO_PKG_VERSION"),
            build: Build {
                target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
                profile: if cfg!(debug_assertions) { "debug" } else { "release" },
                features: features.iter().filter(|f| f.1).map(|f| f.0).collect(),
            },
        }
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
        if let Some(reason) = &self.no_gpu {
            out += &format!("{reason}\n");
        }
        let Build { target, profile, features } = &self.build;
        out + &format!("{DIM}build{DIM:#}   hipverify {}, {target}, {profile}, features: {}\n", self.version, features.join(" "))
    }
}
