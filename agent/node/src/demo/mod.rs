//! `forebay demo`: devices, agent, broker and receiver in one process and one
//! temporary directory, with a live view. Every part is the real one; only the
//! distances between them are short.
//!
//! Knows no stage from inside: it reads the same status that operators read.

mod screen;
pub mod view;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use forebay_core::query::{ChannelName, Query, TimeRange};
use forebay_core::units::{EventTime, Span};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use self::screen::Screen;
use self::view::{ChannelRow, Counters, Frame, SPARK_VALUES};
use crate::agent::{Agent, names, questions};
use crate::api::{Api, Taken};
use crate::config::Config;
use crate::mqtt::broker::EmbeddedBroker;
use crate::ports::Say;
use crate::sim::{SimConfig, SimDevices};
use crate::terminal::{fail, parse_duration, print_line};
use crate::upstream::UpstreamProcess;

/// Time between two looks at the stages.
const REFRESH: Duration = Duration::from_secs(1);
/// Time between two looks for the first ack.
const FIRST_ACK_POLL: Duration = Duration::from_millis(10);
/// How long the readings that are on their way may take to arrive at the end.
const DRAIN_MAX: Duration = Duration::from_secs(20);
/// Channels in the live view.
const CHANNELS_SHOWN: usize = 16;
const SECOND_US: i64 = 1_000_000;

/// Shows live readings of this computer on their whole way, in one process
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay demo --duration 20s --json

Readings of this computer (load, memory, temperature) go from a simulated device
through a pty, a log on disk, windows, an MQTT broker and a receiver that counts
each one once. Nothing to install, nothing left behind.")]
pub struct DemoArgs {
    /// Stop after this time; without it, Ctrl-C stops
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    duration: Option<Duration>,
    /// Devices; the first measures this computer, the others are made up
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
    devices: u32,
    /// Print one line of JSON with all counters at the end, and no live view
    #[arg(long)]
    json: bool,
}

/// All parts of the demo.
struct Parts {
    devices: SimDevices,
    agent: Agent,
    api: Option<Api>,
    upstream: UpstreamProcess,
    broker: EmbeddedBroker,
    started: Instant,
    first_ack: Option<Duration>,
    recent: BTreeMap<(String, String), Vec<f64>>,
}

/// Runs the demo.
pub fn run(args: &DemoArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("no threads for the demo: {error}")),
    };
    match runtime.block_on(play(args)) {
        Ok(counters) => conclude(args, counters),
        Err(text) => fail(&text),
    }
}

fn conclude(args: &DemoArgs, counters: Counters) -> ExitCode {
    let shown = if args.json {
        print_line(&counters.to_json().to_string())
    } else {
        print_line(&format!("drained: {}", counters.line(true)))
    };
    if counters.missing() > 0 {
        return fail(&format!(
            "{} readings did not arrive within {} s",
            counters.missing(),
            DRAIN_MAX.as_secs()
        ));
    }
    shown
}

async fn play(args: &DemoArgs) -> Result<Counters, String> {
    let dir = tempfile::Builder::new()
        .prefix("forebay-demo-")
        .tempdir()
        .map_err(|error| format!("no temporary directory: {error}"))?;
    let mut parts = start(args, dir.path()).await?;
    let outcome = parts.watch(args).await;
    let counters = parts.drain().await;
    parts.stop().await?;
    outcome?;
    Ok(counters)
}

async fn start(args: &DemoArgs, dir: &Path) -> Result<Parts, String> {
    let started = Instant::now();
    let say: Say = Arc::new(|text: &str| eprintln!("forebay: {text}"));
    let broker = EmbeddedBroker::start()
        .map_err(|error| format!("the demo's broker did not start: {error}"))?;
    let devices = SimDevices::spawn(SimConfig {
        devices: args.devices,
        ..SimConfig::default()
    })
    .map_err(|error| format!("no simulated device: {error}"))?;
    let text = config_text(dir, broker.port(), &devices);
    let config = Config::from_text(&dir.join("demo.toml"), &text)
        .map_err(|error| format!("the demo's own config: {error}"))?;
    let upstream = config.upstream().map_err(|error| error.to_string())?;
    let upstream = UpstreamProcess::spawn(upstream, &say)?;
    let agent = Agent::start(&config, &say).await?;
    let api = match &config.api {
        Some(api) => {
            Some(Api::start((api, names(&config)), agent.handle(), Taken::AnyPort, &say).await?)
        }
        None => None,
    };
    if let Some(page) = api.as_ref().and_then(Api::page) {
        eprintln!("page: {page}");
    }
    Ok(Parts {
        devices,
        agent,
        api,
        upstream,
        broker,
        started,
        first_ack: None,
        recent: BTreeMap::new(),
    })
}

fn config_text(dir: &Path, broker_port: u16, devices: &SimDevices) -> String {
    use std::fmt::Write as _;
    let dir = dir.display();
    let mut text = format!(
        "[agent]\ngateway = \"demo\"\ndata_dir = \"{dir}/agent\"\n\
         [api]\nlisten = \"127.0.0.1:7380\"\n\
         [forward]\nbroker = \"127.0.0.1:{broker_port}\"\n\
         [upstream]\nbroker = \"127.0.0.1:{broker_port}\"\ndata_dir = \"{dir}/upstream\"\n\
         [[window]]\nname = \"rolling_10s\"\nkind = \"sliding\"\nsize = \"10s\"\n\
         aggregates = [\"count\", \"mean\"]\n\
         [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
         aggregates = [\"count\", \"mean\", \"min\", \"max\"]\n"
    );
    for path in devices.paths() {
        let path = path.display();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[[device_port]]\nkind = \"serial\"\npath = \"{path}\"\n"
        );
    }
    text
}

impl Parts {
    /// Shows the stages until the time is up or the operator ends it.
    async fn watch(&mut self, args: &DemoArgs) -> Result<(), String> {
        let mut screen = Screen::open(args.json);
        let signals = |error| format!("no signal handler: {error}");
        let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
        let mut shown = Instant::now();
        loop {
            self.note_first_ack();
            let left = args
                .duration
                .map(|d| d.saturating_sub(self.started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            if shown.elapsed() >= REFRESH {
                shown = Instant::now();
                let frame = self.frame(left).await?;
                screen.show(&frame);
            }
            let pause = if self.first_ack.is_some() {
                REFRESH.saturating_sub(shown.elapsed())
            } else {
                FIRST_ACK_POLL
            };
            let pause = left.map_or(pause, |left| pause.min(left));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                failed = self.agent.failed() => return failed.and(Err(String::from("the agent ended"))),
            }
        }
    }

    fn note_first_ack(&mut self) {
        let acked = |device: &crate::sim::SimSnapshot| device.acked > 0;
        if self.first_ack.is_none() && self.devices.snapshot().iter().any(acked) {
            self.first_ack = Some(self.started.elapsed());
        }
    }

    /// Lets every reading that was produced arrive, then counts.
    async fn drain(&mut self) -> Counters {
        let deadline = Instant::now() + DRAIN_MAX;
        self.devices.stop_sampling();
        loop {
            let counters = self.counters().await;
            let empty = self.devices.snapshot().iter().all(|d| d.waiting == 0);
            if (empty && counters.missing() == 0) || Instant::now() >= deadline {
                return counters;
            }
            tokio::time::sleep(FIRST_ACK_POLL).await;
        }
    }

    async fn stop(self) -> Result<(), String> {
        drop(self.api);
        let agent = self.agent.stop().await;
        self.upstream.stop().await;
        self.broker.stop().await;
        // The devices' last counters have been read.
        let _ = self.devices.stop();
        agent
    }

    async fn counters(&self) -> Counters {
        let status = self.agent.ask(questions::write(&Query::Status)).await;
        let status = status.unwrap_or(Value::Null);
        let upstream = self.upstream.snapshot();
        let devices = self.devices.snapshot();
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let stored = number(&status["stored"]);
        // The log has other records beside them, so what was sent is counted from here.
        let waiting = number(&status["forward"]["backlog_readings"]);
        Counters {
            produced: devices.iter().map(|device| device.produced).sum(),
            received: number(&status["received"]),
            stored,
            forwarded: stored.saturating_sub(waiting),
            applied: upstream.readings,
            duplicates: number(&status["duplicates"]) + upstream.duplicates,
            gaps: upstream.gap_readings,
            first_ack_ms: self
                .first_ack
                .map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    async fn frame(&mut self, left: Option<Duration>) -> Result<Frame, String> {
        let status = self.agent.ask(questions::write(&Query::Status)).await?;
        let channels = channels_of(&status);
        let hidden = channels.len().saturating_sub(CHANNELS_SHOWN);
        let mut rows = Vec::new();
        for (device, channel) in channels.into_iter().take(CHANNELS_SHOWN) {
            rows.push(self.row(device, channel).await);
        }
        Ok(Frame {
            elapsed: self.started.elapsed(),
            left,
            channels: rows,
            hidden,
            counters: self.counters().await,
            socket: self.agent.socket().display().to_string(),
        })
    }

    async fn row(&mut self, device: String, channel: Value) -> ChannelRow {
        let name = ChannelName {
            device: device.clone(),
            channel: channel["channel"].as_str().unwrap_or_default().to_owned(),
        };
        let mut rolling = [None; 2];
        for (mean, seconds) in rolling.iter_mut().zip([10, 60]) {
            let size = Span(seconds * SECOND_US);
            let channel = name.clone();
            let query = questions::write(&Query::Rolling { channel, size });
            let answer = self.agent.ask(query).await.unwrap_or(Value::Null);
            *mean = answer["mean"].as_f64();
        }
        let minute = self.last_minute(&name, &channel["time"]).await;
        let value = channel["value"].as_f64();
        let key = (device.clone(), name.channel.clone());
        let recent = self.recent.entry(key).or_default();
        recent.extend(value);
        if recent.len() > SPARK_VALUES {
            recent.remove(0);
        }
        ChannelRow {
            device,
            channel: name.channel,
            unit: channel["unit"].as_str().unwrap_or_default().to_owned(),
            value,
            rolling,
            minute,
            recent: recent.clone(),
        }
    }

    /// Mean of the last minute that is over, as of the channel's newest reading.
    async fn last_minute(&self, channel: &ChannelName, newest: &Value) -> Option<f64> {
        let newest = forebay_core::utc::parse(newest.as_str()?)?;
        let minutes_back = |count: i64| Some(EventTime(newest.0 - count * 60 * SECOND_US));
        let query = Query::Rollup {
            channel: channel.clone(),
            size: Span(60 * SECOND_US),
            range: TimeRange {
                from: minutes_back(2),
                to: None,
            },
        };
        let answer = self.agent.ask(questions::write(&query)).await.ok()?;
        let windows = answer["windows"].as_array()?.iter().rev();
        let over = |window: &&Value| window["preliminary"].as_bool() == Some(false);
        windows.clone().find(over)?["mean"].as_f64()
    }
}

/// Channels in order of device and name, with the device's name.
fn channels_of(status: &Value) -> Vec<(String, Value)> {
    let devices = status["devices"].as_array().into_iter().flatten();
    devices
        .flat_map(|device| {
            let name = device["device"].as_str().unwrap_or_default().to_owned();
            let channels = device["channels"].as_array().cloned().unwrap_or_default();
            channels
                .into_iter()
                .map(move |channel| (name.clone(), channel))
        })
        .collect()
}
