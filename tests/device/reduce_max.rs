//! The largest magnitude against a plain loop, in every format, with what is not finite counted apart.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Lcg, elements, encode, view};
use anyhow::{Result, ensure};
use hipverify::DeviceMem;
use hipverify::device::{AsTensor, Layout, TensorRef};
use hipverify::dtype::{Class, DType};
use hipverify::verify::gpu_reduce_max;

tests! {
    All: every_format_and_size, parts_of_memory_in_every_format, the_last_element_counts_in_every_layout, the_largest_number_is_finite;
}

/// Value, NaN and infinities by a plain loop.
fn expected(dtype: DType, bytes: &[u8], n: usize) -> (f64, u64, u64) {
    let (mut value, mut nans, mut infinities) = (0f64, 0, 0);
    for bits in (0..n).map(|i| dtype.load_bits(bytes, i)) {
        match dtype.classify(bits) {
            Class::Nan => nans += 1,
            Class::Infinite => infinities += 1,
            _ => value = value.max(dtype.decode(bits).abs()),
        }
    }
    (value, nans, infinities)
}

/// Tame data take the vector path alone; one element in 500 that may be anything is what a vector's other path is for.
fn every_format_and_size(target: &Target) -> Result<()> {
    for dtype in DType::ALL {
        let vector = 128 / dtype.bits();
        // A tile is 4 vectors for each of 512 threads.
        let tile = 4 * 512 * vector;
        let sizes = [1, vector - 1, vector, vector + 1, tile - 1, tile, tile + 1, target.device.multiprocessors() * 4 * tile + 11];
        for (n, wild) in sizes.into_iter().flat_map(|n| [(n, 0), (n, 1), (n, 500)]) {
            let mut rng = Lcg::new(n as u64 ^ wild);
            let bytes = elements(dtype, n, |_| match wild {
                0 => encode(dtype, 4.0 * rng.unit()),
                every if rng.one_in(every) => rng.pattern(dtype),
                _ => encode(dtype, 4.0 * rng.unit()),
            });
            let memory = DeviceMem::from_slice(&target.device, &bytes)?;
            let found = gpu_reduce_max(&view(&memory, dtype, n, 0)?)?;
            let (found, expected) = ((found.value, found.nans, found.infinities), expected(dtype, &bytes, n));
            ensure!(
                found == expected,
                "{dtype}, {n} elements, wild {wild}: (value, nans, infinities) are {found:?}, expected {expected:?}"
            );
        }
    }
    Ok(())
}

/// What lies before and behind is larger.
fn parts_of_memory_in_every_format(target: &Target) -> Result<()> {
    for dtype in DType::ALL {
        let part = 32..64;
        let bytes = elements(dtype, 128, |i| encode(dtype, if part.contains(&i) { 1.0 } else { 2.0 }));
        let memory = DeviceMem::from_slice(&target.device, &bytes)?;
        let layout = Layout::strided(&[part.len()], &[1], part.start)?;
        // SAFETY: `from_raw` checks that the layout lies in the memory, which is borrowed and so neither freed nor written.
        let view = unsafe { TensorRef::from_raw(&target.device, memory.as_tensor().as_ptr(), bytes.len(), dtype, layout)? };
        let found = gpu_reduce_max(&view)?.value;
        ensure!(found == 1.0, "{dtype}: the largest is {found}, expected 1");
    }
    Ok(())
}

fn the_last_element_counts_in_every_layout(target: &Target) -> Result<()> {
    // What lies between the elements is larger. Each layout has another maximum, so that none passes by what an earlier launch has left.
    let mut x = vec![9.0f32; 3000];
    let layouts = [
        ("dense", Layout::contiguous(&[1000])?),
        ("unaligned", Layout::strided(&[999], &[1], 1)?),
        ("padded rows", Layout::strided(&[20, 47], &[50, 1], 3)?),
        ("transposed", Layout::strided(&[47, 20], &[1, 50], 3)?),
        ("backwards", Layout::strided(&[700], &[-3], 2999)?),
    ];
    for ((what, layout), largest) in layouts.into_iter().zip([2.0f32, 3.0, 4.0, 5.0, 6.0]) {
        for i in 0..layout.elements() {
            x[layout.index(i)] = -1.0;
        }
        let last = layout.index(layout.elements() - 1);
        x[last] = -largest;
        let memory = DeviceMem::from_slice(&target.device, &x)?;
        let found = gpu_reduce_max(&memory.strided(layout)?)?;
        ensure!(found.value == f64::from(largest), "{what}: the largest is {}, expected {largest}", found.value);
        x.fill(9.0);
    }
    Ok(())
}

/// In the tail, and in a vector beside a NaN.
fn the_largest_number_is_finite(target: &Target) -> Result<()> {
    for (dtype, format) in DType::ALL.into_iter().filter_map(|dtype| Some((dtype, dtype.float_format()?))) {
        let tile = 4 * 512 * 128 / dtype.bits();
        for n in [2, tile] {
            let nan = (0..1u64 << dtype.bits().min(16))
                .map(|low| low << (dtype.bits() - dtype.bits().min(16)))
                .find(|b| dtype.decode(*b).is_nan());
            let one = encode(dtype, 1.0);
            let bytes = elements(dtype, n, |i| [encode(dtype, format.max_finite()), nan.unwrap_or(one)].get(i).copied().unwrap_or(one));
            let memory = DeviceMem::from_slice(&target.device, &bytes)?;
            let found = gpu_reduce_max(&view(&memory, dtype, n, 0)?)?;
            let found = (found.value, found.nans, found.infinities);
            let expected = (format.max_finite(), u64::from(nan.is_some()), 0);
            ensure!(found == expected, "{dtype}, {n} elements: (value, nans, infinities) are {found:?}, expected {expected:?}");
        }
    }
    Ok(())
}
