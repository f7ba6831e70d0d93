//! Plain requests over loopback: one connection each, HTTP/1.0, so that the end of the
//! body is the end of the connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Status and body.
pub(super) type Got = Result<(u16, Value), String>;

/// Text as a part of a URL or of a form.
pub(super) fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| match byte {
            byte if plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// A request, as it is to be sent.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) form: Option<&'a str>,
    pub(super) headers: Vec<(&'a str, &'a str)>,
}

/// An answer, as it came.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Its `Content-Type`.
    pub(super) kind: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn is_json(&self) -> bool {
        self.kind.starts_with("application/json")
    }
}

/// GET of a path.
pub(super) fn get(port: u16, path: &str) -> Got {
    let request = Request {
        method: "GET",
        path,
        form: None,
        headers: Vec::new(),
    };
    let got = sent(port, &request)?;
    let body = serde_json::from_str(&got.body);
    let body = body.map_err(|error| format!("{error}: {}\n{}", got.status, got.body))?;
    Ok((got.status, body))
}

/// Sends it.
///
/// # Errors
/// When nothing comes that looks like an answer.
pub(super) fn sent(port: u16, request: &Request<'_>) -> Result<Answer, String> {
    let failed = |error: std::io::Error| error.to_string();
    let Request { method, path, .. } = request;
    let mut text = format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n");
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(form) = request.form {
        let length = form.len();
        text.push_str(&format!(
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
        ));
    }
    text.push_str("\r\n");
    text.push_str(request.form.unwrap_or_default());
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
    stream.write_all(text.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no end of headers")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let kind = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type")
            .then(|| value.trim())
    });
    Ok(Answer {
        status: status.ok_or("no status")?,
        kind: kind.unwrap_or_default().to_owned(),
        body: body.to_owned(),
    })
}
