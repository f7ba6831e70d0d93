//! What operators call devices. Knows only what the config and imports gave names to:
//! any other device is called by its uid.

use std::collections::BTreeMap;

use forebay_wire::ids::DeviceUid;

/// Names that operators gave to devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(pub BTreeMap<DeviceUid, String>);

impl Names {
    /// The device that `text` names: a given name, or sixteen hex digits.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<DeviceUid> {
        let named = self.0.iter().find(|(_, name)| *name == text);
        named.map(|(uid, _)| *uid).or_else(|| parse_uid(text))
    }

    /// What to call a device.
    #[must_use]
    pub fn name(&self, uid: DeviceUid) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

/// Reads a uid as it is written: sixteen hex digits.
#[must_use]
pub fn parse_uid(text: &str) -> Option<DeviceUid> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = is_hex.then(|| u64::from_str_radix(text, 16).ok())??;
    Some(DeviceUid(value.to_be_bytes()))
}
