//! Follows a stream of a running agent, answer by answer: what `watch` and `tail` have
//! in common.
//!
//! Holds always: each change is given once, in the order of its partition, behind the
//! place that was asked for. An agent that is started again is waited for, and followed
//! on. Bound: one answer; what is not taken from us is not asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_core::follow::{FollowFrom, FollowRequest};
use forebay_core::limits::FOLLOW_LINES_MAX;
use forebay_core::query::Query;
use forebay_core::units::{Offset, PartitionId, Span, TopicId};
use serde_json::Value;

use super::query::Target;
use crate::agent::questions;
use crate::exit::Failure;
use crate::terminal::fail;

/// Pause before an agent that does not answer any more is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Where a follower is.
#[derive(Debug, Clone)]
pub(super) struct Follower<'a> {
    target: &'a Target,
    request: FollowRequest,
    /// Behind what was given last.
    pub(super) next: BTreeMap<PartitionId, Offset>,
    /// Name of the stream on the wire.
    pub(super) stream: String,
    /// Whether an agent that is away is waited for, once it was there.
    waits: bool,
}

impl<'a> Follower<'a> {
    pub(super) fn new(target: &'a Target, stream: &str, from: FollowFrom, waits: bool) -> Self {
        let next = match &from {
            FollowFrom::At(at) => at.clone(),
            FollowFrom::Beginning | FollowFrom::Now => BTreeMap::new(),
        };
        Self {
            target,
            request: FollowRequest {
                stream: stream.to_owned(),
                table: None,
                topic: None,
                from,
                lines_max: FOLLOW_LINES_MAX,
                wait: Span(0),
            },
            next,
            stream: stream.to_owned(),
            waits,
        }
    }

    /// Of changes only those of this table.
    pub(super) fn of_table(mut self, table: Option<&str>) -> Self {
        self.request.table = table.map(str::to_owned);
        self
    }

    /// Goes to other places of the same stream.
    pub(super) fn seek(&mut self, at: BTreeMap<PartitionId, Offset>) {
        self.next.clone_from(&at);
        self.request.from = FollowFrom::At(at);
    }

    /// The next answer: at most so many lines, after a wait where there are none yet.
    ///
    /// # Errors
    /// A sentence: nobody answers, or the agent does not know the stream.
    pub(super) fn answer(&mut self, lines_max: usize, wait: Span) -> Result<Value, Failure> {
        self.request.lines_max = lines_max.clamp(1, FOLLOW_LINES_MAX);
        self.request.wait = wait;
        let question = questions::write(&Query::Follow(self.request.clone()));
        let mut is_away = false;
        let answer = loop {
            match self.target.ask(&question) {
                Ok(answer) => break answer,
                // It was there: it may be started again.
                Err(failure) if self.request.topic.is_some() && self.waits => {
                    if !is_away {
                        let _ = fail(&format!("{failure}; it is asked again each second"));
                    }
                    is_away = true;
                    std::thread::sleep(AGAIN);
                }
                Err(failure) => return Err(failure),
            }
        };
        if is_away {
            let _ = fail("the agent answers again");
        }
        self.stream = String::from(answer["stream"].as_str().unwrap_or_default());
        self.go_on(&answer["from"]);
        self.request.topic = topic(&answer["topic"]);
        Ok(answer)
    }

    /// A change was given out.
    pub(super) fn gave(&mut self, change: &Value) {
        let number = |name: &str| change[name].as_u64().unwrap_or_default();
        let at = PartitionId(u16::try_from(number("partition")).unwrap_or_default());
        self.next.insert(at, Offset(number("offset") + 1));
    }

    /// All of an answer was given out. The name of the stream that it goes on as, where
    /// that is another one.
    pub(super) fn done(&mut self, answer: &Value) -> Option<String> {
        self.go_on(&answer["next"]);
        let moved = answer.get("moved")?;
        self.go_on(&moved["next"]);
        self.request.topic = topic(&moved["topic"]);
        moved["stream"].as_str().map(str::to_owned)
    }

    fn go_on(&mut self, next: &Value) {
        if let Some(Ok(FollowFrom::At(at))) = next.as_str().map(FollowFrom::parse) {
            self.seek(at);
        }
    }
}

fn topic(number: &Value) -> Option<TopicId> {
    let number = number.as_u64();
    number.and_then(|n| u16::try_from(n).ok()).map(TopicId)
}
