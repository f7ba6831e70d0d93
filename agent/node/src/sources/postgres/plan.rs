//! Whether the stream goes on where it was, or all rows are read anew: decided from what
//! the database says and what is remembered of it.
//!
//! Always holds: the stream goes on only on the same database, in the same life of it, with
//! a slot that has everything since. Pure.

use std::collections::BTreeMap;

use super::lsn::{At, Lsn};
use super::record::{Phase, Record, TableId};

/// The slot as the catalog has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    pub is_active: bool,
    /// Made for logical decoding by `pgoutput` in our database.
    pub is_ours: bool,
    /// The server has thrown away write log that it would need.
    pub is_lost: bool,
    pub confirmed: Lsn,
}

/// What is known when a session begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub record: Option<&'a Record>,
    pub system: &'a str,
    pub timeline: u32,
    /// Where the server's write log ends.
    pub end: Lsn,
    pub slot_name: &'a str,
    pub publication: &'a str,
    pub slot: Option<&'a Slot>,
    pub tables: &'a BTreeMap<String, TableId>,
    /// What the log has of it.
    pub held: Option<At>,
    /// What the stream itself asked for.
    pub anew: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// From here on.
    Resume(At),
    /// Read all rows, with a slot made for it; why, where that loses the steps between.
    Snapshot { why: Option<String> },
    /// Somebody else's slot has our name.
    NotOurs,
}

impl Known<'_> {
    pub(super) fn plan(&self) -> Plan {
        if self.slot.is_some_and(|slot| !slot.is_ours) {
            return Plan::NotOurs;
        }
        match self.resume() {
            Ok(at) => Plan::Resume(at),
            // Before anything was held there is nothing to lose.
            Err(why) => Plan::Snapshot {
                why: self.held.map(|_| why),
            },
        }
    }

    fn resume(&self) -> Result<At, String> {
        if let Some(why) = self.anew {
            return Err(why.to_owned());
        }
        let Some(record) = self.record else {
            return Err("nothing is remembered of this database".into());
        };
        if record.phase == Phase::Snapshot {
            return Err("the rows were not read to the end".into());
        }
        if record.system != self.system {
            return Err("it is another database than before, by its system identifier".into());
        }
        if record.timeline != self.timeline {
            return Err(format!(
                "it was restored or a standby has taken over: timeline {} is now {}",
                record.timeline, self.timeline
            ));
        }
        let of = (&*record.slot, &*record.publication);
        if of != (self.slot_name, self.publication) {
            return Err("the config names another slot or publication".into());
        }
        for (table, id) in self.tables {
            match record.tables.get(table) {
                Some(known) if known == id => {}
                Some(_) => return Err(format!("table {table} was made or published anew")),
                None => return Err(format!("table {table} is new here")),
            }
        }
        let Some(held) = self.held else {
            return Err("the log has no position of it".into());
        };
        if self.end < held.lsn {
            return Err(format!(
                "it was set back: its write log ends at {}, and {} was seen",
                self.end, held.lsn
            ));
        }
        match self.slot {
            None => Err(format!("the slot {} is gone", self.slot_name)),
            Some(slot) if slot.is_lost => Err(format!(
                "the slot {} is invalid: the server has thrown away write log that was not read \
                 (max_slot_wal_keep_size)",
                self.slot_name
            )),
            // What is confirmed is at most what was durable here.
            Some(slot) if slot.confirmed.0 > held.lsn.0 + 1 => Err(format!(
                "the slot {} is at {}, ahead of the log at {}: was the log restored?",
                self.slot_name, slot.confirmed, held.lsn
            )),
            Some(_) => Ok(held),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::postgres::lsn::Life;

    #[test]
    fn the_stream_goes_on_only_where_nothing_is_missing() {
        let id = TableId {
            table: 1,
            published: 2,
        };
        let tables: BTreeMap<String, TableId> = [("public.sites".to_owned(), id)].into();
        let record = Record {
            system: "sys".into(),
            timeline: 1,
            slot: "s".into(),
            publication: "p".into(),
            phase: Phase::Streaming,
            tables: tables.clone(),
        };
        let slot = Slot {
            is_active: false,
            is_ours: true,
            is_lost: false,
            confirmed: Lsn(101),
        };
        let held = At {
            life: Life(0),
            lsn: Lsn(100),
            index: 2,
        };
        let good = Known {
            record: Some(&record),
            system: "sys",
            timeline: 1,
            end: Lsn(100),
            slot_name: "s",
            publication: "p",
            slot: Some(&slot),
            tables: &tables,
            held: Some(held),
            anew: None,
        };
        assert_eq!(good.plan(), Plan::Resume(held));

        let unfinished = Record {
            phase: Phase::Snapshot,
            ..record.clone()
        };
        let lost = Slot {
            is_lost: true,
            ..slot.clone()
        };
        let ahead = Slot {
            confirmed: Lsn(102),
            ..slot.clone()
        };
        let again = TableId { table: 9, ..id };
        let made_anew = [("public.sites".to_owned(), again)].into();
        let more: BTreeMap<_, _> =
            [("public.sites".to_owned(), id), ("public.b".to_owned(), id)].into();
        let fewer = BTreeMap::new();
        for (name, known, want) in [
            (
                "asked for",
                Known {
                    anew: Some("because"),
                    ..good
                },
                "because",
            ),
            (
                "no record",
                Known {
                    record: None,
                    ..good
                },
                "remembered",
            ),
            (
                "unfinished",
                Known {
                    record: Some(&unfinished),
                    ..good
                },
                "to the end",
            ),
            (
                "another system",
                Known {
                    system: "x",
                    ..good
                },
                "system identifier",
            ),
            (
                "timeline",
                Known {
                    timeline: 2,
                    ..good
                },
                "timeline 1 is now 2",
            ),
            (
                "other slot",
                Known {
                    slot_name: "t",
                    ..good
                },
                "another slot",
            ),
            (
                "other publication",
                Known {
                    publication: "q",
                    ..good
                },
                "publication",
            ),
            (
                "made anew",
                Known {
                    tables: &made_anew,
                    ..good
                },
                "made or published anew",
            ),
            (
                "a new table",
                Known {
                    tables: &more,
                    ..good
                },
                "public.b is new",
            ),
            (
                "set back",
                Known {
                    end: Lsn(99),
                    ..good
                },
                "set back",
            ),
            ("no slot", Known { slot: None, ..good }, "is gone"),
            (
                "lost slot",
                Known {
                    slot: Some(&lost),
                    ..good
                },
                "max_slot_wal_keep_size",
            ),
            (
                "ahead",
                Known {
                    slot: Some(&ahead),
                    ..good
                },
                "ahead of the log",
            ),
        ] {
            let Plan::Snapshot { why: Some(why) } = known.plan() else {
                panic!("{name}: {:?}", known.plan());
            };
            assert!(why.contains(want), "{name}: {why}");
        }
        // A table fewer needs nothing.
        let known = Known {
            tables: &fewer,
            ..good
        };
        assert_eq!(known.plan(), Plan::Resume(held));
        // At the very first there is nothing to lose.
        let first = Known {
            record: None,
            slot: None,
            held: None,
            ..good
        };
        assert_eq!(first.plan(), Plan::Snapshot { why: None });
        let other = Slot {
            is_ours: false,
            ..slot.clone()
        };
        let known = Known {
            slot: Some(&other),
            ..good
        };
        assert_eq!(known.plan(), Plan::NotOurs);
    }
}
