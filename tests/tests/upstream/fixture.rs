//! A sink that an earlier version wrote still opens, shows what it showed, and goes on.
//!
//! `fixtures/sink-1`: an embedded sink of the first version, whose groups are JSON texts
//! without nonces, and what it exported (`rows.ndjson`). Its file is cut after the last
//! byte that is not 0.

use std::path::Path;

use forebay_core::units::Mono;
use forebay_core::upstream::apply::{Applier, Outcome};
use forebay_node::upstream::sink::{self, Sink};
use forebay_node::upstream::{EmbeddedSink, RowFilter};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn exported(sink: &mut dyn Sink) -> Vec<String> {
    let mut out = Vec::new();
    sink::export(sink, &RowFilter::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_sink_of_the_first_version_opens_and_goes_on() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sink-1");
    let dir = tempfile::tempdir().unwrap();
    copy(&kept.join("sink"), &dir.path().join("sink"));
    let want = std::fs::read_to_string(kept.join("rows.ndjson")).unwrap();
    let want: Vec<String> = want.lines().map(str::to_owned).collect();

    let mut sink = EmbeddedSink::open_existing(dir.path()).unwrap();
    assert_eq!(exported(&mut sink), want);
    let mut rejected = 0;
    sink.rejected(&mut |_| {
        rejected += 1;
        true
    })
    .unwrap();
    assert_eq!(rejected, 1);
    let mut applier = Applier::load(sink.load(None).unwrap()).unwrap();
    let before = applier.counters();
    let known = before.readings
        + before.gap_records
        + before.clock_records
        + before.table_records
        + before.rows;
    assert_eq!((known, before.missing), (145, 20));

    // What it has comes again and is known; what is new is applied once.
    let payload = |first: u64, last: u64| {
        let records = (first..=last).map(|n| format!("{{\"s\":0,\"n\":{n},\"t\":{n},\"v\":2.50}}"));
        format!(
            "{{\"v\":2,\"gateway\":\"gw-1\",\"log_id\":\"{}\",\"epoch\":2,\"stream\":\"readings\",\
             \"partition\":0,\"first_offset\":{first},\"last_offset\":{last},\"kind\":\"readings\",\
             \"series\":[{{\"device\":\"00000000000000a0\",\"boot\":1,\"number\":0,\
             \"channel\":\"temperature\",\"unit\":\"degC\",\"scale\":2,\"uncertainty_us\":1}}],\
             \"records\":[{}]}}",
            "05".repeat(16),
            records.collect::<Vec<_>>().join(",")
        )
    };
    let topic = "forebay/v1/gw-1/data/readings/0";
    for message in [payload(60, 79), payload(70, 89), payload(80, 89)] {
        let outcome = applier.handle(topic, message.into_bytes().into());
        assert!(matches!(outcome, Outcome::Taken { .. }), "{outcome:?}");
        let batch = applier.take_batch();
        if !batch.is_empty() {
            sink.commit(&batch).unwrap();
            applier.committed(Mono(0));
        }
    }
    assert_eq!(applier.counters().readings, before.readings + 10);
    let rows = exported(&mut sink);
    assert_eq!(rows.len(), want.len() + 10);
    assert!(want.iter().all(|row| rows.contains(row)));
    drop(sink);
    let mut again = EmbeddedSink::open_existing(dir.path()).unwrap();
    assert_eq!(exported(&mut again), rows);
}
