//! Operands with scales, and operands of two formats.

use super::super::cases::Work;
use super::super::kernel::Kernel;
use super::super::problem::{Problem, Product};
use super::super::scales::NAMES;
use super::super::{Guard, KernelError};
use super::*;
use crate::dtype::{DType, Overflow, Rounding};

/// What a kernel takes for the place of a scale: of operand 0 or 1, whose axis of k is this one, the block down and across that an element is of, and how many there are.
type Taken = fn(which: usize, k_axis: usize, at: [usize; 2], blocks: [usize; 2]) -> [usize; 2];

fn right(_: usize, _: usize, at: [usize; 2], _: [usize; 2]) -> [usize; 2] {
    at
}

/// The numbers of a tensor, in logical order.
fn numbers(guard: &Guard) -> Vec<f64> {
    let (bytes, dtype) = (guard.to_bytes().unwrap(), guard.dtype());
    (0..guard.shape().iter().product()).map(|i| dtype.decode(dtype.load_bits(&bytes, i))).collect()
}

/// The operands of a launch and their scales, found by hand.
struct Operands<'a> {
    product: &'a Product,
    values: [Vec<f64>; 2],
    scales: [Option<Scales<'a>>; 2],
}

/// A tensor of scales, its numbers, and rows and columns of a block.
type Scales<'a> = (&'a Guard, Vec<f64>, [usize; 2]);

impl<'a> Operands<'a> {
    fn of(launch: &Launch<'a>) -> Operands<'a> {
        let Some(Problem::Gemm(product, _)) = launch.case().problem() else { panic!("no product") };
        let scales = [0, 1].map(|which| {
            let (block, guard) = (launch.scales()[which]?.block(), launch.input_named(NAMES[which]).unwrap());
            Some((guard, numbers(guard), block))
        });
        Operands { product, values: [0, 1].map(|which| numbers(launch.input(which))), scales }
    }

    /// The factor of operand 0 or 1 at row or column `number` and k, and its scale.
    fn at(&self, which: usize, [matrix, number, k]: [usize; 3], taken: Taken) -> (f64, f64) {
        let shape = self.product.operand(which);
        let &[.., rows, columns] = shape.as_slice() else { panic!("{shape:?}") };
        let k_axis = usize::from((which == 0) != self.product.transposed[which]);
        let place = if k_axis == 1 { [number, k] } else { [k, number] };
        let value = self.values[which][(matrix * rows + place[0]) * columns + place[1]];
        let Some((guard, scales, block)) = &self.scales[which] else { return (value, 1.0) };
        let &[.., down, across] = guard.shape() else { panic!("{:?}", guard.shape()) };
        let at = taken(which, k_axis, [place[0] / block[0], place[1] / block[1]], [down, across]);
        let matrix = if scales.len() > down * across { matrix } else { 0 };
        (value, scales[(matrix * down + at[0]) * across + at[1]])
    }

    /// Sums of (s_a a)(s_b b), in f64 and in f32, in ascending k.
    fn sums(&self, taken: Taken) -> Vec<(f64, f32)> {
        let Product { batch, m, n, k, .. } = *self.product;
        let element = |i: usize| {
            let (matrix, row, column) = (i / (m * n), i / n % m, i % n);
            (0..k).fold((0.0, 0.0), |(wide, narrow): (f64, f32), k| {
                let ((a, of_a), (b, of_b)) = (self.at(0, [matrix, row, k], taken), self.at(1, [matrix, column, k], taken));
                (wide + (a * of_a) * (b * of_b), narrow + (a * of_a) as f32 * (b * of_b) as f32)
            })
        };
        (0..batch.unwrap_or(1) * m * n).map(element).collect()
    }
}

/// A GEMM of scaled operands in f32, with alpha alone behind it.
fn by_hand(taken: Taken, zeros: bool) -> Kernels {
    Kernels::default().with("mine", move |launch, _| {
        let (alpha, dtype) = (launch.gemm().ok_or("no gemm")?.alpha() as f32, launch.output_dtype());
        let sums = Operands::of(launch).sums(taken);
        let mut bytes = vec![0; dtype.bytes_for(sums.len()).ok_or("too many")?];
        for (i, (_, sum)) in sums.iter().enumerate() {
            let x = if zeros { 0.0 } else { f64::from(alpha * sum) };
            dtype.store_bits(&mut bytes, i, dtype.encode(x, Rounding::NearestEven, Overflow::Ieee));
        }
        Ok(launch.write_bytes(&bytes)?)
    })
}

/// Keys of tables of the kinds that are in use, and of odd ones.
const SCALED: [(&str, &str); 14] = [
    ("MX", "size = '6x5x96'\ntype = 'f8e4m3'\nscale_a = 'f8e8m0:1x32'\nscale_b = 'f8e8m0:32x1'"),
    ("MX, cut off", "size = '6x5x70'\ntype = 'f8e5m2'\nscale_a = 'f8e8m0:1x32'\nscale_b = 'f8e8m0:32x1'"),
    ("MX, nt", "size = '6x5x70'\ntype = 'f4e2m1'\nlayout = 'nt'\nscale_a = 'f8e8m0:1x32'\nscale_b = 'f8e8m0:1x32'"),
    ("MX, tn", "size = '6x5x70'\ntype = 'f8e4m3'\nlayout = 'tn'\nscale_a = 'f8e8m0:32x1'\nscale_b = 'f8e8m0:32x1'"),
    ("MX, tt", "size = '6x5x70'\ntype = 'f6e2m3'\nlayout = 'tt'\nscale_a = 'f8e8m0:k32'\nscale_b = 'f8e8m0:k32'"),
    ("NVFP4", "size = '6x5x40'\ntype = 'f4e2m1'\nlayout = 'nt'\nscale_a = 'f8e4m3:1x16'\nscale_b = 'f8e4m3:1x16'\nalpha = 0.0123"),
    ("DeepSeek", "size = '5x150x300'\ntype = 'f8e4m3'\nlayout = 'nt'\nscale_a = 'f32:1x128'\nscale_b = 'f32:128x128'"),
    ("DeepSeek, a batch", "size = '3x5x7x130'\ntype = 'f8e4m3'\nscale_a = 'f32:1x128'\nscale_b = 'f32:128x128'"),
    ("rows and columns", "size = '6x5x64'\ntype = 'f8e4m3'\nscale_a = 'f32:row'\nscale_b = 'f32:column'"),
    ("rows, nt", "size = '2x6x5x64'\ntype = 'f8e4m3'\nlayout = 'nt'\nscale_a = 'f32:row'\nscale_b = 'f32:row'"),
    ("tensor", "size = '6x5x64'\ntype = 'f8e4m3'\nscale_a = 'f32:tensor'\nscale_b = 'f32:tensor'\nalpha = 2"),
    ("a batch", "size = '3x6x5x64'\ntype = 'f8e4m3'\nscale_a = 'f32:tensor'\nscale_b = 'bf16:k32'"),
    ("W4A16", "size = '6x5x96'\ntype = 'f16|i4'\nlayout = 'nt'\nscale_b = 'f16:1x32'"),
    ("two of fp8", "size = '6x5x33'\ntype = 'f8e4m3 | f8e5m2'\nscale_a = 'f32:5x7'\nscale_b = 'f64:3x2'"),
];

fn scaled(keys: &str, more: &str) -> String {
    format!("[[gemm]]\n{keys}\n{more}\n")
}

#[test]
fn references_are_sums_of_scaled_products() {
    for (name, keys) in SCALED {
        let right = by_hand(right, false);
        let suite = suite(&scaled(keys, "kernel = ['f64', 'fma']\noutput = 'f64'"), right).unwrap();
        for case in &suite.cases {
            let result = numbers(&suite.output(case, &Device::host()).unwrap().unwrap());
            let expected = expected(&suite, &case.name);
            let alpha = case.gemm().unwrap().alpha();
            let least = if case.name.ends_with("f64") { 1e-13 } else { 1e-5 };
            assert_eq!(result.len(), expected.len(), "{name}");
            for (i, (found, (wide, _))) in result.iter().zip(&expected).enumerate() {
                assert!((found - alpha * wide).abs() <= least * (1.0 + wide.abs()), "{name}, {}, {i}: {found} {wide}", case.name);
            }
        }
        assert!(expected(&suite, &suite.cases[0].name).iter().any(|(wide, _)| wide.abs() > 0.1), "{name}: there is something to see");
    }
}

/// The sums of a case by hand, of the data that it has.
fn expected(suite: &Suite, name: &str) -> Vec<(f64, f32)> {
    use std::sync::{Arc, Mutex};
    let found = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&found);
    let kernels = Kernels::default().with("oracle", move |launch, _| {
        *told.lock().map_err(|e| e.to_string())? = Operands::of(launch).sums(right);
        Err("that was all".into())
    });
    let case = suite.case(name).unwrap();
    let mut other = suite.clone();
    other.kernels = kernels;
    let mut case = case.clone();
    if let Work::Tensors(tensors) = &mut case.work {
        tensors.kernel = Kernel::Closure("oracle".to_owned());
    }
    assert_eq!(other.execute(&case, &Device::host()).reasons, ["that was all"]);
    found.lock().unwrap().clone()
}

/// (3 x 2)(0.5 x 8), four times, halved, plus 2 x 1 and 7.
#[test]
fn a_product_by_hand() {
    let keys = "size = '1x1x4'\ntype = 'f16 | f8e4m3'\noutput = 'f32'\nscale_a = 'f8e8m0:1x2'\nscale_b = 'f32:tensor'\nalpha = 0.5\nbeta = 2\nbias = true\n\
        data = 'constant:3 | constant:8 | constant:1 | constant:7 | constant:2 | constant:0.5'\nkernel = ['f64', 'fma', 'f32', 'every4', 'groups4', 'f64-rounded']";
    let suite = suite(&scaled(keys, ""), Kernels::default()).unwrap();
    assert_eq!(suite.cases.len(), 6);
    for case in &suite.cases {
        let result = suite.output(case, &Device::host()).unwrap().unwrap();
        assert_eq!(result.to_vec::<f32>().unwrap(), [0.5 * 4.0 * (3.0 * 2.0) * (8.0 * 0.5) + 2.0 + 7.0], "{}", case.name);
    }
}

/// Subnormal numbers of the operand's format are zeros, whatever its scale makes of them: 2^-9 of f8e4m3 times 2^20.
#[test]
fn operands_are_flushed_before_they_are_scaled() {
    let keys = "size = '1x1x2'\ntype = 'f8e4m3'\noutput = 'f32'\nscale_a = 'f32:tensor'\nkernel = ['f64', 'f64+flush', 'fma+flush']\n\
        data = 'values:0.001953125,1 | constant:1 | constant:1048576'";
    let suite = suite(&scaled(keys, ""), Kernels::default()).unwrap();
    let result = |case| suite.output(case, &Device::host()).unwrap().unwrap().to_vec::<f32>().unwrap()[0];
    assert_eq!(suite.cases.iter().map(result).collect::<Vec<_>>(), [1_050_624.0, 1_048_576.0, 1_048_576.0]);
}

#[test]
fn right_kernels_pass_and_zeros_fail() {
    for (name, keys) in SCALED {
        for (zeros, kernel, outcome) in
            [(false, "mine", CaseOutcome::Pass), (false, "fma", CaseOutcome::Pass), (true, "mine", CaseOutcome::Fail)]
        {
            let text = scaled(keys, &format!("output = ['f32', 'f16']\nkernel = '{kernel}'\nrule = ['rounding', 'check']"));
            let suite = suite(&text, by_hand(right, zeros)).unwrap();
            for case in &suite.cases {
                let result = suite.execute(case, &Device::host());
                assert_eq!(result.outcome, outcome, "{name}, {}, {kernel}, zeros {zeros}: {result:?}", case.name);
            }
        }
    }
}

/// The block after it along k, that of the first block along k, that of the first row or column.
#[test]
fn wrong_scales_fail_and_are_named() {
    let next: Taken = |which, k_axis, at, blocks| if which == 0 { moved(at, k_axis, (at[k_axis] + 1) % blocks[k_axis]) } else { at };
    let first: Taken = |which, k_axis, at, _| if which == 1 { moved(at, k_axis, 0) } else { at };
    let row_0: Taken = |which, k_axis, at, _| if which == 0 { moved(at, 1 - k_axis, 0) } else { at };
    let mx = "size = '16x24x256'\ntype = 'f8e4m3'\nlayout = 'tn'\nscale_a = 'f8e8m0:32x1'\nscale_b = 'f8e8m0:k32'";
    let nvfp4 = "size = '2x16x24x80'\ntype = 'f4e2m1'\nlayout = 'nt'\nscale_a = 'f8e4m3:1x16'\nscale_b = 'f8e4m3:1x16'\nalpha = 0.01";
    let deepseek = "size = '16x256x500'\ntype = 'f8e4m3'\nlayout = 'nt'\nscale_a = 'f32:1x128'\nscale_b = 'f32:128x128'";
    for (taken, words) in [
        (next, "each block of k has the scale of the next one, the last that of the first, of A"),
        (first, "all of k is scaled by the first scale along k of B"),
        (row_0, "each block has the scale of the first one beside k, of A"),
    ] {
        for keys in [mx, nvfp4, deepseek] {
            let text = scaled(keys, "output = 'f32'\nkernel = 'mine'\nrule = ['check', 'rounding']");
            let suite = suite(&text, by_hand(taken, false)).unwrap();
            let [check, rounding] = [0, 1].map(|i| suite.execute(&suite.cases[i], &Device::host()));
            assert_eq!((check.outcome, rounding.outcome), (CaseOutcome::Fail, CaseOutcome::Fail), "{keys}: {words}");
            assert!(check.reasons.iter().any(|reason| reason.contains(words)), "{keys}: {words}: {:?}", check.reasons);
            assert_eq!(check.report.unwrap()["cause"]["kind"], "scale", "{keys}: {words}");
        }
    }
}

/// A block with another number along an axis.
fn moved(mut at: [usize; 2], axis: usize, to: usize) -> [usize; 2] {
    at[axis] = to;
    at
}

/// A row of A whose scale is 4096 times the others' has errors of that size near its zeros, which the mean of all results knows nothing of.
#[test]
fn rounding_goes_by_the_largest_scales() {
    let keys = "size = '64x256x1024'\ntype = 'f16'\noutput = 'f32'\nscale_a = 'f32:row'\nscale_b = 'f32:tensor'\nkernel = 'mine'";
    let data = format!("data = 'uniform:-1,1 | uniform:-1,1 | values:4096{} | constant:3'", ",1".repeat(63));
    let suite = suite(&scaled(keys, &data), by_hand(right, false)).unwrap();
    let result = suite.execute(&suite.cases[0], &Device::host());
    assert!(matches!(result.outcome, CaseOutcome::Pass | CaseOutcome::Untrusted), "{result:?}");
    let atol = result.report.unwrap()["atol"].as_f64().unwrap();
    // Of the large row sums of 1024 products of two numbers from [-1, 1], times 3 and 4096, have a mean magnitude of sqrt(2 / pi) sqrt(1024) / 3.
    let mean = (2.0 / std::f64::consts::PI).sqrt() * 32.0 / 3.0 * 3.0 * 4096.0;
    let by_mean = atol / (1024.0 * 2f64.powi(-24) * mean);
    assert!((0.8..1.3).contains(&by_mean), "{by_mean}");
}

/// Formats, extents and numbers of the inputs, as a kernel gets them.
fn inputs(keys: &str) -> std::result::Result<Vec<(String, Vec<f64>)>, String> {
    use std::sync::{Arc, Mutex};
    let found = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&found);
    let kernels = Kernels::default().with("mine", move |launch, _| {
        let one = |(name, guard): &(&'static str, Guard)| (format!("{name} {}{:?}", guard.dtype(), guard.shape()), numbers(guard));
        *told.lock().map_err(|e| e.to_string())? = launch.inputs().iter().map(one).collect();
        Err("that was all".into())
    });
    let suite = suite(&scaled(keys, "kernel = 'mine'"), kernels).map_err(|e| e.to_string())?;
    drop(suite.execute(&suite.cases[0], &Device::host()));
    let found = found.lock().map_err(|e| e.to_string())?;
    Ok(found.clone())
}

#[test]
fn scales_are_inputs_behind_all_others() {
    let names = |keys: &str| inputs(keys).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    for (keys, expected) in [
        ("size = '6x5x70'\nscale_a = 'none'\nscale_b = 'none'", "a f16[6, 70] b f16[70, 5]"),
        ("size = '6x5x70'\nscale_b = 'f8e8m0:32x2'", "a f16[6, 70] b f16[70, 5] scale_b f8e8m0[3, 3]"),
        (
            "size = '2x6x5x70'\nlayout = 'tt'\nbeta = 1\nbias = true\noutput = 'f32'\ntype = 'f16|bf16'\nscale_a = 'f32:k32'\nscale_b = 'bf16:k32'",
            "a f16[2, 70, 6] b bf16[2, 5, 70] c f32[2, 6, 5] bias f32[5] scale_a f32[2, 3, 6] scale_b bf16[2, 5, 3]",
        ),
        (
            "size = '2x6x5x70'\nscale_a = 'f32:tensor'\nscale_b = 'f32:100x100'",
            "a f16[2, 6, 70] b f16[2, 70, 5] scale_a f32[1, 1, 1] scale_b f32[2, 1, 1]",
        ),
        ("size = '6x5x70'\nscale_a = 'f32:row'\nscale_b = 'f32:row'", "a f16[6, 70] b f16[70, 5] scale_a f32[6, 1] scale_b f32[70, 1]"),
        (
            "size = '6x5x70'\nscale_a = 'f32:column'\nscale_b = 'f32:column'",
            "a f16[6, 70] b f16[70, 5] scale_a f32[1, 70] scale_b f32[1, 5]",
        ),
    ] {
        assert_eq!(names(keys), expected, "{keys}");
    }
}

/// A generator of operands, which may give zeros and a sign, is none of scales unless that is said; those of the other inputs stay what they are without scales.
#[test]
fn generators_of_scales_are_their_own() {
    let keys = "size = '6x5x70'\nbias = true\n";
    let scales = "scale_a = 'f32:1x7'\nscale_b = 'f8e8m0:k32'\n";
    let of = |keys: &str| inputs(keys).unwrap();
    let range = |values: &[f64]| (values.iter().fold(f64::MAX, |a, &b| a.min(b)), values.iter().fold(f64::MIN, |a, &b| a.max(b)));
    for data in ["", "data = 'int:-3,3'", "data = 'int:-3,3 | constant:0 | uniform:-1,1'"] {
        let (without, with) = (of(&format!("{keys}{data}")), of(&format!("{keys}{scales}{data}")));
        assert_eq!(without, with[..3], "{data}");
        let [(_, a), (_, b)] = &with[3..] else { panic!("{with:?}") };
        let (least, most) = range(a);
        assert!((0.5..0.7).contains(&least) && (1.8..=2.0).contains(&most), "{data}: {least} {most}");
        assert!(b.iter().all(|x| [0.5, 1.0, 2.0].contains(x)) && range(b) == (0.5, 2.0), "{data}: {b:?}");
    }
    let each = of(&format!("{keys}{scales}data = 'int:-3,3 | constant:0 | uniform:-1,1 | constant:-3 | constant:4'"));
    assert!(each[3].1.iter().all(|x| *x == -3.0) && each[4].1.iter().all(|x| *x == 4.0), "{each:?}");
    let error = inputs(&format!("{keys}{scales}data = 'int:-3,3 | constant:0'")).unwrap_err();
    assert!(
        error.contains("data has 2 generators; it takes one, or one for each of the 5 inputs or of the 3 that are no scales"),
        "{error}"
    );
}

#[test]
fn scales_that_make_no_sense_are_refused_when_they_are_read() {
    let gemm = "[[gemm]]\nsize = '8x8x64'\n";
    for (text, words) in [
        ("scale_a = 'f32'", "s.toml:3: case `gemm`: `scale_a` = f32: none, or a format and blocks: f8e8m0:1x32"),
        ("scale_b = 'f33:1x32'", "s.toml:3: case `gemm`: `scale_b` = f33:1x32: unknown dtype `f33`"),
        ("scale_b = 'u8:1x32'", "`scale_b` = u8:1x32: scales of u8; they have a floating-point format"),
        ("scale_a = 'f32:0x32'", "blocks cannot be `0x32`: they are none"),
        ("scale_a = 'f32:1x32x1'", "blocks cannot be `1x32x1`"),
        ("scale_a = 'f32:rows'", "blocks cannot be `rows`"),
        ("scale_a = 'f32:k'", "blocks cannot be `k`"),
        ("scale_a = 'f32:1x-2'", "blocks cannot be `1x-2`"),
        ("scale_a = ['none', 'f32:99999999999999999999x1']", "s.toml:3: case `gemm/f32:99999999999999999999x1`: `scale_a` = "),
        ("scales_a = 'f32:row'", "unknown key `scales_a`; did you mean `scale_a`?"),
        (
            "scale_a = 'f32:row'\nkernel = 'gfx90a'",
            "s.toml:4: case `gemm`: kernel cannot be gfx90a:f16: the models of matrix cores take no scales; fma, f32",
        ),
        ("scale_a = 'f32:row'\nreference = 'gfx90a:f16'", "s.toml:4: case `gemm`: reference cannot be gfx90a:f16: the models"),
        (
            "scale_a = 'f32:row'\ntype = 'i8'\noutput = 'i32'\nrule = 'check'",
            "s.toml:6: case `gemm`: scales of operands that are summed in integers",
        ),
        ("scale_a = 'tf32:row'\nkernel = 'p'\n[kernels.p]\ncommand = ['x']", "s.toml:3: case `gemm`: the format tf32 is not supported by"),
        (
            "size = '3x3x3'\ntype = 'f32'\nscale_b = 'f4e2m1:1x1'\nkernel = 'p'\n[kernels.p]\ncommand = ['x']",
            "case `gemm`: a tensor of 9 elements of f4e2m1, which do not fill whole bytes,",
        ),
        ("type = 'f16|bf16'", "case `gemm`: `output` is missing: inputs of two formats, f16 and bf16, need it"),
        (
            "type = 'f16|bf16|f16'\noutput = 'f32'",
            "`type` = f16|bf16|f16: it names 3 formats; it takes one, or one for each of the two operands",
        ),
        ("type = 'f16|f17'\noutput = 'f32'", "s.toml:3: case `gemm`: `type` = f16|f17: unknown dtype `f17`"),
        (
            "type = 'f16|bf16'\noutput = 'f32'\nkernel = 'gfx90a'",
            "the pair of formats f16 and bf16 is not supported by the models of gfx90a",
        ),
    ] {
        let text = if text.starts_with("size") { format!("[[gemm]]\n{text}") } else { format!("{gemm}{text}") };
        let message = suite(&text, Kernels::default()).map(drop).unwrap_err().to_string();
        assert!(message.contains(words), "{text}: {message}");
    }
    let operator =
        suite("[[operator]]\noperator = 'relu'\nshape = '4'\ntype = 'f16|f32'", Kernels::default()).map(drop).unwrap_err().to_string();
    assert!(operator.contains("s.toml:4: case `operator`: `type` = f16|f32: inputs of an operator have one format"), "{operator}");
    let conv =
        suite("[[conv]]\nsize = '1 1 1 1 1 2 4 1 1 0 0'\nscale_a = 'f32:row'", Kernels::default()).map(drop).unwrap_err().to_string();
    assert!(conv.contains("s.toml:3: unknown key `scale_a`"), "{conv}");
}

/// Matrix cores and tensor cores have pairs of fp8 formats; of a convolution they are those of its two inputs in each direction.
#[test]
fn operands_of_two_formats_are_multiplied() {
    let conv = "[[conv]]\nsize = '2 1 2 4 3 3 3 6 6 1 1 1 1 1 1 1 1'\n";
    // Tensor cores of sm_89 keep 13 bits of an fp8 sum, which is more than what rounding of f32 explains.
    let both = "['rounding', 'check']";
    for (text, from, rules) in [
        (
            "[[gemm]]\nsize = '16x16x64'\nkernel = 'gfx942'\ntype = 'f8e4m3fnuz|f8e5m2fnuz'".to_owned(),
            "f8e4m3fnuz by f8e5m2fnuz to f32",
            both,
        ),
        ("[[gemm]]\nsize = '16x16x64'\nkernel = 'sm_89'\ntype = 'f8e5m2 | f8e4m3'".to_owned(), "f8e5m2 by f8e4m3 to f32", "['check']"),
        ("[[gemm]]\nsize = '16x16x64'\ntype = 'i4|f16'".to_owned(), "i4 by f16 to f32", both),
        ("[[gemm]]\nsize = '16x16x64'\ntype = 'f64|f16'".to_owned(), "f64 by f16 to f32", both),
        (format!("{conv}direction = 'bwd_data'\ntype = 'f8e5m2|f8e4m3'"), "f8e5m2 by f8e4m3 to f32", both),
        (format!("{conv}direction = 'bwd_weight'\ntype = 'f16|bf16'"), "f16 by bf16 to f32", both),
    ] {
        let suite = suite(&format!("{text}\noutput = 'f32'\nrule = {rules}"), Kernels::default()).unwrap();
        for case in &suite.cases {
            assert!(case.about().contains(from), "{}", case.about());
            let result = suite.execute(case, &Device::host());
            assert_eq!(result.outcome, CaseOutcome::Pass, "{text}: {result:?}");
        }
    }
}

/// The first launch's arguments.
fn arguments(keys: &str, line: &[&str]) -> std::result::Result<String, String> {
    let kernel = format!("[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\narguments = {line:?}\n");
    let suite =
        suite(&format!("{kernel}[[gemm]]\nsize = '6x5x70'\nkernel = 'k'\n{keys}"), Kernels::default()).map_err(|e| e.to_string())?;
    match &suite.cases[0].work {
        Work::Tensors(tensors) => match &tensors.kernel {
            Kernel::Module(_, fitted) => Ok(format!("{:?}", fitted.launches[0].arguments)),
            other => Err(format!("{other:?}")),
        },
        Work::Study(_) => Err("no tensors".to_owned()),
    }
}

#[test]
fn launches_have_scales_and_their_extents() {
    let line = ["scale_a", "scale_b", "scale_a_rows", "scale_a_columns", "i64:scale_b_block_rows*scale_b_block_columns", "c"];
    let found = arguments("scale_a = 'f32:1x32'\nscale_b = 'f8e8m0:k32'\nbeta = 0", &line).unwrap();
    assert_eq!(found, "[Input(2), Input(3), Bits(6), Bits(3), Bits(32), Null]");
    let none = arguments("scale_a = 'none'\nscale_b = 'none'\nbeta = 1", &line).unwrap();
    assert_eq!(none, "[Null, Null, Bits(0), Bits(0), Bits(0), Input(2)]", "a table that speaks of them");
    let unsaid = arguments("", &["scale_a"]).unwrap_err();
    assert!(unsaid.contains("this problem has no number `scale_a`") && unsaid.contains("buffers are a b result"), "{unsaid}");
}

#[test]
fn cases_with_scales_say_so() {
    let text = scaled("size = '4x4x64'\ntype = 'f8e4m3'\noutput = 'f16'\nscale_b = 'f8e8m0:k32'\nrule = ['rounding', 'check']", "");
    let suite = suite(&text, Kernels::default()).unwrap();
    let facts = |case: usize| suite.cases[case].facts().into_iter().map(|(label, text)| format!("{label}: {text}\n")).collect::<String>();
    for words in [
        "computes: gemm of [4, 64] by [64, 4], scales of B f8e8m0:k32, f8e4m3 to f16, against f64 in f64\n",
        "scale_a: none\nscale_b: f8e8m0:k32\n",
        "input scale_b: f8e8m0[2, 4]  uniform:0.5,2/seed=1/stream=2\n",
    ] {
        assert!(facts(0).contains(words), "{words}: {}", facts(0));
    }
    let check = "for: f8e4m3 by f8e4m3, scales of B f8e8m0 32x1, sums in f32\n";
    assert!(
        facts(1).contains(check) && facts(1).contains(", times the largest operands and scales where they are beyond 1\n"),
        "{}",
        facts(1)
    );
    assert_eq!(suite.cases[0].rounding_scale(), Some(super::super::epilogue::SCALED_TERMS));
    let result = suite.execute(&suite.cases[1], &Device::host());
    assert!(result.ok && result.report.as_ref().unwrap()["arithmetic"].as_str().unwrap().contains("scales of B f8e8m0 32x1"), "{result:?}");
}

/// The size gets smaller, the blocks stay: a search may end within one of them.
#[test]
fn smaller_sizes_have_fewer_blocks() {
    let text =
        scaled("size = ['8x8x256']\ntype = 'f8e4m3'\noutput = 'f32'\nscale_a = 'f32:1x128'\nscale_b = 'f32:128x128'\nrule = 'exact'", "");
    let file = SuiteFile::parse("s.toml", &text).unwrap();
    let suite = Suite::new(&file, "s.toml", Kernels::default()).unwrap();
    for (size, shapes) in [("8x8x256", [[8, 2], [2, 1]]), ("1x3x129", [[1, 2], [2, 1]]), ("1x1x1", [[1, 1], [1, 1]])] {
        let (_, case) = super::super::shrink::with_size(&file, "s.toml", &suite.cases[0], size).unwrap();
        let inputs = case.problem().unwrap().inputs();
        assert_eq!([inputs[2].1.clone(), inputs[3].1.clone()], shapes.map(|shape| shape.to_vec()), "{size}");
    }
}

#[test]
fn failed_cases_keep_their_scales() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "size = '8x8x64'\ntype = 'f8e4m3 | f8e5m2'\noutput = 'f32'\nscale_a = 'f8e8m0:1x32'\nscale_b = 'f32:tensor'\nkernel = 'mine'\nrule = 'check'";
    let suite = suite(&scaled(keys, ""), by_hand(right, true)).unwrap();
    let saving = super::super::Saving::begin(&folder.path().join("kept"), 1 << 20, &suite, false).unwrap();
    let suite = suite.saving(saving);
    assert_eq!(suite.execute(&suite.cases[0], &Device::host()).outcome, CaseOutcome::Fail);
    let case = folder.path().join("kept/gemm");
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(case.join("case.json")).unwrap()).unwrap();
    assert_eq!(told["gemm"]["scale_a"], serde_json::json!({ "dtype": "f8e8m0", "block": [1, 32] }));
    assert_eq!(told["gemm"]["scale_b"], serde_json::json!({ "dtype": "f32", "block": [64, 8] }));
    assert_eq!((&told["problem"]["scale_a_columns"], &told["problem"]["scale_b_rows"]), (&2.into(), &1.into()));
    assert_eq!(
        (told["inputs"]["scale_a"].as_str(), told["inputs"]["scale_b"].as_str()),
        (Some("scale_a.safetensors"), Some("scale_b.npy"))
    );
    for (file, dtype, shape) in [("scale_a.safetensors", DType::F8E8M0, vec![8, 2]), ("scale_b.npy", DType::F32, vec![1, 1])] {
        let file = crate::files::TensorFile::open(&case.join(file), &crate::files::ReadOptions::default()).unwrap();
        let tensor = file.tensors()[0].load().unwrap();
        assert_eq!((tensor.dtype(), tensor.layout().shape()), (dtype, shape.as_slice()));
    }
}

/// Programs get scales as files; a file of that name beside the suite is not the case's.
#[cfg(unix)]
#[test]
fn programs_get_scales_as_files() -> std::result::Result<(), KernelError> {
    let folder = tempfile::tempdir()?;
    let script = "cp a.npy result.npy && test -s $1 && test -s scale_b.npy && grep -q scale_a_block_columns case.json";
    let text = format!(
        "[kernels.k]\ncommand = ['sh', '-c', '{script}', 'sh', 'scale_a.safetensors']\n[[gemm]]\nsize = '1x1x1'\ntype = 'f32'\nkernel = 'k'\n\
        scale_a = 'f8e8m0:1x32'\nscale_b = 'f32:tensor'\ndata = 'constant:3 | constant:2 | constant:0.5 | constant:1'\n"
    );
    std::fs::write(folder.path().join("scale_a.safetensors"), "")?;
    std::fs::write(folder.path().join("s.toml"), text)?;
    let suite = Suite::new(&SuiteFile::open(&folder.path().join("s.toml"))?, "s.toml", Kernels::default())?;
    let result = suite.execute(&suite.cases[0], &Device::host());
    assert!(result.ok, "{result:?}");
    Ok(())
}
