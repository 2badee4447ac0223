//! Processes of an instance: started apart from the terminal, found again by pid and start time, stopped in order.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::{
    program,
    state::{self, State},
};

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
    #[serde(default)]
    arguments: Vec<String>,
    /// Files of before this was kept have none.
    #[serde(default)]
    file: Option<File>,
}

/// Which file a program is: what is built anew is another one, or the same one changed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct File {
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

impl File {
    fn of(program: &Path) -> Option<Self> {
        let meta = fs::metadata(program).ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino(), modified: (meta.mtime(), meta.mtime_nsec()) })
    }
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
                let mut command = program::command("nsenter");
                command.arg(format!("--net=/run/netns/{namespace}")).arg("--").arg(&self.program);
                command
            }
            None => program::command(&self.program),
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
        let file_started = File::of(&self.program);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let pid = i32::try_from(child.id())?;
        let Some(start) = start_time(pid) else {
            bail!("{} ended at once; the end of {}:\n{}", self.name, log.display(), self.last_words(state));
        };
        let record =
            Record { pid, start, program: self.program.clone(), arguments: self.arguments.clone(), file: file_started };
        state::write_json(&file(state, &self.name), &record)?;
        Ok(true)
    }

    /// What of the one that runs is not as wanted now; `None` if all is, or if none runs.
    pub(crate) fn changed(&self, state: &State) -> Option<&'static str> {
        let Record { program, arguments, file, .. } = running(state, &self.name)?;
        let rebuilt = program != self.program || File::of(&self.program).is_some_and(|now| file != Some(now));
        match (file.is_some() && arguments != self.arguments, rebuilt) {
            (false, false) => None,
            (true, false) => Some("its flags changed"),
            (false, true) => Some("its program changed"),
            (true, true) => Some("its flags and its program changed"),
        }
    }

    /// The end of its log, for a message about its failure.
    pub(crate) fn last_words(&self, state: &State) -> String {
        let text = fs::read_to_string(state.log(&self.name)).unwrap_or_default();
        // Of wrong flags the error comes first, and usage below it.
        let lines: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(6).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// The pid of a process of the instance, if it runs.
pub(crate) fn pid(state: &State, name: &str) -> anyhow::Result<Option<i32>> {
    Ok(running(state, name).map(|r| r.pid))
}

fn running(state: &State, name: &str) -> Option<Record> {
    // One that a power cut left unreadable names nobody: a process that runs nevertheless is found by its mark.
    let record: Option<Record> = state::read_json(&file(state, name)).ok().flatten();
    record.filter(|r| start_time(r.pid) == Some(r.start))
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

/// How many processes of the instance run.
pub(crate) fn count(state: &State) -> anyhow::Result<usize> {
    Ok(names(state)?.iter().filter(|name| running(state, name).is_some()).count())
}

/// Whether any process of the instance runs.
pub(crate) fn runs_any(state: &State) -> anyhow::Result<bool> {
    Ok(count(state)? > 0)
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
    fn other_flags_and_another_build_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(&folder.path().join("state")).unwrap();
        let program = folder.path().join("program").display().to_string();
        fs::copy("/bin/sleep", &program).unwrap();
        let started = sleeper(&program, "600");
        assert_eq!(started.changed(&state), None, "none runs");
        started.start(&state).unwrap();
        assert_eq!(started.changed(&state), None);
        assert_eq!(sleeper(&program, "601").changed(&state), Some("its flags changed"));
        fs::copy("/bin/sleep", folder.path().join("new")).unwrap();
        fs::rename(folder.path().join("new"), &program).unwrap();
        assert_eq!(started.changed(&state), Some("its program changed"));
        assert_eq!(sleeper(&program, "601").changed(&state), Some("its flags and its program changed"));
        fs::remove_file(&program).unwrap();
        assert_eq!(started.changed(&state), None, "there is nothing to start in its place");
        stop(&state, &names(&state).unwrap()).unwrap();
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
        let record = Record {
            pid: i32::try_from(std::process::id()).unwrap(),
            start: 1,
            program: "/x".into(),
            arguments: vec![],
            file: None,
        };
        state::write_json(&file(&state, "old"), &record).unwrap();
        assert_eq!(pid(&state, "old").unwrap(), None);
        stop(&state, &["old".into()]).unwrap();
    }
}
