//! A small MQTT 5 broker in the process, for `forebay demo` and tests: QoS 0
//! and 1, retained messages, last wills, sessions that outlive connections.
//!
//! Always holds: it listens on 127.0.0.1 only, prints nothing, keeps nothing
//! on disk, and never acks a message that it then drops: a publisher is
//! refused (quota exceeded) instead. Bounds: limits.rs.
//!
//! Why not a ready one: see `agent/node/docs/broker.md`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::select;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::limits::{BROKER_ACCEPT_PAUSE, BROKER_CONNECTIONS_MAX};
use hub::Hub;

mod connection;
mod filter;
mod hub;
#[cfg(test)]
mod tests;

/// A running broker. Dropping it stops it.
#[derive(Debug)]
pub struct EmbeddedBroker {
    port: u16,
    /// Counts the calls of [`Self::disconnect_clients`].
    cut: watch::Sender<u64>,
    task: JoinHandle<()>,
}

/// The state that all connections share.
#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Hub>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Hub> {
        // A panic elsewhere is no reason to stop: the hub checks what it does.
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl EmbeddedBroker {
    /// Starts on a free port of 127.0.0.1, on the current tokio runtime.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn start() -> io::Result<Self> {
        Self::start_on(0)
    }

    /// Starts on a port of its own, say that of a broker that has stopped. It
    /// knows nothing of what was before.
    ///
    /// # Errors
    /// When the port cannot be opened.
    pub fn start_on(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (cut, watch) = watch::channel(0);
        let task = tokio::spawn(serve(listener, watch));
        Ok(Self { port, cut, task })
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection without a word; sessions stay.
    pub fn disconnect_clients(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Cuts every connection, closes the port and forgets everything.
    pub async fn stop(mut self) {
        self.task.abort();
        // Aborting is what was asked for.
        let _ = (&mut self.task).await;
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: tokio::net::TcpListener, mut cut: watch::Receiver<u64>) {
    let shared = Shared(Arc::new(Mutex::new(Hub::default())));
    // Dropped with this task, and its connections with it.
    let mut connections = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept(), if connections.len() < BROKER_CONNECTIONS_MAX => {
                // Out of descriptors, or gone again: the next one may do.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection::run(stream, shared.clone(), cut.clone()));
                } else {
                    tokio::time::sleep(BROKER_ACCEPT_PAUSE).await;
                }
            }
            _ = connections.join_next(), if !connections.is_empty() => {}
            changed = cut.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}
