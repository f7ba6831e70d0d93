//! The messages of one connection that are received and not yet acked.
//!
//! Always holds: acks come out in the order of receipt, each once. Bound: as
//! many as there are packet numbers; a broker that keeps to `receive_max` sends no
//! more than that.

use std::collections::VecDeque;

use forebay_core::forward::ConnNo;

/// Names one received message of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AckToken {
    conn: ConnNo,
    receipt: u64,
}

#[derive(Debug)]
struct Receipt<T> {
    message: T,
    acked: bool,
}

/// Unacked messages in order of receipt.
#[derive(Debug)]
pub(super) struct Receipts<T> {
    conn: ConnNo,
    /// Receipt number of the front.
    first: u64,
    unacked: VecDeque<Receipt<T>>,
}

impl<T> Receipts<T> {
    pub(super) fn new(conn: ConnNo) -> Self {
        Self {
            conn,
            first: 0,
            unacked: VecDeque::new(),
        }
    }

    pub(super) fn received(&mut self, message: T) -> AckToken {
        let receipt = self.first + self.unacked.len() as u64;
        self.unacked.push_back(Receipt {
            message,
            acked: false,
        });
        AckToken {
            conn: self.conn,
            receipt,
        }
    }

    /// Marks a message; tokens of other connections and repeated ones do nothing.
    pub(super) fn ack(&mut self, token: AckToken) {
        if token.conn != self.conn {
            return;
        }
        let place = token
            .receipt
            .checked_sub(self.first)
            .and_then(|i| usize::try_from(i).ok());
        if let Some(receipt) = place.and_then(|i| self.unacked.get_mut(i)) {
            receipt.acked = true;
        }
    }

    /// The oldest message, once it is marked: its ack is due.
    pub(super) fn due(&self) -> Option<&T> {
        let receipt = self.unacked.front().filter(|receipt| receipt.acked)?;
        Some(&receipt.message)
    }

    /// The ack that was due is on its way.
    pub(super) fn sent(&mut self) {
        if self.unacked.pop_front_if(|receipt| receipt.acked).is_some() {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(receipts: &mut Receipts<u16>) -> Vec<u16> {
        let next = || {
            let message = *receipts.due()?;
            receipts.sent();
            Some(message)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn acks_wait_for_the_ones_before_them() {
        let mut r = Receipts::new(ConnNo(1));
        let tokens: Vec<_> = (10..14).map(|pkid| r.received(pkid)).collect();
        r.ack(tokens[2]);
        r.ack(tokens[1]);
        assert_eq!(due(&mut r), [0_u16; 0]);
        r.ack(tokens[0]);
        assert_eq!(due(&mut r), [10, 11, 12]);
        r.ack(tokens[0]);
        r.ack(tokens[2]);
        assert_eq!(due(&mut r), [0_u16; 0], "repeated acks do nothing");
        r.ack(tokens[3]);
        assert_eq!(due(&mut r), [13]);
    }

    #[test]
    fn a_token_of_another_connection_acks_nothing() {
        let mut old = Receipts::new(ConnNo(1));
        let stale = old.received(1);
        let mut new = Receipts::new(ConnNo(2));
        let token = new.received(1);
        new.ack(stale);
        assert_eq!(due(&mut new), [0_u16; 0]);
        new.ack(token);
        assert_eq!(due(&mut new), [1]);
    }
}
