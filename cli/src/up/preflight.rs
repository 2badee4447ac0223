//! What must be there before anything is started, each missing thing in one line with its remedy.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail};

use super::options::{Options, Part};
use crate::{
    process::{self, Process},
    program,
    state::State,
};

/// Programs that a part runs on a node. The bus is not among them: without it API servers follow the store's watch.
const PROGRAMS: &[(&[Part], &[&str])] = &[
    (&[Part::Kubelet], &["containerd", "ctr", "runc", "mount", "umount"]),
    (&[Part::Proxy], &["conntrack"]),
    // The bridge and the namespaces of nodes are ours, whichever part runs there.
    (ON_NODE, &["ip", "nft", "nsenter"]),
];

/// What runs on every node.
const ON_NODE: &[Part] = &[Part::Kubelet, Part::Proxy, Part::Network];

/// Where Debian's package puts the CNI plugins.
pub(crate) const CNI_PLUGINS: &str = "/usr/lib/cni";

/// Whether one of the parts runs on nodes.
pub(crate) fn on_node(parts: &BTreeSet<Part>) -> bool {
    ON_NODE.iter().any(|part| parts.contains(part))
}

/// Refuses what cannot work on this machine. `nodes` is how many there will be.
///
/// # Errors
/// One line that says what is missing and how to get it.
pub(crate) fn check(parts: &BTreeSet<Part>, nodes: usize) -> anyhow::Result<()> {
    if nodes == 0 || !on_node(parts) {
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "a node needs root (containers, network): run this as root, or start the control plane alone with --nodes 0"
        );
    }
    for (of, programs) in PROGRAMS {
        if of.iter().any(|part| parts.contains(part))
            && let Some(missing) = programs.iter().find(|program| program::find(program).is_none())
        {
            bail!(program::missing(missing));
        }
    }
    if parts.contains(&Part::Network) && !Path::new(CNI_PLUGINS).join("bridge").exists() {
        bail!("no CNI plugins in {CNI_PLUGINS}: apt-get install containernetworking-plugins");
    }
    Ok(())
}

/// Refuses an API server of which nothing holds the objects.
///
/// # Errors
/// No store runs, none is to be started, and no other one is named.
pub(crate) fn store(parts: &BTreeSet<Part>, options: &Options, state: Option<&State>) -> anyhow::Result<()> {
    let other = options.set.iter().any(|set| set.service == "apiserver" && set.flag == "etcd-servers");
    if !parts.contains(&Part::Apiserver) || parts.contains(&Part::Store) || other {
        return Ok(());
    }
    let running = state.map(process::names).transpose()?.unwrap_or_default();
    if let Some(state) = state
        && running.iter().any(|name| name.starts_with("store-") && matches!(process::pid(state, name), Ok(Some(_))))
    {
        return Ok(());
    }
    bail!("no store runs, and an API server needs one: --only store,apiserver")
}

/// Refuses programs of ours that are not built, and flags of the user that the service refuses: in its own words, by
/// having it read them as `--help` does. Nothing else takes that time.
///
/// # Errors
/// One line, or what the service said.
pub(crate) fn flags(processes: &[Process], programs: &Path, options: &Options) -> anyhow::Result<()> {
    for process in processes.iter().filter(|process| process.program.starts_with(programs)) {
        let name = &process.name;
        if !process.program.is_file() {
            bail!("{} is not built: run `cargo xtask build`", process.program.display());
        }
        if !options.set.iter().any(|set| set.service == super::service(name)) {
            continue;
        }
        let read =
            program::command(&process.program).args(&process.arguments).arg("--help").stdin(Stdio::null()).output();
        let read = read.with_context(|| format!("cannot run {}", process.program.display()))?;
        if !read.status.success() {
            bail!("{name}: {}", String::from_utf8_lossy(&read.stderr).trim());
        }
    }
    Ok(())
}

/// Where the image archives are.
pub(crate) fn images(options: &Options, programs: &Path) -> PathBuf {
    let beside = || programs.parent().map_or_else(PathBuf::new, |folder| folder.join("images"));
    options.images.clone().unwrap_or_else(beside)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::process::Ready;
    use crate::up::options::options;

    #[test]
    fn an_api_server_without_a_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let check = |line: &[&str]| {
            let options = options(line);
            store(&options.parts(), &options, Some(&state)).map_err(|error| error.to_string())
        };
        assert!(check(&["--only=apiserver"]).unwrap_err().contains("no store runs"));
        assert!(check(&["--only=apiserver,scheduler"]).is_err());
        for line in [&["--only=store,apiserver"][..], &["--only=scheduler"], &[]] {
            assert_eq!(check(line), Ok(()), "{line:?}");
        }
        assert_eq!(check(&["--only=apiserver", "--set=apiserver.etcd-servers=http://127.0.0.1:2379"]), Ok(()));
    }

    #[test]
    fn wrong_flags_are_refused_in_the_services_words() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("trireme-controllers");
        let process = |flag: &str| Process {
            name: "controllers".into(),
            program: program.clone(),
            arguments: vec![flag.into()],
            environment: vec![],
            namespace: None,
            ready: Ready::Tcp(1),
        };
        let check = |flag: &str, line: &[&str]| {
            flags(&[process(flag)], folder.path(), &options(line)).map_err(|error| error.to_string())
        };
        assert!(check("--a=1", &[]).unwrap_err().contains("cargo xtask build"));
        fs::write(&program, "#!/bin/sh\n[ \"$1 $2\" = '--a=1 --help' ] && exit\necho \"no $1\" >&2\nexit 2\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(check("--a=1", &["--set=controllers.a=1"]), Ok(()));
        assert_eq!(check("--b=1", &["--set=controllers.b=1"]), Err("controllers: no --b=1".to_owned()));
        assert_eq!(check("--b=1", &["--set=scheduler.b=1"]), Ok(()), "what the user does not set is right");
    }
}
