//! The log of a real firmware: it says numbers, the texts stand in its ELF file.

use std::fs;
use std::path::PathBuf;

use forebay_tests::process::ANSWER_LIMIT;
use forebay_tests::qemu::{Options, Qemu, board_elf};
use forebay_tests::wait;
use serde_json::Value;

use super::site::Site;

/// The board's uid.
const BOARD: &str = "0123456789abcdef";
/// What the board says when a gateway has opened its session.
const OPEN: &str = "session open";

fn board() -> (Qemu, PathBuf) {
    let options = Options::default();
    let elf = board_elf(options.machine).unwrap_or_else(|error| panic!("{error}"));
    let qemu = Qemu::start(&elf, &options).unwrap_or_else(|error| panic!("{error}"));
    (qemu, elf)
}

fn site(qemu: &Qemu, agent: &str) -> Site {
    let address = qemu.serial_addr();
    Site::new(&format!(
        "device_log = \"info\"\n{agent}\n\
         [[device_port]]\nkind = \"tcp\"\naddress = \"{address}\"\n\
         [[device]]\nuid = \"{BOARD}\"\nname = \"board\"\n"
    ))
}

/// Waits for lines of the board, at least `count`.
fn lines(site: &Site, count: usize) -> Vec<Value> {
    wait::until("the board says something", ANSWER_LIMIT, || {
        let answer = site.json(&["device", "log", "board"])?;
        match answer["lines"].as_array() {
            Some(lines) if lines.len() >= count => Ok(lines.clone()),
            Some(_) | None => Err(answer.to_string()),
        }
    })
}

#[test]
fn the_log_of_the_board_is_text_with_its_own_elf_file() {
    let (mut qemu, elf) = board();
    let folder = elf.parent().unwrap().display().to_string();
    let site = site(&qemu, &format!("firmware = [{folder:?}]"));
    let agent = site.agent();
    let said = lines(&site, 2);
    let boot = said[0]["text"].as_str().unwrap();
    assert!(
        boot.starts_with("boot ") && boot.contains(", reset cause "),
        "{boot}"
    );
    assert_eq!(
        (&said[1]["text"], &said[1]["level"]),
        (&OPEN.into(), &"info".into())
    );
    let shown = site.text(&["device", "log", "board"]).unwrap();
    assert!(shown.ends_with(&format!("INFO   {OPEN}\n")), "{shown}");

    // Lines that come are shown as they come.
    let mut follows = site.start("log", &["device", "log", "board", "--follow"]);
    let count = |text: String| text.matches(OPEN).count();
    wait::until("the lines so far", ANSWER_LIMIT, || {
        follows.must_run();
        (count(follows.printed()) >= 1).then_some(()).ok_or("fewer")
    });
    qemu.system_reset().unwrap();
    wait::until("a line of the next boot", ANSWER_LIMIT, || {
        follows.must_run();
        (count(follows.printed()) > 1)
            .then_some(())
            .ok_or("none yet")
    });
    drop(follows);
    assert!(agent.end_by("TERM").success());
}

#[test]
fn without_the_file_the_build_id_is_named_and_a_file_of_ones_own_helps() {
    let (qemu, elf) = board();
    let site = site(&qemu, "firmware = [\"empty\"]");
    fs::create_dir(site.path("empty")).unwrap();
    let agent = site.agent();
    let said = lines(&site, 2);
    let build_id = said[0]["build_id"].as_str().unwrap();
    assert_eq!(said[0]["text"], Value::Null);
    let frame = said[0]["frame"].as_str().unwrap();
    let shown = site.text(&["device", "log", "board"]).unwrap();
    let why = format!("frame {frame} (no ELF file with build id {build_id} is in ");
    assert!(shown.contains(&why), "{shown}");
    assert_eq!(site.show("board").unwrap()["build_id"], build_id);
    let printed = agent.printed();
    let told = format!("the log of board cannot be read: no ELF file with build id {build_id}");
    assert_eq!(printed.matches(&told).count(), 1, "{printed}");

    let elf = elf.to_str().unwrap();
    let shown = site
        .text(&["device", "log", "board", "--elf", elf])
        .unwrap();
    assert!(shown.contains(&format!("INFO   {OPEN}\n")), "{shown}");
    let other = site.refused(&["device", "log", "board", "--elf", "forebay.toml"]);
    assert!(
        other.contains("forebay.toml is no 32-bit little-endian ELF file"),
        "{other}"
    );
    assert!(agent.end_by("TERM").success());
}
