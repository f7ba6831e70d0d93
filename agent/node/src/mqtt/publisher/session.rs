//! One connection of the publisher: what is out on it and what the broker says.
//!
//! Always holds: data goes out only after subscription and birth are acked, so that
//! nothing else takes packet numbers among it. Bound: the window.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_core::forward::{ConnNo, Refusal, SendNo};

use super::super::client::{self, Will, will_of};
use super::super::library::{Accepted, Heard, Requests};
use super::super::sends::Sends;
use super::super::task::{Ended, Health};
use super::super::watch::Progress;
use super::{Command, LinkEvent, OutMessage, PublisherConfig};

/// What was handed to the client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Birth,
    Farewell,
    Data(SendNo),
}

/// One connection: who it is, what is out on it.
pub(super) struct Session {
    conn: ConnNo,
    config: Arc<PublisherConfig>,
    requests: Requests,
    sends: Sends<Sent>,
    /// Set by the CONNACK.
    accepted: Option<Accepted>,
    subscribed: bool,
    born: bool,
    pub(super) health: Health,
}

impl Session {
    pub(super) fn new(conn: ConnNo, config: Arc<PublisherConfig>, requests: Requests) -> Self {
        Self {
            conn,
            subscribed: config.filters.is_empty(),
            born: config.status.is_none() || config.sparkplug.is_some(),
            config,
            requests,
            sends: Sends::new(),
            accepted: None,
            health: Health::default(),
        }
    }

    fn ended(&self, reason: &str) -> Ended {
        self.health.ended(reason)
    }

    pub(super) fn on_command(
        &mut self,
        command: Option<Command>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        match command {
            None | Some(Command::Stop) => self.begin_stop(),
            Some(Command::Reset(conn)) if conn == self.conn => {
                Err(self.ended("reset by the forwarder"))
            }
            Some(Command::Reset(_)) => Ok(()),
            Some(Command::Publish(message)) => self.publish(message, out),
        }
    }

    fn publish(&mut self, message: OutMessage, out: &mut VecDeque<LinkEvent>) -> Result<(), Ended> {
        let Some(accepted) = self
            .accepted
            .filter(|_| self.health.ready && !self.health.stopping)
        else {
            return Ok(());
        };
        if message.conn != self.conn {
            return Ok(());
        }
        let OutMessage {
            conn,
            send,
            topic,
            payload,
            user_properties,
        } = message;
        if !client::is_topic(&topic) {
            out.push_back(LinkEvent::Refused {
                conn,
                send,
                reason: Refusal::TopicInvalid,
            });
            return Ok(());
        }
        // A packet that is too large would fail in the library for ever.
        let packet_bytes = self
            .requests
            .packet_bytes(&topic, payload.len(), &user_properties);
        if packet_bytes > accepted.packet_bytes_max {
            let bytes_max = accepted.packet_bytes_max;
            let reason = Refusal::TooLarge {
                packet_bytes,
                bytes_max,
            };
            out.push_back(LinkEvent::Refused { conn, send, reason });
            return Ok(());
        }
        self.health.bytes += packet_bytes as u64;
        self.requests
            .publish(topic, false, payload, user_properties)
            .map_err(|_| self.ended("more messages than the window were handed over"))?;
        self.sends.hand_over(Sent::Data(send));
        Ok(())
    }

    fn begin_stop(&mut self) -> Result<(), Ended> {
        if self.health.stopping {
            return Ok(());
        }
        self.health.stopping = true;
        let farewell = match (&self.config.sparkplug, &self.config.status) {
            (Some(node), _) => will_of(node, self.conn),
            (None, Some(status)) => status.will(),
            (None, None) => return Err(Ended::Stopped),
        };
        if self.health.ready {
            self.send_status(farewell, Sent::Farewell)
        } else {
            Err(Ended::Stopped)
        }
    }

    fn send_status(&mut self, said: Will, as_: Sent) -> Result<(), Ended> {
        let Will {
            topic,
            payload,
            retain,
        } = said;
        self.health.bytes += payload.len() as u64;
        self.requests
            .publish(topic, retain, payload, Vec::new())
            .map_err(|_| self.ended("the status was not taken"))?;
        self.sends.hand_over(as_);
        Ok(())
    }

    /// Leaves the connection for another one with files that are new.
    pub(super) fn renew(&mut self) -> Result<(), Ended> {
        self.health.renewing = true;
        self.goodbye()
    }

    fn goodbye(&self) -> Result<(), Ended> {
        self.requests
            .goodbye()
            .map_err(|_| self.ended("the disconnect was not taken"))
    }

    pub(super) fn progress(&self) -> Progress {
        self.health.progress(self.sends.unanswered())
    }

    pub(super) fn on_heard(
        &mut self,
        heard: Heard,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        match heard {
            Heard::Accepted(accepted) => self.on_accepted(accepted, out),
            Heard::Subscribed(taken) => {
                self.on_subscribed(&taken, out);
                Ok(())
            }
            Heard::Answered { pkid, refused } => self.on_answer(pkid, refused, out),
            Heard::Message { topic, payload, .. } => {
                // A topic that is no text cannot be one of ours.
                if let Some(topic) = topic {
                    let payload = payload.to_vec();
                    out.push_back(LinkEvent::Message { topic, payload });
                }
                Ok(())
            }
            Heard::Written(pkid) => self
                .sends
                .on_written(pkid)
                .map_err(|reason| self.ended(&reason)),
            Heard::Goodbye => Err(self.health.left()),
            Heard::Collision => Err(self.ended("a packet number was taken twice")),
            Heard::SignOfLife | Heard::AckWritten | Heard::Sent => Ok(()),
        }
    }

    fn on_subscribed(&mut self, taken: &[bool], out: &mut VecDeque<LinkEvent>) {
        for (filter, taken) in self.config.filters.iter().zip(taken) {
            if !taken {
                out.push_back(LinkEvent::SubscriptionRefused {
                    filter: filter.clone(),
                });
            }
        }
        self.subscribed = true;
        self.check_ready(out);
    }

    fn on_accepted(
        &mut self,
        accepted: Accepted,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        self.accepted = Some(Accepted {
            receive_max: self.config.window.min(accepted.receive_max).max(1),
            ..accepted
        });
        if !self.config.filters.is_empty() {
            self.requests
                .subscribe(&self.config.filters)
                .map_err(|_| self.ended("a subscription is not valid"))?;
        }
        let status = self.config.status.as_ref();
        if let Some(status) = status.filter(|_| self.config.sparkplug.is_none()) {
            let birth = Will {
                topic: status.topic.clone(),
                payload: status.online.clone(),
                retain: true,
            };
            self.send_status(birth, Sent::Birth)?;
        }
        self.check_ready(out);
        Ok(())
    }

    fn on_answer(
        &mut self,
        pkid: u16,
        refused: Option<Refusal>,
        out: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Ended> {
        let conn = self.conn;
        self.health.answers += 1;
        match self
            .sends
            .on_answered(pkid)
            .map_err(|reason| self.ended(&reason))?
        {
            // A broker that refuses our status still takes our data.
            Sent::Birth => {
                self.born = true;
                self.check_ready(out);
            }
            Sent::Farewell => self.goodbye()?,
            Sent::Data(send) => {
                out.push_back(match refused {
                    None => LinkEvent::Acked { conn, send },
                    Some(reason) => LinkEvent::Refused { conn, send, reason },
                });
            }
        }
        Ok(())
    }

    /// Data goes out only when nothing else takes packet numbers any more: the
    /// library hands them out in a circle of `window`, so a subscription among
    /// the data would push a message onto a number that is still taken.
    fn check_ready(&mut self, out: &mut VecDeque<LinkEvent>) {
        let Some(accepted) = self.accepted else {
            return;
        };
        if self.health.ready || !self.subscribed || !self.born {
            return;
        }
        self.health.ready = true;
        out.push_back(LinkEvent::Connected {
            conn: self.conn,
            session_present: accepted.session_present,
            window: accepted.receive_max,
        });
    }
}
