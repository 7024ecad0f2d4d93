//! Comparisons that only enqueue, and graphs.

use super::*;
use hipverify::DType;
use hipverify::device::{AsTensor, Layout, TensorRef};
use hipverify::verify::{Explain, Options, Pending, Tolerance, VerifyPlan, gpu_verify, gpu_verify_many, gpu_verify_with};

/// Calls that allocate, free or wait.
const FORBIDDEN: [&str; 13] = [
    "hipMalloc",
    "hipFree",
    "hipMallocAsync",
    "hipFreeAsync",
    "hipHostMalloc",
    "hipHostFree",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
    "hipEventSynchronize",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipModuleLoadData",
    "hipStreamCreateWithFlags",
];
/// Kernels of a comparison that is explained when it fails: one for the values, one for the explanation.
const KERNELS: usize = 2;

fn forbidden(standin: &StandIn) -> Vec<usize> {
    FORBIDDEN.iter().map(|name| standin.count(name)).collect()
}

/// A hundred numbers, of which the first `mismatches` are not those of the ramp.
fn changed(device: &Device, mismatches: usize) -> Result<DeviceMem<f32>> {
    let mut numbers = ramp(100);
    numbers[..mismatches].iter_mut().for_each(|x| *x += 1000.0);
    Ok(DeviceMem::from_slice(device, &numbers)?)
}

/// A plan for `count` pairs of 100 f32 at a time, and two buffers of that size, which differ in one element.
fn plan(device: &Device, count: usize) -> Result<(VerifyPlan, DeviceMem<f32>, DeviceMem<f32>)> {
    // Looking for a cause copies tensors, which would be counted.
    let mut plan = VerifyPlan::new(device, &Options::default().cause(false))?;
    for _ in 0..count {
        plan.reserve(DType::F32, DType::F32, 100)?;
    }
    Ok((plan, DeviceMem::from_slice(device, &ramp(100))?, changed(device, 1)?))
}

/// The kernels of comparisons stay loaded, and the queue that made the plan's memory.
fn expect_clean(standin: &StandIn) {
    standin.expect_clean();
    assert_eq!(standin.count("graphs"), 0);
}

/// Without a plan: what the first comparison allocated is there for the next.
pub(super) fn repeated_comparisons_allocate_nothing(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (x, y) = (changed(&device, 0)?, changed(&device, 2)?);
    let allocated = || ["hipMalloc", "hipMallocAsync", "hipHostMalloc"].map(|name| standin.count(name));
    assert_eq!(gpu_verify(&x, &y, &Tolerance::exact())?.mismatches, 2);
    let before = allocated();
    for _ in 0..3 {
        assert_eq!(gpu_verify(&x, &y, &Tolerance::exact())?.mismatches, 2);
    }
    assert_eq!(allocated(), before);
    Ok(())
}

pub(super) fn comparisons_only_enqueue(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 3)?;
    let stream = Stream::new(&device)?;
    for round in 0..2 {
        let expected = [1, 2, 3].map(|i| 3 * round + i);
        let results = expected.iter().map(|n| changed(&device, *n)).collect::<Result<Vec<_>>>()?;
        let before = forbidden(standin);
        let pending: Vec<_> = results.iter().map(|y| plan.enqueue(&stream, y, &x, &Tolerance::exact())).collect::<Result<_, _>>()?;
        assert_eq!(forbidden(standin), before, "{FORBIDDEN:?}");
        assert_eq!(standin.count("pending"), 3 * KERNELS);
        let waits = standin.count("hipStreamSynchronize");
        let reports = Pending::wait_all(pending)?;
        assert_eq!(standin.count("hipStreamSynchronize"), waits + 1, "one wait for all");
        assert_eq!(reports.iter().map(|r| r.mismatches as usize).collect::<Vec<_>>(), expected);
    }
    // The other two forms: a pair of its own with an unaligned and a strided layout, in the same workspace. Of the first seven elements it has three.
    let layout = Layout::strided(&[20, 2], &[5, 1], 1)?;
    let z = changed(&device, 7)?;
    let (a, b) = (x.strided(layout.clone())?, z.strided(layout)?);
    assert_eq!(plan.enqueue(&stream, &a, &b, &Tolerance::exact())?.wait()?.mismatches, 3);
    drop((x, y, z, plan, stream));
    expect_clean(standin);
    Ok(())
}

/// Comparisons of one call alternate between two streams, apart from those that are packed first, which share memory. Kernels run when they are waited for.
pub(super) fn batches_use_two_streams(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let never = Options::default().explain(Explain::Never).cause(false);
    // 128 x 128, enough to be packed on three multiprocessors.
    let numbers: Vec<f32> = ramp(1 << 14);
    let transposed: Vec<f32> = (0..1 << 14).map(|i| numbers[(i % 128) * 128 + i / 128]).collect();
    let (x, y) = (DeviceMem::from_slice(&device, &numbers)?, DeviceMem::from_slice(&device, &transposed)?);
    let square = Layout::contiguous(&[128, 128])?;
    let dense = (x.strided(square.clone())?, x.strided(square)?, Tolerance::exact());
    let packed = (dense.0.clone(), y.strided(Layout::strided(&[128, 128], &[1, 128], 0)?)?, Tolerance::exact());
    for (pairs, streams) in [
        (vec![dense.clone()], 1),
        (vec![dense.clone(); 2], 2),
        (vec![dense.clone(); 5], 2),
        (vec![packed.clone(); 3], 1),
        (vec![packed.clone(), dense.clone(), packed.clone(), packed], 2),
    ] {
        // Allocates, which waits.
        gpu_verify_many(&pairs, &never)?;
        let waits = standin.count("hipStreamSynchronize");
        let reports = gpu_verify_many(&pairs, &never)?;
        assert_eq!(standin.count("hipStreamSynchronize"), waits + streams, "{} comparisons", pairs.len());
        assert_eq!(reports.iter().map(|r| r.mismatches).collect::<Vec<_>>(), vec![0; pairs.len()]);
        assert_eq!(standin.count("pending"), 0);
    }
    Ok(())
}

pub(super) fn comparisons_on_foreign_streams(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 2)?;
    let owner = Stream::new(&device)?;
    // SAFETY: `owner` outlives it; null is the null stream.
    let streams = unsafe { [Stream::from_raw(&device, owner.as_raw())?, Stream::from_raw(&device, std::ptr::null_mut())?] };
    let z = changed(&device, 2)?;
    let pair = [(&streams[0], &y), (&streams[1], &z)];
    let pending = pair.iter().map(|(s, y)| plan.enqueue(s, &x, *y, &Tolerance::exact())).collect::<Result<Vec<_>, _>>()?;
    let waits = standin.count("hipStreamSynchronize");
    let reports = Pending::wait_all(pending)?;
    assert_eq!((reports[0].mismatches, reports[1].mismatches), (1, 2));
    assert_eq!(standin.count("hipStreamSynchronize"), waits + 2, "one wait for each stream");
    // Borrowed memory and a borrowed stream.
    let address = hipverify::device::AsTensor::as_tensor(&x).as_ptr().cast::<f32>();
    // SAFETY: `x` outlives the slice and has a hundred elements.
    let slice = unsafe { DeviceSlice::from_raw(address, 100, &device)? };
    assert_eq!(plan.enqueue(&streams[0], &slice, &z, &Tolerance::exact())?.wait()?.mismatches, 2);
    drop((x, y, z, plan, streams, owner));
    expect_clean(standin);
    Ok(())
}

pub(super) fn faults_show_in_the_verdict(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 3)?;
    let stream = Stream::new(&device)?;
    let pending = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
    standin.fail("hipStreamSynchronize", 1, 700);
    assert!(matches!(pending.wait(), Err(Error::Hip { call: "hipStreamSynchronize", code: 700, .. })));
    // Dropped: told by the next operation.
    let pending = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
    standin.fail("hipStreamSynchronize", 1, 700);
    drop(pending);
    assert!(matches!(plan.enqueue(&stream, &x, &y, &Tolerance::exact()), Err(Error::Deferred(_))));
    standin.fail("hipModuleLaunchKernel", 1, 719);
    assert!(matches!(plan.enqueue(&stream, &x, &y, &Tolerance::exact()), Err(Error::Hip { call: "hipModuleLaunchKernel", .. })));
    let report = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?.wait()?;
    assert_eq!(report.mismatches, 1);
    // And with the blocking one.
    standin.fail("hipStreamSynchronize", 1, 700);
    assert!(matches!(gpu_verify(&x, &y, &Tolerance::exact()), Err(Error::Hip { code: 700, .. })));
    drop((x, y, plan, stream));
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

fn pair<'a>(result: &TensorRef<'a>, reference: &TensorRef<'a>) -> (TensorRef<'a>, TensorRef<'a>, Tolerance) {
    (result.clone(), reference.clone(), Tolerance::exact())
}

pub(super) fn comparisons_stay_on_one_device(standin: &StandIn) -> Result<()> {
    let devices = Device::all();
    let [host, one, two] = &devices[..] else { bail!("{} devices", devices.len()) };
    let of = |device| DeviceMem::from_slice(device, &ramp(100));
    let (h, x, y) = (of(host)?, of(one)?, of(two)?);
    let (h, x, y) = (h.as_tensor(), x.as_tensor(), y.as_tensor());
    for (pairs, what, reason) in [
        (vec![pair(&x, &y)], "the reference", "two GPUs in one pair"),
        (vec![pair(&x, &h)], "the reference", "a GPU and the host in one pair"),
        (vec![pair(&x, &x), pair(&y, &y)], "a result", "a pair on each GPU"),
        (vec![pair(&h, &h), pair(&x, &x)], "a result", "a pair on the host, one on a GPU"),
        (vec![pair(&x, &x), pair(&x, &y)], "the reference", "not the first pair"),
    ] {
        let error = gpu_verify_many(&pairs, &Options::default()).unwrap_err();
        ensure!(matches!(error, Error::WrongDevice { what: found, .. } if found == what), "{reason}: {error}");
    }
    let (plan, ..) = plan(one, 1)?;
    let streams = [Stream::new(one)?, Stream::new(two)?];
    for (stream, a, r, what) in [
        (1, &x, &x, "the stream"),
        (0, &y, &y, "a result"),
        (0, &y, &x, "a result"),
        (0, &x, &y, "the reference"),
        (0, &x, &h, "the reference"),
    ] {
        let error = plan.enqueue(&streams[stream], a, r, &Tolerance::exact()).map(|_| ()).unwrap_err();
        ensure!(matches!(error, Error::WrongDevice { what: found, .. } if found == what), "{what}: {error}");
    }
    // A comparison that was refused has left its workspace to the plan.
    assert!(plan.enqueue(&streams[0], &x, &x, &Tolerance::exact())?.wait()?.passed());
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

pub(super) fn workspaces_are_counted(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (mut plan, x, y) = plan(&device, 2)?;
    assert_eq!(plan.capacity(), 2);
    let stream = Stream::new(&device)?;
    let words = |result: Result<Pending<'_>, Error>| result.map(|_| ()).unwrap_err().to_string();
    let tolerance = Tolerance::exact();
    let [first, second] = [plan.enqueue(&stream, &x, &y, &tolerance)?, plan.enqueue(&stream, &x, &y, &tolerance)?];
    let message = "comparison cannot be 100 elements of f32 against f32: the workspaces for it are in use, all 2 of them";
    assert_eq!(words(plan.enqueue(&stream, &x, &y, &tolerance)), message);
    first.wait()?;
    plan.enqueue(&stream, &x, &y, &tolerance)?.wait()?;
    second.wait()?;

    let more = DeviceMem::<f32>::new(&device, 101)?;
    let message = "comparison cannot be 101 elements of f32 against f32: the plan has reserved workspaces of at most 100 elements for f32 against f32";
    assert_eq!(words(plan.enqueue(&stream, &more, &more, &tolerance)), message);
    let derived = Tolerance::gemm::<f32, f32, f32>(8);
    assert!(words(plan.enqueue(&stream, &x, &y, &derived)).contains("a plan cannot measure the reference"));
    assert!(matches!(plan.enqueue(&stream, &x, &more, &tolerance), Err(Error::Shape { .. })));
    let host = Stream::new(&Device::host())?;
    assert!(matches!(plan.enqueue(&host, &x, &y, &tolerance), Err(Error::WrongDevice { what: "the stream", .. })));
    assert!(matches!(VerifyPlan::new(&device, &Options::default().cosine(true)), Err(Error::Unsupported { .. })));
    assert!(matches!(VerifyPlan::new(&device, &Options::default().first(65)), Err(Error::InvalidArgument { what: "first", .. })));
    standin.fail("hipMalloc", 2, 2);
    assert!(matches!(plan.reserve(DType::F64, DType::F64, 100), Err(Error::OutOfMemory { .. })));
    assert_eq!(plan.capacity(), 2);
    plan.reserve(DType::F32, DType::F32, 101)?;
    plan.enqueue(&stream, &more, &more, &tolerance)?.wait()?;
    drop((x, y, more, plan, stream));
    expect_clean(standin);
    Ok(())
}

/// What is reserved for a size does for all that are smaller, whichever kernels they have.
pub(super) fn workspaces_for_every_size(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let stream = Stream::new(&device)?;
    for (dtype, largest) in [(DType::F64, 20_000), (DType::F64, 8_192), (DType::F32, 100_000), (DType::F8E4M3, 8_193), (DType::F16, 3)] {
        let mut plan = VerifyPlan::new(&device, &Options::default())?;
        plan.reserve(dtype, dtype, largest)?;
        let bytes = DeviceMem::<u8>::new(&device, dtype.bytes_for(largest).expect("bytes"))?;
        let address = hipverify::device::AsTensor::as_tensor(&bytes).as_ptr();
        for n in [1, 2, 1_000, 4_095, 4_096, 4_097, 8_191, 8_192, 8_193, 16_385, 99_999, largest].into_iter().filter(|n| *n <= largest) {
            let layout = hipverify::device::Layout::contiguous(&[n])?;
            // SAFETY: the buffer has as many elements and is not written.
            let view = unsafe { hipverify::TensorRef::from_raw(&device, address, bytes.byte_size(), dtype, layout)? };
            let before = forbidden(standin);
            let pending = plan.enqueue(&stream, &view, &view, &Tolerance::exact())?;
            assert_eq!(forbidden(standin), before, "{n} elements of {dtype}");
            pending.wait()?;
        }
    }
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

pub(super) fn abandoned_comparisons(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 3)?;
    let stream = Stream::new(&device)?;
    drop(plan.enqueue(&stream, &x, &y, &Tolerance::exact())?);
    assert_eq!(standin.count("pending"), 0, "the drop waits");
    // Nobody knows of a leaked one any more, and freeing what it uses waits all the same.
    std::mem::forget(plan.enqueue(&stream, &x, &y, &Tolerance::exact())?);
    drop((x, y));
    assert_eq!((standin.count("pending"), standin.count("violations")), (0, 0));
    // Memory that is freed in the order of another stream.
    let other = Stream::new(&device)?;
    let x = DeviceMem::<f32>::new_on(&other, 100)?;
    std::mem::forget(plan.enqueue(&stream, &x, &x, &Tolerance::exact())?);
    drop(x);
    other.synchronize()?;
    assert_eq!((standin.count("pending"), standin.count("violations")), (0, 0));
    let x = DeviceMem::from_slice(&device, &ramp(100))?;
    std::mem::forget(plan.enqueue(&stream, &x, &x, &Tolerance::exact())?);
    drop(plan);
    assert_eq!((standin.count("pinned"), standin.count("violations")), (0, 0), "so does the plan's own memory");
    Ok(())
}

pub(super) fn graphs_replay(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 3)?;
    let z = changed(&device, 2)?;
    let [stream, other] = [Stream::new(&device)?, Stream::new(&device)?];
    // Work that nothing could wait for later is waited for first.
    let early = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
    let (mut graph, recorded) = stream.capture(|capture| {
        let before = forbidden(standin);
        let recorded = [plan.record(capture, &y, &x, &Tolerance::exact())?, plan.record(capture, &z, &x, &Tolerance::exact())?];
        assert_eq!(forbidden(standin), before, "{FORBIDDEN:?}");
        // What has nothing to do with the stream works meanwhile.
        assert_eq!(DeviceMem::from_slice(&device, &ramp(3))?.to_vec()?, ramp(3));
        Ok(recorded)
    })?;
    assert_eq!(early.wait()?.mismatches, 1);
    assert!(recorded[0].report(&graph).is_err(), "nothing has run");
    let (another, ()) = stream.capture(|_| Ok(()))?;
    for _ in 0..3 {
        let (before, executed) = (forbidden(standin), standin.count("executed"));
        graph.launch(&stream)?;
        assert_eq!(forbidden(standin), before, "{FORBIDDEN:?}");
        stream.synchronize()?;
        assert_eq!(standin.count("executed"), executed + 2 * KERNELS);
        let after = forbidden(standin);
        assert!(recorded[0].report(&another).is_err(), "it is no part of that graph");
        assert_eq!([recorded[0].report(&graph)?.mismatches, recorded[1].report(&graph)?.mismatches], [1, 2]);
        assert_eq!(forbidden(standin), after, "the work is done already");
        assert!(recorded[0].report(&graph).is_err(), "each launch is told once");
    }
    // A report waits for what the caller has not, and so do launches on another stream.
    graph.launch(&stream)?;
    assert_eq!(recorded[1].report(&graph)?.mismatches, 2);
    graph.launch(&stream)?;
    graph.launch(&other)?;
    assert_eq!(standin.count("pending"), 2 * KERNELS);
    assert_eq!(recorded[0].report(&graph)?.mismatches, 1);
    graph.launch(&other)?;
    standin.fail("hipStreamSynchronize", 1, 700);
    assert!(matches!(recorded[0].report(&graph), Err(Error::Hip { code: 700, .. })));
    graph.launch(&stream)?;
    drop(graph);
    assert_eq!(standin.count("pending"), 0, "a graph is destroyed when it has run");
    drop(recorded);
    drop((plan, x, y, z, stream, other, another));
    expect_clean(standin);
    Ok(())
}

pub(super) fn recordings_refuse_what_they_cannot_keep(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 3)?;
    let [stream, other] = [Stream::new(&device)?, Stream::new(&device)?];
    let mut event = Event::new(&device)?;
    let refused = |what: &str, error: Option<Error>| match error {
        Some(Error::Unsupported { by, .. }) if by == "a stream that is being captured" => {}
        other => panic!("{what}: {other:?}"),
    };
    let (mut graph, ()) = stream.capture(|_| {
        refused("enqueue", plan.enqueue(&stream, &x, &y, &Tolerance::exact()).err());
        refused("wait", stream.synchronize().err());
        refused("event", event.record(&stream).err());
        refused("wait for an event", stream.wait(&event).err());
        refused("capture", stream.capture(|_| Ok(())).err());
        let (source, mut target) = (ramp(4), DeviceMem::<f32>::new(&device, 4)?);
        refused("scope", stream.scope(|s| s.upload(&source, &mut target)).and_then(|r| r).err());
        refused("transfer", PinnedMem::<f32>::new(&device, 4)?.upload(target, &stream).err());
        // A clone is the same stream, another one is not.
        refused("clone", stream.clone().synchronize().err());
        event.record(&other)?;
        other.synchronize()
    })?;
    assert_eq!(standin.count("violations"), 0);
    stream.capture(|_| {
        refused("launch", graph.launch(&stream).err());
        Ok(())
    })?;
    graph.launch(&stream)?;
    // A stream that other code captures: only what promises to be part of it.
    // SAFETY: the stream is alive for as long as the library is used.
    unsafe {
        let begin = standin.0.get::<unsafe extern "C" fn(*mut std::ffi::c_void, u32) -> c_int>(b"hipStreamBeginCapture\0")?;
        assert_eq!(begin(stream.as_raw(), 0), 0);
    }
    refused("enqueue", plan.enqueue(&stream, &x, &y, &Tolerance::exact()).err());
    refused("capture", stream.capture(|_| Ok(())).err());
    let before = forbidden(standin);
    // SAFETY: plan and buffers outlive the graph, which is launched once and waited for.
    let recorded = unsafe { plan.record_raw(&stream, &x, &y, &Tolerance::exact())? };
    assert_eq!(forbidden(standin), before, "{FORBIDDEN:?}");
    // SAFETY: as the stand-in declares them; the stream is alive.
    unsafe {
        let (mut made, mut exec) = (0usize, 0usize);
        standin.0.get::<unsafe extern "C" fn(*mut std::ffi::c_void, *mut usize) -> c_int>(b"hipStreamEndCapture\0")?(
            stream.as_raw(),
            &mut made,
        );
        let instantiate: libloading::Symbol<'_, unsafe extern "C" fn(*mut usize, usize, *mut usize, *mut c_char, usize) -> c_int> =
            standin.0.get(b"hipGraphInstantiate\0")?;
        instantiate(&mut exec, made, std::ptr::null_mut(), std::ptr::null_mut(), 0);
        standin.0.get::<unsafe extern "C" fn(usize, *mut std::ffi::c_void) -> c_int>(b"hipGraphLaunch\0")?(exec, stream.as_raw());
        for (name, handle) in [("hipGraphExecDestroy", exec), ("hipGraphDestroy", made)] {
            standin.0.get::<unsafe extern "C" fn(usize) -> c_int>(name)?(handle);
        }
    }
    stream.synchronize()?;
    assert!(matches!(recorded.report(&graph), Err(Error::InvalidArgument { what: "graph", .. })), "a graph that other code made");
    // SAFETY: its only launch has been waited for.
    assert_eq!(unsafe { recorded.report_raw()? }.mismatches, 1);
    drop((graph, event, recorded));
    drop((plan, x, y, stream, other));
    expect_clean(standin);
    Ok(())
}

/// The runtime does not wait for a stream that other code captures. What was enqueued before is waited for when the capture is over.
pub(super) fn waits_that_a_capture_refuses(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let module = Module::compile(&device, "k.hip", "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }")?;
    let (stream, x) = (Stream::new(&device)?, DeviceMem::from_slice(&device, &ramp(64))?);
    let mut address = x.as_tensor().as_ptr();
    let grid = Grid { blocks: [1; 3], threads: [64, 1, 1], shared_bytes: 0 };
    // SAFETY: the kernel takes the address of 64 numbers, which outlive the wait.
    unsafe { module.launch_raw(&stream, "twice", grid, &mut [(&raw mut address).cast()])? };
    // SAFETY: as the stand-in declares them; the stream is alive.
    unsafe {
        let begin = standin.0.get::<unsafe extern "C" fn(*mut std::ffi::c_void, u32) -> c_int>(b"hipStreamBeginCapture\0")?;
        assert_eq!(begin(stream.as_raw(), 0), 0);
        assert!(matches!(stream.synchronize(), Err(Error::Hip { call: "hipStreamSynchronize", code: 900, .. })));
        let end = standin.0.get::<unsafe extern "C" fn(*mut std::ffi::c_void, *mut usize) -> c_int>(b"hipStreamEndCapture\0")?;
        let mut graph = 0;
        assert_eq!(end(stream.as_raw(), &mut graph), 0);
        standin.0.get::<unsafe extern "C" fn(usize) -> c_int>(b"hipGraphDestroy\0")?(graph);
    }
    assert_eq!(x.to_vec()?, ramp(64).iter().map(|x| 2.0 * x).collect::<Vec<f32>>());
    drop((module, stream, x));
    assert_eq!((standin.count("violations"), standin.count("pending")), (1, 0), "the wait that was refused");
    Ok(())
}

pub(super) fn recordings_end_whatever_happens(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    // One workspace, which comes back each time.
    let (plan, x, y) = plan(&device, 1)?;
    let stream = Stream::new(&device)?;
    let failed = stream.capture(|capture| -> Result<(), Error> {
        plan.record(capture, &x, &y, &Tolerance::exact())?;
        capture.stream().synchronize()
    });
    assert!(matches!(failed, Err(Error::Unsupported { .. })));
    drop(failed);
    let unwound =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.capture(|_| -> Result<(), Error> { panic!("as planned") })));
    assert!(unwound.is_err());
    for call in ["hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphGetNodes", "hipGraphInstantiate"] {
        standin.fail(call, 1, 999);
        let failed = stream.capture(|capture| plan.record(capture, &x, &y, &Tolerance::exact()).map(drop));
        assert!(matches!(failed, Err(Error::Hip { call: found, .. }) if found == call), "{call}: {failed:?}");
        stream.synchronize()?;
        assert_eq!(plan.enqueue(&stream, &x, &y, &Tolerance::exact())?.wait()?.mismatches, 1, "{call}");
    }
    // A graph has it until its last launch is over.
    let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &Tolerance::exact()))?;
    graph.launch(&stream)?;
    drop(recorded);
    assert!(plan.enqueue(&stream, &x, &y, &Tolerance::exact()).is_err(), "the graph may be launched again");
    drop(graph);
    assert_eq!(standin.count("pending"), 0);
    assert_eq!(plan.enqueue(&stream, &x, &y, &Tolerance::exact())?.wait()?.mismatches, 1);
    drop((plan, x, y, stream));
    expect_clean(standin);
    Ok(())
}

pub(super) fn every_call_of_a_plan_may_fail(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let work = || -> Result<()> {
        let (plan, x, y) = plan(&device, 2)?;
        let stream = Stream::new(&device)?;
        plan.enqueue(&stream, &x, &y, &Tolerance::exact())?.wait()?;
        let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &Tolerance::exact()))?;
        graph.launch(&stream)?;
        recorded.report(&graph)?;
        Ok(())
    };
    work()?;
    let calls = [
        "hipMalloc",
        "hipHostMalloc",
        "hipMemsetAsync",
        "hipStreamCreateWithFlags",
        "hipStreamSynchronize",
        "hipStreamBeginCapture",
        "hipStreamIsCapturing",
        "hipStreamEndCapture",
        "hipGraphGetNodes",
        "hipGraphInstantiate",
        "hipGraphLaunch",
        "hipModuleLaunchKernel",
        "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
    ];
    for call in calls {
        for nth in 1..=8 {
            standin.fail(call, nth, 999);
            if let Err(error) = work() {
                assert!(error.downcast_ref::<Error>().is_some(), "{call} {nth}: {error}");
            }
            standin.fail(call, 1 << 40, 999);
            let _ = device.memory_info();
            expect_clean(standin);
        }
    }
    work()
}

fn expect_no_capture(standin: &StandIn, function: &str) -> Result<()> {
    let device = gpu()?;
    let (plan, x, y) = plan(&device, 1)?;
    let stream = Stream::new(&device)?;
    let error = stream.capture(|_| Ok(())).unwrap_err().to_string();
    assert!(error.starts_with(&format!("graph capture ({function}) is not supported by libamdhip64.so.7")), "{error}");
    plan.enqueue(&stream, &x, &y, &Tolerance::exact())?.wait()?;
    drop((plan, x, y, stream));
    expect_clean(standin);
    Ok(())
}

pub(super) fn without_graphs(standin: &StandIn) -> Result<()> {
    expect_no_capture(standin, "hipGraphInstantiate")
}

/// It could not be told whether a graph holds what was recorded.
pub(super) fn without_counting_nodes(standin: &StandIn) -> Result<()> {
    expect_no_capture(standin, "hipGraphGetNodes")
}

/// A comparison that is done soon says so itself: nobody waits for the stream. What is enqueued afterwards is waited for as ever, and what
/// other threads enqueue meanwhile.
pub(super) fn short_comparisons_are_noticed(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (x, y) = (DeviceMem::from_slice(&device, &ramp(100))?, changed(&device, 3)?);
    // Looking for the cause of a failure copies tensors.
    let options = Options::default().cause(false);
    let pairs = vec![(x.as_tensor(), y.as_tensor(), Tolerance::exact()); 3];
    let mismatches = || gpu_verify_many(&pairs, &options).map(|reports| reports.iter().map(|r| r.mismatches).collect::<Vec<_>>());
    assert_eq!(mismatches()?, [3; 3]);
    let waits = standin.count("hipStreamSynchronize");
    assert_eq!(mismatches()?, [3; 3]);
    for _ in 2..10 {
        assert_eq!(gpu_verify_with(&x, &y, &Tolerance::exact(), &options)?.mismatches, 3);
    }
    assert_eq!(standin.count("hipStreamSynchronize"), waits, "no wait");
    assert_eq!(x.to_vec()?, ramp(100));
    assert_eq!(standin.count("hipStreamSynchronize"), waits + 1, "one wait for the copy");
    // Now and then, so that the runtime forgets what has ended.
    for _ in 0..300 {
        gpu_verify_with(&x, &y, &Tolerance::exact(), &options)?;
    }
    let more = standin.count("hipStreamSynchronize") - waits - 1;
    assert!((1..10).contains(&more), "{more} waits in 300 comparisons");
    std::thread::scope(|scope| {
        let rounds: Vec<_> = (0..4)
            .map(|t| {
                let (device, x, y) = (&device, &x, &y);
                scope.spawn(move || -> Result<()> {
                    let mine: Vec<f32> = ramp(50 + t);
                    for _ in 0..20 {
                        gpu_verify(x, y, &Tolerance::exact())?;
                        let stream = Stream::new(device)?;
                        let memory = DeviceMem::from_slice(device, &mine)?;
                        gpu_verify(&memory, &memory, &Tolerance::exact())?;
                        assert_eq!(memory.to_vec()?, mine);
                        drop((memory, stream));
                    }
                    Ok(())
                })
            })
            .collect();
        rounds.into_iter().try_for_each(|r| r.join().expect("no panic"))
    })?;
    drop((x, y));
    // Workspaces stay.
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}
