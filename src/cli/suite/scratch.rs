//! The folder in which the processes of cases have theirs: it goes with its owner, or with a signal that ends the program.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The folders that there are now.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Attempts to remove a folder into which a process may still write: it ends when this program has.
const ATTEMPTS: usize = 10;

/// A folder.
pub(super) struct Scratch(TempDir);

impl Scratch {
    pub(super) fn new() -> io::Result<Scratch> {
        let mut list = folders();
        let folder = tempfile::Builder::new().prefix("hipverify-suite-").tempdir()?;
        list.push(folder.path().to_owned());
        Ok(Scratch(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Listed until it is gone, whenever a signal comes.
        let _ = std::fs::remove_dir_all(self.0.path());
        folders().retain(|path| path != self.0.path());
    }
}

/// Holds the folders: what is recorded meanwhile was not computed while they were being removed. Once [`remove`] has begun this never returns.
pub(super) fn hold() -> impl Drop {
    folders()
}

/// Removes the folders, for a program that is about to be ended by a signal. The list stays locked, so that no folder appears between this and the end.
pub(in crate::cli) fn remove() {
    let list = folders();
    for path in list.iter() {
        // What cannot be removed cannot be helped here.
        let _ = (0..ATTEMPTS).find(|_| std::fs::remove_dir_all(path).is_ok());
    }
    std::mem::forget(list);
}

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}
