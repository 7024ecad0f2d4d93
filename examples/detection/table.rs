//! Trials and their counts.

use super::broken;
use super::correct;
use super::problem::{Formats, Input, Operation, Problem};
use super::rules::{self, BEST, Rule};
use hipverify::device::Layout;
use hipverify::dtype::Rounding;
use hipverify::{DType, Result, TensorRef};
use std::collections::BTreeMap;

/// Results judged, and how many of them were refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    pub refused: u64,
    pub of: u64,
}

impl Share {
    fn count(&mut self, refused: bool) {
        self.refused += u64::from(refused);
        self.of += 1;
    }

    fn plus(self, other: Share) -> Share {
        Share { refused: self.refused + other.refused, of: self.of + other.of }
    }

    fn percent(self) -> String {
        if self.of == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * self.refused as f64 / self.of as f64) }
    }
}

/// By rule and kind of input: broken results and correct ones.
pub struct Counts {
    rules: Vec<Rule>,
    broken: Vec<[Share; Input::ALL.len()]>,
    correct: Vec<[Share; Input::ALL.len()]>,
    /// What the best rule lets pass: how many results, by reason and defect.
    misses: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// What it refuses.
    false_alarms: Vec<String>,
}

/// Judges everything; of a sample one pair of formats and two kinds of input.
pub fn measure(sample: bool) -> Result<Counts> {
    let rules = rules::all();
    let empty = vec![[Share::default(); Input::ALL.len()]; rules.len()];
    let mut counts = Counts { broken: empty.clone(), correct: empty, rules, misses: BTreeMap::new(), false_alarms: Vec::new() };
    let (formats, inputs) = if sample { (&Formats::ALL[..1], &Input::ALL[..2]) } else { (&Formats::ALL[..], &Input::ALL[..]) };
    for &formats in formats {
        for &input in inputs {
            for operation in Operation::ALL {
                counts.problem(&Problem::new(operation, input, formats)?)?;
            }
        }
    }
    Ok(counts)
}

impl Counts {
    fn problem(&mut self, p: &Problem) -> Result<()> {
        let exact: Vec<f32> = correct::exact(p).into_iter().map(|x| x as f32).collect();
        let correct: Vec<Vec<u8>> = correct::all(p)?.iter().map(|c| p.store(c, Rounding::NearestEven)).collect();
        let differences = decoded(p, &correct[0]).into_iter().zip(&exact).map(|(x, r)| (x - f64::from(*r)).abs());
        let trials = Trials { problem: p, baseline_error: differences.fold(0.0, f64::max), reference: bytemuck::cast_slice(&exact) };
        let column = p.input as usize;
        for result in &correct {
            for (rule, passed) in trials.judge(&self.rules, result)? {
                self.correct[rule][column].count(!passed);
                if !passed && self.rules[rule].name == BEST {
                    self.false_alarms.push(p.name());
                }
            }
        }
        let legal = Envelope::of(p, &correct);
        for defect in broken::all() {
            let Some(result) = defect.run(p)? else { continue };
            if legal.holds(&decoded(p, &result)) {
                continue;
            }
            for (rule, passed) in trials.judge(&self.rules, &result)? {
                self.broken[rule][column].count(!passed);
                if passed && self.rules[rule].name == BEST {
                    *self.misses.entry(broken::reason(p)).or_default().entry(defect.name).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    /// The table: for each rule the share of broken results that it refuses / the share of correct ones, in percent.
    pub fn table(&self) -> String {
        let used = |input: &Input| self.broken[0][*input as usize].of > 0;
        let inputs: Vec<Input> = Input::ALL.into_iter().filter(used).collect();
        let mut text = String::from("| rule | all |");
        inputs.iter().for_each(|input| text.push_str(&format!(" {} |", input.name())));
        text.push_str("\n|---|---|");
        text.push_str(&"---|".repeat(inputs.len()));
        for (rule, (broken, correct)) in self.rules.iter().zip(self.broken.iter().zip(&self.correct)) {
            let all = |row: &[Share]| row.iter().fold(Share::default(), |a, b| a.plus(*b));
            text.push_str(&format!("\n| {} | {} / {} |", rule.name, all(broken).percent(), all(correct).percent()));
            for &input in &inputs {
                text.push_str(&format!(" {} / {} |", broken[input as usize].percent(), correct[input as usize].percent()));
            }
        }
        text + "\n"
    }

    /// What was judged, and what the best rule judges wrongly.
    pub fn details(&self) -> String {
        let total = |counts: &[[Share; Input::ALL.len()]]| counts[0].iter().map(|share| share.of).sum::<u64>();
        let missed: u64 = self.misses.values().flat_map(BTreeMap::values).sum();
        let mut text = format!(
            "{} broken kernels, {} results of them that no correct kernel gives, {} correct results.\n\n{BEST} lets {missed} broken results pass:\n\n",
            broken::all().count(),
            total(&self.broken),
            total(&self.correct),
        );
        for (reason, defects) in &self.misses {
            let list: Vec<String> = defects.iter().map(|(name, n)| format!("{name} ({n})")).collect();
            text.push_str(&format!("* {reason}: {}.\n", list.join(", ")));
        }
        match self.false_alarms.as_slice() {
            [] => text + "\nIt refuses no correct result.\n",
            alarms => text + &format!("\nIt refuses {} correct results: {}.\n", alarms.len(), alarms.join(", ")),
        }
    }
}

/// Results of one problem, to be judged against one reference.
struct Trials<'a> {
    problem: &'a Problem,
    baseline_error: f64,
    reference: &'a [u8],
}

impl Trials<'_> {
    /// By each rule that has a tolerance for the formats: its index, and whether the result passes.
    fn judge(&self, rules: &[Rule], result: &[u8]) -> Result<Vec<(usize, bool)>> {
        let p = self.problem;
        let layout = || Layout::contiguous(&[p.rows, p.columns]);
        let result = TensorRef::from_host_bytes(result, p.formats.output, layout()?)?;
        let reference = TensorRef::from_host_bytes(self.reference, DType::F32, layout()?)?;
        let verdicts = rules.iter().enumerate().map(|(i, rule)| {
            let passed = rule.passes(p, self.baseline_error, &result, &reference)?;
            Ok(passed.map(|passed| (i, passed)))
        });
        verdicts.filter_map(Result::transpose).collect()
    }
}

fn decoded(p: &Problem, bytes: &[u8]) -> Vec<f64> {
    let dtype = p.formats.output;
    (0..p.rows * p.columns).map(|i| dtype.decode(dtype.load_bits(bytes, i))).collect()
}

/// For each element the least and the largest of the correct results.
struct Envelope(Vec<[f64; 2]>);

impl Envelope {
    fn of(p: &Problem, correct: &[Vec<u8>]) -> Envelope {
        let mut bounds = vec![[f64::INFINITY, f64::NEG_INFINITY]; p.rows * p.columns];
        for result in correct {
            for (bound, x) in bounds.iter_mut().zip(decoded(p, result)) {
                *bound = [bound[0].min(x), bound[1].max(x)];
            }
        }
        Envelope(bounds)
    }

    fn holds(&self, result: &[f64]) -> bool {
        result.iter().zip(&self.0).all(|(x, [least, largest])| least <= x && x <= largest)
    }
}
