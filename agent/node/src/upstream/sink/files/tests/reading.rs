//! What the sink gives back, and what other programs read in its folder.

use std::collections::BTreeSet;
use std::fs::{self, File};

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::RowAccessor as _;
use serde_json::Value;

use super::*;

const FORMATS: [FilesFormat; 2] = [FilesFormat::Parquet, FilesFormat::Ndjson];

/// Files below a folder, from it on, in order.
fn files(folder: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut dirs = vec![folder.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                out.push(name.to_str().unwrap().to_owned());
            }
        }
    }
    out.sort();
    out
}

#[test]
fn rows_are_those_of_every_sink_before_and_after_a_roll() {
    let want = expected(script().len());
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), format);
        let mut sink = open(&config);
        let mut applier = load(&mut sink);
        for (number, batch) in script().iter().enumerate() {
            commit(&mut sink, &mut applier, batch).unwrap();
            assert_eq!(lines(&mut sink), expected(number + 1), "pending");
        }
        assert!(
            files(dir.path())
                .iter()
                .all(|name| name.starts_with("_forebay/"))
        );
        sink.tend(later(), false).unwrap();
        assert_eq!(sink.due(), None);
        assert_eq!(lines(&mut sink), want, "{format:?}");
        drop(sink);
        let mut again = open(&config);
        assert_eq!(lines(&mut again), want, "opened again");
        drop(again);
        let mut read = FilesSink::open_existing(&config).unwrap();
        assert_eq!(lines(&mut read), want, "to be read only");
        let steps = files(dir.path());
        assert!(
            !steps.iter().any(|name| name.contains("step-")),
            "{steps:?}"
        );
    }
}

#[test]
fn folders_are_by_day_and_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = open(&config(dir.path(), FilesFormat::Parquet));
    let mut applier = load(&mut sink);
    for batch in &script()[..3] {
        commit(&mut sink, &mut applier, batch).unwrap();
    }
    sink.tend(later(), false).unwrap();
    let names: BTreeSet<String> = files(dir.path())
        .into_iter()
        .filter(|name| !name.starts_with('_'))
        .map(|name| name.rsplit_once('/').unwrap().0.to_owned())
        .collect();
    let want = [
        "clocks/date=2026-03-02/gateway=a",
        "clocks/date=2026-03-02/gateway=b",
        "gaps/date=2026-03-02/gateway=a",
        "missing/gateway=b",
        "readings/date=2026-03-01/gateway=a",
        "readings/date=2026-03-01/gateway=b",
        "readings/date=2026-03-02/gateway=a",
        "readings/date=2026-03-02/gateway=b",
        "rows/date=2026-03-01/gateway=a",
        "rows/date=2026-03-02/gateway=a",
    ];
    let want: BTreeSet<String> = want.into_iter().map(str::to_owned).collect();
    let extra: Vec<_> = names.symmetric_difference(&want).collect();
    // Offset 6 is at 01:00 of the second day; gateway b's offset 5 was declared missing.
    assert!(
        extra.iter().all(|name| ["clocks/", "gaps/", "tables/"]
            .iter()
            .any(|kind| name.starts_with(kind))),
        "{extra:?}"
    );
}

/// The figures of a reading, read by the crate's own reader.
#[test]
fn parquet_has_the_columns_of_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = open(&config(dir.path(), FilesFormat::Parquet));
    let mut applier = load(&mut sink);
    commit(&mut sink, &mut applier, &[readings("a", 0, (0, 3))]).unwrap();
    sink.tend(later(), false).unwrap();
    let folder = dir.path().join("readings/date=2026-03-01/gateway=a");
    let path = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(rows.len(), 4);
    let named = rows[0].get_column_iter().map(|(name, _)| name.as_str());
    let want = super::super::table::Kept::Readings.columns();
    assert!(named.eq(want.iter().map(|(name, _)| *name)));
    assert_eq!(rows[2].get_ulong(5).unwrap(), 2, "offset");
    assert_eq!(rows[2].get_string(6).unwrap(), "0000000000000007");
    assert_eq!(rows[2].get_string(9).unwrap(), "count");
    assert_eq!(rows[2].get_timestamp_micros(10).unwrap(), START + HOUR);
    assert_eq!(rows[2].get_double(11).unwrap(), -202.0);
    assert_eq!(rows[2].get_long(12).unwrap(), 0, "scale");
    assert!(
        rows[3].get_double(11).is_err(),
        "no value where it is not ok"
    );
    assert_eq!(rows[3].get_string(14).unwrap(), "bus_error");
}

#[test]
fn ndjson_lines_are_json_objects_with_the_same_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = open(&config(dir.path(), FilesFormat::Ndjson));
    let mut applier = load(&mut sink);
    for batch in script() {
        commit(&mut sink, &mut applier, &batch).unwrap();
    }
    sink.tend(later(), false).unwrap();
    let mut seen = 0;
    for name in files(dir.path()) {
        let Some((table, _)) = name
            .split_once('/')
            .filter(|(table, _)| *table != "_forebay")
        else {
            continue;
        };
        let kept = super::super::table::Kept::ALL;
        let kept = kept.into_iter().find(|kept| kept.name() == table).unwrap();
        for line in fs::read_to_string(dir.path().join(&name)).unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let names: BTreeSet<&str> = value
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            let want: BTreeSet<&str> = kept.columns().iter().map(|(name, _)| *name).collect();
            assert_eq!(names, want, "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, expected(script().len()).len());
}

#[test]
fn extents_cover_each_offset_once_in_order() {
    for (format, rolled) in [(FilesFormat::Parquet, true), (FilesFormat::Ndjson, false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = open(&config(dir.path(), format));
        let mut applier = load(&mut sink);
        for batch in script() {
            commit(&mut sink, &mut applier, &batch).unwrap();
        }
        if rolled {
            sink.tend(later(), false).unwrap();
        }
        let extents = extents(&mut sink);
        let short = extents.iter().map(|extent| {
            let source = &extent.source;
            let of = (
                source.gateway.as_str(),
                source.stream.as_str(),
                source.partition.0,
            );
            (
                of,
                extent.epoch.0,
                extent.first.0,
                extent.count,
                extent.kind,
            )
        });
        let rows = ExtentKind::Rows;
        let want = [
            (("a", "minute", 0), 1, 0, 7, rows),
            (("a", "readings", 0), 1, 0, 51, rows),
            (("a", "readings", 1), 1, 0, 4, rows),
            (("b", "readings", 1), 1, 0, 5, rows),
            (("b", "readings", 1), 1, 5, 4, ExtentKind::Missing),
            (("b", "readings", 1), 1, 9, 4, rows),
        ];
        assert_eq!(short.collect::<Vec<_>>(), want);
    }
}

#[test]
fn filters_look_into_the_right_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = open(&config(dir.path(), FilesFormat::Parquet));
    let mut applier = load(&mut sink);
    for (number, batch) in script().iter().enumerate() {
        commit(&mut sink, &mut applier, batch).unwrap();
        if number == 2 {
            sink.tend(later(), false).unwrap();
        }
    }
    let all = RowFilter::default;
    let day = |n: i64| Some(EventTime(START + 2 * HOUR + n * 24 * HOUR));
    for (name, filter) in [
        (
            "a gateway",
            RowFilter {
                gateway: Some(super::name("b")),
                ..all()
            },
        ),
        (
            "a stream",
            RowFilter {
                stream: StreamName::new("minute").ok(),
                ..all()
            },
        ),
        (
            "a channel",
            RowFilter {
                channel: Some("count".to_owned()),
                ..all()
            },
        ),
        (
            "a device",
            RowFilter {
                device: Some(DeviceUid([7; 8])),
                ..all()
            },
        ),
        (
            "before midnight",
            RowFilter {
                to: day(0),
                ..all()
            },
        ),
        (
            "a day",
            RowFilter {
                from: day(0),
                to: day(1),
                ..all()
            },
        ),
        (
            "nothing",
            RowFilter {
                from: day(30),
                ..all()
            },
        ),
    ] {
        let mut got = Vec::new();
        sink.rows(&filter, &mut |row| {
            got.push(row);
            true
        })
        .unwrap();
        let mut want = Vec::new();
        sink.rows(&all(), &mut |row| {
            if filter.takes(&row) {
                want.push(row);
            }
            true
        })
        .unwrap();
        assert_eq!(got, want, "{name}");
        assert_eq!(got.is_empty(), name == "nothing", "{name}");
    }
    let mut seen = 0;
    sink.rows(&all(), &mut |_| {
        seen += 1;
        seen < 3
    })
    .unwrap();
    assert_eq!(seen, 3, "it stops when it is told to");
}

#[test]
fn state_is_kept_over_rolls() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), FilesFormat::Parquet);
    let mut counted = None;
    for batch in script() {
        let mut sink = open(&config);
        let mut applier = load(&mut sink);
        if let Some(counters) = counted {
            assert_eq!(applier.counters(), counters);
        }
        commit(&mut sink, &mut applier, &batch).unwrap();
        counted = Some(applier.counters());
        let versions = sink.load(None).unwrap().versions;
        sink.tend(later(), true).unwrap();
        assert_eq!(sink.load(None).unwrap().versions, versions);
        let of_a = sink.load(Some(&super::name("a"))).unwrap();
        assert!(
            of_a.versions.len() <= 1 && of_a.marks.len() < sink.load(None).unwrap().marks.len()
                || versions.len() < 3
        );
        let mut rejected = 0;
        sink.rejected(&mut |text| {
            assert!(text.starts_with(b"{"));
            rejected += 1;
            true
        })
        .unwrap();
        assert_eq!(rejected, applier.counters().rejected);
    }
    let steps = files(dir.path());
    let steps: Vec<_> = steps.iter().filter(|name| name.starts_with('_')).collect();
    assert_eq!(steps, ["_forebay/lock", "_forebay/manifest-000000000005"]);
}

#[test]
fn a_batch_of_another_state_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = open(&config(dir.path(), FilesFormat::Parquet));
    let mut first = load(&mut sink);
    let mut second = load(&mut sink);
    commit(&mut sink, &mut first, &[readings("a", 0, (0, 9))]).unwrap();
    let (topic, payload) = readings("a", 0, (5, 14));
    second.handle(&topic, payload.into());
    let refused = sink.commit(&second.take_batch()).unwrap();
    let Committed::Conflict(gateways) = refused else {
        panic!("it was taken");
    };
    assert!(gateways.contains(&name("a")));
    assert_eq!(lines(&mut sink).len(), 10);
}

#[test]
fn a_second_process_and_a_reader_are_kept_away() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), FilesFormat::Parquet);
    let nothing = FilesSink::open_existing(&config);
    assert!(matches!(nothing, Err(SinkError::Missing(_))), "{nothing:?}");
    let sink = open(&config);
    for other in [FilesSink::open(&config), FilesSink::open_existing(&config)] {
        let text = other.unwrap_err().to_string();
        assert!(text.contains(&std::process::id().to_string()), "{text}");
    }
    drop(sink);
    let mut reader = FilesSink::open_existing(&config).unwrap();
    let _another = FilesSink::open_existing(&config).unwrap();
    assert!(FilesSink::open(&config).is_err());
    let mut applier = load(&mut reader);
    let refused = commit(&mut reader, &mut applier, &[readings("a", 0, (0, 1))]);
    assert!(refused.unwrap_err().to_string().contains("read only"));
}

#[test]
fn damage_is_named_and_nothing_is_changed() {
    for what in ["step-000000000002", "manifest-000000000001"] {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path(), FilesFormat::Parquet);
        let mut sink = open(&config);
        let mut applier = load(&mut sink);
        let script = script();
        commit(&mut sink, &mut applier, &script[0]).unwrap();
        sink.tend(later(), false).unwrap();
        commit(&mut sink, &mut applier, &script[1]).unwrap();
        commit(&mut sink, &mut applier, &script[2]).unwrap();
        drop(sink);
        let path = dir.path().join("_forebay").join(what);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let before = files(dir.path());
        let text = FilesSink::open(&config).unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
        assert_eq!(files(dir.path()), before);
        fs::remove_file(&path).unwrap();
        let text = FilesSink::open(&config).unwrap_err().to_string();
        let want = if what.starts_with("step") {
            "is missing"
        } else {
            "no manifest"
        };
        assert!(text.contains(want), "{text}");
    }
}

#[test]
fn it_rolls_by_time_or_by_rows() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows, after, rolls) in [
        ("nothing is due", 11, 299, false),
        ("by time", 11, 301, true),
        ("one row less than enough", 10 + 1, 0, false),
        ("rows enough", 10, 0, true),
        ("more than enough", 9, 0, true),
    ] {
        let folder = dir.path().join(name);
        let config = FilesConfig {
            rows,
            ..config(&folder, FilesFormat::Parquet)
        };
        let mut sink = open(&config);
        let mut applier = load(&mut sink);
        commit(&mut sink, &mut applier, &[readings("a", 0, (0, 9))]).unwrap();
        let now = Instant::now() + Duration::from_secs(after);
        sink.tend(now, false).unwrap();
        assert_eq!(folder.join("readings").exists(), rolls, "{name}");
        sink.tend(now, true).unwrap();
        assert!(folder.join("readings").exists(), "{name}: at the end");
    }
}

#[test]
fn both_formats_may_stand_beside_each_other() {
    let dir = tempfile::tempdir().unwrap();
    for (number, batch) in script().iter().enumerate() {
        let mut sink = open(&config(dir.path(), FORMATS[number % 2]));
        let mut applier = load(&mut sink);
        commit(&mut sink, &mut applier, batch).unwrap();
        sink.tend(later(), true).unwrap();
        assert_eq!(lines(&mut sink), expected(number + 1));
    }
}
