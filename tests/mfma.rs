//! `hipverify mfma` as people run it.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use half::f16;
use hipverify::matrix_core::{Arch, Mfma, Mma};
use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, line: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_hipverify");
    Command::new(program).args(line.split_whitespace()).current_dir(folder).env("NO_COLOR", "1").output().unwrap()
}

fn npy(folder: &Path, name: &str, descr: &str, fortran: bool, shape: &str, data: &[u8]) {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(folder.join(name), file).unwrap();
}

fn read(folder: &Path, name: &str) -> (String, Vec<f32>) {
    let file = std::fs::read(folder.join(name)).unwrap();
    let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    let floats = file[end..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    (String::from_utf8_lossy(&file[10..end]).into_owned(), floats)
}

#[test]
fn a_chain_gives_what_the_library_gives() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let number = |i: usize| f16::from_f32(((i * 37 + i / 11) % 199) as f32 / 64.0 - 1.5);
    let a: Vec<f16> = (0..32 * 24).map(number).collect();
    let b: Vec<f16> = (0..24 * 32).map(|i| number(i + 5)).collect();
    let c: Vec<f32> = (0..32 * 32).map(|i| i as f32 / 3.0).collect();
    let bytes = |x: &[f16]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    npy(folder, "a.npy", "<f2", false, "(32, 24)", &bytes(&a));
    // B in Fortran order: the same matrix, columns first.
    let columns: Vec<f16> = (0..32).flat_map(|j| (0..24).map(move |k| (k, j))).map(|(k, j)| b[k * 32 + j]).collect();
    npy(folder, "b.npy", "<f2", true, "(24, 32)", &bytes(&columns));
    npy(folder, "c.npy", "<f4", false, "(1, 32, 32)", &c.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
    for arch in Arch::AMD {
        let line = format!("mfma --arch {arch} --instr v_mfma_f32_32x32x8f16 a.npy b.npy c.npy -o d.npy");
        let done = run(folder, &line);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let (header, d) = read(folder, "d.npy");
        assert!(header.contains("<f4") && header.contains("(32, 32)"), "{header}");
        assert_eq!(d, Mfma::f32_32x32x8f16(arch).run(&a, &b, &c).unwrap(), "{arch}");
    }
    assert!(run(folder, "mfma --arch mi200 --instr f32_32x32x8f16 a.npy b.npy -o d.npy").status.success());
    assert_eq!(read(folder, "d.npy").1, Mfma::f32_32x32x8f16(Arch::Gfx90a).run(&a, &b, &[0.0f32; 1024]).unwrap());
}

#[test]
fn the_list_names_every_instruction() {
    let directory = tempfile::tempdir().unwrap();
    let text = |line| String::from_utf8(run(directory.path(), line).stdout).unwrap();
    let all = text("mfma --list");
    for mfma in Arch::AMD.into_iter().flat_map(Mfma::all) {
        assert!(all.contains(&mfma.name()), "{mfma}");
    }
    let one = text("mfma --list --arch gfx942");
    assert!(one.contains("v_mfma_f32_32x32x8_f16") && !one.contains("gfx90a"));
    for mma in Arch::NVIDIA.into_iter().flat_map(Mma::all) {
        assert!(all.contains(&mma.name()), "{mma}");
    }
    let one = text("mfma --list --arch sm_80");
    assert!(
        one.contains("sm_80  Ampere (A100)  8 instructions") && one.contains("m16n8k8.row.col.f32.tf32.tf32.f32") && !one.contains("e4m3")
    );
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    npy(folder, "a.npy", "<f2", false, "(32, 8)", &[0; 512]);
    npy(folder, "b.npy", "<f2", false, "(8, 32)", &[0; 512]);
    npy(folder, "wide.npy", "<f2", false, "(16, 32)", &[0; 1024]);
    npy(folder, "c.npy", "<f8", false, "(32, 32)", &[0; 8192]);
    npy(folder, "rows.npy", "<f2", false, "(16, 8)", &[0; 256]);
    npy(folder, "columns.npy", "<f2", false, "(8, 8)", &[0; 128]);
    for (line, words) in [
        ("--arch gfx908 --instr v_mfma_f32_32x32x8bf16_1k a.npy b.npy -o d.npy", "v_mfma_f32_32x32x4bf16"),
        ("--arch gfx906 --instr x a.npy b.npy -o d.npy", "gfx908 gfx90a gfx942"),
        ("--arch gfx90a --instr f32_16x16x16f16 a.npy b.npy -o d.npy", "which takes 16 x K with K a multiple of 16"),
        ("--arch gfx90a --instr f32_32x32x4f16 a.npy b.npy -o d.npy", "which takes 2 x 32 x K"),
        ("--arch gfx90a --instr f32_32x32x8f16 a.npy wide.npy -o d.npy", "rows of B in wide.npy are 16"),
        ("--arch gfx90a --instr f32_32x32x8f16 a.npy b.npy c.npy -o d.npy", "expected dtype f32, found f64"),
        ("--arch gfx90a --instr f32_32x32x8bf16_1k a.npy b.npy -o d.npy", "expected dtype bf16, found f16"),
        ("--arch gfx90a --instr f32_32x32x8f16 --cbsz 1 a.npy b.npy -o d.npy", "cbsz cannot be 1: "),
        ("--arch gfx90a --instr f32_32x32x8f16 --keep 31 a.npy b.npy -o d.npy", "kept fraction bits"),
        ("--arch gfx942 --instr f32_32x32x8f16 --keep 30 a.npy b.npy -o d.npy", "one of 52 32 31"),
        ("--arch gfx90a --instr f32_32x32x8f16 a.npy b.npy -o d.txt", "d.txt"),
        ("--arch gfx90a a.npy b.npy -o d.npy", "--instr"),
        ("--arch sm_90 --instr f32_32x32x8f16 a.npy b.npy -o d.npy", "sm_90 (it has m16n8k8.f32.f16.f16.f32 "),
        ("--arch sm_90 --instr m16n8k16.f32.f16.f16.f32 a.npy b.npy -o d.npy", "which takes 16 x K with K a multiple of 16"),
        ("--arch sm_90 --instr m16n8k8.f32.f16.f16.f32 --keep 31 a.npy b.npy -o d.npy", "are for mfma instructions"),
        ("--arch sm_90 --instr m16n8k8.f32.bf16.bf16.f32 rows.npy columns.npy -o d.npy", "expected dtype bf16, found f16"),
        ("--arch sm_70 --list", "no instruction of sm_70"),
    ] {
        let done = run(folder, &format!("mfma {line}"));
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{line}: {err}");
        assert!(err.contains(words), "{line}: {err}");
    }
    assert!(!folder.join("d.npy").exists());
}
