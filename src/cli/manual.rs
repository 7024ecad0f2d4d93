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
    /// Runs the command: a page for the program, one for each of its commands, and one for each of theirs.
    pub(super) fn run(&self) -> Result<Outcome> {
        std::fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let mut program = command().disable_help_subcommand(true);
        // Commands know then what they are called in whole.
        program.build();
        self.write(&program)?;
        Ok(Outcome::Pass)
    }

    /// Writes the page of a command and those below it.
    fn write(&self, command: &clap::Command) -> Result<()> {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let path = self.folder.join(format!("{name}.1"));
        replace(&path, |mut out| clap_mangen::Man::new(command.clone()).title(name).render(&mut out))?;
        command.get_subcommands().filter(|part| !part.is_hide_set()).try_for_each(|part| self.write(part))
    }
}
