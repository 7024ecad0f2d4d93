//! Tests of reading and writing through real files.

use super::*;
use std::io::Write;

fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let mut f = b"\x93NUMPY\x01\x00".to_vec();
    f.extend((header.len() as u16).to_le_bytes());
    f.extend(header.as_bytes());
    f.extend(data);
    f
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn zip(members: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        zip.start_file(*name, zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The values in logical order.
fn values(t: &Tensor) -> Vec<f64> {
    let t = t.load().unwrap();
    (0..t.layout().elements()).map(|i| t.dtype().decode(t.dtype().load_bits(t.bytes(), t.layout().index(i)))).collect()
}

/// Why a tensor cannot be read.
fn reason(t: &Tensor) -> String {
    t.load().unwrap_err().to_string()
}

fn open(path: &Path) -> Result<TensorFile> {
    TensorFile::open(path, &ReadOptions::default())
}

/// All data of a file.
fn load(path: &Path) -> Result<()> {
    open(path)?.tensors().iter().try_for_each(|t| t.load().map(drop))
}

#[test]
fn what_is_written_is_read_back_in_every_format_and_type() {
    let folder = tempfile::tempdir().unwrap();
    for dtype in DType::ALL {
        let bytes: Vec<u8> = (1..=dtype.bytes_for(8).unwrap() as u8).map(|b| b & 0x3f).collect();
        for extension in ["npy", "npz", "safetensors", "raw"] {
            let path = folder.path().join(format!("{dtype}.{extension}"));
            let output = Output { name: "x", dtype, shape: &[2, 4], bytes: &bytes };
            if let Err(e) = write(&path, Format::of(&path).unwrap(), &output) {
                let (other, what) = if extension == "safetensors" { (".raw", "safetensors") } else { (".safetensors", "npy") };
                let words = format!("the {what} format has no name for {dtype}; it has: f64 f32 ");
                assert!(e.to_string().contains(&words) && e.to_string().contains(&format!("; write {other}")), "{e}");
                assert!(!path.exists());
                continue;
            }
            let shape = (extension == "raw").then_some(&[2, 4][..]);
            let read = TensorFile::open(&path, &ReadOptions { dtype: Some(dtype), shape, ..ReadOptions::default() }).unwrap();
            let [t] = read.tensors() else { panic!("{path:?}") };
            let loaded = t.load().unwrap();
            assert_eq!((loaded.dtype(), loaded.layout().shape(), loaded.bytes()), (dtype, &[2, 4][..], &bytes[..]), "{path:?}");
            assert_eq!((t.dtype(), t.shape(), loaded.view().unwrap().elements()), (Some(dtype), &[2, 4][..], 8));
        }
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|n| !n.to_string_lossy().starts_with(".hipverify")), "temporary files are gone: {left:?}");
}

#[test]
fn big_endian_and_fortran_order_are_read_right() {
    let folder = tempfile::tempdir().unwrap();
    let big: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|v| v.to_be_bytes()).collect();
    let path = put(folder.path(), "b.npy", &npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", &big));
    assert_eq!(values(&open(&path).unwrap().tensors()[0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Column by column: (0,0) (1,0) (0,1) (1,1) (0,2) (1,2).
    let columns: Vec<u8> = [1i16, 4, 2, 5, 3, 6].iter().flat_map(|v| v.to_be_bytes()).collect();
    let path = put(folder.path(), "f.npy", &npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3)}", &columns));
    assert_eq!(values(&open(&path).unwrap().tensors()[0]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn four_bit_elements_one_a_byte_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "i4.npy", &npy("{'descr': '|V1', 'fortran_order': False, 'shape': (3,)}", &[1, 0xff, 0xf8]));
    let request = |dtype| ReadOptions { dtype: Some(dtype), ..ReadOptions::default() };
    assert_eq!(values(&TensorFile::open(&path, &request(DType::I4)).unwrap().tensors()[0]), [1.0, -1.0, -8.0]);
    let e = reason(&TensorFile::open(&path, &request(DType::F4E2M1)).unwrap().tensors()[0]);
    assert!(e.contains("element 1 is 0xff, not one f4e2m1 a byte"), "{e}");
}

#[test]
fn archives_are_read_stored_and_deflated() {
    let folder = tempfile::tempdir().unwrap();
    let a = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,)}", &[0; 4000]);
    let b = npy("{'descr': '<M8', 'fortran_order': False, 'shape': (2,)}", &[0; 16]);
    let members: [(&str, &[u8]); 4] = [("a.npy", &a), ("mask.npy", &b), ("readme.txt", b"hello"), ("bad.npy", b"hello")];
    for (name, method) in [("s.npz", zip::CompressionMethod::Stored), ("d.npz", zip::CompressionMethod::Deflated)] {
        let path = put(folder.path(), name, &zip(&members, method));
        let file = open(&path).unwrap();
        let [a, mask, readme, bad] = file.tensors() else { panic!("{:?}", file.tensors()) };
        assert_eq!(values(a), vec![0.0; 1000], "what is wrong with others is not its concern");
        assert!(reason(mask).ends_with("tensor `mask`: dtype '<M8' (time) is not supported; supported: f8 f4 f2 i1 u1 i2 i4 i8 b1 u2 u4 u8 c8 c16 f1 <V2, either byte order"), "{}", reason(mask));
        assert_eq!((mask.name(), mask.stored_type(), mask.shape(), mask.dtype()), ("mask", "<M8", &[2][..], None));
        assert!(reason(readme).contains("tensor `readme.txt`: not an .npy file"), "{}", reason(readme));
        assert!(reason(bad).contains("tensor `bad`: not an .npy file"), "{}", reason(bad));
        let one = TensorFile::open(&path, &ReadOptions { tensor: Some("a"), ..ReadOptions::default() }).unwrap();
        assert_eq!((one.tensors().len(), values(&one.tensors()[0])), (1, vec![0.0; 1000]));
        let e = TensorFile::open(&path, &ReadOptions { tensor: Some("c"), ..ReadOptions::default() }).unwrap_err().to_string();
        assert!(e.ends_with("no tensor `c`; there are: a, mask, readme.txt, bad"), "{e}");
    }
}

/// NumPy tells arrays by their first bytes, too.
#[test]
fn arrays_in_archives_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let a = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", &[0; 4]);
    let path = put(folder.path(), "n.npz", &zip(&[("x", &a), ("y.npy", &a)], zip::CompressionMethod::Stored));
    let file = open(&path).unwrap();
    assert_eq!(file.tensors().iter().map(Tensor::name).collect::<Vec<_>>(), ["x", "y"]);
    file.tensors().iter().for_each(|tensor| assert_eq!(values(tensor), [0.0]));
}

/// `zip -r` writes the folders beside their files.
#[test]
fn folders_in_archives_are_no_arrays() {
    let folder = tempfile::tempdir().unwrap();
    let a = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", &[0; 4]);
    let path = put(folder.path(), "z.npz", &zip(&[("d/", b""), ("d/a.npy", &a)], zip::CompressionMethod::Stored));
    let names: Vec<String> = open(&path).unwrap().tensors().iter().map(|t| t.name().to_owned()).collect();
    assert_eq!(names, ["d/a"]);
}

/// A flipped bit is seen in data and header, stored or deflated; without checksums, stored data are read as they are.
#[test]
fn damaged_archives_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let a = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (100,)}", &[7; 400]);
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let whole = zip(&[("a.npy", &a)], method);
        for cut in 0..whole.len() {
            let path = put(folder.path(), "cut.npz", &whole[..cut]);
            assert!(open(&path).is_err(), "{cut} of {} bytes", whole.len());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            let path = put(folder.path(), "bad.npz", &damaged);
            let _ = load(&path); // an error, or data: never a panic
        }
    }
    let mut stored = zip(&[("a.npy", &a)], zip::CompressionMethod::Stored);
    let data = stored.windows(8).position(|w| w == [7; 8]).unwrap();
    stored[data] ^= 1;
    let path = put(folder.path(), "flipped.npz", &stored);
    let e = load(&path).unwrap_err().to_string();
    assert!(e.contains("tensor `a`: its checksum is") && e.contains("damaged"), "{e}");
    let unchecked = TensorFile::open(&path, &ReadOptions { checksums: false, ..ReadOptions::default() }).unwrap();
    assert_eq!(unchecked.tensors()[0].load().unwrap().bytes()[..2], [6, 7]);
}

/// A member that is packed by another method is an error that names the method.
#[test]
fn methods_of_compression_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let a = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", &[7; 4]);
    for (number, name) in [(9, "Deflate64"), (12, "bzip2"), (14, "LZMA"), (93, "Zstandard"), (95, "XZ")] {
        let mut archive = zip(&[("a.npy", &a)], zip::CompressionMethod::Stored);
        for (header, method) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
            let at = archive.windows(4).position(|w| w == header).unwrap();
            archive[at + method] = number;
        }
        let e = load(&put(folder.path(), "other.npz", &archive)).unwrap_err().to_string();
        assert!(e.contains(&format!("compression {name} is not supported; supported: stored, deflated")), "{e}");
    }
}

/// What takes more memory than it may is refused before the memory is taken.
#[test]
fn copies_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let header = "{'descr': '>f4', 'fortran_order': False, 'shape': (1000,)}";
    let big = put(folder.path(), "big.npy", &npy(header, &[1; 4000]));
    let deflated = zip(&[("a.npy", &npy(header, &[1; 4000]))], zip::CompressionMethod::Deflated);
    let small = put(folder.path(), "small.npz", &deflated);
    let six = put(folder.path(), "six.safetensors", &{
        let header = r#"{"a":{"dtype":"F6_E2M3","shape":[4000],"data_offsets":[0,3000]}}"#;
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 3000]].concat()
    });
    for (path, max_memory, words) in [
        (&six, 3999, "4000 bytes in another order than ours need a copy, more than 3999"),
        (&six, 4000, ""),
        (&big, 3999, "4000 bytes in another order than ours need a copy, more than 3999"),
        (&small, 3999, "4000 bytes to inflate, more than 3999"),
        (&big, 4000, ""),
        (&small, 4000, ""),
    ] {
        let file = TensorFile::open(path, &ReadOptions { max_memory, ..ReadOptions::default() }).unwrap();
        let loaded = file.tensors()[0].load();
        match words {
            "" => assert_eq!(loaded.unwrap().bytes().len(), 4000),
            _ => assert!(loaded.unwrap_err().to_string().contains(words), "{path:?}"),
        }
    }
}

/// Sizes that an archive claims are not believed: more than deflate can pack, more or less than is there.
#[test]
fn claims_are_held_against_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let header = |elements: usize| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({elements},)}}");
    for (claim, elements, words) in [
        (u64::from(u32::MAX) - 100_000, 1000, "more than"),
        (4004, 1001, "holds"),
        (3996, 999, "larger than its declared"),
        (4000, 1000, ""),
    ] {
        let member = npy(&header(elements), &[0; 4000]);
        let mut file = zip(&[("a.npy", &member)], zip::CompressionMethod::Deflated);
        assert!(file.len() < 500, "it is compressed");
        let size = (member.len() as u32).to_le_bytes();
        let places: Vec<usize> = (0..file.len() - 4).filter(|&at| file[at..at + 4] == size).collect();
        assert!(places.len() >= 2, "local header and directory have the size");
        for at in places {
            file[at..at + 4].copy_from_slice(&((member.len() as u64 - 4000 + claim) as u32).to_le_bytes());
        }
        let path = put(folder.path(), "claim.npz", &file);
        let found = load(&path);
        match words {
            "" => found.unwrap(),
            _ => assert!(found.as_ref().unwrap_err().to_string().contains(words), "{claim}: {found:?}"),
        }
    }
}

#[test]
fn complex_numbers_are_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let parts: Vec<f64> = (0..12).map(f64::from).collect();
    let singles: Vec<u8> = parts.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect();
    let big: Vec<u8> = parts.iter().flat_map(|v| v.to_be_bytes()).collect();
    // Column by column, the parts of an element together.
    let columns: Vec<u8> =
        [0, 3, 1, 4, 2, 5].iter().flat_map(|&e: &u8| [f64::from(2 * e), f64::from(2 * e + 1)]).flat_map(f64::to_le_bytes).collect();
    for (name, header, data) in [
        ("c8.npy", "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}", &singles),
        ("c16.npy", "{'descr': '>c16', 'fortran_order': False, 'shape': (2, 3)}", &big),
        ("fortran.npy", "{'descr': '<c16', 'fortran_order': True, 'shape': (2, 3)}", &columns),
    ] {
        let file = open(&put(folder.path(), name, &npy(header, data))).unwrap();
        let tensor = &file.tensors()[0];
        assert_eq!((tensor.shape(), tensor.layout().unwrap().shape()), (&[2, 3][..], &[2, 3, 2][..]), "{name}");
        assert_eq!(values(tensor), parts, "{name}");
    }
}

#[test]
fn folders_and_shards_are_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let one = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", &1f32.to_le_bytes());
    std::fs::create_dir_all(root.join("tree/layer")).unwrap();
    put(root, "tree/layer/w.npy", &one);
    put(root, "tree/b.npz", &zip(&[("x.npy", &one)], zip::CompressionMethod::Stored));
    put(root, "tree/bad.npy", b"nothing");
    put(root, "tree/notes.txt", b"nothing");
    let tree = open(&root.join("tree")).unwrap();
    let names: Vec<&str> = tree.tensors().iter().map(Tensor::name).collect();
    assert_eq!((tree.kind(), names), (FileKind::Folder, vec!["b/x", "bad", "layer/w"]));
    assert_eq!(values(&tree.tensors()[2]), [1.0]);
    assert!(reason(&tree.tensors()[1]).contains("not an .npy file"), "one damaged file does not spoil the others");
    std::fs::create_dir_all(root.join("model")).unwrap();
    for (shard, name) in [("model-1.safetensors", "w"), ("model-2.safetensors", "b")] {
        let output = Output { name, dtype: DType::F32, shape: &[1], bytes: &1f32.to_le_bytes() };
        write(&root.join("model").join(shard), Format::Safetensors, &output).unwrap();
    }
    for (map, words) in [
        (r#"{"w":"model-1.safetensors","b":"model-2.safetensors"}"#, ""),
        (r#"{"w":"model-1.safetensors","v":"model-2.safetensors"}"#, "tensor `v` is not in model-2.safetensors"),
        (r#"{"w":"model-1.safetensors","w":"model-2.safetensors"}"#, "tensor `w` occurs twice"),
        (r#"{"w":1}"#, "index of shards: the file of `w` is 1"),
        (r#"{"w":"../model/model-1.safetensors"}"#, "which is not a file beside it"),
        (r#"{"w":"/etc/passwd"}"#, "which is not a file beside it"),
        (r#"{"w":"model-3.safetensors"}"#, "model-3.safetensors: No such file"),
        ("[]", "index of shards"),
    ] {
        let index = put(root, "model/model.safetensors.index.json", format!(r#"{{"metadata":{{}},"weight_map":{map}}}"#).as_bytes());
        for path in [index, root.join("model")] {
            let found = open(&path);
            match words {
                "" => assert_eq!(found.unwrap().tensors().iter().map(Tensor::name).collect::<Vec<_>>(), ["b", "w"]),
                _ => assert!(found.as_ref().unwrap_err().to_string().contains(words), "{map}: {found:?}"),
            }
        }
    }
    let names = |path: PathBuf| open(&path).unwrap().tensors().iter().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>();
    put(root, "model/model.safetensors.index.json", br#"{"weight_map":{"w":"model-1.safetensors"}}"#);
    put(root, "model/second.safetensors", &std::fs::read(root.join("model/model-2.safetensors")).unwrap());
    assert_eq!(names(root.join("model")), ["w", "model-2/b", "second/b"], "files beside the shards");
    assert_eq!(names(root.to_owned())[..4], ["model/w", "model/model-2/b", "model/second/b", "tree/b/x"], "an index further down");
    put(root, "model/two.safetensors.index.json", br#"{"weight_map":{"b":"second.safetensors"}}"#);
    assert_eq!(names(root.join("model")), ["model/w", "two/b", "model-2/b"], "two of them");
    let both = ["b", "w"].map(|name| Heading { name, dtype: DType::F32, shape: &[1] });
    write_each(&root.join("model/second.safetensors"), Format::Safetensors, &both, &mut |_| Ok(vec![0; 4].into())).unwrap();
    assert_eq!(names(root.join("model/two.safetensors.index.json")), ["b", "w"], "what a shard has besides");
    std::fs::create_dir_all(root.join("none")).unwrap();
    assert!(open(&root.join("none")).unwrap_err().to_string().contains("a folder without tensors: .npy, .npz, "));
}

/// Checkpoints by other names than .pt, in a folder that has nothing else.
#[test]
fn checkpoints_have_several_names() {
    let folder = tempfile::tempdir().unwrap();
    let one = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", &1f32.to_le_bytes());
    let archive = zip(&[("w.npy", &one)], zip::CompressionMethod::Stored);
    for (name, bytes) in [
        ("pytorch_model-1.bin", &archive[..]),
        ("last.CKPT", &archive),
        ("raw.bin", &[0; 64]),
        ("short.bin", b"PK"),
        ("notes.zip", &archive),
    ] {
        put(folder.path(), name, bytes);
    }
    let names = || open(folder.path()).unwrap().tensors().iter().map(|t| t.name().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(), ["last/w", "pytorch_model-1/w"]);
    put(folder.path(), "w.npy", &one);
    assert_eq!(names(), ["w"], "beside others they are the same tensors once more");
}

/// Of two tensors of one name only one would be looked at.
#[test]
fn a_name_stands_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let one = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", &1f32.to_le_bytes());
    let stored = |members: &[(&str, &[u8])]| zip(members, zip::CompressionMethod::Stored);
    std::fs::create_dir_all(root.join("tree/a")).unwrap();
    put(root, "tree/a/x.npy", &one);
    let archive = put(root, "tree/a.npz", &stored(&[("x.npy", &one)]));
    // The writer refuses a name that is there already.
    let mut same = stored(&[("x.npy", &one), ("y.npy", &one)]);
    for at in 0..same.len() - 5 {
        if &same[at..at + 5] == b"y.npy" {
            same[at] = b'x';
        }
    }
    let same = put(root, "same.npz", &same);
    let alike = put(root, "alike.npz", &stored(&[("x.npy", &one), ("x", &one)]));
    for (paths, words) in [
        (vec![same], "same.npz: two members of the archive have the same name"),
        (vec![alike], "alike.npz: two tensors are called `x`, both in "),
        (vec![root.join("tree")], "tree: two tensors are called `a/x`, one in "),
        (vec![archive.clone(), root.join("tree/a/x.npy")], "and 1 more file: two tensors are called `x`, one in "),
        (vec![archive.clone(), archive.clone()], "two tensors are called `x`, both in "),
    ] {
        let error = TensorFile::open_all(&paths, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(open(&archive).is_ok());
}

#[test]
fn bad_files_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let f4 = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}";
    let nameless = put(folder.path(), "no-extension", &[8u64.to_le_bytes().as_slice(), b"{} ", &[b' '; 5]].concat());
    assert_eq!(open(&nameless).unwrap().kind(), FileKind::Safetensors);
    for (name, bytes, words) in [
        ("short.npy", npy(f4, &[0; 11]), "truncated: shape [3] of 4-byte elements takes 12 bytes, the file holds 11"),
        ("long.npy", npy(f4, &[0; 24]), "the file holds 24 (several arrays in one .npy?)"),
        ("magic.npy", b"not numpy at all".to_vec(), "not an .npy file: it starts with not nu"),
        ("empty.npy", vec![], "not an .npy file: 0 bytes"),
        ("zip.npz", b"nothing".to_vec(), "not a readable zip archive"),
        ("x.safetensors", vec![], "not a .safetensors file: 0 bytes"),
        ("x.bin", vec![0; 8], "raw data need --dtype and --shape"),
        ("legacy.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.".to_vec(), "not a zip archive, which PyTorch writes since 1.6"),
        ("empty.PTH", vec![], "not a zip archive, which PyTorch writes since 1.6"),
        ("cut.pt", b"PK\x03\x04".to_vec(), "not a readable zip archive (truncated?)"),
    ] {
        let path = put(folder.path(), name, &bytes);
        let e = open(&path).unwrap_err().to_string();
        assert!(e.contains(words) && e.contains(name), "{e}");
    }
    assert!(open(&folder.path().join("absent.npy")).unwrap_err().to_string().contains("absent.npy: No such file"));
    let path = put(folder.path(), "r.bin", &[0; 8]);
    for (dtype, shape, words) in [
        (DType::F32, vec![3], "shape [3] of f32 takes 12 bytes, the file holds 8"),
        (DType::F32, vec![usize::MAX, 2], "overflows"),
        (DType::F64, vec![usize::MAX / 4], "exceeds the address space"),
    ] {
        let request = ReadOptions { dtype: Some(dtype), shape: Some(&shape), ..ReadOptions::default() };
        let e = TensorFile::open(&path, &request).unwrap_err().to_string();
        assert!(e.contains(words), "{e}");
    }
    let path = put(folder.path(), "w.npy", &npy(f4, &[0; 12]));
    let request = ReadOptions { dtype: Some(DType::F16), ..ReadOptions::default() };
    let e = TensorFile::open(&path, &request).unwrap_err().to_string();
    assert!(e.contains("no elements of the width of f16; it holds f32"), "{e}");
    let request = ReadOptions { shape: Some(&[4]), ..ReadOptions::default() };
    let file = TensorFile::open(&path, &request).unwrap();
    assert_eq!((file.has_raw(), file.tensors()[0].shape()), (false, &[3][..]), "its own shape");
}

/// A file whose header and data contradict each other is not written, and what was there stays.
#[test]
fn bytes_that_are_not_those_of_the_shape_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (good, huge) = ([7; 1024], [1 << 40, 1 << 40]);
    for (format, extension) in [(Format::Npy, "npy"), (Format::Npz, "npz"), (Format::Safetensors, "safetensors"), (Format::Raw, "raw")] {
        let path = put(folder.path(), &format!("x.{extension}"), b"what was there");
        for (dtype, shape, bytes, words) in [
            (DType::F32, &[257][..], &good[..], "shape [257] of f32 takes 1028 bytes, 1024 are given"),
            (DType::F32, &[255], &good, "shape [255] of f32 takes 1020 bytes, 1024 are given"),
            (DType::F32, &[2, 128], &good[1..], "shape [2, 128] of f32 takes 1024 bytes, 1023 are given"),
            (DType::F4E2M1, &[2046], &good, "shape [2046] of f4e2m1 takes 1023 bytes, 1024 are given"),
            (DType::F6E2M3, &[1024], &good[..768], "shape [1024] of f6e2m3 takes 1024 bytes, 768 are given"),
            (DType::F32, &huge, &[], "its number of elements overflows"),
            (DType::F64, &[1 << 61], &[], "shape [2305843009213693952] of f64 exceeds the address space"),
            (DType::F32, &[0, 3], &[0; 4], "shape [0, 3] of f32 takes 0 bytes, 4 are given"),
        ] {
            let e = write(&path, format, &Output { name: "x", dtype, shape, bytes }).unwrap_err().to_string();
            assert!(e.contains(words) && e.contains(extension), "{e}");
            assert_eq!(std::fs::read(&path).unwrap(), b"what was there", "{extension} {shape:?}");
        }
        for (shape, bytes) in [(&[256][..], &good[..]), (&[], &good[..4]), (&[1 << 40, 0, 1 << 40], &[])] {
            write(&path, format, &Output { name: "x", dtype: DType::F32, shape, bytes }).unwrap();
        }
        assert!(check(&path, format, DType::F32, &huge).is_err(), "{extension}: before the data are made");
    }
}

#[test]
fn writing_refuses_what_cannot_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = Output { name: "x", dtype: DType::F32, shape: &[1], bytes: &[0; 4] };
    let e = Format::of(Path::new("x.txt")).unwrap_err().to_string();
    assert!(e.contains("x.txt: `txt` names no format"), "{e}");
    for format in [Format::Npy, Format::Npz] {
        let e = write(&folder.path().join("no/such/x"), format, &output).unwrap_err().to_string();
        assert!(e.contains("No such file") && !e.contains(".hipverify"), "the temporary name is nobody's concern: {e}");
    }
    let metadata = Output { name: "__metadata__", ..output };
    let e = write(&folder.path().join("x.safetensors"), Format::Safetensors, &metadata).unwrap_err().to_string();
    assert!(e.contains("a tensor cannot be called `__metadata__`"), "{e}");
    let odd = Output { name: "x", dtype: DType::F4E2M1, shape: &[3], bytes: &[0; 2] };
    let e = write(&folder.path().join("x.safetensors"), Format::Safetensors, &odd).unwrap_err().to_string();
    assert!(e.contains("3 elements of f4e2m1 do not fill whole bytes"), "{e}");
}
