//! The text of a filter to its nodes.
//!
//! Grammar, keywords and columns in any case:
//! `any = all {"or" all}`, `all = one {"and" one}`,
//! `one = "not" one | "(" any ")" | name | value`,
//! `name = ("device" | "channel") ("=" | "!=" | ["not"] "in" "(" text {"," text} ")") text`,
//! `value = "value" sign number`; a text stands in single quotes, a quote in it twice.
//!
//! Always: each level of nesting takes one of [`FILTER_DEPTH_MAX`], so recursion is
//! bounded.

use std::fmt;

use super::{Comparison, NameColumn, Node};
use crate::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX};

/// What a condition may ask for.
pub const FILTER_COLUMNS: [&str; 3] = ["device", "channel", "value"];

/// Why a text is no filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// Byte of the text, from 0.
    pub at: usize,
    pub fault: FilterFault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterFault {
    /// Over [`FILTER_TEXT_BYTES_MAX`] bytes.
    TooLong,
    /// Over [`FILTER_DEPTH_MAX`] levels of `not` and parentheses.
    TooDeep,
    /// None of [`FILTER_COLUMNS`].
    UnknownColumn(String),
    /// A text whose second quote is missing.
    OpenText,
    /// What should stand there, and what does.
    Expected(&'static str, String),
}

impl fmt::Display for FilterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "is longer than {FILTER_TEXT_BYTES_MAX} bytes"),
            Self::TooDeep => write!(f, "is nested deeper than {FILTER_DEPTH_MAX} levels"),
            Self::UnknownColumn(name) => write!(f, "has the unknown column {name}"),
            Self::OpenText => f.write_str("has a text without its second quote"),
            Self::Expected(what, found) => write!(f, "wants {what}, not {found}"),
        }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.fault, self.at + 1)
    }
}

impl std::error::Error for FilterError {}

/// Longest part of the text that an error shows, in characters.
const SHOWN_CHARS: usize = 20;

#[derive(Debug, Clone, PartialEq)]
enum Token<'a> {
    /// A keyword, a column, or neither.
    Word(&'a str),
    Sign(Comparison),
    Number(f64),
    Text(String),
    Open,
    Close,
    Comma,
    End,
    /// What begins nothing.
    Odd,
}

struct Parser<'a> {
    text: &'a str,
    token: Token<'a>,
    /// Where the token stands, and where the next one may begin.
    at: usize,
    next: usize,
    depth: usize,
}

/// Reads the whole text.
pub(super) fn whole(text: &str) -> Result<Node, FilterError> {
    if text.len() > FILTER_TEXT_BYTES_MAX {
        let fault = FilterFault::TooLong;
        return Err(FilterError { at: 0, fault });
    }
    let mut parser = Parser {
        text,
        token: Token::End,
        at: 0,
        next: 0,
        depth: 0,
    };
    parser.step()?;
    let node = parser.any()?;
    if parser.token == Token::End {
        Ok(node)
    } else {
        Err(parser.wants("`and`, `or` or the end"))
    }
}

impl<'a> Parser<'a> {
    fn fail(&self, fault: FilterFault) -> FilterError {
        FilterError { at: self.at, fault }
    }

    fn wants(&self, what: &'static str) -> FilterError {
        let rest = self.text[self.at..].trim();
        let found = match rest.char_indices().nth(SHOWN_CHARS) {
            Some((cut, _)) => format!("{}...", &rest[..cut]),
            None if rest.is_empty() => "the end".into(),
            None => rest.into(),
        };
        let found = found.replace(char::is_control, "\u{fffd}");
        self.fail(FilterFault::Expected(what, found))
    }

    /// Reads the next token.
    fn step(&mut self) -> Result<(), FilterError> {
        let rest = &self.text[self.next..];
        let rest = rest.trim_start();
        self.at = self.text.len() - rest.len();
        let (token, len) = self.lex(rest)?;
        self.token = token;
        self.next = self.at + len;
        Ok(())
    }

    fn lex(&self, rest: &'a str) -> Result<(Token<'a>, usize), FilterError> {
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, 0));
        };
        let while_in = |part: fn(char) -> bool| rest.find(|c| !part(c)).unwrap_or(rest.len());
        Ok(match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '\'' => return self.quoted(rest),
            '=' | '!' | '<' | '>' => {
                let found = Comparison::SIGNS
                    .iter()
                    .find(|(sign, _)| rest.starts_with(sign));
                found.map_or((Token::Odd, 1), |(sign, comparison)| {
                    (Token::Sign(*comparison), sign.len())
                })
            }
            c if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => number(rest),
            c if c.is_alphabetic() || c == '_' => {
                let len = while_in(|c| c.is_alphanumeric() || c == '_');
                (Token::Word(&rest[..len]), len)
            }
            _ => (Token::Odd, first.len_utf8()),
        })
    }

    /// A text in quotes.
    fn quoted(&self, rest: &str) -> Result<(Token<'a>, usize), FilterError> {
        let mut text = String::new();
        let mut from = 1;
        loop {
            let Some(len) = rest[from..].find('\'') else {
                return Err(self.fail(FilterFault::OpenText));
            };
            text.push_str(&rest[from..from + len]);
            from += len + 1;
            if !rest[from..].starts_with('\'') {
                return Ok((Token::Text(text), from));
            }
            text.push('\'');
            from += 1;
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn any(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.all()?];
        while self.is_word("or") {
            self.step()?;
            nodes.push(self.all()?);
        }
        let flat = nodes.into_iter().flat_map(|node| match node {
            Node::Or(nodes) => nodes,
            Node::And(_) | Node::Not(_) | Node::Name(..) | Node::Value(..) => vec![node],
        });
        Ok(one_or(flat.collect(), Node::Or))
    }

    fn all(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.one()?];
        while self.is_word("and") {
            self.step()?;
            nodes.push(self.one()?);
        }
        let flat = nodes.into_iter().flat_map(|node| match node {
            Node::And(nodes) => nodes,
            Node::Or(_) | Node::Not(_) | Node::Name(..) | Node::Value(..) => vec![node],
        });
        Ok(one_or(flat.collect(), Node::And))
    }

    fn one(&mut self) -> Result<Node, FilterError> {
        if self.is_word("not") {
            return self.deeper(|parser| Ok(Node::Not(Box::new(parser.one()?))));
        }
        if self.token == Token::Open {
            return self.deeper(|parser| {
                let node = parser.any()?;
                parser.close()?;
                Ok(node)
            });
        }
        if self.is_word("device") {
            return self.name(NameColumn::Device);
        }
        if self.is_word("channel") {
            return self.name(NameColumn::Channel);
        }
        if self.is_word("value") {
            return self.value();
        }
        if let Token::Word(word) = self.token
            && !["and", "or", "in"].iter().any(|known| self.is_word(known))
        {
            let word = word.chars().take(SHOWN_CHARS).collect();
            return Err(self.fail(FilterFault::UnknownColumn(word)));
        }
        Err(self.wants("device, channel, value, `not` or `(`"))
    }

    /// Steps over the token and one level down.
    fn deeper(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Node, FilterError>,
    ) -> Result<Node, FilterError> {
        if self.depth == FILTER_DEPTH_MAX {
            return Err(self.fail(FilterFault::TooDeep));
        }
        self.depth += 1;
        self.step()?;
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn close(&mut self) -> Result<(), FilterError> {
        if self.token != Token::Close {
            return Err(self.wants("`)`"));
        }
        self.step()
    }

    fn name(&mut self, column: NameColumn) -> Result<Node, FilterError> {
        self.step()?;
        let not = self.is_word("not");
        if not {
            self.step()?;
        }
        let (names, not) = if self.is_word("in") {
            self.step()?;
            (self.names()?, not)
        } else if not {
            return Err(self.wants("`in`"));
        } else if let Token::Sign(sign @ (Comparison::Equal | Comparison::NotEqual)) = self.token {
            self.step()?;
            (vec![self.name_text()?], sign == Comparison::NotEqual)
        } else {
            return Err(self.wants("`=`, `!=` or `in`"));
        };
        let node = Node::Name(column, names);
        Ok(if not { Node::Not(Box::new(node)) } else { node })
    }

    fn names(&mut self) -> Result<Vec<String>, FilterError> {
        if self.token != Token::Open {
            return Err(self.wants("a list such as ('a', 'b')"));
        }
        self.step()?;
        let mut names = vec![self.name_text()?];
        while self.token == Token::Comma {
            self.step()?;
            names.push(self.name_text()?);
        }
        self.close()?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn name_text(&mut self) -> Result<String, FilterError> {
        let Token::Text(text) = &mut self.token else {
            return Err(self.wants("a text in single quotes"));
        };
        let text = std::mem::take(text);
        self.step()?;
        Ok(text)
    }

    fn value(&mut self) -> Result<Node, FilterError> {
        self.step()?;
        let Token::Sign(comparison) = self.token else {
            return Err(self.wants("one of = != < <= > >="));
        };
        self.step()?;
        let Token::Number(bound) = self.token else {
            return Err(self.wants("a number"));
        };
        self.step()?;
        Ok(Node::Value(comparison, bound))
    }
}

/// The one node, or what joins them.
fn one_or(mut nodes: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        Some(last) => {
            nodes.push(last);
            join(nodes)
        }
        None => join(nodes),
    }
}

/// A number as Rust reads it, without infinities.
fn number(rest: &str) -> (Token<'_>, usize) {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let len = rest.find(|c| !part(c)).unwrap_or(rest.len());
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    let text = &rest[..len];
    let number = text.bytes().all(plain).then(|| text.parse::<f64>().ok());
    match number.flatten().filter(|number| number.is_finite()) {
        Some(number) => (Token::Number(number), len),
        None => (Token::Odd, len.max(1)),
    }
}
