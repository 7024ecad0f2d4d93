//! Extents of an operator's tensor, cut at an axis: vectors along it, and slices across it.

use crate::error::{Error, Result};

/// The most elements of a tensor: references hold each as f64 in memory.
pub(super) const MOST: usize = 1 << 28;

/// Reads extents such as `4x64`.
pub(super) fn extents(text: &str) -> Result<Vec<usize>> {
    let wrong = || Error::InvalidArgument {
        what: "shape of an operator",
        value: text.to_owned(),
        limit: format!("it must be extents such as 4x64, each at least 1, with at most {MOST} elements"),
    };
    let extents: Vec<usize> = text.split('x').map(|n| n.trim().parse()).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let elements = extents.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    if elements.is_none_or(|n| n == 0 || n > MOST) {
        return Err(wrong());
    }
    Ok(extents)
}

/// The axis of that number; negative ones count from the last.
pub(super) fn axis(text: &str, extents: &[usize]) -> Result<usize> {
    let rank = extents.len() as i64;
    let number = text.parse::<i64>().ok().map(|axis| if axis < 0 { axis + rank } else { axis });
    number.filter(|axis| (0..rank).contains(axis)).map(|axis| axis as usize).ok_or_else(|| Error::InvalidArgument {
        what: "axis",
        value: text.to_owned(),
        limit: format!("the shape has {rank} dimensions: it must be from {} to {}", -rank, rank - 1),
    })
}

/// A dense tensor seen from an axis of extent n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strided {
    /// Elements before the axis.
    pub outer: usize,
    /// Extent of the axis.
    pub n: usize,
    /// Elements behind it.
    pub inner: usize,
}

impl Strided {
    pub(super) fn new(extents: &[usize], axis: usize) -> Strided {
        Strided { outer: extents[..axis].iter().product(), n: extents[axis], inner: extents[axis + 1..].iter().product() }
    }

    /// The index along the axis of an element.
    pub(super) fn index(&self, element: usize) -> usize {
        element / self.inner % self.n
    }

    /// The elements of each vector along the axis.
    pub(super) fn vectors(self) -> impl Iterator<Item = Vec<usize>> {
        (0..self.outer * self.inner)
            .map(move |v| (0..self.n).map(|k| (v / self.inner * self.n + k) * self.inner + v % self.inner).collect())
    }

    /// For each index along the axis, the elements that have it, in the order of the memory.
    pub(super) fn slices(self) -> impl Iterator<Item = Vec<usize>> {
        (0..self.n).map(move |k| (0..self.outer).flat_map(|o| (0..self.inner).map(move |i| (o * self.n + k) * self.inner + i)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_and_slices_cut_a_tensor_at_its_axis() {
        let middle = Strided::new(&[2, 3, 2], 1);
        assert_eq!(middle, Strided { outer: 2, n: 3, inner: 2 });
        let vectors: Vec<_> = middle.vectors().collect();
        assert_eq!(vectors, [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]);
        let slices: Vec<_> = middle.slices().collect();
        assert_eq!(slices, [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]);
        assert_eq!((0..12).map(|i| middle.index(i)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn extents_and_axes_are_read() {
        assert_eq!(extents("4x64").unwrap(), [4, 64]);
        for text in ["", "4x", "4x0", "-1", "1000000x1000000x1000000x1000000", "20000x20000", "4*4"] {
            assert!(extents(text).unwrap_err().to_string().contains("extents such as 4x64"), "{text}");
        }
        for (text, expected) in [("0", Some(0)), ("1", Some(1)), ("-1", Some(1)), ("-2", Some(0)), ("2", None), ("-3", None), ("x", None)] {
            assert_eq!(axis(text, &[4, 64]).ok(), expected, "{text}");
        }
        assert!(axis("2", &[4, 64]).unwrap_err().to_string().contains("from -2 to 1"));
    }
}
