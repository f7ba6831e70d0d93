//! A broker of the world: acks a publish when it has it, keeps retained messages
//! and one session for the receiver, drops connections, and may lose its disk.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::forward::{ConnNo, SendNo};

use super::dice::Dice;

/// What the gateway's client hears.
#[derive(Debug)]
pub enum ToGateway {
    Connected(ConnNo),
    Acked(ConnNo, SendNo),
    Disconnected(ConnNo),
    Message(String, Vec<u8>),
}

/// What the receiver's client hears.
#[derive(Debug)]
pub enum ToReceiver {
    Connected {
        session_present: bool,
    },
    Disconnected,
    Message {
        id: u64,
        topic: String,
        payload: Vec<u8>,
    },
}

#[derive(Debug)]
struct Queued {
    id: u64,
    topic: String,
    payload: Vec<u8>,
}

/// Messages on their way, by arrival time; each list keeps its order.
type Mail<T> = VecDeque<(u64, T)>;

/// The broker with both of its connections.
#[derive(Debug, Default)]
pub struct Broker {
    retained: BTreeMap<String, Vec<u8>>,
    /// The receiver's session: unacked messages in order; `None` without one.
    session: Option<VecDeque<Queued>>,
    last_id: u64,
    gateway: Option<ConnNo>,
    last_conn: u64,
    receiver: bool,
    /// When each client tries again.
    gateway_retry: Option<u64>,
    receiver_retry: Option<u64>,
    publishes: Mail<(ConnNo, SendNo, String, Vec<u8>)>,
    pub to_gateway: Mail<ToGateway>,
    pub to_receiver: Mail<ToReceiver>,
}

/// Longest time that a message takes, us.
const DELAY_US: u64 = 8_000;
/// Longest time until a client tries again, us.
const RETRY_US: u64 = 400_000;

fn post<T>(mail: &mut Mail<T>, now: u64, item: T, dice: &mut Dice) {
    let last = mail.back().map_or(0, |(at, _)| *at);
    mail.push_back((last.max(now + 100 + dice.below(DELAY_US)), item));
}

/// The first item that is due.
pub fn due<T>(mail: &mut Mail<T>, now: u64) -> Option<T> {
    let is_due = mail.front().is_some_and(|(at, _)| *at <= now);
    is_due.then(|| mail.pop_front())?.map(|(_, item)| item)
}

impl Broker {
    #[must_use]
    pub fn start(now: u64) -> Self {
        Self {
            gateway_retry: Some(now),
            receiver_retry: Some(now),
            ..Self::default()
        }
    }

    /// When something happens next, us.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let fronts = [
            self.publishes.front().map(|(at, _)| *at),
            self.to_gateway.front().map(|(at, _)| *at),
            self.to_receiver.front().map(|(at, _)| *at),
            self.gateway_retry,
            self.receiver_retry,
        ];
        fronts.into_iter().flatten().min()
    }

    /// A publish leaves the gateway.
    pub fn publish(
        &mut self,
        now: u64,
        message: (ConnNo, SendNo, String, Vec<u8>),
        dice: &mut Dice,
    ) {
        if self.gateway == Some(message.0) {
            post(&mut self.publishes, now, message, dice);
        }
    }

    /// The receiver publishes a retained message.
    pub fn retain(&mut self, now: u64, topic: String, payload: Vec<u8>, dice: &mut Dice) {
        if !self.receiver {
            return;
        }
        if self.gateway.is_some() {
            let message = ToGateway::Message(topic.clone(), payload.clone());
            post(&mut self.to_gateway, now, message, dice);
        }
        self.retained.insert(topic, payload);
    }

    /// The receiver sends a command to the gateway.
    pub fn command(&mut self, now: u64, topic: String, payload: Vec<u8>, dice: &mut Dice) {
        if self.receiver && self.gateway.is_some() {
            post(
                &mut self.to_gateway,
                now,
                ToGateway::Message(topic, payload),
                dice,
            );
        }
    }

    /// The receiver acks a message of its session.
    pub fn ack(&mut self, id: u64) {
        if let Some(session) = self.session.as_mut() {
            session.retain(|queued| queued.id != id);
        }
    }

    /// The gateway closes its connection.
    pub fn reset_gateway(&mut self, now: u64, conn: ConnNo, dice: &mut Dice) {
        if self.gateway == Some(conn) {
            self.drop_gateway(now, dice);
        }
    }

    /// The gateway's connection breaks; what was on the way is gone.
    pub fn drop_gateway(&mut self, now: u64, dice: &mut Dice) {
        if let Some(conn) = self.gateway.take() {
            self.publishes.clear();
            self.to_gateway.clear();
            post(
                &mut self.to_gateway,
                now,
                ToGateway::Disconnected(conn),
                dice,
            );
            self.gateway_retry = Some(now + DELAY_US + dice.below(RETRY_US));
        }
    }

    /// The gateway's connection breaks and stays so for `away` us.
    pub fn lose_gateway(&mut self, now: u64, away: u64, dice: &mut Dice) {
        self.drop_gateway(now, dice);
        self.gateway_retry = Some(now + away);
    }

    /// The receiver's connection breaks; its session stays.
    pub fn drop_receiver(&mut self, now: u64, dice: &mut Dice) {
        if std::mem::take(&mut self.receiver) {
            self.to_receiver.clear();
            post(&mut self.to_receiver, now, ToReceiver::Disconnected, dice);
            self.receiver_retry = Some(now + DELAY_US + dice.below(RETRY_US));
        }
    }

    /// The broker restarts without its disk: sessions and retained messages are
    /// gone, and with them messages that it had acked.
    pub fn lose_disk(&mut self, now: u64, dice: &mut Dice) {
        self.drop_gateway(now, dice);
        self.drop_receiver(now, dice);
        self.session = None;
        self.retained.clear();
    }

    /// Does what is due inside the broker.
    pub fn step(&mut self, now: u64, dice: &mut Dice) {
        if self.gateway_retry.is_some_and(|at| at <= now) {
            self.gateway_retry = None;
            self.connect_gateway(now, dice);
        }
        if self.receiver_retry.is_some_and(|at| at <= now) {
            self.receiver_retry = None;
            self.connect_receiver(now, dice);
        }
        while let Some((conn, send, topic, payload)) = due(&mut self.publishes, now) {
            if self.gateway == Some(conn) {
                self.take(now, topic, payload, dice);
                post(
                    &mut self.to_gateway,
                    now,
                    ToGateway::Acked(conn, send),
                    dice,
                );
            }
        }
    }

    fn connect_gateway(&mut self, now: u64, dice: &mut Dice) {
        self.last_conn += 1;
        let conn = ConnNo(self.last_conn);
        self.gateway = Some(conn);
        post(&mut self.to_gateway, now, ToGateway::Connected(conn), dice);
        for (topic, payload) in self.retained.clone() {
            post(
                &mut self.to_gateway,
                now,
                ToGateway::Message(topic, payload),
                dice,
            );
        }
    }

    fn connect_receiver(&mut self, now: u64, dice: &mut Dice) {
        self.receiver = true;
        let session_present = self.session.is_some();
        let connected = ToReceiver::Connected { session_present };
        post(&mut self.to_receiver, now, connected, dice);
        let session = self.session.get_or_insert_default();
        for queued in session.iter() {
            let message = ToReceiver::Message {
                id: queued.id,
                topic: queued.topic.clone(),
                payload: queued.payload.clone(),
            };
            post(&mut self.to_receiver, now, message, dice);
        }
    }

    fn take(&mut self, now: u64, topic: String, payload: Vec<u8>, dice: &mut Dice) {
        // Without a session nobody wants it: acked and gone, as brokers do.
        let Some(session) = self.session.as_mut() else {
            return;
        };
        self.last_id += 1;
        let id = self.last_id;
        session.push_back(Queued {
            id,
            topic: topic.clone(),
            payload: payload.clone(),
        });
        if self.receiver {
            let message = ToReceiver::Message { id, topic, payload };
            post(&mut self.to_receiver, now, message, dice);
        }
    }
}
