//! Random tiles for NVIDIA's matrix instructions: what the hardware delivers against what the models say, bit for bit.

use crate::device::Device;
use crate::dtype::{DType, Specials};
use crate::error::Result;
use crate::matrix_core::{Mma, Operand};
use crate::reference::mma_issue;
use std::fmt;

/// An instruction with tiles of random data, of every [kind](MmaProbe::KINDS) as many.
#[derive(Clone, Debug)]
pub struct MmaProbe {
    mma: Mma,
    steps: usize,
    tiles: usize,
    a: Vec<u8>,
    b: Vec<u8>,
    c: Vec<u8>,
}

/// How an answer of the hardware differs from the model's.
#[derive(Clone, Debug)]
pub struct MmaDifferences {
    /// The instruction.
    pub mma: Mma,
    /// Instructions of a chain.
    pub steps: usize,
    /// Elements of all tiles.
    pub elements: usize,
    /// Elements whose bits differ, for each kind of data.
    pub differing: Vec<usize>,
    /// The first of them, with what made it.
    pub first: Option<MmaDifference>,
}

/// An element whose bits differ.
#[derive(Clone, Debug)]
pub struct MmaDifference {
    /// The kind of data: a number of [`MmaProbe::KINDS`].
    pub kind: usize,
    /// Row and column.
    pub at: (usize, usize),
    /// The bits of C, of what the hardware delivers and of what the model gives.
    pub c_found_expected: [u64; 3],
    /// The bits of the factors in A and B, k ascending, of all instructions of the chain.
    pub factors: Vec<(u64, u64)>,
}

/// What exponents a number may have.
#[derive(Clone, Copy)]
enum Magnitude {
    /// So many binades on each side of 1.
    Around(u64),
    /// The least few, subnormal numbers among them.
    Least,
    /// The few below infinity.
    Most,
    /// Any finite number.
    Any,
}

impl MmaProbe {
    /// The kinds of data, which tiles have in turn.
    pub const KINDS: [&'static str; 9] = [
        "numbers of a few binades",
        "numbers of many binades",
        "any finite numbers",
        "the least numbers, beside a C as small",
        "the least numbers, beside numbers around 1",
        "the largest numbers: sums overflow",
        "products that cancel in pairs",
        "a C far above the products",
        "numbers around 1, zeros of both signs, infinities and NaN",
    ];

    /// `tiles` tiles of each kind, for chains of `steps` instructions.
    pub fn new(mma: Mma, steps: usize, tiles: usize) -> MmaProbe {
        let mut random = Random(0x6d6d_6121 + steps as u64);
        let (ta, tb, tc) = mma.dtypes();
        let tiles = tiles * MmaProbe::KINDS.len();
        let (mut a, mut b, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for tile in 0..tiles {
            let kind = tile % MmaProbe::KINDS.len();
            let [of_a, of_b, of_c] = magnitudes(kind);
            let mut matrix = |bytes: &mut Vec<u8>, dtype: DType, operand, times, magnitude| {
                let (rows, columns) = mma.shape(operand);
                let start = bytes.len();
                let n = times * rows * columns;
                bytes.resize(start + n * dtype.unit_bytes(), 0);
                for i in 0..n {
                    dtype.store_bits(&mut bytes[start..], i, random.number(dtype, magnitude, kind == 8));
                }
            };
            let starts = [a.len(), b.len()];
            matrix(&mut a, ta, Operand::A, steps, of_a);
            matrix(&mut b, tb, Operand::B, steps, of_b);
            matrix(&mut c, tc, Operand::C, 1, of_c);
            if kind == 6 {
                cancel(mma, &mut a[starts[0]..], &mut b[starts[1]..]);
            }
        }
        MmaProbe { mma, steps, tiles, a, b, c }
    }

    /// The instruction.
    pub fn mma(&self) -> Mma {
        self.mma
    }

    /// What the model gives: D of all tiles.
    ///
    /// # Errors
    /// None are known; a model's refusal would be handed on.
    pub fn expected(&self) -> Result<Vec<u8>> {
        self.mma.run_bytes(self.steps, &self.a, &self.b, &self.c)
    }

    /// What the hardware delivers.
    ///
    /// # Errors
    /// When the device is no GPU of the instruction's architecture, or the launch fails.
    pub fn measure(&self, device: &Device) -> Result<Vec<u8>> {
        mma_issue(device, self.mma, self.steps, &self.a, &self.b, &self.c)
    }

    /// Where an answer differs from the model's in any bit.
    ///
    /// # Errors
    /// As [`MmaProbe::expected`].
    pub fn differences(&self, found: &[u8]) -> Result<MmaDifferences> {
        let expected = self.expected()?;
        let (mma, (rows, columns), (ta, tb, tc)) = (self.mma, self.mma.shape(Operand::C), self.mma.dtypes());
        let (size, k) = (rows * columns, mma.k());
        let mut all =
            MmaDifferences { mma, steps: self.steps, elements: self.tiles * size, differing: vec![0; MmaProbe::KINDS.len()], first: None };
        for i in 0..self.tiles * size {
            let bits = [&self.c[..], found, &expected].map(|bytes| tc.load_bits(bytes, i));
            if bits[1] == bits[2] {
                continue;
            }
            let (tile, row, column) = (i / size, i % size / columns, i % columns);
            let kind = tile % MmaProbe::KINDS.len();
            all.differing[kind] += 1;
            let factor = |x: usize| {
                let (step, x) = (tile * self.steps + x / k, x % k);
                (ta.load_bits(&self.a, (step * rows + row) * k + x), tb.load_bits(&self.b, (step * k + x) * columns + column))
            };
            all.first.get_or_insert_with(|| MmaDifference {
                kind,
                at: (row, column),
                c_found_expected: bits,
                factors: (0..self.steps * k).map(factor).collect(),
            });
        }
        Ok(all)
    }
}

impl MmaDifferences {
    /// Elements that differ.
    pub fn count(&self) -> usize {
        self.differing.iter().sum()
    }
}

impl fmt::Display for MmaDifferences {
    /// One line where nothing differs; else also how many of each kind do, and the first with its bits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} in a chain: {} of {} elements differ", self.mma, self.steps, self.count(), self.elements)?;
        for (kind, differing) in self.differing.iter().enumerate().filter(|(_, differing)| **differing > 0) {
            write!(f, "\n  {differing} with {}", MmaProbe::KINDS[kind])?;
        }
        let Some(first) = &self.first else { return Ok(()) };
        let [c, found, expected] = first.c_found_expected;
        let (ta, tb, tc) = self.mma.dtypes();
        let value = |dtype: DType, bits| dtype.decode(bits);
        write!(f, "\n  the first, with {}: element [{}, {}]", MmaProbe::KINDS[first.kind], first.at.0, first.at.1)?;
        write!(f, "\n    found    {found:#x}  {:e}", value(tc, found))?;
        write!(f, "\n    expected {expected:#x}  {:e}", value(tc, expected))?;
        write!(f, "\n    c        {c:#x}  {:e}", value(tc, c))?;
        for (k, (a, b)) in first.factors.iter().enumerate() {
            write!(f, "\n    k {k:<3}    {a:#x} * {b:#x}  {:e} * {:e}", value(ta, *a), value(tb, *b))?;
        }
        Ok(())
    }
}

/// The magnitudes of A, B and C of a kind.
fn magnitudes(kind: usize) -> [Magnitude; 3] {
    use Magnitude::{Any, Around, Least, Most};
    match kind {
        0 => [Around(2), Around(2), Around(4)],
        1 => [Around(14), Around(14), Around(30)],
        2 => [Any; 3],
        3 => [Least; 3],
        4 => [Least, Around(3), Any],
        5 => [Most, Around(8), Most],
        6 => [Around(8), Around(8), Around(3)],
        7 => [Around(3), Around(3), Around(28)],
        _ => [Around(2); 3],
    }
}

/// In each row of A the factor with odd k is that with even k, negated, and so is B's without the sign: what is left of a pair is what truncation leaves.
fn cancel(mma: Mma, a: &mut [u8], b: &mut [u8]) {
    let (ta, tb, _) = mma.dtypes();
    let (k, columns) = (mma.k(), mma.shape(Operand::B).1);
    for i in (0..a.len() / ta.unit_bytes()).filter(|i| i % k % 2 == 1) {
        // All but one of eight pairs.
        if i / 2 % 8 != 0 {
            let even = ta.load_bits(a, i - 1);
            ta.store_bits(a, i, even ^ 1 << (ta.bits() - 1));
        }
    }
    for i in (0..b.len() / tb.unit_bytes()).filter(|i| i / columns % k % 2 == 1) {
        let even = tb.load_bits(b, i - columns);
        tb.store_bits(b, i, even);
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// The bits of a finite number, or with `specials` now and then of a zero, an infinity or a NaN. Words of tf32 have any low bits.
    fn number(&mut self, dtype: DType, magnitude: Magnitude, specials: bool) -> u64 {
        let Some(format) = dtype.float_format() else { return 0 };
        let fraction_bits = format.mantissa_bits;
        let sign = self.below(2) << (format.exponent_bits + fraction_bits);
        let last = (1 << format.exponent_bits) - 1;
        // The first field without finite numbers: e4m3 has all but one of the last.
        let top = if format.specials == Specials::SingleNan { last + 1 } else { last };
        let middle = last / 2;
        let field = match magnitude {
            Magnitude::Around(n) => (middle + self.below(2 * n + 1)).saturating_sub(n).min(top - 1),
            Magnitude::Least => self.below(4).saturating_sub(1),
            Magnitude::Most => top - 1 - self.below(3),
            Magnitude::Any => self.below(top),
        };
        let mut fraction = self.below(1 << fraction_bits);
        // Now and then one bit or none: ties, and sums that are exact.
        if self.below(4) == 0 {
            fraction = [0, 1 << self.below(u64::from(fraction_bits))][self.below(2) as usize];
        }
        let all = (1 << fraction_bits) - 1;
        if field == last && fraction == all {
            fraction -= 1;
        }
        let mut bits = sign | field << fraction_bits | fraction;
        if specials && self.below(24) == 0 {
            let quiet = 1 << (fraction_bits - 1);
            bits = sign | [0, 0, last << fraction_bits, last << fraction_bits | quiet, last << fraction_bits | all][self.below(5) as usize];
        }
        bits << format.pad_bits | self.below(1 << format.pad_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix_core::{Arch, Model, gemm_tile};

    /// Every kind but those that overflow or cancel tells every other arithmetic apart, and differences are told.
    #[test]
    fn the_data_tell_arithmetics_apart() {
        let mma = Mma::by_name(Arch::Sm90, "m16n8k16.f32.f16.f16.f32").unwrap();
        let probe = MmaProbe::new(mma, 2, 32);
        assert_eq!(probe.differences(&probe.expected().unwrap()).unwrap().count(), 0);
        let own = mma.model().unwrap();
        for model in Model::all().filter(|m| m.input() == own.input() && *m != own && m.accumulator() == DType::F32) {
            let same_rule = model.rule() == own.rule();
            // Through the model of another chip.
            let values = |t: DType, bytes: &[u8]| -> Vec<f32> {
                (0..bytes.len() / t.unit_bytes()).map(|i| t.decode(t.load_bits(bytes, i)) as f32).collect()
            };
            let (a, b, mut d) = (values(DType::F16, &probe.a), values(DType::F16, &probe.b), values(DType::F32, &probe.c));
            for step in 0..probe.tiles * probe.steps {
                gemm_tile(model, 16, 8, 16, &a[step * 256..], 16, &b[step * 128..], 8, &mut d[step / probe.steps * 128..], 8);
            }
            let found: Vec<u8> = d.into_iter().flat_map(f32::to_le_bytes).collect();
            let differences = probe.differences(&found).unwrap();
            assert_eq!(differences.count() == 0, same_rule, "{model}: {differences}");
        }
    }

    #[test]
    fn a_difference_names_inputs_and_both_results() {
        let mma = Mma::by_name(Arch::Sm90, "m16n8k8.f32.f16.f16.f32").unwrap();
        let probe = MmaProbe::new(mma, 1, 2);
        let mut found = probe.expected().unwrap();
        let size = MmaProbe::KINDS.len() * 2 * 128;
        // Row 3, column 5 of the second tile.
        let at = (128 + 3 * 8 + 5) * 4;
        found[at] ^= 1;
        let differences = probe.differences(&found).unwrap();
        assert_eq!((differences.count(), differences.elements), (1, size));
        let text = differences.to_string();
        for words in [
            &format!("m16n8k8.row.col.f32.f16.f16.f32, 1 in a chain: 1 of {size} elements differ"),
            "1 with numbers of many binades",
            "element [3, 5]",
            "found    0x",
            "k 7 ",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn every_instruction_has_finite_and_special_results() {
        for mma in Mma::all(Arch::Sm90) {
            let probe = MmaProbe::new(mma, 3, 4);
            let tc = mma.dtypes().2;
            let d = probe.expected().unwrap();
            let values: Vec<f64> = (0..d.len() / tc.unit_bytes()).map(|i| tc.decode(tc.load_bits(&d, i))).collect();
            let share = |of: &dyn Fn(&f64) -> bool| values.iter().filter(|x| of(x)).count() as f64 / values.len() as f64;
            let (finite, nan, infinite) = (share(&|x| x.is_finite()), share(&|x| x.is_nan()), share(&|x| x.is_infinite()));
            // e4m3 has no infinities, and no sum of its products is beyond f32.
            let infinities = infinite > 0.001 || mma.name().contains("f32.e4m3.e4m3");
            assert!(finite > 0.5 && nan > 0.001 && infinities, "{mma}: finite {finite}, NaN {nan}, infinite {infinite}");
        }
    }
}
