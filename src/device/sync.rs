//! What shared state is built on: the standard library's, for which the model tests (`tests/model`) put those of `loom`.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic};
