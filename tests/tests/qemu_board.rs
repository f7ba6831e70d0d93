//! The firmware of the QEMU board on its serial line, with the sensor that QEMU
//! gives it: what a gateway sees of it.

use std::path::Path;

use forebay_tests::qemu::{Options, Qemu};

#[test]
fn a_missing_image_is_reported_in_the_words_of_qemu() {
    let error = Qemu::start(Path::new("/no/such/image"), &Options::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/no/such/image"), "{text}");
}
