//! What follows the sum of products, written by hand in each order that kernels have: found to be bit-exact, and called by its name.

use super::*;

const SHAPE: [usize; 3] = [19, 70, 64];

/// Operands, and the sums of a part of k by the model, of accumulators that start with these values.
struct Case {
    model: Model,
    a: DeviceMem<F16>,
    b: DeviceMem<F16>,
}

impl Case {
    fn new(model: Model) -> Case {
        let [m, n, k] = SHAPE;
        Case { model, a: numbers(m * k, [-1.0, 1.0], 1), b: numbers(k * n, [-1.0, 1.0], 2) }
    }

    fn sums(&self, from: usize, to: usize, start: Vec<f32>, factor: impl Fn(f32) -> f32) -> Vec<f32> {
        let [m, n, k] = SHAPE;
        let wide = |x: &DeviceMem<F16>| x.to_vec().unwrap().iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let (left, right) = (wide(&self.a), wide(&self.b));
        let left: Vec<f32> = (0..m).flat_map(|i| left[i * k + from..i * k + to].to_vec()).map(factor).collect();
        let mut sums = start;
        gemm_tile(self.model, m, n, to - from, &left, to - from, &right[from * n..], n, &mut sums, n);
        sums
    }

    /// That the check of this result says so.
    fn expect<D: Scalar, C: Scalar>(&self, result: &[D], [alpha, beta]: [f32; 2], c: Option<&DeviceMem<C>>, words: &str) {
        let [m, n, k] = SHAPE;
        let d = DeviceMem::from_slice(&Device::host(), result).unwrap();
        let (a, b, d) = (self.a.tensor(&[m, k]).unwrap(), self.b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
        let c = c.map(|c| c.tensor(&[m, n]).unwrap());
        let mut check = Check::gemm(&a, &b, &d).arch(self.model.arch()).alpha(alpha.into());
        if let Some(c) = &c {
            check = check.beta(beta.into(), c);
        }
        let report = check.run().unwrap();
        assert!(
            report.to_string().ends_with(&format!("\n  bit-exact  yes: {}", words.replace("MODEL", &self.model.to_string()))),
            "{words}\n{report}"
        );
    }
}

fn rounded<T: Scalar>(x: f64) -> T {
    T::from_bits64(T::DTYPE.encode(x, Rounding::NearestEven, Overflow::Ieee))
}

fn zeros() -> Vec<f32> {
    vec![0.0; SHAPE[0] * SHAPE[1]]
}

/// Composable Kernel's bilinear epilogue: sums go through a buffer in the format of the result, where f16 stays f16 and bf16 is widened.
#[test]
fn sums_that_are_rounded_before_alpha_and_c() {
    let [m, n, k] = SHAPE;
    let case = Case::new(Model::new(Arch::Gfx90a, Input::F16).unwrap());
    let sums = case.sums(0, k, zeros(), |x| x);
    let (alpha, beta) = (1.1f32, 0.7f32);
    let h = |x: f64| rounded::<F16>(x).to_f64();
    let c = numbers::<F16>(m * n, [-1.0, 1.0], 3);
    let (x, y) = (h(alpha.into()), h(beta.into()));
    type Formula<'a> = &'a dyn Fn(f64, f64) -> f64;
    let narrow: [(Formula<'_>, &str); 3] = [
        (&|s, c| h(h(x * s) + h(y * c)), "then alpha, C and bias with a rounding each, in f16"),
        (&|s, c| h(x * s + h(y * c)), "then alpha in an fma, C and bias, in f16"),
        (&|s, c| h(y * c + h(x * s)), "then alpha, beta C in an fma, and bias, in f16"),
    ];
    for (formula, words) in narrow {
        let at = |(s, c): (&f32, &F16)| rounded::<F16>(formula(h((*s).into()), c.to_f64()));
        let d: Vec<F16> = sums.iter().zip(&c.to_vec().unwrap()).map(at).collect();
        case.expect(&d, [alpha, beta], Some(&c), &format!("MODEL, k ascending, rounded to f16, {words}"));
    }
    let d: Vec<F16> = sums.iter().map(|s| rounded::<F16>(x * h((*s).into()))).collect();
    case.expect::<F16, F16>(
        &d,
        [alpha, 0.0],
        None,
        "MODEL, k ascending, rounded to f16, then alpha, C and bias with a rounding each, in f16",
    );

    // Widened: f32 takes what was rounded. Of C in f32 f16 arithmetic is none.
    let c = numbers::<f32>(m * n, [-1.0, 1.0], 3);
    let wide = |s: f32, c: f32| alpha * s + beta * c;
    let d: Vec<F16> = sums.iter().zip(c.to_vec().unwrap()).map(|(s, c)| rounded::<F16>(wide(h((*s).into()) as f32, c).into())).collect();
    case.expect(&d, [alpha, beta], Some(&c), "MODEL, k ascending, rounded to f16, then alpha, C and bias with a rounding each");
    // In 8 bits it does not show that this is fused: the first order that gives the same is named.
    let d: Vec<Bf16> = sums
        .iter()
        .zip(c.to_vec().unwrap())
        .map(|(s, c)| rounded::<Bf16>(beta.mul_add(c, alpha * rounded::<Bf16>((*s).into()).to_f32()).into()))
        .collect();
    case.expect(&d, [alpha, beta], Some(&c), "MODEL, k ascending, rounded to bf16, then alpha, C and bias with a rounding each");
}

/// CUDA's sample: accumulators start with beta / alpha C.
#[test]
fn accumulators_that_start_with_c_and_are_scaled() {
    let [m, n, k] = SHAPE;
    for arch in [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942] {
        let case = Case::new(Model::new(arch, Input::F16).unwrap());
        let c = numbers::<f32>(m * n, [-1.0, 1.0], 3);
        let (alpha, beta) = (1.3f32, 0.7f32);
        let start = c.to_vec().unwrap().iter().map(|c| beta / alpha * c).collect();
        let d: Vec<f32> = case.sums(0, k, start, |x| x).iter().map(|s| alpha * s).collect();
        case.expect(&d, [alpha, beta], Some(&c), "MODEL, k ascending, in accumulators that start with beta / alpha C, then alpha and bias");
    }
}

/// Tensile's split-k in one buffer: beta C lies there, and each part is added times alpha.
#[test]
fn parts_that_are_added_to_c_in_memory() {
    let [m, n, k] = SHAPE;
    let case = Case::new(Model::new(Arch::Gfx942, Input::F16).unwrap());
    let c = numbers::<f32>(m * n, [-1.0, 1.0], 3);
    for parts in [2, 4] {
        for (alpha, beta) in [(1.3f32, 0.7f32), (1.0, 0.7), (1.3, 1.0)] {
            let mut d: Vec<f32> = c.to_vec().unwrap().iter().map(|c| beta * c).collect();
            for part in 0..parts {
                let sums = case.sums(part * k / parts, (part + 1) * k / parts, zeros(), |x| x);
                d.iter_mut().zip(sums).for_each(|(d, s)| *d += alpha * s);
            }
            let words = format!("MODEL, k in {parts} parts, their sums added in f32, each part times alpha added to beta C");
            case.expect(&d, [alpha, beta], Some(&c), &words);
        }
        // Without C, what memory starts with is 0.
        let mut d = zeros();
        for part in 0..parts {
            let sums = case.sums(part * k / parts, (part + 1) * k / parts, zeros(), |x| x);
            d.iter_mut().zip(sums).for_each(|(d, s)| *d += 1.3 * s);
        }
        let words = format!("MODEL, k in {parts} parts, their sums added in f32, each part times alpha added to beta C");
        case.expect::<f32, f32>(&d, [1.3, 0.0], None, &words);
    }
}

/// Attention in Triton: the first operand is multiplied by alpha and rounded to its format.
#[test]
fn operands_that_are_scaled_first() {
    let [m, n, k] = SHAPE;
    let case = Case::new(Model::new(Arch::Gfx90a, Input::F16).unwrap());
    let (alpha, beta) = (0.18033688f32, 0.7f32);
    let scaled = |x: f32| rounded::<F16>(f64::from(x * alpha)).to_f32();
    let sums = case.sums(0, k, zeros(), scaled);
    case.expect::<f32, f32>(&sums, [alpha, 0.0], None, "MODEL, A times alpha rounded to its format, k ascending");
    let c = numbers::<f32>(m * n, [-1.0, 1.0], 3);
    let d: Vec<f32> = sums.iter().zip(c.to_vec().unwrap()).map(|(s, c)| s + beta * c).collect();
    case.expect(
        &d,
        [alpha, beta],
        Some(&c),
        "MODEL, A times alpha rounded to its format, k ascending, then alpha, C and bias with a rounding each",
    );
    // B instead, by the product of the transposed matrices.
    let (left, right) = (case.a.to_vec().unwrap(), case.b.to_vec().unwrap());
    let wide: Vec<f32> = left.iter().map(|x| x.to_f32()).collect();
    let mut d = zeros();
    let b: Vec<f32> = right.iter().map(|x| scaled(x.to_f32())).collect();
    gemm_tile(case.model, m, n, k, &wide, k, &b, n, &mut d, n);
    case.expect::<f32, f32>(&d, [alpha, 0.0], None, "MODEL, B times alpha rounded to its format, k ascending");
    // A power of two changes no digits: alpha follows, as everywhere.
    let d: Vec<f32> = case.sums(0, k, zeros(), |x| x).iter().map(|s| 0.125 * s).collect();
    case.expect::<f32, f32>(&d, [0.125, 0.0], None, "MODEL, k ascending, then alpha, C and bias with a rounding each");
}

/// An alpha of 0 leaves no order of products to be told: what follows is all there is, also where the operands are not finite. A kernel that multiplies by 0 all the same has its signs of zero.
#[test]
fn an_alpha_of_zero_takes_nothing_of_the_operands() {
    let [m, n, k] = SHAPE;
    let case = Case::new(Model::new(Arch::Gfx90a, Input::F16).unwrap());
    let c = numbers::<f32>(m * n, [-4.0, 4.0], 3);
    let scaled: Vec<f32> = c.to_vec().unwrap().iter().map(|c| 0.3 * c).collect();
    let skipped = "alpha is 0: nothing is taken of A and B, then alpha, C and bias with a rounding each";
    case.expect(&scaled, [0.0, 0.3], Some(&c), skipped);
    case.expect(&vec![0f32; m * n], [0.0, 0.0], None::<&DeviceMem<f32>>, skipped);
    let zeros: Vec<f32> = case.sums(0, k, zeros(), |x| x).into_iter().map(|sum| 0.0 * sum).collect();
    assert!(zeros.iter().any(|x| x.is_sign_negative()));
    case.expect(&zeros, [0.0, 0.0], None::<&DeviceMem<f32>>, "MODEL, k ascending, then alpha, C and bias with a rounding each");

    let mut a = case.a.to_vec().unwrap();
    (a[3], a[k + 5]) = (F16::INFINITY, F16::NAN);
    let infinite = Case { a: DeviceMem::from_slice(&Device::host(), &a).unwrap(), ..case };
    infinite.expect(&scaled, [0.0, 0.3], Some(&c), skipped);
    // No model is tried in vain.
    let (a, b, c) = (infinite.a.tensor(&[m, k]).unwrap(), infinite.b.tensor(&[k, n]).unwrap(), c.tensor(&[m, n]).unwrap());
    let mut wrong = scaled;
    wrong[n + 2] = f32::from_bits(wrong[n + 2].to_bits() + 1);
    let d = DeviceMem::from_slice(&Device::host(), &wrong).unwrap();
    let d = d.tensor(&[m, n]).unwrap();
    let report = Check::gemm(&a, &b, &d).arch(Arch::Gfx90a).alpha(0.0).beta(0.3, &c).run().unwrap();
    let exactness = report.exactness.clone().unwrap();
    assert_eq!((exactness.differing, exactness.first, exactness.tried), (1, Some(vec![1, 2]), 3), "{report}");
    assert!(
        report
            .to_string()
            .ends_with(&format!("no, of 3 models and orders; {skipped} comes nearest: 1 elements differ, the first at [1, 2]")),
        "{report}"
    );
}
