//! Messages that say how a device does and tell it what to do: Health, commands
//! with their results, settings in chunks, log frames.

use heapless::Vec;

use crate::crc::crc32;
use crate::deframer::Counters;
use crate::ids::{BootId, ChannelNo};
use crate::limits::{
    CHANNELS_MAX, CMD_RESULT_BYTES_MAX, CONFIG_BYTES_MAX, CONFIG_CHUNK_BYTES_MAX,
    CONFIG_CHUNKS_MAX, CONFIG_VERSION_MIN, ERRORS_MAX, LOG_FRAME_BYTES_MAX,
};

use super::GapReason;

/// Kind 5: what a device counts, since its boot. Sent after the Channel frames of
/// each session, then each 10 s, and at once when a config was applied or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    pub boot: BootId,
    /// Version of the config in use; 0: as built.
    pub config: u32,
    /// Last version that was whole and refused; 0: none.
    pub config_refused: u32,
    /// Ordinals given out: `acked + waiting + sum of gaps`.
    pub produced: u64,
    /// Readings on the gateway's disk.
    pub acked: u64,
    /// Readings in the ring.
    pub waiting: u32,
    /// Readings lost, by [`GapReason`].
    pub gaps: [u64; GapReason::ALL.len()],
    /// Samples that a threshold held back: they got no ordinal.
    pub suppressed: u64,
    /// Most readings that waited at once.
    pub ring_high: u32,
    /// Frames from the gateway.
    pub received: ReceiveCounts,
    /// Bytes that the board lost between its interrupt and its main loop.
    pub rx_dropped: u32,
    /// Times that unacked frames were sent again.
    pub resends: u32,
    /// Sample slots that passed without a reading.
    pub missed: u32,
    /// Log frames that found no room.
    pub log_dropped: u32,
    /// Fewest bytes of stack that were ever free; `u32::MAX`: not measured.
    pub stack_free: u32,
    /// Readings without a value, by channel; each at most [`ERRORS_MAX`], where it stays.
    pub errors: Vec<u16, CHANNELS_MAX>,
}

/// [`Counters`] as Health carries them: saturating at `u32::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveCounts {
    pub ok: u32,
    pub cobs_bad: u32,
    pub crc_bad: u32,
    pub overlong: u32,
    pub unknown_kind: u32,
    pub body_bad: u32,
}

impl From<&Counters> for ReceiveCounts {
    fn from(counters: &Counters) -> Self {
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        ReceiveCounts {
            ok: short(counters.ok),
            cobs_bad: short(counters.cobs_bad),
            crc_bad: short(counters.crc_bad),
            overlong: short(counters.overlong),
            unknown_kind: short(counters.unknown_kind),
            body_bad: short(counters.body_bad),
        }
    }
}

impl Health {
    /// Whether every reading produced is acked, waiting or declared lost. A device
    /// for which this is false has a fault; its Health is taken all the same.
    #[must_use]
    pub fn closes(&self) -> bool {
        let held = self.acked.checked_add(u64::from(self.waiting));
        let sum = self
            .gaps
            .iter()
            .fold(held, |sum, gap| sum?.checked_add(*gap));
        sum == Some(self.produced)
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.errors.iter().all(|count| *count <= ERRORS_MAX)
    }
}

/// What became of a command. Append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CmdStatus {
    Done = 0,
    /// The firmware is older than the command.
    UnknownOperation = 1,
    /// No such channel, or a figure outside its range.
    BadArgument = 2,
    /// Meant for another boot than the one that runs.
    WrongBoot = 3,
    /// The device can, but does not want to now.
    Refused = 4,
}

impl CmdStatus {
    /// Every variant; its byte on the link is its place here, frozen.
    pub const ALL: [CmdStatus; 5] = [
        CmdStatus::Done,
        CmdStatus::UnknownOperation,
        CmdStatus::BadArgument,
        CmdStatus::WrongBoot,
        CmdStatus::Refused,
    ];

    /// The variant with this byte, if this version knows it.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Kind 7: the answer to the [`Cmd`] with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmdResult {
    pub id: u32,
    pub status: CmdStatus,
    /// Empty for every operation of this version.
    pub payload: Vec<u8, CMD_RESULT_BYTES_MAX>,
}

/// Kind 8: one raw defmt frame of 1 to [`LOG_FRAME_BYTES_MAX`] bytes, sent only
/// when there is nothing else to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log<'a>(pub &'a [u8]);

impl Log<'_> {
    pub(crate) fn is_valid(&self) -> bool {
        (1..=LOG_FRAME_BYTES_MAX).contains(&self.0.len())
    }
}

/// Kind 12: a command. Idempotent: the device keeps its last results by id, and
/// says them again for an id that comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cmd {
    pub id: u32,
    pub operation: Operation,
}

/// What to do; until the device's next reset or config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// 0: sampling period, us; outside [`crate::limits::PERIOD_US_MIN`] to
    /// [`crate::limits::PERIOD_US_MAX`] it is a bad argument.
    SetPeriod { channel: ChannelNo, period_us: u32 },
    /// 1: least change that is worth a reading, in units of the channel's scaled
    /// value; 0: every sample is.
    SetThreshold { channel: ChannelNo, threshold: u32 },
    /// 2: show where the device is, for so long; 0 ends it.
    Identify { seconds: u8 },
    /// 3: reset, if this is the boot that runs.
    Reboot { boot: BootId },
    /// A number that this version does not know, from [`Operation::KNOWN`] up; its
    /// arguments are not kept.
    Unknown { op: u8 },
}

impl Operation {
    /// How many operations this version knows: their numbers are 0 to `KNOWN` - 1.
    pub const KNOWN: u8 = 4;

    /// Its number on the link, frozen.
    #[must_use]
    pub fn op(&self) -> u8 {
        match self {
            Operation::SetPeriod { .. } => 0,
            Operation::SetThreshold { .. } => 1,
            Operation::Identify { .. } => 2,
            Operation::Reboot { .. } => 3,
            Operation::Unknown { op } => *op,
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Operation::SetPeriod { .. }
            | Operation::SetThreshold { .. }
            | Operation::Identify { .. }
            | Operation::Reboot { .. } => true,
            Operation::Unknown { op } => *op >= Self::KNOWN,
        }
    }
}

/// Kind 13: a part of a config, whose whole is a [`crate::Settings`]. The device
/// applies it only when all parts of one version are there and the CRC is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigChunk<'a> {
    /// At least 1.
    pub version: u32,
    /// Below `chunks`.
    pub chunk: u8,
    /// 1 to [`CONFIG_CHUNKS_MAX`].
    pub chunks: u8,
    /// CRC-32/ISO-HDLC of the whole config.
    pub crc: u32,
    /// [`CONFIG_CHUNK_BYTES_MAX`] bytes; in the last chunk 1 to so many.
    pub bytes: &'a [u8],
}

impl<'a> ConfigChunk<'a> {
    /// All chunks of `config`; none when its length is not 1 to [`CONFIG_BYTES_MAX`]
    /// or the version is 0.
    pub fn split(version: u32, config: &'a [u8]) -> impl Iterator<Item = ConfigChunk<'a>> {
        let fits = version >= CONFIG_VERSION_MIN && config.len() <= CONFIG_BYTES_MAX;
        let config = if fits { config } else { &[] };
        let chunks = config.len().div_ceil(CONFIG_CHUNK_BYTES_MAX) as u8;
        let crc = crc32(config);
        (0..chunks)
            .zip(config.chunks(CONFIG_CHUNK_BYTES_MAX))
            .map(move |(chunk, bytes)| ConfigChunk {
                version,
                chunk,
                chunks,
                crc,
                bytes,
            })
    }

    /// Where its bytes stand in the whole.
    #[must_use]
    pub fn offset(&self) -> usize {
        usize::from(self.chunk) * CONFIG_CHUNK_BYTES_MAX
    }

    pub(crate) fn is_valid(&self) -> bool {
        let last = self.chunk.checked_add(1) == Some(self.chunks);
        let shortest = if last { 1 } else { CONFIG_CHUNK_BYTES_MAX };
        self.version >= CONFIG_VERSION_MIN
            && usize::from(self.chunks) <= CONFIG_CHUNKS_MAX
            && self.chunk < self.chunks
            && (shortest..=CONFIG_CHUNK_BYTES_MAX).contains(&self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec as List;

    #[test]
    fn discriminants_are_frozen() {
        for (variant, byte) in [
            (CmdStatus::Done, 0),
            (CmdStatus::UnknownOperation, 1),
            (CmdStatus::BadArgument, 2),
            (CmdStatus::WrongBoot, 3),
            (CmdStatus::Refused, 4),
        ] {
            assert_eq!(
                (variant as u8, CmdStatus::from_byte(byte)),
                (byte, Some(variant))
            );
        }
        assert_eq!(CmdStatus::from_byte(5), None);
        let channel = ChannelNo(0);
        let operations = [
            Operation::SetPeriod {
                channel,
                period_us: 0,
            },
            Operation::SetThreshold {
                channel,
                threshold: 0,
            },
            Operation::Identify { seconds: 0 },
            Operation::Reboot { boot: BootId(0) },
            Operation::Unknown {
                op: Operation::KNOWN,
            },
        ];
        assert_eq!(operations.map(|operation| operation.op()), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn configs_split_around_the_limits() {
        let whole = [7u8; CONFIG_BYTES_MAX + 1];
        for (name, version, bytes, want) in [
            ("nothing", 1, 0, &[][..]),
            ("one byte", 1, 1, &[1]),
            ("one under a chunk", 1, 127, &[127]),
            ("a chunk", 1, 128, &[128]),
            ("one over a chunk", 1, 129, &[128, 1]),
            ("one under the most", 1, 383, &[128, 128, 127]),
            ("the most", u32::MAX, 384, &[128, 128, 128]),
            ("one over the most", 1, 385, &[]),
            ("no version", 0, 10, &[]),
        ] {
            let chunks: List<_> = ConfigChunk::split(version, &whole[..bytes]).collect();
            let lengths: List<_> = chunks.iter().map(|chunk| chunk.bytes.len()).collect();
            assert_eq!(lengths, want, "{name}");
            assert!(chunks.iter().all(ConfigChunk::is_valid), "{name}");
        }
    }

    #[test]
    fn sums_of_health() {
        let health = |produced, acked, gaps| Health {
            boot: BootId(1),
            config: 0,
            config_refused: 0,
            produced,
            acked,
            waiting: 3,
            gaps,
            suppressed: 0,
            ring_high: 0,
            received: ReceiveCounts::default(),
            rx_dropped: 0,
            resends: 0,
            missed: 0,
            log_dropped: 0,
            stack_free: 0,
            errors: Vec::new(),
        };
        for (name, produced, acked, gaps, want) in [
            ("closes", 20, 7, [1, 2, 3, 4], true),
            ("one too few", 21, 7, [1, 2, 3, 4], false),
            ("one too many", 19, 7, [1, 2, 3, 4], false),
            ("over 64 bits", 2, u64::MAX, [0, 0, 0, 0], false),
            ("gaps over 64 bits", 3, 0, [u64::MAX, 1, 0, 0], false),
        ] {
            assert_eq!(health(produced, acked, gaps).closes(), want, "{name}");
        }
    }
}
