//! What the forwarder believes of the receiver: which session it is in, whether
//! it is there.
//!
//! Holds always: within one connection a hello outranks the first ack, because a
//! retained ack may be older than the hello beside it. Acks that follow it with higher
//! numbers are live: they outrank a hello, which a broker may have lost or kept from an
//! earlier session. Knows no marks.

use super::marks::meta_key;
use crate::payload::SessionNonce;

/// Meta key of the receiver's session that the marks of a destination are of.
pub(super) fn session_key(destination: &str) -> Vec<u8> {
    meta_key(destination, b"session")
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Receiver {
    session: Option<SessionNonce>,
    online: bool,
    /// A hello came by this connection.
    greeted: bool,
    /// Highest number of an ack of this session.
    seq: u64,
    /// The last ack of this connection.
    heard: Option<(SessionNonce, u64)>,
    pub dirty: bool,
}

/// What a message of the receiver means for the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    Same,
    /// What the broker had acked may be lost: back to what is confirmed.
    New,
    /// Of a session that is over.
    Old,
    /// It was overtaken by a newer one.
    Late,
}

impl Receiver {
    /// With the session that the meta entry names; anything else names none.
    pub(super) fn restore(value: Option<&[u8]>) -> Self {
        let nonce = value.and_then(|value| value.try_into().ok());
        Self {
            session: nonce.map(SessionNonce),
            online: false,
            greeted: false,
            seq: 0,
            heard: None,
            dirty: false,
        }
    }

    pub(super) fn entry(&self, destination: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let session = self.session?;
        Some((session_key(destination), session.0.to_vec()))
    }

    pub(super) fn is_known(&self) -> bool {
        self.session.is_some()
    }

    /// Known, and says that it is there.
    pub(super) fn is_online(&self) -> bool {
        self.online && self.session.is_some()
    }

    /// The connection ended: the next one brings a new hello.
    pub(super) fn on_disconnected(&mut self) {
        (self.online, self.greeted, self.heard) = (false, false, None);
    }

    pub(super) fn on_hello(&mut self, session: SessionNonce, online: bool) -> Session {
        (self.online, self.greeted) = (online, true);
        self.take(session)
    }

    pub(super) fn on_ack(&mut self, session: SessionNonce, seq: u64) -> Session {
        let before = self.heard.replace((session, seq));
        let live = before.is_some_and(|(of, last)| of == session && seq > last);
        if self.greeted && !live && self.session != Some(session) {
            return Session::Old;
        }
        // Nobody else would count on.
        self.online |= live;
        let taken = self.take(session);
        if taken == Session::Same && seq < self.seq {
            return Session::Late;
        }
        self.seq = seq;
        taken
    }

    fn take(&mut self, session: SessionNonce) -> Session {
        if self.session.replace(session) == Some(session) {
            return Session::Same;
        }
        (self.dirty, self.seq) = (true, 0);
        Session::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionNonce = SessionNonce([1; 16]);
    const B: SessionNonce = SessionNonce([2; 16]);

    #[test]
    fn a_hello_outranks_a_retained_ack() {
        let mut receiver = Receiver::restore(None);
        assert!(!receiver.is_known());
        assert_eq!(receiver.on_ack(A, 0), Session::New, "no hello yet");
        assert_eq!(receiver.on_ack(A, 0), Session::Same);
        assert!(!receiver.is_online(), "an ack may be old");
        assert_eq!(receiver.on_hello(B, true), Session::New);
        assert_eq!(receiver.on_ack(A, 0), Session::Old);
        assert_eq!(receiver.on_ack(B, 0), Session::Same);
        assert!(receiver.is_online());
        assert_eq!(receiver.on_hello(B, false), Session::Same);
        assert!(!receiver.is_online());
        receiver.on_disconnected();
        assert_eq!(receiver.on_ack(A, 0), Session::New);
    }

    #[test]
    fn an_ack_that_was_overtaken_is_late() {
        let mut receiver = Receiver::restore(None);
        assert_eq!(receiver.on_ack(A, 7), Session::New);
        for (seq, want) in [(7, Session::Same), (6, Session::Late), (8, Session::Same)] {
            assert_eq!(receiver.on_ack(A, seq), want, "{seq}");
        }
        assert_eq!(
            receiver.on_ack(B, 1),
            Session::New,
            "each session counts anew"
        );
        assert_eq!(receiver.on_ack(B, 0), Session::Late);
    }

    /// The hello of a new session may be lost, or a broker may keep an older one.
    #[test]
    fn acks_that_go_on_outrank_a_hello() {
        let mut receiver = Receiver::restore(None);
        receiver.on_hello(A, false);
        for (seq, want) in [
            (3, Session::Old),
            (3, Session::Old),
            (4, Session::New),
            (5, Session::Same),
        ] {
            assert_eq!(receiver.on_ack(B, seq), want, "{seq}");
        }
        assert!(receiver.is_online(), "somebody counts on");
        receiver.on_hello(A, true);
        receiver.on_disconnected();
        receiver.on_hello(A, true);
        let after = receiver.on_ack(B, 6);
        assert_eq!(
            after,
            Session::Old,
            "the first of a connection may be retained"
        );
    }

    #[test]
    fn the_session_is_kept() {
        let mut receiver = Receiver::restore(None);
        assert_eq!(receiver.entry("default"), None);
        receiver.on_hello(A, true);
        assert!(receiver.dirty);
        let (key, value) = receiver.entry("default").expect("a session");
        assert_eq!(key, b"forward/session");
        let mut again = Receiver::restore(Some(&value));
        assert_eq!(again.on_hello(A, true), Session::Same);
        assert!(!Receiver::restore(Some(b"short")).is_known());
    }
}
