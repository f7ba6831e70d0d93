//! The windows that an engine gave for the bench's file, in one form, to be compared.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;

use super::limits::PEER_MEAN_ERROR_MAX;

/// Count, mean and max by device and start, us.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Windows(BTreeMap<(String, i64), (u64, f64, f64)>);

impl Windows {
    /// From lines `device,start in us,count,mean,max`: of one file, or of all in a
    /// folder.
    pub(crate) fn read_csv(path: &Path) -> Result<Self, String> {
        let mut windows = Self::default();
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let files = if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(failed)?;
            let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
            paths.filter(|path| path.is_file()).collect()
        } else {
            vec![path.to_path_buf()]
        };
        for file in files {
            for line in BufReader::new(std::fs::File::open(&file).map_err(failed)?).lines() {
                let line = line.map_err(failed)?;
                let window = of_csv(&line).ok_or_else(|| format!("not a window: {line}"))?;
                windows.add(window)?;
            }
        }
        Ok(windows)
    }

    /// From the lines of `forebay try`.
    pub(crate) fn read_json(path: &Path) -> Result<Self, String> {
        let mut windows = Self::default();
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        for line in BufReader::new(std::fs::File::open(path).map_err(failed)?).lines() {
            let line = line.map_err(failed)?;
            let window = of_json(&line).ok_or_else(|| format!("not a window: {line}"))?;
            windows.add(window)?;
        }
        Ok(windows)
    }

    fn add(&mut self, (device, start, figures): Window) -> Result<(), String> {
        let name = format!("{device} at {start}");
        match self.0.insert((device, start), figures) {
            None => Ok(()),
            Some(_) => Err(format!("{name} came twice")),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first window in which another engine says something else.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<String> {
        let keys = self.0.keys().chain(other.0.keys());
        let differs = |key: &&(String, i64)| match (self.0.get(*key), other.0.get(*key)) {
            (Some(a), Some(b)) => !is_same(*a, *b),
            _ => true,
        };
        let (device, start) = keys.into_iter().find(differs)?;
        let key = (device.clone(), *start);
        Some(format!(
            "{device} at {start}: {:?}, not {:?}",
            other.0.get(&key),
            self.0.get(&key)
        ))
    }
}

type Window = (String, i64, (u64, f64, f64));

fn is_same(a: (u64, f64, f64), b: (u64, f64, f64)) -> bool {
    let error = (a.1 - b.1).abs();
    a.0 == b.0 && a.2 == b.2 && error <= PEER_MEAN_ERROR_MAX * a.1.abs()
}

fn of_csv(line: &str) -> Option<Window> {
    let mut cells = line.split(',');
    let mut next = || cells.next();
    let device = next()?.to_owned();
    let start = next()?.parse().ok()?;
    let figures = (
        next()?.parse().ok()?,
        next()?.parse().ok()?,
        next()?.parse().ok()?,
    );
    Some((device, start, figures))
}

fn of_json(line: &str) -> Option<Window> {
    let line: Value = serde_json::from_str(line).ok()?;
    let start = forebay_core::utc::parse(line["start"].as_str()?)?;
    Some((
        line["device"].as_str()?.to_owned(),
        start.0,
        (
            line["count"].as_u64()?,
            line["mean"].as_f64()?,
            line["max"].as_f64()?,
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(rows: &[(&str, i64, (u64, f64, f64))]) -> Windows {
        let mut windows = Windows::default();
        for (device, start, figures) in rows {
            windows.add(((*device).into(), *start, *figures)).unwrap();
        }
        windows
    }

    #[test]
    fn lines_of_all_engines_give_the_same() {
        let json = r#"{"stream":"w","device":"d1","channel":"t","start":"1970-01-01T00:01:00Z","end":"1970-01-01T00:02:00Z","count":2,"mean":1.5,"max":2.0}"#;
        let want = ("d1".to_owned(), 60_000_000, (2, 1.5, 2.0));
        assert_eq!(of_json(json), Some(want.clone()));
        assert_eq!(of_csv("d1,60000000,2,1.5,2.0"), Some(want));
        assert_eq!(of_csv("d1,60000000,2,1.5"), None);
    }

    #[test]
    fn what_differs_is_named() {
        let ours = windows(&[("d", 0, (2, 1.5, 2.0))]);
        for (name, theirs, same) in [
            ("the same", vec![("d", 0, (2, 1.5, 2.0))], true),
            (
                "a last digit of the mean",
                vec![("d", 0, (2, 1.5 + 1e-15, 2.0))],
                true,
            ),
            ("another mean", vec![("d", 0, (2, 1.5 + 1e-8, 2.0))], false),
            ("another count", vec![("d", 0, (3, 1.5, 2.0))], false),
            ("another max", vec![("d", 0, (2, 1.5, 2.5))], false),
            ("one missing", vec![], false),
            (
                "one more",
                vec![("d", 0, (2, 1.5, 2.0)), ("e", 0, (2, 1.5, 2.0))],
                false,
            ),
        ] {
            let theirs = windows(&theirs);
            assert_eq!(ours.differs_from(&theirs).is_none(), same, "{name}");
        }
    }
}
