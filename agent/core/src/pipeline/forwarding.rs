//! The wiring of the destinations: each has its own forwarder and its own marks, and
//! none of them waits for another.
//!
//! Bound: [`DESTINATIONS_MAX`](crate::limits::DESTINATIONS_MAX) destinations, each with
//! one set of marks on its way to the disk.

use serde_json::{Value, json};

use super::{Gateway, Reader};
use crate::commit::CommitToken;
use crate::effect::{Effect, Note};
use crate::forward::{DestinationId, Forward, ForwardAction};
use crate::log::key::TopicPartition;
use crate::query::Answer;
use crate::retention::Came;
use crate::units::{Mono, Now};

/// Marks of one forwarder on their way to the disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// They go with the next batch.
    Given,
    Written(CommitToken),
}

/// How far the destinations that retention waits for have come with a partition; `None` when it is forwarded to none of them.
pub(super) fn progress(forward: &[Forward], at: TopicPartition) -> Option<Came> {
    let waited_for = forward.iter().filter(|forward| forward.config().retain);
    let known = waited_for.filter_map(|forward| forward.progress(at));
    let least = known.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)));
    least.map(|(sent, arrived)| Came { sent, arrived })
}

impl Gateway {
    pub(super) fn on_forward(&mut self, dest: DestinationId, act: impl FnOnce(&mut Forward)) {
        if let Some(forward) = self.forward.get_mut(usize::from(dest.0)) {
            act(forward);
        }
    }

    /// A batch leaves for the store, with all marks that were given for it.
    pub(super) fn on_marks_cut(&mut self, token: CommitToken) {
        for marks in self.marks.values_mut() {
            if *marks == Marks::Given {
                *marks = Marks::Written(token);
            }
        }
    }

    /// A batch is durable, and the marks in it.
    pub(super) fn on_marks_durable(&mut self, token: CommitToken) {
        let written = Marks::Written(token);
        let saved = self.marks.extract_if(.., |_, marks| *marks == written);
        for (dest, _) in saved {
            if let Some(forward) = self.forward.get_mut(usize::from(dest.0)) {
                forward.on_saved();
            }
        }
    }

    /// What no broker takes, of all destinations.
    pub(super) fn dead_letters(&self) -> Value {
        let all = self.forward.iter().flat_map(|forward| {
            let name = forward.config().name.as_str();
            forward.dead_letters().into_iter().map(move |mut letter| {
                letter["destination"] = json!(name);
                letter
            })
        });
        json!({ "parked": all.collect::<Value>() })
    }

    /// Sends dead letters once more; how many records these are.
    pub(super) fn retry_dead_letters(&mut self, destination: Option<&str>) -> Answer {
        let names = self.forward.iter().map(|f| f.config().name.as_str());
        let names: Vec<&str> = names.collect();
        if let Some(unknown) = destination.filter(|name| !names.contains(name)) {
            return Err(format!(
                "no destination is called \"{unknown}\": there are {}",
                names.join(", ")
            ));
        }
        let mut records = 0;
        for forward in &mut self.forward {
            if destination.is_none_or(|name| name == forward.config().name) {
                records += forward.retry_dead_letters();
            }
        }
        Ok(json!({ "records": records }).into())
    }

    /// Lets each forwarder say what it wants next.
    pub(super) fn advance_forward(&mut self, now: Now) {
        let utc = self.clock.is_trusted().then_some(now.utc);
        for forward in &mut self.forward {
            forward.on_clock(utc, self.config.clock.not_before);
            forward.on_utc(now.utc);
            let note = forward.take_note();
            self.effects.extend(note.map(Note).map(Effect::Note));
        }
        for dest in (0..self.forward.len()).filter_map(|n| u8::try_from(n).ok()) {
            let dest = DestinationId(dest);
            while let Some(action) = self.forward[usize::from(dest.0)].poll(now.mono) {
                self.act(dest, action, now.mono);
            }
        }
    }

    fn act(&mut self, dest: DestinationId, action: ForwardAction, now: Mono) {
        match action {
            ForwardAction::Fetch { at, from } => self.fetch(at, from, Reader::Forward(dest, at)),
            ForwardAction::Publish {
                conn,
                send,
                topic,
                payload,
                user_properties,
            } => self.effects.push_back(Effect::Publish {
                dest,
                conn,
                send,
                topic,
                payload,
                user_properties,
            }),
            ForwardAction::Reset { conn, why } => {
                self.effects.push_back(Effect::BrokerReset(dest, conn, why));
            }
            ForwardAction::SaveMarks(entries) => {
                self.marks.insert(dest, Marks::Given);
                for (key, value) in entries {
                    self.commit.meta(key, value, now);
                }
            }
        }
    }
}
