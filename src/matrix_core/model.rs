//! Which arithmetic: architecture, input format and rule.

use super::Arch;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// The input formats of A and B, named as the instructions name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Input {
    /// f32.
    F32,
    /// xf32: f32 words of which 10 fraction bits count.
    Xf32,
    /// f16.
    F16,
    /// f16 converted to bf16 (nearest, ties to even) and then treated as [`Input::Bf16K`]: the "alternative implementation"
    /// that rocBLAS, MIOpen and PyTorch offer for f16 on MI200.
    F16AsBf16,
    /// f16 converted to bf16 by truncation and then treated as [`Input::Bf16K`].
    F16AsBf16Truncated,
    /// bf16: on gfx908 and gfx90a the first bf16 instructions, two products a group; on gfx942 the only ones.
    Bf16,
    /// bf16 by the `bf16_1k` instructions of gfx90a, four products a group.
    Bf16K,
    /// A and B fp8 (e4m3 fnuz).
    Fp8Fp8,
    /// A fp8, B bf8.
    Fp8Bf8,
    /// A bf8, B fp8.
    Bf8Fp8,
    /// A and B bf8 (e5m2 fnuz).
    Bf8Bf8,
}

impl Input {
    /// Every input format.
    pub const ALL: [Input; 11] = [
        Input::F32,
        Input::Xf32,
        Input::F16,
        Input::F16AsBf16,
        Input::F16AsBf16Truncated,
        Input::Bf16,
        Input::Bf16K,
        Input::Fp8Fp8,
        Input::Fp8Bf8,
        Input::Bf8Fp8,
        Input::Bf8Bf8,
    ];

    /// The name that flags and lists use, such as `bf16_1k`.
    pub const fn name(self) -> &'static str {
        match self {
            Input::F32 => "f32",
            Input::Xf32 => "xf32",
            Input::F16 => "f16",
            Input::F16AsBf16 => "f16_as_bf16",
            Input::F16AsBf16Truncated => "f16_as_bf16_truncated",
            Input::Bf16 => "bf16",
            Input::Bf16K => "bf16_1k",
            Input::Fp8Fp8 => "fp8_fp8",
            Input::Fp8Bf8 => "fp8_bf8",
            Input::Bf8Fp8 => "bf8_fp8",
            Input::Bf8Bf8 => "bf8_bf8",
        }
    }

    /// The storage formats of A and B.
    pub const fn dtypes(self) -> (DType, DType) {
        match self {
            Input::F32 => (DType::F32, DType::F32),
            Input::Xf32 => (DType::Tf32, DType::Tf32),
            Input::F16 | Input::F16AsBf16 | Input::F16AsBf16Truncated => (DType::F16, DType::F16),
            Input::Bf16 | Input::Bf16K => (DType::Bf16, DType::Bf16),
            Input::Fp8Fp8 => (DType::F8E4M3Fnuz, DType::F8E4M3Fnuz),
            Input::Fp8Bf8 => (DType::F8E4M3Fnuz, DType::F8E5M2Fnuz),
            Input::Bf8Fp8 => (DType::F8E5M2Fnuz, DType::F8E4M3Fnuz),
            Input::Bf8Bf8 => (DType::F8E5M2Fnuz, DType::F8E5M2Fnuz),
        }
    }
}

impl std::fmt::Display for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Input {
    type Err = Error;

    /// Reads a name as [`Input::name`] prints it; `fp8` and `bf8` mean both operands.
    fn from_str(s: &str) -> Result<Input> {
        let lower = s.to_ascii_lowercase();
        let alias = match lower.as_str() {
            "fp8" => "fp8_fp8",
            "bf8" => "bf8_bf8",
            "tf32" => "xf32",
            other => other,
        };
        Input::ALL.into_iter().find(|i| i.name() == alias).ok_or_else(|| Error::InvalidArgument {
            what: "matrix core input format",
            value: s.to_owned(),
            limit: format!("one of {}", names(Input::ALL)),
        })
    }
}

/// How the products of a group join the accumulator c. `RN32` rounds to f32, nearest even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Groups of one: `fma(a, b, c)` in f32.
    Fma,
    /// `RN32(c + p0 + p1 + ...)`: the exact sum, rounded once; nothing is flushed.
    Exact {
        /// Products in a group.
        group: usize,
    },
    /// Rounded additions, `FA(c, FA(p0, p1))` or `FA(c, FA(FA(p0, p1), FA(p2, p3)))`. Subnormal and zero inputs, and a
    /// subnormal or zero C of the instruction, become +0; f32-subnormal products and sums become zeros of their sign.
    Tree {
        /// Products in a group: 2 or 4.
        group: usize,
    },
    /// Products truncated at 24 fraction bits below the largest product exponent and added; c and that sum aligned and
    /// rounded down, added, normalised, rounded down at 31 fraction bits, rounded to f32.
    Fused {
        /// Products in a group: 4 or 8.
        group: usize,
        /// Fraction bits that the sum of products keeps when it is aligned to a larger c.
        keep: u32,
    },
    /// Groups of 16: the products with even and odd k each summed as in [`Rule::Fused`], both sums rounded down at 24 fraction
    /// bits below the larger exponent and added; then as in [`Rule::Fused`], but a c that lies too low counts as zero.
    FusedHalves {
        /// Fraction bits that the sum of products keeps when it is aligned to a larger c.
        keep: u32,
    },
}

/// The arithmetic of a matrix instruction with f32 accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    arch: Arch,
    input: Input,
    rule: Rule,
}

/// Fraction bits kept by default where the sources give 52, 32 and 31.
pub(crate) const KEEP: u32 = 32;

impl Model {
    /// The arithmetic of `arch` for `input`, in its default variant and with the group of the instructions with the larger K.
    ///
    /// # Errors
    /// When the architecture has no such instruction; the message lists the formats that it has.
    pub fn new(arch: Arch, input: Input) -> Result<Model> {
        let rule = Self::default_rule(arch, input).ok_or_else(|| Error::Unsupported {
            what: format!("matrix core input {input}"),
            by: format!("{arch} (it has {})", names(Input::ALL.into_iter().filter(|i| Self::default_rule(arch, *i).is_some()))),
        })?;
        Ok(Model { arch, input, rule })
    }

    const fn default_rule(arch: Arch, input: Input) -> Option<Rule> {
        Some(match (arch, input) {
            (_, Input::F32) => Rule::Fma,
            (Arch::Gfx908, Input::F16) => Rule::Exact { group: 4 },
            (Arch::Gfx908, Input::Bf16) => Rule::Exact { group: 2 },
            (Arch::Gfx90a, Input::Bf16) => Rule::Tree { group: 2 },
            (Arch::Gfx90a, Input::F16 | Input::Bf16K | Input::F16AsBf16 | Input::F16AsBf16Truncated) => Rule::Tree { group: 4 },
            (Arch::Gfx942, Input::F16 | Input::Bf16) => Rule::Fused { group: 8, keep: KEEP },
            (Arch::Gfx942, Input::Xf32) => Rule::Fused { group: 4, keep: KEEP },
            (Arch::Gfx942, Input::Fp8Fp8 | Input::Fp8Bf8 | Input::Bf8Fp8 | Input::Bf8Bf8) => Rule::FusedHalves { keep: KEEP },
            _ => return None,
        })
    }

    /// The same model for an instruction whose K is `k`: gfx942 adds f16 and bf16 in groups of min(8, K).
    pub const fn for_k(self, k: usize) -> Model {
        match self.rule {
            Rule::Fused { keep, .. } if k < 8 => Model { rule: Rule::Fused { group: 4, keep }, ..self },
            _ => self,
        }
    }

    /// The same model with another number of kept fraction bits (see [`Rule::Fused`]): 32, 52 or 31, the three that the sources
    /// give. They differ only where the sum of products and c nearly cancel.
    ///
    /// # Errors
    /// When the model has no such variant, or for another number.
    pub fn with_kept_bits(self, keep: u32) -> Result<Model> {
        let rule = match self.rule {
            Rule::Fused { group, .. } => Rule::Fused { group, keep },
            Rule::FusedHalves { .. } => Rule::FusedHalves { keep },
            _ => return Err(Error::Unsupported { what: "a choice of kept fraction bits".into(), by: self.to_string() }),
        };
        if ![52, 32, 31].contains(&keep) {
            return Err(Error::InvalidArgument { what: "kept fraction bits", value: keep.to_string(), limit: "one of 52 32 31".into() });
        }
        Ok(Model { rule, ..self })
    }

    /// The same arithmetic with A and B exchanged: where their formats differ, so do the least exponents of their numbers.
    pub(crate) const fn exchanged(self) -> Model {
        let input = match self.input {
            Input::Fp8Bf8 => Input::Bf8Fp8,
            Input::Bf8Fp8 => Input::Fp8Bf8,
            other => other,
        };
        Model { input, ..self }
    }

    /// Every model in every variant, defaults first for each input.
    pub fn all() -> impl Iterator<Item = Model> {
        Arch::ALL.into_iter().flat_map(|arch| {
            Input::ALL.into_iter().filter_map(move |input| Model::new(arch, input).ok()).flat_map(|m| {
                let kept = [52, 31].into_iter().filter_map(move |keep| m.with_kept_bits(keep).ok());
                let small = Some(m.for_k(4)).filter(|s| *s != m);
                std::iter::once(m).chain(kept).chain(small)
            })
        })
    }

    /// The architecture.
    pub const fn arch(self) -> Arch {
        self.arch
    }

    /// The input format.
    pub const fn input(self) -> Input {
        self.input
    }

    /// The rule.
    pub const fn rule(self) -> Rule {
        self.rule
    }

    /// Products that join the accumulator together; K is padded with zeros to a multiple of it.
    pub const fn group(self) -> usize {
        match self.rule {
            Rule::Fma => 1,
            Rule::Exact { group } | Rule::Tree { group } | Rule::Fused { group, .. } => group,
            Rule::FusedHalves { .. } => 16,
        }
    }

    /// Whether [`Model::prepare`] can change an input at all.
    pub const fn prepares(self) -> bool {
        matches!(self.rule, Rule::Tree { .. }) || matches!(self.input, Input::Xf32)
    }

    /// What the hardware (or, for `f16_as_bf16`, the library around it) does to one input before it multiplies: flushes
    /// subnormals and -0 to +0 (gfx90a f16, bf16), clears the low fraction bits (xf32), converts (f16 to bf16).
    /// Doing it twice is the same as doing it once.
    pub fn prepare_one(self, x: f32) -> f32 {
        let bits = x.to_bits();
        let flush = |x: f32, least: f32| if x.abs() < least { 0.0 } else { x };
        match (self.input, self.rule) {
            (Input::F16, Rule::Tree { .. }) => flush(x, F16_LEAST_NORMAL),
            (_, Rule::Tree { .. }) if x.is_nan() => x,
            (Input::F16AsBf16, _) => flush(f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000), f32::MIN_POSITIVE),
            (Input::F16AsBf16Truncated, _) => flush(f32::from_bits(bits & 0xffff_0000), f32::MIN_POSITIVE),
            (_, Rule::Tree { .. }) => flush(x, f32::MIN_POSITIVE),
            (Input::Xf32, _) if !x.is_nan() => f32::from_bits(bits & !0x1fff),
            _ => x,
        }
    }

    /// [`Model::prepare_one`] for a whole operand. [`gemm_tile`](super::gemm_tile) takes operands prepared or not, and is
    /// faster with prepared ones.
    pub fn prepare(self, operand: &mut [f32]) {
        if self.prepares() {
            for x in operand {
                *x = self.prepare_one(*x);
            }
        }
    }

    /// What becomes of the C that an instruction is given: gfx90a turns a subnormal or zero C into +0 for f16 and bf16.
    pub fn accept_c(self, c: f32) -> f32 {
        if matches!(self.rule, Rule::Tree { .. }) && c.abs() < f32::MIN_POSITIVE { 0.0 } else { c }
    }
}

/// The least normal f16, 2^-14.
pub(super) const F16_LEAST_NORMAL: f32 = 1.0 / 16384.0;

impl std::fmt::Display for Model {
    /// Such as `gfx90a f16`, or `gfx942 bf16, groups of 4, 31 bits kept` for a variant.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.arch, self.input)?;
        match self.rule {
            Rule::Fused { group: 4, .. } if self.input != Input::Xf32 => write!(f, ", groups of 4")?,
            _ => {}
        }
        match self.rule {
            Rule::Fused { keep, .. } | Rule::FusedHalves { keep } if keep != KEEP => write!(f, ", {keep} bits kept"),
            _ => Ok(()),
        }
    }
}

fn names(inputs: impl IntoIterator<Item = Input>) -> String {
    inputs.into_iter().map(Input::name).collect::<Vec<_>>().join(" ")
}
