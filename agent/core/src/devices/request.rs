//! What operators ask of devices. Knows no device: names are looked up, and figures are
//! scaled, where the device is known.

/// One question or order about devices. A device is named as in a
/// [`Query`](crate::query::Query): a name from the config, or its uid.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceRequest {
    /// All devices that the gateway ever heard of.
    List,
    /// One of them.
    Show {
        device: String,
    },
    Set(SetRequest),
    /// The device shows which one it is for so long.
    Identify {
        device: String,
        seconds: u8,
    },
    /// The device starts anew, in the boot that runs when this is asked.
    Reboot {
        device: String,
    },
}

/// Changes how a channel is sampled. What is `None` stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct SetRequest {
    pub device: String,
    /// The channel's name.
    pub channel: String,
    /// [`PERIOD_US_MIN`](crate::limits::PERIOD_US_MIN) to
    /// [`PERIOD_US_MAX`](crate::limits::PERIOD_US_MAX) us; 0: as the device was built.
    pub period_us: Option<u32>,
    /// In the channel's unit, not negative: a sample that differs by less from the one
    /// before is not sent; 0: every sample is.
    pub threshold: Option<f64>,
    /// The gateway keeps nothing of it: it lasts until the device is reset, or until
    /// its settings are changed.
    pub once: bool,
}
