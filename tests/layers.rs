//! The layers of `src/` are those of the table in CONTRIBUTING.md: each uses what its row names, and rows name only what stands below.
//!
//! A use is a path that begins with `crate::` or `hipverify_sys::`, in a `use` or anywhere else. Limits: paths by `super::` are taken to stay within their layer.

use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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

/// Rows of the table that stand for parts of the crate `hipverify_sys`: what loads the runtime and the images, and what kernels and their callers say to each other.
const OF_SYS: [&str; 2] = ["hipverify_sys", "abi"];

/// The code of a file without its comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The names that follow a path's root in code, each with where it is used: one, or those of a list in braces at its top level, which may have several lines.
fn after<'c>(code: &'c str, root: &str) -> Vec<(usize, &'c str)> {
    let name = |start: usize| {
        let text = code[start..].trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        (start, &text[..end])
    };
    let mut found = Vec::new();
    for (at, _) in code.match_indices(root) {
        let start = at + root.len();
        let Some(list) = code[start..].strip_prefix('{') else {
            found.push(name(start));
            continue;
        };
        let mut depth = 1;
        found.push(name(start + 1));
        for (i, c) in list.char_indices() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            match depth {
                0 => break,
                1 if c == ',' => found.push(name(start + 1 + i + 1)),
                _ => {}
            }
        }
    }
    found.retain(|(_, name)| !name.is_empty());
    found
}

/// What code uses of other layers, each with where it does.
fn used(code: &str) -> Vec<(usize, &str)> {
    let exported = |name| REEXPORTS.iter().find(|(export, _)| *export == name).map_or(name, |(_, from)| *from);
    let own = after(code, "crate::").into_iter().map(|(at, name)| (at, exported(name)));
    let part = |name| if name == OF_SYS[1] { OF_SYS[1] } else { OF_SYS[0] };
    let sys = after(code, "hipverify_sys::").into_iter().map(|(at, name)| (at, part(name)));
    own.chain(sys).collect()
}

/// Each layer of `src/` with what it uses, and a line that does.
fn arrows() -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let source = root().join("src");
    let mut layers: BTreeMap<String, BTreeMap<String, String>> = OF_SYS.map(|part| (part.to_owned(), BTreeMap::new())).into();
    for path in files(&source)? {
        let inside = path.strip_prefix(&source)?;
        let first = inside.iter().next().context("a path")?.to_string_lossy();
        let layer = first.trim_end_matches(".rs").to_owned();
        if ["lib", "main"].contains(&layer.as_str()) {
            continue;
        }
        let uses = layers.entry(layer.clone()).or_default();
        let code = code(&fs::read_to_string(&path)?);
        for (at, target) in used(&code).into_iter().filter(|(_, target)| *target != layer) {
            let line = code[..at].rsplit('\n').next().unwrap_or_default().to_owned() + code[at..].lines().next().unwrap_or_default();
            uses.insert(target.to_owned(), format!("{}: {}", inside.display(), line.trim()));
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
fn paths_are_read_wherever_they_are() {
    for (text, names) in [
        ("use crate::verify::{Metric, Report};", vec!["verify"]),
        ("use crate::{Device, device::{hip, Layout}, DType};", vec!["device", "device", "dtype"]),
        ("use crate::{\n    Device,\n    fill::{Pattern,\n    Seed},\n};", vec!["device", "fill"]),
        ("let x = crate::build_info().max(crate::dtype::f(a));", vec!["build_info", "dtype"]),
        ("    // crate::fill\nfn f(x: crate::Error) {}", vec!["error"]),
        ("let runtime = hipverify_sys::amd();", vec!["hipverify_sys"]),
        ("use hipverify_sys::{Runtime, abi::BoundRule};\nfn f() -> hipverify_sys::abi::Rule {}", vec!["hipverify_sys", "abi", "abi"]),
        ("pub(crate) fn f() {}", vec![]),
        ("pub(in crate::cli) struct X;", vec!["cli"]),
    ] {
        let code = code(text);
        let found: Vec<&str> = used(&code).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, names, "{text}");
    }
}
