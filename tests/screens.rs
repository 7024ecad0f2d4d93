//! The screens of the comparison on a GPU (`hip/verify_screen.h`) let nothing through that would change the report: their headers are
//! compiled as plain C++ and asked about many millions of elements, see `tests/screens/main.cpp`. Needs a clang with C headers, which hipcc
//! brings; without one nothing is tested, unless HIPVERIFY_HIPCC=require.

use std::path::Path;
use std::process::Command;

#[test]
fn screens_let_nothing_through() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (kernels, source) = (root.join("hip"), root.join("tests/screens"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screens");
    let compilers = ["clang++", "clang++-15", "clang++-19"];
    let found = compilers.iter().find(|c| Command::new(c).arg("--version").output().is_ok_and(|o| o.status.success()));
    let Some(compiler) = found.filter(|_| kernels.is_dir()) else {
        assert!(std::env::var("HIPVERIFY_HIPCC").as_deref() != Ok("require"), "HIPVERIFY_HIPCC=require, and none of {compilers:?} runs");
        println!("skipped: none of {compilers:?} runs, or the kernels are not there");
        return;
    };
    let compiled = Command::new(compiler)
        .args(["-std=c++17", "-O2", "-ffp-contract=off", "-w", "-I"])
        .args([&source, Path::new("-I"), &kernels, &source.join("main.cpp"), Path::new("-o"), &program])
        .output()
        .expect("it ran before");
    assert!(compiled.status.success(), "{compiler}: {}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&program).arg("100").output().expect("just compiled");
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("{said}");
    assert!(ran.status.success(), "{said}");
    assert_eq!(said.lines().filter(|line| line.ends_with(" were")).count(), 11, "every pair of formats was tried: {said}");
}
