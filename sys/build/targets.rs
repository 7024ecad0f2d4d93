//! Names of AMD's GPUs, as compilers take them.

/// Splits targets into those that a GPU may have as its name (`gfx90a`, `gfx90a:sramecc+:xnack-`) and others, as families (`gfx9-generic`): images for
/// these would be compiled and never used.
pub(crate) fn split(targets: Vec<String>) -> (Vec<String>, Vec<String>) {
    targets.into_iter().partition(|target| is_gpu(target))
}

fn is_gpu(target: &str) -> bool {
    let mut parts = target.split(':');
    let number = parts.next().and_then(|name| name.strip_prefix("gfx")).unwrap_or_default();
    let is_number = number.len() >= 3 && number.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_number && parts.all(|feature| ["sramecc+", "sramecc-", "xnack+", "xnack-"].contains(&feature))
}
