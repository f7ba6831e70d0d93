//! A request to a server of ours, and what Prometheus's own tool says of metrics.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Status and body of `GET path` over a Unix socket.
///
/// # Panics
/// When nobody answers.
#[must_use]
pub fn get(socket: &Path, path: &str) -> (u16, String) {
    get_of(
        UnixStream::connect(socket).expect("a server listens"),
        path,
        "",
    )
}

/// The same over a connection, with more headers, each with its end of line.
///
/// # Panics
/// When nobody answers.
#[must_use]
pub fn get_of(mut stream: impl Read + Write, path: &str, headers: &str) -> (u16, String) {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .expect("the request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
    (status.expect("a status of HTTP"), body.to_owned())
}

/// What Prometheus's own tool says of an exposition; nothing when it is well.
///
/// # Panics
/// When the tool is missing.
#[must_use]
pub fn promtool(text: &str) -> String {
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is missing: apt-get install prometheus");
    let mut input = tool.stdin.take().expect("its stdin is a pipe");
    input.write_all(text.as_bytes()).expect("it reads");
    drop(input);
    let output = tool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}
