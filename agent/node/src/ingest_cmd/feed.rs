//! Reads the input on a thread of its own, so that what has come is handed on
//! while more is waited for. Bound: [`WAITING_MAX`] records.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::args::IngestArgs;
use crate::import::{InputError, Next, Records};

/// Records that were read and not handed on.
const WAITING_MAX: usize = 4096;
const BUFFER_BYTES: usize = 64 * 1024;

/// What the input brought, and how many of its bytes have been read.
pub(super) type Fed = (Result<Next, InputError>, u64);

/// An input being read.
pub(super) struct Feed {
    /// As errors name it.
    pub(super) name: String,
    /// Bytes of it, where that is known.
    pub(super) bytes: Option<u64>,
    pub(super) fed: Receiver<Fed>,
}

impl Feed {
    /// Opens the input and starts to read.
    ///
    /// # Errors
    /// A sentence: the input cannot be read.
    pub(super) fn start(args: &IngestArgs) -> Result<Self, String> {
        let (name, reader, bytes): (String, Box<dyn io::BufRead + Send>, _) =
            if args.input == Path::new("-") {
                let stdin = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
                (String::from("stdin"), Box::new(stdin), None)
            } else {
                let name = args.input.display().to_string();
                let (file, bytes) = open(&args.input)
                    .map_err(|error| format!("{name}: cannot be read: {error}"))?;
                let file = BufReader::with_capacity(BUFFER_BYTES, file);
                (name, Box::new(file), bytes)
            };
        let mut records = Records::new(reader, args.format, args.rules());
        let from_line = args.from_line;
        let (sender, fed) = sync_channel(WAITING_MAX);
        thread::Builder::new()
            .name(String::from("input"))
            .spawn(move || {
                loop {
                    let next = records.read_next();
                    let over = matches!(next, Err(_) | Ok(Next::End));
                    let before = match &next {
                        Ok(Next::Record(line, _)) => *line < from_line,
                        Ok(Next::Bad(bad)) => bad.line < from_line,
                        Ok(Next::End) | Err(_) => false,
                    };
                    // Nobody listens any more once the import has failed.
                    let gone = !before && sender.send((next, records.bytes())).is_err();
                    if over || gone {
                        return;
                    }
                }
            })
            .map_err(|error| format!("no thread for the input: {error}"))?;
        Ok(Self { name, bytes, fed })
    }
}

fn open(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, metadata.is_file().then_some(metadata.len())))
}
