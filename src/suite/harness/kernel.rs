//! Kernels under test: the arithmetic of a model or reference on any device, an external command, or a closure.

use super::cases::Case;
use super::command;
use super::entry::{KernelEntry, ProgramEntry};
use super::epilogue::GemmEpilogue;
use super::guard::{Guard, Poison};
use super::module::{FittedPlan, ModuleKernel};
use super::operators::{Operator, Steps};
use super::problem::{Input, Method, Party, Problem};
use super::scales::BlockScales;
use crate::device::{Device, Stream, TensorMut};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix_core::Arch;
use crate::reference::Arithmetic;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a kernel may fail with.
pub type KernelError = Box<dyn std::error::Error + Send + Sync>;

type Closure = Arc<dyn Fn(&mut Launch<'_>, &Stream) -> Result<(), KernelError> + Send + Sync>;

/// The kernels that a program brings, by the names that suites call them by.
///
/// ```
/// use hipverify::suite::Kernels;
/// // C = A B in f32, on the host: what is under test may be anything.
/// let kernels = Kernels::default().with("mine", |launch, _stream| {
///     let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
///     let &[m, n] = launch.output_shape() else { return Err("matrices only".into()) };
///     let k = a.len() / m;
///     let element = |i: usize| (0..k).map(|p| a[i / n * k + p] * b[p * n + i % n]).sum();
///     Ok(launch.write((0..m * n).map(element).collect::<Vec<f32>>().as_slice())?)
/// });
/// ```
#[derive(Clone, Default)]
pub struct Kernels(Vec<(String, Closure)>);

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Kernels {
    /// Adds a kernel. The closure enqueues its work on the stream, which is waited for, or does it before it returns; a panic in it is an error of its case.
    ///
    /// [`Suite::new`](super::Suite::new) refuses a name that another kernel has: of this list, of the suite's file, or one that comes with hipverify, such as `fma`.
    #[must_use]
    pub fn with(
        mut self,
        name: &str,
        kernel: impl Fn(&mut Launch<'_>, &Stream) -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Kernels {
        self.0.push((name.to_owned(), Arc::new(kernel)));
        self
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn get(&self, name: &str) -> Option<&Closure> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, kernel)| kernel)
    }

    /// Refuses a name that two kernels have, of which one would run in the other's place: names of this list, and the `described` ones of a suite's file.
    pub(crate) fn expect_distinct(&self, file: &str, described: &BTreeMap<String, KernelEntry>) -> Result<()> {
        let mut seen = HashSet::new();
        for name in self.names() {
            let other = match name {
                _ if comes_with_hipverify(name) => "a kernel of that name comes with hipverify".to_owned(),
                _ if described.contains_key(name) => format!("[kernels.{name}] of {file} is another kernel of that name"),
                _ if !seen.insert(name) => "two closures have that name".to_owned(),
                _ => continue,
            };
            return Err(Error::InvalidArgument { what: "the name of a closure", value: name.to_owned(), limit: other });
        }
        Ok(())
    }
}

/// Whether `kernel` has a meaning of its own for a name. A kernel of a file or of a program by that name would run in its place.
pub(crate) fn comes_with_hipverify(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    // Steps of an operator have the same names whatever its result.
    name == "fma" || name.parse::<Arithmetic>().is_ok() || name.parse::<Arch>().is_ok() || Steps::parse(name, DType::F32).is_ok()
}

/// What a kernel is run with: the case, its inputs, the memory for its result, and workspaces where it asks for them.
#[derive(Debug)]
pub struct Launch<'a> {
    case: &'a Case,
    inputs: &'a [(&'static str, Guard)],
    output: &'a mut Guard,
    /// What this run's buffers hold before.
    poison: Poison,
    used: Used,
}

/// What a kernel asked for beside its inputs and its result.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// Workspaces, to be kept until the stream has been waited for.
    pub(crate) workspaces: Vec<Guard>,
    /// Whether the result began as zeros.
    pub(crate) zeroed: bool,
}

impl<'a> Launch<'a> {
    pub(crate) fn new(case: &'a Case, inputs: &'a [(&'static str, Guard)], output: &'a mut Guard, poison: Poison) -> Launch<'a> {
        Launch { case, inputs, output, poison, used: Used::default() }
    }

    pub(crate) fn used(self) -> Used {
        self.used
    }

    /// The case.
    #[must_use]
    pub fn case(&self) -> &'a Case {
        self.case
    }

    /// The operator of an `[[operator]]` case.
    #[must_use]
    pub fn operator(&self) -> Option<&'a Operator> {
        self.case.operator()
    }

    /// Scalars, bias and activation of a `[[gemm]]` case.
    #[must_use]
    pub fn gemm(&self) -> Option<&'a GemmEpilogue> {
        self.case.gemm()
    }

    /// What A and B of a `[[gemm]]` case are multiplied by, element by element: the inputs `scale_a` and `scale_b`. `None` where an operand has no scales.
    #[must_use]
    pub fn scales(&self) -> [Option<BlockScales>; 2] {
        self.case.scales()
    }

    /// The input of that number: A, B and those of [`GemmEpilogue`] of a GEMM, both operands of a convolution, those of [`Operator::inputs`].
    ///
    /// # Panics
    /// When there are fewer, with the names of those that there are: every problem has as many as its documentation says.
    #[must_use]
    #[track_caller]
    pub fn input(&self, number: usize) -> &'a Guard {
        let Some((_, guard)) = self.inputs.get(number) else {
            let names = self.inputs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            panic!("there is no input {number}: `{}` has {}, counted from 0: {names}", self.case.name, self.inputs.len());
        };
        guard
    }

    /// The input of that name, such as `c`, `bias` or `scale_a`, where the case has it.
    #[must_use]
    pub fn input_named(&self, name: &str) -> Option<&'a Guard> {
        self.inputs.iter().find(|(input, _)| *input == name).map(|(_, guard)| guard)
    }

    /// The inputs with their names.
    #[must_use]
    pub fn inputs(&self) -> &'a [(&'static str, Guard)] {
        self.inputs
    }

    /// The extents of the result.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        self.output.shape()
    }

    /// The format of the result.
    #[must_use]
    pub fn output_dtype(&self) -> DType {
        self.output.dtype()
    }

    /// The memory of the result, for kernels that write it on the device.
    ///
    /// # Errors
    /// None that a launch can have.
    pub fn output(&mut self) -> Result<TensorMut<'_>> {
        self.output.tensor_mut()
    }

    /// Sets the result to zeros in place of the poison, for kernels that add to it; to be called before anything is enqueued. Elements that the kernel does not
    /// write cannot be told from zeros then, as the case's result says.
    ///
    /// # Errors
    /// A failed launch.
    pub fn zero_output(&mut self) -> Result<()> {
        self.used.zeroed = true;
        self.output.fill_bytes(0)
    }

    /// Memory of so many bytes for what a kernel computes on the way: between red zones, which are checked after the run, and poisoned, with other bytes in
    /// the second run. It lives until the stream has been waited for.
    ///
    /// ```
    /// use hipverify::suite::Kernels;
    /// let kernels = Kernels::default().with("split", |launch, _stream| {
    ///     launch.zero_output()?;
    ///     let _partial_sums = launch.workspace(4 << 10)?.as_mut_ptr();
    ///     // ... launches on the stream that write the partial sums, and that add them to `launch.output()?.as_mut_ptr()` ...
    ///     Ok(())
    /// });
    /// ```
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn workspace(&mut self, bytes: usize) -> Result<TensorMut<'_>> {
        let mut workspace = Guard::new(self.output.device(), DType::U8, &[bytes])?.named("workspace");
        workspace.fill_bytes(self.poison.byte())?;
        let at = self.used.workspaces.len();
        self.used.workspaces.push(workspace);
        self.used.workspaces[at].tensor_mut()
    }

    /// Writes the result from the host, for kernels that computed it there.
    ///
    /// # Errors
    /// When the format or the number of elements is another, or a transfer fails.
    pub fn write<T: crate::dtype::Element>(&mut self, elements: &[T]) -> Result<()> {
        self.output.copy_from_slice(elements)
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.copy_from_bytes(bytes)
    }
}

/// The kernels that a suite's file describes, by name: what all cases share.
#[derive(Debug)]
pub(crate) struct Entries(BTreeMap<String, Entry>);

#[derive(Debug)]
enum Entry {
    Program(ProgramEntry),
    Module(Arc<ModuleKernel>),
}

impl Entries {
    pub(crate) fn new(entries: &BTreeMap<String, KernelEntry>) -> Entries {
        let shared = |(name, entry): (&String, &KernelEntry)| {
            let entry = match entry {
                KernelEntry::Program(program) => Entry::Program(program.clone()),
                KernelEntry::Module(module) => Entry::Module(Arc::new(ModuleKernel::new(name, (**module).clone()))),
            };
            (name.clone(), entry)
        };
        Entries(entries.iter().map(shared).collect())
    }
}

/// The kernel of a case.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    /// An arithmetic, on the run's device or another one.
    Arithmetic { method: Method, device: Option<String> },
    /// A program.
    Command(ProgramEntry),
    /// GPU code, and its launches for the case's problem.
    Module(Arc<ModuleKernel>, FittedPlan),
    /// One that the program brought.
    Closure(String),
}

impl Kernel {
    /// The kernel of that name that a suite's file or the program brings; nothing where neither has one.
    pub(crate) fn named(text: &str, problem: &Problem, entries: &Entries, kernels: &Kernels) -> Result<Option<Kernel>, KernelError> {
        match entries.0.get(text) {
            Some(Entry::Program(entry)) => return Ok(Some(Kernel::Command(entry.clone()))),
            Some(Entry::Module(module)) => {
                let plan = module.entry().plan.fit(problem).map_err(|reason| format!("[kernels.{text}]: {reason}"))?;
                return Ok(Some(Kernel::Module(Arc::clone(module), plan)));
            }
            None => {}
        }
        Ok(kernels.get(text).map(|_| Kernel::Closure(text.to_owned())))
    }

    /// Reads the value of `kernel` for sums of products whose operands have these formats.
    pub(crate) fn parse(
        text: &str,
        operands: [DType; 2],
        problem: &Problem,
        entries: &Entries,
        kernels: &Kernels,
    ) -> Result<Kernel, KernelError> {
        if let Some(kernel) = Kernel::named(text, problem, entries, kernels)? {
            return Ok(kernel);
        }
        let (name, device) = text.split_once('@').map_or((text, None), |(name, device)| (name, Some(device.to_owned())));
        let arithmetic = match Arithmetic::for_operands(name, operands) {
            Err(Error::InvalidArgument { .. }) => {
                let own = entries.0.keys().map(String::as_str).chain(kernels.names());
                let known: Vec<&str> = Arch::ALL.iter().map(|arch| arch.name()).chain(["fma"]).chain(own).collect();
                return Err(Box::new(Error::InvalidArgument {
                    what: "kernel",
                    value: text.to_owned(),
                    limit: format!("it must be {}, an arithmetic such as f64 or gfx90a:bf16, or a name of [kernels]", known.join(", ")),
                }));
            }
            found => found?,
        };
        Ok(Kernel::Arithmetic { method: Method::Products(arithmetic), device })
    }

    /// Runs it once.
    pub(crate) fn run(&self, problem: &Problem, launch: &mut Launch<'_>, kernels: &Kernels, stream: &Stream) -> Result<(), KernelError> {
        match self {
            Kernel::Arithmetic { method, device } => Ok(compute(problem, *method, device.as_deref(), launch)?),
            Kernel::Command(entry) => command::run(entry, launch),
            Kernel::Module(module, plan) => module.run(plan, launch, stream),
            Kernel::Closure(name) => match kernels.get(name) {
                Some(kernel) => caught(name, || kernel(launch, stream)),
                None => Err(format!("the kernel `{name}` is not in this program").into()),
            },
        }
    }
}

/// What a closure gives, and an error where it panics: the other cases go on. Of what it may have left half done only its buffers are used afterwards, which go with
/// the failed run.
fn caught(name: &str, kernel: impl FnOnce() -> Result<(), KernelError>) -> Result<(), KernelError> {
    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(format!("the kernel `{name}` panicked: {}", text.unwrap_or("without a message")).into())
    })
}

/// Computes by an arithmetic, on another device where that is asked for.
fn compute(problem: &Problem, method: Method, device: Option<&str>, launch: &mut Launch<'_>) -> Result<()> {
    let own = launch.output.device().clone();
    let device = device.map_or(Ok(own.clone()), Device::open)?;
    if device.same_as(&own) {
        return problem.compute(method, Party::Kernel, launch.inputs, launch.output);
    }
    let inputs: Vec<Input> = launch.inputs.iter().map(|(name, guard)| Ok((*name, guard.copy_to(&device)?))).collect::<Result<_>>()?;
    let mut to = launch.output.copy_to(&device)?;
    problem.compute(method, Party::Kernel, &inputs, &mut to)?;
    launch.output.copy_from(&to)
}
