//! Reads the record.

use std::path::PathBuf;

use serde_json::Value;

/// `$TRIREME_GOLDEN`, by default `../shared/golden` beside the repository; a test that needs it is skipped without it.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TRIREME_GOLDEN")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no golden record in {} (set TRIREME_GOLDEN)", folder.display());
    None
}

/// A recorded document.
pub(crate) fn document(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder()?.join("documents").join(name)).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// The cases of a group.
pub(crate) fn cases(group: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(folder()?.join("exchanges").join(format!("{group}.jsonl"))).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(&line.replace("${ns}", "golden-ns")).unwrap()).collect())
}
