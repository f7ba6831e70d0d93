//! Searches for bytes that break `settings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::run("settings", bytes));
