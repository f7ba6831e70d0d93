//! Columns of text for a person: the first is a name and stands at the left, the others
//! are figures and end at the same place. Knows no figure. Answers of a command are
//! printed by [`crate::shell::output`], which has CSV as well.

use crate::shell::width;

/// Lines whose cells stand in columns, two spaces apart, without spaces at the end.
/// The first row is the head.
#[must_use]
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| width::of(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, columns))| match column {
            0 => width::left(cell, *columns),
            _ => width::right(cell, *columns),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_in_columns() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let rows = [
            row(&["device", "lost", "closes"]),
            row(&["boiler-é", "12345", "yes"]),
            row(&["b", "0"]),
        ];
        assert_eq!(
            columns(&rows),
            "device     lost  closes\nboiler-é  12345     yes\nb             0"
        );
        assert_eq!(columns(&[]), "");
    }
}
