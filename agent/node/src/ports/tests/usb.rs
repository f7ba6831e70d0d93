//! Boards that are plugged, pulled and plugged again, in a made-up sysfs.

use std::time::Instant;

use super::fake::Fake;
use super::rig::{Device, Rig};
use super::*;
use crate::ports::usb::sysfs;

const PICO: &str = "2e8a:000a:E66";
const PLUGS: u8 = 100;
/// How much of a core looking for boards may take.
const CPU_PERCENT_MAX: u128 = 2;

fn usb(text: &str) -> PortPlace {
    PortPlace::Usb {
        usb: text.parse().unwrap(),
        bauds: vec![],
        slot: 0,
    }
}

/// Waits for the opening of any port, and says which.
async fn opened(rig: &mut Rig) -> PortId {
    let event = rig.next().await;
    assert!(
        matches!(event.kind, PortEventKind::Opened { .. }),
        "{event:?}"
    );
    event.port
}

#[tokio::test]
async fn a68_a_board_is_found_under_a_hundred_tty_numbers_within_a_second_each() {
    let fake = Fake::new();
    fake.other_ttys();
    let mut rig = Rig::at(fake.roots(), vec![usb("2e8a:000a")]);
    for round in 0..PLUGS {
        let device = Device::new();
        let tty = format!("ttyACM{round}");
        let plugged = Instant::now();
        fake.plug(&tty, "1-2", PICO, &device.path());
        rig.opened(0).await;
        let took = plugged.elapsed();
        assert!(took < Duration::from_secs(1), "round {round}: {took:?}");
        device.write(&[round; 16]).await;
        assert_eq!(rig.bytes(0, 16).await, [round; 16]);
        fake.pull(&tty);
        drop(device);
        assert_eq!(rig.closed(0).await, CloseReason::Gone);
    }
    let status = rig.ports.status().remove(0);
    assert_eq!(status.opens, u64::from(PLUGS));
    assert_eq!(status.usb.unwrap().config_text(), PICO);
    rig.ports.stop().await;
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")
        .expect("needs a kernel with schedstat (CONFIG_SCHED_INFO), as those of distributions");
    let nanos = stat.split_whitespace().next().unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}

/// What `look` costs, in percent of a core, when it is done once per `period`.
fn percent_of_a_core(period: Duration, mut look: impl FnMut()) -> u128 {
    const LOOKS: u32 = 200;
    let before = cpu();
    for _ in 0..LOOKS {
        look();
    }
    let each = (cpu() - before) / LOOKS;
    each.as_nanos() * 100 / period.as_nanos()
}

#[tokio::test]
async fn a68_waiting_for_a_board_takes_under_two_percent_of_a_core() {
    let fake = Fake::new();
    fake.other_ttys();
    let most = limits::USB_ALL_PORTS_MAX;
    for n in 0..most {
        fake.acm(&format!("ttyACM{n}"), &format!("1-{n}"), PICO, 0);
    }
    let boards = sysfs::scan(fake.sys(), &[]).unwrap();
    for (name, open) in [
        ("all but one open", most - 1),
        ("16 that are not", most - 16),
    ] {
        let by_usb = percent_of_a_core(limits::SCAN_PERIOD, || {
            let found = sysfs::scan(fake.sys(), &boards[..open]).unwrap();
            assert_eq!(found.len(), most);
        });
        assert!(by_usb < CPU_PERCENT_MAX, "{name}: {by_usb} %");
    }
    let site = serial::Site {
        path: "/dev/serial/by-id/none".into(),
        tty: None,
        baud: Baud(115_200),
        sys: fake.sys().to_path_buf(),
        holder: None,
    };
    // 64 ports that all wait, at the pace that a port comes to.
    let by_path = percent_of_a_core(limits::SERIAL_PAUSE_MAX, || {
        for _ in 0..64 {
            assert!(serial::open(&site).is_err());
        }
    });
    assert!(by_path < CPU_PERCENT_MAX, "by path: {by_path} %");
}

#[tokio::test]
async fn every_board_that_matches_gets_a_port_and_frees_it() {
    let fake = Fake::new();
    let mut rig = Rig::at(fake.roots(), usb("2e8a:000a").for_all_boards());
    let devices: Vec<Device> = (0..3).map(|_| Device::new()).collect();
    let who = |n: usize| format!("2e8a:000a:S{n}");
    for n in [0, 1] {
        fake.plug(
            &format!("ttyACM{n}"),
            &format!("1-{n}"),
            &who(n),
            &devices[n].path(),
        );
    }
    let mut open = [opened(&mut rig).await, opened(&mut rig).await];
    open.sort_unstable();
    assert_eq!(open, [PortId(0), PortId(1)]);
    // Later, and of another kind: not for this entry.
    fake.plug("ttyACM7", "1-7", "2e8a:000b", Path::new("/nowhere"));
    fake.plug("ttyACM2", "1-2", &who(2), &devices[2].path());
    rig.opened(2).await;
    let shown: Vec<String> = rig
        .ports
        .status()
        .iter()
        .map(|status| status.usb.as_ref().unwrap().config_text())
        .collect();
    assert_eq!(shown, [who(0), who(1), who(2)], "spare ports are not shown");

    let mut devices = devices.into_iter();
    fake.pull("ttyACM0");
    drop(devices.next());
    assert_eq!(rig.closed(0).await, CloseReason::Gone);
    // The others go on, and the board that comes back has its old port.
    devices.as_slice()[0].write(b"on").await;
    assert_eq!(rig.bytes(1, 2).await, b"on");
    let back = Device::new();
    fake.plug("ttyACM9", "1-5", &who(0), &back.path());
    rig.opened(0).await;
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_board_without_a_port_is_told_once() {
    let fake = Fake::new();
    let (first, second) = (Device::new(), Device::new());
    fake.plug("ttyACM0", "1-1", "2e8a:000a:A", &first.path());
    fake.plug("ttyACM1", "1-2", "2e8a:000a:B", &second.path());
    // The second entry keeps the look-out going.
    let mut rig = Rig::at(fake.roots(), vec![usb("2e8a:000a"), usb("2e8a:000c")]);
    rig.opened(0).await;
    let device = Device::new();
    fake.plug("ttyACM2", "1-3", "2e8a:000c", &device.path());
    rig.opened(1).await;
    let said = rig.said();
    let told = |what: &str| said.iter().filter(|line| line.contains(what)).count();
    assert_eq!(
        told("usb 2e8a:000a:B interface 0 (ttyACM1) has no port"),
        1,
        "{said:?}"
    );
    assert_eq!(
        told("usb 2e8a:000a:A interface 0 (ttyACM0) has no port"),
        0,
        "{said:?}"
    );
    rig.ports.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_board_is_named() {
    let fake = Fake::new();
    fake.acm("ttyACM0", "1-2", "1a86:7523", 0);
    let rig = Rig::at(fake.roots(), vec![usb("2e8a:000a"), usb("1a86:7523")]);
    for (port, name, want) in [
        (
            0,
            "absent",
            "usb 2e8a:000a is not there: is the board plugged in? Serial ports on USB: 1a86:7523 interface 0",
        ),
        (1, "no device file", "usb 1a86:7523 is plugged in, but "),
    ] {
        let status = rig
            .until(name, |status| {
                status.id == PortId(port) && status.last_error.is_some()
            })
            .await;
        let error = status.last_error.unwrap();
        assert!(error.contains(want), "{name}: {error}");
    }
    rig.ports.stop().await;

    let rig = Rig::at(Fake::new().roots(), vec![usb("2e8a:000a")]);
    // Its folder is gone with it.
    rig.until("no sysfs", |_| {
        let said = rig.said();
        said.iter()
            .any(|line| line.starts_with("USB boards cannot be found: "))
    })
    .await;
    rig.ports.stop().await;
}

#[tokio::test]
async fn the_status_says_who_is_there_at_which_rate_and_since_when() {
    let fake = Fake::new();
    let device = Device::new();
    fake.uart("ttyUSB5", "1-2", "0403:6001:FT1", 0);
    std::fs::create_dir_all(fake.roots().dev).unwrap();
    symlink(device.path(), fake.roots().dev.join("ttyUSB5")).unwrap();
    std::fs::write(
        sysfs::device_folder(fake.sys(), "ttyUSB5").join("latency_timer"),
        "16\n",
    )
    .unwrap();
    let mut rig = Rig::at(fake.roots(), vec![usb("0403:6001")]);
    let started = rig.ports.status().remove(0);
    assert_eq!((started.state, started.usb), (PortState::Waiting, None));
    let event = rig.next().await;
    // A UART: the rate counts on the wire.
    let baud = Some(Baud(115_200));
    assert_eq!(event.kind, PortEventKind::Opened { baud });
    let open = rig.ports.status().remove(0);
    assert_eq!((open.state, open.baud), (PortState::Open, baud));
    assert_eq!(
        open.usb.as_ref().unwrap().to_string(),
        "0403:6001:FT1 interface 0"
    );
    assert_eq!(open.tty.as_deref(), device.path().to_str());
    assert_eq!(open.latency_ms, Some(1), "lowered");
    assert!(open.since > started.since);
    let said = rig.said();
    let want = "(0403:6001:FT1 interface 0)";
    assert!(said.iter().any(|line| line.contains(want)), "{said:?}");

    fake.pull("ttyUSB5");
    drop(device);
    assert_eq!(rig.closed(0).await, CloseReason::Gone);
    let gone = rig.ports.status().remove(0);
    assert_eq!(
        (gone.state, gone.baud, gone.tty),
        (PortState::Waiting, None, None)
    );
    assert!(gone.usb.is_some(), "who it was");
    assert!(gone.since > open.since);
    rig.ports.stop().await;
}

#[tokio::test]
async fn several_rates_are_tried_on_an_adapter_that_is_found_by_usb() {
    let fake = Fake::new();
    let device = Device::new();
    fake.uart("ttyUSB0", "1-2", "0403:6001", 0);
    symlink(device.path(), fake.roots().dev.join("ttyUSB0")).unwrap();
    let place = PortPlace::Usb {
        usb: "0403:6001".parse().unwrap(),
        bauds: vec![Baud(9600), Baud(115_200)],
        slot: 0,
    };
    let mut rig = Rig::at(fake.roots(), vec![place]);
    assert_eq!(opened(&mut rig).await, PortId(0));
    assert_eq!(rig.ports.status()[0].baud, Some(Baud(9600)));
    let start = Instant::now();
    // All that a device says which is not understood: no more bytes come.
    device.write(&[0x5A; limits::GARBLED_BYTES_MIN]).await;
    rig.bytes(0, limits::GARBLED_BYTES_MIN).await;
    let baud = 9600;
    let bytes = limits::GARBLED_BYTES_MIN;
    assert_eq!(rig.closed(0).await, CloseReason::WrongRate { baud, bytes });
    assert!(start.elapsed() < Duration::from_secs(3));
    assert_eq!(opened(&mut rig).await, PortId(0));
    assert_eq!(rig.ports.status()[0].baud, Some(Baud(115_200)));
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_board_on_usb_itself_is_not_tried_at_other_rates() {
    let fake = Fake::new();
    let device = Device::new();
    fake.plug("ttyACM0", "1-2", PICO, &device.path());
    let place = PortPlace::Usb {
        usb: "2e8a:000a".parse().unwrap(),
        bauds: vec![Baud(115_200), Baud(1200)],
        slot: 0,
    };
    let mut rig = Rig::at(fake.roots(), vec![place]);
    rig.opened(0).await;
    device.write(&[0x5A; limits::GARBLED_BYTES_MIN]).await;
    let status = rig
        .until("a verdict", |status| status.last_error.is_some())
        .await;
    assert_eq!(
        (status.state, status.baud),
        (PortState::Open, Some(Baud(115_200)))
    );
    assert_eq!(
        status.last_error.as_deref(),
        Some("4 bytes and no frame: this is no Forebay device")
    );
    rig.ports.stop().await;
}
