//! Clients that say nothing, or take nothing.

use std::time::Duration;

use super::*;

/// Long enough for a busy computer to say a word, short enough for a test.
const BRIEF: Patience = Patience {
    header: Duration::from_millis(300),
    stall: Duration::from_millis(300),
    look: Duration::from_millis(300),
};

#[test]
fn one_that_says_nothing_is_closed() {
    run(async {
        let rig = Rig::patient(BRIEF, "").await;
        for (name, text) in [
            ("nothing", ""),
            ("half a request", "GET /healthz HTTP/1.1\r\nHost: local"),
        ] {
            let got = exchange(rig.connect().await, text).await;
            assert!(got.status == 0 || got.status == 408, "{name}: {got:?}");
        }
        // One that keeps its connection after an answer is closed as well.
        let kept = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(exchange(rig.connect().await, kept).await.status, 200);
        rig.end().await;
    });
}

#[test]
fn one_that_takes_nothing_holds_up_neither_ingest_nor_others() {
    run(async {
        let rig = Rig::patient(BRIEF, "streams = 8").await;
        let mut deaf = Vec::new();
        for _ in 0..8 {
            let mut stream = rig.connect().await;
            let text = get("/api/v1/stream?stream=readings&from=beginning", "");
            stream.write_all(text.as_bytes()).await.unwrap();
            deaf.push(stream);
        }
        for round in 0..10 {
            rig.import(&format!("d{round}"), "temperature", 4000).await;
            let got = rig.get("/api/v1/rolling?window=10s").await;
            assert_eq!(got.status, 200, "{round}: {got:?}");
        }
        let status = rig.get("/api/v1/status").await.json();
        assert_eq!(status["stored"], 40_000);
        // They are cut off, and their places are there for others.
        loop {
            let mut stream = rig.connect().await;
            let text = get("/api/v1/stream?stream=late", "");
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut head = [0; 12];
            stream.read_exact(&mut head).await.unwrap();
            if &head == b"HTTP/1.1 200" {
                break;
            }
            assert_eq!(&head, b"HTTP/1.1 503");
        }
        drop(deaf);
        rig.end().await;
    });
}
