//! Causes of wrong convolutions.

use super::*;

/// Convolutions, by products that are taken one by one.
#[test]
fn mistakes_of_convolutions_are_named() {
    let host = Device::host();
    let param: ConvParam = "2 2 2 6 5 3 2 7 6 1 2 2 1 1 0 2 1".parse().unwrap();
    for (direction, k, window) in [(Direction::Forward, 30, 6), (Direction::BackwardData, 36, 6), (Direction::BackwardWeight, 0, 1)] {
        let roles = direction.roles();
        let [first, second, _] = roles.map(|role| param.elements(role));
        let (x, y) = (numbers::<F16>(first, [-1.0, 1.0], 1), numbers::<F16>(second, [-1.0, 1.0], 2));
        // Factors as (second, first): the filter comes first.
        let all = |param: &ConvParam| naive::conv_products(param, direction, KOrder::ChannelsFirst, false, (&wide(&x), &wide(&y)));
        let products = all(&param);
        let other: ConvParam = "2 2 2 6 5 3 2 7 6 1 2 2 1 2 1 1 0".parse().unwrap();
        let dense: ConvParam = "2 2 2 6 5 3 2 7 6 1 2 1 1 1 0 0 1".parse().unwrap();
        type Sum<'a> = &'a dyn Fn(&[(f64, f64)]) -> f64;
        let plain: Sum<'_> = &|p| p.iter().map(|(f, x)| f * x).sum();
        let flipped: Sum<'_> = &|p| (0..p.len()).map(|i| p[i / window * window + window - 1 - i % window].0 * p[i].1).sum();
        let without_tap =
            |tap: usize, p: &[(f64, f64)]| p.iter().enumerate().filter(|(i, _)| i % window != tap).map(|(_, (f, x))| f * x).sum();
        let without_channel: Sum<'_> = &|p| p[..p.len() - window].iter().map(|(f, x)| f * x).sum();
        let narrow: Sum<'_> = &|p| p.iter().map(|(f, x)| through::<Bf16>(*f) * through::<Bf16>(*x)).sum();
        let first_tile: Sum<'_> = &|p| p[..2].iter().map(|(f, x)| f * x).sum();
        let mut rows: Vec<(&str, Vec<f64>)> = vec![
            ("operands are rounded to bf16 first", products.iter().map(|p| narrow(p)).collect()),
            ("nothing but the first 2 products of each sum", products.iter().map(|p| first_tile(p)).collect()),
            ("left and right padding are exchanged", all(&other).iter().map(|p| plain(p)).collect()),
            ("the filter is not dilated", all(&dense).iter().map(|p| plain(p)).collect()),
        ];
        if window > 1 {
            assert_eq!(products[0].len(), k);
            rows.push(("the filter is flipped", products.iter().map(|p| flipped(p)).collect()));
            for (tap, words) in [
                (window - 1, "the last position of the filter is missing"),
                (0, "the first position of the filter is missing"),
                (1, "position [0, 1] of the filter is missing"),
                (4, "position [2, 0] of the filter is missing"),
            ] {
                rows.push((words, products.iter().map(|p| without_tap(tap, p)).collect()));
            }
            rows.push(("the last 6 products of each sum are missing", products.iter().map(|p| without_channel(p)).collect()));
        }
        for (words, d) in rows {
            let d = DeviceMem::from_slice(&host, &d.iter().map(|&x| x as f32).collect::<Vec<_>>()).unwrap();
            if d.len() != products.len() {
                continue;
            }
            let report = Check::conv(param.clone(), direction, &x, &y, &d).run().unwrap();
            assert!(report.to_string().contains(&format!("\n  cause      {words}")), "{direction:?}: {words}\n{report}");
        }
    }
}

/// Places of a convolution's result are those of the tensor that was given, though its positions are looked at as columns of a matrix.
#[test]
fn places_in_convolutions_are_those_of_the_result() {
    let host = Device::host();
    let param: ConvParam = "2 1 2 4 3 3 3 6 8 1 1 1 1 1 1 1 1".parse().unwrap();
    let param = param.with_layouts("nchw", "kcyx", "nkhw").unwrap();
    let (x, w) = (numbers::<F16>(2 * 3 * 6 * 8, [-1.0, 1.0], 1), numbers::<F16>(4 * 3 * 3 * 3, [-1.0, 1.0], 2));
    let shape = [2, 4, 6, 8];
    let (x, w) = (x.tensor(&[2, 3, 6, 8]).unwrap(), w.tensor(&[4, 3, 3, 3]).unwrap());
    let mut right = DeviceMem::<f32>::new(&host, 2 * 4 * 6 * 8).unwrap();
    Conv::new(param.clone(), Direction::Forward, Accumulate::F64).run(&x, &w, &mut right.tensor_mut(&shape).unwrap()).unwrap();
    let right = right.to_vec().unwrap();
    let at = |i: usize| [i / 192, i / 48 % 4, i / 8 % 6, i % 8];
    let made = |of: &dyn Fn(usize) -> f32| (0..right.len()).map(of).collect::<Vec<f32>>();
    let of_columns = |j: usize| move |i: usize| at(i)[2] == j;
    for (d, words) in [
        (made(&|i| if at(i)[1] == 3 { 0.0 } else { right[i] }), "all in dimension 1 at 3"),
        (made(&|i| if of_columns(5)(i) { 0.0 } else { right[i] }), "all in dimension 2 at 5"),
        (made(&|i| if of_columns(0)(i) { 0.0 } else { right[i - 8] }), "shifted by 1 in dimension 2"),
        (
            made(&|i| right[i] + f32::from(u8::from(at(i) == [1, 2, 3, 4]))),
            "the only mismatch lies in dimension 0 at 1, dimension 1 at 2, dimension 2 at 3, dimension 3 at 4",
        ),
    ] {
        let d = DeviceMem::from_slice(&host, &d).unwrap();
        let report = Check::conv(param.clone(), Direction::Forward, &x, &w, d.tensor(&shape).unwrap()).run().unwrap();
        assert!(report.to_string().contains(words), "{words}\n{report}");
    }
}

/// The gradient of a filter is the result of a convolution: what is flipped there is where the numbers lie.
#[test]
fn a_flipped_gradient_of_a_filter_is_named() {
    let host = Device::host();
    for (param, [input, filter, output]) in [
        ("2 1 2 4 3 3 3 6 8 1 1 1 1 1 1 1 1", ["gnchw", "gkcyx", "gnkhw"]),
        ("2 2 2 3 4 2 3 7 6 1 2 2 1 1 0 1 1", ["gnchw", "gkcyx", "gnkhw"]),
        ("1 1 3 4 5 3 9 1 1 1 1", ["gncw", "gkcx", "gnkw"]),
    ] {
        let param: ConvParam = param.parse().unwrap();
        let param = param.with_layouts(input, filter, output).unwrap();
        let conv = Conv::new(param.clone(), Direction::BackwardWeight, Accumulate::F64);
        let [first, second, result] = conv.roles().map(|role| param.elements(role));
        let (x, g) = (numbers::<F16>(first, [-1.0, 1.0], 1), numbers::<F16>(second, [-1.0, 1.0], 2));
        let mut w = DeviceMem::<f32>::new(&host, result).unwrap();
        conv.run(&x, &g, &mut w.tensor_mut(&[result]).unwrap()).unwrap();
        let mut w = w.to_vec().unwrap();
        w.chunks_exact_mut(param.filter_space().iter().product()).for_each(<[f32]>::reverse);
        let w = DeviceMem::from_slice(&host, &w).unwrap();
        let report = Check::conv(param.clone(), Direction::BackwardWeight, &x, &g, &w).run().unwrap();
        assert!(report.to_string().contains("\n  cause      the gradient of the filter is flipped: "), "{report}");
        assert_eq!(report.cause.unwrap().kind, "filter");
    }
}
