//! Names in the folder of the files sink: `agent/node/docs/files-sink.md` has the table.
//!
//! Always holds: a name that [`parse_state`] or [`parse_part`] takes is one that we write.
//! Knows no bytes of these files.

use std::path::{Path, PathBuf};

use forebay_core::payload::GatewayName;
use forebay_core::units::EventTime;
use forebay_core::utc::time_value;

use super::table::Kept;
use crate::export::Format;

/// Folder of the state. Engines that read folders pass over names with `_`.
pub(super) const STATE_DIR: &str = "_forebay";
/// What Hive and Spark name a partition whose column has no value.
const NO_DATE: &str = "__HIVE_DEFAULT_PARTITION__";
const PART: &str = "part-";
const TEMPORARY: &str = ".tmp";

/// Number of a commit, from 1 on without a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepNo(pub u64);

/// Number of a manifest, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManifestNo(pub u64);

/// A file in [`STATE_DIR`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StateFile {
    Step(StepNo),
    Manifest(ManifestNo),
    /// A data file that has no name of its own yet: which one of its manifest.
    Part(ManifestNo, u32),
    /// A step or a manifest that is not whole.
    Unfinished,
}

pub(super) fn state_dir(folder: &Path) -> PathBuf {
    folder.join(STATE_DIR)
}

pub(super) fn step_name(step: StepNo) -> String {
    format!("step-{:012}", step.0)
}

pub(super) fn manifest_name(manifest: ManifestNo) -> String {
    format!("manifest-{:012}", manifest.0)
}

pub(super) fn part_name(manifest: ManifestNo, part: u32) -> String {
    format!("{PART}{:012}-{part:05}{TEMPORARY}", manifest.0)
}

pub(super) fn unfinished(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

/// What a name in [`STATE_DIR`] stands for; `None` for one that is not ours.
pub(super) fn parse_state(name: &str) -> Option<StateFile> {
    if let Some(whole) = name.strip_suffix(TEMPORARY) {
        if let Some(part) = whole.strip_prefix(PART) {
            let (manifest, part) = part.split_once('-')?;
            let part = u32::try_from(number(part)?).ok()?;
            return Some(StateFile::Part(ManifestNo(number(manifest)?), part));
        }
        parse_state(whole)?;
        return Some(StateFile::Unfinished);
    }
    let step = name.strip_prefix("step-");
    let step = step.and_then(number).map(|n| StateFile::Step(StepNo(n)));
    let manifest = || {
        let digits = name.strip_prefix("manifest-")?;
        Some(StateFile::Manifest(ManifestNo(number(digits)?)))
    };
    step.or_else(manifest)
}

fn number(digits: &str) -> Option<u64> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten()
}

/// The day of a record in UTC: what stands behind `date=`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(String);

impl Day {
    /// A time outside the years 1 to 9999 has none.
    pub(super) fn of(time: Option<EventTime>) -> Self {
        let text = time.map(time_value);
        let text = text.as_ref().and_then(|value| value.as_str());
        let day = text.and_then(|text| text.get(..10));
        Self(day.unwrap_or(NO_DATE).to_owned())
    }

    /// Whether a record of a time in `[from, to)` may be of this day.
    pub(super) fn may_hold(&self, from: Option<EventTime>, to: Option<EventTime>) -> bool {
        if self.0 == NO_DATE {
            return true;
        }
        let last = to.map(|to| EventTime(to.0.saturating_sub(1)));
        let text = |time: EventTime| time_value(time).as_str().map(|text| text[..10].to_owned());
        let after = from.and_then(text).is_none_or(|first| self.0 >= first);
        after && last.and_then(text).is_none_or(|last| self.0 <= last)
    }

    pub(super) fn parse(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Where a data file stands, from the folder on, but for its name.
pub(super) fn part_dir(kept: Kept, day: &Day, gateway: &GatewayName) -> PathBuf {
    let dir = PathBuf::from(kept.name());
    let dir = match kept.is_dated() {
        true => dir.join(format!("date={}", day.0)),
        false => dir,
    };
    dir.join(format!("gateway={gateway}"))
}

/// Where the data file `part` of a manifest stands in the end, from the folder on.
pub(super) fn part_path(dir: &Path, manifest: ManifestNo, part: u32, format: Format) -> PathBuf {
    let end = match format {
        Format::Csv => "csv",
        Format::Ndjson => "ndjson",
        Format::Parquet => "parquet",
    };
    dir.join(format!("{PART}{:012}-{part:05}.{end}", manifest.0))
}

/// How a data file is written, from its name; `None` when it is none of ours.
pub(super) fn parse_part(name: &str) -> Option<Format> {
    let (stem, end) = name.strip_prefix(PART)?.rsplit_once('.')?;
    let (manifest, part) = stem.split_once('-')?;
    number(manifest).and(number(part))?;
    match end {
        "parquet" => Some(Format::Parquet),
        "ndjson" => Some(Format::Ndjson),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for (name, want) in [
            (step_name(StepNo(7)), Some(StateFile::Step(StepNo(7)))),
            (
                step_name(StepNo(u64::MAX)),
                Some(StateFile::Step(StepNo(u64::MAX))),
            ),
            (
                manifest_name(ManifestNo(1)),
                Some(StateFile::Manifest(ManifestNo(1))),
            ),
            (
                part_name(ManifestNo(12), 3),
                Some(StateFile::Part(ManifestNo(12), 3)),
            ),
            (
                unfinished(&step_name(StepNo(8))),
                Some(StateFile::Unfinished),
            ),
            ("lock".to_owned(), None),
            ("step-+7".to_owned(), None),
            ("step-".to_owned(), None),
            ("part-1.tmp".to_owned(), None),
            ("other.tmp".to_owned(), None),
        ] {
            assert_eq!(parse_state(&name), want, "{name}");
        }
        let dir = Path::new("readings/date=2026-03-01/gateway=g");
        for (format, want) in [
            (Format::Parquet, Some(Format::Parquet)),
            (Format::Ndjson, Some(Format::Ndjson)),
            (Format::Csv, None),
        ] {
            let path = part_path(dir, ManifestNo(4), 2, format);
            let name = path.file_name().and_then(|name| name.to_str()).unwrap();
            assert_eq!(parse_part(name), want, "{name}");
        }
        assert_eq!(parse_part("part-x-1.parquet"), None);
    }

    #[test]
    fn a_day_holds_its_times_only() {
        let at = |text: &str| forebay_core::utc::parse(text);
        let day = Day::of(at("2026-03-01T12:00:00Z"));
        let next = at("2026-03-02T00:00:00Z");
        let noon = at("2026-03-01T12:00:00Z");
        let start = at("2026-03-01T00:00:00Z");
        for (name, from, to, want) in [
            ("all", None, None, true),
            ("from its noon", noon, None, true),
            ("from the next day", next, None, false),
            ("to its start", None, start, false),
            ("to its noon", None, noon, true),
            ("before the next day", start, next, true),
        ] {
            assert_eq!(day.may_hold(from, to), want, "{name}");
        }
        let none = Day::of(Some(EventTime(i64::MAX)));
        assert_eq!(none, Day::parse(NO_DATE));
        assert!(none.may_hold(next, None));
    }
}
