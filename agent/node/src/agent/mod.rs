//! A running agent: the core with its store, its ports, its broker and its local
//! socket around it. `forebay run` and `forebay demo` both start it here.

pub mod device_questions;
pub mod follow;
pub mod imports;
mod links;
mod places;
mod priority;
pub mod questions;
mod sources;
mod status;
mod turns;

mod runtime;

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::alarms::AlarmRules;
use forebay_core::effect::{GatewayConfig, Opened};
use forebay_core::ingest::Router;
use forebay_core::meta::Entry;
use forebay_core::payload::GatewayName;
use forebay_core::pipeline::{Gateway, Pipelines};
use forebay_core::query::{Names, Reply};
use forebay_core::store::{Store as _, StoreOpened};
use forebay_core::units::Span;
use forebay_core::views::Pipeline;
use forebay_wire::ids::DeviceUid;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use self::links::Links;
use self::runtime::{Control, Events, Outside, Runtime};
use self::sources::Sources;
use crate::config::{Config, LogConfig, SyncMode, pipeline};
use crate::devlog::DeviceLogs;
use crate::local::{Asked, LocalSocket};
use crate::ports::{MonoClock, Ports, Say};
use crate::reads::{PLANS_MAX, Reads};
use crate::store::{Answer, LogStore, OpenError, StorageThread, StoreSettings, SyncPolicy};

/// Events that may wait per channel; above it their sources wait.
const EVENTS_MAX: usize = 256;
/// Pause between tries to open a log on a full disk.
const FULL_DISK_WAIT: Duration = Duration::from_secs(1);
/// How long a stopping agent waits for its disk, or for windows that are still being
/// computed. What is not durable then was not acked and comes again; an agent that is
/// told to end ends within five seconds.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// How long it waits for answers of its broker.
const ANSWER_MAX: Duration = Duration::from_millis(1500);

/// An agent in this process.
#[derive(Debug)]
pub struct Agent {
    asked: mpsc::Sender<Asked>,
    control: mpsc::Sender<Control>,
    ended: oneshot::Receiver<Result<(), String>>,
    _socket: LocalSocket,
    socket_path: PathBuf,
    reads: Reads,
}

impl Agent {
    /// Opens the log and starts everything, on the current tokio runtime. Waits while
    /// the disk is too full to open the log.
    ///
    /// # Errors
    /// A sentence: what is missing or taken, where, and what to do.
    pub async fn start(config: &Config, say: &Say) -> Result<Self, String> {
        let gateway = config.gateway().map_err(|error| error.to_string())?;
        let name = GatewayName::new(gateway).map_err(|error| error.to_string())?;
        let data_dir = &config.agent.data_dir;
        let (sources, said) = Sources::new(config)?;
        let (store, opened) = open_store(data_dir, store_settings(&config.log), say).await?;
        let meta = store.meta_with_prefix(b"");
        let opened = Opened {
            store: opened,
            meta: meta.map_err(|error| error.to_string())?,
        };
        let clock = MonoClock::start();
        let core = Gateway::with_pipeline(
            core_config(config, name.clone(), &sources),
            &opened,
            pipelines(config, &opened.meta),
            runtime::now(&clock),
        )
        .map_err(|error| error.to_string())?;

        let (plans, planned) = mpsc::channel(PLANS_MAX);
        let (asked, questions) = mpsc::channel(EVENTS_MAX);
        let reads = Reads::new(asked.clone(), plans, store.reads());
        let (store, store_events) = spawn_store(store, &config.log)?;
        let (port_sender, port_events) = mpsc::channel(EVENTS_MAX);
        let ports = Ports::spawn(
            places::port_configs(&config.device_ports),
            port_sender,
            clock,
            say.clone(),
        );
        let (links, mqtt_events) = Links::start(config, &name)?;
        let (control, controls) = mpsc::channel(4);
        let socket_path = config.query.socket.clone();
        let socket = LocalSocket::serve(&socket_path, asked.clone())
            .map_err(|error| format!("socket {}: {error}", socket_path.display()))?;
        let firmware = config.agent.firmware.clone();
        let logs = DeviceLogs::start(firmware, names(config), say.clone())
            .map_err(|error| format!("the thread of device logs did not start: {error}"))?;
        let outside = Outside {
            store,
            ports,
            links,
            sources,
            logs,
        };
        let events = Events {
            store: store_events,
            ports: port_events,
            mqtt: mqtt_events,
            sources: said,
            asked: questions,
            plans: planned,
            control: controls,
        };
        let runtime = Runtime::new(core, clock, say.clone(), outside, reads.clone());
        Ok(Self {
            reads,
            asked,
            control,
            ended: spawn_loop(runtime, events)?,
            _socket: socket,
            socket_path,
        })
    }

    /// Where questions are answered.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket_path
    }

    /// For questions beside the loop.
    #[must_use]
    pub fn handle(&self) -> Reads {
        self.reads.clone()
    }

    /// Asks as the local socket does.
    ///
    /// # Errors
    /// What the agent answered, or that it has stopped.
    pub async fn ask(&self, request: Value) -> Result<Value, String> {
        let (answer, answered) = oneshot::channel();
        let stopped = || String::from("the agent has stopped");
        let asked = self.asked.send(Asked { request, answer });
        asked.await.map_err(|_| stopped())?;
        let answer = answered.await.map_err(|_| stopped())?;
        answer.map(Reply::into_value)
    }

    /// Takes no more readings and waits until those that are here are durable and
    /// derived and, if `forwarded`, acked by the broker. False after `patience`.
    pub async fn drain(&self, forwarded: bool, patience: Duration) -> bool {
        let (done, drained) = oneshot::channel();
        let drain = Control::Drain { forwarded, done };
        self.control.send(drain).await.is_ok()
            && matches!(tokio::time::timeout(patience, drained).await, Ok(Ok(())))
    }

    /// Lets the disk catch up and the broker answer what is on its way, and stops:
    /// the next start then sends nothing again.
    ///
    /// # Errors
    /// Why the agent had stopped before.
    pub async fn stop(self) -> Result<(), String> {
        self.drain(false, SETTLE_MAX).await;
        let (done, quiet) = oneshot::channel();
        if self.control.send(Control::Hold { done }).await.is_ok() {
            // A broker that does not answer costs some messages sent again.
            let _ = tokio::time::timeout(ANSWER_MAX, quiet).await;
        }
        // A loop that has ended hears nothing, and its result says why.
        let _ = self.control.send(Control::Stop).await;
        ended(self.ended.await)
    }

    /// Waits until the agent ends by itself, which it does only on an error.
    ///
    /// # Errors
    /// Why it ended.
    pub async fn failed(&mut self) -> Result<(), String> {
        ended((&mut self.ended).await)
    }
}

fn ended(result: Result<Result<(), String>, oneshot::error::RecvError>) -> Result<(), String> {
    result.unwrap_or_else(|_| Err(String::from("the agent's loop broke")))
}

/// The loop on a thread of its own. On one of the runtime's, what it wakes would wait there
/// until it waits itself: an answer would come after all events that are here already.
fn spawn_loop(
    runtime: Runtime,
    events: Events,
) -> Result<oneshot::Receiver<Result<(), String>>, String> {
    let (done, ended) = oneshot::channel();
    let runs_on = tokio::runtime::Handle::current();
    let thread = std::thread::Builder::new().name(String::from("forebay-loop"));
    let thread = thread.spawn(move || {
        priority::raise();
        let result = runs_on.block_on(runtime.run(events));
        // Nobody may wait for it any more.
        let _ = done.send(result);
    });
    thread.map_err(|error| format!("the thread of the loop did not start: {error}"))?;
    Ok(ended)
}

/// The thread of the store, and what it says.
fn spawn_store(
    store: LogStore,
    config: &LogConfig,
) -> Result<(StorageThread, mpsc::UnboundedReceiver<Answer>), String> {
    let (says, said) = mpsc::unbounded_channel();
    let thread = StorageThread::spawn(Box::new(store), sync_policy(config.sync), move |answer| {
        // The loop has ended: nobody waits for this answer.
        let _ = says.send(answer);
    });
    let thread = thread.map_err(|error| format!("the storage thread did not start: {error}"))?;
    Ok((thread, said))
}

/// Opens the log. A disk that is full is waited for: it may be emptied by others,
/// and giving up would stop what can be read from being answered all the same.
async fn open_store(
    data_dir: &Path,
    settings: StoreSettings,
    say: &Say,
) -> Result<(LogStore, StoreOpened), String> {
    let mut told = false;
    loop {
        match LogStore::open(data_dir, settings) {
            Ok(opened) => return Ok(opened),
            Err(error @ OpenError::System { no_space: true, .. }) => {
                if !told {
                    say(&format!("{error}; it is tried again each second"));
                }
                told = true;
                tokio::time::sleep(FULL_DISK_WAIT).await;
            }
            Err(error @ (OpenError::System { .. } | OpenError::Damaged { .. })) => {
                return Err(error.to_string());
            }
            Err(error @ OpenError::Locked { .. }) => return Err(error.to_string()),
        }
    }
}

/// The pipeline of the config, and the one that the log has had.
fn pipelines(config: &Config, meta: &[Entry]) -> Pipelines {
    let kept = Pipeline::restore(meta);
    let kept = kept.and_then(|kept| String::from_utf8(kept.text).ok());
    Pipelines {
        text: config.pipeline.clone().into_bytes(),
        kept: kept.and_then(|text| pipeline::read(&text)),
    }
}

/// How the log is kept on disk.
pub(crate) fn store_settings(log: &LogConfig) -> StoreSettings {
    StoreSettings {
        generation_bytes: log.generation_bytes,
        generation_age: log.generation_age,
        ballast_bytes: log.ballast_bytes,
    }
}

/// Names that the config gives to devices.
#[must_use]
pub fn names(config: &Config) -> Names {
    let names = config.devices.iter();
    let names = names.map(|device| (DeviceUid(device.uid), device.name.clone()));
    Names(names.collect())
}

fn core_config(config: &Config, gateway: GatewayName, sources: &Sources) -> GatewayConfig {
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    // A group of blocks shares one sync: the batch is cut so much later.
    let linger = match config.log.sync {
        SyncMode::Group(group) => config.agent.linger.max(group),
        SyncMode::EveryBlock | SyncMode::None => config.agent.linger,
    };
    GatewayConfig {
        gateway,
        router: Router::new(config.agent.partitions),
        linger: Span(micros(linger)),
        engine: config.engine.clone(),
        forward: config.forward.iter().map(|f| f.settings.clone()).collect(),
        names: names(config),
        space: config.log.space.clone(),
        clock: config.agent.clock,
        sources: sources.known(),
        tables: sources::static_tables(config),
        device_log: config.agent.device_log,
        alarms: alarm_rules(config),
    }
}

/// The rules, with the ports and devices that they are about.
fn alarm_rules(config: &Config) -> AlarmRules {
    let devices = config.devices.iter();
    AlarmRules {
        ports: places::missed(&config.device_ports),
        expects: devices
            .filter_map(|device| Some((DeviceUid(device.uid), device.expect?)))
            .collect(),
        ..config.alarms.clone()
    }
}

fn sync_policy(mode: SyncMode) -> SyncPolicy {
    match mode {
        SyncMode::Group(_) => SyncPolicy::Group,
        SyncMode::EveryBlock => SyncPolicy::EveryBlock,
        SyncMode::None => SyncPolicy::None,
    }
}
