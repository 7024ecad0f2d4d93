//! Whatever runtimes this machine has, opening them tells a clear story and never panics.

use hipverify_sys::{LoadError, Platform};

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
    // Whether they compile is the question, not how fast they are: the optimiser takes most of the time.
    let options = hipverify_sys::kernels::options("gfx90a").into_iter().map(|o| if o == "-O2" { "-O1".to_owned() } else { o });
    let options: Vec<String> = options.collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let headers: Vec<(&str, &str)> = hipverify_sys::kernels::headers().collect();
    // Of the comparison's those that take least: together they include what the others do.
    let large = |name: &str| name.starts_with("verify/") && !["verify/f64.hip", "verify/f32_4.hip"].contains(&name);
    for source in hipverify_sys::kernels::SOURCES.iter().filter(|s| !large(s.name)) {
        let image = rtc.compile(source.name, source.text, &headers, &options).unwrap_or_else(|e| panic!("{}: {e}", source.name));
        assert!(image.starts_with(b"\x7fELF") || image.starts_with(b"__CLANG_OFFLOAD_BUNDLE__"), "{}", source.name);
    }
    let error = rtc.compile("wrong.hip", "this is no C++", &[], &["--offload-arch=gfx90a"]).unwrap_err().to_string();
    assert!(error.contains("wrong.hip") || error.contains("error"), "{error}");
}
