//! A cache on disk of what hipRTC has compiled: without it, all kernels take about a minute and a half in every new process.
//!
//! `HIPVERIFY_CACHE_DIR` names the folder (`off` keeps nothing); the default is `hipverify` in `XDG_CACHE_HOME`, or else in `~/.cache`. An entry
//! is a file with the inputs (source, headers, options, versions) and the compiled image; its name is a hash of the
//! inputs. It is written under another name and renamed, so that no process reads half of it. An entry that is incomplete or was made from
//! other inputs is compiled again and replaced. Nothing here fails: without a cache, everything is compiled.

use super::HipDevice;
use crate::device::hash::hash_of;
use hipverify_sys::kernels::{HEADERS, Source, options};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first bytes of an entry; the last one counts its layouts.
const MAGIC: &[u8; 8] = b"hipvfy\0\x01";
/// Magic, length of the origin, length of the image, hash of both.
const HEAD: usize = 32;

/// The location of one compiled file.
pub(super) struct Entry {
    path: PathBuf,
    /// Everything that the image depends on.
    origin: Vec<u8>,
}

impl Entry {
    /// The location of `source` compiled for `device`; `None` without a cache.
    pub(super) fn of(device: &HipDevice, source: &Source) -> Option<Entry> {
        let folder = folder(|name| std::env::var_os(name))?;
        let runtime = device.runtime();
        let rtc = runtime.rtc().ok()?;
        let mut versions = [0; 2];
        // A runtime that will not say leaves zeros.
        let _ = (device.api().hipRuntimeGetVersion)(&mut versions[0]);
        let _ = (device.api().hipDriverGetVersion)(&mut versions[1]);
        let mut origin = format!("hipverify {}\nruntime {versions:?}\nhipRTC {:?}\n", env!("CARGO_PKG_VERSION"), rtc.version().ok());
        for option in options(device.arch()) {
            origin += &format!("{option}\n");
        }
        for (name, text) in std::iter::once((source.name, source.text)).chain(HEADERS.iter().map(|h| (h.name, h.text))) {
            // Lengths, so that no text can pass for another one.
            let _ = write!(origin, "{name} {}\n{text}", text.len());
        }
        let arch = device.arch().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Some(Entry::new(&folder, &format!("{}-{arch}", source.name.trim_end_matches(".hip").replace('/', "-")), origin.into_bytes()))
    }

    fn new(folder: &Path, label: &str, origin: Vec<u8>) -> Entry {
        Entry { path: folder.join(format!("{label}-{:016x}.bin", hash_of(&origin))), origin }
    }

    /// The image, if there is a complete one that was made from exactly this.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let mut bytes = fs::read(&self.path).ok()?;
        let head = self.head(bytes.get(HEAD + self.origin.len()..)?);
        let whole = bytes[..HEAD] == head && bytes[HEAD..].starts_with(&self.origin);
        whole.then(|| bytes.split_off(HEAD + self.origin.len()))
    }

    /// Keeps an image. A failure means that the next process compiles again.
    pub(super) fn write(&self, image: &[u8]) {
        // A name of this process and call, in the folder of the entry: renaming works within one file system only.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut name = OsString::from(&self.path);
        name.push(format!(".{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let part = PathBuf::from(name);
        if self.write_to(&part, image).and_then(|()| fs::rename(&part, &self.path)).is_err() {
            let _ = fs::remove_file(&part);
        }
    }

    fn write_to(&self, part: &Path, image: &[u8]) -> io::Result<()> {
        if let Some(folder) = part.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::File::create_new(part)?;
        file.write_all(&self.head(image))?;
        file.write_all(&self.origin)?;
        file.write_all(image)
    }

    fn head(&self, image: &[u8]) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        let both = hash_of(&self.origin).rotate_left(1) ^ hash_of(image);
        for (i, word) in [self.origin.len() as u64, image.len() as u64, both].into_iter().enumerate() {
            head[8 * (i + 1)..8 * (i + 2)].copy_from_slice(&word.to_le_bytes());
        }
        head
    }
}

/// The folder of the cache; `None` if it is off, or if there is no home directory.
fn folder(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    if let Some(named) = set("HIPVERIFY_CACHE_DIR") {
        return (named != "off").then(|| named.into());
    }
    // The specification has relative paths ignored.
    let xdg = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(set("HOME")?).join(".cache"));
    Some(xdg.or_else(home)?.join("hipverify"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_environment() {
        type Env = &'static [(&'static str, &'static str)];
        let cases: [(Env, Option<&str>); 8] = [
            (&[], None),
            (&[("HOME", "/h")], Some("/h/.cache/hipverify")),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], Some("/x/hipverify")),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")], Some("/h/.cache/hipverify")),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "")], Some("/h/.cache/hipverify")),
            (&[("HOME", "/h"), ("HIPVERIFY_CACHE_DIR", "/c")], Some("/c")),
            (&[("HOME", "/h"), ("HIPVERIFY_CACHE_DIR", "")], Some("/h/.cache/hipverify")),
            (&[("HOME", "/h"), ("HIPVERIFY_CACHE_DIR", "off")], None),
        ];
        for (env, expected) in cases {
            let get = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
            assert_eq!(folder(get).as_deref(), expected.map(Path::new), "{env:?}");
        }
    }

    #[test]
    fn entries_are_whole_or_absent() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().join("new/folder");
        let entry = Entry::new(&folder, "verify-gfx90a", b"source and options".to_vec());
        assert_eq!(entry.read(), None);
        let image: Vec<u8> = (0..1000u32).map(|i| (i * 7) as u8).collect();
        entry.write(&image);
        assert_eq!(entry.read().as_deref(), Some(&*image));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        let other = Entry { path: entry.path.clone(), origin: b"source and option5".to_vec() };
        assert_eq!(other.read(), None, "a hash is no proof");
        assert_ne!(Entry::new(&folder, "verify-gfx90a", other.origin.clone()).path, entry.path);

        let whole = fs::read(&entry.path).unwrap();
        for size in [0, 1, HEAD - 1, HEAD, HEAD + 18, whole.len() - 1] {
            fs::write(&entry.path, &whole[..size]).unwrap();
            assert_eq!(entry.read(), None, "cut to {size} bytes");
        }
        for at in [0, 7, 8, 16, 24, HEAD, HEAD + 18, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 4;
            fs::write(&entry.path, &changed).unwrap();
            assert_eq!(entry.read(), None, "byte {at} changed");
        }
        fs::write(&entry.path, [whole.as_slice(), b"x"].concat()).unwrap();
        assert_eq!(entry.read(), None, "a byte too many");
        entry.write(&image);
        assert_eq!(entry.read().as_deref(), Some(&*image), "and replaced");

        // A folder that cannot be made, and an entry that is a folder.
        let hopeless = Entry::new(&entry.path, "x", Vec::new());
        hopeless.write(&image);
        assert_eq!(hopeless.read(), None);
        let taken = Entry::new(&folder, "taken", Vec::new());
        fs::create_dir(&taken.path).unwrap();
        taken.write(&image);
        assert_eq!(taken.read(), None);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left beside them");
    }
}
