//! Sentences about room, each kind of each topic at most once in a while: a topic
//! that goes to and fro does not fill the journal. Bound: one entry per topic.

use std::collections::BTreeMap;

use super::dropped::Behind;
use super::policy::{TopicPolicy, WhenFull};
use super::topic::Topic;
use crate::units::{Mono, TopicId};

/// Shortest time between two sentences of one kind about one topic, us.
const EACH_US: u64 = 600_000_000;

/// What there is to say about one topic.
#[derive(Debug, Default)]
struct Pending {
    alarm: bool,
    full: bool,
    /// Records dropped, and of these not forwarded and not arrived, since the last
    /// sentence.
    dropped: u64,
    unsent: u64,
    unconfirmed: u64,
    said_alarm: Option<Mono>,
    said_full: Option<Mono>,
    /// What the last sentence about fullness said.
    said_is_full: bool,
    is_full: bool,
    said_dropped: Option<Mono>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Notices {
    topics: BTreeMap<TopicId, Pending>,
    disk: Option<String>,
    said_disk: Option<Mono>,
}

fn is_due(said: Option<Mono>, now: Mono) -> bool {
    said.is_none_or(|said| now.0.saturating_sub(said.0) >= EACH_US)
}

impl Notices {
    pub(super) fn dropped(&mut self, topic: TopicId, records: u64, behind: Behind) {
        let pending = self.topics.entry(topic).or_default();
        pending.dropped += records;
        pending.unsent += behind.unsent;
        pending.unconfirmed += behind.unconfirmed;
    }

    /// What is wrong with the disk now, if anything.
    pub(super) fn disk(&mut self, sentence: Option<String>, now: Mono) {
        let due = sentence.is_some() && is_due(self.said_disk, now);
        if due {
            (self.disk, self.said_disk) = (sentence, Some(now));
        }
    }

    pub(super) fn changed(&mut self, id: TopicId, topic: &Topic, now: Mono) {
        let pending = self.topics.entry(id).or_default();
        pending.alarm = topic.alarm && is_due(pending.said_alarm, now);
        pending.is_full = topic.full;
        pending.full = pending.is_full != pending.said_is_full;
    }

    /// The next sentence that is due.
    pub(super) fn poll(
        &mut self,
        topic_of: impl Fn(TopicId) -> Option<(String, TopicPolicy)>,
        now: Mono,
    ) -> Option<String> {
        if let Some(sentence) = self.disk.take() {
            return Some(sentence);
        }
        for (id, pending) in &mut self.topics {
            let Some((name, policy)) = topic_of(*id) else {
                continue;
            };
            let quota = size(policy.quota_bytes);
            if std::mem::take(&mut pending.alarm) {
                pending.said_alarm = Some(now);
                let then = match policy.when_full {
                    WhenFull::DropOldest => "its oldest records are dropped",
                    WhenFull::RejectNew => "new records are rejected",
                    WhenFull::Block => "devices have to wait",
                };
                return Some(format!(
                    "topic {name} has used 80 % of its {quota}: when it is full, {then}"
                ));
            }
            if pending.full && is_due(pending.said_full, now) {
                pending.full = false;
                pending.said_full = Some(now);
                pending.said_is_full = pending.is_full;
                return Some(if pending.is_full {
                    full_sentence(&name, &quota, policy)
                } else {
                    format!("topic {name} has room again and takes new records")
                });
            }
            // Dropping what was forwarded is how a ring lives: said once. What was
            // not forwarded is gone: said again.
            let first = pending.said_dropped.is_none();
            let worth = pending.dropped > 0 && (first || pending.unconfirmed > 0);
            if worth && is_due(pending.said_dropped, now) {
                pending.said_dropped = Some(now);
                return Some(dropped_sentence(&name, pending));
            }
        }
        None
    }
}

/// What went before it had arrived is named: the quota did not let it wait.
fn dropped_sentence(name: &str, pending: &mut Pending) -> String {
    let (records, unsent) = (pending.dropped, pending.unsent);
    let sent = pending.unconfirmed.saturating_sub(unsent);
    (pending.dropped, pending.unsent, pending.unconfirmed) = (0, 0, 0);
    let unconfirmed = if sent > 0 {
        format!(", {sent} sent and not confirmed by the receiver: the quota did not let them wait")
    } else {
        String::new()
    };
    format!(
        "topic {name}: {records} of its oldest records were dropped to make room, {unsent} of \
         them not forwarded{unconfirmed}"
    )
}

fn full_sentence(name: &str, quota: &str, policy: TopicPolicy) -> String {
    let what = match policy.when_full {
        WhenFull::RejectNew => "new records are rejected and counted",
        WhenFull::Block | WhenFull::DropOldest => "devices wait with new readings",
    };
    format!(
        "topic {name} is full ({quota}, or the disk is at its reserve): {what} until what it \
         holds was forwarded; give it a larger quota, or when_full = \"drop_oldest\""
    )
}

/// Bytes for people, in the largest unit that keeps two digits.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >> shift >= 1);
    match unit {
        Some((name, shift)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            if tenths % 10 == 0 {
                format!("{} {name}", tenths / 10)
            } else {
                format!("{}.{} {name}", tenths / 10, tenths % 10)
            }
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_before_it_had_arrived_is_named() {
        for (unsent, unconfirmed, want) in [
            (0, 0, "0 of them not forwarded"),
            (3, 3, "3 of them not forwarded"),
            (
                3,
                5,
                "3 of them not forwarded, 2 sent and not confirmed by the receiver: the quota \
                 did not let them wait",
            ),
        ] {
            let mut pending = Pending {
                dropped: 9,
                unsent,
                unconfirmed,
                ..Pending::default()
            };
            let sentence = dropped_sentence("readings", &mut pending);
            assert!(sentence.ends_with(want), "{sentence}");
            assert_eq!(pending.dropped, 0);
        }
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (8 << 30, "8 GiB"),
            (4_000_000, "3.8 MiB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }
}
