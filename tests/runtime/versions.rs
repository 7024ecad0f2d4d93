//! What differs between the runtimes of ROCm 5, 6 and 7.

use super::*;
use hipverify::DType;
use hipverify::verify::{Options, Tolerance, VerifyPlan};

/// What every version does alike: everything but memory in the order of a stream and graphs.
fn exercise(standin: &StandIn, runtime: &str) -> Result<Device> {
    let device = gpu()?;
    assert_eq!(device.name(), "gpu:0 Stand-in GPU, gfx-standin");
    assert_eq!(device.runtime().as_deref(), Some(runtime));
    let mut x = DeviceMem::from_slice(&device, &ramp(100))?;
    x.set_value(2.5)?;
    assert_eq!(x.to_vec()?, [2.5; 100]);
    assert!(Module::compile(&device, "wrong.hip", "#error no").is_err());
    for call in ["hipMalloc", "hipGetDevice", "hipStreamIsCapturing", "hipMemcpyAsync", "hipModuleLaunchKernel"] {
        standin.fail(call, 1, 999);
        let _ = DeviceMem::from_slice(&device, &ramp(3)).and_then(|mut x| x.set_value(1.0));
        standin.fail(call, 1 << 40, 999);
        assert_eq!(standin.count("last error"), 0, "an error of {call} is left for the caller's hipGetLastError");
    }
    Ok(device)
}

/// How often memory was allocated in the order of a stream, and how often otherwise.
fn allocate(standin: &StandIn, device: &Device) -> Result<(usize, usize)> {
    let calls = || (standin.count("hipMallocAsync"), standin.count("hipMalloc"));
    let before = calls();
    let stream = Stream::new(device)?;
    let mut x = DeviceMem::<f32>::new_on(&stream, 5)?;
    x.copy_from_slice(&ramp(5))?;
    assert_eq!(x.to_vec()?, ramp(5));
    drop((x, stream));
    let after = calls();
    Ok((after.0 - before.0, after.1 - before.1))
}

/// Records a comparison and launches it twice.
fn replay(device: &Device) -> Result<()> {
    let x = DeviceMem::from_slice(device, &ramp(100))?;
    let mut plan = VerifyPlan::new(device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 100)?;
    plan.reserve(DType::F32, DType::F32, 100)?;
    let stream = Stream::new(device)?;
    plan.enqueue(&stream, &x, &x, &Tolerance::exact())?.wait()?;
    let captured = stream.capture(|capture| plan.record(capture, &x, &x, &Tolerance::exact()));
    // Whatever came of it, the stream goes on.
    plan.enqueue(&stream, &x, &x, &Tolerance::exact())?.wait()?;
    let (mut graph, recorded) = captured?;
    for _ in 0..2 {
        graph.launch(&stream)?;
        recorded.report(&graph)?;
    }
    Ok(())
}

pub(super) fn rocm_5(standin: &StandIn) -> Result<()> {
    let device = exercise(standin, "libamdhip64.so.5 (HIP 5.2)")?;
    assert_eq!(allocate(standin, &device)?, (0, 1), "hipStreamDestroy would never return");
    let error = replay(&device).unwrap_err().to_string();
    let reason = "graph capture (of 2 kernels that were launched, 0 were recorded; the others ran at once)";
    assert_eq!(error, format!("{reason} is not supported by libamdhip64.so.5 (HIP 5.2)"));
    // A recording of nothing is whole, and one that its closure gives up is waited for as well.
    let stream = Stream::new(&device)?;
    let (mut graph, ()) = stream.capture(|_| Ok(()))?;
    graph.launch(&stream)?;
    let mut plan = VerifyPlan::new(&device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 100)?;
    let x = DeviceMem::from_slice(&device, &ramp(100))?;
    let failed = stream.capture(|capture| {
        plan.record(capture, &x, &x, &Tolerance::exact())?;
        capture.stream().synchronize()
    });
    assert!(failed.is_err());
    assert_eq!(standin.count("pending"), 0, "the comparison ran at once");
    drop(failed);
    drop((graph, plan, x, stream));
    standin.expect_clean();
    Ok(())
}

pub(super) fn rocm_6(standin: &StandIn) -> Result<()> {
    let device = exercise(standin, "libamdhip64.so.6 (HIP 6.2)")?;
    assert_eq!(allocate(standin, &device)?, (1, 0));
    replay(&device)?;
    standin.expect_clean();
    Ok(())
}

pub(super) fn rocm_7(standin: &StandIn) -> Result<()> {
    let device = exercise(standin, "libamdhip64.so.7 (HIP 7.0)")?;
    assert_eq!(allocate(standin, &device)?, (1, 0));
    replay(&device)?;
    standin.expect_clean();
    Ok(())
}

/// HIP 5.1 has `hipMallocAsync` and does not know the attribute.
pub(super) fn an_attribute_that_is_not_known(standin: &StandIn) -> Result<()> {
    assert_eq!(allocate(standin, &gpu()?)?, (0, 1));
    standin.expect_clean();
    Ok(())
}

pub(super) fn an_attribute_that_fails(_: &StandIn) -> Result<()> {
    assert!(matches!(gpu().unwrap_err().downcast()?, Error::Hip { call: "hipDeviceGetAttribute", code: 719, .. }));
    gpu()?;
    Ok(())
}
