//! How fast a backlog is out of the log and committed at the receiver: the agent as it is
//! shipped, Mosquitto, the receiver with its embedded sink, all on loopback.
//!
//! The agent has read its log before, as one has that was running all the time; it is
//! stopped by a signal until broker and receiver are there. Time is from its connection
//! to the last reading that the receiver calls committed.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use forebay_core::payload::DataMessage;
use serde_json::Value;

use super::backlog::{self, Backlog};
use super::limits::{READINGS_PER_S_MIN, Sizes};
use super::process::wait_for;
use super::rig::{self, Asked, Forwarding, Payload};
use super::tap::{Next, Tap};
use super::{peers, row};
use crate::sys::disk_bytes;
use crate::table::Row;

/// Where the log stands that each run gets a copy of.
const LOG: &str = "log/data";

/// Part of a minute's work of each process, and what they held.
#[derive(Debug)]
struct Drained {
    seconds: f64,
    agent_s: f64,
    broker_s: f64,
    receiver_s: f64,
    agent_bytes: u64,
    receiver_bytes: u64,
    sink_bytes: u64,
    messages: u64,
    again: u64,
}

pub(super) fn run(
    forebay: &Path,
    dir: &Path,
    sizes: Sizes,
    payloads: &[Payload],
) -> Result<Vec<Row>, String> {
    rig::fresh_dir(dir)?;
    let log = backlog::write(&dir.join(LOG), sizes.backlog_bytes)?;
    let mut rows = Vec::new();
    for payload in payloads {
        let alone = alone(forebay, dir, *payload, log)?;
        let drained = once(forebay, dir, *payload, log)?;
        let beside = peers::run(dir, sizes, *payload)?;
        rows.extend(rows_of(*payload, log, &drained, (&alone, &beside)));
    }
    Ok(rows)
}

fn copy(dir: &Path, to: &Path) -> Result<(), String> {
    let copied = Command::new("cp")
        .arg("-r")
        .arg(dir.join(LOG))
        .arg(to.join("data"))
        .status();
    match copied.map_err(|error| format!("cp: {error}"))?.success() {
        true => Ok(()),
        false => Err("the log cannot be copied".into()),
    }
}

/// Whether all of the log is read and derived from.
fn has_read(status: &Value, log: Backlog) -> Option<()> {
    let received = status.get("received")?.as_u64()?;
    let behind = status.get("readings_behind")?.as_u64()?;
    let recovered = status.get("recovered")?.as_bool()?;
    (recovered && behind == 0 && received >= log.readings).then_some(())
}

/// The agent to a broker that only acks.
#[derive(Debug)]
struct Alone {
    readings_per_s: f64,
    cpu_s_per_million: f64,
}

/// Messages of it.
const ALONE_MESSAGES: u64 = 10_000;

fn alone(forebay: &Path, dir: &Path, payload: Payload, log: Backlog) -> Result<Alone, String> {
    let dir = dir.join("alone");
    rig::fresh_dir(&dir)?;
    copy(dir.parent().unwrap_or(&dir), &dir)?;
    let port = rig::free_port()?;
    let agent = rig::agent(forebay, &dir, &forwarding(payload, port), &[])?;
    wait_for("the agent has read its log", || {
        has_read(&agent.status()?, log)
    })?;
    // Only now does anybody listen.
    let tap = Tap::open(port)?;
    let (mut messages, mut first, mut last) = (0, None, None);
    tap.serve(|packet| {
        messages += 1;
        let is_last = messages == ALONE_MESSAGES;
        if first.is_none() || is_last {
            let message = DataMessage::parse(&packet.payload).map_err(|error| error.to_string())?;
            first.get_or_insert((Instant::now(), agent.process.cpu_s()?, message.id.first.0));
            last = Some(message.id.last.0);
        }
        Ok(Next::enough_if(is_last))
    })?;
    let (started, cpu, first) = first.ok_or("nothing came")?;
    let readings = (last.unwrap_or(first) - first) as f64;
    let alone = Alone {
        readings_per_s: readings / started.elapsed().as_secs_f64(),
        cpu_s_per_million: (agent.process.cpu_s()? - cpu) / readings * 1e6,
    };
    drop(agent);
    std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(alone)
}

fn forwarding(payload: Payload, port: u16) -> Forwarding {
    Forwarding {
        address: "127.0.0.1".into(),
        port,
        payload,
        extra: String::new(),
    }
}

fn once(forebay: &Path, dir: &Path, payload: Payload, log: Backlog) -> Result<Drained, String> {
    let dir = dir.join(payload.name());
    rig::fresh_dir(&dir)?;
    copy(dir.parent().unwrap_or(&dir), &dir)?;
    let port = rig::free_port()?;
    let agent = rig::agent(forebay, &dir, &forwarding(payload, port), &[])?;
    wait_for("the agent has read its log", || {
        has_read(&agent.status()?, log)
    })?;
    agent.process.signal("STOP")?;
    let broker = rig::mosquitto(&dir, "127.0.0.1", port, &[])?;
    let receiver = rig::receiver(forebay, &dir, port, "")?;
    let before = [
        agent.process.cpu_s()?,
        broker.cpu_s()?,
        receiver.process.cpu_s()?,
    ];
    agent.process.signal("CONT")?;
    wait_for("the agent is connected", || {
        let connected = agent.status()?;
        (connected.get("forward")?.get("connected")?.as_bool()?).then_some(())
    })?;
    let started = Instant::now();
    await_committed(&receiver, log)?;
    let seconds = started.elapsed().as_secs_f64();
    let number = |key| receiver.number(&[key]).unwrap_or(0);
    let drained = Drained {
        seconds,
        agent_s: agent.process.cpu_s()? - before[0],
        broker_s: broker.cpu_s()? - before[1],
        receiver_s: receiver.process.cpu_s()? - before[2],
        agent_bytes: agent.process.memory_bytes("VmHWM")?,
        receiver_bytes: receiver.process.memory_bytes("VmHWM")?,
        sink_bytes: disk_bytes(&dir.join("upstream")),
        messages: number("messages"),
        again: number("duplicates"),
    };
    drop(agent);
    receiver.process.end()?;
    drop(broker);
    std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(drained)
}

fn await_committed(receiver: &Asked, log: Backlog) -> Result<(), String> {
    wait_for("all is committed", || {
        let readings = receiver.number(&["readings"])?;
        (readings >= log.readings).then_some(())
    })
}

fn rows_of(
    payload: Payload,
    log: Backlog,
    drained: &Drained,
    (alone, beside): (&Alone, &peers::Beside),
) -> Vec<Row> {
    let rate = log.readings as f64 / drained.seconds;
    let per_message = log.readings as f64 / drained.messages.max(1) as f64;
    let name = payload.name();
    let under = format!("{name}, QoS 1");
    let mut main = row(
        "readings per second, log to committed".into(),
        under.clone(),
        format!("{:.0} k/s, {:.1} s", rate / 1e3, drained.seconds),
        Some((rate, READINGS_PER_S_MIN, true)),
        ">= 500 k/s".into(),
    );
    main.beside = format!(
        "{:.2} of a bare client ({:.0} k/s), {:.2} of the raw disk ({:.0} k/s)",
        rate / (beside.messages_per_s * per_message),
        beside.messages_per_s * per_message / 1e3,
        rate / (beside.written_per_s * per_message),
        beside.written_per_s * per_message / 1e3,
    );
    let million = log.readings as f64 / 1e6;
    let told =
        |what: &str, measured| row(what.into(), under.clone(), measured, None, String::new());
    vec![
        main,
        told(
            "agent alone, to a broker that only acks",
            format!(
                "{:.0} k/s, {:.2} processor seconds per million",
                alone.readings_per_s / 1e3,
                alone.cpu_s_per_million
            ),
        ),
        told(
            "processor seconds per million readings",
            format!(
                "agent {:.2}, mosquitto {:.2}, receiver {:.2}",
                drained.agent_s / million,
                drained.broker_s / million,
                drained.receiver_s / million
            ),
        ),
        told(
            "memory at the most; bytes per reading in the sink",
            format!(
                "agent {:.0} MB, receiver {:.0} MB; {:.1}",
                drained.agent_bytes as f64 / 1e6,
                drained.receiver_bytes as f64 / 1e6,
                drained.sink_bytes as f64 / log.readings as f64
            ),
        ),
        told(
            "messages; records that came again",
            format!(
                "{} of {per_message:.0} readings; {}",
                drained.messages, drained.again
            ),
        ),
    ]
}
