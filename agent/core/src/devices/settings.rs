//! Settings on their way to devices: first to the disk, then to the device, in chunks,
//! until its Health says that it has them or that it refuses them.
//!
//! Bound: one push per device, [`SETS_WAITING_MAX`] operators that wait.

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::codec::GatewayMessage;
use forebay_wire::ids::DeviceUid;
use forebay_wire::limits::CONFIG_BYTES_MAX;
use forebay_wire::message::ConfigChunk;
use forebay_wire::settings::{ChannelSetting, Settings as WireSettings};
use serde_json::{Value, json};

use super::{Desired, Device, DeviceAction};
use crate::limits::{CONFIG_EACH_US, CONFIG_SENDS_MAX, DEVICE_ANSWER_US, SETS_WAITING_MAX};
use crate::link::line;
use crate::query::QueryId;
use crate::units::{Mono, PortId};

/// Settings that a device does not have yet.
#[derive(Debug)]
struct Push {
    next_at: Mono,
    sent: u32,
}

/// Somebody who waits until a device has them.
#[derive(Debug)]
struct Wait {
    id: QueryId,
    uid: DeviceUid,
    version: u32,
    until: Mono,
    name: String,
    answer: Value,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pushes: BTreeMap<DeviceUid, Push>,
    waits: Vec<Wait>,
    /// Changed and not durable: they go with the next batch, and with the one under way.
    given: BTreeSet<DeviceUid>,
    cut: BTreeSet<DeviceUid>,
}

/// A change of settings as an operator asked for it.
pub(super) struct Asked<'a> {
    pub(super) id: QueryId,
    pub(super) uid: DeviceUid,
    pub(super) version: u32,
    pub(super) name: &'a str,
    pub(super) answer: Value,
}

impl Settings {
    pub(super) fn has_room(&self) -> bool {
        self.waits.len() < SETS_WAITING_MAX
    }

    /// Settings were changed: their entry goes with the next batch.
    pub(super) fn start(&mut self, asked: Asked<'_>, now: Mono) {
        self.given.insert(asked.uid);
        self.pushes.remove(&asked.uid);
        self.waits.push(Wait {
            id: asked.id,
            uid: asked.uid,
            version: asked.version,
            until: Mono(now.0.saturating_add(DEVICE_ANSWER_US)),
            name: asked.name.to_owned(),
            answer: asked.answer,
        });
    }

    pub(super) fn on_cut(&mut self) {
        self.cut.append(&mut self.given);
    }

    /// The batch that was cut last is durable.
    pub(super) fn on_committed(
        &mut self,
        devices: &BTreeMap<DeviceUid, Device>,
        now: Mono,
        actions: &mut Vec<DeviceAction>,
    ) {
        let durable = std::mem::take(&mut self.cut).into_iter();
        for uid in durable
            .filter(|uid| !self.given.contains(uid))
            .collect::<Vec<_>>()
        {
            match devices
                .get(&uid)
                .filter(|device| device.open_link().is_some())
            {
                Some(device) => self.compare(uid, device, now, actions),
                None => self.answer_kept(
                    |wait| wait.uid == uid,
                    "the device is not connected: it gets it when it is",
                    actions,
                ),
            }
        }
    }

    /// A device's Health has come, or its settings are durable: does it have them?
    pub(super) fn compare(
        &mut self,
        uid: DeviceUid,
        device: &Device,
        now: Mono,
        actions: &mut Vec<DeviceAction>,
    ) {
        let Some(health) = device.health() else {
            return;
        };
        let version = device.kept.desired.version;
        if !self.is_durable(uid) || version == 0 {
            return;
        }
        let has = health.config == version;
        if has || health.config_refused == version {
            self.pushes.remove(&uid);
            let over = |wait: &mut Wait| wait.uid == uid && wait.version <= version;
            for mut wait in self.waits.extract_if(.., over) {
                let answer = if has {
                    wait.answer["applied"] = json!(true);
                    Ok(wait.answer.into())
                } else {
                    Err(format!(
                        "{} refused version {version} of its settings: they are kept, and not \
                         sent again until they are changed",
                        wait.name
                    ))
                };
                actions.push(DeviceAction::Answer(wait.id, answer));
            }
            return;
        }
        self.pushes.entry(uid).or_insert(Push {
            next_at: now,
            sent: 0,
        });
    }

    pub(super) fn on_deadline(
        &mut self,
        now: Mono,
        devices: &BTreeMap<DeviceUid, Device>,
        actions: &mut Vec<DeviceAction>,
    ) {
        let mut over = Vec::new();
        for (uid, push) in self.pushes.iter_mut().filter(|(_, p)| p.next_at <= now) {
            let device = devices.get(uid);
            let link = device.and_then(Device::open_link);
            let Some((device, link)) = device.zip(link) else {
                over.push(*uid);
                continue;
            };
            if push.sent == CONFIG_SENDS_MAX {
                // Its next Health asks for it again.
                over.push(*uid);
                continue;
            }
            push.sent += 1;
            push.next_at = Mono(now.0.saturating_add(CONFIG_EACH_US));
            say(link.port, &device.kept.desired, actions);
        }
        self.pushes.retain(|uid, _| !over.contains(uid));
        self.answer_kept(
            |wait| wait.until <= now,
            "the device has not confirmed it yet: it is sent again",
            actions,
        );
    }

    /// A device is gone: who waits for it hears so, unless it is not durable yet.
    pub(super) fn on_gone(&mut self, uid: DeviceUid, actions: &mut Vec<DeviceAction>) {
        self.pushes.remove(&uid);
        if self.is_durable(uid) {
            let why = "the device went away: it gets it when it is back";
            self.answer_kept(|wait| wait.uid == uid, why, actions);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let pushes = self.pushes.values().map(|push| push.next_at);
        // What waits for the disk is looked at when that has answered.
        let waits = self.waits.iter().filter(|wait| self.is_durable(wait.uid));
        pushes.chain(waits.map(|wait| wait.until)).min()
    }

    fn is_durable(&self, uid: DeviceUid) -> bool {
        !self.given.contains(&uid) && !self.cut.contains(&uid)
    }

    /// Answers those that wait, as far as what they wait for is durable.
    fn answer_kept(
        &mut self,
        which: impl Fn(&Wait) -> bool,
        why: &str,
        actions: &mut Vec<DeviceAction>,
    ) {
        let (given, cut) = (&self.given, &self.cut);
        let which =
            |wait: &mut Wait| which(wait) && !given.contains(&wait.uid) && !cut.contains(&wait.uid);
        for mut wait in self.waits.extract_if(.., which) {
            wait.answer["applied"] = json!(false);
            wait.answer["note"] = json!(format!("kept; {why}"));
            actions.push(DeviceAction::Answer(wait.id, Ok(wait.answer.into())));
        }
    }
}

/// All chunks of the settings that are wanted.
fn say(port: PortId, desired: &Desired, actions: &mut Vec<DeviceAction>) {
    let mut settings = WireSettings::default();
    for (channel, setting) in &desired.channels {
        let entry = ChannelSetting {
            channel: *channel,
            period_us: setting.period_us,
            threshold: setting.threshold,
        };
        let pushed = settings.entries.push(entry);
        pushed.expect("a device has no more channels than settings have room for");
    }
    let mut config = [0; CONFIG_BYTES_MAX];
    let len = settings.encode(&mut config);
    let len = len.expect("channels stand in order, and periods were checked when they were set");
    for chunk in ConfigChunk::split(desired.version, &config[..len]) {
        let line = line(&GatewayMessage::Config(chunk));
        actions.push(DeviceAction::Say(port, line));
    }
}
