//! Reads the record.

use std::path::PathBuf;

use serde_json::Value;

/// `$TRIREME_GOLDEN`, by default `../shared/golden` beside the repository; a test that needs it is skipped without it,
/// unless it was named.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("TRIREME_GOLDEN").map(PathBuf::from);
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let folder = named.clone().unwrap_or_else(beside);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(named.is_none(), "no golden record in {}", folder.display());
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
