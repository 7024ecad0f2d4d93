//! `hipverify suite`: cases that are listed, shown, run, resumed, and joined.

use super::support::Folder;

/// A program that finds what it needs in the folder of its case: operands of operators, and the gradient.
const OPERATORS: &str = r#"[kernels.mine]
command = ["sh", "-c", "grep -q '\"gradient_of\": \"b\"' case.json && grep -q '\"name\": \"add\"' case.json && test -f a.npy && test -f b.npy && cp grad.npy result.npy"]
[[operator]]
operator = ["add", "mul"]
pass = "gradient"
gradient_of = "b"
shape = "3x5"
kernel = "mine"
rule = "exact"
"#;

/// The same of a product with C and a bias.
const LINEAR: &str = r#"[kernels.mine]
command = ["sh", "-c", "grep -q '\"beta\": 1.0' case.json && grep -q '\"activation\": \"none\"' case.json && test -f bias.npy && cp c.npy result.npy"]
[[gemm]]
size = "4x5x6"
alpha = 0
beta = [1, 2]
bias = true
data = "uniform:-1,1 | uniform:-1,1 | uniform:-1,1 | constant:0"
kernel = "mine"
rule = { rms = 1e-5 }
"#;

/// Commands, their exit codes, words that they print on either stream, and why.
fn said(folder: &Folder, rows: &[(&str, i32, &str, &str)]) {
    for &(line, code, words, reason) in rows {
        let run = folder.run(line);
        let said = format!("{}{}", run.lines().join("\n"), run.err);
        assert_eq!(run.code, code, "{reason}: {said}");
        assert!(said.contains(words), "{reason}: {said}");
        assert!(!said.contains('\u{1e}'), "{reason}: a separator of messages between processes: {said:?}");
    }
}

/// A folder with these files.
fn holding(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    files.iter().for_each(|(name, text)| folder.put(name, text.as_bytes()));
    folder
}

#[test]
fn suites_that_come_with_the_program_are_listed_shown_and_run() {
    said(
        &Folder::new(),
        &[
            ("suite run smoke --device host", 0, "PASS 45 of 45 cases as expected smoke", "what comes with the program"),
            ("suite list", 0, "smoke 45 cases", "suites without a file"),
            ("suite run ck --group conv --device host", 0, "PASS 60 of 60 cases as expected ck", "Composable Kernel's rule on models"),
            ("suite run paddle --device host", 0, "PASS 316 of 316 cases as expected paddle", "operators by Paddle's rules"),
            (
                "suite show paddle softmax/softmax/gradient/1/f16",
                0,
                "computes gradient of softmax with respect to x of x[4, 16, 8], grad[4, 16, 8] along axis 1",
                "",
            ),
            ("suite list fp16-study --filter CHECK_PADDING3 --group kernel=xdlops", 0, "r0/gfx908/xdlops/pv", "the study"),
            ("suite list smoke --filter chips --group type=f16", 0, "chips/64x64x64/f16/gfx908", "cases"),
            (
                "suite show smoke exact/fma",
                0,
                "computes gemm of [64, 512] by [512, 48], f16 to f32, against f64 in f64",
                "one case in words",
            ),
            ("suite show smoke exact/fma", 0, "decides elements: |a-r| <= rtol |r| + atol", "what the rule demands"),
            ("suite show smoke chips/64x64x64/f16/gfx908", 0, "decides elements: |a-r| <= rtol 2^floor(log2 |r|) + atol", "of the binade"),
            ("suite show smoke exact/fma --set rule=check", 0, "for f16 by f16, sums in f32", "the bound of a check"),
            ("suite show smoke exact/fma", 0, "command hipverify suite run smoke --filter =exact/fma", "how to run it"),
        ],
    );
}

#[test]
fn suites_of_ones_own_are_shown_and_run() {
    let mine = "[[gemm]]\nsize = ['8x8x8', '16x16x16']\n[[gemm]]\nname = 'strict'\nsize = '16x16x64'\nrule = 'exact'\n";
    let shown = "[[gemm]]\nsize = '4x4x64'\nbias = [true, false]\n";
    let folder = holding(&[("mine.toml", mine), ("shown.toml", shown), ("operators.toml", OPERATORS), ("linear.toml", LINEAR)]);
    said(
        &folder,
        &[
            ("suite run linear.toml --device host --filter gemm/1", 0, "PASS 1 of 1 cases as expected", "a program finds C and the bias"),
            ("suite run linear.toml --device host --filter gemm/2", 2, "ended with exit status: 1", "another beta"),
            (
                "suite run mine.toml --device host",
                1,
                "hipverify suite run mine.toml --device host --filter =strict",
                "a failure says how to run it alone",
            ),
            ("suite run mine.toml --device host --filter =gemm/8x8x8 --results r.jsonl", 0, "PASS 1 of 1 cases", "one case"),
            ("suite run operators.toml --device host --filter add", 0, "PASS 1 of 1 cases as expected", "a program finds inputs and grad"),
            ("suite run operators.toml --device host --filter mul", 2, "ended with exit status: 1", "another operator"),
            ("suite show shown.toml gemm/true", 0, "6.104e-5 mean of |alpha A B| + |beta C| + |bias|", "a multiple of what is added"),
            ("suite show shown.toml gemm/false", 0, "6.104e-5 mean|r|", "and of what results"),
        ],
    );
    let results = std::fs::read_to_string(folder.path("r.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = results.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["selected"], &lines[1]["case"]), (2, &1.into(), &"gemm/8x8x8".into()));
    assert_eq!(lines[1]["report"]["elements"], 64);
}

#[test]
fn what_is_wrong_with_a_suite_is_told() {
    said(
        &holding(&[("bad.toml", "[[gemm]]\nsice = '8x8x8'\n")]),
        &[
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
        ],
    );
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

/// What `suite` ends with, and what it prints on both streams.
fn suite(folder: &Folder, line: &str) -> (i32, String) {
    let run = folder.run(&format!("suite {line}"));
    (run.code, format!("{}{}", run.out, run.err))
}

/// A suite of nine cases, another one, and the results of the first.
fn nine_cases() -> Folder {
    let folder = Folder::new();
    let text = "[[gemm]]\nsize = ['8x8x8', '16x16x16', '24x8x8']\nseed = [1, 2, 3]\n";
    folder.put("s.toml", text.as_bytes());
    folder.put("other.toml", text.replace("24", "32").as_bytes());
    assert_eq!(suite(&folder, "run s.toml --device host --results one.jsonl").0, 0);
    folder
}

/// The results of three shards, in a folder.
fn put_shards(folder: &Folder) {
    for shard in ["3/3", "1/3", "2/3"] {
        assert_eq!(suite(folder, &format!("run s.toml --device host --shard {shard} --results parts")).0, 0);
    }
}

/// Whatever stopped a run: the results are those of one run.
#[test]
fn runs_go_on() {
    let folder = nine_cases();
    let one = results(&folder, "one.jsonl");
    assert_eq!(one.len(), 10);
    assert_eq!(one[0]["devices"].as_array().unwrap().len(), 1);
    let (code, said) = suite(&folder, "run s.toml --device host,best --jobs 1 --results used.jsonl");
    assert_eq!(
        (code, results(&folder, "used.jsonl")[0]["devices"].as_array().unwrap().len()),
        (0, 1),
        "one process has one device: {said}"
    );

    // Killed in the middle of the fourth case's line.
    let text = std::fs::read_to_string(folder.path("one.jsonl")).unwrap();
    let cut: usize = text.split_inclusive('\n').take(4).map(str::len).sum();
    folder.put("cut.jsonl", &text.as_bytes()[..cut + 20]);
    let (code, said) = suite(&folder, "run s.toml --device host --resume cut.jsonl");
    assert_eq!((code, results(&folder, "cut.jsonl")), (0, one), "{said}");
    assert!(said.contains("9 of 9 cases"), "{said}");
    assert!(said.contains("3 of these 9 cases were computed by the run that was resumed"), "{said}");
}

/// Whatever cut a run into parts: the results are those of one run.
#[test]
fn shards_join() {
    let folder = nine_cases();
    let one = results(&folder, "one.jsonl");
    put_shards(&folder);
    let (code, said) = suite(&folder, "merge s.toml parts --output merged.jsonl");
    assert_eq!((code, results(&folder, "merged.jsonl")), (0, one), "{said}");
    let (code, csv) = suite(&folder, "report parts --format csv");
    assert_eq!((code, csv.lines().count()), (0, 10), "the shards of a folder are one run: {csv}");
    let (code, said) = suite(&folder, "report parts --against one.jsonl");
    assert!(code == 0 && !said.contains("new failure"), "{said}");
    let (code, said) = suite(&folder, "report parts/results-1-of-3.jsonl --against parts");
    assert!(code == 0 && said.contains("6 removed"), "{said}");

    // One that could not begin has no results, and an earlier one's are not its own.
    let (code, said) = suite(&folder, "run s.toml --device gpu:99 --shard 1/3 --results parts");
    assert!(code == 2 && !folder.path("parts/results-1-of-3.jsonl").exists(), "{said}");
    let (code, said) = suite(&folder, "report parts");
    assert!(code == 2 && said.contains("INCOMPLETE"), "{said}");
    assert_eq!(suite(&folder, "run s.toml --device host --shard 1/3 --results parts").0, 0);

    // A shard that is not there is missing, also where what there is has been joined before.
    std::fs::remove_file(folder.path("parts/results-3-of-3.jsonl")).unwrap();
    assert_eq!(suite(&folder, "merge s.toml parts --output two.jsonl").0, 0);
    for results in ["parts", "two.jsonl"] {
        let (code, said) = suite(&folder, &format!("report {results}"));
        assert!(code == 2 && said.contains("INCOMPLETE") && said.contains("6 of 9 cases have ended"), "{results}: {code} {said}");
    }
}

#[test]
fn a_part_of_a_run_says_of_what() {
    let folder = nine_cases();
    let (code, said) = suite(&folder, "run s.toml --device host --shard 1/3 --junit j.xml");
    let junit = std::fs::read_to_string(folder.path("j.xml")).unwrap();
    assert!(code == 0 && said.starts_with("PASS  3 of 3 cases as expected   s: 3 of 9, --shard 1/3   "), "{said}");
    assert!(junit.contains(r#"<testsuite name="s (3 of 9, --shard 1/3)""#), "{junit}");
    let (code, said) = suite(&folder, "run s.toml --device host --filter =gemm/8x8x8/1 --shard 2/2 --results none.jsonl");
    assert!(code == 0 && said.starts_with("NO CASES  0 of 0 cases as expected   s: 0 of 9, --filter =gemm/8x8x8/1 --shard 2/2"), "{said}");
    let (code, said) = suite(&folder, "report none.jsonl");
    assert!(code == 0 && said.starts_with("NO CASES"), "{said}");
}

/// Results of another suite, selection, build or device are not gone on with, nor joined.
#[test]
fn results_of_other_runs_are_refused() {
    let folder = nine_cases();
    put_shards(&folder);
    std::fs::remove_file(folder.path("parts/results-3-of-3.jsonl")).unwrap();
    assert_eq!(suite(&folder, "run s.toml --device host --shard 1/2 --results halves").0, 0);

    let text = std::fs::read_to_string(folder.path("one.jsonl")).unwrap();
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
        let (code, said) = suite(&folder, line);
        assert!(code == 2 && said.contains(words), "{line}: {code} {said}");
    }
}
