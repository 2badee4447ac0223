//! `$(NAME)` in commands, arguments and values of variables.

/// Replaces what `lookup` knows; `$$(NAME)` stands for a literal `$(NAME)`, and what is not known stays as it is.
pub fn expand(input: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut output = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        output.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            output.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('(') {
            let Some(end) = after.find(')') else {
                output.push_str("$(");
                rest = after;
                continue;
            };
            let name = &after[..end];
            match lookup(name) {
                Some(value) => output.push_str(&value),
                None => {
                    output.push_str("$(");
                    output.push_str(name);
                    output.push(')');
                }
            }
            rest = &after[end + 1..];
        } else {
            output.push('$');
        }
    }
    output.push_str(rest);
    output
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn cases() {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("$(A)".to_owned()),
            "E" => Some(String::new()),
            _ => None,
        };
        for (input, output) in [
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$(B)", "$(A)"),
            ("$(NO)", "$(NO)"),
            ("$(E)", ""),
            ("$(A", "$(A"),
            ("$A $", "$A $"),
            ("$(A)$(", "1$("),
            ("ü$(A)ü", "ü1ü"),
        ] {
            assert_eq!(expand(input, lookup), output, "{input}");
        }
    }
}
