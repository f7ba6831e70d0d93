//! The value column of a block whose series are all of doubles: pco of the values
//! themselves, series by series, for it finds the decimals that they were.

use super::pack;
use super::words::Encoding;
use crate::record::{ReadingRecord, Record};

/// The values of `records`, those of series 0 first; each in order of offsets.
pub(super) fn by_series(series: usize, records: &[Record]) -> Vec<f64> {
    let readings = || {
        records.iter().filter_map(|record| match record {
            Record::Reading(reading) => Some(reading),
            Record::Gap(_) | Record::Clock(_) | Record::Tables(_) => None,
        })
    };
    let series_of = |reading: &ReadingRecord| usize::from(reading.series);
    let mut places = Places::new(series, readings().map(series_of));
    let mut values = vec![0.0; places.total];
    for reading in readings() {
        values[places.next(series_of(reading))] = f64::from_bits(reading.value.cast_unsigned());
    }
    values
}

/// Where each reading's value stands in the column.
#[derive(Debug)]
pub(super) struct Places {
    next: Vec<usize>,
    pub(super) total: usize,
}

impl Places {
    /// From the series of all readings.
    pub(super) fn new(series: usize, readings: impl Iterator<Item = usize>) -> Self {
        let mut counts = vec![0; series];
        readings.for_each(|index| counts[index] += 1);
        let mut total = 0;
        let next = counts
            .into_iter()
            .map(|count| {
                total += count;
                total - count
            })
            .collect();
        Self { next, total }
    }

    /// Place of the next value of a series.
    pub(super) fn next(&mut self, series: usize) -> usize {
        self.next[series] += 1;
        self.next[series] - 1
    }
}

/// Puts the packed values in the place of the column that stands from `start` on,
/// if that is shorter.
pub(super) fn replace_if_shorter(values: &[f64], out: &mut Vec<u8>, start: usize) {
    let written = out.len();
    out.push(Encoding::PcoDouble as u8);
    let is_packed = pack::put_doubles(values, out);
    if is_packed && out.len() - written < written - start {
        out.drain(start..written);
    } else {
        out.truncate(written);
    }
}
