//! Devices beside their readings: what sessions heard goes to whoever knows the devices,
//! what that wants goes out, and requests are answered.

use forebay_wire::ids::DeviceUid;
use serde_json::json;

use super::{Gateway, device_view};
use crate::devices::{DeviceAction, DeviceRequest, SetRequest};
use crate::effect::{Effect, Note, QueryId};
use crate::link::session::Session;
use crate::near::{did_you_mean_name, listed};
use crate::query::{Reply, Written};
use crate::units::{Mono, PortId};

/// Devices that an error names.
const NAMES_SHOWN_MAX: usize = 8;

impl Gateway {
    pub(super) fn on_device_request(&mut self, id: QueryId, request: &DeviceRequest, now: Mono) {
        let answer = match request {
            DeviceRequest::List => Some(Ok(self.device_list(now))),
            DeviceRequest::Show { device } => {
                let uid = self.known_device(device);
                Some(uid.map(|uid| device_view::whole(self, uid, now).into()))
            }
            DeviceRequest::Set(SetRequest { device, .. })
            | DeviceRequest::Identify { device, .. }
            | DeviceRequest::Reboot { device } => match self.known_device(device) {
                Ok(uid) => {
                    let name = self.config.names.name(uid);
                    self.devices.on_request(id, (uid, &name), request, now);
                    None
                }
                Err(why) => Some(Err(why)),
            },
        };
        let answer = answer.map(|answer| Effect::Answer(id, answer));
        self.effects.extend(answer);
    }

    fn device_list(&self, now: Mono) -> Reply {
        let said = self.devices.iter().map(|(uid, _)| uid);
        let mut uids: Vec<_> = self
            .ledger
            .devices()
            .map(|(uid, _)| uid)
            .chain(said)
            .collect();
        uids.sort_unstable();
        uids.dedup();
        let mut devices = Written::default();
        for uid in uids {
            devices.push(&device_view::whole(self, uid, now));
        }
        Reply::from(json!({})).with("devices", devices)
    }

    fn known_device(&self, device: &str) -> Result<DeviceUid, String> {
        let known = |uid: &DeviceUid| {
            self.devices.get(*uid).is_some() || self.ledger.device(*uid).is_some()
        };
        let found = self.config.names.find(device).filter(known);
        found.ok_or_else(|| self.unknown_device(device))
    }

    /// What there is instead: the devices that are connected, the first of them.
    pub(super) fn unknown_device(&self, device: &str) -> String {
        let named = |uid| self.config.names.name(uid);
        let connected = self.devices.iter().filter(|(_, d)| d.link.is_some());
        let connected: Vec<_> = connected.map(|(uid, _)| named(uid)).collect();
        let connected = match listed(connected.iter().map(String::as_str), NAMES_SHOWN_MAX) {
            None => String::from("none is connected"),
            Some(names) => format!("connected are {names}"),
        };
        let known: Vec<_> = self.ledger.devices().map(|(uid, _)| named(uid)).collect();
        let near = did_you_mean_name(device, known.iter().map(String::as_str));
        format!(
            "no device is called \"{device}\"{near}: {connected}; `forebay device ls` shows all that \
             were heard of"
        )
    }

    /// Hands on what the session of a port heard that is no reading.
    pub(super) fn hand_on_heard(&mut self, port: PortId, now: Mono) {
        let session = self.ports.get_mut(&port).and_then(Option::as_mut);
        let heard = session.map(|session| session.take_heard());
        for heard in heard.into_iter().flatten() {
            self.devices.on_heard(port, heard, &self.config.names, now);
        }
    }

    /// Does what the devices want.
    pub(super) fn advance_devices(&mut self, now: Mono) {
        for action in self.devices.take_actions() {
            match action {
                DeviceAction::Say(port, line) => {
                    if let Some(Some(session)) = self.ports.get_mut(&port) {
                        session.say(line);
                    }
                }
                DeviceAction::Dismiss(port) => {
                    let session = self.ports.get_mut(&port).and_then(Option::as_mut);
                    if let Some((source, clock)) = session.and_then(Session::dismiss) {
                        self.clocks.keep(source, clock);
                    }
                }
                DeviceAction::Answer(id, answer) => {
                    self.effects.push_back(Effect::Answer(id, answer));
                }
                DeviceAction::Note(text) => self.effects.push_back(Effect::Note(Note(text))),
                DeviceAction::Log {
                    uid,
                    build_id,
                    frame,
                } => self.effects.push_back(Effect::DeviceLog {
                    uid,
                    build_id,
                    frame,
                }),
            }
        }
        let entries = self.devices.take_entries();
        self.keep(entries, now);
    }
}
