//! What a sensor is to the device: a name, a range and a way to be read. A reading
//! that failed is a quality code, never a number that looks like one.

use forebay_wire::ids::{ChannelNo, Tick};
use forebay_wire::message::{ChannelInfo, Quality};
use heapless::String;

/// What a channel measures; the gateway learns it from the Channel frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelSpec {
    /// `[a-z][a-z0-9_]*`, at most 24 bytes, unique on its device.
    pub quantity: &'static str,
    /// At most 12 bytes, such as `degC`.
    pub unit: &'static str,
    /// A value v stands for v / 10^scale; 0 to 9.
    pub scale: u8,
    /// Smallest and largest value that the sensor can mean. A value outside is
    /// sent as implausible.
    pub range: (i32, i32),
    /// Sampling period, us; at least 1.
    pub period_us: u32,
}

impl ChannelSpec {
    /// The Channel message; `None` when a field is outside its range.
    #[must_use]
    pub fn info(&self, channel: ChannelNo) -> Option<ChannelInfo> {
        let info = ChannelInfo {
            channel,
            quantity: String::try_from(self.quantity).ok()?,
            unit: String::try_from(self.unit).ok()?,
            scale: self.scale,
            range: self.range,
            period_us: self.period_us,
        };
        (info.is_valid() && self.period_us > 0).then_some(info)
    }
}

/// One channel's source. Blocking, but bounded: a read that cannot be had in a few
/// bus transactions is an `Err`, so that other channels stay on time.
pub trait Sensor {
    fn spec(&self) -> ChannelSpec;

    /// Begins a measurement, for a sensor that takes longer than a read may: its
    /// [`Sensor::read`] follows so many microseconds after `now`, and the value is
    /// stamped with `now`. 0, as here: there is nothing to wait for.
    fn start(&mut self, now: Tick) -> u32 {
        let _ = now;
        0
    }

    /// The scaled value now, or that of the measurement begun by [`Sensor::start`].
    ///
    /// # Errors
    /// Why there is none, as the quality code that is sent instead.
    fn read(&mut self) -> Result<i32, Quality>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_checked() {
        let good = ChannelSpec {
            quantity: "load",
            unit: "",
            scale: 0,
            range: (0, 1),
            period_us: 1,
        };
        assert!(good.info(ChannelNo(0)).is_some());
        for (name, spec) in [
            (
                "name too long",
                ChannelSpec {
                    quantity: "abcdefghijklmnopqrstuvwxy",
                    ..good
                },
            ),
            (
                "name with a slash",
                ChannelSpec {
                    quantity: "a/b",
                    ..good
                },
            ),
            (
                "unit too long",
                ChannelSpec {
                    unit: "thirteenbytes",
                    ..good
                },
            ),
            ("scale", ChannelSpec { scale: 10, ..good }),
            (
                "range",
                ChannelSpec {
                    range: (2, 1),
                    ..good
                },
            ),
            (
                "no period",
                ChannelSpec {
                    period_us: 0,
                    ..good
                },
            ),
        ] {
            assert!(spec.info(ChannelNo(0)).is_none(), "{name}");
        }
    }
}
