//! Acks, commands, hellos and status: golden bytes, reading back, limits.

use super::*;
use crate::limits::{
    ACK_MARKS_MAX, ACK_RUNS_MAX, ACK_RUNS_PER_MARK_MAX, CONTROL_BYTES_MAX, NAME_BYTES_MAX,
};

#[test]
fn control_messages_have_these_bytes_and_read_back() {
    let hello = UpstreamHello {
        session: SessionNonce([1; 16]),
        online: true,
    };
    let text = r#"{"v":1,"session":"01010101010101010101010101010101","online":true}"#;
    assert_eq!(String::from_utf8(hello.render()).unwrap(), text);
    assert_eq!(UpstreamHello::parse(text.as_bytes()), Ok(hello));

    let ack = AckMessage {
        gateway: gateway(),
        session: SessionNonce([1; 16]),
        seq: 9,
        log_id: LOG,
        marks: vec![AckMark {
            stream: stream(),
            partition: PartitionId(3),
            epoch: Epoch(2),
            nonce: EpochNonce(0xfe),
            next: Offset(104),
            runs: vec![],
        }],
    };
    let text = concat!(
        r#"{"v":1,"gateway":"g1","session":"01010101010101010101010101010101","#,
        r#""seq":9,"log_id":"abababababababababababababababab","#,
        r#""marks":[{"stream":"readings","partition":3,"epoch":2,"nonce":"00000000000000fe","next":104}]}"#,
    );
    assert_eq!(String::from_utf8(ack.render()).unwrap(), text);
    assert_eq!(AckMessage::parse(text.as_bytes()), Ok(ack));

    let command = Command::Resend {
        log_id: LOG,
        stream: stream(),
        partition: PartitionId(3),
        from: Offset(50),
    };
    let text = concat!(
        r#"{"v":1,"cmd":"resend","log_id":"abababababababababababababababab","#,
        r#""stream":"readings","partition":3,"from":50}"#,
    );
    assert_eq!(String::from_utf8(command.render()).unwrap(), text);
    assert_eq!(Command::parse(text.as_bytes()), Ok(command));

    let status = GatewayStatus {
        gateway: gateway(),
        online: false,
        version: "0.1.0".to_owned(),
    };
    let text = r#"{"v":1,"gateway":"g1","online":false,"version":"0.1.0"}"#;
    assert_eq!(String::from_utf8(status.render()).unwrap(), text);
    assert_eq!(GatewayStatus::parse(text.as_bytes()), Ok(status));
}

fn mark(runs: usize) -> AckMark {
    let run = AckRun {
        epoch: Epoch(u32::MAX),
        nonce: EpochNonce(u64::MAX),
        first: Offset(u64::MAX),
        next: Offset(u64::MAX),
    };
    AckMark {
        stream: StreamName::new(&"s".repeat(NAME_BYTES_MAX)).unwrap(),
        partition: PartitionId(u16::MAX),
        epoch: Epoch(u32::MAX),
        nonce: EpochNonce(u64::MAX),
        next: Offset(u64::MAX),
        runs: vec![run; runs],
    }
}

fn ack(marks: Vec<AckMark>) -> AckMessage {
    AckMessage {
        gateway: GatewayName::new(&"g".repeat(NAME_BYTES_MAX)).unwrap(),
        session: SessionNonce([0; 16]),
        seq: u64::MAX,
        log_id: LOG,
        marks,
    }
}

#[test]
fn a_mark_of_a_log_with_more_than_one_history_reads_back() {
    let run = |epoch, nonce, first, next| AckRun {
        epoch: Epoch(epoch),
        nonce: EpochNonce(nonce),
        first: Offset(first),
        next: Offset(next),
    };
    let mut message = ack(vec![mark(0)]);
    message.marks[0].runs = vec![run(1, 7, 0, 50), run(1, 8, 0, 40), run(2, 0, 50, 50)];
    let text = String::from_utf8(message.render()).unwrap();
    let runs = concat!(
        r#""runs":[{"first":0,"next":50,"epoch":1,"nonce":"0000000000000007"},"#,
        r#"{"first":0,"next":40,"epoch":1,"nonce":"0000000000000008"},"#,
        r#"{"first":50,"next":50,"epoch":2}]"#,
    );
    assert!(text.contains(runs), "{text}");
    assert_eq!(AckMessage::parse(text.as_bytes()), Ok(message));
    let backwards = text.replace(r#""first":0,"next":50"#, r#""first":51,"next":50"#);
    assert!(AckMessage::parse(backwards.as_bytes()).is_err());
}

#[test]
fn ack_marks_and_runs_at_their_limits() {
    let spread = |runs: usize| {
        let each = ACK_RUNS_PER_MARK_MAX;
        let mut marks = vec![mark(0); ACK_MARKS_MAX];
        let mut left = runs;
        for mark_of in &mut marks {
            *mark_of = mark(left.min(each));
            left = left.saturating_sub(each);
        }
        marks
    };
    for (name, marks, fits) in [
        ("marks below", vec![mark(0); ACK_MARKS_MAX - 1], true),
        ("marks at it", vec![mark(0); ACK_MARKS_MAX], true),
        ("marks above", vec![mark(0); ACK_MARKS_MAX + 1], false),
        (
            "runs of a mark below",
            vec![mark(ACK_RUNS_PER_MARK_MAX - 1)],
            true,
        ),
        (
            "runs of a mark at it",
            vec![mark(ACK_RUNS_PER_MARK_MAX)],
            true,
        ),
        (
            "runs of a mark above",
            vec![mark(ACK_RUNS_PER_MARK_MAX + 1)],
            false,
        ),
        ("runs below", spread(ACK_RUNS_MAX - 1), true),
        ("runs at it", spread(ACK_RUNS_MAX), true),
        ("runs above", spread(ACK_RUNS_MAX + 1), false),
    ] {
        let bytes = ack(marks).render();
        assert_eq!(AckMessage::parse(&bytes).is_ok(), fits, "{name}");
        assert!(!fits || bytes.len() <= CONTROL_BYTES_MAX, "{name}");
    }
}
