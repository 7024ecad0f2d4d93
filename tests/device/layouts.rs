//! The comparison of tensors of any layout gives the report of the host on every GPU: what the host tells kernels of extents, strides and alignment.

use crate::compare::{facts, same_fields};
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::Owned;
use anyhow::{Context, Result, ensure};
use hipverify::device::{Device, Layout};
use hipverify::dtype::DType;
use hipverify::verify::{Explain, Options, Tolerance, gpu_verify_with};

tests! {
    Gpus: alignments_of_every_width, as_many_dimensions_as_kernels_take;
    Sweeps: transposed_by_windows;
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
    for dtype in [DType::F64, DType::F32, DType::F16, DType::F8E4M3, DType::F4E2M1] {
        for (what, layout) in layouts()? {
            let dense = Layout::contiguous(layout.shape())?;
            for sides in [[&layout, &dense], [&dense, &layout]] {
                same_fields(&report(&target.device, dtype, sides)?, &report(&Device::host(), dtype, sides)?)
                    .with_context(|| format!("{dtype}, {what}: {sides:?}"))?;
            }
        }
    }
    Ok(())
}

/// Eight rows of whole tiles whose columns lie together are loaded by windows, which threads exchange; whatever is not so aligned goes element after element.
fn transposed_by_windows(target: &Target) -> Result<()> {
    use DType::{Bf16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64};
    // Every kernel; in all layouts one for each size of what a thread loads.
    let all = [[F32; 2], [F16, F32], [F8E4M3; 2], [F64; 2]];
    let some = [[F16; 2], [F32, F16], [Bf16, F8E4M3], [F8E4M3, F32], [F8E5M2; 2], [I8; 2], [I64; 2], [F64, I32]];
    // As many tiles as make runs of several, which divide a row.
    let many = [&Layout::strided(&[64, 4 * 2048], &[1, 64], 0)?, &Layout::contiguous(&[64, 4 * 2048])?];
    same_fields(&report(&target.device, F32, many)?, &report(&Device::host(), F32, many)?)?;
    for dtypes in all.into_iter().chain(some) {
        // A row is a tile, or two.
        let tile = 512 * 128 / dtypes[0].bits().min(dtypes[1].bits());
        let transposed = |row, pitch: isize, offset| Layout::strided(&[8, row], &[1, pitch], offset);
        for (what, a, other) in [
            ("a row of a tile", transposed(tile, 8, 0)?, None),
            ("rows of two tiles, 16 elements apart", transposed(2 * tile, 16, 0)?, None),
            ("from the second column on", transposed(tile, 16, 1)?, None),
            ("9 elements apart", transposed(tile, 9, 0)?, None),
            ("two matrices", Layout::strided(&[2, 8, tile], &[8 * tile as isize, 1, 8], 0)?, None),
            ("7 rows", Layout::strided(&[7, tile], &[1, 8], 0)?, None),
            (
                "beside a dense one from the second element on",
                transposed(tile, 8, 0)?,
                Some(Layout::strided(&[8, tile], &[tile as isize, 1], 1)?),
            ),
            ("beside every second element", transposed(tile, 8, 0)?, Some(Layout::strided(&[8, tile], &[2 * tile as isize, 2], 1)?)),
            ("both", transposed(tile, 8, 0)?, Some(transposed(tile, 32, 16)?)),
            (
                "beside rows of half a tile",
                Layout::strided(&[8, 2, tile / 2], &[1, 4 * tile as isize, 8], 0)?,
                Some(Layout::strided(&[8, 2, tile / 2], &[2 * tile as isize, tile as isize, 1], 0)?),
            ),
        ]
        .into_iter()
        .take(if all.contains(&dtypes) { usize::MAX } else { 1 })
        {
            let other = other.map_or_else(|| Layout::contiguous(a.shape()), Ok)?;
            for sides in [[&a, &other], [&other, &a]] {
                same_fields(&report_of(&target.device, dtypes, sides)?, &report_of(&Device::host(), dtypes, sides)?)
                    .with_context(|| format!("{dtypes:?}, {what}: {sides:?}"))?;
            }
        }
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
