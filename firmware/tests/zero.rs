//! An unstarted device is all zero bits: in a `static` it takes no flash. Were one
//! bit set, this program would hold the whole ring, and be larger than it.

// Helpers of a test are tests too.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use forebay_firmware::Device;

const RING: usize = 4_000_000;

// Behind a lock, for what cannot change stands in the image whatever it is.
static DEVICE: Mutex<Device<RING>> = Mutex::new(Device::unstarted());

#[test]
fn an_unstarted_device_takes_no_room_in_the_image() {
    let device = DEVICE.lock().unwrap();
    assert!(!device.is_open());
    assert!(size_of_val(&*device) > 12 * RING);
    let image = std::env::current_exe().and_then(std::fs::metadata).unwrap();
    assert!(image.len() < 12 * RING as u64, "{} bytes", image.len());
}
