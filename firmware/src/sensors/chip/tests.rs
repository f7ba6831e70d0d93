//! A chip that counts what it is asked for.

use super::*;

const WAIT_US: u32 = 1_000;

#[derive(Debug, Clone, Copy)]
enum Quantity {
    First,
    Second,
}

impl From<Quantity> for usize {
    fn from(quantity: Quantity) -> usize {
        quantity as usize
    }
}

#[derive(Debug)]
struct Counting {
    wait_us: u32,
    begins: i32,
    collects: i32,
    fails: Option<Quality>,
}

impl Chip<2> for Counting {
    type Quantity = Quantity;

    fn kind(&self, _: Quantity) -> Kind {
        Kind {
            unit: "",
            scale: 0,
            range: (0, 1_000),
        }
    }

    fn begin(&mut self) -> Result<u32, Quality> {
        self.begins += 1;
        match self.fails {
            Some(quality) => Err(quality),
            None => Ok(self.wait_us),
        }
    }

    fn collect(&mut self) -> Result<[Value; 2], Quality> {
        self.collects += 1;
        Ok([Ok(self.collects), Ok(100 + self.collects)])
    }
}

fn chip(wait_us: u32) -> Shared<Counting, 2> {
    Shared::new(Counting {
        wait_us,
        begins: 0,
        collects: 0,
        fails: None,
    })
}

fn calls(shared: Shared<Counting, 2>) -> (i32, i32) {
    let chip = shared.release();
    (chip.begins, chip.collects)
}

#[test]
fn channels_that_are_due_together_share_one_measurement() {
    for wait_us in [0, WAIT_US] {
        let shared = chip(wait_us);
        let mut first = shared.channel(Quantity::First, "first", 10_000);
        let mut second = shared.channel(Quantity::Second, "second", 10_000);
        for round in 1..=3 {
            let now = u64::try_from(round).expect("small") * 10_000;
            assert_eq!(first.start(Tick(now)), wait_us);
            assert_eq!(second.start(Tick(now + 10)), wait_us.saturating_sub(10));
            assert_eq!(first.read(), Ok(round));
            assert_eq!(second.read(), Ok(100 + round));
        }
        assert_eq!(calls(shared), (3, 3), "{wait_us}");
    }
}

#[test]
fn no_value_is_given_twice() {
    let shared = chip(0);
    let mut first = shared.channel(Quantity::First, "first", 1_000);
    assert_eq!(first.start(Tick(5)), 0);
    assert_eq!(first.read(), Ok(1));
    // At once again: a new measurement, not the old value.
    assert_eq!(first.start(Tick(6)), 0);
    assert_eq!(first.read(), Ok(2));
    assert_eq!(first.read(), Ok(3), "without a start as well");
    assert_eq!(calls(shared), (3, 3));
}

#[test]
fn a_value_left_by_a_faster_channel_is_shared_only_while_young() {
    for (name, later_us, begins, want) in [
        ("limit - 1", SHARE_US - 1, 1, 101),
        ("limit", SHARE_US, 1, 101),
        ("limit + 1", SHARE_US + 1, 2, 102),
    ] {
        let shared = chip(0);
        let mut first = shared.channel(Quantity::First, "first", 1_000);
        let mut second = shared.channel(Quantity::Second, "second", 9_000);
        first.start(Tick(100));
        assert_eq!(first.read(), Ok(1), "{name}");
        second.start(Tick(100 + later_us));
        assert_eq!(second.read(), Ok(want), "{name}");
        assert_eq!(calls(shared).0, begins, "{name}");
    }
}

#[test]
fn a_measurement_that_nobody_collected_is_begun_anew() {
    for (name, later_us, begins) in [
        ("limit", u64::from(WAIT_US) + SHARE_US, 1),
        ("limit + 1", u64::from(WAIT_US) + SHARE_US + 1, 2),
    ] {
        let shared = chip(WAIT_US);
        let mut first = shared.channel(Quantity::First, "first", 1_000);
        first.start(Tick(100));
        first.start(Tick(100 + later_us));
        assert_eq!(first.read(), Ok(1), "{name}");
        assert_eq!(calls(shared), (begins, 1), "{name}");
    }
}

#[test]
fn a_chip_that_cannot_begin_is_asked_once_for_all_channels() {
    let shared = Shared::new(Counting {
        fails: Some(Quality::BusError),
        ..chip(WAIT_US).release()
    });
    let mut first = shared.channel(Quantity::First, "first", 10_000);
    let mut second = shared.channel(Quantity::Second, "second", 10_000);
    assert_eq!((first.start(Tick(9)), second.start(Tick(9))), (0, 0));
    assert_eq!(first.read(), Err(Quality::BusError));
    assert_eq!(second.read(), Err(Quality::BusError));
    assert_eq!(calls(shared), (1, 0));
}

#[test]
fn a_slow_chip_that_was_not_started_is_stale_and_then_had() {
    let shared = chip(WAIT_US);
    let mut first = shared.channel(Quantity::First, "first", 10_000);
    assert_eq!(first.read(), Err(Quality::Stale));
    assert_eq!(first.read(), Ok(1), "the one begun by the read before");
}
