//! Reads the rows of tumbling windows as the engine writes them, member by member in
//! their order, without a tree of them. A line of another form is none.
//!
//! Bound: no memory beside the line. The form stands in `agent/core/docs/windows.md`.

use crate::engine::config::Aggregate;
use crate::json::write_text;
use crate::live::ChannelKey;
use crate::units::EventTime;
use crate::utc::TimeReader;

/// How lines of one channel begin: `{"stream":"minute","device":"…","channel":"…"`.
pub(super) fn prefix(window: &str, key: &ChannelKey) -> Vec<u8> {
    let mut out = b"{\"stream\":".to_vec();
    write_text(window, &mut out);
    out.extend_from_slice(b",\"device\":");
    write_text(&key.uid.to_string(), &mut out);
    out.extend_from_slice(b",\"channel\":");
    write_text(&key.channel, &mut out);
    out.extend_from_slice(b",\"start\":\"");
    out
}

/// The first bytes of a row of a window, which say of which stream and key it is; `None`
/// of other rows.
#[must_use]
pub fn row_key(line: &[u8]) -> Option<&[u8]> {
    const MARK: &[u8] = b"\",\"start\":\"";
    // Quotes in names have a backslash before them: none looks like the mark.
    let quotes = (0..line.len()).filter(|at| line[*at] == b'"');
    let at = quotes
        .into_iter()
        .find(|at| line[*at..].starts_with(MARK))?;
    line.get(..at + MARK.len())
}

/// What a row says beside its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowLine {
    pub start: EventTime,
    pub end: EventTime,
    pub revision: u64,
    pub is_final: bool,
}

/// Labels of the figures of a window, as they stand in its rows.
pub(super) fn labels(figures: &[Aggregate]) -> Vec<Vec<u8>> {
    let label = |figure: &Aggregate| format!(",\"{figure}\":").into_bytes();
    figures.iter().map(label).collect()
}

/// Reads what stands behind the [`prefix`] of a line, and its figures in the order of
/// `labels`: NaN where it says null.
pub(super) fn read(
    rest: &[u8],
    labels: &[impl AsRef<[u8]>],
    times: &mut TimeReader,
    figures: &mut Vec<f64>,
) -> Option<WindowLine> {
    let Said {
        start,
        end,
        revision,
        is_final,
        mut rest,
    } = said(rest)?;
    figures.clear();
    for label in labels {
        let (text, behind) = number(rest.strip_prefix(label.as_ref())?);
        figures.push(figure(text)?);
        rest = behind;
    }
    let line = WindowLine {
        start: times.read(start)?,
        end: times.read(end)?,
        revision: std::str::from_utf8(revision).ok()?.parse().ok()?,
        is_final,
    };
    (rest == b"}").then_some(line)
}

/// What stands before the figures, as text.
struct Said<'a> {
    start: &'a [u8],
    end: &'a [u8],
    revision: &'a [u8],
    is_final: bool,
    rest: &'a [u8],
}

fn said(rest: &[u8]) -> Option<Said<'_>> {
    let (start, rest) = until(rest, b'"')?;
    let (end, rest) = until(rest.strip_prefix(b",\"end\":\"")?, b'"')?;
    let rest = rest.strip_prefix(b",\"revision\":")?;
    let (revision, rest) = number(rest);
    let (is_final, rest) = match rest.strip_prefix(b",\"final\":true") {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix(b",\"final\":false")?),
    };
    let rest = rest.strip_prefix(b",\"reason\":\"idle\"").unwrap_or(rest);
    let rest = rest.strip_prefix(b",\"truncated\":true").unwrap_or(rest);
    Some(Said {
        start,
        end,
        revision,
        is_final,
        rest,
    })
}

/// The labels of the figures of a row, one behind the other, from what stands behind its
/// [`prefix`].
pub(super) fn note(rest: &[u8]) -> Option<Vec<u8>> {
    let mut rest = said(rest)?.rest;
    let mut out = Vec::new();
    while rest != b"}" {
        let after = rest.strip_prefix(b",\"")?;
        let end = after.iter().position(|byte| *byte == b'"')?;
        let label = rest
            .get(..end + 4)
            .filter(|label| label.ends_with(b"\":"))?;
        out.extend_from_slice(label);
        (_, rest) = number(rest.get(label.len()..)?);
    }
    Some(out)
}

fn until(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| *b == byte)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Up to the next member or the end of the object.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let at = text.iter().position(|b| matches!(b, b',' | b'}'));
    text.split_at(at.unwrap_or(text.len()))
}

fn figure(text: &[u8]) -> Option<f64> {
    if text == b"null" {
        return Some(f64::NAN);
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::ids::DeviceUid;

    fn key() -> ChannelKey {
        ChannelKey {
            uid: DeviceUid([1, 2, 3, 4, 5, 6, 7, 8]),
            channel: "a \"quoted\" one".into(),
        }
    }

    fn read_whole(line: &str) -> Option<(WindowLine, Vec<f64>)> {
        let labels = labels(&[Aggregate::Count, Aggregate::Mean, Aggregate::Percentile(5)]);
        let rest = line.as_bytes().strip_prefix(&*prefix("minute", &key()))?;
        let mut figures = Vec::new();
        let read = read(rest, &labels, &mut TimeReader::default(), &mut figures)?;
        Some((read, figures))
    }

    #[test]
    fn lines_are_read_or_are_none() {
        let start =
            r#"{"stream":"minute","device":"0102030405060708","channel":"a \"quoted\" one""#;
        let times = r#","start":"2026-03-01T00:00:00Z","end":"2026-03-01T00:01:00Z""#;
        let figures = r#","count":3,"mean":-1.5e-7,"p05":null}"#;
        let is_final = r#","revision":2,"final":true"#;
        for (name, line, is_read) in [
            ("plain", format!("{start}{times}{is_final}{figures}"), true),
            (
                "idle and truncated",
                format!(r#"{start}{times}{is_final},"reason":"idle","truncated":true{figures}"#),
                true,
            ),
            (
                "not final",
                format!(r#"{start}{times},"revision":0,"final":false{figures}"#),
                true,
            ),
            (
                "cut",
                format!("{start}{times}{is_final},\"count\":3"),
                false,
            ),
            (
                "another figure",
                format!(r#"{start}{times}{is_final},"count":3,"min":1}}"#),
                false,
            ),
            (
                "one more",
                format!(r#"{start}{times}{is_final},"count":3,"mean":1,"p05":1,"x":1}}"#),
                false,
            ),
            (
                "no time",
                format!("{start},\"start\":\"x\"{is_final}{figures}"),
                false,
            ),
            (
                "another channel",
                line_of("b", times, is_final, figures),
                false,
            ),
        ] {
            let read = read_whole(&line);
            assert_eq!(read.is_some(), is_read, "{name}: {line}");
            let Some((line, figures)) = read else {
                continue;
            };
            assert_eq!(line.end.0 - line.start.0, 60_000_000, "{name}");
            assert_eq!(line.is_final, name != "not final");
            assert_eq!(figures[..2], [3.0, -1.5e-7], "{name}");
            assert!(figures[2].is_nan(), "{name}");
        }
    }

    fn line_of(channel: &str, times: &str, is_final: &str, figures: &str) -> String {
        let start =
            format!(r#"{{"stream":"minute","device":"0102030405060708","channel":"{channel}""#);
        format!("{start}{times}{is_final}{figures}")
    }

    #[test]
    fn the_key_of_a_row_is_its_prefix() {
        let prefix = prefix("a\"b", &key());
        let line = [&prefix, &b"2026-03-01T00:00:00Z\",\"end\":1}"[..]].concat();
        assert_eq!(row_key(&line), Some(&*prefix));
        assert_eq!(row_key(b"{\"stream\":\"late\",\"time\":\"x\"}"), None);
    }
}
