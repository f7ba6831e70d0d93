//! Lines that go away, come back, hang, or are not there.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::units::Mono;
use forebay_node::ports::pty::Pty;
use forebay_node::ports::{MonoClock, PortConfig, PortEventKind, PortId, PortPlace, Ports};
use forebay_tests::cable::Way;
use forebay_tests::process::send;
use forebay_tests::wait;
use forebay_wire::GatewayMessage;
use forebay_wire::limits::LINE_BYTES_MAX;
use forebay_wire::message::SyncReq;
use tokio::sync::mpsc;

use super::rig::{LIMIT, PLAN, Plan, Rig};

/// Processor time that a process used, in ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    ticks(11) + ticks(12)
}

/// The longest pause between two looks for a port that is not there.
const REOPEN: Duration = Duration::from_millis(500);

#[test]
fn a_replugged_device_goes_on_under_another_tty_within_a_second() {
    let mut rig = Rig::start(&PLAN);
    rig.goes_on(20);
    // A machine that is busy slows single ones down; the pauses by themselves are
    // tested by hand, beside the ports.
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let before = rig.port(0).unwrap()["tty"].clone();
        rig.cables[0].unplug();
        wait::until("the agent has noticed", LIMIT, || {
            let port = rig.port(0)?;
            (port["state"] != "open")
                .then_some(())
                .ok_or(port.to_string())
        });
        let start = Instant::now();
        rig.cables[0].plug_in();
        rig.goes_on(1);
        fastest = fastest.min(start.elapsed());
        assert_ne!(rig.port(0).unwrap()["tty"], before);
    }
    assert!(fastest < Duration::from_secs(1) + REOPEN, "{fastest:?}");
    assert_eq!(rig.settle()[0].gaps, 0);
}

/// Looking for a port that is not there costs under 2 % of a core.
#[test]
fn an_unplugged_port_costs_hardly_any_processor_time() {
    let mut rig = Rig::start(&Plan { devices: 4, ..PLAN });
    rig.goes_on(20);
    for cable in &rig.cables {
        cable.unplug();
    }
    wait::until("the agent has noticed", LIMIT, || {
        let status = rig.ask_json(&["status"])?;
        let ports = status["ports"].as_array().unwrap();
        let open = ports.iter().filter(|port| port["state"] == "open").count();
        (open == 0).then_some(()).ok_or(status.to_string())
    });
    let pid = rig.agent.as_ref().unwrap().id();
    let (start, before) = (Instant::now(), cpu_ticks(pid));
    // The devices go on: their rings are the clock of this wait.
    let held = rig.device(0).waiting;
    rig.until("five seconds of readings", |all| {
        all[0].waiting >= held + 500
    });
    let used_ms = (cpu_ticks(pid) - before) * 10;
    let percent = used_ms as f64 / start.elapsed().as_millis() as f64 * 100.0;
    assert!(percent < 2.0, "{percent} % of a core for four absent ports");
    for cable in &rig.cables {
        cable.plug_in();
    }
    rig.goes_on(20);
    assert!(rig.settle().iter().all(|device| device.gaps == 0));
}

/// A port that takes nothing and gives nothing: the other ones do not notice.
#[test]
fn a_hanging_port_holds_up_no_other() {
    let mut rig = Rig::start(&Plan { devices: 3, ..PLAN });
    rig.goes_on(20);
    // A deaf peer that hears nothing, and one that talks and never listens.
    rig.cables[0].stall(true);
    rig.cables[1].set(Way::ToDevice, |lane| lane.set_stalled(true));
    let before = rig.devices();
    rig.until("the third goes on for five seconds", |all| {
        all[2].acked >= before[2].acked + 500
    });
    let now = rig.devices();
    // What was on its way may still have been acked.
    assert!(now[0].acked <= before[0].acked + 200, "{:?}", now[0]);
    assert!(now[2].waiting < 200, "it was held up: {:?}", now[2]);
    rig.cables[0].stall(false);
    rig.cables[1].set(Way::ToDevice, |lane| lane.set_stalled(false));
    rig.goes_on(20);
    for device in rig.settle() {
        assert_eq!(device.gaps, 0, "{device:?}");
    }
}

/// All bytes one at a time, and in bursts of whatever size.
#[test]
fn how_bytes_are_cut_does_not_matter() {
    let mut rig = Rig::start(&PLAN);
    for (name, baud, burst, step_ms) in [
        ("a byte at a time", 57_600, 0, 0),
        ("bursts of 4 KiB", 0, 4_096, 0),
        ("bursts of 7", 0, 7, 0),
        ("a USB bridge's 16 ms", 0, 0, 16),
    ] {
        for way in Way::BOTH {
            rig.cables[0].set(way, |lane| {
                lane.set_baud(baud);
                lane.set_burst(burst);
                lane.set_step(Duration::from_millis(step_ms));
            });
        }
        let bad = rig.device(0).bad_frames;
        rig.goes_on(100);
        assert_eq!(rig.device(0).bad_frames, bad, "{name}");
    }
    let port = rig.port(0).unwrap();
    assert_eq!(
        (&port["frames_bad"], &port["opens"]),
        (&0.into(), &1.into()),
        "{port}"
    );
    assert_eq!(rig.settle()[0].gaps, 0);
}

/// The system keeps a few kilobytes of a line that nobody reads: more than a device
/// has on its way unacked. What does not fit would be lost on the wire, as in a UART.
#[test]
fn what_an_agent_that_was_held_up_could_not_read_comes_again() {
    let mut rig = Rig::start(&Plan {
        hz: 500.0,
        ring: 8192,
        ..PLAN
    });
    rig.goes_on(200);
    rig.cables[0].set(Way::ToGateway, |lane| lane.set_lossy(true));
    let agent = rig.agent.as_ref().unwrap().id().to_string();
    send("STOP", &agent);
    rig.until("four seconds without a reader", |all| {
        all[0].waiting >= 4_000
    });
    send("CONT", &agent);
    rig.goes_on(500);
    assert_eq!(rig.settle()[0].gaps, 0);
}

/// The last byte of a frame is not kept back by anything, however slowly it comes.
#[tokio::test]
async fn a_frame_is_there_when_its_last_byte_is() {
    let pty = Pty::open().unwrap();
    let clock = MonoClock::start();
    let (sender, mut events) = mpsc::channel(64);
    let config = PortConfig {
        id: PortId(0),
        name: "p".to_owned(),
        place: PortPlace::Serial {
            path: pty.slave().to_path_buf(),
            bauds: Vec::new(),
        },
    };
    let ports = Ports::spawn(vec![config], sender, clock, Arc::new(|_| {}));
    let opened = events.recv().await.unwrap();
    assert!(
        matches!(opened.kind, PortEventKind::Opened { .. }),
        "{opened:?}"
    );
    let mut line = [0; LINE_BYTES_MAX];
    let probe = GatewayMessage::SyncReq(SyncReq { id: 7 });
    let count = probe.encode(&mut line).unwrap();
    let frame = &line[..count];
    let mut fastest_us = u64::MAX;
    for _ in 0..20 {
        let mut got = Vec::new();
        for byte in frame {
            let last: Mono = clock.now();
            (&pty).write_all(&[*byte]).unwrap();
            let event = tokio::time::timeout(LIMIT, events.recv()).await.unwrap();
            let Some(PortEventKind::Bytes { bytes, received }) = event.map(|event| event.kind)
            else {
                panic!("the port closed")
            };
            got.extend(bytes);
            if got.len() == frame.len() {
                fastest_us = fastest_us.min(received.0 - last.0);
            }
        }
        assert_eq!(got, frame);
    }
    // The fastest: a machine under load may delay any of them, but not all.
    assert!(fastest_us <= 5_000, "{fastest_us} us");
    ports.stop().await;
}

/// A second agent on the same device is refused, and disturbs nothing.
#[test]
fn a_port_that_another_process_holds_is_named_with_its_holder() {
    let mut rig = Rig::start(&PLAN);
    rig.goes_on(20);
    let held = rig.port(0).unwrap();
    let path = held["place"].as_str().unwrap();
    let pid = rig.agent.as_ref().unwrap().id();
    let second = Rig::second_agent(path);
    wait::until("the second agent says who holds it", LIMIT, || {
        let said = second.agent.as_ref().unwrap().printed();
        let named = said.contains(path) && said.contains(&pid.to_string());
        named.then_some(()).ok_or(said)
    });
    rig.goes_on(50);
    assert_eq!(rig.port(0).unwrap()["opens"], held["opens"]);
    assert_eq!(rig.settle()[0].gaps, 0);
}
