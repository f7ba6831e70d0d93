//! From the device ports of the config to those that are opened: an entry that takes
//! all boards is as many ports as it may take.

use std::collections::BTreeMap;

use crate::config::DevicePort;
use crate::ports::{PortConfig, PortId, PortPlace};

/// One after the other, in the order of the config.
pub(super) fn port_configs(ports: &[DevicePort]) -> Vec<PortConfig> {
    let places = ports.iter().flat_map(|port| match port {
        DevicePort::Serial { path, bauds } => vec![PortPlace::Serial {
            path: path.clone(),
            bauds: bauds.clone(),
        }],
        DevicePort::Usb { usb, all, bauds } => {
            let place = PortPlace::Usb {
                usb: usb.clone(),
                bauds: bauds.clone(),
                slot: 0,
            };
            if *all {
                place.for_all_boards()
            } else {
                vec![place]
            }
        }
        DevicePort::Tcp { address } => vec![PortPlace::Tcp {
            address: address.clone(),
        }],
    });
    places
        .zip(0..)
        .map(|(place, number)| PortConfig {
            id: PortId(number),
            name: place.to_string(),
            place,
        })
        .collect()
}

/// Ports that are missed when they are gone, with their names: not those that take any
/// board that matches, where boards come and go.
pub(super) fn missed(ports: &[DevicePort]) -> BTreeMap<PortId, String> {
    let any_board = |config: &PortConfig| {
        let PortPlace::Usb { usb, .. } = &config.place else {
            return false;
        };
        let all = ports.iter().filter_map(|port| match port {
            DevicePort::Usb { usb, all, .. } => Some(usb).filter(|_| *all),
            DevicePort::Serial { .. } | DevicePort::Tcp { .. } => None,
        });
        all.into_iter().any(|of_all| of_all == usb)
    };
    let configs = port_configs(ports).into_iter();
    let missed = configs.filter(|config| !any_board(config));
    missed.map(|config| (config.id, config.name)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::ports::limits::USB_ALL_PORTS_MAX;

    fn configs(text: &str) -> Vec<PortConfig> {
        let config = Config::from_text(Path::new("c.toml"), text).unwrap();
        port_configs(&config.device_ports)
    }

    #[test]
    fn only_a_port_of_its_own_is_missed() {
        let config = Config::from_text(
            Path::new("c.toml"),
            "[[device_port]]\nkind = \"serial\"\npath = \"/dev/ttyUSB0\"\n\
             [[device_port]]\nkind = \"serial\"\nusb = \"2e8a:000a\"\nall = true\n\
             [[device_port]]\nkind = \"tcp\"\naddress = \"h:1\"\n",
        );
        let missed = missed(&config.unwrap().device_ports);
        let last = 1 + USB_ALL_PORTS_MAX as u32;
        let want = [
            (PortId(0), String::from("/dev/ttyUSB0")),
            (PortId(last), String::from("h:1")),
        ];
        assert_eq!(missed, BTreeMap::from(want));
    }

    #[test]
    fn rates_and_boards_reach_the_ports() {
        let configs = configs(
            "[[device_port]]\nkind = \"serial\"\npath = \"/dev/ttyUSB0\"\nbaud = [9600, 115200]\n\
             [[device_port]]\nkind = \"serial\"\nusb = \"2e8a:000a\"\nall = true\n\
             [[device_port]]\nkind = \"tcp\"\naddress = \"h:1\"\n",
        );
        assert_eq!(configs.len(), 1 + USB_ALL_PORTS_MAX + 1);
        let PortPlace::Serial { bauds, .. } = &configs[0].place else {
            panic!("{configs:?}")
        };
        assert_eq!(
            bauds.iter().map(|baud| baud.0).collect::<Vec<_>>(),
            [9600, 115_200]
        );
        let last = configs.last().unwrap();
        for (name, config, want) in [
            ("path", &configs[0], "/dev/ttyUSB0"),
            ("first board", &configs[1], "usb 2e8a:000a"),
            ("second board", &configs[2], "usb 2e8a:000a #2"),
            ("address", last, "h:1"),
        ] {
            assert_eq!(config.name, want, "{name}");
        }
        let ids: Vec<u32> = configs.iter().map(|config| config.id.0).collect();
        assert_eq!(ids, (0..configs.len() as u32).collect::<Vec<_>>());
    }
}
