//! PyTorch's .pt and .pth files: a zip archive of a pickle, which says what tensors there are, and of their memory.
//!
//! Tensors are called by the keys that lead to them, joined by dots. Memory is used where it lies, with the tensor's own strides.

mod pickle;

use super::data::{DataRange, Numbers, Order};
use super::npz::{Archive, Member};
use super::{File, Tensor};
use crate::device::Layout;
use crate::dtype::DType;
use pickle::{Object, Pickle, Storage, Strided, Value};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The most values that are examined, and bytes of their names: a container that holds another one many times, again and again, has no end otherwise.
const MOST_NAMED: usize = 1 << 27;

/// How deep containers may be.
const MAX_DEPTH: usize = 64;

/// The most bytes of the pickle: sizes and names, no data.
const MAX_PICKLE: u64 = 1 << 30;

/// The most memory for names and shapes, in times of the pickle's bytes. A tensor takes a few hundred bytes, and its place in a container two; what is more
/// is containers that hold another one many times.
const MOST_LISTED: u64 = 512;

/// Storages that say which type they hold, and the numbers that make an element.
const STORAGES: [(&str, DType, usize); 12] = [
    ("DoubleStorage", DType::F64, 1),
    ("FloatStorage", DType::F32, 1),
    ("HalfStorage", DType::F16, 1),
    ("BFloat16Storage", DType::Bf16, 1),
    ("LongStorage", DType::I64, 1),
    ("IntStorage", DType::I32, 1),
    ("ShortStorage", DType::I16, 1),
    ("CharStorage", DType::I8, 1),
    ("ByteStorage", DType::U8, 1),
    ("BoolStorage", DType::Bool, 1),
    ("ComplexFloatStorage", DType::F32, 2),
    ("ComplexDoubleStorage", DType::F64, 2),
];

/// The folder of an archive that PyTorch wrote; `None` for any other.
pub(super) fn folder(names: &[String]) -> Option<&str> {
    names.iter().find_map(|name| name.strip_suffix("data.pkl"))
}

/// The tensors of an archive, in the order of the pickle.
pub(super) fn read(file: &File<'_>, archive: &mut Archive, names: &[String]) -> Result<Vec<Tensor>, String> {
    let members: HashMap<&str, usize> = names.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect();
    let folder = folder(names).ok_or("no data.pkl")?;
    let text = |archive: &mut Archive, name: &str| -> Result<Option<Vec<u8>>, String> {
        let Some(&index) = members.get(format!("{folder}{name}").as_str()) else { return Ok(None) };
        let (size, _) = archive.start(index, |_| 0)?;
        let limit = file.options.max_memory.min(MAX_PICKLE);
        if size > limit {
            return Err(format!("{name} has {size} bytes, more than {limit}; --max-memory and {MAX_PICKLE} are the limits"));
        }
        Ok(Some(archive.member(index)?.load(0..size as usize, limit, file.options.checksums)?.into_owned()))
    };
    let big_endian = text(archive, "byteorder")?.is_some_and(|order| order == b"big");
    let pickle = text(archive, "data.pkl")?.ok_or("no data.pkl")?;
    let limit = file.options.max_memory.min(MOST_LISTED * pickle.len() as u64);
    let pickle = pickle::read(&pickle).map_err(|e| format!("data.pkl: {e}"))?;
    let mut found = Found { pickle: &pickle, with_tensors: OnceCell::new(), named: 0, memory: 0, limit, tensors: Vec::new() };
    found.collect(&pickle.root, String::new(), 0).map_err(|e| format!("data.pkl: {e}"))?;
    let found = found.tensors;
    let mut tensors = Vec::with_capacity(found.len());
    let mut memory = Memory { archive, members: HashMap::new() };
    for (name, tensor) in found {
        let tensor = match tensor {
            Ok(tensor) => tensor,
            Err(object) => {
                tensors.push(file.tensor(name, object.class.to_string(), Vec::new(), Err(refusal(&object))));
                continue;
            }
        };
        let member = members.get(format!("{folder}data/{}", tensor.storage.key).as_str()).copied();
        let stored = tensor.dtype.as_ref().unwrap_or(&tensor.storage.class).to_string();
        let content = content(file, &mut memory, member, &tensor, big_endian);
        tensors.push(file.tensor(name, stored, tensor.shape.clone(), content));
    }
    Ok(tensors)
}

/// A tensor, or an object with some in it that cannot be read.
type Listed = Result<Rc<Strided>, Rc<Object>>;

/// The tensors of a pickle, with their names.
struct Found<'a> {
    pickle: &'a Pickle,
    /// [`Pickle::with_tensors`], once that is wanted.
    with_tensors: OnceCell<Vec<bool>>,
    /// Values that were examined, and bytes of their names.
    named: usize,
    /// What the tensors take without their data, and the most.
    memory: u64,
    limit: u64,
    tensors: Vec<(String, Listed)>,
}

impl Found<'_> {
    /// Every tensor below a value.
    fn collect(&mut self, value: &Value, name: String, depth: usize) -> Result<(), String> {
        self.named += 1 + name.len();
        if depth > MAX_DEPTH || self.named > MOST_NAMED {
            return Err(format!("containers deeper than {MAX_DEPTH}, or more than {MOST_NAMED} values and bytes of names"));
        }
        let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match value {
            Value::Tensor(tensor) => self.add(name, Ok(tensor.clone()))?,
            Value::Tuple(items) | Value::List(items) => {
                for (i, item) in self.pickle.containers[*items].iter().enumerate() {
                    self.collect(item, below(&i.to_string()), depth + 1)?;
                }
            }
            Value::Dict(items) => {
                for (i, pair) in self.pickle.containers[*items].chunks_exact(2).enumerate() {
                    let key = match &pair[0] {
                        Value::Text(key) => key.to_string(),
                        Value::Int(key) => key.to_string(),
                        _ => format!("#{i}"),
                    };
                    self.collect(&pair[1], below(&key), depth + 1)?;
                }
            }
            Value::Object(object) => {
                let with_tensors = self.with_tensors.get_or_init(|| self.pickle.with_tensors());
                if object.class.makes_tensors() || with_tensors[object.parts] {
                    self.add(name.clone(), Err(object.clone()))?;
                }
                self.collect(&Value::Dict(object.pairs), name, depth)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, name: String, tensor: Listed) -> Result<(), String> {
        // Shape and strides stand in the tensor and in its layout; class and key in messages, too.
        let words = match &tensor {
            Ok(tensor) => {
                let Storage { class, key } = &*tensor.storage;
                3 * size_of_val(&*tensor.shape) + 2 * tensor.dtype.as_ref().unwrap_or(class).length() + key.len()
            }
            Err(object) => 2 * object.class.length(),
        };
        self.memory += (size_of::<Tensor>() + name.len() + words) as u64;
        if self.memory > self.limit {
            let count = self.tensors.len() + 1;
            return Err(format!(
                "names and shapes of {count} tensors and more take over {} bytes; --max-memory and {MOST_LISTED} times the pickle are the limits",
                self.limit
            ));
        }
        self.tensors.push((name, tensor));
        Ok(())
    }
}

/// The members of an archive that tensors lie in.
struct Memory<'a> {
    archive: &'a mut Archive,
    members: HashMap<usize, Arc<Member>>,
}

impl Memory<'_> {
    /// A member by its index, the same for all tensors.
    fn member(&mut self, index: usize) -> Result<Arc<Member>, String> {
        if let Some(member) = self.members.get(&index) {
            return Ok(member.clone());
        }
        let member = self.archive.member(index)?;
        self.members.insert(index, member.clone());
        Ok(member)
    }
}

/// Why what an object holds cannot be read.
fn refusal(object: &Object) -> String {
    let class = &object.class;
    if class.makes_tensors() {
        return format!("what {class} makes is not supported");
    }
    format!("an object of class {class} with tensors in it is not supported; save these in a dictionary, such as that of state_dict()")
}

/// The format of a tensor's memory, and how many numbers make an element.
fn elements(tensor: &Strided) -> Result<(DType, usize), String> {
    let Some(dtype) = &tensor.dtype else {
        let class = &tensor.storage.class;
        let known = STORAGES.iter().find(|s| s.0 == &*class.name && matches!(&*class.module, "torch" | "torch.storage"));
        return known.map(|s| (s.1, s.2)).ok_or_else(|| format!("storage {class} is not supported"));
    };
    let known = match (&*dtype.module, &*dtype.name) {
        ("torch", "float4_e2m1fn_x2") => Some((DType::F4E2M1, 2)),
        // PyTorch's own types of less than a byte take a byte each, and mean nothing yet.
        ("torch", name) => name.parse().ok().filter(|dtype: &DType| dtype.bits() >= 8).map(|dtype| (dtype, 1)),
        _ => None,
    };
    known.ok_or_else(|| format!("dtype {dtype} is not supported"))
}

/// What a tensor's memory means, and where it is.
fn content(
    file: &File<'_>,
    memory: &mut Memory<'_>,
    member: Option<usize>,
    tensor: &Strided,
    big_endian: bool,
) -> Result<(Numbers, DataRange), String> {
    if let Some(reason) = &tensor.unlike_memory {
        return Err(reason.clone());
    }
    let (dtype, parts) = elements(tensor)?;
    let (mut shape, mut strides, mut offset) = (tensor.shape.clone(), tensor.strides.clone(), tensor.offset);
    if parts > 1 {
        let scaled = strides.iter().map(|&s| s.checked_mul(parts as isize)).collect::<Option<Vec<_>>>().zip(offset.checked_mul(parts));
        (strides, offset) = scaled.ok_or("its strides overflow")?;
        shape.push(parts);
        strides.push(1);
    }
    if dtype.bits() < 8
        && let Some(&step) = tensor.strides.last()
    {
        // Both elements of a byte belong to the last dimension, which is as long again.
        let bytes = tensor.shape.last().copied().unwrap_or(1);
        if step != 1 && bytes > 1 {
            return Err(format!("its elements lie two a byte, and bytes {step} apart in its last dimension; save x.contiguous()"));
        }
        shape.truncate(tensor.shape.len() - 1);
        strides.truncate(tensor.shape.len() - 1);
        shape.push(bytes.saturating_mul(parts));
        strides.push(1);
    }
    let layout = Layout::strided(&shape, &strides, offset).map_err(|e| e.to_string())?;
    let index = member.ok_or_else(|| format!("its memory, data/{}, is not in the archive", tensor.storage.key))?;
    let member = memory.member(index)?;
    let size = member.size();
    let needed = dtype.bytes_for(layout.end()).filter(|&bytes| bytes <= size);
    let end = needed.ok_or_else(|| format!("it reaches beyond its memory, data/{} of {size} bytes", tensor.storage.key))?;
    // Strides may show the same memory many times: four bytes can be as many elements as there are numbers.
    let max_memory = file.options.max_memory;
    let shown = dtype.bytes_for(layout.elements()).filter(|&bytes| bytes as u64 <= max_memory.max(size as u64));
    shown.ok_or_else(|| {
        format!("shape {shape:?} of {dtype} repeats {size} bytes of memory to more than {max_memory}, the limit of --max-memory")
    })?;
    let order = if big_endian && dtype.unit_bytes() > 1 { Order::BigEndian(dtype.unit_bytes()) } else { Order::Ours };
    let (layout, first) = from_its_first_byte(dtype, layout)?;
    Ok((Numbers { dtype, layout, order }, DataRange::Member(member, first..end)))
}

/// The layout without what lies before its elements, and how many bytes that is: a copy of a view is none of the whole memory.
fn from_its_first_byte(dtype: DType, layout: Layout) -> Result<(Layout, usize), String> {
    let backwards = layout.strides().iter().any(|&stride| stride < 0);
    let before = if backwards { 0 } else { layout.offset() - layout.offset() % dtype.per_unit() };
    // A tensor without elements may begin anywhere.
    let bytes = if layout.elements() == 0 { 0 } else { before / dtype.per_unit() * dtype.unit_bytes() };
    let layout = Layout::strided(layout.shape(), layout.strides(), layout.offset() - before).map_err(|e| e.to_string())?;
    Ok((layout, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileKind, ReadOptions, TensorFile};
    use std::io::Write;

    /// An archive as PyTorch writes it, with a storage of four numbers.
    fn open(pickle: &[u8], data: &[u8]) -> crate::Result<TensorFile> {
        open_within(ReadOptions::default().max_memory, pickle, data)
    }

    fn open_within(max_memory: u64, pickle: &[u8], data: &[u8]) -> crate::Result<TensorFile> {
        read(archive(zip::CompressionMethod::Stored, "little", pickle, data), max_memory)
    }

    fn read(archive: Vec<u8>, max_memory: u64) -> crate::Result<TensorFile> {
        TensorFile::from_bytes("model.pt".as_ref(), archive, &ReadOptions { max_memory, ..ReadOptions::default() })
    }

    fn archive(method: zip::CompressionMethod, order: &str, pickle: &[u8], data: &[u8]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        for (name, bytes) in [("data.pkl", pickle), ("byteorder", order.as_bytes()), ("data/0", data), ("version", b"3\n")] {
            zip.start_file(format!("archive/{name}"), options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// The opcodes of a tensor of 2 x 2 elements, as `torch.save` writes them.
    fn tensor(storage: &str, offset: u8, strides: [u8; 2]) -> Vec<u8> {
        let mut out = b"ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\0\0\0storageq\x03ctorch\n".to_vec();
        out.extend(storage.as_bytes());
        out.extend(b"\nq\x04X\x01\0\0\x000q\x05X\x03\0\0\0cpuq\x06K\x04tq\x07Q");
        out.extend([b'K', offset]);
        out.extend(b"K\x02K\x02\x86q\x08");
        out.extend([b'K', strides[0], b'K', strides[1]]);
        out.extend(b"\x86q\x09\x89ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0d");
        out
    }

    /// The opcodes of a tuple of numbers.
    fn tuple(numbers: &[i64]) -> Vec<u8> {
        let number = |n: &i64| [&[0x8a, 8][..], &n.to_le_bytes()].concat();
        [&b"("[..], &numbers.iter().flat_map(number).collect::<Vec<u8>>(), b"t"].concat()
    }

    /// The opcodes of a tensor of such a shape.
    fn strided(storage: &str, shape: &[i64], strides: &[i64]) -> Vec<u8> {
        let storage = format!("((X\x07\0\0\0storagectorch\n{storage}\nX\x01\0\0\x000NNtQK\0");
        [&b"ctorch._utils\n_rebuild_tensor_v2\n"[..], storage.as_bytes(), &tuple(shape), &tuple(strides), b"tR"].concat()
    }

    /// `{key: value}`.
    fn dictionary(key: &str, value: &[u8]) -> Vec<u8> {
        let mut out = b"\x80\x02}q\x00X".to_vec();
        out.extend((key.len() as u32).to_le_bytes());
        out.extend(key.as_bytes());
        out.extend(value);
        out.extend(b"s.");
        out
    }

    #[test]
    fn tensors_are_found_in_containers() {
        let data: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let one = tensor("FloatStorage", 0, [2, 1]);
        let list = [&b"]q\x01("[..], &one, &tensor("FloatStorage", 0, [1, 2]), b"e"].concat();
        for (value, names, numbers, reason) in [
            (&one, &["w"][..], [1.0, 2.0, 3.0, 4.0], "dense"),
            (&tensor("FloatStorage", 0, [1, 2]), &["w"], [1.0, 3.0, 2.0, 4.0], "transposed"),
            (&tensor("FloatStorage", 1, [0, 1]), &["w"], [2.0, 3.0, 2.0, 3.0], "a row that is repeated"),
            (&list, &["w.0", "w.1"], [1.0, 2.0, 3.0, 4.0], "a list"),
            (&[b"}X\x01\0\0\0b", &one[..], b"s"].concat(), &["w.b"], [1.0, 2.0, 3.0, 4.0], "a dictionary in a dictionary"),
        ] {
            let file = open(&dictionary("w", value), &data).unwrap();
            let found: Vec<&str> = file.tensors().iter().map(Tensor::name).collect();
            assert_eq!((file.kind(), found), (FileKind::Torch, names.to_vec()), "{reason}");
            let loaded = file.tensors()[0].load().unwrap();
            let values: Vec<f64> =
                (0..4).map(|i| DType::F32.decode(DType::F32.load_bits(loaded.bytes(), loaded.layout().index(i)))).collect();
            assert_eq!((loaded.dtype(), values), (DType::F32, numbers.to_vec()), "{reason}");
        }
    }

    #[test]
    fn damaged_pickles_say_what_is_wrong() {
        for (value, words) in [
            (&b"(i__main__\nX\n"[..], "opcode 0x69 is not"),
            (b"cos\nsystem\nK\x01R", "a call with arguments that are no tuple"),
            (b"K\x01)R", "a call of what is no function"),
            (b"K\x01K\x02b", "attributes of what is no object"),
            (b"}(K\x01u", "a key without a value"),
            (b"]K\x01K\x02s", "pairs of what is no dictionary"),
            (b"}K\x01a", "items of what is no list"),
            (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615 bytes at byte"),
            (b"h\x07", "memo 7 was not written"),
            (b"r\xff\xff\xff\xff", "memo 4294967295 of a pickle of"),
            (b"X\xff\xff\xff\xff", "4294967295 bytes at byte"),
            (b"00", "the stack is empty"),
            (b"e", "no mark"),
            (b"K\x01Q", "a persistent id that is no tuple"),
            (&strided("FloatStorage", &[1; 65], &[1; 65]), "65 dimensions, more than 64"),
        ] {
            let error = open(&dictionary("w", value), &[0; 16]).unwrap_err().to_string();
            assert!(error.contains("data.pkl: byte ") && error.contains(words), "{words}: {error}");
        }
        for (value, words) in [
            (tensor("FloatStorage", 1, [2, 1]), "it reaches beyond its memory, data/0 of 16 bytes"),
            (tensor("QInt8Storage", 0, [2, 1]), "storage torch.QInt8Storage is not supported"),
        ] {
            let file = open(&dictionary("w", &value), &[0; 16]).unwrap();
            let error = file.tensors()[0].load().unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    /// `{"w": tensor, "o": value}`.
    fn beside(value: &[u8]) -> Vec<u8> {
        let one = tensor("FloatStorage", 0, [2, 1]);
        [b"\x80\x02}X\x01\0\0\0w", &one[..], b"sX\x01\0\0\0o", value, b"s."].concat()
    }

    /// Nothing is executed, and no tensor is passed over in silence: one in an object that is not known is an error of its own.
    #[test]
    fn objects_beside_tensors_are_names() {
        let one = tensor("FloatStorage", 0, [2, 1]);
        let with = |before: &[u8], behind: &[u8]| [before, &one, behind].concat();
        let parameter = |behind: &[u8]| with(b"ctorch._utils\n_rebuild_parameter_with_state\n(", behind);
        let of_type = |inner: &[u8]| [b"ctorch._tensor\n_rebuild_from_type_v2\n(", inner, b"cmy\nSubclass\n"].concat();
        let storage = b"((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000NNtQK\0K\x04\x85K\x01\x85t";
        let subclass = [&of_type(b"ctorch._utils\n_rebuild_tensor_v2\n"), &storage[..], b"}tR"].concat();
        let endless = [&of_type(b"ctorch._tensor\n_rebuild_from_type_v2\n"), &storage[..], b"}tR"].concat();
        let sparse = with(b"ctorch._utils\n_rebuild_sparse_tensor\nctorch\nsparse_coo\n", b"\x85\x86R");
        for (value, names, words) in [
            (&b"ctorch\nSize\nK\x02K\x03\x86\x85R"[..], &["w"][..], ""),
            (b"ctorch\ndevice\nX\x04\0\0\0cudaK\0\x86R", &["w"], ""),
            (b"ctorch\ncomplex64\n", &["w"], ""),
            (b"c_codecs\nencode\nX\x01\0\0\0aX\x06\0\0\0latin1\x86R", &["w"], ""),
            (b"cos\nsystem\nX\x02\0\0\0id\x85R", &["w"], ""),
            (b"X\x02\0\0\0osX\x06\0\0\0system\x93)R", &["w"], ""),
            (b"c__builtin__\ngetattr\ncos\npath\nX\x04\0\0\0join\x86R)R", &["w"], ""),
            (b"c__builtin__\nset\n](K\x01K\x02e\x85R", &["w"], ""),
            (b"\x8f(K\x01K\x02\x90", &["w"], ""),
            (b"(K\x01K\x02\x91", &["w"], ""),
            (b"\x8e\x02\0\0\0\0\0\0\0ab", &["w"], ""),
            (b"\x8b\x09\0\0\0\0\0\0\0\0\0\0\0\x01", &["w"], ""),
            (b"cnumpy\ndtype\nX\x02\0\0\0f8\x89\x88\x87R(K\x03X\x01\0\0\0<NNNtb", &["w"], ""),
            (b"cmy\nNode\n)\x81q\x50}X\x04\0\0\0selfh\x50sb", &["w"], ""),
            (b"cmy\nNode\n)}X\x01\0\0\0aK\x01s\x92", &["w"], ""),
            (&with(b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(X\x01\0\0\0k", b"u"), &["w", "o.k"], ""),
            (&with(b"cmy\nOrdered\n)Rq\x50(X\x01\0\0\0k", b"u}X\x01\0\0\0vK\x01sb"), &["w", "o.k"], ""),
            (&parameter(b"\x88ccollections\nOrderedDict\n)R}tR"), &["w", "o"], ""),
            (&subclass, &["w", "o"], ""),
            (&endless, &["w", "o"], "what torch._tensor._rebuild_from_type_v2 makes is not supported"),
            (&sparse, &["w", "o"], "what torch._utils._rebuild_sparse_tensor makes is not supported"),
            (b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n)R", &["w", "o"], "_rebuild_meta_tensor_no_storage makes is not"),
            (b"cnumpy.core.multiarray\n_reconstruct\n)R", &["w", "o"], "what numpy.core.multiarray._reconstruct makes is not supported"),
            (&with(b"cmy\nNet\n)\x81}X\x01\0\0\0p", b"sb"), &["w", "o"], "an object of class my.Net with tensors in it is not supported"),
            (&with(b"cmy\nNet\n]q\x50\x85Rq\x510h\x50", b"a0h\x51"), &["w", "o"], "an object of class my.Net with tensors in it"),
            (&with(b"ccollections\ndeque\n)R(", b"e"), &["w", "o"], "an object of class collections.deque with tensors"),
        ] {
            let file = open(&beside(value), &[0; 16]).unwrap();
            let found: Vec<&str> = file.tensors().iter().map(Tensor::name).collect();
            assert_eq!(found, names, "{}", value.escape_ascii());
            match (words, file.tensors().last().unwrap().load()) {
                ("", loaded) => assert_eq!(loaded.unwrap().bytes(), [0; 16]),
                (words, loaded) => assert!(loaded.as_ref().is_err_and(|e| e.to_string().contains(words)), "{words}: {loaded:?}"),
            }
        }
    }

    /// Objects in objects, and ones that share what they hold, take no longer than the pickle is long.
    #[test]
    fn many_objects_are_read_in_one_pass() {
        let n = 100_000;
        let class = b"cmy\nNode\nq\x500";
        let nested = [&class[..], &b"h\x50".repeat(n), b")", &b"R\x85".repeat(n)].concat();
        let list = [b"](", &b"K\x01".repeat(n)[..], b"eq\x510"].concat();
        let sharing = [&class[..], &list, b"](", &b"h\x50h\x51\x85R".repeat(n), b"e"].concat();
        for value in [nested, sharing] {
            assert_eq!(open(&beside(&value), &[0; 16]).unwrap().tensors().len(), 1);
        }
    }

    /// `torch.float4_e2m1fn_x2` is a byte of two elements, the first in the low bits.
    #[test]
    fn four_bit_elements_double_the_last_dimension() {
        let four = |shape: &[i64], strides: &[i64], offset: u8| {
            let storage = b"((X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\x000NNtQK".to_vec();
            let behind = b"\x89ccollections\nOrderedDict\n)Rctorch\nfloat4_e2m1fn_x2\ntR";
            let head = b"ctorch._utils\n_rebuild_tensor_v3\n";
            dictionary("w", &[&head[..], &storage, &[offset], &tuple(shape), &tuple(strides), behind].concat())
        };
        let data: Vec<u8> = (0..8u8).map(|i| (2 * i) | ((2 * i + 1) << 4)).collect();
        for (shape, strides, offset, expected) in [
            (&[2, 4][..], &[4, 1][..], 0, Ok((vec![2, 8], (0..16).collect::<Vec<u64>>()))),
            (&[2, 2], &[4, 1], 2, Ok((vec![2, 4], vec![4, 5, 6, 7, 12, 13, 14, 15]))),
            (&[3, 1], &[2, 9], 1, Ok((vec![3, 2], vec![2, 3, 6, 7, 10, 11]))),
            (&[], &[], 3, Ok((vec![2], vec![6, 7]))),
            (&[2, 0], &[0, 1], 0, Ok((vec![2, 0], vec![]))),
            (&[4, 2], &[1, 4], 0, Err("bytes 4 apart in its last dimension; save x.contiguous()")),
            (&[2, 5], &[4, 1], 0, Err("it reaches beyond its memory, data/0 of 8 bytes")),
        ] {
            let file = open(&four(shape, strides, offset), &data).unwrap();
            let found = file.tensors()[0].load().map_err(|e| e.to_string());
            match (found, expected) {
                (Ok(found), Ok((extents, patterns))) => {
                    let dense = found.dense(0..patterns.len());
                    let bits: Vec<u64> = (0..patterns.len()).map(|i| DType::F4E2M1.load_bits(&dense, i) & 0xf).collect();
                    assert_eq!(
                        (found.dtype(), found.layout().shape(), bits),
                        (DType::F4E2M1, &extents[..], patterns.iter().map(|p| p & 0xf).collect())
                    );
                    assert_eq!(file.tensors()[0].shape(), shape.iter().map(|&n| n as usize).collect::<Vec<_>>());
                }
                (Err(found), Err(words)) => assert!(found.contains(words), "{found}"),
                (found, _) => panic!("{shape:?}: {found:?}"),
            }
        }
        let other = [
            &b"ctorch._utils\n_rebuild_tensor_v3\n((X\x07\0\0\0storagectorch.storage\nUntypedStorage\nX\x01\0\0\x000NNtQK\0"[..],
            &tuple(&[4]),
            &tuple(&[1]),
            b"\x89Nctorch\nint4\ntR",
        ]
        .concat();
        let e = open(&dictionary("w", &other), &data).unwrap().tensors()[0].load().unwrap_err().to_string();
        assert!(e.contains("dtype torch.int4 is not supported"), "{e}");
    }

    /// PyTorch writes the memory of `x.conj()` and of the imaginary part of it as it is, and says beside it that its values are others.
    #[test]
    fn values_that_memory_does_not_show_are_refused() {
        let rebuilt = |function: &str, behind: &[u8]| {
            let head = format!("ctorch._utils\n{function}\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000NNtQK\0");
            dictionary("w", &[head.as_bytes(), b"K\x02\x85K\x01\x85", behind, b"tR"].concat())
        };
        let metadata = |key: &str| [b"}X".as_slice(), &(key.len() as u32).to_le_bytes(), key.as_bytes(), b"\x88s"].concat();
        let hooks = b"\x89ccollections\nOrderedDict\n)R".as_slice();
        let third = |behind: &[u8]| rebuilt("_rebuild_tensor_v3", &[hooks, b"ctorch\nfloat32\n", behind].concat());
        let second = |behind: &[u8]| rebuilt("_rebuild_tensor_v2", &[hooks, behind].concat());
        let lazily = "tensor `w`: is conjugated or negated lazily; save x.resolve_conj().resolve_neg() instead";
        for (pickle, words) in [
            (second(b""), ""),
            (second(b"N"), ""),
            (second(b"}"), ""),
            (second(&metadata("conj")), lazily),
            (second(&metadata("neg")), lazily),
            (second(&metadata("scale")), "tensor `w`: has metadata `scale`, which are not supported"),
            (second(b"K\x01"), "arguments of _rebuild_tensor that are not known"),
            (second(b"NN"), "arguments of _rebuild_tensor that are not known"),
            (third(b""), ""),
            (third(&metadata("neg")), lazily),
        ] {
            let file = open(&pickle, &[0; 8]).unwrap();
            match (words, file.tensors()[0].load()) {
                ("", loaded) => assert!(loaded.is_ok(), "{:?}", loaded.err()),
                (words, loaded) => assert!(loaded.as_ref().is_err_and(|e| e.to_string().contains(words)), "{words}: {:?}", loaded.err()),
            }
        }
    }

    /// Containers in containers, as deep as the pickle is long, and one that holds itself.
    #[test]
    fn endless_containers_are_errors() {
        let deep = [&b"]"[..], &[b'\x85'; 1_000_000]].concat();
        for value in [&deep[..], b"]q\x05h\x05a"] {
            let error = open(&dictionary("w", value), &[0; 16]).unwrap_err().to_string();
            assert!(error.contains("containers deeper than 64"), "{error}");
        }
    }

    #[test]
    fn two_tensors_of_one_name_are_an_error() {
        let one = tensor("FloatStorage", 0, [2, 1]);
        let pair = |key: &[u8], value: &[u8]| [&b"X"[..], &(key.len() as u32).to_le_bytes(), key, value, b"s"].concat();
        for (second, words) in [(&b"a.b"[..], "two tensors are called `a.b`, both in "), (b"a.c", "")] {
            let inner = [&b"}"[..], &pair(b"b", &one)].concat();
            let pickle = [&b"\x80\x02}"[..], &pair(b"a", &inner), &pair(second, &one), b"."].concat();
            match (words, open(&pickle, &[0; 16])) {
                ("", file) => assert_eq!(file.unwrap().tensors().len(), 2),
                (words, file) => assert!(file.as_ref().unwrap_err().to_string().contains(words), "{file:?}"),
            }
        }
    }

    /// Memory that tensors share is checked, and inflated, once for all of them; a copy in another order is one of the view alone.
    #[test]
    fn memory_that_tensors_share_is_read_once() {
        use zip::CompressionMethod::{Deflated, Stored};
        let numbers: Vec<f32> = (0..16384u16).map(f32::from).collect();
        let views: Vec<u8> = (0..8).flat_map(|i| tensor("FloatStorage", 4 * i, [2, 1])).collect();
        let pickle = dictionary("w", &[b"](", &views[..], b"e"].concat());
        let (little, big): (Vec<u8>, Vec<u8>) =
            (numbers.iter().flat_map(|v| v.to_le_bytes()).collect(), numbers.iter().flat_map(|v| v.to_be_bytes()).collect());
        for (method, order, data, max_memory, shared, reason) in [
            (Stored, "little", &little, 16 << 10, true, "where it lies"),
            (Deflated, "little", &little, 64 << 10, true, "inflated once"),
            (Deflated, "little", &little, (64 << 10) - 1, false, "too large to be kept"),
            (Stored, "big", &big, 16 << 10, false, "copies of views"),
        ] {
            let file = read(archive(method, order, &pickle, data), max_memory).unwrap();
            let loaded: Vec<_> = file.tensors().iter().map(|t| t.load().unwrap()).collect();
            let members =
                || file.tensors().iter().map(|t| if let Ok((_, DataRange::Member(member, _))) = &t.content { member } else { panic!() });
            assert!(members().is_sorted_by(|a, b| Arc::ptr_eq(a, b)), "{reason}");
            assert_eq!(loaded.len(), 8);
            for (i, found) in loaded.iter().enumerate() {
                let expected: Vec<u8> = numbers[4 * i..4 * i + 4].iter().flat_map(|v| v.to_le_bytes()).collect();
                assert_eq!(found.bytes(), expected, "{reason}: tensor {i}");
                let distance = found.bytes().as_ptr().addr().wrapping_sub(loaded[0].bytes().as_ptr().addr());
                assert!(!shared || distance == 16 * i, "{reason}: tensor {i} is a copy");
            }
        }
        let mut damaged = archive(Stored, "little", &pickle, &little);
        let at = damaged.windows(16).position(|w| w == &little[1024..1040]).unwrap();
        damaged[at] ^= 1;
        let file = read(damaged, 1 << 20).unwrap();
        assert!(file.tensors().iter().all(|t| t.load().is_err_and(|e| e.to_string().contains("its checksum is"))), "each of them");
    }

    /// A file of some thousand bytes is no tensors of gigabytes.
    #[test]
    fn memory_is_explained_by_the_file_or_the_limit() {
        let one = dictionary("w", &tensor("FloatStorage", 0, [2, 1]));
        // Containers of containers of one tensor; every key is empty, so that names take nothing.
        let many = |item: &[u8]| [&b"}("[..], &[b"X\0\0\0\0", item].concat().repeat(300), b"u"].concat();
        let inner = [&tensor("FloatStorage", 0, [2, 1])[..], b"q\x200", &many(b"h\x20"), b"q\x210"].concat();
        let nested = [&b"\x80\x02"[..], &inner, &many(b"h\x21"), b"."].concat();
        for (pickle, max_memory, words) in [
            (&one, 4 << 30, ""),
            (&nested, 4 << 30, "data.pkl: names and shapes of "),
            (&one, 250, "data.pkl: names and shapes of 1 tensors and more take over 250 bytes"),
            (&one, 50, "data.pkl has 164 bytes, more than 50;"),
        ] {
            match (words, open_within(max_memory, pickle, &[0; 16])) {
                ("", file) => assert_eq!(file.unwrap().tensors().len(), 1),
                (words, file) => assert!(file.as_ref().unwrap_err().to_string().contains(words), "{words}: {:?}", file.err()),
            }
        }
    }

    /// Strides that show the same memory several times: as many elements as fit into the memory there is, or into what may be used.
    #[test]
    fn elements_that_are_repeated_have_a_limit() {
        for (shape, strides, max_memory, elements, reason) in [
            (&[4][..], &[1][..], 1000, Some(4), "dense"),
            (&[250], &[0], 1000, Some(250), "as much as a copy may be"),
            (&[251], &[0], 1000, None, "an element more"),
            (&[16, 16], &[0, 0], 1000, None, "256 elements"),
            (&[2, 3], &[1, 1], 1000, Some(6), "rows that overlap"),
            (&[1 << 40], &[0], 4 << 30, None, "terabytes"),
            (&[1 << 59], &[0], u64::MAX, Some(1 << 59), "no limit"),
            (&[1 << 62], &[0], u64::MAX, None, "bytes beyond 64 bits"),
        ] {
            let file = open_within(max_memory, &dictionary("w", &strided("FloatStorage", shape, strides)), &[0; 16]).unwrap();
            let loaded = file.tensors()[0].load().map(|t| t.layout().elements()).map_err(|e| e.to_string());
            match elements {
                Some(elements) => assert_eq!(loaded, Ok(elements), "{reason}"),
                None => {
                    let words =
                        format!("tensor `w`: shape {shape:?} of f32 repeats 16 bytes of memory to more than {max_memory}, the limit");
                    assert!(loaded.as_ref().unwrap_err().contains(&words), "{reason}: {loaded:?}");
                }
            }
        }
    }

    #[test]
    fn damaged_pickles_are_errors_or_tensors() {
        let whole = dictionary("w", &tensor("FloatStorage", 0, [2, 1]));
        for at in 0..whole.len() {
            assert!(pickle::read(&whole[..at]).is_err(), "{at}");
            for flip in [1, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                let _ = pickle::read(&damaged); // never a panic
            }
        }
    }
}
