//! Hands on what `hipverify-sys` found when it was built; `hipverify::build_info` gives it to programs. Probes nothing.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for key in ["HIPCC", "TARGETS", "CUDA_TARGETS", "KERNELS"] {
        let found = std::env::var(format!("DEP_HIPVERIFY_HIP_{key}")).unwrap_or_default();
        println!("cargo::rustc-env=HIPVERIFY_BUILD_{key}={found}");
    }
}
