//! What hyper itself answers to a head that it does not take has a status and nothing
//! else: this puts a problem that says what to change in its place.
//!
//! Always holds: answers of routes, which all pass the guard and have its headers, go
//! through unchanged; so does a piece of a body, which is no whole head of hyper's own.
//! Bound: one short answer per connection. Knows no route.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::limits::{HEADER_BYTES_MAX, HEADERS_MAX, URL_BYTES_MAX};
use super::problem::{Kind, Problem};

/// A header that the guard gives each answer.
const OURS: &[u8] = b"x-content-type-options";
/// How an answer that refuses something begins, and how one without a body ends.
const REFUSAL: &[u8] = b"HTTP/1.1 4";
const END: &[u8] = b"\r\n\r\n";
/// More than hyper says by itself: status, length, date, and that it closes.
const REFUSAL_BYTES_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Worded<S> {
    inner: S,
    /// What is being written in place of something, and how far it is.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Worded<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            instead: None,
        }
    }
}

/// What is to be said in place of `bytes`, where hyper wrote them.
fn worded(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_whole = bytes.len() <= REFUSAL_BYTES_MAX && bytes.ends_with(END);
    if !bytes.starts_with(REFUSAL) || !is_whole {
        return None;
    }
    if bytes.windows(OURS.len()).any(|part| part == OURS) {
        return None;
    }
    let status = std::str::from_utf8(bytes.get(9..12)?).ok()?;
    let (kind, detail) = match status {
        "414" => (
            Kind::UrlTooLong,
            format!("path and query have more than {URL_BYTES_MAX} bytes: ask for less at once"),
        ),
        "431" => (
            Kind::HeadersTooLong,
            format!(
                "there are more than {HEADERS_MAX} headers, or they have more than \
                 {HEADER_BYTES_MAX} bytes: send fewer"
            ),
        ),
        "400" => (
            Kind::BadRequest,
            String::from(
                "this is no request of HTTP/1.1: a line of method, path and version, then headers",
            ),
        ),
        _ => return None,
    };
    Some(Problem::new(kind, detail).closing())
}

impl<S: AsyncWrite + Unpin> Worded<S> {
    /// Writes what stands in place of `bytes`, where something does, as if it were these.
    fn poll_instead(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Option<Poll<io::Result<()>>> {
        if self.instead.is_none() {
            self.instead = Some((worded(bytes)?, 0));
        }
        let (text, at) = self.instead.as_mut()?;
        while *at < text.len() {
            let polled = Pin::new(&mut self.inner).poll_write(context, &text[*at..]);
            match polled {
                Poll::Ready(Ok(0)) => {
                    return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(written)) => *at += written,
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        self.instead = None;
        Some(Poll::Ready(Ok(())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Worded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Worded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(polled) = self.poll_instead(context, bytes) {
            ready!(polled)?;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = parts.first().map_or(&[][..], |part| part);
        if let Some(polled) = self.poll_instead(context, first) {
            ready!(polled)?;
            return Poll::Ready(Ok(first.len()));
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal of so many bytes.
    fn padded(bytes: usize) -> String {
        let head = "HTTP/1.1 431 Too Large\r\ndate: ";
        let rest = bytes - head.len() - END.len();
        format!("{head}{}\r\n\r\n", "x".repeat(rest))
    }

    #[test]
    fn what_hyper_says_is_put_into_words_and_nothing_else_is() {
        for (name, bytes, status) in [
            (
                "too long",
                "HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\n\r\n",
                "431",
            ),
            ("a long URL", "HTTP/1.1 414 URI Too Long\r\n\r\n", "414"),
            ("no HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "400"),
            (
                "of a route",
                "HTTP/1.1 400 Bad\r\nx-content-type-options: nosniff\r\n\r\n",
                "",
            ),
            ("good", "HTTP/1.1 200 OK\r\n\r\n", ""),
            ("a body", "{\"status\":431}", ""),
            ("a body of such lines", "HTTP/1.1 431 Too Large\r\nx", ""),
            ("a long one", &padded(REFUSAL_BYTES_MAX + 1), ""),
            ("limit", &padded(REFUSAL_BYTES_MAX), "431"),
            ("limit - 1", &padded(REFUSAL_BYTES_MAX - 1), "431"),
            ("cut", "HTTP/1.1 4", ""),
            ("another", "HTTP/1.1 418 I'm a teapot\r\n\r\n", ""),
            ("nothing", "", ""),
        ] {
            let said = worded(bytes.as_bytes());
            let said = said.map(|text| String::from_utf8(text).unwrap());
            assert_eq!(said.is_some(), !status.is_empty(), "{name}: {said:?}");
            if let Some(said) = said {
                assert!(
                    said.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{name}: {said}"
                );
                let (head, body) = said.split_once("\r\n\r\n").unwrap();
                assert!(head.contains("application/problem+json"), "{head}");
                assert!(
                    head.contains(&format!("content-length: {}", body.len())),
                    "{head}"
                );
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                assert_eq!(body["status"].to_string(), status);
            }
        }
    }
}
