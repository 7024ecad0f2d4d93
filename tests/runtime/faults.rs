//! Every call of the runtime fails in turn, at each of its uses (`HIPVERIFY_LONG_TESTS`; else the first and the last), once alone and once with the device
//! lost from then on (else the first only).
//!
//! A piece of work runs on a device that is new to it, so that loading fails as well. After a failure: an error that names call and code, no panic, an end
//! within the limit; where the device was lost, the next device does the same work; and when the calls succeed again the device does it too and holds no
//! more than one on which nothing has failed.

use super::*;
use hipverify::DType;
use hipverify::fill::FillUniformRand;
use hipverify::reference::{Accumulate, Conv, Direction, Gemm};
use hipverify::verify::{Options, Tolerance, VerifyPlan, gpu_reduce_max, gpu_verify};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A code that has no meaning to the library, so that nothing but its number can be told.
const CODE: c_int = 999;
/// Far longer than any piece of work takes.
const LIMIT: Duration = Duration::from_secs(60);
/// What may be alive after work, because the next work uses it.
const KEPT: [&str; 8] = ["device", "pinned", "streams", "events", "modules", "programs", "graphs", "pending"];

type Work = fn(&Device) -> Result<()>;

/// Calls that may fail without an error, because there is another way or nothing that anybody could do.
const TOLERATED: [(&str, &str); 7] = [
    ("hipGetDevice", "the device is set"),
    ("hipStreamIsCapturing", "runtimes without capture fail here"),
    ("hipRuntimeGetVersion", "the cache of kernels has an entry for runtimes that do not say"),
    ("hipDriverGetVersion", "likewise"),
    ("hiprtcVersion", "likewise"),
    ("hiprtcDestroyProgram", "the code is there"),
    ("hipModuleLoadData", "a kept code object that does not load is compiled anew"),
];

pub(super) fn setup() -> Setup {
    Setup { env: &[("HIPVERIFY_STANDIN_DEVICES", "4000")], ..Setup::default() }
}

/// A failure to come: which use of which call, and whether the device is lost by it.
#[derive(Clone, Debug)]
struct Fault {
    call: String,
    nth: usize,
    loses: bool,
}

impl Fault {
    fn arm(&self, standin: &StandIn) {
        if self.loses { standin.lose(&self.call, self.nth, CODE) } else { standin.fail(&self.call, self.nth, CODE) }
    }

    fn is_tolerated(&self) -> bool {
        TOLERATED.iter().any(|(call, _)| *call == self.call)
    }

    /// Whether the error tells what happened: code and call, on a device that is lost that of the failure or a later one.
    fn expect_told(&self, told: &str) {
        let code = told.contains(&format!("({CODE})"));
        // Two functions of the runtime are one to users.
        let call = told.contains(self.call.trim_end_matches("R0600")) || self.loses && told.contains("hip");
        assert!(code && call, "{self:?}: {told}");
    }
}

/// Runs `prepare` and work in a thread of its own, which begins on that device. A panic is an error here; an end that does not come ends the process.
fn bounded(standin: &StandIn, what: &str, device: usize, prepare: impl FnOnce() + Send, work: Work) -> Result<()> {
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let thread = scope.spawn(move || {
            let _done = done;
            standin.set_device(device);
            prepare();
            let device = Device::open(&format!("gpu:{device}"))?;
            work(&device)?;
            // What a `Drop` found is told by the next operation.
            Ok(device.memory_info().map(drop)?)
        });
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LIMIT) {
            eprintln!("{what} does not end within {LIMIT:?}");
            std::process::exit(1);
        }
        thread.join().map_err(|_| anyhow::anyhow!("a panic"))?
    })
}

/// Takes what a `Drop` found after the work had failed already, so that later work does not tell it.
fn take_deferred(device: usize) {
    let _ = Device::open(&format!("gpu:{device}")).and_then(|device| device.memory_info());
}

fn kept(standin: &StandIn) -> [usize; KEPT.len()] {
    KEPT.map(|what| standin.count(what))
}

/// How much a device more holds.
fn growth(standin: &StandIn, before: [usize; KEPT.len()]) -> [isize; KEPT.len()] {
    let after = kept(standin);
    std::array::from_fn(|i| after[i] as isize - before[i] as isize)
}

/// Lets the work fail in every way.
fn every_fault(standin: &StandIn, work: Work) -> Result<()> {
    bounded(standin, "work that compiles", 0, || (), work)?;
    let (alive, mut before) = (kept(standin), BTreeMap::new());
    bounded(standin, "work", 1, || before = standin.calls(), work)?;
    let calls = standin.calls().into_iter().map(|(call, count)| (count - before.get(&call).copied().unwrap_or(0), call));
    bounded(standin, "work on a device that was used", 1, || (), work)?;
    let expected = growth(standin, alive);

    // Uses in the middle are mostly those of a loop.
    let all = std::env::var("HIPVERIFY_LONG_TESTS").is_ok_and(|v| v == "1");
    let faults = calls.flat_map(|(count, call)| {
        let fault = move |nth| [false, true].map(|loses| Fault { call: call.clone(), nth, loses });
        (1..=count).flat_map(fault).filter(move |f| all || f.nth == 1 || f.nth == count && !f.loses)
    });
    let mut tried = 0;
    for (i, fault) in faults.enumerate() {
        expect_recovery(standin, work, &fault, i + 2, expected)?;
        tried = i + 1;
    }
    println!("{tried} faults");
    assert!(tried > 20, "{tried} faults: the work calls next to nothing");
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

fn expect_recovery(standin: &StandIn, work: Work, fault: &Fault, device: usize, expected: [isize; KEPT.len()]) -> Result<()> {
    let what = format!("{fault:?}");
    let alive = kept(standin);
    let failed = bounded(standin, &what, device, || fault.arm(standin), work);
    match failed {
        Err(error) => fault.expect_told(&format!("{error:#}")),
        Ok(()) => assert!(fault.is_tolerated() && !fault.loses, "{what}: nothing was told"),
    }
    if fault.loses {
        bounded(standin, &what, 0, || (), work).with_context(|| format!("{what}: the next device"))?;
    }
    standin.restore();
    bounded(standin, &what, device, || take_deferred(device), work).with_context(|| format!("{what}: the device afterwards"))?;
    assert_eq!(growth(standin, alive), expected, "{what}: {KEPT:?} alive");
    Ok(())
}

/// Loads a kernel of the library, and compiles and launches one of the caller's.
fn own_kernels(device: &Device) -> Result<()> {
    let mut x = DeviceMem::<f32>::new(device, 64)?;
    x.set_value(1.0)?;
    let module = Module::compile(device, "k.hip", "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }")?;
    let stream = Stream::new(device)?;
    let mut address = hipverify::device::AsTensor::as_tensor(&x).as_ptr();
    let grid = Grid { blocks: [1; 3], threads: [64, 1, 1], shared_bytes: 0 };
    // SAFETY: the kernel takes the address of 64 numbers, which outlive the wait.
    unsafe { module.launch_raw(&stream, "twice", grid, &mut [(&raw mut address).cast()])? };
    stream.synchronize()?;
    assert_eq!(x.to_vec()?, [2.0; 64]);
    Ok(())
}

pub(super) fn faults_in_loading_and_own_kernels(standin: &StandIn) -> Result<()> {
    every_fault(standin, own_kernels)
}

/// A comparison that fails, so that everything that explains it runs as well.
fn fill_and_comparison(device: &Device) -> Result<()> {
    let (mut x, mut y) = (DeviceMem::<f32>::new(device, 100)?, DeviceMem::<f32>::new(device, 100)?);
    x.fill(&FillUniformRand::new(-1.0, 1.0).seed(1))?;
    y.fill(&FillUniformRand::new(-1.0, 1.0).seed(2))?;
    assert_eq!(gpu_verify(&x, &y, &Tolerance::exact())?.mismatches, 100);
    Ok(())
}

pub(super) fn faults_in_fill_and_comparison(standin: &StandIn) -> Result<()> {
    every_fault(standin, fill_and_comparison)
}

fn plans_and_graphs(device: &Device) -> Result<()> {
    let mut plan = VerifyPlan::new(device, &Options::default())?;
    (0..2).try_for_each(|_| plan.reserve(DType::F32, DType::F32, 100))?;
    let (x, y) = (DeviceMem::from_slice(device, &ramp(100))?, DeviceMem::from_slice(device, &[0.5f32; 100])?);
    let stream = Stream::new(device)?;
    let pending = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
    assert_eq!(pending.wait()?.mismatches, 100);
    let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &Tolerance::exact()))?;
    graph.launch(&stream)?;
    assert_eq!(recorded.report(&graph)?.mismatches, 100);
    Ok(())
}

pub(super) fn faults_in_plans_and_graphs(standin: &StandIn) -> Result<()> {
    every_fault(standin, plans_and_graphs)
}

fn reductions(device: &Device) -> Result<()> {
    let x = DeviceMem::from_slice(device, &ramp(100))?;
    assert_eq!(gpu_reduce_max(&x)?.value, 99.0);
    assert_eq!(x.hash()?, DeviceMem::from_slice(&Device::host(), &ramp(100))?.hash()?);
    Ok(())
}

pub(super) fn faults_in_reductions(standin: &StandIn) -> Result<()> {
    every_fault(standin, reductions)
}

fn references(device: &Device) -> Result<()> {
    let a = DeviceMem::from_slice(device, &ramp(4))?;
    let mut d = DeviceMem::<f32>::new(device, 4)?;
    Gemm::new(Accumulate::F64).run(&a.tensor(&[2, 2])?, &a.tensor(&[2, 2])?, &mut d.tensor_mut(&[2, 2])?)?;
    assert_eq!(d.to_vec()?, [2.0, 3.0, 6.0, 11.0]);
    let conv = Conv::new("1 1 1 1 1 2 4 1 1 0 0".parse()?, Direction::Forward, Accumulate::F64);
    let (w, mut y) = (DeviceMem::from_slice(device, &[10.0f32, 1.0])?, DeviceMem::<f32>::new(device, 3)?);
    conv.run(&a, &w, &mut y.tensor_mut(&[3])?)?;
    assert_eq!(y.to_vec()?, [1.0, 12.0, 23.0]);
    Ok(())
}

pub(super) fn faults_in_references(standin: &StandIn) -> Result<()> {
    every_fault(standin, references)
}

fn copies_and_streams(device: &Device) -> Result<()> {
    let [first, second] = [Stream::new(device)?, Stream::new(device)?];
    let (mut start, mut end) = (Event::new(device)?, Event::new(device)?);
    start.record(&first)?;
    let mut pinned = PinnedMem::<f32>::new(device, 9)?;
    pinned.as_mut_slice().copy_from_slice(&ramp(9));
    let transfer = pinned.upload(DeviceMem::new(device, 9)?, &first)?;
    end.record(&first)?;
    second.wait(&end)?;
    let (pinned, x) = transfer.wait()?;
    assert_eq!(end.elapsed_since(&start)?.as_micros(), 1500);
    let (_, x) = pinned.download(x, &second)?.wait()?;
    let (source, mut back) = (ramp(9), vec![0.0; 9]);
    let mut y = DeviceMem::<f32>::new_on(&first, 9)?;
    second.scope(|s| s.upload(&source, &mut y))??;
    first.scope(|s| s.download(&y, &mut back))??;
    assert_eq!((x.to_vec()?, back), (source, ramp(9)));
    y.set_zero()?;
    y.copy_from(&x)?;
    second.synchronize()?;
    Ok(())
}

pub(super) fn faults_in_copies_and_streams(standin: &StandIn) -> Result<()> {
    every_fault(standin, copies_and_streams)
}
