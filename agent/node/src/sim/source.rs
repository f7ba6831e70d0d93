//! What a simulated channel measures: a figure at a tick. Knows no firmware:
//! the device turns it into a sensor.

use forebay_wire::ids::Tick;

use super::host::HostSensor;
use super::synthetic::Wave;

/// One look at a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// Scaled by the channel's decimals.
    Value(i32),
    /// Nothing fresh to say.
    Stale,
}

/// What the device says about the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceInfo {
    pub(super) quantity: &'static str,
    pub(super) unit: &'static str,
    pub(super) scale: u8,
    pub(super) range: (i32, i32),
}

impl SourceInfo {
    /// The range is in whole units: 100 stands for 100 percent.
    pub(super) fn new(
        quantity: &'static str,
        unit: &'static str,
        scale: u8,
        (low, high): (i32, i32),
    ) -> Self {
        let one = 10_i32.pow(u32::from(scale));
        let range = (low * one, high * one);
        Self {
            quantity,
            unit,
            scale,
            range,
        }
    }
}

#[derive(Debug)]
enum Kind {
    Host(HostSensor),
    Wave(Wave),
}

#[derive(Debug)]
pub(super) struct Source {
    pub(super) info: SourceInfo,
    kind: Kind,
}

impl Source {
    pub(super) fn host(info: SourceInfo, sensor: HostSensor) -> Self {
        Self {
            info,
            kind: Kind::Host(sensor),
        }
    }

    pub(super) fn wave(info: SourceInfo, wave: Wave) -> Self {
        Self {
            info,
            kind: Kind::Wave(wave),
        }
    }

    pub(super) fn read(&self, at: Tick) -> Figure {
        match &self.kind {
            Kind::Host(sensor) => sensor.read(),
            Kind::Wave(wave) => Figure::Value(wave.at(at)),
        }
    }
}
