//! A network of its own for a test: a namespace behind a pair of virtual ports, which can
//! be cut without a word to either side, as a cable or a radio link is.
//!
//! Always holds: while it is cut, packets vanish and no connection is told. Ends with its
//! handle. Who is not root gets a user namespace in which they are: [`may_open`].

use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::wait;

const START_LIMIT: Duration = Duration::from_secs(20);
/// What is run as root of a user namespace: the test again.
const AGAIN: &str = "ip link set lo up && exec \"$0\" \"$@\"";

/// Whether this test may open namespaces. Who is not root may not: the test named `test`
/// then has been run once more, in a user namespace, and has passed.
///
/// # Panics
/// When that run failed; says what it needs.
#[must_use]
pub fn may_open(test: &str) -> bool {
    let me = std::fs::metadata("/proc/self").expect("a process sees itself");
    if me.uid() == 0 {
        return true;
    }
    let program = std::env::current_exe().expect("a test knows its program");
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "sh", "-c", AGAIN])
        .arg(program)
        .args([test, "--exact", "--nocapture"])
        .status()
        .unwrap_or_else(|error| panic!("unshare: {error}. apt-get install util-linux"));
    assert!(
        status.success(),
        "{test} in a user namespace: {status}. Where those are not allowed it needs root"
    );
    false
}

/// See the module.
#[derive(Debug)]
pub struct Namespace {
    /// Lives in it, and keeps it.
    holder: Child,
    near: String,
    far: String,
    address: String,
}

impl Namespace {
    /// Opens one. Needs `ip` of the Debian package iproute2.
    ///
    /// # Panics
    /// When it cannot be opened; says which command failed.
    #[must_use]
    pub fn open() -> Self {
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "infinity"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("unshare: {error}. apt-get install util-linux"));
        let id = std::process::id();
        let net = format!("10.231.{}", id % 250);
        let namespace = Self {
            near: format!("fbn{}", id % 1_000_000),
            far: format!("fbf{}", id % 1_000_000),
            address: format!("{net}.9"),
            holder,
        };
        namespace.wait_until_there();
        namespace.connect(&net);
        namespace
    }

    fn wait_until_there(&self) {
        let of = |id: u32| std::fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let ours = of(std::process::id());
        wait::until("a network namespace", START_LIMIT, || {
            let theirs = of(self.holder.id()).filter(|theirs| Some(theirs) != ours.as_ref());
            theirs.map(|_| ()).ok_or("it is ours still")
        });
    }

    fn connect(&self, net: &str) {
        let (near, far) = (self.near.as_str(), self.far.as_str());
        let holder = self.holder.id().to_string();
        let address = format!("{}/32", self.address);
        let (us, them) = (format!("{net}.1"), format!("{net}.2"));
        let (ours, theirs) = (format!("{us}/30"), format!("{them}/30"));
        let pair = ["link", "add", near, "type", "veth", "peer", "name", far];
        run(Command::new("ip").args(pair).args(["netns", &holder]));
        for words in [
            &["addr", "add", &theirs, "dev", far][..],
            // Of a port that is always up: what is within stays connected.
            &["addr", "add", &address, "dev", "lo"],
            &["link", "set", "lo", "up"],
            &["link", "set", far, "up"],
        ] {
            run(self.command("ip").args(words));
        }
        for words in [
            &["addr", "add", &ours, "dev", near][..],
            &["link", "set", near, "up"],
            &["route", "add", &address, "via", &them],
        ] {
            run(Command::new("ip").args(words));
        }
    }

    /// Where what listens within is reached, from within and from outside.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A command that runs within.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        command.arg(program);
        command
    }

    /// From now on packets vanish, both ways.
    pub fn cut(&self) {
        run(self.command("ip").args(["link", "set", &self.far, "down"]));
    }

    /// Packets arrive again.
    pub fn mend(&self) {
        run(self.command("ip").args(["link", "set", &self.far, "up"]));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The pair of ports goes with the namespace.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}. This test needs ip: apt-get install iproute2")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
