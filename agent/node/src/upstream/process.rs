//! The receiver as a handle: starts the worker, keeps it running when the sink
//! fails, and answers the local socket.
//!
//! Always holds: a failed sink is opened again after a pause, with a new
//! connection to the broker, so that everything unacked comes again.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::limits::ALARMS_EVERY_US;
use forebay_core::query::Reply;
use forebay_core::upstream::apply::Applier;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::connections::Plan;
use super::health::{Health, Heard};
use super::ledger::LedgerShown;
use super::limits::{
    QUESTIONS_MAX, REOPEN_PAUSE, REOPEN_PAUSE_MAX, UNACKED_LINGER_MAX, UNACKED_MAX,
};
use super::query::SinkQuestion;
use super::sink::{self, Sink, SinkError};
use super::snapshot::UpstreamSnapshot;
use super::worker::{Ended, Worker};
use crate::config::UpstreamConfig;
use crate::local::{Asked, LocalSocket};
use crate::mqtt::client::MqttConfig;
use crate::mqtt::settings::client_settings;
use crate::ports::Say;

/// How often alarms are judged.
const ALARMS_EVERY: Duration = Duration::from_micros(ALARMS_EVERY_US);

/// A running receiver. [`UpstreamProcess::stop`] waits for its end; dropping it lets
/// it end in the background.
#[derive(Debug)]
pub struct UpstreamProcess {
    snapshot: watch::Receiver<UpstreamSnapshot>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    questions: JoinHandle<()>,
    asked: mpsc::Sender<Asked>,
}

impl UpstreamProcess {
    /// Opens the sink and starts the receiver on the current tokio runtime.
    ///
    /// # Errors
    /// A sentence: what cannot be opened or read, and what to do.
    pub fn spawn(config: &UpstreamConfig, say: &Say) -> Result<Self, String> {
        let mqtt = client_settings(&config.broker)?;
        // A sink blocks, and some may not be called from a thread of the runtime.
        let opened = std::thread::scope(|scope| scope.spawn(|| open(config)).join());
        let opened = opened.map_err(|_| "the thread that opens the sink panicked".to_owned())?;
        let (sink, applier) = opened.map_err(|error| error.to_string())?;
        let (sender, snapshot) = watch::channel(UpstreamSnapshot::default());
        let (ledger_sender, ledger) = watch::channel(LedgerShown::of(&applier));
        let (asked, questions) = mpsc::channel(QUESTIONS_MAX);
        // A sink that is elsewhere leaves the folder of the socket to us.
        std::fs::create_dir_all(&config.data_dir)
            .map_err(|error| format!("{}: {error}", config.data_dir.display()))?;
        // After the sink: who holds its lock may take over a leftover socket.
        let socket = LocalSocket::serve(&config.socket, asked.clone())
            .map_err(|error| format!("socket {}: {error}", config.socket.display()))?;
        let (of_sink, sink_asked) = mpsc::channel(QUESTIONS_MAX);
        let heard = Arc::new(Heard::default());
        let health = (Health::new(config), Arc::clone(&heard), say.clone());
        let shown = (snapshot.clone(), ledger);
        let questions = tokio::spawn(answer(socket, questions, shown, (of_sink, health)));
        let (stop, stopped) = oneshot::channel();
        let keeper = Keeper {
            config: config.clone(),
            mqtt,
            snapshot: sender,
            ledger: ledger_sender,
            heard,
            say: say.clone(),
            asked: sink_asked,
        };
        Ok(Self {
            snapshot,
            stop,
            task: tokio::spawn(keeper.run(sink, applier, stopped)),
            questions,
            asked,
        })
    }

    /// Takes questions as the local socket does, for whoever else lets them in.
    #[must_use]
    pub fn asked(&self) -> mpsc::Sender<Asked> {
        self.asked.clone()
    }

    #[must_use]
    pub fn snapshot(&self) -> UpstreamSnapshot {
        self.snapshot.borrow().clone()
    }

    /// Waits until the snapshot says what is wanted; never returns when it never does.
    pub async fn wait_until(&self, wanted: impl FnMut(&UpstreamSnapshot) -> bool) {
        // The sender lives as long as the task; after it nothing changes any more.
        let _ = self.snapshot.clone().wait_for(wanted).await;
    }

    /// Makes durable what was taken, acks it, says goodbye to the broker and ends.
    /// Gives the last figures.
    pub async fn stop(self) -> UpstreamSnapshot {
        let _ = self.stop.send(());
        let _ = self.task.await;
        let _ = self.questions.await;
        self.snapshot.borrow().clone()
    }
}

async fn answer(
    socket: LocalSocket,
    mut questions: mpsc::Receiver<Asked>,
    (mut snapshot, ledger): (
        watch::Receiver<UpstreamSnapshot>,
        watch::Receiver<LedgerShown>,
    ),
    (of_sink, (mut health, heard, say)): (mpsc::Sender<SinkQuestion>, (Health, Arc<Heard>, Say)),
) {
    // Held until the task ends: dropping it removes the file.
    let _socket = socket;
    let mut looks = tokio::time::interval(ALARMS_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Asked { request, answer } = tokio::select! {
            _ = looks.tick() => {
                let snapshot = snapshot.borrow().clone();
                health.look(&snapshot, &heard, &say);
                continue;
            }
            asked = questions.recv() => match asked {
                Some(asked) => asked,
                None => return,
            },
            changed = snapshot.changed() => match changed {
                Ok(()) => continue,
                // The worker has ended.
                Err(_) => return,
            },
        };
        if SinkQuestion::is(&request) {
            // The worker answers. When it is far behind, whoever asks may ask again.
            if let Err(refused) = of_sink.try_send(SinkQuestion { request, answer }) {
                let busy = String::from("the receiver is busy: ask again");
                let _ = refused.into_inner().answer.send(Err(busy));
            }
            continue;
        }
        let reply = match question(&request) {
            Some(Question::Status) => Ok(health.with(snapshot.borrow().to_json())),
            Some(Question::Ledger) => {
                let mut status = health.with(snapshot.borrow().to_json());
                status["ledger"] = ledger.borrow().to_json();
                Ok(status)
            }
            None => Err(String::from(
                "this is a receiver: ask {\"status\":{}}, {\"rows\":{}} or {\"verify\":{}}",
            )),
        };
        // Who asked may have gone away.
        let _ = answer.send(reply.map(Reply::from));
    }
}

/// What is asked.
enum Question {
    Status,
    /// The status, and the ledger with it.
    Ledger,
}

/// Reads a question: its own form, or the one that agents are asked in.
fn question(request: &Value) -> Option<Question> {
    let about = match request.get("status") {
        Some(about) => about,
        None if request.get("query")? == "status" => request,
        None => return None,
    };
    if about["ledger"] == true {
        Some(Question::Ledger)
    } else {
        Some(Question::Status)
    }
}

fn open(config: &UpstreamConfig) -> Result<(Box<dyn Sink>, Applier), SinkError> {
    let mut sink = sink::open(config)?;
    let loaded = sink.load(None)?;
    Ok((sink, Applier::load(loaded).map_err(SinkError::Load)?))
}

struct Keeper {
    config: UpstreamConfig,
    mqtt: MqttConfig,
    snapshot: watch::Sender<UpstreamSnapshot>,
    ledger: watch::Sender<LedgerShown>,
    heard: Arc<Heard>,
    say: Say,
    asked: mpsc::Receiver<SinkQuestion>,
}

impl Keeper {
    async fn run(mut self, sink: Box<dyn Sink>, applier: Applier, mut stop: oneshot::Receiver<()>) {
        let mut opened = Some((sink, applier));
        let mut pause = REOPEN_PAUSE;
        loop {
            let text = match opened.take() {
                None => self.reopen().await.map(|again| opened = Some(again)).err(),
                Some((sink, applier)) => {
                    let plan = self.plan(&*sink);
                    let heard = Arc::clone(&self.heard);
                    let shown = (self.snapshot.clone(), self.ledger.clone(), heard);
                    let worker = Worker::new(sink, applier, plan, shown, self.say.clone());
                    match worker.run((&mut self.asked, &mut stop)).await {
                        Ended::Stopped(Ok(())) => return,
                        Ended::Stopped(Err(text)) => return self.failed(text),
                        Ended::Sink(text) => Some(text),
                    }
                }
            };
            let Some(text) = text else {
                pause = REOPEN_PAUSE;
                self.snapshot
                    .send_modify(|snapshot| snapshot.sink_said = None);
                continue;
            };
            self.failed(text);
            tokio::select! {
                _ = &mut stop => return,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(REOPEN_PAUSE_MAX),
            }
        }
    }

    fn failed(&self, text: String) {
        (self.say)(&format!("upstream: nothing can be applied: {text}"));
        self.snapshot.send_modify(|snapshot| {
            snapshot.connected = false;
            snapshot.sink_said = Some(text);
        });
    }

    async fn reopen(&self) -> Result<(Box<dyn Sink>, Applier), String> {
        let config = self.config.clone();
        let opened = tokio::task::spawn_blocking(move || open(&config));
        let opened = opened.await.map_err(|error| error.to_string())?;
        opened.map_err(|error| error.to_string())
    }

    fn plan(&self, sink: &dyn Sink) -> Plan {
        let (wait, _) = sink.linger();
        let receive_max = if wait.is_zero() {
            UNACKED_MAX
        } else {
            UNACKED_LINGER_MAX
        };
        Plan::new(self.mqtt.clone(), self.config.share.clone(), receive_max)
    }
}
