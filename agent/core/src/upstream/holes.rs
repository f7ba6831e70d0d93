//! Holes in what was applied, and when to ask the gateway to send again.
//!
//! A broker may drop what it had acked, from a full queue for example, without a
//! word to either side. Then what comes later is applied and a hole stays: here it
//! is seen.
//!
//! Always holds: a hole that does not close is asked for after HOLE_PATIENCE_US,
//! then after twice as long each time, RESENDS_MAX times; one that gets smaller
//! starts anew: what a gateway that sends its newest data first fills in is not asked
//! for, and what is lost of that is. Bound: one entry per partition that has a hole. Reads no clock.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::Source;
use crate::limits::{HOLE_PATIENCE_US, RESENDS_MAX};
use crate::payload::{Command, GatewayName};
use crate::units::{Mono, Offset};

#[derive(Debug)]
struct Hole {
    from: Offset,
    until: Offset,
    /// `None` when it was asked for often enough.
    ask_at: Option<Mono>,
    asked: u32,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Holes {
    holes: BTreeMap<Source, Hole>,
    due: BTreeSet<(Mono, Source)>,
}

impl Holes {
    /// The first hole of a partition: `until` is where the first of what is known
    /// behind it begins; not above `from` when there is none.
    pub fn note(&mut self, source: &Source, from: Offset, until: Offset, now: Mono) {
        let known = self.holes.get(source);
        let is_open = from < until;
        if known.is_some_and(|hole| is_open && (hole.from, hole.until) == (from, until)) {
            return;
        }
        if let Some(old) = self.holes.remove(source)
            && let Some(at) = old.ask_at
        {
            self.due.remove(&(at, source.clone()));
        }
        if is_open {
            let ask_at = Mono(now.0.saturating_add(HOLE_PATIENCE_US));
            self.due.insert((ask_at, source.clone()));
            let hole = Hole {
                from,
                until,
                ask_at: Some(ask_at),
                asked: 0,
            };
            self.holes.insert(source.clone(), hole);
        }
    }

    /// Partitions of a gateway that have a hole.
    #[must_use]
    pub fn of(&self, gateway: &GatewayName) -> Vec<Source> {
        let first = Source::first_of(gateway);
        let holes = self.holes.range(first..);
        let holes = holes.take_while(|(source, _)| source.gateway == *gateway);
        holes.map(|(source, _)| source.clone()).collect()
    }

    /// The next partition to ask for, and with what. It counts as asked.
    pub fn poll(&mut self, now: Mono) -> Option<(Source, Command)> {
        if self.next_deadline()? > now {
            return None;
        }
        let (_, source) = self.due.pop_first()?;
        let hole = self.holes.get_mut(&source)?;
        hole.asked += 1;
        hole.ask_at = (hole.asked < RESENDS_MAX).then(|| {
            let wait = HOLE_PATIENCE_US << hole.asked;
            Mono(now.0.saturating_add(wait))
        });
        if let Some(at) = hole.ask_at {
            self.due.insert((at, source.clone()));
        }
        let command = Command::Resend {
            log_id: source.log_id,
            stream: source.stream.clone(),
            partition: source.partition,
            from: hole.from,
        };
        Some((source, command))
    }

    /// When [`Holes::poll`] has something.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Partitions with a hole.
    #[must_use]
    pub fn open(&self) -> usize {
        self.holes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::StreamName;
    use crate::units::{LogId, PartitionId};

    fn source(partition: u16) -> Source {
        Source {
            gateway: GatewayName::new("g").unwrap(),
            log_id: LogId([1; 16]),
            stream: StreamName::new("s").unwrap(),
            partition: PartitionId(partition),
        }
    }

    const P: u64 = HOLE_PATIENCE_US;

    fn asked(holes: &mut Holes, now: u64) -> Option<(u16, u64)> {
        let (source, command) = holes.poll(Mono(now))?;
        let Command::Resend {
            partition, from, ..
        } = command;
        assert_eq!(partition, source.partition);
        Some((partition.0, from.0))
    }

    #[test]
    fn a_hole_is_asked_for_after_a_while_then_less_and_less() {
        let mut holes = Holes::default();
        holes.note(&source(1), Offset(5), Offset(9), Mono(0));
        assert_eq!(asked(&mut holes, P - 1), None);
        let mut now = 0;
        for n in 0..RESENDS_MAX {
            now += P << n;
            assert_eq!(holes.next_deadline(), Some(Mono(now)), "try {n}");
            // Seeing the same hole again changes nothing.
            holes.note(&source(1), Offset(5), Offset(9), Mono(now - 1));
            assert_eq!(asked(&mut holes, now), Some((1, 5)), "try {n}");
            assert_eq!(asked(&mut holes, now), None, "try {n}");
        }
        assert_eq!(holes.next_deadline(), None);
        assert_eq!(holes.open(), 1);
        // Something came between: it is asked for again.
        holes.note(&source(1), Offset(5), Offset(7), Mono(now));
        assert_eq!(asked(&mut holes, now + P), Some((1, 5)));
    }

    #[test]
    fn a_hole_that_is_filled_all_the_time_is_not_asked_for() {
        let mut holes = Holes::default();
        for n in 0..100 {
            let now = n * (P - 1);
            assert_eq!(asked(&mut holes, now), None, "{n}");
            holes.note(&source(1), Offset(n), Offset(1000), Mono(now));
        }
        assert_eq!(holes.of(&source(1).gateway), [source(1)]);
        assert_eq!(holes.of(&GatewayName::new("f").unwrap()), []);
    }

    #[test]
    fn a_hole_that_closes_is_forgotten_and_one_that_moves_starts_anew() {
        let mut holes = Holes::default();
        holes.note(&source(1), Offset(5), Offset(9), Mono(0));
        holes.note(&source(2), Offset(0), Offset(1), Mono(1));
        holes.note(&source(1), Offset(7), Offset(9), Mono(10));
        assert_eq!(asked(&mut holes, P + 9), Some((2, 0)));
        assert_eq!(asked(&mut holes, P + 9), None);
        assert_eq!(asked(&mut holes, P + 10), Some((1, 7)));
        holes.note(&source(1), Offset(9), Offset(9), Mono(P + 20));
        assert_eq!(holes.open(), 1);
        holes.note(&source(2), Offset(1), Offset(1), Mono(P + 20));
        assert_eq!((holes.open(), holes.next_deadline()), (0, None));
    }
}
