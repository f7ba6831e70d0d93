//! Matches what was handed to the client library with the packet numbers that
//! it chose, and those with the broker's acks.
//!
//! Always holds: numbers come back in the order of the hand-over, because one
//! task alone publishes. Bound: entries never outnumber the hand-overs that
//! the owner lets stand unacked. Lives for one connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Messages of one connection on their way.
#[derive(Debug)]
pub(super) struct Sends<T> {
    /// Hand-overs so far.
    count: u64,
    handed_over: VecDeque<(u64, T)>,
    written: BTreeMap<u16, (u64, T)>,
    /// Hand-overs without an answer.
    open: BTreeSet<u64>,
}

impl<T> Sends<T> {
    pub(super) fn new() -> Self {
        Self {
            count: 0,
            handed_over: VecDeque::new(),
            written: BTreeMap::new(),
            open: BTreeSet::new(),
        }
    }

    pub(super) fn hand_over(&mut self, message: T) {
        self.handed_over.push_back((self.count, message));
        self.open.insert(self.count);
        self.count += 1;
    }

    /// The library wrote the oldest unwritten message as packet `pkid`.
    ///
    /// # Errors
    /// When nothing was handed over or the number is still taken: the maps and
    /// the library no longer agree, and only a new connection helps.
    pub(super) fn on_written(&mut self, pkid: u16) -> Result<(), String> {
        let Some(message) = self.handed_over.pop_front() else {
            return Err(format!(
                "packet {pkid} was written and nothing was handed over"
            ));
        };
        match self.written.insert(pkid, message) {
            None => Ok(()),
            Some(_) => Err(format!("packet {pkid} was written twice without an ack")),
        }
    }

    /// The broker answered packet `pkid`.
    ///
    /// # Errors
    /// When no such packet is out.
    pub(super) fn on_answered(&mut self, pkid: u16) -> Result<T, String> {
        let Some((number, message)) = self.written.remove(&pkid) else {
            return Err(format!(
                "the broker answered packet {pkid}, which is not out"
            ));
        };
        self.open.remove(&number);
        Ok(message)
    }

    /// Hand-overs without an answer.
    pub(super) fn unanswered(&self) -> u64 {
        self.open.len() as u64
    }

    /// Hand-overs since the oldest one without an answer, itself included: a
    /// packet number is free again only when those before it are answered.
    pub(super) fn span(&self) -> u64 {
        self.open.first().map_or(0, |oldest| self.count - oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_out_of_order_find_their_message() {
        let mut sends = Sends::new();
        for name in ["a", "b", "c"] {
            sends.hand_over(name);
        }
        sends.on_written(7).unwrap();
        sends.on_written(8).unwrap();
        assert_eq!(sends.span(), 3);
        assert_eq!(sends.on_answered(8), Ok("b"));
        assert_eq!(sends.span(), 3, "the oldest is still out");
        sends.on_written(9).unwrap();
        assert_eq!(sends.on_answered(7), Ok("a"));
        assert_eq!(sends.span(), 1);
        assert_eq!(sends.on_answered(9), Ok("c"));
        assert_eq!(sends.span(), 0);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut sends = Sends::new();
        assert!(sends.on_written(1).is_err(), "nothing handed over");
        assert!(sends.on_answered(1).is_err(), "unsolicited");
        sends.hand_over("a");
        sends.hand_over("b");
        sends.on_written(1).unwrap();
        assert!(sends.on_written(1).is_err(), "number still taken");
        assert!(sends.on_answered(0).is_err(), "number zero");
    }

    #[test]
    fn a_number_is_used_again_after_its_ack() {
        let mut sends = Sends::new();
        for round in 0..1000u32 {
            sends.hand_over(round);
            sends.on_written(1).unwrap();
            assert_eq!(sends.on_answered(1), Ok(round));
        }
    }
}
