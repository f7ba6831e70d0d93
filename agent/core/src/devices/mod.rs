//! What the gateway knows of its devices beside their readings, and what operators ask
//! of them: settings that are kept, commands that are not, health, logs.
//!
//! Holds always: a setting is told to a device, and to whoever asked for it, only when
//! it is durable; one device is heard on one port, the one of its newest Hello; every
//! request is answered once. Bound: [`DEVICES_MAX`] devices, and on their way the
//! commands and changes that their modules name. Knows no session and no log; how it
//! works: `agent/core/docs/devices.md`.

mod commands;
mod kept;
mod notes;
mod request;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::{BootId, DeviceUid};
use forebay_wire::message::{Health, Hello, Operation, ResetCause};
use serde_json::{Value, json};

use self::commands::Commands;
pub use self::kept::{Desired, Kept, Setting};
use self::notes::Notes;
pub use self::notes::Schema;
pub use self::request::{DeviceRequest, SetRequest};
use self::settings::Settings;
use crate::ledger::Source;
use crate::limits::DEVICES_MAX;
use crate::link::heard::Heard;
use crate::meta::Entry;
use crate::query::{Answer, Names, QueryId};
use crate::units::{Mono, PortId};

/// What is to be done for devices and for those who ask about them.
#[derive(Debug, PartialEq)]
pub enum DeviceAction {
    /// Write this line to the device on this port.
    Say(PortId, Vec<u8>),
    /// The device of this port is heard on another one now.
    Dismiss(PortId),
    Answer(QueryId, Answer),
    Note(String),
    Log {
        uid: DeviceUid,
        build_id: [u8; 8],
        frame: Vec<u8>,
    },
}

/// Where a device is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub port: PortId,
    pub boot: BootId,
    /// The session is open: it takes commands.
    pub open: bool,
}

/// One device.
#[derive(Debug)]
pub struct Device {
    pub kept: Kept,
    /// `None` while it is on no port.
    pub link: Option<Link>,
    /// Its newest Health of the boot that it is in, or was in last, and when it came.
    pub heard: Option<(Health, Mono)>,
    /// Times that it went to another port while the one before was open.
    pub moves: u64,
}

impl Device {
    fn open_link(&self) -> Option<Link> {
        self.link.filter(|link| link.open)
    }

    fn health(&self) -> Option<&Health> {
        self.heard.as_ref().map(|(health, _)| health)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Devices {
    devices: BTreeMap<DeviceUid, Device>,
    ports: BTreeMap<PortId, DeviceUid>,
    commands: Commands,
    settings: Settings,
    notes: Notes,
    /// Devices whose entry is to be written anew.
    changed: BTreeSet<DeviceUid>,
    actions: Vec<DeviceAction>,
}

impl Devices {
    /// The devices of which `meta` has an entry, and what to say of entries that do not
    /// read. Numbers of commands begin at `first_command`: one that no earlier run has
    /// used of late.
    #[must_use]
    pub fn restore(meta: &[Entry], first_command: u32) -> (Self, Option<String>) {
        let entries = meta.iter().filter(|entry| Kept::is_entry(entry));
        let kept = entries.clone().filter_map(Kept::parse);
        let devices = kept.take(DEVICES_MAX).map(|(uid, kept)| {
            let device = Device {
                kept,
                link: None,
                heard: None,
                moves: 0,
            };
            (uid, device)
        });
        let devices: BTreeMap<_, _> = devices.collect();
        let unread = entries.count() - devices.len();
        let note = (unread > 0).then(|| {
            format!(
                "what was kept of {unread} devices does not read: they are known again once they \
                 say Hello, and the settings that were wanted of them are forgotten"
            )
        });
        let restored = Self {
            devices,
            ports: BTreeMap::new(),
            commands: Commands::new(first_command),
            settings: Settings::default(),
            notes: Notes::default(),
            changed: BTreeSet::new(),
            actions: Vec::new(),
        };
        (restored, note)
    }

    /// Why boots began, as far as it is kept.
    pub fn causes(&self) -> impl Iterator<Item = (Source, ResetCause)> {
        self.devices.iter().flat_map(|(uid, device)| {
            let boots = device.kept.boots.iter();
            boots.map(|(boot, cause)| {
                let (uid, boot) = (*uid, *boot);
                (Source { uid, boot }, *cause)
            })
        })
    }

    /// What is known of a device.
    #[must_use]
    pub fn get(&self, uid: DeviceUid) -> Option<&Device> {
        self.devices.get(&uid)
    }

    /// All devices that ever said Hello, in order of uid.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceUid, &Device)> {
        self.devices.iter().map(|(uid, device)| (*uid, device))
    }

    /// A session heard something that is no reading.
    pub fn on_heard(
        &mut self,
        port: PortId,
        (source, heard): (Source, Heard),
        names: &Names,
        now: Mono,
    ) {
        if let Heard::Hello(hello) = heard {
            return self.on_hello(port, &hello, &names.name(hello.uid), now);
        }
        let Self {
            devices, actions, ..
        } = self;
        let uid = source.uid;
        let Some(device) = devices.get_mut(&uid) else {
            return;
        };
        match heard {
            Heard::Hello(_) => {}
            Heard::Open => {
                if let Some(link) = &mut device.link {
                    link.open = true;
                }
            }
            Heard::Channel(info) => {
                if device.kept.on_channel(&info) {
                    self.changed.insert(uid);
                }
            }
            Heard::Health(health) => {
                device.heard = Some((health, now));
                self.settings.compare(uid, device, now, actions);
            }
            Heard::Result(result) => self.commands.on_result(uid, &result, actions),
            Heard::Log(frame) => actions.push(DeviceAction::Log {
                uid,
                build_id: device.kept.hello.build_id,
                frame,
            }),
        }
    }

    fn on_hello(&mut self, port: PortId, hello: &Hello, name: &str, now: Mono) {
        let uid = hello.uid;
        if let Some(before) = self.ports.insert(port, uid).filter(|before| *before != uid) {
            self.unplug(before);
            let text = format!(
                "port {}: device {name} is there now, instead of {before}",
                port.0
            );
            let note = self.notes.on_port(port, text, now);
            self.actions.extend(note.map(DeviceAction::Note));
        }
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&uid) {
            self.ports.remove(&port);
            return;
        }
        let device = self.devices.entry(uid).or_insert_with(|| {
            self.changed.insert(uid);
            Device {
                kept: Kept::new(hello.clone()),
                link: None,
                heard: None,
                moves: 0,
            }
        });
        if device.kept.on_hello(hello) {
            self.changed.insert(uid);
        }
        device
            .heard
            .take_if(|(health, _)| health.boot != hello.boot);
        let link = Link {
            port,
            boot: hello.boot,
            open: false,
        };
        let before = device.link.replace(link).filter(|link| link.port != port);
        device.moves += u64::from(before.is_some());
        if let Some(Link { port: earlier, .. }) = before {
            self.ports.remove(&earlier);
            self.actions.push(DeviceAction::Dismiss(earlier));
            let text = format!(
                "device {name} is heard on port {} now, and is not heard on port {} any more: two \
                 ways lead to it, or two devices have its uid",
                port.0, earlier.0
            );
            let note = self.notes.on_port(port, text, now);
            self.actions.extend(note.map(DeviceAction::Note));
        }
        self.commands.on_boot(uid, hello.boot, &mut self.actions);
        let note = self.notes.on_hello(name, hello);
        self.actions.extend(note.map(DeviceAction::Note));
    }

    /// Nothing is heard on this port any more.
    pub fn on_port_closed(&mut self, port: PortId) {
        if let Some(uid) = self.ports.remove(&port) {
            self.unplug(uid);
        }
    }

    fn unplug(&mut self, uid: DeviceUid) {
        if let Some(device) = self.devices.get_mut(&uid) {
            device.link = None;
        }
        self.settings.on_gone(uid, &mut self.actions);
    }

    /// Somebody wants something of the device `uid`; the answer comes as an action.
    pub fn on_request(
        &mut self,
        id: QueryId,
        (uid, name): (DeviceUid, &str),
        request: &DeviceRequest,
        now: Mono,
    ) {
        let done = json!({ "device": name, "uid": uid.to_string(), "done": true });
        let started = match request {
            // Answered by whoever knows the ledger.
            DeviceRequest::List | DeviceRequest::Show { .. } => Ok(()),
            DeviceRequest::Identify { seconds, .. } => {
                let identify = |_| Operation::Identify { seconds: *seconds };
                self.command(id, (uid, name), done, identify, now)
            }
            DeviceRequest::Reboot { .. } => {
                let reboot = |boot| Operation::Reboot { boot };
                self.command(id, (uid, name), done, reboot, now)
            }
            DeviceRequest::Set(set) => self.set(id, (uid, name), set, now),
        };
        if let Err(why) = started {
            self.actions.push(DeviceAction::Answer(id, Err(why)));
        }
    }

    fn command(
        &mut self,
        id: QueryId,
        (uid, name): (DeviceUid, &str),
        done: Value,
        operation: impl FnOnce(BootId) -> Operation,
        now: Mono,
    ) -> Result<(), String> {
        let link = self.connected(uid, name)?;
        let asked = commands::Asked {
            id,
            uid,
            boot: link.boot,
            name,
            done,
        };
        self.commands.start(asked, &[operation(link.boot)], now)
    }

    fn connected(&self, uid: DeviceUid, name: &str) -> Result<Link, String> {
        let device = self.devices.get(&uid);
        device
            .and_then(Device::open_link)
            .ok_or_else(|| format!("{name} is not connected"))
    }

    fn set(
        &mut self,
        id: QueryId,
        (uid, name): (DeviceUid, &str),
        set: &SetRequest,
        now: Mono,
    ) -> Result<(), String> {
        let Some(device) = self.devices.get_mut(&uid) else {
            return Err(format!("{name} never said what channels it has"));
        };
        let change = set.change(&device.kept, name)?;
        let mut answer = json!({
            "device": name,
            "uid": uid.to_string(),
            "channel": set.channel,
            "once": set.once,
        });
        if set.once {
            answer["applied"] = json!(true);
            let link = device.open_link();
            let link = link.ok_or_else(|| format!("{name} is not connected"))?;
            let asked = commands::Asked {
                id,
                uid,
                boot: link.boot,
                name,
                done: answer,
            };
            return self.commands.start(asked, &change.operations(), now);
        }
        if !self.settings.has_room() {
            return Err(String::from(
                "too many settings are being changed: ask again in some seconds",
            ));
        }
        let running = device.health().map_or(0, |health| health.config);
        let desired = &mut device.kept.desired;
        change.apply(desired, running)?;
        self.changed.insert(uid);
        let setting = desired.of(change.channel);
        answer["version"] = json!(desired.version);
        answer["period_us"] = json!(setting.period_us);
        answer["threshold"] = json!(setting.threshold);
        let asked = settings::Asked {
            id,
            uid,
            version: desired.version,
            name,
            answer,
        };
        self.settings.start(asked, now);
        Ok(())
    }

    /// Does what is due.
    pub fn on_deadline(&mut self, now: Mono) {
        let Self {
            devices, actions, ..
        } = self;
        self.commands.on_deadline(now, devices, actions);
        self.settings.on_deadline(now, devices, actions);
    }

    /// When [`Devices::on_deadline`] wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        let commands = self.commands.next_deadline();
        commands
            .into_iter()
            .chain(self.settings.next_deadline())
            .min()
    }

    /// Entries to write with the next batch.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let device = |uid| self.devices.get(&uid);
        changed
            .filter_map(|uid| Some(device(uid)?.kept.entry()))
            .collect()
    }

    /// A batch leaves with all that was given for it.
    pub fn on_cut(&mut self) {
        self.settings.on_cut();
    }

    /// The batch that left last is durable.
    pub fn on_committed(&mut self, now: Mono) {
        let Self {
            devices, actions, ..
        } = self;
        self.settings.on_committed(devices, now, actions);
    }

    /// What is to be done, in order.
    pub fn take_actions(&mut self) -> Vec<DeviceAction> {
        std::mem::take(&mut self.actions)
    }
}
