//! `forebay demo`: devices, agent, broker and receiver in one process and one
//! temporary directory, with a live view. Every part is the real one; only the
//! distances between them are short.
//!
//! Knows no stage from inside: it reads the same status that operators read.

mod shown;
pub mod view;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use forebay_core::query::{ChannelName, ChannelQuery, Query};
use forebay_core::units::Span;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use self::shown::Shown;
use self::view::Counters;
use crate::agent::{Agent, questions};
use crate::api::{Api, Taken};
use crate::config::Config;
use crate::mqtt::broker::EmbeddedBroker;
use crate::ports::Say;
use crate::shell::when;
use crate::sim::{SimConfig, SimDevices};
use crate::terminal::{fail, parse_duration, print_line};
use crate::top::model::{Press, Top};
use crate::upstream::UpstreamProcess;

/// Time between two looks at the stages.
const REFRESH: Duration = Duration::from_secs(1);
/// Time between two looks for the first ack.
const FIRST_ACK_POLL: Duration = Duration::from_millis(10);
/// How long the readings that are on their way may take to arrive at the end.
const DRAIN_MAX: Duration = Duration::from_secs(20);
/// The window of the config whose mean is shown.
const ROLLING: (Span, &str) = (Span(10_000_000), "10s");

/// Shows live readings of this computer on their whole way, in one process
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay demo --duration 20s --json

Readings of this computer (load, memory, temperature) go from a simulated device
through a pty, a log on disk, windows, an MQTT broker and a receiver that counts
each one once. Nothing to install, nothing left behind. The live view takes the keys
of forebay top; q ends it.")]
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
    top: Top,
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
        Some(api) => Some(Api::start(api, agent.handle(), Taken::AnyPort, &say).await?),
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
        top: Top::new("forebay demo: live readings from this computer", ROLLING.1),
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
        let mut shown_on = Shown::open(args.json);
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
                let counters = self.look(left).await?;
                shown_on.show(&mut self.top, &counters);
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
                press = shown_on.press() => {
                    if !self.top.on_press(press.unwrap_or(Press::Interrupt)) {
                        return Ok(());
                    }
                    shown_on.draw(&mut self.top);
                }
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

    /// Takes what the agent says of itself into the live view.
    async fn look(&mut self, left: Option<Duration>) -> Result<Counters, String> {
        let status = self.agent.ask(questions::write(&Query::Status)).await?;
        let at = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.top.on_status(status, at, when::now());
        let on_screen = self.top.on_screen();
        for (key, device) in &on_screen {
            let channel = ChannelName {
                device: device.clone(),
                channel: key.1.clone(),
            };
            let size = ROLLING.0;
            let query = questions::write(&Query::Channel(channel, ChannelQuery::Rolling { size }));
            let answer = self.agent.ask(query).await.unwrap_or(Value::Null);
            self.top.on_rolling(key, answer["mean"].as_f64());
        }
        let first = on_screen
            .first()
            .map(|(key, device)| (device.as_str(), key.1.as_str()));
        let counters = self.counters().await;
        let mut extra = view::stages(&counters, (self.started.elapsed(), left));
        if let Some(page) = self.api.as_ref().and_then(Api::page) {
            extra.push(format!("page: {page}"));
        }
        let socket = self.agent.socket().display().to_string();
        extra.extend(
            first
                .map(|first| view::hint(first, &socket))
                .into_iter()
                .flatten(),
        );
        self.top.extra = extra;
        Ok(counters)
    }
}
