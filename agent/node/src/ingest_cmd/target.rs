//! Where readings go: to the agent that runs, or to one that is started here for
//! as long as the import takes, without ports and without a broker. Both take the
//! same requests.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::import::SessionNo;
use forebay_core::layout::Layouts;
use forebay_core::retention::{FIXED_TOPICS, TopicPolicy, WhenFull};
use forebay_core::topics::TopicTable;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::args::IngestArgs;
use crate::agent::{Agent, imports};
use crate::config::Config;
use crate::local;
use crate::ports::Say;
use crate::store::LogReader;

/// How long a batch may take: a log that is full for a while is waited for.
const BATCH_MAX: Duration = Duration::from_secs(600);

/// Takes batches.
#[derive(Debug)]
pub(super) enum Target {
    Running { socket: PathBuf },
    Here { runtime: Runtime, agent: Box<Agent> },
}

impl Target {
    /// Finds the agent, or starts one.
    ///
    /// # Errors
    /// A sentence: what is wrong, and where.
    pub(super) fn find(args: &IngestArgs, say: &Say) -> Result<Self, String> {
        let mut config = match &args.data_dir {
            Some(dir) => for_data_dir(dir)?,
            None => Config::load(&args.config).map_err(|error| error.to_string())?,
        };
        let socket = config.query.socket.clone();
        if UnixStream::connect(&socket).is_ok() {
            return Ok(Self::Running { socket });
        }
        if let Some(dir) = &args.data_dir {
            as_the_log_is(dir, &mut config)?;
        }
        config.device_ports.clear();
        config.forward.clear();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| format!("no threads: {error}"))?;
        let agent = runtime.block_on(Agent::start(&config, say))?;
        let agent = Box::new(agent);
        Ok(Self::Here { runtime, agent })
    }

    /// Whether the agent was running before.
    pub(super) fn is_running(&self) -> bool {
        match self {
            Self::Running { .. } => true,
            Self::Here { .. } => false,
        }
    }

    /// Gives a request and waits for its answer.
    ///
    /// # Errors
    /// What the agent said, or that it does not answer.
    pub(super) fn ask(&self, request: &str) -> Result<Value, String> {
        match self {
            Self::Running { socket } => Ok(local::ask_line(socket, request, BATCH_MAX)?),
            Self::Here { runtime, agent } => {
                let request = serde_json::from_str(request)
                    .map_err(|error| format!("a batch is no JSON: {error}"))?;
                runtime.block_on(agent.ask(request))
            }
        }
    }

    /// Ends the session, and the agent where it was started here.
    ///
    /// # Errors
    /// Why the log could not be closed as it should.
    pub(super) fn close(self, session: Option<SessionNo>) -> Result<(), String> {
        if let Some(session) = session {
            // A session that is not ended gives its place away after a while.
            let _ = self.ask(&imports::end(session).to_string());
        }
        match self {
            Self::Running { .. } => Ok(()),
            Self::Here { runtime, agent } => runtime.block_on(agent.stop()),
        }
    }
}

/// A config of nothing but a data directory.
fn for_data_dir(dir: &Path) -> Result<Config, String> {
    // A mistyped path must not become a new log.
    if !dir.join("log").is_dir() {
        return Err(format!(
            "{} holds no log: check the path, or give the agent's --config",
            dir.display()
        ));
    }
    let text = "[agent]\ngateway = \"ingest\"\n";
    let mut config =
        Config::from_text(Path::new("--data-dir"), text).map_err(|error| error.to_string())?;
    config.query.socket = dir.join("forebay.sock");
    config.agent.data_dir = dir.to_owned();
    Ok(config)
}

/// Takes from the log itself what only its agent's config says: how many partitions
/// there are. Nothing is dropped for this import: how much may be kept is not known.
fn as_the_log_is(dir: &Path, config: &mut Config) -> Result<(), String> {
    let reader = LogReader::open(dir).map_err(|error| error.to_string())?;
    if let Err(shrinks) = Layouts::restore(&reader.meta, config.agent.partitions, &reader.heads) {
        config.agent.partitions = shrinks.has;
    }
    let topics = TopicTable::restore(&reader.meta, &reader.heads);
    let windows = topics.windows().map(|(_, name)| name);
    let fixed = FIXED_TOPICS.into_iter().map(String::from);
    let keep = TopicPolicy {
        quota_bytes: 1 << 50,
        age: None,
        when_full: WhenFull::RejectNew,
    };
    let policies = fixed.chain(windows).map(|name| (name, keep));
    config.log.space.topics = policies.collect();
    Ok(())
}

/// Says what an agent has to say, on standard error.
pub(crate) fn say() -> Say {
    Arc::new(|text: &str| eprintln!("forebay: {text}"))
}
