//! `forebay run`: the agent until a signal ends it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::heap;
use crate::agent::Agent;
use crate::api::{Api, Taken};
use crate::config::Config;
use crate::exit::Exit;
use crate::ports::Say;
use crate::terminal::fail;

/// Runs the agent: takes readings from devices, keeps them, computes, forwards
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  forebay run --config gateway.toml

SIGINT or SIGTERM ends it once all that was received is on disk.")]
pub(super) struct RunArgs {
    /// Config of the agent
    #[arg(long, value_name = "FILE", default_value = super::CONFIG_DEFAULT)]
    config: PathBuf,
}

impl RunArgs {
    /// The agent of this config.
    pub(super) fn of(config: PathBuf) -> Self {
        Self { config }
    }
}

/// Runs the agent of a config file.
pub(super) fn run(args: &RunArgs) -> ExitCode {
    // The config is checked before anything on disk is touched.
    let named = |config: Config| {
        config
            .gateway()
            .map(str::to_owned)
            .map(|name| (config, name))
    };
    let (config, name) = match Config::load(&args.config).and_then(named) {
        Ok(config) => config,
        Err(error) => {
            fail(&error.to_string());
            return Exit::Usage.into();
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let done = runtime
        .map_err(|error| format!("no threads: {error}"))
        .and_then(|runtime| runtime.block_on(serve(&config, &name)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => fail(&text),
    }
}

async fn serve(config: &Config, name: &str) -> Result<(), String> {
    let say: Say = Arc::new(|text: &str| eprintln!("forebay: {text}"));
    let signals = |error| format!("no signal handler: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut agent = tokio::select! {
        started = Agent::start(config, &say) => started?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let api = match &config.api {
        None => None,
        Some(api) => match Api::start(api, agent.handle(), Taken::Refuse, &say).await {
            Ok(api) => Some(api),
            Err(text) => return agent.stop().await.and(Err(text)),
        },
    };
    say(&format!(
        "gateway {name} is running; ask it with: forebay status --socket {}",
        agent.socket().display()
    ));
    if let Some(page) = api.as_ref().and_then(Api::page) {
        say(&format!("page: {page}"));
    }
    tokio::select! {
        () = heap::give_back() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        failed = agent.failed() => {
            return failed.and(Err(String::from("the agent ended by itself")));
        }
    }
    drop(api);
    say("stopping: what was received is being written");
    agent.stop().await
}
