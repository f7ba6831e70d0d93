//! A batch that the sink refused, because another worker changed some of its gateways
//! meanwhile: these are loaded anew, and what came of them is judged again.
//!
//! Always holds: what the batch has of other gateways stays in it; a message is counted
//! once however often it is judged. Bound: the batch's.

use std::collections::BTreeSet;

use super::apply::{Applier, LoadError, REJECTED_KEY, SESSION_KEY, range};
use super::batch::{Applied, Batch, EntryWrite, Loaded, Table, is_shared, owner};
use super::counters::Counters;
use super::known::counters_key;
use super::ledger::LEDGER_KEY;
use crate::payload::GatewayName;

impl Applier {
    /// The batch anew, for states as they are now: `loaded` has one for each gateway
    /// that the sink named. Nothing may have been handled since the batch was taken.
    ///
    /// # Errors
    /// When an entry cannot be read or contradicts another.
    pub fn conflict(
        &mut self,
        batch: Batch,
        loaded: Vec<(GatewayName, Loaded)>,
    ) -> Result<Batch, LoadError> {
        let changed: BTreeSet<_> = loaded.iter().map(|(name, _)| name.clone()).collect();
        for applied in &batch.applied {
            if changed.contains(&applied.message.id.gateway) {
                self.uncount(applied);
            }
        }
        let session = self.session.filter(|_| self.renewed);
        for (gateway, loaded) in loaded {
            self.state.forget(&gateway);
            self.ledger.forget(&gateway);
            self.gateways.forget(&gateway);
            self.take_over(loaded)?;
            self.ledger.show(&gateway);
            self.reloaded.insert(gateway);
        }
        for entry in batch.entries {
            let of = owner(entry.table, &entry.key);
            if !changed.contains(&of) {
                self.put(entry.table, entry.key, entry.value);
            } else if entry.table == Table::Meta && entry.key == counters_key(&of) {
                self.put_counters(&of);
            } else if is_shared(&of) {
                self.put_again(entry);
            }
        }
        if let Some(session) = session {
            self.renew_session(session);
        }
        for applied in batch.applied {
            if changed.contains(&applied.message.id.gateway) {
                self.judge(applied.message, applied.payload);
            } else {
                self.bytes += applied.payload.len();
                self.applied.push(applied);
            }
        }
        Ok(self.take_batch())
    }

    /// Takes back what judging counts again.
    fn uncount(&mut self, applied: &Applied) {
        let known = self.gateways.entry(&applied.message.id.gateway);
        let fresh: u64 = applied.fresh.iter().map(|part| part.count()).sum();
        let duplicates = range(&applied.message).count() - fresh;
        let counted = known.fresh;
        known.fresh = Counters {
            messages: counted.messages,
            duplicates: counted.duplicates.saturating_sub(duplicates),
            beyond: counted.beyond,
            resends: counted.resends,
            ..Counters::default()
        };
    }

    /// An entry of no gateway, after those that are stored.
    fn put_again(&mut self, entry: EntryWrite) {
        match (entry.table, entry.value) {
            (Table::Rejected, Some(value)) => self.keep_rejected(value),
            // What makes room is found anew.
            (Table::Rejected, None) => {}
            (Table::Rows | Table::Marks | Table::Meta, value) => {
                let of_all = [SESSION_KEY, REJECTED_KEY, LEDGER_KEY];
                if !of_all.contains(&&entry.key[..]) {
                    self.put(entry.table, entry.key, value);
                }
            }
        }
    }
}
