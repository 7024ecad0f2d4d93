//! Builds the CUDA shim and links CUDA's static runtime.

#[cfg(feature = "nvidia")]
pub(crate) fn build(nvcc: &std::path::Path, manifest: &std::path::Path) -> Result<(), String> {
    let source = manifest.join("shim/hip_nv.c");
    println!("cargo::rerun-if-changed={}", source.display());
    let real = std::fs::canonicalize(nvcc).map_err(|e| format!("{}: {e}", nvcc.display()))?;
    let root = real.parent().and_then(|bin| bin.parent()).ok_or_else(|| format!("{}: not in a CUDA toolkit", real.display()))?;
    let targets = root.join("targets/x86_64-linux");
    let first = |names: &[std::path::PathBuf], file: &str| names.iter().find(|p| p.join(file).is_file()).cloned();
    let include = first(&[root.join("include"), targets.join("include")], "cuda_runtime_api.h");
    let include = include.ok_or_else(|| format!("no cuda_runtime_api.h in {}/include", root.display()))?;
    // The PyPI wheels have lib, the toolkit has lib64.
    let lib = first(&[root.join("lib64"), root.join("lib"), targets.join("lib")], "libcudart_static.a");
    let lib = lib.ok_or_else(|| format!("no libcudart_static.a in {}/lib64 or lib", root.display()))?;
    cc::Build::new()
        .file(&source)
        .include(include)
        .std("c11")
        .warnings_into_errors(false)
        .cargo_warnings(true)
        .try_compile("hipverify_nv")
        .map_err(|e| format!("{}: {e}", source.display()))?;
    println!("cargo::rustc-link-search=native={}", lib.display());
    for library in ["static=cudart_static", "dylib=dl", "dylib=rt", "dylib=pthread"] {
        println!("cargo::rustc-link-lib={library}");
    }
    println!("cargo::rustc-cfg=hipverify_shim");
    Ok(())
}

#[cfg(not(feature = "nvidia"))]
pub(crate) fn build(_: &std::path::Path, _: &std::path::Path) -> Result<(), String> {
    Err("the feature is off".to_owned())
}
