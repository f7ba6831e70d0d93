//! What is known of one device, as JSON: who it is, its channels, how it does, and its
//! ledger. Reads everything, changes nothing. What the members mean:
//! `agent/core/docs/devices.md`.

use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::message::{ChannelInfo, GapReason as WireGap, Health, Hello, ResetCause};
use serde_json::{Map, Value, json};

use super::Gateway;
use crate::devices::{Device, Schema};
use crate::ledger::{Account, DeviceAccounts, Source};
use crate::link::clock::DeviceClock;
use crate::live::{ChannelKey, Live};
use crate::record::{Figure, GapReason, ValueKind, gap_name, quality_name};
use crate::units::Mono;
use crate::utc::time_value;

use super::status::gaps;

/// All of it.
pub(super) fn whole(gateway: &Gateway, uid: DeviceUid, now: Mono) -> Value {
    let device = gateway.devices.get(uid);
    let mut view = json!({
        "device": gateway.config.names.name(uid),
        "uid": uid.to_string(),
        "connected": device.and_then(|d| d.link).map(|link| link.port.0),
        "open": device.and_then(|d| d.link).is_some_and(|link| link.open),
    });
    let Some(members) = view.as_object_mut() else {
        return view;
    };
    if let Some(device) = device {
        members.extend(hello(&device.kept.hello));
        members.insert("channels".into(), channels(gateway, uid, device));
        members.insert("clock".into(), clock(gateway, device));
        members.insert("health".into(), health(device, now));
        members.insert("config".into(), config(device));
    }
    members.insert("ledger".into(), ledger(gateway, uid));
    view
}

/// Name of a reset cause in JSON.
fn cause_name(cause: ResetCause) -> &'static str {
    match cause {
        ResetCause::Unknown => "unknown",
        ResetCause::PowerOn => "power_on",
        ResetCause::Pin => "pin",
        ResetCause::Software => "software",
        ResetCause::Watchdog => "watchdog",
        ResetCause::Brownout => "brownout",
    }
}

fn hello(hello: &Hello) -> Map<String, Value> {
    let [major, minor, patch] = hello.firmware_version;
    let build_id: String = hello.build_id.iter().map(|b| format!("{b:02x}")).collect();
    let members = json!({
        "boot": hello.boot.0,
        "reset_cause": cause_name(hello.reset_cause),
        "firmware": format!("{major}.{minor}.{patch}"),
        "build_id": build_id,
        "schema": Schema::of(hello).name(),
        "protocol_minor": hello.protocol_minor,
        "tick_hz": hello.tick_hz,
        "ring_capacity": hello.ring_capacity,
    });
    members.as_object().cloned().unwrap_or_default()
}

fn channels(gateway: &Gateway, uid: DeviceUid, device: &Device) -> Value {
    let channels = device.kept.channels.values();
    let channels = channels.map(|info| {
        let wanted = device.kept.desired.of(info.channel);
        let key = ChannelKey {
            uid,
            channel: device.kept.name(info).into(),
        };
        let newest = gateway.readers.stage(uid).live.get(&key);
        let errors = device.heard.as_ref().and_then(|(health, _)| {
            let errors = health.errors.get(usize::from(info.channel.0));
            errors.copied()
        });
        json!({
            "channel": &*key.channel,
            "number": info.channel.0,
            "unit": info.unit.as_str(),
            "scale": info.scale,
            "range": [figure(info, info.range.0.into()), figure(info, info.range.1.into())],
            "period_us": info.period_us,
            "desired": {
                "period_us": (wanted.period_us > 0).then_some(wanted.period_us),
                "threshold": figure(info, wanted.threshold.into()),
            },
            "errors": errors,
            "newest": newest.map(reading),
        })
    });
    channels.collect()
}

fn figure(info: &ChannelInfo, value: i64) -> Option<f64> {
    let kind = ValueKind::Scaled { scale: info.scale };
    Figure { value, kind }.to_f64()
}

fn reading(live: &Live) -> Value {
    json!({
        "time": time_value(live.time),
        "value": live.value,
        "quality": quality_name(live.quality),
        "count": live.count,
    })
}

fn clock(gateway: &Gateway, device: &Device) -> Value {
    let port = device.link.map(|link| link.port);
    let session = port.and_then(|port| gateway.ports.get(&port)?.as_ref());
    let clock = session.and_then(|session| session.clock());
    let stats = clock.and_then(DeviceClock::stats);
    stats.map_or(Value::Null, |stats| {
        json!({
            "samples": stats.samples,
            "round_trip_us": stats.round_trip_us,
            "uncertainty_us": stats.uncertainty_us,
            "drift_ppm": (stats.drift_ppm * 100.0).round() / 100.0,
        })
    })
}

fn config(device: &Device) -> Value {
    let heard = device.heard.as_ref().map(|(health, _)| health);
    json!({
        "active": heard.map(|health| health.config),
        "desired": device.kept.desired.version,
        "refused": heard.map(|health| health.config_refused),
    })
}

/// What a device last said of itself.
pub(super) fn health(device: &Device, now: Mono) -> Value {
    let Some((health, at)) = &device.heard else {
        return Value::Null;
    };
    let received = health.received;
    json!({
        "age_us": now.0.saturating_sub(at.0),
        "boot": health.boot.0,
        "produced": health.produced,
        "acked": health.acked,
        "waiting": health.waiting,
        "gaps": device_gaps(health),
        "suppressed": health.suppressed,
        "ring_high": health.ring_high,
        "received": {
            "ok": received.ok,
            "cobs_bad": received.cobs_bad,
            "crc_bad": received.crc_bad,
            "overlong": received.overlong,
            "unknown_kind": received.unknown_kind,
            "body_bad": received.body_bad,
        },
        "rx_dropped": health.rx_dropped,
        "resends": health.resends,
        "missed": health.missed,
        "log_dropped": health.log_dropped,
        "stack_free": (health.stack_free < u32::MAX).then_some(health.stack_free),
    })
}

fn device_gaps(health: &Health) -> Value {
    let reasons = WireGap::ALL.iter().zip(health.gaps);
    let reasons: Map<String, Value> = reasons
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| (gap_name(GapReason::from(*reason)).to_owned(), json!(count)))
        .collect();
    json!({ "total": lost(health), "by_reason": reasons })
}

fn lost(health: &Health) -> u64 {
    let add = |sum: u64, gap: &u64| sum.saturating_add(*gap);
    health.gaps.iter().fold(0, add)
}

/// What became of the ordinals of a device: what the gateway counted, what the device
/// says, and whether the sums close.
pub(super) fn ledger(gateway: &Gateway, uid: DeviceUid) -> Value {
    let Some(accounts) = gateway.ledger.device(uid) else {
        return Value::Null;
    };
    let device = gateway.devices.get(uid);
    let health = device.and_then(|device| device.heard.as_ref());
    let health = health.map(|(health, _)| health);
    let account = health.and_then(|health| {
        let boot = health.boot;
        gateway.ledger.get(Source { uid, boot })
    });
    let off = Off::of(accounts, health.zip(account));
    let sum = accounts.total();
    let boots = accounts.boots.values();
    let waiting: u64 = boots.clone().map(|boot| boot.taken - boot.durable).sum();
    let missing: u64 = boots.clone().map(Account::missing).sum();
    let produced: u64 = boots.map(Account::produced).sum();
    let newest = accounts.newest();
    let boots = accounts.boots.iter();
    json!({
        "produced": accounts.folded.ordinals().saturating_add(produced),
        "taken": accounts.taken(),
        "readings": sum.readings,
        "gaps": gaps(&sum),
        "lost": sum.lost,
        "missing": missing,
        "duplicates": sum.duplicates,
        "waiting_disk": waiting,
        "device": health.map(|health| json!({
            "boot": health.boot.0,
            "produced": health.produced,
            "acked": health.acked,
            "waiting": health.waiting,
            "gaps": device_gaps(health),
            "suppressed": health.suppressed,
        })),
        "closes": health.map(|_| off == Off::default()),
        "off": {
            "gateway": off.gateway,
            "device": off.device,
            "acked": off.acked,
        },
        "folded": {
            "readings": accounts.folded.readings,
            "gaps": gaps(&accounts.folded),
            "lost": accounts.folded.lost,
        },
        "boots": boots.map(|(boot, account)| view_of(*boot, account, newest)).collect::<Value>(),
    })
}

/// Whether the sums of a device close, as far as it says.
pub(super) fn closes(gateway: &Gateway, uid: DeviceUid) -> bool {
    let Some(accounts) = gateway.ledger.device(uid) else {
        return true;
    };
    let device = gateway.devices.get(uid);
    let health = device.and_then(|device| device.heard.as_ref());
    health.is_none_or(|(health, _)| {
        let boot = health.boot;
        let account = gateway.ledger.get(Source { uid, boot });
        Off::of(accounts, Some(health).zip(account)) == Off::default()
    })
}

fn view_of(boot: BootId, account: &Account, newest: Option<BootId>) -> Value {
    let times = account.times;
    json!({
        "boot": boot.0,
        "reset_cause": account.reset_cause.map(cause_name),
        "first": times.map(|(first, _)| time_value(first)),
        "last": times.map(|(_, last)| time_value(last)),
        "produced": account.produced(),
        "taken": account.taken,
        "readings": account.counts.readings,
        "gaps": gaps(&account.counts),
        "lost": account.counts.lost,
        "missing": account.missing(),
        "closed": Some(boot) != newest,
    })
}

/// By how much sums do not close that must; all 0 when all do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Off {
    /// Ordinals taken, less readings, gaps and lost ones.
    gateway: i64,
    /// Ordinals given out, less acked, waiting and gaps, by the device's own word.
    device: i64,
    /// Readings that the device takes for acked beyond those that are on the disk here.
    acked: i64,
}

impl Off {
    fn of(accounts: &DeviceAccounts, running: Option<(&Health, &Account)>) -> Self {
        let less = |a: u64, b: u64| i64::try_from(i128::from(a) - i128::from(b));
        let less = |a, b| less(a, b).unwrap_or(i64::MAX);
        let boots = accounts.boots.values();
        let gateway = boots
            .map(|boot| less(boot.taken, boot.counts.ordinals()))
            .sum();
        let device = running.map_or(0, |(health, _)| {
            let acked = health.acked.saturating_add(health.waiting.into());
            less(health.produced, acked.saturating_add(lost(health)))
        });
        let acked = running.map_or(0, |(health, account)| {
            less(health.acked, account.durable).max(0)
        });
        Self {
            gateway,
            device,
            acked,
        }
    }
}
