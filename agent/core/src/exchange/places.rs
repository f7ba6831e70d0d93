//! How far topics of rows have come in the exchange, as meta entries. Byte table:
//! `agent/core/docs/format.md`.
//!
//! What was written while there was one partition stands there by that partition's
//! offsets: until these are in the exchange, no row of that topic is written.

use std::collections::BTreeMap;

use super::EXCHANGE_META_PREFIX;
use super::across::place;
use crate::commit::GroupCommit;
use crate::derive::Since;
use crate::log::bytes::put_varint;
use crate::log::key::TopicPartition;
use crate::meta::{Entry, checked, with_crc};
use crate::readers::{DERIVE_META_PREFIX, kept_place};
use crate::units::{Offset, TopicId};

const VERSION: u8 = 1;

/// Topics that have come so far in the one partition that there was.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) before: BTreeMap<TopicPartition, Offset>,
    /// Its end when the log was opened.
    end: Option<Offset>,
}

impl Old {
    pub(super) fn new(end: Offset) -> Self {
        Self {
            before: BTreeMap::new(),
            end: Some(end),
        }
    }

    /// Topics all whose rows are there that come of what stands before `offset`.
    pub(super) fn take_reached(&mut self, offset: Offset) -> Vec<TopicPartition> {
        let reached = self.before.iter().filter(|(_, before)| offset >= **before);
        let reached: Vec<_> = reached.map(|(at, _)| *at).collect();
        for at in &reached {
            self.before.remove(at);
        }
        reached
    }

    /// Whether what comes now was not there when the log was opened; once.
    pub(super) fn take_end(&mut self, offset: Offset) -> bool {
        let is_past = self.end.is_some_and(|end| offset >= end);
        is_past && self.end.take().is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.before.is_empty()
    }
}

/// How far a topic has come that goes here, and where it stood in one partition's time.
pub(super) fn open(
    at: TopicPartition,
    meta: &[Entry],
    commit: &GroupCommit,
) -> (Since, Option<Offset>) {
    let find = |wanted: &[u8]| meta.iter().find(|(key, _)| key == wanted);
    let kept = find(&key_of(at.topic)).and_then(|(_, value)| parse(value));
    let name = format!("{}/{}", at.topic.0, at.partition.0);
    let old = find(&[DERIVE_META_PREFIX, name.as_bytes()].concat());
    let old = old.filter(|_| kept.is_none());
    let old = old.and_then(|(key, value)| kept_place(key, value));
    let mut since = kept.unwrap_or_default();
    if let Some((_, next)) = old {
        since.next = next;
    }
    since.next = since.next.min(commit.head(at));
    (since, old.map(|(offset, _)| offset))
}

pub(super) fn key_of(topic: TopicId) -> Vec<u8> {
    let name = format!("rows/{}", topic.0);
    [EXCHANGE_META_PREFIX, name.as_bytes()].concat()
}

pub(super) fn bytes(since: Since) -> Vec<u8> {
    let mut value = vec![VERSION];
    put_varint(&mut value, since.place.offset.0);
    put_varint(&mut value, since.next.0);
    with_crc(value)
}

fn parse(value: &[u8]) -> Option<Since> {
    let mut reader = checked(VERSION, value)?;
    let offset = Offset(reader.varint().ok()?);
    let next = Offset(reader.varint().ok()?);
    let place = place(offset);
    reader.is_at_end().then_some(Since { place, next })
}
