//! What is kept of a device over restarts: who it is, its channels, and the settings
//! that an operator wants it to have. Byte table: `agent/core/docs/format.md`.
//!
//! Bound: [`CHANNELS_MAX`] channels, [`BOOTS_PER_DEVICE_MAX`] boots. Knows no port and no clock.

use std::collections::BTreeMap;

use forebay_wire::codec::DeviceMessage;
use forebay_wire::deframer::Deframer;
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid};
use forebay_wire::limits::{CHANNELS_MAX, LINE_BYTES_MAX, QUANTITY_BYTES_MAX, UNIT_BYTES_MAX};
use forebay_wire::message::{ChannelInfo, Hello, ResetCause};

use crate::limits::{BOOTS_PER_DEVICE_MAX, META_VALUE_BYTES_MAX, PERIOD_US_MAX, PERIOD_US_MIN};
use crate::log::bytes::{Malformed, Reader, put_varint};
use crate::meta::{Entry, checked, with_crc};

/// Meta keys of devices: this and the uid as 16 hex digits.
const DEVICE_META_PREFIX: &[u8] = b"device/";
const VERSION: u8 = 1;
/// Longest Hello or Channel as a line, with its length.
const LINE_KEPT_MAX: usize = 2 + QUANTITY_BYTES_MAX + UNIT_BYTES_MAX + 64;
const SETTING_BYTES_MAX: usize = 1 + 5 + 5;
const _: () = assert!(
    16 + LINE_KEPT_MAX
        + BOOTS_PER_DEVICE_MAX * 6
        + CHANNELS_MAX * (LINE_KEPT_MAX + SETTING_BYTES_MAX)
        <= META_VALUE_BYTES_MAX
);

/// How a channel is to be sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setting {
    /// us; 0: as the device was built.
    pub period_us: u32,
    /// As a scaled value; 0: every sample is sent.
    pub threshold: u32,
}

impl Setting {
    /// Whether a device may be told it.
    pub(super) fn is_valid(self) -> bool {
        self.period_us == 0 || (PERIOD_US_MIN..=PERIOD_US_MAX).contains(&self.period_us)
    }
}

/// What an operator wants a device to be set to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired {
    /// Counts the changes; 0: nobody ever wanted anything.
    pub version: u32,
    /// Channels that are not as the device was built.
    pub channels: BTreeMap<ChannelNo, Setting>,
}

impl Desired {
    /// What is wanted of a channel.
    #[must_use]
    pub fn of(&self, channel: ChannelNo) -> Setting {
        self.channels.get(&channel).copied().unwrap_or_default()
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Of its newest boot.
    pub hello: Hello,
    /// Why its last boots began, the newest last: accounts are not kept at once.
    pub boots: Vec<(BootId, ResetCause)>,
    pub channels: BTreeMap<ChannelNo, ChannelInfo>,
    pub desired: Desired,
}

impl Kept {
    pub(super) fn new(hello: Hello) -> Self {
        Self {
            boots: vec![(hello.boot, hello.reset_cause)],
            hello,
            channels: BTreeMap::new(),
            desired: Desired::default(),
        }
    }

    /// The device said Hello; whether that is news. Channels that it has no more go.
    pub(super) fn on_hello(&mut self, hello: &Hello) -> bool {
        if self.hello == *hello {
            return false;
        }
        self.hello = hello.clone();
        self.boots.retain(|(boot, _)| *boot != hello.boot);
        if self.boots.len() >= BOOTS_PER_DEVICE_MAX {
            self.boots.remove(0);
        }
        self.boots.push((hello.boot, hello.reset_cause));
        self.channels
            .retain(|number, _| number.0 < hello.channel_count);
        true
    }

    /// The device described a channel; whether that is news.
    pub(super) fn on_channel(&mut self, info: &ChannelInfo) -> bool {
        if self.channels.get(&info.channel) == Some(info) {
            return false;
        }
        self.channels.insert(info.channel, info.clone());
        true
    }

    /// The name of one of its channels: see [`Kept::channel`].
    #[must_use]
    pub fn name(&self, info: &ChannelInfo) -> String {
        let earlier = self.channels.range(..info.channel);
        let mut earlier = earlier.map(|(_, other)| &other.quantity);
        if earlier.any(|quantity| *quantity == info.quantity) {
            format!("{}_{}", info.quantity, info.channel.0)
        } else {
            info.quantity.as_str().to_owned()
        }
    }

    /// The channel of this name, as its readings have it: its quantity, with the number
    /// where two share one.
    #[must_use]
    pub fn channel(&self, name: &str) -> Option<&ChannelInfo> {
        let mut channels = self.channels.values();
        let same = channels.find(|info| info.quantity == name);
        same.or_else(|| {
            let (quantity, number) = name.rsplit_once('_')?;
            let info = self.channels.get(&ChannelNo(number.parse().ok()?))?;
            (info.quantity == quantity).then_some(info)
        })
    }

    pub(super) fn entry(&self) -> Entry {
        let uid = self.hello.uid.to_string();
        let key = [DEVICE_META_PREFIX, uid.as_bytes()].concat();
        let mut out = vec![VERSION];
        put_line(&mut out, &DeviceMessage::Hello(self.hello.clone()));
        put_varint(&mut out, self.boots.len() as u64);
        for (boot, cause) in &self.boots {
            put_varint(&mut out, u64::from(boot.0));
            out.push(*cause as u8);
        }
        put_varint(&mut out, self.channels.len() as u64);
        for info in self.channels.values() {
            put_line(&mut out, &DeviceMessage::Channel(info.clone()));
        }
        put_varint(&mut out, u64::from(self.desired.version));
        put_varint(&mut out, self.desired.channels.len() as u64);
        for (channel, setting) in &self.desired.channels {
            out.push(channel.0);
            put_varint(&mut out, u64::from(setting.period_us));
            put_varint(&mut out, u64::from(setting.threshold));
        }
        (key, with_crc(out))
    }

    /// Whether an entry is a device's.
    pub(super) fn is_entry((key, value): &Entry) -> bool {
        key.starts_with(DEVICE_META_PREFIX) && !value.is_empty()
    }

    /// Reads an entry; `None` when it is no device's, or does not read.
    pub(super) fn parse((key, value): &Entry) -> Option<(DeviceUid, Self)> {
        let name = key.strip_prefix(DEVICE_META_PREFIX)?;
        let mut reader = checked(VERSION, value)?;
        let kept = read(&mut reader).ok()?;
        let uid = kept.hello.uid;
        (reader.is_at_end() && name == uid.to_string().as_bytes()).then_some((uid, kept))
    }
}

/// Appends a message as a line of the link, with its length before it.
fn put_line(out: &mut Vec<u8>, message: &DeviceMessage<'_>) {
    let mut line = [0; LINE_BYTES_MAX];
    let len = message.encode(&mut line);
    let len = len.expect("it came from a line, and a line takes it");
    put_varint(out, len as u64);
    out.extend_from_slice(&line[..len]);
}

fn read_line<T>(
    reader: &mut Reader<'_>,
    of: impl Fn(DeviceMessage<'_>) -> Option<T>,
) -> Result<T, Malformed> {
    let at = reader.malformed();
    let len = usize::try_from(reader.varint()?).map_err(|_| at)?;
    let mut found = None;
    Deframer::new().receive_device(reader.take(len)?, |message| {
        found = message.ok().and_then(&of);
    });
    found.ok_or(at)
}

fn read(reader: &mut Reader<'_>) -> Result<Kept, Malformed> {
    let mut kept = Kept::new(read_line(reader, |message| match message {
        DeviceMessage::Hello(hello) => Some(hello),
        DeviceMessage::Channel(_)
        | DeviceMessage::Data(_)
        | DeviceMessage::Gap(_)
        | DeviceMessage::SyncReply(_)
        | DeviceMessage::Health(_)
        | DeviceMessage::CmdResult(_)
        | DeviceMessage::Log(_) => None,
    })?);
    kept.boots.clear();
    for _ in 0..count(reader, BOOTS_PER_DEVICE_MAX)? {
        let boot = BootId(number(reader)?);
        let cause = ResetCause::from_byte(reader.byte()?);
        kept.boots
            .push((boot, cause.ok_or_else(|| reader.malformed())?));
    }
    for _ in 0..count(reader, CHANNELS_MAX)? {
        let info = read_line(reader, |message| match message {
            DeviceMessage::Channel(info) => Some(info),
            DeviceMessage::Hello(_)
            | DeviceMessage::Data(_)
            | DeviceMessage::Gap(_)
            | DeviceMessage::SyncReply(_)
            | DeviceMessage::Health(_)
            | DeviceMessage::CmdResult(_)
            | DeviceMessage::Log(_) => None,
        })?;
        kept.channels.insert(info.channel, info);
    }
    kept.desired.version = number(reader)?;
    for _ in 0..count(reader, CHANNELS_MAX)? {
        let channel = ChannelNo(reader.byte()?);
        if usize::from(channel.0) >= CHANNELS_MAX {
            return Err(reader.malformed());
        }
        let setting = Setting {
            period_us: number(reader)?,
            threshold: number(reader)?,
        };
        if !setting.is_valid() {
            return Err(reader.malformed());
        }
        kept.desired.channels.insert(channel, setting);
    }
    Ok(kept)
}

/// How many of something follow, at most `most`.
fn count(reader: &mut Reader<'_>, most: usize) -> Result<u64, Malformed> {
    let count = reader.varint()?;
    (count <= most as u64)
        .then_some(count)
        .ok_or_else(|| reader.malformed())
}

fn number(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    u32::try_from(reader.varint()?).map_err(|_| reader.malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(channels: u8) -> Kept {
        let mut kept = Kept::new(Hello {
            uid: DeviceUid([0xa0; 8]),
            boot: BootId(u32::MAX),
            protocol_minor: 1,
            schema_hash: u32::MAX,
            firmware_version: [1, 2, 3],
            build_id: [9; 8],
            reset_cause: ResetCause::Brownout,
            tick_hz: u32::MAX,
            ring_capacity: u32::MAX,
            channel_count: channels,
        });
        for number in 0..channels {
            let info = ChannelInfo {
                channel: ChannelNo(number),
                quantity: format!("a{number:023}").as_str().try_into().expect("fits"),
                unit: "mmmmmmmmmmmm".try_into().expect("fits"),
                scale: 9,
                range: (i32::MIN, i32::MAX),
                period_us: u32::MAX,
            };
            assert!(kept.on_channel(&info), "news");
            assert!(!kept.on_channel(&info), "no news");
            let setting = Setting {
                period_us: PERIOD_US_MAX,
                threshold: u32::MAX,
            };
            kept.desired.channels.insert(ChannelNo(number), setting);
        }
        kept.desired.version = u32::MAX;
        kept
    }

    #[test]
    fn what_is_kept_reads_back_and_fits() {
        let most = CHANNELS_MAX as u8;
        for channels in [0, 1, most - 1, most] {
            let kept = kept(channels);
            let entry = kept.entry();
            assert!(entry.1.len() <= META_VALUE_BYTES_MAX, "{}", entry.1.len());
            assert_eq!(Kept::parse(&entry), Some((kept.hello.uid, kept)));
        }
    }

    #[test]
    fn what_is_damaged_is_not_believed() {
        let entry = kept(2).entry();
        for cut in 0..entry.1.len() {
            let short = (entry.0.clone(), entry.1[..cut].to_vec());
            assert_eq!(Kept::parse(&short), None, "{cut}");
        }
        let other = (b"device/00000000000000a1".to_vec(), entry.1);
        assert_eq!(Kept::parse(&other), None, "another's");
    }

    #[test]
    fn the_causes_of_the_last_boots_are_kept() {
        let mut kept = kept(1);
        let most = BOOTS_PER_DEVICE_MAX as u32;
        for boot in 0..=most {
            let hello = Hello {
                boot: BootId(boot),
                reset_cause: ResetCause::Watchdog,
                ..kept.hello.clone()
            };
            assert!(kept.on_hello(&hello));
            let (_, read) = Kept::parse(&kept.entry()).expect("it reads");
            assert_eq!(read, kept);
        }
        let boots: Vec<_> = kept.boots.iter().map(|(boot, _)| boot.0).collect();
        assert_eq!(boots, (1..=most).collect::<Vec<_>>());
    }

    #[test]
    fn a_boot_with_fewer_channels_loses_the_others() {
        let mut kept = kept(3);
        let hello = Hello {
            channel_count: 2,
            ..kept.hello.clone()
        };
        assert!(kept.on_hello(&hello), "news");
        assert!(!kept.on_hello(&hello), "no news");
        assert!(kept.channels.keys().map(|c| c.0).eq([0, 1]));
    }
}
