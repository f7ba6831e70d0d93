//! Simulated devices against a small gateway. Waits are for bytes or counters,
//! with a deadline.

mod gateway;

use std::collections::BTreeMap;

use forebay_firmware::wire::ids::{BootId, Ordinal};
use forebay_firmware::wire::{Deframer, DeviceMessage};

use super::*;
use crate::ports::PortPlace;
use gateway::{DEADLINE, Gateway, Session, serial, within};

fn made_up(devices: u32, hz: f64) -> SimConfig {
    SimConfig {
        devices,
        host_sensors: false,
        period: SamplePeriod::from_hz(hz).unwrap(),
        seed: 42,
        boot: Some(BootId(7)),
        ..SimConfig::default()
    }
}

/// Stops sampling, takes the rest, and checks that the sums close.
async fn drain(devices: SimDevices, mut gateway: Gateway) -> (Vec<SimSnapshot>, Vec<Session>) {
    devices.stop_sampling();
    gateway
        .until("all acked", |sessions| {
            let all = devices.snapshot();
            all.iter().zip(sessions).all(|(device, session)| {
                // Nothing may have been left to send when the line was opened anew.
                let is_met = session.uid.is_some();
                is_met && device.waiting == 0 && Ordinal(device.produced) == session.next
            })
        })
        .await;
    let snapshots = devices.stop().unwrap();
    for (device, session) in snapshots.iter().zip(&gateway.sessions) {
        assert_eq!(session.uid, Some(device.uid));
        assert_eq!(device.gaps, session.gaps, "{device:?}");
        assert_eq!(device.acked, session.readings.len() as u64, "{device:?}");
        assert_eq!(device.produced, device.acked + device.gaps, "{device:?}");
    }
    gateway.ports.stop().await;
    (snapshots, gateway.sessions)
}

/// Per channel the ticks go up, and the values are those of the seed.
fn check_made_up(session: &Session, device: u32) {
    let sources = synthetic::sources(dice::hash(42, u64::from(device)));
    let mut last = BTreeMap::new();
    for reading in &session.readings {
        let before = last.insert(reading.channel, reading.tick);
        assert!(
            before.is_none_or(|before| before < reading.tick),
            "{reading:?}"
        );
        let want = sources[usize::from(reading.channel.0)].read(reading.tick);
        assert_eq!(source::Figure::Value(reading.value), want, "{reading:?}");
    }
    assert_eq!(last.len(), sources.len(), "every channel was heard");
}

#[tokio::test]
async fn readings_arrive_in_order_each_once() {
    let devices = SimDevices::spawn(made_up(3, 100.0)).unwrap();
    let places = devices.paths().iter().map(|path| serial(path)).collect();
    let mut gateway = Gateway::new(places);
    gateway.until_readings(200).await;
    let (_, sessions) = drain(devices, gateway).await;
    for (number, session) in (0..).zip(&sessions) {
        check_made_up(session, number);
        let names: Vec<&str> = session.channels.values().map(String::as_str).collect();
        assert_eq!(names, ["temperature", "humidity"]);
    }
}

#[tokio::test]
async fn a_bad_cable_loses_nothing() {
    // At one byte in a hundred hardly a long frame comes through whole, so the
    // device must have little to say.
    let rows = [("1 in 1000", 0.001, 50.0, 200), ("1 in 100", 0.01, 5.0, 20)];
    for (name, rate, hz, count) in rows {
        let faults = FaultRates::even(rate).into();
        let config = SimConfig {
            faults,
            ..made_up(2, hz)
        };
        let devices = SimDevices::spawn(config).unwrap();
        let places = devices.paths().iter().map(|path| serial(path)).collect();
        let mut gateway = Gateway::new(places);
        gateway.until_readings(count).await;
        let (snapshots, sessions) = drain(devices, gateway).await;
        for (number, session) in (0..).zip(&sessions) {
            check_made_up(session, number);
        }
        let faults: u64 = snapshots.iter().map(|device| device.faults).sum();
        assert!(faults > 0, "{name}: {snapshots:?}");
    }
}

#[tokio::test]
async fn a_cable_that_hangs_and_falls_out_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let spell = |lasts, each| {
        let ms = std::time::Duration::from_millis;
        Some(Spell::new(ms(lasts), ms(each)).unwrap())
    };
    let rows = [
        ("stall", spell(100, 400), None),
        ("unplug", None, spell(100, 700)),
        ("both", spell(50, 300), spell(50, 600)),
    ];
    for (name, stall, unplug) in rows {
        let link = Some(dir.path().join(name));
        let faults = CableFaults {
            rates: FaultRates {
                noise: 0.001,
                echo: 0.01,
                ..FaultRates::default()
            },
            stall,
            unplug,
        };
        let config = SimConfig {
            faults,
            clock: ClockPpm::new(40_000).unwrap(),
            lines: SimLines::Ptys { link },
            ..made_up(2, 50.0)
        };
        let devices = SimDevices::spawn(config).unwrap();
        let places = devices.paths().iter().map(|path| serial(path)).collect();
        let mut gateway = Gateway::new(places);
        gateway
            .until("three of each", |_| {
                let all = devices.snapshot();
                all.iter().all(|device| {
                    (stall.is_none() || device.stalls >= 3)
                        && (unplug.is_none() || device.unplugs >= 3)
                })
            })
            .await;
        let (snapshots, sessions) = drain(devices, gateway).await;
        for (number, session) in (0..).zip(&sessions) {
            check_made_up(session, number);
        }
        for device in snapshots {
            assert!(device.closes() && device.gaps == 0, "{name}: {device:?}");
        }
    }
}

#[tokio::test]
async fn resets_end_boots_whose_sums_close() {
    let config = SimConfig {
        resets: Some(std::time::Duration::from_millis(300)),
        ring: RingSize::new(64).unwrap(),
        ..made_up(2, 100.0)
    };
    let devices = SimDevices::spawn(config).unwrap();
    let places = devices.paths().iter().map(|path| serial(path)).collect();
    let mut gateway = Gateway::new(places);
    gateway
        .until("some boots", |sessions| {
            let all = devices.snapshot();
            let met = all.iter().zip(sessions);
            met.into_iter()
                .all(|(device, session)| device.earlier.boots >= 4 && session.boot == device.boot)
        })
        .await;
    for device in devices.stop().unwrap() {
        assert!(device.closes(), "{device:?}");
        assert!(device.earlier.produced > device.earlier.acked, "{device:?}");
        assert_eq!(device.boot.0, 7 + device.earlier.boots, "{device:?}");
    }
    gateway.ports.stop().await;
}

#[test]
fn what_cannot_be_simulated_is_refused_with_a_reason() {
    let unplug = Some(Spell::new(limits::SPELL_MIN, limits::SPELL_EACH_MAX).unwrap());
    let unplugged = CableFaults {
        unplug,
        ..CableFaults::default()
    };
    let step = std::time::Duration::from_micros(1);
    let resets = |resets| SimConfig {
        resets: Some(resets),
        ..made_up(1, 1.0)
    };
    for (name, config, want) in [
        (
            "nobody would find it",
            SimConfig {
                faults: unplugged,
                ..made_up(1, 1.0)
            },
            Some("unplug: a device comes back under another path"),
        ),
        (
            "reset limit-1",
            resets(limits::RESET_EACH_MIN - step),
            Some("reset: 99.999ms is not"),
        ),
        ("reset limit", resets(limits::RESET_EACH_MIN), None),
        ("reset limit+1", resets(limits::RESET_EACH_MIN + step), None),
        (
            "reset longest-1",
            resets(limits::SPELL_EACH_MAX - step),
            None,
        ),
        ("reset longest", resets(limits::SPELL_EACH_MAX), None),
        (
            "reset longest+1",
            resets(limits::SPELL_EACH_MAX + step),
            Some("to a day"),
        ),
    ] {
        let error = config.check().err();
        match want {
            Some(want) => assert!(error.is_some_and(|error| error.contains(want)), "{name}"),
            None => assert_eq!(error, None, "{name}"),
        }
    }
}

#[tokio::test]
async fn this_computers_sensors_come_from_the_first_device_over_tcp() {
    let lines = SimLines::Tcp {
        listen: "127.0.0.1:0".parse().unwrap(),
    };
    let config = SimConfig {
        host_sensors: true,
        lines,
        ..made_up(2, 50.0)
    };
    let devices = SimDevices::spawn(config).unwrap();
    let places = devices.devices().iter().map(|info| match &info.place {
        SimPlace::Tcp(address) => PortPlace::Tcp {
            address: address.to_string(),
        },
        SimPlace::Pty { .. } | SimPlace::InProcess => panic!("{info:?}"),
    });
    let mut gateway = Gateway::new(places.collect());
    gateway.until_readings(50).await;
    let (_, sessions) = drain(devices, gateway).await;
    let names: Vec<&str> = sessions[0].channels.values().map(String::as_str).collect();
    assert_eq!(names[..2], ["load", "memory_used"]);
    check_made_up(&sessions[1], 1);
}

#[tokio::test]
async fn an_unplugged_gateway_finds_everything_that_it_missed() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("device");
    let lines = SimLines::Ptys {
        link: Some(link.clone()),
    };
    let devices = SimDevices::spawn(SimConfig {
        lines,
        ..made_up(1, 100.0)
    })
    .unwrap();
    assert_eq!(devices.paths(), std::slice::from_ref(&link));
    let mut gateway = Gateway::new(vec![serial(&link)]);
    gateway.until_readings(100).await;
    gateway.ports.stop().await;
    let held = devices.snapshot()[0].produced;
    within("a backlog", async {
        while devices.snapshot()[0].produced < held + 100 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut again = Gateway::new(vec![serial(&link)]);
    let before = gateway.sessions.remove(0);
    again.sessions[0].next = before.next;
    again.sessions[0].readings = before.readings;
    let (_, sessions) = drain(devices, again).await;
    check_made_up(&sessions[0], 0);
    assert!(sessions[0].readings.len() as u64 >= held + 100);
    assert!(
        !link.exists() && std::fs::symlink_metadata(&link).is_err(),
        "the link is removed"
    );
}

#[tokio::test]
async fn a_gateway_that_never_reads_stops_no_sampling_and_the_loss_is_counted() {
    // So few that the other one's ring holds what comes while this computer is busy.
    let devices = SimDevices::spawn(made_up(2, 250.0)).unwrap();
    let paths = devices.paths();
    // Has the line open, and takes nothing from it.
    let deaf = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&paths[0])
        .unwrap();
    let places = vec![serial(&paths[1])];
    let mut gateway = Gateway::new(places);
    let enough = 3 * 2730;
    gateway
        .until("an overwritten ring", |_| {
            devices.snapshot()[0].produced > enough
        })
        .await;
    let [stuck, other] = devices.snapshot()[..] else {
        panic!("two devices")
    };
    assert!(stuck.gaps > 0 && stuck.acked == 0, "{stuck:?}");
    assert_eq!((other.gaps, other.open), (0, true), "{other:?}");
    gateway.ports.stop().await;
    drop(deaf);
    let mut both = Gateway::new(paths.iter().map(|path| serial(path)).collect());
    let before = gateway.sessions.remove(0);
    both.sessions[1].next = before.next;
    both.sessions[1].readings = before.readings;
    let (snapshots, sessions) = drain(devices, both).await;
    assert!(
        snapshots[0].gaps > 0 && snapshots[1].gaps == 0,
        "{snapshots:?}"
    );
    check_made_up(&sessions[0], 0);
    check_made_up(&sessions[1], 1);
}

#[test]
fn in_process_lines_are_plain_streams() {
    use std::io::Read;
    let config = SimConfig {
        lines: SimLines::InProcess,
        ..made_up(2, 10.0)
    };
    let mut devices = SimDevices::spawn(config).unwrap();
    let streams = devices.take_streams();
    let mut uids = Vec::new();
    for (uid, mut stream) in streams {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut deframer = Deframer::new();
        let mut heard = None;
        while heard.is_none() {
            let mut bytes = [0; 256];
            let count = stream.read(&mut bytes).unwrap();
            deframer.receive_device(&bytes[..count], |message| {
                if let Ok(DeviceMessage::Hello(hello)) = message {
                    heard = Some(hello.uid);
                }
            });
        }
        assert_eq!(heard, Some(uid));
        uids.push(uid);
    }
    assert_eq!(uids.len(), 2);
    assert!(uids[0] < uids[1]);
}

#[test]
fn device_counts_around_the_limit() {
    let rows = [
        ("limit-1", 0, false),
        ("limit", 1, true),
        ("limit+1", limits::DEVICES_MAX + 1, false),
    ];
    for (name, devices, want) in rows {
        let config = SimConfig {
            lines: SimLines::InProcess,
            ..made_up(devices, 1.0)
        };
        assert_eq!(SimDevices::spawn(config).is_ok(), want, "{name}");
    }
}

#[test]
fn a_link_never_replaces_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("precious");
    std::fs::write(&link, "data").unwrap();
    let lines = SimLines::Ptys {
        link: Some(link.clone()),
    };
    let error = SimDevices::spawn(SimConfig {
        lines,
        ..made_up(1, 1.0)
    })
    .unwrap_err();
    assert!(error.to_string().contains("precious"), "{error}");
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "data");
}
