//! Opens one port: finds its board, tries its rates in turn, and remembers between the
//! tries what it learned. Says nothing to anybody.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::carry::Rate;
use super::limits::{BAUDS_MAX, CONNECT_TIMEOUT, HOLDER_KNOWN_TRIES, TCP_PEER_TIMEOUT};
use super::rate::RateJudge;
use super::usb::watch::UsbPorts;
use super::{Baud, OpenError, PortId, PortPlace, serial, sys};

const BAUD_DEFAULT: Baud = Baud(115_200);

/// An open port.
pub(super) enum Line {
    Serial(serial::Opened),
    Tcp(TcpStream),
}

pub(super) struct Opener {
    port: PortId,
    place: PortPlace,
    usb: Arc<UsbPorts>,
    baud_at: usize,
    /// Who has the port, and for how many more tries that is believed.
    holder: Option<(String, u32)>,
}

impl Opener {
    pub(super) fn new(port: PortId, place: PortPlace, usb: Arc<UsbPorts>) -> Self {
        Self {
            port,
            place,
            usb,
            baud_at: 0,
            holder: None,
        }
    }

    pub(super) fn place(&self) -> &PortPlace {
        &self.place
    }

    /// The error, when the port's board was looked for and is not there.
    pub(super) async fn absent(&self) -> Option<OpenError> {
        match self.place {
            PortPlace::Usb { .. } => {}
            PortPlace::Serial { .. } | PortPlace::Tcp { .. } => return None,
        }
        let seen = self.usb.seen_without(self.port).await?;
        let place = self.place.to_string();
        Some(OpenError::NoBoard { place, seen })
    }

    /// Waits for the port's board, which may come in years, and opens it.
    pub(super) async fn open(&self) -> Result<Line, OpenError> {
        match &self.place {
            PortPlace::Tcp { address } => connect(address).await.map(Line::Tcp),
            PortPlace::Serial { path, .. } => self.open_serial(path.clone(), None).await,
            PortPlace::Usb { .. } => {
                let tty = self.usb.take(self.port).await.name;
                let path = self.usb.roots.dev.join(&tty);
                match self.open_serial(path, Some(tty)).await {
                    Err(OpenError::Missing { place: node }) => Err(OpenError::NoNode {
                        place: self.place.to_string(),
                        node,
                    }),
                    opened => opened,
                }
            }
        }
    }

    async fn open_serial(&self, path: PathBuf, tty: Option<String>) -> Result<Line, OpenError> {
        let site = serial::Site {
            path,
            tty,
            baud: baud_of(&self.place, self.baud_at).unwrap_or(BAUD_DEFAULT),
            sys: self.usb.roots.sys.clone(),
            holder: self.holder.as_ref().map(|(holder, _)| holder.clone()),
        };
        match tokio::task::spawn_blocking(move || serial::open(&site)).await {
            Ok(opened) => opened.map(Line::Serial),
            Err(error) => Err(OpenError::Io {
                place: self.place.to_string(),
                why: error.to_string(),
            }),
        }
    }

    /// The port is closed, or did not open: its board may have gone.
    pub(super) fn give_back(&self) {
        self.usb.give_back(self.port);
    }

    /// Takes notice of why it did not open.
    pub(super) fn failed(&mut self, error: &OpenError) {
        if let OpenError::Rate { .. } = error {
            self.next_rate();
        }
        let OpenError::Busy {
            holder: Some(holder),
            ..
        } = error
        else {
            self.holder = None;
            return;
        };
        let tries = match &self.holder {
            Some((_, tries)) => tries - 1,
            None => HOLDER_KNOWN_TRIES,
        };
        self.holder = (tries > 0).then(|| (holder.clone(), tries));
    }

    /// The next opening tries the next rate.
    pub(super) fn next_rate(&mut self) {
        self.baud_at = self.baud_at.wrapping_add(1);
    }

    /// The rate that this opening tries; none where there is none. `any`: the line
    /// does not care.
    pub(super) fn rate(&self, any: bool) -> Option<Rate> {
        let several = match &self.place {
            PortPlace::Serial { bauds, .. } | PortPlace::Usb { bauds, .. } => bauds.len() > 1,
            PortPlace::Tcp { .. } => return None,
        };
        Some(Rate {
            baud: baud_of(&self.place, self.baud_at)?,
            any,
            can_change: several,
            judge: RateJudge::new(),
        })
    }
}

fn baud_of(place: &PortPlace, at: usize) -> Option<Baud> {
    match place {
        PortPlace::Serial { bauds, .. } | PortPlace::Usb { bauds, .. } if bauds.is_empty() => {
            Some(BAUD_DEFAULT)
        }
        PortPlace::Serial { bauds, .. } | PortPlace::Usb { bauds, .. } => {
            bauds.get(at % bauds.len().min(BAUDS_MAX)).copied()
        }
        PortPlace::Tcp { .. } => None,
    }
}

async fn connect(address: &str) -> Result<TcpStream, OpenError> {
    let failed = |why: String| OpenError::Connect {
        place: address.to_owned(),
        why,
    };
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .map_err(|_| failed(format!("no answer in {} s", CONNECT_TIMEOUT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;
    // Acks are small and must not wait for more bytes to join them.
    stream
        .set_nodelay(true)
        .map_err(|error| failed(error.to_string()))?;
    sys::set_peer_timeout(&stream, TCP_PEER_TIMEOUT).map_err(|error| failed(error.to_string()))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::usb::watch::Roots;

    fn opener(bauds: Vec<Baud>) -> Opener {
        let path = "/dev/ttyUSB0".into();
        let usb = Arc::new(UsbPorts::new(Roots::default(), []));
        Opener::new(PortId(0), PortPlace::Serial { path, bauds }, usb)
    }

    fn rate(opener: &Opener) -> u32 {
        opener.rate(false).unwrap().baud.0
    }

    fn missing() -> OpenError {
        let place = String::from("/dev/ttyUSB0");
        OpenError::Missing { place }
    }

    #[test]
    fn a_rate_that_the_driver_refuses_is_followed_by_the_next() {
        let mut opener = opener(vec![Baud(921_600), Baud(115_200)]);
        opener.failed(&missing());
        assert_eq!(rate(&opener), 921_600, "another error");
        for want in [115_200, 921_600] {
            opener.failed(&OpenError::Rate {
                place: String::from("/dev/ttyUSB0"),
                baud: Baud(921_600),
                got: None,
            });
            assert_eq!(rate(&opener), want);
        }
    }

    #[test]
    fn a_holder_is_believed_for_some_tries() {
        let busy = OpenError::Busy {
            place: String::from("/dev/ttyUSB0"),
            holder: Some(String::from("process 1 (a)")),
        };
        let mut opener = opener(vec![]);
        opener.failed(&busy);
        for (name, tries, believed) in [
            ("limit-1", HOLDER_KNOWN_TRIES - 1, true),
            ("limit", 1, false),
            ("limit+1: looked for again", 1, true),
        ] {
            for _ in 0..tries {
                opener.failed(&busy);
            }
            assert_eq!(opener.holder.is_some(), believed, "{name}");
        }
        opener.failed(&missing());
        assert!(opener.holder.is_none(), "another error");
    }

    #[test]
    fn rates_are_tried_in_turn_up_to_the_limit() {
        let most = BAUDS_MAX as u32;
        for (name, given, tries, want) in [
            ("none given", 0, 1, 115_200),
            ("one", 1, 5, 0),
            ("first again after the last", 2, 2, 0),
            ("limit-1", most - 1, most - 2, most - 2),
            ("limit", most, most - 1, most - 1),
            ("limit+1 is never tried", most + 1, most, 0),
        ] {
            let bauds = (0..given).map(Baud).collect();
            let place = PortPlace::Serial {
                path: "/dev/ttyUSB0".into(),
                bauds,
            };
            assert_eq!(baud_of(&place, tries as usize), Some(Baud(want)), "{name}");
        }
        let address = String::from("127.0.0.1:1");
        assert_eq!(baud_of(&PortPlace::Tcp { address }, 0), None);
    }
}
