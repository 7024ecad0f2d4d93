//! Any generator in any format on the host, [`WINDOW`] elements at a time: random words, numbers and encoded elements each in a
//! loop that the compiler vectorises, then special values and sparsity. `element.rs` is the definition.
//!
//! Windows start at multiples of their length, so that their random words are whole blocks.

use super::crand::Outputs;
use super::element::{self, DATA, SPARSE, SPECIAL, below, random_bits};
use super::loops;
use super::math::INV_TAU;
use super::params::{FillParams, crand_state, flag, is_wide, kind};
use super::philox;
use crate::dtype::convert::{encode_from_f32, encode_from_f64};
use crate::dtype::{DType, Overflow, Rounding};
use crate::simd::InstructionSet;
use std::ops::Range;

/// Elements of a window.
pub(super) const WINDOW: usize = 512;

/// The buffers that one thread fills with.
pub(super) struct Blocks<'a> {
    p: &'a FillParams,
    dtype: DType,
    set: InstructionSet,
    words: [u32; 2 * WINDOW],
    whole: [u64; WINDOW],
    singles: [f32; WINDOW],
    doubles: [f64; WINDOW],
    bytes: [u8; 8 * WINDOW],
    /// The C library's generator, before the output with this index.
    crand: Option<(u64, Outputs)>,
    /// All windows equal the one that was made.
    constant: bool,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(set: InstructionSet, p: &'a FillParams, dtype: DType) -> Blocks<'a> {
        let (singles, doubles) = ([0.0; WINDOW], [0.0; WINDOW]);
        Blocks {
            p,
            dtype,
            set,
            words: [0; 2 * WINDOW],
            whole: [0; WINDOW],
            singles,
            doubles,
            bytes: [0; 8 * WINDOW],
            crand: None,
            constant: false,
        }
    }

    /// Fills whole units with the elements from `first` on.
    pub(super) fn fill(&mut self, first: u64, out: &mut [u8]) {
        let (unit, per_unit) = (self.dtype.unit_bytes(), self.dtype.per_unit());
        let elements = out.len() / unit * per_unit;
        let mut done = 0;
        while done < elements {
            let skip = ((first + done as u64) % WINDOW as u64) as usize;
            let count = (WINDOW - skip).min(elements - done);
            let dtype = self.dtype;
            let from = self.window(first + done as u64 - skip as u64);
            if [skip, done, count].iter().all(|n| n.is_multiple_of(per_unit)) {
                let bytes = |element: usize| element / per_unit * unit;
                out[bytes(done)..bytes(done + count)].copy_from_slice(&from[bytes(skip)..bytes(skip + count)]);
            } else {
                (0..count).for_each(|i| dtype.store_bits(out, done + i, dtype.load_bits(from, skip + i)));
            }
            done += count;
        }
    }

    /// The bytes of the elements from `start`, a multiple of [`WINDOW`], on; those past the last element are meaningless.
    pub(super) fn window(&mut self, start: u64) -> &[u8] {
        if self.constant {
            return &self.bytes;
        }
        match self.p.kind {
            kind::UNIFORM => self.uniform(start),
            kind::INTEGERS => self.integers(start),
            kind::SUBNORMAL => {
                self.below(start);
                let f = self.dtype.float_format().map_or([0; 2], |f| [f.exponent_bits + f.mantissa_bits, f.pad_bits]);
                loops::subnormal(self.set, f, &mut self.whole);
                self.store_whole();
            }
            kind::NORMAL => self.normal(start),
            kind::CONSTANT => {
                self.whole.fill(self.dtype.encode(self.p.a, Rounding::NearestEven, element::overflow(self.p.kind)));
                self.store_whole();
                self.constant = self.p.special_below == 0 && self.p.flags & flag::SPARSE == 0;
            }
            kind::CRAND => self.crand(start),
            _ => {
                self.fixed(start);
                self.store_doubles();
            }
        }
        self.overlay(start);
        &self.bytes
    }

    /// The first `count` words of the window's random bits, of which an element takes `width`.
    fn words(&mut self, start: u64, width: u32, purpose: u32) {
        let count = WINDOW * width as usize / 32;
        philox::words(self.set, self.p, purpose, start / u64::from(128 / width), &mut self.words[..count]);
    }

    fn store_whole(&mut self) {
        loops::store(self.set, self.dtype.bits(), &self.whole, &mut self.bytes);
    }

    fn store_singles(&mut self, rounding: Rounding) {
        encode_from_f32(self.dtype, &self.singles, rounding, Overflow::Saturate, &mut self.bytes);
    }

    fn store_doubles(&mut self) {
        encode_from_f64(self.dtype, &self.doubles, Rounding::NearestEven, element::overflow(self.p.kind), &mut self.bytes);
    }

    fn uniform(&mut self, start: u64) {
        let width = random_bits(self.dtype);
        self.words(start, width, DATA);
        let words = &self.words[..WINDOW * width as usize / 32];
        if is_wide(self.dtype) {
            loops::uniform_f64(self.set, self.p, words, &mut self.doubles);
            self.store_doubles();
        } else {
            loops::uniform_f32(self.set, self.p, width, words, &mut self.singles);
            self.store_singles(Rounding::NearestEven);
        }
    }

    fn normal(&mut self, start: u64) {
        if is_wide(self.dtype) {
            self.words(start, 64, DATA);
            loops::normal_f64(self.set, self.p, &self.words, &mut self.doubles);
            self.store_doubles();
        } else {
            self.words(start, 32, DATA);
            loops::normal_f32(self.set, self.p, &self.words[..WINDOW], &mut self.singles);
            self.store_singles(Rounding::NearestEven);
        }
    }

    /// Unbiased numbers below `int_count`, to `whole`.
    fn below(&mut self, start: u64) {
        let count = self.p.int_count;
        let width = if count != 0 && count <= 0xffff_ffff { 32 } else { 64 };
        self.words(start, width, DATA);
        let words = &self.words[..WINDOW * width as usize / 32];
        let mut doubtful = false;
        loops::below(self.set, count, words, &mut self.whole, &mut doubtful);
        if doubtful {
            for (i, value) in self.whole.iter_mut().enumerate() {
                if loops::is_doubtful(count, words, i) {
                    *value = below(self.p, start + i as u64);
                }
            }
        }
    }

    fn integers(&mut self, start: u64) {
        self.below(start);
        loops::integers(self.set, self.p, &mut self.whole);
        if self.p.period > 1 {
            let whole = &mut self.whole;
            let period = self.p.period;
            rows(self.p, start, |range, coordinates| {
                // The place in this run of the next sum that the period divides.
                let mut next = (period - coordinates.iter().sum::<u64>() % period) % period;
                for (i, value) in whole[range].iter_mut().enumerate() {
                    if i as u64 == next {
                        next += period;
                    } else {
                        *value = 0;
                    }
                }
            });
        }
        if self.dtype.is_int() {
            self.store_whole();
        } else if self.dtype == DType::F64 {
            loops::to_f64(self.set, &self.whole, &mut self.doubles);
            self.store_doubles();
        } else {
            // Exact: these formats count to at most 2^24.
            loops::to_f32(self.set, &self.whole, &mut self.singles);
            self.store_singles(Rounding::NearestEven);
        }
    }

    fn crand(&mut self, start: u64) {
        let mut outputs = match self.crand.take() {
            Some((next, outputs)) if next == start => outputs,
            _ => crand_state(self.p).outputs_from(start),
        };
        self.words[..WINDOW].iter_mut().for_each(|word| *word = outputs.next_output());
        self.crand = Some((start + WINDOW as u64, outputs));
        loops::crand(self.set, self.p, &self.words[..WINDOW], &mut self.singles);
        self.store_singles(element::crand_rounding(self.dtype));
    }

    /// The generators without randomness, to `doubles`.
    fn fixed(&mut self, start: u64) {
        let (p, doubles) = (self.p, &mut self.doubles);
        let last = (p.rank as usize).saturating_sub(1);
        match p.kind {
            kind::SEQUENTIAL => rows(p, start, |range, coordinates| {
                let dim = p.dim as usize;
                let step = u64::from(dim == last);
                for (i, value) in doubles[range].iter_mut().enumerate() {
                    *value = (coordinates[dim] + i as u64 * step) as f64;
                }
            }),
            kind::DIAGONAL => rows(p, start, |range, coordinates| {
                let run = &mut doubles[range];
                run.fill(0.0);
                let position = coordinates[last - 1].checked_sub(coordinates[last]);
                if let Some(value) = position.and_then(|position| run.get_mut(usize::try_from(position).ok()?)) {
                    *value = p.a;
                }
            }),
            kind::CHECKERBOARD => rows(p, start, |range, coordinates| {
                let sum: u64 = coordinates.iter().sum();
                for (i, value) in doubles[range].iter_mut().enumerate() {
                    *value = if (sum + i as u64).is_multiple_of(2) { p.a } else { -p.a };
                }
            }),
            kind::MONOTONIC => loops::monotonic(self.set, p, start, doubles),
            _ => {
                let mut turn = INV_TAU.wrapping_mul(u128::from(start));
                for whole in &mut self.whole {
                    *whole = (turn >> 64) as u64;
                    turn = turn.wrapping_add(INV_TAU);
                }
                loops::sin_or_cos(self.set, p.kind == kind::SIN, &self.whole, doubles);
            }
        }
    }

    fn overlay(&mut self, start: u64) {
        let below = self.p.special_below;
        if let (true, Some(f)) = (below > 0, self.dtype.float_format()) {
            self.words(start, 64, SPECIAL);
            for (i, [low, high]) in self.words.as_chunks().0.iter().enumerate() {
                if u64::from(*low) < below {
                    self.dtype.store_bits(&mut self.bytes, i, element::special(self.p.flags, f, *high));
                }
            }
        }
        if self.p.flags & flag::SPARSE != 0 {
            // 32 bits for four elements.
            self.words(start, 8, SPARSE);
            loops::sparsify(self.set, self.dtype.bits(), &self.words[..WINDOW / 4], &mut self.bytes);
        }
    }
}

/// Cuts a window into runs along the last dimension: `visit` gets the positions in the window and the coordinates of the first one.
pub(super) fn rows(p: &FillParams, start: u64, mut visit: impl FnMut(Range<usize>, &[u64])) {
    let rank = p.rank as usize;
    let mut coordinates = [0; super::params::MAX_RANK];
    let mut rest = start;
    for d in (0..rank).rev() {
        coordinates[d] = rest % p.shape[d];
        rest /= p.shape[d];
    }
    let mut done = 0;
    while done < WINDOW {
        let left = if rank == 0 { u64::MAX } else { p.shape[rank - 1] - coordinates[rank - 1] };
        let run = (WINDOW - done).min(usize::try_from(left).unwrap_or(WINDOW));
        visit(done..done + run, &coordinates[..rank]);
        done += run;
        if rank > 0 {
            coordinates[rank - 1] += run as u64;
            // Past the last element all coordinates start again.
            for d in (0..rank).rev() {
                if coordinates[d] < p.shape[d] {
                    break;
                }
                coordinates[d] = 0;
                if d > 0 {
                    coordinates[d - 1] += 1;
                }
            }
        }
    }
}
