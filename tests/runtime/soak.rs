//! A soak: several threads take random steps on two GPUs, with streams that they share. A step that takes too long ends the process with
//! its name and the seed, so that a hang is found and can be repeated. At the end nothing is alive that was not at the start, and the process has not grown.
//!
//! `HIPVERIFY_TEST_SEED` repeats the choices of each thread (not how the threads meet), `HIPVERIFY_LONG_TESTS` takes a hundred times as many
//! steps, `HIPVERIFY_SOAK_SECONDS` as many as there is time for.

use super::*;
use fastrand::Rng;
use hipverify::DType;
use hipverify::fill::FillUniformRand;
use hipverify::verify::{Options, Tolerance, VerifyPlan, gpu_reduce_max, gpu_verify};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const THREADS: usize = 4;
const STEPS: usize = 100;
/// Streams that the threads share, at most.
const STREAMS: usize = 6;
/// Elements of each buffer.
const LEN: usize = 100;

/// What a process may grow by after a quarter of its steps: allocators, and what the stand-in remembers of freed memory.
const GROWTH: usize = 32 << 20;

/// What the threads share of a GPU.
struct World {
    device: Device,
    /// The other GPU.
    peer: Device,
    streams: Mutex<Vec<Stream>>,
    plan: VerifyPlan,
    /// Two tensors that differ in one element.
    x: DeviceMem<f32>,
    y: DeviceMem<f32>,
}

impl World {
    fn new(device: Device, peer: Device) -> Result<World> {
        let mut plan = VerifyPlan::new(&device, &Options::default())?;
        (0..THREADS).try_for_each(|_| plan.reserve(DType::F32, DType::F32, LEN))?;
        let mut other = ramp(LEN);
        other[LEN / 2] = -1.0;
        let (x, y) = (DeviceMem::from_slice(&device, &ramp(LEN))?, DeviceMem::from_slice(&device, &other)?);
        Ok(World { streams: Mutex::new(vec![Stream::new(&device)?]), device, peer, plan, x, y })
    }

    /// One of the shared streams, or a new one that is shared from now on.
    fn stream(&self, rng: &mut Rng) -> Result<Stream, Error> {
        let mut streams = self.streams.lock().unwrap();
        if streams.is_empty() || (streams.len() < STREAMS && rng.u8(..8) == 0) {
            streams.push(Stream::new(&self.device)?);
        }
        Ok(streams[rng.usize(..streams.len())].clone())
    }
}

/// A step: it leaves nothing behind but streams, and checks what it copied.
type Step = fn(&World, &mut Rng) -> Result<(), Error>;

const NAMED_STEPS: &[(&str, Step)] = &[
    ("end of a stream", |world, rng| {
        let mut streams = world.streams.lock().unwrap();
        let at = rng.usize(..streams.len().max(1));
        let stream = (at < streams.len()).then(|| streams.swap_remove(at));
        // Others take streams while this one is destroyed, if nobody else has it.
        drop(streams);
        drop(stream);
        Ok(())
    }),
    ("synchronize", |world, rng| world.stream(rng)?.synchronize()),
    ("copy", |world, rng| {
        let source = numbers(rng);
        let mut x = DeviceMem::from_slice(&world.device, &source)?;
        let mut y = DeviceMem::<f32>::new(&world.device, LEN)?;
        y.copy_from(&x)?;
        x.set_zero()?;
        assert_eq!((x.to_vec()?, y.to_vec()?), (vec![0.0; LEN], source));
        Ok(())
    }),
    ("copy between GPUs", |world, rng| {
        let source = numbers(rng);
        let x = DeviceMem::from_slice(&world.device, &source)?;
        let mut y = DeviceMem::<f32>::new(&world.peer, LEN)?;
        y.copy_from(&x)?;
        assert_eq!(y.to_vec()?, source);
        Ok(())
    }),
    ("fill", |world, rng| {
        let (generator, mut made) = (FillUniformRand::new(-1.0, 1.0).seed(rng.u64(..)), Vec::new());
        for device in [&world.device, &Device::host()] {
            let mut x = DeviceMem::<f32>::new(device, LEN)?;
            x.fill(&generator)?;
            made.push(x.to_vec()?);
        }
        assert_eq!(made[0], made[1]);
        Ok(())
    }),
    ("reductions", |world, rng| {
        let source = numbers(rng);
        let x = DeviceMem::from_slice(&world.device, &source)?;
        assert_eq!(gpu_reduce_max(&x)?.value, source.iter().copied().map(f64::from).fold(0.0, f64::max));
        assert_eq!(x.hash()?, DeviceMem::from_slice(&Device::host(), &source)?.hash()?);
        Ok(())
    }),
    ("comparison with a number of mismatches", |world, rng| {
        let (source, wrong) = (numbers(rng), rng.usize(..LEN));
        let mut other = source.clone();
        other[LEN - wrong..].iter_mut().for_each(|x| *x = -1.0 - *x);
        let (x, y) = (DeviceMem::from_slice(&world.device, &other)?, DeviceMem::from_slice(&world.device, &source)?);
        assert_eq!(gpu_verify(&x, &y, &Tolerance::exact())?.mismatches, wrong as u64);
        Ok(())
    }),
    ("memory in the order of a stream", |world, rng| {
        let (source, allocated, used) = (numbers(rng), world.stream(rng)?, world.stream(rng)?);
        let mut x = DeviceMem::<f32>::new_on(&allocated, LEN)?;
        used.scope(|s| s.upload(&source, &mut x))??;
        assert_eq!(x.to_vec()?, source);
        Ok(())
    }),
    ("transfer", |world, rng| {
        let (source, stream) = (numbers(rng), world.stream(rng)?);
        let mut pinned = PinnedMem::<f32>::new(&world.device, LEN)?;
        pinned.as_mut_slice().copy_from_slice(&source);
        let transfer = pinned.upload(DeviceMem::new(&world.device, LEN)?, &stream)?;
        if rng.bool() {
            return Ok(());
        }
        assert_eq!(transfer.wait()?.1.to_vec()?, source);
        Ok(())
    }),
    ("scope", |world, rng| {
        let (source, stream) = (numbers(rng), world.stream(rng)?);
        let (mut x, mut back) = (DeviceMem::<f32>::new(&world.device, LEN)?, vec![0.0; LEN]);
        stream.scope(|s| s.upload(&source, &mut x))??;
        stream.scope(|s| s.download(&x, &mut back))??;
        assert_eq!(back, source);
        Ok(())
    }),
    ("events", |world, rng| {
        let (first, second) = (world.stream(rng)?, world.stream(rng)?);
        let mut event = Event::new(&world.device)?;
        event.record(&first)?;
        second.wait(&event)?;
        second.synchronize()?;
        event.synchronize()
    }),
    ("comparison", |world, _| {
        assert_eq!(gpu_verify(&world.x, &world.y, &Tolerance::exact())?.mismatches, 1);
        Ok(())
    }),
    ("comparison that is enqueued", |world, rng| {
        let pending = world.plan.enqueue(&world.stream(rng)?, &world.x, &world.y, &Tolerance::exact())?;
        if rng.bool() {
            assert_eq!(pending.wait()?.mismatches, 1);
        }
        Ok(())
    }),
    ("graph", |world, rng| {
        let (stream, launched) = (world.stream(rng)?, world.stream(rng)?);
        let mut plan = VerifyPlan::new(&world.device, &Options::default())?;
        plan.reserve(DType::F32, DType::F32, LEN)?;
        let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &world.x, &world.y, &Tolerance::exact()))?;
        for _ in 0..rng.usize(..4) {
            graph.launch(if rng.bool() { &stream } else { &launched })?;
            if rng.bool() {
                assert_eq!(recorded.report(&graph)?.mismatches, 1);
            }
        }
        Ok(())
    }),
    ("a recording that is given up", |world, rng| {
        let failed = world.stream(rng)?.capture(|capture| capture.stream().synchronize());
        failed.map(drop)
    }),
];

fn numbers(rng: &mut Rng) -> Vec<f32> {
    (0..LEN).map(|_| f32::from(rng.u16(..))).collect()
}

/// What a thread may meet because of what the others do, and because of the runtime's version.
fn is_expected(error: &Error) -> bool {
    match error {
        Error::Unsupported { by, .. } if by == "a stream that is being captured" => true,
        Error::Unsupported { what, by } => what.starts_with("graph capture (of 2 kernels") && by.ends_with("(HIP 5.2)"),
        Error::InvalidArgument { what, .. } => *what == "comparison",
        _ => false,
    }
}

/// A step that a thread has begun.
#[derive(Clone, Copy)]
struct Begun {
    since: Instant,
    number: usize,
    name: &'static str,
}

impl Begun {
    fn now(number: usize, name: &'static str) -> Option<Begun> {
        Some(Begun { since: Instant::now(), number, name })
    }
}

/// Which step each thread takes.
struct Watch {
    seed: u64,
    limit: Duration,
    threads: Vec<Mutex<Option<Begun>>>,
}

impl Watch {
    fn new(seed: u64) -> Watch {
        // Far longer than a step takes, also where many processes share few cores.
        let limit = std::env::var("HIPVERIFY_SOAK_LIMIT_S").ok().and_then(|s| s.parse().ok()).unwrap_or(60);
        Watch { seed, limit: Duration::from_secs(limit), threads: (0..THREADS).map(|_| Mutex::default()).collect() }
    }

    fn set(&self, thread: usize, step: Option<Begun>) {
        *self.threads[thread].lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// The step of a thread that has taken too long.
    fn overdue(&self, thread: usize) -> Option<String> {
        let Begun { since, number, name } = (*self.threads[thread].lock().unwrap_or_else(PoisonError::into_inner))?;
        (since.elapsed() > self.limit).then(|| format!("thread {thread}, step {number} ({name}) does not end within {:?}", self.limit))
    }

    /// Ends the process when a step hangs: its thread cannot be ended alone. Returns when no thread has a step any more.
    fn guard(&self) {
        while self.threads.iter().any(|step| step.lock().unwrap_or_else(PoisonError::into_inner).is_some()) {
            let overdue: Vec<String> = (0..THREADS).filter_map(|thread| self.overdue(thread)).collect();
            if !overdue.is_empty() {
                eprintln!("HIPVERIFY_TEST_SEED={}: {}", self.seed, overdue.join("; "));
                std::process::exit(1);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// How many steps a thread takes.
#[derive(Clone, Copy)]
enum Length {
    Steps(usize),
    Until(Instant),
}

impl Length {
    fn new() -> Length {
        let seconds = std::env::var("HIPVERIFY_SOAK_SECONDS").ok().and_then(|s| s.parse().ok());
        let long = std::env::var("HIPVERIFY_LONG_TESTS").is_ok_and(|v| v == "1");
        let steps = Length::Steps(if long { 100 * STEPS } else { STEPS });
        seconds.map_or(steps, |seconds| Length::Until(Instant::now() + Duration::from_secs(seconds)))
    }

    fn is_over(self, step: usize) -> bool {
        match self {
            Length::Steps(steps) => step >= steps,
            Length::Until(end) => Instant::now() >= end,
        }
    }

    /// A quarter of it from now on.
    fn quarter(self) -> Length {
        match self {
            Length::Steps(steps) => Length::Steps(steps / 4),
            Length::Until(end) => Length::Until(Instant::now() + end.saturating_duration_since(Instant::now()) / 4),
        }
    }
}

/// The steps of one thread; gives their number.
fn walk(worlds: &[World], watch: &Watch, thread: usize, length: Length) -> Result<usize> {
    let mut rng = Rng::with_seed(watch.seed.wrapping_add(thread as u64));
    let mut number = 0;
    while !length.is_over(number) {
        let (name, step) = *rng.choice(NAMED_STEPS).context("no steps")?;
        watch.set(thread, Begun::now(number, name));
        match step(&worlds[rng.usize(..worlds.len())], &mut rng) {
            Err(error) if !is_expected(&error) => {
                bail!("HIPVERIFY_TEST_SEED={}: thread {thread}, step {number} ({name}): {error}", watch.seed)
            }
            _ => number += 1,
        }
    }
    Ok(number)
}

/// Lets all threads walk; gives the number of all steps.
fn walk_all(worlds: &[World], watch: &Watch, length: Length) -> Result<usize> {
    (0..THREADS).for_each(|thread| watch.set(thread, Begun::now(0, "start")));
    std::thread::scope(|scope| {
        let walk = |thread| {
            let walked = std::panic::catch_unwind(|| walk(worlds, watch, thread, length));
            watch.set(thread, None);
            walked.unwrap_or_else(|_| bail!("HIPVERIFY_TEST_SEED={}: thread {thread} panicked", watch.seed))
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || walk(thread))).collect();
        watch.guard();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked"))).sum()
    })
}

/// Bytes of this process that are in memory; 0 where the system does not say.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    4096 * statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
}

fn soak(standin: &StandIn) -> Result<()> {
    let seed = std::env::var("HIPVERIFY_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (length, watch) = (Length::new(), Watch::new(seed));
    let [first, second] = [Device::open("gpu:0")?, Device::open("gpu:1")?];
    let worlds = [World::new(first.clone(), second.clone())?, World::new(second, first)?];
    let warm = walk_all(&worlds, &watch, length.quarter())?;
    let before = resident();
    let steps = warm + walk_all(&worlds, &watch, length)?;
    let after = resident();
    println!("{steps} steps, {before} bytes resident after a quarter of them, {after} at the end");
    ensure!(after <= before + GROWTH, "the process grew from {before} to {after} bytes, HIPVERIFY_TEST_SEED={seed}");
    drop(worlds);
    // Workspaces of comparisons stay.
    for what in ["violations", "pending", "events", "graphs", "last error"] {
        assert_eq!(standin.count(what), 0, "{what}, HIPVERIFY_TEST_SEED={seed}");
    }
    Ok(())
}

pub(super) fn soak_on_rocm_5(standin: &StandIn) -> Result<()> {
    soak(standin)?;
    assert_eq!(standin.count("hipMallocAsync"), 0);
    Ok(())
}

pub(super) fn soak_on_rocm_6(standin: &StandIn) -> Result<()> {
    soak(standin)?;
    assert!(standin.count("hipMallocAsync") > 0 && standin.count("hipGraphLaunch") > 0, "steps that were never taken");
    Ok(())
}

pub(super) fn soak_on_rocm_7(standin: &StandIn) -> Result<()> {
    soak(standin)
}

/// The guard itself: a wait that never returns is named.
pub(super) fn a_step_that_hangs_is_named() -> Result<Completion> {
    let env = &[
        ("HIPVERIFY_STANDIN_DEVICES", "2"),
        ("HIPVERIFY_STANDIN_FAIL", "hipStreamSynchronize:50:-1"),
        ("HIPVERIFY_SOAK_LIMIT_S", "1"),
        ("HIPVERIFY_TEST_SEED", "5"),
    ];
    let error = match run("soak_on_rocm_6", &Setup { env, ..ROCM_6.setup() }) {
        Ok(Completion::Completed) => bail!("nothing hangs"),
        Ok(ignored) => return Ok(ignored),
        Err(error) => error.to_string(),
    };
    let line = error.lines().find(|line| line.contains("HIPVERIFY_TEST_SEED=5: thread ")).with_context(|| error.clone())?;
    assert!(line.contains(", step ") && line.contains(") does not end within 1s"), "{line}");
    Ok(Completion::Completed)
}
