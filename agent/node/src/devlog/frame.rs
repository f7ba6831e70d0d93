//! One frame of a device's log as text: its number in the firmware's table, then the
//! time and the arguments as the format there says.
//!
//! Always holds: bytes never panic, and neither does a table of whatever texts. Bound:
//! [`VALUES_MAX`] values, [`DEPTH_MAX`] deep, [`LINE_TEXT_BYTES_MAX`](super::limits::LINE_TEXT_BYTES_MAX) of text.

use super::elf::{Formats, Level, Text};
use super::format::{Kind, Piece, parse};
use super::limits::{ARGS_MAX, DEPTH_MAX, VALUES_MAX};
use super::show::Line;

/// A frame as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// `None` of a print.
    pub level: Option<Level>,
    /// What the device's clock said, where the firmware says it.
    pub device_time: Option<String>,
    pub text: String,
}

/// An argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Char(char),
    F32(f32),
    F64(f64),
    Unsigned(u128),
    /// With the bytes that it has.
    Signed(i128, usize),
    Str(String),
    Bytes(Vec<u8>),
    Nested(Part),
    List(Vec<Part>),
    Sequence(Vec<Part>),
}

/// A format with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub pieces: Vec<Piece>,
    pub values: Vec<Value>,
}

/// Decodes a frame.
///
/// # Errors
/// Why it is none of this firmware.
pub fn decode(formats: &Formats, frame: &[u8]) -> Result<Said, &'static str> {
    let mut reader = Reader {
        formats,
        bytes: frame,
        values: 0,
    };
    let number = reader.number()?;
    let device_time = match &formats.timestamp {
        Some(text) => {
            let pieces = parse(text).ok_or("the firmware's time is no format")?;
            let values = reader.values(&pieces, 0)?;
            Some(Line::render(&pieces, &values))
        }
        None => None,
    };
    let Some(Text::Line(level, text)) = formats.texts.get(&number) else {
        return Err("the firmware has no line of this number");
    };
    let pieces = parse(text).ok_or("the line of this number is no format")?;
    let values = reader.values(&pieces, 0)?;
    if !reader.bytes.is_empty() {
        return Err("there are bytes behind it");
    }
    Ok(Said {
        level: *level,
        device_time,
        text: Line::render(&pieces, &values),
    })
}

/// What is left of a frame.
struct Reader<'a> {
    formats: &'a Formats,
    bytes: &'a [u8],
    /// Values that were read.
    values: usize,
}

const SHORT: &str = "it ends early";

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// An unsigned number of at most 16 bytes.
    fn unsigned(&mut self, bytes: usize) -> Result<u128, &'static str> {
        let taken = self.take(bytes)?;
        Ok(taken
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u128::from(*byte)))
    }

    fn number(&mut self) -> Result<u16, &'static str> {
        let bytes = self.take(2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// How many follow.
    fn count(&mut self) -> Result<usize, &'static str> {
        let count = self.unsigned(4)?;
        usize::try_from(count).map_err(|_| SHORT)
    }

    fn part(&mut self, number: u16) -> Result<&'a str, &'static str> {
        match self.formats.texts.get(&number) {
            Some(Text::Part(text)) => Ok(text),
            Some(Text::Line(..)) | None => Err("the firmware has no part of a line of this number"),
        }
    }

    /// The arguments of a format, in order of their numbers.
    fn values(&mut self, pieces: &[Piece], depth: usize) -> Result<Vec<Value>, &'static str> {
        if depth >= DEPTH_MAX {
            return Err("its values stand too deep inside of each other");
        }
        arguments(pieces)?
            .iter()
            .map(|kind| self.value(kind, depth))
            .collect()
    }

    fn value(&mut self, kind: &Kind, depth: usize) -> Result<Value, &'static str> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err("it has too many values");
        }
        Ok(match kind {
            Kind::Bool => match self.take(1)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                _ => return Err("a bool is neither 0 nor 1"),
            },
            Kind::Char => {
                let code = u32::try_from(self.unsigned(4)?).ok();
                let char = code.and_then(char::from_u32);
                Value::Char(char.ok_or("a character is none")?)
            }
            Kind::F32 => Value::F32(f32::from_bits(self.unsigned(4)? as u32)),
            Kind::F64 => Value::F64(f64::from_bits(self.unsigned(8)? as u64)),
            Kind::Unsigned(bytes) => Value::Unsigned(self.unsigned(*bytes)?),
            Kind::Signed(bytes) => {
                let unused = 128 - 8 * (*bytes as u32);
                let value = (self.unsigned(*bytes)? << unused) as i128 >> unused;
                Value::Signed(value, *bytes)
            }
            Kind::Bits(bits) => {
                let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
                let bytes = usize::from(last - first + 1).next_power_of_two();
                Value::Unsigned(self.unsigned(bytes)? << (first * 8))
            }
            Kind::Str => {
                let count = self.count()?;
                Value::Str(text(self.take(count)?)?)
            }
            Kind::Bytes => {
                let count = self.count()?;
                Value::Bytes(self.take(count)?.to_vec())
            }
            Kind::ByteArray(count) => Value::Bytes(self.take(*count)?.to_vec()),
            Kind::Interned => {
                let number = self.number()?;
                Value::Str(self.part(number)?.to_owned())
            }
            Kind::Format => {
                let number = self.number()?;
                Value::Nested(self.nested(number, depth)?)
            }
            Kind::List => {
                let count = self.count()?;
                Value::List(self.list(count, depth)?)
            }
            Kind::Array(count) => Value::List(self.list(*count, depth)?),
            Kind::Sequence => Value::Sequence(self.sequence(depth)?),
            Kind::Rendered => {
                let end = self.bytes.iter().position(|byte| *byte == 0xff);
                let taken = self.take(end.ok_or(SHORT)?)?;
                self.take(1)?;
                Value::Str(text(taken)?)
            }
        })
    }

    /// The format of a number and its arguments.
    fn nested(&mut self, number: u16, depth: usize) -> Result<Part, &'static str> {
        let part = self.part(number)?;
        self.variant(part, depth)
    }

    /// A format, or that of its variants which the frame names, and its arguments.
    fn variant(&mut self, part: &str, depth: usize) -> Result<Part, &'static str> {
        let variants = part.matches('|').count();
        let part = if variants == 0 {
            part
        } else {
            let bytes = if variants <= 0xff { 1 } else { 2 };
            let nth = usize::try_from(self.unsigned(bytes)?).map_err(|_| SHORT)?;
            part.split('|')
                .nth(nth)
                .ok_or("a value has no variant of this number")?
        };
        let pieces = parse(part).ok_or("a part of the line is no format")?;
        let values = self.values(&pieces, depth + 1)?;
        Ok(Part { pieces, values })
    }

    fn list(&mut self, count: usize, depth: usize) -> Result<Vec<Part>, &'static str> {
        let number = self.number()?;
        let part = self.part(number)?;
        let mut out = Vec::new();
        for _ in 0..count {
            // An element may take no byte: counted, so that a count that lies ends.
            self.values += 1;
            if self.values > VALUES_MAX {
                return Err("it has too many values");
            }
            out.push(self.variant(part, depth)?);
        }
        Ok(out)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Part>, &'static str> {
        let mut out = Vec::new();
        loop {
            match self.number()? {
                0 => return Ok(out),
                number => out.push(self.nested(number, depth)?),
            }
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| "a text is no UTF-8")
}

/// The kinds of a format's arguments, in order of their numbers; bits of one number are
/// sent once, from the first of them to the last.
fn arguments(pieces: &[Piece]) -> Result<Vec<Kind>, &'static str> {
    let mut out: Vec<Option<Kind>> = Vec::new();
    for piece in pieces {
        let Piece::Param { index, kind, .. } = piece else {
            continue;
        };
        debug_assert!(*index < ARGS_MAX, "formats have no more");
        if out.len() <= *index {
            out.resize(*index + 1, None);
        }
        out[*index] = Some(match (out[*index].take(), kind) {
            (Some(Kind::Bits(known)), Kind::Bits(more)) => {
                Kind::Bits(known.start.min(more.start)..known.end.max(more.end))
            }
            (Some(known), kind) if known != *kind => {
                return Err("a format has one argument in two ways");
            }
            (_, kind) => kind.clone(),
        });
    }
    let all: Option<Vec<Kind>> = out.into_iter().collect();
    all.ok_or("a format leaves an argument out")
}
