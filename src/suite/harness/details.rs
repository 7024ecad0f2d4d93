//! Where and at which magnitudes a result errs: [`Details`] for the pictures of a report.
//!
//! Elements are seen on the host, in parts of a fixed size, whose sums are joined in row-major order, so that the same tensors give the same bits everywhere. Of tensors with
//! more than [`MOST`] elements a regular sample is seen: every n-th index of the outermost dimensions.

use super::record::{Band, Details, HeatMap};
use crate::device::{AsTensor, DeviceKind, Layout, TensorRef};
use crate::error::{Error, Result};
use crate::verify::{NonFinite, Pair, Report, fold_pairs};

/// The most elements that are seen.
const MOST: usize = 1 << 22;

/// The most blocks of a heat map, down and across.
const BLOCKS: u64 = 32;

impl Details {
    /// Of a result and a reference on the host, by the tolerance of a report on them.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes differ, [`Error::WrongDevice`] for tensors that are not on the host.
    pub fn new(result: &impl AsTensor, reference: &impl AsTensor, report: &Report, nonfinite: NonFinite) -> Result<Details> {
        let wrong = |pair: &Pair, _| pair.mismatch;
        sampled([&result.as_tensor(), &reference.as_tensor()], report, nonfinite, MOST, wrong)
    }

    /// Of a result and the exact one on the host, of which these elements, in logical order, are wrong; `errors` is the report of a comparison of the two.
    pub(crate) fn of_beyond(result: &impl AsTensor, exact: &impl AsTensor, errors: &Report, beyond: &[bool]) -> Result<Details> {
        let wrong = |_: &Pair, index: usize| beyond[index];
        sampled([&result.as_tensor(), &exact.as_tensor()], errors, NonFinite::Fail, MOST, wrong)
    }
}

/// [`Details::new`] with at most about `most` elements, of which those are wrong that `wrong` says so of, a pair and its logical index.
fn sampled(
    [result, reference]: [&TensorRef<'_>; 2],
    report: &Report,
    nonfinite: NonFinite,
    most: usize,
    wrong: impl Fn(&Pair, usize) -> bool + Sync,
) -> Result<Details> {
    if result.shape() != reference.shape() {
        return Err(Error::Shape { what: "the result".to_owned(), expected: reference.shape().to_vec(), found: result.shape().to_vec() });
    }
    let steps = steps(result.shape(), most);
    let [a, r] = [result, reference].map(|tensor| thinned(tensor, &steps));
    let (a, r) = (a?, r?);
    let shape = result.shape();
    let begin = |start: usize| {
        let at: Vec<usize> = a.layout().coordinates(start).iter().zip(&steps).map(|(i, step)| i * step).collect();
        (at, Part::new(shape))
    };
    let take = |(at, part): &mut (Vec<usize>, Part), pair: Pair| {
        let index = at.iter().zip(shape).fold(0, |index, (i, extent)| index * extent + i);
        part.add(&pair, at, wrong(&pair, index));
        advance(at, shape, &steps);
    };
    let mut whole = Part::new(shape);
    fold_pairs(&a, &r, report, nonfinite, begin, take, |(_, part)| -> Result<()> {
        whole.join(part);
        Ok(())
    })?;
    Ok(whole.details())
}

/// The coordinates of the next element of a sample, in row-major order; from the last one on they start over.
fn advance(at: &mut [usize], shape: &[usize], steps: &[usize]) {
    for ((at, extent), step) in at.iter_mut().zip(shape).zip(steps).rev() {
        *at += step;
        if *at < *extent {
            return;
        }
        *at = 0;
    }
}

/// For each dimension the distance of the indices that are seen: the outermost ones are thinned first.
fn steps(shape: &[usize], most: usize) -> Vec<usize> {
    let mut left: usize = shape.iter().product();
    let mut step = |&extent: &usize| {
        let step = left.div_ceil(most).clamp(1, extent.max(1));
        left = left / extent.max(1) * extent.div_ceil(step);
        step
    };
    shape.iter().map(&mut step).collect()
}

/// Every n-th index of each dimension.
fn thinned<'a>(tensor: &TensorRef<'a>, steps: &[usize]) -> Result<TensorRef<'a>> {
    if tensor.device().kind() != DeviceKind::Host {
        return Err(Error::WrongDevice { what: "a tensor", expected: "the host".to_owned(), found: tensor.device().name() });
    }
    let layout = tensor.layout();
    let shape: Vec<usize> = layout.shape().iter().zip(steps).map(|(extent, &step)| extent.div_ceil(step)).collect();
    let strides: Vec<isize> = layout.strides().iter().zip(steps).map(|(stride, &step)| stride * step as isize).collect();
    tensor.view(Layout::strided(&shape, &strides, layout.offset())?)
}

/// The least e of 2^e <= |x| < 2^(e+1) of f64.
const LEAST: i32 = -1074;
/// As many magnitudes are there: 0, and those of the exponents up to 1023.
const MAGNITUDES: usize = 1 + (1024 - LEAST) as usize;

/// The magnitude of a finite number: 0 for 0, and one more for each exponent from the least on.
fn magnitude(x: f64) -> usize {
    if x == 0.0 { 0 } else { (libm::ilogb(x) - LEAST) as usize + 1 }
}

/// Some of the elements.
struct Part {
    /// By [`magnitude`].
    bands: Vec<Sums>,
    /// Nothing for tensors without two dimensions.
    map: Option<Map>,
}

impl Part {
    fn new(shape: &[usize]) -> Part {
        Part { bands: vec![Sums::default(); MAGNITUDES], map: Map::new(shape) }
    }

    fn add(&mut self, pair: &Pair, at: &[usize], mismatch: bool) {
        let reference = pair.reference.to_f64();
        // What has no magnitude is in no band.
        if reference.is_finite() {
            self.bands[magnitude(reference)].add(pair, mismatch);
        }
        if let Some(map) = &mut self.map {
            map.add(at, mismatch);
        }
    }

    /// Takes the elements of the next part.
    fn join(&mut self, next: Part) {
        self.bands.iter_mut().zip(&next.bands).for_each(|(mine, theirs)| mine.join(theirs));
        if let (Some(map), Some(theirs)) = (&mut self.map, &next.map) {
            map.join(theirs);
        }
    }

    fn details(self) -> Details {
        let exponents = std::iter::once(None).chain((LEAST..).map(Some));
        let bands = exponents.zip(self.bands).filter(|(_, sums)| sums.elements > 0);
        Details { magnitudes: bands.map(|(exponent, sums)| sums.band(exponent)).collect(), map: self.map.map(Map::finish) }
    }
}

/// What is known of the elements of one magnitude.
#[derive(Clone, Default)]
struct Sums {
    elements: u64,
    mismatches: u64,
    max: f64,
    sum: f64,
}

impl Sums {
    /// A result that is not finite is infinitely far from a reference that is.
    fn add(&mut self, pair: &Pair, mismatch: bool) {
        let error = if pair.difference.is_nan() { f64::INFINITY } else { pair.difference.abs() };
        self.elements += 1;
        self.mismatches += u64::from(mismatch);
        self.max = self.max.max(error);
        self.sum += error;
    }

    fn join(&mut self, next: &Sums) {
        self.elements += next.elements;
        self.mismatches += next.mismatches;
        self.max = self.max.max(next.max);
        self.sum += next.sum;
    }

    fn band(self, exponent: Option<i32>) -> Band {
        Band { exponent, elements: self.elements, mismatches: self.mismatches, max: self.max, mean: self.sum / self.elements as f64 }
    }
}

/// Elements and mismatches by blocks of the last two dimensions.
struct Map {
    block: [u64; 2],
    blocks: [u32; 2],
    counts: Vec<(u64, u64)>,
}

impl Map {
    fn new(shape: &[usize]) -> Option<Map> {
        let &[.., rows, columns] = shape else { return None };
        let extents = [rows as u64, columns as u64];
        let block = extents.map(|extent| extent.div_ceil(BLOCKS).max(1));
        let blocks = [0, 1].map(|i| extents[i].div_ceil(block[i]) as u32);
        Some(Map { block, blocks, counts: vec![(0, 0); blocks[0] as usize * blocks[1] as usize] })
    }

    fn add(&mut self, coordinates: &[usize], mismatch: bool) {
        let &[.., row, column] = coordinates else { return };
        let [down, across] = [row / self.block[0] as usize, column / self.block[1] as usize];
        if let Some((elements, mismatches)) = self.counts.get_mut(down * self.blocks[1] as usize + across) {
            *elements += 1;
            *mismatches += u64::from(mismatch);
        }
    }

    fn join(&mut self, other: &Map) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            mine.0 += theirs.0;
            mine.1 += theirs.1;
        }
    }

    fn finish(self) -> HeatMap {
        let share = |&(elements, mismatches): &(u64, u64)| if elements == 0 { 0.0 } else { (mismatches as f64 / elements as f64) as f32 };
        HeatMap { blocks: self.blocks, block: self.block, shares: self.counts.iter().map(share).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, DeviceMem};
    use crate::verify::{Tolerance, gpu_verify};

    /// The details of tensors of a shape, whose elements stand in the memory in the opposite order of the dimensions.
    fn details(values: &[(f32, f32)], shape: &[usize], most: usize) -> Details {
        let device = Device::host();
        let mut strides = vec![1isize; shape.len()];
        (1..shape.len()).for_each(|d| strides[d] = strides[d - 1] * shape[d - 1] as isize);
        let layout = || Layout::strided(shape, &strides, 0).unwrap();
        let memory = |side: fn(&(f32, f32)) -> f32| {
            let mut memory = vec![0.0; values.len()];
            values.iter().enumerate().for_each(|(i, pair)| memory[layout().index(i)] = side(pair));
            DeviceMem::<f32>::from_slice(&device, &memory).unwrap()
        };
        let (a, r) = (memory(|pair| pair.0), memory(|pair| pair.1));
        let (a, r) = (a.strided(layout()).unwrap(), r.strided(layout()).unwrap());
        let report = gpu_verify(&a, &r, &Tolerance::new(0.0, 0.3).unwrap()).unwrap();
        sampled([&a, &r], &report, NonFinite::Fail, most, |pair, _| pair.mismatch).unwrap()
    }

    #[test]
    fn errors_lie_in_the_band_of_their_reference() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let pairs = [(0.25, 0.0), (1.0, 1.0), (1.5, 1.75), (-3.0, -2.0), (3.5, 3.75), (nan, 5.0), (1.0, inf), (1e-40, 1e-40)];
        let found = details(&pairs, &[8], MOST);
        let bands: Vec<_> = found.magnitudes.iter().map(|b| (b.exponent, b.elements, b.mismatches, b.max, b.mean)).collect();
        let expected = [
            (None, 1, 0, 0.25, 0.25),
            (Some(-133), 1, 0, 0.0, 0.0),
            (Some(0), 2, 0, 0.25, 0.125),
            (Some(1), 2, 1, 1.0, 0.625),
            (Some(2), 1, 1, f64::INFINITY, f64::INFINITY),
        ];
        assert_eq!(bands, expected, "zeros, a subnormal, [1, 2), [2, 4), [4, 8); an infinite reference is in none");
        assert!(found.map.is_none(), "one dimension has no map");
    }

    #[test]
    fn mismatches_lie_in_the_block_of_their_last_two_coordinates() {
        for (shape, wrong, blocks, block, hot, share, reason) in [
            (&[2, 3][..], &[4usize][..], [2, 3], [1, 1], 4, 1.0, "an element a block"),
            (&[2, 2, 3], &[4, 10], [2, 3], [1, 1], 4, 1.0, "both outer indices"),
            (&[2, 2, 3], &[10], [2, 3], [1, 1], 4, 0.5, "one of two"),
            (&[64, 33], &[33 * 63 + 32], [32, 17], [2, 2], 32 * 17 - 1, 0.5, "the last block holds two rows and one column"),
        ] {
            let n: usize = shape.iter().product();
            let pairs: Vec<(f32, f32)> = (0..n).map(|i| (if wrong.contains(&i) { 2.0 } else { 1.0 }, 1.0)).collect();
            let map = details(&pairs, shape, MOST).map.unwrap();
            assert_eq!((map.blocks, map.block), (blocks, block), "{reason}");
            let found: Vec<(usize, f32)> = map.shares.iter().copied().enumerate().filter(|s| s.1 > 0.0).collect();
            assert_eq!(found, [(hot, share)], "{reason}");
        }
    }

    #[test]
    fn large_tensors_are_sampled_from_the_outermost_dimension_on() {
        for (shape, most, expected) in [
            (&[8, 4][..], 32, vec![1, 1]),
            (&[8, 4], 31, vec![2, 1]),
            (&[8, 4], 16, vec![2, 1]),
            (&[2, 8], 4, vec![2, 2]),
            (&[100], 10, vec![10]),
            (&[], 1, vec![]),
        ] {
            assert_eq!(steps(shape, most), expected, "{shape:?}, {most}");
        }
        // Rows 0, 2 and 4 of six are seen, and the mismatch of row 4 lies where it is.
        let pairs: Vec<(f32, f32)> = (0..24).map(|i| (if i == 17 { 2.0 } else { 1.0 }, 1.0)).collect();
        let found = details(&pairs, &[6, 4], 12);
        assert_eq!((found.magnitudes[0].elements, found.magnitudes[0].mismatches), (12, 1));
        assert_eq!(found.map.unwrap().shares.iter().position(|&share| share == 1.0), Some(17));
    }

    /// More elements than a part has, in a shape whose rows end anywhere in parts.
    #[test]
    fn parts_are_joined_in_the_order_of_their_elements() {
        let shape = [5, 301, 150];
        let value = |i: usize| (1 << (i % 5)) as f32;
        let pairs: Vec<(f32, f32)> = (0..5 * 301 * 150).map(|i| (value(i) + if i % 1009 == 7 { 0.5 } else { 0.125 }, value(i))).collect();
        for most in [MOST, 150_000] {
            let found = details(&pairs, &shape, most);
            let step = steps(&shape, most)[0];
            let seen: Vec<usize> = (0..pairs.len()).filter(|i| (i / (301 * 150)).is_multiple_of(step)).collect();
            for (exponent, band) in found.magnitudes.iter().enumerate() {
                let own: Vec<usize> = seen.iter().copied().filter(|i| i % 5 == exponent).collect();
                let wrong = own.iter().filter(|&&i| i % 1009 == 7).count() as f64;
                let mean = (0.125 * own.len() as f64 + 0.375 * wrong) / own.len() as f64;
                assert_eq!(
                    (band.exponent, band.elements, band.mismatches),
                    (Some(exponent as i32), own.len() as u64, wrong as u64),
                    "{most}"
                );
                assert_eq!((band.max, band.mean), (0.5, mean), "{most}");
            }
            let map = found.map.unwrap();
            assert_eq!((map.blocks, map.block), ([31, 30], [10, 5]));
            let of_first = |i: &usize| i / 150 % 301 < 10 && i % 150 < 5;
            let first: Vec<usize> = seen.iter().copied().filter(of_first).collect();
            let share = first.iter().filter(|&&i| i % 1009 == 7).count() as f64 / first.len() as f64;
            assert_eq!(map.shares[0], share as f32, "{most}");
        }
    }
}
