//! Changes of a stream as one who follows it gets them: in order, from a place, with what is
//! missing said.

use super::*;
use crate::log::appender::Appender;
use crate::record::Row;
use crate::units::{Epoch, EventTime};

const TOPIC: TopicId = TopicId(16);
const NOW: Mono = Mono(5);

fn at(partition: u16) -> TopicPartition {
    TopicPartition {
        topic: TOPIC,
        partition: PartitionId(partition),
    }
}

fn block(partition: u16, base: u64, lines: &[&str]) -> StoredBlock {
    let mut appender = Appender::rows(at(partition), Epoch(1), Offset(base));
    for line in lines {
        let line = line.as_bytes().to_vec();
        let time = EventTime(0);
        appender.push_row(&Row { time, line }, Mono(0));
    }
    appender.seal();
    let block = appender.take_sealed().next();
    block.expect("one block")
}

fn request(from: &str, lines_max: usize) -> FollowRequest {
    FollowRequest {
        stream: String::from("w"),
        table: None,
        topic: None,
        from: FollowFrom::parse(from).expect("a place"),
        lines_max,
        wait: Span(10),
    }
}

fn of(table: Option<&str>) -> FollowOf {
    FollowOf {
        topic: TOPIC,
        stream: String::from("w"),
        table: table.map(String::from),
        moved: None,
    }
}

fn heads(all: &[(u16, u64)]) -> BTreeMap<PartitionId, Offset> {
    let all = all.iter();
    all.map(|(p, head)| (PartitionId(*p), Offset(*head)))
        .collect()
}

/// Answers over these blocks; `None` while it waits.
fn answer(mut follow: Follow, blocks: &[StoredBlock], all: &[(u16, u64)]) -> Option<Value> {
    let heads = heads(all);
    loop {
        match follow.next(&heads, NOW) {
            FollowNext::Fetch(at, from) => {
                let of_it = blocks.iter().filter(|block| block.key.at == at);
                let end = |block: &&StoredBlock| {
                    let head = crate::log::decode::decode_head(block.key, &block.bytes);
                    head.expect("it reads").end() > from
                };
                let found: Vec<_> = of_it.filter(end).cloned().collect();
                follow.on_fetched(at, &found, heads[&at.partition]);
            }
            FollowNext::Wait => return None,
            FollowNext::Done => return Some(follow.finish(&heads)),
        }
    }
}

fn start(from: &str, lines_max: usize, all: &[(u16, u64)]) -> Follow {
    let follow = Follow::start(&request(from, lines_max), of(None), &heads(all), NOW);
    follow.expect("it starts")
}

fn lines(answer: &Value) -> Vec<(u64, u64, &str)> {
    let changes = answer["changes"].as_array().expect("an array");
    let of = |c: &Value, name: &str| c[name].as_u64().expect("a number");
    let line = changes.iter().map(|c| {
        (
            of(c, "partition"),
            of(c, "offset"),
            c["op"].as_str().unwrap_or(""),
        )
    });
    line.collect()
}

#[test]
fn rows_come_once_from_any_place_and_in_pieces() {
    let blocks = [
        block(0, 0, &["{\"n\":0}", "{\"n\":1}", "{\"n\":2}"]),
        block(0, 3, &["{\"n\":3}"]),
        block(1, 0, &["{\"m\":0}", "{\"m\":1}"]),
    ];
    let all = [(0, 4), (1, 2)];
    for lines_max in [1, 2, 3, 100] {
        let (mut from, mut seen) = (String::from("beginning"), Vec::new());
        for _ in 0..10 {
            let Some(said) = answer(start(&from, lines_max, &all), &blocks, &all) else {
                break;
            };
            let got = lines(&said);
            assert!(got.len() <= lines_max, "{lines_max}: {said}");
            seen.extend(got.iter().map(|(p, o, _)| (*p, *o)));
            from = String::from(said["next"].as_str().expect("a place"));
            if said["behind"] == json!(0) {
                break;
            }
        }
        seen.sort_unstable();
        let want = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)];
        assert_eq!(seen, want, "{lines_max}");
        assert_eq!(from, "0:4,1:2", "{lines_max}");
    }
}

#[test]
fn nothing_above_the_durable_head_is_shown() {
    let blocks = [block(0, 0, &["{\"n\":0}", "{\"n\":1}", "{\"n\":2}"])];
    let all = [(0, 2)];
    let said = answer(start("beginning", 9, &all), &blocks, &all).expect("an answer");
    assert_eq!(lines(&said).len(), 2);
    assert_eq!(said["next"], json!("0:2"));
}

#[test]
fn it_waits_for_the_first_row_and_not_longer_than_asked() {
    let all = [(0, 3)];
    let blocks = [block(0, 3, &["{\"n\":3}"])];
    assert_eq!(answer(start("now", 9, &all), &[], &all), None);
    let said = answer(start("now", 9, &all), &blocks, &[(0, 4)]).expect("a row came");
    assert_eq!(lines(&said), [(0, 3, "insert")]);
    assert_eq!(said["from"], json!("0:3"));
    let mut follow = start("now", 9, &all);
    assert_eq!(follow.deadline(), Some(Mono(15)));
    assert_eq!(follow.next(&heads(&all), Mono(14)), FollowNext::Wait);
    assert_eq!(follow.next(&heads(&all), Mono(15)), FollowNext::Done);
    assert_eq!(lines(&follow.finish(&heads(&all))), []);
}

#[test]
fn what_is_missing_is_told_with_its_ends() {
    let blocks = [block(0, 5, &["{\"n\":5}"])];
    let all = [(0, 6)];
    let said = answer(start("0:2", 9, &all), &blocks, &all).expect("an answer");
    let gap = json!([{ "partition": 0, "first": 2, "end": 5 }]);
    assert_eq!((&said["gaps"], lines(&said).len()), (&gap, 1));
}

#[test]
fn rows_are_changes_by_what_they_say() {
    for (name, line, table, want) in [
        (
            "a row",
            "{\"stream\":\"w\",\"revision\":0}",
            None,
            Some("insert"),
        ),
        ("a revision", "{\"revision\":2}", None, Some("update")),
        ("no revision", "{\"stream\":\"w\"}", None, Some("insert")),
        ("a diff", "{\"diff\":1}", None, Some("insert")),
        ("a diff back", "{\"diff\":-1}", None, Some("delete")),
        (
            "a change",
            "{\"table\":\"s\",\"op\":\"update\"}",
            None,
            Some("update"),
        ),
        (
            "of the table",
            "{\"table\":\"s\",\"op\":\"delete\"}",
            Some("s"),
            Some("delete"),
        ),
        (
            "of another",
            "{\"table\":\"t\",\"op\":\"delete\"}",
            Some("s"),
            None,
        ),
        (
            "a heartbeat",
            "{\"table\":\"s\",\"op\":\"heartbeat\"}",
            None,
            Some("heartbeat"),
        ),
        (
            "a heartbeat of the table",
            "{\"table\":\"s\",\"op\":\"heartbeat\"}",
            Some("s"),
            None,
        ),
        ("of none", "{\"op\":\"delete\"}", Some("s"), None),
        ("no JSON", "nonsense", None, Some("insert")),
    ] {
        let found = change_of_row(line.as_bytes(), table);
        let op = found.as_ref().map(|(op, _)| op.as_str());
        assert_eq!(op, want, "{name}");
        assert!(found.is_none_or(|(_, text)| text == line), "{name}");
    }
}

#[test]
fn places_read_back_and_others_are_refused() {
    for text in ["0:12", "0:12,1:7", "16:0"] {
        match FollowFrom::parse(text) {
            Ok(FollowFrom::At(at)) => assert_eq!(place_text(&at), text),
            other => panic!("{text}: {other:?}"),
        }
    }
    let at = |offset| FollowFrom::At([(PartitionId(0), Offset(offset))].into());
    assert_eq!(FollowFrom::parse("7"), Ok(at(7)));
    for text in ["", "x", "0:", "1:2,1:3", "17:0", "-1", "0:1,", "0:1 "] {
        assert!(FollowFrom::parse(text).is_err(), "{text}");
    }
    let past = Follow::start(&request("0:5", 1), of(None), &heads(&[(0, 4)]), NOW);
    assert!(past.is_err_and(|text| text.contains("up to offset 4")));
    assert!(Follow::start(&request("0:4", 1), of(None), &heads(&[(0, 4)]), NOW).is_ok());
}

#[test]
fn an_answer_is_full_at_its_limits() {
    let wide = format!("{{\"n\":\"{}\"}}", "x".repeat(2000));
    let lines: Vec<&str> = vec![&wide; 700];
    let blocks: Vec<StoredBlock> = lines
        .chunks(2)
        .zip((0..).step_by(2))
        .map(|(pair, base)| block(0, base, pair))
        .collect();
    let all = [(0, 700)];
    let said = answer(start("beginning", 4096, &all), &blocks, &all).expect("an answer");
    let taken = said["changes"].as_array().map_or(0, Vec::len);
    assert_eq!(taken, FOLLOW_BYTES_MAX.div_ceil(wide.len()));
    assert_eq!(said["behind"], json!(700 - taken));
    for (asked, want) in [
        (0, 1),
        (FOLLOW_LINES_MAX - 1, FOLLOW_LINES_MAX - 1),
        (FOLLOW_LINES_MAX, FOLLOW_LINES_MAX),
        (FOLLOW_LINES_MAX + 1, FOLLOW_LINES_MAX),
    ] {
        assert_eq!(start("now", asked, &all).lines_max, want);
    }
}
