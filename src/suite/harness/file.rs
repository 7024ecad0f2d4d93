//! A suite as it stands in a file: tables of keys and values, each with its line. [`cases`](super::cases) says what values mean.
//!
//! Invariants: keys are known ones and take what the table of [`keys`](super::keys) says; tables have distinct names, and so have different kernels; what an included file
//! defines comes first; name and description are those of the outermost file;
//! keys keep the order of the file, those of `[defaults]` after a table's own.

use super::entry::KernelEntry;
use super::kernel::comes_with_hipverify;
use super::keys::{self, KERNEL, Key, TOP, TableKind, Takes, suggestion};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A suite file, read, with what it includes.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteFile {
    /// The suite's name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its tables, in order.
    pub tables: Vec<Table>,
    /// Its kernels, by name.
    pub kernels: BTreeMap<String, KernelEntry>,
    /// Keys that were given other values, as [`set`](SuiteFile::set) takes them.
    pub sets: Vec<String>,
    /// The files that it was read from.
    files: Vec<PathBuf>,
}

/// A table of cases.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What its cases compute.
    pub kind: TableKind,
    /// The first part of their names.
    pub name: String,
    /// Its keys, with those of `[defaults]`.
    pub settings: Vec<Setting>,
    /// Where it begins.
    pub line: Line,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The key.
    pub key: &'static Key,
    /// The value.
    pub value: KeyValue,
    /// Where it stands.
    pub line: Line,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValue {
    /// One value, as text.
    One(String),
    /// A list of values, as text.
    List(Vec<String>),
    /// Numbers by name.
    Numbers(Vec<(String, f64)>),
    /// Texts by name.
    Texts(Vec<(String, String)>),
    /// The keys of several tables.
    Tables(Vec<Vec<Setting>>),
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    file: String,
    line: usize,
}

impl Line {
    /// An error at this line.
    pub(crate) fn error(&self, reason: impl std::fmt::Display) -> Error {
        Error::File { path: format!("{}:{}", self.file, self.line), reason: reason.to_string() }
    }

    /// Whether it is the same line of the same file, by whatever path each was reached.
    fn same(&self, other: &Line) -> bool {
        let [one, two] = [self, other].map(|line| Path::new(&line.file).canonicalize().ok());
        self.line == other.line && one.is_some() && one == two
    }
}

impl SuiteFile {
    /// Reads a file and what it includes.
    ///
    /// # Errors
    /// [`Error::File`] when a file cannot be read or has something that no suite has, with its line.
    pub fn open(path: &Path) -> Result<SuiteFile> {
        let mut suite = SuiteFile::empty(path);
        Reader::new(&mut suite).include(path)?;
        suite.checked(path)
    }

    /// Reads the text of a suite that includes no other; `name` stands for the file in messages.
    ///
    /// # Errors
    /// As [`open`](SuiteFile::open).
    pub fn parse(name: &str, text: &str) -> Result<SuiteFile> {
        let path = Path::new(name);
        let mut suite = SuiteFile::empty(path);
        Reader::new(&mut suite).read(path, text)?;
        suite.checked(path)
    }

    /// The files that runs of it read, as far as it names them: its own, those that it includes, and those of its kernels.
    #[cfg(feature = "cli")]
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let kernels = self.kernels.values().flat_map(|entry| entry.files());
        self.files.iter().cloned().chain(kernels).filter(|path| path.is_file()).collect()
    }

    /// Whether it was read from no file.
    #[cfg(feature = "cli")]
    pub(crate) fn is_of_no_file(&self) -> bool {
        self.files.is_empty()
    }

    fn empty(path: &Path) -> SuiteFile {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        SuiteFile { name, description: String::new(), tables: Vec::new(), kernels: BTreeMap::new(), sets: Vec::new(), files: Vec::new() }
    }

    fn checked(self, path: &Path) -> Result<SuiteFile> {
        if self.tables.is_empty() {
            let kinds = TableKind::ALL.map(|kind| format!("[[{}]]", kind.name())).join(" ");
            return Err(Error::File { path: path.display().to_string(), reason: format!("has no table of cases; known: {kinds}") });
        }
        let mut names = BTreeMap::new();
        for table in &self.tables {
            if let Some(first) = names.insert(&table.name, &table.line) {
                let reason =
                    format!("a table named `{}` is there already, at line {} of {}; give it a `name`", table.name, first.line, first.file);
                return Err(table.line.error(reason));
            }
        }
        Ok(self)
    }
}

/// Reads a file into a suite.
struct Reader<'a> {
    suite: &'a mut SuiteFile,
    /// The files that are being read, the outermost first.
    chain: Vec<PathBuf>,
    /// Where each kernel was described.
    kernels: BTreeMap<String, Line>,
}

/// The text of a file, for lines.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn line<T>(&self, item: &Spanned<T>) -> Line {
        self.at(item.span().start)
    }

    fn at(&self, offset: usize) -> Line {
        let line = self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|&&b| b == b'\n').count() + 1;
        Line { file: self.path.display().to_string(), line }
    }
}

impl<'a> Reader<'a> {
    fn new(suite: &'a mut SuiteFile) -> Reader<'a> {
        Reader { suite, chain: Vec::new(), kernels: BTreeMap::new() }
    }

    fn include(&mut self, path: &Path) -> Result<()> {
        let fail = |e: std::io::Error| Error::File { path: path.display().to_string(), reason: e.to_string() };
        let bytes = std::fs::read(path).map_err(fail)?;
        let text = String::from_utf8(bytes).map_err(|e| not_utf8(path, &e))?;
        let whole = path.canonicalize().map_err(fail)?;
        if self.chain.contains(&whole) {
            return Err(Error::File { path: path.display().to_string(), reason: "includes itself".to_owned() });
        }
        self.suite.files.push(path.to_owned());
        self.chain.push(whole);
        self.read(path, &text)?;
        self.chain.pop();
        Ok(())
    }

    fn read(&mut self, path: &Path, text: &str) -> Result<()> {
        let source = Source { path, text };
        let document = DeTable::parse(text).map_err(|e| source.at(e.span().map_or(0, |span| span.start)).error(e.message()))?;
        let document = in_order(document.get_ref());
        let mut top = Vec::new();
        for (key, value) in &document {
            if matches!(&**key.get_ref(), "defaults" | "kernels") || TableKind::ALL.iter().any(|kind| kind.name() == &**key.get_ref()) {
                continue;
            }
            let others = TableKind::ALL.iter().map(|kind| kind.name()).chain(["defaults", "kernels"]);
            top.push(setting(&source, key, value, |name| TOP.iter().find(|k| k.name == name), TOP.iter().map(|k| k.name).chain(others))?);
        }
        for Setting { value, line, .. } in top.iter().filter(|s| s.key.name == "include") {
            let KeyValue::List(files) = value else { continue };
            let folder = path.parent().unwrap_or(Path::new(""));
            for file in files.iter().map(|file| folder.join(file)) {
                if !file.is_file() {
                    return Err(line.error(format!("`include`: {} is no file", file.display())));
                }
                self.include(&file)?;
            }
        }
        // Name and description are those of the outermost file.
        let included = self.chain.len() > 1;
        for Setting { key, value, .. } in top {
            match (key.name, value) {
                ("name", KeyValue::One(name)) if !included => self.suite.name = name,
                ("description", KeyValue::One(text)) if !included => self.suite.description = text,
                _ => {}
            }
        }
        let defaults = match document.iter().find(|(key, _)| &**key.get_ref() == "defaults") {
            Some((_, value)) => defaults(&source, value)?,
            None => Vec::new(),
        };
        for (key, value) in &document {
            if let Some(kind) = TableKind::ALL.into_iter().find(|kind| kind.name() == &**key.get_ref()) {
                self.suite.tables.extend(tables(&source, kind, value, &defaults)?);
            } else if &**key.get_ref() == "kernels" {
                kernels(&source, value)?.into_iter().try_for_each(|(name, entry, line)| self.add_kernel(name, entry, line))?;
            }
        }
        Ok(())
    }

    /// Adds a kernel. Of two with one name one would run in the other's place, unless both say the same.
    fn add_kernel(&mut self, name: String, entry: KernelEntry, line: Line) -> Result<()> {
        if let (Some(first), Some(there)) = (self.kernels.get(&name), self.suite.kernels.get(&name)) {
            if *there != entry && !first.same(&line) {
                let (at, file) = (first.line, &first.file);
                return Err(
                    line.error(format!("[kernels.{name}] is another kernel than that of line {at} of {file}; give it another name"))
                );
            }
            return Ok(());
        }
        self.kernels.insert(name.clone(), line);
        self.suite.kernels.insert(name, entry);
        Ok(())
    }
}

/// What is wrong with a file that is no text.
fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Error {
    let (bytes, offset) = (error.as_bytes(), error.utf8_error().valid_up_to());
    let line = bytes[..offset].iter().filter(|&&b| b == b'\n').count() + 1;
    let line = Line { file: path.display().to_string(), line };
    line.error(format!("is not UTF-8: the byte 0x{:02x} at offset {offset} of the file begins no character", bytes[offset]))
}

type Entry<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

/// The entries of a table as they stand in the file.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Entry<'a, 'i>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn table_of<'a, 'i>(source: &Source<'_>, value: &'a Spanned<DeValue<'i>>, what: &str) -> Result<&'a DeTable<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => Err(source.line(value).error(format!("{what} is a table"))),
    }
}

/// `[defaults]`: keys of any kind of table.
fn defaults(source: &Source<'_>, value: &Spanned<DeValue<'_>>) -> Result<Vec<Setting>> {
    let known = || TableKind::ALL.iter().flat_map(|kind| kind.keys()).filter(|key| key.name != "name");
    let mut names: Vec<&str> = known().map(|key| key.name).collect();
    names.sort_unstable();
    names.dedup();
    let entries = in_order(table_of(source, value, "[defaults]")?);
    entries
        .into_iter()
        .map(|(key, value)| setting(source, key, value, |name| known().find(|k| k.name == name), names.iter().copied()))
        .collect()
}

/// `[[gemm]]` and its like.
fn tables(source: &Source<'_>, kind: TableKind, value: &Spanned<DeValue<'_>>, defaults: &[Setting]) -> Result<Vec<Table>> {
    let wrong = || source.line(value).error(format!("cases stand in tables of their own: [[{}]]", kind.name()));
    let DeValue::Array(array) = value.get_ref() else { return Err(wrong()) };
    let mut out = Vec::new();
    for value in array.iter() {
        let DeValue::Table(entries) = value.get_ref() else { return Err(wrong()) };
        let known = || kind.keys().map(|key| key.name);
        let mut settings = in_order(entries)
            .into_iter()
            .map(|(key, value)| setting(source, key, value, |name| kind.key(name), known()))
            .collect::<Result<Vec<Setting>>>()?;
        for default in defaults {
            // The same name may be another key in another kind of table.
            if let (Some(key), false) = (kind.key(default.key.name), settings.iter().any(|s| s.key.name == default.key.name)) {
                settings.push(Setting { key, ..default.clone() });
            }
        }
        let named = settings.iter().find_map(|s| match (&s.value, s.key.name) {
            (KeyValue::One(name), "name") => Some((name.clone(), &s.line)),
            _ => None,
        });
        if let Some((_, line)) = named.as_ref().filter(|(name, _)| name.trim().is_empty()) {
            return Err(line.error("`name` is empty: it is the first part of the names of cases"));
        }
        let name = named.map(|(name, _)| name);
        out.push(Table { kind, name: name.unwrap_or(kind.name().to_owned()), settings, line: source.line(value) });
    }
    Ok(out)
}

/// `[kernels.NAME]`, each with its line.
fn kernels(source: &Source<'_>, value: &Spanned<DeValue<'_>>) -> Result<Vec<(String, KernelEntry, Line)>> {
    let mut out = Vec::new();
    for (name, value) in in_order(table_of(source, value, "[kernels]")?) {
        let what = format!("[kernels.{}]", name.get_ref());
        let settings = settings(source, table_of(source, value, &what)?, &KERNEL)?;
        let folder = source.path.parent().unwrap_or(Path::new(""));
        let line = source.line(name);
        if comes_with_hipverify(name.get_ref()) {
            return Err(
                line.error(format!("{what}: `{}` is a kernel already, which comes with hipverify; give it another name", name.get_ref()))
            );
        }
        out.push((name.get_ref().to_string(), KernelEntry::new(name.get_ref(), &settings, folder, &line)?, line));
    }
    Ok(out)
}

/// The keys of a table, of these.
fn settings(source: &Source<'_>, table: &DeTable<'_>, keys: &'static [Key]) -> Result<Vec<Setting>> {
    let names = || keys.iter().map(|k| k.name);
    let read = |(key, value)| setting(source, key, value, |name| keys.iter().find(|k| k.name == name), names());
    in_order(table).into_iter().map(read).collect()
}

/// A list of tables with these keys; `None` for anything else.
fn tables_of(source: &Source<'_>, value: &DeValue<'_>, keys: &'static [Key]) -> Result<Option<KeyValue>> {
    let DeValue::Array(array) = value else { return Ok(None) };
    let mut tables = Vec::new();
    for value in array.iter() {
        let DeValue::Table(table) = value.get_ref() else { return Ok(None) };
        tables.push(settings(source, table, keys)?);
    }
    Ok(Some(KeyValue::Tables(tables)))
}

/// A key with its value, where the key is known and takes that value.
fn setting<'k>(
    source: &Source<'_>,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    find: impl Fn(&str) -> Option<&'static Key>,
    known: impl Iterator<Item = &'k str>,
) -> Result<Setting> {
    let name = key.get_ref();
    let line = source.line(key);
    let Some(known) = find(name) else {
        return Err(line.error(format!("unknown key `{name}`; {}", suggestion(name, known))));
    };
    let found = match (known.takes, value.get_ref()) {
        (Takes::Axis | Takes::List | Takes::Extents, DeValue::Array(list)) => {
            list.iter().map(|v| text(v.get_ref())).collect::<Option<Vec<_>>>().map(KeyValue::List)
        }
        (Takes::Rule, DeValue::Array(list)) => list.iter().map(|v| rule(v.get_ref())).collect::<Option<Vec<_>>>().map(KeyValue::List),
        (Takes::Rule, one) => rule(one).map(KeyValue::One),
        (Takes::Numbers, DeValue::Table(table)) => by_name(table, number).map(KeyValue::Numbers),
        (Takes::Paths, DeValue::Table(table)) => by_name(table, string).filter(|paths| !paths.is_empty()).map(KeyValue::Texts),
        (Takes::Paths, one) => string(one).map(KeyValue::One),
        (Takes::Axis | Takes::One | Takes::Extents, one) => text(one).map(KeyValue::One),
        (Takes::Tables(keys), value) => tables_of(source, value, keys)?,
        (Takes::List | Takes::Numbers, _) => None,
    };
    match found {
        Some(KeyValue::List(list)) if list.is_empty() => Err(line.error(format!("`{name}` is an empty list"))),
        Some(KeyValue::Tables(list)) if list.is_empty() => Err(line.error(format!("`{name}` is an empty list"))),
        Some(value) => Ok(Setting { key: known, value, line }),
        None => Err(line.error(format!("`{name}` takes {}: {}", takes(known.takes), known.about))),
    }
}

fn takes(takes: Takes) -> &'static str {
    match takes {
        Takes::Axis => "a text, a number, true or false, or a list of them",
        Takes::Rule => "a text, a table of keys with values, or a list of them",
        Takes::One => "a text, a number, true or false",
        Takes::List => "a list of texts",
        Takes::Numbers => "a table of numbers",
        Takes::Extents => "a text or a number, or a list of up to three",
        Takes::Paths => "a path, or a table of paths by architecture",
        Takes::Tables(_) => "a list of tables",
    }
}

/// A value as text; `None` for tables and lists.
fn text(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(s) => s.to_string(),
        DeValue::Integer(i) if i.radix() == 10 => i.as_str().replace('_', ""),
        DeValue::Float(f) => f.as_str().replace('_', ""),
        DeValue::Boolean(b) => b.to_string(),
        _ => return None,
    })
}

/// A rule as text; keys of a table with their values as a rule's text has them.
fn rule(value: &DeValue<'_>) -> Option<String> {
    let DeValue::Table(table) = value else { return text(value) };
    let plain = |value: &DeValue<'_>| match value {
        DeValue::Array(list) => Some(format!("[{}]", list.iter().map(|v| text(v.get_ref())).collect::<Option<Vec<_>>>()?.join(","))),
        one => text(one),
    };
    let pairs = in_order(table).into_iter().map(|(key, value)| Some(format!("{}={}", key.get_ref(), plain(value.get_ref())?)));
    pairs.collect::<Option<Vec<_>>>().filter(|pairs| !pairs.is_empty()).map(|pairs| pairs.join(","))
}

/// The entries of a table whose values are all of one kind.
fn by_name<T>(table: &DeTable<'_>, read: impl Fn(&DeValue<'_>) -> Option<T>) -> Option<Vec<(String, T)>> {
    in_order(table).into_iter().map(|(key, value)| Some((key.get_ref().to_string(), read(value.get_ref())?))).collect()
}

fn string(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(s) => Some(s.to_string()),
        _ => None,
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(_) | DeValue::Float(_) => text(value)?.parse().ok(),
        _ => None,
    }
}

/// The JSON schema of suite files, for editors.
#[must_use]
pub fn schema() -> serde_json::Value {
    use serde_json::{Map, Value as Json, json};
    fn property(key: &Key) -> (String, Json) {
        let one = json!({ "type": ["string", "number", "boolean"] });
        let mut value = match key.takes {
            Takes::One => one,
            Takes::Axis => json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] }),
            Takes::Rule => {
                let rule = json!({ "anyOf": [one, super::rule::schema()] });
                json!({ "anyOf": [rule, { "type": "array", "items": rule, "minItems": 1 }] })
            }
            Takes::List => json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 }),
            Takes::Numbers => json!({ "type": "object", "additionalProperties": { "type": "number" } }),
            Takes::Extents => json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "maxItems": 3 }] }),
            Takes::Paths => {
                let paths = json!({ "type": "object", "additionalProperties": { "type": "string" }, "minProperties": 1 });
                json!({ "anyOf": [{ "type": "string" }, paths] })
            }
            Takes::Tables(keys) => json!({ "type": "array", "items": table(&mut keys.iter()), "minItems": 1 }),
        };
        value["description"] = Json::from(key.about);
        (key.name.to_owned(), value)
    }
    fn table(keys: &mut dyn Iterator<Item = &'static Key>) -> Json {
        json!({ "type": "object", "additionalProperties": false, "properties": keys.map(property).collect::<Map<_, _>>() })
    }
    let mut properties: Map<String, Json> = TOP.iter().map(property).collect();
    for kind in TableKind::ALL {
        properties.insert(kind.name().to_owned(), json!({ "type": "array", "items": table(&mut kind.keys()) }));
    }
    let mut of_any = TableKind::ALL.into_iter().flat_map(TableKind::keys).filter(|key| key.name != "name");
    properties.insert("defaults".to_owned(), table(&mut of_any));
    properties.insert("kernels".to_owned(), json!({ "type": "object", "additionalProperties": table(&mut keys::KERNEL.iter()) }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A suite of hipverify",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}
