//! What is run on an input: a function of bytes, which panics where something is wrong and returns the kind of the outcome.

mod compare;
mod files;
mod layout;
mod text;
#[cfg(feature = "program")]
mod toml;

use std::fmt::Display;

/// A function that is tested.
#[derive(Clone, Copy)]
pub(crate) struct Harness {
    pub(crate) name: &'static str,
    /// The kind of the outcome.
    pub(crate) run: fn(&[u8]) -> u64,
    /// Words of the format.
    pub(crate) tokens: &'static [&'static str],
    /// Mutations that the test tries: a second's work or less.
    pub(crate) tried: u64,
}

const NPY: &[&str] = &["'descr'", "'fortran_order'", "'shape'", "True", "False", "'<f4'", "'|V1'", "'>c16'", "[('a','<i4')]", "(3,)", "L"];
const JSON: &[&str] = &["\"dtype\"", "\"shape\"", "\"data_offsets\"", "\"F32\"", "\"F8_E4M3\"", "[", "]", "{", "}", "0", "__metadata__"];
const PICKLE: &[&str] = &[
    "ctorch._utils\n_rebuild_tensor_v2\n",
    "ctorch\nFloatStorage\n",
    "ccollections\nOrderedDict\n",
    "(",
    "t",
    "R",
    "}",
    "s",
    "u",
    "Q",
    "\u{80}",
    "q\0",
    "h\0",
    ".",
];
const SPECS: &[&str] = &[
    "uniform:",
    "int:",
    "normal:",
    "exact:",
    "crand:",
    "/seed=",
    "/special=",
    "/sparse24",
    "-1,1",
    "nan",
    "inf",
    "1e308",
    "f16",
    "r0",
    ",",
];
const NAMES: &[&str] =
    &["f16", "f8e4m3", "fnuz", "int8", "float", "torch", "numpy", "paddle", "f32", "mfma", "gfx90a", "chain", "tree", "=", ":", "(", ")"];

#[cfg(feature = "program")]
const RULES: &[&str] = &[
    "[[rule]]\n",
    "name = \"*.bias\"\n",
    "dtype = \"f16\"\n",
    "rtol = 1e-3\n",
    "atol = 0.5\n",
    "profile = \"paddle\"\n",
    "accumulations = 1000\n",
    "range = [0, 0.1]\n",
    "operation = \"sum\"\n",
    "gradient = true\n",
    "rms = 1e-5\n",
    "allowed_share = 0.25\n",
    "inf",
    "nan",
    "-1",
];
#[cfg(feature = "program")]
const GOLDEN: &[&str] = &[
    "golden = 1\n",
    "[gfx90a]\n",
    "device = \"AMD\"\n",
    "[gfx90a.tensors]\n",
    "\"w\" = { dtype = \"f16\", shape = [2], hash = \"0123456789abcdef\" }\n",
    "\"\" = ",
    "dtype = ",
    "shape = [64, 64]",
    ", min = -1.0",
    ", rms = 1e308",
    ", nan = 1",
    ", inf = 18446744073709551615",
    "\\u0000",
    "nan",
    "-0.0",
    "''",
];
#[cfg(feature = "program")]
const SUITES: &[&str] = &[
    "[[gemm]]\n",
    "[[conv]]\n",
    "[[study]]\n",
    "[defaults]\n",
    "[kernels.k]\ncommand = [\"k\"]\n",
    "size = [\"8x8x8\", \"3x5x7\"]\n",
    "type = [\"f16\", \"bf16\"]\n",
    "kernel = [\"gfx90a\", \"fma\"]\n",
    "rule = \"rtol=1e-2\"\n",
    "data = \"uniform:-1,1\"\n",
    "limits = { rms = 1 }\n",
    "groups = [\"a\"]\n",
    "expected = \"fail\"\n",
    "configuration = \"all\"\n",
    "timeout = 1\n",
    "'''",
];

pub(crate) const HARNESSES: &[Harness] = &[
    Harness { name: "npy", run: files::npy, tokens: NPY, tried: 4000 },
    Harness { name: "npz", run: files::npz, tokens: &["PK\x03\x04", "PK\x01\x02", "PK\x05\x06", ".npy"], tried: 4000 },
    Harness { name: "npz_members", run: files::npz_members, tokens: NPY, tried: 1000 },
    Harness { name: "safetensors", run: files::safetensors, tokens: JSON, tried: 4000 },
    Harness { name: "pickle", run: files::pickle, tokens: PICKLE, tried: 2000 },
    Harness { name: "raw", run: files::raw, tokens: &[], tried: 4000 },
    Harness { name: "shards", run: files::shards, tokens: &["weight_map", "x.safetensors", "..", "/", ":", "\""], tried: 200 },
    Harness { name: "specs", run: text::specs, tokens: SPECS, tried: 10000 },
    Harness { name: "names", run: text::names, tokens: NAMES, tried: 10000 },
    #[cfg(feature = "program")]
    Harness { name: "rules", run: toml::rules, tokens: RULES, tried: 2000 },
    #[cfg(feature = "program")]
    Harness { name: "golden", run: toml::golden, tokens: GOLDEN, tried: 2000 },
    #[cfg(feature = "program")]
    Harness { name: "suites", run: toml::suites, tokens: SUITES, tried: 1000 },
    Harness { name: "layout", run: layout::layout, tokens: &[], tried: 10000 },
    Harness { name: "compare", run: compare::compare, tokens: &[], tried: 1000 },
];

/// The kind of a result: of an error its words without digits and what is quoted, of a success `success`.
fn kind<T, E: Display>(result: &Result<T, E>, success: impl FnOnce(&T) -> u64) -> u64 {
    match result {
        Ok(value) => success(value),
        Err(error) => {
            let text = error.to_string();
            let words = text.split('`').step_by(2).collect::<String>();
            let plain: Vec<u8> = words.bytes().filter(|b| b.is_ascii_alphabetic() || *b == b' ').take(48).collect();
            crate::engine::hash(&plain)
        }
    }
}

/// Takes bytes off an input, zeros behind its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}
