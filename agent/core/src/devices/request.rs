//! What operators ask of devices, and what a change of settings means for the device
//! that it is for.

use forebay_wire::ids::ChannelNo;
use forebay_wire::message::Operation;

use super::{Desired, Kept, Setting};
use crate::limits::{PERIOD_US_MAX, PERIOD_US_MIN};
use crate::near::did_you_mean_name;

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
    /// [`PERIOD_US_MIN`] to [`PERIOD_US_MAX`] us; 0: as the device was built, not with
    /// `once`.
    pub period_us: Option<u32>,
    /// In the channel's unit, not negative: a sample that differs by less from the one
    /// before is not sent; 0: every sample is.
    pub threshold: Option<f64>,
    /// The gateway keeps nothing of it: it lasts until the device is reset, or until
    /// its settings are changed.
    pub once: bool,
}

/// A [`SetRequest`] in the device's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) channel: ChannelNo,
    period_us: Option<u32>,
    threshold: Option<u32>,
}

impl SetRequest {
    /// Checks it against the device's channels.
    pub(super) fn change(&self, kept: &Kept, name: &str) -> Result<Change, String> {
        let Some(info) = kept.channel(&self.channel) else {
            let known = kept.channels.values().map(|info| info.quantity.as_str());
            let known: Vec<_> = known.collect();
            let near = did_you_mean_name(&self.channel, known.iter().copied());
            return Err(format!(
                "{name} has no channel \"{}\"{near}: it has {}",
                self.channel,
                known.join(", ")
            ));
        };
        if self.period_us.is_none() && self.threshold.is_none() {
            return Err(String::from("neither a period nor a threshold is given"));
        }
        if let Some(period_us) = self.period_us
            && !((period_us == 0 && !self.once)
                || (PERIOD_US_MIN..=PERIOD_US_MAX).contains(&period_us))
        {
            return Err(format!(
                "the period must be {PERIOD_US_MIN} to {PERIOD_US_MAX} us, or 0 for what the \
                 device was built with, which is not for once; it is {period_us} us"
            ));
        }
        let scaled = |threshold| scaled(threshold, info.scale, info.unit.as_str());
        Ok(Change {
            channel: info.channel,
            period_us: self.period_us,
            threshold: self.threshold.map(scaled).transpose()?,
        })
    }
}

/// A threshold as a number of the channel's steps.
fn scaled(threshold: f64, scale: u8, unit: &str) -> Result<u32, String> {
    let steps = (threshold * 10_f64.powi(i32::from(scale))).round();
    let step = 10_f64.powi(-i32::from(scale));
    if !(0.0..=f64::from(u32::MAX)).contains(&steps) || threshold < 0.0 {
        let most = f64::from(u32::MAX) * step;
        return Err(format!(
            "the threshold must be 0 to {most} {unit}; it is {threshold}"
        ));
    }
    if steps == 0.0 && threshold > 0.0 {
        return Err(format!(
            "the threshold is below the channel's step, {step} {unit}: give that, or 0 for every \
             sample"
        ));
    }
    Ok(steps as u32)
}

impl Change {
    /// As commands.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let channel = self.channel;
        let period = self.period_us;
        let period = period.map(|period_us| Operation::SetPeriod { channel, period_us });
        let threshold = self.threshold;
        let threshold = threshold.map(|threshold| Operation::SetThreshold { channel, threshold });
        period.into_iter().chain(threshold).collect()
    }

    /// As a new version of the settings, newer than the one that the device runs.
    pub(super) fn apply(&self, desired: &mut Desired, running: u32) -> Result<(), String> {
        let version = desired.version.max(running).checked_add(1);
        let Some(version) = version else {
            return Err(String::from(
                "the device's settings have the last version that there is: reset it first",
            ));
        };
        let setting = desired.channels.entry(self.channel).or_default();
        setting.period_us = self.period_us.unwrap_or(setting.period_us);
        setting.threshold = self.threshold.unwrap_or(setting.threshold);
        // As built: not named at all.
        if *setting == Setting::default() {
            desired.channels.remove(&self.channel);
        }
        desired.version = version;
        Ok(())
    }
}
