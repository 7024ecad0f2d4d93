//! Conversions of whole slices, for the host loops of the crate.
//!
//! Each function is defined by a per-element function of this room ([`DType::decode`], [`DType::encode`],
//! [`ordinal`](super::ordinal)) and gives the same bits, except that the sign and payload of a decoded NaN are free:
//! callers test for NaN and read nothing else from it.
//!
//! Byte slices may be unaligned; packed 4-bit elements start at an even element. A byte slice that is too short for its
//! elements is a bug of the caller and panics.
#![allow(dead_code, reason = "the rooms above use a part of it at a time")]

use super::{DType, Overflow, Rounding, ordinal};

/// The first `elements` elements of `bytes`.
fn prefix(dtype: DType, bytes: &[u8], elements: usize) -> &[u8] {
    &bytes[..dtype.bytes_for(elements).unwrap_or(usize::MAX)]
}

/// Decodes the first `out.len()` elements of `bytes`.
///
/// Exact for every float format of at most 32 bits and for i8, u8, i16 and i4; f64, i32 and i64 round to nearest even.
pub(crate) fn decode_f32(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    let bytes = prefix(dtype, bytes, out.len());
    for (i, o) in out.iter_mut().enumerate() {
        *o = narrow(dtype, dtype.load_bits(bytes, i));
    }
}

/// One element as f32, rounded once.
fn narrow(dtype: DType, bits: u64) -> f32 {
    match dtype.int_format() {
        Some(int) => int.decode(bits) as f32,
        None => dtype.decode(bits) as f32,
    }
}

/// Decodes the first `out.len()` elements of `bytes`; exact but for i64 beyond 2^53, which rounds to nearest even.
pub(crate) fn decode_f64(dtype: DType, bytes: &[u8], out: &mut [f64]) {
    let bytes = prefix(dtype, bytes, out.len());
    for (i, o) in out.iter_mut().enumerate() {
        *o = dtype.decode(dtype.load_bits(bytes, i));
    }
}

/// Decodes the first `out.len()` integers of `bytes`, exactly. Floats are truncated to integers and saturate, NaN gives 0.
pub(crate) fn decode_i64(dtype: DType, bytes: &[u8], out: &mut [i64]) {
    let bytes = prefix(dtype, bytes, out.len());
    for (i, o) in out.iter_mut().enumerate() {
        let bits = dtype.load_bits(bytes, i);
        *o = match dtype.int_format() {
            Some(int) => int.decode(bits),
            None => dtype.decode(bits) as i64,
        };
    }
}

/// Encodes `values` into the first elements of `out`, as [`DType::encode`] does. The unused nibble of an odd number of packed elements keeps
/// its value.
pub(crate) fn encode_from_f32(dtype: DType, values: &[f32], rounding: Rounding, overflow: Overflow, out: &mut [u8]) {
    for (i, &v) in values.iter().enumerate() {
        dtype.store_bits(out, i, dtype.encode(f64::from(v), rounding, overflow));
    }
}

/// Encodes `values` into the first elements of `out`, as [`DType::encode`] does, with a single rounding.
pub(crate) fn encode_from_f64(dtype: DType, values: &[f64], rounding: Rounding, overflow: Overflow, out: &mut [u8]) {
    for (i, &v) in values.iter().enumerate() {
        dtype.store_bits(out, i, dtype.encode(v, rounding, overflow));
    }
}

/// The [`ordinal`] of each of the first `out.len()` elements of `bytes`; 0 for NaN. For float formats of at most 32 bits and
/// integers of at most 32; ordinals of wider formats saturate.
pub(crate) fn ordinals_i32(dtype: DType, bytes: &[u8], out: &mut [i32]) {
    let bytes = prefix(dtype, bytes, out.len());
    for (i, o) in out.iter_mut().enumerate() {
        *o = ordinal_i32(dtype, dtype.load_bits(bytes, i));
    }
}

/// The ordinal in `dtype` of each value rounded to nearest even into `dtype` with [`Overflow::Ieee`]; 0 where that is NaN.
/// For the formats of [`ordinals_i32`].
pub(crate) fn ordinals_from_f32(dtype: DType, values: &[f32], out: &mut [i32]) {
    for (o, &v) in out.iter_mut().zip(values) {
        *o = ordinal_i32(dtype, dtype.encode(f64::from(v), Rounding::NearestEven, Overflow::Ieee));
    }
}

fn ordinal_i32(dtype: DType, bits: u64) -> i32 {
    ordinal(dtype, bits).unwrap_or(0).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
