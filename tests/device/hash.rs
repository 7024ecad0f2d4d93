//! The hash of a block of memory is the same on every device, and tells blocks apart.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::Lcg;
use anyhow::{Result, ensure};
use hipverify::{Device, DeviceMem};

tests! {
    Gpus: every_size_and_every_changed_byte;
}

/// Sizes around a word, a vector and a block of threads, and more than the grid takes in one turn.
fn every_size_and_every_changed_byte(target: &Target) -> Result<()> {
    let long = target.device.multiprocessors() * target.size(1 << 14, 1 << 20);
    for n in [0, 1, 7, 8, 9, 15, 16, 17, 31, 4095, 4096, 4097, 4103, long - 1, long, long + 9] {
        let mut rng = Lcg::new(n as u64);
        let mut bytes: Vec<u8> = (0..n).map(|_| rng.next() as u8).collect();
        let hash = |device: &Device, bytes: &[u8]| DeviceMem::from_slice(device, bytes)?.hash();
        let expected = hash(&Device::host(), &bytes)?;
        let found = hash(&target.device, &bytes)?;
        ensure!(found == expected, "{n} bytes: {found:016x}, the host's is {expected:016x}");
        for at in [0, n / 2, n.saturating_sub(1)].into_iter().filter(|&at| at < n) {
            bytes[at] ^= 0x10;
            ensure!(hash(&target.device, &bytes)? != expected, "{n} bytes: one changed at {at} does not show");
            bytes[at] ^= 0x10;
        }
    }
    Ok(())
}
