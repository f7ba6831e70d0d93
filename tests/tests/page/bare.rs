//! An agent without ports and its page in a browser: what it shows was recorded.

use std::fmt::Write as _;

use forebay_tests::browser::Browser;
use forebay_tests::process::forebay_bin;

use super::served::Served;

/// Dropping it ends both.
pub(crate) struct Bare {
    pub(crate) browser: Browser,
    pub(crate) agent: Served,
}

impl Bare {
    pub(crate) fn start() -> Self {
        let mut agent = Served::new(tempfile::tempdir().unwrap(), |port| {
            format!(
                "[agent]\ngateway = \"plant-1\"\ndata_dir = \"data\"\nclock = \"always\"\n\
                 [api]\nlisten = \"127.0.0.1:{port}\"\n"
            )
        });
        agent.starts(forebay_bin());
        Self {
            browser: Browser::start(),
            agent,
        }
    }

    pub(crate) fn ingest(&self, lines: &str) {
        self.agent.ingest("in.ndjson", lines);
    }

    pub(crate) fn open(&mut self) {
        self.browser.go(&self.agent.address());
    }
}

/// Writes a reading as [`Bare::ingest`] takes it.
pub(crate) fn line(out: &mut String, device: &str, channel: &str, time: i64, value: &str) {
    writeln!(
        out,
        r#"{{"device":"{device}","channel":"{channel}","unit":"Cel","time":{time},"value":{value}}}"#
    )
    .unwrap();
}
