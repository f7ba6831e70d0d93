//! The real agent and a real broker: a host that keeps to the specification hears it
//! through a host's command, a kill and a stop, and gets each reading.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_node::mqtt::client::MqttConfig;
use forebay_node::mqtt::subscriber::{MqttSubscriber, SubscriberConfig, SubscriberEvent};
use forebay_node::sim::{RingSize, SamplePeriod, SimConfig, SimDevices, SimLines, SimPlace};
use forebay_tests::mosquitto::Mosquitto;
use forebay_tests::process::Running;
use forebay_tests::sparkplug::{Host, rebirth_command};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// For one thing to be seen; a machine under load may need most of it.
const LIMIT: Duration = Duration::from_secs(60);
const HZ: f64 = 20.0;
const DEVICES: u32 = 3;
/// Longest distance of two readings of a channel, ms: one that was lost makes it twice
/// the period.
const APART_MAX_MS: u64 = 90;

struct Rig {
    _sim: SimDevices,
    broker: Mosquitto,
    config: PathBuf,
    dir: TempDir,
}

impl Rig {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let sim = SimDevices::spawn(SimConfig {
            devices: DEVICES,
            host_sensors: false,
            period: SamplePeriod::from_hz(HZ).unwrap(),
            seed: 5,
            lines: SimLines::Tcp {
                listen: "127.0.0.1:0".parse().unwrap(),
            },
            ring: RingSize::new(8192).unwrap(),
            ..SimConfig::default()
        })
        .unwrap();
        let broker = Mosquitto::start();
        let mut text = format!(
            "[agent]\ngateway = \"gw-1\"\ndata_dir = \"gateway\"\n\
             [forward]\nbroker = \"127.0.0.1:{}\"\nbackoff_max = \"200ms\"\n\
             format = \"sparkplug-b\"\ngroup = \"plant\"\n",
            broker.port()
        );
        for info in sim.devices() {
            let SimPlace::Tcp(at) = info.place else {
                panic!("{info:?}")
            };
            let _ = write!(
                text,
                "[[device_port]]\nkind = \"tcp\"\naddress = \"{at}\"\n"
            );
        }
        let config = dir.path().join("forebay.toml");
        fs::write(&config, text).unwrap();
        Self {
            _sim: sim,
            broker,
            config,
            dir,
        }
    }

    fn agent(&self) -> Running {
        let args = ["run", "--config", self.config.to_str().unwrap()];
        Running::forebay("run", &args, self.dir.path())
    }
}

/// A host on a connection of its own.
struct Ears {
    client: MqttSubscriber,
    events: mpsc::Receiver<SubscriberEvent>,
    host: Host,
}

impl Ears {
    fn start(port: u16) -> Self {
        let (sender, events) = mpsc::channel(4);
        let config = SubscriberConfig {
            mqtt: MqttConfig::new("127.0.0.1", port, "host"),
            status: None,
            filters: ["NBIRTH", "NDEATH", "DBIRTH", "DDATA"]
                .map(|kind| format!("spBv1.0/plant/{kind}/#"))
                .to_vec(),
            receive_max: 64,
            session_expiry_s: 60,
        };
        Self {
            client: MqttSubscriber::spawn(config, sender),
            events,
            host: Host::default(),
        }
    }

    /// Hears until `done`.
    async fn until(&mut self, what: &str, done: impl Fn(&Host) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !done(&self.host) {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = timeout(left, self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"));
            match event.unwrap() {
                SubscriberEvent::Message {
                    token,
                    topic,
                    payload,
                    ..
                } => {
                    self.host.on_message(&topic, &payload);
                    self.client.ack(token).unwrap();
                }
                SubscriberEvent::Connected { .. } => {}
                event @ (SubscriberEvent::Unfit { .. }
                | SubscriberEvent::SubscriptionRefused { .. }
                | SubscriberEvent::Note(_)
                | SubscriberEvent::Denied(_)
                | SubscriberEvent::Disconnected { .. }) => panic!("{what}: {event:?}"),
            }
        }
    }
}

/// Times of each channel, each once.
fn times(host: &Host) -> BTreeMap<(&str, &str), Vec<u64>> {
    let mut out: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for taken in &host.taken {
        let channel = (taken.device.as_str(), taken.metric.as_str());
        out.entry(channel).or_default().push(taken.timestamp);
    }
    for times in out.values_mut() {
        times.sort_unstable();
        times.dedup();
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_gets_each_reading_through_rebirth_kill_and_stop() {
    let rig = Rig::start();
    let mut ears = Ears::start(rig.broker.port());
    // What is published before the host listens is not for it.
    let listening = timeout(LIMIT, ears.events.recv()).await.unwrap();
    assert!(matches!(listening, Some(SubscriberEvent::Connected { .. })));
    let agent = rig.agent();
    ears.until("readings come", |host| host.taken.len() > 200)
        .await;
    let births = ears.host.births;
    let command = "spBv1.0/plant/NCMD/gw-1";
    ears.client
        .publish(command, rebirth_command(), false)
        .unwrap();
    let all = births + 1 + u64::from(DEVICES);
    ears.until("births again", |host| host.births >= all).await;
    agent.kill_9();
    ears.until("its last will", |host| host.deaths == 1).await;
    let before = ears.host.taken.len();
    let agent = rig.agent();
    ears.until("readings go on", |host| host.taken.len() > before + 400)
        .await;
    assert!(agent.end_by("TERM").success());
    ears.until("a death on purpose", |host| host.deaths == 2)
        .await;
    let times = times(&ears.host);
    assert!(times.len() >= DEVICES as usize, "{:?}", times.keys());
    for ((device, channel), times) in times {
        for pair in times.windows(2) {
            let apart = pair[1] - pair[0];
            assert!(apart <= APART_MAX_MS, "{device} {channel}: {apart} ms");
        }
    }
}
