//! Bodies of HTTP that are written while the client takes them.
//!
//! Always holds: an answer that is not taken to its end in time is broken off, which the
//! client sees, and what it held is free then. Bound: a piece of about [`PIECE_BYTES`], beside
//! what the answer is made of. Knows no form of an answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

/// A piece is sent when it has become so long.
pub(crate) const PIECE_BYTES: usize = 32 * 1024;

/// An answer that is written piece by piece.
pub(crate) trait InPieces {
    /// The next piece; `None` behind the last.
    fn piece(&mut self) -> Option<Bytes>;

    /// Whether all is written.
    fn is_done(&self) -> bool;
}

/// The body of an answer, which has to be taken within `time`; `held` is kept that long. One
/// of a single piece waits for nobody.
pub(crate) fn body<P>(mut pieces: P, time: Duration, held: OwnedSemaphorePermit) -> Body
where
    P: InPieces + Send + Unpin + 'static,
{
    let first = pieces.piece();
    if pieces.is_done() {
        return Body::from(first.unwrap_or_default());
    }
    Body::new(Sending {
        first,
        pieces: Some(pieces),
        until: Instant::now() + time,
        _held: held,
    })
}

/// The rest of an answer of more than one piece.
struct Sending<P> {
    first: Option<Bytes>,
    /// `None`: it was broken off.
    pieces: Option<P>,
    until: Instant,
    /// Its share of what all answers may hold.
    _held: OwnedSemaphorePermit,
}

impl<P: InPieces> Sending<P> {
    fn frame(&mut self, now: Instant) -> Option<io::Result<Frame<Bytes>>> {
        if now > self.until && !self.is_done() {
            (self.first, self.pieces) = (None, None);
            return Some(Err(io::ErrorKind::TimedOut.into()));
        }
        let piece = self.first.take();
        let piece = piece.or_else(|| self.pieces.as_mut().and_then(InPieces::piece));
        piece.map(|piece| Ok(Frame::data(piece)))
    }

    fn is_done(&self) -> bool {
        self.first.is_none() && self.pieces.as_ref().is_none_or(InPieces::is_done)
    }
}

impl<P: InPieces + Unpin> http_body::Body for Sending<P> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.frame(Instant::now()))
    }

    fn is_end_stream(&self) -> bool {
        self.is_done()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body::Body as _;
    use tokio::sync::Semaphore;

    use super::*;

    struct Count(u8);

    impl InPieces for Count {
        fn piece(&mut self) -> Option<Bytes> {
            self.0 = self.0.checked_sub(1)?;
            Some(Bytes::from(vec![self.0]))
        }

        fn is_done(&self) -> bool {
            self.0 == 0
        }
    }

    fn permit(room: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        Arc::clone(room).try_acquire_owned().expect("room")
    }

    #[test]
    fn a_body_holds_its_share_until_the_client_has_it_or_goes() {
        let (room, time) = (Arc::new(Semaphore::new(1)), Duration::from_secs(60));
        let short = body(Count(1), time, permit(&room));
        assert_eq!(room.available_permits(), 1, "one piece holds nothing");
        assert_eq!(short.size_hint().exact(), Some(1), "and says its length");
        let long = body(Count(2), time, permit(&room));
        assert_eq!(room.available_permits(), 0);
        drop(long);
        assert_eq!(room.available_permits(), 1, "the client has gone");
    }

    #[test]
    fn what_is_not_taken_in_time_is_broken_off() {
        let (room, until) = (Arc::new(Semaphore::new(1)), Instant::now());
        let tick = Duration::from_micros(1);
        for (name, taken, now, want) in [
            ("limit - 1", 0, until - tick, "1"),
            ("limit", 1, until, "0"),
            ("limit + 1", 1, until + tick, "late"),
            ("all was taken", 2, until + tick, "end"),
        ] {
            let mut sending = Sending {
                first: Some(Bytes::from_static(&[1])),
                pieces: Some(Count(1)),
                until,
                _held: permit(&room),
            };
            let mut next = |now| match sending.frame(now) {
                None => String::from("end"),
                Some(Err(_)) => String::from("late"),
                Some(Ok(frame)) => frame.into_data().expect("data")[0].to_string(),
            };
            for _ in 0..taken {
                next(until);
            }
            assert_eq!(next(now), want, "{name}");
            if want == "late" {
                assert_eq!(next(now), "end", "{name}");
            }
        }
    }
}
