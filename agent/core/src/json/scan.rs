//! Walks over JSON text without building anything: the members of an object, each with
//! the value's text as it stands.
//!
//! Always holds: what is given out was checked to the end of its value. Bound: nesting
//! of [`JSON_DEPTH_MAX`]; memory only for texts with escapes. Knows no key.

use std::borrow::Cow;

use crate::limits::JSON_DEPTH_MAX;

/// Where a text stops being JSON, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoJson {
    pub at: usize,
}

/// A place in a text.
#[derive(Debug, Clone)]
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

/// The members of an object in the order of the text; nothing follows an error.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    scan: Scan<'a>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Inside,
    Done,
}

/// The members of the object that all of `text` is.
#[must_use]
pub fn members(text: &str) -> Members<'_> {
    Members {
        scan: Scan { text, at: 0 },
        state: State::Before,
    }
}

/// Whether all of `text` is one object.
///
/// # Errors
/// Where it stops being one.
pub fn check_object(text: &str) -> Result<(), NoJson> {
    members(text).try_for_each(|member| member.map(drop))
}

/// What a value's text says, where it is a text: without quotes and escapes.
///
/// `value` is one that [`Members`] gave out.
#[must_use]
pub fn text_of(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(value).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(Cow<'a, str>, &'a str), NoJson>;

    fn next(&mut self) -> Option<Self::Item> {
        let member = self.step().transpose()?;
        if member.is_err() {
            self.state = State::Done;
        }
        Some(member)
    }
}

impl<'a> Members<'a> {
    fn step(&mut self) -> Result<Option<(Cow<'a, str>, &'a str)>, NoJson> {
        let scan = &mut self.scan;
        match self.state {
            State::Done => return Ok(None),
            State::Before => {
                scan.take(b'{')?;
                if scan.takes(b'}') {
                    return self.end();
                }
            }
            State::Inside => {
                if scan.takes(b'}') {
                    return self.end();
                }
                scan.take(b',')?;
            }
        }
        self.state = State::Inside;
        scan.space();
        let from = scan.at;
        scan.string()?;
        let key = &scan.text[from..scan.at];
        let key = text_of(key).ok_or(NoJson { at: from })?;
        scan.take(b':')?;
        Ok(Some((key, scan.value(0)?)))
    }

    fn end(&mut self) -> Result<Option<(Cow<'a, str>, &'a str)>, NoJson> {
        self.state = State::Done;
        self.scan.space();
        match self.scan.peek() {
            None => Ok(None),
            Some(_) => Err(self.scan.here()),
        }
    }
}

impl<'a> Scan<'a> {
    fn here(&self) -> NoJson {
        NoJson { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn takes(&mut self, byte: u8) -> bool {
        self.space();
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn take(&mut self, byte: u8) -> Result<(), NoJson> {
        if self.takes(byte) {
            Ok(())
        } else {
            Err(self.here())
        }
    }

    /// Passes over one value and gives its text.
    fn value(&mut self, depth: usize) -> Result<&'a str, NoJson> {
        self.space();
        let from = self.at;
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'{' | b'[') if depth == JSON_DEPTH_MAX => return Err(self.here()),
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            Some(_) | None => self.number()?,
        }
        Ok(&self.text[from..self.at])
    }

    fn object(&mut self, depth: usize) -> Result<(), NoJson> {
        self.take(b'{')?;
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let from = self.at;
            self.string()?;
            text_of(&self.text[from..self.at]).ok_or(NoJson { at: from })?;
            self.take(b':')?;
            self.value(depth + 1)?;
            if self.takes(b'}') {
                return Ok(());
            }
            self.take(b',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), NoJson> {
        self.take(b'[')?;
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if self.takes(b']') {
                return Ok(());
            }
            self.take(b',')?;
        }
    }

    fn word(&mut self, word: &str) -> Result<(), NoJson> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.here());
        }
        self.at += word.len();
        Ok(())
    }

    fn string(&mut self) -> Result<(), NoJson> {
        let from = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.here());
        }
        self.at += 1;
        let mut is_escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    // The byte behind it is looked at below; a character of more than one
                    // byte is none that may be escaped.
                    self.at += 2;
                    if !self.text.is_char_boundary(self.at) {
                        return Err(NoJson { at: self.at - 1 });
                    }
                }
                Some(0..b' ') | None => {
                    return Err(NoJson {
                        at: self.at.min(self.text.len()),
                    });
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        let text = &self.text[from..self.at];
        if is_escaped && serde_json::from_str::<String>(text).is_err() {
            return Err(NoJson { at: from });
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<(), NoJson> {
        let from = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let is_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        let mut good = digits > 0 && !(is_zero && digits > 1);
        if self.peek() == Some(b'.') {
            self.at += 1;
            good &= self.digits() > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            good &= self.digits() > 0;
        }
        if good {
            Ok(())
        } else {
            Err(NoJson { at: from })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, NoJson> {
        members(text)
            .map(|member| member.map(|(key, value)| (key.into_owned(), value.to_owned())))
            .collect()
    }

    #[test]
    fn members_with_their_texts() {
        for (name, text, want) in [
            ("empty", " { } ", Ok(vec![])),
            (
                "scalars",
                r#"{"a":1,"b" : "x", "c":null}"#,
                Ok(vec![("a", "1"), ("b", "\"x\""), ("c", "null")]),
            ),
            (
                "nested as it is",
                r#"{"a":{"b":[1, {}]},"c":[]}"#,
                Ok(vec![("a", r#"{"b":[1, {}]}"#), ("c", "[]")]),
            ),
            (
                "an escaped key",
                r#"{"\u0061":-0.5e+3}"#,
                Ok(vec![("a", "-0.5e+3")]),
            ),
            ("no object", "[]", Err(0)),
            ("nothing", "", Err(0)),
            ("cut", r#"{"a":"#, Err(5)),
            ("a comma too many", r#"{"a":1,}"#, Err(7)),
            ("something behind it", "{} x", Err(3)),
            ("a leading zero", r#"{"a":01}"#, Err(5)),
            ("a control character", "{\"a\":\"\n\"}", Err(6)),
            ("half of a pair", r#"{"a":"\ud800"}"#, Err(5)),
            ("an escape of two bytes", "{\"a\":\"\\é\"}", Err(7)),
        ] {
            let want = want.map_err(|at| NoJson { at }).map(|members| {
                let owned = members.iter().map(|(k, v)| (k.to_string(), v.to_string()));
                owned.collect::<Vec<_>>()
            });
            assert_eq!(read(text), want, "{name}");
        }
    }

    #[test]
    fn texts_lose_quotes_and_escapes() {
        for (value, want) in [
            (r#""x""#, Some("x")),
            (r#""a\"\u00e9""#, Some("a\"é")),
            (r#""""#, Some("")),
            ("1", None),
            ("null", None),
        ] {
            assert_eq!(text_of(value).as_deref(), want, "{value}");
        }
    }

    #[test]
    fn nesting_at_the_limit() {
        for depth in [JSON_DEPTH_MAX - 1, JSON_DEPTH_MAX, JSON_DEPTH_MAX + 1] {
            let text = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(read(&text).is_ok(), depth <= JSON_DEPTH_MAX, "{depth}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_another_reader(text in "\\{[\\[\\]{},:\"a\\\\u0-9eE.+ tnfrule-]{0,24}\\}") {
            let theirs = serde_json::from_str::<Value>(&text);
            // What it takes for more than a double can say is a number all the same.
            let is_far = theirs.as_ref().is_err_and(|e| e.to_string().contains("out of range"));
            prop_assume!(!is_far);
            prop_assert_eq!(read(&text).is_ok(), theirs.is_ok_and(|v| v.is_object()), "{}", text);
        }

        #[test]
        fn any_text_is_survived(text in ".{0,48}") {
            let _ = read(&text);
        }
    }
}
