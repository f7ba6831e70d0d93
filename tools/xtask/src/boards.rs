//! What `firmware/boards/budgets.toml` says of each board. A board that is not in
//! it is not built, so each folder there must be.

use toml_edit::{DocumentMut, Item};

use crate::workspace::Workspace;

/// One board, and what its image may take on the chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Board {
    pub(crate) name: String,
    /// The rustup target that it is built for.
    pub(crate) target: String,
    pub(crate) flash_bytes: u64,
    /// Static RAM beside the ring.
    pub(crate) ram_bytes: u64,
    /// The backlog ring: as large as the chip allows, so counted apart.
    pub(crate) ring_bytes: u64,
}

impl Board {
    /// Whether QEMU models it.
    pub(crate) fn is_qemu(&self) -> bool {
        self.name.starts_with("qemu-")
    }

    /// The packages beside its own that only a chip can run, and that are checked with it.
    pub(crate) fn own_packages(&self) -> [&'static str; 2] {
        let shared = if self.is_qemu() {
            "forebay-board-qemu"
        } else {
            "forebay-board-hal"
        };
        ["forebay-board-chip", shared]
    }
}

/// All boards, in the order of the file.
///
/// # Errors
/// Names the file, the board and the key.
pub(crate) fn read(ws: &Workspace) -> Result<Vec<Board>, String> {
    let path = ws.boards().join("budgets.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let boards = parse(&text)?;
    for name in ws.board_names() {
        if !boards.iter().any(|board| board.name == name) {
            return Err(format!(
                "budgets.toml: no [{name}], but there is firmware/boards/{name}"
            ));
        }
    }
    Ok(boards)
}

fn parse(text: &str) -> Result<Vec<Board>, String> {
    let doc: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("budgets.toml: {error}"))?;
    doc.iter().map(|(name, item)| board(name, item)).collect()
}

fn board(name: &str, table: &Item) -> Result<Board, String> {
    let number = |key: &str| {
        table
            .get(key)
            .and_then(Item::as_integer)
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| format!("budgets.toml: [{name}] has no {key} in bytes"))
    };
    let target = table.get("target").and_then(Item::as_str);
    Ok(Board {
        name: name.to_owned(),
        target: target
            .ok_or_else(|| format!("budgets.toml: [{name}] has no target"))?
            .to_owned(),
        flash_bytes: number("flash_bytes")?,
        ram_bytes: number("ram_bytes")?,
        ring_bytes: number("ring_bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[a]\ntarget = \"t\"\nflash_bytes = 100\nram_bytes = 10\nring_bytes = 5\n";

    #[test]
    fn a_board_has_its_target_and_its_budget() {
        let boards = parse(GOOD).unwrap();
        assert_eq!(
            (boards[0].name.as_str(), boards[0].target.as_str()),
            ("a", "t")
        );
        assert_eq!((boards[0].flash_bytes, boards[0].ring_bytes), (100, 5));
    }

    #[test]
    fn what_is_missing_is_named() {
        for (name, text, want) in [
            ("no target", GOOD.replace("target", "tar"), "target"),
            ("no flash", GOOD.replace("flash", "flush"), "flash_bytes"),
            ("negative", GOOD.replace("= 5", "= -5"), "ring_bytes"),
            ("no toml", "[a".to_owned(), "budgets.toml"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(want), "{name}: {error}");
        }
    }

    #[test]
    fn the_file_of_this_clone_names_every_board() {
        let boards = read(&Workspace::here()).unwrap();
        assert!(
            boards
                .iter()
                .all(|board| board.target.starts_with("thumbv"))
        );
    }
}
