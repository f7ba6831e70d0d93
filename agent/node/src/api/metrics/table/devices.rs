//! The ledger of each device, what it says of itself, and ports.

use super::super::from::Figure::{Flag, Micros, Millis, Number, Text};
use super::super::from::Label::{At, Key};
use super::{Kind, Labels, Metric, from};

const DEVICE: Labels = &[("device", At("/devices/*/device"))];

const DEVICE_REASON: Labels = &[("device", At("/devices/*/device")), ("reason", Key)];

const DEVICE_FRAME: Labels = &[("device", At("/devices/*/device")), ("frame", Key)];

const PORT: Labels = &[("port", At("/ports/*/name"))];

/// See the module.
pub(super) const METRICS: &[Metric] = &[
    // The ledger of each device.
    gauge!(
        "forebay_device_connected",
        "Whether it is on a port.",
        "/devices/*/connected",
        DEVICE,
        Flag
    ),
    counter!(
        "forebay_device_produced_total",
        "Ordinals that it is known to have given out, over all boots.",
        "/devices/*/ledger/produced",
        DEVICE
    ),
    counter!(
        "forebay_device_taken_total",
        "Of these, what was taken: readings, gaps and lost ones.",
        "/devices/*/ledger/taken",
        DEVICE
    ),
    counter!(
        "forebay_device_readings_total",
        "Readings taken of it.",
        "/devices/*/ledger/readings",
        DEVICE
    ),
    counter!(
        "forebay_device_duplicates_total",
        "Readings of it that came again and were left out.",
        "/devices/*/ledger/duplicates",
        DEVICE
    ),
    counter!(
        "forebay_device_gap_readings_total",
        "Readings of it in declared gaps, by why they never came.",
        "/devices/*/ledger/gaps/by_reason/*",
        DEVICE_REASON
    ),
    counter!(
        "forebay_device_lost_total",
        "Readings of it that the log had and lost before they were counted.",
        "/devices/*/ledger/lost",
        DEVICE
    ),
    gauge!(
        "forebay_device_missing",
        "Readings that it gave out and that are not here yet.",
        "/devices/*/ledger/missing",
        DEVICE,
        Number
    ),
    gauge!(
        "forebay_device_waiting_disk",
        "Readings of it that are not durable yet.",
        "/devices/*/ledger/waiting_disk",
        DEVICE,
        Number
    ),
    gauge!(
        "forebay_device_ledger_closes",
        "Whether the sums of its ledger close.",
        "/devices/*/ledger/closes",
        DEVICE,
        Flag
    ),
    Metric {
        name: "forebay_device_ledger_off",
        kind: Kind::Gauge,
        help: "By how much a sum of its ledger does not close.",
        sources: &[from(
            "/devices/*/ledger/off/*",
            &[("device", At("/devices/*/device")), ("sum", Key)],
            Number,
        )],
    },
    // What a device says of the boot that it is in.
    gauge!(
        "forebay_device_boot",
        "The boot that it last told of.",
        "/devices/*/ledger/device/boot",
        DEVICE,
        Number
    ),
    counter!(
        "forebay_device_boot_produced_total",
        "Readings that it says to have given out in this boot.",
        "/devices/*/ledger/device/produced",
        DEVICE
    ),
    counter!(
        "forebay_device_boot_acked_total",
        "Readings of this boot that it knows to be acked.",
        "/devices/*/ledger/device/acked",
        DEVICE
    ),
    gauge!(
        "forebay_device_boot_waiting",
        "Readings that wait in its ring.",
        "/devices/*/ledger/device/waiting",
        DEVICE,
        Number
    ),
    counter!(
        "forebay_device_boot_gap_readings_total",
        "Readings that it lost in this boot, by why.",
        "/devices/*/ledger/device/gaps/by_reason/*",
        DEVICE_REASON
    ),
    counter!(
        "forebay_device_boot_suppressed_total",
        "Samples of this boot that its thresholds held back.",
        "/devices/*/ledger/device/suppressed",
        DEVICE
    ),
    gauge!(
        "forebay_device_health_age_seconds",
        "How long ago it last told of itself.",
        "/devices/*/health/age_us",
        DEVICE,
        Micros
    ),
    gauge!(
        "forebay_device_ring_high",
        "Most readings that waited in its ring in this boot.",
        "/devices/*/health/ring_high",
        DEVICE,
        Number
    ),
    counter!(
        "forebay_device_frames_received_total",
        "Frames that it heard, by what they were.",
        "/devices/*/health/received/*",
        DEVICE_FRAME
    ),
    counter!(
        "forebay_device_rx_dropped_total",
        "Bytes that it had no room for.",
        "/devices/*/health/rx_dropped",
        DEVICE
    ),
    counter!(
        "forebay_device_resends_total",
        "Times that it sent its window again.",
        "/devices/*/health/resends",
        DEVICE
    ),
    counter!(
        "forebay_device_missed_samples_total",
        "Samples that it was too late for.",
        "/devices/*/health/missed",
        DEVICE
    ),
    counter!(
        "forebay_device_log_dropped_total",
        "Lines of its log that it had no room for.",
        "/devices/*/health/log_dropped",
        DEVICE
    ),
    gauge!(
        "forebay_device_stack_free_bytes",
        "Stack that was never used.",
        "/devices/*/health/stack_free",
        DEVICE,
        Number
    ),
    // Ports.
    gauge!(
        "forebay_port_open",
        "Whether the port is open.",
        "/ports/*/state",
        PORT,
        Text("open")
    ),
    gauge!(
        "forebay_port_state_seconds",
        "For how long it has been as it is.",
        "/ports/*/state_s",
        PORT,
        Number
    ),
    gauge!(
        "forebay_port_baud",
        "Rate at which the serial line is open, bits a second.",
        "/ports/*/baud",
        PORT,
        Number
    ),
    gauge!(
        "forebay_port_latency_seconds",
        "How long the USB adapter holds bytes back.",
        "/ports/*/latency_ms",
        PORT,
        Millis
    ),
    counter!(
        "forebay_port_received_bytes_total",
        "Bytes heard.",
        "/ports/*/bytes_in",
        PORT
    ),
    counter!(
        "forebay_port_sent_bytes_total",
        "Bytes said.",
        "/ports/*/bytes_out",
        PORT
    ),
    counter!(
        "forebay_port_opens_total",
        "Times that it was opened.",
        "/ports/*/opens",
        PORT
    ),
    counter!(
        "forebay_port_dropped_writes_total",
        "Frames that were not written.",
        "/ports/*/dropped_writes",
        PORT
    ),
    counter!(
        "forebay_port_frames_total",
        "Whole frames heard since it was opened.",
        "/ports/*/frames_ok",
        PORT
    ),
    counter!(
        "forebay_port_frames_bad_total",
        "Frames that did not read.",
        "/ports/*/frames_bad",
        PORT
    ),
    counter!(
        "forebay_port_frames_ahead_total",
        "Frames before which something was missing.",
        "/ports/*/frames_ahead",
        PORT
    ),
    counter!(
        "forebay_port_frames_refused_total",
        "Frames that were not taken; the device repeats them.",
        "/ports/*/frames_refused",
        PORT
    ),
    counter!(
        "forebay_port_devices_refused_total",
        "Devices that were turned away because the table is full.",
        "/ports/*/devices_refused",
        PORT
    ),
];
