//! Decoders under bytes of any kind. A target takes bytes and panics when a decoder
//! panics, takes what it would not write, or breaks a sum. `tests/replay.rs` runs
//! each over its folder of `corpus` and over mutations of it; `libfuzzer` searches.
//!
//! Bound: one input; a target keeps nothing.
// A target says by a panic what it found.
#![allow(clippy::unwrap_used)]

mod device;
mod stored;
mod wire;

/// What runs a target, and the folder of its corpus.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 9] = [
    Target {
        name: "device_line",
        run: wire::device_line,
    },
    Target {
        name: "gateway_line",
        run: wire::gateway_line,
    },
    Target {
        name: "device_body",
        run: wire::device_body,
    },
    Target {
        name: "gateway_body",
        run: wire::gateway_body,
    },
    Target {
        name: "settings",
        run: wire::settings,
    },
    Target {
        name: "accounts",
        run: device::accounts,
    },
    Target {
        name: "device",
        run: device::device,
    },
    Target {
        name: "block",
        run: stored::block,
    },
    Target {
        name: "payload",
        run: stored::payload,
    },
];

/// Runs the target of this name.
///
/// # Panics
/// When there is none, or when it found something.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap().run)(bytes);
}
