//! Writes `config/reference.toml` from the schema: every key with its default
//! and its doc. `forebay config reference` prints it; a test keeps the file true.

use std::fmt::Write;

use super::SECTIONS;
use super::schema::{Default, Section};
use super::schema_broker::{BROKER, BROKER_KEY};

/// The text of the reference file: a config that loads, with every default shown.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(
        "# Every key of a Forebay config. Keys that are commented out have no default:\n\
         # what stands there is an example. Written by `forebay config reference`.\n",
    );
    for section in SECTIONS {
        write_section(&mut out, section).expect("a String takes all text");
    }
    out
}

fn write_section(out: &mut String, section: &Section) -> std::fmt::Result {
    writeln!(out)?;
    comment(out, section.doc)?;
    writeln!(out, "{}", section.header())?;
    // Without a broker the keys behind it are out of place.
    let broker = section.key(BROKER_KEY);
    let has_broker = broker.is_none_or(|key| !matches!(key.default, Default::None(_)));
    for key in section.all_keys() {
        writeln!(out)?;
        comment(out, key.doc)?;
        let of_broker = BROKER.iter().any(|of_broker| of_broker.name == key.name);
        match key.default {
            Default::Is(value) if of_broker && !has_broker => {
                writeln!(out, "# {} = {value}", key.name)?;
            }
            Default::Is(value) | Default::Required(value) => {
                writeln!(out, "{} = {value}", key.name)?
            }
            // A port needs its path or its address, a table of the config its rows: shown
            // live, so that the file loads.
            Default::None(value)
                if matches!(
                    (section.name, key.name),
                    ("device_port", "path") | ("table", "rows")
                ) =>
            {
                writeln!(out, "{} = {value}", key.name)?;
            }
            Default::None(value) => writeln!(out, "# {} = {value}", key.name)?,
        }
    }
    Ok(())
}

fn comment(out: &mut String, text: &str) -> std::fmt::Result {
    text.lines().try_for_each(|line| writeln!(out, "# {line}"))
}
