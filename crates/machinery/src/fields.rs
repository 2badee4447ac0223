//! Field selectors: `metadata.name=web,spec.nodeName!=n1`.

use std::fmt;

use crate::Error;
use crate::go;

/// Which objects are meant, by the values of some of their fields. All terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    terms: Vec<Requirement>,
}

/// One term of a [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The field, as `spec.nodeName`.
    pub field: String,
    /// Whether the field must be equal to the value, or must not.
    pub operator: Operator,
    /// The value.
    pub value: String,
}

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=` and `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

// === impl Selector ===

impl Selector {
    /// The selector that every object matches.
    pub fn everything() -> Self {
        Self::default()
    }

    /// The objects whose `field` is `value`.
    pub fn equals(field: &str, value: &str) -> Self {
        let term = Requirement { field: field.to_owned(), operator: Operator::Equals, value: value.to_owned() };
        Self { terms: vec![term] }
    }

    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, operator, value)) = split_term(part) else {
                return Err(Error::Selector(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            terms.push(Requirement { field: field.to_owned(), operator, value: unescape(value)? });
        }
        Ok(Self { terms })
    }

    /// The same with each field's name and value as `rename` gives them; `None` drops the term.
    pub fn try_map<E>(
        self,
        mut rename: impl FnMut(String, String) -> Result<Option<(String, String)>, E>,
    ) -> Result<Self, E> {
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in self.terms {
            if let Some((field, value)) = rename(term.field, term.value)? {
                terms.push(Requirement { field, operator: term.operator, value });
            }
        }
        Ok(Self { terms })
    }

    /// The terms.
    pub fn requirements(&self) -> &[Requirement] {
        &self.terms
    }

    /// Whether every object matches.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that `field` must have to match, if there is one.
    pub fn requires_exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.field == field && term.operator == Operator::Equals)
            .map(|term| term.value.as_str())
    }

    /// Whether an object with these fields matches; a field that is not among them is empty.
    pub fn matches<N: AsRef<str>, V: AsRef<str>>(&self, fields: &[(N, V)]) -> bool {
        self.terms.iter().all(|term| {
            let found = fields.iter().find(|(name, _)| name.as_ref() == term.field);
            let equal = found.map_or("", |(_, value)| value.as_ref()) == term.value;
            equal == (term.operator == Operator::Equals)
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if term.operator == Operator::Equals { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Writes a value so that [`Selector::parse`] reads it back.
pub fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

fn unescape(value: &str) -> Result<String, Error> {
    let sequence = |text: &str| Error::Selector(format!("invalid field selector: invalid escape sequence: {text}"));
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(sequence(&format!("\\{c}"))),
                None => return Err(sequence("\\")),
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(Error::Selector(format!("invalid field selector: unescaped character in value: {code}")));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    const OPERATORS: [(&str, Operator); 3] =
        [("!=", Operator::NotEquals), ("==", Operator::Equals), ("=", Operator::Equals)];
    term.char_indices().find_map(|(at, _)| {
        OPERATORS
            .iter()
            .find(|(sign, _)| term[at..].starts_with(sign))
            .map(|(sign, operator)| (&term[..at], *operator, &term[at + sign.len()..]))
    })
}

/// The words for a field that a kind cannot be selected by.
pub fn unknown_field(field: &str, known: &[&str]) -> String {
    let known: Vec<String> = known.iter().map(|field| go::quote(field)).collect();
    format!("{} is not a known field selector: only {}", go::quote(field), known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_sorted_and_compared() {
        let selector = Selector::parse("spec.nodeName!=n1,metadata.name==a").unwrap();
        assert_eq!(selector.to_string(), "metadata.name=a,spec.nodeName!=n1");
        assert!(selector.matches(&[("metadata.name", "a")]));
        assert!(!selector.matches(&[("metadata.name", "a"), ("spec.nodeName", "n1")]));
        assert_eq!(selector.requires_exact("metadata.name"), Some("a"));
        assert_eq!(selector.requires_exact("spec.nodeName"), None);
        assert!(Selector::parse(",,").unwrap().is_empty());
    }

    #[test]
    fn errors_are_upstreams() {
        let error = |text: &str| Selector::parse(text).unwrap_err().to_string();
        assert_eq!(error("a"), "invalid selector: 'a'; can't understand 'a'");
        assert_eq!(error("a=b\\c"), "invalid field selector: invalid escape sequence: \\c");
        assert_eq!(error("a=b=c"), "invalid field selector: unescaped character in value: 61");
        assert_eq!(
            unknown_field("data.n", &["metadata.name", "metadata.namespace"]),
            "\"data.n\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        let odd = Selector::parse("a=x\\,y\\=z\\\\").unwrap();
        assert_eq!(Selector::parse(&odd.to_string()), Ok(odd));
    }
}
