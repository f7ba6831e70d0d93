//! Where clients come in: a TCP address and a Unix socket that only its owner opens.
//!
//! Always holds: a connection that is one too many is told so and closed, and costs
//! the others nothing. Bound: `connections` of the config, for both together.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::connection::{Serving, converse};
use super::guard::{Over, Peer};
use super::limits::ACCEPT_PAUSE;
use super::problem::Problem;
use super::rates::Client;

/// What a connection that is one too many reads.
fn full(section: &str) -> Vec<u8> {
    let detail =
        format!("as many clients are connected as connections in {section} lets: close some");
    Problem::busy(detail).closing()
}

/// Takes connections of an address until the task is aborted.
pub(super) async fn tcp(listener: TcpListener, serving: Serving, places: Arc<Semaphore>) {
    let here = listener.local_addr();
    let loopback = here.is_ok_and(|here| here.ip().is_loopback());
    let over = if loopback {
        Over::Loopback
    } else {
        Over::Network
    };
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let client = Client::of(from.ip());
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                // Small answers go at once.
                let _ = stream.set_nodelay(true);
                let serving = serving.clone();
                tokio::spawn(async move {
                    converse(stream, Peer { client, over }, serving).await;
                    drop(place);
                });
            }
            Err(_) => refuse_tcp(&stream, &serving),
        }
    }
}

/// Takes connections of the socket until the task is aborted.
pub(super) async fn unix(listener: UnixListener, serving: Serving, places: Arc<Semaphore>) {
    let serving = Serving {
        tls: None,
        ..serving
    };
    let peer = Peer {
        client: Client::Local,
        over: Over::Socket,
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let serving = serving.clone();
                tokio::spawn(async move {
                    converse(stream, peer, serving).await;
                    drop(place);
                });
            }
            Err(_) => refuse_unix(&stream, &serving),
        }
    }
}

/// Over TLS there is nothing to read yet. What does not go out at once is not said.
fn refuse_tcp(stream: &TcpStream, serving: &Serving) {
    if serving.tls.is_none() {
        let _ = stream.try_write(&full(serving.section));
    }
}

fn refuse_unix(stream: &UnixStream, serving: &Serving) {
    let _ = stream.try_write(&full(serving.section));
}

/// Binds the address; when it is taken and `or_any`, any free port of it.
pub(super) async fn bind(
    address: SocketAddr,
    or_any: bool,
    section: &str,
) -> Result<TcpListener, String> {
    let listener = match TcpListener::bind(address).await {
        Err(error) if or_any && error.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::new(address.ip(), 0)).await
        }
        bound => bound,
    };
    listener.map_err(|error| {
        let next = if error.kind() == io::ErrorKind::AddrInUse {
            format!(
                ": another program listens there; end it, or give listen in {section} another port"
            )
        } else {
            String::new()
        };
        format!("the API cannot listen on {address}: {error}{next}")
    })
}

/// A socket file that goes when it is dropped.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Best effort: the next start takes a leftover file over.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Binds the socket for its owner alone; a file left by a dead process is taken over.
/// Between being made and being closed to others nobody is listened to.
pub(super) fn bind_socket(path: &Path) -> Result<(UnixListener, SocketFile), String> {
    let said = |error: io::Error| format!("the API's socket {}: {error}", path.display());
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(said(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(said)?;
    let file = SocketFile(path.to_owned());
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(said)?;
    Ok((listener, file))
}
