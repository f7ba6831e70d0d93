//! As much of HTTP/1.1 as a bench needs: one connection that is kept, GET and POST, and
//! bodies by length or in chunks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use super::limits::PATIENCE;

/// Longest body that is read.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A connection to a server on this computer.
#[derive(Debug)]
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    host: String,
    body: Vec<u8>,
}

impl Client {
    pub(super) fn open(port: u16) -> Result<Self, String> {
        let host = format!("127.0.0.1:{port}");
        let stream = TcpStream::connect(&host).map_err(|error| format!("{host}: {error}"))?;
        let set = stream
            .set_nodelay(true)
            .and(stream.set_read_timeout(Some(PATIENCE)));
        set.map_err(|error| format!("{host}: {error}"))?;
        Ok(Self {
            stream: BufReader::new(stream),
            host,
            body: Vec::new(),
        })
    }

    /// Gets `path` with its query; the body as it came.
    ///
    /// # Errors
    /// Any status but 200, with the body; or the connection broke.
    pub(super) fn get(&mut self, path: &str, accept: &str) -> Result<&[u8], String> {
        let (status, _) = self.try_get(path, accept)?;
        match status {
            200 => Ok(&self.body),
            _ => Err(format!(
                "{path}: {status} {}",
                String::from_utf8_lossy(&self.body[..self.body.len().min(500)])
            )),
        }
    }

    /// As [`Client::get`], with any status.
    pub(super) fn try_get(&mut self, path: &str, accept: &str) -> Result<(u16, &[u8]), String> {
        let host = &self.host;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
        let told = |error: std::io::Error| format!("{host}: {error}");
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        sent.map_err(told)?;
        let status = self.read().map_err(|error| format!("{path}: {error}"))?;
        Ok((status, &self.body))
    }

    fn read_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let count = self.stream.read_line(&mut line);
        match count.map_err(|error| error.to_string())? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn read(&mut self) -> Result<u16, String> {
        let head = self.read_line()?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| format!("no status: {head}"))?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.read_line()?.to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", value)) => {
                    length = value.parse().map_err(|_| format!("length {value}"))?;
                }
                Some(("transfer-encoding", value)) => chunked = value == "chunked",
                Some(_) => {}
                None => break,
            }
        }
        self.body.clear();
        if !chunked {
            self.take(length)?;
            return Ok(status);
        }
        loop {
            let line = self.read_line()?;
            let count = usize::from_str_radix(&line, 16).map_err(|_| format!("chunk {line}"))?;
            self.take(count)?;
            self.read_line()?;
            if count == 0 {
                return Ok(status);
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<(), String> {
        let have = self.body.len();
        if have + count > BODY_BYTES_MAX {
            return Err(format!("more than {BODY_BYTES_MAX} bytes"));
        }
        self.body.resize(have + count, 0);
        let read = self.stream.read_exact(&mut self.body[have..]);
        read.map_err(|error| error.to_string())
    }

    /// A stream of events: asks for it, and gives what comes from then on, head included.
    pub(super) fn into_events(mut self, path: &str) -> Result<BufReader<TcpStream>, String> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n",
            self.host
        );
        let sent = self.stream.get_mut().write_all(request.as_bytes());
        sent.map_err(|error| error.to_string())?;
        Ok(self.stream)
    }
}
