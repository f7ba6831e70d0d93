//! The little of JSON that payloads need: text out, and a strict reader that
//! says where it stopped.
//!
//! Always holds: reading never takes more memory than the text it reads, whose
//! length has a limit that the caller names. Bound: nesting of JSON_DEPTH_MAX.
//! Knows no payload.

use std::borrow::Cow;
use std::fmt::{self, Write};

use crate::limits::JSON_DEPTH_MAX;
use crate::log::block::BlockFault;

/// Appends `text` in quotes, escaped.
pub(super) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => push_args(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends formatted text.
pub(super) fn push_args(out: &mut String, args: fmt::Arguments<'_>) {
    out.write_fmt(args)
        .expect("writing to a String cannot fail");
}

/// Why a payload cannot be read, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadError {
    pub position: usize,
    pub fault: PayloadFault,
}

/// What is wrong with a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadFault {
    TooLarge {
        bytes: usize,
        bytes_max: usize,
    },
    /// Something else stands where this should.
    Expected(&'static str),
    /// An object ends without this key.
    Missing(&'static str),
    /// An object has this key twice.
    Repeated(&'static str),
    /// A value that this key cannot have.
    Value(&'static str),
    /// Written by a newer version.
    Version {
        found: u64,
    },
    TooDeep,
    /// The block that a compact payload carries cannot be read.
    Block(BlockFault),
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.position)?;
        match &self.fault {
            PayloadFault::TooLarge { bytes, bytes_max } => {
                write!(f, "{bytes} bytes, at most {bytes_max} are taken")
            }
            PayloadFault::Expected(what) => write!(f, "expected {what}"),
            PayloadFault::Missing(key) => write!(f, "key {key:?} is missing"),
            PayloadFault::Repeated(key) => write!(f, "key {key:?} stands here twice"),
            PayloadFault::Value(key) => write!(f, "key {key:?} cannot have this value"),
            PayloadFault::Version { found } => {
                write!(f, "payload version {found}: use a newer program to read it")
            }
            PayloadFault::TooDeep => write!(f, "nested deeper than {JSON_DEPTH_MAX}"),
            PayloadFault::Block(fault) => write!(f, "a block that cannot be read: {fault}"),
        }
    }
}

impl std::error::Error for PayloadError {}

type Result<T> = std::result::Result<T, PayloadError>;

/// A cursor over JSON text.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], bytes_max: usize) -> Result<Self> {
        let reader = Self { bytes, at: 0 };
        if bytes.len() > bytes_max {
            let fault = PayloadFault::TooLarge {
                bytes: bytes.len(),
                bytes_max,
            };
            return Err(reader.error(fault));
        }
        Ok(reader)
    }

    pub(super) fn error(&self, fault: PayloadFault) -> PayloadError {
        PayloadError {
            position: self.at,
            fault,
        }
    }

    fn expected<T>(&self, what: &'static str) -> Result<T> {
        Err(self.error(PayloadFault::Expected(what)))
    }

    pub(super) fn value_error(&self, key: &'static str) -> PayloadError {
        self.error(PayloadFault::Value(key))
    }

    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8, what: &'static str) -> Result<()> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        self.expected(what)
    }

    /// Nothing but space is left.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.peek().is_none() {
            Ok(())
        } else {
            self.expected("the end")
        }
    }

    /// Reads an object; `member` is called with each key and reads its value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<()>,
    ) -> Result<()> {
        self.take(b'{', "an object")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.string(usize::MAX)?;
            self.take(b':', "':'")?;
            member(self, &key)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.expected("',' or '}'"),
            }
        }
    }

    /// Reads an array; `element` is called at each element and reads it.
    pub(super) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.take(b'[', "an array")?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.expected("',' or ']'"),
            }
        }
    }

    /// Reads a string of at most `bytes_max` bytes.
    pub(super) fn text(&mut self, bytes_max: usize) -> Result<String> {
        self.string(bytes_max).map(Cow::into_owned)
    }

    /// Reads a string of at most `bytes_max` bytes; without a copy where nothing in it is
    /// escaped.
    pub(super) fn string(&mut self, bytes_max: usize) -> Result<Cow<'a, str>> {
        self.take(b'"', "a string")?;
        let mut out = Cow::Borrowed("");
        loop {
            let run = self.run()?;
            if out.is_empty() {
                out = Cow::Borrowed(run);
            } else {
                out.to_mut().push_str(run);
            }
            if out.len() > bytes_max {
                let fault = PayloadFault::TooLarge {
                    bytes: out.len(),
                    bytes_max,
                };
                return Err(self.error(fault));
            }
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let escaped = self.escape()?;
                    out.to_mut().push(escaped);
                }
                _ => return self.expected("the end of a string"),
            }
        }
    }

    /// What stands up to the next mark of a string.
    fn run(&mut self) -> Result<&'a str> {
        let from = self.at;
        let plain = |b: &u8| !matches!(b, b'"' | b'\\' | 0..=31);
        while self.bytes.get(self.at).is_some_and(plain) {
            self.at += 1;
        }
        match std::str::from_utf8(&self.bytes[from..self.at]) {
            Ok(run) => Ok(run),
            Err(_) => self.expected("UTF-8"),
        }
    }

    fn escape(&mut self) -> Result<char> {
        let Some(&kind) = self.bytes.get(self.at) else {
            return self.expected("an escape");
        };
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return self.expected("an escape"),
        })
    }

    fn unicode(&mut self) -> Result<char> {
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) {
            if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                return self.expected("the second half of a surrogate pair");
            }
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return self.expected("the second half of a surrogate pair");
            }
            0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code).map_or_else(|| self.expected("a character"), Ok)
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.bytes.get(self.at..self.at + 4);
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0, |code, digit| {
                char::from(*digit)
                    .to_digit(16)
                    .map(|digit| code * 16 + digit)
            })
        });
        let Some(code) = code else {
            return self.expected("four hex digits");
        };
        self.at += 4;
        Ok(code)
    }

    /// Reads an integer from 0 to `max`.
    pub(super) fn unsigned(&mut self, max: u64, key: &'static str) -> Result<u64> {
        let text = self.number()?;
        match text.parse::<u64>() {
            Ok(n) if n <= max => Ok(n),
            Ok(_) | Err(_) => Err(self.value_error(key)),
        }
    }

    /// Reads an integer that fits the type from 0 on.
    pub(super) fn narrow<T: TryFrom<u64>>(&mut self, key: &'static str) -> Result<T> {
        let wide = self.unsigned(u64::MAX, key)?;
        T::try_from(wide).map_err(|_| self.value_error(key))
    }

    /// Reads an integer of either sign.
    pub(super) fn signed(&mut self, key: &'static str) -> Result<i64> {
        let text = self.number()?;
        text.parse().map_err(|_| self.value_error(key))
    }

    /// Reads a number and gives its text.
    pub(super) fn number(&mut self) -> Result<&'a str> {
        self.peek();
        let from = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let zero = self.bytes.get(self.at) == Some(&b'0');
        let integer = self.digits();
        if integer == 0 || (zero && integer > 1) {
            return self.expected("a number");
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return self.expected("a decimal");
            }
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.expected("an exponent");
            }
        }
        Ok(std::str::from_utf8(&self.bytes[from..self.at]).expect("digits and signs are ASCII"))
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - from
    }

    /// True, and read, when `null` stands here.
    pub(super) fn null(&mut self) -> Result<bool> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.word("null").map(|()| true)
    }

    pub(super) fn boolean(&mut self) -> Result<bool> {
        match self.peek() {
            Some(b't') => self.word("true").map(|()| true),
            Some(b'f') => self.word("false").map(|()| false),
            _ => self.expected("true or false"),
        }
    }

    fn word(&mut self, word: &'static str) -> Result<()> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        self.expected(word)
    }

    /// Whether a string stands next.
    pub(super) fn at_text(&mut self) -> bool {
        self.peek() == Some(b'"')
    }

    /// Reads an object of any content and gives its text.
    pub(super) fn raw_object(&mut self) -> Result<&'a [u8]> {
        if self.peek() != Some(b'{') {
            return self.expected("an object");
        }
        let from = self.at;
        self.skip(0)?;
        Ok(&self.bytes[from..self.at])
    }

    /// Passes over a value of any kind: an unknown key's.
    pub(super) fn skip_value(&mut self) -> Result<()> {
        self.skip(0)
    }

    fn skip(&mut self, depth: usize) -> Result<()> {
        if depth > JSON_DEPTH_MAX {
            return Err(self.error(PayloadFault::TooDeep));
        }
        match self.peek() {
            Some(b'{') => self.object(|reader, _| reader.skip(depth + 1)),
            Some(b'[') => self.array(|reader| reader.skip(depth + 1)),
            Some(b'"') => self.string(usize::MAX).map(drop),
            Some(b'n') => self.word("null"),
            Some(b't' | b'f') => self.boolean().map(drop),
            _ => self.number().map(drop),
        }
    }
}

/// Sets `slot` once.
pub(super) fn set<T>(
    reader: &Reader<'_>,
    slot: &mut Option<T>,
    key: &'static str,
    value: T,
) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(reader.error(PayloadFault::Repeated(key)));
    }
    Ok(())
}

/// The value of a key that must be there.
pub(super) fn need<T>(reader: &Reader<'_>, slot: Option<T>, key: &'static str) -> Result<T> {
    slot.ok_or_else(|| reader.error(PayloadFault::Missing(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a, T>(text: &'a str, f: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
        let mut reader = Reader::new(text.as_bytes(), 1 << 20)?;
        let value = f(&mut reader)?;
        reader.end()?;
        Ok(value)
    }

    #[test]
    fn errors_name_the_byte() {
        for (name, text, position) in [
            ("empty", "", 0),
            ("no object", "[]", 0),
            ("no colon", "{\"a\" 1}", 5),
            ("no comma", "{\"a\":1 \"b\":2}", 7),
            ("trailing comma", "{\"a\":1,}", 7),
            ("leading zero", "{\"a\":01}", 7),
            ("bare minus", "{\"a\":-}", 6),
            ("bare dot", "{\"a\":1.}", 7),
            ("cut", "{\"a\":\"b", 7),
            ("control character", "{\"a\":\"\n\"}", 6),
            ("bad escape", "{\"a\":\"\\x\"}", 8),
            ("half a pair", "{\"a\":\"\\ud800\"}", 12),
            ("two values", "{} {}", 3),
            ("nonsense", "{\"a\":nul}", 5),
        ] {
            let error = read(text, |r| r.object(|r, _| r.skip_value())).unwrap_err();
            assert_eq!(error.position, position, "{name}: {error}");
        }
    }

    #[test]
    fn nesting_at_the_limit() {
        for (depth, fits) in [
            (JSON_DEPTH_MAX - 1, true),
            (JSON_DEPTH_MAX, true),
            (JSON_DEPTH_MAX + 1, false),
        ] {
            let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(read(&text, Reader::skip_value).is_ok(), fits, "{depth}");
        }
    }

    #[test]
    fn texts_at_their_limit() {
        for (bytes, fits) in [(9, true), (10, true), (11, false)] {
            let text = format!("\"{}\"", "x".repeat(bytes));
            assert_eq!(read(&text, |r| r.text(10)).is_ok(), fits, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn any_text_reads_back(text in ".*") {
            let mut out = String::new();
            push_text(&mut out, &text);
            prop_assert_eq!(read(&out, |r| r.text(1 << 20)), Ok(text.clone()));
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }

        #[test]
        fn agrees_with_another_reader(text in "[\\[\\]{},:\"a\\\\u0-9eE.+ tnfrule-]{0,24}") {
            let ours = read(&text, Reader::skip_value).is_ok();
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            // Theirs also refuses what overflows an f64, whatever comes after it.
            let overflow = theirs.as_ref().is_err_and(|e| e.to_string().contains("out of range"));
            prop_assert!(overflow || ours == theirs.is_ok(), "{}", text);
        }

        #[test]
        fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(mut reader) = Reader::new(&bytes, 1 << 20) {
                let _ = reader.skip_value();
            }
        }
    }
}
