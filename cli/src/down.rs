//! `trireme down`: stops every process of an instance, its containers too, and takes its network and mounts away.
//!
//! It works on what it finds: a part that is dead already, or a state directory that is gone, holds nothing up. Whatever
//! goes wrong, the rest is done nevertheless, and said at the end.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, anyhow};

use crate::{
    cgroup, cri, host, lock, process,
    state::{Instance, State},
};

/// Which instance.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where everything of the instance lies.
    #[arg(long, default_value = ".trireme")]
    state_dir: PathBuf,
}

/// What went wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<anyhow::Error>);

impl Faults {
    /// Keeps an error for the end.
    pub(crate) fn note<T>(&mut self, result: anyhow::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// All of it in one.
    pub(crate) fn result(self) -> anyhow::Result<()> {
        let all: Vec<String> = self.0.iter().map(|error| format!("{error:#}")).collect();
        if all.is_empty() { Ok(()) } else { Err(anyhow!("{}", all.join("; "))) }
    }
}

/// Stops it. What is written stays: the next `up` finds everything as it was.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut faults = Faults::default();
    let Some(state) = State::existing(&options.state_dir) else {
        // What ran there may still do so, and its network is this machine's.
        let state = State::lost(&options.state_dir)?;
        let strays = faults.note(process::stop_strays(&state)).unwrap_or_default();
        let killed = clean(&state, None, &mut faults);
        let gone = format!("there is no {}", options.state_dir.display());
        match strays + killed {
            0 => println!("nothing runs: {gone}"),
            count => println!("{gone}; stopped {count} processes of it that still ran"),
        }
        return faults.result();
    };
    let _lock = lock::take(state.root())?;
    let names = process::names(&state)?;
    // Containers outlive containerd: they are ended while it still runs, and after what would start them again.
    let (runtimes, others): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|n| n.starts_with("containerd-"));
    faults.note(process::stop(&state, &others));
    for runtime in &runtimes {
        if let Some(Some(_)) = faults.note(process::pid(&state, runtime)) {
            let removed = cri::remove_pods(&state.run().join(format!("{runtime}.sock")));
            faults.note(removed.with_context(|| format!("{runtime} could not end its Pods")));
        }
    }
    faults.note(process::stop(&state, &runtimes));
    let strays = faults.note(process::stop_strays(&state)).unwrap_or_default();
    let instance = faults.note(state.instance()).flatten();
    let killed = clean(&state, instance.as_ref(), &mut faults);
    println!("stopped {} processes of {}", names.len() + strays + killed, state.root().display());
    faults.result()
}

/// Takes away what an instance may have left on the machine, by its id alone if nothing else is known of it; how many
/// processes of containers there still were.
fn clean(state: &State, instance: Option<&Instance>, faults: &mut Faults) -> usize {
    let id = state.id();
    let ended = faults.note(cgroup::kill(&id)).unwrap_or_default();
    if let Some(instance) = instance {
        clean_agents(state, instance, faults);
    }
    faults.note(unmount_below(state));
    host::remove(&id, faults);
    host::remove_pod_namespaces(&ended.namespaces, faults);
    cgroup::remove(&id);
    match fs::remove_dir_all(state.run()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            faults.note::<()>(Err(error).context("run directory"));
        }
        _ => {}
    }
    ended.processes
}

/// Has proxy and network agent of the node on this machine's own network remove what they made: they alone know all of
/// it. Other nodes' goes with their namespaces.
fn clean_agents(state: &State, instance: &Instance, faults: &mut Faults) {
    let Ok(programs) = crate::up::programs() else { return };
    for n in instance.nodes.iter().filter(|(_, shares)| **shares).map(|(n, _)| n) {
        for (program, arguments) in crate::up::cleanups(state, instance, *n) {
            let program = programs.join(program);
            // One that is not there has not run here; what carries the id goes anyhow.
            if program.exists() {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                faults.note(host::run(&program.display().to_string(), &arguments).map(drop));
            }
        }
    }
}

/// Unmounts what nodes mounted below the state directory and the run directory, the deepest first.
fn unmount_below(state: &State) -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let (root, run) = (state.root().display().to_string(), state.run().display().to_string());
    let mut below: Vec<String> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(unescaped)
        .filter(|path| path.starts_with(&format!("{root}/")) || path.starts_with(&format!("{run}/")))
        .collect();
    below.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in below {
        host::run("umount", &["-l", &path])?;
    }
    Ok(())
}

/// A path as it is, of one that the kernel wrote: blanks, tabs, line ends and backslashes stand there in octal.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (octal, character)| path.replace(octal, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_a_blank_is_found() {
        assert_eq!(unescaped("/srv/my\\040state/a\\134040"), "/srv/my state/a\\040");
    }
}
