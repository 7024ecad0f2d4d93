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
    let addresses: Vec<[usize; 4]> = all.iter().map(|Operands { abc: [a, b, c], d, .. }| [*a, *b, *c, *d]).collect();
    // SAFETY: each lane waits, and its operands live on its stack, in variables of the instruction's types.
    let done = unsafe { multiply(arch, first.name, first.modifiers, &addresses) };
    done.map_err(|why| Finding::launch(format!("multiplies with {} at {place}: {why}", first.name)))?;
    Ok(vec![0; lanes.len()])
}

/// Multiplies: of each lane the addresses of its registers of A, B, C and D.
///
/// # Safety
/// Each lane's operands have as many registers as the instruction has there, and nobody else accesses them.
pub(crate) unsafe fn multiply(arch: &str, name: &str, [cbsz, abid, blgp]: [u32; 3], lanes: &[[usize; 4]]) -> Result<(), String> {
    if lanes.len() != 64 {
        return Err(format!("{} of 64 lanes take part", lanes.len()));
    }
    let arch = Arch::AMD.into_iter().find(|a| a.to_string() == arch).ok_or_else(|| format!("{arch} has no matrix cores"))?;
    let mfma = Mfma::by_name(arch, name).map_err(|e| e.to_string())?;
    let (ta, tb, tc) = mfma.dtypes();
    let [a, b, c] = [(Operand::A, 0), (Operand::B, 1), (Operand::C, 2)].map(|(operand, number)| {
        let mut matrix = Vec::new();
        for_each(mfma, operand, |lane, byte, size| {
            // SAFETY: the layout stays inside the registers of the operand, which are there.
            matrix.extend_from_slice(unsafe { std::slice::from_raw_parts((lanes[lane][number] + byte) as *const u8, size) });
        });
        matrix
    });
    let mut d = vec![0; c.len()];
    mfma.run_bytes(Modifiers { cbsz, abid, blgp }, (ta, &a), (tb, &b), (tc, &c), &mut d).map_err(|e| e.to_string())?;
    let mut left = &d[..];
    for_each(mfma, Operand::D, |lane, byte, size| {
        let (element, rest) = left.split_at(size);
        left = rest;
        // SAFETY: as the operands that are read above, and nobody else accesses them.
        unsafe { ((lanes[lane][3] + byte) as *mut u8).copy_from(element.as_ptr(), size) };
    });
    Ok(())
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
