//! Files of the log that are cut short or have a flipped bit: the open either says
//! that the directory is damaged, or gives back what was written, whole batches
//! from the front, and says what is missing. It never panics, hangs, gives other
//! bytes, or begins an epoch that was used before.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_core::store::{Store, StoreInfo};
use forebay_core::units::Offset;
use forebay_node::store::{LogStore, OpenError};

use super::kill::{batch, recovered};

const BATCHES: u64 = 40;
/// Flipped bits per file, spread over it.
const FLIPS: u64 = 40;

/// A closed log, and a copy of it per case.
struct Template {
    info: StoreInfo,
    dir: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Template {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut store = LogStore::open(dir.path()).unwrap();
        for n in 0..BATCHES {
            store.append(&batch(n)).unwrap();
            store.sync().unwrap();
        }
        let info = store.info();
        drop(store);
        let generation = dir.path().join("log/g-00000001");
        let entries = fs::read_dir(generation).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = paths
            .filter(|path| path.is_file())
            .map(|path| path.strip_prefix(dir.path()).unwrap().to_owned())
            .collect();
        files.sort();
        files.push("log/identity".into());
        Self { info, dir, files }
    }

    /// A copy whose `file` was changed.
    fn copy(&self, file: &Path, change: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir_all(copy.path().join("log/g-00000001/blobs")).unwrap();
        for name in &self.files {
            fs::copy(self.dir.path().join(name), copy.path().join(name)).unwrap();
        }
        let path = copy.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
        copy
    }
}

/// Opens what is left.
fn check(template: &Template, dir: &Path, name: &str) {
    let store = match LogStore::open(dir) {
        Ok(store) => store,
        Err(error) => {
            assert!(
                matches!(error, OpenError::Damaged { .. }),
                "{name}: {error}"
            );
            return;
        }
    };
    let count = recovered(&store);
    let info = store.info();
    assert_eq!(info.log_id, template.info.log_id, "{name}");
    assert!(info.epoch > template.info.epoch, "{name}: {info:?}");
    let losses = store.losses();
    if count == BATCHES {
        assert_eq!(losses, [], "{name}");
    } else {
        // Both partitions end too early.
        assert_eq!(losses.len(), 2, "{name}: {count} batches");
        assert!(
            losses.iter().all(|loss| loss.had == Offset(BATCHES - 1)),
            "{name}"
        );
    }
}

#[test]
fn files_cut_short_are_an_error_or_lose_only_the_end() {
    let template = Template::new();
    for file in &template.files {
        let len = fs::metadata(template.dir.path().join(file)).unwrap().len() as usize;
        for keep in [0, 1, len / 2, len - 1] {
            let name = format!("{} cut to {keep} of {len}", file.display());
            let copy = template.copy(file, |bytes| bytes.truncate(keep));
            check(&template, copy.path(), &name);
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    let template = Template::new();
    for file in &template.files {
        let len = fs::metadata(template.dir.path().join(file)).unwrap().len();
        for n in 0..FLIPS {
            let at = (len - 1) * n / (FLIPS - 1);
            let bit = n % 8;
            let name = format!("{} byte {at} of {len} bit {bit}", file.display());
            let copy = template.copy(file, |bytes| bytes[at as usize] ^= 1 << bit);
            check(&template, copy.path(), &name);
        }
    }
}
