//! Changes as lines of a file that somebody appends to: Debezium's events or our own.
//!
//! Always holds: a line is read again after a crash unless what it said is durable,
//! and then it is not. Bound: a chunk of the file in memory, beside the batches of the
//! link.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Instant, SystemTime};

use forebay_core::effect::{SourceBatch, SourceState};
use forebay_core::limits::SOURCE_BATCH_EVENTS_MAX;

use self::follower::{Follower, Line, Look};
use self::mark::{Mark, place};
use super::debezium::Rules;
use super::limits::FILE_LOOK;
use super::link::{Source, SourceLink, Stopped};
use super::reader::{Piece, Reader};
use super::utc_of;

mod follower;
mod mark;

/// A table's file.
#[derive(Debug, Clone)]
pub struct FileSource {
    pub path: PathBuf,
    pub rules: Rules,
}

impl Source for FileSource {
    fn run(&self, link: SourceLink) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let source = self.clone();
        Box::pin(async move {
            // An agent that has stopped hears nothing more.
            let _ = follow(source, link).await;
        })
    }
}

async fn follow(source: FileSource, mut link: SourceLink) -> Result<(), Stopped> {
    let mark = link.durable().as_ref().and_then(Mark::read);
    let mut follower = Follower::new(&source.path, mark.as_ref());
    let mark = mark.unwrap_or_default();
    let mut tail = Tail {
        reader: Reader::new(source.rules, mark.repeats.clone(), link.figures().clone()),
        name: source.path.display().to_string(),
        mark,
        said: None,
    };
    while !link.is_draining() {
        // The disk may be slow, and the loop of the agent is not to wait for it.
        let looked = tokio::task::spawn_blocking(move || {
            let look = follower.look(Instant::now());
            (follower, look)
        });
        let Ok((again, look)) = looked.await else {
            let why = String::from("its reader broke: see what was printed");
            return link.state(SourceState::Failed(why), None).await;
        };
        follower = again;
        let is_quiet = look.lines.is_empty();
        tail.take(look, &mut link).await?;
        if is_quiet {
            tokio::select! {
                moved = link.moved() => drop(moved?),
                () = tokio::time::sleep(FILE_LOOK) => {}
            }
        }
    }
    Ok(())
}

/// What is known behind the last line.
struct Tail {
    reader: Reader,
    name: String,
    mark: Mark,
    said: Option<(SourceState, u64)>,
}

impl Tail {
    async fn take(&mut self, look: Look, link: &mut SourceLink) -> Result<(), Stopped> {
        for note in look.notes {
            link.say(note).await;
        }
        let state = match look.waits {
            Some(why) => SourceState::Waiting(why),
            None => SourceState::Streaming,
        };
        let said = (state, look.behind);
        if self.said.as_ref() != Some(&said) {
            let (state, behind) = said.clone();
            self.said = Some(said);
            link.state(state, Some(behind)).await?;
        }
        let mut batch = Vec::new();
        let mut is_sent = true;
        for line in look.lines {
            if let Some(note) = self.take_line(&line, &mut batch) {
                link.say(note).await;
            }
            self.mark = Mark {
                file: line.file,
                offset: line.end,
                lines: line.number,
                identity: look.identity,
                repeats: self.reader.repeats().clone(),
            };
            is_sent = batch.len() + EVENTS_OF_A_LINE_MAX > SOURCE_BATCH_EVENTS_MAX;
            if is_sent {
                self.send(&mut batch, link).await?;
            }
        }
        if is_sent {
            return Ok(());
        }
        self.send(&mut batch, link).await
    }

    fn take_line(
        &mut self,
        line: &Line,
        batch: &mut Vec<forebay_core::effect::SourceEvent>,
    ) -> Option<String> {
        let name = format!("{} line {}", self.name, line.number);
        let now = Instant::now();
        let Some(bytes) = &line.text else {
            return self.reader.refuse(&name, "is too long", now);
        };
        if bytes.trim_ascii().is_empty() {
            return None;
        }
        let piece = Piece {
            name: &name,
            place: &place(line.file, line.end),
            key: None,
            bytes,
        };
        let now = (utc_of(SystemTime::now()), now);
        self.reader.take(piece, now, batch)
    }

    async fn send(
        &self,
        batch: &mut Vec<forebay_core::effect::SourceEvent>,
        link: &mut SourceLink,
    ) -> Result<(), Stopped> {
        let batch = SourceBatch {
            events: std::mem::take(batch),
            position: self.mark.position(),
        };
        link.send(batch).await
    }
}

/// An update that gives a row another key is two.
const EVENTS_OF_A_LINE_MAX: usize = 2;
const _: () = assert!(EVENTS_OF_A_LINE_MAX <= SOURCE_BATCH_EVENTS_MAX);
