//! The replication connection: bytes of a server to messages, and back.
//!
//! No released client speaks this part of the protocol; framing and SCRAM are those of
//! `postgres-protocol`. Blocking, with a short wait in each read, so that its one thread
//! also sees what else is to be done. Always holds: a message that is handed on is whole.
//! Bounds: MESSAGE_BYTES_MAX; each step has its longest time. Knows no table.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use bytes::BytesMut;
use postgres_protocol::message::{backend, frontend};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::bytes::{Bytes, Malformed};
use super::limits::{
    CONNECT_TIMEOUT, MESSAGE_BYTES_MAX, READ_BYTES, READ_WAIT, SILENCE_MAX, WRITE_TIMEOUT,
};
use crate::config::DatabaseConfig;
use crate::database::secret;

/// What ended a connection or a command.
#[derive(Debug)]
pub(super) enum WireError {
    /// It cannot be reached, or it is gone.
    Lost(String),
    /// What the config or its files lack.
    Config(String),
    Said(ServerError),
    Malformed(Malformed),
    Protocol(&'static str),
    TooLarge(usize),
    /// We are told to end.
    Stopped,
}

/// An error as the server says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ServerError {
    /// Five letters and digits.
    pub code: String,
    pub message: String,
    pub detail: String,
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

impl From<Malformed> for WireError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

/// See the module's text.
pub(super) struct Wire {
    stream: Stream,
    buffer: Vec<u8>,
    /// What of `buffer` was read and not taken.
    ready: Range<usize>,
    out: BytesMut,
    /// When the last byte came.
    heard: Instant,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wire = f.debug_struct("Wire");
        { wire }.field("ready", &self.ready).finish_non_exhaustive()
    }
}

/// A whole message; its body stands in the buffer until the next read.
#[derive(Debug)]
pub(super) struct Frame {
    pub tag: u8,
    body: Range<usize>,
}

/// Rows of a command: texts by column.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// The server's mark of the two-way copy that replication is.
pub(super) const COPY_BOTH_TAG: u8 = b'W';
/// Answers to the wish for TLS.
const TLS_YES: u8 = b'S';

impl Wire {
    /// Connects, with TLS where it is configured; nothing is said yet.
    ///
    /// # Errors
    /// What keeps us out.
    pub(super) fn open(config: &DatabaseConfig) -> Result<Self, WireError> {
        let stream = if config.host.starts_with('/') {
            let path = format!("{}/.s.PGSQL.{}", config.host, config.port);
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(READ_WAIT))?;
            stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
            Stream::Unix(stream)
        } else {
            let stream = tcp(config)?;
            if config.tls {
                let tls = tls(config, stream)?;
                tls.sock.set_read_timeout(Some(READ_WAIT))?;
                Stream::Tls(Box::new(tls))
            } else {
                stream.set_read_timeout(Some(READ_WAIT))?;
                Stream::Tcp(stream)
            }
        };
        Ok(Self {
            stream,
            buffer: vec![0; READ_BYTES],
            ready: 0..0,
            out: BytesMut::new(),
            heard: Instant::now(),
        })
    }

    /// Writes what `compose` puts into the buffer.
    pub(super) fn send(
        &mut self,
        compose: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), WireError> {
        self.out.clear();
        compose(&mut self.out)?;
        Ok(self.stream.write_all(&self.out)?)
    }

    /// The next message that is here whole.
    ///
    /// # Errors
    /// When it is too large or has no length.
    pub(super) fn frame(&mut self) -> Result<Option<Frame>, WireError> {
        let bytes = &self.buffer[self.ready.clone()];
        let Some(header) = backend::Header::parse(bytes)? else {
            return Ok(None);
        };
        let whole = size(&header);
        if whole > MESSAGE_BYTES_MAX {
            return Err(WireError::TooLarge(whole));
        }
        if bytes.len() < whole {
            return Ok(None);
        }
        let at = self.ready.start;
        self.ready.start += whole;
        Ok(Some(Frame {
            tag: header.tag(),
            body: at + HEADER_BYTES..at + whole,
        }))
    }

    /// The body of a message that was just taken.
    pub(super) fn body(&self, frame: &Frame) -> &[u8] {
        &self.buffer[frame.body.clone()]
    }

    /// Reads what is there, or waits a moment for it; whether anything came.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(super) fn fill(&mut self) -> Result<bool, WireError> {
        self.make_room()?;
        match self.stream.read(&mut self.buffer[self.ready.end..]) {
            Ok(0) => Err(WireError::Lost("the server closed the connection".into())),
            Ok(count) => {
                self.ready.end += count;
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_nothing_yet(error.kind()) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// When the last byte came.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// Nothing was read for a while, by our own doing.
    pub(super) fn excuse(&mut self) {
        self.heard = Instant::now();
    }

    /// Room for the rest of the message that is on its way, else for a read.
    fn make_room(&mut self) -> Result<(), WireError> {
        let (start, end) = (self.ready.start, self.ready.end);
        self.buffer.copy_within(start..end, 0);
        self.ready = 0..end - start;
        let header = backend::Header::parse(&self.buffer[self.ready.clone()])?;
        let wanted = header.map_or(0, |header| size(&header).min(MESSAGE_BYTES_MAX));
        let size = wanted.max(self.ready.end + 1).max(READ_BYTES);
        if self.buffer.len() < size || (self.buffer.len() > READ_BYTES && size == READ_BYTES) {
            self.buffer.resize(size, 0);
            self.buffer.shrink_to_fit();
        }
        Ok(())
    }

    /// Waits for the next message; `tick` is asked now and then whether to go on.
    ///
    /// # Errors
    /// As [`Wire::frame`] and [`Wire::fill`]; `tick`'s own.
    pub(super) fn wait(
        &mut self,
        tick: &mut dyn FnMut() -> Result<(), WireError>,
    ) -> Result<Frame, WireError> {
        loop {
            if let Some(frame) = self.frame()? {
                return Ok(frame);
            }
            tick()?;
            self.fill()?;
        }
    }

    /// As [`Wire::wait`], for answers that a server gives at once.
    pub(super) fn answer(&mut self) -> Result<Frame, WireError> {
        let asked = Instant::now();
        self.wait(&mut || match asked.elapsed() > SILENCE_MAX {
            false => Ok(()),
            true => Err(WireError::Lost("the server does not answer".into())),
        })
    }

    /// Runs a command of the replication protocol and gathers its rows.
    ///
    /// # Errors
    /// What the server said, or that it is gone.
    pub(super) fn command(
        &mut self,
        sql: &str,
        tick: &mut dyn FnMut() -> Result<(), WireError>,
    ) -> Result<Rows, WireError> {
        self.send(|out| frontend::query(sql, out))?;
        let (mut rows, mut failed) = (Rows::new(), None);
        loop {
            let frame = self.wait(tick)?;
            let body = self.body(&frame);
            match frame.tag {
                backend::DATA_ROW_TAG => rows.push(row(body)?),
                backend::ERROR_RESPONSE_TAG => failed = Some(server_error(body)),
                backend::READY_FOR_QUERY_TAG => {
                    return failed.map_or(Ok(rows), |error| Err(WireError::Said(error)));
                }
                // Names of columns, the command's name, notices, settings.
                _ => {}
            }
        }
    }

    /// Starts the stream of changes.
    ///
    /// # Errors
    /// What the server said, or that it is gone.
    pub(super) fn start(&mut self, sql: &str) -> Result<(), WireError> {
        self.send(|out| frontend::query(sql, out))?;
        loop {
            let frame = self.answer()?;
            match frame.tag {
                COPY_BOTH_TAG => return Ok(()),
                backend::ERROR_RESPONSE_TAG => {
                    return Err(WireError::Said(server_error(self.body(&frame))));
                }
                backend::NOTICE_RESPONSE_TAG | backend::PARAMETER_STATUS_TAG => {}
                _ => return Err(WireError::Protocol("the stream of changes does not begin")),
            }
        }
    }

    /// Says that we go; what becomes of it is the server's.
    pub(super) fn close(mut self) {
        // A connection that is gone needs no goodbye.
        let _ = self.send(|out| {
            frontend::copy_done(out);
            frontend::terminate(out);
            Ok(())
        });
    }
}

const HEADER_BYTES: usize = 5;

/// What a read that waited in vain says.
fn is_nothing_yet(kind: io::ErrorKind) -> bool {
    [
        io::ErrorKind::WouldBlock,
        io::ErrorKind::TimedOut,
        io::ErrorKind::Interrupted,
    ]
    .contains(&kind)
}

/// Bytes of the whole message.
fn size(header: &backend::Header) -> usize {
    // The length counts itself and not the tag.
    header.len().unsigned_abs() as usize + 1
}

fn tcp(config: &DatabaseConfig) -> Result<TcpStream, WireError> {
    let addresses = (config.host.as_str(), config.port).to_socket_addrs()?;
    let mut last = WireError::Lost("the host has no address".into());
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn tls(
    config: &DatabaseConfig,
    mut stream: TcpStream,
) -> Result<StreamOwned<ClientConnection, TcpStream>, WireError> {
    let settings = secret::tls(config.ca_file.as_deref(), config.identity.as_ref());
    let settings = settings.map_err(WireError::Config)?;
    let name = ServerName::try_from(config.host.clone());
    let name = name.map_err(|error| WireError::Config(format!("host: {error}")))?;
    let mut wish = BytesMut::new();
    frontend::ssl_request(&mut wish);
    stream.write_all(&wish)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer != [TLS_YES] {
        return Err(WireError::Lost("the server does not support TLS".into()));
    }
    let session = ClientConnection::new(settings, name);
    let mut session = session.map_err(|error| WireError::Config(format!("tls: {error}")))?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

fn row(body: &[u8]) -> Result<Vec<Option<String>>, Malformed> {
    let mut bytes = Bytes::new(body);
    let count = bytes.u16("the count of columns")?;
    let mut row = Vec::new();
    for _ in 0..count {
        let len = bytes.u32("a value's length")?;
        if len == u32::MAX {
            row.push(None);
            continue;
        }
        let text = bytes.take(len as usize, "a value")?;
        row.push(Some(String::from_utf8_lossy(text).into_owned()));
    }
    bytes.end()?;
    Ok(row)
}

/// What of an error is used; a field that is not there is empty.
pub(super) fn server_error(body: &[u8]) -> ServerError {
    let mut error = ServerError::default();
    for field in body.split(|b| *b == 0) {
        let Some((kind, text)) = field.split_first() else {
            continue;
        };
        let text = || String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => error.code = text(),
            b'M' => error.message = text(),
            b'D' => error.detail = text(),
            _ => {}
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_rows_are_read() {
        let body = b"SERROR\0C42704\0Mslot \"s\" does not exist\0Dmore\0Fslot.c\0\0";
        let error = server_error(body);
        assert_eq!(
            (error.code.as_str(), error.detail.as_str()),
            ("42704", "more")
        );
        assert_eq!(error.message, "slot \"s\" does not exist");
        assert_eq!(server_error(b""), ServerError::default());

        let body = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff";
        assert_eq!(row(body), Ok(vec![Some("a".to_owned()), None]));
        for len in 0..body.len() {
            assert!(row(&body[..len]).is_err(), "{len}");
        }
    }
}
