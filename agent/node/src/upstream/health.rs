//! What is wrong with this receiver: its figures are held against the rules of alarms
//! once a second. Decides nothing: the core judges.
//!
//! Bound: one entry per gateway that the sink knows, and the core's of alarms.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use forebay_core::alarms::{Alarms, DiskFacts, ReceiverFacts};
use forebay_core::payload::GatewayName;
use forebay_core::units::{EventTime, Mono, Now};
use serde_json::{Value, json};

use super::snapshot::UpstreamSnapshot;
use crate::config::{SinkKind, UpstreamConfig};
use crate::ports::{MonoClock, Say};

/// When something of each gateway was applied last, or the broker connected.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<BTreeMap<GatewayName, Instant>>);

impl Heard {
    pub(super) fn note(&self, gateway: GatewayName, at: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(gateway, at);
    }

    fn all(&self, clock: MonoClock) -> Vec<(String, Mono)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .map(|(gateway, at)| (gateway.to_string(), clock.at(*at)))
            .collect()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Health {
    alarms: Alarms,
    clock: MonoClock,
    /// Where a sink on a disk of this computer writes.
    disk: Option<PathBuf>,
}

impl Health {
    pub(super) fn new(config: &UpstreamConfig) -> Self {
        let clock = MonoClock::start();
        Self {
            alarms: Alarms::new(config.alarms.clone(), &[], now(clock)),
            clock,
            disk: match config.sink {
                SinkKind::Embedded => Some(config.data_dir.clone()),
                SinkKind::Files => Some(config.files.folder.clone()),
                SinkKind::Postgres => None,
            },
        }
    }

    /// Judges, and tells what has changed.
    pub(super) fn look(&mut self, snapshot: &UpstreamSnapshot, heard: &Heard, say: &Say) {
        let facts = ReceiverFacts {
            connected: snapshot.connected,
            broker_said: snapshot.broker_said.clone(),
            denied: snapshot.denied.clone(),
            sink_said: snapshot.sink_said.clone(),
            disk: self.disk.as_deref().and_then(disk),
            holes: snapshot.holes,
            rejected: snapshot.rejected,
            clones: snapshot.clones,
            gateways: heard.all(self.clock),
        };
        let told = self.alarms.judge_receiver(&facts, now(self.clock));
        for note in told.notes {
            say(&format!("upstream: {note}"));
        }
    }

    /// A status with what is wrong in it.
    pub(super) fn with(&self, mut status: Value) -> Value {
        status["health"] = json!(self.alarms.health());
        status["alarms"] = self.alarms.status(self.clock.now());
        status["alarms_left_out"] = json!(self.alarms.left_out());
        status
    }
}

fn now(clock: MonoClock) -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    Now {
        mono: clock.now(),
        utc: EventTime(i64::try_from(micros).unwrap_or(i64::MAX)),
    }
}

/// The disk of a folder, or of the nearest one above it that is there.
fn disk(folder: &Path) -> Option<DiskFacts> {
    let stat = folder
        .ancestors()
        .find_map(|at| rustix::fs::statvfs(at).ok())?;
    Some(DiskFacts {
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        size_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_folder_that_is_not_there_is_that_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let size = |path: &Path| disk(path).map(|disk| disk.size_bytes);
        assert!(size(dir.path()) > Some(0));
        assert_eq!(size(&dir.path().join("a/b")), size(dir.path()));
    }
}
