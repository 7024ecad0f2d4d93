//! The three generations of matrix cores.

use crate::error::{Error, Result};

/// A generation of AMD's data-centre GPUs, by the name of its instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Arch {
    /// CDNA1: MI100.
    Gfx908,
    /// CDNA2: MI210, MI250, MI250X.
    Gfx90a,
    /// CDNA3: MI300A, MI300X, MI325X.
    Gfx942,
}

impl Arch {
    /// Every generation that has models here, oldest first.
    pub const ALL: [Arch; 3] = [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942];

    /// The name that compilers use, such as `gfx90a`.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx908 => "gfx908",
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
        }
    }

    /// The name of the generation and of the products, such as `CDNA2 (MI200)`.
    pub const fn product(self) -> &'static str {
        match self {
            Arch::Gfx908 => "CDNA1 (MI100)",
            Arch::Gfx90a => "CDNA2 (MI200)",
            Arch::Gfx942 => "CDNA3 (MI300)",
        }
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
    /// `mi200`, `mi300`, `cdna1`, `cdna2`, `cdna3`.
    fn from_str(s: &str) -> Result<Arch> {
        let lower = s.to_ascii_lowercase();
        match lower.split(':').next().unwrap_or_default() {
            "gfx908" | "mi100" | "cdna1" => Ok(Arch::Gfx908),
            "gfx90a" | "mi200" | "mi210" | "mi250" | "mi250x" | "cdna2" => Ok(Arch::Gfx90a),
            "gfx942" | "mi300" | "mi300a" | "mi300x" | "mi325x" | "cdna3" => Ok(Arch::Gfx942),
            _ => Err(Error::InvalidArgument {
                what: "matrix core architecture",
                value: s.to_owned(),
                limit: "one of gfx908 gfx90a gfx942".into(),
            }),
        }
    }
}
