//! Whatever runtimes this machine has, opening them tells a clear story and never panics.

use hipverify_sys::{LoadError, Platform};
use std::collections::BTreeSet;

#[test]
fn amd_opens_or_says_why() {
    match hipverify_sys::amd() {
        Ok(runtime) => {
            assert_eq!(runtime.platform(), Platform::Amd);
            assert!(runtime.path().is_absolute(), "{}", runtime.path().display());
            println!(
                "{} at {}: {:?} devices, absent {:?}",
                runtime.describe(),
                runtime.path().display(),
                runtime.device_count(),
                runtime.absent()
            );
        }
        Err(error @ LoadError::NotFound { .. }) => println!("skipped: {error:#}"),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn nvidia_opens_or_says_why() {
    match hipverify_sys::nvidia() {
        Ok(runtime) => {
            assert_eq!(runtime.platform(), Platform::Nvidia);
            assert!(runtime.version().is_some());
            println!("{}: {:?} devices, absent {:?}", runtime.describe(), runtime.device_count(), runtime.absent());
        }
        Err(error) => println!("skipped: {error}"),
    }
}

/// Every file that a source or a header includes is packed with it, under the name that it is included by.
#[test]
fn all_that_is_included_is_there() {
    let there: BTreeSet<&str> = hipverify_sys::kernels::headers().map(|(name, _)| name).collect();
    let sources = hipverify_sys::kernels::SOURCES.iter().map(|s| (s.name, s.text));
    let mut includes = 0;
    for (file, text) in sources.chain(hipverify_sys::kernels::headers()) {
        for include in text.lines().filter_map(|line| line.trim_start().strip_prefix("#include ")) {
            let name = include.trim_matches(['<', '>', '"', ' ']);
            assert!(there.contains(name), "{file} includes {name}");
            includes += 1;
        }
    }
    assert!(includes > there.len(), "{includes} includes, {} headers", there.len());
}

/// hipRTC compiles for a GPU that is not there: the sources and their headers hold together without `hip/` on disk.
#[test]
fn hiprtc_compiles_the_sources() {
    let runtime = match hipverify_sys::amd() {
        Ok(runtime) => runtime,
        Err(error) => return println!("skipped: {error}"),
    };
    let rtc = match runtime.rtc() {
        Ok(rtc) => rtc,
        Err(error) => return println!("skipped: {error}"),
    };
    println!("{} {:?}", rtc.path().display(), rtc.version());
    let options = hipverify_sys::kernels::options("gfx90a");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let headers: Vec<(&str, &str)> = hipverify_sys::kernels::headers().collect();
    // Those that are compiled within seconds. hipcc compiles all, with the same options.
    let long = |name: &str| {
        ["fill.hip", "model_gemm.hip", "reference.hip"].contains(&name) || (name.starts_with("verify/") && name != "verify/pack.hip")
    };
    let short: Vec<_> = hipverify_sys::kernels::SOURCES.iter().filter(|s| !long(s.name)).collect();
    assert!(short.len() > 5, "{short:?}");
    for source in short {
        let image = rtc.compile(source.name, source.text, &headers, &options).unwrap_or_else(|e| panic!("{}: {e}", source.name));
        assert!(image.starts_with(b"\x7fELF") || image.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"), "{}", source.name);
    }
    let error = rtc.compile("wrong.hip", "this is no C++", &[], &["--offload-arch=gfx90a"]).unwrap_err().to_string();
    assert!(error.contains("wrong.hip") || error.contains("error"), "{error}");
}
