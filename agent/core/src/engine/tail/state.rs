//! A tail in the state: full chunks as entries of their own, written when they
//! changed, which is once for nearly all; the newest chunk and the rest with the
//! page of the key. See `docs/state.md` for the bytes.

use super::list::{Body, Chunk, Held};
use super::{Reach, Tail, pack};
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};

/// What was read of a tail before its chunks.
#[derive(Debug)]
pub(super) struct Restoring {
    until: i64,
    last: Option<(u64, Vec<Held>)>,
}

impl Tail {
    /// Appends the newest chunk and all that is no chunk.
    pub(in crate::engine) fn encode(&self, out: &mut Vec<u8>) {
        put_zigzag(out, self.until);
        put_zigzag(out, self.watermark);
        put_varint(out, self.dead as u64);
        out.push(u8::from(self.truncated.is_some()));
        if let Some(time) = self.truncated {
            put_zigzag(out, time);
        }
        let Some(last) = self.list.chunks.back() else {
            return out.push(0);
        };
        let mut bytes = Vec::new();
        packed(last, &mut bytes);
        put_varint(out, bytes.len() as u64);
        put_varint(out, last.id);
        out.extend_from_slice(&bytes);
    }

    /// Gives the other chunks that changed since the last call: the number of each,
    /// in order of time, and its bytes; none: it is gone.
    pub(in crate::engine) fn encode_changes(&mut self, mut put: impl FnMut(u64, Option<&[u8]>)) {
        for id in self.list.gone.drain(..) {
            put(id, None);
        }
        let mut bytes = Vec::new();
        let others = self.list.chunks.len().saturating_sub(1);
        for chunk in self.list.chunks.range_mut(..others) {
            if std::mem::take(&mut chunk.changed) {
                chunk.kept = true;
                bytes.clear();
                packed(chunk, &mut bytes);
                put(chunk.id, Some(&bytes));
            }
        }
        // It was full, and is the last one again.
        if let Some(last) = self.list.chunks.back_mut().filter(|last| last.kept) {
            (last.kept, last.changed) = (false, true);
            put(last.id, None);
        }
    }

    /// Reads what [`Tail::encode`] wrote into a tail that is empty; the chunks and
    /// [`Tail::restored`] come next.
    ///
    /// # Errors
    /// When the bytes are nothing that it writes.
    pub(in crate::engine) fn decode(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        let until = from.zigzag()?;
        self.watermark = from.zigzag()?;
        self.dead = usize::try_from(from.varint()?).map_err(|_| from.malformed())?;
        self.truncated = match from.byte()? {
            0 => None,
            1 => Some(from.zigzag()?),
            _ => return Err(from.malformed()),
        };
        let len = usize::try_from(from.varint()?).map_err(|_| from.malformed())?;
        let mut last = None;
        if len > 0 {
            let id = from.varint()?;
            let mut held = Vec::new();
            pack::unpack(from.take(len)?, &mut held)?;
            last = Some((id, held));
        }
        self.restoring = Some(Box::new(Restoring { until, last }));
        Ok(())
    }

    /// Reads one of the chunks, in order of their numbers.
    ///
    /// # Errors
    /// When the bytes are no chunk that comes next.
    pub(in crate::engine) fn decode_chunk(
        &mut self,
        id: u64,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        let mut held = Vec::new();
        pack::unpack(bytes, &mut held)?;
        self.append(id, held, true)
    }

    fn append(&mut self, id: u64, held: Vec<Held>, kept: bool) -> Result<(), Malformed> {
        let before = self.list.chunks.back().map_or(0, |chunk| chunk.id);
        let newest = self.list.newest().unwrap_or(i64::MIN);
        let first = held.first().map_or(i64::MIN, |(time, _)| *time);
        if id <= before || first < newest {
            return Err(Malformed { position: 0 });
        }
        self.held += held.len();
        self.list.restore(id, held, kept);
        Ok(())
    }

    /// All is read: the cursor goes where it was.
    ///
    /// # Errors
    /// When the parts do not fit together.
    pub(in crate::engine) fn restored(&mut self, reach: Reach) -> Result<(), Malformed> {
        let bad = Malformed { position: 0 };
        let Some(restoring) = self.restoring.take() else {
            return if self.held == 0 { Ok(()) } else { Err(bad) };
        };
        if let Some((id, held)) = restoring.last {
            self.append(id, held, false)?;
        }
        // Of a chunk that is gone whole, nothing is kept.
        let first = self.list.chunks.front().map_or(0, Chunk::len);
        if self.dead > 0 && self.dead >= first {
            return Err(bad);
        }
        self.floor.at = self.dead;
        self.cover(restoring.until, reach);
        Ok(())
    }

    /// Puts the cursor where it was.
    fn cover(&mut self, until: i64, reach: Reach) {
        let from = self.list.partition(|t| !reach.covers(t, until));
        (self.from, self.to) = (from.max(self.floor), from.max(self.floor));
        self.to = self.list.behind(self.to);
        self.peaks_anew();
        self.move_to(until, reach);
    }
}

fn packed(chunk: &Chunk, out: &mut Vec<u8>) {
    match &chunk.body {
        Body::Packed { bytes, .. } => out.extend_from_slice(bytes),
        Body::Open(held) => pack::pack(held, out),
    }
}
