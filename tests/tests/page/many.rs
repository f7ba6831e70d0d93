//! The page of agents that have nothing, or much: no device at all; two hundred devices of
//! three channels; names that are long, or are read from right to left; values of any size,
//! and none; and a chart of means with a hole in it.

use std::fmt::Write as _;

use super::bare::{Bare, line};
use super::rig::pictures;
use super::served::now_us;

const DEVICES: usize = 200;
const CHANNELS: [&str; 3] = ["temperature", "humidity", "pressure"];

#[test]
fn a_page_without_devices_says_so() {
    let mut bare = Bare::start();
    bare.open();
    let waits = "/^Waiting for a first reading/.test(\
                 document.querySelector('#connection').textContent)";
    bare.browser.until("the page waits for one", waits);
    let says = "/no device|no sensor/i.test(document.querySelector('main').innerText)";
    bare.browser.until("it says that there is none", says);
    pictures(&mut bare.browser, "empty");
    assert_eq!(bare.browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_page_of_two_hundred_devices_is_whole() {
    let mut bare = Bare::start();
    let (mut lines, now) = (String::new(), now_us());
    for back in (0..5).rev() {
        for device in 0..DEVICES {
            for (at, channel) in CHANNELS.iter().enumerate() {
                let value = (device * 3 + at + back).to_string();
                let time = now - i64::try_from(back).unwrap() * 1_000_000;
                line(
                    &mut lines,
                    &format!("machine-{device:03}"),
                    channel,
                    time,
                    &value,
                );
            }
        }
    }
    bare.ingest(&lines);
    bare.open();
    let rows = format!("document.querySelectorAll('tr.device').length === {DEVICES}");
    bare.browser.until("all devices are there", &rows);
    let drawn = "[...document.querySelectorAll('.chart')].filter((chart) => \
                 Number(chart.dataset.points) === 5).length === 3";
    bare.browser.until("the first one is drawn", drawn);
    pictures(&mut bare.browser, "many");
    let nodes = bare.browser.eval("document.querySelectorAll('*').length");
    assert!(nodes.as_u64() < Some(40_000), "{nodes} nodes");
    assert_eq!(bare.browser.complaints(), Vec::<String>::new());
}

#[test]
fn names_and_values_of_any_kind_have_their_place() {
    let mut bare = Bare::start();
    let long = "a-device-whose-name-was-made-by-a-machine-and-is-as-long-as-it-may-be-0001";
    let long = &long[..long.len().min(64)];
    let right_to_left = "\u{5de}\u{5d3}\u{5d7}\u{5d5}\u{5dd}";
    let (mut lines, now) = (String::new(), now_us());
    let values = [
        "1e300",
        "-1e300",
        "5e-324",
        "0",
        "null",
        "123456789.123456789",
        "1e-9",
    ];
    for (at, value) in values.iter().enumerate() {
        let time = now - 60_000_000 + i64::try_from(at).unwrap() * 1_000_000;
        if *value == "null" {
            // The sensor gave none.
            let fault = r#""quality":"bus_error""#;
            writeln!(
                lines,
                r#"{{"device":"{long}","channel":"huge_and_tiny","time":{time},{fault}}}"#
            )
            .unwrap();
        } else {
            line(&mut lines, long, "huge_and_tiny", time, value);
        }
        line(
            &mut lines,
            right_to_left,
            "\u{5d7}\u{5d5}\u{5dd}",
            time,
            "21.5",
        );
        line(&mut lines, "plain", "steady", time, "7");
    }
    bare.ingest(&lines);
    bare.open();
    let rows = "document.querySelectorAll('tr.device').length === 3";
    bare.browser.until("all devices are there", rows);
    for device in [long, right_to_left, "plain"] {
        let pick =
            format!("document.querySelector('tr.channel[data-device=\"{device}\"] .pick').click()");
        bare.browser.eval(&pick);
        let drawn = format!(
            "Number(document.querySelector('.chart[data-device=\"{device}\"]')?.dataset.points) === 7"
        );
        bare.browser.until("its readings are drawn", &drawn);
        let name = if device == long {
            "long"
        } else if device == "plain" {
            "steady"
        } else {
            "right-to-left"
        };
        pictures(&mut bare.browser, &format!("names-{name}"));
    }
    assert_eq!(bare.browser.complaints(), Vec::<String>::new());
}

/// Times are those of whoever looks, also where they are not whole hours off.
#[test]
fn times_are_those_of_the_browsers_zone() {
    let mut bare = Bare::start();
    let (mut lines, time) = (String::new(), now_us() - 20_000_000);
    line(&mut lines, "boiler", "temperature", time, "20.5");
    bare.ingest(&lines);
    for (zone, minutes) in [("Asia/Kathmandu", 345), ("UTC", 0)] {
        let zone = serde_json::json!({ "timezoneId": zone });
        bare.browser.call("Emulation.setTimezoneOverride", &zone);
        bare.open();
        let there = (time / 1_000_000 + minutes * 60).rem_euclid(86_400);
        let shown = format!(
            "{:02}:{:02}:{:02}",
            there / 3600,
            there / 60 % 60,
            there % 60
        );
        let newest = format!(
            "(document.querySelector('.stats small')?.textContent ?? '').includes('{shown}')"
        );
        bare.browser
            .until("the newest reading has its time", &newest);
    }
}

/// Two hours of a reading a second, with twenty minutes missing: too many to draw one by one
/// over six hours.
#[test]
fn a_chart_of_means_is_broken_where_windows_are_missing() {
    let mut bare = Bare::start();
    let (mut lines, now) = (String::new(), now_us());
    for back in (0..7200).rev() {
        if !(2400..3600).contains(&back) {
            let time = now - back * 1_000_000;
            let value = 20.0 + (back as f64 / 300.0).sin();
            line(
                &mut lines,
                "boiler",
                "temperature",
                time,
                &value.to_string(),
            );
        }
    }
    bare.ingest(&lines);
    bare.open();
    let there = "document.querySelectorAll('.chart').length === 1";
    bare.browser.until("the chart is there", there);
    bare.browser.eval(
        "(() => { const six = [...document.querySelectorAll('input[type=radio], select option, button')]\
         .find((node) => node.value === '24h'); \
         if (six.tagName === 'OPTION') { six.parentElement.value = six.value; \
         six.parentElement.dispatchEvent(new Event('change', { bubbles: true })); } else { six.click(); } })()",
    );
    // Recorded devices are followed by their uid.
    let live = "document.querySelector('#connection').dataset.live === 'true'";
    bare.browser.until("what comes in is followed", live);
    let broken = "Number(document.querySelector('.chart').dataset.silent) >= 1 && \
                  /Means of/.test(document.querySelector('.chart').innerText)";
    bare.browser.until("means are drawn, with the hole", broken);
    pictures(&mut bare.browser, "means");
    // The rules of it, by themselves.
    let rules = bare.browser.eval(
        "import(new URL('series.js', document.querySelector('script[type=module]').src)).then((m) => { \
         const band = (start) => ({ start, end: start + 60e6, mean: start }); \
         const bands = [band(0), band(60e6), band(240e6), band(300e6)]; \
         const holes = m.missing(bands, 60e6, 600e6); \
         return { holes, none: m.missing([], 60e6, 600e6), open: m.missing(bands, 60e6, 421e6), \
           columns: m.meanColumns(bands, holes)[1], inside: m.within(130e6, holes, 60e6), \
           beside: m.within(30e6, holes, 60e6) }; })",
    );
    assert_eq!(
        rules,
        serde_json::json!({
            "holes": [[120_000_000, 240_000_000], [360_000_000, 600_000_000]],
            "none": [],
            "open": [[120_000_000, 240_000_000]],
            "columns": [0, 60_000_000, null, 240_000_000, 300_000_000, null],
            "inside": { "start": 120_000_000, "end": 240_000_000 },
            "beside": { "start": 0, "end": 60_000_000 },
        })
    );
}
