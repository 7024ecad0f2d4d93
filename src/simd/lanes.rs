//! Vectors with the operations of a [`LanesTask`], for each instruction set: for loops that the compiler does not make vector code of by itself, or not good code.
//!
//! A task takes the vectors as a parameter, so its loop is in the source once. Invariant: vectors, their conditions and counters, and the token of their set exist only
//! on a processor that has the set: `InstructionSet::run` alone makes tokens, and only functions that take a token make vectors of something else.
//!
//! Operations take and return patterns of numbers; none depends on modes of the processor, and a fused operation is the same everywhere. So all sets give the same bits.

use super::array;

/// As many numbers as a vector register holds.
pub(crate) trait Lanes: Copy {
    type Number: Copy;
    /// Proves that the processor has the instruction set.
    type Set: Copy;
    /// A condition for each number.
    type Mask: Copy;
    /// A counter for each number.
    type Counts: Copy;
    /// How many there are.
    const N: usize;
    /// Vector registers of the set.
    const REGISTERS: usize;
    /// Whether [`lookup`](Lanes::lookup) is one instruction. AVX2 would take two permutations and a blend for f32, by which histograms got no faster.
    const LOOKUPS: bool;

    fn splat(set: Self::Set, x: Self::Number) -> Self;
    /// The first numbers of a slice. Panics if it has fewer.
    fn load(set: Self::Set, from: &[Self::Number]) -> Self;
    /// As many elements of this format, widened. Panics if there are fewer.
    fn from_f32(set: Self::Set, from: &[[u8; 4]]) -> Self;
    fn from_f16(set: Self::Set, from: &[[u8; 2]]) -> Self;
    fn from_bf16(set: Self::Set, from: &[[u8; 2]]) -> Self;
    fn from_i8(set: Self::Set, from: &[[u8; 1]]) -> Self;
    fn from_u8(set: Self::Set, from: &[[u8; 1]]) -> Self;
    fn from_i16(set: Self::Set, from: &[[u8; 2]]) -> Self;
    fn from_u16(set: Self::Set, from: &[[u8; 2]]) -> Self;
    /// Rounded to nearest even in f32.
    fn from_i32(set: Self::Set, from: &[[u8; 4]]) -> Self;
    /// Writes to the beginning of a slice. Panics if it is shorter.
    fn store(x: Self, to: &mut [Self::Number]);

    fn add(x: Self, y: Self) -> Self;
    fn sub(x: Self, y: Self) -> Self;
    fn mul(x: Self, y: Self) -> Self;
    fn div(x: Self, y: Self) -> Self;
    /// x y + z, rounded once.
    fn fused(x: Self, y: Self, z: Self) -> Self;
    /// Rounded to f32, to nearest even.
    fn to_f32(x: Self) -> Self;
    fn magnitude(x: Self) -> Self;
    /// `x < y ? x : y`, and `x > y ? x : y`.
    fn smaller(x: Self, y: Self) -> Self;
    fn larger(x: Self, y: Self) -> Self;
    /// The number with the larger pattern, of two without a sign: NaN is above infinity.
    fn larger_bits(x: Self, y: Self) -> Self;
    /// The sum of the patterns, as integers that wrap.
    fn add_bits(x: Self, y: Self) -> Self;
    /// The patterns, shifted right.
    fn shift_bits(x: Self, by: u32) -> Self;
    /// The numbers of a table with these indices: the lowest four bits of each pattern.
    fn lookup(table: &[Self::Number; 16], indices: Self) -> Self;
    fn and(x: Self, y: Self) -> Self;
    fn or(x: Self, y: Self) -> Self;
    /// Of the groups of four numbers in x and then y: the first, third and so on; and the others.
    fn unzip_fours(x: Self, y: Self) -> (Self, Self);

    /// x < y, and false for NaN.
    fn less(x: Self, y: Self) -> Self::Mask;
    /// x where the condition holds, elsewhere +0.
    fn keep(mask: Self::Mask, x: Self) -> Self;
    /// x where the condition holds, elsewhere y.
    fn select(mask: Self::Mask, x: Self, y: Self) -> Self;
    /// The conditions as bits, the first number's lowest.
    fn bits(mask: Self::Mask) -> u32;

    fn no_counts(set: Self::Set) -> Self::Counts;
    /// One more where the condition holds.
    fn count(counts: Self::Counts, mask: Self::Mask) -> Self::Counts;
    /// The sum of all counters.
    fn total(counts: Self::Counts) -> u64;
    /// The number of the largest pattern, of numbers without a sign.
    fn largest(x: Self) -> Self::Number;
    /// All patterns joined by `or`.
    fn joined(x: Self) -> Self::Number;
}

/// The vectors of a type of numbers.
pub(crate) trait InLanes: Copy {
    #[cfg(target_arch = "x86_64")]
    type Avx512: Lanes<Number = Self, Set = super::Avx512>;
    #[cfg(target_arch = "x86_64")]
    type Avx2: Lanes<Number = Self, Set = super::Avx2>;
    type Plain: Lanes<Number = Self, Set = super::Plain>;
    /// For what is left when no vector is.
    type One: Lanes<Number = Self, Set = super::Plain>;
}

/// A loop over vectors of T.
pub(crate) trait LanesTask<T> {
    type Output;
    /// Every implementation is `#[inline(always)]`, else it would be compiled for any processor.
    fn run<L: Lanes<Number = T>>(self, set: L::Set) -> Self::Output;
}

impl InLanes for f32 {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = super::x86::F32x16;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = super::x86::F32x8;
    type Plain = Array<f32, 4>;
    type One = Array<f32, 1>;
}

impl InLanes for f64 {
    #[cfg(target_arch = "x86_64")]
    type Avx512 = super::x86::F64x8;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = super::x86::F64x4;
    type Plain = Array<f64, 4>;
    type One = Array<f64, 1>;
}

/// The vectors of any processor, which the compiler makes vector code of as far as it can.
#[derive(Clone, Copy)]
pub(crate) struct Array<T, const N: usize>([T; N]);

macro_rules! plain {
    ($number:ty, $bits:ty) => {
        impl<const N: usize> Array<$number, N> {
            #[inline(always)]
            fn map(x: Self, y: Self, f: impl Fn($number, $number) -> $number) -> Self {
                Array(array(|i| f(x.0[i], y.0[i])))
            }
            #[inline(always)]
            fn patterns(x: Self, y: Self, f: impl Fn($bits, $bits) -> $bits) -> Self {
                Self::map(x, y, |x, y| <$number>::from_bits(f(x.to_bits(), y.to_bits())))
            }
        }

        impl<const N: usize> Lanes for Array<$number, N> {
            type Number = $number;
            type Set = super::Plain;
            type Mask = [bool; N];
            type Counts = [$bits; N];
            const N: usize = N;
            const REGISTERS: usize = 16;
            const LOOKUPS: bool = false;

            #[inline(always)]
            fn splat(_: super::Plain, x: $number) -> Self {
                Array([x; N])
            }
            #[inline(always)]
            fn load(_: super::Plain, from: &[$number]) -> Self {
                Array(array(|i| from[i]))
            }
            #[inline(always)]
            fn from_f32(_: super::Plain, from: &[[u8; 4]]) -> Self {
                Array(array(|i| <$number>::from(f32::from_le_bytes(from[i]))))
            }
            #[inline(always)]
            fn from_f16(_: super::Plain, from: &[[u8; 2]]) -> Self {
                Array(array(|i| <$number>::from(half::f16::from_le_bytes(from[i]))))
            }
            #[inline(always)]
            fn from_bf16(_: super::Plain, from: &[[u8; 2]]) -> Self {
                Array(array(|i| <$number>::from(f32::from_bits(u32::from(u16::from_le_bytes(from[i])) << 16))))
            }
            #[inline(always)]
            fn from_i8(_: super::Plain, from: &[[u8; 1]]) -> Self {
                Array(array(|i| i8::from_le_bytes(from[i]) as $number))
            }
            #[inline(always)]
            fn from_u8(_: super::Plain, from: &[[u8; 1]]) -> Self {
                Array(array(|i| u8::from_le_bytes(from[i]) as $number))
            }
            #[inline(always)]
            fn from_i16(_: super::Plain, from: &[[u8; 2]]) -> Self {
                Array(array(|i| i16::from_le_bytes(from[i]) as $number))
            }
            #[inline(always)]
            fn from_u16(_: super::Plain, from: &[[u8; 2]]) -> Self {
                Array(array(|i| u16::from_le_bytes(from[i]) as $number))
            }
            #[inline(always)]
            fn from_i32(_: super::Plain, from: &[[u8; 4]]) -> Self {
                Array(array(|i| i32::from_le_bytes(from[i]) as $number))
            }
            #[inline(always)]
            fn store(x: Self, to: &mut [$number]) {
                to[..N].copy_from_slice(&x.0);
            }
            #[inline(always)]
            fn add(x: Self, y: Self) -> Self {
                Self::map(x, y, |x, y| x + y)
            }
            #[inline(always)]
            fn sub(x: Self, y: Self) -> Self {
                Self::map(x, y, |x, y| x - y)
            }
            #[inline(always)]
            fn mul(x: Self, y: Self) -> Self {
                Self::map(x, y, |x, y| x * y)
            }
            #[inline(always)]
            fn div(x: Self, y: Self) -> Self {
                Self::map(x, y, |x, y| x / y)
            }
            #[inline(always)]
            fn fused(x: Self, y: Self, z: Self) -> Self {
                Array(array(|i| x.0[i].mul_add(y.0[i], z.0[i])))
            }
            #[inline(always)]
            fn to_f32(x: Self) -> Self {
                Array(array(|i| <$number>::from(x.0[i] as f32)))
            }
            #[inline(always)]
            fn magnitude(x: Self) -> Self {
                Array(array(|i| x.0[i].abs()))
            }
            #[inline(always)]
            fn smaller(x: Self, y: Self) -> Self {
                Self::map(x, y, |x, y| if x < y { x } else { y })
            }
            #[inline(always)]
            fn larger(x: Self, y: Self) -> Self {
                Self::map(x, y, |x, y| if x > y { x } else { y })
            }
            #[inline(always)]
            fn larger_bits(x: Self, y: Self) -> Self {
                Self::patterns(x, y, |x, y| x.max(y))
            }
            #[inline(always)]
            fn add_bits(x: Self, y: Self) -> Self {
                Self::patterns(x, y, |x, y| x.wrapping_add(y))
            }
            #[inline(always)]
            fn shift_bits(x: Self, by: u32) -> Self {
                Array(array(|i| <$number>::from_bits(x.0[i].to_bits() >> by)))
            }
            #[inline(always)]
            fn lookup(table: &[$number; 16], indices: Self) -> Self {
                Array(array(|i| table[(indices.0[i].to_bits() % 16) as usize]))
            }
            #[inline(always)]
            fn and(x: Self, y: Self) -> Self {
                Self::patterns(x, y, |x, y| x & y)
            }
            #[inline(always)]
            fn or(x: Self, y: Self) -> Self {
                Self::patterns(x, y, |x, y| x | y)
            }
            #[inline(always)]
            fn unzip_fours(x: Self, y: Self) -> (Self, Self) {
                const { assert!(N <= 4) };
                (x, y)
            }
            #[inline(always)]
            fn less(x: Self, y: Self) -> [bool; N] {
                array(|i| x.0[i] < y.0[i])
            }
            #[inline(always)]
            fn keep(mask: [bool; N], x: Self) -> Self {
                Array(array(|i| if mask[i] { x.0[i] } else { 0.0 }))
            }
            #[inline(always)]
            fn select(mask: [bool; N], x: Self, y: Self) -> Self {
                Array(array(|i| if mask[i] { x.0[i] } else { y.0[i] }))
            }
            #[inline(always)]
            fn bits(mask: [bool; N]) -> u32 {
                let mut bits = 0;
                for i in 0..N {
                    bits |= u32::from(mask[i]) << i;
                }
                bits
            }
            #[inline(always)]
            fn no_counts(_: super::Plain) -> [$bits; N] {
                [0; N]
            }
            #[inline(always)]
            fn count(counts: [$bits; N], mask: [bool; N]) -> [$bits; N] {
                array(|i| counts[i] + <$bits>::from(mask[i]))
            }
            #[inline(always)]
            fn total(counts: [$bits; N]) -> u64 {
                let mut total = 0;
                for count in counts {
                    total += u64::from(count);
                }
                total
            }
            #[inline(always)]
            fn largest(x: Self) -> $number {
                let mut largest = 0;
                for x in x.0 {
                    largest = x.to_bits().max(largest);
                }
                <$number>::from_bits(largest)
            }
            #[inline(always)]
            fn joined(x: Self) -> $number {
                let mut joined = 0;
                for x in x.0 {
                    joined |= x.to_bits();
                }
                <$number>::from_bits(joined)
            }
        }
    };
}
plain!(f32, u32);
plain!(f64, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::InstructionSet;

    /// Numbers of every kind, as many as a multiple of every N.
    const NUMBERS: [f64; 16] =
        [0.0, -0.0, 1.0, -1.5, 3e-45, -1e-40, 1.2e-38, 3e38, -3e38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-3, 0.1, 65504.0, -7.0];

    /// Every operation on x, y and z, as patterns.
    struct Operations<T> {
        numbers: [[T; 16]; 3],
        bytes: [[u8; 1]; 16],
        halves: [[u8; 2]; 16],
        units: [[u8; 4]; 16],
    }

    macro_rules! operations {
        ($number:ty) => {
            impl LanesTask<$number> for Operations<$number> {
                type Output = Vec<u64>;
                #[inline(always)]
                fn run<L: Lanes<Number = $number>>(self, set: L::Set) -> Vec<u64> {
                    let mut out = vec![0; 40 * 16];
                    let mut counts = L::no_counts(set);
                    let (mut largest, mut joined) = (L::splat(set, 0.0), L::splat(set, 0.0));
                    for at in (0..16).step_by(L::N) {
                        let load = |k: usize| L::load(set, &self.numbers[k][at..]);
                        let (x, y, z) = (load(0), load(1), load(2));
                        let (m, n) = (L::magnitude(x), L::magnitude(y));
                        let below = L::less(x, y);
                        counts = L::count(counts, below);
                        (largest, joined) = (L::larger_bits(largest, m), L::or(joined, x));
                        let results = [
                            x,
                            L::from_f32(set, &self.units[at..]),
                            L::from_f16(set, &self.halves[at..]),
                            L::from_bf16(set, &self.halves[at..]),
                            L::from_i8(set, &self.bytes[at..]),
                            L::from_u8(set, &self.bytes[at..]),
                            L::from_i16(set, &self.halves[at..]),
                            L::from_u16(set, &self.halves[at..]),
                            L::from_i32(set, &self.units[at..]),
                            L::add(x, y),
                            L::sub(x, y),
                            L::mul(x, y),
                            L::div(x, y),
                            L::fused(x, y, z),
                            L::to_f32(x),
                            m,
                            L::smaller(x, y),
                            L::larger(x, y),
                            L::larger_bits(m, n),
                            L::add_bits(x, y),
                            L::shift_bits(x, 20),
                            L::lookup(&self.numbers[1], x),
                            L::lookup(&self.numbers[1], L::shift_bits(x, 20)),
                            L::and(x, y),
                            L::or(x, y),
                            L::keep(below, z),
                            L::select(below, y, z),
                        ];
                        for (k, result) in results.into_iter().enumerate() {
                            let mut numbers: [$number; 16] = [0.0; 16];
                            L::store(result, &mut numbers);
                            for i in 0..L::N {
                                // Whose payload a NaN has is not told.
                                let bits = if numbers[i].is_nan() { <$number>::NAN } else { numbers[i] }.to_bits();
                                out[16 * k + at + i] = u64::from(bits);
                            }
                        }
                        out[16 * results.len()] |= u64::from(L::bits(below)) << at;
                    }
                    out.extend([L::total(counts), L::largest(largest).to_bits().into(), L::joined(joined).to_bits().into()]);
                    out
                }
            }
        };
    }
    operations!(f32);
    operations!(f64);

    /// The numbers of each set for all pairs of numbers, each with some third.
    fn check<T: InLanes + PartialEq>(of: impl Fn(f64) -> T)
    where
        Operations<T>: LanesTask<T, Output = Vec<u64>>,
    {
        for turn in 0..16 {
            let operations = || {
                let number = |i: usize| NUMBERS[i % 16];
                Operations {
                    numbers: [0, turn, 5 * turn + 1].map(|from| array(|i| of(number(i + from)))),
                    bytes: array(|i| [(16 * turn + i) as u8]),
                    halves: array(|i| ((4099 * (16 * turn + i)) as u16).to_le_bytes()),
                    units: array(|i| (number(i + turn) as f32).to_le_bytes()),
                }
            };
            let (plain, vectors) = InstructionSet::all().split_last().unwrap();
            let expected = plain.run_lanes(operations());
            for set in vectors {
                assert_eq!(set.run_lanes(operations()), expected, "{set:?}, turn {turn}");
            }
        }
    }

    #[test]
    fn every_set_gives_the_bits_of_the_plain_one() {
        check(|x| x as f32);
        check(|x| x);
    }
}
