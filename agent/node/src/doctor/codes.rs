//! Every check that there is, in the order in which they are shown.

use std::fmt::Write as _;

use super::check::Check;

macro_rules! checks {
    ($($name:ident = $code:literal, $looks_at:literal, $advice:literal;)*) => {
        $(pub static $name: Check = Check { code: $code, looks_at: $looks_at, advice: $advice };)*
        /// All of them.
        pub static ALL: &[&Check] = &[$(&$name),*];
    };
}

checks! {
    CONFIG_PARSE = "config.parse",
        "the config reads, without a key that does not exist",
        "Mend the line that it names; `forebay config reference` shows every key.";
    CONFIG_FILES = "config.files",
        "the files that the config names are there and can be read by this user",
        "Make or mend the file, or correct its path.";
    CONFIG_SECRETS = "config.secrets",
        "passwords, keys and tokens can be read by their owner alone",
        "`chmod 600` the file that it names.";
    CONFIG_SOCKET = "config.socket",
        "the path of each local socket is short enough for the kernel",
        "Give a shorter `socket` in `[query]`, `[upstream]`, `[api]` or `[upstream_api]`.";
    DATA_DIR_EXISTS = "data_dir.exists",
        "the data directory is there, or can be made",
        "Make it, owned by the user that the agent runs as.";
    DATA_DIR_WRITABLE = "data_dir.writable",
        "this user may write to it, and nothing in it belongs to another user",
        "`chown -R` it to the user that the agent runs as.";
    DATA_DIR_READ_ONLY = "data_dir.read_only",
        "its file system is mounted for writing",
        "Remount it; a card that went read-only by itself is mostly worn out: `dmesg` says why.";
    DATA_DIR_FILE_SYSTEM = "data_dir.file_system",
        "it lies on a file system that keeps what was synced",
        "Move it to a local disk with ext4, xfs, btrfs or f2fs.";
    DATA_DIR_SPACE = "data_dir.space",
        "the disk has room for all quotas and the reserve",
        "Make room, or lower `quota` in `[[topic]]` or `reserve` in `[log]`.";
    DISK_FSYNC = "disk.fsync",
        "a synced write takes a time that fits the disk, neither seconds nor none",
        "Slow: another card or disk, or a longer `group` in `[log]`. Too fast: run `forebay selftest --power-cut=pull`.";
    DISK_WEAR = "disk.wear",
        "what the agent writes in a day fits what the flash takes in its life",
        "A longer `group` in `[log]`, or an industrial card or an SSD.";
    DISK_LIFE = "disk.life",
        "the eMMC says that it has life left",
        "Change the eMMC, or the gateway, before it goes read-only.";
    PORT_THERE = "port.there",
        "the device of each `[[device_port]]` is plugged in",
        "Plug it in, or correct `path`, `usb` or `address`; `ls -l /dev/serial/by-id` shows what is there.";
    PORT_ACCESS = "port.access",
        "this user may open it",
        "Add the user to the group of the port, or install config/60-forebay.rules.";
    PORT_HOLDER = "port.holder",
        "no other program has it open",
        "Stop that program.";
    PORT_LATENCY = "port.latency",
        "its USB adapter hands bytes on at once",
        "Install config/60-forebay.rules.";
    PORT_SUSPEND = "port.suspend",
        "the system does not put it to sleep",
        "`echo on` to its `power/control`, or a udev rule that does.";
    PORT_GRABBERS = "port.grabbers",
        "neither ModemManager nor brltty takes serial ports of boards",
        "Install config/60-forebay.rules, and remove brltty where nobody needs it.";
    CLOCK_YEAR = "clock.year",
        "the clock was set at all",
        "Set it: `sudo timedatectl set-ntp true`, or a battery for the real-time clock.";
    CLOCK_SYNCED = "clock.synchronised",
        "the kernel says that something keeps the clock right, and how far it may be off",
        "Install and start chrony or systemd-timesyncd, and let it reach a time server.";
    CLOCK_RTC = "clock.rtc",
        "there is a real-time clock with a time that makes sense",
        "Without one the clock is wrong after each boot until the network is up; readings wait for it.";
    BROKER_FILES = "broker.files",
        "certificates, keys and passwords for each broker can be used",
        "Mend the file that it names.";
    BROKER_NAME = "broker.name",
        "the name of each broker has an address",
        "See to the network and to DNS, or give the address.";
    BROKER_TCP = "broker.tcp",
        "the broker's port answers",
        "See to the network, the firewall, and whether the broker runs.";
    BROKER_TLS = "broker.tls",
        "TLS comes about, with a certificate that holds for the name",
        "As it says; `ca_file`, `server_name`, `cert_file` and `key_file` are the keys.";
    BROKER_MQTT = "broker.mqtt",
        "the broker takes a client with this user, under another client id than the agent's",
        "As it says; `username`, `password_file`, `protocol` are the keys.";
    BROKER_CERTIFICATE = "broker.certificate",
        "neither the broker's certificate nor ours ends soon",
        "Have it renewed; the agent takes a new file by itself.";
    DATABASE_ANSWERS = "database.answers",
        "each `[[database]]` takes us, is new enough and logs for replication",
        "As it says: agent/node/docs/tables-postgres.md.";
    DATABASE_SLOT = "database.slot",
        "its replication slot is there, ours and not lost",
        "The agent makes a slot that is missing; drop one that is lost.";
    SINK_ANSWERS = "sink.answers",
        "the PostgreSQL of a receiver takes us, over TLS where it should, is new enough and takes writes",
        "As it says; `[postgres]` has the keys: agent/node/docs/postgres.md.";
    SINK_TABLES = "sink.tables",
        "our role may make the receiver's tables there, or write those that there are",
        "Let an administrator run the statements that it names.";
    API_LISTEN = "api.listen",
        "the address of `[api]` is free, or is the agent's; that of `[upstream_api]` the receiver's",
        "Stop what has it, or give another `listen`.";
    API_TOKEN = "api.token",
        "the token of `[api]` or `[upstream_api]` is there and not empty",
        "Write a long random line: `openssl rand -hex 32 > FILE`.";
    SYSTEM_FILES = "system.files",
        "the process may open enough files",
        "Raise it: `LimitNOFILE=` in the service, or `ulimit -n`.";
    SYSTEM_MEMORY = "system.memory",
        "there is memory for the agent",
        "Stop other programs, or give the container more.";
    SYSTEM_PTY = "system.pty",
        "the kernel gives ptys, which demo, simulated devices and self-test need",
        "Mount devpts; an agent with real ports works without.";
    SYSTEM_VERSION = "system.version",
        "which program, kernel and processor these are",
        "Nothing to do: it helps whoever is asked for help.";
    AGENT_RUNNING = "agent.running",
        "an agent runs on the data directory and answers",
        "Start it: `forebay run --config FILE`; `journalctl` says why it ended.";
    AGENT_HEALTH = "agent.health",
        "the running agent says that it is well",
        "As its alarms say: `forebay alarms`.";
    AGENT_ALARMS = "agent.alarms",
        "the running agent has no alarm up",
        "The runbook has a section for each: agent/node/docs/alarms.md.";
}

/// The list as a table of Markdown, as it stands in the docs.
#[must_use]
pub fn list() -> String {
    let mut text = String::from("| code | whether | when not |\n|---|---|---|\n");
    for check in ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            check.code, check.looks_at, check.advice
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_named_by_their_area() {
        let codes: BTreeSet<&str> = ALL.iter().map(|check| check.code).collect();
        assert_eq!(codes.len(), ALL.len());
        for check in ALL {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            let (area, name) = check.code.split_once('.').unwrap();
            assert!(
                area.chars().all(plain) && name.chars().all(plain),
                "{}",
                check.code
            );
            assert!(check.advice.ends_with('.'), "{}", check.code);
        }
    }

    #[test]
    fn the_page_has_the_list() {
        let page = include_str!("../../docs/doctor.md");
        assert!(
            page.contains(&list()),
            "agent/node/docs/doctor.md is not true any more: put this in it, as `forebay doctor \
             --list` prints it\n{}",
            list()
        );
    }
}
