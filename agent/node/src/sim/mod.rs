//! Simulated devices: the real firmware library on this computer, each device
//! behind a pty, a TCP listener or a socket pair, with a cable as bad as asked.
//! The first device measures this computer itself.
//!
//! The only module of the agent that uses the firmware. Knows no gateway.
//! Bound: [`limits::DEVICES_MAX`] devices on one thread.

pub mod limits;

mod dice;
mod drift;
mod faults;
mod host;
mod source;
mod spells;
mod synthetic;

mod board;
mod spec;

mod link;

mod line;
mod snapshot;

mod config;

mod device;
mod fleet;

mod report;

mod cli;

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use forebay_firmware::wire::ids::{BootId, DeviceUid};

pub use board::{EarlierBoots, RingSize};
pub use cli::{SimArgs, run};
pub use config::{SamplePeriod, SimConfig, SimLines, UID_BASE_DEFAULT};
pub use drift::ClockPpm;
pub use faults::{ByteFaults, FaultCounts, FaultRates};
pub use snapshot::{SimShows, SimSnapshot};
pub use spec::CableFaults;
pub use spells::Spell;

use device::{Identity, SimDevice};
use fleet::{Fleet, Shared};
use host::HostProbe;
use line::Line;
use source::Source;

/// Where a gateway finds a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimPlace {
    Pty {
        /// Until it is unplugged.
        path: PathBuf,
        /// A symlink to it, if one was asked for.
        link: Option<PathBuf>,
    },
    Tcp(SocketAddr),
    InProcess,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimDeviceInfo {
    pub uid: DeviceUid,
    pub place: SimPlace,
    /// Quantities, by channel number.
    pub channels: Vec<&'static str>,
}

/// Simulated devices at work. Dropping it stops them at once.
#[derive(Debug)]
pub struct SimDevices {
    infos: Vec<SimDeviceInfo>,
    streams: Vec<(DeviceUid, UnixStream)>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    _probe: Option<HostProbe>,
}

impl SimDevices {
    /// Boots all devices.
    ///
    /// # Errors
    /// Something that cannot be simulated, no pty or address to be had, or a path
    /// of the link that is not a symlink.
    pub fn spawn(config: SimConfig) -> io::Result<Self> {
        config
            .check()
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let probe = if config.host_sensors {
            Some(HostProbe::start()?)
        } else {
            None
        };
        let boot = match config.boot {
            Some(boot) => boot,
            None => BootId(getrandom::u32().map_err(io::Error::other)?),
        };
        let mut devices = Vec::new();
        let mut handle = Self {
            infos: Vec::new(),
            streams: Vec::new(),
            shared: Arc::new(Shared::new(&[])),
            thread: None,
            _probe: probe,
        };
        for number in 0..config.devices {
            let uid = config.uid(number);
            let sources = handle.sources(&config, number);
            let line = handle.add_line(&config, number, &sources)?;
            let identity = Identity {
                uid,
                boot,
                ring: config.ring,
                faults: config.faults,
                clock: config.clock,
                resets: config.resets,
                seed: dice::hash(config.seed, !u64::from(number)),
            };
            let channels = sources
                .into_iter()
                .map(|source| (source, config.period.micros()))
                .collect();
            let device = SimDevice::new(identity, channels, line).map_err(io::Error::other)?;
            devices.push(device);
        }
        handle.shared = Arc::new(Shared::new(&devices));
        let fleet = Fleet::new(devices, Arc::clone(&handle.shared), Instant::now());
        handle.thread = Some(
            std::thread::Builder::new()
                .name("sim-devices".into())
                .spawn(|| fleet.run())?,
        );
        Ok(handle)
    }

    fn sources(&self, config: &SimConfig, number: u32) -> Vec<Source> {
        match &self._probe {
            Some(probe) if number == 0 => probe.sources(),
            Some(_) | None => synthetic::sources(dice::hash(config.seed, u64::from(number))),
        }
    }

    fn add_line(
        &mut self,
        config: &SimConfig,
        number: u32,
        sources: &[Source],
    ) -> io::Result<Line> {
        let uid = config.uid(number);
        let (line, place) = match &config.lines {
            SimLines::Ptys { link } => {
                let link = link.as_ref().map(|link| numbered(link, number));
                let (line, path) = Line::pty(link.clone())?;
                (line, SimPlace::Pty { path, link })
            }
            SimLines::Tcp { listen } => {
                let (line, address) = Line::tcp(nth_address(*listen, number)?)?;
                (line, SimPlace::Tcp(address))
            }
            SimLines::InProcess => {
                let (line, theirs) = Line::in_process()?;
                self.streams.push((uid, theirs));
                (line, SimPlace::InProcess)
            }
        };
        let channels = sources.iter().map(|source| source.info.quantity).collect();
        self.infos.push(SimDeviceInfo {
            uid,
            place,
            channels,
        });
        Ok(line)
    }

    pub fn devices(&self) -> &[SimDeviceInfo] {
        &self.infos
    }

    /// What a gateway opens, by device: the link if there is one, else the pty.
    /// Empty for lines that are no ptys.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.infos
            .iter()
            .filter_map(|info| match &info.place {
                SimPlace::Pty { path, link } => Some(link.as_ref().unwrap_or(path).clone()),
                SimPlace::Tcp(_) | SimPlace::InProcess => None,
            })
            .collect()
    }

    /// The gateway's ends of in-process lines, non-blocking; once.
    pub fn take_streams(&mut self) -> Vec<(DeviceUid, UnixStream)> {
        std::mem::take(&mut self.streams)
    }

    /// One per device, in order.
    pub fn snapshot(&self) -> Vec<SimSnapshot> {
        self.shared.snapshots().clone()
    }

    /// Devices that were told to show where they are, since the last call.
    pub fn take_shows(&self) -> Vec<SimShows> {
        std::mem::take(&mut self.shared.shows())
    }

    /// No new readings; what the devices hold still goes out and is acked.
    /// Takes hold within [`limits::WAIT_MAX`].
    pub fn stop_sampling(&self) {
        self.shared.stop_sampling();
    }

    /// Unplugs all devices and gives their last counters.
    ///
    /// # Errors
    /// The devices' thread had ended before, because waiting for lines failed.
    pub fn stop(mut self) -> io::Result<Vec<SimSnapshot>> {
        self.end()?;
        Ok(self.snapshot())
    }

    fn end(&mut self) -> io::Result<()> {
        self.shared.stop();
        self.thread.take().map_or(Ok(()), |thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the devices' thread panicked")))
        })
    }
}

impl Drop for SimDevices {
    fn drop(&mut self) {
        // An error has no one left to go to; `stop` is for those who want it.
        let _ = self.end();
    }
}

/// `PATH` for the first device, `PATH-2` for the second, ...
fn numbered(link: &std::path::Path, number: u32) -> PathBuf {
    let mut name = link.as_os_str().to_owned();
    if number > 0 {
        name.push(format!("-{}", number + 1));
    }
    PathBuf::from(name)
}

fn nth_address(first: SocketAddr, number: u32) -> io::Result<SocketAddr> {
    if first.port() == 0 {
        return Ok(first);
    }
    let port = u32::from(first.port()) + number;
    let port = u16::try_from(port)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("no port {port}")))?;
    Ok(SocketAddr::new(first.ip(), port))
}

#[cfg(test)]
mod tests;
