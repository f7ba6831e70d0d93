//! Values of a frame as text, as `defmt` shows them. Bound: [`LINE_TEXT_BYTES_MAX`] of
//! text; what is longer ends with `...`.

use std::fmt::{self, Write as _};

use forebay_core::units::EventTime;
use forebay_core::utc::time_value;
use serde_json::Value as Json;

use super::format::{Hint, Kind, Piece};
use super::frame::{Part, Value};
use super::limits::LINE_TEXT_BYTES_MAX;

const CUT: &str = "...";

/// A line being written.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
}

impl fmt::Write for Line {
    /// Fails when the line is full: nothing more is computed for it.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = (LINE_TEXT_BYTES_MAX - CUT.len()).saturating_sub(self.text.len());
        if text.len() <= room {
            self.text.push_str(text);
            return Ok(());
        }
        let fits = (0..=room).rev().find(|at| text.is_char_boundary(*at));
        self.text.push_str(&text[..fits.unwrap_or(0)]);
        Err(fmt::Error)
    }
}

impl Line {
    /// The text of a format with its arguments.
    pub(super) fn render(pieces: &[Piece], values: &[Value]) -> String {
        let mut line = Self::default();
        if line.pieces(pieces, values, None).is_err() {
            line.text.push_str(CUT);
        }
        // A device must not draw on the operator's terminal.
        let is_control = |c: char| c.is_control();
        if line.text.contains(is_control) {
            return line.text.replace(is_control, " ");
        }
        line.text
    }

    fn pieces(&mut self, pieces: &[Piece], values: &[Value], around: Option<Hint>) -> fmt::Result {
        for piece in pieces {
            match piece {
                Piece::Literal(text) => self.write_str(text)?,
                Piece::Param { index, kind, hint } => {
                    if let Some(value) = values.get(*index) {
                        self.value(value, kind, (*hint, around))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// One value, by its own hint and that of what is around it.
    fn value(
        &mut self,
        value: &Value,
        kind: &Kind,
        (own, around): (Option<Hint>, Option<Hint>),
    ) -> fmt::Result {
        let hint = own.or(around);
        match value {
            Value::Bool(value) => write!(self, "{value}"),
            Value::Char(value) => write!(self, "{value}"),
            Value::F32(value) => write!(self, "{value:?}"),
            Value::F64(value) => write!(self, "{value:?}"),
            Value::Unsigned(value) => {
                let value = if let Kind::Bits(bits) = kind {
                    let left = 128 - u32::from(bits.end);
                    value << left >> (left + u32::from(bits.start))
                } else {
                    *value
                };
                let hint = if own == Some(Hint::Debug) {
                    around
                } else {
                    hint
                };
                self.unsigned(value, hint)
            }
            Value::Signed(value, bytes) => self.signed(*value, *bytes, hint),
            Value::Str(text) if hint == Some(Hint::Debug) => write!(self, "{text:?}"),
            Value::Str(text) => self.write_str(text),
            Value::Bytes(bytes) => self.bytes(bytes, hint),
            Value::Nested(part) => {
                let hint = if around == Some(Hint::Ascii) {
                    around
                } else {
                    hint
                };
                self.pieces(&part.pieces, &part.values, hint)
            }
            Value::Sequence(parts) => {
                let mut parts = parts.iter();
                parts.try_for_each(|part| self.pieces(&part.pieces, &part.values, hint))
            }
            Value::List(elements) => self.list(elements, hint),
        }
    }

    fn list(&mut self, elements: &[Part], hint: Option<Hint>) -> fmt::Result {
        let byte = |part: &Part| match (&part.pieces[..], &part.values[..]) {
            (
                [
                    Piece::Param {
                        kind: Kind::Unsigned(1),
                        ..
                    },
                ],
                [Value::Unsigned(byte)],
            ) => u8::try_from(*byte).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = elements.iter().map(byte).collect();
        if let (Some(Hint::Ascii), Some(bytes)) = (hint, bytes) {
            return self.bytes(&bytes, hint);
        }
        self.write_str("[")?;
        for (at, part) in elements.iter().enumerate() {
            if at > 0 {
                self.write_str(", ")?;
            }
            self.pieces(&part.pieces, &part.values, hint)?;
        }
        self.write_str("]")
    }

    fn unsigned(&mut self, value: u128, hint: Option<Hint>) -> fmt::Result {
        match hint {
            Some(Hint::Plain { zeros }) => write!(self, "{value:0zeros$}"),
            Some(Hint::Hex {
                upper,
                prefix,
                zeros,
            }) => match (upper, prefix) {
                (false, false) => write!(self, "{value:0zeros$x}"),
                (false, true) => write!(self, "{value:#0zeros$x}"),
                (true, false) => write!(self, "{value:0zeros$X}"),
                (true, true) => write!(self, "{value:#0zeros$X}"),
            },
            Some(Hint::Octal { prefix, zeros }) => match prefix {
                false => write!(self, "{value:0zeros$o}"),
                true => write!(self, "{value:#0zeros$o}"),
            },
            Some(Hint::Binary { prefix, zeros }) => match prefix {
                false => write!(self, "{value:0zeros$b}"),
                true => write!(self, "{value:#0zeros$b}"),
            },
            Some(Hint::Seconds(decimals)) => self.decimals(value, decimals),
            Some(Hint::Time(decimals)) => self.time(value, decimals),
            Some(Hint::Date(decimals)) => self.date(value, decimals),
            Some(Hint::Ascii | Hint::Debug | Hint::Other) | None => write!(self, "{value}"),
        }
    }

    /// A number with a sign; in hex as the device holds it.
    fn signed(&mut self, value: i128, bytes: usize, hint: Option<Hint>) -> fmt::Result {
        match hint {
            Some(Hint::Plain { zeros }) => write!(self, "{value:0zeros$}"),
            Some(Hint::Hex { .. } | Hint::Octal { .. } | Hint::Binary { .. }) => {
                let unused = 128 - 8 * (bytes as u32);
                self.unsigned((value as u128) << unused >> unused, hint)
            }
            Some(
                Hint::Seconds(_)
                | Hint::Time(_)
                | Hint::Date(_)
                | Hint::Ascii
                | Hint::Debug
                | Hint::Other,
            )
            | None => write!(self, "{value}"),
        }
    }

    fn decimals(&mut self, value: u128, decimals: u32) -> fmt::Result {
        let one = 10_u128.pow(decimals);
        write!(self, "{}", value / one)?;
        match decimals {
            0 => Ok(()),
            digits => write!(self, ".{:0width$}", value % one, width = digits as usize),
        }
    }

    fn time(&mut self, value: u128, decimals: u32) -> fmt::Result {
        let one = 10_u128.pow(decimals);
        let seconds = value / one;
        let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
        if days > 0 {
            write!(self, "{days}:")?;
        }
        write!(self, "{hours:02}:{:02}:", seconds / 60 % 60)?;
        let in_minute = value % (60 * one);
        if in_minute / one < 10 {
            self.write_str("0")?;
        }
        self.decimals(in_minute, decimals)
    }

    fn date(&mut self, value: u128, decimals: u32) -> fmt::Result {
        let micros = 10_u128.pow(6 - decimals.min(6));
        let time = value
            .checked_mul(micros)
            .and_then(|us| i64::try_from(us).ok());
        match time.map(|us| time_value(EventTime(us))) {
            Some(Json::String(text)) => self.write_str(&text),
            Some(_) | None => write!(self, "{value}"),
        }
    }

    fn bytes(&mut self, bytes: &[u8], hint: Option<Hint>) -> fmt::Result {
        if hint == Some(Hint::Ascii) {
            return write!(self, "b\"{}\"", bytes.escape_ascii());
        }
        self.write_str("[")?;
        for (at, byte) in bytes.iter().enumerate() {
            if at > 0 {
                self.write_str(", ")?;
            }
            self.unsigned(u128::from(*byte), hint)?;
        }
        self.write_str("]")
    }
}
