//! The port on a driver that is a script: what a host asks, in the order in which
//! Linux does, and what it hears.

use core::cell::RefCell;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

use embassy_usb_driver::{Endpoint, EndpointError, EndpointInfo, Unsupported};

use super::descriptor::{CONFIGURATION, DEVICE};
use super::*;

const UID: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

/// What went over the bus, as the driver's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    In { data: Vec<u8>, last: bool },
    Accept,
    Reject,
    Address(u8),
    Enabled(u8, bool),
    Stalled(u8, bool),
    Power(bool),
    Packet(Vec<u8>),
}

#[derive(Debug, Default)]
struct Script {
    events: VecDeque<Event>,
    setups: VecDeque<[u8; 8]>,
    data_out: VecDeque<Vec<u8>>,
    packets: VecDeque<Result<Vec<u8>, EndpointError>>,
    /// Answers to written packets; none: the host does not read.
    takes: VecDeque<Result<(), EndpointError>>,
    calls: Vec<Call>,
}

type Shared = Rc<RefCell<Script>>;

struct Fake(Shared);
struct FakeBus(Shared);
struct FakePipe(Shared);
struct FakeEndpoint(Shared, EndpointInfo);

async fn next<T>(mut take: impl FnMut() -> Option<T>) -> T {
    core::future::poll_fn(|_| take().map_or(Poll::Pending, Poll::Ready)).await
}

impl Driver<'static> for Fake {
    type EndpointOut = FakeEndpoint;
    type EndpointIn = FakeEndpoint;
    type ControlPipe = FakePipe;
    type Bus = FakeBus;

    fn alloc_endpoint_out(
        &mut self,
        ep_type: EndpointType,
        ep_addr: Option<EndpointAddress>,
        max_packet_size: u16,
        interval_ms: u8,
    ) -> Result<FakeEndpoint, EndpointAllocError> {
        let info = EndpointInfo {
            addr: ep_addr.ok_or(EndpointAllocError)?,
            ep_type,
            max_packet_size,
            interval_ms,
        };
        Ok(FakeEndpoint(self.0.clone(), info))
    }

    fn alloc_endpoint_in(
        &mut self,
        ep_type: EndpointType,
        ep_addr: Option<EndpointAddress>,
        max_packet_size: u16,
        interval_ms: u8,
    ) -> Result<FakeEndpoint, EndpointAllocError> {
        self.alloc_endpoint_out(ep_type, ep_addr, max_packet_size, interval_ms)
    }

    fn start(self, _: u16) -> (FakeBus, FakePipe) {
        (FakeBus(self.0.clone()), FakePipe(self.0))
    }
}

impl Bus for FakeBus {
    async fn enable(&mut self) {
        self.0.borrow_mut().calls.push(Call::Power(true));
    }

    async fn disable(&mut self) {
        self.0.borrow_mut().calls.push(Call::Power(false));
    }

    async fn poll(&mut self) -> Event {
        next(|| self.0.borrow_mut().events.pop_front()).await
    }

    fn endpoint_set_enabled(&mut self, address: EndpointAddress, on: bool) {
        let call = Call::Enabled(address.into(), on);
        self.0.borrow_mut().calls.push(call);
    }

    fn endpoint_set_stalled(&mut self, address: EndpointAddress, on: bool) {
        let call = Call::Stalled(address.into(), on);
        self.0.borrow_mut().calls.push(call);
    }

    fn endpoint_is_stalled(&mut self, address: EndpointAddress) -> bool {
        u8::from(address) == DATA_IN
    }

    async fn remote_wakeup(&mut self) -> Result<(), Unsupported> {
        Err(Unsupported)
    }
}

impl ControlPipe for FakePipe {
    fn max_packet_size(&self) -> usize {
        PACKET
    }

    async fn setup(&mut self) -> [u8; 8] {
        next(|| self.0.borrow_mut().setups.pop_front()).await
    }

    async fn data_out(&mut self, buf: &mut [u8], _: bool, _: bool) -> Result<usize, EndpointError> {
        let data = self.0.borrow_mut().data_out.pop_front();
        let data = data.ok_or(EndpointError::Disabled)?;
        buf[..data.len()].copy_from_slice(&data);
        Ok(data.len())
    }

    async fn data_in(&mut self, data: &[u8], _: bool, last: bool) -> Result<(), EndpointError> {
        let data = data.to_vec();
        self.0.borrow_mut().calls.push(Call::In { data, last });
        Ok(())
    }

    async fn accept(&mut self) {
        self.0.borrow_mut().calls.push(Call::Accept);
    }

    async fn reject(&mut self) {
        self.0.borrow_mut().calls.push(Call::Reject);
    }

    async fn accept_set_address(&mut self, address: u8) {
        self.0.borrow_mut().calls.push(Call::Address(address));
    }
}

impl Endpoint for FakeEndpoint {
    fn info(&self) -> &EndpointInfo {
        &self.1
    }

    async fn wait_enabled(&mut self) {}
}

impl EndpointOut for FakeEndpoint {
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, EndpointError> {
        let packet = next(|| self.0.borrow_mut().packets.pop_front()).await?;
        buf[..packet.len()].copy_from_slice(&packet);
        Ok(packet.len())
    }
}

impl EndpointIn for FakeEndpoint {
    async fn write(&mut self, buf: &[u8]) -> Result<(), EndpointError> {
        next(|| self.0.borrow_mut().takes.pop_front()).await?;
        let call = Call::Packet(buf.to_vec());
        self.0.borrow_mut().calls.push(call);
        Ok(())
    }
}

/// A device on a script that is filled as the test goes on.
struct Rig {
    script: Shared,
    control: Control<'static, Fake>,
    reader: Reader<'static, Fake>,
    writer: Writer<'static, Fake>,
}

impl Rig {
    fn new() -> Self {
        let script = Shared::default();
        let (control, reader, writer) = open(Fake(script.clone()), UID).unwrap();
        Self {
            script,
            control,
            reader,
            writer,
        }
    }

    /// Whether the step ended, and with what.
    fn step(&mut self) -> Option<bool> {
        poll(self.control.step())
    }

    /// What one request does.
    fn ask(&mut self, setup: [u8; 8]) -> Vec<Call> {
        self.script.borrow_mut().setups.push_back(setup);
        assert!(self.step().is_some(), "{setup:02x?}");
        core::mem::take(&mut self.script.borrow_mut().calls)
    }
}

fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn sent(data: &[u8]) -> Vec<Call> {
    vec![Call::In {
        data: data.to_vec(),
        last: true,
    }]
}

fn text(string: &str) -> Vec<u8> {
    let units: Vec<u8> = string.encode_utf16().flat_map(u16::to_le_bytes).collect();
    [vec![units.len() as u8 + 2, 3], units].concat()
}

#[test]
fn a_host_that_enumerates_as_linux_does_gets_a_port() {
    let mut rig = Rig::new();
    rig.script
        .borrow_mut()
        .events
        .extend([Event::PowerDetected, Event::Reset]);
    assert_eq!((rig.step(), rig.step()), (Some(false), Some(false)));
    assert_eq!(
        rig.script.borrow_mut().calls.split_off(0),
        [Call::Power(true)]
    );

    let first_packet = rig.ask([0x80, 6, 0, 1, 0, 0, 64, 0]);
    assert_eq!(first_packet, sent(&DEVICE));
    assert_eq!(rig.ask([0x00, 5, 42, 0, 0, 0, 0, 0]), [Call::Address(42)]);
    assert_eq!(rig.ask([0x80, 6, 0, 1, 0, 0, 18, 0]), sent(&DEVICE));
    // No qualifier: it has no other speed.
    assert_eq!(rig.ask([0x80, 6, 0, 6, 0, 0, 10, 0]), [Call::Reject]);
    assert_eq!(
        rig.ask([0x80, 6, 0, 2, 0, 0, 9, 0]),
        sent(&CONFIGURATION[..9])
    );
    let whole = rig.ask([0x80, 6, 0, 2, 0, 0, 67, 0]);
    let parts: Vec<_> = CONFIGURATION.chunks(PACKET).map(<[u8]>::to_vec).collect();
    let want = [
        Call::In {
            data: parts[0].clone(),
            last: false,
        },
        Call::In {
            data: parts[1].clone(),
            last: true,
        },
    ];
    assert_eq!(whole, want);
    assert_eq!(
        rig.ask([0x80, 6, 0, 3, 0, 0, 255, 0]),
        sent(&[4, 3, 0x09, 0x04])
    );
    for (index, string) in [
        (1, "Forebay"),
        (2, "Forebay device"),
        (3, "0123456789abcdef"),
    ] {
        let answer = rig.ask([0x80, 6, index, 3, 0x09, 0x04, 255, 0]);
        assert_eq!(answer, sent(&text(string)), "{string}");
    }
    assert_eq!(rig.ask([0x80, 8, 0, 0, 0, 0, 1, 0]), sent(&[0]));
    let on = [CONTROL_IN, DATA_OUT, DATA_IN].map(|address| Call::Enabled(address, true));
    let configured = rig.ask([0x00, 9, 1, 0, 0, 0, 0, 0]);
    assert_eq!(configured, [on.as_slice(), &[Call::Accept]].concat());
    assert_eq!(rig.ask([0x80, 8, 0, 0, 0, 0, 1, 0]), sent(&[1]));

    let coding = vec![0x00, 0x10, 0x0e, 0x00, 0, 0, 8];
    rig.script.borrow_mut().data_out.push_back(coding.clone());
    assert_eq!(rig.ask([0x21, 0x20, 0, 0, 0, 0, 7, 0]), [Call::Accept]);
    assert_eq!(rig.ask([0xa1, 0x21, 0, 0, 0, 0, 7, 0]), sent(&coding));
}

#[test]
fn opening_the_port_is_told_once() {
    let mut rig = Rig::new();
    for (name, state, opened) in [
        ("ready", 1, true),
        ("still ready", 3, false),
        ("closed", 0, false),
        ("ready again", 1, true),
    ] {
        let setup = [0x21, 0x22, state, 0, 0, 0, 0, 0];
        rig.script.borrow_mut().setups.push_back(setup);
        assert_eq!(rig.step(), Some(opened), "{name}");
    }
}

#[test]
fn what_is_not_known_is_stalled() {
    let mut rig = Rig::new();
    for (name, setup) in [
        ("address above 127", [0x00, 5, 128, 0, 0, 0, 0, 0]),
        ("second configuration", [0x00, 9, 2, 0, 0, 0, 0, 0]),
        ("other string", [0x80, 6, 4, 3, 9, 4, 255, 0]),
        ("other descriptor", [0x80, 6, 0, 15, 0, 0, 5, 0]),
        ("second device descriptor", [0x80, 6, 1, 1, 0, 0, 18, 0]),
        ("third interface", [0x81, 10, 0, 0, 2, 0, 1, 0]),
        ("alternate setting", [0x01, 11, 1, 0, 1, 0, 0, 0]),
        ("long line coding", [0x21, 0x20, 0, 0, 0, 0, 8, 0]),
        ("break", [0x21, 0x23, 0, 0, 0, 0, 0, 0]),
        ("vendor request", [0xc0, 1, 0, 0, 7, 0, 64, 0]),
        ("remote wake-up", [0x00, 3, 1, 0, 0, 0, 0, 0]),
    ] {
        assert_eq!(rig.ask(setup), [Call::Reject], "{name}");
    }
    assert_eq!(rig.ask([0x00, 5, 127, 0, 0, 0, 0, 0]), [Call::Address(127)]);
}

#[test]
fn no_setup_packet_makes_it_panic() {
    let mut seed = 1_u32;
    let mut rig = Rig::new();
    for _ in 0..50_000 {
        let setup = core::array::from_fn(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Mostly small numbers, where the requests are.
            (seed >> 24) as u8 & if seed & 0x800 == 0 { 0x0f } else { 0xff }
        });
        rig.ask(setup);
    }
}

#[test]
fn endpoints_are_halted_and_let_go() {
    let mut rig = Rig::new();
    let halt = rig.ask([0x02, 3, 0, 0, DATA_IN, 0, 0, 0]);
    assert_eq!(halt, [Call::Stalled(DATA_IN, true), Call::Accept]);
    let free = rig.ask([0x02, 1, 0, 0, DATA_OUT, 0, 0, 0]);
    assert_eq!(free, [Call::Stalled(DATA_OUT, false), Call::Accept]);
    assert_eq!(rig.ask([0x82, 0, 0, 0, DATA_IN, 0, 2, 0]), sent(&[1, 0]));
    assert_eq!(rig.ask([0x82, 0, 0, 0, DATA_OUT, 0, 2, 0]), sent(&[0, 0]));
}

#[test]
fn an_answer_of_whole_packets_ends_with_an_empty_one_when_more_was_asked_for() {
    for (name, bytes, asked, packets) in [
        ("short", 10, 255, vec![10]),
        ("all that was asked for", 64, 64, vec![64]),
        ("one packet", 64, 65, vec![64, 0]),
        ("two packets", 128, 255, vec![64, 64, 0]),
        ("cut", 100, 70, vec![64, 6]),
        ("nothing asked for", 10, 0, vec![0]),
    ] {
        let script = Shared::default();
        let mut pipe = FakePipe(script.clone());
        assert!(poll(send(&mut pipe, &vec![7; bytes], asked)).is_some());
        let calls = script.borrow_mut().calls.split_off(0);
        let length = |call: &Call| match call {
            Call::In { data, .. } => Some(data.len()),
            Call::Accept
            | Call::Reject
            | Call::Address(_)
            | Call::Enabled(..)
            | Call::Stalled(..)
            | Call::Power(_)
            | Call::Packet(_) => None,
        };
        let lengths: Vec<usize> = calls.iter().filter_map(length).collect();
        assert_eq!(lengths, packets, "{name}");
        assert!(
            matches!(calls.last(), Some(Call::In { last: true, .. })),
            "{name}"
        );
    }
}

#[test]
fn a_suspended_bus_hears_only_events() {
    let mut rig = Rig::new();
    rig.script.borrow_mut().events.push_back(Event::Suspend);
    rig.step();
    rig.script
        .borrow_mut()
        .setups
        .push_back([0x80, 6, 0, 1, 0, 0, 18, 0]);
    assert_eq!(rig.step(), None);
    rig.script.borrow_mut().events.push_back(Event::Resume);
    assert_eq!((rig.step(), rig.step()), (Some(false), Some(false)));
    assert_eq!(rig.script.borrow().calls, sent(&DEVICE));
}

#[test]
fn packets_become_received_bytes_with_their_stamp() {
    let mut rig = Rig::new();
    let port = Port::new();
    let packets = [Ok(vec![1, 0]), Err(EndpointError::Disabled), Ok(vec![2])];
    rig.script.borrow_mut().packets.extend(packets);
    for stamp in [5, 6, 7] {
        assert!(poll(rig.reader.step(&port, || stamp)).is_some());
    }
    let first = port.receive().unwrap();
    assert_eq!((first.bytes(), first.stamp), (&[1, 0][..], Some(5)));
    assert_eq!(port.receive().unwrap().bytes(), [2]);
}

#[test]
fn a_host_that_does_not_read_holds_up_only_its_line_and_gets_fresh_ones_later() {
    let mut rig = Rig::new();
    let port = Port::new();
    port.send(&[9; 100]);
    rig.script.borrow_mut().takes.push_back(Ok(()));
    assert_eq!(
        poll(rig.writer.drain(&port)),
        None,
        "the second packet waits"
    );
    assert!(!port.is_idle());
    // Gone: the rest is dropped, and the next line is whole.
    rig.script
        .borrow_mut()
        .takes
        .push_back(Err(EndpointError::Disabled));
    assert_eq!(poll(rig.writer.drain(&port)), Some(()));
    assert!(port.is_idle());
    port.send(&[8; 3]);
    rig.script.borrow_mut().takes.push_back(Ok(()));
    assert_eq!(poll(rig.writer.drain(&port)), Some(()));
    let calls = rig.script.borrow_mut().calls.split_off(0);
    assert_eq!(calls, [Call::Packet(vec![9; 64]), Call::Packet(vec![8; 3])]);
}
