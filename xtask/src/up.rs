//! `cargo xtask up`: set up, build, run `trireme up`.

use crate::{
    build::{self, Profile},
    images, paths,
    run::{command, run as execute},
    setup,
};

/// Does everything a bare machine needs, then hands over to `trireme up`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (no_build, arguments): (Vec<_>, Vec<_>) = arguments.iter().partition(|a| *a == "--no-build");
    if no_build.is_empty() {
        setup::run()?;
        build::services(Profile::Release)?;
        images::run()?;
    }
    execute(command(Profile::Release.folder().join("trireme")).arg("up").args(arguments))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("kubectl").is_file()) {
        println!("  export PATH={}:$PATH", paths::venv().join("bin").display());
    }
    Ok(())
}
