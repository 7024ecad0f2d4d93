//! Kernels of GPU code in suites: HIP source and code objects by their launch lines, what they do wrong, and what keeps them from running.

#[path = "../../examples/own_kernel.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod example;

use crate::net;
use crate::suite::{CannotRun, tests};
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use hipverify::suite::record::{CaseOutcome, CaseResult, FindingKind, Side};
use hipverify::suite::{Kernels, Suite, SuiteFile};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

tests! {
    Compiling: right_kernels_pass, code_objects_by_architecture, misdeeds_are_found, what_does_not_run_is_an_error, convolutions_by_their_numbers, operators_by_their_numbers,
        wrong_operators_fail;
    Nvidia: code_objects_of_nvcc;
    All: the_example_runs, checks_are_the_hosts;
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

/// What a check finds is a function of the data, on whatever device.
fn checks_are_the_hosts(target: &Target) -> Result<()> {
    let text = "[[gemm]]\nsize = '21x18x40'\nrule = 'check'\nkernel = ['fma', 'f64@host', 'mine']\nbias = true\noutput = 'f32'\nexpected = 'any'\n\
        [[conv]]\nsize = '2 1 2 4 3 3 3 6 6 1 1 1 1 1 1 1 1'\nrule = 'check'\ndirection = ['fwd', 'bwd_data', 'bwd_weight']";
    let kernels = || Kernels::default().with("mine", |launch, _| Ok(launch.write(&[0.5f32; 21 * 18])?));
    let suite = Suite::new(&SuiteFile::parse("s.toml", text)?, "s.toml", kernels())?;
    for case in &suite.cases {
        let [here, host] = [&target.device, &hipverify::Device::host()].map(|device| suite.execute(case, device));
        let outcome = if case.name.ends_with("mine") { CaseOutcome::Fail } else { CaseOutcome::Pass };
        ensure!((here.outcome, host.outcome) == (outcome, outcome), "{here:?}");
        let [mut one, mut other] = [&here, &host].map(|result| result.report.clone().unwrap_or_default());
        for report in [&mut one, &mut other] {
            for key in ["device", "why"] {
                report["report"][key] = "".into();
            }
        }
        ensure!(
            one == other && here.reasons == host.reasons && here.details == host.details,
            "{one} on {}, {other} on the host",
            here.device
        );
        ensure!(one["report"]["bound"]["gamma"].is_number(), "{one}");
    }
    Ok(())
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

/// nvcc, where the build script looks for it as well, but for Python's environments.
fn nvcc() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let folders = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(variable).map(|folder| folder.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.chain(std::env::split_paths(&path)).chain(["/usr/local/cuda/bin".into()]);
    variable("HIPVERIFY_NVCC").into_iter().chain(folders.map(|folder| folder.join("nvcc"))).find(|nvcc| nvcc.is_file())
}

/// Cubins and fat binaries as files, right and wrong; source is an error, as nothing compiles it.
fn code_objects_of_nvcc(target: &Target) -> Result<()> {
    let nvcc = nvcc().ok_or_else(|| CannotRun("nvcc makes the code objects, and is not found (HIPVERIFY_NVCC names it)".to_owned()))?;
    let arch = target.device.arch().context("an architecture")?;
    let folder = folder()?;
    let compile = |kind: &str, options: &[&str], to: &str| -> Result<()> {
        let mut command = Command::new(&nvcc);
        command.args(["-x", "cu", "-std=c++17", "-O2", kind, "-arch", arch, "gemm.hip", "-o", to]).args(options).current_dir(folder.path());
        let output = command.output()?;
        ensure!(output.status.success(), "{kind}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    compile("-cubin", &[], "gemm.cubin")?;
    compile("-fatbin", &[], "gemm.fatbin")?;
    compile("-fatbin", &["-DSHORT=1"], "short.fatbin")?;
    compile("-cubin", &["-DAFTER"], "after.cubin")?;
    for file in ["gemm.cubin", "gemm.fatbin"] {
        let image = std::fs::read(folder.path().join(file))?;
        std::fs::write(folder.path().join(format!("cut-{file}")), &image[..image.len() - 1])?;
    }
    let run = |code: &str| -> Result<Vec<CaseResult>> {
        let suite = open(folder.path(), &format!("[kernels.mine]\n{code}\n{LINE}"))?;
        Ok(suite.cases.iter().map(|case| suite.execute(case, &target.device)).collect())
    };
    for code in ["'gemm.cubin'".to_owned(), "'gemm.fatbin'".to_owned(), format!("{{ gfx90a = 'nowhere.co', {arch} = 'gemm.cubin' }}")] {
        for result in run(&format!("code_object = {code}"))? {
            ensure!(result.ok && result.findings.is_empty(), "{code}: {result:?}");
        }
    }
    for (code, outcome, words) in [
        ("code_object = 'short.fatbin'", CaseOutcome::Fail, "elements differ"),
        ("code_object = 'after.cubin'", CaseOutcome::Fail, "4 bytes after `result` were written"),
        ("code_object = 'cut-gemm.cubin'", CaseOutcome::Error, "a code object that is not whole"),
        ("code_object = 'cut-gemm.fatbin'", CaseOutcome::Error, "a code object that is not whole"),
        ("code_object = { sm_10 = 'gemm.cubin' }", CaseOutcome::Error, "whose code objects are for sm_10"),
        ("source = 'gemm.hip'", CaseOutcome::Error, "it does not compile at run time"),
    ] {
        let result = run(code)?.into_iter().next().context("a case")?;
        let said = format!("{:?} {:?}", result.reasons, result.findings);
        ensure!(result.outcome == outcome && !result.ok && said.contains(words), "{code}: {result:?}");
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

/// A thread a vector, or a thread an element, of operators of each form; faults by name.
const OPERATORS: &str = r#"
#ifndef SHORT
#define SHORT 0
#endif

/// The first element of this thread's vector; -1 beyond the last.
__device__ static int first(int outer, int n, int inner) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    return v < outer * inner ? v / inner * n * inner + v % inner : -1;
}

__device__ static float largest(const float *x, int n, int inner) {
    float most = x[0];
    for (int i = 1; i < n; ++i) most = fmaxf(most, x[i * inner]);
    return most;
}

extern "C" __global__ void softmax(const float *x, float *y, int outer, int n, int inner) {
    const int at = first(outer, n, inner);
    if (at < 0) return;
    const float most = largest(x + at, n, inner);
    float sum = 0.0f;
    for (int i = 0; i < n - SHORT; ++i) sum += expf(x[at + i * inner] - most);
    for (int i = 0; i < n; ++i) y[at + i * inner] = expf(x[at + i * inner] - most) / sum;
}

extern "C" __global__ void softmax_gradient(const float *x, const float *grad, float *dx, int outer, int n, int inner) {
    const int at = first(outer, n, inner);
    if (at < 0) return;
    const float most = largest(x + at, n, inner);
    float sum = 0.0f, dot = 0.0f;
    for (int i = 0; i < n; ++i) sum += expf(x[at + i * inner] - most);
#ifndef DETACHED
    for (int i = 0; i < n; ++i) dot += grad[at + i * inner] * expf(x[at + i * inner] - most) / sum;
#endif
    for (int i = 0; i < n; ++i) dx[at + i * inner] = expf(x[at + i * inner] - most) / sum * (grad[at + i * inner] - dot);
}

extern "C" __global__ void layer_norm(const float *x, const float *weight, const float *bias, float *y, int outer, int n, int inner) {
    const int at = first(outer, n, inner);
    if (at < 0) return;
    float mean = 0.0f, squares = 0.0f;
    for (int i = 0; i < n; ++i) mean += x[at + i * inner] / n;
    for (int i = 0; i < n; ++i) squares += (x[at + i * inner] - mean) * (x[at + i * inner] - mean);
#ifdef BESSEL
    const float r = 1.0f / sqrtf(squares / (n - 1) + 1e-5f);
#else
    const float r = 1.0f / sqrtf(squares / n + 1e-5f);
#endif
    for (int i = 0; i < n; ++i) y[at + i * inner] = (x[at + i * inner] - mean) * r * weight[i] + bias[i];
}

extern "C" __global__ void silu_gradient(const float *x, const float *grad, float *dx, long long elements) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= elements) return;
    const float s = 1.0f / (1.0f + expf(-x[i]));
#ifdef WITHOUT_PRODUCT_RULE
    dx[i] = grad[i] * s;
#else
    dx[i] = grad[i] * s * (1.0f + x[i] * (1.0f - s));
#endif
}

extern "C" __global__ void nearest(const float *x, float *y, int outer, int n, int inner, int resized) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outer * resized * inner) return;
    const int to = i / inner % resized;
#ifdef ROUNDED
    const int nearby = (to * n + resized / 2) / resized, from = nearby < n ? nearby : n - 1;
#else
    const int from = to * n / resized;
#endif
    y[i] = x[(i / inner / resized * n + from) * inner + i % inner];
}

/// The gradient with respect to b: the transpose of A, times grad.
extern "C" __global__ void matmul_gradient(const float *a, const float *grad, float *db, int batch, int m, int n, int k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * k * n) return;
    const int column = i % n, row = i / n % k, matrix = i / n / k;
    float sum = 0.0f;
    for (int p = 0; p < m - SHORT; ++p) sum += a[(matrix * m + p) * k + row] * grad[(matrix * m + p) * n + column];
    db[i] = sum;
}
"#;

/// Operators with their launch lines and cases.
const OPERATOR_CASES: [(&str, &str, &str); 6] = [
    (
        "softmax",
        "grid = 'ceil(outer*inner/8)'\narguments = ['x', 'result', 'outer', 'n', 'inner']",
        "operator = 'softmax'\nshape = ['3x17x5', '2x1x3']\naxis = 1",
    ),
    (
        "softmax_gradient",
        "grid = 'ceil(outer*inner/8)'\narguments = ['x', 'grad', 'result', 'outer', 'n', 'inner']",
        "operator = 'softmax'\npass = 'gradient'\nshape = '6x33'",
    ),
    (
        "layer_norm",
        "grid = 'ceil(outer*inner/8)'\narguments = ['x', 'weight', 'bias', 'result', 'outer', 'n', 'inner']",
        "operator = 'layer_norm'\nshape = '5x12'",
    ),
    (
        "silu_gradient",
        "grid = 'ceil(elements/8)'\narguments = ['x', 'grad', 'result', 'i64:elements']",
        "operator = 'silu'\npass = 'gradient'\nshape = '7x13'",
    ),
    (
        "nearest",
        "grid = 'ceil(elements/8)'\narguments = ['x', 'result', 'outer', 'n', 'inner', 'resized']",
        "operator = 'nearest'\nshape = '2x5x3'\naxis = 1\nresized = 12\nrule = 'exact'",
    ),
    (
        "matmul_gradient",
        "grid = 'ceil(elements/8)'\narguments = ['a', 'grad', 'result', 'batch', 'm', 'n', 'k']",
        "operator = 'matmul'\npass = 'gradient'\ngradient_of = 'b'\nshape = '2x9x4x6'",
    ),
];

/// Runs the cases of an operator's kernel, compiled with these options.
fn operator(target: &Target, (function, line, table): (&str, &str, &str), options: &str) -> Result<Vec<CaseResult>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("operators.hip"), OPERATORS)?;
    let text = format!(
        "[kernels.mine]\nsource = 'operators.hip'\noptions = ['-O2', {options}]\nfunction = '{function}'\nblock = 8\n{line}\n\
        [[operator]]\n{table}\ntype = 'f32'\ndata = 'uniform:-2,2'\nkernel = 'mine'\n"
    );
    let suite = open(folder.path(), &text)?;
    Ok(suite.cases.iter().map(|case| suite.execute(case, &target.device)).collect())
}

/// Inputs by their names, and extents before, along and behind the axis.
fn operators_by_their_numbers(target: &Target) -> Result<()> {
    for case in OPERATOR_CASES {
        for result in operator(target, case, "")? {
            ensure!(result.ok && result.outcome == CaseOutcome::Pass && result.findings.is_empty(), "{}: {result:?}", case.0);
        }
    }
    Ok(())
}

/// Kernels that write every element and compute something else.
fn wrong_operators_fail(target: &Target) -> Result<()> {
    let faults = ["SHORT=1", "DETACHED", "BESSEL", "WITHOUT_PRODUCT_RULE", "ROUNDED", "SHORT=1"];
    for (case, fault) in OPERATOR_CASES.into_iter().zip(faults) {
        let results = operator(target, case, &format!("'-D{fault}'"))?;
        let wrong = results.first().with_context(|| format!("{}: a case", case.0))?;
        ensure!(wrong.outcome == CaseOutcome::Fail && !wrong.ok && wrong.findings.is_empty(), "{} {fault}: {wrong:?}", case.0);
        ensure!(wrong.reasons[0].contains("elements differ"), "{} {fault}: {wrong:?}", case.0);
    }
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
    if target.is_gpu() && !target.compiles() {
        return Err(CannotRun("its kernel is compiled from source".to_owned()).into());
    }
    example::run(&target.device)
}

fn no_gpu_is_an_error(target: &Target) -> Result<()> {
    let result = with(target, "SHORT=0")?;
    let words = "the kernel `mine`, which is GPU code (gemm.hip), is not supported by host";
    ensure!(result.outcome == CaseOutcome::Error && result.reasons.concat().contains(words), "{result:?}");
    Ok(())
}
