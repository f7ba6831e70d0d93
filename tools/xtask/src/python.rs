//! Programs of PyPI that tests run, each in an environment of its own below the target
//! folder. Nothing is installed outside of it, and what is there already stays.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{run as run_command, target_dir};
use crate::workspace::Workspace;

/// A program, by its folder below `target/python`, and the file that pins what it needs.
struct Tool {
    name: &'static str,
    requirements: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "schemathesis",
        requirements: "tests/tests/api/requirements.txt",
    },
    Tool {
        name: "prometheus-api-client",
        requirements: "tests/tests/prometheus/requirements.txt",
    },
];

/// Written when everything is installed: what the requirements were.
const DONE: &str = "installed.txt";

/// Installs what is missing or was pinned anew.
///
/// # Errors
/// What could not be installed, and how to do it by hand.
pub(crate) fn install(ws: &Workspace) -> Result<(), String> {
    let below = target_dir(ws.root())?.join("python");
    TOOLS
        .iter()
        .try_for_each(|tool| bring(&below.join(tool.name), &ws.root().join(tool.requirements)))
}

fn bring(dir: &Path, requirements: &Path) -> Result<(), String> {
    let wanted = std::fs::read_to_string(requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    let done: PathBuf = dir.join(DONE);
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let by_hand = |error: String| {
        format!(
            "{error}\nBy hand (needs python3 with venv: on Debian sudo apt-get install python3-venv):\
             \n  python3 -m venv --clear {dir} && {dir}/bin/pip install -r {file}",
            dir = dir.display(),
            file = requirements.display()
        )
    };
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(dir);
    run_command(venv).map_err(by_hand)?;
    let mut pip = Command::new(dir.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"])
        .arg(requirements);
    run_command(pip).map_err(by_hand)?;
    std::fs::write(&done, wanted).map_err(|error| format!("{}: {error}", done.display()))
}
