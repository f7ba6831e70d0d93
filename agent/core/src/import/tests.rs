//! An import against the real commit and ledger, driven by hand.

use std::collections::BTreeMap;

use forebay_wire::message::Quality;

use super::*;
use crate::clock::ClockRules;
use crate::engine::config::{EngineConfig, TimeRules};
use crate::limits::{IMPORT_BOOT_FIRST, PENDING_RECORDS_MAX};
use crate::log::block::{Body, Record};
use crate::log::decode::decode;
use crate::units::{Epoch, EventTime, Span};

/// The parts that an import hands its readings to.
struct Rig {
    imports: Imports,
    router: Router,
    ledger: Ledger,
    commit: GroupCommit,
    names: Names,
    clock: GatewayClock,
    now: u64,
    last: u64,
}

impl Rig {
    fn new() -> Self {
        let engine = EngineConfig {
            time: TimeRules::default(),
            windows: Vec::new(),
            ..EngineConfig::default()
        };
        let start = Now {
            mono: Mono(0),
            utc: EventTime(0),
        };
        Self {
            imports: Imports::default(),
            router: Router::new(2),
            ledger: Ledger::default(),
            commit: GroupCommit::new(Epoch(1), Span(20), BTreeMap::new()),
            names: Names::default(),
            clock: GatewayClock::new(ClockRules::default(), &engine, &[], start),
            now: 0,
            last: 0,
        }
    }

    fn ask(&mut self, session: Option<SessionNo>, records: Vec<ImportRecord>) -> ImportId {
        self.last += 1;
        let id = ImportId(self.last);
        let request = ImportRequest::Batch { session, records };
        self.imports.on_request(id, request, Mono(self.now));
        self.step();
        id
    }

    fn step(&mut self) {
        self.imports.step(&mut ImportSink {
            router: &self.router,
            ledger: &mut self.ledger,
            commit: &mut self.commit,
            names: &mut self.names,
            clock: &mut self.clock,
            now: Now {
                mono: Mono(self.now),
                utc: EventTime(self.now as i64),
            },
        });
    }

    /// Makes everything durable; gives the records and the meta entries.
    #[allow(
        clippy::type_complexity,
        reason = "records, and keys with their values"
    )]
    fn settle(&mut self) -> (Vec<(Series, ReadingRecord)>, Vec<(Vec<u8>, Vec<u8>)>) {
        let (mut records, mut meta) = (Vec::new(), Vec::new());
        self.now += 1_000;
        while let Some((token, batch)) = self.commit.poll(Mono(self.now)) {
            for stored in batch.blocks {
                let block = decode(stored.key, &stored.bytes).expect("just written");
                let Body::Readings {
                    series,
                    records: all,
                } = block.body
                else {
                    panic!("a block of readings");
                };
                for record in all {
                    if let Record::Reading(reading) = record {
                        records.push((series[usize::from(reading.series)].clone(), reading));
                    }
                }
            }
            meta.extend(batch.meta);
            for (source, next) in self.commit.committed(token).sources {
                self.ledger.set_durable(source, next);
            }
            self.imports.on_durable(&self.ledger);
            self.step();
        }
        (records, meta)
    }

    fn answer(&mut self) -> ImportAnswer {
        self.imports.poll_answer().expect("an answer").1
    }
}

fn record(device: &str, n: i64) -> ImportRecord {
    let time = EventTime(n);
    ImportRecord::new(device, "temp", "degC", time, Some(0.5), Quality::Ok).expect("good")
}

#[test]
fn a_batch_is_answered_when_it_is_durable_and_not_before() {
    let mut rig = Rig::new();
    let id = rig.ask(None, vec![record("d", 5), record("e", 6), record("d", 7)]);
    assert_eq!(rig.imports.poll_answer(), None);
    let (records, meta) = rig.settle();
    let (answered, answer) = rig.imports.poll_answer().expect("an answer");
    let imported = answer.expect("taken");
    assert_eq!(
        (answered, imported.taken, imported.refused.len()),
        (id, 3, 0)
    );
    let uid = DeviceUid(fnv1a(b"d").to_be_bytes());
    let ours = records.iter().filter(|(series, _)| series.uid == uid);
    let ours: Vec<_> = ours
        .map(|(s, r)| (s.boot.0, r.ordinal.0, r.time.0))
        .collect();
    assert_eq!(ours, [(IMPORT_BOOT_FIRST, 0, 5), (IMPORT_BOOT_FIRST, 1, 7)]);
    assert_eq!(records[0].0.kind, ValueKind::Double);
    let key = format!("name/{uid}").into_bytes();
    assert!(meta.contains(&(key, b"d".to_vec())));
    assert_eq!(rig.names.name(uid), "d");
    assert_eq!(rig.ledger.durable_readings(), 3);
}

#[test]
fn names_are_kept_and_the_config_wins() {
    let mut names = Names::default();
    let uid = |n: u64| DeviceUid(n.to_be_bytes());
    names.0.insert(uid(1), String::from("boiler"));
    let entry = |n: u64, name: &[u8]| (format!("name/{}", uid(n)).into_bytes(), name.to_vec());
    let meta = [
        entry(1, b"other"),
        entry(2, b"m1"),
        entry(3, b"\xff"),
        (b"name/xyz".to_vec(), b"x".to_vec()),
        (b"topic/a".to_vec(), b"x".to_vec()),
    ];
    restore_names(&meta, &mut names);
    let want = [
        (uid(1), String::from("boiler")),
        (uid(2), String::from("m1")),
    ];
    assert_eq!(names.0, BTreeMap::from(want));
}

#[test]
fn a_known_name_and_hex_digits_go_to_their_device() {
    let mut rig = Rig::new();
    let uid = DeviceUid([0xab; 8]);
    rig.names.0.insert(uid, String::from("boiler"));
    rig.ask(
        None,
        vec![record("boiler", 1), record("ababababababab00", 2)],
    );
    let (records, meta) = rig.settle();
    let mut uids: Vec<String> = records.iter().map(|(s, _)| s.uid.to_string()).collect();
    uids.sort();
    assert_eq!(uids, ["ababababababab00", "abababababababab"]);
    assert_eq!(meta, []);
}

#[test]
fn a_name_whose_uid_is_taken_is_refused_alone() {
    let mut rig = Rig::new();
    let uid = DeviceUid(fnv1a(b"d").to_be_bytes());
    rig.names.0.insert(uid, String::from("other"));
    rig.ask(None, vec![record("d", 1), record("e", 2), record("d", 3)]);
    rig.settle();
    let imported = rig.answer().expect("the rest is taken");
    let refused: Vec<u32> = imported
        .refused
        .iter()
        .map(|refused| refused.index)
        .collect();
    assert_eq!((imported.taken, refused), (1, vec![0, 2]));
    assert!(imported.refused[0].why.contains("another name"));
}

#[test]
fn each_import_is_a_boot_of_its_own_and_goes_on_over_its_batches() {
    let mut rig = Rig::new();
    rig.ask(None, vec![record("d", 1)]);
    rig.settle();
    let first = rig.answer().expect("taken").session;
    rig.ask(Some(first), vec![record("d", 2)]);
    rig.ask(None, vec![record("d", 3)]);
    let (records, _) = rig.settle();
    let of = |n: usize| {
        (
            records[n].0.boot.0 - IMPORT_BOOT_FIRST,
            records[n].1.ordinal.0,
        )
    };
    assert_eq!((of(0), of(1)), ((0, 1), (1, 0)));
}

#[test]
fn batches_wait_while_the_commit_has_no_room() {
    let mut rig = Rig::new();
    let full = || {
        (0..IMPORT_RECORDS_MAX as i64)
            .map(|n| record("d", n))
            .collect()
    };
    let mut session = None;
    let mut pending = 0;
    while pending < PENDING_RECORDS_MAX {
        // The sessions take turns: one batch each is under way at most.
        rig.ask(session, full());
        pending += IMPORT_RECORDS_MAX;
        if pending % (IMPORTS_MAX * IMPORT_RECORDS_MAX) == 0 {
            rig.imports = Imports::default();
            session = None;
        }
    }
    assert!(!rig.commit.has_room());
    rig.ask(None, vec![record("late", 1)]);
    let uid = DeviceUid(fnv1a(b"late").to_be_bytes());
    assert!(!rig.names.0.contains_key(&uid), "not looked at yet");
    rig.settle();
    rig.settle();
    let taken = std::iter::from_fn(|| rig.imports.poll_answer()).count();
    assert_eq!(taken, 1);
    assert!(rig.names.0.contains_key(&uid));
}

#[test]
fn a_batch_at_its_limit_and_one_over_it() {
    for (len, fits) in [
        (IMPORT_RECORDS_MAX - 1, true),
        (IMPORT_RECORDS_MAX, true),
        (IMPORT_RECORDS_MAX + 1, false),
    ] {
        let mut rig = Rig::new();
        rig.ask(None, (0..len as i64).map(|n| record("d", n)).collect());
        rig.settle();
        assert_eq!(rig.answer().is_ok(), fits, "{len}");
    }
}

#[test]
fn channels_of_a_device_at_their_limit() {
    let mut rig = Rig::new();
    let records = (0..=IMPORT_CHANNELS_MAX).map(|n| {
        let (channel, time) = (n.to_string(), EventTime(0));
        ImportRecord::new("d", &channel, "", time, Some(1.0), Quality::Ok).expect("good")
    });
    rig.ask(None, records.collect());
    rig.settle();
    let imported = rig.answer().expect("taken");
    assert_eq!(imported.taken, IMPORT_CHANNELS_MAX as u64);
    assert_eq!(imported.refused[0].index, IMPORT_CHANNELS_MAX as u32);
}

#[test]
fn devices_of_a_session_are_bounded() {
    let mut rig = Rig::new();
    let mut session = None;
    for n in 0..=DEVICES_MAX {
        let names = [record(&format!("d{n}"), 1)];
        rig.ask(session, names.to_vec());
        rig.settle();
        let imported = rig.answer().expect("answered");
        session = Some(imported.session);
        assert_eq!(imported.taken == 1, n < DEVICES_MAX, "{n}");
    }
    let session = &rig.imports.sessions[&session.expect("begun")];
    assert_eq!(session.devices.len(), DEVICES_MAX);
}

#[test]
fn sessions_are_bounded_and_a_silent_one_makes_room() {
    let mut rig = Rig::new();
    let mut sessions = Vec::new();
    for n in 0..=IMPORTS_MAX {
        rig.ask(None, vec![record("d", 1)]);
        rig.settle();
        match rig.answer() {
            Ok(imported) => sessions.push(imported.session),
            Err(text) => assert!(n == IMPORTS_MAX && text.contains("under way"), "{text}"),
        }
    }
    assert_eq!(sessions.len(), IMPORTS_MAX);
    rig.now += IMPORT_IDLE_US;
    rig.ask(None, vec![record("d", 1)]);
    rig.settle();
    assert!(rig.answer().is_ok());
    rig.ask(Some(sessions[0]), vec![record("d", 1)]);
    assert!(rig.answer().is_err_and(|text| text.contains("not known")));
    let end = ImportRequest::End(sessions[1]);
    rig.imports.on_request(ImportId(99), end, Mono(rig.now));
    assert!(rig.answer().is_ok());
    assert_eq!(rig.imports.sessions.len(), IMPORTS_MAX - 1);
}

#[test]
fn a_second_batch_of_a_session_has_to_wait_for_the_first() {
    let mut rig = Rig::new();
    rig.ask(None, vec![record("d", 1)]);
    rig.ask(Some(SessionNo(1)), vec![record("d", 2)]);
    assert!(
        rig.answer()
            .is_err_and(|text| text.contains("wait for its answer"))
    );
}

#[test]
fn a_closed_agent_says_so_and_answers_what_it_has() {
    let mut rig = Rig::new();
    rig.ask(None, vec![record("d", 1)]);
    rig.imports.close();
    rig.ask(None, vec![record("d", 2)]);
    assert!(rig.answer().is_err_and(|text| text.contains("stopping")));
    rig.settle();
    assert!(rig.answer().is_ok());
}

#[test]
fn what_waits_can_be_refused_and_comes_again() {
    let mut rig = Rig::new();
    rig.last = 1;
    let request = ImportRequest::Batch {
        session: None,
        records: Vec::new(),
    };
    rig.imports.on_request(ImportId(1), request, Mono(0));
    rig.imports.refuse("the log is full");
    let answer = rig.imports.poll_answer();
    assert_eq!(answer, Some((ImportId(1), Err("the log is full".into()))));
    let id = rig.ask(Some(SessionNo(1)), Vec::new());
    let (answered, answer) = rig.imports.poll_answer().expect("nothing to wait for");
    assert_eq!((answered, answer.is_ok()), (id, true));
}
