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

/// GET of a path.
pub(super) fn get(port: u16, path: &str) -> Got {
    sent(
        port,
        &format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"),
    )
}

/// POST of a form.
pub(super) fn post(port: u16, path: &str, form: &str) -> Got {
    let length = form.len();
    sent(
        port,
        &format!(
            "POST {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
        ),
    )
}

fn sent(port: u16, request: &str) -> Got {
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no end of headers")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or("no status")?;
    let body = serde_json::from_str(body).map_err(|error| format!("{error}: {head}\n{body}"))?;
    Ok((status, body))
}
