//! Many ports at once: what one of them does is nobody else's trouble. Progress is
//! counted in bytes and events, not timed.

use forebay_wire::Deframer;
use forebay_wire::frame::encode_raw;

use super::rig::{Device, Rig, serial};
use super::*;
use crate::ports::limits::PORT_EVENTS_MAX;

const PORTS: usize = 64;
const BYTES: usize = 20_000;

/// A device speaks only when its port is open.
async fn all_open(rig: &Rig, ports: usize) {
    rig.until("all ports open", |_| {
        let all = rig.ports.status();
        let open = all.iter().filter(|status| status.state == PortState::Open);
        open.count() == ports
    })
    .await;
}

#[tokio::test]
async fn sixty_four_ports_beside_a_deaf_a_flooding_and_two_dead_ones() {
    let devices: Vec<Device> = (0..PORTS).map(|_| Device::new()).collect();
    let (deaf, flood) = (Device::new(), Device::new());
    let mut places: Vec<PortPlace> = devices
        .iter()
        .map(|device| serial(&device.path()))
        .collect();
    places.push(serial(&deaf.path()));
    places.push(serial(&flood.path()));
    places.push(serial(Path::new("/nowhere")));
    places.push(PortPlace::Tcp {
        address: String::from("127.0.0.1:1"),
    });
    let mut rig = Rig::new(places);
    all_open(&rig, PORTS + 2).await;
    let mut got = [0_usize; PORTS];
    let handle = rig.ports.handle(PortId(PORTS as u32)).unwrap();
    let pattern = |port: usize, at: usize| (port * 7 + at % 251) as u8;
    let send = async {
        // Never ends by itself: its device says as much as its port takes.
        let flooding = async {
            loop {
                flood.write(&[0x55; 4096]).await;
            }
        };
        let sending = async {
            for at in (0..BYTES).step_by(1000) {
                for (port, device) in devices.iter().enumerate() {
                    let bytes: Vec<u8> = (at..at + 1000).map(|n| pattern(port, n)).collect();
                    device.write(&bytes).await;
                }
            }
        };
        tokio::select! {
            () = flooding => {}
            () = sending => {}
        }
    };
    let receive = async {
        while got.iter().any(|count| *count < BYTES) {
            handle.write(vec![0xA5; 252]);
            let event = rig.next().await;
            let PortEventKind::Bytes { bytes, .. } = event.kind else {
                continue;
            };
            let port = event.port.0 as usize;
            let Some(count) = got.get_mut(port) else {
                continue;
            };
            for byte in bytes {
                assert_eq!(byte, pattern(port, *count), "port {port} at {count}");
                *count += 1;
            }
        }
    };
    tokio::join!(send, receive);
    assert_eq!(got, [BYTES; PORTS]);
    rig.ports.stop().await;
}

#[tokio::test]
async fn a_flooding_port_waits_for_its_share_of_the_events() {
    let (flood, quiet) = (Device::new(), Device::new());
    let mut rig = Rig::new(vec![serial(&flood.path()), serial(&quiet.path())]);
    all_open(&rig, 2).await;
    let flooding = async {
        loop {
            flood.write(&[0x55; 4096]).await;
        }
    };
    let behind = async {
        // Nobody takes events; the flood fills what it can.
        let full = limits::READ_BYTES_MAX as u64 * 2;
        rig.until("a flood", |status| {
            status.id == PortId(0) && status.bytes_in > full
        })
        .await;
        quiet.write(b"x").await;
        rig.until("a byte", |status| {
            status.id == PortId(1) && status.bytes_in == 1
        })
        .await;
        for ahead in 0..=PORT_EVENTS_MAX + 1 {
            let event = rig.next().await;
            if let (PortId(1), PortEventKind::Bytes { .. }) = (event.port, event.kind) {
                return ahead;
            }
        }
        panic!("more events stood before the quiet port than one port may have");
    };
    let ahead = tokio::select! {
        () = flooding => unreachable!("floods for ever"),
        ahead = behind => ahead,
    };
    assert!(ahead <= PORT_EVENTS_MAX + 1, "{ahead}");
    rig.ports.stop().await;
}

/// A frame that says which it is, after a zero that ends what was cut off before it.
fn frame(number: u32) -> Vec<u8> {
    let mut line = [0; 64];
    let mut body = number.to_le_bytes().to_vec();
    body.extend([0xA5; 40]);
    let bytes = encode_raw(&mut line, 0x11, &body).unwrap();
    [&[0], &line[..bytes]].concat()
}

/// What a device says before the port is opened, and does not fit into the system's
/// buffer, is lost on the way: the numbers say so, and all else is there.
#[tokio::test]
async fn c6_what_waits_at_the_open_is_read_and_a_hole_shows() {
    use std::io::Write;
    const FRAMES: u32 = 4000;
    let device = Device::new();
    let mut kept = Vec::new();
    for number in 0..FRAMES {
        let bytes = frame(number);
        // A UART has no way to wait: what does not fit is gone.
        match (&*device.pty).write(&bytes) {
            Ok(written) if written == bytes.len() => kept.push(number),
            Ok(_) | Err(_) => {}
        }
    }
    assert!(
        !kept.is_empty() && kept.len() < FRAMES as usize,
        "{}",
        kept.len()
    );
    let mut rig = Rig::one(&device.path());
    rig.opened(0).await;
    for number in FRAMES..FRAMES + 50 {
        let bytes = frame(number);
        device.write(&bytes).await;
        kept.push(number);
    }
    let mut deframer = Deframer::new();
    let mut heard = Vec::new();
    while heard.last() != kept.last() {
        let bytes = rig.bytes(0, 1).await;
        deframer.push_slice(&bytes, |frame| {
            if let Ok(frame) = frame {
                heard.push(u32::from_le_bytes(frame.body[..4].try_into().unwrap()));
            }
        });
    }
    assert_eq!(heard, kept);
    rig.ports.stop().await;
}
