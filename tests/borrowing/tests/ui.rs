//! Borrowing mistakes that must not compile.

#[test]
fn mistakes_do_not_compile() {
    // The library is checked once more for these programs: without device code, which none of them runs.
    // SAFETY: the only test of this binary; no other thread reads or writes the environment yet.
    unsafe { std::env::set_var("HIPVERIFY_HIPCC", "off") };
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
