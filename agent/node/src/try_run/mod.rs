//! `forebay try`: the engine over recorded data and changes of tables, without an agent and without a
//! clock. Results go to stdout, what was wrong and the counters to stderr.
//!
//! Always: the bytes of the output are the same for every batch size, and wherever a
//! restart or crash line stands in the input.

mod args;
mod change;
mod checkpoints;
mod input;
mod line;
mod lines;
mod output;
mod quick;
mod remembered;
mod run;
mod source;
mod summary;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use forebay_core::engine::Engine;

use crate::config::Config;
use crate::exit::Exit;

pub use self::args::{Summary, TryArgs};
use self::checkpoints::Checkpoints;
use self::input::Input;
use self::output::{Output, OutputError};
use self::run::{Pace, Run, Work};
use self::source::Source;

/// A fault of the program itself: recovery gave something else than before.
const EXIT_FAULT: u8 = 3;
/// Bytes of output that are gathered before they are written.
const OUTPUT_BYTES: usize = 64 * 1024;

/// Runs the command on stdin, stdout and stderr.
#[must_use]
pub fn run(args: &TryArgs) -> ExitCode {
    let mut errors = io::stderr();
    let stdout = io::stdout();
    let mut out = BufWriter::with_capacity(OUTPUT_BYTES, stdout.lock());
    let done = try_run(args, &mut out, &mut errors).and_then(|code| {
        out.flush().map_err(|e| Stop::Output(OutputError::Io(e)))?;
        Ok(code)
    });
    match done {
        Ok(code) => code,
        // Whoever read the output has seen enough.
        Err(Stop::Output(OutputError::Io(e))) if e.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(stop) => {
            let _ = writeln!(errors, "forebay: {stop}");
            ExitCode::from(stop.code())
        }
    }
}

/// Why a run ends before its input does.
#[derive(Debug)]
enum Stop {
    Config(crate::config::ConfigError),
    Input(String, io::Error),
    Output(OutputError),
    /// The checkpoints cannot be kept or read.
    State(io::Error),
    /// What a checkpoint holds does not make an engine.
    Recovery(String),
}

impl Stop {
    fn code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Input(..)
            | Self::State(_)
            | Self::Output(OutputError::Io(_)) => Exit::Usage.number(),
            Self::Recovery(_) | Self::Output(OutputError::Differs { .. }) => EXIT_FAULT,
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(e) => e.fmt(f),
            Self::Input(name, e) => write!(f, "{name}: cannot be read: {e}"),
            Self::Output(OutputError::Io(e)) => write!(f, "stdout: cannot be written: {e}"),
            Self::Output(OutputError::Differs { stands, again }) => write!(
                f,
                "internal error: after recovery the output is another one; first difference:\n\
                 stands: {stands}\n\
                 now:    {again}"
            ),
            Self::State(e) => write!(f, "state: cannot be kept: {e}"),
            Self::Recovery(what) => write!(f, "internal error: no recovery: {what}"),
        }
    }
}

fn try_run(args: &TryArgs, out: &mut dyn Write, errors: &mut dyn Write) -> Result<ExitCode, Stop> {
    let config = Config::load(&args.config).map_err(Stop::Config)?;
    // All of them before the first line: a missing file must not leave half an output.
    let inputs = args.input.iter().map(|path| open(path));
    let inputs: Vec<Input> = inputs.collect::<Result<_, _>>()?;
    let checkpoints = match &args.state {
        Some(folder) => Checkpoints::in_folder(folder).map_err(Stop::State)?,
        None => Checkpoints::in_memory(),
    };
    let mut run = Run {
        config: &config.engine,
        tables: &config.tables,
        engine: Engine::new(&config.engine),
        inputs,
        batch_max: args.batch as usize,
        output: Output::new(out),
        errors,
        checkpoints,
        pace: Pace::USUAL,
        work: Work::default(),
    };
    run.all(args.state.is_some(), !args.no_flush)?;
    let rejected = run.rejected();
    let _ = summary::write(args.summary, &run.engine, rejected, run.errors);
    let bad = args.strict && rejected > 0;
    let exit = if bad { Exit::Failed } else { Exit::Ok };
    Ok(exit.into())
}

fn open(path: &Path) -> Result<Input, Stop> {
    if path == Path::new("-") {
        return Ok(Input::new(
            "stdin".into(),
            Source::stream(Box::new(io::stdin().lock())),
        ));
    }
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.file_type(), file)));
    let (kind, file) = opened.map_err(|e| Stop::Input(name.clone(), e))?;
    if kind.is_dir() {
        return Err(Stop::Input(name, io::ErrorKind::IsADirectory.into()));
    }
    // A pipe gives each byte once.
    let source = if kind.is_file() {
        Source::file(file)
    } else {
        Source::stream(Box::new(file))
    };
    Ok(Input::new(name, source))
}

#[cfg(test)]
mod tests;
