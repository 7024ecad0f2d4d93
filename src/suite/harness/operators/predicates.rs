//! Questions to single elements, whose results are 1 for yes and 0 for no; they have no gradients.

/// A question to one or two elements.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Predicate {
    One(fn(f64) -> bool),
    Two(fn(f64, f64) -> bool),
}

/// Names and definitions. Comparisons are those of IEEE 754: with a NaN only `not_equal` holds, and zeros of both signs are equal.
pub(super) const PREDICATES: [(&str, Predicate); 9] = [
    ("less_than", Predicate::Two(|a, b| a < b)),
    ("less_equal", Predicate::Two(|a, b| a <= b)),
    ("greater_than", Predicate::Two(|a, b| a > b)),
    ("greater_equal", Predicate::Two(|a, b| a >= b)),
    ("equal", Predicate::Two(|a, b| a == b)),
    ("not_equal", Predicate::Two(|a, b| a != b)),
    ("isnan", Predicate::One(f64::is_nan)),
    ("isinf", Predicate::One(f64::is_infinite)),
    ("isfinite", Predicate::One(f64::is_finite)),
];
