//! The memory of an hour: 200 devices, 100 readings per second in all, and a page that is
//! looked at. The hour goes ten times as fast as the clock: ten times the readings and the
//! page's questions, and a tenth of all times of the config (windows, linger, sync), so that
//! each window holds as many readings as it would, and the log gets the same blocks. Only the
//! linger stays at the least that a config may say, which makes blocks a little larger.

use std::io::BufRead as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::agent::Agent;
use super::fleet::{self, Fleet};
use super::http::Client;
use super::limits::{PAGE_DEVICES, PAGE_READINGS_PER_S, RSS_MB_MAX, SPEED};
use super::{Args, told};
use crate::delivery::process::wait_for;
use crate::table::Row;

/// As config/gateway.toml has them, in a tenth of the time.
const WINDOWS: &str = "[[window]]\nname = \"rolling_1m\"\nkind = \"sliding\"\nsize = \"6s\"\n\
     aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n\n\
     [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"6s\"\n\
     aggregates = [\"count\", \"mean\", \"min\", \"max\", \"stddev\"]\n\n";
/// A tenth of what they are by default; of the linger the least that there is.
const LOG: &str = "[log]\ngroup = \"5ms\"\ngeneration_age = \"36m\"\n\n";
const LINGER: &str = "5ms";
const CHANNELS: usize = 2;
/// The device that the page shows.
const SHOWN: usize = 7;
/// What the page asks at its own pace with so many devices, each this often: see
/// `agent/node/src/api/page/assets/js/main.js`.
const STATUS_EVERY: Duration = Duration::from_secs(10);
const CHARTS_EVERY: Duration = Duration::from_secs(5);
const LISTED_EACH: u32 = 3;
/// The page's range and window, and what it asks anew of the rollups, s.
const RANGE_S: u32 = 900;
const WINDOW_S: u32 = 60;
const REFRESHED_S: u32 = 180;
/// Looks at the memory are told so often of the hour.
const TOLD: u32 = 6;

pub(super) fn run(args: &Args) -> Result<Vec<Row>, String> {
    let hz = PAGE_READINGS_PER_S * SPEED / (PAGE_DEVICES * CHANNELS) as f64;
    let fleet = Fleet::boot(PAGE_DEVICES, CHANNELS, hz)?;
    let more = format!("{WINDOWS}{LOG}{}", fleet.ports());
    let agent = Agent::start_with(&args.forebay, &args.dir.join("rss"), LINGER, &more)?;
    let started = Resident::of(&agent)?;
    fleet.wait_until_open()?;
    let known = format!("/api/v1/devices/{}", fleet::uid(SHOWN));
    let mut client = agent.http()?;
    wait_for("the device that is looked at has readings", || {
        let device = client.get(&known, "application/json").ok()?;
        let device: serde_json::Value = serde_json::from_slice(device).ok()?;
        let channels = device["channels"].as_array()?;
        let has_some = |channel: &serde_json::Value| !channel["newest"].is_null();
        (channels.len() == CHANNELS && channels.iter().all(has_some)).then_some(())
    })?;
    let connected = Resident::of(&agent)?;
    println!("rss once started: {started}; connected: {connected}");
    let stop = AtomicBool::new(false);
    let (asked, events) = (AtomicU64::new(0), AtomicU64::new(0));
    let (acked, hour) = (fleet.sums().acked, args.sizes().hour);
    let mut looks = Vec::new();
    std::thread::scope(|scope| -> Result<(), String> {
        let page = scope.spawn(|| look(&agent, &stop, &asked));
        let stream = scope.spawn(|| listen(&agent, &stop, &events));
        let began = Instant::now();
        while !page.is_finished() && !stream.is_finished() {
            let since = began.elapsed().mul_f64(SPEED);
            if since >= hour / TOLD * looks.len() as u32 {
                let now = Resident::of(&agent)?;
                println!("rss after {} simulated s: {now}", since.as_secs());
                looks.push(now);
            }
            if since >= hour {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Relaxed);
        let broke = |_| String::from("a thread that asks broke");
        page.join().map_err(broke)??;
        stream.join().map_err(broke)?
    })?;
    let sums = fleet.sums();
    let readings = sums.acked - acked;
    let (lost, asked, events) = (sums.lost, asked.load(Relaxed), events.load(Relaxed));
    let under = format!(
        "{PAGE_DEVICES} devices, {readings} readings of {} s ({lost} lost), {asked} answers, {events} events",
        hour.as_secs(),
    );
    let peak = agent.process.memory_bytes("VmHWM")?;
    let row = row(&under, peak, (started, connected), &looks);
    Ok(vec![row])
}

/// What is told of the hour.
fn row(
    under: &str,
    peak: u64,
    (started, connected): (Resident, Resident),
    looks: &[Resident],
) -> Row {
    let flat: Vec<String> = looks
        .iter()
        .map(|look| format!("{:.1}", mb(look.all)))
        .collect();
    let last = looks.last().copied().unwrap_or(connected);
    let row = told(
        "resident memory, the most of an hour",
        under,
        format!(
            "{:.1} MB; {:.1} once started, {:.1} connected, then {}; {:.1} of the last the program's file",
            mb(peak),
            mb(started.all),
            mb(connected.all),
            flat.join(" "),
            mb(last.file)
        ),
    );
    Row {
        beside: format!("{:.2}", mb(peak) / RSS_MB_MAX),
        must: format!("<= {RSS_MB_MAX} MB"),
        reached: Some(mb(peak) <= RSS_MB_MAX),
        ..row
    }
}

/// Resident memory, bytes: all of it, what is of no file, and what the system can read
/// again from files.
#[derive(Debug, Clone, Copy)]
struct Resident {
    all: u64,
    anonymous: u64,
    file: u64,
}

impl Resident {
    fn of(agent: &Agent) -> Result<Self, String> {
        Ok(Self {
            all: agent.process.memory_bytes("VmRSS")?,
            anonymous: agent.process.memory_bytes("RssAnon")?,
            file: agent.process.memory_bytes("RssFile")?,
        })
    }
}

impl std::fmt::Display for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (all, anonymous, file) = (mb(self.all), mb(self.anonymous), mb(self.file));
        write!(
            f,
            "{all:.1} MB ({anonymous:.1} anonymous, {file:.1} of files)"
        )
    }
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Asks what the page asks, each question `SPEED` times as often.
fn look(agent: &Agent, stop: &AtomicBool, asked: &AtomicU64) -> Result<(), String> {
    let mut client = agent.http()?;
    let mut ask = |path: &str| -> Result<(), String> {
        client.get(path, "application/json")?;
        asked.fetch_add(1, Relaxed);
        Ok(())
    };
    let scaled = |seconds: u32| format!("{}s", f64::from(seconds) / SPEED);
    let of = |path: &str, more: &str| {
        let channels: String = (0..CHANNELS)
            .map(|number| format!("&channel={}", fleet::channel(number)))
            .collect();
        let device = fleet::uid(SHOWN);
        format!("/api/v1/{path}?device={device}{channels}&{more}")
    };
    let rollups = |back: u32| {
        let (size, back) = (scaled(WINDOW_S), scaled(back));
        of(
            "rollups",
            &format!("window={size}&from=-{back}&limit=10000&time=us"),
        )
    };
    let rolling = of("rolling", &format!("window={}", scaled(WINDOW_S)));
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
            if charts == 0 {
                let more = "limit=12000&newest=true&gaps=true&detail=true&time=us";
                let back = scaled(RANGE_S + WINDOW_S);
                ask(&of("readings", &format!("from=-{back}&{more}")))?;
                let back = scaled(RANGE_S);
                ask(&format!("/api/v1/rows?stream=late&from=-{back}&limit=2000"))?;
            }
            ask(&rollups(if charts == 0 { RANGE_S } else { REFRESHED_S }))?;
            ask(&rolling)?;
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
        fleet::uid(SHOWN),
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
