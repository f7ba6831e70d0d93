//! Where a database wrote a change, and which events are repeated.
//!
//! Debezium says each event at least once: after a restart it says the last ones
//! again. Positions of PostgreSQL (`sequence`: commit and change) and of MySQL (`file`,
//! `pos`, `row`) grow, so what lies before the last one was said already, unless the
//! database was restored or another one took over: then its clock goes on while its
//! positions begin anew. Several rows may have one position: what has just that of
//! the last one is told apart by its row.

use forebay_core::units::EventTime;

use super::super::json::Object;

/// A position of one server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct DbPosition {
    /// As the database says it.
    pub(in super::super) shown: String,
    /// Compares as text with others of its kind; `None` where no order is known.
    order: Option<String>,
    /// When, us; 0 where it is not said.
    time: i64,
}

impl DbPosition {
    /// The position that an event's `source` names.
    pub(super) fn of(source: &Object<'_>, time: Option<EventTime>) -> Option<Self> {
        let connector = source.text("connector")?;
        let (shown, order) = match &*connector {
            "postgresql" => postgresql(source)?,
            "mysql" | "mariadb" => mysql(source)?,
            _ => return None,
        };
        Some(Self {
            shown,
            order,
            time: time.map_or(0, |time| time.0),
        })
    }
}

fn postgresql(source: &Object<'_>) -> Option<(String, Option<String>)> {
    let lsn = u64::try_from(source.int("lsn")?).ok()?;
    let shown = format!("lsn {:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff);
    // A change's own lsn does not grow: one transaction may begin before another and
    // end behind it. The commit before it does.
    let sequence = source.text("sequence");
    let order = sequence.and_then(|sequence| {
        let pair: [Option<String>; 2] = serde_json::from_str(&sequence).ok()?;
        let number = |text: &Option<String>| match text {
            None => Some(0),
            Some(text) => text.parse::<u64>().ok(),
        };
        let (commit, change) = (number(&pair[0])?, number(&pair[1])?);
        Some(format!("p{commit:016x}{change:016x}"))
    });
    Some((shown, order))
}

fn mysql(source: &Object<'_>) -> Option<(String, Option<String>)> {
    let file = source.text("file").filter(|file| !file.is_empty())?;
    let pos = u64::try_from(source.int("pos")?).ok()?;
    let row = source.int("row").and_then(|row| u64::try_from(row).ok());
    let row = row.unwrap_or(0);
    let shown = format!("{file}:{pos}:{row}");
    let number = file.rsplit('.').next().and_then(|n| n.parse::<u64>().ok());
    let order = number.map(|number| format!("m{number:016x}{pos:016x}{row:08x}"));
    Some((shown, order))
}

/// The last position of a table, and the latest time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Repeats {
    last: Option<String>,
    time: i64,
}

/// What an event is beside those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Seen {
    /// New by its position.
    Later,
    /// It may have come before.
    New,
    Repeated,
    /// New, and the positions have begun anew.
    Restarted,
}

impl Repeats {
    /// Takes the position of an event.
    pub(in super::super) fn see(&mut self, at: Option<&DbPosition>) -> Seen {
        let Some((at, order)) = at.and_then(|at| Some((at, at.order.as_ref()?))) else {
            return Seen::New;
        };
        let is_before = match &self.last {
            // Of another kind of database: no order between them.
            Some(last) => last.as_bytes()[0] == order.as_bytes()[0] && order < last,
            None => false,
        };
        if is_before && at.time <= self.time {
            return Seen::Repeated;
        }
        let is_same = self.last.as_ref() == Some(order);
        self.last = Some(order.clone());
        self.time = self.time.max(at.time);
        match (is_before, is_same) {
            (true, _) => Seen::Restarted,
            (false, true) => Seen::New,
            (false, false) => Seen::Later,
        }
    }

    /// As a text without spaces and slashes.
    pub(in super::super) fn write(&self) -> String {
        let last = self.last.as_deref().unwrap_or_default();
        format!("{last}@{}", self.time)
    }

    /// What [`Repeats::write`] wrote; of anything else, nothing was seen.
    pub(in super::super) fn read(text: &str) -> Self {
        let read = text.split_once('@').and_then(|(last, time)| {
            let time = time.parse().ok()?;
            let last = (!last.is_empty()).then(|| last.to_owned());
            Some(Self { last, time })
        });
        read.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(order: &str, time: i64) -> DbPosition {
        DbPosition {
            shown: String::new(),
            order: Some(order.to_owned()),
            time,
        }
    }

    fn source(text: &str) -> Option<DbPosition> {
        let object = Object::parse(text.as_bytes()).unwrap();
        DbPosition::of(&object, Some(EventTime(5)))
    }

    #[test]
    fn positions_of_the_two_databases_grow_as_they_commit() {
        let postgres = |sequence: &str, lsn: u64| {
            let text = format!(
                r#"{{"connector":"postgresql","lsn":{lsn},"sequence":{}}}"#,
                serde_json::Value::from(sequence)
            );
            source(&text).unwrap()
        };
        let mysql = |file: &str, pos: u64, row: u64| {
            let text =
                format!(r#"{{"connector":"mysql","file":"{file}","pos":{pos},"row":{row}}}"#);
            source(&text).unwrap()
        };
        let first = postgres(r#"[null,"36661544"]"#, 36_661_544);
        assert_eq!(first.shown, "lsn 0/22F6928");
        // The second transaction's change was written before the first's.
        let second = postgres(r#"["36661700","36661600"]"#, 36_661_600);
        let third = postgres(r#"["36661800","36661550"]"#, 36_661_550);
        assert!(first.order < second.order && second.order < third.order);
        let places = [
            mysql("mysql-bin.000003", 484, 0),
            mysql("mysql-bin.000003", 484, 1),
            mysql("mysql-bin.000003", 1024, 0),
            mysql("mysql-bin.000010", 4, 0),
            mysql("mysql-bin.1000000", 4, 0),
        ];
        assert!(places.windows(2).all(|pair| pair[0].order < pair[1].order));
        assert_eq!(places[1].shown, "mysql-bin.000003:484:1");
        let unknown = r#"{"connector":"postgresql","lsn":7}"#;
        assert_eq!(source(unknown).unwrap().order, None);
        assert_eq!(source(r#"{"connector":"db2","lsn":7}"#), None);
        assert_eq!(source(r#"{"connector":"postgresql","lsn":-1}"#), None);
    }

    #[test]
    fn what_comes_again_is_known_and_what_begins_anew_is_not_taken_for_it() {
        let mut repeats = Repeats::default();
        for (name, at, want) in [
            ("first", position("p1", 10), Seen::Later),
            ("next", position("p3", 30), Seen::Later),
            ("again", position("p1", 10), Seen::Repeated),
            ("the last again", position("p3", 30), Seen::New),
            ("restored", position("p2", 31), Seen::Restarted),
            ("and on", position("p3", 32), Seen::Later),
            ("of the other kind", position("m1", 5), Seen::Later),
        ] {
            assert_eq!(repeats.see(Some(&at)), want, "{name}");
            assert_eq!(Repeats::read(&repeats.write()), repeats, "{name}");
        }
        assert_eq!(repeats.see(None), Seen::New);
        assert_eq!(
            Repeats::read(&Repeats::default().write()),
            Repeats::default()
        );
        assert_eq!(Repeats::read("nonsense"), Repeats::default());
    }
}
