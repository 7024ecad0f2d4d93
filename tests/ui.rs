//! Borrowing mistakes that must not compile.

#[test]
fn mistakes_do_not_compile() {
    // The crate and what its tests need are built once more for these programs: without device code, which none of them runs.
    for (name, value) in [("HIPVERIFY_HIPCC", "off"), ("HIPVERIFY_STANDIN_KERNELS", "later")] {
        // SAFETY: the only test of this binary; no other thread reads or writes the environment yet.
        unsafe { std::env::set_var(name, value) };
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
