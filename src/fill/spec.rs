//! A generator as data, and the text form that programs accept.

use crate::device::Layout;
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::num::{IntErrorKind, ParseIntError};

/// Which operand of an exact product a tensor is; see [`FillExactProduct`](super::FillExactProduct).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductOperand {
    /// The one that carries the zeros that keep long sums exact.
    A,
    /// The dense one.
    B,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    Uniform { min: f64, max: f64 },
    Integers { min: i64, max: i64 },
    Normal { mean: f64, sigma: f64 },
    Constant { value: f64 },
    Sequential { dim: usize },
    Diagonal { value: f64 },
    Checkerboard { value: f64 },
    Monotonic { init: f64, step: f64 },
    Sin,
    Cos,
    Bounce { near: f64, far: f64 },
    Subnormal,
    Exact { k: u64, max_a: u64, max_b: u64, accumulator: DType, operand: ProductOperand },
    CRand { min: f64, max: f64 },
    Values { values: Vec<f64> },
}

/// A generator as data: a pattern, its seed and stream, special values and sparsity.
///
/// It has a text form, which `FromStr` reads and `Display` writes:
///
/// ```text
/// PATTERN [/seed=N] [/stream=N] [/special=RATE] [/sparse24]
///
/// PATTERN    uniform:MIN,MAX  uniform:RANGE  RANGE     integers: both ends included; floats: see FillUniformRand
///            int:MIN,MAX                               whole numbers in any format
///            normal:MEAN,SIGMA   constant:V   sequential:DIM   diagonal:V   checkerboard:V
///            monotonic:INIT,STEP   sin   cos   hpl   bounce:NEAR,FAR   subnormal
///            exact:K,MAX_A,MAX_B,ACCUMULATOR,a|b       ACCUMULATOR is a dtype, a or b the operand
///            crand:MIN,MAX  crand:RANGE                seed is the argument of srand
///            values:V,V,...                            these numbers, repeated
/// RANGE      r0 = -1,1   r1 = -10,10   r4 = 1,5   r5 = 5,10
/// ```
///
/// ```
/// use hipverify::fill::{FillSpec, FillUniformRand, Generator};
/// let spec: FillSpec = "uniform:-1,1/seed=7/special=0.01".parse()?;
/// assert_eq!(spec, FillUniformRand::new(-1.0, 1.0).seed(7).with_specials(0.01));
/// assert_eq!(spec.to_string(), "uniform:-1,1/seed=7/special=0.01");
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FillSpec {
    pub(crate) pattern: Pattern,
    pub(crate) seed: u64,
    pub(crate) stream: u32,
    pub(crate) special_rate: f64,
    pub(crate) sparse: bool,
}

/// The ranges that published measurements name.
const RANGES: [(&str, f64, f64); 4] = [("r0", -1.0, 1.0), ("r1", -10.0, 10.0), ("r4", 1.0, 5.0), ("r5", 5.0, 10.0)];

const KNOWN: &str = "known: uniform:MIN,MAX int:MIN,MAX normal:MEAN,SIGMA constant:V sequential:DIM diagonal:V checkerboard:V \
    monotonic:INIT,STEP sin cos hpl bounce:NEAR,FAR subnormal exact:K,MAX_A,MAX_B,ACCUMULATOR,a|b crand:MIN,MAX values:V,V,..., \
    the ranges r0 r1 r4 r5 in place of MIN,MAX, each followed by any of /seed=N /stream=N /special=RATE /sparse24";

impl FillSpec {
    pub(crate) fn new(pattern: Pattern) -> FillSpec {
        FillSpec { pattern, seed: 0, stream: 0, special_rate: 0.0, sparse: false }
    }

    /// The ends of a named range (`r0`, `r1`, `r4`, `r5`).
    pub fn named_range(name: &str) -> Option<(f64, f64)> {
        RANGES.iter().find(|r| r.0 == name).map(|r| (r.1, r.2))
    }

    /// The range [min, max) that uniform numbers are from; `None` for other patterns, and for data with special values.
    ///
    /// ```
    /// use hipverify::fill::FillSpec;
    /// assert_eq!("uniform:0,0.1".parse::<FillSpec>()?.range(), Some([0.0, 0.1]));
    /// assert_eq!("normal:0,1".parse::<FillSpec>()?.range(), None);
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    #[must_use]
    pub fn range(&self) -> Option<[f64; 2]> {
        match self.pattern {
            Pattern::Uniform { min, max } | Pattern::CRand { min, max } if self.special_rate == 0.0 => Some([min, max]),
            _ => None,
        }
    }

    /// That it can fill a tensor of this format and layout: what [`fill()`](super::fill()) asks before it begins.
    ///
    /// ```
    /// use hipverify::device::Layout;
    /// use hipverify::{DType, fill::FillSpec};
    /// let spec: FillSpec = "uniform:1,-1".parse()?;
    /// let error = spec.check(DType::F16, &Layout::contiguous(&[4, 8])?).unwrap_err();
    /// assert_eq!(error.to_string(), "range cannot be [1, -1]: its first end must not exceed its second");
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when its parameters do not fit the format or the layout, or elements overlap.
    pub fn check(&self, dtype: DType, layout: &Layout) -> Result<()> {
        super::params::kernel_params(self, dtype, layout).map(drop)
    }

    /// The same generator with another seed.
    pub fn seed(mut self, seed: u64) -> FillSpec {
        self.seed = seed;
        self
    }

    /// The same generator on another stream: different, independent data under the same seed.
    pub fn stream(mut self, stream: u32) -> FillSpec {
        self.stream = stream;
        self
    }
}

impl std::str::FromStr for FillSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<FillSpec> {
        let bad = |limit: String| Error::InvalidArgument { what: "generator", value: text.to_owned(), limit };
        let mut parts = text.split('/');
        let head = parts.next().unwrap_or_default();
        let arguments = match head.split_once(':') {
            Some((name, rest)) => Arguments { name, texts: rest.split(',').map(str::trim).collect() },
            None => Arguments { name: head, texts: Vec::new() },
        };
        let pattern = pattern(&arguments).map_err(|reason| bad(format!("{reason}; {KNOWN}")))?;
        let mut spec = FillSpec::new(pattern);
        for option in parts {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let number = |kind: &str| bad(format!("{key} takes {kind}; {KNOWN}"));
            match key {
                "seed" => spec.seed = value.parse().map_err(|_| number("a whole number from 0 to 2^64-1"))?,
                "stream" => spec.stream = value.parse().map_err(|_| number("a whole number from 0 to 2^32-1"))?,
                "special" => spec.special_rate = value.parse().map_err(|_| number("a rate from 0 to 1"))?,
                "sparse24" if value.is_empty() => spec.sparse = true,
                _ => return Err(bad(format!("unknown option `{option}`; {KNOWN}"))),
            }
        }
        Ok(spec)
    }
}

/// Why a text is not a whole number that an argument accepts.
fn not_whole(text: &str, error: &ParseIntError, range: &str) -> String {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => format!("`{text}` is not in {range}"),
        _ => format!("`{text}` is not a whole number"),
    }
}

/// What follows the name of a pattern.
struct Arguments<'a> {
    name: &'a str,
    texts: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    /// As many as the pattern takes.
    fn exactly<const N: usize>(&self) -> Result<[&'a str; N], String> {
        self.texts.as_slice().try_into().map_err(|_| format!("`{}` takes {N} arguments, found {}", self.name, self.texts.len()))
    }

    fn floats<const N: usize>(&self) -> Result<[f64; N], String> {
        let mut out = [0.0; N];
        for (to, text) in out.iter_mut().zip(self.exactly::<N>()?) {
            *to = float(text)?;
        }
        Ok(out)
    }

    /// Two ends, or the name of a range.
    fn range(&self) -> Result<(f64, f64), String> {
        let named = if let [one] = self.texts[..] { FillSpec::named_range(one) } else { None };
        named.map_or_else(|| self.floats().map(|[min, max]| (min, max)), Ok)
    }
}

fn float(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|e| not_whole(text, &e, "0 to 2^64-1"))
}

fn signed(text: &str) -> Result<i64, String> {
    text.parse().map_err(|e| not_whole(text, &e, "-2^63 to 2^63-1"))
}

fn pattern(of: &Arguments) -> Result<Pattern, String> {
    Ok(match of.name {
        "uniform" => of.range().map(|(min, max)| Pattern::Uniform { min, max })?,
        "crand" => of.range().map(|(min, max)| Pattern::CRand { min, max })?,
        "int" => {
            let [min, max] = of.exactly()?;
            Pattern::Integers { min: signed(min)?, max: signed(max)? }
        }
        "normal" => of.floats().map(|[mean, sigma]| Pattern::Normal { mean, sigma })?,
        "constant" => of.floats().map(|[value]| Pattern::Constant { value })?,
        "values" if of.texts.is_empty() => return Err("`values` takes at least one number".to_owned()),
        "values" => Pattern::Values { values: of.texts.iter().map(|text| float(text)).collect::<Result<_, _>>()? },
        "diagonal" => of.floats().map(|[value]| Pattern::Diagonal { value })?,
        "checkerboard" => of.floats().map(|[value]| Pattern::Checkerboard { value })?,
        "sequential" => {
            let [dim] = of.exactly()?;
            Pattern::Sequential { dim: whole(dim)? as usize }
        }
        "monotonic" => of.floats().map(|[init, step]| Pattern::Monotonic { init, step })?,
        "bounce" => of.floats().map(|[near, far]| Pattern::Bounce { near, far })?,
        "exact" => {
            let [k, max_a, max_b, accumulator, operand] = of.exactly()?;
            let operand = match operand {
                "a" => ProductOperand::A,
                "b" => ProductOperand::B,
                other => return Err(format!("operand `{other}` is neither a nor b")),
            };
            let accumulator = accumulator.parse().map_err(|e: Error| e.to_string())?;
            Pattern::Exact { k: whole(k)?, max_a: whole(max_a)?, max_b: whole(max_b)?, accumulator, operand }
        }
        bare => {
            let found = match bare {
                "sin" => Pattern::Sin,
                "cos" => Pattern::Cos,
                "subnormal" => Pattern::Subnormal,
                "hpl" => Pattern::Uniform { min: -0.5, max: 0.5 },
                other => match FillSpec::named_range(other) {
                    Some((min, max)) => Pattern::Uniform { min, max },
                    None => return Err(format!("unknown pattern `{other}`")),
                },
            };
            let [] = of.exactly()?;
            found
        }
    })
}

impl std::fmt::Display for FillSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.pattern {
            Pattern::Uniform { min, max } => write!(f, "uniform:{min},{max}"),
            Pattern::Integers { min, max } => write!(f, "int:{min},{max}"),
            Pattern::Normal { mean, sigma } => write!(f, "normal:{mean},{sigma}"),
            Pattern::Constant { value } => write!(f, "constant:{value}"),
            Pattern::Sequential { dim } => write!(f, "sequential:{dim}"),
            Pattern::Diagonal { value } => write!(f, "diagonal:{value}"),
            Pattern::Checkerboard { value } => write!(f, "checkerboard:{value}"),
            Pattern::Monotonic { init, step } => write!(f, "monotonic:{init},{step}"),
            Pattern::Sin => f.write_str("sin"),
            Pattern::Cos => f.write_str("cos"),
            Pattern::Bounce { near, far } => write!(f, "bounce:{near},{far}"),
            Pattern::Subnormal => f.write_str("subnormal"),
            Pattern::Exact { k, max_a, max_b, accumulator, operand } => {
                let operand = if *operand == ProductOperand::A { 'a' } else { 'b' };
                write!(f, "exact:{k},{max_a},{max_b},{accumulator},{operand}")
            }
            Pattern::CRand { min, max } => write!(f, "crand:{min},{max}"),
            Pattern::Values { values } => {
                let texts: Vec<String> = values.iter().map(f64::to_string).collect();
                write!(f, "values:{}", texts.join(","))
            }
        }?;
        if self.seed != 0 {
            write!(f, "/seed={}", self.seed)?;
        }
        if self.stream != 0 {
            write!(f, "/stream={}", self.stream)?;
        }
        if self.special_rate != 0.0 {
            write!(f, "/special={}", self.special_rate)?;
        }
        if self.sparse { f.write_str("/sparse24") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let cases = [
            "uniform:-1,1",
            "int:-5,5/seed=18446744073709551615/stream=4294967295",
            "normal:0,0.125/special=0.001/sparse24",
            "constant:NaN",
            "sequential:2",
            "diagonal:1",
            "checkerboard:2.5",
            "monotonic:-3,0.5",
            "sin",
            "cos/stream=1",
            "bounce:1,3",
            "subnormal/seed=3",
            "exact:4096,3,3,f32,a",
            "crand:-10,10/seed=1",
            "values:0.5,-1,0.75/special=0.25",
        ];
        for text in cases {
            let spec: FillSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        for (alias, text) in
            [("r5", "uniform:5,10"), ("crand:r0", "crand:-1,1"), ("hpl", "uniform:-0.5,0.5"), ("uniform:r1", "uniform:-10,10")]
        {
            assert_eq!(alias.parse::<FillSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_say_what_is_known() {
        let cases = [
            ("gauss:0,1", "unknown pattern `gauss`"),
            ("uniform:1", "takes 2 arguments, found 1"),
            ("uniform:a,1", "`a` is not a number"),
            ("int:0.5,1", "`0.5` is not a whole number"),
            ("int:0,99999999999999999999", "`99999999999999999999` is not in -2^63 to 2^63-1"),
            ("int:-99999999999999999999,0", "`-99999999999999999999` is not in -2^63 to 2^63-1"),
            ("sequential:99999999999999999999", "`99999999999999999999` is not in 0 to 2^64-1"),
            ("sin:1", "takes 0 arguments, found 1"),
            ("sin/seed=x", "seed takes a whole number"),
            ("sin/sead=1", "unknown option `sead=1`"),
            ("sin/sparse24=1", "unknown option `sparse24=1`"),
            ("sin/stream=4294967296", "stream takes a whole number from 0 to 2^32-1"),
            ("sin/special=often", "special takes a rate from 0 to 1"),
            ("sequential:-1", "`-1` is not a whole number"),
            ("exact:1,1,1,f32", "takes 5 arguments, found 4"),
            ("exact:1,1,1,f32,c", "neither a nor b"),
            ("exact:1,1,1,f33,a", "unknown dtype `f33`"),
            ("r2", "unknown pattern `r2`"),
            ("", "unknown pattern ``"),
        ];
        for (text, part) in cases {
            let message = text.parse::<FillSpec>().unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("bounce:NEAR,FAR"), "{text}: {message}");
        }
    }
}
