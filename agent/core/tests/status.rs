//! A status of many channels is told in steps, each of which is short whatever there is to
//! tell: counted in turns of the loop, not in time.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use std::sync::Arc;

use forebay_core::devices::DeviceRequest;
use forebay_core::effect::{Effect, GatewayConfig, Input, QueryId};
use forebay_core::import::{ImportId, ImportRecord, ImportRequest, SessionNo};
use forebay_core::limits::{LIVE_SERIES_MAX, STATUS_CHANNELS_PER_TURN_MAX, STATUS_DEVICE_CHANNELS};
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::Gateway;
use forebay_core::query::{ChannelName, ChannelQuery, Query, TimeRange};
use forebay_core::store::memory::{Crash, MemoryStore};
use forebay_core::units::{EventTime, LogId, Span};
use forebay_wire::message::Quality;
use killed::{Killed, PAUSE, Rig, Run, SECOND, START};
use serde_json::Value;

struct Lab {
    rig: Rig,
    session: Option<SessionNo>,
}

impl Run for Lab {
    fn rig(&mut self) -> &mut Rig {
        &mut self.rig
    }

    fn die(&mut self, _: Crash) {
        unreachable!("nobody kills it");
    }

    fn act(&mut self, effect: Effect) -> Result<(), Killed> {
        self.session = Some(killed::imported(effect));
        Ok(())
    }
}

/// A gateway that has a reading of each channel of devices with so many.
fn lab(channels: &[usize]) -> Lab {
    let config = GatewayConfig::new(GatewayName::new("gw").unwrap(), 1, Span(10_000));
    let store = MemoryStore::create(LogId([1; 16]), 1);
    let rig = Rig::new(store, |opened, now| {
        Gateway::new(config, opened, now).unwrap()
    });
    let session = None;
    let mut lab = Lab { rig, session };
    assert!(lab.drive(PAUSE).is_ok());
    let record = |(device, channel): (usize, usize)| ImportRecord {
        device: Arc::from(format!("d{device:03}")),
        channel: Arc::from(format!("c{channel:03}")),
        unit: Arc::from(""),
        time: EventTime(START - SECOND),
        value: 1.5,
        quality: Quality::Ok,
    };
    let each = channels.iter().enumerate();
    let records: Vec<_> = each
        .flat_map(|(device, count)| (0..*count).map(move |channel| record((device, channel))))
        .collect();
    for (number, records) in (1..).zip(records.chunks(200)) {
        let request = ImportRequest::Batch {
            session: lab.session,
            records: records.to_vec(),
        };
        lab.rig.input(Input::Import(ImportId(number), request));
        assert!(lab.drive(lab.rig.now + PAUSE).is_ok());
    }
    assert!(lab.drive(lab.rig.now + 20 * PAUSE).is_ok());
    assert!(lab.rig.gateway.is_settled());
    lab
}

/// The answers that are there.
fn answers(rig: &mut Rig) -> Vec<(QueryId, Value)> {
    let mut out = Vec::new();
    while let Some(effect) = rig.gateway.poll_effect() {
        if let Effect::Answer(id, answer) = effect {
            out.push((id, answer.unwrap().into_value()));
        }
    }
    out
}

fn channels_of(status: &Value) -> Vec<usize> {
    let devices = status["devices"].as_array().unwrap().iter();
    let channels = devices.map(|device| device["channels"].as_array().unwrap().len());
    channels.collect()
}

#[test]
fn a_status_takes_as_many_turns_as_there_is_to_tell() {
    let half = STATUS_CHANNELS_PER_TURN_MAX / 2 - STATUS_DEVICE_CHANNELS;
    let whole = STATUS_CHANNELS_PER_TURN_MAX - STATUS_DEVICE_CHANNELS;
    for (name, channels, want) in [
        ("nothing", vec![], 1),
        ("limit - 1", vec![half, half - 1], 1),
        ("limit", vec![half, half], 1),
        ("limit + 1", vec![half, half + 1], 2),
        ("a device that fills a turn", vec![1, whole, 1], 3),
        (
            "a device that is too large for one",
            vec![1, whole + 1, 1],
            3,
        ),
        ("ten turns", vec![half; 20], 10),
    ] {
        let mut lab = lab(&channels);
        let rig = &mut lab.rig;
        rig.input(Input::Query(QueryId(7), Query::Status));
        let mut turns = 1;
        let status = loop {
            if let Some((id, status)) = answers(rig).pop() {
                assert_eq!(id, QueryId(7), "{name}");
                break status;
            }
            let due = rig.gateway.next_deadline().map(|due| due.0);
            assert!(due <= Some(rig.now), "{name}: the next turn is due at once");
            rig.input(Input::Deadline);
            turns += 1;
        };
        assert_eq!(turns, want, "{name}");
        let mut told = channels_of(&status);
        told.sort_unstable();
        let mut channels = channels;
        channels.sort_unstable();
        assert_eq!(told, channels, "{name}");
        assert_eq!(
            status["received"],
            channels.iter().sum::<usize>(),
            "{name}: the sums are of all devices"
        );
    }
}

/// Why a question was refused.
fn refusal(rig: &mut Rig, input: Input<'_>) -> String {
    rig.input(input);
    while let Some(effect) = rig.gateway.poll_effect() {
        if let Effect::Answer(_, answer) = effect {
            return answer.expect_err("it is refused");
        }
    }
    unreachable!("it is answered at once")
}

fn show(device: &str) -> Input<'static> {
    let device = device.into();
    Input::Device(QueryId(1), DeviceRequest::Show { device })
}

fn readings(device: &str, channel: &str) -> Input<'static> {
    let channel = ChannelName {
        device: device.into(),
        channel: channel.into(),
    };
    let range = TimeRange::default();
    let query = Query::Channel(channel, ChannelQuery::Readings { range });
    Input::Query(QueryId(1), query)
}

#[test]
fn a_name_that_was_typed_wrong_is_answered_with_the_one_that_was_meant() {
    let mut lab = lab(&[12]);
    for (input, want) in [
        (
            show("D0000"),
            "no device is called \"D0000\" (did you mean \"d000\"?)",
        ),
        (
            show("pump"),
            "no device is called \"pump\": none is connected",
        ),
        (
            readings("d00", "c000"),
            "no device is called \"d00\" (did you mean \"d000\"?)",
        ),
        (
            readings("d000", "c03"),
            "has no channel \"c03\" (did you mean \"c003\"?): it has c000, c001, c002, c003, \
             c004, c005, c006, c007 and 4 more",
        ),
    ] {
        let said = refusal(&mut lab.rig, input);
        assert!(said.contains(want), "{said}");
    }
}

#[test]
fn a_channel_beyond_those_that_are_shown_is_not_said_to_have_no_reading() {
    let each = 64;
    let mut lab = lab(&vec![each; LIVE_SERIES_MAX / each]);
    let last = format!("d{:03}", LIVE_SERIES_MAX / each - 1);
    let rig = &mut lab.rig;
    let said = refusal(rig, readings(&last, "none"));
    assert!(
        said.contains("queries know the first 16384 channels"),
        "{said}"
    );
    rig.input(Input::Query(QueryId(7), Query::Summary));
    let (_, summary) = answers(rig).pop().expect("it is told in the same turn");
    assert_eq!(summary["readings_not_shown"], 0, "all of them have a place");
}

#[test]
fn a_summary_is_told_at_once_and_says_nothing_of_devices() {
    let mut lab = lab(&[STATUS_CHANNELS_PER_TURN_MAX; 2]);
    let rig = &mut lab.rig;
    rig.input(Input::Query(QueryId(7), Query::Summary));
    let (_, summary) = answers(rig).pop().expect("it is told in the same turn");
    assert_eq!(summary["received"], 2 * STATUS_CHANNELS_PER_TURN_MAX);
    assert_eq!(summary["health"], "ok");
    assert_eq!(summary.get("devices"), None);
}

#[test]
fn statuses_that_are_asked_for_at_once_are_told_one_after_the_other() {
    let half = STATUS_CHANNELS_PER_TURN_MAX / 2 - STATUS_DEVICE_CHANNELS;
    let mut lab = lab(&[half; 4]);
    let rig = &mut lab.rig;
    for id in 1..=3 {
        rig.input(Input::Query(QueryId(id), Query::Status));
    }
    let mut all = answers(rig);
    let mut turns = 1;
    while all.len() < 3 {
        rig.input(Input::Deadline);
        all.extend(answers(rig));
        turns += 1;
    }
    let ids: Vec<_> = all.iter().map(|(id, _)| id.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(turns, 3 * 2, "each in as many turns as it takes alone");
    assert!(
        all.iter()
            .all(|(_, status)| channels_of(status) == [half; 4])
    );
}
