//! A config as it comes in: chunks in any order, until it is whole. Says which one
//! is in use and which was refused; applies nothing itself.
//!
//! Invariant: bytes of two configs are never mixed. Bound: one config of
//! [`CONFIG_BYTES_MAX`] bytes. All zero bits at start.

use forebay_wire::crc::crc32;
use forebay_wire::limits::{CONFIG_BYTES_MAX, CONFIG_CHUNKS_MAX};
use forebay_wire::message::ConfigChunk;

/// What makes chunks parts of one config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Label {
    version: u32,
    crc: u32,
    /// 0: none yet.
    chunks: u8,
}

const NONE: Label = Label {
    version: 0,
    crc: 0,
    chunks: 0,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// In use.
    active: Label,
    refused: u32,
    /// Coming in.
    coming: Label,
    /// Chunks that are there, as a bit set.
    have: u8,
    length: usize,
    bytes: [u8; CONFIG_BYTES_MAX],
}

/// What a chunk brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken<'a> {
    /// Others are missing.
    More,
    /// Of the config in use: nothing to do.
    InUse,
    /// All are there; `None` when they are not what their CRC says.
    Whole(Option<&'a [u8]>),
}

impl Inbox {
    pub(crate) const fn new() -> Self {
        Inbox {
            active: NONE,
            refused: 0,
            coming: NONE,
            have: 0,
            length: 0,
            bytes: [0; CONFIG_BYTES_MAX],
        }
    }

    /// Version in use; 0: as built.
    pub(crate) fn active(&self) -> u32 {
        self.active.version
    }

    /// Last version that was refused; 0: none.
    pub(crate) fn refused(&self) -> u32 {
        self.refused
    }

    /// Takes a chunk. After [`Taken::Whole`] exactly one of [`Inbox::applied`] and
    /// [`Inbox::refuse`] is to be called.
    pub(crate) fn take(&mut self, chunk: &ConfigChunk<'_>) -> Taken<'_> {
        const { assert!(CONFIG_CHUNKS_MAX <= u8::BITS as usize) };
        let label = Label {
            version: chunk.version,
            crc: chunk.crc,
            chunks: chunk.chunks,
        };
        if label == self.active {
            return Taken::InUse;
        }
        if label != self.coming {
            (self.coming, self.have, self.length) = (label, 0, 0);
        }
        let end = chunk.offset() + chunk.bytes.len();
        // Of its own length: the decoder checked where a chunk may stand.
        if let Some(place) = self.bytes.get_mut(chunk.offset()..end) {
            place.copy_from_slice(chunk.bytes);
            self.have |= 1 << chunk.chunk;
        }
        if chunk.chunk + 1 == chunk.chunks {
            self.length = end;
        }
        if self.have.count_ones() < u32::from(chunk.chunks) {
            return Taken::More;
        }
        let whole = &self.bytes[..self.length];
        Taken::Whole((crc32(whole) == chunk.crc).then_some(whole))
    }

    /// The whole config is in use now.
    pub(crate) fn applied(&mut self) {
        self.active = self.coming;
        self.coming = NONE;
    }

    /// The whole config was not right.
    pub(crate) fn refuse(&mut self) {
        self.refused = self.coming.version;
        self.coming = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn bytes(seed: u8) -> Vec<u8> {
        (0..300u16).map(|n| seed ^ n as u8).collect()
    }

    fn whole(inbox: &mut Inbox, chunk: &ConfigChunk<'_>) -> Option<Vec<u8>> {
        match inbox.take(chunk) {
            Taken::Whole(bytes) => Some(bytes.unwrap().to_vec()),
            Taken::More | Taken::InUse => None,
        }
    }

    #[test]
    fn in_any_order_and_repeated() {
        let config = bytes(1);
        let chunks: Vec<_> = ConfigChunk::split(7, &config).collect();
        for order in [
            &[0usize, 1, 2][..],
            &[2, 1, 0],
            &[1, 2, 0],
            &[0, 0, 2, 2, 2, 1],
            &[1, 1, 0, 1, 2],
        ] {
            let mut inbox = Inbox::new();
            let (last, before) = order.split_last().unwrap();
            for at in before {
                assert_eq!(inbox.take(&chunks[*at]), Taken::More, "{order:?}");
            }
            assert_eq!(
                whole(&mut inbox, &chunks[*last]),
                Some(config.clone()),
                "{order:?}"
            );
            inbox.applied();
            assert_eq!((inbox.active(), inbox.refused()), (7, 0));
            assert_eq!(inbox.take(&chunks[0]), Taken::InUse, "{order:?}");
        }
    }

    #[test]
    fn another_config_in_the_middle_begins_anew() {
        let (old, new) = (bytes(1), bytes(2));
        let old: Vec<_> = ConfigChunk::split(7, &old).collect();
        let same_version: Vec<_> = ConfigChunk::split(7, &new).collect();
        let next_version: Vec<_> = ConfigChunk::split(8, &new).collect();
        for chunks in [same_version, next_version] {
            let mut inbox = Inbox::new();
            for chunk in [&old[0], &old[1], &chunks[2], &chunks[0]] {
                assert_eq!(inbox.take(chunk), Taken::More);
            }
            assert_eq!(whole(&mut inbox, &chunks[1]), Some(new.clone()));
            inbox.applied();
            // The old one again: as a whole, or not at all.
            assert_eq!(inbox.take(&old[2]), Taken::More);
        }
    }

    #[test]
    fn a_wrong_crc_is_seen_and_forgotten() {
        let config = bytes(1);
        let mut inbox = Inbox::new();
        let mut chunks: Vec<_> = ConfigChunk::split(7, &config).collect();
        chunks.iter_mut().for_each(|chunk| chunk.crc ^= 1);
        assert_eq!(inbox.take(&chunks[0]), Taken::More);
        assert_eq!(inbox.take(&chunks[1]), Taken::More);
        assert_eq!(inbox.take(&chunks[2]), Taken::Whole(None));
        inbox.refuse();
        assert_eq!((inbox.active(), inbox.refused()), (0, 7));
        assert_eq!(inbox.take(&chunks[2]), Taken::More, "from the start again");
    }

    #[test]
    fn lengths_around_the_limits() {
        for length in [1, 127, 128, 129, 255, 256, 257, 383, 384] {
            let config: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let mut inbox = Inbox::new();
            let mut done = None;
            for chunk in ConfigChunk::split(1, &config) {
                assert_eq!(done, None);
                done = whole(&mut inbox, &chunk);
            }
            assert_eq!(done, Some(config), "{length} bytes");
        }
    }
}
