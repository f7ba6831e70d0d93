//! Messages that wait to be published by the subscriber.
//!
//! Always holds: first in first out; a newer retained message takes the place
//! of an older one on its topic, whose reader would see only the newer anyway.
//! Bound: WAITING_PUBLISHES_MAX messages.

use std::collections::{BTreeMap, VecDeque};

use super::limits::WAITING_PUBLISHES_MAX;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) payload: Vec<u8>,
    pub(super) retain: bool,
}

#[derive(Debug)]
pub(super) struct Outbox {
    order: VecDeque<(String, Option<Waiting>)>,
    /// Latest retained message per topic; its place in `order` is empty.
    retained: BTreeMap<String, Waiting>,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            order: VecDeque::new(),
            retained: BTreeMap::new(),
        }
    }

    /// Whether one more message surely fits.
    pub(super) fn has_room(&self) -> bool {
        self.order.len() < WAITING_PUBLISHES_MAX
    }

    pub(super) fn push(&mut self, topic: String, payload: Vec<u8>, retain: bool) {
        let waiting = Waiting { payload, retain };
        if !retain {
            self.order.push_back((topic, Some(waiting)));
        } else if self.retained.insert(topic.clone(), waiting).is_none() {
            self.order.push_back((topic, None));
        }
    }

    pub(super) fn pop(&mut self) -> Option<(String, Waiting)> {
        let (topic, waiting) = self.order.pop_front()?;
        let waiting = waiting.or_else(|| self.retained.remove(&topic))?;
        Some((topic, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(outbox: &mut Outbox) -> Option<(String, u8)> {
        outbox
            .pop()
            .map(|(topic, waiting)| (topic, waiting.payload[0]))
    }

    #[test]
    fn only_the_latest_retained_message_of_a_topic_waits() {
        let mut outbox = Outbox::new();
        outbox.push("a".into(), vec![1], true);
        outbox.push("b".into(), vec![2], true);
        outbox.push("a".into(), vec![3], true);
        outbox.push("c".into(), vec![4], false);
        outbox.push("c".into(), vec![5], false);
        let all: Vec<_> = std::iter::from_fn(|| next(&mut outbox)).collect();
        let want = [("a", 3), ("b", 2), ("c", 4), ("c", 5)];
        assert_eq!(all, want.map(|(t, n)| (t.to_owned(), n)));
    }

    #[test]
    fn the_bound_is_exact() {
        let mut outbox = Outbox::new();
        for n in 0..WAITING_PUBLISHES_MAX {
            assert!(outbox.has_room(), "at {n}");
            outbox.push(format!("t{n}"), vec![0], true);
        }
        assert!(!outbox.has_room());
        outbox.pop();
        assert!(outbox.has_room());
    }
}
