//! The replay of published measurements.
