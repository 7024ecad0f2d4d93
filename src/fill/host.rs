//! Fill on the host device: all cores, chunks of a fixed size, vectorised where it pays.

use super::element::{Ahead, clamp32, clamp64, element, random_bits, uniform_from};
use super::params::{FillParams, flag, kind};
use super::philox;
use crate::dtype::DType;
use rayon::prelude::*;

/// Elements of one task. A multiple of what one batch of blocks serves, so that every chunk starts with a fresh batch.
const CHUNK: usize = 1 << 16;

/// From this size on, all results of a 16-bit draw are tabulated first.
const TABLE_FROM: u64 = 1 << 18;

/// Compiles a function once for each vector width and picks the widest at run time.
macro_rules! widest {
    ($(#[$doc:meta])* fn $name:ident = $body:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub(super) fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
                fn wide($($arg: $ty),*) {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn medium($($arg: $ty),*) {
                    $body($($arg),*)
                }
                let avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl");
                if avx512 && is_x86_feature_detected!("fma") {
                    // SAFETY: the features were detected on this machine.
                    return unsafe { wide($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the features were detected on this machine.
                    return unsafe { medium($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}

widest! {
    /// One batch of blocks for `purpose`.
    fn batch = batch_body(first: u64, p: &FillParams, purpose: u32, words: &mut philox::Words)
}

#[inline(always)]
fn batch_body(first: u64, p: &FillParams, purpose: u32, words: &mut philox::Words) {
    *words = philox::batch(first, p.stream, purpose, p.key);
}

/// Bytes that one batch of blocks fills.
const BATCH_BYTES: usize = 16 * philox::BATCH;

widest! {
    /// Uniform f32 from element `first`, a multiple of a batch, on; `out` is whole batches.
    fn uniform_f32 = uniform_f32_body(p: &FillParams, first: u64, out: &mut [u8])
}

#[inline(always)]
fn uniform_f32_body(p: &FillParams, first: u64, out: &mut [u8]) {
    let (a, b, low, high) = (p.a as f32, p.b as f32, p.low as f32, p.high as f32);
    let sign = p.flags & flag::SIGNED;
    let mut block = first / 4;
    for chunk in out.chunks_exact_mut(BATCH_BYTES) {
        let words = philox::batch(block, p.stream, 0, p.key);
        block += philox::BATCH as u64;
        for (target, word) in chunk.chunks_exact_mut(4).zip(words) {
            // The number has 24 bits: as i32 it converts in one vector instruction.
            let u = (word >> 8 | 1) as i32 as f32 * (1.0 / 16_777_216.0);
            let x = clamp32(u.mul_add(b, a), low, high);
            target.copy_from_slice(&(x.to_bits() ^ (word & sign) << 31).to_le_bytes());
        }
    }
}

widest! {
    /// Uniform f64 from element `first`, a multiple of a batch, on; `out` is whole batches.
    fn uniform_f64 = uniform_f64_body(p: &FillParams, first: u64, out: &mut [u8])
}

#[inline(always)]
fn uniform_f64_body(p: &FillParams, first: u64, out: &mut [u8]) {
    let (a, b, low, high) = (p.a, p.b, p.low, p.high);
    let sign = u64::from(p.flags & flag::SIGNED);
    let mut block = first / 2;
    for chunk in out.chunks_exact_mut(BATCH_BYTES) {
        let words = philox::batch(block, p.stream, 0, p.key);
        block += philox::BATCH as u64;
        for (target, pair) in chunk.chunks_exact_mut(8).zip(words.chunks_exact(2)) {
            let word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
            let u = (word >> 11 | 1) as i64 as f64 * (1.0 / (1u64 << 53) as f64);
            let x = clamp64(u.mul_add(b, a), low, high);
            target.copy_from_slice(&(x.to_bits() ^ (word & sign) << 63).to_le_bytes());
        }
    }
}

/// How a contiguous fill is computed.
enum Plan {
    /// f32 and f64 uniform: in registers.
    Vector,
    /// Uniform on 8 random bits: every result there is.
    Table8(Vec<u8>),
    /// Uniform on 16 random bits.
    Table16(Vec<u16>),
    /// One value.
    Constant(u64),
    /// The definition, element by element.
    Elements,
}

impl Plan {
    fn new(p: &FillParams, dtype: DType) -> Plan {
        let plain = p.special_below == 0 && p.flags & flag::SPARSE == 0;
        match (p.kind, dtype) {
            _ if !plain => Plan::Elements,
            (kind::CONSTANT, _) => Plan::Constant(element(p, dtype, 0, &mut Ahead::new())),
            (kind::UNIFORM, DType::F32 | DType::F64) => Plan::Vector,
            (kind::UNIFORM, _) if random_bits(dtype) == 8 => Plan::Table8((0..256).map(|w| uniform_from(p, dtype, w) as u8).collect()),
            (kind::UNIFORM, _) if random_bits(dtype) == 16 && p.count >= TABLE_FROM => {
                Plan::Table16((0..65_536).map(|w| uniform_from(p, dtype, w) as u16).collect())
            }
            _ => Plan::Elements,
        }
    }
}

/// Fills a tensor in `memory`.
pub(super) fn fill(p: &FillParams, dtype: DType, memory: &mut [u8]) {
    if p.count == 0 {
        return;
    }
    if p.flags & flag::CONTIGUOUS == 0 {
        return strided(p, dtype, memory);
    }
    let plan = Plan::new(p, dtype);
    let (offset, count) = (p.offset as usize, p.count as usize);
    let per_unit = dtype.per_unit();
    // Packed: the first element may be the second of its byte, and the last the first.
    let head = offset % per_unit;
    let units = (count - head) / per_unit;
    let mut one = |index: usize| dtype.store_bits(memory, offset + index, element(p, dtype, index as u64, &mut Ahead::new()));
    if head > 0 {
        one(0);
    }
    if !(count - head).is_multiple_of(per_unit) {
        one(count - 1);
    }
    let start = (offset + head) / per_unit * dtype.unit_bytes();
    let body = &mut memory[start..start + units * dtype.unit_bytes()];
    body.par_chunks_mut(CHUNK / per_unit * dtype.unit_bytes()).enumerate().for_each(|(chunk, out)| {
        run(p, dtype, &plan, (head + chunk * CHUNK) as u64, out);
    });
}

/// Fills whole units with the elements from `first` on.
fn run(p: &FillParams, dtype: DType, plan: &Plan, first: u64, out: &mut [u8]) {
    let aligned = first.is_multiple_of(CHUNK as u64);
    let done = match plan {
        Plan::Vector if aligned => {
            let whole = out.len() / BATCH_BYTES * BATCH_BYTES;
            let body = &mut out[..whole];
            if dtype == DType::F32 {
                uniform_f32(p, first, body)
            } else {
                uniform_f64(p, first, body)
            }
            whole
        }
        Plan::Table8(table) if aligned => by_table(
            p,
            first / 16,
            out,
            |word, target| {
                let [a, b, c, d] = word.to_le_bytes().map(|w| table[usize::from(w)]);
                if dtype.per_unit() == 2 {
                    target.copy_from_slice(&[a | b << 4, c | d << 4]);
                } else {
                    target.copy_from_slice(&[a, b, c, d]);
                }
            },
            4 / dtype.per_unit(),
        ),
        Plan::Table16(table) if aligned => by_table(
            p,
            first / 8,
            out,
            |word, target| {
                let (low, high) = (table[usize::from(word as u16)], table[(word >> 16) as usize]);
                target.copy_from_slice(&(u32::from(low) | u32::from(high) << 16).to_le_bytes());
            },
            4,
        ),
        Plan::Constant(bits) => {
            let unit = if dtype.per_unit() == 2 { bits | bits << 4 } else { *bits };
            let bytes = unit.to_le_bytes();
            for target in out.chunks_exact_mut(dtype.unit_bytes()) {
                target.copy_from_slice(&bytes[..dtype.unit_bytes()]);
            }
            out.len()
        }
        _ => 0,
    };
    let per_unit = dtype.per_unit();
    let mut ahead = Ahead::new();
    let mut index = first + (done / dtype.unit_bytes() * per_unit) as u64;
    for target in out[done..].chunks_exact_mut(dtype.unit_bytes()) {
        let mut bits = 0;
        for place in 0..per_unit {
            bits |= element(p, dtype, index, &mut ahead) << (4 * place);
            index += 1;
        }
        target.copy_from_slice(&bits.to_le_bytes()[..dtype.unit_bytes()]);
    }
}

/// Fills whole batches, `bytes` bytes for each random word, and returns how many bytes that were.
fn by_table(p: &FillParams, first_block: u64, out: &mut [u8], mut put: impl FnMut(u32, &mut [u8]), bytes: usize) -> usize {
    let mut block = first_block;
    let mut words = [0; 4 * philox::BATCH];
    let size = words.len() * bytes;
    for chunk in out.chunks_exact_mut(size) {
        batch(block, p, 0, &mut words);
        block += philox::BATCH as u64;
        for (target, word) in chunk.chunks_exact_mut(bytes).zip(words) {
            put(word, target);
        }
    }
    out.len() / size * size
}

/// Memory that several threads write, each its own elements.
#[derive(Clone, Copy)]
struct Shared(*mut u8);

// SAFETY: `strided` lets no two threads write the same byte.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn at(self, byte: usize) -> *mut u8 {
        self.0.wrapping_add(byte)
    }
}

/// Fills element by element, wherever the strides lead.
fn strided(p: &FillParams, dtype: DType, memory: &mut [u8]) {
    let unit = dtype.unit_bytes();
    let shared = Shared(memory.as_mut_ptr());
    for &pass in p.passes() {
        (0..p.count.div_ceil(CHUNK as u64)).into_par_iter().for_each(|chunk| {
            let first = chunk * CHUNK as u64;
            let mut ahead = Ahead::new();
            for index in first..p.count.min(first + CHUNK as u64) {
                let at = place(p, index);
                let bits = element(p, dtype, index, &mut ahead);
                if pass == 0 {
                    // SAFETY: the tensor's layout was checked to lie within `memory`, which is borrowed exclusively, and not
                    // to let two elements overlap; every index is visited by one thread.
                    unsafe { shared.at(at * unit).copy_from_nonoverlapping(bits.to_le_bytes().as_ptr(), unit) };
                } else if (pass == flag::EVEN) == at.is_multiple_of(2) {
                    // SAFETY: as above; of the two elements in a byte only one belongs to this pass.
                    let byte = unsafe { std::slice::from_raw_parts_mut(shared.at(at / 2), 1) };
                    dtype.store_bits(byte, at % 2, bits);
                }
            }
        });
    }
}

/// The memory index of an element.
fn place(p: &FillParams, mut index: u64) -> usize {
    let mut at = p.offset as i64;
    for (extent, stride) in p.shape.iter().zip(&p.strides).take(p.rank as usize).rev() {
        at += (index % extent) as i64 * stride;
        index /= extent;
    }
    at as usize
}
