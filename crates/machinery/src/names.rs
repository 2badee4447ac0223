//! What a name may be, and names that are generated.
//!
//! A check returns what is wrong, in upstream's words; an empty list means that the name is fine.

use rand::Rng;

/// The letters of generated suffixes: no vowels and nothing that is easily mistaken, so that no words come out.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_BASE: usize = 63 - SUFFIX_LENGTH;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const LABEL_FORM: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORM: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY_FORM: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A DNS label (RFC 1123): lower case letters, digits and dashes, at most 63.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !label_form(value) {
        errors.push(if subdomain_form(value) {
            "must not contain dots".to_owned()
        } else {
            regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FORM,
                &["my-name", "123-abc"],
            )
        });
    }
    errors
}

/// A DNS subdomain (RFC 1123): labels with dots between, at most 253 characters.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !subdomain_form(value) {
        errors.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FORM,
            &["example.com"],
        ));
    }
    errors
}

/// A DNS subdomain whose labels may also hold underscores.
pub fn is_dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let label = |label: &str| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        bounded(rest, lower_alphanumeric, |b| lower_alphanumeric(b) || b == b'-' || b == b'_')
    };
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !value.split('.').all(label) {
        errors.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    errors
}

/// A DNS subdomain under a wildcard: `*.example.com`.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if !value.strip_prefix("*.").is_some_and(subdomain_form) {
        errors.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN_FORM}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// A DNS label (RFC 1035): like [`is_dns1123_label`], but it starts with a letter.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, LABEL_MAX);
    if !label_form(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        errors.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// A qualified name, the form of label keys: an optional DNS subdomain and a slash, then a name.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    const WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(prefix_errors(prefix));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex_error(WORDS, LABEL_KEY_FORM, &EXAMPLES)
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !label_key_form(name) {
        errors.push(format!("name part {}", regex_error(WORDS, LABEL_KEY_FORM, &EXAMPLES)));
    }
    errors
}

/// The prefix of a label key counts bytes where a subdomain elsewhere counts characters.
fn prefix_errors(prefix: &str) -> Vec<String> {
    let mut errors = is_dns1123_subdomain(prefix);
    if prefix.len() > SUBDOMAIN_MAX {
        errors[0] = max_bytes(SUBDOMAIN_MAX);
    }
    errors.into_iter().map(|error| format!("prefix part {error}")).collect()
}

/// The value of a label: empty, or letters, digits, `-`, `_` and `.`, at most 63.
pub fn is_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(max_bytes(LABEL_MAX));
    }
    if !value.is_empty() && !label_key_form(value) {
        errors.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_KEY_FORM})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// An identifier of the language C.
pub fn is_c_identifier(value: &str) -> Vec<String> {
    let start = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let bytes = value.as_bytes();
    if bytes.first().copied().is_some_and(start) && bytes.iter().all(|&b| start(b) || b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable, as the API server takes it today: printable ASCII without `=`.
pub fn is_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if !value.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// The name of an environment variable by the older, stricter rule.
pub fn is_strict_env_var_name(value: &str) -> Vec<String> {
    let start = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'-' | b'.' | b'_');
    let bytes = value.as_bytes();
    let mut errors = Vec::new();
    if !(bytes.first().copied().is_some_and(start) && bytes.iter().all(|&b| start(b) || b.is_ascii_digit())) {
        errors.push(regex_error(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    errors.extend(change_directory_errors(value));
    errors
}

/// A key of a ConfigMap or Secret.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let mut errors = too_long(value, SUBDOMAIN_MAX);
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        errors.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(change_directory_errors(value));
    errors
}

/// The number of a port.
pub fn is_port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec![range_error(1, 65535)] }
}

/// The name of a port (an IANA service name).
pub fn is_port_name(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 15);
    if name.is_empty() || !name.bytes().all(|b| lower_alphanumeric(b) || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// A number with a percent sign.
pub fn is_percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
pub fn is_http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A user's id in a security context.
pub fn is_user_id(id: i64) -> Vec<String> {
    id_errors(id)
}

/// A group's id in a security context.
pub fn is_group_id(id: i64) -> Vec<String> {
    id_errors(id)
}

fn id_errors(id: i64) -> Vec<String> {
    let max = i64::from(i32::MAX);
    if (0..=max).contains(&id) { Vec::new() } else { vec![range_error(0, max)] }
}

/// A name that may stand as a segment of a URL's path; what every name must at least be.
pub fn is_path_segment(name: &str) -> Vec<String> {
    match name {
        "." => return vec!["may not be '.'".to_owned()],
        ".." => return vec!["may not be '..'".to_owned()],
        _ => {}
    }
    ["/", "%"].iter().filter(|part| name.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// `base` with a random suffix, cut so that it stays within 63 characters.
pub fn generate(base: &str) -> String {
    let mut end = base.len().min(MAX_GENERATED_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &base[..end], random_suffix(SUFFIX_LENGTH))
}

/// `length` random letters of the suffix alphabet.
pub fn random_suffix(length: usize) -> String {
    let mut random = rand::rng();
    (0..length).map(|_| char::from(SUFFIX_LETTERS[random.random_range(0..SUFFIX_LETTERS.len())])).collect()
}

/// `text` written in the suffix alphabet: what stands for a hash in names (`pod-template-hash`).
pub fn safe_encode(text: &str) -> String {
    text.bytes().map(|b| char::from(SUFFIX_LETTERS[usize::from(b) % SUFFIX_LETTERS.len()])).collect()
}

/// "must be no more than … characters".
pub fn max_len_error(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// "must be between … and …, inclusive".
pub fn range_error(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The words for a value that does not have the form that a regular expression gives.
pub fn regex_error(words: &str, form: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{form}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{form}')", examples.join(" or "))
}

fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![max_len_error(max)] } else { Vec::new() }
}

fn change_directory_errors(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

fn lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// Not empty, `edge` at both ends and `inner` between.
fn bounded(value: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().copied().is_some_and(&edge)
        && bytes.last().copied().is_some_and(&edge)
        && bytes.iter().copied().all(inner)
}

fn label_form(value: &str) -> bool {
    bounded(value, lower_alphanumeric, |b| lower_alphanumeric(b) || b == b'-')
}

fn subdomain_form(value: &str) -> bool {
    value.split('.').all(label_form)
}

fn label_key_form(value: &str) -> bool {
    bounded(value, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains() {
        for good in ["a", "a-1", "0", "1--a--b--2", &"a".repeat(63)] {
            assert!(is_dns1123_label(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a_b", "a b", &"a".repeat(64)] {
            assert!(!is_dns1123_label(bad).is_empty(), "{bad}");
        }
        assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
        assert!(is_dns1123_subdomain("a.1.b-c").is_empty());
        for bad in ["", "a..b", ".a", "a.", "A.b", &"a".repeat(254)] {
            assert!(!is_dns1123_subdomain(bad).is_empty(), "{bad}");
        }
        assert!(is_dns1035_label("a1").is_empty());
        assert!(!is_dns1035_label("1a").is_empty());
        assert!(is_dns1123_subdomain_with_underscore("_a.b_c").is_empty());
        assert!(!is_dns1123_subdomain_with_underscore("a._").is_empty());
        assert!(is_wildcard_dns1123_subdomain("*.a.b").is_empty());
        assert!(!is_wildcard_dns1123_subdomain("a.b").is_empty());
    }

    #[test]
    fn qualified_names_tell_which_part_is_wrong() {
        for good in ["a", "A_b.c", "example.com/x", "1/2"] {
            assert!(is_qualified_name(good).is_empty(), "{good}");
        }
        assert_eq!(is_qualified_name("/x"), ["prefix part must be non-empty"]);
        assert_eq!(
            is_qualified_name("a/b/c"),
            [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
              alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
              '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' \
              (e.g. 'example.com/MyName')"
            ]
        );
        assert_eq!(is_qualified_name("").len(), 2);
        assert_eq!(is_label_value(&"v".repeat(64)), ["must be no more than 63 bytes"]);
        assert!(is_label_value("").is_empty());
    }

    #[test]
    fn other_names() {
        assert!(is_config_map_key("a.b_c").is_empty());
        assert_eq!(is_config_map_key(".."), ["must not be '..'"]);
        assert_eq!(is_config_map_key("..a"), ["must not start with '..'"]);
        assert!(is_env_var_name("a b").is_empty());
        assert_eq!(is_env_var_name("a=b").len(), 1);
        assert!(is_c_identifier("_a1").is_empty());
        assert_eq!(is_port_number(0), ["must be between 1 and 65535, inclusive"]);
        assert!(is_port_name("http-1").is_empty());
        assert_eq!(is_port_name("a--").len(), 2);
        assert_eq!(is_path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
        assert!(!is_percent("%").is_empty());
    }

    #[test]
    fn generated_names_fit_and_use_the_alphabet() {
        let name = generate("web-");
        assert_eq!(name.len(), 9);
        assert!(name[4..].bytes().all(|b| SUFFIX_LETTERS.contains(&b)));
        assert_eq!(generate(&"x".repeat(80)).len(), 63);
        assert_eq!(safe_encode("5498"), "98fd");
    }
}
