//! What `firmware/boards/budgets.toml` says of each board. A board that is not in
//! it is not built, so each folder there must be.

use toml_edit::{DocumentMut, Item};

use crate::workspace::Workspace;

/// One board, and what its image may take on the chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Board {
    pub(crate) name: String,
    /// The package of its firmware; its name unless another is given.
    pub(crate) package: String,
    /// Features of the package, with commas between; none when empty.
    pub(crate) features: String,
    /// How its image gets onto the chip; `None` for boards that only QEMU has.
    pub(crate) flash: Option<Flash>,
    /// The rustup target that it is built for.
    pub(crate) target: String,
    pub(crate) flash_bytes: u64,
    /// Static RAM beside the ring.
    pub(crate) ram_bytes: u64,
    /// The backlog ring: as large as the chip allows, so counted apart.
    pub(crate) ring_bytes: u64,
}

/// How an image gets onto a chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flash {
    /// The chip's name for `probe-rs`.
    pub(crate) chip: String,
    /// What the boot loader of the chip takes as a file on a drive, if it does.
    pub(crate) uf2: Option<Uf2>,
}

/// The drive of a boot loader that takes UF2 files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uf2 {
    /// The chip's number in UF2 files.
    pub(crate) family: u32,
    /// The label of the drive.
    pub(crate) drive: String,
}

impl Board {
    /// Whether QEMU models it.
    pub(crate) fn is_qemu(&self) -> bool {
        self.name.starts_with("qemu-")
    }

    /// The packages beside its own that only a chip can run, and that are checked with it.
    pub(crate) fn own_packages(&self) -> Vec<&'static str> {
        let mut packages = vec!["forebay-board-chip"];
        packages.push(if self.is_qemu() {
            "forebay-board-qemu"
        } else {
            "forebay-board-hal"
        });
        if self.name.starts_with("rp") {
            packages.push("forebay-board-rp");
        }
        packages
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
        if !boards.iter().any(|board| board.package == name) {
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
    let text = |key: &str| table.get(key).and_then(Item::as_str);
    let target = text("target");
    Ok(Board {
        name: name.to_owned(),
        package: text("package").unwrap_or(name).to_owned(),
        features: text("features").unwrap_or_default().to_owned(),
        flash: flash(name, table)?,
        target: target
            .ok_or_else(|| format!("budgets.toml: [{name}] has no target"))?
            .to_owned(),
        flash_bytes: number("flash_bytes")?,
        ram_bytes: number("ram_bytes")?,
        ring_bytes: number("ring_bytes")?,
    })
}

fn flash(name: &str, table: &Item) -> Result<Option<Flash>, String> {
    let text = |key: &str| table.get(key).and_then(Item::as_str).map(str::to_owned);
    let Some(chip) = text("probe_chip") else {
        return Ok(None);
    };
    let family = table.get("uf2_family").and_then(Item::as_integer);
    let uf2 = match (family, text("uf2_drive")) {
        (None, None) => None,
        (Some(family), Some(drive)) => {
            let family = u32::try_from(family)
                .map_err(|_| format!("budgets.toml: [{name}]: uf2_family has 32 bits"))?;
            Some(Uf2 { family, drive })
        }
        (Some(_), None) | (None, Some(_)) => {
            return Err(format!(
                "budgets.toml: [{name}]: uf2_family and uf2_drive belong together"
            ));
        }
    };
    Ok(Some(Flash { chip, uf2 }))
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
