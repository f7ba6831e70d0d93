//! The main loop of every board, one turn at a time: receive, sample, note what is
//! owed, send, sleep.
//!
//! Owns the order of these and what a board shows and says of itself. Always holds:
//! what is owed is noted before the line that mentions it goes out; nothing here
//! waits. Knows no hardware: a [`Board`] brings it. Bound: one line.

use forebay_firmware::limits::HEALTH_PERIOD_US;
use forebay_firmware::wire::ids::{BootId, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::ResetCause;
use forebay_firmware::{Accounts, Action, ChannelSpec, Device, LineBuffer, Sampler, Sensor};

use crate::blink::Blink;
use crate::clock::Clock;
use crate::log::FRAME_BYTES_MAX;
use crate::port::Port;

/// Longest sleep: short against half a wrap of any counter and against the watchdog.
pub const SLEEP_MAX_US: u32 = 1_000_000;
/// A watchdog that is not fed for this long resets the board.
pub const WATCHDOG_US: u32 = 8_000_000;
const _: () = assert!(SLEEP_MAX_US * 4 <= WATCHDOG_US);
/// How often the stack is looked at: once for each Health.
const STACK_PERIOD_US: u64 = HEALTH_PERIOD_US;

/// What happened, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Boot {
        boot: BootId,
        cause: ResetCause,
    },
    SessionOpen,
    SessionClosed,
    /// Received bytes that were lost on the way to the main loop so far.
    BytesDropped(u32),
}

/// The hardware, as far as the main loop knows it.
pub trait Board {
    /// Starts to send what was given to the port.
    fn kick(&mut self);

    /// Writes down what a reset must not take: the boot id in use, and what is owed.
    fn note(&mut self, boot: BootId, accounts: Accounts);

    /// Switches the board's light.
    fn light(&mut self, on: bool);

    /// Tells the watchdog that the loop goes round.
    fn feed(&mut self);

    /// Least bytes of stack that were ever free.
    fn stack_free(&mut self) -> u32;

    /// Says what happened, if the gateway wants to read lines of that `level`.
    fn log(&mut self, event: Event, level: u8);

    /// Moves the oldest frame of the log into `frame` and returns its length.
    fn take_log(&mut self, frame: &mut [u8; FRAME_BYTES_MAX]) -> Option<usize>;

    /// Frames of the log that were dropped before they could be taken, so far.
    fn log_dropped(&mut self) -> u32;

    /// Resets the board, by its own will. Comes back only in tests.
    fn reset(&mut self);
}

/// See the module.
#[derive(Debug)]
pub struct Station<'a, const CHANNELS: usize> {
    port: &'a Port,
    clock: &'a Clock,
    sampler: Sampler<CHANNELS>,
    line: LineBuffer,
    blink: Blink,
    lit: bool,
    open: bool,
    dropped: u32,
    log_dropped: u32,
    stack_due: Tick,
}

impl<'a, const CHANNELS: usize> Station<'a, CHANNELS> {
    /// All channels are due at once.
    #[must_use]
    pub fn new(port: &'a Port, clock: &'a Clock, channels: &[ChannelSpec]) -> Self {
        Self {
            port,
            clock,
            sampler: Sampler::new(channels, clock.now()),
            line: [0; LINE_BYTES_MAX],
            blink: Blink::default(),
            lit: false,
            open: false,
            dropped: 0,
            log_dropped: 0,
            stack_due: Tick(0),
        }
    }

    /// Does all that is due, and says for how many microseconds there is nothing to
    /// do, at most [`SLEEP_MAX_US`]; a received byte or a sent line ends that early.
    pub fn turn<const RING: usize, const C: usize>(
        &mut self,
        device: &mut Device<RING, C>,
        sensors: &mut [&mut dyn Sensor],
        board: &mut impl Board,
    ) -> u32 {
        board.feed();
        self.receive(device);
        self.sampler.run(|| self.clock.now(), sensors, device);
        board.note(device.boot(), device.accounts());
        let line_free = self.send(device, board);
        let now = self.clock.now();
        self.act(device, now, board);
        self.report(device, now, board);
        self.move_log(device, board);
        self.show(now, board);
        self.pause_us(device, now, line_free)
    }

    /// Gives the device what came in, frame by frame, each with the time of its end.
    fn receive<const RING: usize, const C: usize>(&mut self, device: &mut Device<RING, C>) {
        while let Some(chunk) = self.port.receive() {
            let tick = match chunk.stamp {
                Some(stamp) => self.clock.at(stamp),
                None => self.clock.now(),
            };
            device.on_rx(chunk.bytes(), tick);
        }
    }

    /// Sends the next line, if the one before has left; false when it has not.
    fn send<const RING: usize, const C: usize>(
        &mut self,
        device: &mut Device<RING, C>,
        board: &mut impl Board,
    ) -> bool {
        if !self.port.is_idle() {
            return false;
        }
        let count = device.poll_tx(self.clock.now(), &mut self.line);
        if count == 0 {
            return true;
        }
        self.port.send(&self.line[..count]);
        board.kick();
        false
    }

    /// Does what a command asks of the board.
    fn act<const RING: usize, const C: usize>(
        &mut self,
        device: &mut Device<RING, C>,
        now: Tick,
        board: &mut impl Board,
    ) {
        match device.take_action() {
            Some(Action::Identify { seconds }) => self.blink.start(now, seconds),
            Some(Action::Reboot) => board.reset(),
            None => {}
        }
    }

    /// Tells the device how the board does, and the log what has changed.
    fn report<const RING: usize, const C: usize>(
        &mut self,
        device: &mut Device<RING, C>,
        now: Tick,
        board: &mut impl Board,
    ) {
        if self.open != device.is_open() {
            self.open = device.is_open();
            let event = if self.open {
                Event::SessionOpen
            } else {
                Event::SessionClosed
            };
            board.log(event, device.log_level());
        }
        let dropped = self.port.dropped();
        if self.dropped != dropped {
            device.on_rx_dropped(dropped.wrapping_sub(self.dropped));
            self.dropped = dropped;
            board.log(Event::BytesDropped(dropped), device.log_level());
        }
        if now >= self.stack_due {
            self.stack_due = Tick(now.0 + STACK_PERIOD_US);
            device.set_stack_free(board.stack_free());
        }
    }

    /// Gives the device the log, as long as somebody wants to read it.
    fn move_log<const RING: usize, const C: usize>(
        &mut self,
        device: &mut Device<RING, C>,
        board: &mut impl Board,
    ) {
        let mut frame = [0; FRAME_BYTES_MAX];
        while let Some(count) = board.take_log(&mut frame) {
            if device.log_level() > 0 || !device.is_open() {
                device.on_log(&frame[..count]);
            }
        }
        let dropped = board.log_dropped();
        while self.log_dropped < dropped {
            self.log_dropped += 1;
            // An empty frame is one that was lost.
            device.on_log(&[]);
        }
    }

    fn show(&mut self, now: Tick, board: &mut impl Board) {
        let on = self.blink.is_on(now);
        if self.lit != on {
            self.lit = on;
            board.light(on);
        }
    }

    /// While a line is on its way there is nothing to send; the port wakes the loop
    /// when it has gone.
    fn pause_us<const RING: usize, const C: usize>(
        &self,
        device: &Device<RING, C>,
        now: Tick,
        line_free: bool,
    ) -> u32 {
        let sending = device.next_deadline(now).filter(|_| line_free);
        let until = [
            sending,
            self.sampler.next_deadline(),
            self.blink.next_deadline(now),
        ];
        let until = until.into_iter().flatten().min();
        let pause = until.map_or(u64::MAX, |until| until.0.saturating_sub(now.0));
        u32::try_from(pause).map_or(SLEEP_MAX_US, |pause| pause.min(SLEEP_MAX_US))
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use forebay_firmware::DeviceConfig;
    use forebay_firmware::wire::message::Quality;

    use super::*;
    use crate::identity;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Call {
        Kick,
        Note,
        Light(bool),
        Feed,
        Log(Event),
    }

    #[derive(Default)]
    struct Fake {
        calls: Vec<Call>,
        frames: Vec<Vec<u8>>,
        log_dropped: u32,
    }

    impl Board for Fake {
        fn kick(&mut self) {
            self.calls.push(Call::Kick);
        }

        fn note(&mut self, _: BootId, _: Accounts) {
            self.calls.push(Call::Note);
        }

        fn light(&mut self, on: bool) {
            self.calls.push(Call::Light(on));
        }

        fn feed(&mut self) {
            self.calls.push(Call::Feed);
        }

        fn stack_free(&mut self) -> u32 {
            1_234
        }

        fn log(&mut self, event: Event, _: u8) {
            self.calls.push(Call::Log(event));
        }

        fn take_log(&mut self, frame: &mut [u8; FRAME_BYTES_MAX]) -> Option<usize> {
            let oldest = self.frames.pop()?;
            frame[..oldest.len()].copy_from_slice(&oldest);
            Some(oldest.len())
        }

        fn log_dropped(&mut self) -> u32 {
            self.log_dropped
        }

        fn reset(&mut self) {}
    }

    struct Constant;

    impl Sensor for Constant {
        fn spec(&self) -> ChannelSpec {
            crate::die::spec(500_000)
        }

        fn read(&mut self) -> Result<i32, Quality> {
            Ok(210)
        }
    }

    fn config() -> DeviceConfig {
        identity::config([7; 8], BootId(1), ResetCause::PowerOn, [0; 8], 1_000_000)
    }

    /// A turn at tick 0 and what it leaves.
    fn first_turn(board: &mut Fake, port: &Port) -> (Device<16, 1>, u32) {
        let clock = Clock::new(|| 0, 1_000_000);
        let specs = [Constant.spec()];
        let mut device = Device::new(config(), &specs).unwrap();
        let mut station = Station::<1>::new(port, &clock, &specs);
        let pause = station.turn(&mut device, &mut [&mut Constant], board);
        (device, pause)
    }

    #[test]
    fn what_is_owed_is_noted_before_the_line_goes_out() {
        let (mut board, port) = (Fake::default(), Port::new());
        let (device, pause) = first_turn(&mut board, &port);
        let want = [Call::Feed, Call::Note, Call::Kick, Call::Light(true)];
        assert_eq!(board.calls, want);
        assert!(!port.is_idle());
        assert_eq!(device.stats().produced, 1);
        // While the line is on its way only the next sample ends the sleep.
        assert_eq!(pause, 500_000);
    }

    #[test]
    fn a_busy_port_is_sent_nothing_and_waited_for() {
        let (mut board, port) = (Fake::default(), Port::new());
        port.send(&[1, 2, 3]);
        first_turn(&mut board, &port);
        assert!(!board.calls.contains(&Call::Kick));
        assert_eq!(
            port.next_byte(),
            Some(1),
            "the line before is left as it is"
        );
    }

    #[test]
    fn health_has_what_the_board_counted() {
        let port = Port::new();
        port.on_overrun(5);
        let mut board = Fake {
            frames: vec![vec![1, 2], vec![3]],
            log_dropped: 4,
            ..Fake::default()
        };
        let (device, _) = first_turn(&mut board, &port);
        let health = device.health();
        assert_eq!((health.rx_dropped, health.stack_free), (5, 1_234));
        assert_eq!(health.log_dropped, 4);
        assert!(board.frames.is_empty(), "the log moved on");
        assert!(board.calls.contains(&Call::Log(Event::BytesDropped(5))));
    }
}
