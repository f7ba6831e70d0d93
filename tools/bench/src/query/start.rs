//! From exec to ready: an agent on an empty log, until `/readyz` says so, and until its
//! local socket answers.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::agent::{LINGER, write_config};
use super::http;
use super::limits::{PATIENCE, START_MS_MAX};
use super::load::Times;
use super::{Args, told, within};
use crate::delivery::process::Process;
use crate::delivery::rig::{free_port, fresh_dir};
use crate::table::Row;

/// Looked at so often: what the figure may be off by.
const LOOK: Duration = Duration::from_micros(500);

pub(super) fn run(args: &Args) -> Result<Vec<Row>, String> {
    let dir = args.dir.join("start");
    let (mut socket, mut ready) = (Times::default(), Times::default());
    for _ in 0..args.sizes().starts {
        let (first, second) = one(&args.forebay, &dir)?;
        socket.push(first);
        ready.push(second);
    }
    let under = format!("empty log, {} starts, the slowest", ready.len());
    let text = |times: &Times| {
        format!(
            "{:.0} ms (median {:.0})",
            times.quantile_ms(1.0),
            times.quantile_ms(0.5)
        )
    };
    Ok(vec![
        told("exec to the local socket", &under, text(&socket)),
        within(
            told("exec to /readyz 200", &under, text(&ready)),
            ready.quantile_ms(1.0),
            START_MS_MAX,
        ),
    ])
}

fn one(forebay: &Path, dir: &Path) -> Result<(Duration, Duration), String> {
    fresh_dir(dir)?;
    let port = free_port()?;
    let config = write_config(dir, port, LINGER, "")?;
    let mut command = Command::new(forebay);
    command.arg("run").arg("--config").arg(&config);
    let started = Instant::now();
    let agent = Process::start("agent", command, dir)?;
    let path = dir.join("data/forebay.sock");
    let socket = until(started, || UnixStream::connect(&path).is_ok())?;
    let ready = until(started, || {
        let client = http::Client::open(port);
        let mut client = match client {
            Ok(client) => client,
            Err(_) => return false,
        };
        matches!(client.try_get("/readyz", "*/*"), Ok((200, _)))
    })?;
    agent.end()?;
    Ok((socket, ready))
}

fn until(started: Instant, mut is_so: impl FnMut() -> bool) -> Result<Duration, String> {
    while !is_so() {
        if started.elapsed() > PATIENCE {
            return Err(String::from("the agent does not become ready"));
        }
        std::thread::sleep(LOOK);
    }
    Ok(started.elapsed())
}
