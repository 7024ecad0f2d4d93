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
    (0..t.layout.elements()).map(|i| t.dtype.decode(t.dtype.load_bits(t.bytes(), t.layout.index(i)))).collect()
}

fn open(path: &Path) -> Result<TensorFile> {
    TensorFile::open(path, &Request::default())
}

#[test]
fn what_is_written_is_read_back_in_every_format_and_type() {
    let folder = tempfile::tempdir().unwrap();
    for dtype in DType::ALL {
        let bytes: Vec<u8> = (1..=dtype.bytes_for(8).unwrap() as u8).map(|b| b & 0x3f).collect();
        for extension in ["npy", "npz", "safetensors", "raw"] {
            let path = folder.path().join(format!("{dtype}.{extension}"));
            let output = Output { name: "x", dtype, shape: &[2, 4], bytes: &bytes };
            if let Err(e) = write(&path, &output) {
                let (other, what) = if extension == "safetensors" { (".raw", "safetensors") } else { (".safetensors", "npy") };
                let words = format!("the {what} format has no name for {dtype}; write {other}");
                assert!(e.to_string().contains(&words), "{e}");
                assert!(!path.exists());
                continue;
            }
            let shape = (extension == "raw").then_some(&[2, 4][..]);
            let read = TensorFile::open(&path, &Request { dtype: Some(dtype), shape, tensor: None }).unwrap();
            let [t] = read.tensors() else { panic!("{path:?}") };
            assert_eq!((t.dtype(), t.layout().shape(), t.bytes()), (dtype, &[2, 4][..], &bytes[..]), "{path:?}");
            assert_eq!(t.view().unwrap().elements(), 8);
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
    let request = |dtype| Request { dtype: Some(dtype), ..Request::default() };
    assert_eq!(values(&TensorFile::open(&path, &request(DType::I4)).unwrap().tensors()[0]), [1.0, -1.0, -8.0]);
    let e = TensorFile::open(&path, &request(DType::F4E2M1)).unwrap_err().to_string();
    assert!(e.contains("element 1 is 0xff, not one f4e2m1 a byte"), "{e}");
}

#[test]
fn archives_are_read_stored_and_deflated() {
    let folder = tempfile::tempdir().unwrap();
    let a = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000,)}", &[0; 4000]);
    let b = npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", &[0; 16]);
    for (name, method) in [("s.npz", zip::CompressionMethod::Stored), ("d.npz", zip::CompressionMethod::Deflated)] {
        let path = put(folder.path(), name, &zip(&[("a.npy", &a), ("mask.npy", &b)], method));
        let e = open(&path).unwrap_err().to_string();
        assert!(e.contains("npz member `mask`: dtype '<c8' (complex) is not supported"), "{e}");
        let one = TensorFile::open(&path, &Request { tensor: Some("a"), ..Request::default() }).unwrap();
        assert_eq!((one.tensors().len(), values(&one.tensors()[0])), (1, vec![0.0; 1000]), "the mask is not asked for");
        let e = TensorFile::open(&path, &Request { tensor: Some("c"), ..Request::default() }).unwrap_err().to_string();
        assert!(e.ends_with("no tensor `c`; there are: a, mask"), "{e}");
    }
    let path = put(folder.path(), "t.npz", &zip(&[("readme.txt", b"hello")], zip::CompressionMethod::Stored));
    assert!(open(&path).unwrap_err().to_string().contains("`readme.txt` is not an .npy file"));
}

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
            let _ = open(&path); // an error, or data: never a panic
        }
    }
}

#[test]
fn bad_files_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let f4 = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}";
    let nameless = put(folder.path(), "no-extension", &[8u64.to_le_bytes().as_slice(), b"{} ", &[b' '; 5]].concat());
    assert_eq!(open(&nameless).unwrap().kind(), Kind::Safetensors);
    for (name, bytes, words) in [
        ("short.npy", npy(f4, &[0; 11]), "truncated: shape [3] of 4-byte elements takes 12 bytes, the file holds 11"),
        ("long.npy", npy(f4, &[0; 24]), "the file holds 24 (several arrays in one .npy?)"),
        ("magic.npy", b"not numpy at all".to_vec(), "not an .npy file: it starts with not nu"),
        ("empty.npy", vec![], "not an .npy file: 0 bytes"),
        ("zip.npz", b"nothing".to_vec(), "not a readable .npz archive"),
        ("x.safetensors", vec![], "not a .safetensors file: 0 bytes"),
        ("x.bin", vec![0; 8], "raw data need --dtype and --shape"),
    ] {
        let path = put(folder.path(), name, &bytes);
        let e = open(&path).unwrap_err().to_string();
        assert!(e.contains(words) && e.contains(name), "{e}");
    }
    assert!(open(&folder.path().join("absent.npy")).unwrap_err().to_string().contains("absent.npy: No such file"));
    assert!(open(folder.path()).unwrap_err().to_string().ends_with("is a directory"));
    let path = put(folder.path(), "r.bin", &[0; 8]);
    for (dtype, shape, words) in [
        (DType::F32, vec![3], "shape [3] of f32 takes 12 bytes, the file holds 8"),
        (DType::F32, vec![usize::MAX, 2], "overflows"),
        (DType::F64, vec![usize::MAX / 4], "exceeds the address space"),
    ] {
        let request = Request { dtype: Some(dtype), shape: Some(&shape), tensor: None };
        let e = TensorFile::open(&path, &request).unwrap_err().to_string();
        assert!(e.contains(words), "{e}");
    }
    let path = put(folder.path(), "w.npy", &npy(f4, &[0; 12]));
    let request = Request { dtype: Some(DType::F16), ..Request::default() };
    let e = TensorFile::open(&path, &request).unwrap_err().to_string();
    assert!(e.contains("no elements of the width of f16; it holds f32"), "{e}");
    let request = Request { shape: Some(&[3]), ..Request::default() };
    let e = TensorFile::open(&path, &request).unwrap_err().to_string();
    assert!(e.contains("--shape is for raw files"), "{e}");
}

#[test]
fn writing_refuses_what_cannot_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = Output { name: "x", dtype: DType::F32, shape: &[1], bytes: &[0; 4] };
    let e = write(&folder.path().join("x.txt"), &output).unwrap_err().to_string();
    assert!(e.contains("extension `txt` names no format"), "{e}");
    let e = write(&folder.path().join("no/such/x.npy"), &output).unwrap_err().to_string();
    assert!(e.contains("No such file"), "{e}");
    let odd = Output { name: "x", dtype: DType::F4E2M1, shape: &[3], bytes: &[0; 2] };
    let e = write(&folder.path().join("x.safetensors"), &odd).unwrap_err().to_string();
    assert!(e.contains("3 elements of f4e2m1 do not fill whole bytes"), "{e}");
}
