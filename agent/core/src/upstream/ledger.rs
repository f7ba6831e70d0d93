//! The receiver's ledger: a [`DeviceTally`] per gateway and device, kept in the sink
//! with the rows that it counts. Byte table: `agent/core/docs/upstream.md`.
//!
//! Always holds: what [`UpstreamLedger::take_writes`] gives belongs into the batch of
//! the rows that were counted, so a restart neither forgets nor doubles one. Bound:
//! [`DEVICES_MAX`] devices per gateway and [`UPSTREAM_DEVICES_MAX`] in all; what comes
//! of others is counted in one sum.

use std::collections::{BTreeMap, BTreeSet};

use forebay_wire::ids::{BootId, DeviceUid, Ordinal};

use super::tally::{DeviceTally, Tally};
use crate::ledger::GAP_REASONS;
use crate::limits::{DEVICES_MAX, UPSTREAM_DEVICES_MAX};
use crate::log::bytes::Reader;
use crate::payload::GatewayName;
use crate::record::{GapRecord, Record, Series};

/// Keys of tallies: this, the gateway, 0 and the uid.
pub(super) const DEVICE_PREFIX: &[u8] = b"device.";
/// Keys of sums of devices that are not told apart: this and the gateway.
pub(super) const OTHERS_PREFIX: &[u8] = b"others.";
/// Key of what holds for the whole ledger.
pub(super) const LEDGER_KEY: &[u8] = b"ledger";

/// Version of the byte table of [`LEDGER_KEY`].
const VERSION: u8 = 1;

/// Writes of the table Meta.
type Entry = (Vec<u8>, Vec<u8>);

/// What holds for the whole ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerHead {
    /// The sink is older than its ledger: boots count from the first ordinal that the
    /// ledger has met, and what the sink held before is in no tally.
    pub begun_late: bool,
    /// Readings and gaps of devices for which there was no room, of all gateways.
    pub others: Tally,
}

/// Records of a message by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    pub readings: u64,
    pub gap_records: u64,
    pub gap_readings: u64,
    pub clock_records: u64,
    pub table_records: u64,
}

/// Readings of one boot of a device in one message.
struct Slot {
    uid: DeviceUid,
    boot: BootId,
    first: Ordinal,
    last: Ordinal,
    count: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct UpstreamLedger {
    gateways: BTreeMap<GatewayName, BTreeMap<DeviceUid, DeviceTally>>,
    devices: usize,
    /// With what older versions have summed of all gateways.
    head: LedgerHead,
    /// The head is in the sink as it is here.
    is_head_kept: bool,
    others: BTreeMap<GatewayName, Tally>,
    others_changed: BTreeSet<GatewayName>,
    /// Not in a batch yet.
    changed: BTreeMap<GatewayName, BTreeSet<DeviceUid>>,
    /// In the batch that was taken last.
    written: Vec<(GatewayName, DeviceUid)>,
}

impl UpstreamLedger {
    /// Takes an entry of the table Meta; `None` when it cannot be read.
    pub(super) fn load_device(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let (name, uid) = name.split_last_chunk()?;
        let name = std::str::from_utf8(name.strip_suffix(&[0])?).ok()?;
        let gateway = GatewayName::new(name).ok()?;
        let tally = DeviceTally::from_bytes(value)?;
        let devices = self.gateways.entry(gateway).or_default();
        self.devices += usize::from(devices.insert(DeviceUid(*uid), tally).is_none());
        Some(())
    }

    /// Takes the sum of the devices of a gateway that are not told apart.
    pub(super) fn load_others(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let gateway = GatewayName::new(std::str::from_utf8(name).ok()?).ok()?;
        let head = read_head(value)?;
        self.others.insert(gateway, head.others);
        Some(())
    }

    /// Forgets a gateway, to load it anew.
    pub(super) fn forget(&mut self, gateway: &GatewayName) {
        let devices = self.gateways.remove(gateway).unwrap_or_default();
        self.devices -= devices.len();
        self.changed.remove(gateway);
        self.others.remove(gateway);
        self.others_changed.remove(gateway);
    }

    /// Has what was loaded of a gateway shown as if it were written just now.
    pub(super) fn show(&mut self, gateway: &GatewayName) {
        let devices = self.gateways.get(gateway).into_iter().flatten();
        let devices = devices.map(|(uid, _)| (gateway.clone(), *uid));
        self.written.extend(devices);
    }

    /// Takes the entry of [`LEDGER_KEY`]; `None` when it cannot be read.
    pub(super) fn load_head(&mut self, value: &[u8]) -> Option<()> {
        self.head = read_head(value)?;
        self.is_head_kept = true;
        Some(())
    }

    /// All entries were loaded; `holds_records`: the sink holds readings or gaps.
    pub(super) fn loaded(&mut self, holds_records: bool) {
        if !self.is_head_kept {
            self.head.begun_late = holds_records;
        }
    }

    /// Counts records that are applied with this batch: readings boot by boot, so that a
    /// full message costs little more than a look at each of them.
    ///
    /// # Panics
    /// When a reading is of none of `series`.
    pub(super) fn take(
        &mut self,
        gateway: &GatewayName,
        series: &[Series],
        records: &[Record],
    ) -> Counted {
        let mut counted = Counted::default();
        let (mut slots, of_series) = slots(series);
        for record in records {
            match record {
                Record::Reading(reading) => {
                    counted.readings += 1;
                    slots[of_series[usize::from(reading.series)]].take(reading.ordinal);
                }
                Record::Gap(gap) => {
                    counted.gap_records += 1;
                    counted.gap_readings = counted.gap_readings.saturating_add(gap.count);
                    self.take_gap(gateway, gap);
                }
                Record::Clock(_) => counted.clock_records += 1,
                Record::Tables(_) => counted.table_records += 1,
            }
        }
        for slot in slots.iter().filter(|slot| slot.count > 0) {
            self.take_readings(gateway, slot);
        }
        counted
    }

    fn take_readings(&mut self, gateway: &GatewayName, slot: &Slot) {
        let from = self.from(slot.first);
        match self.device(gateway, slot.uid) {
            Some(tally) => {
                tally.take_readings((slot.boot, from), (slot.first, slot.last), slot.count);
            }
            None => {
                let others = self.others(gateway);
                others.take_readings(slot.count);
                others.produced = others.produced.saturating_add(slot.count);
            }
        }
    }

    fn take_gap(&mut self, gateway: &GatewayName, gap: &GapRecord) {
        let from = self.from(gap.first);
        match self.device(gateway, gap.uid) {
            Some(tally) => tally.take_gap((gap.boot, from), gap.reason, (gap.first, gap.count)),
            None => {
                let others = self.others(gateway);
                others.take_gap(gap.reason, gap.count);
                others.produced = others.produced.saturating_add(gap.count);
            }
        }
    }

    /// Where a boot begins whose first ordinal known is this one.
    fn from(&self, first: Ordinal) -> Ordinal {
        if self.head.begun_late {
            first
        } else {
            Ordinal(0)
        }
    }

    /// The tally of a device that changes; `None` when there is no room for it.
    fn device(&mut self, gateway: &GatewayName, uid: DeviceUid) -> Option<&mut DeviceTally> {
        if !self.gateways.contains_key(gateway) {
            self.gateways.insert(gateway.clone(), BTreeMap::new());
        }
        let devices = self.gateways.get_mut(gateway).expect("put there just now");
        if !devices.contains_key(&uid) {
            if devices.len() >= DEVICES_MAX || self.devices >= UPSTREAM_DEVICES_MAX {
                return None;
            }
            self.devices += 1;
            devices.insert(uid, DeviceTally::default());
        }
        if !self.changed.contains_key(gateway) {
            self.changed.insert(gateway.clone(), BTreeSet::new());
        }
        self.changed.get_mut(gateway)?.insert(uid);
        devices.get_mut(&uid)
    }

    fn others(&mut self, gateway: &GatewayName) -> &mut Tally {
        self.others_changed.insert(gateway.clone());
        self.others.entry(gateway.clone()).or_default()
    }

    /// What changed since the last call, to be written with the rows.
    pub(super) fn take_writes(&mut self) -> Vec<Entry> {
        let mut out = Vec::new();
        if !self.is_head_kept {
            out.push((LEDGER_KEY.to_vec(), head_bytes(&self.head)));
            self.is_head_kept = true;
        }
        for gateway in std::mem::take(&mut self.others_changed) {
            let others = self.others.get(&gateway).copied().unwrap_or_default();
            let head = LedgerHead {
                begun_late: false,
                others,
            };
            let key = [OTHERS_PREFIX, gateway.as_str().as_bytes()].concat();
            out.push((key, head_bytes(&head)));
        }
        for (gateway, uids) in std::mem::take(&mut self.changed) {
            for uid in uids {
                if let Some(tally) = self.get(&gateway, uid) {
                    out.push((device_key(&gateway, uid), tally.to_bytes()));
                    self.written.push((gateway.clone(), uid));
                }
            }
        }
        out
    }

    /// Devices whose tallies were in batches since the last call.
    pub fn take_written(&mut self) -> Vec<(GatewayName, DeviceUid)> {
        std::mem::take(&mut self.written)
    }

    #[must_use]
    pub fn head(&self) -> LedgerHead {
        let mut head = self.head;
        self.others
            .values()
            .for_each(|tally| head.others.add(tally));
        head
    }

    #[must_use]
    pub fn get(&self, gateway: &GatewayName, uid: DeviceUid) -> Option<&DeviceTally> {
        self.gateways.get(gateway)?.get(&uid)
    }

    /// All tallies, in order of gateway and uid.
    pub fn devices(&self) -> impl Iterator<Item = (&GatewayName, DeviceUid, &DeviceTally)> {
        self.gateways.iter().flat_map(|(gateway, devices)| {
            let devices = devices.iter();
            devices.map(move |(uid, tally)| (gateway, *uid, tally))
        })
    }
}

impl Slot {
    fn take(&mut self, ordinal: Ordinal) {
        self.first = self.first.min(ordinal);
        self.last = self.last.max(ordinal);
        self.count += 1;
    }
}

/// A slot for each boot among the series, and which one each series is of.
fn slots(series: &[Series]) -> (Vec<Slot>, Vec<usize>) {
    let mut slots: Vec<Slot> = Vec::new();
    let mut of_series = Vec::with_capacity(series.len());
    for series in series {
        let same = |slot: &Slot| slot.uid == series.uid && slot.boot == series.boot;
        let known = slots.iter().position(same);
        of_series.push(known.unwrap_or(slots.len()));
        if known.is_none() {
            slots.push(Slot {
                uid: series.uid,
                boot: series.boot,
                first: Ordinal(u64::MAX),
                last: Ordinal(0),
                count: 0,
            });
        }
    }
    (slots, of_series)
}

fn read_head(value: &[u8]) -> Option<LedgerHead> {
    let mut reader = Reader::new(value);
    let [version, begun_late, reasons] = reader.array().ok()?;
    let others = Tally::read(&mut reader, reasons).ok()?;
    if version != VERSION || begun_late > 1 || !reader.is_at_end() {
        return None;
    }
    Some(LedgerHead {
        begun_late: begun_late == 1,
        others,
    })
}

fn device_key(gateway: &GatewayName, uid: DeviceUid) -> Vec<u8> {
    [DEVICE_PREFIX, gateway.as_str().as_bytes(), &[0], &uid.0].concat()
}

fn head_bytes(head: &LedgerHead) -> Vec<u8> {
    let reasons = u8::try_from(GAP_REASONS).expect("a handful of reasons");
    let mut out = vec![VERSION, u8::from(head.begun_late), reasons];
    head.others.push(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GapReason, GapRecord};
    use crate::units::EventTime;

    fn gateway(name: &str) -> GatewayName {
        GatewayName::new(name).expect("a name")
    }

    fn gap(uid: u64, first: u64, count: u64) -> Record {
        Record::Gap(GapRecord {
            reason: GapReason::RingFull,
            uid: DeviceUid(uid.to_be_bytes()),
            boot: BootId(1),
            first: Ordinal(first),
            count,
            time: EventTime(0),
        })
    }

    /// Of each device: gateway, uid as a number, produced, missing.
    fn seen(ledger: &UpstreamLedger) -> Vec<(String, u64, u64, u64)> {
        let devices = ledger.devices();
        let line = |(gateway, uid, tally): (&GatewayName, DeviceUid, &DeviceTally)| {
            let total = tally.total();
            let uid = u64::from_be_bytes(uid.0);
            (gateway.to_string(), uid, total.produced, total.missing())
        };
        devices.map(line).collect()
    }

    fn reload(ledger: &mut UpstreamLedger, held: bool) -> UpstreamLedger {
        let mut out = UpstreamLedger::default();
        for (key, value) in ledger.take_writes() {
            let done = match key.strip_prefix(DEVICE_PREFIX) {
                Some(name) => out.load_device(name, &value),
                None => out.load_head(&value),
            };
            done.expect("it was written just now");
        }
        out.loaded(held);
        out
    }

    #[test]
    fn what_is_written_loads_and_only_changes_are_written_again() {
        let mut ledger = UpstreamLedger::default();
        ledger.take(&gateway("b"), &[], &[gap(2, 0, 5)]);
        ledger.take(&gateway("a"), &[], &[gap(1, 3, 5), gap(2, 0, 1)]);
        let want = [
            (String::from("a"), 1, 8, 3),
            (String::from("a"), 2, 1, 0),
            (String::from("b"), 2, 5, 0),
        ];
        assert_eq!(seen(&ledger), want);
        let mut again = reload(&mut ledger, true);
        assert_eq!(seen(&again), want);
        assert!(!again.head().begun_late, "the ledger is as old as the sink");
        assert!(again.take_writes().is_empty() && ledger.take_writes().is_empty());
        assert_eq!(ledger.take_written().len(), 3);
        again.take(&gateway("a"), &[], &[gap(1, 0, 3)]);
        let keys: Vec<_> = again
            .take_writes()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, [b"device.a\0\0\0\0\0\0\0\0\x01".to_vec()]);
        assert_eq!(seen(&again)[0], (String::from("a"), 1, 8, 0));
    }

    #[test]
    fn a_ledger_that_is_younger_than_its_sink_says_so_for_ever() {
        let mut ledger = UpstreamLedger::default();
        ledger.loaded(true);
        ledger.take(&gateway("a"), &[], &[gap(1, 1000, 1), gap(1, 1002, 1)]);
        assert_eq!(seen(&ledger), [(String::from("a"), 1, 3, 1)]);
        let mut again = reload(&mut ledger, true);
        assert!(again.head().begun_late);
        assert!(
            reload(&mut again, true).head().begun_late,
            "read from the sink's counters"
        );
    }

    #[test]
    fn devices_of_a_gateway_at_their_limit() {
        let mut ledger = UpstreamLedger::default();
        for uid in 0..DEVICES_MAX as u64 + 1 {
            ledger.take(&gateway("a"), &[], &[gap(uid, 0, 2)]);
            let most = DEVICES_MAX as u64;
            let others = if uid < most { 0 } else { 2 };
            assert_eq!(ledger.head().others.produced, others, "{uid}");
        }
        assert_eq!(ledger.devices().count(), DEVICES_MAX);
        // One that is known counts on, and another gateway has room of its own.
        ledger.take(&gateway("a"), &[], &[gap(0, 2, 1)]);
        ledger.take(&gateway("b"), &[], &[gap(9, 0, 1)]);
        assert_eq!(ledger.head().others.gaps[0], 2);
        let again = reload(&mut ledger, true);
        assert_eq!(again.head(), ledger.head());
        assert!(again.head().others.closes());
    }

    #[test]
    fn devices_of_all_gateways_at_their_limit() {
        let mut ledger = UpstreamLedger {
            devices: UPSTREAM_DEVICES_MAX - 1,
            ..UpstreamLedger::default()
        };
        for (uid, others) in [(1, 0), (2, 1), (1, 1)] {
            ledger.take(&gateway("a"), &[], &[gap(uid, 0, 1)]);
            assert_eq!(ledger.head().others.produced, others, "{uid}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        let good = DeviceTally::default().to_bytes();
        for (name, key, value) in [
            (
                "no end of the name",
                &b"gw\x01\0\0\0\0\0\0\0"[..],
                &good[..],
            ),
            ("a short uid", b"gw\0\0\0\0", &good),
            ("no name", b"\0\0\0\0\0\0\0\0\0", &good),
            ("no text", b"\xff\0\0\0\0\0\0\0\0\0", &good),
            ("a value of nothing", b"gw\0\0\0\0\0\0\0\0\0", b""),
        ] {
            let loaded = UpstreamLedger::default().load_device(key, value);
            assert_eq!(loaded, None, "{name}");
        }
        let head = head_bytes(&LedgerHead::default());
        for (name, at, byte) in [("version", 0, 2), ("flag", 1, 2), ("reasons", 2, 6)] {
            let mut head = head.clone();
            head[at] = byte;
            assert_eq!(UpstreamLedger::default().load_head(&head), None, "{name}");
        }
        for cut in 0..head.len() {
            assert_eq!(UpstreamLedger::default().load_head(&head[..cut]), None);
        }
    }
}
