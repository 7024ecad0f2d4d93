//! `hipverify golden`: what is recorded, what is checked, and what machines are told.

use super::schema::conforms;
use super::support::{Folder, f32s, npy, npy_f32, safetensors};

/// Tensors in the folder `out`: `w`, and others of two elements.
fn write(folder: &Folder, w: &[f32], names: &[&str]) {
    let _ = std::fs::remove_dir_all(folder.path("out"));
    std::fs::create_dir(folder.path("out")).unwrap();
    folder.put("out/w.npy", &npy_f32(w));
    names.iter().for_each(|name| folder.put(&format!("out/{name}.npy"), &npy_f32(&[0.5, -0.5])));
}

/// A run of `golden`, which ends with this exit code and says these words.
fn check(folder: &Folder, line: &str, code: i32, words: &str) {
    let run = folder.run(&format!("golden {line}"));
    let said = format!("{}{}", run.lines().join("\n"), run.err);
    assert!(run.code == code && said.contains(words), "{line}: {} {said}", run.code);
}

/// A folder with golden results of `w` and `b`.
fn recorded() -> Folder {
    let folder = Folder::new();
    write(&folder, &[1.0, 2.0, 3.0], &["b"]);
    check(&folder, "record g.toml out", 0, "g.toml any: 2 tensors recorded 0 as before, 0 changed, 2 new, 0 gone");
    folder
}

/// Results that are the same, changed, of another architecture, and by a rule.
#[test]
fn golden_results_are_recorded_and_checked() {
    let folder = recorded();
    let text = std::fs::read_to_string(folder.path("g.toml")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("hash")).collect();
    assert!(lines.len() == 2 && lines[0].starts_with("\"b\" = { dtype = \"f32\", shape = [2], hash = \""), "{text}");
    assert!(lines[1].ends_with("min = 1.0, max = 3.0, mean = 2.0, mean_abs = 2.0, rms = 2.160246899469287 }"), "{text}");
    check(&folder, "check g.toml out", 0, "PASS 2 tensors agree with any of g.toml 2 bit for bit, 0 within their tolerance");
    check(&folder, "record g.toml out --arch gfx90a", 0, "g.toml gfx90a: 2 tensors recorded 0 as before, 0 changed, 2 new");
    assert!(std::fs::read_to_string(folder.path("g.toml")).unwrap().starts_with(text.trim_end()), "what was there stays as it is");
    // The lowest bit of the last element.
    write(&folder, &[1.0, 2.0, f32::from_bits(3f32.to_bits() + 1)], &["b"]);
    for (line, code, words) in [
        ("check g.toml out", 1, "FAIL w f32[3] other bits: max 3 → 3.0000002,"),
        ("check g.toml out", 1, "FAIL 1 of 2 tensors agree with any of g.toml 1 bit for bit"),
        ("check g.toml out --include b", 0, "PASS 1 tensor agrees"),
        ("check g.toml out --tensor b", 0, "PASS 1 tensor agrees"),
        ("check g.toml out --rule *:rtol=1e-6", 0, "PASS 2 tensors agree with any of g.toml 1 bit for bit, 1 within their tolerance"),
        ("check g.toml out --rule b:rtol=1e-6", 1, "other bits"),
        ("check g.toml out --rule *:rtol=1e-9", 1, "FAIL w f32[3] max 3.000000238418579 where 3 was recorded: "),
        ("check g.toml out --rule *:rms=1", 2, "the rule for b: golden results have a tolerance with rtol < 1, no metrics"),
        ("check g.toml out --arch gfx908", 2, "g.toml has no results of gfx908; it has any gfx90a"),
        ("check g.toml out/w.npy", 1, "FAIL b f32[2] was recorded, and is not there"),
        ("check g.toml", 2, "<TENSORS>"),
        ("check g.toml out --suite smoke", 2, "cannot be used with"),
        ("check g.toml out --filter x", 2, "cannot be used with"),
        ("check none.toml out", 2, "none.toml: No such file"),
        ("record g.toml nowhere", 2, "nowhere: No such file"),
        ("record g.toml out --include x", 2, "out: --include and --exclude leave no tensor of 2"),
        ("record g.toml out --arch golden", 2, "--arch golden: the file has its version by that name"),
        ("check g.toml out --set type=f16", 2, "--set: tensor files have no keys; it is for --suite"),
    ] {
        check(&folder, line, code, words);
    }
}

/// Tensors that are missing, new, or of another shape.
#[test]
fn tensors_that_come_and_go_are_named() {
    let folder = recorded();
    write(&folder, &[1.0, 2.0], &["c"]);
    for words in [
        "FAIL b f32[2] was recorded, and is not there",
        "FAIL c f32[2] is there, and was not recorded",
        "FAIL w f32[3] f32[2] where f32[3] was recorded",
        "FAIL 0 of 3",
    ] {
        check(&folder, "check g.toml out --rule *:atol=9", 1, words);
    }
    check(&folder, "record g.toml out", 0, "2 tensors recorded 0 as before, 1 changed, 1 new, 1 gone");
}

/// Files of golden results that are none, names that paint, and tensors that cannot be read.
#[test]
fn bad_files_of_golden_results_stay_as_they_are() {
    let folder = recorded();
    folder.put("blank.toml", b"golden = 1\n");
    check(&folder, "check blank.toml out", 2, "error: blank.toml has no results (`golden record` adds some)");
    check(&folder, "record bell.toml out --arch a\u{7}b", 0, "bell.toml a\\u{7}b: 2 tensors recorded");
    check(&folder, "check bell.toml out --arch c\u{7}d", 2, "bell.toml has no results of c\\u{7}d; it has a\\u{7}b (--arch");
    folder.put("bad.toml", b"golden = 1\n[any]\nx = 1\n");
    check(&folder, "check bad.toml out", 2, "error: bad.toml: [any]: unknown field `x`");
    check(&folder, "record bad.toml out", 2, "error: bad.toml: [any]: unknown field `x`");
    let line =
        |dtype: &str, hash: &str| format!("golden = 1\n[any.tensors]\nw = {{ dtype = \"{dtype}\", shape = [3], hash = \"{hash}\" }}\n");
    for (dtype, hash, words) in [
        ("f32", "XY", "error: odd.toml: [any.tensors] w: hash = \"XY\": 16 hexadecimal digits in lower case are wanted"),
        ("f99", "0123456789abcdef", "error: odd.toml: [any.tensors] w: unknown dtype `f99`"),
    ] {
        folder.put("odd.toml", line(dtype, hash).as_bytes());
        check(&folder, "check odd.toml out", 2, words);
    }
    #[cfg(target_os = "linux")]
    for (file, words) in [("record /dev/full", "/dev/full: No space left"), ("check /dev/zero", "/dev/zero: more than 134217728 bytes")] {
        check(&folder, &format!("{file} out"), 2, words);
    }
    folder.put("short.npy", &npy_f32(&[1.0])[..60]);
    check(&folder, "record g.toml short.npy", 2, "short.npy");
    assert!(std::fs::read_to_string(folder.path("bad.toml")).unwrap().contains("x = 1"), "what could not be read is not replaced");
}

/// What was recorded and is not chosen stays.
#[test]
fn recording_some_keeps_the_others() {
    let folder = Folder::new();
    let put = |w: f32| folder.put("x.safetensors", &safetensors(&[("a", "F32", &[1], f32s(&[w])), ("b", "F32", &[1], f32s(&[w]))]));
    put(1.0);
    assert_eq!(folder.run("golden record g.toml x.safetensors").code, 0);
    put(2.0);
    for (choice, name) in [("--include b", "b"), ("--tensor a", "a")] {
        let run = folder.run(&format!("golden record g.toml x.safetensors {choice}"));
        assert!(run.code == 0 && run.out.contains("1 tensor recorded   0 as before, 1 changed, 0 new, 0 gone"), "{}{}", run.out, run.err);
        let run = folder.run(&format!("golden check g.toml x.safetensors {choice}"));
        assert!(run.code == 0 && run.out.contains("1 tensor agrees"), "{name}: {}", run.out);
    }
    assert_eq!(folder.run("golden check g.toml x.safetensors").code, 0, "both were recorded anew");
    folder.put("s.toml", b"[[gemm]]\nsize = ['2x2x2', '3x3x3']\n");
    assert_eq!(folder.run("golden record s.golden.toml --suite s.toml --device host").code, 0);
    assert_eq!(folder.run("golden record s.golden.toml --suite s.toml --device host --filter 2x2x2").code, 0);
    assert_eq!(folder.run("golden check s.golden.toml --suite s.toml --device host").code, 0);
}

/// Golden results of a suite's kernels.
#[test]
fn golden_results_of_a_suite() {
    let folder = Folder::new();
    let suite = |kernel: &str| {
        let text = format!(
            "[[gemm]]\nsize = ['8x8x40', '9x7x33']\ndata = 'uniform:-1,1'\noutput = 'f32'\nkernel = '{kernel}'\n[[study]]\nconfiguration = 'conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16'\n"
        );
        folder.put("s.toml", text.as_bytes());
    };
    suite("fma");
    let run = folder.run("golden record g.toml --suite s.toml --device host");
    assert!(
        run.code == 0 && run.out.contains("host: 2 tensors recorded") && run.err.contains("1 cases are runs of the study"),
        "{}{}",
        run.out,
        run.err
    );
    let text = std::fs::read_to_string(folder.path("g.toml")).unwrap();
    assert!(text.contains("[host]\ndevice = \"") && text.contains("\"gemm/8x8x40\" = { dtype = \"f32\", shape = [8, 8]"), "{text}");
    let run = folder.run("golden check g.toml --suite s.toml --device host --filter 9x7");
    assert!(run.code == 0 && run.out.contains("PASS  1 tensor agrees with host"), "{}{}", run.out, run.err);
    // Another order of the sums.
    suite("gfx90a");
    let run = folder.run("golden check g.toml --suite s.toml --device host");
    assert!(run.code == 1 && run.out.contains("0 of 2 tensors agree") && run.out.contains("gemm/9x7x33"), "{}{}", run.out, run.err);
    let run = folder.run("golden check g.toml --suite s.toml --device host --rule *:accumulations=40");
    assert!(run.code == 0 && run.out.contains("0 bit for bit, 2 within"), "{}{}", run.out, run.err);
    folder.put("broken.toml", b"[kernels.mine]\ncommand = ['false']\n[[gemm]]\nsize = '2x2x2'\nkernel = 'mine'\n");
    let run = folder.run("golden record g.toml --suite broken.toml --device host");
    assert!(run.code == 2 && run.err.contains("case `gemm`: `false` ended with exit status: 1"), "{}", run.err);
    assert_eq!(std::fs::read_to_string(folder.path("g.toml")).unwrap(), text, "a failure changes nothing");
}

/// A suite's keys have the values of the command line; the names of the cases say so.
#[test]
fn golden_results_of_a_suite_with_other_values() {
    let folder = Folder::new();
    folder.put("s.toml", b"[[gemm]]\nsize = ['8x8x40']\ndata = 'uniform:-1,1'\n");
    let run = folder.run("golden record g.toml --suite s.toml --device host --set size=3x5x7");
    assert!(run.code == 0 && run.out.contains("host: 1 tensor recorded"), "{}{}", run.out, run.err);
    let text = std::fs::read_to_string(folder.path("g.toml")).unwrap();
    assert!(text.contains("\"gemm/3x5x7\" = { dtype = \"f16\", shape = [3, 5]"), "{text}");
    assert_eq!(folder.run("golden check g.toml --suite s.toml --device host --set size=3x5x7").code, 0);
    folder.refused("golden check g.toml --suite s.toml --device host --set sice=1", "did you mean `size`?");
}

/// Sums of the elements are beyond f64: the file is read again all the same.
#[test]
fn statistics_beyond_f64_are_left_out() {
    let folder = Folder::new();
    let bytes: Vec<u8> = [1e308f64, 1e308].iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.put("x.npy", &npy("<f8", "False", "(2,)", &bytes));
    assert_eq!(folder.run("golden record g.toml x.npy").code, 0);
    let run = folder.run("golden check g.toml x.npy --rule *:rtol=1e-3");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

/// JSON by its schema, and JUnit, in every case: the same, within, other bits, missing, new, and where there is no verdict.
#[test]
fn machines_are_told_what_became_of_golden_results() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../docs/golden.schema.json")).unwrap();
    let folder = Folder::new();
    let tensors = |w: f32, other: &str| {
        let tensor = |name, x| (name, "F32", &[1][..], f32s(&[x]));
        folder.put("x.safetensors", &safetensors(&[tensor("a", 1.0), tensor("w", w), tensor(other, 2.0)]));
    };
    let told = |line: &str| {
        let (code, json) = folder.json(&format!("golden {line} --json"));
        conforms(&json, &schema, line);
        for tensor in json["tensors"].as_array().unwrap() {
            for side in ["recorded", "found"] {
                let tensor = tensor.get(side);
                tensor.into_iter().for_each(|tensor| conforms(tensor, &schema["$defs"]["tensor"], side));
            }
        }
        let states: Vec<String> =
            json["tensors"].as_array().unwrap().iter().map(|t| format!("{} {}", t["name"], t["state"]).replace('"', "")).collect();
        (code, json["verdict"].as_str().unwrap().to_owned(), states.join(", "), json)
    };
    tensors(3.0, "b");
    let (code, verdict, states, json) = told("record g.toml x.safetensors");
    assert_eq!((code, verdict.as_str(), states.as_str()), (0, "pass", "a new, b new, w new"), "{json}");
    assert_eq!((&json["command"], &json["arch"], &json["tensors"][2]["found"]["rms"]), (&"record".into(), &"any".into(), &3.0.into()));
    tensors(3.000001, "c");
    for (line, code, verdict, states, failures) in [
        ("check g.toml x.safetensors --rule w:rtol=1e-5", 1, "fail", "a same, b missing, c new, w within", 2),
        ("check g.toml x.safetensors --include a", 0, "pass", "a same", 0),
        ("check g.toml x.safetensors --include w", 1, "fail", "w differs", 1),
        ("check g.toml x.safetensors --arch gfx90a", 2, "error", "", 0),
        ("check none.toml x.safetensors", 2, "error", "", 0),
    ] {
        folder.put("out.xml", b"old");
        let found = told(&format!("{line} --junit out.xml"));
        assert_eq!((found.0, found.1.as_str(), found.2.as_str()), (code, verdict, states), "{line}: {}", found.3);
        let junit = std::fs::read_to_string(folder.path("out.xml")).unwrap();
        let suites = quick_junit::Report::deserialize_from_str(&junit).unwrap().test_suites;
        assert_eq!((suites[0].failures, suites[0].errors), (failures, usize::from(code == 2)), "{line}: {junit}");
        assert_eq!(suites[0].tests, if code == 2 { 1 } else { states.split(',').count() }, "{line}: {junit}");
    }
    let (_, _, _, json) = told("check g.toml x.safetensors --include w");
    let reason = json["tensors"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("other bits: ") && json["tensors"][0]["recorded"]["max"] == 3.0, "{json}");
    let (code, verdict, states, _) = told("record g.toml x.safetensors");
    assert_eq!((code, verdict.as_str(), states.as_str()), (0, "pass", "a same, b missing, c new, w differs"), "what the file had before");

    let before = std::fs::read(folder.path("g.toml")).unwrap();
    for input in ["g.toml", "x.safetensors"] {
        folder.refused(&format!("golden check g.toml x.safetensors --junit ./{input}"), "is read by this command");
    }
    folder.put("s.toml", b"[[gemm]]\nsize = '8x8x40'\n");
    folder.refused("golden check g.toml --suite s.toml --device host --junit s.toml", "is read by this command");
    folder.put("part.toml", b"[kernels.own]\ncommand = ['sh', 'own.sh']\n[[gemm]]\nname = 'own'\nsize = '1x1x1'\nkernel = 'own'\n");
    folder.put("own.sh", b"");
    folder.put("all.toml", b"include = ['part.toml']\n[[gemm]]\nsize = '8x8x40'\n");
    for input in ["own.sh", "part.toml"] {
        folder.refused(&format!("golden check g.toml --suite all.toml --device host --junit {input}"), "is read by this command");
    }
    folder.refused("golden record own.sh --suite all.toml --device host", "GOLDEN.toml own.sh: that file is read by this command");
    assert_eq!(std::fs::read(folder.path("g.toml")).unwrap(), before, "it was not written");
}
