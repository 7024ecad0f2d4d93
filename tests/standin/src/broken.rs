//! Device code broken on purpose, to see whether tests notice: in the file `HIPVERIFY_STANDIN_BREAK` the text `HIPVERIFY_STANDIN_BREAK_FROM` is
//! replaced by `HIPVERIFY_STANDIN_BREAK_TO` before hipRTC compiles it.

use std::borrow::Cow;
use std::env::var;

/// The text of a file as it is to be compiled. An error when what is to be replaced is not there exactly once.
pub(crate) fn text<'a>(file: &str, text: &'a str) -> Result<Cow<'a, str>, String> {
    if var("HIPVERIFY_STANDIN_BREAK").ok().as_deref() != Some(file) {
        return Ok(Cow::Borrowed(text));
    }
    let [from, to] = ["HIPVERIFY_STANDIN_BREAK_FROM", "HIPVERIFY_STANDIN_BREAK_TO"].map(|name| var(name).unwrap_or_default());
    match text.matches(&from).count() {
        1 => Ok(Cow::Owned(text.replace(&from, &to))),
        count => Err(format!("{file} cannot be broken: `{from}` is in it {count} times")),
    }
}
