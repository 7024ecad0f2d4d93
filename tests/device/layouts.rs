//! The comparison of tensors of any layout gives the report of the host on every GPU: what the host tells kernels of extents, strides and alignment.

use crate::compare::{facts, same_fields};
use crate::same_bits::near_and_wild;
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::Owned;
use anyhow::{Context, Result, ensure};
use hipverify::device::{Device, Layout};
use hipverify::dtype::DType;
use hipverify::verify::{Explain, Options, Tolerance, gpu_verify_with};

tests! {
    Gpus: alignments_of_every_width, packed, as_many_dimensions_as_kernels_take;
    Sweeps: packed_beside_wider_formats, packed_in_ranges;
}

/// About 200 elements. Kernels are told at which addresses all rows begin, and load accordingly.
fn layouts() -> Result<Vec<(&'static str, Layout)>> {
    let rows = |pitch: isize, offset| Layout::strided(&[5, 40], &[pitch, 1], offset);
    Ok(vec![
        ("dense, from the second element on", Layout::strided(&[203], &[1], 1)?),
        ("dense, from the third element on", Layout::strided(&[203], &[1], 2)?),
        ("rows 64 elements apart", rows(64, 0)?),
        ("rows 48 elements apart, from the ninth on", rows(48, 8)?),
        ("rows 48 elements apart, from the second on", rows(48, 1)?),
        ("rows 44 elements apart", rows(44, 4)?),
        ("rows 42 elements apart", rows(42, 2)?),
        ("rows 41 elements apart", rows(41, 0)?),
        ("rows of 37 elements", Layout::strided(&[5, 37], &[48, 1], 0)?),
        ("rows of 3 elements", Layout::strided(&[67, 3], &[4, 1], 0)?),
        ("extents of 2", Layout::strided(&[2, 51, 2], &[300, 5, 1], 0)?),
        ("every second element", Layout::strided(&[5, 20], &[48, 2], 1)?),
        ("columns", Layout::strided(&[40, 5], &[1, 48], 0)?),
        ("backwards", Layout::strided(&[5, 40], &[-48, -1], 4 * 48 + 39)?),
        ("rows that share elements", Layout::strided(&[5, 40], &[16, 1], 0)?),
    ])
}

/// The report of a device on numbers in these layouts.
fn report(device: &Device, dtype: DType, of: [&Layout; 2]) -> Result<String> {
    report_of(device, [dtype; 2], of)
}

fn report_of(device: &Device, dtypes: [DType; 2], [of_a, of_r]: [&Layout; 2]) -> Result<String> {
    let (a, r) = (Owned::numbers(device, dtypes[0], of_a, 5, false)?, Owned::numbers(device, dtypes[1], of_r, 6, false)?);
    let options = Options::default().explain(Explain::Always);
    Ok(facts(gpu_verify_with(&a.view(), &r.view(), &Tolerance::new(1e-3, 1e-3)?, &options)?))
}

/// On either side, in every width, packed elements among them, which may begin inside a byte.
fn alignments_of_every_width(target: &Target) -> Result<()> {
    for (i, dtype) in [DType::F64, DType::F32, DType::F16, DType::F8E4M3, DType::F4E2M1].into_iter().enumerate() {
        for (j, (what, layout)) in layouts()?.into_iter().enumerate() {
            let dense = Layout::contiguous(layout.shape())?;
            for (_, sides) in [[&layout, &dense], [&dense, &layout]].into_iter().enumerate().filter(|(k, _)| target.takes(i + j + k)) {
                same_fields(&report(&target.device, dtype, sides)?, &report(&Device::host(), dtype, sides)?)
                    .with_context(|| format!("{dtype}, {what}: {sides:?}"))?;
            }
        }
    }
    Ok(())
}

/// What lies far apart is packed before it is compared; of either side, and of both.
fn packed(target: &Target) -> Result<()> {
    for (i, dtype) in [DType::F64, DType::F32, DType::F16, DType::F8E4M3, DType::F4E2M1].into_iter().enumerate() {
        // Real GPUs have more multiprocessors, and pack larger tensors only.
        let rows = target.size(61, 5001);
        let apart = rows as isize;
        let layouts = [
            ("columns", Layout::strided(&[rows, 262], &[1, apart], 0)?),
            ("columns of whole words", Layout::strided(&[rows + 3, 264], &[1, apart + 7], 8)?),
            ("pixels of four channels, in planes of whole words", Layout::strided(&[2, 40 * rows, 4], &[160 * apart, 1, 40 * apart], 0)?),
            ("columns with gaps, backwards, from an odd element on", Layout::strided(&[rows, 261], &[-1, apart + 9], rows)?),
            ("pixels of three planes", Layout::strided(&[2, 40 * rows, 3], &[120 * apart, 1, 40 * apart], 0)?),
            ("columns of matrices between", Layout::strided(&[rows, 3, 102], &[1, 110 * apart, apart], 0)?),
            ("every second element of columns", Layout::strided(&[3, rows, 130], &[800 * apart, 2, 2 * apart + 1], 1)?),
        ];
        for (_, (what, layout)) in layouts.into_iter().enumerate().filter(|(j, _)| target.takes(i + j)) {
            let dense = Layout::contiguous(layout.shape())?;
            let sides = [[&layout, &dense], [&dense, &layout], [&layout, &layout]];
            // How a tensor is packed does not depend on its side, nor on its format but for the width.
            for sides in sides.into_iter().take(if dtype == DType::F32 { 3 } else { 1 }) {
                same_fields(&report(&target.device, dtype, sides)?, &report(&Device::host(), dtype, sides)?)
                    .with_context(|| format!("{dtype}, {what}: {sides:?}"))?;
            }
        }
    }
    Ok(())
}

/// Beside a format of another width, words of 4 bits are not as long as vectors are: a range of them ends where it ends.
fn packed_beside_wider_formats(target: &Target) -> Result<()> {
    let rows = target.size(61, 5001);
    let sides = [&Layout::strided(&[rows, 262], &[1, rows as isize], 0)?, &Layout::contiguous(&[rows, 262])?];
    for dtypes in [[DType::F4E2M1, DType::F64], [DType::F4E2M1, DType::F16], [DType::I4, DType::I64], [DType::I8, DType::F64]] {
        same_fields(&report_of(&target.device, dtypes, sides)?, &report_of(&Device::host(), dtypes, sides)?)
            .with_context(|| format!("{dtypes:?}"))?;
    }
    Ok(())
}

/// So many elements that they are packed in several ranges, the last shorter than the others; rows end inside them. Of bytes, a range has several turns of counts.
fn packed_in_ranges(target: &Target) -> Result<()> {
    for (rows, dtypes, packed, options) in [
        (target.size(201, 12_001), [DType::F64; 2], [true, true], Options::default()),
        (target.size(201, 12_001), [DType::F32, DType::I64], [false, true], Options::default()),
        (target.size(604, 24_004), [DType::F16; 2], [true, false], Options::default()),
        (target.size(1_001, 48_001), [DType::F8E4M3; 2], [true, true], Options::counts()),
    ] {
        let columns = Layout::strided(&[rows, 3002], &[1, rows as isize], 0)?;
        let dense = Layout::contiguous(columns.shape())?;
        let on = |device: &Device| {
            let tensor = |side: usize| {
                let (dtype, near) = (dtypes[side], near_and_wild(dtypes[side], columns.elements(), side as u64 + 3, 1));
                if packed[side] {
                    return Owned::new(device, dtype, &columns, &near);
                }
                let bytes = dtype.bits() / 8;
                let element = |i| near[columns.index(i) * bytes..][..bytes].iter().copied();
                Owned::new(device, dtype, &dense, &(0..dense.elements()).flat_map(element).collect::<Vec<_>>())
            };
            let options = options.clone().explain(Explain::Always);
            let report = gpu_verify_with(&tensor(0)?.view(), &tensor(1)?.view(), &Tolerance::new(1e-3, 1e-3)?, &options)?;
            anyhow::Ok(facts(report))
        };
        same_fields(&on(&target.device)?, &on(&Device::host())?).with_context(|| format!("{dtypes:?}"))?;
    }
    Ok(())
}

/// Dimensions that do not merge: eight, and one more.
fn as_many_dimensions_as_kernels_take(target: &Target) -> Result<()> {
    let thirds = [6561, 2187, 729, 243, 81, 27, 9, 3, 1];
    let sides = [&Layout::strided(&[2; 8], &thirds[1..], 0)?, &Layout::contiguous(&[2; 8])?];
    same_fields(&report(&target.device, DType::F16, sides)?, &report(&Device::host(), DType::F16, sides)?)?;
    let sides = [&Layout::strided(&[2; 9], &thirds, 0)?, &Layout::contiguous(&[2; 9])?];
    let message = report(&target.device, DType::F16, sides).expect_err("nine dimensions").to_string();
    ensure!(message.contains("at most 8 dimensions that do not continue each other"), "{message}");
    Ok(())
}
