//! The last words of a container.

use crate::cri::state::{ContainerState, PodState, Stage};
use crate::server::logs;
use std::io::{Error, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// So much of them is kept.
const LONGEST: u64 = 4096;
/// Of logs: so much, and so many lines.
const LONGEST_LOG: usize = 2048;
const LINES: usize = 80;

/// Adds what containers that ended wrote to their termination file, or the end of their log. Reads from the disk.
pub(super) fn enrich(state: &mut PodState, pod_dir: &Path) {
    for run in state.containers.iter_mut().filter(|run| run.stage == Stage::Exited) {
        if let Some(words) = last_words(run, pod_dir).filter(|words| !words.is_empty()) {
            if !run.message.is_empty() {
                run.message.push_str(": ");
            }
            run.message.push_str(&words);
        }
    }
}

/// Where the kubelet keeps the files for the last words of a container, below the Pod's folder.
pub(super) fn directory(pod_dir: &Path, container: &str) -> PathBuf {
    pod_dir.join("containers").join(container)
}

/// The file that the kubelet made for a container. What the Pod itself mounts at that path is none: it may be any file
/// of the node, or one that keeps its reader waiting.
pub(super) fn file(pod_dir: &Path, run: &ContainerState) -> Option<PathBuf> {
    let own = directory(pod_dir, &run.name);
    // The way to the kubelet's folder may have been written otherwise when the container was made.
    let known = own.strip_prefix(pod_dir.parent()?.parent()?).ok()?;
    // The kubelet's own mounts come last.
    let file = run.mounts.iter().rev().map(|(_, file)| Path::new(file));
    let mut made = file.filter(|file| file.parent().is_some_and(|parent| parent.ends_with(known)));
    made.find_map(|file| Some(own.join(file.file_name()?)))
}

fn last_words(run: &ContainerState, pod_dir: &Path) -> Option<String> {
    let path = run.annotated.termination_message_path.as_str();
    let from_logs = run.annotated.termination_message_policy == "FallbackToLogsOnError"
        && run.exit_code != 0
        && run.reason != "ContainerCannotRun";
    if let Some(file) = file(pod_dir, run).filter(|_| !path.is_empty()) {
        match read(&file) {
            Ok(words) if !words.is_empty() => return Some(words),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Some(format!("Error on reading termination log {path}: {error}"));
            }
            _ => {}
        }
    }
    from_logs.then(|| logs::last_lines(Path::new(&run.log_path), LINES, LONGEST_LOG))
}

/// The end of it.
fn read(path: &Path) -> std::io::Result<String> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOFOLLOW;
    let mut file = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Error::other("not a regular file"));
    }
    file.seek(SeekFrom::Start(meta.len().saturating_sub(LONGEST)))?;
    let mut words = Vec::new();
    file.take(LONGEST).read_to_end(&mut words)?;
    Ok(String::from_utf8_lossy(&words).into_owned())
}

/// A container that failed.
#[cfg(test)]
pub(super) fn ended(mounts: &[&Path]) -> PodState {
    let at = "/dev/termination-log";
    let run = ContainerState {
        id: "i".into(),
        name: "c".into(),
        sandbox_id: "s".into(),
        stage: Stage::Exited,
        created_at: 1,
        started_at: 1,
        finished_at: 2,
        exit_code: 1,
        reason: "Error".into(),
        message: String::new(),
        image: String::new(),
        image_ref: String::new(),
        log_path: String::new(),
        annotated: crate::cri::names::Annotated {
            termination_message_path: at.into(),
            ..crate::cri::names::Annotated::default()
        },
        mounts: mounts.iter().map(|file| (at.to_owned(), file.to_string_lossy().into_owned())).collect(),
    };
    PodState { sandboxes: Vec::new(), containers: vec![run] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn message(mounts: &[&Path], pod_dir: &Path) -> String {
        let (mut state, pod_dir) = (ended(mounts), pod_dir.to_owned());
        let (done, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            enrich(&mut state, &pod_dir);
            done.send(state.containers[0].message.clone()).unwrap();
        });
        told.recv_timeout(std::time::Duration::from_secs(20)).expect("nobody waits for a pipe's other end")
    }

    #[test]
    fn only_the_kubelets_own_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let pod_dir = dir.path().join("pods/u");
        let own = directory(&pod_dir, "c");
        fs::create_dir_all(&own).unwrap();
        let (pipe, secret, words) = (dir.path().join("pipe"), dir.path().join("secret"), own.join("1234"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(&secret, "of the node").unwrap();
        fs::write(&words, "why").unwrap();
        assert_eq!(message(&[&pipe], &pod_dir), "");
        assert_eq!(message(&[&secret], &pod_dir), "");
        assert_eq!(message(&[&pipe, &secret, &words], &pod_dir), "why");
        // Written down before the way there was resolved.
        assert_eq!(message(&[Path::new("/var/lib/kubelet/pods/u/containers/c/1234")], &pod_dir), "why");
        assert_eq!(message(&[Path::new("/var/lib/kubelet/pods/u/containers/c/..")], &pod_dir), "");
        fs::write(&words, "x".repeat(5000) + "the end").unwrap();
        let kept = message(&[&words], &pod_dir);
        assert!(kept.len() == 4096 && kept.ends_with("the end"), "as upstream, the end is kept");
        fs::remove_file(&words).unwrap();
        nix::unistd::mkfifo(&words, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let told = message(&[&words], &pod_dir);
        assert_eq!(told, "Error on reading termination log /dev/termination-log: not a regular file");
        fs::remove_file(&words).unwrap();
        std::os::unix::fs::symlink(&secret, &words).unwrap();
        assert!(!message(&[&words], &pod_dir).contains("of the node"));
    }
}
