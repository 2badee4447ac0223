//! The machine that a service runs on.

use std::path::Path;

use crate::Error;

/// Where the kernel says it.
const NAME: &str = "/proc/sys/kernel/hostname";

/// The machine's name, as it was set; never empty, because Leases and traces tell instances apart by it.
///
/// # Errors
/// When it can't be read, or was not set.
pub fn hostname() -> Result<String, Error> {
    named(Path::new(NAME))
}

fn named(path: &Path) -> Result<String, Error> {
    let name = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
    match name.trim() {
        // What the kernel says before anybody gave it a name.
        "" | "(none)" => {
            Err(Error::Content { path: path.to_path_buf(), reason: "this machine has no name".to_owned() })
        }
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_machine_without_a_name_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hostname");
        assert!(matches!(named(&file), Err(Error::Read { .. })));
        for (text, name) in [("node-1\n", Some("node-1")), ("\n", None), ("(none)\n", None)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(named(&file).ok().as_deref(), name);
        }
        assert!(!hostname().unwrap().is_empty());
    }
}
