//! Which rule catches which broken kernel, measured.
//!
//! `cargo run --release --example detection [-- --sample]`
//!
//! A zoo of broken kernels and correct ones in many legal orders compute six operations in three pairs of formats on six kinds of input. Every rule
//! judges every result against the same reference: exact, rounded to f32. The table says which share of the broken results a rule
//! refuses, and which share of the correct ones. It is written into `docs/tolerances.md`, between its markers.

mod broken;
mod correct;
mod problem;
mod rules;
mod table;

use anyhow::{Context, Result};
use std::path::Path;

fn main() -> Result<()> {
    let sample = table::measure(true)?;
    if std::env::args().any(|a| a == "--sample") {
        print!("{}", sample.table());
        return Ok(());
    }
    let all = table::measure(false)?;
    print!("{}\n{}", all.table(), all.details());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tolerances.md");
    let mut page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for (name, text) in [("table", all.table()), ("details", all.details()), ("sample", sample.table()), ("zoo", broken::listed())] {
        page = replaced(&page, name, &text)?;
    }
    std::fs::write(&path, page).with_context(|| path.display().to_string())
}

/// The page with other text between the markers of this name.
fn replaced(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).with_context(|| format!("no marker {begin}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("no marker {end}"))?;
    Ok(format!("{before}{begin}{text}{end}{after}"))
}
