//! One key of a config with its value: from TOML to a checked type, or an error
//! that shows the value as it stands in the file.

use std::time::Duration;

use forebay_core::near::did_you_mean;
use forebay_core::units::Span;
use toml_edit::Value;

use super::{SHOWN_BYTES_MAX, Table, one_line, shown};
use crate::config::duration;
use crate::config::error::{ConfigError, Place, list};
use crate::config::schema::Key;
use crate::config::size;

/// One key with its value.
#[derive(Debug, Clone)]
pub struct Field<'a> {
    pub(super) table: Table<'a>,
    pub(super) key: &'static Key,
    pub(super) value: Value,
    /// Where the key stands in the file; `None` for a default.
    pub(super) at: Option<usize>,
}

impl Field<'_> {
    /// Whether it stands in the file; else it is the default.
    pub fn is_given(&self) -> bool {
        self.at.is_some()
    }

    /// An error about this key; `what` follows the value.
    pub fn bad(&self, what: impl AsRef<str>) -> ConfigError {
        // As it stands in the file; a default has no place there, and is never bad.
        let span = self.value.span().unwrap_or_default();
        let text = self.table.source.text.get(span).unwrap_or_default();
        self.error(format!("{} {}", shown_raw(text), what.as_ref()))
    }

    /// An error about this key that does not show the value.
    pub fn error(&self, what: impl Into<String>) -> ConfigError {
        self.table.error_at(self.at, self.key.name, what)
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        self.table.place_at(self.at, self.key.name)
    }

    pub(super) fn wants(&self, what: &str) -> ConfigError {
        self.bad(format!(
            "must be {what}, not of type {}",
            self.value.type_name()
        ))
    }

    /// A text that is not empty.
    pub fn text(&self) -> Result<&str, ConfigError> {
        match self.value.as_str() {
            None => Err(self.wants("a text in quotes")),
            Some("") => Err(self.bad("must not be empty")),
            Some(text) => Ok(text),
        }
    }

    /// A name as devices, channels and streams have them.
    pub fn name(&self) -> Result<String, ConfigError> {
        let text = self.text()?;
        is_name(text).map_err(|what| self.bad(what))?;
        Ok(text.to_owned())
    }

    pub fn bool(&self) -> Result<bool, ConfigError> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wants("true or false"))
    }

    /// A whole number from `min` to `max`.
    pub fn int(&self, min: i64, max: i64) -> Result<i64, ConfigError> {
        let n = self
            .value
            .as_integer()
            .ok_or_else(|| self.wants("a whole number"))?;
        if n < min || n > max {
            return Err(self.bad(format!("must be from {min} to {max}")));
        }
        Ok(n)
    }

    /// A whole number from `min` to `max`, or a list of different ones, not empty, at
    /// most `most` long.
    pub fn ints(&self, min: i64, max: i64, most: usize) -> Result<Vec<i64>, ConfigError> {
        let Some(array) = self.value.as_array() else {
            return self.int(min, max).map(|n| vec![n]);
        };
        if array.is_empty() {
            return Err(self.error("must not be an empty list"));
        }
        if array.len() > most {
            return Err(self.error(format!("has {} entries, at most {most}", array.len())));
        }
        let mut ints: Vec<i64> = Vec::with_capacity(array.len());
        for value in array {
            let Some(n) = value.as_integer().filter(|n| (min..=max).contains(n)) else {
                return Err(self.error(format!(
                    "must be a list of whole numbers from {min} to {max}"
                )));
            };
            if ints.contains(&n) {
                return Err(self.error(format!("has {n} twice")));
            }
            ints.push(n);
        }
        Ok(ints)
    }

    /// A duration, perhaps negative.
    pub fn span(&self) -> Result<Span, ConfigError> {
        let Some(text) = self.value.as_str() else {
            return Err(self.wants("a duration such as \"5s\""));
        };
        duration::parse(text).map_err(|what| self.bad(what))
    }

    /// A duration of 0 or more.
    pub fn span_from_zero(&self) -> Result<Span, ConfigError> {
        let span = self.span()?;
        if span.0 < 0 {
            return Err(self.bad("must not be negative"));
        }
        Ok(span)
    }

    /// A duration from `min` to `max`, for timers of the process.
    pub fn timer(&self, min: Duration, max: Duration) -> Result<Duration, ConfigError> {
        let span = self.span_from_zero()?;
        let timer = Duration::from_micros(span.0.unsigned_abs());
        if timer < min || timer > max {
            return Err(self.bad(format!("must be from {min:?} to {max:?}")));
        }
        Ok(timer)
    }

    /// A size from `min` to `max` bytes.
    pub fn size(&self, min: u64, max: u64) -> Result<u64, ConfigError> {
        let Some(text) = self.value.as_str() else {
            return Err(self.wants("a size such as \"16MiB\""));
        };
        let bytes = size::parse(text).map_err(|what| self.bad(what))?;
        if bytes < min || bytes > max {
            let (min, max) = (size::show(min), size::show(max));
            return Err(self.bad(format!("must be from {min} to {max}")));
        }
        Ok(bytes)
    }

    /// One of the named choices.
    pub fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let text = self.text()?;
        let names = || choices.iter().map(|(name, _)| *name);
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(*choice),
            None => Err(self.bad(format!(
                "is none of: {}{}",
                list(names()),
                did_you_mean(text, names())
            ))),
        }
    }

    /// A list of different texts, not empty, at most `max` long.
    pub fn texts(&self, max: usize) -> Result<Vec<String>, ConfigError> {
        let Some(array) = self.value.as_array() else {
            return Err(self.wants("a list of texts such as [\"a\", \"b\"]"));
        };
        if array.is_empty() {
            return Err(self.error("must not be an empty list"));
        }
        if array.len() > max {
            return Err(self.error(format!("has {} entries, at most {max}", array.len())));
        }
        let mut texts: Vec<String> = Vec::with_capacity(array.len());
        for value in array {
            let Some(text) = value.as_str() else {
                return Err(self.error("must be a list of texts such as [\"a\", \"b\"]"));
            };
            if texts.iter().any(|seen| seen == text) {
                return Err(self.error(format!("has \"{}\" twice", shown(text))));
            }
            texts.push(text.to_owned());
        }
        Ok(texts)
    }

    /// `host:port`. A value with a user in it is not shown.
    pub fn host_port(&self) -> Result<String, ConfigError> {
        let text = self.text()?;
        if text.contains('@') {
            return Err(self.error(
                "must be host:port; a user goes into username, a password into password_file",
            ));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(self.bad("must be host:port, such as \"127.0.0.1:1883\""));
        };
        let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        if host.is_empty() || host.contains('/') || bare_v6 {
            return Err(self.bad("must be host:port, such as \"127.0.0.1:1883\" or \"[::1]:1883\""));
        }
        match port.parse::<u16>() {
            Ok(1..) => Ok(text.to_owned()),
            Ok(0) | Err(_) => Err(self.bad("needs a port from 1 to 65535")),
        }
    }
}

fn shown_raw(text: &str) -> String {
    let mut end = text.len().min(SHOWN_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "..." } else { "" };
    one_line(&format!("{}{cut}", &text[..end]))
}

/// Whether devices, channels and streams may be called so.
fn is_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > forebay_core::limits::NAME_BYTES_MAX {
        return Err("must have 1 to 64 characters");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.bytes().all(plain) {
        Ok(())
    } else {
        Err("may only have letters, digits, - _ and .")
    }
}
