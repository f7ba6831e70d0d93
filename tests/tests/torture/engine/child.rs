//! The agent that is killed, in a process of its own: this test binary started anew.
//! It opens the log, may wait until all windows are computed, then takes readings as
//! fast as the disk does, and says so on its standard output, each line whole:
//!
//! | line | meaning |
//! |---|---|
//! | `opening` | the agent is about to start |
//! | `started` | it runs |
//! | `settled` | all windows of what was durable are computed |
//! | `took <n>` | readings below the n-th are durable |
//! | `stopped` | it ended as asked |
//! | `verified` | and `forebay verify` found nothing in what it left |

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use forebay_core::import::SessionNo;
use forebay_node::agent::Agent;
use forebay_node::agent::imports::{BatchText, read_answer};
use forebay_node::config::Config;
use forebay_node::ports::Say;
use forebay_node::verify::{self, VerifyArgs};

use super::feed;

pub(super) const CONFIG_VAR: &str = "FOREBAY_TORTURE_CONFIG";
pub(super) const FEED_SEED_VAR: &str = "FOREBAY_TORTURE_FEED_SEED";
/// The first reading to take, and the one before which to end.
pub(super) const FROM_VAR: &str = "FOREBAY_TORTURE_FROM";
pub(super) const END_VAR: &str = "FOREBAY_TORTURE_END";
/// The name under which the parent starts the test below.
pub(super) const CHILD_TEST: &str = "engine::child::computes_until_it_is_ended";
/// How long windows may take to be computed.
const SETTLE_MAX: Duration = Duration::from_secs(50);

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes())
        .and_then(|()| out.flush())
        .expect("the parent reads");
}

#[test]
fn computes_until_it_is_ended() {
    let Some(path) = std::env::var_os(CONFIG_VAR).map(PathBuf::from) else {
        return;
    };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (seed, from, end) = (number(FEED_SEED_VAR), number(FROM_VAR), number(END_VAR));
    let config = Config::load(&path).unwrap_or_else(|error| panic!("{error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(&config, seed, from, end));
    say("stopped");
    if from == end {
        let args = ["verify", "--config", path.to_str().unwrap()];
        let code = verify::run(&Verify::parse_from(args).args);
        assert_eq!(code, ExitCode::SUCCESS, "see what it printed");
        say("verified");
    }
}

#[derive(clap::Parser)]
struct Verify {
    #[command(flatten)]
    args: VerifyArgs,
}

async fn run(config: &Config, seed: u64, from: u64, end: u64) {
    let aloud: Say = Arc::new(|text: &str| eprintln!("{text}"));
    say("opening");
    let agent = Agent::start(config, &aloud).await;
    let agent = agent.unwrap_or_else(|error| panic!("start refused: {error}"));
    say("started");
    if from == end {
        if !agent.drain(false, SETTLE_MAX).await {
            let status = agent.ask(serde_json::json!({ "query": "status" })).await;
            panic!("windows take too long: {status:?}");
        }
        say("settled");
    }
    let (mut next, mut session) = (from, None);
    while next < end {
        let count = feed::batch(seed, next).min(end - next);
        session = Some(take(&agent, session, seed, (next, next + count)).await);
        next += count;
        say(&format!("took {next}"));
    }
    agent.stop().await.unwrap_or_else(|error| panic!("{error}"));
}

/// Gives readings `[first, end)` to the agent and waits until they are durable.
async fn take(
    agent: &Agent,
    session: Option<SessionNo>,
    seed: u64,
    (first, end): (u64, u64),
) -> SessionNo {
    let mut batch = BatchText::default();
    for n in first..end {
        assert!(
            batch.push(&feed::reading(seed, n)),
            "a batch takes that much"
        );
    }
    let request = serde_json::from_str(&batch.finish(session)).unwrap();
    let answer = agent.ask(request).await;
    let answer = answer.and_then(|answer| read_answer(&answer));
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(answer.refused, [], "nothing is wrong with them");
    answer.session
}
