//! `cargo xtask up`: set up, build, run `trireme up`.

use std::{
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::Context as _;

use crate::{
    build::{self, Profile},
    images, paths,
    run::{cargo, command, run as execute},
    setup,
};

/// Does everything a bare machine needs, then hands over to `trireme up`, whose message and exit code stand as they are.
///
/// # Errors
/// Something before that.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let trireme = Profile::Release.folder().join("trireme");
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        return help(&trireme);
    }
    if has_nodes(arguments) && !is_root() {
        eprintln!(
            "trireme: a node needs root (containers, network): run this as root, or start the control plane alone with --nodes 0"
        );
        return Ok(ExitCode::FAILURE);
    }
    let (no_build, arguments): (Vec<_>, Vec<_>) = arguments.iter().partition(|a| *a == "--no-build");
    if no_build.is_empty() {
        setup::run()?;
        build::services(Profile::Release)?;
        images::run()?;
    }
    let ended = ended(command(&trireme).arg("up").args(arguments))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    if ended == ExitCode::SUCCESS && !std::env::split_paths(&path).any(|folder| folder.join("kubectl").is_file()) {
        println!("  export PATH={}:$PATH", quoted(&paths::venv().join("bin")));
    }
    Ok(ended)
}

/// The options of `trireme up`, and the one that is ours.
fn help(trireme: &Path) -> anyhow::Result<ExitCode> {
    if !trireme.is_file() {
        execute(cargo().args(["build", "--locked", "--release", "--package", "trireme-cli"]))?;
    }
    let ended = ended(command(trireme).args(["up", "--help"]))?;
    println!("\nOf `cargo xtask up`:\n      --no-build\n          Leaves setup and build out");
    Ok(ended)
}

/// Runs a program that says itself what is wrong: how it ended.
fn ended(command: &mut Command) -> anyhow::Result<ExitCode> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Whether `trireme up` may start nodes, as far as can be told before it is built.
fn has_nodes(arguments: &[String]) -> bool {
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        match option {
            // It knows which of its parts need root.
            "--only" => return false,
            "--nodes" if value.or_else(|| words.next()) == Some("0") => return false,
            _ => {}
        }
    }
    true
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:,@%=".contains(c);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_root_is_told_from_the_arguments() {
        let has = |line: &str| has_nodes(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in ["", "--nodes 2", "--nodes=10", "--no-build --set x.nodes=0", "--api-port 0"] {
            assert!(has(line), "{line}");
        }
        for line in ["--nodes 0", "--no-build --nodes=0", "--only store,apiserver", "--only=store"] {
            assert!(!has(line), "{line}");
        }
    }

    #[test]
    fn the_exit_code_is_handed_on() {
        for (script, code) in
            [("exit 0", ExitCode::SUCCESS), ("exit 7", ExitCode::from(7)), ("kill -9 $$", ExitCode::FAILURE)]
        {
            assert_eq!(ended(Command::new("sh").args(["-c", script])).unwrap(), code, "{script}");
        }
    }

    #[test]
    fn a_path_with_blanks_is_quoted() {
        assert_eq!(quoted(Path::new("/home/me/bin")), "/home/me/bin");
        assert_eq!(quoted(Path::new("/my home/bin")), "'/my home/bin'");
    }
}
