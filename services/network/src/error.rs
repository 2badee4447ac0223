//! What can go wrong here.

use std::path::PathBuf;

/// An error of the network agent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag's value is malformed.
    #[error("--{flag}={value}: {reason}")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// As it was given.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A command can't be run.
    #[error("cannot run {command}: {source} (install the package {package})")]
    Command {
        /// The command.
        command: &'static str,
        /// Debian's package that has it.
        package: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A command failed.
    #[error("{command}: {reason}")]
    Failed {
        /// The command with its arguments.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A file can't be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A CNI plugin that Pods need is not there.
    #[error("{path} is missing: Pods can't be connected (install the package containernetworking-plugins, or say --cni-bin-dir)", path = .0.display())]
    NoPlugin(PathBuf),
    /// The API server can't be reached the way the flags say.
    #[error(transparent)]
    Client(#[from] trireme_client::Error),
    /// The harness failed.
    #[error(transparent)]
    Service(#[from] trireme_service::Error),
}
