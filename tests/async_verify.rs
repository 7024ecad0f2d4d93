//! Comparisons that only enqueue, and comparisons in graphs, give the report of the one that waits: on every device that opens, bit
//! for bit.

mod common;

use anyhow::{Result, ensure};
use common::{SetValue, on_all, set_value_module};
use hipverify::device::{AsTensor, DeviceSlice, Grid, Layout, TensorRef};
use hipverify::fill::FillUniformRand;
use hipverify::verify::{Explain, Judge, NonFinite, Options, Pending, Report, Thresholds, Tolerance, VerifyPlan, gpu_verify_with};
use hipverify::{DType, Device, DeviceMem, Stream};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// The report as text: every number to its last digit, and NaN equal to itself.
fn facts(report: &Report) -> String {
    format!("{report:#?}")
}

/// Two buffers of bytes that agree in most places.
fn buffers(device: &Device, bytes: usize) -> Result<[DeviceMem<u8>; 2]> {
    let mut x = DeviceMem::<f32>::new(&Device::host(), bytes.div_ceil(4))?;
    x.fill(&FillUniformRand::new(-2.0, 2.0).seed(5))?;
    let x: Vec<u8> = x.to_vec()?.iter().flat_map(|v| v.to_le_bytes()).take(bytes).collect();
    let y: Vec<u8> = x.iter().enumerate().map(|(i, v)| if i % 1009 == 17 { v ^ 1 } else { *v }).collect();
    Ok([DeviceMem::from_slice(device, &x)?, DeviceMem::from_slice(device, &y)?])
}

/// A view of a buffer as `n` elements of a format that begin after `shift` bytes.
fn view<'a>(memory: &'a DeviceMem<u8>, dtype: DType, n: usize, shift: usize) -> Result<TensorRef<'a>> {
    let layout = Layout::contiguous(&[n])?;
    let address = memory.as_tensor().as_ptr().wrapping_add(shift);
    // SAFETY: `from_raw` checks that the layout lies in what is left of the buffer, which is borrowed and not written.
    Ok(unsafe { TensorRef::from_raw(memory.device(), address, memory.byte_size() - shift, dtype, layout)? })
}

#[test]
fn reports_are_those_of_the_blocking_comparison() -> Result<()> {
    let options = [
        Options::default(),
        Options::counts(),
        Options::default().explain(Explain::Always),
        Options::default().explain(Explain::Never),
        // Everything is within these thresholds, and nothing within those.
        Options::default().thresholds(Thresholds::new(f64::INFINITY, f64::INFINITY, f64::INFINITY)?, Judge::Thresholds),
        Options::default().thresholds(Thresholds::new(0.0, 0.0, 0.0)?, Judge::Both).nonfinite(NonFinite::EqualWhenSame),
        Options::default().histograms(true).first(64),
        Options::default().nonfinite(NonFinite::EqualWhenSame).first(0),
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
    let tolerance = Tolerance::new(1e-3, 1e-6)?;
    on_all(|device| {
        let stream = Stream::new(device)?;
        for options in &options {
            for (a, r) in pairs {
                for n in [1usize, 1000, 100_001] {
                    let [x, y] = buffers(device, 8 * n + 8)?;
                    let mut plan = VerifyPlan::new(device, options)?;
                    for _ in 0..3 {
                        plan.reserve(a, r, n)?;
                    }
                    // Aligned to 16 bytes and not: two kernels.
                    for shift in [0, 8] {
                        let (x, y) = (view(&x, a, n, shift)?, view(&y, r, n, shift)?);
                        let expected = facts(&gpu_verify_with(&x, &y, &tolerance, options)?);
                        let what = format!("{a} against {r}, {n} elements, {shift} bytes shifted, {options:?}");
                        let pending = [plan.enqueue(&stream, &x, &y, &tolerance)?, plan.enqueue(&stream, &x, &y, &tolerance)?];
                        for report in Pending::wait_all(pending.into())? {
                            ensure!(facts(&report) == expected, "enqueued: {what}");
                        }
                    }
                    let (x, y) = (view(&x, a, n, 0)?, view(&y, r, n, 0)?);
                    let expected = facts(&gpu_verify_with(&x, &y, &tolerance, options)?);
                    let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &tolerance))?;
                    ensure!(recorded.report(&graph).is_err(), "nothing has run");
                    for replay in 0..3 {
                        graph.launch(&stream)?;
                        ensure!(
                            facts(&recorded.report(&graph)?) == expected,
                            "replay {replay} of {a} against {r}, {n} elements, {options:?}"
                        );
                    }
                }
            }
        }
        Ok(())
    })
}

/// A replay sees what the kernels before it in the graph wrote, and what was written between the replays.
#[test]
fn replays_look_at_the_data_of_their_time() -> Result<()> {
    on_all(|device| {
        let Some(module) = set_value_module(device)? else { return Ok(()) };
        let n = 10_000;
        // Owned as a framework owns it: by address.
        let mut owner = DeviceMem::<f32>::new(device, n)?;
        owner.set_value(1.0)?;
        let address = owner.tensor_mut(&[n])?.as_mut_ptr();
        // SAFETY: `owner` outlives the slice and everything that is enqueued; what writes it is on the stream that reads it.
        let x = unsafe { DeviceSlice::from_raw(address.cast::<f32>(), n, device)? };
        let mut y = DeviceMem::<f32>::new(device, n)?;
        y.set_value(1.0)?;
        let mut plan = VerifyPlan::new(device, &Options::default())?;
        for _ in 0..2 {
            plan.reserve(DType::F32, DType::F32, n)?;
        }
        let stream = Stream::new(device)?;
        let write = |value: f32, elements: usize| {
            let mut argument = SetValue { target: address.cast(), bytes: 4 * elements as u64, pattern: [value.to_bits(); 4] };
            let mut arguments = [(&raw mut argument).cast::<c_void>()];
            let grid = Grid { blocks: [4, 1, 1], threads: [256, 1, 1], shared_bytes: 0 };
            // SAFETY: the kernel takes this struct and writes the first elements of `owner`, which outlives the graph.
            unsafe { module.launch_raw(&stream, "set_value", grid, &mut arguments) }
        };
        let (mut graph, [before, after]) = stream.capture(|capture| {
            let before = plan.record(capture, &x, &y, &Tolerance::exact())?;
            write(2.0, 30)?;
            Ok([before, plan.record(capture, &x, &y, &Tolerance::exact())?])
        })?;
        for (expected, reset) in [([0, 30], 1.0), ([0, 30], 3.0), ([10_000, 10_000], 1.0)] {
            graph.launch(&stream)?;
            stream.synchronize()?;
            let found = [before.report(&graph)?.mismatches, after.report(&graph)?.mismatches];
            ensure!(found == expected, "{found:?} instead of {expected:?}");
            write(reset, n)?;
        }
        // And by the handle of the stream alone.
        // SAFETY: `stream` outlives it.
        let foreign = unsafe { Stream::from_raw(device, stream.as_raw())? };
        write(1.0, n)?;
        ensure!(plan.enqueue(&foreign, &x, &y, &Tolerance::exact()).is_err(), "both places belong to the graph");
        let mut other = VerifyPlan::new(device, &Options::default())?;
        other.reserve(DType::F32, DType::F32, n)?;
        let found = other.enqueue(&foreign, &x, &y, &Tolerance::exact())?.wait()?.mismatches;
        ensure!(found == 0, "{found} mismatches");
        Ok(())
    })
}

/// Whoever has the graph may launch it or read its reports: a lock gives it to one thread at a time.
#[test]
fn threads_share_a_graph() -> Result<()> {
    on_all(|device| {
        let [x, y] = buffers(device, 400_000)?;
        let (a, r) = (view(&x, DType::F16, 200_000, 0)?, view(&y, DType::F16, 200_000, 0)?);
        let expected = facts(&gpu_verify_with(&a, &r, &Tolerance::exact(), &Options::default())?);
        let mut plan = VerifyPlan::new(device, &Options::default())?;
        for _ in 0..2 {
            plan.reserve(DType::F16, DType::F16, 200_000)?;
        }
        let stream = Stream::new(device)?;
        let (graph, recorded) = stream.capture(|capture| plan.record(capture, &a, &r, &Tolerance::exact()))?;
        let (other, _) = stream.capture(|capture| plan.record(capture, &a, &r, &Tolerance::exact()))?;
        ensure!(recorded.report(&other).is_err(), "a graph that has another recording");
        let graph = Mutex::new(graph);
        std::thread::scope(|scope| {
            let launch = || -> Result<()> {
                let stream = Stream::new(device)?;
                (0..20).try_for_each(|_| Ok(graph.lock().unwrap_or_else(PoisonError::into_inner).launch(&stream)?))
            };
            let read = || -> Result<()> {
                for _ in 0..20 {
                    let stream = Stream::new(device)?;
                    let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                    graph.launch(&stream)?;
                    ensure!(facts(&recorded.report(&graph)?) == expected);
                }
                Ok(())
            };
            let threads = [scope.spawn(launch), scope.spawn(read), scope.spawn(read)];
            threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
        })
    })
}

#[test]
fn streams_of_several_threads_share_a_plan() -> Result<()> {
    on_all(|device| {
        let [x, y] = buffers(device, 400_000)?;
        let (a, r) = (view(&x, DType::F16, 200_000, 0)?, view(&y, DType::F16, 200_000, 0)?);
        let expected = facts(&gpu_verify_with(&a, &r, &Tolerance::exact(), &Options::default())?);
        let mut plan = VerifyPlan::new(device, &Options::default())?;
        for _ in 0..8 {
            plan.reserve(DType::F16, DType::F16, 200_000)?;
        }
        std::thread::scope(|scope| {
            let work = || -> Result<()> {
                let stream = Stream::new(device)?;
                for _ in 0..10 {
                    let pending =
                        [plan.enqueue(&stream, &a, &r, &Tolerance::exact())?, plan.enqueue(&stream, &a, &r, &Tolerance::exact())?];
                    for report in Pending::wait_all(pending.into())? {
                        ensure!(facts(&report) == expected);
                    }
                }
                Ok(())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
        })
    })
}
