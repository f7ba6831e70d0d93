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
        // One of which the config says nothing is called as it was recorded.
        rig.import("attic", "humidity", 2).await;
        let path = "/api/v1/stream?stream=readings&device=attic&from=beginning";
        let recorded = events(&rig, path, "", 2).await;
        assert_eq!(recorded[1].1["row"]["device"], "attic");
        assert_eq!(recorded[1].1["row"]["channel"], "humidity");
        let path = "/api/v1/stream?stream=readings&device=atic";
        let refused = exchange(rig.connect().await, &get(path, "")).await;
        let want = "(did you mean \"attic\"?): give a uid of sixteen hexadecimal digits, or a \
                    name: boiler, attic";
        assert!(refused.detail().contains(want), "{refused:?}");
        rig.end().await;
    });
}

/// A stream that is followed, with the status of its answer.
async fn followed(rig: &Rig, count: usize) -> (tokio::net::TcpStream, u16) {
    let names = ["readings", "late", "control", "quarantine"];
    let streams = names[..count].iter().map(|name| format!("stream={name}&"));
    let path = format!("/api/v1/stream?{}", streams.collect::<String>());
    let mut stream = rig.connect().await;
    stream.write_all(get(&path, "").as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    let status = std::str::from_utf8(&head[9..]).unwrap().parse();
    (stream, status.unwrap())
}

#[test]
fn streams_are_followed_up_to_their_limit_and_again_when_one_goes() {
    const MOST: usize = 3;
    run(async {
        let rig = Rig::new(&format!("streams = {MOST}")).await;
        for (count, status) in [(MOST - 1, 200), (MOST, 200), (MOST + 1, 503)] {
            let (_, got) = followed_soon(&rig, count, status).await;
            assert_eq!(got, status, "{count} at once");
        }
        let mut held = Vec::new();
        for (count, status) in [(1, 200), (MOST - 1, 200), (MOST, 200), (MOST + 1, 503)] {
            while held.len() < count - 1 {
                held.push(followed_soon(&rig, 1, 200).await.0);
            }
            let (stream, got) = followed_soon(&rig, 1, status).await;
            assert_eq!(got, status, "{count} one by one");
            if status == 200 {
                held.push(stream);
            }
        }
        let got = exchange(rig.connect().await, &get("/api/v1/stream?stream=late", "")).await;
        assert!(got.detail().contains("streams in [api]"), "{got:?}");
        held.pop();
        assert_eq!(followed_soon(&rig, 1, 200).await.1, 200);
        rig.end().await;
    });
}

/// As [`followed`], but what was closed before is let go a moment later.
async fn followed_soon(rig: &Rig, count: usize, wanted: u16) -> (tokio::net::TcpStream, u16) {
    loop {
        let followed = followed(rig, count).await;
        if followed.1 == wanted || wanted != 200 {
            return followed;
        }
    }
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
