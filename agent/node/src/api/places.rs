//! Places in several streams at once, as ids of events have them:
//! `readings@0=0:12,1:7;minute@17=0:3`, each stream with the topic that it was read from,
//! so that one that was made anew meanwhile is read to its end first.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forebay_core::follow::{FollowFrom, place_text};
use forebay_core::units::{Offset, PartitionId, TopicId};

use super::limits::STREAMS_PER_REQUEST_MAX;

/// Longest id of an event: each stream has at most 17 partitions.
const TEXT_BYTES_MAX: usize = 4096;
/// What an id looks like that clients make up, for the document.
pub(super) const PATTERN: &str =
    "^(now|beginning|[A-Za-z0-9._-]{1,64}@[0-9]{1,4}=[0-9]{1,2}:[0-9]{1,15})$";

/// A place in one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stream: String,
    pub(super) topic: TopicId,
    pub(super) next: BTreeMap<PartitionId, Offset>,
}

impl Place {
    /// Moves behind a row.
    pub(super) fn pass(&mut self, partition: u64, offset: u64) {
        let partition = PartitionId(u16::try_from(partition).unwrap_or_default());
        self.next
            .insert(partition, Offset(offset.saturating_add(1)));
    }
}

/// Where a client begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    Beginning,
    Now,
    /// Other streams begin now.
    At(Vec<Place>),
}

impl Start {
    /// Reads `now`, `beginning`, or the id of an event.
    ///
    /// # Errors
    /// What follows the text in a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            String::from("must be now, beginning, or the id of an event, such as readings@0=0:12")
        };
        match text {
            "now" => return Ok(Self::Now),
            "beginning" => return Ok(Self::Beginning),
            _ => {}
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(wrong());
        }
        let mut places: Vec<Place> = Vec::new();
        for part in text.split(';') {
            let place = one(part).ok_or_else(wrong)?;
            let again = places.iter().any(|known| known.stream == place.stream);
            if again || places.len() == STREAMS_PER_REQUEST_MAX {
                return Err(wrong());
            }
            places.push(place);
        }
        Ok(Self::At(places))
    }

    /// Where to begin in one stream.
    pub(super) fn of(&self, stream: &str) -> (FollowFrom, Option<TopicId>) {
        match self {
            Self::Beginning => (FollowFrom::Beginning, None),
            Self::Now => (FollowFrom::Now, None),
            Self::At(places) => {
                let found = places.iter().find(|place| place.stream == stream);
                found.map_or((FollowFrom::Now, None), |place| {
                    (FollowFrom::At(place.next.clone()), Some(place.topic))
                })
            }
        }
    }
}

fn one(part: &str) -> Option<Place> {
    let (name, place) = part.split_once('=')?;
    let (stream, topic) = name.rsplit_once('@')?;
    let next = match place {
        // A stream without a row has no place yet.
        "" => BTreeMap::new(),
        _ => match FollowFrom::parse(place) {
            Ok(FollowFrom::At(next)) => next,
            Ok(FollowFrom::Beginning | FollowFrom::Now) | Err(_) => return None,
        },
    };
    (!stream.is_empty()).then_some(Place {
        stream: stream.to_owned(),
        topic: TopicId(topic.parse().ok()?),
        next,
    })
}

/// The id of an event.
pub(super) fn id(places: &[Place]) -> String {
    let mut text = String::new();
    for place in places {
        let between = if text.is_empty() { "" } else { ";" };
        let next = place_text(&place.next);
        // Writing to a String cannot fail.
        let _ = write!(text, "{between}{}@{}={next}", place.stream, place.topic.0);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back() {
        let place = |stream: &str, topic: u16, next: &[(u16, u64)]| Place {
            stream: stream.to_owned(),
            topic: TopicId(topic),
            next: next
                .iter()
                .map(|(partition, offset)| (PartitionId(*partition), Offset(*offset)))
                .collect(),
        };
        let places = vec![
            place("readings", 0, &[(0, 12), (1, 7)]),
            place("temp.1", 17, &[]),
        ];
        let text = id(&places);
        assert_eq!(text, "readings@0=0:12,1:7;temp.1@17=");
        let start = Start::parse(&text).unwrap();
        assert_eq!(start, Start::At(places.clone()));
        let (from, topic) = start.of("readings");
        assert_eq!(from, FollowFrom::At(places[0].next.clone()));
        assert_eq!(topic, Some(TopicId(0)));
        assert_eq!(start.of("other"), (FollowFrom::Now, None));
        assert_eq!(Start::parse("now"), Ok(Start::Now));
        assert_eq!(Start::parse("beginning"), Ok(Start::Beginning));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let most: Vec<String> = (0..STREAMS_PER_REQUEST_MAX)
            .map(|n| format!("s{n}@{n}=0:1"))
            .collect();
        let most = most.join(";");
        assert!(Start::parse(&most).is_ok());
        for text in [
            "",
            "12",
            "a",
            "a=1",
            "@1=0:1",
            "a@x=0:1",
            "a@1=now",
            "a@1=x",
            "a@70000=0:1",
            "a@1=0:1;a@1=0:1",
            "a@1=0:1;",
            &format!("{most};x@9=0:1"),
            &"a@1=0:1,".repeat(1000),
        ] {
            assert!(Start::parse(text).is_err(), "{text}");
        }
    }
}
