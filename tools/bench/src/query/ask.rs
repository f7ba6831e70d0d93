//! Questions to logs that hold a day: rollups of ten series, and an hour of raw readings.

use std::path::Path;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};

use super::agent::{Agent, Local};
use super::limits::{
    COLD_REPEATS, RAW_HZ, RAW_MS_MAX, ROLLUP_SERIES, ROLLUPS_MS_MAX, WIDE_CHANNELS, WIDE_DEVICES,
};
use super::load::Times;
use super::prepared::{self, Prepared, Shape, channel, uid};
use super::{Args, told, within};
use crate::delivery::rig::fresh_dir;
use crate::table::Row;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// Minutes of every channel, as the rollups of a day are kept. The wide log's rows are
/// more than the default quota.
const MINUTES: &str = "[[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
     aggregates = [\"count\", \"mean\", \"min\", \"max\", \"sum\"]\n\n\
     [[topic]]\nname = \"minute\"\nquota = \"8GiB\"\n\n";

pub(super) fn rollups(args: &Args) -> Result<Vec<Row>, String> {
    let length = args.sizes().hours as i64 * HOUR;
    let narrow = Shape {
        devices: ROLLUP_SERIES,
        channels: 1,
        every: SECOND,
        length,
    };
    let wide = Shape {
        devices: WIDE_DEVICES,
        channels: WIDE_CHANNELS,
        every: 60 * SECOND,
        length,
    };
    let mut rows = rollups_of(args, "1 Hz", narrow)?;
    rows.extend(rollups_of(args, "one a minute", wide)?);
    Ok(rows)
}

/// An agent on a log of that shape that has read all of it.
pub(super) fn agent_on(
    args: &Args,
    dir: &Path,
    shape: Shape,
    more: &str,
) -> Result<(Agent, Prepared), String> {
    fresh_dir(dir)?;
    let started = Instant::now();
    let prepared = prepared::write(dir, shape)?;
    let written = started.elapsed();
    let agent = Agent::start(&args.forebay, dir, more)?;
    agent.wait_until_read()?;
    println!(
        "a log of {} readings: written in {:.1} s, read in {:.1} s",
        prepared.readings(),
        written.as_secs_f64(),
        (started.elapsed() - written).as_secs_f64()
    );
    Ok((agent, prepared))
}

fn rollups_of(args: &Args, rate: &str, shape: Shape) -> Result<Vec<Row>, String> {
    let dir = args.dir.join("rollups");
    let (agent, prepared) = agent_on(args, &dir, shape, MINUTES)?;
    agent.process.end()?;
    let asks = Rollups {
        args,
        dir: &dir,
        prepared,
        minutes: (shape.length / (60 * SECOND)) as usize,
        // Spread over the log: each of another device.
        devices: (0..ROLLUP_SERIES)
            .map(|n| uid(n * shape.devices / ROLLUP_SERIES))
            .collect(),
        under: format!(
            "{ROLLUP_SERIES} of {} series, {rate}, {} h of minutes",
            shape.devices * shape.channels,
            shape.length / HOUR
        ),
    };
    let mut done = asks.cold()?;
    done.extend(asks.warm()?);
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    Ok(done)
}

/// Questions for minutes to agents on one log.
struct Rollups<'a> {
    args: &'a Args,
    dir: &'a Path,
    prepared: Prepared,
    minutes: usize,
    devices: Vec<String>,
    under: String,
}

impl Rollups<'_> {
    /// An agent that has answered nothing yet.
    fn agent(&self) -> Result<Agent, String> {
        let agent = Agent::start(&self.args.forebay, self.dir, MINUTES)?;
        agent.wait_until_read()?;
        Ok(agent)
    }

    fn path(&self) -> String {
        let named: String = self
            .devices
            .iter()
            .map(|of| format!("device={of}&"))
            .collect();
        format!(
            "/api/v1/rollups?{named}channel={}&window=1m&from={}&to={}&limit=500000",
            channel(0),
            self.prepared.from.0,
            self.prepared.to.0
        )
    }

    /// The first answer of a process, with nothing of the log in the system's cache; it is
    /// told only, as it says as much of the disk.
    fn cold(&self) -> Result<Vec<Row>, String> {
        let (mut http, mut local) = (Times::default(), Times::default());
        for _ in 0..COLD_REPEATS {
            let agent = self.agent()?;
            let mut client = agent.http()?;
            forget(&self.dir.join("data/log"))?;
            let started = Instant::now();
            client.get(&self.path(), JSON)?;
            http.push(started.elapsed());
            let mut socket = agent.local()?;
            forget(&self.dir.join("data/log"))?;
            let started = Instant::now();
            self.ask_local(&mut socket, false)?;
            local.push(started.elapsed());
            agent.process.end()?;
        }
        let told = |what: &str, times: &Times| told(what, &self.under, times.text());
        Ok(vec![
            told("minute rollups, local socket, cold", &local),
            told("minute rollups, HTTP, cold", &http),
        ])
    }

    /// The same question again and again.
    fn warm(&self) -> Result<Vec<Row>, String> {
        let agent = self.agent()?;
        let mut local = agent.local()?;
        let mut times = Times::default();
        self.ask_local(&mut local, true)?;
        for _ in 0..self.args.sizes().repeats {
            let started = Instant::now();
            self.ask_local(&mut local, false)?;
            times.push(started.elapsed());
        }
        let what = "minute rollups, local socket, one after another";
        // Ten questions: what must be reached is that of one.
        let mut done = vec![told(what, &self.under, times.text())];
        let asked = over_http(&agent, &self.path(), JSON, self.args.sizes().repeats);
        done.push(reached(
            "minute rollups, HTTP",
            &self.under,
            asked,
            self.minutes * ROLLUP_SERIES,
            ROLLUPS_MS_MAX,
        ));
        agent.process.end()?;
        Ok(done)
    }

    /// One channel at a time: the socket has no question for several.
    fn ask_local(&self, local: &mut Local, check: bool) -> Result<(), String> {
        for device in &self.devices {
            let request = json!({
                "query": "rollup", "device": device, "channel": channel(0),
                "size_us": 60 * SECOND, "from_us": self.prepared.from.0,
                "to_us": self.prepared.to.0,
            });
            if check {
                check_windows(&local.ask(&request)?, &self.prepared, self.minutes)?;
            } else {
                local.ask_line(&request.to_string())?;
            }
        }
        Ok(())
    }
}

/// Lets the system forget what it holds of the files of a folder: all of it is synced.
fn forget(dir: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_dir() {
            forget(&path)?;
            continue;
        }
        let file = std::fs::File::open(&path).map_err(told)?;
        file.sync_all().map_err(told)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What is fast must be right as well: as many windows as minutes, each full.
fn check_windows(answer: &Value, prepared: &Prepared, minutes: usize) -> Result<(), String> {
    let windows = answer["windows"].as_array().map_or(&[][..], Vec::as_slice);
    let each = 60 * SECOND / prepared.shape.every;
    let full = windows.iter().filter(|w| w["count"] == each).count();
    match full == minutes {
        true => Ok(()),
        false => Err(format!(
            "{} windows, {full} of them full, instead of {minutes}: {:.300}",
            windows.len(),
            answer.to_string()
        )),
    }
}

pub(super) fn raw(args: &Args) -> Result<Vec<Row>, String> {
    let shape = Shape {
        devices: 1,
        channels: 1,
        every: SECOND / RAW_HZ as i64,
        length: HOUR,
    };
    let dir = args.dir.join("raw");
    let (agent, prepared) = agent_on(args, &dir, shape, "")?;
    let under = format!("1 h at {RAW_HZ} Hz, {} readings", prepared.readings());
    let path = format!(
        "/api/v1/readings?device={}&channel={}&from={}&to={}&limit=500000",
        uid(0),
        channel(0),
        prepared.from.0,
        prepared.to.0
    );
    let mut rows = Vec::new();
    for (name, accept) in [("JSON", JSON), ("CSV", CSV)] {
        let asked = over_http(&agent, &path, accept, args.sizes().repeats);
        let (what, count) = (
            format!("raw readings, {name}"),
            prepared.readings() as usize,
        );
        rows.push(reached(&what, &under, asked, count, RAW_MS_MAX));
    }
    agent.process.end()?;
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    Ok(rows)
}

const JSON: &str = "application/json";
const CSV: &str = "text/csv";

/// What came over HTTP: the figures in it, its bytes, and how long each answer took.
struct Asked {
    figures: usize,
    bytes: usize,
    times: Times,
}

fn over_http(agent: &Agent, path: &str, accept: &str, repeats: usize) -> Result<Asked, String> {
    let mut client = agent.http()?;
    let first = client.get(path, accept)?;
    let (figures, bytes) = (figures_of(first, accept)?, first.len());
    let mut times = Times::default();
    for _ in 0..repeats {
        let started = Instant::now();
        client.get(path, accept)?;
        times.push(started.elapsed());
    }
    Ok(Asked {
        figures,
        bytes,
        times,
    })
}

/// Lines below the head of a table; or the entries of the longest list of each series.
fn figures_of(body: &[u8], accept: &str) -> Result<usize, String> {
    if accept == CSV {
        let lines = body.split(|byte| *byte == b'\n');
        return Ok(lines
            .filter(|line| !line.is_empty())
            .count()
            .saturating_sub(1));
    }
    let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let series = answer["series"].as_array().map_or(&[][..], Vec::as_slice);
    let longest = |one: &Value| -> usize {
        let lists = one.as_object().into_iter().flat_map(|one| one.values());
        lists
            .filter_map(Value::as_array)
            .map(Vec::len)
            .max()
            .unwrap_or(0)
    };
    Ok(series.iter().map(longest).sum())
}

fn reached(
    what: &str,
    under: &str,
    asked: Result<Asked, String>,
    figures: usize,
    most: f64,
) -> Row {
    match asked {
        Ok(asked) => {
            let all = asked.figures == figures;
            let text = format!(
                "{}, {:.1} MB, {} of {figures} there",
                asked.times.text(),
                asked.bytes as f64 / 1e6,
                asked.figures
            );
            let row = within(told(what, under, text), asked.times.quantile_ms(1.0), most);
            Row {
                reached: row.reached.map(|is_fast| is_fast && all),
                ..row
            }
        }
        Err(why) => missed(what, under, &why, most),
    }
}

/// What could not be asked is missed.
pub(super) fn missed(what: &str, under: &str, why: &str, most: f64) -> Row {
    Row {
        must: format!("<= {most} ms"),
        reached: Some(false),
        ..told(what, under, why.chars().take(160).collect())
    }
}
