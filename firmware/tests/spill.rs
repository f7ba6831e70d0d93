//! The spill beside the gateway of the rig: what comes back, what is declared, and what
//! a cut at every step of the flash leaves.

#![allow(clippy::unwrap_used)] // helpers of tests

mod rig;
mod spill {
    pub(crate) mod ram;
}

use std::ops::Range;

use forebay_firmware::spill::limits::{BATCH, FAILURES_MAX, ITEM_BYTES_MAX, TAIL};
use forebay_firmware::spill::{BadRegion, FlashError, FlashLog, Pushed, SpillStore};
use forebay_firmware::wire::ids::{BootId, ChannelNo, Tick};
use forebay_firmware::wire::limits::LINE_BYTES_MAX;
use forebay_firmware::wire::message::{GapReason, Quality};
use forebay_firmware::{Accounts, Device, DeviceConfig};
use proptest::prelude::*;
use rig::gateway::{Gateway, Taken};
use spill::ram::{Failed, Ram};

const RING: usize = 128;
const PAGE: usize = 4_096;
const SMALL: usize = 1_024;
/// 128 readings of the ring last longer than the silence that begins a spill.
const SAMPLE_US: u64 = 10_000;

type Flash<const P: usize = PAGE> = Ram<4, P>;

/// A device, its flash and the gateway that it may reach.
struct Field<const P: usize> {
    device: Box<Device<RING>>,
    log: FlashLog<Flash<P>>,
    now: Tick,
    boot: BootId,
}

/// What the reading of an ordinal holds.
fn value(ordinal: u64) -> i32 {
    (ordinal * 31 % 1_999) as i32 - 999
}

fn log<const P: usize>(flash: &Flash<P>) -> FlashLog<Flash<P>> {
    let end = flash.0.borrow().bytes.len() as u32;
    FlashLog::new(flash.clone(), 0..end).unwrap()
}

impl<const P: usize> Field<P> {
    /// Power comes on; what RAM held is gone.
    fn boot(flash: &Flash<P>, boot: u32) -> Self {
        let config = DeviceConfig {
            boot: BootId(boot),
            ..rig::CONFIG
        };
        let mut field = Field {
            device: Box::new(Device::new(config, &rig::channels()).unwrap()),
            log: log(flash),
            now: Tick(0),
            boot: BootId(boot),
        };
        // A flash without power says so again later.
        let _ = field.device.begin_spill(&mut field.log);
        field
    }

    fn produced(&self) -> u64 {
        self.device.stats().produced
    }

    /// A pass of the main loop with one sample.
    fn sample(&mut self) -> Result<bool, FlashError<Failed>> {
        self.now.0 += SAMPLE_US;
        let sample = Ok(value(self.produced()));
        self.device
            .on_sample(ChannelNo(0), self.now, sample)
            .unwrap();
        self.step()
    }

    fn step(&mut self) -> Result<bool, FlashError<Failed>> {
        let outcome = self.device.spill(&mut self.log);
        assert!(self.device.stats().closes(), "{:?}", self.device.stats());
        outcome
    }

    fn sample_many(&mut self, count: u64) {
        (0..count).for_each(|_| {
            self.sample().unwrap();
        });
    }

    /// The line for so long; samples go on when told. A commit in each pass.
    fn link(&mut self, gateway: &mut Gateway, passes: u64, sampling: bool) {
        let mut line = [0; LINE_BYTES_MAX];
        for _ in 0..passes {
            if sampling {
                self.sample().unwrap();
            } else {
                self.now.0 += SAMPLE_US;
                self.step().unwrap();
            }
            let mut replies = Vec::new();
            while let bytes @ 1.. = self.device.poll_tx(self.now, &mut line) {
                replies.extend(gateway.take(&line[..bytes]));
            }
            replies.extend(gateway.commit());
            for reply in replies {
                self.device.on_rx(&reply, self.now);
            }
            assert!(self.device.stats().closes(), "{:?}", self.device.stats());
        }
    }

    /// Ordinals of this boot that came, each with its own value, and those declared lost.
    fn judge(&self, gateway: &Gateway) -> (Vec<u64>, Vec<u64>) {
        let (mut came, mut lost) = (Vec::new(), Vec::new());
        for ((boot, ordinal), taken) in &gateway.durable {
            match taken {
                _ if *boot != self.boot => {}
                Taken::Reading(reading) => {
                    assert_eq!(
                        (reading.value, reading.quality),
                        (value(*ordinal), Quality::Ok)
                    );
                    assert_eq!(reading.tick, Tick((ordinal + 1) * SAMPLE_US));
                    came.push(*ordinal);
                }
                Taken::Gap(reason) => {
                    assert_eq!(*reason, GapReason::RingFull);
                    lost.push(*ordinal);
                }
            }
        }
        (came, lost)
    }
}

#[test]
fn what_the_ring_does_not_hold_comes_back_in_order() {
    let ring = RING as u64;
    for (name, samples) in [
        ("fits the ring", ring),
        ("one more: the tail", ring + 1),
        ("a batch less one", ring + BATCH as u64 - 1),
        ("a batch: the store", ring + BATCH as u64),
        ("many", 5_000),
    ] {
        let flash = Flash::<PAGE>::new(16);
        let mut field = Field::boot(&flash, 7);
        field.sample_many(samples);
        let stats = field.device.stats();
        assert_eq!(
            (stats.produced, stats.waiting),
            (samples, samples),
            "{name}"
        );
        let mut gateway = Gateway::default();
        field.link(&mut gateway, 2_000, false);
        let (came, lost) = field.judge(&gateway);
        assert_eq!((came.len() as u64, lost.len()), (samples, 0), "{name}");
        assert!(came.into_iter().eq(0..samples), "{name}");
        assert_eq!(field.device.stats().acked, samples, "{name}");
        let used = flash.0.borrow().bytes_written > 0;
        assert_eq!(used, samples >= ring + BATCH as u64, "{name}");
    }
}

#[test]
fn sampling_goes_on_while_it_comes_back_and_after() {
    let flash = Flash::<PAGE>::new(16);
    let mut field = Field::boot(&flash, 7);
    let mut gateway = Gateway::default();
    for _ in 0..3 {
        field.sample_many(3_000);
        field.link(&mut gateway, 2_000, true);
    }
    let produced = field.produced();
    field.link(&mut gateway, 100, false);
    let (came, lost) = field.judge(&gateway);
    assert_eq!((came.len() as u64, lost.len()), (produced, 0));
    assert_eq!(produced, 15_000);
    // All is as without a spill again: samples go to the ring alone.
    let before = flash.0.borrow().bytes_written;
    field.link(&mut gateway, 500, true);
    assert_eq!(flash.0.borrow().bytes_written, before);
}

#[test]
fn with_the_store_full_the_oldest_are_overwritten_and_declared() {
    let flash = Flash::<PAGE>::new(4);
    let mut field = Field::boot(&flash, 7);
    field.sample_many(20_000);
    let mut gateway = Gateway::default();
    field.link(&mut gateway, 2_000, false);
    let (came, lost) = field.judge(&gateway);
    // The newest, without a hole, and before them the gap.
    let first = came[0];
    assert!(came.iter().copied().eq(first..20_000));
    assert!(lost.iter().copied().eq(0..first));
    assert!(came.len() > 1_500, "{}", came.len());
    let stats = field.device.stats();
    assert_eq!(stats.gap(GapReason::RingFull), first);
    assert_eq!(stats.acked, came.len() as u64);
    // Pages wear evenly.
    let erases = flash.0.borrow().erases.clone();
    let (least, most) = (erases.iter().min(), erases.iter().max());
    assert!(most.unwrap() - least.unwrap() <= 1, "{erases:?}");
}

#[test]
fn what_a_reading_takes_of_the_flash() {
    let flash = Flash::<PAGE>::new(16);
    let mut field = Field::boot(&flash, 7);
    field.sample_many(5_000);
    let cells = flash.0.borrow();
    let stored = (5_000 - RING as u64) / BATCH as u64 * BATCH as u64;
    let used = PAGE as f64 * f64::from(cells.erases.iter().sum::<u32>()) / stored as f64;
    // The number in docs/spill.md.
    assert!((5.0..=7.5).contains(&used), "{used}");
}

#[test]
fn gaps_among_the_readings_keep_their_place_and_reason() {
    let flash = Flash::<PAGE>::new(16);
    let mut field = Field::boot(&flash, 7);
    field.sample_many(RING as u64 + 10);
    field.device.on_lost(GapReason::IsrFull, 5, field.now);
    for _ in 0..200 {
        field.now.0 += SAMPLE_US;
        field
            .device
            .on_sample(ChannelNo(0), field.now, Ok(1))
            .unwrap();
        field.step().unwrap();
    }
    let mut gateway = Gateway::default();
    field.link(&mut gateway, 500, false);
    let at = RING as u64 + 10;
    for ((_, ordinal), taken) in &gateway.durable {
        let in_gap = (at..at + 5).contains(ordinal);
        let want = in_gap.then_some(Taken::Gap(GapReason::IsrFull));
        assert_eq!(want.is_some(), matches!(taken, Taken::Gap(_)), "{ordinal}");
        assert!(want.is_none_or(|want| want == *taken), "{ordinal}");
    }
    assert_eq!(gateway.durable.len() as u64, field.produced());
    assert_eq!(field.device.stats().gap(GapReason::IsrFull), 5);
}

#[test]
fn without_steps_it_is_as_without_a_spill() {
    let flash = Flash::<PAGE>::new(4);
    let mut field = Field::boot(&flash, 7);
    for _ in 0..1_000 {
        field.now.0 += SAMPLE_US;
        let sample = Ok(value(field.produced()));
        field
            .device
            .on_sample(ChannelNo(0), field.now, sample)
            .unwrap();
        assert!(field.device.stats().closes());
    }
    let mut gateway = Gateway::default();
    field.link(&mut gateway, 200, false);
    let (came, lost) = field.judge(&gateway);
    assert_eq!((came.len() + lost.len()) as u64, 1_000);
    assert!(came.len() >= RING, "{}", came.len());
    assert_eq!(*came.last().unwrap(), 999);
    assert_eq!(flash.0.borrow().bytes_written, 0);
}

#[test]
fn steps_that_come_too_late_lose_the_newest_and_say_so() {
    let flash = Flash::<PAGE>::new(4);
    let mut field = Field::boot(&flash, 7);
    field.sample_many((RING + BATCH) as u64);
    // The store holds a batch; now the loop is stuck elsewhere.
    for _ in 0..TAIL + 9 {
        field.now.0 += SAMPLE_US;
        let sample = Ok(value(field.produced()));
        field
            .device
            .on_sample(ChannelNo(0), field.now, sample)
            .unwrap();
        assert!(field.device.stats().closes());
    }
    let mut gateway = Gateway::default();
    field.link(&mut gateway, 200, false);
    let (came, lost) = field.judge(&gateway);
    let kept = (RING + BATCH + TAIL - 1) as u64;
    assert!(came.into_iter().eq(0..kept));
    assert!(lost.into_iter().eq(kept..kept + 10));
}

#[test]
fn a_store_that_fails_is_given_up_at_the_limit_and_nothing_goes_uncounted() {
    for (name, failures, given_up) in [
        ("limit - 1", FAILURES_MAX - 1, false),
        ("limit", FAILURES_MAX, true),
    ] {
        let flash = Flash::<PAGE>::new(8);
        let mut field = Field::boot(&flash, 7);
        field.sample_many(1_000);
        flash.0.borrow_mut().failures = u32::from(failures);
        let failed = (0..2_000).filter(|_| field.sample().is_err()).count();
        assert_eq!(failed, usize::from(failures), "{name}");
        let mut gateway = Gateway::default();
        field.link(&mut gateway, 1_000, false);
        let (came, lost) = field.judge(&gateway);
        assert_eq!((came.len() + lost.len()) as u64, 3_000, "{name}");
        assert_eq!(!lost.is_empty(), given_up, "{name}");
        assert_eq!(*came.last().unwrap(), 2_999, "{name}");
    }
}

#[test]
fn a_damaged_item_is_a_gap_in_its_place() {
    let flash = Flash::<PAGE>::new(8);
    let mut damaged = 0;
    // One bit in each of the first two pages' bytes, one at a time.
    for at in (0..2 * PAGE).step_by(37) {
        let flash = Flash::<PAGE>::new(8);
        let mut field = Field::boot(&flash, 7);
        field.sample_many(2_000);
        flash.0.borrow_mut().bytes[at] ^= 0x10;
        let mut gateway = Gateway::default();
        field.link(&mut gateway, 500, false);
        let (came, lost) = field.judge(&gateway);
        assert_eq!((came.len() + lost.len()) as u64, 2_000, "byte {at}");
        // What stands behind it in its page cannot be found either; no more than that.
        assert!(lost.len() <= 900, "byte {at}: {}", lost.len());
        damaged += usize::from(!lost.is_empty());
    }
    assert!(damaged > 100, "{damaged}");
    assert_eq!(flash.0.borrow().steps, 0);
}

/// One boot without a gateway until the power goes after `steps` of the flash, or
/// after `samples`; what the store had acknowledged by then.
fn until_cut<const P: usize>(flash: &Flash<P>, boot: u32, steps: u64, samples: u64) -> (u64, u64) {
    flash.power(steps);
    let mut field = Field::boot(flash, boot);
    let mut stored_end = 0;
    for _ in 0..samples {
        let cut = field.sample().is_err();
        if cut {
            break;
        }
        stored_end = field.device.spilled_end().map_or(0, |end| end.0);
    }
    (stored_end, field.produced())
}

/// What the gateway has of `boot` in the end, after a boot with power and a line.
fn after_all<const P: usize>(flash: &Flash<P>, boot: u32) -> Gateway {
    flash.power(u64::MAX);
    let mut field = Field::boot(flash, boot);
    let mut gateway = Gateway::default();
    field.link(&mut gateway, 40, true);
    field.link(&mut gateway, 20, false);
    let (came, lost) = field.judge(&gateway);
    assert_eq!(lost.len(), 0);
    assert_eq!(came.len(), 40);
    gateway
}

fn check_declared(gateway: &Gateway, boot: u32, stored_end: u64, produced: u64, name: &str) {
    let declared = gateway.durable_of(BootId(boot));
    assert!(
        declared >= stored_end,
        "{name}: {declared} of {stored_end} stored"
    );
    assert!(
        declared <= produced,
        "{name}: {declared} of {produced} produced"
    );
}

#[test]
fn a_cut_at_every_step_hides_nothing_that_was_stored() {
    let whole = {
        let flash = Flash::<SMALL>::new(2);
        until_cut(&flash, 7, u64::MAX, 700);
        let cells = flash.0.borrow();
        assert!(cells.erases.iter().all(|erases| *erases >= 2), "used anew");
        cells.steps
    };
    for steps in 0..=whole {
        let flash = Flash::<SMALL>::new(2);
        let (stored_end, produced) = until_cut(&flash, 7, steps, 700);
        let gateway = after_all(&flash, 8);
        check_declared(&gateway, 7, stored_end, produced, &format!("step {steps}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Boots that are all cut off, and only the last has a gateway: #136 of
    /// sequential-storage is two torn writes, then a good one that is gone.
    #[test]
    fn cuts_in_boot_after_boot_hide_nothing(
        pages in 2_usize..5,
        cuts in prop::collection::vec((0_u64..9_000, 100_u64..1_500), 1..6),
    ) {
        let flash = Flash::<PAGE>::new(pages);
        let mut boots = Vec::new();
        for (boot, (steps, samples)) in (10..).zip(&cuts) {
            boots.push((boot, until_cut(&flash, boot, *steps, *samples)));
        }
        let gateway = after_all(&flash, 99);
        for (boot, (stored_end, produced)) in boots {
            check_declared(&gateway, boot, stored_end, produced, &format!("boot {boot}"));
        }
    }

    /// A queue that forgets nothing, with any mixture of pushes and pops.
    #[test]
    fn as_a_queue(
        moves in prop::collection::vec((prop::bool::weighted(0.6), 1_usize..=ITEM_BYTES_MAX), 1..300),
    ) {
        let flash = Ram::<8, 1_024>::new(5);
        let mut log = FlashLog::new(flash, 1_024..5 * 1_024).unwrap();
        let accounts = Accounts::default();
        let mut model = std::collections::VecDeque::new();
        let mut item = [0; ITEM_BYTES_MAX];
        for (number, (push, length)) in moves.into_iter().enumerate() {
            if push {
                let bytes = vec![number as u8; length];
                match log.push(&bytes, &accounts).unwrap() {
                    Pushed::Stored => model.push_back(bytes),
                    Pushed::Full => prop_assert!(model.len() >= 3, "full with {}", model.len()),
                }
            } else {
                let front = log.front(&mut item).unwrap().map(|bytes| item[..bytes].to_vec());
                prop_assert_eq!(front.as_ref(), model.front());
                if front.is_some() {
                    log.pop();
                    model.pop_front();
                }
            }
        }
    }
}

#[test]
fn regions() {
    let page = PAGE as u32;
    for (name, region, want) in [
        ("fewest pages", 0..2 * page, None),
        ("not from the start", page..4 * page, None),
        ("one page", 0..page, Some(BadRegion::TooFew)),
        ("none", page..page, Some(BadRegion::TooFew)),
        (
            "backwards",
            Range {
                start: 2 * page,
                end: page,
            },
            Some(BadRegion::TooFew),
        ),
        ("half a page", 0..page + page / 2, Some(BadRegion::NotPages)),
        ("off the start", 4..2 * page, Some(BadRegion::NotPages)),
        ("beyond", 0..5 * page, Some(BadRegion::NotPages)),
    ] {
        let got = FlashLog::new(Flash::<PAGE>::new(4), region).err();
        assert_eq!(got, want, "{name}");
    }
    let unfit = |got: Option<BadRegion>| assert_eq!(got, Some(BadRegion::Unfit));
    unfit(FlashLog::new(Ram::<4, 512>::new(4), 0..2_048).err());
    unfit(FlashLog::new(Ram::<64, 4_096>::new(4), 0..8_192).err());
    // The smallest page, the largest unit, and an FRAM's.
    assert!(FlashLog::new(Ram::<32, 1_024>::new(4), 0..2_048).is_ok());
    assert!(FlashLog::new(Ram::<1, 1_024>::new(4), 0..2_048).is_ok());
}

#[test]
fn items_up_to_their_limit() {
    for (name, bytes, fits) in [
        ("limit - 1", ITEM_BYTES_MAX - 1, true),
        ("limit", ITEM_BYTES_MAX, true),
        ("far beyond", 2 * ITEM_BYTES_MAX, false),
    ] {
        let mut log = FlashLog::new(Ram::<32, 1_024>::new(4), 0..2_048).unwrap();
        let item = vec![1; bytes];
        let pushed = log.push(&item, &Accounts::default());
        assert_eq!(pushed.is_ok(), fits, "{name}");
        let mut back = [0; ITEM_BYTES_MAX];
        let front = log.front(&mut back).unwrap();
        assert_eq!(front, fits.then_some(bytes), "{name}");
    }
}
