//! Requests about devices.

use forebay_wire::ids::DeviceUid;
use serde_json::{Value, json};

use super::{Gateway, status};
use crate::devices::{DeviceRequest, SetRequest};
use crate::effect::{Effect, QueryId};
use crate::query::Answer;

impl Gateway {
    pub(super) fn on_device_request(&mut self, id: QueryId, request: &DeviceRequest) {
        let answer = match request {
            DeviceRequest::List => {
                let uids = self.ledger.devices().map(|(uid, _)| uid);
                let devices: Vec<_> = uids.map(|uid| self.device_view(uid)).collect();
                Ok(json!({ "devices": devices }))
            }
            DeviceRequest::Show { device } => {
                self.known_device(device).map(|uid| self.device_view(uid))
            }
            DeviceRequest::Set(SetRequest { device, .. })
            | DeviceRequest::Identify { device, .. }
            | DeviceRequest::Reboot { device } => self.command(device),
        };
        self.effects.push_back(Effect::Answer(id, answer));
    }

    /// The link has no commands yet.
    fn command(&self, device: &str) -> Answer {
        let uid = self.known_device(device)?;
        Err(format!(
            "{} does not take commands",
            self.config.names.name(uid)
        ))
    }

    fn known_device(&self, device: &str) -> Result<DeviceUid, String> {
        let uid = self.config.names.find(device);
        uid.filter(|uid| self.ledger.device(*uid).is_some())
            .ok_or_else(|| {
                format!(
                    "no device is called \"{device}\": `forebay device ls` names all that were heard of"
                )
            })
    }

    /// All that is known of a device.
    fn device_view(&self, uid: DeviceUid) -> Value {
        json!({
            "device": self.config.names.name(uid),
            "uid": uid.to_string(),
            "ledger": status::ledger(self, uid),
        })
    }
}
