//! `hipverify replay`, as people run it.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![cfg(feature = "cli")]

use std::process::Command;

/// Exit code, standard output, standard error.
fn run(line: &str) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_hipverify")).arg("replay").args(line.split_whitespace()).output().unwrap();
    (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
}

const SIZES: &str = "--direction fwd --batch 2 --in-channels 4 --out-channels 8 --in-h 5 --in-w 5 --fil-h 3 --fil-w 3";

#[test]
fn a_name_and_its_flags_print_the_same_line() {
    let (code, named, _) = run("--name conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16 --range r4");
    let flags = "--direction fwd --fil-layout kcyx --in-layout nchw --out-layout nkhw --batch 4 --in-channels 4 --out-channels 32 \
        --in-h 4 --in-w 4 --fil-h 3 --fil-w 3 --padding-h 1 --padding-w 1 --min 1 --max 5";
    assert_eq!((code, run(flags).1), (Some(0), named.clone()));
    assert!(named.starts_with("2048       (") && named.lines().count() == 1, "{named}");
    let columns: Vec<&str> = named.split_whitespace().collect();
    assert_eq!(columns.len(), 14);
    assert_eq!(run(&format!("{flags} --seed 2")).0, Some(0));
    assert_eq!(run("--name conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16 --range r4 --histogram").1.lines().count(), 21);
}

#[test]
fn the_list_has_107_names_and_23_open_orders() {
    let (code, out, _) = run("--list");
    assert_eq!((code, out.lines().count()), (Some(0), 107));
    assert_eq!(out.lines().filter(|l| l.contains("any order")).count(), 23);
}

#[test]
fn all_prints_a_line_for_every_configuration_with_one_order() {
    let (code, out, err) = run("--all --name CHECK_PADDING --range r4 --arch gfx908");
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    let header = err.lines().find(|line| line.starts_with("name ")).unwrap();
    assert_eq!(header.split_whitespace().count(), lines[0].split_whitespace().count(), "a name for the name and each of the 14 numbers");
    assert!(lines.len() >= 3 && err.contains(&format!("[  1/{}]", lines.len())), "{out}{err}");
    for line in lines {
        let (name, columns) = line.split_once(' ').unwrap();
        let single = run(&format!("--name {name} --range r4 --arch gfx908"));
        assert_eq!((single.0, single.1.trim_end()), (Some(0), columns.trim()), "{name}");
    }
    // Backward weight on matrix cores has no fixed order; without them it has one.
    let weights = "--all --name bwd_CHECK_ISSUE_71_1";
    let (code, out, err) = run(weights);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("no fixed order"), "{err}");
    assert_eq!(run(&format!("{weights} --kernel nonxdlops")).0, Some(0));
}

#[test]
fn kernels_without_matrix_cores_differ_from_none_of_the_gpu_validator() {
    let (_, out, _) = run(&format!("{SIZES} --kernel nonxdlops --validator pv-with-gpu --range r1"));
    assert_eq!(out.trim_end(), "144        (144 0 0 0) 0.0 (0.0000000000 0.0000000000) 0.000000 0.000000 0.0e+00 0.0e+00 0.0e+00 0.0e+00");
}

#[test]
fn float_atomics_print_what_the_orders_allow() {
    let (code, out, _) = run("--name conv2d_host_validation_f16_bwd_CHECK_ISSUE_71_1 --validator pv-with-gpu");
    assert_eq!(code, Some(0));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(
        lines[1].contains("4 partial sums") && lines[2].starts_with("nearest   1024") && lines[3].starts_with("farthest  1024"),
        "{out}"
    );
}

#[test]
fn impossible_parameters_are_clear_errors() {
    for (line, part) in [
        ("--name nonsense", "one of the 107 names"),
        ("--name PADDING3", "conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16"),
        ("", "--name"),
        ("--direction fwd --batch 2", "--in-channels is missing"),
        (&format!("{SIZES} --groups 3"), "a multiple of the 3 groups"),
        (&format!("{SIZES} --groups 0"), "a multiple of the 0 groups"),
        (&format!("{SIZES} --stride-h 0"), "stride cannot be 0"),
        (&format!("{SIZES} --in-layout nchx"), "input layout cannot be nchx"),
        (&format!("{SIZES} --fil-layout kcy"), "filter layout cannot be kcy"),
        (&format!("{SIZES} --min 3 --max 1"), "ascending order"),
        (&format!("{SIZES} --arch gfx942"), "the study measured gfx908 and gfx90a"),
        (&format!("{SIZES} --range r2"), "r5 [5, 10]"),
        (&format!("{SIZES} --kernel mfma"), "xdlops"),
        (&format!("{SIZES} --validator cpu"), "pv-with-gpu"),
        (&format!("{SIZES} --batch 99999999999999999"), "cannot be used multiple times"),
        (
            "--direction fwd --batch 9999999999999 --in-channels 4096 --out-channels 8 --in-h 500 --in-w 500 --fil-h 3 --fil-w 3",
            "more elements",
        ),
        (&SIZES.replace("fwd", "bwd_data"), "backward data with filter [3, 3]"),
        (&SIZES.replace("fwd", "back"), "bwd_weight"),
    ] {
        let (code, out, err) = run(line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}: {err}");
        assert!(err.contains(part), "{line}: {err}");
    }
}
