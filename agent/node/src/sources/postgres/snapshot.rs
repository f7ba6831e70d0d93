//! All rows of the tables as they are at the place where a slot begins.
//!
//! Always holds: rows are those of one moment, and the first change of the slot is the
//! first after it. The time that they get is from before that moment, so that no change
//! behind it looks older. A snapshot that ends early is of no use: its slot is dropped and
//! made anew. Bounds: a batch of rows, and what the hand lets be on its way.

use std::io::BufRead as _;
use std::sync::Arc;
use std::time::Instant;

use forebay_core::units::EventTime;

use super::catalog::{Catalog, Selected, literal, quoted};
use super::copytext::Line;
use super::fault::{Fault, Place};
use super::hand::Hand;
use super::limits::{BATCH_BYTES, MESSAGE_BYTES_MAX, READ_WAIT, WAIT_FIRST};
use super::lsn::{At, LSN_MAX, Life, Lsn};
use super::row::Shape;
use super::translate::Fed;
use super::value::Kinds;
use super::wire::{Rows, Wire, WireError};
use crate::store::fault::point;
use forebay_core::effect::{SourceEvent, SourceState};
use forebay_core::limits::SOURCE_BATCH_EVENTS_MAX;

/// What a new slot begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Begun {
    at: Lsn,
    /// By which another session sees what the slot saw.
    snapshot: String,
}

/// Everything that a snapshot needs.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub wire: &'a mut Wire,
    pub catalog: &'a mut Catalog,
    pub hand: &'a mut Hand,
    pub place: &'a Place,
    pub fed: &'a [Fed],
    pub kinds: &'a mut Kinds,
}

impl Snapshot<'_> {
    /// Makes the slot, hands on all rows, and waits until they are durable; the place at
    /// which the stream goes on.
    ///
    /// # Errors
    /// Why it cannot, or that the database is gone: then all of it is done again.
    pub(super) fn take(mut self) -> Result<At, Fault> {
        let time = self.catalog.now()?;
        let begun = self.make_slot()?;
        point("source.slot-made");
        let life = life(self.hand.sent, begun.at).ok_or_else(|| {
            self.place
                .failed("it was replaced more often than can be counted")
        })?;
        // Between what was held and where the slot begins.
        let mut at = At {
            life,
            lsn: Lsn(begun.at.0 - 1),
            index: 0,
        };
        self.begin(&begun.snapshot)?;
        for fed in self.fed {
            self.table(fed, time, &mut at)?;
        }
        self.commit()?;
        at.index += 1;
        self.hand_on(vec![heartbeat(time, at)], at)?;
        while !self.hand.is_all_durable() {
            self.wait()?;
        }
        point("source.snapshot-durable");
        Ok(at)
    }

    fn make_slot(&mut self) -> Result<Begun, Fault> {
        let sql = format!(
            "CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT",
            quoted(&self.place.slot)
        );
        let began = Instant::now();
        let (hand, mut is_told) = (&*self.hand, false);
        let place = self.place;
        let mut tick = || {
            if hand.told().is_stopped() {
                return Err(WireError::Stopped);
            }
            if !is_told && began.elapsed() > WAIT_FIRST * 10 {
                is_told = true;
                let text = "the slot waits for transactions that began before it: see \
                            pg_stat_activity";
                hand.state(SourceState::Waiting(place.said(text)), 0);
            }
            Ok(())
        };
        let rows = self.wire.command(&sql, &mut tick);
        let rows = rows.map_err(|error| self.place.wire("make the slot", error))?;
        begun(&rows).ok_or_else(|| self.place.failed("the new slot has no beginning"))
    }

    fn begin(&mut self, snapshot: &str) -> Result<(), Fault> {
        let sql = format!(
            "SET statement_timeout TO 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
             SET TRANSACTION SNAPSHOT {}",
            literal(snapshot)
        );
        self.run(&sql)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.run("COMMIT")
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        let done = self.catalog.client().batch_execute(sql);
        done.map_err(|error| self.place.client("read the rows", &error))
    }

    fn table(&mut self, fed: &Fed, time: EventTime, at: &mut At) -> Result<(), Fault> {
        let selected = self.catalog.selected(fed)?;
        let types: Vec<_> = selected.columns.iter().map(|(_, id)| *id).collect();
        self.catalog
            .learn(&unknown(&types, self.kinds), self.kinds)?;
        let shape = shape(&selected, self.kinds);
        at.index += 1;
        let begin = SourceEvent::SnapshotBegin {
            table: fed.name.clone(),
            position: at.position(),
        };
        self.hand_on(vec![begin], *at)?;
        point("source.snapshot-begun");
        self.rows(fed, &selected, &shape, time, at)?;
        at.index += 1;
        let end = SourceEvent::SnapshotEnd {
            table: fed.name.clone(),
            time,
            position: at.position(),
        };
        self.hand_on(vec![end], *at)?;
        point("source.snapshot-ended");
        Ok(())
    }

    fn rows(
        &mut self,
        fed: &Fed,
        selected: &Selected,
        shape: &Shape,
        time: EventTime,
        at: &mut At,
    ) -> Result<(), Fault> {
        let (place, hand) = (self.place, &mut *self.hand);
        let fail = |error: &dyn std::fmt::Display| {
            Fault::Waiting(place.said(format!("read the rows of {fed}: {error}")))
        };
        let reader = self.catalog.client().copy_out(&selected.sql);
        let mut reader = reader.map_err(|error| place.client("read the rows", &error))?;
        let (mut bytes, mut line, mut scratch) = (Vec::new(), Line::default(), Vec::new());
        let (mut events, mut size, mut count) = (Vec::new(), 0, 0);
        loop {
            bytes.clear();
            let most = MESSAGE_BYTES_MAX as u64;
            let mut limited = std::io::Read::take(&mut reader, most);
            let read = limited.read_until(b'\n', &mut bytes);
            if read.map_err(|error| fail(&error))? == 0 {
                break;
            }
            if bytes.pop() != Some(b'\n') {
                return Err(place.failed(format!("a row of {fed} has more than {most} bytes")));
            }
            line.read(&bytes).map_err(|error| fail(&error))?;
            let values = line.values();
            if values.len() != shape.len() {
                return Err(fail(&"a row with other columns than its table"));
            }
            let row = shape.row(values, &mut scratch);
            size += row.len();
            count += 1;
            let table = fed.name.clone();
            events.push(SourceEvent::SnapshotRow { table, row, time });
            if events.len() == SOURCE_BATCH_EVENTS_MAX || size >= BATCH_BYTES {
                at.index += 1;
                hand_on(hand, std::mem::take(&mut events), *at)?;
                size = 0;
                state(hand, fed, count);
                point("source.snapshot-rows");
            }
        }
        if !events.is_empty() {
            at.index += 1;
            hand_on(hand, events, *at)?;
            point("source.snapshot-rows");
        }
        state(hand, fed, count);
        Ok(())
    }

    fn hand_on(&mut self, events: Vec<SourceEvent>, at: At) -> Result<(), Fault> {
        hand_on(self.hand, events, at)
    }

    fn wait(&mut self) -> Result<(), Fault> {
        wait(self.hand)
    }
}

fn state(hand: &Hand, fed: &Fed, rows: u64) {
    let table: Arc<str> = fed.name.clone();
    hand.state(SourceState::Snapshotting { table, rows }, 0);
}

fn hand_on(hand: &mut Hand, events: Vec<SourceEvent>, at: At) -> Result<(), Fault> {
    while !hand.has_room() {
        wait(hand)?;
    }
    if hand.batch(events, at) {
        Ok(())
    } else {
        Err(Fault::Stopped)
    }
}

fn wait(hand: &Hand) -> Result<(), Fault> {
    if hand.told().is_stopped() {
        return Err(Fault::Stopped);
    }
    hand.told().wait(READ_WAIT);
    Ok(())
}

fn heartbeat(time: EventTime, at: At) -> SourceEvent {
    SourceEvent::Heartbeat {
        time,
        position: at.position(),
    }
}

/// Types that the catalog must be asked for.
pub(super) fn unknown(
    types: &[super::pgoutput::TypeId],
    kinds: &Kinds,
) -> Vec<super::pgoutput::TypeId> {
    let unknown = |id: &&super::pgoutput::TypeId| kinds.of(**id).is_none();
    types.iter().filter(unknown).copied().collect()
}

fn shape(selected: &Selected, kinds: &Kinds) -> Shape {
    let kind = |id| kinds.of(id).unwrap_or(super::value::Kind::Text);
    let columns = selected.columns.iter();
    Shape::new(
        columns
            .map(|(name, id)| (name.as_str().into(), kind(*id)))
            .collect(),
    )
}

/// The row that a new slot is answered with: name, place, snapshot, plugin.
fn begun(rows: &Rows) -> Option<Begun> {
    let [row] = rows.as_slice() else { return None };
    let at = Lsn::parse(row.get(1)?.as_deref()?)?;
    let snapshot = row.get(2)?.clone()?;
    (at > Lsn(0) && at <= LSN_MAX).then_some(Begun { at, snapshot })
}

/// In which life of the database places behind `at` follow all that was held; `None`:
/// there are no more.
fn life(held: Option<At>, at: Lsn) -> Option<Life> {
    let Some(held) = held else {
        return Some(Life(0));
    };
    if held.lsn.0 + 1 < at.0 {
        return Some(held.life);
    }
    held.life.0.checked_add(1).map(Life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_begins_again_has_another_life() {
        let held = |life, lsn| {
            Some(At {
                life: Life(life),
                lsn: Lsn(lsn),
                index: 7,
            })
        };
        for (name, held, at, want) in [
            ("first", None, 1, Some(0)),
            ("later", held(2, 10), 12, Some(2)),
            ("its first place is held", held(2, 10), 11, Some(3)),
            ("set back", held(2, 10), 3, Some(3)),
            ("last", held(u8::MAX, 10), 3, None),
        ] {
            assert_eq!(life(held, Lsn(at)).map(|life| life.0), want, "{name}");
        }
    }

    #[test]
    fn a_slot_begins_where_the_server_says() {
        let row = |cells: [&str; 4]| cells.map(|cell| Some(cell.to_owned())).to_vec();
        let good = row(["s", "0/16B3748", "00000003-00000002-1", "pgoutput"]);
        let found = begun(&vec![good.clone()]).unwrap();
        assert_eq!(found.at, Lsn(0x016b_3748));
        for rows in [
            vec![],
            vec![good.clone(), good.clone()],
            vec![row(["s", "x", "y", "z"])],
            vec![row(["s", "0/0", "y", "z"])],
            vec![good[..2].to_vec()],
        ] {
            assert_eq!(begun(&rows), None);
        }
    }
}
