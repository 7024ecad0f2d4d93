//! `hipverify compare` of two tensors: their values, and all that can be told of where they differ.

use super::support::{Folder, f32s, npy, npy_f32, safetensors};

#[test]
fn byte_order_and_fortran_order_do_not_matter() {
    let folder = Folder::new();
    let value = |row: usize, column: usize| (row * 10 + column) as f64 + 0.5;
    let by_rows: Vec<f64> = (0..12).map(|i| value(i / 4, i % 4)).collect();
    let by_columns: Vec<f64> = (0..12).map(|i| value(i % 3, i / 3)).collect();
    let little: Vec<u8> = by_rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = by_rows.iter().flat_map(|v| v.to_be_bytes()).collect();
    let fortran: Vec<u8> = by_columns.iter().flat_map(|v| v.to_le_bytes()).collect();
    let both: Vec<u8> = by_columns.iter().flat_map(|v| v.to_be_bytes()).collect();
    let half: Vec<u8> = by_columns.iter().flat_map(|&v| half::f16::from_f64(v).to_be_bytes()).collect();
    folder.put("reference.npy", &npy("<f8", "False", "(3, 4)", &little));
    for (name, file) in [
        ("big.npy", npy(">f8", "False", "(3, 4)", &big)),
        ("fortran.npy", npy("<f8", "True", "(3, 4)", &fortran)),
        ("both.npy", npy(">f8", "True", "(3, 4)", &both)),
        ("half.npy", npy(">f2", "True", "(3, 4)", &half)),
    ] {
        folder.put(name, &file);
        let run = folder.run(&format!("compare {name} reference.npy --rtol 0 --atol 0"));
        assert_eq!(run.code, 0, "{name}: {}{}", run.out, run.err);
    }
    folder.put("wrong.npy", &npy("<f8", "False", "(3, 4)", &fortran));
    assert_eq!(folder.run("compare wrong.npy reference.npy").code, 1, "the test can fail");
}

/// Values that differ are never printed alike.
#[test]
fn values_that_differ_look_different() {
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[1.0, 123_456.79]));
    folder.put("a.npy", &npy_f32(&[1.0f32.next_up(), 123_456.79f32.next_down()]));
    let run = folder.run("compare a.npy r.npy --rtol 0");
    assert!(run.out.contains("result 1.0000001   ") && run.out.contains("reference 1   "), "{}", run.out);
    let pairs = run.out.lines().filter_map(|l| l.split_once("   result ")?.1.split_once("   reference "));
    assert!(pairs.clone().count() > 2, "{}", run.out);
    for (result, rest) in pairs {
        assert_ne!(Some(result.trim()), rest.split_whitespace().next(), "{}", run.out);
    }
}

#[test]
fn truth_values_and_unsigned_integers_are_numbers() {
    let folder = Folder::new();
    let words = |x: &[u64], bytes: usize| x.iter().flat_map(|v| v.to_le_bytes()[..bytes].to_vec()).collect::<Vec<u8>>();
    for (descr, label, bytes, result, reference, text, reason) in [
        ("|b1", "BOOL", 1, [0, 1, 2, 255], [0, 1, 1, 1], "PASS  4 elements agree   bool[4]", "any byte but 0 is true"),
        ("|b1", "BOOL", 1, [0, 1, 0, 1], [0, 9, 9, 9], "[2]   result 0   reference 1", "false is not true"),
        ("<u2", "U16", 2, [0, 1, 2, 65535], [0, 1, 2, 65534], "[3]   result 65535   reference 65534", "no sign"),
        ("<u4", "U32", 4, [0, 1, 2, 0xffff_ffff], [0, 1, 2, 0xffff_fffe], "[3]   result 4294967295   reference 4294967294", "exact"),
        (
            "<u8",
            "U64",
            8,
            [0, 1, 2, u64::MAX],
            [0, 1, 2, u64::MAX - 1],
            "[3]   result 18446744073709551615   reference 18446744073709551614",
            "exact",
        ),
    ] {
        for (name, x) in [("a", result), ("r", reference)] {
            folder.put(&format!("{name}.npy"), &npy(descr, "False", "(4,)", &words(&x, bytes)));
            folder.put(&format!("{name}.safetensors"), &safetensors(&[("x", label, &[4], words(&x, bytes))]));
        }
        for files in ["a.npy r.npy", "a.safetensors r.safetensors", "a.npy r.safetensors"] {
            let run = folder.run(&format!("compare {files}"));
            assert!(run.out.contains(text), "{files}, {descr}: {reason}: {}{}", run.out, run.err);
        }
    }
}

/// All mismatches, the difference, and pictures of where it is.
#[test]
fn one_tensor_can_be_listed_subtracted_and_drawn() {
    let folder = Folder::new();
    let values = |step: f32| f32s(&(0..64).map(|i| i as f32 + if i % 9 == 4 { step } else { 0.0 }).collect::<Vec<_>>());
    folder.put("r.npy", &npy("<f4", "False", "(8, 8)", &values(0.0)));
    folder.put("x.npy", &npy("<f4", "False", "(8, 8)", &values(0.5)));
    let run = folder.run("compare x.npy r.npy --atol 0.25 --mismatches m.tsv --diff d.npy --heatmap h.png --map");
    assert_eq!((run.code, run.err.as_str()), (1, ""), "{}", run.out);
    let list = std::fs::read_to_string(folder.path("m.tsv")).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[..2], ["index\tcoordinates\tresult\treference\tdifference\tratio", "4\t[0,4]\t4.5\t4.0\t0.5\t2.0"], "{list}");
    assert_eq!(lines.len(), 1 + 7, "more than are on the screen: {list}");
    assert!(std::fs::read(folder.path("h.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(run.out.contains("  0 |    +   |\n") && run.out.contains("ratio to the tolerance"), "{}", run.out);
    folder.put("half.npy", &npy("<f4", "False", "(8, 8)", &f32s(&[0.5; 64])));
    let (_, json) = folder.json("compare d.npy half.npy --atol 0 --json");
    assert_eq!(json["tensors"][0]["report"]["mismatches"], 57, "seven differences of 0.5, zeros elsewhere");
    // Where the tolerance is 0, finite numbers are infinitely far beyond it, and finite.
    let run = folder.run("compare x.npy r.npy --rtol 0 --map");
    assert!(run.out.contains("  0 |    @   |\n"), "{}", run.out);
    let run = folder.run("compare x.npy r.npy --atol 0.25 --mismatches -");
    assert_eq!((run.code, run.out.as_str()), (1, list.as_str()), "the list alone");
    folder.put("many.safetensors", &safetensors(&[("a", "F32", &[1], f32s(&[1.0])), ("b", "F32", &[1], f32s(&[1.0]))]));
    folder.put("rules.toml", b"");
    std::fs::create_dir(folder.path("tree")).unwrap();
    folder.put("tree/w.npy", &npy_f32(&[1.0]));
    std::fs::create_dir(folder.path("i")).unwrap();
    folder.put("i/m.safetensors.index.json", br#"{"weight_map":{"a":"one.safetensors"}}"#);
    folder.put("i/one.safetensors", &safetensors(&[("a", "F32", &[1], f32s(&[1.0]))]));
    for (line, words) in [
        ("x.npy r.npy --mismatches r.npy", "--mismatches r.npy: that file is read by this command"),
        ("x.npy r.npy --earlier d.npy --diff ./d.npy", "--diff ./d.npy: that file is read by this command, as d.npy"),
        ("x.npy r.npy --profile flash-attention --baseline d.npy --diff d.npy", "--diff d.npy: that file is read by this command"),
        ("x.npy r.npy --rules rules.toml --junit rules.toml", "--junit rules.toml: that file is read by this command"),
        ("tree tree --tensor w --diff tree/w.npy", "--diff tree/w.npy: that file is read by this command, as part of tree"),
        (
            "i/m.safetensors.index.json r.npy --diff i/one.safetensors",
            "--diff i/one.safetensors: that file is read by this command, as part of i/m.safetensors.index.json",
        ),
        ("- r.npy --earlier -", "several files are `-`: standard input can be read once"),
        ("x.npy r.npy --diff no/such/d.npy", "--diff no/such/d.npy: its folder is not there"),
        ("x.npy r.npy --diff tree", "--diff tree: a folder is no file"),
        ("x.npy r.npy --diff d.txt", "`txt` names no format"),
        ("x.npy r.npy --mismatches - --json", "2 outputs are for standard output"),
        ("many.safetensors many.safetensors --heatmap h.png", "--heatmap is for one tensor; choose one with --tensor"),
    ] {
        let run = folder.run(&format!("compare {line}"));
        assert!(run.code == 2 && (run.err.clone() + &run.out).contains(words), "{line}: {}{}", run.out, run.err);
    }
}

#[test]
fn rows_say_why_they_fail() {
    let folder = Folder::new();
    let tensors = |bad: &[f32]| safetensors(&[("a", "F32", &[3], f32s(bad)), ("b", "F32", &[3], f32s(&[1.0, 2.0, 3.0]))]);
    folder.put("r.safetensors", &tensors(&[1.0, f32::NAN, 2.0]));
    folder.put("x.safetensors", &tensors(&[f32::NAN, f32::NAN, f32::INFINITY]));
    let run = folder.run("compare x.safetensors r.safetensors");
    assert!(run.code == 1 && run.out.contains("not finite: result 2 NaN, 1 inf; reference 1 NaN"), "{}", run.out);
    assert_eq!(folder.run("compare r.safetensors r.safetensors --profile numpy").code, 0, "NaN equals NaN, as in NumPy");
    assert_eq!(folder.run("compare r.safetensors r.safetensors --profile torch").code, 1);
    assert_eq!(folder.run("compare x.safetensors r.safetensors --profile numpy").code, 1);
    std::fs::hard_link(folder.path("r.safetensors"), folder.path("same.safetensors")).unwrap();
    for (other, said) in [("r.safetensors", true), ("same.safetensors", true), ("x.safetensors", false)] {
        let run = folder.run(&format!("compare {other} r.safetensors"));
        assert_eq!(run.out.contains("both are one file"), said, "{other}: {}", run.out);
    }
}
