//! Running an instruction, or a chain of them, on matrices.

use super::{Coordinate, InstructionKind, Mfma, Modifiers, gemm_tile};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};

impl Mfma {
    /// D = A * B + C: the result of a chain of this instruction, in which each D is the next C.
    ///
    /// Row-major, block after block: A is blocks x M x K', B blocks x K' x N, C blocks x M x N, where K' is any multiple of
    /// [`Mfma::k`]; the first instruction takes the first columns of A.
    ///
    /// # Errors
    /// When the architecture lacks the instruction, for wrong formats, and for lengths that do not fit; the message says which
    /// ones fit.
    pub fn run<A: Scalar, B: Scalar, C: Scalar>(self, a: &[A], b: &[B], c: &[C]) -> Result<Vec<C>> {
        self.run_with(Modifiers::default(), a, b, c)
    }

    /// [`Mfma::run`] with modifiers, the same on each instruction of the chain, except that C is negated (f64) only once.
    ///
    /// # Errors
    /// As [`Mfma::run`], and for modifiers that the instruction does not take.
    pub fn run_with<A: Scalar, B: Scalar, C: Scalar>(self, modifiers: Modifiers, a: &[A], b: &[B], c: &[C]) -> Result<Vec<C>> {
        let mut out = vec![0u8; size_of_val(c)];
        self.run_bytes(
            modifiers,
            (A::DTYPE, bytemuck::cast_slice(a)),
            (B::DTYPE, bytemuck::cast_slice(b)),
            (C::DTYPE, bytemuck::cast_slice(c)),
            &mut out,
        )?;
        Ok(out.chunks_exact(size_of::<C>()).map(bytemuck::pod_read_unaligned).collect())
    }

    /// [`Mfma::run_with`] on the bytes of tensors whose formats are known at run time; `d` has the length of C.
    ///
    /// # Errors
    /// As [`Mfma::run_with`].
    pub fn run_bytes(self, modifiers: Modifiers, a: (DType, &[u8]), b: (DType, &[u8]), c: (DType, &[u8]), d: &mut [u8]) -> Result<()> {
        let chain = self.checked()?.chain(modifiers, a, b, c, d.len())?;
        let (a, b, c) = (a.1, b.1, c.1);
        match chain.mfma.arithmetic() {
            InstructionKind::F32(_) => d.copy_from_slice(bytemuck::cast_slice(&chain.f32s(a, b, c)?)),
            InstructionKind::F64 => d.copy_from_slice(bytemuck::cast_slice(&chain.f64s(a, b, c))),
            InstructionKind::I8 => d.copy_from_slice(bytemuck::cast_slice(&chain.integers(a, b, c))),
        }
        Ok(())
    }

    /// The chain that takes these operands, whose formats and lengths it checks.
    fn chain(self, modifiers: Modifiers, a: (DType, &[u8]), b: (DType, &[u8]), c: (DType, &[u8]), bytes_of_d: usize) -> Result<Chain> {
        let modifiers = self.check_modifiers(modifiers)?;
        let (ta, tb, tc) = self.dtypes();
        for (operand, expected, found) in [("A", ta, a.0), ("B", tb, b.0), ("C", tc, c.0)] {
            // xf32 instructions take f32 words.
            if found != expected && (expected, found) != (DType::Tf32, DType::F32) {
                let what = format!("{operand} of {self}");
                return Err(Error::WrongDType { what, expected: expected.to_string(), found: found.to_string() });
            }
        }
        let (m, n, k, blocks) = (self.m(), self.n(), self.k(), self.blocks());
        let elements = count(ta, a.1);
        let steps = elements / (blocks * m * k);
        if steps == 0 || elements != steps * blocks * m * k {
            return Err(Error::InvalidArgument {
                what: "elements of A",
                value: elements.to_string(),
                limit: format!("for {self}, {blocks} x {m} x K where K is a multiple of {k}"),
            });
        }
        let length = |what, found: usize, expected: usize| {
            if found == expected { Ok(()) } else { Err(Error::Length { what, expected, found }) }
        };
        length("elements of B", count(tb, b.1), steps * blocks * k * n)?;
        length("elements of C", count(tc, c.1), blocks * m * n)?;
        length("bytes of D", bytes_of_d, c.1.len())?;
        Ok(Chain { mfma: self, modifiers, steps })
    }
}

fn count(t: DType, bytes: &[u8]) -> usize {
    bytes.len() / t.unit_bytes()
}

/// A chain of one instruction.
#[derive(Clone, Copy)]
struct Chain {
    mfma: Mfma,
    modifiers: Modifiers,
    steps: usize,
}

impl Chain {
    fn f32s(self, a: &[u8], b: &[u8], c: &[u8]) -> Result<Vec<f32>> {
        let mfma = self.mfma;
        let model = mfma.model().ok_or_else(|| Error::Unsupported { what: "a model".into(), by: mfma.to_string() })?;
        let (ta, tb, tc) = mfma.dtypes();
        let (m, n, k) = (mfma.m(), mfma.n(), mfma.k());
        let value = |t: DType, bytes: &[u8], i| t.decode(t.load_bits(bytes, i)) as f32;
        let c: Vec<f32> = (0..count(tc, c)).map(|i| value(tc, c, i)).collect();
        let block = |a: &[f32], b: &[f32], c: &mut [f32]| gemm_tile(model, m, n, k, a, k, b, n, c, n);
        Ok(self.run(|i| value(ta, a, i), |i| value(tb, b, i), c, block))
    }

    /// Modifiers only negate operands here.
    fn f64s(self, a: &[u8], b: &[u8], c: &[u8]) -> Vec<f64> {
        let (n, k) = (self.mfma.n(), self.mfma.k());
        let value = |bytes: &[u8], i, negate: u32| {
            let x = f64::from_bits(DType::F64.load_bits(bytes, i));
            if self.modifiers.blgp & negate != 0 { -x } else { x }
        };
        let c: Vec<f64> = (0..count(DType::F64, c)).map(|i| value(c, i, 4)).collect();
        let block = |a: &[f64], b: &[f64], c: &mut [f64]| {
            for (ij, c) in c.iter_mut().enumerate() {
                let dot = (0..k).fold(*c, |acc, x| a[ij / n * k + x].mul_add(b[x * n + ij % n], acc));
                *c = if dot.is_nan() { f64::NAN } else { dot };
            }
        };
        let plain = Chain { modifiers: Modifiers::default(), ..self };
        plain.run(|i| value(a, i, 1), |i| value(b, i, 2), c, block)
    }

    fn integers(self, a: &[u8], b: &[u8], c: &[u8]) -> Vec<i32> {
        let (n, k) = (self.mfma.n(), self.mfma.k());
        let value = |bytes: &[u8], i: usize| i32::from(bytes[i] as i8);
        let c: Vec<i32> = (0..count(DType::I32, c)).map(|i| DType::I32.load_bits(c, i) as i32).collect();
        let block = |a: &[i32], b: &[i32], c: &mut [i32]| {
            for (ij, c) in c.iter_mut().enumerate() {
                *c = (0..k).fold(*c, |acc, x| acc.wrapping_add(a[ij / n * k + x] * b[x * n + ij % n]));
            }
        };
        self.run(|i| value(a, i), |i| value(b, i), c, block)
    }

    /// Feeds the operands, as the modifiers arrange them, to `multiply`, which adds A * B to C for one block of one instruction.
    fn run<T: Copy + Default>(
        self,
        a: impl Fn(usize) -> T,
        b: impl Fn(usize) -> T,
        mut c: Vec<T>,
        mut multiply: impl FnMut(&[T], &[T], &mut [T]),
    ) -> Vec<T> {
        let Chain { mfma, modifiers, steps } = self;
        let (m, n, k) = (mfma.m(), mfma.n(), mfma.k());
        let depth = steps * k;
        let (mut left, mut right) = (vec![T::default(); m * k], vec![T::default(); k * n]);
        for step in 0..steps {
            for (block, c) in c.chunks_exact_mut(m * n).enumerate() {
                for (ik, x) in left.iter_mut().enumerate() {
                    let at = mfma.a_source(modifiers, Coordinate { block, row: ik / k, column: ik % k });
                    *x = a((at.block * m + at.row) * depth + step * k + at.column);
                }
                for (kj, x) in right.iter_mut().enumerate() {
                    let at = Coordinate { block, row: kj / n, column: kj % n };
                    let at = mfma.b_source(modifiers, at).unwrap_or(at);
                    *x = b((at.block * depth + step * k + at.row) * n + at.column);
                }
                multiply(&left, &right, c);
            }
        }
        c
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arch;
    use super::*;
    use crate::dtype::{F8E4M3Fnuz, F8E5M2Fnuz, Tf32};
    use half::{bf16, f16};

    /// Small integers, exact in every format and in every order.
    fn numbers(count: usize, seed: usize) -> Vec<i32> {
        (0..count).map(|i| ((i * 7 + seed * 3 + i / 5) % 7) as i32 - 3).collect()
    }

    fn expected(mfma: Mfma, depth: usize, a: &[i32], b: &[i32], c: &[i32]) -> Vec<i32> {
        let (m, n) = (mfma.m(), mfma.n());
        let dot = |x: usize| {
            let (block, i, j) = (x / (m * n), x / n % m, x % n);
            (0..depth).map(|k| a[(block * m + i) * depth + k] * b[(block * depth + k) * n + j]).sum::<i32>()
        };
        c.iter().enumerate().map(|(x, c)| c + dot(x)).collect()
    }

    #[test]
    fn every_instruction_multiplies_integers() {
        for mfma in Arch::AMD.into_iter().flat_map(Mfma::all) {
            let depth = 3 * mfma.k();
            let (m, n, blocks) = (mfma.m(), mfma.n(), mfma.blocks());
            let (a, b, c) = (numbers(blocks * m * depth, 1), numbers(blocks * depth * n, 2), numbers(blocks * m * n, 3));
            let bytes = |t: DType, x: &[i32]| {
                let mut bytes = vec![0u8; x.len() * t.unit_bytes()];
                for (i, x) in x.iter().enumerate() {
                    t.store_bits(&mut bytes, i, t.encode(f64::from(*x), Default::default(), Default::default()));
                }
                bytes
            };
            let (ta, tb, tc) = mfma.dtypes();
            let mut d = vec![0; c.len() * tc.unit_bytes()];
            let none = Modifiers::default();
            mfma.run_bytes(none, (ta, &bytes(ta, &a)), (tb, &bytes(tb, &b)), (tc, &bytes(tc, &c)), &mut d).unwrap();
            assert_eq!(d, bytes(tc, &expected(mfma, depth, &a, &b, &c)), "{} {mfma}", mfma.arch());
        }
    }

    #[test]
    fn typed_runs_take_the_formats_of_the_instruction() {
        let ones = |n| vec![1.0f32; n];
        let x8 = F8E4M3Fnuz::from_f64(2.0);
        let y8 = F8E5M2Fnuz::from_f64(3.0);
        let d = Mfma::f32_16x16x32_fp8_bf8(Arch::Gfx942).run(&[x8; 16 * 32], &[y8; 32 * 16], &ones(256)).unwrap();
        assert_eq!(d, vec![193.0; 256]);
        let d = Mfma::f32_32x32x8bf16_1k(Arch::Gfx942).run(&[bf16::ONE; 256], &[bf16::ONE; 256], &ones(1024)).unwrap();
        assert_eq!(d, vec![9.0; 1024]);
        let word = Tf32(1.0f32.to_bits() | 0x1fff);
        let d = Mfma::f32_32x32x4_xf32(Arch::Gfx942).run(&[word; 128], &[1.0f32; 128], &ones(1024)).unwrap();
        assert_eq!(d, vec![5.0; 1024]);
        // The low bits do not count where they alone would make a word a NaN.
        let infinity = f32::from_bits(0x7f80_1fff);
        let d = Mfma::f32_32x32x4_xf32(Arch::Gfx942).run(&[infinity; 128], &[1.0f32; 128], &ones(1024)).unwrap();
        assert_eq!(d, vec![f32::INFINITY; 1024]);
        let d = Mfma::i32_4x4x4i8(Arch::Gfx908).run(&[-128i8; 256], &[-128i8; 256], &[i32::MAX; 256]).unwrap();
        assert_eq!(d, vec![i32::MAX.wrapping_add(65536); 256]);
    }

    #[test]
    fn a_chain_hands_its_result_on() {
        // gfx90a: the first instruction's products vanish in c, the second's do not.
        let mfma = Mfma::f32_32x32x8f16(Arch::Gfx90a);
        let a: Vec<f16> = (0..32 * 16).map(|x| if x % 16 < 8 { f16::from_f32(0.25) } else { f16::ONE }).collect();
        let d = mfma.run(&a, &[f16::ONE; 16 * 32], &[16777216.0f32; 1024]).unwrap();
        // 2^24 + 1 (a tie, to even), twice; then + 4, twice.
        assert_eq!(d, vec![16777224.0; 1024]);
    }

    #[test]
    fn modifiers_move_operands() {
        let mfma = Mfma::f32_4x4x4f16(Arch::Gfx908);
        let a: Vec<f16> = (0..16 * 16).map(|x| f16::from_f32((x / 16) as f32)).collect();
        let one = [f16::ONE; 256];
        let blocks = |d: Vec<f32>| d.chunks(16).map(|b| b[0] as usize / 4).collect::<Vec<_>>();
        let run = |cbsz, abid| blocks(mfma.run_with(Modifiers { cbsz, abid, blgp: 0 }, &a, &one, &[0.0f32; 256]).unwrap());
        assert_eq!(run(0, 0), (0..16).collect::<Vec<_>>());
        assert_eq!(run(2, 1), (0..16).map(|b| b / 4 * 4 + 1).collect::<Vec<_>>());
        assert_eq!(run(4, 15), [15; 16]);
        // B: block b lies in lanes 4b to 4b + 3.
        let run = |blgp| blocks(mfma.run_with(Modifiers { cbsz: 0, abid: 0, blgp }, &one, &a, &[0.0f32; 256]).unwrap());
        assert_eq!(run(1), (0..16).map(|b| b % 8).collect::<Vec<_>>());
        assert_eq!(run(2), (0..16).map(|b| b % 8 + 8).collect::<Vec<_>>());
        assert_eq!(run(3), (0..16).map(|b| (b + 4) % 16).collect::<Vec<_>>());
        assert_eq!(run(6), (0..16).map(|b| b % 4 + 8).collect::<Vec<_>>());
        let negated = Mfma::f64_16x16x4f64(Arch::Gfx90a);
        let run = |blgp| negated.run_with(Modifiers { cbsz: 0, abid: 0, blgp }, &[1.0f64; 64], &[2.0f64; 64], &[5.0; 256]).unwrap()[0];
        assert_eq!([run(0), run(1), run(3), run(4), run(6)], [13.0, -3.0, 13.0, 3.0, -13.0]);
    }

    #[test]
    fn errors_say_what_would_fit() {
        let ok = vec![f16::ONE; 256];
        let c = vec![0.0f32; 1024];
        let text = |r: Result<Vec<f32>>| r.unwrap_err().to_string();
        let mfma = Mfma::f32_32x32x8f16(Arch::Gfx90a);
        for (message, why) in [
            (text(mfma.run(&ok[..255], &ok, &c)), "1 x 32 x K where K is a multiple of 8"),
            (text(mfma.run(&ok, &ok[..128], &c)), "elements of B: expected 256, found 128"),
            (text(mfma.run(&ok, &ok, &c[..32])), "elements of C: expected 1024, found 32"),
            (text(mfma.run(&[bf16::ONE; 256], &ok, &c)), "A of v_mfma_f32_32x32x8f16: expected dtype f16, found bf16"),
            (text(Mfma::f32_32x32x8bf16_1k(Arch::Gfx908).run(&ok, &ok, &c)), "v_mfma_f32_32x32x4bf16 "),
            (Mfma::by_name(Arch::Gfx942, "v_mfma_f32_32x32x4bf16").unwrap_err().to_string(), "v_mfma_f32_32x32x8_bf16"),
        ] {
            assert!(message.contains(why), "{message:?} lacks {why:?}");
        }
    }

    #[test]
    fn names_in_every_spelling() {
        for name in ["v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16", "f32_32x32x8f16", "V_MFMA_F32_32X32X8F16"] {
            assert_eq!(Mfma::by_name(Arch::Gfx942, name).unwrap().name(), "v_mfma_f32_32x32x8_f16");
            assert_eq!(Mfma::by_name(Arch::Gfx908, name).unwrap().name(), "v_mfma_f32_32x32x8f16");
        }
        let counts = Arch::AMD.map(|arch| Mfma::all(arch).count());
        assert_eq!(counts, [20, 27, 32]);
    }
}
