//! Instruction sets that the loops of fill are compiled for, and the choice among them.

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vectors {
    /// AVX-512 F, DQ, BW, VL and VBMI, and FMA: Intel since Ice Lake, AMD since Zen 4. Only [`Vectors::all`] makes it.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 and FMA. Only [`Vectors::all`] makes it.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the target has.
    Baseline,
}

impl Vectors {
    /// Those that this processor has, best first.
    pub(super) fn all() -> Vec<Vectors> {
        #[allow(unused_mut, reason = "other architectures add nothing")]
        let mut found = Vec::with_capacity(3);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2") {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi");
            if avx512 {
                found.push(Vectors::Avx512);
            }
            found.push(Vectors::Avx2);
        }
        found.push(Vectors::Baseline);
        found
    }

    pub(super) fn best() -> Vectors {
        Vectors::all()[0]
    }
}

/// Compiles a function once for each instruction set: `$name` takes the [`Vectors`] to use, then the arguments of `$body`,
/// which must be inlined always.
macro_rules! for_each_set {
    ($(#[$doc:meta])* fn $name:ident = $body:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "those of the body and the instruction set")]
        pub(super) fn $name(vectors: Vectors, $($arg: $ty),*) {
            match vectors {
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx512 => {
                    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
                    fn avx512($($arg: $ty),*) {
                        $body($($arg),*)
                    }
                    // SAFETY: `Vectors::all` found these features on this processor.
                    unsafe { avx512($($arg),*) }
                }
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx2 => {
                    #[target_feature(enable = "avx2,fma")]
                    fn avx2($($arg: $ty),*) {
                        $body($($arg),*)
                    }
                    // SAFETY: `Vectors::all`, which alone makes this value, found AVX2 and FMA on this processor.
                    unsafe { avx2($($arg),*) }
                }
                Vectors::Baseline => $body($($arg),*),
            }
        }
    };
}
pub(super) use for_each_set;
