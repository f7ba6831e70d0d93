//! The device against a small model of a gateway, over a line that this test holds
//! in its hands. After every step: produced = acked + waiting + lost.

// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

mod rig;

use forebay_firmware::wire::ids::{BootId, ChannelNo, Ordinal, Tick};
use forebay_firmware::wire::message::{Ack, GapReason, HelloAck, Quality};
use forebay_firmware::wire::{DeviceMessage, GatewayMessage};
use forebay_firmware::{Accounts, Device, DeviceConfig};
use rig::gateway::Gateway;
use rig::{CONFIG, Rig, SECOND_US, channels};

#[test]
fn first_words() {
    let mut rig = Rig::<64>::new();
    let hello = rig.poll_messages();
    assert_eq!(hello, ["Hello"], "a lone delimiter and a Hello at once");
    assert_eq!(rig.line_to_gateway[0], 0);
    assert_eq!(rig.deadline(), SECOND_US);
    rig.advance_to(SECOND_US - 1);
    assert!(rig.poll_messages().is_empty());
    rig.advance_to(SECOND_US);
    assert_eq!(rig.poll_messages(), ["Hello"]);
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    assert_eq!(rig.poll_messages(), ["Channel 0", "Channel 1"]);
    assert!(rig.device.is_open());
    let health_due = SECOND_US + 10 * SECOND_US;
    assert_eq!(rig.deadline(), health_due, "nothing else without readings");
}

#[test]
fn a_gateway_that_opens_the_line_is_greeted_soon_but_not_each_time() {
    let mut rig = Rig::<64>::new();
    assert_eq!(rig.poll_messages(), ["Hello"]);
    // The first Hello went out before the gateway listened.
    for (asked, greeted) in [(30_000, 100_000), (100_000, 200_000), (350_000, 350_000)] {
        rig.advance_to(asked);
        let now = rig.now;
        rig.device.on_rx(&[0], now);
        assert_eq!(rig.deadline(), greeted, "asked at {asked}");
        rig.advance_to(greeted);
        assert_eq!(rig.poll_messages(), ["Hello"]);
    }
}

#[test]
fn a_gateway_that_was_started_again_is_greeted_at_once() {
    let mut rig = Rig::<64>::open();
    rig.sample(16);
    assert_eq!(rig.poll_messages(), ["Data 0..16"]);
    let boot_low = CONFIG.boot.0 as u8;
    rig.say(GatewayMessage::Ack(Ack::to_unknown(boot_low)));
    assert_eq!(rig.poll_messages(), ["Hello"]);
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    let again = rig.poll_messages();
    assert_eq!(
        again.last().map(String::as_str),
        Some("Data 0..16"),
        "{again:?}"
    );
    assert_eq!(rig.device.stats().link.stale_acks, 0);
}

#[test]
fn a_reading_alone_waits_for_its_linger_and_a_full_frame_does_not() {
    let mut rig = Rig::<64>::open();
    let start = rig.now.0;
    rig.sample(1);
    assert!(rig.poll_messages().is_empty());
    assert_eq!(rig.deadline(), start + u64::from(CONFIG.linger_us));
    rig.advance_to(rig.deadline());
    assert_eq!(rig.poll_messages(), ["Data 0..1"]);
    rig.sample(15);
    assert!(rig.poll_messages().is_empty());
    rig.sample(1);
    assert_eq!(rig.poll_messages(), ["Data 1..17"]);
}

#[test]
fn the_window_holds_and_an_ack_opens_it() {
    let mut rig = Rig::<512>::open();
    rig.sample(400);
    let sent = rig.poll_messages();
    assert_eq!(sent.len(), 8, "{sent:?}");
    rig.ack(32, 8);
    assert_eq!(rig.poll_messages(), ["Data 256..288"]);
    rig.ack(64, 1);
    assert!(
        rig.poll_messages().is_empty(),
        "less credit than frames on the way"
    );
    rig.ack(288, 2);
    assert_eq!(rig.poll_messages(), ["Data 288..320", "Data 320..352"]);
    rig.ack(352, 0);
    assert!(rig.poll_messages().is_empty(), "no credit at all");
    rig.ack(352, 8);
    assert_eq!(rig.poll_messages(), ["Data 352..384", "Data 384..400"]);
    rig.ack(400, 8);
    assert_eq!(
        (rig.device.stats().acked, rig.device.stats().waiting),
        (400, 0)
    );
}

#[test]
fn a_stopped_window_is_not_for_ever() {
    let mut rig = Rig::<64>::open();
    rig.sample(20);
    rig.ack(0, 0);
    assert!(rig.poll_messages().is_empty());
    rig.advance_to(rig.deadline());
    assert_eq!(
        rig.poll_messages(),
        ["Hello"],
        "the Ack that opens it again may be lost"
    );
}

#[test]
fn goes_back_after_a_timeout_that_doubles() {
    let mut rig = Rig::<64>::open();
    rig.sample(16);
    assert_eq!(rig.poll_messages(), ["Data 0..16"]);
    rig.advance_to(rig.now.0 + 1_000);
    rig.ack(16, 8);
    rig.sample(16);
    assert_eq!(rig.poll_messages(), ["Data 16..32"]);
    for wait_us in [100_000, 200_000, 400_000, 800_000] {
        let sent = rig.now.0;
        assert_eq!(rig.deadline(), sent + wait_us);
        rig.advance_to(sent + wait_us - 1);
        assert!(rig.poll_messages().is_empty());
        rig.advance_to(sent + wait_us);
        assert_eq!(rig.poll_messages(), ["Data 16..32"]);
    }
    rig.ack(32, 8);
    assert_eq!(rig.device.stats().link.resends, 4);
}

#[test]
fn a_repeated_ack_resends_at_once_but_once() {
    let mut rig = Rig::<64>::open();
    rig.sample(48);
    assert_eq!(rig.poll_messages(), ["Data 0..32", "Data 32..48"]);
    rig.ack(0, 8);
    assert_eq!(
        rig.poll_messages(),
        ["Channel 0", "Channel 1", "Data 0..32", "Data 32..48"]
    );
    for _ in 0..7 {
        rig.ack(0, 8);
        assert!(rig.poll_messages().is_empty());
    }
    rig.ack(32, 8);
    rig.ack(0, 8);
    assert!(rig.poll_messages().is_empty(), "an old one");
    rig.ack(32, 8);
    assert!(rig.poll_messages().is_empty(), "of a frame sent twice");
    rig.ack(48, 8);
    rig.sample(16);
    assert_eq!(rig.poll_messages(), ["Data 48..64"]);
    rig.ack(48, 8);
    assert!(
        rig.poll_messages().is_empty(),
        "a last answer to a frame sent twice"
    );
    rig.advance_to(rig.now.0 + 20_000);
    rig.ack(48, 8);
    assert_eq!(
        rig.poll_messages(),
        ["Data 48..64"],
        "a new loss; the channels are known"
    );
}

#[test]
fn a_lost_channel_frame_is_sent_again_before_its_data() {
    let mut rig = Rig::<64>::open();
    // Channel 0 only, so that channel 1 stays unconfirmed.
    for _ in 0..16 {
        rig.sample_on(ChannelNo(0), Ok(1));
    }
    rig.poll_messages();
    rig.ack(16, 8);
    rig.sample_on(ChannelNo(0), Ok(2));
    for _ in 0..16 {
        rig.sample_on(ChannelNo(1), Ok(3));
    }
    assert_eq!(rig.poll_messages(), ["Data 16..33"]);
    // The gateway does not know channel 1, so it drops the frame and repeats itself.
    rig.ack(16, 8);
    assert_eq!(rig.poll_messages(), ["Channel 1", "Data 16..33"]);
}

#[test]
fn silence_brings_the_hello_back_while_sampling_goes_on() {
    let mut rig = Rig::<64>::open();
    rig.sample(16);
    rig.poll_messages();
    let opened = rig.now.0;
    let mut hellos = Vec::new();
    while rig.now.0 < opened + 6 * SECOND_US {
        rig.advance_to(rig.now.0 + 50_000);
        rig.sample(1);
        if rig.poll_messages().contains(&"Hello".to_string()) {
            hellos.push(rig.now.0 - opened);
        }
    }
    assert_eq!(
        hellos,
        [3 * SECOND_US, 4 * SECOND_US, 5 * SECOND_US, 6 * SECOND_US]
    );
    assert!(!rig.device.is_open());
    let stats = rig.device.stats();
    assert_eq!(
        (
            stats.produced,
            stats.waiting,
            stats.gap(GapReason::RingFull)
        ),
        (136, 64, 72)
    );
    // The ack that was thought lost comes after all, and counts.
    rig.ack(16, 8);
    assert_eq!(rig.device.stats().acked, 16);
}

#[test]
fn hello_ack_says_where_to_resume() {
    for (name, next, acked, lost) in [("nothing lost", 16, 16, 0), ("acks lost", 40, 40, 0)] {
        let mut rig = Rig::<64>::open();
        rig.sample(48);
        rig.poll_messages();
        rig.ack(16, 8);
        rig.until_greeting();
        rig.say(GatewayMessage::HelloAck(rig.hello_ack(next)));
        let sent = rig.poll_messages();
        assert_eq!(sent[0..2], ["Channel 0", "Channel 1"], "{name}");
        assert!(
            sent[2].starts_with(&format!("Data {next}..")),
            "{name}: {sent:?}"
        );
        assert_eq!(
            (rig.device.stats().acked, rig.device.stats().lost()),
            (acked, lost),
            "{name}"
        );
    }
}

#[test]
fn a_gateway_that_lost_its_disk_is_told_what_is_gone() {
    let mut rig = Rig::<64>::open();
    rig.sample(48);
    rig.poll_messages();
    rig.ack(32, 8);
    rig.until_greeting();
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(10)));
    assert_eq!(
        rig.poll_messages()[2..],
        ["Gap PowerLoss 10..32", "Data 32..48"]
    );
    rig.ack(48, 8);
    let stats = rig.device.stats();
    assert_eq!(
        (stats.acked, stats.gap(GapReason::PowerLoss), stats.waiting),
        (26, 22, 0)
    );
}

#[test]
fn a_late_hello_ack_in_an_open_session_takes_nothing_back() {
    let mut rig = Rig::<64>::open();
    rig.sample(32);
    rig.poll_messages();
    rig.ack(32, 8);
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    assert!(rig.poll_messages().is_empty());
    assert_eq!(
        (rig.device.stats().acked, rig.device.stats().link.sessions),
        (32, 1)
    );
}

#[test]
fn acks_of_another_boot_or_of_the_future_change_nothing() {
    let mut rig = Rig::<64>::new();
    rig.sample(16);
    rig.poll_messages();
    let other = BootId(CONFIG.boot.0 ^ 1);
    rig.say(GatewayMessage::HelloAck(HelloAck {
        boot: other,
        ..rig.hello_ack(0)
    }));
    assert!(!rig.device.is_open(), "an answer to the boot before");
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(0)));
    rig.poll_messages();
    rig.say(GatewayMessage::Ack(Ack {
        boot: other,
        next: Ordinal(16),
        credit: 8,
    }));
    rig.ack(17, 8);
    let stats = rig.device.stats();
    assert_eq!(
        (stats.acked, stats.waiting, stats.link.stale_acks),
        (0, 16, 3)
    );
}

#[test]
fn a_boot_id_that_the_gateway_knows_is_given_up() {
    let mut rig = Rig::<64>::new();
    rig.sample(16);
    rig.poll_messages();
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(5_000)));
    assert_eq!(rig.device.boot(), BootId(CONFIG.boot.0 + 1));
    assert_eq!(rig.poll_messages(), ["Hello"], "at once, with the next id");
    rig.say(GatewayMessage::HelloAck(HelloAck {
        boot: rig.device.boot(),
        ..rig.hello_ack(0)
    }));
    assert_eq!(
        rig.poll_messages(),
        ["Channel 0", "Channel 1", "Data 0..16"]
    );
}

#[test]
fn overwritten_readings_are_declared_in_their_place() {
    let mut rig = Rig::<20>::open();
    rig.sample(100);
    assert_eq!(rig.poll_messages(), ["Gap RingFull 0..80", "Data 80..100"]);
    rig.ack(80, 8);
    rig.ack(100, 8);
    let stats = rig.device.stats();
    assert_eq!((stats.acked, stats.gap(GapReason::RingFull)), (20, 80));
}

#[test]
fn readings_overwritten_on_their_way_count_as_what_the_ack_makes_them() {
    let mut rig = Rig::<20>::open();
    rig.sample(20);
    assert_eq!(rig.poll_messages(), ["Data 0..20"]);
    rig.sample(10);
    assert_eq!(rig.device.stats().gap(GapReason::RingFull), 10);
    rig.ack(20, 8);
    assert_eq!(
        (rig.device.stats().acked, rig.device.stats().lost()),
        (20, 0),
        "they came"
    );

    rig.sample(6);
    assert_eq!(rig.poll_messages(), ["Data 20..36"]);
    rig.sample(10);
    rig.ack(20, 8);
    assert_eq!(
        rig.poll_messages(),
        ["Gap RingFull 20..26", "Data 26..46"],
        "they did not"
    );
    rig.ack(46, 8);
    assert_eq!(
        (rig.device.stats().acked, rig.device.stats().lost()),
        (40, 6)
    );
}

#[test]
fn lost_samples_keep_their_place_and_reason() {
    let mut rig = Rig::<64>::open();
    rig.sample(3);
    rig.device.on_lost(GapReason::IsrFull, 5, rig.now);
    rig.device.on_lost(GapReason::IsrFull, 2, rig.now);
    rig.device.on_lost(GapReason::SensorOff, 1, rig.now);
    rig.sample(5);
    rig.advance_to(rig.now.0 + 20_000);
    assert_eq!(
        rig.poll_messages(),
        [
            "Data 0..3",
            "Gap IsrFull 3..10",
            "Gap SensorOff 10..11",
            "Data 11..16"
        ]
    );
    // One more of the same reason does not change what is on its way.
    rig.device.on_lost(GapReason::IsrFull, 1, rig.now);
    rig.ack(10, 8);
    rig.ack(16, 8);
    assert_eq!(rig.poll_messages(), ["Gap IsrFull 16..17"]);
    let stats = rig.device.stats();
    assert_eq!(
        (
            stats.acked,
            stats.gap(GapReason::IsrFull),
            stats.gap(GapReason::SensorOff)
        ),
        (8, 8, 1)
    );
}

#[test]
fn an_ack_inside_a_gap_that_grew() {
    let mut rig = Rig::<64>::open();
    rig.device.on_lost(GapReason::IsrFull, 5, rig.now);
    assert_eq!(rig.poll_messages(), ["Gap IsrFull 0..5"]);
    rig.until_greeting();
    rig.device.on_lost(GapReason::IsrFull, 5, rig.now);
    rig.say(GatewayMessage::HelloAck(rig.hello_ack(5)));
    assert_eq!(rig.poll_messages()[2..], ["Gap IsrFull 5..10"]);
    rig.ack(10, 8);
    assert_eq!(rig.device.stats().gap(GapReason::IsrFull), 10);
}

#[test]
fn what_earlier_boots_owe_is_declared_until_it_is_noted() {
    let mut rig = Rig::<64>::open();
    rig.sample(20);
    rig.poll_messages();
    rig.ack(5, 8);
    let kept = rig.device.accounts().to_bytes();

    let mut rig = Rig::<64>::new();
    rig.device = Device::new(
        DeviceConfig {
            boot: BootId(41),
            ..CONFIG
        },
        &channels(),
    )
    .unwrap();
    rig.device.remember(&Accounts::from_bytes(&kept).unwrap());
    assert_eq!(
        rig.poll_messages(),
        ["Hello"],
        "not before the session is open"
    );
    let ack = HelloAck {
        boot: BootId(41),
        ..rig.hello_ack(0)
    };
    rig.say(GatewayMessage::HelloAck(ack));
    let last_gap = "Gap PowerLoss 5..20";
    assert_eq!(rig.poll_messages(), ["Channel 0", "Channel 1", last_gap]);
    rig.advance_to(rig.deadline());
    assert_eq!(rig.now.0, 250_000);
    assert_eq!(rig.poll_messages(), [last_gap]);
    rig.ack(19, 8);
    assert_eq!(rig.device.stats().link.stale_acks, 1, "not all of it");
    rig.ack(20, 8);
    assert_eq!(
        rig.deadline(),
        10 * SECOND_US,
        "nothing but the next Health"
    );
    assert_eq!(rig.device.accounts().len(), 1, "only its own");
}

#[test]
fn settled_boots_and_the_own_boot_are_not_declared() {
    let mut rig = Rig::<64>::open();
    rig.sample(16);
    rig.poll_messages();
    let own = rig.device.accounts();
    rig.ack(16, 8);
    let settled = rig.device.accounts();
    rig.device.remember(&own);
    rig.device.remember(&settled);
    assert_eq!(rig.device.accounts(), settled);
    assert!(rig.poll_messages().is_empty());
}

#[test]
fn probes_are_answered_in_any_state_and_bounded() {
    for open in [false, true] {
        let mut rig = if open {
            Rig::<64>::open()
        } else {
            Rig::<64>::new()
        };
        rig.poll_messages();
        let received = rig.now.0 + 10;
        rig.advance_to(received);
        for id in 0..5 {
            rig.probe(id);
        }
        rig.advance_to(received + 400);
        let want: Vec<_> = (0..4)
            .map(|id| format!("SyncReply {id} {received} {}", received + 400))
            .collect();
        assert_eq!(rig.poll_messages(), want);
        assert_eq!(rig.device.stats().link.dropped_probes, 1);
    }
}

#[test]
fn lossy_mode_forgets_what_was_sent() {
    let mut rig = Rig::<64>::new();
    rig.poll_messages();
    rig.say(GatewayMessage::HelloAck(HelloAck {
        reliable: false,
        ..rig.hello_ack(0)
    }));
    rig.sample(40);
    assert_eq!(
        rig.poll_messages(),
        ["Channel 0", "Channel 1", "Data 0..32"]
    );
    rig.advance_to(rig.now.0 + 60_000);
    assert_eq!(rig.poll_messages(), ["Data 32..40"]);
    let stats = rig.device.stats();
    assert_eq!((stats.acked, stats.waiting), (40, 0));
    rig.advance_to(rig.now.0 + 60 * SECOND_US);
    assert!(rig.poll_messages().is_empty());
}

#[test]
fn a_delimiter_before_the_frame_after_silence() {
    let mut rig = Rig::<64>::open();
    for (name, wait_us, delimited) in [("just under", 49_999, false), ("silent", 50_000, true)] {
        rig.advance_to(rig.now.0 + wait_us);
        rig.line_to_gateway.clear();
        rig.probe(1);
        rig.poll_messages();
        assert_eq!(rig.line_to_gateway[0] == 0, delimited, "{name}");
        assert_eq!(
            rig.line_to_gateway
                .iter()
                .filter(|byte| **byte == 0)
                .count(),
            1 + usize::from(delimited)
        );
    }
}

#[test]
fn echoes_noise_and_garbage_do_nothing_but_count() {
    let mut rig = Rig::<64>::open();
    rig.sample(16);
    rig.poll_messages();
    let echo = rig.line_to_gateway.clone();
    let before = rig.device.stats();
    rig.device.on_rx(&echo, rig.now);
    rig.device.on_rx(b"AT\r\0AT+GMM\r\0\0\0", rig.now);
    rig.device.on_rx(&[0xA5; 4_000], rig.now);
    rig.device.on_rx(&[0], rig.now);
    assert!(rig.poll_messages().is_empty());
    let stats = rig.device.stats();
    assert_eq!(stats.link, before.link);
    let received = stats.received;
    assert!(
        received.unknown_kind == 1 && received.overlong == 1,
        "{received:?}"
    );
    assert_eq!(received.cobs_bad + received.crc_bad, 2);
}

#[test]
fn qualities_and_ranges() {
    let mut rig = Rig::<64>::open();
    for (value, want) in [
        (Ok(1_000), (1_000, Quality::Ok)),
        (Ok(1_001), (0, Quality::Implausible)),
        (Ok(-1_000), (-1_000, Quality::Ok)),
        (Ok(-1_001), (0, Quality::Implausible)),
        (Err(Quality::BusError), (0, Quality::BusError)),
        (Err(Quality::Ok), (0, Quality::Implausible)),
    ] {
        rig.sample_on(ChannelNo(1), value);
        rig.advance_to(rig.now.0 + SECOND_US / 10);
        rig.line_to_gateway.clear();
        rig.poll_messages();
        let mut got = Vec::new();
        rig::decode(&rig.line_to_gateway, |message| {
            if let DeviceMessage::Data(data) = message {
                got.extend(
                    data.records()
                        .map(|reading| (reading.unwrap().value, reading.unwrap().quality)),
                );
            }
        });
        assert_eq!(got, [want]);
        rig.ack(rig.device.stats().produced, 8);
    }
    assert!(rig.device.on_sample(ChannelNo(2), rig.now, Ok(1)).is_err());
    assert_eq!(rig.device.stats().produced, 6);
}

#[test]
fn the_interrupt_queue_drains_into_ordinals_and_gaps() {
    use forebay_firmware::isr::{Sample, SampleQueue};
    let mut rig = Rig::<64>::open();
    let mut queue = SampleQueue::<5>::new();
    let (mut interrupt, mut main) = queue.split();
    for value in 0..7 {
        interrupt.push(Sample {
            channel: ChannelNo(0),
            tick: rig.now,
            value: Ok(value),
        });
    }
    rig.device.drain(&mut main, rig.now);
    interrupt.push(Sample {
        channel: ChannelNo(9),
        tick: rig.now,
        value: Ok(0),
    });
    interrupt.push(Sample {
        channel: ChannelNo(1),
        tick: rig.now,
        value: Ok(0),
    });
    rig.device.drain(&mut main, rig.now);
    rig.advance_to(rig.now.0 + SECOND_US / 10);
    assert_eq!(
        rig.poll_messages(),
        [
            "Data 0..4",
            "Gap IsrFull 4..7",
            "Gap SensorOff 7..8",
            "Data 8..9"
        ]
    );
}

#[test]
fn bad_channel_lists() {
    use forebay_firmware::{BadChannels, ChannelSpec};
    let [a, b] = channels();
    let new = |list: &[ChannelSpec]| Device::<8, 2>::new(CONFIG, list).err();
    assert_eq!(new(&[a, b]), None);
    assert_eq!(new(&[]), None);
    assert_eq!(
        new(&[a, b, a]),
        Some(BadChannels::TooMany { given: 3, most: 2 })
    );
    assert_eq!(
        new(&[a, a]),
        Some(BadChannels::SameName {
            channel: ChannelNo(1)
        })
    );
    let bad = ChannelSpec { scale: 10, ..b };
    assert_eq!(
        new(&[a, bad]),
        Some(BadChannels::OutOfRange {
            channel: ChannelNo(1)
        })
    );
}

#[test]
fn the_largest_device_has_32_channels() {
    use forebay_firmware::ChannelSpec;
    let names: Vec<&'static str> = (0..32).map(|n| &*format!("c{n}").leak()).collect();
    let list: Vec<_> = names
        .iter()
        .map(|quantity| ChannelSpec {
            quantity,
            ..channels()[0]
        })
        .collect();
    let mut device = Device::<64>::new(CONFIG, &list).unwrap();
    let mut gateway = Gateway::default();
    let mut line = [0; 252];
    for step in 0..200u64 {
        let now = Tick(step * 10_000);
        device
            .on_sample(ChannelNo((step % 32) as u8), now, Ok(1))
            .unwrap();
        let bytes = device.poll_tx(now, &mut line);
        let replies = gateway.take(&line[..bytes]);
        for reply in replies.into_iter().chain(gateway.commit()) {
            device.on_rx(&reply, now);
        }
    }
    assert_eq!(gateway.known, u32::MAX);
    assert!(device.stats().acked > 100, "{:?}", device.stats());
}
