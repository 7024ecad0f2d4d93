//! The study's inputs: the C library's generator, scaled in f32, truncated to f16.

use super::config::Range;
use crate::dtype::F16;
use crate::fill::crand::State;
use rayon::prelude::*;

/// Inputs of one task.
const CHUNK: usize = 1 << 16;

/// `len` inputs in memory order; every tensor starts the generator anew.
pub(crate) fn inputs(len: usize, range: Range, seed: u32) -> Vec<F16> {
    let (width, min) = (range.max - range.min, range.min as f32);
    let state = State::seeded(seed);
    let mut to = vec![F16::ZERO; len];
    to.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, part)| {
        let mut rand = state.outputs_from((chunk * CHUNK) as u64);
        for value in part {
            *value = truncate((width * f64::from(rand.next_output()) / 2_147_483_647.0) as f32 + min);
        }
    });
    to
}

/// f32 to f16 without rounding: excess bits are cut off.
fn truncate(value: f32) -> F16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let fraction = bits & 0x7f_ffff;
    F16::from_bits(match exponent {
        16.. => sign | 0x7c00,
        -14..=15 => sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16,
        -24..=-15 => sign | ((fraction | 0x80_0000) >> (-1 - exponent)) as u16,
        _ => sign,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_follow_the_generator_over_chunks() {
        let mut rand = State::seeded(1).outputs_from(0);
        let range = Range { min: -10.0, max: 10.0 };
        for (i, x) in inputs(CHUNK + 3, range, 1).into_iter().enumerate() {
            let exact = 20.0 * f64::from(rand.next_output()) / 2_147_483_647.0 - 10.0;
            assert!((f64::from(x.to_f32()) - exact).abs() < 0.008, "input {i} is {x}, not near {exact}");
        }
    }

    #[test]
    fn truncation_cuts_towards_zero() {
        for (value, bits, why) in [
            (1.0f32, 0x3c00, "exact"),
            (1.0009765, 0x3c00, "just below the next"),
            (-1.9999999, 0xbfff, "negative"),
            (6.1035156e-5, 0x0400, "least normal"),
            (6.1e-5, 0x03ff, "subnormal"),
            (5.9604645e-8, 0x0001, "least subnormal"),
            (5.9e-8, 0x0000, "below it"),
            (-5.9e-8, 0x8000, "its sign stays"),
            (9.999, 0x48ff, "ten, from below"),
        ] {
            assert_eq!(truncate(value).to_bits(), bits, "{value}: {why}");
        }
    }
}
