//! The smallest USB serial port (CDC-ACM, full speed) on any driver of
//! `embassy-usb-driver`: what a host needs to show `/dev/ttyACM0`, and no more.
//!
//! Owns enumeration; bytes go between the two bulk endpoints and a [`Port`]. Always
//! holds: a request that is not known is stalled; a host that does not read holds up
//! only its own line. Bound: one packet each way. Knows no chip. `embassy-usb` does
//! all this and more, in 5 to 6 KiB of flash; this takes about 2.

use embassy_usb_driver::{
    Bus, ControlPipe, Driver, EndpointAddress, EndpointAllocError, EndpointIn, EndpointOut,
    EndpointType, Event,
};

use crate::port::Port;

mod descriptor;
mod request;

use descriptor::{CONTROL_IN, DATA_IN, DATA_OUT, NOTIFY_BYTES, NOTIFY_INTERVAL_MS, PACKET_BYTES};
pub use descriptor::{PRODUCT_ID, VENDOR_ID};
use request::{Answer, Request, State};

/// Number of the endpoint by which bytes come in.
pub const DATA_ENDPOINT: u8 = DATA_OUT;
/// Bytes of a packet of a bulk endpoint.
pub const PACKET: usize = PACKET_BYTES as usize;

/// Answers the host's control requests. To be run for ever beside [`Reader`] and
/// [`Writer`].
pub struct Control<'d, D: Driver<'d>> {
    bus: D::Bus,
    pipe: D::ControlPipe,
    state: State,
    suspended: bool,
    /// Nothing is ever sent by it, but the class asks for it.
    _notify: D::EndpointIn,
}

/// Receives.
pub struct Reader<'d, D: Driver<'d>>(D::EndpointOut);

/// Sends.
pub struct Writer<'d, D: Driver<'d>>(D::EndpointIn);

/// The three parts of a serial port. `uid` becomes its serial number, in hex digits,
/// and so a part of its name below `/dev/serial/by-id`.
///
/// # Errors
/// The driver has no such endpoints left.
#[expect(
    clippy::type_complexity,
    reason = "three parts of one driver, taken apart at once"
)]
pub fn open<'d, D: Driver<'d>>(
    mut driver: D,
    uid: [u8; 8],
) -> Result<(Control<'d, D>, Reader<'d, D>, Writer<'d, D>), EndpointAllocError> {
    let at = |address: u8| Some(EndpointAddress::from(address));
    let notify = driver.alloc_endpoint_in(
        EndpointType::Interrupt,
        at(CONTROL_IN),
        NOTIFY_BYTES.into(),
        NOTIFY_INTERVAL_MS,
    )?;
    let data_out =
        driver.alloc_endpoint_out(EndpointType::Bulk, at(DATA_OUT), PACKET_BYTES.into(), 0)?;
    let data_in =
        driver.alloc_endpoint_in(EndpointType::Bulk, at(DATA_IN), PACKET_BYTES.into(), 0)?;
    let (bus, pipe) = driver.start(PACKET_BYTES.into());
    let control = Control {
        bus,
        pipe,
        state: State::new(uid),
        suspended: false,
        _notify: notify,
    };
    Ok((control, Reader(data_out), Writer(data_in)))
}

impl<'d, D: Driver<'d>> Control<'d, D> {
    /// Answers one event of the bus or one request of the host. True when a program
    /// has opened the port just now.
    pub async fn step(&mut self) -> bool {
        let event = if self.suspended {
            Ok(self.bus.poll().await)
        } else {
            either(self.bus.poll(), self.pipe.setup()).await
        };
        match event {
            Ok(event) => {
                self.on_event(event).await;
                false
            }
            Err(setup) => self.on_setup(Request::parse(setup)).await,
        }
    }

    async fn on_event(&mut self, event: Event) {
        match event {
            Event::Reset => {
                self.state.reset();
                self.suspended = false;
            }
            Event::Resume => self.suspended = false,
            Event::Suspend => self.suspended = true,
            Event::PowerDetected => {
                self.bus.enable().await;
                self.state.reset();
                self.suspended = false;
            }
            Event::PowerRemoved => {
                self.bus.disable().await;
                self.state.reset();
                self.suspended = false;
            }
        }
    }

    async fn on_setup(&mut self, request: Request) -> bool {
        let mut buffer = [0; PACKET];
        let mut opened = false;
        match self.state.answer(&request, &mut buffer) {
            Answer::Send(data) => send(&mut self.pipe, data, request.length).await,
            Answer::Receive => {
                let count = usize::from(request.length).min(PACKET);
                match self.pipe.data_out(&mut buffer[..count], true, true).await {
                    Ok(count) => {
                        self.state.received(&buffer[..count]);
                        self.pipe.accept().await;
                    }
                    // The host has begun something else; it is heard next.
                    Err(_) => return false,
                }
            }
            Answer::Accept => self.pipe.accept().await,
            Answer::Address(address) => self.pipe.accept_set_address(address).await,
            Answer::Configure(on) => {
                for address in [CONTROL_IN, DATA_OUT, DATA_IN] {
                    self.bus.endpoint_set_enabled(address.into(), on);
                }
                self.pipe.accept().await;
            }
            Answer::Halt(address, on) => {
                self.bus.endpoint_set_stalled(address.into(), on);
                self.pipe.accept().await;
            }
            Answer::Halted(address) => {
                let halted = self.bus.endpoint_is_stalled(address.into());
                send(&mut self.pipe, &[halted.into(), 0], request.length).await;
            }
            Answer::Opened => {
                opened = true;
                self.pipe.accept().await;
            }
            Answer::Stall => self.pipe.reject().await,
        }
        opened
    }
}

/// The data stage: packets up to what the host asked for, and an empty one when
/// it could not tell the end otherwise.
async fn send(pipe: &mut impl ControlPipe, data: &[u8], asked: u16) {
    let count = data.len().min(asked.into());
    let empty_last = count < asked.into() && count % PACKET == 0;
    let mut rest = &data[..count];
    let mut first = true;
    loop {
        let (packet, after) = rest.split_at(rest.len().min(PACKET));
        rest = after;
        let last = rest.is_empty() && !(empty_last && packet.len() == PACKET);
        if pipe.data_in(packet, first, last).await.is_err() || last {
            return;
        }
        first = false;
    }
}

impl<'d, D: Driver<'d>> Reader<'d, D> {
    /// Waits for the next packet and gives it to `port`, stamped by `stamp`, which is
    /// asked once it has come.
    pub async fn step(&mut self, port: &Port, stamp: impl FnOnce() -> u32) {
        use embassy_usb_driver::Endpoint;
        let mut packet = [0; PACKET];
        match self.0.read(&mut packet).await {
            Ok(count) => port.on_received(&packet[..count], stamp()),
            // Not configured (any more).
            Err(_) => self.0.wait_enabled().await,
        }
    }
}

impl<'d, D: Driver<'d>> Writer<'d, D> {
    /// Sends what `port` has, packet by packet, until it has nothing.
    pub async fn drain(&mut self, port: &Port) {
        use embassy_usb_driver::Endpoint;
        let mut packet = [0; PACKET];
        loop {
            let count = port.next_packet(&mut packet);
            if count == 0 {
                return;
            }
            match self.0.write(&packet[..count]).await {
                Ok(()) => port.on_packet_sent(count),
                Err(_) => {
                    // Gone: the rest of the line would be noise to the next reader.
                    port.on_reopened();
                    self.0.wait_enabled().await;
                }
            }
        }
    }
}

/// The first of two futures that ends; the other is dropped.
async fn either<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> Result<A, B> {
    use core::task::Poll;
    let (mut a, mut b) = (core::pin::pin!(a), core::pin::pin!(b));
    core::future::poll_fn(|context| {
        if let Poll::Ready(a) = a.as_mut().poll(context) {
            return Poll::Ready(Ok(a));
        }
        b.as_mut().poll(context).map(Err)
    })
    .await
}

#[cfg(test)]
mod tests;
