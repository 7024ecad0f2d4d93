//! What `hipverify compare` tells machines: JSON and JUnit, as their schemas say.

use super::schema::conforms;
use super::support::{Folder, f32s, has_type, npy_f32, safetensors};

#[test]
fn json_has_the_whole_verdict() {
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[1.0, 2.0, 4.0, 0.0]));
    folder.put("a.npy", &npy_f32(&[1.0, 2.5, 4.0, f32::NAN]));
    let (code, v) = folder.json("compare a.npy r.npy --rtol 1e-3 --histogram --json");
    assert_eq!((code, &v["passed"], &v["result"], &v["reference"]), (1, &false.into(), &"a.npy".into(), &"r.npy".into()));
    let entry = &v["tensors"][0];
    let report = &entry["report"];
    assert_eq!((&entry["verdict"], &report["mismatches"], &report["elements"]), (&"fail".into(), &2.into(), &4.into()));
    assert_eq!((&report["result_dtype"], &report["first"][0]["index"]), (&"f32".into(), &1.into()));
    assert_eq!(report["worst_absolute"]["value"], 0.5);
    assert!(report["histograms"].is_object() && report["metrics"]["rms"].is_number(), "{report}");
    assert!(report["metrics"]["snr"].is_number() && report["metrics"]["similarity"].is_null(), "{report}");
    let (code, v) = folder.json("compare r.npy r.npy --json --cosine");
    assert_eq!((code, &v["passed"], &v["tensors"][0]["verdict"]), (0, &true.into(), &"pass".into()));
    let metrics = &v["tensors"][0]["report"]["metrics"];
    assert_eq!((&metrics["snr"], &metrics["similarity"]["cosine"]), (&"inf".into(), &1.0.into()));
    let run = folder.run("compare a.npy r.npy --cosine");
    assert!(run.out.contains("cosine     0.9956382") && run.out.contains("1 - cosine 0.00436"), "{}", run.out);
}

/// The policy on pairs that are not finite is that of the tensor's rule; the budget is that of the screen; and the schema knows every number.
#[test]
fn reports_are_as_their_schema_says() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../docs/compare.schema.json")).unwrap();
    let folder = Folder::new();
    let tensors = |v: f32| {
        safetensors(&[
            ("a", "F32", &[4], f32s(&[v, 2.0, 4.0, f32::NAN])),
            ("b", "F32", &[2], f32s(&[1.0, f32::NAN])),
            ("i", "I32", &[1], vec![7, 0, 0, 0]),
        ])
    };
    folder.put("x.safetensors", &tensors(1.125));
    folder.put("r.safetensors", &tensors(1.0));
    for flags in ["", "--histogram --cosine", "--rule a:rtol=0.5,equal_nonfinite=true", "--equal-nonfinite --thresholds 1,inf,1"] {
        let (_, json) = folder.json(&format!("compare x.safetensors r.safetensors --json {flags}"));
        has_type(&json, &schema, &schema, flags);
        let policy = |tensor: usize| json["tensors"][tensor]["report"]["nonfinite"].as_str().unwrap();
        let by_rule = if flags.contains("equal_nonfinite") || flags.contains("equal-nonfinite") { "equal_when_same" } else { "fail" };
        let by_flags = if flags.contains("equal-nonfinite") { "equal_when_same" } else { "fail" };
        assert_eq!((policy(0), policy(1), json["nonfinite"].as_str()), (by_rule, by_flags, Some(by_flags)), "{flags}");
        let budgets = [0, 2].map(|tensor| &json["tensors"][tensor]["report"]["budget"]);
        assert!(budgets[0]["ratio"].as_f64().unwrap() > 1.0 && budgets[1].is_null(), "{json}");
    }
}

/// Machines are told in every case, errors included; an old JUnit file never survives a run, and no file that is compared is written.
#[test]
fn machines_are_told_in_every_case() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../docs/compare.schema.json")).unwrap();
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("a.npy", &npy_f32(&[1.0, 2.5]));
    folder.put("short.npy", &npy_f32(&[1.0])[..60]);
    folder.put("x.safetensors", &safetensors(&[("b", "F32", &[1], f32s(&[1.0])), ("c", "F32", &[1], f32s(&[1.0]))]));
    folder.put("y.safetensors", &safetensors(&[("b", "F32", &[2], f32s(&[1.0; 2])), ("d", "F32", &[1], f32s(&[1.0]))]));
    for (line, code, verdict) in [
        ("r.npy r.npy", 0, "pass"),
        ("a.npy r.npy", 1, "fail"),
        ("a.npy r.npy --atol 9", 3, "untrusted"),
        ("x.safetensors y.safetensors", 2, "error"),
        ("short.npy r.npy", 2, "error"),
        ("missing.npy r.npy", 2, "error"),
        ("a.npy r.npy --device gpu:99", 2, "error"),
        ("a.npy r.npy --rtol nan", 2, "error"),
    ] {
        folder.put("out.xml", b"old");
        let (found, json) = folder.json(&format!("compare {line} --json --junit out.xml"));
        assert_eq!((found, &json["verdict"]), (code, &verdict.into()), "{line}: {json}");
        conforms(&json, &schema, line);
        let causes: Vec<_> = json["tensors"].as_array().unwrap().iter().map(|t| &t["report"]["cause"]).filter(|c| !c.is_null()).collect();
        assert_eq!(causes.len(), usize::from(verdict == "fail"), "{line}: {json}");
        let cause = &schema["properties"]["tensors"]["items"]["properties"]["report"]["properties"]["cause"];
        causes.into_iter().for_each(|found| conforms(found, cause, line));
        let junit = std::fs::read_to_string(folder.path("out.xml")).unwrap();
        let suites = quick_junit::Report::deserialize_from_str(&junit).unwrap().test_suites;
        assert_eq!(suites[0].errors > 0, code == 2, "{line}: {junit}");
    }
    folder.refused("compare a.npy r.npy --junit r.npy", "is read by this command");
    assert_eq!(folder.run("compare r.npy r.npy").code, 0, "it was not written");
    let left: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn junit_has_a_case_a_tensor_and_is_well_formed() {
    let folder = Folder::new();
    let x = safetensors(&[("<w> & \"b\"", "F32", &[1], f32s(&[1.0])), ("c", "F32", &[1], f32s(&[1.0]))]);
    let y = safetensors(&[("<w> & \"b\"", "F32", &[1], f32s(&[2.0])), ("c", "F32", &[1], f32s(&[1.0]))]);
    folder.put("x.safetensors", &x);
    folder.put("y.safetensors", &y);
    assert_eq!(folder.run("compare x.safetensors y.safetensors --junit out.xml").code, 1);
    let text = std::fs::read_to_string(folder.path("out.xml")).unwrap();
    let suites = quick_junit::Report::deserialize_from_str(&text).unwrap().test_suites;
    let [suite] = suites.as_slice() else { panic!("{text}") };
    let cases: Vec<(&str, bool)> =
        suite.test_cases.iter().map(|c| (c.name.as_str(), matches!(c.status, quick_junit::TestCaseStatus::Success { .. }))).collect();
    assert_eq!((cases.len(), suite.tests, suite.failures, suite.errors), (2, 2, 1, 0), "{text}");
    assert!(cases.contains(&("<w> & \"b\"", false)) && cases.contains(&("c", true)), "{text}");
    let message = suite.test_cases.iter().find_map(|c| match &c.status {
        quick_junit::TestCaseStatus::NonSuccess { message, .. } => message.as_ref(),
        _ => None,
    });
    assert!(message.is_some_and(|m| m.as_str().ends_with("; cause: unknown")), "one element tells nothing: {message:?}");
}

/// Names with characters that XML has not, or that differ in control characters alone: a case each, well-formed, called as on the screen. JSON has them as they are.
#[test]
fn names_are_told_to_machines_in_full() {
    let folder = Folder::new();
    let names = ["a\u{1}", "a", "b\u{ffff}", "c\nd", "c d", "e\u{7f}"];
    let tensors: Vec<_> = names.iter().map(|&name| (name, "F32", &[1][..], f32s(&[1.0]))).collect();
    folder.put("x.safetensors", &safetensors(&tensors));
    let (_, json) = folder.json("compare x.safetensors x.safetensors --json --junit out.xml");
    let mut found: Vec<&str> = json["tensors"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "a\u{1}", "b\u{ffff}", "c\nd", "c d", "e\u{7f}"]);
    let text = std::fs::read_to_string(folder.path("out.xml")).unwrap();
    let suites = quick_junit::Report::deserialize_from_str(&text).unwrap().test_suites;
    let mut found: Vec<&str> = suites[0].test_cases.iter().map(|case| case.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "a\\u{1}", "b\\u{ffff}", "c d", "c\\nd", "e\\u{7f}"]);
    assert!(!text.contains('\u{ffff}'), "{text}");
}
