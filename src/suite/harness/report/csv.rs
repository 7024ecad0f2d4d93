//! CSV as RFC 4180 has it: a line a case, columns for its axes and its numbers. Columns that files name begin with `axis.`, `metric.`, `limit.`,
//! so that no name takes another's place.

use super::comparison::Comparison;
use super::document::plain;
use super::numbers::numbers;
use super::run::Run;
use crate::suite::record::CaseResult;
use std::io::{self, Write};

/// What every case has.
const FIXED: [&str; 9] = ["case", "outcome", "expected", "ok", "groups", "device", "seconds", "reasons", "command"];

/// The cases of runs, one run after the other; where there are several, each line says which one.
pub(super) fn runs(out: &mut dyn Write, runs: &[&Run]) -> io::Result<()> {
    let cases = || runs.iter().flat_map(|run| &run.cases);
    let axes = names(cases().flat_map(|case| case.axes.iter().map(|(name, _)| name.as_str())));
    let values = names(cases().flat_map(|case| numbers(case).into_iter().map(|number| number.name)));
    let limits = names(cases().flat_map(|case| case.metrics.iter().filter(|m| m.limit.is_some()).map(|m| m.name.as_str())));
    let of_run: &[&str] = if runs.len() > 1 { &["run", "started"] } else { &[] };
    let named = |prefix: &'static str, names: &[&str]| names.iter().map(|name| format!("{prefix}.{name}")).collect::<Vec<_>>();
    let mut head: Vec<String> = of_run.iter().chain(&FIXED).map(|&name| name.to_owned()).collect();
    head.extend([named("axis", &axes), named("metric", &values), named("limit", &limits)].concat());
    line(out, head.iter().map(String::as_str))?;
    for run in runs {
        for case in &run.cases {
            let mut cells = if of_run.is_empty() { Vec::new() } else { vec![run.source.clone(), run.header.started.to_string()] };
            cells.extend(fixed(case));
            let axis = |name: &&str| case.axes.iter().find(|(axis, _)| axis == name).map_or(String::new(), |(_, value)| value.clone());
            cells.extend(axes.iter().map(axis));
            let all = numbers(case);
            let of = |name: &str| all.iter().find(|number| number.name == name);
            cells.extend(values.iter().map(|name| optional(of(name).map(|number| number.value))));
            cells.extend(limits.iter().map(|name| optional(of(name).and_then(|number| number.limit))));
            line(out, cells.iter().map(String::as_str))?;
        }
    }
    Ok(())
}

/// The cases of two runs, with the numbers of both.
pub(super) fn comparison(out: &mut dyn Write, comparison: &Comparison<'_>) -> io::Result<()> {
    let both = || comparison.old.cases.iter().chain(&comparison.new.cases);
    let values = names(both().flat_map(|case| numbers(case).into_iter().map(|number| number.name)));
    let mut head: Vec<String> = ["case", "change", "old.outcome", "new.outcome", "old.seconds", "new.seconds"].map(str::to_owned).to_vec();
    head.extend(values.iter().flat_map(|name| [format!("old.metric.{name}"), format!("new.metric.{name}")]));
    line(out, head.iter().map(String::as_str))?;
    for case in &comparison.cases {
        let sides = [case.old, case.new];
        let mut cells = vec![case.name.to_owned(), case.change.words().to_owned()];
        cells.extend(sides.map(|side| side.map_or("", |case| case.outcome.word()).to_owned()));
        cells.extend(sides.map(|side| optional(side.map(|case| case.seconds))));
        let value = |side: Option<&CaseResult>, name| {
            side.and_then(|case| numbers(case).into_iter().find(|number| number.name == name).map(|number| number.value))
        };
        cells.extend(values.iter().flat_map(|name| sides.map(|side| optional(value(side, *name)))));
        line(out, cells.iter().map(String::as_str))?;
    }
    Ok(())
}

fn fixed(case: &CaseResult) -> [String; 9] {
    [
        case.case.clone(),
        case.outcome.word().to_owned(),
        format!("{:?}", case.expected).to_lowercase(),
        case.ok.to_string(),
        case.groups.join(" "),
        case.device.clone(),
        case.seconds.to_string(),
        case.why().join("; "),
        case.command.clone(),
    ]
}

/// A number in the fewest digits that tell it from all others; nothing where there is none.
fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |x| format!("{x:?}"))
}

/// Each name once, in the order of their first occurrence.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = std::collections::HashSet::new();
    all.filter(|name| seen.insert(*name)).collect()
}

fn line<'a>(out: &mut dyn Write, cells: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let quoted: Vec<String> = cells.map(quoted).collect();
    write!(out, "{}\r\n", quoted.join(","))
}

/// A cell without what a terminal would obey, as in the other reports; lines and tabs stay, which a quoted cell may have.
fn quoted(cell: &str) -> String {
    let kept = |c: char| matches!(c, '\n' | '\t');
    let cell: String = cell
        .split_inclusive(kept)
        .map(|part| part.strip_suffix(kept).map_or(plain(part), |text| plain(text) + &part[text.len()..]))
        .collect();
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::MetricValue;
    use crate::suite::report::samples;

    fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Vec<String> {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("\r\n"));
        text.trim_end().split("\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn a_line_a_case() {
        let mut run = samples::run("a", 3);
        run.cases[0].metrics = vec![MetricValue { name: "rms".to_owned(), value: f64::INFINITY, limit: Some(0.5) }];
        run.cases[1].case = "two, \"three\"\nfour".to_owned();
        let lines = written(|out| runs(out, &[&run]));
        let head = "case,outcome,expected,ok,groups,device,seconds,reasons,command,axis.type,axis.size,\
             metric.rms,metric.mismatches,metric.ratio,metric.max_abs,metric.max_rel,metric.max_eps,limit.rms";
        assert_eq!(lines[0], head);
        assert_eq!(
            lines[1],
            "gemm/f16/0,pass,pass,true,nightly,\"host, 2 threads\",0.25,,hipverify suite run samples.toml --filter =gemm/f16/0,f16,0,inf,,,,,,0.5"
        );
        assert!(lines[2].starts_with("\"two, \"\"three\"\"\nfour\",pass,"), "{}", lines[2]);
        assert_eq!(written(|out| runs(out, &[&run, &run])).len(), 7, "the cases of both");
    }

    /// A program's output may be anything.
    #[test]
    fn nothing_in_a_cell_moves_the_cursor() {
        for (cell, written) in [
            ("plain, ä", "\"plain, ä\""),
            ("a\u{1b}[31mb\u{7}", "a\\u{1b}[31mb\\u{7}"),
            ("one\r\n\ttwo\u{9b}", "\"one\\r\n\ttwo\\u{9b}\""),
            ("\u{202e}ssap", "\\u{202e}ssap"),
            ("\n", "\"\n\""),
            ("", ""),
        ] {
            assert_eq!(quoted(cell), written, "{cell:?}");
        }
    }

    #[test]
    fn two_runs_are_side_by_side() {
        let (old, new) = (samples::run("a", 2), samples::run("b", 3));
        let lines = written(|out| comparison(out, &Comparison::new(&old, &new)));
        assert!(
            lines[0]
                .starts_with("case,change,old.outcome,new.outcome,old.seconds,new.seconds,old.metric.mismatches,new.metric.mismatches,")
        );
        assert_eq!(lines[1], "gemm/f16/0,same,pass,pass,0.25,0.25,,,,,,,,,,,,");
        assert_eq!(lines[3], "gemm/f16/2,new failure,,fail,,0.25,,2.0,,1.5,,0.5,,0.0,,0.0,,0.001");
    }
}
