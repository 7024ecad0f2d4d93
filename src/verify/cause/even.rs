//! Whether errors are spread evenly: of about the same size in each row, and in each column.
//!
//! Rounding, and terms that are missing, are alike in all rows. A factor of each row, which is next to 1 in some and far from it in others, is not. The errors
//! of rows are compared as they are and over the root mean square reference of the row, since larger operands have larger errors: even is what is so in
//! one of the two ways.
//!
//! ```text
//! q = mean square error of each row, relative to that of all
//! even where the variance of q is at most 1/4 and twice what the spread of the squares within rows makes of it
//! ```

use super::sample::Sample;

/// Fewest rows, or columns, that are compared, and elements of each.
const LEAST: usize = 8;

/// Whether errors are of the same size in all rows, and in all columns.
pub(super) fn is_even(s: &Sample) -> bool {
    let columns = s.columns();
    let rows = s.elements() / columns;
    let of_rows = lines(s, rows, |index| index / columns);
    let of_columns = lines(s, columns, |index| index % columns);
    [of_rows, of_columns].iter().all(|lines| lines.len() < LEAST || spread_alike(lines, false) || spread_alike(lines, true))
}

/// Errors and references of each line that has enough of them.
fn lines(s: &Sample, count: usize, line: impl Fn(usize) -> usize) -> Vec<Vec<(f64, f64)>> {
    let mut lines = vec![Vec::new(); count];
    for i in 0..s.len() {
        let (e, r) = (s.result[i] - s.reference[i], s.reference[i]);
        if (e * r).is_finite() {
            lines[line(s.index(i))].push((e, r));
        }
    }
    lines.retain(|line| line.len() >= LEAST);
    lines
}

/// Whether the mean squares of lines differ by little more than chance makes them differ.
fn spread_alike(lines: &[Vec<(f64, f64)>], relative: bool) -> bool {
    let mean = |x: &mut dyn Iterator<Item = f64>, n: usize| x.sum::<f64>() / n as f64;
    // The mean square of each line, and the variance that it has by chance.
    let squares = lines.iter().map(|line| {
        let n = line.len();
        let scale = if relative { mean(&mut line.iter().map(|(_, r)| r * r), n) } else { 1.0 };
        let all = || line.iter().map(|(e, _)| e * e / scale);
        let square = mean(&mut all(), n);
        (square, mean(&mut all().map(|x| (x - square) * (x - square)), n) / (n - 1) as f64)
    });
    let squares: Vec<(f64, f64)> = squares.collect();
    let n = squares.len();
    let typical = mean(&mut squares.iter().map(|(q, _)| *q), n);
    let between = mean(&mut squares.iter().map(|(q, _)| (q - typical) * (q - typical)), n);
    let by_chance = mean(&mut squares.iter().map(|(_, v)| *v), n);
    between <= 0.25 * typical * typical + 2.0 * by_chance
}
