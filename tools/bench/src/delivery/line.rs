//! A line of so many bits per second: a network namespace behind a pair of virtual
//! ports whose sending side is shaped by `tc`. Needs root; removed when dropped.

use std::process::Command;

/// Bytes that the shaper lets through at once, and how long a packet may wait in it.
const BURST: &str = "16kb";
const QUEUE: &str = "200ms";

/// The line. The broker listens on [`Line::NEAR`], the agent runs within.
#[derive(Debug)]
pub(super) struct Line {
    namespace: String,
    port: String,
}

impl Line {
    pub(super) const NEAR: &str = "10.213.77.1";
    const FAR: &str = "10.213.77.2";

    pub(super) fn open(bits_per_s: u64) -> Result<Self, String> {
        let line = Self {
            namespace: format!("forebay-{}", std::process::id()),
            port: format!("fb{}", std::process::id() % 1_000_000),
        };
        let (namespace, near, far) = (
            line.namespace.as_str(),
            line.port.as_str(),
            format!("{}x", line.port),
        );
        let within = ["netns", "exec", namespace];
        run("ip", &["netns", "add", namespace])?;
        run(
            "ip",
            &["link", "add", near, "type", "veth", "peer", "name", &far],
        )?;
        run("ip", &["link", "set", &far, "netns", namespace])?;
        run(
            "ip",
            &["addr", "add", &format!("{}/30", Self::NEAR), "dev", near],
        )?;
        run("ip", &["link", "set", near, "up"])?;
        let far_address = format!("{}/30", Self::FAR);
        let rate = format!("{bits_per_s}bit");
        let shape = [
            "tc", "qdisc", "add", "dev", &far, "root", "handle", "1:", "tbf", "rate", &rate,
            "burst", BURST, "latency", QUEUE,
        ];
        for command in [
            &["ip", "addr", "add", &far_address, "dev", &far][..],
            &["ip", "link", "set", &far, "up"],
            &["ip", "link", "set", "lo", "up"],
            &shape,
        ] {
            run("ip", &[&within, command].concat())?;
        }
        Ok(line)
    }

    /// What runs a program at the far end.
    pub(super) fn within(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.namespace]
    }

    /// Bytes that the far end has sent, all headers included.
    pub(super) fn sent_bytes(&self) -> Result<u64, String> {
        let path = format!("/sys/class/net/{}/statistics/rx_bytes", self.port);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        text.trim().parse().map_err(|_| format!("{path}: {text}"))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A pair goes with one of its ports.
        let _ = run("ip", &["link", "del", &self.port]);
        let _ = run("ip", &["netns", "del", &self.namespace]);
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let line = format!("{program} {}", args.join(" "));
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{line}: {} (a shaped line needs root)",
        said.trim()
    ))
}
