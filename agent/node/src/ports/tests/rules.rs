//! The udev rules beside the configs: read as udev reads them, and asked what they do
//! to the ports of some boards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::ports::{UsbId, UsbMatch};

/// One `KEY op "value"`.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    /// Such as `ENV`.
    key: String,
    /// Such as `ID_SERIAL_SHORT`; empty for keys without.
    name: String,
    op: String,
    value: String,
}

/// The tokens of each rule. Panics where udev would drop the rule with a warning.
fn parse(text: &str) -> Vec<Vec<Token>> {
    let lines = text.lines().map(str::trim);
    let rules = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rules.map(tokens).collect()
}

fn tokens(rule: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = rule;
    loop {
        let (head, after) = rest.split_once('"').expect(rule);
        let (value, after) = after.split_once('"').expect(rule);
        let name = head.trim_end_matches(['=', '!', '+', ':', '-']);
        let op = &head[name.len()..];
        assert!(["==", "!=", "=", "+="].contains(&op), "{op} in {rule}");
        let (key, name) = match name.split_once('{') {
            Some((key, name)) => (key, name.strip_suffix('}').expect(rule)),
            None => (name, ""),
        };
        tokens.push(Token {
            key: key.to_owned(),
            name: name.to_owned(),
            op: op.to_owned(),
            value: value.to_owned(),
        });
        match after.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => {
                assert_eq!(after, "", "{rule}");
                return tokens;
            }
        }
    }
}

/// An event of udev: what is matched, by `KEY` or `KEY{name}`.
type Event = BTreeMap<&'static str, &'static str>;

/// `a|b*`, with `?`, `*` and `[0-9]`.
fn matches(pattern: &str, text: &str) -> bool {
    pattern
        .split('|')
        .any(|one| glob(one.as_bytes(), text.as_bytes()))
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', more @ ..] => (0..=text.len()).any(|at| glob(more, &text[at..])),
        [b'?', more @ ..] => !text.is_empty() && glob(more, &text[1..]),
        [b'[', b'0', b'-', b'9', b']', more @ ..] => {
            text.first().is_some_and(u8::is_ascii_digit) && glob(more, &text[1..])
        }
        [byte, more @ ..] => text.first() == Some(byte) && glob(more, &text[1..]),
    }
}

/// What the rules set for an event, as `KEY{name}=value`.
fn applied(rules: &[Vec<Token>], event: &Event) -> BTreeSet<String> {
    let mut set = BTreeSet::new();
    let mut until: Option<&str> = None;
    for rule in rules {
        let label = rule.iter().find(|token| token.key == "LABEL");
        if label.is_some_and(|label| until == Some(&label.value)) {
            until = None;
        }
        let full = |token: &Token| match token.name.as_str() {
            "" => token.key.clone(),
            name => format!("{}{{{name}}}", token.key),
        };
        let holds = rule.iter().all(|token| {
            let found = matches(
                &token.value,
                event.get(full(token).as_str()).copied().unwrap_or(""),
            );
            match token.op.as_str() {
                "==" => found,
                "!=" => !found,
                _ => true,
            }
        });
        if until.is_some() || !holds {
            continue;
        }
        for token in rule
            .iter()
            .filter(|token| ["=", "+="].contains(&token.op.as_str()))
        {
            match token.key.as_str() {
                "GOTO" => until = Some(&token.value),
                "LABEL" | "IMPORT" => {}
                _ => {
                    let mut value = token.value.clone();
                    for (key, text) in event {
                        let name = key
                            .strip_prefix("ENV{")
                            .and_then(|name| name.strip_suffix('}'));
                        value = value.replace(&format!("$env{{{}}}", name.unwrap_or(key)), text);
                    }
                    set.insert(format!("{}={value}", full(token)));
                }
            }
        }
    }
    assert_eq!(until, None, "a GOTO without its LABEL");
    set
}

fn rules() -> Vec<Vec<Token>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/60-forebay.rules");
    parse(&std::fs::read_to_string(path).unwrap())
}

fn tty(kernel: &'static str, vendor: &'static str) -> Event {
    BTreeMap::from([
        ("ACTION", "add"),
        ("SUBSYSTEM", "tty"),
        ("KERNEL", kernel),
        ("ATTRS{idVendor}", vendor),
        ("ENV{ID_SERIAL_SHORT}", "E66"),
        ("ENV{ID_USB_INTERFACE_NUM}", "00"),
    ])
}

fn has(set: &BTreeSet<String>, what: &[&str]) -> bool {
    what.iter().all(|one| set.contains(*one))
}

#[test]
fn the_rules_use_only_keys_that_udev_has() {
    let matched = [
        "ACTION",
        "SUBSYSTEM",
        "KERNEL",
        "DRIVER",
        "ATTR",
        "ATTRS",
        "ENV",
    ];
    let assigned = [
        "GROUP", "MODE", "SYMLINK", "ENV", "ATTR", "GOTO", "LABEL", "IMPORT",
    ];
    let rules = rules();
    assert!(rules.len() >= 8, "{}", rules.len());
    for token in rules.iter().flatten() {
        let known: &[&str] = match token.op.as_str() {
            "==" | "!=" => &matched,
            _ => &assigned,
        };
        assert!(known.contains(&token.key.as_str()), "{token:?}");
        let named = ["ATTR", "ATTRS", "ENV", "IMPORT"].contains(&token.key.as_str());
        assert_eq!(named, !token.name.is_empty(), "{token:?}");
    }
}

#[test]
fn c14_modem_manager_keeps_away_from_every_board() {
    let rules = rules();
    // Those that the boards of this project have, and common adapters.
    for vendor in [
        "1209", "2e8a", "1915", "0483", "1366", "303a", "0403", "10c4", "1a86",
    ] {
        let port = applied(&rules, &tty("ttyACM0", vendor));
        let ignored = ["ENV{ID_MM_DEVICE_IGNORE}=1", "ENV{ID_MM_PORT_IGNORE}=1"];
        assert!(has(&port, &ignored), "{vendor}: {port:?}");
        let device = BTreeMap::from([
            ("ACTION", "add"),
            ("SUBSYSTEM", "usb"),
            ("ENV{DEVTYPE}", "usb_device"),
            ("ATTR{idVendor}", vendor),
        ]);
        let device = applied(&rules, &device);
        assert!(has(&device, &ignored[..1]), "{vendor}: {device:?}");
    }
    // A real modem on the same gateway goes on working.
    let modem = applied(&rules, &tty("ttyUSB2", "2c7c"));
    assert!(!modem.iter().any(|set| set.contains("ID_MM")), "{modem:?}");
}

#[test]
fn ports_belong_to_dialout_and_have_a_name_by_their_board() {
    let rules = rules();
    let second = {
        let mut event = tty("ttyACM1", "2e8a");
        event.insert("ENV{ID_USB_INTERFACE_NUM}", "02");
        event
    };
    let nameless = {
        let mut event = tty("ttyUSB0", "1a86");
        event.remove("ENV{ID_SERIAL_SHORT}");
        event
    };
    for (name, event, link) in [
        (
            "usb cdc",
            tty("ttyACM0", "2e8a"),
            Some("SYMLINK=forebay/E66"),
        ),
        (
            "two digits",
            tty("ttyUSB12", "0403"),
            Some("SYMLINK=forebay/E66"),
        ),
        ("second interface", second, Some("SYMLINK=forebay/E66-if02")),
        ("no serial number", nameless, None),
    ] {
        let set = applied(&rules, &event);
        assert!(
            has(&set, &["GROUP=dialout", "MODE=0660"]),
            "{name}: {set:?}"
        );
        let links: Vec<&str> = set
            .iter()
            .map(String::as_str)
            .filter(|set| set.starts_with("SYMLINK"))
            .collect();
        assert_eq!(links, link.into_iter().collect::<Vec<_>>(), "{name}");
    }
    for (name, event) in [
        ("console", tty("tty1", "2e8a")),
        ("builtin uart", tty("ttyS0", "")),
        ("removal", {
            let mut event = tty("ttyACM0", "2e8a");
            event.insert("ACTION", "remove");
            event
        }),
    ] {
        assert_eq!(applied(&rules, &event), BTreeSet::new(), "{name}");
    }
}

#[test]
fn an_ftdi_chip_hands_bytes_on_at_once() {
    let port = |driver| {
        BTreeMap::from([
            ("ACTION", "add"),
            ("SUBSYSTEM", "usb-serial"),
            ("DRIVER", driver),
        ])
    };
    let set = applied(&rules(), &port("ftdi_sio"));
    assert!(has(&set, &["ATTR{latency_timer}=1"]), "{set:?}");
    assert_eq!(applied(&rules(), &port("cp210x")), BTreeSet::new());
}

/// The boards of this project say these numbers, and the example config asks for them.
#[test]
fn the_example_config_takes_the_boards_of_this_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = root.join("firmware/boards/common/src/cdc/descriptor.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let number = |name: &str| {
        let line = source.lines().find(|line| line.contains(name)).expect(name);
        let hex = line.split_once("0x").expect(line).1.trim_end_matches(';');
        u16::from_str_radix(hex, 16).expect(line)
    };
    let board = UsbId {
        vendor: number("const VENDOR_ID"),
        product: number("const PRODUCT_ID"),
        serial: Some(String::from("0123456789abcdef")),
        interface: Some(0),
    };
    let config = std::fs::read_to_string(root.join("config/gateway.toml")).unwrap();
    let usb = config.lines().find_map(|line| line.strip_prefix("usb = "));
    let usb: UsbMatch = usb.unwrap().trim_matches('"').parse().unwrap();
    assert!(usb.matches(&board), "{usb} is not {board}");
}
