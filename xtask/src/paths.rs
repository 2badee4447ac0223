//! Where things are.

use std::path::PathBuf;

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    // What cargo says now: checkouts may share a target folder, and then the program may be of another one.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(manifest).parent().map_or_else(PathBuf::new, PathBuf::from)
}

/// Cargo's target folder: `$CARGO_TARGET_DIR`, else `target`.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// What is installed for this project outside the checkout: `$TRIREME_CACHE`, else `~/.cache/trireme`.
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("TRIREME_CACHE").map_or_else(
        || std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from).join(".cache/trireme"),
        PathBuf::from,
    )
}

/// The Python environment that `setup` makes: kubectl, cargo-nextest, what the golden programs import.
pub(crate) fn venv() -> PathBuf {
    cache().join("venv")
}

/// A program of the Python environment.
pub(crate) fn tool(name: &str) -> PathBuf {
    venv().join("bin").join(name)
}

/// The golden records: `$TRIREME_GOLDEN`, else `../shared/golden`; `None` if there is no such folder.
pub(crate) fn golden() -> Option<PathBuf> {
    let folder = std::env::var_os("TRIREME_GOLDEN").map_or_else(|| root().join("../shared/golden"), PathBuf::from);
    folder.is_dir().then_some(folder)
}
