//! What a firmware's ELF file says of its log: the build id and the texts that `defmt`
//! keeps in the names of symbols, by the index that a frame begins with.
//!
//! Reads 32-bit little-endian files, what microcontrollers have. Always holds: bytes of a
//! file never panic, and no more than [`SECTION_BYTES_MAX`] of it is in memory at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::Value;

use super::limits::{
    ELF_BYTES_MAX, FORMATS_BYTES_MAX, SECTION_BYTES_MAX, SECTIONS_MAX, SYMBOL_BYTES_MAX,
};

const HEADER_BYTES: usize = 52;
const SECTION_HEADER_BYTES: usize = 40;
const SYMBOL_ENTRY_BYTES: usize = 16;
const SYMBOLS: u32 = 2;
const NOTES: u32 = 7;
const NOTE_BUILD_ID: u32 = 3;
/// Versions of the frames that are understood, as the symbol `_defmt_version_` says.
const VERSIONS: [&str; 2] = ["3", "4"];

/// How loud a line is; a print has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// A text of the firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// What a line says; `None` for a print.
    Line(Option<Level>, String),
    /// What stands inside of lines.
    Part(String),
}

/// All texts of one firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Formats {
    pub texts: BTreeMap<u16, Text>,
    /// How lines say their time.
    pub timestamp: Option<String>,
}

/// Bytes by position: a file, or a slice in tests.
pub trait Bytes {
    /// # Errors
    /// When they are not there.
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, String>;
}

impl Bytes for File {
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut out = vec![0; len];
        let read = self.read_exact_at(&mut out, at);
        read.map_err(|error| format!("at byte {at}: {error}"))?;
        Ok(out)
    }
}

impl Bytes for &[u8] {
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, String> {
        let at_once = usize::try_from(at).ok();
        let bytes = at_once.and_then(|at| self.get(at..at.checked_add(len)?));
        let bytes = bytes.ok_or_else(|| format!("at byte {at}: it ends before"))?;
        Ok(bytes.to_vec())
    }
}

/// One section's header.
#[derive(Debug, Clone, Copy)]
struct Section {
    name: u32,
    kind: u32,
    offset: u32,
    size: u32,
    link: u32,
}

/// An ELF file whose sections are known.
#[derive(Debug)]
pub struct Elf<B> {
    bytes: B,
    sections: Vec<Section>,
    /// Number of the section with the sections' names.
    names: u16,
}

/// Opens a file.
///
/// # Errors
/// What is wrong with it, without its name.
pub fn open(path: &Path) -> Result<Elf<File>, String> {
    let unread = |error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(unread)?;
    let about = file.metadata().map_err(unread)?;
    if !about.is_file() {
        return Err(String::from("is no file"));
    }
    if about.len() > ELF_BYTES_MAX {
        return Err(format!(
            "has {} bytes: at most {ELF_BYTES_MAX} are read",
            about.len()
        ));
    }
    Elf::parse(file)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The text at `at` up to its zero byte.
fn text_at(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    let rest = &rest[..rest.len().min(SYMBOL_BYTES_MAX)];
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

impl<B: Bytes> Elf<B> {
    /// Reads the table of sections.
    ///
    /// # Errors
    /// When it is no such file.
    pub fn parse(bytes: B) -> Result<Self, String> {
        let no_elf = || String::from("is no 32-bit little-endian ELF file, as boards run them");
        let head = bytes.read(0, HEADER_BYTES).map_err(|_| no_elf())?;
        if !head.starts_with(b"\x7fELF\x01\x01") {
            return Err(no_elf());
        }
        let field = |at| u16_at(&head, at).ok_or_else(no_elf);
        let (each, count, names) = (field(46)?, field(48)?, field(50)?);
        let table = u32_at(&head, 32).ok_or_else(no_elf)?;
        if count == 0 || count > SECTIONS_MAX || usize::from(each) != SECTION_HEADER_BYTES {
            return Err(format!("has a table of {count} sections of {each} bytes"));
        }
        let bytes_of_table = usize::from(count) * SECTION_HEADER_BYTES;
        let table = bytes.read(u64::from(table), bytes_of_table);
        let table = table.map_err(|error| format!("has no table of sections {error}"))?;
        let section = |header: &[u8]| {
            Some(Section {
                name: u32_at(header, 0)?,
                kind: u32_at(header, 4)?,
                offset: u32_at(header, 16)?,
                size: u32_at(header, 20)?,
                link: u32_at(header, 24)?,
            })
        };
        let sections = table.chunks_exact(SECTION_HEADER_BYTES).filter_map(section);
        let sections = sections.collect();
        Ok(Self {
            bytes,
            sections,
            names,
        })
    }

    fn section(&self, section: Section) -> Result<Vec<u8>, String> {
        let Section { offset, size, .. } = section;
        if size > SECTION_BYTES_MAX {
            return Err(format!(
                "has a section of {size} bytes: at most {SECTION_BYTES_MAX} are read"
            ));
        }
        self.bytes.read(u64::from(offset), size as usize)
    }

    fn numbered(&self, number: u32, what: &str) -> Result<Section, String> {
        let found = usize::try_from(number).ok();
        let found = found.and_then(|number| self.sections.get(number));
        found.copied().ok_or_else(|| format!("has no {what}"))
    }

    /// The GNU build id; `None` when it was linked without one.
    ///
    /// # Errors
    /// When its notes cannot be read.
    pub fn build_id(&self) -> Result<Option<Vec<u8>>, String> {
        for section in self.sections.iter().filter(|s| s.kind == NOTES) {
            if let Some(id) = build_id_of(&self.section(*section)?) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The texts of its log.
    ///
    /// # Errors
    /// When it has none, or they cannot be read, or are of an unknown version.
    pub fn formats(&self) -> Result<Formats, String> {
        let names = self.numbered(u32::from(self.names), "names of sections")?;
        let names = self.section(names)?;
        let is_log = |section: &Section| {
            let name = text_at(&names, section.name);
            name.is_some_and(|name| name == ".defmt" || name.starts_with(".defmt."))
        };
        let is_log: Vec<bool> = self.sections.iter().map(is_log).collect();
        let symbols = self.sections.iter().find(|s| s.kind == SYMBOLS);
        let symbols = symbols.ok_or("is stripped: it has no table of symbols")?;
        let texts = self.section(self.numbered(symbols.link, "names of symbols")?)?;
        let mut out = Found::default();
        for symbol in self.section(*symbols)?.chunks_exact(SYMBOL_ENTRY_BYTES) {
            let (name, value, section) = (u32_at(symbol, 0), u32_at(symbol, 4), u16_at(symbol, 14));
            let name = name.and_then(|at| text_at(&texts, at));
            if let (Some(name), Some(value), Some(section)) = (name, value, section) {
                let in_log = is_log.get(usize::from(section)).copied().unwrap_or(false);
                out.symbol(name, value, in_log)?;
            }
        }
        out.finish()
    }
}

/// The build id in the bytes of a section of notes.
fn build_id_of(mut notes: &[u8]) -> Option<Vec<u8>> {
    let padded = |len: u32| usize::try_from(len).ok()?.checked_next_multiple_of(4);
    loop {
        let (name_len, len) = (u32_at(notes, 0)?, u32_at(notes, 4)?);
        let kind = u32_at(notes, 8)?;
        let rest = notes.get(12..)?;
        let name = rest.get(..name_len as usize)?;
        let rest = rest.get(padded(name_len)?..)?;
        if name == b"GNU\0" && kind == NOTE_BUILD_ID {
            return Some(rest.get(..len as usize)?.to_vec());
        }
        notes = rest.get(padded(len)?..)?;
    }
}

/// What the symbols have said so far.
#[derive(Default)]
struct Found {
    formats: Formats,
    version: Option<String>,
    bytes: usize,
}

impl Found {
    fn symbol(&mut self, name: &str, value: u32, in_log: bool) -> Result<(), String> {
        // Some linkers keep the quotes of their script.
        let bare = name.trim_matches('"');
        if let Some(version) = bare.strip_prefix("_defmt_version_ = ") {
            self.version = Some(version.to_owned());
            return Ok(());
        }
        if !in_log || !name.starts_with('{') {
            return Ok(());
        }
        // A symbol of others may look like ours.
        let symbol: Value = serde_json::from_str(name).unwrap_or_default();
        let (Some(tag), Some(data)) = (symbol["tag"].as_str(), symbol["data"].as_str()) else {
            return Ok(());
        };
        let data = data.to_owned();
        self.bytes += data.len();
        if self.bytes > FORMATS_BYTES_MAX {
            return Err(format!(
                "has more than {FORMATS_BYTES_MAX} bytes of texts of its log"
            ));
        }
        let Some(tag) = tag.strip_prefix("defmt_") else {
            return Ok(());
        };
        let text = match tag {
            "trace" => Text::Line(Some(Level::Trace), data),
            "debug" => Text::Line(Some(Level::Debug), data),
            "info" => Text::Line(Some(Level::Info), data),
            "warn" => Text::Line(Some(Level::Warn), data),
            "error" => Text::Line(Some(Level::Error), data),
            "println" => Text::Line(None, data),
            "timestamp" => {
                self.formats.timestamp = Some(data);
                return Ok(());
            }
            // Names of the bits of flags, which are shown as numbers.
            "bitflags_value" => return Ok(()),
            _ => Text::Part(data),
        };
        if let Ok(index) = u16::try_from(value) {
            self.formats.texts.insert(index, text);
        }
        Ok(())
    }

    fn finish(self) -> Result<Formats, String> {
        let Some(version) = self.version else {
            return Err(String::from(
                "says nothing of a log: it was built without defmt",
            ));
        };
        if !VERSIONS.contains(&version.as_str()) {
            return Err(format!(
                "says its log in version {version} of defmt: this program reads {}",
                VERSIONS.join(" and ")
            ));
        }
        Ok(self.formats)
    }
}
