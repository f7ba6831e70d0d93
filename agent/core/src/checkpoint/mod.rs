//! What a restart needs of an engine beside the log: its state, written now and then
//! in one batch with the place in the input that it is of. Byte tables:
//! `agent/core/docs/checkpoint.md`.
//!
//! Holds always: what is loaded is exactly what one batch left, of the same pipeline
//! and layout, or nothing at all. Bound: an entry is one value of the meta database,
//! and a book has 16 bytes for each. Knows no engine, no store and no clock.

pub mod manifest;
pub mod meter;
pub mod pace;

mod book;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::book::Book;
pub use self::manifest::{Manifest, PipelineHash, Place};
use crate::layout::CROSSING_PARTITION;
use crate::meta::Entry;
use crate::units::PartitionId;

/// Meta keys of the heads of checkpoints: this, layout, `/`, unit.
pub const CHECKPOINT_META_PREFIX: &[u8] = b"checkpoint/";
/// Meta keys of state: this, layout, `/`, unit, `/`, kind, and a key of that kind.
pub const STATE_META_PREFIX: &[u8] = b"state/";

/// What is kept and loaded as one: an engine under one layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    pub layout: u16,
    pub partition: PartitionId,
}

/// Which part of a unit an entry of its state belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Windows, watermarks, counters.
    Engine,
    /// Which offsets hold which times.
    Index,
    /// Names of the channels whose newest readings are shown.
    Channels,
    /// These readings.
    Newest,
    /// Readings that wait until their time is known.
    Parked,
}

const PARTS: [(Part, u8); 5] = [
    (Part::Engine, b'e'),
    (Part::Index, b'i'),
    (Part::Channels, b'c'),
    (Part::Newest, b'n'),
    (Part::Parked, b'p'),
];

/// A change of state: a value, or `None` where there is none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub part: Part,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

impl Unit {
    /// The engine over all partitions: the same under each layout.
    pub const CROSSING: Self = Self {
        layout: 0,
        partition: CROSSING_PARTITION,
    };

    fn name(self) -> String {
        format!("{}/{}", self.layout, self.partition.0)
    }

    /// Key of the unit's manifest.
    #[must_use]
    pub fn manifest_key(self) -> Vec<u8> {
        [CHECKPOINT_META_PREFIX, self.name().as_bytes()].concat()
    }

    fn state_prefix(self) -> Vec<u8> {
        [STATE_META_PREFIX, self.name().as_bytes(), b"/"].concat()
    }

    /// Meta key of an entry of the unit's state.
    #[must_use]
    pub fn state_key(self, part: Part, key: &[u8]) -> Vec<u8> {
        let letter = PARTS.iter().find(|(known, _)| *known == part);
        let letter = letter.map_or(b'e', |(_, letter)| *letter);
        [&self.state_prefix()[..], &[letter], key].concat()
    }
}

/// Key and value of a part, as the part wrote them.
pub type Piece<'a> = (&'a [u8], &'a [u8]);

/// A unit's state as one batch left it.
#[derive(Debug)]
pub struct Loaded<'a> {
    pub manifest: Manifest,
    pub parts: BTreeMap<Part, Vec<Piece<'a>>>,
    pub book: Book,
}

impl<'a> Loaded<'a> {
    /// What was kept of a part, in order of keys.
    #[must_use]
    pub fn part(&self, part: Part) -> &[Piece<'a>] {
        self.parts.get(&part).map_or(&[], Vec::as_slice)
    }
}

/// Why a kept state is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// There is none.
    Missing,
    /// It is of other windows or time rules.
    OtherPipeline,
    /// Its entries are not those that were written together.
    Damaged(&'static str),
}

/// What `meta` keeps of a unit.
///
/// # Errors
/// Why it cannot be used; nothing of it may be then.
pub fn load(meta: &[Entry], unit: Unit, hash: PipelineHash) -> Result<Loaded<'_>, Unusable> {
    let key = unit.manifest_key();
    let head = meta.iter().find(|(known, _)| *known == key);
    let Some((_, value)) = head.filter(|(_, value)| !value.is_empty()) else {
        return Err(Unusable::Missing);
    };
    let manifest = Manifest::parse(value);
    let manifest = manifest.ok_or(Unusable::Damaged("its head does not read"))?;
    if manifest.hash != hash {
        return Err(Unusable::OtherPipeline);
    }
    if manifest.place.layout != unit.layout {
        return Err(Unusable::Damaged("its head is of another layout"));
    }
    let prefix = unit.state_prefix();
    let mut book = Book::default();
    let mut parts: BTreeMap<Part, Vec<Piece<'_>>> = BTreeMap::new();
    for (key, value) in meta.iter().filter(|(_, value)| !value.is_empty()) {
        let Some((letter, rest)) = key.strip_prefix(&prefix[..]).and_then(<[u8]>::split_first)
        else {
            continue;
        };
        let part = PARTS.iter().find(|(_, known)| known == letter);
        let (part, _) = part.ok_or(Unusable::Damaged("an entry is of an unknown part"))?;
        book.set(key, value);
        parts.entry(*part).or_default().push((rest, value));
    }
    if (book.entries(), book.sum()) != (manifest.entries, manifest.sum) {
        return Err(Unusable::Damaged("its entries are not those of its head"));
    }
    for pieces in parts.values_mut() {
        pieces.sort_unstable();
    }
    Ok(Loaded {
        manifest,
        parts,
        book,
    })
}

/// Keys under which state stands, of all units for which `is_stale`.
#[must_use]
pub fn keys_of(meta: &[Entry], is_stale: impl Fn(Unit) -> bool) -> Vec<Vec<u8>> {
    let keys = meta.iter().filter(|(_, value)| !value.is_empty());
    let keys = keys.map(|(key, _)| key);
    let stale = keys.filter(|key| unit_of(key).is_some_and(&is_stale));
    stale.cloned().collect()
}

/// The unit that a key is of, if it is one of ours.
fn unit_of(key: &[u8]) -> Option<Unit> {
    let rest = key.strip_prefix(CHECKPOINT_META_PREFIX);
    let rest = rest.or_else(|| key.strip_prefix(STATE_META_PREFIX))?;
    let mut words = rest.split(|byte| *byte == b'/');
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse().ok();
    Some(Unit {
        layout: number()?,
        partition: PartitionId(number()?),
    })
}
