//! The engine's state as entries that a checkpoint keeps: what changed since the last
//! one, each entry small enough for one value of the store. Byte tables:
//! `docs/state.md`. Knows no store; whoever keeps the entries also keeps the place in
//! the log that they hold for.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::STATE_VALUE_BYTES_MAX;
use crate::log::bytes::{Malformed, Reader, put_varint};

/// One piece of state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateEntry {
    pub key: Vec<u8>,
    /// `None`: it is gone.
    pub value: Option<Vec<u8>>,
}

/// State that does not read back: all of it has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateError {
    pub key: Vec<u8>,
    /// Byte of its value at which reading failed.
    pub position: usize,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state entry ")?;
        self.key.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, " does not read at byte {}", self.position)
    }
}

impl std::error::Error for StateError {}

/// How many entries each blob has that takes more than one.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    of: BTreeMap<Vec<u8>, u16>,
}

/// Gathers blobs and cuts them into entries.
#[derive(Debug)]
pub struct StateWriter<'a> {
    pub(super) parts: &'a mut Parts,
    pub(super) out: &'a mut Vec<StateEntry>,
    /// Pages that may be written yet.
    pub(super) room: usize,
}

impl StateWriter<'_> {
    /// Keeps a blob of any length under a key.
    pub(super) fn put(&mut self, key: &[u8], blob: &[u8]) {
        let chunks = blob.chunks(STATE_VALUE_BYTES_MAX - 1);
        let count = chunks.len().max(1);
        let count = u16::try_from(count).expect("a blob has less than 2^16 chunks");
        let before = self.parts.of.get(key).copied().unwrap_or(0);
        for (part, chunk) in (0..count).zip(chunks.chain(std::iter::repeat(&[][..]))) {
            // Whether another one follows.
            let mut value = Vec::with_capacity(1 + chunk.len());
            value.push(u8::from(part + 1 < count));
            value.extend_from_slice(chunk);
            self.entry(key, part, Some(value));
        }
        (count..before).for_each(|part| self.entry(key, part, None));
        if count > 1 {
            self.parts.of.insert(key.to_vec(), count);
        } else {
            self.parts.of.remove(key);
        }
    }

    /// Forgets what was kept under a key.
    pub(super) fn gone(&mut self, key: &[u8]) {
        let before = self.parts.of.remove(key).unwrap_or(1);
        (0..before).for_each(|part| self.entry(key, part, None));
    }

    /// The next page that changed; none when all were written, or no room is left.
    pub(super) fn next(&mut self, pages: &mut Pages) -> Option<u32> {
        let room = self.room.checked_sub(1)?;
        let page = pages.pop()?;
        self.room = room;
        Some(page)
    }

    /// Whether what changed may not be all written.
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    fn entry(&mut self, name: &[u8], part: u16, value: Option<Vec<u8>>) {
        let part = part.to_be_bytes();
        let mut key = Vec::with_capacity(name.len() + part.len());
        key.extend_from_slice(name);
        key.extend_from_slice(&part);
        self.out.push(StateEntry { key, value });
    }
}

/// Blobs by key, as [`StateWriter`] was given them.
#[derive(Debug, Default)]
pub struct StateReader {
    blobs: BTreeMap<Vec<u8>, Vec<u8>>,
    parts: Parts,
}

impl StateReader {
    /// Puts entries together again; in any order.
    ///
    /// # Errors
    /// When a part is missing or too much.
    pub(super) fn new(
        entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Result<Self, StateError> {
        let entries: BTreeMap<_, _> = entries.into_iter().collect();
        let mut reader = Self::default();
        let mut open: Option<(Vec<u8>, u16)> = None;
        for (key, value) in entries {
            let bad = |key: &[u8]| StateError {
                key: key.to_vec(),
                position: 0,
            };
            let Some((name, part)) = key.split_last_chunk::<2>() else {
                return Err(bad(&key));
            };
            let part = u16::from_be_bytes(*part);
            let want = match open.take() {
                Some((of, next)) if of == name => next,
                Some(_) => return Err(bad(&key)),
                None => 0,
            };
            let Some((more, bytes)) = value.split_first().filter(|_| part == want) else {
                return Err(bad(&key));
            };
            let blob = reader.blobs.entry(name.to_vec()).or_default();
            blob.extend_from_slice(bytes);
            if *more != 0 {
                let next = part.checked_add(1).ok_or_else(|| bad(&key))?;
                open = Some((name.to_vec(), next));
            } else if part > 0 {
                reader.parts.of.insert(name.to_vec(), part + 1);
            }
        }
        match open {
            Some((key, _)) => Err(StateError { key, position: 0 }),
            None => Ok(reader),
        }
    }

    pub(super) fn take_parts(&mut self) -> Parts {
        std::mem::take(&mut self.parts)
    }

    /// Blobs whose keys begin like this, in order of key, with the rest of the key.
    pub(super) fn with_prefix<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let from = self.blobs.range(prefix.to_vec()..);
        from.map_while(move |(key, blob)| Some((key.strip_prefix(prefix)?, blob.as_slice())))
    }

    /// Reads every blob under a prefix to its last byte.
    ///
    /// # Errors
    /// When one does not read, or not to its end.
    pub(super) fn each(
        &self,
        prefix: &[u8],
        mut read: impl FnMut(&[u8], &mut Reader<'_>) -> Result<(), Malformed>,
    ) -> Result<(), StateError> {
        for (rest, blob) in self.with_prefix(prefix) {
            let mut bytes = Reader::new(blob);
            let done = read(rest, &mut bytes);
            let done = done.and_then(|()| match bytes.is_at_end() {
                true => Ok(()),
                false => Err(bytes.malformed()),
            });
            done.map_err(|at| StateError {
                key: [prefix, rest].concat(),
                position: at.position,
            })?;
        }
        Ok(())
    }
}

/// Slots, devices or series that share one entry.
pub(super) const PAGE: usize = 16;

/// Which pages changed since the last checkpoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages {
    changed: Vec<bool>,
    /// No page before it is looked at first.
    from: usize,
}

impl Pages {
    #[inline]
    pub(super) fn touch(&mut self, index: usize) {
        let page = index / PAGE;
        match self.changed.get_mut(page) {
            Some(changed) => *changed = true,
            None => self.grow(page),
        }
    }

    #[cold]
    fn grow(&mut self, page: usize) {
        self.changed.resize(page + 1, false);
        self.changed[page] = true;
    }

    pub(super) fn changed(&self) -> usize {
        self.changed.iter().filter(|changed| **changed).count()
    }

    /// A page that changed, which now has not.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let is_behind = |pages: &[bool]| pages.iter().position(|changed| *changed);
        let rest = self.changed.get(self.from..).and_then(is_behind);
        let page = rest.map(|page| page + self.from);
        let page = page.or_else(|| is_behind(&self.changed));
        self.from = page.map_or(0, |page| page + 1);
        let page = page?;
        self.changed[page] = false;
        Some(u32::try_from(page).expect("fewer than 2^32 keys"))
    }

    /// None has changed any more.
    pub(super) fn clear(&mut self) {
        self.changed.fill(false);
    }
}

/// The indices of a page, below `len`.
pub(super) fn of_page(page: u32, len: usize) -> std::ops::Range<usize> {
    let from = (page as usize).saturating_mul(PAGE).min(len);
    from..from.saturating_add(PAGE).min(len)
}

/// Pages with what is not kept yet, where `kept` of `all` are; these only get more.
pub(super) fn new_pages(kept: usize, all: usize) -> impl Iterator<Item = u32> {
    let pages = if kept < all {
        kept / PAGE..all.div_ceil(PAGE)
    } else {
        0..0
    };
    pages.map(|page| u32::try_from(page).expect("fewer than 2^32 keys"))
}

/// The page that the rest of a key names.
pub(super) fn page_of(rest: &[u8], reader: &Reader<'_>) -> Result<u32, Malformed> {
    let page: Result<[u8; 4], _> = rest.try_into();
    page.map(u32::from_be_bytes).map_err(|_| reader.malformed())
}

pub(super) fn put_bool(out: &mut Vec<u8>, yes: bool) {
    out.push(u8::from(yes));
}

pub(super) fn bool(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.malformed()),
    }
}

pub(super) fn put_f64(out: &mut Vec<u8>, x: f64) {
    out.extend_from_slice(&x.to_bits().to_le_bytes());
}

pub(super) fn f64(reader: &mut Reader<'_>) -> Result<f64, Malformed> {
    Ok(f64::from_bits(u64::from_le_bytes(reader.array()?)))
}

/// A text of any length.
pub(super) fn put_long(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// What [`put_long`] wrote.
pub(super) fn long<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let bytes = len(reader)?;
    std::str::from_utf8(reader.take(bytes)?).map_err(|_| reader.malformed())
}

pub(super) fn put_len(out: &mut Vec<u8>, len: usize) {
    put_varint(out, len as u64);
}

/// A count of things that take a byte each at least.
pub(super) fn len(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    let len = reader.varint()?;
    match usize::try_from(len) {
        Ok(len) if len <= reader.remaining() => Ok(len),
        Ok(_) | Err(_) => Err(reader.malformed()),
    }
}

pub(super) fn u32(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    let n = reader.varint()?;
    u32::try_from(n).map_err(|_| reader.malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, entries: Vec<StateEntry>) {
        for entry in entries {
            match entry.value {
                Some(value) => drop(map.insert(entry.key, value)),
                None => drop(map.remove(&entry.key)),
            }
        }
    }

    #[test]
    fn blobs_of_any_length_come_back_and_leave_nothing() {
        let mut parts = Parts::default();
        let mut map = BTreeMap::new();
        let chunk = STATE_VALUE_BYTES_MAX - 1;
        for (name, len, entries) in [
            ("empty", 0, 1),
            ("limit - 1", chunk - 1, 1),
            ("limit", chunk, 1),
            ("limit + 1", chunk + 1, 2),
            ("long", 3 * chunk, 3),
            ("shorter again", 5, 1),
        ] {
            let blob: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut out = Vec::new();
            let (parts, out) = (&mut parts, &mut out);
            StateWriter {
                parts,
                out,
                room: usize::MAX,
            }
            .put(b"a", &blob);
            assert!(
                out.iter()
                    .flat_map(|e| &e.value)
                    .all(|v| v.len() <= STATE_VALUE_BYTES_MAX)
            );
            apply(&mut map, std::mem::take(out));
            assert_eq!(map.len(), entries, "{name}");
            let reader = StateReader::new(map.clone()).expect("it was written so");
            assert_eq!(
                reader.with_prefix(b"a").next(),
                Some((&[][..], &blob[..])),
                "{name}"
            );
        }
        let mut out = Vec::new();
        StateWriter {
            parts: &mut parts,
            out: &mut out,
            room: usize::MAX,
        }
        .gone(b"a");
        apply(&mut map, out);
        assert!(map.is_empty());
    }

    #[test]
    fn a_missing_part_is_an_error() {
        let mut out = Vec::new();
        let blob = vec![7; 3 * STATE_VALUE_BYTES_MAX];
        StateWriter {
            parts: &mut Parts::default(),
            out: &mut out,
            room: usize::MAX,
        }
        .put(b"a", &blob);
        for missing in 0..out.len() {
            let kept = out.iter().enumerate().filter(|(n, _)| *n != missing);
            let kept = kept.map(|(_, e)| (e.key.clone(), e.value.clone().expect("put")));
            assert!(StateReader::new(kept).is_err(), "{missing}");
        }
    }
}
