//! The sections of the agent and of the receiver upstream, as data.

use super::schema::{Default, Key, Section};

pub const AGENT: Section = Section {
    name: "agent",
    many: false,
    doc: "This gateway.",
    keys: &[
        Key {
            name: "gateway",
            default: Default::None("\"gw-1\""),
            doc: "Its name, unique among gateways: a-z 0-9 and -, at most 64. `forebay run` needs it.",
        },
        Key {
            name: "data_dir",
            default: Default::Is("\"data\""),
            doc: "Where the log is kept. Not absolute: from the folder of this file.",
        },
        Key {
            name: "partitions",
            default: Default::Is("1"),
            doc: "Parts of the readings topic, 1 to 16; devices are spread over them. May grow, never shrink.",
        },
        Key {
            name: "linger",
            default: Default::Is("\"20ms\""),
            doc: "How long a block waits for more readings, 5ms to 50ms.",
        },
        Key {
            name: "clock",
            default: Default::Is("\"auto\""),
            doc: "When this computer's clock is trusted. auto: when the system says that it is synchronised,\n\
                  or it is past `clock_not_before` and not behind what the log knows; synchronised: only when\n\
                  the system says so; always. Until then readings are kept, and windows wait for them.",
        },
        Key {
            name: "clock_not_before",
            default: Default::Is("\"2025-01-01T00:00:00Z\""),
            doc: "A clock that says less was never set.",
        },
        Key {
            name: "device_log",
            default: Default::Is("\"warn\""),
            doc: "What devices say in their logs, for `forebay device log`: off, error, warn, info, debug or trace,\n\
                  each with all before it. Lines are sent when a device has nothing else to send.",
        },
        Key {
            name: "firmware",
            default: Default::None("[\"/var/lib/forebay/firmware\"]"),
            doc: "ELF files of the devices' firmware, or folders of such, at most 16 entries: the one with a device's\n\
                  build id turns its log into text. Not absolute: from the folder of this file.",
        },
    ],
};

pub const DEVICE: Section = Section {
    name: "device",
    many: true,
    doc: "A name for a device; without one it goes by its uid.",
    keys: &[
        Key {
            name: "uid",
            default: Default::Required("\"0123456789abcdef\""),
            doc: "Sixteen hex digits, as the device and `forebay status` show them.",
        },
        Key {
            name: "name",
            default: Default::Required("\"boiler\""),
            doc: "Letters, digits, - _ and .; at most 64.",
        },
        Key {
            name: "expect_every",
            default: Default::None("\"15m\""),
            doc: "So often something comes from it at the least, 1s to 365d, for a device that sleeps between;\n\"never\": it may stay silent. Default: as often as it says of its channels. See [alarms].",
        },
    ],
};

pub const FORWARD: Section = Section {
    name: "forward",
    many: false,
    doc: "Where the log is sent to. Without this section nothing leaves the gateway.\nSeveral destinations, at most 8: [[forward]] for each, with a name; each has its own marks.",
    keys: &[
        Key {
            name: "name",
            default: Default::Is("\"default\""),
            doc: "Unique among the destinations; what was sent is remembered under it.",
        },
        Key {
            name: "broker",
            default: Default::Required("\"127.0.0.1:1883\""),
            doc: "host:port of the MQTT broker.",
        },
        Key {
            name: "client_id",
            default: Default::None("\"forebay-gw-1\""),
            doc: "MQTT client id. Default forebay-<gateway>.",
        },
        Key {
            name: "window",
            default: Default::Is("64"),
            doc: "Messages on the way at once, 1 to 1000.",
        },
        Key {
            name: "ack_timeout",
            default: Default::Is("\"10s\""),
            doc: "Without an ack for this long the connection is made anew.",
        },
        Key {
            name: "format",
            default: Default::Is("\"json\""),
            doc: "json: readable by anyone; compact: blocks as the log keeps them, a tenth as long;\nsparkplug-b: readings for hosts that speak Sparkplug 3.0.",
        },
        Key {
            name: "compress",
            default: Default::None("\"zstd\""),
            doc: "none or zstd, where a message gets shorter by it. Default: none for json, zstd for compact.",
        },
        Key {
            name: "group",
            default: Default::None("\"plant\""),
            doc: "Sparkplug group that the gateway is an edge node of; only with format = \"sparkplug-b\".",
        },
        Key {
            name: "topics",
            default: Default::None("[\"readings\", \"temp_1m\"]"),
            doc: "Topics of the log that go there: readings, control (alarms, and what was lost), late, quarantine,\nchanges, or names of windows and joins. Default: all.",
        },
        Key {
            name: "order",
            default: Default::Is("\"oldest_first\""),
            doc: "oldest_first: each topic in its order; live_first: after an outage what comes in now goes first,\nand what waited fills the rest of the window.",
        },
        Key {
            name: "rate",
            default: Default::None("20000"),
            doc: "Readings a second at the most of what waited during an outage. Default: as fast as it goes.",
        },
        Key {
            name: "max_message",
            default: Default::Is("\"256KiB\""),
            doc: "Longest payload, 1KiB to 256KiB. What is longer is split; a single record that is longer is parked.",
        },
        Key {
            name: "retain",
            default: Default::Is("true"),
            doc: "The log keeps records until they have arrived there, as long as its quota allows.",
        },
    ],
};

pub const QUERY: Section = Section {
    name: "query",
    many: false,
    doc: "The local socket that `forebay query` and `forebay status` ask.",
    keys: &[Key {
        name: "socket",
        default: Default::None("\"/run/forebay/forebay.sock\""),
        doc: "Path of the socket. Default forebay.sock in the data_dir of [agent].",
    }],
};

pub const LOG: Section = Section {
    name: "log",
    many: false,
    doc: "The log: when readings are made durable (a device is acked only after that),\nand how much of the disk it takes. Sizes: B kB MB GB TB KiB MiB GiB TiB.",
    keys: &[
        Key {
            name: "sync",
            default: Default::Is("\"group\""),
            doc: "group: blocks within `group` of each other share one sync;\nevery_block: each block at once; none: never, for tests: a power cut loses acked readings.",
        },
        Key {
            name: "group",
            default: Default::Is("\"50ms\""),
            doc: "Longest wait of a block for a shared sync, 1ms to 10s.",
        },
        Key {
            name: "generation",
            default: Default::Is("\"16MiB\""),
            doc: "The newest part of the log is sealed at this size, 256KiB to 256MiB. It is what is dropped\nat once and what one damage can cost, so it is at most 1/16 of the smallest quota.",
        },
        Key {
            name: "generation_age",
            default: Default::Is("\"6h\""),
            doc: "It is sealed after this long at the latest, 1m to 365d.",
        },
        Key {
            name: "reserve",
            default: Default::Is("\"256MiB\""),
            doc: "So much of the disk stays free: the oldest is dropped before. At most a quarter of what is free\nand what the log has together.",
        },
        Key {
            name: "ballast",
            default: Default::Is("\"8MiB\""),
            doc: "A file that is given up when the disk is full, so that the log can be worked on, 1MiB to 1GiB.",
        },
    ],
};

pub const TOPIC: Section = Section {
    name: "topic",
    many: true,
    doc: "How much room a topic of the log takes: readings, control, late, quarantine, exchange, changes, or the name of a window or a join.\nOne without a section keeps to these defaults.",
    keys: &[
        Key {
            name: "name",
            default: Default::Required("\"readings\""),
            doc: "Which topic.",
        },
        Key {
            name: "quota",
            default: Default::None("\"8GiB\""),
            doc: "What it takes on disk, 4MB and up. Default 8GiB for readings, 1GiB for a window and\nthe exchange, 256MiB for control, late and quarantine.",
        },
        Key {
            name: "age",
            default: Default::None("\"90d\""),
            doc: "Records go when they were sealed so long ago, 1m and up. Default: never.",
        },
        Key {
            name: "when_full",
            default: Default::Is("\"drop_oldest\""),
            doc: "drop_oldest: the oldest goes, forwarded or not; reject_new: what is there stays until it was forwarded,\nnew readings are counted and not stored; block: devices wait. Rows of a full window are left out and counted.",
        },
        Key {
            name: "forward_within",
            default: Default::None("\"7d\""),
            doc: "Records older than this are not forwarded any more but declared as expired, 1m and up. Default: never.",
        },
    ],
};

pub const UPSTREAM: Section = Section {
    name: "upstream",
    many: false,
    doc: "`forebay upstream`: the receiver that applies each reading once.",
    keys: &[
        Key {
            name: "data_dir",
            default: Default::Is("\"upstream-data\""),
            doc: "Where it keeps what it applied. Not absolute: from the folder of this file.",
        },
        Key {
            name: "broker",
            default: Default::Required("\"127.0.0.1:1883\""),
            doc: "host:port of the MQTT broker.",
        },
        Key {
            name: "client_id",
            default: Default::Is("\"forebay-upstream\""),
            doc: "MQTT client id; the broker keeps its session under it.",
        },
        Key {
            name: "sink",
            default: Default::Is("\"embedded\""),
            doc: "Where readings are applied: embedded: in data_dir, by one process; postgres: see [postgres];\nfiles: see [files], by one process.",
        },
        Key {
            name: "workers",
            default: Default::Is("1"),
            doc: "Connections to the broker, 1 to 16, that share the messages out (MQTT shared subscription): \
                  reads them on so many cores. Needs a broker that has it; ids become <client_id>-1 and so on.",
        },
        Key {
            name: "group",
            default: Default::None("\"receivers\""),
            doc: "Of several receivers that share the messages out, each with its own client_id: the same name in all. \
                  Needs sink = \"postgres\".",
        },
        Key {
            name: "socket",
            default: Default::None("\"/run/forebay/upstream.sock\""),
            doc: "Local socket for queries. Default upstream.sock in data_dir.",
        },
    ],
};
