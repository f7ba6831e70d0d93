//! Which channels a request is of: names of devices and channels, found in the catalog.

use std::collections::BTreeSet;

use forebay_core::live::ChannelKey;
use forebay_core::query::{Catalog, CatalogEntry};

use super::given::Given;
use super::limits::KEYS_MAX;
use super::problem::{Kind, Problem, shown};

/// Names that an error lists.
const LISTED_MAX: usize = 12;

/// The channels of the request, in the order of the catalog.
///
/// # Errors
/// When a name is unknown, with those that there are; or there are too many channels.
pub(super) fn channels<'a>(
    catalog: &'a Catalog,
    given: &Given,
) -> Result<Vec<&'a CatalogEntry>, Problem> {
    let devices: Vec<&str> = given.all("device").collect();
    let channels: Vec<&str> = given.all("channel").collect();
    let uids: Vec<String> = devices
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    let of_device = |entry: &CatalogEntry, at: usize| {
        *entry.device == *devices[at] || entry.key.uid.to_string() == uids[at]
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

pub(super) fn keys(entries: &[&CatalogEntry]) -> Vec<ChannelKey> {
    entries.iter().map(|entry| entry.key.clone()).collect()
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: BTreeSet<&str> = known.collect();
    let near = crate::config::error::did_you_mean(name, known.iter().copied());
    let listed: Vec<&str> = known.iter().copied().take(LISTED_MAX).collect();
    let more = known.len().saturating_sub(listed.len());
    let there_are = match (listed.len(), more) {
        (0, _) => String::from("the log has no reading yet"),
        (_, 0) => format!("there are {}", listed.join(", ")),
        (_, more) => format!("there are {} and {more} more", listed.join(", ")),
    };
    let name = shown(name);
    let detail = format!("no {what} is called \"{name}\"{near}: {there_are}");
    Problem::new(Kind::NoSuchName, detail)
}
