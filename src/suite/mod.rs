//! The replay of published measurements.

pub mod replay;
