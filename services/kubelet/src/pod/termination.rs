//! The last words of a container.

use crate::cri::state::{ContainerState, PodState, Stage};
use crate::server::logs;
use std::io::Read as _;
use std::path::Path;

/// So much of them is kept.
const LONGEST: u64 = 4096;
/// Of logs: so much, and so many lines.
const LONGEST_LOG: usize = 2048;
const LINES: usize = 80;

/// Adds what containers that ended wrote to their termination file, or the end of their log.
pub(super) fn enrich(state: &mut PodState) {
    for run in state.containers.iter_mut().filter(|run| run.stage == Stage::Exited) {
        if let Some(words) = last_words(run).filter(|words| !words.is_empty()) {
            if !run.message.is_empty() {
                run.message.push_str(": ");
            }
            run.message.push_str(&words);
        }
    }
}

fn last_words(run: &ContainerState) -> Option<String> {
    let path = run.annotated.termination_message_path.as_str();
    let from_logs = run.annotated.termination_message_policy == "FallbackToLogsOnError"
        && run.exit_code != 0
        && run.reason != "ContainerCannotRun";
    let file = run.mounts.iter().find(|(inside, _)| inside == path).map(|(_, file)| file);
    if let Some(file) = file.filter(|_| !path.is_empty()) {
        let mut words = Vec::new();
        match std::fs::File::open(file) {
            Ok(file) => {
                if let Err(error) = file.take(LONGEST).read_to_end(&mut words) {
                    return Some(format!("Error on reading termination log {path}: {error}"));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Some(format!("Error on reading termination log {path}: {error}")),
        }
        if !words.is_empty() {
            return Some(String::from_utf8_lossy(&words).into_owned());
        }
    }
    from_logs.then(|| logs::last_lines(Path::new(&run.log_path), LINES, LONGEST_LOG))
}
