//! `cargo xtask figures`: the release build, measured from outside.

use crate::{
    build::{self, Profile},
    images, paths,
    run::{cargo, command, run as execute},
};

/// Builds what is missing and prints the table.
pub(crate) fn run() -> anyhow::Result<()> {
    build::services(Profile::Release)?;
    images::run()?;
    execute(cargo().args(["build", "--locked", "--package", "trireme-load-tests"]))?;
    execute(command(paths::target().join("debug/figures")).env("TRIREME_BIN", Profile::Release.folder()))
}
