//! What CI runs.

use crate::{
    build, golden, images, lint, paths,
    run::{command, run},
    setup,
};

/// Lints, every crate's tests, the tests of the whole, the golden records. One profile and one set of features for all,
/// so that what they link is compiled once.
pub(crate) fn all() -> anyhow::Result<()> {
    setup::run()?;
    lint::run()?;
    build::everything()?;
    images::run()?;
    nextest(&["-E", "not package(trireme-tests)"])?;
    nextest(&["-E", "package(trireme-tests)"])?;
    if paths::golden().is_none() {
        println!("test: no golden records here (TRIREME_GOLDEN, by default ../shared/golden): they were not replayed");
        return Ok(());
    }
    golden::run(&golden::Options::gate())
}

/// The tests of the whole. They need root and containerd.
pub(crate) fn e2e(arguments: &[String]) -> anyhow::Result<()> {
    build::everything()?;
    images::run()?;
    let mut all = vec!["-E", "package(trireme-tests)"];
    all.extend(arguments.iter().map(String::as_str));
    nextest(&all)
}

fn nextest(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = command(paths::tool("cargo-nextest"));
    command.args(["nextest", "run", "--locked", "--workspace", "--no-fail-fast"]);
    run(command.args(arguments).env("TRIREME_BIN", build::TESTED.folder()))
}
