//! Kernels of GPU code in suites: HIP source and code objects by their launch lines, what they do wrong, and what keeps them from running.

#[path = "../../examples/own_kernel.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod example;

use crate::net;
use crate::suite::tests;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use hipverify::suite::record::{CaseOutcome, CaseResult, FindingKind, Side};
use hipverify::suite::{Kernels, Suite, SuiteFile};
use std::path::Path;
use tempfile::TempDir;

tests! {
    Compiling: right_kernels_pass, code_objects_by_architecture, misdeeds_are_found, what_does_not_run_is_an_error, convolutions_by_their_numbers;
    All: the_example_runs;
    StandIn: a_launch_that_fails_is_an_error;
    Host: no_gpu_is_an_error;
}

/// A product of matrices, a thread an element, and misdeeds by name.
const GEMM: &str = r#"
#include "tile.h"

extern "C" __global__ void gemm(const float *a, float *b, float *c, int m, long long n, int k, float alpha) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
#ifdef AFTER
    if (row == 0 && column == 0) c[m * n] = 1.0f;
#endif
#ifdef BEFORE
    if (row == 0 && column == 0) c[-3] = 1.0f;
#endif
#ifdef CHANGES
    if (row == 0 && column == 0) b[0] += 1.0f;
#endif
#ifdef WILD
    if (row == 0 && column == 0) c[1ll << 40] = 1.0f;
#endif
    if (row >= m || column >= n) return;
#ifdef UNWRITTEN
    if (row == m - 1 && column == n - 1) return;
#endif
    float sum = 0.0f;
    for (int p = 0; p < k - SHORT; ++p) sum += a[row * k + p] * b[p * n + column];
    c[row * n + column] = alpha * sum;
}
"#;

const HEADER: &str = "#ifndef SHORT\n#define SHORT 0\n#endif\n";

/// The launch line, and cases of it whose extents are no multiples of a block.
const LINE: &str = r#"
function = "gemm"
grid = ["ceil(n/16)", "ceil(m/4)"]
block = [16, 4]
arguments = ["a", "b", "result", "m", "i64:n", "k", "f32:1.0"]

[[gemm]]
size = ["21x18x40", "5x3x7"]
type = "f32"
kernel = "mine"
"#;

/// A folder with the source and a suite whose kernel is described by `code` and [`LINE`].
fn folder() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("gemm.hip"), GEMM)?;
    std::fs::write(folder.path().join("tile.h"), HEADER)?;
    Ok(folder)
}

fn open(folder: &Path, text: &str) -> Result<Suite> {
    let path = folder.join("mine.toml");
    std::fs::write(&path, text)?;
    Ok(Suite::new(&SuiteFile::open(&path)?, "mine.toml", Kernels::default())?)
}

fn run(target: &Target, text: &str) -> Result<Vec<CaseResult>> {
    let folder = folder()?;
    let suite = open(folder.path(), text)?;
    Ok(suite.cases.iter().map(|case| suite.execute(case, &target.device)).collect())
}

/// The first case, with these options of the compiler.
fn with(target: &Target, option: &str) -> Result<CaseResult> {
    let text = format!("[kernels.mine]\nsource = 'gemm.hip'\noptions = ['-O2', '-D{option}']\n{LINE}");
    run(target, &text)?.into_iter().next().context("a case")
}

fn right_kernels_pass(target: &Target) -> Result<()> {
    for result in run(target, &format!("[kernels.mine]\nsource = 'gemm.hip'\n{LINE}"))? {
        ensure!(result.ok && result.findings.is_empty(), "{result:?}");
    }
    Ok(())
}

/// The image of a kernel as a file, for this architecture and for others.
fn code_objects_by_architecture(target: &Target) -> Result<()> {
    let arch = target.device.arch().and_then(|a| a.split(':').next()).context("an architecture")?;
    let folder = folder()?;
    let source = GEMM.replace("#include \"tile.h\"", HEADER);
    let image = hipverify_sys::kernels::compile_with(hipverify_sys::amd()?.rtc()?, "gemm.hip", &source, arch, &["-O2"])?;
    std::fs::write(folder.path().join("gemm.co"), &image)?;
    std::fs::write(folder.path().join("cut.co"), &image[..40])?;
    for (code, words) in [
        ("'gemm.co'".to_owned(), ""),
        (format!("{{ {arch} = 'gemm.co', gfx803 = 'nowhere.co' }}"), ""),
        ("{ gfx803 = 'gemm.co', gfx1201 = 'gemm.co' }".to_owned(), "whose code objects are for gfx803 gfx1201, is not supported by"),
        ("'nowhere.co'".to_owned(), "nowhere.co: No such file"),
        ("'cut.co'".to_owned(), "a code object that is not whole: its headers lead outside of its 40 bytes"),
        ("'gemm.hip'".to_owned(), "it is no code object"),
    ] {
        let suite = open(folder.path(), &format!("[kernels.mine]\ncode_object = {code}\n{LINE}"))?;
        let result = suite.execute(&suite.cases[0], &target.device);
        ensure!(result.ok == words.is_empty() && result.reasons.concat().contains(words), "{code}: {result:?}");
        ensure!(words.is_empty() || result.outcome == CaseOutcome::Error, "{code}: {result:?}");
    }
    Ok(())
}

fn misdeeds_are_found(target: &Target) -> Result<()> {
    for (option, kind, buffer, side, offset) in [
        ("AFTER", FindingKind::RedZone, "result", Some(Side::After), Some(21 * 18 * 4)),
        ("BEFORE", FindingKind::RedZone, "result", Some(Side::Before), Some(-12)),
        ("CHANGES", FindingKind::InputChanged, "b", None, None),
        ("UNWRITTEN", FindingKind::Unwritten, "result", None, Some((21 * 18 - 1) * 4)),
    ] {
        let result = with(target, option)?;
        let finding = result.findings.iter().find(|f| f.kind == kind).with_context(|| format!("{option}: {result:?}"))?;
        ensure!((finding.buffer.as_str(), finding.side, finding.offset) == (buffer, side, offset), "{option}: {finding:?}");
        ensure!(!result.ok && result.outcome == CaseOutcome::Fail, "{option}: {result:?}");
    }
    let wrong = with(target, "SHORT=1")?;
    ensure!(wrong.outcome == CaseOutcome::Fail && wrong.findings.is_empty() && wrong.reasons[0].contains("elements differ"), "{wrong:?}");
    Ok(())
}

fn what_does_not_run_is_an_error(target: &Target) -> Result<()> {
    let source = "[kernels.mine]\nsource = 'gemm.hip'\n";
    for (text, words) in [
        (format!("[kernels.mine]\nsource = 'nowhere.hip'\n{LINE}"), "nowhere.hip: No such file"),
        (format!("{source}{LINE}").replace("= \"gemm\"", "= \"gem\""), "the module has no such kernel"),
        (format!("{source}options = ['-DSHORT=no_such_name']\n{LINE}"), "no_such_name"),
    ] {
        let results = run(target, &text)?;
        for result in &results {
            ensure!(result.outcome == CaseOutcome::Error && result.reasons.concat().contains(words), "{words}: {result:?}");
        }
    }
    Ok(())
}

/// One launch line for all directions: buffers by their role. The kernel copies numbers, so that the result says what it was told.
fn convolutions_by_their_numbers(target: &Target) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = r#"
extern "C" __global__ void conv(const float *input, const float *filter, float *output, int n, int k, int c, int hi, int wi, int y, int x, int ho, int wo) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * k * ho * wo) return;
    const int q = i % wo, p = i / wo % ho, f = i / wo / ho % k, image = i / wo / ho / k;
    float sum = 0.0f;
    for (int channel = 0; channel < c; ++channel)
        for (int r = 0; r < y; ++r)
            for (int s = 0; s < x; ++s)
                sum += input[((image * c + channel) * hi + p + r) * wi + q + s] * filter[((f * c + channel) * y + r) * x + s];
    output[i] = sum;
}
"#;
    std::fs::write(folder.path().join("conv.hip"), source)?;
    let line = "[kernels.mine]\nsource = 'conv.hip'\nfunction = 'conv'\ngrid = 'ceil(elements/64)'\nblock = 64\n\
        arguments = ['input', 'filter', 'output', 'n', 'k', 'c', 'hi', 'wi', 'y', 'x', 'ho', 'wo']\n\
        [[conv]]\nsize = '2 1 2 3 4 3 2 6 5 1 1 1 1 0 0 0 0'\ntype = 'f32'\nkernel = 'mine'\nlayout = 'gnchw,gkcyx,gnkhw'\n";
    let suite = open(folder.path(), line)?;
    let result = suite.execute(&suite.cases[0], &target.device);
    ensure!(result.ok, "{result:?}");
    Ok(())
}

fn a_launch_that_fails_is_an_error(target: &Target) -> Result<()> {
    let _alone = net::alone();
    let wild = with(target, "WILD")?;
    ensure!(wild.outcome == CaseOutcome::Error && !wild.reasons.is_empty(), "{wild:?}");
    let after = with(target, "SHORT=0")?;
    ensure!(after.ok, "the next launch: {after:?}");
    Ok(())
}

fn the_example_runs(target: &Target) -> Result<()> {
    example::run(&target.device)
}

fn no_gpu_is_an_error(target: &Target) -> Result<()> {
    let result = with(target, "SHORT=0")?;
    let words = "the kernel `mine`, which is GPU code (gemm.hip), is not supported by host";
    ensure!(result.outcome == CaseOutcome::Error && result.reasons.concat().contains(words), "{result:?}");
    Ok(())
}
