// What a recording takes must live outside of it.
use hipverify::verify::{Options, Tolerance, VerifyPlan};
use hipverify::{DType, Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let stream = Stream::new(&device)?;
    let x = DeviceMem::<f32>::new(&device, 4)?;
    let mut plan = VerifyPlan::new(&device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 4)?;
    let (mut graph, ()) = stream.capture(|capture| {
        let y = DeviceMem::<f32>::new(&device, 4)?;
        plan.record(capture, &x, &y, &Tolerance::exact())?;
        Ok(())
    })?;
    graph.launch(&stream)
}
