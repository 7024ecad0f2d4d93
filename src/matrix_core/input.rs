//! The formats of the factors.

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
    /// tf32: the same format, as NVIDIA's instructions name it. [`Model::new`](super::Model::new) takes either name.
    Tf32,
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
    /// A and B e4m3, the format of OCP and NVIDIA.
    E4m3E4m3,
    /// A e4m3, B e5m2.
    E4m3E5m2,
    /// A e5m2, B e4m3.
    E5m2E4m3,
    /// A and B e5m2.
    E5m2E5m2,
}

impl Input {
    /// Every input format.
    pub const ALL: [Input; 16] = [
        Input::F32,
        Input::Xf32,
        Input::Tf32,
        Input::F16,
        Input::F16AsBf16,
        Input::F16AsBf16Truncated,
        Input::Bf16,
        Input::Bf16K,
        Input::Fp8Fp8,
        Input::Fp8Bf8,
        Input::Bf8Fp8,
        Input::Bf8Bf8,
        Input::E4m3E4m3,
        Input::E4m3E5m2,
        Input::E5m2E4m3,
        Input::E5m2E5m2,
    ];

    /// The name that flags and lists use, such as `bf16_1k`.
    pub const fn name(self) -> &'static str {
        match self {
            Input::F32 => "f32",
            Input::Xf32 => "xf32",
            Input::Tf32 => "tf32",
            Input::F16 => "f16",
            Input::F16AsBf16 => "f16_as_bf16",
            Input::F16AsBf16Truncated => "f16_as_bf16_truncated",
            Input::Bf16 => "bf16",
            Input::Bf16K => "bf16_1k",
            Input::Fp8Fp8 => "fp8_fp8",
            Input::Fp8Bf8 => "fp8_bf8",
            Input::Bf8Fp8 => "bf8_fp8",
            Input::Bf8Bf8 => "bf8_bf8",
            Input::E4m3E4m3 => "e4m3_e4m3",
            Input::E4m3E5m2 => "e4m3_e5m2",
            Input::E5m2E4m3 => "e5m2_e4m3",
            Input::E5m2E5m2 => "e5m2_e5m2",
        }
    }

    /// The storage formats of A and B.
    pub const fn dtypes(self) -> (DType, DType) {
        match self {
            Input::F32 => (DType::F32, DType::F32),
            Input::Xf32 | Input::Tf32 => (DType::Tf32, DType::Tf32),
            Input::F16 | Input::F16AsBf16 | Input::F16AsBf16Truncated => (DType::F16, DType::F16),
            Input::Bf16 | Input::Bf16K => (DType::Bf16, DType::Bf16),
            Input::Fp8Fp8 => (DType::F8E4M3Fnuz, DType::F8E4M3Fnuz),
            Input::Fp8Bf8 => (DType::F8E4M3Fnuz, DType::F8E5M2Fnuz),
            Input::Bf8Fp8 => (DType::F8E5M2Fnuz, DType::F8E4M3Fnuz),
            Input::Bf8Bf8 => (DType::F8E5M2Fnuz, DType::F8E5M2Fnuz),
            Input::E4m3E4m3 => (DType::F8E4M3, DType::F8E4M3),
            Input::E4m3E5m2 => (DType::F8E4M3, DType::F8E5M2),
            Input::E5m2E4m3 => (DType::F8E5M2, DType::F8E4M3),
            Input::E5m2E5m2 => (DType::F8E5M2, DType::F8E5M2),
        }
    }

    /// The same formats with A and B exchanged.
    pub(crate) const fn exchanged(self) -> Input {
        match self {
            Input::Fp8Bf8 => Input::Bf8Fp8,
            Input::Bf8Fp8 => Input::Fp8Bf8,
            Input::E4m3E5m2 => Input::E5m2E4m3,
            Input::E5m2E4m3 => Input::E4m3E5m2,
            other => other,
        }
    }

    /// Some names, for messages.
    pub(super) fn names(inputs: impl IntoIterator<Item = Input>) -> String {
        inputs.into_iter().map(Input::name).collect::<Vec<_>>().join(" ")
    }
}

impl std::fmt::Display for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Input {
    type Err = Error;

    /// Reads a name as [`Input::name`] prints it; `fp8`, `bf8`, `e4m3` and `e5m2` mean both operands.
    fn from_str(s: &str) -> Result<Input> {
        let lower = s.to_ascii_lowercase();
        let alias = match lower.as_str() {
            "fp8" => "fp8_fp8",
            "bf8" => "bf8_bf8",
            "e4m3" => "e4m3_e4m3",
            "e5m2" => "e5m2_e5m2",
            other => other,
        };
        Input::ALL.into_iter().find(|i| i.name() == alias).ok_or_else(|| Error::InvalidArgument {
            what: "matrix core input format",
            value: s.to_owned(),
            limit: format!("one of {}", Input::names(Input::ALL)),
        })
    }
}
