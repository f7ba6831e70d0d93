//! A device played by hand against the session.

use forebay_wire::data::DataBuilder;
use forebay_wire::ids::{BootId, ChannelNo, DeviceUid, Tick};
use forebay_wire::limits::{LINE_BYTES_MAX, WINDOW_FRAMES_MAX};
use forebay_wire::message::{
    Cmd, CmdResult, CmdStatus, GapReason, HelloAck, Log, Operation, Quality, Reading, ResetCause,
};

use super::*;
use crate::limits::{CLOSE_BOOTS_US, PROBES_KEPT};
use crate::link::device::{PROBE_FAST_US, PROBES_PATIENCE};
use crate::units::EventTime;

const UTC: i64 = 1_700_000_000_000_000;
/// What the device is asked to say in its log.
const LOG_LEVEL: u8 = 3;
/// The device booted so long after the gateway, us.
const BOOTED: u64 = 500;

/// What the session passed on.
#[derive(Debug)]
struct Taken {
    readings: Vec<(u64, i64, EventTime)>,
    gaps: Vec<(u64, u64)>,
    rejected: Vec<(u64, u64, EventTime)>,
    room: Room,
    clocks: Clocks,
}

impl Default for Taken {
    fn default() -> Self {
        Self {
            readings: Vec::new(),
            gaps: Vec::new(),
            rejected: Vec::new(),
            room: Room::Take,
            clocks: Clocks::default(),
        }
    }
}

impl LinkSink for Taken {
    fn reading(&mut self, _: &Series, record: &ReadingRecord) {
        self.readings
            .push((record.ordinal.0, record.value, record.time));
    }

    fn gap(&mut self, gap: &GapRecord) {
        self.gaps.push((gap.first.0, gap.count));
    }

    fn reject(&mut self, gap: &GapRecord) {
        self.rejected.push((gap.first.0, gap.count, gap.time));
        assert_eq!(gap.reason, crate::record::GapReason::LogFull);
    }

    fn room(&self) -> Room {
        self.room
    }

    fn knows_time(&self) -> bool {
        true
    }

    fn clocks(&mut self) -> &mut Clocks {
        &mut self.clocks
    }
}

/// A gateway with one port, and the device's voice.
struct Bench {
    session: Session,
    ledger: Ledger,
    taken: Taken,
    mono: u64,
    boot: BootId,
}

impl Bench {
    fn new() -> Self {
        let mono = 1_000_000;
        let mut session = Session::start(LOG_LEVEL, None, Mono(mono));
        let lines: Vec<_> = session.take_output(Mono(mono)).collect();
        assert_eq!(lines, [vec![0]]);
        Self {
            session,
            ledger: Ledger::default(),
            taken: Taken::default(),
            mono,
            boot: BootId(0x0102),
        }
    }

    fn now(&self) -> Now {
        Now {
            mono: Mono(self.mono),
            utc: EventTime(UTC + self.mono as i64),
        }
    }

    fn source(&self) -> Source {
        Source {
            uid: DeviceUid([7; 8]),
            boot: self.boot,
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let now = self.now();
        let Self {
            session,
            ledger,
            taken,
            ..
        } = self;
        session.on_bytes(bytes, now, ledger, taken);
    }

    fn deadline(&mut self) {
        let now = self.now();
        let Self {
            session,
            ledger,
            taken,
            ..
        } = self;
        session.on_deadline(now, ledger, taken);
    }

    fn say(&mut self, message: &DeviceMessage<'_>) {
        let mut line = [0; LINE_BYTES_MAX];
        let len = message.encode(&mut line).expect("encodes");
        self.bytes(&line[..len]);
    }

    fn heard(&mut self) -> Vec<GatewayMessage<'static>> {
        let mut deframer = Deframer::new();
        let mut out = Vec::new();
        let now = Mono(self.mono);
        for line in self.session.take_output(now).collect::<Vec<_>>() {
            deframer.receive_gateway(&line, |message| out.push(own(message.expect("a message"))));
        }
        out
    }

    fn hello(&mut self) {
        let hello = Hello {
            uid: DeviceUid([7; 8]),
            boot: self.boot,
            protocol_minor: 0,
            schema_hash: 0,
            firmware_version: [0, 1, 0],
            build_id: [0; 8],
            reset_cause: ResetCause::PowerOn,
            tick_hz: 1_000_000,
            ring_capacity: 100,
            channel_count: 1,
        };
        self.say(&DeviceMessage::Hello(hello));
    }

    fn channel(&mut self, number: u8, quantity: &str, scale: u8) {
        let info = ChannelInfo {
            channel: ChannelNo(number),
            quantity: quantity.try_into().expect("short"),
            unit: "degC".try_into().expect("short"),
            scale,
            range: (-1000, 1000),
            period_us: 100_000,
        };
        self.say(&DeviceMessage::Channel(info));
    }

    /// Answers probes until the session opens; returns what HelloAck said.
    fn open(&mut self) -> HelloAck {
        self.opened().0
    }

    /// How many answers that takes.
    fn open_counting(&mut self) -> usize {
        self.opened().1
    }

    fn opened(&mut self) -> (HelloAck, usize) {
        self.hello();
        let mut answered = 0;
        for _ in 0..2 * PROBES_KEPT {
            for message in self.heard() {
                match message {
                    GatewayMessage::HelloAck(ack) => return (ack, answered),
                    GatewayMessage::SyncReq(request) => {
                        answered += 1;
                        self.mono += 200;
                        let tick = Tick(self.mono - 100 - BOOTED);
                        self.say(&DeviceMessage::SyncReply(SyncReply {
                            id: request.id,
                            received: tick,
                            sent: tick,
                        }));
                    }
                    GatewayMessage::Ack(_) | GatewayMessage::Cmd(_) | GatewayMessage::Config(_) => {
                        panic!("{message:?} before the session is open")
                    }
                }
            }
            self.mono += PROBE_FAST_US;
            self.deadline();
        }
        panic!("the session did not open");
    }

    fn ready() -> Self {
        let mut bench = Self::new();
        bench.open();
        bench.channel(0, "temperature", 1);
        bench
    }

    fn data(&mut self, first: u64, count: u64) {
        let mut line = [0; LINE_BYTES_MAX];
        let mut builder = DataBuilder::new(&mut line, self.boot, Ordinal(first));
        for n in first..first + count {
            assert!(builder.push(&Reading {
                channel: ChannelNo(0),
                tick: Tick(n * 10),
                value: n as i32,
                quality: Quality::Ok,
            }));
        }
        let len = builder.finish().expect("not empty");
        self.bytes(&line[..len]);
    }

    fn gap(&mut self, first: u64, count: u64) {
        self.gap_of(self.boot, first, count);
    }

    fn gap_of(&mut self, boot: BootId, first: u64, count: u64) {
        self.say(&DeviceMessage::Gap(Gap {
            boot,
            reason: GapReason::RingFull,
            first: Ordinal(first),
            count,
            first_tick: Tick(first * 10),
            last_tick: Tick((first + count) * 10),
        }));
    }

    fn ordinals(&self) -> Vec<u64> {
        self.taken.readings.iter().map(|(n, ..)| *n).collect()
    }

    fn durable(&mut self, next: u64) {
        self.ledger.set_durable(self.source(), Ordinal(next));
        self.session.on_durable(Mono(self.mono), &self.ledger);
    }
}

fn own(message: GatewayMessage<'_>) -> GatewayMessage<'static> {
    match message {
        GatewayMessage::HelloAck(ack) => GatewayMessage::HelloAck(ack),
        GatewayMessage::Ack(ack) => GatewayMessage::Ack(ack),
        GatewayMessage::SyncReq(request) => GatewayMessage::SyncReq(request),
        GatewayMessage::Cmd(cmd) => GatewayMessage::Cmd(cmd),
        GatewayMessage::Config(_) => panic!("a config that nobody asked for"),
    }
}

fn ack(next: u64) -> GatewayMessage<'static> {
    GatewayMessage::Ack(Ack {
        boot: BootId(0x0102),
        next: Ordinal(next),
        credit: WINDOW_FRAMES_MAX,
    })
}

#[test]
fn readings_get_event_time_and_are_acked_only_when_durable() {
    let mut bench = Bench::ready();
    bench.data(0, 3);
    assert_eq!(bench.ordinals(), [0, 1, 2]);
    // Symmetric probes find the offset exactly: tick 20 is gateway time 520.
    assert_eq!(
        bench.taken.readings[2].2,
        EventTime(UTC + 20 + BOOTED as i64)
    );
    assert_eq!(bench.heard(), [], "no ack before the disk");
    bench.durable(3);
    assert_eq!(bench.heard(), [ack(3)]);
}

#[test]
fn nothing_is_taken_before_the_clock_has_a_fit() {
    let mut bench = Bench::new();
    bench.hello();
    bench.channel(0, "temperature", 1);
    bench.data(0, 3);
    assert_eq!(bench.ordinals(), [0_u64; 0]);
    assert_eq!(bench.session.counters().frames_refused, 1);
}

#[test]
fn a_reading_is_passed_on_once_in_order() {
    let mut bench = Bench::ready();
    bench.data(0, 4);
    bench.data(2, 4);
    assert_eq!(bench.ordinals(), [0, 1, 2, 3, 4, 5], "overlap is left out");
    bench.data(0, 6);
    assert_eq!(bench.ordinals().len(), 6, "all known");
    let _ = bench.heard();
    bench.data(7, 2);
    assert_eq!(bench.heard(), [], "an ack was sent a moment ago");
    bench.mono += REPEAT_ACK_US;
    bench.data(7, 2);
    assert_eq!(bench.ordinals().len(), 6, "6 is missing");
    assert_eq!(bench.heard(), [ack(0)], "asks again from what is durable");
    bench.data(6, 1);
    bench.data(7, 2);
    assert_eq!(bench.ordinals(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let counts = bench.ledger.total();
    assert_eq!((counts.readings, counts.duplicates), (9, 8));
}

#[test]
fn gaps_take_the_place_of_readings() {
    let mut bench = Bench::ready();
    bench.data(0, 2);
    bench.gap(2, 10);
    bench.gap(2, 10);
    bench.gap(4, 10);
    bench.data(14, 1);
    assert_eq!(bench.taken.gaps, [(2, 10), (12, 2)]);
    assert_eq!(bench.ordinals(), [0, 1, 14]);
    let counts = bench.ledger.total();
    assert_eq!((counts.readings, counts.gap_total()), (3, 12));
}

#[test]
fn a_full_log_refuses_and_the_device_repeats() {
    let mut bench = Bench::ready();
    bench.taken.room = Room::Wait;
    bench.data(0, 2);
    bench.gap(0, 2);
    assert_eq!(bench.ledger.total().readings, 0);
    bench.taken.room = Room::Take;
    bench.data(0, 2);
    assert_eq!(bench.ordinals(), [0, 1]);
}

#[test]
fn what_a_full_log_rejects_is_acked_and_accounted_for() {
    let mut bench = Bench::ready();
    bench.data(0, 2);
    bench.taken.room = Room::Reject;
    // One of the three came before.
    bench.data(1, 3);
    bench.gap(4, 2);
    bench.taken.room = Room::Take;
    bench.data(6, 1);
    assert_eq!(bench.ordinals(), [0, 1, 6]);
    assert_eq!(bench.taken.gaps, [(4, 2)]);
    let rejected: Vec<_> = bench.taken.rejected.iter().map(|r| (r.0, r.1)).collect();
    assert_eq!(rejected, [(2, 2)]);
    let total = bench.ledger.total();
    assert_eq!((total.readings, total.gap_total()), (3, 4));
    let log_full = crate::record::GapReason::LogFull as usize;
    assert_eq!(total.gaps[log_full], 2);
    assert_eq!(total.ordinals(), 7, "the sums close");
}

#[test]
fn a_channel_must_be_described_first() {
    let mut bench = Bench::new();
    bench.open();
    bench.data(0, 2);
    assert_eq!(bench.ordinals(), [0_u64; 0]);
    bench.channel(0, "temperature", 1);
    bench.data(0, 2);
    assert_eq!(bench.ordinals(), [0, 1]);
}

#[test]
fn two_channels_of_one_quantity_have_two_names() {
    let mut bench = Bench::ready();
    bench.channel(3, "temperature", 1);
    let (_, channels) = bench.session.device().expect("a device");
    let names: Vec<_> = channels.map(|series| series.name.to_string()).collect();
    assert_eq!(names, ["temperature", "temperature_3"]);
}

#[test]
fn another_boot_starts_anew_and_meets_no_old_record() {
    let mut bench = Bench::ready();
    bench.data(0, 5);
    bench.boot = BootId(0x0103);
    bench.hello();
    bench.data(0, 2);
    assert_eq!(bench.ordinals().len(), 5, "not open yet");
    bench.boot = BootId(0x0102);
    bench.data(5, 2);
    assert_eq!(bench.ordinals().len(), 5, "the old boot is over");
}

#[test]
fn a_new_session_resumes_where_the_disk_is() {
    let mut bench = Bench::ready();
    bench.data(0, 5);
    bench.durable(3);
    bench.session = Session::start(LOG_LEVEL, None, Mono(bench.mono));
    let _ = bench.heard();
    assert_eq!(bench.open().next, Ordinal(3));
    bench.channel(0, "temperature", 1);
    bench.data(3, 4);
    assert_eq!(
        bench.ordinals(),
        [0, 1, 2, 3, 4, 5, 6],
        "3 and 4 were taken"
    );
}

#[test]
fn a_repeated_hello_is_answered_again() {
    let mut bench = Bench::ready();
    bench.hello();
    assert!(matches!(bench.heard()[..], [GatewayMessage::HelloAck(_)]));
}

#[test]
fn lost_answers_delay_the_session_but_do_not_prevent_it() {
    let mut bench = Bench::new();
    bench.hello();
    let (mut probes, mut opened_at) = (0, None);
    for _ in 0..=PROBES_PATIENCE {
        for message in bench.heard() {
            match message {
                GatewayMessage::SyncReq(request) => {
                    probes += 1;
                    if probes == 1 {
                        let tick = Tick(bench.mono);
                        bench.say(&DeviceMessage::SyncReply(SyncReply {
                            id: request.id,
                            received: tick,
                            sent: tick,
                        }));
                    }
                }
                GatewayMessage::HelloAck(_) => opened_at = Some(probes),
                GatewayMessage::Ack(_) | GatewayMessage::Cmd(_) | GatewayMessage::Config(_) => {
                    panic!("nothing to say: {message:?}")
                }
            }
        }
        bench.mono += PROBE_FAST_US;
        bench.deadline();
    }
    assert_eq!(opened_at, Some(PROBES_PATIENCE));
}

#[test]
fn an_earlier_boot_is_closed_by_its_last_gap() {
    let mut bench = Bench::ready();
    let old = bench.source();
    bench.data(0, 5);
    bench.durable(5);
    assert_eq!(bench.heard(), [ack(5)]);
    bench.boot = BootId(0x0103);
    bench.open();
    // The device heard the ack of 3 only; it had produced 12.
    bench.gap_of(old.boot, 3, 9);
    bench.gap_of(old.boot, 3, 9);
    assert_eq!(bench.taken.gaps, [(5, 7)], "what arrived is no gap");
    assert_eq!(bench.heard(), [], "not before the disk");
    bench.ledger.set_durable(old, Ordinal(12));
    bench.session.on_durable(Mono(bench.mono), &bench.ledger);
    assert_eq!(bench.heard(), [ack(12)]);
    bench.gap_of(old.boot, 3, 9);
    assert_eq!(bench.heard(), [ack(12)], "the ack was lost");
    assert_eq!(bench.ledger.total().gap_total(), 7);
    // A boot that no gateway heard of.
    bench.gap_of(BootId(0x0101), 0, 4);
    assert_eq!(bench.taken.gaps, [(5, 7), (0, 4)]);
}

#[test]
fn a_delimiter_goes_before_the_first_line_after_silence() {
    let mut bench = Bench::ready();
    let _ = bench.heard();
    let start = bench.mono;
    for (silence, with_delimiter) in [
        (IDLE_DELIMITER_US - 1, false),
        (IDLE_DELIMITER_US, true),
        (IDLE_DELIMITER_US + 1, true),
    ] {
        bench.session.wrote_at = Mono(start);
        bench.session.peer.out.push(vec![1, 0]);
        let lines = bench.session.take_output(Mono(start + silence));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.first() == Some(&vec![0]), with_delimiter, "{silence}");
        assert_eq!(lines.last(), Some(&vec![1, 0]));
    }
    let silent = bench.session.take_output(Mono(u64::MAX)).count();
    assert_eq!(silent, 0, "nothing to say, nothing to end");
}

#[test]
fn a_device_without_a_hello_is_told_so_but_not_for_each_frame() {
    let mut bench = Bench::new();
    let unknown = GatewayMessage::Ack(Ack::to_unknown(0x02));
    let start = bench.mono;
    for (after, told) in [
        (0, true),
        (TELL_UNKNOWN_US - 1, false),
        (TELL_UNKNOWN_US, true),
        (TELL_UNKNOWN_US + 1, false),
    ] {
        bench.mono = start + after;
        bench.data(3, 1);
        assert_eq!(bench.heard() == [unknown], told, "{after} us later");
    }
    bench.mono += TELL_UNKNOWN_US;
    bench.say(&health(bench.boot, 9));
    assert_eq!(bench.heard(), [unknown], "nor one that has nothing to send");
    bench.hello();
    let _ = bench.heard();
    bench.mono += 2 * TELL_UNKNOWN_US;
    bench.data(3, 1);
    assert_eq!(bench.heard(), [], "it has said Hello");
}

/// What a device says of itself in this boot.
fn health(boot: BootId, produced: u64) -> DeviceMessage<'static> {
    DeviceMessage::Health(Health {
        boot,
        config: 0,
        config_refused: 0,
        produced,
        acked: produced,
        waiting: 0,
        gaps: [0; 4],
        suppressed: 0,
        ring_high: 0,
        received: Default::default(),
        rx_dropped: 0,
        resends: 0,
        missed: 0,
        log_dropped: 0,
        stack_free: 0,
        errors: Default::default(),
    })
}

fn result() -> CmdResult {
    CmdResult {
        id: 7,
        status: CmdStatus::Done,
        payload: Default::default(),
    }
}

#[test]
fn what_is_no_reading_is_handed_on_in_order_with_who_said_it() {
    let mut bench = Bench::ready();
    let source = bench.source();
    let before: Vec<_> = bench.session.take_heard();
    assert!(before.iter().all(|(by, _)| *by == source));
    let before: Vec<_> = before.into_iter().map(|(_, heard)| heard).collect();
    assert!(
        matches!(
            &before[..],
            [Heard::Hello(_), Heard::Open, Heard::Channel(_)]
        ),
        "{before:?}"
    );
    bench.say(&health(bench.boot, 9));
    bench.say(&DeviceMessage::CmdResult(result()));
    bench.say(&DeviceMessage::Log(Log(&[1, 2, 3])));
    let heard: Vec<_> = bench.session.take_heard();
    assert!(matches!(
        &heard[..],
        [(_, Heard::Health(_)), (_, Heard::Result(_)), (by, Heard::Log(frame))]
            if *by == source && frame == &[1, 2, 3]
    ));
    let account = bench.ledger.get(source).expect("known");
    assert_eq!((account.taken, account.said), (0, 9));
}

#[test]
fn nothing_is_heard_of_a_device_without_a_hello_nor_of_another_boot() {
    let mut bench = Bench::new();
    bench.say(&health(bench.boot, 9));
    bench.say(&DeviceMessage::CmdResult(result()));
    bench.say(&DeviceMessage::Log(Log(&[1])));
    bench.channel(0, "temperature", 1);
    assert_eq!(bench.session.take_heard(), []);
    assert_eq!(bench.session.counters().frames_refused, 4);
    let mut bench = Bench::ready();
    bench.session.take_heard();
    bench.say(&health(BootId(bench.boot.0 + 1), 9));
    assert_eq!(bench.session.take_heard(), []);
    assert_eq!(bench.ledger.get(bench.source()).map(|a| a.said), Some(0));
}

#[test]
fn the_device_is_told_how_much_to_log_each_time() {
    let mut bench = Bench::new();
    assert_eq!(bench.open().log_level, LOG_LEVEL);
    bench.hello();
    assert!(matches!(
        bench.heard()[..],
        [GatewayMessage::HelloAck(HelloAck {
            log_level: LOG_LEVEL,
            ..
        })]
    ));
}

#[test]
fn what_an_earlier_boot_never_declared_the_gateway_declares() {
    let mut bench = Bench::ready();
    let old = bench.source();
    bench.data(0, 5);
    bench.say(&health(old.boot, 12));
    bench.boot = BootId(0x0103);
    bench.open();
    // A pause passes before the answer is heard.
    let opened = bench.mono - PROBE_FAST_US;
    bench.taken.room = Room::Wait;
    for (after, gaps) in [
        (CLOSE_BOOTS_US - 1, &[][..]),
        // No room: later.
        (CLOSE_BOOTS_US, &[]),
        (2 * CLOSE_BOOTS_US - 1, &[]),
        (2 * CLOSE_BOOTS_US, &[(5, 7)]),
        (3 * CLOSE_BOOTS_US, &[(5, 7)]),
    ] {
        bench.mono = opened + after;
        if after > CLOSE_BOOTS_US {
            bench.taken.room = Room::Take;
        }
        bench.deadline();
        assert_eq!(bench.taken.gaps, gaps, "{after}");
        let next = bench.session.next_deadline().expect("probes");
        assert!(next.0 > bench.mono, "it does not spin");
    }
    let account = bench.ledger.get(old).expect("known");
    assert_eq!((account.taken, account.missing()), (12, 0));
    assert_eq!(account.counts.ordinals(), 12, "the sums close");
    // The device's own word comes after all, and knows of more.
    bench.gap_of(old.boot, 3, 11);
    assert_eq!(bench.taken.gaps, [(5, 7), (12, 2)]);
}

#[test]
fn no_record_of_a_boot_comes_under_the_next_one() {
    let mut bench = Bench::ready();
    bench.data(0, 5);
    let old = bench.source();
    // The same low byte: Data says no more of a boot.
    bench.boot = BootId(old.boot.0 + 0x100);
    // Cut in its middle by the reset; a boot begins with a delimiter.
    bench.bytes(&[9, 1, 1, 1]);
    bench.bytes(&[0]);
    bench.open();
    bench.data(0, 2);
    assert_eq!(bench.ordinals().len(), 5, "no channel is described yet");
    bench.channel(0, "temperature", 1);
    bench.data(0, 2);
    assert_eq!(bench.ordinals()[5..], [0, 1]);
    let boots = [old, bench.source()].map(|source| bench.ledger.get(source).map(|a| a.taken));
    assert_eq!(boots, [Some(5), Some(2)]);
    let frames = bench.session.counters().frames;
    assert_eq!(
        frames.bad(),
        1,
        "the frame that the reset cut, and no other"
    );
}

#[test]
fn what_was_to_be_said_to_one_boot_is_not_said_to_the_next() {
    let mut bench = Bench::ready();
    let _ = bench.heard();
    bench.session.say(line(&GatewayMessage::Cmd(Cmd {
        id: 1,
        operation: Operation::Identify { seconds: 1 },
    })));
    bench.boot = BootId(0x0103);
    bench.hello();
    assert!(matches!(bench.heard()[..], [GatewayMessage::SyncReq(_)]));
}

#[test]
fn a_session_whose_device_is_elsewhere_is_silent_until_a_hello() {
    let mut bench = Bench::ready();
    bench.data(0, 2);
    bench.durable(2);
    bench.session.dismiss();
    bench.data(2, 2);
    bench.mono += TELL_UNKNOWN_US;
    bench.data(2, 2);
    bench.durable(4);
    bench.deadline();
    assert_eq!(bench.heard(), []);
    assert_eq!(bench.session.next_deadline(), None);
    assert_eq!(bench.ordinals(), [0, 1]);
    assert_eq!(bench.open().next, Ordinal(4));
}

#[test]
fn a_device_that_comes_back_in_the_same_boot_goes_on_with_its_clock() {
    let mut bench = Bench::ready();
    bench.data(0, 2);
    let (source, clock) = bench.session.dismiss().expect("it was there");
    bench.taken.clocks.keep(source, clock);
    bench.session = Session::start(LOG_LEVEL, None, Mono(bench.mono));
    let probes = bench.open_counting();
    assert_eq!(probes, 1, "one probe says that it is there");
    bench.boot = BootId(0x0103);
    assert_eq!(bench.open_counting(), PROBES_KEPT, "its ticks began anew");
}

#[test]
fn a_boot_has_the_times_of_its_readings() {
    let mut bench = Bench::ready();
    bench.data(3, 1);
    let times = |bench: &Bench| bench.ledger.get(bench.source()).and_then(|a| a.times);
    assert_eq!(times(&bench), None, "it was ahead");
    bench.data(0, 3);
    bench.data(3, 4);
    let at = |tick| EventTime(UTC + tick + BOOTED as i64);
    assert_eq!(times(&bench), Some((at(0), at(60))));
}

#[test]
fn noise_without_a_hello_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let noise: Vec<u8> = (0..100_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    bench.bytes(&noise);
    assert_eq!(bench.heard(), []);
    assert_eq!(bench.session.take_heard(), []);
    assert_eq!(bench.ledger.len(), 0);
    assert!(bench.session.counters().frames.bad() > 0);
}

/// What the gateway said of ordinals, in order.
fn acked(bench: &mut Bench) -> Vec<u64> {
    let acks = bench
        .heard()
        .into_iter()
        .filter_map(|message| match message {
            GatewayMessage::Ack(ack) => Some(ack.next.0),
            GatewayMessage::HelloAck(_)
            | GatewayMessage::SyncReq(_)
            | GatewayMessage::Cmd(_)
            | GatewayMessage::Config(_) => None,
        });
    acks.collect()
}

#[test]
fn a_lost_frame_is_told_at_once_and_once() {
    let mut bench = Bench::ready();
    bench.data(0, 5);
    bench.durable(5);
    assert_eq!(acked(&mut bench), [5]);
    bench.data(10, 5);
    assert_eq!(acked(&mut bench), [5], "the first that is ahead");
    bench.data(15, 5);
    assert_eq!(acked(&mut bench), [0; 0], "the next, a moment later");
    bench.mono += REPEAT_ACK_US;
    bench.data(20, 5);
    assert_eq!(acked(&mut bench), [5], "later");
    bench.data(5, 5);
    bench.durable(10);
    assert_eq!(acked(&mut bench), [10]);
    bench.data(15, 5);
    assert_eq!(acked(&mut bench), [10], "another one");
}

#[test]
fn a_lost_frame_is_told_when_the_disk_is_so_far() {
    let mut bench = Bench::ready();
    bench.data(0, 5);
    bench.durable(5);
    assert_eq!(acked(&mut bench), [5]);
    bench.data(5, 5);
    bench.data(10, 5);
    bench.data(20, 5);
    assert_eq!(acked(&mut bench), [0; 0], "nothing more is durable");
    bench.durable(10);
    assert_eq!(acked(&mut bench), [10], "not all");
    bench.durable(15);
    assert_eq!(
        acked(&mut bench),
        [15, 15],
        "all: the repeat asks for the rest"
    );
}
