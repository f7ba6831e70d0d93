//! What a device's lines hold: each message built from the parts that know.

use forebay_wire::ids::Tick;
use forebay_wire::limits::LOG_FRAME_BYTES_MAX;
use forebay_wire::message::{CmdResult, Gap, GapReason, Hello, Log};
use forebay_wire::{DataBuilder, DeviceMessage, SCHEMA_HASH, codec};
use heapless::Vec;

use super::{Device, LineBuffer};
use crate::account::Account;
use crate::backlog::Item;
use crate::session::Outgoing;

impl<const RING: usize, const CHANNELS: usize> Device<RING, CHANNELS> {
    pub(super) fn write(&mut self, outgoing: Outgoing, line: &mut LineBuffer) -> usize {
        match outgoing {
            Outgoing::Delimiter => {
                line[0] = Self::DELIMITER;
                1
            }
            Outgoing::Hello => encode(&DeviceMessage::Hello(self.hello()), line),
            Outgoing::SyncReply(reply) => encode(&DeviceMessage::SyncReply(reply), line),
            Outgoing::Channel(channel) => {
                match self
                    .channels
                    .get(usize::from(channel.0))
                    .and_then(|spec| spec.info(channel))
                {
                    Some(mut info) => {
                        info.period_us = self.period_us(channel);
                        encode(&DeviceMessage::Channel(info), line)
                    }
                    None => 0,
                }
            }
            Outgoing::Health => encode(&DeviceMessage::Health(self.health()), line),
            Outgoing::Result => self.write_result(line),
            Outgoing::Log => self.write_log(line),
            Outgoing::LastGap(owed) => encode(&DeviceMessage::Gap(last_gap(owed)), line),
            Outgoing::Data => self.write_data(line),
            Outgoing::Gap => self.write_gap(line),
        }
    }

    fn hello(&self) -> Hello {
        let config = &self.config;
        Hello {
            uid: config.uid,
            boot: self.session.boot(),
            protocol_minor: codec::PROTOCOL_MINOR,
            schema_hash: SCHEMA_HASH,
            firmware_version: config.firmware_version,
            build_id: config.build_id,
            reset_cause: config.reset_cause,
            tick_hz: config.tick_hz,
            ring_capacity: u32::try_from(RING).unwrap_or(u32::MAX),
            channel_count: self.channels.len() as u8,
        }
    }

    /// Packs readings from the cursor on, until the frame is full or a gap is next.
    fn write_data(&mut self, line: &mut LineBuffer) -> usize {
        let Device {
            backlog, session, ..
        } = self;
        let mut builder = DataBuilder::new(line, session.boot(), backlog.cursor());
        backlog.send_readings(|reading| builder.push(reading));
        builder.finish().unwrap_or(0)
    }

    fn write_gap(&mut self, line: &mut LineBuffer) -> usize {
        self.backlog.shed_when_overrun();
        let first = self.backlog.cursor();
        let Some(Item::Gap {
            reason,
            count,
            first_tick,
            last_tick,
        }) = self.backlog.at_cursor()
        else {
            return 0;
        };
        self.backlog.advance();
        let boot = self.session.boot();
        encode(
            &DeviceMessage::Gap(Gap {
                boot,
                reason,
                first,
                count,
                first_tick,
                last_tick,
            }),
            line,
        )
    }

    fn write_result(&mut self, line: &mut LineBuffer) -> usize {
        let Some((id, status)) = self.control.commands.waiting() else {
            return 0;
        };
        self.control.commands.said(id);
        let payload = Vec::new();
        let result = CmdResult {
            id,
            status,
            payload,
        };
        encode(&DeviceMessage::CmdResult(result), line)
    }

    fn write_log(&mut self, line: &mut LineBuffer) -> usize {
        let mut frame = [0; LOG_FRAME_BYTES_MAX];
        let length = self.control.log.take(&mut frame);
        encode(&DeviceMessage::Log(Log(&frame[..length])), line)
    }
}

/// The clock that stamped the lost readings is gone: their ticks say nothing.
fn last_gap(owed: Account) -> Gap {
    let Account {
        boot,
        acked,
        produced,
    } = owed;
    Gap {
        boot,
        reason: GapReason::PowerLoss,
        first: acked,
        count: produced.0 - acked.0,
        first_tick: Tick(0),
        last_tick: Tick(0),
    }
}

fn encode(message: &DeviceMessage<'_>, line: &mut LineBuffer) -> usize {
    match message.encode(line) {
        Ok(bytes) => bytes,
        // `expect` would bring the error's text, and with it all of `fmt`, into flash.
        Err(_) => unreachable!("fields are checked in start, and every message fits a line"),
    }
}
