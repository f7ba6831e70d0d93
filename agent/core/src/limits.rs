//! Every bound of the agent, with the relations between them asserted.

/// Largest stored block. sled spills values above about 7.6 KiB into files that
/// it never syncs, so a block stays well below.
pub const BLOCK_BYTES_MAX: usize = 6 * 1024;
/// Blocks of one sealed segment.
pub const SEGMENT_BLOCKS_MAX: usize = 1 << 19;
/// Longest sealed segment.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Bytes of rows by key of one sealed segment: whoever seals holds them.
pub const KEYED_BYTES_MAX: usize = 32 << 20;
/// Bytes of such rows that are read at once for a key, about.
pub const KEYED_BUCKET_BYTES: usize = 4096;
/// Places of rows by key, each for about so many bytes.
pub const KEYED_BUCKETS_MAX: usize = KEYED_BYTES_MAX / KEYED_BUCKET_BYTES;
/// Runs of offsets without a hole of which rows by key speak.
pub const KEYED_SPANS_MAX: usize = 256;
/// Bytes of what rows by key say of all of them: names of figures.
pub const KEYED_NOTE_BYTES_MAX: usize = 4096;
/// Longest key of any entry of a database.
pub const STORE_KEY_BYTES_MAX: usize = 512;
/// Longest value of any entry of a database, see [`BLOCK_BYTES_MAX`].
pub const STORE_VALUE_BYTES_MAX: usize = BLOCK_BYTES_MAX;
/// Longest key of a meta entry of the store.
pub const META_KEY_BYTES_MAX: usize = 256;
/// Longest value of an entry of the engine's state; with its place and check bytes it
/// fits a meta entry.
pub const STATE_VALUE_BYTES_MAX: usize = 4096;
/// Longest value of a meta entry: the same spill rule as for blocks.
pub const META_VALUE_BYTES_MAX: usize = BLOCK_BYTES_MAX;
const _: () = assert!(STATE_VALUE_BYTES_MAX + 64 <= META_VALUE_BYTES_MAX);
/// Openings of a log of which the nonces are kept.
pub const OPENINGS_KEPT_MAX: usize = 64;
/// Most commits that share one sync: bounds what waits for its ack.
pub const COMMITS_PER_SYNC_MAX: usize = 64;
/// Requests that may wait for the storage thread.
pub const STORE_REQUESTS_MAX: usize = 256;
/// Openings of one partition that the upstream tells apart; those of which nothing came
/// for longest are merged.
pub const EPOCH_RUNS_MAX: usize = 32;
/// Openings that are named of merged ones, beside the lowest.
pub const MERGED_OPENINGS_MAX: usize = 64;
/// Openings of one log by which clones are known; the lowest are forgotten.
pub const LOG_OPENINGS_MAX: usize = 256;
/// Ranges of applied offsets per epoch: one hole more is refused and asked again.
pub const OFFSET_RANGES_MAX: usize = 256;
/// Partitions of all gateways and logs that one upstream knows.
pub const UPSTREAM_PARTITIONS_MAX: usize = 1 << 18;
/// Ranges of all these together, 16 bytes each.
pub const UPSTREAM_RANGES_MAX: usize = 1 << 22;
/// Devices of all gateways that it keeps a ledger of, each with its boots.
pub const UPSTREAM_DEVICES_MAX: usize = 1 << 16;
/// How long a hole in what was applied may stay before the gateway is asked to
/// send again, us. Twice as long after each time.
pub const HOLE_PATIENCE_US: u64 = 2_000_000;
/// How often one hole is asked for: what the gateway cannot read any more would
/// else be asked for ever, with all that comes after it.
pub const RESENDS_MAX: u32 = 6;
/// Clients of a broker that are remembered as having been connected.
pub const UPSTREAM_CLIENTS_MAX: usize = 256;
/// Second disks of a log that one batch tells of; all are counted.
pub const CLONES_TOLD_MAX: usize = 16;
/// Rejected messages that an upstream keeps for whoever looks for the cause.
pub const REJECTED_KEPT_MAX: u64 = 1024;
/// Bytes of a rejected payload that are kept.
pub const REJECTED_PAYLOAD_BYTES_MAX: usize = 512;
/// Characters kept of its topic and of the reason.
pub const REJECTED_TEXT_CHARS_MAX: usize = 120;
/// Most records in one block: bounds the MQTT message that a block becomes.
pub const BLOCK_RECORDS_MAX: usize = 512;
/// Longest reading or gap in a JSON payload, its comma included.
pub const RECORD_JSON_BYTES_MAX: usize = 200;
/// Longest series in a JSON payload, its comma included, with both names escaped at
/// their worst.
pub const SERIES_JSON_BYTES_MAX: usize = 480;
/// Longest row that a reading becomes in a sink, with both names escaped at their worst.
pub const ROW_JSON_BYTES_MAX: usize = 490;
/// Longest envelope of a JSON payload.
pub const ENVELOPE_JSON_BYTES_MAX: usize = 512;
/// Deepest nesting of a JSON payload that is read.
pub const JSON_DEPTH_MAX: usize = 32;
/// Most marks in one ack message of the upstream: streams times partitions of
/// one gateway.
pub const ACK_MARKS_MAX: usize = 1024;
/// Openings of a partition of a log that has more than one history of which an ack tells,
/// runs of one mark, and of all marks of one ack message.
pub const ACK_OPENINGS_MAX: usize = 8;
pub const ACK_RUNS_PER_MARK_MAX: usize = 8;
pub const ACK_RUNS_MAX: usize = 256;
/// Largest ack message, command or status.
pub const CONTROL_BYTES_MAX: usize = 208 * 1024;
/// Devices that an edge node of Sparkplug announces, their metrics, and those of one: one
/// more, and it announces anew only what comes from then on.
pub const SPARKPLUG_DEVICES_MAX: usize = 4096;
pub const SPARKPLUG_METRICS_MAX: usize = 65_536;
pub const SPARKPLUG_METRICS_PER_DEVICE_MAX: usize = 1024;
/// Largest MQTT payload sent or taken.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// What one read of the log brings at the most, beside its first block.
pub const FETCH_BYTES_MAX: usize = 64 * 1024;
/// The same of a read for engines: a read waits for the sync that is under way, and what it
/// brings is taken in turns. At 100,000 readings a second it is a tenth of a second's worth.
pub const DERIVE_FETCH_BYTES_MAX: usize = 256 * 1024;
/// Most series that one block names; their index takes at most two bytes.
pub const SERIES_PER_BLOCK_MAX: usize = 128;
/// Values up to which percentiles are exact; beyond that a sketch answers.
pub const EXACT_RANKS_MAX: usize = 4096;
/// Readings in one chunk of a rolling window. Measured: what a chunk costs at once
/// when a cursor enters it stays below a few times the cost of a usual reading.
pub const TAIL_CHUNK_READINGS_MAX: usize = 32;
/// Readings that a rolling window of one key holds, and those of all keys together:
/// beyond that the oldest leave early. 16 bytes each at the worst, 2 or 3 for
/// usual decimals. Counted in readings, so that no restart changes a result.
pub const TAIL_READINGS_MAX: usize = 1 << 22;
pub const TAILS_READINGS_MAX: usize = 1 << 24;
/// Runs of identities kept per device to know duplicates.
pub const IDENTITY_RUNS_MAX: usize = 4096;
/// Series (device and channel) of one engine.
pub const SERIES_MAX: usize = 1 << 20;
/// Longest name of a device or channel that the engine takes.
pub const SERIES_NAME_BYTES_MAX: usize = 255;
/// Window operators of one pipeline.
pub const WINDOWS_MAX: usize = 256;
/// Tables of one pipeline.
pub const TABLES_MAX: usize = 64;
/// Joins of one pipeline.
pub const JOINS_MAX: usize = 64;
/// Keys of one table of which something is known, also that their row is gone.
pub const TABLE_ROWS_MAX: usize = 1_000_000;
/// Versions of one row: the oldest leave early.
pub const TABLE_VERSIONS_MAX: usize = 1024;
/// Readings and rows that one join or window holds until what they need is known; beyond,
/// the oldest do not wait any longer.
pub const JOIN_HELD_MAX: usize = 1 << 20;
/// Keys of one window that has columns of tables in its key.
pub const KEYED_SLOTS_MAX: usize = 1 << 20;
/// Columns of tables in the key of one window.
pub const KEY_COLUMNS_MAX: usize = 8;
/// Figures of one window.
pub const AGGREGATES_MAX: usize = 64;
/// Names in a `channels` or `devices` list.
pub const FILTER_NAMES_MAX: usize = 1024;
/// Longest `where` of a side of a join, bytes.
pub const FILTER_TEXT_BYTES_MAX: usize = 4096;
/// Levels of `not` and parentheses in it: bounds the recursion that reads it.
pub const FILTER_DEPTH_MAX: usize = 32;
/// Longest name of a gateway, a device, a channel or a stream.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest window, offset or hop, us: with [`EVENT_TIME_MAX`] no start or end overflows.
pub const WINDOW_SPAN_MAX: i64 = 1 << 60;
/// Hopping windows over one reading: what it may cost to write them.
pub const HOPS_PER_WINDOW_MAX: i64 = 10_000;
/// Readings in one window of the last n.
pub const ROWS_PER_WINDOW_MAX: u32 = 1_000_000;
/// Largest event time, us, before and after 1970: about 146,000 years.
pub const EVENT_TIME_MAX: i64 = 1 << 62;

const _: () = assert!(EVENT_TIME_MAX.checked_add(2 * WINDOW_SPAN_MAX).is_some());
/// Most devices that one gateway keeps accounts for.
pub const DEVICES_MAX: usize = 4096;
/// Boots of one device that are told apart; older ones are summed.
pub const BOOTS_PER_DEVICE_MAX: usize = 16;
/// Readings written, and time, after which the accounts of devices are kept: what a
/// start has to read before it opens the ports.
pub const SNAPSHOT_BYTES: u64 = 1024 * 1024;
pub const SNAPSHOT_EVERY_US: u64 = 10_000_000;
/// How far a derived topic has come is kept with its rows, and at least so often.
pub const DERIVE_KEPT_EVERY_US: u64 = 10_000_000;
/// How old a clock a reading is judged by at the most, us; less where `idle_after` is short.
pub const CLOCK_EVERY_US: u64 = 10_000_000;
/// Shortest time between two clocks in one partition, us: bounds what they take of the log.
pub const CLOCK_SPACING_US: u64 = 250_000;
/// How long a change of a table, and a row that it makes, waits for others in its batch, us:
/// a change becomes durable, then known to engines, then a row, one after the other.
pub const CHANGE_LINGER_US: u64 = 5_000;
/// How old it may be where something waits until a table is known past its time, us.
pub const CLOCK_TABLES_US: u64 = 1_000_000;
/// How often a clock that is not trusted is looked at, us.
pub const CLOCK_POLL_US: u64 = 1_000_000;
/// After so long nobody will set the clock any more: one that is behind what the log knows
/// is then believed, us.
pub const CLOCK_PATIENCE_US: u64 = 600_000_000;
/// Readings of one partition that wait until their time is known, in memory; one more goes
/// to `quarantine`.
pub const PARKED_READINGS_MAX: usize = 16_384;
/// Rows of one derived topic after its kept place that a start reads to know them
/// again: those of the last batches. Where there are more, the kept place is lost.
pub const STORED_ROWS_MAX: u64 = PENDING_RECORDS_MAX as u64;
/// A state that changed is kept so long after its first change, after so many readings,
/// rows or changed bytes of it, and after a window fired: at most so often then.
/// State is written at so many bytes a second at most, but for the first rule and the rows.
pub const CHECKPOINT_EVERY_US: u64 = 5_000_000;
pub const CHECKPOINT_BYTES_PER_S: u64 = 512 * 1024;
pub const CHECKPOINT_READINGS: u64 = 10_000;
pub const CHECKPOINT_ROWS: u64 = 32_768;
pub const CHECKPOINT_BYTES: u64 = 1024 * 1024;
pub const CHECKPOINT_SPACING_US: u64 = 100_000;
/// Pages of a state that is kept, of 16 windows each, that are written in one step, and
/// readings that an engine takes in one: others have their turn between two of them. Each
/// takes about a millisecond.
pub const CHECKPOINT_STEP_PAGES: usize = 32;
pub const READINGS_PER_TURN_MAX: u64 = 512;
/// Channels of which a status tells in one step, with the devices that have them; a device
/// itself counts as so many.
pub const STATUS_CHANNELS_PER_TURN_MAX: usize = 256;
pub const STATUS_DEVICE_CHANNELS: usize = 8;
/// Bytes of all such rows together.
pub const STORED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Rows in the topic `control` for what one start found missing of one partition, and
/// ranges of it that are remembered as told.
pub const LOSS_ROWS_MAX: usize = 64;
pub const LOSS_RANGES_MAX: usize = 256;
/// Answered clock probes among which the best is chosen; a session opens after so many.
pub const PROBES_KEPT: usize = 8;
/// The newest answered probes, each a point of the fit; then the best of each
/// [`PROBES_KEPT`].
pub const PROBES_RECENT_MAX: usize = 2 * PROBES_KEPT;
/// Such best ones: eight and a half minutes of them.
pub const PROBES_BEST_MAX: usize = 64;
/// Clock probes that may be unanswered before the oldest is forgotten.
pub const PROBES_OUTSTANDING_MAX: usize = 16;
/// Most partitions of one log.
pub const PARTITIONS_MAX: usize = 16;
/// Readings of one partition that wait for those of others, to go into the exchange.
pub const EXCHANGE_WAITING_MAX: usize = 16_384;
/// Readings that may wait for the disk; above it the link is asked to repeat.
pub const PENDING_RECORDS_MAX: usize = 65_536;
/// Blocks, or runs of blocks, that the time index of one partition tells apart.
pub const INDEX_ENTRIES_MAX: usize = 65_536;
/// Longest result row; one always fits an empty block.
pub const ROW_BYTES_MAX: usize = BLOCK_BYTES_MAX - 64;

const _: () = assert!(
    ENVELOPE_JSON_BYTES_MAX
        + SERIES_PER_BLOCK_MAX * SERIES_JSON_BYTES_MAX
        + BLOCK_RECORDS_MAX * RECORD_JSON_BYTES_MAX
        <= MESSAGE_BYTES_MAX,
    "every block fits one message"
);
const _: () = assert!(
    BLOCK_RECORDS_MAX * ROW_JSON_BYTES_MAX <= MESSAGE_BYTES_MAX,
    "the rows of one message fit a group"
);
const _: () = assert!(
    ACK_MARKS_MAX * (NAME_BYTES_MAX + 110) + ACK_RUNS_MAX * 120 + ENVELOPE_JSON_BYTES_MAX
        <= CONTROL_BYTES_MAX,
    "the marks of a gateway fit one message"
);
const _: () = assert!(
    // A byte that is no text becomes three, one that is escaped becomes six, and a
    // character of a topic or a reason has up to twelve.
    6 * REJECTED_PAYLOAD_BYTES_MAX + 2 * 12 * REJECTED_TEXT_CHARS_MAX + 100
        <= STORE_VALUE_BYTES_MAX,
    "a rejected message fits one value"
);
const _: () = assert!(CONTROL_BYTES_MAX <= MESSAGE_BYTES_MAX);
const _: () = assert!(
    SPARKPLUG_METRICS_PER_DEVICE_MAX * (CHANNEL_NAME_BYTES_MAX + UNIT_NAME_BYTES_MAX + 110)
        <= MESSAGE_BYTES_MAX,
    "the birth of a device fits one message"
);
const _: () = assert!(
    SERIES_PER_BLOCK_MAX <= SPARKPLUG_METRICS_PER_DEVICE_MAX
        && SERIES_PER_BLOCK_MAX <= SPARKPLUG_DEVICES_MAX
        && SPARKPLUG_METRICS_PER_DEVICE_MAX <= SPARKPLUG_METRICS_MAX,
    "what one block brings is always announced"
);
const _: () = assert!(
    CHECKPOINT_ROWS < STORED_ROWS_MAX,
    "rows after the last checkpoint can be held to be compared"
);
/// Sources of changes of one gateway.
pub const SOURCES_MAX: usize = 16;
/// Events of one batch of a source.
pub const SOURCE_BATCH_EVENTS_MAX: usize = 4096;
/// Batches of one source that are not durable yet.
pub const SOURCE_BATCHES_MAX: usize = 8;
/// Longest position of a source, bytes.
pub const SOURCE_POSITION_BYTES_MAX: usize = 2048;
/// Shortest time between two heartbeats of one table, and between two markers in one
/// partition of how far tables are known, us.
pub const HEARTBEAT_SPACING_US: u64 = 1_000_000;
pub const MARK_SPACING_US: u64 = 20_000;
/// Shortest time between two notes about rows of one table, us.
pub const CHANGES_NOTE_EACH_US: u64 = 60_000_000;
/// Changes that an engine takes from the base of tables between two reads of the log.
pub const BASE_CHANGES_AT_ONCE: usize = 4096;
/// Longest key of a row of a table: with its table it fits the key of a meta entry.
pub const TABLE_KEY_BYTES_MAX: usize = 160;
/// Definitions of derived streams in the life of one log.
pub const TOPICS_MAX: usize = 1024;
/// Longest text of the pipeline that is kept in the log; with a longer one a changed
/// pipeline is computed again while all its streams wait.
pub const PIPELINE_TEXT_BYTES_MAX: usize = 64 * 1024;
/// The live engines wait for those that are built beside them when these are so few
/// readings behind: for a moment, in which both come to one place.
pub const VIEW_MEETING_READINGS: u64 = 4096;
/// Queries answered at the same time; one more is told to come again.
pub const QUERIES_MAX: usize = 16;
/// Lines in the answer to one query.
pub const QUERY_LINES_MAX: usize = 10_000;
/// Channels that one read beside the loop is of.
pub const READ_KEYS_MAX: usize = 1024;
/// Readings, windows or rows in the answer to one read: 16 bytes each of readings.
pub const READ_ROWS_MAX: usize = 1 << 22;
/// Readings of one time that may come on top, as they are never parted.
pub const SAME_TIME_ROWS_MAX: usize = 65_536;
/// Bytes of rows in the answer to one read, beside the last.
pub const READ_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Gaps in the answer to one read.
pub const GAPS_SHOWN_MAX: usize = 10_000;
/// Readers of changes that wait for an answer at the same time.
pub const FOLLOWERS_MAX: usize = 16;
/// Rows in one answer of changes, and bytes of their lines after which it is full; the
/// last read of the log comes on top.
pub const FOLLOW_LINES_MAX: usize = 4096;
pub const FOLLOW_BYTES_MAX: usize = 1 << 20;
/// Longest wait for a change, us: shorter than a client waits for its answer.
pub const FOLLOW_WAIT_MAX_US: i64 = 10_000_000;
/// Channels per partition whose newest reading is shown.
pub const LIVE_SERIES_MAX: usize = 16_384;
/// Destinations of one gateway.
pub const DESTINATIONS_MAX: usize = 8;
/// Payload bytes on their way to the broker, beside the last message.
pub const FORWARD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Windows of messages that may be handed over before their marks are on disk. Marks wait
/// for a sync shared with readings, 50 ms and more: with one window a broker next door
/// would get 600 messages a second, whatever it can take.
pub const FORWARD_UNKEPT_WINDOWS: usize = 16;
/// Messages that a receiver of ours has not confirmed yet: half of what Mosquitto keeps for
/// one client before it drops the newest silently.
pub const FORWARD_AHEAD_MAX: usize = 500;
/// How long its next confirmation is waited for, us.
pub const FORWARD_AHEAD_WAIT_US: u64 = 2_000_000;
/// Refusals of one message, for a reason of its own, after which it is parked.
pub const FORWARD_REFUSALS_MAX: u32 = 5;
/// Partitions whose blocks wait in memory to be forwarded.
pub const FORWARD_LOADED_MAX: usize = 4;
/// First and longest wait before a refused message is tried again, us.
pub const FORWARD_RETRY_MIN_US: u64 = 1_000_000;
pub const FORWARD_RETRY_MAX_US: u64 = 60_000_000;
/// Shortest time between two resends of one partition that the receiver asks for, us.
pub const FORWARD_RESEND_EACH_US: u64 = 1_000_000;
/// First and longest silence of the receiver after which one block is sent again, us.
pub const FORWARD_STALL_MIN_US: u64 = 10_000_000;
pub const FORWARD_STALL_MAX_US: u64 = 3_600_000_000;
/// Ranges of one partition above its mark that are known to be acked.
pub const FORWARD_RANGES_MAX: usize = 64;
/// Parked ranges of one partition that are kept for operators.
pub const FORWARD_PARKED_KEPT_MAX: usize = 64;

const _: () = assert!(
    32 + 16 * FORWARD_RANGES_MAX + 17 * FORWARD_PARKED_KEPT_MAX < META_VALUE_BYTES_MAX,
    "the marks of a partition fit one meta entry"
);
/// Smallest generation of the log, bytes: below it the store's own overhead rules.
pub const GENERATION_BYTES_MIN: u64 = 256 << 10;
/// A generation is at most this part of the smallest quota: it goes at once.
pub const GENERATIONS_PER_QUOTA: u64 = 16;
/// Smallest quota of a topic, bytes.
pub const QUOTA_BYTES_MIN: u64 = 4_000_000;
/// Sealed segments of one topic that are kept, whatever their size: each is a file.
pub const SEGMENTS_PER_TOPIC_MAX: usize = 4096;
/// Segments that are asked to go at once.
pub const REMOVALS_PER_POLL_MAX: usize = 64;
/// Steps in which unsealed bytes of one partition are known.
pub const LIVE_STEPS_MAX: usize = 16_384;
/// Imports under way at the same time.
pub const IMPORTS_MAX: usize = 4;
/// Most readings of one batch of an import; what may be pending beyond
/// [`PENDING_RECORDS_MAX`].
pub const IMPORT_RECORDS_MAX: usize = 4096;
/// Channels of one device in one import.
pub const IMPORT_CHANNELS_MAX: usize = 256;
/// An import that was silent for so long gives its place to a new one, us.
pub const IMPORT_IDLE_US: u64 = 60_000_000;
/// First boot of imports: a device counts its own from 0, and its next one must
/// never have the ordinals of an import.
pub const IMPORT_BOOT_FIRST: u32 = 1 << 31;
/// Longest name of a channel and of its unit, as devices and imports may have them.
pub const CHANNEL_NAME_BYTES_MAX: usize = 64;
pub const UNIT_NAME_BYTES_MAX: usize = 24;

const _: () = assert!(CHANNEL_NAME_BYTES_MAX >= forebay_wire::limits::QUANTITY_BYTES_MAX);
const _: () = assert!(UNIT_NAME_BYTES_MAX >= forebay_wire::limits::UNIT_BYTES_MAX);
/// The reserve is at most this part of what is free and what the log has together.
pub const RESERVE_PART: u64 = 4;
/// Shortest and longest sampling period that can be asked for, us.
pub use forebay_wire::limits::{PERIOD_US_MAX, PERIOD_US_MIN};
/// Commands on their way to one device, and to all of them.
pub const COMMANDS_PER_DEVICE_MAX: usize = 8;
pub const COMMANDS_MAX: usize = 64;
/// A command is sent again after so long, us, and so often in all.
pub const COMMAND_EACH_US: u64 = 500_000;
pub const COMMAND_SENDS_MAX: u32 = 6;
/// Changes of settings that somebody waits for.
pub const SETS_WAITING_MAX: usize = 64;
/// How long a device may take to say that it has its settings, us, before it is said that
/// they are kept.
pub const DEVICE_ANSWER_US: u64 = 5_000_000;
/// Settings are sent again after so long, us, and so often until the device's next Health.
pub const CONFIG_EACH_US: u64 = 1_000_000;
pub const CONFIG_SENDS_MAX: u32 = 6;
/// Bytes of a port that are looked at in one go: what they say is acted on between.
pub const PORT_BYTES_AT_ONCE: usize = 4096;
/// A device may declare so long after its session opened what its earlier boots have lost,
/// us; what then is still missing of them the gateway declares.
pub const CLOSE_BOOTS_US: u64 = 10_000_000;
/// Devices on no port whose clock model is kept.
pub const CLOCKS_KEPT_MAX: usize = 1024;
/// Shortest time between two notes about one port, us.
pub const PORT_NOTE_EACH_US: u64 = 60_000_000;

const _: () = assert!(
    COMMANDS_PER_DEVICE_MAX <= 8,
    "a device keeps so many results to answer a command that comes again"
);
/// How often alarms are judged, us.
pub const ALARMS_EVERY_US: u64 = 1_000_000;
/// Alarms of one code that are shown; what is beyond is counted.
pub const ALARMS_PER_CODE_MAX: usize = 64;
/// Shortest silence of a device that can be told: it is looked at each second, us.
pub const STALLED_US_MIN: u64 = 3 * ALARMS_EVERY_US;
/// Sentences about alarms in one second; what is beyond is one more, with a number.
pub const ALARM_NOTES_MAX: usize = 8;
/// Ports that are missed when they are gone.
pub const ALARM_PORTS_MAX: usize = 1024;
/// Longest part of a sentence about an alarm that others have said, characters.
pub const ALARM_TEXT_CHARS_MAX: usize = 400;

const _: () = assert!(
    // A character is at most 6 bytes in JSON, a subject two names.
    6 * (ALARM_TEXT_CHARS_MAX + 2 * NAME_BYTES_MAX) < ROW_BYTES_MAX - 1024,
    "the row of an alarm fits a block"
);
