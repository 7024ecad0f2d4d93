//! `hipverify fill`: files from nothing, and standard output.

use super::support::Folder;
use std::process::Command;

#[test]
fn two_commands_from_nothing_to_a_verdict() {
    let folder = Folder::new();
    for name in ["a.npy", "b.safetensors"] {
        let run = folder.run(&format!("fill {name} --dtype f16 --shape 64,128 --seed 7"));
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""), "{name}");
    }
    let run = folder.run("compare a.npy b.safetensors --rtol 0");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.starts_with("PASS  8,192 elements agree   f16[64,128]   rtol 0 atol 0"), "{}", run.out);
    folder.run("fill c.npy --dtype f16 --shape 64,128 --seed 8");
    let run = folder.run("compare c.npy a.npy");
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert!(run.out.starts_with("FAIL  "), "{}", run.out);
    assert!(!run.out.contains('\x1b'), "no colour in a pipe: {}", run.out);
}

#[test]
fn dashes_are_standard_input_and_output() {
    let folder = Folder::new();
    folder.run("fill r.npy --dtype f32 --shape 8,8 --seed 1");
    folder.run("fill r.safetensors --dtype f32 --shape 8,8 --seed 1");
    folder.run("fill r.raw --dtype f32 --shape 8,8 --seed 1");
    for (name, flags) in [("r.npy", ""), ("r.safetensors", "--format safetensors"), ("r.raw", "--format raw")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        command.args(format!("fill - --dtype f32 --shape 8,8 --seed 1 {flags}").split_whitespace());
        assert_eq!(command.output().unwrap().stdout, std::fs::read(folder.path(name)).unwrap(), "{name}");
    }
    for (input, line) in [
        ("r.npy", "compare - r.safetensors --tensor tensor"),
        ("r.safetensors", "compare - r.safetensors"),
        ("r.raw", "inspect - --dtype f32 --shape 8,8"),
        ("r.npy", "compare r.safetensors - --tensor tensor"),
    ] {
        let run = folder.run_on(input, line);
        assert_eq!(run.code, 0, "{line}: {}{}", run.out, run.err);
    }
    let run = folder.run("fill - --dtype f32 --shape 8,8 --format npz");
    assert!(run.code == 2 && run.err.contains("only be written to a regular file"), "{}", run.err);
}
