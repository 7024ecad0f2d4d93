//! The .npy format, versions 1 to 3: what a header says, and writing one.
//!
//! Pure: bytes in, a description out; nothing here allocates more than the header's length. The header is a Python literal;
//! only the one form that the format allows is read (a dictionary of `descr`, `fortran_order` and `shape`), nothing is evaluated.

use crate::device::Layout;
use crate::dtype::DType;

/// The first bytes of every .npy file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// No honest header is longer; the limit keeps a corrupt length from being believed.
const MAX_HEADER: usize = 1 << 20;

/// NumPy's own limit.
const MAX_DIMENSIONS: usize = 64;

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

/// An element type as the file names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Descr {
    /// The file's own words.
    text: String,
    /// The format, where the name says which; a void type (`V1`, `V2`, as ml_dtypes writes its formats) does not.
    dtype: Option<DType>,
    /// Whether another format of the same width can be read from it (numbers and void types, not text or objects).
    plain: bool,
    /// Bytes of one element in the file.
    pub(super) bytes: usize,
    /// Whether the most significant byte comes first.
    pub(super) big_endian: bool,
}

impl Descr {
    /// Reads a type name: NumPy's codes (`<f4`, `|i1`, `>f2`) or a format's name (`bfloat16`, `float8_e4m3fn`).
    fn parse(text: &str) -> Result<Descr, String> {
        let (order, code) = match text.chars().next() {
            Some(c @ ('<' | '>' | '|')) => (Some(c), &text[1..]),
            _ => (None, text),
        };
        let mut chars = code.chars();
        let kind = chars.next().filter(char::is_ascii_alphabetic);
        let digits = chars.as_str();
        if let (Some(kind), true) = (kind, digits.bytes().all(|b| b.is_ascii_digit())) {
            let size: usize =
                if digits.is_empty() { 0 } else { digits.parse().map_err(|_| format!("dtype '{text}': its size overflows"))? };
            let dtype = DType::ALL.into_iter().find(|d| d.numpy_code() == Some(code));
            let plain = matches!(kind, 'f' | 'i' | 'u' | 'b' | 'V') && matches!(size, 1 | 2 | 4 | 8);
            let big_endian = order == Some('>') && size > 1 && kind != 'V';
            return Ok(Descr { text: text.to_owned(), dtype, plain, bytes: size, big_endian });
        }
        match (order, code.parse::<DType>()) {
            (None, Ok(dtype)) => {
                Ok(Descr { text: text.to_owned(), dtype: Some(dtype), plain: true, bytes: dtype.unit_bytes(), big_endian: false })
            }
            _ => Err(format!("dtype '{text}' is not supported; supported: {}", supported())),
        }
    }

    /// The format to read the file as: `wanted` where it has the same width, else the file's own.
    pub(super) fn resolve(&self, wanted: Option<DType>) -> Result<DType, String> {
        match (wanted, self.dtype) {
            (Some(d), _) if self.fits(d) => Ok(d),
            (_, Some(d)) => Ok(d),
            _ if self.text.contains('V') && self.plain => Err(format!(
                "dtype '{}' does not say which {}-bit format it holds; name it with --dtype, such as {}",
                self.text,
                8 * self.bytes,
                if self.bytes == 1 { "f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz" } else { "bf16" }
            )),
            _ => {
                let hint = if self.plain && self.bytes < 8 {
                    format!("; its bits can be read as another {}-bit format with --dtype", 8 * self.bytes)
                } else {
                    String::new()
                };
                Err(format!("dtype '{}'{} is not supported; supported: {}{hint}", self.text, self.meaning(), supported()))
            }
        }
    }

    /// Whether elements of `dtype` have the width of the file's elements. Formats of 4 bits are stored one a byte here.
    pub(super) fn fits(&self, dtype: DType) -> bool {
        self.plain && dtype.unit_bytes() == self.bytes
    }

    fn meaning(&self) -> &'static str {
        match self.text.trim_start_matches(['<', '>', '|']).chars().next() {
            Some('u') => " (unsigned)",
            Some('c') => " (complex)",
            Some('f') => " (extended precision)",
            Some('O') => " (Python objects)",
            Some('S' | 'U' | 'a') => " (text)",
            Some('M' | 'm') => " (time)",
            _ => "",
        }
    }
}

/// The codes that are read, for a message.
fn supported() -> String {
    let codes: Vec<&str> = DType::ALL.into_iter().filter_map(DType::numpy_code).collect();
    format!("{}, either byte order", codes.join(" "))
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
        let data = start + length;
        let text = bytes.get(start..data).ok_or_else(|| truncated(data))?;
        let (descr, fortran, shape) = Literal { text, at: 0 }.header().map_err(|e| format!("npy header: {e}"))?;
        Ok(Header { descr: Descr::parse(&descr)?, fortran, shape, data })
    }

    /// The layout, and the number of bytes that the data take.
    pub(super) fn layout(&self) -> Result<(Layout, usize), String> {
        let dense = Layout::contiguous(&self.shape).map_err(|e| e.to_string())?;
        let bytes = dense.elements().checked_mul(self.descr.bytes).filter(|&b| b <= isize::MAX as usize);
        let bytes =
            bytes.ok_or_else(|| format!("shape {:?} of {}-byte elements exceeds the address space", self.shape, self.descr.bytes))?;
        if !self.fortran || dense.elements() == 0 {
            return Ok((dense, bytes));
        }
        let mut step = 1isize;
        let mut strides = Vec::with_capacity(self.shape.len());
        for &extent in &self.shape {
            strides.push(step);
            step *= extent as isize; // at most the number of elements, which fits
        }
        let layout = Layout::strided(&self.shape, &strides, 0).map_err(|e| e.to_string())?;
        Ok((layout, bytes))
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

    fn descr(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(b'[' | b'(') => Err("structured dtypes are not supported; save each field as its own array".to_owned()),
            _ => self.string(),
        }
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
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured dtypes are not supported"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'extra': 1}", "unknown key 'extra'"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "expected nothing more, found `x`"),
            ("{'descr: ", "does not end"),
            ("{'descr': '<q4', 'fortran_order': False, 'shape': (1,)}", "dtype '<q4' is not supported"),
            ("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}", "dtype 'nonsense' is not supported"),
        ] {
            let found = Header::parse(&file(1, text)).and_then(|h| h.descr.resolve(None)).unwrap_err();
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
    fn types_without_a_format_here_are_told_apart() {
        for (descr, words) in [
            ("<u8", "(unsigned) is not supported"),
            ("<c8", "(complex) is not supported"),
            ("<f16", "(extended precision) is not supported"),
            ("|O", "(Python objects) is not supported"),
            ("<U3", "(text) is not supported"),
            ("<M8[ns]", "dtype '<M8[ns]' is not supported"),
            ("|V1", "does not say which 8-bit format"),
            ("<V2", "such as bf16"),
        ] {
            let found = Descr::parse(descr).and_then(|d| d.resolve(None)).unwrap_err();
            assert!(found.contains(words), "{descr}: {found}");
        }
    }

    #[test]
    fn an_override_needs_the_same_width() {
        let resolve = |descr: &str, wanted| Descr::parse(descr).unwrap().resolve(Some(wanted));
        assert_eq!(resolve("|V1", DType::F8E5M2), Ok(DType::F8E5M2));
        assert_eq!(resolve("<V2", DType::Bf16), Ok(DType::Bf16));
        assert_eq!(resolve("<u2", DType::Bf16), Ok(DType::Bf16));
        assert_eq!(resolve("<f4", DType::Tf32), Ok(DType::Tf32));
        assert_eq!(resolve("|V1", DType::I4), Ok(DType::I4), "one 4-bit element a byte");
        assert_eq!(resolve("<f4", DType::F16), Ok(DType::F32), "another width: the file's own type");
        assert!(!Descr::parse("<f4").unwrap().fits(DType::F16));
        assert!(!Descr::parse("<c8").unwrap().fits(DType::F64), "complex numbers are not read as real ones");
    }

    #[test]
    fn fortran_order_is_a_layout() {
        let h = Header::parse(&file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4)}")).unwrap();
        let (layout, bytes) = h.layout().unwrap();
        assert_eq!((layout.strides(), bytes), (&[1, 2, 6][..], 96));
        let big = Header { shape: vec![1 << 40, 1 << 40], ..h };
        assert!(big.layout().unwrap_err().contains("overflows"));
        let wide = Header { shape: vec![1 << 62], ..big };
        assert!(wide.layout().unwrap_err().contains("4-byte elements exceeds"));
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
                let _ = h.layout();
            }
        }

        #[test]
        fn a_damaged_header_is_an_error_or_a_header(at in 0usize..128, byte in any::<u8>(), cut in 0usize..129) {
            let mut f = Header::write(DType::F32, &[12, 34, 56]).unwrap();
            if at < f.len() { f[at] = byte; }
            f.truncate(cut);
            if let Ok(h) = Header::parse(&f) {
                prop_assert!(h.data <= f.len());
                let _ = h.layout();
            }
        }
    }
}
