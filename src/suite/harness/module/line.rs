//! The launch line of a kernel: blocks, threads and arguments as a suite file says them, and what they are for one problem.
//!
//! A [`LaunchLine`] is read with the file: its expressions are well formed and its formats exist. [`LaunchLine::fit`] computes it for a problem before anything
//! runs: what it returns is a launch that every GPU takes as far as its numbers go, with one argument for each that the line names.

use super::super::problem::Problem;
use super::expression::Expression;
use crate::device::Grid;
use crate::dtype::{DType, Overflow, Rounding};
use crate::error::Error;

/// The most blocks in x, y and z: what HIP takes, with AMD's limit of 2^32 - 1 threads in x on top.
const MOST_BLOCKS: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];

/// The most threads of a block.
const MOST_THREADS: u64 = 1024;

/// The argument that is the address of the workspace.
const WORKSPACE: &str = "workspace";

/// The most dynamic shared memory of a block, in bytes: more than any GPU has, so that what a GPU has decides.
const MOST_SHARED: u64 = 1 << 20;

/// A function, and its blocks, threads, dynamic shared memory and arguments as expressions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchLine {
    pub(crate) function: String,
    grid: Vec<Expression>,
    block: Vec<Expression>,
    shared_bytes: Expression,
    arguments: Vec<ArgumentText>,
}

/// An argument as the line has it.
#[derive(Debug, Clone, PartialEq)]
enum ArgumentText {
    /// A buffer, or a number in i32: which of them, the problem decides.
    Plain(Expression),
    /// A number in this format.
    Number(DType, Expression),
    /// A constant in this format.
    Constant(DType, f64),
}

/// A launch for one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) function: String,
    pub(crate) grid: Grid,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    /// The address of an input.
    Input(usize),
    /// The address of the result.
    Result,
    /// A null pointer: the buffer is not there in this case.
    Null,
    /// The address of the workspace.
    Workspace,
    /// The bits of a number, little-endian as GPUs are.
    Bits(u64),
}

/// A key whose value cannot be used, and why.
pub(crate) type Fault = (&'static str, String);

impl LaunchLine {
    /// Reads a line.
    pub(crate) fn parse(
        function: &str,
        grid: &[String],
        block: &[String],
        shared_bytes: &str,
        arguments: &[String],
    ) -> Result<LaunchLine, Fault> {
        let extents = |key: &'static str, texts: &[String]| match texts.len() {
            1..=3 => texts.iter().map(|text| Expression::parse(text)).collect::<Result<Vec<_>, _>>().map_err(|e| (key, e)),
            count => Err((key, format!("has {count} extents; it takes one, two or three: x, y, z"))),
        };
        Ok(LaunchLine {
            function: function.to_owned(),
            grid: extents("grid", grid)?,
            block: extents("block", block)?,
            shared_bytes: Expression::parse(shared_bytes).map_err(|e| ("shared_bytes", e))?,
            arguments: arguments.iter().map(|text| argument(text).map_err(|e| ("arguments", e))).collect::<Result<_, _>>()?,
        })
    }

    /// The arguments as the file has them.
    pub(crate) fn arguments(&self) -> String {
        self.arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Whether an argument is the address of the workspace.
    pub(crate) fn takes_workspace(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument, ArgumentText::Plain(text) if text.to_string() == WORKSPACE))
    }

    /// The launch for a problem.
    pub(crate) fn fit(&self, problem: &Problem) -> Result<Fitted, Fault> {
        let numbers = problem.numbers();
        let blocks = extents("grid", &self.grid, &numbers, MOST_BLOCKS)?;
        let threads = extents("block", &self.block, &numbers, [MOST_THREADS; 3])?;
        let in_block: u64 = threads.iter().map(|&t| u64::from(t)).product();
        if in_block > MOST_THREADS {
            return Err(("block", format!("{threads:?} are {in_block} threads; a block has at most {MOST_THREADS}")));
        }
        let in_x = u64::from(blocks[0]) * u64::from(threads[0]);
        if in_x > u64::from(u32::MAX) {
            return Err(("grid", format!("{} blocks of {} threads in x are {in_x} threads, of at most 2^32 - 1", blocks[0], threads[0])));
        }
        let shared_bytes = whole("shared_bytes", &self.shared_bytes, &numbers, [0, MOST_SHARED])?;
        let arguments =
            self.arguments.iter().map(|text| text.fit(problem, &numbers).map_err(|e| ("arguments", e))).collect::<Result<_, _>>()?;
        Ok(Fitted { function: self.function.clone(), grid: Grid { blocks, threads, shared_bytes }, arguments })
    }
}

/// Up to three extents, each at least 1; those that are not there are 1.
fn extents(key: &'static str, texts: &[Expression], numbers: &[(&str, u64)], most: [u64; 3]) -> Result<[u32; 3], Fault> {
    let mut out = [1; 3];
    for ((extent, text), most) in out.iter_mut().zip(texts).zip(most) {
        *extent = whole(key, text, numbers, [1, most])?;
    }
    Ok(out)
}

fn whole(key: &'static str, text: &Expression, numbers: &[(&str, u64)], [least, most]: [u64; 2]) -> Result<u32, Fault> {
    let value = text.whole(numbers).map_err(|e| (key, e))?;
    let fits = u32::try_from(value).ok().filter(|&v| (least..=most).contains(&u64::from(v)));
    fits.ok_or_else(|| (key, format!("`{text}` is {value}; it must be {least} to {most}")))
}

/// Reads an argument: `a`, `m*k`, `i64:m`, `f32:1.5`.
fn argument(text: &str) -> Result<ArgumentText, String> {
    let Some((format, rest)) = text.split_once(':') else { return Expression::parse(text).map(ArgumentText::Plain) };
    let dtype: DType = format.trim().parse().map_err(|e: Error| format!("`{text}`: {e}"))?;
    if dtype.bits() < 8 {
        return Err(format!("`{text}`: elements of {dtype} share bytes, so none can be an argument"));
    }
    match rest.trim().parse::<f64>() {
        Ok(value) if !dtype.is_int() => {
            held(text, dtype, value)?;
            Ok(ArgumentText::Constant(dtype, value))
        }
        _ => Expression::parse(rest).map(|expression| ArgumentText::Number(dtype, expression)),
    }
}

/// The bits of a value in a format of floating-point numbers, rounded to nearest.
fn held(text: impl std::fmt::Display, dtype: DType, value: f64) -> Result<u64, String> {
    let bits = dtype.encode(value, Rounding::NearestEven, Overflow::Ieee);
    let back = dtype.decode(bits);
    if back.is_nan() != value.is_nan() || back.is_infinite() != value.is_infinite() {
        return Err(format!("`{text}` is {value}, which {dtype} does not hold"));
    }
    Ok(bits)
}

impl std::fmt::Display for ArgumentText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ArgumentText::Plain(text) => text.fmt(f),
            ArgumentText::Number(dtype, text) => write!(f, "{dtype}:{text}"),
            ArgumentText::Constant(dtype, value) => write!(f, "{dtype}:{value}"),
        }
    }
}

impl ArgumentText {
    fn fit(&self, problem: &Problem, numbers: &[(&str, u64)]) -> Result<Argument, String> {
        match self {
            ArgumentText::Plain(text) if text.to_string() == WORKSPACE => Ok(Argument::Workspace),
            ArgumentText::Plain(text) => match problem.buffer(&text.to_string()) {
                Some(Buffer::Input(number)) => Ok(Argument::Input(number)),
                Some(Buffer::Result) => Ok(Argument::Result),
                Some(Buffer::Absent) => Ok(Argument::Null),
                None if scalar(problem, text).is_some() => {
                    Err(format!("`{text}` is no whole number; it takes a format, such as f32:{text}"))
                }
                None => integer(text, DType::I32, numbers).map_err(|e| format!("{e}; buffers are {}", problem.buffer_names().join(" "))),
            },
            ArgumentText::Number(dtype, text) => match (scalar(problem, text), dtype.is_int()) {
                (Some(value), true) => whole_scalar(text, *dtype, value),
                (Some(value), false) => held(text, *dtype, value).map(Argument::Bits),
                (None, true) => integer(text, *dtype, numbers),
                (None, false) => held(text, *dtype, text.real(numbers)?).map(Argument::Bits),
            },
            ArgumentText::Constant(dtype, value) => held(value, *dtype, *value).map(Argument::Bits),
        }
    }
}

/// A scalar of the problem, if the text is the name of one.
fn scalar(problem: &Problem, text: &Expression) -> Option<f64> {
    problem.scalars().into_iter().find(|(name, _)| *name == text.to_string()).map(|(_, value)| value)
}

fn integer(text: &Expression, dtype: DType, numbers: &[(&str, u64)]) -> Result<Argument, String> {
    bits_of(text, dtype, text.whole(numbers)?)
}

/// A scalar in an integer format.
fn whole_scalar(text: &Expression, dtype: DType, value: f64) -> Result<Argument, String> {
    // Up to 2^53 a whole number of f64 is exact.
    if value.fract() != 0.0 || value.abs() > (1u64 << 53) as f64 {
        return Err(format!("`{text}` is {value}; {dtype} has whole numbers"));
    }
    bits_of(text, dtype, value as i128)
}

fn bits_of(text: &Expression, dtype: DType, value: i128) -> Result<Argument, String> {
    match dtype.int_format() {
        Some(format) if (format.min()..=format.max()).contains(&value) => Ok(Argument::Bits(value as u64)),
        Some(format) => Err(format!("`{text}` is {value}; {dtype} has {} to {}", format.min(), format.max())),
        None => Err(format!("{dtype} has no whole numbers")),
    }
}

/// A buffer of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// The input of that number.
    Input(usize),
    /// The result.
    Result,
    /// An input that other cases of the table may have.
    Absent,
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::Work;
    use super::super::super::epilogue::GemmEpilogue;
    use super::super::super::kernel::Kernel;
    use super::super::super::problem::Product;
    use super::super::super::{Kernels, Suite, SuiteFile};
    use super::*;
    use crate::reference::{ConvParam, Direction};

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    fn fit(grid: &[&str], block: &[&str], shared: &str, arguments: &[&str], problem: &Problem) -> Result<Fitted, Fault> {
        LaunchLine::parse("f", &texts(grid), &texts(block), shared, &texts(arguments))?.fit(problem)
    }

    fn gemm() -> Problem {
        Problem::Gemm(Product::parse("3x72x64x5", "nn").unwrap(), GemmEpilogue::default())
    }

    #[test]
    fn lines_are_fitted_to_a_problem() {
        let arguments = [
            "a",
            "b",
            "result",
            "workspace",
            "m",
            "i64:n*k",
            "u8:batch",
            "f32:1.5",
            "f16:1/n",
            "f64:-inf",
            "i32:-1",
            "elements",
            "f32:1e-3",
        ];
        let fitted = fit(&["ceil(n/16)", "ceil(m/16)", "batch"], &["16", "16"], "4*16*16", &arguments, &gemm()).unwrap();
        assert_eq!(fitted.grid, Grid { blocks: [4, 5, 3], threads: [16, 16, 1], shared_bytes: 1024 });
        let bits = [
            Argument::Input(0),
            Argument::Input(1),
            Argument::Result,
            Argument::Workspace,
            Argument::Bits(72),
            Argument::Bits(320),
            Argument::Bits(3),
            Argument::Bits(1.5f32.to_bits().into()),
            Argument::Bits(0x2400),
            Argument::Bits(f64::NEG_INFINITY.to_bits()),
            Argument::Bits(u64::MAX),
            Argument::Bits(3 * 72 * 64),
            Argument::Bits(1e-3f32.to_bits().into()),
        ];
        assert_eq!(fitted.arguments, bits);
    }

    #[test]
    fn scalars_and_operands_of_a_gemm_are_arguments() {
        let fitted = |keys: &str, arguments: &[&str]| {
            let text = format!(
                "[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = {arguments:?}\n[[gemm]]\nsize = '4x4x4'\nkernel = 'k'\n{keys}"
            );
            let file = SuiteFile::parse("s.toml", &text).unwrap();
            let suite = Suite::new(&file, "s.toml", Kernels::default()).map_err(|e| e.to_string())?;
            match &suite.cases[0].work {
                Work::Tensors(tensors) => match &tensors.kernel {
                    Kernel::Module(_, fitted) => Ok(fitted.launches[0].arguments.clone()),
                    other => Err(format!("{other:?}")),
                },
                Work::Study(_) => Err("no tensors".to_owned()),
            }
        };
        let all = ["c", "bias", "f32:alpha", "f16:beta", "i32:beta", "relu"];
        let found = fitted("alpha = 0.1\nbeta = -2\nbias = true\nactivation = 'relu'", &all).unwrap();
        let bits = [0.1f32.to_bits().into(), 0xc000, -2i64 as u64, 1].map(Argument::Bits);
        assert_eq!(found, [Argument::Input(2), Argument::Input(3)].into_iter().chain(bits).collect::<Vec<_>>());
        let none = fitted("beta = 0\nbias = false", &all).unwrap();
        assert_eq!(none[..3], [Argument::Null, Argument::Null, Argument::Bits(1f32.to_bits().into())], "a table that speaks of them");
        for (keys, argument, words) in [
            ("", "c", "this problem has no number `c`"),
            ("beta = 1", "bias", "this problem has no number `bias`"),
            ("alpha = 2", "alpha", "`alpha` is no whole number; it takes a format, such as f32:alpha"),
            ("alpha = 0.5", "i32:alpha", "`alpha` is 0.5; i32 has whole numbers"),
            ("alpha = 300", "u8:alpha", "`alpha` is 300; u8 has 0 to 255"),
            ("alpha = 1e9", "f16:alpha", "which f16 does not hold"),
        ] {
            let message = fitted(keys, &[argument]).unwrap_err();
            assert!(message.contains(words), "{keys}, {argument}: {message}");
        }
    }

    #[test]
    fn convolutions_have_numbers_and_buffers_of_their_own() {
        let param: ConvParam = "2 1 8 16 4 3 2 14 15 1 2 1 1 1 0 1 0".parse().unwrap();
        let names = ["g", "n", "k", "c", "y", "x", "hi", "wi", "ho", "wo", "stride_h", "stride_w", "dilation_h", "pad_h", "pad_right_w"];
        let values = [1, 8, 16, 4, 3, 2, 14, 15, 14, 7, 1, 2, 1, 1, 0].map(Argument::Bits);
        for (direction, buffers) in [
            (Direction::Forward, [Argument::Input(0), Argument::Input(1), Argument::Result]),
            (Direction::BackwardData, [Argument::Result, Argument::Input(1), Argument::Input(0)]),
            (Direction::BackwardWeight, [Argument::Input(0), Argument::Result, Argument::Input(1)]),
        ] {
            let problem = Problem::Conv(Box::new(param.clone()), direction);
            let line: Vec<&str> = ["input", "filter", "output"].into_iter().chain(names).collect();
            let fitted = fit(&["1"], &["64"], "0", &line, &problem).unwrap();
            assert_eq!(fitted.arguments, buffers.into_iter().chain(values).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lines_that_fit_no_launch_are_refused() {
        let good = (vec!["1"], vec!["64"], "0", vec!["a"]);
        type Line = (Vec<&'static str>, Vec<&'static str>, &'static str, Vec<&'static str>);
        let cases: [(Line, &str, &str); 19] = [
            ((vec!["m-72"], good.1.clone(), "0", vec![]), "grid", "`m-72` is 0; it must be 1 to 2147483647"),
            ((vec!["1", "65536"], good.1.clone(), "0", vec![]), "grid", "is 65536; it must be 1 to 65535"),
            ((vec!["2147483647"], good.1.clone(), "0", vec![]), "grid", "of at most 2^32 - 1"),
            ((vec!["m/0"], good.1.clone(), "0", vec![]), "grid", "divides by zero"),
            ((vec![], good.1.clone(), "0", vec![]), "grid", "has 0 extents"),
            ((vec!["1"; 4], good.1.clone(), "0", vec![]), "grid", "has 4 extents"),
            ((vec!["q"], good.1.clone(), "0", vec![]), "grid", "no number `q`"),
            ((good.0.clone(), vec!["64", "32"], "0", vec![]), "block", "are 2048 threads; a block has at most 1024"),
            ((good.0.clone(), vec!["0"], "0", vec![]), "block", "`0` is 0; it must be 1 to 1024"),
            ((good.0.clone(), good.1.clone(), "-1", vec![]), "shared_bytes", "is -1; it must be 0 to"),
            ((good.0.clone(), good.1.clone(), "0", vec!["c"]), "arguments", "no number `c`"),
            ((good.0.clone(), good.1.clone(), "0", vec!["c"]), "arguments", "buffers are a b result"),
            ((good.0.clone(), good.1.clone(), "0", vec!["m*n*1000000"]), "arguments", "i32 has -2147483648 to 2147483647"),
            ((good.0.clone(), good.1.clone(), "0", vec!["u8:m*n"]), "arguments", "is 4608; u8 has 0 to 255"),
            ((good.0.clone(), good.1.clone(), "0", vec!["i32:1.5"]), "arguments", "`.5` is left over"),
            ((good.0.clone(), good.1.clone(), "0", vec!["f16:1e9"]), "arguments", "which f16 does not hold"),
            ((good.0.clone(), good.1.clone(), "0", vec!["f8e4m3:inf"]), "arguments", "which f8e4m3 does not hold"),
            ((good.0.clone(), good.1.clone(), "0", vec!["i4:1"]), "arguments", "share bytes"),
            ((good.0.clone(), good.1.clone(), "0", vec!["i23:1"]), "arguments", "unknown dtype `i23`"),
        ];
        for ((grid, block, shared, arguments), key, words) in cases {
            let (found, reason) = fit(&grid, &block, shared, &arguments, &gemm()).unwrap_err();
            assert!(found == key && reason.contains(words), "{key}, {words}: {found}, {reason}");
        }
    }
}
