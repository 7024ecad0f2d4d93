//! The C library's `rand()` as glibc defines it, with jumps to any position of the sequence.
//!
//! r(i) = r(i-3) + r(i-31) mod 2^32, started from the minimal standard generator (16807), the first 310 numbers dropped; the
//! output is r(i) / 2 rounded down. The recurrence is linear, so the state n steps ahead is a combination of the first 31
//! numbers, with the coefficients of x^n modulo x^31 - x^28 - 1: a few dozen squarings reach any position.

/// How many numbers determine all that follow.
pub(crate) const ORDER: usize = hipverify_sys::abi::CRAND_ORDER as usize;
/// The position of the first output in the sequence whose first numbers are [`State::first`].
const SKIP: u64 = 341;

/// A seeded generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// The first numbers of the recurrence.
    pub(crate) first: [u32; ORDER],
}

impl State {
    /// The state after `srand(seed)`.
    pub(crate) fn seeded(seed: u32) -> State {
        let mut table = [0u32; 34];
        table[0] = seed.max(1);
        for i in 1..ORDER {
            // Schrage's form, on a signed word, as the C library computes it.
            let word = i64::from(table[i - 1] as i32);
            let next = 16807 * (word % 127_773) - 2836 * (word / 127_773);
            table[i] = if next < 0 { next + 2_147_483_647 } else { next } as u32;
        }
        let (start, copies) = table.split_at_mut(ORDER);
        copies.copy_from_slice(&start[..3]);
        let mut first = [0; ORDER];
        first.copy_from_slice(&table[3..]);
        State { first }
    }

    /// The outputs from number `index` on.
    pub(crate) fn outputs_from(&self, index: u64) -> Outputs {
        let coefficients = power(SKIP + index);
        // Numbers ORDER more than the first are needed, since the window that is wanted is ORDER wide.
        let mut run = [0u32; 2 * ORDER];
        run[..ORDER].copy_from_slice(&self.first);
        for i in ORDER..2 * ORDER {
            run[i] = run[i - 3].wrapping_add(run[i - ORDER]);
        }
        let mut window = [0u32; ORDER];
        for (j, w) in window.iter_mut().enumerate() {
            *w = coefficients.iter().zip(&run[j..]).fold(0, |sum: u32, (c, r)| sum.wrapping_add(c.wrapping_mul(*r)));
        }
        Outputs { window, at: 0 }
    }
}

/// An endless run of outputs.
pub(crate) struct Outputs {
    /// The next ORDER numbers, `at` the nearest.
    window: [u32; ORDER],
    at: usize,
}

impl Outputs {
    /// The next output, 0 to 2^31 - 1.
    pub(crate) fn next_output(&mut self) -> u32 {
        let now = self.window[self.at];
        let ahead = if self.at + 28 < ORDER { self.at + 28 } else { self.at + 28 - ORDER };
        self.window[self.at] = now.wrapping_add(self.window[ahead]);
        self.at = if self.at + 1 == ORDER { 0 } else { self.at + 1 };
        now >> 1
    }
}

/// x^n modulo x^31 - x^28 - 1, coefficients modulo 2^32, the constant first.
fn power(n: u64) -> [u32; ORDER] {
    let mut p = [0u32; ORDER];
    p[0] = 1;
    for bit in (0..64 - n.leading_zeros()).rev() {
        let mut square = [0u32; 2 * ORDER];
        for (i, a) in p.iter().enumerate() {
            for (j, b) in p.iter().enumerate() {
                square[i + j] = square[i + j].wrapping_add(a.wrapping_mul(*b));
            }
        }
        if n >> bit & 1 == 1 {
            square.copy_within(0..2 * ORDER - 1, 1);
            square[0] = 0;
        }
        for k in (ORDER..2 * ORDER).rev() {
            let c = square[k];
            square[k - 3] = square[k - 3].wrapping_add(c);
            square[k - ORDER] = square[k - ORDER].wrapping_add(c);
        }
        p.copy_from_slice(&square[..ORDER]);
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    // Both take and return plain numbers.
    unsafe extern "C" {
        safe fn srand(seed: u32);
        safe fn rand() -> i32;
    }

    #[test]
    fn outputs_are_those_of_the_c_library() {
        for seed in [0, 1, 2, 42, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            // No other test of this binary calls them.
            srand(seed);
            let mut ours = State::seeded(seed).outputs_from(0);
            for i in 0..2000 {
                assert_eq!(ours.next_output(), rand() as u32, "seed {seed}, number {i}");
            }
        }
    }

    #[test]
    fn jumps_land_where_steps_do() {
        let state = State::seeded(7);
        let mut steps = state.outputs_from(0);
        for i in 0..5000 {
            let expected = steps.next_output();
            if i % 97 == 0 {
                assert_eq!(state.outputs_from(i).next_output(), expected, "number {i}");
            }
        }
        let (mut a, mut b) = (state.outputs_from(1 << 40), state.outputs_from((1 << 40) - 10));
        (0..10).for_each(|_| _ = b.next_output());
        (0..100).for_each(|_| assert_eq!(a.next_output(), b.next_output()));
    }
}
