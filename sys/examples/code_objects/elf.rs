//! Objects in files, and what their metadata say of kernels: a MessagePack map in a note, described in LLVM's user guide for the AMDGPU backend.

use crate::Result;
use std::collections::BTreeMap;

/// What the metadata say of one kernel.
#[derive(Debug, Default)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) numbers: BTreeMap<String, u64>,
}

/// The ELF objects in a file: itself, or those of an offload bundle.
pub(crate) fn elves(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    if !bytes.starts_with(BUNDLE) {
        return Ok(vec![bytes]);
    }
    let mut at = BUNDLE.len();
    let mut next = |bytes: &[u8]| -> Result<usize> {
        at += 8;
        number(bytes, at - 8, 8)
    };
    let count = next(bytes)?;
    let mut out = Vec::new();
    let mut skipped = 0;
    for _ in 0..count {
        // Names follow their entries: what was read so far is `skipped` bytes behind.
        let rest = bytes.get(skipped..).ok_or("the bundle's table is cut short")?;
        let (offset, size, name) = (next(rest)?, next(rest)?, next(rest)?);
        skipped += name;
        let object = bytes.get(offset..offset.saturating_add(size)).ok_or("the bundle is cut short")?;
        // The entry of the host is empty.
        if !object.is_empty() {
            out.push(object);
        }
    }
    Ok(out)
}

/// The target and the kernels that an object's metadata note tells of.
pub(crate) fn metadata(elf: &[u8]) -> Result<(String, Vec<Kernel>)> {
    const SHT_NOTE: usize = 7;
    const NT_AMDGPU_METADATA: usize = 32;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return Err("neither a little-endian ELF64 object nor a bundle of them".to_owned());
    }
    let (table, size, count) = (number(elf, 40, 8)?, number(elf, 58, 2)?, number(elf, 60, 2)?);
    for section in (0..count).map(|i| table + i * size) {
        if number(elf, section + 4, 4)? != SHT_NOTE {
            continue;
        }
        let (mut at, length) = (number(elf, section + 24, 8)?, number(elf, section + 32, 8)?);
        let end = at + length;
        while at + 12 <= end {
            let (name, text, kind) = (number(elf, at, 4)?, number(elf, at + 4, 4)?, number(elf, at + 8, 4)?);
            let start = at + 12 + name.next_multiple_of(4);
            if kind == NT_AMDGPU_METADATA {
                let note = elf.get(start..start + text).ok_or("the note is cut short")?;
                let mut reader = Pack { bytes: note, at: 0 };
                return summary(&reader.value()?);
            }
            at = start + text.next_multiple_of(4);
        }
    }
    Err("no metadata note".to_owned())
}

fn summary(note: &Value) -> Result<(String, Vec<Kernel>)> {
    let Value::Map(fields) = note else { return Err("the metadata are no map".to_owned()) };
    let target = match fields.get("amdhsa.target") {
        Some(Value::Text(t)) => t.rsplit("--").next().unwrap_or(t).split(':').next().unwrap_or_default().to_owned(),
        _ => return Err("the metadata name no target".to_owned()),
    };
    let Some(Value::List(list)) = fields.get("amdhsa.kernels") else { return Err("the metadata list no kernels".to_owned()) };
    let kernel = |v: &Value| -> Kernel {
        let mut kernel = Kernel::default();
        if let Value::Map(fields) = v {
            for (key, value) in fields {
                match value {
                    Value::Text(t) if key == ".name" => kernel.name.clone_from(t),
                    Value::Number(n) => drop(kernel.numbers.insert(key.clone(), *n)),
                    _ => {}
                }
            }
        }
        kernel
    };
    Ok((target, list.iter().map(kernel).collect()))
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Result<usize> {
    let field = bytes.get(at..at + width).ok_or_else(|| format!("cut short at byte {at}"))?;
    Ok(field.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
}

/// The part of MessagePack that these notes use.
#[derive(Debug)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
    Other,
}

struct Pack<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Pack<'_> {
    fn take(&mut self, n: usize) -> Result<&[u8]> {
        let part = self.bytes.get(self.at..self.at + n).ok_or("the metadata are cut short")?;
        self.at += n;
        Ok(part)
    }

    /// A big-endian number of `n` bytes.
    fn big(&mut self, n: usize) -> Result<u64> {
        Ok(self.take(n)?.iter().fold(0, |x, &b| x << 8 | u64::from(b)))
    }

    fn text(&mut self, n: usize) -> Result<Value> {
        Ok(Value::Text(String::from_utf8_lossy(self.take(n)?).into_owned()))
    }

    fn list(&mut self, n: usize) -> Result<Value> {
        (0..n).map(|_| self.value()).collect::<Result<_>>().map(Value::List)
    }

    fn map(&mut self, n: usize) -> Result<Value> {
        let mut out = BTreeMap::new();
        for _ in 0..n {
            if let Value::Text(key) = self.value()? {
                out.insert(key, self.value()?);
            } else {
                self.value()?;
            }
        }
        Ok(Value::Map(out))
    }

    fn value(&mut self) -> Result<Value> {
        let tag = self.big(1)? as u8;
        let low = usize::from(tag & 0x0f);
        match tag {
            0x00..=0x7f => Ok(Value::Number(u64::from(tag))),
            0x80..=0x8f => self.map(low),
            0x90..=0x9f => self.list(low),
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f)),
            0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Ok(Value::Other),
            0xcc..=0xcf => self.big(1 << (tag - 0xcc)).map(Value::Number),
            0xd0..=0xd3 => self.big(1 << (tag - 0xd0)).map(|_| Value::Other),
            0xd9..=0xdb => self.big(1 << (tag - 0xd9)).and_then(|n| self.text(n as usize)),
            0xdc | 0xdd => self.big(2 << (tag - 0xdc)).and_then(|n| self.list(n as usize)),
            0xde | 0xdf => self.big(2 << (tag - 0xde)).and_then(|n| self.map(n as usize)),
            _ => Err(format!("metadata with the tag {tag:#x}")),
        }
    }
}
