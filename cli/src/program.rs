//! Other programs: where they are looked for, and which Debian package brings one that is missing.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian has programs. A user's PATH, and that of `su` or a service manager, often leaves administrators' out.
const FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The Debian package of each program that we or our services run.
const PACKAGES: &[(&str, &str)] = &[
    ("nats-server", "nats-server"),
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
];

/// A program to be run. It, and what it runs itself, is looked for in PATH and in Debian's folders.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path());
    command
}

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// That a program is not there, and how to get it.
pub(crate) fn missing(program: &str) -> String {
    let package = PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| package);
    let remedy = package.map(|package| format!(": apt-get install {package}")).unwrap_or_default();
    format!("{program} is not installed{remedy}")
}

fn search_path() -> OsString {
    complete(&std::env::var_os("PATH").unwrap_or_default())
}

/// A PATH with those of Debian's folders that it lacks behind it.
fn complete(path: &OsStr) -> OsString {
    let given: Vec<PathBuf> = std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    let lacking = FOLDERS.map(Path::new).into_iter().filter(|folder| !given.iter().any(|g| g == folder));
    let all: Vec<&Path> = given.iter().map(PathBuf::as_path).chain(lacking).collect();
    // What was split at colons holds none.
    std::env::join_paths(all).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_programs_are_found_without_their_folders_in_the_path() {
        let path = complete("/home/me/bin:/usr/bin:/bin".as_ref());
        assert_eq!(path, "/home/me/bin:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin");
        assert_eq!(complete("".as_ref()), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }

    #[test]
    fn what_is_missing_is_said_with_its_package() {
        assert_eq!(missing("nft"), "nft is not installed: apt-get install nftables");
        assert_eq!(missing("conntrack"), "conntrack is not installed: apt-get install conntrack");
        assert_eq!(missing("kubectl"), "kubectl is not installed");
    }
}
