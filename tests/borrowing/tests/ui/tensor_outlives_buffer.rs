// A tensor borrows its buffer.
use hipverify::{Device, DeviceMem};

fn main() -> hipverify::Result<()> {
    let mut x = DeviceMem::<f32>::new(&Device::host(), 4)?;
    let tensor = x.tensor(&[2, 2])?;
    x.set_zero()?;
    println!("{}", tensor.elements());
    Ok(())
}
