//! What an operator is told of tables and their sources, and questions about tables on
//! their way through the topic `changes`. Bound: [`QUERIES_MAX`] at the same time.

use serde_json::{Value, json};

use super::{Gateway, Reader};
use crate::changes::{CHANGES_AT, Source, Table};
use crate::effect::{Effect, QueryId, SourceState};
use crate::engine::config::TableSpec;
use crate::limits::{QUERIES_MAX, QUERY_LINES_MAX};
use crate::log::key::StoredBlock;
use crate::query::tables::{TableJob, row_value};
use crate::units::EventTime;
use crate::utc::time_value;

impl Gateway {
    /// The tables and their sources.
    pub(super) fn tables_answer(&self) -> Value {
        json!({ "tables": self.tables_status(), "sources": self.sources_status() })
    }

    /// Each table of the config.
    pub(super) fn tables_status(&self) -> Value {
        let tables = self.config.engine.tables.iter();
        tables.map(|spec| self.table_status(spec)).collect()
    }

    fn table_status(&self, spec: &TableSpec) -> Value {
        let mut status = json!({
            "table": spec.name,
            "key": spec.key,
            "watermark": "always",
        });
        let Some(table) = self.changes.book().table(&spec.name) else {
            return status;
        };
        if !spec.is_static {
            let known = table.known.max(self.clock.recorded());
            let until = known.map(|known| EventTime(known.0.saturating_sub(spec.out_of_order.0)));
            status["watermark"] = until.map_or(Value::Null, time_value);
        }
        let counters = table.counters;
        status["rows"] = json!(table.len());
        status["bytes"] = json!(table.bytes());
        status["changes"] = json!(counters.changes);
        status["oversize"] = json!(counters.oversize);
        status["keyless"] = json!(counters.keyless);
        status["beyond"] = json!(counters.beyond);
        status["columns_unknown"] = json!(counters.columns_unknown);
        status
    }

    /// Each source of the config.
    pub(super) fn sources_status(&self) -> Value {
        self.changes.sources().map(source_status).collect()
    }

    pub(super) fn start_table_rows(
        &mut self,
        id: QueryId,
        (table, key): (&str, Option<&str>),
        at: Option<EventTime>,
    ) -> Result<(), String> {
        let end = self.commit.head(CHANGES_AT);
        let held = self.changes.book().table(table);
        match (at, held) {
            (None, Some(held)) => {
                let answer = rows_answer(held, key);
                self.effects
                    .push_back(Effect::Answer(id, Ok(answer.into())));
                Ok(())
            }
            // A table that is not known has no job either.
            (at, _) => {
                let at = at.unwrap_or(EventTime(i64::MAX));
                self.start_table_job(id, table, |table| TableJob::at(table, key, at, end))
            }
        }
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
            self.effects
                .push_back(Effect::Answer(id, Ok(job.finish().into())));
        }
    }
}

/// The rows that are held.
fn rows_answer(table: &Table, key: Option<&str>) -> Value {
    let value = |(key, held): (&str, &crate::changes::Held)| row_value(key, held.time, &held.row);
    let rows: Vec<Value> = match key {
        Some(key) => table
            .get(key)
            .map(|held| value((key, held)))
            .into_iter()
            .collect(),
        None => {
            let rows = table.rows(None).take(QUERY_LINES_MAX);
            rows.map(|(key, held)| value((key, held))).collect()
        }
    };
    json!({
        "table": &*table.name,
        "more": key.is_none() && table.len() > QUERY_LINES_MAX,
        "rows": rows,
    })
}

fn source_status(source: &Source) -> Value {
    let counters = source.counters;
    let (state, why) = match &source.state {
        None => ("starting", None),
        Some(SourceState::Connected) => ("connected", None),
        Some(SourceState::Snapshotting { table, rows }) => {
            ("snapshotting", Some(format!("{table}: {rows} rows")))
        }
        Some(SourceState::Streaming) => ("streaming", None),
        Some(SourceState::Waiting(why)) => ("waiting", Some(why.clone())),
        Some(SourceState::Failed(why)) => ("failed", Some(why.clone())),
    };
    let tables: Vec<&str> = source.config.tables.iter().map(|table| &**table).collect();
    json!({
        "name": source.config.name,
        "tables": tables,
        "state": state,
        "why": why,
        "lag_bytes": source.lag_bytes,
        "events": counters.events,
        "changes": counters.changes,
        "repeated": counters.repeated,
        "refused": counters.refused,
        "snapshots": counters.snapshots,
    })
}
