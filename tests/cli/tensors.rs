//! `hipverify compare` of many tensors: archives, folders and lists of files, matched and chosen by name.

use super::schema::conforms;
use super::support::{Folder, Run, f32s, npy, npy_f32, safetensors};

#[test]
fn tensors_are_matched_by_name() {
    let folder = Folder::new();
    let reference = safetensors(&[
        ("bias", "F32", &[2], f32s(&[1.0, 2.0])),
        ("weight", "F32", &[2, 2], f32s(&[1.0, 2.0, 3.0, 4.0])),
        ("gone", "F32", &[1], f32s(&[0.5])),
    ]);
    let result = safetensors(&[
        ("weight", "F32", &[2, 2], f32s(&[1.0, 2.0, 3.0, 5.0])),
        ("bias", "F32", &[2], f32s(&[1.0, 2.0])),
        ("new", "F32", &[1], f32s(&[0.5])),
    ]);
    folder.put("r.safetensors", &reference);
    folder.put("a.safetensors", &result);
    assert_eq!(folder.run("compare r.safetensors r.safetensors").code, 0);
    let run = folder.run("compare a.safetensors r.safetensors");
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    let starts = |prefix: &str| run.out.lines().any(|l| l.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(prefix));
    for line in [
        "PASS bias f32 [2] 0 0 %",
        "FAIL weight f32 [2,2] 1 25 % 1 0.25",
        "FAIL gone only in r.safetensors",
        "FAIL new only in a.safetensors",
        "FAIL 1 of 4 tensors agree, 1 differ, 1 only in r.safetensors, 1 only in a.safetensors",
    ] {
        assert!(starts(line), "{line} in:\n{}", run.out);
    }
    assert_eq!(folder.run("compare a.safetensors r.safetensors --tensor bias").code, 0);
    assert_eq!(folder.run("compare a.safetensors r.safetensors --tensor new --reference-tensor gone").code, 0);
    folder.put("w.npy", &npy("<f4", "False", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0])));
    folder.refused("compare w.npy r.safetensors", "choose one with --tensor");
    assert_eq!(folder.run("compare w.npy r.safetensors --tensor weight").code, 0);
    folder.put("shape.safetensors", &safetensors(&[("bias", "F32", &[1], f32s(&[1.0])), ("weight", "F32", &[4], f32s(&[1.0; 4]))]));
    let run = folder.run("compare shape.safetensors r.safetensors");
    assert_eq!(run.code, 2, "no verdict outweighs a mismatch: {}", run.out);
    assert!(run.out.contains("shape [4] does not match [2, 2]"), "{}", run.out);
}

#[test]
fn archives_of_arrays_compare_too() {
    use std::io::Write;
    let folder = Folder::new();
    for (name, method) in [("s.npz", zip::CompressionMethod::Stored), ("d.npz", zip::CompressionMethod::Deflated)] {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (member, values) in [("x", [1.0, 2.0]), ("y", [3.0, 4.0])] {
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            zip.start_file(format!("{member}.npy"), options).unwrap();
            zip.write_all(&npy_f32(&values)).unwrap();
        }
        folder.put(name, &zip.finish().unwrap().into_inner());
    }
    let run = folder.run("compare s.npz d.npz --rtol 0");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("PASS  2 of 2 tensors agree"), "{}", run.out);
}

/// A tensor that cannot be read is an error of its own, with the others compared and listed.
#[test]
fn one_tensor_that_cannot_be_read_is_one_row() {
    use std::io::Write;
    let folder = Folder::new();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (member, file) in [("mask.npy", npy("<M8[s]", "False", "(4,)", &[0; 32])), ("w.npy", npy_f32(&[1.0, 2.0]))] {
        zip.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&file).unwrap();
    }
    folder.put("x.npz", &zip.finish().unwrap().into_inner());
    let tensors = [("mask", "I128", &[2][..], vec![0; 32]), ("new", "F99", &[3], vec![0; 7]), ("w", "F32", &[2], f32s(&[1.0, 2.0]))];
    folder.put("x.safetensors", &safetensors(&tensors));
    for (file, rows) in [
        ("x.npz", &[("ERROR", "mask", "dtype '<M8[s]' (time) is not supported"), ("PASS", "w", " [2] ")][..]),
        (
            "x.safetensors",
            &[("ERROR", "mask", "dtype I128 is not supported"), ("ERROR", "new", "dtype F99 is not supported"), ("PASS", "w", " [2] ")],
        ),
    ] {
        let run = folder.run(&format!("compare {file} {file}"));
        assert_eq!((run.code, run.err.as_str()), (2, ""), "{file}: {}", run.out);
        let inspected = folder.run(&format!("inspect {file}"));
        assert_eq!((inspected.code, inspected.err.as_str()), (2, ""), "{file}: {}", inspected.out);
        for (verdict, name, words) in rows {
            let has = |run: &Run, start: &str| run.lines().iter().any(|l| l.starts_with(start) && l.contains(words));
            assert!(
                has(&run, &format!("{verdict} {name} ")) && has(&inspected, &format!("{name} ")),
                "{name}: {}{}",
                run.out,
                inspected.out
            );
        }
        let (_, json) = folder.json(&format!("inspect {file} --json"));
        let last = &json["tensors"][rows.len() - 1];
        assert_eq!(
            (json["tensors"].as_array().unwrap().len(), &last["max"]["value"], &last["error"]),
            (rows.len(), &2.0.into(), &().into())
        );
        assert!(json["tensors"][0]["error"].as_str().unwrap().contains("is not supported"), "{json}");
        assert_eq!(folder.run(&format!("compare {file} {file} --exclude mask --exclude new")).code, 0, "what is not wanted is not read");
        assert_eq!(folder.run(&format!("inspect {file} --include w*")).code, 0);
    }
}

#[test]
fn names_choose_tensors_and_tolerances() {
    let folder = Folder::new();
    let tensors = |v: f32| {
        let one = |name| (name, "F32", &[2][..], f32s(&[v, 1.0]));
        safetensors(&[one("a.bias"), one("a.weight"), one("b.bias"), ("none", "F32", &[0, 4], vec![])])
    };
    folder.put("r.safetensors", &tensors(2.0));
    folder.put("x.safetensors", &tensors(2.25));
    folder.put("b.safetensors", &tensors(2.125));
    folder.put("far.safetensors", &tensors(20.0));
    folder.put("one.safetensors", &safetensors(&[("a.bias", "F32", &[2], f32s(&[2.125, 1.0]))]));
    folder.put("rules.toml", b"[[rule]]\nname = 'a.*'\natol = 0.25\n\n[[rule]]\ndtype = 'f32'\nmax_rel = 0.125\n");
    for (flags, code, rows, reason) in [
        ("", 1, 4, "all, with a tensor without elements, which equals itself"),
        ("--include *.bias", 1, 2, "one pattern"),
        ("--include *.bias --include *.weight --exclude b.*", 1, 2, "patterns add up, exclusion is stronger"),
        ("--include a.* --rule *.bias:atol=0.5 --rule *:rtol=0.2", 0, 2, "a rule for each"),
        ("--include a.* --rule *.bias:atol=0.1 --rule *:rtol=0.2", 1, 2, "the first that matches counts"),
        ("--include a.* --atol 0.5 --rule *.bias:profile=torch", 1, 2, "a rule outweighs the flags"),
        ("--atol 0.5 --exclude none", 0, 3, "the flags alone"),
        ("--exclude none --rules rules.toml", 0, 3, "rules of a file"),
        ("--exclude none --rules rules.toml --rule b.*:atol=0", 1, 3, "those of flags come first"),
        ("--exclude none --allowed-share 0.5 --rtol 0", 0, 3, "half of the elements may differ"),
        ("--exclude none --allowed-share 0.49 --rtol 0", 1, 3, "no half of two elements"),
        ("--exclude none --allowed-count 1 --rtol 0", 0, 3, "one may differ"),
        ("--exclude none --relative-l1 0.09", 0, 3, "a norm above 0.25 / 3"),
        ("--exclude none --relative-l1 0.08", 1, 3, "a norm below it"),
        ("--exclude none --relative-l2 0.11", 1, 3, "a norm below 0.25 / sqrt(5)"),
        ("--exclude none --max-eps 1048576", 0, 3, "0.25 at 2 are 2^20 spacings"),
        ("--exclude none --max-eps 1048575", 1, 3, "one less"),
        ("--exclude none --max-rel-old 0.125", 0, 3, "0.25 of 2"),
        ("--exclude none --rule *:max_rel_old=0.12,max_eps=1e9", 1, 3, "each metric has a threshold"),
        ("--exclude none --rule *:max_eps=inf,rms=10", 3, 3, "zeros would pass as well"),
        ("--exclude none --rule *:profile=paddle,gradient=true,operation=arithmetic", 2, 3, "a profile that lacks the format"),
        ("--exclude none --profile flash-attention --baseline b.safetensors", 0, 3, "half as wrong, twice that allowed"),
        ("--exclude none --profile flash-attention --baseline r.safetensors", 1, 3, "a baseline without error"),
        ("--exclude none --atol 0.5 --earlier r.safetensors", 3, 3, "an earlier output that would pass"),
        ("--exclude none --atol 0.5 --earlier far.safetensors", 0, 3, "one that would not"),
        ("--exclude none --profile flash-attention --baseline one.safetensors", 2, 3, "no baseline for two of three"),
        ("--include none", 2, 0, "nothing but nothing is no pass"),
        ("--include nobody", 2, 0, "no tensor"),
    ] {
        let (found, json) = folder.json(&format!("compare x.safetensors r.safetensors --json {flags}"));
        assert_eq!((found, json["tensors"].as_array().unwrap().len()), (code, rows), "{flags}: {reason}: {json}");
    }
    folder.run("fill h.npy --dtype f16 --shape 8,8");
    let run = folder.run("compare h.npy h.npy --rule *:profile=paddle,gradient=true,operation=arithmetic");
    assert_eq!(run.code, 0, "a profile that has no limits for f32: {}{}", run.out, run.err);
    let run = folder.run("compare x.safetensors r.safetensors --atol 0.5");
    assert!(run.code == 0 && run.lines().iter().any(|l| l == "PASS none no elements"), "{}", run.out);
}

/// Folders are compared as files are; an index of shards is the file that they make.
#[test]
fn folders_compare_by_the_names_of_their_files() {
    let folder = Folder::new();
    for side in ["x", "r"] {
        std::fs::create_dir_all(folder.path(&format!("{side}/layer"))).unwrap();
        folder.put(&format!("{side}/layer/w.npy"), &npy_f32(&[1.0, 2.0]));
        folder.put(&format!("{side}/b.safetensors"), &safetensors(&[("b", "F32", &[1], f32s(&[3.0]))]));
    }
    folder.put("x/new.npy", &npy_f32(&[1.0]));
    let run = folder.run("compare x r");
    let lines = run.lines();
    for row in ["PASS b/b f32 [1]", "PASS layer/w f32 [2]", "FAIL new only in x/new.npy", "FAIL 2 of 3 tensors agree, 1 only in x"] {
        assert!(run.code == 1 && lines.iter().any(|l| l.starts_with(row)), "{row}: {}{}", run.out, run.err);
    }
    assert_eq!(folder.run("compare x r --exclude new").code, 0);
    folder.put("r/m.safetensors.index.json", br#"{"weight_map":{"b":"b.safetensors"}}"#);
    let run = folder.run("compare x/b.safetensors r");
    assert!(run.code == 1 && run.lines().iter().any(|l| l.starts_with("FAIL layer/w only in r/layer/w.npy")), "{}{}", run.out, run.err);
    assert_eq!(folder.run("compare x/b.safetensors r --exclude layer/*").code, 0);
}

/// A list of files is compared as one file: tensors are matched by name, whichever file of a side has them.
#[test]
fn lists_of_files_compare_by_the_names_of_all_their_tensors() {
    let folder = Folder::new();
    let tensor = |name: &'static str, x: f32| (name, "F32", &[1][..], f32s(&[x]));
    folder.put("x1.safetensors", &safetensors(&[tensor("a", 1.0), tensor("b", 2.0)]));
    folder.put("x2.safetensors", &safetensors(&[tensor("c", 3.0)]));
    folder.put("r1.safetensors", &safetensors(&[tensor("a", 1.0)]));
    folder.put("r2.safetensors", &safetensors(&[tensor("b", 2.0), tensor("c", 3.0)]));
    std::fs::create_dir(folder.path("bias")).unwrap();
    folder.put("bias/d.npy", &npy_f32(&[4.0]));
    folder.put("d.npy", &npy_f32(&[4.0]));
    let run = folder.run("compare x1.safetensors x2.safetensors d.npy --reference r2.safetensors bias/d.npy r1.safetensors --rtol 0");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let rows: Vec<String> = run.lines().iter().filter_map(|l| l.split(' ').nth(1).map(str::to_owned)).take(5).collect();
    assert_eq!(rows, ["dtype", "b", "c", "d", "a"], "in the order of the references: {}", run.out);

    // What only one side has, with its file; the summary names the sides.
    let run = folder.run("compare x1.safetensors x2.safetensors --reference r1.safetensors bias/d.npy --rtol 0");
    let lines = run.lines();
    for row in [
        "PASS a f32 [1]",
        "FAIL d only in bias/d.npy",
        "FAIL b only in x1.safetensors",
        "FAIL c only in x2.safetensors",
        "FAIL 1 of 4 tensors agree, 1 only in r1.safetensors and 1 more file, 2 only in x1.safetensors and 1 more file",
    ] {
        assert!(run.code == 1 && lines.iter().any(|l| l.starts_with(row)), "{row}: {}{}", run.out, run.err);
    }

    let (code, json) = folder.json("compare x1.safetensors x2.safetensors --reference r1.safetensors --json");
    assert_eq!((code, json["results"][1].as_str(), json.get("references")), (1, Some("x2.safetensors"), None), "{json}");
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../docs/compare.schema.json")).unwrap();
    conforms(&json, &schema, "several files");
    assert_eq!(folder.run("compare x1.safetensors x2.safetensors --reference r1.safetensors r2.safetensors --tensor c").code, 0);
    assert_eq!(folder.run("compare x1.safetensors x2.safetensors --reference r1.safetensors r2.safetensors --include c").code, 0);
    let run = folder.run("compare x1.safetensors x2.safetensors --reference x2.safetensors x1.safetensors");
    assert!(run.code == 0 && run.out.contains("2 files are among the results and among the references"), "{}", run.out);

    folder.refused(
        "compare x1.safetensors x1.safetensors --reference r1.safetensors",
        "x1.safetensors and 1 more file: two tensors are called `a`, both in x1.safetensors",
    );
    folder.refused("compare d.npy bias/d.npy --reference r1.safetensors", "two tensors are called `d`, one in d.npy, one in bias/d.npy");
    folder.refused("compare x1.safetensors x2.safetensors --reference r1.safetensors --tensor q", "no tensor `q`; there are: a, b, c");
    folder.refused("compare x1.safetensors none.npy --reference r1.safetensors", "none.npy");
    folder.refused("compare - x1.safetensors --reference -", "standard input can be read once");
    folder.refused("compare x1.safetensors", "1 file is given; compare takes RESULT and REFERENCE");
    folder.refused("compare x1.safetensors x2.safetensors r1.safetensors", "3 files are given");
    folder.refused("compare x1.safetensors x2.safetensors --reference r1.safetensors --junit r1.safetensors", "read by this command");
}
