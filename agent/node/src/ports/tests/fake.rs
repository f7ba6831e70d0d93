//! A made-up `/sys` and `/dev`: ttys of USB boards, whose device files lead to the
//! ends of ptys.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::ports::usb::watch::Roots;

/// Where the boards hang.
const HUB: &str = "devices/pci0000:00/0000:00:14.0/usb1";

pub(in crate::ports) struct Fake {
    _dir: TempDir,
    roots: Roots,
}

impl Fake {
    pub(in crate::ports) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots {
            sys: dir.path().join("sys"),
            dev: dir.path().join("dev"),
        };
        fs::create_dir_all(roots.sys.join("class/tty")).unwrap();
        fs::create_dir_all(&roots.dev).unwrap();
        Self { _dir: dir, roots }
    }

    pub(in crate::ports) fn sys(&self) -> &Path {
        &self.roots.sys
    }

    pub(in crate::ports) fn roots(&self) -> Roots {
        self.roots.clone()
    }

    /// A board that is on USB itself, such as `2e8a:000a:E66` at `1-2`.
    pub(in crate::ports) fn acm(&self, tty: &str, at: &str, who: &str, interface: u8) {
        self.tty(tty, &self.interface(at, who, interface), "tty");
    }

    /// A UART behind a USB adapter.
    pub(in crate::ports) fn uart(&self, tty: &str, at: &str, who: &str, interface: u8) {
        let above = format!("{tty}/tty");
        self.tty(tty, &self.interface(at, who, interface), &above);
    }

    fn interface(&self, at: &str, who: &str, interface: u8) -> PathBuf {
        let folder = PathBuf::from(HUB)
            .join(at)
            .join(format!("{at}:1.{interface}"));
        fs::create_dir_all(self.roots.sys.join(&folder)).unwrap();
        let mut parts = who.splitn(3, ':');
        for file in ["idVendor", "idProduct", "serial"] {
            if let Some(text) = parts.next() {
                self.say(at, file, &format!("{text}\n"));
            }
        }
        let number = self.roots.sys.join(&folder).join("bInterfaceNumber");
        fs::write(number, format!("{interface:02x}\n")).unwrap();
        folder
    }

    fn tty(&self, tty: &str, interface: &Path, above: &str) {
        let target = interface.join(above).join(tty);
        let folder = self.roots.sys.join(&target);
        fs::create_dir_all(&folder).unwrap();
        let _ = symlink("../..", folder.join("device"));
        self.link(tty, &target);
    }

    fn link(&self, tty: &str, target: &Path) {
        let link = self.roots.sys.join("class/tty").join(tty);
        symlink(Path::new("../..").join(target), link).unwrap();
    }

    /// What a file of the board at `at`, or of its first interface, says.
    pub(in crate::ports) fn say(&self, at: &str, file: &str, text: &str) {
        let mut folder = self.roots.sys.join(HUB).join(at);
        if file == "bInterfaceNumber" {
            folder.push(format!("{at}:1.0"));
        }
        fs::write(folder.join(file), text).unwrap();
    }

    /// What a computer has besides.
    pub(in crate::ports) fn other_ttys(&self) {
        for n in 0..64 {
            let tty = format!("tty{n}");
            self.link(&tty, &Path::new("devices/virtual/tty").join(&tty));
        }
        for n in 0..32 {
            let tty = format!("ttyS{n}");
            let folder = "devices/platform/serial8250/serial8250:0/serial8250:0.1/tty";
            self.link(&tty, &Path::new(folder).join(&tty));
        }
    }

    /// Plugs a board in, whose bytes come from `end`.
    pub(in crate::ports) fn plug(&self, tty: &str, at: &str, who: &str, end: &Path) {
        symlink(end, self.roots.dev.join(tty)).unwrap();
        self.acm(tty, at, who, 0);
    }

    pub(in crate::ports) fn pull(&self, tty: &str) {
        let link = self.roots.sys.join("class/tty").join(tty);
        let folder = link.parent().unwrap().join(fs::read_link(&link).unwrap());
        fs::remove_file(&link).unwrap();
        fs::remove_dir_all(folder).unwrap();
        // One that was never given a device file has none.
        let _ = fs::remove_file(self.roots.dev.join(tty));
    }
}
