//! How fast the disk makes writes durable, and how long it will.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::Finding;
use super::codes::{DISK_FSYNC, DISK_LIFE, DISK_WEAR};
use super::disk::{self, SyncTimes};
use super::host::{number_in, text};
use super::limits::{
    BATCH_BYTES, FLASH_AMPLIFICATION, FLASH_CYCLES, FLASH_YEARS_MIN, RUN_MIN, SYNC_CARD_MIN,
    SYNC_PLATTER_MIN, SYNC_SLOW, SYNC_TIME,
};
use crate::config::SyncMode;

/// What a disk is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Platter,
    /// An SD card or an eMMC.
    Card,
    /// Any other disk without a platter.
    Solid,
    /// None of its own: memory, a network, a layer.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FlashFacts {
    /// Of the whole disk, such as `mmcblk0`.
    pub(super) name: String,
    pub(super) medium: Medium,
    pub(super) bytes: Option<u64>,
    /// As the eMMC gives them: parts of ten used of both kinds of cells.
    pub(super) life_time: Option<String>,
    pub(super) pre_eol: Option<String>,
    /// Measured, or why not.
    pub(super) sync: Result<SyncTimes, String>,
    pub(super) mode: SyncMode,
    /// Bytes that the running agent wrote, and in which time.
    pub(super) written: Option<(u64, Duration)>,
}

/// Of the disk with this number (`179:2`), below `sys`.
pub(super) fn look(
    sys: &Path,
    device: Option<&str>,
    folder: &Path,
    mode: SyncMode,
    agent: Option<u32>,
) -> FlashFacts {
    let whole = device.and_then(|device| whole_disk(sys, device));
    let attribute = |name: &str| whole.as_ref().and_then(|whole| text(whole.join(name)));
    let name = whole.as_ref().and_then(|whole| whole.file_name());
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let rotational = attribute("queue/rotational");
    let medium = match rotational.as_deref() {
        _ if name.starts_with("mmcblk") => Medium::Card,
        Some("1") => Medium::Platter,
        Some("0") => Medium::Solid,
        Some(_) | None => Medium::Unknown,
    };
    FlashFacts {
        medium,
        bytes: attribute("size")
            .and_then(|text| text.parse::<u64>().ok())
            .map(|n| n.saturating_mul(512)),
        life_time: attribute("device/life_time"),
        pre_eol: attribute("device/pre_eol_info"),
        sync: disk::measure(folder, SYNC_TIME).map_err(|error| error.to_string()),
        mode,
        written: agent.and_then(written_by),
        name,
    }
}

/// The folder of the disk that a partition is of.
fn whole_disk(sys: &Path, device: &str) -> Option<PathBuf> {
    let folder = fs::canonicalize(sys.join("dev/block").join(device)).ok()?;
    if folder.join("partition").exists() {
        return folder.parent().map(Path::to_owned);
    }
    Some(folder)
}

/// What a process wrote, and for how long it has run.
fn written_by(pid: u32) -> Option<(u64, Duration)> {
    let bytes = number_in(&text(format!("/proc/{pid}/io"))?, "write_bytes")?;
    let stat = text(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold anything; the 22nd field is counted from behind it.
    let started: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    let up: f64 = text("/proc/uptime")?.split(' ').next()?.parse().ok()?;
    // Ticks of 10 ms on every Linux that there is.
    let since = up - started as f64 / 100.0;
    Some((bytes, Duration::try_from_secs_f64(since).ok()?))
}

pub(super) fn judge(facts: &FlashFacts) -> Vec<Finding> {
    vec![fsync(facts), wear(facts), life(facts)]
}

fn fsync(facts: &FlashFacts) -> Finding {
    let sync = match &facts.sync {
        Ok(sync) => sync,
        Err(why) => return Finding::skip(&DISK_FSYNC, format!("could not be measured: {why}")),
    };
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let fact = format!(
        "a synced write of 4 KiB takes {} at the median, {} at the most",
        ms(sync.median),
        ms(sync.max)
    );
    let least = match facts.medium {
        Medium::Platter => SYNC_PLATTER_MIN,
        Medium::Card => SYNC_CARD_MIN,
        Medium::Solid | Medium::Unknown => Duration::ZERO,
    };
    if facts.mode == SyncMode::None {
        return Finding::warn(
            &DISK_FSYNC,
            format!(
                "{fact}; with sync = \"none\" a power cut takes up to half a second of what was acked"
            ),
            "give sync = \"group\" in [log]",
        );
    }
    if sync.median < least {
        return Finding::warn(
            &DISK_FSYNC,
            format!(
                "{fact}, less than such a disk can: it seems to say that writes are on it which are not"
            ),
            "prove it: `forebay selftest --power-cut=pull`; switch its write cache off, or take another",
        );
    }
    if sync.median > SYNC_SLOW {
        return Finding::warn(
            &DISK_FSYNC,
            format!("{fact}: devices wait as long for each ack"),
            "another card or disk, or a longer `group` in [log]",
        );
    }
    Finding::ok(&DISK_FSYNC, fact)
}

/// Bytes per day: as the agent wrote them, or at the most, by how often it syncs.
fn per_day(facts: &FlashFacts) -> (u64, String) {
    const DAY_S: u64 = 86_400;
    if let Some((bytes, time)) = facts.written.filter(|(_, time)| *time >= RUN_MIN) {
        let day = u128::from(bytes) * u128::from(DAY_S) / u128::from(time.as_secs().max(1));
        let day = u64::try_from(day).unwrap_or(u64::MAX);
        return (day, format!("the running agent writes {} a day", size(day)));
    }
    let pause = match facts.mode {
        SyncMode::Group(group) => group,
        SyncMode::EveryBlock => Duration::from_millis(5),
        SyncMode::None => Duration::from_millis(500),
    };
    let batches = u128::from(DAY_S) * 1_000_000 / pause.as_micros().max(1);
    let day = u64::try_from(batches * u128::from(BATCH_BYTES)).unwrap_or(u64::MAX);
    (
        day,
        format!(
            "where readings come all the time, an agent writes up to {} a day",
            size(day)
        ),
    )
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn wear(facts: &FlashFacts) -> Finding {
    let (day, fact) = per_day(facts);
    let is_flash = matches!(facts.medium, Medium::Card | Medium::Solid);
    let Some(bytes) = facts.bytes.filter(|bytes| is_flash && *bytes > 0) else {
        return Finding::skip(
            &DISK_WEAR,
            format!("{fact}; the disk is no flash that could be looked at"),
        );
    };
    let takes = bytes as f64 * FLASH_CYCLES as f64 / FLASH_AMPLIFICATION as f64;
    let years = takes / day.max(1) as f64 / 365.0;
    let fact = format!(
        "{fact}; {} of {}, taken for a plain one ({FLASH_CYCLES} cycles, {FLASH_AMPLIFICATION} bytes for one), \
         takes that for {} years",
        facts.name,
        size(bytes),
        if years >= 100.0 {
            "100 and more".to_owned()
        } else {
            format!("{years:.1}")
        }
    );
    let is_measured = facts.written.is_some_and(|(_, time)| time >= RUN_MIN);
    if years >= FLASH_YEARS_MIN {
        Finding::ok(&DISK_WEAR, fact)
    } else if is_measured {
        Finding::warn(
            &DISK_WEAR,
            fact,
            "a longer `group` in [log] (each sync writes some pages), or an industrial card or an SSD",
        )
    } else {
        // What an agent may write at the most is no measurement.
        Finding::skip(
            &DISK_WEAR,
            format!("{fact}: look again beside an agent that has run for 10 min"),
        )
    }
}

fn life(facts: &FlashFacts) -> Finding {
    let parts = facts.life_time.as_deref().unwrap_or_default();
    let worst = parts
        .split_whitespace()
        .filter_map(|part| u8::from_str_radix(part.trim_start_matches("0x"), 16).ok())
        .max()
        .filter(|worst| *worst > 0);
    let eol = facts.pre_eol.as_deref().unwrap_or_default();
    let eol = u8::from_str_radix(eol.trim_start_matches("0x"), 16).unwrap_or(0);
    let used = |worst: u8| {
        format!(
            "the eMMC says that up to {} % of its life are used",
            worst.min(11) * 10
        )
    };
    let advice = "plan to change it: it goes read-only at the end";
    match (worst, eol) {
        (None, 0) => Finding::skip(&DISK_LIFE, "the disk does not say how worn it is"),
        (Some(worst), _) if worst > 10 => Finding::fail(
            &DISK_LIFE,
            "the eMMC says that its life is over",
            "change it now",
        ),
        (_, 3..) => Finding::fail(
            &DISK_LIFE,
            "the eMMC has used up its spare blocks",
            "change it now",
        ),
        (_, 2) => Finding::warn(
            &DISK_LIFE,
            "the eMMC has used most of its spare blocks",
            advice,
        ),
        (Some(worst), _) if worst >= 9 => Finding::warn(&DISK_LIFE, used(worst), advice),
        (Some(worst), _) => Finding::ok(&DISK_LIFE, used(worst)),
        (None, _) => Finding::ok(&DISK_LIFE, "the eMMC has its spare blocks"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    fn times(us: u64) -> Result<SyncTimes, String> {
        let time = Duration::from_micros(us);
        Ok(SyncTimes {
            count: 1,
            median: time,
            p99: time,
            max: time,
        })
    }

    fn card() -> FlashFacts {
        FlashFacts {
            name: "mmcblk0".into(),
            medium: Medium::Card,
            bytes: Some(32_000_000_000),
            life_time: Some("0x01 0x02".into()),
            pre_eol: Some("0x01".into()),
            sync: times(4_000),
            mode: SyncMode::Group(Duration::from_millis(20)),
            written: Some((40_000_000, Duration::from_secs(3600))),
        }
    }

    type Change = fn(&mut FlashFacts);

    #[test]
    fn disks_of_all_kinds() {
        let rows: [(&str, Change, [Level; 3]); 18] = [
            ("usual", |_| {}, [Level::Ok; 3]),
            (
                "a card that is too fast",
                |f| f.sync = times(99),
                [Level::Warn, Level::Ok, Level::Ok],
            ),
            (
                "a card just slow enough",
                |f| f.sync = times(100),
                [Level::Ok; 3],
            ),
            (
                "a platter that is too fast",
                |f| {
                    f.medium = Medium::Platter;
                    f.sync = times(499);
                },
                [Level::Warn, Level::Skip, Level::Ok],
            ),
            (
                "a fast SSD",
                |f| {
                    f.medium = Medium::Solid;
                    f.sync = times(20);
                },
                [Level::Ok; 3],
            ),
            (
                "slow",
                |f| f.sync = times(200_001),
                [Level::Warn, Level::Ok, Level::Ok],
            ),
            (
                "as slow as it may",
                |f| f.sync = times(200_000),
                [Level::Ok; 3],
            ),
            (
                "not measured",
                |f| f.sync = Err("no".into()),
                [Level::Skip, Level::Ok, Level::Ok],
            ),
            (
                "no sync",
                |f| f.mode = SyncMode::None,
                [Level::Warn, Level::Ok, Level::Ok],
            ),
            (
                "much is written",
                |f| f.written = Some((20_000_000_000, Duration::from_secs(86_400))),
                [Level::Ok, Level::Warn, Level::Ok],
            ),
            (
                "an agent that has just started",
                |f| f.written = Some((1 << 30, RUN_MIN - Duration::from_secs(1))),
                [Level::Ok, Level::Skip, Level::Ok],
            ),
            (
                "no disk",
                |f| {
                    f.medium = Medium::Unknown;
                    f.bytes = None;
                },
                [Level::Ok, Level::Skip, Level::Ok],
            ),
            (
                "it says nothing",
                |f| {
                    f.life_time = None;
                    f.pre_eol = None;
                },
                [Level::Ok, Level::Ok, Level::Skip],
            ),
            (
                "90 %",
                |f| f.life_time = Some("0x09 0x01".into()),
                [Level::Ok, Level::Ok, Level::Warn],
            ),
            (
                "over",
                |f| f.life_time = Some("0x01 0x0b".into()),
                [Level::Ok, Level::Ok, Level::Fail],
            ),
            (
                "spare blocks used",
                |f| f.pre_eol = Some("0x02".into()),
                [Level::Ok, Level::Ok, Level::Warn],
            ),
            (
                "no spare block",
                |f| f.pre_eol = Some("0x03".into()),
                [Level::Ok, Level::Ok, Level::Fail],
            ),
            (
                "nonsense",
                |f| {
                    f.life_time = Some("x".into());
                    f.pre_eol = Some("-".into());
                },
                [Level::Ok, Level::Ok, Level::Skip],
            ),
        ];
        for (name, change, want) in rows {
            let mut facts = card();
            change(&mut facts);
            let found = judge(&facts);
            let levels: Vec<Level> = found.iter().map(|finding| finding.level).collect();
            assert_eq!(levels, want, "{name}: {found:?}");
        }
    }

    #[test]
    fn the_disk_of_a_partition_is_found() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("devices/mmc0/block/mmcblk0");
        fs::create_dir_all(disk.join("mmcblk0p2")).unwrap();
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("device")).unwrap();
        for (file, text) in [
            ("mmcblk0p2/partition", "2\n"),
            ("queue/rotational", "0\n"),
            ("size", "62333952\n"),
            ("device/life_time", "0x01 0x01\n"),
        ] {
            fs::write(disk.join(file), text).unwrap();
        }
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        let link = sys.path().join("dev/block/179:2");
        std::os::unix::fs::symlink(disk.join("mmcblk0p2"), link).unwrap();
        let facts = look(
            sys.path(),
            Some("179:2"),
            sys.path(),
            SyncMode::EveryBlock,
            None,
        );
        assert_eq!(
            (facts.name.as_str(), facts.medium),
            ("mmcblk0", Medium::Card)
        );
        assert_eq!(facts.bytes, Some(31_914_983_424));
        assert_eq!(facts.life_time.as_deref(), Some("0x01 0x01"));
        let none = look(
            sys.path(),
            Some("0:25"),
            sys.path(),
            SyncMode::EveryBlock,
            None,
        );
        assert_eq!((none.medium, none.bytes), (Medium::Unknown, None));
    }

    #[test]
    fn our_own_writes_are_told() {
        assert!(written_by(std::process::id()).is_some());
    }
}
