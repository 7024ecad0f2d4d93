// A shared view of a tensor that is to be written ends before the next write.
use hipverify::fill::{FillConstant, fill};
use hipverify::verify::{Tolerance, gpu_verify};
use hipverify::{Device, DeviceMem};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut x = DeviceMem::<f32>::new(&Device::host(), 4)?;
    let mut tensor = x.tensor_mut(&[4])?;
    let view = tensor.as_ref().clone();
    fill(&mut tensor, &FillConstant::new(1.0))?;
    gpu_verify(&view, &view, &Tolerance::exact())?.into_result()?;
    Ok(())
}
