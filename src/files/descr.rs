//! Element types as .npy files name them: NumPy's codes, and what the packages of machine learning write.

use crate::dtype::DType;

/// An element type as the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descr {
    /// The file's own words.
    pub(super) text: String,
    /// The format of the numbers, where the name says which.
    dtype: Option<DType>,
    /// Whether another format of the same width can be read from it (numbers and void types, not text or objects).
    plain: bool,
    /// Bytes of one element in the file, where the name says how many.
    pub(super) bytes: Option<usize>,
    /// Numbers that make an element: 2 for complex ones, real part first.
    pub(super) parts: usize,
    /// Whether the most significant byte of a number comes first.
    pub(super) big_endian: bool,
}

/// Codes that are no name of a format: NumPy's complex numbers, and those of two of ml_dtypes' formats. It writes all others of 8 bits and less
/// as `<V1`, so that nothing says which; NumPy's own void types are `|V1` and `|V2`.
const CODES: [(&str, DType, usize); 4] = [("c8", DType::F32, 2), ("c16", DType::F64, 2), ("f1", DType::F8E5M2, 1), ("<V2", DType::Bf16, 1)];

impl Descr {
    /// Reads a type name: NumPy's codes (`<f4`, `|i1`, `>f2`), ml_dtypes' (`<V2`, `<f1`), or a format's name (`bfloat16`, `float8_e4m3fn`). What
    /// it does not know is a type that [`resolve`](Descr::resolve) refuses.
    pub(super) fn parse(text: &str) -> Descr {
        let (order, code) = match text.chars().next() {
            Some(c @ ('<' | '>' | '|' | '=')) => (Some(c), &text[1..]),
            _ => (None, text),
        };
        let mut chars = code.chars();
        let kind = chars.next().filter(char::is_ascii_alphabetic);
        let digits = chars.as_str();
        let unknown = Descr { text: text.to_owned(), dtype: None, plain: false, bytes: None, parts: 1, big_endian: false };
        if let (Some(kind), true) = (kind, digits.bytes().all(|b| b.is_ascii_digit())) {
            let special = CODES.iter().find(|c| c.0 == code || c.0 == text);
            let (dtype, parts) = special.map_or((DType::ALL.into_iter().find(|d| d.numpy_code() == Some(code)), 1), |c| (Some(c.1), c.2));
            let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(if kind == 'U' { 4 } else { 1 }));
            let plain = matches!(kind, 'f' | 'i' | 'u' | 'b' | 'V') && matches!(bytes, Some(1 | 2 | 4 | 8));
            let big_endian = order == Some('>') && bytes > Some(1) && kind != 'V';
            return Descr { dtype, plain, bytes, parts, big_endian, ..unknown };
        }
        match (order, code.parse::<DType>()) {
            (None, Ok(dtype)) => Descr { dtype: Some(dtype), plain: true, bytes: Some(dtype.unit_bytes()), ..unknown },
            _ => unknown,
        }
    }

    /// The format to read the file as: `wanted` where it has the same width, else the file's own.
    pub(super) fn resolve(&self, wanted: Option<DType>) -> Result<DType, String> {
        match (wanted, self.dtype, self.bytes) {
            (Some(d), ..) if self.fits(d) => Ok(d),
            (_, Some(d), _) => Ok(d),
            (.., Some(bytes @ (1 | 2 | 4 | 8))) if self.text.contains('V') && self.plain => Err(format!(
                "dtype '{}' does not say which {}-bit format it holds; name it with --dtype, such as {}",
                self.text,
                8 * bytes,
                match bytes {
                    1 => "f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz",
                    2 => "bf16",
                    4 => "f32 or tf32",
                    _ => "f64",
                }
            )),
            _ => {
                let hint = match self.bytes {
                    Some(bytes @ ..8) if self.plain => format!("; its bits can be read as another {}-bit format with --dtype", 8 * bytes),
                    _ => String::new(),
                };
                Err(format!("dtype '{}'{} is not supported; supported: {}{hint}", self.text, self.meaning(), supported()))
            }
        }
    }

    /// Whether elements of `dtype` have the width of the file's elements. Formats of 4 bits are stored one a byte here.
    fn fits(&self, dtype: DType) -> bool {
        self.plain && self.bytes == Some(dtype.unit_bytes())
    }

    fn meaning(&self) -> &'static str {
        match self.text.trim_start_matches(['<', '>', '|', '=']).chars().next() {
            Some('[' | '(') => " (structured: save each field as its own array)",
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
    let codes: Vec<&str> = DType::ALL.into_iter().filter_map(DType::numpy_code).chain(CODES.map(|c| c.0)).collect();
    format!("{}, either byte order", codes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_a_format_here_are_told_apart() {
        for (descr, words) in [
            ("<u16", "(unsigned) is not supported"),
            ("<c32", "(complex) is not supported"),
            ("<f16", "(extended precision) is not supported"),
            ("|O", "(Python objects) is not supported"),
            ("<U3", "(text) is not supported"),
            ("|S3", "(text) is not supported"),
            ("<M8[ns]", "(time) is not supported"),
            ("<W4", "dtype '<W4' is not supported"),
            ("<q4", "dtype '<q4' is not supported"),
            ("<f99999999999999999999", "is not supported"),
            ("nonsense", "dtype 'nonsense' is not supported"),
            ("[('a', '<f4')]", "(structured: save each field as its own array) is not supported"),
            ("|V1", "does not say which 8-bit format"),
            ("<V1", "does not say which 8-bit format"),
            ("|V2", "such as bf16"),
        ] {
            let found = Descr::parse(descr).resolve(None).unwrap_err();
            assert!(found.contains(words), "{descr}: {found}");
        }
    }

    #[test]
    fn every_spelling_has_its_format() {
        for (descr, dtype, bytes, parts, reason) in [
            ("<f4", DType::F32, 4, 1, "NumPy"),
            ("=f4", DType::F32, 4, 1, "NumPy, native order"),
            ("<V2", DType::Bf16, 2, 1, "ml_dtypes' only type of this code"),
            ("<f1", DType::F8E5M2, 1, 1, "ml_dtypes' only type of this code"),
            ("bfloat16", DType::Bf16, 2, 1, "a name"),
            ("<c8", DType::F32, 8, 2, "complex64"),
            (">c16", DType::F64, 16, 2, "complex128"),
        ] {
            let found = Descr::parse(descr);
            assert_eq!((found.resolve(None), found.bytes, found.parts), (Ok(dtype), Some(bytes), parts), "{descr}: {reason}");
        }
    }

    #[test]
    fn an_override_needs_the_same_width() {
        let resolve = |descr: &str, wanted| Descr::parse(descr).resolve(Some(wanted));
        assert_eq!(resolve("|V1", DType::F8E5M2), Ok(DType::F8E5M2));
        assert_eq!(resolve("<V1", DType::F8E4M3), Ok(DType::F8E4M3));
        assert_eq!(resolve("<f1", DType::F8E4M3), Ok(DType::F8E4M3));
        assert_eq!(resolve("|V2", DType::Bf16), Ok(DType::Bf16));
        assert_eq!(resolve("<u2", DType::Bf16), Ok(DType::Bf16));
        assert_eq!(resolve("<f4", DType::Tf32), Ok(DType::Tf32));
        assert_eq!(resolve("|V1", DType::I4), Ok(DType::I4), "one 4-bit element a byte");
        assert_eq!(resolve("<f4", DType::F16), Ok(DType::F32), "another width: the file's own type");
        assert_eq!(resolve("<c8", DType::F64), Ok(DType::F32), "complex numbers are not read as real ones of their width");
    }
}
