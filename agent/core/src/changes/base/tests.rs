//! What is folded, in whatever order and steps, and what a crash at each of them leaves.

use super::*;
use crate::log::appender::Appender;
use crate::log::decode::decode;
use crate::record::Row;
use crate::units::{Epoch, Mono};

/// Key (empty: a heartbeat), time and figure (0: a delete) of a change of `sites`.
type Said = (&'static str, i64, i64);

fn said((key, time, figure): Said) -> Change {
    let row = || Arc::from(format!("{{\"v\":{figure}}}"));
    Change {
        table: Arc::from("sites"),
        op: match (key, figure) {
            ("", _) => ChangeOp::Heartbeat,
            (_, 0) => ChangeOp::Delete,
            (_, 1) => ChangeOp::Insert,
            (_, _) => ChangeOp::Update,
        },
        key: Arc::from(key),
        time: EventTime(time),
        before: None,
        after: (!key.is_empty() && figure > 0).then(row),
        position: None,
    }
}

/// The topic, in blocks of so many changes.
fn blocks(all: &[Said], size: usize) -> Vec<StoredBlock> {
    let mut base = 0;
    let blocks = all.chunks(size).map(|chunk| {
        let mut appender = Appender::rows(CHANGES_AT, Epoch(1), Offset(base));
        for one in chunk {
            let mut line = Vec::new();
            said(*one).write_json(&mut line);
            let time = EventTime(one.1);
            appender.push_row(&Row { time, line }, Mono(0));
        }
        base += chunk.len() as u64;
        appender.seal();
        let block = appender.take_sealed().next();
        block.expect("one block")
    });
    blocks.collect()
}

fn end(block: &StoredBlock) -> Offset {
    decode(block.key, &block.bytes).expect("a block").end()
}

/// Key, time and figure of what an engine is to apply that has applied so many.
fn told(base: &Base, applied: u64) -> (Vec<(String, i64, String)>, u64) {
    let (changes, missing) = base.changes(Offset(applied));
    let told = changes.into_iter().map(|change| {
        let row = change.after.as_deref().unwrap_or("");
        (change.key.to_string(), change.time.0, row.to_owned())
    });
    (told.collect(), missing)
}

fn want(all: &[Said]) -> Vec<(String, i64, String)> {
    let of = all.iter().map(|(key, time, figure)| {
        let row = if key.is_empty() {
            String::new()
        } else {
            format!("{{\"v\":{figure}}}")
        };
        ((*key).to_owned(), *time, row)
    });
    of.collect()
}

/// A fold over a disk.
struct Lab {
    blocks: Vec<StoredBlock>,
    meta: BTreeMap<Vec<u8>, Vec<u8>>,
    fold: Fold,
    head: Offset,
    steps: usize,
    /// It is killed at this step: before the entries are durable, or after it and nobody
    /// was told.
    kill: Option<(usize, bool)>,
}

impl Lab {
    fn new(all: &[Said], size: usize) -> Self {
        let blocks = blocks(all, size);
        let head = blocks.last().map_or(Offset(0), end);
        Self {
            blocks,
            meta: BTreeMap::new(),
            fold: Fold::restore(&[], head),
            head,
            steps: 0,
            kill: None,
        }
    }

    fn entries(&self) -> Vec<Entry> {
        self.meta.clone().into_iter().collect()
    }

    fn start(&mut self) {
        self.fold = Fold::restore(&self.entries(), self.head);
    }

    /// What is durable.
    fn base(&self) -> Base {
        Base::restore(&self.entries())
    }

    fn is_killed(&mut self, after: bool) -> bool {
        let is_now = self.kill == Some((self.steps, after));
        if is_now {
            self.kill = None;
            self.start();
        }
        is_now
    }

    /// Folds what is below `end` with reads of one block, and lets it go as soon as the base
    /// reaches it.
    fn trim(&mut self, upto: u64) {
        let upto = Offset(upto);
        while self.blocks.first().is_some_and(|block| end(block) <= upto) {
            self.fold.want(upto);
            if let Some((_, from)) = self.fold.next_fetch() {
                let first = self.blocks.iter().find(|block| end(block) > from);
                let read: Vec<_> = first.into_iter().cloned().collect();
                self.fold.on_fetched(&read);
            }
            self.steps += 1;
            if self.is_killed(false) {
                continue;
            }
            for (key, value) in self.fold.take_entries() {
                match value.is_empty() {
                    true => self.meta.remove(&key),
                    false => self.meta.insert(key, value),
                };
            }
            self.fold.on_cut();
            if self.is_killed(true) {
                continue;
            }
            self.fold.on_committed();
            let durable = self.fold.durable();
            assert!(durable <= self.base().upto());
            if durable >= upto {
                // One at a time: a crash may come between.
                self.blocks.remove(0);
            }
        }
    }
}

#[test]
fn of_each_key_the_newest_version_stays() {
    let cases: [(&str, &[Said], &[Said]); 9] = [
        ("nothing", &[], &[]),
        ("an insert", &[("a", 5, 1)], &[("a", 5, 1), ("", 5, 0)]),
        (
            "an update",
            &[("a", 5, 1), ("b", 6, 1), ("a", 7, 2)],
            &[("b", 6, 1), ("a", 7, 2), ("", 7, 0)],
        ),
        ("a delete", &[("a", 5, 1), ("a", 8, 0)], &[("", 8, 0)]),
        (
            "a row that comes back",
            &[("a", 5, 1), ("a", 8, 0), ("a", 9, 3)],
            &[("a", 9, 3), ("", 9, 0)],
        ),
        (
            "an older one that comes later",
            &[("a", 5, 1), ("a", 3, 2)],
            &[("a", 5, 1), ("", 5, 0)],
        ),
        (
            "an older delete that comes later",
            &[("a", 5, 1), ("a", 3, 0)],
            &[("a", 5, 1), ("", 5, 0)],
        ),
        (
            "of one time the later",
            &[("a", 5, 1), ("a", 5, 2)],
            &[("a", 5, 2), ("", 5, 0)],
        ),
        (
            "a heartbeat",
            &[("a", 5, 1), ("", 50, 0)],
            &[("a", 5, 1), ("", 50, 0)],
        ),
    ];
    for (name, all, left) in cases {
        for size in 1..=3 {
            let mut lab = Lab::new(all, size);
            lab.trim(all.len() as u64);
            assert_eq!(told(&lab.base(), 0), (want(left), 0), "{name} {size}");
            assert_eq!(*lab.fold.base().as_ref(), lab.base(), "{name} {size}");
            assert_eq!(lab.base().upto(), lab.head, "{name} {size}");
        }
    }
}

#[test]
fn an_engine_that_has_some_is_told_what_came_since() {
    let mut lab = Lab::new(&[("a", 5, 1), ("b", 6, 1), ("a", 7, 2), ("c", 8, 0)], 2);
    lab.trim(4);
    let base = lab.base();
    let rows = want(&[("b", 6, 1), ("a", 7, 2), ("", 8, 0)]);
    assert_eq!(told(&base, 0), (rows.clone(), 0));
    assert_eq!(told(&base, 1), (rows[..].to_vec(), 1), "the delete");
    assert_eq!(told(&base, 2), (rows[1..].to_vec(), 1));
    assert_eq!(told(&base, 3), (rows[2..].to_vec(), 1));
    assert_eq!(told(&base, 4), (rows[2..].to_vec(), 0));
}

#[test]
fn a_crash_at_any_step_leaves_what_a_run_without_leaves() {
    let all: Vec<Said> = (0..40)
        .map(|n| {
            let key = ["a", "b", "c", "", "d"][n as usize % 5];
            // Some come with times before those of others, some are deletes.
            (key, n + [0, -9, 4][n as usize % 3], n % 4)
        })
        .collect();
    let trim = |kill| {
        let mut lab = Lab::new(&all, 4);
        lab.kill = kill;
        lab.trim(16);
        lab.start();
        lab.trim(40);
        lab.trim(40);
        lab
    };
    let whole = trim(None);
    assert_eq!(whole.blocks.len(), 0);
    assert!(whole.base().len() > 1);
    for step in 1..=whole.steps {
        for after in [false, true] {
            let lab = trim(Some((step, after)));
            assert_eq!(lab.kill, None, "{step} {after}: it was killed");
            assert_eq!(lab.meta, whole.meta, "{step} {after}");
        }
    }
}

#[test]
fn what_is_lost_before_it_is_folded_is_counted() {
    let mut lab = Lab::new(&[("a", 5, 1), ("b", 6, 1), ("c", 7, 1)], 1);
    lab.blocks.remove(1);
    lab.trim(3);
    let left = want(&[("a", 5, 1), ("c", 7, 1), ("", 7, 0)]);
    assert_eq!(told(&lab.base(), 0), (left, 1));
}

#[test]
fn a_log_that_ends_before_the_base_keeps_nothing_of_it() {
    let mut lab = Lab::new(&[("a", 5, 1), ("b", 6, 1)], 1);
    lab.trim(2);
    assert_eq!(lab.meta.len(), 3);
    for (head, kept) in [(2, true), (1, false)] {
        let mut fold = Fold::restore(&lab.entries(), Offset(head));
        let stale: Vec<_> = fold.take_entries();
        assert_eq!(stale.is_empty(), kept, "{head}");
        assert_eq!(fold.base().len(), if kept { 2 } else { 0 }, "{head}");
        assert!(stale.iter().all(|(_, value)| value.is_empty()));
        assert!(kept || stale.len() == 3);
    }
}

#[test]
fn entries_are_read_whole_or_not_at_all() {
    let mut lab = Lab::new(&[("a", 5, 1), ("b", 6, 1)], 1);
    lab.trim(2);
    let good = lab.base();
    for (key, value) in lab.entries() {
        for at in 0..value.len() {
            let mut bad = value.clone();
            bad[at] ^= 0x10;
            lab.meta.insert(key.clone(), bad);
            let base = lab.base();
            match key == BASE_META_KEY {
                true => assert_eq!(base, Base::default(), "byte {at}"),
                false => assert_eq!((base.len(), base.lost), (1, 1), "byte {at}"),
            }
        }
        lab.meta.insert(key, value);
    }
    assert_eq!(lab.base(), good);
}

#[test]
fn tables_and_keys_are_bounded() {
    let mut base = Base::default();
    let mut put = |table: String, key: String| {
        let mut change = said(("a", 5, 1));
        (change.table, change.key) = (Arc::from(table), Arc::from(key));
        let offset = base.upto;
        base.upto.0 += 1;
        let is_taken = base.fold(offset, &change).is_some();
        (is_taken, base.lost)
    };
    let room = META_KEY_BYTES_MAX - BASE_META_PREFIX.len() - "t0/".len();
    assert_eq!(put("t0".into(), "k".repeat(room - 1)), (true, 0));
    assert_eq!(put("t0".into(), "k".repeat(room)), (true, 0));
    assert_eq!(put("t0".into(), "k".repeat(room + 1)), (false, 1));
    for n in 1..TABLES_MAX {
        assert_eq!(put(format!("t{n}"), "k".into()), (true, 1), "{n}");
    }
    assert_eq!(put("one more".into(), "k".into()), (false, 2));
    assert_eq!(put("t1".into(), "other".into()), (true, 2));
    let head = parse_head(&base.head_bytes()).expect("it reads");
    assert_eq!(head.tables.len(), TABLES_MAX);
}

#[test]
fn rows_of_a_table_are_bounded() {
    let mut base = Base::default();
    let mut change = said(("a", 5, 1));
    for n in 0..TABLE_ROWS_MAX - 1 {
        change.key = Arc::from(n.to_string());
        base.fold(Offset(n as u64), &change);
    }
    for (key, is_taken, rows, lost) in [
        ("the last", true, TABLE_ROWS_MAX, 0),
        ("one more", false, TABLE_ROWS_MAX, 1),
        ("0", true, TABLE_ROWS_MAX, 1),
    ] {
        change.key = Arc::from(key);
        let got = base.fold(Offset(TABLE_ROWS_MAX as u64), &change).is_some();
        assert_eq!(
            (got, base.len(), base.lost),
            (is_taken, rows, lost),
            "{key}"
        );
    }
}
