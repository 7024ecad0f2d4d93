//! What decides a comparison: tolerances of flags and profiles, and passes that could not fail.

use super::support::{Folder, f32s, npy, npy_f32, safetensors};

#[test]
fn tolerances_decide() {
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[100.0, 1.0, -2.0]));
    folder.put("a.npy", &npy_f32(&[101.0, 1.0, -2.0]));
    for (flags, code) in [
        ("", 1),
        ("--rtol 0.02", 0),
        ("--rtol 0.005", 1),
        ("--atol 1", 0),
        ("--atol 0.99", 1),
        ("--rtol 0.005 --atol 0.5", 0),
        ("--profile torch", 1),
        ("--profile aiter", 0),
        ("--profile deepgemm", 0),
        ("--profile triton", 1),
        ("--profile llama-cpp", 1),
        ("--profile rocmlir --accumulations 1000000", 3),
        ("--accumulations 1", 1),
        ("--accumulations 1000000", 3),
        ("--thresholds 0.1,2,0.1", 0),
        ("--thresholds 0.1,0.5,0.1", 1),
        ("--thresholds inf,inf,inf --rtol 0", 1),
    ] {
        let run = folder.run(&format!("compare a.npy r.npy {flags}"));
        assert_eq!(run.code, code, "{flags}: {}{}", run.out, run.err);
    }
    folder.put("n.npy", &npy_f32(&[f32::NAN, f32::INFINITY, 1.0]));
    assert_eq!(folder.run("compare n.npy n.npy").code, 1, "non-finite values fail");
    assert_eq!(folder.run("compare n.npy n.npy --equal-nonfinite").code, 0);
}

/// A pass that zeros would share is code 3; in JUnit a failure where nobody gave the tolerance, or strictness was asked for.
#[test]
fn a_pass_that_could_not_fail_is_untrusted() {
    let folder = Folder::new();
    let unrelated = |seed: u32| {
        let mut x: Vec<f32> = (0..4096u32).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0).collect();
        x[77] = 60000.0;
        npy_f32(&x)
    };
    folder.put("a.npy", &unrelated(1));
    folder.put("b.npy", &unrelated(2));
    folder.put("relu.npy", &npy_f32(&[0.0, 0.0, 0.0, 1.5, 0.0, 2.5]));
    folder.put("zeros.npy", &npy_f32(&[0.0; 6]));
    folder.put("whole.npy", &npy("<i4", "False", "(6,)", &[0; 24]));
    folder.put("flat.npy", &npy_f32(&[1.0, 1.001, 1.002, 1.003]));
    for (line, code, fails, reason) in [
        ("a.npy b.npy --accumulations 2048", 1, true, "one outlier does not make the tolerance"),
        ("a.npy b.npy --profile ck --accumulations 2048", 3, true, "here it does: rtol times the largest reference"),
        ("a.npy b.npy --rtol 1e-4 --atol 3", 3, false, "a tolerance as large as the tensor, but given"),
        ("a.npy b.npy --rtol 1e-4 --atol 3 --strict", 3, true, "given, and strict"),
        ("a.npy b.npy --rtol 1e-4", 1, true, "a mismatch is one"),
        ("relu.npy relu.npy --rtol 0", 0, false, "half of the reference is zero, the rest decides"),
        ("zeros.npy zeros.npy", 3, true, "nothing against nothing"),
        ("whole.npy whole.npy", 3, true, "for integers the default rule is derived as well"),
        ("zeros.npy zeros.npy --thresholds 1,1,1", 3, false, "thresholds alone are given"),
        ("zeros.npy zeros.npy --thresholds 1,1,1 --allowed-count 1", 3, true, "beside them a derived tolerance decides"),
        ("zeros.npy relu.npy --atol 3", 3, false, "a result of zeros that passes"),
        ("flat.npy flat.npy --rtol 0.01", 3, false, "the order of the elements does not matter"),
        ("flat.npy flat.npy --rtol 1e-4", 0, false, "here it does"),
    ] {
        let run = folder.run(&format!("compare {line} --junit out.xml"));
        assert_eq!(run.code, code, "{line}: {reason}: {}{}", run.out, run.err);
        assert_eq!(run.out.starts_with("UNTRUSTED  "), code == 3, "{line}: {}", run.out);
        let junit = std::fs::read_to_string(folder.path("out.xml")).unwrap();
        assert_eq!(junit.contains("<failure"), fails, "{line}: {reason}: {junit}");
        let (json_code, json) = folder.json(&format!("compare {line} --json"));
        let verdict = ["pass", "fail", "", "untrusted"][code as usize];
        assert_eq!((json_code, &json["tensors"][0]["verdict"]), (code, &verdict.into()), "{line}: {reason}");
        assert_eq!(json["tensors"][0]["report"]["verdict"], verdict, "{line}");
    }
    folder.put("many.safetensors", &safetensors(&[("good", "F32", &[2], f32s(&[1.0, 2.0])), ("hollow", "F32", &[2], f32s(&[0.0; 2]))]));
    let run = folder.run("compare many.safetensors many.safetensors");
    assert_eq!(run.code, 3, "{}", run.out);
    assert!(run.out.contains("UNTRUSTED  1 of 2 tensors agree, 1 untrusted (see warnings)"), "{}", run.out);
}

#[test]
fn a_profile_shows_its_numbers_and_where_they_come_from() {
    let folder = Folder::new();
    for (flags, lines) in [
        ("--profile torch", ["  rtol       0.001\n  atol       1e-5", "source     PyTorch"]),
        ("--profile ck --accumulations 9 --result bf16", ["atol       0.003906 max|r|", "N u(f32)), N = 9"]),
        ("--profile aiter", ["  may fail   50,000 of 1,000,000 elements", "decides    elements:"]),
        ("--profile triton", ["  metrics    relative L2 <= 0.004\n", "atol       0.01 rms r"]),
        ("--profile flash-attention --baseline-error 0.5", ["metrics    max abs <= 1\n", "decides    metrics\n"]),
        ("--list", ["ck-2026          Composable Kernel", "flashinfer       FlashInfer-Bench"]),
    ] {
        let run = folder.run(&format!("tolerance {flags}"));
        assert!(run.code == 0 && lines.iter().all(|line| run.out.contains(line)), "{flags}: {}{}", run.out, run.err);
    }
}

/// A baseline has the pairs that the comparison lets be: infinity at the same place.
#[test]
fn baselines_may_have_the_infinities_of_their_reference() {
    let folder = Folder::new();
    let infinity = f32::INFINITY;
    for (name, values) in [("r.npy", [1.0, -infinity]), ("x.npy", [1.0, -infinity]), ("up.npy", [1.0, infinity])] {
        folder.put(name, &npy_f32(&values));
    }
    for (flags, code) in
        [("--baseline x.npy --equal-nonfinite --strict", 0), ("--baseline x.npy", 2), ("--baseline up.npy --equal-nonfinite", 2)]
    {
        let run = folder.run(&format!("compare x.npy r.npy --profile flash-attention {flags}"));
        assert_eq!(run.code, code, "{flags}: {}{}", run.out, run.err);
        assert_eq!(run.err.contains("1 pairs are not finite"), code == 2, "{}", run.err);
    }
}
