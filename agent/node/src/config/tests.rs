//! Errors with their lines, and the reference file against the schema.

use std::path::Path;
use std::time::Duration;

use forebay_core::engine::config::{
    Aggregate, CalendarUnit, Grid, KeySpec, Source as From, WindowKind, Zone,
};
use forebay_core::limits::ROWS_PER_WINDOW_MAX;
use forebay_core::retention::{SpaceConfig, WhenFull};
use forebay_core::units::Span;

use super::*;

fn load(text: &str) -> Result<Config, String> {
    Config::from_text(Path::new("/etc/forebay/config.toml"), text).map_err(|e| e.to_string())
}

fn window(lines: &str) -> String {
    format!("[[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"1m\"\n{lines}\n")
}

/// A window without a size.
fn of_kind(kind: &str, lines: &str) -> String {
    format!("[[window]]\nname = \"w\"\nkind = \"{kind}\"\n{lines}\n")
}

/// The window "x" over "w", which stands behind it.
fn two(outer: &str, inner: &str) -> String {
    let from = if outer.contains("from") {
        ""
    } else {
        "from = \"w\"\n"
    };
    let outer = window(&format!("{from}{outer}")).replace("\"w\"\nkind", "\"x\"\nkind");
    outer + &window(inner)
}

#[test]
fn an_empty_file_has_all_defaults() {
    let config = load("").expect("an empty config");
    assert_eq!(config.agent.data_dir, Path::new("/etc/forebay/data"));
    assert_eq!(config.agent.partitions, 1);
    assert_eq!(config.agent.linger, Duration::from_millis(20));
    assert_eq!(
        config.query.socket,
        Path::new("/etc/forebay/data/forebay.sock")
    );
    assert_eq!(config.log.sync, SyncMode::Group(Duration::from_millis(50)));
    assert_eq!(config.engine.time, Default::default());
    assert_eq!(config.engine.windows, []);
    assert_eq!(
        (config.forward.is_empty(), config.upstream.is_none()),
        (true, true)
    );
    assert!(
        config
            .gateway()
            .expect_err("no gateway")
            .to_string()
            .contains("[agent] gateway")
    );
    assert!(
        config
            .upstream()
            .expect_err("no upstream")
            .to_string()
            .contains("[upstream]")
    );
}

#[test]
fn logs_of_devices_and_their_firmware() {
    let config = load("").expect("an empty config");
    assert_eq!(
        (config.agent.device_log, config.agent.firmware),
        (2, vec![])
    );
    for (level, want) in [
        ("off", 0),
        ("error", 1),
        ("info", 3),
        ("debug", 4),
        ("trace", 5),
    ] {
        let config = load(&format!("[agent]\ndevice_log = \"{level}\"\n"));
        assert_eq!(config.expect(level).agent.device_log, want);
    }
    let places: Vec<String> = (0..16).map(|n| format!("fw/{n}.elf")).collect();
    let config = load(&format!("[agent]\nfirmware = {places:?}\n")).expect("16 places");
    assert_eq!(config.agent.firmware.len(), 16);
    assert_eq!(config.agent.firmware[0], Path::new("/etc/forebay/fw/0.elf"));
}

#[test]
fn every_error_names_line_key_and_what_is_valid() {
    let w = window;
    for (name, text, want) in [
        (
            "size 0",
            w("").replace("1m", "0s"),
            "config.toml:4: [[window]] size: \"0s\" must be longer than 0",
        ),
        (
            "no size",
            "[[window]]\nname = \"w\"\nkind = \"tumbling\"\n".into(),
            "config.toml:1: [[window]] size: is missing",
        ),
        (
            "unknown key",
            w("ofset = \"1s\""),
            ":5: [[window]] ofset: is not a key here (did you mean \"offset\"?)",
        ),
        (
            "unknown section",
            "\n[agnet]\n".into(),
            ":2: [agnet]: is not a section (did you mean \"agent\"?)",
        ),
        (
            "kind",
            w("").replace("tumbling", "tumblin"),
            ":3: [[window]] kind: \"tumblin\" is none of: tumbling,",
        ),
        (
            "aggregate",
            w("aggregates = [\"count\", \"averige\"]"),
            ":5: [[window]] aggregates: \"averige\" is no aggregate",
        ),
        (
            "a level of no log",
            "[agent]\ndevice_log = \"warning\"\n".into(),
            ":2: [agent] device_log: \"warning\" is none of: off, error, warn, info, debug, trace (did you mean \"warn\"?)",
        ),
        (
            "firmware that is no list",
            "[agent]\nfirmware = \"a.elf\"\n".into(),
            ":2: [agent] firmware: \"a.elf\" must be a list of texts",
        ),
        (
            "firmware without a path",
            "[agent]\nfirmware = [\"a.elf\", \"\"]\n".into(),
            ":2: [agent] firmware: has an empty path",
        ),
        (
            "firmware beyond the limit",
            format!(
                "[agent]\nfirmware = {:?}\n",
                (0..17).map(|n| n.to_string()).collect::<Vec<_>>()
            ),
            ":2: [agent] firmware: has 17 entries, at most 16",
        ),
        (
            "no such source",
            w("from = \"reading\""),
            "is no stream (did you mean \"readings\"?); streams: readings, w",
        ),
        (
            "a window over itself",
            w("from = \"w\""),
            ":5: [[window]] from: \"w\" makes a circle: w -> w",
        ),
        (
            "a circle behind another window",
            two("from = \"w\"", "from = \"x\"") + &w("from = \"w\"").replace("\"w\"\n", "\"y\"\n"),
            ":5: [[window]] from: \"w\" makes a circle: x -> w -> x",
        ),
        (
            "value of readings",
            w("value = \"max\""),
            ":5: [[window]] value: \"max\" is only for a window over another one",
        ),
        (
            "merge of readings",
            w("merge = true"),
            ":5: [[window]] merge: true is only for a window over another one",
        ),
        (
            "a value that is not there",
            two("value = \"p95\"", ""),
            "value: \"p95\" is no figure of \"w\"; its figures: count, mean, min, max",
        ),
        (
            "no mean",
            two("", "aggregates = [\"count\", \"sum\"]"),
            "value: is missing: \"w\" has no mean, which is the default; its figures: count, sum",
        ),
        (
            "a value beside merge",
            two("value = \"max\"\nmerge = true", ""),
            "cannot stand beside merge = true",
        ),
        (
            "merge of overlapping windows",
            two("merge = true\nhop = \"1h\"", "hop = \"30s\"").replace("tumbling", "hopping"),
            "would count readings twice",
        ),
        (
            "a key that the inner window has not",
            two("key = [\"device\", \"channel\"]", "key = [\"device\"]"),
            "has the column channel, which the key of \"w\" has not; columns: device",
        ),
        (
            "a filter by what is not in the key",
            two("channels = [\"t\"]", "key = [\"device\"]"),
            "\"w\" has no channel in its key",
        ),
        (
            "hop",
            w("hop = \"10s\""),
            ":5: [[window]] hop: is only for kind = \"hopping\"",
        ),
        (
            "hop 0",
            w("hop = \"0s\"").replace("tumbling", "hopping"),
            ":5: [[window]] hop: \"0s\" must be longer than 0",
        ),
        (
            "no hop",
            w("").replace("tumbling", "hopping"),
            "hop: is missing",
        ),
        (
            "hop limit + 1",
            w("hop = \"5999us\"").replace("tumbling", "hopping"),
            "is too short: over 10000 windows over one reading",
        ),
        (
            "rows with a size",
            w("rows = 5").replace("tumbling", "rows"),
            ":4: [[window]] size: is only for kind = \"tumbling\" or \"hopping\" or \"sliding\"",
        ),
        (
            "no rows",
            of_kind("rows", ""),
            "rows: is missing; for example rows = 100",
        ),
        (
            "rows 0",
            of_kind("rows", "rows = 0"),
            "0 must be from 1 to 1000000",
        ),
        (
            "rows limit + 1",
            of_kind("rows", "rows = 1000001"),
            "1000001 must be from 1 to 1000000",
        ),
        (
            "rows, final only",
            of_kind("rows", "rows = 1\nemit = \"final_only\""),
            "is not for sliding and rows",
        ),
        (
            "rows, never",
            of_kind("rows", "rows = 1\nemit = \"never\""),
            "emit: \"never\" is only for kind = \"sliding\"",
        ),
        (
            "over a window that has no rows",
            format!(
                "{}[[window]]\nname = \"x\"\nkind = \"tumbling\"\nsize = \"1h\"\nfrom = \"w\"\n",
                of_kind("sliding", "size = \"1m\"\nemit = \"never\"\n")
            ),
            "from: \"w\" has no rows: \"w\" has emit = \"never\"",
        ),
        (
            "no gap",
            of_kind("session", ""),
            "gap: is missing; for example gap = \"10m\"",
        ),
        (
            "gap 0",
            of_kind("session", "gap = \"0s\""),
            ":4: [[window]] gap: \"0s\" must be longer than 0",
        ),
        (
            "zone on a minute",
            w("zone = \"Europe/Paris\""),
            ":5: [[window]] zone: \"Europe/Paris\" is only for a size of 1d, 1w, 1mo",
        ),
        (
            "no such zone",
            w("zone = \"Europe/Pariss\"").replace("1m", "1d"),
            ":5: [[window]] zone: \"Europe/Pariss\" is no time zone (did you mean \"Europe/Paris\"?)",
        ),
        (
            "a zone by its town",
            w("zone = \"paris\"").replace("1m", "1d"),
            "(did you mean \"Europe/Paris\"?)",
        ),
        (
            "zone with an offset",
            w("zone = \"Europe/Paris\"\noffset = \"0s\"").replace("1m", "1d"),
            ":6: [[window]] offset: \"0s\" cannot stand beside a zone",
        ),
        (
            "months with an offset",
            w("offset = \"1d\"").replace("1m", "1mo"),
            ":5: [[window]] offset: \"1d\" cannot stand beside a zone",
        ),
        (
            "zone on a hopping window",
            w("hop = \"1d\"\nzone = \"UTC\"")
                .replace("1m", "1d")
                .replace("tumbling", "hopping"),
            "zone: is only for kind = \"tumbling\"",
        ),
        (
            "table key",
            w("key = [\"sites.building\"]"),
            "has a column of \"sites\", which is no table; tables: none",
        ),
        (
            "key column",
            w("key = [\"devise\"]"),
            "unknown column \"devise\" (did you mean \"device\"?)",
        ),
        (
            "bounds",
            w("bounds = \"closed\""),
            "is only for kind = \"sliding\"",
        ),
        (
            "months",
            w("").replace("1m", "2mo"),
            "size: \"2mo\" is in months, which only the size of a tumbling window may be, and only \"1mo\"",
        ),
        (
            "size type",
            w("").replace("\"1m\"", "60"),
            ":4: [[window]] size: 60 must be a duration such as \"5s\", not of type integer",
        ),
        ("no list", w("channels = []"), "must not be an empty list"),
        ("twice", w("channels = [\"a\", \"a\"]"), "has \"a\" twice"),
        (
            "same name",
            w("") + &w(""),
            ":7: [[window]] name: \"w\" is the name of two windows",
        ),
        (
            "reserved",
            w("").replace("\"w\"", "\"late\""),
            "is a stream of the engine itself",
        ),
        (
            "negative",
            "[engine]\nout_of_order = \"-1s\"".into(),
            ":2: [engine] out_of_order: \"-1s\" must not be negative",
        ),
        (
            "not a section",
            "engine = 5".into(),
            ":1: engine: must be written as [engine]",
        ),
        (
            "one for many",
            "[window]\n".into(),
            ":1: window: must be written as [[window]]",
        ),
        (
            "partitions 0",
            "[agent]\npartitions = 0".into(),
            "0 must be from 1 to 16",
        ),
        (
            "partitions 17",
            "[agent]\npartitions = 17".into(),
            "17 must be from 1 to 16",
        ),
        (
            "linger 4ms",
            "[agent]\nlinger = \"4ms\"".into(),
            "must be from 5ms to 50ms",
        ),
        (
            "linger 51ms",
            "[agent]\nlinger = \"51ms\"".into(),
            "must be from 5ms to 50ms",
        ),
        (
            "gateway",
            "[agent]\ngateway = \"GW\"".into(),
            "must be 1 to 64 of a-z 0-9 and -",
        ),
        (
            "gateway long",
            format!("[agent]\ngateway = \"{}\"", "g".repeat(65)),
            "must be 1 to 64",
        ),
        (
            "port kind",
            "[[device_port]]\nkind = \"tcp\"\npath = \"/dev/x\"".into(),
            "path: is only for kind = \"serial\"",
        ),
        (
            "port path",
            "[[device_port]]\nkind = \"serial\"".into(),
            "path: is missing",
        ),
        (
            "uid",
            "[[device]]\nuid = \"12\"\nname = \"a\"".into(),
            "sixteen hex digits",
        ),
        (
            "port number",
            "[forward]\nbroker = \"h:0\"".into(),
            "needs a port from 1 to 65535",
        ),
        (
            "no broker",
            "[forward]\nwindow = 1".into(),
            ":1: [forward] broker: is missing",
        ),
        ("not TOML", "[engine\n".into(), ":1: is not TOML:"),
        (
            "a size without a unit",
            "[log]\ngeneration = \"16\"".into(),
            ":2: [log] generation: \"16\" needs a whole number and one of the units B",
        ),
        (
            "a size as a number",
            "[log]\nreserve = 16".into(),
            ":2: [log] reserve: 16 must be a size such as \"16MiB\", not of type integer",
        ),
        (
            "a key of another section",
            "[log]\nquota = \"1GiB\"".into(),
            ":2: [log] quota: is not a key here",
        ),
        (
            "a topic that is not there",
            format!("{}[[topic]]\nname = \"reading\"", w("")),
            ":7: [[topic]] name: \"reading\" is none of: readings, control, late, quarantine, exchange, changes, w (did you mean \"readings\"?)",
        ),
        (
            "a topic twice",
            "[[topic]]\nname = \"late\"\n[[topic]]\nname = \"late\"".into(),
            ":4: [[topic]] name: \"late\" has two sections",
        ),
        (
            "an unknown policy",
            "[[topic]]\nname = \"late\"\nwhen_full = \"drop_oldes\"".into(),
            "is none of: drop_oldest, reject_new, block (did you mean \"drop_oldest\"?)",
        ),
        (
            "no topic",
            "[[topic]]\nquota = \"1GiB\"".into(),
            ":1: [[topic]] name: is missing; for example name = \"readings\"",
        ),
    ] {
        let error = load(&text).expect_err(name);
        assert!(error.contains(want), "{name}: {error}");
        assert!(
            error.starts_with("/etc/forebay/config.toml:"),
            "{name}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{name}: {error}");
    }
}

#[test]
fn no_error_shows_a_secret() {
    for (name, text) in [
        (
            "user in broker",
            "[forward]\nbroker = \"gw:hunter2@host:1883\"",
        ),
        (
            "password key",
            "[forward]\nbroker = \"h:1\"\npassword = \"hunter2\"",
        ),
        ("broken line", "[forward]\npassword = \"hunter2"),
    ] {
        let error = load(text).expect_err(name);
        assert!(!error.contains("hunter2"), "{name}: {error}");
    }
}

#[test]
fn windows_stand_behind_what_they_read() {
    let part = |name: &str, from: &str, more: &str| {
        format!(
            "[[window]]\nname = \"{name}\"\nkind = \"tumbling\"\nsize = \"1m\"\nfrom = \"{from}\"\n{more}\n"
        )
    };
    let text = part("day", "hour", "merge = true")
        + &part("alone", "readings", "key = [\"channel\"]")
        + &part("hour", "minute", "value = \"max\"")
        + &part("minute", "readings", "key = [\"device\"]")
        + &part("also", "minute", "");
    let windows = load(&text).expect("chains").engine.windows;
    let found: Vec<_> = windows
        .iter()
        .map(|w| (w.name.as_str(), w.from, w.merge))
        .collect();
    assert_eq!(
        found,
        [
            ("alone", From::Readings, false),
            ("minute", From::Readings, false),
            ("hour", From::Window(1), false),
            ("day", From::Window(2), true),
            ("also", From::Window(1), false),
        ]
    );
    assert_eq!(windows[2].value, Aggregate::Max);
    assert_eq!(
        (windows[0].key, windows[3].key),
        (KeySpec::CHANNEL, KeySpec::DEVICE)
    );
}

#[test]
fn sizes_of_days_are_fixed_without_a_zone_and_months_never() {
    let kind = |lines: &str, size: &str| {
        let text = window(lines).replace("1m", size);
        load(&text).expect(size).engine.windows[0].kind.clone()
    };
    let calendar = |unit, zone| WindowKind::Tumbling(Grid::Calendar { unit, zone });
    let paris = || Zone::named("Europe/Paris").expect("there");
    let zone = "zone = \"europe/paris\"";
    for (name, got, want) in [
        (
            "a day",
            kind("", "1d"),
            WindowKind::Tumbling(Grid::Fixed {
                size: Span(86_400_000_000),
                offset: Span(0),
            }),
        ),
        (
            "a month",
            kind("", "1mo"),
            calendar(CalendarUnit::Month, Zone::utc()),
        ),
        (
            "a day there",
            kind(zone, "1d"),
            calendar(CalendarUnit::Day, paris()),
        ),
        (
            "a week there",
            kind(zone, "1w"),
            calendar(CalendarUnit::Week, paris()),
        ),
        (
            "a month there",
            kind(zone, "1mo"),
            calendar(CalendarUnit::Month, paris()),
        ),
    ] {
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_hop_takes_its_limits() {
    for hop in ["6000us", "6001us", "1h"] {
        let text = window(&format!("hop = \"{hop}\"")).replace("tumbling", "hopping");
        load(&text).expect(hop);
    }
}

#[test]
fn rows_take_their_limits() {
    for n in [1, ROWS_PER_WINDOW_MAX - 1, ROWS_PER_WINDOW_MAX] {
        let config = load(&of_kind("rows", &format!("rows = {n}"))).expect("a good number");
        assert_eq!(config.engine.windows[0].kind, WindowKind::Rows { n });
    }
}

#[test]
fn partitions_and_linger_take_their_limits() {
    for text in [
        "partitions = 1",
        "partitions = 16",
        "linger = \"5ms\"",
        "linger = \"50ms\"",
    ] {
        load(&format!("[agent]\n{text}")).expect(text);
    }
}

#[test]
fn sizes_take_their_limits() {
    for (section, key, good, bad) in [
        ("[log]", "generation", "256KiB", "262143B"),
        ("[log]", "generation", "256MiB", "268435457B"),
        ("[log]", "generation_age", "1m", "59s"),
        ("[log]", "generation_age", "365d", "366d"),
        ("[log]", "reserve", "0B", "1025TiB"),
        ("[log]", "reserve", "1024TiB", "1025TiB"),
        ("[log]", "ballast", "1MiB", "1048575B"),
        ("[log]", "ballast", "1GiB", "1073741825B"),
        ("[[topic]]\nname = \"late\"", "quota", "4MB", "3999999B"),
        ("[[topic]]\nname = \"late\"", "quota", "1024TiB", "1025TiB"),
        ("[[topic]]\nname = \"late\"", "age", "1m", "59s"),
    ] {
        load(&format!("{section}\n{key} = \"{good}\"")).expect(good);
        let error = load(&format!("{section}\n{key} = \"{bad}\"")).expect_err(bad);
        assert!(error.contains("must be from "), "{error}");
    }
}

#[test]
fn topics_have_their_policies_and_a_generation_fits_the_smallest() {
    let text = format!(
        "{}[[topic]]\nname = \"w\"\nquota = \"4MB\"\nage = \"2d\"\nwhen_full = \"block\"\n",
        window("")
    );
    let log = load(&text).expect("two windows' worth").log;
    assert_eq!(log.generation_bytes, 256 << 10);
    let policy = log.space.policy("w");
    assert_eq!(policy.quota_bytes, 4_000_000);
    assert_eq!(policy.age, Some(Span(172_800_000_000)));
    assert_eq!(policy.when_full, WhenFull::Block);
    assert_eq!(log.space.policy("readings").quota_bytes, 8 << 30);
    let log = load("").expect("an empty config").log;
    assert_eq!(log.generation_bytes, 16 << 20);
    assert_eq!(log.space, SpaceConfig::default());
}

#[test]
fn a_full_config_is_read() {
    let text = r#"
        [agent]
        gateway = "gw-7"
        data_dir = "/var/lib/forebay"
        [[device_port]]
        kind = "serial"
        path = "/dev/ttyUSB0"
        [[device_port]]
        kind = "tcp"
        address = "127.0.0.1:5000"
        [[device]]
        uid = "00000000000000Ff"
        name = "boiler"
        [forward]
        broker = "[::1]:1883"
        username = "u"
        password_file = "secret"
        [log]
        sync = "every_block"
        [upstream]
        broker = "localhost:1883"
    "#;
    let config = load(text).expect("a full config");
    assert_eq!(config.gateway(), Ok("gw-7"));
    assert_eq!(
        config.query.socket,
        Path::new("/var/lib/forebay/forebay.sock")
    );
    assert_eq!(config.device_ports.len(), 2);
    assert_eq!(config.devices[0].uid, [0, 0, 0, 0, 0, 0, 0, 0xff]);
    let forward = config.forward.first().expect("forward");
    assert_eq!(forward.broker.client_id, "forebay-gw-7");
    let Some(PasswordFrom::File(password)) = &forward.broker.password else {
        panic!("{:?}", forward.broker.password)
    };
    assert_eq!(password.value, Path::new("/etc/forebay/secret"));
    assert_eq!(
        (password.place.line, password.place.key.as_str()),
        (Some(17), "[forward] password_file")
    );
    assert_eq!(config.log.sync, SyncMode::EveryBlock);
    let upstream = config.upstream.expect("upstream");
    assert_eq!(
        upstream.socket,
        Path::new("/etc/forebay/upstream-data/upstream.sock")
    );
}

proptest::proptest! {
    #[test]
    fn a_damaged_config_is_an_error_of_one_line(cut in 0_usize..8000, text in ".{0,12}", len in 0_usize..40) {
        let mut bytes = reference().into_bytes();
        let at = cut.min(bytes.len());
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, text.bytes());
        if let Ok(text) = String::from_utf8(bytes)
            && let Err(error) = load(&text)
        {
            proptest::prop_assert_eq!(error.lines().count(), 1, "{}", error);
        }
    }
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, len, fits) in [
        ("limit - 1", reader::CONFIG_BYTES_MAX - 1, true),
        ("limit", reader::CONFIG_BYTES_MAX, true),
        ("limit + 1", reader::CONFIG_BYTES_MAX + 1, false),
    ] {
        let path = dir.path().join("c.toml");
        let text = " ".repeat(usize::try_from(len).expect("small"));
        std::fs::write(&path, text).expect("written");
        assert_eq!(Config::load(&path).is_ok(), fits, "{name}");
    }
}

fn repo_file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../config")
        .join(name)
}

#[test]
fn the_reference_file_is_not_stale_and_loads() {
    let text = reference();
    Config::from_text(Path::new("reference.toml"), &text).expect("the reference loads");
    let path = repo_file("reference.toml");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "config/reference.toml is stale: UPDATE_GENERATED=1 cargo test -p forebay --lib config"
    );
}

#[test]
fn all_keys_in_the_schema_can_be_read() {
    for section in SECTIONS {
        for key in section.all_keys() {
            let (schema::Default::Is(text)
            | schema::Default::None(text)
            | schema::Default::Required(text)) = key.default;
            text.parse::<toml_edit::Value>().expect(key.name);
        }
    }
}

#[test]
fn example_configs_load() {
    let mut seen = 0;
    for entry in std::fs::read_dir(repo_file("")).expect("the folder config") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "toml") {
            Config::load(&path).expect("an example that can be used");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} examples");
    let gateway = Config::load(&repo_file("gateway.toml")).expect("gateway.toml");
    gateway.gateway().expect("a gateway name");
    let upstream = Config::load(&repo_file("upstream.toml")).expect("upstream.toml");
    upstream.upstream().expect("an [upstream]");
}

#[test]
fn a_config_that_is_not_there_says_how_to_get_one() {
    let error = Config::load(Path::new("/nonexistent/forebay.toml")).expect_err("none is there");
    let said = error.to_string();
    assert!(
        said.contains("/nonexistent/forebay.toml: cannot be opened"),
        "{said}"
    );
    assert!(said.contains("`forebay config reference`"), "{said}");
}
