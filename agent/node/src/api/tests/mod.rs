//! A real agent behind the API, over real sockets.

mod answers;
mod clients;
mod guards;
mod streams;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::connection::Patience;
use super::{Api, Taken};
use crate::agent::Agent;
use crate::config::Config;
use crate::ports::Say;

/// Event time of the first reading: 2026-03-01T00:00:00Z.
pub(super) const FIRST_US: i64 = 1_772_323_200_000_000;
pub(super) const SECOND_US: i64 = 1_000_000;
pub(super) const UID: &str = "0123456789abcdef";

/// An agent with its API.
pub(super) struct Rig {
    pub(super) agent: Agent,
    pub(super) api: Api,
    pub(super) address: SocketAddr,
    pub(super) dir: TempDir,
    pub(super) config: Config,
}

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Got {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let head = head.to_ascii_lowercase();
        let body = if head.contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        Self {
            status: status.unwrap_or(0),
            head,
            body,
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn detail(&self) -> String {
        self.json()["detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &more[..size];
        rest = &more[size + 2..];
        if size == 0 {
            break;
        }
    }
    whole
}

/// Sends a request, and takes all that comes back until the other side closes.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, text: &str) -> Got {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    // One that closes on us has said what it had to say.
    let _ = stream.read_to_end(&mut all).await;
    Got::of(&String::from_utf8_lossy(&all))
}

/// The text of a request that is the last of its connection.
pub(super) fn get(path: &str, headers: &str) -> String {
    let host = if headers.contains("Host:") {
        ""
    } else {
        "Host: localhost\r\n"
    };
    format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n")
}

impl Rig {
    /// An agent with `more` in `[api]`.
    pub(super) async fn new(more: &str) -> Self {
        Self::patient(Patience::default(), more).await
    }

    pub(super) async fn patient(patience: Patience, more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "[agent]\ngateway = \"gw\"\ndata_dir = \"data\"\n\
             [[device]]\nuid = \"{UID}\"\nname = \"boiler\"\n\
             [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
             aggregates = [\"count\", \"mean\", \"min\", \"max\", \"stddev\"]\n\
             [api]\nlisten = \"127.0.0.1:0\"\n{more}\n"
        );
        let config = Config::from_text(&dir.path().join("c.toml"), &text).unwrap();
        let say: Say = Arc::new(|_: &str| {});
        let agent = Agent::start(&config, &say).await.unwrap();
        let served = config.api.as_ref().unwrap();
        let routes = super::agent(super::App::new(served, agent.handle()));
        let api = Api::serve(patience, served, routes, Taken::Refuse, &say);
        let api = api.await.unwrap();
        Self {
            address: api.address().unwrap(),
            agent,
            api,
            dir,
            config,
        }
    }

    /// Imports `count` readings of a channel, a second apart, whose values count from 0,
    /// and waits until they can be asked for.
    pub(super) async fn import(&self, device: &str, channel: &str, count: i64) {
        let records: Vec<Value> = (0..count)
            .map(|n| json!([0, FIRST_US + n * SECOND_US, n]))
            .collect();
        let batch = json!({ "import": {
            "session": null, "series": [[device, channel, "degC"]], "records": records,
        }});
        let answer = self.agent.ask(batch).await.unwrap();
        let end = json!({ "import_end": answer["session"] });
        self.agent.ask(end).await.unwrap();
        loop {
            let status = self.agent.ask(json!({ "query": "status" })).await.unwrap();
            if status["readings_behind"] == 0 && status["stored"] == status["received"] {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Got {
        self.with(path, "").await
    }

    pub(super) async fn with(&self, path: &str, headers: &str) -> Got {
        exchange(self.connect().await, &get(path, headers)).await
    }

    pub(super) async fn end(self) {
        drop(self.api);
        self.agent.stop().await.unwrap();
    }
}

/// A file that only its owner may read.
pub(super) fn secret_file(dir: &Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs a test on a runtime like the agent's.
pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}
