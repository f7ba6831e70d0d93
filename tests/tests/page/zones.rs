//! Times where the clock on the wall is set forward or back, or is not whole hours off UTC.
//! The instants that are drawn have equal distances; what is said of them is theirs alone.

use serde_json::json;

use super::bare::Bare;
use super::rig::pictures;

/// Draws one chart, and holds what it says against the browser's own calendar.
const CHART: &str = include_str!("zones.js");
const RANGES: [u32; 6] = [300, 900, 3600, 21_600, 86_400, 604_800];

/// Zone, and a moment within a quarter of an hour behind a change, or an hour.
const MOMENTS: [(&str, &str, &str); 16] = [
    ("forward", "Europe/Berlin", "2026-03-29T01:04:00Z"),
    ("day of forward", "Europe/Berlin", "2026-03-29T21:30:00Z"),
    ("first of two", "Europe/Berlin", "2026-10-25T00:59:00Z"),
    ("back", "Europe/Berlin", "2026-10-25T01:04:00Z"),
    ("second of two", "Europe/Berlin", "2026-10-25T01:59:59Z"),
    ("day of back", "Europe/Berlin", "2026-10-25T22:30:00Z"),
    ("no change", "Asia/Kathmandu", "2026-10-25T18:20:00Z"),
    ("half hour", "Asia/Kolkata", "2026-10-25T18:40:00Z"),
    (
        "back, half hour",
        "Australia/Lord_Howe",
        "2026-04-04T15:20:00Z",
    ),
    (
        "forward, half hour",
        "Australia/Lord_Howe",
        "2026-10-03T15:40:00Z",
    ),
    (
        "west, half hour",
        "America/St_Johns",
        "2026-11-01T04:40:00Z",
    ),
    ("no midnight", "Africa/Cairo", "2026-04-23T22:10:00Z"),
    (
        "day without midnight",
        "Africa/Cairo",
        "2026-04-24T20:10:00Z",
    ),
    ("two midnights", "Africa/Cairo", "2026-10-29T21:40:00Z"),
    (
        "back at midnight",
        "America/Santiago",
        "2026-04-05T03:30:00Z",
    ),
    ("none at all", "UTC", "2026-10-25T01:04:00Z"),
];

#[test]
fn times_are_right_and_of_one_moment_where_the_clock_is_changed() {
    let mut bare = Bare::start();
    bare.open();
    let mut faults = Vec::new();
    for (name, zone, moment) in MOMENTS {
        let zoned = json!({ "timezoneId": zone });
        bare.browser.call("Emulation.setTimezoneOverride", &zoned);
        for range in RANGES {
            let drawn = bare
                .browser
                .eval(&format!("({CHART})({moment:?}, {range})"));
            let found = drawn["faults"].as_array().expect("a list");
            faults.extend(
                found
                    .iter()
                    .map(|fault| format!("{name} in {zone}, {range} s: {fault}")),
            );
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(bare.browser.complaints(), Vec::<String>::new());
}

/// What it looks like: within an hour that is there twice, and with what is around it.
#[test]
fn an_hour_that_is_there_twice_says_which_one_it_is() {
    let mut bare = Bare::start();
    let zoned = json!({ "timezoneId": "Europe/Berlin" });
    bare.browser.call("Emulation.setTimezoneOverride", &zoned);
    bare.open();
    for (name, range) in [("1h", 3600), ("6h", 21_600)] {
        let drawn = format!("({CHART})(\"2026-10-25T01:30:00Z\", {range})");
        let drawn = bare.browser.eval(&drawn);
        assert_eq!(drawn["read"][1], "02:30:00 +01:00", "{drawn}");
        let labels = drawn["labels"].to_string();
        for pass in ["02:00\\n+02:00", "02:00\\n+01:00"] {
            let there = range == 21_600 || pass.ends_with("+01:00");
            assert_eq!(labels.contains(pass), there, "{pass} in {labels}");
        }
        pictures(&mut bare.browser, &format!("clock-back-{name}"));
    }
}
