//! A tensor as a picture: its elements in blocks, each with the largest ratio of difference to tolerance in it.

use std::io::{self, Write};

/// Blocks of elements, the last dimension across, all others down.
#[derive(Clone, Copy)]
struct Blocks {
    /// Rows and columns of the tensor.
    extents: [usize; 2],
    /// Elements of a block, down and across.
    block: [usize; 2],
    /// Blocks, down and across.
    blocks: [usize; 2],
}

/// The picture of a tensor.
pub(super) struct Grid {
    of: Blocks,
    /// The largest ratio of each block, row by row; not a number where a pair is not finite and does not pass. Finite numbers have an infinite ratio where the tolerance is 0.
    ratios: Vec<f64>,
}

/// What consecutive elements add to a [`Grid`].
pub(super) struct Strip {
    of: Blocks,
    /// The blocks from this one on.
    first: usize,
    ratios: Vec<f64>,
    /// The block of the next element, among `ratios`, and how many elements follow there: one division for all of them.
    at: usize,
    left: usize,
}

/// Colours by ratio: up to so much, this.
const COLOURS: [(f64, [u8; 3]); 6] = [
    (0.0, [255, 255, 255]),
    (0.5, [204, 232, 207]),
    (1.0, [120, 190, 130]),
    (10.0, [250, 200, 90]),
    (100.0, [235, 120, 50]),
    (f64::INFINITY, [190, 30, 30]),
];

/// What is not finite.
const NOT_FINITE: [u8; 3] = [140, 0, 160];

/// Characters by ratio, as the colours.
const SHADES: [char; 6] = [' ', '.', ':', '+', '#', '@'];

/// Pixels of a picture without its axes, at least, where there are so many blocks.
const LEAST_SIZE: usize = 256;

/// Space for the axes: six digits at the left, one line below.
const MARGIN: [usize; 2] = [14, 52];

impl Grid {
    /// Of at most so many blocks down and across.
    pub(super) fn new(shape: &[usize], most: [usize; 2]) -> Grid {
        let elements: usize = shape.iter().product();
        let across = match shape {
            [] => 1,
            // A vector is folded to a square.
            [n] if *n > most[1] => n.isqrt() + usize::from(n.isqrt() * n.isqrt() < *n),
            [.., last] => *last,
        };
        let extents = [elements.div_ceil(across.max(1)), across];
        let block = [0, 1].map(|i| extents[i].div_ceil(most[i]).max(1));
        let blocks = [0, 1].map(|i| extents[i].div_ceil(block[i]));
        Grid { of: Blocks { extents, block, blocks }, ratios: vec![0.0; blocks[0] * blocks[1]] }
    }

    /// A strip of the elements from `index` on.
    pub(super) fn strip(&self, index: usize) -> Strip {
        Strip { of: self.of, first: self.of.find(index).0, ratios: Vec::new(), at: 0, left: 0 }
    }

    /// Takes the elements of a strip.
    pub(super) fn join(&mut self, strip: &Strip) {
        self.ratios[strip.first..].iter_mut().zip(&strip.ratios).for_each(|(mine, theirs)| *mine = larger(*mine, *theirs));
    }

    /// The class of a block: the index of its colour, or one more for what is not finite.
    fn class(&self, row: usize, column: usize) -> usize {
        let ratio = self.ratios[row * self.of.blocks[1] + column];
        COLOURS.iter().position(|(most, _)| ratio <= *most).unwrap_or(COLOURS.len())
    }

    /// The picture in characters, with the first row and column of each block at the edge.
    pub(super) fn text(&self) -> String {
        let label = self.of.extents[0].to_string().len();
        let mut out =
            format!("  {:label$}  [0, {}] in blocks of {} x {}\n", "", self.of.extents[1] - 1, self.of.block[0], self.of.block[1]);
        for row in 0..self.of.blocks[0] {
            let line: String = (0..self.of.blocks[1]).map(|column| SHADES.get(self.class(row, column)).copied().unwrap_or('!')).collect();
            out += &format!("  {:>label$} |{line}|\n", row * self.of.block[0]);
        }
        out + "  ratio to the tolerance: 0 ' '  to 0.5 .  to 1 :  to 10 +  to 100 #  above @  not finite !\n"
    }

    /// The picture as a PNG, with indices of rows and columns at its axes.
    pub(super) fn png(&self, out: &mut dyn Write) -> io::Result<()> {
        let scale = (LEAST_SIZE / self.of.blocks[0].max(self.of.blocks[1])).max(1);
        let [height, width] = [self.of.blocks[0] * scale, self.of.blocks[1] * scale];
        let mut canvas = Canvas::new(height + MARGIN[0], (width + MARGIN[1]).max(2 * MARGIN[1]));
        for y in 0..height {
            for x in 0..width {
                let colour = COLOURS.get(self.class(y / scale, x / scale)).map_or(NOT_FINITE, |c| c.1);
                canvas.set(y, MARGIN[1] + x, colour);
            }
        }
        for tick in 0..4 {
            let [row, column] = self.of.blocks.map(|n| n * tick / 4);
            canvas.number(row * self.of.block[0], row * scale, MARGIN[1] - 2, true);
            canvas.number(column * self.of.block[1], height + 2, MARGIN[1] + column * scale, false);
        }
        canvas.write(out)
    }
}

impl Blocks {
    /// The row of blocks of an element, as the number of its first block, the block's column, and how many elements of the block lie in the element's row from it on.
    fn find(&self, index: usize) -> (usize, usize, usize) {
        let (row, column) = (index / self.extents[1], index % self.extents[1]);
        let (across, inside) = (column / self.block[1], column % self.block[1]);
        (row / self.block[0] * self.blocks[1], across, (self.block[1] - inside).min(self.extents[1] - column))
    }
}

impl Strip {
    /// Takes the next element, whose index is one more than that of the last one: its ratio, or none for a pair that is not finite and does not pass.
    pub(super) fn add(&mut self, index: usize, ratio: Option<f64>) {
        if self.left == 0 {
            let (row, across, left) = self.of.find(index);
            self.ratios.resize(row + self.of.blocks[1] - self.first, 0.0);
            (self.at, self.left) = (row + across - self.first, left);
        }
        self.left -= 1;
        self.ratios[self.at] = larger(self.ratios[self.at], ratio.unwrap_or(f64::NAN));
    }
}

/// The larger ratio; what is not finite stays.
fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}

/// Pixels.
struct Canvas {
    height: usize,
    width: usize,
    pixels: Vec<u8>,
}

/// Digits, three pixels wide and five high, a row in three bits.
const DIGITS: [[u8; 5]; 10] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 7, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 1, 1, 1],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
];

/// Pixels from one digit to the next; each of its pixels is two by two.
const ADVANCE: usize = 8;

impl Canvas {
    fn new(height: usize, width: usize) -> Canvas {
        Canvas { height, width, pixels: vec![255; 3 * height * width] }
    }

    /// Colours a pixel; what lies outside is not drawn.
    fn set(&mut self, y: usize, x: usize, colour: [u8; 3]) {
        if y < self.height && x < self.width {
            let at = 3 * (y * self.width + x);
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    /// Draws a number whose top is at `y`; it begins at `x`, or ends there.
    fn number(&mut self, n: usize, y: usize, x: usize, ends: bool) {
        let text = n.to_string();
        let left = if ends { x.saturating_sub(ADVANCE * text.len()) } else { x };
        for (i, digit) in text.bytes().enumerate() {
            for (row, bits) in DIGITS[usize::from(digit - b'0')].iter().enumerate() {
                for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                    for pixel in 0..4 {
                        self.set(y + 2 * row + pixel / 2, left + ADVANCE * i + 2 * column + pixel % 2, [60, 60, 60]);
                    }
                }
            }
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let size = |n: usize| u32::try_from(n).map_err(io::Error::other);
        // The encoder's errors do not tell a reader that leaves from a full disk.
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, size(self.width)?, size(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        out.write_all(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(grid: &mut Grid, index: usize, ratio: Option<f64>) {
        let mut strip = grid.strip(index);
        strip.add(index, ratio);
        grid.join(&strip);
    }

    /// Strips of any length are that of all elements, and blocks have the elements that their bounds say.
    #[test]
    fn elements_lie_in_their_blocks_whatever_the_strips() {
        for (shape, most) in
            [(&[7, 10][..], [3, 4]), (&[100], [5, 5]), (&[3, 1], [2, 2]), (&[1, 9], [2, 2]), (&[2, 3, 4], [6, 4]), (&[], [1, 1])]
        {
            let n: usize = shape.iter().product();
            let ratio = |i: usize| if i * 5 % 17 == 3 { None } else { Some((i * 7919 % 1000) as f64) };
            for length in [1, 2, 7, n] {
                let mut grid = Grid::new(shape, most);
                for start in (0..n).step_by(length) {
                    let mut strip = grid.strip(start);
                    (start..n.min(start + length)).for_each(|i| strip.add(i, ratio(i)));
                    grid.join(&strip);
                }
                let Blocks { extents, block, blocks } = grid.of;
                let mut expected = vec![0.0; blocks[0] * blocks[1]];
                for i in 0..n {
                    let cell = &mut expected[i / extents[1] / block[0] * blocks[1] + i % extents[1] / block[1]];
                    *cell = ratio(i).map_or(f64::NAN, |ratio| if cell.is_nan() { f64::NAN } else { cell.max(ratio) });
                }
                let bits = |ratios: &[f64]| ratios.iter().map(|x| if x.is_nan() { None } else { Some(x.to_bits()) }).collect::<Vec<_>>();
                assert_eq!(bits(&grid.ratios), bits(&expected), "{shape:?} in at most {most:?}, strips of {length}");
            }
        }
    }

    #[test]
    fn blocks_take_their_largest_ratio() {
        for (shape, most, blocks, index, at, reason) in [
            (&[4, 6][..], [16, 60], [4, 6], 7, (1, 1), "an element a block"),
            (&[4, 6], [2, 3], [2, 3], 23, (1, 2), "two by two"),
            (&[2, 3, 5], [6, 2], [6, 2], 29, (5, 1), "all dimensions but the last go down"),
            (&[100], [10, 10], [10, 10], 99, (9, 9), "a vector is a square"),
            (&[101], [20, 20], [10, 11], 100, (9, 1), "its last row is not full"),
            (&[], [9, 9], [1, 1], 0, (0, 0), "a scalar"),
        ] {
            let mut grid = Grid::new(shape, most);
            assert_eq!(grid.of.blocks, blocks, "{reason}");
            add(&mut grid, index, Some(5.0));
            add(&mut grid, index, Some(2.0));
            let all = (0..blocks[0]).flat_map(|row| (0..blocks[1]).map(move |column| (row, column)));
            let drawn: Vec<_> = all.filter(|&(row, column)| grid.class(row, column) > 0).collect();
            assert_eq!(drawn, [at], "{reason}");
            assert_eq!(grid.text().matches('+').count(), 2, "the block and the legend: {reason}");
        }
    }

    #[test]
    fn every_ratio_has_a_class() {
        for (ratio, class) in [(0.0, 0), (1e-9, 1), (0.5, 1), (1.0, 2), (1.01, 3), (10.0, 3), (99.0, 4), (1e300, 5), (f64::INFINITY, 5)] {
            let mut grid = Grid::new(&[1], [1, 1]);
            add(&mut grid, 0, Some(ratio));
            assert_eq!(grid.class(0, 0), class, "{ratio}");
            add(&mut grid, 0, None);
            add(&mut grid, 0, Some(ratio));
            assert_eq!(grid.class(0, 0), COLOURS.len(), "not finite, beside {ratio}");
        }
    }

    #[test]
    fn pictures_have_their_colours_and_indices() {
        let mut grid = Grid::new(&[8, 8], [512, 512]);
        add(&mut grid, 9, Some(50.0));
        let mut file = Vec::new();
        grid.png(&mut file).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.height, info.width), (256 + 14, 256 + 52));
        let pixel = |y: usize, x: usize| &pixels[3 * (y * 308 + x)..][..3];
        assert_eq!((pixel(33, 52 + 33), pixel(63, 52 + 63)), (&[235, 120, 50][..], &[235, 120, 50][..]), "block [1, 1], 32 pixels wide");
        assert_eq!((pixel(31, 52 + 33), pixel(64, 52 + 64)), (&[255; 3][..], &[255; 3][..]), "its neighbours");
        assert_eq!(pixel(64, 52 - 2 - 8), [60; 3], "the index of row 2 at the left axis");
    }
}
