//! What is answered, and what is said against a question.

use serde::de::DeserializeOwned;

use super::super::types::{
    Alarms, Device, Devices, Ledger, ProblemAnswer, Readings, Rolling, Rollups, Rows, Status,
    Streams, Time,
};
use super::*;

fn typed<T: DeserializeOwned>(got: &Got) -> T {
    assert_eq!(got.status, 200, "{got:?}");
    serde_json::from_str(&got.body).unwrap_or_else(|error| panic!("{error}: {}", got.body))
}

const ALL_OF_IT: &str = "from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z";

#[test]
fn readings_come_back_as_columns() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 150).await;
        rig.import("other", "pressure", 2).await;
        let path = format!("/api/v1/readings?{ALL_OF_IT}&time=us&detail=true&gaps=true");
        let answer: Readings = typed(&rig.get(&path).await);
        assert_eq!(answer.series.len(), 2);
        let boiler = &answer.series[0];
        assert_eq!(boiler.channel.device, "boiler");
        assert_eq!(
            (&*boiler.channel.channel, &*boiler.channel.unit),
            ("temperature", "degC")
        );
        assert_eq!(boiler.times.len(), 150);
        assert_eq!(boiler.times[149], Time::Micros(FIRST_US + 149 * SECOND_US));
        assert_eq!(boiler.values[149], Some(149.0));
        assert_eq!(boiler.quality.as_ref().map(Vec::len), Some(150));
        assert_eq!(answer.gaps, Some(Vec::new()));
        assert_eq!(answer.next, None);
        let path = format!("/api/v1/readings?{ALL_OF_IT}&device=other");
        let answer: Readings = typed(&rig.get(&path).await);
        assert_eq!(
            answer.series[0].times[1],
            Time::Text("2026-03-01T00:00:01Z".into())
        );
        rig.end().await;
    });
}

#[test]
fn pages_lead_on_to_the_end_without_a_hole() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 25).await;
        for (newest, limit) in [("false", 10), ("true", 10), ("false", 1), ("false", 25)] {
            let mut path = format!("/api/v1/readings?{ALL_OF_IT}&limit={limit}&newest={newest}");
            let (first, mut all, mut pages) = (path.clone(), Vec::new(), 0);
            loop {
                let answer: Readings = typed(&rig.get(&path).await);
                all.extend(answer.series[0].values.iter().flatten().copied());
                pages += 1;
                let Some(next) = answer.next else {
                    break;
                };
                path = format!("{first}&cursor={next}");
            }
            all.sort_by(f64::total_cmp);
            let want: Vec<f64> = (0..25).map(f64::from).collect();
            assert_eq!(all, want, "{newest} {limit}");
            assert_eq!(pages, 25_usize.div_ceil(limit), "{newest} {limit}");
        }
        rig.end().await;
    });
}

#[test]
fn figures_of_windows_are_right() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 150).await;
        let of = "device=boiler&channel=temperature";
        let path = format!("/api/v1/rollups?{of}&{ALL_OF_IT}&window=60s");
        let answer: Rollups = typed(&rig.get(&path).await);
        assert_eq!((&*answer.window, &*answer.source), ("60s", "minute"));
        let series = &answer.series[0];
        assert_eq!(series.count, [60, 60, 30]);
        assert_eq!(series.mean, [Some(29.5), Some(89.5), Some(134.5)]);
        assert_eq!(series.preliminary.last(), Some(&true));
        let path = format!("/api/v1/rollups?{of}&{ALL_OF_IT}&window=50s");
        let answer: Rollups = typed(&rig.get(&path).await);
        assert_eq!(&*answer.source, "readings");
        assert_eq!(answer.series[0].count.iter().sum::<u64>(), 150);
        let answer: Rolling = typed(&rig.get(&format!("/api/v1/rolling?{of}&window=10s")).await);
        let series = &answer.series[0];
        assert_eq!((series.count, series.mean), (10, Some(144.5)));
        let path = format!("/api/v1/rows?stream=minute&{ALL_OF_IT}");
        let mut rows: Rows = typed(&rig.get(&path).await);
        // They follow the readings into the log.
        while rows.rows.len() < 2 {
            rows = typed(&rig.get(&path).await);
        }
        assert_eq!(rows.rows[0]["device"], "boiler");
        assert_eq!(rows.rows[0]["count"], 60);
        rig.end().await;
    });
}

#[test]
fn tables_come_as_csv() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 2).await;
        let accept = "Accept: text/csv\r\n";
        for (path, want) in [
            (
                "/api/v1/readings?limit=1&",
                "device,channel,unit,times,values\nboiler,temperature,degC,2026-03-01T00:00:00Z,0.0\n",
            ),
            (
                "/api/v1/rolling?",
                "device,channel,unit,time,count,mean,min,max\nboiler,temperature,degC,2026-03-01T00:00:01Z,2,0.5,0.0,1.0\n",
            ),
        ] {
            let range = if path.contains("rolling") {
                ""
            } else {
                ALL_OF_IT
            };
            let got = rig.with(&format!("{path}{range}"), accept).await;
            assert_eq!(got.body, want, "{got:?}");
            assert!(got.head.contains("text/csv"), "{got:?}");
            let leads_on = path.contains("limit");
            assert_eq!(got.head.contains("forebay-next: r1."), leads_on, "{got:?}");
        }
        let got = rig
            .with(&format!("/api/v1/rollups?{ALL_OF_IT}"), accept)
            .await;
        let head = "device,channel,unit,starts,ends,count,mean,min,max,sum,preliminary";
        assert!(got.body.starts_with(head), "{got:?}");
        rig.end().await;
    });
}

#[test]
fn what_the_agent_says_of_itself_is_as_its_types_say() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 3).await;
        let status: Status = typed(&rig.get("/api/v1/status").await);
        assert_eq!((status.received, status.stored), (3, 3));
        let ledger: Ledger = typed(&rig.get("/api/v1/ledger").await);
        assert_eq!(ledger.devices[0].device, "boiler");
        let _: Alarms = typed(&rig.get("/api/v1/alarms").await);
        let _: Devices = typed(&rig.get("/api/v1/devices").await);
        let device: Device = typed(&rig.get("/api/v1/devices/boiler").await);
        assert_eq!(device.uid, UID);
        let streams: Streams = typed(&rig.get("/api/v1/streams").await);
        let names: Vec<&str> = streams.streams.iter().map(|s| &*s.stream).collect();
        assert!(
            names.contains(&"minute") && names.contains(&"late"),
            "{names:?}"
        );
        assert_eq!(rig.get("/healthz").await.body, "ok\n");
        assert_eq!(rig.get("/readyz").await.body, "ready\n");
        let document = rig.get("/api/v1/openapi.json").await.json();
        assert_eq!(document, super::super::openapi::document());
        rig.end().await;
    });
}

#[test]
fn errors_say_what_to_change() {
    run(async {
        let rig = Rig::new("").await;
        rig.import("boiler", "temperature", 1).await;
        for (path, status, word) in [
            ("/api/v1/reading", 404, "did you mean \"/api/v1/readings\"?"),
            ("/api/v1/devices/none", 404, "none"),
            (
                "/api/v1/readings?device=boilr",
                404,
                "did you mean \"boiler\"?",
            ),
            ("/api/v1/readings?channel=x", 404, "there are temperature"),
            (
                "/api/v1/rolling?device=x&channel=y",
                404,
                "no device is called",
            ),
            ("/api/v1/rows?stream=nothing", 404, "nothing"),
            ("/api/v1/rows", 400, "stream is missing"),
            ("/api/v1/rows?strem=late", 400, "did you mean stream?"),
            ("/api/v1/readings?from=now", 400, "is not before"),
            ("/api/v1/readings?from=x", 400, "must be a time such as"),
            ("/api/v1/rollups?window=0s", 400, "longer than nothing"),
            ("/api/v1/status?x=1", 400, "takes no parameters"),
            ("/api/v1/stream?stream=nothing", 404, "nothing"),
        ] {
            let got = rig.get(path).await;
            assert_eq!(got.status, status, "{path}: {got:?}");
            assert!(got.head.contains("application/problem+json"), "{got:?}");
            let problem: ProblemAnswer = serde_json::from_str(&got.body).unwrap();
            assert_eq!(problem.status, status);
            assert!(problem.detail.contains(word), "{path}: {}", problem.detail);
        }
        let text = "POST /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let got = exchange(rig.connect().await, text).await;
        assert_eq!(got.status, 405);
        assert!(got.head.contains("allow: get, head"), "{got:?}");
        let got = rig.with("/api/v1/status", "Accept: text/html\r\n").await;
        assert_eq!(got.status, 406);
        rig.end().await;
    });
}
