//! What columns hold, as a query sees it: times that PostgreSQL has not, times that
//! nobody knows, names with zero bytes, numbers above 2^63.

use forebay_core::payload::DataBody;
use forebay_core::record::{Record, UNSYNCED_US, ValueKind};
use forebay_node::upstream::RowFilter;
use forebay_tests::postgres::Postgres;
use forebay_wire::message::Quality;

use super::made::{batch, commit, id, open, reading, rows, scaled, series, texts, whole};

#[test]
fn readings_as_a_query_sees_them() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let mut unsynced = reading(2, 5_000_000, 150);
    unsynced.uncertainty_us = UNSYNCED_US;
    let mut broken = reading(3, 1_764_482_400_123_456, 0);
    broken.quality = Quality::BusError;
    broken.series = 1;
    let mut vague = reading(4, 1_764_482_400_000_000, -7);
    vague.uncertainty_us = u32::MAX - 1;
    let records = [
        reading(1, i64::MIN, 2153),
        unsynced,
        broken,
        vague,
        reading(u64::MAX, i64::MAX, 1),
    ];
    let body = DataBody::Readings {
        series: vec![scaled("temperature"), series("x\0y", ValueKind::Double)],
        records: records.map(Record::Reading).to_vec(),
    };
    commit(
        &mut sink,
        &batch("gw", 0, vec![whole(id("gw", "readings", 0, 5), body)]),
    );
    let sql = "SELECT concat_ws('|', \"time\" AT TIME ZONE 'UTC', gateway, device, channel, \
               coalesce(value::text, 'null'), unit, quality, unsynced, \
               coalesce(uncertainty_us::text, 'null'), boot, ordinal) \
               FROM forebay.readings ORDER BY \"offset\"";
    let seen = server.admin().query(sql, &[]).unwrap().into_iter();
    let seen: Vec<String> = seen.map(|row| row.get(0)).collect();
    let want = [
        "-infinity|gw|000000000000abcd|temperature|21.53|degC|ok|f|40|7|1",
        "1970-01-01 00:00:05|gw|000000000000abcd|temperature|1.5|degC|ok|t|null|7|2",
        "2025-11-30 06:00:00.123456|gw|000000000000abcd|x\u{fffd}y|null|degC|bus_error|f|40|7|3",
        "2025-11-30 06:00:00|gw|000000000000abcd|temperature|-0.07|degC|ok|f|2147483647|7|4",
        "294247-01-10 04:00:54.775807|gw|000000000000abcd|temperature|0.01|degC|ok|f|40|7|-1",
    ];
    assert_eq!(seen, want);
    let shown = texts(&mut sink);
    assert!(
        shown[0].contains("\"time\":-9223372036854775808"),
        "{}",
        shown[0]
    );
    assert!(shown[1].contains("\"unsynced\":true"), "{}", shown[1]);
    assert!(
        shown[4].contains("\"ordinal\":18446744073709551615"),
        "{}",
        shown[4]
    );
}

#[test]
fn rows_that_are_no_json_stop_nothing() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let lines = vec![b"{\"a\":\"\\u0000\"}".to_vec(), b"{\0".to_vec()];
    commit(
        &mut sink,
        &batch(
            "gw",
            0,
            vec![whole(id("gw", "t_1m", 0, 2), DataBody::Rows(lines))],
        ),
    );
    assert_eq!(
        texts(&mut sink),
        ["{\"a\":\"\\u0000\"}", "{\"unreadable\":\"{\u{fffd}\"}"]
    );
}

#[test]
fn a_row_that_is_there_is_never_applied_again() {
    let server = Postgres::start_with("fsync = off");
    let mut sink = open(&server);
    let message = || {
        let body = super::made::readings(0, 10, 1_764_482_400_000_000);
        whole(id("gw", "readings", 0, 10), body)
    };
    commit(&mut sink, &batch("gw", 0, vec![message()]));
    let error = sink_error(&mut sink, &batch("gw", 1, vec![message()]));
    assert!(error.contains("there already"), "{error}");
    assert_eq!(rows(&mut open(&server), &RowFilter::default()).len(), 10);
    // Nothing of the batch counts: the version is as before.
    commit(&mut open(&server), &batch("gw", 1, Vec::new()));
}

fn sink_error(
    sink: &mut dyn forebay_node::upstream::Sink,
    batch: &forebay_core::upstream::batch::Batch,
) -> String {
    sink.commit(batch).unwrap_err().to_string()
}
