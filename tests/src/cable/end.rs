//! The ends of a cable: where a device is reached, and where a gateway finds it.
//! Never waits. An end that is not there takes what is written and loses it, as a
//! wire does that leads nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use forebay_node::ports::pty::Pty;
use rustix::fs::OFlags;

/// Where a device is reached.
#[derive(Debug, Clone)]
pub enum DeviceEnd {
    Tcp(SocketAddr),
    /// A terminal that is in raw mode already, such as a simulated device's pty.
    Tty(PathBuf),
}

/// Where a gateway finds the device.
#[derive(Debug, Clone)]
pub enum GatewayEnd {
    /// A pty behind this symlink; another one after each replug.
    Pty(PathBuf),
    /// A free port of loopback, for one peer at a time.
    Tcp,
}

trait Stream: Read + Write + AsFd + Send {}
impl<T: Read + Write + AsFd + Send> Stream for T {}

/// The device's end, opened again when it ends.
pub(super) struct Device {
    at: DeviceEnd,
    stream: Option<Box<dyn Stream>>,
}

impl Device {
    pub(super) fn open(at: DeviceEnd) -> io::Result<Self> {
        let stream = Some(connect(&at)?);
        Ok(Self { at, stream })
    }

    pub(super) fn look(&mut self) {
        if self.stream.is_none() {
            // Not there yet: the next look tries again.
            self.stream = connect(&self.at).ok();
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(|stream| stream.as_fd())
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let Some(stream) = &mut self.stream else {
            return 0;
        };
        let done = stream.read(buffer);
        taken(done).unwrap_or_else(|()| {
            self.stream = None;
            0
        })
    }

    /// How many it took; none: nobody is there.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        let done = self.stream.as_mut()?.write(bytes);
        if let Ok(count) = taken(done) {
            return Some(count);
        }
        self.stream = None;
        None
    }
}

fn connect(at: &DeviceEnd) -> io::Result<Box<dyn Stream>> {
    match at {
        DeviceEnd::Tcp(addr) => {
            let stream = TcpStream::connect(addr)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Box::new(stream))
        }
        DeviceEnd::Tty(path) => {
            let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
            let file: File = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags)
                .open(path)?;
            Ok(Box::new(file))
        }
    }
}

/// Bytes moved; `Err`: the other side is gone.
fn taken(done: io::Result<usize>) -> Result<usize, ()> {
    match done {
        Ok(0) => Err(()),
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(0)
        }
        Err(_) => Err(()),
    }
}

/// The gateway's end.
pub(super) enum Gateway {
    Pty {
        link: PathBuf,
        pty: Option<Pty>,
        /// Held before the old one is let go, so that its path differs.
        spare: Option<Pty>,
        up: bool,
    },
    Tcp {
        addr: SocketAddr,
        listener: Option<TcpListener>,
        peer: Option<TcpStream>,
    },
}

impl Gateway {
    pub(super) fn open(at: GatewayEnd) -> io::Result<Self> {
        match at {
            GatewayEnd::Pty(link) => {
                let mut end = Self::Pty {
                    link,
                    pty: None,
                    spare: None,
                    up: false,
                };
                end.plug_in()?;
                Ok(end)
            }
            GatewayEnd::Tcp => {
                let listener = listen((Ipv4Addr::LOCALHOST, 0).into())?;
                Ok(Self::Tcp {
                    addr: listener.local_addr()?,
                    listener: Some(listener),
                    peer: None,
                })
            }
        }
    }

    pub(super) fn addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Pty { .. } => None,
            Self::Tcp { addr, .. } => Some(*addr),
        }
    }

    /// Another pty than before, or the same address.
    pub(super) fn plug_in(&mut self) -> io::Result<()> {
        match self {
            Self::Pty {
                link, pty, spare, ..
            } => {
                let new = match spare.take() {
                    Some(spare) => spare,
                    None => Pty::open()?,
                };
                point(link, new.slave())?;
                *pty = Some(new);
            }
            Self::Tcp { addr, listener, .. } => *listener = Some(listen(*addr)?),
        }
        Ok(())
    }

    pub(super) fn unplug(&mut self) {
        match self {
            Self::Pty {
                link,
                pty,
                spare,
                up,
            } => {
                *spare = Pty::open().ok();
                // It may be gone with the test's folder.
                let _ = std::fs::remove_file(link);
                *pty = None;
                *up = false;
            }
            Self::Tcp { listener, peer, .. } => {
                *listener = None;
                *peer = None;
            }
        }
    }

    pub(super) fn look(&mut self) {
        match self {
            Self::Pty { pty, up, .. } => {
                let there = |pty: &Pty| pty.peer_open().unwrap_or(false);
                *up = *up || pty.as_ref().is_some_and(there);
            }
            Self::Tcp { listener, peer, .. } => {
                let waiting = listener.as_ref().filter(|_| peer.is_none());
                *peer = peer.take().or_else(|| accept(waiting?));
            }
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            // A pty without a peer is "ready" all the time.
            Self::Pty { pty, up, .. } => pty.as_ref().filter(|_| *up).map(AsFd::as_fd),
            Self::Tcp { peer, .. } => peer.as_ref().map(AsFd::as_fd),
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let done = match self {
            Self::Pty { pty, up, .. } => match pty.as_ref().filter(|_| *up) {
                Some(mut pty) => pty.read(buffer),
                None => return 0,
            },
            Self::Tcp { peer, .. } => match peer {
                Some(peer) => peer.read(buffer),
                None => return 0,
            },
        };
        taken(done).unwrap_or_else(|()| {
            self.hang_up();
            0
        })
    }

    /// How many it took; none: nobody is there.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<usize> {
        let done = match self {
            Self::Pty { pty, up, .. } => pty.as_ref().filter(|_| *up)?.write(bytes),
            Self::Tcp { peer, .. } => peer.as_mut()?.write(bytes),
        };
        if let Ok(count) = taken(done) {
            return Some(count);
        }
        self.hang_up();
        None
    }

    fn hang_up(&mut self) {
        match self {
            Self::Pty { up, .. } => *up = false,
            Self::Tcp { peer, .. } => *peer = None,
        }
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let (peer, _) = listener.accept().ok()?;
    peer.set_nonblocking(true).ok()?;
    peer.set_nodelay(true).ok()?;
    Some(peer)
}

fn point(link: &Path, at: &Path) -> io::Result<()> {
    if std::fs::symlink_metadata(link).is_ok() {
        std::fs::remove_file(link)?;
    }
    symlink(at, link)
}
