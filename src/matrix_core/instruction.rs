//! The mfma instructions: names, shapes, formats.

use super::{Arch, Input, Model, Vendor};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// What an instruction multiplies and accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InstructionKind {
    /// Floats accumulated in f32, by a [`Model`].
    F32(Input),
    /// f64 by fused multiply-adds in ascending k.
    F64,
    /// i8 accumulated in i32, exact modulo 2^32.
    I8,
}

/// One row of the table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    /// As gfx908 and gfx90a spell it, without `v_mfma_`.
    old: &'static str,
    /// As gfx942 spells it.
    new: &'static str,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub blocks: usize,
    pub arithmetic: InstructionKind,
    on: &'static [Arch],
}

/// A matrix instruction of an architecture: `D = A * B + C` for one or several independent blocks.
///
/// ```
/// use hipverify::matrix_core::{Arch, Mfma};
/// use half::f16;
///
/// let mfma = Mfma::f32_32x32x8f16(Arch::Gfx90a);
/// let a = vec![f16::from_f32(0.5); 32 * 8];
/// let b = vec![f16::from_f32(2.0); 8 * 32];
/// let c = vec![1.0f32; 32 * 32];
/// assert_eq!(mfma.run(&a, &b, &c)?, vec![9.0; 32 * 32]);
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mfma {
    arch: Arch,
    pub(super) spec: &'static Spec,
    keep: Option<u32>,
}

use Arch::{Gfx90a, Gfx908, Gfx942};
const ALL: &[Arch] = &[Gfx908, Gfx90a, Gfx942];
const CDNA12: &[Arch] = &[Gfx908, Gfx90a];
const CDNA23: &[Arch] = &[Gfx90a, Gfx942];
const CDNA3: &[Arch] = &[Gfx942];

macro_rules! instructions {
    ($($name:ident $new:literal $m:literal $n:literal $k:literal x $blocks:literal $arithmetic:expr, $on:expr;)*) => {
        /// Every instruction.
        static TABLE: &[Spec] = &[$(Spec {
            old: stringify!($name), new: $new, m: $m, n: $n, k: $k, blocks: $blocks, arithmetic: $arithmetic, on: $on,
        }),*];
        /// One constructor for each instruction, named as gfx908 and gfx90a spell it, or as gfx942 spells it if only gfx942 has it.
        ///
        /// Whether `arch` has the instruction is checked by [`Mfma::run`]; [`Mfma::by_name`] checks at once.
        impl Mfma {
            $(
                #[doc = concat!("`v_mfma_", stringify!($name), "`, on gfx942 `v_mfma_", $new, "`.")]
                pub const fn $name(arch: Arch) -> Mfma {
                    const SPEC: &Spec = &Spec {
                        old: stringify!($name), new: $new, m: $m, n: $n, k: $k, blocks: $blocks, arithmetic: $arithmetic, on: $on,
                    };
                    Mfma { arch, spec: SPEC, keep: None }
                }
            )*
        }
    };
}

use InstructionKind::{F32 as F, F64, I8};

instructions! {
    f32_32x32x1f32 "f32_32x32x1_2b_f32" 32 32 1 x 2 F(Input::F32), ALL;
    f32_16x16x1f32 "f32_16x16x1_4b_f32" 16 16 1 x 4 F(Input::F32), ALL;
    f32_4x4x1f32 "f32_4x4x1_16b_f32" 4 4 1 x 16 F(Input::F32), ALL;
    f32_32x32x2f32 "f32_32x32x2_f32" 32 32 2 x 1 F(Input::F32), ALL;
    f32_16x16x4f32 "f32_16x16x4_f32" 16 16 4 x 1 F(Input::F32), ALL;
    f32_32x32x4f16 "f32_32x32x4_2b_f16" 32 32 4 x 2 F(Input::F16), ALL;
    f32_16x16x4f16 "f32_16x16x4_4b_f16" 16 16 4 x 4 F(Input::F16), ALL;
    f32_4x4x4f16 "f32_4x4x4_16b_f16" 4 4 4 x 16 F(Input::F16), ALL;
    f32_32x32x8f16 "f32_32x32x8_f16" 32 32 8 x 1 F(Input::F16), ALL;
    f32_16x16x16f16 "f32_16x16x16_f16" 16 16 16 x 1 F(Input::F16), ALL;
    f32_32x32x2bf16 "f32_32x32x2bf16" 32 32 2 x 2 F(Input::Bf16), CDNA12;
    f32_16x16x2bf16 "f32_16x16x2bf16" 16 16 2 x 4 F(Input::Bf16), CDNA12;
    f32_4x4x2bf16 "f32_4x4x2bf16" 4 4 2 x 16 F(Input::Bf16), CDNA12;
    f32_32x32x4bf16 "f32_32x32x4bf16" 32 32 4 x 1 F(Input::Bf16), CDNA12;
    f32_16x16x8bf16 "f32_16x16x8bf16" 16 16 8 x 1 F(Input::Bf16), CDNA12;
    f32_32x32x4bf16_1k "f32_32x32x4_2b_bf16" 32 32 4 x 2 F(Input::Bf16K), CDNA23;
    f32_16x16x4bf16_1k "f32_16x16x4_4b_bf16" 16 16 4 x 4 F(Input::Bf16K), CDNA23;
    f32_4x4x4bf16_1k "f32_4x4x4_16b_bf16" 4 4 4 x 16 F(Input::Bf16K), CDNA23;
    f32_32x32x8bf16_1k "f32_32x32x8_bf16" 32 32 8 x 1 F(Input::Bf16K), CDNA23;
    f32_16x16x16bf16_1k "f32_16x16x16_bf16" 16 16 16 x 1 F(Input::Bf16K), CDNA23;
    f32_16x16x8_xf32 "f32_16x16x8_xf32" 16 16 8 x 1 F(Input::Xf32), CDNA3;
    f32_32x32x4_xf32 "f32_32x32x4_xf32" 32 32 4 x 1 F(Input::Xf32), CDNA3;
    f32_16x16x32_fp8_fp8 "f32_16x16x32_fp8_fp8" 16 16 32 x 1 F(Input::Fp8Fp8), CDNA3;
    f32_16x16x32_fp8_bf8 "f32_16x16x32_fp8_bf8" 16 16 32 x 1 F(Input::Fp8Bf8), CDNA3;
    f32_16x16x32_bf8_fp8 "f32_16x16x32_bf8_fp8" 16 16 32 x 1 F(Input::Bf8Fp8), CDNA3;
    f32_16x16x32_bf8_bf8 "f32_16x16x32_bf8_bf8" 16 16 32 x 1 F(Input::Bf8Bf8), CDNA3;
    f32_32x32x16_fp8_fp8 "f32_32x32x16_fp8_fp8" 32 32 16 x 1 F(Input::Fp8Fp8), CDNA3;
    f32_32x32x16_fp8_bf8 "f32_32x32x16_fp8_bf8" 32 32 16 x 1 F(Input::Fp8Bf8), CDNA3;
    f32_32x32x16_bf8_fp8 "f32_32x32x16_bf8_fp8" 32 32 16 x 1 F(Input::Bf8Fp8), CDNA3;
    f32_32x32x16_bf8_bf8 "f32_32x32x16_bf8_bf8" 32 32 16 x 1 F(Input::Bf8Bf8), CDNA3;
    f64_16x16x4f64 "f64_16x16x4_f64" 16 16 4 x 1 F64, CDNA23;
    f64_4x4x4f64 "f64_4x4x4_4b_f64" 4 4 4 x 4 F64, CDNA23;
    i32_32x32x4i8 "i32_32x32x4_2b_i8" 32 32 4 x 2 I8, ALL;
    i32_16x16x4i8 "i32_16x16x4_4b_i8" 16 16 4 x 4 I8, ALL;
    i32_4x4x4i8 "i32_4x4x4_16b_i8" 4 4 4 x 16 I8, ALL;
    i32_32x32x8i8 "i32_32x32x8i8" 32 32 8 x 1 I8, CDNA12;
    i32_16x16x16i8 "i32_16x16x16i8" 16 16 16 x 1 I8, CDNA12;
    i32_16x16x32_i8 "i32_16x16x32_i8" 16 16 32 x 1 I8, CDNA3;
    i32_32x32x16_i8 "i32_32x32x16_i8" 32 32 16 x 1 I8, CDNA3;
}

impl Mfma {
    /// The instructions of an architecture; empty for NVIDIA's, which have other instructions ([`Mma`](super::Mma)).
    pub fn all(arch: Arch) -> impl Iterator<Item = Mfma> {
        TABLE.iter().filter(move |s| s.on.contains(&arch)).map(move |spec| Mfma { arch, spec, keep: None })
    }

    /// The instruction with this name, in the spelling of any architecture, with or without `v_mfma_`.
    ///
    /// # Errors
    /// When `arch` has no such instruction; the message lists the ones that it has.
    pub fn by_name(arch: Arch, name: &str) -> Result<Mfma> {
        let lower = name.trim().to_ascii_lowercase();
        let bare = lower.strip_prefix("v_mfma_").or_else(|| lower.strip_prefix("mfma_")).unwrap_or(&lower);
        Self::all(arch).find(|i| i.spec.old == bare || i.spec.new == bare).ok_or_else(|| Self::missing(arch, name))
    }

    fn missing(arch: Arch, name: &str) -> Error {
        if arch.vendor() == Vendor::Nvidia {
            return Error::Unsupported {
                what: format!("the mfma instruction {name}"),
                by: format!("{arch}, whose tensor cores have others"),
            };
        }
        let has = Self::all(arch).map(|i| i.name()).collect::<Vec<_>>().join(" ");
        Error::Unsupported { what: format!("instruction {name}"), by: format!("{arch} (it has {has})") }
    }

    /// This instruction, or an error that lists what the architecture has instead.
    pub(super) fn checked(self) -> Result<Mfma> {
        if self.spec.on.contains(&self.arch) { Ok(self) } else { Err(Self::missing(self.arch, &self.name())) }
    }

    /// The same instruction in the variant of its arithmetic that keeps `keep` fraction bits; see
    /// [`Model::with_kept_bits`](super::Model::with_kept_bits).
    ///
    /// # Errors
    /// When its arithmetic has no such variant.
    pub fn with_kept_bits(self, keep: u32) -> Result<Mfma> {
        let no_variants = || Error::Unsupported { what: "a choice of kept fraction bits".into(), by: format!("{} {self}", self.arch) };
        self.checked()?.model().ok_or_else(no_variants)?.with_kept_bits(keep)?;
        Ok(Mfma { keep: Some(keep), ..self })
    }

    /// The name in the architecture's own spelling, such as `v_mfma_f32_32x32x8f16` or, on gfx942, `v_mfma_f32_32x32x8_f16`.
    pub fn name(self) -> String {
        format!("v_mfma_{}", if self.arch == Gfx942 { self.spec.new } else { self.spec.old })
    }

    /// The name of the compiler's builtin, such as `__builtin_amdgcn_mfma_f32_32x32x8f16`.
    pub fn builtin(self) -> String {
        format!("__builtin_amdgcn_mfma_{}", self.spec.old)
    }

    /// The architecture.
    pub const fn arch(self) -> Arch {
        self.arch
    }

    /// Rows of A and C of a block.
    pub const fn m(self) -> usize {
        self.spec.m
    }

    /// Columns of B and C of a block.
    pub const fn n(self) -> usize {
        self.spec.n
    }

    /// Columns of A and rows of B of a block.
    pub const fn k(self) -> usize {
        self.spec.k
    }

    /// Independent blocks.
    pub const fn blocks(self) -> usize {
        self.spec.blocks
    }

    /// What is multiplied and accumulated.
    pub fn arithmetic(self) -> InstructionKind {
        match self.spec.arithmetic {
            // What gfx90a calls bf16_1k is gfx942's only bf16.
            InstructionKind::F32(Input::Bf16K) if self.arch == Gfx942 => InstructionKind::F32(Input::Bf16),
            other => other,
        }
    }

    /// The model of the arithmetic where the accumulator is f32; `None` for f64 and i8, and where the architecture lacks the
    /// instruction.
    pub fn model(self) -> Option<Model> {
        let InstructionKind::F32(input) = self.arithmetic() else { return None };
        let model = Model::new(self.arch, input).ok()?.for_k(self.spec.k);
        self.keep.map_or(Some(model), |keep| model.with_kept_bits(keep).ok())
    }

    /// The formats of A, B and of C and D.
    pub const fn dtypes(self) -> (DType, DType, DType) {
        match self.spec.arithmetic {
            InstructionKind::F32(input) => {
                let (a, b) = input.dtypes();
                (a, b, DType::F32)
            }
            InstructionKind::F64 => (DType::F64, DType::F64, DType::F64),
            InstructionKind::I8 => (DType::I8, DType::I8, DType::I32),
        }
    }
}

impl std::fmt::Display for Mfma {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.name())
    }
}
