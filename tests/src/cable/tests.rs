//! The cable between a TCP device and a gateway on a pty or TCP.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use forebay_node::ports::pty::Pty;

use super::*;
use crate::wait;

const LIMIT: Duration = Duration::from_secs(20);

fn device() -> (TcpListener, DeviceEnd) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, DeviceEnd::Tcp(addr))
}

fn rig() -> (Cable, TcpStream, TcpStream) {
    let (listener, at) = device();
    let cable = Cable::open(at, GatewayEnd::Tcp, 1).unwrap();
    let (device, _) = listener.accept().unwrap();
    let gateway = TcpStream::connect(cable.addr().unwrap()).unwrap();
    for stream in [&device, &gateway] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (cable, device, gateway)
}

fn read(mut from: &TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

/// Returns when the cable knows the gateway: until then what a device says is lost.
fn meet(device: &TcpStream, mut gateway: &TcpStream) {
    gateway.write_all(b"!").unwrap();
    assert_eq!(read(device, 1), b"!");
}

#[test]
fn bytes_echoes_and_noise_go_where_they_should() {
    let (cable, device, gateway) = rig();
    meet(&device, &gateway);
    let base = cable.counts(Way::ToDevice).bytes_out;
    (&mut &gateway).write_all(b"ask").unwrap();
    assert_eq!(read(&device, 3), b"ask");
    cable.inject(Way::ToDevice, b"AT\r");
    assert_eq!(read(&device, 3), b"AT\r");
    let echo = FaultRates {
        echo: 1.0,
        ..FaultRates::default()
    };
    cable.set(Way::ToGateway, |lane| lane.set_rates(echo));
    (&mut &device).write_all(b"said").unwrap();
    assert_eq!(read(&gateway, 4), b"said");
    assert_eq!(read(&device, 4), b"said", "and no echo of the echo");
    let counts = cable.counts(Way::ToDevice);
    assert_eq!((counts.bytes_in, counts.bytes_out - base), (1 + 3, 10));
    assert_eq!(cable.counts(Way::ToGateway).faults.echoes, 4);
}

#[test]
fn a_stalled_cable_keeps_what_it_took_and_an_unplugged_one_loses_it() {
    let (cable, device, gateway) = rig();
    meet(&device, &gateway);
    cable.stall(true);
    (&mut &device).write_all(b"held").unwrap();
    wait::until("it took the bytes", LIMIT, || {
        let counts = cable.counts(Way::ToGateway);
        (counts.bytes_in == counts.bytes_out + 4)
            .then_some(())
            .ok_or("not yet")
    });
    cable.stall(false);
    assert_eq!(read(&gateway, 4), b"held");
    let before = cable.counts(Way::ToGateway).lost;
    cable.unplug();
    assert_eq!((&mut &gateway).read(&mut [0; 9]).unwrap_or(0), 0, "gone");
    (&mut &device).write_all(b"lost").unwrap();
    wait::until("nobody took it", LIMIT, || {
        let lost = cable.counts(Way::ToGateway).lost - before;
        (lost == 4).then_some(()).ok_or(lost)
    });
    cable.plug_in();
    let gateway = TcpStream::connect(cable.addr().unwrap()).unwrap();
    meet(&device, &gateway);
}

#[test]
fn a_pty_comes_back_as_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("tty");
    // The device is a pty too, as a simulated one.
    let pty = Pty::open().unwrap();
    let device = DeviceEnd::Tty(pty.slave().to_path_buf());
    let cable = Cable::open(device, GatewayEnd::Pty(link.clone()), 1).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(std::fs::read_link(&link).unwrap());
        let mut gateway = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&link)
            .unwrap();
        gateway.write_all(b"hello").unwrap();
        let mut got = Vec::new();
        wait::until("the device hears it", LIMIT, || {
            let mut buffer = [0; 16];
            if let Ok(count) = (&pty).read(&mut buffer) {
                got.extend_from_slice(&buffer[..count]);
            }
            (got == b"hello").then_some(()).ok_or(got.len())
        });
        cable.unplug();
        assert!(std::fs::symlink_metadata(&link).is_err());
        cable.plug_in();
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
}

#[test]
fn a_paced_cable_is_no_faster_than_its_rate() {
    let (cable, device, gateway) = rig();
    meet(&device, &gateway);
    cable.pace(115_200);
    let start = Instant::now();
    let bytes = vec![5; 5_760];
    std::thread::scope(|scope| {
        scope.spawn(|| (&mut &device).write_all(&bytes).unwrap());
        assert_eq!(read(&gateway, bytes.len()), bytes);
    });
    assert!(start.elapsed() >= Duration::from_millis(490));
}
