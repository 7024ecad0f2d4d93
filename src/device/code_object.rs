//! Whether a code object is complete: the runtime gets no length and reads as far as the headers say, so the headers have to be followed first.
//!
//! The input is the bytes of any file. Accepted are: a 64-bit ELF object whose tables, segments and sections lie in the file;
//! clang's bundle of such objects (LLVM, "Clang Offload Bundler"), compressed or not; NVIDIA's fat binary by the size in its header. What the code inside does is
//! not checked.

/// Why the bytes are not a complete code object, if they are not.
pub(crate) fn check(image: &[u8]) -> Result<(), String> {
    let file = Bytes(image);
    let checked = match image {
        [0x7f, b'E', b'L', b'F', ..] => file.elf(),
        _ if image.starts_with(BUNDLE) => file.bundle(),
        [b'C', b'C', b'O', b'B', ..] => file.compressed_bundle(),
        [0x50, 0xed, 0x55, 0xba, ..] => file.fat_binary(),
        _ => return Err("it is no code object: neither an ELF file nor a bundle of clang's nor a fat binary".to_owned()),
    };
    checked.ok_or_else(|| format!("a code object that is not whole: its headers lead outside of its {} bytes", image.len()))
}

const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";

/// The type of a section that takes no bytes in its file.
const NO_BITS: u64 = 8;

#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// A little-endian number of `SIZE` bytes.
    fn number<const SIZE: usize>(self, at: u64) -> Option<u64> {
        let Bytes(bytes) = self.part(at, SIZE as u64)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn part(self, at: u64, size: u64) -> Option<Bytes<'a>> {
        let (start, end) = (usize::try_from(at).ok()?, usize::try_from(at.checked_add(size)?).ok()?);
        self.0.get(start..end).map(Bytes)
    }

    /// The entries of a table of so many, each of so many bytes, of which the first `least` are read.
    fn table(self, at: u64, [count, size, least]: [u64; 3]) -> Option<impl Iterator<Item = Bytes<'a>>> {
        let table = self.part(at, count.checked_mul(size)?)?;
        (count == 0 || size >= least).then(|| (0..count).filter_map(move |i| table.part(i * size, size)))
    }

    /// ELF's header of 64 bits, little-endian: offsets are those of the System V ABI.
    fn elf(self) -> Option<()> {
        let Bytes([_, _, _, _, 2, 1, ..]) = self else { return None };
        self.part(0, 64)?;
        let (segments, sections) = (self.number::<8>(32)?, self.number::<8>(40)?);
        for segment in self.table(segments, [self.number::<2>(56)?, self.number::<2>(54)?, 56])? {
            self.part(segment.number::<8>(8)?, segment.number::<8>(32)?)?;
        }
        for section in self.table(sections, [self.number::<2>(60)?, self.number::<2>(58)?, 64])? {
            if section.number::<4>(4)? != NO_BITS {
                self.part(section.number::<8>(24)?, section.number::<8>(32)?)?;
            }
        }
        Some(())
    }

    /// After the magic number: the number of entries, and for each of them its offset, size, and a name with its length.
    fn bundle(self) -> Option<()> {
        let mut at = BUNDLE.len() as u64 + 8;
        for _ in 0..self.number::<8>(at - 8)? {
            let inner = self.part(self.number::<8>(at)?, self.number::<8>(at + 8)?)?;
            let name = self.number::<8>(at + 16)?;
            self.part(at + 24, name)?;
            at += 24 + name;
            // The host's entry is empty.
            if !inner.0.is_empty() {
                inner.0.starts_with(b"\x7fELF").then(|| inner.elf())??;
            }
        }
        Some(())
    }

    /// Version 2 has its size in 4 bytes, version 3 in 8; version 1 has none.
    fn compressed_bundle(self) -> Option<()> {
        let size = match self.number::<2>(4)? {
            2 => self.number::<4>(8)?,
            3 => self.number::<8>(8)?,
            _ => return None,
        };
        self.part(0, size).map(|_| ())
    }

    /// Bytes 6 and 7 are the size of the header, the next eight the size of the rest.
    fn fat_binary(self) -> Option<()> {
        self.part(self.number::<2>(6)?, self.number::<8>(8)?).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object with a segment and two sections, the second without bits, and 32 bytes of code.
    fn elf() -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 2 * 64 + 32];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        let mut put = |at: usize, number: u64, size: usize| file[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
        for (at, number, size) in [(32, 64, 8), (40, 120, 8), (54, 56, 2), (56, 1, 2), (58, 64, 2), (60, 2, 2)] {
            put(at, number, size);
        }
        // The segment, the section with bits and the one without, which is larger than the file.
        for (at, number, size) in
            [(64 + 8, 248, 8), (64 + 32, 32, 8), (120 + 24, 248, 8), (120 + 32, 32, 8), (184 + 4, 8, 4), (184 + 32, 1 << 40, 8)]
        {
            put(at, number, size);
        }
        file
    }

    fn bundle(inner: &[u8]) -> Vec<u8> {
        let name = b"hipv4-amdgcn-amd-amdhsa--gfx90a";
        let mut file = BUNDLE.to_vec();
        let start = (file.len() + 8 + 24 + name.len()) as u64;
        for number in [1, start, inner.len() as u64, name.len() as u64] {
            file.extend(number.to_le_bytes());
        }
        file.extend(name);
        file.extend(inner);
        file
    }

    #[test]
    fn whole_files_are_told_from_others() {
        let fat = [&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8]].concat();
        let compressed = [&b"CCOB"[..], &[2, 0, 1, 0, 20, 0, 0, 0], &[0; 8]].concat();
        let wholes = [("elf", elf()), ("bundle", bundle(&elf())), ("empty entry", bundle(&[])), ("fat", fat), ("compressed", compressed)];
        for (name, whole) in &wholes {
            assert_eq!(check(whole), Ok(()), "{name}");
            for cut in 0..whole.len() {
                assert!(check(&whole[..cut]).is_err(), "{name} of {cut} bytes of {}", whole.len());
            }
        }
        for (at, byte, reason) in [
            (4, 1, "32 bits"),
            (5, 2, "big-endian"),
            (39, 1, "a table of segments far away"),
            (54, 8, "entries that are too small"),
            (64 + 39, 1, "a segment that is too large"),
            (120 + 24, 255, "a section that ends outside"),
            (120 + 39, 255, "a size that overflows"),
        ] {
            let mut broken = elf();
            broken[at] = byte;
            assert!(check(&broken).unwrap_err().contains("not whole"), "{reason}");
            assert!(check(&bundle(&broken)).is_err(), "{reason}, in a bundle");
        }
        for (text, words) in
            [(&b"#include"[..], "it is no code object"), (b"", "it is no code object"), (b"CCOB\x01\0\x01\0\0\0\0\0", "not whole")]
        {
            assert!(check(text).unwrap_err().contains(words));
        }
        assert!(check(&bundle(b"text")).is_err(), "an entry that is no object");
    }
}
