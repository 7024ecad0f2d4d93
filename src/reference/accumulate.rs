//! How the products of one result are added up.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix_core::{Arch, Input, Model, Rule};

/// The accumulator and its roundings. Products are taken one after the other in the order of K; nothing is ever added
/// pairwise, except by a matrix core's own rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Accumulate {
    /// An f64 accumulator, one fused multiply-add per product. For inputs of at most 26 significant bits the product is exact.
    F64,
    /// An f64 accumulator, rounded to f32 after every product.
    F64Rounded,
    /// "Accumulate 4": an f64 accumulator, rounded to f32 after every fourth product. Backward weight counts only products
    /// inside the image.
    Every4,
    /// Every four products are summed in f64 from zero, rounded to f32 and added in f32.
    Groups4,
    /// An f32 accumulator; product and sum are rounded separately.
    F32,
    /// An f32 accumulator, one fused multiply-add per product.
    F32Fma,
    /// The matrix core of an architecture.
    MatrixCore(Model),
}

impl Accumulate {
    /// The modes without a matrix core.
    pub const PLAIN: [Accumulate; 6] =
        [Accumulate::F64, Accumulate::F64Rounded, Accumulate::Every4, Accumulate::Groups4, Accumulate::F32, Accumulate::F32Fma];

    /// Whether the products are formed in f32, so that inputs must be f32 numbers.
    pub const fn in_f32(self) -> bool {
        matches!(self, Accumulate::F32 | Accumulate::F32Fma | Accumulate::MatrixCore(_))
    }
}

impl std::fmt::Display for Accumulate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Accumulate::F64 => f.pad("f64"),
            Accumulate::F64Rounded => f.pad("f64-rounded"),
            Accumulate::Every4 => f.pad("every4"),
            Accumulate::Groups4 => f.pad("groups4"),
            Accumulate::F32 => f.pad("f32"),
            Accumulate::F32Fma => f.pad("f32-fma"),
            Accumulate::MatrixCore(model) => f.pad(&core_name(*model)),
        }
    }
}

/// `gfx942:f16`; for a variant `gfx942:f16:group4` or `gfx942:f16:keep31`, or both suffixes in this order.
fn core_name(model: Model) -> String {
    let variants = model.variants().into_iter().map(|(name, _)| format!(":{name}")).collect::<String>();
    format!("{}:{}{variants}", model.arch(), model.input())
}

/// The matrix core of such a name.
fn core(name: &str) -> Result<Model> {
    let mut parts = name.split(':');
    let mut next = || parts.next().unwrap_or_default();
    let mut model = Model::new(next().parse::<Arch>()?, next().parse::<Input>()?)?;
    for part in parts {
        let variant = match (part, part.strip_prefix("group"), part.strip_prefix("keep").and_then(|n| n.parse().ok())) {
            ("mma", ..) => model.by_mma_sync()?,
            ("in_f16", ..) => model.with_f16_accumulator()?,
            (_, Some("4"), _) if model.for_k(4).group() == 4 => model.for_k(4),
            (_, Some("8"), _) if model.for_k(8).group() == 8 => model.for_k(8),
            (_, None, Some(keep)) => model.with_kept_bits(keep)?,
            _ => model,
        };
        if variant == model {
            let limit =
                format!("a variant of {model} that is not the default: group4, group8, keep31, keep52, mma or in_f16, where it has them");
            return Err(Error::InvalidArgument { what: "matrix core variant", value: part.to_owned(), limit });
        }
        model = variant;
    }
    Ok(model)
}

/// The arithmetic of a reference: the accumulator, and whether subnormal inputs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arithmetic {
    /// How products are added.
    pub accumulate: Accumulate,
    /// Inputs below the least normal magnitude of their own format count as +0 ("flush subnormals").
    pub flush_subnormals: bool,
}

impl From<Accumulate> for Arithmetic {
    fn from(accumulate: Accumulate) -> Arithmetic {
        Arithmetic { accumulate, flush_subnormals: false }
    }
}

impl From<Model> for Arithmetic {
    fn from(model: Model) -> Arithmetic {
        Accumulate::MatrixCore(model).into()
    }
}

impl Arithmetic {
    /// The exact arithmetic on the operands as this one reads them: f64, with subnormal inputs as +0 if this arithmetic reads them so, as gfx90a's f16 and bf16 instructions do. Operands that
    /// `f16_as_bf16` converts are taken unconverted.
    pub const fn exact(self) -> Arithmetic {
        let flushed = match self.accumulate {
            Accumulate::MatrixCore(model) => {
                matches!((model.rule(), model.input()), (Rule::Tree { .. }, Input::F16 | Input::Bf16 | Input::Bf16K))
            }
            _ => false,
        };
        Arithmetic { accumulate: Accumulate::F64, flush_subnormals: self.flush_subnormals || flushed }
    }

    /// The least value that a non-zero magnitude of an operand counts as in an error bound: gfx942 and tensor cores align products by exponents that do not go below the
    /// least exponent of the format.
    pub(crate) fn least_magnitude(self, dtype: DType) -> f64 {
        let aligned = match self.accumulate {
            Accumulate::MatrixCore(model) => match model.rule() {
                Rule::Fused { .. } | Rule::FusedHalves { .. } | Rule::Truncated { .. } | Rule::Emulated { .. } => true,
                Rule::Fma | Rule::Exact { .. } | Rule::Tree { .. } => false,
            },
            _ => false,
        };
        dtype.float_format().filter(|_| aligned).map_or(0.0, |format| format.min_normal())
    }

    /// Reads what [`FromStr`](std::str::FromStr) reads, `fma` for `f32-fma`, and a chip alone, such as `gfx90a`: its matrix core for inputs of this format.
    ///
    /// # Errors
    /// When there is no such arithmetic, or the chip has none for this format.
    pub fn for_inputs(text: &str, dtype: DType) -> Result<Arithmetic> {
        Arithmetic::for_operands(text, [dtype; 2])
    }

    /// The same for operands that may have two formats.
    ///
    /// # Errors
    /// When there is no such arithmetic, or the chip has none for these formats.
    pub fn for_operands(text: &str, dtypes: [DType; 2]) -> Result<Arithmetic> {
        let (name, flush_subnormals) = text.strip_suffix("+flush").map_or((text, false), |name| (name, true));
        // Not `gfx90a:f16`, in which a chip's name would be found as well.
        let chip = if name.contains(':') { None } else { name.parse::<Arch>().ok() };
        let accumulate = match (chip, name) {
            (Some(arch), _) => Accumulate::MatrixCore(model_for(arch, dtypes)?),
            (None, "fma") => Accumulate::F32Fma,
            _ => return text.parse(),
        };
        Ok(Arithmetic { accumulate, flush_subnormals })
    }

    /// Checks that tensors of these formats can be its operands.
    ///
    /// # Errors
    /// [`Error::WrongDType`] when they cannot.
    pub fn accepts(self, first: DType, second: DType) -> Result<()> {
        let fail = |expected: String| {
            Err(Error::WrongDType {
                what: format!("operands of a reference with accumulation {}", self.accumulate),
                expected,
                found: format!("{first} and {second}"),
            })
        };
        if let Accumulate::MatrixCore(model) = self.accumulate {
            let (a, b) = model.input().dtypes();
            return if (first, second) == (a, b) { Ok(()) } else { fail(format!("{a} and {b}")) };
        }
        if let Some(wide) = [first, second].into_iter().find(|d| [DType::I64, DType::U64].contains(d)) {
            return fail(format!("any format but {wide}, whose values f64 cannot hold"));
        }
        if self.accumulate.in_f32() && !(first.fits_f32() && second.fits_f32()) {
            return fail("formats whose values are f32 numbers (not f64 and integers of 32 bits and more)".to_owned());
        }
        Ok(())
    }
}

/// The model of a chip's matrix cores for operands of these formats.
fn model_for(arch: Arch, [a, b]: [DType; 2]) -> Result<Model> {
    let input = match (arch, a, b) {
        (Arch::Gfx90a, DType::Bf16, DType::Bf16) => Some(Input::Bf16K),
        _ => Input::ALL.into_iter().find(|input| input.dtypes() == (a, b) && Model::new(arch, *input).is_ok()),
    };
    let what = || if a == b { format!("the format {a}") } else { format!("the pair of formats {a} and {b}") };
    let formats = || Model::formats(arch).map(|dtype| dtype.to_string()).collect::<Vec<_>>().join(" ");
    let by = || format!("the models of {arch}'s {} (they have {})", arch.units(), formats());
    Model::new(arch, input.ok_or_else(|| Error::Unsupported { what: what(), by: by() })?)
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}{}", self.accumulate, if self.flush_subnormals { "+flush" } else { "" }))
    }
}

impl std::str::FromStr for Arithmetic {
    type Err = Error;

    /// Reads `f64`, `f64-rounded`, `every4`, `groups4`, `f32`, `f32-fma` or a matrix core such as `gfx90a:f16` or `sm_90:f16`, each with `+flush` or not. Variants are
    /// `gfx942:f16:group4` and `sm_90:f16:group8` (instructions of a smaller K), `gfx942:f16:keep31` ([`Model::with_kept_bits`]), `sm_90:e4m3:mma`
    /// ([`Model::by_mma_sync`]) and `sm_90:f16:in_f16` ([`Model::with_f16_accumulator`]).
    fn from_str(s: &str) -> Result<Arithmetic> {
        let (name, flush_subnormals) = s.strip_suffix("+flush").map_or((s, false), |name| (name, true));
        let accumulate = match (Accumulate::PLAIN.into_iter().find(|a| a.to_string() == name), name.split_once(':')) {
            (Some(plain), _) => plain,
            (None, Some(_)) => Accumulate::MatrixCore(core(name)?),
            (None, None) => {
                return Err(Error::InvalidArgument {
                    what: "accumulation",
                    value: s.to_owned(),
                    limit: "f64, f64-rounded, every4, groups4, f32, f32-fma or ARCH:INPUT (gfx90a:f16), with +flush where wanted"
                        .to_owned(),
                });
            }
        };
        Ok(Arithmetic { accumulate, flush_subnormals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["f64", "f64-rounded", "every4+flush", "groups4", "f32", "f32-fma", "gfx908:f16", "gfx90a:bf16_1k+flush"] {
            assert_eq!(name.parse::<Arithmetic>().unwrap().to_string(), name);
        }
        for model in Model::all().chain(Model::all().filter_map(|model| model.for_k(4).with_kept_bits(52).ok())) {
            let arithmetic = Arithmetic::from(model);
            assert_eq!(arithmetic.to_string().parse::<Arithmetic>().unwrap(), arithmetic, "{model}");
        }
        assert_eq!("gfx942:bf16:group4:keep31".parse::<Arithmetic>().unwrap().to_string(), "gfx942:bf16:group4:keep31");
        for (name, part) in [
            ("gfx942:f16:group8", "group8"),
            ("gfx942:f16:keep32", "keep32"),
            ("gfx942:f16:keep30", "52 32 31"),
            ("gfx90a:f16:keep31", "kept fraction bits"),
            ("gfx90a:f16:group4", "group4"),
            ("gfx942:f16:", "variant"),
        ] {
            let error = name.parse::<Arithmetic>().unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        for (name, part) in [("f16", "f32-fma"), ("gfx908:fp8", "gfx908"), ("gfx1:f16", "gfx1"), ("", "f64-rounded")] {
            let error = name.parse::<Arithmetic>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_chip_alone_is_its_matrix_core_for_the_inputs() {
        for (text, dtype, found) in [
            ("gfx90a", DType::Bf16, "gfx90a:bf16_1k"),
            ("gfx908+flush", DType::F16, "gfx908:f16+flush"),
            ("fma", DType::F16, "f32-fma"),
            ("gfx90a:bf16", DType::Bf16, "gfx90a:bf16"),
            ("gfx942", DType::Tf32, "gfx942:xf32"),
            ("sm_90", DType::Tf32, "sm_90:tf32"),
            ("sm_89", DType::F8E5M2, "sm_89:e5m2_e5m2"),
            ("every4+flush", DType::F16, "every4+flush"),
        ] {
            assert_eq!(Arithmetic::for_inputs(text, dtype).unwrap().to_string(), found, "{text}");
        }
        let error = Arithmetic::for_inputs("gfx908", DType::I8).unwrap_err().to_string();
        assert!(error.contains("the format i8 is not supported by the models of gfx908"), "{error}");
        for (text, dtype, has) in [("sm_70", DType::F32, "f16"), ("sm_75", DType::Bf16, "f16"), ("sm_80", DType::F8E4M3, "tf32 f16 bf16")] {
            let error = Arithmetic::for_inputs(text, dtype).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{text}'s tensor cores (they have {has})")), "{error}");
        }
        for (text, dtypes, found) in [
            ("sm_89", [DType::F8E5M2, DType::F8E4M3], "sm_89:e5m2_e4m3"),
            ("gfx942+flush", [DType::F8E4M3Fnuz, DType::F8E5M2Fnuz], "gfx942:fp8_bf8+flush"),
        ] {
            assert_eq!(Arithmetic::for_operands(text, dtypes).unwrap().to_string(), found, "{text}");
        }
        let error = Arithmetic::for_operands("gfx90a", [DType::Bf16, DType::F16]).unwrap_err().to_string();
        assert!(error.contains("the pair of formats bf16 and f16 is not supported by the models of gfx90a"), "{error}");
        assert!(Arithmetic::for_inputs("f33", DType::F16).unwrap_err().to_string().contains("f32-fma or ARCH:INPUT"));
    }

    #[test]
    fn operands_that_do_not_fit_are_named() {
        let core: Arithmetic = "gfx90a:f16".parse().unwrap();
        assert!(core.accepts(DType::F16, DType::F16).is_ok());
        assert!(core.accepts(DType::Bf16, DType::F16).unwrap_err().to_string().contains("expected dtype f16 and f16"));
        assert!(Arithmetic::from(Accumulate::F32).accepts(DType::F64, DType::F32).is_err());
        assert!(Arithmetic::from(Accumulate::F64).accepts(DType::F64, DType::I32).is_ok());
        for wide in [DType::I64, DType::U64] {
            assert!(Arithmetic::from(Accumulate::F64).accepts(DType::F64, wide).unwrap_err().to_string().contains(&format!("but {wide}")));
        }
    }
}
