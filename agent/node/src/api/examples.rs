//! A request and an answer per path, for the document and its page. A test reads each
//! answer through its type.

/// The part of the URL that is asked for, and what comes back.
pub(super) const fn of(id: &str) -> (&'static str, &'static str) {
    let mut at = 0;
    while at < ALL.len() {
        if is(ALL[at].0, id) {
            return (ALL[at].1, ALL[at].2);
        }
        at += 1;
    }
    ("", "")
}

const fn is(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

const ALL: [(&str, &str, &str); 15] = [
    (
        "rolling",
        "/api/v1/rolling?device=boiler&channel=temperature&window=60s",
        r#"{"window":"60s","series":[{"device":"boiler","uid":"0123456789abcdef","channel":"temperature","unit":"degC","time":"2026-03-01T12:00:00Z","count":60,"mean":71.25,"min":70.5,"max":72.0}]}"#,
    ),
    (
        "rollups",
        "/api/v1/rollups?device=boiler&channel=temperature&window=60s&from=-2m",
        r#"{"window":"60s","source":"minute","from":"2026-03-01T11:58:00Z","to":"2026-03-01T12:00:30Z","series":[{"device":"boiler","uid":"0123456789abcdef","channel":"temperature","unit":"degC","starts":["2026-03-01T11:58:00Z","2026-03-01T11:59:00Z"],"ends":["2026-03-01T11:59:00Z","2026-03-01T12:00:00Z"],"count":[60,60],"mean":[71.0,71.25],"min":[70.5,70.5],"max":[71.5,72.0],"sum":[4260.0,4275.0],"preliminary":[false,true],"figures":{"stddev":[0.25,null]}}],"next":null}"#,
    ),
    (
        "readings",
        "/api/v1/readings?device=boiler&channel=temperature&from=-15m&limit=2&gaps=true",
        r#"{"from":"2026-03-01T11:45:00Z","to":"2026-03-01T11:45:02Z","series":[{"device":"boiler","uid":"0123456789abcdef","channel":"temperature","unit":"degC","times":["2026-03-01T11:45:00.250000Z","2026-03-01T11:45:01.250000Z"],"values":[71.25,null]}],"gaps":[{"device":"boiler","boot":3,"first":120,"count":16,"reason":"ring_full","time":"2026-03-01T11:45:00Z"}],"readings_not_read_yet":0,"next":"r1.1772365502000000.1772366400000000"}"#,
    ),
    (
        "rows",
        "/api/v1/rows?stream=minute&from=-5m&limit=1",
        r#"{"stream":"minute","from":"2026-03-01T11:55:00Z","to":"2026-03-01T12:00:00Z","rows":[{"stream":"minute","device":"boiler","channel":"temperature","start":"2026-03-01T11:55:00Z","end":"2026-03-01T11:56:00Z","revision":0,"final":true,"count":60,"mean":71.25}],"next":null}"#,
    ),
    (
        "devices",
        "/api/v1/devices",
        r#"{"devices":[{"device":"boiler","uid":"0123456789abcdef","connected":0,"open":true,"boot":3,"firmware":"0.1.0"}]}"#,
    ),
    (
        "device",
        "/api/v1/devices/boiler",
        r#"{"device":"boiler","uid":"0123456789abcdef","connected":0,"open":true,"boot":3,"firmware":"0.1.0","clock":{"samples":14,"round_trip_us":423,"uncertainty_us":386,"drift_ppm":-1.37}}"#,
    ),
    (
        "status",
        "/api/v1/status",
        r#"{"gateway":"gw-1","recovered":true,"received":120,"stored":120,"duplicates":0,"lost":0,"rows":20,"devices":[{"device":"boiler","uid":"0123456789abcdef","received":120}],"ports":[],"destinations":[]}"#,
    ),
    (
        "ledger",
        "/api/v1/ledger",
        r#"{"gateway":"gw-1","received":120,"stored":120,"duplicates":0,"lost":0,"gaps":{"total":0,"by_reason":{}},"devices":[{"device":"boiler","uid":"0123456789abcdef","ledger":{"produced":120,"readings":120,"lost":0,"missing":0,"closes":true}}]}"#,
    ),
    (
        "alarms",
        "/api/v1/alarms",
        r#"{"health":"degraded","alarms":[{"code":"broker-refused","severity":"degraded","subject":"default","since":"2026-03-01T11:58:00Z","age_us":120000000,"text":"the broker takes no connection: bad user name or password; readings are kept meanwhile","runbook":"agent/node/docs/alarms.md#broker-refused"}],"left_out":0}"#,
    ),
    (
        "streams",
        "/api/v1/streams",
        r#"{"streams":[{"stream":"readings","kind":"readings"},{"stream":"late","kind":"log"},{"stream":"minute","kind":"view","state":"live","rows":2880}]}"#,
    ),
    (
        "follow",
        "/api/v1/stream?stream=readings&device=boiler",
        "id: readings@0=0:121\nevent: insert\ndata: {\"stream\":\"readings\",\"op\":\"insert\",\"partition\":0,\"offset\":120,\"row\":{\"device\":\"boiler\",\"channel\":\"temperature\",\"time\":\"2026-03-01T12:00:00Z\",\"value\":71.25,\"boot\":3,\"ordinal\":120}}",
    ),
    ("healthz", "/healthz", "ok"),
    ("readyz", "/readyz", "ready"),
    ("metrics", "/metrics", "forebay_readings_received_total 120"),
    (
        "openapi",
        "/api/v1/openapi.json",
        r#"{"openapi":"3.1.0","info":{"title":"Forebay"}}"#,
    ),
];

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::super::endpoints;
    use super::super::types::{
        Alarms, Device, Devices, Ledger, Readings, Rolling, Rollups, Rows, Status, Streams,
    };
    use super::*;

    fn reads<T: DeserializeOwned>(text: &str) -> Result<(), serde_json::Error> {
        serde_json::from_str::<T>(text).map(drop)
    }

    #[test]
    fn every_answer_is_of_its_type() {
        for endpoint in endpoints::ALL {
            let (_, text) = of(endpoint.id);
            let read = match endpoint.id {
                "rolling" => reads::<Rolling>(text),
                "rollups" => reads::<Rollups>(text),
                "readings" => reads::<Readings>(text),
                "rows" => reads::<Rows>(text),
                "devices" => reads::<Devices>(text),
                "device" => reads::<Device>(text),
                "status" => reads::<Status>(text),
                "ledger" => reads::<Ledger>(text),
                "alarms" => reads::<Alarms>(text),
                "streams" => reads::<Streams>(text),
                "openapi" => reads::<Value>(text),
                "follow" | "healthz" | "readyz" | "metrics" => Ok(()),
                other => panic!("{other} has no type here"),
            };
            read.unwrap_or_else(|error| panic!("{}: {error}", endpoint.id));
        }
    }

    #[test]
    fn every_request_is_one_of_its_path() {
        use forebay_core::units::EventTime;

        use super::super::given::Given;
        for endpoint in endpoints::ALL {
            let (url, _) = of(endpoint.id);
            let (path, query) = url
                .split_once('?')
                .map_or((url, None), |(p, q)| (p, Some(q)));
            let start = endpoint.path.split('{').next().unwrap_or_default();
            assert!(!start.is_empty() && path.starts_with(start), "{url}");
            let read = Given::read(endpoint, query, EventTime(0));
            assert!(read.is_ok(), "{url}: {read:?}");
        }
    }
}
