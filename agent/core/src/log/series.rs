//! The dictionary of a block: the series that its records are of, each written
//! once, numbered as they first come.
//!
//! Bound: [`SERIES_PER_BLOCK_MAX`] series. A lookup is constant while a device
//! repeats its channels in one order, and nearly so otherwise.

use std::sync::Arc;

use forebay_wire::ids::{BootId, ChannelNo, DeviceUid};
use forebay_wire::limits::SCALE_MAX;

use super::bytes::{Malformed, Reader, put_text, put_varint};
use crate::limits::SERIES_PER_BLOCK_MAX;
use crate::record::{Series, ValueKind};

/// Byte of a series whose values are doubles; one of scaled values has its scale there.
const KIND_DOUBLE: u8 = 0x80;
/// Most bytes of an entry beside its texts: source 10 + 8 + 5, channel, kind, two lengths.
const ENTRY_BYTES_WORST: usize = 2 + 8 + 5 + 1 + 1 + 2;
/// Places of the index; a power of two, and more than half of them stay empty.
const PLACES: usize = 256;
const _: () = assert!(PLACES.is_power_of_two() && SERIES_PER_BLOCK_MAX * 2 <= PLACES);
const EMPTY: u8 = u8::MAX;
const _: () = assert!(SERIES_PER_BLOCK_MAX <= EMPTY as usize);

/// A dictionary under construction.
#[derive(Debug, Clone)]
pub(super) struct Dictionary {
    series: Vec<Series>,
    /// Number of each series' source, by first appearance.
    sources: Vec<u8>,
    sources_count: u8,
    bytes: Vec<u8>,
    places: [u8; PLACES],
}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            series: Vec::new(),
            sources: Vec::new(),
            sources_count: 0,
            bytes: Vec::new(),
            places: [EMPTY; PLACES],
        }
    }
}

impl Dictionary {
    pub(super) fn clear(&mut self) {
        self.series.clear();
        self.sources.clear();
        self.sources_count = 0;
        self.bytes.clear();
        self.places.fill(EMPTY);
    }

    pub(super) fn series(&self) -> &[Series] {
        &self.series
    }

    /// Bytes of the entries.
    #[inline]
    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.series.len() == SERIES_PER_BLOCK_MAX
    }

    /// Most bytes that `series` would add.
    pub(super) fn entry_bytes_worst(series: &Series) -> usize {
        ENTRY_BYTES_WORST + series.name.len() + series.unit.len()
    }

    /// Number of `series`, looked for first at `guess`.
    #[inline]
    pub(super) fn find(&self, series: &Series, guess: usize) -> Option<usize> {
        if self.series.get(guess).is_some_and(|s| is_same(s, series)) {
            return Some(guess);
        }
        self.look_up(series)
    }

    fn look_up(&self, series: &Series) -> Option<usize> {
        let mut place = place_of(series);
        loop {
            let index = self.places[place];
            if index == EMPTY {
                return None;
            }
            if is_same(&self.series[usize::from(index)], series) {
                return Some(usize::from(index));
            }
            place = (place + 1) % PLACES;
        }
    }

    /// Adds a series that is not there and gives its number.
    ///
    /// # Panics
    /// When the dictionary is full: see [`Dictionary::is_full`].
    pub(super) fn add(&mut self, series: &Series) -> usize {
        assert!(!self.is_full(), "the builder seals a block at its limit");
        let index = self.series.len();
        let mut place = place_of(series);
        while self.places[place] != EMPTY {
            place = (place + 1) % PLACES;
        }
        self.places[place] = index as u8;
        self.put_source(series);
        let out = &mut self.bytes;
        out.push(series.channel.0);
        out.push(kind_byte(series.kind));
        put_text(out, &series.name);
        put_text(out, &series.unit);
        self.series.push(series.clone());
        index
    }

    /// 0 and the source itself when it is new, else its number, from 1.
    fn put_source(&mut self, series: &Series) {
        let same = |s: &Series| s.uid == series.uid && s.boot == series.boot;
        let number = if let Some(index) = self.series.iter().rposition(same) {
            put_varint(&mut self.bytes, u64::from(self.sources[index]) + 1);
            self.sources[index]
        } else {
            self.bytes.push(0);
            self.bytes.extend_from_slice(&series.uid.0);
            put_varint(&mut self.bytes, u64::from(series.boot.0));
            self.sources_count += 1;
            self.sources_count - 1
        };
        self.sources.push(number);
    }

    /// Appends the dictionary as it stands in a block.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.series.len() as u64);
        out.extend_from_slice(&self.bytes);
    }
}

/// Names mostly come from the same place, so that comparing them is comparing pointers.
#[inline]
fn is_same(a: &Series, b: &Series) -> bool {
    let same_text = |a: &Arc<str>, b: &Arc<str>| Arc::ptr_eq(a, b) || a == b;
    a.uid == b.uid
        && a.boot == b.boot
        && a.channel == b.channel
        && a.kind == b.kind
        && same_text(&a.name, &b.name)
        && same_text(&a.unit, &b.unit)
}

fn place_of(series: &Series) -> usize {
    let uid = u64::from_le_bytes(series.uid.0);
    let rest = u64::from(series.boot.0) << 8 | u64::from(series.channel.0);
    // Fibonacci hashing: the high bits of the product depend on all bits below.
    let mixed = (uid ^ rest.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as usize % PLACES
}

fn kind_byte(kind: ValueKind) -> u8 {
    match kind {
        ValueKind::Scaled { scale } => scale,
        ValueKind::Double => KIND_DOUBLE,
    }
}

fn kind_from(byte: u8) -> Option<ValueKind> {
    match byte {
        0..=SCALE_MAX => Some(ValueKind::Scaled { scale: byte }),
        KIND_DOUBLE => Some(ValueKind::Double),
        _ => None,
    }
}

/// Places for texts; a power of two.
const TEXT_PLACES: usize = 256;
const _: () = assert!(TEXT_PLACES.is_power_of_two());

/// Names and units that were read. They stand in block after block, and are kept once: a
/// copy of each for each block would be most of what reading one takes. Bound: TEXT_PLACES
/// texts; one that belongs in the place of another takes it.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts(Vec<Option<Arc<str>>>);

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if self.0.is_empty() {
            self.0.resize(TEXT_PLACES, None);
        }
        let mixed = text.bytes().fold(0u32, |mixed, byte| {
            (mixed.rotate_left(5) ^ u32::from(byte)).wrapping_mul(0x9e37_79b9)
        });
        let kept = &mut self.0[(mixed >> 16) as usize % TEXT_PLACES];
        match kept {
            Some(kept) if **kept == *text => Arc::clone(kept),
            Some(_) | None => Arc::clone(kept.insert(Arc::from(text))),
        }
    }
}

/// Reads a dictionary, with texts as in those before.
///
/// # Errors
/// When the bytes are none.
pub(super) fn read(reader: &mut Reader<'_>, texts: &mut Texts) -> Result<Vec<Series>, Malformed> {
    let count = reader.varint()?;
    if count > SERIES_PER_BLOCK_MAX as u64 {
        return Err(reader.malformed());
    }
    let mut sources: Vec<(DeviceUid, BootId)> = Vec::new();
    let mut out: Vec<Series> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (uid, boot) = read_source(reader, &mut sources)?;
        out.push(Series {
            uid,
            boot,
            channel: ChannelNo(reader.byte()?),
            kind: kind_from(reader.byte()?).ok_or(reader.malformed())?,
            name: texts.share(reader.text()?),
            unit: texts.share(reader.text()?),
        });
    }
    Ok(out)
}

/// Shows device and channel of each series of a dictionary, without keeping them.
///
/// # Errors
/// When the bytes are none.
pub(super) fn each(
    reader: &mut Reader<'_>,
    mut visit: impl FnMut(DeviceUid, &str),
) -> Result<(), Malformed> {
    let count = reader.varint()?;
    if count > SERIES_PER_BLOCK_MAX as u64 {
        return Err(reader.malformed());
    }
    let mut sources: Vec<(DeviceUid, BootId)> = Vec::new();
    for _ in 0..count {
        let (uid, _) = read_source(reader, &mut sources)?;
        reader.take(2)?;
        let name = reader.text()?;
        reader.text()?;
        visit(uid, name);
    }
    Ok(())
}

fn read_source(
    reader: &mut Reader<'_>,
    sources: &mut Vec<(DeviceUid, BootId)>,
) -> Result<(DeviceUid, BootId), Malformed> {
    let number = reader.varint()?;
    if number > 0 {
        let index = usize::try_from(number - 1).map_err(|_| reader.malformed())?;
        return sources.get(index).copied().ok_or(reader.malformed());
    }
    let source = (DeviceUid(reader.array()?), read_boot(reader)?);
    sources.push(source);
    Ok(source)
}

/// Reads a boot.
///
/// # Errors
/// When it is cut or above 32 bits.
pub(super) fn read_boot(reader: &mut Reader<'_>) -> Result<BootId, Malformed> {
    let raw = reader.varint()?;
    u32::try_from(raw)
        .map(BootId)
        .map_err(|_| reader.malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(device: u8, boot: u32, channel: u8) -> Series {
        Series {
            uid: DeviceUid([device; 8]),
            boot: BootId(boot),
            channel: ChannelNo(channel),
            kind: ValueKind::Scaled { scale: 2 },
            name: Arc::from("temperature"),
            unit: Arc::from("degC"),
        }
    }

    #[test]
    fn a_series_is_known_by_all_of_its_fields() {
        let first = series(1, 1, 0);
        let mut others = vec![first.clone(); 6];
        others[0].uid = DeviceUid([2; 8]);
        others[1].boot = BootId(2);
        others[2].channel = ChannelNo(1);
        others[3].kind = ValueKind::Double;
        others[4].name = Arc::from("pressure");
        others[5].unit = Arc::from("K");
        let mut dictionary = Dictionary::default();
        assert_eq!(dictionary.find(&first, 0), None);
        assert_eq!(dictionary.add(&first), 0);
        for (n, other) in others.iter().enumerate() {
            for guess in [0, n, 200] {
                assert_eq!(dictionary.find(other, guess), None, "{other:?}");
            }
            assert_eq!(dictionary.add(other), n + 1);
        }
        for guess in 0..8 {
            assert_eq!(dictionary.find(&series(1, 1, 0), guess), Some(0));
            assert_eq!(dictionary.find(&others[4], guess), Some(5));
        }
        let mut bytes = Vec::new();
        dictionary.write(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            read(&mut reader, &mut Texts::default()).as_deref(),
            Ok(dictionary.series())
        );
        assert!(reader.is_at_end());
    }

    #[test]
    fn texts_are_kept_once_and_one_that_takes_a_place_changes_no_other() {
        let mut texts = Texts::default();
        let names: Vec<String> = (0..4 * TEXT_PLACES)
            .map(|n| format!("channel-{n}"))
            .collect();
        for _ in 0..2 {
            for name in &names {
                let first = texts.share(name);
                assert_eq!(*first, **name);
                assert!(Arc::ptr_eq(&first, &texts.share(name)));
            }
        }
        assert_eq!(texts.share("").len(), 0);
        assert_eq!(texts.0.len(), TEXT_PLACES);
    }

    #[test]
    fn a_full_dictionary_finds_each_series() {
        let mut dictionary = Dictionary::default();
        let all: Vec<Series> = (0..SERIES_PER_BLOCK_MAX)
            .map(|n| series(n as u8 / 32, 7, n as u8 % 32))
            .collect();
        for (n, series) in all.iter().enumerate() {
            assert!(!dictionary.is_full(), "{n}");
            let before = dictionary.size_bytes();
            dictionary.add(series);
            let added = dictionary.size_bytes() - before;
            assert!(added <= Dictionary::entry_bytes_worst(series), "{added}");
        }
        assert!(dictionary.is_full());
        for (n, series) in all.iter().enumerate() {
            assert_eq!(dictionary.find(series, 0), Some(n));
        }
        dictionary.clear();
        assert_eq!(dictionary.find(&all[3], 3), None);
    }

    #[test]
    fn entries_that_cannot_be_are_refused() {
        let mut dictionary = Dictionary::default();
        dictionary.add(&series(1, 1, 0));
        let mut good = Vec::new();
        dictionary.write(&mut good);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (name, bytes, is_read) in [
            ("as written", good.clone(), true),
            ("more than there are", with(0, 2), false),
            (
                "one too many",
                with(0, SERIES_PER_BLOCK_MAX as u8 + 1),
                false,
            ),
            ("a source before the first", with(1, 1), false),
            ("largest scale", with(12, SCALE_MAX), true),
            ("one more", with(12, SCALE_MAX + 1), false),
            ("double", with(12, KIND_DOUBLE), true),
            ("no kind", with(12, KIND_DOUBLE + 1), false),
        ] {
            let got = read(&mut Reader::new(&bytes), &mut Texts::default());
            assert_eq!(got.is_ok(), is_read, "{name}");
        }
    }
}
