//! Files and frames as a firmware with `defmt` has them, built by hand, whole and broken.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use forebay_core::query::{Names, Reply};
use forebay_core::units::EventTime;
use forebay_wire::ids::DeviceUid;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::elf::{Elf, Formats, Level, Text};
use super::firmware::{Firmware, Search, formats_of};
use super::frame::decode;
use super::limits::*;
use super::{DeviceLogs, LogRequest};
use crate::ports::Say;

const ID: [u8; 20] = [
    0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
];
const FIRST: [u8; 8] = [0xab, 0xcd, 1, 2, 3, 4, 5, 6];

/// Texts of a log by number: tag and text.
const TEXTS: &[(u16, &str, &str)] = &[
    (0, "timestamp", "{=u32:us}"),
    (1, "info", "started, reset by {=istr}"),
    (2, "warn", "sensor {=u8} failed {=u16} times: {}"),
    (3, "str", "watchdog"),
    (4, "derived", "BusError|Crc {{ got: {=u8:#04x} }}"),
    (5, "error", "no memory"),
    (
        6,
        "println",
        "{=[?]} {=[u8]:a} {=str:?} {=i8} {=f32} {0=2..5:b}",
    ),
    (7, "prim", "{=u8}"),
    (8, "info", "x={0=0..4:b}, y={0=3..8:#b}"),
    (9, "info", "{=[?]}"),
    (10, "derived", ""),
    (11, "derived", "({})"),
    (12, "debug", "{}"),
    (
        13,
        "info",
        "at {=u64:tms}, {=i16:x}, {=u64:iso8601ms}, {=char} {=bool}",
    ),
    (
        14,
        "info",
        "{=__internal_Debug} {=__internal_FormatSequence}",
    ),
];

/// An ELF file with these texts.
fn elf(id: &[u8], version: &str, texts: &[(u16, &str, &str)]) -> Vec<u8> {
    let section_names = b"\0.shstrtab\0.defmt\0.symtab\0.strtab\0.note\0";
    let name = |text: &str| {
        let text = [text.as_bytes(), b"\0"].concat();
        let mut at = section_names.windows(text.len());
        at.position(|w| w == text).expect("one of the names above") as u32
    };
    let mut strings = vec![0];
    let mut symbols = vec![0; 16];
    let mut symbol = |text: &str, value: u32, section: u16| {
        symbols.extend((strings.len() as u32).to_le_bytes());
        symbols.extend(value.to_le_bytes());
        symbols.extend([0; 6]);
        symbols.extend(section.to_le_bytes());
        strings.extend(text.as_bytes());
        strings.push(0);
    };
    symbol(&format!("\"_defmt_version_ = {version}\""), 0, 0xfff1);
    symbol("main", 0x100, 1);
    for (index, tag, text) in texts {
        let said = json!({
            "package": "p", "tag": format!("defmt_{tag}"), "data": text,
            "disambiguator": "7", "crate_name": "c",
        });
        symbol(&said.to_string(), u32::from(*index), 2);
    }
    let mut note = Vec::new();
    for number in [4, id.len() as u32, 3] {
        note.extend(number.to_le_bytes());
    }
    note.extend(b"GNU\0");
    note.extend(id);
    let sections: [(&str, u32, &[u8], u32); 6] = [
        ("", 0, b"", 0),
        (".shstrtab", 3, section_names, 0),
        (".defmt", 1, &[0; 32], 0),
        (".symtab", 2, &symbols, 4),
        (".strtab", 3, &strings, 0),
        (".note", 7, &note, 0),
    ];
    let mut out = b"\x7fELF\x01\x01\x01".to_vec();
    out.resize(52, 0);
    let mut headers = Vec::new();
    for (text, kind, bytes, link) in sections {
        let fields = [
            name(text),
            kind,
            0,
            0,
            out.len() as u32,
            bytes.len() as u32,
            link,
            0,
            1,
            0,
        ];
        headers.extend(fields.iter().flat_map(|field: &u32| field.to_le_bytes()));
        out.extend(bytes);
    }
    let table = out.len() as u32;
    out[32..36].copy_from_slice(&table.to_le_bytes());
    for (at, value) in [(46, 40_u16), (48, 6), (50, 1)] {
        out[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    out.extend(headers);
    out
}

fn formats() -> Formats {
    let file = elf(&ID, "4", TEXTS);
    let elf = Elf::parse(&file[..]).expect("an ELF file");
    elf.formats().expect("texts")
}

#[test]
fn a_file_says_its_build_id_and_its_texts() {
    let file = elf(&ID, "4", TEXTS);
    let parsed = Elf::parse(&file[..]).expect("an ELF file");
    assert_eq!(parsed.build_id(), Ok(Some(ID.to_vec())));
    let formats = parsed.formats().expect("texts");
    assert_eq!(formats.timestamp.as_deref(), Some("{=u32:us}"));
    assert_eq!(formats.texts.len(), TEXTS.len() - 1);
    let warn = &formats.texts[&2];
    assert!(matches!(warn, Text::Line(Some(Level::Warn), text) if text.starts_with("sensor")));
}

#[test]
fn frames_become_lines() {
    let formats = formats();
    let time = [0x40, 0x42, 0x0f, 0];
    for (name, number, rest, level, text) in [
        (
            "interned text",
            1,
            &[3, 0][..],
            Some(Level::Info),
            "started, reset by watchdog",
        ),
        (
            "a variant with a value",
            2,
            &[7, 3, 1, 4, 0, 1, 0x2a],
            Some(Level::Warn),
            "sensor 7 failed 259 times: Crc { got: 0x2a }",
        ),
        (
            "a variant without",
            2,
            &[7, 3, 1, 4, 0, 0],
            Some(Level::Warn),
            "sensor 7 failed 259 times: BusError",
        ),
        ("no argument", 5, &[], Some(Level::Error), "no memory"),
        (
            "bits, each number of them sent once",
            8,
            &[0b1110_0101],
            Some(Level::Info),
            "x=101, y=0b11100",
        ),
        (
            "elements of nothing",
            9,
            &[3, 0, 0, 0, 10, 0],
            Some(Level::Info),
            "[, , ]",
        ),
        (
            "nested",
            12,
            &[11, 0, 11, 0, 10, 0],
            Some(Level::Debug),
            "(())",
        ),
        (
            "times, signs and characters",
            13,
            &[
                0x88, 0xe4, 0xd5, 0x05, 0, 0, 0, 0, 0xff, 0xff, 36, 188, 151, 238, 120, 1, 0, 0,
                0xe9, 0, 0, 0, 1,
            ],
            Some(Level::Info),
            "at 1:03:11:43.752, ffff, 2021-04-20T09:23:44.804000Z, é true",
        ),
        (
            "texts without a length, and a sequence",
            14,
            &[b'a', b'b', 0xff, 4, 0, 0, 4, 0, 0, 0, 0],
            Some(Level::Info),
            "ab BusErrorBusError",
        ),
    ] {
        let frame = [&[number, 0], &time[..], rest].concat();
        let said = decode(&formats, &frame).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((said.level, said.text.as_str()), (level, text), "{name}");
        assert_eq!(said.device_time.as_deref(), Some("1.000000"), "{name}");
        for cut in 0..frame.len() {
            assert!(
                decode(&formats, &frame[..cut]).is_err(),
                "{name} cut at {cut}"
            );
        }
        let longer = [&frame[..], &[0]].concat();
        assert!(
            decode(&formats, &longer).is_err(),
            "{name} with a byte more"
        );
    }
}

#[test]
fn frames_that_lie_cost_nothing() {
    let formats = formats();
    let frame = |number: u8, rest: &[u8]| [&[number, 0, 0, 0, 0, 0], rest].concat();
    for (name, frame) in [
        ("no such line", frame(99, &[])),
        ("a part as a line", frame(3, &[])),
        ("a line as a part", frame(12, &[5, 0])),
        ("no such variant", frame(2, &[7, 3, 1, 4, 0, 2])),
        (
            "four thousand million elements",
            frame(9, &[0xff, 0xff, 0xff, 0xff, 10, 0]),
        ),
        (
            "four thousand million bytes",
            frame(6, &[0, 0, 0, 0, 7, 0, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("too deep", frame(12, &[11, 0].repeat(DEPTH_MAX + 1))),
        ("no bool", frame(13, &[0; 23].map(|_| 0xff))),
    ] {
        assert!(decode(&formats, &frame).is_err(), "{name}");
    }
}

#[test]
fn a_line_is_cut_at_its_limit_and_never_draws() {
    let long = "x".repeat(LINE_TEXT_BYTES_MAX - 4);
    for (name, text, want) in [
        ("below", long.clone(), long.clone()),
        ("at", format!("{long}y"), format!("{long}y")),
        ("above", format!("{long}yz"), format!("{long}y...")),
        ("in a character", format!("{long}é"), format!("{long}...")),
        (
            "escapes",
            String::from("a\u{1b}[2Jb\n"),
            String::from("a [2Jb "),
        ),
    ] {
        let texts = [(1, "info", text.as_str())];
        let file = elf(&ID, "4", &texts);
        let formats = Elf::parse(&file[..]).and_then(|elf| elf.formats());
        let said = decode(&formats.expect("texts"), &[1, 0]).expect("a line");
        assert_eq!(said.text, want, "{name}");
    }
}

#[test]
fn what_is_no_file_of_ours_is_said() {
    let whole = elf(&ID, "4", TEXTS);
    let with = |at: usize, bytes: &[u8]| {
        let mut out = whole.clone();
        out[at..at + bytes.len()].copy_from_slice(bytes);
        out
    };
    for (name, file, want) in [
        ("nothing", Vec::new(), "32-bit little-endian"),
        ("a text", b"#!/bin/sh\n".repeat(10), "32-bit little-endian"),
        ("64 bits", with(4, &[2]), "32-bit little-endian"),
        ("a table beyond", with(32, &[0xff; 4]), "table of sections"),
        (
            "too many sections",
            with(48, &[0xff; 2]),
            "sections of 40 bytes",
        ),
        ("another defmt", elf(&ID, "5", TEXTS), "version 5 of defmt"),
        (
            "no name of sections",
            with(50, &[9]),
            "no names of sections",
        ),
    ] {
        let read = Elf::parse(&file[..]).and_then(|elf| elf.formats());
        let why = read.expect_err(name);
        assert!(why.contains(want), "{name}: {why}");
    }
    let stripped = elf(&ID, "4", &[]);
    let found = Elf::parse(&stripped[..]).and_then(|elf| elf.formats());
    assert!(found.expect("a version is enough").texts.is_empty());
}

proptest! {
    #[test]
    fn broken_files_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        frame in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut file = elf(&ID, "4", TEXTS);
        for (at, byte) in flips {
            let at = at.index(file.len());
            file[at] = byte;
        }
        for file in [&file[..], &file[..cut.index(file.len())]] {
            if let Ok(elf) = Elf::parse(file) {
                let _ = elf.build_id();
                if let Ok(formats) = elf.formats() {
                    let _ = decode(&formats, &frame);
                }
            }
        }
    }

    #[test]
    fn frames_never_panic(number in 0..16u8, rest in prop::collection::vec(prop_oneof![0..16u8, any::<u8>()], 0..245)) {
        let frame = [&[number, 0][..], &rest].concat();
        if let Ok(said) = decode(&formats(), &frame) {
            prop_assert!(said.text.len() <= LINE_TEXT_BYTES_MAX);
        }
    }

    #[test]
    fn formats_of_any_text_never_panic(text in "[{}=:;.|0-9ui?xab\\[\\]# ]{0,30}", rest in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut formats = Formats::default();
        formats.texts.insert(1, Text::Line(None, text.clone()));
        formats.texts.insert(2, Text::Part(text));
        let frame = [&[1, 0][..], &rest].concat();
        let _ = decode(&formats, &frame);
    }
}

fn search(firmware: &mut Firmware, id: [u8; 8], now: Instant) -> Result<usize, (String, bool)> {
    match firmware.find(id, now) {
        Search::Found(formats) => Ok(formats.texts.len()),
        Search::Missing { why, is_new } => Err((why, is_new)),
    }
}

#[test]
fn a_firmware_is_found_in_files_and_folders_and_later_when_it_is_added() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    write("readme.txt", b"no ELF file");
    write("other.elf", &elf(&[9; 20], "4", TEXTS));
    let broken = write("broken.elf", b"\x7fELF");
    let mut firmware = Firmware::new(vec![dir.path().to_owned(), broken]);
    let start = Instant::now();
    let (why, is_new) = search(&mut firmware, FIRST, start).expect_err("not there yet");
    let shown = dir.path().display();
    assert!(
        is_new
            && why.starts_with(&format!(
                "no ELF file with build id abcd010203040506 is in {shown}"
            )),
        "{why}"
    );
    assert!(why.contains("broken.elf is no 32-bit"), "{why}");
    let file = write("this.elf", &elf(&ID, "4", TEXTS));
    // It is not looked for at each frame, and said once.
    let before = search(&mut firmware, FIRST, start + LOOK_AGAIN / 2);
    assert_eq!(before, Err((why, false)));
    let texts = TEXTS.len() - 1;
    assert_eq!(search(&mut firmware, FIRST, start + LOOK_AGAIN), Ok(texts));
    // What is in memory stays when the file goes.
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(
        search(&mut firmware, FIRST, start + LOOK_AGAIN * 9),
        Ok(texts)
    );
    let mut nowhere = Firmware::new(Vec::new());
    let (why, _) = search(&mut nowhere, FIRST, start).expect_err("no place");
    assert!(why.contains("`firmware` of [agent]"), "{why}");
    let (why, _) = search(&mut nowhere, [0; 8], start).expect_err("no build id");
    assert!(why.contains("--build-id=sha1"), "{why}");
    let mut gone = Firmware::new(vec![dir.path().join("gone.elf")]);
    let (why, _) = search(&mut gone, FIRST, start).expect_err("no file");
    assert!(
        why.contains("gone.elf") && why.contains("No such file"),
        "{why}"
    );
}

#[test]
fn files_of_a_folder_and_firmwares_in_memory_at_their_limits() {
    let dir = tempfile::tempdir().expect("a folder");
    for n in 0..FOLDER_FILES_MAX - 1 {
        std::fs::write(dir.path().join(format!("{n}")), b"").expect("written");
    }
    let why = |dir: &Path| {
        let mut firmware = Firmware::new(vec![dir.to_owned()]);
        search(&mut firmware, FIRST, Instant::now())
            .expect_err("none there")
            .0
    };
    for (name, more) in [("below", false), ("at", false), ("above", true)] {
        assert_eq!(
            why(dir.path()).contains("more than 256 files"),
            more,
            "{name}"
        );
        std::fs::write(dir.path().join(name), b"").expect("written");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let id = |n: usize| [n as u8 + 1; 8];
    for n in 0..=FIRMWARE_KEPT_MAX {
        let file = elf(&[n as u8 + 1; 20], "4", TEXTS);
        std::fs::write(dir.path().join(format!("{n}")), file).expect("written");
    }
    let mut firmware = Firmware::new(vec![dir.path().to_owned()]);
    for n in 0..=FIRMWARE_KEPT_MAX {
        assert!(search(&mut firmware, id(n), Instant::now()).is_ok(), "{n}");
    }
    // The first one is read again.
    std::fs::remove_file(dir.path().join("0")).expect("removed");
    std::fs::remove_file(dir.path().join("1")).expect("removed");
    assert!(search(&mut firmware, id(0), Instant::now()).is_err());
    assert!(search(&mut firmware, id(1), Instant::now()).is_ok());
}

#[test]
fn a_file_is_asked_for_by_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.elf");
    std::fs::write(&path, elf(&ID, "4", TEXTS)).expect("written");
    assert!(formats_of(&path, FIRST).is_ok());
    let other = formats_of(&path, [7; 8]).expect_err("another firmware");
    assert!(
        other.contains("a.elf has build id abcd0102") && other.contains("0707"),
        "{other}"
    );
    let none = formats_of(dir.path(), FIRST).expect_err("a folder");
    assert!(none.contains("is no file"), "{none}");
}

#[test]
fn lines_are_kept_and_asked_for() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.elf"), elf(&ID, "4", TEXTS)).expect("written");
    let boiler = DeviceUid([1; 8]);
    let names = Names([(boiler, String::from("boiler"))].into());
    let said = Arc::new(Mutex::new(Vec::new()));
    let hears = said.clone();
    let say: Say =
        Arc::new(move |text: &str| hears.lock().expect("no panic").push(text.to_owned()));
    let logs = DeviceLogs::start(vec![dir.path().to_owned()], names, say).expect("a thread");
    let ask = |device: &str, after| {
        let (answer, answered) = oneshot::channel();
        let device = String::from(device);
        logs.ask(LogRequest { device, after }, answer);
        let answer = answered.blocking_recv().expect("an answer");
        answer.map(Reply::into_value)
    };
    let nobody = ask("x", 0).expect_err("no device");
    assert_eq!(nobody, "no device is called \"x\": none has said anything");
    let frame = vec![5, 0, 0x40, 0x42, 0x0f, 0];
    logs.take(boiler, EventTime(0), FIRST, frame.clone());
    logs.take(boiler, EventTime(1), FIRST, vec![99, 0, 0, 0, 0, 0]);
    for _ in 0..2 {
        logs.take(DeviceUid([2; 8]), EventTime(2), [3; 8], frame.clone());
    }
    let answer = ask("boiler", 0).expect("lines");
    let line = &answer["lines"][0];
    assert_eq!(
        (
            &line["text"],
            &line["level"],
            &line["device_time"],
            &line["time"]
        ),
        (
            &json!("no memory"),
            &json!("error"),
            &json!("1.000000"),
            &json!("1970-01-01T00:00:00Z")
        )
    );
    let why = answer["lines"][1]["not_decoded"]
        .as_str()
        .unwrap_or_default();
    assert!(
        why.contains("no line of this number") && why.contains("abcd0102"),
        "{why}"
    );
    assert_eq!(answer["newest"], 4);
    assert_eq!(
        ask("boiler", 1).expect("lines")["lines"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let other = ask("0202020202020202", 0).expect("lines");
    assert_eq!(other["lines"][1]["frame"], "050040420f00");
    let nobody = ask("x", 0).expect_err("no device");
    assert!(
        nobody.contains("lines of boiler, 0202020202020202"),
        "{nobody}"
    );
    let said = said.lock().expect("no panic");
    assert_eq!(said.len(), 1, "once, not at each line: {said:?}");
    assert!(
        said[0].starts_with("the log of 0202020202020202 cannot be read: no ELF file"),
        "{said:?}"
    );
    assert_eq!(answer["dropped"], Value::from(0));
}
