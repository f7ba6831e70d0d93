//! What the agent says of itself, as JSON: accounts per device, stages, newest
//! readings. Reads everything, changes nothing.
//!
//! Devices are told some at a time, so that nothing else waits for all of them; what stands
//! beside them is of the moment of the last one. Bound of a step:
//! [`STATUS_CHANNELS_PER_TURN_MAX`], or one device.

use forebay_wire::ids::DeviceUid;
use serde_json::{Map, Value, json};

use super::Gateway;
use super::device_view::{health, ledger};
use crate::derive::{Derive, DeriveCounters};
use crate::effect::QueryId;
use crate::exchange::{Exchange, ExchangeCounters};
use crate::forward::Forward;
use crate::ledger::Counts;
use crate::limits::{STATUS_CHANNELS_PER_TURN_MAX, STATUS_DEVICE_CHANNELS};
use crate::live::{ChannelKey, Live};
use crate::log::key::TopicPartition;
use crate::log::topic::READINGS;
use crate::query::{Reply, Written};
use crate::record::{GAPS, GapReason, quality_name};
use crate::retention::TopicUse;
use crate::units::{EventTime, Mono, Offset};
use crate::utc::time_value;

/// A status of which some devices are told.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) id: QueryId,
    told: Written,
    /// The last of them.
    last: Option<DeviceUid>,
}

impl Begun {
    pub(super) fn new(id: QueryId) -> Self {
        Self {
            id,
            told: Written::default(),
            last: None,
        }
    }

    /// Tells of some more devices; all of the status with the last of them.
    pub(super) fn step(&mut self, gateway: &Gateway, now: Mono) -> Option<Reply> {
        let mut room = STATUS_CHANNELS_PER_TURN_MAX;
        for (uid, counts) in gateway.ledger.devices_after(self.last) {
            let channels = gateway.readers.stage(uid).live.of_device(uid).count();
            let takes = channels + STATUS_DEVICE_CHANNELS;
            if takes > room && room < STATUS_CHANNELS_PER_TURN_MAX {
                return None;
            }
            room = room.saturating_sub(takes);
            self.told.push(&device(gateway, (uid, &counts), now));
            self.last = Some(uid);
        }
        let told = std::mem::take(&mut self.told);
        Some(Reply::from(snapshot(gateway, now)).with("devices", told))
    }
}

/// All but the devices, in one step.
pub(super) fn summary(gateway: &Gateway, now: Mono) -> Reply {
    let mut told = snapshot(gateway, now);
    if let Some(members) = told.as_object_mut() {
        members.shift_remove("devices");
    }
    told.into()
}

/// The whole snapshot but for the devices.
fn snapshot(gateway: &Gateway, now: Mono) -> Value {
    let total = gateway.ledger.total();
    json!({
        "gateway": gateway.config.gateway.as_str(),
        "log_id": gateway.opened.log_id.to_string(),
        "epoch": gateway.opened.epoch.0,
        "recovered": gateway.is_recovered(),
        "drained": gateway.is_drained(),
        "received": total.readings,
        "stored": stored(gateway),
        "duplicates": total.duplicates,
        "gaps": gaps(&total),
        "lost": total.lost,
        "rows": counted(gateway, |c| c.rows) + across(gateway).rows,
        "readings_missing": counted(gateway, |c| c.records_missing),
        "rows_oversize": counted(gateway, |c| c.rows_oversize),
        "rows_homeless": counted(gateway, |c| c.rows_homeless),
        "readings_beyond": counted(gateway, |c| c.readings_beyond),
        "readings_not_shown": gateway
            .readers
            .stages()
            .iter()
            .map(|stage| stage.live.not_shown())
            .sum::<u64>(),
        "changes_missing": counted(gateway, |c| c.changes_missing) + across(gateway).changes_missing,
        "clock": clock(gateway),
        "exchange": gateway.exchange.as_ref().map(|exchange| {
            let counters = exchange.counters();
            json!({
                "readings": counters.readings,
                "rows": counters.rows,
                "records_missing": counters.records_missing,
                "settled": exchange.is_settled(&gateway.commit),
                "checkpoint": checkpoint(exchange.stage(), exchange.kept(), now),
            })
        }),
        "rows_same": counted(gateway, |c| c.rows_same) + across(gateway).rows_same,
        "rows_different": counted(gateway, |c| c.rows_different) + across(gateway).rows_different,
        "checkpoints": checkpoints(gateway, now),
        "start": start_up(gateway),
        "sources": gateway.sources_status(),
        "tables": gateway.tables_status(),
        "readings_behind": gateway.readers.behind(&gateway.commit),
        "layout": gateway.readers.active(),
        "devices": null,
        "ports": ports(gateway),
        "partitions": partitions(gateway),
        "health": gateway.alarms.health(),
        "alarms": gateway.alarms.status(now),
        "alarms_left_out": gateway.alarms.left_out(),
        "card": gateway.alarms.wear_status(now),
        "space": space(gateway),
        // The first, under the name that the only one always had; then all of them.
        "forward": gateway.forward.first().map(|forward| destination(gateway, forward, now)),
        "destinations": gateway
            .forward
            .iter()
            .map(|forward| destination(gateway, forward, now))
            .collect::<Value>(),
    })
}

/// How a destination is doing, and how old what waits for it is.
fn destination(gateway: &Gateway, forward: &Forward, now: Mono) -> Value {
    let mut status = forward.status(now);
    let oldest = forward.unsent_from().filter_map(|(at, from)| {
        let index = gateway.readers.index(at.partition)?;
        (at.topic == READINGS).then(|| index.earliest(from))?
    });
    status["oldest_unsent"] = oldest.min().map_or(Value::Null, time_value);
    status
}

fn clock(gateway: &Gateway) -> Value {
    let stages = gateway.readers.stages().iter();
    json!({
        "trusted": gateway.clock.is_trusted(),
        "recorded": gateway.clock.recorded().map(time_value),
        "readings_parked": stages.map(|stage| stage.parked()).sum::<usize>(),
    })
}

fn across(gateway: &Gateway) -> ExchangeCounters {
    let counters = gateway.exchange.as_ref().map(Exchange::counters);
    counters.unwrap_or_default()
}

fn counted(gateway: &Gateway, of: fn(&DeriveCounters) -> u64) -> u64 {
    let stages = gateway.readers.stages().iter();
    stages.map(|stage| of(&stage.counters())).sum()
}

/// How the state of each engine is kept.
fn checkpoints(gateway: &Gateway, now: Mono) -> Value {
    let stages = gateway.readers.stages().iter();
    let kept = |stage: &Derive| gateway.readers.kept(stage.partition());
    stages
        .map(|stage| checkpoint(stage, kept(stage), now))
        .collect()
}

fn checkpoint(stage: &Derive, offset: Offset, now: Mono) -> Value {
    let kept = stage.kept();
    let figures = kept.figures;
    json!({
        "partition": stage.partition().0,
        "epoch": kept.epoch,
        "offset": offset.0,
        "age_us": (kept.epoch > 0).then(|| now.0.saturating_sub(kept.at.0)),
        "bytes": figures.bytes,
        "changed_bytes": kept.changed_bytes,
        "readings_since": kept.readings,
        "interval_us": figures.interval_us,
        "ingest_per_s": figures.ingest_per_s,
        "replay_per_s": figures.replay_per_s,
        "recovery_us": figures.recovery_us,
        "wear_bytes_per_day": figures.wear_bytes_per_day,
    })
}

/// What the start had to read again.
fn start_up(gateway: &Gateway) -> Value {
    let start = gateway.readers.start_up();
    let of_exchange = gateway.exchange.as_ref().is_some_and(Exchange::is_restored);
    json!({
        "engines_restored": start.restored + usize::from(of_exchange),
        "readings_replayed": start.replayed,
        "took_us": start.took_us,
    })
}

/// Readings that are durable: what was received less what waits for the disk.
fn stored(gateway: &Gateway) -> u64 {
    gateway.ledger.durable_readings()
}

pub(super) fn gaps(counts: &Counts) -> Value {
    let reasons = GAPS.iter().zip(counts.gaps);
    let reasons: Map<String, Value> = reasons
        .filter(|(_, count)| *count > 0)
        .map(|((_, name), count)| ((*name).to_owned(), json!(count)))
        .collect();
    json!({ "total": counts.gap_total(), "by_reason": reasons })
}

fn device(gateway: &Gateway, (uid, counts): (DeviceUid, &Counts), now: Mono) -> Value {
    let partition = gateway.config.router.partition(uid);
    let channels = gateway.readers.stage(uid).live.of_device(uid);
    let device = gateway.devices.get(uid);
    json!({
        "device": gateway.config.names.name(uid),
        "uid": uid.to_string(),
        "connected": device.is_some_and(|device| device.link.is_some()),
        "health": device.map_or(Value::Null, |device| health(device, now)),
        "partition": partition.0,
        "received": counts.readings,
        "duplicates": counts.duplicates,
        "gaps": gaps(counts),
        "lost": counts.lost,
        "channels": channels.map(channel).collect::<Value>(),
        "ledger": ledger(gateway, uid),
    })
}

fn channel((key, live): (&ChannelKey, &Live)) -> Value {
    json!({
        "channel": &*key.channel,
        "unit": &*live.unit,
        "time": time_value(live.time),
        "value": live.value,
        "quality": quality_name(live.quality),
        "count": live.count,
    })
}

fn ports(gateway: &Gateway) -> Value {
    let ports = gateway.ports.iter().map(|(port, session)| {
        let source = session.as_ref().and_then(|session| session.source());
        let counters = session.as_ref().map(|session| session.counters());
        let counters = counters.unwrap_or_default();
        json!({
            "port": port.0,
            "device": source.map(|source| gateway.config.names.name(source.uid)),
            "boot": source.map(|source| source.boot.0),
            "frames_ok": counters.frames.ok,
            "frames_bad": counters.frames.bad(),
            "frames_ahead": counters.frames_ahead,
            "frames_refused": counters.frames_refused,
            "devices_refused": counters.devices_refused,
        })
    });
    ports.collect()
}

fn partitions(gateway: &Gateway) -> Value {
    let streams: std::collections::BTreeMap<_, _> = gateway.topics.streams().collect();
    let heads = gateway.commit.heads().map(|(at, head)| {
        json!({
            "stream": streams.get(&at.topic),
            "partition": at.partition.0,
            "head": head.0,
        })
    });
    heads.collect()
}

fn space(gateway: &Gateway) -> Value {
    let retention = &gateway.retention;
    let total = gateway.ledger.total();
    let topics = retention.topics().map(|topic| {
        let rejected = if topic.topic == READINGS {
            total.gaps[GapReason::LogFull as usize]
        } else {
            topic.counts.refused
        };
        json!({
            "topic": topic.name,
            "number": topic.topic.0,
            "used_bytes": topic.used_bytes,
            "quota_bytes": topic.policy.quota_bytes,
            "used_percent": percent(topic.used_bytes, topic.policy.quota_bytes),
            "segments": topic.segments,
            "age_us": topic.policy.age.map(|age| age.0),
            "when_full": topic.policy.when_full.name(),
            "oldest": oldest(gateway, &topic).map(time_value),
            "dropped": topic.counts.dropped,
            "dropped_unsent": topic.counts.unsent,
            "dropped_unconfirmed": topic.counts.unconfirmed,
            "rejected": rejected,
            "alarm": topic.alarm,
            "full": topic.full,
        })
    });
    json!({
        "trouble": retention.health(),
        "free_bytes": retention.free_bytes(),
        "reserve_bytes": retention.reserve_bytes(),
        "live_bytes": retention.live_bytes(),
        "topics": topics.collect::<Value>(),
    })
}

/// Time of the oldest record: of the oldest segment, or of what the engine has read
/// while nothing is sealed.
fn oldest(gateway: &Gateway, topic: &TopicUse) -> Option<EventTime> {
    if topic.oldest.is_some() || topic.topic != READINGS {
        return topic.oldest;
    }
    let times = gateway.partitions().filter_map(|partition| {
        let at = TopicPartition {
            topic: READINGS,
            partition,
        };
        let from = Offset(gateway.retention.counts(at).counted_to);
        gateway.readers.index(partition)?.earliest(from)
    });
    times.min()
}

fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}
