//! Trials and their counts.

use super::broken;
use super::correct;
use super::problem::{Formats, Input, Problem};
use super::rules::{self, LISTED, Rule};
use hipverify::device::Layout;
use hipverify::dtype::Rounding;
use hipverify::{DType, Result, TensorRef};
use std::collections::BTreeMap;

/// Of the data.
const SEED: u64 = 2026;

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

/// A trial: a pair of formats and a kind of input, and the column of the table that it counts in.
pub type Trial = (String, Formats, Input);

/// One pair of formats and two kinds of input.
pub fn sample() -> Vec<Trial> {
    by_input(&Formats::ALL[..1], &Input::ALL[..2])
}

/// Every input in 16 and 32 bits, a column a kind of input.
pub fn whole() -> Vec<Trial> {
    by_input(&Formats::ALL, &Input::ALL)
}

fn by_input(formats: &[Formats], inputs: &[Input]) -> Vec<Trial> {
    inputs.iter().flat_map(|&input| formats.iter().map(move |&formats| (input.name().to_owned(), formats, input))).collect()
}

/// Formats of 8 bits and integers, a column a pair. Their ranges leave no room for small or large inputs.
pub fn narrow() -> Vec<Trial> {
    let inputs = [Input::Default, Input::Boundary, Input::OneSigned, Input::Long];
    Formats::NARROW.iter().flat_map(|&formats| inputs.map(|input| (formats.name(), formats, input))).collect()
}

/// By rule and column: broken results and correct ones.
pub struct Counts {
    rules: Vec<Rule>,
    columns: Vec<String>,
    broken: Vec<Vec<Share>>,
    correct: Vec<Vec<Share>>,
    /// Broken results and correct ones, judged or not.
    results: [u64; 2],
    /// By rule and class of defects, what was let pass.
    by_class: Vec<[Share; broken::CLASSES.len()]>,
    /// What the library's rules let pass: how many results, by rule, reason and defect.
    misses: BTreeMap<(&'static str, &'static str), BTreeMap<&'static str, u64>>,
    /// What they refuse.
    false_alarms: BTreeMap<&'static str, Vec<String>>,
    /// Kernels that are correct with an accumulator in 16 bits, judged by bounds that were told so.
    narrow_sums: Share,
}

/// Judges every result of these trials.
pub fn measure(trials: &[Trial]) -> Result<Counts> {
    let rules = rules::all();
    let mut columns: Vec<String> = trials.iter().map(|(column, ..)| column.clone()).collect();
    columns.dedup();
    let empty = vec![vec![Share::default(); columns.len()]; rules.len()];
    let mut counts = Counts {
        by_class: vec![[Share::default(); broken::CLASSES.len()]; rules.len()],
        columns,
        broken: empty.clone(),
        correct: empty,
        results: [0; 2],
        rules,
        misses: BTreeMap::new(),
        false_alarms: BTreeMap::new(),
        narrow_sums: Share::default(),
    };
    for (column, formats, input) in trials {
        let at = counts.columns.iter().position(|name| name == column).unwrap_or_default();
        for &operation in formats.operations() {
            counts.problem(&Problem::new(operation, *input, *formats, SEED)?, at)?;
        }
    }
    Ok(counts)
}

impl Counts {
    fn problem(&mut self, p: &Problem, column: usize) -> Result<()> {
        let exact = correct::exact(p);
        let reference = p.reference(&exact);
        let correct: Vec<Vec<u8>> = correct::all(p)?.iter().map(|c| p.store(c, Rounding::NearestEven)).collect();
        let differences = decoded(p, &correct[0]).into_iter().zip(&exact).map(|(x, r)| (x - r).abs());
        let trials = Trials { problem: p, baseline_error: differences.fold(0.0, f64::max), reference: &reference };
        for result in &correct {
            self.results[1] += 1;
            for (rule, passed) in trials.judge(&self.rules, result)? {
                self.correct[rule][column].count(!passed);
                if let (false, Some(name)) = (passed, listed(&self.rules[rule])) {
                    self.false_alarms.entry(name).or_default().push(p.name());
                }
            }
        }
        self.broken(p, column, &trials, &Envelope::of(p, &correct))?;
        self.narrow_sums(p)
    }

    fn broken(&mut self, p: &Problem, column: usize, trials: &Trials<'_>, legal: &Envelope) -> Result<()> {
        for (class, (_, defects)) in broken::CLASSES.iter().enumerate() {
            for defect in *defects {
                let Some(result) = defect.run(p)? else { continue };
                if legal.holds(&decoded(p, &result)) {
                    continue;
                }
                self.results[0] += 1;
                for (rule, passed) in trials.judge(&self.rules, &result)? {
                    self.broken[rule][column].count(!passed);
                    self.by_class[rule][class].count(passed);
                    if let (true, Some(name)) = (passed, listed(&self.rules[rule])) {
                        *self.misses.entry((name, broken::reason(p))).or_default().entry(defect.name).or_default() += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sums of products in an accumulator of 16 bits, which is what `check` is told.
    fn narrow_sums(&mut self, p: &Problem) -> Result<()> {
        let narrow = [DType::F16, DType::Bf16];
        for accumulator in narrow.into_iter().filter(|d| p.operation.is_product() && p.formats.input == *d && p.formats.output == *d) {
            let result = p.store(&broken::accumulated_in(p, accumulator)?, Rounding::NearestEven);
            let result = TensorRef::from_host_bytes(&result, p.formats.output, Layout::contiguous(&[p.rows, p.columns])?)?;
            self.narrow_sums.count(!rules::checked(p, &result, Some(accumulator))?);
        }
        Ok(())
    }

    /// The table: for each rule the share of broken results that it refuses / the share of correct ones, in percent.
    pub fn table(&self) -> String {
        let mut text = String::from("| rule | all |");
        self.columns.iter().for_each(|column| text.push_str(&format!(" {column} |")));
        text.push_str("\n|---|---|");
        text.push_str(&"---|".repeat(self.columns.len()));
        for (rule, (broken, correct)) in self.rules.iter().zip(self.broken.iter().zip(&self.correct)) {
            let all = |row: &[Share]| row.iter().fold(Share::default(), |a, b| a.plus(*b));
            text.push_str(&format!("\n| {} | {} / {} |", rule.name, all(broken).percent(), all(correct).percent()));
            for (broken, correct) in broken.iter().zip(correct) {
                text.push_str(&format!(" {} / {} |", broken.percent(), correct.percent()));
            }
        }
        text + "\n"
    }

    /// How many broken results each rule lets pass, by class of defects.
    pub fn classes(&self) -> String {
        let mut text = String::from("| rule |");
        broken::CLASSES.iter().for_each(|(name, _)| text.push_str(&format!(" {name} |")));
        text.push_str(&format!("\n|---|{}\n", "---|".repeat(broken::CLASSES.len())));
        for (rule, shares) in self.rules.iter().zip(&self.by_class) {
            let cell = |share: &Share| if share.of == 0 { " - |".to_owned() } else { format!(" {} of {} |", share.refused, share.of) };
            text.push_str(&format!("| {} |{}\n", rule.name, shares.iter().map(cell).collect::<String>()));
        }
        text
    }

    /// What was judged, and what the library's rules judge wrongly.
    pub fn details(&self) -> String {
        let [broken, correct] = self.results;
        let mut text = format!("{broken} results of broken kernels that no correct kernel gives, {correct} correct results.\n");
        for name in LISTED {
            let of_rule = || self.misses.iter().filter(|((rule, _), _)| *rule == name);
            let missed: u64 = of_rule().flat_map(|(_, defects)| defects.values()).sum();
            text.push_str(&format!("\n{name} lets {missed} broken results pass{}\n", if missed == 0 { "." } else { ":\n" }));
            for ((_, reason), defects) in of_rule() {
                let list: Vec<String> = defects.iter().map(|(name, n)| format!("{name} ({n})")).collect();
                text.push_str(&format!("* {reason}: {}.\n", list.join(", ")));
            }
            match self.false_alarms.get(name) {
                None => text.push_str("\nIt refuses no correct result.\n"),
                Some(alarms) => text.push_str(&format!("\nIt refuses {} correct results: {}.\n", alarms.len(), alarms.join(", "))),
            }
        }
        if self.narrow_sums.of > 0 {
            let Share { refused, of } = self.narrow_sums;
            text.push_str(&format!("\n`check`, told that accumulators have 16 bits, refuses {refused} of {of} results of such kernels.\n"));
        }
        text
    }
}

/// The name of a rule of the library.
fn listed(rule: &Rule) -> Option<&'static str> {
    LISTED.into_iter().find(|name| *name == rule.name)
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
        let reference = TensorRef::from_host_bytes(self.reference, p.formats.reference(), layout()?)?;
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
