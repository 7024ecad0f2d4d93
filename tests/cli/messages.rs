//! What the program says where something was left out, was given to the wrong side, or is in another form than it has to be.

use super::support::{Folder, f32s, npy_f32, safetensors};

/// The opcodes of a tensor, `rows` x `columns` of f16, which begins at element `offset` of the storage.
fn torch_view(offset: u8, [rows, columns]: [u8; 2]) -> Vec<u8> {
    let mut opcodes = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nHalfStorage\nX\x01\0\0\x000NNtQ".to_vec();
    opcodes.extend([b'K', offset, b'K', rows, b'K', columns, 0x86, b'K', columns, b'K', 1, 0x86]);
    opcodes.extend(b"tR");
    opcodes
}

/// A .pt file of these opcodes, with one storage.
fn torch_file(folder: &Folder, name: &str, opcodes: &[&[u8]], storage: &[u8]) {
    use std::io::Write;
    let pickle = [b"\x80\x02", &opcodes.concat()[..], b"."].concat();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (member, bytes) in [("data.pkl", &*pickle), ("byteorder", b"little"), ("data/0", storage), ("version", b"3\n")] {
        zip.start_file(format!("archive/{member}"), options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    folder.put(name, &zip.finish().unwrap().into_inner());
}

/// A view of a part of a storage is that part, for every command that copies tensors.
#[test]
fn views_of_a_storage_are_read_from_where_they_begin() {
    let folder = Folder::new();
    for line in [
        "fill a.npy --dtype f16 --shape 32,8 --seed 1",
        "fill b.npy --dtype f16 --shape 8,32 --seed 2",
        "fill other.npy --dtype f16 --shape 128 --seed 3",
    ] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    let data = |name: &str, bytes: usize| {
        let file = std::fs::read(folder.path(name)).unwrap();
        file[file.len() - bytes..].to_vec()
    };
    let (other, a) = (data("other.npy", 256), data("a.npy", 512));
    torch_file(&folder, "a.pt", &[b"}X\x01\0\0\0w", &torch_view(128, [32, 8]), b"s"], &[&other[..], &a, &other].concat());
    let d = |a: &str, out: &str| {
        let run = folder.run(&format!("mfma --arch gfx908 --instr f32_32x32x8f16 {a} b.npy -o {out}"));
        assert_eq!(run.code, 0, "{a}: {}", run.err);
        std::fs::read(folder.path(out)).unwrap()
    };
    assert_eq!(d("a.pt", "of_view.npy"), d("a.npy", "of_file.npy"));
    assert_eq!(folder.run("convert a.pt converted.npy").code, 0);
    assert_eq!(data("converted.npy", 512), a);
}

/// `torch.save(x, "bare.pt")` gives the tensor no name: it is compared with any other one, as that of an .npy file is.
#[test]
fn a_bare_tensor_needs_no_name() {
    let folder = Folder::new();
    for line in ["fill w.npy --dtype f16 --shape 2,4", "fill w.safetensors --dtype f16 --shape 2,4 --name w"] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    let file = std::fs::read(folder.path("w.npy")).unwrap();
    let (storage, one) = (&file[file.len() - 16..], torch_view(0, [2, 4]));
    torch_file(&folder, "bare.pt", &[&one], storage);
    torch_file(&folder, "list.pt", &[b"](", &one, &one, b"e"], storage);
    torch_file(&folder, "other.pt", &[&one], &storage.iter().rev().copied().collect::<Vec<u8>>());
    for line in [
        "compare bare.pt w.npy",
        "compare bare.pt w.safetensors",
        "compare w.safetensors bare.pt",
        "compare w.safetensors bare.pt --tensor w",
        "compare list.pt bare.pt --tensor 0",
        "compare bare.pt w.npy --earlier other.pt",
        "golden record g.toml bare.pt",
        "golden check g.toml bare.pt",
    ] {
        let run = folder.run(&format!("{line}{}", if line.starts_with("compare") { " --rtol 0 --atol 0" } else { "" }));
        assert_eq!(run.code, 0, "{line}: {}{}", run.out, run.err);
    }
    let golden = std::fs::read_to_string(folder.path("g.toml")).unwrap();
    assert!(golden.contains("\nbare = {") || golden.contains("\n\"bare\" = {"), "{golden}");
    folder.refused("compare list.pt bare.pt", "list.pt has 2 tensors, bare.pt has one without a name; choose one with --tensor");
    folder.refused("compare bare.pt w.npy --tensor x", "--tensor x: no tensor of bare.pt, w.npy has a name");
}

/// The error of a baseline is a measure for a result of its own format; the report says how large it was.
#[test]
fn baselines_have_the_format_of_the_result() {
    let folder = Folder::new();
    for (name, values) in [("r.npy", [1.0, 2.0]), ("x.npy", [1.0, 2.25]), ("b.npy", [1.0, 2.125])] {
        folder.put(name, &npy_f32(&values));
    }
    assert_eq!(folder.run("convert b.npy h.npy --to f16").code, 0);
    let compare = "compare x.npy r.npy --profile flash-attention --baseline";
    folder.refused(&format!("{compare} h.npy"), "the baseline, h.npy: is f16, and the result f32: a baseline has the format of the result");
    let run = folder.run(&format!("{compare} b.npy"));
    let line = "\n  baseline   max|a - r| <= 2 E + 2 max|(r + 0.3 - 0.3) - r|, E = 0.125, the latter 1.49e-8\n";
    assert!(run.code == 0 && run.out.contains(line), "{}{}", run.out, run.err);
    let two = |v: f32| safetensors(&[("a", "F32", &[2], f32s(&[v, 1.0])), ("b", "F32", &[2], f32s(&[v, 1.0]))]);
    for (name, v) in [("r", 2.0), ("x", 2.25), ("b", 2.125)] {
        folder.put(&format!("{name}.safetensors"), &two(v));
    }
    let run = folder.run("compare x.safetensors r.safetensors --profile flash-attention --baseline b.safetensors");
    assert_eq!((run.code, run.out.matches("\n      baseline: max|a - r| <= 2 E").count()), (0, 2), "{}{}", run.out, run.err);
}

/// Rules that grow with the length of sums say that they took one term for it.
#[test]
fn a_length_of_sums_that_nobody_gave_is_told() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("two.safetensors", &safetensors(&[("a", "F32", &[1], f32s(&[1.0])), ("b", "F32", &[1], f32s(&[1.0]))]));
    let note = |profile: &str| format!("note: profile {profile}: K = 1 was taken for the length of sums; --accumulations gives it\n");
    for (line, said) in [
        ("x.npy x.npy --profile rocblas", note("rocblas")),
        ("x.npy x.npy --profile hipdnn", note("hipdnn")),
        ("x.npy x.npy --profile benchdnn", note("benchdnn")),
        ("x.npy x.npy --profile rocblas --accumulations 1", String::new()),
        ("x.npy x.npy --profile torch", String::new()),
        ("x.npy x.npy", String::new()),
        ("two.safetensors two.safetensors --profile rocblas", note("rocblas")),
        ("two.safetensors two.safetensors --rule a:profile=hipdnn --profile rocblas", note("hipdnn") + &note("rocblas")),
        ("two.safetensors two.safetensors --rule *:profile=hipdnn,accumulations=9 --profile rocblas", String::new()),
    ] {
        let run = folder.run(&format!("compare {line}"));
        assert_eq!(run.err, said, "{line}: {}", run.out);
    }
}

#[test]
fn errors_name_what_is_wrong_and_what_is_missing() {
    let folder = Folder::new();
    for line in [
        "fill a.npy --dtype f32 --shape 8,16 --seed 1",
        "fill b.npy --dtype f32 --shape 16,4 --seed 2",
        "reference gemm a.npy b.npy d.npy --to f32",
        "fill turned.npy --dtype f32 --shape 4,8 --seed 3",
        "fill raw.bin --dtype f32 --shape 4",
    ] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    for (line, words) in [
        ("inspect raw.bin", "raw data need --dtype and --shape"),
        ("inspect raw.bin --dtype f32", "raw data need --shape as well as --dtype"),
        ("inspect raw.bin --shape 4", "raw data need --dtype as well as --shape"),
        ("check gemm a.npy b.npy turned.npy", "the result of A, [8, 16], by B, [16, 4]: shape [4, 8] does not match [8, 4]"),
        (
            "check gemm b.npy a.npy turned.npy --transpose-a --transpose-b",
            "the result of A, transposed [16, 4], by B, transposed [8, 16]: shape [4, 8] does not match [4, 8]",
        ),
        ("check gemm a.npy a.npy d.npy", "operand B: shape [8, 16] does not match [16, 4]"),
        (
            "check gemm a.npy b.npy d.npy --arch sm_80",
            "a.npy, b.npy, d.npy: a check of f32 by f32 on the tensor cores of sm_80 is not supported",
        ),
        ("golden check a.npy a.npy", "a.npy: not a file of golden results, which are text"),
    ] {
        if line.contains("--transpose") {
            assert_eq!(folder.run(line).code, 1, "{line}: these fit");
        } else {
            folder.refused(line, words);
        }
    }
    let run = folder.run("check gemm a.npy b.npy d.npy --arch sm_80 --dtype tf32,tf32,-");
    assert!(run.code <= 1 && run.err.is_empty(), "what the hint says can be done: {}", run.err);
    folder.refused(
        "check gemm a.npy b.npy d.npy --arch sm_80",
        "; f32 words that tensor cores take as tf32 are read so by --dtype tf32,tf32,-",
    );
    let run = folder.run("check gemm a.npy b.npy d.npy --arch gfx90a");
    assert!(!run.err.contains("tf32"), "{}", run.err);
}

/// One file without names has its own for a name, which may be another one the next day.
#[test]
fn golden_results_of_another_file_name_are_hinted_at() {
    let folder = Folder::new();
    folder.put("monday.npy", &npy_f32(&[1.0]));
    folder.put("tuesday.npy", &npy_f32(&[1.0]));
    std::fs::create_dir(folder.path("week")).unwrap();
    folder.put("week/tuesday.npy", &npy_f32(&[1.0]));
    assert_eq!(folder.run("golden record g.toml monday.npy").code, 0);
    let hint = "note: a tensor without a name has that of its file: `monday` may be `tuesday`, from a file of another name";
    for (files, code, hinted) in [("monday.npy", 0, false), ("tuesday.npy", 1, true), ("week", 1, false)] {
        let run = folder.run(&format!("golden check g.toml {files}"));
        assert_eq!((run.code, run.out.contains(hint)), (code, hinted), "{files}: {}{}", run.out, run.err);
    }
}

/// Machines find a pair that could not be compared where they find all pairs.
#[test]
fn a_pair_that_does_not_fit_has_a_row() {
    let folder = Folder::new();
    let w = |n: usize| ("w", "F32", vec![n], f32s(&vec![1.0; n]));
    for (name, tensors) in [("a", vec![w(2)]), ("b", vec![w(3)])] {
        let one: Vec<_> = tensors.iter().map(|(name, dtype, shape, bytes)| (*name, *dtype, &shape[..], bytes.clone())).collect();
        folder.put(&format!("{name}.safetensors"), &safetensors(&one));
        folder.put(&format!("{name}2.safetensors"), &safetensors(&[one, vec![("v", "F32", &[1][..], f32s(&[1.0]))]].concat()));
    }
    for (files, rows) in [("a.safetensors b.safetensors", 1), ("a2.safetensors b2.safetensors", 2)] {
        let (code, json) = folder.json(&format!("compare {files} --json"));
        let tensors = json["tensors"].as_array().unwrap();
        let row = tensors.iter().find(|tensor| tensor["name"] == "w").unwrap();
        assert_eq!((code, tensors.len(), &row["verdict"], &json["verdict"]), (2, rows, &"error".into(), &"error".into()), "{json}");
        assert!(row["reason"].as_str().unwrap().contains("shape [2] does not match [3]"), "{json}");
    }
    let (code, json) = folder.json("compare a.safetensors absent.safetensors --json");
    assert_eq!((code, json["tensors"].as_array().unwrap().len()), (2, 0), "no pair was found: {json}");
}

/// Suites: values that would be taken for something else, and the command of a case.
#[test]
fn suites_say_what_they_take() {
    let folder = Folder::new();
    folder.put("s.toml", b"[[gemm]]\nsize = '4x4x4'\ndata = 'constant:1|constant:2'\n");
    folder.put("unnamed.toml", b"[[gemm]]\nsize = '4x4x4'\nname = ' '\n");
    for (line, words) in [
        (
            "suite run s.toml --device host --results x.txt",
            "--results x.txt: results go to a file whose name ends in .jsonl, or into a folder",
        ),
        ("suite run s.toml --device host --resume x.json", "--resume x.json: results go to a file"),
        ("suite list unnamed.toml", "unnamed.toml:3: `name` is empty"),
    ] {
        folder.refused(line, words);
    }
    assert!(!folder.path("x.txt").exists());
    let shown = folder.run("suite show s.toml gemm");
    assert!(
        shown.out.contains("constant:1") && shown.out.contains("constant:2"),
        "generators without spaces around |: {}{}",
        shown.out,
        shown.err
    );
    for (results, file) in [("day.1/", "day.1/results.jsonl"), ("day.1", "day.1/results.jsonl"), ("r.jsonl", "r.jsonl")] {
        let run = folder.run(&format!("suite run s.toml --device host --results {results}"));
        assert_eq!(run.code, 0, "{results}: {}{}", run.out, run.err);
        let text = std::fs::read_to_string(folder.path(file)).unwrap();
        assert!(text.contains("\"hipverify suite run s.toml --device host --filter =gemm\""), "{text}");
    }
}
