//! Importing image archives into a node's containerd.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::host;

/// The image archives of a folder: every `*.tar`.
///
/// # Errors
/// There is none.
pub(crate) fn archives(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let none = || format!("no images in {}: run `cargo xtask images`", folder.display());
    let mut archives: Vec<_> = fs::read_dir(folder)
        .with_context(none)?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "tar"))
        .collect();
    archives.sort();
    if archives.is_empty() {
        bail!(none());
    }
    Ok(archives)
}

/// Imports them into the namespace that CRI uses.
///
/// # Errors
/// One cannot be imported.
pub(crate) fn import(socket: &Path, archives: &[PathBuf]) -> anyhow::Result<()> {
    for archive in archives {
        let (socket, archive) = (socket.display().to_string(), archive.display().to_string());
        host::run("ctr", &["-a", &socket, "-n", "k8s.io", "images", "import", &archive])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_archives_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        for place in [folder.path().to_owned(), folder.path().join("none")] {
            let said = format!("{:#}", archives(&place).unwrap_err());
            assert!(said.contains(&place.display().to_string()) && said.contains("cargo xtask images"), "{said}");
        }
        fs::write(folder.path().join("echo.tar"), "").unwrap();
        assert_eq!(archives(folder.path()).unwrap(), [folder.path().join("echo.tar")]);
    }
}
