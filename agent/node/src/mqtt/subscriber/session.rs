//! One connection of the subscriber: what came by it and what is out on it.
//!
//! Always holds: acks leave in the order of receipt; the client library's window is
//! never filled by what we publish. Bound: `receive_max` receipts.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use forebay_core::forward::ConnNo;
use forebay_core::limits::MESSAGE_BYTES_MAX;

use super::super::client;
use super::super::library::{Accepted, Heard, Receipt, Requests};
use super::super::limits::SUBSCRIBER_PUBLISHES_MAX;
use super::super::outbox::Outbox;
use super::super::receipts::Receipts;
use super::super::sends::Sends;
use super::super::task::{Ended, Health};
use super::super::watch::Progress;
use super::{Command, SubscriberConfig, SubscriberEvent};

/// What was handed to the client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Birth,
    Farewell,
    Message,
}

/// One connection: what came by it and what is out on it.
pub(super) struct Session {
    conn: ConnNo,
    config: Arc<SubscriberConfig>,
    requests: Requests,
    sends: Sends<Sent>,
    receipts: Receipts<Receipt>,
    /// Acks handed over and not yet written.
    acks_queued: usize,
    /// Messages that may be out unacked on this connection; set by the CONNACK.
    window: u64,
    pub(super) health: Health,
}

impl Session {
    pub(super) fn new(conn: ConnNo, config: Arc<SubscriberConfig>, requests: Requests) -> Self {
        Self {
            conn,
            config,
            requests,
            sends: Sends::new(),
            receipts: Receipts::new(conn),
            acks_queued: 0,
            window: 0,
            health: Health::default(),
        }
    }

    fn ended(&self, reason: &str) -> Ended {
        self.health.ended(reason)
    }

    pub(super) fn on_command(
        &mut self,
        command: Option<Command>,
        outbox: &mut Outbox,
    ) -> Result<(), Ended> {
        match command {
            None | Some(Command::Stop) => self.begin_stop(),
            Some(Command::Ack(token)) => {
                self.receipts.ack(token);
                self.send_acks();
                Ok(())
            }
            Some(Command::Publish {
                topic,
                payload,
                retain,
            }) => {
                outbox.push(topic, payload, retain);
                self.publish_waiting(outbox)
            }
        }
    }

    /// Hands over the acks that are due, no more than have their place in the client
    /// library's queue: a broker may send more than it was allowed to. What is left
    /// follows as the library writes them.
    pub(super) fn send_acks(&mut self) {
        while self.acks_queued < usize::from(self.config.receive_max) {
            let Some(receipt) = self.receipts.due().copied() else {
                return;
            };
            if receipt.is_acked() {
                if self.requests.ack(receipt).is_err() {
                    return;
                }
                self.acks_queued += 1;
            }
            self.receipts.sent();
        }
    }

    /// Never fills the library's window, in which the subscription has a place
    /// too: its queue carries the acks as well, and it stops reading the queue
    /// while the window is full.
    pub(super) fn publish_waiting(&mut self, outbox: &mut Outbox) -> Result<(), Ended> {
        while self.health.ready
            && !self.health.stopping
            && !self.health.renewing
            && self.sends.span() + 2 < self.window.max(3)
        {
            let Some((topic, message)) = outbox.pop() else {
                return Ok(());
            };
            if client::is_topic(&topic) {
                self.send(topic, message.payload, message.retain, Sent::Message)?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
        as_: Sent,
    ) -> Result<(), Ended> {
        self.health.bytes += (topic.len() + payload.len()) as u64;
        self.requests
            .publish(topic, retain, payload, Vec::new())
            .map_err(|_| self.ended("a message was not taken"))?;
        self.sends.hand_over(as_);
        Ok(())
    }

    fn send_status(&mut self, payload: Vec<u8>, as_: Sent) -> Result<(), Ended> {
        let topic = self
            .config
            .status
            .as_ref()
            .map(|status| status.topic.clone());
        topic.map_or(Ok(()), |topic| self.send(topic, payload, true, as_))
    }

    fn begin_stop(&mut self) -> Result<(), Ended> {
        if self.health.stopping {
            return Ok(());
        }
        self.health.stopping = true;
        let config = Arc::clone(&self.config);
        match &config.status {
            Some(status) if self.health.ready => {
                self.send_status(status.offline.clone(), Sent::Farewell)
            }
            Some(_) | None => self.goodbye(),
        }
    }

    /// Leaves the connection for another one with files that are new.
    pub(super) fn renew(&mut self) -> Result<(), Ended> {
        self.health.renewing = true;
        self.goodbye()
    }

    pub(super) fn progress(&self) -> Progress {
        self.health.progress(self.sends.unanswered())
    }

    fn goodbye(&self) -> Result<(), Ended> {
        self.requests
            .goodbye()
            .map_err(|_| self.ended("the disconnect was not taken"))
    }

    pub(super) fn on_heard(
        &mut self,
        heard: Heard,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        match heard {
            Heard::Message {
                receipt,
                again,
                topic,
                payload,
            } => {
                self.on_message((receipt, again), topic, payload, out);
                Ok(())
            }
            Heard::Answered { pkid, .. } => {
                self.health.answers += 1;
                match self.sends.on_answered(pkid) {
                    Err(reason) => Err(self.ended(&reason)),
                    Ok(Sent::Farewell) => self.goodbye(),
                    Ok(Sent::Birth | Sent::Message) => Ok(()),
                }
            }
            Heard::Accepted(accepted) => self.on_accepted(accepted, out),
            Heard::Subscribed(taken) => {
                for (filter, taken) in self.config.filters.iter().zip(taken) {
                    if !taken {
                        out.push_back(SubscriberEvent::SubscriptionRefused {
                            filter: filter.clone(),
                        });
                    }
                }
                Ok(())
            }
            Heard::Written(pkid) => self
                .sends
                .on_written(pkid)
                .map_err(|reason| self.ended(&reason)),
            Heard::AckWritten => {
                self.acks_queued = self.acks_queued.saturating_sub(1);
                Ok(())
            }
            Heard::Goodbye => Err(self.health.left()),
            Heard::Collision => Err(self.ended("a packet number was taken twice")),
            Heard::SignOfLife | Heard::Sent => Ok(()),
        }
    }

    /// On a resumed session messages follow the CONNACK at once, so this is
    /// when the reader must know. The subscription is on its way before
    /// anything that the reader publishes.
    fn on_accepted(
        &mut self,
        accepted: Accepted,
        out: &mut VecDeque<SubscriberEvent>,
    ) -> Result<(), Ended> {
        self.window = u64::from(accepted.receive_max.min(SUBSCRIBER_PUBLISHES_MAX));
        self.health.ready = true;
        out.push_back(SubscriberEvent::Connected {
            conn: self.conn,
            session_present: accepted.session_present,
        });
        // Also on a resumed session: the filters may have changed since.
        self.requests
            .subscribe(&self.config.filters)
            .map_err(|_| self.ended("a subscription is not valid"))?;
        let config = Arc::clone(&self.config);
        config.status.as_ref().map_or(Ok(()), |status| {
            self.send_status(status.online.clone(), Sent::Birth)
        })
    }

    fn on_message(
        &mut self,
        (receipt, again): (Receipt, bool),
        topic: Option<String>,
        payload: Bytes,
        out: &mut VecDeque<SubscriberEvent>,
    ) {
        let token = self.receipts.received(receipt);
        let payload_bytes = payload.len();
        match topic {
            Some(topic) if payload_bytes <= MESSAGE_BYTES_MAX => {
                let payload = Vec::from(payload);
                out.push_back(SubscriberEvent::Message {
                    token,
                    again,
                    topic,
                    payload,
                });
            }
            topic => {
                out.push_back(SubscriberEvent::Unfit {
                    topic: topic.unwrap_or_default(),
                    payload_bytes,
                });
                self.receipts.ack(token);
                self.send_acks();
            }
        }
    }
}
