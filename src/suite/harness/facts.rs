//! Everything that decides a case, for people: what `suite show` prints. Defaults stand there like what the file says.

use super::cases::{Case, Tensors, Work};
use super::entry::ModuleEntry;
use super::kernel::Kernel;
use super::module::{FittedPlan, Initial};
use super::problem::{Method, Problem};
use super::rule::CaseRule;
use super::scales::NAMES;
use crate::error::Result;
use crate::verify::bound::Bound;
use crate::verify::{Limits, short};
use std::path::Path;

/// A label and what is behind it.
type Fact = (String, String);

fn fact(label: impl Into<String>, text: impl Into<String>) -> Fact {
    (label.into(), text.into())
}

impl Case {
    /// What decides the case beside its rule: labels and texts, in the order in which they matter.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut out = vec![fact("case", &self.name), fact("computes", self.about())];
        out.extend(self.size.iter().map(|(key, size)| fact(*key, size)));
        match &self.work {
            Work::Tensors(tensors) => out.extend(tensors.facts()),
            Work::Study(study) => out.extend(study.facts()),
        }
        let listed = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join("  ") };
        out.push(fact("limits", listed(self.limits.iter().map(|(name, limit)| format!("{name} <= {limit:e}")).collect())));
        out.push(fact("expected", format!("{:?}", self.expected).to_lowercase()));
        let timeout = self.timeout.map_or("that of the run (--timeout)".to_owned(), |timeout| format!("{} s", timeout.as_secs_f64()));
        out.push(fact("timeout", timeout));
        out.push(fact("axes", listed(self.axes.iter().map(|(key, value)| format!("{key}={value}")).collect())));
        out.push(fact("groups", listed(self.groups.clone())));
        out
    }

    /// What the case's rule demands against a reference; nothing for a case that has none.
    ///
    /// # Errors
    /// None that a case of a suite can have: they were found when it was read.
    pub fn rule(&self) -> Result<Option<Limits>> {
        let Work::Tensors(t) = &self.work else { return Ok(None) };
        let CaseRule::Reference(rule) = t.rule else { return Ok(None) };
        t.limits(&rule).map(Some)
    }
}

impl Tensors {
    fn facts(&self) -> Vec<Fact> {
        let mut out = Vec::new();
        match &self.problem {
            Problem::Gemm(product, epilogue) => {
                let letter = |transposed: bool| if transposed { 't' } else { 'n' };
                out.push(fact("layout", product.transposed.map(letter).iter().collect::<String>()));
                let scales = NAMES.into_iter().zip(product.scales.of());
                out.extend(scales.map(|(name, scales)| fact(name, scales.map_or("none".to_owned(), |scales| scales.to_string()))));
                out.push(fact("alpha", epilogue.alpha().to_string()));
                out.push(fact("beta", epilogue.beta().to_string()));
                out.push(fact("bias", epilogue.bias().to_string()));
                out.push(fact("activation", format!("{:?}", epilogue.activation()).to_lowercase()));
                out.push(fact("FLOPs", (2 * self.problem.products()).to_string()));
            }
            Problem::Conv(param, direction) => {
                let [input, filter, output] = super::problem::ROLES.map(|role| param.layout(role).to_string());
                out.push(fact("direction", direction.name()));
                out.push(fact("layout", format!("{input},{filter},{output}")));
                out.push(fact("FLOPs", format!("{}, padding included", param.flops())));
            }
            Problem::Operator(_) => {}
        }
        for ((name, shape), data) in self.problem.inputs().iter().zip(&self.data) {
            let data = data.to_string();
            let seed = if data.contains("/seed=") { "" } else { "/seed=0" };
            let dtype = self.problem.input_dtype(name, self.formats);
            out.push(fact(format!("input {name}"), format!("{dtype}{shape:?}  {data}{seed}")));
        }
        out.push(fact("result", format!("{}{:?}", self.formats.output, self.problem.output())));
        out.extend(self.kernel.facts(&self.kernel_text));
        let reference = match self.rule {
            CaseRule::Reference(_) => format!("{} in {}", self.reference, self.reference_type),
            CaseRule::Check(_) => "none: the exact result is made from the operands".to_owned(),
        };
        out.push(fact("reference", reference));
        out.push(fact("repeatable", if self.repeatable { "true: a second run gives the same bits" } else { "false: both runs pass" }));
        out.push(fact("rule", &self.rule_text));
        if let CaseRule::Check(rule) = self.rule
            // A case without a bound was refused.
            && let Ok((Bound { gamma, relative, floor, rounding }, arithmetic, confidence)) = rule.bound(&self.problem, self.formats)
        {
            let [gamma, relative, floor] = [gamma, relative, floor].map(|x| short(x, 4));
            out.push(fact(
                "  decides",
                "elements: |a-r| <= gamma S + relative |r| + floor, with r the exact result and S the sum of |a||b|",
            ));
            out.push(fact("  gamma", gamma));
            out.push(fact("  relative", relative));
            let scaled = if self.problem.scales().any() { ", times the largest operands and scales where they are beyond 1" } else { "" };
            out.push(fact("  floor", floor + scaled));
            out.extend(rounding.map(|format| fact("  and a rounding", format!("half of the spacing of {format}"))));
            out.push(fact("  for", arithmetic));
            out.push(fact("  bound is", confidence.to_string()));
        }
        out
    }
}

impl Kernel {
    /// What runs; `name` is what the suite calls it.
    fn facts(&self, name: &str) -> Vec<Fact> {
        match self {
            Kernel::Arithmetic { method, device } => {
                let device = match (method, device) {
                    (Method::Steps(_), _) => "the host",
                    (Method::Products(_), Some(device)) => device,
                    (Method::Products(_), None) => "the run's device",
                };
                vec![fact("kernel", format!("{method} on {device}"))]
            }
            Kernel::Closure(name) => vec![fact("kernel", format!("{name}, a closure of this program"))],
            Kernel::Command(entry) => {
                let words: Vec<String> = entry.command.iter().map(|word| super::cases::quoted(word)).collect();
                vec![
                    fact("kernel", format!("{name}, a program")),
                    fact("  command", words.join(" ")),
                    fact("  folder", folder(&entry.folder)),
                ]
            }
            Kernel::Module(module, plan) => code(name, module.entry(), plan),
        }
    }
}

/// A folder; that of a suite in the current one has an empty path.
fn folder(path: &Path) -> String {
    let here = path.as_os_str().is_empty();
    if here { ".".to_owned() } else { path.display().to_string() }
}

/// GPU code, its launches for the case's problem, and its memory.
fn code(name: &str, entry: &ModuleEntry, plan: &FittedPlan) -> Vec<Fact> {
    let mut out = vec![fact("kernel", format!("{name}, {}", entry.code))];
    out.push(fact("  folder", folder(&entry.folder)));
    out.extend((!entry.options.is_empty()).then(|| fact("  options", entry.options.join(" "))));
    let initial = match entry.plan.initial {
        Initial::Poison => "poison: unwritten elements are found",
        Initial::Zero => "zero: unwritten elements cannot be told from zeros",
    };
    out.push(fact("  initial", initial));
    out.extend(plan.workspace_bytes.map(|bytes| fact("  workspace", format!("{bytes} bytes"))));
    for (line, fitted) in entry.plan.launches.iter().zip(&plan.launches) {
        let grid = fitted.grid;
        let extents = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        let sizes = format!("grid {}  block {}  shared {} bytes", extents(grid.blocks), extents(grid.threads), grid.shared_bytes);
        out.push(fact("  launch", format!("{}({})  {sizes}", line.function, line.arguments())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Kernels, Suite, SuiteFile};

    const SUITE: &str = "[[gemm]]
name = 'defaults'
size = '2x64x64x256'
layout = 'nt'
[[gemm]]
name = 'given'
size = '4x4x4'
kernel = ['program', 'code', 'gfx90a@host', 'mine']
seed = 0
data = 'int:-3,3 | constant:1/seed=7'
rule = 'rtol=1e-3,atol=0'
reference = 'f32'
reference_type = 'f32'
limits = { rms = 1e-3, max_abs = 0.5 }
timeout = 2.5
repeatable = false
expected = 'any'
groups = ['nightly']
[[gemm]]
name = 'integers'
size = '4x4x8'
type = ['i8', 'u8']
output = 'f32'
kernel = 'f64'
bias = true
[[gemm]]
name = 'checked'
size = '4x4x8'
rule = { check = true, split_k = 2 }
[[conv]]
size = '2 1 8 16 4 3 3 14 14 1 1 1 1 1 1 1 1'
direction = 'bwd_weight'
[[operator]]
operator = 'relu'
shape = '4x3'
[[study]]
configuration = 'conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16'
[kernels.program]
command = ['python3', 'my gemm.py']
[kernels.code]
source = 'gemm.hip'
options = ['-O3', '-DX']
initial = 'zero'
workspace_bytes = '4*m*n'
launches = [
  { function = 'keep', grid = ['n', 'ceil(m/3)'], block = 64, shared_bytes = 'k', arguments = ['a', 'b', 'workspace', 'i64:m*k', 'f32:1.5'] },
  { function = 'add', grid = 1, block = 8, arguments = ['workspace', 'result'] },
]
";

    #[test]
    fn facts_are_all_that_decides_a_case() {
        let kernels = Kernels::default().with("mine", |_, _| Ok(()));
        let suite = Suite::new(&SuiteFile::parse("s.toml", SUITE).unwrap(), "s.toml", kernels).unwrap();
        let text = |case: &str| {
            let facts = suite.case(case).unwrap().facts();
            facts.into_iter().map(|(label, text)| format!("{label}: {text}\n")).collect::<String>()
        };
        for (case, lines) in [
            (
                "defaults",
                "size: 2x64x64x256\nlayout: nt\nscale_a: none\nscale_b: none\nalpha: 1\nbeta: 0\nbias: false\nactivation: none\nFLOPs: 4194304\ninput a: f16[2, 64, 256]  uniform:-1,1/seed=1\n\
                input b: f16[2, 64, 256]  uniform:-1,1/seed=1/stream=1\nresult: f16[2, 64, 64]\nkernel: f32-fma on the run's device\n\
                reference: f64 in f64\nrepeatable: true: a second run gives the same bits\nrule: rounding\nlimits: none\nexpected: pass\n\
                timeout: that of the run (--timeout)\naxes: none\ngroups: none\n",
            ),
            ("given/program", "kernel: program, a program\n  command: python3 'my gemm.py'\n  folder: .\n"),
            ("given/program", "input a: f16[4, 4]  int:-3,3/seed=0\ninput b: f16[4, 4]  constant:1/seed=7/stream=1\n"),
            ("given/program", "reference: f32 in f32\nrepeatable: false: both runs pass\nrule: rtol=1e-3,atol=0\n"),
            (
                "given/program",
                "limits: rms <= 1e-3  max_abs <= 5e-1\nexpected: any\ntimeout: 2.5 s\naxes: kernel=program\ngroups: nightly\n",
            ),
            (
                "given/code",
                "kernel: code, gemm.hip\n  folder: .\n  options: -O3 -DX\n  initial: zero: unwritten elements cannot be told from zeros\n",
            ),
            ("given/code", "  workspace: 64 bytes\n"),
            ("given/code", "  launch: keep(a, b, workspace, i64:m*k, f32:1.5)  grid 4x2x1  block 64x1x1  shared 4 bytes\n"),
            ("given/code", "  launch: add(workspace, result)  grid 1x1x1  block 8x1x1  shared 0 bytes\n"),
            ("given/gfx90a@host", "kernel: gfx90a:f16 on host\n"),
            ("given/mine", "kernel: mine, a closure of this program\n"),
            (
                "conv",
                "direction: bwd_weight\nlayout: gnhwc,gkyxc,gnhwk\nFLOPs: 1806336, padding included\ninput input: f16[1, 8, 14, 14, 4]",
            ),
            (
                "integers/i8",
                "input a: i8[4, 8]  int:-5,5/seed=1\ninput b: i8[8, 4]  int:-5,5/seed=1/stream=1\ninput bias: f32[4]  uniform:-1,1/seed=1/stream=2\n",
            ),
            ("integers/u8", "input a: u8[4, 8]  int:0,5/seed=1\ninput b: u8[8, 4]  int:0,5/seed=1/stream=1\n"),
            ("checked", "reference: none: the exact result is made from the operands\nrepeatable: true"),
            (
                "checked",
                "rule: check=true,split_k=2\n  decides: elements: |a-r| <= gamma S + relative |r| + floor, with r the exact result and S the sum of |a||b|\n  gamma: ",
            ),
            (
                "checked",
                "  and a rounding: half of the spacing of f16\n  for: f16 by f16, sums in f32, 2 parts of k\n  bound is: exceeded by chance once in 1000000 comparisons\n",
            ),
            ("operator", "shape: 4x3\ninput x: f16[4, 3]"),
            ("operator", "kernel: steps in f32 on the host\n"),
            ("study", "data: from [-1, 1]\nseed: 1\narch: gfx90a\nkernel: xdlops\nvalidator: pv\nvariant: first\nlimits: none\n"),
        ] {
            assert!(text(case).contains(lines), "{case}: {lines}\n{}", text(case));
        }
        let rtol = |case: &str| suite.case(case).unwrap().rule().unwrap().map(|limits| limits.tolerance.rtol());
        assert_eq!((rtol("given/mine"), rtol("study")), (Some(1e-3), None), "what a rule demands, where there is one");
    }
}
