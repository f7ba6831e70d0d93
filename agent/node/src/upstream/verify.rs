//! Proves for gateways that each offset was applied once, or declared to never come: what
//! the marks say, held against the rows that are there.
//!
//! Always holds: only what the sink holds is looked at, nothing is repaired. Bound: the
//! marks, the ranges of one partition, and [`FINDINGS_MAX`] findings; more are counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use forebay_core::payload::GatewayName;
use forebay_core::units::{Epoch, Offset};
use forebay_core::upstream::apply::Applier;
use forebay_core::upstream::keys::{Source, parse_mark};
use forebay_core::upstream::ranges::{OffsetRange, OffsetRanges};
use forebay_core::upstream::run::{Opening, Run};
use serde_json::{Value, json};

use super::sink::{Extent, ExtentKind, RowFilter, Sink, SinkError};
use crate::shell::sheets;

/// Findings that are named.
pub(super) const FINDINGS_MAX: usize = 1000;

/// What is wrong with some offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// They were applied more than once.
    Twice,
    /// The marks say that they were applied, and there is no row.
    Lost,
    /// There is a row, and the marks do not know it.
    Unmarked,
    /// Neither applied nor declared, and later ones were: they may be on their way.
    Hole,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Twice => "twice",
            Self::Lost => "lost",
            Self::Unmarked => "unmarked",
            Self::Hole => "hole",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Twice => "applied more than once",
            Self::Lost => "marked as applied, but there is no row",
            Self::Unmarked => "there is a row, but no mark",
            Self::Hole => "neither applied nor declared",
        }
    }
}

/// Offsets with which something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) fault: Fault,
    pub(super) source: Source,
    /// `None` of a hole.
    pub(super) epoch: Option<Epoch>,
    pub(super) range: OffsetRange,
}

/// What was found of one gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Proof {
    partitions: u64,
    /// Offsets with a row each.
    applied: u64,
    /// Offsets that were declared to never come.
    declared: u64,
    /// Offsets per fault, in the order of [`Fault`].
    wrong: [u64; 4],
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Report {
    gateways: BTreeMap<GatewayName, Proof>,
    pub(super) findings: Vec<Finding>,
    /// Findings beyond those.
    more: u64,
    /// Offsets that the counters say and that the rows stand for; only of all gateways.
    counted: Option<(u64, u64)>,
}

/// What there is of one partition.
#[derive(Default)]
struct Present {
    rows: BTreeMap<Opening, OffsetRanges>,
    declared: BTreeMap<Opening, OffsetRanges>,
    count: u64,
    declared_count: u64,
}

/// Looks at all of one gateway, or of all.
///
/// # Errors
/// When the sink cannot be read.
pub(super) fn verify(
    sink: &mut dyn Sink,
    gateway: Option<&GatewayName>,
) -> Result<Report, SinkError> {
    let loaded = sink.load(gateway)?;
    let mut marks: BTreeMap<Source, Vec<Run>> = BTreeMap::new();
    for (key, value) in &loaded.marks {
        let (source, run) = parse_mark(key, value).ok_or_else(|| {
            SinkError::said(format!(
                "the mark at key {} cannot be read",
                key.escape_ascii()
            ))
        })?;
        marks.entry(source).or_default().push(run);
    }
    let counted = match gateway {
        None => Some(Applier::load(loaded).map_err(SinkError::Load)?.counters()),
        Some(_) => None,
    };
    let filter = RowFilter {
        gateway: gateway.cloned(),
        ..RowFilter::default()
    };
    let mut report = Report::default();
    let mut open: Option<(Source, Present)> = None;
    let mut found = 0_u64;
    sink.extents(&filter, &mut |extent| {
        found = found.saturating_add(extent.count);
        if let Some((source, present)) = open.take_if(|(source, _)| *source != extent.source) {
            let runs = marks.remove(&source).unwrap_or_default();
            report.judge(&source, &runs, &present);
        }
        let (_, present) = open.get_or_insert_with(|| (extent.source.clone(), Present::default()));
        report.take(present, &extent);
        true
    })?;
    if let Some((source, present)) = open {
        let runs = marks.remove(&source).unwrap_or_default();
        report.judge(&source, &runs, &present);
    }
    // Of these there is no row at all.
    for (source, runs) in marks {
        report.judge(&source, &runs, &Present::default());
    }
    report.counted = counted.map(|counters| {
        let kinds = [
            counters.readings,
            counters.gap_records,
            counters.clock_records,
            counters.table_records,
            counters.rows,
            counters.missing,
        ];
        (kinds.into_iter().fold(0, u64::saturating_add), found)
    });
    Ok(report)
}

impl Report {
    /// Whether each offset was applied once or declared.
    pub(super) fn is_proven(&self) -> bool {
        let agrees = self.counted.is_none_or(|(counted, found)| counted == found);
        self.findings.is_empty() && agrees
    }

    fn find(&mut self, fault: Fault, source: &Source, epoch: Option<Epoch>, range: OffsetRange) {
        let proof = self.gateways.entry(source.gateway.clone()).or_default();
        let wrong = &mut proof.wrong[fault as usize];
        *wrong = wrong.saturating_add(range.count());
        if self.findings.len() >= FINDINGS_MAX {
            self.more += 1;
            return;
        }
        self.findings.push(Finding {
            fault,
            source: source.clone(),
            epoch,
            range,
        });
    }

    /// Notes an extent; what was there before is there twice.
    fn take(&mut self, present: &mut Present, extent: &Extent) {
        let end = Offset(extent.first.0.saturating_add(extent.count));
        let Some(range) = OffsetRange::new(extent.first, end) else {
            return;
        };
        let opening = Opening {
            epoch: extent.epoch,
            nonce: extent.nonce,
        };
        let mut twice = Vec::new();
        for known in [&present.rows, &present.declared] {
            // Where a nonce is not known, it may be the other one.
            let same = |known: Opening| known.epoch == opening.epoch && !known.forks(opening);
            let of_epoch = known.iter().filter(|(known, _)| same(**known));
            for (_, ranges) in of_epoch {
                let new = ranges.missing(range);
                twice.extend(without(range, &new));
            }
        }
        for range in twice {
            self.find(Fault::Twice, &extent.source, Some(extent.epoch), range);
        }
        let (ranges, count) = match extent.kind {
            ExtentKind::Rows => (&mut present.rows, &mut present.count),
            ExtentKind::Missing => (&mut present.declared, &mut present.declared_count),
        };
        ranges.entry(opening).or_default().insert(range);
        *count = count.saturating_add(extent.count);
    }

    /// Holds the marks of a partition against what there is.
    fn judge(&mut self, source: &Source, runs: &[Run], present: &Present) {
        let proof = self.gateways.entry(source.gateway.clone()).or_default();
        proof.partitions += 1;
        proof.applied = proof.applied.saturating_add(present.count);
        proof.declared = proof.declared.saturating_add(present.declared_count);
        let mut all = OffsetRanges::default();
        for (number, run) in runs.iter().enumerate() {
            run.seen
                .as_slice()
                .iter()
                .for_each(|range| all.insert(*range));
            let mut here = OffsetRanges::default();
            let mut elsewhere = OffsetRanges::default();
            for known in [&present.rows, &present.declared] {
                for (opening, ranges) in known {
                    let to = match owners(runs, *opening).contains(&number) {
                        true => &mut here,
                        false => &mut elsewhere,
                    };
                    ranges.as_slice().iter().for_each(|range| to.insert(*range));
                }
            }
            for range in run.seen.as_slice() {
                for gone in here.missing(*range) {
                    // A declaration has a row only for offsets that no other epoch had.
                    for lost in elsewhere.missing(gone) {
                        self.find(Fault::Lost, source, Some(run.opening.epoch), lost);
                    }
                }
            }
        }
        for (opening, ranges) in present.rows.iter().chain(&present.declared) {
            let mut marked = OffsetRanges::default();
            for number in owners(runs, *opening) {
                let run = &runs[number];
                run.seen
                    .as_slice()
                    .iter()
                    .for_each(|range| marked.insert(*range));
            }
            for range in ranges.as_slice() {
                for unmarked in marked.missing(*range) {
                    self.find(Fault::Unmarked, source, Some(opening.epoch), unmarked);
                }
            }
        }
        let end = all.as_slice().last().map(|range| range.end());
        let whole = end.and_then(|end| OffsetRange::new(Offset(0), end));
        for hole in whole.map(|whole| all.missing(whole)).unwrap_or_default() {
            self.find(Fault::Hole, source, None, hole);
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let gateways = self.gateways.iter().map(|(gateway, proof)| {
            let [twice, lost, unmarked, hole] = proof.wrong;
            json!({
                "gateway": gateway.as_str(),
                "partitions": proof.partitions,
                "applied": proof.applied,
                "declared": proof.declared,
                "twice": twice,
                "lost": lost,
                "unmarked": unmarked,
                "holes": hole,
                "proven": proof.wrong == [0; 4],
            })
        });
        let findings = self.findings.iter().map(|finding| {
            json!({
                "fault": finding.fault.name(),
                "gateway": finding.source.gateway.as_str(),
                "log_id": finding.source.log_id.to_string(),
                "stream": finding.source.stream.as_str(),
                "partition": finding.source.partition.0,
                "epoch": finding.epoch.map(|epoch| epoch.0),
                "first_offset": finding.range.start().0,
                "last_offset": finding.range.end().0 - 1,
            })
        });
        json!({
            "proven": self.is_proven(),
            "gateways": gateways.collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
            "findings_more": self.more,
            "counted": self.counted.map(|(counted, _)| counted),
            "found": self.counted.map(|(_, found)| found),
        })
    }
}

/// The runs that an opening may be in: those that name it, or else those that may, as far
/// as nonces are known.
fn owners(runs: &[Run], opening: Opening) -> Vec<usize> {
    let those = |is: &dyn Fn(&Run) -> bool| {
        let numbered = runs.iter().enumerate().filter(|(_, run)| is(run));
        numbered.map(|(number, _)| number).collect::<Vec<_>>()
    };
    let named = those(&|run| run.has(opening));
    if !named.is_empty() {
        return named;
    }
    let may = those(&|run| run.may_name(opening));
    if !may.is_empty() {
        return may;
    }
    those(&|run| run.may_hide(opening.epoch))
}

/// The parts of `range` that are not in `parts`, which are parts of it in order.
fn without(range: OffsetRange, parts: &[OffsetRange]) -> Vec<OffsetRange> {
    let parts = OffsetRanges::from_sorted(parts.to_vec());
    parts.map_or_else(Vec::new, |parts| parts.missing(range))
}

/// A report as a person reads it, from its JSON.
pub(super) fn text(report: &Value) -> String {
    let list = |key: &str| report[key].as_array().map_or(&[][..], Vec::as_slice);
    let number = |value: &Value| value.as_u64().unwrap_or_default().to_string();
    let name = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut out = sheets::UPSTREAM_PROOF.text(report);
    for finding in list("findings") {
        let faults = [Fault::Twice, Fault::Lost, Fault::Unmarked, Fault::Hole];
        let fault = faults
            .into_iter()
            .find(|fault| finding["fault"] == fault.name());
        let epoch = match finding["epoch"].as_u64() {
            Some(epoch) => format!(" epoch {epoch}"),
            None => String::new(),
        };
        // A String takes all that is written to it.
        let _ = write!(
            out,
            "\n{} {} partition {}{epoch} of log {}: offsets {} to {}: {}",
            name(&finding["gateway"]),
            name(&finding["stream"]),
            number(&finding["partition"]),
            name(&finding["log_id"]),
            number(&finding["first_offset"]),
            number(&finding["last_offset"]),
            fault.map_or("-", Fault::says)
        );
    }
    if report["findings_more"]
        .as_u64()
        .is_some_and(|more| more > 0)
    {
        let _ = write!(
            out,
            "\n{} more are not named",
            number(&report["findings_more"])
        );
    }
    let (counted, found) = (&report["counted"], &report["found"]);
    if counted != found {
        let _ = write!(
            out,
            "\nthe counters say that {} offsets were applied or declared, and rows of {} are there",
            number(counted),
            number(found)
        );
    }
    out
}

#[cfg(test)]
mod tests;
