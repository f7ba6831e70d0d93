//! Ports against real ptys and sockets. Every wait is for something that
//! happens, with a deadline; nothing sleeps.

pub(super) mod fake;
mod many;
mod rig;
mod rules;
mod tcp;
mod usb;

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::limits::{WRITE_QUEUE_FRAMES_MAX, WRITE_TIMEOUT};
use super::*;
use rig::{Device, Rig, point, serial};

const REPLUGS: u8 = 100;

#[tokio::test]
async fn carries_every_byte_value_both_ways() {
    let device = Device::new();
    let mut rig = Rig::one(&device.path());
    rig.opened(0).await;
    let all: Vec<u8> = (0..=255).cycle().take(8192).collect();
    let (_, got) = tokio::join!(device.write(&all), rig.bytes(0, all.len()));
    assert!(got == all, "a byte was translated on the way in");
    for chunk in all.chunks(256) {
        assert!(rig.write(0, chunk));
    }
    assert!(
        device.read_exact(all.len()).await == all,
        "a byte was translated on the way out"
    );
    let status = rig
        .until("counters", |status| status.bytes_out == 8192)
        .await;
    assert_eq!(
        (status.state, status.opens, status.bytes_in),
        (PortState::Open, 1, 8192)
    );
    rig.ports.stop().await;
}

#[tokio::test]
async fn c7_twenty_megabytes_pass_without_a_hole_beside_a_cpu_hog() {
    const CHUNK: usize = 10_000;
    const CHUNKS: usize = 2_000;
    let device = Device::new();
    let mut rig = Rig::one(&device.path());
    rig.opened(0).await;
    // A prime period, so that a hole or a swap of any usual size shows.
    let chunk = |at: usize| -> Vec<u8> { (at..at + CHUNK).map(|n| (n % 251) as u8).collect() };
    let send = async {
        for n in 0..CHUNKS {
            device.write(&chunk(n * CHUNK)).await;
            // Holds the ports' own thread up, as a busy computer would.
            if n % 20 == 0 {
                std::hint::black_box((0..100_000_u64).fold(n as u64, u64::wrapping_mul));
            }
        }
    };
    let receive = async {
        let mut at = 0;
        while at < CHUNK * CHUNKS {
            let got = rig.bytes(0, 1).await;
            assert!(
                got.iter()
                    .zip(at..)
                    .all(|(byte, n)| usize::from(*byte) == n % 251)
            );
            at += got.len();
        }
    };
    tokio::join!(send, receive);
    rig.ports.stop().await;
}

#[tokio::test]
async fn c9_a_link_that_leads_to_another_tty_is_followed_within_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("by-id");
    let mut device = Device::new();
    symlink(device.path(), &link).unwrap();
    let mut rig = Rig::one(&link);
    for round in 0..REPLUGS {
        rig.opened(0).await;
        device.write(&[round; 16]).await;
        assert_eq!(rig.bytes(0, 16).await, [round; 16]);
        let next = Device::new();
        std::fs::remove_file(&link).unwrap();
        drop(device);
        assert_eq!(rig.closed(0).await, CloseReason::Gone);
        point(&link, &next.path());
        let plugged = std::time::Instant::now();
        rig.until("the port open again", |status| {
            status.state == PortState::Open
        })
        .await;
        assert!(
            plugged.elapsed() < Duration::from_secs(1),
            "{:?}",
            plugged.elapsed()
        );
        device = next;
    }
    rig.ports.stop().await;
}

#[tokio::test]
async fn c11_the_same_pty_opens_a_hundred_times() {
    let device = Device::new();
    for round in 0..100 {
        let mut rig = Rig::one(&device.path());
        rig.opened(0).await;
        let said = rig.said();
        assert!(
            !said.iter().any(|line| line.contains("busy")),
            "round {round}: {said:?}"
        );
        rig.ports.stop().await;
        // The last open is not seen as gone until the port is closed.
        assert!(
            !device.pty.peer_open().unwrap(),
            "round {round}: still open"
        );
    }
}

#[tokio::test]
async fn c10_a_second_opener_is_refused_by_name_and_takes_over_when_it_is_free() {
    let device = Device::new();
    let mut first = Rig::one(&device.path());
    first.opened(0).await;
    let mut second = Rig::one(&device.path());
    let status = second
        .until("a refusal", |status| status.last_error.is_some())
        .await;
    let error = status.last_error.unwrap();
    assert!(
        error.contains("is busy: another port of this agent has it open"),
        "{error}"
    );
    assert!(error.contains(device.path().to_str().unwrap()), "{error}");
    // The refused try must not have broken the first one.
    device.write(b"still mine").await;
    assert_eq!(first.bytes(0, 10).await, b"still mine");
    first.ports.stop().await;
    second.opened(0).await;
    assert!(
        second
            .said()
            .iter()
            .filter(|line| line.contains("is busy"))
            .count()
            == 1
    );
    second.ports.stop().await;
}

#[tokio::test]
async fn c10_a_port_held_by_another_program_is_named_with_its_process() {
    let device = Device::new();
    // Holds the lock, as minicom or another agent would.
    let mut holder = std::process::Command::new("flock")
        .arg(device.path())
        .args(["sh", "-c", "echo held; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("needs the program flock (Debian package util-linux)");
    let mut held = [0; 5];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut held)
        .unwrap();
    let rig = Rig::one(&device.path());
    let status = rig
        .until("a refusal", |status| status.last_error.is_some())
        .await;
    let error = status.last_error.unwrap();
    assert!(error.contains("is busy: process "), "{error}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    rig.until("the port open", |status| status.state == PortState::Open)
        .await;
    rig.ports.stop().await;
}

#[tokio::test]
async fn errors_name_the_port_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "no terminal").unwrap();
    let missing = dir.path().join("missing");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = free.local_addr().unwrap().to_string();
    drop(free);
    let rows = [
        ("missing", serial(&missing), "is not there"),
        ("a file", serial(&file), "does not work as a serial port"),
        (
            "refused",
            PortPlace::Tcp { address: refused },
            "cannot connect to 127.0.0.1",
        ),
        (
            "no address",
            PortPlace::Tcp {
                address: "nonsense".into(),
            },
            "cannot connect to nonsense",
        ),
    ];
    for (name, place, want) in rows {
        let rig = Rig::new(vec![place]);
        let status = rig.until(name, |status| status.last_error.is_some()).await;
        let error = status.last_error.unwrap();
        assert!(error.contains(want), "{name}: {error}");
        assert_eq!(rig.said().len(), 1, "{name}");
        assert!(
            rig.said()[0].starts_with("port p0: "),
            "{name}: {:?}",
            rig.said()
        );
        assert!(!rig.write(0, b"x"), "{name}: a closed port takes nothing");
        assert_eq!(rig.ports.status()[0].dropped_writes, 1, "{name}");
        rig.ports.stop().await;
    }
}

#[tokio::test]
async fn a_peer_that_never_reads_holds_up_nobody_and_is_closed() {
    let deaf = Device::new();
    let good = Device::new();
    let mut rig = Rig::new(vec![serial(&deaf.path())]);
    rig.opened(0).await;
    let mut other = Rig::one(&good.path());
    other.opened(0).await;
    let start = std::time::Instant::now();
    // Far more than a pty holds, so the writer must come to wait.
    let mut dropped = 0_u64;
    while dropped < WRITE_QUEUE_FRAMES_MAX as u64 {
        dropped += u64::from(!rig.write(0, &[0xA5; 252]));
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.ports.status()[0].dropped_writes, dropped);
    // Reading from the deaf peer goes on, and so does the other port.
    deaf.write(b"talks").await;
    assert_eq!(rig.bytes(0, 5).await, b"talks");
    good.write(b"fine").await;
    assert_eq!(other.bytes(0, 4).await, b"fine");
    assert!(other.write(0, b"also fine"));
    assert_eq!(good.read_exact(9).await, b"also fine");
    assert_eq!(rig.closed(0).await, CloseReason::WriteTimedOut);
    assert!(start.elapsed() >= WRITE_TIMEOUT);
    rig.opened(0).await;
    rig.ports.stop().await;
    other.ports.stop().await;
}

#[tokio::test]
async fn asked_to_reopen_a_port_takes_its_next_rate() {
    let device = Device::new();
    let bauds = vec![Baud(115_200), Baud(921_600)];
    let mut rig = Rig::new(vec![PortPlace::Serial {
        path: device.path(),
        bauds,
    }]);
    for _ in 0..3 {
        rig.opened(0).await;
        rig.ports.handle(PortId(0)).unwrap().reopen();
        assert_eq!(rig.closed(0).await, CloseReason::Asked);
    }
    rig.opened(0).await;
    let rates: Vec<String> = rig
        .said()
        .into_iter()
        .filter(|line| line.contains("is open at"))
        .collect();
    for (line, rate) in rates.iter().zip(["115200", "921600", "115200"]) {
        assert!(line.contains(&format!("{rate} baud")), "{rates:?}");
    }
    rig.ports.stop().await;
}

#[tokio::test]
async fn bytes_without_a_frame_move_a_port_to_its_next_rate_within_three_seconds() {
    let device = Device::new();
    let bauds = vec![Baud(9600), Baud(115_200)];
    let path = device.path();
    let mut rig = Rig::new(vec![PortPlace::Serial { path, bauds }]);
    rig.opened(0).await;
    let start = std::time::Instant::now();
    let reason = loop {
        device.write(&[0x5A, 0, 0xA5]).await;
        match rig.next().await.kind {
            PortEventKind::Bytes { .. } => {}
            PortEventKind::Closed { reason } => break reason,
            PortEventKind::Opened { .. } => panic!("opened twice"),
        }
    };
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert!(
        matches!(reason, CloseReason::WrongRate { baud: 9600, .. }),
        "{reason:?}"
    );
    assert!(
        reason.to_string().contains("no frame at 9600 baud"),
        "{reason}"
    );
    rig.opened(0).await;
    assert!(
        rig.said().iter().any(|line| line.contains("115200 baud")),
        "{:?}",
        rig.said()
    );
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_port_with_one_rate_says_so_and_stays() {
    let device = Device::new();
    let mut rig = Rig::one(&device.path());
    rig.opened(0).await;
    let told = |said: &[String]| said.iter().filter(|line| line.contains("no frame")).count();
    while told(&rig.said()) == 0 {
        device.write(&[0x5A, 0, 0xA5]).await;
        rig.bytes(0, 1).await;
    }
    assert_eq!(told(&rig.said()), 1);
    let status = rig.ports.status().remove(0);
    assert_eq!((status.state, status.opens), (PortState::Open, 1));
    assert!(
        status
            .last_error
            .is_some_and(|error| error.contains("no frame"))
    );
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_clean_stop_writes_what_is_queued_and_closes_the_port() {
    let device = Device::new();
    let mut rig = Rig::one(&device.path());
    rig.opened(0).await;
    for n in 0..10_u8 {
        assert!(rig.write(0, &[n; 100]));
    }
    rig.ports.stop().await;
    let want: Vec<u8> = (0..10_u8).flat_map(|n| [n; 100]).collect();
    assert!(device.pty.peer_open().is_ok_and(|open| !open));
    let mut got = Vec::new();
    // Ends in an error, as nobody has the slave open any more.
    let _ = (&*device.pty).read_to_end(&mut got);
    assert_eq!(got, want);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_an_absent_or_a_deaf_peer() {
    let deaf = Device::new();
    let mut rig = Rig::new(vec![serial(&deaf.path()), serial(Path::new("/nowhere"))]);
    rig.opened(0).await;
    while rig.write(0, &[1; 252]) {
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(Duration::from_secs(2), rig.ports.stop())
        .await
        .unwrap();
}

#[test]
fn garbage_reaches_the_link_unchanged() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    proptest::proptest!(
        proptest::test_runner::Config::with_cases(24),
        |(bytes in proptest::collection::vec(proptest::num::u8::ANY, 1..2000))| {
            runtime.block_on(async {
                let device = Device::new();
                let mut rig = Rig::one(&device.path());
                rig.opened(0).await;
                device.write(&bytes).await;
                assert_eq!(rig.bytes(0, bytes.len()).await, bytes);
                rig.ports.stop().await;
            });
        }
    );
}
