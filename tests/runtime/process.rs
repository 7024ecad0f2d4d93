//! The process of a scenario: which libraries it finds, and which variables are set.

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Completion;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a scenario's process is set up.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) env: &'static [(&'static str, &'static str)],
    /// Functions that the runtime does not have.
    pub(super) without: &'static [&'static str],
    /// The version of AMD's runtime that it is like, 6 by default.
    pub(super) version: Option<&'static Version>,
    /// The files of a folder that is searched first, in place of one library that is named.
    pub(super) folder: &'static [(&'static str, File)],
}

/// What lies in a folder that is searched.
pub(super) enum File {
    /// A runtime with so many devices.
    Devices(&'static str),
    /// What is no library.
    Text,
    /// Another name of a file.
    LinkTo(&'static str),
}

/// A version of AMD's runtime; how it behaves is in tests/standin/src/version.rs.
pub(super) struct Version {
    number: &'static str,
    library: &'static str,
    without: &'static [&'static str],
    /// hipRTC's own library, where the runtime has none of its functions.
    compiler: Option<&'static str>,
}

pub(super) const ROCM_5: Version =
    Version { number: "5.2.3", library: "libamdhip64.so.5", without: &["hipGetDevicePropertiesR0600"], compiler: None };
pub(super) const ROCM_6: Version = Version { number: "6", library: "libamdhip64.so.6", without: &[], compiler: None };
pub(super) const ROCM_7: Version = Version {
    number: "7",
    library: "libamdhip64.so.7",
    without: &[
        "hiprtcVersion",
        "hiprtcGetErrorString",
        "hiprtcCreateProgram",
        "hiprtcDestroyProgram",
        "hiprtcCompileProgram",
        "hiprtcGetProgramLogSize",
        "hiprtcGetProgramLog",
        "hiprtcGetCodeSize",
        "hiprtcGetCode",
    ],
    compiler: Some("libhiprtc.so.7"),
};

impl Version {
    pub(super) fn setup(&'static self) -> Setup {
        Setup { version: Some(self), ..Setup::default() }
    }
}

impl Setup {
    pub(super) fn search(folder: &'static [(&'static str, File)]) -> Setup {
        Setup { folder, ..Setup::default() }
    }

    /// Writes the libraries into an empty folder. Gives the variables by which they are found.
    fn libraries(&self, folder: &Path) -> Result<Vec<(String, OsString)>> {
        if !self.folder.is_empty() {
            return self.searched_libraries(folder);
        }
        let mut path = library()?;
        if let Some(version) = self.version {
            path = folder.join(version.library);
            copy_without(version.without, &path)?;
            if let Some(compiler) = version.compiler {
                std::fs::copy(library()?, folder.join(compiler))?;
            }
        } else if !self.without.is_empty() {
            path = folder.join("libamdhip64.so.7");
            copy_without(self.without, &path)?;
        }
        Ok(vec![("HIPVERIFY_HIP_LIBRARY".to_owned(), path.into())])
    }

    fn searched_libraries(&self, root: &Path) -> Result<Vec<(String, OsString)>> {
        let folder = root.join("lib");
        std::fs::create_dir(&folder)?;
        let mut env = vec![("ROCM_PATH".to_owned(), root.into())];
        for (i, (name, file)) in self.folder.iter().enumerate() {
            let path = folder.join(name);
            match file {
                File::Devices(count) => {
                    // Each copy has a variable of its own.
                    let variable = format!("HIPVERIFY_STANDIN_DEVICE{i}");
                    let image = replaced(std::fs::read(library()?)?, b"HIPVERIFY_STANDIN_DEVICES", variable.as_bytes())?;
                    std::fs::write(&path, image)?;
                    env.push((variable, count.into()));
                }
                File::Text => std::fs::write(&path, "no library")?,
                File::LinkTo(other) => std::os::unix::fs::symlink(other, &path)?,
            }
        }
        Ok(env)
    }
}

/// The library that cargo built beside this test.
fn library() -> Result<PathBuf> {
    let folder = std::env::current_exe()?.parent().context("no folder")?.to_owned();
    let path = folder.join("libhipverify_standin.so");
    ensure!(path.exists(), "{} is missing", path.display());
    Ok(path)
}

/// Writes a copy of the stand-in in which some functions are absent: their names are spelled differently.
fn copy_without(functions: &[&str], to: &Path) -> Result<()> {
    let mut image = std::fs::read(library()?)?;
    for function in functions {
        image = replaced(image, format!("{function}\0").as_bytes(), format!("x{}\0", &function[1..]).as_bytes())?;
    }
    Ok(std::fs::write(to, image)?)
}

/// Replaces some bytes wherever they are by as many others.
fn replaced(mut image: Vec<u8>, from: &[u8], to: &[u8]) -> Result<Vec<u8>> {
    let (mut at, mut found) = (0, false);
    while let Some(i) = image[at..].windows(from.len()).position(|window| window == from) {
        image[at + i..][..to.len()].copy_from_slice(to);
        (at, found) = (at + i + to.len(), true);
    }
    ensure!(found && from.len() == to.len(), "{} is not in the stand-in", String::from_utf8_lossy(from));
    Ok(image)
}

/// Runs the scenario of that name in a process of its own. One that executes kernels is ignored where nothing compiles them.
pub(super) fn run(name: &str, setup: &Setup) -> Result<Completion> {
    let temp = tempfile::tempdir()?;
    let output = Command::new(std::env::current_exe()?)
        .env("HIPVERIFY_SCENARIO", name)
        .env_remove("HIPVERIFY_HIP_LIBRARY")
        .envs(setup.libraries(temp.path())?)
        // In a build for NVIDIA as well: the stand-in has the only GPUs.
        .env("CUDA_VISIBLE_DEVICES", "-1")
        // Nothing of another run, and nothing for the next.
        .env("HIPVERIFY_CACHE_DIR", temp.path().join("cache"))
        .envs(setup.version.map(|version| ("HIPVERIFY_STANDIN_VERSION", version.number)))
        .envs(setup.env.iter().copied())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() && text.contains(&format!("scenario {name} done")) {
        return Ok(Completion::Completed);
    }
    let required = std::env::var("HIPVERIFY_REQUIRE").is_ok_and(|names| names.contains("standin"));
    let reason = text.lines().find_map(|line| line.find("no C++ compiler").map(|at| &line[at..]));
    match reason.filter(|_| !required) {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => bail!("{name}:\n{text}"),
    }
}
