-- Version 1 of the receiver's tables. Runs once, in one transaction, with the
-- schema as the first of the search path. Documented in agent/node/docs/postgres.md.

CREATE TABLE schema_version (
    version    int4        PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now(),
    program    text        NOT NULL
);

-- Whose state was changed how often. A worker locks the rows of the gateways
-- that its batch is of: what another worker changed meanwhile shows here.
CREATE TABLE gateways (
    gateway text COLLATE "C" PRIMARY KEY,
    version int8 NOT NULL
) WITH (fillfactor = 50);

-- One partition of one stream of one opening of one log.
CREATE TABLE sources (
    source_id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gateway   text COLLATE "C" NOT NULL,
    log_id    text COLLATE "C" NOT NULL,
    stream    text COLLATE "C" NOT NULL,
    partition int4 NOT NULL,
    epoch     int8 NOT NULL,
    nonce     text COLLATE "C" NOT NULL,
    UNIQUE (gateway, log_id, stream, partition, epoch, nonce)
);

-- One channel of one device behind one gateway. A scale of -1: values are doubles.
CREATE TABLE series (
    series_id  int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gateway    text COLLATE "C" NOT NULL,
    device     text COLLATE "C" NOT NULL,
    channel    text NOT NULL,
    unit       text NOT NULL,
    channel_no int2 NOT NULL,
    scale      int2 NOT NULL,
    UNIQUE (gateway, device, channel, unit, channel_no, scale)
);

-- Columns in an order without holes between them.
CREATE TABLE samples (
    "time"         timestamptz NOT NULL,
    "offset"       int8 NOT NULL,
    boot           int8 NOT NULL,
    ordinal        int8 NOT NULL,
    value          float8,
    source_id      int4 NOT NULL,
    series_id      int4 NOT NULL,
    uncertainty_us int4,
    quality        int2 NOT NULL
)/*PARTITIONED*/;

CREATE UNIQUE INDEX samples_once ON samples (source_id, "offset", "time");
CREATE INDEX samples_series ON samples (series_id, "time");

-- Readings that will never come.
CREATE TABLE gaps (
    source_id     int4 NOT NULL,
    "offset"      int8 NOT NULL,
    "time"        timestamptz NOT NULL,
    device        text COLLATE "C" NOT NULL,
    boot          int8 NOT NULL,
    first_ordinal int8 NOT NULL,
    count         int8 NOT NULL,
    reason        text NOT NULL,
    PRIMARY KEY (source_id, "offset")
);

-- What the gateway's clock said.
CREATE TABLE clocks (
    source_id int4 NOT NULL,
    "offset"  int8 NOT NULL,
    "time"    timestamptz NOT NULL,
    trust     text NOT NULL,
    step_us   int8,
    PRIMARY KEY (source_id, "offset")
);

-- Result rows, as the gateway's engine wrote them.
CREATE TABLE rows (
    source_id int4 NOT NULL,
    "offset"  int8 NOT NULL,
    "row"     json NOT NULL,
    PRIMARY KEY (source_id, "offset")
);

-- Offsets of which no record will ever come.
CREATE TABLE missing (
    source_id int4 NOT NULL,
    "offset"  int8 NOT NULL,
    count     int8 NOT NULL,
    reason    text NOT NULL,
    PRIMARY KEY (source_id, "offset")
);

-- What a column of the tables above cannot hold exactly.
CREATE TABLE exact (
    source_id      int4 NOT NULL,
    "offset"       int8 NOT NULL,
    time_us        int8,
    value          int8,
    uncertainty_us int8,
    PRIMARY KEY (source_id, "offset")
);

-- The receiver's own: what is applied, counters, rejected messages.
CREATE TABLE marks (
    key     bytea PRIMARY KEY,
    gateway text COLLATE "C" NOT NULL,
    value   bytea NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX marks_gateway ON marks (gateway);

CREATE TABLE meta (
    key     bytea PRIMARY KEY,
    gateway text COLLATE "C" NOT NULL,
    value   bytea NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX meta_gateway ON meta (gateway);

CREATE TABLE rejected (
    key   bytea PRIMARY KEY,
    value bytea NOT NULL
);

-- The readings with their names.
CREATE VIEW readings AS
SELECT s."time",
       r.gateway,
       r.device,
       r.channel,
       s.value,
       r.unit,
       (ARRAY['ok', 'stale', 'saturated', 'bus_error', 'crc_error', 'implausible',
              'warming_up'])[s.quality + 1] AS quality,
       s.uncertainty_us IS NULL AS unsynced,
       s.uncertainty_us,
       s.boot,
       s.ordinal,
       s.source_id,
       s."offset",
       s.series_id
FROM samples s
JOIN series r USING (series_id);
