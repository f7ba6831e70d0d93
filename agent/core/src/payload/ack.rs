//! Up to where the upstream has applied the data of a gateway.
//!
//! Always holds: `parse` of what `render` gave is equal to it. Bound: ACK_MARKS_MAX
//! marks, ACK_RUNS_PER_MARK_MAX runs each and ACK_RUNS_MAX in all. Knows no topic.

use super::CONTROL_VERSION;
use super::control::{self, SessionNonce, set_version};
use super::json::{PayloadError, Reader, need, push_args, set};
use super::names::{GatewayName, StreamName};
use super::parse::at_most;
use crate::limits::{ACK_MARKS_MAX, ACK_RUNS_MAX, ACK_RUNS_PER_MARK_MAX, CONTROL_BYTES_MAX};
use crate::units::{Epoch, EpochNonce, LogId, Offset, PartitionId};

/// What was applied of one opening of the log, of a partition that has more than one
/// history: somebody else has opened a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRun {
    pub epoch: Epoch,
    pub nonce: EpochNonce,
    /// All of `first..next` is applied, or declared as gaps.
    pub first: Offset,
    pub next: Offset,
}

/// Up to where one partition is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckMark {
    pub stream: StreamName,
    pub partition: PartitionId,
    /// Highest epoch of the log of which something is applied.
    pub epoch: Epoch,
    /// Drawn at that opening; unknown where the gateway did not say it.
    pub nonce: EpochNonce,
    /// All offsets below are applied, or declared as gaps.
    pub next: Offset,
    /// Empty where there is one history: then `next` says all. Else the newest runs, at
    /// most ACK_RUNS_PER_MARK_MAX, in order of epoch.
    pub runs: Vec<AckRun>,
}

/// Retained on `forebay/v1/<gateway>/ack`. Says everything anew each time: a
/// reader needs only the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckMessage {
    pub gateway: GatewayName,
    pub session: SessionNonce,
    /// Grows within a session: one that is lower than one seen is out of date, as
    /// several workers publish.
    pub seq: u64,
    /// The log that the marks are of.
    pub log_id: LogId,
    /// At most ACK_MARKS_MAX, with at most ACK_RUNS_MAX runs in all. A mark whose runs do
    /// not fit is left out: without them it would be read wrongly.
    pub marks: Vec<AckMark>,
}

impl AckMessage {
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut out = String::new();
        push_args(&mut out, format_args!("{{\"v\":{CONTROL_VERSION}"));
        push_args(&mut out, format_args!(",\"gateway\":\"{}\"", self.gateway));
        push_args(&mut out, format_args!(",\"session\":\"{}\"", self.session));
        push_args(&mut out, format_args!(",\"seq\":{}", self.seq));
        push_args(
            &mut out,
            format_args!(",\"log_id\":\"{}\",\"marks\":[", self.log_id),
        );
        for (i, mark) in self.marks.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            push_mark(&mut out, mark);
        }
        out.push_str("]}");
        out.into_bytes()
    }

    /// # Errors
    /// With the byte where it stopped.
    pub fn parse(payload: &[u8]) -> Result<Self, PayloadError> {
        let mut reader = Reader::new(payload, CONTROL_BYTES_MAX)?;
        let (mut v, mut name, mut session) = (None, None, None);
        let (mut seq, mut log, mut marks) = (None, None, None);
        reader.object(|reader, key| match key {
            "v" => set_version(reader, &mut v),
            "gateway" => {
                let value = control::gateway(reader)?;
                set(reader, &mut name, "gateway", value)
            }
            "session" => {
                let nonce = control::hex(reader, "session").map(SessionNonce)?;
                set(reader, &mut session, "session", nonce)
            }
            "seq" => {
                let value = reader.unsigned(u64::MAX, "seq")?;
                set(reader, &mut seq, "seq", value)
            }
            "log_id" => {
                let value = control::log_id(reader)?;
                set(reader, &mut log, "log_id", value)
            }
            "marks" => {
                let value = parse_marks(reader)?;
                set(reader, &mut marks, "marks", value)
            }
            _ => reader.skip_value(),
        })?;
        reader.end()?;
        need(&reader, v, "v")?;
        Ok(Self {
            gateway: need(&reader, name, "gateway")?,
            session: need(&reader, session, "session")?,
            seq: need(&reader, seq, "seq")?,
            log_id: need(&reader, log, "log_id")?,
            marks: need(&reader, marks, "marks")?,
        })
    }
}

fn push_mark(out: &mut String, mark: &AckMark) {
    push_args(out, format_args!("{{\"stream\":\"{}\"", mark.stream));
    push_args(out, format_args!(",\"partition\":{}", mark.partition.0));
    push_opening(out, (mark.epoch, mark.nonce));
    push_args(out, format_args!(",\"next\":{}", mark.next.0));
    if !mark.runs.is_empty() {
        out.push_str(",\"runs\":[");
        for (i, run) in mark.runs.iter().enumerate() {
            out.push_str(if i > 0 { ",{" } else { "{" });
            push_args(out, format_args!("\"first\":{}", run.first.0));
            push_args(out, format_args!(",\"next\":{}", run.next.0));
            push_opening(out, (run.epoch, run.nonce));
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
}

fn push_opening(out: &mut String, (epoch, nonce): (Epoch, EpochNonce)) {
    push_args(out, format_args!(",\"epoch\":{}", epoch.0));
    if nonce.is_known() {
        push_args(out, format_args!(",\"nonce\":\"{nonce}\""));
    }
}

fn parse_marks(reader: &mut Reader<'_>) -> Result<Vec<AckMark>, PayloadError> {
    let mut marks = Vec::new();
    let mut runs_left = ACK_RUNS_MAX;
    reader.array(|reader| {
        at_most(reader, marks.len(), ACK_MARKS_MAX)?;
        let mark = parse_mark(reader, ACK_RUNS_PER_MARK_MAX.min(runs_left))?;
        runs_left -= mark.runs.len();
        marks.push(mark);
        Ok(())
    })?;
    Ok(marks)
}

fn parse_mark(reader: &mut Reader<'_>, runs_max: usize) -> Result<AckMark, PayloadError> {
    let (mut name, mut part, mut epoch) = (None, None, None);
    let (mut nonce, mut next, mut runs) = (None, None, None);
    reader.object(|reader, key| match key {
        "stream" => {
            let value = control::stream(reader)?;
            set(reader, &mut name, "stream", value)
        }
        "partition" => {
            let value = control::partition(reader)?;
            set(reader, &mut part, "partition", value)
        }
        "epoch" => {
            let value = control::epoch(reader)?;
            set(reader, &mut epoch, "epoch", value)
        }
        "nonce" => {
            let value = control::nonce(reader)?;
            set(reader, &mut nonce, "nonce", value)
        }
        "next" => {
            let value = Offset(reader.unsigned(u64::MAX, "next")?);
            set(reader, &mut next, "next", value)
        }
        "runs" => {
            let value = parse_runs(reader, runs_max)?;
            set(reader, &mut runs, "runs", value)
        }
        _ => reader.skip_value(),
    })?;
    Ok(AckMark {
        stream: need(reader, name, "stream")?,
        partition: need(reader, part, "partition")?,
        epoch: need(reader, epoch, "epoch")?,
        nonce: nonce.unwrap_or_default(),
        next: need(reader, next, "next")?,
        runs: runs.unwrap_or_default(),
    })
}

fn parse_runs(reader: &mut Reader<'_>, runs_max: usize) -> Result<Vec<AckRun>, PayloadError> {
    let mut runs = Vec::new();
    reader.array(|reader| {
        at_most(reader, runs.len(), runs_max)?;
        let (mut epoch, mut nonce, mut first, mut next) = (None, None, None, None);
        reader.object(|reader, key| match key {
            "epoch" => {
                let value = control::epoch(reader)?;
                set(reader, &mut epoch, "epoch", value)
            }
            "nonce" => {
                let value = control::nonce(reader)?;
                set(reader, &mut nonce, "nonce", value)
            }
            "first" => {
                let value = Offset(reader.unsigned(u64::MAX, "first")?);
                set(reader, &mut first, "first", value)
            }
            "next" => {
                let value = Offset(reader.unsigned(u64::MAX, "next")?);
                set(reader, &mut next, "next", value)
            }
            _ => reader.skip_value(),
        })?;
        let run = AckRun {
            epoch: need(reader, epoch, "epoch")?,
            nonce: nonce.unwrap_or_default(),
            first: need(reader, first, "first")?,
            next: need(reader, next, "next")?,
        };
        if run.first > run.next {
            return Err(reader.value_error("first"));
        }
        runs.push(run);
        Ok(())
    })?;
    Ok(runs)
}
