//! The wire out of a simulated device: a pty, a TCP listener that takes one
//! peer at a time, or a socket pair inside this process. Never waits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::ports::pty::Pty;

#[derive(Debug)]
pub(super) enum Line {
    Pty {
        pty: Pty,
        up: bool,
    },
    Tcp {
        listener: TcpListener,
        peer: Option<TcpStream>,
    },
    InProcess(Option<UnixStream>),
}

/// What a line waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum WaitsFor<'line> {
    /// Bytes, or room for bytes.
    Bytes(BorrowedFd<'line>),
    /// A peer that connects.
    Peer(BorrowedFd<'line>),
    /// Nothing that could be waited for; look again with [`Line::look`].
    Look,
}

impl Line {
    /// A pty, and the path that a gateway opens.
    pub(super) fn pty() -> io::Result<(Self, PathBuf)> {
        let pty = Pty::open()
            .map_err(|error| io::Error::new(error.kind(), format!("no pty: {error}")))?;
        let path = pty.slave().to_path_buf();
        Ok((Self::Pty { pty, up: false }, path))
    }

    /// A listener, and the address that it got.
    pub(super) fn tcp(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let listener = TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((
            Self::Tcp {
                listener,
                peer: None,
            },
            address,
        ))
    }

    /// The line and the gateway's end of it.
    pub(super) fn in_process() -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok((Self::InProcess(Some(ours)), theirs))
    }

    pub(super) fn waits_for(&self) -> WaitsFor<'_> {
        match self {
            Self::Pty { pty, up: true } => WaitsFor::Bytes(pty.as_fd()),
            // A pty without a peer is "ready" all the time.
            Self::Pty { up: false, .. } | Self::InProcess(None) => WaitsFor::Look,
            Self::Tcp {
                peer: Some(peer), ..
            } => WaitsFor::Bytes(peer.as_fd()),
            Self::Tcp {
                listener,
                peer: None,
            } => WaitsFor::Peer(listener.as_fd()),
            Self::InProcess(Some(stream)) => WaitsFor::Bytes(stream.as_fd()),
        }
    }

    /// Whether a gateway has the line open, looking anew where it is not.
    pub(super) fn look(&mut self) -> bool {
        match self {
            Self::Pty { pty, up } => {
                *up = *up || pty.peer_open().unwrap_or(false);
                *up
            }
            Self::Tcp { listener, peer } => {
                if peer.is_none() {
                    *peer = accept(listener);
                }
                peer.is_some()
            }
            Self::InProcess(stream) => stream.is_some(),
        }
    }

    /// Bytes that came in; none: nothing now, or nobody there.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Option<usize> {
        let result = match self {
            Self::Pty { pty, up: true } => (&*pty).read(buf),
            Self::Tcp {
                peer: Some(peer), ..
            } => peer.read(buf),
            Self::InProcess(Some(stream)) => stream.read(buf),
            Self::Pty { up: false, .. } | Self::Tcp { peer: None, .. } | Self::InProcess(None) => {
                return None;
            }
        };
        match result {
            Ok(count) if count > 0 => Some(count),
            Err(error) if is_passing(&error) => None,
            Ok(_) | Err(_) => {
                self.hang_up();
                None
            }
        }
    }

    /// How many bytes the line took. Without a peer it takes all of them, as a
    /// wire does that leads nowhere.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let result = match self {
            Self::Pty { pty, up: true } => (&*pty).write(bytes),
            Self::Tcp {
                peer: Some(peer), ..
            } => peer.write(bytes),
            Self::InProcess(Some(stream)) => stream.write(bytes),
            Self::Pty { up: false, .. } | Self::Tcp { peer: None, .. } | Self::InProcess(None) => {
                return bytes.len();
            }
        };
        match result {
            Ok(count) => count,
            Err(error) if is_passing(&error) => 0,
            Err(_) => {
                self.hang_up();
                bytes.len()
            }
        }
    }

    fn hang_up(&mut self) {
        match self {
            Self::Pty { up, .. } => *up = false,
            Self::Tcp { peer, .. } => *peer = None,
            Self::InProcess(stream) => *stream = None,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    // Anything that goes wrong here is the peer's, who tries again.
    let (peer, _) = listener.accept().ok()?;
    peer.set_nonblocking(true).ok()?;
    peer.set_nodelay(true).ok()?;
    Some(peer)
}
