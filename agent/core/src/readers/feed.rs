//! The way of a block's records to the engines of their devices.

use forebay_wire::ids::DeviceUid;

use crate::commit::GroupCommit;
use crate::derive::{Derive, Known, Place};
use crate::log::block::{Block, Body, Record};
use crate::record::TablesRecord;
use crate::units::{Mono, Offset};

/// Gives the readings of a block to the engines of their devices.
pub(crate) struct Feed<'a, O, P> {
    pub stages: &'a mut [Derive],
    /// Those that the block may have readings for.
    pub all: std::ops::Range<usize>,
    pub owner: O,
    pub place: P,
    pub now: Mono,
    pub commit: &'a mut GroupCommit,
}

impl<O: Fn(DeviceUid) -> usize, P: Fn(Offset) -> Place> Feed<'_, O, P> {
    /// Gives the offset of a record before which changes of tables are to be applied: it,
    /// and what is behind it, is to be met again.
    pub(crate) fn block(
        &mut self,
        block: &Block,
        records: std::ops::Range<usize>,
    ) -> Option<Offset> {
        let Body::Readings {
            series,
            records: all,
        } = &block.body
        else {
            return None;
        };
        let known: Vec<(usize, Known)> = series
            .iter()
            .map(|series| {
                let owner = (self.owner)(series.uid);
                (owner, self.stages[owner].intern(series))
            })
            .collect();
        let first = (self.place)(Offset(block.base.0 + records.start as u64));
        for stage in &mut self.stages[self.all.clone()] {
            stage.on_epoch(block.epoch, (first, self.now), self.commit);
        }
        let mut stopped = None;
        for index in records {
            match &all[index] {
                Record::Reading(reading) => {
                    let of = usize::from(reading.series);
                    let (owner, known) = known[of];
                    let place = (self.place)(Offset(block.base.0 + index as u64));
                    let of = (&series[of], reading);
                    let when = (place, self.now);
                    self.stages[owner].on_reading(known, of, when, self.commit);
                }
                // A gap is an account of what is not there: no window has it.
                Record::Gap(_) => {}
                Record::Tables(tables) => {
                    let offset = Offset(block.base.0 + index as u64);
                    if self.meet(tables, offset) {
                        stopped = Some(offset);
                        break;
                    }
                }
                Record::Clock(clock) => {
                    let place = (self.place)(Offset(block.base.0 + index as u64));
                    for stage in &mut self.stages[self.all.clone()] {
                        stage.on_clock(clock, (place, self.now), self.commit);
                    }
                }
            }
        }
        for (owner, _) in known {
            self.stages[owner].step(self.now, self.commit);
        }
        stopped
    }

    /// Whether an engine has to apply changes before it takes this record.
    fn meet(&mut self, tables: &TablesRecord, offset: Offset) -> bool {
        let place = (self.place)(offset);
        let mut waits = false;
        for stage in &mut self.stages[self.all.clone()] {
            waits |= stage.meets_tables(tables, place, self.commit);
        }
        waits
    }
}
