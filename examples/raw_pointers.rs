//! Buffers that somebody else owns: verify them where they are, from a pointer and a length.
//!
//! `cargo run --release --example raw_pointers`

use anyhow::Result;
use hipverify::device::{AsTensor, DeviceSlice, Stream};
use hipverify::verify::{Tolerance, gpu_verify};
use hipverify::{Device, DeviceMem};

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
    // What the framework hands out: addresses, a length, and a stream whose work must be done first.
    let (x, y) = (framework.activations.as_tensor().as_ptr().cast::<f32>(), framework.expected.as_tensor().as_ptr().cast::<f32>());
    framework.stream.synchronize()?;
    // SAFETY: both buffers have 1000 f32 on this device, outlive the slices, and nobody writes them meanwhile.
    let (x, y) = unsafe { (DeviceSlice::from_raw(x, 1000, &device)?, DeviceSlice::from_raw(y, 1000, &device)?) };
    let report = gpu_verify(&x, &y, &Tolerance::exact())?;
    println!("{report}");
    report.into_result()?;
    Ok(())
}
