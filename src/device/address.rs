//! Addresses that threads may pass to each other.

use std::fmt;

/// The address of memory, of the host or of a GPU, or of something that the runtime keeps.
///
/// To safe code it is a number. What uses the thing at the address is `unsafe`, and has to say there why it may, also from several threads.
pub(crate) struct Address<T>(*mut T);

// SAFETY: no safe code reaches what lies at the address.
unsafe impl<T> Send for Address<T> {}
// SAFETY: a shared address gives a copy of itself, through which no safe code reaches what lies there.
unsafe impl<T> Sync for Address<T> {}

impl<T> Address<T> {
    pub(crate) const fn new(ptr: *mut T) -> Address<T> {
        Address(ptr)
    }

    pub(crate) const fn get(self) -> *mut T {
        self.0
    }
}

impl<T> Clone for Address<T> {
    fn clone(&self) -> Address<T> {
        *self
    }
}

impl<T> Copy for Address<T> {}

impl<T> fmt::Debug for Address<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
