//! Rows of windows as they stand by key behind the blocks of a sealed segment: what a line
//! says, in a fifth of its bytes, and the same doubles when it is read.
//!
//! Holds always: a line that reads gives the same from its packed form. Byte table:
//! `agent/core/docs/format.md`. Bound: no memory beside the row.

use super::line::{self, WindowLine, row_key};
use crate::limits::KEYED_NOTE_BYTES_MAX;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::units::EventTime;
use crate::utc::TimeReader;

/// A figure that the row says is null.
const NULL: u8 = 14;
/// A figure that follows as the bits of a double.
const BITS: u8 = 15;
const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Whole numbers up to here are the same as doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Why a row cannot be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotPacked {
    /// It is no row of a window.
    NoKey,
    /// No question reads it: from its line either, it may be left out.
    Unread,
    /// It has other figures than the rows before it: they cannot stand together.
    OtherFigures,
}

/// Packs the rows of one segment.
#[derive(Debug, Default)]
pub struct Packer {
    times: TimeReader,
    note: Vec<u8>,
    labels: Vec<Vec<u8>>,
    figures: Vec<f64>,
    out: Vec<u8>,
}

impl Packer {
    /// The key of a row and its packed form.
    ///
    /// # Errors
    /// See [`NotPacked`].
    pub fn pack<'a>(
        &'a mut self,
        time: EventTime,
        row: &'a [u8],
    ) -> Result<(&'a [u8], &'a [u8]), NotPacked> {
        let key = row_key(row).ok_or(NotPacked::NoKey)?;
        let rest = row.get(key.len()..).ok_or(NotPacked::NoKey)?;
        if self.note.is_empty() {
            let note = line::note(rest).ok_or(NotPacked::Unread)?;
            if note.len() > KEYED_NOTE_BYTES_MAX {
                return Err(NotPacked::OtherFigures);
            }
            self.labels = labels_of(&note);
            self.note = note;
        }
        let read = line::read(rest, &self.labels, &mut self.times, &mut self.figures);
        let Some(read) = read else {
            return match line::note(rest) {
                Some(note) if note != self.note => Err(NotPacked::OtherFigures),
                Some(_) | None => Err(NotPacked::Unread),
            };
        };
        self.out.clear();
        let revision = read.revision << 1 | u64::from(read.is_final);
        if revision >> 1 != read.revision {
            return Err(NotPacked::OtherFigures);
        }
        put_varint(&mut self.out, revision);
        put_zigzag(&mut self.out, time.0.wrapping_sub(read.start.0));
        put_zigzag(&mut self.out, time.0.wrapping_sub(read.end.0));
        for value in &self.figures {
            put_figure(&mut self.out, *value);
        }
        Ok((key, &self.out))
    }

    /// The figures of all rows, to be kept beside them.
    #[must_use]
    pub fn note(&self) -> &[u8] {
        &self.note
    }
}

/// Labels of figures as one text: each as it stands in a row.
pub(super) fn note_of(labels: &[Vec<u8>]) -> Vec<u8> {
    labels.concat()
}

fn labels_of(note: &[u8]) -> Vec<Vec<u8>> {
    let labels = note.split_inclusive(|byte| *byte == b':');
    labels.map(<[u8]>::to_vec).collect()
}

fn put_figure(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.push(NULL);
    }
    for (scale, power) in POWERS.iter().enumerate().take(7) {
        let scaled = (value * power).round();
        let whole = scaled as i64;
        if scaled.abs() < EXACT && (whole as f64 / power).to_bits() == value.to_bits() {
            out.push(scale as u8);
            return put_zigzag(out, whole);
        }
    }
    out.push(BITS);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn read_figure(reader: &mut Reader<'_>) -> Result<f64, Malformed> {
    let kind = reader.byte()?;
    match kind {
        NULL => Ok(f64::NAN),
        BITS => Ok(f64::from_bits(u64::from_le_bytes(reader.array()?))),
        scale => {
            let power = POWERS.get(usize::from(scale));
            let power = power.ok_or_else(|| reader.malformed())?;
            Ok(reader.zigzag()? as f64 / power)
        }
    }
}

/// Reads a packed row of so many figures.
///
/// # Errors
/// When the bytes are not exactly one.
pub(super) fn read_packed(
    time: EventTime,
    row: &[u8],
    count: usize,
    figures: &mut Vec<f64>,
) -> Result<WindowLine, Malformed> {
    let mut reader = Reader::new(row);
    let revision = reader.varint()?;
    let start = EventTime(time.0.wrapping_sub(reader.zigzag()?));
    let end = EventTime(time.0.wrapping_sub(reader.zigzag()?));
    figures.clear();
    for _ in 0..count {
        figures.push(read_figure(&mut reader)?);
    }
    if !reader.is_at_end() {
        return Err(reader.malformed());
    }
    Ok(WindowLine {
        start,
        end,
        revision: revision >> 1,
        is_final: revision & 1 == 1,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = r#"{"stream":"minute","device":"0102030405060708","channel":"t","start":""#;

    fn line(rest: &str) -> Vec<u8> {
        let times = r#"2026-03-01T00:00:00Z","end":"2026-03-01T00:01:00Z""#;
        format!("{KEY}{times}{rest}").into_bytes()
    }

    /// The packed form of a row, read, and what its line says.
    fn both(packer: &mut Packer, row: &[u8]) -> Result<[(WindowLine, Vec<u64>); 2], NotPacked> {
        let (key, rest) = row.split_at(KEY.len());
        let time = EventTime(1_772_323_260_000_000 - 1);
        let (found, packed) = packer.pack(time, row)?;
        assert_eq!(found, key);
        let packed = packed.to_vec();
        let labels = labels_of(packer.note());
        let mut figures = Vec::new();
        let bits = |figures: &[f64]| figures.iter().map(|value| value.to_bits()).collect();
        let from_line = line::read(rest, &labels, &mut TimeReader::default(), &mut figures);
        let from_line = (from_line.expect("it was packed"), bits(&figures));
        let read = read_packed(time, &packed, labels.len(), &mut figures);
        let read = (read.expect("as it was packed"), bits(&figures));
        for cut in 0..packed.len() {
            let cut = read_packed(time, &packed[..cut], labels.len(), &mut figures);
            assert!(cut.is_err());
        }
        assert!(read_packed(time, &packed, labels.len() - 1, &mut figures).is_err());
        Ok([read, from_line])
    }

    #[test]
    fn rows_are_packed_or_say_why_not() {
        let mut packer = Packer::default();
        let is_final = r#","revision":2,"final":true"#;
        for (name, rest, want) in [
            (
                "plain",
                format!(r#"{is_final},"count":3,"mean":-1.5e-7}}"#),
                Ok(()),
            ),
            (
                "null",
                format!(r#"{is_final},"count":0,"mean":null}}"#),
                Ok(()),
            ),
            (
                "idle",
                r#","revision":0,"final":false,"reason":"idle","count":1,"mean":2.5}"#.into(),
                Ok(()),
            ),
            (
                "a word",
                format!(r#"{is_final},"count":1,"mean":"NaN"}}"#),
                Err(NotPacked::Unread),
            ),
            (
                "other figures",
                format!(r#"{is_final},"count":1,"sum":1}}"#),
                Err(NotPacked::OtherFigures),
            ),
            (
                "fewer",
                format!(r#"{is_final},"count":1}}"#),
                Err(NotPacked::OtherFigures),
            ),
            (
                "cut",
                format!(r#"{is_final},"count":1"#),
                Err(NotPacked::Unread),
            ),
            (
                "a revision beyond all",
                format!(
                    r#","revision":{},"final":true,"count":1,"mean":1}}"#,
                    u64::MAX
                ),
                Err(NotPacked::OtherFigures),
            ),
        ] {
            let got = both(&mut packer, &line(&rest));
            assert_eq!(got.as_ref().map(drop).map_err(|why| *why), want, "{name}");
            if let Ok([packed, plain]) = got {
                assert_eq!(packed, plain, "{name}");
            }
        }
        assert_eq!(packer.note(), br#","count":,"mean":"#);
        let late = br#"{"stream":"late","device":"0102030405060708","time":"x"}"#;
        let none = packer.pack(EventTime(0), late);
        assert_eq!(none, Err(NotPacked::NoKey));
    }

    #[test]
    fn what_is_said_of_all_rows_is_bounded() {
        for (more, want) in [(-1, true), (0, true), (1, false)] {
            // `,"` and `":` stand around the name.
            let name = "x".repeat(KEYED_NOTE_BYTES_MAX.checked_add_signed(more - 4).unwrap());
            let row = line(&format!(r#","revision":0,"final":true,"{name}":1}}"#));
            let packed = both(&mut Packer::default(), &row);
            assert_eq!(packed.is_ok(), want, "{more}");
        }
    }

    #[test]
    fn figures_take_few_bytes_and_stay_what_they_are() {
        for (value, bytes) in [
            (0.0, 2),
            (-0.0, 9),
            (6.0, 2),
            (21.53, 3),
            (-21.5, 3),
            (0.000_001, 2),
            (1e300, 9),
            (21.516_666_666_666_666, 9),
            (EXACT - 1.0, 9),
            (EXACT, 9),
            (f64::INFINITY, 9),
            (f64::NAN, 1),
        ] {
            let mut out = Vec::new();
            put_figure(&mut out, value);
            assert_eq!(out.len(), bytes, "{value}");
            let read = read_figure(&mut Reader::new(&out)).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{value}");
        }
        for bad in [&[10, 0][..], &[13], &[16], &[255], &[]] {
            assert!(read_figure(&mut Reader::new(bad)).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_packed_row_says_what_its_line_says(
            count in 0_u32..10_000, mean in any::<f64>(), min in -1_000_000_i64..1_000_000,
            scale in 0..7_i32, revision in 0_u64..1 << 62, is_final in any::<bool>(),
        ) {
            prop_assume!(mean.is_finite());
            let min = min as f64 / 10_f64.powi(scale);
            let row = line(&format!(
                r#","revision":{revision},"final":{is_final},"count":{count},"mean":{mean:?},"min":{min}}}"#
            ));
            let [packed, plain] = both(&mut Packer::default(), &row).unwrap();
            prop_assert_eq!(packed, plain);
        }
    }
}
