//! Processes of an instance: started apart from the terminal, found again by pid and start time, stopped in order.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::state::{self, State};

/// How long a process may take to end after SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(20);
/// In the environment of every process of an instance: its state directory.
const MARK: &str = "TRIREME_STATE_DIR";
/// How often a state is looked at while waiting for it.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    /// Unique in the instance: names the log and the pid file.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Variables added to its environment.
    pub(crate) environment: Vec<(String, String)>,
    /// The network namespace it runs in, `None` for this machine's.
    pub(crate) namespace: Option<String>,
    /// How to see that it serves.
    pub(crate) ready: Ready,
}

/// How to see that a process serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ready {
    /// `GET http://address:port/readyz` answers 200.
    Http(Ipv4Addr, u16),
    /// `GET https://127.0.0.1:port/readyz` answers 200, under this authority.
    Https(u16, PathBuf),
    /// The port takes connections.
    Tcp(u16),
    /// The socket exists and takes connections.
    Socket(PathBuf),
}

/// A process as its pid file tells it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    pid: i32,
    /// Field 22 of `/proc/<pid>/stat`: a pid that was given to another process has another one.
    start: u64,
    program: PathBuf,
}

impl Process {
    /// Starts it unless it runs. True if it was started.
    pub(crate) fn start(&self, state: &State) -> anyhow::Result<bool> {
        if pid(state, &self.name)?.is_some() {
            return Ok(false);
        }
        let log = state.log(&self.name);
        for folder in [log.parent(), Some(state.pids().as_path())].into_iter().flatten() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let out = fs::File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)
            .with_context(|| log.display().to_string())?;
        let mut command = match &self.namespace {
            Some(namespace) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{namespace}")).arg("--").arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .env(MARK, state.root())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let pid = i32::try_from(child.id())?;
        let start = start_time(pid).with_context(|| format!("{} ended at once: see {}", self.name, log.display()))?;
        state::write_json(&file(state, &self.name), &Record { pid, start, program: self.program.clone() })?;
        Ok(true)
    }

    /// The end of its log, for a message about its failure.
    pub(crate) fn last_words(&self, state: &State) -> String {
        let text = fs::read_to_string(state.log(&self.name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// The pid of a process of the instance, if it runs.
pub(crate) fn pid(state: &State, name: &str) -> anyhow::Result<Option<i32>> {
    // One that a power cut left unreadable names nobody: a process that runs nevertheless is found by its mark.
    let record: Option<Record> = state::read_json(&file(state, name)).ok().flatten();
    Ok(record.filter(|r| start_time(r.pid) == Some(r.start)).map(|r| r.pid))
}

/// The names of every process that was started and not stopped.
pub(crate) fn names(state: &State) -> anyhow::Result<Vec<String>> {
    let folder = state.pids();
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json")
            && let Some(stem) = path.file_stem()
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Whether any process of the instance runs.
pub(crate) fn runs_any(state: &State) -> anyhow::Result<bool> {
    Ok(names(state)?.iter().any(|name| matches!(pid(state, name), Ok(Some(_)))))
}

/// Ends the processes named, all at once: SIGTERM, and SIGKILL after the grace. Their pid files go.
pub(crate) fn stop(state: &State, names: &[String]) -> anyhow::Result<()> {
    let mut running = Vec::new();
    for name in names {
        if let Some(pid) = pid(state, name)? {
            signal(pid, Signal::SIGTERM)?;
            running.push((name.clone(), pid));
        }
    }
    let deadline = Instant::now() + STOP_GRACE;
    while Instant::now() < deadline && running.iter().any(|(name, _)| matches!(pid(state, name), Ok(Some(_)))) {
        std::thread::sleep(POLL);
    }
    for (name, known) in running {
        if pid(state, &name)? == Some(known) {
            signal(known, Signal::SIGKILL)?;
        }
    }
    for name in names {
        let file = file(state, name);
        match fs::remove_file(&file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => bail!("{}: {e}", file.display()),
            _ => {}
        }
    }
    Ok(())
}

/// Ends processes of the instance that no pid file names: those of an `up` that was killed before it wrote one. How many.
pub(crate) fn stop_strays(state: &State) -> anyhow::Result<usize> {
    let mark = [MARK.as_bytes(), b"=", state.root().as_os_str().as_encoded_bytes()].concat();
    let (mut strays, own) = (Vec::new(), i32::try_from(std::process::id())?);
    for entry in fs::read_dir("/proc").context("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // Another user's, or gone by now.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
        if pid != own && environment.split(|b| *b == 0).any(|variable| variable == mark) {
            strays.extend(start_time(pid).map(|start| (pid, start)));
        }
    }
    let runs = |(pid, start): &&(i32, u64)| start_time(*pid) == Some(*start);
    for (pid, _) in &strays {
        // A shim without its containerd has nothing to put in order, and takes no SIGTERM.
        signal(*pid, if is_shim(*pid) { Signal::SIGKILL } else { Signal::SIGTERM })?;
    }
    let deadline = Instant::now() + STOP_GRACE;
    while Instant::now() < deadline && strays.iter().any(|stray| runs(&stray)) {
        std::thread::sleep(POLL);
    }
    for (pid, _) in strays.iter().filter(runs) {
        signal(*pid, Signal::SIGKILL)?;
    }
    Ok(strays.len())
}

fn is_shim(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("containerd-shim"))
}

/// Whether there is such a process, and not only what is left of it until it is reaped.
pub(crate) fn runs(pid: i32) -> bool {
    start_time(pid).is_some()
}

/// Ends a process at once.
pub(crate) fn kill(pid: i32) -> anyhow::Result<()> {
    signal(pid, Signal::SIGKILL)
}

fn signal(pid: i32, signal: Signal) -> anyhow::Result<()> {
    match signal::kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot end process {pid}")),
    }
}

fn file(state: &State, name: &str) -> PathBuf {
    state.pids().join(format!("{name}.json"))
}

/// When a process was started, in clock ticks since boot; `None` if it does not run or only waits to be reaped.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The command's name may hold anything; what follows its last parenthesis is fields 3 and up.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(program: &str, argument: &str) -> Process {
        Process {
            name: "sleeper".into(),
            program: program.into(),
            arguments: vec![argument.into()],
            environment: vec![],
            namespace: None,
            ready: Ready::Tcp(1),
        }
    }

    #[test]
    fn a_process_is_started_once_and_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        let sleeper = sleeper("/bin/sleep", "600");
        assert!(sleeper.start(&state).unwrap());
        assert!(!sleeper.start(&state).unwrap());
        assert_eq!(names(&state).unwrap(), ["sleeper"]);
        stop(&state, &names(&state).unwrap()).unwrap();
        assert_eq!(pid(&state, "sleeper").unwrap(), None);
        assert!(names(&state).unwrap().is_empty());
    }

    #[test]
    fn a_process_without_a_pid_file_is_found_and_stopped() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (state, other) = (State::open(folder.path()).unwrap(), State::open(other.path()).unwrap());
        sleeper("/bin/sleep", "600").start(&state).unwrap();
        sleeper("/bin/sleep", "600").start(&other).unwrap();
        let lost = pid(&state, "sleeper").unwrap().unwrap();
        fs::remove_file(file(&state, "sleeper")).unwrap();
        assert_eq!(stop_strays(&state).unwrap(), 1);
        assert_eq!(start_time(lost), None);
        assert!(pid(&other, "sleeper").unwrap().is_some(), "another instance's stays");
        stop(&other, &names(&other).unwrap()).unwrap();
    }

    #[test]
    fn a_pid_that_is_another_process_now_is_not_ours() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(folder.path()).unwrap();
        fs::create_dir_all(state.pids()).unwrap();
        let record = Record { pid: i32::try_from(std::process::id()).unwrap(), start: 1, program: "/x".into() };
        state::write_json(&file(&state, "old"), &record).unwrap();
        assert_eq!(pid(&state, "old").unwrap(), None);
        stop(&state, &["old".into()]).unwrap();
    }
}
