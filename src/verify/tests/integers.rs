//! Pairs of integers of which one format has 64 bits.

use super::*;

/// Small ones are compared in f64, tile by tile, block by block.
#[test]
fn small_and_large_integers_take_turns() {
    let n = 9000;
    for (da, dr) in [(DType::I64, DType::I64), (DType::U64, DType::I64), (DType::I64, DType::U64), (DType::I32, DType::I64)] {
        for large in [(1i64 << 51) - 1, 1 << 51, (1 << 51) + 1, -(1 << 51), -(1 << 51) - 1, (1 << 53) + 1, i64::MAX, i64::MIN] {
            let make = |dtype: DType, wrong: i64| {
                let mut bytes = vec![0; dtype.bytes_for(n).unwrap()];
                for i in 0..n {
                    let near = (i as i64 * 7919 % 1000 - 300 + wrong * i64::from(i % 7 == 3)).rem_euclid(1 << 30);
                    // In some tiles alone, and there in one side or both.
                    let is_large = dtype.bits() == 64 && (i == 3000 || i == 3001 && wrong == 0 || i == 8999);
                    dtype.store_bits(&mut bytes, i, if is_large { large.wrapping_sub(wrong) } else { near } as u64);
                }
                bytes
            };
            let (result, reference) = (make(da, 2), make(dr, 0));
            let tensor = |bytes, dtype| TensorRef::from_host_bytes(bytes, dtype, Layout::flat(n)).unwrap();
            let (a, r) = (tensor(&result, da), tensor(&reference, dr));
            for request in [Request { histograms: true, ..REQUEST }, Request { rtol: 0.0, atol: 0.0, by_binade: true, ..REQUEST }] {
                let slow = naive(&a, &r, &request);
                for set in InstructionSet::all() {
                    let fast = host::compare_by(*set, &a, &r, &request, Meter::OFF);
                    assert_same(&fast, &slow, &format!("{da} against {dr}, {large}, {set:?}, {request:?}"));
                }
            }
        }
    }
}

/// Against floats, whose ordinals are those of the integers that they are rounded to.
#[test]
fn distances_of_64_bits_are_exact_and_those_of_fewer_saturate() {
    let n = 2500;
    // References, and how far results are from them.
    let cases: [(f64, &[i128], &str); 8] = [
        (1000.0, &[0, 1, -2], "small numbers"),
        (0.5, &[0, 1, 2], "a tie goes to even: 0"),
        (1.5, &[0, 1, 2], "a tie goes to even: 2"),
        (2f64.powi(52) + 1.0, &[0, 1, 5], "the last odd numbers of f64"),
        (2f64.powi(60), &[0, 1, 513, -700], "results that f64 rounds, one to the reference itself"),
        (2f64.powi(63), &[-1, 0, -4096], "beyond i64"),
        (1e30, &[0, -1], "beyond every integer"),
        (-7.0, &[0, 3, 9], "below those without sign"),
    ];
    for da in DType::ALL.into_iter().filter(|dtype| dtype.is_int()) {
        let int = da.int_format().unwrap();
        for dr in [DType::F64, DType::F32] {
            for (value, differences, reason) in cases {
                let (mut result, mut reference) = (vec![0; da.bytes_for(n).unwrap()], vec![0; dr.bytes_for(n).unwrap()]);
                for i in 0..n {
                    let near = value as i128 + differences[i * 7 % differences.len()] * i128::from(i % 5 != 4);
                    da.store_bits(&mut result, i, near.clamp(int.min(), int.max()) as u64 & (u64::MAX >> (64 - da.bits())));
                    dr.store_bits(&mut reference, i, dr.encode(value, Rounding::NearestEven, Overflow::Saturate));
                }
                let a = TensorRef::from_host_bytes(&result, da, Layout::flat(n)).unwrap();
                let r = TensorRef::from_host_bytes(&reference, dr, Layout::flat(n)).unwrap();
                let slow = naive(&a, &r, &REQUEST);
                for set in InstructionSet::all() {
                    let what = format!("{da} against {dr}, {reason}, {set:?}");
                    assert_same(&host::compare_by(*set, &a, &r, &REQUEST, Meter::OFF), &slow, &what);
                }
            }
        }
    }
}
