//! The table: what is measured, under which conditions, what others do in the same
//! run, what must be reached, and whether it is.

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

/// The rows in columns.
pub(crate) fn text(head: &Head, rows: &[Row]) -> String {
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
