//! `hipverify inspect`: ranges and classes of a tensor in any format.

use super::support::{Folder, npy, npy_f32, safetensors};

/// Elements that ml_dtypes writes, in each of its spellings.
#[test]
fn arrays_of_ml_dtypes_are_read() {
    let folder = Folder::new();
    for (descr, flags, bytes, dtype, value) in [
        ("<V2", "", &[0x80, 0x3f][..], "bf16", 1.0),
        ("|V2", "--dtype bf16", &[0x80, 0x3f], "bf16", 1.0),
        ("<f1", "", &[0x3c], "f8e5m2", 1.0),
        ("<V1", "--dtype f8e4m3", &[0x38], "f8e4m3", 1.0),
        ("|V1", "--dtype f8e4m3fnuz", &[0x40], "f8e4m3fnuz", 1.0),
        ("<V1", "--dtype i4", &[0xff], "i4", -1.0),
    ] {
        folder.put("x.npy", &npy(descr, "False", "(1,)", bytes));
        let (code, json) = folder.json(&format!("inspect x.npy --json {flags}"));
        let tensor = &json["tensors"][0];
        assert_eq!((code, &tensor["dtype"], tensor["max"]["value"].as_f64()), (0, &dtype.into(), Some(value)), "{descr}: {json}");
    }
}

#[test]
fn inspect_shows_range_and_classes() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[0.0, -0.0, 1e-40, 1.5, -8.0, f32::INFINITY, f32::NAN, 8.0]));
    let run = folder.run("inspect x.npy");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let lines: Vec<String> = run.out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "x.npy npy f32[8] 8 elements 32 B",
        "min -8 at [4]",
        "max 8 at [7]",
        "least |x| 1e-40 at [2]",
        "zero 2 25 % 1 with sign",
        "subnormal 1 12.5 %",
        "normal 3 37.5 %",
        "inf 1 12.5 %",
        "nan 1 12.5 %",
        "below zero 1 12.5 %",
        "first non-finite at [5]",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} in:\n{}", run.out);
    }
    assert!(run.out.lines().count() <= 40, "one screen");
    let largest: Vec<u8> = i64::MAX.to_le_bytes().into();
    folder.put("largest.npy", &npy("<i8", "False", "(1,)", &largest));
    folder.put("w.safetensors", &safetensors(&[("w", "I128", &[1], vec![0; 16])]));
    for (line, words) in
        [("largest.npy", "i64[1] 1 element 8 B"), ("largest.npy", "[2^62, 2^63) 1 100 %"), ("w.safetensors", "1 tensor 0 B")]
    {
        let run = folder.run(&format!("inspect {line}"));
        assert!(run.lines().join("\n").contains(words), "{line}: {}", run.out);
    }
    let (_, v) = folder.json("inspect x.npy --json");
    assert_eq!((&v["tensors"][0]["classes"]["nan"], &v["tensors"][0]["min"]["value"]), (&1.into(), &(-8.0).into()));
    folder.put("bf16.npy", &npy("<V2", "False", "(2,)", &[0x80, 0x3f, 0, 0xc0]));
    let run = folder.run("inspect bf16.npy --dtype bf16");
    assert!(run.out.contains("bf16[2]") && run.out.contains("-2"), "{}", run.out);
    folder.put("raw.bin", &[0x38, 0xb8, 0]);
    let (_, v) = folder.json("inspect raw.bin --dtype f8e4m3 --shape 3 --json");
    assert_eq!((&v["tensors"][0]["max"]["value"], &v["tensors"][0]["min"]["at"][0]), (&1.0.into(), &1.into()));
}
