//! What the parts that are not ours can do, in the same run: a bare client of the same
//! library that publishes as many bytes through the same Mosquitto to another that only
//! counts, and a plain file that takes the same bytes with a sync each megabyte.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event, MqttOptions};

use super::limits::Sizes;
use super::rig::{self, Payload};

/// Messages on their way: what the forwarder has by default.
const WINDOW: u16 = 64;
const TOPIC: &str = "bench/peer";
/// Bytes between two syncs of the plain file: what a receiver gathers.
const SYNC_BYTES: usize = 1 << 20;
const SILENCE_MAX: Duration = Duration::from_secs(30);
const PACKET_MAX: u32 = 1 << 20;

/// What they did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    /// Through Mosquitto, of the size of our messages.
    pub(super) messages_per_s: f64,
    /// Into a plain file.
    pub(super) written_per_s: f64,
}

/// Bytes of one message of a full block.
fn message_bytes(payload: Payload) -> usize {
    match payload {
        Payload::Json => 27_000,
        Payload::Compact => 3_500,
    }
}

pub(super) fn run(dir: &Path, sizes: Sizes, payload: Payload) -> Result<Beside, String> {
    let dir = dir.join("peers");
    rig::fresh_dir(&dir)?;
    let port = rig::free_port()?;
    let _broker = rig::mosquitto(&dir, "127.0.0.1", port, &[])?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let bytes = message_bytes(payload);
    let took = runtime.block_on(through(port, sizes.peer_messages, bytes))?;
    let written = append(&dir, sizes.peer_messages, bytes)?;
    let per_s = |took: Duration| f64::from(sizes.peer_messages) / took.as_secs_f64();
    Ok(Beside {
        messages_per_s: per_s(took),
        written_per_s: per_s(written),
    })
}

fn client(port: u16, name: &str) -> (AsyncClient, rumqttc::v5::EventLoop) {
    let mut options = MqttOptions::new(name, "127.0.0.1", port);
    options
        .set_outgoing_inflight_upper_limit(WINDOW)
        .set_max_packet_size(Some(PACKET_MAX));
    AsyncClient::new(options, usize::from(WINDOW))
}

async fn event(events: &mut rumqttc::v5::EventLoop) -> Result<Event, String> {
    let polled = tokio::time::timeout(SILENCE_MAX, events.poll()).await;
    let event = polled.map_err(|_| "the bare client hears nothing")?;
    event.map_err(|error| error.to_string())
}

async fn through(port: u16, messages: u32, bytes: usize) -> Result<Duration, String> {
    let (subscriber, mut counted) = client(port, "peer-sub");
    let subscribed = subscriber.subscribe(TOPIC, QoS::AtLeastOnce).await;
    subscribed.map_err(|error| error.to_string())?;
    while !matches!(
        event(&mut counted).await?,
        Event::Incoming(Packet::SubAck(_))
    ) {}
    let started = Instant::now();
    let counting = tokio::spawn(async move {
        let mut count = 0;
        while count < messages {
            if let Event::Incoming(Packet::Publish(_)) = event(&mut counted).await? {
                count += 1;
            }
        }
        Ok::<_, String>(started.elapsed())
    });
    let (publisher, mut acked) = client(port, "peer-pub");
    let giving = tokio::spawn(async move {
        let payload = bytes::Bytes::from(vec![0x5a; bytes]);
        for _ in 0..messages {
            let payload = payload.clone();
            let given = publisher.publish(TOPIC, QoS::AtLeastOnce, false, payload);
            given.await.map_err(|error| error.to_string())?;
        }
        // Who drops the client ends its loop before the last ack.
        Ok::<_, String>(publisher)
    });
    let mut count = 0;
    while count < messages {
        if let Event::Incoming(Packet::PubAck(_)) = event(&mut acked).await? {
            count += 1;
        }
    }
    let _publisher = giving.await.map_err(|error| error.to_string())??;
    counting.await.map_err(|error| error.to_string())?
}

fn append(dir: &Path, messages: u32, bytes: usize) -> Result<Duration, String> {
    let path = dir.join("raw");
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let payload = vec![0x5a; bytes];
    let mut file = File::create(&path).map_err(fail)?;
    let (started, mut unsynced) = (Instant::now(), 0);
    for _ in 0..messages {
        file.write_all(&payload).map_err(fail)?;
        unsynced += bytes;
        if unsynced >= SYNC_BYTES {
            file.sync_data().map_err(fail)?;
            unsynced = 0;
        }
    }
    file.sync_data().map_err(fail)?;
    let took = started.elapsed();
    std::fs::remove_file(&path).map_err(fail)?;
    Ok(took)
}
