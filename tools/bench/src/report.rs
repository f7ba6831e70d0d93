//! Which parts make which rows.

use crate::Args;
use crate::children::{self, Said};
use crate::limits::{
    DISK_FACTOR_MAX, DRAIN_RSS_MIB_MAX, GROUP, LIVE_BYTES_MAX, READINGS_PER_S_MIN, RESTART_S_MAX,
    RING_GROWTH_MAX, SEALED_BYTES_MAX, SHARE_OF_RAW_MIN, WRITTEN_FACTOR_MAX,
};
use crate::parts::{ACKED, APPENDING, Part};
use crate::table::{self, Head, Row};

const HEAD: Head = ["", "sync policy", "measured", "raw file", "must reach", ""];

const GROUP_50: &str = "group 50 ms";
const NO_SYNC: &str = "-";
/// Restarts after a kill; the slowest counts.
const RESTARTS: usize = 3;

/// Runs all parts and prints the table; whether everything was reached.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    table::measured_in(&args.dir, &HEAD, || measure(args))
}

fn measure(args: &Args) -> Result<Vec<Row>, String> {
    let is_asked = |part| args.only.is_empty() || args.only.contains(&part);
    let mut rows = Vec::new();
    for (part, to_rows) in [
        (Part::Sizes, of_sizes as fn(&Said) -> Vec<Row>),
        (Part::Speed, of_speed),
        (Part::Throughput, of_throughput),
        (Part::Rate, of_rate),
        (Part::Ack, of_ack),
        (Part::Ring, of_ring),
    ] {
        if is_asked(part) {
            let said = figures(part, args)?;
            rows.extend(to_rows(&said));
        }
    }
    if is_asked(Part::Fill) || is_asked(Part::Drain) || is_asked(Part::FirstAck) {
        rows.extend(of_backlog(args)?);
    }
    Ok(rows)
}

fn figures(part: Part, args: &Args) -> Result<Said, String> {
    let said = children::run(part, args)?;
    for (name, value) in &said {
        println!("{part:?} {name} = {value:.3}");
    }
    Ok(said)
}

fn get(said: &Said, name: &str) -> f64 {
    said.get(name).copied().unwrap_or(f64::NAN)
}

fn row(what: &'static str, policy: &'static str, measured: String) -> Row {
    Row {
        what: what.into(),
        under: policy.into(),
        measured,
        beside: String::new(),
        must: String::new(),
        reached: None,
    }
}

/// A row with the most or least that it may be.
fn limited(row: Row, value: f64, limit: f64, is_least: bool, must: String) -> Row {
    let reached = if is_least {
        value >= limit
    } else {
        value <= limit
    };
    Row {
        must,
        reached: Some(reached),
        ..row
    }
}

fn of_sizes(said: &Said) -> Vec<Row> {
    let sealed = get(said, "machine_sealed");
    let live = get(said, "board_live");
    let what = if get(said, "machine_is_real") > 0.0 {
        "bytes per reading, sealed, machine temperature"
    } else {
        "bytes per reading, sealed, like a machine's temperature"
    };
    vec![
        limited(
            row(what, NO_SYNC, format!("{sealed:.2}")),
            sealed,
            SEALED_BYTES_MAX,
            false,
            format!("<= {SEALED_BYTES_MAX}"),
        ),
        limited(
            row(
                "bytes per reading, live, 7 channels",
                NO_SYNC,
                format!("{live:.2}, sealed {:.2}", get(said, "board_sealed")),
            ),
            live,
            LIVE_BYTES_MAX,
            false,
            format!("<= {LIVE_BYTES_MAX}"),
        ),
    ]
}

fn of_speed(said: &Said) -> Vec<Row> {
    let ns = |name| format!("{:.0} ns", get(said, name));
    vec![
        row("build a block, per reading", NO_SYNC, ns("build_ns")),
        row(
            "read a block, per reading",
            NO_SYNC,
            format!("{}, sealed {}", ns("read_ns"), ns("read_sealed_ns")),
        ),
        row(
            "merge and pack blocks, per reading",
            NO_SYNC,
            ns("merge_ns"),
        ),
    ]
}

fn of_rate(said: &Said) -> Vec<Row> {
    let rate = get(said, "readings_per_s");
    let measured = format!(
        "{:.2} M/s of {:.2} bytes",
        rate / 1e6,
        get(said, "bytes_per_reading")
    );
    let raw = Row {
        beside: format!("{:.2} M/s", get(said, "raw_readings_per_s") / 1e6),
        ..row("readings per second, durable, one core", GROUP_50, measured)
    };
    vec![limited(
        raw,
        rate,
        READINGS_PER_S_MIN,
        true,
        ">= 1.00 M/s".into(),
    )]
}

fn of_throughput(said: &Said) -> Vec<Row> {
    let share = get(said, "share");
    let (disk, written) = (get(said, "disk_factor"), get(said, "written_factor"));
    let bytes = Row {
        beside: format!("{:.0} MB/s", get(said, "raw_mb_per_s")),
        ..row(
            "bytes per second of full blocks",
            GROUP_50,
            format!(
                "{:.0} MB/s, {:.0} % (all sealed: {:.0} MB/s)",
                get(said, "store_mb_per_s"),
                share * 100.0,
                get(said, "sealed_mb_per_s"),
            ),
        )
    };
    let peak = get(said, "disk_factor_peak");
    vec![
        limited(
            bytes,
            share,
            SHARE_OF_RAW_MIN,
            true,
            ">= 50 % of raw".into(),
        ),
        limited(
            row(
                "disk per byte of blocks",
                GROUP_50,
                format!("{disk:.2}, most while written {peak:.2}"),
            ),
            disk.max(peak),
            DISK_FACTOR_MAX,
            false,
            format!("<= {DISK_FACTOR_MAX}, aim 1.3"),
        ),
        limited(
            row(
                "device writes per byte of blocks, sealing included",
                GROUP_50,
                format!("{written:.2}"),
            ),
            written,
            WRITTEN_FACTOR_MAX,
            false,
            format!("<= {WRITTEN_FACTOR_MAX}"),
        ),
    ]
}

fn of_ack(said: &Said) -> Vec<Row> {
    let (p99, sync) = (get(said, "ack_p99_ms"), get(said, "sync_p99_ms"));
    let limit = GROUP.as_secs_f64() * 1e3 + 2.0 * sync;
    let measured = Row {
        beside: format!(
            "fdatasync p50 {:.1} ms, p99 {sync:.1} ms",
            get(said, "sync_p50_ms")
        ),
        ..row(
            "append to ack, p99",
            GROUP_50,
            format!(
                "{p99:.1} ms (p50 {:.1}, max {:.1})",
                get(said, "ack_p50_ms"),
                get(said, "ack_max_ms")
            ),
        )
    };
    let must = format!("<= {limit:.1} ms: 50 + 2 fdatasync");
    let slow = get(said, "slow_written_factor");
    vec![
        limited(measured, p99, limit, false, must),
        row(
            "device writes per byte of small blocks, 20,000 readings/s",
            GROUP_50,
            format!("{slow:.2}, before sealing"),
        ),
    ]
}

fn of_ring(said: &Said) -> Vec<Row> {
    let growth = get(said, "growth");
    let measured = format!(
        "{:+.1} % over {:.0} turns, {:.2} of the quota",
        (growth - 1.0) * 100.0,
        get(said, "turns"),
        get(said, "disk_per_quota")
    );
    vec![limited(
        row("disk of a ring of 4 MiB", GROUP_50, measured),
        growth,
        RING_GROWTH_MAX,
        false,
        "flat".into(),
    )]
}

fn of_backlog(args: &Args) -> Result<Vec<Row>, String> {
    let filled = figures(Part::Fill, args)?;
    let drained = figures(Part::Drain, args)?;
    let mut restart = 0.0_f64;
    for _ in 0..RESTARTS {
        children::run_and_kill(Part::Append, args, APPENDING)?;
        let seconds = children::seconds_to(Part::FirstAck, args, ACKED)?;
        println!("FirstAck after {seconds:.3} s");
        restart = restart.max(seconds);
    }
    let rss = get(&drained, "drain_rss_mib");
    let gigabytes = get(&filled, "filled_bytes") / 1e9;
    Ok(vec![
        limited(
            row(
                "memory while the long log is read, RSS",
                NO_SYNC,
                format!(
                    "{rss:.0} MiB at {gigabytes:.1} GB, {:.0} MB/s",
                    get(&drained, "drain_mb_per_s")
                ),
            ),
            rss,
            DRAIN_RSS_MIB_MAX,
            false,
            format!("<= {DRAIN_RSS_MIB_MAX} MiB"),
        ),
        limited(
            row(
                "kill -9 to first durable ack",
                GROUP_50,
                format!("{restart:.2} s at {gigabytes:.1} GB"),
            ),
            restart,
            RESTART_S_MAX,
            false,
            format!("<= {RESTART_S_MAX} s"),
        ),
        row(
            "disk of the long log per byte of blocks",
            GROUP_50,
            format!(
                "{:.2}",
                get(&filled, "filled_disk_bytes") / get(&filled, "filled_bytes")
            ),
        ),
    ])
}
