//! Instruction sets: detected once, with a loop compiled for each of them.
//!
//! A loop is a [`Task`], a struct with its arguments and one method in plain Rust, written so that the compiler turns it into vector code.
//! [`InstructionSet::run`] is
//!
//! ```text
//! match set {
//!     Avx512 => the task's loop, compiled with AVX-512
//!     Avx2   => the task's loop, compiled with AVX2 and FMA
//!     Plain  => the task's loop, compiled for any processor of the target
//! }
//! ```
//!
//! Invariant: an [`InstructionSet`] other than `Plain` exists only where the processor has it, since [`InstructionSet::all`] alone makes them.
//! So there is one source for all sets, and the variants can differ only through a fault of the compiler, or, where a task is written with the vectors of
//! [`lanes`], of one of their operations, which a test compares. `mul_add` is the only fused operation, and
//! it gives the same bits with and without an instruction for it.
//!
//! Loops over several slices are [`each`] or [`pairs`], and small arrays are made by [`array`]: the closures of std's `zip`, `from_fn` and `map` of arrays are separate
//! functions, which only LTO inlines into a loop, and LTO takes a quarter of a release build's time. The closure of [`each`] has to be short: a long closure stays a function
//! that is compiled for any processor. A loop with a long body counts indices.
//!
//! What the compiler vectorizes is the outermost loop without calls, branches and early exits. A task that shows up in a profile
//! should be looked at with `cargo rustc --release --lib -- -C remark=loop-vectorize`. A loop that it does not vectorize well, such as one that widens
//! 16-bit floats or has an instruction for each vector, is a [`LanesTask`].

mod lanes;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use lanes::{InLanes, Lanes, LanesTask};

use std::marker::PhantomData;
use std::sync::OnceLock;

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InstructionSet(Set);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// AVX-512 F, BW, DQ and VL, with FMA and F16C: Intel since Skylake-SP, AMD since Zen 4.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with FMA and F16C: Intel since Haswell, AMD since Zen.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the target has.
    Plain,
}

/// A loop and its arguments.
pub(crate) trait Task {
    /// What the loop returns.
    type Output;
    /// The loop. Every implementation is `#[inline(always)]`, else it would be compiled for any processor.
    fn run(self) -> Self::Output;
    /// The same for AVX-512, for loops with vectors.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_avx512(self, _set: Avx512) -> Self::Output
    where
        Self: Sized,
    {
        self.run()
    }
    /// The same for AVX2, likewise.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_avx2(self, _set: Avx2) -> Self::Output
    where
        Self: Sized,
    {
        self.run()
    }
}

impl InstructionSet {
    /// The sets that this processor has, best first; the last one is the plain one.
    #[inline]
    pub(crate) fn all() -> &'static [InstructionSet] {
        static FOUND: OnceLock<Vec<InstructionSet>> = OnceLock::new();
        FOUND.get_or_init(|| {
            #[allow(unused_mut, reason = "other architectures add nothing")]
            let mut found = Vec::new();
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
                let words = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
                if words && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
                    found.push(InstructionSet(Set::Avx512));
                }
                found.push(InstructionSet(Set::Avx2));
            }
            found.push(InstructionSet(Set::Plain));
            found
        })
    }

    /// The best set of this processor.
    #[inline]
    pub(crate) fn best() -> InstructionSet {
        InstructionSet::all()[0]
    }

    /// Whether this is what every processor of the target has.
    pub(crate) fn is_plain(self) -> bool {
        self.0 == Set::Plain
    }

    /// Whether a fused multiply-add is an instruction of this set, not a call.
    pub(crate) fn has_fma(self) -> bool {
        self.0 != Set::Plain || cfg!(target_arch = "aarch64")
    }

    /// Whether AVX-512 VBMI, with permutations of bytes, comes with this set.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn has_vbmi(self) -> bool {
        self.0 == Set::Avx512 && is_x86_feature_detected!("avx512vbmi")
    }

    /// Runs a task with these instructions.
    #[inline]
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
                fn compiled<T: Task>(task: T) -> T::Output {
                    task.run_avx512(Avx512(()))
                }
                // SAFETY: `all` makes this value only where it has detected these features.
                unsafe { compiled(task) }
            }
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn compiled<T: Task>(task: T) -> T::Output {
                    task.run_avx2(Avx2(()))
                }
                // SAFETY: `all` makes this value only where it has detected AVX2, FMA and F16C.
                unsafe { compiled(task) }
            }
            Set::Plain => task.run(),
        }
    }

    /// Runs a task with vectors of these instructions.
    #[inline]
    pub(crate) fn run_lanes<T: InLanes, K: LanesTask<T>>(self, task: K) -> K::Output {
        struct WithVectors<T, K>(K, PhantomData<T>);
        impl<T: InLanes, K: LanesTask<T>> Task for WithVectors<T, K> {
            type Output = K::Output;
            #[inline(always)]
            fn run(self) -> K::Output {
                self.0.run::<T::Plain>(Plain)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn run_avx512(self, set: Avx512) -> K::Output {
                self.0.run::<T::Avx512>(set)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn run_avx2(self, set: Avx2) -> K::Output {
                self.0.run::<T::Avx2>(set)
            }
        }
        self.run(WithVectors(task, PhantomData))
    }
}

/// Proof that the processor has AVX-512, see [`lanes`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// Proof that the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

/// What every processor has.
#[derive(Clone, Copy)]
pub(crate) struct Plain;

/// `[f(0), f(1), ...]`, for at least one element.
#[inline(always)]
pub(crate) fn array<T: Copy, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    const { assert!(N > 0) };
    let mut array = [f(0); N];
    let mut i = 1;
    while i < N {
        array[i] = f(i);
        i += 1;
    }
    array
}

/// `f` of the elements of both with the same index, in order, as far as both go.
#[inline(always)]
pub(crate) fn each<X, Y>(xs: &mut [X], ys: &[Y], mut f: impl FnMut(&mut X, &Y)) {
    let n = xs.len().min(ys.len());
    let (xs, ys) = (&mut xs[..n], &ys[..n]);
    for i in 0..n {
        f(&mut xs[i], &ys[i]);
    }
}

/// The same without changing any.
#[inline(always)]
pub(crate) fn pairs<X: Copy, Y: Copy>(xs: &[X], ys: &[Y], mut f: impl FnMut(X, Y)) {
    let n = xs.len().min(ys.len());
    let (xs, ys) = (&xs[..n], &ys[..n]);
    for i in 0..n {
        f(xs[i], ys[i]);
    }
}

/// Prefetches memory that is read soon. Into L2: a prefetch into L1 waits if more lines are outstanding than the few that
/// L1 keeps track of (on Zen 4 this was half of the time of comparisons of 16 bits).
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        prefetch_line::<{ std::arch::x86_64::_MM_HINT_T1 }>(line.as_ptr());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Prefetches the cache line of an address, which need not be one of memory.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_line<const HINT: i32>(address: *const u8) {
    // SAFETY: SSE is part of x86-64, and a prefetch reads nothing: any address may be asked for.
    unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(address.cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fused<'a>(&'a [f32], &'a [f32]);
    impl Task for Fused<'_> {
        type Output = Vec<u32>;
        #[inline(always)]
        fn run(self) -> Vec<u32> {
            self.0.iter().zip(self.1).map(|(x, y)| x.mul_add(*y, 1.0).to_bits()).collect()
        }
    }

    #[test]
    fn every_set_gives_the_bits_of_the_plain_one() {
        let x: Vec<f32> = (0..1000).map(|i| 1.0 + i as f32 * 1.1e-7).collect();
        let y: Vec<f32> = (0..1000).map(|i| -1.0 + i as f32 * 0.9e-7).collect();
        let (plain, vectors) = InstructionSet::all().split_last().unwrap();
        assert_eq!(*plain, InstructionSet(Set::Plain));
        for set in vectors {
            assert_eq!(set.run(Fused(&x, &y)), plain.run(Fused(&x, &y)), "{set:?}");
        }
    }
}
