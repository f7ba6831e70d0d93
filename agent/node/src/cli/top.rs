//! `forebay top`: a running agent, drawn anew each second.
//!
//! Asks over the local socket in a thread of its own, so that keys are answered while
//! an agent is slow. Bound: one round of questions at a time.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use forebay_core::query::{ChannelName, ChannelQuery, Query};
use forebay_core::units::Span;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::query::Target;
use crate::agent::questions;
use crate::config::duration;
use crate::exit::{Exit, Failure};
use crate::shell::output;
use crate::shell::{colour, when};
use crate::terminal::parse_duration;
use crate::top::model::{Key, Press, Top};
use crate::top::screen::Screen;
use crate::top::view;

/// Width of a frame that is printed.
const PRINTED_WIDTH: usize = 160;

/// Shows a running agent live: devices, rates, freshness, rolling means, backlog, alarms
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  forebay top --config gateway.toml
  forebay top --once | head -20

Keys: s sorts by the next column, r turns the order round, / filters, p pauses, arrows move,
h shows help, q quits. Without a terminal, or with --once, it prints one frame and ends.")]
pub(super) struct TopArgs {
    /// Print one frame and end
    #[arg(long)]
    once: bool,
    /// Time between two looks
    #[arg(long, value_parser = parse_duration, default_value = "1s", value_name = "DURATION")]
    every: Duration,
    /// Length of the rolling mean's window
    #[arg(long, value_parser = parse_window, default_value = "60s", value_name = "DURATION")]
    window: Window,
    /// Show only rows with this text
    #[arg(long, default_value = "")]
    filter: String,
    #[command(flatten)]
    target: Target,
}

/// A window, as it was written.
#[derive(Debug, Clone)]
struct Window {
    size: Span,
    text: String,
}

fn parse_window(text: &str) -> Result<Window, String> {
    let size = duration::parse(text)?;
    if size.0 <= 0 {
        return Err(String::from("must be longer than 0, for example 60s"));
    }
    let text = text.to_owned();
    Ok(Window { size, text })
}

/// What one round of questions brought.
#[derive(Debug)]
struct Round {
    status: Value,
    rolling: Vec<(Key, Option<f64>)>,
    /// Since the start.
    at: Duration,
}

/// Runs the command.
pub(super) fn run(args: &TopArgs) -> ExitCode {
    let started = Instant::now();
    let mut top = Top::new("forebay top", &args.window.text);
    top.filter.clone_from(&args.filter);
    // The first answer before the screen: what is wrong then is a sentence.
    let first = match ask(args, &[], started) {
        Ok(first) => first,
        Err(failure) => return output::failed(&failure),
    };
    take(&mut top, first);
    if args.target.json {
        return output::print(&format!("{}\n", top.status));
    }
    if args.once || !Screen::is_there() {
        return once(args, &mut top, started);
    }
    match live(args, top, started) {
        Ok(()) => Exit::Ok.into(),
        Err(text) => output::failed(&Failure::from(text)),
    }
}

/// Prints one frame.
fn once(args: &TopArgs, top: &mut Top, started: Instant) -> ExitCode {
    match ask(args, &top.on_screen(), started) {
        Ok(round) => take(top, round),
        Err(failure) => return output::failed(&failure),
    }
    let lines = view::lines(top, usize::MAX).into_iter();
    let lines =
        lines.map(|line| line.text(PRINTED_WIDTH, colour::on()).trim_end().to_owned() + "\n");
    output::print(&lines.collect::<String>())
}

fn take(top: &mut Top, round: Round) {
    let at = i64::try_from(round.at.as_micros()).unwrap_or(i64::MAX);
    top.on_status(round.status, at, when::now());
    for (key, mean) in round.rolling {
        top.on_rolling(&key, mean);
    }
}

/// Asks for the status, and for the rolling mean of these channels.
fn ask(args: &TopArgs, channels: &[(Key, String)], started: Instant) -> Result<Round, Failure> {
    let mut request = questions::write(&Query::Status);
    request["ledger"] = true.into();
    let status = args.target.ask(&request)?;
    if status.get("gateway").is_none() {
        return Err(Failure::usage(
            "this is a receiver: ask it with forebay upstream status",
        ));
    }
    let at = started.elapsed();
    let mut rolling = Vec::new();
    for (key, device) in channels {
        let channel = ChannelName {
            device: device.clone(),
            channel: key.1.clone(),
        };
        let size = args.window.size;
        let answer = args.target.ask(&questions::write(&Query::Channel(
            channel,
            ChannelQuery::Rolling { size },
        )));
        // A channel that went away since has none.
        rolling.push((key.clone(), answer.ok().and_then(|a| a["mean"].as_f64())));
    }
    Ok(Round {
        status,
        rolling,
        at,
    })
}

/// Draws until a key or a signal ends it.
fn live(args: &TopArgs, top: Top, started: Instant) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let signals = Signals::listen().map_err(|error| format!("no signals: {error}"))?;
        let (wanted, answers) = poller(args, started)?;
        let screen = Screen::open().map_err(|error| format!("the terminal: {error}"))?;
        let shown = show(args, top, screen, signals, (wanted, answers)).await;
        shown.map_err(|error| format!("the terminal: {error}"))
    })
}

/// Signals that end the view.
struct Signals([Signal; 3]);

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn any(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

type Wanted = mpsc::Sender<Vec<(Key, String)>>;
type Answers = mpsc::Receiver<Result<Round, Failure>>;

/// A thread that asks; one round for each list of channels that it gets.
fn poller(args: &TopArgs, started: Instant) -> Result<(Wanted, Answers), String> {
    let (wanted, mut asked) = mpsc::channel::<Vec<(Key, String)>>(1);
    let (sender, answers) = mpsc::channel(1);
    let args = args.clone();
    std::thread::Builder::new()
        .name(String::from("asks"))
        .spawn(move || {
            while let Some(channels) = asked.blocking_recv() {
                let round = ask(&args, &channels, started);
                if sender.blocking_send(round).is_err() {
                    return;
                }
            }
        })
        .map_err(|error| format!("no thread: {error}"))?;
    Ok((wanted, answers))
}

async fn show(
    args: &TopArgs,
    mut top: Top,
    mut screen: Screen,
    mut signals: Signals,
    (wanted, mut answers): (Wanted, Answers),
) -> io::Result<()> {
    let mut ticks = tokio::time::interval(args.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let (_, height) = Screen::size();
        screen.draw(&view::lines(&mut top, height))?;
        tokio::select! {
            () = signals.any() => return Ok(()),
            press = screen.presses.recv() => {
                if !top.on_press(press.unwrap_or(Press::Interrupt)) {
                    return Ok(());
                }
            }
            round = answers.recv() => match round {
                Some(Ok(round)) => take(&mut top, round),
                Some(Err(failure)) => top.on_trouble(failure.text),
                None => return Ok(()),
            },
            _ = ticks.tick() => {
                // While one round is under way, none is added.
                let _ = wanted.try_send(top.on_screen());
            }
        }
    }
}
