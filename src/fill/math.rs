//! Logarithm, sine and cosine from IEEE operations alone, so that every machine computes the same bits.
//!
//! Taylor series on arguments that are small enough for a few terms; there are no fitted constants. Every operation is
//! one rounding (`mul_add` where fused). Errors, measured over the arguments that the generators use: [`ln32`] and the f32
//! sine and cosine below 2 ulp of the result (of 1 for small sines), [`ln64`] and the f64 ones the same in f64.

/// ln(x) of a positive normal f32.
#[inline(always)]
pub(super) fn ln32(x: f32) -> f32 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 23) as i32 - 127;
    let mut m = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
    if m > std::f32::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln(m) = 2 atanh(s), |s| <= 0.1716.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let series = (1.0f32 / 9.0).mul_add(z, 1.0 / 7.0).mul_add(z, 1.0 / 5.0).mul_add(z, 1.0 / 3.0) * z;
    let twice = s + s;
    let ln_m = twice.mul_add(series, twice);
    // ln 2 in two parts, the first short enough that its product with the exponent is exact.
    let e = exponent as f32;
    e.mul_add(LN2_HIGH_32, e.mul_add(LN2_LOW_32, ln_m))
}

/// ln 2 in 15 bits.
const LN2_HIGH_32: f32 = 0.693_145_75;
const LN2_LOW_32: f32 = 1.428_606_8e-6;

/// ln(x) of a positive normal f64.
#[inline(always)]
pub(super) fn ln64(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = 1.0 / 23.0;
    for c in [1.0 / 21.0, 1.0 / 19.0, 1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0] {
        series = z.mul_add(series, c);
    }
    let twice = s + s;
    let ln_m = twice.mul_add(series * z, twice);
    let e = f64::from(exponent);
    e.mul_add(LN2_HIGH_64, e.mul_add(LN2_LOW_64, ln_m))
}

/// ln 2 in 33 bits, and the rest.
const LN2_HIGH_64: f64 = 0.693_147_180_369_123_8;
const LN2_LOW_64: f64 = 1.908_214_929_270_587_7e-10;

/// (sin, cos) of `turn` / 2^32 turns.
#[inline(always)]
pub(super) fn sin_cos32(turn: u32) -> (f32, f32) {
    let shifted = turn.wrapping_add(1 << 29);
    let t = (shifted & 0x3fff_ffff) as i32 - (1 << 29);
    // |x| <= pi/4; pi/2 scaled by 2^-30.
    let x = t as f32 * (std::f32::consts::FRAC_PI_2 * (1.0 / (1 << 30) as f32));
    let z = x * x;
    let s = (1.0f32 / 362_880.0).mul_add(z, -1.0 / 5040.0).mul_add(z, 1.0 / 120.0).mul_add(z, -1.0 / 6.0) * z;
    let sin = x.mul_add(s, x);
    let c = (-1.0f32 / 3_628_800.0).mul_add(z, 1.0 / 40_320.0).mul_add(z, -1.0 / 720.0).mul_add(z, 1.0 / 24.0).mul_add(z, -0.5);
    let cos = c.mul_add(z, 1.0);
    // Quarter turns: sine and cosine change places in odd ones; the sine is negative in 2 and 3, the cosine in 1 and 2.
    let quarter = shifted >> 30;
    let (s, c) = if quarter & 1 == 0 { (sin, cos) } else { (cos, sin) };
    let negative = [quarter << 30 & 1 << 31, (quarter + 1) << 30 & 1 << 31];
    (f32::from_bits(s.to_bits() ^ negative[0]), f32::from_bits(c.to_bits() ^ negative[1]))
}

/// (sin, cos) of `turn` / 2^64 turns.
#[inline(always)]
pub(super) fn sin_cos64(turn: u64) -> (f64, f64) {
    let shifted = turn.wrapping_add(1 << 61);
    let t = (shifted & 0x3fff_ffff_ffff_ffff) as i64 - (1 << 61);
    let x = t as f64 * (std::f64::consts::FRAC_PI_2 * (1.0 / (1u64 << 62) as f64));
    let z = x * x;
    let mut s = 1.0 / 355_687_428_096_000.0;
    for c in
        [-1.0 / 1_307_674_368_000.0, 1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0]
    {
        s = z.mul_add(s, c);
    }
    let sin = x.mul_add(s * z, x);
    let mut c = -1.0 / 6_402_373_705_728_000.0;
    for k in [
        1.0 / 20_922_789_888_000.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 479_001_600.0,
        -1.0 / 3_628_800.0,
        1.0 / 40_320.0,
        -1.0 / 720.0,
        1.0 / 24.0,
        -0.5,
    ] {
        c = z.mul_add(c, k);
    }
    let cos = c.mul_add(z, 1.0);
    let quarter = shifted >> 62;
    let (s, c) = if quarter & 1 == 0 { (sin, cos) } else { (cos, sin) };
    let negative = [quarter << 62 & 1 << 63, (quarter + 1) << 62 & 1 << 63];
    (f64::from_bits(s.to_bits() ^ negative[0]), f64::from_bits(c.to_bits() ^ negative[1]))
}

/// The angle of `index` radians as a fraction of a turn in units of 2^-64, off by less than two units: `index` times
/// 1/(2 pi) in 128 bits, in integers.
pub(super) fn radians_to_turn(index: u64) -> u64 {
    (INV_TAU.wrapping_mul(u128::from(index)) >> 64) as u64
}

/// The first 128 bits of 1/(2 pi).
pub(super) const INV_TAU: u128 = 0x28be_60db_9391_054a_7f09_d5f4_7d4d_3770;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_is_within_two_ulp() {
        let mut worst = (0f64, 0f64);
        for i in 1..200_000u32 {
            let w = i.wrapping_mul(2_654_435_761);
            for x in [(w as f32).mul_add(2f32.powi(-32), 2f32.powi(-33)), 1.0 - i as f32 * 2f32.powi(-24), i as f32 * 2f32.powi(-33)] {
                let truth = f64::from(x).ln();
                let spacing = crate::dtype::spacing(crate::dtype::DType::F32, truth);
                worst.0 = worst.0.max((f64::from(ln32(x)) - truth).abs() / spacing);
                let wide = f64::from(x);
                worst.1 = worst.1.max((ln64(wide) - truth).abs() / crate::dtype::spacing(crate::dtype::DType::F64, truth));
            }
        }
        assert!(worst.0 < 2.0 && worst.1 < 2.0, "{worst:?}");
    }

    #[test]
    fn sine_and_cosine_are_within_two_ulp_of_one() {
        for i in 0..200_000u32 {
            let turn = i.wrapping_mul(2_654_435_761);
            let angle = f64::from(turn) * 2f64.powi(-32) * std::f64::consts::TAU;
            let (s, c) = sin_cos32(turn);
            assert!((f64::from(s) - angle.sin()).abs() < 2f64.powi(-23) && (f64::from(c) - angle.cos()).abs() < 2f64.powi(-23), "{turn}");
            let (s, c) = sin_cos64(u64::from(turn) << 32);
            // The angle itself is rounded here, by up to 2^-51.
            assert!((s - angle.sin()).abs() < 1e-15 && (c - angle.cos()).abs() < 1e-15, "{turn}");
        }
    }

    #[test]
    fn indices_reduce_to_their_angle() {
        for index in (0..100_000).chain([1 << 20, (1 << 30) + 7, (1 << 50) - 3]) {
            let (s, c) = sin_cos64(radians_to_turn(index));
            let angle = index as f64;
            assert!((s - angle.sin()).abs() < 3e-16 && (c - angle.cos()).abs() < 3e-16, "{index}: {s} {}", angle.sin());
        }
    }
}
