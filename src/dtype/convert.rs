//! Conversions of whole slices, for the host loops of the crate.
//!
//! Each function is defined by a per-element function of this module ([`DType::decode`], [`DType::encode`],
//! [`ordinal`](super::ordinal)) and gives the same bits on every CPU, except that the sign and payload of a decoded NaN are
//! free: callers test for NaN and read nothing else from it.
//!
//! Byte slices may be unaligned; packed 4-bit elements start at an even element. A byte slice too short for its elements
//! is a bug of the caller and panics.

mod kernel;
mod simd;

use super::{DType, Overflow, Rounding};
use kernel::Small;
use std::marker::PhantomData;

/// Elements converted at a time where a conversion has two steps: 2 KiB of f32, which stays in L1.
const BLOCK: usize = 512;

/// Evaluates `$body` with `$S` naming the kernel format of `$dtype`, or `$other` for a format without one.
macro_rules! with_small {
    ($dtype:expr, $S:ident => $body:expr, _ => $other:expr) => {
        with_small!(@ $dtype, $S, $body, $other, Tf32 F16 Bf16 F8E4M3 F8E5M2 F8E4M3Fnuz F8E5M2Fnuz F6E2M3 F6E3M2 F4E2M1 F8E8M0)
    };
    (@ $dtype:expr, $S:ident, $body:expr, $other:expr, $($name:ident)*) => {
        match $dtype {
            $(DType::$name => { type $S = kernel::$name; $body })*
            _ => $other,
        }
    };
}

/// The first `elements` elements of `bytes`.
fn prefix(dtype: DType, bytes: &[u8], elements: usize) -> &[u8] {
    &bytes[..dtype.bytes_for(elements).unwrap_or(usize::MAX)]
}

/// Decodes the first `out.len()` elements of `bytes`.
///
/// Exact for every float format of at most 32 bits and every integer of at most 16; others round to nearest even.
pub(crate) fn decode_f32(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    let bytes = prefix(dtype, bytes, out.len());
    match dtype {
        DType::F32 => simd::read(bytes, out, f32::from_bits, PhantomData::<[u8; 4]>),
        DType::F16 => {
            let done = simd::decode_f16(bytes.as_chunks().0, out, 1.0);
            simd::read(&bytes[2 * done..], &mut out[done..], kernel::decode::<kernel::F16>, PhantomData::<[u8; 2]>);
        }
        DType::F8E4M3 => decode_by_f16::<kernel::F8E4M3>(bytes, out),
        DType::F8E5M2 => decode_by_f16::<kernel::F8E5M2>(bytes, out),
        DType::F8E4M3Fnuz => decode_by_f16::<kernel::F8E4M3Fnuz>(bytes, out),
        DType::F8E5M2Fnuz => decode_by_f16::<kernel::F8E5M2Fnuz>(bytes, out),
        DType::F6E2M3 => decode_by_f16::<kernel::F6E2M3>(bytes, out),
        DType::F6E3M2 => decode_by_f16::<kernel::F6E3M2>(bytes, out),
        DType::F4E2M1 => simd::read_packed(bytes, out, kernel::decode::<kernel::F4E2M1>),
        DType::I8 => simd::read(bytes, out, |v| f32::from(v as i8), PhantomData::<[u8; 1]>),
        DType::U8 => simd::read(bytes, out, |v| f32::from(v as u8), PhantomData::<[u8; 1]>),
        DType::I16 => simd::read(bytes, out, |v| f32::from(v as i16), PhantomData::<[u8; 2]>),
        DType::Bool => simd::read(bytes, out, |v| f32::from(u8::from(v != 0)), PhantomData::<[u8; 1]>),
        DType::U16 => simd::read(bytes, out, |v| f32::from(v as u16), PhantomData::<[u8; 2]>),
        DType::I32 => simd::read(bytes, out, |v| v as i32 as f32, PhantomData::<[u8; 4]>),
        DType::U32 => simd::read(bytes, out, |v| v as f32, PhantomData::<[u8; 4]>),
        DType::I4 => simd::read_packed(bytes, out, |v| nibble(v) as f32),
        DType::F64 => each(bytes, out, |v| f64::from_bits(v) as f32),
        DType::I64 => each(bytes, out, |v| v as i64 as f32),
        DType::U64 => each(bytes, out, |v| v as f32),
        _ => with_small!(dtype, S => simd::read(bytes, out, kernel::decode::<S>, PhantomData::<<S as Small>::Raw>), _ => {}),
    }
}

/// Formats of one byte, through binary16 if the CPU can decode that.
fn decode_by_f16<S: Small>(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [[0u8; 2]; BLOCK];
    for (bytes, out) in bytes.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let mut done = 0;
        if simd::has_f16c() {
            simd::map(bytes, &mut halves, |code| kernel::f16_bits::<S>(code).to_le_bytes());
            done = simd::decode_f16(&halves[..bytes.len()], out, kernel::f16_scale::<S>());
        }
        simd::read(&bytes[done..], &mut out[done..], kernel::decode::<S>, PhantomData::<[u8; 1]>);
    }
}

/// The value of a 4-bit two's complement pattern.
fn nibble(bits: u32) -> i32 {
    (bits as i32) << 28 >> 28
}

/// `out[i] = f(64-bit unit i of bytes)`.
fn each<O>(bytes: &[u8], out: &mut [O], f: impl Fn(u64) -> O) {
    for (o, &unit) in out.iter_mut().zip(bytes.as_chunks().0) {
        *o = f(u64::from_le_bytes(unit));
    }
}

/// Decodes the first `out.len()` elements of `bytes`; exact except for 64-bit integers beyond 2^53, which round to nearest even.
pub(crate) fn decode_f64(dtype: DType, bytes: &[u8], out: &mut [f64]) {
    let bytes = prefix(dtype, bytes, out.len());
    match dtype {
        DType::F64 => each(bytes, out, f64::from_bits),
        DType::I64 => each(bytes, out, |v| v as i64 as f64),
        DType::U64 => each(bytes, out, |v| v as f64),
        DType::I32 => simd::read(bytes, out, |v| f64::from(v as i32), PhantomData::<[u8; 4]>),
        DType::U32 => simd::read(bytes, out, f64::from, PhantomData::<[u8; 4]>),
        _ => {
            let mut exact = [0f32; BLOCK];
            let bytes_at = |element: usize| element / dtype.per_unit() * dtype.unit_bytes();
            for (i, out) in out.chunks_mut(BLOCK).enumerate() {
                let exact = &mut exact[..out.len()];
                decode_f32(dtype, &bytes[bytes_at(i * BLOCK)..], exact);
                simd::map(exact, out, f64::from);
            }
        }
    }
}

/// Decodes the first `out.len()` integers of `bytes`, exactly.
pub(crate) fn decode_whole(dtype: DType, bytes: &[u8], out: &mut [i128]) {
    let bytes = prefix(dtype, bytes, out.len());
    match dtype {
        DType::I8 => simd::read(bytes, out, |v| i128::from(v as i8), PhantomData::<[u8; 1]>),
        DType::U8 => simd::read(bytes, out, i128::from, PhantomData::<[u8; 1]>),
        DType::I16 => simd::read(bytes, out, |v| i128::from(v as i16), PhantomData::<[u8; 2]>),
        DType::Bool => simd::read(bytes, out, |v| i128::from(v != 0), PhantomData::<[u8; 1]>),
        DType::U16 => simd::read(bytes, out, |v| i128::from(v as u16), PhantomData::<[u8; 2]>),
        DType::I32 => simd::read(bytes, out, |v| i128::from(v as i32), PhantomData::<[u8; 4]>),
        DType::U32 => simd::read(bytes, out, i128::from, PhantomData::<[u8; 4]>),
        DType::I64 => each(bytes, out, |v| i128::from(v as i64)),
        DType::U64 => each(bytes, out, i128::from),
        DType::I4 => simd::read_packed(bytes, out, |v| i128::from(nibble(v))),
        // Floats are no integers.
        _ => {}
    }
}

/// Encodes `values` into the first elements of `out`, as [`DType::encode`] does. The spare nibble of an odd number of packed
/// elements keeps its value.
pub(crate) fn encode_from_f32(dtype: DType, values: &[f32], rounding: Rounding, overflow: Overflow, out: &mut [u8]) {
    let out = prefix_mut(dtype, out, values.len());
    match (rounding, overflow) {
        (Rounding::NearestEven, Overflow::Ieee) => encode_f32_as::<false, false>(dtype, values, out),
        (Rounding::NearestEven, Overflow::Saturate) => encode_f32_as::<false, true>(dtype, values, out),
        (Rounding::TowardZero, Overflow::Ieee) => encode_f32_as::<true, false>(dtype, values, out),
        (Rounding::TowardZero, Overflow::Saturate) => encode_f32_as::<true, true>(dtype, values, out),
    }
}

fn encode_f32_as<const TRUNCATE: bool, const SATURATE: bool>(dtype: DType, values: &[f32], out: &mut [u8]) {
    match dtype {
        DType::F32 => simd::write(values, out, kernel::encode_f32::<SATURATE>, PhantomData::<[u8; 4]>),
        DType::F4E2M1 => simd::write_packed(values, out, kernel::encode::<kernel::F4E2M1, TRUNCATE, SATURATE>),
        _ => with_small!(
            dtype,
            S => simd::write(values, out, kernel::encode::<S, TRUNCATE, SATURATE>, PhantomData::<<S as Small>::Raw>),
            _ => encode_wide::<f32, TRUNCATE, SATURATE>(dtype, values, out)
        ),
    }
}

fn prefix_mut(dtype: DType, bytes: &mut [u8], elements: usize) -> &mut [u8] {
    &mut bytes[..dtype.bytes_for(elements).unwrap_or(usize::MAX)]
}

/// f64 and the integers. An integer is rounded, clamped (`as` would saturate, but not to 4 bits) and cast; NaN casts to 0.
fn encode_wide<T: Copy + Into<f64>, const TRUNCATE: bool, const SATURATE: bool>(dtype: DType, values: &[T], out: &mut [u8]) {
    let whole = |v: T| if TRUNCATE { v.into().trunc() } else { v.into().round_ties_even() };
    let small = |min: f64, max: f64| move |v: T| whole(v).clamp(min, max) as i32 as u32;
    match dtype {
        DType::I8 => simd::write(values, out, small(-128.0, 127.0), PhantomData::<[u8; 1]>),
        DType::U8 => simd::write(values, out, small(0.0, 255.0), PhantomData::<[u8; 1]>),
        DType::I16 => simd::write(values, out, small(-32768.0, 32767.0), PhantomData::<[u8; 2]>),
        DType::Bool => simd::write(values, out, small(0.0, 1.0), PhantomData::<[u8; 1]>),
        DType::U16 => simd::write(values, out, small(0.0, 65535.0), PhantomData::<[u8; 2]>),
        DType::I32 => simd::write(values, out, |v| whole(v) as i32 as u32, PhantomData::<[u8; 4]>),
        DType::U32 => simd::write(values, out, |v| whole(v) as u32, PhantomData::<[u8; 4]>),
        DType::I4 => simd::write_packed(values, out, small(-8.0, 7.0)),
        DType::I64 => write_wide(values, out, |v| whole(v) as i64 as u64),
        DType::U64 => write_wide(values, out, |v| whole(v) as u64),
        DType::F64 if SATURATE => write_wide(values, out, |v| {
            let v: f64 = v.into();
            if v.is_infinite() { f64::MAX.copysign(v).to_bits() } else { v.to_bits() }
        }),
        _ => write_wide(values, out, |v| v.into().to_bits()),
    }
}

/// `64-bit unit i of out = f(values[i])`.
fn write_wide<T: Copy>(values: &[T], out: &mut [u8], f: impl Fn(T) -> u64) {
    for (unit, &v) in out.as_chunks_mut().0.iter_mut().zip(values) {
        *unit = f(v).to_le_bytes();
    }
}

/// Encodes `values` into the first elements of `out`, as [`DType::encode`] does, with a single rounding.
pub(crate) fn encode_from_f64(dtype: DType, values: &[f64], rounding: Rounding, overflow: Overflow, out: &mut [u8]) {
    let out = prefix_mut(dtype, out, values.len());
    if dtype == DType::F64 || dtype.is_int() {
        return match (rounding, overflow) {
            (Rounding::NearestEven, Overflow::Ieee) => encode_wide::<f64, false, false>(dtype, values, out),
            (Rounding::NearestEven, Overflow::Saturate) => encode_wide::<f64, false, true>(dtype, values, out),
            (Rounding::TowardZero, Overflow::Ieee) => encode_wide::<f64, true, false>(dtype, values, out),
            (Rounding::TowardZero, Overflow::Saturate) => encode_wide::<f64, true, true>(dtype, values, out),
        };
    }
    let mut near = [0f32; BLOCK];
    for (i, values) in values.chunks(BLOCK).enumerate() {
        let near = &mut near[..values.len()];
        match (dtype, rounding) {
            (DType::F32, Rounding::NearestEven) => simd::map(values, near, |v| v as f32),
            (DType::F32, Rounding::TowardZero) => simd::map(values, near, kernel::truncate_f64),
            _ => simd::map(values, near, kernel::odd_f64),
        }
        let at = i * BLOCK / dtype.per_unit() * dtype.unit_bytes();
        encode_from_f32(dtype, near, rounding, overflow, &mut out[at..]);
    }
}

/// The ordinal in `dtype`, a float of at most 32 bits, of each finite value rounded to nearest even into `dtype` with [`Overflow::Saturate`]; any number for
/// a value that is not finite. `values` and `out` have the same length.
pub(crate) fn ordinals_from_f32(dtype: DType, values: &[f32], out: &mut [i32]) {
    match dtype {
        DType::F32 => simd::map(values, out, |v| kernel::ordinal_f32(v.to_bits())),
        _ => with_small!(
            dtype,
            S => simd::map(values, out, |v| kernel::ordinal::<S>(kernel::encode::<S, false, true>(v))),
            // Ordinals of other formats are in no f32.
            _ => {}
        ),
    }
}

#[cfg(test)]
mod tests;
