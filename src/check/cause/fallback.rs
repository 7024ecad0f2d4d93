//! What a comparison says, held against the operands: statistics of the errors alone fit mistakes that products exclude.

use super::hypotheses::in_steps;
use super::sample::Sample;
use super::{CheckCause, from};
use crate::dtype::DType;
use crate::verify::{Cause, Diagnosis};

/// What a comparison says, or that the cause is unknown, where operands are against it.
pub(super) fn unless_refuted(s: &Sample<'_>, found: CheckCause) -> CheckCause {
    let Some(diagnosis) = &found.compared else { return found };
    let possible = match diagnosis.cause {
        Cause::Terms { rank } => rank <= s.problem.terms(),
        Cause::AccumulatedIn { format } => is_of_that_size(s, format),
        Cause::Share { .. } => is_no_factor(s),
        _ => true,
    };
    if possible { found } else { from(&Diagnosis { cause: Cause::Unknown, explained: 0, ..diagnosis.clone() }) }
}

/// Whether sums in this format make errors as large, within a factor of 2, as those in another order have other partial sums. Errors of elements within
/// their bounds, which are not in the sample, are no less than 0, and no larger than those in it.
fn is_of_that_size(s: &Sample<'_>, format: DType) -> bool {
    let (errors, _) = in_steps(s, format);
    let square = errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64;
    (s.share * square).sqrt() <= 2.0 && square.sqrt() >= 0.5
}

/// Whether errors are other than a multiple of the sums. Missing terms are independent of the others, so that errors follow the whole by their share only.
/// Elements that the last function changed say nothing.
fn is_no_factor(s: &Sample<'_>) -> bool {
    let unchanged = |x: f64| s.last_of(x) == x;
    let plain = s.elements.iter().filter(|e| unchanged(e.result) && unchanged(s.before_last(e)));
    let pairs: Vec<(f64, f64)> = plain.map(|e| (e.result - e.reference, s.alpha * e.total())).collect();
    let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    let (errors, sums, common) = (sum(|(e, _)| e * e), sum(|(_, t)| t * t), sum(|(e, t)| e * t));
    common * common < 0.95 * errors * sums
}
