//! Whether the data directory is one in which a log can live.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use forebay_core::retention::{FIXED_TOPICS, default_policy};
use rustix::fs::Access;

use super::check::Finding;
use super::codes::{
    DATA_DIR_EXISTS, DATA_DIR_FILE_SYSTEM, DATA_DIR_READ_ONLY, DATA_DIR_SPACE, DATA_DIR_WRITABLE,
};
use super::host::{Me, may, text, user_name};
use super::running::is_receiver;
use crate::config::Config;

/// A line of /proc/self/mountinfo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) point: PathBuf,
    pub(super) kind: String,
    pub(super) read_only: bool,
    /// Major and minor number of the device, as the kernel writes them.
    pub(super) device: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DataDirFacts {
    pub(super) dir: PathBuf,
    /// The directory, or the nearest above it that is there.
    pub(super) nearest: PathBuf,
    /// What is in its place, if that is no directory.
    pub(super) is_other: bool,
    pub(super) me: Me,
    /// Of the nearest.
    pub(super) owner: String,
    pub(super) writable: bool,
    /// Something in it that belongs to another user than itself.
    pub(super) strange: Option<(PathBuf, String)>,
    pub(super) mount: Option<Mount>,
    pub(super) free_bytes: u64,
    pub(super) disk_bytes: u64,
    pub(super) free_inodes: Option<u64>,
    /// Bytes of the log that is there.
    pub(super) used_bytes: u64,
    pub(super) quota_bytes: u64,
    pub(super) reserve_bytes: u64,
}

pub(super) fn look(config: &Config) -> DataDirFacts {
    let dir = std::path::absolute(&config.agent.data_dir);
    let dir = dir.unwrap_or_else(|_| config.agent.data_dir.clone());
    let nearest = dir
        .ancestors()
        .find(|folder| folder.is_dir())
        .unwrap_or(Path::new("/"));
    let nearest = nearest.to_owned();
    let me = Me::find();
    let space = rustix::fs::statvfs(&nearest).ok();
    let blocks = |count: u64| {
        space
            .as_ref()
            .map_or(0, |s| count.saturating_mul(s.f_frsize))
    };
    DataDirFacts {
        is_other: dir != nearest && fs::symlink_metadata(&dir).is_ok(),
        owner: fs::metadata(&nearest).map_or_else(|_| "?".to_owned(), |m| user_name(m.uid())),
        writable: may(&nearest, Access::WRITE_OK | Access::EXEC_OK),
        strange: strange(&dir),
        mount: mount_of(&nearest),
        free_bytes: blocks(space.as_ref().map_or(0, |s| s.f_bavail)),
        disk_bytes: blocks(space.as_ref().map_or(0, |s| s.f_blocks)),
        free_inodes: space.as_ref().filter(|s| s.f_files > 0).map(|s| s.f_favail),
        used_bytes: bytes_below(&dir.join("log")),
        // A receiver keeps all that comes.
        quota_bytes: match is_receiver(config) {
            true => 0,
            false => quotas(config),
        },
        reserve_bytes: config.log.space.reserve_bytes,
        me,
        dir,
        nearest,
    }
}

/// Sum of the quotas of all topics.
fn quotas(config: &Config) -> u64 {
    let windows = config
        .engine
        .windows
        .iter()
        .map(|window| window.name.as_str());
    let joins = config.engine.joins.iter().map(|join| join.name.as_str());
    let quota = |name: &str| match config.log.space.topics.get(name) {
        Some(policy) => policy.quota_bytes,
        None => default_policy(name).quota_bytes,
    };
    let names = FIXED_TOPICS.into_iter().chain(windows).chain(joins);
    names.map(quota).fold(0, u64::saturating_add)
}

/// The folder itself and what stands in it and in its folders: two levels.
fn below(dir: &Path) -> Vec<PathBuf> {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let first = list(dir);
    let second = first.iter().flat_map(|path| list(path)).collect::<Vec<_>>();
    first.into_iter().chain(second).collect()
}

fn bytes_below(dir: &Path) -> u64 {
    let sizes = below(dir)
        .into_iter()
        .filter_map(|path| fs::symlink_metadata(path).ok());
    // A file that is not full takes its blocks only.
    sizes.map(|found| found.blocks().saturating_mul(512)).sum()
}

/// What belongs to another user than the directory itself does: left by a start as root.
fn strange(dir: &Path) -> Option<(PathBuf, String)> {
    let owner = fs::metadata(dir).ok()?.uid();
    let names = ["lock", "ballast", "meta", "log", "quarantine"];
    let mut paths: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    paths.extend(below(&dir.join("log")));
    paths.into_iter().find_map(|path| {
        let other = fs::symlink_metadata(&path).ok()?.uid();
        (other != owner).then(|| (path, user_name(other)))
    })
}

/// The mount that holds a path.
pub(super) fn mount_of(path: &Path) -> Option<Mount> {
    let path = fs::canonicalize(path).ok()?;
    find_mount(&text("/proc/self/mountinfo")?, &path)
}

fn find_mount(text: &str, path: &Path) -> Option<Mount> {
    let mounts = text.lines().filter_map(parse_mount);
    let holds = mounts.filter(|mount| path.starts_with(&mount.point));
    // Of two at one place the later one is seen.
    holds.max_by_key(|mount| mount.point.components().count())
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/root rw`
fn parse_mount(line: &str) -> Option<Mount> {
    let (first, second) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(2);
    let device = first.next()?.to_owned();
    let point = unescape(first.nth(1)?);
    let options = first.next()?;
    let mut second = second.split(' ');
    let kind = second.next()?.to_owned();
    let of_disk = second.nth(1).unwrap_or_default();
    let is_ro = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        point: PathBuf::from(point),
        kind,
        read_only: is_ro(options) || is_ro(of_disk),
        device,
    })
}

/// Spaces stand as `\040`.
fn unescape(text: &str) -> String {
    let codes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    codes
        .iter()
        .fold(text.to_owned(), |text, (code, is)| text.replace(code, is))
}

pub(super) fn judge(facts: &DataDirFacts) -> Vec<Finding> {
    let mut findings = vec![exists(facts)];
    if facts.is_other {
        return findings;
    }
    findings.extend([
        writable(facts),
        read_only(facts),
        file_system(facts),
        space(facts),
    ]);
    findings
}

fn exists(facts: &DataDirFacts) -> Finding {
    let dir = facts.dir.display();
    if facts.is_other {
        let advice = "move it away, or give another `data_dir`";
        return Finding::fail(
            &DATA_DIR_EXISTS,
            format!("{dir} is there and is no directory"),
            advice,
        );
    }
    if facts.dir == facts.nearest {
        return Finding::ok(
            &DATA_DIR_EXISTS,
            format!("{dir} is there, owned by {}", facts.owner),
        );
    }
    if facts.writable {
        return Finding::ok(
            &DATA_DIR_EXISTS,
            format!(
                "{dir} is not there yet: the first start makes it in {}",
                facts.nearest.display()
            ),
        );
    }
    let user = &facts.me.user;
    Finding::fail(
        &DATA_DIR_EXISTS,
        format!(
            "{dir} is not there, and {user} may not make it in {}",
            facts.nearest.display()
        ),
        format!("sudo install -d -o {user} -m 700 {dir}"),
    )
}

fn writable(facts: &DataDirFacts) -> Finding {
    let (dir, user) = (facts.nearest.display(), &facts.me.user);
    if let Some((path, owner)) = &facts.strange {
        let mend = format!("sudo chown -R {} {}", facts.owner, facts.dir.display());
        let text = format!(
            "{} belongs to {owner}, and the directory to {}: an agent was started as another user",
            path.display(),
            facts.owner
        );
        return Finding::fail(&DATA_DIR_WRITABLE, text, mend);
    }
    if facts.writable {
        return Finding::ok(&DATA_DIR_WRITABLE, format!("{user} may write to {dir}"));
    }
    if facts.dir != facts.nearest {
        return Finding::skip(&DATA_DIR_WRITABLE, "it is not there");
    }
    Finding::fail(
        &DATA_DIR_WRITABLE,
        format!("{user} may not write to {dir}, which is {}'s", facts.owner),
        format!(
            "run this check as the user that the agent runs as (sudo -u {}), or: sudo chown -R {user} {dir}",
            facts.owner
        ),
    )
}

fn read_only(facts: &DataDirFacts) -> Finding {
    match &facts.mount {
        None => Finding::skip(&DATA_DIR_READ_ONLY, "the kernel does not show its mounts"),
        Some(mount) if mount.read_only => Finding::fail(
            &DATA_DIR_READ_ONLY,
            format!("{} is mounted read-only", mount.point.display()),
            format!(
                "sudo mount -o remount,rw {}; when it went read-only by itself, `dmesg` says why and the \
                 card is mostly worn out",
                mount.point.display()
            ),
        ),
        Some(mount) => Finding::ok(
            &DATA_DIR_READ_ONLY,
            format!("{} is mounted for writing", mount.point.display()),
        ),
    }
}

fn file_system(facts: &DataDirFacts) -> Finding {
    let Some(mount) = &facts.mount else {
        return Finding::skip(&DATA_DIR_FILE_SYSTEM, "the kernel does not show its mounts");
    };
    let kind = mount.kind.as_str();
    let local = "move data_dir to a local disk with ext4, xfs, btrfs or f2fs";
    match kind {
        "tmpfs" | "ramfs" | "rootfs" => Finding::fail(
            &DATA_DIR_FILE_SYSTEM,
            format!("{kind}: it is in memory, and a power cut takes all that was acked"),
            local,
        ),
        "vfat" | "exfat" | "msdos" | "ntfs" | "ntfs3" | "fuseblk" => Finding::fail(
            &DATA_DIR_FILE_SYSTEM,
            format!("{kind}: it takes no sockets and no rights, and knows no journal"),
            "format the card or disk with ext4",
        ),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "vboxsf" | "virtiofs" | "fuse.sshfs" => {
            Finding::warn(
                &DATA_DIR_FILE_SYSTEM,
                format!("{kind}: it is another machine's, and stands still when that does"),
                local,
            )
        }
        "overlay" | "aufs" => Finding::warn(
            &DATA_DIR_FILE_SYSTEM,
            format!("{kind}: it is a layer of a container, and goes with it"),
            "give the container a volume for data_dir",
        ),
        _ => Finding::ok(
            &DATA_DIR_FILE_SYSTEM,
            format!("{kind} at {}", mount.point.display()),
        ),
    }
}

fn space(facts: &DataDirFacts) -> Finding {
    let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let (free, used) = (facts.free_bytes, facts.used_bytes);
    let (quota, reserve) = (facts.quota_bytes, facts.reserve_bytes);
    let fact = match quota {
        0 => format!("{} free", gb(free)),
        _ => format!(
            "{} free, {} used by the log; all quotas come to {}, and {} stay free",
            gb(free),
            gb(used),
            gb(quota),
            gb(reserve)
        ),
    };
    if facts.free_inodes == Some(0) {
        let advice = "remove files: `df -i` shows which disk";
        return Finding::fail(
            &DATA_DIR_SPACE,
            "no more files can be made: no inode is free",
            advice,
        );
    }
    if free < reserve {
        return Finding::fail(
            &DATA_DIR_SPACE,
            format!(
                "{fact}: the disk is fuller than the reserve allows, so old records go, or new ones wait"
            ),
            "make room, or lower `reserve` in [log]",
        );
    }
    if free.saturating_add(used) < quota.saturating_add(reserve) {
        return Finding::warn(
            &DATA_DIR_SPACE,
            format!("{fact}: the disk is full before the quotas are, and then the oldest go first"),
            "lower `quota` in [[topic]], or give a larger disk",
        );
    }
    Finding::ok(&DATA_DIR_SPACE, fact)
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    fn usual() -> DataDirFacts {
        DataDirFacts {
            dir: "/var/lib/forebay".into(),
            nearest: "/var/lib/forebay".into(),
            me: Me {
                user: "forebay".into(),
                uid: 990,
            },
            owner: "forebay".into(),
            writable: true,
            mount: Some(Mount {
                point: "/".into(),
                kind: "ext4".into(),
                ..Mount::default()
            }),
            free_bytes: 100,
            disk_bytes: 200,
            quota_bytes: 80,
            reserve_bytes: 20,
            ..DataDirFacts::default()
        }
    }

    type Change = fn(&mut DataDirFacts);

    #[test]
    fn directories_of_all_kinds() {
        let rows: [(&str, Change, &str, Level); 17] = [
            ("usual", |_| {}, "data_dir.space", Level::Ok),
            (
                "a file",
                |f| {
                    f.is_other = true;
                    f.nearest = "/".into();
                },
                "data_dir.exists",
                Level::Fail,
            ),
            (
                "to be made",
                |f| f.nearest = "/var/lib".into(),
                "data_dir.exists",
                Level::Ok,
            ),
            (
                "cannot be made",
                |f| {
                    f.nearest = "/var/lib".into();
                    f.writable = false;
                },
                "data_dir.exists",
                Level::Fail,
            ),
            (
                "another's",
                |f| f.writable = false,
                "data_dir.writable",
                Level::Fail,
            ),
            (
                "started as root once",
                |f| f.strange = Some(("/x".into(), "root".into())),
                "data_dir.writable",
                Level::Fail,
            ),
            (
                "read-only",
                |f| {
                    if let Some(m) = &mut f.mount {
                        m.read_only = true
                    }
                },
                "data_dir.read_only",
                Level::Fail,
            ),
            (
                "memory",
                |f| {
                    if let Some(m) = &mut f.mount {
                        m.kind = "tmpfs".into()
                    }
                },
                "data_dir.file_system",
                Level::Fail,
            ),
            (
                "a stick",
                |f| {
                    if let Some(m) = &mut f.mount {
                        m.kind = "vfat".into()
                    }
                },
                "data_dir.file_system",
                Level::Fail,
            ),
            (
                "a share",
                |f| {
                    if let Some(m) = &mut f.mount {
                        m.kind = "nfs4".into()
                    }
                },
                "data_dir.file_system",
                Level::Warn,
            ),
            (
                "a container",
                |f| {
                    if let Some(m) = &mut f.mount {
                        m.kind = "overlay".into()
                    }
                },
                "data_dir.file_system",
                Level::Warn,
            ),
            (
                "no mounts",
                |f| f.mount = None,
                "data_dir.read_only",
                Level::Skip,
            ),
            (
                "space-1",
                |f| f.free_bytes = 99,
                "data_dir.space",
                Level::Warn,
            ),
            (
                "space with what is used",
                |f| {
                    f.free_bytes = 60;
                    f.used_bytes = 40;
                },
                "data_dir.space",
                Level::Ok,
            ),
            (
                "reserve",
                |f| f.free_bytes = 20,
                "data_dir.space",
                Level::Warn,
            ),
            (
                "reserve-1",
                |f| f.free_bytes = 19,
                "data_dir.space",
                Level::Fail,
            ),
            (
                "no inode",
                |f| f.free_inodes = Some(0),
                "data_dir.space",
                Level::Fail,
            ),
        ];
        for (name, change, code, want) in rows {
            let mut facts = usual();
            change(&mut facts);
            let found = judge(&facts);
            let of_code = found.iter().find(|finding| finding.check.code == code);
            assert_eq!(
                of_code.map(|finding| finding.level),
                Some(want),
                "{name}: {found:?}"
            );
        }
    }

    #[test]
    fn the_mount_that_holds_a_path() {
        let text = "22 1 179:2 / / rw,noatime shared:1 - ext4 /dev/root rw\n\
                    30 22 0:25 / /tmp rw - tmpfs tmpfs rw\n\
                    31 22 8:1 / /mnt/my\\040card ro,noatime - ext4 /dev/sda1 rw\n\
                    32 22 8:2 / /mnt/worn rw - ext4 /dev/sda2 ro,errors=remount-ro\n\
                    broken\n";
        for (path, kind, read_only) in [
            ("/var/lib/forebay", "ext4", false),
            ("/tmp/x", "tmpfs", false),
            ("/tmpx", "ext4", false),
            ("/mnt/my card/data", "ext4", true),
            ("/mnt/worn", "ext4", true),
        ] {
            let mount = find_mount(text, Path::new(path)).unwrap();
            assert_eq!(
                (mount.kind.as_str(), mount.read_only),
                (kind, read_only),
                "{path}"
            );
        }
        assert_eq!(find_mount("", Path::new("/")), None);
    }
}
