//! What the build script decides before it compiles, on a compiler that is a script.
#![cfg(unix)]

#[allow(dead_code, reason = "the build script uses the rest")]
#[path = "../build/compile.rs"]
mod compile;
#[path = "../build/targets.rs"]
mod targets;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn targets_are_names_of_gpus() {
    for (target, expected, reason) in [
        ("gfx90a", true, "a name"),
        ("gfx1201", true, "four digits"),
        ("gfx90a:xnack-", true, "a feature"),
        ("gfx90a:sramecc+:xnack-", true, "two"),
        ("gfx9-generic", false, "a family, which no device is called"),
        ("gfx11-generic:xnack-", false, "with a feature"),
        ("gfx90a:wave64", false, "no feature of names"),
        ("gfx90a:", false, "an empty one"),
        ("gfx9", false, "too short"),
        ("sm_90", false, "of NVIDIA's"),
        ("GFX90A", false, "compilers want small letters"),
    ] {
        let (gpus, others) = targets::split(vec![target.to_owned()]);
        assert_eq!((gpus.len(), others.len()), if expected { (1, 0) } else { (0, 1) }, "{target}: {reason}");
    }
}

#[test]
fn cuda_targets_begin_at_80() {
    for (target, before) in
        [("75", true), ("sm_70", true), ("compute_75", true), ("80", false), ("sm_90a", false), ("120", false), ("native", false)]
    {
        assert_eq!(compile::is_before_cuda_80(target), before, "{target}");
    }
}

/// A target that the compiler refuses once is tried again, one that it takes is not.
#[test]
fn failed_probes_are_not_remembered() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("probes");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let [program, broken, runs] = ["hipcc", "hipcc.broken", "hipcc.runs"].map(|name| folder.join(name));
    let script = "#!/bin/sh\n\
        if [ \"$1\" = --version ]; then echo 'HIP version: 5.2.0'; exit; fi\n\
        echo >> \"$0.runs\"\n\
        if [ -e \"$0.broken\" ]; then exit 1; fi\n\
        while [ \"$1\" != -o ]; do shift; done\n\
        : > \"$2\"\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let compiler = compile::Compiler::hipcc(&program, &folder.join("out")).unwrap();
    let known = || compiler.known(vec!["gfx942".to_owned()]).len();

    fs::write(&broken, "").unwrap();
    assert_eq!((known(), known()), (0, 0));
    fs::remove_file(&broken).unwrap();
    assert_eq!((known(), known()), (1, 1));
    assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 3, "two failures and a success");
}
