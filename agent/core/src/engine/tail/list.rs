//! Readings of one key in time order, in chunks of few, and what is smallest and
//! largest in each chunk and in each group of chunks. Putting one in moves at
//! most a chunk, and the heads of chunks behind it when a full one is cut in two.
//! Knows no cursors: whoever holds a [`Place`] moves it along.

use std::collections::VecDeque;

use super::pack;
use crate::limits::TAIL_CHUNK_READINGS_MAX as CHUNK;
use crate::num::order::Extent;

/// A reading: time and value.
pub(super) type Held = (i64, f64);

/// Chunks of which smallest and largest are kept together.
const GROUP: usize = 64;

/// Where a reading stands. Behind the last one of a chunk is the same place as
/// the first one of the next: see [`List::normal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    pub(super) chunk: usize,
    pub(super) at: usize,
}

impl Place {
    /// Behind the reading that stands there.
    #[inline]
    pub(super) fn next(self) -> Self {
        Self {
            at: self.at + 1,
            ..self
        }
    }

    /// A reading came to this place: `place`, in its one form before that, is behind
    /// it or not.
    pub(super) fn came(self, is_before: bool, place: &mut Self) {
        if is_before {
            place.at += usize::from(self.chunk == place.chunk && self.at <= place.at);
        } else if self < *place {
            *place = self;
        }
    }
}

/// What a change of the list does to the places of others, but for the reading that
/// came: see [`Place::came`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Shift {
    /// The first chunk is gone, and nobody stands in it.
    Popped,
    /// What stood there or behind it in the chunk is a chunk of its own now.
    Cut(Place),
}

impl Shift {
    /// The same reading's place after the change.
    pub(super) fn apply(self, place: &mut Place) {
        match self {
            Self::Popped => place.chunk -= 1,
            Self::Cut(cut) if cut.chunk == place.chunk && cut.at <= place.at => {
                *place = Place {
                    chunk: cut.chunk + 1,
                    at: place.at - cut.at,
                };
            }
            Self::Cut(cut) => place.chunk += usize::from(cut.chunk < place.chunk),
        }
    }
}

#[derive(Debug)]
pub(super) enum Body {
    Open(Vec<Held>),
    /// See [`pack`]; between the cursors, where nobody reads.
    Packed {
        len: usize,
        bytes: Box<[u8]>,
    },
}

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) body: Body,
    /// Ascends from chunk to chunk; names it in the state.
    pub(super) id: u64,
    /// Since it was last written to the state.
    pub(super) changed: bool,
    /// It stands in the state, by itself.
    pub(super) kept: bool,
}

/// What is known of a chunk without opening it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    first: i64,
    extent: Extent,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) chunks: VecDeque<Chunk>,
    marks: VecDeque<Mark>,
    /// Of chunks that stand `GROUP` together since the beginning of time.
    groups: VecDeque<Extent>,
    /// Chunks of the first group that are gone.
    popped: usize,
    newest: Option<i64>,
    /// Room of a chunk that is gone, for the next one.
    spare: Vec<Held>,
    /// Ids of chunks that stand in the state and are gone.
    pub(super) gone: Vec<u64>,
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        match &self.body {
            Body::Open(held) => held.len(),
            Body::Packed { len, .. } => *len,
        }
    }
}

fn extent_of(held: &[Held]) -> Extent {
    let mut extent = Extent::NONE;
    for (_, x) in held.iter().filter(|(_, x)| !x.is_nan()) {
        extent.add(*x);
    }
    extent
}

/// Distance between the ids of neighbours, so that one can come between.
const ID_STEP: u64 = 1 << 24;

impl List {
    pub(super) fn newest(&self) -> Option<i64> {
        self.newest
    }

    /// Behind the last reading.
    pub(super) fn end(&self) -> Place {
        let chunk = self.chunks.len().saturating_sub(1);
        let at = self.chunks.back().map_or(0, Chunk::len);
        Place { chunk, at }
    }

    /// The one form of a place: before a reading, or the end.
    #[inline]
    pub(super) fn normal(&self, place: Place) -> Place {
        let Some(chunk) = self.chunks.get(place.chunk) else {
            return self.end();
        };
        if place.at >= chunk.len() && place.chunk + 1 < self.chunks.len() {
            Place {
                chunk: place.chunk + 1,
                at: 0,
            }
        } else {
            place
        }
    }

    /// The other form of a place: behind a reading, or the beginning.
    #[inline]
    pub(super) fn behind(&self, place: Place) -> Place {
        match place.chunk.checked_sub(1) {
            Some(chunk) if place.at == 0 => Place {
                chunk,
                at: self.chunks[chunk].len(),
            },
            Some(_) | None => place,
        }
    }

    /// The place of the last reading.
    pub(super) fn last(&self) -> Place {
        let end = self.end();
        Place {
            at: end.at.saturating_sub(1),
            ..end
        }
    }

    /// The reading at a place in its one form, without opening its chunk.
    pub(super) fn peek(&self, place: Place) -> Option<Held> {
        match &self.chunks.get(place.chunk)?.body {
            Body::Open(held) => held.get(place.at).copied(),
            Body::Packed { bytes, .. } => {
                let mut room = Vec::new();
                pack::unpack(bytes, &mut room).expect("it was packed here");
                room.get(place.at).copied()
            }
        }
    }

    /// The reading at a place in its one form; opens its chunk.
    #[inline]
    pub(super) fn get(&mut self, place: Place) -> Option<Held> {
        match &self.chunks.get(place.chunk)?.body {
            Body::Open(held) => held.get(place.at).copied(),
            Body::Packed { .. } => self.open(place.chunk).get(place.at).copied(),
        }
    }

    /// The place one before.
    pub(super) fn before(&self, place: Place) -> Option<Place> {
        if place.at > 0 {
            return Some(Place {
                at: place.at - 1,
                ..place
            });
        }
        let chunk = place.chunk.checked_sub(1)?;
        let at = self.chunks.get(chunk)?.len().checked_sub(1)?;
        Some(Place { chunk, at })
    }

    /// The readings of a chunk, which is open from here on.
    pub(super) fn open(&mut self, chunk: usize) -> &mut Vec<Held> {
        let spare = &mut self.spare;
        let body = &mut self.chunks[chunk].body;
        if let Body::Packed { bytes, .. } = body {
            let mut held = std::mem::take(spare);
            held.reserve_exact(CHUNK);
            pack::unpack(bytes, &mut held).expect("it was packed here");
            *body = Body::Open(held);
        }
        match body {
            Body::Open(held) => held,
            Body::Packed { .. } => unreachable!("it was opened above"),
        }
    }

    /// Packs a full chunk that nobody reads.
    pub(super) fn pack(&mut self, chunk: usize) {
        let body = &mut self.chunks[chunk].body;
        if let Body::Open(held) = body {
            let mut bytes = Vec::new();
            pack::pack(held, &mut bytes);
            let len = held.len();
            let mut room = std::mem::take(held);
            *body = Body::Packed {
                len,
                bytes: bytes.into_boxed_slice(),
            };
            room.clear();
            self.recycle(room);
        }
    }

    pub(super) fn is_packed(&self, chunk: usize) -> bool {
        let chunk = self.chunks.get(chunk);
        chunk.is_some_and(|c| matches!(c.body, Body::Packed { .. }))
    }

    fn recycle(&mut self, mut room: Vec<Held>) {
        if room.capacity() == CHUNK {
            room.clear();
            self.spare = room;
        }
    }

    fn group_of(&self, chunk: usize) -> usize {
        (self.popped + chunk) / GROUP
    }

    fn note(&mut self, chunk: usize, x: f64) {
        if !x.is_nan() {
            let group = self.group_of(chunk);
            self.marks[chunk].extent.add(x);
            self.groups[group].add(x);
        }
        self.chunks[chunk].changed = true;
    }

    /// Puts a reading behind all others, none of which is younger.
    #[inline]
    pub(super) fn push(&mut self, time: i64, x: f64) {
        self.newest = Some(time);
        let last = self.chunks.len().wrapping_sub(1);
        if let Some(chunk) = self.chunks.back_mut()
            && let Body::Open(held) = &mut chunk.body
            && held.len() < CHUNK
        {
            held.push((time, x));
            return self.note(last, x);
        }
        self.push_chunk(time, x);
    }

    #[cold]
    fn push_chunk(&mut self, time: i64, x: f64) {
        let mut held = std::mem::take(&mut self.spare);
        if !self.chunks.is_empty() {
            held.reserve_exact(CHUNK);
        }
        held.push((time, x));
        let id = self.chunks.back().map_or(0, |chunk| chunk.id) + ID_STEP;
        self.append(
            Chunk {
                body: Body::Open(held),
                id,
                changed: true,
                kept: false,
            },
            time,
            extent_of(&[(time, x)]),
        );
    }

    /// Puts a whole chunk behind all others.
    pub(super) fn append(&mut self, chunk: Chunk, first: i64, extent: Extent) {
        let at = self.chunks.len();
        self.chunks.push_back(chunk);
        self.marks.push_back(Mark { first, extent });
        let group = self.group_of(at);
        if group == self.groups.len() {
            self.groups.push_back(Extent::NONE);
        }
        self.groups[group] = self.groups[group].joined(extent);
    }

    /// The same from the state, whose readings are in order and behind all others.
    pub(super) fn restore(&mut self, id: u64, held: Vec<Held>, kept: bool) {
        let (Some((first, _)), Some((newest, _))) = (held.first(), held.last()) else {
            return;
        };
        self.newest = Some(*newest);
        let (first, extent) = (*first, extent_of(&held));
        self.append(
            Chunk {
                body: Body::Open(held),
                id,
                changed: !kept,
                kept,
            },
            first,
            extent,
        );
    }

    /// Puts a reading where its time is, behind those of the same time. `None` when
    /// that is the end.
    pub(super) fn insert(
        &mut self,
        time: i64,
        x: f64,
        shift: &mut impl FnMut(Shift),
    ) -> Option<Place> {
        if self.newest.is_none_or(|newest| newest <= time) {
            self.push(time, x);
            return None;
        }
        // The last chunk that begins at that time or before, or the first of all.
        let mut chunk = self
            .marks
            .partition_point(|mark| mark.first <= time)
            .saturating_sub(1);
        if self.chunks[chunk].len() == CHUNK {
            self.cut(chunk, shift);
            chunk += usize::from(self.marks[chunk + 1].first <= time);
        }
        let held = self.open(chunk);
        let at = held.partition_point(|(t, _)| *t <= time);
        held.insert(at, (time, x));
        self.marks[chunk].first = self.marks[chunk].first.min(time);
        self.note(chunk, x);
        Some(Place { chunk, at })
    }

    /// Makes two of a full chunk.
    fn cut(&mut self, chunk: usize, shift: &mut impl FnMut(Shift)) {
        let mut upper = Vec::with_capacity(CHUNK);
        upper.extend(self.open(chunk).drain(CHUNK / 2..));
        let first = upper[0].0;
        let id = self.chunks[chunk].id;
        let next = self
            .chunks
            .get(chunk + 1)
            .map_or(id.saturating_add(2 * ID_STEP), |c| c.id);
        let between = id + (next - id) / 2;
        let mark = Mark {
            first,
            extent: extent_of(&upper),
        };
        self.marks[chunk].extent = extent_of(self.open(chunk));
        self.marks.insert(chunk + 1, mark);
        self.chunks[chunk].changed = true;
        self.chunks.insert(
            chunk + 1,
            Chunk {
                body: Body::Open(upper),
                id: between,
                changed: true,
                kept: false,
            },
        );
        if between == id {
            self.number_anew();
        }
        self.regroup(chunk);
        let at = CHUNK / 2;
        shift(Shift::Cut(Place { chunk, at }));
    }

    /// No number was left between two chunks.
    #[cold]
    fn number_anew(&mut self) {
        let mut id = 0;
        for chunk in &mut self.chunks {
            if chunk.kept {
                self.gone.push(chunk.id);
            }
            id += ID_STEP;
            (chunk.id, chunk.changed, chunk.kept) = (id, true, false);
        }
    }

    /// Groups from that of a chunk on.
    fn regroup(&mut self, chunk: usize) {
        let from = self.group_of(chunk);
        self.groups.truncate(from);
        let count = self.chunks.len();
        for group in from.. {
            let chunks = (group * GROUP).saturating_sub(self.popped)
                ..((group + 1) * GROUP - self.popped).min(count);
            if chunks.is_empty() {
                break;
            }
            let marks = self.marks.range(chunks);
            self.groups
                .push_back(marks.fold(Extent::NONE, |e, mark| e.joined(mark.extent)));
        }
    }

    /// Smallest and largest of whole chunks.
    pub(super) fn extent(&self, chunks: std::ops::Range<usize>) -> Extent {
        let mut extent = Extent::NONE;
        let mut at = chunks.start;
        while at < chunks.end {
            let starts_group = (self.popped + at).is_multiple_of(GROUP);
            if starts_group && at + GROUP <= chunks.end {
                extent = extent.joined(self.groups[self.group_of(at)]);
                at += GROUP;
            } else {
                extent = extent.joined(self.marks[at].extent);
                at += 1;
            }
        }
        extent
    }

    /// Drops the first readings of the first chunk, not all of them.
    pub(super) fn forget_first(&mut self, count: usize) {
        let held = self.open(0);
        held.drain(..count);
        let mark = held.first().map(|(first, _)| Mark {
            first: *first,
            extent: extent_of(held),
        });
        self.marks[0] = mark.expect("a chunk that is gone whole was dropped");
        self.chunks[0].changed = true;
        self.regroup(0);
    }

    /// Drops the first chunk.
    pub(super) fn pop(&mut self) {
        self.marks.pop_front();
        if let Some(chunk) = self.chunks.pop_front() {
            if chunk.kept {
                self.gone.push(chunk.id);
            }
            if let Body::Open(room) = chunk.body {
                self.recycle(room);
            }
        }
        self.popped += 1;
        if self.popped == GROUP {
            self.popped = 0;
            self.groups.pop_front();
        }
        if self.chunks.is_empty() {
            self.newest = None;
            self.popped = 0;
            self.groups.clear();
        }
    }

    /// Reads some readings in order, without opening chunks for good.
    pub(super) fn each(&self, from: Place, to: Place, mut read: impl FnMut(Held)) {
        let mut room = Vec::new();
        for index in from.chunk..=to.chunk.min(self.chunks.len().saturating_sub(1)) {
            let Some(chunk) = self.chunks.get(index) else {
                return;
            };
            let held = match &chunk.body {
                Body::Open(held) => held,
                Body::Packed { bytes, .. } => {
                    room.clear();
                    pack::unpack(bytes, &mut room).expect("it was packed here");
                    &room
                }
            };
            let start = if index == from.chunk { from.at } else { 0 };
            let end = if index == to.chunk { to.at } else { held.len() };
            held[start.min(end)..end].iter().for_each(|one| read(*one));
        }
    }

    /// The place of the first reading of which that is not so, where it is so of all
    /// before that one; without opening chunks.
    pub(super) fn partition(&self, before: impl Fn(i64) -> bool) -> Place {
        let chunk = self
            .marks
            .partition_point(|mark| before(mark.first))
            .saturating_sub(1);
        let mut at = 0;
        let all = Place {
            chunk,
            at: self.chunks.get(chunk).map_or(0, Chunk::len),
        };
        self.each(Place { chunk, at: 0 }, all, |(time, _)| {
            at += usize::from(before(time))
        });
        self.normal(Place { chunk, at })
    }
}
