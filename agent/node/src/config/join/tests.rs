//! Tables, joins and keys of tables: what is read, and what is refused with its line.

use std::path::Path;

use forebay_core::engine::config::{
    Aggregate, JoinColumn, JoinKind, JoinSource, JoinType, KeyColumn, KeySpec,
};
use forebay_core::limits::EVENT_TIME_MAX;
use forebay_core::units::{EventTime, Span};

use crate::config::{Config, TableSource};

fn load(text: &str) -> Result<Config, String> {
    Config::from_text(Path::new("/etc/forebay/c.toml"), text).map_err(|e| e.to_string())
}

/// Of the config, on lines 1 to 5.
const SITES: &str = "[[table]]\nname = \"sites\"\nkey = \"device\"\nsource = \"config\"\nrows = [{ device = \"d1\", building = \"north\" }]\n";

/// Six lines; `{}` in the text stands for more.
fn join(kind: &str, left: &str, right: &str, more: &str) -> String {
    format!(
        "[[join]]\nname = \"j\"\nkind = \"{kind}\"\nleft = {{ from = \"{left}\" }}\nright = {{ from = \"{right}\" }}\n{more}\n"
    )
}

fn lookup(more: &str) -> String {
    format!("{SITES}{}", join("lookup", "readings", "sites", more))
}

fn interval(more: &str) -> String {
    join("interval", "readings", "readings", more)
}

fn table(name: &str, more: &str) -> String {
    format!("[[table]]\nname = \"{name}\"\nkey = \"id\"\nsource = \"file\"\n{more}\n")
}

fn window(more: &str) -> String {
    format!("[[window]]\nname = \"w\"\nkind = \"tumbling\"\nsize = \"1m\"\n{more}\n")
}

#[test]
fn tables_are_read() {
    let text = r#"
        [engine]
        out_of_order = "7s"
        [[table]]
        name = "sites"
        key = "device"
        source = "config"
        rows = [
            { device = "d1", building = "north", n = 1, x = 1.5, on = true, since = 2026-03-01, odd = nan, tags = ["a"] },
            { device = 2, more = { a = 1 } },
        ]
        [[table]]
        name = "limits"
        key = ["device", "channel"]
        source = "postgres"
        out_of_order = "0s"
        history = "1h"
        columns = ["device", "channel", "max"]
        [[table]]
        name = "nested"
        key = "id"
        source = "config"
        [[table.rows]]
        id = "a"
        [[table.rows]]
        id = "b"
    "#;
    let config = load(text).expect("tables");
    let [sites, limits, nested] = &config.tables[..] else {
        panic!("{:?}", config.tables)
    };
    assert_eq!(
        &*sites.rows[0].row,
        r#"{"device":"d1","building":"north","n":1,"x":1.5,"on":true,"since":"2026-03-01","odd":"NaN","tags":["a"]}"#
    );
    assert_eq!((&*sites.rows[0].key, &*sites.rows[1].key), ("d1", "2"));
    assert_eq!(&*sites.rows[1].row, r#"{"device":2,"more":{"a":1}}"#);
    let columns = sites.columns.as_ref().expect("those of the rows");
    assert_eq!(columns.len(), 9);
    assert_eq!(
        (limits.source, limits.rows.len()),
        (TableSource::Postgres, 0)
    );
    assert_eq!(nested.rows.len(), 2);
    let first = nested.first_changes().next().expect("a row");
    assert_eq!(
        (&*first.key, first.after.as_deref()),
        ("a", Some(r#"{"id":"a"}"#))
    );
    assert_eq!(first.time, EventTime(-EVENT_TIME_MAX));
    let [sites, limits, _] = &config.engine.tables[..] else {
        panic!("{:?}", config.engine.tables)
    };
    assert_eq!((sites.is_static, limits.is_static), (true, false));
    assert_eq!(limits.key, ["device", "channel"]);
    assert_eq!(
        (limits.out_of_order, limits.history),
        (Span(0), Span(3_600_000_000))
    );
    let config = load(&table("t", "")).expect("a table");
    let spec = &config.engine.tables[0];
    assert_eq!(
        (spec.out_of_order, spec.history),
        (Span(5_000_000), Span(7 * 86_400_000_000))
    );
}

#[test]
fn joins_are_read() {
    let text = window("key = [\"device\"]")
        + SITES
        + &table("m", "")
        + &table("p", "").replace("\"id\"", "[\"a\", \"b\"]")
        + r#"
        [[join]]
        name = "near"
        kind = "interval"
        left = { from = "readings", where = "channel = 'door' and value > 0" }
        right = { from = "w", value = "max" }
        on = "device"
        within = ["-5s", "10s"]
        type = "full"
        [[join]]
        name = "placed"
        kind = "lookup"
        on = ["device"]
        wait = "10s"
        [join.left]
        from = "w"
        [join.right]
        from = "sites"
        [[join]]
        name = "both"
        kind = "table"
        left = { from = "m" }
        right = { from = "p" }
        on = ["plant", "part"]
        type = "left"
    "#;
    let config = load(&text).expect("joins");
    let [near, placed, both] = &config.engine.joins[..] else {
        panic!("{:?}", config.engine.joins)
    };
    let (lower, upper) = (Span(-5_000_000), Span(10_000_000));
    assert_eq!(near.kind, JoinKind::Interval { lower, upper });
    assert_eq!(
        (near.left.from, near.right.from),
        (JoinSource::Readings, JoinSource::Window(0))
    );
    assert_eq!(near.right.value, Aggregate::Max);
    let filter = near.left.filter.as_ref().expect("a filter");
    assert!(filter.takes("d", "door", Some(1.0)) && !filter.takes("d", "door", Some(0.0)));
    assert_eq!(
        (near.join_type, &near.on[..]),
        (JoinType::Full, &[JoinColumn::Device][..])
    );
    let wait = Some(Span(10_000_000));
    assert_eq!(placed.kind, JoinKind::Lookup { wait });
    assert_eq!(
        (placed.left.from, placed.right.from),
        (JoinSource::Window(0), JoinSource::Table(0))
    );
    assert_eq!(placed.join_type, JoinType::Inner);
    assert_eq!(both.kind, JoinKind::Table);
    let column = |name: &str| JoinColumn::Column(name.into());
    assert_eq!(both.on, [column("plant"), column("part")]);
    // Their streams are topics.
    let more = "[[topic]]\nname = \"near\"\n[forward]\nbroker = \"h:1\"\ntopics = [\"placed\"]\n";
    load(&(text + more)).expect("topics of joins");
}

#[test]
fn keys_of_tables_are_read() {
    let key = |text: &str| {
        let config = load(&(window(text) + SITES)).expect(text);
        let window = config.engine.windows[0].clone();
        (window.key, window.key_columns)
    };
    let building = KeyColumn {
        table: 0,
        column: "building".into(),
    };
    assert_eq!(
        key("key = [\"sites.building\"]"),
        (KeySpec::NONE, vec![building.clone()])
    );
    assert_eq!(
        key("key = [\"channel\", \"sites.building\"]"),
        (KeySpec::CHANNEL, vec![building.clone()])
    );
    let outer = window("from = \"v\"").replace("\"w\"", "\"x\"");
    let inner = window("key = [\"sites.building\"]").replace("\"w\"", "\"v\"");
    let config = load(&(outer + &inner + SITES)).expect("a window over it");
    assert_eq!(config.engine.windows[1].key_columns, [building]);
}

#[test]
fn refusals_name_line_key_and_what_is_valid() {
    let t = |more: &str| table("t", more);
    let on = "on = \"device\"";
    let within = "on = \"device\"\nwithin = [\"0s\", \"1s\"]";
    let tables = |more: &str| {
        table("m", "columns = [\"id\", \"plant\"]")
            + &table("p", "")
            + &join("table", "m", "p", more)
    };
    let mut wrong = Vec::new();
    for (name, text, want) in [
        (
            "no name",
            "[[table]]\nkey = \"a\"\nsource = \"file\"\n".into(),
            "c.toml:1: [[table]] name: is missing; for example name = \"sites\"",
        ),
        (
            "no key",
            t("").replace("key = \"id\"\n", ""),
            ":1: [[table]] key: is missing; for example key = \"device\"",
        ),
        (
            "no source",
            t("").replace("source = \"file\"\n", ""),
            ":1: [[table]] source: is missing",
        ),
        (
            "source",
            t("").replace("\"file\"", "\"postgress\""),
            ":4: [[table]] source: \"postgress\" is none of: config, mqtt, file, postgres (did you mean \"postgres\"?)",
        ),
        (
            "a table's name with a dot",
            t("").replace("\"t\"", "\"a.b\""),
            ":2: [[table]] name: \"a.b\" may have no dot",
        ),
        (
            "a table's name that is taken",
            t("") + &t(""),
            ":7: [[table]] name: \"t\" is the name of two tables",
        ),
        (
            "a reserved name",
            t("").replace("\"t\"", "\"changes\""),
            ":2: [[table]] name: \"changes\" is a stream of the engine itself",
        ),
        (
            "key type",
            t("").replace("\"id\"", "5"),
            ":3: [[table]] key: 5 must be a text in quotes, or a list of such, not of type integer",
        ),
        (
            "key empty",
            t("").replace("\"id\"", "[]"),
            ":3: [[table]] key: must not be an empty list",
        ),
        (
            "key twice",
            t("").replace("\"id\"", "[\"a\", \"a\"]"),
            ":3: [[table]] key: has \"a\" twice",
        ),
        (
            "rows of a file",
            t("rows = []"),
            ":5: [[table]] rows: is only for source = \"config\"",
        ),
        (
            "no rows",
            SITES.replace("rows =", "#"),
            ":1: [[table]] rows: is missing; for example rows = [",
        ),
        (
            "rows that are none",
            SITES.replace("[{ device = \"d1\", building = \"north\" }]", "[1]"),
            ":5: [[table]] rows: must be a list of rows such as",
        ),
        (
            "a row without its key",
            SITES.replace("device = \"d1\", ", ""),
            ":5: [[table]] rows: has a row without its key device",
        ),
        (
            "a key twice",
            SITES.replace("rows = [", "rows = [\n{ device = \"d1\" },\n"),
            ":7: [[table]] rows: has two rows of d1",
        ),
        (
            "a column that is not listed",
            SITES.to_owned() + "columns = [\"device\", \"bilding\"]\n",
            ":5: [[table]] rows: has a row with \"building\", which is no column of \"sites\" (did you mean \"bilding\"?); columns: device, bilding",
        ),
        (
            "a key that is not listed",
            t("columns = [\"ident\"]"),
            ":3: [[table]] key: has \"id\", which is no column of \"t\"",
        ),
        (
            "bound of a config",
            SITES.to_owned() + "out_of_order = \"1s\"\n",
            ":6: [[table]] out_of_order: is not for source = \"config\"",
        ),
        (
            "history of 0",
            t("history = \"0s\""),
            ":5: [[table]] history: \"0s\" must be longer than 0",
        ),
        (
            "a bound below 0",
            t("out_of_order = \"-1s\""),
            ":5: [[table]] out_of_order: \"-1s\" must not be negative",
        ),
        (
            "a key of a table",
            t("out_off_order = \"1s\""),
            ":5: [[table]] out_off_order: is not a key here (did you mean \"out_of_order\"?)",
        ),
        (
            "one table",
            "[table]\nname = \"t\"\n".into(),
            ":1: table: must be written as [[table]]",
        ),
        (
            "a window of that name",
            SITES.to_owned() + &window("").replace("\"w\"", "\"sites\""),
            ":7: [[window]] name: \"sites\" is the name of a table, too",
        ),
        // Keys of windows.
        (
            "no such table",
            window("key = [\"site.building\"]") + SITES,
            ":5: [[window]] key: [\"site.building\"] has a column of \"site\", which is no table (did you mean \"sites\"?); tables: sites",
        ),
        (
            "no table",
            window("key = [\"sites.building\"]"),
            ":5: [[window]] key: [\"sites.building\"] has a column of \"sites\", which is no table; tables: none",
        ),
        (
            "no such column",
            window("key = [\"sites.bilding\"]") + SITES,
            ":5: [[window]] key: has \"bilding\", which is no column of \"sites\" (did you mean \"building\"?); columns: device, building",
        ),
        (
            "no column",
            window("key = [\"sites.\"]") + SITES,
            ":5: [[window]] key: [\"sites.\"] names no column of \"sites\"",
        ),
        (
            "neither",
            window("key = [\"building\"]") + SITES,
            "has an unknown column \"building\"; columns: device, channel, and those of tables, such as \"sites.building\"",
        ),
        (
            "a key of two columns",
            window("key = [\"t.a\"]") + &t("").replace("\"id\"", "[\"x\", \"y\"]"),
            "has a column of \"t\", whose rows no device or channel names: its key is x, y",
        ),
        (
            "not in the inner key",
            window("from = \"v\"\nkey = [\"sites.building\"]")
                + &window("").replace("\"w\"", "\"v\"")
                + SITES,
            "has a column building, which the key of \"v\" has not",
        ),
        // Joins.
        (
            "no kind",
            lookup(on).replace("kind = \"lookup\"\n", ""),
            ":6: [[join]] kind: is missing; for example kind = \"lookup\"",
        ),
        (
            "kind",
            lookup(on).replace("lookup", "look_up"),
            ":8: [[join]] kind: \"look_up\" is none of: interval, lookup, table (did you mean \"lookup\"?)",
        ),
        (
            "no left",
            interval(within).replace("left =", "#"),
            ":1: [[join]] left: is missing; for example left = { from = \"readings\" }",
        ),
        (
            "left as a text",
            interval(within).replace("left = { from = \"readings\" }", "left = \"readings\""),
            ":4: [[join]] left: \"readings\" must be keys and values such as { from = \"readings\" }, not of type string",
        ),
        (
            "no from",
            interval(within).replace("left = { from = \"readings\" }", "left = {}"),
            ":4: [[join]] left.from: is missing",
        ),
        (
            "a key of a side",
            interval(within).replacen("from =", "form =", 1),
            ":4: [[join]] left.form: is not a key here (did you mean \"from\"?); keys: from, where, value",
        ),
        (
            "a side in a section",
            lookup(on).replace("right = { from = \"sites\" }\n", "")
                + "[join.right]\nfrom = \"sites\"\nwher = \"\"\n",
            ":13: [[join]] right.wher: is not a key here (did you mean \"where\"?)",
        ),
        (
            "no such stream",
            join("interval", "readngs", "readings", within),
            ":4: [[join]] left.from: \"readngs\" is no stream (did you mean \"readings\"?); streams: readings",
        ),
        (
            "an interval of a table",
            SITES.to_owned() + &join("interval", "readings", "sites", within),
            ":10: [[join]] right.from: \"sites\" is a table; this side reads a stream: readings",
        ),
        (
            "a lookup of readings",
            SITES.to_owned() + &join("lookup", "readings", "readings", on),
            ":10: [[join]] right.from: \"readings\" is a stream; this side reads a table; tables: sites",
        ),
        (
            "a lookup of a window",
            window("") + &join("lookup", "readings", "w", on),
            ":10: [[join]] right.from: \"w\" is a stream; this side reads a table; tables: none",
        ),
        (
            "a lookup of nothing",
            lookup(on).replace("from = \"sites\"", "from = \"site\""),
            ":10: [[join]] right.from: \"site\" is no table (did you mean \"sites\"?); tables: sites",
        ),
        (
            "a lookup by a table",
            SITES.to_owned() + &join("lookup", "sites", "sites", on),
            ":9: [[join]] left.from: \"sites\" is a table",
        ),
        (
            "tables of readings",
            table("m", "") + &join("table", "readings", "m", "on = \"id\""),
            ":9: [[join]] left.from: \"readings\" is a stream",
        ),
        (
            "a full lookup",
            lookup("on = \"device\"\ntype = \"full\""),
            ":12: [[join]] type: \"full\" is not for lookups",
        ),
        (
            "type",
            lookup("on = \"device\"\ntype = \"outer\""),
            ":12: [[join]] type: \"outer\" is none of: inner, left, full",
        ),
        (
            "no on",
            interval("within = [\"0s\", \"1s\"]"),
            ":1: [[join]] on: is missing; for example on = \"device\"",
        ),
        (
            "on",
            interval("on = \"devise\"\nwithin = [\"0s\", \"1s\"]"),
            ":6: [[join]] on: has the unknown column \"devise\" (did you mean \"device\"?); columns: device, channel",
        ),
        (
            "on of a table",
            tables("on = \"plnt\""),
            ":16: [[join]] on: has \"plnt\", which is no column of \"m\" (did you mean \"plant\"?); columns: id, plant",
        ),
        (
            "on of two columns",
            tables("on = [\"id\", \"plant\"]"),
            "is 2 columns where the key of \"p\" has 1 column: id",
        ),
        (
            "on of a lookup",
            lookup("on = [\"device\", \"channel\"]"),
            ":11: [[join]] on: [\"device\", \"channel\"] is 2 columns where the key of \"sites\" has 1 column: device",
        ),
        (
            "on that a window has not",
            window("key = [\"device\"]")
                + &join(
                    "interval",
                    "w",
                    "readings",
                    "on = \"channel\"\nwithin = [\"0s\", \"1s\"]",
                ),
            ":11: [[join]] on: has the column channel, which the key of \"w\" has not",
        ),
        (
            "no within",
            interval(on),
            ":1: [[join]] within: is missing; for example within = [\"-5s\", \"10s\"]",
        ),
        (
            "within reversed",
            interval("on = \"device\"\nwithin = [\"10s\", \"-5s\"]"),
            ":7: [[join]] within: [\"10s\", \"-5s\"] has its ends the wrong way round (did you mean [\"-5s\", \"10s\"]?)",
        ),
        (
            "within of one",
            interval("on = \"device\"\nwithin = [\"10s\"]"),
            ":7: [[join]] within: [\"10s\"] must be two durations such as",
        ),
        (
            "within as a text",
            interval("on = \"device\"\nwithin = \"10s\""),
            ":7: [[join]] within: \"10s\" must be two durations such as",
        ),
        (
            "within without a unit",
            interval("on = \"device\"\nwithin = [\"0\", \"1s\"]"),
            ":7: [[join]] within: \"0\" needs a whole number and one of the units",
        ),
        (
            "within too far",
            interval("on = \"device\"\nwithin = [\"0s\", \"99999999d\"]"),
            ":7: [[join]] within: [\"0s\", \"99999999d\"] is too long, at most",
        ),
        (
            "within of a lookup",
            lookup(within),
            ":12: [[join]] within: is only for kind = \"interval\"",
        ),
        (
            "wait of an interval",
            interval(&format!("{within}\nwait = \"1s\"")),
            ":8: [[join]] wait: is only for kind = \"lookup\"",
        ),
        (
            "wait below 0",
            lookup("on = \"device\"\nwait = \"-1s\""),
            ":12: [[join]] wait: \"-1s\" must not be negative",
        ),
        (
            "where",
            interval(within).replacen("\" }", "\", where = \"chanel = 'a'\" }", 1),
            ":4: [[join]] left.where: has the unknown column chanel at byte 1 (did you mean \"channel\"?); columns: device, channel, value",
        ),
        (
            "where of a table",
            lookup(on).replace("\"sites\" }", "\"sites\", where = \"value > 1\" }"),
            ":10: [[join]] right.where: is for readings and windows",
        ),
        (
            "where of a window",
            window("key = [\"device\"]")
                + &join(
                    "interval",
                    "w\", where = \"channel = 'a'",
                    "readings",
                    within,
                ),
            ":9: [[join]] left.where: asks for the channel, which the key of the window has not",
        ),
        (
            "value of readings",
            interval(within).replacen("\" }", "\", value = \"max\" }", 1),
            ":4: [[join]] left.value: \"max\" is only for a window's rows",
        ),
        (
            "value of a window",
            window("") + &join("interval", "w\", value = \"p95", "readings", within),
            ":9: [[join]] left.value: \"p95\" is no figure of \"w\"; its figures: count, mean, min, max",
        ),
        (
            "no mean",
            window("aggregates = [\"sum\"]") + &join("interval", "w", "readings", within),
            ":9: [[join]] left.value: is missing: \"w\" has no mean",
        ),
        (
            "two joins of a name",
            interval(within) + &interval(within),
            ":9: [[join]] name: \"j\" is the name of two joins",
        ),
        (
            "a join and a window",
            window("").replace("\"w\"", "\"j\"") + &interval(within),
            ":7: [[join]] name: \"j\" is the name of a window, too",
        ),
        (
            "a join and a table",
            table("j", "") + &interval(within),
            ":7: [[join]] name: \"j\" is the name of a table, too",
        ),
        (
            "a reserved join",
            interval(within).replace("\"j\"", "\"late\""),
            ":2: [[join]] name: \"late\" is a stream of the engine itself",
        ),
        (
            "a key of a join",
            interval("withn = []"),
            ":6: [[join]] withn: is not a key here (did you mean \"within\"?)",
        ),
    ] {
        let error = load(&text).expect_err(name);
        if !error.contains(want) || error.lines().count() != 1 {
            wrong.push(format!("{name}\n  said: {error}\n  want: {want}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn limits_hold() {
    use forebay_core::limits::{JOINS_MAX, KEY_COLUMNS_MAX, TABLES_MAX};
    let tables = |n: usize| -> String { (0..n).map(|n| table(&format!("t{n}"), "")).collect() };
    let joins = |n: usize| -> String {
        let one = |n| {
            interval("on = \"device\"\nwithin = [\"0s\", \"0s\"]")
                .replace("\"j\"", &format!("\"j{n}\""))
        };
        (0..n).map(one).collect()
    };
    let keys = |n: usize| {
        let columns: Vec<String> = (0..n).map(|n| format!("t.c{n}")).collect();
        window(&format!("key = {columns:?}")) + &table("t", "")
    };
    for (max, text, want) in [
        (
            TABLES_MAX,
            &tables as &dyn Fn(usize) -> String,
            "is one table too many, at most 64",
        ),
        (JOINS_MAX, &joins, "is one join too many, at most 64"),
        (KEY_COLUMNS_MAX, &keys, "has 9 columns of tables, at most 8"),
    ] {
        load(&text(max - 1)).expect("limit - 1");
        load(&text(max)).expect("limit");
        let error = load(&text(max + 1)).expect_err("limit + 1");
        assert!(error.contains(want), "{error}");
    }
}
