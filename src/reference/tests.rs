//! Fast paths of the host against the naive implementations, bit by bit, on random shapes and values.

use super::*;
use crate::device::{Device, DeviceMem, Layout};
use crate::dtype::{Bf16, F16};
use crate::matrix_core::{Arch, Input, Model};
use proptest::prelude::*;

/// Values that round, cancel and underflow: a few exponents, both signs, subnormals of f16, zeros.
fn noise(len: usize, seed: u64) -> Vec<F16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = (state >> 40) as u16;
            match state >> 60 {
                0 => F16::from_bits(bits & 0x83ff),
                1 => F16::ZERO,
                // Exponents from 2^-6 to 2^1.
                _ => F16::from_bits(bits & 0x83ff | (9 + (state >> 57 & 7) as u16) << 10),
            }
        })
        .collect()
}

fn wide(values: &[F16]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

fn modes() -> Vec<Accumulate> {
    let cores = [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942].map(|arch| Accumulate::MatrixCore(Model::new(arch, Input::F16).unwrap()));
    Accumulate::PLAIN.into_iter().chain(cores).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Accumulators of a convolution, without a rounding to an output format.
fn conv(c: &Conv, a: &[F16], b: &[F16]) -> Vec<f64> {
    let host = Device::host();
    let (a, b) = (DeviceMem::from_slice(&host, a).unwrap(), DeviceMem::from_slice(&host, b).unwrap());
    let len = c.param().elements(c.roles()[2]);
    let mut out = DeviceMem::<f64>::new(&host, len).unwrap();
    c.run(&a, &b, &mut out.tensor_mut(&[len]).unwrap()).unwrap();
    out.to_vec().unwrap()
}

fn check_conv(param: &ConvParam, direction: Direction, order: KOrder, accumulate: Accumulate, seed: u64) {
    let c = Conv::new(param.clone(), direction, accumulate).order(order);
    let [first, second, _] = c.roles();
    let (a, b) = (noise(param.elements(first), seed), noise(param.elements(second), seed + 1));
    let inside = accumulate == Accumulate::Every4 && direction == Direction::BackwardWeight;
    let products = naive::conv_products(param, direction, order, inside, (&wide(&a), &wide(&b)));
    let expected: Vec<f64> = products.iter().map(|p| naive::sum(accumulate, p)).collect();
    let found = conv(&c, &a, &b);
    assert_eq!(bits(&found), bits(&expected), "{param} {direction:?} {order:?} {accumulate}");
}

/// gfx90a's bf16 instructions make +0 of a C of -0, which a sum of 256 products is here that is flushed, and all that follow are -0: a longer sum is no shorter one and a rest.
#[test]
fn blocks_of_products_are_one_sum() {
    let host = Device::host();
    let number = |x: f32| Bf16::from_f32(x);
    let (mut a, mut b) = (vec![number(1.0); 260], vec![number(0.0); 260]);
    (b[248], b[252]) = (number(1.25 * f32::MIN_POSITIVE), number(-1.5 * f32::MIN_POSITIVE));
    a[256..].fill(number(-1.0));
    let (left, right) = (DeviceMem::from_slice(&host, &a).unwrap(), DeviceMem::from_slice(&host, &b).unwrap());
    let mut d = DeviceMem::<f32>::new(&host, 1).unwrap();
    let model = Model::new(Arch::Gfx90a, Input::Bf16K).unwrap();
    let (left, right) = (left.tensor(&[1, 260]).unwrap(), right.tensor(&[260, 1]).unwrap());
    Gemm::new(model).run(&left, &right, &mut d.tensor_mut(&[1, 1]).unwrap()).unwrap();
    assert_eq!(d.to_vec().unwrap()[0].to_bits(), (-0.0f32).to_bits());
}

#[test]
fn every_mode_direction_and_order_agrees_with_direct_loops() {
    // Groups, strides, dilations, padding that differs on both sides; layouts of the study and of CK.
    let cases = [
        ("2 2 2 5 3 3 2 7 6 2 1 1 2 2 1 0 2", ["ngchw", "gkcyx", "ngkhw"]),
        ("2 1 3 4 5 3 3 5 5 1 1 1 1 1 1 1 1", ["nhwgc", "gkyxc", "nhwgk"]),
        ("2 3 2 2 2 2 3 6 9 2 3 2 1 0 1 1 0", ["nhwgc", "gyxck", "nhwgk"]),
        ("1 2 3 4 3 3 9 2 2 1 2", ["ngcw", "gkcx", "ngkw"]),
        ("3 1 2 3 2 2 1 3 4 3 5 1 2 1 2 1 1 1 0 2 0 0 1", ["ndhwgc", "kzyxgc", "gnkdhw"]),
    ];
    for (text, [input, filter, output]) in cases {
        let param = text.parse::<ConvParam>().unwrap().with_layouts(input, filter, output).unwrap();
        for direction in Direction::ALL {
            for order in [KOrder::ChannelsFirst, KOrder::ChannelsLast] {
                modes().into_iter().for_each(|mode| check_conv(&param, direction, order, mode, 7));
            }
        }
    }
}

#[test]
fn sums_longer_than_a_block_and_tiles_wider_than_one_agree() {
    // K = 279 products, 289 columns and 130 rows: every dimension is cut.
    let param: ConvParam = "2 1 1 130 31 3 3 17 17 1 1 1 1 1 1 1 1".parse().unwrap();
    for mode in [Accumulate::F64Rounded, Accumulate::F32, Accumulate::MatrixCore(Model::new(Arch::Gfx90a, Input::F16).unwrap())] {
        check_conv(&param, Direction::Forward, KOrder::ChannelsLast, mode, 11);
    }
    check_conv(&param, Direction::BackwardWeight, KOrder::ChannelsFirst, Accumulate::Every4, 12);
    check_conv(&param, Direction::BackwardData, KOrder::ChannelsFirst, Accumulate::Groups4, 13);
}

/// Filter, input, stride, dilation and both pads.
type Dimension = (usize, usize, usize, usize, usize, usize);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_convolutions_agree(
        sizes in (1..3usize, 1..3usize, 1..5usize, 1..5usize),
        space in prop::array::uniform2((1..4usize, 1..9usize, 1..4usize, 1..3usize, 0..3usize, 0..3usize)),
        mode in 0..9usize, direction in 0..3usize, last in any::<bool>(), seed in any::<u32>(),
    ) {
        let v = |f: fn(&Dimension) -> usize| space.iter().map(f).collect::<Vec<_>>();
        let sizes = ConvSizes {
            groups: sizes.0, batch: sizes.1, out_channels: sizes.2, in_channels: sizes.3,
            filter: v(|s| s.0), input: v(|s| s.1), strides: v(|s| s.2), dilations: v(|s| s.3), left_pads: v(|s| s.4), right_pads: v(|s| s.5),
        };
        // Windows larger than the padded input are errors, and tested as such.
        if let Ok(param) = ConvParam::new(sizes) {
            let order = if last { KOrder::ChannelsLast } else { KOrder::ChannelsFirst };
            check_conv(&param, Direction::ALL[direction], order, modes()[mode], u64::from(seed));
        }
    }
}

/// Runs a GEMM of f16 operands into f64.
fn gemm(g: &Gemm<'_>, a: (&[F16], &[usize]), b: (&[F16], &[usize]), shape: &[usize]) -> Vec<f64> {
    let host = Device::host();
    let (am, bm) = (DeviceMem::from_slice(&host, a.0).unwrap(), DeviceMem::from_slice(&host, b.0).unwrap());
    let mut d = DeviceMem::<f64>::new(&host, Layout::contiguous(shape).unwrap().elements()).unwrap();
    g.run(&am.tensor(a.1).unwrap(), &bm.tensor(b.1).unwrap(), &mut d.tensor_mut(shape).unwrap()).unwrap();
    d.to_vec().unwrap()
}

#[test]
fn gemm_agrees_with_direct_loops_in_every_mode_and_transposition() {
    for (batch, m, n, k) in [(1, 1, 1, 1), (2, 3, 5, 7), (1, 131, 250, 21), (3, 9, 16, 300), (1, 2, 3, 0)] {
        let (a, b) = (noise(batch * m * k, 3), noise(batch * k * n, 4));
        for mode in modes() {
            for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                let shape = |t, x, y| if t { [batch, y, x] } else { [batch, x, y] };
                let g = Gemm::new(mode).transpose_a(ta).transpose_b(tb);
                let at = |t: bool, v: &[F16], f: usize, i: usize, j: usize, rows: usize, columns: usize| {
                    v[f * rows * columns + if t { j * rows + i } else { i * columns + j }].to_f64()
                };
                let element = |f: usize, i: usize, j: usize| {
                    let products: Vec<_> = (0..k).map(|p| (at(ta, &a, f, i, p, m, k), at(tb, &b, f, p, j, k, n))).collect();
                    naive::sum(mode, &products)
                };
                let places = (0..batch).flat_map(|f| (0..m).flat_map(move |i| (0..n).map(move |j| (f, i, j))));
                let expected: Vec<f64> = places.map(|(f, i, j)| element(f, i, j)).collect();
                let found = gemm(&g, (&a, &shape(ta, m, k)), (&b, &shape(tb, k, n)), &[batch, m, n]);
                assert_eq!(bits(&found), bits(&expected), "{batch}x{m}x{n}x{k} {mode} {ta} {tb}");
            }
        }
    }
}

#[test]
fn alpha_beta_bias_and_epilogues_are_applied_in_order() {
    let host = Device::host();
    let c = DeviceMem::<f32>::from_slice(&host, &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let c = c.tensor(&[2, 2]).unwrap();
    let bias = DeviceMem::<Bf16>::from_slice(&host, &[Bf16::from_f32(100.0), Bf16::from_f32(-50.0)]).unwrap();
    let one: Vec<F16> = [1.0, 0.0, 0.0, 1.0].map(F16::from_f32).to_vec();
    let x: Vec<F16> = [1.0, 2.0, 3.0, 4.0].map(F16::from_f32).to_vec();
    let run = |g: Gemm<'_>| gemm(&g, (&one, &[2, 2]), (&x, &[2, 2]), &[2, 2]);
    let g = || Gemm::new(Accumulate::F32).alpha(-2.0).beta(10.0, &c).bias(&bias);
    assert_eq!(run(g()), [108.0, -34.0, 124.0, -18.0]);
    assert_eq!(run(g().epilogue(Epilogue::Relu)), [108.0, 0.0, 124.0, 0.0]);
    assert_eq!(run(g().epilogue(Epilogue::Clamp { low: -20.0, high: 110.0 })), [108.0, -20.0, 110.0, -18.0]);
    for (low, high) in [(2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::NAN)] {
        let (x, mut to) = (DeviceMem::from_slice(&host, &x).unwrap(), DeviceMem::<f32>::new(&host, 4).unwrap());
        let (x, mut to) = (x.tensor(&[2, 2]).unwrap(), to.tensor_mut(&[2, 2]).unwrap());
        let error = g().epilogue(Epilogue::Clamp { low, high }).run(&x, &x, &mut to).unwrap_err().to_string();
        assert_eq!(error, format!("clamp cannot be from {low} to {high}: its limits are numbers, the lower one first"));
    }
    // A batch shares matrices without a batch dimension.
    let two = gemm(&Gemm::new(Accumulate::F64).beta(1.0, &c), (&one, &[2, 2]), (&x, &[2, 2]), &[2, 2, 2]);
    assert_eq!(two, [2.0, 4.0, 6.0, 8.0, 2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn a_batch_of_several_dimensions_is_one_of_their_product() {
    let [m, n, k] = [3, 4, 5];
    let (a, b, one) = (noise(6 * m * k, 3), noise(6 * k * n, 4), noise(k * n, 5));
    let own = gemm(&Gemm::new(Accumulate::F32), (&a, &[2, 3, m, k]), (&b, &[2, 3, k, n]), &[2, 3, m, n]);
    assert_eq!(own, gemm(&Gemm::new(Accumulate::F32), (&a, &[6, m, k]), (&b, &[6, k, n]), &[6, m, n]));
    let shared = gemm(&Gemm::new(Accumulate::F32), (&a, &[6, m, k]), (&one, &[k, n]), &[6, m, n]);
    for shape in [&[k, n][..], &[1, k, n], &[1, 1, k, n]] {
        assert_eq!(gemm(&Gemm::new(Accumulate::F32), (&a, &[2, 3, m, k]), (&one, shape), &[2, 3, m, n]), shared, "{shape:?}");
    }
    let host = Device::host();
    let (a, b, mut d) = (
        DeviceMem::from_slice(&host, &a).unwrap(),
        DeviceMem::from_slice(&host, &b).unwrap(),
        DeviceMem::<f32>::new(&host, 6 * m * n).unwrap(),
    );
    for shape in [[3, 2, k, n], [6, 1, k, n]] {
        let error = Gemm::new(Accumulate::F32).run(
            &a.tensor(&[2, 3, m, k]).unwrap(),
            &b.tensor(&shape).unwrap(),
            &mut d.tensor_mut(&[2, 3, m, n]).unwrap(),
        );
        assert_eq!(error.unwrap_err().to_string(), format!("operand B: shape {shape:?} does not match [2, 3, {k}, {n}]"));
    }
}

#[test]
fn magnitudes_and_flushes() {
    let tiny = F16::from_bits(0x0200);
    let a = [F16::from_f32(-2.0), tiny];
    let b = [F16::from_f32(3.0), F16::from_f32(-1.0)];
    let host = Device::host();
    let (am, bm) = (DeviceMem::from_slice(&host, &a).unwrap(), DeviceMem::from_slice(&host, &b).unwrap());
    let (am, bm) = (am.tensor(&[1, 2]).unwrap(), bm.tensor(&[2, 1]).unwrap());
    let mut d = DeviceMem::<f64>::new(&host, 1).unwrap();
    let mut value = |g: &Gemm<'_>, magnitude: bool| {
        let mut to = d.tensor_mut(&[1, 1]).unwrap();
        if magnitude {
            g.magnitudes(&am, &bm, &mut to).unwrap()
        } else {
            g.run(&am, &bm, &mut to).unwrap()
        }
        d.to_vec().unwrap()[0]
    };
    let plain = Gemm::new(Accumulate::F64);
    let flush = Gemm::new(Arithmetic { accumulate: Accumulate::F64, flush_subnormals: true });
    assert_eq!(value(&plain, false), -6.0 - tiny.to_f64());
    assert_eq!(value(&plain, true), 6.0 + tiny.to_f64());
    assert_eq!(value(&flush, false), -6.0);
    let on = |arch| Gemm::new(Model::new(arch, Input::F16).unwrap());
    let least = 2f64.powi(-14);
    for (gemm, expected, reason) in [
        (on(Arch::Gfx908), 6.0 + tiny.to_f64(), "subnormal numbers are kept"),
        (on(Arch::Gfx90a), 6.0, "and flushed"),
        (on(Arch::Gfx942), 6.0 + least, "and aligned as normal ones"),
    ] {
        assert_eq!(value(&gemm, true), expected, "{reason}");
    }
    let c = DeviceMem::from_slice(&host, &[-4.0f32]).unwrap();
    let c = c.tensor(&[1, 1]).unwrap();
    let bias = DeviceMem::from_slice(&host, &[-16.0f32]).unwrap();
    let all = Gemm::new(Accumulate::F64).alpha(-2.0).beta(-0.5, &c).bias(&bias).epilogue(Epilogue::Relu);
    assert_eq!(value(&all, true), 12.0 + 2.0 * tiny.to_f64() + 2.0 + 16.0, "all that is added, without signs");
}

#[test]
fn strided_operands_and_results_of_any_format() {
    let host = Device::host();
    // Every second column of a 2x4 matrix, backwards.
    let a = DeviceMem::<i8>::from_slice(&host, &[1, 9, 2, 9, 3, 9, 4, 9]).unwrap();
    let a = a.strided(Layout::strided(&[2, 2], &[4, -2], 2).unwrap()).unwrap();
    let b = DeviceMem::<i32>::from_slice(&host, &[1, 0, 10, 1_000_000]).unwrap();
    let mut d = DeviceMem::<i32>::new(&host, 6).unwrap();
    let mut to = d.strided_mut(Layout::strided(&[2, 2], &[3, 1], 0).unwrap()).unwrap();
    Gemm::new(Accumulate::F64).run(&a, &b.tensor(&[2, 2]).unwrap(), &mut to).unwrap();
    assert_eq!(d.to_vec().unwrap(), [12, 1_000_000, 0, 34, 3_000_000, 0]);
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let host = Device::host();
    let a = DeviceMem::<f32>::new(&host, 6).unwrap();
    let mut d = DeviceMem::<f32>::new(&host, 4).unwrap();
    let mut run = |x: &[usize], y: &[usize]| {
        Gemm::new(Accumulate::F32).run(&a.tensor(x).unwrap(), &a.tensor(y).unwrap(), &mut d.tensor_mut(&[2, 2]).unwrap())
    };
    assert!(run(&[2, 3], &[3, 2]).is_ok());
    assert!(run(&[2, 3], &[2, 3]).unwrap_err().to_string().contains("operand B: shape [2, 3] does not match [3, 2]"));
    let message = "the result of A, [3, 2], by B, [2, 3]: shape [2, 2] does not match [3, 3]";
    assert_eq!(run(&[3, 2], &[2, 3]).unwrap_err().to_string(), message, "A and B fit each other");
    let message = "operand A cannot be of shape [6]: a matrix has two dimensions, a batch of them more";
    assert_eq!(run(&[6], &[2, 3]).unwrap_err().to_string(), message);
    let c = Conv::new("1 1 1 1 1 2 4 1 1 0 0".parse().unwrap(), Direction::Forward, Accumulate::F64);
    let error = c.run(&a, &d, &mut DeviceMem::<f32>::new(&host, 3).unwrap().tensor_mut(&[3]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("Input in layout gnwc"), "{error}");
}

#[test]
fn a_batch_of_no_elements_may_have_extents_without_a_product() {
    let huge = 1 << (usize::BITS / 2);
    let a = noise(6, 3);
    assert!(gemm(&Gemm::new(Accumulate::F32), (&[], &[huge, huge, 0, 3]), (&a, &[3, 2]), &[huge, huge, 0, 2]).is_empty());
    assert!(gemm(&Gemm::new(Accumulate::F32), (&a, &[2, 3]), (&[], &[huge, huge, 3, 0]), &[huge, huge, 2, 0]).is_empty());
}

/// More elements than any memory holds, of a tensor that has one.
#[test]
fn operands_that_no_memory_holds_are_errors() {
    let host = Device::host();
    let (one, wide) = (DeviceMem::from_slice(&host, &[1.0f32]).unwrap(), DeviceMem::from_slice(&host, &[1.0f64]).unwrap());
    let mut d = DeviceMem::<f32>::new(&host, 1).unwrap();
    let (a, b) = (Layout::strided(&[1, 1 << 50], &[0, 0], 0).unwrap(), Layout::strided(&[1 << 50, 1], &[0, 0], 0).unwrap());
    for (a, b, expected) in [
        (one.strided(a.clone()).unwrap(), one.strided(b.clone()).unwrap(), 1usize << 52),
        (wide.strided(a).unwrap(), wide.strided(b).unwrap(), 1 << 53),
    ] {
        let error = Gemm::new(Accumulate::F64).run(&a, &b, &mut d.tensor_mut(&[1, 1]).unwrap()).unwrap_err();
        assert!(matches!(error, crate::Error::OutOfMemory { bytes, .. } if bytes == expected), "{error}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let param: ConvParam = "2 2 3 40 9 3 3 20 20 1 1 1 1 1 1 1 1".parse().unwrap();
    let c = Conv::new(param.clone(), Direction::Forward, Accumulate::F32Fma);
    let (a, b) = (noise(param.elements(Role::Input), 1), noise(param.elements(Role::Filter), 2));
    let run = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| bits(&conv(&c, &a, &b)));
    assert_eq!(run(1), run(7));
}

/// A result whose elements share memory has no place for all of them; interleaved rows have.
#[test]
fn elements_of_a_result_must_not_overlap() {
    use crate::device::TensorMut;
    use crate::dtype::DType;
    let x = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let a = x.tensor(&[2, 2]).unwrap();
    let mut bytes = vec![0; 64];
    let mut at = |shape: &[usize], strides: &[isize], run: &dyn Fn(&mut TensorMut<'_>) -> crate::Result<()>| {
        let layout = Layout::strided(shape, strides, 0).unwrap();
        run(&mut TensorMut::from_host_bytes(&mut bytes, DType::F32, layout).unwrap()).map_err(|e| e.to_string())
    };
    let gemm = Gemm::new(Accumulate::F64);
    assert_eq!(at(&[2, 2], &[3, 2], &|d| gemm.run(&a, &a, d)), Ok(()));
    for strides in [[0, 1], [1, 1], [0, 0]] {
        for error in [at(&[2, 2], &strides, &|d| gemm.run(&a, &a, d)), at(&[2, 2], &strides, &|d| gemm.magnitudes(&a, &a, d))] {
            assert!(error.as_ref().is_err_and(|text| text.contains("must not overlap")), "{strides:?}: {error:?}");
        }
    }
    let param: ConvParam = "1 1 1 1 1 1 4 1 1 0 0".parse().unwrap();
    let conv = Conv::new(param, Direction::Forward, Accumulate::F64);
    let one = DeviceMem::from_slice(&Device::host(), &[1.0f32]).unwrap();
    assert_eq!(at(&[4], &[2], &|d| conv.run(&x, &one, d)), Ok(()));
    let error = at(&[4], &[0], &|d| conv.run(&x, &one, d));
    assert!(error.as_ref().is_err_and(|text| text.contains("must not overlap")), "{error:?}");
}

#[test]
fn names_are_shown_and_read() {
    for direction in Direction::ALL {
        assert_eq!((direction.to_string().as_str(), direction.name().parse().unwrap()), (direction.name(), direction));
    }
    for order in KOrder::ALL {
        assert_eq!((order.to_string().as_str(), order.name().parse().unwrap()), (order.name(), order));
    }
    assert_eq!(format!("{:>4}|{:<15}|", Direction::Forward, KOrder::ChannelsLast), " fwd|channels-last  |");
    let error = "channels".parse::<KOrder>().unwrap_err();
    assert_eq!(error.to_string(), "order cannot be channels: it must be channels-first or channels-last");
}
