//! Every generator writes the same bits on every device, and nothing else.

use crate::compare::same_bytes;
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::Owned;
use anyhow::{Context, Result, ensure};
use hipverify::Device;
use hipverify::device::Layout;
use hipverify::dtype::DType;
use hipverify::fill::{FillSpec, fill};

tests! {
    Gpus: every_pattern_in_every_layout, more_than_the_grid, formats_refuse_what_they_refuse_on_the_host;
}

/// Every pattern, with parameters that most formats take; then ranges of which a format may hold neither end, and integers that need 64 bits.
const SPECS: [&str; 31] = [
    "uniform:1,4/seed=5",
    "uniform:-1,1/seed=5",
    "int:1,2/stream=3",
    "int:-3,3",
    "normal:0,0.5/seed=1",
    "constant:1",
    "sequential:1",
    "diagonal:2",
    "checkerboard:1",
    "monotonic:1,0.125",
    "sin",
    "cos",
    "hpl/seed=2",
    "bounce:1,3",
    "subnormal",
    "exact:100,2,1,f16,a",
    "crand:-1,1/seed=1",
    "crand:r4/sparse24",
    "uniform:-1,1/special=0.3",
    "normal:1,0.25/special=0.5/sparse24/seed=77/stream=1",
    "uniform:-0.1,0.1",
    "int:0,3221225471",
    "int:-5,7000000000000000000",
    "exact:5000,3,3,f16,a",
    "crand:r1/special=0.1",
    "uniform:-1,1/sparse24",
    "values:1,2,1.5",
    "values:1,inf",
    "constant:-inf",
    "checkerboard:inf",
    "values:1,-0.5/special=0.3",
];

/// What a device's memory holds after a fill, or the words with which it refuses.
fn filled(device: &Device, spec: &str, dtype: DType, layout: &Layout) -> Result<std::result::Result<Vec<u8>, String>> {
    let before = vec![0xa5; dtype.bytes_for(layout.end() + 16).context("small")?];
    let mut tensor = Owned::new(device, dtype, layout, &before)?;
    Ok(match fill(&mut tensor.view_mut(), &spec.parse::<FillSpec>()?) {
        Ok(()) => Ok(tensor.memory.to_vec()?),
        Err(error) => Err(error.to_string()),
    })
}

/// Whether the format can hold the pattern; if it can, the device's memory is the host's.
fn same(target: &Target, spec: &str, dtype: DType, layout: &Layout) -> Result<bool> {
    let Ok(expected) = filled(&Device::host(), spec, dtype, layout)? else { return Ok(false) };
    let found = filled(&target.device, spec, dtype, layout)?.map_err(anyhow::Error::msg);
    found.and_then(|found| same_bytes(&found, &expected)).with_context(|| format!("{spec}, {dtype}{layout:?}"))?;
    Ok(true)
}

fn every_pattern_in_every_layout(target: &Target) -> Result<()> {
    let layouts = [
        Layout::contiguous(&[3, 37, 20])?,
        // From inside a vector, and for packed formats inside a byte.
        Layout::strided(&[3, 37, 20], &[740, 20, 1], 3)?,
        // Planes between the rows of others, the outermost backwards.
        Layout::strided(&[3, 37, 20], &[-23, 23 * 3, 1], 49)?,
    ];
    for spec in SPECS {
        let mut formats = 0;
        for dtype in DType::ALL {
            for layout in &layouts {
                formats += usize::from(same(target, spec, dtype, layout)?);
            }
        }
        ensure!(formats >= layouts.len(), "{spec}: no format takes it");
    }
    Ok(())
}

/// Threads take several turns, and the last one has less than a vector. The C library's numbers are made in parts of 2^14.
fn more_than_the_grid(target: &Target) -> Result<()> {
    for dtype in DType::ALL {
        let n = target.device.multiprocessors() * target.size(512, 2048) * 2 * 128 / dtype.bits() + 3;
        let specs = match dtype {
            DType::Bool => ["uniform:0,1/seed=9", "int:0,1", "constant:1"],
            _ => ["uniform:1,4/seed=9", "int:1,2", "constant:1"],
        };
        let has_negatives = ![DType::Bool, DType::U8, DType::U16, DType::U32, DType::U64, DType::F8E8M0].contains(&dtype);
        for spec in specs.into_iter().chain(has_negatives.then_some("normal:0,1/seed=3")) {
            ensure!(same(target, spec, dtype, &Layout::contiguous(&[n])?)?, "{dtype} refuses {spec}");
        }
    }
    for dtype in [DType::F32, DType::F16, DType::I4] {
        for n in [(1 << 14) - 1, 1 << 14, target.device.multiprocessors() * target.size(1, 40) * (1 << 14) + 5] {
            ensure!(same(target, "crand:1,4/seed=3", dtype, &Layout::contiguous(&[n])?)?, "{dtype} refuses numbers of the C library");
        }
    }
    Ok(())
}

fn formats_refuse_what_they_refuse_on_the_host(target: &Target) -> Result<()> {
    let layout = Layout::contiguous(&[3, 4])?;
    let mut refused = 0;
    for (spec, dtype) in SPECS.into_iter().flat_map(|spec| DType::ALL.map(|dtype| (spec, dtype))) {
        let [host, found] = [&Device::host(), &target.device].map(|device| filled(device, spec, dtype, &layout));
        if let Err(words) = host? {
            ensure!(found?.as_ref() == Err(&words), "{spec}, {dtype}: the host says {words}");
            refused += 1;
        }
    }
    ensure!(refused > 30, "only {refused} cases");
    Ok(())
}
