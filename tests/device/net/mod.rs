//! Proof that the net holds: kernels that are right, each with one piece of its text replaced by what is wrong. The stand-in finds what is wrong,
//! or the result is not the expected one; and for the right text neither, under every schedule that is tried.
//!
//! * [`memory`], [`lanes`], [`arithmetic`], [`undefined`]: kernels of a line or two, made to be broken.
//! * [`addresses`]: the same, in a run that AddressSanitizer checks.
//! * [`mutants`], [`comparison`], [`matrix`]: those of `hip/`.

mod addresses;
mod arithmetic;
pub mod comparison;
mod lanes;
pub mod matrix;
mod memory;
pub mod mutants;
mod undefined;

use crate::compare::same_bytes;
use crate::standin::StandIn;
use crate::suite::tests;
use crate::target::Target;
use anyhow::{Context, Result, bail, ensure};
use hipverify::device::{Grid, Module, Stream};
use hipverify::{Device, DeviceMem};
use memory::{Form, Input};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

tests! {
    StandIn: accesses_to_memory, what_lanes_do_together, arithmetic_and_order, undefined_behaviour;
    AddressSanitizer: addresses;
}

fn accesses_to_memory(target: &Target) -> Result<()> {
    check(target, memory::CASES)
}

fn what_lanes_do_together(target: &Target) -> Result<()> {
    check(target, lanes::CASES)
}

fn arithmetic_and_order(target: &Target) -> Result<()> {
    check(target, arithmetic::CASES)
}

fn undefined_behaviour(target: &Target) -> Result<()> {
    check(target, undefined::CASES)
}

fn addresses(target: &Target) -> Result<()> {
    check(target, addresses::CASES)
}

/// How it shows that a kernel is broken.
#[derive(Clone, Copy)]
enum Shows {
    /// The stand-in says so, in these words among others.
    Finding(&'static str),
    /// The result differs.
    Result,
    /// The result differs, or not, as the threads happen to run.
    Schedule,
}

/// A kernel and how it is broken. The text is the body of
///
/// ```text
/// extern "C" __global__ void NAME(const u32 *in, u32 *out, u64 n) {
///     const u32 t = threadIdx.x;
///     const u64 i = (u64)blockIdx.x * blockDim.x + t;
/// ```
struct Case {
    name: &'static str,
    body: &'static str,
    /// What is replaced, and by what.
    broken: [&'static str; 2],
    shows: Shows,
    /// Wavefront sizes at which it shows.
    wavefronts: &'static [usize],
    blocks: u32,
    threads: u32,
    input: Form,
    /// Words of the input, whatever the number of threads.
    n: usize,
    /// How often it is launched on the same memory.
    launches: usize,
    /// What `out` holds in the end; it begins with [`STALE`] in every element but the first, which is 0.
    expected: fn(&[u32]) -> Vec<u32>,
}

/// What most cases have in common.
const CASE: Case = Case {
    name: "",
    body: "",
    broken: [""; 2],
    shows: Shows::Result,
    wavefronts: &[64, 32],
    blocks: 3,
    threads: 256,
    input: Form::Words,
    n: 700,
    launches: 1,
    expected: <[u32]>::to_vec,
};

const STALE: u32 = 0xdead_beef;

/// Schedules under which the right kernel must be right, and the broken one wrong.
const SCHEDULES: u64 = 3;
/// Schedules among which one must show what depends on the schedule.
const MANY: u64 = 200;

/// Keeps other kernels that are broken on purpose away: an operation on a device waits for all of its streams, and would see the errors of other threads' launches.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(target: &Target, cases: &[Case]) -> Result<()> {
    let _alone = alone();
    let failures: Vec<String> = cases.iter().filter_map(|case| Some(format!("{}: {:#}", case.name, case.check(target).err()?))).collect();
    ensure!(failures.is_empty(), "\n{}", failures.join("\n"));
    Ok(())
}

/// What came of a launch.
enum Outcome {
    Right,
    Wrong(String),
    Found(String),
}

impl Case {
    fn check(&self, target: &Target) -> Result<()> {
        let standin = StandIn::open()?;
        let [from, to] = self.broken;
        ensure!(self.body.matches(from).count() == 1, "the text to be replaced is not there, or more than once");
        let right = self.compile(&target.device, "right", self.body)?;
        for seed in 0..SCHEDULES {
            standin.seed(seed);
            match self.run(target, &right, "right")? {
                Outcome::Right => {}
                Outcome::Wrong(what) => bail!("the right kernel: {what}"),
                Outcome::Found(what) => bail!("the right kernel: {what}"),
            }
        }
        if !self.wavefronts.contains(&target.device.wavefront()) {
            return Ok(());
        }
        let broken = self.compile(&target.device, "broken", &self.body.replace(from, to))?;
        match self.shows {
            Shows::Schedule => self.check_schedules(target, &standin, &broken),
            _ => (0..SCHEDULES).try_for_each(|seed| {
                standin.seed(seed);
                self.check_broken(target, &broken)
            }),
        }
    }

    fn check_broken(&self, target: &Target, broken: &Module) -> Result<()> {
        match (self.shows, self.run(target, broken, "broken")?) {
            (Shows::Finding(words), Outcome::Found(what)) if what.contains(words) => Ok(()),
            (Shows::Finding(words), Outcome::Found(what)) => bail!("the finding lacks `{words}`: {what}"),
            (Shows::Finding(_), _) => bail!("nothing was found in the broken kernel"),
            (_, Outcome::Wrong(_)) => Ok(()),
            (_, Outcome::Right) => bail!("the result of the broken kernel is right"),
            (_, Outcome::Found(what)) => bail!("a finding where the result should have been wrong: {what}"),
        }
    }

    /// One schedule shows it, another does not: schedules differ.
    fn check_schedules(&self, target: &Target, standin: &StandIn, broken: &Module) -> Result<()> {
        let (mut right, mut wrong) = (0, 0);
        for seed in 0..MANY {
            standin.seed(seed);
            match self.run(target, broken, "broken")? {
                Outcome::Right => right += 1,
                Outcome::Wrong(_) => wrong += 1,
                Outcome::Found(what) => bail!("a finding where the result should have been wrong: {what}"),
            }
            if right > 0 && wrong > 0 {
                return Ok(());
            }
        }
        bail!("of {MANY} schedules {wrong} show it");
    }

    /// Its name for the stand-in, whose findings begin with it.
    fn kernel(&self, version: &str) -> String {
        format!("net_{}_{version}", self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
    }

    fn compile(&self, device: &Device, version: &str, body: &str) -> Result<Module> {
        let name = self.kernel(version);
        let text = format!(
            "#include <hip/hip_runtime.h>\ntypedef unsigned u32;\ntypedef unsigned long long u64;\n\
             #define STALE {STALE}u\n\
             extern \"C\" __global__ void {name}(const u32 *in, u32 *out, u64 n) {{\n\
             const u32 t = threadIdx.x;\nconst u64 i = (u64)blockIdx.x * blockDim.x + t;\n{body}\n}}\n"
        );
        Module::compile(device, &format!("{name}.hip"), &text).with_context(|| version.to_owned())
    }

    fn run(&self, target: &Target, module: &Module, version: &str) -> Result<Outcome> {
        let (device, name) = (&target.device, self.kernel(version));
        let input = Input::new(device, self.input, self.n)?;
        let expected = (self.expected)(input.words());
        let mut start = vec![STALE; expected.len()];
        start[0] = 0;
        let mut out = DeviceMem::from_slice(device, &to_bytes(&start))?;
        let stream = Stream::new(device)?;
        let mut arguments = (input.address(), out.tensor_mut(&[out.byte_size()])?.as_mut_ptr() as u64, self.n as u64);
        let mut list = [(&raw mut arguments.0).cast::<c_void>(), (&raw mut arguments.1).cast(), (&raw mut arguments.2).cast()];
        let grid = Grid { blocks: [self.blocks, 1, 1], threads: [self.threads, 1, 1], shared_bytes: 0 };
        for _ in 0..self.launches {
            // SAFETY: the stand-in checks every access of the kernel before it is made; the parameters are those of `compile`, and all memory
            // outlives the wait.
            unsafe { module.launch_raw(&stream, &name, grid, &mut list)? };
        }
        let waited = stream.synchronize();
        // Of earlier launches as well: this one has added the last.
        let findings: Vec<String> = StandIn::open()?.findings().into_iter().filter(|f| f.contains(&name)).collect();
        match (waited, findings.last()) {
            (Ok(()), None) => {}
            (Err(_), Some(finding)) => return Ok(Outcome::Found(finding.clone())),
            (waited, finding) => bail!("the launch says {waited:?}, the stand-in {finding:?}"),
        }
        Ok(match same_bytes(&out.to_vec()?, &to_bytes(&expected)) {
            Ok(()) => Outcome::Right,
            Err(difference) => Outcome::Wrong(difference.to_string()),
        })
    }
}

fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
