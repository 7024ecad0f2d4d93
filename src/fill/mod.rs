//! Generators: data as a function of (seed, stream, index) alone.
