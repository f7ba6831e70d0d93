//! The hub behind a port on this computer: one thread for it, two per connection.
//!
//! Always holds: what a test sets is in force when the call returns; all threads end
//! with the handle, or when their connections do. Bound: [`CHUNK_BYTES`] at a time.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::faults::{Act, Facts, Faults, Seen};
use super::hub::{Hub, LinkNo, Out};

const CHUNK_BYTES: usize = 16 * 1024;

enum Event {
    Open(TcpStream),
    Bytes(LinkNo, Vec<u8>),
    Closed(LinkNo),
    Set(Box<Faults>, SyncSender<()>),
    Act(Act, SyncSender<()>),
    TakeSeen(SyncSender<Vec<Seen>>),
    Stop,
}

/// What readers and the handle look at.
#[derive(Debug, Default)]
struct Shared {
    facts: Mutex<Facts>,
    deaf: Mutex<bool>,
    hears: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A broker that does what it is told. Dropping it ends all connections.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    events: Sender<Event>,
    shared: Arc<Shared>,
    hub: Option<JoinHandle<()>>,
}

impl Broker {
    /// On a free port of 127.0.0.1; `seed` decides what chance does.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn start(seed: u64) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), seed)
    }

    /// On an address of this computer; port 0 is a free one.
    ///
    /// # Panics
    /// When the address is taken, or not this computer's.
    #[must_use]
    pub fn start_at(address: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind(address).expect("an address for the broker");
        let address = listener.local_addr().expect("a bound socket has one");
        let (events, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let accepting = events.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.send(Event::Open(stream)).is_err() {
                    return;
                }
            }
        });
        let work = Work {
            hub: Hub::new(seed),
            start: Instant::now(),
            links: BTreeMap::new(),
            next: 0,
            events: events.clone(),
            shared: Arc::clone(&shared),
        };
        let hub = std::thread::spawn(move || work.run(&receiver));
        Self {
            address,
            events,
            shared,
            hub: Some(hub),
        }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From here on this goes wrong, and nothing else.
    pub fn set(&self, faults: Faults) {
        self.tell(|done| Event::Set(Box::new(faults), done));
    }

    pub fn act(&self, act: Act) {
        self.tell(|done| Event::Act(act, done));
    }

    #[must_use]
    pub fn facts(&self) -> Facts {
        lock(&self.shared.facts).clone()
    }

    /// Messages of clients since it was called last, while [`Faults::watch`] is set.
    ///
    /// # Panics
    /// When the broker's thread has ended.
    #[must_use]
    pub fn take_seen(&self) -> Vec<Seen> {
        let (done, waits) = sync_channel(1);
        let told = self.events.send(Event::TakeSeen(done));
        let seen = told.ok().and_then(|()| waits.recv().ok());
        seen.expect("the broker's thread runs as long as its handle")
    }

    fn tell(&self, event: impl FnOnce(SyncSender<()>) -> Event) {
        let (done, waits) = sync_channel(1);
        let told = self.events.send(event(done)).is_ok() && waits.recv().is_ok();
        assert!(told, "the broker's thread has ended");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Both fail only when the thread has ended before.
        let _ = self.events.send(Event::Stop);
        if let Some(hub) = self.hub.take() {
            let _ = hub.join();
        }
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

struct Work {
    hub: Hub,
    start: Instant,
    links: BTreeMap<LinkNo, (TcpStream, Sender<Vec<u8>>)>,
    next: u64,
    events: Sender<Event>,
    shared: Arc<Shared>,
}

impl Work {
    fn run(mut self, events: &Receiver<Event>) {
        loop {
            let wait = self.hub.deadline().map_or(Duration::from_secs(3600), |at| {
                at.saturating_sub(self.start.elapsed())
            });
            let event = match events.recv_timeout(wait) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let now = self.start.elapsed();
            self.hub.tick(now);
            let mut told = None;
            match event {
                None => {}
                Some(Event::Stop) => break,
                Some(Event::Open(stream)) => self.open(stream, now),
                Some(Event::Bytes(no, bytes)) => self.hub.on_bytes(no, &bytes, now),
                Some(Event::Closed(no)) => {
                    self.links.remove(&no);
                    self.hub.on_closed(no, true, now);
                }
                Some(Event::TakeSeen(done)) => {
                    // It fails when the test has gone away meanwhile.
                    let _ = done.send(self.hub.take_seen());
                }
                Some(Event::Set(faults, done)) => {
                    *lock(&self.shared.deaf) = faults.deaf;
                    self.shared.hears.notify_all();
                    self.hub.set(*faults, now);
                    told = Some(done);
                }
                Some(Event::Act(act, done)) => {
                    self.hub.act(act, now);
                    told = Some(done);
                }
            }
            self.write();
            lock(&self.shared.facts).clone_from(self.hub.facts());
            // It fails when the test has gone away meanwhile.
            told.map(|done| done.send(()));
        }
        *lock(&self.shared.deaf) = false;
        self.shared.hears.notify_all();
        for (stream, _) in self.links.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn open(&mut self, stream: TcpStream, now: Duration) {
        self.next += 1;
        let no = LinkNo(self.next);
        // Without it only small acks get slower.
        let _ = stream.set_nodelay(true);
        let (Ok(reads), Ok(writes)) = (stream.try_clone(), stream.try_clone()) else {
            return;
        };
        let (events, shared) = (self.events.clone(), Arc::clone(&self.shared));
        std::thread::spawn(move || read(no, reads, &events, &shared));
        let (writer, bytes) = channel();
        std::thread::spawn(move || write(writes, &bytes));
        self.links.insert(no, (stream, writer));
        self.hub.on_open(no, now);
    }

    fn write(&mut self) {
        for out in self.hub.take_out() {
            match out {
                Out::Write(no, bytes) => {
                    if let Some((_, writer)) = self.links.get(&no) {
                        // It has ended: the reader says so as well.
                        let _ = writer.send(bytes);
                    }
                }
                Out::Cut(no, last) => {
                    let Some((stream, writer)) = self.links.remove(&no) else {
                        continue;
                    };
                    if last.is_empty() {
                        // Also when the writer waits for a client that reads nothing.
                        let _ = stream.shutdown(Shutdown::Both);
                    } else {
                        // The writer ends the connection behind its last bytes.
                        let _ = writer.send(last);
                    }
                }
            }
        }
    }
}

fn read(no: LinkNo, mut stream: TcpStream, events: &Sender<Event>, shared: &Shared) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let deaf = lock(&shared.deaf);
        drop(shared.hears.wait_while(deaf, |deaf| *deaf));
        let Ok(len @ 1..) = stream.read(&mut chunk) else {
            break;
        };
        // What was read as the deafness came is heard after it.
        let deaf = lock(&shared.deaf);
        drop(shared.hears.wait_while(deaf, |deaf| *deaf));
        if events
            .send(Event::Bytes(no, chunk[..len].to_vec()))
            .is_err()
        {
            return;
        }
    }
    // The broker may have ended before.
    let _ = events.send(Event::Closed(no));
}

fn write(mut stream: TcpStream, bytes: &Receiver<Vec<u8>>) {
    for bytes in bytes {
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}
