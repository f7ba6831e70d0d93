//! Objects of JSON with their members as they were written, so that a number keeps
//! all its digits and a row its order.
//!
//! Always holds: what an [`Object`] gives out is valid JSON. Bound: the bytes that
//! the caller hands in, [`JSON_DEPTH_MAX`] levels of a member. Knows no change.

use std::borrow::Cow;

use forebay_core::json::scan::{NoJson, members, text_of};
use forebay_core::limits::JSON_DEPTH_MAX;

/// An object's members in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object<'a> {
    raw: &'a str,
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Object<'a> {
    /// Reads an object from outside.
    ///
    /// # Errors
    /// A sentence without a subject: what is wrong with the bytes.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            format!("is no text: byte {} is not UTF-8", error.valid_up_to() + 1)
        })?;
        Self::of(text).map_err(|NoJson { at }| {
            format!(
                "is no JSON object of at most {JSON_DEPTH_MAX} levels from byte {} on",
                at + 1
            )
        })
    }

    /// An object inside of one that was parsed; `None` when it is something else.
    pub(super) fn inside(raw: &'a str) -> Option<Self> {
        Self::of(raw).ok()
    }

    fn of(text: &'a str) -> Result<Self, NoJson> {
        let members: Result<_, _> = members(text).collect();
        Ok(Self {
            raw: text,
            members: members?,
        })
    }

    /// As it was written.
    pub(super) fn raw(&self) -> &'a str {
        self.raw
    }

    /// The member of that name, as it was written; of several the first.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.members.iter().find(|(known, _)| known == name);
        found.map(|(_, raw)| *raw)
    }

    /// As [`Object::get`], unless it is null.
    pub(super) fn some(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|raw| *raw != "null")
    }

    /// A member that is a text.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }

    /// A member that is a whole number.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// A member that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        Self::inside(self.get(name)?)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().map(|(name, raw)| (&**name, *raw))
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }
}

/// The text of a value that is one.
pub(super) fn text(raw: &str) -> Option<Cow<'_, str>> {
    // A lone surrogate is JSON and no text: it stays as it was written.
    text_of(raw).or_else(|| raw.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed))
}

/// Valid JSON without spaces between its tokens.
pub(super) fn compact(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '"' => string_len(rest),
            _ => first.len_utf8(),
        };
        if !first.is_ascii_whitespace() {
            out.push_str(&rest[..len]);
        }
        rest = &rest[len..];
    }
    out
}

/// An object of these members, in their order.
pub(super) fn object<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = Vec::from(*b"{");
    for (name, raw) in members {
        if out.len() > 1 {
            out.push(b',');
        }
        forebay_core::json::write_text(name, &mut out);
        out.push(b':');
        out.extend_from_slice(compact(raw).as_bytes());
    }
    out.push(b'}');
    String::from_utf8(out).expect("made of texts and signs of ASCII")
}

/// Bytes of the string at the start, with both quotes.
fn string_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_come_as_they_were_written() {
        let text = br#" { "a" : 1.50 , "b":{"x":[1,{"y":"}"}]}, "c\u0041":"q\"\u00e9", "d":null,"a":12345678901234567890123 } "#;
        let object = Object::parse(text).unwrap();
        let all: Vec<_> = object.members().collect();
        assert_eq!(
            all,
            [
                ("a", "1.50"),
                ("b", r#"{"x":[1,{"y":"}"}]}"#),
                ("cA", r#""q\"\u00e9""#),
                ("d", "null"),
                ("a", "12345678901234567890123"),
            ]
        );
        assert_eq!(object.get("a"), Some("1.50"));
        assert_eq!(object.text("cA").as_deref(), Some("q\"\u{e9}"));
        assert_eq!((object.get("d"), object.some("d")), (Some("null"), None));
        assert_eq!(object.object("b").unwrap().get("x").unwrap().len(), 13);
        assert_eq!(Object::parse(b"{}").unwrap().len(), 0);
    }

    #[test]
    fn bad_bytes_are_told() {
        for (name, bytes, word) in [
            ("not UTF-8", &b"{\"a\":\"\xff\"}"[..], "byte 7"),
            ("cut", b"{\"a\":", "from byte 6"),
            ("a list", b"[1]", "no JSON object"),
            ("two", b"{} {}", "from byte 4"),
            ("nothing", b"", "from byte 1"),
        ] {
            let error = Object::parse(bytes).unwrap_err();
            assert!(error.contains(word), "{name}: {error}");
        }
    }

    #[test]
    fn depth_has_its_limit() {
        for (levels, taken) in [
            (JSON_DEPTH_MAX - 1, true),
            (JSON_DEPTH_MAX, true),
            (JSON_DEPTH_MAX + 1, false),
        ] {
            let lists = levels;
            let text = format!("{{\"a\":{}{}}}", "[".repeat(lists), "]".repeat(lists));
            assert_eq!(Object::parse(text.as_bytes()).is_ok(), taken, "{levels}");
        }
    }

    #[test]
    fn spaces_go_outside_of_texts_only() {
        assert_eq!(
            compact("{ \"a b\" : [ 1 ,\n\t\"x \\\" y\" ] }"),
            r#"{"a b":[1,"x \" y"]}"#
        );
        let members = [("a\"", " 1 "), ("b", "{ }")];
        assert_eq!(object(members.into_iter()), r#"{"a\"":1,"b":{}}"#);
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(bytes: Vec<u8>) {
            let _ = Object::parse(&bytes);
            if let Ok(text) = std::str::from_utf8(&bytes) {
                let _ = compact(text);
            }
        }

        #[test]
        fn what_is_compact_says_the_same(texts: Vec<(String, String)>, spaces in "[ \n\t]{0,3}") {
            let members = texts.iter().map(|(name, text)| {
                let quoted = |text: &str| serde_json::Value::from(text).to_string();
                format!("{}{spaces}:{spaces}{}", quoted(name), quoted(text))
            });
            let text = format!("{{{spaces}{}{spaces}}}", members.collect::<Vec<_>>().join(","));
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&compact(&text)).unwrap(), &value);
            let object = Object::parse(text.as_bytes()).unwrap();
            for ((name, text), (got, raw)) in texts.iter().zip(object.members()) {
                prop_assert_eq!(name, got);
                let read = super::text(raw);
                prop_assert_eq!(Some(text.as_str()), read.as_deref());
            }
            prop_assert_eq!(object.len(), texts.len());
        }
    }
}
