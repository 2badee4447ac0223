//! A ledger: the sorted names of what once matched. It only grows.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, bail};

/// Reads a ledger; one that does not exist yet is empty.
pub(crate) fn read(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned).collect()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Holds what matched now against the ledger at `path`.
///
/// # Errors
/// Something of the ledger no longer matches. With `update`, what is new is written down first.
pub(crate) fn check(path: &Path, matched: &BTreeSet<String>, update: bool) -> anyhow::Result<()> {
    let known = read(path)?;
    let new = matched.difference(&known).count();
    let lost: Vec<&String> = known.difference(matched).collect();
    if update && new > 0 {
        let all: BTreeSet<_> = known.union(matched).cloned().collect();
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let text: String = all.iter().map(|id| format!("{id}\n")).collect();
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    println!("ledger: {} known, {} matched now, {new} new", known.len(), matched.len());
    if !lost.is_empty() {
        let shown: Vec<&str> = lost.iter().take(20).map(|s| s.as_str()).collect();
        bail!("{} of the ledger no longer match: {}", lost.len(), shown.join(", "));
    }
    Ok(())
}
