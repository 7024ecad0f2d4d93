//! The package has tests only: `tests/ui.rs`.
