// A buffer in flight belongs to the transfer.
use hipverify::device::PinnedMem;
use hipverify::{Device, DeviceMem, Stream};

fn main() -> hipverify::Result<()> {
    let device = Device::host();
    let stream = Stream::new(&device)?;
    let mut pinned = PinnedMem::<f32>::new(&device, 4)?;
    let transfer = pinned.upload(DeviceMem::new(&device, 4)?, &stream)?;
    pinned.as_mut_slice()[0] = 1.0;
    transfer.wait().map(|_| ())
}
