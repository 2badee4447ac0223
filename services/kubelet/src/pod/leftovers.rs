//! What a container leaves on the node's disk: its log, the link by which collectors find it, the file for its last
//! words. All of it goes with the container, or the disk of a Pod that restarts for ever would fill up.

use super::{termination, view};
use crate::cri::state::ContainerState;
use crate::rotation;
use k8s_openapi::api::core::v1::Pod;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// So long a name may be.
const LONGEST_NAME: usize = 255;
const SUFFIX: &str = ".log";

/// Log collectors look for containers by name in one folder.
pub(super) fn link_log(links: &Path, pod: &Pod, container: &str, id: &str, log: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(links)?;
    match std::os::unix::fs::symlink(log, link(links, pod, container, id)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn link(links: &Path, pod: &Pod, container: &str, id: &str) -> PathBuf {
    let mut name = format!("{}_{}_{container}-{id}", view::name(pod), view::namespace(pod));
    name.truncate(name.floor_char_boundary(LONGEST_NAME - SUFFIX.len()));
    links.join(name + SUFFIX)
}

/// Where such files are.
pub(super) struct Places<'a> {
    /// Of links to logs, if there are any.
    pub(super) links: Option<&'a Path>,
    /// Of all Pods' logs.
    pub(super) logs: &'a Path,
    /// The Pod's own.
    pub(super) pod: &'a Path,
}

/// All files of one container that the runtime has no more.
pub(super) fn of_container(places: &Places<'_>, pod: &Pod, run: &ContainerState) -> Vec<PathBuf> {
    let log = Path::new(&run.log_path);
    let mut files = Vec::new();
    files.extend(places.links.map(|links| link(links, pod, &run.name, &run.id)));
    if log.starts_with(places.logs) {
        files.extend(rotation::set_aside(log));
        files.push(log.to_owned());
    }
    files.extend(termination::file(places.pod, run));
    files
}

/// Removes files; that some stay is no reason not to go on.
pub(super) fn remove(files: &[PathBuf]) {
    for file in files {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::info!(%error, path = %file.display(), "a file of a container that is gone was not removed");
            }
            _ => {}
        }
    }
}

/// The links to the logs of one Pod.
pub(super) fn links_into(links: &Path, logs: &Path) -> Vec<PathBuf> {
    all(links).into_iter().filter(|(_, target)| target.starts_with(logs)).map(|(link, _)| link).collect()
}

/// Removes links to logs that are gone: of Pods that went while no kubelet ran. Not while logs are rotated, as they
/// then have another name for a moment.
pub(crate) fn sweep(links: &Path) {
    let is_gone = |target: &Path| std::fs::metadata(target).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    remove(&all(links).into_iter().filter(|(_, target)| is_gone(target)).map(|(link, _)| link).collect::<Vec<_>>());
}

/// The links there, and what they lead to.
fn all(links: &Path) -> Vec<(PathBuf, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(links) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.filter_map(|path| Some((path.clone(), std::fs::read_link(path).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn pod(name: &str) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": name, "namespace": "n", "uid": "u"}})).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut all: Vec<_> =
            fs::read_dir(dir).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn the_files_of_a_container_go_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let places = Places { links: Some(&path("links")), logs: &path("logs"), pod: &path("pods/u") };
        for folder in ["links", "logs/n_a_u/c", "pods/u/containers/c"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        let mut run = termination::ended(&[]).containers.remove(0);
        for attempt in ["0", "1"] {
            run.id = attempt.into();
            let log = path("logs/n_a_u/c").join(format!("{attempt}.log"));
            let words = path("pods/u/containers/c").join(attempt);
            for file in [&log, &words, &log.with_extension("log.20260101-000000")] {
                fs::write(file, "x").unwrap();
            }
            link_log(places.links.unwrap(), &pod("a"), "c", attempt, &log).unwrap();
            run.log_path = log.to_string_lossy().into_owned();
            run.mounts = vec![("/dev/termination-log".into(), words.to_string_lossy().into_owned())];
            if attempt == "0" {
                remove(&of_container(&places, &pod("a"), &run));
            }
        }
        assert_eq!(names(&path("logs/n_a_u/c")), ["1.log", "1.log.20260101-000000"]);
        assert_eq!(
            (names(&path("pods/u/containers/c")), names(&path("links"))),
            (vec!["1".into()], vec!["a_n_c-1.log".into()])
        );
        // A log elsewhere is somebody else's.
        run.log_path = "/var/log/syslog".into();
        assert!(!of_container(&places, &pod("a"), &run).contains(&"/var/log/syslog".into()));
    }

    #[test]
    fn links_go_with_their_pod() {
        let dir = tempfile::tempdir().unwrap();
        let links = dir.path().join("containers");
        for name in ["a", "b"] {
            let log = dir.path().join("pods").join(name).join("c/0.log");
            fs::create_dir_all(log.parent().unwrap()).unwrap();
            fs::write(&log, "x").unwrap();
            link_log(&links, &pod(name), "c", "id", &log).unwrap();
            link_log(&links, &pod(name), "c", "id", &log).unwrap();
        }
        assert_eq!(names(&links), ["a_n_c-id.log", "b_n_c-id.log"]);
        assert_eq!(fs::read_to_string(links.join("a_n_c-id.log")).unwrap(), "x");
        remove(&links_into(&links, &dir.path().join("pods/a")));
        assert_eq!(names(&links), ["b_n_c-id.log"]);
        // A file of somebody else's, and a Pod that went unseen.
        fs::write(links.join("mine.log"), "").unwrap();
        sweep(&links);
        assert_eq!(names(&links), ["b_n_c-id.log", "mine.log"]);
        fs::remove_dir_all(dir.path().join("pods")).unwrap();
        sweep(&links);
        assert_eq!(names(&links), ["mine.log"]);
    }

    #[test]
    fn the_name_of_a_link_is_cut_as_upstream_cuts_it() {
        let dir = tempfile::tempdir().unwrap();
        link_log(dir.path(), &pod(&"p".repeat(253)), "c", &"f".repeat(64), Path::new("/log")).unwrap();
        assert_eq!(names(dir.path()), [format!("{}{SUFFIX}", &format!("{}_n_c-", "p".repeat(253))[..251])]);
    }
}
