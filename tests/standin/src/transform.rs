//! From preprocessed HIP to plain C++: the markers that `hip/hip_runtime.h` leaves, and the builtins of the matrix cores.

use std::fmt::Write as _;

const KERNEL: &str = "standin_mark_global";
const SHARED: &str = "standin_mark_shared";
const MATRIX: &str = "__builtin_amdgcn_mfma_";

/// C++ of kernels, and their names.
pub(crate) struct Transformed {
    pub(crate) text: String,
    pub(crate) kernels: Vec<String>,
}

impl Transformed {
    /// What compiles to a library of these kernels: the compiler drops the others, which nothing names.
    pub(crate) fn with_table(&self, kernels: &[String]) -> String {
        let mut text = format!("{}\nextern \"C\" const standin_entry standin_kernels[] = {{\n", self.text);
        for name in kernels {
            let _ = writeln!(
                text,
                "    {{\"{name}\", standin_kernel<&{name}>::run, standin_kernel<&{name}>::sizes, standin_kernel<&{name}>::count}},"
            );
        }
        text + "    {nullptr, nullptr, nullptr, 0}};\n"
    }
}

/// Replaces all markers. The error names what was not understood.
pub(crate) fn transform(preprocessed: &str) -> Result<Transformed, String> {
    let (mut text, mut kernels) = (String::with_capacity(preprocessed.len() + 4096), Vec::new());
    let (mut rest, mut variables) = (preprocessed, 0);
    while let Some((at, marker)) = [KERNEL, SHARED, MATRIX].iter().filter_map(|m| Some((rest.find(m)?, *m))).min() {
        text.push_str(&rest[..at]);
        rest = &rest[at + marker.len()..];
        match marker {
            KERNEL => {
                make_static(&mut text);
                let name = kernel_name(rest)?;
                // A declaration before the definition.
                if !kernels.contains(&name) {
                    kernels.push(name);
                }
            }
            SHARED => {
                let (declaration, after) = rest.split_once(';').ok_or("a __shared__ variable without an end")?;
                variables += 1;
                declare_shared(&mut text, declaration, variables)?;
                rest = after;
            }
            _ => {
                let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                let arguments = after.trim_start().strip_prefix('(').ok_or_else(|| format!("{MATRIX}{name} without arguments"))?;
                let _ = write!(text, "standin_mfma(\"{name}\", ");
                rest = arguments;
            }
        }
    }
    text.push_str(rest);
    Ok(Transformed { text, kernels })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Kernels are found by the table: `extern "C"` before the marker becomes `static`.
fn make_static(text: &mut String) {
    let kept = text.trim_end().strip_suffix("\"C\"").map(str::trim_end).and_then(|t| t.strip_suffix("extern")).map(str::len);
    text.truncate(kept.unwrap_or(text.len()));
    text.push_str(" static ");
}

/// The identifier before the parameters.
fn kernel_name(after: &str) -> Result<String, String> {
    let head = after.split('(').next().unwrap_or_default().trim_end();
    let name = &head[head.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..];
    if name.is_empty() { Err("a __global__ function without a name".to_owned()) } else { Ok(name.to_owned()) }
}

/// `TYPE NAME DIMENSIONS` becomes a reference into the block's shared memory; behind `extern`, all of the dynamic one.
fn declare_shared(text: &mut String, declaration: &str, number: usize) -> Result<(), String> {
    let end = declaration.find('[').unwrap_or(declaration.len());
    let (head, dimensions) = (declaration[..end].trim(), &declaration[end..]);
    let at = head.rfind(|c| !is_word(c)).map(|at| at + 1).filter(|at| *at < head.len());
    let at = at.ok_or_else(|| format!("__shared__ {}: one variable, type and name", declaration.trim()))?;
    let (kind, name) = (head[..at].trim(), &head[at..]);
    if kind.ends_with(',') || declaration.contains('=') {
        return Err(format!("__shared__ {}: one variable without a value", declaration.trim()));
    }
    let before = text.trim_end();
    if let Some(kept) = before.strip_suffix("extern").map(str::len) {
        text.truncate(kept);
        let _ = write!(text, "{kind} *const {name} = ({kind} *)standin_shared(nullptr, 0, alignof({kind}), \"{name}\");");
        return Ok(());
    }
    let alias = format!("standin_type_{number}");
    let _ = write!(
        text,
        "typedef {kind} {alias}{dimensions}; static char standin_tag_{number}; \
         {alias} &{name} = *({alias} *)standin_shared(&standin_tag_{number}, sizeof({alias}), alignof({alias}), \"{name}\");"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_plain_cpp() {
        for (from, to) in [
            ("extern \"C\" standin_mark_global void  k(int x) {}", " static  void  k(int x) {}"),
            ("namespace { standin_mark_global void k() {} }", "namespace {  static  void k() {} }"),
            (
                "standin_mark_shared double a[4][N];",
                "typedef double standin_type_1[4][N]; static char standin_tag_1; standin_type_1 &a = *(standin_type_1 *)standin_shared(&standin_tag_1, sizeof(standin_type_1), alignof(standin_type_1), \"a\");",
            ),
            (
                "standin_mark_shared typename R::T s;",
                "typedef typename R::T standin_type_1; static char standin_tag_1; standin_type_1 &s = *(standin_type_1 *)standin_shared(&standin_tag_1, sizeof(standin_type_1), alignof(standin_type_1), \"s\");",
            ),
            ("extern standin_mark_shared float x[];", "float *const x = (float *)standin_shared(nullptr, 0, alignof(float), \"x\");"),
            ("c = __builtin_amdgcn_mfma_f32_4x4x1f32(a, b);", "c = standin_mfma(\"f32_4x4x1f32\", a, b);"),
        ] {
            let found = transform(from).unwrap_or_else(|e| panic!("{from}: {e}")).text;
            assert!(found.starts_with(to), "{from}:\n{found}");
        }
        let two =
            transform("standin_mark_global void a();\nstandin_mark_global void b(); standin_mark_global void a() {}").map(|t| t.kernels);
        assert_eq!(two, Ok(vec!["a".to_owned(), "b".to_owned()]));
        for wrong in
            ["standin_mark_shared int a, b;", "standin_mark_shared int a = 1;", "standin_mark_shared x;", "standin_mark_global void"]
        {
            assert!(transform(wrong).is_err() || wrong.ends_with("void"), "{wrong}");
        }
    }
}
