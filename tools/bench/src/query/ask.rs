//! Questions to logs that hold a day: rollups of ten series, and an hour of raw readings.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::agent::Agent;
use super::limits::{
    RAW_HZ, RAW_MS_MAX, ROLLUP_SERIES, ROLLUPS_MS_MAX, WIDE_CHANNELS, WIDE_DEVICES,
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
    let series = shape.devices * shape.channels;
    let under = format!(
        "{ROLLUP_SERIES} of {series} series, {rate}, {} h of minutes",
        shape.length / HOUR
    );
    let minutes = (shape.length / (60 * SECOND)) as usize;
    // Spread over the log: each of another device.
    let devices: Vec<String> = (0..ROLLUP_SERIES)
        .map(|n| uid(n * shape.devices / ROLLUP_SERIES))
        .collect();
    let mut local = agent.local()?;
    let mut times = Times::default();
    for repeat in 0..=args.sizes().repeats {
        let started = Instant::now();
        for device in &devices {
            let answer = local.ask(&json!({
                "query": "rollup", "device": device, "channel": channel(0),
                "size_us": 60 * SECOND, "from_us": prepared.from.0, "to_us": prepared.to.0,
            }))?;
            if repeat == 0 {
                check_windows(&answer, &prepared, minutes)?;
            }
        }
        if repeat > 0 {
            times.push(started.elapsed());
        }
    }
    // One channel at a time: it has no question for several.
    let mut done = vec![told(
        "minute rollups, local socket, one after another",
        &under,
        times.text(),
    )];
    let named: String = devices.iter().map(|of| format!("device={of}&")).collect();
    let path = format!(
        "/api/v1/rollups?{named}channel={}&window=1m&from={}&to={}&limit=500000",
        channel(0),
        prepared.from.0,
        prepared.to.0
    );
    let asked = over_http(&agent, &path, JSON, args.sizes().repeats);
    let what = "minute rollups, HTTP";
    done.push(reached(
        what,
        &under,
        asked,
        minutes * ROLLUP_SERIES,
        ROLLUPS_MS_MAX,
    ));
    agent.process.end()?;
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    Ok(done)
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
