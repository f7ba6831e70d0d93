//! Brings what the tests need onto this machine: rustup targets and components,
//! `qemu-system-arm`, `mosquitto`, `fusermount3`, `postgres`, `chromium`, `curl`,
//! `python3`, `prometheus`, `npm`, programs of PyPI and packages of npm. What is there already is not touched; what
//! cannot be installed is named, with the command that installs it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boards;
use crate::cargo::{capture, run as run_command};
use crate::npm;
use crate::python;
use crate::report::{Failed, Report};
use crate::workspace::Workspace;

/// A program that tests start, and the Debian package that brings it.
struct Program {
    name: &'static str,
    package: &'static str,
    /// What tests do with it, for the message when it is missing.
    purpose: &'static str,
}

const PROGRAMS: [Program; 11] = [
    Program {
        name: "groff",
        package: "groff-base",
        purpose: "reads the man pages",
    },
    Program {
        name: "qemu-system-arm",
        package: "qemu-system-arm",
        purpose: "runs the firmware of boards/qemu-mps2-an386",
    },
    Program {
        name: "mosquitto",
        package: "mosquitto",
        purpose: "is the broker between gateway and upstream",
    },
    Program {
        name: "fusermount3",
        package: "fuse3",
        purpose: "mounts the power-cut disk of the store's tests, also without root",
    },
    Program {
        name: "postgres",
        package: "postgresql",
        purpose: "is the database of the receiver's PostgreSQL sink",
    },
    Program {
        name: "ip",
        package: "iproute2",
        purpose: "makes the network that a test cuts",
    },
    Program {
        name: "chromium",
        package: "chromium",
        purpose: "is the browser that the page is tested in",
    },
    Program {
        name: "curl",
        package: "curl",
        purpose: "asks the HTTP API as the README does",
    },
    Program {
        name: "npm",
        package: "npm",
        purpose: "brings the rules that the page is held against, below target",
    },
    Program {
        name: "prometheus",
        package: "prometheus",
        purpose: "is the server that answers to queries are compared with",
    },
    Program {
        name: "python3",
        package: "python3-venv",
        purpose: "runs the contract tester of the HTTP API, which is installed below target",
    },
];

/// Packages that bring a service of the same name, and the process it runs as.
const SERVICES: [(&str, &str); 3] = [
    ("mosquitto", "mosquitto"),
    ("postgresql", "postgres"),
    ("prometheus", "prometheus"),
];

/// Installs everything that is missing.
///
/// # Errors
/// Names what is missing and how to get it.
pub(crate) fn run(ws: &Workspace, report: &mut Report) -> Result<(), Failed> {
    report.step("set-up: rust targets", || rust_targets(ws))?;
    report.step("set-up: programs", programs)?;
    report.step("set-up: programs of PyPI", || python::install(ws))?;
    report.step("set-up: packages of npm", || npm::install(ws))
}

fn rust_targets(ws: &Workspace) -> Result<(), String> {
    let wanted: BTreeSet<String> = boards::read(ws)?
        .into_iter()
        .map(|board| board.target)
        .collect();
    let Some(installed) = capture("rustup", &["target", "list", "--installed"]) else {
        let list = wanted.into_iter().collect::<Vec<_>>().join(" ");
        return Err(format!(
            "`rustup` does not run, and it brings the targets of the boards. \
             Install rustup, then: rustup target add {list}"
        ));
    };
    let missing = missing_from(&wanted, &installed);
    if !missing.is_empty() {
        let mut command = Command::new("rustup");
        command.args(["target", "add"]).args(&missing);
        run_command(command)?;
    }
    for component in ["rustfmt", "clippy"] {
        if capture(
            &format!("cargo-{}", component.trim_start_matches("rust")),
            &["--version"],
        )
        .is_none()
        {
            let mut command = Command::new("rustup");
            command.args(["component", "add", component]);
            run_command(command)?;
        }
    }
    Ok(())
}

fn missing_from(wanted: &BTreeSet<String>, installed: &str) -> Vec<String> {
    wanted
        .iter()
        .filter(|target| !installed.lines().any(|line| line.trim() == *target))
        .cloned()
        .collect()
}

fn programs() -> Result<(), String> {
    let missing: Vec<&Program> = PROGRAMS.iter().filter(|p| find(p.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    if !can_install() {
        return Err(by_hand(
            &missing,
            "this needs root and apt-get, which are not both here",
        ));
    }
    install(&packages).map_err(|error| by_hand(&missing, &error))?;
    match missing.iter().find(|program| find(program.name).is_none()) {
        None => Ok(()),
        Some(program) => Err(by_hand(
            &[program],
            "apt-get installed it, yet it is not found",
        )),
    }
}

/// The full path of a program, also where only root's PATH looks, or where Debian
/// keeps a database's versions side by side.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().flatten();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .chain(versions.map(|version| version.path().join("bin")))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

fn by_hand(missing: &[&Program], why: &str) -> String {
    let mut text = format!("{why}.\nInstall by hand:");
    for program in missing {
        text += &format!("\n  {:<16} ({})", program.name, program.purpose);
    }
    let packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    text + &format!(
        "\nOn Debian or Ubuntu: sudo apt-get install --no-install-recommends {}",
        packages.join(" ")
    )
}

fn can_install() -> bool {
    let root = capture("id", &["-u"]).is_some_and(|uid| uid.trim() == "0");
    root && find("apt-get").is_some()
}

fn install(packages: &[&str]) -> Result<(), String> {
    let ran_before = SERVICES.map(|(_, process)| service_runs(process));
    run_command(apt(&["update"]))?;
    let mut command = apt(&["install", "-y", "--no-install-recommends"]);
    command.args(packages);
    run_command(command)?;
    for ((name, process), ran) in SERVICES.into_iter().zip(ran_before) {
        if packages.contains(&name) && !ran {
            stop_service(name, process)?;
        }
    }
    Ok(())
}

fn apt(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // In run level 1 the packages' scripts start no service of theirs.
        .env("RUNLEVEL", "1");
    command
}

/// Whether a process of this name runs now.
fn service_runs(name: &str) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return false;
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok())
        .any(|comm| comm.trim() == name)
}

/// Installing a daemon may have started it: tests bring their own, on their own
/// port, so the one that came with the package is stopped again.
fn stop_service(name: &str, process: &str) -> Result<(), String> {
    if !service_runs(process) {
        return Ok(());
    }
    println!("    the package started the service {name}: stopping it");
    let mut command = if Path::new("/run/systemd/system").is_dir() {
        let mut command = Command::new("systemctl");
        command.args(["disable", "--now", name]);
        command
    } else {
        let mut command = Command::new(format!("/etc/init.d/{name}"));
        command.arg("stop");
        command
    };
    command.env("RUNLEVEL", "1");
    run_command(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_installed_is_missing() {
        let wanted = BTreeSet::from(["thumbv7em-none-eabi".to_owned(), "x".to_owned()]);
        assert_eq!(
            missing_from(&wanted, "x\nthumbv7em-none-eabihf\n"),
            ["thumbv7em-none-eabi"]
        );
    }

    #[test]
    fn the_words_for_a_missing_program_say_what_and_how() {
        let broker = PROGRAMS.iter().find(|one| one.name == "mosquitto");
        let text = by_hand(&[broker.unwrap()], "no root");
        assert!(text.contains("mosquitto"), "{text}");
        assert!(text.contains("sudo apt-get install"), "{text}");
    }

    #[test]
    fn a_program_that_no_machine_has_is_not_found() {
        assert_eq!(find("forebay-no-such-program"), None);
        assert!(find("sh").is_some());
    }
}
