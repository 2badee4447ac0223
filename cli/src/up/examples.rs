//! Applying the examples, as a user would.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::options::Options;
use crate::{host, program, state::Instance};

/// The folder to apply, if any: once in an instance's life, since what the user does to them afterwards is meant; later
/// only if asked.
///
/// # Errors
/// They cannot be applied: the folder that was asked for is not there, or kubectl.
pub(crate) fn wanted(options: &Options, instance: Option<&Instance>) -> anyhow::Result<Option<PathBuf>> {
    let folder = match &options.examples {
        Some(asked) if !asked.is_dir() => bail!("there are no examples in {}", asked.display()),
        Some(asked) => asked.clone(),
        None if options.no_examples || instance.is_some_and(|known| known.was_up) => return Ok(None),
        None => PathBuf::from("examples"),
    };
    if folder.is_dir() && program::find("kubectl").is_none() {
        bail!("kubectl is not installed: run `cargo xtask setup`, or leave the examples out with --no-examples");
    }
    Ok(folder.is_dir().then_some(folder))
}

/// `kubectl apply -f FOLDER`, and waits for their Deployments.
///
/// # Errors
/// What kubectl said.
pub(crate) fn apply(kubeconfig: &Path, folder: &Path) -> anyhow::Result<()> {
    let (kubeconfig, folder) = (kubeconfig.display().to_string(), folder.display().to_string());
    let kubectl =
        |arguments: &[&str]| host::run("kubectl", &[&["--kubeconfig", kubeconfig.as_str()][..], arguments].concat());
    let applied = kubectl(&["apply", "-o", "name", "-f", &folder])?;
    // Not every Deployment there is: the user's own may be broken.
    let deployments: Vec<&str> = applied.lines().filter(|name| name.starts_with("deployment.apps/")).collect();
    if deployments.is_empty() {
        return Ok(());
    }
    kubectl(&[&["wait", "--for=condition=Available", "--timeout=60s"][..], deployments.as_slice()].concat()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::options::options;

    fn instance(was_up: bool) -> Instance {
        let nodes = [(1, true)].into();
        Instance { version: 1, id: "0a1b2c".to_owned(), network: [10, 200, 7], store_members: 1, nodes, was_up }
    }

    #[test]
    fn they_are_applied_once_and_later_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let asked = format!("--examples={}", folder.path().display());
        let none = format!("--examples={}", folder.path().join("none").display());
        assert_eq!(wanted(&options(&[]), Some(&instance(true))).unwrap(), None);
        assert_eq!(wanted(&options(&["--no-examples"]), None).unwrap(), None);
        assert!(wanted(&options(&[&none]), None).is_err());
        if program::find("kubectl").is_some() {
            assert_eq!(wanted(&options(&[&asked]), Some(&instance(true))).unwrap(), Some(folder.path().to_owned()));
            assert_eq!(wanted(&options(&[&asked]), Some(&instance(false))).unwrap(), Some(folder.path().to_owned()));
        }
        assert_eq!(options(&["--examples"]).examples, Some("examples".into()));
    }
}
