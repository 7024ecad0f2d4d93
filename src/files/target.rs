//! Where output goes: to a temporary file beside its target, renamed when it is complete; `-` is standard output.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary files that there are now.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the files that are being written, for a program that is about to be ended by a signal. Nothing can be written afterwards: the list stays
/// locked, so that no file appears between this and the end.
pub fn remove_unfinished() {
    let list = unfinished();
    for path in list.iter() {
        // What cannot be removed cannot be helped here.
        let _ = std::fs::remove_file(path);
    }
    std::mem::forget(list);
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a file through `write`. An existing one is replaced, and only by a complete one; `-` is standard output, where a reader that leaves is no
/// error.
///
/// # Errors
/// [`Error::File`] when it cannot be written.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let buffered = |out: &mut dyn Write| -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        write(&mut out)?;
        out.flush()
    };
    let done = match direct(path) {
        Some(Ok(mut out)) => match buffered(&mut *out) {
            Err(e) if path == Path::new("-") && e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        },
        Some(Err(e)) => Err(e),
        None => Unfinished::beside(path).and_then(|unfinished| {
            buffered(&mut unfinished.file())?;
            unfinished.finish()
        }),
    };
    done.map_err(|e| fail(path, &e))
}

/// What cannot be replaced: standard output, a device, a pipe. A folder fails here with the system's words.
pub(super) fn direct(path: &Path) -> Option<io::Result<Box<dyn Write>>> {
    if path == Path::new("-") {
        return Some(Ok(Box::new(io::stdout().lock())));
    }
    let special = std::fs::metadata(path).is_ok_and(|m| !m.is_file());
    special.then(|| File::options().write(true).open(path).map(|file| Box::new(file) as Box<dyn Write>))
}

/// An error about a file, without the name of a temporary one: what names a path is told by its kind.
pub(super) fn fail(path: &Path, e: &io::Error) -> Error {
    let reason = if e.get_ref().is_some() { io::Error::from(e.kind()).to_string() } else { e.to_string() };
    let path = if path == Path::new("-") { "standard output".to_owned() } else { path.display().to_string() };
    Error::File { path, reason }
}

/// A temporary file beside a target, which is removed unless it is finished.
pub(super) struct Unfinished {
    temporary: tempfile::NamedTempFile,
    target: PathBuf,
    _listed: Listed,
}

/// An entry in the list of temporary files, for as long as this lives.
struct Listed(PathBuf);

impl Drop for Listed {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.0);
    }
}

impl Unfinished {
    pub(super) fn beside(target: &Path) -> io::Result<Unfinished> {
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::metadata(folder)?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            // What open(2) would give a new file; the umask still applies.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        // Locked while the file is made: none is ever missing from the list.
        let mut list = unfinished();
        let temporary = builder.prefix(".hipverify-").tempfile_in(folder)?;
        let listed = Listed(temporary.path().to_owned());
        list.push(listed.0.clone());
        Ok(Unfinished { temporary, target: target.to_owned(), _listed: listed })
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Gives the file its name.
    pub(super) fn finish(self) -> io::Result<()> {
        self.temporary.persist(&self.target).map(drop).map_err(|e| e.error)
    }
}
