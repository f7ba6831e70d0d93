//! The gateway's end of a serial line, as small as a test of a device needs it:
//! collects what the device says and answers when the test says so.
//!
//! Owns one connection; waits at most [`SILENCE_LIMIT`] for a message and
//! [`WAIT_LIMIT`] for a certain one. Checks nothing but the frames: order and
//! content are for the test to judge.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use forebay_wire::ids::Ordinal;
use forebay_wire::limits::{LINE_BYTES_MAX, WINDOW_FRAMES_MAX};
use forebay_wire::message::{
    Ack, ChannelInfo, CmdResult, Gap, Health, Hello, HelloAck, Reading, SyncReply,
};
use forebay_wire::{Counters, Deframer, DeviceMessage, GatewayMessage};

/// A device says Hello each second, so that longer silence means that it is dead.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// How long one thing is waited for while the device says others.
pub const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// One message of a device, with nothing borrowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Hello(Hello),
    Channel(ChannelInfo),
    Data {
        boot_low: u8,
        readings: Vec<(Ordinal, Reading)>,
    },
    Gap(Gap),
    SyncReply(SyncReply),
    Health(Health),
    CmdResult(CmdResult),
    Log(Vec<u8>),
}

/// The line.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    deframer: Deframer,
    said: VecDeque<Said>,
}

impl Line {
    /// # Errors
    /// When nobody listens at `addr`.
    pub fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_LIMIT))?;
        Ok(Self {
            stream,
            deframer: Deframer::new(),
            said: VecDeque::new(),
        })
    }

    /// The next message, in the order of the line.
    ///
    /// # Errors
    /// When the device is silent or the line is closed.
    pub fn listen(&mut self) -> io::Result<Said> {
        let mut chunk = [0; 1024];
        let start = Instant::now();
        loop {
            if start.elapsed() > SILENCE_LIMIT {
                return Err(late(format!("no good frame: {:?}", self.counters())));
            }
            if let Some(said) = self.said.pop_front() {
                return Ok(said);
            }
            let count = self.stream.read(&mut chunk)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let said = &mut self.said;
            self.deframer.receive_device(&chunk[..count], |message| {
                said.extend(message.ok().map(own));
            });
        }
    }

    /// The first message that `pick` takes; those before it are dropped.
    ///
    /// # Errors
    /// As [`Line::listen`].
    pub fn listen_for<T>(&mut self, mut pick: impl FnMut(Said) -> Option<T>) -> io::Result<T> {
        let start = Instant::now();
        while start.elapsed() < WAIT_LIMIT {
            if let Some(picked) = pick(self.listen()?) {
                return Ok(picked);
            }
        }
        Err(late(format!("other messages only: {:?}", self.counters())))
    }

    /// Says `message`.
    ///
    /// # Errors
    /// When the line is closed.
    pub fn say(&mut self, message: &GatewayMessage<'_>) -> io::Result<()> {
        let mut line = [0; LINE_BYTES_MAX];
        let count = message
            .encode(&mut line)
            .map_err(|error| io::Error::other(error.to_string()))?;
        self.stream.write_all(&line[..count])
    }

    /// Opens the session for the boot of `hello`, with the readings from `next` on.
    ///
    /// # Errors
    /// As [`Line::say`].
    pub fn accept(&mut self, hello: &Hello, next: Ordinal) -> io::Result<()> {
        self.say(&GatewayMessage::HelloAck(HelloAck {
            boot: hello.boot,
            next,
            window: WINDOW_FRAMES_MAX,
            reliable: true,
            log_level: 0,
        }))
    }

    /// Says that everything below `next` is on disk.
    ///
    /// # Errors
    /// As [`Line::say`].
    pub fn acknowledge(&mut self, hello: &Hello, next: Ordinal) -> io::Result<()> {
        let (boot, credit) = (hello.boot, WINDOW_FRAMES_MAX);
        self.say(&GatewayMessage::Ack(Ack { boot, next, credit }))
    }

    /// Puts bytes on the line as they are.
    ///
    /// # Errors
    /// As [`Line::say`].
    pub fn say_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// What became of the frames so far.
    pub fn counters(&self) -> &Counters {
        self.deframer.counters()
    }
}

fn late(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, text)
}

pub(crate) fn own(message: DeviceMessage<'_>) -> Said {
    match message {
        DeviceMessage::Hello(hello) => Said::Hello(hello),
        DeviceMessage::Channel(info) => Said::Channel(info),
        DeviceMessage::Gap(gap) => Said::Gap(gap),
        DeviceMessage::SyncReply(reply) => Said::SyncReply(reply),
        DeviceMessage::Health(health) => Said::Health(health),
        DeviceMessage::CmdResult(result) => Said::CmdResult(result),
        DeviceMessage::Log(log) => Said::Log(log.0.to_vec()),
        DeviceMessage::Data(data) => Said::Data {
            boot_low: data.boot_low,
            readings: data
                .records()
                .map_while(Result::ok)
                .enumerate()
                .map(|(at, reading)| (Ordinal(data.first.0 + at as u64), reading))
                .collect(),
        },
    }
}
