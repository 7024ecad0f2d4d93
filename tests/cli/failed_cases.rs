//! What is kept of a suite's failed cases, how they get smaller, and that nothing which they started is left.

use super::support::{Folder, Run};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Cases that fail by their rule, one that passes, and one whose program ends its own process.
const SUITE: &str = "[kernels.crash]\ncommand = ['sh', '-c', 'kill -9 $PPID']\n\
    [[gemm]]\nsize = ['16x16x64', '4x4x4']\ntype = ['f16', 'bf16']\nrule = 'exact'\nreference_type = 'f32'\nreference = 'f32-fma'\noutput = 'f16'\n\
    [[gemm]]\nname = 'good'\nsize = '4x4x4'\n\
    [[gemm]]\nname = 'crash'\nsize = '4x4x4'\nkernel = 'crash'\n";

fn files(folder: &Folder, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path(name)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn text(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path(name)).unwrap()
}

#[test]
#[cfg(unix)]
fn failed_cases_are_kept_whole() {
    let folder = Folder::new();
    folder.put("s.toml", SUITE.as_bytes());
    let run = folder.run("suite run s.toml --device host --save-on-failure kept --resume r.jsonl");
    assert_eq!(run.code, 1, "{} {}", run.out, run.err);
    let results: Vec<Value> = text(&folder, "r.jsonl").lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut failed: Vec<&str> = results.iter().filter(|r| r["ok"] == false).map(|r| r["case"].as_str().unwrap()).collect();
    failed.sort_unstable();
    assert!(failed.len() >= 3 && failed.contains(&"gemm/16x16x64/bf16") && !failed.contains(&"good"), "{failed:?}");
    let expected: Vec<String> = failed.iter().map(|name| name.replace('/', "+")).chain(["suite.json".to_owned()]).collect();
    assert_eq!(files(&folder, "kept"), expected);

    // NumPy has f16 and not bf16.
    let own = files(&folder, "kept/gemm+16x16x64+bf16");
    assert_eq!(own, ["a.safetensors", "b.safetensors", "case.json", "command.txt", "reference.npy", "report.txt", "result.npy"]);
    let case: Value = serde_json::from_str(&text(&folder, "kept/gemm+16x16x64+bf16/case.json")).unwrap();
    assert_eq!(
        (&case["case"], &case["result"]["shape"][1], &case["inputs"]["a"]),
        (&failed[1].into(), &16.into(), &"a.safetensors".into())
    );
    let command = text(&folder, "kept/gemm+16x16x64+bf16/command.txt");
    assert_eq!(command, "hipverify suite run s.toml --device host --filter =gemm/16x16x64/bf16\n");
    let report = text(&folder, "kept/gemm+16x16x64+bf16/report.txt");
    assert!(report.starts_with("fail  gemm/16x16x64/bf16   expected: pass\n") && report.contains("elements differ"), "{report}");

    // The tensors give the verdict again: the number of mismatches is that of the case.
    let bf16 = results.iter().find(|r| r["case"] == "gemm/16x16x64/bf16").unwrap();
    let (code, again) =
        folder.json("compare kept/gemm+16x16x64+bf16/result.npy kept/gemm+16x16x64+bf16/reference.npy --rtol 0 --atol 0 --json");
    assert_eq!(code, 1);
    assert!(again.to_string().contains(&format!("\"mismatches\":{}", bf16["report"]["mismatches"])), "{again}");

    assert_eq!(files(&folder, "kept/crash"), ["case.json", "command.txt", "report.txt"]);
    assert!(text(&folder, "kept/crash/report.txt").contains("There are no tensors"));
}

/// Of a case without a reference the exact result is kept, in f64: 1/10 in f16, 64 times its square.
#[test]
#[cfg(unix)]
fn checks_that_fail_are_kept_with_the_exact_result() {
    let folder = Folder::new();
    folder.put(
        "s.toml",
        b"[kernels.zeros]\ncommand = ['cp', 'zeros.npy', 'result.npy']\n\
        [[gemm]]\nsize = '2x2x64'\noutput = 'f32'\ndata = 'constant:0.1'\nkernel = 'zeros'\nrule = 'check'\n",
    );
    let zeros = folder.run("fill zeros.npy --dtype f32 --shape 2,2 --gen constant:0");
    assert_eq!(zeros.code, 0, "{}", zeros.err);
    let run = folder.run("suite run s.toml --device host --save-on-failure kept --results r.jsonl --junit j.xml");
    assert_eq!(run.code, 1, "{} {}", run.out, run.err);
    let said = "4 of 4 elements are beyond their bounds";
    assert!(run.out.contains(said) && text(&folder, "j.xml").contains(said), "{} {}", run.out, text(&folder, "j.xml"));
    let report = text(&folder, "kept/gemm/report.txt");
    assert!(report.contains("elements beyond their bounds") && report.contains("zeros"), "{report}");
    let case: Value = serde_json::from_str(&text(&folder, "kept/gemm/case.json")).unwrap();
    assert_eq!(case["reference"]["dtype"], "f64");
    // 0.1 in f16 is 1638 / 2^14.
    let exact = 64.0 * (1638.0f64 / 16384.0).powi(2);
    let (_, compared) = folder.json("compare kept/gemm/result.npy kept/gemm/reference.npy --json");
    assert!(compared.to_string().contains(&format!("\"reference\":{exact}")), "{compared}");
    let shown = folder.run("suite report r.jsonl");
    assert!(shown.code == 1 && shown.out.contains(said) && shown.out.contains("cause: "), "{} {}", shown.out, shown.err);
}

#[test]
fn folders_of_failed_cases_are_bounded_and_not_mixed() {
    let folder = Folder::new();
    folder.put("s.toml", SUITE.as_bytes());
    let gemm = "suite run s.toml --device host --filter gemm/16x16x64";
    // Two cases have 4096 bytes of inputs, 512 of results and 1024 of references each, and headers.
    let run = folder.run(&format!("{gemm} --save-on-failure kept --save-limit 8K"));
    assert_eq!(run.code, 1, "{}", run.err);
    let [f16, bf16] = ["f16", "bf16"].map(|dtype| format!("kept/gemm+16x16x64+{dtype}"));
    assert!(files(&folder, &f16).contains(&"a.npy".to_owned()));
    assert_eq!(files(&folder, &bf16), ["case.json", "command.txt", "report.txt"]);
    let report = text(&folder, &format!("{bf16}/report.txt"));
    assert!(report.contains("Its tensors were not saved: they take 5632 bytes") && report.contains("--save-limit"), "{report}");

    folder.put("other.toml", SUITE.replace("4x4x4", "5x5x5").as_bytes());
    for (line, words) in [
        (format!("{gemm} --save-on-failure kept"), "kept: holds failed cases of an earlier run; --resume goes on with them"),
        (
            format!("{} --save-on-failure kept --resume r.jsonl", gemm.replace("s.toml", "other.toml")),
            "kept: holds failed cases of another suite",
        ),
        (format!("{gemm} --save-on-failure s.toml"), "s.toml"),
        (format!("{gemm} --save-on-failure x --save-limit 1X"), "unit `X`"),
    ] {
        let run = folder.run(&line);
        assert!(run.code == 2 && run.err.contains(words), "{line}: {} {}", run.code, run.err);
    }
    assert_eq!(folder.run(&format!("{gemm} --save-on-failure kept --resume r.jsonl")).code, 1, "a run goes on with its own cases");
    let run = folder.run(&format!("{gemm} --save-on-failure parts --shard 1/2"));
    assert_eq!((run.code, files(&folder, "parts")), (1, vec!["shard-1-of-2".to_owned()]), "{}", run.err);
}

/// What a case's first reason leaves out: its cause, and what the kernel did beside its result. The program copies another input each time.
#[test]
#[cfg(unix)]
fn every_reason_is_on_the_screen() {
    let folder = Folder::new();
    folder.put(
        "s.toml",
        b"[kernels.own]\ncommand = ['sh', '-c', 'if mkdir $PLACE; then cp a.npy result.npy; else cp b.npy result.npy; fi']\n\
        [[gemm]]\nsize = '64x64x64'\ntype = 'f32'\ndata = 'constant:1 | constant:2'\nkernel = 'own'\nlimits = { rms = 0, max_abs = 0, max_rel = 0, max_eps = 0 }\n",
    );
    let place = folder.path("place");
    let line = "suite run s.toml --device host --save-on-failure kept --results r.jsonl";
    let run = folder.run_with(line, &[("PLACE", place.to_str().unwrap())]);
    let lines: Vec<&str> = run.out.lines().skip_while(|line| !line.starts_with("fail ")).collect();
    assert_eq!((run.code, lines[0]), (1, "fail      gemm   4,096 of 4,096 elements differ"), "{} {}", run.out, run.err);
    let results = text(&folder, "r.jsonl");
    let result: Value = serde_json::from_str(results.lines().nth(1).unwrap()).unwrap();
    let reasons: Vec<&str> = result["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
    let last = "a second run gave other bits, the first at index 0; 4,096 of 4,096 elements differ, finite ones by at most 1e0";
    assert!(reasons.len() > 6 && reasons.last() == Some(&last), "{reasons:?}");
    let cause = format!("cause: {}", result["report"]["cause"]["evidence"].as_str().unwrap());
    let below = [reasons[1], reasons[2], &cause, last, &format!("and {} more", reasons.len() - 5)];
    assert_eq!(lines[1..6], below.map(|reason| format!("          {reason}")), "{}", run.out);
    assert!(lines[6].contains("suite run s.toml"), "{}", run.out);
    // What the report says is not said twice.
    let report = text(&folder, "kept/gemm/report.txt");
    assert!(!report.lines().any(|line| line.trim() == reasons[0]) && report.contains(&format!("FAIL  {}", reasons[0])), "{report}");
}

/// A folder or a file that is called like a suite which comes with the program, made before or by the run itself.
#[test]
fn what_is_called_like_a_suite_is_not_taken_for_it() {
    let line = "suite run smoke --device host --filter =exact/fma";
    for more in ["--save-on-failure smoke", "--results smoke/", "--junit smoke"] {
        let folder = Folder::new();
        let run = folder.run(&format!("{line} {more}"));
        assert!(run.code == 0 && folder.path("smoke").exists(), "{more}: {} {}", run.out, run.err);
        let again = folder.run(line);
        assert_eq!(
            (again.code == 0, again.err.contains("smoke:1: ")),
            (more != "--junit smoke", more == "--junit smoke"),
            "{more}: {}",
            again.err
        );
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.path("mine")).unwrap();
    folder.refused("suite run mine --device host", "mine: ");
    folder.refused("suite run smoke --junit -", "--junit -: JUnit goes to a file, not to standard output");
    folder.refused("suite run smoke --timeout 1e300", "seconds, more than 0 and less than 2^64, are wanted");
}

#[test]
fn names_of_cases_cannot_paint() {
    let folder = Folder::new();
    folder.put("s.toml", b"[[gemm]]\nname = \"a\\u001b[31m\\u0001b\"\nsize = '4x4x4'\n");
    let run = folder.run("suite list s.toml");
    assert_eq!((run.code, run.out.as_str()), (0, "a\\u{1b}[31m\\u{1}b\n"), "{}", run.err);
}

/// Sums of more than 6 products overflow f16, 65504.
const FAILS: &str = "[defaults]\ntype = 'f16'\ndata = 'constant:100'\n\
    [[gemm]]\nsize = ['60x33x9', '5x3x2']\n\
    [[gemm]]\nname = 'fixed'\nsize = '20x3x900'\n\
    [[conv]]\nsize = '2 1 2 4 4 3 3 8 8 1 1 1 1 1 1 1 1'\n\
    [[operator]]\noperator = 'sum'\nshape = '100'\ndata = 'constant:10000'\n";

#[test]
fn failing_sizes_shrink_to_the_smallest() {
    let folder = Folder::new();
    folder.put("s.toml", FAILS.as_bytes());
    let run = folder.run("suite shrink s.toml gemm/60x33x9 --device host");
    let said = run.lines().join("\n");
    assert_eq!(run.code, 0, "{said} {}", run.err);
    let command = "hipverify suite run s.toml --set gemm.size=1x1x7 --device host --filter =gemm/1x1x7";
    assert!(said.contains("size 1x1x7 of 60x33x9, after") && said.contains("no number of it can be one less"), "{said}");
    assert!(said.contains("fail 1 of 1 elements differ") && said.contains(command), "{said}");
    assert!(run.err.contains("1/200"), "progress: {}", run.err);

    // The command is one that works, and fails.
    let again = folder.run(&format!("{} --device host", command.trim_start_matches("hipverify ")));
    assert_eq!((again.code, again.out.contains("gemm/1x1x7")), (1, true), "{} {}", again.out, again.err);

    let run = folder.run("suite shrink s.toml conv --device host");
    let said = run.lines().join("\n");
    assert!(run.code == 0 && said.contains("--set 'conv.size=2 1 1 1 ") && said.contains("--filter =conv"), "{said} {}", run.err);
    let run = folder.run("suite shrink s.toml operator --device host");
    assert!(run.code == 0 && run.out.contains("--set operator.shape=7 "), "{} {}", run.out, run.err);
    let run = folder.run("suite shrink s.toml fixed --device host --trials 2");
    assert!(
        run.code == 0 && run.out.contains("the limit on trials ended the search") && run.out.contains("--filter =fixed"),
        "{}",
        run.out
    );
    let run = folder.run("suite shrink s.toml gemm/5x3x2 --device host");
    assert!(run.code == 2 && run.err.contains("`gemm/5x3x2` does not fail: pass"), "{}", run.err);
}

#[test]
fn keys_take_other_values_from_the_command_line() {
    let folder = Folder::new();
    folder.put("s.toml", b"[[gemm]]\nsize = ['4x4x4', '5x5x5']\ntype = 'f16'\n[[gemm]]\nname = 'other'\nsize = '6x6x6'\n");
    folder.put("odd.toml", b"[[gemm]]\nname = 'k=5.x'\nsize = '4x4x5'\n");
    for (line, words) in [
        ("suite run s.toml --device host --set size=3x3x3", "PASS 2 of 2 cases"),
        ("suite run s.toml --device host --set gemm.size=3x3x3 --set type=bf16 --filter gemm/3x3x3", "PASS 1 of 1 cases"),
        ("suite show s.toml other --set rule=exact", "suite run s.toml --set rule=exact --filter =other"),
        ("suite list s.toml --set gemm.size=3x3x3 --filter 3x3", "gemm/3x3x3"),
        ("suite show odd.toml k=5.x --set k=5.x.size=3x3x3", "3x3x3"),
    ] {
        let run = folder.run(line);
        assert!(run.code == 0 && run.lines().join("\n").contains(words), "{line}: {} {}", run.out, run.err);
    }
    for (set, words) in [
        ("size", "it must be KEY=VALUE or TABLE.KEY=VALUE"),
        ("sice=1x1x1", "no table of the suite has that key; did you mean `size`?"),
        ("gem.size=1x1x1", "no such table; did you mean `gemm`?"),
        ("limits=1", "`limits` takes no single value"),
        ("name=x", "`name` takes no single value"),
        ("size=1x1", "case `gemm/1x1`: size of a gemm cannot be 1x1"),
    ] {
        for command in ["run", "list"] {
            folder.refused(&format!("suite {command} s.toml --set {set}"), words);
        }
    }
    for flag in ["--set size=1x1x1", "--filter gemm", "--group type=f16", "--shard 1/2"] {
        // Without a suite there is nothing that they could choose from.
        folder.refused(&format!("suite list {flag}"), "<SUITE>");
    }
}

/// Whether a process is there.
#[cfg(target_os = "linux")]
fn runs(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until it is not, for at most some seconds.
#[cfg(target_os = "linux")]
fn ends(pid: &str) -> bool {
    let started = Instant::now();
    while runs(pid) && started.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    !runs(pid)
}

/// A program that starts another one, tells its number and waits for it.
#[cfg(target_os = "linux")]
const SLEEPS: &str = "[kernels.sleeps]\ncommand = ['sh', '-c', 'sleep 300 & echo $! > \"$NUMBER\".part; mv \"$NUMBER\".part \"$NUMBER\"; wait']\n\
    [[gemm]]\nsize = '1x1x1'\nkernel = 'sleeps'\n";

#[test]
#[cfg(target_os = "linux")]
fn programs_of_a_late_case_end_with_it() {
    let folder = Folder::new();
    folder.put("s.toml", SLEEPS.as_bytes());
    let number = folder.path("number");
    let run = folder.run_with("suite run s.toml --device host --timeout 3", &[("NUMBER", number.to_str().unwrap())]);
    assert!(run.code == 1 && run.out.contains("it did not end within 3 s"), "{} {}", run.out, run.err);
    assert!(ends(&text(&folder, "number")), "the program of the case still runs");
}

#[test]
#[cfg(target_os = "linux")]
fn programs_end_with_the_run_that_asked_for_them() {
    let folder = Folder::new();
    folder.put("s.toml", SLEEPS.as_bytes());
    let number = folder.path("number");
    let mut run = Command::new(env!("CARGO_BIN_EXE_hipverify"));
    run.args(["suite", "run", "s.toml", "--device", "host"]).current_dir(folder.path("")).env("NUMBER", &number);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !number.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "the case did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = text(&folder, "number");
    assert!(runs(&pid), "the program of the case runs");
    // Nothing that the run could do: what it started notices by itself.
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(ends(&pid), "the program of the case outlives the run");
}

#[test]
#[cfg(target_os = "linux")]
fn signals_leave_no_folder_behind() {
    for signal in ["TERM", "INT", "HUP"] {
        let folder = Folder::new();
        folder.put("s.toml", SLEEPS.as_bytes());
        folder.put("j.xml", b"<testsuites name=\"hipverify\" tests=\"1\" skipped=\"0\" failures=\"0\" errors=\"0\"/>");
        let (number, scratch) = (folder.path("number"), folder.path("scratch"));
        std::fs::create_dir(&scratch).unwrap();
        // What these tests were started by may ignore a signal, as `nohup` does, and the program ignores it then.
        let mut run = Command::new("env");
        run.args([&format!("--default-signal={signal}"), env!("CARGO_BIN_EXE_hipverify")])
            .args(["suite", "run", "s.toml", "--device", "host", "--junit", "j.xml"])
            .current_dir(folder.path(""))
            .env("NUMBER", &number)
            .env("TMPDIR", &scratch);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while !number.exists() {
            assert!(started.elapsed() < Duration::from_secs(60), "the case did not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 1, "the folder of the run is there");
        assert!(Command::new("kill").args([format!("-{signal}"), run.id().to_string()]).status().unwrap().success());
        assert!(!run.wait().unwrap().success());
        assert!(ends(&text(&folder, "number")), "the program of the case outlives the run");
        assert_eq!(files(&folder, "scratch"), [""; 0], "SIG{signal}");
        let junit = text(&folder, "j.xml");
        assert!(
            junit.contains("errors=\"1\"") && junit.contains("the command did not come to its end"),
            "an earlier run's is not this one's: {junit}"
        );
    }
}

/// The first program changes the suite and fails; what goes on with the second case would be another suite.
#[test]
#[cfg(unix)]
fn suites_that_change_while_they_run_are_an_error() {
    let folder = Folder::new();
    folder.put("own.sh", b"echo '# another comment' >> \"$SUITE\"; sed -i s/9x9x9/8x8x8/ \"$SUITE\"; exit 1\n");
    let suite = "[kernels.own]\ncommand = ['sh', 'own.sh']\n[[gemm]]\nsize = '4x4x4'\nkernel = 'own'\n\
        [[gemm]]\nname = 'other'\nsize = '9x9x9'\n";
    folder.put("s.toml", suite.as_bytes());
    let file = folder.path("s.toml");
    let run = folder.run_with("suite run s.toml --device host --results r.jsonl", &[("SUITE", file.to_str().unwrap())]);
    assert!(run.code == 2 && run.err.contains("s.toml: was changed while its cases ran"), "{} {}", run.out, run.err);
    assert_eq!(text(&folder, "r.jsonl").lines().count(), 2, "the header, and the case that was run");
}

/// Input that ends at once is no reason to stop: the worker's orders may come from a file.
#[test]
fn workers_without_an_asker_end_with_their_last_case() {
    let folder = Folder::new();
    folder.put("s.toml", b"[[gemm]]\nsize = '16x16x16'\n");
    folder.put("names", b"gemm\n");
    let run: Run = folder.run_on("names", "suite worker s.toml --device host");
    assert!(run.code == 0 && run.out.contains("\"outcome\":\"pass\""), "{} {}", run.out, run.err);
}
