//! The synchronization types that shared state is built on: those of the standard library, which the model tests (`tests/model`) replace by those of `loom`.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic};
