//! Pieces of results: their numbers are those of the whole result, and shapes may lack axes of extent 1.

use super::super::piece::Piece;
use super::*;

/// That the exact result of each piece is what the exact result of all has there, and that a piece has the element that it is made for; the shapes of the first piece and of all.
fn pieces_of(check: &Check<'_>, most: [usize; 2]) -> [Vec<usize>; 2] {
    let shape = check.result.shape();
    let exact = |problem: &Problem<'_>, shape: &[usize]| problem.exact(Accumulate::F64.into(), shape).unwrap().to_vec().unwrap();
    let (all, last) = (exact(&check.problem, shape), check.result.elements() - 1);
    for element in [0, 1, last / 7, last / 3, last / 2, last] {
        let piece = Piece::with(&check.problem, shape, most, element).unwrap().unwrap();
        let part = exact(&piece.problem, &piece.shape);
        let indices: Vec<usize> = (0..piece.elements()).map(|i| piece.index_of(i)).collect();
        assert!(indices.contains(&element), "{:?} of {:?} for element {element}", piece.shape, piece.whole);
        for (x, index) in part.iter().zip(indices) {
            assert_eq!(*x, all[index], "{:?} of {:?} for element {element}", piece.shape, piece.whole);
        }
    }
    let first = Piece::with(&check.problem, shape, most, 0).unwrap().unwrap();
    assert_eq!(first.start, vec![0; first.whole.len()]);
    [first.shape, first.whole]
}

#[test]
fn a_piece_of_a_batch_is_one_of_a_matrix() {
    let [batch, m, n, k] = [3, 20, 70, 32];
    let (a, b) = (numbers::<F16>(batch * m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (a, b) = (a.tensor(&[batch, k, m]).unwrap(), b.tensor(&[k, n]).unwrap());
    let mut d = DeviceMem::<f32>::new(&Device::host(), batch * m * n).unwrap();
    let shape = [batch, m, n];
    let model = Model::new(Arch::Gfx908, Input::F16).unwrap();
    Gemm::new(model).transpose_a(true).run(&a, &b, &mut d.tensor_mut(&shape).unwrap()).unwrap();
    let right = d.to_vec().unwrap();
    // Element (0, 5) is in the first piece, (2, 19, 69) the last of all.
    for (wrong, first) in [(None, None), (Some(5), Some(vec![0, 0, 5])), (Some(batch * m * n - 1), Some(vec![2, 19, 69]))] {
        let mut values = right.clone();
        wrong.into_iter().for_each(|i: usize| values[i] = f32::from_bits(values[i].to_bits() ^ 1));
        let d = DeviceMem::from_slice(&Device::host(), &values).unwrap();
        let d = d.tensor(&shape).unwrap();
        let check = Check::gemm(&a, &b, &d).transpose_a(true).arch(Arch::Gfx908);
        let exactness = check.run().unwrap().exactness.unwrap();
        assert_eq!((exactness.differing, exactness.first), (usize::from(wrong.is_some()), first));
        assert_eq!(pieces_of(&check, [16, 64]), [vec![1, 16, 64], shape.to_vec()]);
        assert!(Piece::with(&check.problem, &shape, [20, 70], 0).unwrap().is_some_and(|piece| piece.shape == [1, 20, 70]));
        assert!(Piece::with(&check.problem, &shape[1..], [20, 70], 0).unwrap().is_none(), "nothing is left out of one matrix");
    }
}

#[test]
fn a_piece_of_a_convolution_has_some_images_and_channels_of_a_group() {
    let plain: ConvParam = "2 2 7 20 18 3 3 6 5 1 2 1 1 1 1 0 1".parse().unwrap();
    let moved = plain.clone().with_layouts("ngchw", "gkcyx", "nhwgk").unwrap();
    for param in [plain, moved] {
        for (direction, extents) in [
            (Direction::Forward, [('n', 5), ('k', 16)]),
            (Direction::BackwardData, [('n', 3), ('c', 16)]),
            (Direction::BackwardWeight, [('k', 16), ('c', 16)]),
        ] {
            let roles = direction.roles();
            let [first, second, result] = roles.map(|role| param.shape(role));
            let count = |shape: &[usize]| shape.iter().product();
            let (x, y) = (numbers::<F16>(count(&first), [-1.0, 1.0], 1), numbers::<F16>(count(&second), [-1.0, 1.0], 2));
            let d = numbers::<f32>(count(&result), [-1.0, 1.0], 3);
            // In the shapes of the layout, and in one dimension.
            let (xs, ys, ds) = (x.tensor(&first).unwrap(), y.tensor(&second).unwrap(), d.tensor(&result).unwrap());
            for check in [Check::conv(param.clone(), direction, &xs, &ys, &ds), Check::conv(param.clone(), direction, &x, &y, &d)] {
                let [part, whole] = pieces_of(&check, [16, 64]);
                assert_eq!(whole, result);
                let letters = param.layout(roles[2]).to_string();
                for (letter, extent) in extents.into_iter().chain([('g', 1)]) {
                    let at = letters.chars().position(|c| c == letter);
                    assert!(at.is_none_or(|at| part[at] == extent), "{direction:?}, {letter}: {part:?} in {letters}");
                }
            }
        }
    }
}

/// Images of four dimensions have no axis of groups.
#[test]
fn tensors_of_convolutions_may_lack_axes_of_extent_1() {
    let param = |text: &str| text.parse::<ConvParam>().unwrap().with_layouts("nchw", "kcyx", "nkhw").unwrap();
    let one_group = param("2 1 2 5 3 3 3 8 8 1 1 1 1 0 0 0 0");
    let (x, w) = (numbers::<F16>(2 * 3 * 64, [-1.0, 1.0], 1), numbers::<F16>(5 * 3 * 9, [-1.0, 1.0], 2));
    let mut y = DeviceMem::<f32>::new(&Device::host(), 2 * 5 * 36).unwrap();
    let model = Model::new(Arch::Gfx942, Input::F16).unwrap();
    Conv::new(one_group.clone(), Direction::Forward, model).run(&x, &w, &mut y.tensor_mut(&[360]).unwrap()).unwrap();
    let flat = Check::conv(one_group.clone(), Direction::Forward, &x, &w, &y).arch(Arch::Gfx942).run().unwrap();
    let (xs, ws, ys) = (x.tensor(&[2, 3, 8, 8]).unwrap(), w.tensor(&[5, 3, 3, 3]).unwrap(), y.tensor(&[2, 5, 6, 6]).unwrap());
    let check = Check::conv(one_group.clone(), Direction::Forward, &xs, &ws, &ys).arch(Arch::Gfx942);
    let report = check.run().unwrap();
    assert!(report.passed() && report.exactness == flat.exactness && flat.exactness.is_some_and(|e| e.differing == 0), "{report}");
    assert_eq!((report.report.worst.map(|w| w.ratio), report.report.shape), (flat.report.worst.map(|w| w.ratio), vec![2, 5, 6, 6]));
    assert_eq!(pieces_of(&check, [2, 9]), [vec![1, 1, 2, 6, 6], vec![2, 1, 5, 6, 6]]);
    assert!(check.freivalds(2).unwrap().passed());
    // Other orders of the axes are told, and so is the missing axis of more than one group.
    let turned = x.tensor(&[2, 8, 8, 3]).unwrap();
    let two_groups = param("2 2 2 5 3 3 3 8 8 1 1 1 1 0 0 0 0");
    for (param, x, words) in [(one_group, &turned, "Input in layout ngchw"), (two_groups, &xs, "Input in layout ngchw")] {
        let error = Check::conv(param, Direction::Forward, x, &ws, &ys).run().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
