//! Running other programs.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::paths;

/// A command in the root of the checkout, with the project's tools first in its PATH.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let tools = paths::venv().join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    command.current_dir(paths::root()).env("PATH", format!("{}:{path}", tools.display()));
    command
}

/// Runs it; an error names what was run and how it ended.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs it and gives back what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `cargo` as it was called for this program.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
