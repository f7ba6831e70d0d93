//! One commit as a file: what came and what it changed, until its rows stand in data files.
//! Byte table: `agent/node/docs/files-sink.md`.
//!
//! Bound: what a batch may have; STEP_BYTES_MAX when it is read.

use forebay_core::limits::{EPOCH_RUNS_MAX, MESSAGE_BYTES_MAX, OFFSET_RANGES_MAX};
use forebay_core::log::bytes::{Malformed, Reader, put_varint};
use forebay_core::units::Offset;
use forebay_core::upstream::ranges::OffsetRange;

use super::layout::StepNo;
use super::state::read_changes;
use super::state::{CRC_BYTES, Changes, Fault, opened, put_bytes, put_changes, read_bytes};

const MAGIC: [u8; 4] = *b"FBST";
const VERSION: u8 = 1;
/// Parts of one message: it is cut by what was applied before, in each epoch.
const FRESH_MAX: u64 = (EPOCH_RUNS_MAX * OFFSET_RANGES_MAX + 1) as u64;

/// A message and which of its offsets were new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) position: u64,
    pub(super) payload: Vec<u8>,
    pub(super) fresh: Vec<OffsetRange>,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) changes: Changes,
    pub(super) taken: Vec<Taken>,
}

/// Where a payload stands in its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PayloadAt {
    pub(super) step: StepNo,
    pub(super) position: u64,
    pub(super) bytes: usize,
}

/// A step as it is written, from parts that its owner keeps, and where each payload is.
pub(super) fn step_bytes<'a>(
    number: StepNo,
    changes: &Changes,
    taken: impl Iterator<Item = (&'a [u8], &'a [OffsetRange])>,
) -> (Vec<u8>, Vec<PayloadAt>) {
    let mut places = Vec::new();
    let mut out = MAGIC.to_vec();
    out.push(VERSION);
    out.extend_from_slice(&number.0.to_le_bytes());
    put_changes(&mut out, changes);
    for (payload, fresh) in taken {
        // No payload is empty, so that 0 ends the list.
        put_bytes(&mut out, payload);
        places.push(PayloadAt {
            step: number,
            position: (out.len() - payload.len()) as u64,
            bytes: payload.len(),
        });
        put_varint(&mut out, fresh.len() as u64);
        for range in fresh {
            put_varint(&mut out, range.start().0);
            put_varint(&mut out, range.count());
        }
    }
    out.push(0);
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    (out, places)
}

impl Step {
    /// Reads the step `number`.
    pub(super) fn from_bytes(bytes: &[u8], number: StepNo) -> Result<Self, Fault> {
        let mut reader = opened(bytes, MAGIC, VERSION)?;
        let found = u64::from_le_bytes(reader.array()?);
        if found != number.0 {
            return Err(Fault::Number { found });
        }
        let mut step = Self {
            changes: read_changes(&mut reader)?,
            taken: Vec::new(),
        };
        loop {
            let payload = read_bytes(&mut reader, MESSAGE_BYTES_MAX)?;
            if payload.is_empty() {
                break;
            }
            let end = bytes.len() - CRC_BYTES - reader.remaining();
            step.taken.push(Taken {
                position: (end - payload.len()) as u64,
                payload: payload.to_vec(),
                fresh: read_fresh(&mut reader)?,
            });
        }
        match reader.is_at_end() {
            true => Ok(step),
            false => Err(reader.malformed().into()),
        }
    }
}

fn read_fresh(reader: &mut Reader<'_>) -> Result<Vec<OffsetRange>, Malformed> {
    let at = reader.malformed();
    let count = reader.varint()?;
    if count > FRESH_MAX {
        return Err(at);
    }
    let mut out = Vec::new();
    for _ in 0..count {
        let start = reader.varint()?;
        let end = start.checked_add(reader.varint()?).ok_or(at)?;
        out.push(OffsetRange::new(Offset(start), Offset(end)).ok_or(at)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::state::Kind;
    use super::*;

    fn step() -> Step {
        let range = |a, b| OffsetRange::new(Offset(a), Offset(b)).unwrap();
        Step {
            changes: Changes::from([((Kind::Mark, b"g".to_vec()), Some(b"m".to_vec()))]),
            taken: vec![
                Taken {
                    position: 21,
                    payload: b"{}".to_vec(),
                    fresh: vec![range(0, 1), range(300, 301)],
                },
                Taken {
                    position: 30,
                    payload: b"x".to_vec(),
                    fresh: Vec::new(),
                },
            ],
        }
    }

    fn bytes(step: &Step, number: u64) -> Vec<u8> {
        let taken = step.taken.iter();
        let taken = taken.map(|taken| (taken.payload.as_slice(), taken.fresh.as_slice()));
        let (bytes, places) = step_bytes(StepNo(number), &step.changes, taken);
        for (place, taken) in places.iter().zip(&step.taken) {
            let at = usize::try_from(place.position).unwrap();
            assert_eq!(bytes[at..at + place.bytes], taken.payload);
        }
        bytes
    }

    /// The byte table, as written by version 1.
    #[test]
    fn golden_bytes() {
        let bytes = bytes(&step(), 258);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let want = "464253540102010000000000000101670101\
                    6d00027b7d020001ac02010178000000fe5569";
        assert_eq!(text, want);
        assert_eq!(Step::from_bytes(&bytes, StepNo(258)), Ok(step()));
    }

    #[test]
    fn what_is_not_whole_is_named() {
        let bytes = bytes(&step(), 1);
        for cut in 0..bytes.len() {
            assert!(Step::from_bytes(&bytes[..cut], StepNo(1)).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(Step::from_bytes(&other, StepNo(1)).is_err(), "{at}");
        }
        let other = Step::from_bytes(&bytes, StepNo(2));
        assert_eq!(other, Err(Fault::Number { found: 1 }));
        let mut newer = bytes.clone();
        newer[4] = 2;
        assert_eq!(Step::from_bytes(&newer, StepNo(1)), Err(Fault::Version(2)));
    }

    proptest! {
        #[test]
        fn bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut whole = MAGIC.to_vec();
            whole.push(VERSION);
            whole.extend_from_slice(&1_u64.to_le_bytes());
            whole.append(&mut bytes);
            let crc = crc32c::crc32c(&whole);
            whole.extend_from_slice(&crc.to_le_bytes());
            let _ = Step::from_bytes(&whole, StepNo(1));
        }
    }
}
