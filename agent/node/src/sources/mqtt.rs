//! Changes as messages of an MQTT topic: Debezium's events, our own lines, or a retained
//! row per topic.
//!
//! Always holds: a message is acked once what it said is durable, and one that the
//! broker sends again becomes no second change. Bound: [`MESSAGES_MAX`] messages in
//! memory. Knows no table but its own.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::{Instant, SystemTime};

use forebay_core::effect::{SourceBatch, SourceEvent, SourceState};
use forebay_core::limits::SOURCE_BATCH_EVENTS_MAX;
use tokio::sync::mpsc;

use self::mark::{Mark, digest, place, taken_at};
use super::debezium::Rules;
use super::debezium::position::Repeats;
use super::limits::{ACK_PAUSE, MESSAGES_MAX, SESSION_EXPIRY_S};
use super::link::{Source, SourceLink, Stopped};
use super::reader::{Piece, Reader};
use super::utc_of;
use crate::mqtt::client::MqttConfig;
use crate::mqtt::subscriber::{AckToken, MqttSubscriber, SubscriberConfig, SubscriberEvent};

mod mark;
mod topic;

/// A table's topic.
#[derive(Debug, Clone)]
pub struct MqttSource {
    pub broker: MqttConfig,
    /// Topic, perhaps with wildcards.
    pub filter: String,
    /// The wildcards stand for the row's key.
    pub key_from_topic: bool,
    pub rules: Rules,
}

impl Source for MqttSource {
    fn run(&self, link: SourceLink) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(read(self.clone(), link))
    }
}

async fn read(source: MqttSource, mut link: SourceLink) {
    // Small: with what may be unacked it bounds the memory.
    let (sender, mut events) = mpsc::channel(usize::from(MESSAGES_MAX) / 4);
    let config = SubscriberConfig {
        mqtt: source.broker,
        status: None,
        filters: vec![source.filter.clone()],
        receive_max: MESSAGES_MAX,
        session_expiry_s: SESSION_EXPIRY_S,
    };
    let client = MqttSubscriber::spawn(config, sender);
    let held = link.durable();
    let held = held.as_ref().and_then(Mark::read);
    let (mark, repeats) = held.unwrap_or_else(|| (Mark::default(), Repeats::default()));
    let mut taking = Taking {
        reader: Reader::new(source.rules, repeats, link.figures().clone()),
        filter: source.filter,
        key_from_topic: source.key_from_topic,
        sent: mark.taken,
        mark,
        unacked: VecDeque::new(),
        due: VecDeque::new(),
        batch: Vec::new(),
    };
    // An agent that has stopped hears nothing more; the broker keeps what was not acked.
    let _ = taking.run(&mut link, &client, &mut events).await;
    client.stop().await;
}

/// What was taken from the broker and is under way.
struct Taking {
    reader: Reader,
    filter: String,
    key_from_topic: bool,
    mark: Mark,
    /// Messages that were handed over, as the mark counts them.
    sent: u64,
    /// Messages that wait for the disk, with their numbers.
    unacked: VecDeque<(u64, AckToken)>,
    /// Messages whose ack is due.
    due: VecDeque<AckToken>,
    batch: Vec<SourceEvent>,
}

impl Taking {
    async fn run(
        &mut self,
        link: &mut SourceLink,
        client: &MqttSubscriber,
        events: &mut mpsc::Receiver<SubscriberEvent>,
    ) -> Result<(), Stopped> {
        loop {
            self.ack(client);
            let draining = link.is_draining();
            if draining && link.is_settled() && self.due.is_empty() {
                return Ok(());
            }
            let reads = !draining && link.has_room();
            tokio::select! {
                event = events.recv(), if reads => {
                    let Some(event) = event else { return Ok(()) };
                    self.on_event(event, link).await?;
                    self.take_what_is_there(events, link).await?;
                    self.send(link).await?;
                }
                moved = link.moved() => {
                    let taken = moved?.as_ref().and_then(taken_at);
                    self.on_durable(taken.unwrap_or(0));
                }
                () = tokio::time::sleep(ACK_PAUSE), if !self.due.is_empty() => {}
            }
        }
    }

    /// Fills the batch with messages that have come already.
    async fn take_what_is_there(
        &mut self,
        events: &mut mpsc::Receiver<SubscriberEvent>,
        link: &SourceLink,
    ) -> Result<(), Stopped> {
        while self.batch.len() + EVENTS_OF_A_MESSAGE_MAX <= SOURCE_BATCH_EVENTS_MAX
            && self.batch.len() < usize::from(MESSAGES_MAX)
            && let Ok(event) = events.try_recv()
        {
            self.on_event(event, link).await?;
        }
        Ok(())
    }

    async fn on_event(&mut self, event: SubscriberEvent, link: &SourceLink) -> Result<(), Stopped> {
        match event {
            SubscriberEvent::Connected {
                session_present, ..
            } => {
                if !session_present && self.mark.taken > 0 {
                    link.say(String::from(
                        "the broker has forgotten what it held for this table: changes that were sent meanwhile are missing unless they are retained",
                    ))
                    .await;
                }
                link.state(SourceState::Streaming, None).await
            }
            SubscriberEvent::Message {
                token,
                again,
                topic,
                payload,
            } => {
                if let Some(note) = self.on_message(token, again, &topic, &payload) {
                    link.say(note).await;
                }
                Ok(())
            }
            SubscriberEvent::Unfit {
                topic,
                payload_bytes,
            } => {
                let what = format!("has {payload_bytes} bytes, which is too long");
                let name = format!("a message of {topic}");
                if let Some(note) = self.reader.refuse(&name, &what, Instant::now()) {
                    link.say(note).await;
                }
                Ok(())
            }
            SubscriberEvent::SubscriptionRefused { filter } => {
                let why = format!("the broker does not let us read {filter}");
                link.state(SourceState::Waiting(why), None).await
            }
            // That the connection ended says why, too.
            SubscriberEvent::Denied(_) => Ok(()),
            SubscriberEvent::Note(text) => {
                link.say(text).await;
                Ok(())
            }
            SubscriberEvent::Disconnected { reason, .. } => {
                // Tokens of that connection are void: all of it comes again.
                self.unacked.clear();
                self.due.clear();
                let why = format!("no broker: {reason}");
                link.state(SourceState::Waiting(why), None).await
            }
        }
    }

    /// Gives what an operator should read.
    fn on_message(
        &mut self,
        token: AckToken,
        again: bool,
        topic: &str,
        payload: &[u8],
    ) -> Option<String> {
        let digest = digest(topic, payload);
        if again && self.mark.has(digest) {
            self.reader.count_repeated();
            // It may wait for the disk still, from the connection before.
            self.unacked.push_back((self.mark.taken, token));
            return None;
        }
        let name = format!("a message of {topic}");
        let now = Instant::now();
        let key = self.key_from_topic.then(|| topic::key(&self.filter, topic));
        let number = self.mark.take(digest);
        self.unacked.push_back((number, token));
        let key = match key {
            Some(None) => {
                return self.reader.refuse(&name, "has no key in its topic", now);
            }
            Some(Some(key)) => Some(key),
            None => None,
        };
        let piece = Piece {
            name: &name,
            place: &place(number),
            key: key.as_deref(),
            bytes: payload,
        };
        let now = (utc_of(SystemTime::now()), now);
        self.reader.take(piece, now, &mut self.batch)
    }

    /// Hands over what was taken, also when nothing in it is a change: its messages are
    /// acked when that is durable.
    async fn send(&mut self, link: &mut SourceLink) -> Result<(), Stopped> {
        if self.mark.taken > self.sent {
            self.sent = self.mark.taken;
            let position = self.mark.position(self.reader.repeats());
            let events = std::mem::take(&mut self.batch);
            link.send(SourceBatch { events, position }).await?;
        }
        // What was sent again may be durable already.
        let durable = link.durable().as_ref().and_then(taken_at);
        self.on_durable(durable.unwrap_or(0));
        Ok(())
    }

    fn on_durable(&mut self, taken: u64) {
        while let Some((_, token)) = self.unacked.pop_front_if(|(number, _)| *number <= taken) {
            self.due.push_back(token);
        }
    }

    fn ack(&mut self, client: &MqttSubscriber) {
        while let Some(token) = self.due.front() {
            if client.ack(*token).is_err() {
                return;
            }
            self.due.pop_front();
        }
    }
}

/// An update that gives a row another key is two.
const EVENTS_OF_A_MESSAGE_MAX: usize = 2;
