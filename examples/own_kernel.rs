//! A kernel of one's own, tested by a suite: HIP source, compiled for the GPU when the program runs. Without a GPU of AMD the same arithmetic runs on the host.
//!
//! `cargo run --release --example own_kernel`

use anyhow::{Result, ensure};
use hipverify::Device;
use hipverify::device::DeviceKind;
use hipverify::suite::{Kernels, Suite, SuiteFile};

/// C = A B, a tile of 16 x 16 elements a block; tiles of A and B pass through shared memory.
const SOURCE: &str = r#"
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float tile_a[16][16];
    __shared__ float tile_b[16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int first = 0; first < k; first += 16) {
        tile_a[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0.0f;
        tile_b[y][x] = column < n && first + y < k ? b[(first + y) * n + column] : 0.0f;
        __syncthreads();
        for (int p = 0; p < 16; ++p) sum += tile_a[y][p] * tile_b[p][x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
"#;

/// What is tested: sizes around the tile's, ordinary data, and data whose sums cancel.
const CASES: &str = r#"
[[gemm]]
size = ["16x16x16", "17x15x33", "1x40x7"]
type = "f32"
data = ["uniform:-1,1", "int:-8,8"]
kernel = "mine"
rule = "rounding"
"#;

/// How the kernel is launched: `source` counts from the folder of the suite.
const KERNEL: &str = r#"
[kernels.mine]
source = "gemm.hip"
function = "gemm"
grid = ["ceil(n/16)", "ceil(m/16)"]
block = [16, 16]
arguments = ["a", "b", "result", "m", "n", "k"]
"#;

fn main() -> Result<()> {
    run(&Device::best()?)
}

/// Runs the suite on a device and prints a line a case.
pub fn run(device: &Device) -> Result<()> {
    println!("{device}");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("own_kernel.toml");
    std::fs::write(folder.path().join("gemm.hip"), SOURCE)?;
    // For NVIDIA GPUs nothing is compiled at run time.
    let (text, kernels) = if device.kind() != DeviceKind::Amd {
        println!("no AMD GPU: the same arithmetic on the host instead of the kernel");
        (CASES.to_owned(), on_the_host())
    } else {
        (format!("{KERNEL}{CASES}"), Kernels::default())
    };
    std::fs::write(&path, text)?;
    let suite = Suite::new(&SuiteFile::open(&path)?, "own_kernel.toml", kernels)?;
    let results: Vec<_> = suite.cases.iter().map(|case| suite.execute(case, device)).collect();
    for result in &results {
        let line = format!("{:<10} {}   {}", result.outcome.word(), result.case, result.reasons.join("; "));
        println!("{}", line.trim_end());
    }
    ensure!(results.iter().all(|result| result.ok), "not every case ended as expected");
    Ok(())
}

/// The kernel's sums, one product after the other in f32.
fn on_the_host() -> Kernels {
    Kernels::default().with("mine", |launch, _stream| {
        let (a, b) = (launch.input(0).to_vec::<f32>()?, launch.input(1).to_vec::<f32>()?);
        let &[m, n] = launch.output_shape() else { return Err("matrices only".into()) };
        let k = a.len() / m;
        let element = |i: usize| (0..k).fold(0.0, |sum, p| sum + a[i / n * k + p] * b[p * n + i % n]);
        Ok(launch.write((0..m * n).map(element).collect::<Vec<f32>>().as_slice())?)
    })
}
