//! Formatting, clippy, licences.

use crate::{
    paths,
    run::{cargo, command, run as execute},
};

/// Fails on the first finding.
pub(crate) fn run() -> anyhow::Result<()> {
    execute(cargo().args(["fmt", "--all", "--check"]))?;
    execute(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    let deny = paths::tool("cargo-deny");
    if deny.exists() {
        execute(command(deny).args(["--offline", "check", "licenses", "bans", "sources"]))?;
    } else {
        println!("lint: cargo-deny is not installed (cargo xtask setup); licences were not checked");
    }
    Ok(())
}
