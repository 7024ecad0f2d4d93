//! Memory, streams, events and launches.

use crate::own_kernel::OwnKernel;
use crate::suite::tests;
use crate::target::Target;
use anyhow::{Result, ensure};
use hipverify::device::PinnedMem;
use hipverify::dtype::{Bf16, Element};
use hipverify::{Device, DeviceMem, Event, Stream};

tests! {
    All: copies_keep_every_byte, values_are_repeated_over_the_whole_buffer, transfers_and_scopes_move_what_they_borrow,
        memory_in_the_order_of_a_stream, events_measure_and_order, threads_share_a_device;
    // Systems that promise more memory than they have take any size on the host.
    Gpus: own_kernels_run_on_own_streams, too_much_memory_is_an_error;
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

fn copies_keep_every_byte(target: &Target) -> Result<()> {
    let device = &target.device;
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
}

fn repeats<T: Element>(device: &Device, value: T) -> Result<()> {
    // Around 16 bytes, where the kernel changes from vectors to single bytes, and more than one pass of any grid.
    for n in [0, 1, 2, 3, 15, 16, 17, 31, 1000, (device.multiprocessors() << 14) + 3] {
        let mut x = DeviceMem::<T>::new(device, n)?;
        x.set_value(value)?;
        ensure!(x.to_vec()?.iter().all(|v| *v == value), "{} x {n}", T::DTYPE);
        x.set_zero()?;
        ensure!(x.to_vec()?.iter().all(|v| *v == T::zeroed()), "{} x {n}", T::DTYPE);
    }
    Ok(())
}

fn values_are_repeated_over_the_whole_buffer(target: &Target) -> Result<()> {
    let device = &target.device;
    repeats(device, 0x5au8)?;
    repeats(device, Bf16::from_f32(-1.5))?;
    repeats(device, 3.25f32)?;
    repeats(device, -0.1f64)
}

fn transfers_and_scopes_move_what_they_borrow(target: &Target) -> Result<()> {
    let device = &target.device;
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
}

fn memory_in_the_order_of_a_stream(target: &Target) -> Result<()> {
    let device = &target.device;
    let (first, second) = (Stream::new(device)?, Stream::new(device)?);
    let n = target.size(10_000, 100_000);
    let source = ramp(n);
    for round in 0..20 {
        let (mut x, mut y) = (DeviceMem::<f32>::new_on(&first, n)?, DeviceMem::<f32>::new_on(&second, n)?);
        first.scope(|s| s.upload(&source, &mut x))??;
        // Used on the stream that did not allocate it, and without a stream.
        first.scope(|s| s.upload(&source, &mut y))??;
        ensure!(y.to_vec()? == source && x.to_vec()? == source, "round {round}");
        x.set_value(round as f32)?;
        ensure!(x.to_vec()? == vec![round as f32; n]);
    }
    Ok(())
}

fn events_measure_and_order(target: &Target) -> Result<()> {
    let device = &target.device;
    let (first, second) = (Stream::new(device)?, Stream::new(device)?);
    let (mut start, mut end) = (Event::new(device)?, Event::new(device)?);
    start.record(&first)?;
    let transfer = PinnedMem::<f32>::new(device, 1 << 20)?.upload(DeviceMem::new(device, 1 << 20)?, &first)?;
    end.record(&first)?;
    second.wait(&end)?;
    second.synchronize()?;
    ensure!(end.is_done()? && transfer.is_done()?);
    let time = end.elapsed_since(&start)?;
    ensure!(!target.is_gpu() || time.as_nanos() > 0, "{time:?}");
    ensure!(time.as_secs() < 10, "{time:?}");
    Ok(())
}

fn own_kernels_run_on_own_streams(target: &Target) -> Result<()> {
    let device = &target.device;
    let kernel = OwnKernel::new(device)?;
    let stream = Stream::new(device)?;
    let mut x = DeviceMem::<f32>::new(device, 1000)?;
    let address = x.tensor_mut(&[1000])?.as_mut_ptr().cast::<f32>();
    // SAFETY: `x` has 1000 elements, is not touched before the copy below, which comes after all streams, and lives on.
    unsafe { kernel.set(&stream, address, 1000, 2.5)? };
    // No wait of ours: the copy comes after all streams.
    ensure!(x.to_vec()? == vec![2.5; 1000]);
    // SAFETY: there is no such kernel, so that nothing is written.
    ensure!(unsafe { kernel.launch("no_such_kernel", &stream, address, 1000, 2.5) }.is_err());
    Ok(())
}

fn threads_share_a_device(target: &Target) -> Result<()> {
    let device = &target.device;
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
}

fn too_much_memory_is_an_error(target: &Target) -> Result<()> {
    let device = &target.device;
    let (_, total) = device.memory_info()?;
    let error = DeviceMem::<u8>::new(device, total.saturating_mul(4)).map(|_| ());
    ensure!(matches!(error, Err(hipverify::Error::OutOfMemory { .. })), "{error:?}");
    // And the device works on.
    ensure!(DeviceMem::from_slice(device, &ramp(5))?.to_vec()? == ramp(5));
    Ok(())
}
