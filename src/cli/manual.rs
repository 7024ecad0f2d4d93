//! `hipverify completions` and `hipverify man`: what is made of the flags as they are.

use super::{Outcome, command, screen};
use crate::files::replace;
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::PathBuf;

/// The flags of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify completions bash > ~/.local/share/bash-completion/completions/hipverify")]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

/// The flags of `man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify man ~/.local/share/man/man1")]
pub(super) struct Man {
    /// Where the pages go; existing ones are replaced
    folder: PathBuf,
}

impl Completions {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "hipverify", &mut script);
        screen::print(&String::from_utf8(script)?)?;
        Ok(Outcome::Pass)
    }
}

impl Man {
    /// Runs the command: a page for the program and one for each of its commands.
    pub(super) fn run(&self) -> Result<Outcome> {
        std::fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let program = command();
        let parts = program.get_subcommands().map(|part| (format!("hipverify-{}", part.get_name()), part));
        for (name, page) in parts.chain([("hipverify".to_owned(), &program)]) {
            let path = self.folder.join(format!("{name}.1"));
            replace(&path, |mut out| clap_mangen::Man::new(page.clone()).title(name).render(&mut out))?;
        }
        Ok(Outcome::Pass)
    }
}
