//! `[[device_port]]`: where devices are connected. Shape and types of the section.

use std::path::PathBuf;

use super::error::ConfigError;
use super::reader::{Field, Source, Table};
use super::schema::{Default, Key, Section};
use crate::ports::limits::{BAUDS_MAX, PORTS_MAX, USB_ALL_PORTS_MAX};
use crate::ports::{Baud, UsbMatch};

const BAUD_MIN: i64 = 1200;
const BAUD_MAX: i64 = 12_000_000;

/// One port, or with `all` several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DevicePort {
    Serial {
        path: PathBuf,
        bauds: Vec<Baud>,
    },
    Usb {
        usb: UsbMatch,
        /// Every board that matches, up to [`USB_ALL_PORTS_MAX`].
        all: bool,
        bauds: Vec<Baud>,
    },
    Tcp {
        address: String,
    },
}

pub const DEVICE_PORT: Section = Section {
    name: "device_port",
    many: true,
    doc: "Where devices are connected.",
    keys: &[
        Key {
            name: "kind",
            default: Default::Required("\"serial\""),
            doc: "serial (with path or usb) or tcp (with address).",
        },
        Key {
            name: "path",
            default: Default::None(
                "\"/dev/serial/by-id/usb-Raspberry_Pi_Pico_E6614C311B7E9B35-if00\"",
            ),
            doc: "The serial device; names below /dev/serial/by-id stay the same.",
        },
        Key {
            name: "usb",
            default: Default::None("\"2e8a:000a:E6614C311B7E9B35\""),
            doc: "Instead of path: vendor:product, or vendor:product:serial, of the board on USB, as `lsusb` and\n\
                  `forebay status` show them. Found under any tty number, also without /dev/serial/by-id.",
        },
        Key {
            name: "interface",
            default: Default::None("0"),
            doc: "With usb: the interface of a board that has several serial ports, 0 to 255. Without it any.",
        },
        Key {
            name: "all",
            default: Default::Is("false"),
            doc: "With usb and no serial number: true opens every board that matches, at most 64, also those that\n\
                  are plugged in later. false: one.",
        },
        Key {
            name: "baud",
            default: Default::Is("115200"),
            doc: "Bits per second of a serial port; or a list such as [115200, 921600], at most 8: where bytes\n\
                  come in and no frame for 2 s, the next is tried. A board that is on USB itself takes any.",
        },
        Key {
            name: "address",
            default: Default::None("\"127.0.0.1:5000\""),
            doc: "host:port of a device that is reached over TCP.",
        },
    ],
};

/// What a port is found by: no two may have the same.
fn place(port: &DevicePort) -> String {
    match port {
        DevicePort::Serial { path, .. } => path.display().to_string(),
        DevicePort::Usb { usb, .. } => format!("usb {usb}"),
        DevicePort::Tcp { address } => address.clone(),
    }
}

/// How many ports it becomes.
fn count(port: &DevicePort) -> usize {
    match port {
        DevicePort::Usb { all: true, .. } => USB_ALL_PORTS_MAX,
        DevicePort::Usb { all: false, .. } | DevicePort::Serial { .. } | DevicePort::Tcp { .. } => {
            1
        }
    }
}

pub fn device_ports(source: &Source<'_>) -> Result<Vec<DevicePort>, ConfigError> {
    let mut ports: Vec<DevicePort> = Vec::new();
    for table in source.many(&DEVICE_PORT)? {
        let port = device_port(&table)?;
        if ports.iter().any(|other| place(other) == place(&port)) {
            let what = format!("{} is the place of two device ports", place(&port));
            return Err(table.error("kind", what));
        }
        ports.push(port);
        if ports.iter().map(count).sum::<usize>() > PORTS_MAX {
            let what = format!(
                "makes more than {PORTS_MAX} ports, the most that a gateway has; one with all = true counts as {USB_ALL_PORTS_MAX}"
            );
            return Err(table.error("kind", what));
        }
    }
    Ok(ports)
}

fn device_port(table: &Table<'_>) -> Result<DevicePort, ConfigError> {
    let serial = table
        .need("kind")?
        .one_of(&[("serial", true), ("tcp", false)])?;
    if serial {
        return serial_port(table);
    }
    let all = takes_all(table)?;
    let others = [
        table.get("path")?,
        table.get("usb")?,
        table.get("interface")?,
        all,
    ];
    if let Some(field) = others.iter().flatten().next() {
        return Err(field.error("is only for kind = \"serial\""));
    }
    match table.get("address")? {
        Some(address) => Ok(DevicePort::Tcp {
            address: address.host_port()?,
        }),
        None => Err(table.error("address", "is missing; a tcp port needs it")),
    }
}

/// The key `all`, when it says true.
fn takes_all<'a>(table: &Table<'a>) -> Result<Option<Field<'a>>, ConfigError> {
    let all = table.need("all")?;
    Ok(all.bool()?.then_some(all))
}

fn serial_port(table: &Table<'_>) -> Result<DevicePort, ConfigError> {
    if let Some(address) = table.get("address")? {
        return Err(address.error("is only for kind = \"tcp\""));
    }
    match (table.get("path")?, table.get("usb")?) {
        (Some(_), Some(usb)) => Err(usb.error("is instead of path: give one of the two")),
        (None, None) => Err(table.error("path", "is missing; a serial port needs it, or usb")),
        (None, Some(usb)) => usb_port(table, &usb),
        (Some(path), None) => {
            if let Some(field) = table.get("interface")?.or(takes_all(table)?) {
                return Err(field.error("is only for a port that is found by usb"));
            }
            Ok(DevicePort::Serial {
                path: path.text()?.into(),
                bauds: bauds(table)?,
            })
        }
    }
}

fn usb_port(table: &Table<'_>, field: &Field<'_>) -> Result<DevicePort, ConfigError> {
    let parsed = field.text()?.parse();
    let mut usb: UsbMatch = parsed.map_err(|what: String| field.bad(what))?;
    if let Some(interface) = table.get("interface")? {
        usb.interface = u8::try_from(interface.int(0, 255)?).ok();
    }
    let all = takes_all(table)?;
    if let (Some(all), Some(_)) = (&all, &usb.serial) {
        return Err(all.error("is only for usb without a serial number, which one board has"));
    }
    Ok(DevicePort::Usb {
        usb,
        all: all.is_some(),
        bauds: bauds(table)?,
    })
}

fn bauds(table: &Table<'_>) -> Result<Vec<Baud>, ConfigError> {
    let bauds = table.need("baud")?.ints(BAUD_MIN, BAUD_MAX, BAUDS_MAX)?;
    let bauds = bauds
        .into_iter()
        .filter_map(|baud| u32::try_from(baud).ok());
    Ok(bauds.map(Baud).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn load(text: &str) -> Result<Vec<DevicePort>, ConfigError> {
        Config::from_text(Path::new("/etc/forebay/c.toml"), text).map(|config| config.device_ports)
    }

    fn serial(keys: &str) -> String {
        format!("[[device_port]]\nkind = \"serial\"\n{keys}\n")
    }

    fn bauds_of(port: &DevicePort) -> Vec<u32> {
        match port {
            DevicePort::Serial { bauds, .. } | DevicePort::Usb { bauds, .. } => {
                bauds.iter().map(|baud| baud.0).collect()
            }
            DevicePort::Tcp { .. } => Vec::new(),
        }
    }

    #[test]
    fn a67_serial_input_is_three_lines_of_config() {
        let text = serial("usb = \"2e8a:000a\"");
        assert_eq!(text.lines().count(), 3);
        let ports = load(&text).unwrap();
        let DevicePort::Usb { usb, all, bauds } = &ports[0] else {
            panic!("{ports:?}")
        };
        assert_eq!((usb.to_string().as_str(), *all), ("2e8a:000a", false));
        assert_eq!(*bauds, [Baud(115_200)]);
    }

    #[test]
    fn what_a_board_is_found_by() {
        for (name, keys, want) in [
            ("any", "usb = \"2E8A:000a\"", "2e8a:000a"),
            ("one", "usb = \"2e8a:000a:E66\"", "2e8a:000a:E66"),
            (
                "a serial number with colons",
                "usb = \"303a:1001:34:85:18:AA:BB:CC\"",
                "303a:1001:34:85:18:AA:BB:CC",
            ),
            (
                "an interface",
                "usb = \"1366:0105\"\ninterface = 2",
                "1366:0105 interface 2",
            ),
            ("all", "usb = \"2e8a:000a\"\nall = true", "2e8a:000a"),
        ] {
            let ports = load(&serial(keys)).unwrap();
            let DevicePort::Usb { usb, all, .. } = &ports[0] else {
                panic!("{name}: {ports:?}")
            };
            assert_eq!(usb.to_string(), want, "{name}");
            assert_eq!(*all, name == "all", "{name}");
        }
    }

    #[test]
    fn one_rate_or_a_list() {
        let most = (1..=BAUDS_MAX).map(|n| (n * 1200).to_string());
        let most = most.collect::<Vec<_>>().join(", ");
        for (name, baud, want) in [
            ("one", "baud = 9600".to_owned(), Ok(vec![9600])),
            ("list of one", "baud = [9600]".into(), Ok(vec![9600])),
            (
                "in their order",
                "baud = [115200, 921600, 9600]".into(),
                Ok(vec![115_200, 921_600, 9600]),
            ),
            (
                "limit",
                format!("baud = [{most}]"),
                Ok((1..=BAUDS_MAX as u32).map(|n| n * 1200).collect()),
            ),
            (
                "limit+1",
                format!("baud = [{most}, 5000]"),
                Err("has 9 entries, at most 8"),
            ),
            ("none", "baud = []".into(), Err("must not be an empty list")),
            ("twice", "baud = [9600, 9600]".into(), Err("has 9600 twice")),
            (
                "too low",
                "baud = [1199]".into(),
                Err("whole numbers from 1200 to 12000000"),
            ),
            (
                "a text",
                "baud = \"fast\"".into(),
                Err("must be a whole number"),
            ),
        ] {
            let got = load(&serial(&format!("path = \"/dev/ttyUSB0\"\n{baud}")));
            match (got, want) {
                (Ok(ports), Ok(want)) => assert_eq!(bauds_of(&ports[0]), want, "{name}"),
                (Err(error), Err(want)) => {
                    assert!(error.to_string().contains(want), "{name}: {error}");
                    assert!(error.to_string().contains("baud"), "{name}: {error}");
                }
                (got, _) => panic!("{name}: {got:?}"),
            }
        }
    }

    #[test]
    fn keys_that_do_not_go_together_are_named() {
        let tcp = "[[device_port]]\nkind = \"tcp\"\naddress = \"h:1\"\n";
        for (name, text, want) in [
            (
                "neither",
                serial(""),
                "path: is missing; a serial port needs it, or usb",
            ),
            (
                "both",
                serial("path = \"/dev/x\"\nusb = \"2e8a:000a\""),
                "usb: is instead of path",
            ),
            (
                "interface of a path",
                serial("path = \"/dev/x\"\ninterface = 0"),
                "interface: is only for a port that is found by usb",
            ),
            (
                "all of a path",
                serial("path = \"/dev/x\"\nall = true"),
                "all: is only for a port that is found by usb",
            ),
            (
                "all of one board",
                serial("usb = \"2e8a:000a:E66\"\nall = true"),
                "all: is only for usb without a serial number",
            ),
            (
                "interface 256",
                serial("usb = \"2e8a:000a\"\ninterface = 256"),
                "must be from 0 to 255",
            ),
            ("not hex", serial("usb = \"2e8a:pico\""), "four hex digits"),
            ("too short", serial("usb = \"2e8a:a\""), "four hex digits"),
            ("no serial", serial("usb = \"2e8a:000a:\""), "second colon"),
            (
                "usb of tcp",
                format!("{tcp}usb = \"2e8a:000a\""),
                "usb: is only for kind",
            ),
            (
                "all of tcp",
                format!("{tcp}all = true"),
                "all: is only for kind",
            ),
            (
                "twice",
                format!("{tcp}{tcp}"),
                "h:1 is the place of two device ports",
            ),
            (
                "the same board twice",
                serial("usb = \"2e8a:000a\"") + &serial("usb = \"2E8A:000A\""),
                "usb 2e8a:000a is the place of two device ports",
            ),
        ] {
            let error = load(&text).expect_err(name).to_string();
            assert!(error.contains(want), "{name}: {error}");
        }
    }

    #[test]
    fn ports_of_a_gateway_around_their_limit() {
        let all = |n: usize| -> String {
            (0..n)
                .map(|n| serial(&format!("usb = \"2e8a:{n:04x}\"\nall = true")))
                .collect()
        };
        let most = PORTS_MAX / USB_ALL_PORTS_MAX;
        let one = serial("path = \"/dev/ttyS0\"");
        for (name, text, fits) in [
            ("limit-1", all(most - 1) + &one, true),
            ("limit", all(most), true),
            ("limit+1", all(most) + &one, false),
        ] {
            assert_eq!(load(&text).is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn the_docs_name_the_limits() {
        let doc = |name| DEVICE_PORT.key(name).unwrap().doc;
        assert!(doc("all").contains(&format!("at most {USB_ALL_PORTS_MAX}")));
        assert!(doc("baud").contains(&format!("at most {BAUDS_MAX}")));
    }
}
