//! What is answered to each control request. Pure: it says what to do, and does none
//! of it. Numbers from chapter 9 of the USB specification and the PSTN subclass.

use super::descriptor::{
    CONFIGURATION, CONFIGURATION_TYPE, DEVICE, DEVICE_TYPE, STRING_TYPE, string,
};

/// The eight bytes of a setup packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Direction, type and recipient as bits, and the request's number.
    kind: (u8, u8),
    value: u16,
    index: u16,
    /// Bytes that the host sends or at most wants.
    pub(super) length: u16,
}

impl Request {
    pub(super) fn parse(setup: [u8; 8]) -> Self {
        let [kind, number, value @ .., i0, i1, l0, l1] = setup;
        Self {
            kind: (kind, number),
            value: u16::from_le_bytes(value),
            index: u16::from_le_bytes([i0, i1]),
            length: u16::from_le_bytes([l0, l1]),
        }
    }
}

/// What to do about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Send this, cut to what was asked for.
    Send(&'a [u8]),
    /// Take the host's data, then [`State::received`].
    Receive,
    Accept,
    Address(u8),
    /// Switch the endpoints on or off.
    Configure(bool),
    /// Halt an endpoint or let it go.
    Halt(u8, bool),
    /// Tell whether an endpoint is halted.
    Halted(u8),
    /// A program has opened the port.
    Opened,
    Stall,
}

const LINE_CODING_BYTES: u16 = 7;
/// 115,200 baud, one stop bit, no parity, eight bits: to show, and nothing more.
const LINE_CODING: [u8; LINE_CODING_BYTES as usize] = [0x00, 0xc2, 0x01, 0x00, 0, 0, 8];

// Direction, type and recipient.
const TO_DEVICE: u8 = 0x00;
const TO_INTERFACE: u8 = 0x01;
const TO_ENDPOINT: u8 = 0x02;
const FROM_DEVICE: u8 = 0x80;
const FROM_INTERFACE: u8 = 0x81;
const FROM_ENDPOINT: u8 = 0x82;
const CLASS_TO_INTERFACE: u8 = 0x21;
const CLASS_FROM_INTERFACE: u8 = 0xa1;

const GET_STATUS: u8 = 0;
const CLEAR_FEATURE: u8 = 1;
const SET_FEATURE: u8 = 3;
const SET_ADDRESS: u8 = 5;
const GET_DESCRIPTOR: u8 = 6;
const GET_CONFIGURATION: u8 = 8;
const SET_CONFIGURATION: u8 = 9;
const GET_INTERFACE: u8 = 10;
const SET_INTERFACE: u8 = 11;
const SET_LINE_CODING: u8 = 0x20;
const GET_LINE_CODING: u8 = 0x21;
const SET_CONTROL_LINE_STATE: u8 = 0x22;

const ENDPOINT_HALT: u16 = 0;
const TERMINAL_READY: u16 = 1;
const INTERFACES: u16 = 2;
const ADDRESS_MAX: u16 = 127;

/// What the host has set.
#[derive(Debug)]
pub(super) struct State {
    uid: [u8; 8],
    configured: bool,
    ready: bool,
    line_coding: [u8; LINE_CODING_BYTES as usize],
}

impl State {
    pub(super) fn new(uid: [u8; 8]) -> Self {
        Self {
            uid,
            configured: false,
            ready: false,
            line_coding: LINE_CODING,
        }
    }

    /// The bus was reset: nobody has set anything.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.uid);
    }

    /// The data of a request that was answered by [`Answer::Receive`].
    pub(super) fn received(&mut self, data: &[u8]) {
        if let Ok(coding) = data.try_into() {
            self.line_coding = coding;
        }
    }

    /// What to do about `request`; what is to be sent may be written into `buffer`.
    pub(super) fn answer<'a>(&'a mut self, request: &Request, buffer: &'a mut [u8]) -> Answer<'a> {
        let &Request {
            value,
            index,
            length,
            ..
        } = request;
        let endpoint = index as u8 & 0x8f;
        let known_interface = index < INTERFACES;
        match request.kind {
            (FROM_DEVICE, GET_DESCRIPTOR) => self.descriptor(value, buffer),
            (FROM_DEVICE, GET_STATUS) => Answer::Send(&[0, 0]),
            (FROM_DEVICE, GET_CONFIGURATION) => {
                Answer::Send(if self.configured { &[1] } else { &[0] })
            }
            (FROM_INTERFACE, GET_STATUS) if known_interface => Answer::Send(&[0, 0]),
            (FROM_INTERFACE, GET_INTERFACE) if known_interface => Answer::Send(&[0]),
            (FROM_ENDPOINT, GET_STATUS) => Answer::Halted(endpoint),
            (TO_DEVICE, SET_ADDRESS) if value <= ADDRESS_MAX => Answer::Address(value as u8),
            (TO_DEVICE, SET_CONFIGURATION) if value <= 1 => {
                self.configured = value == 1;
                Answer::Configure(self.configured)
            }
            (TO_INTERFACE, SET_INTERFACE) if known_interface && value == 0 => Answer::Accept,
            (TO_ENDPOINT, CLEAR_FEATURE) if value == ENDPOINT_HALT => Answer::Halt(endpoint, false),
            (TO_ENDPOINT, SET_FEATURE) if value == ENDPOINT_HALT => Answer::Halt(endpoint, true),
            (CLASS_TO_INTERFACE, SET_LINE_CODING) if length == LINE_CODING_BYTES => Answer::Receive,
            (CLASS_FROM_INTERFACE, GET_LINE_CODING) => Answer::Send(&self.line_coding),
            (CLASS_TO_INTERFACE, SET_CONTROL_LINE_STATE) => {
                let was_ready = self.ready;
                self.ready = value & TERMINAL_READY != 0;
                if self.ready && !was_ready {
                    Answer::Opened
                } else {
                    Answer::Accept
                }
            }
            _ => Answer::Stall,
        }
    }

    fn descriptor<'a>(&self, value: u16, buffer: &'a mut [u8]) -> Answer<'a> {
        let [index, kind] = value.to_le_bytes();
        match (kind, index) {
            (DEVICE_TYPE, 0) => Answer::Send(&DEVICE),
            (CONFIGURATION_TYPE, 0) => Answer::Send(&CONFIGURATION),
            (STRING_TYPE, _) => match string(index, self.uid, buffer) {
                Some(count) => Answer::Send(&buffer[..count]),
                None => Answer::Stall,
            },
            _ => Answer::Stall,
        }
    }
}
