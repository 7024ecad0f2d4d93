//! A program as a kernel under test: inputs and result are tensor files in a folder of its own.

use super::entry::ProgramEntry;
use super::kernel::{KernelError, Launch};
use super::problem::Problem;
use super::process;
use super::tail::Tail;
use super::tensor_files::{description, file_name, names_a_file_of_the_case, write_inputs};
use crate::files::{ReadOptions, TensorFile};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The most characters of what a program says that are repeated.
const WORDS: usize = 600;

/// Runs the program in a new folder with the inputs and `case.json`, and reads `result.npy` or `result.safetensors`.
pub(crate) fn run(entry: &ProgramEntry, launch: &mut Launch<'_>) -> Result<(), KernelError> {
    let folder = tempfile::Builder::new().prefix("hipverify-case-").tempdir()?;
    // The folder is another one in each run, and gone when somebody reads of it.
    run_in(folder.path(), entry, launch).map_err(|e| without_folder(&e.to_string(), folder.path()).into())
}

fn run_in(folder: &Path, entry: &ProgramEntry, launch: &mut Launch<'_>) -> Result<(), KernelError> {
    let files = write_inputs(folder, launch.inputs())?;
    let (result, _) = file_name("result", launch.output_dtype());
    let more = serde_json::json!({
        "inputs": files,
        "result": { "file": result, "dtype": launch.output_dtype().name(), "shape": launch.output_shape() },
    });
    let case = description(launch.case(), more);
    std::fs::write(folder.join("case.json"), serde_json::to_vec_pretty(&case)?)?;
    let names = launch.case().problem().map_or(Vec::new(), Problem::names_of_files);
    let ended = execute(entry, &names, folder)?;
    if !folder.join(&result).is_file() {
        return Err(format!("the program wrote no {result}{}", ended.last_words()).into());
    }
    read(&folder.join(&result), launch)
}

/// A text in which files of the folder have their names alone.
fn without_folder(text: &str, folder: &Path) -> String {
    let folder = folder.display().to_string();
    text.replace(&format!("{folder}/"), "").replace(&folder, ".")
}

/// What a program said that has ended well.
struct Ended {
    errors: Tail,
    output: Tail,
}

impl Ended {
    /// The end of what it wrote to standard error, or else to standard output.
    fn last_words(&self) -> String {
        let said = [&self.errors, &self.output].map(Tail::text);
        let Some(said) = said.iter().map(|text| text.trim()).find(|text| !text.is_empty()) else { return String::new() };
        let start = said.char_indices().rev().take(WORDS).last().map_or(0, |(at, _)| at);
        format!(": {}", said[start..].trim_start())
    }
}

/// Runs the program in the folder of a case that has tensors of these names.
fn execute(entry: &ProgramEntry, tensors: &[&str], folder: &Path) -> Result<Ended, KernelError> {
    // What is there relative to the suite is meant so: the program itself, and arguments that are files. Links stay as they are: the Python of a virtual environment is one.
    let local = |word: &String| match std::path::absolute(entry.folder.join(word)) {
        Ok(path) if path.is_file() && !names_a_file_of_the_case(word, tensors) => path.into_os_string(),
        _ => word.into(),
    };
    let words: Vec<_> = entry.command.iter().map(local).collect();
    let shown = entry.command.join(" ");
    let mut command = Command::new(&words[0]);
    process::follow(&mut command);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("`{shown}` did not start: {e}"))?;
    let ended = heard(&mut child)?;
    // The program, and not its pipes: a child of it that goes on may hold them open.
    let status = child.wait()?;
    if status.success() {
        return Ok(ended);
    }
    Err(format!("`{shown}` ended with {status}{}", ended.last_words()).into())
}

/// Begins to read what a program says, so that it never waits for a reader.
fn heard(child: &mut Child) -> Result<Ended, KernelError> {
    let errors = child.stderr.take().map(Tail::follow).transpose()?;
    let output = child.stdout.take().map(Tail::follow).transpose()?;
    let (Some(errors), Some(output)) = (errors, output) else { return Err("the program has no pipes".into()) };
    Ok(Ended { errors, output })
}

fn read(path: &Path, launch: &mut Launch<'_>) -> Result<(), KernelError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = TensorFile::open(path, &ReadOptions::default())?;
    let [tensor] = file.tensors() else { return Err(format!("{name} has {} tensors, not one", file.tensors().len()).into()) };
    let loaded = tensor.load()?;
    if loaded.dtype() != launch.output_dtype() || loaded.layout().shape() != launch.output_shape() {
        let (found, wanted) = (loaded.dtype(), launch.output_dtype());
        let (shape, expected) = (loaded.layout().shape(), launch.output_shape());
        return Err(format!("{name} is {found}{shape:?} where {wanted}{expected:?} is wanted").into());
    }
    // In row-major order, as NumPy's transposed arrays are not.
    Ok(launch.write_bytes(&loaded.dense(0..loaded.layout().elements()))?)
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::CaseResult;
    use super::super::{Kernels, Suite, SuiteFile};
    use crate::device::Device;
    use std::path::Path;
    use std::time::Instant;

    /// A product of two numbers, 1 and 1, by a program.
    fn run(folder: &Path, command: &str) -> CaseResult {
        let text = format!("[kernels.k]\ncommand = {command}\n[[gemm]]\nsize = '1x1x1'\ntype = 'f32'\ndata = 'constant:1'\nkernel = 'k'\n");
        std::fs::write(folder.join("s.toml"), text).unwrap();
        let suite = Suite::new(&SuiteFile::open(&folder.join("s.toml")).unwrap(), "s.toml", Kernels::default()).unwrap();
        suite.execute(&suite.cases[0], &Device::host())
    }

    #[test]
    fn files_of_the_case_are_not_those_beside_the_suite() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a.npy", "b.npy", "result.npy", "case.json"];
        names.iter().for_each(|name| std::fs::write(folder.path().join(name), "beside the suite").unwrap());
        let result = run(folder.path(), r#"["sh", "-c", "cp $1 $2 && grep -q problem $3", "sh", "a.npy", "./result.npy", "case.json"]"#);
        assert!(result.ok, "{result:?}");
        for name in names {
            assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), "beside the suite", "{name}");
        }
    }

    #[test]
    fn what_a_program_said_is_part_of_its_failure() {
        let folder = tempfile::tempdir().unwrap();
        for (script, reason) in [
            ("echo tile 5; exit 1", "` ended with exit status: 1: tile 5"),
            ("echo tile 5; echo no memory >&2; exit 1", "` ended with exit status: 1: no memory"),
            ("echo nothing done >&2", "the program wrote no result.npy: nothing done"),
            ("echo nothing done", "the program wrote no result.npy: nothing done"),
            ("true", "the program wrote no result.npy"),
            ("echo $PWD/a.npy in $PWD >&2; exit 2", "` ended with exit status: 2: a.npy in ."),
            ("yes | head -c 9000000; exit 1", "y\ny\ny"),
            ("echo hello > result.npy", "result.npy: "),
        ] {
            let result = run(folder.path(), &format!(r#"["sh", "-c", "{script}"]"#));
            let said = result.reasons.concat();
            assert!(said.contains(reason) && !said.contains("hipverify-case"), "{script}: {said}");
            assert!(said.len() < 1000, "{script}: {} bytes", said.len());
        }
    }

    #[test]
    fn a_program_has_ended_when_a_child_of_it_has_not() {
        let folder = tempfile::tempdir().unwrap();
        for (script, ok) in [("cp a.npy result.npy; sleep 30 &", true), ("sleep 30 & exit 1", false)] {
            let started = Instant::now();
            let result = run(folder.path(), &format!(r#"["sh", "-c", "{script}"]"#));
            assert!(result.ok == ok && started.elapsed().as_secs() < 20, "{script}: {result:?}");
        }
    }
}
