//! How a wavefront accesses memory. Lanes come one after the other, in ascending order.

use super::memory::{Access, Operation, Space};
use super::parse::{Operand, Place};
use super::program::Instruction;
use super::wave::{Around, LANES, Wave};

/// The most words that a lane loads at once.
const WORDS: usize = 16;

impl Wave {
    pub(super) fn access(&mut self, instruction: &Instruction, access: &Access, around: &mut Around<'_>) -> Result<(), String> {
        if access.space == Space::Scalar {
            return self.load_scalar(instruction, access, around);
        }
        let operands = &instruction.operands;
        let loads = matches!(access.operation, Operation::Load { .. });
        let returns = matches!(access.operation, Operation::Atomic { returns: true, .. });
        let address = usize::from(loads || returns);
        let data = address + 1;
        let base = operands
            .iter()
            .skip(address + 1)
            .rfind(|operand| matches!(operand.place, Place::Scalar(_)))
            .filter(|_| access.space == Space::Global);
        for lane in self.lanes() {
            let from = self.address(&operands[address], base, access.space, lane)?;
            for place in 0..access.places {
                let at = from.wrapping_add_signed(access.offsets[place]);
                // Addresses of shared memory have 32 bits.
                let at = if access.space == Space::Shared { at & 0xffff_ffff } else { at };
                let to = Operand { place: operands[0].place.after(place * access.bytes.div_ceil(4)), ..operands[0] };
                match access.operation {
                    Operation::Load { signed, high } => self.load((lane, &to), at, access, (signed, high), around)?,
                    Operation::Store { high } => self.store(lane, &operands[data + place], at, access, high, around)?,
                    Operation::Atomic { update, returns } => {
                        let words = (access.bytes / 4) as u8;
                        let x = self.read(&operands[data], words, lane)?;
                        let before = read_number(around, access, at)?;
                        write_bytes(around, access.space, at, &update(before, x).to_le_bytes()[..access.bytes])?;
                        if returns {
                            self.write(&operands[0], lane, &[before as u32, (before >> 32) as u32][..usize::from(words)])?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// An address in memory, or in shared memory.
    fn address(&self, operand: &Operand, base: Option<&Operand>, space: Space, lane: usize) -> Result<u64, String> {
        match (space, base) {
            (Space::Global, None) => self.read(operand, 2, lane),
            (Space::Global, Some(base)) => Ok(self.read(base, 2, lane)?.wrapping_add(self.read(operand, 1, lane)?)),
            _ => self.read(operand, 1, lane),
        }
    }

    fn load(
        &mut self,
        (lane, to): (usize, &Operand),
        at: u64,
        access: &Access,
        (signed, high): (bool, Option<bool>),
        around: &Around<'_>,
    ) -> Result<(), String> {
        let mut words = [0u32; WORDS];
        let bytes = read_bytes(around, access.space, at, access.bytes)?;
        words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        if signed {
            let up = 32 - 8 * access.bytes as u32;
            words[0] = ((words[0] << up).cast_signed() >> up).cast_unsigned();
        }
        if let Some(high) = high {
            let before = self.read(to, 1, lane)? as u32;
            words[0] = if high { before & 0xffff | words[0] << 16 } else { before & 0xffff_0000 | words[0] };
        }
        self.write(to, lane, &words[..access.bytes.div_ceil(4)])
    }

    fn store(&mut self, lane: usize, from: &Operand, at: u64, access: &Access, high: bool, around: &mut Around<'_>) -> Result<(), String> {
        let mut bytes = [0; 4 * WORDS];
        for (i, word) in bytes[..access.bytes.next_multiple_of(4)].as_chunks_mut().0.iter_mut().enumerate() {
            let one = Operand { place: from.place.after(i), registers: 1, ..*from };
            let x = self.read(&one, 1, lane)? as u32;
            *word = if high { x >> 16 } else { x }.to_le_bytes();
        }
        write_bytes(around, access.space, at, &bytes[..access.bytes])
    }

    fn load_scalar(&mut self, instruction: &Instruction, access: &Access, around: &Around<'_>) -> Result<(), String> {
        let operands = &instruction.operands;
        let base = self.read(&operands[1], 2, 0)?;
        let offset = match operands.get(2) {
            Some(Operand { place: Place::Whole(offset), .. }) => *offset,
            Some(register) => self.read(register, 1, 0)? as i64,
            None => 0,
        };
        let at = base.wrapping_add_signed(offset + access.offsets[0]) & !3;
        let bytes = read_bytes(around, access.space, at, access.bytes)?;
        let Place::Scalar(first) = operands[0].place else { return Err("the destination is no scalar register".to_owned()) };
        for (i, word) in bytes[..access.bytes].as_chunks().0.iter().enumerate() {
            self.scalars[usize::from(first) + i] = u32::from_le_bytes(*word);
        }
        Ok(())
    }

    /// Lanes that are switched off give 0.
    pub(super) fn permute(&mut self, instruction: &Instruction) -> Result<(), String> {
        let operands = &instruction.operands;
        let offset = instruction.line.number("offset").unwrap_or(0) as u64;
        let exec = self.exec();
        let mut words = [0; LANES];
        for lane in self.lanes() {
            let from = (self.read(&operands[1], 1, lane)? + offset) as usize / 4 % LANES;
            words[lane] = if exec >> from & 1 == 1 { self.read(&operands[2], 1, from)? as u32 } else { 0 };
        }
        self.lanes().try_for_each(|lane| self.write(&operands[0], lane, &words[lane..=lane]))
    }
}

fn read_number(around: &Around<'_>, access: &Access, at: u64) -> Result<u64, String> {
    if !at.is_multiple_of(access.bytes as u64) {
        return Err(format!("an atomic access at {at:#x} is not aligned to its {} bytes", access.bytes));
    }
    Ok(read_bytes(around, access.space, at, access.bytes)?[..8].iter().rev().fold(0, |x, byte| x << 8 | u64::from(*byte)))
}

/// The bytes, and zeros after them.
fn read_bytes(around: &Around<'_>, space: Space, at: u64, bytes: usize) -> Result<[u8; 4 * WORDS], String> {
    let (from, mut all) = (at as usize, [0; 4 * WORDS]);
    if space == Space::Shared {
        let found = around.shared.get(from..from.saturating_add(bytes));
        all[..bytes].copy_from_slice(found.ok_or_else(|| format!("{bytes} bytes at {at:#x} of {} of shared memory", around.shared.len()))?);
        return Ok(all);
    }
    around.check(from, bytes)?;
    // SAFETY: `check` has found the block of memory that holds these bytes.
    unsafe { (from as *const u8).copy_to(all.as_mut_ptr(), bytes) };
    Ok(all)
}

fn write_bytes(around: &mut Around<'_>, space: Space, at: u64, bytes: &[u8]) -> Result<(), String> {
    let from = at as usize;
    if space == Space::Shared {
        let size = around.shared.len();
        let to = around.shared.get_mut(from..from.saturating_add(bytes.len()));
        to.ok_or_else(|| format!("{} bytes at {at:#x} of {size} of shared memory", bytes.len()))?.copy_from_slice(bytes);
        return Ok(());
    }
    around.check(from, bytes.len())?;
    // SAFETY: `check` has found the block of memory that holds these bytes.
    unsafe { (from as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) };
    Ok(())
}
