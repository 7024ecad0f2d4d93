//! What the system does to the program: no memory, a full disk, readers that leave, files that are cut while they are read.

use super::support::{Folder, Run, f32s, npy, npy_f32, safetensors};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A shell line in the folder, in which `hipverify` is the program. No GPU: its runtime would want memory of its own.
fn shell(folder: &Folder, line: &str) -> std::process::Output {
    let line = line.replace("hipverify", env!("CARGO_BIN_EXE_hipverify"));
    Command::new("sh").args(["-c", &line]).current_dir(folder.0.path()).env("HIPVERIFY_HIP_LIBRARY", "off").output().unwrap()
}

/// With too little address space: an error, or the system's words for an allocation that nobody can do without; never a panic or half a verdict.
#[test]
fn little_memory_is_an_error() {
    let folder = Folder::new();
    let values = vec![0x80; 4 << 20];
    folder.put("a.npy", &npy("<f4", "False", "(1048576,)", &values));
    folder.put("swapped.npy", &npy(">f4", "False", "(1048576,)", &values));
    let (mut errors, mut passes) = (0, 0);
    // From what the program itself takes to enough. Where between them it begins and lacks memory depends on its size and on the threads' stacks.
    for kilobytes in (16..=128).step_by(4).chain([4096]).map(|mb| mb << 10) {
        for files in ["a.npy a.npy", "swapped.npy swapped.npy"] {
            let output = shell(&folder, &format!("ulimit -c 0; ulimit -v {kilobytes} && RUST_BACKTRACE=0 exec hipverify compare {files}"));
            let (code, err) = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
            let what = format!("{kilobytes} KiB, {files}: {code:?} {err}");
            match code {
                Some(0) => passes += 1,
                Some(2) => errors += usize::from(err.starts_with("error: ")),
                // Before the program begins the loader, too, has words of its own.
                Some(127) => assert!(err.contains("error while loading shared libraries"), "{what}"),
                // Smaller than the program's own image: the system ends it while it loads.
                None if kilobytes <= 64 << 10 && err.is_empty() => {}
                // A new thread's stack for signals, and the C library's list of what ends with a thread, are theirs to ask for: they end the program in words of their own.
                None if err.contains("failed to allocate an alternative stack") || err.contains("failed to register TLS destructor") => {}
                None => assert!(err.contains("memory allocation of"), "{what}"),
                Some(_) => panic!("{what}"),
            }
            assert_eq!(code == Some(0), String::from_utf8_lossy(&output.stdout).contains("PASS"), "{what}");
        }
    }
    assert!(errors > 0 && passes > 2, "{errors} errors and {passes} passes: not all was tried");
}

/// Whatever is written where: an error that names the target, and nothing is left behind.
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::new();
    folder.put("a.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("b.npy", &npy_f32(&[1.0, 9.0]));
    for (line, named) in [
        ("hipverify fill /dev/full --dtype f32 --shape 100000 --gen sin", "/dev/full"),
        ("hipverify fill - --dtype f32 --shape 100000 --gen sin > /dev/full", "error: standard output: No space left"),
        ("hipverify compare a.npy b.npy --junit /dev/full", "/dev/full"),
        ("hipverify compare a.npy b.npy --diff /dev/full", "/dev/full"),
        ("hipverify compare a.npy b.npy --json > /dev/full", "error: standard output: No space left"),
        ("hipverify compare a.npy b.npy > /dev/full", "error: standard output: No space left"),
        ("hipverify inspect a.npy > /dev/full", "error: standard output: No space left"),
        // 4 KiB a file; as the signal is ignored, writing fails.
        ("trap '' XFSZ; ulimit -f 8; exec hipverify fill big.npy --dtype f32 --shape 100000 --gen sin", "big.npy"),
    ] {
        let output = shell(&folder, line);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {err}");
        assert!(err.starts_with("error: ") && err.contains(named), "{line}: {err}");
    }
    let mut left: Vec<_> = std::fs::read_dir(folder.0.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.npy", "b.npy"]);
}

/// Nobody reads the output, or what is said beside it: the exit code is what it would be.
#[test]
fn no_command_minds_a_closed_pipe() {
    let folder = Folder::new();
    folder.put("a.npy", &npy_f32(&[1.0, 2.0]));
    folder.put("b.npy", &npy_f32(&[1.0, 9.0]));
    for (name, kernel) in [("same.toml", "fma"), ("other.toml", "gfx90a")] {
        let gemm = format!("[[gemm]]\nsize = '8x8x40'\ndata = 'uniform:-1,1'\noutput = 'f32'\nkernel = '{kernel}'\n");
        let study = "[[study]]\nconfiguration = 'conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16'\n";
        folder.put(name, (gemm + study).as_bytes());
    }
    folder.put("shrinks.toml", b"[[gemm]]\nsize = ['60x33x9']\ntype = 'f16'\ndata = 'constant:100'\n");
    assert_eq!(folder.run("golden record g.toml --suite same.toml --device host").code, 0);
    for (line, code) in [
        ("compare a.npy a.npy --rtol 1e-3", 0),
        ("compare a.npy b.npy", 1),
        ("compare a.npy b.npy --json", 1),
        ("compare a.npy b.npy --junit -", 1),
        ("compare a.npy b.npy --html -", 1),
        ("compare a.npy b.npy --mismatches -", 1),
        ("compare a.npy b.npy --diff -", 1),
        ("compare a.npy b.npy --heatmap -", 1),
        ("compare a.npy none.npy", 2),
        ("golden check g.toml --suite same.toml --device host", 0),
        ("golden check g.toml --suite other.toml --device host", 1),
        ("inspect a.npy", 0),
        ("fill - --dtype f32 --shape 100000 --gen sin", 0),
        ("replay --list", 0),
        ("suite shrink shrinks.toml gemm/60x33x9 --device host --trials 3", 0),
        ("devices", 0),
        ("tolerance --list", 0),
        ("--help", 0),
        ("--nonsense", 2),
    ] {
        for closed in ["output", "errors"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
            command.args(line.split_whitespace()).current_dir(folder.0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = if closed == "output" { command.stdout(writer) } else { command.stderr(writer) }.output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{line}, closed {closed}: {err}");
            assert!(code == 2 || !err.contains("error"), "{line}, closed {closed}: {err}");
        }
    }
}

/// The result is open when the reference, a pipe, is asked for: between the two it changes.
#[test]
fn a_file_that_changes_while_it_is_read_is_an_error() {
    let elements = 1 << 20;
    let values: Vec<f32> = (0..elements).map(|i| i as f32).collect();
    let whole = npy("<f4", "False", &format!("({elements},)"), &f32s(&values));
    type Change = fn(&std::fs::File, u64);
    let cases: [(&str, Change, i32, &str); 4] = [
        ("cut", |file, _| file.set_len(4096).unwrap(), 2, "error: result.npy: was cut while it was read"),
        (
            "cut within its last page, where zeros are read",
            |file, length| file.set_len(length - 1).unwrap(),
            2,
            "error: result.npy: changed while",
        ),
        ("written over", |mut file, _| file.write_all(b"\x93NUMPY").unwrap(), 2, "error: result.npy: changed while"),
        ("left alone", |_, _| (), 0, ""),
    ];
    for (what, change, code, words) in cases {
        let folder = Folder::new();
        folder.put("result.npy", &whole);
        assert!(shell(&folder, "mkfifo reference.npy").status.success());
        // Times of files are as fine as a tick of the system.
        std::thread::sleep(Duration::from_millis(20));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hipverify"));
        command.args(["compare", "result.npy", "reference.npy", "--rtol", "0", "--atol", "0"]).current_dir(folder.0.path());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Opens when the program has opened the other end.
        let mut pipe = std::fs::File::options().write(true).open(folder.path("reference.npy")).unwrap();
        change(&std::fs::File::options().write(true).open(folder.path("result.npy")).unwrap(), whole.len() as u64);
        // A program that has ended reads no more.
        let _ = pipe.write_all(&whole);
        drop(pipe);
        let run = Run::of(child.wait_with_output().unwrap());
        assert_eq!(run.code, code, "{what}: {}{}", run.out, run.err);
        assert!(run.err.starts_with(words), "{what}: {}", run.err);
    }
}

/// As many tensors as the largest models have, and as many dimensions as NumPy had for long.
#[test]
fn many_tensors_and_many_dimensions() {
    let folder = Folder::new();
    let file = |last: f32| {
        let names: Vec<String> = (0..10_000).map(|i| format!("layers.{i}.weight")).collect();
        let tensor = |(i, name)| (name, "F32", &[2usize][..], f32s(&[i as f32, if i == 9_999 { last } else { 1.0 }]));
        safetensors(&names.iter().map(String::as_str).enumerate().map(tensor).collect::<Vec<_>>())
    };
    folder.put("result.safetensors", &file(1.5));
    folder.put("reference.safetensors", &file(1.0));
    let (code, json) = folder.json("compare result.safetensors reference.safetensors --rtol 1e-3 --json");
    assert_eq!(code, 1);
    let tensors = json["tensors"].as_array().unwrap();
    assert_eq!((tensors.len(), tensors.iter().filter(|t| t["verdict"] == "fail").count()), (10_000, 1));

    let shape = format!("({}3)", "1, ".repeat(31));
    folder.put("r32.npy", &npy("<f4", "False", &shape, &f32s(&[1.0, 2.0, 3.0])));
    folder.put("f32.npy", &npy("<f4", "True", &shape, &f32s(&[1.0, 2.0, 4.0])));
    let run = folder.run("compare f32.npy r32.npy --rtol 1e-3");
    assert!(run.code == 1 && run.out.contains(&format!("[{}2]", "0, ".repeat(31))), "{}{}", run.out, run.err);
}

/// An archive of 4 MB that claims 4 GiB takes no more memory than it may.
#[test]
fn a_bomb_is_refused_in_little_memory() {
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
