//! Who may ask, how often, and how long: what every request passes before a route
//! sees it.
//!
//! Always holds: a request over the network brings the token, where there is one,
//! before anything of the agent is read for it; a web site gets no answer under a name
//! of its own, nor from a page that is not ours. Knows no route but [`OPEN`].

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, ORIGIN,
    TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::limits::{HEADER_BYTES_MAX, URL_BYTES_MAX};
use super::problem::{Kind, Problem, shown};
use super::rates::{Client, Rates};
use super::renewed::Renewed;

/// Paths that say nothing of the agent, and are answered without a token.
pub(super) const OPEN: [&str; 3] = ["/healthz", "/readyz", "/"];
/// The parts of the page, which are the same for everybody and ask with a token themselves.
const OPEN_BELOW: &str = "/page/";

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) client: Client,
    /// Only this computer reaches the listener: whose names are then looked at.
    pub(super) over: Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Socket,
    Loopback,
    Network,
}

/// What requests are held against.
pub(super) struct Guard {
    /// Of the config, as sentences name it.
    pub(super) section: &'static str,
    pub(super) token: Option<Renewed<Arc<[u8]>>>,
    pub(super) hosts: Vec<String>,
    pub(super) rates: Mutex<Rates>,
    pub(super) request_time: Duration,
    pub(super) started: Instant,
}

/// Passes a request on, or answers it with what is wrong.
pub(super) async fn guard(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let has_body = has_body(request.headers());
    let mut response = match guard.look_at(&request) {
        Err(problem) => problem.into_response(),
        Ok(()) => match tokio::time::timeout(guard.request_time, next.run(request)).await {
            Ok(response) => response,
            Err(_) => guard.too_slow().into_response(),
        },
    };
    let is_good = response.status().is_success();
    let headers = response.headers_mut();
    let only_as_said = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, only_as_said);
    let ours = HeaderValue::from_static("same-origin");
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        ours,
    );
    if has_body && !is_good {
        // What was not read of it is in the way of a next request.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let fresh = HeaderValue::from_static("no-store");
    headers.entry(CACHE_CONTROL).or_insert(fresh);
    response
}

impl Guard {
    fn too_slow(&self) -> Problem {
        let detail = format!(
            "no answer within {} s: ask for a shorter range or fewer channels, or let request_time \
             in {} be longer",
            self.request_time.as_secs(),
            self.section
        );
        Problem::new(Kind::TooSlow, detail)
    }

    fn look_at(&self, request: &Request) -> Result<(), Problem> {
        let peer = request.extensions().get::<Peer>().copied();
        let peer = peer.expect("each connection puts its peer into its requests");
        self.rate(peer.client)?;
        sizes(request)?;
        if peer.over == Over::Loopback {
            self.host(request.headers())?;
        }
        if peer.over != Over::Socket {
            same_site(request.headers())?;
            let path = request.uri().path();
            if !OPEN.contains(&path) && !path.starts_with(OPEN_BELOW) {
                self.token(request.headers())?;
            }
        }
        Ok(())
    }

    fn rate(&self, client: Client) -> Result<(), Problem> {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.take(client, self.started.elapsed()).map_err(|wait| {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let detail = format!(
                "this address asks more often than requests_per_second in {} lets: ask less \
                 often, or for more at once",
                self.section
            );
            Problem::new(Kind::TooManyRequests, detail).after(seconds)
        })
    }

    /// The name that the request is for: a web site that points its own name at this
    /// computer (DNS rebinding) is refused. An address cannot be pointed elsewhere.
    fn host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let given = headers.get(HOST).and_then(|host| host.to_str().ok());
        let Some(given) = given else {
            let detail = "the header Host is missing: send the name or address that was asked";
            return Err(Problem::new(Kind::WrongHost, detail));
        };
        let name = host_name(given).to_ascii_lowercase();
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        if is_local || bare.parse::<IpAddr>().is_ok() || self.hosts.contains(&name) {
            return Ok(());
        }
        Err(Problem::new(
            Kind::WrongHost,
            format!(
                "the request is for the host \"{}\": ask for localhost or 127.0.0.1, or name that \
                 host in hosts of {}",
                shown(&name),
                self.section
            ),
        ))
    }

    fn token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let Some(given) = headers.get(AUTHORIZATION) else {
            let detail = format!(
                "send the header \"Authorization: Bearer TOKEN\" with the token of token_file in {}",
                self.section
            );
            return Err(Problem::new(Kind::NoToken, detail));
        };
        let bytes = given.as_bytes();
        let scheme = bytes.get(..7).unwrap_or_default();
        let given = bytes.get(7..).unwrap_or_default().trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            let detail = "the header Authorization must be \"Bearer TOKEN\"";
            return Err(Problem::new(Kind::NoToken, detail));
        }
        if bool::from(given.ct_eq(&token.get(Instant::now()))) {
            return Ok(());
        }
        let section = self.section;
        let detail = format!("the token is not the first line of token_file in {section}");
        Err(Problem::new(Kind::WrongToken, detail))
    }
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(CONTENT_LENGTH);
    length.is_some_and(|length| length != "0") || headers.contains_key(TRANSFER_ENCODING)
}

/// The host of `host` or `host:port`.
fn host_name(given: &str) -> &str {
    if let Some(end) = given.find(']') {
        return &given[..=end];
    }
    given.split(':').next().unwrap_or_default()
}

fn sizes(request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let url = uri.path().len() + uri.query().map_or(0, |query| 1 + query.len());
    if url > URL_BYTES_MAX {
        let detail = format!("path and query have {url} bytes, at most {URL_BYTES_MAX}");
        return Err(Problem::new(Kind::UrlTooLong, detail));
    }
    let headers = request.headers().iter();
    let bytes: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes > HEADER_BYTES_MAX {
        let detail = format!("the headers have {bytes} bytes, at most {HEADER_BYTES_MAX}");
        return Err(Problem::new(Kind::HeadersTooLong, detail));
    }
    Ok(())
}

/// A browser says for which page it asks: one of another origin gets no answer, except
/// that a link may lead here.
fn same_site(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let of = |name: &'static str| text(HeaderName::from_static(name));
    let by_link = of("sec-fetch-mode") == Some("navigate");
    let is_foreign = matches!(of("sec-fetch-site"), Some("cross-site" | "same-site")) && !by_link;
    let origin = text(ORIGIN).filter(|_| headers.contains_key(HOST));
    let host = text(HOST).unwrap_or_default();
    let is_other = origin.is_some_and(|origin| {
        let host_of = origin.split_once("://").map(|(_, host)| host);
        !host_of.is_some_and(|of| of.eq_ignore_ascii_case(host))
    });
    if is_foreign || is_other {
        let detail = "a page of another site asks: only the agent's own page and programs may";
        return Err(Problem::new(Kind::CrossSite, detail));
    }
    Ok(())
}
