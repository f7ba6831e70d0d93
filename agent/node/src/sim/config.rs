//! What to simulate.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_firmware::wire::ids::{BootId, DeviceUid};

use super::board::RingSize;
use super::drift::ClockPpm;
use super::limits::{DEVICES_MAX, RATE_HZ_MAX, RESET_EACH_MIN, SPELL_EACH_MAX};
use super::spec::CableFaults;

/// Uid of the first device unless another is given; the others count up.
pub const UID_BASE_DEFAULT: u64 = 0xf0be_a000_0000_0001;
const PERIOD_DEFAULT_US: u32 = 100_000;

/// Time between two samples of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplePeriod {
    us: u32,
}

impl Default for SamplePeriod {
    /// 10 Hz.
    fn default() -> Self {
        Self {
            us: PERIOD_DEFAULT_US,
        }
    }
}

impl SamplePeriod {
    /// # Errors
    /// Not from 0.001 to [`RATE_HZ_MAX`] Hz; ends a sentence about the rate.
    pub fn from_hz(hz: f64) -> Result<Self, String> {
        if (0.001..=f64::from(RATE_HZ_MAX)).contains(&hz) {
            Ok(Self {
                us: (1e6 / hz).round() as u32,
            })
        } else {
            Err(format!("must be from 0.001 to {RATE_HZ_MAX} Hz"))
        }
    }

    pub fn micros(self) -> u32 {
        self.us
    }
}

/// How gateways reach the devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimLines {
    /// A pty for each. With a path, also a symlink to the first one's pty;
    /// further devices get `PATH-2`, `PATH-3`, ...
    Ptys { link: Option<PathBuf> },
    /// A listener for each, on this port and those after it; port 0: any free.
    Tcp { listen: SocketAddr },
    /// Socket pairs, see [`super::SimDevices::take_streams`].
    InProcess,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SimConfig {
    /// 1 to [`super::limits::DEVICES_MAX`].
    pub devices: u32,
    /// The first device measures this computer; otherwise it is made up too.
    pub host_sensors: bool,
    pub period: SamplePeriod,
    /// Of made-up values and of faults.
    pub seed: u64,
    pub uid_base: u64,
    /// Boot id of all devices; none: drawn at random, as each start is a boot.
    pub boot: Option<BootId>,
    pub lines: SimLines,
    pub faults: CableFaults,
    pub ring: RingSize,
    /// How far each device's own clock may be off.
    pub clock: ClockPpm,
    /// Each device is reset once in this time.
    pub resets: Option<Duration>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            devices: 1,
            host_sensors: true,
            period: SamplePeriod::default(),
            seed: 1,
            uid_base: UID_BASE_DEFAULT,
            boot: None,
            lines: SimLines::Ptys { link: None },
            faults: CableFaults::default(),
            ring: RingSize::default(),
            clock: ClockPpm::default(),
            resets: None,
        }
    }
}

impl SimConfig {
    pub(super) fn uid(&self, device: u32) -> DeviceUid {
        DeviceUid(self.uid_base.wrapping_add(u64::from(device)).to_be_bytes())
    }

    /// # Errors
    /// What cannot be simulated, and why.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=DEVICES_MAX).contains(&self.devices) {
            return Err(format!(
                "devices: {} is not from 1 to {DEVICES_MAX}",
                self.devices
            ));
        }
        let resets = self.resets.unwrap_or(RESET_EACH_MIN);
        if !(RESET_EACH_MIN..=SPELL_EACH_MAX).contains(&resets) {
            return Err(format!(
                "reset: {resets:?} is not from {RESET_EACH_MIN:?} to a day"
            ));
        }
        match &self.lines {
            SimLines::Ptys { link: None } | SimLines::InProcess if self.faults.unplug.is_some() => {
                Err(
                    "unplug: a device comes back under another path, so it needs a link or an \
                     address by which a gateway finds it again"
                        .to_owned(),
                )
            }
            SimLines::Ptys { .. } | SimLines::InProcess | SimLines::Tcp { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_around_their_limits() {
        let most = f64::from(RATE_HZ_MAX);
        for (name, hz, want) in [
            ("limit-1 low", 0.0009, None),
            ("limit low", 0.001, Some(1_000_000_000)),
            ("limit+1 low", 0.0011, Some(909_090_909)),
            ("usual", 100.0, Some(10_000)),
            ("limit-1", most - 1.0, Some(100)),
            ("limit", most, Some(100)),
            ("limit+1", most + 1.0, None),
            ("negative", -1.0, None),
            ("not a number", f64::NAN, None),
        ] {
            assert_eq!(
                SamplePeriod::from_hz(hz).ok().map(SamplePeriod::micros),
                want,
                "{name}"
            );
        }
    }
}
