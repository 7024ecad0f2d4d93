//! One page of HTML that holds everything: style, script and data; it fetches nothing and works from a file.
//!
//! The table's data are one JSON document. What is shown of an opened case is a line of JSON of its own, read when it is opened, so that ten thousand cases
//! open at once. All text of a file reaches the page as JSON in which no `<` is left, or escaped; the script makes text nodes of it and never markup.

use super::comparison::{Change, Comparison};
use super::numbers::{Json, numbers, used};
use super::overview::{moment, verdict};
use super::run::{Run, Summary};
use super::{View, trend};
use crate::suite::record::CaseResult;
use crate::verify::{grouped, short};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};

const STYLE: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 3] = [include_str!("page/charts.js"), include_str!("page/panel.js"), include_str!("page/page.js")];

/// The number that every case with a limit has: the share of what is allowed that it uses.
const SHARE: &str = "share of limit";

/// What the table shows.
#[derive(Serialize)]
struct Data<'a> {
    kind: &'static str,
    runs: Vec<Summary<'a>>,
    /// In the order in which they sort.
    changes: Vec<&'static str>,
    axes: Vec<&'a str>,
    numbers: Vec<&'a str>,
    rows: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    index: usize,
    name: &'a str,
    groups: &'a [String],
    /// In the order of [`Data::axes`].
    axes: Vec<Option<&'a str>>,
    change: Option<&'static str>,
    /// What is demanded less than in the old run.
    loosened: Vec<String>,
    /// One a run.
    results: Vec<Option<Cell>>,
}

#[derive(Serialize)]
struct Cell {
    outcome: &'static str,
    ok: bool,
    seconds: f64,
    /// In the order of [`Data::numbers`].
    values: Vec<Option<Json>>,
}

/// A case: its result in every run, its change from the first of two, the results that its panel shows.
struct Case<'a> {
    name: &'a str,
    results: Vec<Option<&'a CaseResult>>,
    change: Option<Change>,
    loosened: Vec<String>,
}

impl<'a> Case<'a> {
    fn newest(&self) -> Option<&'a CaseResult> {
        self.results.iter().rev().find_map(|result| *result)
    }

    /// The newest result, and in a comparison the old one.
    fn details(&self) -> Vec<&'a CaseResult> {
        let old = if self.change.is_some() { self.results[0] } else { None };
        self.newest().into_iter().chain(old).collect()
    }
}

/// Writes the page.
pub(super) fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    match *view {
        View::Run(run) => {
            let cases =
                run.cases.iter().map(|case| Case { name: &case.case, results: vec![Some(case)], change: None, loosened: Vec::new() });
            page(out, "run", &[run], cases.collect())
        }
        View::Comparison { old, new } => {
            let comparison = Comparison::new(old, new);
            let cases = comparison.cases.iter().map(|case| Case {
                name: case.name,
                results: vec![case.old, case.new],
                change: Some(case.change),
                loosened: case.loosened.iter().map(ToString::to_string).collect(),
            });
            page(out, "comparison", &[old, new], cases.collect())
        }
        View::Trend(runs) => {
            let rows =
                trend::rows(runs).into_iter().map(|row| Case { name: row.name, results: row.results, change: None, loosened: Vec::new() });
            page(out, "trend", &runs.iter().collect::<Vec<_>>(), rows.collect())
        }
    }
}

fn page(out: &mut dyn Write, kind: &'static str, runs: &[&Run], cases: Vec<Case<'_>>) -> io::Result<()> {
    let Some(newest) = runs.last() else { return Ok(()) };
    let title = match kind {
        "run" => format!("{} {}", verdict(newest), newest.header.suite),
        kind => format!("{} {}: {kind} of {} runs", verdict(newest), newest.header.suite, runs.len()),
    };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
        escaped(&title),
        escaped(&title)
    )?;
    head(out, runs)?;
    out.write_all(BODY.as_bytes())?;
    out.write_all(b"<script type=\"application/json\" id=\"rows\">")?;
    json(out, &data(kind, runs, &cases))?;
    out.write_all(b"</script>\n<script type=\"application/json\" id=\"details\">\n")?;
    for case in &cases {
        json(out, &case.details())?;
        out.write_all(b"\n")?;
    }
    out.write_all(b"</script>\n<script>\n\"use strict\";\n")?;
    SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?;
    out.write_all(b"</script>\n</body>\n</html>\n")
}

const BODY: &str = r#"<main>
<noscript><p>The table of cases is drawn by the script of this page; without it, see the same report as text or CSV.</p></noscript>
<form id="filters" role="search" aria-label="Filters"></form>
<section id="cases" aria-label="Cases">
<nav aria-label="Pages"><span id="status" role="status"></span><span><button type="button" id="previous">Previous</button> <button type="button" id="next">Next</button></span></nav>
<table><caption>Open a case to see its details.</caption><thead><tr id="head"></tr></thead><tbody id="body"></tbody></table>
</section>
</main>
"#;

/// What the runs are, and how many cases of the newest ended how.
fn head(out: &mut dyn Write, runs: &[&Run]) -> io::Result<()> {
    out.write_all(b"<div class=\"runs\"><table><thead><tr>")?;
    for heading in ["run", "started", "cases", "unexpected", "seconds", "devices", "selection"] {
        write!(out, "<th scope=\"col\">{heading}</th>")?;
    }
    out.write_all(b"</tr></thead><tbody>\n")?;
    for run in runs {
        let summary = run.summary();
        let header = &run.header;
        let ended =
            if summary.complete { grouped(summary.ended as u64) } else { format!("{} of {}, incomplete", summary.ended, header.selected) };
        let selection = if header.selection.is_empty() { "all" } else { &header.selection };
        let (started, unexpected, seconds) = (moment(header.started), grouped(summary.unexpected as u64), short(summary.seconds, 3));
        let cells = [&run.source, &started, &ended, &unexpected, &seconds, &header.devices.join(", "), selection];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        writeln!(out, "<tr>{cells}</tr>")?;
    }
    out.write_all(b"</tbody></table></div>\n<ul class=\"outcomes\">\n")?;
    let summary = runs.last().map(|run| run.summary());
    let unexpected = summary.iter().map(|s| ("unexpected", "fail", s.unexpected));
    let counts = summary.iter().flat_map(|s| s.outcomes.iter().map(|&(word, n)| (word, word, n)));
    for (word, class, n) in unexpected.chain(counts) {
        let n = grouped(n as u64);
        writeln!(
            out,
            "<li><button type=\"button\" data-outcome=\"{word}\" aria-pressed=\"false\"><b>{n}</b><span class=\"{class}\">{word}</span></button></li>"
        )?;
    }
    out.write_all(b"</ul>\n</header>\n")
}

fn data<'a>(kind: &'static str, runs: &[&'a Run], cases: &[Case<'a>]) -> Data<'a> {
    let mut axes = Vec::new();
    let (mut names, mut columns) = (vec![SHARE], HashMap::new());
    for case in cases.iter().flat_map(|case| case.results.iter().flatten()) {
        for (axis, _) in &case.axes {
            if !axes.contains(&axis.as_str()) {
                axes.push(axis.as_str());
            }
        }
        for number in numbers(case) {
            columns.entry(number.name).or_insert_with(|| {
                names.push(number.name);
                names.len() - 1
            });
        }
    }
    let rows = cases.iter().enumerate().filter_map(|(index, case)| {
        let newest = case.newest()?;
        let axis = |name: &&str| newest.axes.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.as_str());
        Some(Row {
            index,
            name: case.name,
            groups: &newest.groups,
            axes: axes.iter().map(axis).collect(),
            change: case.change.map(Change::words),
            loosened: case.loosened.clone(),
            results: case.results.iter().map(|result| result.map(|result| cell(result, &columns))).collect(),
        })
    });
    let changes = Change::ALL.iter().map(|change| change.words()).collect();
    Data { kind, runs: runs.iter().map(|run| run.summary()).collect(), changes, rows: rows.collect(), axes, numbers: names }
}

fn cell(case: &CaseResult, columns: &HashMap<&str, usize>) -> Cell {
    let mut values = vec![None; columns.len() + 1];
    values[0] = used(case).map(Json);
    for number in numbers(case) {
        if let Some(place) = columns.get(number.name).and_then(|&column| values.get_mut(column)) {
            *place = Some(Json(number.value));
        }
    }
    Cell { outcome: case.outcome.word(), ok: case.ok, seconds: case.seconds, values }
}

/// JSON inside a script element: without `<` nothing in it can end the element.
fn json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string(value)?;
    out.write_all(text.replace('<', "\\u003c").as_bytes())
}

/// Text of an element or an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::report::samples;

    /// Whatever stands in a file of results, the page has the tags that it has without.
    #[test]
    fn names_are_no_markup() {
        let page = |name: &str| {
            let mut run = samples::run(name, 3);
            (run.header.suite, run.header.selection, run.header.devices) = (name.to_owned(), name.to_owned(), vec![name.to_owned()]);
            for case in &mut run.cases {
                (case.command, case.device, case.axes[0].0, case.axes[0].1) =
                    (name.to_owned(), name.to_owned(), name.to_owned(), name.to_owned());
                (case.reasons, case.groups) = (vec![name.to_owned()], vec![name.to_owned()]);
            }
            let mut out = Vec::new();
            View::Run(&run).write(crate::suite::report::ReportFormat::Html, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let plain = page("x").matches('<').count();
        for name in ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><b>", "<!--", "&lt;", "'"] {
            assert_eq!(page(name).matches('<').count(), plain, "{name}");
        }
        assert!(!page("\" onload=\"").contains("\" onload=\"\""), "a quote ends no attribute");
        assert!(
            !page("x").contains("http://") || page("x").matches("http://").count() == 1,
            "but for the name space of SVG the page names no address"
        );
    }

    #[test]
    fn details_are_a_line_a_case() {
        let (old, new) = (samples::run("old", 3), samples::run("new", 2));
        for (view, lengths) in [(View::Run(&old), vec![1, 1, 1]), (View::Comparison { old: &old, new: &new }, vec![2, 2, 2])] {
            let mut out = Vec::new();
            view.write(crate::suite::report::ReportFormat::Html, &mut out).unwrap();
            let page = String::from_utf8(out).unwrap();
            let details = page.split("id=\"details\">\n").nth(1).unwrap().split("</script>").next().unwrap();
            let found: Vec<usize> = details.lines().map(|line| serde_json::from_str::<Vec<CaseResult>>(line).unwrap().len()).collect();
            assert_eq!(found, lengths, "the newest, and the old one where two runs are compared");
        }
    }
}
