//! The wire out of a simulated device: a pty, a TCP listener that takes one
//! peer at a time, or a socket pair inside this process. Never waits.
//!
//! A line can be unplugged and plugged in again: a pty comes back under another
//! path, as a tty does, and its link follows; a listener under its old address.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::link::{PtyLink, PtySocket};

#[derive(Debug)]
pub(super) enum Line {
    Pty(PtySocket),
    Tcp {
        address: SocketAddr,
        /// None: unplugged.
        listener: Option<TcpListener>,
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
    /// A pty, and the path that a gateway opens; `link` is made a symlink to it.
    pub(super) fn pty(link: Option<PathBuf>) -> io::Result<(Self, PathBuf)> {
        let socket = PtySocket::open(link.map(PtyLink::at))?;
        let path = socket.path()?;
        Ok((Self::Pty(socket), path))
    }

    /// A listener, and the address that it got.
    pub(super) fn tcp(address: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let listener = listen(address)?;
        let address = listener.local_addr()?;
        let line = Self::Tcp {
            address,
            listener: Some(listener),
            peer: None,
        };
        Ok((line, address))
    }

    /// The line and the gateway's end of it.
    pub(super) fn in_process() -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        Ok((Self::InProcess(Some(ours)), theirs))
    }

    /// Gone for its gateway. What is on the wire is lost.
    pub(super) fn unplug(&mut self) {
        match self {
            Self::Pty(socket) => socket.unplug(),
            Self::Tcp { listener, peer, .. } => {
                *listener = None;
                *peer = None;
            }
            Self::InProcess(stream) => *stream = None,
        }
    }

    /// Back again. A socket pair has no way back.
    ///
    /// # Errors
    /// No pty to be had, or its address is taken: to be tried again.
    pub(super) fn plug_in(&mut self) -> io::Result<()> {
        match self {
            Self::Pty(socket) => socket.plug_in(),
            Self::Tcp {
                address, listener, ..
            } => {
                if listener.is_none() {
                    *listener = Some(listen(*address)?);
                }
                Ok(())
            }
            Self::InProcess(_) => Ok(()),
        }
    }

    pub(super) fn waits_for(&self) -> WaitsFor<'_> {
        match self {
            // A pty without a peer is "ready" all the time.
            Self::Pty(socket) => socket
                .open_end()
                .map_or(WaitsFor::Look, |pty| WaitsFor::Bytes(pty.as_fd())),
            Self::Tcp {
                peer: Some(peer), ..
            } => WaitsFor::Bytes(peer.as_fd()),
            Self::Tcp {
                listener: Some(listener),
                ..
            } => WaitsFor::Peer(listener.as_fd()),
            Self::Tcp { listener: None, .. } | Self::InProcess(None) => WaitsFor::Look,
            Self::InProcess(Some(stream)) => WaitsFor::Bytes(stream.as_fd()),
        }
    }

    /// Whether a gateway has the line open, looking anew where it is not.
    pub(super) fn look(&mut self) -> bool {
        match self {
            Self::Pty(socket) => socket.look(),
            Self::Tcp { listener, peer, .. } => {
                if let Some(listener) = listener.as_ref().filter(|_| peer.is_none()) {
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
            Self::Pty(socket) => socket.open_end()?.read(buf),
            Self::Tcp { peer, .. } => peer.as_mut()?.read(buf),
            Self::InProcess(stream) => stream.as_mut()?.read(buf),
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
        let written = match self {
            Self::Pty(socket) => socket.open_end().map(|mut pty| pty.write(bytes)),
            Self::Tcp { peer, .. } => peer.as_mut().map(|peer| peer.write(bytes)),
            Self::InProcess(stream) => stream.as_mut().map(|stream| stream.write(bytes)),
        };
        match written {
            None => bytes.len(),
            Some(Ok(count)) => count,
            Some(Err(error)) if is_passing(&error) => 0,
            Some(Err(_)) => {
                self.hang_up();
                bytes.len()
            }
        }
    }

    fn hang_up(&mut self) {
        match self {
            Self::Pty(socket) => socket.hang_up(),
            Self::Tcp { peer, .. } => *peer = None,
            Self::InProcess(stream) => *stream = None,
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let listener = TcpListener::bind(address).map_err(named)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    // Anything that goes wrong here is the peer's, who tries again.
    let (peer, _) = listener.accept().ok()?;
    peer.set_nonblocking(true).ok()?;
    peer.set_nodelay(true).ok()?;
    Some(peer)
}
