//! Text that a user copies into a shell.

use std::path::Path;

/// A path as one word of a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+:,@%=".contains(c);
    if !path.is_empty() && path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_is_quoted_and_a_plain_one_is_not() {
        for (path, word) in
            [("/srv/a-b_c.1", "/srv/a-b_c.1"), ("/my state/x", "'/my state/x'"), ("/it's/$HOME", r"'/it'\''s/$HOME'")]
        {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }
}
