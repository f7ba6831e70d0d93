//! The sentences of alarms: what is wrong, where, and what to do. Decides nothing.

use super::facts::{BacklogFacts, DestinationFacts, TopicFacts};
use super::stalled::{DeviceFacts, Silence};
use crate::limits::ALARM_TEXT_CHARS_MAX;
use crate::retention::{WhenFull, size};
use crate::units::{EventTime, Mono};
use crate::utc;

/// A time as it is written everywhere.
fn time(time: EventTime) -> String {
    let mut out = Vec::new();
    utc::write_json(time, &mut out);
    String::from_utf8_lossy(&out).trim_matches('"').to_owned()
}

/// A length of time for people.
pub(super) fn span(us: u64) -> String {
    let units = [
        ("d", 86_400_000_000_u64),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ];
    let unit = units
        .iter()
        .find(|(_, length)| us >= 2 * length || us == *length);
    match unit {
        Some((name, length)) => format!("{} {name}", us / length),
        None => format!("{us} us"),
    }
}

/// What others said, at most so long that a row takes it.
pub(super) fn cut(text: &str) -> &str {
    let end = text.char_indices().nth(ALARM_TEXT_CHARS_MAX);
    end.map_or(text, |(end, _)| &text[..end])
}

pub(super) fn stalled(device: &DeviceFacts, silence: Silence, now: Mono) -> String {
    let silent = span(now.0.saturating_sub(silence.since.0));
    let expected = span(silence.expected.0.unsigned_abs());
    let what = if silence.came {
        format!("no record for {silent}, one each {expected} was expected")
    } else {
        format!("no record since the start {silent} ago, one each {expected} was expected")
    };
    let last = device.last.map_or(String::new(), |last| {
        format!("; its newest reading is of {}", time(last))
    });
    let help = if !device.connected {
        "it is on no port: see its power and its cable"
    } else if device
        .health_at
        .is_some_and(|at| now.0.saturating_sub(at.0) < 60_000_000)
    {
        "it is connected and says its health: see its sensors, and `forebay device show`"
    } else {
        "its port is open and it says nothing: see its power, and `forebay device log`"
    };
    let sleeps = if silence.is_announced {
        "; if it sleeps between, say how long by `expect_every` in its [[device]]"
    } else {
        ""
    };
    format!("{what}{last}; {help}{sleeps}")
}

pub(super) fn all_stalled(devices: usize, since: Mono, now: Mono) -> String {
    let silent = span(now.0.saturating_sub(since.0));
    format!(
        "none of the {devices} devices has brought a record for {silent}: see the USB hub, its \
         power, and `forebay status`"
    )
}

pub(super) fn near_full(topic: &TopicFacts) -> String {
    let then = match topic.when_full {
        WhenFull::DropOldest => "its oldest records are dropped",
        WhenFull::RejectNew => "new records are rejected",
        WhenFull::Block => "devices have to wait",
    };
    format!(
        "{} of its {} are used: when it is full, {then}; see that it is forwarded, or give it a \
         larger quota",
        size(topic.used_bytes),
        size(topic.quota_bytes),
    )
}

pub(super) fn full(topic: &TopicFacts) -> String {
    let what = match topic.when_full {
        WhenFull::RejectNew => "new records are rejected and counted",
        WhenFull::Block | WhenFull::DropOldest => "devices wait with new readings",
    };
    format!(
        "it is full ({} of {}, or the disk is at its reserve): {what} until what it holds was \
         forwarded; see the destinations, or give it a larger quota",
        size(topic.used_bytes),
        size(topic.quota_bytes),
    )
}

pub(super) fn backlog(destination: &DestinationFacts, worst: &BacklogFacts) -> String {
    let standing = &destination.standing;
    let eta = match standing.eta_s {
        Some(eta) => format!("at the rate of now it is sent in {}", span(eta * 1_000_000)),
        None => String::from("nothing of it is being sent"),
    };
    let why = standing
        .stall
        .map_or(String::new(), |why| format!(" ({why})"));
    format!(
        "topic {} waits with {}, {} % of the {} that the log can keep of it, then the oldest is \
         lost or new records have to wait; {eta}{why}: see `forebay status` and the broker",
        worst.topic,
        size(worst.bytes),
        worst.percent(),
        size(worst.room_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (us, want) in [
            (0, "0 us"),
            (10_000, "10 ms"),
            (1_000_000, "1 s"),
            (1_500_000, "1500 ms"),
            (90_000_000, "90 s"),
            (60_000_000, "1 min"),
            (7_200_000_000, "2 h"),
            (86_400_000_000, "1 d"),
        ] {
            assert_eq!(span(us), want);
        }
    }

    #[test]
    fn what_others_said_at_its_limit() {
        for count in [
            ALARM_TEXT_CHARS_MAX - 1,
            ALARM_TEXT_CHARS_MAX,
            ALARM_TEXT_CHARS_MAX + 1,
        ] {
            let text = "é".repeat(count);
            let kept = cut(&text).chars().count();
            assert_eq!(kept, count.min(ALARM_TEXT_CHARS_MAX));
        }
    }
}
