//! The agent that runs on the data directory, if one does, and what it says of itself.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use forebay_core::query::Query;
use serde_json::Value;

use super::check::Finding;
use super::codes::{AGENT_ALARMS, AGENT_HEALTH, AGENT_RUNNING};
use super::host::text;
use crate::agent::questions;
use crate::config::Config;
use crate::local;

/// Alarms that are named.
const ALARMS_MAX: usize = 20;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RunningFacts {
    /// Who holds the data directory.
    pub(super) pid: Option<u32>,
    /// What it answered, or why it does not.
    pub(super) status: Option<Result<Value, String>>,
}

/// The process that holds a data directory, by its lock, which a dead one does not hold.
pub(super) fn holder(data_dir: &Path) -> Option<u32> {
    let path = data_dir.join("lock");
    let pid = text(&path)?.parse().ok()?;
    let inode = std::fs::metadata(&path).ok()?.ino();
    // Not tried for: an agent that starts in this moment would be refused.
    let locks = text("/proc/locks")?;
    locks
        .lines()
        .any(|line| is_held(line, pid, inode))
        .then_some(pid)
}

/// Whether a line such as `1: FLOCK  ADVISORY  WRITE 812 fe:00:7340 0 EOF` is of this
/// process and file.
fn is_held(line: &str, pid: u32, inode: u64) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let is_flock = words.next() == Some("FLOCK");
    let of_pid = words.nth(2).and_then(|word| word.parse().ok()) == Some(pid);
    let of_file = words
        .next()
        .and_then(|word| word.rsplit(':').next()?.parse().ok());
    is_flock && of_pid && of_file == Some(inode)
}

/// Whether a config is of a receiver alone.
pub(super) fn is_receiver(config: &Config) -> bool {
    config.upstream.is_some() && config.agent.gateway.is_none()
}

pub(super) fn look(config: &Config, pid: Option<u32>, patience: Duration) -> RunningFacts {
    let socket = match &config.upstream {
        Some(upstream) if is_receiver(config) => &upstream.socket,
        Some(_) | None => &config.query.socket,
    };
    let request = questions::write(&Query::Summary).to_string();
    RunningFacts {
        pid,
        status: (pid.is_some() || socket.exists()).then(|| {
            local::ask_line(socket, &request, patience).map_err(|error| error.to_string())
        }),
    }
}

pub(super) fn judge(facts: &RunningFacts) -> Vec<Finding> {
    match (&facts.pid, &facts.status) {
        (_, Some(Ok(status))) => answered(facts.pid, status),
        (Some(pid), Some(Err(why))) => vec![Finding::fail(
            &AGENT_RUNNING,
            format!("process {pid} holds the data directory and does not answer: {why}"),
            "run this check as the agent's user; when it does not answer that one either, restart it",
        )],
        (Some(pid), None) => vec![Finding::skip(
            &AGENT_RUNNING,
            format!("process {pid} holds the data directory, and was not asked"),
        )],
        (None, _) => vec![Finding::skip(
            &AGENT_RUNNING,
            "neither an agent nor a receiver of this config runs",
        )],
    }
}

fn answered(pid: Option<u32>, status: &Value) -> Vec<Finding> {
    let behind = status["readings_behind"].as_u64().unwrap_or_default();
    let process = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    let text = match status["gateway"].as_str() {
        Some(gateway) => format!(
            "gateway {gateway} answers{process}: {} readings stored, {behind} still to be computed",
            status["stored"]
        ),
        None => format!(
            "the receiver answers{process}: {} readings of {} gateways applied",
            status["readings"], status["gateways"]
        ),
    };
    let mut findings = vec![Finding::ok(&AGENT_RUNNING, text)];
    match status["health"].as_str() {
        Some("ok") => findings.push(Finding::ok(&AGENT_HEALTH, "it says that it is well")),
        Some("failed") => findings.push(Finding::fail(
            &AGENT_HEALTH,
            "it says that it has failed",
            "see its alarms",
        )),
        Some(word) => {
            let text = format!("it says that it is {word}");
            findings.push(Finding::warn(&AGENT_HEALTH, text, "see its alarms"));
        }
        None => findings.push(Finding::skip(&AGENT_HEALTH, "it does not say how it is")),
    }
    findings.extend(alarms(status));
    findings
}

fn alarms(status: &Value) -> Vec<Finding> {
    let Some(alarms) = status["alarms"].as_array() else {
        return vec![Finding::skip(&AGENT_ALARMS, "it does not know alarms")];
    };
    if alarms.is_empty() {
        return vec![Finding::ok(&AGENT_ALARMS, "no alarm is up")];
    }
    let word = |alarm: &Value, name: &str| alarm[name].as_str().unwrap_or_default().to_owned();
    let shown = alarms.iter().take(ALARMS_MAX).map(|alarm| {
        let text = format!(
            "{} since {}: {}",
            word(alarm, "code"),
            word(alarm, "since"),
            word(alarm, "text")
        );
        let runbook = match word(alarm, "runbook") {
            runbook if runbook.is_empty() => "agent/node/docs/alarms.md".to_owned(),
            runbook => runbook,
        };
        Finding::warn(&AGENT_ALARMS, text, format!("see {runbook}")).of(&word(alarm, "subject"))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::check::Level;
    use super::*;

    #[test]
    fn agents_of_all_kinds() {
        let up = json!({"code": "port_lost", "subject": "p1", "since": "t", "text": "gone", "runbook": "x#y"});
        let status = |health: Value, alarms: Value| {
            Some(Ok(
                json!({"gateway": "g", "stored": 1, "health": health, "alarms": alarms}),
            ))
        };
        type Row = (
            &'static str,
            Option<u32>,
            Option<Result<Value, String>>,
            Vec<Level>,
        );
        let rows: [Row; 8] = [
            ("none", None, None, vec![Level::Skip]),
            (
                "a dead one's socket",
                None,
                Some(Err("refused".into())),
                vec![Level::Skip],
            ),
            (
                "deaf",
                Some(7),
                Some(Err("no answer".into())),
                vec![Level::Fail],
            ),
            ("not asked", Some(7), None, vec![Level::Skip]),
            (
                "well",
                Some(7),
                status("ok".into(), json!([])),
                vec![Level::Ok; 3],
            ),
            (
                "alarmed",
                Some(7),
                status("degraded".into(), json!([up, up])),
                vec![Level::Ok, Level::Warn, Level::Warn, Level::Warn],
            ),
            (
                "failed",
                Some(7),
                status("failed".into(), json!([])),
                vec![Level::Ok, Level::Fail, Level::Ok],
            ),
            (
                "of before",
                None,
                status(json!({}), Value::Null),
                vec![Level::Ok, Level::Skip, Level::Skip],
            ),
        ];
        for (name, pid, status, want) in rows {
            let found = judge(&RunningFacts { pid, status });
            let levels: Vec<Level> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(levels, want, "{name}: {found:?}");
        }
    }

    #[test]
    fn lines_of_locks() {
        for (line, want) in [
            ("1: FLOCK  ADVISORY  WRITE 812 fe:00:7340 0 EOF", true),
            ("1: POSIX  ADVISORY  WRITE 812 fe:00:7340 0 EOF", false),
            ("1: FLOCK  ADVISORY  WRITE 813 fe:00:7340 0 EOF", false),
            ("1: FLOCK  ADVISORY  WRITE 812 fe:00:7341 0 EOF", false),
            ("1: -> FLOCK  ADVISORY  WRITE 812 fe:00:7340 0 EOF", false),
            ("1: FLOCK", false),
            ("", false),
        ] {
            assert_eq!(is_held(line, 812, 7340), want, "{line}");
        }
    }

    #[test]
    fn the_holder_is_who_holds_the_lock_now() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()), None, "no lock");
        let lock = crate::store::DirLock::take(dir.path()).unwrap();
        assert_eq!(holder(dir.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder(dir.path()), None, "a dead one's");
    }
}
