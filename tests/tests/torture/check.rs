//! The log against the ledger: each record that must be there is, with the bytes
//! and the epoch that it was acked with, and what else is there is right too.

use forebay_core::log::decode::decode;
use forebay_core::log::key::TopicPartition;
use forebay_core::store::{Loss, Store, StoreEvent, StoreOpened};
use forebay_core::units::Offset;

use super::ledger::{Ledger, Run};
use super::stream;

/// How much is read at once, as the agent does.
const READ_BYTES: usize = 64 * 1024;

/// Meta entries of each batch: both its number; see [`super::child`].
pub(crate) const TICK_KEYS: [&[u8]; 2] = [b"torture/a", b"torture/b"];
/// Head of each partition as of the last batch that touched it.
pub(crate) const MARK_PREFIX: &str = "torture/mark/";

pub(crate) fn mark_key(at: TopicPartition) -> Vec<u8> {
    format!("{MARK_PREFIX}{}/{}", at.topic.0, at.partition.0).into_bytes()
}

/// What is in the log, as runs.
///
/// # Errors
/// What is wrong with it.
///
/// # Panics
/// When the store does not read: the disk may be off.
pub(crate) fn all(
    store: &mut dyn Store,
    opened: &StoreOpened,
    ledger: &mut Ledger,
    mut told: impl FnMut(StoreEvent),
) -> Result<Vec<Run>, String> {
    if opened.info.epoch.0 <= ledger.epoch {
        return Err(format!(
            "this opening is epoch {}, and there was epoch {} before",
            opened.info.epoch.0, ledger.epoch
        ));
    }
    meta(store, opened, ledger)?;
    let mut out = Vec::new();
    for at in stream::partitions() {
        let head = opened.heads.get(&at).copied().unwrap_or(Offset(0));
        out.push((at, head, partition(store, at, head)?));
    }
    // Damage inside of a segment is met when it is read.
    while let Some(event) = store.poll_event() {
        if let StoreEvent::Lost(loss) = &event {
            ledger.lost.push(lost_run(loss, opened));
        }
        told(event);
    }
    for (at, head, runs) in &out {
        must_hold(*at, *head, runs, ledger)?;
    }
    Ok(out.into_iter().flat_map(|(_, _, runs)| runs).collect())
}

/// A loss as a run; its epoch is that of the opening that told it.
pub(crate) fn lost_run(loss: &Loss, opened: &StoreOpened) -> Run {
    Run {
        at: loss.at,
        first: loss.first,
        end: loss.end,
        epoch: opened.info.epoch,
    }
}

fn partition(store: &dyn Store, at: TopicPartition, head: Offset) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    let mut next = Offset(0);
    while next < head {
        let blocks = store
            .read(at, next, READ_BYTES)
            .unwrap_or_else(|error| panic!("{at:?} from {}: {error}", next.0));
        let before = next;
        for stored in blocks {
            let block = decode(stored.key, &stored.bytes)
                .map_err(|error| format!("read a bad block: {error}"))?;
            if block.end() <= next {
                continue;
            }
            if block.base < next {
                return Err(format!(
                    "{at:?}: the block at {} overlaps {}",
                    block.base.0, next.0
                ));
            }
            if block.end() > head {
                return Err(format!(
                    "{at:?}: a block ends at {}, above the head {}",
                    block.end().0,
                    head.0
                ));
            }
            stream::check(&block)?;
            next = block.end();
            let run = Run {
                at,
                first: block.base,
                end: block.end(),
                epoch: block.epoch,
            };
            match runs.last_mut() {
                Some(last) if last.end == run.first && last.epoch == run.epoch => {
                    last.end = run.end
                }
                Some(last) if last.epoch > run.epoch => {
                    return Err(format!(
                        "{at:?}: epoch {} stands after {}",
                        run.epoch.0, last.epoch.0
                    ));
                }
                Some(_) | None => runs.push(run),
            }
        }
        if next == before {
            // The rest is gone; whether it may be is judged later.
            break;
        }
    }
    Ok(runs)
}

/// Each acked record is there with its epoch, and what is there has no holes but
/// those that are known.
fn must_hold(
    at: TopicPartition,
    head: Offset,
    runs: &[Run],
    ledger: &Ledger,
) -> Result<(), String> {
    let mut end = Offset(0);
    for want in ledger.runs().filter(|run| run.at == at) {
        end = end.max(want.end);
        let mut offset = want.first;
        while offset < want.end {
            let there = runs
                .iter()
                .find(|run| (run.first..run.end).contains(&offset));
            offset = match there {
                Some(run) if run.epoch == want.epoch => run.end,
                Some(run) => {
                    return Err(format!(
                        "{at:?} offset {}: acked under epoch {}, there under {}",
                        offset.0, want.epoch.0, run.epoch.0
                    ));
                }
                None if ledger.may_be_gone(at, offset) => Offset(offset.0 + 1),
                None => {
                    return Err(format!(
                        "{at:?} offset {} of epoch {} was acked and is gone; \
                         acked {want:?}, there are {runs:?}, head {}",
                        offset.0, want.epoch.0, head.0
                    ));
                }
            };
        }
    }
    if head < end {
        return Err(format!(
            "{at:?}: the head is {}, acked was up to {}",
            head.0, end.0
        ));
    }
    let mut next = runs.first().map_or(head, |run| run.first);
    for run in runs {
        if let Some(hole) = (next.0..run.first.0).find(|n| !ledger.may_be_gone(at, Offset(*n))) {
            return Err(format!("{at:?}: a hole at {hole}, before {run:?}"));
        }
        next = run.end;
    }
    Ok(())
}

fn meta(store: &dyn Store, opened: &StoreOpened, ledger: &Ledger) -> Result<(), String> {
    let number = |key: &[u8]| {
        let value = store.meta(key).unwrap_or_else(|error| panic!("{error}"));
        value.map_or(0, |value| {
            u64::from_be_bytes(value.try_into().unwrap_or_default())
        })
    };
    let ticks = [number(TICK_KEYS[0]), number(TICK_KEYS[1])];
    if ticks[0] != ticks[1] {
        return Err(format!("half of a batch's meta entries: {ticks:?}"));
    }
    if ticks[0] < ledger.tick {
        return Err(format!(
            "batch {} was acked, meta knows {}",
            ledger.tick, ticks[0]
        ));
    }
    for at in stream::partitions() {
        let mark = number(&mark_key(at));
        let head = opened.heads.get(&at).map_or(0, |head| head.0);
        if mark > head {
            return Err(format!("{at:?}: meta says {mark}, the log ends at {head}"));
        }
    }
    Ok(())
}
