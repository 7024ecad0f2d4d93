//! Convolutions as families of matrix products, whatever the layouts: which element meets which.
//!
//! Sizes are per group, spatial extents are padded with ones to three dimensions. Nothing is materialised: operands are
//! gathered tile by tile, and positions outside the image are zero.

use super::Role;
use super::chain::Number;
use super::tiles::Products;
use crate::error::Error;
use std::ops::Range;

/// Strides of a tensor, in elements, outermost meaning first: image or output channel, group, channel, spatial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strides {
    /// Of the image (input, output) or the output channel (filter).
    pub outer: usize,
    pub group: usize,
    pub channel: usize,
    pub space: [usize; 3],
}

/// A convolution with the addresses of its elements.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    pub images: usize,
    pub groups: usize,
    /// Input channels of a group.
    pub c: usize,
    /// Output channels of a group.
    pub k: usize,
    pub input: [usize; 3],
    pub filter: [usize; 3],
    pub output: [usize; 3],
    pub stride: [usize; 3],
    pub dilation: [usize; 3],
    /// Padding before the image.
    pub padding: [usize; 3],
    pub input_at: Strides,
    pub filter_at: Strides,
    pub output_at: Strides,
}

/// The three convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Output from input and filter.
    Forward,
    /// Gradient of the input from gradient of the output and filter.
    BackwardData,
    /// Gradient of the filter from input and gradient of the output.
    BackwardWeight,
}

impl Direction {
    /// All of them.
    pub const ALL: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardWeight];

    /// The name in flags, suites and messages: `fwd`, `bwd_data`, `bwd_weight`.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Forward => "fwd",
            Direction::BackwardData => "bwd_data",
            Direction::BackwardWeight => "bwd_weight",
        }
    }

    /// The roles of the two operands and of the result: (input, filter) gives the output, (output, filter) the input for
    /// backward data, (input, output) the filter for backward weight.
    pub const fn roles(self) -> [Role; 3] {
        match self {
            Direction::Forward => [Role::Input, Role::Filter, Role::Output],
            Direction::BackwardData => [Role::Output, Role::Filter, Role::Input],
            Direction::BackwardWeight => [Role::Input, Role::Output, Role::Filter],
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Direction {
    type Err = Error;

    /// Reads a [`name`](Direction::name).
    fn from_str(name: &str) -> Result<Direction, Error> {
        Direction::ALL.into_iter().find(|direction| direction.name() == name).ok_or_else(|| Error::InvalidArgument {
            what: "direction",
            value: name.to_owned(),
            limit: "it must be fwd, bwd_data or bwd_weight".to_owned(),
        })
    }
}

/// The order in which the products of one output element are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum KOrder {
    /// Forward (c, z, y, x); backward data (k, z, y, x). Backward weight always takes (n, z, y, x) of the output.
    #[default]
    ChannelsFirst,
    /// Forward (z, y, x, c); backward data (z, y, x, k). Backward weight always takes (n, z, y, x) of the output.
    ChannelsLast,
}

impl KOrder {
    /// Both of them.
    pub const ALL: [KOrder; 2] = [KOrder::ChannelsFirst, KOrder::ChannelsLast];

    /// The name in flags: `channels-first`, `channels-last`.
    pub const fn name(self) -> &'static str {
        match self {
            KOrder::ChannelsFirst => "channels-first",
            KOrder::ChannelsLast => "channels-last",
        }
    }
}

impl std::fmt::Display for KOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for KOrder {
    type Err = Error;

    /// Reads a [`name`](KOrder::name).
    fn from_str(name: &str) -> Result<KOrder, Error> {
        KOrder::ALL.into_iter().find(|order| order.name() == name).ok_or_else(|| Error::InvalidArgument {
            what: "order",
            value: name.to_owned(),
            limit: "it must be channels-first or channels-last".to_owned(),
        })
    }
}

/// One position of the window and of the channels.
struct Tap {
    source: usize,
    filter: usize,
    shift: [isize; 3],
}

/// Forward and backward data: the image is gathered, the filter is the other operand.
pub(crate) struct Windows<'a, S> {
    groups: usize,
    rows: usize,
    row_stride: usize,
    filter_group: usize,
    filter: &'a [S],
    source: &'a [S],
    source_at: Strides,
    source_space: [usize; 3],
    target_space: [usize; 3],
    images: usize,
    /// Source position = (target · multiply + shift) / divide, where that divides.
    multiply: [usize; 3],
    divide: [usize; 3],
    taps: Vec<Tap>,
}

/// Consecutive columns of one image row.
struct Run {
    base: usize,
    at: [usize; 3],
    len: usize,
    column: usize,
}

/// The runs of `range` in the order (image, z, y, x).
fn runs(range: Range<usize>, space: [usize; 3], image_stride: usize) -> Vec<Run> {
    let mut out = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let x = at % space[2];
        let row = at / space[2];
        let (y, z, n) = (row % space[1], row / space[1] % space[0], row / space[1] / space[0]);
        let len = (space[2] - x).min(range.end - at);
        out.push(Run { base: n * image_stride, at: [z, y, x], len, column: at - range.start });
        at += len;
    }
    out
}

impl Lattice {
    /// The products of a forward convolution.
    pub(crate) fn forward<'a, S>(&self, input: &'a [S], filter: &'a [S], order: KOrder) -> Windows<'a, S> {
        let taps = self.taps(order, self.c, self.input_at.channel, self.filter_at.channel, |tap, d| {
            (tap * self.dilation[d]) as isize - self.padding[d] as isize
        });
        Windows {
            groups: self.groups,
            rows: self.k,
            row_stride: self.filter_at.outer,
            filter_group: self.filter_at.group,
            filter,
            source: input,
            source_at: self.input_at,
            source_space: self.input,
            target_space: self.output,
            images: self.images,
            multiply: self.stride,
            divide: [1; 3],
            taps,
        }
    }

    /// The products of the gradient of the input.
    pub(crate) fn backward_data<'a, S>(&self, output: &'a [S], filter: &'a [S], order: KOrder) -> Windows<'a, S> {
        let taps = self.taps(order, self.k, self.output_at.channel, self.filter_at.outer, |tap, d| {
            self.padding[d] as isize - (tap * self.dilation[d]) as isize
        });
        Windows {
            groups: self.groups,
            rows: self.c,
            row_stride: self.filter_at.channel,
            filter_group: self.filter_at.group,
            filter,
            source: output,
            source_at: self.output_at,
            source_space: self.output,
            target_space: self.input,
            images: self.images,
            multiply: [1; 3],
            divide: self.stride,
            taps,
        }
    }

    /// The products of the gradient of the filter. With `inside`, products with padding are left out rather than added as zeros.
    pub(crate) fn backward_weight<'a, S>(&'a self, input: &'a [S], output: &'a [S], inside: bool) -> Weights<'a, S> {
        Weights { lattice: self, input, output, inside }
    }

    fn taps(&self, order: KOrder, channels: usize, source: usize, filter: usize, shift: impl Fn(usize, usize) -> isize) -> Vec<Tap> {
        let [fz, fy, fx] = self.filter;
        let space = self.filter_at.space;
        let tap = |c: usize, t: usize| {
            let (z, y, x) = (t / (fy * fx), t / fx % fy, t % fx);
            Tap {
                source: c * source,
                filter: c * filter + z * space[0] + y * space[1] + x * space[2],
                shift: [shift(z, 0), shift(y, 1), shift(x, 2)],
            }
        };
        let window = fz * fy * fx;
        match order {
            KOrder::ChannelsFirst => (0..channels).flat_map(|c| (0..window).map(move |t| (c, t))).map(|(c, t)| tap(c, t)).collect(),
            KOrder::ChannelsLast => (0..window).flat_map(|t| (0..channels).map(move |c| (c, t))).map(|(c, t)| tap(c, t)).collect(),
        }
    }

    /// Where row `row` and column `column` of member `f` of the forward products lie in the output.
    pub(crate) fn output_index(&self, group: usize, row: usize, column: usize) -> usize {
        index(&self.output_at, self.output, group, row, column)
    }

    /// Where row `row` and column `column` of the backward-data products lie in the input.
    pub(crate) fn input_index(&self, group: usize, row: usize, column: usize) -> usize {
        index(&self.input_at, self.input, group, row, column)
    }
}

fn index(at: &Strides, space: [usize; 3], group: usize, channel: usize, column: usize) -> usize {
    let row = column / space[2];
    let position = [row / space[1] % space[0], row % space[1], column % space[2]];
    let spatial: usize = position.iter().zip(at.space).map(|(p, s)| p * s).sum();
    row / space[1] / space[0] * at.outer + group * at.group + channel * at.channel + spatial
}

/// The place of source position (target · multiply + shift) / divide along one dimension; `None` outside.
fn inside(target: usize, multiply: usize, shift: isize, divide: usize, extent: usize) -> Option<usize> {
    let scaled = usize::try_from((target * multiply) as isize + shift).ok()?;
    (scaled.is_multiple_of(divide) && scaled / divide < extent).then_some(scaled / divide)
}

/// The part of `0..len` whose positions `(start + i) · multiply + shift` lie in `0..extent`.
fn covered(start: usize, len: usize, multiply: usize, shift: isize, extent: usize) -> Range<usize> {
    let first = start as isize * multiply as isize + shift;
    let low = if first >= 0 { 0 } else { first.unsigned_abs().div_ceil(multiply) }.min(len);
    let space = extent as isize - first;
    let high = if space <= 0 { 0 } else { space.unsigned_abs().div_ceil(multiply) }.min(len);
    low..high.max(low)
}

impl<T: Number, S: Number + Into<T>> Products<T> for Windows<'_, S> {
    fn members(&self) -> usize {
        self.groups
    }

    fn extent(&self) -> (usize, usize) {
        (self.rows, self.images * self.target_space.iter().product::<usize>())
    }

    fn depth(&self, _: usize) -> usize {
        self.taps.len()
    }

    fn pack_a(&self, group: usize, rows: Range<usize>, ks: Range<usize>, to: &mut [T], ld: usize) {
        for (row, line) in rows.zip(to.chunks_exact_mut(ld)) {
            let base = group * self.filter_group + row * self.row_stride;
            for (value, tap) in line.iter_mut().zip(&self.taps[ks.clone()]) {
                *value = self.filter[base + tap.filter].into();
            }
        }
    }

    fn pack_b(&self, group: usize, ks: Range<usize>, columns: Range<usize>, to: &mut [T], ld: usize) {
        let runs = runs(columns, self.target_space, self.source_at.outer);
        let [sz, sy, sx] = self.source_at.space;
        for (tap, line) in self.taps[ks].iter().zip(to.chunks_exact_mut(ld)) {
            for run in &runs {
                let target = &mut line[run.column..run.column + run.len];
                let along = |d: usize| inside(run.at[d], self.multiply[d], tap.shift[d], self.divide[d], self.source_space[d]);
                let (Some(z), Some(y)) = (along(0), along(1)) else {
                    target.fill(T::default());
                    continue;
                };
                let base = run.base + group * self.source_at.group + tap.source + z * sz + y * sy;
                if self.divide[2] == 1 {
                    let part = covered(run.at[2], run.len, self.multiply[2], tap.shift[2], self.source_space[2]);
                    target[..part.start].fill(T::default());
                    target[part.end..].fill(T::default());
                    if part.is_empty() {
                        continue;
                    }
                    let first = ((run.at[2] + part.start) * self.multiply[2]) as isize + tap.shift[2];
                    let (start, step) = (base + first as usize * sx, self.multiply[2] * sx);
                    copy(&mut target[part], &self.source[start..], step);
                } else {
                    for (i, value) in target.iter_mut().enumerate() {
                        let x = inside(run.at[2] + i, 1, tap.shift[2], self.divide[2], self.source_space[2]);
                        *value = x.map_or(T::default(), |x| self.source[base + x * sx].into());
                    }
                }
            }
        }
    }
}

fn copy<T: Copy, S: Copy + Into<T>>(to: &mut [T], from: &[S], step: usize) {
    if step == 1 {
        to.iter_mut().zip(from).for_each(|(t, &s)| *t = s.into());
    } else {
        to.iter_mut().zip(from.iter().step_by(step)).for_each(|(t, &s)| *t = s.into());
    }
}

/// Backward weight: rows are output channels, columns (c, z, y, x) of the filter, K runs over the output's positions.
///
/// When products with padding are left out, each position of the window is a member of its own, with a smaller K.
pub(crate) struct Weights<'a, S> {
    lattice: &'a Lattice,
    input: &'a [S],
    output: &'a [S],
    inside: bool,
}

impl<S> Weights<'_, S> {
    fn window(&self) -> usize {
        self.lattice.filter.iter().product()
    }

    /// The group, the window position of column 0 and the positions of the output over which K runs.
    fn member(&self, f: usize) -> (usize, usize, [Range<usize>; 3]) {
        let l = self.lattice;
        if !self.inside {
            return (f, 0, l.output.map(|n| 0..n));
        }
        let (group, tap) = (f / self.window(), f % self.window());
        let shift = self.shift(tap);
        let part = |d: usize| covered(0, l.output[d], l.stride[d], shift[d], l.input[d]);
        (group, tap, [part(0), part(1), part(2)])
    }

    fn position(&self, tap: usize) -> [usize; 3] {
        let [_, fy, fx] = self.lattice.filter;
        [tap / (fy * fx), tap / fx % fy, tap % fx]
    }

    fn shift(&self, tap: usize) -> [isize; 3] {
        let (l, p) = (self.lattice, self.position(tap));
        std::array::from_fn(|d| (p[d] * l.dilation[d]) as isize - l.padding[d] as isize)
    }

    /// Channel and window position of a column.
    fn column(&self, first_tap: usize, column: usize) -> (usize, usize) {
        if self.inside { (column, first_tap) } else { (column / self.window(), column % self.window()) }
    }

    /// Where row `row` and column `column` of member `f` lie in the filter.
    pub(crate) fn filter_index(&self, f: usize, row: usize, column: usize) -> usize {
        let (group, first, _) = self.member(f);
        let (channel, tap) = self.column(first, column);
        let (at, p) = (&self.lattice.filter_at, self.position(tap));
        let spatial: usize = p.iter().zip(at.space).map(|(p, s)| p * s).sum();
        group * at.group + row * at.outer + channel * at.channel + spatial
    }
}

impl<T: Number, S: Number + Into<T>> Products<T> for Weights<'_, S> {
    fn members(&self) -> usize {
        self.lattice.groups * if self.inside { self.window() } else { 1 }
    }

    fn extent(&self) -> (usize, usize) {
        (self.lattice.k, self.lattice.c * if self.inside { 1 } else { self.window() })
    }

    fn depth(&self, f: usize) -> usize {
        self.lattice.images * self.member(f).2.iter().map(|r| r.len()).product::<usize>()
    }

    fn pack_a(&self, f: usize, rows: Range<usize>, ks: Range<usize>, to: &mut [T], ld: usize) {
        let (group, _, part) = self.member(f);
        let at = &self.lattice.output_at;
        let corner: usize = part.iter().zip(at.space).map(|(r, s)| r.start * s).sum();
        let runs = runs(ks, [part[0].len(), part[1].len(), part[2].len()], at.outer);
        for (row, line) in rows.zip(to.chunks_exact_mut(ld)) {
            let base = group * at.group + row * at.channel + corner;
            for run in &runs {
                let spatial: usize = run.at.iter().zip(at.space).map(|(p, s)| p * s).sum();
                let target = &mut line[run.column..run.column + run.len];
                copy(target, &self.output[base + run.base + spatial..], at.space[2]);
            }
        }
    }

    fn pack_b(&self, f: usize, ks: Range<usize>, columns: Range<usize>, to: &mut [T], ld: usize) {
        let (group, first, part) = self.member(f);
        let l = self.lattice;
        let at = &l.input_at;
        let runs = runs(ks.clone(), [part[0].len(), part[1].len(), part[2].len()], at.outer);
        for (j, column) in columns.enumerate() {
            let (channel, tap) = self.column(first, column);
            let shift = self.shift(tap);
            for run in &runs {
                let along = |d: usize| inside(part[d].start + run.at[d], l.stride[d], shift[d], 1, l.input[d]);
                let x = part[2].start + run.at[2];
                let mut lines = to[run.column * ld..].chunks_mut(ld).map(|line| &mut line[j]).take(run.len);
                let (Some(z), Some(y)) = (along(0), along(1)) else {
                    lines.for_each(|v| *v = T::default());
                    continue;
                };
                let base = run.base + group * at.group + channel * at.channel + z * at.space[0] + y * at.space[1];
                let hit = covered(x, run.len, l.stride[2], shift[2], l.input[2]);
                lines.by_ref().take(hit.start).for_each(|v| *v = T::default());
                if !hit.is_empty() {
                    let start = base + (((x + hit.start) * l.stride[2]) as isize + shift[2]) as usize * at.space[2];
                    let source = self.input[start..].iter().step_by(l.stride[2] * at.space[2]);
                    lines.by_ref().take(hit.len()).zip(source).for_each(|(v, &s)| *v = s.into());
                }
                lines.for_each(|v| *v = T::default());
            }
        }
    }
}
