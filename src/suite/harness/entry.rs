//! The kernels that a suite file describes: a table `[kernels.NAME]`, checked as far as it can be without a problem.

use super::file::{KeyValue, Line, Setting};
use super::keys::{KERNEL, LAUNCH};
use super::module::{Expression, Initial, LaunchLine, LaunchPlan};
use crate::error::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A kernel under test that a file describes.
#[derive(Debug, Clone, PartialEq)]
pub enum KernelEntry {
    /// A program.
    Program(ProgramEntry),
    /// A kernel of GPU code.
    Module(Box<ModuleEntry>),
}

/// A program that reads tensor files and writes one.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramEntry {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The folder of the file, in which a program's relative path is looked for.
    pub folder: PathBuf,
}

/// A kernel of a code object or of HIP source.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleEntry {
    /// Where the code is.
    pub code: Code,
    /// Options of the compiler.
    pub options: Vec<String>,
    /// The folder of the file, which relative paths count from.
    pub folder: PathBuf,
    pub(crate) plan: LaunchPlan,
}

/// Where GPU code is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// A file of HIP source, compiled for the device by hipRTC.
    Source(String),
    /// A code object, or a bundle of some.
    Object(String),
    /// Code objects by architecture.
    Objects(Vec<(String, String)>),
}

impl Code {
    /// Its files.
    pub(crate) fn paths(&self) -> Vec<&str> {
        match self {
            Code::Source(path) | Code::Object(path) => vec![path],
            Code::Objects(objects) => objects.iter().map(|(_, path)| path.as_str()).collect(),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths().join(" "))
    }
}

/// The keys that say where a kernel is: one of them makes an entry.
const CODE: [&str; 3] = ["command", "source", "code_object"];

impl KernelEntry {
    /// Paths by which it may name files: every word of a command may be one.
    #[cfg(feature = "cli")]
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            KernelEntry::Program(program) => program.command.iter().map(|word| program.folder.join(word)).collect(),
            KernelEntry::Module(module) => module.code.paths().iter().map(|path| module.folder.join(path)).collect(),
        }
    }

    /// Makes an entry of a table's keys; `line` is the table's own.
    pub(crate) fn new(name: &str, settings: &[Setting], folder: &Path, line: &Line) -> Result<KernelEntry> {
        let table = Entry { title: format!("[kernels.{name}]"), settings, line };
        let given: Vec<&Setting> = settings.iter().filter(|s| CODE.contains(&s.key.name)).collect();
        let first = match *given.as_slice() {
            [one] => one,
            [] => return Err(line.error(format!("[kernels.{name}] has no `command`, `source` or `code_object`"))),
            [one, other, ..] => {
                let (one, other_key) = (one.key.name, other.key.name);
                return Err(other.line.error(format!("[kernels.{name}] has `{one}` and `{other_key}`; it takes one of them")));
            }
        };
        if first.key.name == "command" {
            table.only(&["command"], "a program")?;
            return Ok(KernelEntry::Program(ProgramEntry { command: table.list("command"), folder: folder.to_owned() }));
        }
        let code = match (&first.value, first.key.name) {
            (KeyValue::One(path), "source") => Code::Source(path.clone()),
            (KeyValue::Texts(objects), _) => Code::Objects(objects.clone()),
            (KeyValue::One(path), _) => Code::Object(path.clone()),
            (KeyValue::List(_) | KeyValue::Numbers(_) | KeyValue::Tables(_), key) => {
                return Err(first.line.error(format!("`{key}` takes a path")));
            }
        };
        let source = matches!(code, Code::Source(_));
        if !source {
            let keys: Vec<&str> = KERNEL.iter().map(|key| key.name).filter(|&key| key != "options").collect();
            table.only(&keys, "a code object")?;
        }
        let entry = ModuleEntry { code, options: table.list("options"), folder: folder.to_owned(), plan: table.plan()? };
        Ok(KernelEntry::Module(Box::new(entry)))
    }
}

impl ModuleEntry {
    /// Everything that the entry says, for fingerprints of suites.
    pub(crate) fn words(&self) -> Vec<String> {
        vec![format!("{:?}", self.code), self.options.join(" "), format!("{:?}", self.plan)]
    }

    /// The kernels' names in the code, in the order of their launches.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.plan.launches.iter().map(|launch| launch.function.as_str())
    }
}

/// A table that is being read: that of a kernel, or of one of its launches.
struct Entry<'a> {
    /// How messages name it.
    title: String,
    settings: &'a [Setting],
    line: &'a Line,
}

impl Entry<'_> {
    fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.key.name == key)
    }

    /// The value of a key as a list; empty without it.
    fn list(&self, key: &str) -> Vec<String> {
        match self.setting(key).map(|s| &s.value) {
            Some(KeyValue::List(list)) => list.clone(),
            Some(KeyValue::One(one)) => vec![one.clone()],
            Some(KeyValue::Numbers(_) | KeyValue::Texts(_) | KeyValue::Tables(_)) | None => Vec::new(),
        }
    }

    /// The launches, their workspace, and what the result holds before.
    fn plan(&self) -> Result<LaunchPlan> {
        let launches = self.launches()?;
        let initial = match self.list("initial").pop().as_deref() {
            None | Some("poison") => Initial::Poison,
            Some("zero") => Initial::Zero,
            Some(other) => return Err(self.wrong("initial", &format!("`{other}` is neither poison nor zero"))),
        };
        let bytes = self.list("workspace_bytes").pop().map(|text| Expression::parse(&text)).transpose();
        let workspace_bytes = bytes.map_err(|e| self.wrong("workspace_bytes", &e))?;
        match (&workspace_bytes, launches.iter().any(LaunchLine::takes_workspace)) {
            (None, true) => Err(self.wrong("arguments", "`workspace` needs the key `workspace_bytes`")),
            (Some(_), false) => Err(self.wrong("workspace_bytes", "no argument is `workspace`")),
            _ => Ok(LaunchPlan { launches, workspace_bytes, initial }),
        }
    }

    fn launches(&self) -> Result<Vec<LaunchLine>> {
        let Some(Setting { value: KeyValue::Tables(tables), line, .. }) = self.setting("launches") else { return Ok(vec![self.launch()?]) };
        if let Some(other) = self.settings.iter().find(|s| LAUNCH.iter().any(|key| key.name == s.key.name)) {
            return Err(other.line.error(format!("{} has `launches`, so `{}` belongs into their tables", self.title, other.key.name)));
        }
        let launch =
            |(i, settings): (usize, &Vec<Setting>)| Entry { title: format!("{} launch {}", self.title, i + 1), settings, line }.launch();
        tables.iter().enumerate().map(launch).collect()
    }

    fn launch(&self) -> Result<LaunchLine> {
        let function = self.list("function").pop().ok_or_else(|| self.missing("function", "the kernel's name"))?;
        let [grid, block] = ["grid", "block"].map(|key| self.list(key));
        for (key, list, about) in [("grid", &grid, "its blocks"), ("block", &block, "threads of a block")] {
            if list.is_empty() {
                return Err(self.missing(key, about));
            }
        }
        let shared = self.list("shared_bytes").pop().unwrap_or("0".to_owned());
        LaunchLine::parse(&function, &grid, &block, &shared, &self.list("arguments")).map_err(|(key, reason)| self.wrong(key, &reason))
    }

    /// An error where there is another key than these.
    fn only(&self, keys: &[&str], what: &str) -> Result<()> {
        match self.settings.iter().find(|s| !keys.contains(&s.key.name)) {
            Some(other) => Err(other.line.error(format!("{} is {what}, which takes no `{}`", self.title, other.key.name))),
            None => Ok(()),
        }
    }

    fn missing(&self, key: &str, about: &str) -> Error {
        self.line.error(format!("{} has no `{key}`: {about}", self.title))
    }

    fn wrong(&self, key: &str, reason: &str) -> Error {
        self.setting(key).map_or(self.line, |s| &s.line).error(format!("{}: `{key}`: {reason}", self.title))
    }
}
