//! NDJSON readings with their fields in any order, without escapes, with spaces or
//! none between the tokens. Fields without meaning are passed over where they are plain
//! too.

use forebay_core::engine::identity::ReadingId;
use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::EventTime;
use forebay_core::utc::TimeReader;
use memchr::memchr;

use super::names::{Known, Names};
use super::{Plain, decimal, without_return};

/// What was read so far; a field that comes twice ends the short way.
#[derive(Default)]
struct Fields<'a> {
    device: Option<&'a [u8]>,
    channel: Option<&'a [u8]>,
    /// Known by how the line begins.
    known: Option<Known>,
    /// How long that beginning is, where only the two names stand in it.
    head: Option<usize>,
    time: Option<EventTime>,
    value: Option<Option<f64>>,
    boot: Option<u64>,
    seq: Option<u64>,
}

pub(super) fn read(line: &[u8], names: &mut Names, times: &mut TimeReader) -> Option<Plain> {
    let line = without_return(line);
    let mut fields = Fields::default();
    let mut rest = match names.guess(line) {
        Some((known, used)) => {
            fields.known = Some(known);
            &line[used..]
        }
        None => line.strip_prefix(b"{")?,
    };
    loop {
        rest = fields.field(spaces(rest), times)?;
        match spaces(rest).split_first()? {
            (b',', more) => rest = more,
            (b'}', []) => break,
            _ => return None,
        }
        fields.note_head(line.len() - rest.len());
    }
    let known = match (fields.known, fields.device, fields.channel) {
        (Some(known), None, None) => known,
        (None, Some(device), Some(channel)) => {
            names.find(device, channel, fields.head.map(|len| &line[..len]))?
        }
        _ => return None,
    };
    let id = match (fields.boot, fields.seq) {
        (None, None) => None,
        (Some(boot), Some(seq)) => Some(ReadingId { boot, seq }),
        (Some(_), None) | (None, Some(_)) => return None,
    };
    Some(Plain {
        series: names.series(known),
        time: fields.time?,
        value: fields.value?,
        id,
    })
}

impl<'a> Fields<'a> {
    /// Reads one field and gives what follows it.
    fn field(&mut self, text: &'a [u8], times: &mut TimeReader) -> Option<&'a [u8]> {
        let (name, rest) = string(text)?;
        let rest = spaces(spaces(rest).strip_prefix(b":")?);
        match name {
            b"time" => once(&mut self.time, time(rest, times)?),
            b"value" => once(&mut self.value, value(rest)?),
            b"device" => once(&mut self.device, string(rest)?),
            b"channel" => once(&mut self.channel, string(rest)?),
            b"boot" => once(&mut self.boot, number(decimal::unsigned(rest)?, rest)),
            b"seq" => once(&mut self.seq, number(decimal::unsigned(rest)?, rest)),
            // These make something else of the line.
            b"control" | b"table" => None,
            other => is_plain(other).then(|| passed(rest))?,
        }
    }

    /// Notes that the line was read so far.
    fn note_head(&mut self, len: usize) {
        let names = self.device.is_some() && self.channel.is_some();
        let more = self.time.is_some() || self.value.is_some() || self.boot.is_some();
        if names && !more && self.seq.is_none() && self.head.is_none() {
            self.head = Some(len);
        }
    }
}

/// Whether a text between quotes is one as it stands.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|b| (b' '..0x80).contains(b) && *b != b'\\')
}

/// What follows a value without meaning.
fn passed(text: &[u8]) -> Option<&[u8]> {
    if let Some((inner, rest)) = string(text) {
        return is_plain(inner).then_some(rest);
    }
    let words: [&[u8]; 3] = [b"true", b"false", b"null"];
    let word = words.iter().find_map(|word| text.strip_prefix(*word));
    word.or_else(|| Some(&text[decimal::decimal(text)?.1..]))
}

/// Puts a value in its place, when that is free; gives what follows it.
fn once<'a, T>(place: &mut Option<T>, (value, rest): (T, &'a [u8])) -> Option<&'a [u8]> {
    if place.is_some() {
        return None;
    }
    *place = Some(value);
    Some(rest)
}

fn number<T>((number, len): (T, usize), text: &[u8]) -> (T, &[u8]) {
    (number, &text[len..])
}

fn spaces(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b" ") {
        text = rest;
    }
    text
}

/// What stands between two quotes. One with an escape ends too early, and then
/// nothing knows it.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = memchr(b'"', text)?;
    Some((&text[..end], &text[end + 1..]))
}

fn time<'a>(text: &'a [u8], times: &mut TimeReader) -> Option<(EventTime, &'a [u8])> {
    if let Some((inner, rest)) = string(text) {
        return Some((times.read(inner)?, rest));
    }
    let (us, rest) = number(decimal::signed(text)?, text);
    let fits = us.unsigned_abs() <= EVENT_TIME_MAX.unsigned_abs();
    fits.then_some((EventTime(us), rest))
}

fn value(text: &[u8]) -> Option<(Option<f64>, &[u8])> {
    if let Some(rest) = text.strip_prefix(b"null") {
        return Some((None, rest));
    }
    let (x, rest) = number(decimal::decimal(text)?, text);
    Some((Some(x), rest))
}
