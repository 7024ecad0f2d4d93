//! `check gemm` of operands that have scales.

use super::support::Folder;

/// MX operands and their scales in files of every kind, and their product in f32.
fn folder() -> Folder {
    let folder = Folder::new();
    for line in [
        "fill x.npy --dtype f32 --shape 16,128 --gen normal:0,1 --seed 1",
        "fill w.npy --dtype f32 --shape 24,128 --gen normal:0,1 --seed 2",
        "convert x.npy a.safetensors --to f8e4m3 --write-scales sa.safetensors",
        "convert x.npy a2.safetensors --to f8e4m3 --write-scales sa.npy",
        "convert w.npy b.safetensors --to f8e4m3 --write-scales sb.npz",
        "convert a.safetensors xq.npy --scales sa.safetensors",
        "convert b.safetensors wq.npy --scales sb.npz",
        "reference gemm xq.npy wq.npy d.npy --transpose-b --arithmetic f32",
        "fill rows.npy --dtype f32 --shape 16,1 --gen constant:0.5",
        "fill odd.npy --dtype f32 --shape 16,3 --gen constant:1",
        "fill one.npy --dtype f32 --shape 1 --gen constant:0.25",
        "fill c.npy --dtype f32 --shape 16,24 --gen constant:0",
        "fill raw.bin --dtype f16 --shape 24,1 --gen constant:1",
        "fill bytes.bin --dtype f8e4m3 --shape 16,128 --seed 3",
        "fill i8.npy --dtype i8 --shape 16,128 --gen constant:1",
    ] {
        let run = folder.run(line);
        assert_eq!(run.code, 0, "{line}: {}", run.err);
    }
    folder
}

#[test]
fn scales_are_read_from_files_of_every_kind() {
    let folder = folder();
    let check = "check gemm a.safetensors b.safetensors d.npy --transpose-b --device host";
    for (flags, code, words) in [
        ("--scale-a sa.safetensors --scale-b sb.npz", 0, "scales of A f8e8m0 1x32, of B f8e8m0 1x32"),
        ("--scale-a sa.npy --scale-b sb.npz:tensor", 0, "scales of A f8e8m0 1x32, of B f8e8m0 1x32"),
        ("--scale-a sa.safetensors:tensor --scale-b sb.npz --scale-block-a 1x32 --scale-block-b 1,32 --c c.npy", 0, "PASS"),
        ("--scale-a sa.npy --scale-b sb.npz --earlier c.npy", 0, "PASS"),
        ("--scale-a sa.npy --scale-b sb.npz --arch sm_89", 0, "bit-exact  not tried: the models here take no scales"),
        ("--scale-a sa.npy", 1, "cause      the scale of B is missing"),
        ("--scale-b sb.npz", 1, "scales of B f8e8m0 1x32"),
        ("--scale-a rows.npy --scale-b sb.npz", 1, "scales of A f32 1x128"),
        ("--scale-a one.npy --scale-b one.npy", 1, "scales of A f32 all, of B f32 all"),
    ] {
        let run = folder.run(&format!("{check} {flags}"));
        // What has no scale of B is as a kernel that leaves it out: told with the scales that it was not checked with.
        let told = run.out.contains(words) || flags == "--scale-a sa.npy";
        assert!(run.code == code && told, "{flags}: {} {}{}", run.code, run.out, run.err);
    }
    let (code, v) = folder.json(&format!("{check} --scale-a sa.npy --scale-b sb.npz:tensor --arch sm_89 --json"));
    assert_eq!((code, &v["verdict"], &v["files"][4]), (0, &"pass".into(), &"sb.npz".into()), "{v}");
    let exactness = &v["check"]["exactness"];
    assert_eq!((&exactness["model"], &exactness["order"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!(exactness["not_tried"], "the models here take no scales");
    // A lone --dtype is that of operands and results; several are in the order of the files.
    assert_eq!(
        folder
            .run("reference gemm bytes.bin b.safetensors y.npy --transpose-b --dtype f8e4m3,- --shape 16,128 --shape - --arithmetic f32")
            .code,
        0
    );
    let raw = "check gemm bytes.bin b.safetensors y.npy --transpose-b --dtype f8e4m3,-,-,f16 --shape 16,128 --shape - --shape -";
    let run = folder.run(&format!("{raw} --shape 24,1 --scale-b raw.bin"));
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
}

#[test]
fn scales_that_do_not_fit_are_refused() {
    let folder = folder();
    for (flags, words) in [
        (
            "--scale-a odd.npy",
            "error: scale of A cannot be of shape [16, 3]: A of shape [16, 128] has scales of shape [1], [16, 1], [16, 1] (blocks of 1x128)",
        ),
        ("--scale-a sa.npy --scale-block-a 1x64", "blocks of 64 along 128 elements of A have 2 scales, not 4"),
        ("--scale-a odd.npy --scale-block-a 1x60", "PASS"),
        ("--scale-a sa.npy --scale-block-a 0x32", "rows and columns from 1 are wanted, such as 1x128"),
        ("--scale-a sa.npy --scale-block-a 32", "rows and columns from 1 are wanted, such as 1x128"),
        ("--scale-block-a 1x32", "--scale-a"),
        ("--scale-a absent.npy", "absent.npy: No such file"),
        ("--scale-a sb.npz:v", "no tensor `v`; there are: tensor"),
        ("--scale-a sa.npy:v", "the tensor v: no tensor of sa.npy has a name"),
        ("--scale-a i8.npy", "scale of A: expected dtype a floating-point format, or u8 that holds the codes of f8e8m0, found i8"),
        ("--scale-a sa.npy --freivalds", "with scales of the operands is not supported by Freivalds' check"),
    ] {
        let line = format!("check gemm a.safetensors b.safetensors d.npy --transpose-b {flags}");
        if words == "PASS" {
            assert_ne!(folder.run(&line).code, 2, "{flags}");
            continue;
        }
        folder.refused(&line, words);
    }
    folder.refused("check gemm i8.npy i8.npy d.npy --transpose-b --scale-a one.npy", "does not match");
    folder.refused("check conv a.safetensors b.safetensors d.npy --param 1,1,1,1,1,3,8,1,1,0,0 --scale-a one.npy", "--scale-a");
}
