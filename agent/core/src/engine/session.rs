//! Session windows `[first, last + gap)`: a pause as long as the gap ends one, and a
//! reading at exactly `last + gap` starts the next.
//!
//! A reading that closes a pause merges the sessions on both sides. A session is named
//! by its start, so the one that had the first start goes on under its name, and each
//! other one that was out is taken back: with the next line of the merged session goes
//! a revision of it with count 0 and no figures. Sessions only grow, so a name that was
//! taken back never comes again.
//!
//! Memory: sessions between `W - allowed_lateness` and the newest reading. Knows no
//! series names and no devices' times.

use std::collections::VecDeque;

use crate::engine::chain::Parts;
use crate::engine::config::Emit;
use crate::engine::counters::Taken;
use crate::engine::figures::{Figures, Wants};
use crate::engine::kernel::{At, Closing, Common, Fed, Given, Kernel, Moved, Out, WindowLine};
use crate::engine::route::Slot;
use crate::engine::row::Says;
use crate::engine::state;
use crate::engine::value::is_null;
use crate::log::bytes::{Malformed, Reader, put_varint, put_zigzag};
use crate::units::Span;

/// The operator of one `[[window]]` of this kind.
#[derive(Debug)]
pub(super) struct Sessions {
    gap: i64,
    wants: Wants,
    /// Of each key its sessions, by start; they do not overlap.
    keys: Vec<VecDeque<Session>>,
    parts: Parts,
    due: Vec<Due>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
}

#[derive(Debug)]
struct Session {
    first: i64,
    last: i64,
    /// Of the next line.
    revision: u32,
    phase: Phase,
    /// Holds a reading that no line tells of yet.
    untold: bool,
    said_final: bool,
    figures: Figures,
    /// Sessions that were out, are part of this one now, and are not yet taken back.
    absorbed: Vec<Absorbed>,
}

/// A session that was out under a start that no session has any more.
#[derive(Debug, Clone, Copy)]
struct Absorbed {
    start: i64,
    end: i64,
    /// Of the line that takes it back.
    revision: u32,
}

/// A line that has to be written.
#[derive(Debug, Clone, Copy)]
struct Due {
    end: i64,
    start: i64,
    slot: Slot,
    watermark: i64,
    idle: bool,
    /// The revision of a session that is taken back; else it is that of the session.
    taken_back: Option<u32>,
}

impl Session {
    fn new(time: i64, wants: Wants) -> Self {
        Self {
            first: time,
            last: time,
            revision: 0,
            phase: Phase::Open,
            untold: true,
            said_final: false,
            figures: Figures::new(wants),
            absorbed: Vec::new(),
        }
    }

    /// Takes a later one in.
    fn merge(&mut self, later: Self, gap: i64) {
        self.figures.merge(&later.figures);
        if later.revision > 0 {
            self.absorbed.push(Absorbed {
                start: later.first,
                end: later.last + gap,
                revision: later.revision,
            });
        }
        self.absorbed.extend(later.absorbed);
        self.last = self.last.max(later.last);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.phase == Phase::Closed)
            | u8::from(self.untold) << 1
            | u8::from(self.said_final) << 2;
        put_zigzag(out, self.first);
        put_zigzag(out, self.last);
        put_varint(out, self.revision.into());
        out.push(flags);
        self.figures.encode(out);
        state::put_len(out, self.absorbed.len());
        for absorbed in &self.absorbed {
            put_zigzag(out, absorbed.start);
            put_zigzag(out, absorbed.end);
            put_varint(out, absorbed.revision.into());
        }
    }

    fn decode(from: &mut Reader<'_>, wants: Wants) -> Result<Self, Malformed> {
        let (first, last) = (from.zigzag()?, from.zigzag()?);
        let revision = state::u32(from)?;
        let flags = from.byte()?;
        if flags > 7 || last < first {
            return Err(from.malformed());
        }
        let figures = Figures::decode(from, wants)?;
        let mut absorbed = Vec::new();
        for _ in 0..state::len(from)? {
            absorbed.push(Absorbed {
                start: from.zigzag()?,
                end: from.zigzag()?,
                revision: state::u32(from)?,
            });
        }
        Ok(Self {
            first,
            last,
            revision,
            phase: match flags & 1 {
                0 => Phase::Open,
                _ => Phase::Closed,
            },
            untold: flags & 2 != 0,
            said_final: flags & 4 != 0,
            figures,
            absorbed,
        })
    }
}

impl Sessions {
    pub(super) fn new(gap: Span, wants: Wants) -> Self {
        Self {
            gap: gap.0,
            wants,
            keys: Vec::new(),
            parts: Parts::default(),
            due: Vec::new(),
        }
    }

    /// The first microsecond after a session. No overflow: see
    /// [`crate::limits::EVENT_TIME_MAX`].
    fn end_of(&self, session: &Session) -> i64 {
        session.last + self.gap
    }

    fn timer_of(&self, common: &Common, session: &Session) -> i64 {
        let end = self.end_of(session);
        match session.phase {
            Phase::Open => common.leaves_at(end),
            Phase::Closed => common.final_at(end),
        }
    }

    /// Takes what is not simply the next reading of an open session.
    fn take_slowly(
        &mut self,
        common: &mut Common,
        fed: &Fed<'_>,
        at: At<'_>,
        out: &mut Out,
    ) -> Taken {
        let Given {
            slot,
            time,
            watermark,
            ..
        } = fed.given;
        let sessions = &self.keys[slot as usize];
        let from = sessions.partition_point(|s| s.last + self.gap <= time);
        let near = sessions.range(from..);
        let near = near.take_while(|s| s.first - self.gap < time);
        let to = from + near.count();
        let newest = sessions.range(from..to).next_back();
        let end = newest.map_or(time, |s| s.last.max(time)) + self.gap;
        if common.final_at(end) <= watermark {
            return Taken::None;
        }
        common.pages.touch(slot as usize);
        let session = self.join(slot, (from, to), time);
        if fed.part.is_none() && !is_null(fed.given.value) {
            session.figures.add(time, fed.given.value);
        }
        session.untold = true;
        session.said_final = false;
        let late = common.leaves_at(end) <= watermark;
        session.phase = if late { Phase::Closed } else { Phase::Open };
        let start = session.first;
        self.parts.put((slot, start), fed, common.wants);
        let timer = self.timer_of(common, &self.keys[slot as usize][from]);
        common.timers.sooner(fed.given.scope, timer);
        if let Some(id) = fed.part.filter(|_| common.source_moves)
            && let Some(before) = self.parts.take_out((slot, start), id)
        {
            self.take_out(common, (slot, before), watermark);
        }
        if late || common.emit == Emit::EveryUpdate {
            self.add_due((slot, from), (watermark, false));
        }
        self.write_due(common, at, out);
        Taken::All
    }

    /// A row has moved out of a session.
    fn take_out(&mut self, common: &Common, (slot, start): (Slot, i64), watermark: i64) {
        let sessions = &mut self.keys[slot as usize];
        if let Ok(place) = sessions.binary_search_by_key(&start, |s| s.first) {
            sessions[place].untold = true;
            if sessions[place].phase == Phase::Closed || common.emit == Emit::EveryUpdate {
                self.add_due((slot, place), (watermark, false));
            }
        }
    }

    /// Makes one session of those at these places and a reading between or beside them;
    /// it stands at the first of these places.
    fn join(&mut self, slot: Slot, (from, to): (usize, usize), time: i64) -> &mut Session {
        let (gap, wants) = (self.gap, self.wants);
        let sessions = &mut self.keys[slot as usize];
        // A reading before the first of them gives its time as the name.
        if sessions
            .get(from)
            .is_none_or(|s| from == to || time < s.first)
        {
            sessions.insert(from, Session::new(time, wants));
            let merged: Vec<Session> = sessions.drain(from + 1..to + 1).collect();
            for session in merged {
                self.parts.rename((slot, session.first), (slot, time));
                sessions[from].merge(session, gap);
            }
        } else {
            let merged: Vec<Session> = sessions.drain(from + 1..to).collect();
            let start = sessions[from].first;
            for session in merged {
                self.parts.rename((slot, session.first), (slot, start));
                sessions[from].merge(session, gap);
            }
        }
        let session = &mut sessions[from];
        session.last = session.last.max(time);
        session
    }

    /// Notes the lines of a session: its own, and those it takes back.
    fn add_due(&mut self, (slot, at): (Slot, usize), (watermark, idle): (i64, bool)) {
        let session = &mut self.keys[slot as usize][at];
        let own = Due {
            end: session.last + self.gap,
            start: session.first,
            slot,
            watermark,
            idle,
            taken_back: None,
        };
        self.due.push(own);
        for absorbed in session.absorbed.drain(..) {
            self.due.push(Due {
                end: absorbed.end,
                start: absorbed.start,
                taken_back: Some(absorbed.revision),
                ..own
            });
        }
    }

    fn write(&mut self, common: &Common, due: Due, at: At<'_>, out: &mut Out) {
        let mut line = WindowLine {
            cause: at.cause,
            slot: due.slot,
            start: due.start,
            end: due.end,
            revision: 0,
            is_final: !due.idle && common.final_at(due.end) <= due.watermark,
            idle: due.idle,
            says: Says::Gone,
        };
        if let Some(revision) = due.taken_back {
            line.revision = revision;
            return common.write(&line, &mut Figures::new(self.wants), out);
        }
        let sessions = &mut self.keys[due.slot as usize];
        let place = sessions.binary_search_by_key(&due.start, |s| s.first);
        let session = &mut sessions[place.expect("only sessions that are held are written")];
        let id = (due.slot, due.start);
        let is_deserted = common.source_moves && self.parts.is_empty(id);
        if is_deserted && session.revision == 0 {
            // All that was in it has moved on before anybody was told.
            session.untold = false;
            return;
        }
        line.revision = session.revision;
        line.says = match (session.untold, is_deserted) {
            (true, false) => Says::Figures,
            (true, true) => Says::Gone,
            (false, _) => Says::OnlyFinal,
        };
        session.revision += 1;
        session.untold = false;
        session.said_final = line.is_final;
        if common.is_chained() {
            let mut figures = session.figures.clone();
            self.parts.add_to(&mut figures, (due.slot, due.start));
            common.write(&line, &mut figures, out);
        } else {
            common.write(&line, &mut session.figures, out);
        }
    }
}

impl Closing for Sessions {
    /// Notes the lines that a watermark is due for, and closes their sessions. Those of a
    /// key end in order of their starts: what closes stands behind what is closed.
    fn collect_due(&mut self, common: &Common, (scope, watermark): Moved) {
        for slot in common.routes.slots_of(scope) {
            let is_final = |this: &Self, s: &Session| common.final_at(this.end_of(s)) <= watermark;
            let sessions = &self.keys[*slot as usize];
            let open = sessions.partition_point(|s| s.phase == Phase::Closed);
            let becomes_final = match common.finalize {
                true => sessions.partition_point(|s| is_final(self, s)).min(open),
                false => 0,
            };
            for at in 0..becomes_final {
                if !self.keys[*slot as usize][at].said_final {
                    self.add_due((*slot, at), (watermark, false));
                }
            }
            for at in open..self.keys[*slot as usize].len() {
                let session = &self.keys[*slot as usize][at];
                if common.leaves_at(self.end_of(session)) > watermark {
                    break;
                }
                // What idleness told already is not told again.
                let tells = (session.untold && common.emit != Emit::EveryUpdate)
                    || (common.finalize && is_final(self, session));
                self.keys[*slot as usize][at].phase = Phase::Closed;
                if tells {
                    self.add_due((*slot, at), (watermark, false));
                }
            }
        }
    }

    fn write_due(&mut self, common: &mut Common, at: At<'_>, out: &mut Out) {
        let mut due = std::mem::take(&mut self.due);
        if due.len() > 1 {
            due.sort_unstable_by(|a, b| {
                let by_time = (a.end, a.start).cmp(&(b.end, b.start));
                by_time.then_with(|| common.routes.key_order(at.series, a.slot, b.slot))
            });
        }
        for one in due.drain(..) {
            common.pages.touch(one.slot as usize);
            self.write(common, one, at, out);
        }
        self.due = due;
    }

    /// Also sets the scope's timer anew.
    fn drop_final(&mut self, common: &mut Common, (scope, watermark): Moved) {
        for index in 0..common.routes.slots_of(scope).len() {
            let slot = common.routes.slots_of(scope)[index];
            if self.keys[slot as usize].is_empty() {
                continue;
            }
            common.pages.touch(slot as usize);
            while let Some(first) = self.keys[slot as usize].front()
                && first.phase == Phase::Closed
                && common.final_at(self.end_of(first)) <= watermark
            {
                self.parts.forget((slot, first.first));
                self.keys[slot as usize].pop_front();
            }
            let sessions = &self.keys[slot as usize];
            let open = sessions.partition_point(|s| s.phase == Phase::Closed);
            // The first of each phase is the next of it.
            for session in sessions.front().into_iter().chain(sessions.get(open)) {
                let timer = self.timer_of(common, session);
                common.timers.sooner(scope, timer);
            }
        }
    }
}

impl Kernel for Sessions {
    fn add_slot(&mut self) {
        self.keys.push(VecDeque::new());
    }

    #[inline]
    fn take(&mut self, common: &mut Common, given: Given, at: At<'_>, out: &mut Out) -> Taken {
        let gap = self.gap;
        if let Some(newest) = self.keys[given.slot as usize].back_mut()
            && newest.phase == Phase::Open
            && newest.first <= given.time
            && given.time < newest.last + gap
            && common.emit != Emit::EveryUpdate
        {
            common.pages.touch(given.slot as usize);
            // Its timer is too early now, and is set anew when it goes off.
            newest.last = newest.last.max(given.time);
            newest.untold = true;
            if !is_null(given.value) {
                newest.figures.add(given.time, given.value);
            }
            return Taken::All;
        }
        self.take_slowly(common, &Fed::reading(given), at, out)
    }

    fn take_fed(&mut self, common: &mut Common, fed: Fed<'_>, at: At<'_>, out: &mut Out) -> Taken {
        self.take_slowly(common, &fed, at, out)
    }

    fn advance(&mut self, common: &mut Common, due: &[Moved], at: At<'_>, out: &mut Out) {
        self.close_due(common, due, at, out);
    }

    fn on_idle(&mut self, common: &mut Common, silent: &[Moved], at: At<'_>, out: &mut Out) {
        if common.emit != Emit::OnClose {
            return;
        }
        for (scope, watermark) in silent {
            for slot in common.routes.slots_of(*scope) {
                for at in 0..self.keys[*slot as usize].len() {
                    let session = &self.keys[*slot as usize][at];
                    if session.phase == Phase::Open && session.untold {
                        self.add_due((*slot, at), (*watermark, true));
                    }
                }
            }
        }
        self.write_due(common, at, out);
    }

    fn state_rows(&self) -> u64 {
        self.keys.iter().map(VecDeque::len).sum::<usize>() as u64
    }

    fn encode(&self, slot: Slot, out: &mut Vec<u8>) {
        let sessions = &self.keys[slot as usize];
        state::put_len(out, sessions.len());
        sessions.iter().for_each(|session| session.encode(out));
        self.parts.encode(slot, out);
    }

    fn decode(
        &mut self,
        common: &mut Common,
        slot: Slot,
        from: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        for _ in 0..state::len(from)? {
            let session = Session::decode(from, self.wants)?;
            let before = self.keys[slot as usize].back();
            if before.is_some_and(|before| before.last >= session.first) {
                return Err(from.malformed());
            }
            let timer = self.timer_of(common, &session);
            common.timers.sooner(common.routes.scope_of(slot), timer);
            self.keys[slot as usize].push_back(session);
        }
        self.parts.decode(slot, self.wants, from)
    }
}
