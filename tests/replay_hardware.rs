//! Holds the replay against lines that were measured on MI100 and MI200 in 2022, every column.
//!
//! The lines are not part of this repository. `HIPVERIFY_HARDWARE_LINES` names a file of them, with the columns
//! `name,arch,kernel,validator,range,line`; without it this test says so and passes. Configurations of more than a billion
//! products run when `HIPVERIFY_LONG_TESTS` is 1.

use hipverify::matrix_core::Arch;
use hipverify::suite::replay::{Configuration, Kernel, Replay, StudyMetrics, Variant};
use std::collections::BTreeMap;

/// Products of a configuration that the ordinary run still takes.
const SMALL: u128 = 1_000_000_000;

fn long() -> bool {
    std::env::var("HIPVERIFY_LONG_TESTS").is_ok_and(|v| v == "1")
}

#[test]
fn measured_lines_come_out() {
    let Ok(path) = std::env::var("HIPVERIFY_HARDWARE_LINES") else {
        println!("skipped: HIPVERIFY_HARDWARE_LINES names no file");
        return;
    };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (mut matched, mut inside, mut skipped, mut wrong) = (0, 0, 0, Vec::new());
    // `HIPVERIFY_REPLAY_DEVICE=gpu` computes on a GPU.
    let device = hipverify::Device::open(&std::env::var("HIPVERIFY_REPLAY_DEVICE").unwrap_or("host".to_owned())).unwrap();
    // Lines of equal computation are computed once.
    let mut done = BTreeMap::new();
    for row in text.lines().skip(1).filter(|l| !l.trim().is_empty()) {
        let fields: Vec<&str> = row.splitn(6, ',').collect();
        let [name, arch, kernel, validator, range, line] = fields[..] else { panic!("{path}: a row of six fields, not `{row}`") };
        let configuration = Configuration::named(name).unwrap();
        if configuration.param().unwrap().macs() > SMALL && !long() {
            skipped += 1;
            continue;
        }
        let arch: Arch = arch.parse().unwrap();
        let kernel: Kernel = kernel.parse().unwrap();
        // Without matrix cores the two chips compute the same.
        let key = (
            name.to_owned(),
            if kernel == Kernel::Xdlops { arch.name() } else { "" },
            kernel.name(),
            validator.to_owned(),
            range.to_owned(),
        );
        let outcome = done.entry(key).or_insert_with(|| {
            let replay = Replay {
                configuration,
                range: range.parse().unwrap(),
                seed: 1,
                arch,
                kernel,
                validator: validator.parse().unwrap(),
                variant: Variant::First,
                device: device.clone(),
            };
            replay.run().unwrap()
        });
        match &outcome.orders {
            None if columns(&outcome.metrics.to_string()) == columns(line) => matched += 1,
            None => wrong.push(format!("{row}\n  computed {}", outcome.metrics)),
            Some(orders) if lies_between(line, &orders.nearest, &orders.farthest) => inside += 1,
            Some(orders) => wrong.push(format!("{row}\n  nearest {}\n  farthest {}", orders.nearest, orders.farthest)),
        }
    }
    println!("{matched} lines equal in every column, {inside} inside what the orders allow, {skipped} skipped as too long");
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(matched + inside + skipped > 0, "{path} has no lines");
}

/// The columns of a line; the number of blanks between them is of no account.
fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Whether a measured line lies between the extremes: equal elements, largest and mean differences. The largest difference in
/// spacings is left out: spacings shrink towards zero, so the farthest value need not be the most spacings away.
fn lies_between(line: &str, nearest: &StudyMetrics, farthest: &StudyMetrics) -> bool {
    let numbers = |l: &str| -> Vec<f64> { l.split_whitespace().map(|w| w.trim_matches(['(', ')']).parse().unwrap_or(f64::NAN)).collect() };
    let (measured, low, high) = (numbers(line), numbers(&nearest.to_string()), numbers(&farthest.to_string()));
    // Largest and mean absolute, largest and mean relative difference.
    let between = [8, 9, 10, 12].iter().all(|&i| low[i] <= measured[i] && measured[i] <= high[i]);
    measured[0] == low[0] && high[1] <= measured[1] && measured[1] <= low[1] && between
}
