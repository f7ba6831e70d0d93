//! Streams as events.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::*;

/// Takes events until there are so many: their ids and data.
async fn events(rig: &Rig, path: &str, headers: &str, count: usize) -> Vec<(String, Value)> {
    let mut stream = rig.connect().await;
    let text = get(path, headers);
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let (mut id, mut found) = (String::new(), Vec::new());
    while found.len() < count {
        let line = lines
            .next_line()
            .await
            .unwrap()
            .expect("the stream goes on");
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ") {
            found.push((id.clone(), serde_json::from_str(data).unwrap()));
        }
    }
    found
}

#[test]
fn a_stream_goes_on_behind_the_last_event() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 5).await;
        let path = "/api/v1/stream?stream=readings&stream=minute&from=beginning";
        let first = events(&rig, path, "", 3).await;
        let values: Vec<&Value> = first
            .iter()
            .map(|(_, data)| &data["row"]["value"])
            .collect();
        assert_eq!(values, [&json!(0.0), &json!(1.0), &json!(2.0)]);
        assert_eq!(first[0].1["row"]["device"], "boiler");
        assert_eq!(first[0].1["stream"], "readings");
        let last = format!("Last-Event-ID: {}\r\n", first[2].0);
        let next = events(&rig, path, &last, 2).await;
        assert_eq!(next[0].1["row"]["value"], 3.0);
        rig.import("boiler", "pressure", 1).await;
        let last = format!("Last-Event-ID: {}\r\n", next[1].0);
        let path = "/api/v1/stream?stream=readings&channel=pressure";
        let narrow = events(&rig, path, &last, 1).await;
        assert_eq!(narrow[0].1["row"]["channel"], "pressure");
        rig.end().await;
    });
}

#[test]
fn only_so_many_streams_at_once() {
    run(async {
        let rig = Rig::new("streams = 2").await;
        let open = |count: usize| {
            let names = ["readings", "late", "control"];
            let streams: String = names[..count]
                .iter()
                .map(|n| format!("stream={n}&"))
                .collect();
            get(&format!("/api/v1/stream?{streams}"), "")
        };
        let got = exchange(rig.connect().await, &open(3)).await;
        assert_eq!(got.status, 503);
        assert!(got.detail().contains("streams in [api]"), "{got:?}");
        let mut held = rig.connect().await;
        held.write_all(open(2).as_bytes()).await.unwrap();
        let mut head = [0; 12];
        held.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        assert_eq!(exchange(rig.connect().await, &open(1)).await.status, 503);
        drop(held);
        let mut last = 503;
        while last == 503 {
            let mut stream = rig.connect().await;
            stream.write_all(open(1).as_bytes()).await.unwrap();
            stream.read_exact(&mut head).await.unwrap();
            last = if &head == b"HTTP/1.1 200" { 200 } else { 503 };
        }
        rig.end().await;
    });
}

#[test]
fn bad_places_are_refused() {
    run(async {
        let rig = Rig::new("").await;
        for (name, path, headers) in [
            ("no place", "/api/v1/stream?stream=late&from=x", ""),
            (
                "no id",
                "/api/v1/stream?stream=late",
                "Last-Event-ID: x\r\n",
            ),
            (
                "past the end",
                "/api/v1/stream?stream=late&from=late@2=0:99",
                "",
            ),
            ("no stream", "/api/v1/stream", ""),
        ] {
            let got = rig.with(path, headers).await;
            assert_eq!(got.status, 400, "{name}: {got:?}");
        }
        rig.end().await;
    });
}
