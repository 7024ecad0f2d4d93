//! What the screen shows of many tensors, of names that paint, and of numbers that are near each other.

use super::support::{Folder, Run, f32s, npy, npy_f32, safetensors};

/// Tensors of one element each.
fn tensors(values: &[f32]) -> Vec<u8> {
    let names: Vec<String> = (0..values.len()).map(|i| format!("t{i:03}")).collect();
    let all: Vec<_> = names.iter().zip(values).map(|(name, &v)| (name.as_str(), "F32", &[1][..], f32s(&[v]))).collect();
    safetensors(&all)
}

/// A table has an end: those that do not pass come first, and a line says how many more there are.
#[test]
fn many_tensors_have_a_bounded_table() {
    let folder = Folder::new();
    let reference = vec![1.0; 150];
    folder.put("r.safetensors", &tensors(&reference));
    for (failing, last_row, words) in [
        (0, "PASS t099", "and 50 more, 0 of which do not pass; --include chooses some, --json and --html have all"),
        (2, "PASS t097", "and 50 more, 0 of which do not pass"),
        (150, "FAIL t099", "and 50 more, 50 of which do not pass"),
    ] {
        // The last ones, which would have no row in the order of the file.
        let values: Vec<f32> = (0..150).map(|i| if i >= 150 - failing { 3.0 } else { 1.0 }).collect();
        folder.put("a.safetensors", &tensors(&values));
        let run = folder.run("compare a.safetensors r.safetensors");
        assert_eq!(run.code, i32::from(failing > 0), "{}{}", run.out, run.err);
        let lines = run.lines();
        let rows: Vec<&String> =
            lines.iter().filter(|l| l.split(' ').nth(1).is_some_and(|name| name.starts_with('t') && name.len() == 4)).collect();
        assert!(rows.len() == 100 && rows[99].starts_with(last_row), "{failing}: {rows:?}");
        assert_eq!(rows.iter().filter(|l| l.starts_with("FAIL")).count(), failing.min(100), "{failing}");
        assert!(lines.iter().any(|l| l.contains(words)), "{failing}: {}", run.out);
        let (_, v) = folder.json("compare a.safetensors r.safetensors --json");
        assert_eq!(v["tensors"].as_array().unwrap().len(), 150, "machines are told all");
    }
    folder.run("golden record g.toml r.safetensors");
    let run = folder.run("golden check g.toml a.safetensors");
    assert!(run.code == 1 && run.out.lines().count() == 102, "{}", run.out);
    assert!(run.out.contains("and 50 more that do not agree"), "{}", run.out);
}

/// The first word of the summary is what exit code and JSON say.
#[test]
fn what_cannot_be_compared_is_no_mismatch() {
    let folder = Folder::new();
    folder.put("a.safetensors", &safetensors(&[("v", "F32", &[2], f32s(&[1.0, 2.0])), ("w", "F32", &[1], f32s(&[1.0]))]));
    folder.put("r.safetensors", &safetensors(&[("v", "F32", &[1], f32s(&[1.0])), ("w", "F32", &[1], f32s(&[1.0]))]));
    let run = folder.run("compare a.safetensors r.safetensors");
    assert!(run.code == 2 && run.out.contains("\nERROR  1 of 2 tensors agree, 1 could not be compared\n"), "{}", run.out);
}

/// Names from files cannot turn the direction of a line, on the screen or in an error; machines get them as they are.
#[test]
fn names_cannot_turn_lines() {
    let folder = Folder::new();
    let file = safetensors(&[("w\u{202e}ssap", "F32", &[1], f32s(&[1.0])), ("v", "F32", &[1], f32s(&[1.0]))]);
    folder.put("a.safetensors", &file);
    for line in ["compare a.safetensors a.safetensors", "inspect a.safetensors", "inspect a.safetensors --tensor x"] {
        let run = folder.run(line);
        let said = format!("{}{}", run.out, run.err);
        assert!(said.contains("w\\u{202e}ssap") && !said.contains('\u{202e}'), "{line}: {said}");
    }
    let (_, v) = folder.json("inspect a.safetensors --json");
    assert_eq!(v["tensors"][0]["name"], "w\u{202e}ssap");
}

/// JSON has no number for it.
#[test]
fn an_infinite_rms_is_a_word_in_json() {
    let folder = Folder::new();
    folder.put("large.npy", &npy("<f8", "False", "(2,)", &[1e300f64, -1e300].map(f64::to_le_bytes).concat()));
    let (code, v) = folder.json("inspect large.npy --json");
    assert_eq!((code, &v["tensors"][0]["rms"], &v["tensors"][0]["mean"]), (0, &serde_json::json!("inf"), &serde_json::json!(0.0)));
}

/// Numbers that differ are shown with the digits that tell them apart.
#[test]
fn numbers_that_differ_look_different() {
    let folder = Folder::new();
    folder.put("a.npy", &npy_f32(&[1.25, 1.0]));
    folder.put("r.npy", &npy_f32(&[1.0, 1.0]));
    let run = folder.run("compare a.npy r.npy --relative-l1 0.12499");
    assert!(run.code == 1 && run.out.contains("relative L1 0.125 above 0.12499"), "{}", run.out);
}

#[test]
fn colour_is_for_terminals_and_whoever_asks() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0]));
    for (variables, coloured) in [(&[][..], false), (&[("CLICOLOR_FORCE", "1")][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let run = folder.run_with("compare x.npy x.npy", variables);
        assert_eq!(run.out.contains('\x1b'), coloured, "{variables:?}: {}", run.out);
    }
}

#[test]
fn screens_fit_narrow_terminals() {
    let folder = Folder::new();
    let name = format!("model.layers.0.{}.weight", "self_attn.".repeat(6));
    let tensors = |v: f32| {
        let values: Vec<f32> = (0..64).map(|i| i as f32 + if i % 7 == 0 { v } else { 0.0 }).collect();
        safetensors(&[(&name, "F32", &[8, 8], f32s(&values)), ("b", "F32", &[8, 8], f32s(&values))])
    };
    folder.put("x.safetensors", &tensors(0.5));
    folder.put("r.safetensors", &tensors(0.0));
    for (line, words) in [
        ("compare x.safetensors r.safetensors", "model.layers.0.self_att…f_attn.self_attn..weight"),
        ("compare x.safetensors r.safetensors --tensor b", "  would pass with"),
    ] {
        let wide = folder.run_with(line, &[("COLUMNS", "500")]);
        let narrow = folder.run_with(line, &[("COLUMNS", "100")]);
        assert!(wide.out.contains(words), "{line}: {}", wide.out);
        let longest = |run: &Run| run.out.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(longest(&wide) > 100 && longest(&narrow) <= 100, "{line}: {}{}", wide.out, narrow.out);
    }
    let run = folder.run_with("compare x.safetensors r.safetensors --tensor b", &[("COLUMNS", "60")]);
    assert!(run.out.lines().all(|l| l.chars().count() <= 60), "{}", run.out);
}

#[test]
fn names_from_files_cannot_paint_the_screen() {
    let folder = Folder::new();
    let tensors = |v: f32| safetensors(&[("evil\u{1b}[2J\nPASS", "F32", &[1], f32s(&[v])), ("b", "F32", &[1], f32s(&[1.0]))]);
    folder.put("a.safetensors", &tensors(1.0));
    folder.put("b.safetensors", &tensors(2.0));
    for line in ["compare a.safetensors b.safetensors", "inspect a.safetensors", "inspect a.safetensors --tensor none"] {
        let run = folder.run(line);
        assert!(!(run.out + &run.err).contains('\u{1b}'), "{line}");
    }
}
