// What a comparison under way reads may not be written.
use hipverify::verify::{Options, Tolerance, VerifyPlan};
use hipverify::{DType, Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let stream = Stream::new(&device)?;
    let (mut x, y) = (DeviceMem::<f32>::new(&device, 4)?, DeviceMem::<f32>::new(&device, 4)?);
    let mut plan = VerifyPlan::new(&device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 4)?;
    let pending = plan.enqueue(&stream, &x, &y, &Tolerance::exact())?;
    x.set_zero()?;
    pending.wait()?;
    Ok(())
}
