//! Accounts at their edges.

use super::*;
use crate::limits::{BOOTS_PER_DEVICE_MAX, IMPORT_BOOT_FIRST, IMPORTS_MAX};
use crate::record::GapReason;

const fn source(uid: u64, boot: u32) -> Source {
    Source {
        uid: DeviceUid(uid.to_be_bytes()),
        boot: BootId(boot),
    }
}

#[test]
fn runs_are_judged_by_their_edges() {
    let account = Account {
        taken: 10,
        ..Account::default()
    };
    for (name, first, count, want) in [
        ("old", 0, 9, Run::Known),
        ("up to the edge", 5, 5, Run::Known),
        ("over the edge by one", 5, 6, Run::Fresh { skip: 5 }),
        ("next", 10, 1, Run::Fresh { skip: 0 }),
        (
            "one missing",
            11,
            1,
            Run::Ahead {
                missing_from: Ordinal(10),
            },
        ),
        ("end of the ordinals", 10, u64::MAX, Run::Fresh { skip: 0 }),
    ] {
        assert_eq!(account.judge(Ordinal(first), count), want, "{name}");
    }
}

#[test]
fn the_oldest_boot_is_folded_and_no_count_is_lost() {
    let mut ledger = Ledger::default();
    for boot in 0..=BOOTS_PER_DEVICE_MAX as u32 {
        let account = ledger.open(source(1, boot)).expect("one device");
        account.take_readings(2);
        account.take_gap(GapReason::RingFull, 3);
    }
    assert_eq!(ledger.get(source(1, 0)), None);
    assert!(ledger.get(source(1, 1)).is_some());
    let total = ledger.total();
    assert_eq!(total.readings, 2 * (BOOTS_PER_DEVICE_MAX as u64 + 1));
    assert_eq!(total.gap_total(), 3 * (BOOTS_PER_DEVICE_MAX as u64 + 1));
}

#[test]
fn imports_push_out_imports_and_never_a_boot() {
    let mut ledger = Ledger::default();
    let live = source(1, 7);
    ledger.open(live).expect("one device").take_readings(1);
    for nth in 0..=IMPORTS_MAX as u32 {
        let boot = ledger.next_import_boot(live.uid);
        assert_eq!(boot, BootId(IMPORT_BOOT_FIRST + nth));
        let account = ledger.open(Source { boot, ..live });
        account.expect("a known device").take_readings(1);
    }
    assert!(ledger.get(live).is_some());
    assert_eq!(ledger.get(source(1, IMPORT_BOOT_FIRST)), None);
    assert_eq!(ledger.total().readings, IMPORTS_MAX as u64 + 2);
}

#[test]
fn devices_are_bounded() {
    let mut ledger = Ledger::default();
    for uid in 0..DEVICES_MAX as u64 {
        assert!(ledger.open(source(uid, 0)).is_ok());
    }
    let one_more = source(DEVICES_MAX as u64, 0);
    assert_eq!(ledger.open(one_more).err(), Some(TooManyDevices));
    assert!(ledger.open(source(0, 1)).is_ok(), "a known device may boot");
}

#[test]
fn the_boot_that_a_device_is_in_is_never_folded_whatever_its_number() {
    let mut ledger = Ledger::default();
    // Drawn at random: falling, and where imports have theirs.
    let first = IMPORT_BOOT_FIRST + 100;
    let hello = |ledger: &mut Ledger, nth: u32| {
        let said = source(1, first - nth);
        let account = ledger.hello(said, ResetCause::PowerOn);
        account.expect("one device").take_readings(1);
        said
    };
    let most = BOOTS_PER_DEVICE_MAX as u32;
    for nth in 0..most {
        hello(&mut ledger, nth);
    }
    let running = hello(&mut ledger, most);
    assert_eq!(ledger.get(source(1, first)), None, "heard of first");
    // Boots that only a gap speaks of, and imports.
    for other in 0..most {
        ledger.open(source(1, other)).expect("a known device");
        let boot = ledger.next_import_boot(running.uid);
        ledger
            .open(Source { boot, ..running })
            .expect("a known device");
        ledger.hello(running, ResetCause::PowerOn).expect("known");
        assert_eq!(ledger.get(running).map(|a| a.taken), Some(1), "{other}");
    }
    let device = ledger.device(running.uid).expect("known");
    assert_eq!(device.newest(), Some(running.boot));
    assert_eq!(device.boots.len(), BOOTS_PER_DEVICE_MAX + IMPORTS_MAX);
    assert_eq!(ledger.total().readings, u64::from(most) + 1);
}

#[test]
fn what_a_device_says_to_have_given_out_is_missing_until_it_is_here() {
    let mut account = Account {
        said: 5,
        ..Account::default()
    };
    for (taken, missing) in [(4, 1), (5, 0), (6, 0)] {
        account.take_readings(taken - account.taken);
        assert_eq!(
            (account.missing(), account.produced()),
            (missing, taken.max(5))
        );
    }
}
