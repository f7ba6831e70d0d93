//! What is known of the log beside its data: a small file, written whole at every
//! opening, after every seal and at a clean close, that damaged data cannot take
//! along. It keeps the log id, the highest epoch and how far each partition was
//! durable, so that a loss is seen and no later record can look like one that was
//! lost.
//!
//! Bound: [`FILE_BYTES_MAX`]. Text format: `agent/node/docs/store.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;

use forebay_core::log::key::TopicPartition;
use forebay_core::units::{Epoch, LogId, Offset, PartitionId, TopicId};

use super::{OpenError, fault, sync_dir};

const FILE_NAME: &str = "identity";
const FIRST_LINE: &str = "forebay log 1";
/// Heads of some 30,000 partitions.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) log_id: LogId,
    /// Highest that was ever begun.
    pub(super) epoch: Epoch,
    /// Offset below which each partition was durable when this was written.
    pub(super) heads: BTreeMap<TopicPartition, Offset>,
}

impl Identity {
    /// Reads the file; `None` when there is none, or none that can be read: then
    /// the database alone says what is known.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn read(log_dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = log_dir.join(FILE_NAME);
        let file = match std::fs::File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| OpenError::system(&path, "open", &error))?,
        };
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| OpenError::system(&path, "read", &error))?;
        Ok(std::str::from_utf8(&bytes).ok().and_then(Self::parse))
    }

    /// Replaces the file; when this returns, the new one survives a power cut.
    ///
    /// # Errors
    /// When the system refuses; the old file then still stands.
    pub(super) fn write(&self, log_dir: &Path) -> Result<(), OpenError> {
        let new = log_dir.join(format!("{FILE_NAME}.new"));
        let write = || {
            let mut file = std::fs::File::create(&new)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fault::point("identity.new");
            std::fs::rename(&new, log_dir.join(FILE_NAME))?;
            fault::point("identity.renamed");
            sync_dir(log_dir)
        };
        write().map_err(|error| OpenError::system(&new, "write", &error))
    }

    fn text(&self) -> String {
        let Self {
            log_id,
            epoch,
            heads,
        } = self;
        let mut out = format!("{FIRST_LINE}\nlog_id {log_id}\nepoch {}\n", epoch.0);
        for (at, head) in heads {
            let (topic, partition) = (at.topic.0, at.partition.0);
            writeln!(out, "head {topic} {partition} {}", head.0)
                .expect("writing to a String cannot fail");
        }
        let crc = crc32c::crc32c(out.as_bytes());
        out + &format!("crc {crc:08x}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, crc) = text.strip_suffix('\n')?.rsplit_once("crc ")?;
        if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let log_id = u128::from_str_radix(lines.next()?.strip_prefix("log_id ")?, 16).ok()?;
        let epoch = lines.next()?.strip_prefix("epoch ")?.parse().ok()?;
        Some(Self {
            log_id: LogId(log_id.to_be_bytes()),
            epoch: Epoch(epoch),
            heads: lines.map(parse_head).collect::<Option<_>>()?,
        })
    }
}

fn parse_head(line: &str) -> Option<(TopicPartition, Offset)> {
    let mut numbers = line.strip_prefix("head ")?.split(' ');
    let at = TopicPartition {
        topic: TopicId(numbers.next()?.parse().ok()?),
        partition: PartitionId(numbers.next()?.parse().ok()?),
    };
    let head = Offset(numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some((at, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        let head = |topic, partition, offset| {
            let at = TopicPartition {
                topic: TopicId(topic),
                partition: PartitionId(partition),
            };
            (at, Offset(offset))
        };
        Identity {
            log_id: LogId([0x0a; 16]),
            epoch: Epoch(7),
            heads: BTreeMap::from([head(1, 0, 55), head(16, 3, u64::MAX)]),
        }
    }

    #[test]
    fn the_text_is_as_documented_and_reads_back() {
        let text = identity().text();
        let id = "0a".repeat(16);
        let want = format!(
            "forebay log 1\nlog_id {id}\nepoch 7\nhead 1 0 55\n\
             head 16 3 18446744073709551615\ncrc "
        );
        assert!(text.starts_with(&want), "{text}");
        assert_eq!(Identity::parse(&text), Some(identity()));
    }

    #[test]
    fn anything_else_is_none() {
        let text = identity().text();
        for cut in 0..text.len() {
            assert_eq!(Identity::parse(&text[..cut]), None, "cut at {cut}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(Identity::parse(&changed), None, "byte {at}");
        }
    }

    #[test]
    fn the_file_is_replaced_and_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Identity::read(dir.path()).unwrap(), None);
        identity().write(dir.path()).unwrap();
        let next = Identity {
            epoch: Epoch(8),
            ..identity()
        };
        next.write(dir.path()).unwrap();
        assert_eq!(Identity::read(dir.path()).unwrap(), Some(next));
        std::fs::write(dir.path().join(FILE_NAME), b"\xff").unwrap();
        assert_eq!(Identity::read(dir.path()).unwrap(), None);
    }
}
