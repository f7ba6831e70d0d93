//! Questions on their way through the log. Bound: [`QUERIES_MAX`] at the same time. Of
//! statuses one is being told, and of those behind it there is a number each.

use super::{Gateway, Reader, status};
use crate::effect::{Effect, QueryId};
use crate::limits::QUERIES_MAX;
use crate::query::{Asks, ChannelName, ChannelQuery, Job, Query, Reply};
use crate::units::Mono;

impl Gateway {
    pub(super) fn on_query(&mut self, id: QueryId, query: &Query, now: Mono) {
        let started = match query {
            Query::Status => {
                self.statuses.push_back(status::Begun::new(id));
                if self.statuses.len() == 1 {
                    self.tell_some(now);
                }
                return;
            }
            Query::Summary => Err(Ok(status::summary(self, now))),
            Query::DeadLetters => Err(Ok(self.dead_letters().into())),
            Query::RetryDeadLetters { destination } => {
                Err(self.retry_dead_letters(destination.as_deref()))
            }
            Query::Views => Err(Ok(self.views_answer().into())),
            Query::RebuildView { name, from } => Err(self.rebuild_view(name, *from, now)),
            Query::DropView { stream } => Err(self.drop_view(stream, now)),
            Query::Follow(request) => match self.start_follow(id, request, now) {
                Ok(()) => return,
                Err(text) => Err(Err(text)),
            },
            Query::Tables => Err(Ok(self.tables_answer().into())),
            Query::Table { table, key, at } => {
                match self.start_table_rows(id, (table, key.as_deref()), *at) {
                    Ok(()) => return,
                    Err(text) => Err(Err(text)),
                }
            }
            Query::TableHistory { table, key } => {
                match self.start_table_history(id, (table, key)) {
                    Ok(()) => return,
                    Err(text) => Err(Err(text)),
                }
            }
            Query::Channel(channel, query) => self.start_query(channel, *query).map_err(Err),
        };
        match started {
            Ok(job) => {
                self.queries.insert(id, job);
                self.step_query(id);
            }
            Err(answer) => self.effects.push_back(Effect::Answer(id, answer)),
        }
    }

    /// The next step of the status that is being told; false where there is none.
    pub(super) fn tell_some(&mut self, now: Mono) -> bool {
        let Some(mut begun) = self.statuses.pop_front() else {
            return false;
        };
        match begun.step(self, now) {
            Some(status) => self.effects.push_back(Effect::Answer(begun.id, Ok(status))),
            None => self.statuses.push_front(begun),
        }
        true
    }

    fn start_query(&mut self, channel: &ChannelName, query: ChannelQuery) -> Result<Job, String> {
        if self.queries.len() >= QUERIES_MAX {
            return Err(format!(
                "{QUERIES_MAX} queries are being answered: ask again in a moment"
            ));
        }
        self.job(channel, query).map_err(|error| error.to_string())
    }

    pub(super) fn step_query(&mut self, id: QueryId) {
        let Some(job) = self.queries.get_mut(&id) else {
            return;
        };
        match job.next_fetch() {
            Some((at, from, _)) => self.fetch(at, from, Reader::Query(id)),
            None => {
                if let Some(job) = self.queries.remove(&id) {
                    self.effects
                        .push_back(Effect::Answer(id, job.finish().map(Reply::from)));
                }
            }
        }
    }
}
