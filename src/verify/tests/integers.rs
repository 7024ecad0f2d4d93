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
