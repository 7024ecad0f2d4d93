//! What is said of input files on the command line: formats and shapes of raw data, and which tensors are chosen.

use super::support::{Folder, f32s, npy_f32, safetensors};

/// Raw data beside files with a shape of their own, and raw data of several shapes.
#[test]
fn formats_and_shapes_are_for_all_files_or_one_a_file() {
    let folder = Folder::new();
    for line in [
        "fill x.npy --dtype f16 --shape 32,64",
        "fill x.bin --dtype f16 --shape 32,64",
        "fill y.bin --dtype f16 --shape 64,32 --seed 1",
        "fill y.npy --dtype f16 --shape 64,32 --seed 1",
        "fill x32.bin --dtype f32 --shape 32,64 --gen constant:1",
    ] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    let mfma = "mfma --arch gfx90a --instr f32_32x32x8f16";
    let lines = [
        ("compare x.bin x.npy --dtype f16,- --shape 32,64", 0),
        ("compare x.npy x.bin --dtype -,f16 --shape 32,64", 0),
        ("compare x.bin x.npy --dtype f16 --shape 32,64 --shape -", 0),
        ("compare x.bin x.bin --dtype f16 --shape 32,64", 0),
        ("compare x.bin x32.bin --dtype f16,f32 --shape 32,64 --shape 32x64", 1),
        ("compare x.bin x.npy --earlier y.npy --dtype f16,- --shape 2048,1", 2),
        ("mfma --arch gfx90a --instr f32_32x32x8f16 x.bin y.npy --dtype f16,- --shape 32,64 -o d.npy", 0),
        ("check gemm x.bin y.npy d.npy --dtype f16,-,- --shape 32,64 --arch gfx90a", 0),
        ("check gemm x.bin y.bin d.npy --dtype f16,f16,- --shape 32,64 --shape 64,32 --shape - --arch gfx90a", 0),
    ];
    for (line, code) in lines {
        let run = folder.run(line);
        assert_eq!(run.code, code, "{line}: {}{}", run.out, run.err);
    }
    assert_eq!(folder.run(&format!("{mfma} x.bin y.bin --dtype f16 --shape 32,64 --shape 64,32 -o e.npy")).code, 0);
    assert_eq!(std::fs::read(folder.path("d.npy")).unwrap(), std::fs::read(folder.path("e.npy")).unwrap());
    for (line, words) in [
        ("compare x.bin x.npy --dtype f16,- --shape 32,64 --shape 32,64", "x.npy: has its own shape; --shape is for raw files"),
        ("compare x.npy x.npy --shape 32,64", "x.npy, x.npy: --shape is for raw files"),
        ("inspect x.npy --shape 32,64", "x.npy: --shape is for raw files"),
        ("inspect x.bin --dtype f16 --shape 32,64 --shape -", "--shape has 2 values for 1 file"),
        ("compare x.bin x.bin --dtype f16 --shape 1 --shape 2 --shape 3", "--shape has 3 values for 2 files"),
        ("check gemm x.bin y.npy d.npy --dtype f16,- --shape 32,64", "--dtype has 2 values for 3 files"),
    ] {
        folder.refused(line, words);
    }
}

/// A name that chooses nothing, since no tensor has one, is told.
#[test]
fn a_choice_by_name_wants_names() {
    let folder = Folder::new();
    folder.put("s.safetensors", &safetensors(&[("a", "F32", &[2], f32s(&[1.0, 2.0])), ("b", "F32", &[2], f32s(&[1.0, 2.0]))]));
    folder.put("x.npy", &npy_f32(&[1.0, 2.0]));
    for (line, words) in [
        ("compare s.safetensors x.npy --tensor a --reference-tensor b", "--reference-tensor b: no tensor of x.npy has a name"),
        ("compare x.npy s.safetensors --tensor a --reference-tensor b", "--tensor a: no tensor of x.npy has a name"),
        ("compare x.npy x.npy --include zzz", "--include zzz: no tensor of x.npy, x.npy has a name"),
        ("compare x.npy x.npy --exclude zzz", "--exclude zzz: no tensor of x.npy, x.npy has a name"),
        ("inspect x.npy --include zzz", "--include zzz: no tensor of x.npy has a name"),
        ("inspect s.safetensors --include zzz", "s.safetensors: --include and --exclude leave no tensor"),
        ("golden record g.toml x.npy --tensor zz", "--tensor zz: no tensor of x.npy has a name"),
        ("check gemm x.npy x.npy x.npy --tensor zz", "--tensor zz: no tensor of x.npy, x.npy, x.npy has a name"),
        ("mfma --arch gfx90a --instr f32_32x32x8f16 x.npy x.npy -o d.npy --tensor zz", "--tensor zz: no tensor of x.npy"),
    ] {
        folder.refused(line, words);
    }
    for line in
        ["compare s.safetensors x.npy --tensor a", "compare s.safetensors x.npy --include a", "compare x.npy s.safetensors --tensor b"]
    {
        assert_eq!(folder.run(line).code, 0, "{line}: of the file that has names");
    }
}

/// Names have brackets, which patterns take as they are; a pattern that fits nothing is told, as what it was for is judged by another rule.
#[test]
fn patterns_have_stars_and_nothing_else() {
    let folder = Folder::new();
    let tensors = |v: f32| {
        let one = |name| (name, "F32", &[1][..], f32s(&[v]));
        safetensors(&[one("layers[0].weight"), one("params['w']")])
    };
    folder.put("a.safetensors", &tensors(1.25));
    folder.put("r.safetensors", &tensors(1.0));
    let files = "compare a.safetensors r.safetensors";
    for (flags, code, told) in [
        ("--atol 0.5 --rule layers[0].*:atol=0.1", 1, None),
        ("--atol 0.5 --rule params['w']:atol=0.1", 1, None),
        ("--atol 0.5 --rule **.weight:atol=0.1", 1, None),
        ("--atol 0.5 --include params['w']", 0, None),
        ("--atol 0.1 --exclude layers[0]* --exclude p*", 2, None),
        ("--atol 0.5 --rule fc[0].*:atol=0.1", 0, Some("note: --rule fc[0].*: no tensor has such a name")),
        ("--atol 0.5 --include * --include zz?", 0, Some("note: --include zz?: no tensor has such a name")),
        ("--atol 0.5 --exclude zzz", 0, Some("note: --exclude zzz: no tensor has such a name")),
    ] {
        let run = folder.run(&format!("{files} {flags}"));
        assert_eq!(run.code, code, "{flags}: {}{}", run.out, run.err);
        assert_eq!(run.err.lines().find(|line| line.starts_with("note")), told, "{flags}");
    }
    folder.refused(&format!("{files} --include zzz"), "a.safetensors, r.safetensors: --include and --exclude leave no tensor of 4");
    folder.refused(&format!("{files} --tensor params['w'] --include l*"), "--include and --exclude leave no tensor of 2");
    folder.refused("golden record g.toml a.safetensors --include zzz", "a.safetensors: --include and --exclude leave no tensor of 2");
    folder.refused("compare a.safetensors a.safetensors --reference r.safetensors --dtype f32,-,-,-", "--dtype has 4 values for 2 sides;");
    assert_eq!(folder.run("golden record g.toml a.safetensors").code, 0);
    let run = folder.run("golden check g.toml a.safetensors --rule zz*:atol=1");
    assert_eq!((run.code, run.err.as_str()), (0, "note: --rule zz*: no tensor has such a name\n"));
}

/// Two outputs to one file, by whatever name, would lose the first.
#[test]
fn outputs_are_files_of_their_own() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0, 2.0]));
    for (flags, words) in [
        ("--html o --junit o", "--junit o and --html o: one file cannot be both"),
        ("--mismatches o --diff ./o", "--mismatches o and --diff ./o: one file cannot be both"),
    ] {
        folder.refused(&format!("compare x.npy x.npy {flags}"), words);
    }
    let line = "mfma --arch gfx90a --instr f32_32x32x8f16 x.npy x.npy -o ./x.npy";
    folder.refused(line, "--out ./x.npy: that file is read by this command, as x.npy");
    #[cfg(unix)]
    assert_eq!(folder.run("compare x.npy x.npy --html /dev/null --junit /dev/null").code, 0);
}

/// Of a pipe no more is read than tells that there is too much.
#[test]
fn pipes_with_more_than_an_array_are_refused() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("long", &[npy_f32(&[1.0, 2.0]), vec![0; 9]].concat());
    let run = folder.run_on("long", "compare - x.npy");
    assert!(run.code == 2 && run.err.contains("takes 8 bytes, the file holds 9 or more (several"), "{}", run.err);
    std::fs::rename(folder.path("long"), folder.path("long.npy")).unwrap();
    folder.refused("compare long.npy x.npy", "takes 8 bytes, the file holds 17 (several");
}
