//! Tables in all formats, and back through the readers of imports.

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::RowAccessor as _;
use proptest::prelude::*;

use super::*;
use crate::import::{self, InfluxRules, Next, Records};

/// An output that a test can look at afterwards.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn reading<'a>(device: &'a str, channel: &'a str, time: i64, value: Option<f64>) -> Reading<'a> {
    Reading {
        device,
        channel,
        unit: "degC",
        time: EventTime(time),
        value,
        quality: value.map_or(Quality::Stale, |_| Quality::Ok),
        uid: DeviceUid([1; 8]),
        boot: BootId(u32::MAX),
        ordinal: Ordinal(u64::MAX),
        uncertainty_us: 7,
        partition: PartitionId(3),
        offset: Offset(9),
    }
}

fn written(format: Format, readings: &[Reading<'_>]) -> Vec<u8> {
    let out = Shared::default();
    let mut table = begin(format, READING_COLUMNS, Box::new(out.clone())).expect("memory");
    for reading in readings {
        reading.write(table.as_mut()).expect("memory");
    }
    table.finish().expect("memory");
    let bytes = out.0.lock().expect("one thread");
    bytes.clone()
}

#[test]
fn a_reading_in_each_text_format() {
    let row = reading("m,1", "a\"b", 1_500_000, Some(21.5));
    let csv = String::from_utf8(written(Format::Csv, &[row])).expect("UTF-8");
    let (header, record) = csv.split_once('\n').expect("two lines");
    assert!(header.starts_with("device,channel,time,value,unit,quality,"));
    assert_eq!(
        record,
        "\"m,1\",\"a\"\"b\",1970-01-01T00:00:01.500000Z,21.5,degC,ok,0101010101010101,4294967295,18446744073709551615,7,3,9\n"
    );
    let json = written(Format::Ndjson, &[reading("m", "a", 0, None)]);
    assert_eq!(
        String::from_utf8_lossy(&json),
        "{\"device\":\"m\",\"channel\":\"a\",\"time\":\"1970-01-01T00:00:00Z\",\"value\":null,\"unit\":\"degC\",\"quality\":\"stale\",\"uid\":\"0101010101010101\",\"boot\":4294967295,\"ordinal\":18446744073709551615,\"uncertainty_us\":7,\"partition\":3,\"offset\":9}\n"
    );
}

#[test]
fn result_rows_stay_the_json_they_are() {
    let line = br#"{"stream":"w","count":3}"#;
    let cells = [
        Cell::Unsigned(1),
        Cell::Unsigned(2),
        Cell::Time(EventTime(0)),
        Cell::Json(line),
    ];
    for (format, want) in [
        (Format::Ndjson, "{\"stream\":\"w\",\"count\":3}\n"),
        (
            Format::Csv,
            "partition,offset,time,row\n1,2,1970-01-01T00:00:00Z,\"{\"\"stream\"\":\"\"w\"\",\"\"count\"\":3}\"\n",
        ),
    ] {
        let out = Shared::default();
        let mut table = begin(format, LINE_COLUMNS, Box::new(out.clone())).expect("memory");
        table.row(&cells).expect("memory");
        table.finish().expect("memory");
        let bytes = out.0.lock().expect("one thread");
        assert_eq!(String::from_utf8_lossy(&bytes), want);
    }
}

#[test]
fn parquet_has_all_rows_over_its_groups() {
    let rows = parquet::GROUP_ROWS_MAX + 1;
    let all: Vec<_> = (0..rows)
        .map(|n| reading("m", "a", n as i64, (n % 3 > 0).then_some(n as f64)))
        .collect();
    let bytes = bytes::Bytes::from(written(Format::Parquet, &all));
    let file = SerializedFileReader::new(bytes).expect("a Parquet file");
    assert_eq!(file.metadata().num_row_groups(), 2);
    let read = file.get_row_iter(None).expect("rows");
    let mut count = 0;
    for (row, want) in read.zip(&all) {
        let row = row.expect("a row");
        assert_eq!(row.get_string(0).expect("a text"), "m");
        assert_eq!(row.get_timestamp_micros(2).expect("a time"), want.time.0);
        assert_eq!(row.get_double(3).ok(), want.value);
        assert_eq!(row.get_ulong(8).expect("unsigned"), u64::MAX);
        count += 1;
    }
    assert_eq!(count, rows);
}

#[test]
fn a_table_without_rows_is_whole() {
    assert_eq!(written(Format::Ndjson, &[]), b"");
    assert!(written(Format::Csv, &[]).ends_with(b"offset\n"));
    let bytes = bytes::Bytes::from(written(Format::Parquet, &[]));
    let file = SerializedFileReader::new(bytes).expect("a Parquet file");
    assert_eq!(file.metadata().file_metadata().num_rows(), 0);
}

fn name() -> impl Strategy<Value = String> {
    "[a-z\",;= é]{1,8}".prop_filter("no space at an end", |name| name.trim() == name)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        rows in prop::collection::vec(
            (name(), name(), any::<i32>(), prop::option::of(any::<f64>().prop_filter("finite", |v| v.is_finite()))),
            1..20,
        ),
    ) {
        let rows: Vec<_> = rows
            .iter()
            .map(|(device, channel, time, value)| reading(device, channel, i64::from(*time), *value))
            .collect();
        for (format, read_as) in [
            (Format::Csv, import::Format::Csv),
            (Format::Ndjson, import::Format::Ndjson),
        ] {
            let bytes = written(format, &rows);
            let reader = Box::new(Cursor::new(bytes));
            let mut records = Records::new(reader, Some(read_as), InfluxRules::default());
            for row in &rows {
                let next = records.read_next().expect("memory reads");
                let Next::Record(_, record) = next else {
                    panic!("{next:?} for {row:?}");
                };
                prop_assert_eq!((&*record.device, &*record.channel), (row.device, row.channel));
                prop_assert_eq!((&*record.unit, record.time), (row.unit, row.time));
                prop_assert_eq!(record.quality, row.quality);
                prop_assert_eq!(record.value.to_bits(), row.value.unwrap_or(0.0).to_bits());
            }
            prop_assert!(matches!(records.read_next(), Ok(Next::End)));
        }
    }
}
