//! A session with the board as the gateway holds it, but for Acks that a test holds
//! back. Wants every ordinal once and in order.

use std::time::Instant;

use forebay_tests::line::{Line, Said, WAIT_LIMIT};
use forebay_tests::qemu::{Options, Qemu, board_elf};
use forebay_wire::GatewayMessage;
use forebay_wire::ids::{BootId, Ordinal};
use forebay_wire::limits::WINDOW_FRAMES_MAX;
use forebay_wire::message::{Ack, ChannelInfo, Gap, Health, Hello, Reading, ResetCause, SyncReq};

pub(crate) const TEMPERATURE: u8 = 0;
pub(crate) const UPTIME: u8 = 1;

pub(crate) fn start(options: &Options) -> Qemu {
    let elf = board_elf(options.machine).unwrap_or_else(|error| panic!("{error}"));
    Qemu::start(&elf, options).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn hello(line: &mut Line) -> Hello {
    line.listen_for(|said| match said {
        Said::Hello(hello) => Some(hello),
        Said::Channel(_)
        | Said::Data { .. }
        | Said::Gap(_)
        | Said::SyncReply(_)
        | Said::Health(_)
        | Said::CmdResult(_)
        | Said::Log(_) => None,
    })
    .unwrap()
}

pub(crate) struct Session {
    pub(crate) line: Line,
    pub(crate) hello: Hello,
    /// First ordinal that was not heard.
    pub(crate) next: Ordinal,
    /// First ordinal that was not acked.
    pub(crate) acked: Ordinal,
    pub(crate) channels: Vec<ChannelInfo>,
    /// Gaps of earlier boots that came while readings were waited for.
    pub(crate) gaps: Vec<Gap>,
    /// What the board said of itself last.
    pub(crate) health: Option<Health>,
}

impl Session {
    pub(crate) fn open(qemu: &Qemu) -> Self {
        let mut line = Line::open(qemu.serial_addr()).unwrap();
        let hello = hello(&mut line);
        Self::with(line, hello)
    }

    pub(crate) fn with(mut line: Line, hello: Hello) -> Self {
        line.accept(&hello, Ordinal(0)).unwrap();
        Self {
            line,
            hello,
            next: Ordinal(0),
            acked: Ordinal(0),
            channels: Vec::new(),
            gaps: Vec::new(),
            health: None,
        }
    }

    /// Acks each frame until `done` takes a new reading. What begins beyond the next
    /// ordinal is dropped and asked for again, as a gateway does.
    pub(crate) fn until(&mut self, mut done: impl FnMut(&Reading) -> bool) -> Reading {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WAIT_LIMIT, "no such reading");
            match self.line.listen().unwrap() {
                Said::Data { boot_low, readings } => {
                    assert_eq!(boot_low, self.hello.boot.0.to_le_bytes()[0]);
                    let fresh = self.take(&readings);
                    self.acked = self.next;
                    self.line.acknowledge(&self.hello, self.acked).unwrap();
                    if let Some(reading) = fresh.into_iter().find(|reading| done(reading)) {
                        return reading;
                    }
                }
                Said::Gap(gap) => {
                    let earlier = gap.boot != self.hello.boot;
                    let reset = self.hello.reset_cause != ResetCause::PowerOn;
                    assert!(earlier && reset, "nothing was lost, but: {gap:?}");
                    self.noted(gap.boot, gap.first.0 + gap.count);
                    self.gaps.push(gap);
                }
                Said::Channel(info) => self.channels.push(info),
                Said::Hello(hello) => {
                    assert_eq!(hello.boot, self.hello.boot, "the device started again");
                    self.line.accept(&hello, self.acked).unwrap();
                }
                Said::Health(health) => self.health = Some(health),
                Said::SyncReply(_) | Said::CmdResult(_) | Said::Log(_) => {}
            }
        }
    }

    /// What the board says of itself next; it does so each 10 s.
    pub(crate) fn health(&mut self) -> Health {
        self.health = None;
        loop {
            self.until(|_| true);
            if let Some(health) = self.health.take() {
                return health;
            }
        }
    }

    fn take(&mut self, readings: &[(Ordinal, Reading)]) -> Vec<Reading> {
        let mut fresh = Vec::new();
        for (ordinal, reading) in readings {
            if *ordinal == self.next {
                self.next = Ordinal(self.next.0 + 1);
                fresh.push(*reading);
            }
        }
        fresh
    }

    pub(crate) fn temperature(&mut self, milli_c: i32) -> Reading {
        self.until(|reading| reading.channel.0 == TEMPERATURE && reading.value == milli_c)
    }

    /// What `pick` takes of what is said. Notes readings and acks none; answers a
    /// device that greets again because of that.
    fn listen_for<T>(&mut self, mut pick: impl FnMut(&Said) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < WAIT_LIMIT, "other messages only");
            let said = self.line.listen().unwrap();
            match &said {
                Said::Data { readings, .. } => drop(self.take(readings)),
                Said::Hello(hello) if hello.boot == self.hello.boot => {
                    self.line.accept(hello, self.acked).unwrap();
                }
                Said::Hello(_)
                | Said::Channel(_)
                | Said::Gap(_)
                | Said::SyncReply(_)
                | Said::Health(_)
                | Said::CmdResult(_)
                | Said::Log(_) => {}
            }
            if let Some(picked) = pick(&said) {
                return picked;
            }
        }
    }

    /// Listens without an Ack until this boot has said its readings up to `end`.
    pub(crate) fn hear(&mut self, end: u64) {
        while self.next.0 < end {
            self.listen_for(|said| matches!(said, Said::Data { .. }).then_some(()));
        }
    }

    /// Opens a session with the boot after this one, and returns what was not heard
    /// of this one: its first such ordinal.
    pub(crate) fn follow_reset(&mut self) -> Ordinal {
        let boot = BootId(self.hello.boot.0.wrapping_add(1));
        self.hello = self.listen_for(|said| match said {
            Said::Hello(hello) => (hello.boot == boot).then(|| hello.clone()),
            Said::Channel(_)
            | Said::Data { .. }
            | Said::Gap(_)
            | Said::SyncReply(_)
            | Said::Health(_)
            | Said::CmdResult(_)
            | Said::Log(_) => None,
        });
        let heard = self.next;
        (self.next, self.acked) = (Ordinal(0), Ordinal(0));
        self.line.accept(&self.hello, self.acked).unwrap();
        heard
    }

    /// The next gap that is declared.
    pub(crate) fn gap(&mut self) -> Gap {
        self.listen_for(|said| match said {
            Said::Gap(gap) => Some(*gap),
            Said::Hello(_)
            | Said::Channel(_)
            | Said::Data { .. }
            | Said::SyncReply(_)
            | Said::Health(_)
            | Said::CmdResult(_)
            | Said::Log(_) => None,
        })
    }

    /// Says that all of `boot` below `end` is accounted for.
    pub(crate) fn noted(&mut self, boot: BootId, end: u64) {
        let ack = Ack {
            boot,
            next: Ordinal(end),
            credit: WINDOW_FRAMES_MAX,
        };
        self.line.say(&GatewayMessage::Ack(ack)).unwrap();
    }

    /// Waits until the device has taken all that it was told, and drops what it said
    /// before that.
    pub(crate) fn settle(&mut self) {
        const ID: u32 = 0x5e77_1e00;
        let probe = GatewayMessage::SyncReq(SyncReq { id: ID });
        self.line.say(&probe).unwrap();
        self.listen_for(|said| match said {
            Said::SyncReply(reply) => (reply.id == ID).then_some(()),
            Said::Hello(_)
            | Said::Channel(_)
            | Said::Data { .. }
            | Said::Gap(_)
            | Said::Health(_)
            | Said::CmdResult(_)
            | Said::Log(_) => None,
        });
    }

    /// For a second of readings, which is several times the pause between two
    /// declarations, nothing is declared.
    pub(crate) fn declares_nothing(&mut self) {
        let before = self.gaps.len();
        let start = self.until(|_| true).tick.0;
        self.until(|reading| reading.tick.0 >= start + 1_000_000);
        assert_eq!(self.gaps[before..], []);
    }
}
