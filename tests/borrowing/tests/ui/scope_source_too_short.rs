// The source of a copy must live until the scope has waited for it.
use hipverify::{Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let mut x = DeviceMem::<f32>::new(&device, 4)?;
    Stream::new(&device)?.scope(|s| {
        let source = vec![1.0f32; 4];
        s.upload(&source, &mut x)
    })?
}
