//! The two pipes to the browser: JSON objects with a zero byte behind each. Named pipes, so
//! that a shell can give them to it as its files 3 and 4.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Messages that wait for the test.
const WAITING_MAX: usize = 10_000;

#[derive(Debug)]
pub(super) struct Pipe {
    to: File,
    from: Receiver<Value>,
}

/// Makes both in `dir`.
pub(super) fn make(dir: &Path) {
    let made = Command::new("mkfifo")
        .args(["to-browser", "from-browser"])
        .current_dir(dir)
        .status()
        .expect("every machine has mkfifo");
    assert!(made.success(), "no named pipes in {}", dir.display());
}

impl Pipe {
    /// Opens them in the order in which the browser's shell does: each waits for the other.
    pub(super) fn open(dir: &Path) -> Self {
        let open = OpenOptions::new().write(true).open(dir.join("to-browser"));
        let to = open.expect("the browser's end is open");
        let from = File::open(dir.join("from-browser")).expect("the browser's end is open");
        let (sender, receiver) = sync_channel(WAITING_MAX);
        // Ends when the browser does, or nobody listens any more.
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut bytes = Vec::new();
            while from.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                let json = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
                let Ok(message) = serde_json::from_slice(json) else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        Self { to, from: receiver }
    }

    pub(super) fn send(&mut self, message: &Value) {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
    }

    pub(super) fn next(&self, limit: Duration) -> Result<Value, String> {
        self.from.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no answer within {limit:?}"),
            RecvTimeoutError::Disconnected => String::from("the browser has ended"),
        })
    }
}

/// The bytes of a text in base64, as the protocol has pictures.
pub(super) fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from((bits >> count) & 0xff).expect("eight bits"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_and_without_padding() {
        for (text, want) in [
            ("", &b""[..]),
            ("TQ==", b"M"),
            ("TWE=", b"Ma"),
            ("TWFu", b"Man"),
            ("+/8A", &[0xfb, 0xff, 0]),
        ] {
            assert_eq!(base64(text), want, "{text}");
        }
    }
}
