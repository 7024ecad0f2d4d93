//! The file of golden results: a TOML table for each architecture, in it a line for each tensor, both sorted by name, so that a change of one tensor is a change of one line.
//!
//! ```toml
//! golden = 1
//!
//! [gfx90a]
//! device = "AMD Instinct MI210"
//!
//! [gfx90a.tensors]
//! "layer/w" = { dtype = "f16", shape = [64, 64], hash = "ba6c73b2b7dd4d0e", min = -0.99, max = 0.98, mean = 0.001, mean_abs = 0.5, rms = 0.577 }
//! ```
//!
//! `hash` is that of the elements' bytes in row-major order, little-endian. Statistics are of finite elements, and absent where there is none, or where sums
//! are beyond f64; counts that are 0 are absent, too.

use super::super::screen;
use super::super::stats::{Stats, dense};
use crate::device::TensorRef;
use crate::device::hash::hash_of;
use crate::dtype::DType;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The version of the file's form.
const VERSION: u32 = 1;

/// The most bytes of a file: some hundred thousand tensors. Devices and pipes may have no end.
const MOST: u64 = 1 << 27;

/// Its key, which no architecture can be called.
pub(super) const VERSION_KEY: &str = "golden";

/// What the file says about itself to those who open it.
const HEAD: &str = "\
# Golden results: `hipverify golden check` holds tensors against them, `hipverify golden record` writes a table anew. One line a tensor.
";

/// Golden results by architecture.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Golden(pub BTreeMap<String, Recorded>);

/// What was recorded of one architecture.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    /// The device that computed, where that is told.
    pub device: Option<String>,
    /// Tensors by name.
    #[serde(default)]
    pub tensors: BTreeMap<String, Entry>,
}

/// What was recorded of a tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub dtype: String,
    pub shape: Vec<usize>,
    /// 16 hexadecimal digits.
    pub hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_abs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rms: Option<f64>,
    #[serde(default)]
    pub inf: u64,
    #[serde(default)]
    pub nan: u64,
}

impl Entry {
    /// Of a tensor on the host; a copy in row-major order takes at most `max_memory` bytes.
    pub(super) fn of(tensor: &TensorRef<'_>, max_memory: u64) -> Result<Entry, String> {
        let hash = hash_of(&dense(tensor, max_memory)?);
        let stats = Stats::of(tensor, |_| ());
        let classes = stats.classes;
        // Sums of f64 elements may be beyond f64 themselves.
        let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
        Ok(Entry {
            dtype: tensor.dtype().name().to_owned(),
            shape: tensor.layout().shape().to_vec(),
            hash: format!("{hash:016x}"),
            min: stats.min.map(|x| x.value),
            max: stats.max.map(|x| x.value),
            mean: finite(stats.mean()),
            mean_abs: finite(stats.mean_abs()),
            rms: finite(stats.rms()),
            inf: classes.positive_infinity + classes.negative_infinity,
            nan: classes.nan,
        })
    }

    /// The statistics by name.
    pub(super) fn statistics(&self) -> [(&'static str, Option<f64>); 5] {
        [("min", self.min), ("max", self.max), ("mean", self.mean), ("mean_abs", self.mean_abs), ("rms", self.rms)]
    }

    /// Format and shape, as reports have them.
    pub(super) fn kind(&self) -> String {
        format!("{}{}", self.dtype, screen::shape(&self.shape))
    }

    fn line(&self) -> String {
        let mut line = format!("{{ dtype = {}, shape = {:?}, hash = {}", quoted(&self.dtype), self.shape, quoted(&self.hash));
        for (name, value) in self.statistics() {
            // The shortest digits that give the same number again, with a point or an exponent as TOML's floats have.
            let _ = value.map(|value| write!(line, ", {name} = {value:?}"));
        }
        for (name, count) in [("inf", self.inf), ("nan", self.nan)] {
            let _ = (count > 0).then(|| write!(line, ", {name} = {count}"));
        }
        line + " }"
    }
}

/// A text as a basic string of TOML, on one line, which keys may be as well.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\U{:08X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

impl Golden {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Golden> {
        let read = || -> Result<Golden> {
            let mut bytes = Vec::new();
            File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
            ensure!(bytes.len() as u64 <= MOST, "more than {MOST} bytes, the limit of a file of golden results");
            let Ok(text) = std::str::from_utf8(&bytes) else { bail!("not a file of golden results, which are text") };
            Golden::parse(text)
        };
        read().with_context(|| path.display().to_string())
    }

    /// Reads a file, or gives nothing where there is none: no file, or a device or a pipe to write to.
    pub(super) fn read_or_empty(path: &Path) -> Result<Golden> {
        if path.try_exists()? && (path.is_file() || path.is_dir()) { Golden::read(path) } else { Ok(Golden::default()) }
    }

    pub(super) fn parse(text: &str) -> Result<Golden> {
        #[derive(Deserialize)]
        struct Document {
            golden: u32,
            #[serde(flatten)]
            tables: BTreeMap<String, toml::Value>,
        }
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let document: Document =
            toml::from_str(text).map_err(|e| anyhow::anyhow!("line {}: {}", line(e.span().map_or(0, |span| span.start)), e.message()))?;
        if document.golden != VERSION {
            bail!("golden = {}: this program reads golden = {VERSION}", document.golden);
        }
        let mut golden = BTreeMap::new();
        for (arch, table) in document.tables {
            let recorded: Recorded = table.try_into().map_err(|e: toml::de::Error| anyhow::anyhow!("[{arch}]: {}", e.message()))?;
            for (name, entry) in &recorded.tensors {
                entry.check().with_context(|| format!("[{arch}.tensors] {name}"))?;
            }
            golden.insert(arch, recorded);
        }
        Ok(Golden(golden))
    }

    /// The file's text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEAD}golden = {VERSION}\n");
        for (arch, recorded) in &self.0 {
            let arch = quoted_key(arch);
            let device = recorded.device.as_ref().map_or(String::new(), |device| format!("device = {}\n", quoted(device)));
            let _ = write!(text, "\n[{arch}]\n{device}\n[{arch}.tensors]\n");
            for (name, entry) in &recorded.tensors {
                let _ = writeln!(text, "{} = {}", quoted(name), entry.line());
            }
        }
        text
    }
}

impl Entry {
    /// That what a file says is what this program writes.
    fn check(&self) -> Result<()> {
        self.dtype.parse::<DType>()?;
        if self.hash.len() != 16 || !self.hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            bail!("hash = {}: 16 hexadecimal digits in lower case are wanted", quoted(&self.hash));
        }
        match self.statistics().iter().find(|(_, value)| value.is_some_and(|value| !value.is_finite())) {
            Some((name, _)) => bail!("{name} is not finite"),
            None => Ok(()),
        }
    }
}

/// A key: bare where TOML allows that.
fn quoted_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if bare { key.to_owned() } else { quoted(key) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Layout;

    fn entry(values: &[f32]) -> Entry {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Entry::of(&TensorRef::from_host_bytes(&bytes, DType::F32, Layout::contiguous(&[values.len()]).unwrap()).unwrap(), 0).unwrap()
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let bytes: Vec<u8> = [1e308f64, 1e308].iter().flat_map(|x| x.to_le_bytes()).collect();
        let vast = Entry::of(&TensorRef::from_host_bytes(&bytes, DType::F64, Layout::contiguous(&[2]).unwrap()).unwrap(), 0).unwrap();
        assert_eq!((vast.max, vast.mean, vast.mean_abs, vast.rms), (Some(1e308), None, None, None), "sums beyond f64");
        let tensors = [
            ("w", entry(&[1e-7, -0.1, 3.0])),
            ("a \"b\"\n", entry(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30])),
            ("none", entry(&[])),
            ("vast", vast.clone()),
        ];
        let recorded = Recorded { device: Some("GPU \"0\"".to_owned()), tensors: tensors.map(|(n, e)| (n.to_owned(), e)).into() };
        let golden = Golden([("gfx90a".to_owned(), recorded), ("sm 90".to_owned(), Recorded::default())].into());
        let text = golden.text();
        assert_eq!(Golden::parse(&text).unwrap(), golden, "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("hash")).collect();
        assert!(
            lines.len() == 4 && lines[0] > "\"a" && lines[3].starts_with("\"w\" = { dtype = \"f32\", shape = [3], hash = \""),
            "{text}"
        );
        assert!(lines[0].ends_with("inf = 2, nan = 1 }") && !lines[3].contains("nan"), "{text}");
        assert!(!lines[1].contains("min"), "no elements have no statistics: {text}");
    }

    #[test]
    fn a_hash_is_that_of_the_elements_in_row_major_order() {
        let [dense, transposed] = [[1, 2, 3, 4, 5, 6u8], [1, 4, 2, 5, 3, 6]];
        let of = |bytes: &[u8], strides: &[isize], max_memory| {
            Entry::of(&TensorRef::from_host_bytes(bytes, DType::U8, Layout::strided(&[2, 3], strides, 0).unwrap()).unwrap(), max_memory)
        };
        let (rows, columns) = (of(&dense, &[3, 1], 0).unwrap(), of(&transposed, &[1, 2], 6).unwrap());
        assert_eq!(rows, columns);
        assert_ne!(rows.hash, of(&transposed, &[3, 1], 0).unwrap().hash);
        assert_eq!(rows.hash, format!("{:016x}", hash_of(&dense)));
        let error = of(&transposed, &[1, 2], 5).unwrap_err();
        assert!(error.contains("shape [2, 3] of u8 in row-major order needs a copy of more than 5 bytes"), "{error}");
        // What lies behind the last element is no part of it.
        let three = |bytes: &[u8]| {
            Entry::of(&TensorRef::from_host_bytes(bytes, DType::I4, Layout::contiguous(&[3]).unwrap()).unwrap(), 2).unwrap().hash
        };
        assert_eq!(three(&[0x21, 0xf3]), three(&[0x21, 0x03]));
    }

    #[test]
    fn files_that_are_none_are_refused() {
        let line = "golden = 1\n[a.tensors]\nw = { dtype = 'f32', shape = [1], hash = '0123456789abcdef' }";
        assert!(Golden::parse(line).is_ok());
        for (text, words) in [
            ("", "missing field `golden`"),
            ("golden = 2", "golden = 2: this program reads golden = 1"),
            ("golden = 1\n[a\n", "line 2"),
            ("golden = 1\n[a]\ncolour = 'red'", "[a]: unknown field `colour`"),
            (&line.replace("f32", "f33"), "[a.tensors] w: unknown dtype"),
            (&line.replace("cdef", "cde"), "16 hexadecimal digits"),
            (&line.replace("cdef", "CDEF"), "16 hexadecimal digits"),
            (&line.replace("[1]", "[-1]"), "invalid value"),
            (&line.replace(", hash = '0123456789abcdef'", ""), "missing field `hash`"),
            (&line.replace(" }", ", rms = inf }"), "rms is not finite"),
        ] {
            let error = format!("{:#}", Golden::parse(text).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
