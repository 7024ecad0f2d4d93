//! Kernels of GPU code in suites that add to a result of zeros, need a workspace, or are several launches.

use crate::suite::tests;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use hipverify::DType;
use hipverify::device::{Layout, TensorMut};
use hipverify::fill::{FillConstant, fill};
use hipverify::suite::record::{CaseOutcome, CaseResult, FindingKind, Side};
use hipverify::suite::{Kernels, Suite, SuiteFile};

tests! {
    Compiling: right_kernels_pass, zeros_that_nothing_was_added_to_are_told, without_zeros_sums_begin_with_poison, workspaces_are_guarded_and_poisoned,
        numbers_that_fit_no_workspace_are_refused;
    All: closures_have_zeros_and_workspaces;
}

/// The sums of a GEMM in parts of `PART` terms: added by atomics, or kept in a workspace and added by a second launch. Faults by name.
const SPLIT_K: &str = r#"
#define PART 8

__device__ static float part(const float *a, const float *b, int i, int n, int k) {
    float sum = 0.0f;
    for (int p = blockIdx.y * PART; p < k && p < (blockIdx.y + 1) * PART; ++p) sum += a[i / n * k + p] * b[p * n + i % n];
    return sum;
}

extern "C" __global__ void add_parts(const float *a, const float *b, float *c, int m, int n, int k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
#ifdef FORGETS
    if (i >= m * n - 3) return;
#endif
    atomicAdd(c + i, part(a, b, i, n, k));
}

extern "C" __global__ void keep_parts(const float *a, const float *b, float *parts, int m, int n, int k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m * n) return;
#ifdef FORGETS
    if (blockIdx.y == 1) return;
#endif
#ifdef OVERRUNS
    if (i == 0) parts[gridDim.y * m * n + 1] = 1.0f;
#endif
#ifdef UNDERRUNS
    if (i == 0) parts[-1] = 1.0f;
#endif
    parts[blockIdx.y * m * n + i] = part(a, b, i, n, k);
}

extern "C" __global__ void add_kept(const float *parts, float *c, int elements, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    float sum = 0.0f;
    for (int p = 0; p < count; ++p) sum += parts[p * elements + i];
    c[i] = sum;
}
"#;

const ATOMIC: &str =
    "function = 'add_parts'\ngrid = ['ceil(m*n/64)', 'ceil(k/8)']\nblock = 64\narguments = ['a', 'b', 'result', 'm', 'n', 'k']";

const TWO: &str = "workspace_bytes = '4*m*n*ceil(k/8)'
launches = [
  { function = 'keep_parts', grid = ['ceil(m*n/64)', 'ceil(k/8)'], block = 64, arguments = ['a', 'b', 'workspace', 'm', 'n', 'k'] },
  { function = 'add_kept', grid = 'ceil(elements/64)', block = 64, arguments = ['workspace', 'result', 'elements', 'ceil(k/8)'] },
]
";

/// Runs the first case of a kernel with these keys, compiled with this option.
fn run(target: &Target, option: &str, keys: &str) -> Result<CaseResult> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("split.hip"), SPLIT_K)?;
    let path = folder.path().join("split.toml");
    // Sums of atomics in another order have other bits.
    let text = format!(
        "[kernels.mine]\nsource = 'split.hip'\noptions = ['-O2', '-D{option}']\n{keys}\n\
        [[gemm]]\nsize = '7x9x21'\ntype = 'f32'\nkernel = 'mine'\nrepeatable = {}\n",
        !keys.contains("add_parts")
    );
    std::fs::write(&path, text)?;
    let suite = Suite::new(&SuiteFile::open(&path)?, "split.toml", Kernels::default())?;
    Ok(suite.execute(suite.cases.first().context("a case")?, &target.device))
}

/// The finding of that kind.
fn found(result: &CaseResult, kind: FindingKind) -> Result<(&str, Option<Side>, Option<i64>)> {
    let finding = result.findings.iter().find(|f| f.kind == kind).with_context(|| format!("{result:?}"))?;
    ensure!(!result.ok && result.outcome == CaseOutcome::Fail, "{result:?}");
    Ok((&finding.buffer, finding.side, finding.offset))
}

fn right_kernels_pass(target: &Target) -> Result<()> {
    let after_memset = "launches = [ { function = 'add_parts', grid = ['ceil(m*n/64)', 'ceil(k/8)'], block = 64, arguments = ['a', 'b', 'result', 'm', 'n', 'k'] } ]";
    for (keys, zeros) in
        [(format!("{ATOMIC}\ninitial = 'zero'"), true), (format!("{after_memset}\ninitial = 'zero'"), true), (TWO.to_owned(), false)]
    {
        let result = run(target, "NONE", &keys)?;
        ensure!(result.ok && result.findings.is_empty(), "{keys}: {result:?}");
        let said = result.warnings.iter().any(|warning| warning.contains("the result began as zeros"));
        ensure!(said == zeros, "what cannot be told is said: {keys}: {result:?}");
    }
    Ok(())
}

/// The last three elements, which are zeros where sums should be.
fn zeros_that_nothing_was_added_to_are_told(target: &Target) -> Result<()> {
    let result = run(target, "FORGETS", &format!("{ATOMIC}\ninitial = 'zero'"))?;
    ensure!(!result.ok && result.outcome == CaseOutcome::Fail && result.findings.is_empty(), "{result:?}");
    let words = "3 elements are the zero that they began with where the reference is not 0, the first at index 60";
    ensure!(result.reasons.iter().any(|reason| reason == words), "{result:?}");
    Ok(())
}

/// The same kernel on the poison that a result holds otherwise: sums drown in one and are NaN in the other.
fn without_zeros_sums_begin_with_poison(target: &Target) -> Result<()> {
    let result = run(target, "NONE", ATOMIC)?;
    ensure!(found(&result, FindingKind::Unwritten)? == ("result", None, Some(0)), "{result:?}");
    let words =
        "63 elements of the result were not written, the first at index 0; a kernel that adds to its result needs initial = \"zero\"";
    ensure!(result.reasons.iter().any(|reason| reason == words) && result.warnings.is_empty(), "{result:?}");
    Ok(())
}

fn workspaces_are_guarded_and_poisoned(target: &Target) -> Result<()> {
    let bytes = 4 * 63 * 3;
    for (option, side, offset) in [("OVERRUNS", Side::After, bytes + 4), ("UNDERRUNS", Side::Before, -4)] {
        let result = run(target, option, TWO)?;
        ensure!(found(&result, FindingKind::RedZone)? == ("workspace", Some(side), Some(offset)), "{option}: {result:?}");
    }
    let small = run(target, "NONE", &TWO.replace("4*m*n*ceil(k/8)", "4*m*n*ceil(k/8) - 4"))?;
    ensure!(found(&small, FindingKind::RedZone)? == ("workspace", Some(Side::After), Some(bytes - 4)), "{small:?}");
    let none = run(target, "NONE", &TWO.replace("4*m*n*ceil(k/8)", "0"))?;
    ensure!(found(&none, FindingKind::RedZone)? == ("workspace", Some(Side::After), Some(0)), "{none:?}");
    let unwritten = run(target, "FORGETS", TWO)?;
    let (buffer, ..) = found(&unwritten, FindingKind::NotRepeatable)?;
    ensure!(buffer == "result" && unwritten.reasons.concat().contains("its workspace held other bytes before"), "{unwritten:?}");
    Ok(())
}

fn numbers_that_fit_no_workspace_are_refused(target: &Target) -> Result<()> {
    for (from, to, words) in [
        ("4*m*n*ceil(k/8)", "m-8", "[kernels.mine]: `workspace_bytes`: `m-8` is -1; it must be 0 to 4611686018427387904"),
        ("4*m*n*ceil(k/8)", "k/4", "`workspace_bytes`: `k/4` is 21/4, not a whole number"),
        ("ceil(elements/64)", "elements-63", "[kernels.mine]: launch 2: `grid`: `elements-63` is 0"),
        ("'workspace', 'result'", "'workspaces', 'result'", "launch 2: `arguments`: `workspaces`: this problem has no number"),
    ] {
        let error = run(target, "NONE", &TWO.replace(from, to)).err().with_context(|| format!("{to}: accepted"))?.to_string();
        ensure!(error.contains(words), "{to}: {error}");
    }
    Ok(())
}

/// What files ask for by `initial` and `workspace_bytes`, closures ask for themselves.
fn closures_have_zeros_and_workspaces(target: &Target) -> Result<()> {
    let text =
        "[[gemm]]\nsize = '2x2x1'\ntype = 'f32'\ndata = 'constant:0'\nexpected = 'any'\nkernel = ['nothing', 'writes', 'overruns']\n";
    let kernels = Kernels::default()
        .with("nothing", |launch, _| Ok(launch.zero_output()?))
        .with("writes", |launch, _| {
            launch.workspace(0)?;
            fill(&mut launch.workspace(5)?, &FillConstant::new(1.0))?;
            Ok(launch.write(&[0.0f32; 4])?)
        })
        .with("overruns", |launch, stream| {
            let mut workspace = launch.workspace(3)?;
            // SAFETY: the red zone behind the workspace has 16 KiB.
            let start = workspace.as_mut_ptr();
            // SAFETY: four bytes more than the workspace has lie in the red zone behind it.
            let mut beyond = unsafe { TensorMut::from_raw(stream.device(), start, 7, DType::U8, Layout::contiguous(&[7])?)? };
            fill(&mut beyond, &FillConstant::new(1.0))?;
            Ok(launch.write(&[0.0f32; 4])?)
        });
    let suite = Suite::new(&SuiteFile::parse("closures.toml", text)?, "closures.toml", kernels)?;
    let results: Vec<CaseResult> = suite.cases.iter().map(|case| suite.execute(case, &target.device)).collect();
    let [nothing, writes, overruns] = results.as_slice() else { anyhow::bail!("{results:?}") };
    ensure!(nothing.findings.is_empty() && nothing.warnings.concat().contains("began as zeros"), "{nothing:?}");
    ensure!(writes.findings.is_empty() && !writes.warnings.concat().contains("began as zeros"), "{writes:?}");
    ensure!(found(overruns, FindingKind::RedZone)? == ("workspace", Some(Side::After), Some(3)), "{overruns:?}");
    Ok(())
}
