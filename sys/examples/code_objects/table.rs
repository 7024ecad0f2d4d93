//! The table of the comparison's kernels: instructions for an element, registers, code.

use crate::assembly::Code;
use std::collections::BTreeMap;

/// A chip, and its vector instructions for a byte that its memory delivers: lanes x clock / bandwidth.
pub(crate) struct Chip {
    pub(crate) target: &'static str,
    product: &'static str,
    lanes: f64,
    hertz: f64,
    bandwidth: f64,
}

/// By the makers' data sheets, clocks at their peak; of MI250X one of its two dies.
pub(crate) const CHIPS: [Chip; 4] = [
    Chip { target: "gfx908", product: "MI100", lanes: 120.0 * 64.0, hertz: 1.502e9, bandwidth: 1.2288e12 },
    Chip { target: "gfx90a", product: "half an MI250X", lanes: 110.0 * 64.0, hertz: 1.7e9, bandwidth: 1.6384e12 },
    Chip { target: "gfx942", product: "MI300X", lanes: 304.0 * 64.0, hertz: 2.1e9, bandwidth: 5.3e12 },
    Chip { target: "sm_90", product: "H200", lanes: 132.0 * 128.0, hertz: 1.98e9, bandwidth: 4.8e12 },
];

/// Registers and code above these are marked.
const MOST_REGISTERS: u64 = 128;
const MOST_CODE: u64 = 24 * 1024;

/// A cell: `instructions / registers / KB`.
pub(crate) fn cell(target: &str, kernel: &str, code: &Code, registers: Option<u64>) -> String {
    let instructions = per_element(target, kernel, code).map_or("-".to_owned(), |n| format!("{n:.1}"));
    let mark = if code.bytes > MOST_CODE || registers.is_some_and(|r| r > MOST_REGISTERS) { " *" } else { "" };
    let registers = registers.map_or("-".to_owned(), |r| r.to_string());
    format!("{instructions} / {registers} / {:.0}{mark}", code.bytes as f64 / 1024.0)
}

/// What `hip/verify/` compiles for two widths.
struct Pair {
    /// Counts, all metrics, ...
    values: String,
    /// Whether elements are compared in f64, or as exact integers.
    wide: bool,
    /// Whether both are formats of 8 bits with kernels of their own.
    bytes: bool,
    /// Whether counts of 8 or 16 bits load two rows on NVIDIA's GPUs: all but those with an operand of 32 bits, or of any format up to 8.
    rows: bool,
    /// Of result and reference.
    bits: [u32; 2],
}

impl Pair {
    /// Elements that are loaded together, and those that a turn of the loop takes: see `Pairs::All`.
    fn elements(&self, target: &str) -> (u32, u32) {
        let (counts, nvidia) = (self.values == "counts", target.starts_with("sm_"));
        let many = counts || nvidia;
        let taken = if many { 8 } else { 4 };
        match self.bits[0].min(self.bits[1]) {
            64 if many => (4, 4),
            64 => (2, 2),
            32 if many && !self.wide => (8, 8),
            32 => (4, 4),
            8 | 16 if self.wide => (if self.bits.contains(&64) { 4 } else { 8 }, 4),
            8 if self.bytes => {
                // See the end of f32_8.hip.
                let loaded = 8 << u32::from(counts) << u32::from(nvidia);
                (loaded, loaded)
            }
            // See `ROWS_LOADED`.
            8 | 16 if counts && nvidia && self.rows => (16, taken),
            8 | 16 => (8, taken),
            _ => (32, 32),
        }
    }
}

/// The pair of a kernel that is named by arithmetic and widths.
fn pair(kernel: &str) -> Option<Pair> {
    let [_, values, arithmetic, a, r] = kernel.split('_').collect::<Vec<_>>()[..] else { return None };
    let bits = |of: &str| match of {
        "byte" => Some(8),
        width => width.parse().ok(),
    };
    Some(Pair {
        values: values.to_owned(),
        wide: arithmetic != "f32",
        bytes: [a, r] == ["byte"; 2],
        rows: ![a, r].iter().any(|width| ["8", "32"].contains(width)),
        bits: [bits(a)?, bits(r)?],
    })
}

fn per_element(target: &str, kernel: &str, code: &Code) -> Option<f64> {
    let pair = pair(kernel)?;
    let ([a, r], (loaded, taken)) = (pair.bits, pair.elements(target));
    // Its rare branches have more arithmetic than its loop, which is therefore not told apart.
    if kernel.starts_with("verify_explain") {
        return None;
    }
    let (loads, none) = code.turn(loaded * (a + r) / 8)?;
    let others = loaded / taken - 1;
    let turns = loads + if others > 0 { others * none? } else { 0 };
    Some(f64::from(turns) / f64::from(loaded))
}

/// Rows by kernel and target.
pub(crate) type Cells = BTreeMap<String, BTreeMap<String, String>>;

/// The whole file, of cells that were made and, for targets that were not, those of the file as it is.
pub(crate) fn render(made: &Cells, old: &str) -> String {
    let mut cells = parse(old);
    let targets: std::collections::BTreeSet<&String> = made.values().flat_map(BTreeMap::keys).collect();
    for row in cells.values_mut() {
        row.retain(|target, _| !targets.contains(target));
    }
    for (kernel, row) in made {
        cells.entry(kernel.clone()).or_default().extend(row.clone());
    }
    // A kernel that has gone keeps no row for the targets that were not asked for.
    cells.retain(|kernel, _| made.contains_key(kernel));
    let mut text = HEAD.to_owned() + "| target | of | lanes | GHz | TB/s | instructions a byte |\n|---|---|---|---|---|---|\n";
    for c in &CHIPS {
        let budget = c.lanes * c.hertz / c.bandwidth;
        text += &format!("| {} | {} | {} | {} | {} | {budget:.1} |\n", c.target, c.product, c.lanes, c.hertz / 1e9, c.bandwidth / 1e12);
    }
    text += &format!("\n| kernel | bytes | {} |\n|---|---|{}\n", CHIPS.map(|c| c.target).join(" | "), "---|".repeat(CHIPS.len()));
    for (kernel, row) in &cells {
        let bytes = pair(kernel).map_or("-".to_owned(), |p| (p.bits.iter().sum::<u32>() / 8).to_string());
        let row = CHIPS.map(|c| row.get(c.target).map_or("-", String::as_str)).join(" | ");
        text += &format!("| {} | {bytes} | {row} |\n", kernel.trim_start_matches("verify_"));
    }
    text
}

/// The cells of a file that `render` made.
fn parse(text: &str) -> Cells {
    let mut cells = Cells::new();
    for line in text.lines().skip_while(|l| !l.starts_with("| kernel |")).skip(2) {
        let row: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", kernel, _, rest @ ..] = &row[..] {
            let targets =
                CHIPS.iter().zip(rest).filter(|(_, cell)| **cell != "-").map(|(c, cell)| (c.target.to_owned(), (*cell).to_owned()));
            cells.insert(format!("verify_{kernel}"), targets.collect());
        }
    }
    cells
}

const HEAD: &str = "# Instructions, registers and code of the comparison's kernels

Made by `code_objects --table` from the compiled code (clang 15 for gfx908 and gfx90a, clang 19 for gfx942, nvcc 13.0.88 for sm_90); CI makes the columns of
AMD's targets anew and compares.

A cell is `instructions / registers / KB`: instructions that a lane issues for an element on the shortest way around the loop for dense tensors (vector instructions
on AMD's targets, beside which loads are issued; all on NVIDIA's), vector registers, and all of the kernel's code. What is said of a width is said of its format with the shortest way.
`*` marks more than 128 registers or 24 KB, `-` where the loop cannot be told: explanations, kernels for any width, or with loads of 4 bytes.

The budget of an element is what the chip issues while its memory delivers the bytes of one pair:

";
