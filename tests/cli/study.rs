//! `hipverify study tables`: the tables of the fp16 study from results of suites.

use super::support::Folder;

/// Runs of one range each are a whole together: table 2.3 is a mean over all four.
#[test]
fn tables_are_of_all_results_of_a_folder() {
    let folder = Folder::new();
    let run = |range: &str, results: &str| {
        let filter = format!("f16_fwd_CHECK_PADDING3_f16/{range}");
        let run = folder.run(&format!("suite run fp16-study --device host --filter {filter} --results {results}"));
        assert!(run.code == 0 && run.out.contains("PASS  6 of 6 cases"), "{} {}", run.out, run.err);
    };
    std::fs::create_dir(folder.path("runs")).unwrap();
    ["r0", "r1", "r4", "r5"].iter().for_each(|range| run(range, &format!("runs/{range}.jsonl")));

    let all = folder.run("study tables runs");
    assert_eq!(all.code, 0, "{}", all.err);
    let lines = all.lines();
    assert!(lines[0].ends_with("24 tests of the study"), "{}", lines[0]);
    let table = lines.iter().position(|line| line.starts_with("2.3 Effects of validation methods")).unwrap();
    assert_eq!(
        lines[table + 2..table + 5],
        ["xdlops+cpu xdlops+gpu nonxdlops+cpu", "tests a group, of 107 1 1 1", "maxEpsilonDiff ave 352.98 818.53 285.98"]
    );
    let words: Vec<&str> = lines[table + 5].split(' ').collect();
    assert!(
        words[..2] == ["this", "run"] && words[2..].iter().all(|x| x.replace(',', "").parse::<f64>().is_ok()) && words.len() == 5,
        "{words:?}"
    );

    // One range gives no mean over four.
    let one = folder.run("study tables runs/r4.jsonl").lines();
    assert_eq!(one[table + 5], "this run - - -", "{one:?}");

    folder.refused("study tables runs runs/r0.jsonl", "runs/r0.jsonl: has case `xdlops/conv2d_");
    let other = folder.run("suite run fp16-study --device host --set seed=2 --filter f16_fwd_CHECK_PADDING3_f16/r0 --results other.jsonl");
    assert_eq!(other.code, 0, "{}", other.err);
    folder.refused("study tables runs other.jsonl", "other.jsonl: holds results of another suite than runs/r0.jsonl: fp16-study ");
    std::fs::create_dir(folder.path("empty")).unwrap();
    folder.refused("study tables empty", "empty: no file of results (.jsonl) is there");
}
