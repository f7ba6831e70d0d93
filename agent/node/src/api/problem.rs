//! Errors as `application/problem+json` (RFC 9457): a kind that programs know, and a
//! detail that says to people what to change.
//!
//! Always holds: no detail has a token in it; what a client sent is cut before it is
//! shown. Knows no route.

use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Longest part of a request that is shown, characters.
const SHOWN_CHARS_MAX: usize = 80;

/// What is wrong, with its name, title and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    BadParameter,
    UnknownParameter,
    MissingParameter,
    BadRequest,
    NoToken,
    WrongToken,
    CrossSite,
    WrongHost,
    NotFound,
    NoSuchName,
    MethodNotAllowed,
    NotAcceptable,
    UrlTooLong,
    HeadersTooLong,
    TooMuch,
    TooManyRequests,
    Failed,
    Busy,
    Stopping,
    NotReady,
    TooSlow,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 21] = [
        Self::BadParameter,
        Self::UnknownParameter,
        Self::MissingParameter,
        Self::BadRequest,
        Self::NoToken,
        Self::WrongToken,
        Self::CrossSite,
        Self::WrongHost,
        Self::NotFound,
        Self::NoSuchName,
        Self::MethodNotAllowed,
        Self::NotAcceptable,
        Self::UrlTooLong,
        Self::HeadersTooLong,
        Self::TooMuch,
        Self::TooManyRequests,
        Self::Failed,
        Self::Busy,
        Self::Stopping,
        Self::NotReady,
        Self::TooSlow,
    ];

    /// Status, name and title.
    pub(crate) const fn about(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::BadParameter => (400, "bad-parameter", "A parameter cannot be used"),
            Self::UnknownParameter => (400, "unknown-parameter", "There is no such parameter"),
            Self::MissingParameter => (400, "missing-parameter", "A parameter is missing"),
            Self::BadRequest => (400, "bad-request", "The request cannot be read"),
            Self::NoToken => (401, "no-token", "A token is needed"),
            Self::WrongToken => (401, "wrong-token", "The token is not the right one"),
            Self::CrossSite => (403, "cross-site", "Other web sites may not ask"),
            Self::WrongHost => (421, "wrong-host", "The request is for another host"),
            Self::NotFound => (404, "not-found", "There is nothing at this path"),
            Self::NoSuchName => (404, "no-such-name", "Nothing has this name"),
            Self::MethodNotAllowed => (405, "method-not-allowed", "Not with this method"),
            Self::NotAcceptable => (406, "not-acceptable", "Not in this form"),
            Self::UrlTooLong => (414, "url-too-long", "The URL is too long"),
            Self::HeadersTooLong => (431, "headers-too-long", "The headers are too long"),
            Self::TooMuch => (422, "too-much", "The answer would be too large"),
            Self::TooManyRequests => (429, "too-many-requests", "Too many requests"),
            Self::Failed => (500, "failed", "The agent could not answer"),
            Self::Busy => (503, "busy", "Too much is being answered"),
            Self::Stopping => (503, "stopping", "It is stopping"),
            Self::NotReady => (503, "not-ready", "It is not ready"),
            Self::TooSlow => (503, "too-slow", "The answer took too long"),
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        StatusCode::from_u16(self.about().0).expect("the table has statuses of HTTP")
    }
}

/// One error of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    /// Seconds after which it may be tried again.
    pub(crate) retry_after: Option<u64>,
    /// Methods that the path takes.
    pub(crate) allow: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            retry_after: None,
            allow: None,
        }
    }

    pub(crate) fn after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// More is being answered than the config lets.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::new(Kind::Busy, detail).after(1)
    }
}

impl Problem {
    fn body(&self) -> String {
        let (status, name, title) = self.kind.about();
        let body = json!({
            "type": format!("urn:forebay:problem:{name}"),
            "title": title,
            "status": status,
            "detail": self.detail,
        });
        body.to_string()
    }

    /// All bytes of an answer that is the last of its connection, where no route answers.
    pub(crate) fn closing(&self) -> Vec<u8> {
        let status = self.kind.status();
        let after = self.retry_after.map_or(String::new(), |seconds| {
            format!("retry-after: {seconds}\r\n")
        });
        let body = self.body();
        let text = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\n{after}\
             cache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        text.into_bytes()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.kind.status(), self.body()).into_response();
        let headers = response.headers_mut();
        let is = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, is);
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if self.kind.status() == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer realm=\"forebay\"");
            headers.insert(WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

/// What a client sent, as it may be shown: no control characters, not long.
pub(crate) fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let start: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    let cut = if chars.next().is_some() { "..." } else { "" };
    format!("{}{cut}", start.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_a_status() {
        let mut names: Vec<&str> = Kind::ALL.map(|kind| kind.about().1).into();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            assert!(kind.status().is_client_error() || kind.status().is_server_error());
        }
    }

    #[test]
    fn what_is_shown_is_cut_and_plain() {
        for (name, text, want) in [
            ("plain", "abc".to_owned(), "abc".to_owned()),
            ("a line end", "a\nb".to_owned(), "a\\nb".to_owned()),
            ("just so long", "x".repeat(80), "x".repeat(80)),
            ("longer", "x".repeat(81), "x".repeat(80) + "..."),
        ] {
            assert_eq!(shown(&text), want, "{name}");
        }
    }

    #[test]
    fn headers_say_what_else_a_client_needs() {
        let response = Problem::busy("x").into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let response = Problem::new(Kind::NoToken, "x").into_response();
        assert_eq!(
            response.headers()[WWW_AUTHENTICATE],
            "Bearer realm=\"forebay\""
        );
    }
}
