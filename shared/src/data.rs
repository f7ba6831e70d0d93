//! The body of a Data frame: consecutive readings of one boot, written straight
//! into the line buffer by [`DataBuilder`] and read back by [`Data::records`].
//!
//! Ticks of several channels need not be in order: a flag in each record says
//! whether its tick lies before that of the record in front. Bounds:
//! [`DATA_RECORDS_MAX`] records, one frame. The bytes stand in `wire.md`.

use crate::codec::{DecodeError, EncodeError};
use crate::frame::{self, Kind};
use crate::ids::{BootId, ChannelNo, Ordinal, Tick};
use crate::limits::{CHANNELS_MAX, DATA_RECORDS_MAX};
use crate::message::{Quality, Reading};
use crate::varint::{self, U64_BYTES_MAX};

/// A quality byte ends the record.
const FLAG_QUALITY: u8 = 0x80;
/// The tick delta is subtracted.
const FLAG_EARLIER: u8 = 0x40;
/// Same tick as the record in front: no delta follows.
const FLAG_SAME_TICK: u8 = 0x20;
const CHANNEL_MASK: u8 = 0x1F;

/// Flags and channel, delta, value, quality.
const RECORD_BYTES_MAX: usize = 1 + U64_BYTES_MAX + 5 + 1;

const _: () = assert!(CHANNELS_MAX == CHANNEL_MASK as usize + 1);

/// Low byte of a boot id, as every Data frame carries it.
#[must_use]
pub fn boot_low(boot: BootId) -> u8 {
    boot.0.to_le_bytes()[0]
}

/// A checked Data body: every record in it decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Low byte of the boot id: enough to tell a boot from the one before it.
    pub boot_low: u8,
    /// Ordinal of the first record; the others follow one by one.
    pub first: Ordinal,
    /// Tick of the first record.
    base: Tick,
    count: usize,
    /// Place of the records in the body, for errors.
    records_at: usize,
    records: &'a [u8],
}

impl<'a> Data<'a> {
    /// Reads and checks a whole body, so that a frame is taken whole or not at all.
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut rest = body;
        let header = (|| {
            let (boot_low, after) = rest.split_first()?;
            rest = after;
            Some((
                *boot_low,
                varint::take_u64(&mut rest)?,
                varint::take_u64(&mut rest)?,
            ))
        })();
        let (boot_low, first, base) = header.ok_or(bad(body, rest))?;
        let records_at = body.len() - rest.len();
        let mut data = Data {
            records_at,
            boot_low,
            first: Ordinal(first),
            base: Tick(base),
            count: 0,
            records: rest,
        };
        for record in data.records() {
            record?;
            data.count += 1;
        }
        let count = data.count as u64;
        if !(1..=DATA_RECORDS_MAX).contains(&data.count) || first.checked_add(count).is_none() {
            return Err(bad(body, &[]));
        }
        Ok(data)
    }

    /// Readings in this frame, 1 to [`DATA_RECORDS_MAX`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The ordinal after the last record.
    #[must_use]
    pub fn end(&self) -> Ordinal {
        Ordinal(self.first.0 + self.count as u64)
    }

    /// The readings in ordinal order: `first`, `first + 1`, ...
    /// None is an error for a `Data` that came out of a decoder.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records {
            body_bytes: self.records_at + self.records.len(),
            rest: self.records,
            tick: self.base,
            at_first: true,
        }
    }

    pub(crate) fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let room = frame::body_room(out).map_err(|_| EncodeError::NoRoom)?;
        let header =
            write_header(room, self.boot_low, self.first, self.base).ok_or(EncodeError::NoRoom)?;
        let end = header + self.records.len();
        room.get_mut(header..end)
            .ok_or(EncodeError::NoRoom)?
            .copy_from_slice(self.records);
        Ok(frame::close(out, Kind::Data.byte(), end))
    }
}

fn bad(body: &[u8], rest: &[u8]) -> DecodeError {
    DecodeError::Body {
        kind: Kind::Data,
        at: body.len() - rest.len(),
    }
}

fn write_header(room: &mut [u8], boot_low: u8, first: Ordinal, base: Tick) -> Option<usize> {
    *room.get_mut(0)? = boot_low;
    let ordinal_end = 1 + varint::write_u64(&mut room[1..], first.0)?;
    Some(ordinal_end + varint::write_u64(&mut room[ordinal_end..], base.0)?)
}

/// See [`Data::records`]. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    body_bytes: usize,
    rest: &'a [u8],
    tick: Tick,
    at_first: bool,
}

impl Records<'_> {
    fn take(&mut self) -> Option<Reading> {
        let (head, after) = self.rest.split_first()?;
        self.rest = after;
        if head & FLAG_SAME_TICK == 0 {
            let delta = varint::take_u64(&mut self.rest)?;
            let moved = if head & FLAG_EARLIER == 0 {
                self.tick.0.checked_add(delta)?
            } else {
                self.tick.0.checked_sub(delta)?
            };
            // One encoding each: no delta of 0, and the base is the first tick.
            if delta == 0 || self.at_first {
                return None;
            }
            self.tick = Tick(moved);
        } else if head & FLAG_EARLIER != 0 {
            return None;
        }
        self.at_first = false;
        let value = u32::try_from(varint::take_u64(&mut self.rest)?).ok()?;
        let quality = if head & FLAG_QUALITY == 0 {
            Quality::Ok
        } else {
            let (byte, after) = self.rest.split_first()?;
            self.rest = after;
            Quality::from_byte(*byte).filter(|quality| *quality != Quality::Ok)?
        };
        let channel = ChannelNo(head & CHANNEL_MASK);
        Some(Reading {
            channel,
            tick: self.tick,
            value: varint::unzigzag(value),
            quality,
        })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Reading, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.body_bytes - self.rest.len();
        let reading = self.take().ok_or(DecodeError::Body {
            kind: Kind::Data,
            at,
        });
        if reading.is_err() {
            self.rest = &[];
        }
        Some(reading)
    }
}

/// Packs readings into a line buffer until it is full. Their ordinals are
/// `first`, `first + 1`, ... in the order pushed.
#[derive(Debug)]
pub struct DataBuilder<'a> {
    out: &'a mut [u8],
    boot_low: u8,
    first: Ordinal,
    tick: Tick,
    /// Body bytes so far; 0 until the first reading set the base tick.
    used: usize,
    count: usize,
}

impl<'a> DataBuilder<'a> {
    /// `out` becomes the line; give it [`crate::limits::LINE_BYTES_MAX`] bytes.
    #[must_use]
    pub fn new(out: &'a mut [u8], boot: BootId, first: Ordinal) -> Self {
        DataBuilder {
            out,
            boot_low: boot_low(boot),
            first,
            tick: Tick(0),
            used: 0,
            count: 0,
        }
    }

    /// Adds a reading. False, and nothing changed, when it does not fit any more,
    /// or when its channel is not below [`CHANNELS_MAX`].
    #[must_use]
    pub fn push(&mut self, reading: &Reading) -> bool {
        if self.count == DATA_RECORDS_MAX || usize::from(reading.channel.0) >= CHANNELS_MAX {
            return false;
        }
        let Ok(room) = frame::body_room(self.out) else {
            return false;
        };
        let mut used = self.used;
        if self.count == 0 {
            match write_header(room, self.boot_low, self.first, reading.tick) {
                Some(header) => used = header,
                None => return false,
            }
            self.tick = reading.tick;
        }
        let rest = &mut room[used..];
        let bytes = match rest.first_chunk_mut() {
            Some(record) => write_record(record, self.tick, reading),
            // Near the end it may fit or not: that shows when it is written.
            None => {
                let mut record = [0u8; RECORD_BYTES_MAX];
                let bytes = write_record(&mut record, self.tick, reading);
                let Some(slot) = rest.get_mut(..bytes) else {
                    return false;
                };
                slot.copy_from_slice(&record[..bytes]);
                bytes
            }
        };
        self.used = used + bytes;
        self.tick = reading.tick;
        self.count += 1;
        true
    }

    /// Readings pushed so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Closes the line and returns its length; `None` when nothing was pushed.
    #[must_use]
    pub fn finish(self) -> Option<usize> {
        (self.count > 0).then(|| frame::close(self.out, Kind::Data.byte(), self.used))
    }
}

/// Writes one record and returns its length.
fn write_record(out: &mut [u8; RECORD_BYTES_MAX], before: Tick, reading: &Reading) -> usize {
    let mut head = reading.channel.0;
    let mut used = 1;
    match reading.tick.0.checked_sub(before.0) {
        Some(0) => head |= FLAG_SAME_TICK,
        // Nearly all: 32-bit chips are slow with more.
        Some(ahead) if ahead <= u64::from(u32::MAX) => {
            used = varint::put_u32(out, used, ahead as u32);
        }
        Some(_) | None => {
            if reading.tick < before {
                head |= FLAG_EARLIER;
            }
            let delta = reading.tick.0.abs_diff(before.0);
            let long = varint::write_u64(&mut out[used..], delta);
            used += long.expect("a record has at most RECORD_BYTES_MAX bytes");
        }
    }
    used = varint::put_u32(out, used, varint::zigzag(reading.value));
    if reading.quality != Quality::Ok {
        head |= FLAG_QUALITY;
        out[used] = reading.quality as u8;
        used += 1;
    }
    out[0] = head;
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Deframer;
    use crate::codec::DeviceMessage;
    use crate::limits::{FRAME_OVERHEAD_BYTES, LINE_BYTES_MAX};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const BOOT: BootId = BootId(0x0102_0304);

    fn reading(channel: u8, tick: u64, value: i32) -> Reading {
        Reading {
            channel: ChannelNo(channel),
            tick: Tick(tick),
            value,
            quality: Quality::Ok,
        }
    }

    /// Packs as many as fit, decodes the line, and gives back what came out.
    fn through_the_line(first: Ordinal, readings: &[Reading]) -> (usize, Vec<Reading>) {
        let mut line = [0u8; LINE_BYTES_MAX];
        let mut builder = DataBuilder::new(&mut line, BOOT, first);
        let fitted = readings
            .iter()
            .take_while(|reading| builder.push(reading))
            .count();
        assert_eq!(builder.count(), fitted);
        let bytes = builder.finish().unwrap();
        let mut out = Vec::new();
        Deframer::new().receive_device(&line[..bytes], |message| match message {
            Ok(DeviceMessage::Data(data)) => {
                assert_eq!(
                    (data.boot_low, data.first, data.count()),
                    (4, first, fitted)
                );
                assert_eq!(data.end(), Ordinal(first.0 + fitted as u64));
                out.extend(data.records().map(Result::unwrap));
                let mut again = [0u8; LINE_BYTES_MAX];
                let again_bytes = DeviceMessage::Data(data).encode(&mut again).unwrap();
                assert_eq!(&again[..again_bytes], &line[..bytes]);
            }
            other => panic!("{other:?}"),
        });
        (bytes, out)
    }

    fn body_error(body: &[u8]) -> Option<usize> {
        match Data::decode(body) {
            Ok(_) => None,
            Err(DecodeError::Body {
                kind: Kind::Data,
                at,
            }) => Some(at),
            Err(other) => panic!("{other}"),
        }
    }

    /// The figure that the README quotes: a channel at 100 Hz, an hour after boot.
    #[test]
    fn bytes_per_reading_at_sixteen() {
        let one_hour = 3_600_000_000;
        let readings: Vec<_> = (0..16)
            .map(|i| reading(3, one_hour + i * 10_003, 2_150 - i as i32))
            .collect();
        let (bytes, out) = through_the_line(Ordinal(360_000), &readings);
        assert_eq!(out, readings);
        std::println!(
            "16 readings: {bytes} bytes on the line, {} per reading",
            bytes as f64 / 16.0
        );
        assert_eq!(bytes, 94);
    }

    #[test]
    fn records_around_the_limit() {
        let readings: Vec<_> = (0..DATA_RECORDS_MAX as u64 + 1)
            .map(|i| reading(0, i, 0))
            .collect();
        for (name, given, want) in [
            ("one under", DATA_RECORDS_MAX - 1, DATA_RECORDS_MAX - 1),
            ("at the limit", DATA_RECORDS_MAX, DATA_RECORDS_MAX),
            ("one over", DATA_RECORDS_MAX + 1, DATA_RECORDS_MAX),
        ] {
            let (_, out) = through_the_line(Ordinal(0), &readings[..given]);
            assert_eq!(out, &readings[..want], "{name}");
        }
    }

    #[test]
    fn channels_around_the_limit() {
        let mut line = [0u8; LINE_BYTES_MAX];
        let mut builder = DataBuilder::new(&mut line, BOOT, Ordinal(0));
        for (channel, fits) in [(30, true), (31, true), (32, false)] {
            assert_eq!(
                builder.push(&reading(channel, 5, 1)),
                fits,
                "channel {channel}"
            );
        }
    }

    #[test]
    fn ticks_out_of_order_survive() {
        let readings = [
            reading(0, 1_000, 1),
            reading(1, 400, 2),
            reading(0, 400, 3),
            reading(2, u64::MAX, 4),
            reading(2, 0, 5),
        ];
        assert_eq!(through_the_line(Ordinal(7), &readings).1, readings);
    }

    #[test]
    fn a_short_buffer_takes_less_and_stays_whole() {
        for room in 0..60 {
            let mut line = [0u8; 60];
            let mut builder = DataBuilder::new(&mut line[..room], BOOT, Ordinal(0));
            let fitted = (0..20)
                .filter(|i| builder.push(&reading(0, 1_000 * i, 70)))
                .count();
            match builder.finish() {
                Some(bytes) => assert!(fitted > 0 && bytes <= room),
                None => assert_eq!(fitted, 0),
            }
        }
    }

    #[test]
    fn bad_bodies() {
        for (name, body, at) in [
            ("empty", &[][..], 0),
            ("no ordinal", &[4], 1),
            ("no base tick", &[4, 0], 2),
            ("no record", &[4, 0, 0], 3),
            ("record cut after its head", &[4, 0, 0, 0x20], 3),
            ("first record with a delta", &[4, 0, 0, 0x00, 1, 0], 3),
            ("delta of 0", &[4, 0, 0, 0x20, 0, 0x00, 0, 0], 5),
            ("same tick and earlier", &[4, 0, 0, 0x20, 0, 0x60, 0], 5),
            ("tick below 0", &[4, 0, 0, 0x20, 0, 0x40, 1, 0], 5),
            (
                "value over 32 bits",
                &[4, 0, 0, 0x20, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F],
                3,
            ),
            ("quality missing", &[4, 0, 0, 0xA0, 0], 3),
            ("quality says ok", &[4, 0, 0, 0xA0, 0, 0], 3),
            ("quality unknown", &[4, 0, 0, 0xA0, 0, 7], 3),
        ] {
            assert_eq!(body_error(body), Some(at), "{name}");
        }
        let over = [&[4, 0, 0][..], &[0x20, 0].repeat(DATA_RECORDS_MAX + 1)].concat();
        assert_eq!(body_error(&over), Some(over.len()), "a record too many");
        let ordinals_end = [&[4][..], &[0xFF; 9], &[0x01, 0, 0x20, 0]].concat();
        assert!(
            body_error(&ordinals_end).is_some(),
            "the ordinal after the last does not exist"
        );
        assert_eq!(
            body_error(&[4, 0, 0, 0x20, 0]),
            None,
            "the smallest good one"
        );
    }

    fn any_reading() -> impl Strategy<Value = Reading> {
        let quality =
            prop_oneof![4 => Just(Quality::Ok), 1 => prop::sample::select(&Quality::ALL[..])];
        let tick = prop_oneof![0u64..100_000, any::<u64>()];
        (0u8..32, tick, any::<i32>(), quality).prop_map(|(channel, tick, value, quality)| Reading {
            channel: ChannelNo(channel),
            tick: Tick(tick),
            value,
            quality,
        })
    }

    proptest! {
        #[test]
        fn round_trip(first in 0u64..u64::MAX - 64, readings in prop::collection::vec(any_reading(), 1..60)) {
            let (bytes, out) = through_the_line(Ordinal(first), &readings);
            prop_assert!(!out.is_empty() && bytes <= LINE_BYTES_MAX);
            prop_assert_eq!(&out[..], &readings[..out.len()]);
            // Nothing is left out that would have fitted.
            let spare = LINE_BYTES_MAX - bytes;
            prop_assert!(out.len() == readings.len() || out.len() == DATA_RECORDS_MAX || spare < RECORD_BYTES_MAX);
        }

        #[test]
        fn arbitrary_bodies_never_panic_and_have_one_encoding(body in prop::collection::vec(any::<u8>(), 0..=crate::limits::BODY_BYTES_MAX)) {
            if let Ok(data) = Data::decode(&body) {
                let readings: Vec<_> = data.records().map(Result::unwrap).collect();
                let mut line = vec![0u8; LINE_BYTES_MAX];
                let mut builder = DataBuilder::new(&mut line, BootId(u32::from(data.boot_low)), data.first);
                prop_assert!(readings.iter().all(|reading| builder.push(reading)));
                let bytes = builder.finish().unwrap();
                prop_assert_eq!(bytes, body.len() + FRAME_OVERHEAD_BYTES + 2);
                let frame = frame::open(&mut line[..bytes - 1]).unwrap();
                prop_assert_eq!(frame.body, &body[..]);
            }
        }
    }
}
