// The target of a copy may not be touched before the scope has waited for it.
use hipverify::{Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let source = DeviceMem::<f32>::new(&device, 4)?;
    let mut back = vec![0.0f32; 4];
    Stream::new(&device)?.scope(|s| {
        s.download(&source, &mut back)?;
        back[0] = 1.0;
        Ok(())
    })?
}
