//! Memory, streams, events and launches on every device that opens. The host always does; `tests/devices.rs` fails where a GPU
//! that must be there is missing.

mod common;

use anyhow::{Result, ensure};
use common::{SetValue, on_all, set_value_module};
use hipverify::device::{DeviceKind, Grid, PinnedMem};
use hipverify::dtype::{Bf16, Element};
use hipverify::{Device, DeviceMem, Event, Stream};
use std::ffi::c_void;

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

#[test]
fn copies_keep_every_byte() -> Result<()> {
    on_all(|device| {
        for n in [0, 1, 7, 1000, (1 << 20) + 3] {
            let source = ramp(n);
            let x = DeviceMem::from_slice(device, &source)?;
            ensure!(x.to_vec()? == source);
            for other in Device::all() {
                let mut y = DeviceMem::<f32>::new(&other, n)?;
                y.copy_from(&x)?;
                ensure!(y.to_vec()? == source, "to {other}, {n}");
            }
        }
        Ok(())
    })
}

fn repeats<T: Element>(device: &Device, value: T) -> Result<()> {
    // Sizes around 16 bytes, where the kernel changes from words to single bytes.
    for n in [0, 1, 2, 3, 15, 16, 17, 31, 1000, 100_003] {
        let mut x = DeviceMem::<T>::new(device, n)?;
        x.set_value(value)?;
        ensure!(x.to_vec()?.iter().all(|v| *v == value), "{} x {n}", T::DTYPE);
        x.set_zero()?;
        ensure!(x.to_vec()?.iter().all(|v| *v == T::zeroed()), "{} x {n}", T::DTYPE);
    }
    Ok(())
}

#[test]
fn values_are_repeated_over_the_whole_buffer() -> Result<()> {
    on_all(|device| {
        repeats(device, 0x5au8)?;
        repeats(device, Bf16::from_f32(-1.5))?;
        repeats(device, 3.25f32)?;
        repeats(device, -0.1f64)
    })
}

#[test]
fn transfers_and_scopes_move_what_they_borrow() -> Result<()> {
    on_all(|device| {
        let n = 1 << 20;
        let (first, second) = (Stream::new(device)?, Stream::new(device)?);
        let mut pinned = PinnedMem::<f32>::new(device, n)?;
        pinned.as_mut_slice().copy_from_slice(&ramp(n));
        let up = pinned.upload(DeviceMem::new(device, n)?, &first)?;
        // Meanwhile, on another stream.
        let (source, mut x) = (ramp(1000), DeviceMem::<f32>::new(device, 1000)?);
        second.scope(|s| s.upload(&source, &mut x))??;
        ensure!(x.to_vec()? == source);
        let (mut pinned, y) = up.wait()?;
        pinned.as_mut_slice().fill(0.0);
        let (pinned, _) = pinned.download(y, &second)?.wait()?;
        ensure!(pinned.as_slice() == ramp(n));
        Ok(())
    })
}

#[test]
fn memory_in_the_order_of_a_stream() -> Result<()> {
    on_all(|device| {
        let (first, second) = (Stream::new(device)?, Stream::new(device)?);
        let source = ramp(100_000);
        for round in 0..20 {
            let (mut x, mut y) = (DeviceMem::<f32>::new_on(&first, 100_000)?, DeviceMem::<f32>::new_on(&second, 100_000)?);
            first.scope(|s| s.upload(&source, &mut x))??;
            // Used on the stream that did not allocate it, and without a stream.
            first.scope(|s| s.upload(&source, &mut y))??;
            ensure!(y.to_vec()? == source && x.to_vec()? == source, "round {round}");
            x.set_value(round as f32)?;
            ensure!(x.to_vec()? == vec![round as f32; 100_000]);
        }
        Ok(())
    })
}

#[test]
fn events_measure_and_order() -> Result<()> {
    on_all(|device| {
        let (first, second) = (Stream::new(device)?, Stream::new(device)?);
        let (mut start, mut end) = (Event::new(device)?, Event::new(device)?);
        start.record(&first)?;
        let transfer = PinnedMem::<f32>::new(device, 1 << 20)?.upload(DeviceMem::new(device, 1 << 20)?, &first)?;
        end.record(&first)?;
        second.wait(&end)?;
        second.synchronize()?;
        ensure!(end.is_done()? && transfer.is_done()?);
        let time = end.elapsed_since(&start)?;
        ensure!(device.kind() == DeviceKind::Host || time.as_nanos() > 0, "{time:?}");
        ensure!(time.as_secs() < 10, "{time:?}");
        Ok(())
    })
}

#[test]
fn own_kernels_run_on_own_streams() -> Result<()> {
    on_all(|device| {
        let Some(module) = set_value_module(device)? else { return Ok(()) };
        let stream = Stream::new(device)?;
        let mut x = DeviceMem::<f32>::new(device, 1000)?;
        let target = x.tensor_mut(&[1000])?.as_mut_ptr();
        let mut argument = SetValue { target, bytes: 4000, pattern: [2.5f32.to_bits(); 4] };
        let mut arguments = [(&raw mut argument).cast::<c_void>()];
        let grid = Grid { blocks: [2, 1, 1], threads: [128, 1, 1], shared_bytes: 0 };
        // SAFETY: the kernel takes this struct and writes the 4000 bytes of `x`, which lives on.
        unsafe { module.launch_raw(&stream, "set_value", grid, &mut arguments)? };
        // No wait of ours: the copy comes after all streams.
        ensure!(x.to_vec()? == vec![2.5; 1000]);
        // SAFETY: there is no such kernel.
        ensure!(unsafe { module.launch_raw(&stream, "no_such_kernel", grid, &mut arguments) }.is_err());
        Ok(())
    })
}

#[test]
fn threads_share_a_device() -> Result<()> {
    on_all(|device| {
        std::thread::scope(|scope| {
            let work = |seed: usize| -> Result<()> {
                let stream = Stream::new(device)?;
                for round in 0..20 {
                    let mut pinned = PinnedMem::<i64>::new(device, 4096)?;
                    pinned.as_mut_slice().fill((seed * 100 + round) as i64);
                    let (_, mut x) = pinned.upload(DeviceMem::new(device, 4096)?, &stream)?.wait()?;
                    ensure!(x.to_vec()? == vec![(seed * 100 + round) as i64; 4096]);
                    x.set_value(7)?;
                    ensure!(x.to_vec()? == vec![7; 4096]);
                }
                Ok(())
            };
            let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || work(seed))).collect();
            threads.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
        })
    })
}

#[test]
fn too_much_memory_is_an_error() -> Result<()> {
    on_all(|device| {
        if device.kind() == DeviceKind::Host {
            // Systems that promise more memory than they have take any size.
            return Ok(());
        }
        let (_, total) = device.memory_info()?;
        let error = DeviceMem::<u8>::new(device, total.saturating_mul(4)).map(|_| ());
        ensure!(matches!(error, Err(hipverify::Error::OutOfMemory { .. })), "{error:?}");
        // And the device works on.
        ensure!(DeviceMem::from_slice(device, &ramp(5))?.to_vec()? == ramp(5));
        Ok(())
    })
}
