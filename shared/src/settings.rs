//! What a Config carries when its chunks are put together: how each channel is to
//! be sampled. A channel that is not named is as built.
//!
//! Invariant: channels are named once each, in order. Bound: [`CONFIG_BYTES_MAX`]
//! bytes.

use heapless::Vec;

use crate::fields::{Reader, Writer};
use crate::ids::ChannelNo;
use crate::limits::{CHANNELS_MAX, CONFIG_BYTES_MAX, PERIOD_US_MAX, PERIOD_US_MIN};

/// First byte of a config.
pub const SETTINGS_FORMAT: u8 = 1;

/// How one channel is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelSetting {
    /// 0 to `CHANNELS_MAX` - 1.
    pub channel: ChannelNo,
    /// [`PERIOD_US_MIN`] to [`PERIOD_US_MAX`] us; 0: as built.
    pub period_us: u32,
    /// Least change that is worth a reading, in units of the scaled value; 0: every
    /// sample is.
    pub threshold: u32,
}

impl ChannelSetting {
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let periods = PERIOD_US_MIN..=PERIOD_US_MAX;
        usize::from(self.channel.0) < CHANNELS_MAX
            && (self.period_us == 0 || periods.contains(&self.period_us))
    }
}

/// Settings of all channels that are not as built.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// In ascending order of channels.
    pub entries: Vec<ChannelSetting, CHANNELS_MAX>,
}

/// Why bytes are not settings, or settings cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsError {
    /// Written in another format than [`SETTINGS_FORMAT`]: the peer is newer.
    Format { got: u8 },
    /// Cut short, bytes left over, or more entries than channels.
    Length,
    /// Entry `entry` is out of order, or a figure of it outside its range.
    Entry { entry: usize },
}

impl core::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SettingsError::Format { got } => {
                write!(
                    f,
                    "settings in format {got}, this side knows {SETTINGS_FORMAT}"
                )
            }
            SettingsError::Length => f.write_str("settings are cut short or too long"),
            SettingsError::Entry { entry } => {
                write!(
                    f,
                    "entry {entry} of the settings is out of order or out of range"
                )
            }
        }
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// Writes the whole config and returns its length.
    ///
    /// # Errors
    /// [`SettingsError::Entry`].
    pub fn encode(&self, out: &mut [u8; CONFIG_BYTES_MAX]) -> Result<usize, SettingsError> {
        self.check()?;
        let mut writer = Writer::new(out);
        writer.byte(SETTINGS_FORMAT);
        writer.byte(self.entries.len() as u8);
        for entry in &self.entries {
            writer.byte(entry.channel.0);
            writer.varint(entry.period_us.into());
            writer.varint(entry.threshold.into());
        }
        writer.finish().ok_or(SettingsError::Length)
    }

    /// Reads a whole config; nothing of it holds when anything is wrong.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn decode(config: &[u8]) -> Result<Self, SettingsError> {
        let mut reader = Reader::new(config);
        let format = reader.byte().ok_or(SettingsError::Length)?;
        if format != SETTINGS_FORMAT {
            return Err(SettingsError::Format { got: format });
        }
        let settings = Self::entries(&mut reader).ok_or(SettingsError::Length)?;
        settings.check()?;
        Ok(settings)
    }

    fn entries(reader: &mut Reader<'_>) -> Option<Self> {
        let mut settings = Settings::default();
        for _ in 0..reader.byte()? {
            let entry = ChannelSetting {
                channel: ChannelNo(reader.byte()?),
                period_us: reader.u32()?,
                threshold: reader.u32()?,
            };
            settings.entries.push(entry).ok()?;
        }
        (reader.left() == 0).then_some(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let mut least = 0;
        for (entry, setting) in self.entries.iter().enumerate() {
            if !setting.is_valid() || setting.channel.0 < least {
                return Err(SettingsError::Entry { entry });
            }
            least = setting.channel.0 + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn setting(channel: u8, period_us: u32, threshold: u32) -> ChannelSetting {
        ChannelSetting {
            channel: ChannelNo(channel),
            period_us,
            threshold,
        }
    }

    fn settings(entries: &[ChannelSetting]) -> Settings {
        Settings {
            entries: Vec::from_slice(entries).unwrap(),
        }
    }

    #[test]
    fn the_bytes() {
        let two = settings(&[setting(0, 500_000, 0), setting(31, 0, 300)]);
        let mut out = [0; CONFIG_BYTES_MAX];
        let bytes = two.encode(&mut out).unwrap();
        let want = [1, 2, 0, 0xA0, 0xC2, 0x1E, 0, 31, 0, 0xAC, 0x02];
        assert_eq!(out[..bytes], want);
        assert_eq!(Settings::decode(&want), Ok(two));
        assert_eq!(Settings::decode(&[1, 0]), Ok(Settings::default()));
    }

    #[test]
    fn entries_around_their_limits() {
        let bad = |entry| Err(SettingsError::Entry { entry });
        for (name, entries, want) in [
            ("last channel", &[setting(31, 0, 0)][..], Ok(5)),
            ("channel over", &[setting(32, 0, 0)], bad(0)),
            ("as built", &[setting(0, 0, 0)], Ok(5)),
            ("period under", &[setting(0, PERIOD_US_MIN - 1, 0)], bad(0)),
            ("shortest period", &[setting(0, PERIOD_US_MIN, 0)], Ok(6)),
            ("longest period", &[setting(0, PERIOD_US_MAX, 0)], Ok(9)),
            ("period over", &[setting(0, PERIOD_US_MAX + 1, 0)], bad(0)),
            ("largest threshold", &[setting(0, 0, u32::MAX)], Ok(9)),
            ("in order", &[setting(3, 0, 0), setting(4, 0, 0)], Ok(8)),
            ("twice", &[setting(3, 0, 0), setting(3, 0, 0)], bad(1)),
            (
                "out of order",
                &[setting(3, 0, 0), setting(2, 0, 0)],
                bad(1),
            ),
        ] {
            let mut out = [0; CONFIG_BYTES_MAX];
            assert_eq!(settings(entries).encode(&mut out), want, "{name}");
        }
    }

    #[test]
    fn what_is_refused_when_read() {
        for (name, bytes, want) in [
            ("nothing", &[][..], SettingsError::Length),
            ("format 0", &[0, 0], SettingsError::Format { got: 0 }),
            ("format 2", &[2], SettingsError::Format { got: 2 }),
            ("no count", &[1], SettingsError::Length),
            ("entry cut", &[1, 1, 0, 0], SettingsError::Length),
            ("bytes left", &[1, 0, 0], SettingsError::Length),
            (
                "33 entries",
                &[&[1, 33][..], &[0; 99]].concat(),
                SettingsError::Length,
            ),
            (
                "period too short",
                &[1, 1, 0, 1, 0],
                SettingsError::Entry { entry: 0 },
            ),
            (
                "twice",
                &[1, 2, 0, 0, 0, 0, 0, 0],
                SettingsError::Entry { entry: 1 },
            ),
        ] {
            assert_eq!(Settings::decode(bytes), Err(want), "{name}");
        }
    }

    #[test]
    fn all_channels_fit() {
        let mut all = Settings::default();
        for channel in 0..CHANNELS_MAX as u8 {
            all.entries
                .push(setting(channel, PERIOD_US_MAX, u32::MAX))
                .unwrap();
        }
        let mut out = [0; CONFIG_BYTES_MAX];
        let bytes = all.encode(&mut out).unwrap();
        assert_eq!(Settings::decode(&out[..bytes]), Ok(all));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_have_one_encoding(
            bytes in prop::collection::vec(prop_oneof![2 => 0u8..4, 1 => any::<u8>()], 0..CONFIG_BYTES_MAX)
        ) {
            if let Ok(settings) = Settings::decode(&bytes) {
                let mut out = [0; CONFIG_BYTES_MAX];
                let length = settings.encode(&mut out).unwrap();
                prop_assert_eq!(&out[..length], &bytes[..]);
            }
        }

        #[test]
        fn settings_round_trip(given in prop::collection::btree_map(0u8..32, (0u32..4_000_000_000, any::<u32>()), 0..=32)) {
            let entries: std::vec::Vec<_> = given
                .into_iter()
                .map(|(channel, (period, threshold))| {
                    let period = if period < PERIOD_US_MIN { 0 } else { period.min(PERIOD_US_MAX) };
                    setting(channel, period, threshold)
                })
                .collect();
            let given = settings(&entries);
            let mut out = [0; CONFIG_BYTES_MAX];
            let length = given.encode(&mut out).unwrap();
            prop_assert_eq!(Settings::decode(&out[..length]), Ok(given));
        }
    }
}
