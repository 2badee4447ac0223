//! Building the services.

use std::path::PathBuf;

use crate::{
    paths,
    run::{cargo, run},
};

/// How to compile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quick to build.
    Dev,
    /// Quick to run.
    Release,
}

impl Profile {
    /// Where cargo puts what it builds.
    pub(crate) fn folder(self) -> PathBuf {
        paths::target().join(match self {
            Self::Dev => "debug",
            Self::Release => "release",
        })
    }
}

/// The profile that tests run: assertions on, and built in a third of the time.
pub(crate) const TESTED: Profile = Profile::Dev;

/// Builds everything that can be built, tests included: what the tests then run.
pub(crate) fn everything() -> anyhow::Result<()> {
    run(cargo().args(["build", "--locked", "--workspace", "--all-targets"]))
}

/// Builds every service and the `trireme` command (the workspace's default members).
pub(crate) fn services(profile: Profile) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["build", "--locked"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    run(&mut command)
}
