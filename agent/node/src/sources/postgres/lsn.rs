//! Places in a database's write log, and the positions that the log keeps of them.
//!
//! A position is `<sixteen hex digits>/<eight hex digits>` and compares as text: the
//! commit's place, then the number of the change in its transaction. The first two digits
//! count the lives of the database: a restored one or another one in its place has a
//! write log that begins elsewhere, and what follows must still compare as later.
//!
//! Always holds: places have at most 56 bits (2^56 bytes of write log are 64 PiB), and a
//! position that was written reads back. Knows no connection.

use std::fmt;

use forebay_core::effect::SourcePosition;

/// A place in the write log, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Lsn(pub u64);

/// Which of the databases that stood in this place one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Life(pub u8);

/// Last life that can be told apart.
pub(super) const LIFE_MAX: u8 = u8::MAX;
const LSN_BITS: u32 = 56;
/// Last place that a position can have.
pub(super) const LSN_MAX: Lsn = Lsn((1 << LSN_BITS) - 1);
const DIGITS: (usize, usize) = (16, 8);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl Lsn {
    /// As the server writes it: two hex numbers of at most eight digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (high, low) = text.split_once('/')?;
        Some(Self(u64::from(hex(high)?) << 32 | u64::from(hex(low)?)))
    }
}

fn hex(text: &str) -> Option<u32> {
    let plain = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(text, 16).ok())?
}

/// A place in the order of all changes of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct At {
    pub life: Life,
    pub lsn: Lsn,
    /// 0: before the first change of a transaction that commits there.
    pub index: u32,
}

impl At {
    /// As the log keeps it.
    #[must_use]
    pub fn position(self) -> SourcePosition {
        debug_assert!(self.lsn <= LSN_MAX, "checked where it is read");
        let place = u64::from(self.life.0) << LSN_BITS | self.lsn.0;
        SourcePosition(format!("{place:016x}/{:08x}", self.index).into())
    }

    /// Reads a position of this form.
    #[must_use]
    pub fn parse(position: &SourcePosition) -> Option<Self> {
        let (place, index) = position.0.split_once('/')?;
        if (place.len(), index.len()) != DIGITS {
            return None;
        }
        let place = u64::from(hex(place.get(..8)?)?) << 32 | u64::from(hex(place.get(8..)?)?);
        Some(Self {
            life: Life(u8::try_from(place >> LSN_BITS).ok()?),
            lsn: Lsn(place & LSN_MAX.0),
            index: hex(index)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_the_server_writes_them() {
        for (text, want) in [
            ("0/0", Some(0)),
            ("0/1566D20", Some(0x0156_6d20)),
            ("16/B374D848", Some(0x16_b374_d848)),
            ("FFFFFFFF/FFFFFFFF", Some(u64::MAX)),
            ("", None),
            ("/", None),
            ("1", None),
            ("1/", None),
            ("1/+2", None),
            ("1/123456789", None),
        ] {
            assert_eq!(Lsn::parse(text).map(|lsn| lsn.0), want, "{text}");
            if let Some(lsn) = want {
                assert_eq!(Lsn(lsn).to_string(), text);
            }
        }
    }

    #[test]
    fn positions_compare_as_text_and_read_back() {
        let at = |life, lsn, index| At {
            life: Life(life),
            lsn: Lsn(lsn),
            index,
        };
        let all = [
            at(0, 0, 0),
            at(0, 9, 1),
            at(0, 10, 0),
            at(0, 10, u32::MAX),
            at(0, 11, 0),
            at(0, LSN_MAX.0, 0),
            at(1, 5, 0),
            at(LIFE_MAX, LSN_MAX.0, u32::MAX),
        ];
        for pair in all.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].position().0 < pair[1].position().0);
        }
        for at in all {
            assert_eq!(At::parse(&at.position()), Some(at));
        }
        assert_eq!(&*all[1].position().0, "0000000000000009/00000001");
    }

    #[test]
    fn other_texts_are_no_positions() {
        for text in [
            "",
            "/",
            "0/0",
            "000000000000000g/00000000",
            "ééééé\u{e9}ab/00000000",
        ] {
            assert_eq!(At::parse(&SourcePosition(text.into())), None, "{text}");
        }
    }
}
