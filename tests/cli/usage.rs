//! What the program says of itself: help, exit codes, bad input, the book, completions, devices and the demo.

use super::support::{Folder, npy, npy_f32, safetensors};
use std::path::Path;

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

/// Files that can be compared, and files that cannot.
fn files() -> Folder {
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
    folder
}

/// Commands that have no verdict: exit code 2, and words of their error.
fn told(folder: &Folder, rows: &[(&str, &str)]) {
    for (line, words) in rows {
        let run = folder.run(line);
        assert_eq!((run.code, run.err.starts_with("error: ")), (2, true), "{line}: {}{}", run.out, run.err);
        assert!(run.err.contains(words), "{line}: {}", run.err);
    }
}

#[test]
fn files_that_cannot_be_read_are_told_clearly() {
    let folder = files();
    told(
        &folder,
        &[
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
            ("inspect /dev/zero --dtype f32 --shape 4", "takes 16 bytes, the file holds 17"),
            ("inspect /dev/zero", "raw data need --dtype and --shape"),
            ("compare void.npy good.npy", "name it with --dtype, such as f8e4m3"),
            ("compare void.npy good.npy --dtype f8e4m3", "good.npy: has no elements of the width of f8e4m3; it holds f32"),
            ("compare mask.safetensors mask.safetensors", "tensor `mask`: dtype I128 is not supported"),
            ("compare none.safetensors none.safetensors", "nothing to compare"),
            ("compare good.npy good.npy --dtype f99", "unknown dtype `f99`"),
            ("compare good.npy good.npy --dtype f32,f32,f32", "--dtype has 3 values for 2 files"),
            ("compare r.bin r.bin --dtype f32 --shape 4", "shape [4] of f32 takes 16 bytes, the file holds 12"),
            ("compare r.bin r.bin --dtype f32 --shape 3,x", "extent ``"),
            ("compare r.bin r.bin --dtype f32 --shape 99999999999,99999999999", "overflows"),
            ("compare good.npy good.npy --shape 3", "--shape is for raw files"),
            ("compare r.bin r.bin --dtype f32 --shape=", "no extent is given; `[]` is a scalar"),
            ("compare many.safetensors many.safetensors --dtype f16", "has no elements of the width of f16; it holds f32, f64"),
            ("inspect good.npy --tensor w", "--tensor w: no tensor of good.npy has a name"),
            ("inspect absent.npy", "absent.npy: No such file"),
            ("inspect mask.safetensors --tensor other", "no tensor `other`; there are: mask"),
        ],
    );
    folder.refused("compare two.npy good.npy", "shape [2]");
    folder.refused("compare empty.npy empty.npy", "empty.npy against empty.npy: no elements; a comparison of nothing is not a pass");
}

#[test]
fn flags_that_ask_for_what_is_not_there_are_told_clearly() {
    let folder = files();
    told(
        &folder,
        &[
            ("compare good.npy good.npy --max-memory 1X", "unit `X`; known: K M G T"),
            ("compare r.bin good.npy", "raw data need --dtype and --shape"),
            ("compare good.npy good.npy --earlier two.npy", "error: two.npy: the earlier output: shape [2] does not match [3]"),
            ("golden record g.toml good.npy --arch=", "--arch: an empty name is none of an architecture"),
            ("compare good.npy good.npy --device gpu:99", "no gpu:99 device"),
            ("compare good.npy good.npy --device tpu", "device cannot be tpu: "),
            ("compare good.npy good.npy --first 65", "at most 64 are listed"),
            ("compare good.npy good.npy --first -1", "a whole number from 0 is wanted"),
            ("compare good.npy good.npy --junit no/such/folder.xml", "no/such/folder.xml"),
            ("compare good.npy good.npy --tensor w", "--tensor w: no tensor of good.npy, good.npy has a name"),
        ],
    );
}

#[test]
fn tolerances_that_mean_nothing_are_told_clearly() {
    let folder = files();
    told(
        &folder,
        &[
            ("compare good.npy good.npy --rule w", "GLOB:KEY=VALUE is wanted"),
            ("compare good.npy good.npy --rules rules.toml", "rules.toml: line 2: unknown key `atoll`; did you mean `atol`?"),
            ("compare good.npy good.npy --rules absent.toml", "absent.toml: No such file"),
            ("compare good.npy good.npy --baseline good.npy", "--baseline is for profile flash-attention"),
            (
                "compare good.npy good.npy --profile flash-attention --baseline empty.npy",
                "the baseline, empty.npy: the result: shape [0] does not match [3]",
            ),
            ("compare good.npy good.npy --allowed-share 2", "a share is between 0 and 1"),
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
            ("compare good.npy good.npy --accumulations -1", "a whole number from 0 is wanted"),
            ("tolerance --profile ck --accumulations -4", "a whole number from 0 is wanted"),
            ("tolerance --profile paddle --range -1,-2", "the first number is the smaller one"),
        ],
    );
}

#[test]
fn fills_that_cannot_be_made_are_told_clearly() {
    let folder = files();
    told(
        &folder,
        &[
            ("fill x.npy --dtype f32 --shape -1,2", "extent `-1` is not a whole number from 0"),
            ("fill x.npy --dtype f32 --shape 4 --seed -1", "a whole number from 0 is wanted"),
            ("fill x.npy --dtype f32 --shape 4 --stream -1", "-1 is not in 0..=4294967295"),
            ("fill x.npy --dtype f32 --shape 4 --gen -1,1", "unknown pattern `-1,1`"),
            ("fill x.npy --dtype f32 --shape 4 --seed 1 --gen sin/seed=1", "--seed 1 and /seed= of --gen: give one of them"),
            ("fill x.npy --dtype f32 --shape 4 --stream 1 --gen sin/stream=2", "--stream 1 and /stream= of --gen: give one of them"),
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
        ],
    );
    assert!(!Path::new(&folder.path("x.npy")).exists(), "nothing is left of a failed fill");
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
