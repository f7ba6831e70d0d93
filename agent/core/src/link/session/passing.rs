//! Readings of a frame on their way to the log. Decides nothing: what is passed on, in
//! order and once, the session has judged.

use forebay_wire::data::Data;
use forebay_wire::ids::Ordinal;
use forebay_wire::message::{Quality, Reading};

use super::LinkSink;
use crate::link::device::Device;
use crate::record::{GapReason, GapRecord, ReadingRecord};
use crate::units::{EventTime, Now};

/// The readings of a frame; decoding the frame has checked that each one reads.
pub(super) fn readings<'a>(data: &Data<'a>) -> impl Iterator<Item = Reading> + use<'a> {
    data.records().map_while(Result::ok)
}

/// Passes on that the readings of a frame from the `skip`th on are not stored.
pub(super) fn reject(
    device: &mut Device,
    data: &Data<'_>,
    skip: u64,
    now: Now,
    sink: &mut dyn LinkSink,
) {
    let last = readings(data).last();
    let Some((time, _)) = last.and_then(|last| device.clock.map(last.tick, now)) else {
        return;
    };
    sink.reject(&GapRecord {
        uid: device.source.uid,
        boot: device.source.boot,
        first: Ordinal(data.first.0 + skip),
        count: data.count() as u64 - skip,
        reason: GapReason::LogFull,
        time,
    });
}

/// Passes a reading on; gives its time.
pub(super) fn pass_on(
    device: &mut Device,
    ordinal: Ordinal,
    reading: &Reading,
    now: Now,
    sink: &mut dyn LinkSink,
) -> Option<EventTime> {
    let (time, uncertainty_us) = device.clock.map(reading.tick, now)?;
    let series = device.series(reading.channel)?;
    let value = match reading.quality {
        Quality::Ok => i64::from(reading.value),
        Quality::Stale
        | Quality::Saturated
        | Quality::BusError
        | Quality::CrcError
        | Quality::Implausible
        | Quality::WarmingUp => 0,
    };
    let record = ReadingRecord {
        series: 0,
        ordinal,
        tick: reading.tick,
        time,
        uncertainty_us,
        value,
        quality: reading.quality,
    };
    sink.reading(series, &record);
    Some(time)
}
