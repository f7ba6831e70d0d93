//! The process that is killed: a source with a log of its own, a file to which a batch is
//! appended and synced before the source is told that it is durable.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use forebay_core::effect::{SourceEvent, SourcePosition};
use forebay_node::sources::postgres::hand::Said;

use super::rig;

pub(crate) const DIR_VAR: &str = "FOREBAY_TEST_CAPTURE_DIR";
pub(crate) const PORT_VAR: &str = "FOREBAY_TEST_CAPTURE_PORT";
pub(crate) const PASSWORD_VAR: &str = "FOREBAY_TEST_CAPTURE_PASSWORD_FILE";
pub(crate) const TEST: &str = "child::child_captures_until_it_is_killed";
/// Ends a batch; its position follows.
const END: &str = "batch ";

/// The lines of whole batches, and the position of the last.
pub(crate) fn read(file: &Path) -> (Vec<String>, Option<SourcePosition>) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = whole(&text);
    let lines: Vec<String> = text[..whole].lines().map(str::to_owned).collect();
    let ends = lines.iter().rev().find_map(|line| line.strip_prefix(END));
    let position = ends.map(|position| SourcePosition(position.into()));
    (lines, position)
}

/// Bytes up to the end of the last whole batch.
fn whole(text: &str) -> usize {
    let mut at = 0;
    let mut whole = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.starts_with(END) && line.ends_with('\n') {
            whole = at;
        }
    }
    whole
}

/// One line of the log.
fn line(event: &SourceEvent) -> String {
    match event {
        SourceEvent::SnapshotBegin { table, .. } => format!("begin {table}"),
        SourceEvent::SnapshotRow { table, row, .. } => format!("row {table} {row}"),
        SourceEvent::SnapshotEnd { table, .. } => format!("end {table}"),
        SourceEvent::Heartbeat { .. } => "heartbeat".to_owned(),
        SourceEvent::Upsert { .. } | SourceEvent::Delete { .. } | SourceEvent::Truncate { .. } => {
            rig::changes(std::slice::from_ref(event)).concat()
        }
    }
}

fn open(file: &Path) -> File {
    let options = OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(file);
    let mut log = options.unwrap();
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    // What a kill has cut off comes again.
    log.set_len(whole(&text) as u64).unwrap();
    log.seek(SeekFrom::End(0)).unwrap();
    log
}

/// The child: runs only when the parent set the variables.
#[test]
fn child_captures_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR_VAR) else {
        return;
    };
    let dir = Path::new(&dir);
    let port = std::env::var(PORT_VAR).unwrap().parse().unwrap();
    let password = std::env::var_os(PASSWORD_VAR).unwrap();
    let file = dir.join("log");
    let mut log = open(&file);
    let (_, held) = read(&file);
    let config = rig::config(port, Path::new(&password));
    let (send, said) = channel();
    let source = rig::source(config, dir, held, rig::tables());
    let handle = source
        .spawn(Arc::new(move |one| send.send(one).is_ok()))
        .unwrap();
    for one in said {
        match one {
            Said::Batch(batch) => {
                let mut lines: Vec<String> = batch.events.iter().map(line).collect();
                lines.push(format!("{END}{}\n", batch.position.0));
                log.write_all(lines.join("\n").as_bytes()).unwrap();
                log.sync_data().unwrap();
                handle.durable(batch.position);
            }
            Said::State { .. } => {}
            Said::Note(text) => eprintln!("{text}"),
        }
    }
}
