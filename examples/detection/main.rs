//! Which rule catches which broken kernel, measured.
//!
//! `cargo run --release --example detection [-- --sample | --causes]`
//!
//! A zoo of broken kernels and correct ones in many legal orders compute six operations in three pairs of formats on six kinds of input. Every rule
//! judges every result against the same reference: exact, rounded to f32. The table says which share of the broken results a rule
//! refuses, and which share of the correct ones. It is written into `docs/tolerances.md`, between its markers; how often the likely cause that a report
//! names is right, into `docs/causes.md`.

mod broken;
mod causes;
mod correct;
mod problem;
mod rules;
mod table;

use anyhow::{Context, Result};
use causes::By;
use std::path::Path;

fn main() -> Result<()> {
    let sample = table::measure(&table::sample())?;
    if std::env::args().any(|a| a == "--sample") {
        print!("{}", sample.table());
        return Ok(());
    }
    let both = |by| -> Result<String> {
        let [chosen, held_out] = causes::SEEDS.map(|seed| causes::measured(by, false, seed));
        Ok(format!("{}\nWith data that no limit was chosen with, another seed of all operands:\n\n{}", chosen?, held_out?))
    };
    let [compared, checked] = [both(By::Comparison)?, both(By::Check)?];
    print!("{compared}\n{checked}");
    let samples = [By::Comparison, By::Check].map(|by| causes::measured(by, true, causes::SEEDS[0]));
    let [sample_compared, sample_checked] = samples;
    rewrite(
        "docs/causes.md",
        &[("measured", compared), ("sample", sample_compared?), ("checked", checked), ("checked sample", sample_checked?)],
    )?;
    if std::env::args().any(|a| a == "--causes") {
        return Ok(());
    }
    let all = table::measure(&table::whole())?;
    let narrow = table::measure(&table::narrow())?;
    print!("{}\n{}\n{}\n{}", all.table(), all.details(), narrow.table(), narrow.details());
    let texts = [
        ("table", all.table()),
        ("details", all.details()),
        ("classes", all.classes()),
        ("narrow", narrow.table()),
        ("narrow details", narrow.details()),
        ("sample", sample.table()),
        ("zoo", broken::listed()),
    ];
    rewrite("docs/tolerances.md", &texts)
}

/// Puts texts between the markers of these names into a page.
fn rewrite(page: &str, texts: &[(&str, String)]) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let mut page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for (name, text) in texts {
        page = replaced(&page, name, text)?;
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
