//! Questions to a whole agent: what is answered from rows and from the engine is what the
//! readings say.

use std::path::Path;
use std::time::Duration;

use forebay_core::query::{Figures, RollupColumns, whole_windows, window_start};
use serde_json::json;

use super::*;
use crate::agent::Agent;
use crate::config::Config;
use crate::ports::Say;

const SECOND: i64 = 1_000_000;
/// 2026-03-01T00:00:00Z.
const START: i64 = 1_772_323_200 * SECOND;
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    agent: Agent,
    reads: Reads,
    /// Of each channel its readings, in the order in which they were given.
    given: Vec<Vec<(i64, f64)>>,
    keys: Vec<ChannelKey>,
}

/// Half a second apart for 10 minutes, of three channels of two devices; one comes late,
/// and the last of all is far ahead of what is over.
fn given() -> Vec<Vec<(i64, f64)>> {
    let channel = |nth: i64| {
        let mut readings: Vec<_> = (0..1200)
            .map(|n| {
                let value = ((n * 7919 + nth * 31) % 1000) as f64 / 8.0;
                (START + n * SECOND / 2 + nth, value)
            })
            .collect();
        // Out of order, but not late.
        readings.swap(700, 702);
        readings
    };
    (0..3).map(channel).collect()
}

const NAMES: [(&str, &str); 3] = [("boiler", "flow"), ("boiler", "temp"), ("pump", "flow")];

async fn rig(dir: &Path) -> Rig {
    let text = format!(
        "[agent]\ngateway = \"g\"\ndata_dir = {:?}\n\
         [log]\ngeneration = \"1MiB\"\n\
         [[window]]\nname = \"ten\"\nkind = \"sliding\"\nsize = \"10s\"\n\
         [[window]]\nname = \"minute\"\nkind = \"tumbling\"\nsize = \"1m\"\n\
         aggregates = [\"count\", \"mean\", \"min\", \"max\", \"sum\", \"p95\"]\n",
        dir.join("data")
    );
    let config = Config::from_text(&dir.join("c.toml"), &text).unwrap();
    let say: Say = Arc::new(|_: &str| {});
    let agent = Agent::start(&config, &say).await.unwrap();
    let given = given();
    let series: Vec<_> = NAMES.iter().map(|(d, c)| json!([d, c, "K"])).collect();
    let mut session = Value::Null;
    for from in (0..1200).step_by(100) {
        let records = (from..from + 100).flat_map(|n| {
            let of = |nth: usize| json!([nth, given[nth][n].0, given[nth][n].1]);
            (0..3).map(of).collect::<Vec<_>>()
        });
        let records: Vec<_> = records.collect();
        let request = json!({ "import": {
            "session": session, "series": series, "records": records,
        }});
        let answer = agent.ask(request).await.unwrap();
        session = answer["session"].clone();
        assert_eq!(answer["taken"], 300, "{answer}");
    }
    assert!(agent.drain(false, PATIENCE).await, "all is derived");
    let reads = agent.handle();
    let catalog = reads.catalog().await.unwrap();
    let key = |(device, channel): &(&str, &str)| {
        let entry = catalog.find(device, channel);
        entry.unwrap_or_else(|| panic!("{catalog:?}")).key.clone()
    };
    Rig {
        keys: NAMES.iter().map(key).collect(),
        agent,
        reads,
        given,
    }
}

fn range(from_s: i64, to_s: i64) -> Range<EventTime> {
    EventTime(START + from_s * SECOND)..EventTime(START + to_s * SECOND)
}

impl Rig {
    fn sorted(&self, channel: usize, range: &Range<EventTime>) -> Vec<(i64, f64)> {
        let readings = self.given[channel].iter().copied();
        let inside = readings.filter(|(t, _)| range.contains(&EventTime(*t)));
        let mut inside: Vec<_> = inside.collect();
        inside.sort_by_key(|(time, _)| *time);
        inside
    }

    async fn readings_are_those_given(&self) {
        for (range, rows_max, newest_first) in [
            (range(0, 600), READ_ROWS_MAX, false),
            (range(100, 130), 10_000, true),
            (range(0, 600), 100, false),
            (range(0, 600), 100, true),
            (range(900, 901), 100, true),
        ] {
            let got = self
                .reads
                .readings(ReadingsWant {
                    keys: self.keys.clone(),
                    range: range.clone(),
                    detail: true,
                    rows_max,
                    newest_first,
                })
                .await
                .unwrap();
            let whole = Range {
                start: got.covered.start.max(range.start),
                end: got.covered.end.min(range.end),
            };
            let mut sum = 0;
            for (channel, columns) in got.columns.iter().enumerate() {
                let rows = columns
                    .times
                    .iter()
                    .copied()
                    .zip(columns.values.iter().copied());
                let rows: Vec<_> = rows.collect();
                assert_eq!(rows, self.sorted(channel, &whole), "{range:?}");
                sum += rows.len();
            }
            let all: usize = (0..3).map(|c| self.sorted(c, &range).len()).sum();
            assert_eq!(got.left_out, all > rows_max, "{range:?}");
            assert!(
                sum <= rows_max && sum + 3 > rows_max.min(all),
                "{sum} of {all}"
            );
            assert_eq!((got.missing, got.behind, got.complete_from), (0, 0, None));
        }
    }

    async fn rollups_are_those_of_the_readings(&self) {
        // The minute has rows; ten seconds have none.
        for (size_s, stream) in [(60, true), (10, false)] {
            let size = Span(size_s * SECOND);
            for asked in [
                range(0, 600),
                range(61, 299),
                range(590, 700),
                range(-90, 1),
            ] {
                let got = self
                    .reads
                    .rollup(RollupWant {
                        keys: self.keys.clone(),
                        size,
                        range: asked.clone(),
                        rows_max: 10_000,
                    })
                    .await
                    .unwrap();
                let source = match stream {
                    true => RollupSource::Stream(String::from("minute")),
                    false => RollupSource::Readings,
                };
                assert_eq!(got.source, source);
                for (channel, columns) in got.columns.iter().enumerate() {
                    self.check_rollup(channel, columns, size, &asked);
                }
                assert_eq!((got.missing, got.left_out), (0, false));
            }
        }
    }

    fn check_rollup(
        &self,
        channel: usize,
        columns: &RollupColumns,
        size: Span,
        asked: &Range<EventTime>,
    ) {
        let (start, end) = whole_windows((asked.start, asked.end), size);
        let mut want: std::collections::BTreeMap<i64, Figures> = Default::default();
        for (time, value) in self.sorted(channel, &(start..end)) {
            let start = window_start(EventTime(time), size);
            want.entry(start.0).or_default().add(Some(value));
        }
        let starts: Vec<i64> = want.keys().copied().collect();
        assert_eq!(columns.starts, starts, "{asked:?}");
        for (at, figures) in want.values().enumerate() {
            let values = figures.values();
            assert_eq!(columns.count[at], values.count);
            let got = [
                columns.mean[at],
                columns.min[at],
                columns.max[at],
                columns.sum[at],
            ];
            let want = [values.mean, values.min, values.max, values.sum].map(Option::unwrap);
            assert_eq!(got.map(f64::to_bits), want.map(f64::to_bits));
        }
        let last = starts.last() == Some(&(START + 600 * SECOND - size.0));
        let preliminary = columns.len() - columns.preliminary_from;
        assert_eq!(preliminary, usize::from(last), "{asked:?}");
    }

    async fn rolling_figures_are_those_of_the_readings(&self) {
        for (size_s, from_engine) in [(10, true), (11, false)] {
            for (channel, key) in self.keys.iter().enumerate() {
                let size = Span(size_s * SECOND);
                let got = self.reads.rolling(key.clone(), size).await.unwrap();
                assert_eq!(got.from_engine, from_engine);
                let newest = self.given[channel].iter().map(|(t, _)| *t).max();
                assert_eq!(Some(got.time.0), newest);
                let mut want = Figures::default();
                let inside = self.given[channel].iter();
                let inside = inside.filter(|(t, _)| *t > got.time.0 - size.0);
                inside.for_each(|(_, value)| want.add(Some(*value)));
                assert_eq!(got.figures, want.values());
                assert!(got.preliminary);
                let (device, channel) = NAMES[channel];
                let said = self.agent.ask(json!({
                    "query": "rolling", "device": device, "channel": channel, "size_us": size.0,
                }));
                let said = said.await.unwrap();
                assert_eq!(said["mean"].as_f64(), got.figures.mean, "{said}");
                assert_eq!(said["count"], got.figures.count, "{said}");
                assert_eq!(said["unit"], "K", "{said}");
            }
        }
    }

    async fn rows_are_those_of_the_stream(&self) {
        let want = RowsWant {
            stream: String::from("minute"),
            range: range(60, 180),
            rows_max: 100,
        };
        let got = self.reads.rows(want.clone()).await.unwrap();
        // Of three channels those of two minutes, at their last microseconds.
        assert_eq!(got.lines.len(), 6);
        assert!(got.times.is_sorted());
        let few = self
            .reads
            .rows(RowsWant {
                rows_max: 3,
                ..want
            })
            .await
            .unwrap();
        assert_eq!((few.lines.len(), few.left_out), (3, true));
        assert_eq!(few.lines, got.lines[..3]);
    }

    async fn what_makes_no_sense_is_told(&self) {
        let nobody = ChannelKey {
            channel: "none".into(),
            ..self.keys[0].clone()
        };
        let want = |key: &ChannelKey, range, rows_max| ReadingsWant {
            keys: vec![key.clone()],
            range,
            detail: false,
            rows_max,
            newest_first: false,
        };
        let key = &self.keys[0];
        let refused = |want| async { self.reads.readings(want).await.unwrap_err() };
        let unknown = refused(want(&nobody, range(0, 1), 1)).await;
        assert!(matches!(&unknown, ReadError::Unknown(text) if text.contains("flow, temp")));
        let wrong = refused(want(key, range(1, 1), 1)).await;
        assert!(matches!(wrong, ReadError::Wrong(_)));
        for (rows_max, fits) in [
            (0, false),
            (READ_ROWS_MAX - 1, true),
            (READ_ROWS_MAX, true),
            (READ_ROWS_MAX + 1, false),
        ] {
            let got = self.reads.readings(want(key, range(0, 1), rows_max)).await;
            assert_eq!(got.is_ok(), fits, "{rows_max}");
        }
        let unknown = self.reads.rows(RowsWant {
            stream: String::from("nothing"),
            range: range(0, 1),
            rows_max: 1,
        });
        assert!(matches!(unknown.await, Err(ReadError::Unknown(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_what_its_readings_say() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig(dir.path()).await;
    rig.readings_are_those_given().await;
    rig.rollups_are_those_of_the_readings().await;
    rig.rolling_figures_are_those_of_the_readings().await;
    rig.rows_are_those_of_the_stream().await;
    rig.what_makes_no_sense_is_told().await;
    let reads = rig.reads.clone();
    rig.agent.stop().await.unwrap();
    assert_eq!(reads.catalog().await, Err(ReadError::Stopped));
}
