//! Buffers that somebody else owns: verify them where they are, from a pointer and a length, on the stream that writes them.
//!
//! `cargo run --release --example raw_pointers`

use anyhow::Result;
use hipverify::device::{AsTensor, DeviceSlice, Stream};
use hipverify::verify::{Options, Tolerance, VerifyPlan};
use hipverify::{DType, Device, DeviceMem};

/// Stands for a machine-learning framework with its own allocations and stream.
struct Framework {
    activations: DeviceMem<f32>,
    expected: DeviceMem<f32>,
    stream: Stream,
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("{device}");
    let values: Vec<f32> = (0..1000).map(|i| (i as f32).sqrt()).collect();
    let framework = Framework {
        activations: DeviceMem::from_slice(&device, &values)?,
        expected: DeviceMem::from_slice(&device, &values)?,
        stream: Stream::new(&device)?,
    };
    // Before the work begins: memory and kernels of the comparison.
    let mut plan = VerifyPlan::new(&device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 1000)?;
    // What the framework hands out: addresses, a length, and a stream (`Stream::from_raw` takes a `hipStream_t`).
    let (x, y) = (framework.activations.as_tensor().as_ptr().cast::<f32>(), framework.expected.as_tensor().as_ptr().cast::<f32>());
    // SAFETY: both buffers have 1000 f32 on this device, outlive the comparison, and what writes them is on its stream.
    let (x, y) = unsafe { (DeviceSlice::from_raw(x, 1000, &device)?, DeviceSlice::from_raw(y, 1000, &device)?) };
    // Enqueues a kernel and returns. The stream goes on; the code that needs the verdict waits for it.
    let pending = plan.enqueue(&framework.stream, &x, &y, &Tolerance::exact())?;
    println!("{}", pending.wait()?.into_result()?);
    Ok(())
}
