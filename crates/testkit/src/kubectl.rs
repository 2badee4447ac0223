//! The unmodified kubectl.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use serde_json::Value;

/// What a command printed and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit code; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Standard output of a command that succeeded.
    ///
    /// # Errors
    /// It failed: what it said.
    pub fn ok(self) -> anyhow::Result<String> {
        if self.code != 0 {
            bail!("exit code {}: {}{}", self.code, self.stdout, self.stderr);
        }
        Ok(self.stdout)
    }

    /// Standard output of a command that succeeded, as JSON.
    ///
    /// # Errors
    /// It failed, or printed no JSON.
    pub fn json(self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.ok()?)?)
    }
}

/// Where kubectl is: `$KUBECTL`, else the one `cargo xtask setup` installed, else the one in PATH.
pub(crate) fn program() -> PathBuf {
    let cache = std::env::var_os("TRIREME_CACHE").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/trireme"),
        PathBuf::from,
    );
    let installed = cache.join("venv/bin/kubectl");
    std::env::var_os("KUBECTL")
        .map_or_else(|| if installed.exists() { installed } else { PathBuf::from("kubectl") }, PathBuf::from)
}

/// Prepares `kubectl ARGUMENTS`.
pub(crate) fn command(kubeconfig: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.env("KUBECONFIG", kubeconfig).env("HOME", home).args(arguments);
    command
}

/// Runs it with `input` on its standard input.
pub(crate) fn run(mut command: Command, input: &str) -> anyhow::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    if let Some(mut stdin) = child.stdin.take()
        && let Err(e) = stdin.write_all(input.as_bytes())
        && e.kind() != std::io::ErrorKind::BrokenPipe
    {
        return Err(e).context("standard input of kubectl");
    }
    let output = child.wait_with_output()?;
    Ok(Output {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
