//! How an N-dimensional tensor lies in a buffer.

use crate::error::{Error, Result};

/// Shape, strides and offset of a tensor, all counted in elements. Strides may be zero (broadcast) or negative.
///
/// Logical order is row-major: element 0 is the origin and the last dimension varies fastest, whatever the strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
    elements: usize,
}

impl Layout {
    /// A dense row-major tensor.
    ///
    /// # Errors
    /// When the number of elements overflows.
    pub fn contiguous(shape: &[usize]) -> Result<Layout> {
        let elements = count(shape)?;
        let mut strides = vec![0; shape.len()];
        let mut step = 1isize;
        for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
            *stride = step;
            step = step.saturating_mul(extent.max(1) as isize);
        }
        Ok(Layout { shape: shape.to_vec(), strides, offset: 0, elements })
    }

    /// A vector.
    pub(crate) fn flat(elements: usize) -> Layout {
        Layout { shape: vec![elements], strides: vec![1], offset: 0, elements }
    }

    /// A tensor whose element at (i0, i1 ...) lies at `offset + Σ i·stride`.
    ///
    /// # Errors
    /// When shape and strides differ in length, or an element would lie before the buffer or beyond the address space.
    pub fn strided(shape: &[usize], strides: &[isize], offset: usize) -> Result<Layout> {
        if shape.len() != strides.len() {
            return Err(Error::Length { what: "strides", expected: shape.len(), found: strides.len() });
        }
        let layout = Layout { shape: shape.to_vec(), strides: strides.to_vec(), offset, elements: count(shape)? };
        if layout.elements > 0 {
            let (low, _) = layout.span().ok_or_else(|| invalid("strides", format!("{strides:?}"), "their span overflows"))?;
            if low < 0 {
                return Err(invalid("strides", format!("{strides:?}"), "an element would lie before the buffer"));
            }
        }
        Ok(layout)
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The memory index of the origin, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of elements; 1 for a scalar (no dimensions).
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// One more than the largest element index that the layout touches; 0 when it has no elements.
    pub fn end(&self) -> usize {
        if self.elements == 0 { 0 } else { self.span().map_or(usize::MAX, |(_, high)| high as usize + 1) }
    }

    /// Whether logical order is memory order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&stride, &extent) in self.strides.iter().zip(&self.shape).rev() {
            if extent > 1 && stride != step {
                return false;
            }
            step = step.saturating_mul(extent.max(1) as isize);
        }
        true
    }

    /// The memory index of logical element `index`.
    ///
    /// # Panics
    /// When there is no such element, as a slice does: `index` must be less than [`elements`](Layout::elements).
    pub fn index(&self, index: usize) -> usize {
        assert!(index < self.elements, "element {index} of a layout of shape {:?}, which has {}", self.shape, self.elements);
        let from_last = coordinates_from_last(index, self.shape.iter().rev().copied());
        from_last.zip(self.strides.iter().rev()).fold(self.offset as isize, |at, (c, stride)| at + c as isize * stride) as usize
    }

    /// The coordinates of logical element `index`. Past the last element they start over; if there are no elements they are meaningless. This does not panic.
    pub fn coordinates(&self, index: usize) -> Vec<usize> {
        // Collected, since glibc's calloc is slower than its malloc.
        let mut at: Vec<usize> = coordinates_from_last(index, self.shape.iter().rev().copied()).collect();
        at.reverse();
        at
    }

    /// The same element order with as few dimensions as possible: (extents, strides), outermost first.
    /// Extents of 1 vanish and neighbours that continue each other merge; a contiguous tensor has one dimension, and so has one without elements,
    /// whose other extents may have no product.
    pub(crate) fn collapsed(&self) -> Vec<(usize, isize)> {
        if self.elements == 0 {
            return vec![(0, 1)];
        }
        let mut dims: Vec<(usize, isize)> = Vec::new();
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            if extent == 1 {
                continue;
            }
            match dims.last_mut() {
                Some((outer, outer_stride)) if *outer_stride == stride.saturating_mul(extent as isize) => {
                    *outer *= extent;
                    *outer_stride = stride;
                }
                _ => dims.push((extent, stride)),
            }
        }
        if dims.is_empty() {
            dims.push((1, 1));
        }
        dims
    }

    /// Checks that no two elements share an address, so that each can be written.
    ///
    /// # Errors
    /// When two elements do. With more than 65536 elements also when a dimension does not step over everything that the dimensions of smaller strides span, which can be the case for interleaved tensors although their elements are distinct.
    pub(crate) fn expect_distinct(&self) -> Result<()> {
        /// Up to this many elements, each one is examined.
        const MOST: usize = 1 << 16;
        if self.elements == 0 || self.is_contiguous() || self.steps_over() {
            return Ok(());
        }
        let fail = |limit: &str| Err(invalid("strides", format!("{:?}", self.strides), limit));
        if self.elements > MOST {
            return fail("elements to be written may overlap: each dimension must step over what those of smaller strides span");
        }
        let mut indices: Vec<usize> = (0..self.elements).map(|i| self.index(i)).collect();
        indices.sort_unstable();
        if indices.windows(2).all(|pair| pair[0] != pair[1]) { Ok(()) } else { fail("elements to be written must not overlap") }
    }

    /// Whether each dimension steps over everything that the dimensions of smaller strides span: sufficient, but not necessary, for distinct elements.
    fn steps_over(&self) -> bool {
        let mut dims: Vec<(usize, usize)> = self.strides.iter().map(|s| s.unsigned_abs()).zip(self.shape.iter().copied()).collect();
        dims.retain(|d| d.1 > 1);
        dims.sort_unstable();
        let mut reach = 0usize;
        dims.into_iter().all(|(stride, extent)| {
            let over = stride > reach;
            reach = reach.saturating_add(stride.saturating_mul(extent - 1));
            over
        })
    }

    /// Least and largest memory index touched.
    fn span(&self) -> Option<(isize, isize)> {
        let (mut low, mut high) = (isize::try_from(self.offset).ok()?, isize::try_from(self.offset).ok()?);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = stride.checked_mul(isize::try_from(extent.checked_sub(1)?).ok()?)?;
            if reach < 0 { low = low.checked_add(reach)? } else { high = high.checked_add(reach)? }
        }
        Some((low, high))
    }
}

/// The coordinates of a row-major index, from the last axis to the first, as the extents come. Past the last element they start over; an extent of 0 counts as 1.
pub(crate) fn coordinates_from_last(mut index: usize, extents: impl IntoIterator<Item = usize>) -> impl Iterator<Item = usize> {
    extents.into_iter().map(move |extent| {
        // Reports have many coordinates: no division where none is needed.
        if index < extent {
            return std::mem::take(&mut index);
        }
        let coordinate = index % extent.max(1);
        index /= extent.max(1);
        coordinate
    })
}

fn count(shape: &[usize]) -> Result<usize> {
    // An extent of 0 makes the count 0, however large the others are.
    if shape.contains(&0) {
        return Ok(0);
    }
    let product = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= isize::MAX as usize);
    product.ok_or_else(|| invalid("shape", format!("{shape:?}"), "its number of elements overflows"))
}

fn invalid(what: &'static str, value: String, limit: &str) -> Error {
    Error::InvalidArgument { what, value, limit: limit.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By each element if there are few, otherwise by the sufficient condition for distinct elements.
    #[test]
    fn elements_are_distinct_or_not() {
        for (shape, strides, error, reason) in [
            (&[2, 3][..], &[3, 1][..], None, "dense"),
            (&[2, 3], &[0, 1], Some("must not overlap"), "rows in one place"),
            (&[2, 3], &[-3, 1], None, "rows upward"),
            (&[3, 2], &[2, 3], None, "interleaved, but distinct"),
            (&[4, 2], &[2, 3], None, "the same"),
            (&[4, 3], &[2, 3], Some("must not overlap"), "interleaved: 0 + 2 * 3 and 3 * 2 + 0"),
            (&[0, 3], &[0, 1], None, "nothing"),
            (&[1, 3], &[0, 1], None, "one row"),
            (&[3, 1 << 20], &[1 << 20, 1], None, "many"),
            (&[2, 1 << 20], &[0, 1], Some("may overlap: each dimension must step over"), "many in one place"),
        ] {
            let offset = if strides[0] < 0 { 3 } else { 0 };
            let found = Layout::strided(shape, strides, offset).unwrap().expect_distinct().map_err(|e| e.to_string());
            match (&found, error) {
                (Ok(()), None) => {}
                (Err(text), Some(words)) => assert!(text.contains(words) && text.contains(&format!("{strides:?}")), "{reason}: {text}"),
                _ => panic!("{shape:?} {strides:?}: {found:?}, although {reason}"),
            }
        }
    }

    #[test]
    fn contiguous_layouts_collapse_to_one_dimension() {
        let l = Layout::contiguous(&[2, 3, 1, 4]).unwrap();
        assert!(l.is_contiguous());
        assert_eq!(l.collapsed(), vec![(24, 1)]);
        assert_eq!(l.index(17), 17);
        assert_eq!(l.coordinates(17), vec![1, 1, 0, 1]);
    }

    #[test]
    fn padded_rows_keep_two_dimensions() {
        let l = Layout::strided(&[2, 2, 3], &[16, 8, 1], 5).unwrap();
        assert_eq!(l.collapsed(), vec![(4, 8), (3, 1)]);
        assert_eq!((l.index(0), l.index(4), l.index(11), l.end()), (5, 14, 31, 32));
    }

    #[test]
    fn bad_layouts_are_errors() {
        assert!(Layout::strided(&[3], &[-1], 1).is_err(), "before the buffer");
        assert!(Layout::strided(&[3], &[-1], 2).is_ok());
        assert!(Layout::strided(&[3], &[1, 1], 0).is_err(), "lengths differ");
        assert!(Layout::contiguous(&[usize::MAX, 2]).is_err(), "too many elements");
        assert_eq!(Layout::contiguous(&[usize::MAX, 0]).unwrap().elements(), 0);
        assert!(Layout::strided(&[3], &[isize::MAX], 0).is_err(), "span overflows");
    }

    /// The memory index and the coordinates of every element, counted by hand: the last dimension runs fastest.
    fn enumerate(shape: &[usize], strides: &[isize], offset: usize) -> Vec<(usize, Vec<usize>)> {
        let mut all = vec![(offset as isize, Vec::new())];
        for (&extent, &stride) in shape.iter().zip(strides) {
            let step = |(at, coordinates): (isize, Vec<usize>)| {
                (0..extent).map(move |i| (at + i as isize * stride, coordinates.iter().copied().chain([i]).collect()))
            };
            all = all.into_iter().flat_map(step).collect();
        }
        all.into_iter().map(|(at, coordinates)| (at as usize, coordinates)).collect()
    }

    #[test]
    fn every_element_has_its_index_and_its_coordinates() {
        let cases = [
            (&[2, 3, 4][..], &[12, 4, 1][..], 0, true, &[(24usize, 1isize)][..], "dense"),
            (&[2, 3, 4], &[12, 4, 1], 7, true, &[(24, 1)], "an offset leaves no gap"),
            (&[2, 1, 3], &[3, 99, 1], 0, true, &[(6, 1)], "the stride of one element does not matter"),
            (&[1, 1], &[7, -9], 3, true, &[(1, 1)], "nor do those of a single one"),
            (&[], &[], 4, true, &[(1, 1)], "no dimensions"),
            (&[2, 2, 3], &[16, 8, 1], 5, false, &[(4, 8), (3, 1)], "padded rows, which continue each other"),
            (&[2, 2, 3], &[20, 8, 1], 5, false, &[(2, 20), (2, 8), (3, 1)], "padded rows and planes"),
            (&[2, 3], &[1, 2], 0, false, &[(2, 1), (3, 2)], "transposed"),
            (&[4], &[2], 1, false, &[(4, 2)], "every other element"),
            (&[3], &[-1], 2, false, &[(3, -1)], "backwards"),
            (&[2, 3], &[-3, -1], 5, false, &[(6, -1)], "backwards in both dimensions"),
            (&[2, 3], &[0, 1], 0, false, &[(2, 0), (3, 1)], "a row that is repeated"),
            (&[3], &[0], 2, false, &[(3, 0)], "an element that is repeated"),
            (&[3, 3, 3], &[9, 3, 1], 0, true, &[(27, 1)], "extents that indices are equal to"),
            (&[2, 0, 3], &[3, 3, 1], 9, true, &[(0, 1)], "no elements"),
            (&[0, 3], &[-5, 1], 0, true, &[(0, 1)], "no element before the buffer, since there is none"),
        ];
        for (shape, strides, offset, contiguous, collapsed, reason) in cases {
            let layout = Layout::strided(shape, strides, offset).unwrap();
            let all = enumerate(shape, strides, offset);
            assert_eq!((layout.shape(), layout.strides(), layout.offset()), (shape, strides, offset), "{reason}");
            assert_eq!(layout.elements(), all.len(), "{reason}");
            assert_eq!(layout.end(), all.iter().map(|(at, _)| at + 1).max().unwrap_or(0), "{reason}");
            assert_eq!(layout.is_contiguous(), contiguous, "{reason}");
            for (i, (at, coordinates)) in all.iter().enumerate() {
                assert_eq!((layout.index(i), &layout.coordinates(i)), (*at, coordinates), "{reason}, element {i}");
            }
            let dims = layout.collapsed();
            assert_eq!(dims, collapsed, "{reason}");
            let (extents, steps): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let indices = |all: &[(usize, Vec<usize>)]| all.iter().map(|(at, _)| *at).collect::<Vec<_>>();
            assert_eq!(indices(&enumerate(&extents, &steps, offset)), indices(&all), "{reason}, collapsed");
        }
    }

    #[test]
    fn elements_that_are_not_there_have_no_index() {
        for (shape, index) in [(&[0usize, 3][..], 0), (&[3, 0], 0), (&[2, 3], 6), (&[], 1), (&[2, 3], usize::MAX)] {
            let layout = Layout::contiguous(shape).unwrap();
            let message = std::panic::catch_unwind(|| layout.index(index)).unwrap_err();
            let message = message.downcast_ref::<String>().unwrap();
            assert!(message.contains(&format!("element {index} of a layout of shape {shape:?}")), "{message}");
            assert_eq!(layout.coordinates(index).len(), shape.len(), "{shape:?}");
        }
    }

    /// The other extents need not have a product.
    #[test]
    fn layouts_without_elements_have_one_dimension() {
        for shape in [&[usize::MAX, 2, 0][..], &[0, usize::MAX, usize::MAX], &[usize::MAX, 0, 2]] {
            assert_eq!(Layout::contiguous(shape).unwrap().collapsed(), [(0, 1)], "{shape:?}");
        }
    }

    #[test]
    fn scalars_have_one_element() {
        let l = Layout::contiguous(&[]).unwrap();
        assert_eq!((l.elements(), l.end(), l.collapsed()), (1, 1, vec![(1, 1)]));
    }
}
