//! The .npy format, versions 1 to 3: what a header says, and writing one.
//!
//! Pure: bytes in, a description out; nothing here allocates more than the header's length. The header is a Python literal;
//! only the one form that the format allows is read (a dictionary of `descr`, `fortran_order` and `shape`), nothing is evaluated.

use super::data::{Numbers, Order};
use super::descr::Descr;
use crate::device::Layout;
use crate::dtype::DType;
use std::cmp::Ordering;

/// The first bytes of every .npy file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// No honest header is longer; the limit keeps a corrupt length from being believed.
const MAX_HEADER: usize = 1 << 20;

/// NumPy's own limit; PyTorch computes with no more either.
pub(super) const MAX_DIMENSIONS: usize = 64;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The element type.
    pub(super) descr: Descr,
    /// Whether the first dimension varies fastest.
    pub(super) fortran: bool,
    /// The extents.
    pub(super) shape: Vec<usize>,
    /// Where the data start.
    pub(super) data: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Header, String> {
        if !bytes.starts_with(MAGIC) {
            return Err(match bytes.get(..MAGIC.len()) {
                Some(start) => format!("not an .npy file: it starts with {}, not \\x93NUMPY", start.escape_ascii()),
                None => format!("not an .npy file: {} bytes, too short for a header", bytes.len()),
            });
        }
        let truncated = |needed: usize| format!("truncated: the header needs {needed} bytes, the file has {}", bytes.len());
        let (start, data) = Header::text_range(bytes)?;
        let text = bytes.get(start..data).ok_or_else(|| truncated(data))?;
        let (descr, fortran, shape) = Literal { text, at: 0 }.header().map_err(|e| format!("npy header: {e}"))?;
        Ok(Header { descr: Descr::parse(&descr), fortran, shape, data })
    }

    /// Where the text of the header begins and ends.
    fn text_range(bytes: &[u8]) -> Result<(usize, usize), String> {
        let truncated = |needed: usize| format!("truncated: the header needs {needed} bytes, the file has {}", bytes.len());
        let &[major, minor] = bytes.get(6..8).and_then(|v| <&[u8; 2]>::try_from(v).ok()).ok_or_else(|| truncated(10))?;
        let (start, length) = match (major, bytes.get(8..10), bytes.get(8..12)) {
            (1, Some(&[a, b]), _) => (10, usize::from(u16::from_le_bytes([a, b]))),
            (2 | 3, _, Some(&[a, b, c, d])) => (12, u32::from_le_bytes([a, b, c, d]) as usize),
            (1..=3, _, _) => return Err(truncated(12)),
            _ => return Err(format!("npy version {major}.{minor} is not known; known: 1, 2, 3")),
        };
        if length > MAX_HEADER {
            return Err(format!("the header claims {length} bytes; at most {MAX_HEADER} are believed"));
        }
        Ok((start, start + length))
    }

    /// How many bytes of a file there must be to know its header, or more of it than these first ones tell.
    pub(super) fn header_wanted(bytes: &[u8]) -> u64 {
        const LONGEST_PREFIX: u64 = 12;
        if (bytes.len() as u64) < LONGEST_PREFIX {
            return LONGEST_PREFIX;
        }
        Header::text_range(bytes).map_or(0, |(_, data)| data as u64)
    }

    /// As [`header_wanted`](Header::header_wanted), and when the header is there, for all of the file and a byte, to see that there are no more.
    pub(super) fn wanted(bytes: &[u8]) -> u64 {
        let all = |header: Header| header.bytes().ok().flatten().map_or(0, |n| (header.data + n) as u64 + 1);
        Header::parse(bytes).map_or_else(|_| Header::header_wanted(bytes), all)
    }

    /// Bytes of the data; `None` where the name of the type does not say.
    pub(super) fn bytes(&self) -> Result<Option<usize>, String> {
        let Some(each) = self.descr.bytes else { return Ok(None) };
        let elements = Layout::contiguous(&self.shape).map_err(|e| e.to_string())?.elements();
        let bytes = elements.checked_mul(each).filter(|&b| b <= isize::MAX as usize);
        bytes.map(Some).ok_or_else(|| format!("shape {:?} of {each}-byte elements exceeds the address space", self.shape))
    }

    /// Holds the size of the data against what there is: `found` bytes behind the header, in words.
    pub(super) fn check(&self, found: u64, words: &str) -> Result<(), String> {
        let (Some(bytes), Some(each)) = (self.bytes()?, self.descr.bytes) else { return Ok(()) };
        let words = format!("shape {:?} of {each}-byte elements takes {bytes} bytes, the file holds {words}", self.shape);
        match found.cmp(&(bytes as u64)) {
            Ordering::Less => Err(format!("truncated: {words}")),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(format!("{words} (several arrays in one .npy?)")),
        }
    }

    /// What the data mean. Complex numbers are pairs of real ones: one more dimension, of two elements.
    pub(super) fn numbers(&self, wanted: Option<DType>) -> Result<Numbers, String> {
        let dtype = self.descr.resolve(wanted)?;
        let parts = self.descr.parts;
        let mut shape = self.shape.clone();
        shape.extend((parts > 1).then_some(parts));
        let dense = Layout::contiguous(&shape).map_err(|e| e.to_string())?;
        let layout = if self.fortran && dense.elements() > 0 { self.by_columns(&shape)? } else { dense };
        let order = match self.descr.bytes {
            _ if dtype.bits() == 4 => Order::OneAByte,
            Some(bytes) if self.descr.big_endian => Order::BigEndian(bytes / parts),
            _ => Order::Ours,
        };
        Ok(Numbers { dtype, layout, order })
    }

    /// The layout of a file whose first dimension varies fastest; the parts of an element lie together.
    fn by_columns(&self, shape: &[usize]) -> Result<Layout, String> {
        let mut step = self.descr.parts as isize;
        let mut strides = Vec::with_capacity(shape.len());
        for &extent in &self.shape {
            strides.push(step);
            step *= extent as isize; // at most the number of elements, which fits
        }
        strides.resize(shape.len(), 1);
        Layout::strided(shape, &strides, 0).map_err(|e| e.to_string())
    }

    /// A version 1 header (version 2 for very many dimensions) for dense row-major data, padded so that the data are aligned
    /// to 64 bytes. `None` for formats that .npy has no name for.
    pub(super) fn write(dtype: DType, shape: &[usize]) -> Option<Vec<u8>> {
        let (order, code) = (if dtype.bits() > 8 { '<' } else { '|' }, dtype.numpy_code()?);
        let mut extents: String = shape.iter().map(|d| format!("{d}, ")).collect();
        if shape.len() > 1 {
            extents.truncate(extents.len() - 2);
        } else {
            extents.truncate(extents.trim_end().len());
        }
        let mut text = format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({extents}), }}");
        let prefix = if text.len() + 64 < usize::from(u16::MAX) { 10 } else { 12 };
        while !(prefix + text.len() + 1).is_multiple_of(64) {
            text.push(' ');
        }
        text.push('\n');
        let mut out = MAGIC.to_vec();
        if prefix == 10 {
            out.extend([1, 0]);
            out.extend((text.len() as u16).to_le_bytes());
        } else {
            out.extend([2, 0]);
            out.extend((text.len() as u32).to_le_bytes());
        }
        out.extend(text.as_bytes());
        Some(out)
    }
}

/// A reader of the one Python literal that a header is.
struct Literal<'a> {
    text: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    fn header(&mut self) -> Result<(String, bool, Vec<usize>), String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.take(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            let again = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => return Err(format!("unknown key '{key}'; known: descr, fortran_order, shape")),
            };
            if again {
                return Err(format!("key '{key}' occurs twice"));
            }
            if !self.take(b',') && self.peek() != Some(b'}') {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        if self.peek().is_some() {
            return Err(self.unexpected("nothing more"));
        }
        let missing = |key: &str| format!("key '{key}' is missing");
        Ok((
            descr.ok_or_else(|| missing("descr"))?,
            fortran.ok_or_else(|| missing("fortran_order"))?,
            shape.ok_or_else(|| missing("shape"))?,
        ))
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected(&format!("`{}`", char::from(byte)))) }
    }

    fn unexpected(&mut self, wanted: &str) -> String {
        match self.peek() {
            Some(b) => format!("expected {wanted}, found `{}` at byte {}", b.escape_ascii(), self.at),
            None => format!("expected {wanted}, but the header ends"),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = match self.peek() {
            Some(q @ (b'\'' | b'"')) => q,
            _ => return Err(self.unexpected("a quoted name")),
        };
        let start = self.at + 1;
        let length = self.text[start..].iter().position(|&b| b == quote).ok_or("a quoted name does not end")?;
        self.at = start + length + 1;
        let inside = &self.text[start..start + length];
        if length > 256 || inside.contains(&b'\\') {
            return Err(format!("the name at byte {start} is too long or has an escape"));
        }
        String::from_utf8(inside.to_vec()).map_err(|_| format!("the name at byte {start} is not UTF-8"))
    }

    /// A name, or the list of fields of a structured type as it is written.
    fn descr(&mut self) -> Result<String, String> {
        if !matches!(self.peek(), Some(b'[' | b'(')) {
            return self.string();
        }
        let (start, mut depth) = (self.at, 0);
        while let Some(byte) = self.peek() {
            match byte {
                b'\'' | b'"' => drop(self.string()?),
                _ => {
                    depth += i32::from(matches!(byte, b'[' | b'(')) - i32::from(matches!(byte, b']' | b')'));
                    self.at += 1;
                }
            }
            if depth == 0 {
                return Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned());
            }
        }
        Err(self.unexpected("`]`"))
    }

    fn word(&mut self) -> &[u8] {
        self.peek();
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_alphanumeric) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn boolean(&mut self) -> Result<bool, String> {
        match self.word() {
            b"True" => Ok(true),
            b"False" => Ok(false),
            other => Err(format!("fortran_order must be True or False, found `{}`", other.escape_ascii())),
        }
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect(b'(')?;
        while !self.take(b')') {
            let word = self.word();
            // Python 2 wrote long integers with an L.
            let digits = word.strip_suffix(b"L").unwrap_or(word);
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                let found = digits.escape_ascii().to_string();
                return Err(if found.is_empty() {
                    self.unexpected("an extent")
                } else {
                    format!("extent `{found}` is not a whole number")
                });
            }
            let extent = digits.iter().try_fold(0usize, |n, d| n.checked_mul(10)?.checked_add(usize::from(d - b'0')));
            shape.push(extent.ok_or_else(|| format!("extent {} exceeds the address space", digits.escape_ascii()))?);
            if shape.len() > MAX_DIMENSIONS {
                return Err(format!("more than {MAX_DIMENSIONS} dimensions"));
            }
            if !self.take(b',') && self.peek() != Some(b')') {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(version: u8, header: &str) -> Vec<u8> {
        let mut f = MAGIC.to_vec();
        f.extend([version, 0]);
        if version == 1 {
            f.extend((header.len() as u16).to_le_bytes());
        } else {
            f.extend((header.len() as u32).to_le_bytes());
        }
        f.extend(header.as_bytes());
        f
    }

    #[test]
    fn every_version_and_spelling_is_read() {
        for (version, text, dtype, shape, fortran, why) in [
            (1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", DType::F32, vec![3, 4], false, "as NumPy writes it"),
            (2, "{'descr': '|i1', 'fortran_order': True, 'shape': (5,), }", DType::I8, vec![5], true, "version 2"),
            (3, "{'shape': (), 'descr': '>f8', 'fortran_order': False}", DType::F64, vec![], false, "a scalar, keys in another order"),
            (1, "{\"descr\":\"f2\",\"fortran_order\":False,\"shape\":(2L,3L)}", DType::F16, vec![2, 3], false, "Python 2, no byte order"),
            (1, "{'descr': 'bfloat16', 'fortran_order': False, 'shape': (0, 7)}", DType::Bf16, vec![0, 7], false, "a name, no elements"),
            (1, "{'descr': 'float8_e4m3fn', 'fortran_order': False, 'shape': (1)}", DType::F8E4M3, vec![1], false, "ml_dtypes' name"),
        ] {
            let f = file(version, text);
            let h = Header::parse(&f).unwrap_or_else(|e| panic!("{why}: {e}"));
            assert_eq!((h.descr.resolve(None).unwrap(), h.shape.clone(), h.fortran), (dtype, shape, fortran), "{why}");
            assert_eq!(h.data, f.len(), "{why}");
        }
    }

    #[test]
    fn bad_headers_say_what_is_wrong() {
        let ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}";
        for (text, words) in [
            ("", "expected `{`, but the header ends"),
            ("[]", "expected `{`, found `[`"),
            ("{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"),
            ("{'descr': '<f4', 'shape': (1,)}", "'fortran_order' is missing"),
            ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "occurs twice"),
            ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "True or False, found `0`"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "expected an extent, found `-`"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", "expected `,` or `)`, found `.`"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1e9,)}", "extent `1e9` is not a whole number"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "99999999999999999999 exceeds"),
            ("{'descr': [('a', '<f4'), 'fortran_order': False, 'shape': (1,)}", "expected `]`, but the header ends"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}", "unknown key 'extra'"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "expected nothing more, found `x`"),
            ("{'descr: ", "does not end"),
        ] {
            let found = Header::parse(&file(1, text)).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
        assert!(Header::parse(&file(4, ok)).unwrap_err().contains("version 4.0 is not known"));
        assert!(Header::parse(b"PK").unwrap_err().contains("2 bytes, too short"));
        assert!(Header::parse(b"GARBAGE!").unwrap_err().contains("starts with GARBAG"));
        let mut long = file(2, ok);
        long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Header::parse(&long).unwrap_err().contains("claims 4294967295 bytes"));
    }

    #[test]
    fn fortran_order_is_a_layout() {
        let h = Header::parse(&file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4)}")).unwrap();
        assert_eq!((h.numbers(None).unwrap().layout.strides(), h.bytes()), (&[1, 2, 6][..], Ok(Some(96))));
        let big = Header { shape: vec![1 << 40, 1 << 40], ..h };
        assert!(big.bytes().unwrap_err().contains("overflows"));
        let wide = Header { shape: vec![1 << 62], ..big };
        assert!(wide.bytes().unwrap_err().contains("4-byte elements exceeds"));
        let h = Header::parse(&file(1, "{'descr': '>c8', 'fortran_order': True, 'shape': (2, 3)}")).unwrap();
        let pairs = h.numbers(None).unwrap();
        assert_eq!((pairs.layout.shape(), pairs.layout.strides(), pairs.order), (&[2, 3, 2][..], &[2, 4, 1][..], Order::BigEndian(4)));
        let h = Header::parse(&file(1, "{'descr': [('a', '<f4'), ('b]', '<i8', (2,))], 'fortran_order': False, 'shape': (5,)}")).unwrap();
        assert_eq!((h.bytes(), h.shape), (Ok(None), vec![5]), "what is not supported has a shape, too");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(shape in prop::collection::vec(0usize..1000, 0..20), which in 0..DType::ALL.len()) {
            let dtype = DType::ALL[which];
            let written = Header::write(dtype, &shape);
            prop_assert_eq!(written.is_some(), dtype.numpy_code().is_some());
            let Some(bytes) = written else { return Ok(()) };
            let h = Header::parse(&bytes).unwrap();
            prop_assert_eq!(h.descr.resolve(None).unwrap(), dtype);
            prop_assert_eq!(h.shape, shape);
            prop_assert_eq!((h.data, h.data % 64, h.fortran), (bytes.len(), 0, false));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(tail in prop::collection::vec(any::<u8>(), 0..200), version in 0u8..5) {
            let mut f = MAGIC.to_vec();
            f.extend([version, 0, tail.len() as u8, 0]);
            f.extend(tail);
            if let Ok(h) = Header::parse(&f) {
                let _ = (h.bytes(), h.numbers(None), Header::wanted(&f));
            }
        }

        #[test]
        fn a_damaged_header_is_an_error_or_a_header(at in 0usize..128, byte in any::<u8>(), cut in 0usize..129) {
            let mut f = Header::write(DType::F32, &[12, 34, 56]).unwrap();
            if at < f.len() { f[at] = byte; }
            f.truncate(cut);
            if let Ok(h) = Header::parse(&f) {
                prop_assert!(h.data <= f.len());
                let _ = (h.bytes(), h.numbers(None), Header::wanted(&f));
            }
        }
    }
}
