// A launch writes what a report reads.
use hipverify::verify::{Options, Tolerance, VerifyPlan};
use hipverify::{DType, Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let stream = Stream::new(&device)?;
    let (x, y) = (DeviceMem::<f32>::new(&device, 4)?, DeviceMem::<f32>::new(&device, 4)?);
    let mut plan = VerifyPlan::new(&device, &Options::default())?;
    plan.reserve(DType::F32, DType::F32, 4)?;
    let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &x, &y, &Tolerance::exact()))?;
    std::thread::scope(|scope| {
        scope.spawn(|| graph.launch(&stream));
        recorded.report(&graph)
    })?;
    Ok(())
}
