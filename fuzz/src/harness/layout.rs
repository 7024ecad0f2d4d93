//! Shapes and strides: a layout that is accepted indexes what it says it spans.

use super::{Bytes, kind};
use hipverify::device::Layout;

pub(super) fn layout(input: &[u8]) -> u64 {
    let mut bytes = Bytes(input);
    let rank = bytes.below(9);
    let large = bytes.below(4) == 0;
    let shape: Vec<usize> = (0..rank).map(|_| if large { bytes.word() as usize } else { bytes.below(7) }).collect();
    let strides: Vec<isize> = (0..rank).map(|_| if large { bytes.word() as isize } else { isize::from(bytes.byte() as i8) }).collect();
    let offset = if large { bytes.word() as usize } else { usize::from(bytes.byte()) };
    let made = Layout::strided(&shape, &strides, offset);
    let dense = Layout::contiguous(&shape);
    kind(&made, |layout| {
        let elements = layout.elements();
        assert_eq!(Some(elements), dense.as_ref().ok().map(Layout::elements), "strides do not change the number of elements");
        let last = elements.saturating_sub(1);
        for element in [0, 1, last / 2, last].into_iter().filter(|e| *e < elements) {
            let at = layout.index(element);
            assert!(at < layout.end(), "element {element} at {at} of {}", layout.end());
            let coordinates = layout.coordinates(element);
            let sum: i128 = coordinates.iter().zip(layout.strides()).map(|(c, s)| *c as i128 * *s as i128).sum();
            assert_eq!(offset as i128 + sum, at as i128, "element {element} at {coordinates:?}");
            assert!(coordinates.iter().zip(layout.shape()).all(|(c, extent)| c < extent));
            assert!(!layout.is_contiguous() || at == offset + element);
        }
        u64::from(layout.is_contiguous()) + 2 * rank as u64
    }) ^ kind(&dense, |_| 1)
}
