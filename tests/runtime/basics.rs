//! Memory, streams, modules, and everything that may go wrong with them.

use super::*;
use hipverify::verify::{Options, Tolerance, gpu_verify_with};

/// Everything that needs no stream of the caller's.
fn exercise(device: &Device) -> Result<()> {
    for n in [0, 1, 7, 1000] {
        let source = ramp(n);
        let mut x = DeviceMem::from_slice(device, &source)?;
        assert_eq!(x.to_vec()?, source);
        let mut y = DeviceMem::<f32>::new(device, n)?;
        y.copy_from(&x)?;
        assert_eq!(y.to_vec()?, source);
        let mut host = DeviceMem::<f32>::new(&Device::host(), n)?;
        host.copy_from(&y)?;
        assert_eq!(host.to_vec()?, source);
        y.set_zero()?;
        assert_eq!(y.to_vec()?, vec![0.0; n]);
        y.copy_from(&host)?;
        assert_eq!(y.to_vec()?, source);
        x.set_value(2.5)?;
        assert_eq!(x.to_vec()?, vec![2.5; n]);
        x.realloc(2 * n)?;
        assert_eq!(x.to_vec()?.len(), 2 * n);
    }
    let mut bytes = DeviceBytes::new(device, 21)?;
    bytes.set_value(hipverify::dtype::F8E4M3(0x38))?;
    let mut found = [0; 21];
    bytes.copy_to_slice(&mut found)?;
    assert_eq!(found, [0x38; 21]);
    assert!(matches!(bytes.copy_to_slice(&mut [0; 20]), Err(Error::Length { expected: 21, found: 20, .. })));
    Ok(())
}

pub(super) fn copies_both_ways(standin: &StandIn) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.kind(), DeviceKind::Amd);
    assert_eq!(device.to_string(), "gpu:0 Stand-in GPU, gfx-standin (the first GPU)");
    assert_eq!((device.arch(), device.multiprocessors(), device.wavefront()), (Some("gfx-standin:xnack-"), 3, 64));
    assert_eq!(device.runtime().as_deref(), Some("libhipverify_standin.so (HIP 6.2)"));
    assert!(device.same_as(&gpu()?) && !device.same_as(&Device::host()));
    let (free, total) = device.memory_info()?;
    assert!(free <= total && total == 1 << 30);
    exercise(&device)?;
    standin.expect_clean();
    assert_eq!(standin.count("modules"), 1, "set_value is loaded once");
    Ok(())
}

pub(super) fn properties_of_rocm_6_and_later(_: &StandIn) -> Result<()> {
    assert_eq!(gpu()?.name(), "gpu:0 Stand-in GPU, gfx-standin");
    Ok(())
}

pub(super) fn properties_of_rocm_5(_: &StandIn) -> Result<()> {
    assert_eq!(gpu()?.name(), "gpu:0 Stand-in GPU, gfx-standin");
    Ok(())
}

pub(super) fn no_properties_at_all(_: &StandIn) -> Result<()> {
    assert!(matches!(gpu().unwrap_err().downcast()?, Error::Hip { call: "hipGetDeviceProperties", .. }));
    Ok(())
}

pub(super) fn without_optional_functions(standin: &StandIn) -> Result<()> {
    exercise(&gpu()?)?;
    standin.expect_clean();
    Ok(())
}

pub(super) fn without_a_required_function(_: &StandIn) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.kind(), DeviceKind::Host);
    let why = device.why();
    assert!(why.starts_with("no usable HIP runtime: ") && why.contains("it has no hipMalloc, hipEventQuery"), "{why}");
    Ok(())
}

/// As ROCm 7 without its compiler: no image for this GPU, nothing to make one.
pub(super) fn without_hiprtc(standin: &StandIn) -> Result<()> {
    let mut x = DeviceMem::<f32>::new(&gpu()?, 4)?;
    let error = x.set_value(1.0).unwrap_err().to_string();
    assert!(error.contains("set_value.hip could not be compiled for gfx-standin:xnack-: no hipRTC found: "), "{error}");
    assert!(error.contains("it has no hiprtcCompileProgram") && error.contains("libhiprtc.so.7"), "{error}");
    x.copy_from_slice(&ramp(4))?;
    drop(x);
    standin.expect_clean();
    Ok(())
}

fn expect_none(code: &str) -> Result<()> {
    let device = Device::best()?;
    assert_eq!(device.kind(), DeviceKind::Host);
    let reason = format!("HIP runtime libhipverify_standin.so (HIP 6.2) found, but it has no device ({code})");
    assert!(device.why().starts_with(&reason), "{device}");
    assert!(cfg!(feature = "nvidia") || !device.why().contains("CUDA"), "a build that is not for NVIDIA: {device}");
    Ok(())
}

pub(super) fn no_device(_: &StandIn) -> Result<()> {
    expect_none("hipErrorNoDevice")?;
    assert_eq!(Device::all().len(), 1);
    let error = gpu().unwrap_err().to_string();
    let reason = "HIP runtime libhipverify_standin.so (HIP 6.2) found, but it has no device (hipErrorNoDevice)";
    assert!(error.starts_with(&format!("no gpu:0 device: {reason}")), "{error}");
    Ok(())
}

pub(super) fn invalid_device(_: &StandIn) -> Result<()> {
    expect_none("hipErrorInvalidDevice")
}

/// A runtime that counts no device and calls that a success.
pub(super) fn a_count_of_none(_: &StandIn) -> Result<()> {
    expect_none("it counts 0")
}

/// Nobody knows whether there is a GPU: that is not the same as none.
pub(super) fn no_count(_: &StandIn) -> Result<()> {
    assert_eq!(Device::best().unwrap_err().to_string(), "hipGetDeviceCount failed: hipErrorLaunchFailure (719)");
    assert_eq!(Device::all().len(), 1);
    Ok(())
}

pub(super) fn a_gpu_that_does_not_start(_: &StandIn) -> Result<()> {
    let error = Device::best().unwrap_err();
    assert_eq!(error.to_string(), "hipSetDevice failed: hipErrorLaunchFailure (719)");
    assert_eq!(Device::best()?.kind(), DeviceKind::Amd, "a failed start is not remembered");
    Ok(())
}

pub(super) fn two_devices(standin: &StandIn) -> Result<()> {
    let all = Device::all();
    assert_eq!(all.len(), 3);
    let [a, b] = [&all[1], &all[2]];
    assert_eq!(b.name(), "gpu:1 Stand-in GPU, gfx-standin");
    assert!(!a.same_as(b) && b.same_as(&Device::open("gpu:1")?));
    let error = Device::open("gpu:2").unwrap_err().to_string();
    assert_eq!(error, "no gpu:2 device: there are 2 GPUs, gpu:0 to gpu:1");
    for name in ["gpu:", "gpu:x", "gpu:-1", "cuda"] {
        assert!(matches!(Device::open(name), Err(Error::InvalidArgument { what: "device", .. })), "{name}");
    }

    let x = DeviceMem::from_slice(a, &ramp(100))?;
    let mut y = DeviceMem::<f32>::new(b, 100)?;
    y.copy_from(&x)?;
    assert_eq!(y.to_vec()?, ramp(100));
    let stream = Stream::new(a)?;
    let error = PinnedMem::new(b, 100)?.upload(y, &stream).unwrap_err();
    assert!(matches!(error, Error::WrongDevice { what: "the target", .. }));
    // Another thread starts with device 0 current.
    let y = std::thread::scope(|s| s.spawn(|| DeviceMem::from_slice(b, &ramp(5))).join()).map_err(|_| anyhow::anyhow!("panic"))??;
    assert_eq!(y.to_vec()?, ramp(5));
    // Other code of this thread makes another device the current one.
    // SAFETY: the stand-in has the functions with these types.
    let (set, get) = unsafe {
        let set = standin.0.get::<unsafe extern "C" fn(c_int) -> c_int>(b"hipSetDevice\0")?;
        (set, standin.0.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"hipGetDevice\0")?)
    };
    for (device, ordinal) in [(a, 0), (b, 1), (a, 0)] {
        drop(DeviceMem::from_slice(device, &ramp(5))?);
        // SAFETY: takes any number.
        assert_eq!(unsafe { set(1 - ordinal) }, 0);
        drop(DeviceMem::from_slice(device, &ramp(5))?);
        let mut now = -1;
        // SAFETY: the number is valid for a write.
        assert_eq!((unsafe { get(&mut now) }, now), (0, ordinal));
    }
    drop((x, y, stream));
    assert_eq!((standin.count("device"), standin.count("violations"), standin.count("streams")), (0, 0, 2));
    Ok(())
}

/// What a module is asked for in a thread that begins with another device than the module's.
pub(super) fn modules_of_another_device(standin: &StandIn) -> Result<()> {
    fn elsewhere<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        std::thread::scope(|s| s.spawn(work).join()).map_err(|_| anyhow::anyhow!("a panic"))?
    }
    let device = Device::open("gpu:1")?;
    let module = Module::compile(&device, "k.hip", "extern \"C\" __global__ void nothing() {}")?;
    let stream = Stream::new(&device)?;
    // SAFETY: the kernel takes nothing and does nothing.
    let launch = || unsafe { module.launch_raw(&stream, "nothing", Grid { blocks: [1; 3], threads: [1; 3], shared_bytes: 0 }, &mut []) };
    elsewhere(|| Ok(launch()?))?;
    stream.synchronize()?;

    // The first comparison loads the file of the second one's kernel, and leaves its workspaces.
    let x = DeviceMem::from_slice(&device, &ramp(9))?;
    let same = |options: &Options| Ok(gpu_verify_with(&x, &x, &Tolerance::exact(), options)?.passed());
    assert!(same(&Options::default())?);
    let (loaded, asked) = (standin.count("hipModuleLoadData"), standin.count("hipModuleGetFunction"));
    assert!(elsewhere(|| same(&Options::default().histograms(true)))?);
    assert_eq!((standin.count("hipModuleLoadData"), standin.count("hipModuleGetFunction")), (loaded, asked + 1));
    drop((x, stream, module));
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

/// The runtime reads an image as long as its module is loaded.
pub(super) fn images_live_as_long_as_their_modules(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let source = "extern \"C\" __global__ void nothing() {}";
    let rtc = hipverify_sys::amd()?.rtc()?;
    let image = hipverify_sys::kernels::compile(rtc, "k.hip", source, device.arch().context("no name")?)?;
    let stream = Stream::new(&device)?;
    let work = |how: &str, module: Module| -> Result<()> {
        // SAFETY: the kernel takes nothing and does nothing.
        unsafe { module.launch_raw(&stream, "nothing", Grid { blocks: [1; 3], threads: [1; 3], shared_bytes: 0 }, &mut [])? };
        stream.synchronize()?;
        drop(module);
        ensure!(standin.count("violations") == 0, "{how}");
        Ok(())
    };
    let mut own = image.clone();
    // SAFETY: hipRTC has made the image.
    let module = unsafe { Module::load(&device, &own)? };
    own.fill(0);
    work("loaded", module)?;
    // SAFETY: hipRTC has made the image.
    work("from a file", unsafe { Module::from_image(&device, "k.co", &image)? })?;
    work("compiled", Module::compile(&device, "k.hip", source)?)?;
    work("compiled with options", Module::compile_with(&device, "k.hip", source, &[])?)?;
    use_kernel("gpu:0")?;
    // Another process would find it in the cache.
    use_kernel("gpu:1")?;
    DeviceMem::<f64>::new(&device, 3)?.set_value(1.0)?;
    assert_eq!(standin.count("violations"), 0, "kernels of the library");
    Ok(())
}

pub(super) fn an_image_compiled_ahead_of_time(_: &StandIn) -> Result<()> {
    if hipverify::build_info().targets.is_empty() {
        println!("skipped: {}", hipverify::build_info());
        return Ok(());
    }
    // hipRTC would be needed otherwise, and it would leave its own code object.
    let mut x = DeviceMem::<f32>::new(&gpu()?, 3)?;
    x.set_value(1.0)?;
    assert_eq!(x.to_vec()?, [1.0; 3]);
    Ok(())
}

/// The compiler at run time takes the place of an image that the runtime refuses. In a build without images that compiler is all there is.
pub(super) fn an_image_that_does_not_load(standin: &StandIn) -> Result<()> {
    let mut x = DeviceMem::<f32>::new(&gpu()?, 3)?;
    if !hipverify::build_info().targets.is_empty() {
        standin.fail("hipModuleLoadData", 1, 209);
    }
    x.set_value(1.0)?;
    assert_eq!(x.to_vec()?, [1.0; 3]);
    assert_eq!(standin.count("hiprtcCompileProgram"), 1);
    drop(x);
    standin.expect_clean();
    Ok(())
}

pub(super) fn out_of_memory(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let error = DeviceMem::<f64>::new(&device, 1 << 30).unwrap_err();
    let Error::OutOfMemory { bytes, reason, .. } = &error else { bail!("{error}") };
    assert_eq!(*bytes, 8 << 30);
    assert_eq!(reason, "hipMalloc: 1073741824 of 1073741824 bytes are free");
    assert!(matches!(PinnedMem::<f64>::new(&device, 1 << 30), Err(Error::OutOfMemory { .. })));
    assert!(matches!(DeviceMem::<f64>::new(&device, usize::MAX / 4), Err(Error::SizeOverflow { .. })));

    standin.fail("hipMalloc", 3, 2);
    let mut blocks = vec![DeviceMem::<f32>::new(&device, 8)?, DeviceMem::new(&device, 8)?];
    assert!(matches!(blocks[0].realloc(9), Err(Error::OutOfMemory { bytes: 36, .. })));
    assert!(blocks[0].is_empty() && blocks[0].to_vec()?.is_empty(), "an empty buffer is left");
    blocks[0].realloc(9)?;
    drop(blocks);
    standin.expect_clean();
    Ok(())
}

pub(super) fn launch_failure(standin: &StandIn) -> Result<()> {
    let mut x = DeviceMem::<f32>::new(&gpu()?, 4)?;
    standin.fail("hipModuleLaunchKernel", 1, 719);
    let error = x.set_value(1.0).unwrap_err();
    assert_eq!(error.to_string(), "hipModuleLaunchKernel failed: hipErrorLaunchFailure (719)");
    // An argument that is no device is not the want of one.
    standin.fail("hipModuleLaunchKernel", 1, 101);
    assert_eq!(x.set_value(1.0).unwrap_err().to_string(), "hipModuleLaunchKernel failed: hipErrorInvalidDevice (101)");
    standin.fail("hipModuleLaunchKernel", 1, 100);
    assert!(matches!(x.set_value(1.0), Err(Error::NoDevice { .. })));
    // A code that nobody knows is printed, not guessed.
    standin.fail("hipModuleLaunchKernel", 1, 12345);
    assert_eq!(x.set_value(1.0).unwrap_err().to_string(), "hipModuleLaunchKernel failed: unknown error (12345)");
    x.set_value(1.0)?;
    drop(x);
    standin.expect_clean();
    Ok(())
}

/// A kernel that faults shows in the operation that waits for it.
pub(super) fn asynchronous_errors(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let mut x = DeviceMem::<f32>::new(&device, 4)?;
    x.set_zero()?;
    standin.fail("hipStreamSynchronize", 1, 700);
    assert_eq!(x.set_zero().unwrap_err().to_string(), "hipStreamSynchronize failed: hipErrorIllegalAddress (700)");
    x.set_zero()?;

    let stream = Stream::new(&device)?;
    let transfer = PinnedMem::new(&device, 4)?.upload(x, &stream)?;
    standin.fail("hipEventSynchronize", 1, 700);
    assert!(matches!(transfer.wait(), Err(Error::Hip { call: "hipEventSynchronize", code: 700, .. })));
    drop(stream);
    standin.expect_clean();
    Ok(())
}

pub(super) fn errors_in_drop(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    for call in ["hipFree", "hipStreamDestroy", "hipEventDestroy", "hipHostFree"] {
        let x = DeviceMem::<f32>::new(&device, 4)?;
        let parts = (Stream::new(&device)?, Event::new(&device)?, PinnedMem::<f32>::new(&device, 4)?);
        standin.fail(call, 1, 719);
        drop((x, parts));
        let error = DeviceMem::<f32>::new(&device, 4).unwrap_err();
        let Error::Deferred(inner) = &error else { bail!("{call}: {error}") };
        assert_eq!(error.to_string(), format!("an earlier operation failed: {call} failed: hipErrorLaunchFailure (719)"));
        assert!(matches!(**inner, Error::Hip { code: 719, .. }));
        DeviceMem::<f32>::new(&device, 4).context("an error is told once")?;
    }
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

/// Whatever call fails, at whatever time: an error, no panic, nothing lost but what could not be freed.
pub(super) fn every_call_may_fail(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let calls = [
        "hipSetDevice",
        "hipGetDevice",
        "hipMalloc",
        "hipHostMalloc",
        "hipMemcpyAsync",
        "hipMemsetAsync",
        "hipStreamCreateWithFlags",
        "hipStreamSynchronize",
        "hipStreamWaitEvent",
        "hipEventCreateWithFlags",
        "hipEventRecord",
        "hipEventSynchronize",
        "hipEventElapsedTime",
        "hipModuleLaunchKernel",
        "hipModuleGetFunction",
        "hipMemGetInfo",
    ];
    let work = || -> Result<()> {
        exercise(&device)?;
        let stream = Stream::new(&device)?;
        let (mut start, mut end) = (Event::new(&device)?, Event::new(&device)?);
        start.record(&stream)?;
        let transfer = PinnedMem::<f32>::new(&device, 9)?.upload(DeviceMem::new(&device, 9)?, &stream)?;
        end.record(&stream)?;
        stream.wait(&end)?;
        let (pinned, x) = transfer.wait()?;
        assert_eq!(x.to_vec()?, pinned.as_slice());
        assert!(end.elapsed_since(&start)?.as_micros() == 1500);
        device.memory_info()?;
        Ok(())
    };
    work()?;
    for call in calls {
        for nth in 1..=6 {
            standin.fail(call, nth, 999);
            if let Err(error) = work() {
                assert!(error.downcast_ref::<Error>().is_some(), "{call} {nth}: {error}");
            }
            // What a Drop found, and failures that were never reached.
            standin.fail(call, 1 << 40, 999);
            let _ = device.memory_info();
            standin.expect_clean();
        }
    }
    work()
}

pub(super) fn streams_are_ordered(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let stream = Stream::new(&device)?;
    let mut pinned = PinnedMem::<f32>::new(&device, 4)?;
    pinned.as_mut_slice().copy_from_slice(&ramp(4));
    // Nothing has happened yet, and another buffer's blocking copy comes after it all the same.
    let transfer = pinned.upload(DeviceMem::new(&device, 4)?, &stream)?;
    assert_eq!(standin.count("pending"), 2);
    assert!(!transfer.is_done()?);
    DeviceMem::<f32>::new(&device, 1)?.set_zero()?;
    assert_eq!(standin.count("pending"), 0);
    assert!(transfer.is_done()?);
    let (_, x) = transfer.wait()?;
    assert_eq!(x.to_vec()?, ramp(4));

    // Freed while a stream still uses it: the drop waits.
    let other = Stream::new(&device)?;
    let transfer = PinnedMem::<f32>::new(&device, 4)?.download(x, &other)?;
    drop(transfer);
    drop((stream, other));
    standin.expect_clean();
    Ok(())
}

pub(super) fn events(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let (first, second) = (Stream::new(&device)?, Stream::new(&device)?);
    let mut event = Event::new(&device)?;
    assert!(event.is_done()?, "nothing was recorded");
    event.synchronize()?;
    let mut start = Event::new(&device)?;
    assert!(matches!(event.elapsed_since(&start), Err(Error::InvalidArgument { what: "event", .. })));
    start.record(&first)?;
    event.record(&first)?;
    assert!(!event.is_done()?);
    second.wait(&event)?;
    second.synchronize()?;
    assert!(event.is_done()?, "the second stream waited for the first");
    assert_eq!(event.elapsed_since(&start)?.as_micros(), 1500);
    let host = Stream::new(&Device::host())?;
    assert!(matches!(host.wait(&event), Err(Error::WrongDevice { .. })));
    assert!(matches!(event.record(&host), Err(Error::WrongDevice { .. })));
    // A wait is for what was recorded before it; a later record of the same event changes nothing.
    event.record(&first)?;
    second.wait(&event)?;
    event.record(&first)?;
    second.synchronize()?;
    assert!(!event.is_done()?, "the second stream waited for the first record only");
    first.synchronize()?;
    assert!(event.is_done()?);
    // A stream that is dropped does its work first.
    let third = Stream::new(&device)?;
    event.record(&first)?;
    third.wait(&event)?;
    drop(third);
    drop((event, start, first, second));
    standin.expect_clean();
    Ok(())
}

pub(super) fn transfers(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let stream = Stream::new(&device)?;
    let mut pinned = PinnedMem::<f32>::new(&device, 100)?;
    assert_eq!((pinned.as_slice(), pinned.len(), pinned.is_empty()), (&[0.0; 100][..], 100, false));
    pinned.as_mut_slice().copy_from_slice(&ramp(100));
    let (mut pinned, x) = pinned.upload(DeviceMem::new(&device, 100)?, &stream)?.wait()?;
    pinned.as_mut_slice().fill(0.0);
    let (pinned, x) = pinned.download(x, &stream)?.wait()?;
    assert_eq!(pinned.as_slice(), ramp(100));
    assert!(matches!(pinned.upload(DeviceMem::new(&device, 99)?, &stream), Err(Error::Length { expected: 99, found: 100, .. })));
    let empty = PinnedMem::<f32>::new(&device, 0)?.upload(DeviceMem::new(&device, 0)?, &stream)?.wait()?;
    assert!(empty.0.is_empty());
    // There is nothing to free.
    drop(empty);
    // A leaked transfer leaks its buffers and nothing worse.
    std::mem::forget(PinnedMem::<f32>::new(&device, 100)?.upload(x, &stream)?);
    drop(stream);
    assert_eq!((standin.count("device"), standin.count("pinned"), standin.count("violations")), (1, 1, 0));
    Ok(())
}

pub(super) fn scopes(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let stream = Stream::new(&device)?;
    let (source, mut x, mut y) = (ramp(50), DeviceMem::<f32>::new(&device, 50)?, DeviceMem::<f32>::new(&device, 50)?);
    let pending = stream.scope(|s| -> Result<usize> {
        s.upload(&source, &mut x)?;
        s.upload(&source, &mut y)?;
        Ok(standin.count("pending"))
    })??;
    assert_eq!((pending, standin.count("pending")), (2, 0));
    assert_eq!(x.to_vec()?, source);
    let mut back = vec![0.0; 50];
    stream.scope(|s| s.download(&y, &mut back))??;
    assert_eq!(back, source);

    // A panic waits as well: `back` must not be written after this.
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.scope(|s| {
            s.download(&y, &mut back).unwrap();
            panic!("as planned");
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(standin.count("pending"), 0);

    standin.fail("hipStreamSynchronize", 1, 700);
    assert!(matches!(stream.scope(|s| s.upload(&source, &mut x)), Err(Error::Hip { code: 700, .. })));
    stream.synchronize()?;
    drop((x, y, stream));
    standin.expect_clean();
    Ok(())
}

pub(super) fn foreign_handles(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let owner = Stream::new(&device)?;
    // SAFETY: `owner` outlives it; null is the null stream.
    let (foreign, null) = unsafe { (Stream::from_raw(&device, owner.as_raw())?, Stream::from_raw(&device, std::ptr::null_mut())?) };
    for stream in [&foreign, &null] {
        let (_, x) = PinnedMem::<f32>::new(&device, 3)?.upload(DeviceMem::new(&device, 3)?, stream)?.wait()?;
        assert_eq!(x.to_vec()?, [0.0; 3]);
    }
    drop((foreign, null));
    owner.synchronize().context("borrowed streams are not destroyed")?;
    // SAFETY: the host device takes no such stream and says so.
    assert!(matches!(unsafe { Stream::from_raw(&Device::host(), owner.as_raw()) }, Err(Error::Unsupported { .. })));

    let x = DeviceMem::from_slice(&device, &ramp(6))?;
    let address = hipverify::device::AsTensor::as_tensor(&x).as_ptr().cast::<f32>();
    // SAFETY: `x` outlives the slice and has six elements.
    let slice = unsafe { DeviceSlice::from_raw(address, 6, &device)? };
    assert_eq!(slice.tensor(&[2, 3])?.shape(), [2, 3]);
    for shape in [[7], [5]] {
        assert!(matches!(slice.tensor(&shape), Err(Error::Shape { .. })), "{shape:?}");
    }
    drop((x, owner));
    standin.expect_clean();
    Ok(())
}

pub(super) fn own_kernels(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let error = Module::compile(&device, "wrong.hip", "#error no").unwrap_err().to_string();
    let words = "kernel wrong.hip could not be compiled for gfx-standin:xnack-: wrong.hip:1:";
    assert!(error.starts_with(words) && error.contains("error: #error no"), "{error}");
    let module = Module::compile(&device, "k.hip", "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }")?;
    let stream = Stream::new(&device)?;
    let x = DeviceMem::from_slice(&device, &ramp(64))?;
    let mut address = hipverify::device::AsTensor::as_tensor(&x).as_ptr();
    let mut launch = |name: &str, blocks, threads| {
        // SAFETY: the kernel takes the address of 64 numbers, which outlive the wait at the end; no other launch succeeds.
        unsafe { module.launch_raw(&stream, name, Grid { blocks, threads, shared_bytes: 0 }, &mut [(&raw mut address).cast()]) }
    };
    launch("twice", [1, 1, 1], [64, 1, 1])?;
    launch("twice", [0, 1, 1], [64, 1, 1])?;
    assert_eq!(standin.count("launches"), 1, "a grid without blocks is no launch");
    assert!(matches!(launch("thrice", [1; 3], [1; 3]), Err(Error::Compile { .. })));
    for threads in [[0, 1, 1], [1025, 1, 1], [1024, 2, 1], [u32::MAX; 3]] {
        assert!(matches!(launch("twice", [1; 3], threads), Err(Error::InvalidArgument { what: "block size", .. })), "{threads:?}");
    }
    let host = Stream::new(&Device::host())?;
    // SAFETY: refused.
    let refused = unsafe { module.launch_raw(&host, "twice", Grid { blocks: [1; 3], threads: [1; 3], shared_bytes: 0 }, &mut []) };
    assert!(matches!(refused, Err(Error::WrongDevice { .. })));
    // SAFETY: refused.
    assert!(matches!(unsafe { Module::load(&device, &[0; 64]) }, Err(Error::Compile { .. })));
    stream.synchronize()?;
    assert_eq!(x.to_vec()?, ramp(64).iter().map(|x| 2.0 * x).collect::<Vec<f32>>());
    drop((x, module, stream));
    standin.expect_clean();
    assert_eq!(standin.count("modules"), 0);
    Ok(())
}

/// Copies go through memory that a GPU may cache; answers, which the host polls, must not.
pub(super) fn pinned_memory_is_coherent_for_answers_only(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let staging = PinnedMem::<f32>::new(&device, 9)?;
    assert_eq!((standin.count("pinned"), standin.count("coherent")), (1, 0));
    let mut plan = hipverify::verify::VerifyPlan::new(&device, &hipverify::verify::Options::default())?;
    plan.reserve(hipverify::DType::F32, hipverify::DType::F32, 9)?;
    assert_eq!((standin.count("pinned"), standin.count("coherent")), (2, 1));
    drop((staging, plan));
    standin.expect_clean();
    Ok(())
}

pub(super) fn memory_in_the_order_of_a_stream(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let [stream, other] = [Stream::new(&device)?, Stream::new(&device)?];
    let waits = || standin.count("hipStreamSynchronize") + standin.count("hipEventSynchronize");
    let source = ramp(50);
    {
        let before = waits();
        let mut x = DeviceMem::<f32>::new_on(&stream, 50)?;
        assert!(DeviceBytes::new_on(&stream, 0)?.byte_size() == 0);
        assert_eq!((standin.count("hipMallocAsync"), standin.count("device")), (1, 1));
        // Its own stream is in order; another one has to wait for it.
        stream.scope(|s| s.upload(&source, &mut x))??;
        assert_eq!(waits(), before + 1, "the end of the scope");
        let mut y = DeviceMem::<f32>::new_on(&stream, 50)?;
        other.scope(|s| s.upload(&source, &mut y))??;
        assert_eq!(waits(), before + 3, "the allocation's stream, and the end of the scope");
        assert_eq!((x.to_vec()?, y.to_vec()?), (source.clone(), source));
        let before = waits();
        drop((x, y));
        assert_eq!(waits(), before, "freed in order");
    }
    assert_eq!(standin.count("device"), 2, "the stream has not come so far");
    stream.synchronize()?;
    assert_eq!((standin.count("device"), standin.count("hipFree")), (0, 0));
    // Work on another stream is waited for.
    let x = DeviceMem::<f32>::new_on(&stream, 50)?;
    let transfer = PinnedMem::<f32>::new(&device, 50)?.download(x, &other)?;
    drop(transfer);
    // A stream that is captured takes no part in memory.
    let x = DeviceMem::<f32>::new_on(&stream, 50)?;
    let (_, ()) = stream.capture(|capture| {
        assert!(matches!(DeviceMem::<f32>::new_on(capture.stream(), 50), Err(Error::Unsupported { .. })));
        drop(x);
        Ok(())
    })?;
    assert_eq!(standin.count("hipFree"), 1);
    standin.fail("hipMallocAsync", 1, 2);
    assert!(matches!(DeviceMem::<f32>::new_on(&stream, 50), Err(Error::OutOfMemory { bytes: 200, .. })));
    // The function is there and the device cannot do it.
    standin.fail("hipMallocAsync", 1, 801);
    assert_eq!(DeviceMem::<f32>::new_on(&stream, 50)?.len(), 50);
    assert_eq!(standin.count("hipFree"), 2);
    drop((stream, other));
    standin.expect_clean();
    Ok(())
}

pub(super) fn memory_without_streams(standin: &StandIn) -> Result<()> {
    let device = gpu()?;
    let stream = Stream::new(&device)?;
    let mut x = DeviceMem::<f32>::new_on(&stream, 5)?;
    x.copy_from_slice(&ramp(5))?;
    assert_eq!(x.to_vec()?, ramp(5));
    drop((x, stream));
    assert_eq!((standin.count("hipMallocAsync"), standin.count("hipMalloc"), standin.count("hipFree")), (0, 1, 1));
    standin.expect_clean();
    Ok(())
}

/// Uses a kernel on a device that has not loaded it before.
fn use_kernel(device: &str) -> Result<()> {
    let mut x = DeviceMem::<f32>::new(&Device::open(device)?, 3)?;
    x.set_value(1.0)?;
    assert_eq!(x.to_vec()?, [1.0; 3]);
    Ok(())
}

/// Each device loads its kernels on its own: what one has compiled, the next one finds, as another process would.
pub(super) fn compiled_kernels_are_kept(standin: &StandIn) -> Result<()> {
    let folder = PathBuf::from(std::env::var_os("HIPVERIFY_CACHE_DIR").context("not set")?);
    let entries = || -> Result<Vec<PathBuf>> { std::fs::read_dir(&folder)?.map(|e| Ok(e?.path())).collect() };
    let compiled = || standin.count("hiprtcCompileProgram");
    use_kernel("gpu:0")?;
    assert_eq!(compiled(), 1);
    let [entry] = &entries()?[..] else { bail!("{:?}", entries()?) };
    let name = entry.file_name().context("no name")?.to_string_lossy().into_owned();
    assert!(name.starts_with("set_value-gfx-standin-xnack--") && name.ends_with(".bin"), "{name}");
    use_kernel("gpu:1")?;
    assert_eq!(compiled(), 1, "found on disk");
    // A damaged entry is replaced.
    let whole = std::fs::read(entry)?;
    std::fs::write(entry, &whole[..whole.len() / 2])?;
    use_kernel("gpu:2")?;
    assert_eq!(compiled(), 2);
    assert!(std::fs::read(entry)? == whole);
    // One that the runtime refuses, too.
    standin.fail("hipModuleLoadData", 1, 200);
    use_kernel("gpu:3")?;
    assert_eq!(compiled(), 3);
    use_kernel("gpu:4")?;
    assert_eq!(compiled(), 3);
    // What does not load is not kept.
    std::fs::remove_file(entry)?;
    standin.fail("hipModuleLoadData", 1, 200);
    assert!(use_kernel("gpu:5").is_err());
    assert!(entries()?.is_empty());
    // No folder can be made where a file is.
    std::fs::remove_dir(&folder)?;
    std::fs::write(&folder, "in the way")?;
    use_kernel("gpu:6")?;
    assert_eq!(compiled(), 5);
    assert_eq!(standin.count("violations"), 0);
    Ok(())
}

pub(super) fn nothing_is_kept(standin: &StandIn) -> Result<()> {
    use_kernel("gpu:0")?;
    use_kernel("gpu:1")?;
    assert_eq!(standin.count("hiprtcCompileProgram"), 2);
    assert!(!std::path::Path::new("off").exists());
    Ok(())
}
