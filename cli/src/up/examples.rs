//! Applying the examples, as a user would.

use std::path::Path;

use anyhow::Context as _;

use super::preflight;
use crate::host;

/// `kubectl apply -f FOLDER`.
///
/// # Errors
/// No kubectl, or what it said.
pub(crate) fn apply(kubeconfig: &Path, folder: &Path) -> anyhow::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let kubectl = preflight::find("kubectl")
        .context("kubectl is not installed: run `cargo xtask setup`, or leave the examples out with --no-examples")?;
    let (kubectl, kubeconfig, folder) =
        (kubectl.display().to_string(), kubeconfig.display().to_string(), folder.display().to_string());
    host::run(&kubectl, &["--kubeconfig", &kubeconfig, "apply", "-f", &folder])?;
    let wait = ["wait", "--for=condition=Available", "--timeout=60s", "deployment", "--all"];
    let mut arguments = vec!["--kubeconfig", kubeconfig.as_str()];
    arguments.extend(wait);
    host::run(&kubectl, &arguments).map(|_| ())
}
