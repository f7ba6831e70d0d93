//! The main loop as a future, and the executor that runs it: it sleeps until an
//! interrupt has woken something. Owns the port of the board.

use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::signal::Signal;
use forebay_board_common::port::Port;
use forebay_board_common::station::{Board, Station};
use forebay_firmware::{Device, Sensor};

/// The line to the gateway.
pub static PORT: Port = Port::new();

static WAKE: Signal<CriticalSectionRawMutex, ()> = Signal::new();

/// Has the main loop look at the port; also from interrupts.
pub fn wake() {
    WAKE.signal(());
}

/// Turns for ever, sleeping in between: `alarm` has to call [`wake`] after so many
/// microseconds, and forgets what it was told before.
pub async fn main_loop<const RING: usize, const CHANNELS: usize>(
    device: &mut Device<RING, CHANNELS>,
    station: &mut Station<'_, CHANNELS>,
    sensors: &mut [&mut dyn Sensor],
    board: &mut impl Board,
    alarm: fn(u32),
) {
    loop {
        alarm(station.turn(device, sensors, board));
        WAKE.wait().await;
    }
}

/// Runs two futures that never end beside each other.
pub async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| {
        let ended = a.as_mut().poll(context).is_ready() || b.as_mut().poll(context).is_ready();
        if ended {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Runs `future`, which never ends. Between two looks the core waits for an event: an
/// interrupt is one, and so is a waker that was called since the last look.
pub fn block_on(future: impl Future) -> ! {
    let mut future = pin!(future);
    // SAFETY: the functions of the table take no data, from whatever thread.
    let waker = unsafe { Waker::from_raw(RAW) };
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Pending => cortex_m::asm::wfe(),
            Poll::Ready(_) => panic!("the main loop has ended"),
        }
    }
}

const RAW: RawWaker = RawWaker::new(core::ptr::null(), &TABLE);
static TABLE: RawWakerVTable = RawWakerVTable::new(|_| RAW, |_| set(), |_| set(), |_| {});

fn set() {
    cortex_m::asm::sev();
}
