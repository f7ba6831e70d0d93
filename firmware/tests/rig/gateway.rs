//! What a gateway does, as small as it can be: takes ordinals in order, makes them
//! durable when told, acks what is durable, repeats itself when one is missing or
//! came again, drops Data with channels it was not told of.

use std::collections::BTreeMap;

use forebay_firmware::wire::ids::{BootId, Ordinal};
use forebay_firmware::wire::message::{Ack, CmdResult, Gap, GapReason, Health, HelloAck, Reading};
use forebay_firmware::wire::{Counters, Deframer, DeviceMessage, GatewayMessage};

use super::line_of;

/// What the gateway has of one ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Reading(Reading),
    Gap(GapReason),
}

#[derive(Debug, Default)]
pub struct Gateway {
    deframer: Deframer,
    boot: Option<BootId>,
    /// Channels it was told of, as a bit set.
    pub known: u32,
    /// Everything durable, and what waits for the next commit.
    pub durable: BTreeMap<(BootId, u64), Taken>,
    pending: BTreeMap<(BootId, u64), Taken>,
    /// Next ordinal that is not taken, and not durable, by boot.
    next: BTreeMap<BootId, u64>,
    next_durable: BTreeMap<BootId, u64>,
    acked: u64,
    /// Frames with nothing new in them.
    pub duplicate_frames: u64,
    pub data_frames: u64,
    /// Every Health and result that came.
    pub healths: Vec<Health>,
    pub results: Vec<CmdResult>,
    /// Earlier boots whose last gap is to be acked once it is durable.
    closed: Vec<(BootId, u64)>,
}

impl Gateway {
    /// Takes bytes from the line; the lines to answer with.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut deframer = std::mem::take(&mut self.deframer);
        let mut replies = Vec::new();
        deframer.receive_device(bytes, |message| {
            if let Ok(message) = message {
                replies.extend(self.answer(message).map(line_of));
            }
        });
        self.deframer = deframer;
        replies
    }

    /// Makes all that was taken durable; the acks for what moved.
    pub fn commit(&mut self) -> Vec<Vec<u8>> {
        self.durable.extend(std::mem::take(&mut self.pending));
        self.next_durable = self.next.clone();
        let mut acks = Vec::new();
        if let Some(boot) = self.boot.filter(|boot| self.durable_of(*boot) > self.acked) {
            acks.push(line_of(self.ack(boot)));
        }
        for (boot, end) in std::mem::take(&mut self.closed) {
            acks.push(line_of(GatewayMessage::Ack(Ack {
                boot,
                next: Ordinal(end),
                credit: 8,
            })));
        }
        acks
    }

    /// Loses what was not durable, and forgets the device, as kill -9 does.
    pub fn restart(&mut self) {
        self.pending.clear();
        self.closed.clear();
        self.next = self.next_durable.clone();
        (self.boot, self.known, self.deframer) = (None, 0, Deframer::new());
    }

    pub fn counters(&self) -> Counters {
        *self.deframer.counters()
    }

    pub fn durable_of(&self, boot: BootId) -> u64 {
        self.next_durable.get(&boot).copied().unwrap_or(0)
    }

    fn answer(&mut self, message: DeviceMessage<'_>) -> Option<GatewayMessage<'static>> {
        match message {
            DeviceMessage::Hello(hello) => {
                (self.boot, self.known) = (Some(hello.boot), 0);
                self.next.entry(hello.boot).or_insert(0);
                self.acked = self.durable_of(hello.boot);
                let next = Ordinal(self.acked);
                let ack = HelloAck {
                    boot: hello.boot,
                    next,
                    window: 8,
                    reliable: true,
                    log_level: 0,
                };
                Some(GatewayMessage::HelloAck(ack))
            }
            DeviceMessage::Channel(info) => {
                self.known |= 1 << info.channel.0;
                None
            }
            DeviceMessage::Data(data) => {
                let boot = self.boot.filter(|boot| boot.0 as u8 == data.boot_low)?;
                let readings: Vec<_> = data.records().map(Result::unwrap).collect();
                self.data_frames += 1;
                if readings
                    .iter()
                    .any(|reading| self.known & 1 << reading.channel.0 == 0)
                {
                    return None;
                }
                let taken: Vec<_> = readings.into_iter().map(Taken::Reading).collect();
                self.run(boot, data.first.0, &taken)
            }
            DeviceMessage::Gap(gap) if self.boot.is_some_and(|boot| boot != gap.boot) => {
                self.last_gap(gap);
                None
            }
            DeviceMessage::Gap(gap) => {
                let boot = self.boot.filter(|boot| *boot == gap.boot)?;
                self.run(
                    boot,
                    gap.first.0,
                    &vec![Taken::Gap(gap.reason); gap.count as usize],
                )
            }
            DeviceMessage::Health(health) => {
                self.healths.push(health);
                None
            }
            DeviceMessage::CmdResult(result) => {
                self.results.push(result);
                None
            }
            DeviceMessage::SyncReply(_) | DeviceMessage::Log(_) => None,
        }
    }

    /// What an earlier boot lost: from where we are, acked at the next commit.
    fn last_gap(&mut self, gap: Gap) {
        let end = gap.first.0 + gap.count;
        let next = self.next.entry(gap.boot).or_insert(0);
        for ordinal in (*next).max(gap.first.0)..end {
            self.pending
                .insert((gap.boot, ordinal), Taken::Gap(gap.reason));
        }
        *next = end.max(*next);
        self.closed.push((gap.boot, end));
    }

    fn run(
        &mut self,
        boot: BootId,
        first: u64,
        taken: &[Taken],
    ) -> Option<GatewayMessage<'static>> {
        let next = self.next.get_mut(&boot)?;
        let end = first + taken.len() as u64;
        if first <= *next && *next < end {
            for (ordinal, taken) in (first..).zip(taken).skip((*next - first) as usize) {
                self.pending.insert((boot, ordinal), *taken);
            }
            *next = end;
            return None;
        }
        self.duplicate_frames += u64::from(end <= *next);
        Some(self.ack(boot))
    }

    fn ack(&mut self, boot: BootId) -> GatewayMessage<'static> {
        self.acked = self.durable_of(boot);
        GatewayMessage::Ack(Ack {
            boot,
            next: Ordinal(self.acked),
            credit: 8,
        })
    }
}
