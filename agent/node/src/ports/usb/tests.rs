//! Boards in a made-up sysfs, and who gets which.

use std::path::Path;

use super::book::Book;
use super::sysfs::{identify, scan};
use super::*;
use crate::ports::PortId;
use crate::ports::limits::{ATTRIBUTE_BYTES_MAX, USB_ALL_PORTS_MAX};
use crate::ports::tests::fake::Fake;

fn id(product: u16, serial: &str) -> UsbId {
    UsbId {
        vendor: 0x2e8a,
        product,
        serial: (!serial.is_empty()).then(|| serial.to_owned()),
        interface: Some(0),
    }
}

fn tty(name: &str, serial: &str) -> UsbTty {
    UsbTty {
        id: id(0xa, serial),
        name: name.to_owned(),
    }
}

fn want(text: &str) -> UsbMatch {
    text.parse().unwrap()
}

fn book(wants: &[&str]) -> Book {
    Book::new((0..).map(PortId).zip(wants.iter().map(|text| want(text))))
}

/// The ttys of the ports, in their order; `-` for none.
fn taken(book: &mut Book, ports: u32) -> String {
    let names = (0..ports).map(|port| {
        let tty = book.take(PortId(port));
        tty.map_or_else(|| String::from("-"), |tty| tty.name)
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn ttys_of_usb_interfaces_are_found_with_who_they_are() {
    let fake = Fake::new();
    fake.other_ttys();
    fake.acm("ttyACM1", "1-2", "2e8a:000a:E66", 0);
    fake.acm("ttyACM0", "1-2", "2e8a:000a:E66", 2);
    fake.uart("ttyUSB0", "1-1.4", "0403:6001", 0);
    let found: Vec<String> = scan(fake.sys(), &[])
        .unwrap()
        .iter()
        .map(|tty| format!("{} {}", tty.name, tty.id))
        .collect();
    let want = [
        "ttyUSB0 0403:6001 interface 0",
        "ttyACM1 2e8a:000a:E66 interface 0",
        "ttyACM0 2e8a:000a:E66 interface 2",
    ];
    assert_eq!(found, want);
}

#[test]
fn what_is_open_is_not_looked_into_again() {
    let fake = Fake::new();
    fake.acm("ttyACM0", "1-2", "2e8a:000a:E66", 0);
    fake.acm("ttyACM1", "1-3", "2e8a:000a:E67", 0);
    let found = scan(fake.sys(), &[]).unwrap();
    fake.say("1-2", "serial", "other");
    fake.say("1-3", "serial", "other");
    let again = scan(fake.sys(), &found[..1]).unwrap();
    assert_eq!(again.len(), 2);
    assert_eq!(again[0], found[0]);
    assert_ne!(again[1], found[1]);
    fake.pull("ttyACM0");
    assert_eq!(
        scan(fake.sys(), &found[..1]).unwrap().len(),
        1,
        "gone is gone"
    );
}

#[test]
fn what_sysfs_says_is_bounded_and_plain() {
    let long = "S".repeat(ATTRIBUTE_BYTES_MAX as usize);
    for (name, file, text, want) in [
        (
            "as it is",
            "serial",
            "E66\n",
            Some("2e8a:000a:E66 interface 0".to_owned()),
        ),
        (
            "no serial number",
            "serial",
            "\n",
            Some("2e8a:000a interface 0".into()),
        ),
        (
            "spaces",
            "serial",
            " E 66 \n",
            Some("2e8a:000a:E 66 interface 0".into()),
        ),
        (
            "escapes",
            "serial",
            "\u{1b}[2JE66",
            Some("2e8a:000a:[2JE66 interface 0".into()),
        ),
        (
            "limit-1",
            "serial",
            &long[1..],
            Some(format!("2e8a:000a:{} interface 0", &long[1..])),
        ),
        (
            "limit",
            "serial",
            &long,
            Some(format!("2e8a:000a:{long} interface 0")),
        ),
        (
            "limit+1",
            "serial",
            &format!("{long}S"),
            Some(format!("2e8a:000a:{long} interface 0")),
        ),
        ("no vendor", "idVendor", "", None),
        ("bad vendor", "idVendor", "xyzw", None),
        ("short product", "idProduct", "a", None),
        (
            "no interface",
            "bInterfaceNumber",
            "",
            Some("2e8a:000a:E66".into()),
        ),
    ] {
        let fake = Fake::new();
        fake.acm("ttyACM0", "1-2", "2e8a:000a:E66", 0);
        fake.say("1-2", file, text);
        let got = identify(fake.sys(), "ttyACM0").map(|id| id.to_string());
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_system_without_ttys_is_an_error_with_the_path() {
    let error = scan(Path::new("/nowhere"), &[]).unwrap_err();
    assert!(error.to_string().contains("/nowhere/class/tty"), "{error}");
    assert!(identify(Path::new("/nowhere"), "ttyACM0").is_none());
}

#[test]
fn a_match_takes_what_it_names() {
    let interface = |n| UsbMatch {
        interface: Some(n),
        ..want("2e8a:000a")
    };
    for (name, want, id, fits) in [
        ("any", want("2e8a:000a"), id(0xa, "E66"), true),
        ("capitals", want("2E8A:000A"), id(0xa, "E66"), true),
        ("other product", want("2e8a:000b"), id(0xa, "E66"), false),
        ("other vendor", want("2e8b:000a"), id(0xa, "E66"), false),
        ("serial number", want("2e8a:000a:E66"), id(0xa, "E66"), true),
        ("begins alike", want("2e8a:000a:E6"), id(0xa, "E66"), false),
        (
            "other serial number",
            want("2e8a:000a:E67"),
            id(0xa, "E66"),
            false,
        ),
        ("has none", want("2e8a:000a:E66"), id(0xa, ""), false),
        ("interface", interface(0), id(0xa, "E66"), true),
        ("other interface", interface(1), id(0xa, "E66"), false),
    ] {
        assert_eq!(want.matches(&id), fits, "{name}");
    }
}

#[test]
fn serial_numbers_around_their_limit() {
    for (name, length, fits) in [
        ("none", 0, false),
        ("limit-1", USB_SERIAL_BYTES_MAX - 1, true),
        ("limit", USB_SERIAL_BYTES_MAX, true),
        ("limit+1", USB_SERIAL_BYTES_MAX + 1, false),
    ] {
        let text = format!("2e8a:000a:{}", "S".repeat(length));
        assert_eq!(text.parse::<UsbMatch>().is_ok(), fits, "{name}");
    }
}

#[test]
fn what_the_status_shows_can_stand_in_the_config() {
    for serial in ["", "E66", "34:85:18:AA", "with space"] {
        let id = id(0xa, serial);
        assert!(want(&id.config_text()).matches(&id), "{serial}");
    }
}

#[test]
fn boards_are_given_out_by_who_they_are_not_by_their_numbers() {
    let mut book = book(&["2e8a:000a:B", "2e8a:000a:A"]);
    book.seen(vec![tty("ttyACM0", "A"), tty("ttyACM1", "B")]);
    assert_eq!(taken(&mut book, 2), "ttyACM1 ttyACM0");
}

#[test]
fn the_port_that_names_a_board_comes_before_one_that_takes_any() {
    let mut book = book(&["2e8a:000a", "2e8a:000a:A"]);
    book.seen(vec![tty("ttyACM0", "A")]);
    assert_eq!(taken(&mut book, 2), "- ttyACM0");
    book.seen(vec![tty("ttyACM0", "A"), tty("ttyACM1", "B")]);
    assert_eq!(taken(&mut book, 2), "ttyACM1 ttyACM0");
}

#[test]
fn a_board_that_comes_back_gets_the_port_that_it_had() {
    let mut book = book(&["2e8a:000a"; 3]);
    book.seen(vec![tty("ttyACM0", "A"), tty("ttyACM1", "B")]);
    assert_eq!(taken(&mut book, 3), "ttyACM0 ttyACM1 -");
    book.give_back(PortId(0));
    book.give_back(PortId(1));
    book.seen(vec![]);
    book.seen(vec![tty("ttyACM5", "B")]);
    assert_eq!(taken(&mut book, 3), "- ttyACM5 -");
    // A new one does not take the place of A, as long as there are others.
    book.seen(vec![tty("ttyACM5", "B"), tty("ttyACM6", "C")]);
    assert_eq!(taken(&mut book, 3), "- ttyACM5 ttyACM6");
    book.seen(vec![
        tty("ttyACM5", "B"),
        tty("ttyACM6", "C"),
        tty("ttyACM7", "D"),
    ]);
    assert_eq!(
        taken(&mut book, 3),
        "ttyACM7 ttyACM5 ttyACM6",
        "places run out"
    );
}

#[test]
fn a_tty_is_given_again_only_when_it_is_seen_again() {
    let mut book = book(&["2e8a:000a"; 2]);
    book.seen(vec![tty("ttyACM0", "A")]);
    assert_eq!(taken(&mut book, 2), "ttyACM0 -");
    book.give_back(PortId(0));
    assert!(book.is_waiting());
    assert_eq!(taken(&mut book, 2), "- -");
    assert!(book.seen(vec![tty("ttyACM0", "A")]));
    assert_eq!(taken(&mut book, 2), "ttyACM0 -");
}

#[test]
fn what_was_given_and_pulled_before_it_was_opened_is_taken_away() {
    let mut book = book(&["2e8a:000a"]);
    assert!(book.seen(vec![tty("ttyACM0", "A")]));
    assert!(!book.is_waiting());
    // Another board under the same number, too.
    assert!(book.seen(vec![tty("ttyACM0", "B")]));
    assert_eq!(book.take(PortId(0)).unwrap().id, id(0xa, "B"));
    // An open port finds out by itself.
    assert!(!book.seen(vec![]));
    assert!(!book.is_waiting());
}

#[test]
fn boards_of_one_entry_around_its_limit() {
    let wants = vec!["2e8a:000a"; USB_ALL_PORTS_MAX];
    for (name, boards, left) in [
        ("limit-1", USB_ALL_PORTS_MAX - 1, 0),
        ("limit", USB_ALL_PORTS_MAX, 0),
        ("limit+1", USB_ALL_PORTS_MAX + 1, 1),
    ] {
        let mut book = book(&wants);
        let ttys = (0..boards).map(|n| tty(&format!("ttyACM{n}"), &format!("S{n:03}")));
        book.seen(ttys.collect());
        assert_eq!(book.left_over().count(), left, "{name}");
        assert_eq!(book.is_waiting(), boards < USB_ALL_PORTS_MAX, "{name}");
    }
}

proptest::proptest! {
    /// Whatever is plugged, pulled, taken and given back: no tty has two ports, each
    /// port has what it asked for, and no board waits while a port for it does.
    #[test]
    fn no_tty_has_two_ports(steps in proptest::collection::vec((0_u8..3, 0_u32..4, 0_u8..16), 1..60)) {
        let wants = ["2e8a:000a:S1", "2e8a:000a", "2e8a:000a", "2e8a:000b"];
        let mut book = book(&wants);
        let mut held: std::collections::BTreeMap<u32, UsbTty> = Default::default();
        for (step, port, there) in steps {
            match step {
                0 => {
                    let ttys = (0..4).filter(|n| there & (1 << n) != 0);
                    book.seen(ttys.map(|n| tty(&format!("ttyACM{n}"), &format!("S{n}"))).collect());
                    let free: Vec<u32> = (0..3).filter(|port| book.take(PortId(*port)).is_none()).collect();
                    for left in book.left_over() {
                        let misses = free.iter().any(|port| want(wants[*port as usize]).matches(&left.id));
                        proptest::prop_assert!(!misses, "{left:?} waits, {free:?} are free");
                    }
                }
                1 => {
                    book.give_back(PortId(port));
                    held.remove(&port);
                }
                _ => {}
            }
            for port in 0..4 {
                if let Some(tty) = book.take(PortId(port)) {
                    proptest::prop_assert!(want(wants[port as usize]).matches(&tty.id));
                    held.insert(port, tty);
                }
            }
            let mut names: Vec<&str> = held.values().map(|tty| tty.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            proptest::prop_assert_eq!(names.len(), held.len());
        }
    }
}
