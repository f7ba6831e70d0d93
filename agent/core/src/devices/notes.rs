//! Sentences for the operator about devices and ports, each said once, or not too often:
//! a device that fights with another one for a port must not flood the log.
//!
//! Bound: one entry per device and per port.

use std::collections::BTreeMap;

use forebay_wire::codec::{PROTOCOL_MINOR, SCHEMA_HASH};
use forebay_wire::ids::DeviceUid;
use forebay_wire::message::Hello;

use crate::limits::{DEVICES_MAX, PORT_NOTE_EACH_US};
use crate::units::{Mono, PortId};

/// How the byte tables of a firmware compare with those of this agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    Same,
    /// The firmware knows more.
    Newer,
    /// The firmware knows less.
    Older,
    /// They differ, and neither says to be newer.
    Other,
}

impl Schema {
    /// Of a firmware with this Hello.
    #[must_use]
    pub fn of(hello: &Hello) -> Self {
        if hello.schema_hash == SCHEMA_HASH {
            Self::Same
        } else if hello.protocol_minor > PROTOCOL_MINOR {
            Self::Newer
        } else if hello.protocol_minor < PROTOCOL_MINOR {
            Self::Older
        } else {
            Self::Other
        }
    }

    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Newer => "newer",
            Self::Older => "older",
            Self::Other => "other",
        }
    }
}

/// What was said already.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Firmware of which it was said how it differs.
    firmware: BTreeMap<DeviceUid, ([u8; 3], [u8; 8], u32)>,
    ports: BTreeMap<PortId, Mono>,
}

impl Notes {
    /// What there is to say about the firmware of a device that said Hello.
    pub(super) fn on_hello(&mut self, name: &str, hello: &Hello) -> Option<String> {
        let schema = Schema::of(hello);
        let told = (hello.firmware_version, hello.build_id, hello.schema_hash);
        if schema == Schema::Same || self.firmware.get(&hello.uid) == Some(&told) {
            return None;
        }
        if self.firmware.len() < DEVICES_MAX || self.firmware.contains_key(&hello.uid) {
            self.firmware.insert(hello.uid, told);
        }
        let [major, minor, patch] = hello.firmware_version;
        let what = match schema {
            Schema::Same => return None,
            Schema::Newer => "newer than this agent: what both know is taken; update the agent",
            Schema::Older => "older than this agent: what both know is taken",
            Schema::Other => {
                "built with other tables than this agent, and neither is newer: what both know \
                 is taken; build both from one version"
            }
        };
        Some(format!(
            "device {name}: its firmware {major}.{minor}.{patch} is {what}"
        ))
    }

    /// A note about a port, unless there was one a moment ago.
    pub(super) fn on_port(&mut self, port: PortId, text: String, now: Mono) -> Option<String> {
        let said = self.ports.get(&port);
        if said.is_some_and(|at| now.0.saturating_sub(at.0) < PORT_NOTE_EACH_US) {
            return None;
        }
        self.ports.insert(port, now);
        Some(text)
    }
}
