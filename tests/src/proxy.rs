//! A TCP proxy on loopback whose link a test can cut or freeze.
//!
//! Always holds: bytes pass unchanged and in order, or their connection ends. A
//! frozen link keeps its connections open and says nothing: what a cable pulled out
//! looks like. Bound: `CHUNK_BYTES` per direction. Knows no protocol.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

const CHUNK_BYTES: usize = 16 * 1024;

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    frozen: Mutex<bool>,
    thawed: Condvar,
    /// Both ends of each connection.
    streams: Mutex<Vec<TcpStream>>,
    stopped: AtomicBool,
}

/// A proxy; dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Passes connections to a free port of its own on to `port`, both on 127.0.0.1.
    ///
    /// # Panics
    /// When loopback has no free port.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let own = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let shared = Arc::new(Shared {
            target: (Ipv4Addr::LOCALHOST, port).into(),
            frozen: Mutex::new(false),
            thawed: Condvar::new(),
            streams: Mutex::new(Vec::new()),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { port: own, shared }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends every connection.
    pub fn cut(&self) {
        let mut streams = self
            .shared
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for stream in streams.drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// From now on nothing passes, and nobody is told.
    pub fn freeze(&self) {
        *self
            .shared
            .frozen
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// What was held back passes, and all that follows.
    pub fn thaw(&self) {
        *self
            .shared
            .frozen
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = false;
        self.shared.thawed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.thaw();
        self.cut();
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().map_while(Result::ok) {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        // Without a server the client sees its connection end.
        let Ok(server) = TcpStream::connect(shared.target) else {
            continue;
        };
        let passes = [(&client, &server), (&server, &client)]
            .map(|(from, to)| Some((from.try_clone().ok()?, to.try_clone().ok()?)));
        // Known before a byte passes: who saw one pass can rely on the cut.
        shared
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend([client, server]);
        for (mut from, mut to) in passes.into_iter().flatten() {
            let shared = Arc::clone(shared);
            std::thread::spawn(move || pass(&mut from, &mut to, &shared));
        }
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, shared: &Shared) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(len @ 1..) = from.read(&mut chunk) {
        let frozen = shared.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        drop(shared.thawed.wait_while(frozen, |frozen| *frozen));
        if to.write_all(&chunk[..len]).is_err() {
            break;
        }
    }
    // The other direction ends with this one.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// For bytes that must come: a test that fails must not hang.
    const LIMIT: Duration = Duration::from_secs(30);

    fn pair() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::to(listener.local_addr().unwrap().port());
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
        }
        (proxy, client, server)
    }

    /// End of file or a reset, and not the limit.
    fn ended(stream: &mut TcpStream) -> bool {
        match stream.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        stream.read_exact(&mut out).unwrap();
        out
    }

    #[test]
    fn bytes_pass_both_ways() {
        let (_proxy, mut client, mut server) = pair();
        client.write_all(b"ask").unwrap();
        assert_eq!(read(&mut server, 3), b"ask");
        server.write_all(b"answer").unwrap();
        assert_eq!(read(&mut client, 6), b"answer");
    }

    #[test]
    fn a_frozen_link_is_silent_and_gives_all_when_thawed() {
        let (proxy, mut client, mut server) = pair();
        proxy.freeze();
        client.write_all(b"held").unwrap();
        server
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let silent = server.read(&mut [0; 4]).unwrap_err().kind();
        assert!(matches!(
            silent,
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
        ));
        server.set_read_timeout(Some(LIMIT)).unwrap();
        proxy.thaw();
        assert_eq!(read(&mut server, 4), b"held");
    }

    #[test]
    fn a_cut_link_ends_both_sides() {
        let (proxy, mut client, mut server) = pair();
        client.write_all(b"x").unwrap();
        assert_eq!(read(&mut server, 1), b"x");
        proxy.cut();
        assert!(ended(&mut client));
        assert!(ended(&mut server));
    }
}
