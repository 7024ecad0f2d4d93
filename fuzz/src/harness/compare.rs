//! A comparison on the host against its definition (docs/numerics.md), element by element.

use super::{Bytes, kind};
use hipverify::device::{Layout, TensorRef};
use hipverify::dtype::Class;
use hipverify::verify::{Explain, Level, NonFinite, Options, Tolerance, gpu_verify_with};
use hipverify::{DType, Device};

/// What a comparison counts, by definition.
#[derive(Debug, PartialEq)]
struct Counts {
    mismatches: u64,
    nonfinite: u64,
    /// The largest difference; 0 where none differs.
    worst: f64,
    /// The first mismatches.
    first: Vec<usize>,
}

/// The formats whose pairs are measured in f32 or f64: those of whole numbers beyond 16 bits have an arithmetic of their own.
fn formats() -> Vec<DType> {
    DType::ALL.into_iter().filter(|d| d.bits() < 32 || d.to_string().starts_with('f')).collect()
}

/// One side: format, memory and layout.
struct Side {
    dtype: DType,
    bytes: Vec<u8>,
    layout: Layout,
}

impl Side {
    fn view(&self) -> TensorRef<'_> {
        TensorRef::from_host_bytes(&self.bytes, self.dtype, self.layout.clone()).expect("the buffer has this size")
    }

    fn bits(&self, element: usize) -> u64 {
        self.dtype.load_bits(&self.bytes, self.layout.index(element))
    }
}

/// Rows with padding, columns first, or dense: memory of any bits.
fn side(input: &mut Bytes<'_>, dtype: DType, [rows, columns]: [usize; 2]) -> Side {
    let (padding, offset) = (input.below(3), input.below(3));
    let strides = match input.below(3) {
        0 => [columns as isize, 1],
        1 => [(columns + padding) as isize, 1],
        _ => [1, rows as isize],
    };
    let layout = Layout::strided(&[rows, columns], &strides, offset).expect("a small layout");
    let size = dtype.bytes_for(layout.end().max(1)).expect("a small size");
    // Repeated where the input is too short, so that an input is not mostly zeros.
    let pattern: Vec<u8> = (0..=input.below(64)).map(|_| input.byte()).collect();
    Side { dtype, bytes: pattern.iter().copied().cycle().take(size).collect(), layout }
}

fn is_nonfinite(dtype: DType, bits: u64) -> bool {
    matches!(dtype.classify(bits), Class::Nan | Class::Infinite)
}

/// d and whether it is within the bound, in the pair's arithmetic.
fn difference(double: bool, a: f64, r: f64, rtol: f64, atol: f64) -> (f64, bool) {
    if double {
        let d = (a - r).abs();
        return (d, d <= rtol.mul_add(r.abs(), atol).min(f64::MAX));
    }
    let (a, r) = (a as f32, r as f32);
    let d = (a - r).abs();
    (f64::from(d), d <= (rtol as f32).mul_add(r.abs(), atol as f32).min(f32::MAX))
}

fn definition(a: &Side, r: &Side, rtol: f64, atol: f64, policy: NonFinite, listed: usize) -> Counts {
    let double = [a.dtype, r.dtype].contains(&DType::F64);
    let mut counts = Counts { mismatches: 0, nonfinite: 0, worst: 0.0, first: Vec::new() };
    for element in 0..a.layout.elements() {
        let (x, y) = (a.bits(element), r.bits(element));
        let (u, v) = (a.dtype.decode(x), r.dtype.decode(y));
        let passes = if is_nonfinite(a.dtype, x) || is_nonfinite(r.dtype, y) {
            counts.nonfinite += 1;
            policy == NonFinite::EqualWhenSame && (u == v || u.is_nan() && v.is_nan())
        } else {
            let (d, passes) = difference(double, u, v, rtol, atol);
            counts.worst = counts.worst.max(d);
            passes
        };
        if !passes {
            counts.mismatches += 1;
            if counts.first.len() < listed {
                counts.first.push(element);
            }
        }
    }
    counts
}

pub(super) fn compare(input: &[u8]) -> u64 {
    let (mut bytes, formats) = (Bytes(input), formats());
    let dtypes = [0; 2].map(|_| formats[bytes.below(formats.len())]);
    let shape = match bytes.below(8) {
        0 => [bytes.below(4), bytes.below(4)],
        1 => [3, 700 + bytes.below(200)],
        _ => [1 + bytes.below(7), 1 + bytes.below(70)],
    };
    let [a, r] = dtypes.map(|dtype| side(&mut bytes, dtype, shape));
    let exponent = |byte: u8| if byte < 64 { 0.0 } else { 2f64.powi(i32::from(byte) - 192) };
    let (rtol, atol) = (exponent(bytes.byte()), exponent(bytes.byte()));
    let policy = if bytes.below(2) == 0 { NonFinite::Fail } else { NonFinite::EqualWhenSame };
    let listed = bytes.below(5);
    let level = if bytes.below(2) == 0 { Level::Counts } else { Level::All };
    let options = Options::default().level(level).explain(Explain::Always).nonfinite(policy).first(listed).histograms(bytes.below(2) == 1);
    let Ok(tolerance) = Tolerance::new(rtol, atol) else { return 0 };
    let report = gpu_verify_with(&a.view(), &r.view(), &tolerance, &options);
    kind(&report, |report| {
        let found = Counts {
            mismatches: report.mismatches,
            nonfinite: report.nonfinite_pairs,
            worst: report.worst_absolute.as_ref().map_or(0.0, |w| w.value),
            first: report.first.iter().map(|location| location.index).collect(),
        };
        let expected = definition(&a, &r, rtol, atol, policy, listed);
        assert_eq!(found, expected, "{dtypes:?} {shape:?} rtol {rtol} atol {atol} {policy:?} on {}", Device::host());
        1 + a.dtype as u64
            + 100 * r.dtype as u64
            + 10_000 * u64::from(report.mismatches > 0)
            + 20_000 * u64::from(report.nonfinite_pairs > 0)
    })
}
