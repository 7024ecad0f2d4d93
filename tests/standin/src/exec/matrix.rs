//! The instructions of the matrix cores: the registers of all lanes become matrices, `hipverify::matrix_core` multiplies them, and the
//! result goes back.

use super::across::{Operands, Request};
use crate::finding::Finding;
use hipverify::matrix_core::{Arch, Coordinate, Mfma, Modifiers, Operand};

/// Runs the instruction for all lanes of a wavefront, given with what each asks for.
pub(super) fn run(arch: &str, lanes: &[(usize, Request)]) -> Result<Vec<u64>, Finding> {
    let all: Vec<Operands> = lanes.iter().filter_map(|(_, request)| request.matrix).collect();
    let Some(first) = all.first().copied() else { return Ok(Vec::new()) };
    let place = lanes[0].1.place;
    let wrong = |why: String| Finding::launch(format!("multiplies with {} at {place}: {why}", first.name));
    if all.len() != 64 {
        return Err(wrong(format!("{} of 64 lanes take part", all.len())));
    }
    let arch = Arch::AMD.into_iter().find(|a| a.to_string() == arch).ok_or_else(|| wrong(format!("{arch} has no matrix cores")))?;
    let mfma = Mfma::by_name(arch, first.name).map_err(|e| wrong(e.to_string()))?;
    let [cbsz, abid, blgp] = first.modifiers;
    let (ta, tb, tc) = mfma.dtypes();
    let [a, b, c] = [(Operand::A, 0), (Operand::B, 1), (Operand::C, 2)].map(|(operand, number)| {
        let mut matrix = Vec::new();
        for_each(mfma, operand, |lane, byte, size| {
            // SAFETY: the lane waits, and its operand lives on its stack; the layout stays inside the registers of the operand, for which the
            // instruction's type has room.
            matrix.extend_from_slice(unsafe { std::slice::from_raw_parts((all[lane].abc[number] + byte) as *const u8, size) });
        });
        matrix
    });
    let mut d = vec![0; c.len()];
    mfma.run_bytes(Modifiers { cbsz, abid, blgp }, (ta, &a), (tb, &b), (tc, &c), &mut d).map_err(|e| wrong(e.to_string()))?;
    let mut left = &d[..];
    for_each(mfma, Operand::D, |lane, byte, size| {
        let (element, rest) = left.split_at(size);
        left = rest;
        // SAFETY: as the operands that are read above, and nobody else writes to the stack of a lane that waits.
        unsafe { ((all[lane].d + byte) as *mut u8).copy_from(element.as_ptr(), size) };
    });
    Ok(vec![0; lanes.len()])
}

/// Lane, first byte in its registers and size of each element, block after block and row after row.
fn for_each(mfma: Mfma, operand: Operand, mut f: impl FnMut(usize, usize, usize)) {
    let (rows, columns) = mfma.shape(operand);
    let (ta, tb, tc) = mfma.dtypes();
    let size = match operand {
        Operand::A => ta,
        Operand::B => tb,
        Operand::C | Operand::D => tc,
    };
    for element in 0..mfma.blocks() * rows * columns {
        let at = Coordinate { block: element / (rows * columns), row: element / columns % rows, column: element % columns };
        if let Some(slot) = mfma.slot(operand, at) {
            f(slot.lane, 4 * slot.register + slot.bit / 8, size.unit_bytes());
        }
    }
}
