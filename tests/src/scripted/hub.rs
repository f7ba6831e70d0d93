//! The broker itself: packets of its clients in, bytes to them out, and what goes
//! wrong on the way. Opens no socket and reads no clock: time comes with each call.
//!
//! Always holds: without faults a message that was acked reaches every session that
//! takes it, in order, until it is acked. Bound: what a test publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::codec::{self, Connect, Packet, Publish, Version};
use super::faults::{Act, Disk, Facts, Faults, Forget, Seen};
use super::session::Session;
use crate::world::dice::Dice;

/// A connection, counted from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkNo(pub(super) u64);

/// What is to be done to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Out {
    Write(LinkNo, Vec<u8>),
    /// Ends it after these bytes.
    Cut(LinkNo, Vec<u8>),
}

/// An ack that was not written yet.
type Ack = (LinkNo, u16, u8);
/// Sessions by client, and what is retained.
type Stored = (BTreeMap<String, Session>, BTreeMap<String, Publish>);

/// Longest wait of acks that are gathered to be turned round.
const REVERSE_WAIT: Duration = Duration::from_millis(30);
/// In a CONNACK of version 5: taken over by another connection.
const TAKEN_OVER: u8 = 0x8e;
/// Kinds of violation that are told apart.
const VIOLATIONS_MAX: usize = 8;

#[derive(Debug)]
struct Link {
    input: Vec<u8>,
    version: Version,
    client: Option<String>,
    /// Numbers of its messages that were not acked.
    open: BTreeSet<u16>,
    receive_max: usize,
    packet_max: usize,
    /// It was told an ack that was none: what it does with numbers is not its fault.
    misled: bool,
    /// Bytes of it were taken and never looked at.
    muted: bool,
    /// What it promised; and since when it is silent.
    keep_alive: Duration,
    heard: Duration,
    taken_on: Duration,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hub {
    faults: Faults,
    dice: Dice,
    pub(super) facts: Facts,
    seen: Vec<Seen>,
    links: BTreeMap<LinkNo, Link>,
    stored: Stored,
    saved: Stored,
    /// Acks on their way, by time and a number.
    late: BTreeMap<(Duration, u64), Ack>,
    held: Vec<Ack>,
    turned: Vec<Ack>,
    turn_at: Option<Duration>,
    count: u64,
    out: Vec<Out>,
}

impl Hub {
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self {
            faults: Faults::default(),
            dice: Dice::new(seed),
            facts: Facts::default(),
            seen: Vec::new(),
            links: BTreeMap::new(),
            stored: Stored::default(),
            saved: Stored::default(),
            late: BTreeMap::new(),
            held: Vec::new(),
            turned: Vec::new(),
            turn_at: None,
            count: 0,
            out: Vec::new(),
        }
    }

    pub(super) fn take_out(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }

    #[must_use]
    pub(super) fn take_seen(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.seen)
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// When [`Hub::tick`] has something to do.
    #[must_use]
    pub(super) fn deadline(&self) -> Option<Duration> {
        let late = self.late.keys().next().map(|(at, _)| *at);
        let silent = self.links.values().filter_map(Link::silent_at);
        late.into_iter().chain(self.turn_at).chain(silent).min()
    }

    pub(super) fn set(&mut self, faults: Faults, now: Duration) {
        self.faults = faults;
        if !self.faults.mute {
            let muted = self.links.iter().filter(|(_, link)| link.muted);
            for link in muted.map(|(no, _)| *no).collect::<Vec<_>>() {
                self.cut(link, Vec::new(), true, now);
            }
        }
    }

    pub(super) fn act(&mut self, act: Act, now: Duration) {
        match act {
            Act::Cut => self.cut_all(None, now),
            Act::Goodbye(reason) => self.cut_all(Some(reason), now),
            Act::Release => {
                for ack in std::mem::take(&mut self.held) {
                    self.write_ack(ack, now);
                }
            }
            Act::ReleaseReversed => {
                for ack in std::mem::take(&mut self.held).into_iter().rev() {
                    self.write_ack(ack, now);
                }
            }
            Act::Save => self.saved = self.stored.clone(),
            Act::Restart(disk) => {
                self.facts.restarts += 1;
                self.cut_all(None, now);
                match disk {
                    Disk::Kept => {}
                    Disk::Old => {
                        self.stored = self.saved.clone();
                        for session in self.stored.0.values_mut() {
                            session.close(now);
                        }
                    }
                    Disk::Wiped => self.stored = Stored::default(),
                }
            }
            Act::LoseRetained => self.stored.1.clear(),
        }
    }

    fn cut_all(&mut self, reason: Option<u8>, now: Duration) {
        for no in self.links.keys().copied().collect::<Vec<_>>() {
            let version = self.links[&no].version;
            let last = reason.filter(|_| version == Version::V5);
            let last = last.map_or_else(Vec::new, codec::goodbye);
            self.cut(no, last, true, now);
        }
    }

    /// Ends a connection after `last`.
    fn cut(&mut self, no: LinkNo, last: Vec<u8>, with_will: bool, now: Duration) {
        if self.links.contains_key(&no) {
            self.facts.cuts += 1;
            self.out.push(Out::Cut(no, last));
            self.on_closed(no, with_will, now);
        }
    }

    pub(super) fn on_open(&mut self, no: LinkNo, now: Duration) {
        if self.faults.down {
            self.out.push(Out::Cut(no, Vec::new()));
            return;
        }
        let link = Link {
            input: Vec::new(),
            version: Version::V5,
            client: None,
            open: BTreeSet::new(),
            receive_max: usize::from(u16::MAX),
            packet_max: usize::MAX,
            misled: false,
            muted: false,
            keep_alive: Duration::ZERO,
            heard: now,
            taken_on: now,
        };
        self.links.insert(no, link);
    }

    /// The connection is gone.
    pub(super) fn on_closed(&mut self, no: LinkNo, with_will: bool, now: Duration) {
        let Some(link) = self.links.remove(&no) else {
            return;
        };
        self.held.retain(|(of, _, _)| *of != no);
        self.turned.retain(|(of, _, _)| *of != no);
        self.late.retain(|_, (of, _, _)| *of != no);
        let Some(client) = link.client else { return };
        let session = self.stored.0.get_mut(&client);
        let Some(session) = session.filter(|session| session.link == Some(no)) else {
            return;
        };
        let will = session.will.take().filter(|_| with_will);
        if !session.close(now) {
            self.stored.0.remove(&client);
        }
        if let Some(will) = will {
            self.route(will, now);
        }
    }

    pub(super) fn on_bytes(&mut self, no: LinkNo, bytes: &[u8], now: Duration) {
        let Some(link) = self.links.get_mut(&no) else {
            return;
        };
        link.heard = now;
        if self.faults.mute {
            link.muted = true;
            return;
        }
        link.input.extend(bytes);
        while let Some(link) = self.links.get_mut(&no) {
            let before = link.input.len();
            let (version, packet_max) = (link.version, link.packet_max);
            let packet = match codec::split(&mut link.input) {
                Ok(None) => return,
                Ok(Some((first, body))) => codec::read(first, &body, version),
                Err(bad) => Err(bad),
            };
            let len = before - link.input.len();
            if len > packet_max {
                self.violation("a packet above the limit it was told");
            }
            match packet {
                Ok(packet) => self.on_packet(no, packet, now),
                Err(bad) => {
                    self.violation(bad.0);
                    self.cut(no, Vec::new(), true, now);
                }
            }
        }
    }

    fn violation(&mut self, what: &str) {
        let known = &mut self.facts.violations;
        if known.len() < VIOLATIONS_MAX && !known.iter().any(|known| known == what) {
            known.push(what.to_owned());
        }
    }

    fn on_packet(&mut self, no: LinkNo, packet: Packet, now: Duration) {
        let greeted = self.links[&no].client.is_some();
        match packet {
            Packet::Connect(connect) if !greeted => self.on_connect(no, connect, now),
            _ if !greeted => {
                self.violation("another first packet than CONNECT");
                self.cut(no, Vec::new(), true, now);
            }
            Packet::Connect(_) => self.violation("a second CONNECT"),
            Packet::Publish(publish) => self.on_publish(no, publish, now),
            Packet::PubAck { id } => self.with_session(no, now, |session| session.acked(id)),
            Packet::Subscribe { id, filters } => self.on_subscribe(no, id, filters, now),
            Packet::Unsubscribe { id, filters } => {
                let version = self.links[&no].version;
                self.write(no, codec::unsub_ack(version, id, filters.len()), now);
                self.with_session(no, now, |session| {
                    for filter in &filters {
                        session.filters.remove(filter);
                    }
                });
            }
            Packet::Ping => self.write(no, codec::PING_RESP.to_vec(), now),
            Packet::Disconnect { with_will } => {
                self.out.push(Out::Cut(no, Vec::new()));
                self.on_closed(no, with_will, now);
            }
        }
    }

    fn on_connect(&mut self, no: LinkNo, connect: Connect, now: Duration) {
        let Some(link) = self.links.get_mut(&no) else {
            return;
        };
        link.version = connect.version;
        let version = connect.version;
        if let Some(code) = self.faults.refuse_connect {
            // 3: the server is not available.
            let code = if version == Version::V5 { code } else { 3 };
            let last = codec::conn_ack(version, false, code, None, None);
            self.cut(no, last, false, now);
            return;
        }
        self.facts.connects += 1;
        let limits = (self.faults.receive_max, self.faults.packet_max);
        if version == Version::V5 {
            link.receive_max = limits.0.map_or(usize::from(u16::MAX), usize::from);
            link.packet_max = limits.1.map_or(usize::MAX, |max| max as usize);
        }
        link.client = Some(connect.client_id.clone());
        link.taken_on = now;
        // A client that is silent for one and a half times what it promised is gone.
        link.keep_alive = Duration::from_millis(u64::from(connect.keep_alive_s) * 1500);
        let present = self.take_up(no, &connect, now);
        let hello = codec::conn_ack(version, present, 0, limits.0, limits.1);
        self.write(no, hello, now);
        self.pump(&connect.client_id, now);
    }

    /// Gives a connection its session; true when the client is told that it was there.
    fn take_up(&mut self, no: LinkNo, connect: &Connect, now: Duration) -> bool {
        let id = &connect.client_id;
        let other = self.stored.0.get(id).and_then(|session| session.link);
        if let Some(other) = other {
            let v5 = self.links.get(&other).map(|link| link.version) == Some(Version::V5);
            let last = if v5 {
                codec::goodbye(TAKEN_OVER)
            } else {
                Vec::new()
            };
            self.cut(other, last, true, now);
        }
        let sessions = &mut self.stored.0;
        sessions.retain(|_, session| session.ends.is_none_or(|ends| ends > now));
        let known = sessions.contains_key(id) && !connect.clean;
        if connect.clean {
            sessions.remove(id);
        }
        let mut present = known;
        if known && self.faults.forget != Forget::No {
            self.facts.forgotten += 1;
            present = self.faults.forget == Forget::Silently;
            sessions.remove(id);
        }
        let session = sessions.entry(id.clone());
        let session = session.or_insert_with(|| Session::new(connect.version));
        session.open(no, connect);
        present
    }

    fn on_subscribe(&mut self, no: LinkNo, id: u16, filters: Vec<(String, u8)>, now: Duration) {
        let version = self.links[&no].version;
        let codes: Vec<u8> = filters.iter().map(|(_, qos)| (*qos).min(1)).collect();
        self.write(no, codec::sub_ack(version, id, &codes), now);
        let mut retained = Vec::new();
        for (filter, qos) in &filters {
            if !filter.starts_with("$share/") {
                let fits = self
                    .stored
                    .1
                    .values()
                    .filter(|publish| super::filter::takes(filter, &publish.topic));
                retained.extend(fits.map(|publish| Publish {
                    qos: publish.qos.min(*qos).min(1),
                    retain: true,
                    ..publish.clone()
                }));
            }
        }
        self.with_session(no, now, |session| {
            session.filters.extend(filters);
            session.queue.extend(retained);
        });
    }

    fn on_publish(&mut self, no: LinkNo, publish: Publish, now: Duration) {
        self.facts.publishes += 1;
        let (id, qos) = (publish.id, publish.qos);
        let Some(link) = self.links.get_mut(&no) else {
            return;
        };
        if qos > 0 {
            let is_new = link.open.insert(id) || link.misled;
            let over = link.open.len() > link.receive_max && !link.misled;
            if !is_new {
                self.violation("a packet number that is still open");
            }
            if over {
                self.violation("more messages than the receive maximum");
            }
        }
        if self.faults.watch {
            let link = &self.links[&no];
            self.seen.push(Seen {
                link: no.0,
                after: now.saturating_sub(link.taken_on),
                topic: publish.topic.clone(),
                payload: publish.payload.clone(),
                properties: publish.properties.clone(),
            });
        }
        if let Some((bytes, reason)) = &self.faults.poison
            && publish
                .payload
                .windows(bytes.len().max(1))
                .any(|part| part == bytes)
            && qos > 0
        {
            self.facts.refused += 1;
            self.write_ack((no, id, *reason), now);
            return;
        }
        let refused = self.chance(self.faults.refuse);
        if refused && qos > 0 {
            self.facts.refused += 1;
            self.refuse(no, id, now);
            return;
        }
        if self.chance(self.faults.drop) {
            self.facts.dropped += 1;
        } else {
            self.route(publish, now);
        }
        if qos > 0 {
            self.ack(no, id, now);
        }
    }

    fn refuse(&mut self, no: LinkNo, id: u16, now: Duration) {
        let reasons = self.faults.reasons.clone();
        match self.links.get(&no).map(|link| link.version) {
            Some(Version::V5) if !reasons.is_empty() => {
                let at = self.dice.below(reasons.len() as u64);
                let at = usize::try_from(at).expect("below a length");
                self.write_ack((no, id, reasons[at]), now);
            }
            _ => self.cut(no, Vec::new(), true, now),
        }
    }

    /// Acks a message, in the way that is set.
    fn ack(&mut self, no: LinkNo, id: u16, now: Duration) {
        self.facts.acked += 1;
        if self.chance(self.faults.missing_ack) {
            return;
        }
        if self.chance(self.faults.unknown_ack) {
            let open = self.links.get(&no).map(|link| &link.open);
            let unused = (1..=u16::MAX)
                .rev()
                .find(|id| open.is_some_and(|open| !open.contains(id)));
            if let Some(unused) = unused {
                self.write_ack((no, unused, 0), now);
            }
        }
        let ack = (no, id, 0);
        let late = u64::try_from(self.faults.ack_late.as_micros()).unwrap_or(u64::MAX);
        if self.faults.hold_acks {
            self.held.push(ack);
        } else if self.faults.reverse_acks > 1 {
            self.turned.push(ack);
            self.turn_at.get_or_insert(now + REVERSE_WAIT);
            if self.turned.len() >= self.faults.reverse_acks {
                self.turn(now);
            }
        } else if late > 0 {
            let at = now + Duration::from_micros(self.dice.below(late + 1));
            self.count += 1;
            self.late.insert((at, self.count), ack);
        } else {
            self.write_ack(ack, now);
        }
        if self.chance(self.faults.double_ack) {
            self.write_ack(ack, now);
        }
    }

    fn turn(&mut self, now: Duration) {
        self.turn_at = None;
        for ack in std::mem::take(&mut self.turned).into_iter().rev() {
            self.write_ack(ack, now);
        }
    }

    fn write_ack(&mut self, (no, id, reason): Ack, now: Duration) {
        if let Some(link) = self.links.get_mut(&no) {
            link.misled |= !link.open.remove(&id);
            let bytes = codec::pub_ack(link.version, id, reason);
            self.write(no, bytes, now);
        }
    }

    /// Gives a message to all that take it.
    fn route(&mut self, publish: Publish, now: Duration) {
        if publish.retain && !self.chance(self.faults.lose_retained) {
            let retained = &mut self.stored.1;
            if publish.payload.is_empty() {
                retained.remove(&publish.topic);
            } else {
                retained.insert(publish.topic.clone(), publish.clone());
            }
        }
        let takers = self.takers(&publish.topic);
        for (client, qos) in takers {
            let twice = self.chance(self.faults.double);
            let early = self.chance(self.faults.reorder);
            self.facts.doubled += u64::from(twice);
            self.facts.reordered += u64::from(early);
            let Some(session) = self.stored.0.get_mut(&client) else {
                continue;
            };
            let copy = Publish {
                qos: publish.qos.min(qos).min(1),
                retain: false,
                dup: false,
                id: 0,
                properties: match session.version {
                    Version::V5 => publish.properties.clone(),
                    Version::V311 => Vec::new(),
                },
                ..publish.clone()
            };
            for _ in 0..=u8::from(twice) {
                if early {
                    // Behind what was sent before, which keeps its place.
                    let sent = session.queue.iter().take_while(|p| p.id != 0).count();
                    session.queue.insert(sent, copy.clone());
                } else {
                    session.queue.push_back(copy.clone());
                }
            }
            self.pump(&client, now);
        }
    }

    /// Clients that take a topic, with their QoS: of each group one.
    fn takers(&mut self, topic: &str) -> Vec<(String, u8)> {
        let mut takers = Vec::new();
        let mut groups: BTreeMap<String, Vec<(String, u8)>> = BTreeMap::new();
        for (client, session) in &self.stored.0 {
            takers.extend(session.takes(topic).map(|qos| (client.clone(), qos)));
            for (group, qos) in session.groups(topic) {
                let members = groups.entry(group.to_owned()).or_default();
                members.push((client.clone(), qos));
            }
        }
        for mut members in groups.into_values() {
            let there = |(client, _): &(String, u8)| self.stored.0[client].link.is_some();
            if members.iter().any(there) {
                members.retain(there);
            }
            let at = self.dice.below(members.len() as u64);
            takers.push(members.swap_remove(usize::try_from(at).expect("below a length")));
        }
        takers
    }

    /// Sends what a client takes.
    fn pump(&mut self, client: &str, now: Duration) {
        while let Some(session) = self.stored.0.get_mut(client)
            && let Some(link) = session.link
            && let Some(publish) = session.next()
        {
            self.facts.delivered += 1;
            let version = session.version;
            self.write(link, codec::publish_bytes(version, &publish), now);
        }
    }

    fn with_session(&mut self, no: LinkNo, now: Duration, work: impl FnOnce(&mut Session)) {
        let client = self.links.get(&no).and_then(|link| link.client.clone());
        let Some(client) = client else { return };
        let session = self.stored.0.get_mut(&client);
        if let Some(session) = session.filter(|session| session.link == Some(no)) {
            work(session);
            self.pump(&client, now);
        }
    }

    fn write(&mut self, no: LinkNo, mut bytes: Vec<u8>, now: Duration) {
        if self.chance(self.faults.cut_in_packet) {
            bytes.truncate(bytes.len() / 2);
            self.cut(no, bytes, true, now);
        } else if self.links.contains_key(&no) {
            self.out.push(Out::Write(no, bytes));
        }
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.dice.below(1_000) < per_mille
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Duration) {
        while let Some(entry) = self.late.first_entry()
            && entry.key().0 <= now
        {
            let ack = entry.remove();
            self.write_ack(ack, now);
        }
        if self.turn_at.is_some_and(|at| at <= now) {
            self.turn(now);
        }
        let is_silent = |link: &Link| link.silent_at().is_some_and(|at| at <= now);
        let silent = self.links.iter().filter(|(_, link)| is_silent(link));
        for no in silent.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.cut(no, Vec::new(), true, now);
        }
    }
}

impl Link {
    fn silent_at(&self) -> Option<Duration> {
        (!self.keep_alive.is_zero()).then(|| self.heard + self.keep_alive)
    }
}
