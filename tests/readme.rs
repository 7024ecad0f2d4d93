//! What the README and the book show is what the program prints.
#![cfg(feature = "cli")]

use std::process::Command;

/// The lines of the `text` blocks of a page, without the one that names the device: that depends on the machine.
fn shown(page: &str) -> Vec<&str> {
    let blocks = page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest));
    blocks.flat_map(str::lines).filter(|line| !line.starts_with("  device")).collect()
}

#[test]
fn pages_show_what_the_demo_prints() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Command::new(env!("CARGO_BIN_EXE_hipverify")).arg("demo").current_dir(folder.path()).output().unwrap();
    assert_eq!(demo.status.code(), Some(0));
    let printed = String::from_utf8(demo.stdout).unwrap();
    for (page, text) in
        [("README.md", include_str!("../README.md")), ("docs/reading-a-report.md", include_str!("../docs/reading-a-report.md"))]
    {
        let lines = shown(text);
        assert!(lines.len() >= 9, "{page}: {lines:?}");
        for line in lines {
            assert!(printed.lines().any(|l| l == line), "{page} shows, and the program does not print:\n{line}\n{printed}");
        }
    }
}

/// The picture in the README has the lines of the README.
#[test]
fn the_picture_shows_the_verdict() {
    let picture = include_str!("../docs/verdict.svg").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let row = |line: &str| {
        Some(
            line.trim()
                .strip_prefix("<text ")?
                .split_once("><tspan ")?
                .1
                .split_once('>')?
                .1
                .strip_suffix("</text>")?
                .replace("</tspan>", ""),
        )
    };
    let drawn: Vec<String> = picture.lines().filter_map(row).collect();
    assert_eq!(drawn, shown(include_str!("../README.md")), "run: hipverify demo | cargo run --example svg > docs/verdict.svg");
}

/// Every relative link of the pages leads to a file.
#[test]
fn links_lead_somewhere() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    pages.extend(
        std::fs::read_dir(root.join("docs")).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "md")),
    );
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or(target);
            if file.is_empty() || file.starts_with("http") {
                continue;
            }
            let path = page.parent().unwrap().join(file);
            assert!(path.exists(), "{}: {target}", page.display());
        }
    }
}

/// Links of the README have a target there, and another one in the documentation of the crate, whose first page it is.
#[test]
fn links_of_the_readme_have_two_targets() {
    let (readme, crate_page) = (include_str!("../README.md"), include_str!("../src/lib.rs"));
    let labels: Vec<&str> = readme.split("][").skip(1).filter_map(|rest| rest.split(']').next()).collect();
    assert!(labels.len() > 9, "{labels:?}");
    for label in labels {
        let file = label.split('#').next().unwrap_or(label);
        assert!(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(), "{label}");
        assert!(readme.contains(&format!("\n[{label}]: {label}\n")), "README.md does not say where {label} is");
        let target = format!("//! [{label}]: https://docs.rs/crate/hipverify/latest/source/{label}\n");
        assert!(crate_page.contains(&target), "src/lib.rs does not say where {label} is");
    }
}

/// A page that nothing leads to is not read.
#[test]
fn the_index_names_every_page() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let index = std::fs::read_to_string(docs.join("README.md")).unwrap();
    for page in std::fs::read_dir(docs).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        // Pictures belong to the pages that show them.
        assert!(
            name == "README.md" || name.ends_with(".svg") || index.contains(&format!("]({name})")),
            "docs/README.md does not link to {name}"
        );
    }
}
