//! What is not whole is never deleted, also when the start that noted it was cut short
//! before the rest of it was sealed.

use forebay_core::store::Store as _;
use forebay_node::store::{LogStore, StoreSettings};

use super::contract::{Model, place_of};

#[test]
fn a_generation_that_is_marked_goes_to_quarantine() {
    for marked in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let settings = StoreSettings::default();
        let (mut store, _) = LogStore::open(dir.path(), settings).unwrap();
        let batch = Model::default().append(place_of(16, 0), &[10, 20, 30]);
        store.append(&batch).unwrap();
        store.sync().unwrap();
        drop(store);
        if marked {
            std::fs::write(dir.path().join("log/g-00000001/damaged"), b"").unwrap();
        }
        let (mut store, opened) = LogStore::open(dir.path(), settings).unwrap();
        assert_eq!(opened.losses, [], "what was noted is not told again");
        store.seal_all().unwrap();
        drop(store);
        // The next start has no directory of it to look at.
        let (store, _) = LogStore::open(dir.path(), settings).unwrap();
        assert!(!dir.path().join("log/g-00000001").exists());
        let kept = std::fs::read_dir(dir.path().join("quarantine"));
        assert_eq!(kept.is_ok_and(|kept| kept.count() == 1), marked);
        drop(store);
    }
}
