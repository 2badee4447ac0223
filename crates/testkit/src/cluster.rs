//! An instance of its own for a test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::kubectl::{self, Output};

/// What `trireme up` is told besides the state directory.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Arguments of `trireme up`.
    pub arguments: Vec<String>,
    /// Variables in the environment of every service.
    pub environment: Vec<(String, String)>,
}

impl Options {
    /// These arguments of `trireme up`, separated by blanks.
    #[must_use]
    pub fn new(arguments: &str) -> Self {
        Self { arguments: arguments.split_whitespace().map(str::to_owned).collect(), environment: Vec::new() }
    }

    /// One more variable in the environment of every service.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running instance; taken down when dropped.
#[derive(Debug)]
pub struct Cluster {
    folder: tempfile::TempDir,
    options: Options,
}

impl Cluster {
    /// Brings an instance up in a temporary state directory.
    ///
    /// # Errors
    /// What `trireme up` said.
    pub fn up(options: Options) -> anyhow::Result<Self> {
        let cluster = Self::new(options)?;
        cluster.start()?;
        Ok(cluster)
    }

    /// An instance of which nothing runs yet.
    ///
    /// # Errors
    /// No temporary folder.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, options })
    }

    /// Runs `trireme up` again: starts what does not run.
    ///
    /// # Errors
    /// What it said.
    pub fn start(&self) -> anyhow::Result<String> {
        let mut command = Command::new(program()?);
        command.args(["up", "--no-examples", "--state-dir"]).arg(self.state()).args(&self.options.arguments);
        command.envs(self.options.environment.iter().map(|(k, v)| (k, v)));
        let output = command.output().context("trireme up")?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("trireme up: {}: {said}", output.status);
        }
        Ok(said)
    }

    /// Runs `trireme down`.
    ///
    /// # Errors
    /// What it said.
    pub fn stop(&self) -> anyhow::Result<()> {
        let output = Command::new(program()?).args(["down", "--state-dir"]).arg(self.state()).output()?;
        if !output.status.success() {
            bail!("trireme down: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state().join("kubeconfig")
    }

    /// A port by its name in `ports.json`.
    ///
    /// # Errors
    /// No such file or name.
    pub fn port(&self, name: &str) -> anyhow::Result<u16> {
        let ports: Value = serde_json::from_slice(&fs::read(self.state().join("ports.json"))?)?;
        let port = ports[name].as_u64().with_context(|| format!("no port named {name}"))?;
        Ok(u16::try_from(port)?)
    }

    /// Runs kubectl as the administrator; the arguments are separated by blanks.
    ///
    /// # Errors
    /// It could not be run; what it answers is in the output.
    pub fn kubectl(&self, arguments: &str) -> anyhow::Result<Output> {
        self.kubectl_with(&arguments.split_whitespace().collect::<Vec<_>>(), "")
    }

    /// Runs kubectl with these arguments and this standard input.
    ///
    /// # Errors
    /// It could not be run.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> anyhow::Result<Output> {
        kubectl::run(self.kubectl_command(arguments), input)
    }

    /// A kubectl to be started by the test.
    #[must_use]
    pub fn kubectl_command(&self, arguments: &[&str]) -> Command {
        kubectl::command(&self.kubeconfig(), self.folder.path(), arguments)
    }

    /// `kubectl apply -f -` of a manifest.
    ///
    /// # Errors
    /// What kubectl said.
    pub fn apply(&self, manifest: &str) -> anyhow::Result<String> {
        self.kubectl_with(&["apply", "-f", "-"], manifest)?.ok()
    }

    /// The names of the processes that `up` started.
    ///
    /// # Errors
    /// The folder of pids cannot be read.
    pub fn processes(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.state().join("pids"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json") {
                names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The pid of a process that `up` started.
    ///
    /// # Errors
    /// No such process was started.
    pub fn pid(&self, process: &str) -> anyhow::Result<i32> {
        let file = self.state().join("pids").join(format!("{process}.json"));
        let record: Value = serde_json::from_slice(&fs::read(&file).with_context(|| file.display().to_string())?)?;
        Ok(i32::try_from(record["pid"].as_i64().context("pid")?)?)
    }

    /// Sends a signal to a process that `up` started.
    ///
    /// # Errors
    /// It was not started, or does not run.
    pub fn signal(&self, process: &str, signal: Signal) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.pid(process)?), signal).with_context(|| format!("signal to {process}"))
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// As [`Self::signal`].
    pub fn kill(&self, process: &str) -> anyhow::Result<()> {
        self.signal(process, Signal::SIGKILL)
    }

    /// The log of a process.
    #[must_use]
    pub fn log(&self, process: &str) -> String {
        fs::read_to_string(self.state().join("logs").join(format!("{process}.log"))).unwrap_or_default()
    }
}

impl Drop for Cluster {
    #[allow(clippy::print_stderr, reason = "there is nobody left to hand an error to")]
    fn drop(&mut self) {
        // Not a panic: a test that failed has said so already, and what `down` could not do must not hide it.
        if let Err(error) = self.stop() {
            eprintln!("{error:#}");
        }
    }
}

/// The `trireme` program: in `$TRIREME_BIN`, else in the target folder's `release` or `debug`.
///
/// # Errors
/// It is in none of them.
pub fn program() -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let folders = std::env::var_os("TRIREME_BIN").map(PathBuf::from).into_iter();
    folders
        .chain([target.join("release"), target.join("debug")])
        .map(|folder| folder.join("trireme"))
        .find(|program| program.exists())
        .context("no trireme program: run `cargo xtask build`")
}
