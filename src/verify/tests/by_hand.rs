//! Tensors made by hand: every block of 1024 elements has one that differs, and most of those matter to one metric only. So a condition that
//! asks about the wrong elements, which data of every kind satisfy by chance, is found.

use super::*;

/// A block of the host's loops, or whole blocks of a tile.
const BLOCK: usize = 1024;

struct Case {
    dtypes: &'static [DType],
    rtol: f64,
    atol: f64,
    /// Result and reference of the element of each block that differs.
    pairs: Vec<[f64; 2]>,
    /// The block of the first element with the maximum, by [`Metric`].
    worst: [usize; 6],
    /// Pairs in the histogram of the relative difference.
    relative: u64,
    reason: &'static str,
}

/// A reference and the difference from it.
fn off(reference: f64, difference: f64) -> [f64; 2] {
    [reference + difference, reference]
}

fn cases() -> Vec<Case> {
    let pow2 = |e: i32| 2f64.powi(e);
    let small = f64::from(1e-3f32);
    vec![
        Case {
            dtypes: &[DType::F32, DType::F64],
            rtol: 0.125,
            atol: 1.0,
            pairs: vec![
                // The largest distance in ulps, since it crosses zero, and the largest atol.
                [-5e5, 1e6],
                // The largest rtol.
                off(1.0, 3.9),
                // Near the end of its binade: the spacing is small, |r| is not. |d| is below atol, as of the next two.
                off(pow2(-6) * 1.9921875, pow2(-6) * 5.3125),
                // |r| is too small for the older relative difference.
                off(pow2(-20), pow2(-20) * 4.5),
                off(pow2(-6), pow2(-6) * 3.984375),
                // A bound that is larger than atol, yet small beside the difference.
                off(1024.0, 2867.0),
                // A bound that is larger than the difference.
                off(1e9, 1.6e6),
            ],
            worst: [6, 3, 4, 2, 5, 0],
            relative: 6,
            reason: "each metric has its maximum in a block that matters to no other",
        },
        Case {
            dtypes: &[DType::F64],
            rtol: 0.0,
            atol: 4.0,
            pairs: vec![[-1.0, 1.0], [pow2(-51), pow2(-1074)], [pow2(-40), pow2(-1022)]],
            worst: [0, 1, 0, 2, 0, 0],
            relative: 1,
            reason: "the epsilon difference overflows where the difference in binades, and the quotient of another element, do not",
        },
        Case {
            dtypes: &[DType::F32, DType::F64],
            rtol: 0.0,
            atol: 1.0,
            pairs: vec![[-1.0, 1.0], off(8.0, 4.0)],
            worst: [1, 0, 0, 0, 1, 0],
            relative: 2,
            reason: "a block that matters to the absolute difference and to a quotient",
        },
        Case {
            dtypes: &[DType::F32],
            rtol: 0.0,
            atol: 1.0,
            pairs: vec![off(small, 3.0 * small), off(f64::from(1e-3f32.next_up()), small)],
            worst: [0, 0, 1, 0, 0, 0],
            relative: 1,
            reason: "the older relative difference begins above 1e-3",
        },
        Case {
            dtypes: &[DType::F64],
            rtol: 0.0,
            atol: 1.0,
            pairs: vec![off(1e-3, 3e-3), off(1e-3f64.next_up(), 1e-3)],
            worst: [0, 0, 1, 0, 0, 0],
            relative: 1,
            reason: "the older relative difference begins above 1e-3",
        },
    ]
}

#[test]
fn an_element_that_matters_to_one_metric_is_found() {
    for case in cases() {
        for &dtype in case.dtypes {
            let n = case.pairs.len() * BLOCK;
            let encode = |x: f64| dtype.encode(x, Rounding::NearestEven, Overflow::Saturate);
            let sides = [0, 1].map(|side| {
                let mut bytes = vec![0; dtype.bytes_for(n).unwrap()];
                (0..n).for_each(|i| dtype.store_bits(&mut bytes, i, encode(2.0)));
                case.pairs.iter().enumerate().for_each(|(i, pair)| dtype.store_bits(&mut bytes, i * BLOCK + 7, encode(pair[side])));
                bytes
            });
            let [a, r] = sides.each_ref().map(|bytes| TensorRef::from_host_bytes(bytes, dtype, Layout::flat(n)).unwrap());
            let request = Request { rtol: case.rtol, atol: case.atol, histograms: true, ..REQUEST };
            let slow = naive(&a, &r, &request);
            let what = format!("{dtype}: {}", case.reason);
            for set in InstructionSet::all() {
                assert_same(&host::compare_by(*set, &a, &r, &request, Meter::OFF), &slow, &what);
            }
            let worst = slow.explanation.unwrap().worst.map(|found| found.unwrap().index as usize / BLOCK);
            assert_eq!(worst, case.worst, "{what}");
            let relative: u64 = slow.values.histograms.unwrap()[..histogram::RELATIVE.len()].iter().sum();
            assert_eq!(relative, case.relative, "{what}");
        }
    }
}

#[test]
fn integers_of_64_bits_equal_hand_computed_values() {
    let device = Device::host();
    let result = DeviceMem::<i64>::from_slice(&device, &[10, -5, 100, 101, 7, 0]).unwrap();
    let reference = DeviceMem::<i64>::from_slice(&device, &[8, -5, 103, 103, 0, 1]).unwrap();
    // Bounds, rounded down: 1, 1, 2, 2, 1 and 1.
    let report = gpu_verify(&result, &reference, &Tolerance::new(0.01, 1.0).unwrap()).unwrap();
    assert_eq!(report.first.iter().map(|at| at.index).collect::<Vec<_>>(), [0, 2, 4]);
    let worst = |metric| report.worst(metric).map(|worst| (worst.value, worst.at.as_ref().unwrap().index));
    assert_eq!(Metric::ALL.map(worst), [(7.0, 4), (1.0, 5), (1.0, 5), (7.0, 4), (7.0, 4), (7.0, 4)].map(Some));
    let metrics = report.metrics.as_ref().unwrap();
    assert_eq!((metrics.passing_rtol, metrics.passing_atol), (Some(f64::INFINITY), Some(7.0)), "no rtol passes a reference of 0");
    assert_eq!(metrics.zero_passes, 2, "references of 0 and 1");
    assert_eq!((report.result.zeros, report.reference.zeros), (1, 1));
    let one = |x: i64| DeviceMem::from_slice(&device, &[x]).unwrap();
    let metrics = gpu_verify(&one(10), &one(8), &Tolerance::exact()).unwrap().metrics.unwrap();
    assert_eq!((metrics.passing_rtol, metrics.passing_atol), (Some(0.25), Some(2.0)), "bounds of 0.25 * 8, and of 2");
    let report = gpu_verify_with(&result, &reference, &Tolerance::exact(), &Options::counts()).unwrap();
    assert_eq!((report.mismatches, report.metrics), (5, None));
    let counts = host::compare(&result.as_tensor(), &reference.as_tensor(), &Request { all: false, rtol: 0.01, atol: 1.0, ..REQUEST });
    let Values { mismatches, maxima, zeros, zero_passes, .. } = counts.values;
    assert_eq!((mismatches, maxima, zeros, zero_passes), (3, [7.0, 0.0, 0.0, 0.0, 0.0], [0, 0], 0), "no more than was asked for");
}

/// Tasks are of 2^18 elements: what is in one of them is counted once, whichever it is.
#[test]
fn the_largest_magnitude_is_found_in_every_task() {
    const TASK: usize = 1 << 18;
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    for (elements, expected, reason) in [
        (&[(0, 3.0), (2 * TASK + 4999, -7.0)][..], (7.0, 0, 0), "the last element"),
        (&[(TASK - 1, 5.0), (TASK + 2000, 6.0)], (6.0, 0, 0), "the second task"),
        (&[(TASK + 3, infinity), (2 * TASK, 4.0)], (4.0, 0, 1), "a block whose largest number is infinite"),
        (&[(0, nan), (TASK, nan), (2 * TASK + 1, -infinity)], (1.0, 2, 1), "non-finite elements in each task"),
    ] {
        let mut x = vec![1.0f32; 2 * TASK + 5000];
        elements.iter().for_each(|&(i, value)| x[i] = value);
        let found = gpu_reduce_max(&DeviceMem::from_slice(&Device::host(), &x).unwrap()).unwrap();
        assert_eq!((found.value, found.nans, found.infinities), expected, "{reason}");
    }
}

/// 17 partial sums, of which each may have a thread of its own.
#[test]
fn there_may_be_a_thread_for_each_partial_sum() {
    let n = 16 * 16 * 1024 + 1;
    let sides = [1, 2].map(|seed| make(DType::F64, n, Data::Sparse, seed, None));
    let [a, r] = sides.each_ref().map(|bytes| TensorRef::from_host_bytes(bytes, DType::F64, Layout::flat(n)).unwrap());
    let of = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| host::compare(&a, &r, &REQUEST))
    };
    assert_same(&of(17), &of(1), "17 threads");
}

/// By the words of [`sums`]; as many partial sums as there are accumulators take a tensor of GiBs.
#[test]
fn partial_sums_are_joined_by_halving() {
    fn halved(x: &[f64]) -> f64 {
        let (low, high) = x.split_at(x.len() / 2);
        if low.is_empty() { high[0] } else { halved(&low.iter().zip(high).map(|(a, b)| a + b).collect::<Vec<_>>()) }
    }
    for count in [1, 2, 255, 256, 257, 700] {
        let partials: Vec<sums::Sums> = (0..count).map(|i| [3.0, 5.0, 7.0, 11.0].map(|prime| (1.0 + f64::from(i)) / prime)).collect();
        let expected = std::array::from_fn(|s| {
            let mut accumulators = [0.0; 256];
            partials.iter().enumerate().for_each(|(i, partial)| accumulators[i % 256] += partial[s]);
            halved(&accumulators)
        });
        assert_eq!(sums::join_partials(partials.into_iter()), expected, "{count} partial sums");
    }
}

/// f64 holds no odd numbers there, so that both differences are 256; the distance in ulps is that of the integers.
#[test]
fn distances_of_integers_that_f64_does_not_hold_are_exact() {
    let (mut result, reference) = ([1i64 << 60; 3 * BLOCK], [2f64.powi(60); 3 * BLOCK]);
    result[BLOCK + 1] += 300;
    result[2 * BLOCK + 1] += 383;
    let device = Device::host();
    let (a, r) = (DeviceMem::from_slice(&device, &result).unwrap(), DeviceMem::from_slice(&device, &reference).unwrap());
    let report = gpu_verify(&a, &r, &Tolerance::exact()).unwrap();
    let worst = |metric| report.worst(metric).map(|worst| (worst.value, worst.at.as_ref().unwrap().index));
    assert_eq!(worst(Metric::Absolute), Some((256.0, BLOCK + 1)));
    assert_eq!(worst(Metric::Ulp), Some((383.0, 2 * BLOCK + 1)));
}

#[test]
fn metrics_equal_hand_computed_values() {
    let report = verify_f32(&[1.5, -2.0, 0.0, 3.0], &[1.0, -2.0, 0.0, 4.0], 0.0, 0.25);
    let m = report.metrics.as_ref().unwrap();
    assert_eq!((report.mismatches, report.elements), (2, 4));
    assert_eq!(report.worst_absolute.as_ref().unwrap().value, 1.0);
    assert_eq!(m.worst_relative.as_ref().unwrap().value, 0.5);
    assert_eq!(m.worst_relative.as_ref().unwrap().at.as_ref().unwrap().index, 0);
    assert_eq!(m.worst_epsilon.as_ref().unwrap().value, 0.5 * 8_388_608.0);
    assert_eq!(m.worst_ratio.as_ref().unwrap().value, 4.0);
    assert_eq!(m.mean_absolute, 1.5 / 4.0);
    assert_eq!(m.rms, 1.25f64.sqrt() / (2.0 * 4.0));
    assert_eq!((m.relative_l1, m.relative_linf), (1.5 / 7.0, 0.25));
    assert_eq!(m.relative_l2, (1.25f64 / 21.0).sqrt());
    assert_eq!((short(m.snr, 5), m.similarity), ("12.253".to_owned(), None));
    // One step below 0.25: 0.25 + 0.24999999 rounds to the difference of 0.5.
    assert_eq!((m.passing_rtol, m.passing_atol), (Some(f64::from(0.25f32.next_down())), Some(1.0)));
    assert_eq!((report.result.zeros, report.reference.zeros), (1, 1));
    assert_eq!(m.vector, [false, true, false]);
}
