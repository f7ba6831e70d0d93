//! HTTP: what operators, scripts, Prometheus and Grafana ask, and the page.
//!
//! Always holds: nothing that is served changes anything; a client that is slow, or
//! says nothing, holds up neither the agent nor other clients; off loopback each
//! request proves who asks. Bound: limits.rs and `[api]` of the config. Decides
//! nothing about readings: the agent does.

mod accept;
mod ask;
mod channels;
mod connection;
mod cursor;
mod endpoints;
mod events;
mod examples;
mod follow;
mod given;
mod guard;
mod health;
pub mod limits;
mod listen;
#[cfg(test)]
mod manual;
pub mod metrics;
mod names;
pub mod openapi;
mod page;
mod parts;
mod patient;
mod places;
pub(crate) mod problem;
mod rates;
mod reading;
mod receiver;
mod renewed;
mod routes;
mod run;
mod secret;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod worded;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};

use axum::routing::get;
use axum::{Router, middleware};
use forebay_core::near::did_you_mean;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::channels::KeptCatalog;
use self::connection::{Patience, Serving};
use self::guard::Guard;
use self::limits::{ANSWERS_KIB_MAX, BODY_BYTES_MAX};
use self::listen::SocketFile;
use self::problem::{Kind, Problem, shown};
use self::rates::Rates;
use self::run::Run;
use crate::config::ApiConfig;
use crate::local::Asked;
use crate::ports::Say;
use crate::promql;
use crate::reads::Reads;

/// What routes are answered from.
pub(crate) struct App {
    reads: Reads,
    catalog: KeptCatalog,
    /// Answers that may still be begun.
    places: Arc<Semaphore>,
    /// KiB that answers may still hold.
    room: Arc<Semaphore>,
    request_time: Duration,
    /// Streams that may still be followed.
    streams: Arc<Semaphore>,
}

impl App {
    fn new(config: &ApiConfig, reads: Reads) -> Self {
        Self {
            reads,
            catalog: KeptCatalog::default(),
            places: Arc::new(Semaphore::new(config.reads)),
            room: Arc::new(Semaphore::new(ANSWERS_KIB_MAX)),
            request_time: config.request_time,
            streams: Arc::new(Semaphore::new(config.streams)),
        }
    }

    /// A place among the answers that are made at the same time.
    fn place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Problem::busy("as many answers are made as reads in [api] lets: ask again in a moment")
        })
    }

    /// Room for an answer of so many bytes until the client has taken it.
    fn hold(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        Arc::clone(&self.room)
            .try_acquire_many_owned(kib)
            .map_err(|_| {
                let detail = format!(
                    "this answer and those that other clients have not taken yet have more than \
                 {ANSWERS_KIB_MAX} KiB: ask again in a moment, or for less at once"
                );
                Problem::busy(detail)
            })
    }
}

/// What happens when the port of the config is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The start fails, and says so.
    Refuse,
    /// Any free port does.
    AnyPort,
}

/// HTTP that is being served. Dropping it takes no more connections, and lets answers that
/// have begun end soon.
#[derive(Debug)]
pub struct Api {
    address: Option<SocketAddr>,
    is_tls: bool,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    _socket: Option<SocketFile>,
}

impl Api {
    /// Serves what `config` says, on the current tokio runtime.
    ///
    /// # Errors
    /// A sentence: a file that does not do, an address that is taken.
    pub async fn start(
        config: &ApiConfig,
        reads: Reads,
        taken: Taken,
        say: &Say,
    ) -> Result<Self, String> {
        let routes = agent(App::new(config, reads));
        Self::serve(Patience::default(), config, routes, taken, say).await
    }

    /// Serves what a receiver says of itself, who is asked by `asked`.
    ///
    /// # Errors
    /// As [`Api::start`].
    pub async fn start_receiver(
        config: &ApiConfig,
        asked: mpsc::Sender<Asked>,
        say: &Say,
    ) -> Result<Self, String> {
        let routes = receiver::routes(asked);
        Self::serve(Patience::default(), config, routes, Taken::Refuse, say).await
    }

    async fn serve(
        patience: Patience,
        config: &ApiConfig,
        routes: Router,
        taken: Taken,
        say: &Say,
    ) -> Result<Self, String> {
        let started = Instant::now();
        let file = config.token_file.as_ref();
        let token = file.map(|file| secret::renewed_token(file, (patience.look, say, started)));
        let token = token.transpose().map_err(|error| error.to_string())?;
        let files = config.tls.as_ref();
        let tls = files.map(|files| secret::renewed_tls(files, (patience.look, say, started)));
        let tls = tls.transpose().map_err(|error| error.to_string())?;
        let guard = Guard {
            section: config.section,
            token,
            hosts: config.hosts.clone(),
            rates: Mutex::new(Rates::new(config.requests_per_s)),
            request_time: config.request_time,
            started,
        };
        let (stopping, stops) = watch::channel(false);
        let serving = Serving {
            router: guarded(routes, guard),
            tls: tls.map(Arc::new),
            patience,
            section: config.section,
            stopping: stops,
        };
        let places = Arc::new(Semaphore::new(config.connections));
        let mut api = Self {
            address: None,
            is_tls: serving.tls.is_some(),
            stopping,
            tasks: Vec::new(),
            _socket: None,
        };
        if let Some(listen) = &config.listen {
            let listener = listen::bind(listen.value, taken == Taken::AnyPort, config.section);
            let listener = listener.await?;
            let address = listener.local_addr().map_err(|error| error.to_string())?;
            if !address.ip().is_loopback() && !api.is_tls {
                say(
                    "the API is reached from other machines without TLS: its token goes over the \
                     network in plain; give tls_cert and tls_key",
                );
            }
            api.address = Some(address);
            let task = listen::tcp(listener, serving.clone(), Arc::clone(&places));
            api.tasks.push(tokio::spawn(task));
        }
        if let Some(path) = &config.socket {
            let (listener, file) = listen::bind_socket(path)?;
            api._socket = Some(file);
            let task = listen::unix(listener, serving, places);
            api.tasks.push(tokio::spawn(task));
        }
        Ok(api)
    }

    /// Where it is reached over the network.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where a browser finds it.
    #[must_use]
    pub fn page(&self) -> Option<String> {
        let scheme = if self.is_tls { "https" } else { "http" };
        self.address.map(|address| format!("{scheme}://{address}/"))
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        // Connections end by themselves; without any nobody hears it.
        let _ = self.stopping.send(true);
    }
}

/// Every request passes the guard first.
fn guarded(routes: Router, guard: Guard) -> Router {
    routes
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(
            Arc::new(guard),
            guard::guard,
        ))
}

/// All that an agent answers.
fn agent(app: App) -> Router {
    let queries = promql::routes(app.reads.clone());
    let run = Run::new();
    let app = Arc::new(app);
    let open = Router::new()
        .route(endpoints::HEALTHZ.path, get(health::healthz))
        .route(endpoints::READYZ.path, get(health::readyz))
        .with_state(Arc::clone(&app));
    Router::new()
        .route(endpoints::ROLLING.path, get(reading::rolling))
        .route(endpoints::ROLLUPS.path, get(reading::rollups))
        .route(endpoints::READINGS.path, get(reading::readings))
        .route(endpoints::ROWS.path, get(reading::rows))
        .route(endpoints::STATUS.path, get(routes::status))
        .route(endpoints::LEDGER.path, get(routes::ledger))
        .route(endpoints::ALARMS.path, get(routes::alarms))
        .route(endpoints::DEVICES.path, get(routes::devices))
        .route(endpoints::DEVICE.path, get(routes::device))
        .route(endpoints::STREAMS.path, get(routes::streams))
        .route(endpoints::STREAM.path, get(follow::stream))
        .route(endpoints::METRICS.path, get(routes::metrics))
        .route(endpoints::DOCUMENT.path, get(routes::document))
        .with_state(app)
        .layer(middleware::map_response(move |response| {
            std::future::ready(run.mark(response))
        }))
        .merge(open)
        .merge(page::routes())
        .merge(queries)
        .fallback(no_such_path)
}

async fn no_such_path(uri: Uri) -> Problem {
    let paths = endpoints::ALL.iter().map(|endpoint| endpoint.path);
    let near = did_you_mean(uri.path(), paths.chain(endpoints::BESIDE));
    let path = shown(uri.path());
    let detail = format!("nothing is at {path}{near}; /api/v1/openapi.json names every path");
    Problem::new(Kind::NotFound, detail)
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let (method, path) = (shown(method.as_str()), shown(uri.path()));
    let mut problem = Problem::new(
        Kind::MethodNotAllowed,
        format!("{path} takes GET and HEAD, not {method}: nothing here changes anything"),
    );
    problem.allow = Some("GET, HEAD");
    problem
}
