//! What a comparison needs is made by the program: references from operands, and tensors in other formats.

use super::support::{Folder, f32s, npy, npy_f32, safetensors};

/// Operands of products and of a convolution, and results that were made elsewhere.
fn operands() -> Folder {
    let folder = Folder::new();
    for line in [
        "fill a.npy --dtype f16 --shape 32,256 --seed 1",
        "fill b.npy --dtype f16 --shape 256,32 --seed 2",
        "fill bt.npy --dtype f16 --shape 32,256 --gen constant:0.5",
        "fill c.npy --dtype f16 --shape 32,32 --seed 3",
        "fill bias.npy --dtype f32 --shape 32 --gen constant:2",
        "fill batch.npy --dtype f16 --shape 3,32,256 --seed 1",
        "fill heads.npy --dtype f16 --shape 2,3,32,256 --seed 1",
        "mfma --arch gfx908 --instr f32_32x32x8f16 a.npy b.npy -o d.npy",
        "fill x.npy --dtype f16 --shape 8 --gen constant:1",
        "fill w.npy --dtype f16 --shape 3 --gen constant:1",
        "fill y.npy --dtype f32 --shape 1,1,6,1 --gen constant:3",
        "fill e5m2.bin --dtype f8e5m2 --shape 32,256 --seed 1",
        "fill e4m3.bin --dtype f8e4m3 --shape 256,32 --seed 2",
    ] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    folder
}

#[test]
fn references_are_computed_from_operands() {
    let folder = operands();
    for (line, shape) in [
        ("gemm a.npy b.npy f64.npy", "f64[32,32]"),
        ("gemm a.npy b.npy core.npy --arithmetic gfx908:f16", "f32[32,32]"),
        ("gemm a.npy b.npy chip.npy --arithmetic gfx908", "f32[32,32]"),
        ("gemm e5m2.bin e4m3.bin mixed.npy --dtype f8e5m2,f8e4m3 --shape 32,256 --shape 256,32 --arithmetic sm_89", "f32[32,32]"),
        ("gemm e5m2.bin e4m3.bin named.npy --dtype f8e5m2,f8e4m3 --shape 32,256 --shape 256,32 --arithmetic sm_89:e5m2_e4m3", "f32[32,32]"),
        ("gemm a.npy b.npy fma.npy --arithmetic fma --device host", "f32[32,32]"),
        ("gemm a.npy b.npy every4.npz --arithmetic every4+flush --to f16", "f16[32,32]"),
        ("gemm b.npy a.npy t.npy --transpose-a --transpose-b", "f64[32,32]"),
        ("gemm a.npy bt.npy all.npy --transpose-b --alpha 0.5 --c c.npy --beta -2 --bias bias.npy --relu", "f64[32,32]"),
        ("gemm batch.npy b.npy batched.safetensors --name y --to bf16", "bf16[3,32,32]"),
        ("gemm heads.npy b.npy projected.npy --to f16", "f16[2,3,32,32]"),
        ("gemm heads.npy heads.npy scores.npy --transpose-b --to f16", "f16[2,3,32,32]"),
        ("conv x.npy w.npy z.npy --param 1,1,1,1,1,3,8,1,1,0,0 --arithmetic f32 --order channels-last", "f32[1,1,6,1]"),
        ("conv z.npy w.npy dx.npy --param 1,1,1,1,1,3,8,1,1,0,0 --direction bwd_data", "f64[1,1,8,1]"),
        ("conv x.npy w.npy ncw.npy --param 1,1,1,1,1,3,8,1,1,0,0 --layouts ncw,kcx,nkw", "f64[1,1,6]"),
        ("conv x.npy w.npy ngcw.npy --param 1,1,1,1,1,3,8,1,1,0,0 --layouts ncw,kcx,ngkw", "f64[1,1,1,6]"),
    ] {
        let run = folder.run(&format!("reference {line}"));
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", ""), "{line}");
        let out = line.split(' ').nth(3).unwrap();
        let shown = folder.run(&format!("inspect {out}"));
        assert!(shown.out.contains(shape), "{line}: {}", shown.out);
    }
    for (line, code) in [
        ("core.npy d.npy --rtol 0", 0),
        ("chip.npy d.npy --rtol 0", 0),
        ("mixed.npy named.npy --rtol 0", 0),
        ("fma.npy d.npy --rtol 0", 1),
        ("f64.npy d.npy --rtol 0", 1),
        ("d.npy f64.npy --accumulations 256", 0),
        ("z.npy y.npy --rtol 0", 0),
    ] {
        let run = folder.run(&format!("compare {line}"));
        assert_eq!(run.code, code, "{line}: {}", run.out);
    }
    for (line, code) in [
        ("b.npy a.npy t.npy --transpose-a --transpose-b", 0),
        ("a.npy bt.npy all.npy --transpose-b --alpha 0.5 --c c.npy --beta -2 --bias bias.npy --relu", 0),
        ("a.npy bt.npy all.npy --transpose-b", 1),
    ] {
        let run = folder.run(&format!("check gemm {line}"));
        assert_eq!(run.code, code, "{line}: {}", run.out);
    }
}

#[test]
fn references_that_cannot_be_computed_say_why() {
    let folder = operands();
    for (line, words) in [
        ("gemm a.npy a.npy no.npy", "error: a.npy, a.npy: operand B: shape [32, 256] does not match [256, 256]"),
        ("gemm a.npy bias.npy no.npy", "bias.npy: operand B: shape [32] is no matrix, nor a batch of them"),
        ("gemm a.npy b.npy no.npy --arithmetic f33", "--arithmetic: accumulation cannot be f33: f64, f64-rounded, every4"),
        ("gemm d.npy d.npy no.npy --arithmetic gfx90a:f16", "expected dtype f16 and f16, found f32 and f32"),
        ("gemm a.npy b.npy no.npy --to bf16", "no.npy: the npy format has no name for bf16"),
        ("gemm a.npy b.npy no.npy --to f33", "unknown dtype `f33`"),
        ("gemm a.npy b.npy no.npy --alpha nan", "alpha cannot be NaN: it has to be finite"),
        ("gemm a.npy b.npy no.npy --c bias.npy", "bias.npy: operand C: shape [32] does not match [32, 32]"),
        ("gemm a.npy b.npy no.npy --bias c.npy", "c.npy: bias: shape [32, 32] does not match [32]"),
        ("gemm a.npy b.npy no.npy --beta 1", "--c <FILE>"),
        ("gemm a.npy b.npy ./a.npy", "OUT ./a.npy: that file is read by this command, as a.npy"),
        ("gemm a.npy b.npy no.txt", "`txt` names no format to write"),
        ("gemm a.npy b.npy no.npy --device gpu:99", "no gpu:99 device"),
        ("gemm absent.npy b.npy no.npy", "absent.npy: No such file"),
        ("conv x.npy w.npy no.npy --param 1,1,1", "--param"),
        ("conv x.npy w.npy no.npy --param 1,1,1,1,1,3,9,1,1,0,0", "x.npy, w.npy: Input in layout gnwc: shape [8] does not match"),
        ("conv x.npy w.npy no.npy --param 1,1,1,1,1,3,8,1,1,0,0 --order rows", "it must be channels-first or channels-last"),
    ] {
        folder.refused(&format!("reference {line}"), words);
    }
    assert!(!folder.path("no.npy").exists(), "nothing is left of a reference that failed");
}

#[test]
fn tensors_are_converted_and_what_does_not_fit_is_counted() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0, 0.3, 500.0, 1e-6, f32::INFINITY, -2.0, f32::NAN, 464.0]));
    folder.put("many.safetensors", &safetensors(&[("a", "F32", &[2], f32s(&[1.0, 1e6])), ("b", "F32", &[1, 2], f32s(&[2.0, 0.5]))]));
    folder.put("odd.npy", &npy_f32(&[1.0, 2.0, 3.0]));
    folder.put("one.npy", &npy_f32(&[1.0]));
    folder.put("fortran.npy", &npy("<f4", "True", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0])));
    for (line, told) in [
        ("x.npy ieee.safetensors --to f8e4m3", "8 elements: 2 rounded, 1 overflowed, 1 became 0, 1 became NaN"),
        ("x.npy most.safetensors --to f8e4m3 --saturate --name w", "8 elements: 2 rounded, 2 overflowed, 1 became 0"),
        ("x.npy six.bin --to f6e2m3", "8 elements: 1 rounded, 3 overflowed, 1 became 0, 1 have no counterpart"),
        ("many.safetensors all.safetensors --to f16", "a: 2 elements: 1 overflowed\n4 elements: 1 overflowed"),
        ("many.safetensors all.npz --to f64", "4 elements: none changed"),
        ("many.safetensors b.npy --tensor b", "2 elements: none changed"),
        ("many.safetensors only.npy --exclude a --to i32", "2 elements: 1 became 0"),
        ("fortran.npy row.bin", "4 elements: none changed"),
        ("odd.npy none.npy --to u8", "3 elements: none changed"),
        ("x.npy u8.npy --to u8", "8 elements: 3 overflowed, 2 became 0, 2 have no counterpart"),
        ("one.npy one.bin", "1 element: none changed"),
    ] {
        let run = folder.run(&format!("convert {line}"));
        assert_eq!((run.code, run.out.as_str(), run.err.trim_end()), (0, "", told), "{line}");
    }
    // Numbers that the format has come back.
    assert_eq!(std::fs::read(folder.path("row.bin")).unwrap(), f32s(&[1.0, 3.0, 2.0, 4.0]));
    assert_eq!(folder.run("compare all.npz many.safetensors --rtol 0").code, 0);
    assert_eq!(folder.run("convert most.safetensors back.npy --to f32").code, 0);
    let back = std::fs::read(folder.path("back.npy")).unwrap();
    assert_eq!(back[back.len() - 32..back.len() - 8], f32s(&[1.0, 0.3125, 448.0, 0.0, 448.0, -2.0]));
    assert!(folder.run("inspect most.safetensors").out.contains("tensor w  f8e4m3[8]"));
    for (line, words) in [
        ("many.safetensors no.npy --to f16", "no.npy: it holds one tensor, not 2: name one, or write .safetensors or .npz"),
        ("many.safetensors no.safetensors --name w", "--name is for one tensor, not 2"),
        ("many.safetensors many.safetensors --to f16", "OUT many.safetensors: that file is read by this command"),
        ("many.safetensors no.npz --to bf16", "no.npz: the npy format has no name for bf16"),
        ("many.safetensors no.npz --tensor c", "no tensor `c`; there are: a, b"),
        ("many.safetensors no.npz --include c", "many.safetensors: --include and --exclude leave no tensor of 2"),
        ("odd.npy no.safetensors --to f4e2m1", "3 elements of f4e2m1 do not fill whole bytes"),
        ("x.npy no.npy --to f33", "unknown dtype `f33`"),
        ("x.npy no.txt", "`txt` names no format to write"),
        ("absent.npy no.npy", "absent.npy: No such file"),
    ] {
        folder.refused(&format!("convert {line}"), words);
    }
    assert!(["no.npy", "no.npz", "no.safetensors"].iter().all(|name| !folder.path(name).exists()), "nothing is left of what failed");
}

#[test]
fn blocks_of_mx_formats_become_tensors() {
    let folder = Folder::new();
    // Two rows of two blocks: 1.5 in each place, and scales 2^0, 2^1, 2^-2, NaN.
    let (elements, scales) = (vec![0x33u8; 64], vec![127u8, 128, 125, 255]);
    folder.put("mx.safetensors", &safetensors(&[("w", "F4", &[2, 64], elements), ("w_scale", "F8_E8M0", &[2, 2], scales.clone())]));
    folder.put("codes.npy", &npy("|u1", "False", "(2, 2)", &scales));
    folder.put("flat.npy", &npy("|u1", "False", "(4,)", &scales));
    folder.put("f32.npy", &npy("<f4", "False", "(2, 2)", &[0; 16]));
    folder.put("i8.npy", &npy("|i1", "False", "(32,)", &[64; 32]));
    folder.put("one.npy", &npy("|u1", "False", "(1,)", &[127]));
    folder.put("short.npy", &npy("|i1", "False", "(33,)", &[64; 33]));
    let row = |a: f32, b: f32| [[a; 32], [b; 32]].concat();
    let data = f32s(&[row(1.5, 3.0), row(0.375, f32::NAN)].concat());
    for line in [
        "w.npy --scales mx.safetensors:w_scale --tensor w",
        "w.npy --scales codes.npy --to f32 --tensor w",
        "w.npy --scales mx.safetensors:w_scale --exclude *_scale",
    ] {
        let run = folder.run(&format!("convert mx.safetensors {line}"));
        assert_eq!((run.code, run.err.as_str()), (0, "128 elements: none changed\n"), "{line}");
        let written = std::fs::read(folder.path("w.npy")).unwrap();
        assert!(written.ends_with(&data), "{line}");
    }
    // A lone --dtype is that of the elements.
    folder.put("bytes.npy", &npy("|V1", "False", "(2, 64)", &[3; 128]));
    for dtype in ["f4e2m1", "f4e2m1,-", "f4e2m1,f8e8m0"] {
        assert_eq!(folder.run(&format!("convert bytes.npy b.npy --dtype {dtype} --scales codes.npy")).code, 0, "{dtype}");
        assert!(std::fs::read(folder.path("b.npy")).unwrap().ends_with(&data), "{dtype}");
    }
    let run = folder.run("convert i8.npy eights.npy --scales one.npy --to f64");
    assert_eq!((run.code, run.err.as_str()), (0, "32 elements: none changed\n"));
    assert!(folder.run("inspect eights.npy").out.contains("mean             1"), "64 of 64ths");
    for (line, words) in [
        ("mx.safetensors no.npy --scales codes.npy", "mx.safetensors holds 2 tensors: name one with --tensor"),
        ("mx.safetensors no.npy --tensor w --scales flat.npy", "flat.npy: shape [4] does not match [2, 2], a scale for 32 elements"),
        ("mx.safetensors no.npy --tensor w --scales f32.npy", "f32.npy: scales are f8e8m0, or u8 that holds the codes of it, not f32"),
        ("mx.safetensors no.npy --tensor w --scales mx.safetensors:v", "no tensor `v`; there are: w, w_scale"),
        ("short.npy no.npy --scales one.npy", "short.npy: shape [33]: the last dimension of an MX tensor is a multiple of 32"),
        ("f32.npy no.npy --scales one.npy", "f32.npy: shape [2, 2]: the last dimension"),
        ("mx.safetensors no.npy --tensor w --scales absent.npy", "absent.npy: No such file"),
    ] {
        folder.refused(&format!("convert {line}"), words);
    }
}

#[test]
fn tensors_become_blocks_of_mx_formats() {
    let folder = Folder::new();
    // Two rows of a block, whose largest magnitudes are 7.5 and 0.75.
    let rows = |scales: [f32; 2]| f32s(&scales.map(|s| (0..32).map(|i| s * [7.5, -3.0, 0.2, 1.25][i % 4]).collect::<Vec<_>>()).concat());
    folder.put("w.npy", &npy("<f4", "False", "(2, 32)", &rows([1.0, 0.1])));
    folder.put("many.safetensors", &safetensors(&[("a", "F32", &[2, 32], rows([1.0, 0.1])), ("b", "F32", &[32], f32s(&[-7.5; 32]))]));
    folder.put("short.npy", &npy_f32(&[1.0; 33]));
    // Half of 7.5 is nearer to 4 than to 3; codes are those of NumPy with ml_dtypes.
    for (flags, scales, elements, told) in [
        ("", [127u8, 124], [0xd7u8, 0x20, 0xc7, 0x20], "64 elements: 16 rounded, 8 overflowed, 16 became 0"),
        ("--scale-rule rceil", [128, 124], [0xb6, 0x10, 0xc7, 0x20], "64 elements: 24 rounded, 16 became 0"),
    ] {
        let run = folder.run(&format!("convert w.npy mx.safetensors --to f4e2m1 --write-scales s.npy {flags}"));
        assert_eq!((run.code, run.out.as_str(), run.err.trim_end()), (0, "", told), "{flags}");
        let [mx, s] = ["mx.safetensors", "s.npy"].map(|name| std::fs::read(folder.path(name)).unwrap());
        let rows: Vec<u8> = elements.chunks(2).flat_map(|row| row.repeat(8)).collect();
        assert!(mx.ends_with(&rows) && s.ends_with(&scales), "{flags}: {:x?} {:x?}", &mx[mx.len() - 32..], &s[s.len() - 2..]);
    }
    assert!(folder.run("inspect mx.safetensors").out.contains("tensor tensor  f4e2m1[2,32]"));
    // Every block is written as it was read, and is within its bound: half of the step at its largest number, or what is beyond that.
    for format in ["f8e4m3", "f8e5m2", "f6e2m3", "f6e3m2", "f4e2m1", "i8"] {
        for rule in ["floor", "rceil", "even"] {
            let run = folder.run(&format!("convert w.npy mx.safetensors --to {format} --write-scales s.npz --scale-rule {rule} --name w"));
            assert_eq!(run.code, 0, "{format} {rule}: {}", run.err);
            assert_eq!(folder.run("convert mx.safetensors back.npy --scales s.npz:w").code, 0, "{format} {rule}");
            let run = folder.run("compare back.npy w.npy --rtol 0.21 --atol 0.2");
            assert_eq!(run.code, 0, "{format} {rule}: {}", run.out);
            let run =
                folder.run(&format!("convert back.npy mx2.safetensors --to {format} --write-scales s2.npz --scale-rule {rule} --name w"));
            assert_eq!((run.code, run.err.as_str()), (0, "64 elements: none changed\n"), "{format} {rule}");
            assert_eq!(folder.run("compare mx.safetensors mx2.safetensors --rtol 0").code, 0, "{format} {rule}");
        }
    }
    // Several tensors have their scales under their names.
    let run = folder.run("convert many.safetensors mx.safetensors --to f8e4m3 --write-scales s.safetensors");
    let told = "96 elements: 24 rounded, 40 overflowed";
    assert_eq!((run.code, run.err.trim_end().lines().last()), (0, Some(told)), "{}", run.err);
    let shown = folder.run("inspect s.safetensors").out;
    assert!(shown.contains("f8e8m0  [2,1]") && shown.contains("f8e8m0  [1]"), "{shown}");
    assert_eq!(folder.run("convert mx.safetensors back.npy --tensor b --scales s.safetensors:b").code, 0);
    assert!(std::fs::read(folder.path("back.npy")).unwrap().ends_with(&f32s(&[-7.0; 32])), "448 for 480");
    for (line, words) in [
        ("w.npy no.bin --write-scales no.npy", "--to <DTYPE>"),
        (
            "w.npy no.bin --to f16 --write-scales no.npy",
            "--write-scales: element of an MX block: expected dtype f8e4m3, f8e5m2, f6e2m3, f6e3m2, f4e2m1, i8",
        ),
        ("w.npy no.bin --to i8 --write-scales no.npy --saturate", "'--saturate'"),
        ("w.npy no.bin --to i8 --scale-rule even", "--write-scales <FILE>"),
        ("w.npy no.bin --to i8 --write-scales no.npy --scale-rule ceil", "the rule of MX scales cannot be ceil: floor, rceil, even"),
        ("short.npy no.bin --to i8 --write-scales no.npy", "short.npy: shape [33]: the last dimension of an MX tensor is a multiple of 32"),
        ("many.safetensors no.safetensors --to i8 --write-scales no.npy", "no.npy: it holds one tensor, not 2"),
        ("w.npy no.bin --to i8 --write-scales no.txt", "`txt` names no format to write"),
        ("w.npy no.bin --to i8 --write-scales ./no.bin", "OUT no.bin and --write-scales ./no.bin: one file cannot be both"),
        ("w.npy no.bin --to i8 --write-scales ./w.npy", "--write-scales ./w.npy: that file is read by this command, as w.npy"),
        ("w.npy - --to i8 --write-scales -", "OUT and --write-scales are both standard output; give a file for one"),
    ] {
        folder.refused(&format!("convert {line}"), words);
    }
    assert!(["no.npy", "no.bin", "no.safetensors"].iter().all(|name| !folder.path(name).exists()), "nothing is left of what failed");
}

#[test]
fn seeds_of_the_clock_are_told() {
    let folder = Folder::new();
    let run = folder.run("fill a.npy --dtype f32 --shape 100 --seed time");
    let seed = run.err.strip_prefix("seed ").and_then(|rest| rest.split(' ').next()).unwrap().parse::<u64>().unwrap();
    assert!(run.code == 0 && run.out.is_empty() && seed > 1_700_000_000, "{}", run.err);
    assert_eq!(folder.run(&format!("fill b.npy --dtype f32 --shape 100 --seed {seed}")).code, 0);
    assert_eq!(folder.run("compare a.npy b.npy --rtol 0").code, 0);
    folder.refused("fill c.npy --dtype f32 --shape 4 --seed time --gen sin/seed=1", "--seed time and /seed= of --gen");
    folder.refused("fill c.npy --dtype f32 --shape 4 --seed now", "or `time`");
    assert_eq!(folder.run("fill v.npy --dtype f16 --shape 4 --gen values:0.5,-1,0.75").code, 0);
    let written = std::fs::read(folder.path("v.npy")).unwrap();
    assert!(written.ends_with(&[0x00, 0x38, 0x00, 0xbc, 0x00, 0x3a, 0x00, 0x38]));
    folder.refused("fill c.npy --dtype f16 --shape 4 --gen values", "`values` takes at least one number");
    folder.refused("fill c.npy --dtype i8 --shape 4 --gen values:1,200", "value cannot be 200: i8 holds numbers");
}
