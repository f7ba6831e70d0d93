-- How far the gateway knew its tables: at this place of the readings the changes below
-- that offset of stream "changes" count.
CREATE TABLE table_marks (
    source_id    int4 NOT NULL,
    "offset"     int8 NOT NULL,
    "time"       timestamptz NOT NULL,
    changes_upto int8 NOT NULL,
    PRIMARY KEY (source_id, "offset")
);
