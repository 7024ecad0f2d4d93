//! NVIDIA's `mma.sync` instructions: names, shapes, formats, registers, and their results.

use super::{Arch, Input, Model, Operand, Slot, gemm_tile};
use crate::dtype::{DType, Overflow, Rounding};
use crate::error::{Error, Result};

/// Lanes of a warp.
const LANES: usize = 32;
/// Rows of A, C and D.
const M: usize = 16;
/// Columns of B, C and D.
const N: usize = 8;

/// A `mma.sync` instruction of an architecture: `D = A * B + C` for one tile of 16 x 8, by the 32 lanes of a warp.
///
/// A is stored by rows and B by columns (`row.col`) in the registers; the matrices here are all row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mma {
    arch: Arch,
    input: Input,
    k: usize,
    accumulator: DType,
}

impl Mma {
    /// The instructions of an architecture for which this crate has kernels and models; empty for AMD's, and for Volta, whose instruction has other registers.
    pub fn all(arch: Arch) -> impl Iterator<Item = Mma> {
        use Input::{Bf16, E4m3E4m3, E4m3E5m2, E5m2E4m3, E5m2E5m2, F16, Tf32};
        let turing = [(F16, 8, DType::F32), (F16, 8, DType::F16)];
        let ampere = [
            (F16, 16, DType::F32),
            (F16, 16, DType::F16),
            (Bf16, 8, DType::F32),
            (Bf16, 16, DType::F32),
            (Tf32, 4, DType::F32),
            (Tf32, 8, DType::F32),
        ];
        let fp8 = [E4m3E4m3, E4m3E5m2, E5m2E4m3, E5m2E5m2];
        let ada = fp8.into_iter().flat_map(|input| [(input, 32, DType::F32), (input, 32, DType::F16)]);
        let has = move |(input, k, _): &(Input, usize, DType)| match arch {
            Arch::Gfx908 | Arch::Gfx90a | Arch::Gfx942 | Arch::Sm70 => false,
            Arch::Sm75 => (*input, *k) == (F16, 8),
            // Blackwell's fp8 has no model here.
            Arch::Sm80 | Arch::Sm100 => *k < 32,
            Arch::Sm89 | Arch::Sm90 => true,
        };
        let of = move |(input, k, accumulator)| Mma { arch, input, k, accumulator };
        turing.into_iter().chain(ampere).chain(ada).filter(has).map(of)
    }

    /// The instruction with this name, with or without `mma.sync.aligned.` and `row.col.`: `m16n8k16.f32.f16.f16.f32`.
    ///
    /// # Errors
    /// When there is none; the message lists those that the architecture has.
    pub fn by_name(arch: Arch, name: &str) -> Result<Mma> {
        let short = |name: &str| name.trim().to_ascii_lowercase().replace("mma.sync.aligned.", "").replace(".row.col", "");
        Self::all(arch).find(|mma| short(&mma.name()) == short(name)).ok_or_else(|| {
            let has: Vec<String> = Self::all(arch).map(|mma| short(&mma.name())).collect();
            Error::Unsupported { what: format!("instruction {name}"), by: format!("{arch} (it has {})", has.join(" ")) }
        })
    }

    /// The name in PTX, such as `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`.
    pub fn name(self) -> String {
        let (a, b) = self.types();
        let c = self.accumulator;
        format!("mma.sync.aligned.m16n8k{}.row.col.{c}.{a}.{b}.{c}", self.k)
    }

    /// The name of its kernel in hip/mma.hip.
    pub(crate) fn kernel(self) -> String {
        let (a, b) = self.types();
        format!("mma_m16n8k{}_{}_{a}_{b}", self.k, self.accumulator)
    }

    /// The formats of A and B as PTX names them.
    fn types(self) -> (&'static str, &'static str) {
        let name = |dtype| match dtype {
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F8E4M3 => "e4m3",
            DType::F8E5M2 => "e5m2",
            _ => "tf32",
        };
        let (a, b) = self.input.dtypes();
        (name(a), name(b))
    }

    /// The architecture.
    pub const fn arch(self) -> Arch {
        self.arch
    }

    /// Columns of A and rows of B.
    pub const fn k(self) -> usize {
        self.k
    }

    /// The formats of A, B and of C and D.
    pub const fn dtypes(self) -> (DType, DType, DType) {
        let (a, b) = self.input.dtypes();
        (a, b, self.accumulator)
    }

    /// The model of its arithmetic.
    ///
    /// # Errors
    /// None: every instruction of the list has a model.
    pub fn model(self) -> Result<Model> {
        let model = Model::new(self.arch, self.input)?;
        // On Hopper the instruction of fp8 is an emulation; others are what the default is.
        let model = model.by_mma_sync().unwrap_or(model).for_k(self.k);
        if self.accumulator == DType::F16 { model.with_f16_accumulator() } else { Ok(model) }
    }

    /// Rows and columns of an operand.
    pub const fn shape(self, operand: Operand) -> (usize, usize) {
        match operand {
            Operand::A => (M, self.k),
            Operand::B => (self.k, N),
            Operand::C | Operand::D => (M, N),
        }
    }

    /// The format of an operand.
    pub const fn dtype(self, operand: Operand) -> DType {
        let (a, b, c) = self.dtypes();
        match operand {
            Operand::A => a,
            Operand::B => b,
            Operand::C | Operand::D => c,
        }
    }

    /// Bits of an element in a register: tf32 has a whole one.
    const fn bits(self, operand: Operand) -> usize {
        self.dtype(operand).bits()
    }

    /// 32-bit registers that an operand takes in each lane.
    pub const fn registers(self, operand: Operand) -> usize {
        let (rows, columns) = self.shape(operand);
        rows * columns * self.bits(operand) / (32 * LANES)
    }

    /// Where an element lies; `None` outside the operand. From the figures of the PTX ISA: with groups of four lanes, a group has a row of A, C and D, or a
    /// column of B; each of its lanes has as many neighbours in k as a register holds; the next register has the row 8 below (A, C, D), the one after that continues in k.
    pub fn slot(self, operand: Operand, row: usize, column: usize) -> Option<Slot> {
        let (rows, columns) = self.shape(operand);
        if row >= rows || column >= columns {
            return None;
        }
        let per = 32 / self.bits(operand);
        let place =
            |group: usize, along: usize, together: usize| (group % 8 * 4 + along / together % 4, along % together, along / (4 * together));
        let (lane, register, item) = match operand {
            Operand::A => {
                let (lane, item, further) = place(row, column, per);
                (lane, row / 8 + 2 * further, item)
            }
            Operand::B => {
                let (lane, item, further) = place(column, row, per);
                (lane, further, item)
            }
            // Two columns a lane: two registers of f32, one of f16.
            Operand::C | Operand::D => {
                let (lane, item, _) = place(row, column, 2);
                let element = row / 8 * 2 + item;
                (lane, element / per, element % per)
            }
        };
        Some(Slot { lane, register, bit: item * self.bits(operand) })
    }

    /// D of a chain of `steps` instructions for each of several tiles, each D the next C: A is tiles x steps x M x K, B tiles x steps x K x N, C and D
    /// tiles x M x N, in the instruction's formats.
    ///
    /// # Errors
    /// For lengths that do not fit each other.
    pub fn run_bytes(self, steps: usize, a: &[u8], b: &[u8], c: &[u8]) -> Result<Vec<u8>> {
        let tiles = self.tiles(steps, a, b, c)?;
        let (ta, tb, tc) = self.dtypes();
        let (a, b, mut d) = (widened(ta, a), widened(tb, b), widened(tc, c));
        for step in 0..tiles * steps {
            let d = &mut d[step / steps * M * N..][..M * N];
            gemm_tile(self.model()?, M, N, self.k, &a[step * M * self.k..], self.k, &b[step * self.k * N..], N, d, N);
        }
        Ok(narrowed(tc, &d))
    }

    /// D of a chain for one tile: A is M x K', B K' x N, C and D are M x N, where K' is any multiple of [`Mma::k`]; the first instruction takes the first columns
    /// of A.
    ///
    /// # Errors
    /// For lengths that do not fit each other.
    pub fn run_chain(self, a: &[u8], b: &[u8], c: &[u8]) -> Result<Vec<u8>> {
        let (ta, tb, tc) = self.dtypes();
        let steps = a.len() / (M * self.k * ta.unit_bytes());
        self.tiles(steps, a, b, c)?;
        let k = steps * self.k;
        let (a, b, mut d) = (widened(ta, a), widened(tb, b), widened(tc, c));
        // The groups of a model divide K, so that a chain is one longer sum.
        gemm_tile(self.model()?, M, N, k, &a, k, &b, N, &mut d, N);
        Ok(narrowed(tc, &d))
    }

    /// The number of tiles in these matrices.
    pub(crate) fn tiles(self, steps: usize, a: &[u8], b: &[u8], c: &[u8]) -> Result<usize> {
        let bytes = |operand| {
            let (rows, columns) = self.shape(operand);
            rows * columns * self.dtype(operand).unit_bytes()
        };
        let tiles = c.len() / bytes(Operand::C);
        for (what, operand, count, found) in [
            ("bytes of A", Operand::A, tiles * steps, a.len()),
            ("bytes of B", Operand::B, tiles * steps, b.len()),
            ("bytes of C", Operand::C, tiles, c.len()),
        ] {
            let expected = count * bytes(operand);
            if found != expected {
                return Err(Error::Length { what, expected, found });
            }
        }
        if tiles == 0 || steps == 0 {
            return Err(Error::InvalidArgument {
                what: "tiles and steps",
                value: format!("{tiles} and {steps}"),
                limit: "at least one of each".into(),
            });
        }
        Ok(tiles)
    }
}

/// Elements as the models take them.
fn widened(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    (0..bytes.len() / dtype.unit_bytes()).map(|i| dtype.decode(dtype.load_bits(bytes, i)) as f32).collect()
}

/// Results in f32 or f16.
fn narrowed(dtype: DType, values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.unit_bytes()];
    for (i, &x) in values.iter().enumerate() {
        let bits = match dtype {
            // The NaN of f16, which a conversion might make another one.
            DType::F16 if x.is_nan() => 0x7fff,
            DType::F16 => dtype.encode(f64::from(x), Rounding::NearestEven, Overflow::Ieee),
            _ => u64::from(x.to_bits()),
        };
        dtype.store_bits(&mut bytes, i, bits);
    }
    bytes
}

impl std::fmt::Display for Mma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_those_of_ptx_and_are_read() {
        let names: Vec<String> = Arch::NVIDIA.into_iter().flat_map(Mma::all).map(Mma::name).collect();
        for name in [
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16",
        ] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
        assert_eq!(Arch::ALL.map(|arch| Mma::all(arch).count()), [0, 0, 0, 0, 2, 8, 16, 16, 8]);
        for mma in Arch::NVIDIA.into_iter().flat_map(Mma::all) {
            assert_eq!(Mma::by_name(mma.arch(), &mma.name()).unwrap(), mma);
            mma.model().unwrap();
        }
        assert_eq!(Mma::by_name(Arch::Sm90, "M16N8K16.F32.F16.F16.F32").unwrap().k(), 16);
        let error = Mma::by_name(Arch::Sm75, "m16n8k16.f32.f16.f16.f32").unwrap_err().to_string();
        assert!(error.contains("sm_75 (it has m16n8k8.f32.f16.f16.f32 m16n8k8.f16.f16.f16.f16)"), "{error}");
    }

    #[test]
    fn models_are_those_of_the_instruction() {
        for (arch, name, model) in [
            (Arch::Sm75, "m16n8k8.f16.f16.f16.f16", "sm_75 f16, accumulated in f16"),
            (Arch::Sm80, "m16n8k4.f32.tf32.tf32.f32", "sm_80 tf32"),
            (Arch::Sm89, "m16n8k32.f32.e5m2.e4m3.f32", "sm_89 e5m2_e4m3"),
            (Arch::Sm90, "m16n8k16.f32.bf16.bf16.f32", "sm_90 bf16"),
            (Arch::Sm90, "m16n8k8.f32.bf16.bf16.f32", "sm_90 bf16, groups of 8"),
            (Arch::Sm90, "m16n8k4.f32.tf32.tf32.f32", "sm_90 tf32, groups of 4"),
            (Arch::Sm90, "m16n8k32.f16.e4m3.e4m3.f16", "sm_90 e4m3_e4m3, mma.sync, accumulated in f16"),
        ] {
            assert_eq!(Mma::by_name(arch, name).unwrap().model().unwrap().to_string(), model);
        }
    }

    /// Row and column of element i of a lane's fragment, as the PTX ISA has them: groupID is lane / 4, threadID_in_group lane % 4.
    fn place_in_the_ptx_isa(operand: Operand, bits: usize, k: usize, lane: usize, i: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        match (operand, bits, k) {
            (Operand::A, 16, 16) => {
                let row = if i < 2 || (4..6).contains(&i) { group } else { group + 8 };
                (row, thread * 2 + (i & 1) + if i >= 4 { 8 } else { 0 })
            }
            (Operand::A, 16, _) => (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1)),
            (Operand::A, 32, _) => (if i.is_multiple_of(2) { group } else { group + 8 }, thread + if i >= 2 { 4 } else { 0 }),
            (Operand::A, ..) => {
                let row = if i < 4 || (8..12).contains(&i) { group } else { group + 8 };
                (row, thread * 4 + (i & 3) + if i >= 8 { 16 } else { 0 })
            }
            (Operand::B, 16, _) => (thread * 2 + (i & 1) + if i >= 2 { 8 } else { 0 }, group),
            (Operand::B, 32, _) => (thread + if i == 1 { 4 } else { 0 }, group),
            (Operand::B, ..) => (thread * 4 + (i & 3) + if i >= 4 { 16 } else { 0 }, group),
            (Operand::C | Operand::D, ..) => (if i < 2 { group } else { group + 8 }, thread * 2 + (i & 1)),
        }
    }

    #[test]
    fn registers_are_those_of_the_ptx_isa() {
        for mma in Mma::all(Arch::Sm90) {
            for operand in [Operand::A, Operand::B, Operand::C, Operand::D] {
                let (per, mut seen) = (32 / mma.bits(operand), HashSet::new());
                for (lane, i) in (0..32).flat_map(|lane| (0..mma.registers(operand) * per).map(move |i| (lane, i))) {
                    let (row, column) = place_in_the_ptx_isa(operand, mma.bits(operand), mma.k(), lane, i);
                    let expected = Slot { lane, register: i / per, bit: i % per * mma.bits(operand) };
                    assert_eq!(mma.slot(operand, row, column), Some(expected), "{mma} {operand:?} [{row}][{column}]");
                    assert!(seen.insert((row, column)), "{mma} {operand:?} [{row}][{column}] twice");
                }
                let (rows, columns) = mma.shape(operand);
                assert_eq!(seen.len(), rows * columns, "{mma} {operand:?}");
                assert_eq!(mma.slot(operand, rows, 0).or(mma.slot(operand, 0, columns)), None, "{mma} {operand:?}");
            }
        }
    }

    #[test]
    fn a_chain_multiplies_each_tile_and_lengths_have_to_fit() {
        let mma = Mma::by_name(Arch::Sm90, "m16n8k8.f32.f16.f16.f32").unwrap();
        let halves =
            |n: usize, of: &dyn Fn(usize) -> f32| -> Vec<u8> { (0..n).flat_map(|i| half::f16::from_f32(of(i)).to_le_bytes()).collect() };
        // Two tiles of three steps: A has the number of its step, B ones, C the number of its tile.
        let a = halves(2 * 3 * M * 8, &|i| (i / (M * 8)) as f32);
        let b = halves(2 * 3 * 8 * N, &|_| 1.0);
        let c: Vec<u8> = (0..2 * M * N).flat_map(|i| ((i / (M * N)) as f32).to_le_bytes()).collect();
        let d = mma.run_bytes(3, &a, &b, &c).unwrap();
        let d: Vec<f32> = d.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
        assert_eq!(d, [vec![24.0; M * N], vec![97.0; M * N]].concat());
        // One tile of two steps: row i of A is i, but for the last columns.
        let a = halves(M * 16, &|i| if i % 16 < 12 { (i / 16) as f32 } else { 0.5 });
        let one = mma.run_chain(&a, &b[..2 * 8 * N * 2], &c[..M * N * 4]).unwrap();
        let one: Vec<f32> = one.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
        assert_eq!(one, (0..M * N).map(|i| (i / N * 12 + 2) as f32).collect::<Vec<_>>());
        let a = halves(2 * 3 * M * 8, &|_| 1.0);
        for (error, words) in [
            (mma.run_bytes(2, &a, &b, &c), "bytes of A: expected 1024, found 1536"),
            (mma.run_bytes(3, &a, &b[1..], &c), "bytes of B: expected 768, found 767"),
            (mma.run_bytes(3, &a, &b, &c[..c.len() - 4]), "bytes of A: expected 768, found 1536"),
            (mma.run_bytes(1, &[], &[], &[]), "at least one of each"),
            (mma.run_chain(&a[..512], &b[..128], &c[..512]), "bytes of B: expected 256, found 128"),
        ] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
