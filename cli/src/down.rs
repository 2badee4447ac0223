//! `trireme down`: stops every process of an instance, its containers too, and takes its network and mounts away.

use std::{fs, path::PathBuf};

use anyhow::Context as _;

use crate::{
    cri, host, lock, process,
    state::{Instance, State},
};

/// Which instance.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where everything of the instance lies.
    #[arg(long, default_value = ".trireme")]
    state_dir: PathBuf,
}

/// Stops it. What is written stays: the next `up` finds everything as it was.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Some(state) = State::existing(&options.state_dir) else {
        println!("nothing runs: there is no {}", options.state_dir.display());
        return Ok(());
    };
    let _lock = lock::take(state.root())?;
    let names = process::names(&state)?;
    // Containers outlive containerd: they are ended while it still runs, and after what would start them again.
    let (runtimes, others): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|n| n.starts_with("containerd-"));
    process::stop(&state, &others)?;
    let instance = state.instance()?;
    for runtime in &runtimes {
        if process::pid(&state, runtime)?.is_some() {
            cri::remove_pods(&state.run().join(format!("{runtime}.sock")))?;
        }
    }
    process::stop(&state, &runtimes)?;
    let strays = process::stop_strays(&state)?;
    if let Some(instance) = instance {
        unmount_below(&state)?;
        if !instance.nodes.is_empty() {
            host::remove(&instance)?;
            remove_node_traces(&state, &instance)?;
        }
    }
    println!("stopped {} processes of {}", names.len() + strays, state.root().display());
    Ok(())
}

/// Unmounts what nodes mounted below the state directory and the run directory, the deepest first.
fn unmount_below(state: &State) -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let (root, run) = (state.root().display().to_string(), state.run().display().to_string());
    let mut below: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|path| path.starts_with(&format!("{root}/")) || path.starts_with(&format!("{run}/")))
        .collect();
    below.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in below {
        host::run("umount", &["-l", path])?;
    }
    Ok(())
}

/// The node's rules, bridge and cgroups, which carry the instance's id.
fn remove_node_traces(state: &State, instance: &Instance) -> anyhow::Result<()> {
    for (n, shares) in &instance.nodes {
        if *shares {
            remove_host_network(instance)?;
        }
        remove_cgroups(&instance.cgroup(*n));
    }
    match fs::remove_dir_all(state.run()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).context("run directory"),
        _ => Ok(()),
    }
}

/// What proxy and network agent of a node on this machine's network left: tables and links named by the instance.
fn remove_host_network(instance: &Instance) -> anyhow::Result<()> {
    for line in host::run("nft", &["list", "tables"])?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["table", family, name] = words.as_slice()
            && name.contains(&instance.id)
        {
            host::run("nft", &["delete", "table", family, name])?;
        }
    }
    for line in host::run("ip", &["-o", "link"])?.lines() {
        let name = line.split(": ").nth(1).unwrap_or_default();
        let name = name.split('@').next().unwrap_or_default();
        if name.contains(&instance.id) {
            host::run("ip", &["link", "del", name])?;
        }
    }
    Ok(())
}

/// Removes the node's cgroups in every hierarchy, the deepest first; one with a process in it stays.
fn remove_cgroups(cgroup: &str) {
    fn remove(folder: &std::path::Path) {
        if let Ok(entries) = fs::read_dir(folder) {
            for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
                remove(&entry.path());
            }
        }
        // Busy or gone: the kernel takes an empty one away with the next boot at the latest.
        let _busy = fs::remove_dir(folder);
    }
    let Ok(hierarchies) = fs::read_dir("/sys/fs/cgroup") else { return };
    let name = cgroup.trim_start_matches('/');
    remove(&std::path::Path::new("/sys/fs/cgroup").join(name));
    for hierarchy in hierarchies.flatten() {
        let folder = hierarchy.path().join(name);
        if folder.is_dir() {
            remove(&folder);
        }
    }
}
