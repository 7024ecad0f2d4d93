//! What is wrong with a kernel.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The code with which the launch's stream fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An access outside of memory: `hipErrorIllegalAddress`.
    Memory,
    /// Anything else: `hipErrorLaunchFailure`.
    Launch,
}

/// What went wrong, where.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn memory(text: String) -> Finding {
        Finding { kind: Kind::Memory, text }
    }

    /// The same with a place in the source text, if there is one.
    pub(crate) fn at(self, place: &str) -> Finding {
        if place.is_empty() { self } else { Finding { text: format!("{}, at {place}", self.text), ..self } }
    }

    pub(crate) fn launch(text: String) -> Finding {
        Finding { kind: Kind::Launch, text }
    }
}

/// All findings of the process, one line each.
pub(crate) fn all() -> MutexGuard<'static, Vec<String>> {
    static ALL: Mutex<Vec<String>> = Mutex::new(Vec::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}
