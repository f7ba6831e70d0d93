//! `forebay try`: the engine over recorded data, without an agent and without a
//! clock. Results go to stdout, what was wrong and the counters to stderr.
//!
//! Always: the bytes of the output are the same for every batch size.

mod args;
mod input;
mod line;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use forebay_core::engine::counters::Counters;
use forebay_core::engine::identity::ReadingId;
use forebay_core::engine::row::Rows;
use forebay_core::engine::{Batch, Engine};
use serde_json::{Map, Value};

use crate::config::Config;

pub use self::args::{Summary, TryArgs};
use self::input::{Input, Next};
use self::line::{Boot, Line, Reading};

/// Config or input cannot be used.
const EXIT_UNUSABLE: u8 = 2;
/// With `--strict`: a line was bad.
const EXIT_BAD_LINE: u8 = 1;

/// Runs the command on stdin, stdout and stderr.
#[must_use]
pub fn run(args: &TryArgs) -> ExitCode {
    let mut errors = io::stderr();
    let stdout = io::stdout();
    let mut out = BufWriter::with_capacity(64 * 1024, stdout.lock());
    let done = try_run(args, &mut out, &mut errors).and_then(|code| {
        out.flush().map_err(Stop::Output)?;
        Ok(code)
    });
    match done {
        Ok(code) => code,
        // Whoever read the output has seen enough.
        Err(Stop::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(stop) => {
            let _ = writeln!(errors, "forebay: {stop}");
            ExitCode::from(EXIT_UNUSABLE)
        }
    }
}

/// Why a run ends before its input does.
#[derive(Debug)]
enum Stop {
    Config(crate::config::ConfigError),
    Input(String, io::Error),
    Output(io::Error),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(e) => e.fmt(f),
            Self::Input(name, e) => write!(f, "{name}: cannot be read: {e}"),
            Self::Output(e) => write!(f, "stdout: cannot be written: {e}"),
        }
    }
}

fn try_run(args: &TryArgs, out: &mut dyn Write, errors: &mut dyn Write) -> Result<ExitCode, Stop> {
    let config = Config::load(&args.config).map_err(Stop::Config)?;
    // All of them before the first line: a missing file must not leave half an output.
    let inputs = args.input.iter().map(|path| open(path));
    let inputs: Vec<Input> = inputs.collect::<Result<_, _>>()?;
    let mut run = Run::new(Engine::new(&config.engine), args.batch as usize, out);
    for mut input in inputs {
        run.take(&mut input, errors)?;
    }
    run.step()?;
    if !args.no_flush && !run.steered {
        run.engine.finish(&mut run.rows);
        run.write()?;
    }
    run.out.flush().map_err(Stop::Output)?;
    let rejected = run.rejected;
    let _ = match args.summary {
        Summary::Json => writeln!(errors, "{}", summary_json(&run.engine, rejected)),
        Summary::Text => write_summary(&run.engine, rejected, errors),
    };
    let bad = args.strict && rejected > 0;
    Ok(if bad {
        ExitCode::from(EXIT_BAD_LINE)
    } else {
        ExitCode::SUCCESS
    })
}

fn open(path: &Path) -> Result<Input, Stop> {
    if path == Path::new("-") {
        return Ok(Input::new(
            "stdin".into(),
            Box::new(BufReader::new(io::stdin())),
        ));
    }
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| Stop::Input(name.clone(), e))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(Stop::Input(name, io::ErrorKind::IsADirectory.into()));
    }
    Ok(Input::new(
        name,
        Box::new(BufReader::with_capacity(64 * 1024, file)),
    ))
}

/// A run with what it has gathered.
struct Run<'a> {
    engine: Engine,
    batch_max: usize,
    batch: Batch,
    rows: Rows,
    text: Vec<u8>,
    out: &'a mut dyn Write,
    /// Boots that go by a text, numbered from above the usual ones.
    boots: BTreeMap<String, u64>,
    rejected: u64,
    /// The input says itself how far time has come.
    steered: bool,
}

impl<'a> Run<'a> {
    fn new(engine: Engine, batch_max: usize, out: &'a mut dyn Write) -> Self {
        Self {
            engine,
            batch_max,
            batch: Batch::new(),
            rows: Rows::new(),
            text: Vec::new(),
            out,
            boots: BTreeMap::new(),
            rejected: 0,
            steered: false,
        }
    }

    fn take(&mut self, input: &mut Input, errors: &mut dyn Write) -> Result<(), Stop> {
        loop {
            let next = input
                .next()
                .map_err(|e| Stop::Input(input.name.clone(), e))?;
            let bad = match next {
                Next::End => return Ok(()),
                Next::Bad(what) => Err(what),
                Next::Line(Line::Reading(reading)) => self
                    .add(reading)
                    .map_err(|what| format!("{}: {what}", input.place())),
                Next::Line(Line::Watermark { device, time }) => {
                    self.steered = true;
                    self.step()?;
                    self.engine
                        .on_watermark(device.as_deref(), time, &mut self.rows);
                    self.write()?;
                    Ok(())
                }
                Next::Line(Line::Clock(time)) => {
                    self.steered = true;
                    self.step()?;
                    self.engine.on_clock(time, &mut self.rows);
                    self.write()?;
                    Ok(())
                }
            };
            if let Err(what) = bad {
                self.rejected += 1;
                let _ = writeln!(errors, "{what}");
            }
            if self.batch.len() >= self.batch_max {
                self.step()?;
            }
        }
    }

    fn add(&mut self, reading: Reading) -> Result<(), String> {
        let series = self.engine.series(&reading.device, &reading.channel);
        let series = series.map_err(|e| e.to_string())?;
        let id = reading.id.map(|(boot, seq)| ReadingId {
            boot: self.boot_number(boot),
            seq,
        });
        self.batch.push(series, reading.time, reading.value, id);
        Ok(())
    }

    fn boot_number(&mut self, boot: Boot) -> u64 {
        match boot {
            Boot::Number(n) => n,
            Boot::Text(text) => {
                let next = u64::MAX - self.boots.len() as u64;
                *self.boots.entry(text).or_insert(next)
            }
        }
    }

    /// Gives the batch to the engine and writes what comes out.
    fn step(&mut self) -> Result<(), Stop> {
        self.engine.on_batch(&self.batch, &mut self.rows);
        self.batch.clear();
        self.write()
    }

    fn write(&mut self) -> Result<(), Stop> {
        for row in self.engine.views(&self.rows) {
            row.write_json(&mut self.text);
            self.text.push(b'\n');
        }
        self.rows.clear();
        self.out.write_all(&self.text).map_err(Stop::Output)?;
        self.text.clear();
        Ok(())
    }
}

fn counters_json(counters: &Counters) -> Map<String, Value> {
    let named = counters.named().into_iter();
    named.map(|(name, n)| (name.to_owned(), n.into())).collect()
}

fn summary_json(engine: &Engine, rejected: u64) -> Value {
    let mut summary = counters_json(&engine.counters());
    summary.insert("rejected".into(), rejected.into());
    summary.insert("state_rows".into(), engine.state_rows().into());
    let devices = engine.device_counters();
    let devices = devices.map(|(name, c)| (name.to_owned(), counters_json(&c).into()));
    summary.insert("devices".into(), Value::Object(devices.collect()));
    summary.into()
}

fn write_summary(engine: &Engine, rejected: u64, to: &mut dyn Write) -> io::Result<()> {
    for (name, n) in engine.counters().named() {
        write!(to, "{name} {n}, ")?;
    }
    writeln!(
        to,
        "rejected {rejected}, state_rows {}",
        engine.state_rows()
    )
}

#[cfg(test)]
mod tests;
