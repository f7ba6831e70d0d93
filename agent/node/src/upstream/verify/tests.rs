//! What a proof finds: by marks and extents made by hand, and in sinks of each kind that
//! were doctored.

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::payload::StreamName;
use forebay_core::units::{EpochNonce, LogId, Mono, PartitionId};
use forebay_core::upstream::batch::{Batch, Loaded};
use forebay_core::upstream::keys::RowKey;
use forebay_core::upstream::rows::StoredRow;

use super::*;
use crate::config::{FilesConfig, FilesFormat, SinkKind};
use crate::store::{SledDb, Write as StoreWrite};
use crate::upstream::sink::{Committed, EmbeddedSink, FilesSink};

/// A message of a gateway: offsets of one epoch of a partition.
fn message(gateway: &str, epoch: u32, (first, last): (u64, u64)) -> (String, String) {
    let records = (first..=last).map(|n| format!("{{\"s\":0,\"n\":{n},\"t\":{n},\"v\":2.50}}"));
    let records = records.collect::<Vec<_>>().join(",");
    let series = "{\"device\":\"0000000000000001\",\"boot\":1,\"number\":0,\"channel\":\"t\",\
                  \"unit\":\"degC\",\"scale\":2,\"uncertainty_us\":1}";
    let payload = format!(
        "{},\"kind\":\"readings\",\"series\":[{series}],\"records\":[{records}]}}",
        envelope(gateway, epoch, (first, last))
    );
    (format!("forebay/v1/{gateway}/data/readings/0"), payload)
}

fn missing(gateway: &str, epoch: u32, offsets: (u64, u64)) -> (String, String) {
    let head = envelope(gateway, epoch, offsets);
    let payload = format!("{head},\"kind\":\"missing\",\"reason\":\"trimmed\"}}");
    (format!("forebay/v1/{gateway}/data/readings/0"), payload)
}

fn envelope(gateway: &str, epoch: u32, (first, last): (u64, u64)) -> String {
    format!(
        "{{\"v\":2,\"gateway\":\"{gateway}\",\"log_id\":\"{}\",\"epoch\":{epoch},\
         \"nonce\":\"00000000000000{epoch:02x}\",\"stream\":\"readings\",\"partition\":0,\
         \"first_offset\":{first},\"last_offset\":{last}",
        "05".repeat(16)
    )
}

fn apply(sink: &mut dyn Sink, messages: &[(String, String)]) {
    let mut applier = Applier::load(sink.load(None).unwrap()).unwrap();
    for (topic, payload) in messages {
        applier.handle(topic, payload.clone().into_bytes().into());
        let batch = applier.take_batch();
        if !batch.is_empty() {
            assert_eq!(sink.commit(&batch).unwrap(), Committed::Done);
            applier.committed(Mono(0));
        }
    }
    assert_eq!(applier.counters().rejected, 0);
}

/// Fault, gateway, epoch, first and last offset of each finding.
type Short = Vec<(&'static str, String, Option<u32>, u64, u64)>;

fn short(report: &Report) -> Short {
    let findings = report.findings.iter().map(|finding| {
        let epoch = finding.epoch.map(|epoch| epoch.0);
        let range = finding.range;
        let gateway = finding.source.gateway.to_string();
        let last = range.end().0 - 1;
        (finding.fault.name(), gateway, epoch, range.start().0, last)
    });
    findings.collect()
}

/// What stands in a sink of the tests: all there may be, and nothing wrong.
fn healthy() -> Vec<(String, String)> {
    vec![
        message("a", 1, (0, 9)),
        message("a", 1, (20, 29)),
        message("b", 1, (0, 4)),
        message("a", 1, (10, 19)),
        // The end of the first epoch was lost in a power cut, and written anew.
        message("a", 2, (25, 39)),
        missing("b", 1, (5, 14)),
        message("b", 1, (15, 19)),
        // Declared also where something came.
        missing("a", 2, (35, 45)),
        // And what came after all.
        message("b", 0, (8, 9)),
    ]
}

/// A sink whose extents are changed on their way out.
#[derive(Debug)]
struct Doctored<S> {
    sink: S,
    change: fn(&mut Vec<Extent>),
}

impl<S: Sink> Sink for Doctored<S> {
    fn kind(&self) -> SinkKind {
        self.sink.kind()
    }

    fn load(&mut self, gateway: Option<&GatewayName>) -> Result<Loaded, SinkError> {
        self.sink.load(gateway)
    }

    fn commit(&mut self, batch: &Batch) -> Result<Committed, SinkError> {
        self.sink.commit(batch)
    }

    fn rows(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(StoredRow) -> bool,
    ) -> Result<(), SinkError> {
        self.sink.rows(filter, visit)
    }

    fn extents(
        &mut self,
        filter: &RowFilter,
        visit: &mut dyn FnMut(Extent) -> bool,
    ) -> Result<(), SinkError> {
        let mut extents = Vec::new();
        self.sink.extents(filter, &mut |extent| {
            extents.push(extent);
            true
        })?;
        (self.change)(&mut extents);
        let _ = extents.into_iter().all(&mut *visit);
        Ok(())
    }

    fn rejected(&mut self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SinkError> {
        self.sink.rejected(visit)
    }
}

fn found(messages: &[(String, String)], change: fn(&mut Vec<Extent>)) -> (Short, Report) {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = Doctored {
        sink: EmbeddedSink::open(dir.path()).unwrap(),
        change,
    };
    apply(&mut sink, messages);
    let report = verify(&mut sink, None).unwrap();
    (short(&report), report)
}

#[test]
fn what_is_right_is_proven() {
    let (findings, report) = found(&healthy(), |_| {});
    assert_eq!(findings, []);
    assert!(report.is_proven());
    let json = report.to_json();
    assert_eq!(
        (&json["counted"], &json["gateways"][0]["applied"]),
        (&json["found"], &45.into())
    );
    let text = text(&json);
    assert!(
        text.lines().skip(1).all(|line| line.ends_with("yes")),
        "{text}"
    );
    let (nothing, report) = found(&[], |_| {});
    assert!(nothing.is_empty() && report.is_proven());
}

#[test]
fn each_fault_is_named_with_its_offsets() {
    let of =
        |fault, gateway: &str, epoch, first, last| (fault, gateway.to_owned(), epoch, first, last);
    type Case = (&'static str, fn(&mut Vec<Extent>), Short);
    let cases: [Case; 6] = [
        (
            "the last row of a group is gone",
            |extents| extents[0].count -= 1,
            vec![of("lost", "a", Some(1), 9, 9)],
        ),
        (
            "a whole extent is gone",
            |extents| drop(extents.remove(1)),
            vec![of("lost", "a", Some(1), 10, 19)],
        ),
        (
            "all of a gateway is gone",
            |extents| extents.retain(|extent| extent.source.gateway.as_str() != "b"),
            vec![
                of("lost", "b", Some(0), 8, 9),
                of("lost", "b", Some(1), 0, 19),
            ],
        ),
        (
            "an extent is there twice",
            |extents| extents.insert(1, extents[0].clone()),
            vec![of("twice", "a", Some(1), 0, 9)],
        ),
        (
            "one row more, under the next offset",
            |extents| extents[0].count += 1,
            vec![of("twice", "a", Some(1), 10, 10)],
        ),
        (
            "a row that no mark knows",
            |extents| {
                let mut other = extents[0].clone();
                other.first = Offset(100);
                other.count = 2;
                extents.push(other);
            },
            vec![of("unmarked", "a", Some(1), 100, 101)],
        ),
    ];
    for (name, change, want) in cases {
        let (findings, report) = found(&healthy(), change);
        // A partition that comes again is judged again: what matters is what is named.
        let missed: Vec<_> = want
            .iter()
            .filter(|want| !findings.contains(want))
            .collect();
        assert!(missed.is_empty(), "{name}: {findings:?}");
        assert!(!report.is_proven(), "{name}");
        let text = text(&report.to_json());
        assert!(
            text.contains("NO") && text.contains("the counters say"),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_hole_is_named_and_is_no_proof() {
    let messages = [message("a", 1, (5, 9)), message("a", 2, (20, 24))];
    let (findings, report) = found(&messages, |_| {});
    let hole = |first, last| ("hole", "a".to_owned(), None, first, last);
    assert_eq!(findings, [hole(0, 4), hole(10, 19)]);
    assert!(!report.is_proven());
    let text = text(&report.to_json());
    assert!(
        text.contains("offsets 10 to 19: neither applied nor declared"),
        "{text}"
    );
}

#[test]
fn two_openings_of_one_number_are_no_overlap() {
    let (topic, payload) = message("a", 1, (0, 9));
    let fork = payload.replace("0000000000000001\",\"stream", "00000000000000ff\",\"stream");
    assert_ne!(fork, payload);
    let messages = [(topic.clone(), payload), (topic, fork)];
    let (findings, report) = found(&messages, |_| {});
    assert_eq!(findings, []);
    assert_eq!(report.to_json()["found"], 20);
    let (findings, _) = found(&messages, |extents| drop(extents.pop()));
    assert!(
        findings.is_empty() || findings[0].0 == "lost",
        "{findings:?}"
    );
}

#[test]
fn findings_at_their_limit() {
    for (holes, named, more) in [
        (FINDINGS_MAX - 1, FINDINGS_MAX - 1, 0),
        (FINDINGS_MAX, FINDINGS_MAX, 0),
        (FINDINGS_MAX + 1, FINDINGS_MAX, 1),
    ] {
        let mut report = Report::default();
        let source = Source {
            gateway: GatewayName::new("a").unwrap(),
            log_id: LogId([0; 16]),
            stream: StreamName::new("s").unwrap(),
            partition: PartitionId(0),
        };
        let range = OffsetRange::new(Offset(0), Offset(1)).unwrap();
        for _ in 0..holes {
            report.find(Fault::Hole, &source, None, range);
        }
        assert_eq!((report.findings.len(), report.more), (named, more));
        assert_eq!(report.to_json()["gateways"][0]["holes"], holes as u64);
    }
}

const TREES: [&str; 4] = ["rows", "marks", "meta", "rejected"];

/// All entries of the table of rows.
fn groups(db: &SledDb) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    db.scan(0, Bound::Unbounded, Bound::Unbounded, |key, value| {
        out.push((key.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    out
}

#[test]
fn a_doctored_embedded_sink_is_found() {
    // The first group is removed, or one row of it stands there again, as version 1 wrote.
    for (fault, doubled) in [("lost", false), ("twice", true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = EmbeddedSink::open(dir.path()).unwrap();
        apply(&mut sink, &healthy());
        assert!(verify(&mut sink, None).unwrap().is_proven());
        drop(sink);
        let mut db = SledDb::open(&dir.path().join("sink"), &TREES).unwrap();
        let (key, _) = groups(&db)[0].clone();
        let mut again = RowKey::from_bytes(&key).unwrap();
        again.opening.nonce = EpochNonce::UNKNOWN;
        again.first = Offset(again.first.0 + 3);
        let again = again.to_bytes();
        let row = b"{\"device\":\"0000000000000001\"}";
        let mut group = vec![1, 0, 0, 0, 1];
        group.extend_from_slice(&(row.len() as u32).to_be_bytes());
        group.extend_from_slice(row);
        db.write(&[StoreWrite {
            tree: 0,
            key: if doubled { &again } else { &key },
            value: doubled.then_some(group.as_slice()),
            must_be_new: false,
        }])
        .unwrap();
        db.sync().unwrap();
        drop(db);
        let mut sink = EmbeddedSink::open(dir.path()).unwrap();
        let report = verify(&mut sink, None).unwrap();
        let findings = short(&report);
        assert!(!report.is_proven());
        let of_a = findings
            .iter()
            .any(|found| found.0 == fault && found.1 == "a");
        assert!(of_a, "{fault}: {findings:?}");
    }
}

/// The data files of readings of gateway a.
fn data_files(folder: &Path) -> Vec<PathBuf> {
    let dir = folder.join("readings/date=1970-01-01/gateway=a");
    let mut out: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    out.sort();
    out
}

#[test]
fn a_doctored_files_sink_is_found() {
    type Doctor = fn(&Path);
    let cut_a_line: Doctor = |path| {
        let text = fs::read_to_string(path).unwrap();
        let kept: Vec<_> = text
            .lines()
            .enumerate()
            .filter(|(n, _)| *n != 3)
            .map(|(_, l)| l)
            .collect();
        fs::write(path, kept.join("\n") + "\n").unwrap();
    };
    let double_a_line: Doctor = |path| {
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().nth(3).unwrap();
        fs::write(path, format!("{text}{line}\n")).unwrap();
    };
    let remove: Doctor = |path| fs::remove_file(path).unwrap();
    let double: Doctor = |path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let other = path.with_file_name(name.replace("-00", "-77"));
        assert_ne!(other, path);
        fs::copy(path, other).unwrap();
    };
    for (fault, format, doctor, offsets) in [
        ("lost", FilesFormat::Ndjson, cut_a_line, Some((3, 3))),
        ("twice", FilesFormat::Ndjson, double_a_line, Some((3, 3))),
        ("lost", FilesFormat::Parquet, remove, None),
        ("twice", FilesFormat::Parquet, double, None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let config = FilesConfig {
            format,
            ..FilesConfig::new(dir.path().to_owned())
        };
        let mut sink = FilesSink::open(&config).unwrap();
        apply(&mut sink, &healthy());
        assert!(verify(&mut sink, None).unwrap().is_proven(), "in steps");
        sink.tend(Instant::now() + Duration::from_secs(86_400), true)
            .unwrap();
        assert!(verify(&mut sink, None).unwrap().is_proven(), "in files");
        drop(sink);
        doctor(&data_files(dir.path())[0]);
        let mut sink = FilesSink::open_existing(&config).unwrap();
        let report = verify(&mut sink, None).unwrap();
        let findings = short(&report);
        assert!(!report.is_proven());
        let named = findings.iter().any(|(found, gateway, _, first, last)| {
            let here = offsets.is_none_or(|offsets| offsets == (*first, *last));
            *found == fault && gateway == "a" && here
        });
        assert!(named, "{fault}: {findings:?}");
        let b = GatewayName::new("b").unwrap();
        assert!(
            verify(&mut sink, Some(&b)).unwrap().is_proven(),
            "b is whole"
        );
    }
}

#[test]
fn an_unknown_nonce_may_be_any() {
    let (topic, payload) = message("a", 1, (0, 9));
    let unknown = payload.replace(",\"nonce\":\"0000000000000001\"", "");
    let messages = [(topic, unknown), message("a", 1, (5, 14))];
    let (findings, _) = found(&messages, |_| {});
    assert_eq!(findings, []);
    let (findings, _) = found(&messages, |extents| {
        for extent in extents {
            extent.count += 1;
            extent.nonce = match extent.first.0 {
                0 => EpochNonce::UNKNOWN,
                _ => extent.nonce,
            };
        }
    });
    assert!(
        findings.iter().any(|found| found.0 == "twice"),
        "{findings:?}"
    );
}
