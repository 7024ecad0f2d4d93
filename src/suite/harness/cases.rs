//! The cases of a suite: every combination of the values of a table's axes, checked, each with a name that stays the same.

use super::data::data;
use super::epilogue::{GemmEpilogue, SCALED_TERMS, TERMS};
use super::file::{KeyValue, Line, Setting, SuiteFile, Table};
use super::formats::Formats;
use super::kernel::{Entries, Kernel, Kernels};
use super::keys::TableKind;
use super::operators::{Operator, Steps};
use super::problem::{Method, Problem, Product};
use super::record::Expected;
use super::rule::{CaseRule, Rule};
use super::saving::Saving;
use super::scales::{BlockScales, GemmScales, NAMES};
use super::{study, tensor_files};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::fill::FillSpec;
use crate::reference::{Accumulate, Arithmetic, ConvParam};
use crate::suite::replay::Shared;
use crate::verify::{Computation, Limits, NonFinite};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// A suite, ready to run.
#[derive(Debug, Clone)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it was read from, as in a command line.
    pub source: String,
    /// Its cases, in the order of the file; the last axis of a table varies fastest.
    pub cases: Vec<Case>,
    /// A hash of everything that its cases say: the same for the same suite.
    pub fingerprint: String,
    pub(crate) kernels: Kernels,
    /// Keys that were given other values.
    sets: Vec<String>,
    /// Where it runs, as a command line has it; nothing where that is the default.
    device: Option<String>,
    pub(crate) saving: Option<Saving>,
    /// What runs of the study have in common.
    pub(crate) shared: Arc<Shared>,
}

/// One case.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name: the table's and the values of its axes.
    pub name: String,
    /// The name of its table.
    pub table: String,
    /// The groups of its table.
    pub groups: Vec<String>,
    /// Its axes with their values.
    pub axes: Vec<(String, String)>,
    /// What is expected of it.
    pub expected: Expected,
    /// The largest values that pass, by metric.
    pub limits: Vec<(String, f64)>,
    /// How long it may take, where its table says.
    pub timeout: Option<Duration>,
    pub(crate) work: Work,
    pub(crate) size: Option<(&'static str, String)>,
}

/// What a case does.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    Tensors(Box<Tensors>),
    Study(Box<study::Study>),
}

/// A kernel that reads tensors and writes one, held against a reference.
#[derive(Debug, Clone)]
pub(crate) struct Tensors {
    pub problem: Problem,
    /// Formats of the inputs and of the result.
    pub formats: Formats,
    /// A generator an input.
    pub data: Vec<FillSpec>,
    pub kernel: Kernel,
    /// The kernel as the file has it; empty where it has none.
    pub kernel_text: String,
    pub reference: Method,
    pub reference_type: DType,
    pub rule: CaseRule,
    /// The rule as the file has it.
    pub rule_text: String,
    pub repeatable: bool,
}

impl Tensors {
    /// What a rule demands of the result against the reference.
    pub(crate) fn limits(&self, rule: &Rule) -> Result<Limits> {
        rule.limits_of_products(self.formats.output, self.reference_type, &self.computation(), self.problem.factors())
    }

    /// What rules ask about the computation.
    pub(crate) fn computation(&self) -> Computation {
        self.problem.computation(self.range())
    }

    /// The range that holds all numbers that are multiplied or added: inputs, of operands with scales the products. None where one of them has no bounds.
    fn range(&self) -> Option<[f64; 2]> {
        let names = self.problem.inputs();
        let of = |name: &str| names.iter().position(|(input, _)| *input == name).map(|number| self.data[number].range());
        let range = |(name, _): &(&'static str, Vec<usize>)| match *name {
            "a" => times(of("a")?, of("scale_a")),
            "b" => times(of("b")?, of("scale_b")),
            name => of(name)?,
        };
        let ranges: Option<Vec<[f64; 2]>> = names.iter().filter(|(name, _)| !NAMES.contains(name)).map(range).collect();
        ranges?.into_iter().reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
    }
}

/// The range of products of numbers of a range and, where there are some, of scales.
fn times(numbers: Option<[f64; 2]>, scales: Option<Option<[f64; 2]>>) -> Option<[f64; 2]> {
    let Some(scales) = scales else { return numbers };
    let ([low, high], [least, most]) = (numbers?, scales?);
    let products = [low * least, low * most, high * least, high * most];
    Some([products.into_iter().fold(f64::INFINITY, f64::min), products.into_iter().fold(f64::NEG_INFINITY, f64::max)])
}

impl Case {
    /// A number that grows with the time that it takes: products and elements.
    #[must_use]
    pub fn cost(&self) -> u128 {
        match &self.work {
            Work::Tensors(t) => {
                let elements = |shape: &[usize]| shape.iter().map(|&d| d as u128).product::<u128>();
                let inputs: u128 = t.problem.inputs().iter().map(|(_, shape)| elements(shape)).sum();
                // A result is computed twice, a reference once; elements are made, hashed and compared.
                3 * t.problem.products() + 64 * (inputs + elements(&t.problem.output())) + 100_000
            }
            Work::Study(study) => study.cost(),
        }
    }

    /// The operator of an `[[operator]]` case.
    #[must_use]
    pub fn operator(&self) -> Option<&Operator> {
        match self.problem() {
            Some(Problem::Operator(operator)) => Some(operator),
            Some(Problem::Gemm(..) | Problem::Conv(..)) | None => None,
        }
    }

    /// What is computed on tensors; nothing for a run of the study.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match &self.work {
            Work::Tensors(tensors) => Some(&tensors.problem),
            Work::Study(_) => None,
        }
    }

    /// What follows the sums of products of a `[[gemm]]` case.
    #[must_use]
    pub fn gemm(&self) -> Option<&GemmEpilogue> {
        self.problem()?.epilogue()
    }

    /// What A and B of a `[[gemm]]` case are multiplied by, element by element; `None` where an operand has no scales, as those of other cases.
    #[must_use]
    pub fn scales(&self) -> [Option<BlockScales>; 2] {
        self.problem().map_or([None; 2], |problem| problem.scales().of())
    }

    /// Whether it takes less time after the other one in the same process: a shard or a worker takes such cases together.
    pub(crate) fn shares_with(&self, other: &Case) -> bool {
        matches!((&self.work, &other.work), (Work::Study(one), Work::Study(other)) if one.shares_with(other))
    }

    /// Whether its kernel is GPU code.
    #[must_use]
    pub fn needs_gpu(&self) -> bool {
        matches!(&self.work, Work::Tensors(t) if matches!(t.kernel, Kernel::Module(..)))
    }

    /// Whether a second run of its kernel has to give the same bits.
    #[must_use]
    pub fn repeatable(&self) -> bool {
        !matches!(&self.work, Work::Tensors(t) if !t.repeatable)
    }

    /// Whether its rule passes values that are not finite where the reference has the same.
    #[must_use]
    pub fn passes_equal_nonfinite(&self) -> bool {
        matches!(self.rule(), Ok(Some(limits)) if limits.nonfinite == NonFinite::EqualWhenSame)
    }

    /// What the absolute tolerance of its rule is a multiple of, where that is another number than the scale of the tolerance says: of a GEMM whose result is more than a multiple of A B the rule `rounding`
    /// goes by the mean of all that is added, and of one with scales by what the largest products come to.
    #[must_use]
    pub fn rounding_scale(&self) -> Option<&'static str> {
        let Work::Tensors(t) = &self.work else { return None };
        let CaseRule::Reference(rule) = t.rule else { return None };
        let by_scale = matches!(self.rule(), Ok(Some(limits)) if limits.tolerance.scale().is_some());
        let terms = match t.problem.epilogue()? {
            _ if t.problem.scales().any() => SCALED_TERMS,
            epilogue if epilogue.is_multiple() => return None,
            _ => TERMS,
        };
        (rule.is_rounding() && by_scale).then_some(terms)
    }

    /// The size of its problem as its table has it, and the key that says so.
    #[must_use]
    pub fn size(&self) -> Option<(&'static str, &str)> {
        self.size.as_ref().map(|(key, size)| (*key, size.as_str()))
    }

    /// What it computes, for people.
    #[must_use]
    pub fn about(&self) -> String {
        match &self.work {
            Work::Tensors(t) => {
                let against = match t.rule {
                    CaseRule::Reference(_) => format!("against {} in {}", t.reference, t.reference_type),
                    CaseRule::Check(_) => "checked by its operands".to_owned(),
                };
                format!("{}, {}, {against}", t.problem.name(), t.formats)
            }
            Work::Study(study) => study.about(),
        }
    }
}

impl Suite {
    /// Makes the cases of a file. `source` is what a command line has to name to read it again.
    ///
    /// # Errors
    /// [`Error::File`] with line and case, when a value is none of its key's, or values do not fit each other; [`Error::InvalidArgument`] when one of `kernels` has the
    /// name of another kernel.
    pub fn new(file: &SuiteFile, source: &str, kernels: Kernels) -> Result<Suite> {
        kernels.expect_distinct(source, &file.kernels)?;
        let (mut cases, entries) = (Vec::new(), Entries::new(&file.kernels));
        let (mut names, mut hash) = (HashSet::new(), Fnv::new());
        for table in &file.tables {
            let reader = TableReader { entries: &entries, table, kernels: &kernels };
            for choice in combinations(table, MOST - cases.len())? {
                let case = reader.case(&choice)?;
                if !names.insert(case.name.clone()) {
                    return Err(table.line.error(format!("two cases are named `{}`: an axis has a value twice", case.name)));
                }
                hash.add(&case.name);
                choice.values.iter().for_each(|(setting, value)| hash.add(&format!("{}={value}", setting.key.name)));
                hash.add(&format!("{:?} {:?} {:?}", case.expected, case.limits, described(&case)));
                cases.push(case);
            }
        }
        let (name, description) = (file.name.clone(), file.description.clone());
        let (source, fingerprint, sets) = (source.to_owned(), hash.text(), file.sets.clone());
        Ok(Suite { name, description, source, cases, fingerprint, kernels, sets, device: None, saving: None, shared: Arc::default() })
    }

    /// The case of that name.
    #[must_use]
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// Keys that were given other values, as [`SuiteFile::set`] takes them.
    #[must_use]
    pub fn sets(&self) -> &[String] {
        &self.sets
    }

    /// The same suite, which keeps cases that do not end as expected.
    #[must_use]
    pub fn saving(self, saving: Saving) -> Suite {
        Suite { saving: Some(saving), ..self }
    }

    /// The same suite on a device of the command line, which the [command](Suite::command) of a case names.
    #[cfg(feature = "cli")]
    #[must_use]
    pub(crate) fn on(self, device: &str) -> Suite {
        Suite { device: (device != "best").then(|| device.to_owned()), ..self }
    }

    /// The command line that runs a case alone; of a closure, which no other program has, a shell's comment that says so.
    #[must_use]
    pub fn command(&self, case: &Case) -> String {
        if let Work::Tensors(tensors) = &case.work
            && let Kernel::Closure(name) = &tensors.kernel
        {
            return format!("# {} of {}: the kernel `{name}` is a closure of the program that ran it", case.name, self.source);
        }
        let sets: String = self.sets.iter().map(|set| format!(" --set {}", quoted(set))).collect();
        let device = self.device.as_ref().map_or(String::new(), |device| format!(" --device {}", quoted(device)));
        format!("hipverify suite run {}{sets}{device} --filter {}", quoted(&self.source), quoted(&format!("={}", case.name)))
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    match !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "=/._-,:@+".contains(c)) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// One value for each key of a table.
struct Choice<'a> {
    values: Vec<(&'a Setting, &'a str)>,
    /// Which of them are axes.
    axes: Vec<usize>,
}

impl Choice<'_> {
    fn value(&self, key: &str) -> Option<(&str, &Line)> {
        self.values.iter().find(|(setting, _)| setting.key.name == key).map(|(setting, value)| (*value, &setting.line))
    }
}

/// The most cases of a suite: a list too many makes more in no time.
const MOST: usize = 1_000_000;

/// Every combination of a table's values, of which there may be `left`.
fn combinations(table: &Table, left: usize) -> Result<Vec<Choice<'_>>> {
    let expanded: Vec<(&Setting, Vec<&str>, bool)> = table
        .settings
        .iter()
        .filter(|s| !matches!(s.key.name, "name" | "groups" | "limits"))
        .map(|setting| match &setting.value {
            KeyValue::One(value) if value == "all" && setting.key.name == "configuration" => (setting, study::names(), true),
            KeyValue::One(value) => (setting, vec![value.as_str()], false),
            KeyValue::List(list) => (setting, list.iter().map(String::as_str).collect(), true),
            KeyValue::Numbers(_) | KeyValue::Texts(_) | KeyValue::Tables(_) => (setting, Vec::new(), false),
        })
        .collect();
    let count = expanded.iter().try_fold(1usize, |n, (_, values, _)| n.checked_mul(values.len()).filter(|&n| n <= left));
    let Some(count) = count else { return Err(table.line.error(format!("with this table the suite has more than {MOST} cases"))) };
    let axes: Vec<usize> = expanded.iter().enumerate().filter(|(_, (.., axis))| *axis).map(|(i, _)| i).collect();
    let choice = |mut number: usize| {
        let mut values: Vec<(&Setting, &str)> = Vec::with_capacity(expanded.len());
        for (setting, list, _) in expanded.iter().rev() {
            values.push((setting, list[number % list.len()]));
            number /= list.len();
        }
        values.reverse();
        Choice { values, axes: axes.clone() }
    };
    Ok((0..count).map(choice).collect())
}

/// Makes the cases of one table.
struct TableReader<'a> {
    entries: &'a Entries,
    table: &'a Table,
    kernels: &'a Kernels,
}

impl TableReader<'_> {
    fn case(&self, choice: &Choice<'_>) -> Result<Case> {
        let axes: Vec<(String, String)> =
            choice.axes.iter().map(|&i| (choice.values[i].0.key.name.to_owned(), choice.values[i].1.to_owned())).collect();
        let parts = std::iter::once(self.table.name.as_str()).chain(axes.iter().map(|(_, value)| value.as_str()));
        let name = parts.map(|part| part.split_whitespace().collect::<Vec<_>>().join("_")).collect::<Vec<_>>().join("/");
        let of = |key: &str| Values { choice, key: key.to_owned(), case: &name, table: self.table };
        let expected = match of("expected").text("pass") {
            "pass" => Expected::Pass,
            "untrusted" => Expected::Untrusted,
            "fail" => Expected::Fail,
            "any" => Expected::Any,
            other => return Err(of("expected").error(format!("expected cannot be {other}: it must be pass, untrusted, fail or any"))),
        };
        let timeout = match of("timeout").text("") {
            "" => None,
            text => match text.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|d| !d.is_zero()) {
                None => {
                    return Err(
                        of("timeout").error(format!("timeout cannot be {text}: it must be seconds, more than 0 and less than 2^64"))
                    );
                }
                some => some,
            },
        };
        let work = match self.table.kind {
            TableKind::Study => Work::Study(Box::new(study::Study::new(&of)?)),
            TableKind::Gemm | TableKind::Conv | TableKind::Operator => Work::Tensors(Box::new(self.tensors(&of)?)),
        };
        let limits = self.limits(&work)?;
        let table = self.table.name.clone();
        let size = self.table.kind.size_key().and_then(|key| Some((key, choice.value(key)?.0.to_owned())));
        Ok(Case { name, table, size, groups: self.list("groups"), axes, expected, limits, timeout, work })
    }

    fn tensors<'c>(&self, of: &impl Fn(&str) -> Values<'c>) -> Result<Tensors> {
        let problem = self.problem(of)?;
        let formats = Formats::new(of, &problem)?;
        let (kernel, reference) = self.methods(of, &problem, formats)?;
        if matches!(kernel, Kernel::Command(_)) {
            expect_files(of, &problem, formats)?;
        }
        // A sum of products that may be no whole number is rounded in an integer result, and so is its reference.
        let output = formats.output;
        let reference_type = if output.int_format().is_none() || whole(&problem, formats) { "f64" } else { output.name() };
        let rule = self.rule(of, &kernel)?;
        let tensors = Tensors {
            data: data(of, &problem, formats)?,
            problem,
            formats,
            kernel,
            kernel_text: of("kernel").text("").to_owned(),
            reference,
            reference_type: of("reference_type").parsed(reference_type)?,
            rule,
            rule_text: of("rule").text("rounding").to_owned(),
            repeatable: of("repeatable").parsed("true")?,
        };
        let makes_sense = match tensors.rule {
            CaseRule::Reference(rule) => {
                if let Method::Products(arithmetic) = tensors.reference {
                    expect_arithmetic("reference", arithmetic, &tensors.problem, formats).map_err(|e| of("reference").error(e))?;
                }
                tensors.limits(&rule).map(drop)
            }
            CaseRule::Check(rule) => rule.bound(&tensors.problem, formats).map(drop),
        };
        makes_sense.map_err(|e| of("rule").error(e))?;
        Ok(tensors)
    }

    /// By what the result of a kernel is judged. A check has no reference, so that nothing may be said of one.
    fn rule<'c>(&self, of: &impl Fn(&str) -> Values<'c>, kernel: &Kernel) -> Result<CaseRule> {
        let CaseRule::Check(rule) = of("rule").parsed("rounding")? else { return of("rule").parsed("rounding") };
        match ["reference", "reference_type"].into_iter().find(|key| !of(key).text("").is_empty()) {
            Some(key) => Err(of(key).error(format!("`{key}` has no say by the rule check, which needs no reference"))),
            None => Ok(CaseRule::Check(rule.for_kernel(kernel))),
        }
    }

    fn problem<'c>(&self, of: &impl Fn(&str) -> Values<'c>) -> Result<Problem> {
        if self.table.kind == TableKind::Operator {
            return Ok(Problem::Operator(Box::new(Operator::new(of)?)));
        }
        let size = match of("size").text("") {
            "" => return Err(of("size").error("`size` is missing")),
            text => text.to_owned(),
        };
        if self.table.kind != TableKind::Conv {
            let mut product = Product::parse(&size, of("layout").text("nn")).map_err(|e| of("size").error(e))?;
            product.scales = GemmScales::new(of, product.operands_along_k())?;
            return Ok(Problem::Gemm(product, GemmEpilogue::new(of)?));
        }
        let mut param: ConvParam = of("size").parsed("")?;
        if let [input, filter, output] = of("layout").text("").split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
            param = param.with_layouts(input, filter, output).map_err(|e| of("layout").error(e))?;
        } else if !of("layout").text("").is_empty() {
            return Err(of("layout").error("layout takes three: of input, filter and output, such as nhwgc,gkyxc,nhwgk"));
        }
        Ok(Problem::Conv(Box::new(param), of("direction").text("fwd").parse().map_err(|e| of("direction").error(e))?))
    }

    /// The kernel under test and the arithmetic of its reference.
    fn methods<'c>(&self, of: &impl Fn(&str) -> Values<'c>, problem: &Problem, formats: Formats) -> Result<(Kernel, Method)> {
        let Formats { operands, output } = formats;
        let Problem::Operator(operator) = problem else {
            let text = of("kernel").text(usual_kernel(operands)).to_owned();
            let kernel = Kernel::parse(&text, operands, problem, self.entries, self.kernels).map_err(|e| of("kernel").error(e))?;
            if let Kernel::Arithmetic { method: Method::Products(arithmetic), .. } = kernel {
                expect_arithmetic("kernel", arithmetic, problem, formats).map_err(|e| of("kernel").error(e))?;
            }
            return Ok((kernel, Method::Products(of("reference").parsed("f64")?)));
        };
        operator.expect_output(output).map_err(|e| of("output").error(e))?;
        let text = of("kernel").text("f32").to_owned();
        let kernel = match Kernel::named(&text, problem, self.entries, self.kernels).map_err(|e| of("kernel").error(e))? {
            Some(kernel) => kernel,
            None => Kernel::Arithmetic {
                method: Method::Steps(operator.kernel(&text, output).map_err(|e| of("kernel").error(e))?),
                device: None,
            },
        };
        Ok((kernel, Method::Steps(Steps::F64)))
    }

    fn list(&self, key: &str) -> Vec<String> {
        let found = self.table.settings.iter().find(|s| s.key.name == key);
        found.map_or(Vec::new(), |s| if let KeyValue::List(list) = &s.value { list.clone() } else { Vec::new() })
    }

    fn limits(&self, work: &Work) -> Result<Vec<(String, f64)>> {
        let known: &[&str] = match work {
            Work::Tensors(_) => &super::metrics::NAMES,
            Work::Study(_) => &study::METRICS,
        };
        let Some((setting, limits)) = self.table.settings.iter().find_map(|s| match &s.value {
            KeyValue::Numbers(limits) => Some((s, limits)),
            _ => None,
        }) else {
            return Ok(Vec::new());
        };
        match limits.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => {
                let near = super::keys::suggestion(name, known.iter().copied());
                Err(setting.line.error(format!("unknown metric `{name}`; {near}")))
            }
            None => match limits.iter().find(|(_, limit)| limit.is_nan() || *limit < 0.0) {
                Some((name, limit)) => Err(setting.line.error(format!("the limit of `{name}` is {limit}; it must be 0 or larger"))),
                None => Ok(limits.clone()),
            },
        }
    }
}

/// What the file says of the case's kernel, where it describes one.
fn described(case: &Case) -> Option<Vec<String>> {
    match &case.work {
        Work::Tensors(t) => match &t.kernel {
            Kernel::Command(entry) => Some(entry.command.clone()),
            Kernel::Module(module, _) => Some(module.entry().words()),
            Kernel::Arithmetic { .. } | Kernel::Closure(_) => None,
        },
        Work::Study(_) => None,
    }
}

/// Whether results are whole numbers before they are rounded: those of operators with integer results are, and sums of products where all factors are.
fn whole(problem: &Problem, formats: Formats) -> bool {
    let scalars = problem.epilogue().is_none_or(|epilogue| [epilogue.alpha(), epilogue.beta()].iter().all(|x| x.fract() == 0.0));
    let operands = formats.operands.iter().all(|dtype| dtype.int_format().is_some()) && !problem.scales().any();
    matches!(problem, Problem::Operator(_)) || operands && scalars
}

/// That files can have the tensors of a problem, by which a program gets them.
fn expect_files<'c>(of: &impl Fn(&str) -> Values<'c>, problem: &Problem, formats: Formats) -> Result<()> {
    let key = |name: &'static str| match name {
        "c" | "bias" => "output",
        name if NAMES.contains(&name) => name,
        _ => "type",
    };
    let inputs = problem.inputs().into_iter().map(|(name, shape)| (key(name), problem.input_dtype(name, formats), shape));
    for (key, dtype, shape) in inputs.chain([("output", formats.output, problem.output())]) {
        tensor_files::expect_file(dtype, &shape).map_err(|e| of(key).error(e))?;
    }
    Ok(())
}

/// That the arithmetic which a key names can take a problem's operands.
fn expect_arithmetic(key: &'static str, arithmetic: Arithmetic, problem: &Problem, formats: Formats) -> Result<()> {
    let [first, second] = formats.operands;
    problem.scales().expect(key, arithmetic)?;
    arithmetic.accepts(first, second)
}

/// The kernel of products whose operands have these formats where a case says nothing: f32 numbers are multiplied and added as such.
fn usual_kernel([first, second]: [DType; 2]) -> &'static str {
    if Arithmetic::from(Accumulate::F32Fma).accepts(first, second).is_ok() { "fma" } else { "f64" }
}

/// The value of a key in one case, and how to say that it is wrong.
pub(crate) struct Values<'a> {
    choice: &'a Choice<'a>,
    key: String,
    case: &'a str,
    table: &'a Table,
}

/// What a seed is.
pub(super) const WANTED_SEED: &str = "a whole number from 0 to 2^64-1";

impl<'a> Values<'a> {
    pub(crate) fn text<'t>(&self, default: &'t str) -> &'t str
    where
        'a: 't,
    {
        self.choice.value(&self.key).map_or(default, |(value, _)| value)
    }

    pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, default: &str) -> Result<T> {
        let text = self.choice.value(&self.key).map_or(default, |(value, _)| value);
        text.parse().map_err(|e| self.error(format!("`{}` = {text}: {e}", self.key)))
    }

    /// A number, whose type has messages that speak of digits and literals.
    pub(crate) fn number<T: std::str::FromStr>(&self, default: &str, wanted: &str) -> Result<T> {
        let text = self.text(default);
        text.parse().map_err(|_| self.error(format!("`{}` = {text}: {wanted} is wanted", self.key)))
    }

    pub(crate) fn error(&self, reason: impl std::fmt::Display) -> Error {
        let line = self.choice.value(&self.key).map_or(&self.table.line, |(_, line)| line);
        line.error(format!("case `{}`: {reason}", self.case))
    }
}

/// A hash of a text, in hexadecimal.
pub(crate) fn hash_of(text: &str) -> String {
    let mut hash = Fnv::new();
    hash.add(text);
    hash.text()
}

/// FNV-1a of 64 bits: a fingerprint that stays the same from version to version.
pub(crate) struct Fnv(u64);

impl Fnv {
    pub(crate) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a text and its end.
    pub(crate) fn add(&mut self, text: &str) {
        self.add_bytes(text.as_bytes());
        self.add_bytes(&[0xff]);
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    pub(crate) fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}
