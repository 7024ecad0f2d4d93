//! Instructions that each lane does by itself: a table from names to functions of patterns.

use super::program::Comparison;

/// The sources' types are letters: `u` 32 bits, `q` 64 bits, `w` 16 bits, `f` f32, `d` f64, `h` f16.
#[derive(Clone, Copy)]
pub(super) struct Elementwise {
    pub sources: &'static str,
    /// Words of the result.
    pub words: u8,
    /// The destination is the last source.
    pub accumulates: bool,
    pub run: fn(u64, u64, u64) -> u64,
}

type Run = fn(u64, u64, u64) -> u64;

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}
fn d(x: u64) -> f64 {
    f64::from_bits(x)
}
fn of_f(x: f32) -> u64 {
    u64::from(x.to_bits())
}
fn i(x: u64) -> i32 {
    x as u32 as i32
}
fn word(x: u64) -> u64 {
    x & 0xffff_ffff
}
fn of_i(x: i32) -> u64 {
    u64::from(x as u32)
}

/// As with the mode bit IEEE, which the compiler sets: a signalling NaN becomes quiet, and a quiet one loses to a number. -0 is less than +0.
macro_rules! extremum {
    ($name:ident, $float:ty, $bits:ty, $quiet:expr, $better:tt, $negative:expr) => {
        fn $name(a: $float, b: $float) -> $float {
            const QUIET: $bits = $quiet;
            if a.is_nan() || b.is_nan() {
                for x in [a, b] {
                    if x.is_nan() && x.to_bits() & QUIET == 0 {
                        return <$float>::from_bits(x.to_bits() | QUIET);
                    }
                }
                return if a.is_nan() { b } else { a };
            }
            if a == b {
                return if a.is_sign_negative() == $negative { a } else { b };
            }
            if a $better b { a } else { b }
        }
    };
}
extremum!(max_f32, f32, u32, 1 << 22, >, false);
extremum!(min_f32, f32, u32, 1 << 22, <, true);
extremum!(max_f64, f64, u64, 1 << 51, >, false);
extremum!(min_f64, f64, u64, 1 << 51, <, true);

pub(super) fn ldexp(x: f64, by: i32) -> f64 {
    // In steps that are exact but for the last one.
    let (mut x, mut by) = (x, by.clamp(-4000, 4000));
    while by > 1000 {
        (x, by) = (x * 2f64.powi(1000), by - 1000);
    }
    if by < -1000 {
        // One rounding: to subnormals only at the end.
        let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
        if x == 0.0 || !x.is_finite() {
            return x;
        }
        if exponent + by < -1080 {
            return 0f64.copysign(x);
        }
        let kept = -900 - exponent;
        (x, by) = (x * 2f64.powi(kept.clamp(-1000, 1000)), by - kept.clamp(-1000, 1000));
    }
    x * 2f64.powi(by)
}

pub(super) fn exponent_f32(x: f32) -> i32 {
    (x.to_bits() >> 23 & 0xff) as i32
}
pub(super) fn exponent_f64(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32
}

macro_rules! fixup {
    ($name:ident, $float:ty, $exponent:ident, $least:expr, $nan:expr) => {
        /// v_div_fixup: the quotient, and what it is where that is no product of division's steps.
        fn $name(quotient: $float, denominator: $float, numerator: $float) -> $float {
            let sign = if denominator.is_sign_negative() != numerator.is_sign_negative() { -1.0 } else { 1.0 };
            match () {
                _ if numerator.is_nan() => numerator + numerator,
                _ if denominator.is_nan() => denominator + denominator,
                _ if denominator == 0.0 && numerator == 0.0 || denominator.is_infinite() && numerator.is_infinite() => {
                    <$float>::from_bits($nan)
                }
                _ if denominator == 0.0 || numerator.is_infinite() => <$float>::INFINITY * sign,
                _ if denominator.is_infinite() || numerator == 0.0 => 0.0 * sign,
                _ if $exponent(numerator) - $exponent(denominator) < $least => 0.0 * sign,
                // The steps have gone beyond the range.
                _ if quotient.is_nan() => <$float>::INFINITY * sign,
                _ => quotient.abs() * sign,
            }
        }
    };
}
fixup!(fixup_f32, f32, exponent_f32, -150, 0xffc0_0000);
fixup!(fixup_f64, f64, exponent_f64, -1075, 0xfff8_0000_0000_0000);

/// v_perm_b32: bytes of both sources, and constants.
fn permute(a: u64, b: u64, select: u64) -> u64 {
    let data = (a << 32) | b;
    let byte = |n: u64| match select >> (8 * n) & 0xff {
        at @ 0..8 => data >> (8 * at) & 0xff,
        at @ 8..12 => 0xff * (data >> (16 * (at - 8) + 15) & 1),
        12 => 0,
        _ => 0xff,
    };
    byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
}

/// Without subnormals, in and out, as v_mad_f32 and v_mac_f32.
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}
fn mad(a: u64, b: u64, c: u64) -> u64 {
    let product = flushed(flushed(f(a)) * flushed(f(b)));
    of_f(flushed(product + flushed(f(c))))
}

fn to_i32(x: f64) -> u64 {
    of_i(x as i32)
}

pub(super) fn elementwise(name: &str) -> Option<Elementwise> {
    let of = |sources, words, run: Run| Some(Elementwise { sources, words, accumulates: false, run });
    let accumulate = |sources, words, run: Run| Some(Elementwise { sources, words, accumulates: true, run });
    if let Some(found) = whole_numbers(name).or_else(|| conversions(name)) {
        return Some(found);
    }
    match name {
        "v_add_f32" => of("ff", 1, |a, b, _| of_f(f(a) + f(b))),
        "v_sub_f32" => of("ff", 1, |a, b, _| of_f(f(a) - f(b))),
        "v_subrev_f32" => of("ff", 1, |a, b, _| of_f(f(b) - f(a))),
        "v_mul_f32" => of("ff", 1, |a, b, _| of_f(f(a) * f(b))),
        "v_max_f32" => of("ff", 1, |a, b, _| of_f(max_f32(f(a), f(b)))),
        "v_min_f32" => of("ff", 1, |a, b, _| of_f(min_f32(f(a), f(b)))),
        "v_max3_f32" => of("fff", 1, |a, b, c| of_f(max_f32(max_f32(f(a), f(b)), f(c)))),
        "v_min3_f32" => of("fff", 1, |a, b, c| of_f(min_f32(min_f32(f(a), f(b)), f(c)))),
        "v_med3_f32" => of("fff", 1, |a, b, c| of_f(max_f32(min_f32(f(a), f(b)), min_f32(max_f32(f(a), f(b)), f(c))))),
        "v_fma_f32" => of("fff", 1, |a, b, c| of_f(f(a).mul_add(f(b), f(c)))),
        "v_fmac_f32" => accumulate("fff", 1, |a, b, c| of_f(f(a).mul_add(f(b), f(c)))),
        "v_mad_f32" => of("fff", 1, mad),
        "v_mac_f32" => accumulate("fff", 1, mad),
        "v_ldexp_f32" => of("fu", 1, |a, b, _| of_f(ldexp(f64::from(f(a)), i(b)) as f32)),
        "v_trunc_f32" => of("f", 1, |a, _, _| of_f(f(a).trunc())),
        "v_floor_f32" => of("f", 1, |a, _, _| of_f(f(a).floor())),
        "v_ceil_f32" => of("f", 1, |a, _, _| of_f(f(a).ceil())),
        "v_rndne_f32" => of("f", 1, |a, _, _| of_f(f(a).round_ties_even())),
        // Approximations: the code that uses them gives the same results with any of their accuracy.
        "v_rcp_f32" | "v_rcp_iflag_f32" => of("f", 1, |a, _, _| of_f(1.0 / f(a))),
        "v_rsq_f32" => of("f", 1, |a, _, _| of_f((1.0 / f64::from(f(a)).sqrt()) as f32)),
        "v_sqrt_f32" => of("f", 1, |a, _, _| of_f(f(a).sqrt())),
        "v_rcp_f64" => of("d", 2, |a, _, _| (1.0 / d(a)).to_bits()),
        "v_rsq_f64" => of("d", 2, |a, _, _| (1.0 / d(a).sqrt()).to_bits()),
        "v_sqrt_f64" => of("d", 2, |a, _, _| d(a).sqrt().to_bits()),
        "v_div_fixup_f32" => of("fff", 1, |a, b, c| of_f(fixup_f32(f(a), f(b), f(c)))),
        "v_div_fixup_f64" => of("ddd", 2, |a, b, c| fixup_f64(d(a), d(b), d(c)).to_bits()),
        "v_add_f64" => of("dd", 2, |a, b, _| (d(a) + d(b)).to_bits()),
        "v_mul_f64" => of("dd", 2, |a, b, _| (d(a) * d(b)).to_bits()),
        "v_max_f64" => of("dd", 2, |a, b, _| max_f64(d(a), d(b)).to_bits()),
        "v_min_f64" => of("dd", 2, |a, b, _| min_f64(d(a), d(b)).to_bits()),
        "v_fma_f64" => of("ddd", 2, |a, b, c| d(a).mul_add(d(b), d(c)).to_bits()),
        "v_fmac_f64" => accumulate("ddd", 2, |a, b, c| d(a).mul_add(d(b), d(c)).to_bits()),
        "v_ldexp_f64" => of("du", 2, |a, b, _| ldexp(d(a), i(b)).to_bits()),
        "v_trunc_f64" => of("d", 2, |a, _, _| d(a).trunc().to_bits()),
        "v_floor_f64" => of("d", 2, |a, _, _| d(a).floor().to_bits()),
        "v_ceil_f64" => of("d", 2, |a, _, _| d(a).ceil().to_bits()),
        "v_rndne_f64" => of("d", 2, |a, _, _| d(a).round_ties_even().to_bits()),
        _ => None,
    }
}

/// The same with `clamp`: sums and differences of whole numbers stop at the ends.
pub(super) fn saturating(name: &str) -> Option<Elementwise> {
    let run: Run = match name {
        "v_add_u32" => |a, b, _| (a + b).min(0xffff_ffff),
        "v_sub_u32" => |a, b, _| a.saturating_sub(b),
        "v_subrev_u32" => |a, b, _| b.saturating_sub(a),
        _ => return None,
    };
    Some(Elementwise { sources: "uu", words: 1, accumulates: false, run })
}

fn conversions(name: &str) -> Option<Elementwise> {
    let of = |sources, words, run: Run| Some(Elementwise { sources, words, accumulates: false, run });
    match name {
        "v_cvt_f32_f16" => of("h", 1, |a, _, _| of_f(half::f16::from_bits(a as u16).to_f32())),
        "v_cvt_f16_f32" => of("f", 1, |a, _, _| u64::from(half::f16::from_f32(f(a)).to_bits())),
        "v_cvt_f32_f64" => of("d", 1, |a, _, _| of_f(d(a) as f32)),
        "v_cvt_f64_f32" => of("f", 2, |a, _, _| f64::from(f(a)).to_bits()),
        "v_cvt_f32_u32" => of("u", 1, |a, _, _| of_f(a as u32 as f32)),
        "v_cvt_f32_i32" => of("u", 1, |a, _, _| of_f(i(a) as f32)),
        "v_cvt_f64_u32" => of("u", 2, |a, _, _| f64::from(a as u32).to_bits()),
        "v_cvt_f64_i32" => of("u", 2, |a, _, _| f64::from(i(a)).to_bits()),
        "v_cvt_u32_f32" => of("f", 1, |a, _, _| u64::from(f(a) as u32)),
        "v_cvt_i32_f32" => of("f", 1, |a, _, _| to_i32(f64::from(f(a)))),
        "v_cvt_u32_f64" => of("d", 1, |a, _, _| u64::from(d(a) as u32)),
        "v_cvt_i32_f64" => of("d", 1, |a, _, _| to_i32(d(a))),
        "v_cvt_f32_ubyte0" => of("u", 1, |a, _, _| of_f((a & 0xff) as f32)),
        "v_cvt_f32_ubyte1" => of("u", 1, |a, _, _| of_f((a >> 8 & 0xff) as f32)),
        "v_cvt_f32_ubyte2" => of("u", 1, |a, _, _| of_f((a >> 16 & 0xff) as f32)),
        "v_cvt_f32_ubyte3" => of("u", 1, |a, _, _| of_f((a >> 24 & 0xff) as f32)),
        _ => None,
    }
}

fn whole_numbers(name: &str) -> Option<Elementwise> {
    let of = |sources, words, run: Run| Some(Elementwise { sources, words, accumulates: false, run });
    let u32_of = |run: Run| of("uu", 1, run);
    if let Some(found) = bits(name) {
        return Some(found);
    }
    match name {
        "v_mov_b32" | "v_accvgpr_read_b32" | "v_accvgpr_write_b32" | "v_accvgpr_mov_b32" => of("u", 1, |a, _, _| a),
        "v_mov_b64" => of("q", 2, |a, _, _| a),
        "v_add_u32" => u32_of(|a, b, _| word(a + b)),
        "v_sub_u32" => u32_of(|a, b, _| u64::from((a as u32).wrapping_sub(b as u32))),
        "v_subrev_u32" => u32_of(|a, b, _| u64::from((b as u32).wrapping_sub(a as u32))),
        "v_add3_u32" => of("uuu", 1, |a, b, c| word(a + b + c)),
        "v_mul_lo_u32" => u32_of(|a, b, _| word(a.wrapping_mul(b))),
        "v_mul_hi_u32" => u32_of(|a, b, _| (a * b) >> 32),
        "v_mul_hi_i32" => u32_of(|a, b, _| word(((i64::from(i(a)) * i64::from(i(b))) >> 32) as u64)),
        "v_mul_u32_u24" => u32_of(|a, b, _| word((a & 0xff_ffff) * (b & 0xff_ffff))),
        "v_mul_hi_u32_u24" => u32_of(|a, b, _| ((a & 0xff_ffff) * (b & 0xff_ffff)) >> 32),
        "v_mad_u32_u24" => of("uuu", 1, |a, b, c| word((a & 0xff_ffff) * (b & 0xff_ffff) + c)),
        "v_mul_i32_i24" => u32_of(|a, b, _| of_i((i(a << 8) >> 8).wrapping_mul(i(b << 8) >> 8))),
        "v_mad_i32_i24" => of("uuu", 1, |a, b, c| of_i((i(a << 8) >> 8).wrapping_mul(i(b << 8) >> 8).wrapping_add(i(c)))),
        "v_min_u32" => u32_of(|a, b, _| a.min(b)),
        "v_max_u32" => u32_of(|a, b, _| a.max(b)),
        "v_min_i32" => u32_of(|a, b, _| of_i(i(a).min(i(b)))),
        "v_max_i32" => u32_of(|a, b, _| of_i(i(a).max(i(b)))),
        "v_min3_u32" => of("uuu", 1, |a, b, c| a.min(b).min(c)),
        "v_max3_u32" => of("uuu", 1, |a, b, c| a.max(b).max(c)),
        "v_min3_i32" => of("uuu", 1, |a, b, c| of_i(i(a).min(i(b)).min(i(c)))),
        "v_max3_i32" => of("uuu", 1, |a, b, c| of_i(i(a).max(i(b)).max(i(c)))),
        "v_med3_i32" => of("uuu", 1, |a, b, c| of_i(i(a).min(i(b)).max(i(a).max(i(b)).min(i(c))))),
        "v_add_u16" => of("ww", 1, |a, b, _| (a + b) & 0xffff),
        "v_sub_u16" => of("ww", 1, |a, b, _| a.wrapping_sub(b) & 0xffff),
        "v_subrev_u16" => of("ww", 1, |a, b, _| b.wrapping_sub(a) & 0xffff),
        "v_mul_lo_u16" => of("ww", 1, |a, b, _| (a * b) & 0xffff),
        "v_mad_u16" => of("www", 1, |a, b, c| (a * b + c) & 0xffff),
        "v_min_u16" => of("ww", 1, |a, b, _| a.min(b)),
        "v_max_u16" => of("ww", 1, |a, b, _| a.max(b)),
        "v_pk_max_u16" => u32_of(|a, b, _| halves(a, b, |a, b| a.max(b))),
        "v_pk_min_u16" => u32_of(|a, b, _| halves(a, b, |a, b| a.min(b))),
        "v_pk_max_i16" => u32_of(|a, b, _| halves(a, b, |a, b| (a as i16).max(b as i16) as u16)),
        "v_pk_min_i16" => u32_of(|a, b, _| halves(a, b, |a, b| (a as i16).min(b as i16) as u16)),
        "v_sad_u32" => of("uuu", 1, |a, b, c| word(a.abs_diff(b) + c)),
        "v_lshl_add_u32" => of("uuu", 1, |a, b, c| word((a << (b & 31)) + c)),
        "v_lshl_add_u64" => of("quq", 2, |a, b, c| (a << (b & 7)).wrapping_add(c)),
        "v_add_lshl_u32" => of("uuu", 1, |a, b, c| word(word(a + b) << (c & 31))),
        "v_xad_u32" => of("uuu", 1, |a, b, c| word((a ^ b) + c)),
        _ => None,
    }
}

/// A function of both 16-bit halves.
fn halves(a: u64, b: u64, run: fn(u16, u16) -> u16) -> u64 {
    u64::from(run(a as u16, b as u16)) | u64::from(run((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn bits(name: &str) -> Option<Elementwise> {
    let of = |sources, words, run: Run| Some(Elementwise { sources, words, accumulates: false, run });
    match name {
        "v_and_b32" => of("uu", 1, |a, b, _| a & b),
        "v_or_b32" => of("uu", 1, |a, b, _| a | b),
        "v_xor_b32" => of("uu", 1, |a, b, _| a ^ b),
        "v_xnor_b32" => of("uu", 1, |a, b, _| word(!(a ^ b))),
        "v_not_b32" => of("u", 1, |a, _, _| word(!a)),
        "v_bfrev_b32" => of("u", 1, |a, _, _| u64::from((a as u32).reverse_bits())),
        "v_bfm_b32" => of("uu", 1, |a, b, _| word(((1u64 << (a & 31)) - 1) << (b & 31))),
        "v_bcnt_u32_b32" => of("uu", 1, |a, b, _| word(u64::from(a.count_ones()) + b)),
        "v_ffbl_b32" => of("u", 1, |a, _, _| if a == 0 { 0xffff_ffff } else { u64::from(a.trailing_zeros()) }),
        "v_ffbh_u32" => of("u", 1, |a, _, _| if a == 0 { 0xffff_ffff } else { u64::from((a as u32).leading_zeros()) }),
        "v_and_or_b32" => of("uuu", 1, |a, b, c| a & b | c),
        "v_or3_b32" => of("uuu", 1, |a, b, c| a | b | c),
        "v_lshl_or_b32" => of("uuu", 1, |a, b, c| word(a << (b & 31)) | c),
        "v_lshlrev_b32" => of("uu", 1, |a, b, _| word(b << (a & 31))),
        "v_lshrrev_b32" => of("uu", 1, |a, b, _| b >> (a & 31)),
        "v_ashrrev_i32" => of("uu", 1, |a, b, _| of_i(i(b) >> (a & 31))),
        "v_lshlrev_b16" => of("ww", 1, |a, b, _| b << (a & 15) & 0xffff),
        "v_lshrrev_b16" => of("ww", 1, |a, b, _| b >> (a & 15)),
        "v_ashrrev_i16" => of("ww", 1, |a, b, _| u64::from((b as u16 as i16 >> (a & 15)) as u16)),
        "v_lshlrev_b64" => of("uq", 2, |a, b, _| b << (a & 63)),
        "v_lshrrev_b64" => of("uq", 2, |a, b, _| b >> (a & 63)),
        "v_ashrrev_i64" => of("uq", 2, |a, b, _| (b as i64 >> (a & 63)) as u64),
        "v_bfe_u32" => of("uuu", 1, |a, b, c| if c & 31 == 0 { 0 } else { a >> (b & 31) & ((1 << (c & 31)) - 1) }),
        "v_bfe_i32" => of("uuu", 1, |a, b, c| {
            let width = c & 31;
            if width == 0 { 0 } else { of_i(i(word(a >> (b & 31)) << (32 - width)) >> (32 - width)) }
        }),
        "v_bfi_b32" => of("uuu", 1, |a, b, c| a & b | word(!a) & c),
        "v_alignbit_b32" => of("uuu", 1, |a, b, c| word((a << 32 | b) >> (c & 31))),
        "v_alignbyte_b32" => of("uuu", 1, |a, b, c| word((a << 32 | b) >> (8 * (c & 3)))),
        "v_perm_b32" => of("uuu", 1, permute),
        _ => None,
    }
}

pub(super) fn comparison(name: &str) -> Option<Comparison> {
    let (condition, of) = name.strip_prefix("v_cmp_")?.split_once('_')?;
    macro_rules! by {
        ($read:expr, $condition:expr) => {
            match $condition {
                "lt" => |a, b| $read(a) < $read(b),
                "le" => |a, b| $read(a) <= $read(b),
                "gt" => |a, b| $read(a) > $read(b),
                "ge" => |a, b| $read(a) >= $read(b),
                "eq" => |a, b| $read(a) == $read(b),
                _ => return None,
            }
        };
    }
    // What is also true of numbers that are not ordered is the opposite of another condition.
    let (plain, negated) = match condition {
        "ne" | "neq" => ("eq", true),
        "nlt" | "nle" | "ngt" | "nge" | "nlg" => (&condition[1..], true),
        "u" => ("o", true),
        _ => (condition, false),
    };
    macro_rules! floats {
        ($read:expr) => {
            match plain {
                "lg" => |a, b| $read(a) < $read(b) || $read(a) > $read(b),
                "o" => |a, b| !$read(a).is_nan() && !$read(b).is_nan(),
                other => by!($read, other),
            }
        };
    }
    let (holds, of): (fn(u64, u64) -> bool, char) = match of {
        "u32" => (by!(|x: u64| x, plain), 'u'),
        "i32" => (by!(i, plain), 'u'),
        "u64" => (by!(|x: u64| x, plain), 'q'),
        "i64" => (by!(|x: u64| x as i64, plain), 'q'),
        "u16" => (by!(|x: u64| x as u16, plain), 'w'),
        "i16" => (by!(|x: u64| x as i16, plain), 'w'),
        "f32" => (floats!(f), 'f'),
        "f64" => (floats!(d), 'd'),
        _ => return None,
    };
    Some(Comparison { holds, of, negated })
}
