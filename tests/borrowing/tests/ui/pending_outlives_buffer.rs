// A comparison under way borrows what it reads.
use hipverify::verify::{Options, Tolerance, VerifyPlan};
use hipverify::{DType, Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let stream = Stream::new(&device)?;
    let (x, y) = (DeviceMem::<f32>::new(&device, 4)?, DeviceMem::<f32>::new(&device, 4)?);
    let mut plan = VerifyPlan::new(&device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 4)?;
    let pending = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
    drop(x);
    pending.wait()?;
    Ok(())
}
