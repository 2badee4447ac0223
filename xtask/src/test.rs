//! What CI runs.

use anyhow::bail;

use crate::{
    build::{self, Profile},
    golden, images, lint, paths,
    run::{cargo, command, run},
    setup,
};

/// Lints, every crate's tests, the tests of the whole, the golden records.
pub(crate) fn all() -> anyhow::Result<()> {
    setup::run()?;
    lint::run()?;
    build::services(Profile::Release)?;
    images::run()?;
    nextest(&["--workspace", "--exclude", "trireme-tests"])?;
    e2e(&[])?;
    golden::run(&golden::Options::default())
}

/// The tests of the whole. They need root, containerd and the release build.
pub(crate) fn e2e(arguments: &[String]) -> anyhow::Result<()> {
    if !Profile::Release.folder().join("trireme").exists() {
        bail!("nothing is built: run `cargo xtask build` and `cargo xtask images` first");
    }
    let mut all = vec!["--package", "trireme-tests"];
    all.extend(arguments.iter().map(String::as_str));
    nextest(&all)
}

fn nextest(arguments: &[&str]) -> anyhow::Result<()> {
    let runner = paths::tool("cargo-nextest");
    let mut command = if runner.exists() {
        let mut command = command(runner);
        command.args(["nextest", "run", "--locked", "--no-fail-fast"]);
        command
    } else {
        let mut command = cargo();
        command.args(["test", "--locked", "--no-fail-fast"]);
        command
    };
    run(command.args(arguments).env("TRIREME_BIN", Profile::Release.folder()))
}
