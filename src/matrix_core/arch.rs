//! The generations of matrix units: AMD's matrix cores and NVIDIA's tensor cores.

use crate::error::{Error, Result};

/// A generation of data-centre GPUs, by the name that compilers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Arch {
    /// CDNA1: MI100.
    Gfx908,
    /// CDNA2: MI210, MI250, MI250X.
    Gfx90a,
    /// CDNA3: MI300A, MI300X, MI325X.
    Gfx942,
    /// Volta: V100.
    Sm70,
    /// Turing: T4.
    Sm75,
    /// Ampere: A100, and GPUs of compute capability 8.6, such as A2, A10 and A40.
    Sm80,
    /// Ada: L4, L40S.
    Sm89,
    /// Hopper: H100, H200.
    Sm90,
    /// Blackwell: B200, and the RTX PRO 6000 of compute capability 12.0.
    Sm100,
}

/// The maker of a GPU, which determines its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// AMD: matrix cores, mfma instructions.
    Amd,
    /// NVIDIA: tensor cores, mma and wgmma instructions.
    Nvidia,
}

impl Arch {
    /// Every generation that has models here, oldest first, AMD's before NVIDIA's.
    pub const ALL: [Arch; 9] =
        [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942, Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm89, Arch::Sm90, Arch::Sm100];
    /// AMD's.
    pub const AMD: [Arch; 3] = [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942];
    /// NVIDIA's.
    pub const NVIDIA: [Arch; 6] = [Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm89, Arch::Sm90, Arch::Sm100];

    /// The name that compilers use, such as `gfx90a` or `sm_90`.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx908 => "gfx908",
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
            Arch::Sm70 => "sm_70",
            Arch::Sm75 => "sm_75",
            Arch::Sm80 => "sm_80",
            Arch::Sm89 => "sm_89",
            Arch::Sm90 => "sm_90",
            Arch::Sm100 => "sm_100",
        }
    }

    /// The name of the generation and of the products, such as `CDNA2 (MI200)`.
    pub const fn product(self) -> &'static str {
        match self {
            Arch::Gfx908 => "CDNA1 (MI100)",
            Arch::Gfx90a => "CDNA2 (MI200)",
            Arch::Gfx942 => "CDNA3 (MI300)",
            Arch::Sm70 => "Volta (V100)",
            Arch::Sm75 => "Turing (T4)",
            Arch::Sm80 => "Ampere (A100)",
            Arch::Sm89 => "Ada (L40S)",
            Arch::Sm90 => "Hopper (H100, H200)",
            Arch::Sm100 => "Blackwell (B200)",
        }
    }

    /// Who makes it.
    pub const fn vendor(self) -> Vendor {
        match self {
            Arch::Gfx908 | Arch::Gfx90a | Arch::Gfx942 => Vendor::Amd,
            Arch::Sm70 | Arch::Sm75 | Arch::Sm80 | Arch::Sm89 | Arch::Sm90 | Arch::Sm100 => Vendor::Nvidia,
        }
    }

    /// The name of its matrix units: `matrix cores` or `tensor cores`.
    pub const fn units(self) -> &'static str {
        match self.vendor() {
            Vendor::Amd => "matrix cores",
            Vendor::Nvidia => "tensor cores",
        }
    }

    /// The names of some generations, for messages.
    pub(crate) fn names(arches: impl IntoIterator<Item = Arch>, between: &str) -> String {
        arches.into_iter().map(Arch::name).collect::<Vec<_>>().join(between)
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Arch {
    type Err = Error;

    /// Reads `gfx908`, `gfx90a`, `gfx942`, with or without feature suffixes (`gfx90a:sramecc+:xnack-`), or `mi100`,
    /// `mi200`, `mi300`, `cdna1`, `cdna2`, `cdna3`; `sm_70`, `sm_75`, `sm_80` and `sm_86`, `sm_89`, `sm_90`, `sm_100` and `sm_120`, each with or
    /// without the `a` or `f` of its specific features (`sm_90a`), or a product such as `v100`, `a100`, `l40s`, `h100`, `h200`, `b200`.
    fn from_str(s: &str) -> Result<Arch> {
        let lower = s.to_ascii_lowercase();
        let name = lower.split(':').next().unwrap_or_default();
        // The suffix names instructions that the chip alone has; its arithmetic is the same.
        let number = name.strip_prefix("sm_").map(|number| number.strip_suffix(['a', 'f']).unwrap_or(number));
        match (name, number) {
            ("gfx908" | "mi100" | "cdna1", _) => Ok(Arch::Gfx908),
            ("gfx90a" | "mi200" | "mi210" | "mi250" | "mi250x" | "cdna2", _) => Ok(Arch::Gfx90a),
            ("gfx942" | "mi300" | "mi300a" | "mi300x" | "mi325x" | "cdna3", _) => Ok(Arch::Gfx942),
            ("v100" | "volta", _) | (_, Some("70")) => Ok(Arch::Sm70),
            ("t4" | "turing", _) | (_, Some("75")) => Ok(Arch::Sm75),
            ("a100" | "a2" | "a10" | "a30" | "a40" | "ampere", _) | (_, Some("80" | "86")) => Ok(Arch::Sm80),
            ("l4" | "l40" | "l40s" | "ada", _) | (_, Some("89")) => Ok(Arch::Sm89),
            ("h100" | "h200" | "hopper", _) | (_, Some("90")) => Ok(Arch::Sm90),
            ("b200" | "gb200" | "blackwell", _) | (_, Some("100" | "120")) => Ok(Arch::Sm100),
            _ => Err(Error::InvalidArgument {
                what: "matrix core architecture",
                value: s.to_owned(),
                limit: format!("one of {}", Arch::names(Arch::ALL, " ")),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_products_are_read_and_nothing_else_is() {
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse::<Arch>().unwrap(), arch);
        }
        assert_eq!(Arch::AMD.into_iter().chain(Arch::NVIDIA).collect::<Vec<_>>(), Arch::ALL);
        for (arches, vendor) in [(&Arch::AMD[..], Vendor::Amd), (&Arch::NVIDIA[..], Vendor::Nvidia)] {
            assert!(arches.iter().all(|arch| arch.vendor() == vendor));
        }
        for (text, arch) in [
            ("gfx90a:sramecc+:xnack-", Arch::Gfx90a),
            ("MI300X", Arch::Gfx942),
            ("V100", Arch::Sm70),
            ("T4", Arch::Sm75),
            ("sm_86", Arch::Sm80),
            ("L40S", Arch::Sm89),
            ("sm_90a", Arch::Sm90),
            ("H200", Arch::Sm90),
            ("sm_100f", Arch::Sm100),
            ("sm_120", Arch::Sm100),
        ] {
            assert_eq!(text.parse::<Arch>().unwrap(), arch, "{text}");
        }
        for text in ["sm_", "sm_72", "sm_9", "sm_900", "90", "gfx1100", "sm_a", "sm_90aa", ""] {
            let error = text.parse::<Arch>().unwrap_err().to_string();
            assert!(error.contains("gfx908 gfx90a gfx942 sm_70 sm_75 sm_80 sm_89 sm_90 sm_100"), "{error}");
        }
    }
}
