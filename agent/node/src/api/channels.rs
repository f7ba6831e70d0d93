//! Which channels a request is of: names of devices and channels, found in the catalog.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::live::ChannelKey;
use forebay_core::near::{did_you_mean_name, listed};
use forebay_core::query::{Catalog, CatalogEntry, parse_uid};
use tokio::time::Instant;

use super::given::Given;
use super::limits::{CATALOG_AGE_MAX, KEYS_MAX};
use super::problem::{Kind, Problem, shown};
use super::{App, ask};

/// Names that an error lists.
pub(super) const LISTED_MAX: usize = 12;

/// The channels of the request, in the order of the catalog. Where a device is named, one
/// that is up to [`CATALOG_AGE_MAX`] old does, unless it does not know all names.
///
/// # Errors
/// When a name is unknown, with those that there are; or there are too many channels.
pub(super) async fn resolve(app: &App, given: &Given) -> Result<Vec<CatalogEntry>, Problem> {
    let of = |catalog: &Catalog| {
        let found = channels(catalog, given)?;
        Ok(found.into_iter().cloned().collect())
    };
    let kept = app.catalog.get(Instant::now());
    if let Some(catalog) = kept.filter(|_| given.all("device").next().is_some())
        && let Ok(found) = of(&catalog)
    {
        return Ok(found);
    }
    let catalog = app.reads.catalog().await.map_err(ask::problem)?;
    app.catalog.keep(&catalog, Instant::now());
    of(&catalog)
}

/// The catalog as it was a moment ago: to make one costs the agent's loop time.
#[derive(Debug, Default)]
pub(super) struct KeptCatalog(Mutex<Option<(Instant, Arc<Catalog>)>>);

impl KeptCatalog {
    fn get(&self, now: Instant) -> Option<Arc<Catalog>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, catalog) = kept.as_ref()?;
        let age = now.saturating_duration_since(*at);
        (age < CATALOG_AGE_MAX).then(|| Arc::clone(catalog))
    }

    fn keep(&self, catalog: &Arc<Catalog>, now: Instant) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((now, Arc::clone(catalog)));
    }
}

fn channels<'a>(catalog: &'a Catalog, given: &Given) -> Result<Vec<&'a CatalogEntry>, Problem> {
    let devices: Vec<&str> = given.all("device").collect();
    let channels: Vec<&str> = given.all("channel").collect();
    let uids: Vec<_> = devices.iter().map(|name| parse_uid(name)).collect();
    let of_device = |entry: &CatalogEntry, at: usize| {
        *entry.device == *devices[at] || Some(entry.key.uid) == uids[at]
    };
    for (at, name) in devices.iter().enumerate() {
        if !catalog.channels.iter().any(|entry| of_device(entry, at)) {
            let known = catalog.channels.iter().map(|entry| &*entry.device);
            return Err(unknown("device", name, known));
        }
    }
    let ours = |entry: &&CatalogEntry| {
        devices.is_empty() || (0..devices.len()).any(|at| of_device(entry, at))
    };
    let of_devices: Vec<&CatalogEntry> = catalog.channels.iter().filter(ours).collect();
    for name in &channels {
        if !of_devices.iter().any(|entry| *entry.key.channel == **name) {
            let known = of_devices.iter().map(|entry| &*entry.key.channel);
            return Err(unknown("channel", name, known));
        }
    }
    let wanted = |entry: &&CatalogEntry| {
        channels.is_empty() || channels.iter().any(|name| *entry.key.channel == **name)
    };
    let found: Vec<_> = of_devices.into_iter().filter(wanted).collect();
    if found.len() > KEYS_MAX {
        let detail = format!(
            "that is {} channels, and one answer is of at most {KEYS_MAX}: name some with device \
             and channel",
            found.len()
        );
        return Err(Problem::new(Kind::TooMuch, detail));
    }
    Ok(found)
}

pub(super) fn keys(entries: &[CatalogEntry]) -> Vec<ChannelKey> {
    entries.iter().map(|entry| entry.key.clone()).collect()
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: BTreeSet<&str> = known.collect();
    let near = did_you_mean_name(name, known.iter().copied());
    let there_are = match listed(known, LISTED_MAX) {
        None => String::from("the log has no reading yet"),
        Some(names) => format!("there are {names}"),
    };
    let name = shown(name);
    let detail = format!("no {what} is called \"{name}\"{near}: {there_are}");
    Problem::new(Kind::NoSuchName, detail)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_core::units::EventTime;
    use forebay_wire::ids::DeviceUid;

    use super::super::endpoints::READINGS;
    use super::*;

    fn catalog(channels: usize) -> Catalog {
        let entry = |n: usize| CatalogEntry {
            key: ChannelKey {
                uid: DeviceUid((n as u64 / 2).to_be_bytes()),
                channel: if n.is_multiple_of(2) {
                    "a".into()
                } else {
                    "b".into()
                },
            },
            device: format!("d{}", n / 2).into(),
            unit: "".into(),
            newest: EventTime(0),
            value: None,
            count: 1,
        };
        Catalog {
            gateway: "gw".into(),
            channels: (0..channels).map(entry).collect(),
            windows: Vec::new(),
            streams: Vec::new(),
            now: EventTime(0),
        }
    }

    fn found(channels_in_all: usize, query: &str) -> Result<usize, Problem> {
        let given = Given::read(&READINGS, Some(query), EventTime(0)).unwrap();
        channels(&catalog(channels_in_all), &given).map(|found| found.len())
    }

    #[test]
    fn names_and_uids_find_channels() {
        for (name, query, want) in [
            ("all", "", Ok(8)),
            ("a device", "device=d1", Ok(2)),
            ("its uid", "device=0000000000000001", Ok(2)),
            ("twice the same", "device=d1&device=0000000000000001", Ok(2)),
            ("a channel of all", "channel=a", Ok(4)),
            ("one", "device=d1&channel=a", Ok(1)),
            (
                "a channel too much",
                "device=d1&channel=a&channel=c",
                Err("there are a, b"),
            ),
            ("no device", "device=d9", Err("there are d0, d1, d2, d3")),
        ] {
            let got = found(8, query);
            match (got, want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{name}"),
                (Err(problem), Err(word)) => {
                    assert!(problem.detail.contains(word), "{name}: {}", problem.detail);
                }
                (got, want) => panic!("{name}: {got:?} {want:?}"),
            }
        }
    }

    #[test]
    fn channels_of_one_answer_have_a_limit() {
        for (count, good) in [
            (KEYS_MAX - 1, true),
            (KEYS_MAX, true),
            (KEYS_MAX + 1, false),
        ] {
            let got = found(count, "");
            assert_eq!(got.is_ok(), good, "{count}");
            assert!(got.is_ok_and(|got| got == count) || !good);
        }
    }

    #[test]
    fn a_catalog_is_kept_for_a_moment() {
        let kept = KeptCatalog::default();
        let now = Instant::now();
        assert_eq!(kept.get(now), None);
        kept.keep(&Arc::new(catalog(1)), now);
        let nearly = CATALOG_AGE_MAX - Duration::from_nanos(1);
        assert!(kept.get(now + nearly).is_some());
        assert_eq!(kept.get(now + CATALOG_AGE_MAX), None);
    }
}
