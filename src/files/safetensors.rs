//! The .safetensors format: 8 bytes of header length, a JSON header, the data of all tensors without gaps.
//!
//! The header is checked here, tensor by tensor, so that an error names the tensor; the `safetensors` crate is the oracle of
//! the tests. 4-bit elements lie two a byte, the first in the low nibble. 6-bit elements lie in a stream of bits, the first in
//! the low bits of the first byte (four elements in three bytes): the format's description does not say, this is how the
//! packed formats of current GPUs lie.

use super::data::{Numbers, Order};
use crate::device::Layout;
use crate::dtype::DType;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use std::ops::Range;

/// The format's own limit of the header.
const MAX_HEADER: u64 = 100_000_000;

/// The key of a header that is no tensor.
pub(super) const METADATA: &str = "__metadata__";

/// One tensor of a header, checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The tensor's name.
    pub(super) name: String,
    /// The format as the file names it.
    pub(super) label: String,
    /// The extents.
    pub(super) shape: Vec<usize>,
    /// Where the data lie in the file.
    pub(super) data: Range<usize>,
}

/// The file's name of pairs of f32.
const COMPLEX: &str = "C64";

/// The format that the file calls so.
fn format(label: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|d| d.safetensors_name() == Some(label))
}

/// Bits of one element in the file, where they are known.
fn width(label: &str) -> Option<usize> {
    format(label).map(stored_bits).or((label == COMPLEX).then_some(64))
}

/// Bits of one element in the file: in memory those of 6 take a byte.
fn stored_bits(dtype: DType) -> usize {
    if matches!(dtype, DType::F6E2M3 | DType::F6E3M2) { 6 } else { dtype.bits() }
}

impl Entry {
    /// What the data mean: as `wanted` where that has the same width, else as the file says. Complex numbers are pairs of real ones: one more
    /// dimension, of two elements.
    pub(super) fn numbers(&self, wanted: Option<DType>) -> Result<Numbers, String> {
        let bits = width(&self.label);
        let complex = self.label == COMPLEX;
        let fits = |d: &DType| !complex && (Some(d.bits()) == bits || Some(stored_bits(*d)) == bits);
        let own = if complex { Some(DType::F32) } else { format(&self.label) };
        let dtype = wanted.filter(fits).or(own).ok_or_else(|| {
            let supported: Vec<&str> = DType::ALL.into_iter().filter_map(DType::safetensors_name).chain([COMPLEX]).collect();
            format!("dtype {} is not supported; supported: {}", self.label, supported.join(" "))
        })?;
        let shape: Vec<usize> = self.shape.iter().copied().chain(complex.then_some(2)).collect();
        let layout = Layout::contiguous(&shape).map_err(|e| e.to_string())?;
        Ok(Numbers { dtype, layout, order: if bits == Some(6) { Order::Packed6 } else { Order::Ours } })
    }
}

/// Whether a file could be of this format, which has no magic number: for files without an extension.
pub(super) fn looks_like(file: &[u8]) -> bool {
    file.get(8) == Some(&b'{') && file.first_chunk::<8>().is_some_and(|b| u64::from_le_bytes(*b) <= MAX_HEADER)
}

/// How many bytes of a file there must be to know more than these first ones tell; all of them and one, to see that there are no more.
pub(super) fn wanted(bytes: &[u8]) -> u64 {
    let here = bytes.len() as u64;
    let Some(length) = bytes.first_chunk::<8>().map(|b| u64::from_le_bytes(*b)) else { return 8 };
    if length > MAX_HEADER || here < 8 + length {
        return if length > MAX_HEADER { here } else { 8 + length };
    }
    let text = &bytes[8..8 + length as usize];
    let end = |(_, value): &(String, Value)| value.get("data_offsets").and_then(|o| o.get(1)).and_then(Value::as_u64);
    let ends = serde_json::from_slice(text).map(|Pairs(pairs)| pairs.iter().filter_map(end).max().unwrap_or(0));
    ends.map_or(here, |end| (8 + length).saturating_add(end).saturating_add(1))
}

/// Reads the header of a whole file. The tensors come in the order of their data.
pub(super) fn parse(file: &[u8]) -> Result<Vec<Entry>, String> {
    let too_short = || format!("not a .safetensors file: {} bytes, too short for a header", file.len());
    let length = file.first_chunk::<8>().map(|b| u64::from_le_bytes(*b)).ok_or_else(too_short)?;
    if length > MAX_HEADER {
        return Err(format!("not a .safetensors file: the header claims {length} bytes, at most {MAX_HEADER} are allowed"));
    }
    let start = 8 + length as usize;
    let text = file.get(8..start).ok_or_else(|| format!("truncated: the header ends at byte {start}, the file has {}", file.len()))?;
    let Pairs(pairs) = serde_json::from_slice(text).map_err(|e| format!("safetensors header: {e}"))?;
    let mut entries = Vec::new();
    for (name, value) in pairs {
        if name != METADATA {
            entries.push(entry(&name, &value, start, file.len()).map_err(|e| format!("tensor `{name}`: {e}"))?);
        }
    }
    entries.sort_by(|a, b| (a.data.start, a.data.end, &a.name).cmp(&(b.data.start, b.data.end, &b.name)));
    let mut end = start;
    for e in &entries {
        if e.data.start != end {
            let (found, wanted) = (e.data.start - start, end - start);
            return Err(format!("tensor `{}`: its data start at offset {found}, those before end at {wanted}", e.name));
        }
        end = e.data.end;
    }
    if end != file.len() {
        return Err(format!("the data end at byte {end}, the file has {}", file.len()));
    }
    Ok(entries)
}

fn entry(name: &str, value: &Value, start: usize, file: usize) -> Result<Entry, String> {
    let field = |key: &str| value.get(key).ok_or_else(|| format!("`{key}` is missing"));
    let number = |v: &Value, what: &str| {
        v.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| format!("{what} {v} is not a whole number that fits"))
    };
    let list = |key: &str| field(key)?.as_array().ok_or_else(|| format!("`{key}` is not a list"));
    let label = field("dtype")?.as_str().ok_or("`dtype` is not a string")?.to_owned();
    let shape = list("shape")?.iter().map(|v| number(v, "extent")).collect::<Result<Vec<_>, _>>()?;
    let offsets = list("data_offsets")?.iter().map(|v| number(v, "offset")).collect::<Result<Vec<_>, _>>()?;
    let &[from, to] = offsets.as_slice() else { return Err(format!("`data_offsets` has {} numbers, not 2", offsets.len())) };
    let end = start
        .checked_add(to)
        .filter(|&e| e <= file)
        .ok_or_else(|| format!("truncated: its data end at offset {to}, the file holds {} bytes of data", file - start))?;
    // Of a type that is not known here nothing but the place of its data can be checked.
    let bytes = match width(&label) {
        Some(width) => Some(size(&shape, width, &label)?),
        None => None,
    };
    match bytes {
        Some(bytes) if from > to || to - from != bytes => {
            Err(format!("shape {shape:?} of {label} takes {bytes} bytes, its offsets {from}..{to} say otherwise"))
        }
        None if from > to => Err(format!("its offsets {from}..{to} are in the wrong order")),
        _ => Ok(Entry { name: name.to_owned(), label, shape, data: start + from..end }),
    }
}

/// The bytes that so many elements of `width` bits take.
fn size(shape: &[usize], width: usize, label: &str) -> Result<usize, String> {
    let elements = if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) };
    let bits = elements.and_then(|n| n.checked_mul(width)).filter(|&b| b / 8 <= isize::MAX as usize);
    let bits = bits.ok_or_else(|| format!("shape {shape:?} of {label} exceeds the address space"))?;
    if bits % 8 != 0 {
        return Err(format!("shape {shape:?} of {label} does not fill whole bytes"));
    }
    Ok(bits / 8)
}

/// The header of a file with these tensors: name, the file's name of the format, extents, bytes. Padded so that the data are aligned to 8 bytes.
pub(super) fn header(tensors: &[(&str, &str, &[usize], usize)]) -> Vec<u8> {
    let mut entries = serde_json::Map::new();
    let mut start = 0;
    for (name, label, shape, bytes) in tensors {
        let info = serde_json::json!({"dtype": label, "shape": shape, "data_offsets": [start, start + bytes]});
        entries.insert((*name).to_owned(), info);
        start += bytes;
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.append(&mut text);
    out
}

/// One byte an element from packed 6-bit elements.
pub(super) fn unpack6(packed: &[u8]) -> Vec<u8> {
    let group = |c: &[u8]| {
        let word = u32::from_le_bytes([c[0], c[1], c[2], 0]);
        [0, 6, 12, 18].map(|shift| (word >> shift & 0x3f) as u8)
    };
    packed.chunks_exact(3).flat_map(group).collect()
}

/// Packed 6-bit elements from one byte an element; `None` unless their number is a multiple of 4.
pub(super) fn pack6(bytes: &[u8]) -> Option<Vec<u8>> {
    let group = |c: &[u8]| {
        let word = c.iter().rev().fold(0u32, |w, &b| w << 6 | u32::from(b & 0x3f));
        let [a, b, c, _] = word.to_le_bytes();
        [a, b, c]
    };
    bytes.len().is_multiple_of(4).then(|| bytes.chunks_exact(4).flat_map(group).collect())
}

/// The pairs of a JSON object in their order; a key that occurs twice is an error.
pub(super) struct Pairs(pub(super) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("tensor `{key}` occurs twice")));
                    }
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use safetensors::tensor::{Dtype, TensorView};

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut f = (header.len() as u64).to_le_bytes().to_vec();
        f.extend(header.as_bytes());
        f.resize(f.len() + data, 0);
        f
    }

    #[test]
    fn a_file_of_the_reference_implementation_is_read() {
        let (a, b, c) = ([1u8; 24], [2u8; 6], [3u8; 3]);
        let tensors = [
            ("weight", TensorView::new(Dtype::F32, vec![2, 3], &a).unwrap()),
            ("bias", TensorView::new(Dtype::BF16, vec![3], &b).unwrap()),
            ("six", TensorView::new(Dtype::F6_E2M3, vec![4], &c).unwrap()),
        ];
        let f = safetensors::serialize(tensors, None).unwrap();
        let found = parse(&f).unwrap();
        assert_eq!(found.len(), 3);
        for (name, dtype, shape, byte) in
            [("weight", DType::F32, vec![2, 3], 1), ("bias", DType::Bf16, vec![3], 2), ("six", DType::F6E2M3, vec![4], 3)]
        {
            let e = found.iter().find(|e| e.name == name).unwrap();
            assert_eq!((e.numbers(None).unwrap().dtype, &e.shape), (dtype, &shape), "{name}");
            assert!(f[e.data.clone()].iter().all(|&b| b == byte), "{name}");
        }
    }

    #[test]
    fn what_is_written_the_reference_implementation_reads() {
        for dtype in DType::ALL {
            let Some(name) = dtype.safetensors_name() else {
                assert!(matches!(dtype, DType::Tf32 | DType::I4), "{dtype}");
                continue;
            };
            let bytes = if name.starts_with("F6_") { 6 } else { dtype.bytes_for(8).unwrap() };
            let mut f = header(&[("x \"y\"", name, &[2, 4], bytes)]);
            f.resize(f.len() + bytes, 7);
            let read = safetensors::SafeTensors::deserialize(&f).unwrap();
            let view = read.tensor("x \"y\"").unwrap();
            assert_eq!((view.dtype().to_string().as_str(), view.shape(), view.data().len()), (name, &[2, 4][..], bytes));
            assert_eq!(parse(&f).unwrap()[0].numbers(None).unwrap().dtype, dtype);
        }
    }

    #[test]
    fn bad_files_say_what_is_wrong() {
        for (f, words) in [
            (vec![1, 2, 3], "3 bytes, too short"),
            (u64::MAX.to_le_bytes().to_vec(), "the header claims 18446744073709551615 bytes"),
            ([100u8, 0, 0, 0, 0, 0, 0, 0].to_vec(), "truncated: the header ends at byte 108, the file has 8"),
            (file("garbage!", 0), "safetensors header: expected value"),
            (file("[1]", 0), "an object of tensors"),
            (file(r#"{"a":{"shape":[1],"data_offsets":[0,4]}}"#, 4), "tensor `a`: `dtype` is missing"),
            (file(r#"{"a":{"dtype":"F99","shape":[1],"data_offsets":[4,0]}}"#, 4), "its offsets 4..0 are in the wrong order"),
            (file(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4), "extent -1 is not a whole number"),
            (file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}"#, 4), "has 1 numbers, not 2"),
            (file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4), "takes 8 bytes, its offsets 0..4 say otherwise"),
            (file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#, 8), "its offsets 8..0 say otherwise"),
            (file(r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 4), "the file holds 4 bytes of data"),
            (file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8), "start at offset 4, those before end at 0"),
            (file(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 9), "the data end at byte"),
            (file(r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#, 2), "does not fill whole bytes"),
            (file(r#"{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,4]}}"#, 4), "exceeds the address space"),
            (
                file(r#"{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}"#, 2),
                "tensor `a` occurs twice",
            ),
        ] {
            let found = parse(&f).unwrap_err();
            assert!(found.contains(words), "{words}: {found}");
        }
    }

    #[test]
    fn types_that_are_no_format_here_do_not_spoil_the_others() {
        let header = r#"{"mask":{"dtype":"U64","shape":[4],"data_offsets":[0,32]},"new":{"dtype":"F99","shape":[3,7],"data_offsets":[32,37]},
            "z":{"dtype":"C64","shape":[2],"data_offsets":[37,53]}}"#;
        let f = file(header, 53);
        let [mask, new, z] = &parse(&f).unwrap()[..] else { panic!("three tensors") };
        assert_eq!(mask.numbers(None).unwrap().dtype, DType::U64);
        assert_eq!(mask.numbers(Some(DType::I64)).unwrap().dtype, DType::I64);
        assert!(new.numbers(Some(DType::I8)).unwrap_err().contains("dtype F99 is not supported"));
        let pairs = z.numbers(Some(DType::F64)).unwrap();
        assert_eq!((pairs.dtype, pairs.layout.shape()), (DType::F32, &[2, 2][..]), "a complex number is a pair, whatever is wanted");
        for (bytes, expected) in [(4, 8), (8, 8 + header.len()), (100, 8 + header.len()), (8 + header.len(), f.len() + 1)] {
            assert_eq!(wanted(&f[..bytes]), expected as u64, "{bytes}");
        }
        assert_eq!(wanted(&[255; 8]), 8, "nothing more is read of what is no file");
    }

    #[test]
    fn six_bit_elements_are_packed_four_in_three_bytes() {
        let one_a_byte: Vec<u8> = (0..64).collect();
        let packed = pack6(&one_a_byte).unwrap();
        assert_eq!(packed[..3], [0b0100_0000, 0b0010_0000, 0b0000_1100], "elements 0, 1, 2, 3 from the low bits up");
        assert_eq!(unpack6(&packed), one_a_byte);
        assert_eq!(pack6(&one_a_byte[..5]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(text in "[\\[\\]{}:,\"a-z0-9_ ]{0,120}", data in 0usize..20) {
            let _ = parse(&file(&text, data));
        }

        #[test]
        fn a_damaged_file_is_an_error_or_stays_inside(at in 0usize..120, byte in any::<u8>(), cut in 0usize..120) {
            let mut f = header(&[("a", "F32", &[2, 3], 24)]);
            f.resize(f.len() + 24, 0);
            if at < f.len() { f[at] = byte; }
            f.truncate(cut);
            for e in parse(&f).unwrap_or_default() {
                prop_assert!(e.data.end <= f.len());
            }
        }
    }
}
