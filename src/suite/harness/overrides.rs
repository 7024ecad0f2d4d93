//! Keys of a suite file that a command line gives other values: `size=3x1x5`, `gemm.size=3x1x5`.

use super::file::{KeyValue, Setting, SuiteFile, Table};
use super::keys::{Takes, suggestion};
use crate::error::{Error, Result};
use std::collections::BTreeSet;

impl SuiteFile {
    /// Gives a key another value, in one table (`TABLE.KEY=VALUE`) or in every table that knows it (`KEY=VALUE`). A list becomes a list of that value, so that names
    /// of cases keep their parts. [`Suite::command`](super::Suite::command) repeats it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is no such table or key, or the key takes no single value. Whether the value is one of the key's is found when cases are
    /// made of the file.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let wrong = |limit: String| Error::InvalidArgument { what: "set", value: assignment.to_owned(), limit };
        // The name of a table may hold any of `.` and `=`.
        let in_table = |t: &Table| Some((t.name.clone(), assignment.strip_prefix(&t.name)?.strip_prefix('.')?));
        let named = self.tables.iter().filter_map(in_table).max_by_key(|(name, _)| name.len());
        let (table, assigned) = named.map_or((None, assignment), |(name, rest)| (Some(name), rest));
        let (place, value) = assigned.split_once('=').ok_or_else(|| wrong("it must be KEY=VALUE or TABLE.KEY=VALUE".to_owned()))?;
        let (table, name) = match (&table, place.rsplit_once('.')) {
            (Some(table), _) => (Some(table.as_str()), place),
            (None, Some((table, key))) => (Some(table), key),
            (None, None) => (None, place),
        };
        if table.is_some_and(|wanted| self.tables.iter().all(|t| t.name != wanted)) {
            let near = suggestion(table.unwrap_or_default(), self.tables.iter().map(|t| t.name.as_str()));
            return Err(wrong(format!("the suite has no such table; {near}")));
        }
        let mut found = false;
        for t in self.tables.iter_mut().filter(|t| table.is_none_or(|wanted| t.name == wanted)) {
            let Some(key) = t.kind.key(name) else { continue };
            if !matches!(key.takes, Takes::Axis | Takes::Rule | Takes::One) || name == "name" {
                return Err(wrong(format!("`{name}` takes no single value here")));
            }
            found = true;
            match t.settings.iter_mut().find(|s| s.key.name == name) {
                Some(Setting { value: list @ KeyValue::List(_), .. }) => *list = KeyValue::List(vec![value.to_owned()]),
                Some(setting) => setting.value = KeyValue::One(value.to_owned()),
                None => t.settings.push(Setting { key, value: KeyValue::One(value.to_owned()), line: t.line.clone() }),
            }
        }
        if !found {
            let known: BTreeSet<&str> = self.tables.iter().flat_map(|t| t.kind.keys()).map(|key| key.name).collect();
            return Err(wrong(format!("no table of the suite has that key; {}", suggestion(name, known.into_iter()))));
        }
        self.sets.push(assignment.to_owned());
        Ok(())
    }
}
