//! Importing image archives into a node's containerd.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};

use crate::host;

/// Imports every `*.tar` of `folder` into the namespace that CRI uses.
///
/// # Errors
/// No archive is there, or one cannot be imported.
pub(crate) fn import(socket: &Path, folder: &Path) -> anyhow::Result<()> {
    let mut archives: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("no images in {}: run `cargo xtask images`", folder.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "tar"))
        .collect();
    archives.sort();
    if archives.is_empty() {
        bail!("no images in {}: run `cargo xtask images`", folder.display());
    }
    for archive in archives {
        let (socket, archive) = (socket.display().to_string(), archive.display().to_string());
        host::run("ctr", &["-a", &socket, "-n", "k8s.io", "images", "import", &archive])?;
    }
    Ok(())
}
