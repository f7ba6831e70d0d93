//! What earlier boots of a device have lost: declared by the device, and where it cannot,
//! by the gateway.

use forebay_wire::ids::{Ordinal, Tick};
use forebay_wire::message::Gap;

use super::{LinkSink, Peer, Room};
use crate::ledger::{Ledger, Source};
use crate::limits::CLOSE_BOOTS_US;
use crate::link::device::ack_line;
use crate::record::{GapReason, GapRecord};
use crate::units::{Mono, Now};

/// Earlier boots of one device that are being closed at the same time.
const CLOSING_MAX: usize = 8;

impl Peer {
    /// The gap that closes an earlier boot: what the device still held when it was
    /// reset. What of it arrived after all, unheard by the device, is left out.
    pub(super) fn on_last_gap(
        &mut self,
        gap: &Gap,
        now: Now,
        ledger: &mut Ledger,
        sink: &mut dyn LinkSink,
    ) {
        let Some(device) = self.device.as_mut().filter(|_| sink.room() != Room::Wait) else {
            self.counters.frames_refused += 1;
            return;
        };
        let source = Source {
            uid: device.source.uid,
            boot: gap.boot,
        };
        let (Ok(account), Some((time, _))) = (ledger.open(source), device.clock.map(Tick(0), now))
        else {
            self.counters.frames_refused += 1;
            return;
        };
        let end = Ordinal(gap.first.0 + gap.count);
        // Ordinals before the gap were acked: to this log, or to one before it.
        let first = Ordinal(gap.first.0.max(account.taken));
        if let Some(count) = end.0.checked_sub(first.0).filter(|count| *count > 0) {
            account.take_last_gap(gap.reason.into(), end, count);
            sink.gap(&GapRecord {
                uid: source.uid,
                boot: source.boot,
                first,
                count,
                reason: gap.reason.into(),
                time,
            });
        }
        if account.durable >= end.0 {
            self.out.push(ack_line(source, end));
        } else if !device.closing.contains(&(source, end)) {
            device.closing.truncate(CLOSING_MAX - 1);
            device.closing.push((source, end));
        }
    }
    /// The device has been here long enough to say what its earlier boots have lost. What
    /// it did not, as after a power cut, which takes its own account as well, the gateway
    /// declares: as far as it knows that it was ever given out.
    pub(super) fn close_earlier(&mut self, now: Now, ledger: &mut Ledger, sink: &mut dyn LinkSink) {
        let Some(device) = self.device.as_mut() else {
            return;
        };
        if sink.room() == Room::Wait {
            device.close_at = Some(Mono(now.mono.0.saturating_add(CLOSE_BOOTS_US)));
            return;
        }
        device.close_at = None;
        let uid = device.source.uid;
        let Some((time, _)) = device.clock.map(Tick(0), now) else {
            return;
        };
        let over = ledger
            .device(uid)
            .into_iter()
            .flat_map(|boots| boots.over());
        let missing = over.filter(|(_, account)| account.missing() > 0);
        let boots: Vec<_> = missing.map(|(boot, _)| boot).collect();
        for boot in boots {
            let Ok(account) = ledger.open(Source { uid, boot }) else {
                continue;
            };
            let (first, count) = (Ordinal(account.taken), account.missing());
            account.take_gap(GapReason::PowerLoss, count);
            sink.gap(&GapRecord {
                uid,
                boot,
                first,
                count,
                reason: GapReason::PowerLoss,
                time,
            });
        }
    }
}
