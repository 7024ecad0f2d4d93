//! Elements of a tensor in logical order, whatever its layout.

use super::host::zeros;
use super::{Layout, TensorRef, coordinates_from_last};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::parallel;
use crate::simd::{each, prefetch};
use std::borrow::Cow;
use std::ops::Range;

/// Bytes that the rows of a panel have next to each other in memory: two cache lines, since each column is in a page of its own, whose address takes as long to find as the second line.
const SHARED: usize = 128;
/// A panel has at most so many bytes, and is made for reads of so many elements: for fewer it is too much work.
const PANEL: usize = 4 << 20;
const LEAST: usize = 256;

/// Elements that are read at once where a whole tensor is; even, so that packed elements do not share a byte.
pub(crate) const BLOCK: usize = 1 << 14;

/// Calls `each` with the elements of a tensor on the host in logical order, on all cores: a block of `out`, and the dense bytes of as many elements.
pub(crate) fn blocks<T: Send>(tensor: &TensorRef<'_>, out: &mut [T], each: impl Fn(&[u8], &mut [T]) + Sync) {
    debug_assert_eq!(out.len(), tensor.elements());
    // A few long tasks for each thread: where rows are read in panels, each task has its own.
    let task = out.len().div_ceil(8 * parallel::threads()).next_multiple_of(BLOCK).max(BLOCK);
    parallel::chunks_mut(out, task, |number, part| {
        let (mut reader, mut start) = (Reader::new(tensor), number * task);
        for block in part.chunks_mut(BLOCK) {
            each(reader.read(start, block.len()), block);
            start += block.len();
        }
    });
}

/// The elements of a tensor on any device in logical order without gaps, on the host, and zeros up to the end of the last byte. They are borrowed where they lie so.
pub(crate) fn dense<'a>(tensor: &'a TensorRef<'_>) -> Result<Cow<'a, [u8]>> {
    let (bytes, dtype, layout) = (tensor.fetch()?, tensor.dtype(), tensor.layout());
    let (elements, bits) = (layout.elements(), dtype.bits());
    if elements == 0 {
        return Ok(Cow::Borrowed(&[]));
    }
    let first = layout.offset() * bits;
    if layout.is_contiguous() && first.is_multiple_of(8) && (elements * bits).is_multiple_of(8) {
        let range = first / 8..first / 8 + elements * bits / 8;
        return Ok(match bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[range]),
            Cow::Owned(bytes) => Cow::Owned(bytes[range].to_vec()),
        });
    }
    let size = dtype.bytes_for(elements).ok_or(Error::SizeOverflow { what: "a dense copy", elements, unit_bytes: dtype.unit_bytes() })?;
    let mut out = zeros::<u8>(size)?;
    let host = TensorRef::from_host_bytes(&bytes, dtype, layout.clone())?;
    let block = BLOCK * bits / 8;
    let task = size.div_ceil(8 * parallel::threads()).next_multiple_of(block).max(block);
    parallel::chunks_mut(&mut out, task, |number, part| {
        let (mut reader, mut start) = (Reader::new(&host), number * task / block * BLOCK);
        for part in part.chunks_mut(block) {
            let count = BLOCK.min(elements - start);
            part.copy_from_slice(reader.read(start, count));
            start += count;
        }
    });
    if !(elements * bits).is_multiple_of(8)
        && let Some(last) = out.last_mut()
    {
        *last &= 0x0f;
    }
    Ok(Cow::Owned(out))
}

/// Reads runs of consecutive logical elements as dense bytes.
///
/// Where neighbours in memory are a row apart, as in a transposed matrix, rows are read in panels, as many of them together as share cache lines. The rows of a panel are kept, since
/// those who read a whole tensor ask for one after the other.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    dtype: DType,
    offset: usize,
    /// Extents and strides, outermost first; one dimension of stride 1 when dense.
    dims: Vec<(usize, isize)>,
    scratch: Vec<u8>,
    panel: Panel,
}

/// Whole rows, dense, one after the other.
#[derive(Default)]
struct Panel {
    /// Along all dimensions but the innermost.
    rows: Range<usize>,
    bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(tensor: &TensorRef<'a>) -> Reader<'a> {
        Reader::of(tensor.host_bytes(), tensor.dtype(), tensor.layout())
    }

    /// Reads elements that lie in `bytes`, which have to reach as far as the layout.
    pub(crate) fn of(bytes: &'a [u8], dtype: DType, layout: &Layout) -> Reader<'a> {
        Reader { bytes, dtype, offset: layout.offset(), dims: layout.collapsed(), scratch: Vec::new(), panel: Panel::default() }
    }

    /// The bytes of `count` elements from logical element `start`; both inside the tensor. Packed elements start at a low nibble.
    pub(crate) fn read(&mut self, start: usize, count: usize) -> &[u8] {
        if let Some(first) = self.in_place(start, count) {
            return &self.bytes[self.byte_range(first, count)];
        }
        match self.rows_of_a_panel() {
            Some(together) if count >= LEAST => self.read_panels(start, count, together),
            _ => self.gather(start, count),
        }
    }

    /// Asks for the memory of `count` elements from `start`, or of those that there are, where they lie side by side.
    pub(crate) fn prefetch(&self, start: usize, count: usize) {
        if let Some((_, 1)) = self.dims.last() {
            let elements: usize = self.dims.iter().map(|(extent, _)| extent).product();
            for (at, run) in self.runs(start, count.min(elements.saturating_sub(start))) {
                prefetch(&self.bytes[self.byte_range(at as usize, run)]);
            }
        }
    }

    /// Where the first of `count` elements from `start` lies, if the others follow it.
    fn in_place(&self, start: usize, count: usize) -> Option<usize> {
        let Some((_, 1)) = self.dims.last() else { return None };
        let (at, run) = self.runs(start, count).next()?;
        let whole_bytes = (at as usize * self.dtype.bits()).is_multiple_of(8);
        (run == count && whole_bytes).then_some(at as usize)
    }

    /// The runs along the innermost dimension in `count` elements from `start`: where each begins, and how many elements it has.
    fn runs(&self, start: usize, count: usize) -> impl Iterator<Item = (isize, usize)> {
        let (inner, stride) = self.dims.last().copied().unwrap_or((1, 1));
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == count {
                return None;
            }
            let at = start + done;
            // Dense elements are one row.
            let (row, column) = if self.dims.len() <= 1 { (0, at) } else { (at / inner, at % inner) };
            let run = (inner - column).min(count - done);
            done += run;
            Some((self.row_start(row) + column as isize * stride, run))
        })
    }

    fn byte_range(&self, first: usize, count: usize) -> Range<usize> {
        let bits = self.dtype.bits();
        first * bits / 8..((first + count) * bits).div_ceil(8)
    }

    /// How many rows share cache lines, and fit a panel; none where only one does.
    fn rows_of_a_panel(&self) -> Option<usize> {
        let [.., (_, step), (inner, stride)] = self.dims[..] else { return None };
        let unit = self.dtype.unit_bytes();
        let together = SHARED / (step.unsigned_abs() * unit).max(1);
        let rows = together.min(PANEL / (inner * unit).max(1));
        (self.dtype.bits() >= 8 && stride.unsigned_abs() > step.unsigned_abs() && step != 0 && rows > 1).then_some(rows)
    }

    fn read_panels(&mut self, start: usize, count: usize, together: usize) -> &[u8] {
        let unit = self.dtype.unit_bytes();
        let inner = self.dims.last().map_or(1, |&(extent, _)| extent);
        self.scratch.resize(count * unit, 0);
        let mut done = 0;
        while done < count {
            let (row, column) = ((start + done) / inner, (start + done) % inner);
            if !self.panel.rows.contains(&row) {
                self.fill_panel(row, together);
            }
            let run = (inner - column).min(count - done);
            let from = ((row - self.panel.rows.start) * inner + column) * unit;
            self.scratch[done * unit..(done + run) * unit].copy_from_slice(&self.panel.bytes[from..from + run * unit]);
            done += run;
        }
        &self.scratch
    }

    /// Reads a row and those after it that lie in the same cache lines.
    fn fill_panel(&mut self, row: usize, together: usize) {
        let [.., (rows, step), (inner, stride)] = self.dims[..] else { return };
        // The last rows of this dimension are followed by some that lie elsewhere.
        let end = (row + together).min((row / rows + 1) * rows);
        let at = self.row_start(row);
        let panel = Strided { from: self.bytes, at, step, stride, inner };
        self.panel.bytes.resize((end - row) * inner * self.dtype.unit_bytes(), 0);
        self.panel.rows = row..end;
        let to = &mut self.panel.bytes;
        match self.dtype.unit_bytes() {
            1 => panel.copy::<1>(to),
            2 => panel.copy::<2>(to),
            4 => panel.copy::<4>(to),
            _ => panel.copy::<8>(to),
        }
    }

    /// Where a row begins.
    fn row_start(&self, row: usize) -> isize {
        let outer = self.dims.split_last().map_or(&[][..], |(_, outer)| outer).iter().rev();
        let coordinates = coordinates_from_last(row, outer.clone().map(|&(extent, _)| extent));
        coordinates.zip(outer).fold(self.offset as isize, |at, (coordinate, &(_, step))| at + coordinate as isize * step)
    }

    fn gather(&mut self, start: usize, count: usize) -> &[u8] {
        let (unit, bits) = (self.dtype.unit_bytes(), self.dtype.bits());
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize((count * bits).div_ceil(8), 0);
        let stride = self.dims.last().map_or(1, |&(_, stride)| stride);
        let mut done = 0;
        for (at, run) in self.runs(start, count) {
            if bits < 8 {
                for k in 0..run {
                    let pattern = self.dtype.load_bits(self.bytes, (at + k as isize * stride) as usize);
                    self.dtype.store_bits(&mut scratch, done + k, pattern);
                }
            } else if stride == 1 {
                scratch[done * unit..(done + run) * unit].copy_from_slice(&self.bytes[self.byte_range(at as usize, run)]);
            } else {
                let (from, to) = (self.bytes, &mut scratch[done * unit..(done + run) * unit]);
                match unit {
                    1 => strided::<1>(from, at, stride, to),
                    2 => strided::<2>(from, at, stride, to),
                    4 => strided::<4>(from, at, stride, to),
                    _ => strided::<8>(from, at, stride, to),
                }
            }
            done += run;
        }
        self.scratch = scratch;
        &self.scratch
    }
}

/// Elements of `UNIT` bytes, `stride` elements apart, the first at `at`.
fn strided<const UNIT: usize>(from: &[u8], at: isize, stride: isize, to: &mut [u8]) {
    for (k, to) in to.as_chunks_mut::<UNIT>().0.iter_mut().enumerate() {
        let from_byte = (at + k as isize * stride) as usize * UNIT;
        *to = from[from_byte..].as_chunks().0[0];
    }
}

/// Rows that begin `step` elements from each other, the first at `at`; their elements are `stride` apart.
struct Strided<'a> {
    from: &'a [u8],
    at: isize,
    step: isize,
    stride: isize,
    inner: usize,
}

impl Strided<'_> {
    /// Puts the rows one after the other. Elements have `UNIT` bytes.
    fn copy<const UNIT: usize>(&self, to: &mut [u8]) {
        let rows = to.len() / (self.inner * UNIT);
        // What the rows have in one column lies in so many bytes from the lowest, no more than SHARED.
        let last = (rows - 1) as isize * self.step;
        let lowest = self.at + last.min(0);
        let span = (last.unsigned_abs() + 1) * UNIT;
        let column = |k: usize| {
            let from = (lowest + k as isize * self.stride) as usize * UNIT;
            &self.from[from..from + span]
        };
        // As many columns at a time as are SHARED bytes of a row. They are copied first: columns a power of two apart are in few sets of the L1 cache.
        let mut columns = [[0; SHARED]; SHARED];
        let together = SHARED / UNIT;
        for first in (0..self.inner).step_by(together) {
            let end = self.inner.min(first + together);
            (end..self.inner.min(end + together)).for_each(|k| prefetch(column(k)));
            for (k, copy) in (first..end).zip(&mut columns) {
                copy[..span].copy_from_slice(column(k));
            }
            for (row, to) in to.chunks_exact_mut(self.inner * UNIT).enumerate() {
                let at = (self.at + row as isize * self.step - lowest) as usize * UNIT;
                let to = to[first * UNIT..end * UNIT].as_chunks_mut::<UNIT>().0;
                each(to, &columns, |to, column| *to = column[at..].as_chunks().0[0]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads parts of a tensor of this layout, in formats of each size.
    fn check(shape: &[usize], strides: &[isize], offset: usize, parts: &[(usize, usize)], reason: &str) {
        for dtype in [DType::F4E2M1, DType::I8, DType::F16, DType::F32, DType::F64] {
            let layout = Layout::strided(shape, strides, offset).unwrap();
            let bytes: Vec<u8> = (0..dtype.bytes_for(layout.end() + 2).unwrap()).map(|i| (i * 37 % 251) as u8).collect();
            let tensor = TensorRef::from_host_bytes(&bytes, dtype, layout.clone()).unwrap();
            let expected: Vec<u64> = (0..layout.elements()).map(|i| dtype.load_bits(&bytes, layout.index(i))).collect();
            let dense = dense(&tensor).unwrap();
            assert!(expected.iter().enumerate().all(|(i, bits)| dtype.load_bits(&dense, i) == *bits), "{reason}, {dtype}: dense");
            if dtype.bits() < 8 && expected.len() % 2 == 1 {
                assert_eq!(dtype.load_bits(&dense, expected.len()), 0, "{reason}, {dtype}: behind the last element");
            }
            let mut found = vec![0; expected.len()];
            blocks(&tensor, &mut found, |bytes, block| {
                block.iter_mut().enumerate().for_each(|(i, bits)| *bits = dtype.load_bits(bytes, i));
            });
            assert_eq!(found, expected, "{reason}, {dtype}: in blocks");
            let mut reader = Reader::new(&tensor);
            for &(start, count) in parts {
                let read = reader.read(start, count);
                for i in 0..count {
                    let expected = dtype.load_bits(&bytes, layout.index(start + i));
                    assert_eq!(dtype.load_bits(read, i), expected, "{reason}, {dtype}: element {i} of {count} from {start}");
                }
            }
        }
    }

    /// Rows in panels.
    #[test]
    fn rows_that_share_cache_lines_come_in_logical_order() {
        for (shape, strides, offset, reason) in [
            (&[50, 300][..], &[1, 50][..], 0, "two dimensions"),
            (&[50, 300], &[-1, 53], 49, "backwards"),
            (&[3, 300], &[1, -4], 1300, "fewer rows than fit a panel"),
            (&[50, 300], &[3, 150], 2, "rows three elements apart"),
            (&[4, 21, 300], &[21, 1, 100], 7, "three dimensions, the outer two as one"),
            (&[4, 21, 300], &[6300, 1, 21], 0, "three dimensions, planes apart"),
        ] {
            let elements: usize = shape.iter().product();
            let parts = [(0, 1024), (1024, 1024), (elements - 700, 700), (299, 300), (5, 8)];
            // Of less than 3 rows of 300 there are fewer.
            check(shape, strides, offset, &parts.map(|(start, count)| (start, count.min(elements.saturating_sub(start)))), reason);
        }
    }

    #[test]
    fn whole_tensors_are_read_in_tasks_of_blocks() {
        for (shape, strides, offset, reason) in [
            (&[3, 20_001][..], &[20_003, 1][..], 3, "long rows with padding"),
            (&[3, 20_001], &[1, 3], 0, "columns"),
            (&[20_001], &[1], 2, "dense, of which nobody reads the beginning and the end"),
            (&[0, 4], &[4, 1], 0, "no element"),
        ] {
            check(shape, strides, offset, &[], reason);
        }
    }

    #[test]
    fn elements_come_in_logical_order_from_wherever_reading_starts() {
        for (shape, strides, offset, reason) in [
            (&[60][..], &[1][..], 0, "dense"),
            (&[60], &[1], 5, "dense, of which nobody reads the beginning"),
            (&[60], &[-1], 59, "backwards"),
            (&[60], &[3], 1, "every third"),
            (&[5, 12], &[16, 1], 3, "rows with padding"),
            (&[5, 12], &[-15, 1], 60, "rows of odd length, the last first"),
            (&[5, 12], &[1, 7], 2, "transposed"),
            (&[5, 12], &[-1, -5], 63, "transposed, both backwards"),
            (&[3, 4, 5], &[5, 20, 1], 0, "rows of two dimensions, which are swapped"),
            (&[3, 4, 5], &[21, 5, -1], 4, "rows backwards in planes with padding"),
            (&[2, 3, 2, 5], &[70, 20, 11, 2], 7, "every second of rows of three dimensions"),
        ] {
            check(shape, strides, offset, &[(0, 60), (0, 1), (1, 59), (7, 13), (11, 2), (12, 24), (30, 30), (59, 1)], reason);
        }
    }
}
