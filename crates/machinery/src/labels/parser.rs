//! The grammar of label selectors in text.

use std::collections::BTreeSet;

use super::{Operator, Requirement, label_key_error};
use crate::Error;
use crate::field;
use crate::path::Path;

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Unknown,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Word,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, Error> {
    Parser { tokens: scan(text), at: 0 }.requirements().map_err(Error::Selector)
}

// === scanner ===

fn symbol(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => return None,
    })
}

fn is_special(b: u8) -> bool {
    matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// Upstream's scanner takes a NUL for the end of the text.
fn scan(text: &str) -> Vec<(Token, String)> {
    let text = text.split('\0').next().unwrap_or_default();
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).copied().is_some_and(is_space) {
            at += 1;
        }
        let Some(&first) = bytes.get(at) else {
            tokens.push((Token::End, String::new()));
            return tokens;
        };
        let start = at;
        if is_special(first) {
            // The longest run that is a symbol; what follows starts a new one.
            at += 1;
            if bytes.get(at).copied().is_some_and(is_special) && symbol(&text[start..=at]).is_some() {
                at += 1;
            }
            tokens.push((symbol(&text[start..at]).unwrap_or(Token::Unknown), text[start..at].to_owned()));
        } else {
            while bytes.get(at).is_some_and(|b| !is_special(*b) && !is_space(*b)) {
                at += 1;
            }
            let word = &text[start..at];
            tokens.push((symbol(word).unwrap_or(Token::Word), word.to_owned()));
        }
    }
}

// === parser ===

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The next token, where a value may stand: `in` and `notin` are words there.
    fn look(&self) -> (Token, &str) {
        match self.raw() {
            (Token::In | Token::NotIn, word) => (Token::Word, word),
            other => other,
        }
    }

    fn raw(&self) -> (Token, &str) {
        self.tokens.get(self.at).map_or((Token::End, ""), |(token, text)| (*token, text.as_str()))
    }

    fn take(&mut self) -> (Token, String) {
        let (token, text) = self.look();
        let taken = (token, text.to_owned());
        self.at += 1;
        taken
    }

    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.look() {
                (Token::Word | Token::Not, _) => {
                    let requirement =
                        self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                    requirements.push(requirement);
                    match self.take() {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => {
                            let (next, found) = self.look();
                            if !matches!(next, Token::Word | Token::Not) {
                                return Err(format!("found '{found}', expected: identifier after ','"));
                            }
                        }
                        (_, found) => return Err(format!("found '{found}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, found) => return Err(format!("found '{found}', expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (key, unary) = self.key()?;
        let (operator, values) = match unary {
            Some(operator) => (operator, BTreeSet::new()),
            None => {
                let operator = self.operator()?;
                let values = match operator {
                    Operator::In | Operator::NotIn => self.values()?,
                    _ => self.exact_value()?,
                };
                (operator, values)
            }
        };
        Requirement::new(&key, operator, values.into_iter().collect(), &Path::nil())
            .map_err(|errors| field::aggregate(&errors))
    }

    fn key(&mut self) -> Result<(String, Option<Operator>), String> {
        let (mut token, mut word) = self.take();
        let negated = token == Token::Not;
        if negated {
            (token, word) = self.take();
        }
        if token != Token::Word {
            return Err(format!("found '{word}', expected: identifier"));
        }
        if let Some(error) = label_key_error(&word, &Path::nil()) {
            return Err(error.to_string());
        }
        let operator = match self.look().0 {
            _ if negated => Some(Operator::DoesNotExist),
            Token::End | Token::Comma => Some(Operator::Exists),
            _ => None,
        };
        Ok((word, operator))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let (token, found) = self.raw();
        let operator = match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            _ => return Err(format!("found '{found}', expected: {BINARY_OPERATORS}")),
        };
        self.at += 1;
        Ok(operator)
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, found) = self.take();
        if token != Token::Open {
            return Err(format!("found '{found}' expected: '('"));
        }
        let (token, found) = self.look();
        let found = found.to_owned();
        match token {
            Token::Word | Token::Comma => {
                let values = self.word_list()?;
                if self.take().0 == Token::Close { Ok(values) } else { Err(format!("found '{found}', expected: ')'")) }
            }
            Token::Close => {
                self.at += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{found}', expected: ',', ')' or identifier")),
        }
    }

    fn word_list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut words = BTreeSet::new();
        loop {
            match self.take() {
                (Token::Word, word) => {
                    words.insert(word);
                    match self.look() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(words),
                        (_, found) => return Err(format!("found '{found}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    // An empty place between commas is the empty value.
                    if words.is_empty() || matches!(self.look().0, Token::Close | Token::Comma) {
                        words.insert(String::new());
                    }
                    if self.look().0 == Token::Close {
                        return Ok(words);
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.look().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take() {
            (Token::Word, word) => Ok(BTreeSet::from([word])),
            (_, found) => Err(format!("found '{found}', expected: identifier")),
        }
    }
}
