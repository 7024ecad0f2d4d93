//! What is generated from `hip/abi.h` was generated from it as it is now.

use std::path::Path;

#[test]
fn generated_files_are_those_of_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join("..").join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    // FNV-1a, as in examples/regen.rs.
    let hash = read("hip/abi.h").bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
    for generated in ["sys/src/abi.rs", "hip/abi_layout.h"] {
        assert!(
            read(generated).contains(&format!("From hip/abi.h {hash:016x}")),
            "{generated} is older than hip/abi.h: run `cargo run -p hipverify-sys --features bindgen --example regen`"
        );
    }
}
