//! From the bytes of a message or a line to the changes of one table.
//!
//! Always holds: what cannot be used is counted and told with its place, and the next
//! goes on. Bound: the bytes that are handed in. Knows no connection and no file.

use std::sync::Arc;
use std::time::Instant;

use forebay_core::effect::{SourceEvent, SourcePosition};
use forebay_core::units::EventTime;

use super::debezium::position::{Repeats, Seen};
use super::debezium::{self, Event, Op, Rules, Said};
use super::figures::{Figures, Teller};

/// One message or line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    /// As errors name it.
    pub(super) name: &'a str,
    /// Where the source has it: the beginning of its events' positions.
    pub(super) place: &'a str,
    /// The row's key, where something beside the bytes says it.
    pub(super) key: Option<&'a str>,
    pub(super) bytes: &'a [u8],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Reader {
    rules: Rules,
    table: Arc<str>,
    repeats: Repeats,
    figures: Arc<Figures>,
    teller: Teller,
}

impl Reader {
    pub(super) fn new(rules: Rules, repeats: Repeats, figures: Arc<Figures>) -> Self {
        Self {
            table: rules.table.as_str().into(),
            rules,
            repeats,
            figures,
            teller: Teller::default(),
        }
    }

    /// Which events of the database were seen so far.
    pub(super) fn repeats(&self) -> &Repeats {
        &self.repeats
    }

    /// Appends what a piece says to `out`; what does not say when happened now. Gives
    /// what an operator should read.
    pub(super) fn take(
        &mut self,
        piece: Piece<'_>,
        now: (EventTime, Instant),
        out: &mut Vec<SourceEvent>,
    ) -> Option<String> {
        self.figures.count_read();
        match debezium::read(&self.rules, piece.key, piece.bytes) {
            Err(what) => self.refuse(piece.name, &what, now.1),
            Ok(Said::Passed(_)) => {
                self.figures.count_passed();
                None
            }
            Ok(Said::Events(events)) => self.take_events(piece, events, now.0, out),
        }
    }

    /// Counts a piece that cannot be used.
    pub(super) fn refuse(&mut self, name: &str, what: &str, now: Instant) -> Option<String> {
        let error = format!("{name} {what}: passed over");
        self.figures.count_malformed(&error);
        self.teller.tell(&error, now)
    }

    /// Counts a piece that was sent again.
    pub(super) fn count_repeated(&self) {
        self.figures.count_repeated();
    }

    fn take_events(
        &mut self,
        piece: Piece<'_>,
        events: Vec<Event>,
        now: EventTime,
        out: &mut Vec<SourceEvent>,
    ) -> Option<String> {
        // All events of a piece are of one change in the database.
        let at = events.first().and_then(|event| event.at.as_ref());
        let seen = self.repeats.see(at);
        let note = match seen {
            Seen::Later | Seen::New => None,
            Seen::Repeated => {
                self.figures.count_repeated();
                return None;
            }
            Seen::Restarted => Some(format!(
                "{}: the database's positions begin anew: it was restored, or another one took over; its changes are taken",
                piece.name
            )),
        };
        for (number, event) in events.into_iter().enumerate() {
            let shown = event.at.map(|at| format!(" {}", at.shown));
            let shown = shown.unwrap_or_default();
            let position = format!("{}.{number}{shown}", piece.place);
            let position = SourcePosition(position.into());
            let may_repeat = seen != Seen::Later;
            out.push(self.event((event.op, may_repeat), event.time.unwrap_or(now), position));
        }
        note
    }

    fn event(
        &self,
        (op, may_repeat): (Op, bool),
        time: EventTime,
        position: SourcePosition,
    ) -> SourceEvent {
        let table = self.table.clone();
        match op {
            Op::Upsert {
                key,
                before,
                after,
                is_insert,
                unchanged,
            } => SourceEvent::Upsert {
                table,
                key: key.map(Into::into),
                time,
                before: before.map(Into::into),
                after: after.into(),
                position,
                // What may have come before is for the core to compare.
                is_insert: is_insert.filter(|_| !may_repeat),
                unchanged: unchanged.into_iter().map(Into::into).collect(),
            },
            Op::Delete { key, before } => SourceEvent::Delete {
                table,
                key: key.into(),
                time,
                before: before.map(Into::into),
                position,
            },
            Op::Truncate => SourceEvent::Truncate {
                table,
                time,
                position,
            },
            Op::Heartbeat => SourceEvent::Heartbeat { time, position },
        }
    }
}
