//! Whether each port of the config can be used, and who gets in its way.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::check::Finding;
use super::codes::{
    PORT_ACCESS, PORT_GRABBERS, PORT_HOLDER, PORT_LATENCY, PORT_SUSPEND, PORT_THERE,
};
use super::host::{Me, group_name, may, processes};
use super::limits::CONNECT_MAX;
use crate::config::DevicePort;
use crate::ports::limits::LATENCY_GOOD_MS;
use crate::ports::look::{TtyLook, holder_of, look_at, usb_ttys};

const RULES: &str = "60-forebay.rules";
const RULES_FOLDERS: [&str; 4] = [
    "/etc/udev/rules.d",
    "/run/udev/rules.d",
    "/usr/local/lib/udev/rules.d",
    "/usr/lib/udev/rules.d",
];
const INSTALL: &str = "sudo cp config/60-forebay.rules /etc/udev/rules.d/ && sudo udevadm control --reload \
                       && sudo udevadm trigger";

/// The device file of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) path: PathBuf,
    pub(super) is_device: bool,
    pub(super) mode: u32,
    pub(super) group: String,
    pub(super) may_open: bool,
    pub(super) holder: Option<(u32, String)>,
    pub(super) tty: Option<TtyLook>,
}

/// Where a port of the config leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    Nodes(Vec<Node>),
    /// Nothing is there; boards that are.
    Nothing(Vec<String>),
    /// A TCP address: it answers, or why it does not; `None`: the agent has it.
    Tcp(Option<Result<(), String>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortFacts {
    /// As the config has it.
    pub(super) place: String,
    pub(super) way: Way,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortsFacts {
    pub(super) me: Me,
    pub(super) agent: Option<u32>,
    pub(super) ports: Vec<PortFacts>,
    /// Of ModemManager and brltty, those that run.
    pub(super) grabbers: Vec<String>,
    pub(super) has_rules: bool,
}

pub(super) fn look(ports: &[DevicePort], agent: Option<u32>, sys: &Path, dev: &Path) -> PortsFacts {
    let boards = usb_ttys(sys).unwrap_or_default();
    let running = processes();
    let grabbers = ["ModemManager", "brltty"].into_iter();
    PortsFacts {
        me: Me::find(),
        agent,
        ports: ports
            .iter()
            .map(|port| look_at_port(port, agent, &boards, (sys, dev)))
            .collect(),
        grabbers: grabbers
            .filter(|name| running.iter().any(|process| process == name))
            .map(str::to_owned)
            .collect(),
        has_rules: RULES_FOLDERS
            .iter()
            .any(|folder| Path::new(folder).join(RULES).exists()),
    }
}

fn look_at_port(
    port: &DevicePort,
    agent: Option<u32>,
    boards: &[TtyLook],
    (sys, dev): (&Path, &Path),
) -> PortFacts {
    let seen = || {
        boards
            .iter()
            .filter_map(|tty| Some(tty.usb.as_ref()?.config_text()))
            .collect()
    };
    match port {
        DevicePort::Serial { path, .. } => PortFacts {
            place: path.display().to_string(),
            way: match node(path, sys) {
                Some(node) => Way::Nodes(vec![node]),
                None => Way::Nothing(seen()),
            },
        },
        DevicePort::Usb { usb, all, .. } => {
            let matching = boards
                .iter()
                .filter(|tty| tty.usb.as_ref().is_some_and(|id| usb.matches(id)));
            let nodes = matching.take(if *all { usize::MAX } else { 1 });
            let nodes: Vec<Node> = nodes
                .filter_map(|tty| node(&dev.join(&tty.name), sys))
                .collect();
            PortFacts {
                place: format!("usb {usb}"),
                way: if nodes.is_empty() {
                    Way::Nothing(seen())
                } else {
                    Way::Nodes(nodes)
                },
            }
        }
        DevicePort::Tcp { address } => PortFacts {
            place: address.clone(),
            // A device may take one peer only, and that is the agent's place.
            way: Way::Tcp(agent.is_none().then(|| connect(address))),
        },
    }
}

fn node(path: &Path, sys: &Path) -> Option<Node> {
    let found = fs::metadata(path).ok()?;
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = real.file_name()?.to_string_lossy().into_owned();
    Some(Node {
        is_device: found.file_type().is_char_device(),
        mode: found.permissions().mode() & 0o777,
        group: group_name(found.gid()),
        may_open: may(path, Access::READ_OK | Access::WRITE_OK),
        holder: holder_of(path),
        tty: sys
            .join("class/tty")
            .join(&name)
            .exists()
            .then(|| look_at(sys, &name)),
        path: path.to_owned(),
    })
}

fn connect(address: &str) -> Result<(), String> {
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())?;
    let first = addresses.next().ok_or("the name has no address")?;
    TcpStream::connect_timeout(&first, CONNECT_MAX).map_err(|error| error.to_string())?;
    Ok(())
}

pub(super) fn judge(facts: &PortsFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for port in &facts.ports {
        match &port.way {
            Way::Nodes(nodes) => {
                for node in nodes {
                    findings.extend(
                        judge_node(facts, node)
                            .into_iter()
                            .map(|found| found.of(&port.place)),
                    );
                }
            }
            Way::Nothing(seen) => findings.push(nothing(seen).of(&port.place)),
            Way::Tcp(answer) => findings.push(tcp(answer.as_ref()).of(&port.place)),
        }
    }
    if facts.ports.is_empty() {
        findings.push(Finding::skip(
            &PORT_THERE,
            "the config has no [[device_port]]",
        ));
    }
    findings.push(grabbers(facts));
    findings
}

fn nothing(seen: &[String]) -> Finding {
    let boards = if seen.is_empty() {
        "no board is on USB".to_owned()
    } else {
        format!("boards on USB: {}", seen.join(", "))
    };
    Finding::warn(
        &PORT_THERE,
        format!("is not there; {boards}"),
        "plug it in, or correct the config; a container must be given its devices",
    )
}

fn tcp(answer: Option<&Result<(), String>>) -> Finding {
    match answer {
        None => Finding::skip(
            &PORT_THERE,
            "not tried: the running agent has its connection",
        ),
        Some(Ok(())) => Finding::ok(&PORT_THERE, "answers"),
        Some(Err(why)) => Finding::warn(
            &PORT_THERE,
            format!("does not answer: {why}"),
            "see to the device, the network and the port's number",
        ),
    }
}

fn judge_node(facts: &PortsFacts, node: &Node) -> Vec<Finding> {
    let path = node.path.display();
    if !node.is_device {
        let text = format!("{path} is there and is no device");
        return vec![Finding::fail(&PORT_THERE, text, "correct `path`")];
    }
    let mut findings = vec![
        Finding::ok(&PORT_THERE, format!("{path} is there")),
        access(facts, node),
    ];
    findings.push(match &node.holder {
        None => Finding::ok(&PORT_HOLDER, "nobody has it open"),
        Some((pid, _)) if Some(*pid) == facts.agent => {
            Finding::ok(&PORT_HOLDER, "the running agent has it open")
        }
        Some((pid, name)) => Finding::fail(
            &PORT_HOLDER,
            format!("process {pid} ({name}) has it open"),
            format!(
                "stop it: `sudo systemctl stop {name}` where it is a service, or end the program"
            ),
        ),
    });
    let Some(tty) = &node.tty else {
        return findings;
    };
    if let Some(held) = tty.latency_ms {
        findings.push(latency(&tty.name, held));
    }
    match &tty.sleep {
        Some((control, true)) => findings.push(Finding::warn(
            &PORT_SUSPEND,
            "the system may put it to sleep when it is silent, and some boards do not wake up",
            format!("echo on | sudo tee {}", control.display()),
        )),
        Some((_, false)) => findings.push(Finding::ok(
            &PORT_SUSPEND,
            "the system does not put it to sleep",
        )),
        None => {}
    }
    findings
}

fn access(facts: &PortsFacts, node: &Node) -> Finding {
    let (user, group) = (&facts.me.user, &node.group);
    if node.may_open {
        return Finding::ok(&PORT_ACCESS, format!("{user} may open it"));
    }
    let text = format!(
        "{user} may not open {} (group {group}, {:04o})",
        node.path.display(),
        node.mode
    );
    // A group may only help where it has the rights, and is one for people.
    if node.mode & 0o060 == 0o060 && group != "root" {
        let mend =
            format!("sudo usermod -aG {group} {user}, then log in anew or restart the service");
        return Finding::fail(&PORT_ACCESS, text, mend);
    }
    let mend = format!("{INSTALL}, then: sudo usermod -aG dialout {user}");
    Finding::fail(&PORT_ACCESS, text, mend)
}

fn latency(tty: &str, held_ms: u32) -> Finding {
    if held_ms <= LATENCY_GOOD_MS {
        return Finding::ok(
            &PORT_LATENCY,
            format!("its adapter holds bytes back for {held_ms} ms at most"),
        );
    }
    Finding::warn(
        &PORT_LATENCY,
        format!(
            "its adapter holds bytes back for up to {held_ms} ms, which is an error of every time"
        ),
        format!(
            "{INSTALL}, or at once: echo 1 | sudo tee /sys/class/tty/{tty}/device/latency_timer"
        ),
    )
}

fn grabbers(facts: &PortsFacts) -> Finding {
    let rules = if facts.has_rules {
        "the udev rules are installed"
    } else {
        "the udev rules are not installed"
    };
    match facts.grabbers.as_slice() {
        [] => Finding::ok(
            &PORT_GRABBERS,
            format!("neither ModemManager nor brltty runs; {rules}"),
        ),
        [one] if one == "ModemManager" && facts.has_rules => Finding::ok(
            &PORT_GRABBERS,
            format!(
                "ModemManager runs and {rules}, which keep it away from the boards that they name"
            ),
        ),
        all if all.iter().any(|name| name == "brltty") => Finding::warn(
            &PORT_GRABBERS,
            format!(
                "{} runs: it takes adapters with chips of CP210x and CH34x for braille displays",
                all.join(" and ")
            ),
            "where nobody needs it: sudo apt remove brltty",
        ),
        all => Finding::warn(
            &PORT_GRABBERS,
            format!(
                "{} runs and {rules}: it writes into every port that is plugged in",
                all.join(" and ")
            ),
            INSTALL,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;

    fn node_of() -> Node {
        Node {
            path: "/dev/ttyUSB0".into(),
            is_device: true,
            mode: 0o660,
            group: "dialout".into(),
            may_open: true,
            holder: None,
            tty: Some(TtyLook {
                name: "ttyUSB0".into(),
                usb: None,
                latency_ms: Some(1),
                sleep: Some(("/sys/x/power/control".into(), false)),
            }),
        }
    }

    fn facts(way: Way) -> PortsFacts {
        PortsFacts {
            me: Me {
                user: "pi".into(),
                uid: 1000,
            },
            agent: Some(7),
            ports: vec![PortFacts {
                place: "p".into(),
                way,
            }],
            has_rules: true,
            ..PortsFacts::default()
        }
    }

    type Change = fn(&mut Node);

    #[test]
    fn ports_of_all_kinds() {
        let rows: [(&str, Change, &str, Level, &str); 11] = [
            ("usual", |_| {}, "port.access", Level::Ok, ""),
            (
                "a file",
                |n| n.is_device = false,
                "port.there",
                Level::Fail,
                "correct",
            ),
            (
                "not in the group",
                |n| n.may_open = false,
                "port.access",
                Level::Fail,
                "sudo usermod -aG dialout pi",
            ),
            (
                "another group",
                |n| {
                    n.may_open = false;
                    n.group = "uucp".into();
                },
                "port.access",
                Level::Fail,
                "-aG uucp pi",
            ),
            (
                "root's",
                |n| {
                    n.may_open = false;
                    n.group = "root".into();
                },
                "port.access",
                Level::Fail,
                "60-forebay.rules",
            ),
            (
                "no right for the group",
                |n| {
                    n.may_open = false;
                    n.mode = 0o600;
                },
                "port.access",
                Level::Fail,
                "60-forebay.rules",
            ),
            (
                "ours",
                |n| n.holder = Some((7, "forebay".into())),
                "port.holder",
                Level::Ok,
                "",
            ),
            (
                "another's",
                |n| n.holder = Some((8, "screen".into())),
                "port.holder",
                Level::Fail,
                "stop it",
            ),
            (
                "an FTDI chip",
                |n| {
                    if let Some(t) = &mut n.tty {
                        t.latency_ms = Some(LATENCY_GOOD_MS + 1)
                    }
                },
                "port.latency",
                Level::Warn,
                "latency_timer",
            ),
            (
                "a good chip",
                |n| {
                    if let Some(t) = &mut n.tty {
                        t.latency_ms = Some(LATENCY_GOOD_MS)
                    }
                },
                "port.latency",
                Level::Ok,
                "",
            ),
            (
                "sleepy",
                |n| {
                    if let Some(t) = &mut n.tty {
                        t.sleep = Some(("/sys/x/power/control".into(), true))
                    }
                },
                "port.suspend",
                Level::Warn,
                "tee /sys/x/power/control",
            ),
        ];
        for (name, change, code, want, advice) in rows {
            let mut node = node_of();
            change(&mut node);
            let found = judge(&facts(Way::Nodes(vec![node])));
            let of_code = found
                .iter()
                .find(|finding| finding.check.code == code)
                .unwrap();
            assert_eq!(
                (of_code.level, of_code.about.as_str()),
                (want, "p"),
                "{name}: {found:?}"
            );
            assert!(
                of_code.advice.contains(advice),
                "{name}: {}",
                of_code.advice
            );
        }
        let mut bare = node_of();
        bare.tty = None;
        assert_eq!(
            judge(&facts(Way::Nodes(vec![bare]))).len(),
            4,
            "a pty has no driver to ask"
        );
    }

    #[test]
    fn what_is_not_there_or_over_tcp() {
        for (name, way, want) in [
            ("nothing", Way::Nothing(vec![]), Level::Warn),
            (
                "others",
                Way::Nothing(vec!["2e8a:000a".into()]),
                Level::Warn,
            ),
            ("answers", Way::Tcp(Some(Ok(()))), Level::Ok),
            (
                "does not",
                Way::Tcp(Some(Err("refused".into()))),
                Level::Warn,
            ),
            ("the agent's", Way::Tcp(None), Level::Skip),
        ] {
            assert_eq!(judge(&facts(way))[0].level, want, "{name}");
        }
        assert_eq!(
            judge(&PortsFacts::default())[0].level,
            Level::Skip,
            "no port"
        );
    }

    #[test]
    fn who_takes_ports() {
        for (name, grabbers, has_rules, want) in [
            ("nobody", &[][..], false, Level::Ok),
            ("ModemManager and rules", &["ModemManager"], true, Level::Ok),
            ("ModemManager", &["ModemManager"], false, Level::Warn),
            ("brltty", &["brltty"], true, Level::Warn),
            ("both", &["ModemManager", "brltty"], true, Level::Warn),
        ] {
            let facts = PortsFacts {
                grabbers: grabbers.iter().map(|name| (*name).to_owned()).collect(),
                has_rules,
                ..PortsFacts::default()
            };
            assert_eq!(super::grabbers(&facts).level, want, "{name}");
        }
    }

    #[test]
    fn a_usb_board_is_found_in_a_tree_as_the_kernel_has_it() {
        let sys = tempfile::tempdir().unwrap();
        let usb = sys.path().join("devices/pci0/usb1/1-2");
        let tty = usb.join("1-2:1.0/ttyUSB0/tty/ttyUSB0");
        fs::create_dir_all(&tty).unwrap();
        fs::create_dir_all(usb.join("power")).unwrap();
        for (file, text) in [
            ("idVendor", "0403\n"),
            ("idProduct", "6001\n"),
            ("power/control", "auto\n"),
            ("1-2:1.0/bInterfaceNumber", "00\n"),
            ("1-2:1.0/ttyUSB0/latency_timer", "16\n"),
        ] {
            fs::write(usb.join(file), text).unwrap();
        }
        std::os::unix::fs::symlink("../../", tty.join("device")).unwrap();
        fs::create_dir_all(sys.path().join("class/tty")).unwrap();
        let link = sys.path().join("class/tty/ttyUSB0");
        std::os::unix::fs::symlink(
            "../../devices/pci0/usb1/1-2/1-2:1.0/ttyUSB0/tty/ttyUSB0",
            link,
        )
        .unwrap();
        let found = usb_ttys(sys.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].latency_ms, Some(16));
        let control = usb.canonicalize().unwrap().join("power/control");
        assert_eq!(found[0].sleep, Some((control, true)));
        let port = DevicePort::Usb {
            usb: "0403:6001".parse().unwrap(),
            all: false,
            bauds: vec![],
        };
        let facts = look(&[port], None, sys.path(), sys.path());
        assert_eq!(
            facts.ports[0].way,
            Way::Nothing(vec!["0403:6001".into()]),
            "no device file"
        );
    }
}
