//! Comparisons that only enqueue, and comparisons in graphs, give the report of the one that waits, bit for bit.

use crate::compare::{fields, same_fields};
use crate::own_kernel::OwnKernel;
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::view;
use anyhow::{Context, Result, bail, ensure};
use hipverify::device::{DeviceKind, DeviceSlice, PinnedMem};
use hipverify::fill::FillUniformRand;
use hipverify::verify::{Explain, Judge, NonFinite, Options, Pending, Thresholds, Tolerance, VerifyPlan, gpu_verify_with};
use hipverify::{DType, Device, DeviceMem, Error, Event, Stream};
use std::sync::{Mutex, PoisonError};

tests! {
    All: reports_are_those_of_the_blocking_comparison, streams_of_several_threads_share_a_plan, threads_share_a_graph,
        captured_streams_refuse_what_a_graph_cannot_hold, captures_end_whatever_happens;
    Gpus: replays_compare_the_data_of_their_time;
}

/// Two buffers of bytes that agree in most places.
fn buffers(device: &Device, bytes: usize) -> Result<[DeviceMem<u8>; 2]> {
    let mut x = DeviceMem::<f32>::new(&Device::host(), bytes.div_ceil(4))?;
    x.fill(&FillUniformRand::new(-2.0, 2.0).seed(5))?;
    let x: Vec<u8> = x.to_vec()?.iter().flat_map(|v| v.to_le_bytes()).take(bytes).collect();
    let y: Vec<u8> = x.iter().enumerate().map(|(i, v)| if i % 1009 == 17 { v ^ 1 } else { *v }).collect();
    Ok([DeviceMem::from_slice(device, &x)?, DeviceMem::from_slice(device, &y)?])
}

fn reports_are_those_of_the_blocking_comparison(target: &Target) -> Result<()> {
    let options = [
        Options::default(),
        Options::default().explain(Explain::Always),
        Options::default().explain(Explain::Never),
        Options::counts(),
        Options::default().histograms(true).first(64),
        Options::default().nonfinite(NonFinite::EqualWhenSame).first(0),
        // Everything is within these thresholds, and nothing within those.
        Options::default().thresholds(Thresholds::OFF, Judge::Thresholds),
        Options::counts().thresholds(Thresholds::OFF, Judge::Thresholds).nonfinite(NonFinite::EqualWhenSame),
        Options::default().thresholds(Thresholds::new(0.0, 0.0, 0.0)?, Judge::Both).nonfinite(NonFinite::EqualWhenSame),
    ];
    let pairs = [
        (DType::F32, DType::F32),
        (DType::F16, DType::F16),
        (DType::Bf16, DType::F32),
        (DType::F64, DType::F64),
        (DType::F8E4M3, DType::F8E4M3),
        (DType::I8, DType::I8),
        (DType::F4E2M1, DType::F16),
        (DType::I32, DType::I64),
    ];
    // The stand-in takes long: there the first pair has all options, and the others have the last two of them. Both sizes of wavefronts take turns.
    let cases = pairs
        .into_iter()
        .enumerate()
        .flat_map(|(i, pair)| {
            options.iter().enumerate().skip(if i == 0 { 0 } else { target.size(7, 0) }).map(move |(j, o)| (i + j, pair, o))
        })
        .filter(|&(case, ..)| !target.is_gpu() || target.takes(case))
        .map(|(_, pair, options)| (pair, options));
    for ((a, r), options) in cases {
        // The host's loops take as long here: without optimizations.
        let long = if target.device.kind() == DeviceKind::Host { 4_001 } else { target.size(4_001, 100_001) };
        for n in [1, 1000, long].into_iter().filter(|n| *n != 1000 || !target.is_standin()) {
            one_pair(&target.device, options, [a, r], n).with_context(|| format!("{a} against {r}, {n} elements, {options:?}"))?;
        }
    }
    Ok(())
}

/// A pair of tensors, enqueued twice at once and replayed by a graph twice.
fn one_pair(device: &Device, options: &Options, [a, r]: [DType; 2], n: usize) -> Result<()> {
    let stream = Stream::new(device)?;
    let tolerance = Tolerance::new(1e-3, 1e-6)?;
    let [x, y] = buffers(device, 8 * n + 8)?;
    let mut plan = VerifyPlan::new(device, options)?;
    for _ in 0..3 {
        plan.reserve(a, r, n)?;
    }
    // Aligned to 16 bytes and not: two kernels.
    for shift in [0, 8] {
        let (x, y) = (view(&x, a, n, shift)?, view(&y, r, n, shift)?);
        let expected = fields(&gpu_verify_with(&x, &y, &tolerance, options)?);
        let pending = [plan.enqueue(&stream, &x, &y, &tolerance)?, plan.enqueue(&stream, &x, &y, &tolerance)?];
        for report in Pending::wait_all(pending.into())? {
            same_fields(&fields(&report), &expected).with_context(|| format!("enqueued, {shift} bytes shifted"))?;
        }
    }
    let (x, y) = (view(&x, a, n, 0)?, view(&y, r, n, 0)?);
    let expected = fields(&gpu_verify_with(&x, &y, &tolerance, &options.clone().cause(false))?);
    let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &tolerance))?;
    ensure!(recorded.report(&graph).is_err(), "there is a report before the first launch");
    for replay in 0..2 {
        graph.launch(&stream)?;
        same_fields(&fields(&recorded.report(&graph)?), &expected).with_context(|| format!("replay {replay}"))?;
    }
    Ok(())
}

/// An operation on a captured stream is refused as such.
fn refused(what: &str, result: Result<(), Error>) -> Result<()> {
    match result {
        Err(Error::Unsupported { by, .. }) if by == "a stream that is being captured" => Ok(()),
        other => bail!("{what}: {other:?}"),
    }
}

/// The same on the host as on a GPU: what a test without a GPU allows must not fail on one.
fn captured_streams_refuse_what_a_graph_cannot_hold(Target { device, .. }: &Target) -> Result<()> {
    let x = DeviceMem::from_slice(device, &[1.0f32, 2.0])?;
    let mut plan = VerifyPlan::new(device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 2)?;
    let [stream, other] = [Stream::new(device)?, Stream::new(device)?];
    let mut event = Event::new(device)?;
    let (mut graph, ()) = stream.capture(|_| Ok(()))?;
    let mut checks = |captured: &Stream| -> Result<()> {
        refused("enqueue", plan.enqueue(captured, &x, &x, &Tolerance::exact()).map(drop))?;
        refused("a wait", captured.synchronize())?;
        refused("an event", event.record(captured))?;
        refused("a wait for an event", captured.wait(&event))?;
        refused("a capture", captured.capture(|_| Ok(())).map(drop))?;
        refused("a launch", graph.launch(captured))?;
        refused("an allocation", DeviceMem::<f32>::new_on(captured, 2).map(drop))?;
        let (source, mut target) = ([3.0f32, 4.0], DeviceMem::<f32>::new(device, 2)?);
        target.copy_from_slice(&[5.0, 6.0])?;
        refused("a copy to the device", captured.scope(|s| s.upload(&source, &mut target)).and_then(|copied| copied))?;
        let mut read = [0.0f32; 2];
        refused("a copy to the host", captured.scope(|s| s.download(&target, &mut read)).and_then(|copied| copied))?;
        ensure!(read == [0.0; 2] && target.to_vec()? == [5.0, 6.0], "nothing was copied: {read:?}");
        refused("a transfer", PinnedMem::new(device, 2)?.upload(target, captured).map(drop))?;
        // Another stream is no part of it.
        event.record(&other)?;
        other.wait(&event)?;
        Ok(other.synchronize()?)
    };
    let mut found = Ok(());
    // A clone is the same stream.
    let clone = stream.clone();
    stream.capture(|_| {
        found = checks(&clone);
        Ok(())
    })?;
    found?;
    // What was refused works afterwards, and the workspace is free.
    ensure!(plan.enqueue(&stream, &x, &x, &Tolerance::exact())?.wait()?.mismatches == 0);
    Ok(())
}

fn captures_end_whatever_happens(Target { device, .. }: &Target) -> Result<()> {
    let stream = Stream::new(device)?;
    let failed = stream.capture(|capture| capture.stream().synchronize());
    refused("a wait", failed.map(drop))?;
    stream.synchronize()?;
    let unwind = || stream.capture(|_| -> Result<(), Error> { std::panic::resume_unwind(Box::new("as planned")) });
    ensure!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(unwind)).is_err());
    Ok(stream.synchronize()?)
}

/// A replay reads what the kernels before it in the graph wrote, and what was written between the replays.
fn replays_compare_the_data_of_their_time(Target { device, .. }: &Target) -> Result<()> {
    let kernel = OwnKernel::new(device)?;
    let n = 10_000;
    // Owned as a framework owns it: by address.
    let mut owner = DeviceMem::<f32>::new(device, n)?;
    owner.set_value(1.0)?;
    let address = owner.tensor_mut(&[n])?.as_mut_ptr().cast::<f32>();
    // SAFETY: `owner` outlives the slice and everything that is enqueued; what writes it is on the stream that reads it.
    let x = unsafe { DeviceSlice::from_raw(address, n, device)? };
    let mut y = DeviceMem::<f32>::new(device, n)?;
    y.set_value(1.0)?;
    let mut plan = VerifyPlan::new(device, &Options::default())?;
    for _ in 0..2 {
        plan.reserve(DType::F32, DType::F32, n)?;
    }
    let stream = Stream::new(device)?;
    // SAFETY: `owner` has n elements, no more are written, and it outlives stream and graph; all that reads it is on the same stream.
    let write = |value: f32, elements: usize| unsafe { kernel.set(&stream, address, elements, value) };
    let (mut graph, [before, after]) = stream.capture(|capture| {
        let before = plan.record(capture, &x, &y, &Tolerance::exact())?;
        write(2.0, 30)?;
        Ok([before, plan.record(capture, &x, &y, &Tolerance::exact())?])
    })?;
    for (expected, reset) in [([0, 30], 1.0), ([0, 30], 3.0), ([10_000, 10_000], 1.0)] {
        graph.launch(&stream)?;
        stream.synchronize()?;
        let found = [before.report(&graph)?.mismatches, after.report(&graph)?.mismatches];
        ensure!(found == expected, "mismatches are {found:?}, expected {expected:?}");
        write(reset, n)?;
    }
    // And by the handle of the stream alone.
    // SAFETY: `stream` outlives it.
    let foreign = unsafe { Stream::from_raw(device, stream.as_raw())? };
    write(1.0, n)?;
    ensure!(plan.enqueue(&foreign, &x, &y, &Tolerance::exact()).is_err(), "what was reserved belongs to the graph");
    let mut other = VerifyPlan::new(device, &Options::default())?;
    other.reserve(DType::F32, DType::F32, n)?;
    let found = other.enqueue(&foreign, &x, &y, &Tolerance::exact())?.wait()?.mismatches;
    ensure!(found == 0, "{found} mismatches");
    Ok(())
}

fn streams_of_several_threads_share_a_plan(target: &Target) -> Result<()> {
    let device = &target.device;
    let (n, rounds) = (target.size(5_000, 200_000), target.size(3, 10));
    let [x, y] = buffers(device, 2 * n)?;
    let (a, r) = (view(&x, DType::F16, n, 0)?, view(&y, DType::F16, n, 0)?);
    let expected = fields(&gpu_verify_with(&a, &r, &Tolerance::exact(), &Options::default())?);
    let mut plan = VerifyPlan::new(device, &Options::default())?;
    for _ in 0..8 {
        plan.reserve(DType::F16, DType::F16, n)?;
    }
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            let stream = Stream::new(device)?;
            for _ in 0..rounds {
                let pending = [plan.enqueue(&stream, &a, &r, &Tolerance::exact())?, plan.enqueue(&stream, &a, &r, &Tolerance::exact())?];
                for report in Pending::wait_all(pending.into())? {
                    same_fields(&fields(&report), &expected)?;
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })
}

/// Whoever has the graph may launch it or read its reports: a lock gives it to one thread at a time.
fn threads_share_a_graph(target: &Target) -> Result<()> {
    let device = &target.device;
    let (n, rounds) = (target.size(5_000, 200_000), target.size(3, 20));
    let [x, y] = buffers(device, 2 * n)?;
    let (a, r) = (view(&x, DType::F16, n, 0)?, view(&y, DType::F16, n, 0)?);
    let expected = fields(&gpu_verify_with(&a, &r, &Tolerance::exact(), &Options::default().cause(false))?);
    let mut plan = VerifyPlan::new(device, &Options::default())?;
    for _ in 0..2 {
        plan.reserve(DType::F16, DType::F16, n)?;
    }
    let stream = Stream::new(device)?;
    let (graph, recorded) = stream.capture(|capture| plan.record(capture, &a, &r, &Tolerance::exact()))?;
    let (other, _) = stream.capture(|capture| plan.record(capture, &a, &r, &Tolerance::exact()))?;
    ensure!(recorded.report(&other).is_err(), "a graph that has another recording");
    let graph = Mutex::new(graph);
    std::thread::scope(|scope| {
        let launch = || -> Result<()> {
            let stream = Stream::new(device)?;
            (0..rounds).try_for_each(|_| Ok(graph.lock().unwrap_or_else(PoisonError::into_inner).launch(&stream)?))
        };
        let read = || -> Result<()> {
            for _ in 0..rounds {
                let stream = Stream::new(device)?;
                let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                graph.launch(&stream)?;
                same_fields(&fields(&recorded.report(&graph)?), &expected)?;
            }
            Ok(())
        };
        let threads = [scope.spawn(launch), scope.spawn(read), scope.spawn(read)];
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })
}
