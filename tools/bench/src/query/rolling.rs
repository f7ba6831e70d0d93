//! Rolling averages of 10,000 series while 100,000 readings per second come in: real
//! firmware behind real ports, the agent as it is shipped with a rolling minute of every
//! channel, and queries at a fixed rate.
//!
//! Found with perf: 22 % of the loop's time was malloc, most of it for names and units of each
//! block's series, which `log/series.rs` shares since. Slow turns of the loop are mostly waits
//! for a heap that a thread of lower priority holds while others have its core. The loop
//! cannot get a heap of its own: glibc 2.36 reads `M_ARENA_MAX` once. A question that
//! reads nothing is asked beside: its p99 went from 2.9 to 9.1 ms between runs on one shared
//! computer, and that of the rolling average with it.

use std::time::Instant;

use serde_json::json;

use super::agent::Agent;
use super::ask::missed;
use super::fleet::{self, Fleet, Sums};
use super::limits::{
    CHANNELS, CONNECTIONS, DEVICES, HZ, QUERIES_PER_S, READINGS_PER_S_MIN, ROLLING_P99_MS_MAX,
};
use super::load::{self, Times};
use super::{Args, told, within};
use crate::table::Row;

/// A rolling minute of every channel, which is asked for and writes no rows; several partitions
/// would only spread the work. A row per reading would be more of the log than all readings: of
/// some 200 bytes each, 20 MB a second. What questions wait for then is told beside it.
const WINDOW: &str = "[[window]]\nname = \"rolling_1m\"\nkind = \"sliding\"\nsize = \"1m\"\n\
     emit = \"never\"\naggregates = [\"count\", \"mean\", \"min\", \"max\"]\n\n";
/// The same with its rows.
const WITH_ROWS: &str = "[[window]]\nname = \"rolling_1m\"\nkind = \"sliding\"\nsize = \"1m\"\n\
     aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n\n";

/// Questions per second, and connections.
const RATE: (f64, usize) = (QUERIES_PER_S, CONNECTIONS);

/// What came in, and what it cost.
#[derive(Debug, Clone, Copy)]
struct Flow {
    acked_per_s: f64,
    lost: u64,
    core: f64,
    /// Readings that the engine had not taken at the end.
    behind: u64,
}

pub(super) fn run(args: &Args) -> Result<Vec<Row>, String> {
    let mut rows = without_rows(args)?;
    rows.extend(with_rows(args)?);
    Ok(rows)
}

/// The fleet and an agent with this window, some time after all devices are answered.
fn warm(args: &Args, dir: &str, window: &str) -> Result<(Fleet, Agent), String> {
    let fleet = Fleet::boot(DEVICES, CHANNELS, HZ)?;
    let more = format!("{window}{}", fleet.ports());
    let agent = Agent::start(&args.forebay, &args.dir.join(dir), &more)?;
    fleet.wait_until_open()?;
    std::thread::sleep(args.sizes().warm_up);
    Ok((fleet, agent))
}

fn without_rows(args: &Args) -> Result<Vec<Row>, String> {
    let length = args.sizes().measured;
    let (fleet, agent) = warm(args, "rolling", WINDOW)?;
    let under = format!("{} series, 1 m", DEVICES * CHANNELS);
    let alone = during(&fleet, &agent, || {
        std::thread::sleep(length);
        Ok(())
    })?;
    let mut rows = vec![ingested("readings taken, nothing asked", &under, alone.1)];
    let idle = || {
        let mut local = agent.local()?;
        Ok(move |_| local.ask_line("{\"query\":\"dead_letters\"}").map(drop))
    };
    let (times, _) = during(&fleet, &agent, || load::run(RATE, length, idle))?;
    let nothing = "a question that reads nothing, local socket";
    rows.push(told(nothing, &under, times.text()));
    let local = || {
        let mut local = agent.local()?;
        Ok(move |number| {
            let (device, channel) = asked(number);
            let request = json!({
                "query": "rolling", "device": device, "channel": channel, "size_us": 60_000_000,
            });
            local.ask_line(&request.to_string()).map(drop)
        })
    };
    let (times, flow) = during(&fleet, &agent, || load::run(RATE, length, local))?;
    let what = "rolling average, local socket";
    rows.push(asked_at(what, &under, &times, flow));
    rows.push(ingested("readings taken meanwhile", &under, flow));
    let what = "rolling average, HTTP";
    match during(&fleet, &agent, || load::run(RATE, length, http(&agent))) {
        Ok((times, flow)) => {
            rows.push(asked_at(what, &under, &times, flow));
            rows.push(ingested("readings taken meanwhile", &under, flow));
        }
        Err(why) => rows.push(missed(what, &under, &why, ROLLING_P99_MS_MAX)),
    }
    Ok(rows)
}

/// What a row for each reading costs: told, as the must says nothing of rows.
fn with_rows(args: &Args) -> Result<Vec<Row>, String> {
    let (fleet, agent) = warm(args, "rolling-rows", WITH_ROWS)?;
    let length = args.sizes().measured;
    let under = format!("{} series, 1 m, a row per reading", DEVICES * CHANNELS);
    let (times, flow) = during(&fleet, &agent, || load::run(RATE, length, http(&agent)))?;
    Ok(vec![
        told("rolling average, HTTP", &under, times.text()),
        Row {
            must: String::new(),
            reached: None,
            ..ingested("readings taken meanwhile", &under, flow)
        },
    ])
}

/// What asks a question, by its number.
type Ask = Box<dyn FnMut(usize) -> Result<(), String>>;

/// Opens a connection on which rolling minutes are asked for.
fn http(agent: &Agent) -> impl Fn() -> Result<Ask, String> + Sync {
    move || {
        let mut http = agent.http()?;
        Ok(Box::new(move |number| {
            let (device, channel) = asked(number);
            let path = format!("/api/v1/rolling?device={device}&channel={channel}&window=60s");
            http.get(&path, "application/json").map(drop)
        }))
    }
}

/// Questions go round all series, each far from the one before.
fn asked(number: usize) -> (String, &'static str) {
    let series = number * 7_919 % (DEVICES * CHANNELS);
    (
        fleet::uid(series / CHANNELS),
        fleet::channel(series % CHANNELS),
    )
}

/// What flows while `does` runs.
fn during<T>(
    fleet: &Fleet,
    agent: &Agent,
    does: impl FnOnce() -> Result<T, String>,
) -> Result<(T, Flow), String> {
    let before: (Instant, Sums, f64) = (Instant::now(), fleet.sums(), agent.process.cpu_s()?);
    let done = does()?;
    let (seconds, sums) = (before.0.elapsed().as_secs_f64(), fleet.sums());
    let flow = Flow {
        acked_per_s: (sums.acked - before.1.acked) as f64 / seconds,
        lost: sums.lost - before.1.lost,
        core: (agent.process.cpu_s()? - before.2) / seconds,
        behind: agent.status()?["readings_behind"]
            .as_u64()
            .unwrap_or(u64::MAX),
    };
    Ok((done, flow))
}

fn ingested(what: &str, under: &str, flow: Flow) -> Row {
    let Flow {
        acked_per_s,
        lost,
        core,
        behind,
    } = flow;
    Row {
        must: format!(">= {:.0} k/s", READINGS_PER_S_MIN / 1e3),
        reached: Some(acked_per_s >= READINGS_PER_S_MIN && lost == 0),
        ..told(
            what,
            under,
            format!(
                "{:.1} k/s, {lost} lost, {:.0} % of a core, {behind} behind",
                acked_per_s / 1e3,
                core * 100.0
            ),
        )
    }
}

fn asked_at(what: &str, under: &str, times: &Times, flow: Flow) -> Row {
    let under = format!(
        "{under}, {QUERIES_PER_S} queries/s, {:.0} k readings/s",
        flow.acked_per_s / 1e3
    );
    within(
        told(what, &under, times.text()),
        times.quantile_ms(0.99),
        ROLLING_P99_MS_MAX,
    )
}
