//! The memory of an hour: 200 devices, 100 readings per second in all, and a page that is
//! looked at. The hour is driven through ten times as fast: ten times the readings and the
//! page's questions, and a tenth of the linger, so that the log gets the same blocks with the
//! same few readings each. A rolling minute then holds ten times what it would: a little too
//! much, not too little.

use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::agent::Agent;
use super::fleet::{self, Fleet};
use super::http::Client;
use super::limits::{PAGE_DEVICES, PAGE_READINGS_PER_S, RSS_MB_MAX, SPEED};
use super::{Args, told};
use crate::table::Row;

/// As config/gateway.toml has them.
const WINDOWS: &str = "[[window]]\nname = \"rolling_1m\"\nkind = \"sliding\"\nsize = \"1m\"\n\
     aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n\n\
     [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
     aggregates = [\"count\", \"mean\", \"min\", \"max\", \"stddev\"]\n\n";
/// A tenth of what they are by default.
const LOG: &str = "[log]\ngroup = \"5ms\"\n\n";
const LINGER: &str = "5ms";
const CHANNELS: usize = 2;
/// What the page asks at its own pace with so many devices, each this often: see
/// `agent/node/src/api/page/assets/js/main.js`.
const STATUS_EVERY: Duration = Duration::from_secs(10);
const CHARTS_EVERY: Duration = Duration::from_secs(5);
const LISTED_EACH: u32 = 3;

pub(super) fn run(args: &Args) -> Result<Vec<Row>, String> {
    let hz = PAGE_READINGS_PER_S * SPEED / (PAGE_DEVICES * CHANNELS) as f64;
    let fleet = Fleet::boot(PAGE_DEVICES, CHANNELS, hz)?;
    let more = format!("{WINDOWS}{LOG}{}", fleet.ports());
    let agent = Agent::start_with(&args.forebay, &args.dir.join("rss"), LINGER, &more)?;
    fleet.wait_until_open()?;
    let before = agent.process.memory_bytes("VmRSS")?;
    let stop = AtomicBool::new(false);
    let (asked, events) = (AtomicU64::new(0), AtomicU64::new(0));
    let (acked, length) = (fleet.sums().acked, args.sizes().hour.div_f64(SPEED));
    let mut most = before;
    std::thread::scope(|scope| -> Result<(), String> {
        let page = scope.spawn(|| look(&agent, &stop, &asked));
        let stream = scope.spawn(|| listen(&agent, &stop, &events));
        let started = Instant::now();
        let mut told_at = Duration::ZERO;
        while started.elapsed() < length && !page.is_finished() && !stream.is_finished() {
            std::thread::sleep(Duration::from_millis(200));
            let now = agent.process.memory_bytes("VmRSS")?;
            most = most.max(now);
            if started.elapsed() > told_at {
                println!(
                    "rss after {:.0} s: {:.1} MB",
                    told_at.as_secs_f64(),
                    mb(now)
                );
                told_at += length / 12;
            }
        }
        stop.store(true, Relaxed);
        let broke = |_| String::from("a thread that asks broke");
        page.join().map_err(broke)??;
        stream.join().map_err(broke)?
    })?;
    let readings = fleet.sums().acked - acked;
    let under = format!(
        "{PAGE_DEVICES} devices, {readings} readings in {} s, {} answers, {} events",
        length.as_secs(),
        asked.load(Relaxed),
        events.load(Relaxed)
    );
    let peak = agent.process.memory_bytes("VmHWM")?.max(most);
    let anonymous = agent.process.memory_bytes("RssAnon")?;
    let row = told(
        "resident memory, the most of an hour",
        &under,
        format!(
            "{:.1} MB, {:.1} once connected; {:.1} of it the program's file",
            mb(peak),
            mb(before),
            mb(peak.saturating_sub(anonymous))
        ),
    );
    Ok(vec![Row {
        beside: format!("{:.2}", mb(peak) / RSS_MB_MAX),
        must: format!("<= {RSS_MB_MAX} MB"),
        reached: Some(mb(peak) <= RSS_MB_MAX),
        ..row
    }])
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Asks what the page asks, each question `SPEED` times as often.
fn look(agent: &Agent, stop: &AtomicBool, asked: &AtomicU64) -> Result<(), String> {
    let mut client = agent.http()?;
    let mut ask = |path: &str| -> Result<(), String> {
        let (status, _) = client.try_get(path, "application/json")?;
        asked.fetch_add(u64::from(status == 200), Relaxed);
        Ok(())
    };
    let device = fleet::uid(7);
    let of = |path: &str, channel: usize, rest: &str| {
        let channel = fleet::channel(channel);
        format!("/api/v1/{path}?device={device}&channel={channel}&{rest}")
    };
    let (mut polls, mut charts) = (0, 0);
    let started = Instant::now();
    while !stop.load(Relaxed) {
        let since = started.elapsed().mul_f64(SPEED);
        if since >= STATUS_EVERY * polls {
            ask("/api/v1/status")?;
            if polls % LISTED_EACH == 0 {
                ask("/api/v1/devices")?;
            }
            polls += 1;
        }
        if since >= CHARTS_EVERY * charts {
            for channel in 0..CHANNELS {
                ask(&of("rolling", channel, "window=60s"))?;
                ask(&of("rollups", channel, "window=1m&from=-15m&to=now"))?;
                if charts == 0 {
                    ask(&of("readings", channel, "from=-15m&to=now&limit=5000"))?;
                }
            }
            ask("/api/v1/rows?stream=late&from=-900s&limit=200")?;
            charts += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Takes what the page's stream brings.
fn listen(agent: &Agent, stop: &AtomicBool, events: &AtomicU64) -> Result<(), String> {
    let client: Client = agent.http()?;
    let path = format!(
        "/api/v1/stream?stream=readings&stream=late&device={}&channel={}&channel={}&from=now",
        fleet::uid(7),
        fleet::channel(0),
        fleet::channel(1)
    );
    let mut lines = client.into_events(&path)?.lines();
    while !stop.load(Relaxed) {
        match lines.next() {
            Some(Ok(line)) => {
                events.fetch_add(u64::from(line.starts_with("data")), Relaxed);
            }
            Some(Err(error)) => return Err(format!("{path}: {error}")),
            None => return Err(format!("{path}: it ended")),
        }
    }
    Ok(())
}
