//! One message as a line: `COBS(kind | body | crc32 LE) 0x00`. Builds it in the
//! caller's buffer and checks one that the [`crate::deframer`] cut out.
//! Bound: [`LINE_BYTES_MAX`] bytes. Knows kinds, but nothing of bodies.

use crate::cobs::{self, Codes};
use crate::crc::{Crc, crc32};
use crate::limits::{BODY_BYTES_MAX, FRAME_OVERHEAD_BYTES, LINE_BYTES_MAX};

/// High half of every kind byte. Another number is another link.
pub const LINK_VERSION: u8 = 1;

/// Ends every frame and stands nowhere else on the line.
pub const DELIMITER: u8 = 0;

/// Where a body starts in a line buffer: after the COBS code byte and the kind.
pub(crate) const BODY_AT: usize = 2;
const CRC_BYTES: usize = 4;

/// Low half of the kind byte. Append only: 1 to 8 device to gateway, 9 to 15
/// gateway to device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Channel = 2,
    Data = 3,
    Gap = 4,
    Health = 5,
    SyncReply = 6,
    CmdResult = 7,
    Log = 8,
    HelloAck = 9,
    Ack = 10,
    SyncReq = 11,
    Cmd = 12,
    Config = 13,
}

impl Kind {
    /// Every kind of this version, in order.
    pub const ALL: [Kind; 13] = [
        Kind::Hello,
        Kind::Channel,
        Kind::Data,
        Kind::Gap,
        Kind::Health,
        Kind::SyncReply,
        Kind::CmdResult,
        Kind::Log,
        Kind::HelloAck,
        Kind::Ack,
        Kind::SyncReq,
        Kind::Cmd,
        Kind::Config,
    ];

    /// The kind with this number, if this version knows it.
    #[must_use]
    pub fn from_number(k: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == k)
    }

    /// True for 1 to 8: what a device says. The other half is the gateway's, so
    /// that an echoed frame is never valid in the wrong direction.
    #[must_use]
    pub fn is_from_device(self) -> bool {
        self as u8 <= 8
    }

    /// First byte of the frame.
    #[must_use]
    pub fn byte(self) -> u8 {
        LINK_VERSION << 4 | self as u8
    }
}

/// A frame whose CRC was right. Its kind may be unknown and its body nonsense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind_byte: u8,
    pub body: &'a [u8],
}

impl Frame<'_> {
    #[must_use]
    pub fn version(&self) -> u8 {
        self.kind_byte >> 4
    }

    /// Number of the kind, 0 to 15.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.kind_byte & 0x0F
    }
}

/// Why the bytes between two delimiters are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A COBS code byte points beyond the end.
    Cobs { at: usize },
    /// Shorter than kind and CRC, or the CRC is wrong: damaged on the way.
    Crc { bytes: usize },
    /// More bytes than any frame has; all up to the delimiter were thrown away.
    Overlong { bytes: usize },
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            FrameError::Cobs { at } => write!(
                f,
                "not a COBS block: code byte at {at} points beyond its end"
            ),
            FrameError::Crc { bytes } => write!(
                f,
                "wrong CRC in a frame of {bytes} bytes: damaged on the line"
            ),
            FrameError::Overlong { bytes } => {
                write!(
                    f,
                    "{bytes} bytes without a delimiter, a line has at most {LINE_BYTES_MAX}"
                )
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// The line buffer is too short for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// Room for a body in the line buffer `out`, if it has any: up to
/// [`BODY_BYTES_MAX`] bytes, less when `out` is shorter than a full line.
pub(crate) fn body_room(out: &mut [u8]) -> Result<&mut [u8], NoRoom> {
    // COBS code, kind | body | CRC, delimiter.
    let body_bytes = out
        .len()
        .checked_sub(FRAME_OVERHEAD_BYTES + 2)
        .ok_or(NoRoom)?;
    let body_bytes = body_bytes.min(BODY_BYTES_MAX);
    Ok(&mut out[BODY_AT..BODY_AT + body_bytes])
}

/// Closes the line in `out` around a body of `body_bytes` that stands in its
/// [`body_room`]; returns the line's length with its delimiter.
pub(crate) fn close(out: &mut [u8], kind_byte: u8, body_bytes: usize) -> usize {
    let crc_at = BODY_AT + body_bytes;
    out[1] = kind_byte;
    let end = crc_at + CRC_BYTES;
    // One pass for CRC and COBS: on a chip the look at each byte is what costs.
    let mut codes = Codes::new(&mut out[..end]);
    let mut crc = Crc::new();
    let (checked, check) = codes.rest().split_at(crc_at - 1);
    for byte in checked {
        crc.take(byte.get());
        codes.pass(byte);
    }
    for (byte, part) in check.iter().zip(crc.finish().to_le_bytes()) {
        byte.set(part);
        codes.pass(byte);
    }
    codes.end();
    out[end] = DELIMITER;
    end + 1
}

/// Writes a whole line with any kind byte and body: for tests and for tools that
/// speak a newer version. Messages go through [`crate::codec`].
///
/// # Errors
/// [`NoRoom`] when the body is longer than a frame holds or `out` too short.
pub fn encode_raw(out: &mut [u8], kind_byte: u8, body: &[u8]) -> Result<usize, NoRoom> {
    let room = body_room(out)?;
    room.get_mut(..body.len())
        .ok_or(NoRoom)?
        .copy_from_slice(body);
    Ok(close(out, kind_byte, body.len()))
}

/// Decodes the bytes before a delimiter, in place.
///
/// # Errors
/// [`FrameError::Cobs`] or [`FrameError::Crc`].
pub fn open(block: &mut [u8]) -> Result<Frame<'_>, FrameError> {
    let bytes = cobs::decode_in_place(block).map_err(|bad| FrameError::Cobs { at: bad.at })?;
    if bytes < FRAME_OVERHEAD_BYTES {
        return Err(FrameError::Crc { bytes });
    }
    let (checked, crc) = block[..bytes].split_at(bytes - CRC_BYTES);
    if crc != crc32(checked).to_le_bytes() {
        return Err(FrameError::Crc { bytes });
    }
    Ok(Frame {
        kind_byte: checked[0],
        body: &checked[1..],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_frozen() {
        let frozen = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        assert_eq!(Kind::ALL.map(|kind| kind as u8), frozen);
        for k in 0..=u8::MAX {
            assert_eq!(
                Kind::from_number(k).is_some(),
                frozen.contains(&k),
                "kind {k}"
            );
        }
        assert_eq!(Kind::Hello.byte(), 0x11);
        assert!(
            Kind::ALL
                .iter()
                .all(|kind| kind.is_from_device() == (*kind as u8 <= 8))
        );
    }

    #[test]
    fn body_lengths_around_the_limit() {
        let mut out = [0u8; LINE_BYTES_MAX + 8];
        let body = [9u8; BODY_BYTES_MAX + 1];
        for bytes in [BODY_BYTES_MAX - 1, BODY_BYTES_MAX] {
            let line = encode_raw(&mut out, 0x1F, &body[..bytes]).unwrap();
            assert_eq!(line, bytes + FRAME_OVERHEAD_BYTES + 2);
            let frame = open(&mut out[..line - 1]).unwrap();
            assert_eq!(
                (frame.version(), frame.number(), frame.body.len()),
                (1, 15, bytes)
            );
        }
        assert_eq!(encode_raw(&mut out, 0x1F, &body), Err(NoRoom));
    }

    #[test]
    fn buffers_around_the_needed_length() {
        let mut out = [0u8; 16];
        for (room, want) in [
            (6, Err(NoRoom)),
            (9, Err(NoRoom)),
            (10, Ok(10)),
            (11, Ok(10)),
        ] {
            assert_eq!(
                encode_raw(&mut out[..room], 0x11, &[1, 2, 3]),
                want,
                "{room} bytes"
            );
        }
    }

    #[test]
    fn too_short_for_a_crc() {
        assert_eq!(open(&mut [1, 1]), Err(FrameError::Crc { bytes: 1 }));
        assert_eq!(
            open(&mut [5, 1, 2, 3, 4]),
            Err(FrameError::Crc { bytes: 4 })
        );
    }
}
