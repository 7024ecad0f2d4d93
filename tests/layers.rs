//! The layers of `src/` are those of the table in CONTRIBUTING.md: each uses what its row names, and rows name only what stands below.

use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// What the root of the crate exports, and where it comes from.
const REEXPORTS: &[(&str, &str)] = &[
    ("Device", "device"),
    ("DeviceMem", "device"),
    ("Event", "device"),
    ("Stream", "device"),
    ("TensorRef", "device"),
    ("DType", "dtype"),
    ("Error", "error"),
    ("Result", "error"),
];

/// The rows of the table: a layer, and what it may use.
fn table() -> Result<Vec<(String, BTreeSet<String>)>> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md"))?;
    let rows = text.lines().skip_while(|l| !l.starts_with("| layer ")).skip(2).take_while(|l| l.starts_with('|'));
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let layer = names(cells[0]).pop().with_context(|| format!("no layer in `{row}`"))?;
        Ok((layer, names(cells.get(1).with_context(|| format!("no second column in `{row}`"))?).into_iter().collect()))
    })
    .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of a folder with this extension.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
    Ok(all)
}

/// The names that follow `crate::` in a line: one, or those of a list in braces at its top level.
fn used(line: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = Vec::new();
    for rest in line.split("crate::").skip(1) {
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let starts = iter::once(0).chain(list.char_indices().filter_map(|(i, c)| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                (c == ',' && depth == 0).then_some(i + 1)
            }));
            found.extend(starts.map(|i| word(list[i..].trim_start())));
        } else {
            found.push(word(rest));
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// Each layer of `src/` with what it uses, and a file that does.
fn arrows() -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let source = root().join("src");
    let mut layers: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for path in files(&source)? {
        let inside = path.strip_prefix(&source)?;
        let first = inside.iter().next().context("a path")?.to_string_lossy();
        let layer = first.trim_end_matches(".rs").to_owned();
        if ["lib", "main"].contains(&layer.as_str()) {
            continue;
        }
        let uses = layers.entry(layer.clone()).or_default();
        let text = fs::read_to_string(&path)?;
        for line in text.lines().filter(|l| !l.trim_start().starts_with("//")) {
            for name in used(line) {
                let target = REEXPORTS.iter().find(|(export, _)| *export == name).map_or(name.as_str(), |(_, from)| from);
                if target != layer {
                    uses.insert(target.to_owned(), format!("{}: {}", inside.display(), line.trim()));
                }
            }
        }
    }
    Ok(layers)
}

#[test]
fn layers_use_what_stands_below() -> Result<()> {
    let (table, arrows) = (table()?, arrows()?);
    let mut below: BTreeSet<String> = table.iter().map(|(layer, _)| layer.clone()).collect();
    ensure!(below.len() == table.len() && table.len() > 5, "CONTRIBUTING.md: {} rows for {} layers", table.len(), below.len());
    for layer in arrows.keys() {
        ensure!(below.contains(layer), "src/{layer} has no row in CONTRIBUTING.md");
    }
    for (layer, allowed) in &table {
        below.remove(layer);
        ensure!(
            allowed.is_subset(&below),
            "CONTRIBUTING.md: the row of `{layer}` names something that does not stand below it: {allowed:?}"
        );
        let uses = arrows.get(layer).with_context(|| format!("CONTRIBUTING.md has a row for `{layer}`, src/ has no such layer"))?;
        for (target, place) in uses {
            ensure!(allowed.contains(target), "`{layer}` uses `{target}`, which its row in CONTRIBUTING.md does not name\n  {place}");
        }
    }
    Ok(())
}

#[test]
fn lists_of_names_are_read_at_their_top_level() {
    for (line, names) in [
        ("use crate::verify::{Metric, Report};", vec!["verify"]),
        ("use crate::{Device, device::{hip, Layout}, DType};", vec!["Device", "device", "DType"]),
        ("let x = crate::build_info().max(crate::dtype::f(a));", vec!["build_info", "dtype"]),
        ("pub(crate) fn f() {}", vec![]),
        ("pub(in crate::cli) struct X;", vec!["cli"]),
    ] {
        assert_eq!(used(line), names, "{line}");
    }
}
