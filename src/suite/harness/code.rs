//! The files behind a suite's kernels, as one hash: results of a program and of another build of it are not those of one run.
//!
//! Limits: what a program loads, headers of a source and closures of a Rust program are not seen.

use super::cases::{Fnv, Suite, Tensors, Work};
use super::kernel::Kernel;
use super::tensor_files::names_a_file_of_the_case;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

impl Suite {
    /// A hash of the files that its kernels name: words of commands that are files, HIP sources, code objects. Empty where there is none; a file that cannot be read
    /// is none.
    #[must_use]
    pub fn code(&self) -> String {
        let (mut hash, mut found, mut seen) = (Fnv::new(), false, HashSet::new());
        for (folder, words) in self.cases.iter().filter_map(|case| if let Work::Tensors(t) = &case.work { named(t) } else { None }) {
            if !seen.insert((folder, words.clone())) {
                continue;
            }
            for word in words {
                if let Ok(contents) = hash_of_file(&folder.join(word)) {
                    hash.add(word);
                    hash.add(&contents);
                    found = true;
                }
            }
        }
        if found { hash.text() } else { String::new() }
    }
}

/// The words by which a kernel may name files, and the folder that they count from.
fn named(tensors: &Tensors) -> Option<(&Path, Vec<&str>)> {
    let names = tensors.problem.names_of_files();
    match &tensors.kernel {
        Kernel::Command(entry) => {
            let words = entry.command.iter().map(String::as_str);
            Some((&entry.folder, words.filter(|word| !names_a_file_of_the_case(word, &names)).collect()))
        }
        Kernel::Module(module, _) => Some((&module.entry().folder, module.entry().code.paths())),
        Kernel::Arithmetic { .. } | Kernel::Closure(_) => None,
    }
}

fn hash_of_file(path: &Path) -> io::Result<String> {
    // To open a pipe would be to wait for who writes it.
    if !path.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (mut file, mut hash) = (File::open(path)?, Fnv::new());
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hash.text()),
            Ok(bytes) => hash.add_bytes(&piece[..bytes]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kernels, SuiteFile};
    use super::*;

    const PROGRAM: &str = "[[gemm]]\nsize = ['1x1x1', '2x2x2']\nkernel = 'k'\n[kernels.k]\ncommand = ['sh', 'k.sh', '-x']\n";
    const SOURCE: &str = "[[gemm]]\nsize = '1x1x1'\nkernel = 'k'\n[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\n";

    #[test]
    fn files_that_kernels_name_count_by_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let of = |text: &str| {
            put("s.toml", text);
            Suite::new(&SuiteFile::open(&folder.path().join("s.toml")).unwrap(), "s.toml", Kernels::default()).unwrap().code()
        };
        let objects = SOURCE.replace("source = 'k.hip'", "code_object = { gfx90a = 'a.co', gfx908 = 'b.co' }");
        for (text, file, reason) in [
            (PROGRAM.to_owned(), "k.sh", "an argument of a command"),
            (PROGRAM.replace("'sh', 'k.sh'", "'./k'"), "k", "a program"),
            (SOURCE.to_owned(), "k.hip", "source"),
            (SOURCE.replace("source = 'k.hip'", "code_object = 'k.co'"), "k.co", "a code object"),
            (objects, "b.co", "the second of two"),
        ] {
            assert_eq!(of(&text), "", "{reason}: there is no file");
            put(file, "one");
            let one = of(&text);
            put("beside", "not named");
            assert_eq!((one.len(), of(&text)), (16, one.clone()), "{reason}: it is the same file");
            put(file, "two");
            assert_ne!(of(&text), one, "{reason}: it has changed");
        }
        // The case's own file, whatever lies beside the suite.
        let own = PROGRAM.replace("'k.sh'", "'a.npy'");
        put("a.npy", "one");
        assert_eq!(of(&own), "");
        put("k.hip", "one");
        assert_eq!(
            of("[[gemm]]\nsize = '1x1x1'\n[kernels.k]\nsource = 'k.hip'\nfunction = 'f'\ngrid = 1\nblock = 64\n"),
            "",
            "no case has it"
        );
    }
}
