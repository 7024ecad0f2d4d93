//! How this crate's kernels are declared, read from their source text: what a kernel takes is checked, not promised.
//!
//! Every kernel is declared on one line, `extern "C" __global__ void ATTRIBUTES name(STRUCT p) {`, by a name without capitals. A macro that declares
//! several has `##` in the name: then what comes before is the beginning of all their names.

use hipverify_sys::kernels::{HEADERS, source};

/// A declaration of a kernel, or of those of a macro.
#[derive(Debug, PartialEq, Eq)]
struct Declaration<'t> {
    /// The name, or how it begins.
    name: &'t str,
    /// Whether it is a macro's.
    is_macro: bool,
    /// The struct that it takes.
    params: &'t str,
    /// The threads of a block; `None` if any number will do.
    block: Option<u32>,
}

impl<'t> Declaration<'t> {
    /// All of a text; `None` for one that has another form.
    fn all(text: &'t str) -> impl Iterator<Item = Option<Declaration<'t>>> {
        text.match_indices(GLOBAL).map(|(at, _)| Declaration::read(text, at))
    }

    /// The declaration around `__global__`.
    fn read(text: &'t str, at: usize) -> Option<Declaration<'t>> {
        let before = text[..at].ends_with("extern \"C\" ");
        let (declaration, _) = text[at + GLOBAL.len()..].strip_prefix(" void ").filter(|_| before)?.split_once('{')?;
        let (declaration, parameter) = declaration.trim_end().strip_suffix(')')?.rsplit_once('(')?;
        let (params, variable) = parameter.split_once(' ')?;
        let (attributes, name) = declaration.rsplit_once(' ').unwrap_or(("", declaration));
        let (name, is_macro) = name.split_once("##").map_or((name, false), |(beginning, _)| (beginning, true));
        let block = match attributes.split_once("BOUNDS(").or_else(|| attributes.split_once("__launch_bounds__(")) {
            Some((_, bounds)) => Some(number(text, bounds.split([',', ')']).next()?)?),
            None => None,
        };
        // No parameter of a macro, which has capitals or no `_` at its end.
        let is_name = is_word(name) && !name.contains(|c: char| c.is_ascii_uppercase()) && (!is_macro || name.ends_with('_'));
        (is_name && is_word(params) && is_word(variable)).then_some(Declaration { name, is_macro, params, block })
    }
}

const GLOBAL: &str = "__global__";

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A number, or a constant of the text that has one.
fn number(text: &str, word: &str) -> Option<u32> {
    if let Ok(number) = word.parse() {
        return Some(number);
    }
    let defined = |before: &str| text.split_once(&format!("{before} {word} ")).map(|(_, value)| value.trim_start_matches("= "));
    let value = defined("constexpr int").or_else(|| defined("#define"))?;
    value.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a kernel of this name that `file` has takes a struct `params`, alone, and is written for blocks of `block` threads.
pub(super) fn takes(file: &str, name: &str, params: &str, block: u32) -> bool {
    let Some(source) = source(file) else { return false };
    let Some(all): Option<Vec<_>> = std::iter::once(source.text).chain(HEADERS.iter().map(|h| h.text)).flat_map(Declaration::all).collect()
    else {
        return false;
    };
    let mut found: Vec<_> = all.iter().filter(|d| !d.is_macro && name == d.name).collect();
    if found.is_empty() {
        // A macro cannot declare what is declared by its whole name too: the compiler would refuse that.
        found.extend(all.iter().filter(|d| d.is_macro && name.starts_with(d.name)));
    }
    !found.is_empty() && found.iter().all(|d| d.params == params && d.block.is_none_or(|threads| threads == block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipverify_sys::kernels::SOURCES;

    #[test]
    fn every_kernel_is_declared_on_one_line() {
        let texts = || SOURCES.iter().map(|s| (s.name, s.text)).chain(HEADERS.iter().map(|h| (h.name, h.text)));
        let all: Vec<_> = texts().flat_map(|(file, text)| Declaration::all(text).map(move |d| (file, d))).collect();
        assert!(all.len() > 30, "{} declarations", all.len());
        let unread: Vec<_> = all.iter().filter(|(_, d)| d.is_none()).map(|(file, _)| file).collect();
        assert!(unread.is_empty(), "kernels of another form: {unread:?}");
        for source in SOURCES {
            assert!(source.text.contains(GLOBAL) || source.text.contains("VERIFY"), "{} has kernels", source.name);
        }
    }

    #[test]
    fn what_a_kernel_takes_is_read() {
        for (file, name, params, block, expected, reason) in [
            ("hash.hip", "hash_bytes", "Hash", 256, true, "as it is"),
            ("hash.hip", "hash_bytes", "Fill", 256, false, "another struct"),
            ("hash.hip", "hash_bytes", "Hash", 512, false, "another block"),
            ("hash.hip", "hash_words", "Hash", 256, false, "no such kernel"),
            ("hush.hip", "hash_bytes", "Hash", 256, false, "no such file"),
            ("bound.hip", "bound_tiles", "BoundParams", 256, true, "a constant"),
            ("fill.hip", "fill_uniform_f16", "Fill", 512, true, "a macro's, by its constant"),
            ("fill.hip", "fill_general", "Fill", 256, true, "another constant"),
            ("fill.hip", "fill_crand", "FillCrand", 64, true, "a number"),
            ("reduce_max.hip", "reduce_max_8", "MaxParams", 512, true, "bounds of two numbers"),
            ("bandwidth.hip", "nothing", "Nothing", 64, true, "without bounds"),
            ("mfma.hip", "mfma_gemm_f16", "MfmaGemm", 64, true, "by its name, though a macro's begin like it"),
            ("mfma.hip", "mfma_gemm_f16", "MfmaIssue", 64, false, "what the macro's take"),
            ("mfma.hip", "mfma_f32_32x32x8f16", "MfmaIssue", 64, true, "a macro's"),
            ("verify/f64.hip", "verify_all_f64_64_64", "VerifyParams", 256, true, "a header's macro"),
        ] {
            assert_eq!(takes(file, name, params, block), expected, "{file}: {name}: {reason}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (text, reason) in [
            ("__global__ void f(P p) {", "a name of C++"),
            ("extern \"C\" __global__ void f(P p, Q q) {", "two parameters"),
            ("extern \"C\" __global__ void name##_f(P p) {", "a name that begins with a parameter"),
            ("extern \"C\" __global__ void NAME(P p) {", "a parameter as the name"),
            ("extern \"C\" __global__ void __launch_bounds__(N) f(P p) {", "an unknown number of threads"),
            ("extern \"C\" __global__ void f(P *p) {", "a pointer"),
        ] {
            assert_eq!(Declaration::all(text).collect::<Vec<_>>(), [None], "{reason}");
        }
    }
}
