//! Pages of agent/node/docs that are made of lists in the code: a test of each list
//! compares, and writes the page where `FOREBAY_WRITE_DOCS` is set.

use std::path::Path;

/// Holds a page against what the code says.
///
/// # Errors
/// How to write it anew, where it is another.
pub fn checked(page: &str, made: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(page);
    if std::env::var_os("FOREBAY_WRITE_DOCS").is_some() {
        let written = std::fs::write(&path, made);
        return written.map_err(|error| format!("{}: {error}", path.display()));
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    if there == made {
        return Ok(());
    }
    Err(format!(
        "agent/node/docs/{page} is not what the code says: \
         FOREBAY_WRITE_DOCS=1 cargo test -p forebay --lib docs_of"
    ))
}
