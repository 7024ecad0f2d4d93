//! Tensor files: each input is a file, or what lies inside of one whose checksums are then right.

use super::{Bytes, kind};
use hipverify::DType;
use hipverify::files::{ReadOptions, Tensor, TensorFile};
use std::io::{Cursor, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Little, so that what is believed too early shows.
const MAX_MEMORY: u64 = 1 << 20;

fn options() -> ReadOptions<'static> {
    ReadOptions { max_memory: MAX_MEMORY, ..ReadOptions::default() }
}

/// Loads a tensor, and reads its first and last element where they say they are.
fn load(tensor: &Tensor) -> u64 {
    let loaded = tensor.load();
    kind(&loaded, |loaded| {
        assert!(loaded.bytes().len() >= loaded.dtype().bytes_for(loaded.layout().end()).expect("a size that was loaded"));
        let view = loaded.view().expect("what was loaded has a view");
        let elements = view.elements();
        if elements > 0 {
            for element in [0, elements - 1] {
                let _ = loaded.dtype().load_bits(loaded.bytes(), loaded.layout().index(element));
            }
        }
        1 + loaded.dtype() as u64 + 100 * loaded.layout().shape().len() as u64
    })
}

fn open(name: &str, bytes: Vec<u8>, options: &ReadOptions<'_>) -> u64 {
    let file = TensorFile::from_bytes(Path::new(name), bytes, options);
    kind(&file, |file| file.tensors().iter().map(load).fold(7, |all, one| all.rotate_left(5) ^ one))
}

pub(super) fn npy(input: &[u8]) -> u64 {
    open("x.npy", input.to_vec(), &options())
}

pub(super) fn npz(input: &[u8]) -> u64 {
    open("x.npz", input.to_vec(), &ReadOptions { checksums: input.len().is_multiple_of(2), ..options() })
}

/// An archive of two members, one of them deflated.
pub(super) fn npz_members(input: &[u8]) -> u64 {
    let (first, second) = input.split_at(input.len() / 2);
    open(
        "x.npz",
        archive(&[
            ("a.npy", input, CompressionMethod::Deflated),
            ("b.npy", first, CompressionMethod::Stored),
            ("c", second, CompressionMethod::Stored),
        ]),
        &options(),
    )
}

pub(super) fn safetensors(input: &[u8]) -> u64 {
    open("x.safetensors", input.to_vec(), &options())
}

/// A pickle as PyTorch packs it, with a storage of four numbers.
pub(super) fn pickle(input: &[u8]) -> u64 {
    let stored = |name, bytes| (name, bytes, CompressionMethod::Stored);
    let members =
        [stored("m/data.pkl", input), stored("m/byteorder", &b"little"[..]), stored("m/data/0", &[1; 16]), stored("m/version", b"3\n")];
    open("x.pt", archive(&members), &options())
}

fn archive(members: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, method) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(*method)).expect("a member");
        zip.write_all(bytes).expect("memory is written");
    }
    zip.finish().expect("an archive").into_inner()
}

/// The first bytes are the options.
pub(super) fn raw(input: &[u8]) -> u64 {
    let mut bytes = Bytes(input);
    let dtype = DType::ALL[bytes.below(DType::ALL.len())];
    let large = bytes.below(8) == 0;
    let shape: Vec<usize> = (0..bytes.below(5)).map(|_| if large { bytes.word() as usize } else { bytes.below(9) }).collect();
    open("x.bin", bytes.0.to_vec(), &ReadOptions { dtype: Some(dtype), shape: Some(&shape), ..options() })
}

/// An index in a folder with one shard.
pub(super) fn shards(input: &[u8]) -> u64 {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder");
    }
    FOLDER.with(|folder| {
        let header = br#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
        let shard = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
        std::fs::write(folder.path().join("x.safetensors"), shard).expect("a shard");
        let index = folder.path().join("model.safetensors.index.json");
        std::fs::write(&index, input).expect("an index");
        let file = TensorFile::open(&index, &options());
        kind(&file, |file| file.tensors().iter().map(load).fold(7, |all, one| all.rotate_left(5) ^ one))
    })
}
