//! `hipverify check`: results of products and convolutions from their operands.

use super::support::Folder;

/// Operands of a product, and its result by the matrix cores of gfx908.
const PRODUCT: [&str; 3] = [
    "fill a.npy --dtype f16 --shape 32,256 --seed 1",
    "fill b.npy --dtype f16 --shape 256,32 --seed 2",
    "mfma --arch gfx908 --instr f32_32x32x8f16 a.npy b.npy -o d.npy",
];

/// What may be added to it.
const ADDED: [&str; 2] = ["fill c.npy --dtype f16 --shape 32,32 --seed 3", "fill bias.npy --dtype f32 --shape 32 --seed 4"];

/// A convolution of ones: one image of 8 pixels, one channel, a filter of 3.
const CONVOLUTION: [&str; 3] = [
    "fill x.npy --dtype f16 --shape 8 --gen constant:1",
    "fill w.npy --dtype f16 --shape 3 --gen constant:1",
    "fill y.npy --dtype f16 --shape 6 --gen constant:3",
];

/// A folder in which these commands have run.
fn folder<'c>(commands: impl IntoIterator<Item = &'c str>) -> Folder {
    let folder = Folder::new();
    for command in commands {
        assert_eq!(folder.run(command).code, 0, "{command}");
    }
    folder
}

/// Runs checks: their flags, the exit code, and words that they print.
fn checked(folder: &Folder, rows: &[(&str, i32, &str)]) {
    for &(line, code, words) in rows {
        let run = folder.run(&format!("check {line}"));
        assert_eq!(run.code, code, "{line}: {}{}", run.out, run.err);
        assert!(run.out.contains(words), "{line}: {}", run.out);
    }
}

#[test]
fn products_are_checked_from_their_operands() {
    let folder = folder(PRODUCT.into_iter().chain(ADDED));
    checked(
        &folder,
        &[
            ("gemm a.npy b.npy d.npy", 0, "k 256; f16 by f16, sums in f32"),
            ("gemm a.npy b.npy d.npy --arch gfx908 --split-k 2 --split-k-in f16", 0, "2 parts of k added in f16"),
            ("gemm a.npy b.npy d.npy --split-k-in bf16", 0, "sums in f32, stored in bf16"),
            ("gemm a.npy b.npy d.npy --accumulate bf16", 3, "a result of zeros would have passed"),
            ("gemm a.npy b.npy d.npy --alpha 1.01", 1, "the worst case does not explain this result either"),
            ("gemm a.npy b.npy d.npy --c c.npy --beta 0.5", 1, "FAIL"),
            ("gemm a.npy b.npy d.npy --c c.npy --beta 0 --confidence 0.9", 0, "once in 10 comparisons"),
            ("gemm a.npy b.npy d.npy --bias bias.npy", 1, "FAIL"),
            ("gemm a.npy b.npy d.npy --relu", 1, "FAIL"),
            ("gemm a.npy b.npy d.npy --alpha 1.01", 1, "cause      alpha is missing: "),
            ("gemm a.npy b.npy d.npy --relu", 1, "cause      the last function is missing: "),
            ("gemm a.npy b.npy d.npy --c c.npy --beta 0.5", 1, "cause      C is missing: "),
        ],
    );
    let (code, v) = folder.json("check gemm a.npy b.npy d.npy --arch gfx908 --json");
    assert_eq!((code, &v["verdict"], &v["passed"], &v["check"]["exactness"]["differing"]), (0, &"pass".into(), &true.into(), &0.into()));
    assert_eq!(v["check"]["report"]["histogram"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 1024);
    let (code, v) = folder.json("check gemm a.npy a.npy d.npy --json");
    assert_eq!((code, &v["verdict"]), (2, &"error".into()));
}

#[test]
fn results_of_chips_are_told_bit_for_bit() {
    let folder = folder(PRODUCT.into_iter().chain([
        "fill rows.npy --dtype f16 --shape 16,256 --seed 5",
        "fill columns.npy --dtype f16 --shape 256,8 --seed 6",
        "mfma --arch sm_90 --instr m16n8k16.f32.f16.f16.f32 rows.npy columns.npy -o hopper.npy",
        "mfma --arch sm_90 --instr m16n8k16.f16.f16.f16.f16 rows.npy columns.npy -o hopper16.npy",
        "reference gemm rows.npy columns.npy hopper_too.npy --arithmetic h100",
    ]));
    checked(
        &folder,
        &[
            ("gemm a.npy b.npy d.npy --arch gfx908 --worst-case", 0, "bit-exact  yes: gfx908 f16, k ascending"),
            ("gemm a.npy b.npy d.npy --arch gfx90a", 0, "bit-exact  no, of "),
            ("gemm a.npy b.npy d.npy --arch sm_90", 0, "bit-exact  no, of "),
            ("gemm rows.npy columns.npy hopper.npy --arch h200", 0, "the tensor cores of sm_90"),
            ("gemm rows.npy columns.npy hopper.npy --arch sm_90", 0, "bit-exact  yes: sm_90 f16, k ascending"),
            ("gemm rows.npy columns.npy hopper_too.npy --arch sm_90", 0, "bit-exact  yes: sm_90 f16, k ascending"),
            ("gemm rows.npy columns.npy hopper.npy --arch sm_80", 0, "bit-exact  no, of "),
            (
                "gemm rows.npy columns.npy hopper16.npy --arch sm_90 --accumulate f16",
                0,
                "bit-exact  yes: sm_90 f16, accumulated in f16, k ascending",
            ),
        ],
    );
}

#[test]
fn results_that_overflow_saturate_where_that_is_said() {
    let commands = [
        "fill a.npy --dtype f16 --shape 32,256 --seed 1",
        "fill ones.npy --dtype f16 --shape 32,256 --gen constant:1",
        "fill nines.npy --dtype f16 --shape 256,32 --gen constant:9",
        "fill saturated.safetensors --dtype f8e4m3 --shape 32,32 --gen constant:448",
        "fill sixties.npy --dtype f16 --shape 32,256 --gen constant:60",
        "fill largest.npy --dtype f16 --shape 32,32 --gen constant:65504",
    ];
    let folder = folder(commands.into_iter().chain(CONVOLUTION));
    checked(
        &folder,
        &[
            // 256 times 9, which saturates.
            ("gemm ones.npy nines.npy saturated.safetensors --freivalds", 3, "warning    1,024 elements overflow, as they should"),
            ("gemm ones.npy ones.npy saturated.safetensors --transpose-b --freivalds", 1, "FAIL  32 of 32 rows differ"),
            // 256 times 540: f16 ends at 65504.
            (
                "gemm sixties.npy nines.npy largest.npy",
                1,
                "cause      saturated at 65504, the limit of f16: all 1,024 mismatches, where the exact",
            ),
            ("gemm sixties.npy nines.npy largest.npy --freivalds", 1, "would pass of a kernel that saturates (--saturate"),
            ("gemm sixties.npy nines.npy largest.npy --saturate", 3, "f16 by f16, sums in f32, saturating"),
            ("gemm sixties.npy nines.npy largest.npy --saturate --freivalds", 3, "1,024 elements overflow, as they should"),
            ("gemm a.npy nines.npy largest.npy --saturate", 1, "FAIL"),
            ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --saturate", 0, "sums in f32, saturating"),
        ],
    );
}

#[test]
fn passes_that_say_nothing_are_untrusted() {
    let commands = [
        "fill c.npy --dtype f16 --shape 32,32 --seed 3",
        "fill old.npy --dtype f32 --shape 32,32 --gen uniform:500,600",
        "fill zeros.npy --dtype f16 --shape 32,256 --gen constant:0",
        "fill zeros32.npy --dtype f32 --shape 32,32 --gen constant:0",
    ];
    let folder = folder(PRODUCT.into_iter().chain(CONVOLUTION).chain(commands));
    checked(
        &folder,
        &[
            ("gemm zeros.npy b.npy zeros32.npy", 3, "the exact result is zero everywhere: the check says nothing"),
            ("gemm a.npy b.npy d.npy --earlier old.npy", 0, "; the earlier output: would fail"),
            ("gemm a.npy b.npy d.npy --earlier d.npy", 3, "warning    the earlier output would have passed as well"),
            (
                "gemm a.npy b.npy old.npy --c c.npy --beta 0 --earlier old.npy",
                1,
                "1,024 of 1,024 elements beyond their bounds hold the earlier output",
            ),
            ("gemm a.npy b.npy d.npy --freivalds --earlier d.npy", 3, "the earlier output would have passed as well"),
            ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --earlier y.npy", 3, "the earlier output would have passed as well"),
        ],
    );
}

#[test]
fn large_products_are_checked_with_random_vectors() {
    let folder = folder(PRODUCT.into_iter().chain(CONVOLUTION));
    checked(
        &folder,
        &[
            ("gemm a.npy b.npy d.npy --freivalds", 0, "PASS  32 rows agree   by Freivalds' check with 8 vectors"),
            ("gemm a.npy b.npy d.npy --max-work 1000 --arch gfx908", 0, "by Freivalds' check"),
            ("gemm a.npy b.npy d.npy --freivalds 3 --alpha 1.01", 1, "FAIL  32 of 32 rows differ   by Freivalds' check with 3 vectors"),
            ("gemm a.npy b.npy d.npy --relu --max-work 1000", 1, "elements beyond their bounds"),
            (
                "conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --freivalds",
                0,
                "PASS  6 rows of 1 output channel agree   by Freivalds' check",
            ),
            ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --max-work 1", 0, "PASS  6 elements within their bounds"),
            ("conv y.npy w.npy x.npy --param 1,1,1,1,1,3,8,1,1,0,0 --direction bwd_data --freivalds 2", 1, "worst      g 0, n 0, w "),
        ],
    );
    let (code, v) = folder.json("check gemm a.npy b.npy d.npy --freivalds --json");
    assert_eq!((code, &v["verdict"], &v["freivalds"]["rows"]), (0, &"pass".into(), &32.into()));
}

#[test]
fn convolutions_are_checked_from_their_operands() {
    checked(
        &folder(CONVOLUTION),
        &[
            ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --arch gfx942", 0, "bit-exact  yes: gfx942 f16, channels first"),
            ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --layouts ncw,kcx,nkw", 0, "convolution 1 1 1 1 1 3 8 1 1 0 0, fwd"),
            ("conv y.npy w.npy x.npy --param 1,1,1,1,1,3,8,1,1,0,0 --direction bwd_data", 1, "FAIL"),
        ],
    );
}

#[test]
fn checks_that_cannot_be_made_say_why() {
    let folder = folder(PRODUCT.into_iter().chain(ADDED).chain(CONVOLUTION));
    for (line, words) in [
        ("gemm a.npy a.npy d.npy", "a.npy, a.npy, d.npy: operand B: shape [32, 256] does not match [256, 32]"),
        ("gemm a.npy b.npy d.npy --confidence 1", "confidence cannot be 1: "),
        ("gemm a.npy b.npy d.npy --earlier c.npy", "d.npy, c.npy: the earlier output: expected dtype f32, found f16"),
        ("gemm a.npy b.npy d.npy --earlier bias.npy", "d.npy, bias.npy: the earlier output: shape [32] does not match [32, 32]"),
        ("gemm a.npy b.npy d.npy --split-k 0", "--split-k"),
        ("gemm a.npy b.npy d.npy --relu --freivalds", "with an epilogue is not supported by Freivalds' check"),
        ("gemm a.npy b.npy d.npy --alpha nan", "error: alpha cannot be NaN: it has to be finite"),
        ("gemm a.npy b.npy d.npy --c c.npy --beta inf --freivalds", "beta cannot be inf: it has to be finite"),
        ("gemm a.npy b.npy d.npy --split-k 257", "split-k cannot be 257: at most 256, the products of a sum"),
        (
            "conv x.npy w.npy x.npy --param 1,1,1,1,1,3,8,1,1,0,0 --freivalds",
            "x.npy, w.npy, x.npy: Output in layout gnwk: shape [8] does not match",
        ),
        ("conv x.npy w.npy y.npy --param 1,1,1", "--param"),
        ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --layouts ncw", "it takes 3"),
    ] {
        folder.refused(&format!("check {line}"), words);
    }
}
