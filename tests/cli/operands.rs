//! What a comparison needs is made by the program: references from operands, and tensors in other formats.

use super::*;

#[test]
fn references_are_computed_from_operands() {
    let folder = Folder::new();
    for line in [
        "fill a.npy --dtype f16 --shape 32,256 --seed 1",
        "fill b.npy --dtype f16 --shape 256,32 --seed 2",
        "fill bt.npy --dtype f16 --shape 32,256 --gen constant:0.5",
        "fill c.npy --dtype f16 --shape 32,32 --seed 3",
        "fill bias.npy --dtype f32 --shape 32 --gen constant:2",
        "fill batch.npy --dtype f16 --shape 3,32,256 --seed 1",
        "mfma --arch gfx908 --instr f32_32x32x8f16 a.npy b.npy -o d.npy",
        "fill x.npy --dtype f16 --shape 8 --gen constant:1",
        "fill w.npy --dtype f16 --shape 3 --gen constant:1",
        "fill y.npy --dtype f32 --shape 1,1,6,1 --gen constant:3",
    ] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    for (line, shape) in [
        ("gemm a.npy b.npy f64.npy", "f64[32,32]"),
        ("gemm a.npy b.npy core.npy --arithmetic gfx908:f16", "f32[32,32]"),
        ("gemm a.npy b.npy chip.npy --arithmetic gfx908", "f32[32,32]"),
        ("gemm a.npy b.npy fma.npy --arithmetic fma --device host", "f32[32,32]"),
        ("gemm a.npy b.npy every4.npz --arithmetic every4+flush --to f16", "f16[32,32]"),
        ("gemm b.npy a.npy t.npy --transpose-a --transpose-b", "f64[32,32]"),
        ("gemm a.npy bt.npy all.npy --transpose-b --alpha 0.5 --c c.npy --beta -2 --bias bias.npy --relu", "f64[32,32]"),
        ("gemm batch.npy b.npy batched.safetensors --name y --to bf16", "bf16[3,32,32]"),
        ("conv x.npy w.npy z.npy --param 1,1,1,1,1,3,8,1,1,0,0 --arithmetic f32 --order channels-last", "f32[1,1,6,1]"),
        ("conv z.npy w.npy dx.npy --param 1,1,1,1,1,3,8,1,1,0,0 --direction bwd_data", "f64[1,1,8,1]"),
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
        ("gemm a.npy b.npy ./a.npy", "OUT ./a.npy: that file is read by this command"),
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
