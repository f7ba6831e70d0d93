//! The shape of a config as data: sections, keys, defaults, docs. The reader
//! takes its defaults from here and the reference file is written from here, so
//! the two cannot disagree.

use super::schema_broker::{BROKER, BROKER_KEY};

/// One section of the file.
#[derive(Debug)]
pub struct Section {
    pub name: &'static str,
    /// `[[name]]`, any number of times.
    pub many: bool,
    pub doc: &'static str,
    /// Its own; those that come with a key `broker` stand in `schema_broker`.
    pub keys: &'static [Key],
}

/// One key of a section.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub default: Default,
    pub doc: &'static str,
}

/// What holds when a key is not given. All texts are TOML values.
#[derive(Debug, Clone, Copy)]
pub enum Default {
    /// This value.
    Is(&'static str),
    /// Nothing; the text is an example.
    None(&'static str),
    /// The key must be given; the text is an example.
    Required(&'static str),
}

impl Section {
    /// `[name]` or `[[name]]`.
    #[must_use]
    pub fn header(&self) -> String {
        if self.many {
            format!("[[{}]]", self.name)
        } else {
            format!("[{}]", self.name)
        }
    }

    /// Every key of the section, in the order of the reference file.
    pub fn all_keys(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().flat_map(|key| {
            let more = if key.name == BROKER_KEY { BROKER } else { &[] };
            std::iter::once(key).chain(more)
        })
    }

    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.all_keys().find(|key| key.name == name)
    }
}

pub const ENGINE: Section = Section {
    name: "engine",
    many: false,
    doc: "Event time: when a reading counts as late, when a window closes.",
    keys: &[
        Key {
            name: "out_of_order",
            default: Default::Is("\"5s\""),
            doc: "A reading this far behind its device's newest one still is in order.",
        },
        Key {
            name: "allowed_lateness",
            default: Default::Is("\"0s\""),
            doc: "How long after its close a window takes late readings and is written again.",
        },
        Key {
            name: "idle_after",
            default: Default::Is("\"auto\""),
            doc: "A device silent for this long stops holding others back.\n\"auto\": the larger of 1 minute and 3 times its usual interval.",
        },
        Key {
            name: "future_guard",
            default: Default::Is("\"5m\""),
            doc: "A reading further ahead of the gateway's clock than this is quarantined.",
        },
    ],
};

pub const WINDOW: Section = Section {
    name: "window",
    many: true,
    doc: "A window over readings or over another window; any number of them. Rows come in this order,\nbut those of a window before those of its readers. Durations: us ms s m h d w.",
    keys: &[
        Key {
            name: "name",
            default: Default::Required("\"temp_1m\""),
            doc: "Name of the output stream.",
        },
        Key {
            name: "kind",
            default: Default::Required("\"tumbling\""),
            doc: "tumbling: one after the other; hopping: one at every hop; sliding: one per reading, that ends at it;\nrows: one per reading, of it and those before it; session: until a pause.",
        },
        Key {
            name: "size",
            default: Default::Required("\"1m\""),
            doc: "Not for rows and session: length of the window. \"1mo\", for tumbling only, is a month.",
        },
        Key {
            name: "hop",
            default: Default::None("\"10s\""),
            doc: "Hopping only: from one start to the next.",
        },
        Key {
            name: "offset",
            default: Default::None("\"15m\""),
            doc: "Tumbling and hopping only: shifts the grid; \"15m\" starts hours at a quarter past. Default 0s.",
        },
        Key {
            name: "zone",
            default: Default::None("\"Europe/Paris\""),
            doc: "Tumbling only, with size \"1d\", \"1w\" (from Monday) or \"1mo\": days, weeks and months of this time zone.\nDefault: fixed lengths, and months of UTC.",
        },
        Key {
            name: "bounds",
            default: Default::None("\"closed\""),
            doc: "Sliding only: \"half_open\" is (t - size, t], \"closed\" is [t - size, t]. Default half_open.",
        },
        Key {
            name: "rows",
            default: Default::None("100"),
            doc: "Rows only: how many readings, 1 to 1000000.",
        },
        Key {
            name: "gap",
            default: Default::None("\"10m\""),
            doc: "Session only: a pause so long ends it.",
        },
        Key {
            name: "from",
            default: Default::Is("\"readings\""),
            doc: "What it reads: readings, or another window, whose rows it takes as readings at their last microsecond.",
        },
        Key {
            name: "value",
            default: Default::None("\"mean\""),
            doc: "Over another window only: the figure of its rows that is taken. Default mean.",
        },
        Key {
            name: "merge",
            default: Default::None("true"),
            doc: "Over tumbling windows and sessions only: takes not one figure but all that the window held, exactly.",
        },
        Key {
            name: "channels",
            default: Default::None("[\"temperature\"]"),
            doc: "Channels taken; without it all.",
        },
        Key {
            name: "devices",
            default: Default::None("[\"boiler\"]"),
            doc: "Devices taken; without it all.",
        },
        Key {
            name: "key",
            default: Default::Is("[\"device\", \"channel\"]"),
            doc: "What separates windows: [\"device\", \"channel\"], [\"device\"] for all channels together,\n[\"channel\"] for a channel over all devices; also columns of tables, such as \"sites.building\": that of the row\nof the reading's device, as of its time. Default over another window: the key of that one.",
        },
        Key {
            name: "aggregates",
            default: Default::Is("[\"count\", \"mean\", \"min\", \"max\"]"),
            doc: "count sum mean min max first last variance stddev variance_pop stddev_pop, p01 to p99.",
        },
        Key {
            name: "emit",
            default: Default::Is("\"on_close\""),
            doc: "on_close: when it closes, and again per late reading; every_update: at each reading;\nfinal_only: once, when nothing can change it any more; never: no row, of sliding windows that are only asked for.",
        },
        Key {
            name: "finalize",
            default: Default::Is("false"),
            doc: "Not for sliding and rows: one more line when a window that was written before became final.",
        },
    ],
};
