//! Draws a verdict: reads what the program prints from standard input, writes the last verdict there as an SVG picture to standard output.
//!
//! `hipverify demo | cargo run --example svg > docs/verdict.svg`
//!
//! The line that names the device is left out: it depends on the machine.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::Read as _;

/// Of a character and of a line, in pixels, at a font size of 13.
const ADVANCE: f64 = 7.85;
const LINE: usize = 19;
const MARGIN: usize = 16;

const STYLE: &str = "\
    rect { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre }\n    \
    .label { fill: #59636e } .fail { fill: #c31d24; font-weight: 700 } .pass { fill: #1a7f37; font-weight: 700 }\n    \
    @media (prefers-color-scheme: dark) { rect { fill: #0d1117; stroke: #3d444d } text { fill: #f0f6fc } .label { fill: #9198a1 } .fail { fill: #ff7b72 } .pass { fill: #3fb950 } }";

fn main() -> Result<()> {
    let mut screen = String::new();
    std::io::stdin().read_to_string(&mut screen)?;
    let lines = verdict(&screen).context("no verdict on standard input: a line that begins with PASS or FAIL is looked for")?;
    print!("{}", picture(&lines));
    Ok(())
}

/// The lines of the last verdict.
fn verdict(screen: &str) -> Option<Vec<&str>> {
    let lines: Vec<&str> = screen.lines().collect();
    let first = lines.iter().rposition(|l| l.starts_with("PASS") || l.starts_with("FAIL"))?;
    let own = lines[first..].iter().enumerate().take_while(|(i, l)| *i == 0 || l.starts_with("  "));
    Some(own.map(|(_, l)| *l).filter(|l| !l.starts_with("  device")).collect())
}

fn picture(lines: &[&str]) -> String {
    let longest = lines.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let (width, height) = (2 * MARGIN + (longest as f64 * ADVANCE).ceil() as usize, 2 * MARGIN + lines.len() * LINE);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n"
    );
    let _ = writeln!(out, "  <title>{}</title>\n  <style>\n    {STYLE}\n  </style>", escaped(lines.first().unwrap_or(&"")));
    let _ = writeln!(out, "  <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>", width - 1, height - 1);
    for (i, line) in lines.iter().enumerate() {
        // The verdict's word, or a row's label with the blanks around it: columns up to the 13th.
        let at = if i == 0 { 4 } else { line.char_indices().nth(13).map_or(line.len(), |(at, _)| at) };
        let (head, rest) = line.split_at(at);
        let class = if i > 0 {
            "label"
        } else if head == "PASS" {
            "pass"
        } else {
            "fail"
        };
        let y = MARGIN + i * LINE + 14;
        let _ = writeln!(
            out,
            "  <text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\"><tspan class=\"{class}\">{}</tspan>{}</text>",
            escaped(head),
            escaped(rest)
        );
    }
    out + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
