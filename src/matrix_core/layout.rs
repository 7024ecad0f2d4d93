//! Which lane and register of a wavefront holds which element, both ways; and the modifiers that move elements.
//!
//! From AMD's instruction set guides. A wavefront has 64 lanes. A and B put M (N) rows (columns) of a block in consecutive
//! lanes, block after block, and fill the wavefront with further groups of k; the rest of k is in one lane, packed in
//! ascending order. C and D hold columns in consecutive lanes; each lane has four rows in consecutive registers (f64: one).

use super::Mfma;
use crate::error::{Error, Result};

/// Lanes of a wavefront.
const LANES: usize = 64;

/// A matrix of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The left factor, M x K.
    A,
    /// The right factor, K x N.
    B,
    /// The accumulator that is added, M x N.
    C,
    /// The result, M x N, with the layout of C.
    D,
}

/// An element of a matrix of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coordinate {
    /// The block.
    pub block: usize,
    /// The row: i of A, C and D, k of B.
    pub row: usize,
    /// The column: k of A, j of B, C and D.
    pub column: usize,
}

/// A position in the registers of a wavefront.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The lane, 0 to 63.
    pub lane: usize,
    /// The register, counted from the first of the operand; of an f64, its lower register.
    pub register: usize,
    /// The lowest bit of the element in the register: 0, or 16 for the upper half, or 8, 16, 24.
    pub bit: usize,
}

/// The fields of the instruction word that change what is multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers {
    /// `cbsz`: one block of A serves 2^cbsz blocks.
    pub cbsz: u32,
    /// `abid`: the number of that block of A among these.
    pub abid: u32,
    /// `blgp`: for 32-bit accumulators, the pattern by which lanes of B are taken: 0 as they are; 1 and 2 the first and second 32
    /// lanes twice; 3 rotated down by 16; 4 to 7 the first to fourth 16 lanes four times. For f64, bits 0, 1 and 2 negate A, B and C.
    pub blgp: u32,
}

impl Mfma {
    /// Elements of A or B that one lane holds.
    const fn k_per_lane(self) -> usize {
        self.k() * self.m() * self.blocks() / LANES
    }

    /// Rows of C that lie in consecutive registers of a lane.
    fn rows_together(self) -> usize {
        if self.dtypes().2.bits() == 64 { 1 } else { 4 }
    }

    /// Blocks of C side by side in one register.
    fn blocks_together(self) -> usize {
        LANES.div_ceil(self.n() * self.m() / self.rows_together())
    }

    fn bits(self, operand: Operand) -> usize {
        let (a, b, c) = self.dtypes();
        match operand {
            Operand::A => a.bits(),
            Operand::B => b.bits(),
            Operand::C | Operand::D => c.bits(),
        }
    }

    /// Rows and columns of a block.
    pub const fn shape(self, operand: Operand) -> (usize, usize) {
        match operand {
            Operand::A => (self.m(), self.k()),
            Operand::B => (self.k(), self.n()),
            Operand::C | Operand::D => (self.m(), self.n()),
        }
    }

    /// 32-bit registers that an operand takes in each lane.
    pub fn registers(self, operand: Operand) -> usize {
        let (rows, columns) = self.shape(operand);
        rows * columns * self.blocks() * self.bits(operand) / (32 * LANES)
    }

    /// Where an element lies; `None` outside the operand.
    pub fn slot(self, operand: Operand, at: Coordinate) -> Option<Slot> {
        let (rows, columns) = self.shape(operand);
        if at.block >= self.blocks() || at.row >= rows || at.column >= columns {
            return None;
        }
        let (lane, item) = match operand {
            Operand::A => self.input_place(at.block, at.row, at.column),
            Operand::B => self.input_place(at.block, at.column, at.row),
            Operand::C | Operand::D => {
                let (h, side) = (self.rows_together(), self.blocks_together());
                let around = LANES / (self.n() * side);
                let item = at.block / side * (self.m() / around) + at.row / (h * around) * h + at.row % h;
                (at.column + self.n() * (at.block % side + side * (at.row / h % around)), item)
            }
        };
        let bits = self.bits(operand);
        Some(Slot { lane, register: item * bits / 32, bit: item * bits % 32 })
    }

    /// Lane and number within the lane of element (`outer`, `k`) of a block of A or B.
    fn input_place(self, block: usize, outer: usize, k: usize) -> (usize, usize) {
        let each = self.k_per_lane();
        (outer + self.m() * (block + self.blocks() * (k / each)), k % each)
    }

    /// The element at a position; `None` if the operand has none there, or if no element begins at that bit.
    pub fn element(self, operand: Operand, slot: Slot) -> Option<Coordinate> {
        let bits = self.bits(operand);
        let position = slot.register * 32 + slot.bit;
        if slot.lane >= LANES || slot.bit >= 32 || slot.register >= self.registers(operand) || !position.is_multiple_of(bits) {
            return None;
        }
        let item = position / bits;
        let at = match operand {
            Operand::A | Operand::B => {
                let outer = slot.lane % self.m();
                let group = slot.lane / self.m();
                let k = group / self.blocks() * self.k_per_lane() + item;
                let (row, column) = if operand == Operand::A { (outer, k) } else { (k, outer) };
                Coordinate { block: group % self.blocks(), row, column }
            }
            Operand::C | Operand::D => {
                let (h, side) = (self.rows_together(), self.blocks_together());
                let around = LANES / (self.n() * side);
                let in_block = self.m() / around;
                let group = slot.lane / self.n();
                let rest = item % in_block;
                Coordinate {
                    block: item / in_block * side + group % side,
                    row: rest / h * h * around + group / side * h + rest % h,
                    column: slot.lane % self.n(),
                }
            }
        };
        Some(at)
    }

    /// The modifiers, if this instruction takes them.
    ///
    /// # Errors
    /// Names the field, its value and its range.
    pub fn check_modifiers(self, modifiers: Modifiers) -> Result<Modifiers> {
        use super::{Input, InstructionKind};
        let range = |what, value: u32, most: u32| {
            if value <= most {
                return Ok(());
            }
            Err(Error::InvalidArgument { what, value: value.to_string(), limit: format!("0 to {most} for {self} on {}", self.arch()) })
        };
        let plain = matches!(
            self.arithmetic(),
            InstructionKind::F64 | InstructionKind::F32(Input::Xf32 | Input::Fp8Fp8 | Input::Fp8Bf8 | Input::Bf8Fp8 | Input::Bf8Bf8)
        );
        range("cbsz", modifiers.cbsz, if plain { 0 } else { self.blocks().ilog2() })?;
        range("abid", modifiers.abid, (1 << modifiers.cbsz) - 1)?;
        range("blgp", modifiers.blgp, if plain && self.arithmetic() != InstructionKind::F64 { 0 } else { 7 })?;
        Ok(modifiers)
    }

    /// The element of A that a block multiplies in place of element `at`.
    pub(super) fn a_source(self, modifiers: Modifiers, at: Coordinate) -> Coordinate {
        let block = (at.block >> modifiers.cbsz << modifiers.cbsz) + modifiers.abid as usize;
        Coordinate { block, ..at }
    }

    /// The element of B that is multiplied in place of element `at`: what the lane that `blgp` selects holds at the same position.
    pub(super) fn b_source(self, modifiers: Modifiers, at: Coordinate) -> Option<Coordinate> {
        let slot = self.slot(Operand::B, at)?;
        let lane = match modifiers.blgp {
            1 => slot.lane % 32,
            2 => slot.lane % 32 + 32,
            3 => (slot.lane + 16) % LANES,
            pattern @ 4..=7 => slot.lane % 16 + 16 * (pattern as usize - 4),
            _ => slot.lane,
        };
        self.element(Operand::B, Slot { lane, ..slot })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arch;
    use super::*;

    #[test]
    fn both_ways_agree_and_fill_the_registers() {
        for mfma in Arch::AMD.into_iter().flat_map(Mfma::all) {
            for operand in [Operand::A, Operand::B, Operand::C, Operand::D] {
                let (rows, columns) = mfma.shape(operand);
                let mut seen = std::collections::HashSet::new();
                for i in 0..mfma.blocks() * rows * columns {
                    let at = Coordinate { block: i / columns / rows, row: i / columns % rows, column: i % columns };
                    let slot = mfma.slot(operand, at).unwrap();
                    assert!(slot.lane < 64 && slot.register < mfma.registers(operand), "{mfma} {operand:?} {at:?} {slot:?}");
                    assert!(seen.insert(slot), "{mfma} {operand:?}: {slot:?} twice");
                    assert_eq!(mfma.element(operand, slot), Some(at), "{mfma} {operand:?}");
                }
            }
        }
    }

    #[test]
    fn layouts_of_the_guides() {
        // One line an element whose place AMD's guides print or follow from their examples.
        let g = Arch::Gfx90a;
        for (mfma, operand, (block, row, column), (lane, register, bit)) in [
            (Mfma::f32_32x32x1f32(g), Operand::A, (1, 5, 0), (37, 0, 0)),
            (Mfma::f32_32x32x2f32(g), Operand::A, (0, 5, 1), (37, 0, 0)),
            (Mfma::f32_16x16x4f32(g), Operand::B, (0, 3, 7), (55, 0, 0)),
            (Mfma::f32_32x32x8f16(g), Operand::A, (0, 3, 6), (35, 1, 0)),
            (Mfma::f32_32x32x8f16(g), Operand::B, (0, 1, 31), (31, 0, 16)),
            (Mfma::f32_32x32x8f16(g), Operand::D, (0, 13, 2), (34, 5, 0)),
            (Mfma::f32_16x16x16f16(g), Operand::A, (0, 2, 15), (50, 1, 16)),
            (Mfma::f32_16x16x16f16(g), Operand::D, (0, 6, 3), (19, 2, 0)),
            (Mfma::f32_32x32x4f16(g), Operand::D, (1, 0, 0), (0, 16, 0)),
            (Mfma::f32_16x16x4f16(g), Operand::D, (2, 5, 1), (17, 9, 0)),
            (Mfma::f32_4x4x4f16(g), Operand::A, (9, 2, 3), (38, 1, 16)),
            (Mfma::f32_4x4x4f16(g), Operand::D, (9, 2, 3), (39, 2, 0)),
            (Mfma::f32_32x32x4bf16(g), Operand::A, (0, 0, 3), (32, 0, 16)),
            (Mfma::f64_16x16x4f64(g), Operand::A, (0, 5, 2), (37, 0, 0)),
            (Mfma::f64_16x16x4f64(g), Operand::D, (0, 9, 4), (20, 4, 0)),
            (Mfma::f64_4x4x4f64(g), Operand::A, (2, 1, 3), (57, 0, 0)),
            (Mfma::f64_4x4x4f64(g), Operand::D, (2, 1, 3), (27, 0, 0)),
            (Mfma::i32_32x32x8i8(g), Operand::A, (0, 1, 6), (33, 0, 16)),
            (Mfma::f32_16x16x8_xf32(Arch::Gfx942), Operand::A, (0, 1, 3), (17, 1, 0)),
            (Mfma::f32_16x16x32_fp8_bf8(Arch::Gfx942), Operand::B, (0, 13, 2), (18, 1, 8)),
        ] {
            let found = mfma.slot(operand, Coordinate { block, row, column });
            assert_eq!(found, Some(Slot { lane, register, bit }), "{mfma} {operand:?} [{block}][{row}][{column}]");
        }
    }

    #[test]
    fn modifiers_out_of_range_are_errors() {
        for (mfma, cbsz, abid, blgp, fits) in [
            (Mfma::f32_32x32x4f16(Arch::Gfx908), 1, 1, 7, true),
            (Mfma::f32_32x32x4f16(Arch::Gfx908), 2, 0, 0, false),
            (Mfma::f32_32x32x4f16(Arch::Gfx908), 1, 2, 0, false),
            (Mfma::f32_32x32x8f16(Arch::Gfx908), 1, 0, 0, false),
            (Mfma::f32_4x4x4f16(Arch::Gfx90a), 4, 15, 3, true),
            (Mfma::f64_16x16x4f64(Arch::Gfx90a), 0, 0, 7, true),
            (Mfma::f32_16x16x8_xf32(Arch::Gfx942), 0, 0, 1, false),
            (Mfma::f32_16x16x32_fp8_fp8(Arch::Gfx942), 0, 0, 8, false),
        ] {
            let m = Modifiers { cbsz, abid, blgp };
            assert_eq!(mfma.check_modifiers(m).is_ok(), fits, "{mfma} {m:?}");
        }
    }
}
