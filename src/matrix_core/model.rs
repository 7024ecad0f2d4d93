//! Which arithmetic: architecture, input format and rule.

use super::rule::Accumulator;
use super::{Arch, Input, Rule, Vendor};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// The arithmetic of a matrix instruction with f32 accumulators, or of an NVIDIA instruction with f16 accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Model {
    arch: Arch,
    input: Input,
    rule: Rule,
}

/// Fraction bits kept by default; the sources give 52, 32 and 31.
pub(crate) const KEEP: u32 = 32;

impl Model {
    /// The arithmetic of `arch` for `input`, in its default variant and with the group of the instructions with the larger K. `xf32` and `tf32` are one
    /// format, and either name is accepted; the model has the architecture's name.
    ///
    /// # Errors
    /// When the architecture has no such instruction; the message lists the formats that it has.
    pub fn new(arch: Arch, input: Input) -> Result<Model> {
        let input = match (arch.vendor(), input) {
            (Vendor::Amd, Input::Tf32) => Input::Xf32,
            (Vendor::Nvidia, Input::Xf32) => Input::Tf32,
            (_, other) => other,
        };
        let rule = Self::default_rule(arch, input).ok_or_else(|| Error::Unsupported {
            what: format!("matrix core input {input}"),
            by: format!("{arch} (it has {})", Input::names(Input::ALL.into_iter().filter(|i| Self::default_rule(arch, *i).is_some()))),
        })?;
        Ok(Model { arch, input, rule })
    }

    const fn default_rule(arch: Arch, input: Input) -> Option<Rule> {
        use Accumulator::{F32, F32Bits13};
        Some(match (arch, input) {
            (Arch::Gfx908 | Arch::Gfx90a | Arch::Gfx942, Input::F32) => Rule::Fma,
            (Arch::Gfx908, Input::F16) => Rule::Exact { group: 4 },
            (Arch::Gfx908, Input::Bf16) => Rule::Exact { group: 2 },
            (Arch::Gfx90a, Input::Bf16) => Rule::Tree { group: 2 },
            (Arch::Gfx90a, Input::F16 | Input::Bf16K | Input::F16AsBf16 | Input::F16AsBf16Truncated) => Rule::Tree { group: 4 },
            (Arch::Gfx942, Input::F16 | Input::Bf16) => Rule::Fused { group: 8, keep: KEEP },
            (Arch::Gfx942, Input::Xf32) => Rule::Fused { group: 4, keep: KEEP },
            (Arch::Gfx942, Input::Fp8Fp8 | Input::Fp8Bf8 | Input::Bf8Fp8 | Input::Bf8Bf8) => Rule::FusedHalves { keep: KEEP },
            (Arch::Sm70, Input::F16) => VOLTA,
            (Arch::Sm75, Input::F16) | (Arch::Sm80 | Arch::Sm89, Input::F16 | Input::Bf16) => truncated(8, 24, -132, F32),
            (Arch::Sm80 | Arch::Sm89, Input::Tf32) => truncated(4, 24, -132, F32),
            (Arch::Sm89, Input::E4m3E4m3 | Input::E4m3E5m2 | Input::E5m2E4m3 | Input::E5m2E5m2) => truncated(16, 13, -132, F32Bits13),
            (Arch::Sm90 | Arch::Sm100, Input::F16 | Input::Bf16) => HOPPER_F16,
            (Arch::Sm90 | Arch::Sm100, Input::Tf32) => truncated(8, 25, -133, F32),
            (Arch::Sm90, Input::E4m3E4m3 | Input::E4m3E5m2 | Input::E5m2E4m3 | Input::E5m2E5m2) => truncated(32, 13, -133, F32Bits13),
            _ => return None,
        })
    }

    /// The same model for an instruction whose K is `k`. gfx942 adds f16 and bf16 in groups of min(8, K), Hopper and Blackwell f16 and bf16 in groups of
    /// min(16, K) and tf32 of min(8, K); Turing runs the instruction of K 4 as Volta does.
    pub const fn for_k(self, k: usize) -> Model {
        let rule = match (self.rule, self.arch, self.input) {
            (Rule::Fused { keep, .. }, ..) if k < 8 => Rule::Fused { group: 4, keep },
            (Rule::Truncated { accumulator, .. }, Arch::Sm75, _) if k < 8 => {
                return Model { rule: VOLTA, ..self }.accumulating_in(accumulator);
            }
            (Rule::Truncated { bits, zero, accumulator, .. }, Arch::Sm90 | Arch::Sm100, Input::F16 | Input::Bf16) if k < 16 => {
                Rule::Truncated { group: 8, bits, zero, accumulator }
            }
            (Rule::Truncated { bits, zero, accumulator, .. }, Arch::Sm90 | Arch::Sm100, Input::Tf32) if k < 8 => {
                Rule::Truncated { group: 4, bits, zero, accumulator }
            }
            (rule, ..) => rule,
        };
        Model { rule, ..self }
    }

    const fn accumulating_in(self, accumulator: Accumulator) -> Model {
        let rule = match (self.rule, accumulator) {
            // Exponents of f16 begin 112 above those of f32, and so does that of a zero.
            (Rule::Truncated { group, bits, zero, .. }, Accumulator::F16) => Rule::Truncated { group, bits, zero: zero + 112, accumulator },
            (Rule::Emulated { .. }, Accumulator::F16) => Rule::Emulated { accumulator },
            (rule, _) => rule,
        };
        Model { rule, ..self }
    }

    /// The same model with accumulators of f16, which tensor cores have for f16 and fp8.
    ///
    /// # Errors
    /// When there is no such instruction.
    pub fn with_f16_accumulator(self) -> Result<Model> {
        let narrow = matches!(self.input.dtypes().0, DType::F16 | DType::F8E4M3 | DType::F8E5M2);
        match self.rule {
            Rule::Truncated { accumulator: Accumulator::F16, .. } | Rule::Emulated { accumulator: Accumulator::F16 } => Ok(self),
            Rule::Truncated { .. } | Rule::Emulated { .. } if narrow => Ok(self.accumulating_in(Accumulator::F16)),
            _ => Err(Error::Unsupported { what: "an f16 accumulator".into(), by: self.to_string() }),
        }
    }

    /// fp8 on Hopper by `mma.sync`, which compilers emulate with f16 instructions ([`Rule::Emulated`]); the default is `wgmma`.
    ///
    /// # Errors
    /// When the model is of anything else.
    pub fn by_mma_sync(self) -> Result<Model> {
        match (self.arch, self.rule) {
            (Arch::Sm90, Rule::Truncated { accumulator: Accumulator::F32Bits13, .. }) => {
                Ok(Model { rule: Rule::Emulated { accumulator: Accumulator::F32 }, ..self })
            }
            (Arch::Sm90, Rule::Truncated { bits: 13, accumulator, .. } | Rule::Emulated { accumulator }) => {
                Ok(Model { rule: Rule::Emulated { accumulator }, ..self })
            }
            _ => Err(Error::Unsupported { what: "mma.sync apart from other instructions".into(), by: self.to_string() }),
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

    /// The same arithmetic with A and B exchanged: if their formats differ, the least exponents of their numbers differ as well.
    pub(crate) const fn exchanged(self) -> Model {
        Model { input: self.input.exchanged(), ..self }
    }

    /// Every model in every variant, defaults first for each input.
    pub fn all() -> impl Iterator<Item = Model> {
        let of_input = |m: Model| {
            let kept = [52, 31].into_iter().filter_map(move |keep| m.with_kept_bits(keep).ok());
            let small = [8, 4].into_iter().map(move |k| (k, m.for_k(k))).filter(move |(k, s)| *s != m && s.group() == *k).map(|(_, s)| s);
            let all: Vec<Model> = std::iter::once(m).chain(kept).chain(small).chain(m.by_mma_sync().ok()).collect();
            let narrow: Vec<Model> = all.iter().filter_map(|m| m.with_f16_accumulator().ok()).collect();
            all.into_iter().chain(narrow)
        };
        Arch::ALL.into_iter().flat_map(move |arch| {
            Input::ALL.into_iter().filter_map(move |input| Model::new(arch, input).ok().filter(|m| m.input == input)).flat_map(of_input)
        })
    }

    /// The formats that some model of an architecture takes.
    pub(crate) fn formats(arch: Arch) -> impl Iterator<Item = DType> {
        let takes = move |input: &Input, dtype| input.dtypes().0 == dtype && Self::default_rule(arch, *input).is_some();
        DType::ALL.into_iter().filter(move |dtype| Input::ALL.iter().any(|input| takes(input, *dtype)))
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

    /// Products that are added to the accumulator at once; K is padded with zeros to a multiple of it.
    pub const fn group(self) -> usize {
        match self.rule {
            Rule::Fma => 1,
            Rule::Exact { group } | Rule::Tree { group } | Rule::Fused { group, .. } | Rule::Truncated { group, .. } => group,
            Rule::FusedHalves { .. } => 16,
            Rule::Emulated { .. } => 32,
        }
    }

    /// The format of C and D.
    pub const fn accumulator(self) -> DType {
        match self.rule {
            Rule::Truncated { accumulator, .. } | Rule::Emulated { accumulator } => accumulator.dtype(),
            Rule::Fma | Rule::Exact { .. } | Rule::Tree { .. } | Rule::Fused { .. } | Rule::FusedHalves { .. } => DType::F32,
        }
    }

    /// The one NaN of the results. For AMD's instructions it is the quiet NaN without a payload, since no source says which NaN it is; NVIDIA's has all bits except the
    /// sign set.
    pub const fn nan(self) -> f32 {
        match self.arch.vendor() {
            Vendor::Amd => f32::NAN,
            Vendor::Nvidia => f32::from_bits(0x7fff_ffff),
        }
    }

    /// `x`, or [that NaN](Model::nan) for a NaN.
    #[inline(always)]
    pub(super) fn with_its_nan(self, x: f32) -> f32 {
        if x.is_nan() { self.nan() } else { x }
    }

    /// Whether [`Model::prepare`] can change an input at all.
    pub const fn prepares(self) -> bool {
        matches!(self.rule, Rule::Tree { .. }) || matches!(self.input, Input::Xf32 | Input::Tf32)
    }

    /// What the hardware (or, for `f16_as_bf16`, the library around it) does to one input before it multiplies: flushes
    /// subnormals and -0 to +0 (gfx90a f16, bf16), clears the low fraction bits (xf32, tf32: a NaN
    /// with no other fraction bits then is an infinity), converts (f16 to bf16). Doing it twice is the same as doing it once.
    pub fn prepare_one(self, x: f32) -> f32 {
        let bits = x.to_bits();
        let flush = |x: f32, least: f32| if x.abs() < least { 0.0 } else { x };
        match (self.input, self.rule) {
            (Input::F16, Rule::Tree { .. }) => flush(x, F16_LEAST_NORMAL),
            (_, Rule::Tree { .. }) if x.is_nan() => x,
            (Input::F16AsBf16, _) => flush(f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000), f32::MIN_POSITIVE),
            (Input::F16AsBf16Truncated, _) => flush(f32::from_bits(bits & 0xffff_0000), f32::MIN_POSITIVE),
            (_, Rule::Tree { .. }) => flush(x, f32::MIN_POSITIVE),
            (Input::Xf32 | Input::Tf32, _) => f32::from_bits(bits & !0x1fff),
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

    /// What the hardware does to the C of an instruction: gfx90a turns a subnormal or zero C into +0 for f16 and bf16. If accumulators are f16, a C that is not an f16 number is
    /// rounded to f16.
    pub fn accept_c(self, c: f32) -> f32 {
        match self.rule {
            Rule::Tree { .. } if c.abs() < f32::MIN_POSITIVE => 0.0,
            _ if self.accumulator() == DType::F16 => half::f16::from_f32(c).to_f32(),
            _ => c,
        }
    }
}

/// A rule of tensor cores.
const fn truncated(group: usize, bits: u32, zero: i32, accumulator: Accumulator) -> Rule {
    Rule::Truncated { group, bits, zero, accumulator }
}

/// Volta's rule, which Turing has in addition to its own.
const VOLTA: Rule = truncated(4, 23, -131, Accumulator::F32);

/// Hopper's rule for f16 and bf16.
const HOPPER_F16: Rule = truncated(16, 25, -133, Accumulator::F32);

/// The least normal f16, 2^-14.
pub(super) const F16_LEAST_NORMAL: f32 = 1.0 / 16384.0;

impl std::fmt::Display for Model {
    /// Such as `gfx90a f16`, or `gfx942 bf16, groups of 4, 31 bits kept` for a variant.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.arch, self.input)?;
        for words in self.variants() {
            write!(f, ", {}", words.1)?;
        }
        Ok(())
    }
}

impl Model {
    /// How this model differs from the default of its architecture and input: as in names, and in words.
    pub(crate) fn variants(self) -> Vec<(String, String)> {
        let mut variants = Vec::new();
        let default = Self::default_rule(self.arch, self.input);
        if matches!(self.rule, Rule::Emulated { .. }) {
            variants.push(("mma".to_owned(), "mma.sync".to_owned()));
        } else if default.is_some_and(|rule| Model { rule, ..self }.group() != self.group()) {
            variants.push((format!("group{}", self.group()), format!("groups of {}", self.group())));
        }
        if let Rule::Fused { keep, .. } | Rule::FusedHalves { keep } = self.rule
            && keep != KEEP
        {
            variants.push((format!("keep{keep}"), format!("{keep} bits kept")));
        }
        if self.accumulator() == DType::F16 {
            variants.push(("in_f16".to_owned(), "accumulated in f16".to_owned()));
        }
        variants
    }
}
