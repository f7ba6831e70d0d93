//! Counts instructions of the firmware in QEMU and holds them to `budgets.toml`. What is
//! counted, and how, stands in the program that it runs,
//! `firmware/boards/qemu-mps2-an386/src/bin/icount.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use toml_edit::DocumentMut;

use crate::setup;
use crate::workspace::Workspace;

/// Each instruction takes 2^6 ns of the machine's time, which the program counts on.
const ICOUNT: &str = "shift=6,align=off,sleep=off";
const INTERRUPTS: [&str; 3] = ["interrupt_received", "interrupt_sent", "interrupt_alarm"];

/// Most instructions, by `budgets.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Budget {
    per_reading: u64,
    interrupt: u64,
}

type Counts = BTreeMap<String, u64>;

/// Runs the counting image of a board and prints what it says beside the budget.
///
/// # Errors
/// No QEMU, a run that fails, or more instructions than the budget has.
pub(crate) fn run(ws: &Workspace, board: &str, machine: &str, image: &Path) -> Result<(), String> {
    let path = ws.boards().join("budgets.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let budget = budget(&text, board)?;
    let counts = counts(&said(machine, image)?)?;
    let get = |name: &str| counts.get(name).copied();
    let frame = get("instructions_per_frame").ok_or("it does not say what a frame takes")?;
    let readings = get("readings_per_frame").filter(|readings| *readings > 0);
    let readings = readings.ok_or("it does not say how many readings a frame has")?;
    println!(
        "    a frame of {readings} readings: {frame} instructions, {:.0} per reading of {}",
        frame as f64 / readings as f64,
        budget.per_reading
    );
    for (name, count) in &counts {
        println!("    {name}: {count}");
    }
    let mut over = Vec::new();
    if frame > budget.per_reading * readings {
        over.push("instructions_per_frame");
    }
    for name in INTERRUPTS {
        match get(name) {
            Some(count) if count > 0 && count <= budget.interrupt => {}
            Some(_) | None => over.push(name),
        }
    }
    if over.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "over the budget of budgets.toml, at most {} per reading and {} per interrupt: {}",
            budget.per_reading,
            budget.interrupt,
            over.join(", ")
        ))
    }
}

fn said(machine: &str, image: &Path) -> Result<String, String> {
    let qemu =
        setup::find("qemu-system-arm").ok_or("no qemu-system-arm: run `cargo xtask setup`")?;
    let output = Command::new(qemu)
        .args(["-machine", machine, "-nographic", "-monitor", "none"])
        .args(["-serial", "null", "-icount", ICOUNT])
        .args(["-semihosting-config", "enable=on,target=native"])
        .arg("-kernel")
        .arg(image)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("qemu-system-arm did not start: {error}"))?;
    // Written by semihosting, which QEMU puts on either.
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said += &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!(
            "{} ended with {}: {said}",
            image.display(),
            output.status
        ))
    }
}

fn counts(said: &str) -> Result<Counts, String> {
    let lines = said.lines().filter_map(|line| line.trim().split_once('='));
    lines
        .map(|(name, number)| {
            let number = number.parse();
            let number = number.map_err(|_| format!("{name} is not a number: {said}"))?;
            Ok((name.to_owned(), number))
        })
        .collect()
}

fn budget(text: &str, board: &str) -> Result<Budget, String> {
    let doc: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("budgets.toml: {error}"))?;
    let number = |key: &str| {
        let item = doc.get(board).and_then(|table| table.get(key));
        item.and_then(toml_edit::Item::as_integer)
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| format!("budgets.toml: [{board}] has no {key}"))
    };
    Ok(Budget {
        per_reading: number("pack_instructions_per_reading")?,
        interrupt: number("interrupt_instructions")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_is_read() {
        let counts = counts("a=0000000016\r\nnoise\nb=7\n").unwrap();
        assert_eq!(
            counts.into_iter().collect::<Vec<_>>(),
            [("a".into(), 16), ("b".into(), 7)]
        );
        assert!(
            super::counts("a=x")
                .unwrap_err()
                .contains("a is not a number")
        );
    }

    #[test]
    fn a_missing_budget_is_named() {
        let text = "[b]\npack_instructions_per_reading = 275\n";
        for (name, board, want) in [
            ("no key", "b", "[b] has no interrupt_instructions"),
            ("no board", "c", "[c] has no pack_instructions_per_reading"),
        ] {
            assert!(budget(text, board).unwrap_err().contains(want), "{name}");
        }
        let text = format!("{text}interrupt_instructions = 120\n");
        assert_eq!(
            budget(&text, "b").unwrap(),
            Budget {
                per_reading: 275,
                interrupt: 120
            }
        );
    }
}
