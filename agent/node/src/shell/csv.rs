//! Records of CSV, RFC 4180, with `\n` at the ends of records as the exports of the log.

/// Appends a cell, in quotes where it needs them.
pub fn quoted(text: &[u8], out: &mut Vec<u8>) {
    if !text.iter().any(|byte| b",\"\r\n".contains(byte)) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// A record with its end.
#[must_use]
pub fn record<S: AsRef<str>>(cells: &[S]) -> String {
    let mut out = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        quoted(cell.as_ref().as_bytes(), &mut out);
    }
    // A record of one empty cell would be an empty line, which readers pass over.
    if out.is_empty() {
        out.extend_from_slice(b"\"\"");
    }
    out.push(b'\n');
    // Quotes are put around whole texts.
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_need_it() {
        for (name, cells, want) in [
            ("plain", &["a", "", "c"][..], "a,,c\n"),
            ("a comma", &["a,b", "c"], "\"a,b\",c\n"),
            ("a quote", &["a\"b"], "\"a\"\"b\"\n"),
            ("line ends", &["a\r\nb", "c\nd"], "\"a\r\nb\",\"c\nd\"\n"),
            ("wide", &["温度", "é"], "温度,é\n"),
            ("one empty", &[""], "\"\"\n"),
        ] {
            assert_eq!(record(cells), want, "{name}");
        }
    }
}
