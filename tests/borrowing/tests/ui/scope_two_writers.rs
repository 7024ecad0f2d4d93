// Two copies into one buffer would race.
use hipverify::{Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let (a, b) = (vec![1.0f32; 4], vec![2.0f32; 4]);
    let mut x = DeviceMem::<f32>::new(&device, 4)?;
    Stream::new(&device)?.scope(|s| {
        s.upload(&a, &mut x)?;
        s.upload(&b, &mut x)
    })?
}
