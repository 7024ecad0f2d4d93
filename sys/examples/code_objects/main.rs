//! Checks the code objects for AMD GPUs: the targets that are asked for are there, every target has every kernel, and no
//! kernel has scratch memory: spilled registers, arrays that are indexed at run time, functions that are called. Prints the registers,
//! LDS and scratch memory of each. Spills without scratch (scalar registers to lanes of vector ones, those to accumulation registers) are printed only.
//!
//! ```text
//! cargo run -p hipverify-sys --example code_objects -- gfx908 gfx90a    those embedded in this build
//! cargo run -p hipverify-sys --example code_objects -- FILE...          these files, ELF objects or bundles of them
//! ... --table hip/verify/instructions.md                                and writes the columns of their targets there
//! ... --table hip/verify/instructions.md --sass FILE                    the column of sm_90, of what `cuobjdump -sass -res-usage` prints
//! ```
//!
//! The table has the instructions of the comparison's kernels for an element. It needs llvm-objdump, 19 for gfx942. With it, no kernel may have an instruction that joins
//! a conversion to f16 with the arithmetic before it.

mod assembly;
mod elf;
mod table;

use elf::{Kernel, elves, metadata};
use hipverify_sys::{Platform, kernels};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, String>;

/// The columns: the name of a number and its heading.
const COLUMNS: [(&str, &str); 7] = [
    (".vgpr_count", "VGPR"),
    (".agpr_count", "AGPR"),
    (".sgpr_count", "SGPR"),
    (".group_segment_fixed_size", "LDS"),
    (".private_segment_fixed_size", "scratch"),
    (".vgpr_spill_count", "spilled V"),
    (".sgpr_spill_count", "spilled S"),
];

/// The file whose kernels are single instructions: each target has those that it knows.
const INSTRUCTIONS: &str = "mfma";
/// Those of tensor cores, which no AMD GPU has: nothing is compiled of this file for one.
const TENSOR_CORES: &str = "mma";

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut targets, mut files) = (Vec::new(), Vec::new());
    let (mut table, mut sass) = (None, None);
    let mut report = Report::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--table" => table = arguments.next().map(PathBuf::from),
            "--sass" => sass = arguments.next(),
            _ if argument.starts_with("gfx") && !argument.contains('/') => targets.push(argument),
            _ => files.push(argument),
        }
    }
    report.cells = table.is_some().then(table::Cells::new);
    if let Some(file) = &sass {
        report.sass(file);
    } else if files.is_empty() {
        for image in kernels::IMAGES.iter().filter(|i| i.platform == Platform::Amd) {
            report.object(image.file, image.bytes);
        }
    }
    for file in &files {
        let stem = Path::new(file).file_stem().map_or(file.clone(), |s| s.to_string_lossy().into_owned());
        match std::fs::read(file) {
            Ok(bytes) => report.object(&stem, &bytes),
            Err(e) => report.faults.push(format!("{file}: {e}")),
        }
    }
    report.compare(&targets);
    if let Some(path) = table {
        report.write(&path);
    }
    for fault in &report.faults {
        eprintln!("fault: {fault}");
    }
    println!("{} kernels, {} faults", report.kernels, report.faults.len());
    if report.faults.is_empty() && report.kernels > 0 { 0.into() } else { 1.into() }
}

#[derive(Default)]
struct Report {
    /// Kernels by source file and target.
    found: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    kernels: usize,
    faults: Vec<String>,
    /// What the table is made of, where one was asked for.
    cells: Option<table::Cells>,
}

impl Report {
    /// Prints the kernels of one object or bundle.
    fn object(&mut self, file: &str, bytes: &[u8]) {
        let objects = elves(bytes);
        for elf in objects.unwrap_or_else(|e| {
            self.faults.push(format!("{file}: {e}"));
            Vec::new()
        }) {
            match metadata(elf) {
                Ok((target, kernels)) => {
                    kernels.iter().for_each(|k| self.kernel(file, &target, k));
                    self.code(file, &target, &kernels, elf);
                }
                Err(e) => self.faults.push(format!("{file}: {e}")),
            }
        }
    }

    /// What is to be seen in an object's instructions, where a table was asked for: cells of the comparison's kernels, and faults.
    fn code(&mut self, file: &str, target: &str, kernels: &[Kernel], elf: &[u8]) {
        let Some(cells) = self.cells.as_mut() else { return };
        match assembly::disassemble(elf) {
            Ok(code) => {
                for (kernel, code) in kernels.iter().filter_map(|kernel| Some((kernel, code.get(&kernel.name)?))) {
                    if code.fused_conversion {
                        self.faults.push(format!(
                            "{file}: {} for {target}: a conversion to f16 is joined with the arithmetic before it",
                            kernel.name
                        ));
                    }
                    if kernel.name.starts_with("verify_") {
                        let cell = table::cell(target, &kernel.name, code, kernel.numbers.get(".vgpr_count").copied());
                        cells.entry(kernel.name.clone()).or_default().insert(target.to_owned(), cell);
                    }
                }
            }
            Err(e) => self.faults.push(format!("{target}: {e}")),
        }
    }

    /// Cells of the kernels of NVIDIA's that cuobjdump prints.
    fn sass(&mut self, file: &str) {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) => return self.faults.push(format!("{file}: {e}")),
        };
        for (kernel, code) in assembly::nvidia(&text).iter().filter(|(kernel, _)| kernel.starts_with("verify_")) {
            let usage = text.split_once(&format!("Function {kernel}:")).and_then(|(_, rest)| rest.split_once("REG:"));
            let registers = usage.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
            let row = self.cells.get_or_insert_default().entry(kernel.clone()).or_default();
            row.insert("sm_90".to_owned(), table::cell("sm_90", kernel, code, registers));
            self.kernels += 1;
        }
    }

    fn write(&mut self, path: &Path) {
        let old = std::fs::read_to_string(path).unwrap_or_default();
        let cells = self.cells.take().unwrap_or_default();
        if let Err(e) = std::fs::write(path, table::render(&cells, &old)) {
            self.faults.push(format!("{}: {e}", path.display()));
        }
    }

    fn kernel(&mut self, file: &str, target: &str, kernel: &Kernel) {
        if self.kernels == 0 {
            println!("{:<20} {:<8} {}", "file", "target", COLUMNS.map(|(_, heading)| format!("{heading:>11}")).concat() + "  kernel");
        }
        self.kernels += 1;
        self.found.entry(file.to_owned()).or_default().entry(target.to_owned()).or_default().insert(kernel.name.clone());
        let mut cells = String::new();
        for (name, _) in COLUMNS {
            // Targets without accumulation registers have no count of them.
            let value = kernel.numbers.get(name).copied();
            cells += &value.map_or_else(|| format!("{:>11}", "-"), |v| format!("{v:>11}"));
        }
        println!("{file:<20} {target:<8} {cells}  {}", kernel.name);
        let number = |name: &str| kernel.numbers.get(name).copied().unwrap_or(0);
        let scratch = number(".private_segment_fixed_size");
        if scratch > 0 {
            self.faults.push(format!("{file}: {} for {target}: {scratch} bytes of scratch memory", kernel.name));
        }
    }

    /// Every file has all targets, and every target all kernels of the file.
    fn compare(&mut self, targets: &[String]) {
        let mut sources: BTreeSet<&str> = self.found.keys().map(String::as_str).collect();
        if !targets.is_empty() {
            sources.extend(kernels::SOURCES.iter().map(|s| s.name).filter(|name| name.trim_end_matches(".hip") != TENSOR_CORES));
        }
        for file in sources {
            let none = BTreeMap::new();
            let found = self.found.get(file).unwrap_or(&none);
            let all: BTreeSet<&String> = found.values().flatten().collect();
            for target in targets.iter().chain(found.keys()).collect::<BTreeSet<_>>() {
                let Some(here) = found.get(target) else {
                    self.faults.push(format!("{file}: nothing for {target}"));
                    continue;
                };
                if file.trim_end_matches(".hip") == INSTRUCTIONS {
                    continue;
                }
                self.faults.extend(all.iter().filter(|k| !here.contains(**k)).map(|k| format!("{file}: no kernel {k} for {target}")));
            }
        }
    }
}
