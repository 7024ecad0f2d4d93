//! The program as people run it: exit codes, screens, files, and every bad input.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[cfg(unix)]
#[path = "cli/failed_cases.rs"]
mod failed_cases;
#[path = "cli/golden.rs"]
mod golden;
#[path = "cli/input.rs"]
mod input;
#[path = "cli/messages.rs"]
mod messages;
#[path = "cli/operands.rs"]
mod operands;
#[path = "cli/scales.rs"]
mod scales;
#[path = "cli/screen.rs"]
mod screen;
#[path = "cli/study.rs"]
mod study;
#[path = "cli/system.rs"]
mod system;

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run left.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn of(output: std::process::Output) -> Run {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The lines with single spaces.
    fn lines(&self) -> Vec<String> {
        self.out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
}

/// A folder for the files of one test, and runs inside it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn run(&self, line: &str) -> Run {
        self.run_with(line, &[])
    }

    fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command.args(line.split_whitespace()).current_dir(self.0.path()).envs(variables.iter().copied());
        Run::of(command.output().unwrap())
    }

    /// A run with a file as standard input.
    fn run_on(&self, input: &str, line: &str) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        command.args(line.split_whitespace()).current_dir(self.0.path()).stdin(std::fs::File::open(self.path(input)).unwrap());
        Run::of(command.output().unwrap())
    }

    /// Runs what must be refused: code 2, nothing on stdout, one line on stderr.
    fn refused(&self, line: &str, words: &str) {
        let run = self.run(line);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{line}: {}", run.err);
        assert!(run.err.starts_with("error: ") && run.err.contains(words), "{line}: {}", run.err);
        assert!(run.err.lines().count() == 1 || run.err.contains("--help"), "{line}: {}", run.err);
    }

    fn json(&self, line: &str) -> (i32, serde_json::Value) {
        let run = self.run(line);
        (run.code, serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{line}: {e}: {} {}", run.out, run.err)))
    }
}

fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn npy_f32(values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy("<f4", "False", &format!("({},)", values.len()), &data)
}

fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert((*name).to_owned(), serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend(bytes);
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

#[test]
fn usage_goes_by_the_book() {
    let folder = Folder::new();
    for (line, code, words) in [
        ("--help", 0, "Exit codes: 0 pass, 1 mismatch, 2 no verdict"),
        ("--version", 0, "hipverify "),
        ("compare --help", 0, "Element i passes when"),
        ("check gemm --help", 0, "hipverify check gemm a.npy b.npy result.npy --arch gfx90a"),
        ("check conv --help", 0, "hipverify check conv input.npy filter.npy result.npy --param 2,1,2,16,4,3,3,8,8,1,1,1,1,1,1,1,1"),
        ("check conv --help", 0, "[default: gnhwc,gkyxc,gnhwk"),
        ("compare --help", 0, "at most 64"),
        ("fill --help", 0, "uniform:MIN,MAX"),
        ("", 2, "Usage: hipverify <COMMAND>"),
        ("nonsense", 2, "unrecognized subcommand 'nonsense'"),
        ("compare a.npy", 2, "compare takes RESULT and REFERENCE"),
        ("compare", 2, "<FILE>"),
        ("compare a b --bogus", 2, "unexpected argument '--bogus'"),
        ("compare a b --rtol x", 2, "invalid value 'x' for '--rtol <X>'"),
        ("compare a b --rtol 1 --profile torch", 2, "cannot be used with"),
    ] {
        let run = folder.run(line);
        let (shown, silent) = if code == 0 { (&run.out, &run.err) } else { (&run.err, &run.out) };
        assert_eq!(run.code, code, "{line}: {}{}", run.out, run.err);
        assert!(shown.contains(words) && silent.is_empty(), "{line}: {}{}", run.out, run.err);
    }
}

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
fn the_demo_shows_both_verdicts_and_leaves_its_files() {
    let folder = Folder::new();
    let run = folder.run("demo");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(run.out.contains("PASS  98,304 elements agree") && run.out.contains("FAIL  3 of 98,304 elements differ"), "{}", run.out);
    assert_eq!(folder.run("compare hipverify-demo/wrong.npy hipverify-demo/reference.npy").code, 1);
    folder.put("file", b"");
    folder.refused("demo file/below", "file/below");
    for name in ["reference.npy", "right.npy", "wrong.npy"] {
        std::fs::create_dir(folder.path("own")).unwrap();
        folder.put(&format!("own/{name}"), b"my own");
        folder.refused("demo own", &format!("own/{name}: is there already, and the demo writes over no file"));
        let left: Vec<_> = std::fs::read_dir(folder.path("own")).unwrap().collect();
        assert!(left.len() == 1 && std::fs::read(folder.path(&format!("own/{name}"))).unwrap() == b"my own", "{name}");
        std::fs::remove_dir_all(folder.path("own")).unwrap();
    }
}

#[test]
fn every_bad_input_is_told_clearly() {
    let folder = Folder::new();
    let good = npy_f32(&[1.0, 2.0, 3.0]);
    folder.put("good.npy", &good);
    folder.put("short.npy", &good[..good.len() - 1]);
    folder.put("header.npy", &good[..20]);
    folder.put("magic.npy", b"\x93NUMPZ and so on");
    folder.put("two.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("empty.npy", &npy_f32(&[]));
    folder.put("rules.toml", b"[[rule]]\natoll = 1");
    folder.put("dates.npy", &npy("<M8[s]", "False", "(3,)", &[0; 24]));
    folder.put("complex.npy", &npy("<c8", "False", "(1,)", &[0; 8]));
    folder.put("text.npy", &npy("<U3", "False", "(1,)", &[0; 12]));
    folder.put("object.npy", &npy("|O", "False", "(1,)", &[0; 9]));
    folder.put("void.npy", &npy("|V1", "False", "(3,)", &[0; 3]));
    folder.put("zip.npz", b"PK\x03\x04 and no more");
    folder.put("x.safetensors", &[255; 64]);
    folder.put("r.bin", &[0; 12]);
    folder.put("none.safetensors", &safetensors(&[]));
    folder.put("many.safetensors", &safetensors(&[("a", "F32", &[1], vec![0; 4]), ("b", "F64", &[1], vec![0; 8])]));
    folder.put("mask.safetensors", &safetensors(&[("mask", "I128", &[1], vec![0; 16])]));
    for (line, words) in [
        ("compare absent.npy good.npy", "absent.npy: No such file"),
        ("compare . good.npy", "good.npy has one without a name; choose one with --tensor"),
        ("compare short.npy good.npy", "short.npy: truncated: shape [3] of 4-byte elements takes 12 bytes, the file holds 11"),
        ("compare header.npy good.npy", "header.npy: truncated: the header needs"),
        ("compare magic.npy good.npy", "magic.npy: not an .npy file: it starts with \\x93NUMPZ"),
        ("compare zip.npz good.npy", "zip.npz: not a readable zip archive"),
        ("compare x.safetensors good.npy", "x.safetensors: not a .safetensors file: the header claims"),
        ("compare two.npy good.npy", "two.npy against good.npy"),
        ("compare two.npy good.npy", "shape [2] does not match [3]"),
        ("compare empty.npy empty.npy", "comparison of nothing is not a pass"),
        ("compare dates.npy good.npy", "dtype '<M8[s]' (time) is not supported"),
        ("compare complex.npy good.npy", "complex.npy against good.npy: shape [1, 2] does not match [3]"),
        ("compare text.npy good.npy", "dtype '<U3' (text) is not supported"),
        ("compare object.npy good.npy", "dtype '|O' (Python objects) is not supported"),
        ("compare - -", "standard input can be read once"),
        ("compare good.npy good.npy --rule w", "GLOB:KEY=VALUE is wanted"),
        ("compare good.npy good.npy --rules rules.toml", "rules.toml: line 2: unknown key `atoll`; did you mean `atol`?"),
        ("compare good.npy good.npy --rules absent.toml", "absent.toml: No such file"),
        ("compare good.npy good.npy --baseline good.npy", "--baseline is for profile flash-attention"),
        (
            "compare good.npy good.npy --profile flash-attention --baseline empty.npy",
            "the baseline, empty.npy: the result: shape [0] does not match [3]",
        ),
        ("compare good.npy good.npy --allowed-share 2", "a share is between 0 and 1"),
        ("compare good.npy good.npy --max-memory 1X", "unit `X`; known: K M G T"),
        ("inspect /dev/zero --dtype f32 --shape 4", "takes 16 bytes, the file holds 17"),
        ("inspect /dev/zero", "raw data need --dtype and --shape"),
        ("compare void.npy good.npy", "name it with --dtype, such as f8e4m3"),
        ("compare void.npy good.npy --dtype f8e4m3", "good.npy: has no elements of the width of f8e4m3; it holds f32"),
        ("compare mask.safetensors mask.safetensors", "tensor `mask`: dtype I128 is not supported"),
        ("compare none.safetensors none.safetensors", "nothing to compare"),
        ("compare good.npy good.npy --dtype f99", "unknown dtype `f99`"),
        ("compare good.npy good.npy --dtype f32,f32,f32", "--dtype has 3 values for 2 files"),
        ("compare r.bin good.npy", "raw data need --dtype and --shape"),
        ("compare r.bin r.bin --dtype f32 --shape 4", "shape [4] of f32 takes 16 bytes, the file holds 12"),
        ("compare r.bin r.bin --dtype f32 --shape 3,x", "extent ``"),
        ("compare r.bin r.bin --dtype f32 --shape 99999999999,99999999999", "overflows"),
        ("compare good.npy good.npy --shape 3", "--shape is for raw files"),
        ("compare good.npy good.npy --rtol -1", "error: rtol cannot be -1: a tolerance is a finite number, 0 or larger"),
        ("compare good.npy good.npy --atol nan", "atol cannot be NaN: "),
        ("compare good.npy good.npy --rtol inf", "rtol cannot be inf: "),
        ("compare good.npy good.npy --thresholds 1,2", "--thresholds has 2 numbers"),
        ("compare good.npy good.npy --thresholds 1,-2,3", "absolute threshold cannot be -2: a threshold is 0 or larger"),
        ("compare good.npy good.npy --profile pytorch", "known: ck ck-2026 torch numpy"),
        ("compare good.npy good.npy --profile flash-attention", "needs the largest error of a baseline"),
        ("tolerance --profile paddle --operation sums", "known: copy arithmetic"),
        ("tolerance --profile flash-attention --baseline-error -1", "a number from 0 is wanted"),
        ("compare good.npy good.npy --rule *:profile=flash-attention,baseline_error=-1", "baseline_error: a number from 0 is wanted"),
        ("compare good.npy good.npy --earlier two.npy", "error: two.npy: the earlier output: shape [2] does not match [3]"),
        ("tolerance --profile paddle --range 1", "--range has 1 numbers"),
        ("tolerance --profile paddle --range 1,0", "the first number is the smaller one"),
        ("tolerance --profile paddle --gradient", "judges gradients by the kind of operation"),
        ("tolerance --profile ck --range 0,1", "profile ck does not depend on --range"),
        ("tolerance --profile torch --accumulations 100", "profile torch does not depend on --accumulations"),
        ("tolerance --profile hipdnn --operation sum", "profile hipdnn does not depend on --operation"),
        ("tolerance --profile ck --gradient", "profile ck does not depend on --gradient"),
        ("tolerance --profile ck --baseline-error 1", "profile ck does not depend on --baseline-error"),
        ("compare good.npy good.npy --profile torch --accumulations 100", "profile torch does not depend on --accumulations"),
        ("compare good.npy good.npy --rule *:profile=torch,accumulations=9", "profile torch does not depend on accumulations"),
        ("compare r.bin r.bin --dtype f32 --shape=", "no extent is given; `[]` is a scalar"),
        ("golden record g.toml good.npy --arch=", "--arch: an empty name is none of an architecture"),
        ("compare good.npy good.npy --device gpu:99", "no gpu:99 device"),
        ("compare good.npy good.npy --device tpu", "device cannot be tpu: "),
        ("compare good.npy good.npy --first 65", "at most 64 are listed"),
        ("compare good.npy good.npy --first -1", "a whole number from 0 is wanted"),
        ("compare good.npy good.npy --accumulations -1", "a whole number from 0 is wanted"),
        ("compare many.safetensors many.safetensors --dtype f16", "has no elements of the width of f16; it holds f32, f64"),
        ("fill x.npy --dtype f32 --shape -1,2", "extent `-1` is not a whole number from 0"),
        ("fill x.npy --dtype f32 --shape 4 --seed -1", "a whole number from 0 is wanted"),
        ("fill x.npy --dtype f32 --shape 4 --stream -1", "-1 is not in 0..=4294967295"),
        ("fill x.npy --dtype f32 --shape 4 --gen -1,1", "unknown pattern `-1,1`"),
        ("fill x.npy --dtype f32 --shape 4 --seed 1 --gen sin/seed=1", "--seed 1 and /seed= of --gen: give one of them"),
        ("fill x.npy --dtype f32 --shape 4 --stream 1 --gen sin/stream=2", "--stream 1 and /stream= of --gen: give one of them"),
        ("tolerance --profile ck --accumulations -4", "a whole number from 0 is wanted"),
        ("tolerance --profile paddle --range -1,-2", "the first number is the smaller one"),
        ("compare good.npy good.npy --junit no/such/folder.xml", "no/such/folder.xml"),
        ("compare good.npy good.npy --tensor w", "--tensor w: no tensor of good.npy, good.npy has a name"),
        ("inspect good.npy --tensor w", "--tensor w: no tensor of good.npy has a name"),
        ("inspect absent.npy", "absent.npy: No such file"),
        ("inspect mask.safetensors --tensor other", "no tensor `other`; there are: mask"),
        (
            "fill x.npy --dtype bf16 --shape 4",
            "npy format has no name for bf16; it has: f64 f32 f16 i8 u8 i16 i32 i64 bool u16 u32 u64; write .safetensors",
        ),
        ("fill x.npy --dtype f32 --shape 4 --gen nonsense", "unknown pattern `nonsense`"),
        ("fill x.npy --dtype f32 --shape 4 --gen uniform:2,1", "its first end must not exceed its second"),
        ("fill x.npy --dtype f16 --shape 4 --gen uniform:0,1e9", "f16 holds numbers from"),
        ("fill x.npy --dtype u8 --shape 4", "u8 holds numbers from 0 to 255; `--gen int:0,255` fits u8"),
        ("fill x.npy --dtype bool --shape 4", "`--gen int:0,1` fits bool"),
        ("fill x.raw --dtype f8e8m0 --shape 4", "`--gen int:1,2` fits f8e8m0"),
        ("fill x.txt --dtype f32 --shape 4", "x.txt: `txt` names no format to write"),
        ("fill no/such/x.npy --dtype f32 --shape 4", "no/such/x.npy"),
    ] {
        let run = folder.run(line);
        assert_eq!((run.code, run.err.starts_with("error: ")), (2, true), "{line}: {}{}", run.out, run.err);
        assert!(run.err.contains(words), "{line}: {}", run.err);
    }
    folder.refused("compare two.npy good.npy", "shape [2]");
    folder.refused("compare empty.npy empty.npy", "empty.npy against empty.npy: no elements; a comparison of nothing is not a pass");
    assert!(!Path::new(&folder.path("x.npy")).exists(), "nothing is left of a failed fill");
}

#[test]
fn byte_order_and_fortran_order_do_not_matter() {
    let folder = Folder::new();
    let value = |row: usize, column: usize| (row * 10 + column) as f64 + 0.5;
    let by_rows: Vec<f64> = (0..12).map(|i| value(i / 4, i % 4)).collect();
    let by_columns: Vec<f64> = (0..12).map(|i| value(i % 3, i / 3)).collect();
    let little: Vec<u8> = by_rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = by_rows.iter().flat_map(|v| v.to_be_bytes()).collect();
    let fortran: Vec<u8> = by_columns.iter().flat_map(|v| v.to_le_bytes()).collect();
    let both: Vec<u8> = by_columns.iter().flat_map(|v| v.to_be_bytes()).collect();
    let half: Vec<u8> = by_columns.iter().flat_map(|&v| half::f16::from_f64(v).to_be_bytes()).collect();
    folder.put("reference.npy", &npy("<f8", "False", "(3, 4)", &little));
    for (name, file) in [
        ("big.npy", npy(">f8", "False", "(3, 4)", &big)),
        ("fortran.npy", npy("<f8", "True", "(3, 4)", &fortran)),
        ("both.npy", npy(">f8", "True", "(3, 4)", &both)),
        ("half.npy", npy(">f2", "True", "(3, 4)", &half)),
    ] {
        folder.put(name, &file);
        let run = folder.run(&format!("compare {name} reference.npy --rtol 0 --atol 0"));
        assert_eq!(run.code, 0, "{name}: {}{}", run.out, run.err);
    }
    folder.put("wrong.npy", &npy("<f8", "False", "(3, 4)", &fortran));
    assert_eq!(folder.run("compare wrong.npy reference.npy").code, 1, "the test can fail");
}

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

/// Values that differ are never printed alike.
#[test]
fn values_that_differ_look_different() {
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[1.0, 123_456.79]));
    folder.put("a.npy", &npy_f32(&[1.0f32.next_up(), 123_456.79f32.next_down()]));
    let run = folder.run("compare a.npy r.npy --rtol 0");
    assert!(run.out.contains("result 1.0000001   ") && run.out.contains("reference 1   "), "{}", run.out);
    let pairs = run.out.lines().filter_map(|l| l.split_once("   result ")?.1.split_once("   reference "));
    assert!(pairs.clone().count() > 2, "{}", run.out);
    for (result, rest) in pairs {
        assert_ne!(Some(result.trim()), rest.split_whitespace().next(), "{}", run.out);
    }
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

#[test]
fn tensors_are_matched_by_name() {
    let folder = Folder::new();
    let reference = safetensors(&[
        ("bias", "F32", &[2], f32s(&[1.0, 2.0])),
        ("weight", "F32", &[2, 2], f32s(&[1.0, 2.0, 3.0, 4.0])),
        ("gone", "F32", &[1], f32s(&[0.5])),
    ]);
    let result = safetensors(&[
        ("weight", "F32", &[2, 2], f32s(&[1.0, 2.0, 3.0, 5.0])),
        ("bias", "F32", &[2], f32s(&[1.0, 2.0])),
        ("new", "F32", &[1], f32s(&[0.5])),
    ]);
    folder.put("r.safetensors", &reference);
    folder.put("a.safetensors", &result);
    assert_eq!(folder.run("compare r.safetensors r.safetensors").code, 0);
    let run = folder.run("compare a.safetensors r.safetensors");
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    let starts = |prefix: &str| run.out.lines().any(|l| l.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(prefix));
    for line in [
        "PASS bias f32 [2] 0 0 %",
        "FAIL weight f32 [2,2] 1 25 % 1 0.25",
        "FAIL gone only in r.safetensors",
        "FAIL new only in a.safetensors",
        "FAIL 1 of 4 tensors agree, 1 differ, 1 only in r.safetensors, 1 only in a.safetensors",
    ] {
        assert!(starts(line), "{line} in:\n{}", run.out);
    }
    assert_eq!(folder.run("compare a.safetensors r.safetensors --tensor bias").code, 0);
    assert_eq!(folder.run("compare a.safetensors r.safetensors --tensor new --reference-tensor gone").code, 0);
    folder.put("w.npy", &npy("<f4", "False", "(2, 2)", &f32s(&[1.0, 2.0, 3.0, 4.0])));
    folder.refused("compare w.npy r.safetensors", "choose one with --tensor");
    assert_eq!(folder.run("compare w.npy r.safetensors --tensor weight").code, 0);
    folder.put("shape.safetensors", &safetensors(&[("bias", "F32", &[1], f32s(&[1.0])), ("weight", "F32", &[4], f32s(&[1.0; 4]))]));
    let run = folder.run("compare shape.safetensors r.safetensors");
    assert_eq!(run.code, 2, "no verdict outweighs a mismatch: {}", run.out);
    assert!(run.out.contains("shape [4] does not match [2, 2]"), "{}", run.out);
}

#[test]
fn archives_of_arrays_compare_too() {
    use std::io::Write;
    let folder = Folder::new();
    for (name, method) in [("s.npz", zip::CompressionMethod::Stored), ("d.npz", zip::CompressionMethod::Deflated)] {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (member, values) in [("x", [1.0, 2.0]), ("y", [3.0, 4.0])] {
            let options = zip::write::SimpleFileOptions::default().compression_method(method);
            zip.start_file(format!("{member}.npy"), options).unwrap();
            zip.write_all(&npy_f32(&values)).unwrap();
        }
        folder.put(name, &zip.finish().unwrap().into_inner());
    }
    let run = folder.run("compare s.npz d.npz --rtol 0");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("PASS  2 of 2 tensors agree"), "{}", run.out);
}

/// A tensor that cannot be read is an error of its own, with the others compared and listed.
#[test]
fn one_tensor_that_cannot_be_read_is_one_row() {
    use std::io::Write;
    let folder = Folder::new();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (member, file) in [("mask.npy", npy("<M8[s]", "False", "(4,)", &[0; 32])), ("w.npy", npy_f32(&[1.0, 2.0]))] {
        zip.start_file(member, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&file).unwrap();
    }
    folder.put("x.npz", &zip.finish().unwrap().into_inner());
    let tensors = [("mask", "I128", &[2][..], vec![0; 32]), ("new", "F99", &[3], vec![0; 7]), ("w", "F32", &[2], f32s(&[1.0, 2.0]))];
    folder.put("x.safetensors", &safetensors(&tensors));
    for (file, rows) in [
        ("x.npz", &[("ERROR", "mask", "dtype '<M8[s]' (time) is not supported"), ("PASS", "w", " [2] ")][..]),
        (
            "x.safetensors",
            &[("ERROR", "mask", "dtype I128 is not supported"), ("ERROR", "new", "dtype F99 is not supported"), ("PASS", "w", " [2] ")],
        ),
    ] {
        let run = folder.run(&format!("compare {file} {file}"));
        assert_eq!((run.code, run.err.as_str()), (2, ""), "{file}: {}", run.out);
        let inspected = folder.run(&format!("inspect {file}"));
        assert_eq!((inspected.code, inspected.err.as_str()), (2, ""), "{file}: {}", inspected.out);
        for (verdict, name, words) in rows {
            let has = |run: &Run, start: &str| run.lines().iter().any(|l| l.starts_with(start) && l.contains(words));
            assert!(
                has(&run, &format!("{verdict} {name} ")) && has(&inspected, &format!("{name} ")),
                "{name}: {}{}",
                run.out,
                inspected.out
            );
        }
        let (_, json) = folder.json(&format!("inspect {file} --json"));
        let last = &json["tensors"][rows.len() - 1];
        assert_eq!(
            (json["tensors"].as_array().unwrap().len(), &last["max"]["value"], &last["error"]),
            (rows.len(), &2.0.into(), &().into())
        );
        assert!(json["tensors"][0]["error"].as_str().unwrap().contains("is not supported"), "{json}");
        assert_eq!(folder.run(&format!("compare {file} {file} --exclude mask --exclude new")).code, 0, "what is not wanted is not read");
        assert_eq!(folder.run(&format!("inspect {file} --include w*")).code, 0);
    }
}

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

#[test]
fn names_choose_tensors_and_tolerances() {
    let folder = Folder::new();
    let tensors = |v: f32| {
        let one = |name| (name, "F32", &[2][..], f32s(&[v, 1.0]));
        safetensors(&[one("a.bias"), one("a.weight"), one("b.bias"), ("none", "F32", &[0, 4], vec![])])
    };
    folder.put("r.safetensors", &tensors(2.0));
    folder.put("x.safetensors", &tensors(2.25));
    folder.put("b.safetensors", &tensors(2.125));
    folder.put("far.safetensors", &tensors(20.0));
    folder.put("one.safetensors", &safetensors(&[("a.bias", "F32", &[2], f32s(&[2.125, 1.0]))]));
    folder.put("rules.toml", b"[[rule]]\nname = 'a.*'\natol = 0.25\n\n[[rule]]\ndtype = 'f32'\nmax_rel = 0.125\n");
    for (flags, code, rows, reason) in [
        ("", 1, 4, "all, with a tensor without elements, which equals itself"),
        ("--include *.bias", 1, 2, "one pattern"),
        ("--include *.bias --include *.weight --exclude b.*", 1, 2, "patterns add up, exclusion is stronger"),
        ("--include a.* --rule *.bias:atol=0.5 --rule *:rtol=0.2", 0, 2, "a rule for each"),
        ("--include a.* --rule *.bias:atol=0.1 --rule *:rtol=0.2", 1, 2, "the first that matches counts"),
        ("--include a.* --atol 0.5 --rule *.bias:profile=torch", 1, 2, "a rule outweighs the flags"),
        ("--atol 0.5 --exclude none", 0, 3, "the flags alone"),
        ("--exclude none --rules rules.toml", 0, 3, "rules of a file"),
        ("--exclude none --rules rules.toml --rule b.*:atol=0", 1, 3, "those of flags come first"),
        ("--exclude none --allowed-share 0.5 --rtol 0", 0, 3, "half of the elements may differ"),
        ("--exclude none --allowed-share 0.49 --rtol 0", 1, 3, "no half of two elements"),
        ("--exclude none --allowed-count 1 --rtol 0", 0, 3, "one may differ"),
        ("--exclude none --relative-l1 0.09", 0, 3, "a norm above 0.25 / 3"),
        ("--exclude none --relative-l1 0.08", 1, 3, "a norm below it"),
        ("--exclude none --relative-l2 0.11", 1, 3, "a norm below 0.25 / sqrt(5)"),
        ("--exclude none --max-eps 1048576", 0, 3, "0.25 at 2 are 2^20 spacings"),
        ("--exclude none --max-eps 1048575", 1, 3, "one less"),
        ("--exclude none --max-rel-old 0.125", 0, 3, "0.25 of 2"),
        ("--exclude none --rule *:max_rel_old=0.12,max_eps=1e9", 1, 3, "each metric has a threshold"),
        ("--exclude none --rule *:max_eps=inf,rms=10", 3, 3, "zeros would pass as well"),
        ("--exclude none --rule *:profile=paddle,gradient=true,operation=arithmetic", 2, 3, "a profile that lacks the format"),
        ("--exclude none --profile flash-attention --baseline b.safetensors", 0, 3, "half as wrong, twice that allowed"),
        ("--exclude none --profile flash-attention --baseline r.safetensors", 1, 3, "a baseline without error"),
        ("--exclude none --atol 0.5 --earlier r.safetensors", 3, 3, "an earlier output that would pass"),
        ("--exclude none --atol 0.5 --earlier far.safetensors", 0, 3, "one that would not"),
        ("--exclude none --profile flash-attention --baseline one.safetensors", 2, 3, "no baseline for two of three"),
        ("--include none", 2, 0, "nothing but nothing is no pass"),
        ("--include nobody", 2, 0, "no tensor"),
    ] {
        let (found, json) = folder.json(&format!("compare x.safetensors r.safetensors --json {flags}"));
        assert_eq!((found, json["tensors"].as_array().unwrap().len()), (code, rows), "{flags}: {reason}: {json}");
    }
    folder.run("fill h.npy --dtype f16 --shape 8,8");
    let run = folder.run("compare h.npy h.npy --rule *:profile=paddle,gradient=true,operation=arithmetic");
    assert_eq!(run.code, 0, "a profile that has no limits for f32: {}{}", run.out, run.err);
    let run = folder.run("compare x.safetensors r.safetensors --atol 0.5");
    assert!(run.code == 0 && run.lines().iter().any(|l| l == "PASS none no elements"), "{}", run.out);
}

/// Folders are compared as files are; an index of shards is the file that they make.
#[test]
fn folders_compare_by_the_names_of_their_files() {
    let folder = Folder::new();
    for side in ["x", "r"] {
        std::fs::create_dir_all(folder.path(&format!("{side}/layer"))).unwrap();
        folder.put(&format!("{side}/layer/w.npy"), &npy_f32(&[1.0, 2.0]));
        folder.put(&format!("{side}/b.safetensors"), &safetensors(&[("b", "F32", &[1], f32s(&[3.0]))]));
    }
    folder.put("x/new.npy", &npy_f32(&[1.0]));
    let run = folder.run("compare x r");
    let lines = run.lines();
    for row in ["PASS b/b f32 [1]", "PASS layer/w f32 [2]", "FAIL new only in x/new.npy", "FAIL 2 of 3 tensors agree, 1 only in x"] {
        assert!(run.code == 1 && lines.iter().any(|l| l.starts_with(row)), "{row}: {}{}", run.out, run.err);
    }
    assert_eq!(folder.run("compare x r --exclude new").code, 0);
    folder.put("r/m.safetensors.index.json", br#"{"weight_map":{"b":"b.safetensors"}}"#);
    let run = folder.run("compare x/b.safetensors r");
    assert!(run.code == 1 && run.lines().iter().any(|l| l.starts_with("FAIL layer/w only in r/layer/w.npy")), "{}{}", run.out, run.err);
    assert_eq!(folder.run("compare x/b.safetensors r --exclude layer/*").code, 0);
}

/// A list of files is compared as one file: tensors are matched by name, whichever file of a side has them.
#[test]
fn lists_of_files_compare_by_the_names_of_all_their_tensors() {
    let folder = Folder::new();
    let tensor = |name: &'static str, x: f32| (name, "F32", &[1][..], f32s(&[x]));
    folder.put("x1.safetensors", &safetensors(&[tensor("a", 1.0), tensor("b", 2.0)]));
    folder.put("x2.safetensors", &safetensors(&[tensor("c", 3.0)]));
    folder.put("r1.safetensors", &safetensors(&[tensor("a", 1.0)]));
    folder.put("r2.safetensors", &safetensors(&[tensor("b", 2.0), tensor("c", 3.0)]));
    std::fs::create_dir(folder.path("bias")).unwrap();
    folder.put("bias/d.npy", &npy_f32(&[4.0]));
    folder.put("d.npy", &npy_f32(&[4.0]));
    let run = folder.run("compare x1.safetensors x2.safetensors d.npy --reference r2.safetensors bias/d.npy r1.safetensors --rtol 0");
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let rows: Vec<String> = run.lines().iter().filter_map(|l| l.split(' ').nth(1).map(str::to_owned)).take(5).collect();
    assert_eq!(rows, ["dtype", "b", "c", "d", "a"], "in the order of the references: {}", run.out);

    // What only one side has, with its file; the summary names the sides.
    let run = folder.run("compare x1.safetensors x2.safetensors --reference r1.safetensors bias/d.npy --rtol 0");
    let lines = run.lines();
    for row in [
        "PASS a f32 [1]",
        "FAIL d only in bias/d.npy",
        "FAIL b only in x1.safetensors",
        "FAIL c only in x2.safetensors",
        "FAIL 1 of 4 tensors agree, 1 only in r1.safetensors and 1 more file, 2 only in x1.safetensors and 1 more file",
    ] {
        assert!(run.code == 1 && lines.iter().any(|l| l.starts_with(row)), "{row}: {}{}", run.out, run.err);
    }

    let (code, json) = folder.json("compare x1.safetensors x2.safetensors --reference r1.safetensors --json");
    assert_eq!((code, json["results"][1].as_str(), json.get("references")), (1, Some("x2.safetensors"), None), "{json}");
    let schema: serde_json::Value = serde_json::from_str(include_str!("../docs/compare.schema.json")).unwrap();
    conforms(&json, &schema, "several files");
    assert_eq!(folder.run("compare x1.safetensors x2.safetensors --reference r1.safetensors r2.safetensors --tensor c").code, 0);
    assert_eq!(folder.run("compare x1.safetensors x2.safetensors --reference r1.safetensors r2.safetensors --include c").code, 0);
    let run = folder.run("compare x1.safetensors x2.safetensors --reference x2.safetensors x1.safetensors");
    assert!(run.code == 0 && run.out.contains("2 files are among the results and among the references"), "{}", run.out);

    folder.refused(
        "compare x1.safetensors x1.safetensors --reference r1.safetensors",
        "x1.safetensors and 1 more file: two tensors are called `a`, both in x1.safetensors",
    );
    folder.refused("compare d.npy bias/d.npy --reference r1.safetensors", "two tensors are called `d`, one in d.npy, one in bias/d.npy");
    folder.refused("compare x1.safetensors x2.safetensors --reference r1.safetensors --tensor q", "no tensor `q`; there are: a, b, c");
    folder.refused("compare x1.safetensors none.npy --reference r1.safetensors", "none.npy");
    folder.refused("compare - x1.safetensors --reference -", "standard input can be read once");
    folder.refused("compare x1.safetensors", "1 file is given; compare takes RESULT and REFERENCE");
    folder.refused("compare x1.safetensors x2.safetensors r1.safetensors", "3 files are given");
    folder.refused("compare x1.safetensors x2.safetensors --reference r1.safetensors --junit r1.safetensors", "read by this command");
}

/// An archive of 4 MB that claims 4 GiB takes no more memory than it may.
#[test]
fn a_bomb_is_refused_in_little_memory() {
    use std::io::Write;
    let folder = Folder::new();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(folder.path("bomb.npz")).unwrap());
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    zip.start_file("x.npy", options).unwrap();
    zip.write_all(&npy("<f4", "False", "(16777216,)", &[0; 64 << 20])).unwrap();
    zip.finish().unwrap();
    let run = folder.run("compare bomb.npz bomb.npz --max-memory 32M");
    assert!(run.code == 2 && run.err.contains("67108864 bytes to inflate, more than 33554432"), "{}{}", run.out, run.err);
    folder.put("r.npy", &npy_f32(&[1.0]));
    let run = folder.run("compare bomb.npz r.npy");
    assert!(run.code == 2 && run.err.contains("shape [16777216] does not match [1]"), "nothing is inflated for that: {}", run.err);
}

#[test]
fn truth_values_and_unsigned_integers_are_numbers() {
    let folder = Folder::new();
    let words = |x: &[u64], bytes: usize| x.iter().flat_map(|v| v.to_le_bytes()[..bytes].to_vec()).collect::<Vec<u8>>();
    for (descr, label, bytes, result, reference, text, reason) in [
        ("|b1", "BOOL", 1, [0, 1, 2, 255], [0, 1, 1, 1], "PASS  4 elements agree   bool[4]", "any byte but 0 is true"),
        ("|b1", "BOOL", 1, [0, 1, 0, 1], [0, 9, 9, 9], "[2]   result 0   reference 1", "false is not true"),
        ("<u2", "U16", 2, [0, 1, 2, 65535], [0, 1, 2, 65534], "[3]   result 65535   reference 65534", "no sign"),
        ("<u4", "U32", 4, [0, 1, 2, 0xffff_ffff], [0, 1, 2, 0xffff_fffe], "[3]   result 4294967295   reference 4294967294", "exact"),
        (
            "<u8",
            "U64",
            8,
            [0, 1, 2, u64::MAX],
            [0, 1, 2, u64::MAX - 1],
            "[3]   result 18446744073709551615   reference 18446744073709551614",
            "exact",
        ),
    ] {
        for (name, x) in [("a", result), ("r", reference)] {
            folder.put(&format!("{name}.npy"), &npy(descr, "False", "(4,)", &words(&x, bytes)));
            folder.put(&format!("{name}.safetensors"), &safetensors(&[("x", label, &[4], words(&x, bytes))]));
        }
        for files in ["a.npy r.npy", "a.safetensors r.safetensors", "a.npy r.safetensors"] {
            let run = folder.run(&format!("compare {files}"));
            assert!(run.out.contains(text), "{files}, {descr}: {reason}: {}{}", run.out, run.err);
        }
    }
}

#[test]
fn json_has_the_whole_verdict() {
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[1.0, 2.0, 4.0, 0.0]));
    folder.put("a.npy", &npy_f32(&[1.0, 2.5, 4.0, f32::NAN]));
    let (code, v) = folder.json("compare a.npy r.npy --rtol 1e-3 --histogram --json");
    assert_eq!((code, &v["passed"], &v["result"], &v["reference"]), (1, &false.into(), &"a.npy".into(), &"r.npy".into()));
    let entry = &v["tensors"][0];
    let report = &entry["report"];
    assert_eq!((&entry["verdict"], &report["mismatches"], &report["elements"]), (&"fail".into(), &2.into(), &4.into()));
    assert_eq!((&report["result_dtype"], &report["first"][0]["index"]), (&"f32".into(), &1.into()));
    assert_eq!(report["worst_absolute"]["value"], 0.5);
    assert!(report["histograms"].is_object() && report["metrics"]["rms"].is_number(), "{report}");
    assert!(report["metrics"]["snr"].is_number() && report["metrics"]["similarity"].is_null(), "{report}");
    let (code, v) = folder.json("compare r.npy r.npy --json --cosine");
    assert_eq!((code, &v["passed"], &v["tensors"][0]["verdict"]), (0, &true.into(), &"pass".into()));
    let metrics = &v["tensors"][0]["report"]["metrics"];
    assert_eq!((&metrics["snr"], &metrics["similarity"]["cosine"]), (&"inf".into(), &1.0.into()));
    let run = folder.run("compare a.npy r.npy --cosine");
    assert!(run.out.contains("cosine     0.9956382") && run.out.contains("1 - cosine 0.00436"), "{}", run.out);
}

/// Whether a value has the type that a schema says, and those below it theirs; an object has what is required, and nothing that the schema does not know.
fn has_type(value: &serde_json::Value, schema: &serde_json::Value, root: &serde_json::Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        return has_type(value, root.pointer(&reference[1..]).unwrap(), root, at);
    }
    let kind = match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "boolean",
        serde_json::Value::Number(n) if n.is_f64() => "number",
        serde_json::Value::Number(_) => "integer",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    };
    let types: Vec<&str> = schema["type"]
        .as_array()
        .map_or_else(|| schema["type"].as_str().into_iter().collect(), |all| all.iter().filter_map(|t| t.as_str()).collect());
    let fits = types.is_empty() || types.contains(&kind) || kind == "integer" && types.contains(&"number");
    assert!(fits && schema["enum"].as_array().is_none_or(|all| all.contains(value)), "{at}: {value} is none of {schema}");
    value.as_array().into_iter().flatten().for_each(|item| has_type(item, &schema["items"], root, at));
    if let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, value) in object {
            has_type(
                value,
                properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not in the schema")),
                root,
                &format!("{at}.{name}"),
            );
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
            assert!(object.contains_key(name), "{at} lacks {name}");
        }
    }
}

/// The policy on pairs that are not finite is that of the tensor's rule; the budget is that of the screen; and the schema knows every number.
#[test]
fn reports_are_as_their_schema_says() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../docs/compare.schema.json")).unwrap();
    let folder = Folder::new();
    let tensors = |v: f32| {
        safetensors(&[
            ("a", "F32", &[4], f32s(&[v, 2.0, 4.0, f32::NAN])),
            ("b", "F32", &[2], f32s(&[1.0, f32::NAN])),
            ("i", "I32", &[1], vec![7, 0, 0, 0]),
        ])
    };
    folder.put("x.safetensors", &tensors(1.125));
    folder.put("r.safetensors", &tensors(1.0));
    for flags in ["", "--histogram --cosine", "--rule a:rtol=0.5,equal_nonfinite=true", "--equal-nonfinite --thresholds 1,inf,1"] {
        let (_, json) = folder.json(&format!("compare x.safetensors r.safetensors --json {flags}"));
        has_type(&json, &schema, &schema, flags);
        let policy = |tensor: usize| json["tensors"][tensor]["report"]["nonfinite"].as_str().unwrap();
        let by_rule = if flags.contains("equal_nonfinite") || flags.contains("equal-nonfinite") { "equal_when_same" } else { "fail" };
        let by_flags = if flags.contains("equal-nonfinite") { "equal_when_same" } else { "fail" };
        assert_eq!((policy(0), policy(1), json["nonfinite"].as_str()), (by_rule, by_flags, Some(by_flags)), "{flags}");
        let budgets = [0, 2].map(|tensor| &json["tensors"][tensor]["report"]["budget"]);
        assert!(budgets[0]["ratio"].as_f64().unwrap() > 1.0 && budgets[1].is_null(), "{json}");
    }
}

/// Holds an object against the schema's: no other properties, all that are required, and the values of an enumeration.
fn conforms(value: &serde_json::Value, schema: &serde_json::Value, at: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
    for name in schema["required"].as_array().unwrap() {
        assert!(object.contains_key(name.as_str().unwrap()), "{at} lacks {name}");
    }
    for (name, value) in object {
        let property = &schema["properties"][name];
        assert!(property.is_object(), "{at}: {name} is not in the schema");
        let listed = property["enum"].as_array().is_none_or(|values| values.contains(value));
        assert!(listed && (property["const"].is_null() || property["const"] == *value), "{at}: {name} is {value}");
        for item in value.as_array().filter(|_| property["items"]["type"] == "object").into_iter().flatten() {
            conforms(item, &property["items"], name);
        }
    }
}

/// Machines are told in every case, errors included; an old JUnit file never survives a run, and no file that is compared is written.
#[test]
fn machines_are_told_in_every_case() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../docs/compare.schema.json")).unwrap();
    let folder = Folder::new();
    folder.put("r.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("a.npy", &npy_f32(&[1.0, 2.5]));
    folder.put("short.npy", &npy_f32(&[1.0])[..60]);
    folder.put("x.safetensors", &safetensors(&[("b", "F32", &[1], f32s(&[1.0])), ("c", "F32", &[1], f32s(&[1.0]))]));
    folder.put("y.safetensors", &safetensors(&[("b", "F32", &[2], f32s(&[1.0; 2])), ("d", "F32", &[1], f32s(&[1.0]))]));
    for (line, code, verdict) in [
        ("r.npy r.npy", 0, "pass"),
        ("a.npy r.npy", 1, "fail"),
        ("a.npy r.npy --atol 9", 3, "untrusted"),
        ("x.safetensors y.safetensors", 2, "error"),
        ("short.npy r.npy", 2, "error"),
        ("missing.npy r.npy", 2, "error"),
        ("a.npy r.npy --device gpu:99", 2, "error"),
        ("a.npy r.npy --rtol nan", 2, "error"),
    ] {
        folder.put("out.xml", b"old");
        let (found, json) = folder.json(&format!("compare {line} --json --junit out.xml"));
        assert_eq!((found, &json["verdict"]), (code, &verdict.into()), "{line}: {json}");
        conforms(&json, &schema, line);
        let causes: Vec<_> = json["tensors"].as_array().unwrap().iter().map(|t| &t["report"]["cause"]).filter(|c| !c.is_null()).collect();
        assert_eq!(causes.len(), usize::from(verdict == "fail"), "{line}: {json}");
        let cause = &schema["properties"]["tensors"]["items"]["properties"]["report"]["properties"]["cause"];
        causes.into_iter().for_each(|found| conforms(found, cause, line));
        let junit = std::fs::read_to_string(folder.path("out.xml")).unwrap();
        let suites = quick_junit::Report::deserialize_from_str(&junit).unwrap().test_suites;
        assert_eq!(suites[0].errors > 0, code == 2, "{line}: {junit}");
    }
    folder.refused("compare a.npy r.npy --junit r.npy", "is read by this command");
    assert_eq!(folder.run("compare r.npy r.npy").code, 0, "it was not written");
    let left: Vec<_> = std::fs::read_dir(folder.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn junit_has_a_case_a_tensor_and_is_well_formed() {
    let folder = Folder::new();
    let x = safetensors(&[("<w> & \"b\"", "F32", &[1], f32s(&[1.0])), ("c", "F32", &[1], f32s(&[1.0]))]);
    let y = safetensors(&[("<w> & \"b\"", "F32", &[1], f32s(&[2.0])), ("c", "F32", &[1], f32s(&[1.0]))]);
    folder.put("x.safetensors", &x);
    folder.put("y.safetensors", &y);
    assert_eq!(folder.run("compare x.safetensors y.safetensors --junit out.xml").code, 1);
    let text = std::fs::read_to_string(folder.path("out.xml")).unwrap();
    let suites = quick_junit::Report::deserialize_from_str(&text).unwrap().test_suites;
    let [suite] = suites.as_slice() else { panic!("{text}") };
    let cases: Vec<(&str, bool)> =
        suite.test_cases.iter().map(|c| (c.name.as_str(), matches!(c.status, quick_junit::TestCaseStatus::Success { .. }))).collect();
    assert_eq!((cases.len(), suite.tests, suite.failures, suite.errors), (2, 2, 1, 0), "{text}");
    assert!(cases.contains(&("<w> & \"b\"", false)) && cases.contains(&("c", true)), "{text}");
    let message = suite.test_cases.iter().find_map(|c| match &c.status {
        quick_junit::TestCaseStatus::NonSuccess { message, .. } => message.as_ref(),
        _ => None,
    });
    assert!(message.is_some_and(|m| m.as_str().ends_with("; cause: unknown")), "one element tells nothing: {message:?}");
}

/// Names with characters that XML has not, or that differ in control characters alone: a case each, well-formed, called as on the screen. JSON has them as they are.
#[test]
fn names_are_told_to_machines_in_full() {
    let folder = Folder::new();
    let names = ["a\u{1}", "a", "b\u{ffff}", "c\nd", "c d", "e\u{7f}"];
    let tensors: Vec<_> = names.iter().map(|&name| (name, "F32", &[1][..], f32s(&[1.0]))).collect();
    folder.put("x.safetensors", &safetensors(&tensors));
    let (_, json) = folder.json("compare x.safetensors x.safetensors --json --junit out.xml");
    let mut found: Vec<&str> = json["tensors"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "a\u{1}", "b\u{ffff}", "c\nd", "c d", "e\u{7f}"]);
    let text = std::fs::read_to_string(folder.path("out.xml")).unwrap();
    let suites = quick_junit::Report::deserialize_from_str(&text).unwrap().test_suites;
    let mut found: Vec<&str> = suites[0].test_cases.iter().map(|case| case.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["a", "a\\u{1}", "b\\u{ffff}", "c d", "c\\nd", "e\\u{7f}"]);
    assert!(!text.contains('\u{ffff}'), "{text}");
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

#[test]
fn threads_do_not_show() {
    let folder = Folder::new();
    folder.run("fill x.npy --dtype f32 --shape 301,1003 --gen normal:0,1 --seed 1");
    folder.run("fill y.npy --dtype f32 --shape 301,1003 --gen normal:0,1 --seed 2");
    let outputs = ["1", "3"].map(|n| {
        let threads = [("RAYON_NUM_THREADS", n)];
        folder.run_with("fill z.npy --dtype f32 --shape 301,1003 --gen normal:0,1 --seed 1", &threads);
        assert_eq!(std::fs::read(folder.path("x.npy")).unwrap(), std::fs::read(folder.path("z.npy")).unwrap());
        let inspect = folder.run_with("inspect x.npy --json", &threads).out;
        let compare = folder.run_with("compare x.npy y.npy --histogram --device host --json", &threads).out;
        (inspect, compare.lines().filter(|l| !l.contains("\"device\"")).collect::<Vec<_>>().join("\n"))
    });
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn colour_is_for_terminals_and_whoever_asks() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0]));
    for (variables, coloured) in [(&[][..], false), (&[("CLICOLOR_FORCE", "1")][..], true), (&[("NO_COLOR", "1")][..], false)] {
        let run = folder.run_with("compare x.npy x.npy", variables);
        assert_eq!(run.out.contains('\x1b'), coloured, "{variables:?}: {}", run.out);
    }
}

#[test]
fn a_reader_that_leaves_does_not_change_the_verdict() {
    let folder = Folder::new();
    folder.put("x.npy", &npy_f32(&[1.0]));
    folder.put("y.npy", &npy_f32(&[2.0]));
    for (line, code) in [("compare x.npy x.npy", 0), ("compare x.npy y.npy", 1), ("compare x.npy y.npy --json", 1), ("demo", 0)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        command.args(line.split_whitespace()).current_dir(folder.0.path());
        let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(code), ""), "{line}");
    }
}

/// A signal that comes while a file is written ends the program as it always does, and leaves nothing behind.
#[cfg(unix)]
#[test]
fn nothing_is_left_behind_after_a_signal() {
    use std::os::unix::process::ExitStatusExt;
    let folder = Folder::new();
    let names =
        || -> Vec<String> { std::fs::read_dir(folder.path("")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect() };
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        let mut child = command
            .args("fill x.npy --dtype u8 --shape 300000000 --gen constant:1".split(' '))
            .current_dir(folder.0.path())
            .spawn()
            .unwrap();
        while names().is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "the file has to be seen while it is written");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(names()[0].starts_with(".hipverify-"), "{:?}", names());
        assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        let status = child.wait().unwrap();
        // On a busy machine the file may be complete before the signal is seen.
        match std::fs::remove_file(folder.path("x.npy")) {
            Ok(()) => assert!(status.success() || status.signal() == Some(number), "{signal}: {status}"),
            Err(_) => assert_eq!(status.signal(), Some(number), "{signal}: {status}"),
        }
        assert!(names().is_empty(), "{signal}: {:?}", names());
    }
}

#[test]
fn results_are_checked_from_their_operands() {
    let folder = Folder::new();
    for line in [
        "fill a.npy --dtype f16 --shape 32,256 --seed 1",
        "fill b.npy --dtype f16 --shape 256,32 --seed 2",
        "fill c.npy --dtype f16 --shape 32,32 --seed 3",
        "fill bias.npy --dtype f32 --shape 32 --seed 4",
        "mfma --arch gfx908 --instr f32_32x32x8f16 a.npy b.npy -o d.npy",
        // A convolution of ones: one image of 8 pixels, one channel, a filter of 3.
        "fill x.npy --dtype f16 --shape 8 --gen constant:1",
        "fill w.npy --dtype f16 --shape 3 --gen constant:1",
        "fill y.npy --dtype f16 --shape 6 --gen constant:3",
        "fill old.npy --dtype f32 --shape 32,32 --gen uniform:500,600",
        "fill ones.npy --dtype f16 --shape 32,256 --gen constant:1",
        "fill nines.npy --dtype f16 --shape 256,32 --gen constant:9",
        "fill saturated.safetensors --dtype f8e4m3 --shape 32,32 --gen constant:448",
        "fill sixties.npy --dtype f16 --shape 32,256 --gen constant:60",
        "fill largest.npy --dtype f16 --shape 32,32 --gen constant:65504",
        "fill zeros.npy --dtype f16 --shape 32,256 --gen constant:0",
        "fill zeros32.npy --dtype f32 --shape 32,32 --gen constant:0",
        "fill rows.npy --dtype f16 --shape 16,256 --seed 5",
        "fill columns.npy --dtype f16 --shape 256,8 --seed 6",
        "mfma --arch sm_90 --instr m16n8k16.f32.f16.f16.f32 rows.npy columns.npy -o hopper.npy",
        "mfma --arch sm_90 --instr m16n8k16.f16.f16.f16.f16 rows.npy columns.npy -o hopper16.npy",
        "reference gemm rows.npy columns.npy hopper_too.npy --arithmetic h100",
    ] {
        assert_eq!(folder.run(line).code, 0, "{line}");
    }
    for (line, code, words) in [
        ("gemm a.npy b.npy d.npy", 0, "k 256; f16 by f16, sums in f32"),
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
        ("gemm a.npy b.npy d.npy --arch gfx908 --split-k 2 --split-k-in f16", 0, "2 parts of k added in f16"),
        ("gemm a.npy b.npy d.npy --split-k-in bf16", 0, "sums in f32, stored in bf16"),
        ("gemm a.npy b.npy d.npy --accumulate bf16", 3, "a result of zeros would have passed"),
        ("gemm a.npy b.npy d.npy --alpha 1.01", 1, "the worst case does not explain this result either"),
        ("gemm a.npy b.npy d.npy --c c.npy --beta 0.5", 1, "FAIL"),
        ("gemm a.npy b.npy d.npy --c c.npy --beta 0 --confidence 0.9", 0, "once in 10 comparisons"),
        ("gemm a.npy b.npy d.npy --bias bias.npy", 1, "FAIL"),
        ("gemm a.npy b.npy d.npy --relu", 1, "FAIL"),
        ("gemm a.npy b.npy d.npy --freivalds", 0, "PASS  32 rows agree   by Freivalds' check with 8 vectors"),
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
        ("gemm a.npy b.npy d.npy --max-work 1000 --arch gfx908", 0, "by Freivalds' check"),
        ("gemm a.npy b.npy d.npy --freivalds 3 --alpha 1.01", 1, "FAIL  32 of 32 rows differ   by Freivalds' check with 3 vectors"),
        ("gemm a.npy b.npy d.npy --alpha 1.01", 1, "cause      alpha is missing: "),
        ("gemm a.npy b.npy d.npy --relu", 1, "cause      the last function is missing: "),
        ("gemm a.npy b.npy d.npy --c c.npy --beta 0.5", 1, "cause      C is missing: "),
        ("gemm a.npy b.npy d.npy --relu --max-work 1000", 1, "elements beyond their bounds"),
        (
            "conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --freivalds",
            0,
            "PASS  6 rows of 1 output channel agree   by Freivalds' check",
        ),
        ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --max-work 1", 0, "PASS  6 elements within their bounds"),
        ("conv y.npy w.npy x.npy --param 1,1,1,1,1,3,8,1,1,0,0 --direction bwd_data --freivalds 2", 1, "worst      g 0, n 0, w "),
        ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --arch gfx942", 0, "bit-exact  yes: gfx942 f16, channels first"),
        ("conv x.npy w.npy y.npy --param 1,1,1,1,1,3,8,1,1,0,0 --layouts ncw,kcx,nkw", 0, "convolution 1 1 1 1 1 3 8 1 1 0 0, fwd"),
        ("conv y.npy w.npy x.npy --param 1,1,1,1,1,3,8,1,1,0,0 --direction bwd_data", 1, "FAIL"),
    ] {
        let run = folder.run(&format!("check {line}"));
        assert_eq!(run.code, code, "{line}: {}{}", run.out, run.err);
        assert!(run.out.contains(words), "{line}: {}", run.out);
    }
    let (code, v) = folder.json("check gemm a.npy b.npy d.npy --arch gfx908 --json");
    assert_eq!((code, &v["verdict"], &v["passed"], &v["check"]["exactness"]["differing"]), (0, &"pass".into(), &true.into(), &0.into()));
    assert_eq!(v["check"]["report"]["histogram"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), 1024);
    let (code, v) = folder.json("check gemm a.npy b.npy d.npy --freivalds --json");
    assert_eq!((code, &v["verdict"], &v["freivalds"]["rows"]), (0, &"pass".into(), &32.into()));
    let (code, v) = folder.json("check gemm a.npy a.npy d.npy --json");
    assert_eq!((code, &v["verdict"]), (2, &"error".into()));
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

#[test]
fn completions_and_man_pages_are_those_of_the_flags() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let run = folder.run(&format!("completions {shell}"));
        assert!(
            run.code == 0 && ["compare", "equal-nonfinite", "max-memory"].iter().all(|word| run.out.contains(word)),
            "{shell}: {}",
            run.out
        );
    }
    assert_eq!(folder.run("man pages").code, 0);
    let page = std::fs::read_to_string(folder.path("pages/hipverify-compare.1")).unwrap();
    assert!(page.contains(".TH hipverify-compare 1") && page.contains("equal\\-nonfinite") && page.contains("Examples"), "{page}");
    for name in
        ["hipverify", "hipverify-suite", "hipverify-suite-run", "hipverify-check-gemm", "hipverify-golden-record", "hipverify-study-tables"]
    {
        let page = std::fs::read_to_string(folder.path(&format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    let page = std::fs::read_to_string(folder.path("pages/hipverify-suite-run.1")).unwrap();
    assert!(page.contains("hipverify suite run") && page.contains("docs/suites.md"), "{page}");
}

#[test]
fn screens_fit_narrow_terminals() {
    let folder = Folder::new();
    let name = format!("model.layers.0.{}.weight", "self_attn.".repeat(6));
    let tensors = |v: f32| {
        let values: Vec<f32> = (0..64).map(|i| i as f32 + if i % 7 == 0 { v } else { 0.0 }).collect();
        safetensors(&[(&name, "F32", &[8, 8], f32s(&values)), ("b", "F32", &[8, 8], f32s(&values))])
    };
    folder.put("x.safetensors", &tensors(0.5));
    folder.put("r.safetensors", &tensors(0.0));
    for (line, words) in [
        ("compare x.safetensors r.safetensors", "model.layers.0.self_att…f_attn.self_attn..weight"),
        ("compare x.safetensors r.safetensors --tensor b", "  would pass with"),
    ] {
        let wide = folder.run_with(line, &[("COLUMNS", "500")]);
        let narrow = folder.run_with(line, &[("COLUMNS", "100")]);
        assert!(wide.out.contains(words), "{line}: {}", wide.out);
        let longest = |run: &Run| run.out.lines().map(|l| l.chars().count()).max().unwrap();
        assert!(longest(&wide) > 100 && longest(&narrow) <= 100, "{line}: {}{}", wide.out, narrow.out);
    }
    let run = folder.run_with("compare x.safetensors r.safetensors --tensor b", &[("COLUMNS", "60")]);
    assert!(run.out.lines().all(|l| l.chars().count() <= 60), "{}", run.out);
}

/// All mismatches, the difference, and pictures of where it is.
#[test]
fn one_tensor_can_be_listed_subtracted_and_drawn() {
    let folder = Folder::new();
    let values = |step: f32| f32s(&(0..64).map(|i| i as f32 + if i % 9 == 4 { step } else { 0.0 }).collect::<Vec<_>>());
    folder.put("r.npy", &npy("<f4", "False", "(8, 8)", &values(0.0)));
    folder.put("x.npy", &npy("<f4", "False", "(8, 8)", &values(0.5)));
    let run = folder.run("compare x.npy r.npy --atol 0.25 --mismatches m.tsv --diff d.npy --heatmap h.png --map");
    assert_eq!((run.code, run.err.as_str()), (1, ""), "{}", run.out);
    let list = std::fs::read_to_string(folder.path("m.tsv")).unwrap();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[..2], ["index\tcoordinates\tresult\treference\tdifference\tratio", "4\t[0,4]\t4.5\t4.0\t0.5\t2.0"], "{list}");
    assert_eq!(lines.len(), 1 + 7, "more than are on the screen: {list}");
    assert!(std::fs::read(folder.path("h.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(run.out.contains("  0 |    +   |\n") && run.out.contains("ratio to the tolerance"), "{}", run.out);
    folder.put("half.npy", &npy("<f4", "False", "(8, 8)", &f32s(&[0.5; 64])));
    let (_, json) = folder.json("compare d.npy half.npy --atol 0 --json");
    assert_eq!(json["tensors"][0]["report"]["mismatches"], 57, "seven differences of 0.5, zeros elsewhere");
    // Where the tolerance is 0, finite numbers are infinitely far beyond it, and finite.
    let run = folder.run("compare x.npy r.npy --rtol 0 --map");
    assert!(run.out.contains("  0 |    @   |\n"), "{}", run.out);
    let run = folder.run("compare x.npy r.npy --atol 0.25 --mismatches -");
    assert_eq!((run.code, run.out.as_str()), (1, list.as_str()), "the list alone");
    folder.put("many.safetensors", &safetensors(&[("a", "F32", &[1], f32s(&[1.0])), ("b", "F32", &[1], f32s(&[1.0]))]));
    folder.put("rules.toml", b"");
    std::fs::create_dir(folder.path("tree")).unwrap();
    folder.put("tree/w.npy", &npy_f32(&[1.0]));
    std::fs::create_dir(folder.path("i")).unwrap();
    folder.put("i/m.safetensors.index.json", br#"{"weight_map":{"a":"one.safetensors"}}"#);
    folder.put("i/one.safetensors", &safetensors(&[("a", "F32", &[1], f32s(&[1.0]))]));
    for (line, words) in [
        ("x.npy r.npy --mismatches r.npy", "--mismatches r.npy: that file is read by this command"),
        ("x.npy r.npy --earlier d.npy --diff ./d.npy", "--diff ./d.npy: that file is read by this command, as d.npy"),
        ("x.npy r.npy --profile flash-attention --baseline d.npy --diff d.npy", "--diff d.npy: that file is read by this command"),
        ("x.npy r.npy --rules rules.toml --junit rules.toml", "--junit rules.toml: that file is read by this command"),
        ("tree tree --tensor w --diff tree/w.npy", "--diff tree/w.npy: that file is read by this command, as part of tree"),
        (
            "i/m.safetensors.index.json r.npy --diff i/one.safetensors",
            "--diff i/one.safetensors: that file is read by this command, as part of i/m.safetensors.index.json",
        ),
        ("- r.npy --earlier -", "several files are `-`: standard input can be read once"),
        ("x.npy r.npy --diff no/such/d.npy", "--diff no/such/d.npy: its folder is not there"),
        ("x.npy r.npy --diff tree", "--diff tree: a folder is no file"),
        ("x.npy r.npy --diff d.txt", "`txt` names no format"),
        ("x.npy r.npy --mismatches - --json", "2 outputs are for standard output"),
        ("many.safetensors many.safetensors --heatmap h.png", "--heatmap is for one tensor; choose one with --tensor"),
    ] {
        let run = folder.run(&format!("compare {line}"));
        assert!(run.code == 2 && (run.err.clone() + &run.out).contains(words), "{line}: {}{}", run.out, run.err);
    }
}

#[test]
fn rows_say_why_they_fail() {
    let folder = Folder::new();
    let tensors = |bad: &[f32]| safetensors(&[("a", "F32", &[3], f32s(bad)), ("b", "F32", &[3], f32s(&[1.0, 2.0, 3.0]))]);
    folder.put("r.safetensors", &tensors(&[1.0, f32::NAN, 2.0]));
    folder.put("x.safetensors", &tensors(&[f32::NAN, f32::NAN, f32::INFINITY]));
    let run = folder.run("compare x.safetensors r.safetensors");
    assert!(run.code == 1 && run.out.contains("not finite: result 2 NaN, 1 inf; reference 1 NaN"), "{}", run.out);
    assert_eq!(folder.run("compare r.safetensors r.safetensors --profile numpy").code, 0, "NaN equals NaN, as in NumPy");
    assert_eq!(folder.run("compare r.safetensors r.safetensors --profile torch").code, 1);
    assert_eq!(folder.run("compare x.safetensors r.safetensors --profile numpy").code, 1);
    std::fs::hard_link(folder.path("r.safetensors"), folder.path("same.safetensors")).unwrap();
    for (other, said) in [("r.safetensors", true), ("same.safetensors", true), ("x.safetensors", false)] {
        let run = folder.run(&format!("compare {other} r.safetensors"));
        assert_eq!(run.out.contains("both are one file"), said, "{other}: {}", run.out);
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

#[test]
fn names_from_files_cannot_paint_the_screen() {
    let folder = Folder::new();
    let tensors = |v: f32| safetensors(&[("evil\u{1b}[2J\nPASS", "F32", &[1], f32s(&[v])), ("b", "F32", &[1], f32s(&[1.0]))]);
    folder.put("a.safetensors", &tensors(1.0));
    folder.put("b.safetensors", &tensors(2.0));
    for line in ["compare a.safetensors b.safetensors", "inspect a.safetensors", "inspect a.safetensors --tensor none"] {
        let run = folder.run(line);
        assert!(!(run.out + &run.err).contains('\u{1b}'), "{line}");
    }
}

#[test]
fn devices_lists_the_host() {
    let folder = Folder::new();
    let run = folder.run("devices");
    assert_eq!(run.code, 0);
    assert!(run.out.lines().any(|l| l.starts_with("host")) && run.out.contains("hipverify "), "{}", run.out);
    let (_, v) = folder.json("devices --json");
    assert_eq!(v["devices"][0]["kind"], "host");
    let features: Vec<&str> = v["build"]["features"].as_array().unwrap().iter().filter_map(|f| f.as_str()).collect();
    assert!(["cli", "files", "torch", "suite", "serde"].iter().all(|feature| features.contains(feature)), "{features:?}");
}

/// Runs the commands of the book. The text after a command must begin what it prints; `# exit code N` says how it ends.
#[test]
fn the_commands_of_the_book_do_what_it_says() {
    let folder = Folder::new();
    let book = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/program.md")).unwrap();
    let mut commands = 0;
    for block in book.split("```console\n").skip(1) {
        let lines: Vec<&str> = block.split("```").next().unwrap().lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let Some(command) = line.strip_prefix("$ hipverify ") else { continue };
            let (command, code) = command.split_once("# exit code ").map_or((command, 0), |(c, n)| (c, n.trim().parse().unwrap()));
            let run = folder.run(command);
            assert_eq!(run.code, code, "{command}: {}{}", run.out, run.err);
            let shown: Vec<&str> = lines[i + 1..].iter().take_while(|l| !l.starts_with('$')).copied().collect();
            assert!(run.out.starts_with(&shown.join("\n")), "{command}: {}", run.out);
            commands += 1;
        }
    }
    assert!(commands >= 10, "{commands} commands: were they found?");
}

/// Suites as people run them: what comes with the program, a file of one's own, and what is wrong with it.
#[test]
fn suites_are_listed_shown_and_run() {
    let folder = Folder::new();
    folder.put("mine.toml", b"[[gemm]]\nsize = ['8x8x8', '16x16x16']\n[[gemm]]\nname = 'strict'\nsize = '16x16x64'\nrule = 'exact'\n");
    folder.put("bad.toml", b"[[gemm]]\nsice = '8x8x8'\n");
    folder.put(
        "operators.toml",
        br#"[kernels.mine]
command = ["sh", "-c", "grep -q '\"gradient_of\": \"b\"' case.json && grep -q '\"name\": \"add\"' case.json && test -f a.npy && test -f b.npy && cp grad.npy result.npy"]
[[operator]]
operator = ["add", "mul"]
pass = "gradient"
gradient_of = "b"
shape = "3x5"
kernel = "mine"
rule = "exact"
"#,
    );
    folder.put(
        "linear.toml",
        br#"[kernels.mine]
command = ["sh", "-c", "grep -q '\"beta\": 1.0' case.json && grep -q '\"activation\": \"none\"' case.json && test -f bias.npy && cp c.npy result.npy"]
[[gemm]]
size = "4x5x6"
alpha = 0
beta = [1, 2]
bias = true
data = "uniform:-1,1 | uniform:-1,1 | uniform:-1,1 | constant:0"
kernel = "mine"
rule = { rms = 1e-5 }
"#,
    );
    folder.put("shown.toml", b"[[gemm]]\nsize = '4x4x64'\nbias = [true, false]\n");
    for (line, code, words, reason) in [
        ("suite run linear.toml --device host --filter gemm/1", 0, "PASS 1 of 1 cases as expected", "a program finds C and the bias"),
        ("suite run linear.toml --device host --filter gemm/2", 2, "ended with exit status: 1", "another beta"),
        ("suite run smoke --device host", 0, "PASS 45 of 45 cases as expected smoke", "what comes with the program"),
        (
            "suite run mine.toml --device host",
            1,
            "hipverify suite run mine.toml --device host --filter =strict",
            "a failure says how to run it alone",
        ),
        ("suite run mine.toml --device host --filter =gemm/8x8x8 --results r.jsonl", 0, "PASS 1 of 1 cases", "one case"),
        ("suite list", 0, "smoke 45 cases", "suites without a file"),
        ("suite run ck --group conv --device host", 0, "PASS 60 of 60 cases as expected ck", "Composable Kernel's rule on models"),
        ("suite run paddle --device host", 0, "PASS 316 of 316 cases as expected paddle", "operators by Paddle's rules"),
        (
            "suite show paddle softmax/softmax/gradient/1/f16",
            0,
            "computes gradient of softmax with respect to x of x[4, 16, 8], grad[4, 16, 8] along axis 1",
            "",
        ),
        ("suite run operators.toml --device host --filter add", 0, "PASS 1 of 1 cases as expected", "a program finds inputs and grad"),
        ("suite run operators.toml --device host --filter mul", 2, "ended with exit status: 1", "another operator"),
        ("suite list fp16-study --filter CHECK_PADDING3 --group kernel=xdlops", 0, "r0/gfx908/xdlops/pv", "the study"),
        ("suite list smoke --filter chips --group type=f16", 0, "chips/64x64x64/f16/gfx908", "cases"),
        ("suite show smoke exact/fma", 0, "computes gemm of [64, 512] by [512, 48], f16 to f32, against f64 in f64", "one case in words"),
        ("suite show smoke exact/fma", 0, "decides elements: |a-r| <= rtol |r| + atol", "what the rule demands"),
        ("suite show smoke chips/64x64x64/f16/gfx908", 0, "decides elements: |a-r| <= rtol 2^floor(log2 |r|) + atol", "of the binade"),
        ("suite show shown.toml gemm/true", 0, "6.104e-5 mean of |alpha A B| + |beta C| + |bias|", "a multiple of what is added"),
        ("suite show shown.toml gemm/false", 0, "6.104e-5 mean|r|", "and of what results"),
        ("suite show smoke exact/fma --set rule=check", 0, "for f16 by f16, sums in f32", "the bound of a check"),
        ("suite show smoke exact/fma", 0, "command hipverify suite run smoke --filter =exact/fma", "how to run it"),
        ("suite run bad.toml", 2, "error: bad.toml:2: unknown key `sice`; did you mean `size`?", "a key that is none"),
        ("suite run smoke --shard 3/2", 2, "3/2", "a share that is none"),
        ("suite run smoke --filter nothing", 2, "filter cannot be nothing", "a filter without a case"),
        (
            "suite run nowhere",
            2,
            "nowhere: no such file, and no suite that comes with hipverify; those are smoke ck paddle fp16-study",
            "no suite",
        ),
        ("suite show smoke nothing", 2, "smoke has no case `nothing`", "no case"),
    ] {
        let run = folder.run(line);
        let said = format!("{}{}", run.lines().join("\n"), run.err);
        assert_eq!(run.code, code, "{reason}: {said}");
        assert!(said.contains(words), "{reason}: {said}");
        assert!(!said.contains('\u{1e}'), "{reason}: a separator of messages between processes: {said:?}");
    }
    let results = std::fs::read_to_string(folder.path("r.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = results.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["selected"], &lines[1]["case"]), (2, &1.into(), &"gemm/8x8x8".into()));
    assert_eq!(lines[1]["report"]["elements"], 64);
}

/// A program that crashes, hangs, fails or does its work, by the size of its problem.
const MOODY: &str = r#"[kernels.moody]
command = ["sh", "-c", "case $(cat case.json) in *crash*) kill -9 $PPID;; *hang*) sleep 60;; *fails*) echo no such GPU >&2; exit 3;; *) cp a.npy result.npy;; esac"]

[[gemm]]
name = "works"
size = ["1x1x1", "2x2x2"]
data = "diagonal:1"
type = "f32"
kernel = "moody"
rule = "exact"

[[gemm]]
name = "crash"
size = "1x1x1"
kernel = "moody"

[[gemm]]
name = "hang"
size = "1x1x1"
timeout = 1
kernel = "moody"

[[gemm]]
name = "fails"
size = "1x1x1"
kernel = "moody"

[[gemm]]
name = "after"
size = "16x16x16"
seed = [1, 2, 3, 4]
"#;

/// What kills or stops a process is the failure of one case, whatever else runs.
#[test]
#[cfg(unix)]
fn crashes_and_hangs_are_the_failure_of_their_case() {
    let folder = Folder::new();
    folder.put("moody.toml", MOODY.as_bytes());
    let run = folder.run("suite run moody.toml --device host --jobs 2 --results r --junit junit.xml");
    let said = run.lines().join("\n");
    assert_eq!(run.code, 2, "a case that could not be computed outweighs what failed: {said} {}", run.err);
    for words in [
        "FAIL 6 of 9 cases as expected moody",
        "crash crash the process ended with signal: 9 (SIGKILL)",
        "timeout hang it did not end within 1 s",
        "ended with exit status: 3: no such GPU",
        "hipverify suite run moody.toml --device host --filter =hang",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let junit = std::fs::read_to_string(folder.path("junit.xml")).unwrap();
    assert!(junit.contains(r#"tests="9" skipped="0" failures="2" errors="1""#), "{junit}");
    // A run that does not begin leaves no file of an earlier one, and none is written over the suite.
    folder.refused("suite run moody.toml --device gpu:99 --junit junit.xml", "no gpu:99 device");
    let junit = std::fs::read_to_string(folder.path("junit.xml")).unwrap();
    assert!(junit.contains(r#"tests="1" skipped="0" failures="0" errors="1""#) && junit.contains("no gpu:99 device"), "{junit}");
    folder.refused("suite run moody.toml --junit ./moody.toml", "--junit ./moody.toml: that file is read by this command, as moody.toml");
    assert_eq!(std::fs::read_to_string(folder.path("moody.toml")).unwrap(), MOODY);
    let run = folder.run("suite run moody.toml --device host --filter crash --filter after --fail-fast --junit junit.xml");
    assert_eq!((run.code, run.out.contains("4 were not run")), (1, true), "{}", run.out);
    let junit = std::fs::read_to_string(folder.path("junit.xml")).unwrap();
    assert!(junit.contains(r#"tests="5" skipped="4" failures="1" errors="0""#) && junit.contains("--fail-fast"), "{junit}");
    folder.refused("suite run moody.toml --device host --shard 3/2 --junit junit.xml", "shard cannot be 3/2");
    let junit = std::fs::read_to_string(folder.path("junit.xml")).unwrap();
    assert!(junit.contains(r#"errors="1""#) && junit.contains("shard cannot be 3/2"), "{junit}");
    folder.refused("suite run moody.toml --device host --results -", "results go to a file (.jsonl) or a folder");
    assert!(!folder.path("-").exists());
}

/// What a command reads, or writes elsewhere, is not written over.
#[test]
fn no_file_of_a_suite_is_written_over() {
    let folder = Folder::new();
    folder.put("part.toml", b"[[gemm]]\nname = 'part'\nsize = '4x4x4'\n");
    folder.put("s.toml", b"include = ['part.toml']\n[kernels.own]\ncommand = ['sh', 'own.sh']\n[[gemm]]\nsize = '1x1x1'\nkernel = 'own'\n");
    folder.put("own.sh", b"cp a.npy result.npy\n");
    let run = folder.run("suite run s.toml --device host --filter part --results part.jsonl");
    assert_eq!(run.code, 0, "{} {}", run.out, run.err);
    for shard in ["1/2", "2/2"] {
        folder.run(&format!("suite run part.toml --device host --shard {shard} --results parts"));
    }
    let names = ["s.toml", "part.toml", "own.sh", "part.jsonl"];
    let before = names.map(|name| std::fs::read(folder.path(name)).unwrap());
    for (line, words) in [
        ("run s.toml --junit part.toml", "--junit part.toml: that file is read by this command"),
        ("run s.toml --junit own.sh", "--junit own.sh: that file is read by this command"),
        ("run s.toml --results x.jsonl --junit ./x.jsonl", "--results x.jsonl and --junit ./x.jsonl: one file cannot be both"),
        ("run s.toml --resume part.jsonl --junit part.jsonl", "--resume part.jsonl and --junit part.jsonl: one file cannot be both"),
        ("run s.toml --junit nowhere/j.xml", "--junit nowhere/j.xml: its folder is not there"),
        ("run part.toml --resume parts", "parts has results of shards, such as parts/results-"),
        ("merge s.toml part.jsonl --output s.toml", "--output s.toml: that file is read by this command"),
        ("merge s.toml part.jsonl --output part.toml", "--output part.toml: that file is read by this command"),
        ("merge s.toml part.jsonl --output part.jsonl", "--output part.jsonl: that file is read by this command"),
    ] {
        let run = folder.run(&format!("suite {line}"));
        assert!(run.code == 2 && run.err.contains(words), "{line}: {} {}{}", run.code, run.out, run.err);
        assert_eq!(names.map(|name| std::fs::read(folder.path(name)).unwrap()), before, "{line}");
    }
    assert!(!folder.path("x.jsonl").exists() && !folder.path("parts/results.jsonl").exists());
    // In a folder what an earlier merge wrote is made anew, and nothing else.
    std::fs::create_dir(folder.path("all")).unwrap();
    std::fs::copy(folder.path("part.jsonl"), folder.path("all/one.jsonl")).unwrap();
    let run = folder.run("suite run s.toml --device host --filter gemm --results all/two.jsonl");
    assert!(folder.path("all/two.jsonl").exists(), "{} {}", run.out, run.err);
    folder.refused("suite merge s.toml all --output all/two.jsonl", "all/two.jsonl: that file has case `gemm`, which no other one has");
    for _ in 0..2 {
        let run = folder.run("suite merge s.toml all --output all/joined.jsonl");
        assert_eq!(run.code, 0, "{} {}", run.out, run.err);
    }
}

/// A case that passes where it should not, and one that cannot be trusted, have a reason wherever they are shown.
#[test]
fn every_surprise_has_a_reason() {
    let folder = Folder::new();
    folder.put(
        "s.toml",
        b"[[gemm]]\nname = 'good'\nsize = '4x4x4'\nexpected = 'fail'\n[[gemm]]\nname = 'loose'\nsize = '4x4x4'\nrule = 'atol=1e9'\n",
    );
    let run = folder.run("suite run s.toml --device host --results r.jsonl --junit j.xml --save-on-failure kept --save-limit 1");
    let loose = "a pass that can be trusted was expected";
    assert!(run.code != 0 && run.out.contains("a failure was expected"), "{} {}", run.out, run.err);
    let line = run.out.lines().find(|line| line.starts_with("untrusted") && line.contains("loose")).unwrap();
    assert!(line.trim_end().len() > "untrusted loose".len() + 9, "{line}");
    for (name, text) in [
        ("junit", std::fs::read_to_string(folder.path("j.xml")).unwrap()),
        ("text", folder.run("suite report r.jsonl").out),
        ("markdown", folder.run("suite report r.jsonl --format markdown").out),
        ("csv", folder.run("suite report r.jsonl --format csv").out),
        ("saved", std::fs::read_to_string(folder.path("kept/good/report.txt")).unwrap()),
    ] {
        assert!(text.contains("a failure was expected"), "{name}: {text}");
        assert!(name == "saved" || text.contains(loose), "{name}: {text}");
    }
}

/// Lines of results without what depends on the time, in the order of names.
fn results(folder: &Folder, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.path(name)).unwrap();
    let timeless = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        ["seconds", "started"].iter().for_each(|key| drop(line.as_object_mut().unwrap().remove(*key)));
        line
    };
    text.lines().map(timeless).collect()
}

/// Results of a program are not those of another build of it.
#[test]
#[cfg(unix)]
fn runs_do_not_go_on_with_another_build() {
    let folder = Folder::new();
    folder.put(
        "s.toml",
        b"[kernels.own]\ncommand = ['sh', 'own.sh']\n[[gemm]]\nsize = ['1x1x1', '2x2x2']\ndata = 'diagonal:1'\nkernel = 'own'\n",
    );
    folder.put("own.sh", b"cp a.npy result.npy\n");
    let line = "suite run s.toml --device host --resume r.jsonl";
    let run = folder.run(line);
    assert_eq!((run.code, run.out.contains("resumed")), (0, false), "{} {}", run.out, run.err);
    let run = folder.run(line);
    assert!(run.code == 0 && run.out.contains("2 of these 2 cases were computed by the run that was resumed"), "{} {}", run.out, run.err);
    folder.put("own.sh", b"exit 1\n");
    folder.refused(line, "r.jsonl: was begun with other contents of the files that kernels name: a new file of results is needed");
}

/// The Python of a virtual environment is a link, and finds its packages by where that lies.
#[test]
#[cfg(unix)]
fn programs_are_started_by_the_names_of_their_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    folder.put("program.sh", b"#!/bin/sh\necho \"called ${0##*/}\" >&2\nexit 1\n");
    std::fs::set_permissions(folder.path("program.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("program.sh", folder.path("linked")).unwrap();
    folder.put("s.toml", b"[kernels.own]\ncommand = ['./linked']\n[[gemm]]\nsize = '2x2x2'\nkernel = 'own'\n");
    let run = folder.run("suite run s.toml --device host");
    assert!(run.code != 0 && run.out.contains("called linked"), "{} {}", run.out, run.err);
}

/// Whatever stopped a run, or cut it into parts: the results are those of one run.
#[test]
fn runs_go_on_and_shards_join() {
    let folder = Folder::new();
    let suite = "[[gemm]]\nsize = ['8x8x8', '16x16x16', '24x8x8']\nseed = [1, 2, 3]\n";
    folder.put("s.toml", suite.as_bytes());
    folder.put("other.toml", suite.replace("24", "32").as_bytes());
    let run = |line: &str| {
        let run = folder.run(&format!("suite {line}"));
        (run.code, format!("{}{}", run.out, run.err))
    };
    assert_eq!(run("run s.toml --device host --results one.jsonl").0, 0);
    let one = results(&folder, "one.jsonl");
    assert_eq!(one.len(), 10);

    assert_eq!(one[0]["devices"].as_array().unwrap().len(), 1);
    let (code, said) = run("run s.toml --device host,best --jobs 1 --results used.jsonl");
    assert_eq!(
        (code, results(&folder, "used.jsonl")[0]["devices"].as_array().unwrap().len()),
        (0, 1),
        "one process has one device: {said}"
    );

    // Killed in the middle of the fourth case's line.
    let text = std::fs::read_to_string(folder.path("one.jsonl")).unwrap();
    let cut: usize = text.split_inclusive('\n').take(4).map(str::len).sum();
    folder.put("cut.jsonl", &text.as_bytes()[..cut + 20]);
    let (code, said) = run("run s.toml --device host --resume cut.jsonl");
    assert_eq!((code, results(&folder, "cut.jsonl")), (0, one.clone()), "{said}");
    assert!(said.contains("9 of 9 cases"), "{said}");
    assert!(said.contains("3 of these 9 cases were computed by the run that was resumed"), "{said}");

    for shard in ["3/3", "1/3", "2/3"] {
        assert_eq!(run(&format!("run s.toml --device host --shard {shard} --results parts")).0, 0);
    }
    let (code, said) = run("merge s.toml parts --output merged.jsonl");
    assert_eq!((code, results(&folder, "merged.jsonl")), (0, one), "{said}");
    let (code, csv) = run("report parts --format csv");
    assert_eq!((code, csv.lines().count()), (0, 10), "the shards of a folder are one run: {csv}");
    let (code, said) = run("report parts --against one.jsonl");
    assert!(code == 0 && !said.contains("new failure"), "{said}");
    let (code, said) = run("report parts/results-1-of-3.jsonl --against parts");
    assert!(code == 0 && said.contains("6 removed"), "{said}");

    // A run that is a part says of what.
    let (code, said) = run("run s.toml --device host --shard 1/3 --junit j.xml");
    let junit = std::fs::read_to_string(folder.path("j.xml")).unwrap();
    assert!(code == 0 && said.starts_with("PASS  3 of 3 cases as expected   s: 3 of 9, --shard 1/3   "), "{said}");
    assert!(junit.contains(r#"<testsuite name="s (3 of 9, --shard 1/3)""#), "{junit}");
    let (code, said) = run("run s.toml --device host --filter =gemm/8x8x8/1 --shard 2/2 --results none.jsonl");
    assert!(code == 0 && said.starts_with("NO CASES  0 of 0 cases as expected   s: 0 of 9, --filter =gemm/8x8x8/1 --shard 2/2"), "{said}");
    let (code, said) = run("report none.jsonl");
    assert!(code == 0 && said.starts_with("NO CASES"), "{said}");

    // One that could not begin has no results, and an earlier one's are not its own.
    let (code, said) = run("run s.toml --device gpu:99 --shard 1/3 --results parts");
    assert!(code == 2 && !folder.path("parts/results-1-of-3.jsonl").exists(), "{said}");
    let (code, said) = run("report parts");
    assert!(code == 2 && said.contains("INCOMPLETE"), "{said}");
    assert_eq!(run("run s.toml --device host --shard 1/3 --results parts").0, 0);

    // A shard that is not there is missing, also where what there is has been joined before.
    std::fs::remove_file(folder.path("parts/results-3-of-3.jsonl")).unwrap();
    assert_eq!(run("merge s.toml parts --output two.jsonl").0, 0);
    for results in ["parts", "two.jsonl"] {
        let (code, said) = run(&format!("report {results}"));
        assert!(code == 2 && said.contains("INCOMPLETE") && said.contains("6 of 9 cases have ended"), "{results}: {code} {said}");
    }
    assert_eq!(run("run s.toml --device host --shard 1/2 --results halves").0, 0);

    let header_end = text.find('\n').unwrap();
    let version = concat!("hipverify ", env!("CARGO_PKG_VERSION"));
    folder.put("older.jsonl", text.replacen(version, "hipverify 0.0.9", 1).as_bytes());
    folder.put("odd.jsonl", text.replace("gemm/8x8x8/1", "gemm/9x9x9/1").as_bytes());
    let mut header: serde_json::Value = serde_json::from_str(&text[..header_end]).unwrap();
    header["devices"] = serde_json::json!(["MI210"]);
    folder.put("gpu.jsonl", format!("{header}{}", &text[header_end..]).as_bytes());
    for (line, words) in [
        ("merge other.toml parts --output x.jsonl", "holds results of another suite"),
        ("merge s.toml one.jsonl parts --output x.jsonl", "has case `gemm/"),
        (
            "merge s.toml parts/results-2-of-3.jsonl halves --output x.jsonl",
            "is one of 2 shards, and parts/results-2-of-3.jsonl is one of 3",
        ),
        ("merge s.toml nowhere.jsonl --output x.jsonl", "nowhere.jsonl"),
        ("merge s.toml one.jsonl --output one.jsonl", "--output one.jsonl: that file is read by this command"),
        ("merge s.toml s.toml --output x.jsonl", "line 1 is no header of results"),
        ("run other.toml --device host --resume one.jsonl", "holds results of another suite"),
        ("run s.toml --device host --resume gpu.jsonl", "gpu.jsonl: was computed on MI210, and this run is on host, "),
        ("run s.toml --device host --resume older.jsonl", "older.jsonl: was begun by hipverify 0.0.9, and this is hipverify 0."),
        ("run s.toml --device host --resume odd.jsonl", "have case `gemm/9x9x9/1`, which is none of those that are to run"),
        ("run s.toml --device host --filter 8x8x8 --resume one.jsonl", "was begun with the selection ``"),
        ("run s.toml --device host --timeout 0", "more than 0"),
        ("run s.toml --device host --jobs 0", "0"),
    ] {
        let (code, said) = run(line);
        assert!(code == 2 && said.contains(words), "{line}: {code} {said}");
    }
}
