//! The words of a config that say what its pipeline is, as they are kept in the log: a
//! start with other words builds what is new beside what they say.
//!
//! Holds always: what is kept says the same pipeline as the config that it is from, or
//! nothing is kept. Has no secret: connections stand in other sections.

use std::path::Path;

use forebay_core::engine::config::EngineConfig;

use super::engine;
use super::reader::Source;

/// Sections that the pipeline is made of.
const PIPELINE: [&str; 4] = ["engine", "table", "window", "join"];

/// The pipeline's sections of a config; empty where they cannot be told apart.
pub(super) fn text_of(text: &str, engine: &EngineConfig) -> String {
    let cut = cut(text);
    match read(&cut) {
        Some(of_cut) if of_cut == *engine => cut,
        Some(_) | None => String::new(),
    }
}

/// What kept words say; `None` when this version does not read them.
#[must_use]
pub fn read(text: &str) -> Option<EngineConfig> {
    let source = Source::parse(Path::new("kept pipeline"), text).ok()?;
    let (engine, _) = engine::read(&source).ok()?;
    Some(engine)
}

/// The lines of these sections. A line that only looks like a header, within a list or a
/// text, costs the whole: what is cut is read again and compared.
fn cut(text: &str) -> String {
    let mut out = String::new();
    let mut ours = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(section) = section_of(trimmed) {
            ours = PIPELINE.contains(&section);
        }
        if ours && !trimmed.is_empty() && !trimmed.starts_with('#') {
            out.push_str(trimmed);
            out.push('\n');
        }
    }
    out
}

/// The section of a header such as `[[window]]` or `[table.rows]`.
fn section_of(line: &str) -> Option<&str> {
    let name = line.trim_start_matches('[');
    let is_header = line.starts_with('[') && line.contains(']');
    let name = name.split([']', '.']).next()?.trim();
    let known = super::SECTIONS.iter().any(|section| section.name == name);
    (is_header && known).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn config(text: &str) -> Config {
        Config::from_text(Path::new("c.toml"), text).expect("a config")
    }

    #[test]
    fn the_pipeline_is_kept_without_the_rest() {
        let text = "# mine\n[agent]\ngateway = \"g\"\n\n[engine]\nout_of_order = \"3s\"\n\
                    [[window]]\nname = \"w\" # one\nkind = \"tumbling\"\nsize = \"1m\"\n\
                    channels = [\n  \"temp\",\n]\n[[forward]]\nname = \"x\"\n\
                    broker = \"127.0.0.1:1883\"\n[[window]]\nname = \"v\"\n\
                    kind = \"rows\"\nrows = 5\n";
        let of = config(text);
        let kept = of.pipeline.clone();
        assert!(!kept.contains("broker") && !kept.contains("mine"), "{kept}");
        assert_eq!(read(&kept), Some(of.engine));
    }

    #[test]
    fn what_cannot_be_told_apart_is_not_kept() {
        for (name, text) in [
            ("a key without a section", "engine.out_of_order = \"3s\"\n"),
            (
                "a section in a list",
                "[engine]\nout_of_order = \"3s\"\n[[window]]\nname = \"w\"\nkind = \"tumbling\"\n\
                 size = \"1m\"\ndevices = [\n\"a\", \"\"\"\n[agent]\nb\"\"\"]\n",
            ),
        ] {
            let of = config(text);
            assert_eq!(of.pipeline, "", "{name}");
        }
    }

    #[test]
    fn words_of_another_version_are_none() {
        assert_eq!(read("[[window]]\nname = \"w\"\nkind = \"spiral\"\n"), None);
        assert_eq!(read("nonsense"), None);
        assert_eq!(read(""), Some(config("").engine));
    }
}
