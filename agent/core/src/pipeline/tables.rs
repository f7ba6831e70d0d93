//! Questions about tables on their way through the topic `changes`. Bound:
//! [`QUERIES_MAX`] at the same time.

use serde_json::{Value, json};

use super::{Gateway, Reader};
use crate::effect::{Effect, QueryId};
use crate::limits::QUERIES_MAX;
use crate::log::key::{StoredBlock, TopicPartition};
use crate::log::topic::CHANGES;
use crate::query::tables::TableJob;
use crate::units::{EventTime, PartitionId};

/// Changes have one partition: they are in one order.
const CHANGES_AT: TopicPartition = TopicPartition {
    topic: CHANGES,
    partition: PartitionId(0),
};

impl Gateway {
    /// The tables of the config.
    pub(super) fn tables_answer(&self) -> Value {
        let tables = self.config.engine.tables.iter();
        json!({ "tables": tables.map(|table| json!({ "table": table.name })).collect::<Value>() })
    }

    pub(super) fn start_table_rows(
        &mut self,
        id: QueryId,
        (table, key): (&str, Option<&str>),
        at: Option<EventTime>,
    ) -> Result<(), String> {
        let end = self.commit.head(CHANGES_AT);
        let at = at.unwrap_or(EventTime(i64::MAX));
        self.start_table_job(id, table, |table| TableJob::at(table, key, at, end))
    }

    pub(super) fn start_table_history(
        &mut self,
        id: QueryId,
        (table, key): (&str, &str),
    ) -> Result<(), String> {
        let end = self.commit.head(CHANGES_AT);
        self.start_table_job(id, table, |table| TableJob::history(table, key, end))
    }

    fn start_table_job(
        &mut self,
        id: QueryId,
        table: &str,
        job: impl FnOnce(&str) -> TableJob,
    ) -> Result<(), String> {
        if self.table_jobs.len() >= QUERIES_MAX {
            return Err(format!(
                "{QUERIES_MAX} queries are being answered: ask again in a moment"
            ));
        }
        let tables = &self.config.engine.tables;
        if !tables.iter().any(|known| known.name == table) {
            let known: Vec<&str> = tables.iter().map(|known| known.name.as_str()).collect();
            return Err(match known[..] {
                [] => String::from("the config has no table"),
                [..] => format!(
                    "no table is called \"{table}\": there are {}",
                    known.join(", ")
                ),
            });
        }
        self.table_jobs.insert(id, job(table));
        self.step_table_job(id);
        Ok(())
    }

    pub(super) fn on_changes_for(&mut self, id: QueryId, blocks: &[StoredBlock]) {
        if let Some(job) = self.table_jobs.get_mut(&id) {
            job.on_blocks(blocks);
            self.step_table_job(id);
        }
    }

    fn step_table_job(&mut self, id: QueryId) {
        let next = self.table_jobs.get(&id).and_then(TableJob::next_fetch);
        if let Some(from) = next {
            self.fetch(CHANGES_AT, from, Reader::Table(id));
        } else if let Some(job) = self.table_jobs.remove(&id) {
            self.effects.push_back(Effect::Answer(id, Ok(job.finish())));
        }
    }
}
