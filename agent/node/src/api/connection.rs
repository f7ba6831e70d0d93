//! One connection: TLS where it is wanted, then HTTP/1.1 until it is closed.
//!
//! Always holds: a client that says nothing, or takes nothing, is closed after a time,
//! and waits in a task of its own. Bounds: HEADER_TIME_MAX, STALL_MAX, HEADERS_MAX,
//! READ_BUFFER_BYTES. Knows no route.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::guard::Peer;
use super::limits::{HEADER_TIME_MAX, HEADERS_MAX, LOOK_EVERY, READ_BUFFER_BYTES, STALL_MAX};
use super::patient::Patient;
use super::renewed::Renewed;
use super::worded::Worded;

/// How long a client is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For TLS, and for the headers of a request.
    pub(super) header: Duration,
    /// For it to take anything.
    pub(super) stall: Duration,
    /// Between two looks at the files of secrets.
    pub(super) look: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            header: HEADER_TIME_MAX,
            stall: STALL_MAX,
            look: LOOK_EVERY,
        }
    }
}

/// What all connections share.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) router: Router,
    pub(super) tls: Option<Arc<Renewed<Arc<ServerConfig>>>>,
    pub(super) patience: Patience,
    /// Of the config, as sentences name it.
    pub(super) section: &'static str,
    /// Turns true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

/// Serves one connection to its end.
pub(super) async fn converse<S>(stream: S, peer: Peer, serving: Serving)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Patient::new(stream, serving.patience.stall);
    match serving.tls.clone() {
        None => speak(stream, peer, serving).await,
        Some(tls) => {
            let agreed = TlsAcceptor::from(tls.get(Instant::now())).accept(stream);
            // One that does not agree in time, or has no certificate, is let go.
            if let Ok(Ok(stream)) = tokio::time::timeout(serving.patience.header, agreed).await {
                speak(stream, peer, serving).await;
            }
        }
    }
}

async fn speak<S>(stream: S, peer: Peer, serving: Serving)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(serving.router);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let answered = router.call(request);
        async move { answered.await.map(|response: Response<Body>| response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(serving.patience.header)
        .max_headers(HEADERS_MAX)
        .max_buf_size(READ_BUFFER_BYTES)
        .half_close(false)
        .serve_connection(TokioIo::new(Worded::new(stream)), answer);
    let mut connection = std::pin::pin!(connection);
    let mut stopping = serving.stopping;
    tokio::select! {
        // Its client went away, or broke a rule of HTTP: nobody is left to tell.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|is| *is) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(LAST_WORDS, connection).await;
}

/// How long an answer that has begun may go on while the agent stops.
const LAST_WORDS: Duration = Duration::from_millis(500);
