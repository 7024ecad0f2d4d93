//! The verdict: compare a result with a reference.

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Report {}
impl std::fmt::Display for Report {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
