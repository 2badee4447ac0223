//! Names that workers choose for what they create.

use trireme_machinery::names::is_dns1123_subdomain;

/// The characters of generated names: no vowels, so no words, and nothing that looks alike.
pub(crate) const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Generated names are as long as those of the API server at most.
const LONGEST_BASE: usize = 58;

/// `<parent>-`, or the parent's name alone where a dash makes no valid name.
pub(crate) fn prefix(parent: &str) -> String {
    let prefix = format!("{parent}-");
    // What follows the prefix is a letter or digit.
    if is_dns1123_subdomain(&format!("{prefix}x")).is_empty() { prefix } else { parent.to_owned() }
}

/// A name that begins with `base` and that nobody else has.
pub(crate) fn generate(base: &str) -> String {
    let base = &base[..base.len().min(LONGEST_BASE)];
    let suffix: String = (0..5).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])).collect();
    format!("{base}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_have_five_more_characters() {
        let name = generate(&prefix("web"));
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert_eq!(generate(&"a".repeat(100)).len(), 63);
    }
}
