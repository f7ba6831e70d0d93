//! The table: what is measured, under which conditions, what others do in the same
//! run, what must be reached, and whether it is.

use std::path::Path;

/// One line of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) what: String,
    /// The conditions: a sync policy, an input.
    pub(crate) under: String,
    pub(crate) measured: String,
    /// What others did in the same run: a raw file, another engine.
    pub(crate) beside: String,
    pub(crate) must: String,
    /// `None` for what is only told.
    pub(crate) reached: Option<bool>,
}

impl Row {
    fn verdict(&self) -> &'static str {
        match self.reached {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "",
        }
    }

    fn cells(&self) -> [&str; 6] {
        [
            &self.what,
            &self.under,
            &self.measured,
            &self.beside,
            &self.must,
            self.verdict(),
        ]
    }
}

/// The names of the columns.
pub(crate) type Head = [&'static str; 6];

/// Measures in a folder that is there for it, and removed whatever comes of it, and prints
/// the table; whether everything was reached.
///
/// # Errors
/// What was measured could not be, or the folder cannot be made or removed.
pub(crate) fn measured_in(
    dir: &Path,
    head: &Head,
    measure: impl FnOnce() -> Result<Vec<Row>, String>,
) -> Result<bool, String> {
    let named = |error: std::io::Error| format!("{}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(named)?;
    let rows = measure();
    let removed = std::fs::remove_dir_all(dir);
    let rows = rows?;
    removed.map_err(named)?;
    println!("\n{}", text(head, &rows));
    Ok(rows.iter().all(|row| row.reached != Some(false)))
}

/// The rows in columns.
fn text(head: &Head, rows: &[Row]) -> String {
    let lines: Vec<[&str; 6]> = std::iter::once(*head)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let lengths = lines.iter().map(|line| line[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut out = String::new();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(widths) {
            text += &format!("{cell:<width$}  ");
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_in_columns() {
        let row = |what: &str, measured: &str, reached| Row {
            what: what.into(),
            under: "group 50 ms".into(),
            measured: measured.into(),
            beside: String::new(),
            must: ">= 1".into(),
            reached,
        };
        let rows = [
            row("a", "2", Some(true)),
            row("longer", "0.5 MB/s", Some(false)),
        ];
        let head = ["", "sync policy", "measured", "raw file", "must reach", ""];
        assert_eq!(
            text(&head, &rows),
            "        sync policy  measured  raw file  must reach\n\
             a       group 50 ms  2                   >= 1        reached\n\
             longer  group 50 ms  0.5 MB/s            >= 1        MISSED\n"
        );
    }
}
