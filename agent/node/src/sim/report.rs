//! What `forebay device sim` prints of its devices: who they are, what each came
//! to, and whether the sums close. As text, or as one JSON object per line.

use forebay_firmware::wire::message::GapReason;
use serde_json::{Map, Value, json};

use super::{SimDeviceInfo, SimPlace, SimShows, SimSnapshot};

pub(super) fn describe(info: &SimDeviceInfo, as_json: bool) -> String {
    let (key, place) = match &info.place {
        SimPlace::Pty { path, link } => {
            ("path", link.as_ref().unwrap_or(path).display().to_string())
        }
        SimPlace::Tcp(address) => ("address", address.to_string()),
        SimPlace::InProcess => ("in_process", "true".to_owned()),
    };
    if as_json {
        json!({"uid": info.uid.to_string(), key: place, "channels": info.channels}).to_string()
    } else {
        format!(
            "device {} at {place} measures {}",
            info.uid,
            info.channels.join(", ")
        )
    }
}

/// What a board would blink.
pub(super) fn shows(shows: SimShows, as_json: bool) -> String {
    let SimShows { uid, seconds } = shows;
    if as_json {
        json!({"uid": uid.to_string(), "identify_s": seconds}).to_string()
    } else if seconds == 0 {
        format!("device {uid}: shown no longer")
    } else {
        format!("device {uid}: here I am, for {seconds} s")
    }
}

/// By name, as a gateway names them.
fn reasons(gaps: &[u64; GapReason::ALL.len()]) -> Map<String, Value> {
    let name = |reason| match reason {
        GapReason::RingFull => "ring_full",
        GapReason::IsrFull => "isr_full",
        GapReason::SensorOff => "sensor_off",
        GapReason::PowerLoss => "power_loss",
    };
    let named = GapReason::ALL.into_iter().zip(gaps);
    named
        .map(|(reason, count)| (name(reason).to_owned(), json!(count)))
        .collect()
}

pub(super) fn count(device: &SimSnapshot, as_json: bool) -> String {
    let earlier = &device.earlier;
    if as_json {
        return json!({
            "uid": device.uid.to_string(),
            "boot": device.boot.0,
            "produced": device.produced,
            "acked": device.acked,
            "waiting": device.waiting,
            "gaps": device.gaps,
            "gaps_by_reason": reasons(&device.gaps_by_reason),
            "earlier": {
                "boots": earlier.boots,
                "produced": earlier.produced,
                "acked": earlier.acked,
                "gaps": earlier.gaps,
                "reset": earlier.reset,
                "owed_boots": device.owed_boots,
            },
            "resends": device.resends,
            "bad_frames": device.bad_frames,
            "faults": device.faults,
            "stalls": device.stalls,
            "unplugs": device.unplugs,
            "missed_samples": device.missed_samples,
            "closes": device.closes(),
        })
        .to_string();
    }
    let mut line = format!(
        "device {} produced {} acked {} waiting {} gaps {} resends {} bad frames {}",
        device.uid,
        device.produced,
        device.acked,
        device.waiting,
        device.gaps,
        device.resends,
        device.bad_frames
    );
    if earlier.boots > 0 {
        line += &format!(
            "; {} earlier boots produced {} acked {} gaps {} lost by reset {}",
            earlier.boots, earlier.produced, earlier.acked, earlier.gaps, earlier.reset
        );
    }
    line
}

/// Of all devices and boots.
pub(super) fn total(devices: &[SimSnapshot], as_json: bool) -> String {
    let sum = |of: fn(&SimSnapshot) -> u64| devices.iter().map(of).sum::<u64>();
    let produced = sum(SimSnapshot::produced_in_all);
    let acked = sum(|device| device.earlier.acked + device.acked);
    let waiting = sum(|device| device.waiting);
    let gaps = sum(|device| device.earlier.gaps + device.gaps);
    let reset = sum(|device| device.earlier.reset);
    let open = devices.iter().filter(|device| !device.closes()).count();
    if as_json {
        return json!({
            "devices": devices.len(),
            "produced": produced,
            "acked": acked,
            "waiting": waiting,
            "gaps": gaps,
            "reset": reset,
            "faults": sum(|device| device.faults),
            "closes": open == 0,
        })
        .to_string();
    }
    let verdict = if open == 0 {
        "the sums close".to_owned()
    } else {
        format!("the sums of {open} devices do not close")
    };
    format!(
        "{} devices: produced {produced} = acked {acked} + waiting {waiting} + gaps {gaps} + lost \
         by reset {reset}: {verdict}",
        devices.len()
    )
}

#[cfg(test)]
mod tests {
    use super::super::board::EarlierBoots;
    use super::*;
    use forebay_firmware::wire::ids::{BootId, DeviceUid};

    fn device() -> SimSnapshot {
        SimSnapshot {
            uid: DeviceUid([1; 8]),
            boot: BootId(3),
            open: true,
            produced: 10,
            acked: 6,
            settled: 9,
            waiting: 1,
            gaps: 3,
            gaps_by_reason: [3, 0, 0, 0],
            earlier: EarlierBoots {
                boots: 2,
                produced: 20,
                acked: 15,
                gaps: 1,
                reset: 4,
                ..EarlierBoots::default()
            },
            owed_boots: 1,
            resends: 0,
            bad_frames: 0,
            faults: 7,
            stalls: 0,
            unplugs: 0,
            missed_samples: 0,
        }
    }

    #[test]
    fn the_last_line_says_whether_the_sums_close() {
        let good = [device(), device()];
        assert_eq!(
            total(&good, false),
            "2 devices: produced 60 = acked 42 + waiting 2 + gaps 8 + lost by reset 8: the sums close"
        );
        let breaks: [fn(&mut SimSnapshot); 4] = [
            |device| device.acked += 1,
            |device| device.gaps_by_reason[1] += 1,
            |device| device.earlier.reset -= 1,
            |device| device.earlier.produced += 1,
        ];
        for (at, broken) in breaks.into_iter().enumerate() {
            let mut bad = good;
            broken(&mut bad[1]);
            let text = total(&bad, false);
            assert!(
                text.ends_with("the sums of 1 devices do not close"),
                "{at}: {text}"
            );
            let json: Value = serde_json::from_str(&total(&bad, true)).unwrap();
            assert_eq!(json["closes"], false, "{at}");
        }
    }

    #[test]
    fn a_device_that_is_asked_where_it_is_says_so() {
        let uid = DeviceUid([1; 8]);
        for (name, seconds, want) in [
            ("on", 10, "device 0101010101010101: here I am, for 10 s"),
            ("off", 0, "device 0101010101010101: shown no longer"),
        ] {
            assert_eq!(shows(SimShows { uid, seconds }, false), want, "{name}");
            let json: Value =
                serde_json::from_str(&shows(SimShows { uid, seconds }, true)).unwrap();
            assert_eq!(json["identify_s"], seconds, "{name}");
        }
    }

    #[test]
    fn both_forms_have_the_earlier_boots() {
        let text = count(&device(), false);
        assert!(
            text.ends_with("; 2 earlier boots produced 20 acked 15 gaps 1 lost by reset 4"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&count(&device(), true)).unwrap();
        assert_eq!(json["earlier"]["reset"], 4);
        assert_eq!(json["gaps_by_reason"]["ring_full"], 3);
        assert_eq!(json["closes"], true);
    }
}
