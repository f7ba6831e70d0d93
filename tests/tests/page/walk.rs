//! The walk: two devices live, one unplugged, back with a gap, a late reading, the broker
//! and the agent away.

use forebay_tests::process::{ANSWER_LIMIT, forebay_bin};
use forebay_tests::wait;
use serde_json::Value;

use super::rig::Rig;
use super::served::now_us;

const PUMP: usize = 1;
/// So long ago all windows of a late reading are closed.
const LATE_US: i64 = 150_000_000;

/// What the page has in an attribute or as a text of the first element that fits.
fn shown(rig: &mut Rig, selector: &str, what: &str) -> String {
    let value = rig.browser.eval(&format!(
        "(() => {{ const node = document.querySelector({selector:?}); \
         return node ? String({what}) : 'no {}'; }})()",
        selector.replace('\'', "")
    ));
    value.as_str().unwrap_or_default().to_owned()
}

/// The figure in the element, bit for bit as JavaScript read it from the API.
fn figure(rig: &mut Rig, selector: &str) -> f64 {
    let text = shown(rig, selector, "node.getAttribute('value')");
    text.parse()
        .unwrap_or_else(|_| panic!("{selector}: {text}"))
}

fn chart(device: &str, channel: &str) -> String {
    format!(".chart[data-device={device}][data-channel={channel}]")
}

fn state_of(device: &str, state: &str) -> String {
    format!(
        "document.querySelector('tr.device[data-device={device}] .state')?.dataset.is === '{state}'"
    )
}

/// Every figure that the page has of a channel is what the API says of it.
fn compare(rig: &mut Rig, device: &str, channel: &str) {
    let of = format!("device={device}&channel={channel}");
    let here = chart(device, channel);
    let stat = |nth: usize| format!("{here} .stats div:nth-child({nth}) data");

    let readings = rig
        .agent
        .api(&format!("readings?{of}&from=-5m&newest=true&limit=100000"));
    let series = &readings["series"][0];
    let newest = series["values"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .as_f64();
    assert_eq!(Some(figure(rig, &stat(1))), newest, "newest of {of}");
    let in_list = format!("tr.channel[data-device={device}][data-channel={channel}] td data");
    assert_eq!(Some(figure(rig, &in_list)), newest, "in the list, {of}");

    let rolling = rig.agent.api(&format!("rolling?{of}&window=60s"));
    let mean = rolling["series"][0]["mean"].as_f64();
    assert_eq!(Some(figure(rig, &stat(2))), mean, "rolling of {of}");

    let rollups = rig.agent.api(&format!("rollups?{of}&window=60s&from=-5m"));
    let last = |name: &str| {
        let column = rollups["series"][0][name].as_array().unwrap();
        column.last().unwrap().as_f64()
    };
    assert_eq!(Some(figure(rig, &stat(4))), last("mean"), "minute of {of}");
    let band = shown(rig, &stat(3), "node.getAttribute('value')");
    let band: Vec<Option<f64>> = band.split(' ').map(|text| text.parse().ok()).collect();
    assert_eq!(band, [last("min"), last("max")], "band of {of}");
    rows_of_the_table(rig, &here, &rollups["series"][0]);
}

/// The table that stands for the chart has each window of the API.
fn rows_of_the_table(rig: &mut Rig, here: &str, series: &Value) {
    let open = format!(
        "(() => {{ const table = document.querySelector('{here} details'); \
         if (!table.open) table.querySelector('summary').click(); return table.open; }})()"
    );
    rig.until("the table is open", &open);
    let filled = format!("document.querySelectorAll('{here} tbody tr').length > 0");
    rig.until("the table is filled", &filled);
    let cells = rig.browser.eval(&format!(
        "[...document.querySelectorAll('{here} tbody tr')].map((row) => \
         [...row.children].slice(1, 5).map((cell) => cell.textContent))"
    ));
    let rows = cells.as_array().unwrap();
    let column = |name: &str| series[name].as_array().unwrap().iter().rev();
    assert_eq!(rows.len(), series["starts"].as_array().unwrap().len());
    for (name, at) in [("count", 0), ("mean", 1), ("min", 2), ("max", 3)] {
        for (row, want) in rows.iter().zip(column(name)) {
            let text = row[at].as_str().unwrap();
            let is: f64 = text.parse().unwrap_or_else(|_| panic!("{name}: {text}"));
            let want = want.as_f64().unwrap();
            // The table shows seven digits.
            assert!(
                (is - want).abs() <= want.abs() * 1e-6,
                "{name}: {is} for {want}"
            );
        }
    }
}

/// The ledger of a device that is away does not move, and both say the same.
fn compare_ledger(rig: &mut Rig, device: &str) {
    let status = rig.agent.api("ledger");
    let devices = status["devices"].as_array().unwrap();
    let of = devices.iter().find(|one| one["device"] == device).unwrap();
    let ledger = &of["ledger"];
    for name in ["produced", "readings", "gaps", "lost", "missing"] {
        // Gaps stand by their reasons, with their sum.
        let total = ledger[name].get("total").unwrap_or(&ledger[name]);
        let want = total.as_f64();
        let selector = format!("#ledger-rows tr[data-device={device}] data[data-figure={name}]");
        wait::until(&format!("{name} of {device}"), ANSWER_LIMIT, || {
            let is = figure(rig, &selector);
            if Some(is) == want {
                Ok(())
            } else {
                Err(format!("{is} for {want:?}"))
            }
        });
    }
    let closes = ledger["closes"].as_bool();
    let pill = format!("#ledger-rows tr[data-device={device}] .pill");
    let said = shown(rig, &pill, "node.textContent");
    let want = match closes {
        Some(true) => "close",
        Some(false) => "do not close",
        None => "not told yet",
    };
    assert!(said.starts_with(want), "{said} for {closes:?}");
}

fn compare_alarms(rig: &mut Rig) {
    let texts = |alarms: &Value| {
        let alarms = alarms.as_array().unwrap().iter();
        let mut texts: Vec<String> = alarms
            .map(|alarm| format!("{} {}", alarm["code"], alarm["subject"]))
            .collect();
        texts.sort();
        texts
    };
    wait::until("the alarms are the API's", ANSWER_LIMIT, || {
        let want = texts(&rig.agent.api("alarms")["alarms"]);
        let is = texts(&rig.browser.eval(
            "[...document.querySelectorAll('#alarm-list > li')].map((alarm) => \
             ({ code: alarm.dataset.code, subject: alarm.dataset.subject }))",
        ));
        let lost = want.iter().any(|alarm| alarm.contains("port-lost"));
        if is == want && lost {
            Ok(())
        } else {
            Err(format!("{is:?} for {want:?}"))
        }
    });
    let runbooks = rig.browser.eval(
        "[...document.querySelectorAll('#alarm-list > li')].every((alarm) => \
         alarm.querySelector('details').hidden === false)",
    );
    assert_eq!(runbooks, true, "each alarm says what to do");
}

/// Nothing was asked of anybody else, and the browser has nothing to complain of.
fn quiet(rig: &Rig) {
    let ours = rig.agent.address();
    for request in rig.browser.requests() {
        assert!(request.starts_with(&ours), "asks for {request}");
    }
    assert_eq!(rig.browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_shows_what_happens_to_a_device_that_is_unplugged_and_comes_back() {
    let mut rig = Rig::start();
    for device in ["boiler", "pump"] {
        rig.until("a device is fresh", &state_of(device, "fresh"));
    }
    live(&mut rig);
    rig.pictures("live");
    quiet(&rig);
    unplugged(&mut rig);
    quiet(&rig);
    back_with_a_gap(&mut rig);
    late(&mut rig);
    rig.pictures("gap-and-late");
    quiet(&rig);
    broker_away(&mut rig);
    agent_away(&mut rig);
}

/// Readings come in by the stream, without a question for each.
fn live(rig: &mut Rig) {
    let connected = "document.querySelector('#connection').dataset.live === 'true'";
    rig.until("the stream is open", connected);
    let points = "Number(document.querySelector('.chart')?.dataset.points)";
    // Both channels: the charts are made anew when the second one is heard of.
    let drawn = format!("document.querySelectorAll('.chart').length === 2 && {points} > 0");
    rig.until("both charts are drawn", &drawn);
    let before = rig.browser.eval(points).as_u64().unwrap();
    let asked = rig.browser.requests().len();
    rig.until(
        "twenty more readings",
        &format!("{points} >= {}", before + 20),
    );
    let asked = rig.browser.requests().len() - asked;
    assert!(asked <= 12, "{asked} questions for twenty readings");
    let forwarding = "document.querySelector('#links-out .pill')?.textContent === 'connected'";
    rig.until("the broker is connected", forwarding);
}

fn unplugged(rig: &mut Rig) {
    rig.cables[PUMP].unplug();
    rig.until("the pump is away", &state_of("pump", "away"));
    rig.until("the boiler is not", &state_of("boiler", "fresh"));
    rig.browser
        .eval("document.querySelector('tr.channel[data-device=pump] .pick').click()");
    let channel = "[...document.querySelectorAll('tr.channel[data-device=pump]')].map(\
                   (row) => row.dataset.channel)[0]";
    let channel = rig.browser.eval(channel).as_str().unwrap().to_owned();
    let here = chart("pump", &channel);
    let silent = format!("Number(document.querySelector('{here}')?.dataset.silent) === 1");
    rig.until("the chart says that nothing comes", &silent);
    let average = format!(
        "document.querySelector('{here} .stats div:nth-child(4) data').value !== '' && \
         document.querySelector('{here} .stats div:nth-child(2) data').value !== ''"
    );
    rig.until("its figures are there", &average);
    compare(rig, "pump", &channel);
    compare_ledger(rig, "pump");
    compare_alarms(rig);
    rig.pictures("unplugged");
}

fn back_with_a_gap(rig: &mut Rig) {
    wait::until("the device overwrites readings", ANSWER_LIMIT, || {
        let pump = rig.sim.snapshot()[PUMP];
        (pump.gaps > 0).then_some(()).ok_or(format!("{pump:?}"))
    });
    let gaps = "Number(document.querySelector('.chart[data-device=pump]').dataset.gaps)";
    let before = rig.browser.eval(gaps).as_u64().unwrap();
    rig.cables[PUMP].plug_in();
    rig.until("the pump is fresh again", &state_of("pump", "fresh"));
    rig.until("the gap is on the chart", &format!("{gaps} > {before}"));
}

fn late(rig: &mut Rig) {
    let channel = shown(rig, ".chart[data-device=pump]", "node.dataset.channel");
    let time = now_us() - LATE_US;
    rig.ingest("pump", &channel, time, 20.25);
    let marked = "Number(document.querySelector('.chart[data-device=pump]').dataset.late) === 1";
    rig.until("the late mark is on the chart", marked);
    let rows = rig.agent.api("rows?stream=late&from=-10m");
    let row = &rows["rows"][0];
    assert_eq!(row["value"], 20.25, "{rows}");
    let told = "document.querySelector('.chart[data-device=pump] details').textContent\
                .includes('20.25')";
    rig.until("the table tells of it", told);
}

fn broker_away(rig: &mut Rig) {
    rig.broker.stop();
    let away = "document.querySelector('#links-out .pill').textContent === 'away'";
    rig.until("the broker is away", away);
    let grows = "Number(document.querySelector('#links-out li').dataset.backlog) > 20";
    rig.until("what waits for it grows", grows);
    rig.broker.restart();
    let connected = "document.querySelector('#links-out .pill').textContent === 'connected'";
    rig.until("it is connected again", connected);
}

fn agent_away(rig: &mut Rig) {
    rig.agent.dies();
    let said = "!document.querySelector('#trouble').hidden && \
                document.querySelector('#trouble').textContent.includes('does not answer')";
    rig.until("the page says that nobody answers", said);
    rig.until(
        "nothing is called fresh any more",
        &format!("!({})", state_of("boiler", "fresh")),
    );
    rig.pictures("agent-away");
    // A browser logs each question that nobody answers.
    rig.browser.forget();
    rig.agent.starts(forebay_bin());
    rig.until(
        "the page takes it up",
        "document.querySelector('#trouble').hidden",
    );
    let connected = "document.querySelector('#connection').dataset.live === 'true'";
    rig.until("the stream is open again", connected);
    rig.until("the boiler is fresh again", &state_of("boiler", "fresh"));
}
